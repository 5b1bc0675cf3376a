//! What is said of counts of yields.

use super::{CountedAdvice, CountedRule};
use crate::cures::cure::by_hand;
use crate::setting::{AdviceSetting, SettingSide};
use exitscope_model::CountSource;
use exitscope_policy::knob;

pub(super) const NAMED: &str = "share of the yields (X'9C' and X'44') that name a vCPU (X'9C')";
pub(super) const OF_NOT_WAITING: &str = "these, as a share of all X'9C' that FCX102 counts";
pub(super) const OF_ALL_NAMED: &str = "these, as a share of all X'9C'";
pub(super) const YIELDS: &str = "X'44' and X'9C', a second";
pub(super) const SPIN_RETRY: &str = "kernel.spin_retry";

/// Why no rate is known, and what has one.
pub(super) const RATES: &str = "how often vCPUs yield";
pub(super) const READ_TWICE: &str = "a single reading counts from some start: read the counters twice, and print the time before each reading (docs/counts.md)";

pub(super) const MISSING: &str = "what counters would show that the text lacks";
pub(super) const NOT_THERE: &str =
    "the report names them: they were cut off, are not counted on that machine, or belong to another release";

pub(super) const COST: &str = "what yields cost, and whether vCPUs waited for a CPU meanwhile";
pub(super) const NO_TIMES: &str = "counts have no times; on a KVM host, `exitscope record` makes a recording with times; exitscope reads no times of z/VM";
pub(super) const QUEUES: &str = "how many virtual processors were queued (PLDV)";
pub(super) const NO_PROCLOG: &str =
    "FCX144 (PROCLOG) has it, but exitscope does not read that report: no sample of its layout was public";

/// `diag44.html` of IBM's z/VM performance report: if any virtual processor is queued, the fast path is not taken.
pub(super) const ON_FAST_PATH: &str = "IBM expects no gain from X'9C' where processors are not short";
pub(super) const NORMAL_PATH: &str = "X'44' that do not take the fast path, and the fast path's share of all X'44'";
pub(super) const NO_PRIVOP: &str = "FCX102 does not count them; FCX104 (PRIVOP) has all X'44', but exitscope does not read that report: no sample of its layout was public";
pub(super) const NO_SPIN_RETRY: &str =
    "the text does not have it: `sysctl kernel.spin_retry` in the guest, beside the counters";

/// IBM's z/VM performance report, "Diagnose X'9C' Support": 2 to 12 %, and none without contention.
const OF_NAMING: &str = "not known from counts: IBM measured 2 to 12 % more throughput of Linux guests on a z/VM short of processors, and \
    expects none where processors are not short (z/VM 5.3 performance report, Diagnose X'9C' Support)";
const NO_GAIN: &str = "not known from counts: read them before and after, and compare by `exitscope diff`";

pub(super) const fn judges(rule: CountedRule) -> &'static str {
    match rule {
        CountedRule::NameHolder => "X'44' 500 times a second or more, where X'9C' are less than half of both",
        CountedRule::YieldLater => {
            "X'9C' without effect 500 times a second or more: on FCX102, at least half of those that it counts name a virtual processor \
             that is dispatched already; of KVM, at least half of all are ignored"
        }
        CountedRule::SpinRetry => "X'44' and X'9C' 500 times a second or more, where kernel.spin_retry is 0",
    }
}

pub(super) fn words(rule: CountedRule, source: CountSource) -> CountedAdvice {
    match rule {
        CountedRule::NameHolder => name_holder(),
        CountedRule::YieldLater => yield_later(source),
        CountedRule::SpinRetry => spin_retry(),
    }
}

fn name_holder() -> CountedAdvice {
    CountedAdvice {
        of: 0,
        rule: CountedRule::NameHolder,
        title: "Let the guest name the lock's holder when it yields",
        change: "where CPUs are short, have the guest name the lock's holder when it yields: X'9C' instead of X'44', which lets anybody run"
            .into(),
        settings: vec![
            // `_raw_yield_cpu` of arch/s390/lib/spinlock.c.
            by_hand(
                "a guest kernel of Linux 5.5 or later, which gives no X'44'; since late 2006 its lock code gives it only where the hypervisor has no X'9C' (z/VM from 5.3 on and 5.2 by service, and KVM, have it)",
            ),
            by_hand("what issues them: `perf record -g -e s390:s390_diagnose -a sleep 10` in the guest; before Linux 5.5 drivers that wait (udelay) issue X'44', too"),
        ],
        gain: OF_NAMING,
        evidence: Vec::new(),
        risk: "none known",
        payer: "nobody",
        undo: "boot the former kernel",
        acts: "when the guest boots such a kernel",
    }
}

/// Under z/VM and KVM Linux senses whether the holder runs before its first yield of a wait, and gives later ones, each after
/// `spin_retry` looks, without: `arch_spin_lock_classic` of arch/s390/lib/spinlock.c.
fn yield_later(source: CountSource) -> CountedAdvice {
    let mut settings = vec![
        by_hand(
            "try a larger kernel.spin_retry in the guests that contend, doubling it each time; `sysctl kernel.spin_retry` shows its value (1000 by default; 10 in kernels like Linux 4.9 on processors with compare-and-delay)",
        ),
        by_hand(
            "offer the guest SIGP sense running (with KVM, the feature srs of QEMU's CPU model): Linux then asks whether the lock's holder runs before it first yields",
        ),
        by_hand("which locks are contended: `perf lock contention -ab sleep 10` in the guest"),
    ];
    let change = match source {
        CountSource::KvmStats => {
            // `__diag_time_slice_end_directed` of arch/s390/kvm/diag.c.
            settings.push(by_hand(
                "only if the KVM host is itself a guest or an LPAR whose CPUs are preempted: kvm's diag9c_forwarding_hz, 0 by default, passes X'9C' on to the hypervisor below",
            ));
            "have the guest yield later: KVM ignores most of its X'9C', as it does where the named vCPU is on a CPU already, or sleeps"
        }
        CountSource::Fcx102 | CountSource::DiagStat => {
            "have guests yield later: most X'9C' that FCX102 counts name a virtual processor that is dispatched already"
        }
    };
    CountedAdvice {
        of: 0,
        rule: CountedRule::YieldLater,
        title: "Let the guest yield later",
        change: change.into(),
        settings,
        gain: NO_GAIN,
        evidence: Vec::new(),
        risk: "where the lock's holder is preempted, waiters let it run later",
        payer: "guests that share the CPUs",
        undo: "write the old value back",
        acts: "at once, in the guest in which it is set",
    }
}

/// `arch_spin_lock_classic` yields after `spin_retry` looks, and earlier kernels' `_raw_spin_lock_wait` likewise.
fn spin_retry() -> CountedAdvice {
    let knob = knob("spin_retry");
    CountedAdvice {
        of: 0,
        rule: CountedRule::SpinRetry,
        title: "Set kernel.spin_retry to its default",
        change: "set kernel.spin_retry to its default: with 0 a vCPU that waits for a lock yields at almost every look at it, \
            even where the lock would come free a moment later"
            .into(),
        settings: knob
            .map(|knob| AdviceSetting::Knob { side: SettingSide::Guest, knob, value: knob.default })
            .into_iter()
            .collect(),
        gain: NO_GAIN,
        evidence: Vec::new(),
        risk: "where the lock's holder is preempted, waiters let it run later",
        payer: "guests that share the CPUs",
        undo: "write 0 back",
        acts: "at once, in the guest in which it is set",
    }
}
