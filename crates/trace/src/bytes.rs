//! Numbers out of byte slices in either byte order. Every read is bounds-checked; `None` is "too short".

/// Byte order of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ByteOrder {
    /// Least significant byte first.
    Little,
    /// Most significant byte first.
    Big,
}

impl ByteOrder {
    /// This machine's.
    pub const NATIVE: ByteOrder = if cfg!(target_endian = "little") { ByteOrder::Little } else { ByteOrder::Big };

    /// The u16 at `at`.
    #[inline(always)]
    pub fn u16(self, bytes: &[u8], at: usize) -> Option<u16> {
        let raw = *bytes.get(at..)?.first_chunk()?;
        Some(if self == ByteOrder::Little { u16::from_le_bytes(raw) } else { u16::from_be_bytes(raw) })
    }

    /// The u32 at `at`.
    #[inline(always)]
    pub fn u32(self, bytes: &[u8], at: usize) -> Option<u32> {
        let raw = *bytes.get(at..)?.first_chunk()?;
        Some(if self == ByteOrder::Little { u32::from_le_bytes(raw) } else { u32::from_be_bytes(raw) })
    }

    /// The u64 at `at`.
    #[inline(always)]
    pub fn u64(self, bytes: &[u8], at: usize) -> Option<u64> {
        let raw = *bytes.get(at..)?.first_chunk()?;
        Some(if self == ByteOrder::Little { u64::from_le_bytes(raw) } else { u64::from_be_bytes(raw) })
    }

    /// The u32 that these bytes are.
    #[inline(always)]
    pub fn number(self, raw: [u8; 4]) -> u32 {
        if self == ByteOrder::Little { u32::from_le_bytes(raw) } else { u32::from_be_bytes(raw) }
    }

    /// The u64 at `at`, a multiple of 8 below 64.
    #[inline(always)]
    pub fn word(self, bytes: &[u8; 64], at: u8) -> u64 {
        // The mask lets the compiler see that the word is inside.
        let at = usize::from(at & 0x38);
        self.u64(&bytes[at..at + 8], 0).unwrap_or(0)
    }

    /// The two u32 that follow one another in a u64.
    #[inline(always)]
    pub fn halves(self, word: u64) -> (u32, u32) {
        match self {
            ByteOrder::Little => (word as u32, (word >> 32) as u32),
            ByteOrder::Big => ((word >> 32) as u32, word as u32),
        }
    }

    /// The bytes that this u64 was read from.
    #[inline(always)]
    pub fn bytes(self, word: u64) -> [u8; 8] {
        if self == ByteOrder::Little { word.to_le_bytes() } else { word.to_be_bytes() }
    }

    /// The unsigned number of 1, 2, 4 or 8 bytes at `at`; other sizes are `None`.
    #[inline(always)]
    pub fn unsigned(self, bytes: &[u8], at: usize, size: usize) -> Option<u64> {
        match size {
            1 => bytes.get(at).map(|&byte| u64::from(byte)),
            2 => self.u16(bytes, at).map(u64::from),
            4 => self.u32(bytes, at).map(u64::from),
            8 => self.u64(bytes, at),
            _ => None,
        }
    }
}

/// The text up to the first NUL starting at `at`, and the offset after that NUL.
pub fn c_string(bytes: &[u8], at: usize) -> Option<(&str, usize)> {
    let rest = bytes.get(at..)?;
    let end = rest.iter().position(|&byte| byte == 0)?;
    Some((std::str::from_utf8(&rest[..end]).ok()?, at + end + 1))
}

/// The beginning of `text`, at most so many bytes of it.
pub(crate) fn beginning(text: &str, most: usize) -> &str {
    let end = (0..=most).rev().find(|&end| text.is_char_boundary(end)).unwrap_or(0);
    &text[..end]
}
