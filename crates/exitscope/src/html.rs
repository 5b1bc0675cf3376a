//! `exitscope report --html`: the report as one self-contained page.
//!
//! ```text
//! reading ─► Material, OverTime, halts ─► judge, replay ─► Report, Advised, Polls ─► page
//! ```
//!
//! The trace is read once: halts are kept, so that what `advise` and `replay` read a second time for is there. Only core
//! runs of powerpc, and the halts of very long recordings, are read again.

use crate::Outcome;
use crate::advise::judgement;
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
use std::path::{Path, PathBuf};

/// Halts that are kept (40 MB).
const MOST_HALTS: usize = 1 << 18;

/// What a page is made of.
struct Gathered {
    material: Material,
    over_time: OverTime,
    drags: Drags,
    halts: Vec<Halt>,
    first: Moment,
}

impl Gathered {
    fn new(selection: &Selection, slowest: usize) -> Gathered {
        let wanted = Wanted { by: vec![Dim::Reason], slowest, selection: selection.clone() };
        let mut material = Material::new(selection);
        material.facts = Facts::new(&wanted);
        Gathered {
            material,
            over_time: OverTime::new(selection),
            drags: Drags::new(selection),
            halts: Vec::new(),
            first: Moment::default(),
        }
    }

    fn end(&mut self, trace: &Trace) {
        let (first, last) = trace.span.unwrap_or_default();
        self.material.end(first, last, &trace.lanes, &trace.vcpu_of);
        self.over_time.end(&trace.lanes, &trace.vcpu_of);
    }

    /// Adds another recording. There is no advice on several.
    fn merge(&mut self, other: Gathered) {
        self.material.facts.merge(&other.material.facts);
        self.over_time.merge(other.over_time);
        self.halts.clear();
    }
}

impl Sink for Gathered {
    fn begin(&mut self, first: Moment) {
        self.first = first;
        self.material.begin(first);
        self.over_time.begin(first);
        self.drags.begin(first);
    }

    fn events(&mut self, events: &[Event]) {
        self.material.absorb_events(events);
    }

    #[inline]
    fn schedule(&mut self, event: &Event) {
        self.material.facts.schedule(event);
    }

    #[inline]
    fn absorb(&mut self, exit: &Exit) {
        self.material.absorb(exit);
        self.over_time.absorb(exit);
    }

    fn halt(&mut self, halt: &Halt) {
        self.material.absorb_halt(halt);
        if self.halts.len() < MOST_HALTS {
            self.halts.push(*halt);
        }
    }

    fn yielded(&mut self, of: &Yield) {
        self.material.absorb_yield(of);
        self.over_time.absorb_yield(of);
    }

    fn preempted(&mut self, of: &Preemption) {
        self.material.absorb_preemption(of);
    }

    fn ple_update(&mut self, of: &PleUpdate) {
        self.material.absorb_ple_update(of);
    }

    fn queue_stay(&mut self, stay: &QueueStay) {
        self.material.facts.absorb_queue_stay(stay);
    }

    fn runner_events(&mut self, events: &[Event]) {
        for event in events {
            self.material.facts.absorb_runner_event(event);
            self.drags.absorb(event);
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
    let fresh = || Gathered::new(&selection, args.slowest);
    let mut all: Option<Gathered> = None;
    let mut totals = Totals::default();
    let mut earlier = Earlier::default();
    for input in &inputs {
        let (trace, mut of_trace) = read::read_input(input.try_clone()?, &mut earlier, need_vcpus, options, fresh)?;
        of_trace.end(&trace);
        match &mut all {
            Some(all) => all.merge(of_trace),
            None => all = Some(of_trace),
        }
        totals.add(trace);
    }
    let all = all.context("no trace to read")?;
    let advice = match (&inputs[..], &totals.traces[..]) {
        ([input], [trace]) if args.select.reasons.is_empty() && args.select.longer_than.is_none() => {
            let again = |trials: &Trials| {
                read::read_input(input.try_clone()?, &mut Earlier::default(), need_vcpus, options, || trials.clone())
            };
            Some(advise(&all, &totals, trace, &selection, |trials| Ok(again(&trials)?.1))?)
        }
        _ => None,
    };
    let Gathered { material, over_time, drags, halts, .. } = all;
    // Several recordings have no common time.
    let drags = drags.finish().filter(|_| totals.traces.len() == 1);
    let host = PollHost::of(&totals.info);
    let polls = halt_polls(&material.facts.halts, &within(halts, &selection, &totals), &host);
    let breaches = report::breaches(args, &material.facts, &totals.ledger)?;
    let outcome = if breaches.is_empty() { Outcome::Fine } else { Outcome::Findings };
    let info = std::mem::take(&mut totals.info);
    let report = totals.report(args, &material.facts, &info, selection, breaches);
    then(Contents { report, advice: advice.as_ref(), polls: polls.as_ref(), over_time, drags, info: &info })?;
    Ok(outcome)
}

/// The halts that are looked at.
fn within(mut halts: Vec<Halt>, selection: &Selection, totals: &Totals) -> Vec<Halt> {
    let first = totals.traces.first().map_or(0, |trace| trace.first_ns);
    let window = selection.window(Moment::from_nanos(first));
    halts.retain(|halt| window.0 <= halt.begin && halt.begin <= window.1 && selection.holds_who(&halt.who));
    halts
}

/// What to change. `again` reads the recording once more.
fn advise(
    all: &Gathered,
    totals: &Totals,
    trace: &TraceRow,
    selection: &Selection,
    again: impl FnOnce(Trials) -> anyhow::Result<Trials>,
) -> anyhow::Result<Advised> {
    let judgement = judgement(&all.material, trace, &totals.info, |mut trials| {
        if all.halts.len() >= MOST_HALTS || !trials.need_only_halts() {
            return again(trials);
        }
        trials.begin(all.first);
        all.halts.iter().for_each(|halt| trials.absorb_halt(halt));
        Ok(trials)
    })?;
    let coverage = Coverage::of(&totals.ledger, totals.exits, totals.timed_exits);
    Ok(Advised::of(&judgement, trace.clone(), coverage, SelectionRow::of(selection), &totals.info))
}
