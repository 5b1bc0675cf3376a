//! A lane: the thing on which at most one exit is open.

use crate::beside_row::BesideRows;
use crate::codes::{DEVICE_VECTORS, UserStay};
use crate::halt::OpenHalt;
use crate::{
    AllParts, Event, EventKind, Exit, ExitCode, ExitParts, ExitPhase, ExitPhases, ExitSink, Handler, Ledger,
    LedgerLine, PhaseBoundary, PollChange, RunState, Subject, SubjectKind, SubjectWord, TimePart, VcpuIdentity,
    VcpuWakeup, Yield,
};
use exitscope_units::{Moment, Nanos, PcpuId, Tid, VcpuId, VmId};

mod blocks;
mod cpu_intervals;
mod phase_events;
mod xen;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LanePosition {
    /// Before the first entry or exit, or after a loss.
    Unknown,
    Guest,
    Kernel,
    UserSpace,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LaneRunState {
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
    /// Xen: another vCPU has its CPU, and nothing said what became of it.
    Untold,
}

impl LaneRunState {
    /// Xen: what a change of run states makes of it.
    pub fn of(from: RunState, to: RunState) -> LaneRunState {
        match to {
            RunState::Running => LaneRunState::Running,
            RunState::Runnable if from == RunState::Running => LaneRunState::Preempted,
            RunState::Runnable => LaneRunState::Runnable,
            RunState::Blocked => LaneRunState::Blocked,
            RunState::Offline => LaneRunState::Offline,
            RunState::Paused => LaneRunState::Paused,
        }
    }

    /// Xen: whether it is in this run state. Of one that is not told apart, whether it may be.
    pub fn is(self, state: RunState) -> bool {
        match state {
            _ if self == LaneRunState::Untold => true,
            RunState::Running => self == LaneRunState::Running,
            RunState::Runnable => self.waits(),
            RunState::Blocked => self == LaneRunState::Blocked,
            RunState::Offline | RunState::Paused => matches!(self, LaneRunState::Offline | LaneRunState::Paused),
        }
    }

    /// Whether it could run and does not.
    pub fn waits(self) -> bool {
        matches!(self, LaneRunState::Runnable | LaneRunState::Preempted)
    }
}

/// The scheduler has not said yet.
pub const NO_CPU: PcpuId = PcpuId(u32::MAX);

/// What a recording is known to hold, which decides what is made of what it lacks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecordedTracepoints {
    /// `kvm_exit` and `kvm_entry`.
    pub hardware: bool,
    /// Exits out of the guest: without them nothing says how long an entry was for.
    pub exits: bool,
    /// Entries into KVM_RUN: `kvm_fpu`, `sys_enter_ioctl`.
    pub runs: bool,
    /// `sched_switch` of threads; on Xen, run states.
    pub switches: bool,
    /// One of those has come: perf lists `sched_switch` also where it never fires, as on a host whose tracer may not see it.
    pub switched: bool,
    /// `kvm_vcpu_wakeup`: a halt of which it does not tell found an event pending. So it is on Xen, which does not poll.
    pub halts: bool,
    /// `kvm_halt_poll_ns`: a poll that failed is told.
    pub polls: bool,
    /// The host does not poll.
    pub no_polls: bool,
    /// A kernel that fires `kvm_entry` whenever it enters a guest, fast paths included, if it has any.
    pub every_entry: bool,
    /// powerpc: halts are virtual cores', and threads work for several vCPUs.
    pub by_runner: bool,
}

impl RecordedTracepoints {
    /// What `kvm_vcpu_wakeup` says.
    pub fn wakeup(self, ns: u64, waited: bool, valid: bool) -> VcpuWakeup {
        VcpuWakeup { length: Nanos(ns), waited, valid, may_poll: !self.no_polls }
    }
}

#[derive(Clone, Debug)]
pub struct Lane {
    pub who: VcpuIdentity,
    pub state: LanePosition,
    pub run: LaneRunState,
    /// The CPU that it ran on last, as the scheduler says.
    pub ran_on: PcpuId,
    /// The CPU that the scheduler gave it, as long as it has it.
    pub runs_on: PcpuId,
    /// The CPU of its last entry or exit.
    pub cpu: PcpuId,
    /// Xen: the CPU on which the scheduler last had it run.
    pub switched_to: PcpuId,
    /// Xen: when it last ran for certain.
    pub ran_at: Moment,
    /// Up to when time is accounted.
    pub since: Moment,
    /// First entry or exit.
    pub first: Option<Moment>,
    pub open: Option<Exit>,
    /// The step of its way that the open exit is in, and what it had cost when that began.
    pub step: ExitPhase,
    pub cost_before: Nanos,
    /// What the open exit says of its subject.
    pub words: SubjectWord,
    /// What time in user space is, as long as the thread runs, and as long as it sleeps.
    pub user_parts: (TimePart, TimePart),
    /// The open exit is on its way to user space, and this is the time that it was there before.
    pub returning: Option<Nanos>,
    /// The system call that user space makes for the open exit: since when, and whether it is about registers.
    pub call: Option<(Moment, bool)>,
    /// A detail that came before its exit (back ends without `kvm_exit`).
    pub early: Option<Subject>,
    /// The first interrupt of the host's that was served since the entry, where `kvm_exit` comes after that: KVM fires it when it handles
    /// the exit on SVM in Linux 5.15 (`handle_exit` of arch/x86/kvm/svm/svm.c).
    pub served: Option<Subject>,
    pub early_events: u32,
    /// Guest time since the last row, or since the vCPU had its CPU again.
    pub guest: Nanos,
    /// Time of no row, up to the guest time.
    pub outside: AllParts,
    /// A loss hides what it does, until its next entry or exit.
    pub hidden: bool,
    /// Since its last entry or exit, events of another CPU were lost, of this one, or [`NO_CPU`] if of several: if something of it is
    /// missing, that is why.
    pub in_doubt: Option<PcpuId>,
    /// When a vCPU of its VM asked for the VM's end, since its last entry.
    pub vm_ended: Option<Moment>,
    /// A loss hides a part of the open exit.
    pub spoiled: bool,
    /// What the open exit, or KVM_RUN, holds of the halt in hand.
    pub block: blocks::BlockedHalt,
    /// What the thread does in user space, where nothing says when KVM_RUN is entered again.
    pub stay: blocks::UserSpaceStay,
    /// The first row of a lane where no `kvm_exit` or `kvm_entry` was seen yet: real only if another follows.
    pub held: Option<Exit>,
    /// A row without `kvm_exit` whose end is known, waiting for the detail that comes after re-entry.
    pub closed: Option<Exit>,
    pub recorded: RecordedTracepoints,
    pub rows_without_hardware: bool,
    pub halt: OpenHalt,
    /// The poll after its last change, as far as no loss may hide another.
    pub poll: Option<u32>,
    /// A yield whose exit is open.
    pub yielding: Option<Yield>,
    /// Whether the last entry was from a yield.
    pub after_yield: bool,
    /// The last entry into the guest; where kvm_entry never fires, into `KVM_RUN`.
    pub entered: Option<Moment>,
    /// powerpc: the thread that works for it, as far as an event said so.
    pub server: Tid,
    /// powerpc: what other virtual cores had had of the open exit's CPU at its last event, unless it was on another CPU since.
    pub others: Option<u64>,
    /// Whether its thread lost its CPU since the last yield.
    pub was_out: bool,
    /// Xen: what was seen of its last wake-up.
    pub wake_up: xen::WakeUp,
    /// Whether a row of it has left.
    pub has_given: bool,
    /// Whether a stretch of it has left.
    pub has_given_stretch: bool,
    /// Time that rows and CPU intervals hold: all of it, or an assertion fails.
    #[cfg(debug_assertions)]
    pub given: u64,
}

impl Lane {
    /// Uses one event of this lane. In line: of most events there is less to do than a call takes.
    #[inline(always)]
    pub fn take(&mut self, event: &Event, rows: &mut impl ExitSink, beside: &mut BesideRows, ledger: &mut Ledger) {
        match event.kind {
            EventKind::Exit { code, idle, words, rip } => {
                self.halt.exit(event.at, code.is_halt(), &mut beside.halts);
                self.exit(event, code, idle, rip, rows, beside, ledger);
                self.words = words;
                if let Some(served) = self.served.take() {
                    self.left_for(served);
                }
                return;
            }
            EventKind::Enter => {
                self.served = None;
                let halts = self.open.as_ref().is_some_and(|exit| exit.is_halt);
                self.halt.enter(event.at, self.who, halts, &mut beside.halts);
                return self.enter(event, rows, beside, ledger);
            }
            EventKind::UserspaceExit { reason, errno } => {
                return self.userspace_exit(event, reason, errno, rows, beside, ledger);
            }
            EventKind::Fpu { load: true } | EventKind::RunEnter => return self.run_enter(event.at, ledger),
            EventKind::Detail(served) if served.kind.is_of_host() => return self.interrupted(served, ledger),
            EventKind::HostIrq { irq, .. } => return self.interrupted(Subject::host_irq(irq), ledger),
            EventKind::Detail(detail) => return self.detail(event.at, detail, rows, beside, ledger),
            EventKind::Fpu { load: false } => self.leave(event.at),
            EventKind::KvmOut => self.leave_unsaid(event.at),
            EventKind::Refine { code } => self.refine(event.at, code, beside),
            EventKind::Syscall { registers } => self.call(event.at, registers),
            EventKind::SyscallExit => self.call_end(event.at),
            EventKind::Emulate => {
                if let Some(exit) = &mut self.open {
                    exit.phases.mark(PhaseBoundary::Emulated);
                }
            }
            EventKind::HaltEnd { ns, waited, valid } => {
                let wakeup = self.recorded.wakeup(ns, waited, valid);
                self.halt.vcpu_wakeup(event.at, self.who, wakeup, &mut beside.halts);
                self.end_block(event, &wakeup, rows, beside, ledger);
            }
            EventKind::Inject { vector } => {
                if let Some(exit) = &mut self.open {
                    exit.injected = Some(vector);
                }
            }
            EventKind::Nested => {
                if let Some(exit) = &mut self.open {
                    exit.code.nested = true;
                }
            }
            EventKind::Wfx { wfe: true } | EventKind::Reflect => {
                self.account(event.at);
                self.does_not_halt();
            }
            EventKind::HaltPoll { grow, new, old } => {
                self.halt.change = Some(PollChange { grow, new, old });
                self.learn_vcpu(event.vcpu);
            }
            EventKind::VcpuHint | EventKind::PleWindow { .. } => self.learn_vcpu(event.vcpu),
            _ => {}
        }
        self.note(ledger);
    }

    fn learn_vcpu(&mut self, vcpu: VcpuId) {
        if self.who.vcpu == VcpuId::UNKNOWN {
            self.who.vcpu = vcpu;
        }
    }

    pub fn new(who: VcpuIdentity, recorded: RecordedTracepoints) -> Lane {
        Lane {
            who,
            state: LanePosition::Unknown,
            run: LaneRunState::Running,
            ran_on: NO_CPU,
            runs_on: NO_CPU,
            cpu: NO_CPU,
            switched_to: NO_CPU,
            ran_at: Moment::default(),
            since: Moment::default(),
            first: None,
            open: None,
            step: ExitPhase::ToHandler,
            cost_before: Nanos::ZERO,
            words: SubjectWord::NONE,
            user_parts: (TimePart::User, TimePart::User),
            returning: None,
            call: None,
            early: None,
            served: None,
            early_events: 0,
            guest: Nanos::ZERO,
            outside: AllParts::ZERO,
            hidden: false,
            in_doubt: None,
            vm_ended: None,
            spoiled: false,
            block: blocks::BlockedHalt::default(),
            stay: blocks::UserSpaceStay::default(),
            held: None,
            closed: None,
            recorded,
            rows_without_hardware: false,
            halt: OpenHalt::default(),
            poll: None,
            yielding: None,
            after_yield: false,
            entered: None,
            server: Tid(0),
            others: None,
            was_out: false,
            wake_up: xen::WakeUp::None,
            has_given: false,
            has_given_stretch: false,
            #[cfg(debug_assertions)]
            given: 0,
        }
    }

    /// Charges the time since the last call to what the lane was doing; false if the moment is before the last call's.
    #[inline(always)]
    pub fn account(&mut self, now: Moment) -> bool {
        let Some(spent) = now.since(self.since) else { return false };
        self.since = now;
        let runs = self.run == LaneRunState::Running;
        match &mut self.open {
            Some(exit) if runs && self.state == LanePosition::Kernel => exit.parts.add(TimePart::Kernel, spent),
            Some(exit) if runs => exit.parts.add(self.user_parts.0, spent),
            Some(_) => self.spend_off_cpu(spent),
            None if runs && self.state == LanePosition::Guest => self.guest = self.guest.plus(spent),
            None => self.spend_outside(spent),
        }
        true
    }

    /// What the lane did since `from` is unknown, whatever it seemed to do.
    #[cold]
    pub fn knows_nothing_since(&mut self, from: Moment, now: Moment) {
        let before = self.since.since(from).unwrap_or_default();
        let Some(spent) = now.since(self.since).filter(|_| self.first.is_some()) else { return };
        self.since = now;
        match &mut self.open {
            Some(exit) => {
                exit.parts.shift(TimePart::Kernel, TimePart::Unknown, before);
                exit.parts.add(TimePart::Unknown, spent);
                if self.run.waits_for_device_model(exit.code) {
                    exit.handler = Handler::DeviceModel;
                }
                // Of that, what steps of its way have already.
                exit.withdraw(Nanos(self.cost_before.0.saturating_sub(exit.cost().0)));
                self.cost_before = self.cost_before.min(exit.cost());
            }
            None => {
                let seemed = self.guest.min(before);
                self.guest.0 -= seemed.0;
                self.give_guest();
                let part = if self.hidden { TimePart::Excluded } else { TimePart::Unknown };
                self.outside.add(part, seemed.plus(spent));
            }
        }
    }

    /// Counts an event into the open exit, or as outside any.
    #[inline]
    fn note(&mut self, ledger: &mut Ledger) {
        match &mut self.open {
            Some(exit) => exit.events += 1,
            None => ledger.count(LedgerLine::OutsideExit),
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
        self.since = self.since.max(at);
        self.first.get_or_insert(self.since);
    }

    #[inline(always)]
    fn open_row(&mut self, event: &Event, code: ExitCode, idle: bool, rip: u64) -> &mut Exit {
        let row = Exit {
            at: event.at,
            who: VcpuIdentity { vm: VmId::UNKNOWN, vcpu: VcpuId::UNKNOWN, tid: Tid(0) },
            cpu: event.cpu,
            code,
            rip,
            info: crate::ExitInfo::default(),
            handler: Handler::Kernel,
            subject: None,
            injected: None,
            guest: std::mem::take(&mut self.guest),
            parts: ExitParts::ZERO,
            phases: ExitPhases::default(),
            timed: true,
            is_halt: idle || code.is_halt(),
            events: 1,
        };
        let exit = self.open.insert(row);
        // On its own: all the rest are constants or in registers.
        exit.who = self.who;
        exit
    }

    #[expect(clippy::too_many_arguments, reason = "an event, what it says, and where to put what comes of it")]
    #[inline(always)]
    fn exit(
        &mut self,
        event: &Event,
        code: ExitCode,
        idle: bool,
        rip: u64,
        rows: &mut impl ExitSink,
        beside: &mut BesideRows,
        ledger: &mut Ledger,
    ) {
        let in_time = self.account(event.at);
        if self.open.is_some() {
            self.exit_again(event, rows, beside, ledger);
        }
        let hidden = self.guest > Nanos::ZERO && self.came_from_a_loss(event);
        if !in_time || hidden || self.moved_unseen(event) {
            self.spoil(event, in_time, ledger);
        }
        self.give_outside(beside);
        self.heard(event.at);
        self.open_row(event, code, idle, rip);
        self.cpu = event.cpu;
        self.state = LanePosition::Kernel;
        self.step = ExitPhase::ToHandler;
        self.cost_before = Nanos::ZERO;
        self.block = blocks::BlockedHalt::at(self.since);
        (self.hidden, self.in_doubt) = (false, None);
        self.spoiled = !in_time;
    }

    #[inline(always)]
    fn enter(&mut self, event: &Event, rows: &mut impl ExitSink, beside: &mut BesideRows, ledger: &mut Ledger) {
        let in_time = self.account(event.at);
        if !in_time || self.moved_unseen(event) {
            self.spoil(event, in_time, ledger);
        } else if self.open.is_some() && self.came_from_a_loss(event) {
            ledger.count(LedgerLine::SpansLoss);
            self.spoiled = true;
        }
        self.heard(event.at);
        self.go(ExitPhase::ToHandler);
        if self.state == LanePosition::UserSpace {
            self.stopped_unless_it_ran();
        }
        match &mut self.open {
            Some(exit) => {
                exit.events += 1;
                exit.who = self.who;
                if self.spoiled {
                    self.give_cut(TimePart::Excluded, rows, beside);
                } else {
                    if exit.is_halt {
                        self.settle_halt();
                    }
                    self.give(rows, ledger);
                }
            }
            None => {
                self.enter_again();
                ledger.count(LedgerLine::EntryWithoutExit);
            }
        }
        self.give_outside(beside);
        (self.state, self.cpu) = (LanePosition::Guest, event.cpu);
        (self.hidden, self.in_doubt, self.spoiled) = (false, None, false);
        self.vm_ended = None;
    }

    /// The open exit is over, and both ends are known.
    #[inline(always)]
    fn give(&mut self, rows: &mut impl ExitSink, ledger: &mut Ledger) {
        if let Some(exit) = &mut self.open {
            if exit.total() == Nanos::ZERO {
                ledger.count(LedgerLine::NoLength);
            }
            exit.complete(self.words);
            let time = exit.guest.plus(exit.total());
            rows.take(exit);
            self.open = None;
            self.gave(time);
        }
    }

    /// Discards pending exits that began before the recording, and details without an exit.
    pub fn release_held_rows(&mut self, ledger: &mut Ledger) {
        for exit in [self.held.take(), self.closed.take(), self.open.take()].into_iter().flatten() {
            ledger.add(LedgerLine::BeforeRecording, u64::from(exit.events));
            self.outside.add(TimePart::Unknown, exit.parts.sum().plus(exit.guest));
        }
        ledger.add(LedgerLine::OutsideExit, u64::from(std::mem::take(&mut self.early_events)));
        self.early = None;
        if !self.has_given && !self.has_given_stretch {
            (self.first, self.outside, self.guest) = (None, AllParts::ZERO, Nanos::ZERO);
        }
    }

    fn userspace_exit(
        &mut self,
        event: &Event,
        reason: u32,
        errno: i32,
        rows: &mut impl ExitSink,
        beside: &mut BesideRows,
        ledger: &mut Ledger,
    ) {
        let code = ExitCode::of_userspace(reason, errno);
        let stay = UserStay::of(reason, errno);
        let user_parts = phase_events::user_parts(stay, &self.recorded);
        let reason = code.number as u32;
        self.hand_over();
        self.account(event.at);
        if self.state == LanePosition::UserSpace {
            self.ends_unseen(ledger);
        }
        self.stay.begin();
        if stay == UserStay::Halted {
            self.halt.hand_over();
        }
        if let Some(exit) = &mut self.open {
            exit.note_return(stay, reason);
            if code.leaves_fault_unresolved() && exit.code.is_page_fault() {
                // That KVM could not resolve it says more than which access it was.
                exit.subject = Some(Subject::of_unresolved_fault(code, exit.subject));
            }
            exit.events += 1;
            exit.phases.mark(PhaseBoundary::HandedOver);
            if exit.phases.handed == Nanos::ZERO {
                exit.phases.handed = event.at.since(exit.at).unwrap_or_default();
            }
            self.state = LanePosition::UserSpace;
            self.user_parts = user_parts;
            self.go(ExitPhase::UserSpace);
            self.returning = self.open.as_ref().map(|exit| exit.phases.time(ExitPhase::UserSpace));
            return;
        }
        if self.recorded.hardware {
            ledger.count(LedgerLine::OutsideExit);
            return;
        }
        self.settle_closed(rows);
        if let Some(held) = self.held.take() {
            self.rows_without_hardware = true;
            self.pass(held, rows);
        }
        self.give_outside(beside);
        self.heard(event.at);
        self.guest = Nanos::ZERO;
        let (detail, events) = (self.early.take(), std::mem::take(&mut self.early_events));
        // What KVM answered itself is not what user space is asked for.
        let detail = detail.filter(|detail| code.hands_over(detail.kind));
        let exit = self.open_row(event, code, false, 0);
        exit.handler = Handler::Userspace(reason);
        exit.phases.mark(PhaseBoundary::HandedOver);
        exit.subject = detail;
        match detail {
            Some(_) => exit.events += events,
            None => ledger.add(LedgerLine::OutsideExit, u64::from(events)),
        }
        self.state = LanePosition::UserSpace;
        self.user_parts = user_parts;
        self.step = ExitPhase::UserSpace;
        self.cost_before = Nanos::ZERO;
        self.returning = Some(Nanos::ZERO);
    }

    /// `KVM_RUN` is entered again.
    fn run_enter(&mut self, at: Moment, ledger: &mut Ledger) {
        self.account(at);
        self.note(ledger);
        if let Some(exit) = &mut self.open {
            if self.state == LanePosition::UserSpace {
                exit.phases.answered = at.since(exit.at).unwrap_or_default();
            }
            exit.phases.mark(PhaseBoundary::KvmRunEntered);
        }
        self.run_enters(at);
    }

    /// The thread is in KVM_RUN from now on.
    fn run_enters(&mut self, at: Moment) {
        if self.open.is_some() {
            self.go(ExitPhase::Reentry);
        }
        self.call = None;
        self.state = LanePosition::Kernel;
        if !self.recorded.hardware {
            if let Some(exit) = self.open.take() {
                self.heard(at);
                self.closed = Some(exit);
            }
            self.block = blocks::BlockedHalt::at(self.since);
        }
    }

    /// Where `kvm_exit` never fires: the open row is over, and nothing said when KVM_RUN was entered again. What the thread slept or ran
    /// since user space had the vCPU may be of the guest; that it waited for a CPU is certain.
    pub fn ends_unseen(&mut self, ledger: &mut Ledger) {
        if self.recorded.hardware {
            return;
        }
        let Some(mut exit) = self.open.take() else { return };
        for part in TimePart::OF_EXITS {
            let is_certain = !matches!(part, TimePart::Kernel | TimePart::User | TimePart::Stopped);
            self.outside.add(if is_certain { part } else { TimePart::Unknown }, exit.part(part));
        }
        (exit.parts, exit.timed) = (ExitParts::ZERO, false);
        self.closed = Some(exit);
        self.state = LanePosition::Kernel;
        ledger.count(LedgerLine::UnseenRun);
    }

    /// A row without `kvm_exit` whose end is known leaves.
    pub fn settle_closed(&mut self, rows: &mut impl ExitSink) {
        if let Some(exit) = self.closed.take() {
            match (self.rows_without_hardware, self.held.take()) {
                (false, None) => self.held = Some(exit),
                (_, held) => {
                    self.rows_without_hardware = true;
                    held.into_iter().for_each(|held| self.pass(held, rows));
                    self.pass(exit, rows);
                }
            }
        }
    }

    /// A row leaves that holds so much time.
    #[inline(always)]
    pub fn gave(&mut self, time: Nanos) {
        self.has_given = true;
        self.count_given(time);
    }

    /// So much time is given away: in the end, all must be.
    #[inline(always)]
    pub fn count_given(&mut self, _time: Nanos) {
        #[cfg(debug_assertions)]
        {
            self.given += _time.0;
        }
    }

    /// A row without `kvm_exit` leaves.
    fn pass(&mut self, exit: Exit, rows: &mut impl ExitSink) {
        self.gave(exit.guest.plus(exit.total()));
        rows.take(&exit);
    }

    /// The host serves an interrupt in this thread.
    fn interrupted(&mut self, served: Subject, ledger: &mut Ledger) {
        match &mut self.open {
            Some(exit) => {
                exit.events += 1;
                self.left_for(served);
            }
            None => {
                ledger.count(LedgerLine::OutsideExit);
                self.served = self.served.or(Some(served));
            }
        }
    }

    /// An exit for an interrupt of the host's is for the first that is served: for a device's only if the exit's own vector, where it has
    /// one, may be a device's.
    fn left_for(&mut self, served: Subject) {
        let Some(exit) = self.open.as_mut().filter(|_| self.state == LanePosition::Kernel) else { return };
        let told = self.words.subject(exit.code).filter(|of| of.kind == SubjectKind::HostVector);
        let may_be_it = told.is_none_or(|of| match served.kind {
            SubjectKind::HostIrq => DEVICE_VECTORS.contains(&of.key),
            _ => of.key == served.key,
        });
        if exit.code.is_host_interrupt() && exit.subject.is_none() && may_be_it {
            exit.subject = Some(served);
        }
    }

    fn detail(
        &mut self,
        at: Moment,
        detail: Subject,
        rows: &mut impl ExitSink,
        beside: &mut BesideRows,
        ledger: &mut Ledger,
    ) {
        self.account(at);
        if detail.is_halt() {
            self.halts_after_all(at, beside);
        }
        self.reach();
        // KVM_RUN goes on: with the end of what user space answered, or with something else after that.
        let is_unseen = !self.recorded.hardware && self.state == LanePosition::UserSpace;
        if let (true, Some(exit)) = (is_unseen, &self.open) {
            match detail.completes(exit.code, exit.subject.map(|of| (of.kind, of.write, of.key))) {
                true => self.run_enters(at),
                false => self.ends_unseen(ledger),
            }
        }
        // An emulated access that goes on after user space: its completion is in the kernel again.
        if self.state == LanePosition::UserSpace && self.open.is_some() {
            self.state = LanePosition::Kernel;
            self.go(ExitPhase::Reentry);
        }
        if self.open.as_ref().is_some_and(|exit| exit.code.cannot_be_about(detail.kind) && !exit.has_left_kernel()) {
            self.give_up(at, rows, beside, ledger);
        }
        if let Some(exit) = &mut self.open {
            exit.events += 1;
            let detail = detail.of_exit(exit.code);
            if exit.subject.is_none_or(|known| known.kind < detail.kind) {
                exit.subject = Some(detail);
            } else if let Some(known) = &mut exit.subject {
                // The completion of a read carries the value that the first mention lacked.
                if known.kind == detail.kind && known.key == detail.key && !detail.write {
                    known.value = detail.value;
                }
            }
            return;
        }
        if self.recorded.hardware {
            ledger.count(LedgerLine::OutsideExit);
            return;
        }
        // No kvm_exit here: a read's detail comes after re-entry, a write's before the return to user space.
        if let Some(exit) = &mut self.closed {
            let known = exit.subject.map(|known| (known.kind, known.write, known.key));
            if detail.completes(exit.code, known) {
                exit.subject = Some(detail);
                exit.events += 1;
                self.settle_closed(rows);
                return;
            }
        }
        self.settle_closed(rows);
        self.early = (!detail.is_answered()).then_some(detail);
        self.early_events += 1;
    }
}
