//! From a row of the table of tracepoints to the layout of its records, and from an event to what its fields carry.
//!
//! ```text
//! row: "unsigned int exit_reason" Code ─► format text, place of 4 bytes at 8 that carries Code ─► number of an event
//! ```
//!
//! Records are laid out as the kernel lays them out: common fields, then each field at its natural alignment.

use super::rows::ROWS;
use crate::tracefs::Format;
use exitscope_model::codes::{system_register_parts, system_register_trap, tables as t};
use exitscope_model::{CodeList, Detail, Event, Form, Kind};
use exitscope_units::Tid;

/// `_IO(0xAE, 0x80)`, `include/uapi/linux/kvm.h`.
const KVM_RUN: u64 = 0xae80;

/// `_IOR(0xAE, 0x81, struct kvm_regs)` of x86, for all calls that read or write registers.
const KVM_GET_REGS: u64 = 0x8090_ae81;

/// `TASK_INTERRUPTIBLE`, and the flag of a thread that was preempted.
const SLEEPS: u64 = 1;
const PREEMPTED: u64 = 0x100;

/// What a field carries of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carries {
    /// Nothing: an event does not know it.
    Zero,
    Vcpu,
    Process,
    Code,
    /// Where in the guest it was.
    Rip,
    /// x86: whose codes they are.
    Isa,
    /// x86: what the exit says of a port access.
    Info1,
    /// arm64: the code, or that it is a trap; and the class of the trap.
    Ret,
    TrapClass,
    Ceded,
    Reason,
    Errno,
    Load,
    Command,
    Write,
    /// As `kvm_mmio` counts them: read, write.
    MmioType,
    Size,
    /// 1; of a string access, whose count an event does not keep, 2.
    Count,
    Key,
    /// arm64: the trap of a system register; and a part of its name: Op0, Op1, CRn, CRm, Op2.
    Esr,
    RegisterPart(usize),
    Value,
    Vector,
    Halted,
    Waited,
    /// Whether the wake-up was meant for the vCPU: always, but for some on s390.
    Valid,
    Grow,
    NewPoll,
    OldPoll,
    NewWindow,
    OldWindow,
    Wfe,
    Leaves,
    Runnable,
    Prev,
    PrevState,
    Next,
    Woken,
    /// The names of these threads.
    PrevName,
    NextName,
    WokenName,
}

impl Carries {
    /// Its number in `event`; zero if the event is not about such a thing.
    pub fn number(self, event: &Event) -> u64 {
        use Carries as C;
        let detail = |part: fn(Detail) -> u64| if let Kind::Detail(detail) = event.kind { part(detail) } else { 0 };
        match (self, event.kind) {
            (C::Vcpu, _) => event.vcpu.0.into(),
            (C::Process, _) => event.vm.0.into(),
            (C::Code, Kind::Exit { code, .. }) => code.number,
            (C::Rip, Kind::Exit { rip, .. }) => rip,
            (C::Isa, Kind::Exit { code, .. }) => match code.list {
                CodeList::Vmx => 1,
                CodeList::Svm => 2,
                _ => 0,
            },
            (C::Info1, Kind::Exit { words, .. }) => words.info1(),
            (C::Ret, Kind::Exit { code, .. }) if code.list == CodeList::Arm64Ec => 2,
            (C::Ret, Kind::Exit { code, .. }) => code.number,
            (C::TrapClass, Kind::Exit { code, .. }) if code.list == CodeList::Arm64Ec => code.number,
            (C::Ceded, Kind::Exit { idle, .. }) => idle.into(),
            (C::Reason, Kind::UserspaceExit { reason, .. }) => reason.into(),
            (C::Errno, Kind::UserspaceExit { errno, .. }) => errno as u64,
            (C::Load, Kind::Fpu { load }) => load.into(),
            (C::Command, Kind::RunEnter) => KVM_RUN,
            (C::Command, Kind::Call { registers: true }) => KVM_GET_REGS,
            (C::Write, _) => detail(|detail| detail.write.into()),
            (C::MmioType, _) => detail(|detail| if detail.write { 2 } else { 1 }),
            (C::Size, _) => detail(|detail| detail.size.into()),
            (C::Count, _) => detail(|detail| if detail.form == Form::String { 2 } else { 1 }),
            (C::Key, _) => detail(|detail| detail.key),
            (C::Esr, _) => detail(|detail| system_register_trap(detail.key, detail.write)),
            (C::RegisterPart(at), Kind::Detail(detail)) => system_register_parts(detail.key)[at],
            (C::Value, _) => detail(|detail| detail.value),
            (C::Vector, Kind::Inject { vector }) => vector.into(),
            (C::Halted, Kind::HaltEnd { ns, .. }) => ns,
            (C::Waited, Kind::HaltEnd { waited, .. }) => waited.into(),
            (C::Valid, Kind::HaltEnd { valid, .. }) => valid.into(),
            (C::Grow, Kind::HaltPoll { grow, .. }) => grow.into(),
            (C::NewPoll, Kind::HaltPoll { new, .. }) => new.into(),
            (C::OldPoll, Kind::HaltPoll { old, .. }) => old.into(),
            (C::NewWindow, Kind::PleWindow { new, .. }) => new.into(),
            (C::OldWindow, Kind::PleWindow { old, .. }) => old.into(),
            (C::Wfe, Kind::Wfx { wfe }) => wfe.into(),
            (C::Leaves, Kind::RunCore { exit, .. }) => exit.into(),
            (C::Runnable, Kind::RunCore { runnable, .. }) => runnable.into(),
            (C::PrevState, Kind::Switch { sleeps, .. }) => {
                if sleeps {
                    SLEEPS
                } else {
                    PREEMPTED
                }
            }
            (C::Prev | C::Next | C::Woken, _) => self.thread(event).map_or(0, |tid| tid.0.into()),
            _ => 0,
        }
    }

    /// The thread that it numbers or names.
    pub fn thread(self, event: &Event) -> Option<Tid> {
        match (self, event.kind) {
            (Carries::Prev | Carries::PrevName, Kind::Switch { prev, .. }) => Some(prev),
            (Carries::Next | Carries::NextName, Kind::Switch { next, .. }) => Some(next),
            (Carries::Woken | Carries::WokenName, Kind::Wakeup { tid }) => Some(tid),
            _ => None,
        }
    }

    /// Whether it is a name, an array of characters.
    pub fn is_name(self) -> bool {
        matches!(self, Carries::PrevName | Carries::NextName | Carries::WokenName)
    }
}

/// A field of a record.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    pub offset: usize,
    pub size: usize,
    pub carries: Carries,
}

/// How the records of one tracepoint are laid out.
#[derive(Clone, Debug)]
pub struct Layout {
    pub system: String,
    /// The `format` text.
    pub text: String,
    /// The fields that carry something.
    pub places: Vec<Place>,
    /// Bytes of a record.
    pub size: usize,
}

/// Architecture (as `uname -m` begins; empty: all), name, fields, print format.
pub type Row = (&'static str, &'static str, &'static [(&'static str, Carries)], &'static str);

/// Fields that all records have.
const COMMON: &[(&str, Carries)] = &[
    ("unsigned short common_type", Carries::Zero),
    ("unsigned char common_flags", Carries::Zero),
    ("unsigned char common_preempt_count", Carries::Zero),
    ("int common_pid", Carries::Zero),
];

/// What a tracepoint has of which nothing is known: perf wants one field at least.
const UNKNOWN: &[(&str, Carries)] = &[("u32 not_kept", Carries::Zero)];

impl Layout {
    /// The layout that a host's own `format` text gives, with records that will bear `id`; `None` if it cannot be read.
    pub fn of_format(system: &str, text: &str, id: u16) -> Option<Layout> {
        let format = Format::parse(text)?;
        let size = format.fields.iter().map(|field| field.offset + field.size).max()?;
        let line = |line: &str| if line.starts_with("ID:") { format!("ID: {id}\n") } else { format!("{line}\n") };
        Some(Layout { system: system.into(), text: text.lines().map(line).collect(), places: Vec::new(), size })
    }

    /// The layout of `name` (`system:event`) on `arch`, whose records will bear `id`. A tracepoint that is not in the
    /// table has nothing to say.
    pub fn new(arch: &str, name: &str, id: u16) -> Layout {
        let named = || ROWS.iter().filter(|row| row.1 == name);
        let row = named().find(|row| arch.starts_with(row.0)).or_else(|| named().next());
        let (fields, print) = row.map_or((UNKNOWN, "\"\""), |row| (row.2, row.3));
        let (system, event) = name.split_once(':').unwrap_or(("unknown", name));
        let mut text = format!("name: {}\nID: {id}\nformat:\n", plain(event));
        let mut places = Vec::new();
        let mut at = 0usize;
        for (number, &(declared, carries)) in COMMON.iter().chain(fields).enumerate() {
            let (size, align, signed) = shape(declared);
            at = at.next_multiple_of(align);
            if number == COMMON.len() {
                text.push('\n');
            }
            text += &format!("\tfield:{declared};\toffset:{at};\tsize:{size};\tsigned:{};\n", u8::from(signed));
            if carries != Carries::Zero {
                places.push(Place { offset: at, size, carries });
            }
            at += size;
        }
        text += &format!("\nprint fmt: {}\n", with_symbols(print));
        Layout { system: plain(system), text, places, size: at }
    }
}

/// A name as names of tracepoints are, whatever trace it is from: perf refuses a file with any other.
fn plain(name: &str) -> String {
    let text: String = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
    if text.is_empty() { "unknown".to_string() } else { text }
}

/// Size, alignment and signedness of what C declares so, on a 64-bit host.
fn shape(declared: &str) -> (usize, usize, bool) {
    let (kind, name) = declared.rsplit_once(' ').unwrap_or(("", declared));
    let (size, signed) = match kind {
        "bool" | "u8" | "__u8" | "unsigned char" => (1, false),
        "char" => (1, true),
        "u16" | "__u16" | "unsigned short" => (2, false),
        "u32" | "__u32" | "unsigned int" | "unsigned" => (4, false),
        "int" | "pid_t" => (4, true),
        "long" => (8, true),
        _ => (8, false),
    };
    let elements = name.split_once('[').and_then(|(_, rest)| rest.trim_end_matches(']').parse().ok()).unwrap_or(1);
    (size * elements, size, signed)
}

/// A print format with the symbols of its tables.
fn with_symbols(print: &str) -> String {
    /// What stands for a table, the table, what its names begin with.
    type Table = (&'static str, &'static [(u64, &'static str)], &'static str);
    const TABLES: &[Table] = &[
        ("@VMX", t::VMX, ""),
        ("@SVM", t::SVM, ""),
        ("@ARM64_EXIT", t::ARM64_EXIT, ""),
        ("@ARM64_EC", t::ARM64_EC, ""),
        ("@S390_ICPT", t::S390_ICPT, ""),
        ("@S390_DIAG", t::S390_DIAG, ""),
        ("@S390_SIGP", t::S390_SIGP, ""),
        ("@S390_PROG", t::S390_PROG, ""),
        ("@PPC_TRAP", t::PPC_TRAP, ""),
        ("@PPC_BOOKE", t::PPC_BOOKE, ""),
        ("@PPC_HCALL", t::PPC_HCALL, ""),
        ("@KVM_EXIT", t::KVM_EXIT, "KVM_EXIT_"),
    ];
    let mut print = print.to_string();
    for (mark, table, prefix) in TABLES {
        if print.contains(mark) {
            let symbols = table.iter().map(|(number, name)| format!("{{ {number:#x}, \"{prefix}{name}\" }}"));
            print = print.replace(mark, &symbols.collect::<Vec<_>>().join(", "));
        }
    }
    print
}
