//! Events that come in ascending runs (one per CPU and flush) leave in one ascending stream.
//!
//! ```text
//! cpu 0:  1 4 9 │ 12 15          runs: [1 4 9] [2 3 8] [12 15] …
//! cpu 1:  2 3 8 │ 11 20          drain(..=9): 1 2 3 4 8 9
//! ```

use exitscope_model::Event;
use exitscope_units::Moment;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// Events held back at most, waiting for older ones (about 130 MB). When more come, the older half leaves.
const MAX_HELD: usize = 2 << 20;

/// Emptied buffers kept for reuse: all of a usual burst's. Giving them back and asking for new ones would scatter memory,
/// the more the longer the file.
const MAX_SPARE: usize = 64;

/// Holds events back until nothing older can come. Events stay in the buffers in which they came.
#[derive(Debug, Default)]
pub struct Merge {
    buffers: Vec<Buffer>,
    /// Places in `buffers` that are free.
    free: Vec<usize>,
    spare: Vec<Vec<Event>>,
    runs: Vec<Run>,
    held: usize,
    heads: BinaryHeap<Reverse<(Moment, usize)>>,
}

#[derive(Debug, Default)]
struct Buffer {
    events: Vec<Event>,
    /// Pieces of runs that lie in it.
    pieces: usize,
}

/// An ascending run.
#[derive(Debug, Default)]
struct Run {
    pieces: VecDeque<Piece>,
    last: Moment,
}

/// Events `from..to` of a buffer.
#[derive(Clone, Copy, Debug)]
struct Piece {
    buffer: usize,
    from: usize,
    to: usize,
}

impl Merge {
    /// Takes events that ascend but where `breaks` says that a new run begins. A run continues the last one if it is
    /// not older than that one's end. Returns an empty buffer in exchange.
    pub fn push(&mut self, events: Vec<Event>, breaks: &[usize]) -> Vec<Event> {
        if events.is_empty() {
            return events;
        }
        let buffer = self.free.pop().unwrap_or_else(|| {
            self.buffers.push(Buffer::default());
            self.buffers.len() - 1
        });
        let mut from = 0;
        for &to in breaks.iter().chain([&events.len()]) {
            let (first, last) = (events[from].at, events[to - 1].at);
            match self.runs.last_mut() {
                Some(run) if run.last <= first => run.last = last,
                _ => self.runs.push(Run { last, ..Run::default() }),
            }
            let piece = Piece { buffer, from, to };
            self.runs.last_mut().expect("one was pushed if there was none").pieces.push_back(piece);
            self.buffers[buffer].pieces += 1;
            from = to;
        }
        self.held += events.len();
        self.buffers[buffer].events = events;
        self.spare.pop().unwrap_or_default()
    }

    /// Appends to `out`, in time order, events up to and including `until`, at most about `most` of them. Equal
    /// moments keep the order of their runs.
    pub fn drain(&mut self, until: Moment, most: usize, out: &mut Vec<Event>) {
        // Each time all runs are looked at: where there are very many (each event of a damaged file may be one), that is to
        // be done seldom.
        let full = out.len().saturating_add(most.max(self.runs.len() / 16));
        let before = out.len();
        self.heads.clear();
        for (at, run) in self.runs.iter().enumerate() {
            let head = run.pieces.front().map(|piece| self.buffers[piece.buffer].events[piece.from].at);
            self.heads.extend(head.filter(|&head| head <= until).map(|head| Reverse((head, at))));
        }
        while let Some(Reverse((_, at))) = self.heads.pop() {
            let rival = self.heads.peek().map_or((Moment::MAX, usize::MAX), |head| head.0);
            // Of equal moments the earlier run's goes first. The event at hand goes in any case.
            let before_rival = rival.0.as_nanos() - u64::from(at > rival.1);
            let limit = until.min(Moment::from_nanos(before_rival));
            let run = &mut self.runs[at];
            while let Some(piece) = run.pieces.front_mut() {
                let rest = &self.buffers[piece.buffer].events[piece.from..piece.to];
                let rest = &rest[..rest.len().min(full - out.len())];
                // Mostly few go before it is another run's turn.
                let before = out.len();
                for event in rest {
                    if event.at > limit {
                        break;
                    }
                    // `push` would copy it by way of the stack.
                    out.extend_from_slice(std::slice::from_ref(event));
                }
                piece.from += out.len() - before;
                if piece.from < piece.to {
                    let head = self.buffers[piece.buffer].events[piece.from].at;
                    if head <= until {
                        self.heads.push(Reverse((head, at)));
                    }
                    break;
                }
                let Piece { buffer, .. } = *piece;
                run.pieces.pop_front();
                // After its last piece the buffer is free.
                let buffer_of = &mut self.buffers[buffer];
                buffer_of.pieces -= 1;
                if buffer_of.pieces == 0 {
                    let mut events = std::mem::take(&mut buffer_of.events);
                    self.free.push(buffer);
                    if self.spare.len() < MAX_SPARE {
                        events.clear();
                        self.spare.push(events);
                    }
                }
            }
            if out.len() >= full {
                break;
            }
        }
        self.held -= out.len() - before;
        self.runs.retain(|run| !run.pieces.is_empty());
    }

    /// When too much is held back: the moment up to which events have to leave so that half remains.
    pub fn overfull(&self) -> Option<Moment> {
        if self.held < MAX_HELD {
            return None;
        }
        let events = |piece: &Piece| self.buffers[piece.buffer].events[piece.from..piece.to].iter();
        let pieces = self.runs.iter().flat_map(|run| &run.pieces);
        let mut moments: Vec<Moment> = pieces.flat_map(events).map(|event| event.at).collect();
        let middle = moments.len() / 2;
        Some(*moments.select_nth_unstable(middle).1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use exitscope_model::{EventKind, NameId};
    use exitscope_units::{PcpuId, Tid, VcpuId, VmId};
    use proptest::prelude::*;

    fn event(at: u64, tid: u32) -> Event {
        Event {
            at: Moment::from_nanos(at),
            tid: Tid(tid),
            vm: VmId(0),
            vcpu: VcpuId::UNKNOWN,
            cpu: PcpuId(0),
            name: NameId(0),
            kind: EventKind::Other,
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
        #[test]
        fn what_leaves_is_sorted_and_whole(
            times in prop::collection::vec(0u64..200, 0..300), until in 0u64..200, most in 1usize..50,
        ) {
            let all: Vec<Event> = times.iter().zip(0..).map(|(&at, tid)| event(at, tid)).collect();
            let breaks: Vec<usize> = (1..all.len()).filter(|&at| all[at].at < all[at - 1].at).collect();
            let mut merge = Merge::default();
            merge.push(all.clone(), &breaks);
            let mut out = Vec::new();
            loop {
                let before = out.len();
                merge.drain(Moment::from_nanos(until), most, &mut out);
                if out.len() == before {
                    break;
                }
            }
            let early = out.len();
            prop_assert_eq!(early, all.iter().filter(|event| event.at.as_nanos() <= until).count());
            merge.drain(Moment::MAX, usize::MAX - early, &mut out);
            let mut expected = all;
            expected.sort_by_key(|event| event.at);
            prop_assert_eq!(out, expected);
        }
    }
}
