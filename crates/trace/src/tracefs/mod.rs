//! What tracefs says of its events, shared by perf.data and trace.dat: `format` texts, and what KVM's tracepoints mean.

mod decode;
mod format;
mod role;
mod sections;

pub use crate::bytes::ByteOrder;
pub use decode::{Decoded, Decoder, Decoders, NEAR};
pub use format::{Field, Format};
pub use role::{CountRole, FieldLocation, WriteRule};
pub use sections::{Sections, Torn, parse_cmdlines};
