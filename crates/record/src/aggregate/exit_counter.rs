//! Counts events one after the other: what the BPF programs do, for where they may not be used.
//!
//! ```text
//! with kvm_exit:     kvm_exit ── what it is about ── kvm_entry
//! without it:        what is written ── kvm_userspace_exit ── KVM_RUN ── what was read
//!                    what nothing comes of: served by the kernel
//! ```

use super::blocks::{SUMS, Spent, ThreadBlock, beside_cost, end, outside, up_to};
use super::snapshot::{
    CountAndTime, CountKey, CountedKind, CountedSubject, CountedVcpu, CountedVcpuState, OpenExit, VcpuRunner,
};
use exitscope_model::codes::{REGION_BITS, UserStay};
use exitscope_model::{EventKind, ExitCode, ExitParts, Subject, SubjectKind, TimePart};
use exitscope_units::{Nanos, Tid, VcpuId};
use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap};

/// What a host is like that exits are counted on.
#[derive(Clone, Copy, Debug)]
pub struct Traits {
    /// `kvm_exit` never fires here, and `kvm_fpu` stands for entries.
    pub is_software: bool,
    /// KVM may poll when a vCPU halts of which it has said nothing yet.
    pub polls: bool,
    /// The scheduler's events tell when threads of vCPUs have no CPU.
    pub switches: bool,
}

/// What was counted, and what is open.
#[derive(Debug)]
pub struct Fold {
    traits: Traits,
    max_lanes: usize,
    max_counts: usize,
    lanes: HashMap<CountedVcpu, State>,
    /// Lanes by their threads.
    threads: HashMap<Tid, CountedVcpu>,
    counts: HashMap<CountKey, CountAndTime>,
    lost: u64,
}

/// What a reading gives: counts may be of the same key.
#[derive(Debug, Default)]
pub struct CountReading {
    pub lanes: Vec<(CountedVcpu, CountedVcpuState)>,
    pub counts: Vec<(CountKey, CountAndTime)>,
    /// Exits of which more may come to be known, so that they may end in another count.
    pub unsettled: Vec<(CountKey, CountAndTime)>,
    pub lost: u64,
    /// Events of the scheduler that were not looked at.
    pub missed: u64,
}

impl CountReading {
    /// Without those whose first event came after `at`. Programs count on while they are read: of a thread that began meanwhile
    /// there is no time yet that its exits could be a share of. The next reading has them.
    pub fn begun_by(mut self, at: u64) -> CountReading {
        let later: BTreeSet<CountedVcpu> =
            self.lanes.iter().filter(|(_, state)| state.first > at).map(|(lane, _)| *lane).collect();
        if !later.is_empty() {
            self.lanes.retain(|(lane, _)| !later.contains(lane));
            self.counts.retain(|(key, _)| !later.contains(&key.lane));
            self.unsettled.retain(|(key, _)| !later.contains(&key.lane));
        }
        self
    }
}

#[derive(Debug, Default)]
struct State {
    first: u64,
    open: Option<Row>,
    /// Without `kvm_exit`: an exit that is over, but for what it was about.
    closed: Option<(Row, u64)>,
    block: ThreadBlock,
    /// Time without a CPU and in polls, of the open exit and of no exit.
    within: Spent,
    outside: Spent,
    about: Option<CountedSubject>,
    vcpu: Option<u32>,
    poll: Option<u32>,
    events: u64,
}

#[derive(Clone, Copy, Debug)]
struct Row {
    since: u64,
    code: ExitCode,
    /// The event itself says that the vCPU is idle.
    ceded: bool,
    /// User space answers it; a signal, which takes it there as well, answers nothing.
    to_user: bool,
}

impl Row {
    fn new(since: u64, code: ExitCode) -> Row {
        Row { since, code, ceded: false, to_user: false }
    }
}

impl Fold {
    /// Creates empty counts with room for so many lanes and counts.
    pub fn new(traits: Traits, max_lanes: usize, max_counts: usize) -> Fold {
        let (lanes, threads, counts) = (HashMap::new(), HashMap::new(), HashMap::new());
        Fold { traits, max_lanes, max_counts, lanes, threads, counts, lost: 0 }
    }

    /// Uses an event of a lane; those of the scheduler say themselves whose they are.
    pub fn take(&mut self, lane: CountedVcpu, at: u64, kind: EventKind, vcpu: VcpuId) {
        match kind {
            EventKind::Switch { prev, sleeps, next, .. } => {
                self.schedule(prev, |block, spent| block.goes_out(at, sleeps, spent));
                return self.schedule(next, |block, spent| block.comes_back(at, spent));
            }
            EventKind::Wakeup { tid } => return self.schedule(tid, |block, spent| block.is_woken(at, spent)),
            _ => {}
        }
        let begins = matches!(
            kind,
            EventKind::Exit { .. } | EventKind::Enter | EventKind::UserspaceExit { .. } | EventKind::Detail(_)
        );
        let full = self.lanes.len() >= self.max_lanes;
        let state = match self.lanes.entry(lane) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(_) if !begins => return,
            Entry::Vacant(_) if full => {
                self.lost += 1;
                return;
            }
            Entry::Vacant(new) => {
                if let VcpuRunner::Thread(thread) = lane.runner {
                    self.threads.insert(Tid(thread), lane);
                }
                new.insert(State { first: at, ..State::default() })
            }
        };
        state.events += 1;
        // It runs, whether the scheduler said so or not.
        let (block, spent) = state.in_hand();
        block.comes_back(at, spent);
        if vcpu != VcpuId::UNKNOWN {
            state.vcpu = Some(vcpu.0);
        }
        let mut done = Vec::new();
        state.take(self.traits, at, kind, &mut done);
        for (cause, about, count) in done {
            self.count(CountKey { lane, cause, subject: about }, &count);
        }
    }

    /// The scheduler does this to a thread.
    fn schedule(&mut self, thread: Tid, change: impl Fn(&mut ThreadBlock, &mut Spent)) {
        let Some(state) = self.threads.get(&thread).and_then(|lane| self.lanes.get_mut(lane)) else { return };
        state.events += 1;
        let (block, spent) = state.in_hand();
        change(block, spent);
    }

    /// Events were lost: exits that are open now have ends that nobody knows.
    pub fn lose(&mut self, events: u64) {
        self.lost += events;
        let lanes: Vec<CountedVcpu> = self.lanes.keys().copied().collect();
        for lane in lanes {
            self.settle(lane);
        }
    }

    /// The lane is gone.
    pub fn forget(&mut self, lane: CountedVcpu) {
        self.lanes.remove(&lane);
        self.threads.retain(|_, of| *of != lane);
        self.counts.retain(|key, _| key.lane != lane);
    }

    /// What was counted until now, with what is open, up to `at`; of who is gone, up to the end.
    pub fn read(&self, at: u64, gone: &BTreeSet<CountedVcpu>) -> CountReading {
        let counts: Vec<(CountKey, CountAndTime)> =
            self.counts.iter().map(|(key, count)| (*key, count.clone())).collect();
        let (mut lanes, mut unsettled) = (Vec::new(), Vec::new());
        for (&lane, state) in &self.lanes {
            let unsettles = state.unsettled(self.traits);
            unsettled.extend(unsettles.map(|(cause, about, count)| (CountKey { lane, cause, subject: about }, count)));
            let State { first, vcpu, poll, events, open, within, outside: without, block, .. } = *state;
            let until = end(at, block.out, gone.contains(&lane));
            let [within, without] = match open {
                Some(_) => [up_to(until, within, block.out), without],
                None => [within, up_to(until, without, block.out)],
            };
            let open =
                open.map(|Row { code, since, .. }| OpenExit { code, since, not_cost: beside_cost(&within, code) });
            let outside = outside(&without, self.traits.is_software);
            let wake_ups = block.wake_ups;
            lanes.push((
                lane,
                CountedVcpuState { vcpu, poll, first, until, open, outside, wake_ups, events, ended: false },
            ));
        }
        CountReading { lanes, counts, unsettled, lost: self.lost, missed: 0 }
    }

    /// All that was counted.
    #[cfg(test)]
    pub fn read_all(&self) -> CountReading {
        self.read(u64::MAX, &BTreeSet::new())
    }

    fn settle(&mut self, lane: CountedVcpu) {
        let Some(state) = self.lanes.get_mut(&lane) else { return };
        let unsettled = state.unsettled(self.traits);
        (state.open, state.closed, state.about) = (None, None, None);
        state.block.lose();
        if let Some((cause, about, count)) = unsettled {
            self.count(CountKey { lane, cause, subject: about }, &count);
        }
    }

    fn count(&mut self, key: CountKey, more: &CountAndTime) {
        let full = self.counts.len() >= self.max_counts;
        match self.counts.entry(key) {
            Entry::Occupied(mut known) => known.get_mut().add(more),
            Entry::Vacant(_) if full => self.lost += 1,
            Entry::Vacant(new) => new.insert(CountAndTime::default()).add(more),
        }
    }
}

type Done = (CountedKind, Option<CountedSubject>, CountAndTime);

/// What KVM did for the guest.
fn served(about: CountedSubject) -> Done {
    (CountedKind::InKernel, Some(about), CountAndTime { count: 1, ..CountAndTime::default() })
}

impl State {
    /// What the thread does, and where its time without a CPU is added up now.
    fn in_hand(&mut self) -> (&mut ThreadBlock, &mut Spent) {
        (&mut self.block, if self.open.is_some() { &mut self.within } else { &mut self.outside })
    }

    fn take(&mut self, traits: Traits, at: u64, kind: EventKind, done: &mut Vec<Done>) {
        let is_software = traits.is_software;
        match kind {
            EventKind::Exit { code, idle, .. } => {
                done.extend(self.unsettled(traits));
                self.about = None;
                self.open(Row { ceded: idle, ..Row::new(at, code) });
            }
            EventKind::Enter => {
                if traits.switches && self.open.is_some() {
                    self.block.enters(at);
                }
                if let Some(row) = self.open.take() {
                    done.push(self.row(traits, row, Some(at.saturating_sub(row.since))));
                }
                self.block.in_kernel();
                self.about = None;
            }
            EventKind::UserspaceExit { reason, errno } => {
                match &mut self.open {
                    Some(row) => row.to_user |= UserStay::of(reason, errno) != UserStay::Kicked,
                    None if is_software => {
                        done.extend(self.closed.take().map(|(row, took)| self.row(traits, row, Some(took))));
                        let code = ExitCode::of_userspace(reason, errno);
                        done.extend(self.about.take_if(|about| !code.hands_over(about.kind)).map(served));
                        self.open(Row { to_user: true, ..Row::new(at, code) });
                    }
                    None => return,
                }
                self.block.in_user_space(reason, errno);
            }
            EventKind::Fpu { load: true } if is_software => {
                let Some(row) = self.open.take() else { return };
                self.block.begin(at);
                self.closed = Some((row, at.saturating_sub(row.since)));
            }
            EventKind::Detail(detail) => self.detail(traits, detail, done),
            EventKind::HaltEnd { ns, waited, valid } => {
                let mut count = CountAndTime { count: 1, total: ns, ..CountAndTime::default() };
                count.lengths.record(ns);
                done.push((CountedKind::Halt { slept: waited, valid }, None, count));
                let polls = self.poll.map_or(traits.polls, |window| window > 0);
                let (block, spent) = self.in_hand();
                block.end_halt(at, ns, waited, polls, spent);
                if traits.switches {
                    self.block.end_wait(at, ns, waited);
                }
                if is_software {
                    self.block.enters(at);
                }
            }
            EventKind::HaltPoll { new, old, .. } => {
                self.poll = Some(new);
                self.block.polled(old);
            }
            _ => {}
        }
    }

    fn open(&mut self, row: Row) {
        self.block.begin(row.since);
        self.within = [0; SUMS];
        self.open = Some(row);
    }

    fn detail(&mut self, traits: Traits, detail: Subject, done: &mut Vec<Done>) {
        let key = if detail.kind == SubjectKind::Mmio { detail.key >> REGION_BITS << REGION_BITS } else { detail.key };
        let about = CountedSubject { kind: detail.kind, write: detail.write, key };
        if self.open.is_some() {
            // An access that goes on after user space does so in the kernel.
            self.block.in_kernel();
            if self.about.is_none_or(|known| known.kind < about.kind) {
                self.about = Some(about);
            }
            return;
        }
        if !traits.is_software {
            return;
        }
        if let Some((row, took)) = self.closed.take() {
            let detail = Subject { key, ..detail };
            if detail.completes(row.code, self.about.map(|about| (about.kind, about.write, about.key))) {
                let before = self.about.replace(about);
                done.extend(before.filter(|before| before.write).map(served));
                done.push(self.row(traits, row, Some(took)));
                return;
            }
            done.push(self.row(traits, row, Some(took)));
        }
        done.extend(self.about.take().map(served));
        match detail.is_answered() {
            true => done.push(served(about)),
            false => self.about = Some(about),
        }
    }

    /// An exit with what it was about.
    fn row(&mut self, traits: Traits, row: Row, took: Option<u64>) -> Done {
        let count = self.count(traits, row, took);
        (CountedKind::Exit(row.code), self.about.take(), count)
    }

    /// An exit as a count; `took` if its end was seen.
    fn count(&self, traits: Traits, row: Row, took: Option<u64>) -> CountAndTime {
        let mut count = CountAndTime { count: 1, to_user: row.to_user.into(), ..CountAndTime::default() };
        if let Some(took) = took {
            count.total = took;
            count.not_cost = match traits.switches {
                true => beside_cost(&self.within, row.code),
                // Nothing says when it slept.
                false if row.ceded || row.code.is_halt() => ExitParts::ZERO.with(TimePart::Undivided, Nanos(took)),
                false => ExitParts::ZERO,
            };
            count.lengths.record(took);
        }
        count
    }

    /// The exit that is not counted yet.
    fn unsettled(&self, traits: Traits) -> Option<Done> {
        let (row, took) = self.open.map(|row| (row, None)).or(self.closed.map(|(row, took)| (row, Some(took))))?;
        Some((CountedKind::Exit(row.code), self.about, self.count(traits, row, took)))
    }
}

#[cfg(test)]
mod tests {
    use super::super::snapshot::HaltWakeUps;
    use super::*;
    use exitscope_model::{CodeList, PortAccessForm, SubjectWord};

    const HARDWARE: Traits = Traits { is_software: false, polls: true, switches: true };
    const LANE: CountedVcpu = CountedVcpu { process: 7, runner: VcpuRunner::Thread(70) };

    fn about(kind: SubjectKind, write: bool, key: u64) -> EventKind {
        EventKind::Detail(Subject { kind, write, form: PortAccessForm::Unknown, size: 1, key, value: 5 })
    }

    fn exit(list: CodeList, number: u64) -> EventKind {
        EventKind::Exit { code: ExitCode::new(list, number), idle: false, words: SubjectWord::NONE, rip: 0 }
    }

    fn counted(
        is_software: bool,
        events: &[(u64, EventKind)],
    ) -> Vec<(CountedKind, Option<CountedSubject>, u64, u64, u64)> {
        let mut fold = Fold::new(Traits { is_software, polls: true, switches: true }, 4, 100);
        for &(at, kind) in events {
            fold.take(LANE, at, kind, VcpuId::UNKNOWN);
        }
        let CountReading { counts, unsettled, .. } = fold.read_all();
        let all = counts.into_iter().chain(unsettled);
        let mut rows: Vec<_> =
            all.map(|(key, c)| (key.cause, key.subject, c.count, c.total, c.total - c.cost())).collect();
        rows.sort_unstable();
        rows
    }

    fn vmx(number: u64) -> CountedKind {
        CountedKind::Exit(ExitCode::new(CodeList::Vmx, number))
    }

    fn user(number: u64) -> CountedKind {
        CountedKind::Exit(ExitCode::new(CodeList::KvmExit, number))
    }

    const PORT: Option<CountedSubject> = Some(CountedSubject { kind: SubjectKind::Port, write: true, key: 0x80 });
    const READ: Option<CountedSubject> = Some(CountedSubject { kind: SubjectKind::Port, write: false, key: 0x81 });

    #[test]
    fn exits_of_hardware_last_from_exit_to_entry() {
        let rows = counted(
            false,
            &[
                (5, about(SubjectKind::Port, true, 0x80)),
                (10, exit(CodeList::Vmx, 30)),
                (11, about(SubjectKind::PageFault, false, 1)),
                (12, about(SubjectKind::Port, true, 0x80)),
                (13, about(SubjectKind::PageFault, false, 1)),
                (17, EventKind::Enter),
                (18, EventKind::Enter),
                (20, exit(CodeList::Vmx, 12)),
                (70, EventKind::HaltEnd { ns: 40, waited: false, valid: true }),
                (80, EventKind::Enter),
                // The end of the first is not seen, the second is not over.
                (90, exit(CodeList::Vmx, 32)),
                (95, exit(CodeList::Vmx, 32)),
            ],
        );
        let halt = (CountedKind::Halt { slept: false, valid: true }, None, 1, 40, 0);
        assert_eq!(
            rows,
            [
                (vmx(12), None, 1, 60, 40),
                (vmx(30), PORT, 1, 7, 0),
                (vmx(32), None, 1, 0, 0),
                (vmx(32), None, 1, 0, 0),
                halt
            ]
        );
    }

    #[test]
    fn what_a_signal_takes_to_user_space_is_not_answered_there() {
        let out = |reason, errno| EventKind::UserspaceExit { reason, errno };
        for (is_software, begin) in [(false, exit(CodeList::Vmx, 30)), (true, out(10, -4))] {
            for (reason, errno, answered) in [(2, 0, 1), (5, 0, 1), (2, -4, 0), (2, -11, 0), (10, 0, 0), (2, -14, 1)] {
                let mut fold = Fold::new(Traits { is_software, ..HARDWARE }, 4, 100);
                for (at, kind) in [(1, begin), (2, out(reason, errno)), (9, out(10, -4)), (20, EventKind::Enter)] {
                    fold.take(LANE, at, kind, VcpuId::UNKNOWN);
                }
                let reading = fold.read_all();
                let [(_, count)] = &reading.counts[..] else { panic!("{:?}", reading.counts) };
                // A row that is the return itself has no other answer.
                assert_eq!(count.to_user, if is_software { 1 } else { answered }, "{is_software} {reason} {errno}");
            }
        }
    }

    #[test]
    fn without_kvm_exit_they_last_from_user_space_to_kvm_run() {
        let out = |errno| EventKind::UserspaceExit { reason: 2, errno };
        let run = EventKind::Fpu { load: true };
        let rows = counted(
            true,
            &[
                (1, about(SubjectKind::Msr, true, 0x10)),
                (2, about(SubjectKind::Port, true, 0x80)),
                (3, out(0)),
                (9, run),
                (20, out(0)),
                (25, run),
                (26, about(SubjectKind::Port, false, 0x81)),
                (30, out(-4)),
                (31, run),
                (32, about(SubjectKind::Port, true, 0x80)),
                (40, out(0)),
            ],
        );
        let msr = Some(CountedSubject { kind: SubjectKind::Msr, write: true, key: 0x10 });
        assert_eq!(
            rows,
            [
                (user(2), READ, 1, 5, 0),
                (user(2), PORT, 1, 0, 0),
                (user(2), PORT, 1, 6, 0),
                (user(10), None, 1, 1, 0),
                (CountedKind::InKernel, msr, 1, 0, 0),
            ]
        );
    }

    /// Parts of what was counted that are no cost, and the cost: of exits, and of no exit.
    fn account(is_software: bool, events: &[(u64, EventKind)]) -> (Vec<(&'static str, u64)>, u64) {
        let mut fold = Fold::new(Traits { is_software, polls: true, switches: true }, 4, 100);
        for &(at, kind) in events {
            fold.take(LANE, at, kind, VcpuId::UNKNOWN);
        }
        let CountReading { lanes, counts, unsettled, .. } = fold.read(events[events.len() - 1].0, &BTreeSet::new());
        let (mut parts, mut cost) = (lanes[0].1.outside, 0);
        let of_exits = |(key, _): &&(CountKey, CountAndTime)| matches!(key.cause, CountedKind::Exit(_));
        for (_, count) in [&counts, &unsettled].into_iter().flatten().filter(of_exits) {
            parts.merge(&count.not_cost);
            cost += count.cost();
        }
        parts.merge(&lanes[0].1.open.map_or(ExitParts::ZERO, |open| open.not_cost));
        let named = TimePart::OF_EXITS.map(|part| (part.name(), parts.get(part).0));
        (named.into_iter().filter(|part| part.1 > 0).collect(), cost)
    }

    fn switch(at: u64, to_us: bool, sleeps: bool) -> (u64, EventKind) {
        let [prev, next] = if to_us { [0, 70] } else { [70, 0] }.map(Tid);
        (at, EventKind::switch(prev, sleeps, next))
    }

    fn woken(at: u64, ns: u64, waited: bool) -> (u64, EventKind) {
        (at, EventKind::HaltEnd { ns, waited, valid: true })
    }

    const WAKEUP: EventKind = EventKind::Wakeup { tid: Tid(70) };

    #[test]
    fn a_thread_that_is_gone_counts_until_it_left_its_cpu() {
        let mut fold = Fold::new(HARDWARE, 4, 100);
        for (at, kind) in [(100, exit(CodeList::Vmx, 12)), (200, EventKind::Enter), switch(350, false, true)] {
            fold.take(LANE, at, kind, VcpuId::UNKNOWN);
        }
        for (gone, until) in [(BTreeSet::new(), 9_000), (BTreeSet::from([LANE]), 350)] {
            assert_eq!(fold.read(9_000, &gone).lanes[0].1.until, until);
        }
    }

    /// The cases are those of `parts.rs` among the tests of the model, with the same figures.
    #[test]
    fn time_is_divided_as_a_report_divides_it() {
        let polled = |at, old| (at, EventKind::HaltPoll { grow: true, new: 2 * old, old });
        let out = |at, sleeps| switch(at, false, sleeps);
        let back = |at| switch(at, true, false);
        let halt = [
            (1_000, exit(CodeList::Vmx, 12)),
            out(1_450, true),
            (2_450, WAKEUP),
            back(2_650),
            polled(2_660, 300),
            woken(2_680, 1_580, true),
            (2_750, EventKind::Enter),
        ];
        assert_eq!(account(false, &halt), (vec![("polling", 300), ("halted", 1_000), ("steal", 200)], 250));
        // It lasts as long as it is looked at.
        assert_eq!(account(false, &[halt[0], halt[1], (2_000, EventKind::Other)]).0, [("halted", 550)]);
        let caught = [(0, exit(CodeList::Vmx, 12)), woken(900, 800, false), (1_000, EventKind::Enter)];
        assert_eq!(account(false, &caught), (vec![("polling", 800)], 200));
        let pending = [(0, exit(CodeList::Vmx, 12)), (700, EventKind::Enter)];
        assert_eq!(account(false, &pending), (vec![], 700));
        let looked = [(0, exit(CodeList::Vmx, 12)), polled(890, 0), woken(900, 800, false), (1_000, EventKind::Enter)];
        assert_eq!(account(false, &looked), (vec![], 1_000));
        let slept = |number| {
            let exit = (0, exit(CodeList::Vmx, number));
            account(false, &[exit, out(100, true), (900, WAKEUP), back(900), (1_000, EventKind::Enter)])
        };
        assert_eq!(slept(48), (vec![("waiting for memory", 800)], 200));
        assert_eq!(slept(36), (vec![], 1_000), "KVM runs MWAIT as a NOP");
        let stopped = |reason, errno| {
            let returns = (100, EventKind::UserspaceExit { reason, errno });
            let rest = [out(200, true), (7_200, WAKEUP), back(7_250), (7_400, EventKind::Enter)];
            account(false, &[&[(0, exit(CodeList::Vmx, 10)), returns], &rest[..]].concat())
        };
        assert_eq!(stopped(2, -4), (vec![("steal", 50), ("stopped", 7_000)], 350));
        assert_eq!(stopped(2, 0), (vec![("steal", 50)], 7_350));
        // A processor that waits to be started was kicked before, and does so in KVM_RUN.
        let kicked = [(0, exit(CodeList::Vmx, 10)), (100, EventKind::UserspaceExit { reason: 10, errno: 0 })];
        let waits = [out(200, true), (800, WAKEUP), back(850), woken(860, 700, true), (1_000, EventKind::Enter)];
        let waits = [&kicked[..], &waits].concat();
        assert_eq!(account(false, &waits), (vec![("halted", 600), ("steal", 50)], 350));
        // A halt that was caught did not sleep.
        let caught = [out(200, true), (800, WAKEUP), back(850), woken(960, 50, false), (1_000, EventKind::Enter)];
        let found = account(false, &[&kicked[..], &caught].concat());
        assert_eq!(found, (vec![("steal", 50), ("stopped", 600)], 350));
        // What was asleep for longer than the halt was kept from running before it.
        let stops = [out(200, true), (5_200, WAKEUP), back(5_250), out(5_300, true), (5_900, WAKEUP), back(5_950)];
        let then = [woken(5_960, 660, true), (6_000, EventKind::Enter)];
        let found = account(false, &[&kicked[..], &stops, &then].concat());
        assert_eq!(found, (vec![("halted", 660), ("steal", 100), ("stopped", 4_940)], 300));
    }

    /// The setting may be another since it was read, or a VM may have a limit of its own (`KVM_CAP_HALT_POLL`).
    #[test]
    fn a_host_that_never_polls_polls_once_kvm_says_that_it_does() {
        let poll = |at, new, old| (at, EventKind::HaltPoll { grow: true, new, old });
        let halt = [(0, exit(CodeList::Vmx, 12)), woken(900, 800, false), (1_000, EventKind::Enter)];
        let polling = |events: &[(u64, EventKind)]| {
            let mut fold = Fold::new(Traits { polls: false, ..HARDWARE }, 4, 100);
            for &(at, kind) in events {
                fold.take(LANE, at, kind, VcpuId::UNKNOWN);
            }
            let counted = fold.read_all().counts;
            counted.iter().map(|(_, count)| count.not_cost.get(TimePart::Polling).0).sum::<u64>()
        };
        let next = halt.map(|(at, kind)| (at + 2_000, kind));
        assert_eq!(polling(&[halt, next].concat()), 0);
        assert_eq!(polling(&[&halt[..], &[poll(1_500, 10_000, 0)], &next].concat()), 800, "its window is told");
        assert_eq!(polling(&[&halt[..1], &[poll(890, 0, 10_000)], &halt[1..]].concat()), 800, "so is that it polled");
        assert_eq!(polling(&[&halt[..], &[poll(1_500, 0, 10_000)], &next].concat()), 0, "it polls no more");
    }

    #[test]
    fn without_kvm_exit_what_kvm_run_holds_is_divided_as_well() {
        let user = |at| (at, EventKind::UserspaceExit { reason: 2, errno: 0 });
        let run = |at| (at, EventKind::Fpu { load: true });
        let events = [
            user(0),
            run(100),
            switch(300, false, true),
            (900, WAKEUP),
            switch(1_000, true, false),
            (1_005, EventKind::HaltPoll { grow: true, new: 100, old: 50 }),
            woken(1_010, 760, true),
            switch(1_500, false, false),
            switch(1_700, true, false),
            user(2_000),
            run(2_100),
        ];
        assert_eq!(account(true, &events), (vec![("polling", 50), ("halted", 600), ("steal", 300)], 200));
    }

    /// Halts whose wake-up was seen, how long they took from there, and halts whose wake-up was not.
    fn wake_ups(is_software: bool, events: &[(u64, EventKind)]) -> (u64, u64, u64) {
        let mut fold = Fold::new(Traits { is_software, ..HARDWARE }, 4, 100);
        for &(at, kind) in events {
            fold.take(LANE, at, kind, VcpuId::UNKNOWN);
        }
        let HaltWakeUps { seen, latency, unseen } = fold.read_all().lanes[0].1.wake_ups;
        (seen, latency, unseen)
    }

    #[test]
    fn a_wake_up_takes_from_what_woke_the_vcpu_to_its_entry() {
        let (begin, hlt) = (1_000, (1_000, exit(CodeList::Vmx, 12)));
        let slept = [hlt, switch(1_450, false, true), (2_450, WAKEUP), switch(2_650, true, false)];
        let (told, entry) = (woken(2_680, 1_580, true), (2_750, EventKind::Enter));
        assert_eq!(wake_ups(false, &[&slept[..], &[told, entry]].concat()), (1, 300, 0));
        // What KVM caught came when it says so.
        assert_eq!(wake_ups(false, &[hlt, woken(1_900, 800, false), (2_000, EventKind::Enter)]), (1, 100, 0));
        assert_eq!(wake_ups(false, &[hlt, entry]), (0, 0, 0), "an event was pending");
        // Not every wake-up is seen, and one from before the halt is another's.
        let unseen = [hlt, slept[1], slept[3], told, entry];
        assert_eq!(wake_ups(false, &unseen), (0, 0, 1));
        let earlier = [(200, EventKind::Enter), switch(300, false, true), (400, WAKEUP), switch(500, true, false)];
        assert_eq!(wake_ups(false, &[&earlier[..], &unseen].concat()), (0, 0, 1));
        // What nothing came of is followed by the next halt, and an exit whose entry is lost by the next exit.
        let next = [switch(3_000, false, true), (4_000, WAKEUP), switch(4_100, true, false), woken(4_110, 1_400, true)];
        let twice = [&slept[..], &[told], &next, &[(4_200, EventKind::Enter)]].concat();
        assert_eq!(wake_ups(false, &twice), (1, 200, 0));
        let lost = [&slept[..], &[told, (2_900, exit(CodeList::Vmx, 30)), (3_000, EventKind::Enter)]].concat();
        assert_eq!(wake_ups(false, &lost), (0, 0, 0));
        // Where nothing tells of entries, it ends with the halt.
        let user =
            |at| [(at, EventKind::UserspaceExit { reason: 2, errno: 0 }), (at + 9, EventKind::Fpu { load: true })];
        let software = [&user(begin)[..], &slept[1..], &[told, woken(3_900, 800, false)], &user(4_000)].concat();
        assert_eq!(wake_ups(true, &software), (2, 230, 0));
    }

    /// Now and then a switch to a thread is told of to no program and to no perf event.
    #[test]
    fn an_event_of_its_own_shows_that_a_thread_runs() {
        let events = [
            (0, exit(CodeList::Vmx, 30)),
            switch(100, false, false),
            (150, about(SubjectKind::Port, true, 0x80)),
            (400, EventKind::Enter),
            switch(500, false, true),
            (600, exit(CodeList::Vmx, 30)),
            (700, EventKind::Enter),
            switch(800, false, false),
            switch(900, true, false),
        ];
        assert_eq!(account(false, &events), (vec![("steal", 150)], 450));
    }

    #[test]
    fn what_kvm_answered_is_not_what_the_exit_after_it_is_about() {
        let port = |write, key| about(SubjectKind::Port, write, key);
        let out = |reason| EventKind::UserspaceExit { reason, errno: 0 };
        let run = EventKind::Fpu { load: true };
        let rows = counted(
            true,
            &[
                // KVM's interrupt controller, then a read of a serial port.
                (1, port(true, 0x20)),
                (10, out(2)),
                (15, run),
                (16, port(false, 0x3fd)),
                // A read that KVM answered, a write that it did, and a signal.
                (20, port(false, 0x21)),
                (21, port(true, 0x21)),
                (30, out(10)),
                (31, run),
                // A write that user space does, then a read that KVM answers.
                (40, port(true, 0x80)),
                (41, out(2)),
                (43, run),
                (50, port(false, 0x21)),
            ],
        );
        let of = |write, key| Some(CountedSubject { kind: SubjectKind::Port, write, key });
        assert_eq!(
            rows,
            [
                (user(2), of(false, 0x3fd), 1, 5, 0),
                (user(2), PORT, 1, 2, 0),
                (user(10), None, 1, 1, 0),
                (CountedKind::InKernel, of(false, 0x21), 2, 0, 0),
                (CountedKind::InKernel, of(true, 0x20), 1, 0, 0),
                (CountedKind::InKernel, of(true, 0x21), 1, 0, 0),
            ]
        );
    }

    #[test]
    fn a_read_of_memory_is_told_twice_and_is_one() {
        let out = EventKind::UserspaceExit { reason: 6, errno: 0 };
        let run = EventKind::Fpu { load: true };
        let read = |at| about(SubjectKind::Mmio, false, at);
        let rows = counted(true, &[(1, read(0x1004)), (2, out), (5, run), (6, read(0x1004)), (9, out), (10, run)]);
        let page = Some(CountedSubject { kind: SubjectKind::Mmio, write: false, key: 0x1000 });
        assert_eq!(rows, [(user(6), None, 1, 1, 0), (user(6), page, 1, 3, 0)]);
    }

    #[test]
    fn what_has_no_room_is_lost_and_said() {
        let mut fold = Fold::new(HARDWARE, 1, 1);
        for (at, number) in [(10, 1), (20, 2), (30, 1)] {
            fold.take(LANE, at, exit(CodeList::Vmx, number), VcpuId::UNKNOWN);
            fold.take(LANE, at + 1, EventKind::Enter, VcpuId::UNKNOWN);
        }
        fold.take(CountedVcpu { process: 8, ..LANE }, 40, EventKind::Enter, VcpuId::UNKNOWN);
        let reading = fold.read_all();
        assert_eq!((reading.counts.len(), reading.counts[0].1.count, reading.lost), (1, 2, 2));
        fold.forget(LANE);
        assert!(fold.read_all().lanes.is_empty() && fold.read_all().counts.is_empty());
    }

    #[test]
    fn who_began_after_the_moment_of_a_reading_is_not_in_it() {
        let mut fold = Fold::new(HARDWARE, 4, 9);
        let later = CountedVcpu { process: 8, runner: VcpuRunner::Thread(80) };
        for (lane, at) in [(LANE, 10), (later, 35)] {
            fold.take(lane, at, exit(CodeList::Vmx, 1), VcpuId::UNKNOWN);
            fold.take(lane, at + 1, EventKind::Enter, VcpuId::UNKNOWN);
            fold.take(lane, at + 2, exit(CodeList::Vmx, 1), VcpuId::UNKNOWN);
        }
        for (at, all) in [(30, 1), (40, 2)] {
            let CountReading { lanes, counts, unsettled, .. } = fold.read_all().begun_by(at);
            assert_eq!([lanes.len(), counts.len(), unsettled.len()], [all; 3], "up to {at}");
        }
    }

    #[test]
    fn after_a_loss_no_length_is_made_up() {
        let mut fold = Fold::new(HARDWARE, 1, 9);
        fold.take(LANE, 10, exit(CodeList::Vmx, 1), VcpuId::UNKNOWN);
        fold.lose(3);
        fold.take(LANE, 50, EventKind::Enter, VcpuId::UNKNOWN);
        let reading = fold.read_all();
        assert_eq!((reading.counts[0].1.count, reading.counts[0].1.total, reading.lost), (1, 0, 3));
    }
}
