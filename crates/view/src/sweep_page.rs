//! How a sweep becomes a page.

use crate::metric_row::value_text;
use crate::names::{listed, thousands};
use crate::page::{Page, PageSection, Sentence, Table, column, plain};
use crate::simulated_page::scenario_sentences;
use crate::sweep::{Sweep, SweepMetric, SweepRow};
use crate::sweep_verdict::settings;
use exitscope_stats::Estimate;
use exitscope_units::Nanos;

/// The page of a sweep.
pub fn sweep_page(sweep: &Sweep) -> Page {
    let mut head = PageSection { title: format!("Sweep: {}", sweep.scenario.name), ..PageSection::default() };
    head.sentences = scenario_sentences(&sweep.scenario);
    head.sentences.extend(varied(sweep).map(plain));
    head.sentences.push(plain(runs(sweep)));
    for row in &sweep.rows {
        if let Some(error) = &row.error {
            head.sentences.push(Sentence { text: format!("{}: {error}", settings(&sweep.vary, row)), warning: true });
        }
    }
    let mut columns = vec![column("", true, 0)];
    columns.extend(sweep.vary.iter().map(|axis| column(axis.key.clone(), false, 0)));
    for (at, metric) in sweep.metrics.iter().enumerate() {
        let rank = at.min(200) as u8;
        columns.push(column(metric.name.clone(), false, rank));
        columns.push(column("±", false, rank));
    }
    let table = Table { columns, rows: sweep.rows.iter().map(|row| cells(sweep, row)).collect() };
    let vary: Vec<&str> = sweep.vary.iter().map(|axis| axis.key.as_str()).collect();
    let rows = PageSection {
        title: format!("Figures by {}", vary.join(", ")),
        table: Some(table),
        notes: notes(sweep),
        say_hidden: true,
        ..PageSection::default()
    };
    let first = sweep.rows.first().map_or(String::new(), |row| settings(&sweep.vary, row));
    let uncertainty = sweep.uncertainty.as_ref().map(|of| of.section(&first));
    Page { sections: [sweep.verdict.section(), head, rows].into_iter().chain(uncertainty).collect() }
}

/// Which of the scenario's own values no row has.
fn varied(sweep: &Sweep) -> Option<String> {
    let is_shown =
        |key: &&str| ["host", "cost", "costs", "vm", "delay"].contains(&key.split('.').next().unwrap_or(key));
    let keys: Vec<&str> = sweep.vary.iter().map(|axis| axis.key.as_str()).filter(is_shown).collect();
    (!keys.is_empty()).then(|| format!("That is without what varies: {}.", listed(&keys)))
}

/// `5 configurations, 5 runs each with the seeds 1 to 5, 1.00s measured after 100ms of warm-up`.
fn runs(sweep: &Sweep) -> String {
    let scenario = &sweep.scenario;
    let configurations = thousands(sweep.rows.len() as u64);
    let varies = |key: &str| sweep.vary.iter().any(|axis| axis.key == key);
    let last = scenario.seed.wrapping_add(u64::from(sweep.replicates) - 1);
    let runs = match sweep.replicates {
        1 if varies("seed") => "1 run each".to_string(),
        runs if varies("seed") => format!("{runs} runs each, with seeds from its own on"),
        1 => format!("1 run each with the seed {last}"),
        runs => format!("{runs} runs each with the seeds {} to {last}", scenario.seed),
    };
    let (measured, warmup) = (Nanos(scenario.duration_ns), Nanos(scenario.warmup_ns));
    match varies("duration") || varies("warmup") {
        true => format!("{configurations} configurations, {runs}"),
        false => format!("{configurations} configurations, {runs}; {measured} measured after {warmup} of warm-up"),
    }
}

fn cells(sweep: &Sweep, row: &SweepRow) -> Vec<String> {
    let mark = match (&row.error, row.best, row.pareto) {
        (Some(_), ..) => "!",
        (None, true, true) => "*p",
        (None, true, false) => "*",
        (None, false, true) => " p",
        (None, false, false) => "",
    };
    let mut cells = vec![mark.to_string()];
    cells.extend(row.labels.iter().cloned());
    for (metric, estimate) in sweep.metrics.iter().zip(&row.estimates) {
        cells.extend(figure(metric, estimate.as_ref(), row.error.is_some()));
    }
    cells
}

/// A mean, and half its interval.
fn figure(metric: &SweepMetric, estimate: Option<&Estimate>, failed: bool) -> [String; 2] {
    let Some(estimate) = estimate else {
        return [if failed { "failed" } else { "-" }.to_string(), String::new()];
    };
    let half = estimate.interval.map_or(String::new(), |(low, high)| match (high - low) / 2.0 {
        0.0 => "0".to_string(),
        half => value_text(half, metric.measure).trim_end_matches("/s").to_string(),
    });
    [value_text(estimate.mean, metric.measure), half]
}

/// What the best take of the host's CPUs, where others take less: a poll, for one, buys latency with CPU time.
fn cpu_note(sweep: &Sweep) -> Option<String> {
    let at = sweep.metrics.iter().position(|metric| metric.name == SweepMetric::BUSY_CPUS).filter(|at| *at > 0)?;
    let busy = |row: &SweepRow| row.estimates[at].map(|estimate| estimate.mean);
    let ran = || sweep.rows.iter().filter(|row| row.error.is_none());
    let least = |rows: &mut dyn Iterator<Item = &SweepRow>| {
        let busy = rows.filter_map(|row| Some((row.labels.clone(), busy(row)?)));
        busy.min_by(|a, b| a.1.total_cmp(&b.1))
    };
    let (best, (frugal, fewest)) = (least(&mut ran().filter(|row| row.best))?, least(&mut ran())?);
    (best.1 > fewest * NOTEWORTHY).then(|| {
        let frugal = sweep.vary.iter().zip(&frugal).map(|(axis, value)| format!("{}={value}", axis.key));
        format!(
            "CPU time: rows with * keep at least {:.2} CPUs busy, {} keeps {fewest:.2}; --best throughput_per_cpu \
             ranks by work per CPU time",
            best.1,
            frugal.collect::<Vec<_>>().join(", ")
        )
    })
}

/// By how much more CPU time has to be, to be spoken of.
const NOTEWORTHY: f64 = 1.02;

fn notes(sweep: &Sweep) -> Vec<String> {
    let mut notes = Vec::new();
    if let Some(metric) = sweep.metrics.first() {
        let direction = if metric.higher_is_better == Some(true) { "highest" } else { "lowest" };
        let name = &metric.name;
        let best = sweep.rows.iter().filter(|row| row.best).count();
        match best {
            0 => {}
            1 => notes.push(format!("* {direction} {name}: no other interval overlaps this row's")),
            _ => notes.push(format!(
                "* {direction} {name}: the intervals of these rows overlap, so chance may have ordered \
                    them"
            )),
        }
    }
    notes.extend(cpu_note(sweep));
    if sweep.rows.iter().any(|row| row.pareto) {
        let of = |direction| {
            let metrics = sweep.metrics.iter().filter(move |metric| metric.higher_is_better == direction);
            metrics.map(|metric| metric.name.as_str()).collect::<Vec<_>>().join(", ")
        };
        let mut direction = match of(Some(true)).as_str() {
            "" => "less is better".to_string(),
            higher => format!("more is better for {higher}, less for all else"),
        };
        match of(None).as_str() {
            "" => {}
            neither => direction.push_str(&format!("; not compared: {neither}")),
        }
        notes.push(format!(
            "p no other row has a better mean in one figure without a worse mean in another ({direction})"
        ));
    }
    for (at, metric) in sweep.metrics.iter().enumerate() {
        if sweep.rows.iter().all(|row| row.estimates[at].is_none()) {
            notes.push(format!("{}: measured in no configuration", metric.name));
        }
    }
    let widths = sweep.rows.iter().flat_map(|row| row.estimates.iter().flatten()).filter_map(|of| of.interval);
    let mut widths = widths.map(|(low, high)| high - low).peekable();
    if widths.peek().is_some() && widths.all(|width| width == 0.0) {
        notes.push(
            "All runs of a configuration are the same, because nothing in them is random: no interval is wider than \
             0"
            .into(),
        );
    }
    notes.push(match sweep.replicates {
        1 => "One run each, so no intervals: differences may be chance (--replicates)".to_string(),
        runs => format!("± half of the {} % confidence interval of the mean of {runs} runs", sweep.confidence_percent),
    });
    notes
}
