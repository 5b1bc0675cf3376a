//! The exits of an earlier trace, read once more beside a later one that holds some of them.

use crate::event_sketch::{ExitLane, MAX_CLOCK_SKEW_NS};
use exitscope_model::{Assembler, Event, Exit, ExitCode, Ledger};
use exitscope_trace::{EventSource, Input, SourceOptions, TraceError, open_input};
use exitscope_units::{Moment, Nanos};
use rustc_hash::FxHashMap;
use std::collections::VecDeque;

/// Exits of a vCPU from which on those are given up that no later exit can be: so that a vCPU of which the later trace has
/// nothing takes no memory.
const MANY: usize = 4096;

/// The exits of an earlier trace, as far as it was read.
pub(crate) struct EarlierExits {
    source: Box<dyn EventSource>,
    assembler: Assembler,
    events: Vec<Event>,
    rows: Vec<Exit>,
    ledger: Ledger,
    lanes: FxHashMap<ExitLane, EarlierLane>,
    /// The last event that was read.
    read_to: Moment,
    is_read: bool,
}

#[derive(Default)]
struct EarlierLane {
    exits: VecDeque<EarlierExit>,
    last: Option<Moment>,
}

struct EarlierExit {
    at: Moment,
    /// Since its vCPU's last, if there was one.
    gap: Option<Nanos>,
    end: Moment,
    code: ExitCode,
    rip: u64,
}

impl EarlierExits {
    /// Begins to read a trace.
    pub(crate) fn open(input: &Input, options: SourceOptions) -> Result<EarlierExits, TraceError> {
        let source = open_input(input.try_clone()?, options)?;
        Ok(EarlierExits {
            assembler: Assembler::of(source.info()),
            source,
            events: Vec::new(),
            rows: Vec::new(),
            ledger: Ledger::default(),
            lanes: FxHashMap::default(),
            read_to: Moment::default(),
            is_read: false,
        })
    }

    /// Reads all exits that ended by `to`, the end of what the later trace has come to. What it had before, up to `from`, is over.
    pub(crate) fn read_to(&mut self, from: Moment, to: Moment) -> Result<(), TraceError> {
        while !self.is_read && self.read_to <= later(to) {
            self.events.clear();
            self.is_read = !self.source.read(&mut self.events, &mut self.ledger)?;
            self.read_to = self.events.last().map_or(self.read_to, |event| self.read_to.max(event.at));
            self.assembler.push(&self.events, &mut self.rows, &mut self.ledger);
            if self.is_read {
                self.assembler.finish(&mut self.rows, &mut self.ledger);
            }
            for exit in &self.rows {
                self.lanes.entry(ExitLane::of(&exit.who)).or_default().push(exit, from);
            }
            self.rows.clear();
        }
        Ok(())
    }

    /// Whether this exit of the later trace is one of the earlier; each is only once. A vCPU's are asked for in their order; it left its
    /// guest `gap` after the last time.
    pub(crate) fn take(&mut self, exit: &Exit, gap: Option<Nanos>) -> bool {
        self.lanes.get_mut(&ExitLane::of(&exit.who)).is_some_and(|lane| lane.take(exit, gap))
    }
}

impl EarlierLane {
    fn push(&mut self, exit: &Exit, from: Moment) {
        while self.exits.len() >= MANY && self.exits.front().is_some_and(|first| later(later(first.end)) < from) {
            self.exits.pop_front();
        }
        let gap = self.last.and_then(|last| exit.at.since(last));
        let end = Moment::from_nanos(exit.at.as_nanos().saturating_add(exit.total().0));
        self.exits.push_back(EarlierExit { at: exit.at, gap, end, code: exit.code, rip: exit.rip });
        self.last = Some(exit.at);
    }

    fn take(&mut self, exit: &Exit, gap: Option<Nanos>) -> bool {
        while self.exits.front().is_some_and(|first| later(first.at) < exit.at) {
            self.exits.pop_front();
        }
        let near = self.exits.iter().enumerate().take_while(|(_, of)| of.at <= later(exit.at));
        let same = near.filter(|(_, of)| of.code == exit.code && is_same_place(of.rip, exit.rip));
        let nearest = same.min_by_key(|(_, of)| of.at.as_nanos().abs_diff(exit.at.as_nanos()));
        let Some((place, of)) = nearest else { return false };
        // Of a loop of like exits several are near, and where one trace begins or ends the nearest may be another one: two recorders'
        // moments of an exit differ by less than there is to the next.
        let next = self.exits.get(place + 1).and_then(|next| next.gap);
        let is_another = match exit.at.since(of.at) {
            Some(behind) => [next, gap].into_iter().flatten().any(|gap| behind >= gap && behind > Nanos::ZERO),
            None => of.at.since(exit.at).zip(of.gap.or(gap)).is_some_and(|(ahead, gap)| ahead >= gap),
        };
        if !is_another {
            self.exits.drain(..=place);
        }
        !is_another
    }
}

fn later(than: Moment) -> Moment {
    Moment::from_nanos(than.as_nanos().saturating_add(MAX_CLOCK_SKEW_NS))
}

/// A recorder may leave the address out.
fn is_same_place(a: u64, b: u64) -> bool {
    a == b || a == 0 || b == 0
}
