//! How what the lab found becomes a page, a comparison with an earlier run, CSV, and lines for benchstat.

use crate::FigureUnit;
use crate::lab::{LabFigure, LabReport, LabRow, LabTable, ManifestRow};
use crate::names::{rate, share, thousands};
use crate::page::{Page, PageSection, Sentence, Table, column, plain};
use exitscope_analysis::FEWEST_RECORDINGS;
use exitscope_scenario::findings::{HIDDEN_BOUND, NOT_MEASURABLE, counted};
use exitscope_stats::Estimate;
use exitscope_units::Nanos;
use std::io::{self, Write};

/// The page of an experiment.
pub fn lab_page(report: &LabReport) -> Page {
    let mut sections = vec![report.headline().section(), head(report)];
    sections.extend(report.tables.iter().map(section));
    Page { sections }
}

/// The page of an experiment beside earlier runs of it: every figure that has rounds.
pub fn lab_comparison_page(before: &[LabReport], after: &LabReport) -> Page {
    let mut head = head(after);
    let runs =
        if let [_] = before { "an earlier run".to_string() } else { counted(before.len() as u64, "earlier run") };
    head.title = format!("Lab: {}, against {runs}", after.experiment);
    for (at, was) in before.iter().map(|run| &run.manifest).enumerate() {
        let by = if was.tsc_hz == 0 {
            measured_on(was)
        } else {
            format!("kernel {}, back end {}", was.kernel, was.back_end)
        };
        head.sentences.insert(1 + at, plain(format!("Before: {by}")));
    }
    let other = |was: &ManifestRow| was.vendor != after.manifest.vendor || was.back_end != after.manifest.back_end;
    if before.iter().any(|run| other(&run.manifest)) {
        let text =
            "the runs are from different machines or back ends, which alone may explain the differences".to_string();
        head.sentences.push(Sentence { text, warning: true });
    }
    head.sentences.extend(after.warnings.iter().map(|text| Sentence { text: text.clone(), warning: true }));
    let compared: Vec<Vec<ComparedFigure>> = after.tables.iter().map(|table| compared_figures(before, table)).collect();
    let is_judged = before.len() >= FEWEST_RECORDINGS;
    let mut sections = vec![against(&compared.concat(), is_judged), head];
    let tables = after.tables.iter().zip(&compared);
    sections.extend(tables.map(|(table, figures)| compared_section(table, figures, is_judged)));
    Page { sections }
}

/// A figure of this run beside that of earlier ones.
#[derive(Clone)]
struct ComparedFigure {
    labels: Vec<String>,
    name: String,
    unit: FigureUnit,
    /// The mean of the earlier runs that have it.
    before: Option<f64>,
    after: f64,
    verdict: FigureVerdict,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum FigureVerdict {
    More,
    Less,
    /// Within what one more run like the earlier ones would be in.
    Alike,
    /// Too few earlier runs have the figure.
    NotJudged,
}

impl FigureVerdict {
    /// Of a run against earlier ones. Rounds of one run share its guests, its memory and its moment: how much they vary says
    /// nothing of the next run, so that only runs are counted.
    fn of(earlier: &[f64], after: f64) -> FigureVerdict {
        match Estimate::next_within(earlier) {
            Some((_, high)) if after > high => FigureVerdict::More,
            Some((low, _)) if after < low => FigureVerdict::Less,
            Some(_) => FigureVerdict::Alike,
            None => FigureVerdict::NotJudged,
        }
    }

    fn name(self) -> &'static str {
        match self {
            FigureVerdict::More => "more",
            FigureVerdict::Less => "less",
            FigureVerdict::Alike => "",
            FigureVerdict::NotJudged => "not judged",
        }
    }
}

impl ComparedFigure {
    /// After as a part more than before. No part of nothing, nor of what is below zero because measuring was subtracted.
    fn change(&self) -> Option<f64> {
        self.before.filter(|&before| before > 0.0).map(|before| self.after / before - 1.0)
    }

    fn before_text(&self) -> String {
        self.before.map_or("-".to_string(), |before| quantity(self.unit, before))
    }

    fn change_text(&self) -> String {
        self.change().map_or("-".to_string(), |change| format!("{:+.1}%", change * 100.0))
    }
}

/// Every figure of the table that has rounds, beside those of earlier runs.
fn compared_figures(before: &[LabReport], table: &LabTable) -> Vec<ComparedFigure> {
    let of_row = |row: &LabRow| {
        let old: Vec<_> = before.iter().filter_map(|run| run.row(&table.title, &row.labels)).collect();
        let having_rounds = row.figures.iter().filter(|figure| !figure.rounds.is_empty());
        let compared = having_rounds.map(|figure| {
            let was = old.iter().filter_map(|old| old.figures.iter().find(|was| was.name == figure.name));
            let earlier: Vec<f64> = was.map(|was| was.value).collect();
            ComparedFigure {
                labels: row.labels.clone(),
                name: figure.name.clone(),
                unit: figure.unit,
                before: Estimate::of(&earlier).map(|was| was.mean),
                after: figure.value,
                verdict: FigureVerdict::of(&earlier, figure.value),
            }
        });
        compared.collect::<Vec<_>>()
    };
    table.rows.iter().flat_map(of_row).collect()
}

/// What all figures of a comparison come to.
fn against(figures: &[ComparedFigure], is_judged: bool) -> PageSection {
    let size = |figure: &&ComparedFigure| figure.change().unwrap_or(0.0).abs();
    let largest = |among: &mut dyn Iterator<Item = &ComparedFigure>| {
        let figure = among.max_by(|a, b| size(a).total_cmp(&size(b)))?;
        let (labels, name, before) = (figure.labels.join(", "), &figure.name, figure.before_text());
        let after = quantity(figure.unit, figure.after);
        Some(format!("largest change: {labels}, {name} {before} → {after} ({})", figure.change_text()))
    };
    if !is_judged {
        return PageSection {
            title: "Sizes only, no verdict: one earlier run does not show how much runs vary without any change"
                .to_string(),
            sentences: largest(&mut figures.iter().filter(|figure| figure.change().is_some()))
                .into_iter()
                .chain([format!("a verdict needs {FEWEST_RECORDINGS} earlier runs or more (--against for each)")])
                .map(plain)
                .collect(),
            ..PageSection::default()
        };
    }
    let judged = figures.iter().filter(|figure| figure.verdict != FigureVerdict::NotJudged).count();
    let is_outside = |figure: &&ComparedFigure| matches!(figure.verdict, FigureVerdict::More | FigureVerdict::Less);
    let outside = figures.iter().filter(is_outside).count();
    let of = counted(judged as u64, "figure");
    let title = match (judged, largest(&mut figures.iter().filter(is_outside))) {
        (0, _) => format!("Doubtful: no figure is in {FEWEST_RECORDINGS} earlier runs"),
        (_, None) => format!("No clear difference in {of}"),
        (_, Some(largest)) => format!(
            "{} of {of} {} outside what the earlier runs predict; chance alone puts {} there; the {largest}",
            thousands(outside as u64),
            if outside == 1 { "is" } else { "are" },
            by_chance(judged)
        ),
    };
    PageSection { title, ..PageSection::default() }
}

/// How many figures chance puts outside if nothing changed.
fn by_chance(judged: usize) -> String {
    match judged as f64 * (1.0 - Estimate::CONFIDENCE / 100.0) {
        few if few < 1.0 => "fewer than 1".to_string(),
        some => format!("about {}", thousands(some.round() as u64)),
    }
}

/// The machine and the settings of a run; of another program's output, which has neither, that program.
fn measured_on(m: &ManifestRow) -> String {
    if m.tsc_hz == 0 {
        return format!("By {}, {}", m.back_end, counted(m.rounds.into(), "run"));
    }
    format!(
        "Back end {} on {}, kernel {}; {}, clock {:.3} GHz; {}, {} for each row{}",
        m.back_end,
        m.vendor,
        m.kernel,
        counted(m.cpus as u64, "CPU"),
        m.tsc_hz as f64 / 1e9,
        counted(m.rounds.into(), "round"),
        Nanos(m.duration_ns),
        if m.pinned { ", each vCPU pinned to its own CPU if there are enough" } else { "" }
    )
}

fn head(report: &LabReport) -> PageSection {
    let sentences = vec![plain(report.description.clone()), plain(measured_on(&report.manifest))];
    PageSection { title: format!("Lab: {}", report.experiment), sentences, ..PageSection::default() }
}

/// The names of all figures of a table, in the order in which they first appear; those that are open in every row come last.
fn figure_names(table: &LabTable) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    let shown = table.rows.iter().flat_map(|row| row.figures.iter().map(|figure| &figure.name));
    let open = table.rows.iter().flat_map(|row| &row.not_measurable);
    for name in shown.chain(open) {
        if !names.contains(&name.as_str()) {
            names.push(name);
        }
    }
    names
}

/// Ranks from which the ± of other figures than the main one leave a narrow page, and spreads and counts of samples.
const MARGINS: u8 = 100;
const SPREADS: u8 = 200;

fn section(table: &LabTable) -> PageSection {
    let names = figure_names(table);
    let mut columns: Vec<_> = table.labels.iter().map(|label| column(label.clone(), true, 0)).collect();
    // On a narrow page the main figure, which is the first, keeps its ± longest; of the others the last leave first.
    for (at, &name) in (0..).zip(&names) {
        let ranks = if at == 0 { [0, 1] } else { [1 + at, MARGINS + at] };
        let find = |has: fn(&LabFigure) -> bool| {
            table.rows.iter().flat_map(|row| &row.figures).any(|f| f.name == name && has(f))
        };
        columns.push(column(name.to_string(), false, ranks[0]));
        columns.push(column(if find(|figure| figure.low.is_some()) { "±" } else { "" }, false, ranks[1]));
        columns.push(column(if find(|figure| figure.p5.is_some()) { "p5 to p95" } else { "" }, false, SPREADS));
        columns.push(column(if find(|figure| figure.samples.is_some()) { "samples" } else { "" }, false, SPREADS + 1));
        columns.push(column(if find(|figure| figure.samples.is_some()) { "far out" } else { "" }, false, SPREADS + 2));
    }
    let mut notes = Vec::new();
    let rows = table.rows.iter().map(|row| {
        let mut cells = row.labels.clone();
        cells.resize(table.labels.len(), String::new());
        if let Some(why) = &row.unavailable {
            notes.push(format!("{}: {why}", row.labels.join(", ")));
        }
        for name in &names {
            match row.figures.iter().find(|figure| figure.name == *name) {
                Some(figure) => cells.extend(shown(figure)),
                None if row.unavailable.is_some() => {
                    cells.extend(["no".to_string(), String::new(), String::new(), String::new(), String::new()]);
                }
                None => {
                    let is_open = row.not_measurable.iter().any(|open| open == name);
                    let text = if is_open { NOT_MEASURABLE.to_string() } else { String::new() };
                    cells.extend([text, String::new(), String::new(), String::new(), String::new()]);
                }
            }
        }
        cells
    });
    let rows = rows.collect();
    if names.contains(&"time") && table.rows.iter().any(|row| !row.figures.is_empty()) {
        let text = "time: median; ± half of its 95 % confidence interval, from round to round; far out: samples that \
            are more than three times the width of the middle half away from it; they count like the others";
        notes.insert(0, text.to_string());
    }
    if names.contains(&HIDDEN_BOUND) {
        let text = "hidden: the part of the guest's own round trip outside the traced time from kvm_exit to \
            kvm_entry, median; bound: 95 of 100 exits are within it. Both include what tracing takes outside its \
            stamps. report --hidden reads the bounds of a run that was saved with --format json";
        notes.insert(0, text.to_string());
    }
    PageSection {
        title: table.title.clone(),
        table: Some(Table { columns, rows }),
        notes,
        say_hidden: true,
        ..PageSection::default()
    }
}

/// Value, half of the interval, spread, samples, those far out.
fn shown(figure: &LabFigure) -> [String; 5] {
    let text = |value: f64| quantity(figure.unit, value);
    [
        text(figure.value),
        figure.low.zip(figure.high).map_or(String::new(), |(low, high)| text((high - low) / 2.0)),
        figure.p5.zip(figure.p95).map_or(String::new(), |(low, high)| format!("{} to {}", text(low), text(high))),
        figure.samples.map_or(String::new(), thousands),
        figure.outliers.map_or(String::new(), thousands),
    ]
}

/// A value in its unit; negative lengths come of subtracting what measuring costs.
fn quantity(unit: FigureUnit, value: f64) -> String {
    let sign = if value < -0.5 { "-" } else { "" };
    match unit {
        FigureUnit::Ns => format!("{sign}{}", Nanos(value.abs().round() as u64)),
        FigureUnit::PerSecond => format!("{}/s", rate(value)),
        FigureUnit::Share => share(value),
        FigureUnit::Cycles => format!("{sign}{}", thousands(value.abs().round() as u64)),
        FigureUnit::Count if value.fract() == 0.0 => format!("{sign}{}", thousands(value.abs() as u64)),
        FigureUnit::Count => format!("{value:.2}"),
    }
}

fn compared_section(table: &LabTable, figures: &[ComparedFigure], is_judged: bool) -> PageSection {
    let mut columns: Vec<_> = table.labels.iter().map(|label| column(label.clone(), true, 0)).collect();
    columns.push(column("figure", true, 0));
    columns.extend(["before", "after", "change"].map(|title| column(title, false, 0)));
    columns.extend(is_judged.then(|| column("verdict", true, 0)));
    let row = |figure: &ComparedFigure| {
        let after = quantity(figure.unit, figure.after);
        let mut cells = figure.labels.clone();
        cells.extend([figure.name.clone(), figure.before_text(), after, figure.change_text()]);
        cells.extend(is_judged.then(|| figure.verdict.name().to_string()));
        cells
    };
    let rows = figures.iter().map(row).collect();
    let note = "before: the mean of the earlier runs. A figure has a verdict only outside the range in which one more \
        run would be in 95 % of cases; more earlier runs make that range narrower.";
    let notes = is_judged.then(|| note.to_string()).into_iter().collect();
    PageSection { title: table.title.clone(), table: Some(Table { columns, rows }), notes, ..PageSection::default() }
}

/// Every figure as a line: table, labels, figure, unit, value, bounds, counts, why there is none.
pub fn write_lab_csv(report: &LabReport, out: &mut dyn Write) -> io::Result<()> {
    let mut csv = csv::Writer::from_writer(out);
    csv.write_record([
        "experiment",
        "table",
        "labels",
        "figure",
        "unit",
        "value",
        "low",
        "high",
        "p5",
        "p95",
        "samples",
        "outliers",
        "unavailable",
    ])?;
    for table in &report.tables {
        for row in &table.rows {
            let labels = row.labels.join("; ");
            let start = [report.experiment.clone(), table.title.clone(), labels];
            if let Some(why) = &row.unavailable {
                let empty = [const { String::new() }; 9];
                csv.write_record(start.iter().chain(&empty).chain([why]))?;
            }
            for name in &row.not_measurable {
                let empty = [const { String::new() }; 8];
                let why = NOT_MEASURABLE.to_string();
                csv.write_record(start.iter().chain([name]).chain(&empty).chain([&why]))?;
            }
            for f in &row.figures {
                let number = |number: Option<f64>| number.map_or(String::new(), |number| number.to_string());
                let count = |count: Option<u64>| count.map_or(String::new(), |count| count.to_string());
                let rest = [
                    f.name.clone(),
                    f.unit.name().to_string(),
                    f.value.to_string(),
                    number(f.low),
                    number(f.high),
                    number(f.p5),
                    number(f.p95),
                    count(f.samples),
                    count(f.outliers),
                    String::new(),
                ];
                csv.write_record(start.iter().chain(&rest))?;
            }
        }
    }
    csv.flush()
}

/// Every figure that has rounds as lines of Go's benchmark format, which benchstat compares: one a row and round, in which
/// each figure has a unit of its own.
pub fn write_benchstat(report: &LabReport, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "goos: linux\ngoarch: amd64\npkg: exitscope/lab\ncpu: {}", report.manifest.vendor)?;
    let having_rounds = |row: &LabRow| row.figures.iter().filter(|figure| !figure.rounds.is_empty()).cloned().collect();
    let mut told: Vec<String> = Vec::new();
    for table in &report.tables {
        for row in &table.rows {
            let figures: Vec<LabFigure> = having_rounds(row);
            // benchstat takes less for better unless it is told. The first rate of a row is that of its work.
            if let Some(unit) = figures.iter().find(|figure| figure.unit == FigureUnit::PerSecond).map(benchmark_unit)
                && !told.contains(&unit)
            {
                writeln!(out, "Unit {unit} better=higher")?;
                told.push(unit);
            }
            // By keys its filters can be told: `-filter /handler:kernel`.
            let labels = table.labels.iter().zip(&row.labels);
            let labels: Vec<String> =
                labels.map(|(key, label)| format!("{}={}", word(key, '_'), word(label, '_'))).collect();
            let name = format!("Benchmark{}/{}", capital(&word(&report.experiment, '_')), word(&table.title, '_'));
            let rounds = figures.iter().map(|figure| figure.rounds.len()).max().unwrap_or(0);
            let samples = figures.iter().find_map(|figure| figure.samples).unwrap_or(0) / (rounds as u64).max(1);
            for round in 0..rounds {
                write!(out, "{name}/{} {}", labels.join("/"), samples.max(1))?;
                // A round without a figure, like the part of no polls that paid, has fewer.
                for figure in &figures {
                    if let Some(value) = figure.rounds.get(round) {
                        let value = if figure.unit == FigureUnit::Share { value * 100.0 } else { *value };
                        let decimals = if figure.unit == FigureUnit::Ns { 1 } else { 4 };
                        write!(out, " {value:.decimals$} {}", benchmark_unit(figure))?;
                    }
                }
                writeln!(out)?;
            }
        }
    }
    Ok(())
}

/// `ns/op`, `exit-to-entry-ns/op`, `locks/s`, `found-held-%`, `halts-each`.
fn benchmark_unit(figure: &LabFigure) -> String {
    let name = word(&figure.name, '-').trim_matches('-').to_string();
    match figure.unit {
        FigureUnit::Ns if name == "time" => "ns/op".to_string(),
        FigureUnit::Ns => format!("{name}-ns/op"),
        FigureUnit::PerSecond => format!("{name}/s"),
        FigureUnit::Share => format!("{name}-%"),
        FigureUnit::Cycles | FigureUnit::Count => name,
    }
}

/// The text as one word.
fn word(text: &str, other: char) -> String {
    text.chars().map(|c| if c.is_ascii_alphanumeric() || c == '.' { c } else { other }).collect()
}

fn capital(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map_or(String::new(), |first| first.to_ascii_uppercase().to_string() + letters.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::{TerminalStyle, write_page};

    fn report(rounds: &[f64]) -> LabReport {
        let time = LabFigure {
            name: "time".into(),
            unit: FigureUnit::Ns,
            value: rounds[0],
            low: Some(rounds[0] - 10.0),
            high: Some(rounds[0] + 10.0),
            p5: None,
            p95: None,
            samples: Some(30),
            outliers: Some(1),
            rounds: rounds.to_vec(),
        };
        let row = |name: &str, figures, cannot| LabRow {
            labels: vec![name.into(), "handler, 1".into()],
            figures,
            unavailable: cannot,
            not_measurable: Vec::new(),
        };
        LabReport {
            schema: LabReport::SCHEMA.into(),
            verdict: crate::headline::Headline::default(),
            experiment: "exits".into(),
            description: "About".into(),
            manifest: ManifestRow {
                back_end: "kvm_x".into(),
                emulates_ring_0: false,
                vendor: "Vendor".into(),
                cpu: String::new(),
                kernel: "1.2".into(),
                tsc_hz: 1_000_000_000,
                cpus: 2,
                pinned: true,
                kept_on: vec![vec![0], vec![1]],
                clock: "time stamp counter".into(),
                estimator: String::new(),
                rounds: 3,
                duration_ns: 1_000,
            },
            summary: Vec::new(),
            warnings: Vec::new(),
            tables: vec![LabTable {
                title: "Exits".into(),
                labels: vec!["exit".into(), "handler".into()],
                rows: vec![row("port read", vec![time], None), row("MMIO", Vec::new(), Some("no such thing".into()))],
            }],
            executed: Vec::new(),
        }
    }

    #[test]
    fn what_cannot_be_done_is_a_row_and_its_reason_a_note() {
        let page = lab_page(&report(&[100.0, 102.0, 101.0]));
        let table = page.sections[2].table.as_ref().unwrap();
        assert_eq!(table.rows[0][..4], ["port read", "handler, 1", "100ns", "10ns"]);
        assert_eq!(table.rows[1][..3], ["MMIO", "handler, 1", "no"]);
        assert!(page.sections[2].notes.contains(&"MMIO, handler, 1: no such thing".to_string()));
    }

    #[test]
    fn the_finding_comes_first_with_what_makes_it_less_sure() {
        let mut run = report(&[100.0, 102.0]);
        run.summary = vec!["A port read takes 1.2 ± 0.1 us.".into(), "MMIO more.".into()];
        run.warnings = vec!["Other programs took 3 % of the CPUs".into()];
        let first = &lab_page(&run).sections[0];
        assert_eq!(first.title, "A port read takes 1.2 ± 0.1 us");
        let said: Vec<_> = first.sentences.iter().map(|of| (of.text.as_str(), of.warning)).collect();
        assert_eq!(said, [("Other programs took 3 % of the CPUs", true), ("MMIO more.", false)]);
        run.warnings.clear();
        run.tables[0].rows.remove(0);
        assert_eq!(run.headline().text, "Doubtful: nothing could be measured here");
        assert_eq!(run.headline().state, "cannot_tell");
    }

    /// Two runs on an unchanged host differ by more than their rounds do: guests and memory are placed anew.
    #[test]
    fn against_one_run_there_are_sizes_and_no_verdict() {
        for after in [[200.0, 202.0, 201.0], [101.0, 100.0, 102.0], [50.0, 51.0, 52.0]] {
            let page = lab_comparison_page(&[report(&[100.0, 102.0, 101.0])], &report(&after));
            assert_eq!(
                page.sections[0].title,
                "Sizes only, no verdict: one earlier run does not show how much runs vary without any change"
            );
            let table = page.sections[2].table.as_ref().unwrap();
            let titles: Vec<&str> = table.columns.iter().map(|column| column.title.as_ref()).collect();
            assert_eq!(titles, ["exit", "handler", "figure", "before", "after", "change"]);
            assert_eq!(table.rows[0].len(), titles.len());
            let mut text = Vec::new();
            write_page(&page, TerminalStyle { width: None, colour: false, unicode: true }, &mut text).unwrap();
            let text = String::from_utf8(text).unwrap();
            assert!(["differ clearly", "more\n", "less\n"].iter().all(|word| !text.contains(word)), "{text}");
        }
        let page = lab_comparison_page(&[report(&[100.0, 102.0, 101.0])], &report(&[50.0, 51.0, 52.0]));
        let said: Vec<&str> = page.sections[0].sentences.iter().map(|of| of.text.as_str()).collect();
        assert_eq!(said[0], "largest change: port read, handler, 1, time 100ns → 50ns (-50.0%)");
    }

    #[test]
    fn against_several_runs_a_verdict_stands_on_what_differs_from_run_to_run() {
        let before: Vec<LabReport> =
            [100.0, 140.0, 120.0, 110.0, 130.0].map(|value| report(&[value, value, value + 0.1])).into();
        for (after, expected, said) in [
            (160.0, "", "No clear difference in 1 figure"),
            (
                170.0,
                "more",
                "1 of 1 figure is outside what the earlier runs predict; chance alone puts fewer than 1 there; the \
                 largest change: port read, handler, 1, time 120ns → 170ns (+41.7%)",
            ),
            (
                70.0,
                "less",
                "1 of 1 figure is outside what the earlier runs predict; chance alone puts fewer than 1 there; the largest \
                 change: port read, handler, 1, time 120ns → 70ns (-41.7%)",
            ),
        ] {
            let page = lab_comparison_page(&before, &report(&[after, after, after + 0.1]));
            assert_eq!(page.sections[0].title, said);
            let row = &page.sections[2].table.as_ref().unwrap().rows[0];
            // Mean 120, standard deviation 15.81; 2.776 times 15.81 times the root of 1.2 is 48.1.
            assert_eq!((row[3].as_str(), row.last().unwrap().as_str()), ("120ns", expected), "{after}");
        }
    }

    #[test]
    fn a_figure_of_one_earlier_run_is_not_judged_among_others_that_are() {
        let mut before = [100.0, 104.0, 102.0].map(|value| report(&[value, value + 0.1]));
        let mut after = report(&[200.0, 200.1]);
        let other = LabRow { labels: vec!["CPUID".into(), "kernel".into()], ..after.tables[0].rows[0].clone() };
        before[0].tables[0].rows.push(other.clone());
        after.tables[0].rows.push(other);
        let page = lab_comparison_page(&before, &after);
        assert!(page.sections[0].title.starts_with("1 of 1 figure is outside"), "{}", page.sections[0].title);
        let table = page.sections[2].table.as_ref().unwrap();
        let verdicts: Vec<&str> = table.rows.iter().map(|row| row.last().unwrap().as_str()).collect();
        assert_eq!(verdicts, ["more", "not judged"]);
    }

    #[test]
    fn figures_that_chance_puts_outside_are_counted_beside_those_that_are() {
        assert_eq!(by_chance(61), "about 3");
        assert_eq!(by_chance(30), "about 2");
        assert_eq!(by_chance(10), "fewer than 1");
    }

    #[test]
    fn there_is_no_change_by_a_part_of_nothing() {
        let page = lab_comparison_page(&[report(&[0.0, 0.0])], &report(&[0.0, 10.0]));
        assert_eq!(page.sections[2].table.as_ref().unwrap().rows[0][5], "-");
    }

    #[test]
    fn benchstat_has_a_line_for_each_round_and_a_unit_for_each_figure() {
        let mut found = report(&[100.0, 102.5]);
        let time = found.tables[0].rows[0].figures[0].clone();
        let figure = |name: &str, unit: FigureUnit, rounds: &[f64]| LabFigure {
            name: name.into(),
            unit,
            samples: None,
            rounds: rounds.to_vec(),
            ..time.clone()
        };
        found.tables[0].rows[0].figures.extend([
            figure("exit to entry", FigureUnit::Ns, &[7.0, 8.0]),
            figure("X'9C'", FigureUnit::PerSecond, &[3.0, 4.0]),
            figure("polls that paid", FigureUnit::Share, &[0.25]),
            figure("cycles", FigureUnit::Cycles, &[]),
        ]);
        let mut lines = Vec::new();
        write_benchstat(&found, &mut lines).unwrap();
        let lines = String::from_utf8(lines).unwrap();
        let expected = "Unit X-9C/s better=higher\n\
            BenchmarkExits/Exits/exit=port_read/handler=handler__1 15 100.0 ns/op 7.0 exit-to-entry-ns/op 3.0000 X-9C/s 25.0000 \
            polls-that-paid-%\n\
            BenchmarkExits/Exits/exit=port_read/handler=handler__1 15 102.5 ns/op 8.0 exit-to-entry-ns/op 4.0000 X-9C/s\n";
        assert!(lines.ends_with(expected), "{lines}");
    }

    #[test]
    fn a_narrow_page_keeps_the_margin_of_the_main_figure_and_says_what_it_leaves_out() {
        let mut found = report(&[100.0, 102.5]);
        let time = found.tables[0].rows[0].figures[0].clone();
        found.tables[0].rows[0].figures.push(LabFigure { name: "exit to entry".into(), samples: None, ..time });
        let mut text = Vec::new();
        write_page(&lab_page(&found), TerminalStyle { width: Some(46), colour: false, unicode: true }, &mut text)
            .unwrap();
        let text = String::from_utf8(text).unwrap();
        let header = text.lines().find(|line| line.contains("exit ")).unwrap();
        assert_eq!(header.split_whitespace().collect::<Vec<_>>(), ["exit", "handler", "time", "±"], "{text}");
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(words.contains("too wide for the terminal: samples, far out, exit to entry time: median"), "{text}");
    }

    #[test]
    fn csv_and_benchstat_have_every_row_that_was_measured() {
        let report = report(&[100.0, 102.5]);
        let mut csv = Vec::new();
        write_lab_csv(&report, &mut csv).unwrap();
        let csv = String::from_utf8(csv).unwrap();
        assert!(csv.contains("exits,Exits,\"port read; handler, 1\",time,ns,100,90,110,,,30,1,\n"), "{csv}");
        assert!(csv.contains("exits,Exits,\"MMIO; handler, 1\",,,,,,,,,,no such thing\n"), "{csv}");
        let mut lines = Vec::new();
        write_benchstat(&report, &mut lines).unwrap();
        let lines = String::from_utf8(lines).unwrap();
        assert!(lines.contains("\nBenchmarkExits/Exits/exit=port_read/handler=handler__1 15 102.5 ns/op\n"), "{lines}");
    }

    #[test]
    fn a_report_is_read_back_as_it_was_written() {
        let report = report(&[100.0, 102.5]);
        let json = serde_json::to_string(&report).unwrap();
        let back: LabReport = serde_json::from_str(&json).unwrap();
        assert_eq!(serde_json::to_string(&back).unwrap(), json);
    }
}
