//! The sections of tables of exits that other tools made: what costs most, what is not known, and what to record.

use crate::exit_tables::{
    CostliestRow, ExitTableComparison, ExitTableReport, HaltsWithinRow, TableChangeRow, TableRow, tool,
};
use crate::names::{plural, rate, share, thousands};
use crate::page::{PageSection, Sentence, Table, column, length, plain};
use exitscope_model::{EXIT_EVENT, ExitTableSource};
use exitscope_units::Nanos;

/// A table, and what it comes to.
pub(crate) fn exit_table(report: &ExitTableReport) -> PageSection {
    let mut of = report.of.as_ref().map_or(String::new(), |of| format!(", {of}"));
    if let Some(row) = report.rows.first().filter(|row| row.key.is_some() && row.event != EXIT_EVENT) {
        of = format!("{of}: {}", row.event);
    }
    let mut notes = Vec::new();
    if report.rows.iter().any(|row| row.time_ns.is_some()) {
        notes.push(
            "times are from exit to entry: where the host ran other threads meanwhile, waits for a CPU are in them"
                .to_string(),
        );
    }
    if report.source == ExitTableSource::Counters.id() {
        notes.push("counts are since the vCPUs were made, unless somebody has cleared them".to_string());
    }
    PageSection {
        title: format!("Exits, as counted by {}{of}", report.tool()),
        sentences: said(report),
        table: (!report.rows.is_empty()).then(|| table(report)),
        notes,
        say_hidden: true,
    }
}

/// What a table comes to, the answer first.
fn said(report: &ExitTableReport) -> Vec<Sentence> {
    let mut said = Vec::new();
    said.extend(report.costliest.as_ref().map(|of| plain(costliest(of, report))));
    if report.rows.is_empty() {
        said.push(plain(format!(
            "{} found no exit that an entry follows: no guest ran, or its kvm_exit and kvm_entry were not recorded",
            report.tool()
        )));
    }
    said.extend(report.halted.map(|part| {
        let names = report.halts.join(", ");
        plain(format!(
            "Halts ({names}) are {} of the time of all exits: guests sleep in them; how much of that is wake-up latency or polling is not recorded",
            share(part)
        ))
    }));
    said.extend(report.exits_at_most.map(|part| plain(exits_at_most(part))));
    said.extend(report.not_in_rows.map(|part| plain(not_in_rows(part, report))));
    said.extend(report.user_exits.zip(report.exits).map(|(count, of)| plain(user_exits(count, of, report))));
    said.extend(report.halts_within.as_ref().map(|HaltsWithinRow { reason, by }| {
        plain(format!("Guests halt by {by}, which is within {reason}: how much of its time they sleep is not recorded"))
    }));
    said.extend(report.unknown_reasons.map(|id| {
        let text = match id {
            "numbered" => "Reasons are numbers, which processors do not share: halts are taken to be 12 (Intel), 120 and 166 (AMD)",
            "software" => "Reasons from 65536 on are of a back end in software, and of no hardware: not judged",
            _ => "Reasons that the tool has no name for are not judged",
        };
        plain(text.to_string())
    }));
    said.extend(report.lost.filter(|lost| *lost > 0).map(|lost| Sentence {
        text: format!(
            "{} lost at least {} {}: counts are too low",
            report.tool(),
            thousands(lost),
            plural(lost, "event")
        ),
        warning: true,
    }));
    said.push(plain(format!("Not recorded: {}", report.not_recorded.join("; "))));
    said.push(plain(format!(
        "Record next: {}; it tells {}, and how much of the vCPUs' time that takes",
        report.next.command, report.next.tells
    )));
    said
}

/// The bound. It is of all of the vCPUs' time: of that without halts nothing is known.
fn exits_at_most(part: f64) -> String {
    // Rounded to one digit, a bound must not become less.
    let part = share(((part * 1_000.0).ceil() / 1_000.0).min(1.0));
    format!(
        "Exits but halts take at most {part} of the vCPUs' time, if no event was lost: the table lacks how long guests ran, which makes it less"
    )
}

/// What rows lack, and with that, whether one of them is known to be the first.
fn not_in_rows(part: f64, report: &ExitTableReport) -> String {
    let is_timed = report.rows.iter().any(|row| row.time_ns.is_some());
    let (of, most) = if is_timed { ("of the time is", "costs most") } else { ("of the exits are", "comes most often") };
    let unknown = if report.costliest.is_some() { "" } else { ": which reason {} is not known" };
    format!("{} {of} in no row of the text{}", share(part), unknown.replace("{}", most))
}

fn user_exits(count: u64, of: u64, report: &ExitTableReport) -> String {
    let part = share(count as f64 / of.max(1) as f64);
    let (about, why) = match report.user_exits_exact == Some(true) {
        true => ("", ""),
        false => ("About ", ": kvm_fpu comes twice for each return to it"),
    };
    format!("{about}{} of {} exits ({part}) went on in user space{why}", thousands(count), thousands(of))
}

fn costliest(of: &CostliestRow, report: &ExitTableReport) -> String {
    let name = &of.reason;
    let often = of.per_s.map_or(String::new(), |per_s| format!(", {} a second", rate(per_s)));
    let Some(time) = of.time_ns else {
        let exits =
            report.exits.map_or(String::new(), |exits| format!(", {} of {} exits", share(of.part), thousands(exits)));
        return format!("{}: {name}{exits}{often}", first(of, "Comes most often", "Most often"));
    };
    let longest = of.longest_ns.map_or(String::new(), |longest| format!(", the longest {}", Nanos(longest)));
    // A table of accesses has no exits.
    let is_of_exits = report.rows.iter().any(|row| row.event == EXIT_EVENT);
    let (of_all, noun) = if is_of_exits { ("exits", "exit") } else { ("these events", "event") };
    let rest = if report.halted.is_some() { " but halts" } else { "" };
    format!(
        "{}: {name}, {} of the time of {of_all}{rest}: {} for {} {}{often}, {} each on average{longest}",
        first(of, "Costs most", "Costliest"),
        share(of.part),
        Nanos(time),
        thousands(of.count),
        plural(of.count, noun),
        Nanos(time / of.count.max(1)),
    )
}

/// How a reason is said to be the first: of all, or of the rows of a text that may lack some.
fn first(of: &CostliestRow, whole: &str, rows: &str) -> String {
    if of.of_rows_alone { format!("{rows} of the rows in the text") } else { whole.to_string() }
}

fn table(report: &ExitTableReport) -> Table {
    let has = |of: fn(&TableRow) -> bool| report.rows.iter().any(of);
    let (is_timed, has_rates, has_longest) =
        (has(|row| row.time_ns.is_some()), has(|row| row.per_s.is_some()), has(|row| row.longest_ns.is_some()));
    let has_whole_events = has(|row| row.key.is_none());
    let all: u64 = report.rows.iter().filter_map(TableRow::middle).fold(0, |sum, time| sum.saturating_add(time.0));
    let mut columns = vec![column("", true, 0), column("count", false, 0)];
    columns.extend(has_rates.then(|| column("a second", false, 0)));
    columns.extend(is_timed.then(|| column("time", false, 0)));
    columns.extend(is_timed.then(|| column("of all time", false, 1)));
    columns.extend(is_timed.then(|| column("mean", false, 0)));
    columns.extend(has_longest.then(|| column("longest", false, 1)));
    let time = |time: Option<Nanos>| length(time.map(|time| time.0));
    let cells = |row: &TableRow| {
        let mut cells = vec![name(&row.event, row.key.as_ref(), has_whole_events), thousands(row.count)];
        cells.extend(has_rates.then(|| row.per_s.map_or("-".to_string(), rate)));
        cells.extend(is_timed.then(|| time(row.middle())));
        let part = row.middle().map_or("-".to_string(), |time| share(time.0 as f64 / all.max(1) as f64));
        cells.extend(is_timed.then_some(part));
        cells.extend(is_timed.then(|| time(row.mean())));
        cells.extend(has_longest.then(|| time(row.longest_ns.map(Nanos))));
        cells
    };
    Table { columns, rows: report.rows.iter().map(cells).collect() }
}

/// What a row is called, in a table that has rows of whole events, too.
fn name(event: &str, key: Option<&String>, has_whole_events: bool) -> String {
    match key {
        Some(key) if has_whole_events => format!("{event}({key})"),
        Some(key) => key.clone(),
        None => event.to_string(),
    }
}

/// A table on both sides.
pub(crate) fn exit_table_changes(of: &ExitTableComparison) -> PageSection {
    let has = |has: fn(&TableRow) -> bool| of.rows.iter().flat_map(|row| [&row.before, &row.after]).flatten().any(has);
    let (is_timed, has_rates) = (has(|row| row.time_ns.is_some()), has(|row| row.per_s.is_some()));
    let has_whole_events = has(|row| row.key.is_none());
    let mut columns = vec![column("", true, 0), column("count before", false, 0), column("after", false, 0)];
    if has_rates {
        columns.extend([column("a second before", false, 0), column("after", false, 0)]);
    }
    if is_timed {
        columns.extend([column("mean before", false, 0), column("after", false, 0), column("change", false, 0)]);
    }
    let count = |row: &Option<TableRow>| row.as_ref().map_or("-".to_string(), |row| thousands(row.count));
    let per_s = |row: &Option<TableRow>| row.as_ref().and_then(|row| row.per_s).map_or("-".to_string(), rate);
    let cells = |row: &TableChangeRow| {
        let sides = [&row.before, &row.after];
        let mut cells = vec![name(&row.event, row.key.as_ref(), has_whole_events)];
        cells.extend(sides.map(count));
        if has_rates {
            cells.extend(sides.map(per_s));
        }
        if is_timed {
            let means = sides.map(|row| row.as_ref().and_then(TableRow::mean));
            cells.extend(means.map(|mean| length(mean.map(|mean| mean.0))));
            let change = means[0].zip(means[1]).filter(|(before, _)| before.0 > 0);
            cells.push(change.map_or("-".to_string(), |(before, after)| {
                format!("{:+.1}%", (after.0 as f64 / before.0 as f64 - 1.0) * 100.0)
            }));
        }
        cells
    };
    let whose = |of: &String| if of.is_empty() { "not said" } else { of }.to_string();
    PageSection {
        title: format!("Exits, as counted by {}", tool(of.source)),
        sentences: vec![plain(format!("whose, before: {}; after: {}", whose(&of.of.before), whose(&of.of.after)))],
        table: Some(Table { columns, rows: of.rows.iter().map(cells).collect() }),
        notes: vec!["counts differ with how long was counted; rates and means do not".to_string()],
        ..PageSection::default()
    }
}
