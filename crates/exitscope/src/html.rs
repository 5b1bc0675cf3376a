//! `exitscope report --html`: the report as one self-contained page.
//!
//! ```text
//! reading ─┬─► Material, halts, yields ─┬─► judge ──► Advised ─┬─► Report ─► page
//!          └─► OverTime (its thread)    └─► replay ─► Polls ───┘
//! ```
//!
//! The trace is read once: halts and yields are kept, so that what `advise` and `replay` read a second time for is there.
//! Only core runs of powerpc, and very long recordings, are read again.

use crate::Outcome;
use crate::advise::judgement;
use crate::background::Background;
use crate::cli::ReportArgs;
use crate::page_file;
use crate::read::{self, Earlier, Sink, Trace};
use crate::report::{self, Totals};
use anyhow::Context;
use exitscope_analysis::advice::{Material, Trials};
use exitscope_analysis::{Dim, Facts, PollHost, Selection, Wanted};
use exitscope_model::{Event, Exit, Halt, PleUpdate, Preemption, QueueStay, Yield};
use exitscope_page::{Contents, Drags, OverTime, halt_polls, write_page};
use exitscope_trace::Input;
use exitscope_units::Moment;
use exitscope_view::{Advised, Coverage, SelectionRow, TraceRow};
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::thread::{self, ScopedJoinHandle};

/// Halts and yields that are kept, so many of each (40 MB).
const MOST_KEPT: usize = 1 << 18;

/// A trace while it is read.
struct Reading {
    gathered: Gathered,
    over_time: Background,
}

/// What a page is made of, but for [`OverTime`].
struct Gathered {
    material: Material,
    drags: Drags,
    halts: Vec<Halt>,
    yields: Vec<Yield>,
    first: Moment,
}

impl Reading {
    fn new(selection: &Selection, slowest: usize) -> Reading {
        let wanted = Wanted { by: vec![Dim::Reason], slowest, selection: selection.clone() };
        let mut material = Material::new(selection);
        material.facts = Facts::new(&wanted);
        let gathered = Gathered {
            material,
            drags: Drags::new(selection),
            halts: Vec::new(),
            yields: Vec::new(),
            first: Moment::default(),
        };
        Reading { gathered, over_time: Background::start(OverTime::new(selection)) }
    }

    fn end(self, trace: &Trace) -> (Gathered, OverTime) {
        let Reading { mut gathered, over_time } = self;
        let (first, last) = trace.span.unwrap_or_default();
        gathered.material.end(first, last, &trace.lanes, &trace.vcpu_of);
        let mut over_time = over_time.end();
        over_time.end(&trace.lanes, &trace.vcpu_of);
        (gathered, over_time)
    }
}

impl Gathered {
    /// Adds another recording. There is no advice on several.
    fn merge(&mut self, other: Gathered) {
        self.material.facts.merge(&other.material.facts);
        self.halts.clear();
        self.yields.clear();
    }

    /// Takes trials through what was kept, if that is all they need; whether it is.
    fn try_on_kept(&self, trials: &mut Trials) -> bool {
        let has_all = self.halts.len() < MOST_KEPT && self.yields.len() < MOST_KEPT && !trials.need_core_runs();
        if has_all {
            trials.begin(self.first);
            self.halts.iter().for_each(|halt| trials.absorb_halt(halt));
            self.yields.iter().for_each(|of| trials.absorb_yield(of));
        }
        has_all
    }

    /// The halts that are looked at.
    fn halts_within(&self, selection: &Selection) -> Vec<Halt> {
        let window = selection.window(self.first);
        let within = |halt: &&Halt| window.0 <= halt.begin && halt.begin <= window.1 && selection.holds_who(&halt.who);
        self.halts.iter().filter(within).copied().collect()
    }
}

impl Sink for Reading {
    fn begin(&mut self, first: Moment) {
        self.gathered.first = first;
        self.gathered.material.begin(first);
        self.gathered.drags.begin(first);
        self.over_time.begin(first);
    }

    fn events(&mut self, events: &[Event]) {
        self.gathered.material.absorb_events(events);
    }

    #[inline]
    fn schedule(&mut self, event: &Event) {
        self.gathered.material.facts.schedule(event);
    }

    #[inline]
    fn absorb(&mut self, exit: &Exit) {
        self.over_time.absorb(exit);
        self.gathered.material.absorb(exit);
    }

    fn halt(&mut self, halt: &Halt) {
        self.gathered.material.absorb_halt(halt);
        if self.gathered.halts.len() < MOST_KEPT {
            self.gathered.halts.push(*halt);
        }
    }

    fn yielded(&mut self, of: &Yield) {
        self.gathered.material.absorb_yield(of);
        self.over_time.absorb_yield(of);
        if self.gathered.yields.len() < MOST_KEPT {
            self.gathered.yields.push(*of);
        }
    }

    fn preempted(&mut self, of: &Preemption) {
        self.gathered.material.absorb_preemption(of);
    }

    fn ple_update(&mut self, of: &PleUpdate) {
        self.gathered.material.absorb_ple_update(of);
    }

    fn queue_stay(&mut self, stay: &QueueStay) {
        self.gathered.material.facts.absorb_queue_stay(stay);
    }

    fn runner_events(&mut self, events: &[Event]) {
        for event in events {
            self.gathered.material.facts.absorb_runner_event(event);
            self.gathered.drags.absorb(event);
        }
    }
}

pub fn run(args: &ReportArgs, to: &Path) -> anyhow::Result<Outcome> {
    let files = read::files(&args.files, &args.inputs)?;
    page_file::check(to, &files)?;
    look_at(args, &files, |contents| page_file::write(to, |out| write_page(contents, out)))
}

/// Reads files, and has `then` make a page of what they hold.
pub fn look_at(
    args: &ReportArgs,
    files: &[PathBuf],
    then: impl FnOnce(Contents) -> anyhow::Result<()>,
) -> anyhow::Result<Outcome> {
    let selection = args.select.selection();
    for reason in &selection.reasons {
        report::check_reason(reason)?;
    }
    // A pipe is put into a file once, so that it can be read again.
    let inputs = files.iter().map(|path| Input::open(path)).collect::<Result<Vec<_>, _>>()?;
    let (need_vcpus, options) = (!selection.vcpus.is_empty(), args.select.clock.options(true));
    let fresh = || Reading::new(&selection, args.slowest);
    let mut all: Option<(Gathered, OverTime)> = None;
    let mut totals = Totals::default();
    let mut earlier = Earlier::default();
    for input in &inputs {
        let (trace, reading) = read::read_input(input.try_clone()?, &mut earlier, need_vcpus, options, fresh)?;
        let (of_trace, over_time_of_trace) = reading.end(&trace);
        match &mut all {
            Some((gathered, over_time)) => {
                gathered.merge(of_trace);
                over_time.merge(over_time_of_trace);
            }
            None => all = Some((of_trace, over_time_of_trace)),
        }
        totals.add(trace);
    }
    let (gathered, over_time) = all.context("no trace to read")?;
    let facts = &gathered.material.facts;
    let polls = || halt_polls(&facts.halts, &gathered.halts_within(&selection), &PollHost::of(&totals.info));
    let advised = || match (&inputs[..], &totals.traces[..]) {
        ([input], [trace]) if args.select.reasons.is_empty() && args.select.longer_than.is_none() => {
            let again = |trials: Trials| {
                read::read_input(input.try_clone()?, &mut Earlier::default(), need_vcpus, options, || trials.clone())
            };
            advise(&gathered, &totals, trace, &selection, |trials| Ok(again(trials)?.1)).map(Some)
        }
        _ => Ok(None),
    };
    // Several recordings have no common time.
    let in_time = totals.traces.len() == 1;
    // All that takes long, at once.
    let (advice, polls, over_time) = thread::scope(|scope| {
        let over_time = scope.spawn(|| over_time.finish(in_time, &totals.info));
        let polls = scope.spawn(polls);
        (advised(), joined(polls), joined(over_time))
    });
    let advice = advice?;
    let drags = gathered.drags.finish().filter(|_| in_time);
    let breaches = report::breaches(args, facts, &totals.ledger)?;
    let outcome = if breaches.is_empty() { Outcome::Fine } else { Outcome::Findings };
    let info = std::mem::take(&mut totals.info);
    let report = totals.report(args, facts, &info, selection, breaches);
    then(Contents { report, advice: advice.as_ref(), polls: polls.as_ref(), over_time, drags })?;
    Ok(outcome)
}

fn joined<T>(thread: ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|panic| resume_unwind(panic))
}

/// What to change. `again` reads the recording once more.
fn advise(
    gathered: &Gathered,
    totals: &Totals,
    trace: &TraceRow,
    selection: &Selection,
    again: impl FnOnce(Trials) -> anyhow::Result<Trials>,
) -> anyhow::Result<Advised> {
    let judgement =
        judgement(&gathered.material, trace, &totals.info, |mut trials| match gathered.try_on_kept(&mut trials) {
            true => Ok(trials),
            false => again(trials),
        })?;
    let coverage = Coverage::of(&totals.ledger, totals.exits, totals.timed_exits);
    Ok(Advised::of(&judgement, trace.clone(), coverage, SelectionRow::of(selection), &totals.info))
}
