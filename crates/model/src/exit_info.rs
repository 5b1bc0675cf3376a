//! What an exit says besides its reason and where it was.
//!
//! ```text
//! kvm_exit{npf, rip 0xfff0, info1 0x14, …} ─► EventKind::Exit{npf, 0xfff0} · EventKind::ExitInfo{info1 0x14, …}
//! ```
//!
//! A new word is a row here, the field of its tracepoint, and where it is shown.

/// A word of `kvm_exit`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ExitWord {
    /// VMX's exit qualification, SVM's EXITINFO1.
    Info1,
    /// VMX's IDT-vectoring information, SVM's EXITINFO2.
    Info2,
    /// The interrupt or exception that the exit was for, or interrupted.
    IntrInfo,
    /// Its error code.
    ErrorCode,
    /// What others had asked of the vCPU (`KVM_REQ_*`).
    Requests,
}

impl ExitWord {
    /// All.
    pub const ALL: [ExitWord; 5] =
        [ExitWord::Info1, ExitWord::Info2, ExitWord::IntrInfo, ExitWord::ErrorCode, ExitWord::Requests];

    /// What the kernel calls it.
    pub const fn name(self) -> &'static str {
        self.row().0
    }

    /// Its name, and where in [`ExitInfo`] it is: its first byte, and how many.
    const fn row(self) -> (&'static str, usize, usize) {
        match self {
            ExitWord::Info1 => ("info1", 0, 8),
            ExitWord::Info2 => ("info2", 8, 8),
            ExitWord::IntrInfo => ("intr_info", 16, 4),
            ExitWord::ErrorCode => ("error_code", 20, 4),
            // Of 64 bits, x86 uses fewer than 48 (`KVM_ARCH_REQ`, `arch/x86/include/asm/kvm_host.h`).
            ExitWord::Requests => ("requests", 24, 6),
        }
    }
}

/// The words of an exit, as far as the trace has them.
// In bytes, so that an event with them fits into a line of cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExitInfo {
    bytes: [u8; 30],
    known: u8,
}

impl ExitInfo {
    /// Those that `of` knows, if any. One that is larger than its kind can be is not known.
    pub fn from_words(of: impl Fn(ExitWord) -> Option<u64>) -> Option<ExitInfo> {
        let mut info = ExitInfo::default();
        for word in ExitWord::ALL {
            let Some(value) = of(word) else { continue };
            let (_, at, count) = word.row();
            let bytes = value.to_le_bytes();
            let (low, high) = bytes.split_at(count);
            info.bytes[at..at + count].copy_from_slice(low);
            info.known |= u8::from(high.iter().all(|byte| *byte == 0)) << word as u8;
        }
        (info.known > 0).then_some(info)
    }

    /// A word; `None` if the trace does not have it.
    pub fn get(&self, word: ExitWord) -> Option<u64> {
        let (_, at, count) = word.row();
        let mut bytes = [0; 8];
        bytes[..count].copy_from_slice(&self.bytes[at..at + count]);
        (self.known & 1 << word as u8 != 0).then_some(u64::from_le_bytes(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_the_trace_lacks_are_not_known() {
        assert_eq!(ExitInfo::from_words(|_| None), None);
        let some = ExitInfo::from_words(|word| (word == ExitWord::ErrorCode).then_some(0)).unwrap();
        let known = ExitWord::ALL.map(|word| (word.name(), some.get(word)));
        assert_eq!(
            known,
            [("info1", None), ("info2", None), ("intr_info", None), ("error_code", Some(0)), ("requests", None)]
        );
    }

    #[test]
    fn each_word_is_kept_apart_from_the_others() {
        for only in ExitWord::ALL {
            let largest = u64::MAX >> (64 - 8 * only.row().2);
            let of = |value: u64, other: Option<u64>| {
                ExitInfo::from_words(|word| if word == only { Some(value) } else { other })
            };
            for word in ExitWord::ALL {
                let is_it = word == only;
                assert_eq!(of(largest, None).unwrap().get(word), is_it.then_some(largest), "{only:?}, {word:?}");
                assert_eq!(of(largest, Some(0)).unwrap().get(word), Some(if is_it { largest } else { 0 }));
                assert_eq!(of(7, Some(0)).unwrap().get(word), Some(if is_it { 7 } else { 0 }));
            }
            assert!(largest == u64::MAX || of(largest + 1, None).is_none(), "{only:?}: not known rather than cut");
        }
    }
}
