//! Unpacking of compressed sections and chunks.

use crate::source::is_sane_unpacking;

/// How a file's sections and chunks are compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Packing {
    /// Not at all.
    None,
    /// zlib streams.
    Zlib,
    /// Zstandard frames without their content size.
    Zstd,
}

impl Packing {
    /// The compressor that a trace.dat names.
    pub fn named(name: &str) -> Option<Packing> {
        match name {
            "none" => Some(Packing::None),
            "zlib" => Some(Packing::Zlib),
            "zstd" => Some(Packing::Zstd),
            _ => None,
        }
    }
}

/// Unpacks one piece after the other.
pub(super) struct Unpacker {
    codec: Codec,
    /// Bytes in and out so far.
    total_in: u64,
    total_out: u64,
}

/// A compressor's working memory.
enum Codec {
    /// There is nothing to unpack.
    None,
    /// zlib.
    Zlib(Box<flate2::Decompress>),
    /// Zstandard; without a context if it could not be made.
    Zstd(Option<zstd::bulk::Decompressor<'static>>),
}

impl Unpacker {
    /// Unpacks what `packing` packed.
    pub fn new(packing: Packing) -> Unpacker {
        let codec = match packing {
            Packing::None => Codec::None,
            Packing::Zlib => Codec::Zlib(Box::new(flate2::Decompress::new(true))),
            Packing::Zstd => Codec::Zstd(zstd::bulk::Decompressor::new().ok()),
        };
        Unpacker { codec, total_in: 0, total_out: 0 }
    }

    /// Fills `out` with the `size` bytes that `packed` holds; false if it does not hold exactly so many.
    pub fn unpack(&mut self, packed: &[u8], size: usize, out: &mut Vec<u8>) -> bool {
        out.clear();
        self.total_in += packed.len() as u64;
        self.total_out += size as u64;
        if !is_sane_unpacking(self.total_in, self.total_out) {
            return false;
        }
        out.reserve(size);
        match &mut self.codec {
            Codec::None => false,
            Codec::Zlib(stream) => {
                stream.reset(true);
                // The vector may have more room than asked for, and zlib fills what there is.
                let done = stream.decompress_vec(packed, out, flate2::FlushDecompress::Finish);
                matches!(done, Ok(flate2::Status::StreamEnd)) && out.len() == size
            }
            Codec::Zstd(context) => {
                let done = context.as_mut().map(|context| context.decompress_to_buffer(packed, out));
                matches!(done, Some(Ok(_))) && out.len() == size
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn little_that_unpacks_to_much_is_left_in_the_end() {
        let plain = vec![0; 16 << 20];
        let packed = zstd::bulk::compress(&plain, 1).unwrap();
        let (mut unpacker, mut out) = (Unpacker::new(Packing::Zstd), Vec::new());
        let unpacked = (0..100).filter(|_| unpacker.unpack(&packed, plain.len(), &mut out)).count();
        assert_eq!(unpacked, 16);
    }

    #[test]
    fn a_piece_must_have_the_size_it_says() {
        let plain: Vec<u8> = (0..9_000u32).map(|n| ((n * n) >> 7) as u8).collect();
        let mut zlib = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::best());
        zlib.write_all(&plain).unwrap();
        for (packing, packed) in
            [(Packing::Zlib, zlib.finish().unwrap()), (Packing::Zstd, zstd::bulk::compress(&plain, 1).unwrap())]
        {
            let mut unpacker = Unpacker::new(packing);
            let mut out = Vec::new();
            assert!(unpacker.unpack(&packed, plain.len(), &mut out) && out == plain);
            assert!(!unpacker.unpack(&packed, plain.len() - 1, &mut out));
            assert!(!unpacker.unpack(&packed, plain.len() + 1, &mut out));
            assert!(!unpacker.unpack(&packed[..packed.len() - 9], plain.len(), &mut out));
            assert!(unpacker.unpack(&packed, plain.len(), &mut out) && out == plain);
        }
    }
}
