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

#[cfg(test)]
mod tests {
    use super::*;

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
