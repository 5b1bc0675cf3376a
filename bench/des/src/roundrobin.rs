//! A preemptive scheduler, reduced to its queues: vCPUs compute for exponential times, then mostly go on, and now and
//! then sleep; CPUs take them from one queue, round robin. An event is the end of a computation, of a slice, or of a
//! sleep; ends that come to nothing are not counted. exitscope's queue moves them, nexosim's cancels them, SimPy's keeps
//! them and their callbacks look.

use crate::Lines;
use crate::random::{below, exponential};
use exitscope_sim::{EventHandle, EventQueue};
use nexosim::model::{Context, Model, schedulable};
use nexosim::simulation::{EventKey, Mailbox, SimInit};
use nexosim::time::MonotonicTime;
use rand_pcg::Pcg64Mcg;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const CPUS: u32 = 16;
const VCPUS: u32 = 64;
/// Means of a computation and of a sleep, and a slice, in nanoseconds.
const COMPUTE: f64 = 20_000.0;
const SLEEP: f64 = 50_000.0;
const SLICE: u64 = 100_000;
/// One computation in so many is followed by a sleep.
const SLEEPS: u32 = 10;

/// Events, the computations that end in a second of the model's time, and the events in one.
fn lines(events: u64, computations: u64, now: u64) -> Lines {
    let seconds = now as f64 / 1e9;
    let (throughput, pace) = (computations as f64 / seconds, events as f64 / seconds);
    vec![("events", events as f64), ("throughput", throughput), ("pace", pace)]
}

#[derive(Clone, Copy)]
enum What {
    /// The CPU's vCPU has computed.
    Done {
        cpu: u32,
    },
    /// Its slice is over.
    Slice {
        cpu: u32,
    },
    Awake {
        vcpu: u32,
    },
}

#[derive(Clone, Copy, Default)]
struct Cpu {
    vcpu: u32,
    busy: bool,
    until: u64,
    done: Option<EventHandle>,
    slice: Option<EventHandle>,
}

struct Host {
    rng: Pcg64Mcg,
    queue: EventQueue<What>,
    now: u64,
    cpus: [Cpu; CPUS as usize],
    ready: VecDeque<u32>,
    /// What is left of each vCPU's computation; 0: it begins a new one.
    left: [u64; VCPUS as usize],
}

impl Host {
    /// The CPU takes the next vCPU, if one is ready.
    fn dispatch(&mut self, cpu: u32) {
        let c = &mut self.cpus[cpu as usize];
        let Some(vcpu) = self.ready.pop_front() else {
            c.busy = false;
            [c.done.take(), c.slice.take()].into_iter().flatten().for_each(|plan| self.queue.cancel(plan));
            return;
        };
        (c.busy, c.vcpu) = (true, vcpu);
        c.slice = Some(self.queue.replan(c.slice, self.now + SLICE, What::Slice { cpu }));
        self.compute(cpu);
    }

    fn compute(&mut self, cpu: u32) {
        let c = &mut self.cpus[cpu as usize];
        let left = std::mem::take(&mut self.left[c.vcpu as usize]);
        let time = if left > 0 { left } else { exponential(&mut self.rng, COMPUTE) };
        c.until = self.now + time;
        c.done = Some(self.queue.replan(c.done, c.until, What::Done { cpu }));
    }
}

pub fn on_exitscope(events: u64) -> Lines {
    let mut host = Host {
        rng: Pcg64Mcg::new(1),
        queue: EventQueue::new(),
        now: 0,
        cpus: [Cpu::default(); CPUS as usize],
        ready: (0..VCPUS).collect(),
        left: [0; VCPUS as usize],
    };
    (0..CPUS).for_each(|cpu| host.dispatch(cpu));
    let (mut happened, mut computations) = (0, 0);
    while happened < events {
        let Some((at, what)) = host.queue.pop() else { break };
        host.now = at;
        match what {
            What::Done { cpu } => {
                computations += 1;
                let c = &mut host.cpus[cpu as usize];
                c.done = None;
                if below(&mut host.rng, SLEEPS) == 0 {
                    let (vcpu, at) = (c.vcpu, host.now + exponential(&mut host.rng, SLEEP));
                    host.queue.plan(at, What::Awake { vcpu });
                    host.dispatch(cpu);
                } else {
                    host.compute(cpu);
                }
            }
            What::Slice { cpu } => {
                let c = &mut host.cpus[cpu as usize];
                c.slice = None;
                host.left[c.vcpu as usize] = (c.until - host.now).max(1);
                host.ready.push_back(c.vcpu);
                host.dispatch(cpu);
            }
            What::Awake { vcpu } => {
                host.ready.push_back(vcpu);
                if let Some(cpu) = host.cpus.iter().position(|cpu| !cpu.busy) {
                    host.dispatch(cpu as u32);
                }
            }
        }
        happened += 1;
    }
    lines(happened, computations, host.now)
}

static HAPPENED: AtomicU64 = AtomicU64::new(0);
static COMPUTATIONS: AtomicU64 = AtomicU64::new(0);

/// The same as one model of nexosim that plans for itself: no messages, which would cost more.
#[derive(Serialize, Deserialize)]
struct Scheduler {
    rng: Pcg64Mcg,
    cpus: Vec<Running>,
    ready: VecDeque<u32>,
    left: Vec<u64>,
}

#[derive(Default, Serialize, Deserialize)]
struct Running {
    vcpu: u32,
    busy: bool,
    until: u64,
    done: Option<EventKey>,
    slice: Option<EventKey>,
}

fn nanos(time: MonotonicTime) -> u64 {
    time.duration_since(MonotonicTime::EPOCH).as_nanos() as u64
}

#[Model]
impl Scheduler {
    #[nexosim(init)]
    async fn init(&mut self, cx: &Context<Self>) {
        (0..CPUS).for_each(|cpu| self.dispatch(cpu, cx));
    }

    fn dispatch(&mut self, cpu: u32, cx: &Context<Self>) {
        let c = &mut self.cpus[cpu as usize];
        if let Some(slice) = c.slice.take() {
            slice.cancel();
        }
        let Some(vcpu) = self.ready.pop_front() else {
            c.busy = false;
            return;
        };
        (c.busy, c.vcpu) = (true, vcpu);
        let slice = cx.schedule_keyed_event(Duration::from_nanos(SLICE), schedulable!(Self::slice_over), cpu);
        c.slice = Some(slice.expect("a time in the future"));
        self.compute(cpu, cx);
    }

    fn compute(&mut self, cpu: u32, cx: &Context<Self>) {
        let c = &mut self.cpus[cpu as usize];
        let left = std::mem::take(&mut self.left[c.vcpu as usize]);
        let time = if left > 0 { left } else { exponential(&mut self.rng, COMPUTE) };
        c.until = nanos(cx.time()) + time;
        let done = cx.schedule_keyed_event(Duration::from_nanos(time), schedulable!(Self::computed), cpu);
        c.done = Some(done.expect("a time in the future"));
    }

    #[nexosim(schedulable)]
    fn computed(&mut self, cpu: u32, cx: &Context<Self>) {
        HAPPENED.fetch_add(1, Ordering::Relaxed);
        COMPUTATIONS.fetch_add(1, Ordering::Relaxed);
        if below(&mut self.rng, SLEEPS) == 0 {
            let time = Duration::from_nanos(exponential(&mut self.rng, SLEEP));
            let vcpu = self.cpus[cpu as usize].vcpu;
            cx.schedule_event(time, schedulable!(Self::awake), vcpu).expect("a time in the future");
            self.dispatch(cpu, cx);
        } else {
            self.compute(cpu, cx);
        }
    }

    #[nexosim(schedulable)]
    fn slice_over(&mut self, cpu: u32, cx: &Context<Self>) {
        HAPPENED.fetch_add(1, Ordering::Relaxed);
        let c = &mut self.cpus[cpu as usize];
        if let Some(done) = c.done.take() {
            done.cancel();
        }
        self.left[c.vcpu as usize] = (c.until - nanos(cx.time())).max(1);
        self.ready.push_back(c.vcpu);
        self.dispatch(cpu, cx);
    }

    #[nexosim(schedulable)]
    fn awake(&mut self, vcpu: u32, cx: &Context<Self>) {
        HAPPENED.fetch_add(1, Ordering::Relaxed);
        self.ready.push_back(vcpu);
        if let Some(cpu) = self.cpus.iter().position(|cpu| !cpu.busy) {
            self.dispatch(cpu as u32, cx);
        }
    }
}

pub fn on_nexosim(events: u64) -> Lines {
    let host = Scheduler {
        rng: Pcg64Mcg::new(1),
        cpus: (0..CPUS).map(|_| Running::default()).collect(),
        ready: (0..VCPUS).collect(),
        left: vec![0; VCPUS as usize],
    };
    let bench = SimInit::with_num_threads(1).add_model(host, Mailbox::new(), "host");
    let mut simulation = bench.init(MonotonicTime::EPOCH).expect("the bench is complete");
    while HAPPENED.load(Ordering::Relaxed) < events {
        simulation.step().expect("a step");
    }
    let computations = COMPUTATIONS.load(Ordering::Relaxed);
    lines(HAPPENED.load(Ordering::Relaxed), computations, nanos(simulation.time()))
}
