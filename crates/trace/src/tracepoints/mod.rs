//! The tracepoints that exit accounting uses, each of them once.
//!
//! ```text
//!              ┌─► tracefs, text: what its records, or its text, mean
//! row of ROWS ─┼─► perf writer: how its records are laid out and printed
//!              └─► record: whether it is wanted
//! ```
//!
//! A new field of a tracepoint is a word of [`FieldContent`], named in the row and read where records (`tracefs/decode.rs`) and
//! text (`printed.rs`) become events.

mod meaning;
pub(crate) mod printed;
mod rows;
#[cfg(test)]
mod tests;

use exitscope_model::{
    ApicvChange, Architecture, EventKind, ExitCode, IdleEvent, IrqName, KvmActivity, PollChange, PortAccessForm,
    Subject, SubjectKind, SubjectWord,
};
use exitscope_units::PcpuId;
pub(crate) use meaning::{FieldContent, TracepointMeaning};
use printed::ReadFields;
pub(crate) use rows::ROWS;

/// One tracepoint, as one architecture has it.
pub(crate) struct TracepointRow {
    /// How `uname -m` begins there; empty: everywhere.
    pub arch: &'static str,
    /// `system:name`.
    pub event: &'static str,
    /// The field by which this form of the name is known from those of other architectures; empty: there is one.
    pub distinguishing_field: &'static str,
    pub meaning: TracepointMeaning,
    /// Reads what `print` prints, in every form that it ever had.
    pub text: ReadFields,
    /// Fields as the kernel declares them, with what they carry of an event. `|` is before the names of older kernels.
    pub fields: &'static [(&'static str, FieldContent)],
    /// Fields of later kernels, and strings of any length, which are read and not written.
    pub later: &'static [(&'static str, FieldContent)],
    /// The `print fmt`.
    pub print: &'static str,
    pub record: RecordWhen,
}

/// When `exitscope record` takes a tracepoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordWhen {
    /// Wherever it exists.
    Always,
    /// Wherever it exists; programs that count take it where it stands for entries alone: a back end of x86 that knows
    /// neither `kvm_exit` nor `kvm_entry`.
    CountedWithoutExits,
    /// With the scheduler's tracepoints.
    Scheduler,
    /// With the system calls of virtual CPUs' threads.
    Calls,
    /// Never, for this reason.
    Never(&'static str),
}

/// A tracepoint of one form that `record` always takes; the methods say otherwise.
const fn row(
    arch: &'static str,
    event: &'static str,
    meaning: TracepointMeaning,
    text: ReadFields,
    fields: &'static [(&'static str, FieldContent)],
    print: &'static str,
) -> TracepointRow {
    TracepointRow {
        arch,
        event,
        distinguishing_field: "",
        meaning,
        text,
        fields,
        later: &[],
        print,
        record: RecordWhen::Always,
    }
}

impl TracepointRow {
    const fn distinguished_by(self, field: &'static str) -> TracepointRow {
        TracepointRow { distinguishing_field: field, ..self }
    }

    const fn later(self, later: &'static [(&'static str, FieldContent)]) -> TracepointRow {
        TracepointRow { later, ..self }
    }

    const fn when(self, record: RecordWhen) -> TracepointRow {
        TracepointRow { record, ..self }
    }

    /// System and name.
    pub fn names(&self) -> (&'static str, &'static str) {
        self.event.split_once(':').unwrap_or(("", self.event))
    }

    /// The names of the field that carries this, the newest first; an array with the number of its elements.
    pub fn field(&self, carries: FieldContent) -> Option<impl Iterator<Item = &'static str>> {
        let (declared, _) = self.fields.iter().chain(self.later).find(|field| field.1 == carries)?;
        Some(names_of(declared))
    }

    /// Whether `name=` begins the text of a program that prints the fields one by one, and not that of the `print fmt`.
    pub fn prints_only_raw(&self, name: &[u8]) -> bool {
        let is_name = |field: &str| field.split('[').next().unwrap_or_default().as_bytes() == name;
        let is_field = self.fields.iter().chain(self.later).any(|field| names_of(field.0).any(is_name));
        let is_printed = || self.print.as_bytes()[1..].strip_prefix(name).is_some_and(|rest| rest.starts_with(b"="));
        is_field && !is_printed()
    }
}

/// The names that a field is declared with.
fn names_of(declared: &'static str) -> impl Iterator<Item = &'static str> {
    declared.rsplit(' ').next().unwrap_or_default().split('|')
}

/// The row for records of `system:name` whose format has those fields of which `has` says so.
pub(crate) fn of_format(system: &str, name: &str, has: impl Fn(&str) -> bool) -> Option<&'static TracepointRow> {
    ROWS.iter().find(|row| {
        row.names() == (system, name) && (row.distinguishing_field.is_empty() || has(row.distinguishing_field))
    })
}

/// The row for text of `name`, whose system not all programs print.
pub(crate) fn of_text(system: Option<&str>, name: &str) -> Option<&'static TracepointRow> {
    ROWS.iter().find(|row| row.names().1 == name && system.is_none_or(|system| row.names().0 == system))
}

/// The row by which events of `system:name` are written on `arch`.
pub(crate) fn to_write(arch: &str, event: &str) -> Option<&'static TracepointRow> {
    let named = || ROWS.iter().filter(|row| row.event == event);
    named().find(|row| arch.starts_with(row.arch)).or_else(|| named().next())
}

/// The tracepoints (`system:name`) that `record` takes when `is_wanted`, each once.
pub fn recorded(is_wanted: impl Fn(RecordWhen) -> bool) -> Vec<&'static str> {
    let mut events = Vec::new();
    for row in ROWS.iter().filter(|row| is_wanted(row.record)) {
        if !events.contains(&row.event) {
            events.push(row.event);
        }
    }
    events
}

/// A system call of user space, by an ioctl's command. x86 can share with user space in `kvm_run` (KVM_CAP_SYNC_REGS) what
/// KVM_{GET,SET}_{REGS,SREGS,VCPU_EVENTS,SREGS2} of `include/uapi/linux/kvm.h` read or write.
pub(crate) fn call(command: u64) -> EventKind {
    match command {
        _ if Architecture::ALL.iter().any(|of| of.row().kvm_run == command) => EventKind::RunEnter,
        0x8090_ae81 | 0x4090_ae82 | 0x8138_ae83 | 0x4138_ae84 | 0x8040_ae9f | 0x4040_aea0 | 0x8140_aecc
        | 0x4140_aecd => EventKind::Syscall { registers: true },
        _ => EventKind::Syscall { registers: false },
    }
}

/// An exit whose event says nothing but its code and where it was.
pub(crate) const fn exit(code: ExitCode, rip: u64) -> EventKind {
    EventKind::Exit { code, idle: false, words: SubjectWord::NONE, rip }
}

/// A detail that has neither size nor form.
pub(crate) const fn about(kind: SubjectKind, write: bool, key: u64, value: u64) -> EventKind {
    EventKind::Detail(Subject { kind, write, form: PortAccessForm::Unknown, size: 0, key, value })
}

/// KVM changes whether the processor virtualises a VM's APIC: `kvm_apicv_inhibit_changed`.
pub(crate) const fn apicv_change(reason: u64, set: bool, inhibits: u64) -> EventKind {
    let reason = if reason < 0xff { reason as u8 } else { 0xff };
    EventKind::ApicvChange(ApicvChange { reason, set, inhibits })
}

/// `KVM_RUN` returned, by the fields of `kvm_userspace_exit`.
pub(crate) const fn userspace_exit(reason: u64, errno: u64) -> EventKind {
    EventKind::UserspaceExit { reason: reason as u32, errno: errno as u32 as i32 }
}

/// KVM does this; of a range, to the range's fields.
pub(crate) const fn activity(of: KvmActivity, start: u64, end: u64) -> EventKind {
    EventKind::KvmActivity(of.of_range(start, end))
}

/// How long KVM polls for a vCPU from now on, and polled until now: `kvm_halt_poll_ns`.
pub(crate) const fn halt_poll(grow: bool, new: u64, old: u64) -> EventKind {
    EventKind::HaltPoll { grow, new: new as u32, old: old as u32 }
}

/// How long a vCPU may loop on PAUSE from now on, and might until now: `kvm_ple_window_update`.
pub(crate) const fn ple_window(new: u64, old: u64) -> EventKind {
    EventKind::PleWindow { new: new as u32, old: old as u32 }
}

/// A handler of a device's interrupt is called: `irq_handler_entry`.
pub(crate) const fn host_irq(irq: u64, name: IrqName) -> EventKind {
    EventKind::HostIrq { irq: irq as u32, name }
}

/// A CPU that polls in its idle loop is woken: `sched_wake_idle_without_ipi`.
pub(crate) const fn woken_polling(cpu: u64) -> EventKind {
    EventKind::Idle(IdleEvent::WokenPolling { cpu: PcpuId(cpu as u32) })
}

/// How long a guest's CPU polls from now on, and polled until now: `guest_halt_poll_ns`.
pub(crate) const fn guest_poll_limit(grow: bool, new: u64, old: u64) -> EventKind {
    EventKind::Idle(IdleEvent::PollLimit(PollChange { grow, new: new as u32, old: old as u32 }))
}

/// AVIC did not deliver an IPI whole: `kvm_avic_incomplete_ipi`, by a number of `enum avic_ipi_failure_cause` of
/// `arch/x86/include/asm/svm.h`.
pub(crate) const fn avic_incomplete_ipi(cause: u64) -> EventKind {
    EventKind::KvmActivity(KvmActivity::AvicIncompleteIpi(if cause < 0xff { cause as u8 } else { 0xff }))
}

/// What a guest asks for by the GHCB's MSR: `GHCB_MSR_INFO_MASK` of `arch/x86/include/asm/sev-common.h`.
pub(crate) const fn ghcb_msr(value: u64) -> EventKind {
    about(SubjectKind::GhcbMsr, false, value & 0xfff, value)
}
