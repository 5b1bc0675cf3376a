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

/// Events in one piece at most.
const PIECE: usize = 4096;

/// Spare pieces kept.
const MAX_SPARE: usize = 64;

/// Holds events back until nothing older can come.
#[derive(Debug, Default)]
pub struct Merge {
    runs: Vec<Run>,
    held: usize,
    spare: Vec<Vec<Event>>,
    heads: BinaryHeap<Reverse<(Moment, usize)>>,
}

/// An ascending run, in pieces that are given back as they are drained.
#[derive(Debug, Default)]
struct Run {
    pieces: VecDeque<Vec<Event>>,
    /// The next event of the first piece.
    next: usize,
    last: Moment,
}

impl Run {
    fn head(&self) -> Option<&Event> {
        self.pieces.front()?.get(self.next)
    }
}

impl Merge {
    /// Takes events that ascend but where `breaks` says that a new run begins; leaves `events` empty.
    pub fn push(&mut self, events: &mut Vec<Event>, breaks: &[usize]) {
        let mut from = 0;
        for &to in breaks.iter().chain([&events.len()]) {
            self.push_run(&events[from..to]);
            from = to;
        }
        events.clear();
    }

    /// Takes one ascending run: it continues the last one if it is not older than that one's end.
    fn push_run(&mut self, events: &[Event]) {
        let (Some(first), Some(last)) = (events.first(), events.last()) else { return };
        self.held += events.len();
        match self.runs.last_mut() {
            Some(run) if run.last <= first.at => run.last = last.at,
            _ => self.runs.push(Run { last: last.at, ..Run::default() }),
        }
        let run = self.runs.last_mut().expect("one was pushed if there was none");
        for part in events.chunks(PIECE) {
            match run.pieces.back_mut() {
                Some(piece) if piece.len() + part.len() <= PIECE => piece.extend_from_slice(part),
                _ => {
                    let mut piece = self.spare.pop().unwrap_or_else(|| Vec::with_capacity(PIECE));
                    piece.extend_from_slice(part);
                    run.pieces.push_back(piece);
                }
            }
        }
    }

    /// Appends to `out`, in time order, events up to and including `until`, at most about `most` of them. Equal
    /// moments keep the order of their runs.
    pub fn drain(&mut self, until: Moment, most: usize, out: &mut Vec<Event>) {
        let full = out.len() + most;
        let before = out.len();
        self.heads.clear();
        let heads = self.runs.iter().enumerate();
        self.heads.extend(heads.filter_map(|(at, run)| run.head().map(|event| Reverse((event.at, at)))));
        while let Some(Reverse((moment, at))) = self.heads.pop() {
            if moment > until || out.len() >= full {
                break;
            }
            let rival = self.heads.peek().map_or((Moment::MAX, usize::MAX), |head| head.0);
            let run = &mut self.runs[at];
            while let Some(piece) = run.pieces.front_mut() {
                let rest = &piece[run.next..];
                let goes = |event: &Event| event.at <= until && (event.at, at) <= rival;
                let count = rest.iter().take_while(|event| goes(event)).count();
                out.extend_from_slice(&rest[..count]);
                run.next += count;
                if run.next < piece.len() {
                    self.heads.push(Reverse((piece[run.next].at, at)));
                    break;
                }
                run.next = 0;
                if let Some(mut piece) = run.pieces.pop_front()
                    && self.spare.len() < MAX_SPARE
                {
                    piece.clear();
                    self.spare.push(piece);
                }
                if out.len() >= full {
                    break;
                }
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
        let rest = |run: &Run| run.pieces.iter().flatten().skip(run.next).map(|event| event.at).collect::<Vec<_>>();
        let mut moments: Vec<Moment> = self.runs.iter().flat_map(rest).collect();
        let middle = moments.len() / 2;
        Some(*moments.select_nth_unstable(middle).1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use exitscope_model::{Kind, NameId};
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
            kind: Kind::Other,
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
            merge.push(&mut all.clone(), &breaks);
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
