//! Counters of Linux on s390, read once or several times: `diag_stat` of a kernel, and KVM's statistics of a VM.
//!
//! ```text
//!          CPU0       CPU1                                     1795860030.25                    a moment, by date +%s.%N
//! diag 044:          3          0    Voluntary Timeslice End   …/kvm/4711-15/instruction_diagnose_9c:812    by grep .
//! ```
//!
//! `show_diag_stat` of arch/s390/kernel/diag.c prints the first; a file of debugfs for each counter of a VM has the second.

use exitscope_model::{
    CountSource, CounterRow, Ledger, LedgerLine, YieldCount, YieldCounter, YieldCounts, counters_of,
};
use exitscope_units::Nanos;
use std::collections::BTreeMap;

/// How `sysctl kernel.spin_retry`, and `grep . /proc/sys/kernel/spin_retry*`, print it.
const SPIN_RETRY: [&str; 2] = ["kernel.spin_retry", "/proc/sys/kernel/spin_retry"];

/// Moments are of this year (2001) or later: smaller numbers are something else.
const LEAST_MOMENT: u64 = 1_000_000_000;

/// Whether a line is of a reading: one of the counters.
pub(super) fn is_of_one(line: &str) -> bool {
    kvm_counter(line).is_some() || diagnose(line).is_some()
}

/// How many CPUs the first line of diag_stat names. /proc/interrupts begins so, too.
fn cpus_of_head(line: &str) -> Option<usize> {
    let is_cpu = |word: &str| word.strip_prefix("CPU").is_some_and(|cpu| cpu.parse::<u32>().is_ok());
    let words: Vec<&str> = line.split_whitespace().collect();
    (!words.is_empty() && words.iter().all(|word| is_cpu(word))).then_some(words.len())
}

/// A counter of KVM: the VM's folder, which counter, and what follows its name.
fn kvm_counter(line: &str) -> Option<(String, &'static CounterRow, &str)> {
    let line = line.trim();
    let end = line.find([':', '=', ' ', '\t'])?;
    let (path, value) = line.split_at(end);
    let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
    let row = counters_of(CountSource::KvmStats).find(|row| row.printed.contains(&name))?;
    let system = folder.rsplit_once("kvm/").map_or(folder, |(_, vm)| vm);
    let system = if system.ends_with("/kvm") { "" } else { system };
    Some((system.to_string(), row, value[1..].trim_start_matches([':', '=', ' ', '\t'])))
}

/// A diagnose of diag_stat, and what follows its number.
fn diagnose(line: &str) -> Option<(&'static CounterRow, &str)> {
    let (name, value) = line.trim().split_once(':')?;
    let row = counters_of(CountSource::DiagStat).find(|row| row.printed.contains(&name))?;
    Some((row, value))
}

/// The moment of what follows, in nanoseconds, as `date +%s` or `date +%s.%N` print it.
fn moment(line: &str) -> Option<u128> {
    let (seconds, nanos) = line.trim().split_once('.').unwrap_or((line.trim(), ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(seconds) || !digits(nanos) || nanos.len() > 9 {
        return None;
    }
    let seconds: u64 = seconds.parse().ok().filter(|seconds| *seconds >= LEAST_MOMENT)?;
    let nanos: u64 = format!("{nanos:0<9}").parse().ok()?;
    Some(u128::from(seconds) * 1_000_000_000 + u128::from(nanos))
}

/// Readings as they are met.
#[derive(Debug, Default)]
pub(super) struct Readings {
    /// By source and system, in the order of the text.
    systems: Vec<((CountSource, String), Vec<Reading>)>,
    /// When what follows was read, where a line says it.
    now: Option<u128>,
    /// How many moments there were.
    moments: u64,
    /// CPUs that the last head of diag_stat names.
    cpus: Option<usize>,
    spin_retry: Option<u64>,
}

/// One reading of a system's counters.
#[derive(Debug)]
struct Reading {
    at: Option<u128>,
    /// After how many moments.
    moment: u64,
    counts: BTreeMap<YieldCounter, u64>,
}

impl Readings {
    /// Looks at a line; whether it was one of a reading.
    pub(super) fn line(&mut self, line: &str, at: u64, ledger: &mut Ledger) -> bool {
        if let Some(moment) = moment(line) {
            self.now = Some(moment);
            self.moments += 1;
            return true;
        }
        if let Some(cpus) = cpus_of_head(line) {
            self.cpus = Some(cpus);
            return true;
        }
        if let Some(value) = SPIN_RETRY.iter().find_map(|name| line.trim().strip_prefix(name)) {
            self.spin_retry = value.trim_start_matches([':', '=', ' ', '\t']).trim().parse().ok().or(self.spin_retry);
            return true;
        }
        let (system, row, count) = if let Some((row, value)) = diagnose(line) {
            (String::new(), row, self.sum_of_cpus(value))
        } else if let Some((system, row, value)) = kvm_counter(line) {
            (system, row, value.split_whitespace().next().and_then(|count| count.parse().ok()))
        } else {
            return false;
        };
        match count {
            Some(count) => self.take((row.source, system), row.counter, count),
            None => ledger.count_at(LedgerLine::BadText, at),
        }
        true
    }

    /// All CPUs' counts of a diagnose. The name behind them says that none is missing.
    fn sum_of_cpus(&self, value: &str) -> Option<u64> {
        let words: Vec<&str> = value.split_whitespace().collect();
        let counts: Vec<u64> = words.iter().map_while(|word| word.parse().ok()).collect();
        let is_whole = counts.len() < words.len() && self.cpus.is_none_or(|cpus| cpus == counts.len());
        (is_whole && !counts.is_empty()).then(|| counts.iter().fold(0, |sum: u64, count| sum.saturating_add(*count)))
    }

    fn take(&mut self, key: (CountSource, String), counter: YieldCounter, count: u64) {
        let at = self.systems.iter().position(|(known, _)| *known == key).unwrap_or_else(|| {
            self.systems.push((key, Vec::new()));
            self.systems.len() - 1
        });
        let readings = &mut self.systems[at].1;
        let is_same = |reading: &Reading| reading.moment == self.moments && !reading.counts.contains_key(&counter);
        match readings.last_mut().filter(|last| is_same(last)) {
            Some(last) => last.counts.insert(counter, count),
            None => {
                let counts = BTreeMap::from([(counter, count)]);
                readings.push(Reading { at: self.now, moment: self.moments, counts });
                None
            }
        };
    }

    /// The differences of readings; of one alone, what it says.
    pub(super) fn end(self, ledger: &mut Ledger) -> Vec<YieldCounts> {
        let spin_retry = self.spin_retry;
        let mut all = Vec::new();
        for ((source, system), readings) in self.systems {
            let of = |begin: Option<u128>, span, is_since_start, counts| YieldCounts {
                source,
                system: system.clone(),
                interval: String::new(),
                begin: begin.and_then(|begin| u64::try_from(begin).ok()).map(Nanos),
                span,
                is_since_start,
                counts,
                spin_retry: spin_retry.filter(|_| source == CountSource::DiagStat),
            };
            if let [one] = &readings[..] {
                let count = |(&counter, &count): (&YieldCounter, &u64)| YieldCount::within(None, counter, count);
                all.push(of(None, None, true, one.counts.iter().map(count).collect()));
                continue;
            }
            for pair in readings.windows(2) {
                let (before, after) = (&pair[0], &pair[1]);
                let span = before.at.zip(after.at).and_then(|(from, to)| u64::try_from(to.checked_sub(from)?).ok());
                let span = span.filter(|span| *span > 0).map(Nanos);
                let counts = differences(before, after, span, ledger);
                if !counts.is_empty() {
                    all.push(of(before.at, span, false, counts));
                }
            }
        }
        all
    }
}

/// What was counted between two readings.
fn differences(before: &Reading, after: &Reading, span: Option<Nanos>, ledger: &mut Ledger) -> Vec<YieldCount> {
    let mut counts = Vec::new();
    for (&counter, &last) in &after.counts {
        let Some(&first) = before.counts.get(&counter) else { continue };
        match last.checked_sub(first) {
            Some(count) => counts.push(YieldCount::within(span, counter, count)),
            None => ledger.count(LedgerLine::CounterReset),
        }
    }
    counts
}
