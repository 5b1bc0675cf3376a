//! Events that come in ascending runs (one per CPU and flush) leave in one ascending stream.
//!
//! ```text
//! cpu 0:  1 4 9 │ 12 15          runs: [1 4 9] [2 3 8] [12 15] …
//! cpu 1:  2 3 8 │ 11 20          drain(..=9): 1 2 3 4 8 9
//! ```

use exitscope_model::Event;
use exitscope_units::Moment;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Events held back at most, waiting for older ones (about 120 MB). When more come, the older half leaves.
pub const MAX_HELD: usize = 2 << 20;

/// Holds events back until nothing older can come.
#[derive(Debug, Default)]
pub struct Merge {
    runs: Vec<Run>,
    held: usize,
    spare: Vec<Vec<Event>>,
}

#[derive(Debug)]
struct Run {
    events: Vec<Event>,
    next: usize,
}

impl Merge {
    /// Takes one event: it continues the last run if it is not older than that run's end, and starts a run if it is.
    #[inline]
    pub fn push(&mut self, event: Event) {
        self.held += 1;
        if let Some(run) = self.runs.last_mut() {
            if run.events.last().is_some_and(|last| last.at <= event.at) {
                run.events.push(event);
                return;
            }
        }
        let mut events = self.spare.pop().unwrap_or_default();
        events.push(event);
        self.runs.push(Run { events, next: 0 });
    }

    /// How many events are held back.
    pub fn held(&self) -> usize {
        self.held
    }

    /// Appends to `out`, in time order, every event up to and including `until`. Equal moments keep arrival order.
    pub fn drain(&mut self, until: Moment, out: &mut Vec<Event>) {
        let before = out.len();
        let mut heads: BinaryHeap<Reverse<(Moment, usize)>> = self
            .runs
            .iter()
            .enumerate()
            .filter(|(_, run)| run.next < run.events.len())
            .map(|(at, run)| Reverse((run.events[run.next].at, at)))
            .collect();
        while let Some(Reverse((moment, at))) = heads.pop() {
            if moment > until {
                break;
            }
            let rival = heads.peek().map_or((Moment::MAX, usize::MAX), |head| head.0);
            let run = &mut self.runs[at];
            let from = run.next;
            while let Some(event) = run.events.get(run.next) {
                if event.at > until || (event.at, at) > rival {
                    break;
                }
                run.next += 1;
            }
            out.extend_from_slice(&run.events[from..run.next]);
            if let Some(event) = run.events.get(run.next) {
                heads.push(Reverse((event.at, at)));
            }
        }
        self.held -= out.len() - before;
        let spare = &mut self.spare;
        self.runs.retain_mut(|run| {
            let keep = run.next < run.events.len();
            if !keep && spare.len() < 8 {
                let mut events = std::mem::take(&mut run.events);
                events.clear();
                spare.push(events);
            }
            keep
        });
    }

    /// When too much is held back, lets the older half go.
    pub fn relieve(&mut self, out: &mut Vec<Event>) {
        if self.held < MAX_HELD {
            return;
        }
        let mut moments: Vec<Moment> =
            self.runs.iter().flat_map(|run| run.events[run.next..].iter().map(|event| event.at)).collect();
        let middle = moments.len() / 2;
        let (_, &mut median, _) = moments.select_nth_unstable(middle);
        self.drain(median, out);
    }
}
