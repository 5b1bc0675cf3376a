//! What is said of idle states of the host's CPUs.

use crate::cures::cure::by_hand;
use crate::judgement::AdviceWords;

pub(super) const UNJUDGED: &str = "idle states, frequencies and SMT siblings of the host";

/// Why nothing is said of them where wake-ups take long.
pub(super) const UNSEEN: &str = "wake-ups are no later after long sleeps than after short ones, so no deep idle state \
    shows; but the way out of one may lie before sched_wakeup";
pub(super) const SHORT: &str =
    "vCPUs that were woken wait for CPUs that others have, which hides how long an idle one takes";
pub(super) const FEW: &str =
    "there are too few long sleeps, or short ones, to compare how long vCPUs take to come back after them";

/// What records the host's CPUs.
pub(super) const RECORD: &str = "`perf record -e power:cpu_idle -e power:cpu_frequency -e 'kvm:*' -e sched:sched_switch -e sched:sched_wakeup -a -- \
    sleep 10` (and `exitscope lab exits` for what mitigations cost)";

pub(super) const RANGE: &str = "from 0 (cold caches delay wake-ups, too) to all the time that wake-ups from long \
     sleeps take beyond those from short ones";

pub(super) fn shallower() -> AdviceWords {
    AdviceWords {
        change: "keep the host's idle CPUs out of their deep idle states, if sooner wake-ups are worth the power: \
            vCPUs that have slept long come back later than those that have slept briefly"
            .into(),
        settings: vec![
            by_hand(
                "`cpupower idle-info` shows the states and how long each takes to leave; `cpupower idle-set -D 20` forbids those of more \
                 than 20 us until the next boot",
            ),
            by_hand(
                "for a while, a program that holds /dev/cpu_dma_latency open does the same (tuned's profiles latency-performance and \
                 virtual-host)",
            ),
        ],
        risk: "CPUs that do not sleep deeply draw more power, and others cannot run as fast for it".into(),
        payer: "nobody; it costs power".into(),
        undo: "`cpupower idle-set -E`".into(),
        acts: "at once".into(),
    }
}
