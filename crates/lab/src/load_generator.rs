//! What is outside of a scenario's guests: clients that send requests, and disks. One thread plays them all.
//!
//! ```text
//! due: client sends, disk is done ─► a message into a box, and whoever halted for it is woken
//! vCPU: reply, submit ─► the thread: latency recorded, the client thinks; the disk works
//! ```

use crate::abi::{FIRST_CLIENT, QUEUE, channel_box, disk_box};
use crate::compile::{draw, generator};
use crate::run_loop::OutboundSink;
use crate::{Parker, Payload, Watch};
use exitscope_scenario::{Arrival, Disk, Scenario, TimeDistribution};
use exitscope_stats::Histogram;
use rand_pcg::Pcg64Mcg;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

/// What vCPUs say to the outside.
enum GuestRequest {
    Reply(u32),
    Submit { number: u32, disk: u32 },
}

/// The vCPUs' end.
pub struct LoadPort {
    said: Sender<GuestRequest>,
}

impl OutboundSink for LoadPort {
    fn reply(&self, _: u32, client: u32) {
        // Nobody listens any more at the end of a run.
        let _ = self.said.send(GuestRequest::Reply(client));
    }

    fn submit(&self, number: u32, disk: u32) {
        let _ = self.said.send(GuestRequest::Submit { number, disk });
    }
}

/// What happens at a moment.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Due {
    Send(usize),
    DiskDone { disk: usize, number: u32 },
}

struct Client {
    load: usize,
    sent: Option<Instant>,
}

struct DiskState {
    spec: Disk,
    busy: u32,
    queued: VecDeque<u32>,
}

/// What the clients of a load saw.
#[derive(Clone, Debug, Default)]
pub struct ClientResults {
    /// Times from request to answer, in nanoseconds.
    pub times: Histogram,
    /// Requests that found the channel full and were not sent.
    pub refused: u64,
}

/// The thread's state.
pub struct LoadGenerator<'a> {
    scenario: &'a Scenario,
    payload: &'a Payload,
    parkers: &'a [Parker],
    said: Receiver<GuestRequest>,
    clients: Vec<Client>,
    disks: Vec<DiskState>,
    /// For each vCPU by number: the first disk of its VM.
    first_disk: Vec<usize>,
    due: BinaryHeap<Reverse<(Instant, Due)>>,
    random: Pcg64Mcg,
    /// What clients saw, by load.
    pub seen: Vec<ClientResults>,
}

impl<'a> LoadGenerator<'a> {
    /// The outside of a scenario, and the way to it for its vCPUs. `first_disk`: for each vCPU by number, where the disks
    /// of its VM begin in the list of all.
    pub fn new(
        scenario: &'a Scenario,
        payload: &'a Payload,
        parkers: &'a [Parker],
        disks: Vec<Disk>,
        first_disk: Vec<usize>,
    ) -> (LoadGenerator<'a>, LoadPort) {
        let (send, said) = channel();
        let mut clients = Vec::new();
        for (load, spec) in scenario.loads.iter().enumerate() {
            let count = match spec.arrival {
                Arrival::Closed { clients, .. } => clients,
                Arrival::Open { .. } => 1,
            };
            clients.extend((0..count).map(|_| Client { load, sent: None }));
        }
        let disks = disks.into_iter().map(|spec| DiskState { spec, busy: 0, queued: VecDeque::new() });
        let world = LoadGenerator {
            scenario,
            payload,
            parkers,
            said,
            clients,
            disks: disks.collect(),
            first_disk,
            due: BinaryHeap::new(),
            random: generator(scenario.seed, u64::MAX),
            seen: vec![ClientResults::default(); scenario.loads.len()],
        };
        (world, LoadPort { said: send })
    }

    /// Plays until the run is over, or all vCPUs are done; after `length`, programs that repeat for ever are told to stop, right after
    /// `at_stop`, and a little later the run is.
    pub fn play(&mut self, watch: &Watch, length: Duration, at_stop: impl FnOnce()) {
        const LOOK: Duration = Duration::from_millis(10);
        const GRACE: Duration = Duration::from_millis(100);
        let mut at_stop = Some(at_stop);
        let now = Instant::now();
        let end = now + length;
        for client in 0..self.clients.len() {
            self.due.push(Reverse((now, Due::Send(client))));
        }
        while !watch.is_over() {
            let now = Instant::now();
            if now >= end {
                if let Some(at_stop) = at_stop.take() {
                    at_stop();
                }
                self.payload.stop();
                if now >= end + GRACE {
                    return watch.stop();
                }
            }
            while let Some(Reverse((at, what))) = self.due.peek().copied()
                && at <= now
            {
                self.due.pop();
                self.happen(what);
            }
            let next = self.due.peek().map_or(LOOK, |Reverse((at, _))| at.saturating_duration_since(Instant::now()));
            match self.said.recv_timeout(next.min(LOOK)) {
                Ok(said) => self.hear(said),
                Err(RecvTimeoutError::Timeout) => {}
                // Every vCPU is done.
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    fn length(&mut self, span: TimeDistribution) -> Duration {
        Duration::from_nanos((draw(span, &mut self.random) / 1e3) as u64)
    }

    fn wake(&self, number: Option<u32>) {
        if let Some(parker) = number.and_then(|number| self.parkers.get(number as usize)) {
            parker.wake();
        }
    }

    fn happen(&mut self, what: Due) {
        match what {
            Due::Send(client) => {
                let load = self.clients[client].load;
                let spec = &self.scenario.loads[load];
                let number = channel_box(spec.channel as u32);
                if self.payload.waiting_messages(number) < QUEUE as u64 / 2 {
                    self.clients[client].sent = Some(Instant::now());
                    let target = self.payload.send(number, FIRST_CLIENT + client as u32);
                    self.wake(target);
                } else {
                    self.seen[load].refused += 1;
                }
                if let Arrival::Open { every } = spec.arrival {
                    let next = Instant::now() + self.length(every);
                    self.due.push(Reverse((next, Due::Send(client))));
                }
            }
            Due::DiskDone { disk, number } => {
                let target = self.payload.send(disk_box(number), number);
                self.wake(target);
                self.disks[disk].busy -= 1;
                if let Some(next) = self.disks[disk].queued.pop_front() {
                    self.begin(disk, next);
                }
            }
        }
    }

    fn hear(&mut self, said: GuestRequest) {
        match said {
            GuestRequest::Reply(client) => {
                let Some(state) = self.clients.get_mut(client as usize) else { return };
                let load = state.load;
                if let Some(sent) = state.sent.take() {
                    self.seen[load].times.record(sent.elapsed().as_nanos() as u64);
                }
                if let Arrival::Closed { think, .. } = self.scenario.loads[load].arrival {
                    let next = Instant::now() + self.length(think);
                    self.due.push(Reverse((next, Due::Send(client as usize))));
                }
            }
            GuestRequest::Submit { number, disk } => {
                let first = self.first_disk.get(number as usize).copied().unwrap_or(0);
                let disk = first + disk as usize;
                match self.disks.get_mut(disk) {
                    Some(state) if state.busy >= state.spec.parallel.max(1) => state.queued.push_back(number),
                    Some(_) => self.begin(disk, number),
                    None => {}
                }
            }
        }
    }

    fn begin(&mut self, disk: usize, number: u32) {
        self.disks[disk].busy += 1;
        let service = self.disks[disk].spec.service;
        let done = Instant::now() + self.length(service);
        self.due.push(Reverse((done, Due::DiskDone { disk, number })));
    }
}
