//! What of simulated figures hangs on numbers that are assumed.

use crate::FigureUnit;
use crate::metric_row::{MetricRow, value_text};
use crate::names::plural;
use crate::page::{PageSection, Sentence, Table, column, plain};

use exitscope_scenario::outcome::{OutcomeUnit, SimOutcome};
use exitscope_scenario::{Assumption, Scenario};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;

/// The part of the draws that an interval leaves out at each end.
const LEFT_OUT: f64 = 0.05;

/// The figures of one run, by name.
#[derive(Clone, Debug, Default)]
pub struct RunFigures(BTreeMap<String, f64>);

impl RunFigures {
    /// All figures of an outcome.
    pub fn of(outcome: &SimOutcome, scenario: &Scenario) -> RunFigures {
        RunFigures(outcome.metrics(scenario).into_iter().map(|metric| (metric.name, metric.value)).collect())
    }

    fn get(&self, name: &str) -> Option<f64> {
        self.0.get(name).copied()
    }
}

/// Runs of configurations with assumed numbers otherwise.
#[derive(Clone, Debug)]
pub struct AssumedRuns {
    assumptions: Vec<Assumption>,
    of: Vec<ConfigurationRuns>,
}

/// Those of one configuration. A run that did not reach its end is `None`.
#[derive(Clone, Debug)]
pub struct ConfigurationRuns {
    /// With all numbers drawn.
    pub draws: Vec<Option<RunFigures>>,
    /// With each number alone, at its least and at its greatest.
    pub ends: Vec<Option<RunFigures>>,
}

/// What of the figures of a run hangs on its seed, and on numbers that are assumed.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct UncertaintyReport {
    /// Seeds with which it was run, the run's own included.
    pub seeds: u32,
    /// How often all assumed numbers were drawn at once, each between its ends.
    pub draws: u32,
    /// Runs that did not reach their end: where there are any, there is no interval.
    pub failed: u32,
    /// Part of the draws that an interval holds, in per cent.
    pub holds_percent: f64,
    /// The numbers that are assumed, and what each may as well be.
    pub assumptions: Vec<AssumptionRow>,
    /// Every figure.
    pub figures: Vec<UncertainFigure>,
}

/// A number that is assumed.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct AssumptionRow {
    /// The key, as `--set` takes it.
    pub key: String,
    /// What the scenario has.
    pub value: String,
    /// The least that it may as well be.
    pub low: String,
    /// The greatest.
    pub high: String,
    /// Where these two are from.
    pub source: &'static str,
}

/// A figure, and from where to where it may be.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct UncertainFigure {
    /// Its name, as `exitscope sweep --metric` takes it.
    pub name: String,
    /// What it is measured in.
    pub unit: FigureUnit,
    /// What the run has.
    pub value: f64,
    /// The least and the greatest with other seeds.
    pub by_seed: [f64; 2],
    /// From where to where it is with the assumed numbers drawn; null if it was there in no such run.
    pub by_assumptions: Option<[f64; 2]>,
    /// The number that moves it most by itself; null if none moves it further than other seeds do.
    pub moved_most: Option<MovedBy>,
    #[serde(skip)]
    measure: OutcomeUnit,
}

/// What an assumed number does to a figure, by itself.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct MovedBy {
    /// The number.
    pub key: String,
    /// Its two ends.
    pub ends: [String; 2],
    /// The figure at these.
    pub figure: [f64; 2],
}

/// What of the gains of a sweep hangs on numbers that are assumed: of each configuration over the first one, by the first figure.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct GainUncertainty {
    /// The figure.
    pub metric: String,
    /// How often all assumed numbers were drawn at once, each between its ends.
    pub draws: u32,
    /// Runs that did not reach their end: where there are any, there is no interval.
    pub failed: u32,
    /// Part of the draws that an interval holds, in per cent.
    pub holds_percent: f64,
    /// The numbers that are assumed, and what each may as well be.
    pub assumptions: Vec<AssumptionRow>,
    /// All configurations but the first.
    pub gains: Vec<UncertainGain>,
}

/// By how much a figure of a configuration is more than that of the first one, in per cent.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct UncertainGain {
    /// The configuration.
    pub configuration: String,
    /// With what the scenario has, over the replicates.
    pub percent: Option<f64>,
    /// From where to where with the assumed numbers drawn.
    pub by_assumptions: Option<[f64; 2]>,
    /// The number that moves it most by itself.
    pub moved_most: Option<MovedBy>,
    /// The numbers each of which turns the sign by itself, within its ends; what moves the gain most comes first.
    pub sign_hangs_on: Vec<String>,
}

impl UncertainGain {
    /// What the sign hangs on, in words; `None` if on nothing.
    pub(crate) fn hangs_on(&self) -> Option<String> {
        let named = self.sign_hangs_on.iter().take(NAMED).cloned().collect::<Vec<_>>().join(", ");
        match self.sign_hangs_on.len() {
            0 => None,
            all if all > NAMED => Some(format!("{named} and {} more", all - NAMED)),
            _ => Some(named),
        }
    }
}

impl AssumedRuns {
    /// Of each configuration, with these numbers otherwise.
    pub fn new(assumptions: Vec<Assumption>, of: Vec<ConfigurationRuns>) -> AssumedRuns {
        AssumedRuns { assumptions, of }
    }

    /// Runs that did not reach their end. Where there are any, nothing is told of the others: those that a limit ended are those that do
    /// most.
    pub fn failed(&self) -> u32 {
        let runs = self.of.iter().flat_map(|of| of.draws.iter().chain(&of.ends));
        runs.filter(|run| run.is_none()).count() as u32
    }

    fn draws(&self) -> u32 {
        self.of.first().map_or(0, |of| of.draws.len() as u32)
    }

    fn rows(&self) -> Vec<AssumptionRow> {
        let row = |of: &Assumption| AssumptionRow {
            key: of.key.clone(),
            value: of.text(of.value),
            low: of.text(of.low),
            high: of.text(of.high),
            source: of.source,
        };
        self.assumptions.iter().map(row).collect()
    }

    /// From where to where a figure is in the draws, made of the figures of a run of each configuration.
    fn interval(&self, figure: &dyn Fn(&[&RunFigures]) -> Option<f64>) -> Option<[f64; 2]> {
        if self.failed() > 0 {
            return None;
        }
        let draw = |at: usize| figure(&self.of.iter().map(|of| of.draws[at].as_ref()).collect::<Option<Vec<_>>>()?);
        let mut values: Vec<f64> = (0..self.draws() as usize).filter_map(draw).collect();
        values.sort_by(f64::total_cmp);
        let last = values.len().checked_sub(1)?;
        let cut = (values.len() as f64 * LEFT_OUT).floor() as usize;
        Some([values[cut.min(last)], values[last - cut.min(last)]])
    }

    /// What each number does to a figure by itself.
    fn moved(&self, figure: &dyn Fn(&[&RunFigures]) -> Option<f64>) -> Vec<MovedBy> {
        if self.failed() > 0 {
            return Vec::new();
        }
        let end = |at: usize| figure(&self.of.iter().map(|of| of.ends[at].as_ref()).collect::<Option<Vec<_>>>()?);
        let by = |(at, of): (usize, &Assumption)| {
            let ends = [of.text(of.low), of.text(of.high)];
            Some(MovedBy { key: of.key.clone(), ends, figure: [end(2 * at)?, end(2 * at + 1)?] })
        };
        self.assumptions.iter().enumerate().filter_map(by).collect()
    }
}

/// Numbers that are named where several turn a sign.
const NAMED: usize = 3;

impl MovedBy {
    fn span(&self) -> f64 {
        (self.figure[1] - self.figure[0]).abs()
    }
}

/// The one between whose ends the figure changes most, if it does.
fn most(moved: &[MovedBy]) -> Option<MovedBy> {
    moved.iter().max_by(|a, b| a.span().total_cmp(&b.span())).filter(|most| most.span() > 0.0).cloned()
}

/// Says why there is no interval.
fn of_failed(failed: u32) -> Option<Sentence> {
    let text = format!(
        "{failed} {} with assumed numbers otherwise did not reach {} end (--limit-events, --wall-limit). Without {} every interval \
         would be too narrow, so there is none.",
        plural(u64::from(failed), "run"),
        if failed == 1 { "its" } else { "their" },
        if failed == 1 { "it" } else { "them" }
    );
    (failed > 0).then_some(Sentence { text, warning: true })
}

impl UncertaintyReport {
    /// Of a run's figures, beside runs with other seeds, and with assumed numbers otherwise.
    pub fn of(figures: &[MetricRow], seeds: &[RunFigures], assumed: &AssumedRuns) -> UncertaintyReport {
        let row = |of: &MetricRow| {
            let own = |runs: &[&RunFigures]| runs.first()?.get(&of.name);
            let by_seed = seeds.iter().filter_map(|run| run.get(&of.name));
            let by_seed = by_seed.fold([of.value; 2], |[low, high], value| [low.min(value), high.max(value)]);
            UncertainFigure {
                name: of.name.clone(),
                unit: of.unit,
                value: of.value,
                by_seed,
                by_assumptions: assumed.interval(&own),
                moved_most: most(&assumed.moved(&own)).filter(|by| by.span() > by_seed[1] - by_seed[0]),
                measure: of.measure,
            }
        };
        UncertaintyReport {
            seeds: seeds.len() as u32 + 1,
            draws: assumed.draws(),
            failed: assumed.failed(),
            holds_percent: (1.0 - 2.0 * LEFT_OUT) * 100.0,
            assumptions: assumed.rows(),
            figures: figures.iter().map(row).collect(),
        }
    }

    pub(crate) fn section(&self) -> PageSection {
        let columns = vec![
            column("figure", true, 0),
            column("this run", false, 0),
            column("other seeds", false, 2),
            column("assumed numbers drawn", false, 0),
            column("moved most by", true, 1),
            column("from", false, 3),
            column("to", false, 3),
        ];
        let shown = self.figures.iter().filter(|of| is_shown(&of.name));
        let rows = shown.map(|of| {
            let text = |value: f64| value_text(value, of.measure);
            let range = |[low, high]: [f64; 2]| {
                if low == high { "the same".to_string() } else { format!("{} to {}", text(low), text(high)) }
            };
            let dash = || "-".to_string();
            let most = of.moved_most.as_ref();
            let at = |end: usize| most.map_or_else(dash, |by| format!("{} at {}", text(by.figure[end]), by.ends[end]));
            vec![
                of.name.clone(),
                text(of.value),
                range(of.by_seed),
                of.by_assumptions.map_or_else(dash, range),
                most.map_or_else(dash, |by| by.key.clone()),
                at(0),
                at(1),
            ]
        });
        PageSection {
            title: "Uncertainty".into(),
            sentences: std::iter::once(plain(format!(
                "{} numbers are assumed. They were drawn {} times at once, each between its ends; an interval holds {:.0} % of \
                 the draws. No number is named that moves a figure less than other seeds do. JSON lists the numbers, their ends and \
                 the sources of these, and every figure.",
                self.assumptions.len(),
                self.draws,
                self.holds_percent
            )))
            .chain(of_failed(self.failed))
            .collect(),
            table: Some(Table { columns, rows: rows.collect() }),
            say_hidden: true,
            ..PageSection::default()
        }
    }
}

/// The figures that people look at first.
fn is_shown(name: &str) -> bool {
    ["throughput", "throughput_per_cpu", "latency_mean", "latency_p99", "exits", "steal", "cpu", "busy"]
        .into_iter()
        .any(|of| name.rsplit('.').next() == Some(of))
}

impl GainUncertainty {
    /// Of configurations by name, with the gain of each over the first one as measured.
    pub fn of(metric: &str, gains: Vec<(String, Option<f64>)>, assumed: &AssumedRuns) -> GainUncertainty {
        let gain = |(number, (configuration, percent)): (usize, (String, Option<f64>))| {
            let own = |runs: &[&RunFigures]| {
                let [before, after] = [0, number + 1].map(|at| runs.get(at).and_then(|run| run.get(metric)));
                before
                    .zip(after)
                    .filter(|(before, _)| *before != 0.0)
                    .map(|(before, after)| (after / before - 1.0) * 100.0)
            };
            let mut moved = assumed.moved(&own);
            moved.sort_by(|a, b| b.span().total_cmp(&a.span()));
            let turns = |by: &&MovedBy| percent.is_some_and(|of| by.figure.iter().any(|end| end * of < 0.0));
            UncertainGain {
                configuration,
                percent,
                by_assumptions: assumed.interval(&own),
                moved_most: most(&moved),
                sign_hangs_on: moved.iter().filter(turns).map(|by| by.key.clone()).collect(),
            }
        };
        GainUncertainty {
            metric: metric.to_string(),
            draws: assumed.draws(),
            failed: assumed.failed(),
            holds_percent: (1.0 - 2.0 * LEFT_OUT) * 100.0,
            assumptions: assumed.rows(),
            gains: gains.into_iter().enumerate().map(gain).collect(),
        }
    }

    pub(crate) fn section(&self, first: &str) -> PageSection {
        let percent = |value: f64| format!("{value:+.1} %");
        let dash = || "-".to_string();
        let rows = self.gains.iter().map(|of| {
            let most = of.moved_most.as_ref();
            let at =
                |end: usize| most.map_or_else(dash, |by| format!("{} at {}", percent(by.figure[end]), by.ends[end]));
            vec![
                of.configuration.clone(),
                of.percent.map_or_else(dash, percent),
                of.by_assumptions.map_or_else(dash, |[low, high]| format!("{} to {}", percent(low), percent(high))),
                most.map_or_else(dash, |by| by.key.clone()),
                at(0),
                at(1),
            ]
        });
        let columns = vec![
            column("configuration", true, 0),
            column("gain", false, 0),
            column("assumed numbers drawn", false, 0),
            column("moved most by", true, 1),
            column("from", false, 2),
            column("to", false, 2),
        ];
        let warn = |of: &UncertainGain| {
            let (keys, [low, high]) = (of.hangs_on()?, of.by_assumptions?);
            Some(Sentence {
                text: format!(
                    "{}: whether {} is gained or lost hangs on {keys}; it is from {} to {}",
                    of.configuration,
                    self.metric,
                    percent(low),
                    percent(high)
                ),
                warning: true,
            })
        };
        let head = plain(format!(
            "{} against {first}. {} numbers are assumed; they were drawn {} times at once, each between its ends; an interval \
             holds {:.0} % of the draws.",
            self.metric,
            self.assumptions.len(),
            self.draws,
            self.holds_percent
        ));
        PageSection {
            title: "What the gains hang on".into(),
            sentences: std::iter::once(head)
                .chain(of_failed(self.failed))
                .chain(self.gains.iter().filter_map(warn))
                .collect(),
            table: Some(Table { columns, rows: rows.collect() }),
            say_hidden: true,
            ..PageSection::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use exitscope_scenario::{HostSpec, assumptions};

    /// Runs in which a second configuration wins so many per cent.
    fn runs(gains: &[f64]) -> [Vec<Option<RunFigures>>; 2] {
        let run = |value: f64| Some(RunFigures(BTreeMap::from([("work".to_string(), value)])));
        [gains.iter().map(|_| run(200.0)).collect(), gains.iter().map(|gain| run(200.0 + 2.0 * gain)).collect()]
    }

    fn both(draws: [Vec<Option<RunFigures>>; 2], ends: [Vec<Option<RunFigures>>; 2]) -> Vec<ConfigurationRuns> {
        draws.into_iter().zip(ends).map(|(draws, ends)| ConfigurationRuns { draws, ends }).collect()
    }

    fn gain(percent: f64, draws: &[f64], ends: &[f64]) -> UncertainGain {
        let mut list = assumptions(&Scenario::new("x", HostSpec::new(1)));
        list.retain(|of| of.key.starts_with("host.scheduler"));
        let [[before, after], [least, most]] = [runs(draws), runs(ends)];
        let assumed = AssumedRuns::new(list, both([before, after], [least, most]));
        let mut of = GainUncertainty::of("work", vec![("b".to_string(), Some(percent))], &assumed);
        assert_eq!((of.draws as usize, of.assumptions.len()), (draws.len(), 2));
        of.gains.remove(0)
    }

    #[test]
    fn a_gain_that_one_number_turns_is_a_range_and_names_it() {
        let draws: Vec<f64> = (0..40).map(|at| f64::from(at) * 0.3 - 1.0).collect();
        // The time slice from end to end, then the margin of a wake-up.
        let of = gain(10.1, &draws, &[9.0, 11.0, 11.1, -1.7]);
        assert_eq!(of.sign_hangs_on, ["host.scheduler.wakeup_granularity"]);
        let most = of.moved_most.unwrap();
        assert_eq!(most.key, "host.scheduler.wakeup_granularity");
        assert!((most.figure[0] - 11.1).abs() < 1e-9 && (most.figure[1] + 1.7).abs() < 1e-9, "{most:?}");
        // Two of forty are left out at each end.
        let [low, high] = of.by_assumptions.unwrap();
        assert!((low + 0.4).abs() < 1e-9 && (high - 10.1).abs() < 1e-9, "{low} {high}");
    }

    #[test]
    fn a_gain_that_nothing_turns_hangs_on_nothing() {
        let of = gain(10.0, &[8.0, 12.0], &[9.0, 11.0, 10.0, 10.5]);
        assert!(of.sign_hangs_on.is_empty());
        assert_eq!(of.moved_most.as_ref().unwrap().key, "host.scheduler.time_slice");
        assert_eq!(gain(10.0, &[10.0], &[10.0; 4]).moved_most, None, "nothing moves it");
        assert_eq!(of.hangs_on(), None);
    }

    #[test]
    fn a_number_that_moves_a_figure_less_than_other_seeds_do_is_not_named() {
        let mut list = assumptions(&Scenario::new("x", HostSpec::new(1)));
        list.truncate(1);
        let [draws, ends] = [runs(&[1.0, 3.0])[1].clone(), runs(&[0.0, 5.0])[1].clone()];
        let assumed = AssumedRuns::new(list, vec![ConfigurationRuns { draws, ends }]);
        let figure =
            MetricRow { name: "work".into(), value: 202.0, unit: FigureUnit::Count, measure: OutcomeUnit::Count };
        for (seeds, is_named) in [(&[1.0, 2.0][..], true), (&[-8.0, 8.0], false)] {
            let seeds: Vec<RunFigures> = runs(seeds)[1].iter().flatten().cloned().collect();
            let of = UncertaintyReport::of(std::slice::from_ref(&figure), &seeds, &assumed);
            assert_eq!(of.figures[0].moved_most.is_some(), is_named, "{:?}", of.figures);
        }
    }

    #[test]
    fn with_a_run_that_did_not_end_there_is_no_interval() {
        let mut list = assumptions(&Scenario::new("x", HostSpec::new(1)));
        list.truncate(1);
        let [[mut before, after], [least, most]] = [runs(&[1.0, 50.0, 3.0]), runs(&[1.0, 2.0])];
        before[1] = None;
        let assumed = AssumedRuns::new(list, both([before, after], [least, most]));
        let of = GainUncertainty::of("work", vec![("b".to_string(), Some(2.0))], &assumed);
        let UncertainGain { by_assumptions, moved_most, sign_hangs_on, .. } = &of.gains[0];
        assert_eq!((*by_assumptions, moved_most, sign_hangs_on.len(), of.failed), (None, &None, 0, 1));
        let said = of.section("a").sentences;
        assert!(said[1].text.starts_with("1 run with assumed numbers otherwise did not reach its end"), "{said:?}");
    }
}
