//! Honest measuring: rounds in which everything takes turns, medians, intervals, and how noisy the machine was.
//!
//! ```text
//! round 0 (warm-up): a b c d · round 1: a b c d · round 2: d c b a · …
//! each turn: samples ─► its median ─┐
//!                                   ├─► Summary: median of all, interval of the rounds' medians, spread, outliers
//! ```

use crate::{LabError, LabMachine, Span, host};
use exitscope_scenario::findings::{ESTIMATOR, FindingFigure, Manifest, Unit};
use exitscope_signals::signalled;
use exitscope_stats::{Estimate, quantile_of_sorted};
use std::collections::BTreeSet;
use std::time::Duration;

/// How long and how often to measure.
#[derive(Clone, Copy, Debug)]
pub struct MeasurePlan {
    /// Rounds, not counting the first one, which warms up.
    pub rounds: u32,
    /// How long each row is measured, all rounds together.
    pub duration: Duration,
    /// Whether to keep vCPUs on a CPU each, where there are enough and that is permitted.
    pub pin: bool,
    /// Who is told how many turns are over, of how many.
    pub progress: Option<fn(u64, u64)>,
}

impl Default for MeasurePlan {
    fn default() -> MeasurePlan {
        MeasurePlan { rounds: 10, duration: Duration::from_millis(200), pin: true, progress: None }
    }
}

impl MeasurePlan {
    /// How long one turn may take.
    pub fn turn(&self) -> Duration {
        self.duration / self.rounds.max(1)
    }

    /// How many samples fit into a turn, if one takes so many ticks; at least 20.
    pub fn samples(&self, machine: &LabMachine, ticks: f64, most: u64) -> u64 {
        MeasurePlan::samples_in(self.turn(), machine, ticks, most)
    }

    /// The same of a turn of its own length.
    pub fn samples_in(turn: Duration, machine: &LabMachine, ticks: f64, most: u64) -> u64 {
        let ns = machine.ns_in(ticks.max(1.0));
        ((turn.as_nanos() as f64 / ns) as u64).clamp(20, most)
    }
}

/// The order in which `count` things take turns in a round: forwards and backwards, so that drift affects all equally.
pub fn order(round: u32, count: usize) -> impl Iterator<Item = usize> {
    (0..count).map(move |at| if round.is_multiple_of(2) { at } else { count - 1 - at })
}

/// Runs `turn(round, thing)` in interleaved order, a warm-up round first, in which the round's number is `None`.
pub fn take_turns(
    plan: &MeasurePlan,
    count: usize,
    mut turn: impl FnMut(Option<u32>, usize) -> Result<(), LabError>,
) -> Result<(), LabError> {
    let rounds = std::iter::once(None).chain((0..plan.rounds).map(Some));
    let (mut over, all) = (0, (u64::from(plan.rounds) + 1) * count as u64);
    for round in rounds {
        for thing in order(round.unwrap_or(0), count) {
            if let Some(signal) = signalled() {
                return Err(LabError::Signal(signal));
            }
            turn(round, thing)?;
            over += 1;
            plan.progress.inspect(|tell| tell(over, all));
        }
    }
    Ok(())
}

/// Samples of one thing, in ticks, round by round.
#[derive(Clone, Debug, Default)]
pub struct Series {
    rounds: Vec<f64>,
    all: Vec<f64>,
}

/// What the samples say; all but the counts in ticks.
#[derive(Clone, Debug, PartialEq)]
pub struct Summary {
    /// The middle one.
    pub median: f64,
    /// The 95 % confidence interval of it, from round to round.
    pub interval: Option<(f64, f64)>,
    /// The 5th and the 95th percentile.
    pub spread: (f64, f64),
    /// The largest.
    pub largest: f64,
    /// The number of samples.
    pub samples: u64,
    /// How many of them are beyond the middle half by more than three times its width. They are in all figures.
    pub outliers: u64,
    /// The rounds' medians.
    pub rounds: Vec<f64>,
}

impl Series {
    /// Adds a round's samples, of which each is `base` too large.
    pub fn add(&mut self, samples: &[u32], base: f64) {
        let mut values: Vec<f64> = samples.iter().map(|&sample| f64::from(sample) - base).collect();
        values.sort_by(f64::total_cmp);
        self.rounds.extend(quantile_of_sorted(&values, 5_000));
        self.all.append(&mut values);
    }

    /// The rounds' medians.
    pub fn rounds(&self) -> &[f64] {
        &self.rounds
    }

    /// What they say; `None` of none.
    pub fn summary(&self) -> Option<Summary> {
        let mut all = self.all.clone();
        all.sort_by(f64::total_cmp);
        let at = |per_10_000| quantile_of_sorted(&all, per_10_000);
        let (low, median, high) = (at(2_500)?, at(5_000)?, at(7_500)?);
        let far = 3.0 * (high - low);
        Some(Summary {
            median,
            interval: Estimate::of(&self.rounds).and_then(|estimate| {
                // Centred on the median of all, as that is the figure shown.
                let (low, high) = estimate.interval?;
                Some((median + low - estimate.mean, median + high - estimate.mean))
            }),
            spread: (at(500)?, at(9_500)?),
            largest: *all.last()?,
            samples: all.len() as u64,
            outliers: all.iter().filter(|&&value| value < low - far || value > high + far).count() as u64,
            rounds: self.rounds.clone(),
        })
    }
}

impl Summary {
    /// The summary of `parts` times as much, by part.
    pub fn divided(&self, parts: f64) -> Summary {
        let pair = |(low, high): (f64, f64)| (low / parts, high / parts);
        Summary {
            median: self.median / parts,
            interval: self.interval.map(pair),
            spread: pair(self.spread),
            largest: self.largest / parts,
            rounds: self.rounds.iter().map(|round| round / parts).collect(),
            samples: self.samples,
            outliers: self.outliers,
        }
    }

    /// As figures: in nanoseconds, and in cycles.
    pub fn figures(&self, machine: &LabMachine) -> Vec<FindingFigure> {
        let ns = |ticks: f64| machine.ns_in(ticks);
        let pair = |(low, high): (f64, f64)| (ns(low), ns(high));
        let time = FindingFigure {
            name: "time",
            unit: Unit::Nanos,
            value: ns(self.median),
            interval: self.interval.map(pair),
            spread: Some(pair(self.spread)),
            samples: Some((self.samples, self.outliers)),
            rounds: self.rounds.iter().map(|&round| ns(round)).collect(),
        };
        let cycles = FindingFigure::plain("cycles", Unit::Cycles, self.median);
        vec![time, cycles, FindingFigure::plain("largest", Unit::Nanos, ns(self.largest))]
    }
}

/// How quiet the machine was while something ran.
#[derive(Clone, Copy, Debug)]
pub struct Noise {
    steal_ticks: u64,
    switches: i64,
    migrations: Option<u64>,
}

impl Noise {
    /// The counts so far.
    pub fn now() -> Noise {
        // SAFETY: the kernel fills in one `rusage`.
        let usage = unsafe {
            let mut usage: libc::rusage = std::mem::zeroed();
            libc::getrusage(libc::RUSAGE_SELF, &mut usage);
            usage
        };
        let stat = std::fs::read_to_string("/proc/stat").unwrap_or_default();
        let steal = stat.lines().next().and_then(|line| line.split_whitespace().nth(8)?.parse().ok());
        let sched = std::fs::read_to_string("/proc/self/sched").unwrap_or_default();
        let migrations = sched.lines().find(|line| line.starts_with("se.nr_migrations"));
        Noise {
            steal_ticks: steal.unwrap_or(0),
            switches: usage.ru_nivcsw,
            migrations: migrations.and_then(|line| line.rsplit(':').next()?.trim().parse().ok()),
        }
    }

    /// What happened since, if it is worth a warning.
    pub fn warnings(&self, took: Duration, cpus: usize) -> Vec<String> {
        const HZ: f64 = 100.0;
        let now = Noise::now();
        let seconds = took.as_secs_f64().max(1e-3);
        let mut warnings = Vec::new();
        let stolen = now.steal_ticks.saturating_sub(self.steal_ticks) as f64 / HZ / (seconds * cpus.max(1) as f64);
        if stolen > 0.01 {
            warnings.push(format!(
                "the hypervisor below took {:.1} % of the CPUs' time away (steal): times are too long by that and more",
                stolen * 100.0
            ));
        }
        let switches = (now.switches - self.switches) as f64 / seconds;
        if switches > 50.0 {
            warnings.push(format!(
                "threads of the lab were preempted {switches:.0} times a second, by other programs or by each other: \
                 for reliable figures, use a quiet machine with a CPU for each vCPU"
            ));
        }
        let moved = now.migrations.zip(self.migrations).map_or(0.0, |(now, then)| (now - then) as f64 / seconds);
        if moved > 20.0 {
            warnings.push(format!("the lab's main thread was moved between CPUs {moved:.0} times a second"));
        }
        warnings
    }
}

/// What ran an experiment.
pub(crate) fn manifest(machine: &LabMachine, plan: &MeasurePlan) -> Manifest {
    let kept_on = machine.kept.cpus();
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    Manifest {
        back_end: machine.back_end.clone(),
        emulates_ring_0: machine.emulates_ring_0,
        vendor: machine.vendor.clone(),
        cpu: host::of_cpu("model name"),
        kernel: kernel.trim().to_string(),
        tsc_hz: machine.tsc_hz,
        cpus: machine.cpus.len(),
        pinned: each_has_one(&kept_on),
        kept_on,
        clock: Span::CLOCK,
        estimator: ESTIMATOR,
        rounds: plan.rounds,
        duration_ns: plan.duration.as_nanos() as u64,
    }
}

/// Whether every thread was kept on one CPU, which is no other's.
fn each_has_one(kept_on: &[Vec<usize>]) -> bool {
    let single: BTreeSet<_> = kept_on.iter().filter(|cpus| cpus.len() == 1).collect();
    !kept_on.is_empty() && single.len() == kept_on.len()
}

/// What is to be said of the machine itself before any figure.
pub(crate) fn machine_warnings(machine: &LabMachine) -> Vec<String> {
    let mut warnings = Vec::new();
    if machine.emulates_ring_0 {
        warnings.push(format!(
            "KVM's back end here ({}) emulates ring 0 of guests: whatever needs ring 0 costs what its emulation \
             costs, and no figure is hardware's",
            machine.back_end
        ));
    }
    if let Some(said) = machine.kvm_tsc_hz
        && (machine.tsc_hz as f64 / said as f64 - 1.0).abs() > 0.005
    {
        warnings.push(format!(
            "the time stamp counter ran at {} Hz, but KVM says {said} Hz: lengths use the former",
            machine.tsc_hz
        ));
    }
    warnings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_series_gives_its_middle_its_spread_and_its_outliers() {
        let mut series = Series::default();
        for round in 0..4 {
            let mut samples: Vec<u32> = (101 + round..=200 + round).collect();
            samples.push(1_000_000);
            series.add(&samples, 100.0);
        }
        let summary = series.summary().unwrap();
        assert_eq!((summary.samples, summary.outliers), (404, 4));
        assert!((50.0..54.0).contains(&summary.median), "{summary:?}");
        assert_eq!(summary.largest, 999_900.0);
        let (low, high) = summary.interval.unwrap();
        assert!(low < summary.median && summary.median < high && high - low < 10.0, "{summary:?}");
        assert_eq!(Series::default().summary(), None);
    }

    #[test]
    fn turns_are_taken_forwards_and_backwards_after_a_warm_up() {
        let mut taken = Vec::new();
        let plan = MeasurePlan { rounds: 2, ..MeasurePlan::default() };
        take_turns(&plan, 3, |round, thing| {
            taken.push((round, thing));
            Ok(())
        })
        .unwrap();
        let expected = [None, Some(0), Some(1)].map(|round| {
            let order = if round == Some(1) { [2, 1, 0] } else { [0, 1, 2] };
            order.map(|thing| (round, thing))
        });
        assert_eq!(taken, expected.concat());
    }
}
