//! The numbers of a scenario that are assumed, and what they may as well be.
//!
//! ```text
//! costs of origin assumed ─┐
//! SCHEDULER, SMT ──────────┴─► Assumption: key, low, high, source ─► set(scenario, place between low and high)
//! ```

use crate::set_key::written_out;
use crate::{AssumedRange, CostModel, CostOrigin, Scenario, YieldRules};
use exitscope_units::{Nanos, Picos};

/// A number of a scenario that nobody measured on the machine that it stands for.
#[derive(Clone, Debug, PartialEq)]
pub struct Assumption {
    /// The key, as `--set` takes it.
    pub key: String,
    /// What the scenario has: picoseconds, or of `host.smt_speed` and `costs.exit_spread` the factor 1.
    pub value: f64,
    /// The least that it may as well be.
    pub low: f64,
    /// The greatest.
    pub high: f64,
    /// Where these two are from, for people.
    pub source: &'static str,
    place: AssumedPlace,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum AssumedPlace {
    Cost(&'static str),
    TimeSlice,
    WakeupGranularity,
    SmtSpeed,
    ExitSpread,
}

/// A number of Linux's scheduler, in nanoseconds.
struct SchedulerRow {
    key: &'static str,
    place: AssumedPlace,
    low: u64,
    high: u64,
    source: &'static str,
}

/// What Linux's fair scheduler has had by default since there are such numbers, from one CPU to many (kernel/sched/fair.c: each is
/// multiplied by 1 + ilog2(CPUs), of at most 8 of them).
const SCHEDULER: [SchedulerRow; 2] = [
    SchedulerRow {
        key: "host.scheduler.time_slice",
        place: AssumedPlace::TimeSlice,
        low: 700_000,
        high: 12_000_000,
        source: "0.7 ms on one CPU (sysctl_sched_base_slice); half of 24 ms for two tasks (sysctl_sched_latency of v6.5)",
    },
    SchedulerRow {
        key: "host.scheduler.wakeup_granularity",
        place: AssumedPlace::WakeupGranularity,
        low: 0,
        high: 4_000_000,
        source: "none since v6.6 (EEVDF); 4 ms on 8 CPUs (sysctl_sched_wakeup_granularity of v6.5)",
    },
];

/// How much faster or slower a thread may be beside its siblings.
const SMT_SPEED: AssumedRange = AssumedRange { low: 0.85, high: 1.15, source: "no source: 15 % either way" };

/// How much wider or narrower the spread of exits may be, by the logarithm.
const EXIT_SPREAD: AssumedRange = AssumedRange { low: 0.0, high: 2.0, source: "no source: none, and twice as wide" };

/// The assumed numbers of a scenario.
pub fn assumptions(scenario: &Scenario) -> Vec<Assumption> {
    let costs = CostModel::ROWS.iter().filter_map(|(name, _)| {
        let (cost, range) = (scenario.costs.get(name)?, CostModel::range(name)?);
        let value = cost.time.0 as f64;
        (cost.origin == CostOrigin::Assumed).then(|| Assumption {
            key: format!("costs.{name}"),
            value,
            low: value * range.low,
            high: value * range.high,
            source: range.source,
            place: AssumedPlace::Cost(name),
        })
    });
    let scheduler = SCHEDULER.iter().map(|row| row.of(scenario));
    let model = &scenario.costs.smt_speed;
    // Speeds that the scenario itself has are not the model's.
    let speeds = &scenario.host.smt_speed;
    let is_models = speeds.iter().zip(&model.thousandths).all(|(own, of)| own == of);
    let smt = (scenario.host.threads > 1 && is_models && model.origin == CostOrigin::Assumed).then(|| Assumption {
        key: "host.smt_speed".to_string(),
        value: 1.0,
        low: SMT_SPEED.low,
        high: SMT_SPEED.high,
        source: SMT_SPEED.source,
        place: AssumedPlace::SmtSpeed,
    });
    let spread = scenario.costs.exit_spread.as_ref().filter(|of| of.origin == CostOrigin::Assumed);
    let spread = spread.filter(|of| (of.p5, of.p95) != (1_000, 1_000)).map(|_| Assumption {
        key: "costs.exit_spread".to_string(),
        value: 1.0,
        low: EXIT_SPREAD.low,
        high: EXIT_SPREAD.high,
        source: EXIT_SPREAD.source,
        place: AssumedPlace::ExitSpread,
    });
    costs.chain(scheduler).chain(smt).chain(spread).filter(|of| of.low < of.high).collect()
}

/// The same of what is no cost: key, ends and source, for the documentation.
pub(crate) fn assumed_beside_costs() -> Vec<(&'static str, String, &'static str)> {
    let of_scheduler = |row: &SchedulerRow| (row.key, format!("{} to {}", Nanos(row.low), Nanos(row.high)), row.source);
    let smt = ("host.smt_speed", format!("{} to {} times as fast", SMT_SPEED.low, SMT_SPEED.high), SMT_SPEED.source);
    let spread =
        ("costs.exit_spread", format!("{} to {} times as wide", EXIT_SPREAD.low, EXIT_SPREAD.high), EXIT_SPREAD.source);
    SCHEDULER.iter().map(of_scheduler).chain([smt, spread]).collect()
}

impl SchedulerRow {
    /// In a scenario: of Linux's scheduler from one of its defaults to another; of one that has other numbers, twofold.
    fn of(&self, scenario: &Scenario) -> Assumption {
        let scheduler = &scenario.host.scheduler;
        let value = match self.place {
            AssumedPlace::TimeSlice => scheduler.time_slice,
            _ => scheduler.wakeup_granularity,
        };
        let [low, high] = [self.low, self.high].map(Picos::from_nanos);
        let is_linux = scheduler.yields == YieldRules::Kvm && (low..=high).contains(&value);
        let value = value.0 as f64;
        let (low, high, source) = match is_linux {
            true => (low.0 as f64, high.0 as f64, self.source),
            false => {
                let AssumedRange { low, high, source } = AssumedRange::TWOFOLD;
                (value * low, value * high, source)
            }
        };
        Assumption { key: self.key.to_string(), value, low, high, source, place: self.place }
    }
}

impl Assumption {
    /// Whether `--set` of this key sets the number, a part of it, or a table that it is in.
    pub fn is_set_by(&self, key: &str) -> bool {
        let key = written_out(key);
        let is_in = |part: &str, whole: &str| part.strip_prefix(whole).is_some_and(|rest| rest.starts_with('.'));
        self.key == key || is_in(&key, &self.key) || is_in(&self.key, &key)
    }

    /// Sets the number: `at` is 0 for the least and 1 for the greatest, between them in equal factors, or from 0 on in equal steps.
    pub fn set(&self, scenario: &mut Scenario, at: f64) {
        let value = match self.low > 0.0 {
            true => self.low * (self.high / self.low).powf(at),
            false => self.low + (self.high - self.low) * at,
        };
        let time = Picos(value.round() as u64);
        match self.place {
            AssumedPlace::Cost(name) => {
                if let Some(cost) = scenario.costs.get_mut(name) {
                    cost.time = time;
                }
            }
            AssumedPlace::TimeSlice => scenario.host.scheduler.time_slice = time,
            AssumedPlace::WakeupGranularity => scenario.host.scheduler.wakeup_granularity = time,
            AssumedPlace::SmtSpeed => {
                // Alone on its core, a thread is as fast as ever.
                for speed in scenario.host.smt_speed.iter_mut().skip(1) {
                    *speed = ((f64::from(*speed) * value).round() as u32).clamp(1, 1_000);
                }
            }
            AssumedPlace::ExitSpread => {
                if let Some(spread) = &mut scenario.costs.exit_spread {
                    let wider = |of: u32| ((f64::from(of) / 1e3).powf(value) * 1e3).round().max(1.0) as u32;
                    (spread.p5, spread.p95) = (wider(spread.p5), wider(spread.p95));
                }
            }
        }
    }

    /// The number as a text, such as `2us`; of speeds and the spread the factor.
    pub fn text(&self, value: f64) -> String {
        match self.place {
            AssumedPlace::SmtSpeed | AssumedPlace::ExitSpread => format!("x{value:.2}"),
            _ => Nanos((value / 1_000.0).round() as u64).to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ExitSpread, HostSpec, models};

    fn of<'a>(list: &'a [Assumption], key: &str) -> Option<&'a Assumption> {
        list.iter().find(|of| of.key == key)
    }

    #[test]
    fn what_a_scenario_has_lies_in_the_range_that_is_stated_of_it() {
        for costs in models().unwrap() {
            let mut host = HostSpec::new(2);
            (host.threads, host.smt_speed) = (2, costs.smt_speed.thousandths[..2].to_vec());
            let scenario = Scenario { costs, ..Scenario::new("x", host) };
            for of in assumptions(&scenario) {
                assert!(of.low <= of.value && of.value <= of.high, "{of:?}");
                assert!(of.source.len() > 5, "{of:?}");
            }
        }
    }

    #[test]
    fn measured_numbers_and_what_costs_nothing_are_no_assumptions() {
        let mut scenario = Scenario::new("x", HostSpec::new(2));
        scenario.costs.entry.origin = CostOrigin::Published;
        scenario.costs.exit.time = Picos::ZERO;
        let list = assumptions(&scenario);
        assert_eq!(list.len(), CostModel::ROWS.len() - 3 + SCHEDULER.len(), "without entry, exit and delay");
        assert!(of(&list, "costs.entry").is_none() && of(&list, "costs.exit").is_none());
        assert!(of(&list, "host.smt_speed").is_none(), "one thread has no siblings");
    }

    #[test]
    fn what_is_set_however_its_key_is_written_is_told() {
        let list = assumptions(&Scenario::new("x", HostSpec::new(2)));
        let device = of(&list, "costs.device").unwrap();
        for key in ["costs.device", "cost.device", " cost . device ", "costs.device.time", "cost.device.time", "costs"]
        {
            assert!(device.is_set_by(key), "{key}");
        }
        for key in ["costs.device_more", "cost.devic", "delay", "device", "host.cores"] {
            assert!(!device.is_set_by(key), "{key}");
        }
        assert!(of(&list, "host.scheduler.time_slice").unwrap().is_set_by("host.scheduler"));
    }

    #[test]
    fn an_assumption_is_set_to_its_ends_and_between_and_changes_nothing_else() {
        let mut scenario = Scenario::new("x", HostSpec::new(2));
        (scenario.host.threads, scenario.host.smt_speed) = (2, vec![1_000, 650]);
        scenario.costs.exit_spread =
            Some(ExitSpread { p5: 800, p95: 2_500, origin: CostOrigin::Assumed, source: String::new() });
        for of in assumptions(&scenario) {
            let mut ends = [scenario.clone(), scenario.clone(), scenario.clone()];
            for (at, scenario) in [0.0, 0.5, 1.0].into_iter().zip(&mut ends) {
                of.set(scenario, at);
            }
            assert!(ends[0] != ends[1] && ends[1] != ends[2], "{}", of.key);
            let values = |scenario: &Scenario| assumptions(scenario);
            let others =
                |list: Vec<Assumption>| list.into_iter().filter(|other| other.key != of.key).collect::<Vec<_>>();
            assert_eq!(others(values(&ends[0])), others(values(&ends[2])), "{}", of.key);
        }
        let list = assumptions(&scenario);
        let mut low = scenario.clone();
        of(&list, "host.scheduler.wakeup_granularity").unwrap().set(&mut low, 0.0);
        assert_eq!(low.host.scheduler.wakeup_granularity, Picos::ZERO);
        let mut slow = scenario.clone();
        of(&list, "host.smt_speed").unwrap().set(&mut slow, 0.0);
        assert_eq!(slow.host.smt_speed, [1_000, 553]);
        let ends = [0.0, 0.5, 1.0].map(|at| {
            let mut other = scenario.clone();
            of(&list, "costs.exit_spread").unwrap().set(&mut other, at);
            other.costs.exit_spread.map(|spread| (spread.p5, spread.p95)).unwrap()
        });
        assert_eq!(ends, [(1_000, 1_000), (800, 2_500), (640, 6_250)]);
        of(&list, "costs.wake_latency").unwrap().set(&mut slow, 1.0);
        assert_eq!(slow.costs.wake_latency.time, Picos::from_nanos(10_000));
    }
}
