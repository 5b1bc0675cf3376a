//! What exits come from, and what rules and judgements say of it.

use super::judgement::AdviceId;
use crate::cures::table::source;
use crate::evidence::input::RecordedHost;
use exitscope_analysis::{ExitCause, SubjectKey};
use exitscope_model::{CodeList, ExitCode, SubjectKind};
use exitscope_units::{Nanos, VmId};

/// What an exit is about, as rules tell it apart: a device of the table of cures, or something that is not in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum CureLookup {
    Named(&'static str),
    Other(SubjectKind, u64),
}

impl CureLookup {
    /// Of a VM that is, or is not, known to be QEMU's.
    pub fn of(host: &RecordedHost, is_qemu: bool, key: SubjectKey) -> CureLookup {
        let row = source(host, is_qemu, key.kind, key.key);
        row.map_or(CureLookup::Other(key.kind, key.key), |row| CureLookup::Named(row.name))
    }

    /// Of what exits from this are about, where that tells them apart; see [`is_told_apart`].
    pub fn of_subject(host: &RecordedHost, is_qemu: bool, cause: &ExitCause) -> Option<CureLookup> {
        let key = cause.subject().filter(|key| is_told_apart(key.kind))?;
        Some(CureLookup::of(host, is_qemu, key))
    }

    /// It, of which `key` is the costliest port or register.
    pub fn subject(self, key: SubjectKey) -> CauseSubject {
        match self {
            CureLookup::Named(name) => CauseSubject::Named(name, key),
            CureLookup::Other(..) => CauseSubject::Key(key),
        }
    }
}

/// Exits that have a name, though no row of the tables of cures names what they are about.
#[derive(Debug)]
pub(super) struct NamedExits {
    pub name: &'static str,
    /// What they are, for a person.
    pub exits: &'static str,
    /// Whether exits from this are among them.
    pub has: fn(&ExitCause) -> bool,
}

/// Whether these are the guest's own exits for one of these reasons.
pub(super) fn is_for(cause: &ExitCause, list: CodeList, numbers: &[u64]) -> bool {
    let code = cause.code.basic();
    code.list == list && numbers.contains(&code.number) && !code.nested
}

/// Whether they are about one of these.
pub(super) fn is_about(cause: &ExitCause, kind: SubjectKind, keys: &[u64]) -> bool {
    cause.subject().is_some_and(|key| key.kind == kind && keys.contains(&key.key))
}

/// Which exits a rule speaks of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Covered {
    /// Those about this.
    Subject(CureLookup),
    /// Those for this reason.
    Reason(CodeList, u64),
    /// Those at which vCPUs halt.
    Halts,
    /// No exits: waiting for a CPU.
    Steal,
    /// No exits: forced out of the guest because another thread of the core had to leave.
    ForcedOut,
}

/// What a rule says of them.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum RuleAnswer {
    /// There is an advice.
    Advice(AdviceId),
    /// They could be fewer, by this change, but too little is to be won for an advice.
    Small(&'static str),
    /// Nothing changes them, for this reason.
    Inherent(String),
    /// The recording lacks what would tell; this says what, and how to record it.
    NotRecorded(String),
    /// The rule cannot tell, for this reason.
    NotJudged(String),
}

/// What a judgement comes to, of one cause.
#[derive(Clone, Debug, PartialEq)]
pub enum CauseVerdict {
    /// The advice of these numbers changes it.
    Changed(Vec<usize>),
    /// This would change it, and wins too little for an advice.
    Small(&'static str),
    /// It belongs to what the guest does, or was tried, for this reason.
    Inherent(String),
    /// The recording lacks what would tell; this says what, and how to record it.
    NotRecorded(String),
    /// Nobody can say, for this reason.
    NotJudged(String),
}

/// What time goes into.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum GoesInto {
    /// Exits for this reason.
    Exits(ExitCode),
    /// Runnable, without a CPU.
    Steal,
    /// Out of the guest because another thread of the core had to leave.
    ForcedOut,
    /// Polls of the host's before halted vCPUs block.
    Polling,
    /// Halts that nothing divides into polling, halted and steal.
    Undivided,
    /// What nothing in the recording explains.
    Unknown,
}

/// What a cause or an advice is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CauseSubject {
    /// Nothing that exits name, or that rules tell apart.
    None,
    /// A device or a group of registers, by the name that rules give it; the costliest of its ports or registers.
    Named(&'static str, SubjectKey),
    /// Exits that their reason tells apart, or their reason and what happened, by the name that rules give them.
    Group(&'static str),
    /// A port, a page, a register, a call.
    Key(SubjectKey),
}

/// Something that takes a noteworthy part.
#[derive(Clone, Debug, PartialEq)]
pub struct CauseRow {
    /// The VM; none of all VMs together.
    pub vm: Option<VmId>,
    /// Exits for a reason, or time without any.
    pub into: GoesInto,
    /// What exits are about.
    pub subject: CauseSubject,
    /// Exits.
    pub exits: u64,
    /// What exits cost; of the rest, how long it is.
    pub time: Nanos,
    /// Of exits that are no halts, the median of their lengths and the length that one of a hundred passes.
    pub lengths: Option<(Nanos, Nanos)>,
    /// Of exits, part of the cost of all the VM's exits.
    pub of_cost: Option<f64>,
    /// Part of its vCPUs' time.
    pub of_time: f64,
    /// What is said of it.
    pub verdict: CauseVerdict,
}

/// What names a thing that a rule could look at. The others divide a reason by what happened, as an error code does.
pub(super) fn is_told_apart(kind: SubjectKind) -> bool {
    use SubjectKind::{
        EoiVector, EptViolation, Exception, HostIrq, HostVector, IncompleteIpi, MemoryFault, PageFault, Program,
        TaskSwitch,
    };
    !matches!(
        kind,
        PageFault
            | EptViolation
            | MemoryFault
            | Program
            | Exception
            | HostVector
            | HostIrq
            | EoiVector
            | IncompleteIpi
            | TaskSwitch
    )
}
