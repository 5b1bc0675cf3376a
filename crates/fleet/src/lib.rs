//! What differs between the hosts, kernels, weeks or days of a store.
//!
//! ```text
//! reason_stats ─► SQL: sums by recording, shape of VM, reason and time bucket ─► blocks ─┬─► sides ─► comparisons
//! log ──────────► who, which kernel, which day, what was advised                         └─► hosts ─► who stands out
//! ```
//!
//! Does not know: flags, files, drawing.

mod recorded;

use chrono::NaiveDate;
use exitscope_analysis::MeasureChange;
use exitscope_analysis::{Diff, DiffBlock, fleet};
use exitscope_query::{QueryEngine, QueryError};
use exitscope_store::RecordingRow;
use exitscope_view::{
    Fleet, FleetAdvice, FleetBy, FleetComparison, FleetSide, FleetUnit, Headline, LeftOutFile, Outlier,
    ReasonComparison, Shape,
};
use recorded::RecordedByShape;
use std::collections::{BTreeMap, BTreeSet};

/// What is compared with what.
#[derive(Clone, Debug)]
pub struct FleetOptions {
    /// What is compared.
    pub by: FleetBy,
    /// The value that others are compared with; none for the one whose first day is the earliest.
    pub against: Option<String>,
    /// Only recordings from this day on.
    pub since: Option<NaiveDate>,
    /// Only recordings from before this day.
    pub before: Option<NaiveDate>,
    /// Reasons of each comparison at most.
    pub top: usize,
    /// Confidence of the intervals, in per cent.
    pub confidence_percent: f64,
}

/// What a recording is of, by which a fleet is compared.
fn value_of(by: FleetBy, run: &RecordingRow) -> String {
    let week = || run.day.parse::<NaiveDate>().map(|day| day.format("%G-W%V").to_string());
    match by {
        FleetBy::Kernel if run.release.is_empty() => "unknown".to_string(),
        FleetBy::Kernel => run.release.clone(),
        FleetBy::Host => run.host.clone(),
        FleetBy::Week => week().unwrap_or_default(),
        FleetBy::Day => run.day.clone(),
    }
}

/// Why a fleet could not be compared.
#[derive(Debug, thiserror::Error)]
pub enum FleetError {
    /// The store could not be queried.
    #[error(transparent)]
    Query(#[from] QueryError),
    /// There is nothing of the value that others are to be compared with.
    #[error("no recording is of the {by} {against}; there are: {}", .values.join(", "))]
    Against {
        /// What is compared.
        by: &'static str,
        /// The value.
        against: String,
        /// The values that there are, the earliest first.
        values: Vec<String>,
    },
}

/// Recordings by id.
type Runs<'a> = BTreeMap<&'a str, &'a RecordingRow>;

/// Compares the recordings of a store.
pub fn report(engine: &QueryEngine, options: &FleetOptions) -> Result<Fleet, FleetError> {
    let within = |run: &&RecordingRow| {
        let day = run.day.parse::<NaiveDate>().unwrap_or_default();
        options.since.is_none_or(|since| day >= since) && options.before.is_none_or(|before| day < before)
    };
    let runs: Runs<'_> = engine.runs().iter().filter(within).map(|run| (run.id.as_str(), run)).collect();
    let all = recorded::read(engine, &runs)?;
    let groups = Groups::new(options, &runs)?;
    let (comparisons, not_compared) = groups.compare(options, &runs, &all);
    let days = || runs.values().map(|run| run.day.clone());
    let mut fleet = Fleet {
        schema: Fleet::SCHEMA,
        verdict: Headline::default(),
        recordings: runs.len() as u64,
        hosts: runs.values().map(|run| &run.host).collect::<BTreeSet<_>>().len() as u64,
        first_day: days().min().unwrap_or_default(),
        last_day: days().max().unwrap_or_default(),
        exits: runs.values().map(|run| run.exits).sum(),
        lost: runs.values().map(|run| run.lost).sum(),
        left_out: engine
            .left_out()
            .iter()
            .map(|file| LeftOutFile { path: file.path.clone(), why: file.why.clone() })
            .collect(),
        by: options.by,
        against: Some(groups.against).filter(|_| !runs.is_empty()),
        confidence_percent: options.confidence_percent,
        comparisons,
        not_compared,
        outliers: outliers(&runs, &all),
        advice: advice(&runs),
    };
    fleet.verdict = fleet.headline();
    Ok(fleet)
}

/// The values that are compared with one.
struct Groups {
    by: FleetBy,
    against: String,
    others: Vec<String>,
}

impl Groups {
    fn new(options: &FleetOptions, runs: &Runs<'_>) -> Result<Groups, FleetError> {
        let mut first_days: BTreeMap<String, &str> = BTreeMap::new();
        for run in runs.values() {
            let day = first_days.entry(value_of(options.by, run)).or_insert(&run.day);
            *day = (*day).min(&run.day);
        }
        let mut values: Vec<(&str, String)> = first_days.into_iter().map(|(value, day)| (day, value)).collect();
        values.sort();
        let mut values: Vec<String> = values.into_iter().map(|of| of.1).collect();
        let at = match &options.against {
            None => 0,
            Some(against) => match values.iter().position(|value| value == against) {
                Some(at) => at,
                None => {
                    return Err(FleetError::Against { by: options.by.name(), against: against.clone(), values });
                }
            },
        };
        let against = if values.is_empty() { String::new() } else { values.remove(at) };
        Ok(Groups { by: options.by, against, others: values })
    }

    /// Every other value with the one that it is compared with, shape by shape; and what has no counterpart.
    fn compare(
        &self,
        options: &FleetOptions,
        runs: &Runs<'_>,
        all: &RecordedByShape,
    ) -> (Vec<FleetComparison>, Vec<String>) {
        let shapes: BTreeSet<&Shape> = all.keys().map(|key| &key.0).collect();
        let (mut comparisons, mut not_compared) = (Vec::new(), Vec::new());
        for shape in shapes {
            let (before, old) = self.side(runs, all, shape, &self.against);
            for value in &self.others {
                let (after, new) = self.side(runs, all, shape, value);
                match (before.recordings, after.recordings) {
                    (0, 0) => continue,
                    (0, _) | (_, 0) => {
                        let (only, other) = match before.recordings {
                            0 => (value, &self.against),
                            _ => (&self.against, value),
                        };
                        not_compared.push(format!("not compared: {shape} are only of {only}, and not of {other}"));
                        continue;
                    }
                    _ => {}
                }
                let rows = new.against(&old, (options.confidence_percent * 100.0).round() as u64);
                let rows = rows
                    .iter()
                    .map(|row| ReasonComparison::of(row, &|_, change: &MeasureChange| change.verdict()))
                    .collect();
                let sides = [before.clone(), after];
                let of = FleetComparison::new(self.by, value.clone(), shape.clone(), sides, rows);
                comparisons.push(of.top(options.top));
            }
        }
        (comparisons, not_compared)
    }

    /// Hosts are drawn as a whole; where hosts themselves are compared, recordings.
    fn side(&self, runs: &Runs<'_>, all: &RecordedByShape, shape: &Shape, value: &str) -> (FleetSide, Diff) {
        let mut units: BTreeMap<&str, Vec<DiffBlock>> = BTreeMap::new();
        let (mut side, mut hosts) = (FleetSide::default(), BTreeSet::new());
        for ((of, id), recorded) in all {
            let Some(run) = runs.get(id.as_str()).filter(|run| of == shape && value_of(self.by, run) == value) else {
                continue;
            };
            hosts.insert(&run.host);
            side.recordings += 1;
            side.vcpu_ns += recorded.blocks.iter().map(|block| block.duration).sum::<u64>();
            let unit = match self.by.unit() {
                FleetUnit::Recordings => id.as_str(),
                FleetUnit::Hosts => run.host.as_str(),
            };
            units.entry(unit).or_default().extend(recorded.blocks.iter().cloned());
        }
        side.hosts = hosts.len() as u64;
        // A host is on both sides where kernels, weeks or days are compared; a recording is not.
        let name = |unit: &str| (self.by.unit() == FleetUnit::Hosts).then(|| unit.to_string());
        (side, fleet::side(units.into_iter().map(|(unit, blocks)| (name(unit), blocks)).collect()))
    }
}

/// Hosts whose VMs of a shape cost far more or less than those of the others.
fn outliers(runs: &Runs<'_>, all: &RecordedByShape) -> Vec<Outlier> {
    let mut shapes: BTreeMap<&Shape, BTreeMap<&str, DiffBlock>> = BTreeMap::new();
    for ((shape, id), recorded) in all {
        let Some(run) = runs.get(id.as_str()) else { continue };
        let host = shapes.entry(shape).or_default().entry(&run.host).or_default();
        recorded.blocks.iter().for_each(|block| host.merge(block));
    }
    let per_s = |ns: u64, block: &DiffBlock| ns as f64 * 1e9 / block.duration.max(1) as f64;
    let cost = |block: &DiffBlock| per_s(block.groups.values().map(|cell| cell.cost().0).sum(), block);
    let of_reason =
        |block: &DiffBlock, reason: &str| per_s(block.groups.get(reason).map_or(0, |cell| cell.cost().0), block);
    let mut outliers = Vec::new();
    for (shape, hosts) in shapes {
        let costs: Vec<f64> = hosts.values().map(cost).collect();
        let Some((usual, scores)) = fleet::scores(&costs) else { continue };
        for ((name, block), (own, score)) in hosts.iter().zip(costs.iter().zip(scores)) {
            if score.abs() <= fleet::STANDS_OUT {
                continue;
            }
            let medians =
                hosts.values().flat_map(|block| block.groups.keys()).collect::<BTreeSet<_>>().into_iter().map(
                    |reason| {
                        let of: Vec<f64> = hosts.values().map(|block| of_reason(block, reason)).collect();
                        (reason, of_reason(block, reason), fleet::median(&of))
                    },
                );
            let farthest = medians.max_by(|a, b| (a.1 - a.2).abs().total_cmp(&(b.1 - b.2).abs()));
            let Some((reason, reason_cost, reason_usual)) = farthest else { continue };
            outliers.push(Outlier {
                host: name.to_string(),
                shape: shape.clone(),
                hosts: hosts.len() as u64,
                cost_ns_per_s: *own,
                median_ns_per_s: usual,
                score,
                reason: reason.clone(),
                reason_ns_per_s: reason_cost,
                reason_median_ns_per_s: reason_usual,
            });
        }
    }
    outliers.sort_by(|a, b| b.score.abs().total_cmp(&a.score.abs()));
    outliers
}

/// What is advised by the newest recording of each host.
fn advice(runs: &Runs<'_>) -> Vec<FleetAdvice> {
    let mut newest: BTreeMap<&str, &RecordingRow> = BTreeMap::new();
    for run in runs.values() {
        let of = newest.entry(&run.host).or_insert(run);
        if (&run.day, &run.id) > (&of.day, &of.id) {
            *of = run;
        }
    }
    let mut all: Vec<FleetAdvice> = Vec::new();
    for run in newest.values() {
        let mut seen = BTreeSet::new();
        for advice in &run.advice {
            let same = |row: &&mut FleetAdvice| {
                (&row.change, &row.gain_kind, &row.method) == (&advice.change, &advice.gain_kind, &advice.method)
            };
            let row = match all.iter_mut().find(same) {
                Some(row) => row,
                None => {
                    let (change, gain_kind, method) =
                        (advice.change.clone(), advice.gain_kind.clone(), advice.method.clone());
                    all.push(FleetAdvice { change, gain_kind, method, hosts: 0, low_ns_per_s: 0, high_ns_per_s: 0 });
                    let last = all.len() - 1;
                    &mut all[last]
                }
            };
            // Several VMs of a host may need the same.
            row.hosts += u64::from(seen.insert((&advice.change, &advice.gain_kind, &advice.method)));
            row.low_ns_per_s += advice.low_ns_per_s;
            row.high_ns_per_s += advice.high_ns_per_s;
        }
    }
    all.sort_by_key(|row| std::cmp::Reverse((row.hosts, row.high_ns_per_s)));
    all
}
