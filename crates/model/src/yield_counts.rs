//! Yields that somebody else counted: figures without events, so that nothing says which vCPU yielded, or how long it took.
//!
//! ```text
//! z/VM's Performance Toolkit, screen FCX102 ┐
//! KVM on s390, statistics of a VM            ├─► YieldCounts of a system and an interval ─► rates, shares, differences
//! Linux on s390, diag_stat                   ┘
//! ```

use exitscope_units::Nanos;

/// Who counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CountSource {
    /// z/VM's Control Program, as the Performance Toolkit shows it: of all guests together.
    Fcx102,
    /// KVM on s390: of one VM, or of all.
    KvmStats,
    /// A Linux kernel on s390, of the diagnoses that it gives itself.
    DiagStat,
}

impl CountSource {
    /// All of them.
    pub const ALL: [CountSource; 3] = [CountSource::Fcx102, CountSource::KvmStats, CountSource::DiagStat];

    /// Its id in JSON.
    pub const fn id(self) -> &'static str {
        match self {
            CountSource::Fcx102 => "fcx102",
            CountSource::KvmStats => "kvm_stats",
            CountSource::DiagStat => "diag_stat",
        }
    }

    /// What it is called.
    pub const fn name(self) -> &'static str {
        match self {
            CountSource::Fcx102 => "FCX102 (z/VM Performance Toolkit, SYSTEM)",
            CountSource::KvmStats => "KVM's statistics (s390)",
            CountSource::DiagStat => "diag_stat of a Linux kernel",
        }
    }

    /// Whether it counts from a start on, so that one reading says nothing of a rate.
    pub const fn is_since_start(self) -> bool {
        matches!(self, CountSource::KvmStats | CountSource::DiagStat)
    }
}

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum YieldCounter {
    /// X'44', all of them.
    Diag44,
    /// X'44' on z/VM's fast path.
    Diag44Fast,
    /// X'9C', all of them.
    Diag9c,
    /// X'9C' that KVM ignored.
    Diag9cIgnored,
    /// X'9C' that KVM passed on to the hypervisor below it.
    Diag9cForwarded,
    /// X'9C' that named a virtual processor that was not ready.
    Diag9cNotReady,
    /// X'9C' that named one in an enabled wait.
    Diag9cWait,
    /// X'9C' that named one in a soft wait.
    Diag9cSoftWait,
    /// X'9C' that named one that was dispatched already.
    Diag9cDispatched,
    /// X'44' that CP itself gave to the hypervisor below it.
    CpDiag44,
    /// SIGP sense running: the guest asks whether a vCPU runs.
    SenseRunning,
}

/// A figure of a source.
#[derive(Clone, Copy, Debug)]
pub struct CounterRow {
    /// Where it is.
    pub source: CountSource,
    /// How it is called there, or was by earlier kernels.
    pub printed: &'static [&'static str],
    /// What it counts.
    pub counter: YieldCounter,
}

/// Every figure that is read. FCX102: IBM's documentation of z/VM 7.3, Performance Toolkit Reference, "FCX102, System Counters -
/// SYSTEM". KVM: `kvm_vcpu_stats_desc` of arch/s390/kvm/kvm-s390.c; names with `instruction_diag_` are those before Linux 5.14.
/// diag_stat: `show_diag_stat` of arch/s390/kernel/diag.c.
pub const COUNTERS: &[CounterRow] = &[
    row(CountSource::Fcx102, &["FP simul of Diag.X'44'"], YieldCounter::Diag44Fast),
    row(CountSource::Fcx102, &["Diag.X'9C', Not Ready"], YieldCounter::Diag9cNotReady),
    row(CountSource::Fcx102, &["Diag.X'9C', Wait State"], YieldCounter::Diag9cWait),
    row(CountSource::Fcx102, &["Diag.X'9C', Soft Wait"], YieldCounter::Diag9cSoftWait),
    row(CountSource::Fcx102, &["Diag.X'9C', Alr.Dispat."], YieldCounter::Diag9cDispatched),
    row(CountSource::Fcx102, &["CP issued Diag.X'44'"], YieldCounter::CpDiag44),
    row(CountSource::KvmStats, &["instruction_diagnose_44", "instruction_diag_44"], YieldCounter::Diag44),
    row(CountSource::KvmStats, &["instruction_diagnose_9c", "instruction_diag_9c"], YieldCounter::Diag9c),
    row(CountSource::KvmStats, &["diag_9c_ignored"], YieldCounter::Diag9cIgnored),
    row(CountSource::KvmStats, &["diag_9c_forward"], YieldCounter::Diag9cForwarded),
    row(CountSource::KvmStats, &["instruction_sigp_sense_running"], YieldCounter::SenseRunning),
    row(CountSource::DiagStat, &["diag 044"], YieldCounter::Diag44),
    row(CountSource::DiagStat, &["diag 09c"], YieldCounter::Diag9c),
];

const fn row(source: CountSource, printed: &'static [&'static str], counter: YieldCounter) -> CounterRow {
    CounterRow { source, printed, counter }
}

/// The figures of a source.
pub fn counters_of(source: CountSource) -> impl Iterator<Item = &'static CounterRow> {
    COUNTERS.iter().filter(move |row| row.source == source)
}

impl YieldCounter {
    /// All of them.
    pub const ALL: [YieldCounter; 11] = [
        YieldCounter::Diag44,
        YieldCounter::Diag44Fast,
        YieldCounter::Diag9c,
        YieldCounter::Diag9cIgnored,
        YieldCounter::Diag9cForwarded,
        YieldCounter::Diag9cNotReady,
        YieldCounter::Diag9cWait,
        YieldCounter::Diag9cSoftWait,
        YieldCounter::Diag9cDispatched,
        YieldCounter::CpDiag44,
        YieldCounter::SenseRunning,
    ];

    /// Its id in JSON.
    pub const fn id(self) -> &'static str {
        match self {
            YieldCounter::Diag44 => "diag_44",
            YieldCounter::Diag44Fast => "diag_44_fast_path",
            YieldCounter::Diag9c => "diag_9c",
            YieldCounter::Diag9cIgnored => "diag_9c_ignored",
            YieldCounter::Diag9cForwarded => "diag_9c_forwarded",
            YieldCounter::Diag9cNotReady => "diag_9c_not_ready",
            YieldCounter::Diag9cWait => "diag_9c_wait_state",
            YieldCounter::Diag9cSoftWait => "diag_9c_soft_wait",
            YieldCounter::Diag9cDispatched => "diag_9c_already_dispatched",
            YieldCounter::CpDiag44 => "cp_diag_44",
            YieldCounter::SenseRunning => "sigp_sense_running",
        }
    }

    /// What it counts, in words.
    pub const fn prose(self) -> &'static str {
        match self {
            YieldCounter::Diag44 => "X'44', which names nobody",
            YieldCounter::Diag44Fast => "X'44' on the fast path (no virtual processor queued)",
            YieldCounter::Diag9c => "X'9C', which names a vCPU",
            YieldCounter::Diag9cIgnored => "X'9C' that was ignored",
            YieldCounter::Diag9cForwarded => "X'9C' that was passed on to the hypervisor below",
            YieldCounter::Diag9cNotReady => "X'9C' to a virtual processor that was not ready",
            YieldCounter::Diag9cWait => "X'9C' to a virtual processor in a wait state",
            YieldCounter::Diag9cSoftWait => "X'9C' to a virtual processor in a soft wait",
            YieldCounter::Diag9cDispatched => "X'9C' to a virtual processor that was dispatched already",
            YieldCounter::CpDiag44 => "X'44' that CP itself gave",
            YieldCounter::SenseRunning => "SIGP sense running: the guest asks whether a vCPU runs",
        }
    }
}

/// How often something happened.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct YieldCount {
    /// What was counted.
    pub counter: YieldCounter,
    /// How often; of one reading of what counts from a start on, since then.
    pub count: u64,
    /// How often a second; `None` where no interval is known.
    pub per_s: Option<f64>,
}

/// What one source counted of one system in one interval.
#[derive(Clone, Debug, PartialEq)]
pub struct YieldCounts {
    /// Who counted.
    pub source: CountSource,
    /// Of which system: model and serial number, or a VM's folder; empty if nothing says it.
    pub system: String,
    /// Beginning and end, as the text has them; empty if it does not.
    pub interval: String,
    /// When it begins: since midnight, or of readings since 1970; `None` if nothing says it.
    pub begin: Option<Nanos>,
    /// How long it is; `None` if nothing says it.
    pub span: Option<Nanos>,
    /// Whether the counts are those since a start, of one reading.
    pub is_since_start: bool,
    /// The counts that were there, in the order of [`COUNTERS`]; others are not known.
    pub counts: Vec<YieldCount>,
    /// `kernel.spin_retry` of the guest, where the text has it beside the counts.
    pub spin_retry: Option<u64>,
}

impl YieldCount {
    /// So many in an interval, if its length is known.
    pub fn within(span: Option<Nanos>, counter: YieldCounter, count: u64) -> YieldCount {
        YieldCount { counter, count, per_s: span.map(|span| count as f64 / (span.0 as f64 / 1e9)) }
    }
}

impl YieldCounts {
    /// How often that happened, if it was counted.
    pub fn get(&self, counter: YieldCounter) -> Option<&YieldCount> {
        self.counts.iter().find(|count| count.counter == counter)
    }

    /// The figures of its source that it does not have: cut, not counted there, or of another release.
    pub fn missing(&self) -> impl Iterator<Item = &'static CounterRow> + '_ {
        counters_of(self.source).filter(|row| self.get(row.counter).is_none())
    }

    /// Part of the yields that name a vCPU; `None` where not all of both kinds are counted, or there are none.
    pub fn named_share(&self) -> Option<f64> {
        let (named, other) = (self.get(YieldCounter::Diag9c)?.count, self.get(YieldCounter::Diag44)?.count);
        part(named, named.checked_add(other)?)
    }

    /// Part of the X'44' on the fast path; `None` where not all of them are counted beside these, or there are none.
    pub fn fast_share(&self) -> Option<f64> {
        part(self.get(YieldCounter::Diag44Fast)?.count, self.get(YieldCounter::Diag44)?.count)
    }

    /// Part of the X'9C' that KVM ignored; `None` where that is not counted, or there are none.
    pub fn ignored_share(&self) -> Option<f64> {
        part(self.get(YieldCounter::Diag9cIgnored)?.count, self.get(YieldCounter::Diag9c)?.count)
    }
}

fn part(part: u64, whole: u64) -> Option<f64> {
    (whole > 0 && part <= whole).then(|| part as f64 / whole as f64)
}
