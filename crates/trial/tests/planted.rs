//! Trials of simulated series: planted changes are found and lie within their intervals, and where there is none, false alarms
//! are as seldom as is said. The seeds are fixed, so nothing here depends on chance. docs/try.md has the counts.

use exitscope_trial::{
    Better, HostTrial, MetricUnit, RelativeChange, TrialEnd, TrialLengths, TrialMetric, TrialPlan, TrialRules,
    TrialRuling,
};
use exitscope_units::Nanos;
use rand::{Rng, SeedableRng};
use rand_distr::{Distribution, StandardNormal, StudentT};
use rand_pcg::Pcg64Mcg;
use std::f64::consts::TAU;
use std::fmt::Write;
use std::fs;
use std::path::Path;

/// Trials without a change of each kind of noise, and trials with a planted one.
const NULLS: u64 = 200;
const PLANTED: u64 = 100;

/// Values of a metric within a turn, of which the turn's value is the mean.
const SAMPLES: u32 = 8;

/// Blocks of a trial at most.
const BLOCKS: u64 = 120;

/// What disturbs a metric.
#[derive(Clone, Copy, Debug)]
enum Noise {
    /// Normal samples, independent.
    Normal,
    /// Student's t with three degrees of freedom: one in a hundred is beyond 5.8 times its scale.
    HeavyTails,
    /// Each sample remembers 80 % of the one before: forgotten within a turn or two.
    Remembers,
    /// Each sample remembers 99.5 % of the one before: more than a block later there is much left of it.
    RemembersLong,
    /// Three times as much at the end as at the beginning.
    Drifts,
    /// Half as much again between two moments of the trial.
    Steps,
    /// One in a hundred turns is twice as high, whatever the setting.
    Outliers,
    /// Mostly small, seldom large: the exponential of a normal number.
    Skewed,
    /// Every third turn is a tenth higher: something that has its time, as turns have theirs.
    Periodic,
    /// Whole numbers from 16 to 24: many differences are equal.
    Coarse,
    /// Half as much again for five turns in a row, at one in forty of the turns at which it is not.
    Bursts,
    /// A third more in every second turn, by chance: a CPU that has its boost or has not.
    TwoLevels,
    /// A wave of two and a half blocks, up and down by a third.
    Waves,
    /// Six times the spread at the end than at the beginning.
    Spreads,
}

/// Each kind, and what it is called in the docs.
const NOISES: [(Noise, &str); 14] = [
    (Noise::Normal, "normal, each turn by itself"),
    (Noise::HeavyTails, "heavy tails (Student's t, 3 degrees of freedom)"),
    (Noise::Remembers, "remembers what was, for a turn or two"),
    (Noise::RemembersLong, "remembers what was, for longer than a block"),
    (Noise::Drifts, "three times as much at the end as at the beginning"),
    (Noise::Steps, "half as much again between two moments"),
    (Noise::Outliers, "one turn in a hundred twice as high"),
    (Noise::Skewed, "mostly small, seldom large (log-normal)"),
    (Noise::Periodic, "every third turn a tenth higher"),
    (Noise::Coarse, "whole numbers from 16 to 24"),
    (Noise::Bursts, "bursts of five turns, half as much again"),
    (Noise::TwoLevels, "half of the turns a third higher, by chance"),
    (Noise::Waves, "a wave of two and a half blocks, up and down by a third"),
    (Noise::Spreads, "six times the spread at the end"),
];

/// A metric on a host.
struct Host {
    noise: Noise,
    random: Pcg64Mcg,
    /// What a sample remembers.
    past: f64,
    /// Between which parts of the trial the level is higher.
    step: [f64; 2],
    /// Turns that are left of a burst.
    burst: u32,
}

impl Host {
    fn new(noise: Noise, seed: u64) -> Host {
        let mut random = Pcg64Mcg::seed_from_u64(seed);
        let mut part = || random.random::<f64>();
        let step = [part(), part()];
        Host { noise, past: 0.0, step: [step[0].min(step[1]), step[0].max(step[1])], burst: 0, random }
    }

    /// The value of a turn; `at` is the part of the trial that is over.
    fn measure(&mut self, turn: usize, at: f64) -> f64 {
        let is_burst = matches!(self.noise, Noise::Bursts) && self.is_burst();
        let level = match self.noise {
            Noise::Drifts => 1.0 + 2.0 * at,
            Noise::Steps if (self.step[0]..self.step[1]).contains(&at) => 1.5,
            Noise::Outliers if self.random.random_bool(0.01) => 2.0,
            Noise::Periodic if turn.is_multiple_of(3) => 1.1,
            Noise::Bursts if is_burst => 1.5,
            Noise::TwoLevels if self.random.random_bool(0.5) => 1.3,
            Noise::Waves => 1.0 + 0.3 * (turn as f64 / 10.0 * TAU).sin(),
            _ => 1.0,
        };
        level * (0..SAMPLES).map(|_| self.sample(at)).sum::<f64>() / f64::from(SAMPLES)
    }

    fn is_burst(&mut self) -> bool {
        self.burst = match self.burst {
            0 if self.random.random_bool(1.0 / 40.0) => 5,
            left => left.saturating_sub(1),
        };
        self.burst > 0
    }

    fn sample(&mut self, at: f64) -> f64 {
        let mut normal = || -> f64 { StandardNormal.sample(&mut self.random) };
        match self.noise {
            Noise::HeavyTails => f64::max(0.01, 1.0 + 0.06 * StudentT::new(3.0).unwrap().sample(&mut self.random)),
            Noise::Remembers => {
                self.past = 0.8 * self.past + 0.03 * normal();
                1.0 + self.past
            }
            Noise::RemembersLong => {
                self.past = 0.995 * self.past + 0.01 * normal();
                self.past.exp()
            }
            Noise::Skewed => (0.5 * normal()).exp(),
            Noise::Coarse => (1.0 + 0.08 * normal()).clamp(0.8, 1.2),
            Noise::Spreads => f64::max(0.0, 1.0 + 0.05 * (1.0 + 5.0 * at) * normal()),
            _ => 1.0 + 0.1 * normal(),
        }
    }
}

fn limited_plan(settings: usize, blocks: u64, seed: u64) -> TrialPlan {
    let each = 2 * settings as u64 * 6;
    let lengths = TrialLengths { settle: Nanos(1), turn: Nanos(5), total: Nanos(blocks * each) };
    let settings = (0..settings).map(|at| at.to_string()).collect();
    TrialPlan::new(settings, lengths, 0.05, seed).unwrap()
}

fn rules(matters: f64) -> TrialRules {
    let metric = TrialMetric { name: "metric".to_string(), unit: MetricUnit::Number, better: Better::Higher };
    TrialRules { metrics: vec![metric], matters, limits: vec![] }
}

/// A trial whose settings multiply the metric by `factors`.
fn run(noise: Noise, seed: u64, factors: &[f64], matters: f64) -> HostTrial {
    run_blocks(noise, seed, factors, matters, BLOCKS as usize)
}

/// The same, at most so many blocks of it.
fn run_blocks(noise: Noise, seed: u64, factors: &[f64], matters: f64, blocks: usize) -> HostTrial {
    let mut trial = HostTrial::new(limited_plan(factors.len(), BLOCKS, seed), rules(matters));
    let mut host = Host::new(noise, seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let length = trial.plan().length().0 as f64;
    let mut number = 0;
    while let Some(turn) = trial.turn().filter(|turn| turn.block < blocks) {
        let value = host.measure(number, turn.from.0 as f64 / length) * factors[turn.setting];
        let value = if let Noise::Coarse = noise { (value * 20.0).round() } else { value };
        trial.absorb(&[Some(value)]).unwrap();
        number += 1;
    }
    trial
}

/// What came of the setting at this place: the ruling, and its change.
fn found(trial: &HostTrial, at: usize) -> (TrialRuling, RelativeChange) {
    let verdict = trial.verdict();
    (verdict.settings[at].ruling, verdict.settings[at].effects[0].change.unwrap())
}

fn holds(change: RelativeChange, percent: f64) -> bool {
    change.interval.is_none_or(|(low, high)| low <= percent && percent <= high)
}

/// The most that a chance gives in 99 of 100 series of `of` cases.
fn at_most(chance: f64, of: u64) -> u64 {
    let (mut each, mut sum) = ((1.0 - chance).powi(of as i32), 0.0);
    for count in 0..of {
        sum += each;
        if sum >= 0.99 {
            return count;
        }
        each *= (of - count) as f64 / (count + 1) as f64 * chance / (1.0 - chance);
    }
    of
}

#[test]
fn the_most_that_chance_gives_is_as_tables_have_it() {
    // Binomial, 200 cases at 5 %: more than 17 in 1.2 % of series, more than 18 in 0.6 %.
    assert_eq!((at_most(0.05, 200), at_most(0.05, 100)), (18, 11));
}

/// What trials with a kind of noise came to.
struct Counts {
    false_alarms: u64,
    found: u64,
    /// Intervals that hold the planted change, at the end of each trial.
    hold: u64,
}

fn counts(noise: Noise) -> Counts {
    let is_false_alarm = |seed: &u64| {
        let (ruling, _) = found(&run(noise, 1_000 + seed, &[1.0, 1.0], 0.0), 0);
        matches!(ruling, TrialRuling::Keep | TrialRuling::Revert)
    };
    let planted = |seed: u64| {
        let (factor, ruling) =
            if seed.is_multiple_of(2) { (1.1, TrialRuling::Keep) } else { (0.9, TrialRuling::Revert) };
        let (decided, change) = found(&run(noise, seed, &[1.0, factor], 1.0), 0);
        (decided == ruling, holds(change, (factor - 1.0) * 100.0))
    };
    let planted: Vec<(bool, bool)> = (0..PLANTED).map(planted).collect();
    Counts {
        false_alarms: (0..NULLS).filter(is_false_alarm).count() as u64,
        found: planted.iter().filter(|of| of.0).count() as u64,
        hold: planted.iter().filter(|of| of.1).count() as u64,
    }
}

#[test]
fn the_docs_tell_how_often_unchanged_series_raise_an_alarm_and_planted_changes_are_found() {
    let mut table = format!("| noise | false alarms of {NULLS} | found of {PLANTED} | intervals that hold it |\n");
    table.push_str("| --- | ---: | ---: | ---: |\n");
    let mut alarms = 0;
    for (noise, name) in NOISES {
        let Counts { false_alarms, found, hold } = counts(noise);
        assert!(false_alarms <= at_most(0.05, NULLS), "{name}: {false_alarms} of {NULLS}");
        // All but what chance may take of intervals of which 95 in 100 hold, and of changes that are far from small.
        assert!(found >= 95 && PLANTED - hold <= at_most(0.05, PLANTED), "{name}: {found} found, {hold} hold");
        writeln!(table, "| {name} | {false_alarms} | {found} | {hold} |").unwrap();
        alarms += false_alarms;
    }
    let all = NULLS * NOISES.len() as u64;
    writeln!(table, "| all | {alarms} of {all} | | |").unwrap();
    assert!(alarms <= at_most(0.05, all));
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/try.md");
    let text = fs::read_to_string(&path).unwrap();
    let (begin, end) = ("<!-- by `cargo xtask nulls --try` -->\n\n", "\n<!-- end -->");
    let (before, rest) = text.split_once(begin).expect(begin);
    let (written, after) = rest.split_once(end).expect(end);
    if std::env::var_os("EXITSCOPE_WRITE_DOCUMENTS").is_some() {
        fs::write(&path, [before, begin, &table, end, after].concat()).unwrap();
    } else {
        assert_eq!(written, table, "`cargo xtask nulls --try` writes it anew");
    }
}

#[test]
fn a_plan_says_which_change_its_trial_finds_in_80_of_100() {
    for (settings, blocks) in [(2, 27), (2, 100), (4, 30)] {
        for could_find in HostTrial::new(limited_plan(settings, blocks, 1), rules(0.0)).could_find().0 {
            let spread = could_find.turns_differ / 100.0;
            let is_found = |seed: &u64| {
                let plan = limited_plan(settings, blocks, 11_000 + seed);
                let mut random = Pcg64Mcg::seed_from_u64(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
                let mut trial = HostTrial::new(plan, rules(0.0));
                while let Some(turn) = trial.turn() {
                    let noise: f64 = StandardNormal.sample(&mut random);
                    let factor = if turn.setting == 1 { 1.0 + could_find.change / 100.0 } else { 1.0 };
                    trial.absorb(&[Some(factor * f64::max(0.01, 1.0 + spread * noise))]).unwrap();
                }
                trial.verdict().settings[0].ruling == TrialRuling::Keep
            };
            let count = (0..200).filter(is_found).count();
            // 80 %, within 3.5 standard deviations of a count of 200, and of the 200 that the plan makes up.
            assert!(
                (132..=188).contains(&count),
                "{settings} settings, {blocks} blocks, {could_find:?}: {count} of 200"
            );
        }
    }
}

#[test]
fn no_setting_of_several_is_taken_for_another_more_often_than_is_said() {
    for noise in [Noise::Normal, Noise::HeavyTails, Noise::RemembersLong] {
        let is_false_alarm = |seed: &u64| {
            let verdict = run(noise, 3_000 + seed, &[1.0; 4], 0.0).verdict();
            verdict.settings.iter().any(|row| matches!(row.ruling, TrialRuling::Keep | TrialRuling::Revert))
        };
        let count = (0..200).filter(is_false_alarm).count() as u64;
        assert!(count <= at_most(0.05, 200), "{noise:?}: {count} of 200");
        let finds_the_better = |seed: &u64| {
            let verdict = run(noise, *seed, &[1.0, 1.1, 0.9], 1.0).verdict();
            let rulings: Vec<TrialRuling> = verdict.settings.iter().map(|row| row.ruling).collect();
            rulings == [TrialRuling::Keep, TrialRuling::Revert] && verdict.keep == Some(0)
        };
        let count = (0..100).filter(finds_the_better).count();
        assert!(count >= 95, "{noise:?}: {count} of 100");
    }
}

#[test]
fn settings_without_a_difference_that_matters_are_told_so() {
    for (noise, _) in NOISES {
        let is_found = |seed: &u64| {
            let (ruling, change) = found(&run(noise, 5_000 + seed, &[1.0, 1.0], 10.0), 0);
            ruling == TrialRuling::NoDifference && holds(change, 0.0)
        };
        let count = (0..100).filter(is_found).count();
        assert!(count >= 95, "{noise:?}: {count} of 100");
    }
}

#[test]
fn a_change_that_matters_is_not_taken_for_one_that_does_not() {
    for (noise, _) in NOISES {
        let is_missed = |seed: &u64| {
            let (ruling, _) = found(&run(noise, 7_000 + seed, &[1.0, 1.1], 10.0), 0);
            ruling == TrialRuling::NoDifference
        };
        let count = (0..200).filter(is_missed).count() as u64;
        assert!(count <= at_most(0.05, 200), "{noise:?}: {count} of 200");
    }
}

#[test]
fn an_undecided_trial_needs_about_as_long_as_it_says() {
    // Changes of 2 % in noise of 3.5 % a block: seldom certain after 20 blocks, and mostly within the plan's 120.
    let (mut said, mut needed) = (Vec::new(), Vec::new());
    for seed in 9_000..9_100 {
        let whole = run(Noise::Normal, seed, &[1.0, 1.02], 0.0);
        let early = run_blocks(Noise::Normal, seed, &[1.0, 1.02], 0.0, 20);
        if let TrialRuling::Undecided { more, .. } = found(&early, 0).0 {
            let is_decided = whole.verdict().end == Some(TrialEnd::Decided);
            said.push(more.map_or(u64::MAX, |more| more.0));
            needed.push(if is_decided { whole.verdict().took.0 - early.verdict().took.0 } else { u64::MAX });
        }
    }
    let median = |times: &mut Vec<u64>| {
        times.sort_unstable();
        times[times.len() / 2] as f64
    };
    let (undecided, ratio) = (said.len(), median(&mut said) / median(&mut needed));
    assert!(undecided >= 30 && (0.5..=2.0).contains(&ratio), "{undecided} trials, {ratio}");
}
