//! What shorter exits are worth, as a trial of delays found it: plain data, and a page of it.

use crate::names::thousands;
use crate::page::{Page, PageSection, Table, column};
use crate::trial_report::{TrialEffectRow, TrialReport};
use exitscope_trial::{SlopeFinding, SlopeRuling};
use exitscope_units::Nanos;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// What 100 ns less in each exit are worth, found by delays that were added to exits.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct SensitivityRow {
    /// The VM, as it was named.
    pub vm: String,
    /// Which exits were delayed: `all` or `to_user_space`.
    #[schemars(extend("enum" = ["all", "to_user_space"]))]
    pub exits: Cow<'static, str>,
    /// The reason of the delayed exits; null if exits of all reasons were.
    pub reason: Option<String>,
    /// `found`: the slope is not 0; `negligible`: it is smaller than what matters; `undecided`; or `not_judged` where a metric without
    /// a value, or a limit, ended the trial.
    #[schemars(extend("enum" = ["found", "negligible", "undecided", "not_judged"]))]
    pub ruling: Cow<'static, str>,
    /// What 100 ns less in each exit are worth, in per cent of the metric without delays, above 0 if shorter exits are better;
    /// null where it is unknown or has no bound, as are those below.
    pub percent_per_100ns: Option<f64>,
    /// The lower bound of its interval, which holds whenever one looks.
    pub low_percent: Option<f64>,
    /// The upper bound of that interval.
    pub high_percent: Option<f64>,
    /// What was found, in words; empty where nothing was begun, and of trials of earlier versions.
    #[serde(default)]
    pub text: String,
    /// Exits of that kind in each second of the turns, those with a delay of 0 included; null of a dry run.
    pub exits_per_s: Option<f64>,
    /// How often the program did not run, as another one was at work on the CPU; 0 on kernels that do not count it.
    pub missed: u64,
    /// What was measured with each delay, that of 0 first.
    pub levels: Vec<DelayLevelRow>,
}

/// A delay, and what was measured with it.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct DelayLevelRow {
    /// The delay that was asked for.
    pub asked_ns: u64,
    /// The delay that was achieved, of exits that were not delayed included: mean of the turns; null of none.
    pub achieved_ns: Option<f64>,
    /// Mean of the metric; null of no turn.
    pub mean: Option<f64>,
    /// Exits in the measured turns.
    pub exits: u64,
    /// Those of them that were delayed.
    pub delayed: u64,
    /// Those that were not, as their thread had spent its share of the time.
    pub skipped: u64,
    /// Those that were not, as there was no room for their thread.
    pub lost: u64,
}

impl SensitivityRow {
    /// Takes what was found of the slope; changes of less than `matters` per cent do not matter.
    pub fn note(&mut self, slope: &SlopeFinding, matters: f64) {
        self.text = slope.sentence(&self.exit(), matters);
        let finite = |value: f64| value.is_finite().then_some(value);
        self.ruling = Cow::Borrowed(match slope.ruling {
            SlopeRuling::Found => "found",
            SlopeRuling::Negligible => "negligible",
            SlopeRuling::Undecided => "undecided",
            SlopeRuling::NotJudged => "not_judged",
        });
        self.percent_per_100ns = slope.percent.and_then(finite);
        self.low_percent = slope.interval.and_then(|interval| finite(interval.0));
        self.high_percent = slope.interval.and_then(|interval| finite(interval.1));
    }

    /// What is meant by an exit: `exit to user space`, `KVM_EXIT_IO exit`.
    pub fn exit(&self) -> String {
        match (&self.reason, self.exits.as_ref()) {
            (Some(reason), _) => format!("{reason} exit"),
            (None, "all") => "exit".to_string(),
            (None, _) => "exit to user space".to_string(),
        }
    }

    /// The slope with its interval: `0.22% (0.16% to 0.27%)`.
    pub fn slope(&self) -> String {
        let ruling = match self.ruling.as_ref() {
            "found" => SlopeRuling::Found,
            "negligible" => SlopeRuling::Negligible,
            _ => SlopeRuling::Undecided,
        };
        // A bound that is not a number in JSON is infinite.
        let is_bounded = self.low_percent.is_some() || self.high_percent.is_some();
        let bounds = (self.low_percent.unwrap_or(f64::NEG_INFINITY), self.high_percent.unwrap_or(f64::INFINITY));
        SlopeFinding { percent: self.percent_per_100ns, interval: is_bounded.then_some(bounds), ruling }.to_string()
    }

    fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        for level in &self.levels {
            let not_delayed = level.skipped + level.lost;
            if level.asked_ns > 0 && not_delayed * 100 > level.exits + level.lost {
                let share = not_delayed as f64 * 100.0 / (level.exits + level.lost) as f64;
                notes.push(format!(
                    "warning: {share:.1}% of exits were not delayed by {}, because their vCPU had used up its share \
                     of delayed time; the achieved delay counts",
                    Nanos(level.asked_ns)
                ));
            }
        }
        let exits: u64 = self.levels.iter().map(|level| level.exits).sum();
        if self.missed * 100 > exits {
            let missed = thousands(self.missed);
            notes.push(format!(
                "warning: {missed} exits were neither delayed nor counted, because another BPF program was running"
            ));
        }
        let most = self.levels.iter().filter_map(|level| level.achieved_ns).fold(0.0, f64::max);
        if most > 0.0 {
            notes.push(format!(
                "assumed: the effect is a straight line over delays from 0 to {}, which goes on for exits shorter \
                 than now",
                Nanos(most.round() as u64)
            ));
        }
        notes
    }
}

/// The delays of a trial as a table; nothing if it was another trial.
pub fn trial_delays_page(report: &TrialReport) -> Page {
    let Some(of) = &report.sensitivity else { return Page::default() };
    let metric = report.verdict.settings.first().and_then(|setting| setting.effects.first());
    let text = |value: f64| metric.map_or_else(String::new, |metric: &TrialEffectRow| metric.text(value));
    let columns = vec![
        column("delay", false, 0),
        column("achieved", false, 0),
        column("exits", false, 1),
        column("not delayed", false, 1),
        column("metric", false, 0),
    ];
    let nanos = |value: f64| Nanos(value.round() as u64).to_string();
    let row = |level: &DelayLevelRow| {
        vec![
            Nanos(level.asked_ns).to_string(),
            level.achieved_ns.map_or("-".to_string(), nanos),
            thousands(level.exits + level.lost),
            if level.asked_ns == 0 { "-".to_string() } else { thousands(level.skipped + level.lost) },
            level.mean.map_or("-".to_string(), text),
        ]
    };
    let rows = of.levels.iter().map(row).collect();
    let rate = of.exits_per_s.map_or(String::new(), |rate| format!(", {rate:.0} per second"));
    let title = format!("Delays of each {}{rate}", of.exit());
    let section =
        PageSection { title, table: Some(Table { columns, rows }), notes: of.notes(), ..PageSection::default() };
    Page { sections: vec![section] }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn level(asked_ns: u64, skipped: u64) -> DelayLevelRow {
        let achieved_ns = Some(asked_ns as f64 * 1.02);
        DelayLevelRow {
            asked_ns,
            achieved_ns,
            mean: Some(5.0),
            exits: 1_000,
            delayed: 1_000 - skipped,
            skipped,
            lost: 0,
        }
    }

    #[test]
    fn exits_that_were_not_delayed_are_warned_of_beyond_one_in_a_hundred() {
        let mut row = SensitivityRow {
            vm: "web01".to_string(),
            exits: "to_user_space".into(),
            reason: None,
            ruling: "undecided".into(),
            percent_per_100ns: None,
            low_percent: None,
            high_percent: None,
            text: String::new(),
            exits_per_s: Some(10.0),
            missed: 0,
            levels: vec![level(0, 1_000), level(1_000, 10), level(5_000, 11)],
        };
        assert_eq!(row.exit(), "exit to user space");
        let notes = row.notes();
        assert_eq!(notes.len(), 2, "{notes:?}");
        assert!(notes[0].starts_with("warning: 1.1% of exits were not delayed by 5.00us"), "{notes:?}");
        assert!(notes[1].contains("from 0 to 5.10us"), "{notes:?}");
        row.missed = 31;
        assert_eq!(row.notes().len(), 3);
        let interval = Some((0.6, f64::INFINITY));
        row.note(&SlopeFinding { percent: Some(0.8), interval, ruling: SlopeRuling::Found }, 1.0);
        assert!(row.text.starts_with("100ns less in each exit to user space is worth 0.80%"), "{}", row.text);
        assert_eq!((row.ruling.as_ref(), row.low_percent, row.high_percent), ("found", Some(0.6), None));
        row.high_percent = Some(1.0);
        assert_eq!(row.slope(), "0.80% (0.60% to 1.00%)");
    }
}
