//! One tracepoint payload in, one event kind out. Fields are found by name in the format that the trace carries.

use super::{Field, Format};
use crate::Keep;
use crate::bytes::Order;
use exitscope_model::codes::{s390_instruction_key, system_register, trapped_system_register};
use exitscope_model::{CodeList, Detail, DetailKind, Event, EventNames, ExitCode, Form, Kind, NameId, PortWords};
use exitscope_units::{Tid, VcpuId, VmId};

/// `_IO(0xAE, 0x80)`, `include/uapi/linux/kvm.h`.
const KVM_RUN: u64 = 0xae80;

/// Whether an ioctl reads or writes registers that x86 can share with user space in `kvm_run` (KVM_CAP_SYNC_REGS):
/// KVM_{GET,SET}_{REGS,SREGS,VCPU_EVENTS,SREGS2} of `include/uapi/linux/kvm.h`.
pub(crate) const fn is_of_registers(command: u64) -> bool {
    matches!(
        command,
        0x8090_ae81 | 0x4090_ae82 | 0x8138_ae83 | 0x4138_ae84 | 0x8040_ae9f | 0x4040_aea0 | 0x8140_aecc | 0x4140_aecd
    )
}

/// An exit whose event says nothing but its code and where it was.
pub(crate) const fn exit(code: ExitCode, rip: u64) -> Kind {
    Kind::Exit { code, idle: false, words: PortWords::NONE, rip }
}

/// A detail that has neither size nor form.
pub(crate) const fn about(kind: DetailKind, write: bool, key: u64, value: u64) -> Kind {
    Kind::Detail(Detail { kind, write, form: Form::Untold, size: 0, key, value })
}

/// Bytes that are enough to read the fields of nearly all payloads without looking where each ends.
pub const NEAR: usize = REACH + 8;

/// Where such fields end at most: a power of two.
const REACH: usize = 128;

/// What a payload said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decoded {
    /// What happened.
    pub kind: Kind,
    /// To which vCPU, if the event says.
    pub vcpu: VcpuId,
}

/// Reads payloads of one tracepoint.
#[derive(Clone, Debug)]
pub struct Decoder {
    /// The tracepoint's name.
    pub name: NameId,
    pub(super) meaning: Meaning,
    /// The least that has to be asked for to be passed on.
    keep: Keep,
    /// `common_pid`.
    pid: At,
    /// The vCPU, if the event names it.
    pub(super) vcpu: At,
    /// The process of the thread that recorded it, if the event names that (powerpc's virtual cores).
    tgid: At,
    /// Up to six fields, in the order that the meaning asks for.
    pub(super) fields: [At; 6],
    /// Bytes that a payload must have.
    needs: usize,
}

/// What is done with what happened. A closure would not be inlined at so many places, and an event would go by way of the
/// stack.
trait Then {
    type Made;
    fn take(self, kind: Kind) -> Self::Made;
}

/// It is returned, with the vCPU.
struct Return(VcpuId);

impl Then for Return {
    type Made = Decoded;

    #[inline(always)]
    fn take(self, kind: Kind) -> Decoded {
        Decoded { kind, vcpu: self.0 }
    }
}

/// It is appended to events, as one like `head`.
struct Append<'a> {
    head: Event,
    events: &'a mut Vec<Event>,
}

impl Then for Append<'_> {
    type Made = ();

    #[inline(always)]
    fn take(self, kind: Kind) {
        self.events.push(Event { kind, ..self.head });
    }
}

/// Where a field is; size 0 means that this format has no such field.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct At {
    pub(super) offset: u32,
    pub(super) size: u8,
    /// The bits of a little-endian u64 read at `offset` that are the field's.
    mask: u64,
}

impl At {
    /// The field's value; zero if there is no such field.
    #[inline(always)]
    fn get(self, payload: &[u8], order: Order) -> u64 {
        let at = self.offset as usize;
        match order.u64(payload, at) {
            Some(wide) if order == Order::Little => wide & self.mask,
            _ => order.unsigned(payload, at, usize::from(self.size)).unwrap_or(0),
        }
    }

    /// The same of a field that ends within [`REACH`].
    #[inline(always)]
    fn get_near(self, bytes: &[u8; NEAR], order: Order) -> u64 {
        // The mask lets the compiler see that the word is inside.
        let at = self.offset as usize & (REACH - 1);
        let wide = order.u64(&bytes[at..at + 8], 0).unwrap_or(0);
        match order {
            Order::Little => wide & self.mask,
            Order::Big => wide.checked_shr(64 - 8 * u32::from(self.size)).unwrap_or(0),
        }
    }
}

/// What to make of a tracepoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Meaning {
    ExitX86,
    ExitArm64,
    ExitOf(CodeList),
    ExitCeded,
    Enter,
    Userspace,
    Fpu,
    Call,
    CallEnd,
    Emulate,
    Mmio,
    Pio,
    Written(DetailKind),
    Plain(DetailKind),
    FastMmio,
    S390Instruction,
    SystemRegister,
    TrappedSystemRegister,
    Inject,
    HaltEnd,
    HaltPoll,
    PleWindow,
    Wfx,
    VcpuHint,
    RunCore,
    Switch,
    Wakeup,
    Other,
}

impl Decoder {
    /// A decoder for `system:name` with this layout.
    pub fn new(system: &str, format: &Format, names: &mut EventNames) -> Decoder {
        let (meaning, wanted) = meaning(system, format);
        let find =
            |alternatives: &str| alternatives.split('|').find_map(|name| At::named(format, name)).unwrap_or_default();
        let mut fields = [At::default(); 6];
        for (at, wanted) in fields.iter_mut().zip(wanted) {
            *at = find(wanted);
        }
        let vcpu = match meaning {
            Meaning::Other => At::default(),
            _ if system == "kvm" && format.name.starts_with("kvm_s390") => find("id"),
            _ => find("vcpu_id|runner_vcpu"),
        };
        let pid = find("common_pid");
        let tgid = if system == "kvm_hv" { find("tgid") } else { At::default() };
        let needs =
            fields.iter().chain([&pid, &vcpu]).map(|at| at.offset as usize + usize::from(at.size)).max().unwrap_or(0);
        let keep = match meaning {
            Meaning::Other => Keep::All,
            Meaning::Emulate => Keep::Used,
            _ => Keep::Timed,
        };
        Decoder {
            name: names.intern(&format!("{system}:{}", format.name)),
            meaning,
            keep,
            pid,
            vcpu,
            tgid,
            fields,
            needs,
        }
    }

    /// Whether this tracepoint's events are passed on to those who ask for `keep`.
    #[inline]
    pub fn is_kept(&self, keep: Keep) -> bool {
        self.keep <= keep
    }

    /// What `payload` says; `None` if it is too short for its format.
    #[inline(always)]
    pub fn decode(&self, payload: &[u8], order: Order) -> Option<Decoded> {
        let get = |at: At| at.get(payload, order);
        self.fits(payload.len()).then(|| self.make(get, Return(self.named_vcpu(get, VcpuId::UNKNOWN))))
    }

    /// Whether a payload of `len` bytes has all fields.
    #[inline(always)]
    pub fn fits(&self, len: usize) -> bool {
        len >= self.needs
    }

    /// Whether it has them, and all within [`NEAR`].
    #[inline(always)]
    pub fn is_near(&self, len: usize) -> bool {
        self.fits(len.min(REACH))
    }

    /// Appends to `events` what a payload that [fits](Decoder::fits) says, as an event like `head`, and of its vCPU unless
    /// it names one itself.
    #[inline(always)]
    pub fn append(&self, payload: &[u8], order: Order, head: Event, events: &mut Vec<Event>) {
        self.append_of(|at| at.get(payload, order), head, events);
    }

    /// The same of the payload that `bytes` begins with, of which all fields [are near](Decoder::is_near).
    #[inline(always)]
    pub fn append_near(&self, bytes: &[u8; NEAR], order: Order, head: Event, events: &mut Vec<Event>) {
        self.append_of(|at| at.get_near(bytes, order), head, events);
    }

    #[inline(always)]
    fn append_of(&self, get: impl Fn(At) -> u64 + Copy, head: Event, events: &mut Vec<Event>) {
        let head = Event { name: self.name, vcpu: self.named_vcpu(get, head.vcpu), ..head };
        self.make(get, Append { head, events });
    }

    /// The vCPU that the event names.
    #[inline(always)]
    fn named_vcpu(&self, get: impl Fn(At) -> u64, unnamed: VcpuId) -> VcpuId {
        match self.vcpu.size {
            0 => unnamed,
            _ => VcpuId(get(self.vcpu) as u32),
        }
    }

    /// What happened, for `then`.
    #[inline(always)]
    fn make<T: Then>(&self, get: impl Fn(At) -> u64, then: T) -> T::Made {
        let field = |n: usize| get(self.fields[n]);
        match self.meaning {
            Meaning::Other => then.take(Kind::Other),
            Meaning::ExitX86 => then.take({
                let code = match field(1) {
                    2 => ExitCode::new(CodeList::Svm, field(0)),
                    _ => ExitCode::new(CodeList::Vmx, field(0)),
                };
                let words = if self.fields[2].size > 0 { PortWords::new(code, field(2)) } else { PortWords::NONE };
                Kind::Exit { code, idle: false, words, rip: field(3) }
            }),
            Meaning::ExitArm64 => then.take({
                let code = match field(0) & 0x7fff_ffff {
                    2 => ExitCode::new(CodeList::Arm64Ec, field(1)),
                    ret => ExitCode::new(CodeList::Arm64Exit, ret),
                };
                exit(code, field(2))
            }),
            Meaning::ExitOf(CodeList::Riscv) => then.take({
                // An RV32 scause marks interrupts in bit 31; the tables use bit 63.
                let raw = field(0);
                let number = match self.fields[0].size {
                    4 => (raw & 0x7fff_ffff) | (raw >> 31) << 63,
                    _ => raw,
                };
                exit(ExitCode::new(CodeList::Riscv, number), field(1))
            }),
            Meaning::ExitOf(list) => then.take(exit(ExitCode::new(list, field(0)), field(1))),
            Meaning::ExitCeded => then.take({
                let code = ExitCode::new(CodeList::PpcTrap, field(0));
                Kind::Exit { code, idle: field(1) != 0, words: PortWords::NONE, rip: field(2) }
            }),
            Meaning::Enter => then.take(Kind::Enter),
            Meaning::Userspace => {
                then.take(Kind::UserspaceExit { reason: field(0) as u32, errno: field(1) as u32 as i32 })
            }
            Meaning::Fpu => then.take(Kind::Fpu { load: field(0) != 0 }),
            Meaning::Call => then.take(match field(0) {
                KVM_RUN => Kind::RunEnter,
                command => Kind::Call { registers: is_of_registers(command) },
            }),
            Meaning::CallEnd => then.take(Kind::CallEnd),
            Meaning::Emulate => then.take(Kind::Emulate),
            // type: 0 unsatisfied read (value still unknown), 1 read, 2 write.
            Meaning::Mmio => then.take(Kind::Detail(Detail {
                kind: DetailKind::Mmio,
                write: field(0) == 2,
                form: Form::Untold,
                size: field(1) as u16,
                key: field(2),
                value: field(3),
            })),
            Meaning::Pio => then.take(Kind::Detail(Detail {
                kind: DetailKind::Port,
                write: field(0) != 0,
                // Of one access, this does not say which it is.
                form: if field(4) > 1 { Form::String } else { Form::Untold },
                size: field(1) as u16,
                key: field(2),
                value: field(3),
            })),
            Meaning::Written(kind) => then.take(about(kind, field(0) != 0, field(1), field(2))),
            Meaning::Plain(kind) => then.take(about(kind, false, field(0), field(1))),
            Meaning::FastMmio => then.take(about(DetailKind::Mmio, true, field(0), 0)),
            Meaning::S390Instruction => {
                then.take(about(DetailKind::Instruction, false, s390_instruction_key(field(0)), field(0)))
            }
            Meaning::SystemRegister => {
                let register = system_register([field(1), field(2), field(3), field(4), field(5)]);
                then.take(about(DetailKind::SystemRegister, field(0) != 0, register, 0))
            }
            Meaning::TrappedSystemRegister => {
                let (register, write) = trapped_system_register(field(0));
                then.take(about(DetailKind::SystemRegister, write, register, 0))
            }
            Meaning::Inject => then.take(Kind::Inject { vector: field(0) as u32 }),
            // Before Linux 4.4 a poll had no validity.
            Meaning::HaltEnd => then.take({
                Kind::HaltEnd { ns: field(0), waited: field(1) != 0, valid: self.fields[2].size == 0 || field(2) != 0 }
            }),
            Meaning::HaltPoll => {
                then.take(Kind::HaltPoll { grow: field(0) != 0, new: field(1) as u32, old: field(2) as u32 })
            }
            Meaning::PleWindow => then.take(Kind::PleWindow { new: field(0) as u32, old: field(1) as u32 }),
            Meaning::Wfx => then.take(Kind::Wfx { wfe: field(0) != 0 }),
            Meaning::VcpuHint => then.take(Kind::VcpuHint),
            Meaning::RunCore => then.take(Kind::RunCore { exit: field(0) != 0, runnable: field(1) as u32 }),
            Meaning::Switch => then.take({
                // Bits 0 to 7 are the state; zero (or only the preempted flag above them) is runnable.
                let state = field(1) & 0xff;
                Kind::Switch { prev: Tid(field(0) as u32), sleeps: state != 0, next: Tid(field(2) as u32) }
            }),
            Meaning::Wakeup => then.take(Kind::Wakeup { tid: Tid(field(0) as u32) }),
        }
    }

    /// The thread that recorded it (`common_pid`).
    #[inline(always)]
    pub fn tid(&self, payload: &[u8], order: Order) -> Tid {
        Tid(self.pid.get(payload, order) as u32)
    }
}

impl Decoder {
    /// The VM of the thread that recorded `payload`, if the event says whose it is.
    #[inline]
    pub fn vm(&self, payload: &[u8], order: Order) -> Option<VmId> {
        match self.tgid.size {
            0 => None,
            size => order.unsigned(payload, self.tgid.offset as usize, usize::from(size)).map(|tgid| VmId(tgid as u32)),
        }
    }
}

impl At {
    /// The field of this name; `args[1]` is the second of the six that the field `args` has.
    fn named(format: &Format, name: &str) -> Option<At> {
        match name.strip_suffix("[1]") {
            None => format.field(name).map(|field: &Field| At::new(field.offset, field.size)),
            Some(array) => {
                format.field(array).map(|field| At::new(field.offset.saturating_add(field.size / 6), field.size / 6))
            }
        }
    }

    fn new(offset: usize, size: usize) -> At {
        match (u32::try_from(offset), size) {
            (Ok(offset), 1 | 2 | 4 | 8) if offset < 1 << 16 => {
                At { offset, size: size as u8, mask: u64::MAX >> (64 - 8 * size) }
            }
            _ => At::default(),
        }
    }
}

/// What a tracepoint means, and the fields to read; `|` separates names that kernels have used over time.
fn meaning(system: &str, format: &Format) -> (Meaning, &'static [&'static str]) {
    use DetailKind as D;
    use Meaning as M;
    let has = |name: &str| format.field(name).is_some();
    match (system, format.name.as_str()) {
        ("kvm", "kvm_exit") if has("esr_ec") => (M::ExitArm64, &["ret|idx|exit_reason", "esr_ec", "vcpu_pc"]),
        ("kvm", "kvm_exit") if has("scause") => (M::ExitOf(CodeList::Riscv), &["scause", "sepc"]),
        ("kvm", "kvm_exit") if has("exit_reason") => (M::ExitX86, &["exit_reason", "isa", "info1", "guest_rip"]),
        ("kvm", "kvm_exit") if has("reason") => (M::ExitOf(CodeList::Loongarch), &["reason", "pc"]),
        ("kvm", "kvm_exit_idle" | "kvm_exit_cache" | "kvm_exit_cpucfg" | "kvm_exit_csr") => {
            (M::ExitOf(CodeList::Loongarch), &["reason", "pc"])
        }
        ("kvm_booke", "kvm_exit") => (M::ExitOf(CodeList::PpcBooke), &["exit_nr", "pc"]),
        ("kvm_pr" | "kvm", "kvm_exit") if has("exit_nr") => (M::ExitOf(CodeList::PpcTrap), &["exit_nr", "pc"]),
        ("kvm_hv", "kvm_guest_exit") => (M::ExitCeded, &["trap", "ceded", "pc"]),
        ("kvm", "kvm_s390_sie_exit") => (M::ExitOf(CodeList::S390), &["icptcode", "pswaddr"]),
        ("kvm", "kvm_entry" | "kvm_enter" | "kvm_reenter" | "kvm_s390_sie_enter") => (M::Enter, &[]),
        ("kvm_hv", "kvm_guest_enter") | ("kvm_pr", "kvm_book3s_reenter") => (M::Enter, &[]),
        ("kvm", "kvm_userspace_exit") => (M::Userspace, &["reason", "errno"]),
        ("kvm", "kvm_fpu") => (M::Fpu, &["load"]),
        ("syscalls", "sys_enter_ioctl") => (M::Call, &["cmd"]),
        // An ioctl's command is its second argument.
        ("raw_syscalls", "sys_enter") => (M::Call, &["args[1]"]),
        ("syscalls", "sys_exit_ioctl") | ("raw_syscalls", "sys_exit") => (M::CallEnd, &[]),
        ("kvm", "kvm_emulate_insn") => (M::Emulate, &[]),
        ("kvm", "kvm_mmio") => (M::Mmio, &["type", "len", "gpa", "val"]),
        ("kvm", "kvm_iocsr") => (M::Mmio, &["type", "len", "gpa", "val"]),
        ("kvm", "kvm_fast_mmio") => (M::FastMmio, &["gpa"]),
        ("kvm", "kvm_pio") => (M::Pio, &["rw", "size", "port", "val", "count"]),
        ("kvm", "kvm_msr") => (M::Written(D::Msr), &["write", "ecx", "data"]),
        ("kvm", "kvm_cr") => (M::Written(D::ControlRegister), &["rw", "cr", "val"]),
        ("kvm", "kvm_apic") => (M::Written(D::Apic), &["rw", "reg", "val"]),
        ("kvm", "kvm_sys_access") => (M::SystemRegister, &["is_write", "Op0", "Op1", "CRn", "CRm", "Op2"]),
        ("kvm", "kvm_handle_sys_reg") => (M::TrappedSystemRegister, &["hsr"]),
        ("kvm", "kvm_cpuid") => (M::Plain(D::Cpuid), &["function", "index"]),
        ("kvm", "kvm_hypercall") => (M::Plain(D::Hypercall), &["nr", "a0"]),
        ("kvm", "kvm_hv_hypercall") => (M::Plain(D::HypervHypercall), &["code"]),
        ("kvm", "kvm_xen_hypercall") => (M::Plain(D::XenHypercall), &["nr", "a0"]),
        ("kvm", "kvm_hvc_arm64") => (M::Plain(D::Hvc), &["r0", "imm"]),
        ("kvm_hv", "kvm_hcall_enter") => (M::Plain(D::PpcHcall), &["req", "gpr4"]),
        ("kvm", "kvm_page_fault") => (M::Plain(D::PageFault), &["error_code", "fault_address"]),
        ("kvm", "kvm_guest_fault") => (M::Plain(D::PageFault), &["hsr", "ipa"]),
        ("kvm_hv", "kvm_page_fault_enter") => (M::Plain(D::PageFault), &["dsisr", "ea"]),
        ("kvm", "kvm_s390_intercept_instruction") => (M::S390Instruction, &["instruction"]),
        ("kvm", "kvm_s390_intercept_prog") => (M::Plain(D::Program), &["code"]),
        ("kvm", "kvm_s390_handle_sigp" | "kvm_s390_handle_sigp_pei") => {
            (M::Plain(D::Sigp), &["order_code", "cpu_addr"])
        }
        ("kvm", "kvm_s390_handle_diag") => (M::Plain(D::Diag), &["code"]),
        ("kvm", "kvm_inj_virq") => (M::Inject, &["vector|irq"]),
        ("kvm", "kvm_vcpu_wakeup") => (M::HaltEnd, &["ns", "waited", "valid"]),
        ("kvm", "kvm_wfx_arm64") => (M::Wfx, &["is_wfe"]),
        ("kvm_hv", "kvmppc_vcore_wakeup") => (M::HaltEnd, &["ns", "waited"]),
        ("kvm", "kvm_ple_window_update" | "kvm_ple_window") => (M::PleWindow, &["new", "old"]),
        ("kvm", "kvm_halt_poll_ns") => (M::HaltPoll, &["grow", "new", "old"]),
        // Recorded by the vCPU's own thread, and it names the vCPU.
        ("kvm_hv", "kvmppc_run_vcpu_enter" | "kvmppc_run_vcpu_exit") => (M::VcpuHint, &[]),
        ("kvm_hv", "kvmppc_run_core") => (M::RunCore, &["where", "n_runnable"]),
        ("sched", "sched_switch") => (M::Switch, &["prev_pid", "prev_state", "next_pid"]),
        ("sched", "sched_wakeup" | "sched_wakeup_new") => (M::Wakeup, &["pid"]),
        _ => (M::Other, &[]),
    }
}

/// All decoders of a trace, by the id in `common_type`.
#[derive(Clone, Debug, Default)]
pub struct Decoders {
    by_id: Vec<Option<Box<Decoder>>>,
}

impl Decoders {
    /// Adds the decoder of one format text. Ids are 16 bits wide in every record, so larger ones are left out.
    pub fn add(&mut self, system: &str, text: &str, names: &mut EventNames) {
        let Some(format) = Format::parse(text) else { return };
        let id = format.id as usize;
        if id > usize::from(u16::MAX) {
            return;
        }
        if self.by_id.len() <= id {
            self.by_id.resize(id + 1, None);
        }
        self.by_id[id] = Some(Box::new(Decoder::new(system, &format, names)));
    }

    /// The decoder for records whose `common_type` is `id`.
    #[inline]
    pub fn get(&self, id: u16) -> Option<&Decoder> {
        self.by_id.get(usize::from(id))?.as_deref()
    }
}
