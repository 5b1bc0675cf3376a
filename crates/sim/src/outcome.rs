//! What a run measured.

use crate::Observer;
use crate::entities::{NONE, STATUSES, StrandActivity, StrandStatus, StrandWait, TaskKind};
use crate::exits::{REASONS, SimExitReason};
use crate::world::SimWorld;
use exitscope_policy::vcore::{self, CoreRunClass, ThreadExit};
use exitscope_scenario::Scenario;
use exitscope_scenario::outcome::{
    Locks, Metric, PollCounts, Queues, SimDurations, SimOutcome, SimVcpuTime, SimYields, VmOutcome, Work,
};
use exitscope_units::Nanos;

/// What is counted: from the beginning, and anew from the end of the warm-up on.
#[derive(Debug)]
pub(crate) struct Measures {
    pub(crate) events: u64,
    pub(crate) vms: Vec<VmMeasures>,
    pub(crate) threads: Vec<Work>,
    pub(crate) loads: Vec<SimDurations>,
    pub(crate) host_polls: u64,
    pub(crate) host_polls_paid: u64,
    pub(crate) guest_polls: u64,
    pub(crate) guest_polls_paid: u64,
    pub(crate) ipis_spared: u64,
    pub(crate) yields_fast: u64,
    pub(crate) yields_undirected: u64,
    pub(crate) yields_directed: u64,
    pub(crate) yields_ignored: u64,
    pub(crate) yields_named: u64,
    pub(crate) lock_takes: u64,
    pub(crate) lock_contended: u64,
    pub(crate) lock_wait: SimDurations,
    pub(crate) big_lock_waits: u64,
    pub(crate) emulations: u64,
}

#[derive(Debug, Default)]
pub(crate) struct VmMeasures {
    pub(crate) work: Work,
    pub(crate) exits: [u64; REASONS],
    pub(crate) gang: u64,
    pub(crate) gang_by_script: u64,
    pub(crate) to_device_model: SimDurations,
    pub(crate) time: [u128; STATUSES],
}

impl Measures {
    pub(crate) fn new(s: &Scenario) -> Measures {
        Measures {
            events: 0,
            vms: s.vms.iter().map(|_| VmMeasures::default()).collect(),
            threads: s.threads.iter().map(|_| Work::default()).collect(),
            loads: s.loads.iter().map(|_| SimDurations::default()).collect(),
            host_polls: 0,
            host_polls_paid: 0,
            guest_polls: 0,
            guest_polls_paid: 0,
            ipis_spared: 0,
            yields_fast: 0,
            yields_undirected: 0,
            yields_directed: 0,
            yields_ignored: 0,
            yields_named: 0,
            lock_takes: 0,
            lock_contended: 0,
            lock_wait: SimDurations::default(),
            big_lock_waits: 0,
            emulations: 0,
        }
    }
}

impl<O: Observer> SimWorld<'_, O> {
    /// The warm-up is over: what was counted until now does not count.
    pub(crate) fn begin_measuring(&mut self) {
        let events = self.m.events;
        self.m = Measures { events, ..Measures::new(self.s) };
        for cpu in &mut self.cpus {
            (cpu.queue_since, cpu.queue_time, cpu.empty_time) = (self.now, 0, 0);
            (cpu.busy_since, cpu.busy_time) = (self.now, 0);
        }
        for strand in &mut self.strands {
            strand.status_since = self.now;
        }
    }

    /// The status of a strand changes.
    pub(crate) fn set_status(&mut self, strand: u32, status: StrandStatus) {
        let now = self.now;
        let st = &mut self.strands[strand as usize];
        let (before, since) = (st.status, st.status_since);
        (st.status, st.status_since) = (status, now);
        if st.vm != NONE
            && let Some(vm) = self.m.vms.get_mut(st.spec as usize)
        {
            vm.time[before as usize] += u128::from(now - since);
        }
    }

    /// The status of all strands of a task changes; halted ones stay halted.
    pub(crate) fn set_task_status(&mut self, task: u32, status: StrandStatus) {
        let TaskKind::Strands { first, count, .. } = self.tasks[task as usize].kind else { return };
        for strand in first..first + count {
            let stays_halted = count > 1 && self.strands[strand as usize].doing == StrandActivity::Halted;
            self.set_status(strand, if stays_halted { StrandStatus::Halted } else { status });
        }
    }

    fn work(&mut self, strand: u32) -> Option<&mut Work> {
        let st = &self.strands[strand as usize];
        match st.vm {
            NONE => self.m.threads.get_mut(st.spec as usize),
            _ => self.m.vms.get_mut(st.spec as usize).map(|vm| &mut vm.work),
        }
    }

    pub(crate) fn count(&mut self, strand: u32) {
        if let Some(work) = self.work(strand) {
            work.count += 1;
        }
    }

    pub(crate) fn record_latency(&mut self, strand: u32) {
        let time = self.now - self.strands[strand as usize].latency_start;
        if let Some(work) = self.work(strand) {
            work.latency.record(time);
        }
    }

    pub(crate) fn count_exit(&mut self, strand: u32, reason: SimExitReason) {
        let spec = self.strands[strand as usize].spec as usize;
        if let Some(vm) = self.m.vms.get_mut(spec) {
            vm.exits[reason.number()] += 1;
        }
    }

    /// A virtual core's threads have left the guest.
    pub(crate) fn count_gang(&mut self, task: u32, left: &[(u32, ThreadExit)]) {
        let TaskKind::Strands { first, .. } = self.tasks[task as usize].kind else { return };
        let vm = self.strands[first as usize].vm;
        if vm == NONE {
            return;
        }
        let ceded = left.iter().filter(|(_, left)| left.ceded).count() as u32;
        let by_script = vcore::script_counts(left.len() as u32, ceded);
        let gang = vcore::gang(left.iter().map(|(_, left)| *left), vcore::H_DOORBELL);
        let measures = &mut self.m.vms[self.vms[vm as usize].spec];
        measures.gang_by_script += u64::from(by_script);
        measures.gang += u64::from(matches!(gang, CoreRunClass::Ganged { .. }));
    }

    /// A strand's name for people.
    pub(crate) fn name(&self, strand: u32) -> String {
        let st = &self.strands[strand as usize];
        match self.vms.get(st.vm as usize) {
            Some(vm) => {
                let spec = &self.s.vms[vm.spec];
                let copy = self.vms[..st.vm as usize].iter().filter(|other| other.spec == vm.spec).count();
                let number = if spec.copies > 1 { format!(" #{copy}") } else { String::new() };
                format!("vCPU {} of {}{number}", st.vcpu, spec.name)
            }
            None => {
                let thread = self.s.threads.get(st.spec as usize);
                format!("thread {}", thread.map_or("?", |thread| &thread.name))
            }
        }
    }

    pub(crate) fn what_it_waits_for(&self, strand: u32) -> String {
        let channel = |at: u32| self.s.channels.get(at as usize).map_or("?", |channel| &channel.name);
        let what = match self.strands[strand as usize].wait {
            StrandWait::Message(at) => format!("a message from channel {}", channel(at)),
            StrandWait::Reply => "an answer".to_string(),
            StrandWait::Ipi => "an IPI".to_string(),
            StrandWait::Disk(_) => "a disk".to_string(),
            StrandWait::Timer => "a timer".to_string(),
            StrandWait::Nothing | StrandWait::Forever => "nothing".to_string(),
        };
        format!("{} waits for {what}", self.name(strand))
    }

    pub(crate) fn finish(mut self) -> (SimOutcome, O) {
        for strand in 0..self.strands.len() as u32 {
            let status = self.strands[strand as usize].status;
            self.set_status(strand, status);
        }
        for cpu in 0..self.cpus.len() as u32 {
            self.count_queue(cpu);
            self.count_busy(cpu);
        }
        let busy: u128 = self.cpus.iter().map(|cpu| u128::from(cpu.busy_time)).sum();
        let total = self.s.duration.0 as f64 * self.cpus.len() as f64;
        let empty: u128 = self.cpus.iter().map(|cpu| u128::from(cpu.empty_time)).sum();
        let depth: u128 = self.cpus.iter().map(|cpu| cpu.queue_time).sum();
        let m = self.m;
        let vms = self.s.vms.iter().zip(m.vms).map(|(spec, vm)| {
            let nanos = |at: usize| Nanos(u64::try_from(vm.time[at] / 1_000).unwrap_or(u64::MAX));
            VmOutcome {
                name: spec.name.clone(),
                work: vm.work,
                exits: SimExitReason::NAMES.into_iter().zip(vm.exits).filter(|(_, count)| *count > 0).collect(),
                gang_exits: vm.gang,
                gang_exits_by_script: vm.gang_by_script,
                to_device_model: vm.to_device_model,
                time: SimVcpuTime {
                    guest: nanos(0),
                    spinning: nanos(1),
                    guest_polling: nanos(2),
                    polling: nanos(3),
                    kernel: nanos(4),
                    user: nanos(5),
                    halted: nanos(6),
                    steal: nanos(7),
                    blocked: nanos(8),
                },
            }
        });
        let outcome = SimOutcome {
            time: Nanos(self.s.duration.as_nanos()),
            events: m.events,
            vms: vms.collect(),
            threads: m.threads,
            loads: m.loads,
            queues: Queues { empty: empty as f64 / total, depth: depth as f64 / total },
            busy_cpus: busy as f64 / self.s.duration.0 as f64,
            host_polls: PollCounts { tried: m.host_polls, paid: m.host_polls_paid },
            guest_polls: PollCounts { tried: m.guest_polls, paid: m.guest_polls_paid },
            ipis_spared: m.ipis_spared,
            yields: SimYields {
                fast: m.yields_fast,
                undirected: m.yields_undirected,
                directed: m.yields_directed,
                ignored: m.yields_ignored,
                named: m.yields_named,
            },
            locks: Locks { taken: m.lock_takes, contended: m.lock_contended, wait: m.lock_wait },
            big_lock_waits: m.big_lock_waits,
            emulations: m.emulations,
        };
        (outcome, self.observer)
    }
}

/// Every figure that an outcome of this scenario can have; the values mean nothing. For checking names before a run.
pub fn possible_metrics(scenario: &Scenario) -> Vec<Metric> {
    let mut latency = SimDurations::default();
    latency.record(1);
    let work = || Work { count: 1, latency: latency.clone() };
    let once = PollCounts { tried: 1, paid: 1 };
    let vm = |name: &String| VmOutcome {
        name: name.clone(),
        work: work(),
        exits: SimExitReason::NAMES.map(|name| (name, 1)).to_vec(),
        gang_exits: 1,
        gang_exits_by_script: 1,
        to_device_model: latency.clone(),
        time: SimVcpuTime::default(),
    };
    let outcome = SimOutcome {
        time: Nanos(1),
        events: 0,
        vms: scenario.vms.iter().map(|spec| vm(&spec.name)).collect(),
        threads: scenario.threads.iter().map(|_| work()).collect(),
        loads: scenario.loads.iter().map(|_| latency.clone()).collect(),
        queues: Queues::default(),
        busy_cpus: 1.0,
        host_polls: once,
        guest_polls: once,
        ipis_spared: 0,
        yields: SimYields { fast: 1, ..SimYields::default() },
        locks: Locks { taken: 1, contended: 1, wait: latency.clone() },
        big_lock_waits: 0,
        emulations: 0,
    };
    outcome.metrics(scenario)
}
