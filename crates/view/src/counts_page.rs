//! The pages of counts: what was counted, what rules say of it, what changed.

use crate::counts::{
    ComparedRow, CountChangeRow, CountRow, CountsAdviceRow, CountsComparison, CountsReport, CountsRow, SystemChangeRow,
};
use crate::exit_tables::tool;
use crate::exit_tables_page::{exit_table, exit_table_changes};
use crate::names::{plural, rate, share, thousands};
use crate::operation_costs::{VMEXIT, operation_changes, operation_costs};
use crate::page::{Page, PageSection, Sentence, Table, column, more_in_json, plain};
use crate::report::CoverageLine;
use exitscope_model::CountSource;
use exitscope_units::Nanos;

/// Systems and intervals that are shown.
const MOST: usize = 12;

/// Why no setting is advised by a table of exits.
const NO_SETTING: &str =
    "No setting is advised by a table of exits: it does not say what the exits are about, as a recording does";

/// Why no setting is advised by what operations take.
const NO_SETTING_OF_CYCLES: &str =
    "No setting is advised by cycles an operation: they do not say how often a guest does it, as a recording does";

/// Why nothing is advised of a text without counts of yields.
fn no_setting(report: &CountsReport) -> String {
    let why = if report.tables.is_empty() { NO_SETTING_OF_CYCLES } else { NO_SETTING };
    why.to_string()
}

/// Tables of exits; which one it is, of several that are called the same.
fn exit_tables(report: &CountsReport) -> Vec<PageSection> {
    let mut sections: Vec<PageSection> = report.tables.iter().take(MOST).map(exit_table).collect();
    let titles: Vec<String> = sections.iter().map(|section| section.title.clone()).collect();
    for (at, section) in sections.iter_mut().enumerate() {
        let same = |titles: &[String]| titles.iter().filter(|title| **title == section.title).count();
        if let (number, all @ 2..) = (same(&titles[..=at]), same(&titles)) {
            section.title += &format!(", {number} of {all}");
        }
    }
    sections
}

/// The page of `report` and of `--view yield`.
pub fn counts_page(report: &CountsReport) -> Page {
    let mut sections = vec![head("Coverage", report)];
    sections.extend(exit_tables(report));
    sections.extend(report.operations.iter().take(MOST).map(operation_costs));
    sections.extend(report.counts.iter().take(MOST).map(counted));
    let lengths = [report.counts.len(), report.tables.len(), report.operations.len()];
    let hidden = lengths.into_iter().map(|length| length.saturating_sub(MOST)).sum();
    let advice = report.advice.len();
    let mut last = PageSection { title: "Advice".into(), ..PageSection::default() };
    last.sentences.extend(more_in_json(hidden).map(plain));
    last.sentences.push(plain(match advice {
        0 if report.counts.is_empty() => no_setting(report),
        0 => "No advice; what is not judged of these counts: `exitscope advise`".to_string(),
        _ => format!("{} to do: `exitscope advise`", thousands(advice as u64) + " " + &plural(advice as u64, "thing")),
    }));
    sections.push(last);
    Page { sections }
}

/// The page of `advise`.
pub fn counts_advice_page(report: &CountsReport) -> Page {
    let mut sections = vec![head("Advice", report)];
    if report.counts.is_empty() {
        sections[0].sentences.push(plain(no_setting(report)));
    } else if report.advice.is_empty() {
        let text = "No advice: no count meets a rule's condition (docs/counts.md).".to_string();
        sections[0].sentences.push(plain(text));
    }
    sections.extend(report.advice.iter().map(|row| advice(row, report)));
    sections.extend(exit_tables(report));
    sections.extend(report.operations.iter().take(MOST).map(operation_costs));
    let whose = |of: usize| report.counts.get(of - 1).map_or(String::new(), title);
    let accepted = report.accepted.iter();
    let accepted: Vec<Sentence> = accepted
        .map(|row| plain(format!("{}: {}, {}: {}", whose(row.of), row.fact.what, row.fact.text, row.why)))
        .collect();
    if !accepted.is_empty() {
        sections.push(PageSection { title: "Accepted".into(), sentences: accepted, ..PageSection::default() });
    }
    let not_judged: Vec<Sentence> = report
        .not_judged
        .iter()
        .map(|row| {
            let of: Vec<String> = match row.of.len() == report.counts.len() {
                true => Vec::new(),
                false => row.of.iter().map(|of| format!(" of {}", whose(*of))).collect(),
            };
            plain(format!("{}{}: {}", row.what, of.join(" and"), row.why))
        })
        .collect();
    if !not_judged.is_empty() {
        sections.push(PageSection { title: "Not judged".into(), sentences: not_judged, ..PageSection::default() });
    }
    Page { sections }
}

/// What was read, and what of it was not used.
fn head(heading: &str, report: &CountsReport) -> PageSection {
    let (intervals, tables) = (report.counts.len() as u64, report.tables.len() as u64);
    let mut texts = Vec::new();
    if tables > 0 {
        let table = plural(tables, "table");
        texts.push(format!(
            "{} {table} of exits, not events: a figure that the text lacks is unknown, not zero",
            thousands(tables)
        ));
    }
    let runs = report.operations.len() as u64;
    if runs > 0 {
        let run = plural(runs, "run");
        texts.push(format!("{} {run} of {VMEXIT}: cycles an operation, neither counts nor events", thousands(runs)));
    }
    if intervals > 0 {
        texts.push(format!(
            "{} {} of counts, not events: they do not show which vCPU yielded, how long that took, or what exits cost",
            thousands(intervals),
            plural(intervals, "set")
        ));
    }
    let mut sentences: Vec<Sentence> = Vec::new();
    sentences.push(plain(format!("{}: {}", report.files.join(", "), texts.join("; "))));
    sentences.extend(report.coverage.iter().filter(|line| is_damage(line)).map(warning));
    PageSection {
        title: heading.to_string(),
        sentences,
        notes: report.coverage.iter().filter(|line| !is_damage(line)).map(ToString::to_string).collect(),
        ..PageSection::default()
    }
}

fn is_damage(line: &CoverageLine) -> bool {
    matches!(line.severity, "loss" | "error")
}

fn warning(line: &CoverageLine) -> Sentence {
    Sentence { text: line.to_string(), warning: true }
}

/// Who counted what, when.
fn title(row: &CountsRow) -> String {
    let source = CountSource::ALL.into_iter().find(|source| source.id() == row.source);
    let span = row.span_ns.map(|span| Nanos(span).to_string());
    let when = match (&row.interval, span) {
        (Some(interval), Some(span)) => Some(format!("{interval} ({span})")),
        (Some(interval), None) => Some(interval.clone()),
        (None, Some(span)) => Some(span),
        (None, None) if row.since_start => Some("since the start".to_string()),
        (None, None) => Some("interval unknown".to_string()),
    };
    let words = [source.map(|source| source.name().to_string()), row.system.clone(), when];
    words.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

fn per_s(rate_per_s: Option<f64>) -> String {
    rate_per_s.map_or("-".to_string(), small_rate)
}

/// A rate with a decimal where it is small, as the screens have it.
fn small_rate(per_s: f64) -> String {
    if per_s > 0.0 && per_s < 99.95 { format!("{per_s:.1}") } else { rate(per_s) }
}

fn counted(row: &CountsRow) -> PageSection {
    let columns = vec![
        column("yields", true, 0),
        column("count", false, 0),
        column("a second", false, 0),
        column("called there", true, 1),
    ];
    let cells =
        |row: &CountRow| vec![row.what.to_string(), thousands(row.count), per_s(row.per_s), row.printed.to_string()];
    PageSection {
        title: format!("Yields, as counted: {}", title(row)),
        sentences: shares(row).into_iter().map(plain).collect(),
        table: Some(Table { columns, rows: row.counts.iter().map(cells).collect() }),
        notes: notes(row),
        say_hidden: true,
    }
}

/// What parts are of each other, as far as both are counted.
fn shares(row: &CountsRow) -> Vec<String> {
    let part = |part: Option<f64>, text: &str| part.map(|of| format!("{} {text}", share(of)));
    let mut shares = Vec::new();
    shares.extend(part(row.named_share, "of the yields name a vCPU (X'9C')"));
    shares.extend(part(row.fast_share, "of X'44' are on the fast path"));
    shares.extend(part(row.ignored_share, "of X'9C' were ignored"));
    shares.extend(row.spin_retry.map(|looks| format!("kernel.spin_retry is {}", thousands(looks))));
    shares
}

fn notes(row: &CountsRow) -> Vec<String> {
    let text = match row.source {
        "fcx102" => {
            "counts of all guests together. FCX102 has only a part of X'44' and X'9C', and no queues of virtual processors (PLDV); \
             FCX104 and FCX144 have the rest, but exitscope cannot read them"
        }
        "kvm_stats" => {
            "counts of all vCPUs of the VM, or of all VMs where the text names none; ignored: X'9C' that named a vCPU already on a CPU, \
             a vCPU that cannot run on this CPU, the caller itself, or no vCPU"
        }
        _ => {
            "calls that this kernel made, whatever the hypervisor did about them; drivers that wait briefly issue X'44', too"
        }
    };
    let mut notes = vec![text.to_string()];
    if !row.missing.is_empty() {
        notes.push(format!("not in the text, which is not zero: {}", row.missing.join(", ")));
    }
    notes.extend(row.since_start.then(|| {
        "one reading counts from a start on, so that no rate is known: read twice, with the moment before each (docs/counts.md)"
            .to_string()
    }));
    notes
}

fn advice(row: &CountsAdviceRow, report: &CountsReport) -> PageSection {
    let whose = report.counts.get(row.of - 1).map_or(String::new(), title);
    let mut sentences = vec![plain(row.change.clone()), plain(format!("Gain: {}", row.gain))];
    sentences.extend(row.settings.iter().map(|setting| plain(format!("- {}", setting.text))));
    let evidence: Vec<String> = row.evidence.iter().map(|fact| format!("{}: {}", fact.what, fact.text)).collect();
    sentences.push(plain(format!("Evidence: {}", evidence.join("; "))));
    sentences.push(plain(format!("Takes effect: {}", row.takes_effect)));
    sentences.push(plain(format!("Risk: {}", row.risk)));
    sentences.push(plain(format!("Who pays: {}", row.who_pays)));
    sentences.push(plain(format!("Undo: {}", row.undo)));
    PageSection { title: format!("{}. For {whose}", row.number), sentences, ..PageSection::default() }
}

/// The page of `diff`.
pub fn counts_comparison_page(comparison: &CountsComparison) -> Page {
    let (files, coverage) = (&comparison.files, &comparison.coverage);
    let mut sentences = vec![
        plain(format!("Before: {}", files.before.join(", "))),
        plain(format!("After: {}", files.after.join(", "))),
        plain(
            "Counts, not events: they do not show how much these rates vary without any change, so no change is judged."
                .to_string(),
        ),
    ];
    let lines = || coverage.before.iter().chain(&coverage.after);
    sentences.extend(lines().filter(|line| is_damage(line)).map(warning));
    let notes = lines().filter(|line| !is_damage(line)).map(ToString::to_string).collect();
    let mut sections = vec![PageSection { title: "Comparison".into(), sentences, notes, ..PageSection::default() }];
    sections.extend(comparison.tables.iter().take(MOST).map(exit_table_changes));
    sections.extend(comparison.operations.iter().take(MOST).map(operation_changes));
    sections.extend(comparison.systems.iter().take(MOST).map(changed));
    let whose = |source: &str, system: &Option<String>| {
        let source = CountSource::ALL.into_iter().find(|known| known.id() == source).map_or("", CountSource::name);
        system.as_ref().map_or(source.to_string(), |system| format!("{source}, {system}"))
    };
    let mut others: Vec<Sentence> = comparison
        .not_compared
        .iter()
        .map(|row| plain(format!("{}: {}", whose(row.source, &row.system), row.why)))
        .collect();
    others.extend(
        comparison
            .tables_not_compared
            .iter()
            .map(|id| plain(format!("a table of {}: it is on one side alone", tool(id)))),
    );
    let runs = comparison.operations_not_compared as u64;
    if runs > 0 {
        others.push(plain(format!("{} {} of {VMEXIT}: on one side alone", thousands(runs), plural(runs, "run"))));
    }
    if !others.is_empty() {
        sections.push(PageSection { title: "Not compared".into(), sentences: others, ..PageSection::default() });
    }
    Page { sections }
}

fn changed(row: &SystemChangeRow) -> PageSection {
    let columns = vec![
        column("yields a second", true, 0),
        column("before", false, 0),
        column("after", false, 0),
        column("change", false, 0),
    ];
    let cells = |row: &CountChangeRow| {
        let change = row.change.map_or("-".to_string(), |change| {
            format!("{:+.1}%", change * 100.0).replace("+0.0%", "0.0%").replace("-0.0%", "0.0%")
        });
        vec![row.what.to_string(), small_rate(row.before_per_s), small_rate(row.after_per_s), change]
    };
    let mut table: Vec<Vec<String>> = row.changes.iter().map(cells).collect();
    let sides = &row.sides;
    let part = |what: &str, of: fn(&CountsRow) -> Option<f64>| {
        let (before, after) = (of(&sides.before.counts)?, of(&sides.after.counts)?);
        Some(vec![what.to_string(), share(before), share(after), format!("{:+.1} points", (after - before) * 100.0)])
    };
    table.extend(part("part that names a vCPU", |of| of.named_share));
    table.extend(part("share of X'44' on the fast path", |of| of.fast_share));
    table.extend(part("share of X'9C' that was ignored", |of| of.ignored_share));
    let compared = |side: &ComparedRow| match (side.intervals, side.longest_alone) {
        (1, _) => title(&side.counts),
        (intervals, true) => format!("{}, the longest of {intervals} that overlap", title(&side.counts)),
        (intervals, false) => format!("{}, {intervals} intervals together", title(&side.counts)),
    };
    PageSection {
        title: "Yields, as counted".to_string(),
        sentences: vec![
            plain(format!("before: {}", compared(&sides.before))),
            plain(format!("after: {}", compared(&sides.after))),
        ],
        table: Some(Table { columns, rows: table }),
        ..PageSection::default()
    }
}
