//! The name of a thread, as the kernel keeps it.

use std::borrow::Cow;

/// Bytes of a thread's name with its end: `TASK_COMM_LEN` of include/linux/sched.h.
const LEN: usize = 16;

/// What a thread is called at some moment: `execve` and `prctl` change it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ThreadName([u8; LEN]);

impl ThreadName {
    /// The recording does not say.
    pub const NONE: ThreadName = ThreadName([0; LEN]);

    /// The name that these bytes begin with, up to the first zero; what is too long is cut.
    pub fn new(bytes: &[u8]) -> ThreadName {
        let mut name = [0; LEN];
        let used = bytes.iter().take(LEN - 1).take_while(|byte| **byte != 0).count();
        name[..used].copy_from_slice(&bytes[..used]);
        ThreadName(name)
    }

    /// Whether the recording says it.
    pub fn is_known(self) -> bool {
        self != ThreadName::NONE
    }

    /// Its bytes, zeros behind them.
    pub fn bytes(&self) -> &[u8; LEN] {
        &self.0
    }

    /// As text; `None` if it is not known.
    pub fn text(&self) -> Option<Cow<'_, str>> {
        let end = self.0.iter().position(|byte| *byte == 0).unwrap_or(LEN);
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
