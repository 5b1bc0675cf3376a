//! `exitscope report --html`: the report as one self-contained page.
//!
//! The trace is read once. Only core runs of powerpc, and recordings with more halts or yields than are kept, are read again.

use crate::Outcome;
use crate::html_output;
use crate::report_plan::ReportPlan;
use exitscope_advice::TriedLimits;
use exitscope_page::{ForcedOutColumns, PageContents, finish_page_parts, write_page};
use exitscope_pipeline::Gathered;
use std::path::Path;

pub fn run(plan: &ReportPlan, to: &Path) -> anyhow::Result<Outcome> {
    write_page_of(plan, |contents| html_output::write(to, |out| write_page(contents, out)))
}

/// Reads traces, and has `then` make a page of what they hold.
pub fn write_page_of(
    plan: &ReportPlan,
    then: impl FnOnce(PageContents) -> anyhow::Result<()>,
) -> anyhow::Result<Outcome> {
    let fresh = || Gathered::begin(&plan.exits.selection, plan.slowest());
    let (gathered, totals) = plan.read_all(fresh, Gathered::end, Gathered::with_recording)?;
    let Gathered { facts: page, forced_out, over_time } = gathered;
    let advised = || -> anyhow::Result<_> {
        let advised = plan.advised(&page, &totals)?;
        Ok(advised.map_or((None, TriedLimits::default()), |(advised, limits)| (Some(advised), limits)))
    };
    // Several recordings have no common time.
    let in_time = totals.traces.len() == 1;
    let (advice, polls, mut over_time) =
        finish_page_parts(&page, advised, || over_time.wait(), &totals.traces, &totals.info)?;
    plan.symbols().into_iter().for_each(|symbols| over_time.name_places(|rip| symbols.function(rip)));
    let forced_out = ForcedOutColumns::of(forced_out).filter(|_| in_time);
    let (report, outcome) = plan.report(&page.advice_input.facts, totals, advice.as_ref());
    then(PageContents { report, advice: advice.as_ref(), polls: polls.as_ref(), over_time, forced_out })?;
    Ok(outcome)
}
