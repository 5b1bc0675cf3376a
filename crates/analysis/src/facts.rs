//! All facts of a report, filled together.

use crate::diff::halts;
use crate::exit_kinds::{KeyedSubject, StatsByExitKind};
use crate::steal_takers::{KnownThreads, StealTakers};
use crate::vcpu_time::{VcpuTimes, within};
use crate::{
    Accesses, Dimension, DimensionValue, ExitGroups, ExitSlots, ExitStats, GangFacts, Halts, IdlePolls, InterruptFacts,
    PhaseKey, PhasesByReason, RunStates, Selection, Slowest, StatsByKey, StealTaker, Timeline, VcpuTime, YieldFacts,
};
use exitscope_model::codes::{KVM_EXIT_HLT, REGION_BITS};
use exitscope_model::{
    ApicvChangeEvent, CodeList, CpuInterval, Event, EventKinds, Exit, ExitCode, Halt, Handler, IdleCpuEvent,
    KvmActivity, KvmActivityEvent, PleUpdate, Preemption, RunQueueInterval, StealPiece, Subject, SubjectKind, TimePart,
    VcpuIdentity, Yield, least_vms,
};
use exitscope_units::{Moment, Nanos, Tid, VcpuId, VmId};
use rustc_hash::FxHashMap;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{Hash, Hasher};

/// Buckets of the timeline at most.
const TIMELINE_BUCKETS: u64 = 100;

/// Interrupt vectors of an x86 CPU.
const VECTORS: usize = 256;

/// What is wanted of the facts.
#[derive(Clone, Debug)]
pub struct FactsOptions {
    /// Dimensions of the main table.
    pub by: Vec<Dimension>,
    /// How many of the slowest exits to keep.
    pub slowest: usize,
    /// Which exits are looked at.
    pub selection: Selection,
}

/// What exits are about: kind, key (for MMIO the page's first address) and whether the guest wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SubjectKey {
    /// Kind of thing.
    pub kind: SubjectKind,
    /// Its number or address.
    pub key: u64,
    /// Whether the guest wrote.
    pub write: bool,
}

/// In as few words as it needs: every exit is hashed.
impl Hash for SubjectKey {
    #[inline]
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64((self.kind as u64) << 1 | u64::from(self.write));
        state.write_u64(self.key);
    }
}

impl SubjectKey {
    /// The key of a detail; addresses are cut to their page.
    #[inline]
    pub fn of(detail: Subject) -> SubjectKey {
        let key = match detail.kind {
            SubjectKind::Mmio => detail.key >> REGION_BITS << REGION_BITS,
            _ => detail.key,
        };
        SubjectKey { kind: detail.kind, key, write: detail.write }
    }

    /// Whether it is a port, or emulated memory.
    #[inline]
    pub(crate) fn is_accessed(&self) -> bool {
        self.kind.is_place_of_devices()
    }
}

/// What exits come from: their reason and their subject together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ExitCause {
    /// The reason.
    pub code: ExitCode,
    /// The subject; none where the reason has none, or the recording does not name it.
    pub about: Option<SubjectKey>,
}

impl ExitCause {
    /// The subject, of the guest's own; see [`Exit::subject`].
    pub fn subject(&self) -> Option<SubjectKey> {
        self.about.filter(|_| !self.code.nested)
    }
}

/// All facts of a report.
#[derive(Clone, Debug)]
pub struct Facts {
    selection: Selection,
    window: (Moment, Moment),
    /// Which kinds of events there were.
    pub event_kinds: EventKinds,
    /// Time from the first to the last event, summed over recordings, as far as it was selected.
    pub duration: Nanos,
    /// All selected exits together.
    pub all: ExitStats,
    /// By reason, and whether they left the kernel: figures, and how the cost divides into steps. Like `accesses`, of
    /// recordings that have ended.
    pub phases: PhasesByReason,
    /// By the dimensions that were asked for.
    pub by: ExitGroups,
    /// What exits were about, but for accesses.
    details: StatsByKey<SubjectKey>,
    /// Accesses to ports and to emulated memory.
    pub accesses: Accesses,
    /// By reason and subject together; like `phases`.
    pub causes: StatsByKey<ExitCause>,
    /// Of the recording in hand: all that those four will hold, as far as it was met before.
    kinds: StatsByExitKind,
    /// Whether `by` is by reason alone, and so made of `phases`.
    by_reason: bool,
    /// Injected interrupts by vector: how often. Like `phases`.
    pub injected: BTreeMap<u32, u64>,
    /// Of the recording in hand, those of x86's vectors.
    vectors: Box<[u64; VECTORS]>,
    /// How each vCPU's time divides; unlike the rest not narrowed to reasons or lengths.
    pub divisions: BTreeMap<VcpuIdentity, VcpuTime>,
    /// Of the recording in hand.
    running: VcpuTimes,
    /// Xen's run states of each vCPU; like `divisions`.
    pub run_states: RunStates,
    /// The slowest exits.
    pub slowest: Slowest,
    /// Exits over time.
    pub timeline: Timeline,
    /// Halts; unlike the rest not narrowed to reasons or lengths.
    pub halts: Halts,
    /// Ganged exits; narrowed to VMs and moments alone.
    pub gangs: GangFacts,
    /// Yields; like `halts`. The run queue is narrowed to moments alone.
    pub yields: YieldFacts,
    /// Who had the CPUs for which vCPUs waited; like `divisions`.
    steal_takers: StealTakers,
    /// Signs of what KVM does, and how often; narrowed to VMs and moments alone.
    pub kvm_activity: BTreeMap<(VmId, KvmActivity), u64>,
    /// What inhibits APICv and AVIC, and exits for the local APIC; not narrowed to reasons or lengths.
    pub interrupts: InterruptFacts,
    /// Polls of idle CPUs by the recorded kernel's own events; narrowed to moments alone.
    pub idle_polls: IdlePolls,
}

impl Facts {
    /// Creates empty facts for `wanted`.
    pub fn new(wanted: &FactsOptions) -> Facts {
        Facts {
            selection: wanted.selection.clone(),
            window: (Moment::default(), Moment::MAX),
            event_kinds: EventKinds::default(),
            duration: Nanos::ZERO,
            all: ExitStats::default(),
            phases: PhasesByReason::default(),
            by: ExitGroups::by(&wanted.by),
            details: StatsByKey::default(),
            accesses: Accesses::default(),
            causes: StatsByKey::default(),
            kinds: StatsByExitKind::default(),
            by_reason: wanted.by == [Dimension::Reason],
            injected: BTreeMap::new(),
            vectors: Box::new([0; VECTORS]),
            divisions: BTreeMap::new(),
            running: VcpuTimes::default(),
            run_states: RunStates::default(),
            slowest: Slowest::keeping(wanted.slowest),
            timeline: Timeline::of_at_most(TIMELINE_BUCKETS),
            halts: Halts::default(),
            gangs: GangFacts::default(),
            yields: YieldFacts::default(),
            steal_takers: StealTakers::default(),
            kvm_activity: BTreeMap::new(),
            interrupts: InterruptFacts::default(),
            idle_polls: IdlePolls::default(),
        }
    }

    /// Says when the trace's first event was: relative moments of the selection count from there.
    pub fn begin(&mut self, first: Moment) {
        self.window = self.selection.window(first);
    }

    /// Says which kinds of events there were so far, before the rows of a batch that are beside exits.
    pub fn note_event_kinds(&mut self, kinds: EventKinds) {
        self.event_kinds.merge(kinds);
        self.interrupts.settle();
    }

    /// Adds an event in which the scheduler speaks of a virtual CPU; others are left alone.
    #[inline]
    pub fn absorb_sched_event(&mut self, event: &Event) {
        self.run_states.absorb(event, self.window);
    }

    /// Adds one exit; where, if its vCPU is looked at.
    #[inline(always)]
    pub fn absorb(&mut self, exit: &Exit) -> Option<ExitSlots> {
        if !self.selection.holds_who(&exit.who) {
            return None;
        }
        let window = self.window;
        let (vcpu, division) = self.running.of(exit.who);
        division.absorb(exit, window);
        self.interrupts.saw(exit.who.vm, exit.at, exit.at);
        if exit.at < window.0 || exit.at > window.1 {
            return Some(ExitSlots { vcpu, kind: None });
        }
        let is_in_user_space = exit.code.list == CodeList::KvmExit || exit.handler == Handler::Userspace(KVM_EXIT_HLT);
        if is_in_user_space && exit.code.is_halt() {
            self.halts.absorb_in_user_space(exit.who);
        } else if exit.is_halt && exit.code.is_halt() && !exit.timed {
            self.halts.absorb_cut(exit.who);
        }
        self.interrupts.absorb(exit);
        if !self.selection.holds_exit(exit) {
            return Some(ExitSlots { vcpu, kind: None });
        }
        let (kind, added) = self.kinds.absorb(exit);
        if !added {
            self.absorb_unbatched(exit);
        }
        if !self.by_reason {
            self.by.absorb(exit);
        }
        if let Some(detail) = exit.subject() {
            self.halts.absorb_detail(&detail);
        }
        if let Some(vector) = exit.injected {
            match self.vectors.get_mut(vector as usize) {
                Some(count) => *count += 1,
                None => *self.injected.entry(vector).or_default() += 1,
            }
        }
        self.slowest.absorb(exit);
        self.timeline.absorb(exit);
        Some(ExitSlots { vcpu, kind: Some(kind) })
    }

    /// Adds one exit to what [`StatsByExitKind`] will be put into.
    #[inline(never)]
    pub(crate) fn absorb_unbatched(&mut self, exit: &Exit) {
        self.phases.absorb(PhaseKey::of(exit), exit);
        let about = KeyedSubject::of(exit);
        self.causes.absorb(ExitCause { code: exit.code, about: about.key() }, exit);
        match about {
            KeyedSubject::Access(key) => self.accesses.absorb(key, exit),
            KeyedSubject::Thing(key) => self.details.absorb(key, exit),
            KeyedSubject::Nothing | KeyedSubject::Nested(_) => {}
        }
    }

    /// Has [`Facts::phases`], [`Facts::accesses`], [`Facts::causes`], [`Facts::details`] and [`Facts::injected`] hold all exits.
    pub fn flush_exit_kinds(&mut self) {
        self.kinds.flush_into(&mut self.phases, &mut self.details, &mut self.accesses, &mut self.causes);
        for (vector, count) in (0..).zip(self.vectors.iter_mut()).filter(|(_, count)| **count > 0) {
            *self.injected.entry(vector).or_default() += std::mem::take(count);
        }
    }

    /// Adds a stretch of no exit.
    pub fn absorb_stretch(&mut self, stretch: &CpuInterval) {
        if self.selection.holds_who(&stretch.who) {
            self.running.of(stretch.who).1.absorb_stretch(stretch, self.window);
            self.interrupts.saw_stretch(stretch);
        }
    }

    /// Adds one halt; whether it is of the vCPUs and moments that are looked at.
    pub fn absorb_halt(&mut self, halt: &Halt) -> bool {
        let holds = self.within(halt.begin) && self.selection.holds_who(&halt.who);
        if holds {
            self.halts.absorb(halt);
        }
        holds
    }

    /// Adds one yield; whether it is of the vCPUs and moments that are looked at.
    pub fn absorb_yield(&mut self, of: &Yield) -> bool {
        let holds = self.within(of.at) && self.selection.holds_who(&of.who);
        if holds {
            self.yields.absorb(of);
        }
        holds
    }

    /// Adds one preemption; whether it is of the vCPUs and moments that are looked at.
    pub fn absorb_preemption(&mut self, of: &Preemption) -> bool {
        let holds = self.within(of.at) && self.selection.holds_who(&of.who);
        if holds {
            self.yields.absorb_preemption(of);
        }
        holds
    }

    /// Adds a stretch of a vCPU's wait for a CPU.
    pub fn absorb_steal_piece(&mut self, piece: &StealPiece) {
        if self.selection.holds_who(&piece.who) {
            self.steal_takers.absorb(piece, self.window);
        }
    }

    /// Adds one change of a window of PAUSE loops.
    pub fn absorb_ple_update(&mut self, of: &PleUpdate) {
        if self.within(of.at) && self.selection.holds_who(&of.who) {
            self.yields.absorb_window(of);
        }
    }

    /// Adds one activity of KVM.
    pub fn absorb_kvm_activity(&mut self, of: &KvmActivityEvent) {
        let vms = &self.selection.vms;
        if self.within(of.at) && (vms.is_empty() || vms.contains(&of.who.vm)) {
            *self.kvm_activity.entry((of.who.vm, of.activity.counted_as())).or_default() += 1;
        }
    }

    /// Adds one change of what inhibits APICv or AVIC.
    pub fn absorb_apicv_change(&mut self, of: &ApicvChangeEvent) {
        let vms = &self.selection.vms;
        if vms.is_empty() || vms.contains(&of.who.vm) {
            self.interrupts.absorb_change(of, self.window);
        }
    }

    /// Adds what a kernel tells of an idle CPU of its own.
    pub fn absorb_idle(&mut self, of: &IdleCpuEvent) {
        if self.within(of.at) {
            self.idle_polls.absorb(of);
        }
    }

    /// Adds a stay of the run queue.
    #[inline]
    pub fn absorb_queue_stay(&mut self, stay: &RunQueueInterval) {
        let (from, to) = (stay.from.max(self.window.0), stay.to.min(self.window.1));
        if from < to {
            self.yields.absorb_stay(&RunQueueInterval { from, to, ..*stay });
        }
    }

    /// Whether the moment is one of those that are looked at.
    #[inline]
    pub fn within(&self, at: Moment) -> bool {
        self.window.0 <= at && at <= self.window.1
    }

    /// Looks at one event of a recording in which a virtual core's runner records for its threads.
    pub fn absorb_runner_event(&mut self, event: &Event) {
        if self.within(event.at) {
            let vms = &self.selection.vms;
            let selected = |vm| vms.is_empty() || vms.contains(&vm);
            self.gangs.absorb(event, selected);
        }
    }

    /// A stretch of the recording that ended last is held by an earlier one: its time counts there.
    pub fn leave_out(&mut self, from: Moment, to: Moment) {
        let held = within(self.window, from.as_nanos(), to.as_nanos());
        self.duration = Nanos(self.duration.0.saturating_sub(held.0));
    }

    /// Ends one recording: its first and last event, and which thread runs which vCPU.
    pub fn end(&mut self, first: Moment, last: Moment, vcpu_of: &FxHashMap<Tid, VcpuId>) {
        // Whoever adds a field says here whether anything of it is of this recording alone, or of threads whose vCPU is known only now.
        let Facts {
            // Ended below.
            kinds: _,
            vectors: _,
            injected: _,
            running: _,
            divisions: _,
            duration: _,
            run_states: _,
            slowest: _,
            gangs: _,
            halts: _,
            yields: _,
            interrupts: _,
            all: _,
            by: _,
            by_reason: _,
            phases: _,
            details: _,
            accesses: _,
            causes: _,
            // As they are.
            selection: _,
            window: _,
            event_kinds: _,
            timeline: _,
            steal_takers: _,
            kvm_activity: _,
            idle_polls: _,
        } = self;
        self.flush_exit_kinds();
        self.kinds = StatsByExitKind::default();
        for (who, division) in self.running.take() {
            self.divisions.entry(who).or_default().merge(&division);
        }
        let within = last.min(self.window.1).since(first.max(self.window.0)).unwrap_or_default();
        self.duration = self.duration.plus(within);
        for (who, division) in std::mem::take(&mut self.divisions) {
            if division == VcpuTime::default() {
                continue;
            }
            self.divisions.entry(who.completed(vcpu_of)).or_default().merge(&division);
        }
        self.run_states.end();
        let selection = &self.selection;
        self.run_states.retain(|who| selection.holds_who(who));
        self.slowest.complete(|who| who.completed(vcpu_of));
        self.gangs.end();
        self.halts.end(|who| who.completed(vcpu_of));
        self.yields.complete(|who| who.completed(vcpu_of));
        self.interrupts.end(self.window, |who| who.completed(vcpu_of));
        self.by.complete(vcpu_of);
        if self.by_reason {
            self.by = ExitGroups::by(&[Dimension::Reason]);
            for (key, phases) in self.phases.cells() {
                self.by.merge_at(&[DimensionValue::Reason(key.code)], &phases.stats);
            }
            self.by.other = self.phases.other.stats.clone();
        }
        self.all = ExitStats::default();
        for (_, phases) in self.phases.cells() {
            self.all.merge(&phases.stats);
        }
        self.all.merge(&self.phases.other.stats);
    }

    /// Adds what another recording, ended, gave.
    pub fn merge(&mut self, other: &Facts) {
        let Facts {
            selection: _,
            window: _,
            event_kinds,
            duration,
            all,
            phases,
            by,
            details,
            accesses,
            causes,
            kinds: _,
            by_reason: _,
            injected,
            vectors: _,
            divisions,
            running: _,
            run_states,
            slowest,
            timeline,
            halts,
            gangs,
            yields,
            steal_takers,
            kvm_activity,
            interrupts,
            idle_polls,
        } = other;
        self.event_kinds.merge(*event_kinds);
        self.idle_polls.merge(idle_polls);
        self.duration = self.duration.plus(*duration);
        self.all.merge(all);
        self.phases.merge(phases);
        self.by.merge(by);
        self.details.merge(details);
        self.accesses.merge(accesses);
        self.causes.merge(causes);
        for (vector, count) in injected {
            *self.injected.entry(*vector).or_default() += count;
        }
        for (who, division) in divisions {
            self.divisions.entry(*who).or_default().merge(division);
        }
        self.run_states.merge(run_states);
        self.slowest.merge(slowest);
        self.timeline.merge(timeline);
        self.halts.merge(halts);
        self.gangs.merge(gangs);
        self.yields.merge(yields);
        self.steal_takers.merge(steal_takers);
        for (activity, count) in kvm_activity {
            *self.kvm_activity.entry(*activity).or_default() += count;
        }
        self.interrupts.merge(interrupts);
    }

    /// All selected exits together without halts, and the reasons that these are: how long a vCPU halts is not how long its
    /// exits take.
    pub fn without_halts(&self) -> (ExitStats, Vec<String>) {
        let cells = || self.phases.cells().into_iter().map(|(key, phases)| (key.code.name(), &phases.stats));
        let halts = halts(cells());
        let mut rest = self.phases.other.stats.clone();
        cells().filter(|(reason, _)| !halts.contains(reason)).for_each(|(_, cell)| rest.merge(cell));
        (rest, halts)
    }

    /// The VMs whose exits are looked at, of recordings that have ended.
    pub fn vms(&self) -> Vec<VmId> {
        let vms: BTreeSet<VmId> = self.divisions.keys().map(|who| who.vm).collect();
        vms.into_iter().collect()
    }

    /// For how long vCPUs were seen: of a single VM its longest vCPU's time, as the host was recorded before it began and after it
    /// ended; else from the first event to the last.
    pub fn seen(&self) -> Nanos {
        match self.vms().len() {
            1 => self.divisions.values().map(VcpuTime::span).max().unwrap_or_default(),
            _ => self.duration,
        }
    }

    /// How many VMs the threads are of that bear this one's number, at least: a recording that does not say whose a thread is has one
    /// number for all, and a process may run several. There, another thread may take over a vCPU: only threads that were there at the
    /// same time count. On powerpc, threads of several runners stand for one vCPU.
    pub fn vms_within(&self, vm: VmId) -> usize {
        if self.event_kinds.by_runner {
            return 1;
        }
        let least = least_vms(self.vcpus_of(vm).map(|(who, _)| who.vcpu));
        if vm == VmId::UNKNOWN || least < 2 {
            return least;
        }
        let mut spans: FxHashMap<VcpuId, u64> = FxHashMap::default();
        let known = self.vcpus_of(vm).filter(|(who, _)| who.vcpu.number().is_some());
        known.for_each(|(who, of)| {
            let sum = spans.entry(who.vcpu).or_default();
            *sum = sum.saturating_add(of.span().0);
        });
        let longest = spans.into_values().max().unwrap_or_default();
        longest.div_ceil(self.duration.0.max(1)).clamp(1, least as u64) as usize
    }

    /// The vCPUs of a VM, and their time.
    pub fn vcpus_of(&self, vm: VmId) -> impl Iterator<Item = (&VcpuIdentity, &VcpuTime)> {
        let first = VcpuIdentity { vm, vcpu: VcpuId(0), tid: Tid(0) };
        self.divisions.range(first..).take_while(move |(who, _)| who.vm == vm)
    }

    /// Who had the CPUs for which the vCPUs of each VM waited, longest first, and last what is not known: all steal of the VM. Empty
    /// where no `sched_switch` says who has a CPU.
    pub fn steal_takers(&self) -> BTreeMap<VmId, Vec<StealTaker>> {
        if !self.event_kinds.switches || self.event_kinds.by_runner || self.has_run_states() {
            return BTreeMap::new();
        }
        let mut steal: BTreeMap<VmId, u64> = BTreeMap::new();
        for (who, of) in &self.divisions {
            let sum = steal.entry(who.vm).or_default();
            *sum = sum.saturating_add(of.part(TimePart::Steal).0);
        }
        let vm_of = self.divisions.keys().filter(|who| who.tid != Tid(0)).map(|who| (who.tid, who.vm)).collect();
        let several = steal.keys().copied().filter(|vm| self.vms_within(*vm) > 1).collect();
        self.steal_takers.of_vms(&steal, &KnownThreads { vm_of: &vm_of, several: &several })
    }

    /// Whether it has the run states of Xen's scheduler, which tell waiting for the device model apart.
    pub fn has_run_states(&self) -> bool {
        self.run_states.times().next().is_some()
    }

    /// Whether there is no `kvm_exit`, as with a back end in software or PVM, and where it was not recorded: all exits are to user space.
    pub fn has_no_kvm_exit(&self) -> bool {
        let causes = self.causes.cells();
        !causes.is_empty() && causes.iter().all(|(cause, _)| cause.code.list == CodeList::KvmExit)
    }

    /// For how long a vCPU had a CPU, or wanted one. Who waits for Xen's device model does neither. Where no `kvm_exit` tells
    /// guest and kernel apart, the scheduler says that what nothing else tells is within KVM_RUN; so Xen's says that a vCPU runs.
    pub fn time_wanted(&self) -> impl Fn(&VcpuTime) -> u64 + use<> {
        let has_run_states = self.has_run_states();
        let is_blind = self.event_kinds.switches && self.has_no_kvm_exit();
        move |of| {
            let mut parts = vec![TimePart::Guest, TimePart::Kernel, TimePart::Steal];
            parts.extend((!has_run_states).then_some(TimePart::User));
            parts.extend((is_blind || has_run_states).then_some(TimePart::Unknown));
            parts.iter().map(|part| of.part(*part).0).fold(0, u64::saturating_add)
        }
    }

    /// powerpc: whether most of so much steal is that another virtual core was in its guest on the CPU.
    pub fn took_turns(&self, steal: Nanos) -> bool {
        steal > Nanos::ZERO && self.gangs.turns_of_others.saturating_mul(2) >= steal.0
    }

    /// What exits were about, most costly first.
    pub fn details(&self) -> Vec<(SubjectKey, Cow<'_, ExitStats>)> {
        let mut rows: Vec<_> = self.details.cells().into_iter().map(|(key, cell)| (key, Cow::Borrowed(cell))).collect();
        for (key, access) in self.accesses.cells() {
            match rows.last_mut().filter(|row| row.0 == key.at) {
                // The same, served elsewhere.
                Some((_, cell)) => cell.to_mut().merge(&access.stats),
                None => rows.push((key.at, Cow::Borrowed(&access.stats))),
            }
        }
        rows.sort_by_key(|(key, cell)| (std::cmp::Reverse((cell.cost(), cell.count)), *key));
        rows
    }
}
