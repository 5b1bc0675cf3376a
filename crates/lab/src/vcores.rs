//! vCPUs that enter the guest together and leave it together, as the hardware threads of a powerpc core must: the policy
//! crate's `Vcore`, with a host thread for each hardware thread, and kicks for the interrupts between them.
//!
//! ```text
//! all that are runnable have arrived ─► enter together ─► one comes out ─► kicks the others ─► all are out ─► its exit is
//!           ▲                                │                                                     │          answered
//!           │                                └─ halts: naps, until somebody leaves                 │             │
//!           └──────────────────────────────────────────────────────────────────────────────────────┴─────────────┘
//! ```

use crate::abi::bell;
use crate::events::Events;
use crate::exit_account::{ExitAccount, LabExitReason, LabHandler};
use crate::placement::Placement;
use crate::run_loop::TickClock;
use crate::{Kick, KvmExit, LabError, LabMachine, LabVcpu, Payload, Span, Watch, ticks};
use exitscope_policy::vcore::{self, Cede, CoreRunClass, Enter, H_DOORBELL, ThreadExit, ThreadMask, Vcore};
use exitscope_units::VcpuId;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The trap of a thread that leaves for a reason of its own: a system call.
const OWN: u16 = 0xc00;

/// How often one who waits looks whether the run is over.
const END_POLL_INTERVAL: Duration = Duration::from_millis(10);

/// What happened in the virtual cores.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GangCounts {
    /// Runs of a virtual core: from entering together until all were out.
    pub runs: u64,
    /// Of these, those in which one's exit took others along that worked.
    pub ganged: u64,
    /// Threads that worked and were taken along.
    pub forced: u64,
    /// Threads that left for a reason of their own.
    pub own: u64,
    /// Napping threads that had to leave, too.
    pub napping: u64,
}

impl GangCounts {
    /// These and those.
    fn and(self, other: GangCounts) -> GangCounts {
        GangCounts {
            runs: self.runs + other.runs,
            ganged: self.ganged + other.ganged,
            forced: self.forced + other.forced,
            own: self.own + other.own,
            napping: self.napping + other.napping,
        }
    }
}

/// What a run was.
#[derive(Clone, Debug, Default)]
pub struct Ganged {
    /// From the beginning until the programs were told to stop, or were all over.
    pub span: Span,
    /// What vCPU 0's program had counted at that moment.
    pub counted: u64,
    /// Of all virtual cores, until then: how programs end is no part of it.
    pub gangs: GangCounts,
    /// Exits to user space, by vCPU.
    pub accounts: Vec<ExitAccount>,
    /// Of each vCPU, how long it was outside the guest, from an exit to the next entry.
    pub outside: Vec<Duration>,
    /// The events of each vCPU, if they are kept.
    pub events: Vec<Events>,
}

#[derive(Debug, Default)]
struct State {
    vcore: Vcore,
    /// Threads that want to be in the guest whenever the virtual core is.
    runnable: ThreadMask,
    /// Those of them that wait to enter.
    arrived: ThreadMask,
    /// Counts the runs that began.
    run: u64,
    /// Between the first entry and the last exit of a run.
    inside: bool,
    left: Vec<ThreadExit>,
    gangs: GangCounts,
}

/// A virtual core and the threads that carry it.
struct Core {
    kicks: Vec<Kick>,
    state: Mutex<State>,
    moved: Condvar,
}

/// What one thread does: serves a vCPU, or ends them all in time.
type Job<'a> = Box<dyn FnOnce() -> Result<Done, LabError> + Send + 'a>;

/// How to run virtual cores.
#[derive(Clone, Copy, Debug)]
pub struct GangConfig {
    /// How vCPUs are grouped.
    pub params: vcore::Params,
    /// The first vCPUs, which do not halt.
    pub working: usize,
    /// Tell the programs to stop after so long; `None`: they end by themselves.
    pub stop_after: Option<Duration>,
    /// Whether those that work are kept on a CPU each.
    pub pin: bool,
    /// Whether events are kept.
    pub events: bool,
}

/// Runs the first vCPUs' programs. A vCPU that halts is not woken any more, as nobody here is there to do so.
pub fn run(
    machine: &LabMachine,
    payload: &Payload,
    vcpus: &mut [LabVcpu],
    config: &GangConfig,
    watch: &Watch,
) -> Result<Ganged, LabError> {
    let (params, events) = (&config.params, config.events);
    let placement = Placement::of_threads(machine.places(), config.working, config.pin);
    let all_kicks: Vec<Kick> = vcpus.iter().map(LabVcpu::kick).collect();
    let width = params.smt_mode.max(1) as usize;
    let cores: Vec<Core> = all_kicks.chunks(width).map(Core::new).collect();
    let (stopper, began) = (Stopper::new(vcpus.len()), ticks());
    let mut jobs: Vec<Job<'_>> = Vec::new();
    for vcpu in vcpus.iter_mut() {
        let id = VcpuId(vcpu.index());
        let (core, thread) = (&cores[params.vcore_of(id) as usize], params.thread_of(id));
        let (stopper, placement) = (&stopper, &placement);
        jobs.push(Box::new(move || {
            placement.keep(vcpu.index() as usize);
            let served = core.serve(machine, vcpu, thread, events, stopper, watch)?;
            stopper.one_is_done();
            Ok(Done::Served(served))
        }));
    }
    jobs.push(Box::new(|| {
        stopper.wait(config.stop_after, watch)?;
        // Counted before those that nap may leave, and with them the others.
        let gangs = cores.iter().fold(GangCounts::default(), |sum, core| sum.and(core.lock().gangs));
        let (counted, end) = (payload.counted(0..1), ticks());
        stopper.stop();
        payload.stop();
        cores.iter().for_each(|core| core.moved.notify_all());
        Ok(Done::Gangs(gangs, counted, end))
    }));
    let done = watch.run_jobs(&all_kicks, jobs)?;
    let mut out = Ganged::default();
    for done in done {
        match done {
            Done::Served(served) => {
                out.accounts.push(served.account);
                out.outside.push(served.outside);
                out.events.push(served.events);
            }
            Done::Gangs(gangs, counted, end) => {
                (out.gangs, out.counted, out.span) = (gangs, counted, machine.span(began, end));
            }
        }
    }
    Ok(out)
}

/// What a thread did.
enum Done {
    Served(Served),
    /// What was counted when the programs were told to stop, and when that was.
    Gangs(GangCounts, u64, u64),
}

/// What one vCPU's run was.
struct Served {
    account: ExitAccount,
    outside: Duration,
    events: Events,
}

impl Core {
    fn new(kicks: &[Kick]) -> Core {
        let runnable = (0..kicks.len() as u32).fold(ThreadMask::NONE, |all, thread| all.and(ThreadMask::one(thread)));
        let state = Mutex::new(State { runnable, ..State::default() });
        Core { kicks: kicks.to_vec(), state, moved: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&'a self, state: MutexGuard<'a, State>, watch: &Watch) -> Result<MutexGuard<'a, State>, LabError> {
        if watch.is_over() {
            return Err(watch.why());
        }
        Ok(self.moved.wait_timeout(state, END_POLL_INTERVAL).unwrap_or_else(PoisonError::into_inner).0)
    }

    /// Runs a thread's vCPU until its program is over, or it halted and the run ends.
    fn serve(
        &self,
        machine: &LabMachine,
        vcpu: &mut LabVcpu,
        thread: u32,
        events: bool,
        stopper: &Stopper,
        watch: &Watch,
    ) -> Result<Served, LabError> {
        let clock = TickClock::new(machine);
        let mut served = Served { account: ExitAccount::default(), outside: Duration::ZERO, events: Events::default() };
        let mut answer = 0;
        let mut out_since: Option<u64> = None;
        loop {
            self.enter(vcpu, thread, watch)?;
            if let Some(begin) = out_since {
                served.outside += Duration::from_nanos(clock.length(ticks() - begin));
            }
            if events {
                served.events.enter(vcpu, clock.ns(ticks()), answer);
            }
            let exit = self.next_exit(vcpu, watch)?;
            let begin = ticks();
            if events {
                served.events.exit(vcpu, clock.ns(begin), &exit);
            }
            answer = 0;
            let halts = matches!(exit, KvmExit::Bell { bell: bell::HALT, .. } | KvmExit::Halt);
            let ends = matches!(exit, KvmExit::Bell { bell: bell::DONE, .. });
            if let KvmExit::Bell { bell: bell::PANIC, value } = exit {
                return Err(LabError::Crash(format!("vCPU {}: its payload gave up ({value})", vcpu.index())));
            }
            match halts {
                true => self.cede(thread, stopper, watch)?,
                false => self.leave(thread, if exit == KvmExit::Kicked { H_DOORBELL } else { OWN }, ends, watch)?,
            }
            vcpu.answer(answer);
            served.account.record(LabExitReason::of(&exit), LabHandler::Doorbell, clock.length(ticks() - begin));
            if halts || ends {
                return Ok(served);
            }
            out_since = Some(begin);
        }
    }

    /// Runs the guest until it comes out; a kick that came late, after its virtual core had left, is none.
    fn next_exit(&self, vcpu: &mut LabVcpu, watch: &Watch) -> Result<KvmExit, LabError> {
        loop {
            let exit = vcpu.run()?;
            if exit == KvmExit::Kicked && watch.is_over() {
                return Err(watch.why());
            }
            if exit != KvmExit::Kicked || self.lock().vcore.leaves() {
                return Ok(exit);
            }
        }
    }

    /// Waits until all runnable threads are there, and is in the guest's context with them.
    fn enter(&self, vcpu: &LabVcpu, thread: u32, watch: &Watch) -> Result<(), LabError> {
        let mut state = self.lock();
        // Whoever kicked in the last run did so before that was over.
        vcpu.forget_kick();
        let run = state.run;
        state.arrived = state.arrived.and(ThreadMask::one(thread));
        self.begin_if_all_are_there(&mut state);
        while state.run == run {
            state = self.wait(state, watch)?;
        }
        Ok(())
    }

    fn begin_if_all_are_there(&self, state: &mut State) {
        if state.inside || state.runnable == ThreadMask::NONE || state.arrived != state.runnable {
            return;
        }
        let entered = (0..self.kicks.len() as u32)
            .filter(|&thread| state.arrived.contain(ThreadMask::one(thread)))
            .all(|thread| state.vcore.enter(thread) == Enter::Entered);
        assert!(entered, "nobody leaves before somebody has entered");
        state.arrived = ThreadMask::NONE;
        state.inside = true;
        state.run += 1;
        self.moved.notify_all();
    }

    /// Leaves, takes the others along if this thread is the first, and waits until all are out.
    fn leave(&self, thread: u32, trap: u16, for_good: bool, watch: &Watch) -> Result<(), LabError> {
        let mut state = self.lock();
        let run = state.run;
        if for_good {
            state.runnable = state.runnable.without(ThreadMask::one(thread));
        }
        self.exit(&mut state, thread, trap, false);
        // The core may be in its next run already, if this thread is not of it.
        while state.inside && state.run == run {
            state = self.wait(state, watch)?;
        }
        Ok(())
    }

    /// Naps until the others leave, which takes this thread along, or until the run ends.
    fn cede(&self, thread: u32, stopper: &Stopper, watch: &Watch) -> Result<(), LabError> {
        let mut state = self.lock();
        state.runnable = state.runnable.without(ThreadMask::one(thread));
        match state.vcore.cede(thread) {
            Cede::Naps => {
                while !state.vcore.leaves() && !stopper.is_stopped() {
                    state = self.wait(state, watch)?;
                }
                self.exit(&mut state, thread, H_DOORBELL, true);
            }
            Cede::Leaves => self.exit(&mut state, thread, OWN, true),
            Cede::TooLate => self.exit(&mut state, thread, H_DOORBELL, true),
        }
        Ok(())
    }

    fn exit(&self, state: &mut State, thread: u32, trap: u16, ceded: bool) {
        let others = state.vcore.exit(thread, trap);
        state.left.push(ThreadExit { trap, ceded });
        for (at, kick) in self.kicks.iter().enumerate() {
            if others.contain(ThreadMask::one(at as u32)) {
                kick.kick();
            }
        }
        if state.vcore.finish() {
            self.count(state);
            state.inside = false;
            self.begin_if_all_are_there(state);
        }
        self.moved.notify_all();
    }

    /// One run is over.
    fn count(&self, state: &mut State) {
        let left = std::mem::take(&mut state.left);
        let gangs = &mut state.gangs;
        gangs.runs += 1;
        gangs.napping += left.iter().filter(|left| left.ceded).count() as u64;
        gangs.own += left.iter().filter(|left| !left.ceded && left.trap == OWN).count() as u64;
        if let CoreRunClass::Ganged { forced, .. } = vcore::gang(left, H_DOORBELL) {
            gangs.ganged += 1;
            gangs.forced += u64::from(forced);
        }
    }
}

/// When the programs are told to stop: after a while, or when all are over by themselves.
struct Stopper {
    left: Mutex<(usize, bool)>,
    done: Condvar,
}

impl Stopper {
    fn new(vcpus: usize) -> Stopper {
        Stopper { left: Mutex::new((vcpus, false)), done: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, (usize, bool)> {
        self.left.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn one_is_done(&self) {
        self.lock().0 -= 1;
        self.done.notify_all();
    }

    fn is_stopped(&self) -> bool {
        self.lock().1
    }

    fn stop(&self) {
        self.lock().1 = true;
    }

    fn wait(&self, length: Option<Duration>, watch: &Watch) -> Result<(), LabError> {
        let until = length.map(|length| Instant::now() + length);
        let mut left = self.lock();
        loop {
            let now = Instant::now();
            if left.0 == 0 || until.is_some_and(|until| until <= now) {
                return Ok(());
            }
            if watch.is_over() {
                return Err(watch.why());
            }
            let wait = until.map_or(END_POLL_INTERVAL, |until| END_POLL_INTERVAL.min(until - now));
            left = self.done.wait_timeout(left, wait).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}
