//! `exitscope fleet`: what differs between the hosts, kernels or weeks of a store.
//!
//! ```text
//! facts ─► SQL: sums by recording, shape of VM, reason and stretch of time ─► blocks ─┬─► sides ─► comparisons
//! log ──► who, which kernel, which day, what was advised                              └─► hosts ─► who stands out
//! ```

use crate::Outcome;
use crate::cli::{ComparedArgs, EventsFormat, FleetBy, FleetCommand, QueryLimits};
use crate::html_output;
use crate::report::terminal_style;
use crate::sql;
use anyhow::bail;
use chrono::NaiveDate;
use exitscope_analysis::{Diff, DiffBlock, ExitStats, fleet};
use exitscope_model::{ExitParts, TimePart};
use exitscope_page::{ResultPage, write_result_data, write_result_page};
use exitscope_query::{Array, QueryEngine, RecordBatch, ResultColumns};
use exitscope_stats::FineBuckets;
use exitscope_store::RecordingRow;
use exitscope_units::Nanos;
use exitscope_view::{
    Fleet, FleetAdvice, FleetComparison, FleetSide, Headline, LeftOutFile, Outlier, ReasonComparison, Shape,
    fleet_page, write_page,
};
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::Path;

/// Sums by recording, shape, reason and stretch of time.
fn facts_query() -> String {
    let parts: String = TimePart::OF_EXITS.map(|part| format!("sum({0}) as {0}, ", part.column())).concat();
    format!(
        "select recording, vm_vcpus, reason, at_ns, span_ns, sum(count) as count, sum(timed) as timed, sum(user_space_exits) as user_space_exits, \
         {parts}min(min_ns) as min_ns, max(max_ns) as max_ns, histogram_merge(exit_time_bucket_ns, exit_time_bucket_count) as lengths \
         from reason_stats group by recording, vm_vcpus, reason, at_ns, span_ns"
    )
}

/// How many VMs a recording has of each shape, and how many vCPUs were seen of them.
const VMS: &str = "select recording, vm_vcpus, count(distinct coalesce(vm, 0)) as vms, \
    count(distinct struct(vm, vcpu, on_cpu, tid)) as vcpus from reason_stats group by recording, vm_vcpus";

/// The VMs of one shape in one recording, over time.
#[derive(Default)]
struct Recorded {
    /// vCPUs.
    vcpus: u64,
    blocks: Vec<DiffBlock>,
}

type All = BTreeMap<(Shape, String), Recorded>;

pub fn run(command: &FleetCommand, out: &mut dyn Write) -> anyhow::Result<Outcome> {
    let FleetCommand::Report(args) = command;
    if let Some(to) = &args.html {
        html_output::check(to, &[])?;
    }
    let fleet = report(&args.compared, &sql::open(&args.dir, &args.limits)?)?;
    if let Some(to) = &args.html {
        html_output::write(to, |out| write_result_page(&ResultPage::Fleet { fleet: &fleet }, out))?;
        return Ok(Outcome::Fine);
    }
    match args.format {
        EventsFormat::Json => {
            serde_json::to_writer(&mut *out, &fleet)?;
            writeln!(out)?;
        }
        EventsFormat::Text => write_page(&fleet_page(&fleet), terminal_style(), out)?,
    }
    Ok(Outcome::Fine)
}

/// Fails if there is no store.
pub fn check(dir: &Path, limits: &QueryLimits) -> anyhow::Result<()> {
    sql::open(dir, limits).map(drop)
}

/// What the page of a store shows, packed.
pub fn data(dir: &Path, compared: &ComparedArgs, limits: &QueryLimits) -> anyhow::Result<Vec<u8>> {
    let fleet = report(compared, &sql::open(dir, limits)?)?;
    let mut data = Vec::new();
    write_result_data(&ResultPage::Fleet { fleet: &fleet }, &mut data)?;
    Ok(data)
}

fn report(args: &ComparedArgs, engine: &QueryEngine) -> anyhow::Result<Fleet> {
    let within = |run: &&RecordingRow| {
        let day = run.day.parse::<NaiveDate>().unwrap_or_default();
        args.since.is_none_or(|since| day >= since) && args.before.is_none_or(|before| day < before)
    };
    let runs: BTreeMap<&str, &RecordingRow> =
        engine.runs().iter().filter(within).map(|run| (run.id.as_str(), run)).collect();
    let all = read(engine, &runs)?;
    let groups = Groups::new(args, &runs)?;
    let (comparisons, not_compared) = groups.compare(args, &runs, &all);
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
        by: name_of(args.by),
        against: Some(groups.against).filter(|_| !runs.is_empty()),
        confidence_percent: args.confidence,
        comparisons,
        not_compared,
        outliers: outliers(&runs, &all),
        advice: advice(&runs),
    };
    fleet.verdict = fleet.headline();
    Ok(fleet)
}

/// Everything that facts say of these recordings.
fn read(engine: &QueryEngine, runs: &BTreeMap<&str, &RecordingRow>) -> anyhow::Result<All> {
    let mut all = All::new();
    let shape =
        |run: &RecordingRow, vcpus: u64| Shape { arch: run.arch.clone(), cpu: run.cpu.clone(), vcpus: vcpus as u32 };
    let mut read = |sql: &str, of: &mut dyn FnMut(&mut All, &RecordBatch) -> anyhow::Result<()>| {
        let mut failed = Ok(());
        engine.query(sql, &mut |_, batch| {
            failed = batch.map_or(Ok(()), |batch| of(&mut all, batch));
            Ok(failed.is_ok())
        })?;
        failed
    };
    read(VMS, &mut |all, batch| {
        let columns = ResultColumns(batch);
        let (run, vm_vcpus) = (columns.words("recording")?, columns.numbers("vm_vcpus")?);
        let (vms, vcpus) = (columns.numbers("vms")?, columns.numbers("vcpus")?);
        for row in 0..batch.num_rows() {
            let Some(of) = runs.get(run.value(row)) else { continue };
            let known = vm_vcpus.is_valid(row).then(|| vm_vcpus.value(row));
            let recorded = all.entry((shape(of, known.unwrap_or(0)), of.id.clone())).or_default();
            // A vCPU that never left its guest was there nevertheless.
            recorded.vcpus += known.map_or(vcpus.value(row), |each| each * vms.value(row));
        }
        Ok(())
    })?;
    read(&facts_query(), &mut |all, batch| {
        let columns = ResultColumns(batch);
        let (run, reason) = (columns.words("recording")?, columns.words("reason")?);
        let names = ["vm_vcpus", "at_ns", "span_ns", "count", "timed", "user_space_exits", "min_ns", "max_ns"];
        let parts = TimePart::OF_EXITS.map(TimePart::column);
        let numbers: Result<Vec<_>, _> = names.iter().chain(&parts).map(|name| columns.numbers(name)).collect();
        let numbers = numbers?;
        for row in 0..batch.num_rows() {
            let Some(of) = runs.get(run.value(row)) else { continue };
            let number = |at: usize| numbers[at].is_valid(row).then(|| numbers[at].value(row));
            let sum = |at: usize| number(at).unwrap_or(0);
            let Some(recorded) = all.get_mut(&(shape(of, sum(0)), of.id.clone())) else { continue };
            let length = of.last_ns.saturating_sub(of.first_ns).max(1);
            let span = number(2).unwrap_or(length).max(1);
            let at = (number(1).unwrap_or(of.first_ns).saturating_sub(of.first_ns) / span) as usize;
            if recorded.blocks.is_empty() {
                let blocks = length.div_ceil(span).clamp(1, MOST_BLOCKS);
                let duration = (length / blocks).max(1).saturating_mul(recorded.vcpus);
                recorded.blocks = vec![DiffBlock { duration, ..DiffBlock::default() }; blocks as usize];
            }
            let last = recorded.blocks.len() - 1;
            let mut lengths = FineBuckets::default();
            columns.lengths("lengths", row).into_iter().for_each(|(low, count)| lengths.record_many(low, count));
            let cell = ExitStats {
                count: sum(3),
                timed: sum(4),
                user_count: sum(5),
                min: number(6),
                max: sum(7),
                parts: (8..)
                    .zip(TimePart::OF_EXITS)
                    .fold(ExitParts::ZERO, |parts, (at, part)| parts.with(part, Nanos(sum(at)))),
                durations: lengths.into(),
            };
            recorded.blocks[at.min(last)].groups.entry(reason.value(row).to_string()).or_default().merge(&cell);
        }
        Ok(())
    })?;
    Ok(all)
}

/// Stretches of time that a recording has at most, whatever a file says.
const MOST_BLOCKS: u64 = 1024;

/// What is compared with what.
struct Groups {
    by: FleetBy,
    against: String,
    others: Vec<String>,
}

impl Groups {
    fn new(args: &ComparedArgs, runs: &BTreeMap<&str, &RecordingRow>) -> anyhow::Result<Groups> {
        let mut first_days: BTreeMap<String, &str> = BTreeMap::new();
        for run in runs.values() {
            let day = first_days.entry(value_of(args.by, run)).or_insert(&run.day);
            *day = (*day).min(&run.day);
        }
        let mut values: Vec<(&str, String)> = first_days.into_iter().map(|(value, day)| (day, value)).collect();
        values.sort();
        let mut values: Vec<String> = values.into_iter().map(|of| of.1).collect();
        let at = match &args.against {
            None => 0,
            Some(against) => match values.iter().position(|value| value == against) {
                Some(at) => at,
                None => {
                    bail!("no recording is of the {} {against}; there are: {}", name_of(args.by), values.join(", "))
                }
            },
        };
        let against = if values.is_empty() { String::new() } else { values.remove(at) };
        Ok(Groups { by: args.by, against, others: values })
    }

    /// Every other value with the one that it is compared with, shape by shape; and what has no counterpart.
    fn compare(
        &self,
        args: &ComparedArgs,
        runs: &BTreeMap<&str, &RecordingRow>,
        all: &All,
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
                let rows = new.against(&old, (args.confidence * 100.0).round() as u64);
                let rows = rows.iter().map(ReasonComparison::of).collect();
                let sides = [before.clone(), after];
                let of = FleetComparison::new(name_of(self.by), value.clone(), shape.clone(), sides, rows);
                comparisons.push(of.top(args.top));
            }
        }
        (comparisons, not_compared)
    }

    /// Hosts are drawn as a whole; where hosts themselves are compared, recordings.
    fn side(&self, runs: &BTreeMap<&str, &RecordingRow>, all: &All, shape: &Shape, value: &str) -> (FleetSide, Diff) {
        let mut units: BTreeMap<&str, Vec<DiffBlock>> = BTreeMap::new();
        let (mut side, mut hosts) = (FleetSide::default(), BTreeSet::new());
        for ((of, id), recorded) in all {
            let Some(run) = runs.get(id.as_str()).filter(|run| of == shape && value_of(self.by, run) == value) else {
                continue;
            };
            hosts.insert(&run.host);
            side.recordings += 1;
            side.vcpu_ns += recorded.blocks.iter().map(|block| block.duration).sum::<u64>();
            let unit = if self.by == FleetBy::Host { id.as_str() } else { run.host.as_str() };
            units.entry(unit).or_default().extend(recorded.blocks.iter().cloned());
        }
        side.hosts = hosts.len() as u64;
        (side, fleet::side(units.into_values().collect()))
    }
}

fn name_of(by: FleetBy) -> &'static str {
    match by {
        FleetBy::Kernel => "kernel",
        FleetBy::Host => "host",
        FleetBy::Week => "week",
        FleetBy::Day => "day",
    }
}

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

/// Hosts whose VMs of a shape cost far more or less than those of the others.
fn outliers(runs: &BTreeMap<&str, &RecordingRow>, all: &All) -> Vec<Outlier> {
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
fn advice(runs: &BTreeMap<&str, &RecordingRow>) -> Vec<FleetAdvice> {
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
