//! `exitscope report`.

use crate::bundle;
use crate::cli::{ReportArgs, ReportFormat};
use crate::devices;
use crate::html;
use crate::read;
use crate::saved_run::saved_of;
use crate::select;
use crate::terminal::terminal_style;
use crate::views::{ViewArg, read_for};
use crate::{Outcome, write_json};
use anyhow::Context;
use clap::ValueEnum;
use exitscope_advice::TriedLimits;
use exitscope_advice::{MAX_KEPT_LIVE, PageFacts};
use exitscope_analysis::{
    Breach, Condition, Dimension, Facts, FactsOptions, LimitCheck, Selection, TextWord, Threshold, TraceSink,
};
use exitscope_model::{Ledger, TraceInfo};
use exitscope_pipeline::{Judged, ReadError, ReadTrace, judgement, reread, whole_input};
use exitscope_trace::{EventFilter, GuestSymbols, Input, SymbolsError};
use exitscope_view::{
    AdviceReport, Coverage, HiddenTime, Report, ReportOptions, SelectionRow, SortKey, TraceRow, report_page, view_page,
    write_csv, write_page, write_summary,
};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufReader, Write};
use std::path::Path;
use std::sync::Arc;

/// Groups that text shows unless told otherwise, and rows of a table of what exits were about.
const TEXT_TOP: usize = 20;
const DETAIL_ROWS: usize = 8;

/// What several traces come to besides their facts.
#[derive(Default)]
pub struct Totals {
    pub ledger: Ledger,
    pub info: TraceInfo,
    pub traces: Vec<TraceRow>,
    pub exits: u64,
    pub timed_exits: u64,
    /// Of which of them nothing could be read.
    unread: Vec<ReadError>,
    /// What functions of the guest are called, by where they begin.
    functions: BTreeMap<u64, String>,
}

impl Totals {
    /// Adds a trace.
    pub fn add(&mut self, trace: ReadTrace) {
        self.traces.push(read::row(&trace));
        self.unread.extend(trace.has_events().err());
        self.ledger.merge(&trace.ledger);
        if !trace.is_left_out {
            let mut comms = std::mem::take(&mut self.info.comms);
            comms.extend(trace.info.comms);
            self.info = TraceInfo { comms, ..trace.info };
        }
        self.exits += trace.exits;
        self.timed_exits += trace.timed_exits;
    }

    /// The report of these traces.
    pub fn report(
        self,
        args: &ReportArgs,
        facts: &Facts,
        info: &TraceInfo,
        selection: Selection,
        breaches: Vec<Breach>,
    ) -> Report {
        let text = args.format == ReportFormat::Text && args.html.is_none();
        let top = args.top.unwrap_or(if text { TEXT_TOP } else { usize::MAX });
        let default_sort = if facts.by.bucket().is_some() { SortKey::Key } else { SortKey::Cost };
        let made = ReportOptions {
            exits: self.exits,
            timed_exits: self.timed_exits,
            selection,
            sort: args.sort.map_or(default_sort, SortKey::from),
            top,
            breaches,
            threads_per_core: args.threads_per_core,
            cycles_per_s: args.select.clock.tsc_hz,
            functions: self.functions,
        };
        Report::of(facts, &self.ledger, self.traces, info, made)
    }
}

/// What became of the limits of --fail-on; they are also said.
pub struct Gates {
    pub breaches: Vec<Breach>,
    /// Whether one could not be judged.
    unjudged: bool,
}

impl Gates {
    /// Says what was passed, and what could not be judged.
    pub fn of(checks: impl IntoIterator<Item = LimitCheck>) -> Gates {
        let mut gates = Gates { breaches: Vec::new(), unjudged: false };
        for check in checks {
            match check {
                LimitCheck::Holds => {}
                LimitCheck::Passed(breach) => {
                    say!("{breach}");
                    gates.breaches.push(breach);
                }
                LimitCheck::Unknown(limit) => {
                    say!("{limit}");
                    gates.unjudged = true;
                }
            }
        }
        gates
    }

    /// How the command ends. What could not be judged is no success, and no finding.
    pub fn outcome(&self) -> Outcome {
        match (self.unjudged, self.breaches.is_empty()) {
            (true, _) => Outcome::Failed,
            (false, true) => Outcome::Fine,
            (false, false) => Outcome::Findings,
        }
    }
}

/// What becomes of the limits.
pub fn gates(args: &ReportArgs, facts: &Facts, totals: &Totals) -> Gates {
    let mut gates = Gates::of(args.fail_on.iter().map(|limit| limit.check(facts, &totals.ledger)));
    if !args.fail_on.is_empty() {
        totals.unread.iter().for_each(|unread| say!("{unread}"));
        gates.unjudged |= !totals.unread.is_empty();
    }
    gates
}

pub fn run(args: &ReportArgs, out: &mut dyn Write) -> anyhow::Result<Outcome> {
    if let Some(to) = &args.bundle {
        return bundle::run(args, to, out);
    }
    if let Some(to) = &args.html {
        return html::run(args, to);
    }
    let by = match (args.event, &args.by[..]) {
        (Some(event), _) => vec![event],
        (None, []) => vec![Dimension::Reason],
        (None, by) => by.to_vec(),
    };
    if let Some(twice) = by.iter().enumerate().find_map(|(at, dim)| by[..at].contains(dim).then_some(dim)) {
        anyhow::bail!("--by names {} twice", twice.name());
    }
    // Number 0 of one VM is not that of another.
    let has_vm = by.contains(&Dimension::Vm);
    let of_vm = |dim| if dim == Dimension::Vcpu && !has_vm { vec![Dimension::Vm, Dimension::Vcpu] } else { vec![dim] };
    let in_time = |dim| if dim == Dimension::Time(None) { Dimension::Time(args.interval) } else { dim };
    let by: Vec<Dimension> = by.into_iter().flat_map(of_vm).map(in_time).collect();
    if args.interval.is_some() && !by.iter().any(|dim| matches!(dim, Dimension::Time(_))) {
        anyhow::bail!("--interval requires --by time");
    }
    if args.view.is_some() && args.format == ReportFormat::Csv {
        anyhow::bail!("CSV holds the groups of exits; --view goes with text, and JSON holds every view");
    }
    let names_places =
        |condition: &Condition| condition.words().any(|word| matches!(word, TextWord::Rip | TextWord::Function));
    if args.guestkallsyms.is_some()
        && !by.contains(&Dimension::Rip)
        && !args.select.condition.as_ref().is_some_and(names_places)
    {
        anyhow::bail!("--guestkallsyms requires --html, --by rip, or rip or function in --where");
    }
    if args.hidden.is_some() && args.format == ReportFormat::Csv {
        anyhow::bail!("CSV holds the groups of exits; --hidden goes with text and JSON");
    }
    let bounds = args.hidden.as_deref().map(|path| saved_of(path, "exits")).transpose()?;
    let symbols = args.guestkallsyms.as_deref().map(symbols).transpose()?.map(Arc::new);
    let inputs = read::open(&read::files(&args.files, &args.inputs)?, &args.select.clock)?;
    let selection = select::selection_named(&args.select, &inputs, &args.names, symbols.clone())?;
    select::check_limits(args.fail_on.iter().filter_map(Threshold::reason), &args.select, &inputs)?;
    let wanted = FactsOptions { by, slowest: args.most_slowest(), selection: selection.clone() };
    let is_summary = args.format == ReportFormat::Text && !args.shows_all();
    let (mut facts, mut totals, advised) = if is_summary || args.format == ReportFormat::Json {
        let (page, totals) = read_all(
            args,
            &inputs,
            &selection,
            || PageFacts::new(&wanted, MAX_KEPT_LIVE),
            |mut page, trace| {
                page.end(trace.span, &trace.held, &trace.vcpu_of);
                page
            },
            PageFacts::with_recording,
        )?;
        let advised = advised(args, &inputs, &page, &totals, &selection)?;
        (page.advice_input.facts, totals, advised.map(|(advised, _)| advised))
    } else {
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
        let (facts, totals) = read_all(args, &inputs, &selection, || Facts::new(&wanted), end, add)?;
        (facts, totals, None)
    };
    if let Some(symbols) = symbols {
        let functions = facts.by.rips().filter_map(|rip| symbols.function(rip));
        totals.functions = functions.map(|(start, name)| (start, name.to_string())).collect();
        facts.by.by_function(|rip| symbols.function(rip).map(|(start, _)| start));
    }
    let gates = gates(args, &facts, &totals);
    let outcome = gates.outcome();
    let info = std::mem::take(&mut totals.info);
    let mut report = totals.report(args, &facts, &info, selection, gates.breaches);
    if let Some(advised) = &advised {
        report.add_advice(&facts, &info, advised);
    }
    if let (Some(lab), Some(path)) = (&bounds, &args.hidden) {
        let hidden =
            HiddenTime::of(&report, &facts, lab).map_err(|why| anyhow::anyhow!("{}: {why}", path.display()))?;
        report.hidden = Some(hidden);
    }
    match args.format {
        ReportFormat::Json => write_json(&report, out)?,
        ReportFormat::Csv => {
            // The rows have no place for it.
            for line in report.coverage.damage() {
                say!("{line}");
            }
            write_csv(&report, &mut *out)?;
        }
        // Where there is no exit, all that there is to say is short.
        ReportFormat::Text if is_summary && report.total.count > 0 => {
            let names: Vec<String> = report.traces.iter().map(|trace| trace.name.clone()).collect();
            write_summary(&report, advised.as_ref(), &names.join(" "), terminal_style(), out)?;
        }
        ReportFormat::Text => {
            let page = match args.view {
                Some(view) => view_page(&report, view.text()),
                None => report_page(&report, args.top.unwrap_or(DETAIL_ROWS)),
            };
            write_page(&page, terminal_style(), out)?;
        }
    }
    Ok(outcome)
}

/// Reads all traces, of each of which `end` makes what `add` puts together; what is at the VMs' addresses is named.
pub fn read_all<S: TraceSink, T>(
    args: &ReportArgs,
    inputs: &[Input],
    selection: &Selection,
    fresh: impl Fn() -> S,
    end: impl Fn(S, &ReadTrace) -> T,
    add: impl Fn(T, T) -> T,
) -> anyhow::Result<(T, Totals)> {
    let devices = devices::read(&args.names)?;
    let events = match (args.view, args.format) {
        _ if args.html.is_some() => read_for(ViewArg::value_variants()),
        (_, ReportFormat::Json) => read_for(ViewArg::value_variants()),
        (Some(view), _) => read_for(&[view]),
        (None, _) => read_for(&[]),
    };
    let options = read::options(&args.select.clock, events, selection);
    let (all, traces) = exitscope_pipeline::read_all(inputs, options, fresh, end, add)?;
    let mut totals = Totals::default();
    traces.into_iter().for_each(|trace| totals.add(trace));
    devices::name(&mut totals.info, devices.as_ref());
    Ok((all.context("no trace to read")?, totals))
}

/// What rules say of a recording, and what they tried; `None` of several, or of a part of the exits.
pub fn advised(
    args: &ReportArgs,
    inputs: &[Input],
    facts: &PageFacts,
    totals: &Totals,
    selection: &Selection,
) -> anyhow::Result<Option<(AdviceReport, TriedLimits)>> {
    let ([input], [trace]) = (inputs, &totals.traces[..]) else { return Ok(None) };
    if args.select.narrows_exits() {
        return Ok(None);
    }
    let options = read::options(&args.select.clock, EventFilter::Used, selection);
    let coverage = Coverage::of(&totals.ledger, totals.exits, totals.timed_exits);
    let whole = whole_input(input, options, selection)?;
    let host = trace.recorded_host(&totals.info);
    let selected = &facts.advice_input;
    let again = |trials| reread(input, options, trials);
    let (judgement, trials) = match &whole {
        Some(whole) => judgement(Judged { whole, selected: Some(selected), host: &host }, again)?,
        None => judgement(Judged::all(selected, &host), |trials| facts.replay_kept_or_reread(trials, again))?,
    };
    let of = (&facts.advice_input.facts, &totals.info);
    let advised = AdviceReport::of(&judgement, trace.clone(), coverage, SelectionRow::of(selection), of);
    Ok(Some((advised, trials.limits())))
}

/// The functions of a guest.
pub fn symbols(path: &Path) -> anyhow::Result<GuestSymbols> {
    let file = File::open(path).map_err(SymbolsError::from);
    file.and_then(|file| GuestSymbols::read(BufReader::new(file))).with_context(|| path.display().to_string())
}
