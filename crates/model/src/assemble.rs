//! Events in, exit rows out. One open exit per lane; a lane is a thread, or a (VM, vCPU) pair where another thread
//! records for the vCPU (powerpc's vcore runner).
//!
//! ```text
//!            kvm_exit                 kvm_userspace_exit        kvm_fpu(load)      kvm_entry
//!   Guest ─────┬── Kernel ──────────────────┬── User ────────────────┬── Kernel ───────┬── Guest
//!              └ row opens                  └ door = user space      └ an IN's kvm_pio  └ row closes
//!                                                                      comes here
//! ```
//!
//! Where `kvm_exit` never fires (some KVM back ends), `kvm_userspace_exit` with no exit open opens a row under KVM's
//! own reasons, and it closes when `KVM_RUN` is entered again.
//!
//! Every event ends in a row's `events` or in a line of the ledger.

use crate::{CodeList, Detail, Door, Event, Exit, ExitCode, Kind, Ledger, Line, Who};
use exitscope_units::{Moment, Nanos, Tid, VcpuId, VmId};
use rustc_hash::FxHashMap;

/// Lanes at most; events of further threads are counted as outside any exit. Bounds memory (about 64 MB).
const MAX_LANES: usize = 1 << 18;

/// CPUs whose last lane is remembered.
const CPU_CACHE: usize = 1024;

/// When a vCPU was first and last heard of, and the guest time after its last row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaneSpan {
    /// Whose.
    pub who: Who,
    /// Its first entry or exit.
    pub first: Moment,
    /// Its last entry or exit.
    pub last: Moment,
    /// Guest time that no exit ended within the recording.
    pub tail_guest: Nanos,
}

/// Makes exit rows of events.
#[derive(Debug)]
pub struct Assembler {
    lanes: Vec<Lane>,
    index: FxHashMap<u64, u32>,
    last_on_cpu: Vec<(u32, u32)>,
    /// Whether the back end fires `kvm_exit` and `kvm_entry`: some lane saw one.
    hardware: bool,
    /// powerpc: lanes are (VM, vCPU) pairs.
    lanes_by_vcpu: bool,
    /// powerpc: which lane's vCPU each thread runs, where an event said so.
    lane_of_thread: FxHashMap<Tid, u32>,
    latest: Moment,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Before the first entry or exit, or after a loss.
    Unknown,
    Guest,
    Kernel,
    User,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Run {
    Running,
    Sleeping,
    Runnable,
}

#[derive(Debug)]
struct Lane {
    who: Who,
    state: State,
    run: Run,
    /// Up to when time is accounted.
    since: Moment,
    /// First and last entry or exit.
    span: Option<(Moment, Moment)>,
    open: Option<Exit>,
    /// A detail that came before its exit (back ends without `kvm_exit`).
    early: Option<Detail>,
    early_events: u32,
    /// Guest time since the last row.
    guest: Nanos,
    /// The first row of a lane where no `kvm_exit` or `kvm_entry` was seen yet: real only if another follows.
    held: Option<Exit>,
    /// A row without `kvm_exit` whose end is known, waiting for the detail that comes after re-entry.
    closed: Option<Exit>,
    hardware: bool,
    rows_without_hardware: bool,
}

impl Default for Assembler {
    fn default() -> Assembler {
        Assembler {
            lanes: Vec::new(),
            index: FxHashMap::default(),
            last_on_cpu: vec![(u32::MAX, u32::MAX); CPU_CACHE],
            hardware: false,
            lanes_by_vcpu: false,
            lane_of_thread: FxHashMap::default(),
            latest: Moment::default(),
        }
    }
}

impl Assembler {
    /// Uses one event. Rows that it completes are appended to `rows`.
    #[inline]
    pub fn push(&mut self, event: &Event, rows: &mut Vec<Exit>, ledger: &mut Ledger) {
        if event.at < self.latest {
            ledger.count(Line::OutOfOrder);
        } else {
            self.latest = event.at;
        }
        if !self.hardware && matches!(event.kind, Kind::Exit { .. } | Kind::Enter) {
            self.hardware = true;
            for lane in &mut self.lanes {
                lane.hardware = true;
                lane.let_go(ledger);
            }
        }
        match event.kind {
            Kind::Other => {
                // Only an event of a thread that is a lane can fall into an exit.
                match self.find(event) {
                    Some(lane) => lane.note(ledger),
                    None => ledger.count(Line::OtherTracepoint),
                }
            }
            Kind::Switch { prev, sleeps, next } => self.switch(event.at, prev, sleeps, next, ledger),
            Kind::Wakeup { tid } => match self.by_key(thread_key(tid)) {
                Some(lane) => {
                    lane.account(event.at);
                    if lane.run == Run::Sleeping {
                        lane.run = Run::Runnable;
                    }
                    lane.note_scheduler(ledger);
                }
                None => ledger.count(Line::Scheduler),
            },
            Kind::Lost { .. } => self.lose(event, rows, ledger),
            Kind::Exit { code, idle } => {
                if code.list == CodeList::PpcTrap && event.vcpu != VcpuId::UNKNOWN && !self.lanes_by_vcpu {
                    self.go_by_vcpu(ledger);
                }
                match self.lane(event) {
                    Some(lane) => lane.exit(event, code, idle, rows, ledger),
                    None => ledger.count(Line::OutsideExit),
                }
            }
            Kind::Enter => match self.lane(event) {
                Some(lane) => lane.enter(event, rows, ledger),
                None => ledger.count(Line::EntryWithoutExit),
            },
            Kind::UserspaceExit { reason, errno } => match self.lane(event) {
                Some(lane) => lane.userspace_exit(event, reason, errno, rows, ledger),
                None => ledger.count(Line::OutsideExit),
            },
            Kind::Fpu { load: true } | Kind::RunEnter => match self.find(event) {
                Some(lane) => lane.run_enter(event.at, ledger),
                None => ledger.count(Line::OutsideExit),
            },
            Kind::Fpu { load: false } | Kind::IoctlExit => match self.find(event) {
                Some(lane) => lane.note(ledger),
                None => ledger.count(Line::OutsideExit),
            },
            Kind::Detail(detail) => match self.lane(event) {
                Some(lane) => lane.detail(event.at, detail, rows, ledger),
                None => ledger.count(Line::OutsideExit),
            },
            Kind::Inject { vector } => match self.find(event) {
                Some(lane) => {
                    if let Some(exit) = &mut lane.open {
                        exit.injected = Some(vector);
                    }
                    lane.note(ledger);
                }
                None => ledger.count(Line::OutsideExit),
            },
            Kind::HaltEnd { ns, .. } => match self.find(event) {
                Some(lane) => {
                    lane.account(event.at);
                    if let Some(exit) = &mut lane.open {
                        exit.halted(Nanos(ns));
                    }
                    lane.note(ledger);
                }
                None => ledger.count(Line::OutsideExit),
            },
            Kind::Wfx { wfe } => match self.find(event) {
                Some(lane) => {
                    if let (true, Some(exit)) = (wfe, &mut lane.open) {
                        exit.not_idle_after_all();
                    }
                    lane.note(ledger);
                }
                None => ledger.count(Line::OutsideExit),
            },
            Kind::VcpuHint => {
                if self.lanes_by_vcpu
                    && let Some(&at) = self.index.get(&vcpu_key(event.vm, event.vcpu))
                {
                    self.lane_of_thread.insert(event.tid, at);
                }
                match self.find(event) {
                    Some(lane) => {
                        if lane.who.vcpu == VcpuId::UNKNOWN {
                            lane.who.vcpu = event.vcpu;
                        }
                        lane.note(ledger);
                    }
                    None => ledger.count(Line::OutsideExit),
                }
            }
            Kind::RunCore { .. } => ledger.count(Line::OutsideExit),
        }
    }

    /// Ends the recording: open exits become rows that are counted but not timed. Returns every lane's span.
    pub fn finish(&mut self, rows: &mut Vec<Exit>, ledger: &mut Ledger) -> Vec<LaneSpan> {
        let mut spans = Vec::new();
        for lane in &mut self.lanes {
            lane.settle_closed(rows);
            if let Some(held) = lane.held.take() {
                rows.push(held);
            }
            if let Some(mut exit) = lane.open.take() {
                exit.timed = false;
                ledger.count(Line::UnfinishedExit);
                rows.push(exit);
            }
            ledger.add(Line::OutsideExit, u64::from(std::mem::take(&mut lane.early_events)));
            if lane.rows_without_hardware && !lane.hardware {
                ledger.count(Line::NoKvmExit);
            }
            if let Some((first, last)) = lane.span {
                spans.push(LaneSpan { who: lane.who, first, last, tail_guest: lane.guest });
            }
        }
        self.lanes.clear();
        self.index.clear();
        self.lane_of_thread.clear();
        self.last_on_cpu.fill((u32::MAX, u32::MAX));
        spans
    }

    /// Which vCPU each thread was found to run: facts about rows made before that was known are completed with it.
    pub fn vcpus(&self) -> impl Iterator<Item = Who> + '_ {
        self.lanes.iter().map(|lane| lane.who).filter(|who| who.vcpu != VcpuId::UNKNOWN)
    }

    fn by_key(&mut self, key: u64) -> Option<&mut Lane> {
        let &at = self.index.get(&key)?;
        Some(&mut self.lanes[at as usize])
    }

    /// The lane that the event is on, if there is one: that of its own thread, or on powerpc that of its vCPU.
    #[inline]
    fn find(&mut self, event: &Event) -> Option<&mut Lane> {
        if self.lanes_by_vcpu {
            let at = match event.vcpu {
                VcpuId::UNKNOWN => self.lane_of_thread.get(&event.tid),
                vcpu => self.index.get(&vcpu_key(event.vm, vcpu)),
            };
            return self.lanes.get_mut(*at? as usize);
        }
        let cpu = event.cpu.0 as usize % CPU_CACHE;
        let (tid, at) = self.last_on_cpu[cpu];
        if tid == event.tid.0 {
            return self.lanes.get_mut(at as usize);
        }
        let at = self.index.get(&thread_key(event.tid)).copied().unwrap_or(u32::MAX);
        self.last_on_cpu[cpu] = (event.tid.0, at);
        self.lanes.get_mut(at as usize)
    }

    /// The lane of an event that only a vCPU's lane can have, made if it is new.
    #[inline]
    fn lane(&mut self, event: &Event) -> Option<&mut Lane> {
        if self.find(event).is_none() {
            match (self.lanes_by_vcpu, event.vcpu) {
                (false, vcpu) => self.add(thread_key(event.tid), Who { vm: event.vm, vcpu, tid: event.tid })?,
                (true, VcpuId::UNKNOWN) => return None,
                (true, vcpu) => self.add(vcpu_key(event.vm, vcpu), Who { vm: event.vm, vcpu, tid: Tid(0) })?,
            }
        }
        let lane = self.find(event)?;
        if event.vcpu != VcpuId::UNKNOWN {
            lane.who.vcpu = event.vcpu;
        }
        Some(lane)
    }

    /// On powerpc the vcore's runner records for all its vCPUs (`kvmppc_run_core` of `book3s_hv.c`), so from the first
    /// such exit on vCPUs are the lanes. What entries and returns of before made lanes of threads is let go.
    fn go_by_vcpu(&mut self, ledger: &mut Ledger) {
        self.lanes_by_vcpu = true;
        self.index.clear();
        for lane in &mut self.lanes {
            lane.let_go(ledger);
        }
    }

    fn add(&mut self, key: u64, who: Who) -> Option<()> {
        if self.lanes.len() >= MAX_LANES {
            return None;
        }
        self.index.insert(key, self.lanes.len() as u32);
        self.lanes.push(Lane { hardware: self.hardware, ..Lane::new(who) });
        self.last_on_cpu.fill((u32::MAX, u32::MAX));
        Some(())
    }

    fn switch(&mut self, at: Moment, prev: Tid, sleeps: bool, next: Tid, ledger: &mut Ledger) {
        let mut used = false;
        if let Some(lane) = self.by_key(thread_key(prev)) {
            lane.account(at);
            lane.run = if sleeps { Run::Sleeping } else { Run::Runnable };
            used = lane.take_scheduler();
        }
        if let Some(lane) = self.by_key(thread_key(next)) {
            lane.account(at);
            lane.run = Run::Running;
            used = used || lane.take_scheduler();
        }
        if !used {
            ledger.count(Line::Scheduler);
        }
    }

    /// After a loss, whatever was open on that CPU (on all, if it does not say which) has unknown times.
    fn lose(&mut self, event: &Event, rows: &mut Vec<Exit>, ledger: &mut Ledger) {
        for lane in &mut self.lanes {
            let here = event.cpu.0 == u32::MAX || lane.open.is_none_or(|exit| exit.cpu == event.cpu);
            if !here {
                continue;
            }
            if let Some(mut exit) = lane.open.take() {
                exit.timed = false;
                ledger.count(Line::SpansLoss);
                rows.push(exit);
            }
            lane.state = State::Unknown;
            lane.since = event.at;
        }
    }
}

fn thread_key(tid: Tid) -> u64 {
    u64::from(tid.0)
}

fn vcpu_key(vm: VmId, vcpu: VcpuId) -> u64 {
    1 << 63 | u64::from(vm.0 & 0x7fff_ffff) << 32 | u64::from(vcpu.0)
}

impl Lane {
    fn new(who: Who) -> Lane {
        Lane {
            who,
            state: State::Unknown,
            run: Run::Running,
            since: Moment::default(),
            span: None,
            open: None,
            early: None,
            early_events: 0,
            guest: Nanos::ZERO,
            held: None,
            closed: None,
            hardware: false,
            rows_without_hardware: false,
        }
    }

    /// Charges the time since the last call to what the lane was doing.
    #[inline]
    fn account(&mut self, now: Moment) {
        let Some(spent) = now.since(self.since) else { return };
        self.since = now;
        match &mut self.open {
            Some(exit) if self.run == Run::Runnable => exit.waiting = exit.waiting.plus(spent),
            Some(exit) if exit.is_idle => exit.idle = exit.idle.plus(spent),
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

    fn take_scheduler(&mut self) -> bool {
        match &mut self.open {
            Some(exit) => {
                exit.events += 1;
                true
            }
            None => false,
        }
    }

    fn note_scheduler(&mut self, ledger: &mut Ledger) {
        if !self.take_scheduler() {
            ledger.count(Line::Scheduler);
        }
    }

    fn heard(&mut self, at: Moment) {
        let first = self.span.map_or(at, |span| span.0);
        self.span = Some((first, at.max(self.since)));
    }

    fn open_row(&mut self, event: &Event, code: ExitCode, idle: bool) -> Exit {
        Exit {
            at: event.at,
            who: self.who,
            cpu: event.cpu,
            code,
            door: Door::Kernel,
            detail: None,
            injected: None,
            guest: std::mem::take(&mut self.guest),
            kernel: Nanos::ZERO,
            user: Nanos::ZERO,
            idle: Nanos::ZERO,
            waiting: Nanos::ZERO,
            timed: true,
            is_idle: idle || code.is_idle(),
            events: 1,
        }
    }

    fn exit(&mut self, event: &Event, code: ExitCode, idle: bool, rows: &mut Vec<Exit>, ledger: &mut Ledger) {
        self.account(event.at);
        if let Some(mut exit) = self.open.take() {
            exit.timed = false;
            ledger.count(Line::ExitWithoutEntry);
            rows.push(exit);
        }
        ledger.add(Line::OutsideExit, u64::from(std::mem::take(&mut self.early_events)));
        self.early = None;
        self.since = event.at;
        self.heard(event.at);
        self.open = Some(self.open_row(event, code, idle));
        self.state = State::Kernel;
        self.run = Run::Running;
    }

    fn enter(&mut self, event: &Event, rows: &mut Vec<Exit>, ledger: &mut Ledger) {
        self.account(event.at);
        self.heard(event.at);
        match self.open.take() {
            Some(mut exit) => {
                exit.events += 1;
                exit.who = self.who;
                if exit.total() == Nanos::ZERO {
                    ledger.count(Line::NoLength);
                }
                rows.push(exit);
            }
            None => ledger.count(Line::EntryWithoutExit),
        }
        self.since = event.at;
        self.state = State::Guest;
        self.run = Run::Running;
    }

    /// Rows in hand were the tail of an exit before the recording.
    fn let_go(&mut self, ledger: &mut Ledger) {
        for exit in [self.held.take(), self.closed.take(), self.open.take()].into_iter().flatten() {
            ledger.add(Line::BeforeRecording, u64::from(exit.events));
        }
        self.span = None;
    }

    fn userspace_exit(&mut self, event: &Event, reason: u32, errno: i32, rows: &mut Vec<Exit>, ledger: &mut Ledger) {
        // A signal ends KVM_RUN with -EINTR; `reason` is then left over from an earlier exit.
        let reason = if errno < 0 { KVM_EXIT_INTR } else { reason };
        self.account(event.at);
        if let Some(exit) = &mut self.open {
            exit.door = Door::Userspace(reason);
            exit.events += 1;
            self.state = State::User;
            return;
        }
        if self.hardware {
            ledger.count(Line::OutsideExit);
            return;
        }
        self.settle_closed(rows);
        if let Some(held) = self.held.take() {
            self.rows_without_hardware = true;
            rows.push(held);
        }
        self.since = event.at;
        self.heard(event.at);
        self.guest = Nanos::ZERO;
        let mut exit = self.open_row(event, ExitCode::new(CodeList::KvmExit, u64::from(reason)), false);
        exit.door = Door::Userspace(reason);
        exit.detail = self.early.take();
        exit.events += std::mem::take(&mut self.early_events);
        self.open = Some(exit);
        self.state = State::User;
    }

    /// `KVM_RUN` is entered again.
    fn run_enter(&mut self, at: Moment, ledger: &mut Ledger) {
        self.account(at);
        self.note(ledger);
        self.state = State::Kernel;
        if !self.hardware
            && let Some(exit) = self.open.take()
        {
            self.heard(at);
            self.closed = Some(exit);
        }
    }

    /// A row without `kvm_exit` whose end is known leaves.
    fn settle_closed(&mut self, rows: &mut Vec<Exit>) {
        if let Some(exit) = self.closed.take() {
            match (self.rows_without_hardware, self.held.take()) {
                (false, None) => self.held = Some(exit),
                (_, held) => {
                    self.rows_without_hardware = true;
                    rows.extend(held);
                    rows.push(exit);
                }
            }
        }
    }

    fn detail(&mut self, at: Moment, detail: Detail, rows: &mut Vec<Exit>, ledger: &mut Ledger) {
        self.account(at);
        if let Some(exit) = &mut self.open {
            exit.events += 1;
            // An emulated access that goes on after user space: its completion is in the kernel again.
            if self.state == State::User {
                self.state = State::Kernel;
            }
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

/// `KVM_EXIT_INTR`, `include/uapi/linux/kvm.h`.
const KVM_EXIT_INTR: u32 = 10;

impl Exit {
    /// `ns` of the time so far were a halt: they are no cost, whatever the reason's name.
    fn halted(&mut self, ns: Nanos) {
        if !self.is_idle {
            let from_kernel = self.kernel.0.min(ns.0);
            self.kernel.0 -= from_kernel;
            self.idle.0 += from_kernel;
        }
    }

    /// What looked idle was a yield.
    fn not_idle_after_all(&mut self) {
        if self.is_idle {
            self.is_idle = false;
            self.kernel.0 += std::mem::take(&mut self.idle.0);
        }
    }
}
