//! Counts events one after the other: what the BPF programs do, for where they may not be used.
//!
//! ```text
//! with kvm_exit:     kvm_exit ── what it is about ── kvm_entry
//! without it:        what is written ── kvm_userspace_exit ── KVM_RUN ── what was read
//!                    what nothing comes of: served by the kernel
//! ```

use super::snapshot::{About, Cause, Count, Key, Lane, LaneState, Open};
use exitscope_model::codes::REGION_BITS;
use exitscope_model::{Detail, DetailKind, ExitCode, Kind};
use exitscope_units::VcpuId;
use std::collections::HashMap;
use std::collections::hash_map::Entry;

/// What was counted, and what is open.
#[derive(Debug)]
pub struct Fold {
    /// `kvm_exit` never fires here.
    is_software: bool,
    max_lanes: usize,
    max_counts: usize,
    lanes: HashMap<Lane, State>,
    counts: HashMap<Key, Count>,
    lost: u64,
}

/// What a reading gives: counts may be of the same key.
#[derive(Debug, Default)]
pub struct Reading {
    pub lanes: Vec<(Lane, LaneState)>,
    pub counts: Vec<(Key, Count)>,
    /// Exits of which more may come to be known, so that they may end in another count.
    pub unsettled: Vec<(Key, Count)>,
    pub lost: u64,
}

#[derive(Debug, Default)]
struct State {
    open: Option<Row>,
    /// Without `kvm_exit`: an exit that is over, but for what it was about.
    closed: Option<(Row, u64)>,
    about: Option<About>,
    vcpu: Option<u32>,
    poll: Option<u32>,
    events: u64,
}

#[derive(Clone, Copy, Debug)]
struct Row {
    since: u64,
    code: ExitCode,
    idle: u64,
    /// The event itself says that the vCPU is idle.
    ceded: bool,
    to_user: bool,
}

impl Row {
    fn new(since: u64, code: ExitCode) -> Row {
        Row { since, code, idle: 0, ceded: false, to_user: false }
    }

    /// It as a count; `took` if its end was seen.
    fn count(self, took: Option<u64>) -> Count {
        let mut count = Count { count: 1, to_user: self.to_user.into(), ..Count::default() };
        if let Some(took) = took {
            count.total = took;
            count.idle = if self.ceded { took } else { self.idle.min(took) };
            count.lengths.record(took);
        }
        count
    }
}

impl Fold {
    /// Nothing yet. `is_software`: `kvm_fpu` stands for entries.
    pub fn new(is_software: bool, max_lanes: usize, max_counts: usize) -> Fold {
        Fold { is_software, max_lanes, max_counts, lanes: HashMap::new(), counts: HashMap::new(), lost: 0 }
    }

    /// Uses an event of a lane.
    pub fn take(&mut self, lane: Lane, at: u64, kind: Kind, vcpu: VcpuId) {
        let begins = matches!(kind, Kind::Exit { .. } | Kind::Enter | Kind::UserspaceExit { .. } | Kind::Detail(_));
        let full = self.lanes.len() >= self.max_lanes;
        let state = match self.lanes.entry(lane) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(_) if !begins => return,
            Entry::Vacant(_) if full => {
                self.lost += 1;
                return;
            }
            Entry::Vacant(new) => new.insert(State::default()),
        };
        state.events += 1;
        if vcpu != VcpuId::UNKNOWN {
            state.vcpu = Some(vcpu.0);
        }
        let mut done = Vec::new();
        state.take(self.is_software, at, kind, &mut done);
        for (cause, about, count) in done {
            self.count(Key { lane, cause, about }, &count);
        }
    }

    /// Events were lost: exits that are open now have ends that nobody knows.
    pub fn lose(&mut self, events: u64) {
        self.lost += events;
        let lanes: Vec<Lane> = self.lanes.keys().copied().collect();
        for lane in lanes {
            self.settle(lane);
        }
    }

    /// The lane is gone.
    pub fn forget(&mut self, lane: Lane) {
        self.lanes.remove(&lane);
        self.counts.retain(|key, _| key.lane != lane);
    }

    /// What was counted until now, with what is open.
    pub fn read(&self) -> Reading {
        let counts: Vec<(Key, Count)> = self.counts.iter().map(|(key, count)| (*key, count.clone())).collect();
        let (mut lanes, mut unsettled) = (Vec::new(), Vec::new());
        for (&lane, state) in &self.lanes {
            unsettled.extend(state.unsettled().map(|(cause, about, count)| (Key { lane, cause, about }, count)));
            let open = state.open.map(|row| Open { code: row.code, since: row.since });
            let State { vcpu, poll, events, .. } = *state;
            lanes.push((lane, LaneState { vcpu, poll, open, events, ended: false }));
        }
        Reading { lanes, counts, unsettled, lost: self.lost }
    }

    fn settle(&mut self, lane: Lane) {
        let Some(state) = self.lanes.get_mut(&lane) else { return };
        let unsettled = state.unsettled();
        (state.open, state.closed, state.about) = (None, None, None);
        if let Some((cause, about, count)) = unsettled {
            self.count(Key { lane, cause, about }, &count);
        }
    }

    fn count(&mut self, key: Key, more: &Count) {
        let full = self.counts.len() >= self.max_counts;
        match self.counts.entry(key) {
            Entry::Occupied(mut known) => known.get_mut().add(more),
            Entry::Vacant(_) if full => self.lost += 1,
            Entry::Vacant(new) => new.insert(Count::default()).add(more),
        }
    }
}

type Done = (Cause, Option<About>, Count);

impl State {
    fn take(&mut self, is_software: bool, at: u64, kind: Kind, done: &mut Vec<Done>) {
        match kind {
            Kind::Exit { code, idle, .. } => {
                done.extend(self.unsettled());
                self.about = None;
                self.open = Some(Row { ceded: idle, ..Row::new(at, code) });
            }
            Kind::Enter => {
                if let Some(row) = self.open.take() {
                    done.push(self.row(row, Some(at.saturating_sub(row.since))));
                }
                self.about = None;
            }
            Kind::UserspaceExit { reason, errno } => match &mut self.open {
                Some(row) => row.to_user = true,
                None if is_software => {
                    done.extend(self.closed.take().map(|(row, took)| self.row(row, Some(took))));
                    self.open = Some(Row { to_user: true, ..Row::new(at, ExitCode::of_userspace(reason, errno)) });
                }
                None => {}
            },
            Kind::Fpu { load: true } if is_software => {
                if let Some(row) = self.open.take() {
                    let took = at.saturating_sub(row.since);
                    if self.about.is_some_and(|about| about.write) {
                        done.push(self.row(row, Some(took)));
                    } else {
                        self.closed = Some((row, took));
                    }
                }
            }
            Kind::Detail(detail) => self.detail(is_software, detail, done),
            Kind::HaltEnd { ns, waited, valid } => {
                let mut count = Count { count: 1, total: ns, idle: ns, ..Count::default() };
                count.lengths.record(ns);
                done.push((Cause::Halt { slept: waited, valid }, None, count));
                if let Some(row) = &mut self.open {
                    row.idle += ns;
                }
            }
            Kind::HaltPoll { new, .. } => self.poll = Some(new),
            _ => {}
        }
    }

    fn detail(&mut self, is_software: bool, detail: Detail, done: &mut Vec<Done>) {
        let key = if detail.kind == DetailKind::Mmio { detail.key >> REGION_BITS << REGION_BITS } else { detail.key };
        let about = About { kind: detail.kind, write: detail.write, key };
        if self.open.is_some() {
            if self.about.is_none_or(|known| known.kind < about.kind) {
                self.about = Some(about);
            }
            return;
        }
        if !is_software {
            return;
        }
        if let Some((row, took)) = self.closed.take() {
            // A read is told of when its value has come.
            let completes = !about.write && self.about.is_none_or(|known| known == about);
            if completes {
                self.about = Some(about);
            }
            done.push(self.row(row, Some(took)));
            if completes {
                return;
            }
        }
        if let Some(served) = self.about.replace(about) {
            done.push((Cause::Served, Some(served), Count { count: 1, ..Count::default() }));
        }
    }

    /// An exit with what it was about.
    fn row(&mut self, row: Row, took: Option<u64>) -> Done {
        (Cause::Exit(row.code), self.about.take(), row.count(took))
    }

    /// The exit that is not counted yet.
    fn unsettled(&self) -> Option<Done> {
        let (row, took) = self.open.map(|row| (row, None)).or(self.closed.map(|(row, took)| (row, Some(took))))?;
        Some((Cause::Exit(row.code), self.about, row.count(took)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Runner;
    use exitscope_model::{CodeList, Form, PortWords};

    const LANE: Lane = Lane { process: 7, runner: Runner::Thread(70) };

    fn about(kind: DetailKind, write: bool, key: u64) -> Kind {
        Kind::Detail(Detail { kind, write, form: Form::Untold, size: 1, key, value: 5 })
    }

    fn exit(list: CodeList, number: u64) -> Kind {
        Kind::Exit { code: ExitCode::new(list, number), idle: false, words: PortWords::NONE, rip: 0 }
    }

    fn counted(is_software: bool, events: &[(u64, Kind)]) -> Vec<(Cause, Option<About>, u64, u64, u64)> {
        let mut fold = Fold::new(is_software, 4, 100);
        for &(at, kind) in events {
            fold.take(LANE, at, kind, VcpuId::UNKNOWN);
        }
        let Reading { counts, unsettled, .. } = fold.read();
        let all = counts.into_iter().chain(unsettled);
        let mut rows: Vec<_> = all.map(|(key, c)| (key.cause, key.about, c.count, c.total, c.idle)).collect();
        rows.sort_unstable();
        rows
    }

    fn vmx(number: u64) -> Cause {
        Cause::Exit(ExitCode::new(CodeList::Vmx, number))
    }

    fn user(number: u64) -> Cause {
        Cause::Exit(ExitCode::new(CodeList::KvmExit, number))
    }

    const PORT: Option<About> = Some(About { kind: DetailKind::Port, write: true, key: 0x80 });
    const READ: Option<About> = Some(About { kind: DetailKind::Port, write: false, key: 0x81 });

    #[test]
    fn exits_of_hardware_last_from_exit_to_entry() {
        let rows = counted(
            false,
            &[
                (5, about(DetailKind::Port, true, 0x80)),
                (10, exit(CodeList::Vmx, 30)),
                (11, about(DetailKind::PageFault, false, 1)),
                (12, about(DetailKind::Port, true, 0x80)),
                (13, about(DetailKind::PageFault, false, 1)),
                (17, Kind::Enter),
                (18, Kind::Enter),
                (20, exit(CodeList::Vmx, 12)),
                (70, Kind::HaltEnd { ns: 40, waited: true, valid: true }),
                (80, Kind::Enter),
                // The end of the first is not seen, the second is not over.
                (90, exit(CodeList::Vmx, 32)),
                (95, exit(CodeList::Vmx, 32)),
            ],
        );
        let halt = (Cause::Halt { slept: true, valid: true }, None, 1, 40, 40);
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
    fn without_kvm_exit_they_last_from_user_space_to_kvm_run() {
        let out = |errno| Kind::UserspaceExit { reason: 2, errno };
        let run = Kind::Fpu { load: true };
        let rows = counted(
            true,
            &[
                (1, about(DetailKind::Msr, true, 0x10)),
                (2, about(DetailKind::Port, true, 0x80)),
                (3, out(0)),
                (9, run),
                (20, out(0)),
                (25, run),
                (26, about(DetailKind::Port, false, 0x81)),
                (30, out(-4)),
                (31, run),
                (32, about(DetailKind::Port, true, 0x80)),
                (40, out(0)),
            ],
        );
        let msr = Some(About { kind: DetailKind::Msr, write: true, key: 0x10 });
        assert_eq!(
            rows,
            [
                (user(2), READ, 1, 5, 0),
                (user(2), PORT, 1, 0, 0),
                (user(2), PORT, 1, 6, 0),
                (user(10), None, 1, 1, 0),
                (Cause::Served, msr, 1, 0, 0),
            ]
        );
    }

    #[test]
    fn a_read_of_memory_is_told_twice_and_is_one() {
        let out = Kind::UserspaceExit { reason: 6, errno: 0 };
        let run = Kind::Fpu { load: true };
        let read = |at| about(DetailKind::Mmio, false, at);
        let rows = counted(true, &[(1, read(0x1004)), (2, out), (5, run), (6, read(0x1004)), (9, out), (10, run)]);
        let page = Some(About { kind: DetailKind::Mmio, write: false, key: 0x1000 });
        assert_eq!(rows, [(user(6), None, 1, 1, 0), (user(6), page, 1, 3, 0)]);
    }

    #[test]
    fn what_has_no_room_is_lost_and_said() {
        let mut fold = Fold::new(false, 1, 1);
        for (at, number) in [(10, 1), (20, 2), (30, 1)] {
            fold.take(LANE, at, exit(CodeList::Vmx, number), VcpuId::UNKNOWN);
            fold.take(LANE, at + 1, Kind::Enter, VcpuId::UNKNOWN);
        }
        fold.take(Lane { process: 8, ..LANE }, 40, Kind::Enter, VcpuId::UNKNOWN);
        let reading = fold.read();
        assert_eq!((reading.counts.len(), reading.counts[0].1.count, reading.lost), (1, 2, 2));
        fold.forget(LANE);
        assert!(fold.read().lanes.is_empty() && fold.read().counts.is_empty());
    }

    #[test]
    fn after_a_loss_no_length_is_made_up() {
        let mut fold = Fold::new(false, 1, 9);
        fold.take(LANE, 10, exit(CodeList::Vmx, 1), VcpuId::UNKNOWN);
        fold.lose(3);
        fold.take(LANE, 50, Kind::Enter, VcpuId::UNKNOWN);
        let reading = fold.read();
        assert_eq!((reading.counts[0].1.count, reading.counts[0].1.total, reading.lost), (1, 0, 3));
    }
}
