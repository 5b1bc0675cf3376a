//! Ganged exits: on POWER7 and POWER8 the threads of a virtual core leave the guest together, whoever had to.
//!
//! ```text
//! kvmppc_run_core Enter ─► kvm_guest_exit of every thread, by the runner ─► kvmppc_run_core Exit      one core run
//!      vcpu 0  SYSCALL        a cause                                │
//!      vcpu 1  0xe80          forced: it had no reason of its own ───┴──► until its next kvm_guest_enter: lost
//!      vcpu 2  0xe80 ceded    idle: it lost nothing
//! ```
//!
//! Two rules count runs: the script's of 2015 (more than one runnable at the end, less those that ceded), and the truer
//! one (at least two threads that had not ceded; runs that ended for all with the shared timer are kept apart).
//!
//! The script's own number is another one again: it keeps one count of ceded threads for each process, which the runs of several cores
//! share ([`GangScript`]).
//!
//! A recording of the two events that the script reads has no entries: a thread that was forced out is back, at the latest, when the
//! next run begins that it leaves (`kvmppc_run_core` traces `kvm_guest_enter` of each thread before its own event), or, if somebody
//! joined that run, when it leaves it.
//!
//! Runs are told by thread: several cores' runs overlap in time. vCPU numbers are those of a VM; where virtual cores of
//! several VMs share one run (dynamic micro-threading), the trace does not tell them apart.

use crate::{DurationStats, SubjectKey};
use exitscope_model::{CodeList, Event, EventKind, GangRow, TraceInfo, Turns};
use exitscope_policy::vcore::{CoreRunClass, H_DOORBELL, ThreadExit, gang, script_counts};
use exitscope_units::{Moment, Nanos, PcpuId, Tid, VcpuId, VmId};
use rustc_hash::FxHashMap;
use std::collections::{BTreeMap, BTreeSet};

/// Threads of one run that are kept: eight of a core, and as many that another vCPU took over during it.
const MAX_MEMBERS: usize = 16;

/// Runs that are open at a time, a thread each; and vCPUs and causes that are kept by subject.
const MAX_OPEN: usize = 1 << 16;

/// A vCPU of a VM.
pub type VcpuKey = (VmId, VcpuId);

/// How one thread left in one run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GangMember {
    /// Which vCPU ran on it.
    pub vcpu: VcpuId,
    /// Why it left, and whether it was idle.
    pub left: ThreadExit,
}

impl GangMember {
    /// Whether it worked, and left only because another did.
    pub fn is_forced(&self) -> bool {
        !self.left.ceded && self.left.trap == H_DOORBELL
    }

    /// Whether it had a reason of its own.
    pub fn is_cause(&self) -> bool {
        !self.left.ceded && self.left.trap != H_DOORBELL && self.left.trap != 0
    }
}

/// What the runs of one virtual core, or of a VM, were.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GangStats {
    /// Core runs of which both ends were seen.
    pub runs: u64,
    /// Those that the script of 2015 counts.
    pub script: u64,
    /// Those in which at least two threads left that had not ceded.
    pub two_active: u64,
    /// Of these, those that ended for all with the hypervisor decrementer: nobody forced anybody.
    pub timer: u64,
    /// The others, of threads that got into the guest: one's exit took the rest along.
    pub ganged: u64,
    /// Exits of threads that had not ceded.
    pub exits: u64,
    /// Of these, exits that were forced.
    pub forced: u64,
    /// Threads that never got into the guest, because others were leaving already.
    pub too_late: u64,
    /// vCPUs that joined a run under way.
    pub joined: u64,
    /// From being forced out until the next entry.
    pub lost: DurationStats,
    /// Of that, nanoseconds in which another virtual core had the CPU.
    pub others: u64,
    /// From being forced out until at the latest, in nanoseconds, of those whose next entry was not recorded.
    pub lost_at_most: u64,
    /// CPUs that recorded the runs: of a core, its first thread.
    pub cpus: BTreeSet<PcpuId>,
}

/// Exits that forced others out: of which vCPU, for which trap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ForcingExits {
    /// Ganged runs in which it was a cause.
    pub runs: u64,
    /// Exits that were forced in them; with several causes in a run, nobody can tell which came first, and each has all.
    pub forced: u64,
    /// Time lost by those that were forced out, shared equally by the causes of a run.
    pub lost: u64,
}

/// A run that is under way.
#[derive(Clone, Debug)]
struct Run {
    whose: VcpuKey,
    begin: Moment,
    runnable: u32,
    /// The VM as the exits say it: not every trace names the process of a thread.
    said: VmId,
    members: Vec<GangMember>,
    /// vCPUs that had been forced out of an earlier one, whose entry was not recorded: when, and when they left this one.
    unseen: Vec<(VcpuId, Moment, Moment)>,
}

impl Run {
    /// Takes note of a thread that leaves it, and had been forced out before.
    fn note_unseen(&mut self, event: &Event, before: &mut ForcedOutVcpu) {
        let is_new = !std::mem::replace(&mut before.left_again, true);
        if is_new && !before.members.is_empty() && self.unseen.len() < MAX_MEMBERS {
            self.unseen.push((event.vcpu, before.at, event.at));
        }
    }

    /// For how long those were out at most.
    fn out_at_most(&self) -> Vec<(VcpuId, Nanos)> {
        let somebody_joined = self.members.len() > self.runnable as usize;
        let back = |left: Moment| if somebody_joined { left } else { self.begin };
        self.unseen.iter().filter_map(|&(vcpu, at, left)| Some((vcpu, back(left).since(at)?))).collect()
    }
}

/// A vCPU that was forced out and has not entered again.
#[derive(Clone, Debug)]
pub(crate) struct ForcedOutVcpu {
    pub at: Moment,
    pub members: Vec<GangMember>,
    pub runner: VcpuKey,
    /// Where, and what other virtual cores had had of that CPU.
    cpu: PcpuId,
    others: u64,
    /// It has left a later run since then.
    left_again: bool,
}

/// Pairs the events of runs.
#[derive(Clone, Debug, Default)]
pub struct CoreRunPairing {
    open: FxHashMap<Tid, Run>,
    forced: FxHashMap<VcpuKey, ForcedOutVcpu>,
}

/// A core run of which both ends were seen.
#[derive(Clone, Debug)]
pub(crate) struct CoreRun {
    pub runner: VcpuKey,
    pub cpu: PcpuId,
    /// Runnable vCPUs at its beginning, and at its end.
    pub entered: u32,
    pub runnable: u32,
    pub members: Vec<GangMember>,
    /// Those that had been forced out, and whose entry was not recorded: for how long they were out at most.
    out_at_most: Vec<(VcpuId, Nanos)>,
}

impl CoreRun {
    /// What the run was: the one rule of views and replays.
    pub fn gang(&self) -> CoreRunClass {
        gang(self.members.iter().map(|member| member.left), H_DOORBELL)
    }
}

/// A vCPU that was forced out of the guest, and is back in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForcedOutExit {
    /// Its VM.
    pub vm: VmId,
    /// The vCPU.
    pub vcpu: VcpuId,
    /// When it was forced out.
    pub at: Moment,
    /// From then until its next entry.
    pub lost: Nanos,
    /// Who had to leave, and why: with several, nobody can tell which came first.
    pub causes: Vec<GangMember>,
}

/// What an event completed.
pub(crate) enum CoreRunOutcome {
    Run(CoreRun),
    /// A vCPU that had been forced out is back, after so long.
    Back {
        vcpu: VcpuId,
        forced: ForcedOutVcpu,
        lost: Nanos,
        /// For how long of that another virtual core had the CPU.
        others: Nanos,
    },
    /// A run's beginning without an end, or an end without a beginning.
    Unpaired,
}

impl CoreRunPairing {
    /// Takes one event: whom it shows to be back after it was forced out.
    pub fn forced_out_exit(&mut self, event: &Event) -> Option<ForcedOutExit> {
        match self.take(event, |_| 0)? {
            CoreRunOutcome::Back { vcpu, forced: ForcedOutVcpu { at, mut members, runner, .. }, lost, .. } => {
                members.retain(GangMember::is_cause);
                Some(ForcedOutExit { vm: runner.0, vcpu, at, lost, causes: members })
            }
            CoreRunOutcome::Run(_) | CoreRunOutcome::Unpaired => None,
        }
    }

    /// Takes one event; `others` says for how long other virtual cores than the event's had had a CPU, in nanoseconds.
    pub(crate) fn take(&mut self, event: &Event, others: impl Fn(PcpuId) -> u64) -> Option<CoreRunOutcome> {
        match event.kind {
            EventKind::Exit { code, idle, .. } if code.list == CodeList::PpcTrap => {
                let run = self.open.get_mut(&event.tid)?;
                if let Some(before) = self.forced.get_mut(&(event.vm, event.vcpu)) {
                    run.note_unseen(event, before);
                }
                if run.members.len() < MAX_MEMBERS {
                    let left = ThreadExit { trap: code.number as u16, ceded: idle };
                    run.members.push(GangMember { vcpu: event.vcpu, left });
                    if run.members.last().is_some_and(GangMember::is_forced) {
                        let (cpu, members) = (event.cpu, Vec::new());
                        let (at, runner, others) = (event.at, run.whose, others(cpu));
                        let forced = ForcedOutVcpu { at, members, runner, cpu, others, left_again: false };
                        run.said = event.vm;
                        self.forced.insert((event.vm, event.vcpu), forced);
                    }
                }
                None
            }
            EventKind::Enter => {
                let forced = self.forced.remove(&(event.vm, event.vcpu)).filter(|forced| !forced.members.is_empty())?;
                let lost = event.at.since(forced.at)?;
                let others = Nanos(others(forced.cpu).saturating_sub(forced.others).min(lost.0));
                let others = if forced.cpu == event.cpu { others } else { Nanos::ZERO };
                Some(CoreRunOutcome::Back { vcpu: event.vcpu, forced, lost, others })
            }
            EventKind::RunCore { exit: false, runnable } => {
                if self.open.len() >= MAX_OPEN {
                    return Some(CoreRunOutcome::Unpaired);
                }
                let whose = (event.vm, event.vcpu);
                let (members, unseen) = (Vec::new(), Vec::new());
                let run = Run { whose, begin: event.at, runnable, said: event.vm, members, unseen };
                self.open.insert(event.tid, run).map(|_| CoreRunOutcome::Unpaired)
            }
            EventKind::RunCore { exit: true, runnable } => {
                let Some(run) = self.open.remove(&event.tid) else { return Some(CoreRunOutcome::Unpaired) };
                let out_at_most = run.out_at_most();
                let Run { whose, runnable: entered, said, members, .. } = run;
                let run = CoreRun { runner: whose, cpu: event.cpu, entered, runnable, members, out_at_most };
                let is_ganged = matches!(run.gang(), CoreRunClass::Ganged { .. });
                for member in run.members.iter().filter(|member| is_ganged && member.is_forced()) {
                    if let Some(forced) = self.forced.get_mut(&(said, member.vcpu)) {
                        forced.members = run.members.clone();
                    }
                }
                Some(CoreRunOutcome::Run(run))
            }
            EventKind::Lost { .. } => {
                self.open.clear();
                self.forced.clear();
                None
            }
            _ => None,
        }
    }
}

/// What the script of 2015 counts, and as it counts: a run if, of the vCPUs runnable at its end, more than one had not ceded since a
/// thread of the same process last began one. Where a process has runs on several cores at a time, these share that count.
#[derive(Clone, Debug, Default)]
pub struct GangScript {
    /// Threads that ran a virtual core, and their processes: events of exits do not say them.
    processes: FxHashMap<Tid, VmId>,
    ceded: FxHashMap<VmId, u32>,
    ganged: BTreeMap<VmId, u64>,
}

impl GangScript {
    /// Takes one event.
    fn absorb(&mut self, event: &Event) {
        match event.kind {
            EventKind::Exit { code, idle: true, .. } if code.list == CodeList::PpcTrap => {
                if let Some(ceded) = self.processes.get(&event.tid).and_then(|process| self.ceded.get_mut(process)) {
                    *ceded += 1;
                }
            }
            EventKind::RunCore { exit: false, .. } if self.processes.len() < MAX_OPEN => {
                self.processes.insert(event.tid, event.vm);
                self.ceded.insert(event.vm, 0);
                self.ganged.entry(event.vm).or_default();
            }
            EventKind::RunCore { exit: true, runnable } if self.ganged.len() < MAX_OPEN => {
                let ceded = self.ceded.get(&event.vm).copied().unwrap_or_default();
                *self.ganged.entry(event.vm).or_default() += u64::from(script_counts(runnable, ceded));
            }
            _ => {}
        }
    }

    /// By process, what it prints.
    pub fn ganged(&self) -> &BTreeMap<VmId, u64> {
        &self.ganged
    }

    fn merge(&mut self, other: &GangScript) {
        let GangScript { processes: _, ceded: _, ganged } = other;
        for (process, runs) in ganged {
            *self.ganged.entry(*process).or_default() += runs;
        }
    }

    fn end(&mut self) {
        self.processes.clear();
        self.ceded.clear();
    }
}

/// The ganged exits of a recording.
#[derive(Clone, Debug, Default)]
pub struct GangFacts {
    runs: CoreRunPairing,
    turns: Turns,
    /// By VM and vCPU: the runs of those that ran the virtual core, and everybody's own exits.
    vcpus: BTreeMap<VcpuKey, GangStats>,
    /// vCPUs that were seen in one run with another: the smallest of them.
    together: BTreeMap<VcpuKey, VcpuId>,
    causes: BTreeMap<(VmId, VcpuId, u16), ForcingExits>,
    /// What the last exit of a vCPU was about, where something said so.
    about: FxHashMap<VcpuKey, SubjectKey>,
    /// What vCPUs that were forced out lost while no other virtual core had the CPU, by what forced them.
    forced_by: BTreeMap<(VmId, u16, Option<SubjectKey>), u64>,
    /// Where each vCPU left its guest, and what other virtual cores had had of that CPU then.
    left: FxHashMap<VcpuKey, (PcpuId, u64)>,
    /// What other virtual cores had of CPUs between an exit and the next entry of a vCPU there, summed over vCPUs, in nanoseconds.
    pub turns_of_others: u64,
    /// Runs of which one end was not seen.
    pub unpaired: u64,
    /// Exits of powerpc guests, in runs or not.
    pub guest_exits: u64,
    /// What the script of 2015 counts.
    pub script: GangScript,
}

/// A virtual core: its VM and its vCPUs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VcoreGangs {
    /// Its VM.
    pub vm: VmId,
    /// The vCPUs that were seen to run in it, ascending.
    pub vcpus: Vec<VcpuId>,
    /// Its runs.
    pub stats: GangStats,
}

impl GangFacts {
    /// Takes one event; runs of VMs that are not `selected` are left out.
    #[inline]
    pub fn absorb(&mut self, event: &Event, selected: impl Fn(VmId) -> bool) {
        match event.kind {
            EventKind::Exit { code, .. } if code.list == CodeList::PpcTrap => {
                self.guest_exits += 1;
                self.about.remove(&(event.vm, event.vcpu));
            }
            EventKind::Detail(detail) if self.about.len() < MAX_OPEN => {
                self.about.insert((event.vm, event.vcpu), SubjectKey::of(detail));
            }
            _ => {}
        }
        // An exit is of the process that its thread is of.
        if matches!(event.kind, EventKind::Exit { .. }) || selected(event.vm) {
            self.script.absorb(event);
        }
        self.turns.take(event);
        let others = |cpu| self.turns.of_others(cpu, event.vm, event.vcpu, event.at);
        let whose = (event.vm, event.vcpu);
        match event.kind {
            // One that has ceded waits for nobody.
            EventKind::Exit { idle: false, .. } if self.left.len() < MAX_OPEN => {
                self.left.insert(whose, (event.cpu, others(event.cpu)));
            }
            EventKind::Lost { .. } => self.left.clear(),
            EventKind::Enter if selected(event.vm) => {
                let there = self.left.remove(&whose).filter(|(cpu, _)| *cpu == event.cpu);
                let had = there.map_or(0, |(cpu, before)| others(cpu).saturating_sub(before));
                self.turns_of_others = self.turns_of_others.saturating_add(had);
            }
            _ => {}
        }
        match self.runs.take(event, others) {
            None => {}
            Some(CoreRunOutcome::Unpaired) => self.unpaired += 1,
            Some(CoreRunOutcome::Run(run)) if selected(run.runner.0) => self.absorb_run(&run),
            Some(CoreRunOutcome::Back { forced, .. }) if !selected(forced.runner.0) => {}
            Some(CoreRunOutcome::Run(_)) => {}
            Some(CoreRunOutcome::Back { vcpu, forced, lost, others }) => {
                let vm = forced.runner.0;
                let cell = self.vcpus.entry((vm, vcpu)).or_default();
                cell.lost.record(lost);
                cell.others = cell.others.saturating_add(others.0);
                let causes: Vec<&GangMember> = forced.members.iter().filter(|member| member.is_cause()).collect();
                let (count, mut left, mut alone) = (causes.len() as u64, lost.0, lost.0 - others.0);
                for (before, cause) in (0..).zip(&causes) {
                    // Equal but for the nanoseconds that do not divide, so that the parts are the whole.
                    let next = |left: &mut u64| {
                        let part = *left / (count - before);
                        *left -= part;
                        part
                    };
                    let of = self.causes.entry((vm, cause.vcpu, cause.left.trap)).or_default();
                    of.lost = of.lost.saturating_add(next(&mut left));
                    let about = self.about.get(&(vm, cause.vcpu)).copied();
                    let (key, part) = ((vm, cause.left.trap, about), next(&mut alone));
                    if self.forced_by.len() < MAX_OPEN || self.forced_by.contains_key(&key) {
                        let of = self.forced_by.entry(key).or_default();
                        *of = of.saturating_add(part);
                    }
                }
            }
        }
    }

    fn absorb_run(&mut self, run: &CoreRun) {
        let CoreRun { runner, cpu, entered, runnable, ref members, ref out_at_most } = *run;
        let ceded = members.iter().filter(|member| member.left.ceded).count();
        let kind = run.gang();
        let cell = self.vcpus.entry(runner).or_default();
        cell.runs += 1;
        cell.cpus.insert(cpu);
        cell.script += u64::from(script_counts(runnable, ceded as u32));
        cell.two_active += u64::from(members.len() - ceded >= 2);
        cell.timer += u64::from(kind == CoreRunClass::Timer);
        cell.joined += (members.len() as u64).saturating_sub(u64::from(entered));
        let forced = if let CoreRunClass::Ganged { forced, .. } = kind { Some(u64::from(forced)) } else { None };
        cell.ganged += u64::from(forced.is_some());
        for member in members.iter().filter(|member| !member.left.ceded) {
            let cell = self.vcpus.entry((runner.0, member.vcpu)).or_default();
            cell.exits += 1;
            cell.too_late += u64::from(member.left.trap == 0);
            let Some(forced) = forced else { continue };
            cell.forced += u64::from(member.is_forced());
            if member.is_cause() {
                let of = self.causes.entry((runner.0, member.vcpu, member.left.trap)).or_default();
                of.runs += 1;
                of.forced += forced;
            }
        }
        for (vcpu, out) in out_at_most {
            let cell = self.vcpus.entry((runner.0, *vcpu)).or_default();
            cell.lost_at_most = cell.lost_at_most.saturating_add(out.0);
        }
        self.join(runner.0, members);
    }

    /// The vCPUs of one run are of one virtual core.
    fn join(&mut self, vm: VmId, members: &[GangMember]) {
        let least = members.iter().map(|member| self.first_of(vm, member.vcpu)).min();
        let Some(least) = least else { return };
        for member in members {
            let first = self.first_of(vm, member.vcpu);
            self.together.insert((vm, first), least);
            self.together.insert((vm, member.vcpu), least);
        }
    }

    /// The smallest vCPU known to be of the same virtual core.
    fn first_of(&self, vm: VmId, mut vcpu: VcpuId) -> VcpuId {
        while let Some(&first) = self.together.get(&(vm, vcpu)).filter(|first| **first < vcpu) {
            vcpu = first;
        }
        vcpu
    }

    /// The virtual cores: as the runs show them, or `threads` vCPUs each.
    pub fn vcores(&self, threads: Option<u32>) -> Vec<VcoreGangs> {
        let first = |(vm, vcpu): VcpuKey| match threads {
            Some(threads) => (vm, VcpuId(vcpu.0 / threads.max(1))),
            None => (vm, self.first_of(vm, vcpu)),
        };
        let mut vcores: BTreeMap<VcpuKey, VcoreGangs> = BTreeMap::new();
        for &whose in self.together.keys() {
            vcores.entry(first(whose)).or_default().vcpus.push(whose.1);
        }
        for (&whose, cell) in &self.vcpus {
            vcores.entry(first(whose)).or_default().stats.merge(cell);
        }
        vcores.into_iter().map(|((vm, _), vcore)| VcoreGangs { vm, ..vcore }).collect()
    }

    /// By VM.
    pub fn vms(&self) -> BTreeMap<VmId, GangStats> {
        let mut vms: BTreeMap<VmId, GangStats> = BTreeMap::new();
        for ((vm, _), cell) in &self.vcpus {
            vms.entry(*vm).or_default().merge(cell);
        }
        vms
    }

    /// Who forced others out, for which trap, most forced first.
    pub fn causes(&self) -> Vec<((VmId, VcpuId, u16), ForcingExits)> {
        let mut causes: Vec<_> = self.causes.iter().map(|(key, cause)| (*key, *cause)).collect();
        causes.sort_by_key(|(key, cause)| (std::cmp::Reverse((cause.forced, cause.runs)), *key));
        causes
    }

    /// What vCPUs lost that exits `of` this VM, trap and subject forced out, but for the time in which another virtual core had the CPU.
    pub fn forced_by(&self, of: impl Fn(VmId, u16, Option<SubjectKey>) -> bool) -> Nanos {
        let those = self.forced_by.iter().filter(|((vm, trap, about), _)| of(*vm, *trap, *about));
        Nanos(those.map(|(_, lost)| *lost).fold(0, u64::saturating_add))
    }

    /// Adds what another recording gave.
    pub fn merge(&mut self, other: &GangFacts) {
        let GangFacts {
            runs: _,
            turns: _,
            left: _,
            vcpus,
            together,
            causes,
            about: _,
            forced_by,
            turns_of_others,
            unpaired,
            guest_exits,
            script,
        } = other;
        self.script.merge(script);
        self.turns_of_others = self.turns_of_others.saturating_add(*turns_of_others);
        for (key, lost) in forced_by {
            let of = self.forced_by.entry(*key).or_default();
            *of = of.saturating_add(*lost);
        }
        for (whose, cell) in vcpus {
            self.vcpus.entry(*whose).or_default().merge(cell);
        }
        for (&(vm, vcpu), &first) in together {
            let left = |vcpu| GangMember { vcpu, left: ThreadExit { trap: 0, ceded: true } };
            self.join(vm, &[left(vcpu), left(first)]);
        }
        for (key, cause) in causes {
            let of = self.causes.entry(*key).or_default();
            of.runs += cause.runs;
            of.forced += cause.forced;
            of.lost = of.lost.saturating_add(cause.lost);
        }
        self.unpaired += unpaired;
        self.guest_exits += guest_exits;
    }

    /// The recording ends: runs that are open are not paired.
    pub fn end(&mut self) {
        self.unpaired += self.runs.open.len() as u64;
        (self.runs, self.turns) = (CoreRunPairing::default(), Turns::default());
        self.about.clear();
        self.left.clear();
        self.script.end();
    }
}

impl VcoreGangs {
    /// As a row; lengths are held as `of` makes them.
    pub fn row<L>(&self, info: &TraceInfo, of: impl Fn(&DurationStats) -> L) -> GangRow<L> {
        self.stats.row(self.vm, Some(&self.vcpus), info, of)
    }
}

impl GangStats {
    /// What being forced out cost, in nanoseconds: all but the time in which another virtual core had the CPU.
    pub fn cost(&self) -> u64 {
        self.lost.sum.saturating_sub(self.others)
    }

    /// As a row, of this VM or of these vCPUs of it; lengths are held as `of` makes them.
    pub fn row<L>(
        &self,
        vm: VmId,
        vcpus: Option<&[VcpuId]>,
        info: &TraceInfo,
        of: impl Fn(&DurationStats) -> L,
    ) -> GangRow<L> {
        GangRow {
            vm: vm.number(),
            vm_name: info.vm_name(vm),
            vcpus: vcpus.map(|vcpus| vcpus.iter().map(|vcpu| vcpu.0).collect()),
            runs: self.runs,
            ganged_script: self.script,
            runs_of_several: self.two_active,
            decrementer: self.timer,
            ganged: self.ganged,
            exits: self.exits,
            forced_exits: self.forced,
            entry_refused: self.too_late,
            joined: self.joined,
            cpus: self.cpus.iter().map(|cpu| cpu.0).collect(),
            forced_out: of(&self.lost),
        }
    }

    /// Adds what another holds.
    pub fn merge(&mut self, other: &GangStats) {
        let GangStats {
            runs,
            script,
            two_active,
            timer,
            ganged,
            exits,
            forced,
            too_late,
            joined,
            lost,
            others,
            lost_at_most,
            cpus,
        } = other;
        self.runs += runs;
        self.script += script;
        self.two_active += two_active;
        self.timer += timer;
        self.ganged += ganged;
        self.exits += exits;
        self.forced += forced;
        self.too_late += too_late;
        self.joined += joined;
        self.lost.merge(lost);
        self.others = self.others.saturating_add(*others);
        self.lost_at_most = self.lost_at_most.saturating_add(*lost_at_most);
        self.cpus.extend(cpus);
    }
}
