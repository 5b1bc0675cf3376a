//! One side of a comparison.

use crate::read_trace::host_and_clock;
use crate::{EarlierFiles, ReadError, ReadOptions, ReadTrace, read_input};
use exitscope_analysis::{Diff, DiffUnit, RecordedWhen, Selection, TraceSink};
use exitscope_model::{BesideRow, EventKinds, Exit, Ledger, LedgerLine, TimePart};
use exitscope_trace::Input;
use exitscope_units::{Moment, Nanos};

/// The traces of one side, read.
pub struct DiffSide {
    /// What is compared.
    pub diff: Diff,
    /// The traces, but for those that add nothing: copies, and guests' own beside others.
    pub traces: Vec<ReadTrace>,
    /// What of them was not used, and why.
    pub ledger: Ledger,
    /// Selected exits.
    pub exits: u64,
    /// How long the traces are together, as far as they are selected.
    pub duration: Nanos,
    /// What guests ran before the exits of the selected vCPUs.
    pub guest: Nanos,
    /// Whether all traces tell which exits went to user space.
    pub tells_handlers: bool,
    /// Whether all traces tell steal, and whether all of it.
    pub tells_steal: bool,
    /// See there.
    pub tells_all_steal: bool,
    /// Whether all traces tell when KVM_RUN was entered.
    pub tells_runs: bool,
    /// Whether in some a virtual core's runner records for all its vCPUs.
    pub by_runner: bool,
}

/// The selected exits of one trace.
struct SelectedExits {
    diff: Diff,
    selection: Selection,
    window: (Moment, Moment),
    exits: u64,
    /// What guests ran before the exits of those vCPUs.
    guest: Nanos,
    /// Steal in exits of those vCPUs.
    steal: Nanos,
    kinds: EventKinds,
}

impl TraceSink for SelectedExits {
    fn begin(&mut self, first: Moment) {
        self.window = self.selection.window(first);
    }

    fn note_event_kinds(&mut self, kinds: EventKinds) {
        self.kinds.merge(kinds);
    }

    #[inline]
    fn absorb(&mut self, exit: &Exit) {
        let within = self.window.0 <= exit.at && exit.at <= self.window.1;
        if !within || !self.selection.holds_who(&exit.who) {
            return;
        }
        self.guest = self.guest.plus(exit.guest);
        self.steal = self.steal.plus(exit.parts.get(TimePart::Steal));
        if self.selection.holds_exit(exit) {
            self.exits += 1;
            self.diff.absorb(exit);
        }
    }

    fn beside_row(&mut self, _row: BesideRow<'_>) {}
}

/// Whether a recording tells steal, and all of it. A few sleeps without a wake-up make no other kind of recording of it.
fn tells_all_steal(kinds: EventKinds) -> bool {
    kinds.switches && (kinds.wakeups || kinds.unwoken_sleeps == 0)
}

/// Reads the traces of one side, in each of which so much `work` was done, if that is known.
pub fn read_side(
    inputs: &[Input],
    selection: &Selection,
    options: ReadOptions,
    work: Option<f64>,
) -> Result<DiffSide, ReadError> {
    let mut side = DiffSide {
        diff: Diff::default(),
        traces: Vec::new(),
        ledger: Ledger::default(),
        exits: 0,
        duration: Nanos::ZERO,
        guest: Nanos::ZERO,
        tells_handlers: true,
        tells_steal: true,
        tells_all_steal: true,
        tells_runs: true,
        by_runner: false,
    };
    let mut earlier = EarlierFiles::of_run(inputs);
    for input in inputs {
        let fresh = || SelectedExits {
            diff: side.diff.clone(),
            selection: selection.clone(),
            window: (Moment::default(), Moment::MAX),
            exits: 0,
            guest: Nanos::ZERO,
            steal: Nanos::ZERO,
            kinds: EventKinds::default(),
        };
        let (trace, mut selected) = read_input(input, &mut earlier, options, fresh)?;
        trace.has_events()?;
        if !trace.adds_to(&side.traces) {
            // A copy of a trace of no host by name was read as if it were another: none of that counts.
            if trace.span.is_none() {
                side.ledger.merge(&trace.ledger);
            }
            side.ledger.add(LedgerLine::CopiedFile, u64::from(!trace.is_left_out));
            continue;
        }
        if let Some((first, last)) = trace.span {
            let (first, last) = (first.max(selected.window.0), last.min(selected.window.1));
            let chosen = trace.lanes.iter().filter(|lane| selection.holds_who(&lane.who.completed(&trace.vcpu_of)));
            let vcpus: Vec<_> = chosen.map(|lane| (lane.first, lane.last)).collect();
            side.duration = side.duration.plus(selected.diff.end(first, last, &trace.held, &vcpus));
            selected.diff.describe(DiffUnit {
                recorded: Some(RecordedWhen { clock: host_and_clock(&trace.info), first, last }),
                guest: selected.guest,
                steal: tells_all_steal(selected.kinds).then_some(selected.steal),
                work,
                pair: None,
            });
            side.tells_handlers &= selected.kinds.handlers;
            side.tells_steal &= selected.kinds.tell_steal();
            side.tells_all_steal &= tells_all_steal(selected.kinds);
            side.tells_runs &= selected.kinds.runs || trace.is_xen();
            side.by_runner |= selected.kinds.by_runner;
        }
        side.exits += selected.exits;
        side.guest = side.guest.plus(selected.guest);
        side.diff = selected.diff;
        side.ledger.merge(&trace.ledger);
        side.traces.push(trace);
    }
    Ok(side)
}
