//! Tables of exits that another tool made: how often each reason or event came, and of some tools how long it took.
//!
//! ```text
//! perf kvm stat report ┐
//! kvm_stat             ├─► ExitTable: rows of an event, or of one of its reasons ─► shares, times with their bounds
//! perf stat -e kvm:*   │
//! BCC's kvmexit        │
//! lines of a trace     ┘
//! ```

use crate::{Architecture, ExitCode};
use exitscope_units::Nanos;

/// Which tool made a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ExitTableSource {
    /// `perf kvm stat report`, or `live`.
    PerfKvmStat,
    /// kvm_stat of the kernel's tools.
    KvmStat,
    /// `perf stat -e 'kvm:*'`.
    PerfStat,
    /// kvmexit of the BCC tools.
    Kvmexit,
    /// Lines of a trace without times or threads, as mails and logs quote them.
    TraceLines,
}

impl ExitTableSource {
    /// All of them.
    pub const ALL: [ExitTableSource; 5] = [
        ExitTableSource::PerfKvmStat,
        ExitTableSource::KvmStat,
        ExitTableSource::PerfStat,
        ExitTableSource::Kvmexit,
        ExitTableSource::TraceLines,
    ];

    /// Its id in JSON.
    pub const fn id(self) -> &'static str {
        match self {
            ExitTableSource::PerfKvmStat => "perf_kvm_stat",
            ExitTableSource::KvmStat => "kvm_stat",
            ExitTableSource::PerfStat => "perf_stat",
            ExitTableSource::Kvmexit => "kvmexit",
            ExitTableSource::TraceLines => "trace_lines",
        }
    }

    /// What it is called.
    pub const fn name(self) -> &'static str {
        match self {
            ExitTableSource::PerfKvmStat => "perf kvm stat",
            ExitTableSource::KvmStat => "kvm_stat",
            ExitTableSource::PerfStat => "perf stat",
            ExitTableSource::Kvmexit => "kvmexit (BCC)",
            ExitTableSource::TraceLines => "lines of a trace",
        }
    }
}

/// The event whose rows are exits.
pub const EXIT_EVENT: &str = "kvm_exit";

/// A row of a table.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ExitTableRow {
    /// The event: [`EXIT_EVENT`], another tracepoint's name without its group, or what a table of `perf kvm stat` is headed by.
    pub event: String,
    /// Which of them: the reason of an exit, or what an access was to; `None` of all of the event's.
    pub key: Option<String>,
    /// How often it came.
    pub count: u64,
    /// How often a second, as the tool printed it.
    pub per_s: Option<f64>,
    /// How long all of them took: at least, and at most, as figures are printed with few digits.
    pub time: Option<[Nanos; 2]>,
    /// The longest.
    pub longest: Option<Nanos>,
}

impl ExitTableRow {
    /// The middle of what all of them took.
    pub fn middle(&self) -> Option<Nanos> {
        self.time.map(|[least, most]| Nanos(least.0 + most.0.saturating_sub(least.0) / 2))
    }

    /// Whether it is of exits by which the guest halts.
    pub fn is_halt(&self) -> bool {
        self.codes().any(ExitCode::is_halt)
    }

    /// The codes of exits that are called as its key is.
    pub fn codes(&self) -> impl Iterator<Item = ExitCode> + '_ {
        self.key.as_deref().filter(|_| self.event == EXIT_EVENT).into_iter().flat_map(ExitCode::called)
    }
}

/// A table.
#[derive(Clone, Debug, PartialEq)]
pub struct ExitTable {
    /// Which tool made it.
    pub source: ExitTableSource,
    /// Whose exits, in the tool's words; empty if the text does not say it.
    pub of: String,
    /// In the order of the text.
    pub rows: Vec<ExitTableRow>,
    /// What the tool's last line says of all rows: how many.
    pub count: Option<u64>,
    /// How long all of them took, by the same line.
    pub time: Option<Nanos>,
    /// How long was counted.
    pub span: Option<Nanos>,
    /// Events that the tool lost.
    pub lost: Option<u64>,
}

impl ExitTable {
    /// One without rows.
    pub fn new(source: ExitTableSource) -> ExitTable {
        ExitTable { source, of: String::new(), rows: Vec::new(), count: None, time: None, span: None, lost: None }
    }

    /// The rows of exits by reason.
    pub fn reasons(&self) -> impl Iterator<Item = &ExitTableRow> {
        self.rows.iter().filter(|row| row.event == EXIT_EVENT && row.key.is_some())
    }

    /// All exits: as the tool has them, or the sum of its rows.
    pub fn exits(&self) -> Option<u64> {
        let all = self.rows.iter().find(|row| row.event == EXIT_EVENT && row.key.is_none());
        let is_of_exits = self.rows.iter().all(|row| row.event == EXIT_EVENT);
        let printed = all.map(|row| row.count).or(self.count.filter(|_| is_of_exits));
        printed.or_else(|| self.reasons().map(|row| row.count).reduce(u64::saturating_add))
    }

    /// Whether a row has a time.
    pub fn is_timed(&self) -> bool {
        self.rows.iter().any(|row| row.time.is_some())
    }

    /// The architecture of the host, as far as the reasons tell it.
    pub fn architecture(&self) -> Option<Architecture> {
        let of = |row: &ExitTableRow| {
            let mut lists: Vec<Architecture> = row.codes().filter_map(|code| code.list.architecture()).collect();
            lists.dedup();
            <[Architecture; 1]>::try_from(lists).ok().map(|[one]| one)
        };
        self.reasons().find_map(of)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reason(name: &str) -> ExitTableRow {
        ExitTableRow { event: EXIT_EVENT.into(), key: Some(name.into()), ..ExitTableRow::default() }
    }

    #[test]
    fn halts_are_told_by_name_on_each_architecture() {
        for (name, is_halt) in [
            ("HLT", true),
            ("hlt", true),
            ("idle-halt", true),
            ("WFx", true),
            ("IO_INSTRUCTION", false),
            ("unknown kvm exit code:131072 on VMX", false),
        ] {
            assert_eq!(reason(name).is_halt(), is_halt, "{name}");
        }
        let event = ExitTableRow { event: "kvm_mmio".into(), key: Some("HLT".into()), ..ExitTableRow::default() };
        assert!(!event.is_halt(), "no exit's reason");
    }

    #[test]
    fn reasons_tell_the_architecture_or_nothing_does() {
        let of = |names: &[&str]| {
            let rows = names.iter().map(|name| reason(name)).collect();
            ExitTable { rows, ..ExitTable::new(ExitTableSource::PerfKvmStat) }.architecture()
        };
        assert_eq!(of(&["npf", "HLT"]), Some(Architecture::X86));
        assert_eq!(of(&["WFx"]), Some(Architecture::Arm64));
        assert_eq!(of(&["NOWHERE"]), None);
    }
}
