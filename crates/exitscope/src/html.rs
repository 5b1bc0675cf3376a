//! `exitscope report --html`: the report as one self-contained page.
//!
//! ```text
//! reading ─┬─► Gathered: facts, advice, polls ─┬─► page
//!          └─► OverTime (its thread), Drags ───┘
//! ```
//!
//! The trace is read once. Only core runs of powerpc, and recordings with more halts or yields than are kept, are read again.

use crate::Outcome;
use crate::background::{Background, Ending};
use crate::cli::ReportArgs;
use crate::devices;
use crate::gathered::{Gathered, OF_A_RECORDING};
use crate::page_file;
use crate::read::{self, Earlier, Trace};
use crate::report::{self, Totals};
use crate::select;
use anyhow::Context;
use exitscope_analysis::Selection;
use exitscope_analysis::advice::{Trials, TriedLimits};
use exitscope_page::{Contents, Drags, OverTime, write_page};
use exitscope_trace::{Input, Keep};
use exitscope_view::Coverage;
use std::path::Path;

/// A trace while it is read.
type Reading = (Gathered, (Drags, Background));

fn begin(selection: &Selection, slowest: usize) -> Reading {
    let over_time = Background::start(OverTime::new(selection));
    (Gathered::new(selection, slowest, OF_A_RECORDING), (Drags::new(selection), over_time))
}

fn end((mut gathered, (drags, over_time)): Reading, trace: &Trace) -> (Gathered, Drags, Ending) {
    let over_time = over_time.end(trace);
    let (first, last) = trace.span.unwrap_or_default();
    gathered.material.end(first, last, &trace.vcpu_of);
    trace.held.iter().for_each(|&(from, to)| gathered.material.facts.leave_out(from, to));
    (gathered, drags, over_time)
}

pub fn run(args: &ReportArgs, to: &Path) -> anyhow::Result<Outcome> {
    let files = read::files(&args.files, &args.inputs)?;
    page_file::check(to, &files)?;
    let inputs = read::open(&files, &args.select.clock)?;
    look_at(args, &inputs, |contents| page_file::write(to, |out| write_page(contents, out)))
}

/// Reads traces, and has `then` make a page of what they hold.
pub fn look_at(
    args: &ReportArgs,
    inputs: &[Input],
    then: impl FnOnce(Contents) -> anyhow::Result<()>,
) -> anyhow::Result<Outcome> {
    let devices = devices::read(&args.names)?;
    let selection = select::selection(&args.select, inputs)?;
    let (need_vcpus, options) = (!selection.vcpus.is_empty(), args.select.clock.options(Keep::Timed));
    let fresh = || begin(&selection, args.slowest);
    let mut all: Option<(Gathered, Drags, Ending)> = None;
    let mut totals = Totals::default();
    let mut earlier = Earlier::of_run(inputs);
    for input in inputs {
        let (trace, reading) = read::read_input(input.try_clone()?, &mut earlier, need_vcpus, options, fresh)?;
        let (of_trace, drags, over_time_of_trace) = end(reading, &trace);
        all = Some(match all {
            Some((mut gathered, drags, over_time)) => {
                gathered.add_recording(&of_trace);
                (gathered, drags, over_time.merge(over_time_of_trace))
            }
            None => (of_trace, drags, over_time_of_trace),
        });
        totals.add(trace);
    }
    let (gathered, drags, over_time) = all.context("no trace to read")?;
    devices::name(&mut totals.info, devices.as_ref());
    let advised = || match (inputs, &totals.traces[..]) {
        ([input], [trace]) if args.select.reasons.is_empty() && args.select.longer_than.is_none() => {
            let again = |trials: Trials| {
                let fresh = || trials.clone();
                Ok(read::read_input(input.try_clone()?, &mut Earlier::default(), need_vcpus, options, fresh)?.1)
            };
            let coverage = Coverage::of(&totals.ledger, totals.exits, totals.timed_exits);
            let tried = |trials| gathered.try_or(trials, again);
            let (advised, limits) = gathered.advise(trace, coverage, &selection, &totals.info, tried)?;
            Ok((Some(advised), limits))
        }
        _ => Ok((None, TriedLimits::default())),
    };
    // Several recordings have no common time.
    let in_time = totals.traces.len() == 1;
    let (advice, polls, over_time) = gathered.finish(advised, || over_time.wait(), in_time, &totals.info)?;
    let drags = drags.finish().filter(|_| in_time);
    let facts = &gathered.material.facts;
    let gates = report::gates(args, facts, &totals)?;
    let outcome = gates.outcome();
    let info = std::mem::take(&mut totals.info);
    let mut report = totals.report(args, facts, &info, selection, gates.breaches, options.keep);
    if let Some(advised) = &advice {
        report.add_advice(facts, &info, advised);
    }
    then(Contents { report, advice: advice.as_ref(), polls: polls.as_ref(), over_time, drags })?;
    Ok(outcome)
}
