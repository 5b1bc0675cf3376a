//! Who had the CPU for which a vCPU waited, piece by piece.
//!
//! ```text
//! vCPU  woken ├───────────────────────┤ switch: runs on CPU 1      preempted on CPU 0 ├──────────────┤ runs on CPU 1
//! CPU 1 ran   yes ─────┤ kworker ─────┤                            CPU 0 ran          yes ───┤ idle ─┤
//! pieces      yes      │ kworker                                   pieces             yes    │ who had CPU 1
//! ```
//!
//! After a wake-up it is the CPU that the vCPU then got; after a preemption the one that it lost, up to when that was idle: a runnable
//! thread of an idle CPU was moved, so from then on it is the CPU that it got. Whoever is switched in has a CPU until a switch of
//! that CPU takes the same thread off; where the next one takes another, some are missing, and nobody is named.

use crate::lane::NO_CPU;
use crate::steal_pieces::{CpuTaker, LONGEST_WAKE_UP, StealPiece};
use crate::{Event, ThreadName, VcpuIdentity};
use exitscope_units::{Moment, PcpuId, Tid, VmId};
use rustc_hash::FxHashMap;
use std::collections::VecDeque;

/// CPUs at most; of further ones nobody is known.
const MAX_CPUS: usize = 1 << 12;

/// Threads whose names are kept at most (2 MB).
const MOST_NAMES: usize = 1 << 16;

/// So many switches of a CPU are remembered while a vCPU waits, the last ones (20 KiB a CPU); else the last one alone.
const KEPT: usize = 512;

/// One CPU.
#[derive(Clone, Debug, Default)]
struct CpuSwitches {
    holders: VecDeque<Holder>,
    /// Pieces of waits that ended elsewhere, of which the thread that has this CPU had so much: the switch that takes it off says so.
    pending: Vec<(VcpuIdentity, Moment, Moment)>,
}

/// A thread that was switched in.
#[derive(Clone, Copy, Debug)]
struct Holder {
    from: Moment,
    /// `None` after a loss.
    tid: Option<Tid>,
    /// What the switch that took it off says of it: that it had the CPU until then.
    taker: Option<CpuTaker>,
}

/// A vCPU's wait.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WaitSpan {
    pub who: VcpuIdentity,
    pub since: Moment,
    pub until: Moment,
    /// The CPU that it lost, of one that was preempted.
    pub lost: Option<PcpuId>,
    /// The one that it got.
    pub got: PcpuId,
}

/// Who had each CPU while vCPUs waited.
#[derive(Clone, Debug, Default)]
pub(crate) struct SwitchHistory {
    cpus: Vec<CpuSwitches>,
    /// What those are called that had the CPU of a vCPU that waited: what they were called last.
    names: FxHashMap<Tid, ThreadName>,
}

impl SwitchHistory {
    /// The event switches a CPU from one thread, of this name, to another. `is_awaited`: some vCPU waits.
    #[inline]
    pub fn switch(
        &mut self,
        event: &Event,
        (prev, name): (Tid, ThreadName),
        next: Tid,
        is_awaited: bool,
        pieces: &mut Vec<StealPiece>,
    ) {
        let cpu = event.cpu.0 as usize;
        if cpu >= self.cpus.len() {
            if cpu >= MAX_CPUS {
                return;
            }
            self.cpus.resize_with(cpu + 1, CpuSwitches::default);
        }
        let CpuSwitches { holders, pending } = &mut self.cpus[cpu];
        if !is_awaited {
            // One at a time: mostly there is one.
            while holders.len() > 1 {
                holders.pop_front();
            }
        } else if holders.len() >= KEPT {
            holders.pop_front();
        }
        if let Some(last) = holders.back_mut().filter(|last| last.tid == Some(prev)) {
            let process = if event.tid == prev { event.vm } else { VmId::UNKNOWN };
            let taker = match prev {
                Tid(0) => CpuTaker::Idle,
                tid => CpuTaker::Thread { tid, process, name },
            };
            last.taker = Some(taker);
            pieces.extend(pending.iter().map(|&(who, from, to)| StealPiece { who, from, to, taker }));
        }
        pending.clear();
        holders.push_back(Holder { from: event.at, tid: Some(next), taker: None });
    }

    /// Events of this CPU were lost, or of all.
    pub fn lose(&mut self, cpu: PcpuId) {
        for (number, history) in self.cpus.iter_mut().enumerate() {
            if cpu == NO_CPU || number == cpu.0 as usize {
                history.holders.back_mut().into_iter().for_each(|last| last.tid = None);
                history.pending.clear();
            }
        }
    }

    /// Adds the pieces of a wait of which it is known who had the CPU, in the order of time.
    pub fn divide(&mut self, wait: &WaitSpan, pieces: &mut Vec<StealPiece>) {
        let first = pieces.len();
        self.add_pieces(wait, pieces);
        for piece in &pieces[first..] {
            if let CpuTaker::Thread { tid, name, .. } = piece.taker
                && name.is_known()
                && (self.names.len() < MOST_NAMES || self.names.contains_key(&tid))
            {
                self.names.insert(tid, name);
            }
        }
    }

    fn add_pieces(&mut self, wait: &WaitSpan, pieces: &mut Vec<StealPiece>) {
        let first = pieces.len();
        let Some(lost) = wait.lost.filter(|lost| *lost != wait.got) else {
            self.pieces(wait.got, wait, wait.since, pieces);
            if wait.lost.is_none() {
                note_wake_up(&mut pieces[first..]);
            }
            return;
        };
        self.pieces(lost, wait, wait.since, pieces);
        if let Some(idle) = pieces[first..].iter().position(|piece| piece.taker == CpuTaker::Idle) {
            let moved = pieces[first + idle].from;
            // Without an event that says which CPU it got, that it was idle is all that is known.
            if wait.got != NO_CPU {
                pieces.truncate(first + idle);
                self.pieces(wait.got, wait, moved, pieces);
            }
        }
    }

    /// Those of one CPU, from `since` to the end of the wait.
    fn pieces(&mut self, cpu: PcpuId, wait: &WaitSpan, since: Moment, pieces: &mut Vec<StealPiece>) {
        let Some(CpuSwitches { holders, pending }) = self.cpus.get_mut(cpu.0 as usize) else { return };
        let first = holders.partition_point(|holder| holder.from <= since).saturating_sub(1);
        let ends = holders.iter().skip(first + 1).map(|next| next.from).chain([wait.until]);
        for (holder, end) in holders.iter().skip(first).zip(ends) {
            let (from, to) = (holder.from.max(since), end.min(wait.until));
            // Its own thread cannot have had it.
            if from >= to || holder.tid == Some(wait.who.tid) {
                continue;
            }
            let is_last = to == wait.until && Some(holder.from) == holders.back().map(|last| last.from);
            match (holder.taker, holder.tid) {
                (Some(taker), _) => pieces.push(StealPiece { who: wait.who, from, to, taker }),
                // It is idle still.
                (None, Some(Tid(0))) if is_last => {
                    pieces.push(StealPiece { who: wait.who, from, to, taker: CpuTaker::Idle });
                }
                (None, Some(_)) if is_last && pending.len() < KEPT => pending.push((wait.who, from, to)),
                (None, _) => {}
            }
        }
    }

    /// The names of those who had a CPU for which a vCPU waited; they are given once.
    pub fn take_names(&mut self) -> FxHashMap<Tid, ThreadName> {
        std::mem::take(&mut self.names)
    }

    /// The recording ends.
    pub fn clear(&mut self) {
        self.cpus.clear();
    }
}

/// Of a vCPU that was woken, a CPU that was idle no longer than it takes to wake up was doing that.
fn note_wake_up(pieces: &mut [StealPiece]) {
    let idle = || pieces.iter().filter(|piece| piece.taker == CpuTaker::Idle);
    let long = idle().fold(0_u64, |sum, piece| sum.saturating_add(piece.to.since(piece.from).unwrap_or_default().0));
    if long <= LONGEST_WAKE_UP {
        pieces
            .iter_mut()
            .filter(|piece| piece.taker == CpuTaker::Idle)
            .for_each(|piece| piece.taker = CpuTaker::WakingUp);
    }
}
