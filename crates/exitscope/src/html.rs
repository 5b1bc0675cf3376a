//! `exitscope report --html`: the report as one self-contained page.
//!
//! The trace is read once. Only core runs of powerpc, and recordings with more halts or yields than are kept, are read again.

use crate::Outcome;
use crate::cli::ReportArgs;
use crate::html_output;
use crate::read;
use crate::report::{self, read_all};
use crate::select;
use exitscope_advice::TriedLimits;
use exitscope_analysis::Threshold;
use exitscope_page::{ForcedOutColumns, PageContents, finish_page_parts, write_page};
use exitscope_pipeline::Gathered;
use exitscope_trace::Input;
use std::path::Path;
use std::sync::Arc;

pub fn run(args: &ReportArgs, to: &Path) -> anyhow::Result<Outcome> {
    let files = read::files(&args.files, &args.inputs)?;
    html_output::check(to, &files)?;
    let inputs = read::open(&files, &args.select.clock)?;
    write_page_of(args, &inputs, |contents| html_output::write(to, |out| write_page(contents, out)))
}

/// Reads traces, and has `then` make a page of what they hold.
pub fn write_page_of(
    args: &ReportArgs,
    inputs: &[Input],
    then: impl FnOnce(PageContents) -> anyhow::Result<()>,
) -> anyhow::Result<Outcome> {
    let symbols = args.guestkallsyms.as_deref().map(report::symbols).transpose()?.map(Arc::new);
    let selection = select::selection_named(&args.select, inputs, &args.names, symbols.clone())?;
    select::check_limits(args.fail_on.iter().filter_map(Threshold::reason), &args.select, inputs)?;
    let fresh = || Gathered::begin(&selection, args.most_slowest());
    let (gathered, mut totals) = read_all(args, inputs, &selection, fresh, Gathered::end, Gathered::with_recording)?;
    let Gathered { facts: page, forced_out, over_time } = gathered;
    let advised = || -> anyhow::Result<_> {
        let advised = report::advised(args, inputs, &page, &totals, &selection)?;
        Ok(advised.map_or((None, TriedLimits::default()), |(advised, limits)| (Some(advised), limits)))
    };
    // Several recordings have no common time.
    let in_time = totals.traces.len() == 1;
    let (advice, polls, mut over_time) =
        finish_page_parts(&page, advised, || over_time.wait(), &totals.traces, &totals.info)?;
    symbols.into_iter().for_each(|symbols| over_time.name_places(|rip| symbols.function(rip)));
    let forced_out = ForcedOutColumns::of(forced_out).filter(|_| in_time);
    let facts = &page.advice_input.facts;
    let gates = report::gates(args, facts, &totals);
    let outcome = gates.outcome();
    let info = std::mem::take(&mut totals.info);
    let mut report = totals.report(args, facts, &info, selection.clone(), gates.breaches);
    if let Some(advised) = &advice {
        report.add_advice(facts, &info, advised);
    }
    then(PageContents { report, advice: advice.as_ref(), polls: polls.as_ref(), over_time, forced_out })?;
    Ok(outcome)
}
