//! What an x86 exit for a port access says of it itself, before any event of its handler.
//!
//! ```text
//! kvm_exit{io, info1 0x03f80011} ─► PortWords ─► Detail{port 0x3f8, in, 1 byte, plain}
//! ```

use crate::{CodeList, Detail, DetailKind, ExitCode};
use exitscope_policy::port_path::{Access, Direction};

/// Where the data of an access are, as far as the trace says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Form {
    /// The trace does not say.
    #[default]
    Untold,
    /// In a register: what the exit says is enough to serve it.
    Plain,
    /// In memory (INS, OUTS, with REP or without): the instruction has to be emulated.
    String,
}

/// The low half of VMX's exit qualification or of SVM's EXITINFO1, of an exit for a port access.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortWords(u32);

impl PortWords {
    /// The event does not say, or the exit is for something else. Recorders that leave the words out write zero, so a byte
    /// out to port 0, which VMX says so, is told by `kvm_pio` alone.
    pub const NONE: PortWords = PortWords(0);

    /// What an exit of this code says with `info1` of `kvm_exit`.
    #[inline(always)]
    pub const fn new(code: ExitCode, info1: u64) -> PortWords {
        if code.is_port_access() { PortWords(info1 as u32) } else { PortWords::NONE }
    }

    /// The words of an exit of this code for such an access.
    pub const fn of(code: ExitCode, access: &Detail) -> PortWords {
        let port = (access.key as u32) << 16;
        let (is_in, is_string) = (!access.write, matches!(access.form, Form::String));
        let words = match code.list {
            CodeList::Vmx => {
                port | (is_in as u32) << 3 | (is_string as u32) << 4 | (access.size as u32).wrapping_sub(1) & 7
            }
            _ => port | is_in as u32 | (is_string as u32) << 2 | (access.size as u32 & 7) << 4,
        };
        PortWords::new(code, words as u64)
    }

    /// `info1` of `kvm_exit`.
    pub const fn info1(self) -> u64 {
        self.0 as u64
    }

    /// The access, of an exit of this code.
    pub fn access(self, code: ExitCode) -> Option<Detail> {
        if self == PortWords::NONE {
            return None;
        }
        let access = match code.list {
            CodeList::Vmx => Access::from_vmx(self.0.into(), 0),
            _ => Access::from_svm(self.0.into(), 0),
        };
        matches!(access.size, 1 | 2 | 4).then_some(Detail {
            kind: DetailKind::Port,
            write: access.direction == Direction::Out,
            form: if access.qualifies() { Form::Plain } else { Form::String },
            size: access.size.into(),
            key: access.port.into(),
            value: 0,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_accesses_are_the_same_thing() {
        for code in [ExitCode::new(CodeList::Vmx, 30), ExitCode::new(CodeList::Svm, 0x7b)] {
            for (write, size, form) in [(true, 1, Form::Plain), (false, 2, Form::String), (false, 4, Form::Plain)] {
                let access = Detail { kind: DetailKind::Port, write, form, size, key: 0x1f7, value: 0 };
                assert_eq!(PortWords::of(code, &access).access(code), Some(access));
            }
            assert_eq!(PortWords::NONE.access(code), None);
            assert_eq!(PortWords::new(code, 0), PortWords::NONE);
            // A size that no access has.
            assert_eq!(PortWords::new(code, 0x03f8_0007 | 0x70).access(code), None);
        }
        let other = ExitCode::new(CodeList::Svm, 0x400);
        assert_eq!(PortWords::new(other, 0x03f8_0011), PortWords::NONE);
    }
}
