//! The flags of `exitscope report`, resolved once.
//!
//! ```text
//!              ┌─► BundlePlan                  bundle
//! ReportArgs ──┼─► ReportPlan, file            html      ◄── serve, of each recording
//!              ├─► ReportPlan, PrintedReport   report
//!              └─► CountsTask                  report, of texts of counts
//! ```

use crate::Outcome;
use crate::bundle::BundlePlan;
use crate::cli::{DETAIL_ROWS, ReportArgs, ReportFormat, SelectArgs, TEXT_TOP};
use crate::counts::{CountedFiles, CountsTask};
use crate::devices::{self, DeviceList};
use crate::gates::Gates;
use crate::html_output;
use crate::output_file::is_none_of;
use crate::read::{self, RecordingAccess};
use crate::saved_run::saved_of;
use crate::select::{self, OutsideNames, SelectedExits};
use crate::totals::Totals;
use crate::views::{ViewArg, read_for};
use anyhow::{Context, bail, ensure};
use clap::ValueEnum;
use exitscope_advice::{PageFacts, TriedLimits};
use exitscope_analysis::{Condition, Dimension, Facts, FactsOptions, TextWord, Threshold, TraceSink};
use exitscope_pipeline::{Judged, ReadTrace, judgement, reread, whole_input};
use exitscope_trace::{Devices, EventFilter, GuestSymbols, Input, SymbolsError};
use exitscope_units::Nanos;
use exitscope_view::{AdviceReport, Coverage, HiddenTime, LabReport, Report, ReportOptions, SelectionRow, SortKey};
use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The slowest exits that are shown unless told otherwise.
const SLOWEST: usize = 10;

/// What `report` is to make.
pub enum ReportTask {
    Bundle(BundlePlan),
    Page(ReportPlan, PathBuf),
    Printed(ReportPlan, PrintedReport),
    Counts(Box<CountsTask>),
}

/// How a report is printed.
pub struct PrintedReport {
    pub form: PrintedForm,
    /// What bounds hidden time, and the file that it is from.
    hidden: Option<(Box<LabReport>, PathBuf)>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum PrintedForm {
    /// The lines with which text begins; the whole text if there is no exit.
    Summary,
    /// The whole text, with so many rows of each table of what exits were about.
    Whole {
        detail_rows: usize,
    },
    View(ViewArg),
    /// The first lines as plain text for a mail.
    Mail,
    Json,
    Csv,
    /// What the script of 2015 prints of ganged exits.
    GangScript,
}

/// What is read, and what of it is shown.
pub struct ReportPlan {
    pub inputs: Vec<Input>,
    pub exits: SelectedExits,
    devices: Option<Devices>,
    symbols: Option<Arc<GuestSymbols>>,
    limits: Vec<Threshold>,
    shown: ShownGroups,
}

/// The groups of a report, and how many of them.
struct ShownGroups {
    by: Vec<Dimension>,
    slowest: usize,
    sort: SortKey,
    top: usize,
    /// powerpc: vCPUs of a virtual core, if that was said.
    threads_per_core: Option<u32>,
    /// The events that they are made of.
    events: EventFilter,
}

impl ShownGroups {
    /// Those of a page, whose own tables are sorted and cut in the browser.
    fn of_page(slowest: Option<usize>, threads_per_core: Option<u32>) -> ShownGroups {
        ShownGroups {
            by: vec![Dimension::Reason],
            slowest: slowest.unwrap_or(SLOWEST),
            sort: SortKey::Cost,
            top: usize::MAX,
            threads_per_core,
            events: read_for(ViewArg::value_variants()),
        }
    }
}

impl ReportTask {
    /// What the flags ask for. Opens the traces, and reads them as far as the selection needs it.
    pub fn of(args: &ReportArgs) -> anyhow::Result<ReportTask> {
        let access = RecordingAccess::of(&args.select.clock);
        match (&args.bundle, &args.html) {
            (Some(to), _) => {
                let files = read::files(&args.files, &args.inputs)?;
                Ok(ReportTask::Bundle(BundlePlan::of(&files, access, to)?))
            }
            (None, Some(to)) => page(args, access, to),
            (None, None) => printed(args, access),
        }
    }
}

/// The plan of a page. Here and in [`printed`] each flag is named, so that a new one has an effect or is left out on purpose.
fn page(args: &ReportArgs, access: RecordingAccess, to: &Path) -> anyhow::Result<ReportTask> {
    let ReportArgs {
        files,
        inputs,
        guestkallsyms,
        threads_per_core,
        select,
        names,
        slowest,
        fail_on,
        html: _,
        bundle: _,
        // They conflict with a page.
        all: _,
        mail: _,
        by: _,
        event: _,
        interval: _,
        view: _,
        top: _,
        sort: _,
        format: _,
        hidden: _,
    } = args;
    let files = read::files(files, inputs)?;
    let inputs = access.open(&files)?;
    if let Some(counted) = CountedFiles::of(&inputs)? {
        is_none_of(to, &files, "--html")?;
        return Ok(ReportTask::Counts(Box::new(CountsTask::of_report(args, counted)?)));
    }
    html_output::check(to, &files)?;
    let symbols = guestkallsyms.as_deref().map(symbols).transpose()?.map(Arc::new);
    let names = OutsideNames { devices: DeviceList::of(names), symbols };
    let plan = ReportPlan::selected(inputs, select, names, fail_on, ShownGroups::of_page(*slowest, *threads_per_core))?;
    Ok(ReportTask::Page(plan, to.to_path_buf()))
}

/// The plan of what is printed.
fn printed(args: &ReportArgs, access: RecordingAccess) -> anyhow::Result<ReportTask> {
    let &ReportArgs {
        ref files,
        ref inputs,
        all,
        mail,
        ref by,
        event,
        ref guestkallsyms,
        interval,
        view,
        threads_per_core,
        ref select,
        ref names,
        top,
        sort,
        slowest,
        format,
        ref hidden,
        ref fail_on,
        html: _,
        bundle: _,
    } = args;
    let has_groups = !by.is_empty() || event.is_some() || interval.is_some();
    let has_rows = top.is_some() || sort.is_some() || slowest.is_some();
    let has_more = view.is_some() || hidden.is_some() || threads_per_core.is_some();
    let is_whole = all || has_groups || has_rows || has_more;
    let form = printed_form(format, view, if mail { PrintedForm::Mail } else { PrintedForm::Summary })?;
    let form = match form {
        PrintedForm::Summary if is_whole => PrintedForm::Whole { detail_rows: top.unwrap_or(DETAIL_ROWS) },
        form => form,
    };
    let by = dimensions(by, event, interval)?;
    let is_csv = form == PrintedForm::Csv;
    ensure!(
        !is_csv || view.is_none(),
        "CSV holds the groups of exits; --view goes with text, and JSON holds every view"
    );
    ensure!(
        guestkallsyms.is_none() || by.contains(&Dimension::Rip) || select.condition.as_ref().is_some_and(names_places),
        "--guestkallsyms requires --html, --by rip, or rip or function in --where"
    );
    ensure!(!is_csv || hidden.is_none(), "CSV holds the groups of exits; --hidden goes with text and JSON");
    let of_lab = |path: &PathBuf| anyhow::Ok((Box::new(saved_of(path, "exits")?), path.clone()));
    let hidden = hidden.as_ref().map(of_lab).transpose()?;
    let symbols = guestkallsyms.as_deref().map(symbols).transpose()?.map(Arc::new);
    let inputs = access.open(&read::files(files, inputs)?)?;
    if let Some(counted) = CountedFiles::of(&inputs)? {
        return Ok(ReportTask::Counts(Box::new(CountsTask::of_report(args, counted)?)));
    }
    let names = OutsideNames { devices: DeviceList::of(names), symbols };
    let is_by_time = by.iter().any(|dim| matches!(dim, Dimension::Time(_)));
    let shown = ShownGroups {
        slowest: slowest.unwrap_or(SLOWEST),
        sort: sort.map_or(if is_by_time { SortKey::Key } else { SortKey::Cost }, SortKey::from),
        top: top.unwrap_or(if format == ReportFormat::Text { TEXT_TOP } else { usize::MAX }),
        threads_per_core,
        by,
        events: form.events(),
    };
    let plan = ReportPlan::selected(inputs, select, names, fail_on, shown)?;
    Ok(ReportTask::Printed(plan, PrintedReport { form, hidden }))
}

/// What a format prints; `short` is what text is where no view is asked for.
fn printed_form(format: ReportFormat, view: Option<ViewArg>, short: PrintedForm) -> anyhow::Result<PrintedForm> {
    Ok(match (format, view) {
        (ReportFormat::Json, _) => PrintedForm::Json,
        (ReportFormat::Csv, _) => PrintedForm::Csv,
        (ReportFormat::Script, Some(ViewArg::Gang)) => PrintedForm::GangScript,
        (ReportFormat::Script, _) => {
            bail!("--format script requires --view gang: it is what a script prints of gang exits")
        }
        (ReportFormat::Text, Some(view)) => PrintedForm::View(view),
        (ReportFormat::Text, None) => short,
    })
}

/// The dimensions by which exits are grouped.
fn dimensions(by: &[Dimension], event: Option<Dimension>, width: Option<Nanos>) -> anyhow::Result<Vec<Dimension>> {
    let by = match (event, by) {
        (Some(event), _) => vec![event],
        (None, []) => vec![Dimension::Reason],
        (None, by) => by.to_vec(),
    };
    if let Some(twice) = by.iter().enumerate().find_map(|(at, dim)| by[..at].contains(dim).then_some(dim)) {
        bail!("--by names {} twice", twice.name());
    }
    // Number 0 of one VM is not that of another.
    let has_vm = by.contains(&Dimension::Vm);
    let of_vm = |dim| if dim == Dimension::Vcpu && !has_vm { vec![Dimension::Vm, Dimension::Vcpu] } else { vec![dim] };
    let in_time = |dim| if dim == Dimension::Time(None) { Dimension::Time(width) } else { dim };
    let by: Vec<Dimension> = by.into_iter().flat_map(of_vm).map(in_time).collect();
    let is_by_time = by.iter().any(|dim| matches!(dim, Dimension::Time(_)));
    ensure!(width.is_none() || is_by_time, "--interval requires --by time");
    Ok(by)
}

/// Whether a condition is about where the guest was.
fn names_places(condition: &Condition) -> bool {
    condition.words().any(|word| matches!(word, TextWord::Rip | TextWord::Function))
}

/// The functions of a guest.
pub fn symbols(path: &Path) -> anyhow::Result<GuestSymbols> {
    let file = File::open(path).map_err(SymbolsError::from);
    file.and_then(|file| GuestSymbols::read(BufReader::new(file))).with_context(|| path.display().to_string())
}

impl PrintedForm {
    /// The events that are read for it.
    fn events(self) -> EventFilter {
        match self {
            PrintedForm::Summary | PrintedForm::Mail | PrintedForm::Whole { .. } | PrintedForm::Csv => read_for(&[]),
            PrintedForm::View(view) => read_for(&[view]),
            PrintedForm::GangScript => read_for(&[ViewArg::Gang]),
            PrintedForm::Json => read_for(ViewArg::value_variants()),
        }
    }

    /// Whether it has what rules say of the recording.
    pub fn has_advice(self) -> bool {
        matches!(self, PrintedForm::Summary | PrintedForm::Mail | PrintedForm::Json)
    }
}

impl PrintedReport {
    /// Adds what is hidden of guest time, if that is asked for.
    pub fn add_hidden(&self, report: &mut Report, facts: &Facts) -> anyhow::Result<()> {
        let Some((lab, path)) = &self.hidden else { return Ok(()) };
        let hidden = HiddenTime::of(report, facts, lab).map_err(|why| anyhow::anyhow!("{}: {why}", path.display()))?;
        report.add_hidden(hidden, facts);
        Ok(())
    }
}

impl ReportPlan {
    /// The plan of a page of all exits of a trace.
    pub fn of_page(input: Input, access: RecordingAccess, names: OutsideNames) -> anyhow::Result<ReportPlan> {
        let exits = SelectedExits::all(access);
        ReportPlan::new(vec![input], exits, names, Vec::new(), ShownGroups::of_page(None, None))
    }

    /// The plan of what flags select of traces.
    fn selected(
        inputs: Vec<Input>,
        select: &SelectArgs,
        names: OutsideNames,
        limits: &[Threshold],
        shown: ShownGroups,
    ) -> anyhow::Result<ReportPlan> {
        let exits = SelectedExits::of(select, &inputs, &names)?;
        select::check_limits(limits.iter().filter_map(Threshold::reason), select, &inputs)?;
        ReportPlan::new(inputs, exits, names, limits.to_vec(), shown)
    }

    fn new(
        inputs: Vec<Input>,
        mut exits: SelectedExits,
        names: OutsideNames,
        limits: Vec<Threshold>,
        shown: ShownGroups,
    ) -> anyhow::Result<ReportPlan> {
        exits.options.source.keep = shown.events;
        let OutsideNames { devices, symbols } = names;
        Ok(ReportPlan { inputs, exits, devices: devices.into_devices()?, symbols, limits, shown })
    }

    /// How facts are made.
    pub fn facts_options(&self) -> FactsOptions {
        let (by, selection) = (self.shown.by.clone(), self.exits.selection.clone());
        FactsOptions { by, slowest: self.shown.slowest, selection }
    }

    /// The slowest exits that are kept.
    pub fn slowest(&self) -> usize {
        self.shown.slowest
    }

    /// What functions of the guest are called, if somebody said.
    pub fn symbols(&self) -> Option<&GuestSymbols> {
        self.symbols.as_deref()
    }

    /// Reads all traces, of each of which `end` makes what `add` puts together; what is at the VMs' addresses is named.
    pub fn read_all<S: TraceSink, T>(
        &self,
        fresh: impl Fn() -> S,
        end: impl Fn(S, &ReadTrace) -> T,
        add: impl Fn(T, T) -> T,
    ) -> anyhow::Result<(T, Totals)> {
        let (all, traces) = exitscope_pipeline::read_all(&self.inputs, self.exits.options, fresh, end, add)?;
        let mut totals = Totals::default();
        traces.into_iter().for_each(|trace| totals.add(trace));
        devices::name(&mut totals.info, self.devices.as_ref());
        Ok((all.context("no trace to read")?, totals))
    }

    /// What rules say of a recording, and what they tried; `None` of several, or of a part of the exits.
    pub fn advised(&self, facts: &PageFacts, totals: &Totals) -> anyhow::Result<Option<(AdviceReport, TriedLimits)>> {
        let ([input], [trace]) = (&self.inputs[..], &totals.traces[..]) else { return Ok(None) };
        let SelectedExits { selection, options, is_narrowed } = &self.exits;
        if *is_narrowed {
            return Ok(None);
        }
        let coverage = Coverage::of(&totals.ledger, totals.exits, totals.timed_exits);
        let whole = whole_input(input, *options, selection)?;
        let host = trace.recorded_host(&totals.info);
        let selected = &facts.advice_input;
        let again = |trials| reread(input, *options, trials);
        let (judgement, trials) = match &whole {
            Some(whole) => judgement(Judged { whole, selected: Some(selected), host: &host }, again)?,
            None => judgement(Judged::all(selected, &host), |trials| facts.replay_kept_or_reread(trials, again))?,
        };
        let of = (&facts.advice_input.facts, &totals.info);
        let advised = AdviceReport::of(&judgement, trace.clone(), coverage, SelectionRow::of(selection), of);
        Ok(Some((advised, trials.limits())))
    }

    /// The report of what was read, and how the command ends.
    pub fn report(&self, facts: &Facts, totals: Totals, advised: Option<&AdviceReport>) -> (Report, Outcome) {
        let mut gates = Gates::of(self.limits.iter().map(|limit| limit.check(facts, &totals.ledger)));
        if !self.limits.is_empty() {
            gates.cannot_judge(&totals.unread);
        }
        let outcome = gates.outcome();
        let called = |rip| self.symbols()?.function(rip);
        let functions = facts.by.rips().filter_map(called);
        let options = ReportOptions {
            exits: totals.exits,
            timed_exits: totals.timed_exits,
            selection: self.exits.selection.clone(),
            sort: self.shown.sort,
            top: self.shown.top,
            breaches: gates.breaches,
            threads_per_core: self.shown.threads_per_core,
            cycles_per_s: self.exits.options.source.clock_hz,
            functions: functions.map(|(start, name)| (start, name.to_string())).collect(),
        };
        let mut report = Report::of(facts, &totals.ledger, totals.traces, &totals.info, options);
        if let Some(advised) = advised {
            report.add_advice(facts, &totals.info, advised);
        }
        (report, outcome)
    }
}
