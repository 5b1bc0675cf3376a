//! The rule about idle states of the host's CPUs: who has slept long comes back later than who has slept shortly.
//!
//! ```text
//! sched_wakeup ── short ──► entry      slept 50 us: the CPU was hardly idle
//! sched_wakeup ── long ───────► entry  slept 5 ms: the CPU left a deep idle state first
//! ```
//!
//! The way out of an idle state is between both where the waker puts the thread on the run queue itself. Where the CPU that is
//! woken does that (`ttwu_queue_cond` of kernel/sched/core.c), it is before the event, and this shows nothing.

mod wording;

pub(crate) use wording::SHALLOW_COSTS_POWER;

use super::polling::is_short;
use crate::evidence::input::{AdviceInput, RecordedHost, VmTime, total};
use crate::judgement::MIN_COST_SHARE;
use crate::judgement::share;
use crate::judgement::{CitedValue, Gain, GainMethod, GainOf, Judgement, NotJudged, Rule, Topic};
use exitscope_analysis::{DurationStats, TakerKind};
use exitscope_units::Nanos;

/// Idle states of the host's CPUs that are left sooner.
pub(crate) const IDLE_STATES: Rule = Rule::new("idle_states");

/// Sleeps of either kind at least.
const FEWEST: u64 = 100;

/// Who has slept long must come back so much later, and so many times as late: what else differs after a long sleep, caches above
/// all, takes less.
const LATER: Nanos = Nanos(20_000);
const TIMES: u64 = 2;

pub(crate) fn judge(input: &AdviceInput, host: &RecordedHost, judgement: &mut Judgement) {
    let all = input.facts.halts.all();
    let wall = total(input.vms.values().map(|time| time.wall));
    if host.xen || all.latencies().sum.saturating_mul(MIN_COST_SHARE) < wall.max(1) {
        return;
    }
    let are_cpus_short = are_cpus_short(input);
    let short = median(&all.after_short);
    let long = median(&all.after_long);
    let later = match (short, long) {
        (Some(short), Some(long)) if !are_cpus_short => long.0.saturating_sub(short.0),
        _ => 0,
    };
    let is_later =
        later > LATER.0 && long.is_some_and(|long| long.0 >= short.unwrap_or_default().0.saturating_mul(TIMES));
    let won = later.saturating_mul(all.after_long.count).min(all.after_long.sum);
    if !is_later || won.saturating_mul(MIN_COST_SHARE) < wall {
        let what = wording::UNJUDGED;
        let missing = match (short, long) {
            _ if are_cpus_short => wording::SHORT,
            (Some(_), Some(_)) => wording::UNSEEN,
            _ => wording::FEW,
        };
        return judgement.not_judged.push(NotJudged { what, missing: missing.into(), record: Some(wording::RECORD) });
    }
    let mut note = |what: &str, figure| judgement.cite(None, Topic::Halts, what, figure);
    let facts = [
        note("median from wake-up to entry after sleeps of 2 ms and more", CitedValue::Time(long.unwrap_or_default())),
        note(
            "median from wake-up to entry after sleeps shorter than 0.1 ms",
            CitedValue::Time(short.unwrap_or_default()),
        ),
        note("sleeps of 2 ms and more a second", CitedValue::Rate(input.rate(None, all.after_long.count))),
        note(
            "time from wake-up to entry after sleeps of 2 ms and more, as a share of the vCPUs' time",
            share(all.after_long.sum, wall),
        ),
    ];
    let gain = Gain {
        of: GainOf::WakeUps,
        headline: input.per_second(None, won),
        low: Nanos::ZERO,
        high: input.per_second(None, won),
        may_wait: false,
        how: GainMethod::Counted(wording::RANGE),
    };
    // It is of no exits: of the way back from a halt.
    let _ = judgement.advise(facts[0], &facts[1..], wording::shallower().of(IDLE_STATES, None, gain));
}

/// Whether vCPUs wait for CPUs that others have; a CPU that wakes up is what this rule is about.
fn are_cpus_short(input: &AdviceInput) -> bool {
    let waiting = total(input.vms.values().map(|time| time.steal));
    let wanted = total(input.vms.values().map(VmTime::wanted));
    let waking_up = || {
        let takers = input.facts.steal_takers().into_values().flatten();
        total(takers.filter(|taker| taker.kind == TakerKind::WakingUp).map(|taker| taker.time))
    };
    is_short(waiting, wanted) && is_short(waiting.saturating_sub(waking_up()), wanted)
}

fn median(of: &DurationStats) -> Option<Nanos> {
    of.quantile(5_000).filter(|_| of.count >= FEWEST)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_exits::vcpu;
    use exitscope_analysis::Selection;
    use exitscope_model::{Halt, VcpuWakeup};
    use exitscope_units::{Moment, VmId};

    const US: u64 = 1_000;

    /// A vCPU of a VM that has so much steal sleeps so often for 50 us and for 5 ms, and comes back so long after either.
    fn judged(count: u64, short: u64, long: u64, steal: u64, xen: bool) -> Judgement {
        let mut input = AdviceInput::new(&Selection::default());
        for number in 0..count {
            for (sleeps, latency) in [(50 * US, short), (5_000 * US, long)] {
                let begin = number * 10_000 * US;
                let at = |after: u64| Moment::from_nanos(begin + after);
                let wakeup =
                    Some(VcpuWakeup { length: Nanos(sleeps + latency), waited: true, valid: true, may_poll: true });
                let (asleep, woken, entered) = (Some(at(0)), Some(at(sleeps)), Some(at(sleeps + latency)));
                let (change, kicked, ipi, end) = (None, false, None, at(sleeps + latency));
                input.facts.halts.absorb(&Halt {
                    who: vcpu(0),
                    begin: at(0),
                    asleep,
                    woken,
                    vcpu_wakeup: wakeup,
                    change,
                    kicked,
                    ipi,
                    end,
                    entered,
                });
            }
        }
        input.facts.duration = Nanos(1_000_000_000);
        let wall = 1_000_000_000;
        input.vms.insert(VmId(1), VmTime { vcpus: 1, guest: wall / 10, steal, wall, ..VmTime::default() });
        let mut judgement = Judgement::default();
        judge(&input, &RecordedHost { xen, ..RecordedHost::default() }, &mut judgement);
        judgement
    }

    #[test]
    fn who_comes_back_later_after_long_sleeps_has_deep_idle_states() {
        for (what, count, short, long, steal, missing) in [
            ("later", 1_000, 5 * US, 60 * US, 0, None),
            ("a little later", 1_000, 5 * US, 25 * US, 0, Some(wording::UNSEEN)),
            ("not twice as late", 1_000, 50 * US, 90 * US, 0, Some(wording::UNSEEN)),
            ("too few sleeps", 99, 50 * US, 900 * US, 0, Some(wording::FEW)),
            ("CPUs are short", 1_000, 5 * US, 60 * US, 100_000_000, Some(wording::SHORT)),
        ] {
            let judgement = judged(count, short, long, steal, false);
            let said: Vec<&str> = judgement.not_judged.iter().map(|row| &*row.missing).collect();
            assert_eq!(said, missing.into_iter().collect::<Vec<_>>(), "{what}");
            assert_eq!(judgement.advice().len(), usize::from(missing.is_none()), "{what}");
        }
        let judgement = judged(1_000, 5 * US, 60 * US, 0, false);
        let gain = judgement.advice()[0].plan().gain;
        // Buckets of lengths are a 32nd wide.
        let most = gain.high.0;
        assert!(gain.low == Nanos::ZERO && (50_000 * US..58_000 * US).contains(&most), "{gain:?}");
        assert_eq!(judgement.facts().len(), 4);
    }

    #[test]
    fn a_healthy_host_and_xens_get_no_word() {
        for (count, short, long, xen) in [(100, 5 * US, 20 * US, false), (1_000, 5 * US, 60 * US, true)] {
            let judgement = judged(count, short, long, 0, xen);
            assert_eq!((judgement.advice().len(), judgement.not_judged.len()), (0, 0));
        }
    }
}
