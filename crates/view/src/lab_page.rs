//! How what the lab found becomes a page, a comparison with an earlier run, CSV, and lines for benchstat.

use crate::FigureUnit;
use crate::lab::{LabFigure, LabReport, LabRow, LabTable, ManifestRow};
use crate::names::{rate, share, thousands};
use crate::page::{Page, PageSection, Sentence, Table, column, plain};
use exitscope_scenario::findings::{HIDDEN_BOUND, counted};
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
        head.sentences.insert(1 + at, plain(format!("Before: kernel {}, back end {}", was.kernel, was.back_end)));
    }
    let other = |was: &ManifestRow| was.vendor != after.manifest.vendor || was.back_end != after.manifest.back_end;
    if before.iter().any(|run| other(&run.manifest)) {
        let text = "the runs are of different machines or back ends: what differs may be that".to_string();
        head.sentences.push(Sentence { text, warning: true });
    }
    head.sentences.extend(after.warnings.iter().map(|text| Sentence { text: text.clone(), warning: true }));
    let tables: Vec<PageSection> = after.tables.iter().map(|table| compared(before, table)).collect();
    let mut sections = vec![against(&tables), head];
    sections.extend(tables);
    Page { sections }
}

/// What the tables of a comparison come to: their last columns are the change and the verdict.
fn against(tables: &[PageSection]) -> PageSection {
    let rows: Vec<&[String]> = tables
        .iter()
        .filter_map(|of| of.table.as_ref())
        .flat_map(|table| table.rows.iter().map(Vec::as_slice))
        .collect();
    let verdict = |row: &&[String]| row.last().map_or("", String::as_str).to_string();
    let clear: Vec<&&[String]> = rows.iter().filter(|row| matches!(verdict(row).as_str(), "more" | "less")).collect();
    let judged = rows.iter().filter(|row| verdict(row) != "too few rounds").count();
    let change = |row: &[String]| row[row.len() - 2].trim_end_matches('%').parse::<f64>().unwrap_or(0.0).abs();
    let largest = clear.iter().max_by(|a, b| change(a).total_cmp(&change(b)));
    let figures = format!("{} figures", thousands(judged as u64));
    let text = match (judged, largest) {
        (0, _) => "Cannot tell: too few rounds for intervals".to_string(),
        (_, None) => format!("No clear difference in any of {figures}"),
        (_, Some(row)) => {
            let [labels @ .., before, after, change, _] = row else { return PageSection::default() };
            let labels = labels.join(", ");
            let many = thousands(clear.len() as u64);
            format!("{many} of {figures} differ clearly; the largest change: {labels} {before} → {after} ({change})")
        }
    };
    // Where intervals do not meet, chance is rarer than the confidence of one.
    let note = "at 95 % confidence, one verdict in twenty or fewer is chance where nothing changed".to_string();
    PageSection { title: text, sentences: vec![plain(note)], ..PageSection::default() }
}

fn head(report: &LabReport) -> PageSection {
    let m = &report.manifest;
    let sentences = vec![
        plain(report.description.clone()),
        plain(format!(
            "Back end {} on {}, kernel {}; {}, clock {:.3} GHz; {}, {} for each row{}",
            m.back_end,
            m.vendor,
            m.kernel,
            counted(m.cpus as u64, "CPU"),
            m.tsc_hz as f64 / 1e9,
            counted(m.rounds.into(), "round"),
            Nanos(m.duration_ns),
            if m.pinned { ", vCPUs kept on a CPU each where there are enough" } else { "" }
        )),
    ];
    PageSection { title: format!("Lab: {}", report.experiment), sentences, ..PageSection::default() }
}

/// The names of all figures of a table, in the order in which they first appear.
fn figure_names(table: &LabTable) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    for figure in table.rows.iter().flat_map(|row| &row.figures) {
        if !names.contains(&figure.name.as_str()) {
            names.push(&figure.name);
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
                None => cells.extend([const { String::new() }; 5]),
            }
        }
        cells
    });
    let rows = rows.collect();
    if names.contains(&"time") && table.rows.iter().any(|row| !row.figures.is_empty()) {
        let text = "time: median; ± half of its 95 % confidence interval, from round to round; far out: samples beyond \
                    the middle half by more than three times its width, which count like the others";
        notes.insert(0, text.to_string());
    }
    if names.contains(&HIDDEN_BOUND) {
        let text = "hidden: what the guest's own round trip takes beyond kvm_exit to kvm_entry as traced, median; bound: 95 \
                    of 100 exits are within it. What tracing takes beside its stamps is in both. report --hidden reads \
                    bounds of a run that was saved with --format json";
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

fn compared(before: &[LabReport], table: &LabTable) -> PageSection {
    let mut columns: Vec<_> = table.labels.iter().map(|label| column(label.clone(), true, 0)).collect();
    columns.push(column("figure", true, 0));
    columns.extend(["before", "after", "change"].map(|title| column(title, false, 0)));
    columns.push(column("verdict", true, 0));
    let mut rows = Vec::new();
    for row in &table.rows {
        let old: Vec<_> = before.iter().filter_map(|run| run.row(&table.title, &row.labels)).collect();
        for figure in row.figures.iter().filter(|figure| !figure.rounds.is_empty()) {
            let was: Vec<&LabFigure> =
                old.iter().filter_map(|old| old.figures.iter().find(|was| was.name == figure.name)).collect();
            let mean = Estimate::of(&was.iter().map(|was| was.value).collect::<Vec<f64>>()).map(|was| was.mean);
            // No part of nothing, nor of what is below zero because measuring was taken off.
            let change = mean
                .filter(|&mean| mean > 0.0)
                .map_or("-".to_string(), |mean| format!("{:+.1}%", (figure.value / mean - 1.0) * 100.0));
            let was_text = mean.map_or("-".to_string(), |mean| quantity(figure.unit, mean));
            let verdict = verdict(&was, figure).to_string();
            let cells = [figure.name.clone(), was_text, quantity(figure.unit, figure.value), change, verdict];
            rows.push([row.labels.clone(), cells.to_vec()].concat());
        }
    }
    let note = match before.len() {
        0 | 1 => {
            "A verdict stands only where the 95 % confidence intervals do not meet. They cover the variation within each run; \
             that from run to run, which may be larger, only if --against is given several times."
        }
        _ => {
            "before: the mean of the earlier runs. A verdict stands only outside of what, by these, one more run would be \
             within in 95 % of cases; the more of them, the narrower that is."
        }
    };
    let notes = vec![note.to_string()];
    PageSection { title: table.title.clone(), table: Some(Table { columns, rows }), notes, ..PageSection::default() }
}

fn verdict(before: &[&LabFigure], after: &LabFigure) -> &'static str {
    let before = match before {
        [] => return "",
        [run] => run,
        runs => return verdict_by_runs(&runs.iter().map(|run| run.value).collect::<Vec<f64>>(), after.value),
    };
    match (Estimate::of(&before.rounds), Estimate::of(&after.rounds)) {
        (Some(before), Some(after)) if before.interval.is_some() && after.interval.is_some() => {
            match before.meets(&after) {
                true => "",
                false if after.mean > before.mean => "more",
                false => "less",
            }
        }
        _ => "too few rounds",
    }
}

/// Whether a run is outside of what one more like these would be within: its mean has this interval, and it has as much
/// scatter as each of them again.
fn verdict_by_runs(runs: &[f64], after: f64) -> &'static str {
    let Some(Estimate { mean, interval: Some((_, high)) }) = Estimate::of(runs) else { return "" };
    let reach = (high - mean) * (runs.len() as f64 + 1.0).sqrt();
    match after - mean {
        more if more > reach => "more",
        less if less < -reach => "less",
        _ => "",
    }
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
            let name = format!("Benchmark{}/{}", capital(&report.experiment), word(&table.title, '_'));
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
        assert_eq!(run.headline().text, "Cannot tell: nothing could be measured here");
        assert_eq!(run.headline().state, "cannot_tell");
    }

    #[test]
    fn a_comparison_gives_a_verdict_only_where_intervals_do_not_meet() {
        for (after, expected, said) in [
            (
                [200.0, 202.0, 201.0],
                "more",
                "1 of 1 figures differ clearly; the largest change: port read, handler, 1, time 100ns → 200ns (+100.0%)",
            ),
            ([101.0, 100.0, 102.0], "", "No clear difference in any of 1 figures"),
            (
                [50.0, 51.0, 52.0],
                "less",
                "1 of 1 figures differ clearly; the largest change: port read, handler, 1, time 100ns → 50ns (-50.0%)",
            ),
        ] {
            let page = lab_comparison_page(&[report(&[100.0, 102.0, 101.0])], &report(&after));
            assert_eq!(page.sections[0].title, said);
            assert_eq!(page.sections[2].table.as_ref().unwrap().rows[0].last().unwrap(), expected, "{after:?}");
        }
    }

    #[test]
    fn against_several_runs_a_verdict_stands_on_what_differs_from_run_to_run() {
        let before: Vec<LabReport> =
            [100.0, 140.0, 120.0, 110.0, 130.0].map(|value| report(&[value, value, value + 0.1])).into();
        for (after, expected) in [(160.0, ""), (170.0, "more"), (70.0, "less")] {
            let page = lab_comparison_page(&before, &report(&[after, after, after + 0.1]));
            let row = &page.sections[2].table.as_ref().unwrap().rows[0];
            // Mean 120, standard deviation 15.81; 2.776 times 15.81 times the root of 1.2 is 48.1.
            assert_eq!((row[3].as_str(), row.last().unwrap().as_str()), ("120ns", expected), "{after}");
        }
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
