//! Placeholder.
use crate::{Input, Source, TraceError};
/// Whether the first bytes are of this format.
pub fn looks_like(_head: &[u8]) -> bool {
    false
}
/// Opens it.
pub fn open(input: Input) -> Result<Box<dyn Source>, TraceError> {
    Err(TraceError::Empty { name: input.name().to_string() })
}
