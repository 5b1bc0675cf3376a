//! Takes the counts of an interval, and makes a [`Frame`] of them.
//!
//! ```text
//! Aggregation ─► Snapshot, less the one before ─► Sums of each vCPU ─► Sums of each VM ─► Frame
//!                               KVM's own counters ─────────┘
//! ```

use super::frame::{Frame, GangRow, Own, VcpuRow, VmRow};
use super::gangs::GangWatch;
use super::kernel::{Kvm, own_time};
use super::sums::Sums;
use super::verdict::RecentIntervals;
use crate::read::vcpu_by_name;
use exitscope_live::VmWatch;
use exitscope_model::{SubjectNames, TraceInfo};
use exitscope_record::{Aggregation, Cost, Lane, LaneState, Processes, Route, Runner, Snapshot, thread_name};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// How old KVM's own counters may be: to read them takes many files.
const COUNTERS_AGE: Duration = Duration::from_secs(1);

/// Intervals from one measurement of the programs' own cost to the next: they are slower meanwhile.
const MEASURE: u64 = 30;

/// What is watched, and what was there at the end of the last interval.
pub struct Sampler {
    counting: Aggregation,
    watch: VmWatch,
    before: Snapshot,
    own_time: u64,
    kvm: Kvm,
    kvm_read: Option<Instant>,
    gangs: GangWatch,
    recent: RecentIntervals,
    /// Numbers of vCPUs, by thread.
    vcpus: HashMap<u32, Option<u32>>,
    turn: u64,
    measuring: bool,
    ns_per_event: Option<f64>,
    host: (String, String),
    /// What subjects are called on it.
    subjects: SubjectNames,
}

impl Sampler {
    pub fn new(counting: Aggregation, processes: &Processes, name: Option<String>) -> Sampler {
        let read = |path| std::fs::read_to_string(path).unwrap_or_default().trim().to_string();
        let host = (read("/proc/sys/kernel/hostname"), read("/proc/sys/kernel/osrelease"));
        let arch = std::env::consts::ARCH.to_string();
        let subjects = SubjectNames::of(&TraceInfo { arch, release: host.1.clone(), ..TraceInfo::default() });
        let mut sampler = Sampler {
            before: counting.snapshot().clone(),
            counting,
            watch: VmWatch::new(processes, name, true),
            own_time: own_time(),
            kvm: Kvm::default(),
            kvm_read: None,
            gangs: GangWatch::default(),
            recent: RecentIntervals::default(),
            vcpus: HashMap::new(),
            turn: 0,
            measuring: false,
            ns_per_event: None,
            host,
            subjects,
        };
        sampler.measure(true);
        sampler
    }

    /// The interval from the last call, or the beginning, until now.
    pub fn take(&mut self) -> anyhow::Result<Frame> {
        self.watch.look(&mut self.counting)?;
        let now = self.counting.read()?.clone();
        self.look_at_kvm(&now);
        let span = now.at.saturating_sub(self.before.at.max(self.before.began)).max(1);
        let seconds = span as f64 / 1e9;
        let lanes = self.sums(&now);
        let mut frame = self.frame(&now, seconds);
        let events: u64 = lanes.values().map(|sums| sums.events).sum();
        self.look_at_cost(&now, events);
        let time: u64 = lanes.values().map(|sums| sums.wall).sum();
        let ns_per_event = self.ns_per_event;
        frame.overhead.events_per_s = events as f64 / seconds;
        frame.overhead.ns_per_event = ns_per_event;
        frame.overhead.vcpu_share = ns_per_event.filter(|_| time > 0).map(|ns| events as f64 * ns / time as f64);
        let gangs = self.gangs(&lanes, seconds);
        let (all, vms) = self.vms(&now, &lanes, &gangs, seconds);
        self.recent.push(&all, &frame, &vms);
        frame.verdict = self.recent.verdict();
        frame.figures = all.figures(seconds, &self.subjects);
        frame.vms = vms;
        self.counting.forget_ended();
        self.before = self.counting.snapshot().clone();
        self.vcpus.retain(|&thread, _| self.before.lanes.keys().any(|lane| lane.runner == Runner::Thread(thread)));
        self.turn += 1;
        Ok(frame)
    }

    /// What KVM counts itself, unless that was just read.
    fn look_at_kvm(&mut self, now: &Snapshot) {
        if self.kvm_read.is_some_and(|read| read.elapsed() < COUNTERS_AGE) {
            return;
        }
        let at_work = now.lanes.iter().filter(|(_, state)| !state.ended).map(|(lane, _)| lane.process);
        let processes: BTreeSet<u32> = self.watch.processes().iter().copied().chain(at_work).collect();
        self.kvm = Kvm::look(&processes.into_iter().collect::<Vec<_>>());
        self.kvm_read = Some(Instant::now());
    }

    /// Ganged exits, where virtual cores have any.
    fn gangs(&mut self, lanes: &BTreeMap<Lane, Sums>, seconds: f64) -> HashMap<u32, GangRow> {
        let Some(events) = self.counting.take_core_events() else { return HashMap::new() };
        self.gangs.absorb(&events);
        let wall = |pid| lanes.iter().filter(|(lane, _)| lane.process == pid).map(|(_, sums)| sums.wall).sum();
        self.gangs.rows(seconds, wall)
    }

    fn frame(&mut self, now: &Snapshot, seconds: f64) -> Frame {
        let bpf_error = match self.counting.route() {
            Route::Bpf => None,
            Route::PerfEvents { because } => Some(because.clone()),
        };
        let own_before = std::mem::replace(&mut self.own_time, own_time());
        let cpus = self.own_time.saturating_sub(own_before) as f64 / 1e9 / seconds;
        Frame {
            schema: "exitscope.top/1",
            time: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64()),
            seconds,
            host: self.host.0.clone(),
            kernel: self.host.1.clone(),
            tracing_backend: self.counting.route().name(),
            bpf_error,
            has_kvm_exit: self.counting.has_kvm_exit(),
            lost: now.lost,
            missed: now.missed,
            overhead: Own { cpus, ..Own::default() },
            ..Frame::default()
        }
    }

    /// What each vCPU did in the interval, or since its first event in it.
    fn sums(&self, now: &Snapshot) -> BTreeMap<Lane, Sums> {
        let mut lanes: BTreeMap<Lane, Sums> = BTreeMap::new();
        for (key, count) in &now.counts {
            lanes.entry(key.lane).or_default().add(key, count, self.before.counts.get(key));
        }
        let (has_kvm_exit, switches) = (self.counting.has_kvm_exit(), self.counting.has_switches());
        for (&lane, state) in &now.lanes {
            let sums = lanes.entry(lane).or_default();
            let before = self.before.lanes.get(&lane);
            sums.wall = state.until.saturating_sub(state.first.max(self.before.at));
            sums.events = state.events.saturating_sub(before.map_or(0, |before| before.events));
            sums.poll = state.poll;
            (sums.has_kvm_exit, sums.switches) = (has_kvm_exit, switches);
            sums.outside = before.map_or(state.outside, |before| state.outside_since(before));
            for (state, at, sign) in [(Some(state), state.until, 1), (before, self.before.at, -1)] {
                if let Some(open) = state.and_then(|state: &LaneState| state.open) {
                    sums.open(&open, at, sign);
                }
            }
        }
        lanes
    }

    fn vms(
        &mut self,
        now: &Snapshot,
        lanes: &BTreeMap<Lane, Sums>,
        gangs: &HashMap<u32, GangRow>,
        seconds: f64,
    ) -> (Sums, Vec<VmRow>) {
        let mut vms: BTreeMap<u32, (Sums, Vec<VcpuRow>)> = BTreeMap::new();
        for &process in self.watch.processes() {
            vms.entry(process).or_default();
        }
        for (lane, sums) in lanes {
            let state = now.lanes.get(lane).cloned().unwrap_or_default();
            let (tid, vcpu) = match lane.runner {
                Runner::Thread(thread) => (Some(thread), self.vcpu(lane.process, thread, &state)),
                Runner::Vcpu(vcpu) => (None, Some(vcpu)),
            };
            let vm = vms.entry(lane.process).or_default();
            vm.0.merge(sums);
            let open = state.open.filter(|_| !state.ended);
            vm.1.push(VcpuRow {
                vcpu,
                tid,
                ended: state.ended,
                open_reason: open.map(|open| open.code.name()),
                open_ns: open.map(|open| now.at.saturating_sub(open.since)),
                figures: sums.figures(seconds, &self.subjects),
            });
        }
        let mut rows = Vec::new();
        let mut all = Sums::default();
        for (pid, (sums, mut vcpus)) in vms {
            vcpus.sort_by_key(|vcpu| (vcpu.vcpu.unwrap_or(u32::MAX), vcpu.tid));
            all.merge(&sums);
            rows.push(VmRow {
                pid,
                name: self.name(pid),
                ended: !vcpus.is_empty() && vcpus.iter().all(|vcpu| vcpu.ended),
                figures: sums.figures(seconds, &self.subjects),
                kvm_halts: self.kvm.halts.get(&pid).cloned(),
                no_kvm_halts: self.kvm.trouble.get(&pid).cloned(),
                gangs: gangs.get(&pid).cloned(),
                vcpus,
            });
        }
        self.watch.forget_names(|pid| rows.iter().any(|row| row.pid == pid));
        (all, rows)
    }

    /// What the VM is called; of one that is gone already, its process.
    fn name(&mut self, process: u32) -> String {
        match self.watch.name(process) {
            "" => format!("process {process}"),
            name => name.to_string(),
        }
    }

    /// The vCPU's number: an event's, else its thread's name's, else KVM's.
    fn vcpu(&mut self, process: u32, thread: u32, state: &LaneState) -> Option<u32> {
        let found = self.vcpus.entry(thread).or_insert_with(|| {
            let named = vcpu_by_name(&thread_name(process, thread)).map(|vcpu| vcpu.0);
            named.or_else(|| self.kvm.vcpus.get(&thread).copied())
        });
        state.vcpu.or(*found)
    }

    /// Turns the measurement of programs on or off. It is not needed where it is not allowed, and there is none of perf
    /// events.
    fn measure(&mut self, on: bool) {
        self.measuring = self.counting.measure(on).is_ok() && on;
    }

    /// What the programs cost, from an interval in which they were measured.
    fn look_at_cost(&mut self, now: &Snapshot, events: u64) {
        if self.measuring && events > 0 {
            self.ns_per_event = cost_per_event(now.cost, self.before.cost, events).or(self.ns_per_event);
            self.measure(false);
        }
        if !self.measuring && self.turn % MEASURE == MEASURE - 1 {
            self.measure(true);
        }
    }
}

/// Nanoseconds of programs for each of these events; nothing where no run of a program was measured.
fn cost_per_event(now: Option<Cost>, before: Option<Cost>, events: u64) -> Option<f64> {
    let (now, before) = (now?, before.unwrap_or_default());
    let runs = now.runs.saturating_sub(before.runs);
    (runs > 0 && events > 0).then(|| now.ns.saturating_sub(before.ns) as f64 / events as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cost_that_was_not_measured_is_none_and_not_nothing() {
        let cost = |runs, ns| Some(Cost { runs, ns });
        for (now, before, events, per_event) in [
            (None, None, 100, None),
            (cost(0, 0), None, 100, None),
            // Programs ran, but none while it was measured.
            (cost(50, 5_000), cost(50, 5_000), 100, None),
            (cost(50, 5_000), None, 0, None),
            (cost(50, 5_000), None, 100, Some(50.0)),
            (cost(250, 25_000), cost(50, 5_000), 100, Some(200.0)),
        ] {
            assert_eq!(cost_per_event(now, before, events), per_event, "{now:?} after {before:?}, {events} events");
        }
    }
}
