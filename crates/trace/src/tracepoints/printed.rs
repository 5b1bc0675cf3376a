//! The fields of one tracepoint as text in, one event kind out: the same that `tracefs/decode.rs` makes of bytes.
//!
//! ```text
//! kernel, perf script      vcpu 0 reason npf rip 0xfff0 info1 0x0000000100000014 …
//! trace-cmd's kvm plugin   reason EXIT_NPF rip 0xfff0 info 100000014 fffffff0
//! ```
//!
//! Each function reads one `print fmt`, in every form that kernels and libtraceevent's plugins have given it.

use super::exit as exited;
use crate::scan::{Scan, ends_with_number, split_last};
use exitscope_model::codes::{
    KICK_CPU, lookup, loongarch_privileged, s390_instruction_key, system_register, tables, trapped_system_register,
};
use exitscope_model::{
    CodeList, EventKind, ExitCode, ExitInfo, ExitWord, IrqName, KvmActivity, PortAccessForm, Subject, SubjectKind,
    SubjectWord, ThreadName,
};
use exitscope_units::{Tid, VcpuId};
use rustc_hash::FxHashMap;

/// Exit reasons that no table knows are told apart up to this many.
const MAX_UNKNOWN: u64 = 4096;

/// What an event's fields say: the kind, and the vCPU if they name it.
type Said = (EventKind, VcpuId);

/// Reads an event's fields; `None` if they are not as its tracepoint prints them.
pub(crate) type ReadFields = fn(&mut Scan, &mut Reasons) -> Option<Said>;

/// libtraceevent's names of SVM exits (`plugins/plugin_kvm.c`) that are not the kernel's in capitals.
const PLUGIN_SVM: &[(u64, &str)] = &[
    (0x60, "EXIT_INTR"),
    (0x66, "EXIT_IDTR_READ"),
    (0x67, "EXIT_GDTR_READ"),
    (0x68, "EXIT_LDTR_READ"),
    (0x69, "EXIT_TR_READ"),
    (0x6a, "EXIT_IDTR_WRITE"),
    (0x6b, "EXIT_GDTR_WRITE"),
    (0x6c, "EXIT_LDTR_WRITE"),
    (0x6d, "EXIT_TR_WRITE"),
    (0x7b, "EXIT_IOIO"),
    (0x81, "EXIT_VMMCALL"),
    (0xffff_ffff, "EXIT_ERR"),
];

/// The names of VMX exits in the first kernels with this tracepoint, 2.6.31 and after (`vmx_exit_reasons_str` of
/// arch/x86/kvm/vmx.c), by their basic reason. SVM has four of them, too: those are VMX's where VMX's were met.
const OLD_VMX: &[(u64, &str)] = &[
    (0, "exception"),
    (1, "ext_irq"),
    (2, "triple_fault"),
    (7, "interrupt_window"),
    (8, "nmi_window"),
    (9, "task_switch"),
    (10, "cpuid"),
    (12, "halt"),
    (14, "invlpg"),
    (18, "hypercall"),
    (28, "cr_access"),
    (29, "dr_access"),
    (30, "io_instruction"),
    (31, "rdmsr"),
    (32, "wrmsr"),
    (43, "tpr_below_thres"),
    (44, "apic_access"),
    (48, "ept_violation"),
    (54, "wbinvd"),
];

/// Exit codes by name.
#[derive(Debug)]
pub(crate) struct Reasons {
    x86: FxHashMap<Vec<u8>, ExitCode>,
    hcalls: FxHashMap<&'static [u8], u64>,
    /// The vendor whose names this trace uses, once one was met: bare numbers are of the same list.
    vendor: Option<CodeList>,
    unknown: u64,
}

impl Reasons {
    /// All names that the tables know.
    pub fn new() -> Reasons {
        let mut x86 = FxHashMap::default();
        for &(number, name) in tables::SVM {
            let code = ExitCode::new(CodeList::Svm, number);
            let plugin = match name.strip_suffix(" excp") {
                Some(exception) => format!("EXIT_EXCP_{exception}"),
                None => format!("EXIT_{}", name.to_ascii_uppercase()),
            };
            x86.insert(name.into(), code);
            x86.insert(plugin.into(), code);
        }
        x86.insert("invalid_guest_state".into(), ExitCode::new(CodeList::Svm, 0xffff_ffff));
        for &(number, name) in PLUGIN_SVM {
            x86.insert(name.into(), ExitCode::new(CodeList::Svm, number));
        }
        for &(number, name) in tables::VMX {
            x86.insert(name.into(), ExitCode::new(CodeList::Vmx, number));
        }
        for &(number, name) in OLD_VMX {
            x86.entry(name.into()).or_insert(ExitCode::new(CodeList::Vmx, number));
        }
        // INTERRUPT_WINDOW's older name, and still libtraceevent's.
        x86.insert("PENDING_INTERRUPT".into(), ExitCode::new(CodeList::Vmx, 7));
        let hcalls = tables::PPC_HCALL.iter().map(|&(number, name)| (name.as_bytes(), number)).collect();
        Reasons { x86, hcalls, vendor: None, unknown: 0 }
    }

    /// An x86 reason: `npf`, `EXIT_NPF`, `EPT_VIOLATION`, `EPT_VIOLATION FAILED_VMENTRY`, `0x4e`, `UNKNOWN (78)`.
    #[inline]
    fn x86(&mut self, name: &[u8]) -> ExitCode {
        match self.x86.get(name) {
            Some(&code) if code.list == CodeList::Svm && self.vendor == Some(CodeList::Vmx) => {
                self.x86_of_both(name, code)
            }
            Some(&code) => {
                self.vendor = Some(code.list);
                code
            }
            None => self.x86_unnamed(name),
        }
    }

    /// A name that SVM has, where VMX's were met.
    #[cold]
    fn x86_of_both(&mut self, name: &[u8], svm: ExitCode) -> ExitCode {
        match OLD_VMX.iter().find(|row| row.1.as_bytes() == name) {
            Some(row) => ExitCode::new(CodeList::Vmx, row.0),
            None => {
                self.vendor = Some(CodeList::Svm);
                svm
            }
        }
    }

    #[cold]
    fn x86_unnamed(&mut self, name: &[u8]) -> ExitCode {
        let mut scan = Scan::new(name);
        let number = match scan.literal("UNKNOWN (") {
            Some(()) => scan.decimal(),
            None if name.starts_with(b"0x") => scan.hex(),
            None => None,
        };
        if let Some(number) = number {
            let list = self.vendor.unwrap_or(match lookup(tables::SVM, number) {
                Some(_) if lookup(tables::VMX, number).is_none() => CodeList::Svm,
                _ => CodeList::Vmx,
            });
            scan.literal(")");
            return match vmx_flags(&scan) {
                Some(flags) if list == CodeList::Vmx => ExitCode::new(list, number | flags),
                Some(0) => ExitCode::new(list, number),
                _ => self.unknown(name),
            };
        }
        let word = scan.word();
        match (self.x86.get(word), vmx_flags(&scan)) {
            (Some(&code), Some(flags)) if code.list == CodeList::Vmx => {
                self.vendor = Some(CodeList::Vmx);
                ExitCode::new(CodeList::Vmx, code.number | flags)
            }
            _ => self.unknown(name),
        }
    }

    /// A reason by its name in `list`, or by its number where the kernel has no name.
    fn of(&mut self, list: CodeList, name: &[u8]) -> ExitCode {
        let code = std::str::from_utf8(name).ok().and_then(|name| ExitCode::from_name(list, name));
        code.unwrap_or_else(|| self.unknown(name))
    }

    /// A name that no list has.
    fn unknown(&mut self, name: &[u8]) -> ExitCode {
        if let Some(&code) = self.x86.get(name) {
            return code;
        }
        let code = ExitCode::of_unlisted(&String::from_utf8_lossy(name));
        if self.unknown < MAX_UNKNOWN {
            self.unknown += 1;
            self.x86.insert(name.into(), code);
        }
        code
    }
}

/// The bits that the kernel names after VMX's basic reason, which is all that is left of the reason.
fn vmx_flags(scan: &Scan) -> Option<u64> {
    ExitCode::vmx_flags(std::str::from_utf8(scan.rest).ok()?)
}

/// Reads the fields of an event.
#[inline]
pub(crate) fn read_fields(read: ReadFields, mut fields: &[u8], reasons: &mut Reasons) -> Option<Said> {
    // libtraceevent's x86 plugin meets other machines' events: it complains, then prints them as the kernel does.
    loop {
        if let Some(rest) = fields.strip_prefix(b"<CANT FIND FIELD ") {
            fields = split_first(rest, b'>')?;
        } else if let Some(rest) = fields.strip_prefix(b"CAN'T FIND FIELD \"") {
            fields = split_first(rest, b'"')?;
        } else {
            return read(&mut Scan::new(fields), reasons);
        }
    }
}

fn split_first(text: &[u8], mark: u8) -> Option<&[u8]> {
    let at = text.iter().position(|&byte| byte == mark)?;
    Some(&text[at + 1..])
}

fn unnamed(kind: EventKind) -> Option<Said> {
    Some((kind, VcpuId::UNKNOWN))
}

fn detail(kind: SubjectKind, write: bool, size: u64, key: u64, value: u64) -> Option<Said> {
    unnamed(EventKind::Detail(Subject { kind, write, form: PortAccessForm::Unknown, size: size as u16, key, value }))
}

/// `vcpu 3` of x86, if it is there.
#[inline]
fn vcpu(scan: &mut Scan) -> Option<VcpuId> {
    match scan.literal("vcpu ") {
        Some(()) => Some(VcpuId(scan.decimal32()?)),
        None => Some(VcpuId::UNKNOWN),
    }
}

/// `VCPU 3: ` of powerpc.
#[inline]
fn ppc_vcpu(scan: &mut Scan) -> Option<VcpuId> {
    scan.literal("VCPU ")?;
    let vcpu = scan.decimal32()?;
    scan.literal(": ")?;
    Some(VcpuId(vcpu))
}

/// `03[0706c00180000000-000000000011d0f2]: ` of s390: vCPU, PSW mask and address; of these the first and the last.
fn s390_vcpu_at(scan: &mut Scan) -> Option<(VcpuId, u64)> {
    let vcpu = scan.decimal32()?;
    scan.literal("[")?;
    scan.until("-")?;
    let address = scan.hex()?;
    scan.literal("]: ")?;
    Some((VcpuId(vcpu), address))
}

fn s390_vcpu(scan: &mut Scan) -> Option<VcpuId> {
    s390_vcpu_at(scan).map(|(vcpu, _)| vcpu)
}

/// The instruction pointer behind `mark`; zero if there is none.
fn rip(scan: &mut Scan, mark: &str) -> u64 {
    let mut there = *scan;
    let rip = there.until(mark).and_then(|_| there.hex());
    if rip.is_some() {
        *scan = there;
    }
    rip.unwrap_or(0)
}

/// `kvm_exit` has one name and a form per architecture.
pub(super) fn exit(scan: &mut Scan, reasons: &mut Reasons) -> Option<Said> {
    match scan.rest.first()? {
        b'v' | b'r' | b'[' => {
            let vcpu = vcpu(scan)?;
            scan.spaces();
            match scan.rest.first()? {
                b'[' => exit_loongarch(scan, reasons, vcpu),
                _ => exit_x86(scan, reasons, vcpu),
            }
        }
        b'e' => exit_ppc(scan, reasons),
        _ if scan.rest.starts_with(b"SEPC:") => exit_riscv(scan),
        _ => exit_arm64(scan, reasons),
    }
}

fn exit_x86(scan: &mut Scan, reasons: &mut Reasons, vcpu: VcpuId) -> Option<Said> {
    scan.literal("reason ")?;
    let (name, rip) = match scan.until(" rip 0x") {
        Some(name) => (name, scan.hex().unwrap_or(0)),
        // People leave out what does not matter to them. A name at the end of the line may be cut.
        None => (without_words(scan.rest)?, 0),
    };
    let code = reasons.x86(name);
    // Two words are those of old kernels, or what libtraceevent's plugin prints of any: nothing says what the second one is.
    let words = SubjectWord::new(code, |word| if word == ExitWord::Info2 { None } else { exit_word(scan.rest, word) });
    Some((EventKind::Exit { code, idle: false, words, rip }, vcpu))
}

/// The name before the first word of an exit, where the address of the instruction was left out.
fn without_words(text: &[u8]) -> Option<&[u8]> {
    let marks = [" info1 0x", " intr_info 0x", " info "];
    marks.iter().find_map(|mark| Scan::new(text).until(mark))
}

/// What an exit says besides.
pub(crate) fn exit_info(fields: &[u8]) -> Option<ExitInfo> {
    ExitInfo::from_words(|word| exit_word(fields, word))
}

/// `info1 0x… …`; by libtraceevent's plugin and in older kernels `info … …`, which has two words.
fn exit_word(fields: &[u8], word: ExitWord) -> Option<u64> {
    let behind = |mark: &str| {
        let mut scan = Scan::new(fields);
        scan.until(mark).map(|_| scan)
    };
    if let Some(mut scan) = behind(word.name()) {
        return scan.literal(" 0x").and_then(|()| scan.hex());
    }
    let mut scan = behind(" info ")?;
    for _ in 0..word as usize {
        scan.hex()?;
        scan.spaces();
    }
    scan.hex()
}

/// `TRAP: HSR_EC: 0x0024 (DABT_LOW), PC: 0x…`
fn exit_arm64(scan: &mut Scan, reasons: &mut Reasons) -> Option<Said> {
    let ret = scan.until(": HSR_EC: ")?;
    let class = scan.hex()?;
    let mut code = reasons.of(CodeList::Arm64Exit, ret);
    if code == ExitCode::new(CodeList::Arm64Exit, 2) {
        code = ExitCode::new(CodeList::Arm64Ec, class);
    } else if code.list == CodeList::Arm64Exit {
        code.number &= 0x7fff_ffff;
    }
    unnamed(exited(code, rip(scan, " PC: ")))
}

/// `SEPC:0x…, SCAUSE:0x…, …`
fn exit_riscv(scan: &mut Scan) -> Option<Said> {
    let rip = rip(scan, "SEPC:");
    scan.until("SCAUSE:")?;
    scan.spaces();
    let raw = scan.hex()?;
    // An RV32 scause marks interrupts in bit 31; the tables use bit 63.
    let number = match raw >> 31 {
        1 => (raw & 0x7fff_ffff) | 1 << 63,
        _ => raw,
    };
    unnamed(exited(ExitCode::new(CodeList::Riscv, number), rip))
}

/// `[IDLE] PC: 0x…`, in older kernels `[IDLE]PC: 0x…`
fn exit_loongarch(scan: &mut Scan, reasons: &mut Reasons, vcpu: VcpuId) -> Option<Said> {
    scan.literal("[")?;
    let name = scan.until("]")?;
    let code = reasons.of(CodeList::Loongarch, name);
    Some((exited(code, rip(scan, "PC: ")), vcpu))
}

/// `kvm_exit_idle` and the like print what `kvm_exit` does.
pub(super) fn refined(scan: &mut Scan, reasons: &mut Reasons) -> Option<Said> {
    let vcpu = vcpu(scan)?;
    scan.spaces();
    match exit_loongarch(scan, reasons, vcpu)? {
        (EventKind::Exit { code, .. }, vcpu) => Some((EventKind::Refine { code }, vcpu)),
        _ => None,
    }
}

/// `vcpu 0 Inst word: 0x06488000`, in older kernels without the vCPU.
pub(super) fn privileged(scan: &mut Scan, _: &mut Reasons) -> Option<Said> {
    let vcpu = vcpu(scan)?;
    scan.until("Inst word: ")?;
    Some((EventKind::Refine { code: loongarch_privileged(scan.hex()?) }, vcpu))
}

/// `vcpu 0 PC: 0x…`, in older kernels without the vCPU.
pub(super) fn leave(scan: &mut Scan, _: &mut Reasons) -> Option<Said> {
    Some((EventKind::KvmOut, vcpu(scan)?))
}

/// `exit=SYSCALL | pc=0x… | msr=0x… | dar=0x… | srr1=0x… | last_inst=0x…`; only Book 3S prints `srr1`.
fn exit_ppc(scan: &mut Scan, reasons: &mut Reasons) -> Option<Said> {
    scan.literal("exit=")?;
    let name = scan.until(" | ")?;
    let rip = rip(scan, "pc=");
    let list = match scan.until(" | srr1=") {
        Some(_) => CodeList::PpcTrap,
        None => CodeList::PpcBooke,
    };
    unnamed(exited(reasons.of(list, name), rip))
}

/// `VCPU 0: trap=SYSCALL pc=0x2120 msr=0x8000000000009000, ceded=0`
pub(super) fn guest_exit(scan: &mut Scan, reasons: &mut Reasons) -> Option<Said> {
    let vcpu = ppc_vcpu(scan)?;
    scan.literal("trap=")?;
    let name = scan.until(" pc=")?;
    let rip = scan.hex().unwrap_or(0);
    scan.until("ceded=")?;
    let idle = scan.decimal()? != 0;
    let code = reasons.of(CodeList::PpcTrap, name);
    Some((EventKind::Exit { code, idle, words: SubjectWord::NONE, rip }, vcpu))
}

/// `00[…-…]: exit sie icptcode 4 (Instruction)`
pub(super) fn sie_exit(scan: &mut Scan, _: &mut Reasons) -> Option<Said> {
    let (vcpu, address) = s390_vcpu_at(scan)?;
    scan.literal("exit sie icptcode ")?;
    let code = ExitCode::new(CodeList::S390, scan.decimal()?);
    Some((exited(code, address), vcpu))
}

/// `vcpu 0, rip 0xfff0` of x86; elsewhere there is no vCPU to read.
pub(super) fn entry(scan: &mut Scan, _: &mut Reasons) -> Option<Said> {
    Some((EventKind::Enter, vcpu(scan)?))
}

pub(super) fn sie_enter(scan: &mut Scan, _: &mut Reasons) -> Option<Said> {
    Some((EventKind::Enter, s390_vcpu(scan)?))
}

pub(super) fn guest_enter(scan: &mut Scan, _: &mut Reasons) -> Option<Said> {
    Some((EventKind::Enter, ppc_vcpu(scan)?))
}

/// `reason KVM_EXIT_IO (2)`; `reason restart (4)` and `reason error (14)` are an errno, and the reason is not told.
/// libtraceevent (perf, trace-cmd) takes every errno for a positive number: there the reason is told, and the errno is
/// not.
pub(super) fn userspace_exit(scan: &mut Scan, _: &mut Reasons) -> Option<Said> {
    scan.literal("reason ")?;
    let name = scan.until(" (")?;
    let number = scan.decimal32()?;
    scan.literal(")")?;
    let (reason, errno) = match name {
        b"restart" | b"error" => (0, -i32::try_from(number).ok()?),
        _ => (number, 0),
    };
    unnamed(EventKind::UserspaceExit { reason, errno })
}

pub(super) fn fpu(scan: &mut Scan, _: &mut Reasons) -> Option<Said> {
    match scan.word() {
        b"load" => unnamed(EventKind::Fpu { load: true }),
        b"unload" => unnamed(EventKind::Fpu { load: false }),
        _ => None,
    }
}

/// `fd: 0x0000000c, cmd: 0x0000ae80, arg: 0x00000000`
pub(super) fn ioctl(scan: &mut Scan, _: &mut Reasons) -> Option<Said> {
    scan.until("cmd: ")?;
    unnamed(super::call(scan.hex()?))
}

/// `NR 16 (c, ae80, 0, 7f0000000000, 0, 0)`: an ioctl's command is the second argument.
pub(super) fn raw_call(scan: &mut Scan, _: &mut Reasons) -> Option<Said> {
    scan.until("(")?;
    scan.until(", ")?;
    unnamed(super::call(scan.hex()?))
}

pub(super) fn call_end(_: &mut Scan, _: &mut Reasons) -> Option<Said> {
    unnamed(EventKind::SyscallExit)
}

pub(super) fn emulate_insn(_: &mut Scan, _: &mut Reasons) -> Option<Said> {
    unnamed(EventKind::Emulate)
}

/// The fields of `kvm_exit`; up to Linux 5.9 `rip: 0x… reason: … ext_inf1: 0x…`. Of arm64, a register. The exit itself has said
/// all of it.
pub(super) fn nested(_: &mut Scan, _: &mut Reasons) -> Option<Said> {
    unnamed(EventKind::Nested)
}

/// What the event's name says; of its fields nothing is used.
pub(super) fn kvm_activity(of: KvmActivity) -> Option<Said> {
    unnamed(EventKind::KvmActivity(of))
}

/// `set reason=2, inhibits=0x4`, `cleared reason=2, inhibits=0x0`; from Linux 6.11 on the names of all that are in force follow.
pub(super) fn apicv_change(scan: &mut Scan, _: &mut Reasons) -> Option<Said> {
    let set = match scan.until(" reason=")? {
        b"set" => true,
        b"cleared" => false,
        _ => return None,
    };
    let reason = scan.decimal()?;
    scan.literal(", inhibits=")?;
    unnamed(super::apicv_change(reason, set, scan.hex()?))
}

/// `mmu notifier unmap range: 0x00007f0000000000 -- 0x00007f0000200000`
pub(super) fn unmapped(scan: &mut Scan, _: &mut Reasons) -> Option<Said> {
    scan.until("range: ")?;
    let start = scan.hex()?;
    scan.literal(" -- ")?;
    unnamed(super::activity(KvmActivity::NARROW, start, scan.hex()?))
}

/// `vector=236`
pub(super) fn host_vector(scan: &mut Scan, _: &mut Reasons) -> Option<Said> {
    scan.literal("vector=")?;
    detail(SubjectKind::HostVector, false, 0, scan.decimal()?, 0)
}

/// `irq=131 name=nvme0q3`, in older kernels `irq=131 handler=nvme0q3`
pub(super) fn host_irq(scan: &mut Scan, _: &mut Reasons) -> Option<Said> {
    scan.literal("irq=")?;
    let irq = scan.decimal32()?;
    let is_named = scan.literal(" name=").or_else(|| scan.literal(" handler=")).is_some();
    let name = if is_named { IrqName::new(scan.rest.trim_ascii_end()) } else { IrqName::NONE };
    unnamed(super::host_irq(irq.into(), name))
}

/// `vcpu=1, icrh:icrl=0x01000000:000008fd, id=1, index=255`
pub(super) fn avic_incomplete_ipi(scan: &mut Scan, _: &mut Reasons) -> Option<Said> {
    scan.until(", id=")?;
    unnamed(super::avic_incomplete_ipi(scan.decimal()?))
}

/// `reason: hlt ext_inf1: 0x0000000000000000 …`
pub(super) fn reflected(_: &mut Scan, _: &mut Reasons) -> Option<Said> {
    unnamed(EventKind::Reflect)
}

/// `vcpu 0, exit_reason 78, exit_info1 0, exit_info2 0`
pub(super) fn vmgexit(scan: &mut Scan, _: &mut Reasons) -> Option<Said> {
    scan.literal("vcpu ")?;
    let vcpu = VcpuId(scan.decimal()?.try_into().ok()?);
    scan.literal(", exit_reason ")?;
    let reason = scan.hex()?;
    scan.until("exit_info1 ")?;
    Some((super::about(SubjectKind::Vmgexit, false, reason, scan.hex()?), vcpu))
}

/// `vcpu 0, ghcb_gpa 0000000000000014`
pub(super) fn ghcb_msr(scan: &mut Scan, _: &mut Reasons) -> Option<Said> {
    let vcpu = vcpu(scan)?;
    scan.until("ghcb_gpa ")?;
    Some((super::ghcb_msr(scan.hex()?), vcpu))
}

/// `mmio write len 4 gpa 0xfee000b0 val 0x0`, `iocsr …`
pub(super) fn mmio(scan: &mut Scan, _: &mut Reasons) -> Option<Said> {
    scan.until(" ")?;
    let write = scan.until(" len ")? == b"write";
    let size = scan.decimal()?;
    scan.literal(" gpa ")?;
    let gpa = scan.hex()?;
    scan.literal(" val ")?;
    detail(SubjectKind::Mmio, write, size, gpa, scan.hex()?)
}

/// `fast mmio at gpa 0xfe003000`
pub(super) fn fast_mmio(scan: &mut Scan, _: &mut Reasons) -> Option<Said> {
    scan.literal("fast mmio at gpa ")?;
    detail(SubjectKind::Mmio, true, 0, scan.hex()?, 0)
}

/// `pio_write at 0x70 size 1 count 1 val 0x8f`
pub(super) fn pio(scan: &mut Scan, _: &mut Reasons) -> Option<Said> {
    scan.literal("pio_")?;
    let write = scan.until(" at ")? == b"write";
    let port = scan.hex()?;
    scan.literal(" size ")?;
    let size = scan.decimal()? as u16;
    scan.literal(" count ")?;
    // Of one access, this does not say which it is.
    let form = if scan.decimal()? > 1 { PortAccessForm::String } else { PortAccessForm::Unknown };
    // Old kernels print no value.
    let value = match scan.until(" val ") {
        Some(_) => scan.hex()?,
        None => 0,
    };
    unnamed(EventKind::Detail(Subject { kind: SubjectKind::Port, write, form, size, key: port, value }))
}

/// `msr_write 4b564d01 = 0xe8c21`
pub(super) fn msr(scan: &mut Scan, _: &mut Reasons) -> Option<Said> {
    scan.literal("msr_")?;
    written(SubjectKind::Msr, scan)
}

/// `cr_write 0 = 0x80050033`
pub(super) fn control_register(scan: &mut Scan, _: &mut Reasons) -> Option<Said> {
    scan.literal("cr_")?;
    written(SubjectKind::ControlRegister, scan)
}

fn written(kind: SubjectKind, scan: &mut Scan) -> Option<Said> {
    let write = scan.until(" ")? == b"write";
    let key = scan.hex()?;
    scan.literal(" = ")?;
    detail(kind, write, 0, key, scan.hex()?)
}

/// `apic_write APIC_SPIV = 0x1ff`
pub(super) fn apic(scan: &mut Scan, _: &mut Reasons) -> Option<Said> {
    scan.literal("apic_")?;
    let write = scan.until(" ")? == b"write";
    let name = scan.until(" = ")?;
    let register = match tables::APIC.iter().find(|row| row.1.as_bytes() == name) {
        Some(row) => row.0,
        None => Scan::new(name).hex()?,
    };
    detail(SubjectKind::Apic, write, 0, register, scan.hex()?)
}

/// `PC: 4000007c ID_AA64PFR0_EL1 (3,0,0,4,0) read`; outside the kernel, nobody can follow the pointer to the name,
/// and libtraceevent prints the fields raw.
pub(super) fn sys_access(scan: &mut Scan, _: &mut Reasons) -> Option<Said> {
    const FIELDS: [&str; 5] = ["Op0=", "Op1=", "CRn=", "CRm=", "Op2="];
    let kernel = scan.literal("PC: ").is_some();
    let mut write = false;
    if kernel {
        scan.until(" (")?;
    } else {
        scan.until("is_write=")?;
        write = scan.decimal()? != 0;
    }
    let mut place = [0; 5];
    for (at, field) in place.iter_mut().zip(FIELDS) {
        if !kernel {
            scan.until(field)?;
        }
        *at = scan.decimal()?;
        if kernel {
            scan.literal(if field == "Op2=" { ")" } else { "," })?;
        }
    }
    if kernel {
        scan.spaces();
        write = scan.word() == b"write";
    }
    detail(SubjectKind::SystemRegister, write, 0, system_register(place), 0)
}

/// `HSR 0x62300049`
pub(super) fn handle_sys_reg(scan: &mut Scan, _: &mut Reasons) -> Option<Said> {
    scan.literal("HSR ")?;
    let (register, write) = trapped_system_register(scan.hex()?);
    detail(SubjectKind::SystemRegister, write, 0, register, 0)
}

/// `func 1 idx 3fd rax …`
pub(super) fn cpuid(scan: &mut Scan, _: &mut Reasons) -> Option<Said> {
    scan.literal("func ")?;
    let function = scan.hex()?;
    let index = match scan.literal(" idx ") {
        Some(()) => scan.hex()?,
        None => 0,
    };
    detail(SubjectKind::Cpuid, false, 0, function, index)
}

/// `nr 0x5 a0 0x0 …`
pub(super) fn hypercall(scan: &mut Scan, _: &mut Reasons) -> Option<Said> {
    scan.until("nr ")?;
    let number = scan.hex()?;
    scan.literal(" a0 ")?;
    let mut value = scan.hex()?;
    if number == KICK_CPU {
        scan.literal(" a1 ")?;
        value = scan.hex()?;
    }
    detail(SubjectKind::Hypercall, false, 0, number, value)
}

/// `cpl 0 nr 0x14 a0 0x0 …`
pub(super) fn xen_hypercall(scan: &mut Scan, _: &mut Reasons) -> Option<Said> {
    numbered_call(SubjectKind::XenHypercall, scan)
}

fn numbered_call(kind: SubjectKind, scan: &mut Scan) -> Option<Said> {
    scan.until("nr ")?;
    let number = scan.hex()?;
    scan.literal(" a0 ")?;
    detail(kind, false, 0, number, scan.hex()?)
}

/// `code 0x5c fast cnt 0x0 …`
pub(super) fn hyperv_hypercall(scan: &mut Scan, _: &mut Reasons) -> Option<Said> {
    scan.literal("code ")?;
    detail(SubjectKind::HypervHypercall, false, 0, scan.hex()?, 0)
}

/// `HVC at 0x000000004000007c (r0: 0x0000000084000000, imm: 0x0)`
pub(super) fn hvc(scan: &mut Scan, _: &mut Reasons) -> Option<Said> {
    scan.until("r0: ")?;
    let r0 = scan.hex()?;
    scan.until("imm: ")?;
    detail(SubjectKind::Hvc, false, 0, r0, scan.hex()?)
}

/// `VCPU 0: hcall=H_PUT_TERM_CHAR GPR4-7=0x0,0x1,0x41000000,0x0`
pub(super) fn hcall(scan: &mut Scan, reasons: &mut Reasons) -> Option<Said> {
    let vcpu = ppc_vcpu(scan)?;
    scan.literal("hcall=")?;
    let name = scan.until(" GPR4-7=")?;
    let number = match reasons.hcalls.get(name) {
        Some(&number) => number,
        None => Scan::new(name).hex()?,
    };
    let (kind, _) = detail(SubjectKind::PpcHcall, false, 0, number, scan.hex()?)?;
    Some((kind, vcpu))
}

/// `vcpu 0 rip 0xe05b address 0x00000000000f61c8 error_code 0x100000004`, in older kernels `address f61c8 error_code 4`
pub(super) fn page_fault(scan: &mut Scan, _: &mut Reasons) -> Option<Said> {
    let vcpu = vcpu(scan)?;
    scan.until("address ")?;
    let address = scan.hex()?;
    scan.until("error_code ")?;
    let (kind, _) = detail(SubjectKind::PageFault, false, 0, scan.hex()?, address)?;
    Some((kind, vcpu))
}

/// `ipa 0x80a0000, hsr 0x938b0005, hxfar 0x80a0014, pc 0x00000040000020`
pub(super) fn guest_fault(scan: &mut Scan, _: &mut Reasons) -> Option<Said> {
    scan.literal("ipa ")?;
    let address = scan.hex()?;
    scan.literal(", hsr ")?;
    detail(SubjectKind::PageFault, false, 0, scan.hex()?, address)
}

/// `VCPU 0: hpte=0x…:0x… guest=0x… ea=0x…,40000000 slot=0x…,0x…`
pub(super) fn hpt_fault(scan: &mut Scan, _: &mut Reasons) -> Option<Said> {
    let vcpu = ppc_vcpu(scan)?;
    scan.until(" ea=")?;
    let address = scan.hex()?;
    scan.literal(",")?;
    let (kind, _) = detail(SubjectKind::PageFault, false, 0, scan.hex()?, address)?;
    Some((kind, vcpu))
}

/// `00[…-…]: intercepted instruction b27d000000000000 (stsi)`
pub(super) fn s390_instruction(scan: &mut Scan, _: &mut Reasons) -> Option<Said> {
    let vcpu = s390_vcpu(scan)?;
    scan.literal("intercepted instruction ")?;
    let instruction = scan.hex()?;
    let (kind, _) = detail(SubjectKind::Instruction, false, 0, s390_instruction_key(instruction), instruction)?;
    Some((kind, vcpu))
}

/// `00[…-…]: intercepted program interruption 0011 (…)`
pub(super) fn s390_program(scan: &mut Scan, _: &mut Reasons) -> Option<Said> {
    s390_code(scan, "intercepted program interruption ", SubjectKind::Program)
}

/// `00[…-…]: handle diagnose call 009c (…)`
pub(super) fn s390_diag(scan: &mut Scan, _: &mut Reasons) -> Option<Said> {
    s390_code(scan, "handle diagnose call ", SubjectKind::Diag)
}

fn s390_code(scan: &mut Scan, prose: &str, kind: SubjectKind) -> Option<Said> {
    let vcpu = s390_vcpu(scan)?;
    scan.literal(prose)?;
    let (kind, _) = detail(kind, false, 0, scan.hex()?, 0)?;
    Some((kind, vcpu))
}

/// `00[…-…]: handle sigp order 01 (sense), cpu address 0001, parameter 00000000`, also `handle sigp pei order`
pub(super) fn s390_sigp(scan: &mut Scan, _: &mut Reasons) -> Option<Said> {
    let vcpu = s390_vcpu(scan)?;
    scan.literal("handle sigp ")?;
    scan.until("order ")?;
    let order = scan.hex()?;
    scan.until("cpu address ")?;
    let (kind, _) = detail(SubjectKind::Sigp, false, 0, order, scan.hex()?)?;
    Some((kind, vcpu))
}

/// `IRQ 0x8`, `Soft/INTn 0x19 [reinjected]`, in older kernels `irq 8`
pub(super) fn inject(scan: &mut Scan, _: &mut Reasons) -> Option<Said> {
    let vector = match scan.literal("irq ") {
        Some(()) => scan.decimal()?,
        None => {
            scan.until(" ")?;
            scan.hex()?
        }
    };
    unnamed(EventKind::Inject { vector: vector.try_into().ok()? })
}

/// `wait time 592688 ns, polling valid`, of a virtual core `poll time 81920 ns, tgid=274`
pub(super) fn wakeup_of_vcpu(scan: &mut Scan, _: &mut Reasons) -> Option<Said> {
    let waited = match scan.until(" time ")? {
        b"wait" => true,
        b"poll" => false,
        _ => return None,
    };
    let ns = scan.decimal()?;
    // The first kernels with this tracepoint did not say whether the poll was one that counts.
    unnamed(EventKind::HaltEnd { ns, waited, valid: scan.until("polling invalid").is_none() })
}

/// `guest executed wfi at: 0x…`; libtraceevent cannot always print `%c`, and then the letter is lost.
pub(super) fn wfx(scan: &mut Scan, _: &mut Reasons) -> Option<Said> {
    scan.literal("guest executed wf")?;
    match scan.rest.first()? {
        b'e' => unnamed(EventKind::Wfx { wfe: true }),
        b'i' => unnamed(EventKind::Wfx { wfe: false }),
        _ => None,
    }
}

/// `vcpu 1: halt_poll_ns 10000 (grow 0)`
pub(super) fn halt_poll(scan: &mut Scan, _: &mut Reasons) -> Option<Said> {
    let vcpu = vcpu(scan)?;
    let (grow, new, old) = poll_change(scan)?;
    Some((EventKind::HaltPoll { grow, new, old }, vcpu))
}

/// `halt_poll_ns 50000 (grow 0)`
pub(super) fn guest_poll_limit(scan: &mut Scan, _: &mut Reasons) -> Option<Said> {
    let (grow, new, old) = poll_change(scan)?;
    unnamed(super::guest_poll_limit(grow, new.into(), old.into()))
}

/// `halt_poll_ns 10000 (grow 0)`, after whatever is before it: whether it grows, to what, from what.
fn poll_change(scan: &mut Scan) -> Option<(bool, u32, u32)> {
    scan.until("halt_poll_ns ")?;
    let new = scan.decimal32()?;
    scan.literal(" (")?;
    let grow = match scan.until(" ")? {
        b"grow" => true,
        b"shrink" => false,
        _ => return None,
    };
    Some((grow, new, scan.decimal32()?))
}

/// `cpu=1`
pub(super) fn woken_polling(scan: &mut Scan, _: &mut Reasons) -> Option<Said> {
    scan.literal("cpu=")?;
    unnamed(super::woken_polling(scan.decimal32()?.into()))
}

/// `vcpu 1 old 4096 new 8192 (growed)`
pub(super) fn ple_window(scan: &mut Scan, _: &mut Reasons) -> Option<Said> {
    let vcpu = vcpu(scan)?;
    scan.until("old ")?;
    let old = scan.decimal32()?;
    scan.literal(" new ")?;
    Some((EventKind::PleWindow { new: scan.decimal32()?, old }, vcpu))
}

/// The same of Linux before 5.0: `vcpu 1: ple_window 8192 (grow 4096)`
pub(super) fn old_ple_window(scan: &mut Scan, _: &mut Reasons) -> Option<Said> {
    let vcpu = vcpu(scan)?;
    scan.until("ple_window ")?;
    let new = scan.decimal32()?;
    scan.until("(")?;
    scan.until(" ")?;
    Some((EventKind::PleWindow { new, old: scan.decimal32()? }, vcpu))
}

/// `VCPU 1: tgid=456`, `VCPU 0: exit=19, ret=2`
pub(super) fn run_vcpu(scan: &mut Scan, _: &mut Reasons) -> Option<Said> {
    Some((EventKind::VcpuHint, ppc_vcpu(scan)?))
}

/// `Enter runner_vcpu==3 runnable=4 tgid=456`
pub(super) fn run_core(scan: &mut Scan, _: &mut Reasons) -> Option<Said> {
    let exit = match scan.word() {
        b"Exit" => true,
        b"Enter" => false,
        _ => return None,
    };
    scan.until("runner_vcpu==")?;
    let runner = VcpuId(scan.decimal32()?);
    scan.until("runnable=")?;
    Some((EventKind::RunCore { exit, runnable: scan.decimal32()? }, runner))
}

/// `prev_comm=a prev_pid=1 prev_prio=120 prev_state=R+ ==> next_comm=b next_pid=2 next_prio=120`, or by
/// libtraceevent's plugin `a:1 [120] R ==> b:2 [120]`. Thread names may hold anything, so it is read from the right.
pub(super) fn switch(scan: &mut Scan, _: &mut Reasons) -> Option<Said> {
    let (prev, next) = split_last(scan.rest, " ==> ")?;
    let ((name, prev), state, next) = match split_last(prev, " prev_state=") {
        Some((prev, state)) => {
            let (name, pid) = split_last(prev, " prev_pid=")?;
            let name = name.strip_prefix(b"prev_comm=").unwrap_or_default();
            ((name, Scan::new(pid).decimal32()?), state, pid_after(next, " next_pid=")?)
        }
        None => {
            let (prev, state) = split_last(prev, "] ")?;
            (plugin_task(prev)?, state, plugin_task(next)?.1)
        }
    };
    let (sleeps, prev_name) = (*state.first()? != b'R', ThreadName::new(name));
    unnamed(EventKind::Switch { prev: Tid(prev), sleeps, next: Tid(next), prev_name })
}

/// `comm=a pid=1 prio=120 target_cpu=000`, or by the plugin `a:1 [120] CPU:000`.
pub(super) fn wakeup(scan: &mut Scan, _: &mut Reasons) -> Option<Said> {
    let tid = match scan.rest.starts_with(b"comm=") {
        true => pid_after(scan.rest, " pid=")?,
        false => plugin_task(scan.rest)?.1,
    };
    unnamed(EventKind::Wakeup { tid: Tid(tid) })
}

fn pid_after(text: &[u8], mark: &str) -> Option<u32> {
    Scan::new(split_last(text, mark)?.1).decimal32()
}

/// The `kworker/0:1` and the 17 of `kworker/0:1:17 [120]`. The name may hold anything, and so may what programs put behind it: trace-cmd's
/// `Latency: 97.796 usecs`, the address and symbol that perf is asked for.
fn plugin_task(text: &[u8]) -> Option<(&[u8], u32)> {
    let mut rest = text;
    while let Some((before, after)) = split_last(rest, " [") {
        let mut scan = Scan::new(after);
        if scan.decimal().is_some()
            && (scan.rest.is_empty() || scan.rest.starts_with(b"]"))
            && let Some((name, pid)) = ends_with_number(before)
            && let Some(name) = name.strip_suffix(b":")
        {
            return Some((name, pid));
        }
        rest = before;
    }
    None
}

#[cfg(test)]
mod tests;
