//! A rule about KVM's polls that succeed: what they take of the host's CPUs, and what shorter ones would free.
//!
//! ```text
//! lengths of successful polls ─► of each limit: what polls took beyond it ─► all that they took │ wake-ups that then come later
//! ```
//!
//! A poll that ends its halt within the limit changes nothing, so that KVM fires no kvm_halt_poll_ns (`kvm_vcpu_halt` of
//! virt/kvm/kvm_main.c): a host all of whose polls succeed says nothing of them but by how long halts took. Whether CPUs or early
//! wake-ups are worth more is not in a recording: the rule names both, where polls take half of the vCPUs' time.

mod wording;

use super::polling::{FEWEST, HOST_HALT_POLL, of_halting};
use crate::cause::{Covered, RuleAnswer};
use crate::evidence::input::{AdviceInput, RecordedHost};
use crate::judgement::{CitedFactId, CitedValue, Gain, GainMethod, GainOf, Judgement, Topic};
use exitscope_analysis::{DurationStats, HaltStats};
use exitscope_policy::knob;
use exitscope_units::Nanos;

/// Polls are worth a trade from one part in so many of the halting vCPUs' time on: below it they are what halt_poll_ns is for.
const NOTEWORTHY: u64 = 2;

/// Limits that are tried, longest first: the first that frees half of what polls take. None does: no polls.
const LIMITS: [u64; 5] = [200_000, 100_000, 50_000, 20_000, 10_000];

/// What another limit makes of successful polls.
#[derive(Debug, PartialEq)]
struct Shortened {
    limit: u64,
    /// CPU time that it frees: at least, and at most.
    freed: (u64, u64),
    /// Halts that a poll does not end any more.
    later: u64,
}

pub(crate) fn judge(input: &AdviceInput, host: &RecordedHost, judgement: &mut Judgement) {
    let all = input.facts.halts.all();
    let polls = &all.successful_polls.gaps;
    let wall = of_halting(input, |time| time.wall);
    let is_judged = judgement.advice().iter().any(|advice| advice.plan().rule == HOST_HALT_POLL);
    if is_judged || host.xen || input.facts.halts.guest_polls || !all.has_wakeups() || polls.count < FEWEST {
        return;
    }
    let Some(knob) = knob("halt_poll_ns").filter(|_| all.poll_hit.saturating_mul(NOTEWORTHY) >= wall) else { return };
    let chosen = choose(polls);
    let facts = note(input, &all, judgement);
    // Gaps begin with the exit, polls a little later.
    let (low, high) = (chosen.freed.0.min(all.poll_hit), chosen.freed.1.min(all.poll_hit));
    let gain = Gain {
        of: GainOf::HostCpu,
        headline: input.per_second(None, low),
        low: input.per_second(None, low),
        high: input.per_second(None, high),
        may_wait: false,
        how: GainMethod::Counted(wording::RANGE),
    };
    let (cpus, later) = (busy(input, &all), input.rate(None, chosen.later));
    let words = wording::shorter(knob, chosen.limit, cpus, later, &host.release);
    let id = judgement.advise(facts[0], &facts[1..], words.of(HOST_HALT_POLL, None, gain));
    judgement.say(None, Covered::Halts, RuleAnswer::Advice(id));
}

/// The longest limit that frees half of what polls take.
fn choose(polls: &DurationStats) -> Shortened {
    let frees_half = |of: &Shortened| of.freed.0.saturating_mul(2) >= polls.sum;
    LIMITS.iter().map(|limit| shortened(polls, *limit)).find(frees_half).unwrap_or_else(|| shortened(polls, 0))
}

fn shortened(polls: &DurationStats, limit: u64) -> Shortened {
    let mut of = Shortened { limit, freed: (0, 0), later: 0 };
    for (low, width, count) in polls.histogram.counts().buckets() {
        if low > limit {
            of.later += count;
            of.freed.0 = of.freed.0.saturating_add((low - limit).saturating_mul(count));
            of.freed.1 = of.freed.1.saturating_add((low + width).min(polls.max).saturating_mul(count));
        }
    }
    of.freed = (of.freed.0.min(polls.sum), of.freed.1.min(polls.sum));
    of
}

/// CPUs that they kept busy.
fn busy(input: &AdviceInput, all: &HaltStats) -> f64 {
    input.per_second(None, all.poll_hit).0 as f64 / 1e9
}

fn note(input: &AdviceInput, all: &HaltStats, judgement: &mut Judgement) -> Vec<CitedFactId> {
    let polls = &all.successful_polls;
    let vcpus = of_halting(input, |time| time.vcpus).max(1);
    let mut cite = |what: &str, figure| judgement.cite(None, Topic::Halts, what.to_string(), figure);
    let time = |nanos: u64| CitedValue::Time(Nanos(nanos));
    let mut facts = vec![
        cite("CPUs that successful polls kept busy", CitedValue::Cpus(busy(input, all))),
        cite("halts a second of each vCPU", CitedValue::Rate(input.rate(None, all.halts()) / vcpus as f64)),
        cite(
            "share of the halts that successful polls ended",
            CitedValue::Share(polls.gaps.count as f64 / all.halts().max(1) as f64),
        ),
        cite("longest successful poll, which is a lower bound of the limit of polls", time(polls.gaps.max)),
    ];
    if let Some(mean) = polls.latencies.mean() {
        facts.push(cite("mean time from the wake-up to the entry after a successful poll", time(mean.0)));
    }
    if let Some(mean) = all.blocked.latencies.mean() {
        facts.push(cite("mean time from the wake-up to the entry after a halt that blocked", time(mean.0)));
    }
    facts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn polls(lengths: impl Iterator<Item = u64>) -> DurationStats {
        let mut polls = DurationStats::default();
        lengths.for_each(|length| polls.record(Nanos(length)));
        polls
    }

    #[test]
    fn the_longest_limit_that_frees_half_is_chosen_or_none() {
        // A length is known to within a bucket of a thirty-second.
        let near = |found: u64, wanted: u64| found.abs_diff(wanted) <= wanted / 16;
        let chosen = choose(&polls((0..1_200).map(|at| 60_000 + at * 100)));
        assert_eq!((chosen.limit, chosen.later), (50_000, 1_200));
        assert!(near(chosen.freed.0, 70_000 * 1_200) && near(chosen.freed.1, 120_000 * 1_200), "{chosen:?}");
        assert_eq!(choose(&polls([1_000_000; 40].into_iter())).limit, 200_000);
        let short = choose(&polls([60_000, 9_000, 9_000, 9_000].into_iter()));
        assert_eq!((short.limit, short.later), (10_000, 1));
        let shortest = choose(&polls([9_000; 40].into_iter()));
        assert_eq!((shortest.limit, shortest.later, shortest.freed.1), (0, 40, 360_000));
        assert!(near(short.freed.0, 50_000) && near(shortest.freed.0, 360_000), "{short:?} {shortest:?}");
    }
}
