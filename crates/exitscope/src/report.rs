//! `exitscope report`: text, JSON and CSV; bundles and pages are made elsewhere.

use crate::cli::{DETAIL_ROWS, ReportArgs};
use crate::report_plan::{PrintedForm, PrintedReport, ReportPlan, ReportTask};
use crate::terminal::terminal_style;
use crate::totals::Totals;
use crate::{Outcome, bundle, html, write_json};
use anyhow::bail;
use exitscope_advice::{MAX_KEPT_LIVE, PageFacts};
use exitscope_analysis::{DurationStats, Facts};
use exitscope_model::{HaltRow, Spread};
use exitscope_pipeline::ReadTrace;
use exitscope_view::{
    AdviceReport, Report, gang_script, mail_text, report_page, view_page, write_csv, write_page, write_summary,
};
use std::io::Write;

pub fn run(args: &ReportArgs, out: &mut dyn Write) -> anyhow::Result<Outcome> {
    match ReportTask::of(args)? {
        ReportTask::Bundle(plan) => bundle::run(&plan, out),
        ReportTask::Page(plan, to) => html::run(&plan, &to),
        ReportTask::Printed(plan, printed) => print(&plan, &printed, out),
        ReportTask::Counts(task) => task.print(out),
    }
}

/// What is printed as JSON or CSV.
pub fn report(args: &ReportArgs) -> anyhow::Result<Report> {
    let (plan, printed) = of_recordings(args)?;
    Ok(made(&plan, &printed)?.0)
}

/// A report, and what is printed beside it.
fn made(plan: &ReportPlan, printed: &PrintedReport) -> anyhow::Result<(Report, Option<AdviceReport>, Outcome)> {
    let (mut facts, totals, advised) = match printed.form.has_advice() {
        true => facts_and_advice(plan)?,
        false => {
            let (facts, totals) = facts(plan)?;
            (facts, totals, None)
        }
    };
    if let Some(symbols) = plan.symbols() {
        facts.by.by_function(|rip| symbols.function(rip).map(|(start, _)| start));
    }
    let (mut report, outcome) = plan.report(&facts, totals, advised.as_ref());
    printed.add_hidden(&mut report, &facts)?;
    Ok((report, advised, outcome))
}

fn print(plan: &ReportPlan, printed: &PrintedReport, out: &mut dyn Write) -> anyhow::Result<Outcome> {
    let (report, advised, outcome) = made(plan, printed)?;
    match printed.form {
        PrintedForm::Json => write_json(&report, out)?,
        PrintedForm::Csv => {
            // The rows have no place for it.
            for line in report.coverage.damage() {
                say!("{line}");
            }
            write_csv(&report, &mut *out)?;
        }
        // Where there is no exit, all that there is to say is short.
        PrintedForm::Summary if report.total.count > 0 => {
            write_summary(&report, advised.as_ref(), &names(&report), terminal_style(), out)?;
        }
        PrintedForm::Mail => write!(out, "{}", mail_text(&report, advised.as_ref(), &names(&report)))?,
        PrintedForm::Summary => write_page(&report_page(&report, DETAIL_ROWS), terminal_style(), out)?,
        PrintedForm::Whole { detail_rows } => write_page(&report_page(&report, detail_rows), terminal_style(), out)?,
        PrintedForm::GangScript => {
            let rows = report.gang.as_ref().map_or(&[][..], |gang| &gang.script);
            write!(out, "{}", gang_script(rows))?;
        }
        PrintedForm::View(view) => write_page(&view_page(&report, view.text()), terminal_style(), out)?,
    }
    Ok(outcome)
}

/// The recordings as the user called them.
fn names(report: &Report) -> String {
    report.traces.iter().map(|trace| trace.name.as_str()).collect::<Vec<_>>().join(" ")
}

/// The halts of all traces, a row for each vCPU; and what was lost or damaged, a sentence each.
pub fn halts(args: &ReportArgs) -> anyhow::Result<(Vec<HaltRow<Spread>>, Vec<String>)> {
    let (plan, _) = of_recordings(args)?;
    let (facts, totals) = facts(&plan)?;
    Ok((facts.halts.rows(&totals.info, DurationStats::spread).0, totals.damage()))
}

/// The plan of a report that is printed of recordings.
fn of_recordings(args: &ReportArgs) -> anyhow::Result<(ReportPlan, PrintedReport)> {
    match ReportTask::of(args)? {
        ReportTask::Printed(plan, printed) => Ok((plan, printed)),
        ReportTask::Counts(_) => bail!("texts of counts have neither exits nor halts: name recordings"),
        ReportTask::Bundle(_) | ReportTask::Page(..) => bail!("neither a bundle nor a page is printed"),
    }
}

/// The facts of all traces.
fn facts(plan: &ReportPlan) -> anyhow::Result<(Facts, Totals)> {
    let wanted = plan.facts_options();
    let end = |mut facts: Facts, trace: &ReadTrace| {
        let (first, last) = trace.span.unwrap_or_default();
        facts.end(first, last, &trace.vcpu_of);
        trace.held.iter().for_each(|&(from, to)| facts.leave_out(from, to));
        facts
    };
    let add = |mut all: Facts, of_trace: Facts| {
        all.merge(&of_trace);
        all
    };
    plan.read_all(|| Facts::new(&wanted), end, add)
}

/// The same, and what rules say of the recording, if they look at it.
fn facts_and_advice(plan: &ReportPlan) -> anyhow::Result<(Facts, Totals, Option<AdviceReport>)> {
    let wanted = plan.facts_options();
    let end = |mut page: PageFacts, trace: &ReadTrace| {
        page.end(trace.span, &trace.held, &trace.vcpu_of);
        page
    };
    let (page, totals) = plan.read_all(|| PageFacts::new(&wanted, MAX_KEPT_LIVE), end, PageFacts::with_recording)?;
    let advised = plan.advised(&page, &totals)?;
    Ok((page.advice_input.facts, totals, advised.map(|(advised, _)| advised)))
}
