//! What was counted, by VM and reason, in bounded memory.
//!
//! ```text
//! CountInterval ─► by the VM's name, or "other" ─► by reason, or "other"      gone for KEEP ─► forgotten
//! ```
//!
//! VMs of the same name share their counts: a VM that is started anew goes on where it was, and the number of series does
//! not grow with the number of starts.

use crate::families as f;
use crate::scrape::{SampleValue, Scrape};
use exitscope_http::visible;
use exitscope_live::{CountInterval, GroupTotals, LiveGroup};
use exitscope_model::{AllParts, IdentityField, TimePart, VmIdentity, VmManager, YieldCall};
use exitscope_record::{CountAndTime, CountingCost};
use exitscope_stats::CoarseBuckets;
use std::collections::{BTreeMap, BTreeSet};

/// The VM and the reason of what has no place of its own.
pub const OTHER: &str = "other";

/// The VM of what was gone before its name could be learnt, and the vCPU of what no event gives a number.
pub const UNKNOWN: &str = "unknown";

/// Bytes of a label that somebody chose.
const NAME: usize = 128;

/// Nanoseconds for which a VM without processes is kept: long enough that every scrape gets its last counts.
const KEEP: u64 = 600_000_000_000;

/// Names beyond the limits that are remembered, so that they can be told to be several.
const MAX_OVERFLOW_NAMES: usize = 4096;

/// Bounds of the buckets, as powers of two of nanoseconds: 512 ns to 1.07 s, finer where exits are.
const BOUNDS: [u32; 14] = [9, 10, 11, 12, 13, 14, 15, 16, 18, 20, 22, 24, 27, 30];

/// How many series there may be.
#[derive(Clone, Copy, Debug, Default)]
pub struct SeriesLimits {
    /// VMs with counts of their own.
    pub vms: usize,
    /// Exit reasons with counts of their own, of all VMs together.
    pub reasons: usize,
    /// Where time went, also by vCPU.
    pub per_vcpu: bool,
}

/// What the VM of a process is called.
#[derive(Clone, Debug, Default)]
pub struct NamedVm {
    /// The name under which it is counted; empty if that is not known.
    pub name: String,
    /// What else is known of who it is.
    pub identity: VmIdentity,
}

/// What the labels of a VM say of who it is, in the order of [`f::VM`], behind `vm` and `manager`.
const IDENTITY: [IdentityField; 6] = [
    IdentityField::Uuid,
    IdentityField::VmId,
    IdentityField::Namespace,
    IdentityField::Pod,
    IdentityField::Vmi,
    IdentityField::DisplayName,
];

/// Everything that was counted.
#[derive(Debug, Default)]
pub struct Counts {
    limits: SeriesLimits,
    vms: BTreeMap<String, Vm>,
    reasons: BTreeSet<String>,
    folded_vms: BTreeSet<String>,
    folded_reasons: BTreeSet<String>,
    events: u64,
    lost: u64,
    missed: u64,
    cost: CountingCost,
    overhead: f64,
}

#[derive(Debug, Default)]
struct Vm {
    exits: BTreeMap<String, CountAndTime>,
    /// By whether the thread slept, and whether there was something to wake up for.
    halts: BTreeMap<(bool, bool), CountAndTime>,
    /// By what the hypervisor calls it.
    yields: BTreeMap<&'static str, u64>,
    served: u64,
    /// Where the wall time of all vCPUs went.
    time: AllParts,
    /// The same by the vCPU's number, where asked for. Those without a number are together: a thread's is another at each start.
    vcpu_time: BTreeMap<Option<u32>, AllParts>,
    processes: BTreeSet<u32>,
    vcpus: usize,
    /// What is true of each of its processes.
    identity: VmIdentity,
    /// When it last had a process: CLOCK_MONOTONIC, nanoseconds.
    seen: u64,
}

impl Vm {
    /// Adds a vCPU that is there now, of this process; none if the vCPU has ended.
    fn see(&mut self, now: u64, process: Option<u32>, identity: &VmIdentity) {
        self.seen = now;
        let Some(process) = process else { return };
        self.vcpus += 1;
        match self.processes.is_empty() {
            true => self.identity.clone_from(identity),
            false => self.identity.keep_common(identity),
        }
        self.processes.insert(process);
    }
}

impl Counts {
    /// Creates empty counts within `limits`.
    pub fn new(limits: SeriesLimits) -> Counts {
        Counts { limits, ..Counts::default() }
    }

    /// Adds what is new. `named` says what the VM of a process is called, and is asked once of each.
    pub fn absorb(&mut self, new: &CountInterval, mut named: impl FnMut(u32) -> NamedVm) {
        for vm in self.vms.values_mut() {
            (vm.processes, vm.vcpus) = (BTreeSet::new(), 0);
        }
        let per_vcpu = self.limits.per_vcpu;
        let mut places: BTreeMap<u32, (String, VmIdentity)> = BTreeMap::new();
        for (lane, (state, totals)) in &new.vcpus {
            let (place, identity) = places.entry(lane.process).or_insert_with(|| {
                let NamedVm { name, identity } = named(lane.process);
                (self.place(&name), identity)
            });
            let place = place.clone();
            if let Some(state) = state {
                let vm = self.vm(&place);
                vm.see(new.at, (!state.ended).then_some(lane.process), identity);
                // Of a recording, exits alone are given, and no wall time: nothing says what was between them.
                if totals.wall > 0 {
                    let parts = totals.parts();
                    vm.time.merge(&parts);
                    if per_vcpu {
                        vm.vcpu_time.entry(state.vcpu).or_default().merge(&parts);
                    }
                }
            }
            for (group, GroupTotals { ended: new, .. }) in &totals.groups {
                if let Some(call) = yield_call(group).filter(|_| new.count > 0) {
                    *self.vm(&place).yields.entry(call.name()).or_default() += new.count;
                }
                match *group {
                    _ if *new == CountAndTime::default() => {}
                    LiveGroup::Reason(code) => {
                        let reason = self.reason(code.name());
                        self.vm(&place).exits.entry(reason).or_default().add(new);
                    }
                    LiveGroup::Halt { slept, valid } => {
                        self.vm(&place).halts.entry((slept, valid)).or_default().add(new);
                    }
                    LiveGroup::InKernel(_) => self.vm(&place).served += new.count,
                    LiveGroup::Subject(_) => {}
                }
            }
        }
        let events = new.events();
        self.events += events;
        (self.lost, self.missed) = (new.lost, new.missed);
        self.cost = CountingCost { runs: self.cost.runs + new.cost.runs, ns: self.cost.ns + new.cost.ns };
        if self.cost.runs > 0 {
            self.overhead += events as f64 * self.cost.ns as f64 / self.cost.runs as f64;
        }
        self.vms.retain(|name, vm| name == OTHER || new.at.saturating_sub(vm.seen) < KEEP);
        if self.own() < self.limits.vms {
            self.folded_vms.clear();
        }
    }

    /// VMs with counts of their own.
    fn own(&self) -> usize {
        self.vms.len() - usize::from(self.vms.contains_key(OTHER))
    }

    /// The name under which a VM called so is counted: a place of its own, if there is one left.
    fn place(&mut self, name: &str) -> String {
        let name = if name.is_empty() { UNKNOWN.to_string() } else { label(name) };
        if !self.vms.contains_key(&name) && self.own() >= self.limits.vms {
            if self.folded_vms.len() < MAX_OVERFLOW_NAMES {
                self.folded_vms.insert(name);
            }
            return OTHER.to_string();
        }
        self.vm(&name);
        name
    }

    fn vm(&mut self, place: &str) -> &mut Vm {
        self.vms.entry(place.to_string()).or_default()
    }

    /// The reason under which exits of this one are counted.
    fn reason(&mut self, name: String) -> String {
        if self.reasons.contains(&name) {
            return name;
        }
        if self.reasons.len() < self.limits.reasons {
            self.reasons.insert(name.clone());
            return name;
        }
        if self.folded_reasons.len() < MAX_OVERFLOW_NAMES {
            self.folded_reasons.insert(name);
        }
        OTHER.to_string()
    }

    /// Names of VMs that have a process now.
    pub fn running(&self) -> usize {
        self.vms.values().filter(|vm| !vm.processes.is_empty()).count()
    }

    /// Puts all of it onto a sheet.
    pub fn write(&self, scrape: &mut Scrape) {
        for (name, vm) in &self.vms {
            for (reason, count) in &vm.exits {
                let labels = [name.as_str(), reason];
                scrape.add(&f::EXITS, labels, SampleValue::Count(count.count));
                scrape.add(&f::EXIT_TIME, labels, histogram(count));
                scrape.add(&f::EXIT_COST, labels, seconds(count.cost()));
                for part in TimePart::OF_EXITS.into_iter().filter(|&part| count.not_cost.get(part).0 > 0) {
                    let labels = [name.as_str(), reason, f::part_label(part)];
                    scrape.add(&f::EXIT_PARTS, labels, seconds(count.not_cost.get(part).0));
                }
                scrape.add(&f::USER_SPACE_EXITS, labels, SampleValue::Count(count.to_user));
            }
            for ((slept, valid), count) in &vm.halts {
                let labels = [name.as_str(), word(*slept), word(*valid)];
                scrape.add(&f::HALTS, labels, SampleValue::Count(count.count));
                scrape.add(&f::HALT_DURATION, labels, histogram(count));
            }
            for (call, count) in &vm.yields {
                scrape.add(&f::YIELDS, [name.as_str(), call], SampleValue::Count(*count));
            }
            for (part, ns) in parts_of(&vm.time) {
                scrape.add(&f::VM_TIME, [name.as_str(), part], seconds(ns));
            }
            for (vcpu, time) in &vm.vcpu_time {
                let vcpu = vcpu.map_or(UNKNOWN.to_string(), |number| number.to_string());
                for (part, ns) in parts_of(time) {
                    scrape.add(&f::VCPU_TIME, [name.as_str(), &vcpu, part], seconds(ns));
                }
            }
            if vm.served > 0 {
                scrape.add(&f::IN_KERNEL_EVENTS, [name], SampleValue::Count(vm.served));
            }
            scrape.add(&f::VM_PROCESSES, [name], SampleValue::Count(vm.processes.len() as u64));
            scrape.add(&f::VCPUS, [name], SampleValue::Count(vm.vcpus as u64));
            if name != OTHER {
                let [uuid, vmid, namespace, pod, vmi, display_name] =
                    IDENTITY.map(|field| vm.identity.get(field).map(label).unwrap_or_default());
                let manager = vm.identity.manager.map_or("", VmManager::id);
                let labels = [name.as_str(), manager, &uuid, &vmid, &namespace, &pod, &vmi, &display_name];
                scrape.add(&f::VM, labels, SampleValue::Info);
            }
        }
        scrape.add(&f::OVERFLOW_VMS, [], SampleValue::Count(self.folded_vms.len() as u64));
        scrape.add(&f::OVERFLOW_REASONS, [], SampleValue::Count(self.folded_reasons.len() as u64));
        scrape.add(&f::EVENTS, [], SampleValue::Count(self.events));
        scrape.add(&f::LOST, [], SampleValue::Count(self.lost));
        scrape.add(&f::MISSED, [], SampleValue::Count(self.missed));
        if self.cost.runs > 0 {
            scrape.add(&f::EVENT_COST, [], SampleValue::Number(self.cost.ns as f64 / self.cost.runs as f64 / 1e9));
            scrape.add(&f::OVERHEAD, [], SampleValue::Number(self.overhead / 1e9));
        }
    }
}

/// What somebody called a VM, fit for a label: whoever starts a VM names it, and who looks at a scrape may do so in a terminal.
fn label(text: &str) -> String {
    let end = (0..=NAME.min(text.len())).rev().find(|&end| text.is_char_boundary(end)).unwrap_or(0);
    visible(&text[..end])
}

/// By what the exits of a group yield. Which exits for WFx of arm64 are for WFE no count says.
fn yield_call(group: &LiveGroup) -> Option<YieldCall> {
    match group {
        LiveGroup::Reason(code) => YieldCall::of_exit(*code),
        LiveGroup::Subject(of) => YieldCall::of_call(of.kind, of.key),
        LiveGroup::InKernel(_) | LiveGroup::Halt { .. } => None,
    }
}

/// The parts that a vCPU had, by their label.
fn parts_of(time: &AllParts) -> impl Iterator<Item = (&'static str, u64)> {
    TimePart::ALL.into_iter().map(|part| (f::part_label(part), time.get(part).0)).filter(|part| part.1 > 0)
}

fn word(is: bool) -> &'static str {
    if is { "true" } else { "false" }
}

fn seconds(ns: u64) -> SampleValue {
    SampleValue::Number(ns as f64 / 1e9)
}

/// The lengths in a few buckets. All bounds are bounds of [`CoarseBuckets`], too, so that none is divided.
fn histogram(count: &CountAndTime) -> SampleValue {
    let mut buckets: Vec<(f64, u64)> = BOUNDS.iter().map(|&bits| ((1u64 << bits) as f64 / 1e9, 0)).collect();
    buckets.push((f64::INFINITY, 0));
    for (low, _, lengths) in count.lengths.buckets() {
        let place = BOUNDS.iter().position(|&bits| low < 1 << bits).unwrap_or(BOUNDS.len());
        buckets[place].1 += lengths;
    }
    SampleValue::Histogram { sum: count.total as f64 / 1e9, buckets }
}

const _: () = assert!(CoarseBuckets::LIMIT_BITS > BOUNDS[BOUNDS.len() - 1], "lengths reach beyond the last bound");

#[cfg(test)]
mod tests {
    use super::*;
    use exitscope_live::Deltas;
    use exitscope_model::{CodeList, ExitCode, ExitParts, IdentitySource, SubjectKind};
    use exitscope_record::{
        CountKey, CountedKind, CountedSubject, CountedVcpu, CountedVcpuState, Snapshot, VcpuRunner,
    };
    use exitscope_units::Nanos;

    const SECOND: u64 = 1_000_000_000;

    fn lane(process: u32) -> CountedVcpu {
        CountedVcpu { process, runner: VcpuRunner::Thread(process + 1) }
    }

    /// So many exits of this number, of 1 us each.
    fn exits(snapshot: &mut Snapshot, process: u32, number: u64, count: u64) {
        let state = snapshot.lanes.entry(lane(process)).or_default();
        state.events += 2 * count;
        let key = CountKey {
            lane: lane(process),
            cause: CountedKind::Exit(ExitCode::new(CodeList::Vmx, number)),
            subject: None,
        };
        let counted = snapshot.counts.entry(key).or_default();
        counted.count += count;
        counted.total += 1_000 * count;
        (0..count).for_each(|_| counted.lengths.record(1_000));
    }

    /// Counts of one snapshot after the other.
    struct OfSnapshots(Counts, Deltas);

    impl OfSnapshots {
        fn absorb(&mut self, now: &Snapshot, mut name: impl FnMut(u32) -> String) {
            let named = |process| NamedVm { name: name(process), ..NamedVm::default() };
            self.0.absorb(&self.1.take(now), named);
        }
    }

    fn counts(vms: usize, reasons: usize) -> OfSnapshots {
        OfSnapshots(Counts::new(SeriesLimits { vms, reasons, per_vcpu: true }), Deltas::default())
    }

    fn of(OfSnapshots(counts, _): &OfSnapshots, vm: &str, reason: &str) -> Option<u64> {
        Some(counts.vms.get(vm)?.exits.get(reason)?.count)
    }

    #[test]
    fn only_what_is_new_is_added() {
        let (mut counts, mut now) = (counts(9, 9), Snapshot::default());
        now.cost = Some(CountingCost { runs: 10, ns: 1_000 });
        let name = |process| format!("vm{process}");
        exits(&mut now, 7, 30, 3);
        counts.absorb(&now, name);
        counts.absorb(&now, name);
        exits(&mut now, 7, 30, 2);
        counts.absorb(&now, name);
        assert_eq!(of(&counts, "vm7", "IO_INSTRUCTION"), Some(5));
        assert_eq!((counts.0.events, counts.0.overhead), (10, 1_000.0));
        assert_eq!((counts.0.vms["vm7"].vcpus, counts.0.running()), (1, 1));
    }

    #[test]
    fn yields_are_counted_by_their_call_whatever_the_reason_is_called() {
        let (mut counts, mut now) = (counts(9, 9), Snapshot::default());
        let mut add = |cause, subject: Option<(SubjectKind, u64)>, count| {
            now.lanes.entry(lane(7)).or_default().events += 2 * count;
            let subject = subject.map(|(kind, key)| CountedSubject { kind, write: false, key });
            now.counts.entry(CountKey { lane: lane(7), cause, subject }).or_default().count += count;
        };
        let exit = |list, number| CountedKind::Exit(ExitCode::new(list, number));
        add(exit(CodeList::Vmx, 40), None, 3);
        add(exit(CodeList::Svm, 0x77), None, 4);
        add(exit(CodeList::S390, 4), Some((SubjectKind::Diag, 0x44)), 5);
        add(exit(CodeList::S390, 4), Some((SubjectKind::Diag, 0x9c)), 6);
        add(exit(CodeList::S390, 4), Some((SubjectKind::Diag, 0x500)), 70);
        add(exit(CodeList::Vmx, 30), Some((SubjectKind::Port, 0x44)), 80);
        counts.absorb(&now, |_| "web".into());
        counts.absorb(&now, |_| "web".into());
        let yields: Vec<_> = counts.0.vms["web"].yields.clone().into_iter().collect();
        assert_eq!(yields, [("PAUSE", 7), ("X'44'", 5), ("X'9C'", 6)]);
        let mut scrape = Scrape::default();
        counts.0.write(&mut scrape);
        assert_eq!(scrape.open_metrics().matches("exitscope_yields_total{").count(), 3);
    }

    #[test]
    fn the_parts_of_a_vms_time_add_up_to_that_of_its_vcpus() {
        let (mut counts, mut now) = (counts(9, 9), Snapshot::default());
        let vcpu = |number: u32| CountedVcpu { process: 7, runner: VcpuRunner::Thread(8 + number) };
        for (seconds, polled) in [(10, 400), (20, 1_400)] {
            now.at = seconds * SECOND;
            for number in [0, 1] {
                let outside = ExitParts::ZERO.with(TimePart::Polling, Nanos(polled)).with(TimePart::Steal, Nanos(100));
                let state = CountedVcpuState { vcpu: Some(number), until: now.at, outside, ..Default::default() };
                now.lanes.insert(vcpu(number), CountedVcpuState { first: 5 * SECOND, ..state });
            }
            let cause = CountedKind::Exit(ExitCode::new(CodeList::Vmx, 30));
            let count = now.counts.entry(CountKey { lane: vcpu(1), cause, subject: None }).or_default();
            (count.count, count.total) = (count.count + 1, count.total + 9_000);
            count.not_cost.add(TimePart::Steal, Nanos(2_000));
            counts.absorb(&now, |_| "web".into());
        }
        let mut scrape = Scrape::default();
        counts.0.write(&mut scrape);
        let text = scrape.open_metrics();
        let of = |labels: &str| -> f64 {
            let lines = text.lines().filter_map(|line| line.strip_prefix(labels)?.rsplit_once(' '));
            lines.map(|(_, value)| (value.parse::<f64>().unwrap() * 1e9).round()).sum()
        };
        assert_eq!(of("exitscope_vm_time_seconds_total{vm=\"web\","), 2.0 * 15e9);
        for (part, ns) in [("polling", 2_800.0), ("steal", 4_200.0), ("cost", 14_000.0)] {
            assert_eq!(of(&format!("exitscope_vm_time_seconds_total{{vm=\"web\",part=\"{part}\"}}")), ns, "{text}");
        }
        // Nothing says that kvm_exit fires here.
        assert_eq!(of("exitscope_vm_time_seconds_total{vm=\"web\",part=\"guest\"}"), 0.0);
        for number in 0..2 {
            assert_eq!(of(&format!("exitscope_vcpu_time_seconds_total{{vm=\"web\",vcpu=\"{number}\",")), 15e9);
        }
    }

    #[test]
    fn a_vm_that_starts_anew_goes_on_and_a_reused_number_is_another_vm() {
        let (mut counts, mut now) = (counts(9, 9), Snapshot::default());
        exits(&mut now, 7, 30, 3);
        counts.absorb(&now, |_| "web".into());
        now.lanes.get_mut(&lane(7)).unwrap().ended = true;
        exits(&mut now, 7, 30, 1);
        counts.absorb(&now, |_| "web".into());
        assert_eq!((of(&counts, "web", "IO_INSTRUCTION"), counts.0.running()), (Some(4), 0));
        let mut now = Snapshot::default();
        exits(&mut now, 8, 30, 5);
        counts.absorb(&now, |_| "web".into());
        exits(&mut now, 7, 30, 2);
        counts.absorb(&now, |_| "db".into());
        assert_eq!(of(&counts, "web", "IO_INSTRUCTION"), Some(9));
        assert_eq!(of(&counts, "db", "IO_INSTRUCTION"), Some(2));
    }

    #[test]
    fn what_is_too_many_is_counted_as_other_and_nothing_is_lost() {
        let (mut counts, mut now) = (counts(2, 3), Snapshot::default());
        for process in 0..20 {
            exits(&mut now, process, u64::from(process), 1);
        }
        let name = |process| format!("vm{process}");
        counts.absorb(&now, name);
        exits(&mut now, 19, 1, 4);
        counts.absorb(&now, name);
        assert_eq!(counts.0.vms.len(), 3);
        let all: u64 = counts.0.vms.values().flat_map(|vm| vm.exits.values()).map(|count| count.count).sum();
        assert_eq!(all, 24);
        assert_eq!(of(&counts, OTHER, OTHER), Some(17));
        assert_eq!(of(&counts, OTHER, "EXTERNAL_INTERRUPT"), Some(4));
        assert_eq!((counts.0.folded_vms.len(), counts.0.folded_reasons.len()), (18, 17));
    }

    #[test]
    fn vms_that_are_gone_are_forgotten_in_time() {
        let (mut counts, mut now) = (counts(9, 9), Snapshot::default());
        exits(&mut now, 7, 30, 3);
        counts.absorb(&now, |_| "web".into());
        let at = |seconds| Snapshot { at: seconds * SECOND, ..Snapshot::default() };
        counts.absorb(&at(599), |_| unreachable!());
        assert_eq!(of(&counts, "web", "IO_INSTRUCTION"), Some(3));
        counts.absorb(&at(601), |_| unreachable!());
        assert!(counts.0.vms.is_empty());
    }

    #[test]
    fn a_histogram_has_every_length_in_the_bucket_that_holds_it() {
        let mut count = CountAndTime::default();
        for ns in [1, 511, 512, 1_023, 1 << 20, (1 << 20) + 1, 1 << 40] {
            count.lengths.record(ns);
        }
        let SampleValue::Histogram { buckets, .. } = histogram(&count) else { unreachable!() };
        let filled: Vec<(f64, u64)> = buckets.iter().copied().filter(|bucket| bucket.1 > 0).collect();
        assert_eq!(filled, [(512e-9, 2), (1_024e-9, 2), (0.004194304, 2), (f64::INFINITY, 1)]);
    }

    #[test]
    fn a_row_of_info_says_of_each_vm_what_is_true_of_all_its_processes() {
        let mut counts = counts(2, 9);
        let mut now = Snapshot::default();
        (1..=4).for_each(|process| exits(&mut now, 10 * process, 10, 1));
        // Two VMs of one name, one alone, and one beyond the limit.
        counts.0.absorb(&counts.1.take(&now), |process| {
            let mut identity = VmIdentity::managed_by(VmManager::Proxmox);
            identity.set(IdentityField::VmId, &process.to_string(), IdentitySource::Cgroup);
            identity.set(IdentityField::DisplayName, "a \u{1b}[2Jb", IdentitySource::LibvirtState);
            let name = ["web", "web", "db", "late"][process as usize / 10 - 1].to_string();
            NamedVm { name, identity }
        });
        let mut scrape = Scrape::default();
        counts.0.write(&mut scrape);
        let text = scrape.open_metrics();
        let rows: Vec<&str> = text.lines().filter(|line| line.starts_with("exitscope_vm_info{")).collect();
        let row = |vm: &str, vmid: &str| {
            format!(
                r#"exitscope_vm_info{{vm="{vm}",manager="proxmox",uuid="",vmid="{vmid}",namespace="",pod="",vmi="",display_name="a \\u{{1b}}[2Jb"}} 1"#
            )
        };
        assert_eq!(rows, [row("db", "30"), row("web", "")]);
    }
}
