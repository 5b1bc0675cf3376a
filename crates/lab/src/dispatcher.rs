//! The lab's own hypervisor scheduler: many vCPUs over few host threads, with run queues like z/VM's dispatch vectors, and
//! the hypervisor's side of the two yields as the policy crate has it.
//!
//! ```text
//!              vectors, one a thread                          exits
//! clock ─────► [ 3 5 7 ] ─ thread 0 runs 1 ─┬─ slice over ──► tail of the vector; its head is next
//! slices,      [ 0 2 4 ] ─ thread 1 runs 6  ├─ X'44' ───────► nobody queued: back at once; else pick_undirected
//! sleepers                     │            ├─ X'9C' ───────► diag9c: the named one, from whichever vector
//!                              ▼            ├─ sense ───────► whether it runs, an exit; or the guest looks into memory
//!                        empty: steals      └─ sleep, done ─► off
//! ```
//!
//! A vCPU is on a CPU, for the guest, while a thread runs it; that the host's own scheduler may have taken that thread's CPU
//! away is known to nobody here.

use crate::abi::{VcpuPage, bell};
use crate::events::Events;
use crate::exit_account::{ExitAccount, LabExitReason, LabHandler};
use crate::machine::name_vcpu_thread;
use crate::placement::Placement;
use crate::run_loop::TickClock;
use crate::{Kick, KvmExit, LabError, LabMachine, LabVcpu, Payload, Span, Watch, ticks};
use exitscope_policy::yielding::{
    Diag9cIgnored, Diag9cOutcome, Diag44, Target, Waiting, diag9c, diag44, pick_undirected,
};
use exitscope_units::{VcpuId, VmId};
use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How to dispatch.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// Host threads that run vCPUs, at least 1.
    pub threads: usize,
    /// How long a vCPU runs while others wait.
    pub slice: Duration,
    /// Tell the programs to stop ([`Payload::stop`]) after so long; `None`: they end by themselves.
    pub stop_after: Option<Duration>,
    /// Whether events are kept.
    pub events: bool,
    /// Whether the threads are named as QEMU names those of vCPUs.
    pub name_threads: bool,
    /// Whether each thread is kept on a CPU.
    pub pin: bool,
}

/// What a run was.
#[derive(Clone, Debug, Default)]
pub struct Dispatched {
    /// From the beginning to the stop, or to the end of all programs.
    pub span: Span,
    /// What the programs had counted at that moment.
    pub counted: u64,
    /// X'44' answered at once, as nobody was queued.
    pub fast_path: u64,
    /// X'44' that went through the dispatcher.
    pub normal_path: u64,
    /// X'9C' that had the named vCPU run.
    pub directed: u64,
    /// X'9C' whose target was on a CPU already.
    pub already_running: u64,
    /// X'9C' ignored for another reason: the target slept, or was the caller itself, or there is none.
    pub ignored_otherwise: u64,
    /// Times a vCPU was taken off at the end of its slice.
    pub preemptions: u64,
    /// Share of the time, 0 to 1, in which a dispatch vector was empty: the mean of all vectors.
    pub queue_empty: f64,
    /// vCPUs queued in a vector, on the mean of time and vectors.
    pub queue_depth: f64,
    /// Exits to user space.
    pub account: ExitAccount,
    /// The events of each vCPU, if they are kept.
    pub events: Vec<Events>,
}

/// Where a vCPU is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Queued,
    Running,
    /// Until this moment.
    Asleep(Instant),
    Done,
}

/// What a thread does.
#[derive(Clone, Copy, Debug)]
struct Turn {
    vcpu: usize,
    /// When its slice is over, or was and it was kicked: when it is to be kicked next.
    kick_at: Instant,
    slice_end: Instant,
}

#[derive(Debug)]
struct State {
    vectors: Vec<VecDeque<usize>>,
    turns: Vec<Option<Turn>>,
    places: Vec<Place>,
    /// Sums over time: since when they are right, empty vectors and queued vCPUs times nanoseconds.
    summed_to: Instant,
    empty_ns: u128,
    queued_ns: u128,
    /// When each vCPU that slept was queued, if that is not among its events yet.
    woken: Vec<Option<u64>>,
    out: Dispatched,
    /// The figures of the run have been taken.
    closed: bool,
}

/// A vCPU with its records.
struct Slot<'a> {
    vcpu: &'a mut LabVcpu,
    account: ExitAccount,
    events: Events,
}

struct Dispatcher<'a> {
    config: Config,
    machine: &'a LabMachine,
    payload: &'a Payload,
    kicks: Vec<Kick>,
    slots: Vec<Mutex<Slot<'a>>>,
    placement: Placement,
    began: Instant,
    began_ticks: u64,
    state: Mutex<State>,
    /// Something was queued, or all is over.
    work: Condvar,
    /// The clock has something earlier to do.
    alarm: Condvar,
}

/// How often one who waits looks whether the run is over.
const END_POLL_INTERVAL: Duration = Duration::from_millis(10);

/// Runs the programs of all vCPUs of one VM.
pub fn dispatch(
    machine: &LabMachine,
    payload: &Payload,
    vcpus: &mut [LabVcpu],
    config: Config,
    watch: &Watch,
) -> Result<Dispatched, LabError> {
    let (count, threads) = (vcpus.len(), config.threads.max(1));
    let kicks: Vec<Kick> = vcpus.iter().map(LabVcpu::kick).collect();
    let mut vectors = vec![VecDeque::new(); threads];
    (0..count).for_each(|vcpu| vectors[vcpu % threads].push_back(vcpu));
    let slots = vcpus
        .iter_mut()
        .map(|vcpu| Mutex::new(Slot { vcpu, account: ExitAccount::default(), events: Events::default() }));
    let slots = slots.collect();
    let (began, began_ticks) = (Instant::now(), ticks());
    let state = State {
        vectors,
        turns: vec![None; threads],
        places: vec![Place::Queued; count],
        summed_to: began,
        empty_ns: 0,
        queued_ns: 0,
        woken: vec![None; count],
        out: Dispatched::default(),
        closed: false,
    };
    let it = Dispatcher {
        config: Config { threads, ..config },
        machine,
        payload,
        kicks: kicks.clone(),
        slots,
        placement: Placement::of_threads(machine.places(), threads, config.pin),
        began,
        began_ticks,
        state: Mutex::new(state),
        work: Condvar::new(),
        alarm: Condvar::new(),
    };
    let clock: Box<dyn FnOnce() -> Result<(), LabError> + Send + '_> = Box::new(|| it.clock(watch));
    let mut jobs = vec![clock];
    for thread in 0..threads {
        let it = &it;
        jobs.push(Box::new(move || it.run_thread(thread, watch)));
    }
    watch.run_jobs(&kicks, jobs)?;
    let mut state = it.state.into_inner().unwrap_or_else(PoisonError::into_inner);
    for slot in it.slots {
        let slot = slot.into_inner().unwrap_or_else(PoisonError::into_inner);
        state.out.account.merge(&slot.account);
        state.out.events.push(slot.events);
    }
    Ok(state.out)
}

/// What becomes of a vCPU after an exit.
enum Next {
    /// It goes on.
    Stay,
    /// This one runs instead, if it is still queued; the other one goes to the tail of the vector.
    Switch(usize),
    /// It leaves this CPU: asleep or done.
    Off(Place),
}

impl Dispatcher<'_> {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends slices, wakes sleepers, stops the programs when it is time.
    fn clock(&self, watch: &Watch) -> Result<(), LabError> {
        let stop_at = self.config.stop_after.map(|after| self.began + after);
        let clock = TickClock::new(self.machine);
        let mut state = self.lock();
        loop {
            if watch.is_over() {
                return Err(watch.why());
            }
            if state.all_done() {
                self.close(&mut state);
                self.work.notify_all();
                return Ok(());
            }
            let now = Instant::now();
            if stop_at.is_some_and(|at| at <= now) {
                self.close(&mut state);
                self.payload.stop();
            }
            let mut next = now + END_POLL_INTERVAL;
            if let Some(at) = stop_at.filter(|&at| at > now) {
                next = next.min(at);
            }
            for vcpu in 0..state.places.len() {
                match state.places[vcpu] {
                    Place::Asleep(until) if until <= now => {
                        state.sum(now);
                        state.queue_shortest(vcpu);
                        state.woken[vcpu] = Some(clock.ns(ticks()));
                        self.work.notify_one();
                    }
                    Place::Asleep(until) => next = next.min(until),
                    Place::Queued | Place::Running | Place::Done => {}
                }
            }
            let somebody_waits = state.vectors.iter().any(|vector| !vector.is_empty());
            for turn in state.turns.iter_mut().flatten() {
                if turn.kick_at <= now {
                    turn.kick_at = now + self.config.slice;
                    if somebody_waits {
                        self.kicks[turn.vcpu].kick();
                    }
                }
                next = next.min(turn.kick_at);
            }
            let wait = next.saturating_duration_since(now);
            state = self.alarm.wait_timeout(state, wait).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Takes the figures of the run; once.
    fn close(&self, state: &mut State) {
        if std::mem::replace(&mut state.closed, true) {
            return;
        }
        let now = Instant::now();
        state.sum(now);
        state.out.span = self.machine.span(self.began_ticks, ticks());
        state.out.counted = self.payload.counted(0..self.slots.len() as u32);
        let whole = ((now - self.began).as_nanos() * state.vectors.len() as u128).max(1) as f64;
        state.out.queue_empty = state.empty_ns as f64 / whole;
        state.out.queue_depth = state.queued_ns as f64 / whole;
    }

    /// A thread that runs one vCPU after the other.
    fn run_thread(&self, thread: usize, watch: &Watch) -> Result<(), LabError> {
        if self.config.name_threads {
            name_vcpu_thread(thread as u32);
        }
        self.placement.keep(thread);
        let clock = TickClock::new(self.machine);
        let mut vcpu = None;
        loop {
            let idle = vcpu.is_none();
            let running = match vcpu {
                Some(vcpu) => vcpu,
                None => match self.wait_for_work(thread, watch)? {
                    Some(vcpu) => vcpu,
                    None => return Ok(()),
                },
            };
            let mut slot = self.slots[running].lock().unwrap_or_else(PoisonError::into_inner);
            if self.config.events {
                let woken = self.lock().woken[running].take();
                let Slot { vcpu, events, .. } = &mut *slot;
                events.runs(vcpu, clock.ns(ticks()), thread as u32, woken, idle);
            }
            vcpu = self.run_vcpu(thread, &mut slot, &clock, watch)?;
        }
    }

    /// Runs a vCPU until another one is to run on this thread, or (`None`) whichever is next.
    fn run_vcpu(
        &self,
        thread: usize,
        slot: &mut Slot,
        clock: &TickClock,
        watch: &Watch,
    ) -> Result<Option<usize>, LabError> {
        let me = slot.vcpu.index() as usize;
        let mut answer = 0;
        loop {
            if self.config.events {
                slot.events.enter(slot.vcpu, clock.ns(ticks()), answer);
            }
            let exit = slot.vcpu.run()?;
            let begin = ticks();
            if self.config.events {
                slot.events.exit(slot.vcpu, clock.ns(begin), &exit);
            }
            if exit == KvmExit::Kicked && watch.is_over() {
                return Err(watch.why());
            }
            answer = 0;
            let mut state = self.lock();
            let next = match exit {
                KvmExit::Bell { bell: bell::DONE, .. } => Next::Off(Place::Done),
                KvmExit::Bell { bell: bell::PANIC, value } => {
                    return Err(LabError::Crash(format!("vCPU {me}: its payload gave up ({value})")));
                }
                KvmExit::Bell { bell: bell::YIELD, .. } => state.yield_to_anybody(thread, me),
                KvmExit::Bell { bell: bell::YIELD_TO, value } => state.yield_to(me, value as usize),
                KvmExit::Bell { bell: bell::SENSE, .. } => {
                    let whom = self.payload_page(slot).sense_whom as usize;
                    answer = u64::from(state.places.get(whom) == Some(&Place::Running));
                    Next::Stay
                }
                KvmExit::Bell { bell: bell::SLEEP, .. } => {
                    let length = Duration::from_nanos(self.payload_page(slot).sleep_ns);
                    Next::Off(Place::Asleep(Instant::now() + length))
                }
                KvmExit::Bell { bell: bell @ (bell::HALT | bell::WAKE | bell::REPLY), .. } => {
                    return Err(LabError::CannotDo(format!("the dispatcher knows no doorbell {bell}")));
                }
                _ => Next::Stay,
            };
            slot.vcpu.answer(answer);
            slot.account.record(LabExitReason::of(&exit), LabHandler::Doorbell, clock.length(ticks() - begin));
            match self.go_on(&mut state, thread, me, next) {
                Some(vcpu) if vcpu == me => {}
                other => {
                    if self.config.events {
                        let sleeps = state.places[me] != Place::Queued;
                        slot.events.leaves(slot.vcpu, clock.ns(ticks()), sleeps, other.map(|vcpu| vcpu as u32));
                    }
                    return Ok(other);
                }
            }
        }
    }

    /// The page of the vCPU, which does not run.
    fn payload_page(&self, slot: &Slot) -> VcpuPage {
        self.payload.page(slot.vcpu.index())
    }

    /// Who runs on this thread from now on; `None`: nobody is there.
    fn go_on(&self, state: &mut State, thread: usize, me: usize, next: Next) -> Option<usize> {
        let now = Instant::now();
        let slice_is_over = state.turns[thread].is_none_or(|turn| turn.slice_end <= now);
        let next = match next {
            Next::Stay if slice_is_over => match state.vectors[thread].front() {
                Some(&waiting) => {
                    state.out.preemptions += 1;
                    Next::Switch(waiting)
                }
                None => {
                    state.begin_turn(thread, me, now, self.config.slice);
                    Next::Stay
                }
            },
            next => next,
        };
        let to = match next {
            Next::Stay => return Some(me),
            Next::Switch(to) => {
                state.sum(now);
                state.places[me] = Place::Queued;
                state.vectors[thread].push_back(me);
                Some(to)
            }
            Next::Off(place) => {
                state.sum(now);
                state.places[me] = place;
                None
            }
        };
        state.turns[thread] = None;
        self.payload.running(me as u32).store(0, std::sync::atomic::Ordering::SeqCst);
        match next {
            Next::Off(Place::Asleep(_)) => self.alarm.notify_all(),
            Next::Off(Place::Done) if state.all_done() => self.alarm.notify_all(),
            _ => {}
        }
        self.take(state, thread, to)
    }

    /// Takes `wanted`, or the head of this thread's vector, or of the longest other one.
    fn take(&self, state: &mut State, thread: usize, wanted: Option<usize>) -> Option<usize> {
        let now = Instant::now();
        state.sum(now);
        let vcpu = match wanted {
            Some(vcpu) => {
                state.vectors.iter_mut().for_each(|vector| vector.retain(|&queued| queued != vcpu));
                Some(vcpu)
            }
            None => state.vectors[thread]
                .pop_front()
                .or_else(|| state.vectors.iter_mut().max_by_key(|vector| vector.len()).and_then(VecDeque::pop_front)),
        }?;
        state.places[vcpu] = Place::Running;
        state.begin_turn(thread, vcpu, now, self.config.slice);
        self.payload.running(vcpu as u32).store(1, std::sync::atomic::Ordering::SeqCst);
        self.alarm.notify_all();
        Some(vcpu)
    }

    /// `None`: every program is over.
    fn wait_for_work(&self, thread: usize, watch: &Watch) -> Result<Option<usize>, LabError> {
        let mut state = self.lock();
        loop {
            if watch.is_over() {
                return Err(watch.why());
            }
            if state.all_done() {
                return Ok(None);
            }
            if let Some(vcpu) = self.take(&mut state, thread, None) {
                return Ok(Some(vcpu));
            }
            state = self.work.wait_timeout(state, END_POLL_INTERVAL).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl State {
    fn all_done(&self) -> bool {
        self.places.iter().all(|&place| place == Place::Done)
    }

    /// Brings the sums over time up to now; before every change of the vectors.
    fn sum(&mut self, now: Instant) {
        let ns = now.saturating_duration_since(self.summed_to).as_nanos();
        self.summed_to = now;
        self.empty_ns += ns * self.vectors.iter().filter(|vector| vector.is_empty()).count() as u128;
        self.queued_ns += ns * self.vectors.iter().map(VecDeque::len).sum::<usize>() as u128;
    }

    fn begin_turn(&mut self, thread: usize, vcpu: usize, now: Instant, slice: Duration) {
        self.turns[thread] = Some(Turn { vcpu, kick_at: now + slice, slice_end: now + slice });
    }

    fn queue_shortest(&mut self, vcpu: usize) {
        self.places[vcpu] = Place::Queued;
        if let Some(vector) = self.vectors.iter_mut().min_by_key(|vector| vector.len()) {
            vector.push_back(vcpu);
        }
    }

    /// X'44'.
    fn yield_to_anybody(&mut self, thread: usize, me: usize) -> Next {
        let any_queued = self.vectors.iter().any(|vector| !vector.is_empty());
        if diag44(any_queued) == Diag44::FastPath {
            self.out.fast_path += 1;
            return Next::Stay;
        }
        self.out.normal_path += 1;
        let vector: Vec<Waiting> = self.vectors[thread].iter().map(|&vcpu| waiting(vcpu)).collect();
        pick_undirected(&vector, waiting(me)).map_or(Next::Stay, |at| Next::Switch(self.vectors[thread][at]))
    }

    /// X'9C'.
    fn yield_to(&mut self, me: usize, whom: usize) -> Next {
        let target = match self.places.get(whom) {
            _ if whom == me => Target::Caller,
            None => Target::Missing,
            Some(Place::Queued) => Target::Queued,
            Some(Place::Running) => Target::Running { preempted: false },
            Some(Place::Asleep(_)) => Target::Idle,
            Some(Place::Done) => Target::NotReady,
        };
        match diag9c(target, || None) {
            Diag9cOutcome::Run => {
                self.out.directed += 1;
                return Next::Switch(whom);
            }
            Diag9cOutcome::Ignored(Diag9cIgnored::AlreadyDispatched) => self.out.already_running += 1,
            Diag9cOutcome::Ignored(_) | Diag9cOutcome::Forwarded => self.out.ignored_otherwise += 1,
        }
        Next::Stay
    }
}

fn waiting(vcpu: usize) -> Waiting {
    Waiting { vm: VmId(0), vcpu: VcpuId(vcpu as u32) }
}
