//! A sweep as plain data: one row for each configuration, with columns to plot.

use crate::headline::Headline;
use crate::sweep_verdict;
use crate::{AssumedRuns, FigureUnit, GainUncertainty, ScenarioRow};
use exitscope_scenario::outcome::{Metric, OutcomeUnit};
use exitscope_scenario::vary_axis::Axes;
use exitscope_stats::Estimate;
use exitscope_units::Nanos;
use schemars::JsonSchema;
use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};
use serde_json::Value;

/// What a sweep found.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Sweep {
    /// Name and version of this layout. Fields may be added within a version; none changes its meaning.
    pub schema: &'static str,
    /// Which configuration is the best by the first figure, if one is.
    pub verdict: Headline,
    /// What ran, before anything was varied. Its seed is that of the first replicate; each further one has the next.
    pub scenario: ScenarioRow,
    /// Number of runs of each configuration, each with a seed of its own.
    pub replicates: u32,
    /// Confidence of the intervals, in per cent.
    pub confidence_percent: f64,
    /// The keys that were varied, and their values.
    pub vary: Vec<AxisRow>,
    /// The figures; the first one decides which configuration is the best.
    pub metrics: Vec<SweepMetric>,
    /// The configurations, the first of `vary` changing slowest.
    pub rows: Vec<SweepRow>,
    /// What of the gains over the first configuration hangs on assumed numbers (`--uncertainty`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uncertainty: Option<GainUncertainty>,
}

/// A key that was varied.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct AxisRow {
    /// The key, as `--set` takes it.
    pub key: String,
    /// Its column in the rows: the key, and `_ns` behind it if the values are times.
    pub column: String,
    /// Its values, as they were set.
    pub values: Vec<String>,
}

/// A figure of a sweep.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct SweepMetric {
    /// Its name, such as `web.latency_p99`.
    pub name: String,
    /// What it is measured in.
    pub unit: FigureUnit,
    /// Whether more of it is better, or less; null where neither is, as of time that vCPUs are halted.
    pub higher_is_better: Option<bool>,
    /// What it is measured in.
    #[serde(skip)]
    pub measure: OutcomeUnit,
}

/// One configuration.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct SweepRow {
    /// A column for each key that was varied, then for each figure `<name>_mean`, `<name>_low` and `<name>_high`: the
    /// mean over the replicates and the bounds of its confidence interval; null if there is none.
    #[serde(flatten)]
    #[schemars(with = "std::collections::BTreeMap<String, Value>")]
    pub columns: NamedValues,
    /// Number of runs of this configuration that were made.
    pub replicates: u32,
    /// Whether it is the best by the first figure, or its interval meets that of the best. None is where all tie, and where there
    /// are no intervals because each ran once.
    pub best: bool,
    /// Whether no other configuration is better in one of the figures and as good in all others, by their means.
    pub pareto: bool,
    /// Why it did not run to its end.
    pub error: Option<String>,
    /// The values set, in the order of `vary`.
    #[serde(skip)]
    pub labels: Vec<String>,
    /// The figures, in the order of `metrics`.
    #[serde(skip)]
    pub estimates: Vec<Option<Estimate>>,
}

/// Names and values, in order.
#[derive(Clone, Debug, Default)]
pub struct NamedValues(pub(crate) Vec<(String, Value)>);

impl NamedValues {
    /// The values.
    pub fn values(&self) -> impl Iterator<Item = &Value> {
        self.0.iter().map(|column| &column.1)
    }
}

impl Serialize for NamedValues {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut map = to.serialize_map(Some(self.0.len()))?;
        for (name, value) in &self.0 {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

/// A configuration that ran.
#[derive(Clone, Debug)]
pub struct Configuration {
    /// The values set, in the order of the axes.
    pub values: Vec<String>,
    /// The figures by replicate, or why there are none.
    pub runs: Result<Vec<Vec<Option<f64>>>, String>,
}

impl Sweep {
    /// The name and version of the layout.
    pub const SCHEMA: &'static str = "exitscope.sweep/1";

    /// A sweep over these axes; every run of every configuration has one value for each of the metrics.
    pub fn of(
        scenario: ScenarioRow,
        replicates: u32,
        vary: Vec<AxisRow>,
        metrics: Vec<SweepMetric>,
        configurations: Vec<Configuration>,
    ) -> Sweep {
        let mut rows: Vec<SweepRow> = configurations.into_iter().map(|of| SweepRow::of(of, &vary, &metrics)).collect();
        mark_best(&mut rows, &metrics);
        mark_pareto(&mut rows, &metrics);
        let verdict = sweep_verdict::verdict(&vary, &metrics, &rows, replicates);
        Sweep {
            schema: Sweep::SCHEMA,
            verdict,
            scenario,
            replicates,
            confidence_percent: Estimate::CONFIDENCE,
            vary,
            metrics,
            rows,
            uncertainty: None,
        }
    }

    /// Adds what runs with assumed numbers otherwise say of the first figure: an order of which the sign hangs on one of them is doubtful.
    pub fn add_uncertainty(&mut self, assumed: &AssumedRuns) {
        let Some(metric) = self.metrics.first() else { return };
        let mean = |row: &SweepRow| row.estimates.first().copied().flatten().map(|of| of.mean);
        let first = self.rows.first().and_then(mean).filter(|first| *first != 0.0);
        let gain = |row: &SweepRow| first.zip(mean(row)).map(|(first, of)| (of / first - 1.0) * 100.0);
        let gains = self.rows.iter().skip(1).map(|row| (sweep_verdict::settings(&self.vary, row), gain(row)));
        let uncertainty = GainUncertainty::of(&metric.name, gains.collect(), assumed);
        for of in &uncertainty.gains {
            let Some(keys) = of.hangs_on() else { continue };
            self.verdict.is_doubtful = true;
            let doubt = format!("whether {} is ahead of the first configuration hangs on {keys}", of.configuration);
            self.verdict.doubts.push(doubt);
        }
        self.uncertainty = Some(uncertainty);
    }

    /// The names of the rows' columns.
    pub fn columns(&self) -> Vec<String> {
        let figures = self.metrics.iter().flat_map(|metric| figure_columns(&metric.name));
        self.vary.iter().map(|axis| axis.column.clone()).chain(figures).collect()
    }
}

fn figure_columns(name: &str) -> [String; 3] {
    ["mean", "low", "high"].map(|what| format!("{name}_{what}"))
}

impl AxisRow {
    /// A row for each key that is varied.
    pub fn all(axes: &Axes) -> Vec<AxisRow> {
        axes.all().iter().map(|axis| AxisRow::new(axis.key.clone(), axis.values.clone())).collect()
    }

    /// A key and its values. Times are numbers of nanoseconds in the column.
    pub fn new(key: String, values: Vec<String>) -> AxisRow {
        let number = |value: &String| value.parse::<u64>().is_ok();
        let time = |value: &String| Nanos::parse(value).is_some();
        let times = values.iter().any(time) && values.iter().all(|value| number(value) || time(value));
        let column = if times && !key.ends_with("_ns") { format!("{key}_ns") } else { key.clone() };
        AxisRow { key, column, values }
    }

    pub(crate) fn value(&self, text: &str) -> Value {
        match (Nanos::parse(text), text.parse::<u64>(), text.parse::<f64>()) {
            (Some(time), ..) if self.column.ends_with("_ns") => time.0.into(),
            (_, Ok(whole), _) => whole.into(),
            (_, _, Ok(number)) => number.into(),
            _ => text.into(),
        }
    }
}

impl SweepMetric {
    /// The figure of the CPU time that a configuration takes.
    pub const BUSY_CPUS: &'static str = "cpus.busy";

    /// This figure.
    pub fn of(metric: Metric) -> SweepMetric {
        let Metric { name, measure, higher_is_better, .. } = metric;
        SweepMetric { name, measure, unit: measure.into(), higher_is_better }
    }

    /// A value as larger for better; none where neither is.
    pub(crate) fn merit(&self, value: f64) -> Option<f64> {
        self.higher_is_better.map(|higher| if higher { value } else { -value })
    }
}

impl SweepRow {
    fn of(configuration: Configuration, vary: &[AxisRow], metrics: &[SweepMetric]) -> SweepRow {
        let Configuration { values, runs } = configuration;
        let (runs, error) = match runs {
            Ok(runs) => (runs, None),
            Err(error) => (Vec::new(), Some(error)),
        };
        let estimate = |at: usize| {
            let values: Vec<f64> = runs.iter().filter_map(|run| run.get(at).copied().flatten()).collect();
            Estimate::of(&values)
        };
        let estimates: Vec<_> = (0..metrics.len()).map(estimate).collect();
        let settings = vary.iter().zip(&values).map(|(axis, value)| (axis.column.clone(), axis.value(value)));
        let figures = metrics.iter().zip(&estimates).flat_map(|(metric, estimate)| {
            let interval = estimate.and_then(|estimate| estimate.interval);
            let values = [
                estimate.map(|estimate| estimate.mean),
                interval.map(|interval| interval.0),
                interval.map(|interval| interval.1),
            ];
            figure_columns(&metric.name).into_iter().zip(values.map(Value::from))
        });
        SweepRow {
            columns: NamedValues(settings.chain(figures).collect()),
            replicates: runs.len() as u32,
            best: false,
            pareto: false,
            error,
            labels: values,
            estimates,
        }
    }
}

/// Marks the best by the first metric, and those that only chance may have put behind it; nobody if those are all.
fn mark_best(rows: &mut [SweepRow], metrics: &[SweepMetric]) {
    let Some(metric) = metrics.first() else { return };
    let estimate = |row: &SweepRow| row.estimates.first().copied().flatten();
    let merit = |estimate: Estimate| Some((metric.merit(estimate.mean)?, estimate));
    let merits = rows.iter().filter_map(estimate).filter_map(merit);
    let best = merits.max_by(|a, b| a.0.total_cmp(&b.0)).map(|row| row.1).filter(|best| best.interval.is_some());
    let is_best = |row: &SweepRow| best.zip(estimate(row)).is_some_and(|(best, own)| own.meets(&best));
    if rows.iter().filter(|row| estimate(row).is_some()).all(is_best) {
        return;
    }
    for row in rows {
        row.best = is_best(row);
    }
}

/// Marks those that no other beats, if there is more than one figure to beat them by.
fn mark_pareto(rows: &mut [SweepRow], metrics: &[SweepMetric]) {
    let directed = |metric: &&SweepMetric| metric.higher_is_better.is_some();
    if metrics.iter().filter(directed).count() < 2 {
        return;
    }
    let merits = |row: &SweepRow| -> Option<Vec<f64>> {
        let figures = row.estimates.iter().zip(metrics).filter(|(_, metric)| directed(metric));
        figures.map(|(estimate, metric)| metric.merit(estimate.as_ref()?.mean)).collect()
    };
    let all: Vec<_> = rows.iter().map(merits).collect();
    let beats = |a: &[f64], b: &[f64]| a != b && a.iter().zip(b).all(|(a, b)| a >= b);
    for (row, own) in rows.iter_mut().zip(&all) {
        row.pareto = own.as_ref().is_some_and(|own| !all.iter().flatten().any(|other| beats(other, own)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The verdict and who is marked, of configurations of one key with these runs of the figure.
    fn judged(higher_is_better: Option<bool>, configurations: &[&[f64]]) -> (Headline, Vec<bool>) {
        let values = |at: usize| vec![format!("{at}")];
        let vary = vec![AxisRow::new("knob".to_string(), (0..configurations.len()).map(|at| at.to_string()).collect())];
        let metric = SweepMetric {
            name: "work".to_string(),
            unit: FigureUnit::Count,
            higher_is_better,
            measure: OutcomeUnit::Count,
        };
        let metrics = vec![metric];
        let of = |(at, runs): (usize, &&[f64])| Configuration {
            values: values(at),
            runs: match runs.len() {
                0 => Err("failed".to_string()),
                _ => Ok(runs.iter().map(|run| vec![Some(*run)]).collect()),
            },
        };
        let rows = configurations.iter().enumerate().map(of);
        let mut rows: Vec<SweepRow> = rows.map(|of| SweepRow::of(of, &vary, &metrics)).collect();
        mark_best(&mut rows, &metrics);
        let replicates = configurations.iter().map(|runs| runs.len()).max().unwrap_or(0) as u32;
        let verdict = sweep_verdict::verdict(&vary, &metrics, &rows, replicates);
        (verdict, rows.iter().map(|row| row.best).collect())
    }

    #[test]
    fn the_best_is_named_only_if_no_other_interval_meets_its_own() {
        let (one, two, three) = (&[10.0, 11.0, 12.0][..], &[20.0, 21.0, 22.0][..], &[20.5, 21.5, 22.5][..]);
        let (verdict, marked) = judged(Some(true), &[one, two]);
        assert_eq!((verdict.state.as_str(), marked), ("best", vec![false, true]));
        assert_eq!(verdict.text, "Best: knob=1, with the highest work");
        assert!(verdict.details[1].starts_with("next is knob=0: 11"), "{verdict:?}");
        assert!(verdict.details[1].contains(" (") && verdict.details[1].contains(" to "), "{verdict:?}");
        let same = judged(Some(true), &[&[5.0, 5.0], &[7.0, 7.0]]).0;
        assert!(same.details[1].starts_with("next is knob=0: 5") && !same.details[1].contains(" to "), "{same:?}");
        let (verdict, marked) = judged(Some(false), &[one, two]);
        assert_eq!((verdict.text.as_str(), marked), ("Best: knob=0, with the lowest work", vec![true, false]));
        let (verdict, marked) = judged(Some(true), &[one, two, three]);
        assert_eq!((verdict.state.as_str(), marked), ("ahead", vec![false, true, true]));
        assert_eq!(verdict.text, "No single best: 2 of 3 configurations tie for the highest work, ahead of the others");
    }

    #[test]
    fn where_all_tie_or_nothing_can_be_told_nobody_is_marked() {
        let (two, three) = (&[20.0, 21.0, 22.0][..], &[20.5, 21.5, 22.5][..]);
        for (higher, configurations, state, text) in [
            (
                Some(true),
                &[two, three][..],
                "tie",
                "All 2 configurations tie for the highest work: no difference is clear",
            ),
            (Some(true), &[two, two], "tie", "All 2 configurations tie: work is the same in all"),
            (
                Some(true),
                &[&[1.0][..], &[2.0]],
                "cannot_tell",
                "Doubtful which is best: one run each, so chance may have ordered them (--replicates)",
            ),
            (
                None,
                &[two, three],
                "cannot_tell",
                "Doubtful which is best: neither more nor less work is better (--best +work or -work)",
            ),
            (Some(true), &[two], "cannot_tell", "Doubtful which is best: only one configuration ran"),
        ] {
            let (verdict, marked) = judged(higher, configurations);
            assert_eq!((verdict.state.as_str(), verdict.text.as_str()), (state, text));
            assert!(!marked.contains(&true), "{text}");
        }
    }

    #[test]
    fn a_configuration_that_failed_may_have_been_better() {
        let (verdict, marked) = judged(Some(true), &[&[1.0, 1.0], &[], &[2.0, 2.0]]);
        assert_eq!((verdict.state.as_str(), marked), ("best", vec![false, false, true]));
        assert!(verdict.is_doubtful);
        assert_eq!(verdict.doubts, ["1 configuration did not run to the end, and may be better"]);
    }
}
