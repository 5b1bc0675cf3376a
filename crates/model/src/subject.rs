//! What an x86 exit says of its subject itself, before any event of its handler.
//!
//! ```text
//! kvm_exit{io, info1 0x03f80011}                       ─► SubjectWord ─► Subject{port 0x3f8, in, 1 byte, plain}
//! kvm_exit{APIC_WRITE, info1 0x380}                    ─► SubjectWord ─► Subject{APIC register 0x380, write}
//! kvm_exit{EXTERNAL_INTERRUPT, intr_info 0x800000ec}   ─► SubjectWord ─► Subject{host's vector 0xec}
//! ```
//!
//! Words are those of Intel's SDM, volume 3, "Exit Qualification" and "VM-Exit Interruption Information", and of AMD's APM,
//! volume 2, "#VMEXIT" of each intercept. `INVPCID`, `XSETBV` and MSRs say their subject in registers, which no word holds.

use crate::{CodeList, ExitCode, ExitWord, Subject, SubjectKind};
use exitscope_policy::port_path::{Direction, PortAccess};

/// Where the data of an access are, as far as the trace says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum PortAccessForm {
    /// The trace does not say.
    #[default]
    Unknown,
    /// In a register: what the exit says is enough to serve it.
    NonString,
    /// In memory (INS, OUTS, with REP or without): the instruction has to be emulated.
    String,
}

/// What an exit's own record says of its subject: of a port access the low half of VMX's exit qualification or of SVM's
/// EXITINFO1; of others what of a word tells the subject, and that it was there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SubjectWord(u32);

/// The word was there: zero may be a subject.
const KNOWN: u32 = 1 << 31;

/// Of `VM_EXIT_INTR_INFO`: there was an interrupt or exception (`INTR_INFO_VALID_MASK` of `arch/x86/include/asm/vmx.h`).
const VALID: u64 = 1 << 31;

/// What an exit's record may say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SubjectEncoding {
    /// A port access, by all of the word's low half.
    Port,
    /// VMX: the vector of the host's interrupt.
    HostVector,
    /// VMX: the vector of the exception or of the NMI.
    Exception,
    TaskSwitch,
    ControlRegister,
    DebugRegister,
    /// VMX: the register, read or written as the qualification's access type says.
    ApicAccess,
    /// VMX: the register, after it was written.
    ApicWrite,
    /// VMX: the vector whose EOI was made virtually.
    VirtualEoi,
    EptViolation,
    NestedPageFault,
    /// SVM: an IPI that hardware could not deliver whole.
    IncompleteIpi,
    /// SVM: an APIC register for which hardware leaves the guest.
    Unaccelerated,
}

impl ExitCode {
    /// Whether the words of x86's kvm_exit say what it is about.
    pub const fn has_subject(self) -> bool {
        SubjectEncoding::of(self).is_some()
    }
}

impl SubjectEncoding {
    const fn of(code: ExitCode) -> Option<SubjectEncoding> {
        let basic = code.basic();
        Some(match (basic.list, basic.number) {
            _ if code.is_port_access() => SubjectEncoding::Port,
            (CodeList::Vmx, 0) => SubjectEncoding::Exception,
            (CodeList::Vmx, 1) => SubjectEncoding::HostVector,
            (CodeList::Vmx, 9) => SubjectEncoding::TaskSwitch,
            (CodeList::Vmx, 28) => SubjectEncoding::ControlRegister,
            (CodeList::Vmx, 29) => SubjectEncoding::DebugRegister,
            (CodeList::Vmx, 44) => SubjectEncoding::ApicAccess,
            (CodeList::Vmx, 45) => SubjectEncoding::VirtualEoi,
            (CodeList::Vmx, 48) => SubjectEncoding::EptViolation,
            (CodeList::Vmx, 56) => SubjectEncoding::ApicWrite,
            (CodeList::Svm, 0x400) => SubjectEncoding::NestedPageFault,
            (CodeList::Svm, 0x401) => SubjectEncoding::IncompleteIpi,
            (CodeList::Svm, 0x402) => SubjectEncoding::Unaccelerated,
            _ => return None,
        })
    }

    const fn word(self) -> ExitWord {
        match self {
            SubjectEncoding::HostVector | SubjectEncoding::Exception => ExitWord::IntrInfo,
            _ => ExitWord::Info1,
        }
    }

    /// What of the word tells the subject: but for port accesses 16 bits, and up to 8 of those above. Recorders that leave a word out write zero, which
    /// is a subject only where it is the most usual one: MOV to CR0 from RAX.
    const fn pack(self, word: u64) -> u32 {
        let (low, high) = match self {
            SubjectEncoding::Port => return word as u32,
            _ if word == 0 && !matches!(self, SubjectEncoding::ControlRegister) => return 0,
            SubjectEncoding::HostVector | SubjectEncoding::Exception if word & VALID == 0 => return 0,
            // Bits 0 to 10 are the vector and its type.
            SubjectEncoding::HostVector | SubjectEncoding::Exception => (word & 0x7ff, 0),
            // The task's selector, and what led to it in bits 30 and 31.
            SubjectEncoding::TaskSwitch => (word, word >> 30),
            SubjectEncoding::EptViolation => (word & EPT_SUBJECT, 0),
            // Some bits of error codes are above 32: `PFERR_GUEST_FINAL_BIT` and those after it; likewise that of a write.
            SubjectEncoding::NestedPageFault | SubjectEncoding::Unaccelerated => (word, word >> 32),
            // The ICR's low half: the shorthand is in bits 18 and 19.
            SubjectEncoding::IncompleteIpi => (word, word >> 18 & 3),
            _ => (word, 0),
        };
        low as u32 & 0xffff | (high as u32 & 0xff) << 16 | KNOWN
    }

    /// The bits of the word that were packed.
    const fn unpack(self, packed: u32) -> u64 {
        let (low, high) = ((packed & 0xffff) as u64, (packed >> 16 & 0xff) as u64);
        match self {
            SubjectEncoding::Port => packed as u64,
            SubjectEncoding::HostVector | SubjectEncoding::Exception => low | VALID,
            SubjectEncoding::TaskSwitch => low | high << 30,
            SubjectEncoding::NestedPageFault | SubjectEncoding::Unaccelerated => low | high << 32,
            SubjectEncoding::IncompleteIpi => low | high << 18,
            _ => low,
        }
    }
}

/// The bits of an EPT violation's qualification that tell what was done and what was allowed: the access (0 to 2), the entry's
/// permissions (3 to 5), whether the linear address is valid (7) and whether its translation was done (8).
pub(crate) const EPT_SUBJECT: u64 = 0x1bf;

impl SubjectWord {
    /// The event does not say, or the exit's words do not tell. Recorders that leave the words out write zero, so a byte out to
    /// port 0, which VMX says so, is told by `kvm_pio` alone.
    pub const NONE: SubjectWord = SubjectWord(0);

    /// The words that it is of.
    pub const READS: [ExitWord; 3] = [ExitWord::Info1, ExitWord::Info2, ExitWord::IntrInfo];

    /// What an exit of this code says, by its words as far as the event has them. Up to Linux 5.9, VMX's `info2` was what
    /// `intr_info` is now (`vmx_get_exit_info` of `arch/x86/kvm/vmx/vmx.c`).
    #[inline(always)]
    pub fn new(code: ExitCode, word: impl Fn(ExitWord) -> Option<u64>) -> SubjectWord {
        let Some(saying) = SubjectEncoding::of(code) else { return SubjectWord::NONE };
        let value = match (saying.word(), word(saying.word())) {
            (ExitWord::IntrInfo, None) => word(ExitWord::Info2),
            (_, value) => value,
        };
        SubjectWord(value.map_or(0, |value| saying.pack(value)))
    }

    /// The word of an exit of this code for such a port access.
    pub const fn of_port(code: ExitCode, access: &Subject) -> SubjectWord {
        let port = (access.key as u32) << 16;
        let (is_in, is_string) = (!access.write, matches!(access.form, PortAccessForm::String));
        match code.list {
            _ if !code.is_port_access() => SubjectWord::NONE,
            CodeList::Vmx => {
                let size = (access.size as u32).wrapping_sub(1) & 7;
                SubjectWord(port + ((is_in as u32) << 3) + ((is_string as u32) << 4) + size)
            }
            _ => SubjectWord(port + is_in as u32 + ((is_string as u32) << 2) + ((access.size as u32 & 7) << 4)),
        }
    }

    /// What of a word of `kvm_exit` with this code it holds; zero of other words.
    pub fn word(self, code: ExitCode, word: ExitWord) -> u64 {
        match SubjectEncoding::of(code) {
            Some(saying) if self != SubjectWord::NONE && word == saying.word() => saying.unpack(self.0),
            _ => 0,
        }
    }

    /// The subject, of an exit of this code.
    pub fn subject(self, code: ExitCode) -> Option<Subject> {
        if self == SubjectWord::NONE {
            return None;
        }
        let is =
            |kind, write, key, value| Some(Subject { kind, write, form: PortAccessForm::Unknown, size: 0, key, value });
        let saying = SubjectEncoding::of(code)?;
        let word = saying.unpack(self.0);
        match saying {
            SubjectEncoding::Port => self.port(code),
            SubjectEncoding::HostVector => is(SubjectKind::HostVector, false, word & 0xff, 0),
            SubjectEncoding::Exception => is(SubjectKind::Exception, false, word & 0xff, 0),
            SubjectEncoding::TaskSwitch => is(SubjectKind::TaskSwitch, false, word >> 30, word & 0xffff),
            // Access types 0 and 1 are MOV to and from it; CLTS and LMSW write CR0.
            SubjectEncoding::ControlRegister => match word >> 4 & 3 {
                to @ (0 | 1) => is(SubjectKind::ControlRegister, to == 0, word & 15, 0),
                _ => is(SubjectKind::ControlRegister, true, 0, 0),
            },
            SubjectEncoding::DebugRegister => is(SubjectKind::DebugRegister, word >> 4 & 1 == 0, word & 7, 0),
            // Access type 1 is a linear write; of guest-physical ones (10, 15) nothing says which they are.
            SubjectEncoding::ApicAccess => is(SubjectKind::Apic, word >> 12 == 1, word & 0xfff, 0),
            SubjectEncoding::ApicWrite => is(SubjectKind::Apic, true, word & 0xfff, 0),
            SubjectEncoding::VirtualEoi => is(SubjectKind::EoiVector, false, word & 0xff, 0),
            SubjectEncoding::EptViolation => is(SubjectKind::EptViolation, false, word, 0),
            SubjectEncoding::NestedPageFault => is(SubjectKind::PageFault, false, word, 0),
            SubjectEncoding::IncompleteIpi => is(SubjectKind::IncompleteIpi, false, word & 0xff, word),
            SubjectEncoding::Unaccelerated => is(SubjectKind::Apic, word >> 32 & 1 != 0, word & 0xff0, 0),
        }
    }

    /// The port access, of an exit of this code.
    fn port(self, code: ExitCode) -> Option<Subject> {
        let access = match code.list {
            CodeList::Vmx => PortAccess::from_vmx(self.0.into(), 0),
            _ => PortAccess::from_svm(self.0.into(), 0),
        };
        matches!(access.size, 1 | 2 | 4).then_some(Subject {
            kind: SubjectKind::Port,
            write: access.direction == Direction::Out,
            form: if access.qualifies() { PortAccessForm::NonString } else { PortAccessForm::String },
            size: access.size.into(),
            key: access.port.into(),
            value: 0,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use SubjectKind as D;

    const fn vmx(number: u64) -> ExitCode {
        ExitCode::new(CodeList::Vmx, number)
    }

    const fn svm(number: u64) -> ExitCode {
        ExitCode::new(CodeList::Svm, number)
    }

    fn info1(code: ExitCode, value: u64) -> SubjectWord {
        SubjectWord::new(code, |word| (word == ExitWord::Info1).then_some(value))
    }

    #[test]
    fn words_and_port_accesses_are_the_same_thing() {
        for code in [vmx(30), svm(0x7b)] {
            for (write, size, form) in [
                (true, 1, PortAccessForm::NonString),
                (false, 2, PortAccessForm::String),
                (false, 4, PortAccessForm::NonString),
            ] {
                let access = Subject { kind: D::Port, write, form, size, key: 0x1f7, value: 0 };
                let word = SubjectWord::of_port(code, &access);
                assert_eq!(word.subject(code), Some(access));
                assert_eq!(info1(code, word.word(code, ExitWord::Info1)), word);
            }
            assert_eq!(SubjectWord::NONE.subject(code), None);
            assert_eq!(info1(code, 0), SubjectWord::NONE);
            // A size that no access has.
            assert_eq!(info1(code, 0x03f8_0007 | 0x70).subject(code), None);
        }
        let access =
            Subject { kind: D::Port, write: true, form: PortAccessForm::NonString, size: 1, key: 0x80, value: 0 };
        assert_eq!(SubjectWord::of_port(vmx(12), &access), SubjectWord::NONE);
    }

    /// OUT of a byte to the first serial port.
    const OUT: Subject =
        Subject { kind: D::Port, write: true, form: PortAccessForm::NonString, size: 1, key: 0x3f8, value: 0 };

    /// Tables 28-5 of Intel's SDM (volume 3) and 15-7 of AMD's APM (volume 2).
    #[test]
    fn words_of_ports_have_their_bits_where_the_manuals_put_them() {
        let cases = [
            (OUT, 0x03f8_0000, 0x03f8_0010),
            (Subject { write: false, ..OUT }, 0x03f8_0008, 0x03f8_0011),
            (Subject { size: 4, ..OUT }, 0x03f8_0003, 0x03f8_0040),
            (Subject { form: PortAccessForm::String, ..OUT }, 0x03f8_0010, 0x03f8_0014),
            (
                Subject { write: false, form: PortAccessForm::String, size: 2, key: 0xffee, ..OUT },
                0xffee_0019,
                0xffee_0025,
            ),
        ];
        let [vmx, svm] = [vmx(30), svm(0x7b)];
        for (access, of_vmx, of_svm) in cases {
            let word = |code| SubjectWord::of_port(code, &access).word(code, ExitWord::Info1);
            assert_eq!((word(vmx), word(svm)), (of_vmx, of_svm));
            assert_eq!(info1(svm, 0xabcd_0000_0000 + of_svm).subject(svm), Some(access), "the low half alone");
        }
        // Repeated, which is of memory, too.
        let repeated = Some(Subject { form: PortAccessForm::String, ..OUT });
        assert_eq!(info1(vmx, 0x03f8_0020).subject(vmx), repeated);
        assert_eq!(info1(svm, 0x03f8_0018).subject(svm), repeated);
    }

    #[test]
    fn each_word_tells_the_subject_that_its_manual_says() {
        let cases = [
            // MOV to CR3 from RAX and from RDI, MOV from CR8 to RCX; CLTS, LMSW of 0xfff1.
            (vmx(28), 0x3, Some((D::ControlRegister, true, 3, 0))),
            (vmx(28), 0x703, Some((D::ControlRegister, true, 3, 0))),
            (vmx(28), 0x118, Some((D::ControlRegister, false, 8, 0))),
            (vmx(28), 0x20, Some((D::ControlRegister, true, 0, 0))),
            (vmx(28), 0xfff1_0030, Some((D::ControlRegister, true, 0, 0))),
            // MOV to CR0 from RAX is zero.
            (vmx(28), 0, Some((D::ControlRegister, true, 0, 0))),
            (vmx(29), 0x7, Some((D::DebugRegister, true, 7, 0))),
            (vmx(29), 0x216, Some((D::DebugRegister, false, 6, 0))),
            // A task gate of the IDT, and a CALL.
            (vmx(9), 0xc000_0050, Some((D::TaskSwitch, false, 3, 0x50))),
            (vmx(9), 0x0000_0048, Some((D::TaskSwitch, false, 0, 0x48))),
            (vmx(44), 0x0b0 | 1 << 12, Some((D::Apic, true, 0xb0, 0))),
            (vmx(44), 0x390, Some((D::Apic, false, 0x390, 0))),
            (vmx(45), 0xec, Some((D::EoiVector, false, 0xec, 0))),
            (vmx(56), 0x380, Some((D::Apic, true, 0x380, 0))),
            // Bits that tell of neither access nor entry (user mode, writable, NMIs unblocked by IRET) are not of the subject.
            (vmx(48), 0x181, Some((D::EptViolation, false, 0x181, 0))),
            (vmx(48), 0x1f82, Some((D::EptViolation, false, 0x182, 0))),
            (vmx(0x0400_0030), 0x184, Some((D::EptViolation, false, 0x184, 0))),
            (svm(0x400), 0x1_0000_0014, Some((D::PageFault, false, 0x1_0000_0014, 0))),
            (svm(0x401), 0x000c_08fd, Some((D::IncompleteIpi, false, 0xfd, 0x000c_08fd))),
            (svm(0x402), 0x1_0000_00b3, Some((D::Apic, true, 0xb0, 0))),
            (svm(0x402), 0x20, Some((D::Apic, false, 0x20, 0))),
            // A recorder that leaves the word out.
            (vmx(56), 0, None),
            (vmx(48), 0, None),
            (svm(0x400), 0, None),
            // INVPCID, XSETBV, MSR_WRITE, EPT_MISCONFIG, HLT; SVM's interrupt and write to CR3.
            (vmx(58), 0x1, None),
            (vmx(55), 0x1, None),
            (vmx(32), 0x6e0, None),
            (vmx(49), 0x1, None),
            (vmx(12), 0x1, None),
            (svm(0x60), 0xec, None),
            (svm(0x13), 1 << 63, None),
        ];
        for (code, word, subject) in cases {
            let told = info1(code, word).subject(code).map(|of| (of.kind, of.write, of.key, of.value));
            assert_eq!(told, subject, "{code:?} {word:#x}");
            // What is written of it says the same when it is read.
            let written = info1(code, word).word(code, ExitWord::Info1);
            assert_eq!(info1(code, written), info1(code, word), "{code:?} {word:#x} {written:#x}");
            assert_eq!(info1(code, word).word(code, ExitWord::IntrInfo), 0);
        }
    }

    #[test]
    fn vectors_are_told_where_they_are_valid_by_whichever_word_the_kernel_has() {
        let of = |code, has: &[(ExitWord, u64)]| {
            let word = |wanted| has.iter().find(|(word, _)| *word == wanted).map(|(_, value)| *value);
            SubjectWord::new(code, word).subject(code).map(|of| (of.kind, of.key))
        };
        use ExitWord as W;
        let now = [(W::Info1, 0), (W::Info2, 0), (W::IntrInfo, 0x8000_00ec), (W::ErrorCode, 0)];
        assert_eq!(of(vmx(1), &now), Some((D::HostVector, 0xec)));
        assert_eq!(of(vmx(1), &[(W::Info1, 0), (W::Info2, 0x8000_00fd)]), Some((D::HostVector, 0xfd)));
        // IDT-vectoring information, where the kernel has a word of its own for interrupts.
        assert_eq!(of(vmx(1), &[(W::Info2, 0x8000_00fd), (W::IntrInfo, 0)]), None);
        assert_eq!(of(vmx(1), &[]), None);
        assert_eq!(of(vmx(0), &[(W::IntrInfo, 0x8000_0b0e)]), Some((D::Exception, 14)));
        assert_eq!(of(vmx(0), &[(W::IntrInfo, 0x8000_0202)]), Some((D::Exception, 2)));
        assert_eq!(of(vmx(0), &[(W::IntrInfo, 0x0000_0202)]), None);
        let word = SubjectWord::new(vmx(1), |word| (word == W::IntrInfo).then_some(0x8000_00ec));
        assert_eq!([W::Info1, W::Info2, W::IntrInfo].map(|of| word.word(vmx(1), of)), [0, 0, 0x8000_00ec]);
    }
}
