//! Takes the counts of an interval, and makes a [`Frame`] of them.
//!
//! ```text
//! LiveCounts ─► IntervalTotals of each vCPU ─► of each VM ─► Frame
//!                     KVM's own counters ───────┘
//! ```

use crate::figures::figures;
use crate::frame::{Frame, TopGangRow, TopOverhead, TopVcpuRow, VmRow};
use crate::gangs::GangWatch;
use crate::top::TopOptions;
use crate::verdict::RecentIntervals;
use exitscope_advice::RecordedHost;
use exitscope_live::{CostCycle, CountInterval, IntervalTotals, KvmCounters, LiveCounts, VmWatch, own_cpu_time};
use exitscope_model::{SubjectNames, is_qemu, vcpu_by_name};
use exitscope_record::{CountingOptions, RecordError, TracingBackend, VcpuRunner, thread_name};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// How old KVM's own counters may be: to read them takes many files.
const COUNTERS_AGE: Duration = Duration::from_secs(1);

/// Of so many intervals, the programs' own cost is measured in one: they are slower meanwhile.
const MEASURE: u32 = 30;

/// What is watched.
pub struct Sampler {
    counts: LiveCounts,
    own_time: u64,
    kvm: KvmCounters,
    kvm_read: Option<Instant>,
    gangs: GangWatch,
    recent: RecentIntervals,
    /// Numbers of vCPUs, by thread.
    vcpus: HashMap<u32, Option<u32>>,
    hostname: String,
    /// What advice knows of the host, with what subjects are called on it.
    host: RecordedHost,
}

impl Sampler {
    /// Begins to count.
    pub fn start(options: TopOptions) -> Result<Sampler, RecordError> {
        let TopOptions { processes, vm_name, without_bpf, host, interval, .. } = options;
        let vms = VmWatch::new(&processes, vm_name, true);
        let counting = CountingOptions { processes, without_bpf, with_cores: true, ..CountingOptions::default() };
        Ok(Sampler {
            counts: LiveCounts::start(&counting, vms, CostCycle::new(interval, interval * MEASURE))?,
            own_time: own_cpu_time(),
            kvm: KvmCounters::default(),
            kvm_read: None,
            gangs: GangWatch::default(),
            recent: RecentIntervals::new(host.cpus),
            vcpus: HashMap::new(),
            host: RecordedHost {
                names: SubjectNames::of(&host),
                arch: host.arch,
                release: host.release,
                cpus: host.cpus,
                ..RecordedHost::default()
            },
            hostname: host.hostname,
        })
    }

    /// The interval from the last call, or the beginning, until now.
    pub fn take(&mut self) -> Result<Frame, RecordError> {
        let interval = self.counts.take()?;
        self.read_kvm_counters(&interval);
        let seconds = interval.length as f64 / 1e9;
        let gangs = self.gangs(&interval, seconds);
        let (all, vms) = self.vms(&interval, &gangs, seconds);
        let own_before = std::mem::replace(&mut self.own_time, own_cpu_time());
        let (events, ns_per_event) = (all.events as f64, interval.ns_per_event);
        let overhead = TopOverhead {
            cpus: self.own_time.saturating_sub(own_before) as f64 / 1e9 / seconds,
            events_per_s: events / seconds,
            ns_per_event,
            vcpu_share: ns_per_event.filter(|_| all.wall > 0).map(|ns| events * ns / all.wall as f64),
        };
        let counting = &self.counts.counting;
        let mut frame = Frame {
            schema: "exitscope.top/1",
            time: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64()),
            seconds,
            host: self.hostname.clone(),
            kernel: self.host.release.clone(),
            tracing_backend: counting.route().name(),
            bpf_error: match counting.route() {
                TracingBackend::Bpf => None,
                TracingBackend::PerfEvents { because } => Some(because.clone()),
            },
            has_kvm_exit: counting.has_kvm_exit(),
            lost: interval.lost,
            missed: interval.missed,
            overhead,
            verdict: None,
            figures: figures(&all, seconds, &self.host.names),
            vms,
        };
        self.recent.push(all, &frame);
        let is_qemu = frame.vms.iter().filter(|vm| !vm.ended).all(|vm| is_qemu(&thread_name(vm.pid, vm.pid)));
        frame.verdict = self.recent.verdict(&self.host, is_qemu);
        let there: BTreeSet<VcpuRunner> = interval.living().map(|lane| lane.runner).collect();
        self.vcpus.retain(|&thread, _| there.contains(&VcpuRunner::Thread(thread)));
        Ok(frame)
    }

    /// Reads what KVM counts itself, unless that was just done.
    fn read_kvm_counters(&mut self, interval: &CountInterval) {
        if self.kvm_read.is_some_and(|read| read.elapsed() < COUNTERS_AGE) {
            return;
        }
        let at_work = interval.living().map(|lane| lane.process);
        let processes: BTreeSet<u32> = self.counts.vms.processes().iter().copied().chain(at_work).collect();
        self.kvm = KvmCounters::read(&processes.into_iter().collect::<Vec<_>>());
        self.kvm_read = Some(Instant::now());
    }

    /// Ganged exits, where virtual cores have any.
    fn gangs(&mut self, interval: &CountInterval, seconds: f64) -> HashMap<u32, TopGangRow> {
        let Some(events) = self.counts.counting.take_core_events() else { return HashMap::new() };
        self.gangs.absorb(&events);
        let vcpus = |pid| interval.vcpus.iter().filter(move |(lane, _)| lane.process == pid);
        self.gangs.rows(seconds, |pid| vcpus(pid).map(|(_, (_, totals))| totals.wall).sum())
    }

    fn vms(
        &mut self,
        interval: &CountInterval,
        gangs: &HashMap<u32, TopGangRow>,
        seconds: f64,
    ) -> (IntervalTotals, Vec<VmRow>) {
        let mut vms: BTreeMap<u32, (IntervalTotals, Vec<TopVcpuRow>)> = BTreeMap::new();
        for &process in self.counts.vms.processes() {
            vms.entry(process).or_default();
        }
        for (lane, (state, totals)) in &interval.vcpus {
            let state = state.clone().unwrap_or_default();
            let (tid, vcpu) = match lane.runner {
                VcpuRunner::Thread(thread) => (Some(thread), state.vcpu.or_else(|| self.vcpu(lane.process, thread))),
                VcpuRunner::Vcpu(vcpu) => (None, Some(vcpu)),
            };
            let vm = vms.entry(lane.process).or_default();
            vm.0.merge(totals);
            let open = state.open.filter(|_| !state.ended);
            vm.1.push(TopVcpuRow {
                vcpu,
                tid,
                ended: state.ended,
                open_reason: open.map(|open| open.code.name()),
                open_ns: open.map(|open| interval.at.saturating_sub(open.since)),
                figures: figures(totals, seconds, &self.host.names),
            });
        }
        let mut rows = Vec::new();
        let mut all = IntervalTotals::default();
        for (pid, (totals, mut vcpus)) in vms {
            vcpus.sort_by_key(|vcpu| (vcpu.vcpu.unwrap_or(u32::MAX), vcpu.tid));
            all.merge(&totals);
            rows.push(VmRow {
                pid,
                name: self.name(pid),
                ended: !vcpus.is_empty() && vcpus.iter().all(|vcpu| vcpu.ended),
                figures: figures(&totals, seconds, &self.host.names),
                kvm_halts: self.kvm.halts.get(&pid).cloned(),
                no_kvm_halts: self.kvm.trouble.get(&pid).cloned(),
                gangs: gangs.get(&pid).cloned(),
                vcpus,
            });
        }
        (all, rows)
    }

    /// What the VM is called; of one that is gone already, its process.
    fn name(&mut self, process: u32) -> String {
        match self.counts.vms.vm(process).name.as_str() {
            "" => format!("process {process}"),
            name => name.to_string(),
        }
    }

    /// The vCPU's number: its thread's name's, else KVM's.
    fn vcpu(&mut self, process: u32, thread: u32) -> Option<u32> {
        *self.vcpus.entry(thread).or_insert_with(|| {
            let named = vcpu_by_name(&thread_name(process, thread)).map(|vcpu| vcpu.0);
            named.or_else(|| self.kvm.vcpus.get(&thread).copied())
        })
    }
}
