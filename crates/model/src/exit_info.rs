//! What an exit says besides its reason and where it was.
//!
//! ```text
//! kvm_exit{npf, rip 0xfff0, info1 0x14, …} ─► Kind::Exit{npf, 0xfff0} · Kind::ExitInfo{info1 0x14, …}
//! ```
//!
//! A new word is a row here, the field of its tracepoint, and where it is shown.

/// A word of `kvm_exit`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ExitWord {
    /// VMX's exit qualification, SVM's EXITINFO1.
    Info1,
}

impl ExitWord {
    /// All.
    pub const ALL: [ExitWord; 1] = [ExitWord::Info1];

    /// What the kernel calls it.
    pub const fn name(self) -> &'static str {
        self.row().0
    }

    /// Its name, where its 4 bytes are in [`ExitInfo`], and whether 4 more belong to it.
    const fn row(self) -> (&'static str, usize, bool) {
        match self {
            ExitWord::Info1 => ("info1", 0, true),
        }
    }
}

/// The words of an exit, as far as the trace has them.
// In halves of 8 bytes, so that an event with them fits into a line of cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExitInfo {
    halves: [u32; 2],
    known: u8,
}

impl ExitInfo {
    /// Those that `of` knows, if any; of words of 4 bytes the lower half.
    pub fn from_words(of: impl Fn(ExitWord) -> Option<u64>) -> Option<ExitInfo> {
        let mut info = ExitInfo::default();
        for word in ExitWord::ALL {
            let Some(value) = of(word) else { continue };
            let (_, at, is_wide) = word.row();
            info.known |= 1 << word as u8;
            info.halves[at] = value as u32;
            if is_wide {
                info.halves[at + 1] = (value >> 32) as u32;
            }
        }
        (info.known > 0).then_some(info)
    }

    /// A word; `None` if the trace does not have it.
    pub fn get(&self, word: ExitWord) -> Option<u64> {
        let (_, at, is_wide) = word.row();
        let high = if is_wide { u64::from(self.halves[at + 1]) << 32 } else { 0 };
        (self.known & 1 << word as u8 != 0).then(|| high | u64::from(self.halves[at]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_word_is_kept_apart_from_the_others() {
        for only in ExitWord::ALL {
            let one = ExitInfo::from_words(|word| (word == only).then_some(0x1234_5678_9abc_def0)).unwrap();
            let all = ExitInfo::from_words(|word| Some(if word == only { u64::MAX } else { 0 })).unwrap();
            for word in ExitWord::ALL {
                let (of_one, of_all) = match (word == only, word.row().2) {
                    (true, true) => (Some(0x1234_5678_9abc_def0), u64::MAX),
                    (true, false) => (Some(0x9abc_def0), u32::MAX.into()),
                    (false, _) => (None, 0),
                };
                assert_eq!((one.get(word), all.get(word)), (of_one, Some(of_all)), "{only:?}, {word:?}");
            }
        }
    }
}
