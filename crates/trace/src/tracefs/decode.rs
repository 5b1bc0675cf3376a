//! One tracepoint payload in, one event kind out. Fields are found by name in the format that the trace carries.

use super::Format;
use crate::EventFilter;
use crate::bytes::ByteOrder;
use crate::tracepoints::{
    FieldContent, TracepointMeaning, about, activity, apicv_change, avic_incomplete_ipi, call, exit, ghcb_msr,
    guest_poll_limit, halt_poll, host_irq, of_format, ple_window, userspace_exit, woken_polling,
};
use exitscope_model::codes::{
    KICK_CPU, loongarch_privileged, s390_instruction_key, system_register, trapped_system_register,
};
use exitscope_model::{
    CodeList, Event, EventKind, EventNames, ExitCode, ExitInfo, ExitWord, IrqName, KvmActivity, NameId, PortAccessForm,
    Subject, SubjectKind, SubjectWord, ThreadName,
};
use exitscope_units::{Tid, VcpuId, VmId};

/// Bytes that are enough to read the fields of nearly all payloads without looking where each ends.
pub const NEAR: usize = REACH + 8;

/// Where such fields end at most: a power of two.
const REACH: usize = 128;

/// Bytes of a thread's name: `TASK_COMM_LEN` of include/linux/sched.h.
const NAME: usize = 16;

/// What a payload said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decoded {
    /// What happened.
    pub kind: EventKind,
    /// To which vCPU, if the event says.
    pub vcpu: VcpuId,
}

/// Reads payloads of one tracepoint.
#[derive(Clone, Debug)]
pub struct Decoder {
    /// The tracepoint's name.
    pub name: NameId,
    pub(super) meaning: TracepointMeaning,
    /// The least that has to be asked for to be passed on.
    keep: EventFilter,
    /// `common_pid`.
    pid: At,
    /// The vCPU, if the event names it.
    pub(super) vcpu: At,
    /// The process of the thread that recorded it, if the event names that (powerpc's virtual cores).
    tgid: At,
    /// Up to six fields, in the order that the meaning asks for.
    pub(super) fields: [At; 6],
    /// What an exit says besides.
    words: [At; ExitWord::ALL.len()],
    /// Bytes that a payload must have.
    needs: usize,
}

/// What is done with what happened. A closure would not be inlined at so many places, and an event would go by way of the
/// stack.
trait Then {
    type Made;
    fn take(self, kind: EventKind) -> Self::Made;
}

/// It is returned, with the vCPU.
struct Return(VcpuId);

impl Then for Return {
    type Made = Decoded;

    #[inline(always)]
    fn take(self, kind: EventKind) -> Decoded {
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
    fn take(self, kind: EventKind) {
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
    fn get(self, payload: &[u8], order: ByteOrder) -> u64 {
        let at = self.offset as usize;
        match order.u64(payload, at) {
            Some(wide) if order == ByteOrder::Little => wide & self.mask,
            _ => order.unsigned(payload, at, usize::from(self.size)).unwrap_or(0),
        }
    }

    /// The same of a field that ends within [`REACH`].
    #[inline(always)]
    fn get_near(self, bytes: &[u8; NEAR], order: ByteOrder) -> u64 {
        // The mask lets the compiler see that the word is inside.
        let at = self.offset as usize & (REACH - 1);
        let wide = order.u64(&bytes[at..at + 8], 0).unwrap_or(0);
        match order {
            ByteOrder::Little => wide & self.mask,
            ByteOrder::Big => wide.checked_shr(64 - 8 * u32::from(self.size)).unwrap_or(0),
        }
    }
}

impl Decoder {
    /// A decoder for `system:name` with this layout.
    pub fn new(system: &str, format: &Format, names: &mut EventNames) -> Decoder {
        let row = of_format(system, &format.name, |field| format.field(field).is_some());
        let meaning = row.map_or(TracepointMeaning::Other, |row| row.meaning);
        let find = |carries: FieldContent| {
            let found = row.and_then(|row| row.field(carries)?.find_map(|name| At::named(format, name)));
            found.unwrap_or_default()
        };
        let mut fields = [At::default(); 6];
        for (at, &carries) in fields.iter_mut().zip(reads(meaning)) {
            *at = find(carries);
        }
        let words = ExitWord::ALL.map(|word| find(FieldContent::Word(word)));
        let vcpu = find(FieldContent::Vcpu);
        let named = |name: &str| At::named(format, name).unwrap_or_default();
        let pid = named("common_pid");
        let tgid = if system == "kvm_hv" { named("tgid") } else { At::default() };
        let said = SubjectWord::READS.map(|word| words[word as usize]);
        let needs = fields
            .iter()
            .chain(&said)
            .chain([&pid, &vcpu])
            .map(|at| at.offset as usize + usize::from(at.size))
            .max()
            .unwrap_or(0);
        let keep = match meaning {
            TracepointMeaning::Other => EventFilter::All,
            _ => EventFilter::Used,
        };
        Decoder {
            name: names.intern(&format!("{system}:{}", format.name)),
            meaning,
            keep,
            words,
            pid,
            vcpu,
            tgid,
            fields,
            needs,
        }
    }

    /// Whether this tracepoint's events are passed on to those who ask for `keep`.
    #[inline]
    pub fn is_kept(&self, keep: EventFilter) -> bool {
        self.keep <= keep
    }

    /// What `payload` says; `None` if it is too short for its format.
    #[inline(always)]
    pub fn decode(&self, payload: &[u8], order: ByteOrder) -> Option<Decoded> {
        let get = |at: At| at.get(payload, order);
        self.fits(payload.len()).then(|| self.make(get, order, Return(self.named_vcpu(get, VcpuId::UNKNOWN))))
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

    /// Whether all that is read of a payload are fields at places that its format says, not a string behind them.
    #[inline(always)]
    pub fn has_fields_alone(&self) -> bool {
        self.meaning != TracepointMeaning::HostIrq
    }

    /// Appends to `events` what a payload that [fits](Decoder::fits) says, as an event like `head`, and of its vCPU unless
    /// it names one itself.
    #[inline(always)]
    pub fn append(&self, payload: &[u8], order: ByteOrder, head: Event, events: &mut Vec<Event>) {
        self.append_of(|at| at.get(payload, order), order, head, events);
    }

    /// The same of the payload that `bytes` begins with, of which all fields [are near](Decoder::is_near).
    #[inline(always)]
    pub fn append_near(&self, bytes: &[u8; NEAR], order: ByteOrder, head: Event, events: &mut Vec<Event>) {
        self.append_of(|at| at.get_near(bytes, order), order, head, events);
    }

    #[inline(always)]
    fn append_of(&self, get: impl Fn(At) -> u64 + Copy, order: ByteOrder, head: Event, events: &mut Vec<Event>) {
        let head = Event { name: self.name, vcpu: self.named_vcpu(get, head.vcpu), ..head };
        self.make(get, order, Append { head, events });
    }

    /// Appends what the exit that `payload` says, the last event, says besides.
    pub fn append_info(&self, payload: &[u8], order: ByteOrder, events: &mut Vec<Event>) {
        let is_there = |at: &At| at.size > 0 && at.offset as usize + usize::from(at.size) <= payload.len();
        let of = |word: ExitWord| Some(self.words[word as usize]).filter(is_there);
        if let Some(&exit) = events.last().filter(|event| matches!(event.kind, EventKind::Exit { .. }))
            && let Some(info) = ExitInfo::from_words(|word| Some(of(word)?.get(payload, order)))
        {
            events.push(Event { kind: EventKind::ExitInfo(info), ..exit });
        }
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
    fn make<T: Then>(&self, get: impl Fn(At) -> u64, order: ByteOrder, then: T) -> T::Made {
        let field = |n: usize| get(self.fields[n]);
        match self.meaning {
            TracepointMeaning::Other => then.take(EventKind::Other),
            TracepointMeaning::ExitX86 => then.take({
                let code = match field(1) {
                    2 => ExitCode::new(CodeList::Svm, field(0)),
                    _ => ExitCode::new(CodeList::Vmx, field(0)),
                };
                let words = SubjectWord::new(code, |word| {
                    let at = self.words[word as usize];
                    (at.size > 0).then(|| get(at))
                });
                EventKind::Exit { code, idle: false, words, rip: field(2) }
            }),
            TracepointMeaning::ExitArm64 => then.take({
                let code = match field(0) & 0x7fff_ffff {
                    2 => ExitCode::new(CodeList::Arm64Ec, field(1)),
                    ret => ExitCode::new(CodeList::Arm64Exit, ret),
                };
                exit(code, field(2))
            }),
            TracepointMeaning::ExitOf(CodeList::Riscv) => then.take({
                // An RV32 scause marks interrupts in bit 31; the tables use bit 63.
                let raw = field(0);
                let number = match self.fields[0].size {
                    4 => (raw & 0x7fff_ffff) | (raw >> 31) << 63,
                    _ => raw,
                };
                exit(ExitCode::new(CodeList::Riscv, number), field(1))
            }),
            TracepointMeaning::ExitOf(list) => then.take(exit(ExitCode::new(list, field(0)), field(1))),
            TracepointMeaning::Refined(list) => then.take(EventKind::Refine { code: ExitCode::new(list, field(0)) }),
            TracepointMeaning::Privileged => then.take(EventKind::Refine { code: loongarch_privileged(field(0)) }),
            TracepointMeaning::KvmOut => then.take(EventKind::KvmOut),
            TracepointMeaning::ExitCeded => then.take({
                let code = ExitCode::new(CodeList::PpcTrap, field(0));
                EventKind::Exit { code, idle: field(1) != 0, words: SubjectWord::NONE, rip: field(2) }
            }),
            TracepointMeaning::Enter => then.take(EventKind::Enter),
            TracepointMeaning::Userspace => then.take(userspace_exit(field(0), field(1))),
            TracepointMeaning::Fpu => then.take(EventKind::Fpu { load: field(0) != 0 }),
            TracepointMeaning::Syscall => then.take(call(field(0))),
            TracepointMeaning::SyscallExit => then.take(EventKind::SyscallExit),
            TracepointMeaning::Emulate => then.take(EventKind::Emulate),
            TracepointMeaning::Nested => then.take(EventKind::Nested),
            TracepointMeaning::KvmActivity(of) => then.take(activity(of, field(0), field(1))),
            TracepointMeaning::ApicvChange => then.take(apicv_change(field(0), field(1) != 0, field(2))),
            TracepointMeaning::AvicIncompleteIpi => then.take(avic_incomplete_ipi(field(0))),
            TracepointMeaning::Reflect => then.take(EventKind::Reflect),
            TracepointMeaning::GhcbMsr => then.take(ghcb_msr(field(0))),
            TracepointMeaning::Hypercall => {
                let value = if field(0) == KICK_CPU { field(2) } else { field(1) };
                then.take(about(SubjectKind::Hypercall, false, field(0), value))
            }
            // type: 0 unsatisfied read (value still unknown), 1 read, 2 write.
            TracepointMeaning::Mmio => then.take(EventKind::Detail(Subject {
                kind: SubjectKind::Mmio,
                write: field(0) == 2,
                form: PortAccessForm::Unknown,
                size: field(1) as u16,
                key: field(2),
                value: field(3),
            })),
            TracepointMeaning::Pio => then.take(EventKind::Detail(Subject {
                kind: SubjectKind::Port,
                write: field(0) != 0,
                // Of one access, this does not say which it is.
                form: if field(4) > 1 { PortAccessForm::String } else { PortAccessForm::Unknown },
                size: field(1) as u16,
                key: field(2),
                value: field(3),
            })),
            TracepointMeaning::Written(kind) => then.take(about(kind, field(0) != 0, field(1), field(2))),
            TracepointMeaning::Plain(kind) => then.take(about(kind, false, field(0), field(1))),
            TracepointMeaning::HostIrq => then.take(host_irq(field(0), irq_name(field(1), get))),
            TracepointMeaning::FastMmio => then.take(about(SubjectKind::Mmio, true, field(0), 0)),
            TracepointMeaning::S390Instruction => {
                then.take(about(SubjectKind::Instruction, false, s390_instruction_key(field(0)), field(0)))
            }
            TracepointMeaning::SystemRegister => {
                let register = system_register([field(1), field(2), field(3), field(4), field(5)]);
                then.take(about(SubjectKind::SystemRegister, field(0) != 0, register, 0))
            }
            TracepointMeaning::TrappedSystemRegister => {
                let (register, write) = trapped_system_register(field(0));
                then.take(about(SubjectKind::SystemRegister, write, register, 0))
            }
            TracepointMeaning::Inject => then.take(EventKind::Inject { vector: field(0) as u32 }),
            // Before Linux 4.4 a poll had no validity.
            TracepointMeaning::HaltEnd => then.take({
                EventKind::HaltEnd {
                    ns: field(0),
                    waited: field(1) != 0,
                    valid: self.fields[2].size == 0 || field(2) != 0,
                }
            }),
            TracepointMeaning::HaltPoll => then.take(halt_poll(field(0) != 0, field(1), field(2))),
            TracepointMeaning::WokenPolling => then.take(woken_polling(field(0))),
            TracepointMeaning::GuestPollLimit => then.take(guest_poll_limit(field(0) != 0, field(1), field(2))),
            TracepointMeaning::PleWindow => then.take(ple_window(field(0), field(1))),
            TracepointMeaning::Wfx => then.take(EventKind::Wfx { wfe: field(0) != 0 }),
            TracepointMeaning::VcpuHint => then.take(EventKind::VcpuHint),
            TracepointMeaning::RunCore => {
                then.take(EventKind::RunCore { exit: field(0) != 0, runnable: field(1) as u32 })
            }
            TracepointMeaning::Switch => then.take(self.switch(get, order)),
            TracepointMeaning::Wakeup => then.take(EventKind::Wakeup { tid: Tid(field(0) as u32) }),
        }
    }

    /// A CPU goes from one thread to another.
    #[inline(always)]
    fn switch(&self, get: impl Fn(At) -> u64, order: ByteOrder) -> EventKind {
        let [prev, state, next] = [0, 1, 2].map(|n| get(self.fields[n]));
        EventKind::Switch {
            prev: Tid(prev as u32),
            // Bits 0 to 7 are the state; zero (or only the preempted flag above them) is runnable.
            sleeps: state & 0xff != 0,
            next: Tid(next as u32),
            prev_name: thread_name(self.fields[3], get, order),
        }
    }

    /// The thread that recorded it (`common_pid`).
    #[inline(always)]
    pub fn tid(&self, payload: &[u8], order: ByteOrder) -> Tid {
        Tid(self.pid.get(payload, order) as u32)
    }
}

impl Decoder {
    /// The VM of the thread that recorded `payload`, if the event says whose it is.
    #[inline]
    pub fn vm(&self, payload: &[u8], order: ByteOrder) -> Option<VmId> {
        match self.tgid.size {
            0 => None,
            size => order.unsigned(payload, self.tgid.offset as usize, usize::from(size)).map(|tgid| VmId(tgid as u32)),
        }
    }
}

/// The name in a field, in two words: of a switch it would be most of the work to take it byte by byte.
#[inline(always)]
fn thread_name(at: At, get: impl Fn(At) -> u64, order: ByteOrder) -> ThreadName {
    if usize::from(at.size) != NAME {
        return ThreadName::NONE;
    }
    let half = |offset| order.bytes(get(At { offset, size: 8, mask: u64::MAX }));
    ThreadName::of_halves(half(at.offset), half(at.offset + 8))
}

/// The string at a record's end, of which `place` says where it begins and, above 16 bits, how long it is (`__data_loc`). What is beyond
/// [`REACH`] is not looked at.
#[inline(always)]
fn irq_name(place: u64, get: impl Fn(At) -> u64) -> IrqName {
    let (offset, len) = (place as u32 & 0xffff, place as usize >> 16 & 0xffff);
    let mut bytes = [0; size_of::<IrqName>()];
    for (offset, byte) in (offset..REACH as u32).zip(bytes.iter_mut().take(len)) {
        *byte = get(At { offset, size: 1, mask: 0xff }) as u8;
    }
    IrqName::new(&bytes)
}

impl At {
    /// The field of this name. Of `args[6]`, a system call's arguments, the second: an ioctl's command. Of characters, all.
    fn named(format: &Format, name: &str) -> Option<At> {
        let (name, elements) = name.split_once('[').unwrap_or((name, ""));
        let field = format.field(name)?;
        Some(match elements.trim_end_matches(']').parse() {
            Ok(elements) if elements != field.size => {
                let size = field.size.checked_div(elements)?;
                At::new(field.offset.saturating_add(size), size)
            }
            _ => At::new(field.offset, field.size),
        })
    }

    fn new(offset: usize, size: usize) -> At {
        match (u32::try_from(offset), size) {
            (Ok(offset), 1 | 2 | 4 | 8) if offset < 1 << 16 => {
                At { offset, size: size as u8, mask: u64::MAX >> (64 - 8 * size) }
            }
            // A thread's name.
            (Ok(offset), NAME) if offset < 1 << 16 => At { offset, size: NAME as u8, mask: 0 },
            _ => At::default(),
        }
    }
}

/// What is read of a record, in the order of [`Decoder::fields`].
const fn reads(meaning: TracepointMeaning) -> &'static [FieldContent] {
    use FieldContent::*;
    match meaning {
        TracepointMeaning::ExitX86 => &[Code, Isa, Rip],
        TracepointMeaning::ExitArm64 => &[Ret, TrapClass, Rip],
        TracepointMeaning::ExitOf(_) => &[Code, Rip],
        TracepointMeaning::Refined(_) => &[Code],
        TracepointMeaning::Privileged => &[Instruction],
        TracepointMeaning::ExitCeded => &[Code, Ceded, Rip],
        TracepointMeaning::Userspace => &[Reason, Errno],
        TracepointMeaning::Fpu => &[Load],
        TracepointMeaning::Syscall => &[Command],
        TracepointMeaning::Mmio => &[MmioType, Size, Key, Value],
        TracepointMeaning::Pio => &[Write, Size, Key, Value, Count],
        TracepointMeaning::Written(_) => &[Write, Key, Value],
        TracepointMeaning::Plain(_) => &[Key, Value],
        TracepointMeaning::Hypercall => &[Key, Value, Second],
        TracepointMeaning::GhcbMsr => &[Value],
        TracepointMeaning::HostIrq => &[Key, FieldContent::IrqName],
        TracepointMeaning::FastMmio => &[Key],
        TracepointMeaning::KvmActivity(KvmActivity::Unmapped(_)) => &[Start, End],
        TracepointMeaning::ApicvChange => &[Reason, Set, Inhibits],
        TracepointMeaning::AvicIncompleteIpi => &[Reason],
        TracepointMeaning::S390Instruction => &[Value],
        TracepointMeaning::SystemRegister => {
            &[Write, RegisterPart(0), RegisterPart(1), RegisterPart(2), RegisterPart(3), RegisterPart(4)]
        }
        TracepointMeaning::TrappedSystemRegister => &[Esr],
        TracepointMeaning::Inject => &[Vector],
        TracepointMeaning::HaltEnd => &[Halted, Waited, Valid],
        TracepointMeaning::HaltPoll | TracepointMeaning::GuestPollLimit => &[Grow, NewPoll, OldPoll],
        TracepointMeaning::WokenPolling => &[IdleCpu],
        TracepointMeaning::PleWindow => &[NewWindow, OldWindow],
        TracepointMeaning::Wfx => &[Wfe],
        TracepointMeaning::RunCore => &[Leaves, Runnable],
        TracepointMeaning::Switch => &[Prev, PrevState, Next, PrevName],
        TracepointMeaning::Wakeup => &[Woken],
        TracepointMeaning::Enter
        | TracepointMeaning::KvmOut
        | TracepointMeaning::SyscallExit
        | TracepointMeaning::Emulate
        | TracepointMeaning::Nested
        | TracepointMeaning::KvmActivity(_)
        | TracepointMeaning::Reflect
        | TracepointMeaning::VcpuHint
        | TracepointMeaning::Other => &[],
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
