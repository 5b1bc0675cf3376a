//! `exitscope diff`.

use crate::cli::{CONFIDENCE, ClockArgs, DiffArgs, EventsFormat, SelectArgs};
use crate::html_output;
use crate::read;
use crate::report::Gates;
use crate::select;
use crate::terminal::terminal_style;
use crate::{Outcome, write_json};
use exitscope_analysis::{ChangeLimit, DiffRow, DiffVerdict};
use exitscope_model::LedgerLine;
use exitscope_page::{ResultPage, SideLengths, write_result_data, write_result_page};
use exitscope_pipeline::{DiffSide, read_side};
use exitscope_trace::{EventFilter, Input};
use exitscope_view::{
    Comparison, Coverage, DiffVerdictRow, EventKindsRow, ReasonComparison, SelectionRow, SideRow, comparison_page,
    write_page,
};
use std::io::Write;
use std::path::{Path, PathBuf};

/// What is compared where nothing is named, as with `perf diff`.
const DEFAULTS: [&str; 2] = ["perf.data.old", "perf.data"];

pub fn run(args: &DiffArgs, out: &mut dyn Write) -> anyhow::Result<Outcome> {
    let [before, after] = files(args)?;
    if let Some(to) = &args.html {
        html_output::check(to, &[before.as_slice(), &after].concat())?;
    }
    let top = args.top.unwrap_or(usize::MAX);
    let inputs = [read::open(&before, &args.select.clock)?, read::open(&after, &args.select.clock)?];
    let all = all_inputs(&inputs)?;
    select::check_limits(args.fail_on.iter().filter_map(ChangeLimit::reason), &args.select, &all)?;
    let Sides { comparison, lengths, rows, verdict, cut } = compare(inputs, &args.select, args.confidence, top)?;
    let gates = Gates::of(args.fail_on.iter().map(|limit| limit.check(&rows, cut, &verdict)));
    if let Some(to) = &args.html {
        html_output::write(to, |out| write_result_page(&ResultPage::Diff { diff: &comparison, lengths }, out))?;
        return Ok(gates.outcome());
    }
    match args.format {
        EventsFormat::Json => write_json(&comparison, out)?,
        EventsFormat::Text => write_page(&comparison_page(&comparison, args.top.is_none()), terminal_style(), out)?,
    }
    Ok(gates.outcome())
}

/// What the page of two traces shows, packed.
pub fn data(before: Input, after: Input, clock: ClockArgs) -> anyhow::Result<Vec<u8>> {
    let select = SelectArgs { clock, ..SelectArgs::default() };
    let inputs = [vec![before], vec![after]];
    let Sides { comparison, lengths, .. } = compare(inputs, &select, CONFIDENCE, usize::MAX)?;
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

/// Compares the traces of both sides; shows at most `top` reasons.
fn compare(inputs: [Vec<Input>; 2], select: &SelectArgs, confidence: f64, top: usize) -> anyhow::Result<Sides> {
    // A VM of one side need not be on the other, where a process has another number.
    let selection = select::selection(select, &all_inputs(&inputs)?)?;
    let [before, after] = inputs;
    let options = read::options(&select.clock, EventFilter::Used, &selection);
    let (before, after) = (read_side(&before, &selection, options)?, read_side(&after, &selection, options)?);
    let per_10_000 = (confidence * 100.0).round() as u64;
    let rows = after.diff.against(&before.diff, per_10_000);
    let total = after.diff.total_against(&before.diff, per_10_000);
    // All reasons together are a row besides.
    let shown = top.saturating_add(1);
    let of = |row: &DiffRow| SideLengths::of(row, &before.diff, &after.diff);
    let lengths = rows.iter().take(shown).map(of).collect();
    let [before_row, after_row] = [&before, &after].map(row);
    let verdict = DiffVerdict::of(&total, &rows, [&before_row.compared(), &after_row.compared()]);
    let mut compared = ReasonComparison::all(&rows, &|change| verdict.of_change(change));
    compared.truncate(shown);
    let comparison = Comparison {
        schema: Comparison::SCHEMA,
        verdict: DiffVerdictRow::of(&verdict, &total, [&before_row, &after_row], confidence),
        selection: SelectionRow::of(&selection),
        confidence_percent: confidence,
        before: before_row,
        after: after_row,
        rows: compared,
        rows_left_out: rows.len().saturating_sub(shown),
    };
    Ok(Sides { comparison, lengths, rows, verdict, cut: before.ledger.is_cut() || after.ledger.is_cut() })
}

/// The traces of both sides, opened once more.
fn all_inputs(sides: &[Vec<Input>; 2]) -> anyhow::Result<Vec<Input>> {
    Ok(sides.iter().flatten().map(Input::try_clone).collect::<Result<_, _>>()?)
}

/// The traces of both sides: as given, or perf's default names.
fn files(args: &DiffArgs) -> anyhow::Result<[Vec<PathBuf>; 2]> {
    let given = |first: &Option<PathBuf>, more: &[PathBuf]| first.iter().chain(more).cloned().collect::<Vec<_>>();
    let sides = [given(&args.a, &args.before), given(&args.b, &args.after)];
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
