//! A closed queueing network: customers go from station to station at random, each of which serves one at a time, in
//! the order of arrival, for an exponential time. An event is the end of a service.

use crate::Lines;
use crate::random::{below, exponential};
use exitscope_sim::EventQueue;
use nexosim::model::{Context, Model, schedulable};
use nexosim::ports::Output;
use nexosim::simulation::{Mailbox, SimInit};
use nexosim::time::MonotonicTime;
use rand_pcg::Pcg64Mcg;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const STATIONS: u32 = 10;
const CUSTOMERS: u32 = 100;
/// Mean of a service, in nanoseconds.
const SERVICE: f64 = 10_000.0;

/// Events, the services that a station does in a second of the model's time, and the events in one.
fn lines(services: u64, now: u64) -> Lines {
    let throughput = services as f64 / (now as f64 / 1e9) / f64::from(STATIONS);
    vec![("events", services as f64), ("throughput", throughput), ("pace", throughput * f64::from(STATIONS))]
}

pub fn on_exitscope(services: u64) -> Lines {
    let mut rng = Pcg64Mcg::new(1);
    let mut waiting = vec![VecDeque::new(); STATIONS as usize];
    let mut queue = EventQueue::new();
    for customer in 0..CUSTOMERS {
        let station = customer % STATIONS;
        waiting[station as usize].push_back(customer);
        if waiting[station as usize].len() == 1 {
            queue.plan(exponential(&mut rng, SERVICE), station);
        }
    }
    let mut now = 0;
    for _ in 0..services {
        let Some((at, station)) = queue.pop() else { break };
        now = at;
        let here = &mut waiting[station as usize];
        let Some(customer) = here.pop_front() else { break };
        if !here.is_empty() {
            queue.plan(now + exponential(&mut rng, SERVICE), station);
        }
        let next = below(&mut rng, STATIONS);
        let there = &mut waiting[next as usize];
        there.push_back(customer);
        if there.len() == 1 {
            queue.plan(now + exponential(&mut rng, SERVICE), next);
        }
    }
    lines(services, now)
}

static SERVED: AtomicU64 = AtomicU64::new(0);

/// A station as a model of its own, as nexosim means it: customers arrive at its input, and leave by the output that
/// is connected to where they go.
#[derive(Serialize, Deserialize)]
struct Station {
    rng: Pcg64Mcg,
    waiting: VecDeque<u32>,
    out: Vec<Output<u32>>,
}

#[Model]
impl Station {
    #[nexosim(init)]
    async fn init(&mut self, cx: &Context<Self>) {
        self.begin(cx);
    }

    fn begin(&mut self, cx: &Context<Self>) {
        let time = Duration::from_nanos(exponential(&mut self.rng, SERVICE));
        cx.schedule_event(time, schedulable!(Self::served), ()).expect("a time in the future");
    }

    fn arrive(&mut self, customer: u32, cx: &Context<Self>) {
        self.waiting.push_back(customer);
        if self.waiting.len() == 1 {
            self.begin(cx);
        }
    }

    #[nexosim(schedulable)]
    async fn served(&mut self, _: (), cx: &Context<Self>) {
        // One thread: it is a counter that the main program can read.
        SERVED.fetch_add(1, Ordering::Relaxed);
        let Some(customer) = self.waiting.pop_front() else { return };
        if !self.waiting.is_empty() {
            self.begin(cx);
        }
        let next = below(&mut self.rng, STATIONS) as usize;
        self.out[next].send(customer).await;
    }
}

pub fn on_nexosim(services: u64) -> Lines {
    let boxes: Vec<Mailbox<Station>> = (0..STATIONS).map(|_| Mailbox::new()).collect();
    let stations: Vec<Station> = (0..STATIONS)
        .map(|station| {
            let out = boxes.iter().map(|there| {
                let mut out = Output::new();
                out.connect(Station::arrive, there);
                out
            });
            Station {
                rng: Pcg64Mcg::new(u128::from(station) + 1),
                waiting: (0..CUSTOMERS).filter(|customer| customer % STATIONS == station).collect(),
                out: out.collect(),
            }
        })
        .collect();
    let mut bench = SimInit::with_num_threads(1);
    for (station, mailbox) in stations.into_iter().zip(boxes) {
        bench = bench.add_model(station, mailbox, "station");
    }
    let mut simulation = bench.init(MonotonicTime::EPOCH).expect("the bench is complete");
    while SERVED.load(Ordering::Relaxed) < services {
        simulation.step().expect("a step");
    }
    let now = simulation.time().duration_since(MonotonicTime::EPOCH).as_nanos() as u64;
    lines(SERVED.load(Ordering::Relaxed), now)
}
