//! What is said of idle states of the host's CPUs.

use crate::cures::cure::by_hand;
use crate::judgement::AdviceWords;

pub(super) const UNJUDGED: &str = "idle states, frequencies and SMT siblings of the host";

/// Why nothing is said of them where wake-ups take long.
pub(super) const UNSEEN: &str = "vCPUs enter no later after long sleeps than after short ones, so no deep idle state \
    shows; but a CPU may leave its idle state before sched_wakeup, which this comparison does not see";
pub(super) const SHORT: &str =
    "woken vCPUs wait for CPUs that other tasks have, which hides how long an idle CPU takes to wake up";
pub(super) const FEW: &str =
    "there are too few long sleeps, or too few short ones, to compare how late vCPUs enter after each";

/// What records the host's CPUs.
pub(super) const RECORD: &str = "`perf record -e power:cpu_idle -e power:cpu_frequency -e 'kvm:*' -e sched:sched_switch -e sched:sched_wakeup -a -- \
    sleep 10` (and `exitscope lab exits` for what mitigations cost)";

pub(super) const RANGE: &str = "from 0 (cold caches delay wake-ups, too) to all the time by which wake-ups after long \
     sleeps take longer than those after short ones";

/// The risk of idle states that are not deep, under any hypervisor.
pub(crate) const SHALLOW_COSTS_POWER: &str =
    "idle CPUs draw more power, which leaves less of it for busy ones: these may run at lower frequencies";

pub(super) fn shallower() -> AdviceWords {
    AdviceWords {
        title: "Keep idle CPUs of the host out of deep idle states".into(),
        change: "keep the host's idle CPUs out of deep idle states, if earlier wake-ups are worth the power: vCPUs \
            enter later after long sleeps than after short ones"
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
        risk: SHALLOW_COSTS_POWER.into(),
        payer: "nobody; it costs power".into(),
        undo: "`cpupower idle-set -E`".into(),
        acts: "at once".into(),
    }
}
