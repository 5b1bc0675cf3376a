//! A cursor over one line's bytes. Every step says whether the text was as expected; nothing is copied.

/// What is left of a line.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scan<'a> {
    /// The bytes not yet read.
    pub rest: &'a [u8],
}

impl<'a> Scan<'a> {
    /// A cursor at the beginning of `text`.
    pub fn new(text: &'a [u8]) -> Scan<'a> {
        Scan { rest: text }
    }

    /// Passes exactly `text`.
    #[inline]
    pub fn literal(&mut self, text: &str) -> Option<()> {
        self.rest = self.rest.strip_prefix(text.as_bytes())?;
        Some(())
    }

    /// Passes everything up to and including `mark`, and returns what was before it.
    #[inline]
    pub fn until(&mut self, mark: &str) -> Option<&'a [u8]> {
        let mark = mark.as_bytes();
        let at = self.rest.windows(mark.len()).position(|window| window == mark)?;
        let before = &self.rest[..at];
        self.rest = &self.rest[at + mark.len()..];
        Some(before)
    }

    /// Passes spaces, if there are any.
    #[inline]
    pub fn spaces(&mut self) {
        self.rest = self.rest.trim_ascii_start();
    }

    /// Passes and returns the bytes before the next space or tab, which may be none.
    #[inline]
    pub fn word(&mut self) -> &'a [u8] {
        let end = self.rest.iter().position(|byte| matches!(byte, b' ' | b'\t')).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        word
    }

    /// A decimal number.
    #[inline]
    pub fn decimal(&mut self) -> Option<u64> {
        let mut value = 0u64;
        let mut digits = 0;
        while let Some(&byte @ b'0'..=b'9') = self.rest.get(digits) {
            value = value.checked_mul(10)?.checked_add(u64::from(byte - b'0'))?;
            digits += 1;
        }
        self.rest = &self.rest[digits..];
        (digits > 0).then_some(value)
    }

    /// A decimal number that fits 32 bits.
    #[inline]
    pub fn decimal32(&mut self) -> Option<u32> {
        self.decimal()?.try_into().ok()
    }

    /// A hexadecimal number, with `0x` or without.
    #[inline]
    pub fn hex(&mut self) -> Option<u64> {
        let text = self.rest.strip_prefix(b"0x").unwrap_or(self.rest);
        let mut value = 0u64;
        let mut digits = 0;
        while let Some(digit) = text.get(digits).and_then(|&byte| (byte as char).to_digit(16)) {
            if value >> 60 != 0 {
                return None;
            }
            value = value << 4 | u64::from(digit);
            digits += 1;
        }
        self.rest = &text[digits..];
        (digits > 0).then_some(value)
    }
}

/// The decimal number at the end of `text`, and what is before it.
#[inline]
pub(crate) fn ends_with_number(text: &[u8]) -> Option<(&[u8], u32)> {
    let digits = text.iter().rev().take(11).take_while(|byte| byte.is_ascii_digit()).count();
    let (before, number) = text.split_at(text.len() - digits);
    Some((before, Scan::new(number).decimal32()?))
}

/// What comes before and after the last `mark` in `text`.
pub(crate) fn split_last<'a>(text: &'a [u8], mark: &str) -> Option<(&'a [u8], &'a [u8])> {
    let mark = mark.as_bytes();
    let at = text.windows(mark.len()).rposition(|window| window == mark)?;
    Some((&text[..at], &text[at + mark.len()..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stop_at_the_first_byte_that_is_no_digit() {
        let mut scan = Scan::new(b"12 0xfee0,beef zz");
        assert_eq!(scan.decimal(), Some(12));
        scan.spaces();
        assert_eq!(scan.hex(), Some(0xfee0));
        assert_eq!(scan.literal(","), Some(()));
        assert_eq!(scan.hex(), Some(0xbeef));
        scan.spaces();
        assert_eq!(scan.hex(), None);
        assert_eq!(scan.decimal(), None);
    }

    #[test]
    fn numbers_that_do_not_fit_are_refused() {
        assert_eq!(Scan::new(b"18446744073709551615").decimal(), Some(u64::MAX));
        assert_eq!(Scan::new(b"18446744073709551616").decimal(), None);
        assert_eq!(Scan::new(b"0xffffffffffffffff").hex(), Some(u64::MAX));
        assert_eq!(Scan::new(b"0x10000000000000000").hex(), None);
        assert_eq!(Scan::new(b"4294967296").decimal32(), None);
    }

    #[test]
    fn a_number_is_found_at_the_end() {
        assert_eq!(ends_with_number(b"kworker/0:1-17"), Some((&b"kworker/0:1-"[..], 17)));
        assert_eq!(ends_with_number(b"no"), None);
        assert_eq!(ends_with_number(b"99999999999999"), None);
    }
}
