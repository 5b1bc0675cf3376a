//! Blocks of records as PERF_RECORD_COMPRESSED.
//!
//! ```text
//! record record record …  ─►  COMPRESSED header, a frame of zstd · COMPRESSED header, a frame · …
//! ```

use super::bytes::Bytes;
use crate::perf::records::COMPRESSED;
use std::io;
use zstd::bulk;

/// Bytes that go into one record at most, so that it is shorter than 64 KiB even if they cannot be compressed. Readers have
/// a buffer of this size for what comes out of each.
pub const CHUNK: usize = 60 << 10;

/// As `perf record -z` has it.
pub const LEVEL: i32 = 1;

/// Compresses blocks. Each frame stands for itself, so that what is behind a damaged one can be read.
pub struct Compressor(bulk::Compressor<'static>);

impl std::fmt::Debug for Compressor {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        f.write_str("Compressor")
    }
}

impl Compressor {
    pub fn new() -> io::Result<Compressor> {
        bulk::Compressor::new(LEVEL).map(Compressor)
    }

    /// Puts compressed records in place of the records in `block`.
    pub fn compress(&mut self, block: &mut Bytes) -> io::Result<()> {
        let plain = std::mem::take(&mut block.bytes);
        for chunk in plain.chunks(CHUNK) {
            let record = block.begin_record(COMPRESSED, 0);
            block.bytes.extend_from_slice(&self.0.compress(chunk)?);
            block.set_size(record);
        }
        Ok(())
    }
}
