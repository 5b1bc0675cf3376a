//! todo
pub struct Assembler;
pub struct LaneSpan;
