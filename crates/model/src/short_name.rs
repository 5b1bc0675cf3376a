//! Names that events carry, of a thread and of the handler of an interrupt: bytes of a length that is known before.

use std::borrow::Cow;

/// A name in so many bytes, of which one zero at least ends it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ShortName<const BYTES: usize>([u8; BYTES]);

/// What a thread is called at some moment: `execve` and `prctl` change it. As long as `TASK_COMM_LEN` of include/linux/sched.h.
pub type ThreadName = ShortName<16>;

/// What the handler of an interrupt is called (`struct irqaction` of include/linux/interrupt.h); what is longer is cut.
pub type IrqName = ShortName<24>;

impl<const BYTES: usize> Default for ShortName<BYTES> {
    fn default() -> Self {
        Self::NONE
    }
}

impl<const BYTES: usize> ShortName<BYTES> {
    /// The recording does not say.
    pub const NONE: Self = ShortName([0; BYTES]);

    /// The name that these bytes begin with, up to the first zero; what is too long is cut.
    pub fn new(bytes: &[u8]) -> Self {
        let mut name = [0; BYTES];
        let used = bytes.iter().take(BYTES - 1).take_while(|byte| **byte != 0).count();
        name[..used].copy_from_slice(&bytes[..used]);
        ShortName(name)
    }

    /// Whether the recording says it.
    pub fn is_known(self) -> bool {
        self != Self::NONE
    }

    /// Its bytes, zeros behind them.
    pub fn bytes(&self) -> &[u8; BYTES] {
        &self.0
    }

    /// As text; `None` if it is not known.
    pub fn text(&self) -> Option<Cow<'_, str>> {
        let end = self.0.iter().position(|byte| *byte == 0).unwrap_or(BYTES);
        (end > 0).then(|| String::from_utf8_lossy(&self.0[..end]))
    }
}

impl ThreadName {
    /// The same as [`ShortName::new`] of both halves, one after the other: without a loop, for every switch has one.
    #[inline]
    pub fn of_halves(first: [u8; 8], second: [u8; 8]) -> ThreadName {
        const ONES: u128 = u128::from_ne_bytes([1; 16]);
        let word = u128::from(u64::from_le_bytes(second)) << 64 | u128::from(u64::from_le_bytes(first));
        // The last byte is never part of a name.
        let word = word & u128::MAX >> 8;
        // The high bit of each byte that is zero, up to the first one: behind that, some that are 1 may look like it.
        let zeros = word.wrapping_sub(ONES) & !word & ONES << 7;
        let used = zeros.trailing_zeros() / 8;
        ShortName((word & !(u128::MAX << (8 * used))).to_le_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_thread_is_called_the_same_however_its_name_is_read(mut bytes: [u8; 16], few in 0u8..3, at in 0usize..32) {
            // Zeros, and what is nearly zero, anywhere.
            bytes.iter_mut().skip(at % 16).step_by(1 + at / 4).for_each(|byte| *byte = few);
            if let Some(byte) = bytes.get_mut(at) {
                *byte = 0;
            }
            let (first, second) = bytes.split_at(8);
            let name = ThreadName::of_halves(first.try_into().unwrap(), second.try_into().unwrap());
            prop_assert_eq!(name, ThreadName::new(&bytes));
        }
    }

    #[test]
    fn a_name_ends_at_its_first_zero_and_has_fifteen_bytes_at_most() {
        for (bytes, text) in [
            (&b"yes\0junk"[..], Some("yes")),
            (b"CPU 0/KVM", Some("CPU 0/KVM")),
            (b"a name that is too long", Some("a name that is ")),
            (b"\0yes", None),
            (b"", None),
        ] {
            let name = ThreadName::new(bytes);
            assert_eq!(name.text().as_deref(), text);
            assert_eq!((name.is_known(), name.bytes()[15]), (text.is_some(), 0));
        }
    }
}
