//! What the rules look at: the facts of a report, and what only advice needs: exits and what they were about by VM, how
//! vCPUs spin, and which kinds of events the recording has.

use super::host_timers::InjectedAfter;
use super::ipis::{Ipis, SentIpis};
use super::polling_guests::PollingGuests;
use super::subject_stats::SubjectStats;
use super::touched::{Touched, TouchedPages};
use super::unmappings::{UnmapperCounts, Unmappings};
use exitscope_analysis::MAX_KEYS;
use exitscope_analysis::record_commands::HowToRecord;
use exitscope_analysis::replay::SpinSurvey;
use exitscope_analysis::{
    DurationStats, ExitCause, ExitSlots, ExitStats, Facts, FactsOptions, HaltStats, RecordedHaltPolling, Selection,
    StatsByKey, SubjectKey, YieldStats,
};
use exitscope_model::{
    CodeList, EventKinds, Exit, Halt, HostSetting, KvmActivity, KvmActivityEvent, PleUpdate, Preemption, QemuOptions,
    SubjectKind, SubjectNames, TimePart, Yield, YieldCall,
};
use exitscope_units::{Moment, Nanos, Tid, VcpuId, VmId};
use rustc_hash::FxHashMap;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// CPUs left idle so often at least: chance decides about fewer.
const FEWEST_IDLE: u64 = 10;

/// What the recording says of the machine.
#[derive(Clone, Debug, Default)]
pub struct RecordedHost {
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
    /// How it polls for halted vCPUs.
    pub polling: RecordedHaltPolling,
    /// What was in force, as far as the recorder says.
    pub settings: Vec<HostSetting>,
    /// What subjects are called.
    pub names: SubjectNames,
    /// What was recorded, whether or not any came.
    pub how_recorded: HowToRecord,
}

/// Who runs a VM's devices, as far as the names of its threads say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Vmm {
    /// QEMU, with what is known of its command line.
    Qemu(QemuOptions),
    /// Another one, of this name.
    Other(String),
    /// Nothing says.
    Unknown,
}

/// Names by which the processes of virtual machine monitors that are not QEMU begin.
const OTHER_VMMS: &[&str] =
    &["firecracker", "fc_vcpu", "cloud-hypervis", "crosvm", "lkvm", "VBoxHeadless", "exitscope lab", "libkrun"];

impl Vmm {
    /// Whether it is QEMU.
    pub fn is_qemu(&self) -> bool {
        matches!(self, Vmm::Qemu(_))
    }
}

impl RecordedHost {
    /// What the setting `name` of `of` was, if the recorder says; as [`exitscope_model::TraceInfo::setting`].
    pub fn setting(&self, of: &str, name: &str) -> Option<&str> {
        let found = self.settings.iter().find(|setting| setting.of == of && setting.name == name);
        found.map(|setting| setting.value.as_str())
    }

    /// How to record what a recording with these facts lacks.
    pub(crate) fn how(&self, facts: &Facts) -> HowToRecord {
        self.how_recorded.with(facts).on(&self.arch, self.xen)
    }

    /// A text, with the value of the first parameter of a module that it names by its file, if the recording has it.
    pub(crate) fn with_value(&self, text: &str) -> Option<String> {
        let (_, file) = text.split_once("/sys/module/")?;
        let (module, rest) = file.split_once("/parameters/")?;
        let name: String = rest.chars().take_while(|of| of.is_alphanumeric() || *of == '_').collect();
        let value = self.setting(module, &name)?.trim();
        let file = format!("/sys/module/{module}/parameters/{name}");
        Some(text.replacen(&file, &format!("{file} (it was {value})"), 1))
    }

    /// What a setting of the host's own was; of a file that lists what may be set, the word in brackets.
    pub(crate) fn in_force(&self, name: &str) -> Option<&str> {
        let value = self.setting("host", name)?.trim();
        Some(value.split_once('[').and_then(|(_, rest)| rest.split_once(']')).map_or(value, |(chosen, _)| chosen))
    }

    /// Whether its processors are s390's.
    pub(crate) fn is_s390(&self) -> bool {
        self.arch.starts_with("s390")
    }

    /// Whether a module's switch was on, if the recorder says. `-1` leaves it to the module: that says nothing.
    pub fn switch(&self, of: &str, name: &str) -> Option<bool> {
        match self.setting(of, name)?.trim() {
            "Y" | "y" | "1" | "on" => Some(true),
            "N" | "n" | "0" | "off" => Some(false),
            _ => None,
        }
    }
}

/// How the time of a VM's vCPUs divides; nanoseconds, all of them together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VmTime {
    /// vCPUs.
    pub vcpus: u64,
    /// From each one's first event to its last.
    pub wall: u64,
    /// In the guest; where no kvm_exit tells the two apart, in the guest or in the kernel.
    pub guest: u64,
    /// In exits: kernel and user space.
    pub cost: u64,
    /// Of that, waiting for Xen's device model, whose domain has the CPU meanwhile.
    pub in_device_model: u64,
    /// In halts.
    pub in_halts: u64,
    /// Of that, polls of the host's.
    pub polling: u64,
    /// Of that, what is not divided into polling, halted and steal.
    pub undivided: u64,
    /// What nothing explains.
    pub unknown: u64,
    /// Runnable, without a CPU.
    pub steal: u64,
    /// Unknown time in which Xen says that they run.
    pub runs_unsaid: u64,
    /// From the first event of one of them to the last, at least: the longest of their times.
    pub span: u64,
}

impl VmTime {
    /// Time that the vCPUs had a CPU, or wanted one.
    pub fn wanted(&self) -> u64 {
        let on_cpu = self.cost.saturating_sub(self.in_device_model);
        self.guest.saturating_add(on_cpu).saturating_add(self.runs_unsaid).saturating_add(self.steal)
    }
}

/// How many VMs exits were of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Met {
    #[default]
    None,
    One(VmId),
    Several,
}

/// Exits of each VM, by what they come from.
type ByVm = StatsByKey<(VmId, ExitCause)>;

/// Those of the only VM.
fn of_one(vm: VmId, facts: &Facts) -> ByVm {
    let mut all = ByVm::default();
    facts.causes.cells().into_iter().for_each(|(cause, cell)| all.merge_at((vm, cause), cell));
    all
}

/// What the first reading of a recording gives.
#[derive(Clone, Debug)]
pub struct AdviceInput {
    /// The facts of a report.
    pub facts: Facts,
    /// How the VMs' time divides; filled at the end, as all that follows.
    pub vms: BTreeMap<VmId, VmTime>,
    /// Whether the processor is one of Intel's.
    pub is_vmx: bool,
    causes_of: BTreeMap<VmId, Vec<(ExitCause, ExitStats)>>,
    about_of: BTreeMap<VmId, Vec<(SubjectKey, SubjectStats)>>,
    halts_of: BTreeMap<VmId, HaltStats>,
    /// By VM and thread: what it took of the VM's vCPUs.
    preempted: BTreeMap<(VmId, Tid), Taken>,
    /// How long vCPUs of a VM waited for a CPU from preemptions on.
    preempted_for: BTreeMap<VmId, u64>,
    /// How often no thread took it: it was left idle.
    left_idle: BTreeMap<VmId, u64>,
    vm_of: FxHashMap<Tid, VmId>,
    /// The VMs that exits were of.
    met: Met,
    /// If there are several: the exits of one are those of the facts.
    by_vm: ByVm,
    about: StatsByKey<(VmId, SubjectKey), SubjectStats>,
    touched: TouchedPages,
    unmappings: Unmappings,
    ipis: SentIpis,
    injected_after: InjectedAfter,
    /// How vCPUs spin before they yield.
    pub(crate) spins: SpinSurvey,
    polling_guests: PollingGuests,
    selection: Selection,
}

/// What a thread took of the vCPUs of a VM.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Taken {
    /// Times that it preempted one.
    pub times: u64,
    /// Times that one yielded, and it ran.
    pub yields: u64,
    /// How long they waited for a CPU since then, in nanoseconds.
    pub waited: u64,
}

impl Taken {
    pub(crate) fn merge(&mut self, other: Taken) {
        self.times += other.times;
        self.yields += other.yields;
        self.waited = self.waited.saturating_add(other.waited);
    }
}

/// The sum of times; that of a damaged recording may not fit.
pub(crate) fn total(times: impl Iterator<Item = u64>) -> u64 {
    times.fold(0, u64::saturating_add)
}

impl AdviceInput {
    /// Nothing yet, of these VMs and moments.
    pub fn new(selection: &Selection) -> AdviceInput {
        AdviceInput {
            facts: Facts::new(&FactsOptions { by: Vec::new(), slowest: 0, selection: selection.clone() }),
            vms: BTreeMap::new(),
            is_vmx: false,
            causes_of: BTreeMap::new(),
            about_of: BTreeMap::new(),
            halts_of: BTreeMap::new(),
            preempted: BTreeMap::new(),
            preempted_for: BTreeMap::new(),
            left_idle: BTreeMap::new(),
            vm_of: FxHashMap::default(),
            met: Met::None,
            by_vm: ByVm::default(),
            about: StatsByKey::default(),
            touched: TouchedPages::default(),
            unmappings: Unmappings::default(),
            ipis: SentIpis::default(),
            injected_after: InjectedAfter::default(),
            spins: SpinSurvey::default(),
            polling_guests: PollingGuests::default(),
            selection: selection.clone(),
        }
    }

    /// Says when the trace's first event was, as [`Facts::begin`].
    pub fn begin(&mut self, first: Moment) {
        self.facts.begin(first);
    }

    /// Says which kinds of events there were so far.
    pub fn note_event_kinds(&mut self, kinds: EventKinds) {
        self.facts.note_event_kinds(kinds);
    }

    /// Adds one exit; where, as [`Facts::absorb`].
    #[inline]
    pub fn absorb(&mut self, exit: &Exit) -> Option<ExitSlots> {
        self.meet(Met::One(exit.who.vm));
        let counted = self.facts.absorb(exit);
        if counted.is_some() && self.facts.within(exit.at) {
            self.absorb_held(exit);
        }
        counted
    }

    /// Adds one exit of the vCPUs and moments that are looked at to all but the facts.
    #[inline]
    fn absorb_held(&mut self, exit: &Exit) {
        if self.met == Met::Several {
            let cause = ExitCause { code: exit.code, about: exit.subject.map(SubjectKey::of) };
            self.by_vm.absorb((exit.who.vm, cause), exit);
        }
        // What follows looks at subjects and at halts alone, each at few kinds of subjects.
        if exit.is_halt || exit.subject.is_some() {
            self.absorb_telling(exit);
        }
    }

    #[inline]
    fn absorb_telling(&mut self, exit: &Exit) {
        let is = |looks_at: fn(SubjectKind) -> bool| exit.subject.is_some_and(|subject| looks_at(subject.kind));
        if exit.is_halt || is(PollingGuests::looks_at) {
            self.polling_guests.absorb(exit);
        }
        if exit.is_halt || is(SentIpis::looks_at) {
            self.ipis.absorb(exit);
        }
        if is(TouchedPages::looks_at) {
            self.touched.absorb(exit);
        }
        if is(InjectedAfter::looks_at) {
            self.injected_after.absorb(exit);
        }
        if let Some(detail) = exit.subject().filter(|detail| SubjectStats::tells(exit, detail)) {
            self.about.absorb((exit.who.vm, SubjectKey::of(detail)), exit);
        }
    }

    /// Exits of these VMs come next.
    #[inline]
    fn meet(&mut self, vms: Met) {
        if vms == self.met || self.met == Met::Several {
            return;
        }
        match self.met {
            Met::None => self.met = vms,
            _ if vms == Met::None => {}
            _ => {
                self.facts.flush_exit_kinds();
                self.by_vm = self.by_vm().into_owned();
                self.met = Met::Several;
            }
        }
    }

    /// The exits of each VM.
    fn by_vm(&self) -> Cow<'_, ByVm> {
        match self.met {
            Met::One(vm) => Cow::Owned(of_one(vm, &self.facts)),
            Met::None | Met::Several => Cow::Borrowed(&self.by_vm),
        }
    }

    /// Adds one yield; whether it is of the vCPUs and moments that are looked at.
    pub fn absorb_yield(&mut self, of: &Yield) -> bool {
        let holds = self.facts.absorb_yield(of);
        if holds {
            self.spins.absorb(of);
        }
        holds
    }

    /// Adds one preemption.
    pub fn absorb_preemption(&mut self, of: &Preemption) {
        if !self.facts.absorb_preemption(of) {
            return;
        }
        self.spins.absorb_preemption(of);
        let waited = of.waited().unwrap_or_default().0;
        let all = self.preempted_for.entry(of.who.vm).or_default();
        *all = all.saturating_add(waited);
        let once = u64::from(!of.yielded);
        match of.by {
            Some(by) => self.note_preemptions(of.who.vm, by, Taken { times: once, yields: 1 - once, waited }),
            None => *self.left_idle.entry(of.who.vm).or_default() += 1,
        }
    }

    fn note_preemptions(&mut self, of: VmId, by: Tid, taken: Taken) {
        if self.preempted.len() < MAX_KEYS || self.preempted.contains_key(&(of, by)) {
            self.preempted.entry((of, by)).or_default().merge(taken);
        }
    }

    /// Adds one change of a window of PAUSE loops.
    pub fn absorb_ple_update(&mut self, of: &PleUpdate) {
        self.facts.absorb_ple_update(of);
    }

    /// Adds one activity of KVM.
    pub fn absorb_kvm_activity(&mut self, of: &KvmActivityEvent) {
        self.facts.absorb_kvm_activity(of);
        if self.facts.within(of.at) {
            self.unmappings.absorb(of);
        }
    }

    /// Adds one halt; whether it is of the vCPUs and moments that are looked at.
    pub fn absorb_halt(&mut self, halt: &Halt) -> bool {
        self.facts.absorb_halt(halt)
    }

    /// Ends the recording, as [`Facts::end`].
    pub fn end(&mut self, first: Moment, last: Moment, vcpu_of: &FxHashMap<Tid, VcpuId>) {
        self.facts.end(first, last, vcpu_of);
        self.sum_up();
    }

    /// Goes on where an earlier stretch of the same recording ended; nothing was absorbed yet.
    pub fn follow(&mut self, before: &AdviceInput) {
        // Whoever adds a field says here whether anything of it goes on from one stretch to the next.
        let AdviceInput {
            facts: _,
            vms: _,
            is_vmx: _,
            causes_of: _,
            about_of: _,
            halts_of: _,
            preempted: _,
            preempted_for: _,
            left_idle: _,
            vm_of: _,
            met: _,
            by_vm: _,
            about: _,
            touched: _,
            unmappings: _,
            ipis: _,
            injected_after: _,
            spins,
            polling_guests,
            selection: _,
        } = before;
        self.spins.follow(spins);
        self.polling_guests.follow(polling_guests);
    }

    /// Adds what the next stretch of the same recording gave, whose facts alone were ended. [`AdviceInput::sum_up`] is to
    /// follow the last one.
    pub fn merge(&mut self, later: &AdviceInput) {
        let AdviceInput {
            facts,
            vms: _,
            is_vmx: _,
            causes_of: _,
            about_of: _,
            halts_of: _,
            preempted,
            preempted_for,
            left_idle,
            vm_of: _,
            met,
            by_vm: _,
            about,
            touched,
            unmappings,
            ipis,
            injected_after,
            spins,
            polling_guests,
            selection: _,
        } = later;
        self.meet(*met);
        if self.met == Met::Several {
            self.by_vm.merge(&later.by_vm());
        }
        self.facts.merge(facts);
        self.about.merge(about);
        self.touched.merge(touched);
        self.unmappings.merge(unmappings);
        self.ipis.merge(ipis);
        self.injected_after.merge(injected_after);
        for ((vm, by), taken) in preempted {
            self.note_preemptions(*vm, *by, *taken);
        }
        for (vm, waited) in preempted_for {
            let all = self.preempted_for.entry(*vm).or_default();
            *all = all.saturating_add(*waited);
        }
        for (vm, times) in left_idle {
            *self.left_idle.entry(*vm).or_default() += times;
        }
        self.spins.merge(spins);
        self.polling_guests.merge(polling_guests);
    }

    /// Has what is known by vCPU and by thread by VM.
    pub fn sum_up(&mut self) {
        self.facts.flush_exit_kinds();
        // Without them, its time is within Xen's.
        let has_run_states = self.facts.has_run_states();
        for (who, division) in &self.facts.divisions {
            let vm = self.vms.entry(who.vm).or_default();
            vm.vcpus += 1;
            vm.wall = vm.wall.saturating_add(division.span().0);
            vm.span = vm.span.max(division.span().0);
            vm.guest = vm.guest.saturating_add(division.part(TimePart::Guest).0);
            vm.cost = vm.cost.saturating_add(division.cost().0);
            if has_run_states {
                vm.in_device_model = vm.in_device_model.saturating_add(division.part(TimePart::User).0);
                vm.runs_unsaid = vm.runs_unsaid.saturating_add(division.part(TimePart::Unknown).0);
            }
            vm.in_halts = vm.in_halts.saturating_add(division.parts.in_halts().0);
            for (to, part) in [
                (&mut vm.steal, TimePart::Steal),
                (&mut vm.polling, TimePart::Polling),
                (&mut vm.undivided, TimePart::Undivided),
                (&mut vm.unknown, TimePart::Unknown),
            ] {
                *to = to.saturating_add(division.part(part).0);
            }
        }
        let by_vm = self.by_vm().into_owned();
        let mut details: BTreeMap<(VmId, SubjectKey), ExitStats> = BTreeMap::new();
        for ((vm, cause), cell) in by_vm.cells() {
            self.is_vmx |= cause.code.list == CodeList::Vmx;
            if let Some(key) = cause.subject() {
                details.entry((vm, key)).or_default().merge(cell);
            }
            self.causes_of.entry(vm).or_default().push((cause, cell.clone()));
        }
        for (who, division) in &self.facts.divisions {
            let causes = self.causes_of.get(&who.vm).map_or(&[][..], Vec::as_slice);
            let is_blind = !causes.is_empty() && causes.iter().all(|(cause, _)| cause.code.list == CodeList::KvmExit);
            // Of its thread the scheduler says when it had a CPU: what nothing else tells is within KVM_RUN.
            if let Some(vm) = self.vms.get_mut(&who.vm).filter(|_| is_blind && self.facts.event_kinds.switches) {
                vm.guest = vm.guest.saturating_add(division.part(TimePart::Unknown).0);
            }
        }
        for ((vm, key), cell) in details {
            let about = self.about.get(&(vm, key)).cloned().unwrap_or_default();
            self.about_of.entry(vm).or_default().push((key, SubjectStats { stats: cell, ..about }));
        }
        for (who, cell) in &self.facts.halts.vcpus {
            self.halts_of.entry(who.vm).or_default().merge(cell);
        }
        let vcpus = self.facts.divisions.keys().filter(|who| who.tid != Tid(0));
        self.vm_of = vcpus.map(|who| (who.tid, who.vm)).collect();
    }

    /// The VM whose vCPU a thread is.
    pub fn vm_of(&self, thread: Tid) -> Option<VmId> {
        self.vm_of.get(&thread).copied()
    }

    /// Who runs the devices of a VM. QEMU names the threads of vCPUs `CPU 0/KVM` where it names threads
    /// (`kvm_start_vcpu_thread` in accel/kvm/kvm-accel-ops.c), and is called qemu-system-… or, by Debian, kvm.
    pub fn vmm(&self, vm: VmId, host: &RecordedHost) -> Vmm {
        let is_other = |name: &&String| OTHER_VMMS.iter().any(|other| name.starts_with(other));
        let process = host.comms.get(&vm.0);
        if let Some(name) = process.filter(is_other) {
            return Vmm::Other(name.clone());
        }
        let threads = self.facts.vcpus_of(vm).filter_map(|(who, _)| host.comms.get(&who.tid.0));
        let names: Vec<&String> = process.into_iter().chain(threads).collect();
        let of_qemu = |name: &&String| {
            name.starts_with("qemu") || *name == "kvm" || name.starts_with("CPU ") && name.ends_with("/KVM")
        };
        let options = QemuOptions::of_settings(&host.settings, vm);
        match names.iter().copied().find(is_other) {
            _ if options.are_known() || names.iter().any(of_qemu) => Vmm::Qemu(options),
            Some(name) => Vmm::Other(name.clone()),
            None => Vmm::Unknown,
        }
    }

    /// Whether any of the VMs is known to be QEMU's.
    pub fn has_qemu(&self, host: &RecordedHost) -> bool {
        self.vms.keys().any(|vm| self.vmm(*vm, host).is_qemu())
    }

    /// What the exits of a VM come from.
    pub(crate) fn causes(&self, vm: VmId) -> &[(ExitCause, ExitStats)] {
        self.causes_of.get(&vm).map_or(&[], Vec::as_slice)
    }

    /// How often a VM's pages were missing.
    pub(crate) fn touched(&self, vm: VmId) -> Touched {
        self.touched.of(vm)
    }

    /// Who changed how a VM's memory is mapped, and how often; the kernel's own threads may have changed other VMs'.
    pub(crate) fn unmappers(&self, vm: VmId, host: &RecordedHost) -> UnmapperCounts {
        self.unmappings.of(vm, host)
    }

    /// Where a VM's pages were missing, as [`TouchedPages::places`].
    pub(crate) fn missing_at(&self, vm: VmId) -> impl Iterator<Item = (u64, u64)> {
        self.touched.places(vm)
    }

    /// To whom a VM's IPIs went. Where vCPUs of several VMs bear its number, nobody knows.
    pub(crate) fn ipis(&self, vm: VmId) -> Ipis {
        let ipis = self.ipis.of(vm);
        if self.is_several(vm) { Ipis { others: ipis.all(), ..Ipis::default() } } else { ipis }
    }

    /// The vector that most of a VM's exits for these vectors of the host's injected into the guest, as [`InjectedAfter::most`].
    pub(crate) fn injected_after(&self, vm: VmId, is: impl Fn(u64) -> bool) -> Option<(u8, u64)> {
        self.injected_after.most(vm, is)
    }

    /// Whether vCPUs of several VMs bear this one's number: its vCPUs may be no siblings.
    pub(crate) fn is_several(&self, vm: VmId) -> bool {
        self.facts.vms_within(vm) > 1
    }

    /// What the exits of a VM were about.
    pub(crate) fn subjects_of(&self, vm: VmId) -> &[(SubjectKey, SubjectStats)] {
        self.about_of.get(&vm).map_or(&[], Vec::as_slice)
    }

    /// Which threads took the CPUs of a VM's runnable vCPUs.
    pub fn preempted_by(&self, vm: VmId) -> impl Iterator<Item = (Tid, Taken)> {
        let of_vm = (vm, Tid(0))..=(vm, Tid(u32::MAX));
        self.preempted.range(of_vm).map(|((_, tid), taken)| (*tid, *taken))
    }

    /// How long vCPUs of a VM waited for a CPU from preemptions on, and not from wake-ups on.
    pub fn preempted_for(&self, vm: VmId) -> u64 {
        self.preempted_for.get(&vm).copied().unwrap_or_default()
    }

    /// Whether the CPU was left idle for at least a tenth of the times at which vCPUs of the VM had to give it away and
    /// wanted to run on. No other task did that: a quota of CPU time does (`throttle_cfs_rq` in kernel/sched/fair.c takes a
    /// runnable task off its queue), or an affinity that leaves it no CPU.
    pub fn is_throttled(&self, vm: VmId) -> bool {
        let (idle, taken) =
            (self.times_left_idle(vm), total(self.preempted_by(vm).map(|(_, taken)| taken.times + taken.yields)));
        idle >= FEWEST_IDLE && idle.saturating_mul(10) >= idle.saturating_add(taken)
    }

    /// How often a vCPU of the VM wanted to run on and its CPU was left idle.
    pub fn times_left_idle(&self, vm: VmId) -> u64 {
        self.left_idle.get(&vm).copied().unwrap_or_default()
    }

    /// Which exits are looked at.
    pub fn selection(&self) -> &Selection {
        &self.selection
    }

    /// The yields of a VM by any of these calls.
    pub fn yields(&self, vm: VmId, of: impl Fn(YieldCall) -> bool) -> YieldStats {
        let mut sum = YieldStats::default();
        let cells = self.facts.yields.vcpus.iter().filter(|((who, call), _)| who.vm == vm && of(*call));
        cells.for_each(|(_, cell)| sum.merge(cell));
        sum
    }

    /// Guests that poll before they halt, as far as the recording shows them, with the guest time before their halts.
    pub fn polling_guests(&self) -> &BTreeMap<VmId, DurationStats> {
        self.polling_guests.all()
    }

    /// `time` in each second in which the VM's vCPUs, or any, were seen.
    pub fn per_second(&self, vm: Option<VmId>, time: u64) -> Nanos {
        let span = u128::from(self.span(vm));
        Nanos(u64::try_from(u128::from(time) * 1_000_000_000 / span).unwrap_or(u64::MAX))
    }

    /// How many CPUs, or vCPUs, `time` keeps busy in those seconds.
    pub fn busy(&self, vm: Option<VmId>, time: u64) -> f64 {
        time as f64 / self.span(vm) as f64
    }

    /// `count` in each of those seconds.
    pub fn rate(&self, vm: Option<VmId>, count: u64) -> f64 {
        count as f64 * 1e9 / self.span(vm) as f64
    }

    fn span(&self, vm: Option<VmId>) -> u64 {
        let of_vm = vm.and_then(|vm| self.vms.get(&vm)).map(|time| time.span).filter(|&span| span > 0);
        of_vm.unwrap_or_else(|| self.facts.seen().0).max(1)
    }

    /// The exits of a VM for any of these reasons; not its nested guests'.
    pub fn of_reasons(&self, vm: VmId, reasons: &[(CodeList, u64)]) -> ExitStats {
        let mut sum = ExitStats::default();
        let of = |cause: &ExitCause| !cause.code.nested && reasons.contains(&(cause.code.list, cause.code.number));
        self.causes(vm).iter().filter(|(cause, _)| of(cause)).for_each(|(_, cell)| sum.merge(cell));
        sum
    }

    /// The exits of a VM about anything that `is` so; not its nested guests'.
    pub fn of_details(&self, vm: VmId, is: impl Fn(&SubjectKey) -> bool) -> ExitStats {
        let mut sum = ExitStats::default();
        self.subjects_of(vm).iter().filter(|(key, _)| is(key)).for_each(|(_, about)| sum.merge(&about.stats));
        sum
    }

    /// How often a VM gave each of these activities.
    pub fn kvm_activity(&self, vm: VmId, of: &[KvmActivity]) -> Vec<(KvmActivity, u64)> {
        of.iter().filter_map(|&activity| Some((activity, *self.facts.kvm_activity.get(&(vm, activity))?))).collect()
    }

    /// The halts of a VM, all its vCPUs together.
    pub fn halts(&self, vm: VmId) -> HaltStats {
        self.halts_of.get(&vm).cloned().unwrap_or_default()
    }

    /// VMs with halts, most of them first.
    pub fn halting_vms(&self) -> Vec<(VmId, u64)> {
        let mut vms: Vec<_> = self.halts_of.iter().map(|(vm, cell)| (*vm, cell.halts())).collect();
        vms.sort_by_key(|(vm, halts)| (std::cmp::Reverse(*halts), *vm));
        vms
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_exits::{exit, spent, vcpu};
    use exitscope_model::{
        ExitCode, Handler, PortAccessForm, RunnableSiblings, Subject, SubjectKind, TargetState, TimePart, VcpuIdentity,
        VcpuWakeup, YieldRecipient,
    };

    const MS: u64 = 1_000_000;

    #[test]
    fn a_file_whose_value_was_recorded_is_shown_with_it() {
        let settings = vec![HostSetting::new("kvm", "nx_huge_pages", "Y\n")];
        let host = RecordedHost { settings, ..RecordedHost::default() };
        let text = "/sys/module/kvm/parameters/nx_huge_pages is Y where";
        let expected = "/sys/module/kvm/parameters/nx_huge_pages (it was Y) is Y where";
        assert_eq!(host.with_value(text).as_deref(), Some(expected));
        for other in ["/sys/module/kvm/parameters/nx_huge", "/sys/module/kvm_intel/parameters/nx_huge_pages", "Y"] {
            assert_eq!(host.with_value(other), None, "{other}");
        }
    }

    /// A millisecond of two vCPUs: an access, a halt, two yields that find nobody, a preemption, and who took the CPU.
    fn absorb(input: &mut AdviceInput, number: u64) {
        let at = |nanos| Moment::from_nanos(number * MS + nanos);
        for who in [vcpu(0), vcpu(1)] {
            input.note_event_kinds(EventKinds { switches: true, wakeups: number == 5, ..EventKinds::default() });
            let detail = Subject {
                kind: SubjectKind::Port,
                write: true,
                form: PortAccessForm::NonString,
                size: 1,
                key: 0x3f8 + number % 2,
                value: number,
            };
            let times = Exit {
                guest: Nanos(100),
                parts: spent(TimePart::Kernel, 500 + number),
                ..exit(who, 0, ExitCode::new(CodeList::Vmx, 30))
            };
            input.absorb(&Exit { at: at(1_000), subject: Some(detail), handler: Handler::Userspace(2), ..times });
            let halted = exit(who, number * MS + 2_000, ExitCode::new(CodeList::Vmx, 12));
            input.absorb(&Exit { guest: Nanos(500), parts: spent(TimePart::Halted, 30_000 + number), ..halted });
            input.absorb_halt(&Halt {
                who,
                begin: at(2_000),
                asleep: Some(at(3_000)),
                woken: Some(at(30_000)),
                vcpu_wakeup: Some(VcpuWakeup { length: Nanos(31_000), waited: true, valid: true, may_poll: true }),
                change: None,
                kicked: false,
                ipi: None,
                end: at(33_000),
                entered: Some(at(34_000)),
            });
            let of = Yield {
                who,
                at: at(50_000),
                call: YieldCall::Pause,
                target: None,
                target_state: TargetState::Unknown,
                found: Some(RunnableSiblings::default()),
                guest: Nanos(2_000 << (number % 5)),
                again: !number.is_multiple_of(5),
                was_out: number.is_multiple_of(5),
                window: None,
                recipient: YieldRecipient::Nobody,
                waited: Nanos::ZERO,
                entered: Some(at(51_000 + number)),
            };
            input.absorb_yield(&of);
            let (yields, first) = if number.is_multiple_of(2) { (1, Some(at(60_000))) } else { (0, None) };
            input.absorb_preemption(&Preemption {
                who,
                at: at(55_000),
                ran: Some(at(70_000 + number)),
                yields,
                first,
                by: Some(Tid(70 + number as u32 % 3)),
                yielded: false,
            });
        }
    }

    /// Twenty such milliseconds, cut there.
    fn read(cuts: &[u64]) -> AdviceInput {
        let mut all = AdviceInput::new(&Selection::default());
        let ends = cuts.iter().copied().chain([20]);
        let (mut begin, mut before) = (0, None);
        for end in ends {
            let mut input = AdviceInput::new(&Selection::default());
            input.begin(Moment::from_nanos(begin * MS));
            before.iter().for_each(|before| input.follow(before));
            (begin..end).for_each(|number| absorb(&mut input, number));
            let (first, last) = (Moment::from_nanos(begin * MS), Moment::from_nanos(end * MS));
            input.facts.end(first, last, &FxHashMap::default());
            crate::test_exits::fill(&mut input, &[vcpu(0), vcpu(1)], (end - begin) * MS);
            all.merge(&input);
            (begin, before) = (end, Some(input));
        }
        all.sum_up();
        all
    }

    /// Exits of two VMs, the second of which comes later.
    fn of_two_vms() -> impl Iterator<Item = Exit> {
        let detail = |number, write| Subject {
            kind: if number / 2 % 2 == 0 { SubjectKind::Port } else { SubjectKind::Msr },
            write,
            form: PortAccessForm::NonString,
            size: 4,
            key: number % 3,
            value: number,
        };
        (0..90).map(move |number| {
            let vm = VmId(if number < 30 { 1 } else { 1 + number as u32 % 2 });
            let of = Exit {
                parts: spent(TimePart::Kernel, 100 + number),
                ..exit(vcpu(0), number, ExitCode::new(CodeList::Vmx, number % 7))
            };
            let detail = (!number.is_multiple_of(5)).then(|| detail(number, number / 4 % 2 == 0));
            let handler = if number / 2 % 5 == 0 { Handler::Userspace(2) } else { Handler::Kernel };
            Exit { who: VcpuIdentity { vm, ..of.who }, subject: detail, handler, ..of }
        })
    }

    #[test]
    fn each_vms_exits_are_its_own_whenever_the_others_come() {
        let input = |exits: &mut dyn Iterator<Item = Exit>| {
            let mut input = AdviceInput::new(&Selection::default());
            for exit in exits {
                input.absorb(&exit);
            }
            input
        };
        let of = |input: &AdviceInput, vm| {
            let reasons: Vec<ExitStats> = (0..7).map(|code| input.of_reasons(vm, &[(CodeList::Vmx, code)])).collect();
            (reasons, input.subjects_of(vm).to_vec())
        };
        let mut together = input(&mut of_two_vms());
        // In stretches of which the first has one VM, the next none, the last both.
        let mut merged = input(&mut of_two_vms().take(20));
        for (skip, take) in [(0, 0), (20, 10), (30, 60)] {
            merged.merge(&input(&mut of_two_vms().skip(skip).take(take)));
        }
        together.sum_up();
        merged.sum_up();
        for vm in [VmId(1), VmId(2)] {
            let mut alone = input(&mut of_two_vms().filter(|exit| exit.who.vm == vm));
            alone.sum_up();
            assert!(alone.subjects_of(vm).len() > 4);
            assert_eq!(of(&together, vm), of(&alone, vm));
            assert_eq!(of(&merged, vm), of(&alone, vm));
        }
    }

    #[test]
    fn stretches_of_a_recording_come_to_what_all_of_it_does() {
        let mut whole = AdviceInput::new(&Selection::default());
        whole.begin(Moment::default());
        (0..20).for_each(|number| absorb(&mut whole, number));
        crate::test_exits::end(&mut whole, &[vcpu(0), vcpu(1)], 20 * MS);
        let vm = vcpu(0).vm;
        let asks = whole.spins.in_force(YieldCall::Pause);
        let typical = whole.spins.typical(&asks);
        assert!(typical.is_some_and(|typical| typical.unhelped > 0 && typical.blocked > 0), "{typical:?}");
        for cuts in [&[][..], &[7], &[0, 6, 13, 20], &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]] {
            let cut = read(cuts);
            assert_eq!(
                (cut.facts.event_kinds, &cut.vms, cut.is_vmx),
                (whole.facts.event_kinds, &whole.vms, true),
                "{cuts:?}"
            );
            assert_eq!((cut.facts.duration, &cut.facts.all), (whole.facts.duration, &whole.facts.all), "{cuts:?}");
            assert_eq!((cut.subjects_of(vm), cut.halts(vm)), (whole.subjects_of(vm), whole.halts(vm)), "{cuts:?}");
            let pio = [(CodeList::Vmx, 30)];
            assert_eq!(cut.of_reasons(vm, &pio), whole.of_reasons(vm, &pio), "{cuts:?}");
            let preempted = |input: &AdviceInput| input.preempted_by(vm).collect::<Vec<_>>();
            assert_eq!((preempted(&cut), preempted(&cut).len()), (preempted(&whole), 3), "{cuts:?}");
            assert_eq!((&cut.spins.calls, cut.spins.known), (&whole.spins.calls, 40), "{cuts:?}");
            assert_eq!((cut.spins.in_force(YieldCall::Pause), cut.spins.typical(&asks)), (asks, typical), "{cuts:?}");
        }
    }
}
