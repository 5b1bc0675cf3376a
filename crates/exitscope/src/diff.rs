//! `exitscope diff`.

use crate::alternate::Alternation;
use crate::cli::{CONFIDENCE, DiffArgs, DiffFormat};
use crate::counts::{self, CountedFiles};
use crate::gates::Gates;
use crate::html_output;
use crate::read::{self, RecordingAccess};
use crate::select::{self, OutsideNames, SelectedExits};
use crate::terminal::terminal_style;
use crate::{Outcome, write_json};
use exitscope_analysis::{ChangeLimit, DiffRow, DiffVerdict};
use exitscope_model::LedgerLine;
use exitscope_page::{ResultPage, SideLengths, write_result_data, write_result_page};
use exitscope_pipeline::{DiffSide, read_side};
use exitscope_trace::Input;
use exitscope_view::{
    Comparison, Coverage, DiffVerdictRow, EventKindsRow, ReasonComparison, SelectionRow, SideRow, comparison_page,
    write_markdown, write_page,
};
use std::io::Write;
use std::path::{Path, PathBuf};

/// What is compared where nothing is named, as with `perf diff`.
const DEFAULTS: [&str; 2] = ["perf.data.old", "perf.data"];

/// The traces of both sides, and how they are compared.
struct DiffPlan {
    /// The traces of before and of after the change.
    sides: [Vec<Input>; 2],
    exits: SelectedExits,
    confidence_percent: f64,
    /// What was done in each recording of before and of after.
    work: Option<(f64, f64)>,
    /// Reasons at most.
    top: usize,
}

/// What becomes of the comparison.
enum DiffOutput {
    Page(PathBuf),
    Json,
    /// All reasons up to `top`, or those that weigh.
    Text {
        is_short: bool,
    },
    /// The same.
    Markdown {
        is_short: bool,
    },
}

pub fn run(args: &DiffArgs, out: &mut dyn Write) -> anyhow::Result<Outcome> {
    let (plan, output) = match plan(args)? {
        DiffTask::Traces(plan, output) => (*plan, output),
        DiffTask::Counts(sides) => return counts::compare(args, *sides, out),
    };
    let Sides { comparison, lengths, rows, verdict, cut } = compare(&plan)?;
    let gates = Gates::of(args.fail_on.iter().map(|limit| limit.check(&rows, cut, &verdict)));
    match output {
        DiffOutput::Page(to) => {
            let page = ResultPage::Diff { diff: &comparison, lengths };
            html_output::write(&to, |out| write_result_page(&page, out))?;
        }
        DiffOutput::Json => write_json(&comparison, out)?,
        DiffOutput::Markdown { is_short } => write_markdown(&comparison_page(&comparison, is_short), out)?,
        DiffOutput::Text { is_short } => write_page(&comparison_page(&comparison, is_short), terminal_style(), out)?,
    }
    Ok(gates.outcome())
}

/// What is to be done.
enum DiffTask {
    Traces(Box<DiffPlan>, DiffOutput),
    Counts(Box<[CountedFiles; 2]>),
}

/// What the flags ask for. Each is named, so that a new one has an effect.
fn plan(args: &DiffArgs) -> anyhow::Result<DiffTask> {
    let DiffArgs { a, b, before, after, select, work, confidence, top, format, html, fail_on, .. } = args;
    let DiffArgs { alternate, prepare_a, prepare_b, into, command, .. } = args;
    let [before, after] = match (alternate, prepare_a, prepare_b) {
        (&Some(times), Some(before), Some(after)) => {
            let into = into.as_deref().unwrap_or(Path::new(""));
            Alternation { times, prepare: [("--a", before), ("--b", after)], into, command }.record()?
        }
        _ => files([(a, before), (b, after)])?,
    };
    if let Some(to) = html {
        html_output::check(to, &[before.as_slice(), &after].concat())?;
    }
    let access = RecordingAccess::of(&select.clock);
    let sides = [access.open(&before)?, access.open(&after)?];
    match (CountedFiles::of(&sides[0])?, CountedFiles::of(&sides[1])?) {
        (None, None) => {}
        (Some(before), Some(after)) => return Ok(DiffTask::Counts(Box::new([before, after]))),
        _ => anyhow::bail!("one side is texts of counts, the other traces: they have nothing in common"),
    }
    // A VM of one side need not be on the other, where a process has another number.
    let all = sides.iter().flatten().map(Input::try_clone).collect::<Result<Vec<_>, _>>()?;
    select::check_limits(fail_on.iter().filter_map(ChangeLimit::reason), select, &all)?;
    let exits = SelectedExits::of(select, &all, &OutsideNames::default())?;
    let output = match (html, format) {
        (Some(to), _) => DiffOutput::Page(to.clone()),
        (None, DiffFormat::Json) => DiffOutput::Json,
        (None, DiffFormat::Text) => DiffOutput::Text { is_short: top.is_none() },
        (None, DiffFormat::Markdown) => DiffOutput::Markdown { is_short: top.is_none() },
    };
    let top = top.unwrap_or(usize::MAX);
    Ok(DiffTask::Traces(Box::new(DiffPlan { sides, exits, confidence_percent: *confidence, work: *work, top }), output))
}

/// What the page of two traces shows, packed.
pub fn data(before: Input, after: Input, access: RecordingAccess) -> anyhow::Result<Vec<u8>> {
    let (sides, exits) = ([vec![before], vec![after]], SelectedExits::all(access));
    let plan = DiffPlan { sides, exits, confidence_percent: CONFIDENCE, work: None, top: usize::MAX };
    let Sides { comparison, lengths, .. } = compare(&plan)?;
    let mut data = Vec::new();
    write_result_data(&ResultPage::Diff { diff: &comparison, lengths }, &mut data)?;
    Ok(data)
}

/// Both sides, compared.
struct Sides {
    comparison: Comparison,
    lengths: Vec<SideLengths>,
    /// Of all reasons.
    rows: Vec<DiffRow>,
    /// What may be said of them.
    verdict: DiffVerdict,
    /// Whether a recording is cut.
    cut: bool,
}

/// Compares the traces of both sides.
fn compare(plan: &DiffPlan) -> anyhow::Result<Sides> {
    let &DiffPlan { sides: [ref before, ref after], ref exits, confidence_percent, work, top } = plan;
    let SelectedExits { selection, options, .. } = exits;
    let (before, after) = (
        read_side(before, selection, *options, work.map(|work| work.0))?,
        read_side(after, selection, *options, work.map(|work| work.1))?,
    );
    let per_10_000 = (confidence_percent * 100.0).round() as u64;
    let rows = after.diff.against(&before.diff, per_10_000);
    let total = after.diff.total_against(&before.diff, per_10_000);
    // All reasons together are a row besides.
    let shown = top.saturating_add(1);
    let of = |row: &DiffRow| SideLengths::of(row, &before.diff, &after.diff);
    let lengths = rows.iter().take(shown).map(of).collect();
    let [before_row, after_row] = [&before, &after].map(row);
    let verdict = DiffVerdict::of(&total, &rows, [&before_row.compared(), &after_row.compared()]);
    let mut compared = ReasonComparison::all(&rows, &|row, change| verdict.of_change(row, change));
    compared.truncate(shown);
    let comparison = Comparison {
        schema: Comparison::SCHEMA,
        verdict: DiffVerdictRow::of(&verdict, &total, [&before_row, &after_row], confidence_percent),
        selection: SelectionRow::of(selection),
        confidence_percent,
        before: before_row,
        after: after_row,
        rows: compared,
        rows_left_out: rows.len().saturating_sub(shown),
    };
    Ok(Sides { comparison, lengths, rows, verdict, cut: before.ledger.is_cut() || after.ledger.is_cut() })
}

/// The traces of both sides: as given, or perf's default names.
fn files(sides: [(&Option<PathBuf>, &Vec<PathBuf>); 2]) -> anyhow::Result<[Vec<PathBuf>; 2]> {
    let sides = sides.map(|(first, more)| first.iter().chain(more).cloned().collect::<Vec<_>>());
    match sides.each_ref().map(|side| side.is_empty()) {
        [false, false] => Ok(sides),
        [true, false] => anyhow::bail!("no trace from before the change; --before names it"),
        [false, true] => anyhow::bail!("no trace from after the change; --after names it"),
        [true, true] if DEFAULTS.iter().all(|name| Path::new(name).is_file()) => {
            say!("comparing {}", DEFAULTS.join(" with "));
            Ok(DEFAULTS.map(|name| vec![PathBuf::from(name)]))
        }
        [true, true] => anyhow::bail!("no traces named, and {} are not here", DEFAULTS.join(" and ")),
    }
}

/// One side, as it is shown.
fn row(side: &DiffSide) -> SideRow {
    let DiffSide { diff, ledger, exits, .. } = side;
    SideRow {
        traces: side.traces.iter().map(read::row).collect(),
        events: ledger.events,
        exits: *exits,
        lost: ledger.get(LedgerLine::LostRecords),
        duration_ns: side.duration.0,
        vcpu_ns: diff.vcpu_time().0,
        guest_ns: side.guest.0,
        event_kinds: EventKindsRow {
            user_space: side.tells_handlers,
            scheduler: side.tells_steal,
            all_steal: side.tells_all_steal,
            kvm_run: side.tells_runs,
            by_runner: side.by_runner,
            switches: side.tells_steal && !side.by_runner,
            sleeps: (0, 0),
        },
        lines: Coverage::of(ledger, *exits, 0).lines,
    }
}
