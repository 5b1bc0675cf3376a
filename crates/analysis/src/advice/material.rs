//! What the rules look at: the facts of a report, and what only advice needs: exits and what they were about by VM, and
//! which kinds of events the recording has.

use crate::keyed::MAX_KEYS;
use crate::{Cell, DetailKey, Facts, HaltCell, Keyed, Selection, Wanted};
use exitscope_model::{CodeList, Detail, DetailKind, Door, Event, Exit, ExitCode, Halt, Kind, LaneSpan};
use exitscope_units::{Moment, Nanos, Tid, VcpuId, VmId};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// What the recording says of the machine.
#[derive(Clone, Debug, Default)]
pub struct Machine {
    /// Architecture, as `uname -m` says it; empty if unknown.
    pub arch: String,
    /// The kernel's release, or Xen's version; empty if unknown.
    pub release: String,
    /// Physical CPUs; 0 if unknown.
    pub cpus: u32,
    /// Whether it is a log of Xen's.
    pub xen: bool,
    /// Command names of threads.
    pub comms: FxHashMap<u32, String>,
}

/// Which kinds of events there were.
#[derive(Clone, Copy, Debug, Default)]
pub struct EventKinds {
    /// `sched_switch`, or Xen's run states.
    pub switches: bool,
    /// `sched_wakeup`.
    pub wakeups: bool,
    /// Returns to user space, or Xen's run states.
    pub doors: bool,
    /// `kvm_halt_poll_ns`.
    pub polls: bool,
}

/// Whether accesses all went to one place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spot {
    /// The first one's address.
    pub address: u64,
    /// Its size, in bytes.
    pub size: u16,
    /// Whether all others were the same.
    pub only: bool,
}

/// How the time of a VM's vCPUs divides; nanoseconds, all of them together.
#[derive(Clone, Copy, Debug, Default)]
pub struct VmTime {
    /// vCPUs.
    pub vcpus: u64,
    /// From each one's first event to its last.
    pub wall: u64,
    /// In the guest.
    pub guest: u64,
    /// In exits: kernel and user space.
    pub cost: u64,
    /// Halted.
    pub idle: u64,
    /// Runnable but not running.
    pub waiting: u64,
}

impl VmTime {
    /// Time that the vCPUs had a CPU, or wanted one.
    pub fn wanted(&self) -> u64 {
        self.guest.saturating_add(self.cost).saturating_add(self.waiting)
    }
}

/// What the first reading of a recording gives.
#[derive(Clone, Debug)]
pub struct Material {
    /// The facts of a report.
    pub facts: Facts,
    /// Kinds of events.
    pub kinds: EventKinds,
    /// How the VMs' time divides; filled at the end, as all that follows.
    pub vms: BTreeMap<VmId, VmTime>,
    /// Whether the processor is one of Intel's.
    pub is_vmx: bool,
    reasons_of: BTreeMap<VmId, Vec<(ExitCode, Cell)>>,
    about_of: BTreeMap<VmId, Vec<(DetailKey, Cell)>>,
    halts_of: BTreeMap<VmId, HaltCell>,
    /// How often a thread had to give its CPU to another while it wanted to run on: by both.
    preempted: FxHashMap<(Tid, Tid), u64>,
    preempted_of: BTreeMap<VmId, BTreeMap<Tid, u64>>,
    vm_of: FxHashMap<Tid, VmId>,
    reasons: Keyed<(VmId, ExitCode)>,
    about: Keyed<(VmId, DetailKey)>,
    spots: FxHashMap<(VmId, DetailKey), Spot>,
    selection: Selection,
}

/// The sum of times; that of a damaged recording may not fit.
pub(super) fn total(times: impl Iterator<Item = u64>) -> u64 {
    times.fold(0, u64::saturating_add)
}

impl Material {
    /// Nothing yet, of these VMs and moments.
    pub fn new(selection: &Selection) -> Material {
        Material {
            facts: Facts::new(&Wanted { by: Vec::new(), slowest: 0, selection: selection.clone() }),
            kinds: EventKinds::default(),
            vms: BTreeMap::new(),
            is_vmx: false,
            reasons_of: BTreeMap::new(),
            about_of: BTreeMap::new(),
            halts_of: BTreeMap::new(),
            preempted: FxHashMap::default(),
            preempted_of: BTreeMap::new(),
            vm_of: FxHashMap::default(),
            reasons: Keyed::default(),
            about: Keyed::default(),
            spots: FxHashMap::default(),
            selection: selection.clone(),
        }
    }

    /// Says when the trace's first event was, as [`Facts::begin`].
    pub fn begin(&mut self, first: Moment) {
        self.facts.begin(first);
    }

    /// Takes note of the kinds of events, and of who preempts whom.
    pub fn absorb_events(&mut self, events: &[Event]) {
        for event in events {
            match event.kind {
                Kind::Switch { prev, sleeps, next } => {
                    self.kinds.switches = true;
                    if !sleeps && next != Tid(0) {
                        self.note_preemption(prev, next);
                    }
                }
                Kind::Wakeup { .. } => self.kinds.wakeups = true,
                Kind::UserspaceExit { .. } => self.kinds.doors = true,
                Kind::HaltPoll { .. } => self.kinds.polls = true,
                Kind::RunState { .. } => {
                    self.kinds.switches = true;
                    self.kinds.wakeups = true;
                    self.kinds.doors = true;
                }
                _ => {}
            }
        }
    }

    /// Adds one exit.
    pub fn absorb(&mut self, exit: &Exit) {
        self.facts.absorb(exit);
        if !self.facts.holds(exit) {
            return;
        }
        self.reasons.absorb((exit.who.vm, exit.code), exit);
        let Some(detail) = exit.detail else { return };
        let key = (exit.who.vm, DetailKey::of(detail));
        self.about.absorb(key, exit);
        if matches!(detail.kind, DetailKind::Mmio) && exit.door != Door::Kernel {
            self.note_spot(key, &detail);
        }
    }

    fn note_preemption(&mut self, prev: Tid, next: Tid) {
        let known = self.preempted.len();
        match self.preempted.get_mut(&(prev, next)) {
            Some(times) => *times += 1,
            None if known < MAX_KEYS => _ = self.preempted.insert((prev, next), 1),
            None => {}
        }
    }

    fn note_spot(&mut self, key: (VmId, DetailKey), detail: &Detail) {
        if let Some(spot) = self.spots.get_mut(&key) {
            spot.only &= spot.address == detail.key && spot.size == detail.size;
        } else if self.spots.len() < MAX_KEYS {
            self.spots.insert(key, Spot { address: detail.key, size: detail.size, only: true });
        }
    }

    /// Adds one halt.
    pub fn absorb_halt(&mut self, halt: &Halt) {
        self.facts.absorb_halt(halt);
    }

    /// Ends the recording, as [`Facts::end`].
    pub fn end(&mut self, first: Moment, last: Moment, lanes: &[LaneSpan], vcpu_of: &FxHashMap<Tid, VcpuId>) {
        self.facts.end(first, last, lanes, vcpu_of);
        for (who, division) in &self.facts.divisions {
            let vm = self.vms.entry(who.vm).or_default();
            vm.vcpus += 1;
            vm.wall = vm.wall.saturating_add(division.span);
            vm.guest = vm.guest.saturating_add(division.guest);
            vm.cost = vm.cost.saturating_add(division.cost().0);
            vm.idle = vm.idle.saturating_add(division.idle);
            vm.waiting = vm.waiting.saturating_add(division.waiting);
        }
        for ((vm, code), cell) in self.reasons.cells() {
            self.is_vmx |= code.list == CodeList::Vmx;
            self.reasons_of.entry(vm).or_default().push((code, cell.clone()));
        }
        for ((vm, key), cell) in self.about.cells() {
            self.about_of.entry(vm).or_default().push((key, cell.clone()));
        }
        for (who, cell) in &self.facts.halts.vcpus {
            self.halts_of.entry(who.vm).or_default().merge(cell);
        }
        let vcpus = self.facts.divisions.keys().filter(|who| who.tid != Tid(0));
        self.vm_of = vcpus.map(|who| (who.tid, who.vm)).collect();
        for ((prev, next), times) in std::mem::take(&mut self.preempted) {
            if let Some(vm) = self.vm_of.get(&prev) {
                *self.preempted_of.entry(*vm).or_default().entry(next).or_default() += times;
            }
        }
    }

    /// The VM whose vCPU a thread is.
    pub fn vm_of(&self, thread: Tid) -> Option<VmId> {
        self.vm_of.get(&thread).copied()
    }

    /// What the exits of a VM were about.
    pub fn about(&self, vm: VmId) -> &[(DetailKey, Cell)] {
        self.about_of.get(&vm).map_or(&[], Vec::as_slice)
    }

    /// Who ran when a vCPU of the VM had to give its CPU away and wanted to run on, and how often.
    pub fn preempted_by(&self, vm: VmId) -> impl Iterator<Item = (Tid, u64)> {
        self.preempted_of.get(&vm).into_iter().flatten().map(|(tid, times)| (*tid, *times))
    }

    /// Which exits are looked at.
    pub fn selection(&self) -> &Selection {
        &self.selection
    }

    /// Where the accesses of a VM about something went, if they went beyond the kernel.
    pub fn spot(&self, vm: VmId, key: DetailKey) -> Option<Spot> {
        self.spots.get(&(vm, key)).copied()
    }

    /// `time` in each second of the recording.
    pub fn per_second(&self, time: u64) -> Nanos {
        let duration = u128::from(self.facts.duration.0.max(1));
        Nanos(u64::try_from(u128::from(time) * 1_000_000_000 / duration).unwrap_or(u64::MAX))
    }

    /// `count` in each second of the recording.
    pub fn rate(&self, count: u64) -> f64 {
        count as f64 * 1e9 / self.facts.duration.0.max(1) as f64
    }

    /// The exits of a VM for any of these reasons.
    pub fn of_reasons(&self, vm: VmId, reasons: &[(CodeList, u64)]) -> Cell {
        let mut sum = Cell::default();
        let cells = self.reasons_of.get(&vm).into_iter().flatten();
        cells.filter(|(code, _)| reasons.contains(&(code.list, code.number))).for_each(|(_, cell)| sum.merge(cell));
        sum
    }

    /// The exits of a VM about anything that `is` so.
    pub fn of_details(&self, vm: VmId, is: impl Fn(&DetailKey) -> bool) -> Cell {
        let mut sum = Cell::default();
        self.about(vm).iter().filter(|(key, _)| is(key)).for_each(|(_, cell)| sum.merge(cell));
        sum
    }

    /// The halts of a VM, all its vCPUs together.
    pub fn halts(&self, vm: VmId) -> HaltCell {
        self.halts_of.get(&vm).cloned().unwrap_or_default()
    }

    /// VMs with halts, most of them first.
    pub fn halting_vms(&self) -> Vec<(VmId, u64)> {
        let mut vms: Vec<_> = self.halts_of.iter().map(|(vm, cell)| (*vm, cell.halts())).collect();
        vms.sort_by_key(|(vm, halts)| (std::cmp::Reverse(*halts), *vm));
        vms
    }
}
