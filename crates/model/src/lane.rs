//! A lane: the thing on which at most one exit is open.

use crate::halt::Halting;
use crate::{
    Detail, Door, Event, Exit, ExitCode, Halt, Kind, Ledger, Line, Mark, PollChange, PortWords, Rows, RunState, Step,
    Told, Way, Who, Yield,
};
use exitscope_units::{Moment, Nanos, PcpuId, Tid, VcpuId, VmId};

mod steps;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Before the first entry or exit, or after a loss.
    Unknown,
    Guest,
    Kernel,
    User,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Run {
    Running,
    Sleeping,
    /// Woken, and waits for a CPU.
    Runnable,
    /// Lost its CPU, and waits for one.
    Preempted,
    /// Xen: waits for an event.
    Blocked,
    /// Xen: waits for the device model.
    Offline,
    /// Xen: paused.
    Paused,
}

impl Run {
    /// Xen: what a change of run states makes of it.
    pub fn of(from: RunState, to: RunState) -> Run {
        match to {
            RunState::Running => Run::Running,
            RunState::Runnable if from == RunState::Running => Run::Preempted,
            RunState::Runnable => Run::Runnable,
            RunState::Blocked => Run::Blocked,
            RunState::Offline => Run::Offline,
            RunState::Paused => Run::Paused,
        }
    }

    /// Whether it could run and does not.
    pub fn waits(self) -> bool {
        matches!(self, Run::Runnable | Run::Preempted)
    }
}

/// The scheduler has not said yet.
pub const NO_CPU: PcpuId = PcpuId(u32::MAX);

#[derive(Clone, Debug)]
pub struct Lane {
    pub who: Who,
    pub state: State,
    pub run: Run,
    /// The CPU that it ran on last, as the scheduler says.
    pub ran_on: PcpuId,
    /// Up to when time is accounted.
    pub since: Moment,
    /// First and last entry or exit.
    pub span: Option<(Moment, Moment)>,
    pub open: Option<Exit>,
    /// The step of its way that the open exit is in, and what it had cost when that began.
    pub step: Step,
    pub cost_before: Nanos,
    /// What the open exit says of a port access.
    pub words: PortWords,
    /// It is in user space because it was kicked out, not because the guest wants something.
    pub kicked: bool,
    /// The open exit is on its way to user space, and this is the time that it was there before.
    pub returning: Option<Nanos>,
    /// The system call that user space makes for the open exit: since when, and whether it is about registers.
    pub call: Option<(Moment, bool)>,
    /// A detail that came before its exit (back ends without `kvm_exit`).
    pub early: Option<Detail>,
    pub early_events: u32,
    /// Guest time since the last row.
    pub guest: Nanos,
    /// The first row of a lane where no `kvm_exit` or `kvm_entry` was seen yet: real only if another follows.
    pub held: Option<Exit>,
    /// A row without `kvm_exit` whose end is known, waiting for the detail that comes after re-entry.
    pub closed: Option<Exit>,
    pub hardware: bool,
    pub rows_without_hardware: bool,
    pub halt: Halting,
    /// A yield whose exit is open.
    pub yielding: Option<Yield>,
    /// Whether the last entry was from a yield.
    pub after_yield: bool,
    /// The last entry into the guest; where kvm_entry never fires, into `KVM_RUN`.
    pub entered: Option<Moment>,
    /// Whether its thread lost its CPU since the last yield.
    pub was_out: bool,
}

impl Lane {
    /// Uses one event of this lane.
    #[inline]
    pub fn take(&mut self, event: &Event, rows: &mut impl Rows, halts: &mut Vec<Halt>, ledger: &mut Ledger) {
        match event.kind {
            Kind::Exit { code, idle, words, rip } => {
                self.halt.exit(event.at, code.is_idle(), halts);
                self.exit(event, code, idle, rip, rows, ledger);
                self.words = words;
                return;
            }
            Kind::Enter => {
                let idle = self.open.as_ref().is_some_and(|exit| exit.is_idle);
                self.halt.enter(event.at, self.who, idle, halts);
                return self.enter(event, rows, ledger);
            }
            Kind::UserspaceExit { reason, errno } => return self.userspace_exit(event, reason, errno, rows, ledger),
            Kind::Fpu { load: true } | Kind::RunEnter => return self.run_enter(event.at, ledger),
            Kind::Detail(detail) => return self.detail(event.at, detail, rows, ledger),
            Kind::Fpu { load: false } => self.leave(event.at),
            Kind::Leave => self.leave_unsaid(event.at),
            Kind::Refine { code } => self.refine(event.at, code, halts),
            Kind::Call { registers } => self.call(event.at, registers),
            Kind::CallEnd => self.call_end(event.at),
            Kind::Emulate => {
                if let Some(exit) = &mut self.open {
                    exit.way.mark(Mark::Emulated);
                }
            }
            Kind::HaltEnd { ns, waited, valid } => {
                self.halt.told(event.at, self.who, Told { length: Nanos(ns), waited, valid }, halts);
                self.account(event.at);
                self.go(self.step);
                if let Some(exit) = &mut self.open {
                    exit.halted(Nanos(ns));
                    self.cost_before = exit.cost();
                }
            }
            Kind::Inject { vector } => {
                if let Some(exit) = &mut self.open {
                    exit.injected = Some(vector);
                }
            }
            Kind::Wfx { wfe: true } => {
                if let Some(exit) = &mut self.open {
                    exit.not_idle_after_all();
                }
            }
            Kind::HaltPoll { grow, new, old } => {
                self.halt.change = Some(PollChange { grow, new, old });
                self.learn_vcpu(event.vcpu);
            }
            Kind::VcpuHint | Kind::PleWindow { .. } => self.learn_vcpu(event.vcpu),
            _ => {}
        }
        self.note(ledger);
    }

    fn learn_vcpu(&mut self, vcpu: VcpuId) {
        if self.who.vcpu == VcpuId::UNKNOWN {
            self.who.vcpu = vcpu;
        }
    }

    pub fn new(who: Who) -> Lane {
        Lane {
            who,
            state: State::Unknown,
            run: Run::Running,
            ran_on: NO_CPU,
            since: Moment::default(),
            span: None,
            open: None,
            step: Step::Reaching,
            cost_before: Nanos::ZERO,
            words: PortWords::NONE,
            kicked: false,
            returning: None,
            call: None,
            early: None,
            early_events: 0,
            guest: Nanos::ZERO,
            held: None,
            closed: None,
            hardware: false,
            rows_without_hardware: false,
            halt: Halting::default(),
            yielding: None,
            after_yield: false,
            entered: None,
            was_out: false,
        }
    }

    /// Charges the time since the last call to what the lane was doing.
    #[inline(always)]
    pub fn account(&mut self, now: Moment) {
        let Some(spent) = now.since(self.since) else { return };
        self.since = now;
        match &mut self.open {
            Some(exit) if self.run.waits() || self.run == Run::Paused => exit.waiting = exit.waiting.plus(spent),
            Some(exit) if self.run.waits_for_device_model(exit.code) => {
                exit.user = exit.user.plus(spent);
                exit.door = Door::DeviceModel;
            }
            Some(exit) if self.run == Run::Offline => exit.waiting = exit.waiting.plus(spent),
            Some(exit) if exit.is_idle || self.run == Run::Blocked => exit.idle = exit.idle.plus(spent),
            // Nobody works for the guest then: whoever kicked it out wants it to wait.
            Some(exit) if self.kicked && self.state == State::User && self.run == Run::Sleeping => {
                exit.idle = exit.idle.plus(spent);
            }
            Some(exit) if self.state == State::User => exit.user = exit.user.plus(spent),
            Some(exit) => exit.kernel = exit.kernel.plus(spent),
            None if self.state == State::Guest && self.run == Run::Running => self.guest = self.guest.plus(spent),
            None => {}
        }
    }

    /// Counts an event into the open exit, or as outside any.
    #[inline]
    fn note(&mut self, ledger: &mut Ledger) {
        match &mut self.open {
            Some(exit) => exit.events += 1,
            None => ledger.count(Line::OutsideExit),
        }
    }

    /// Counts a scheduler's event into the open exit; false if none is open.
    pub fn take_scheduler(&mut self) -> bool {
        match &mut self.open {
            Some(exit) => {
                exit.events += 1;
                true
            }
            None => false,
        }
    }

    fn heard(&mut self, at: Moment) {
        let first = self.span.map_or(at, |span| span.0);
        self.span = Some((first, at.max(self.since)));
    }

    #[inline(always)]
    fn open_row(&mut self, event: &Event, code: ExitCode, idle: bool, rip: u64) -> &mut Exit {
        let row = Exit {
            at: event.at,
            who: Who { vm: VmId::UNKNOWN, vcpu: VcpuId::UNKNOWN, tid: Tid(0) },
            cpu: event.cpu,
            code,
            rip,
            info: crate::ExitInfo::default(),
            door: Door::Kernel,
            detail: None,
            injected: None,
            guest: std::mem::take(&mut self.guest),
            kernel: Nanos::ZERO,
            user: Nanos::ZERO,
            idle: Nanos::ZERO,
            waiting: Nanos::ZERO,
            way: Way::default(),
            timed: true,
            is_idle: idle || code.is_idle(),
            events: 1,
        };
        let exit = self.open.insert(row);
        // On its own: all the rest are constants or in registers.
        exit.who = self.who;
        exit
    }

    fn exit(&mut self, event: &Event, code: ExitCode, idle: bool, rip: u64, rows: &mut impl Rows, ledger: &mut Ledger) {
        self.account(event.at);
        if self.open.is_some() {
            ledger.count(Line::ExitWithoutEntry);
            self.cut().iter().for_each(|exit| rows.take(exit));
        }
        if self.early_events > 0 {
            ledger.add(Line::OutsideExit, u64::from(std::mem::take(&mut self.early_events)));
            self.early = None;
        }
        self.since = event.at;
        self.heard(event.at);
        self.open_row(event, code, idle, rip);
        self.state = State::Kernel;
        self.step = Step::Reaching;
        self.cost_before = Nanos::ZERO;
    }

    fn enter(&mut self, event: &Event, rows: &mut impl Rows, ledger: &mut Ledger) {
        self.account(event.at);
        self.heard(event.at);
        self.go(Step::Reaching);
        match &mut self.open {
            Some(exit) => {
                exit.events += 1;
                exit.who = self.who;
                if exit.total() == Nanos::ZERO {
                    ledger.count(Line::NoLength);
                }
                exit.complete(self.words);
                rows.take(exit);
                self.open = None;
            }
            None => ledger.count(Line::EntryWithoutExit),
        }
        self.since = event.at;
        self.state = State::Guest;
    }

    /// Rows in hand were the tail of an exit before the recording. If others have left, the lane had begun before.
    pub fn let_go(&mut self, ledger: &mut Ledger) {
        for exit in [self.held.take(), self.closed.take(), self.open.take()].into_iter().flatten() {
            ledger.add(Line::BeforeRecording, u64::from(exit.events));
        }
        if !self.rows_without_hardware {
            self.span = None;
        }
    }

    fn userspace_exit(&mut self, event: &Event, reason: u32, errno: i32, rows: &mut impl Rows, ledger: &mut Ledger) {
        let code = ExitCode::of_userspace(reason, errno);
        let reason = code.number as u32;
        self.hand_over();
        self.account(event.at);
        self.kicked = steps::was_kicked(code, errno);
        if let Some(exit) = &mut self.open {
            exit.door = Door::Userspace(reason);
            exit.events += 1;
            exit.way.mark(Mark::Handed);
            if exit.way.handed == Nanos::ZERO {
                exit.way.handed = event.at.since(exit.at).unwrap_or_default();
            }
            self.state = State::User;
            self.go(Step::User);
            self.returning = self.open.as_ref().map(|exit| exit.way.time(Step::User));
            return;
        }
        if self.hardware {
            ledger.count(Line::OutsideExit);
            return;
        }
        self.settle_closed(rows);
        if let Some(held) = self.held.take() {
            self.rows_without_hardware = true;
            rows.take(&held);
        }
        self.since = event.at;
        self.heard(event.at);
        self.guest = Nanos::ZERO;
        let (detail, events) = (self.early.take(), std::mem::take(&mut self.early_events));
        let exit = self.open_row(event, code, false, 0);
        exit.door = Door::Userspace(reason);
        exit.way.mark(Mark::Handed);
        exit.detail = detail;
        exit.events += events;
        self.state = State::User;
        self.step = Step::User;
        self.cost_before = Nanos::ZERO;
        self.returning = Some(Nanos::ZERO);
    }

    /// `KVM_RUN` is entered again.
    fn run_enter(&mut self, at: Moment, ledger: &mut Ledger) {
        self.account(at);
        self.note(ledger);
        if let Some(exit) = &mut self.open {
            if self.state == State::User {
                exit.way.answered = at.since(exit.at).unwrap_or_default();
            }
            exit.way.mark(Mark::Called);
            self.go(Step::Entering);
        }
        self.call = None;
        self.state = State::Kernel;
        if !self.hardware
            && let Some(exit) = self.open.take()
        {
            self.heard(at);
            self.closed = Some(exit);
        }
    }

    /// A row without `kvm_exit` whose end is known leaves.
    pub fn settle_closed(&mut self, rows: &mut impl Rows) {
        if let Some(exit) = self.closed.take() {
            match (self.rows_without_hardware, self.held.take()) {
                (false, None) => self.held = Some(exit),
                (_, held) => {
                    self.rows_without_hardware = true;
                    held.iter().for_each(|held| rows.take(held));
                    rows.take(&exit);
                }
            }
        }
    }

    fn detail(&mut self, at: Moment, detail: Detail, rows: &mut impl Rows, ledger: &mut Ledger) {
        self.account(at);
        self.reach();
        // An emulated access that goes on after user space: its completion is in the kernel again.
        if self.state == State::User && self.open.is_some() {
            self.state = State::Kernel;
            self.go(Step::Entering);
        }
        if let Some(exit) = &mut self.open {
            exit.events += 1;
            if exit.detail.is_none_or(|known| known.kind < detail.kind) {
                exit.detail = Some(detail);
            } else if let Some(known) = &mut exit.detail {
                // The completion of a read carries the value that the first mention lacked.
                if known.kind == detail.kind && known.key == detail.key && !detail.write {
                    known.value = detail.value;
                }
            }
            return;
        }
        if self.hardware {
            ledger.count(Line::OutsideExit);
            return;
        }
        // No kvm_exit here: a read's detail comes after re-entry, a write's before the return to user space.
        if let Some(exit) = &mut self.closed {
            let completes = match exit.detail {
                None => !detail.write,
                Some(known) => known.kind == detail.kind && known.key == detail.key && !detail.write && !known.write,
            };
            if completes {
                exit.detail = Some(detail);
                exit.events += 1;
                self.settle_closed(rows);
                return;
            }
        }
        self.settle_closed(rows);
        self.early = Some(detail);
        self.early_events += 1;
    }
}
