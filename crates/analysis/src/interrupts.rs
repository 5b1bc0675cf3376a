//! What KVM takes of interrupts itself: for how long APICv or AVIC was inhibited for a VM, why, and how many exits for the local
//! APIC there were meanwhile.
//!
//! ```text
//! kvm_apicv_inhibit_changed ─► state of the VM over time ─┐
//! exits for the local APIC ─► waiting ────────────────────┴─► count and cost, by kind and state
//! ```
//!
//! Rows of a batch come after its exits (`pass_beside` of crates/pipeline/src/read_trace.rs), so that exits wait for the next batch
//! until the changes before them are known.

use crate::vcpu_time::within;
use exitscope_model::{ApicvChangeEvent, CodeList, CpuInterval, Exit, ExitCode, Subject, SubjectKind, VcpuIdentity};
use exitscope_units::{Moment, VmId};
use rustc_hash::FxHashMap;
use std::collections::{BTreeMap, VecDeque};

/// Changes of a VM's state that are kept to look up in which an exit was; bounds memory.
const MOST_KEPT: usize = 4096;

/// Whether APICv or AVIC is inhibited for a VM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ApicvState {
    /// No event has told yet.
    Unknown,
    /// For one reason at least.
    Inhibited,
    /// For none.
    Allowed,
}

impl ApicvState {
    const COUNT: usize = 3;

    const fn of(inhibits: u64) -> ApicvState {
        if inhibits == 0 { ApicvState::Allowed } else { ApicvState::Inhibited }
    }
}

/// What of the local APIC an exit is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ApicExitKind {
    /// The end of an interrupt.
    Eoi,
    /// The task priority: TPR, CR8.
    TaskPriority,
    /// An interrupt for another vCPU, or for itself: ICR, SELF_IPI.
    Ipi,
    /// Another register, but the timer's, which KVM emulates always.
    OtherRegister,
    /// The guest can take an interrupt now.
    InterruptWindow,
    /// An interrupt of the host: its own, or one that takes the vCPU out of the guest.
    HostInterrupt,
}

/// The registers of the local APIC, by their offset in its page: TPR, EOI, both halves of ICR, SELF_IPI (Intel SDM, volume 3, table
/// "Local APIC Register Address Map"). x2APIC has the MSR 0x800 + offset / 16 for each.
const TPR: u64 = 0x80;
const EOI: u64 = 0xb0;
const IPI: [u64; 3] = [0x300, 0x310, 0x3f0];
/// LVTT, initial count, current count, divide configuration.
const TIMER: [u64; 4] = [0x320, 0x380, 0x390, 0x3e0];
const X2APIC: u64 = 0x800;
const APIC_PAGE: u64 = 0xfee0_0000;

impl ApicExitKind {
    /// All of them.
    pub const ALL: [ApicExitKind; 6] = [
        ApicExitKind::Eoi,
        ApicExitKind::TaskPriority,
        ApicExitKind::Ipi,
        ApicExitKind::OtherRegister,
        ApicExitKind::InterruptWindow,
        ApicExitKind::HostInterrupt,
    ];

    /// For scripts.
    pub const fn id(self) -> &'static str {
        match self {
            ApicExitKind::Eoi => "eoi",
            ApicExitKind::TaskPriority => "task_priority",
            ApicExitKind::Ipi => "ipi",
            ApicExitKind::OtherRegister => "other_register",
            ApicExitKind::InterruptWindow => "interrupt_window",
            ApicExitKind::HostInterrupt => "host_interrupt",
        }
    }

    /// For people.
    pub const fn what(self) -> &'static str {
        match self {
            ApicExitKind::Eoi => "EOI",
            ApicExitKind::TaskPriority => "task priority (TPR, CR8)",
            ApicExitKind::Ipi => "IPIs (ICR)",
            ApicExitKind::OtherRegister => "other APIC registers",
            ApicExitKind::InterruptWindow => "interrupt windows",
            ApicExitKind::HostInterrupt => "the host's interrupts",
        }
    }

    /// What an exit of the guest itself is for.
    #[inline]
    fn of(exit: &Exit) -> Option<ApicExitKind> {
        let ExitCode { list, number, nested: false } = exit.code else { return None };
        match (list, number) {
            (CodeList::Vmx, 1) | (CodeList::Svm, 0x60) => Some(ApicExitKind::HostInterrupt),
            (CodeList::Vmx, 7) | (CodeList::Svm, 0x64) => Some(ApicExitKind::InterruptWindow),
            (CodeList::Vmx, 43) | (CodeList::Svm, 0x08 | 0x18) => Some(ApicExitKind::TaskPriority),
            (CodeList::Vmx, 45) => Some(ApicExitKind::Eoi),
            (CodeList::Svm, 0x401) => Some(ApicExitKind::Ipi),
            // APIC_ACCESS, APIC_WRITE, AVIC_UNACCELERATED_ACCESS: where the recording does not say of which register.
            (CodeList::Vmx, 44 | 56) | (CodeList::Svm, 0x402) => match exit.subject.map(register) {
                Some(Some(offset)) => ApicExitKind::of_register(offset),
                _ => Some(ApicExitKind::OtherRegister),
            },
            (CodeList::Vmx | CodeList::Svm, _) => match exit.subject? {
                Subject { kind: SubjectKind::ControlRegister, key: 8, .. } => Some(ApicExitKind::TaskPriority),
                other => ApicExitKind::of_register(register(other)?),
            },
            _ => None,
        }
    }

    fn of_register(offset: u64) -> Option<ApicExitKind> {
        match offset {
            EOI => Some(ApicExitKind::Eoi),
            TPR => Some(ApicExitKind::TaskPriority),
            ipi if IPI.contains(&ipi) => Some(ApicExitKind::Ipi),
            timer if TIMER.contains(&timer) => None,
            _ => Some(ApicExitKind::OtherRegister),
        }
    }
}

/// The offset of the local APIC's register that it is.
fn register(subject: Subject) -> Option<u64> {
    match (subject.kind, subject.key) {
        (SubjectKind::Apic, offset) => Some(offset),
        (SubjectKind::Msr, msr @ X2APIC..0x900) => Some((msr - X2APIC) << 4),
        (SubjectKind::Mmio, address) if address >> 12 == APIC_PAGE >> 12 => Some(address & 0xff0),
        _ => None,
    }
}

/// Whether the exit is for an MSR that the recording does not name.
fn is_of_unnamed_msr(exit: &Exit) -> bool {
    exit.subject.is_none()
        && matches!((exit.code.list, exit.code.number), (CodeList::Vmx, 31 | 32) | (CodeList::Svm, 0x7c))
}

/// Exits of one kind in one state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ApicExits {
    /// Exits.
    pub count: u64,
    /// Those of which both ends were seen.
    pub timed: u64,
    /// What these cost, in nanoseconds.
    pub cost: u64,
}

impl ApicExits {
    fn merge(&mut self, other: &ApicExits) {
        let ApicExits { count, timed, cost } = other;
        self.count += count;
        self.timed += timed;
        self.cost = self.cost.saturating_add(*cost);
    }
}

/// One reason, for one VM.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InhibitStats {
    /// How long it was in force, in nanoseconds.
    pub in_force: u64,
    /// How often it was set where it was not known to be in force.
    pub sets: u64,
    /// When it was set first, and in which thread.
    pub first_set: Option<(Moment, VcpuIdentity)>,
    /// Whether it was in force from the beginning on: of the VM, or of what is looked at.
    pub from_begin: bool,
    /// Whether it was in force at the end.
    pub at_end: bool,
}

impl InhibitStats {
    fn merge(&mut self, other: &InhibitStats) {
        let InhibitStats { in_force, sets, first_set, from_begin, at_end } = other;
        self.in_force = self.in_force.saturating_add(*in_force);
        self.sets += sets;
        self.first_set = self.first_set.or(*first_set);
        self.from_begin |= from_begin;
        self.at_end = *at_end;
    }
}

/// What is known of one VM.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VmApicv {
    /// Events, also those that change nothing.
    pub events: u64,
    time: [u64; ApicvState::COUNT],
    /// Its reasons, by their numbers.
    pub reasons: BTreeMap<u8, InhibitStats>,
    exits: [[ApicExits; ApicvState::COUNT]; ApicExitKind::ALL.len()],
}

impl VmApicv {
    /// How long the VM was seen in this state, in nanoseconds.
    pub fn time(&self, state: ApicvState) -> u64 {
        self.time[state as usize]
    }

    /// Its exits of this kind in this state.
    pub fn exits(&self, kind: ApicExitKind, state: ApicvState) -> ApicExits {
        self.exits[kind as usize][state as usize]
    }

    fn merge(&mut self, other: &VmApicv) {
        let VmApicv { events, time, reasons, exits } = other;
        self.events += events;
        self.time.iter_mut().zip(time).for_each(|(sum, of)| *sum = sum.saturating_add(*of));
        for (number, of) in reasons {
            self.reasons.entry(*number).or_default().merge(of);
        }
        let sums = self.exits.as_flattened_mut().iter_mut();
        sums.zip(exits.as_flattened()).for_each(|(sum, of)| sum.merge(of));
    }
}

/// A VM of the recording in hand.
#[derive(Clone, Debug)]
struct RunningVm {
    /// Its first and its last exit or event so far.
    seen: (Moment, Moment),
    /// Up to where its time is divided, once an event came.
    told: Option<Moment>,
    inhibits: u64,
    /// In which state it was before the changes that are kept.
    before: ApicvState,
    /// Since when it was in which state.
    changes: VecDeque<(Moment, ApicvState)>,
    facts: VmApicv,
}

impl RunningVm {
    fn new(at: Moment) -> RunningVm {
        RunningVm {
            seen: (at, at),
            told: None,
            inhibits: 0,
            before: ApicvState::Unknown,
            changes: VecDeque::new(),
            facts: VmApicv::default(),
        }
    }

    /// The state at this moment.
    fn state(&self, at: Moment) -> ApicvState {
        let later = self.changes.partition_point(|change| change.0 <= at);
        later.checked_sub(1).map_or(self.before, |at| self.changes[at].1)
    }

    /// Divides its time up to here.
    fn advance(&mut self, to: Moment, window: (Moment, Moment)) {
        let Some(from) = self.told.replace(to) else { return };
        let state = self.changes.back().map_or(self.before, |change| change.1);
        let held = within(window, from.as_nanos(), to.as_nanos()).0;
        self.facts.time[state as usize] += held;
        for number in reasons(self.inhibits).filter(|_| held > 0) {
            let reason = self.facts.reasons.entry(number).or_default();
            reason.in_force += held;
            reason.from_begin |= reason.sets == 0;
        }
    }

    /// An event tells which reasons are in force from here on; the first, which of the others were before.
    fn change(&mut self, of: &ApicvChangeEvent, window: (Moment, Moment)) {
        let bit = 1u64.checked_shl(of.change.reason.into()).unwrap_or(0);
        let is_first = self.told.is_none();
        if is_first {
            self.inhibits = of.change.inhibits & !bit;
            if self.inhibits != 0 {
                self.before = ApicvState::Inhibited;
            }
            self.told = Some(self.seen.0.min(of.at));
        }
        self.advance(of.at, window);
        let within = window.0 <= of.at;
        if within {
            self.facts.events += 1;
        }
        let new = of.change.inhibits & !self.inhibits;
        for number in reasons(new).filter(|_| within) {
            let reason = self.facts.reasons.entry(number).or_default();
            reason.sets += 1;
            reason.first_set = reason.first_set.or(Some((of.at, of.who)));
        }
        self.inhibits = of.change.inhibits;
        let state = ApicvState::of(self.inhibits);
        if is_first || self.changes.back().is_some_and(|last| last.1 != state) {
            self.changes.push_back((of.at, state));
            if self.changes.len() > MOST_KEPT {
                self.changes.pop_front();
                self.before = ApicvState::Unknown;
            }
        }
    }

    fn end(mut self, window: (Moment, Moment)) -> VmApicv {
        match self.told {
            Some(_) => self.advance(self.seen.1, window),
            None => {
                self.facts.time[ApicvState::Unknown as usize] =
                    within(window, self.seen.0.as_nanos(), self.seen.1.as_nanos()).0
            }
        }
        for number in reasons(self.inhibits) {
            self.facts.reasons.entry(number).or_default().at_end = true;
        }
        self.facts
    }
}

/// The numbers of the bits that are set.
fn reasons(inhibits: u64) -> impl Iterator<Item = u8> {
    (0..64).filter(move |number| inhibits >> number & 1 == 1)
}

/// An exit that waits until the changes before it are known.
#[derive(Clone, Copy, Debug)]
struct WaitingExit {
    vm: VmId,
    at: Moment,
    kind: ApicExitKind,
    cost: Option<u64>,
}

/// APICv and AVIC of all VMs. Narrowed to VMs and moments; exits to vCPUs as well.
#[derive(Clone, Debug, Default)]
pub struct InterruptFacts {
    /// By VM, of recordings that have ended.
    pub vms: BTreeMap<VmId, VmApicv>,
    /// Exits for MSRs that the recording does not name, which may be the APIC's.
    pub unnamed_msrs: u64,
    /// Of the recording in hand.
    running: FxHashMap<VmId, RunningVm>,
    waiting: Vec<WaitingExit>,
    /// How many of those are of an earlier batch.
    settled: usize,
    /// The VM that was seen last, and when first and last since another was.
    last: Option<(VmId, Moment, Moment)>,
}

impl InterruptFacts {
    /// Adds one exit of x86; whether it is within what is looked at.
    #[inline]
    pub(crate) fn absorb(&mut self, exit: &Exit) {
        let Some(kind) = ApicExitKind::of(exit) else {
            self.unnamed_msrs += u64::from(is_of_unnamed_msr(exit));
            return;
        };
        let cost = exit.timed.then(|| exit.cost().0);
        self.waiting.push(WaitingExit { vm: exit.who.vm, at: exit.at, kind, cost });
    }

    /// The VM was there from one moment to another.
    #[inline]
    pub(crate) fn saw(&mut self, vm: VmId, from: Moment, to: Moment) {
        match &mut self.last {
            Some((last, first_at, last_at)) if *last == vm => {
                *first_at = from.min(*first_at);
                *last_at = to.max(*last_at);
            }
            _ => {
                self.note_seen();
                self.last = Some((vm, from, to));
            }
        }
    }

    fn note_seen(&mut self) {
        if let Some((vm, from, to)) = self.last.take() {
            let seen = &mut self.running.entry(vm).or_insert_with(|| RunningVm::new(from)).seen;
            *seen = (from.min(seen.0), to.max(seen.1));
        }
    }

    /// A stretch of a vCPU's time.
    pub(crate) fn saw_stretch(&mut self, stretch: &CpuInterval) {
        let to = stretch.from.as_nanos().saturating_add(stretch.parts.sum().0);
        self.saw(stretch.who.vm, stretch.from, Moment::from_nanos(to));
    }

    /// Adds one change. What was before the window tells what is in force when it begins.
    pub(crate) fn absorb_change(&mut self, of: &ApicvChangeEvent, window: (Moment, Moment)) {
        if of.at > window.1 {
            return;
        }
        self.saw(of.who.vm, of.at, of.at);
        self.note_seen();
        if let Some(vm) = self.running.get_mut(&of.who.vm) {
            vm.change(of, window);
        }
    }

    /// Another batch begins to pass on its rows: those of the batch before came, up to its last exit.
    pub(crate) fn settle(&mut self) {
        self.note_seen();
        let settled = self.settled.min(self.waiting.len());
        // Mostly one VM's follow one another.
        for of_vm in self.waiting[..settled].chunk_by(|exit, next| exit.vm == next.vm) {
            let vm = self.running.entry(of_vm[0].vm).or_insert_with(|| RunningVm::new(of_vm[0].at));
            for exit in of_vm {
                let sum = &mut vm.facts.exits[exit.kind as usize][vm.state(exit.at) as usize];
                sum.merge(&ApicExits { count: 1, timed: exit.cost.is_some().into(), cost: exit.cost.unwrap_or(0) });
            }
        }
        self.waiting.drain(..settled);
        self.settled = self.waiting.len();
    }

    /// Ends one recording.
    pub(crate) fn end(&mut self, window: (Moment, Moment), completed: impl Fn(VcpuIdentity) -> VcpuIdentity) {
        self.settled = self.waiting.len();
        self.settle();
        for (vm, running) in std::mem::take(&mut self.running) {
            let mut facts = running.end(window);
            for (_, who) in facts.reasons.values_mut().filter_map(|reason| reason.first_set.as_mut()) {
                *who = completed(*who);
            }
            self.vms.entry(vm).or_default().merge(&facts);
        }
    }

    /// Adds what another recording, ended, gave.
    pub(crate) fn merge(&mut self, other: &InterruptFacts) {
        let InterruptFacts { vms, unnamed_msrs, running: _, waiting: _, settled: _, last: _ } = other;
        self.unnamed_msrs += unnamed_msrs;
        for (vm, facts) in vms {
            self.vms.entry(*vm).or_default().merge(facts);
        }
    }
}
