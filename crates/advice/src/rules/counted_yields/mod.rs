//! Rules about yields that somebody else counted: s390's X'44' and X'9C', without events.
//!
//! ```text
//! X'44' often, X'9C' seldom ─────────────────────────► a guest that names the lock's holder
//! X'9C' often, to vCPUs that run already ────────────► a guest that looks longer, or asks, before it yields
//! either often, and spin_retry is 0 ─────────────────► its default
//! ```
//!
//! Counts say neither how long a yield took nor who waited meanwhile: no gain is put in figures.

mod wording;

use super::spinning::MIN_YIELDS_PER_S;
use crate::judgement::CitedValue;
use crate::setting::AdviceSetting;
use exitscope_model::{CountSource, YieldCounter, YieldCounts};
use std::borrow::Cow;

/// Part of the X'9C' from which on it matters to whom they are, and below which X'9C' are few.
const HALF: f64 = 0.5;

/// What is advised of counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CountedRule {
    /// Name the lock's holder.
    NameHolder,
    /// Look longer, or ask, before yielding.
    YieldLater,
    /// The default of `spin_retry`.
    SpinRetry,
}

impl CountedRule {
    /// All of them.
    pub const ALL: [CountedRule; 3] = [CountedRule::NameHolder, CountedRule::YieldLater, CountedRule::SpinRetry];

    /// Its id in JSON.
    pub const fn id(self) -> &'static str {
        match self {
            CountedRule::NameHolder => "name_holder",
            CountedRule::YieldLater => "yield_later",
            CountedRule::SpinRetry => "spin_retry",
        }
    }

    /// What it looks for, in the documents' words.
    pub const fn judges(self) -> &'static str {
        wording::judges(self)
    }
}

/// A figure, and what it is of.
pub type CountedFact = (Cow<'static, str>, CitedValue);

/// What is advised of one system's counts.
#[derive(Clone, Debug, PartialEq)]
pub struct CountedAdvice {
    /// The counts, by their place in the text.
    pub of: usize,
    /// What is advised.
    pub rule: CountedRule,
    /// The change as a short imperative, without its conditions.
    pub title: &'static str,
    /// What to change.
    pub change: Cow<'static, str>,
    /// How exactly.
    pub settings: Vec<AdviceSetting>,
    /// What is known of the gain.
    pub gain: &'static str,
    /// What says so.
    pub evidence: Vec<CountedFact>,
    /// What can go wrong.
    pub risk: &'static str,
    /// Who pays for it.
    pub payer: &'static str,
    /// How to undo it.
    pub undo: &'static str,
    /// From when on it acts.
    pub acts: &'static str,
}

/// What rules make of counts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CountsJudgement {
    /// In the order of the counts.
    pub advice: Vec<CountedAdvice>,
    /// What is left as it is, and why: the counts, a figure, a sentence.
    pub left_alone: Vec<(usize, CountedFact, &'static str)>,
    /// What is not judged of which counts, and what would tell.
    pub not_judged: Vec<(usize, &'static str, &'static str)>,
}

/// Judges counts, each system and interval for itself.
pub fn judge_counts(counts: &[YieldCounts]) -> CountsJudgement {
    let mut judgement = CountsJudgement::default();
    for (of, counts) in counts.iter().enumerate() {
        Rules { of, counts, judgement: &mut judgement }.judge();
    }
    judgement
}

/// The rules at one system's counts.
struct Rules<'a> {
    of: usize,
    counts: &'a YieldCounts,
    judgement: &'a mut CountsJudgement,
}

impl Rules<'_> {
    fn judge(&mut self) {
        let is_monitor = self.counts.source == CountSource::Fcx102;
        match (is_monitor, self.counts.counts.iter().all(|count| count.per_s.is_none())) {
            // How often something happens is what all rules go by.
            (_, true) => return self.not_judged(wording::RATES, wording::READ_TWICE),
            (true, _) => self.fast_path(),
            (false, _) => self.unnamed(),
        }
        self.in_vain();
        self.spin_retry();
        if self.counts.missing().next().is_some() {
            self.not_judged(wording::MISSING, wording::NOT_THERE);
        }
        self.not_judged(wording::COST, wording::NO_TIMES);
        if is_monitor {
            self.not_judged(wording::QUEUES, wording::NO_PROCLOG);
        }
    }

    /// How often a second, if that is known.
    fn rate(&self, counter: YieldCounter) -> Option<f64> {
        self.counts.get(counter)?.per_s
    }

    fn fact(&self, counter: YieldCounter, rate: f64) -> CountedFact {
        (format!("{}, a second", counter.prose()).into(), CitedValue::Rate(rate))
    }

    fn not_judged(&mut self, what: &'static str, why: &'static str) {
        self.judgement.not_judged.push((self.of, what, why));
    }

    /// X'44' of which z/VM says only how many found nobody queued.
    fn fast_path(&mut self) {
        if let Some(rate) = self.rate(YieldCounter::Diag44Fast).filter(|rate| *rate >= MIN_YIELDS_PER_S) {
            let fact = self.fact(YieldCounter::Diag44Fast, rate);
            self.judgement.left_alone.push((self.of, fact, wording::ON_FAST_PATH));
        }
        self.not_judged(wording::NORMAL_PATH, wording::NO_PRIVOP);
    }

    /// X'44' where X'9C' could name the holder.
    fn unnamed(&mut self) {
        let often = self.rate(YieldCounter::Diag44).filter(|rate| *rate >= MIN_YIELDS_PER_S);
        let (Some(rate), Some(named)) = (often, self.counts.named_share()) else { return };
        if named < HALF {
            let share = (wording::NAMED.into(), CitedValue::Share(named));
            let evidence = vec![self.fact(YieldCounter::Diag44, rate), share];
            self.advise(CountedRule::NameHolder, evidence);
        }
    }

    /// X'9C' to vCPUs that could not be given the CPU.
    fn in_vain(&mut self) {
        let in_vain = match self.counts.source {
            CountSource::Fcx102 => self.dispatched(),
            CountSource::KvmStats => self.ignored(),
            CountSource::DiagStat => None,
        };
        let Some((rate, share, facts)) = in_vain else { return };
        match share >= HALF {
            _ if rate < MIN_YIELDS_PER_S => {}
            true => self.advise(CountedRule::YieldLater, facts),
            false => {}
        }
    }

    /// Of z/VM: to virtual processors that were dispatched already; the share is of those that FCX102 counts.
    fn dispatched(&self) -> Option<(f64, f64, Vec<CountedFact>)> {
        let dispatched = self.rate(YieldCounter::Diag9cDispatched)?;
        let others = [YieldCounter::Diag9cNotReady, YieldCounter::Diag9cWait, YieldCounter::Diag9cSoftWait];
        let all = others.into_iter().map(|counter| self.rate(counter)).sum::<Option<f64>>()? + dispatched;
        let share = if all > 0.0 { dispatched / all } else { 0.0 };
        let facts = vec![
            self.fact(YieldCounter::Diag9cDispatched, dispatched),
            (wording::OF_NOT_WAITING.into(), CitedValue::Share(share)),
        ];
        Some((dispatched, share, facts))
    }

    /// Of KVM: those that it ignored.
    fn ignored(&self) -> Option<(f64, f64, Vec<CountedFact>)> {
        let (rate, share) = (self.rate(YieldCounter::Diag9cIgnored)?, self.counts.ignored_share()?);
        let mut facts = vec![
            self.fact(YieldCounter::Diag9cIgnored, rate),
            (wording::OF_ALL_NAMED.into(), CitedValue::Share(share)),
        ];
        let senses = self.rate(YieldCounter::SenseRunning);
        facts.extend(senses.map(|rate| self.fact(YieldCounter::SenseRunning, rate)));
        Some((rate, share, facts))
    }

    /// How long a Linux guest looks at a lock before it yields.
    fn spin_retry(&mut self) {
        if self.counts.source != CountSource::DiagStat {
            return;
        }
        let rates = [YieldCounter::Diag44, YieldCounter::Diag9c].map(|counter| self.rate(counter).unwrap_or(0.0));
        let rate = rates[0] + rates[1];
        match self.counts.spin_retry {
            _ if rate < MIN_YIELDS_PER_S => {}
            Some(0) => {
                let evidence = vec![
                    (wording::YIELDS.into(), CitedValue::Rate(rate)),
                    (wording::SPIN_RETRY.into(), CitedValue::Count(0)),
                ];
                self.advise(CountedRule::SpinRetry, evidence);
            }
            Some(_) => {}
            None => self.not_judged(wording::SPIN_RETRY, wording::NO_SPIN_RETRY),
        }
    }

    fn advise(&mut self, rule: CountedRule, evidence: Vec<CountedFact>) {
        let advice = wording::words(rule, self.counts.source);
        self.judgement.advice.push(CountedAdvice { of: self.of, evidence, ..advice });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use exitscope_model::YieldCount;
    use exitscope_units::Nanos;

    /// Ten seconds of these rates.
    fn counts(source: CountSource, rates: &[(YieldCounter, u64)], spin_retry: Option<u64>) -> YieldCounts {
        let count =
            |&(counter, rate): &(YieldCounter, u64)| YieldCount { counter, count: rate * 10, per_s: Some(rate as f64) };
        YieldCounts {
            source,
            system: String::new(),
            interval: String::new(),
            begin: None,
            span: Some(Nanos(10_000_000_000)),
            is_since_start: false,
            counts: rates.iter().map(count).collect(),
            spin_retry,
        }
    }

    fn advised(source: CountSource, rates: &[(YieldCounter, u64)], spin_retry: Option<u64>) -> Vec<CountedRule> {
        judge_counts(&[counts(source, rates, spin_retry)]).advice.iter().map(|advice| advice.rule).collect()
    }

    use YieldCounter::{Diag9c, Diag9cDispatched, Diag9cIgnored, Diag9cNotReady, Diag9cSoftWait, Diag9cWait, Diag44};

    #[test]
    fn a_guest_that_names_nobody_is_told_to_name_the_holder() {
        let of = |anybody, named| advised(CountSource::KvmStats, &[(Diag44, anybody), (Diag9c, named)], None);
        assert_eq!(of(500, 499), [CountedRule::NameHolder]);
        assert_eq!(of(500, 500), [], "as many name somebody");
        assert_eq!(of(499, 0), [], "too few");
        // Without both, nothing is known of the share.
        assert_eq!(advised(CountSource::KvmStats, &[(Diag44, 5_000)], None), []);
    }

    #[test]
    fn yields_to_those_that_run_already_are_told_to_come_later() {
        let kvm = |ignored, all| advised(CountSource::KvmStats, &[(Diag9c, all), (Diag9cIgnored, ignored)], None);
        assert_eq!(kvm(500, 1_000), [CountedRule::YieldLater]);
        assert_eq!(kvm(500, 1_001), []);
        assert_eq!(kvm(499, 499), []);
        let vm = |dispatched, wait| {
            let rates = [(Diag9cNotReady, 0), (Diag9cWait, wait), (Diag9cSoftWait, 0), (Diag9cDispatched, dispatched)];
            advised(CountSource::Fcx102, &rates, None)
        };
        assert_eq!(vm(500, 500), [CountedRule::YieldLater]);
        assert_eq!(vm(500, 501), []);
        assert_eq!(vm(499, 0), []);
        let some = advised(CountSource::Fcx102, &[(Diag9cDispatched, 5_000)], None);
        assert_eq!(some, [], "what is cut from the screen is not zero");
    }

    #[test]
    fn a_spin_retry_of_zero_is_told_its_default_where_guests_yield() {
        let of = |rate, spin_retry| advised(CountSource::DiagStat, &[(Diag44, 0), (Diag9c, rate)], spin_retry);
        assert_eq!(of(500, Some(0)), [CountedRule::SpinRetry]);
        assert_eq!(of(500, Some(1)), []);
        assert_eq!(of(499, Some(0)), []);
        assert_eq!(of(500, None), []);
        let unknown = judge_counts(&[counts(CountSource::DiagStat, &[(Diag44, 0), (Diag9c, 500)], None)]);
        assert!(unknown.not_judged.iter().any(|row| row.1 == wording::SPIN_RETRY));
    }

    #[test]
    fn the_fast_path_is_left_alone_and_counts_since_a_start_are_not_judged() {
        let fast = judge_counts(&[counts(CountSource::Fcx102, &[(YieldCounter::Diag44Fast, 500)], None)]);
        assert_eq!((fast.advice.len(), fast.left_alone.len()), (0, 1));
        let mut one = counts(CountSource::KvmStats, &[(Diag44, 90_000), (Diag9c, 0)], None);
        one.counts.iter_mut().for_each(|count| count.per_s = None);
        let judgement = judge_counts(&[one]);
        assert_eq!(judgement.advice, []);
        assert_eq!(judgement.not_judged, [(0, wording::RATES, wording::READ_TWICE)]);
    }
}
