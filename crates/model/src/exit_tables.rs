//! Tables of exits that another tool made: how often each reason or event came, and of some tools how long it took.
//!
//! ```text
//! perf kvm stat report ┐
//! kvm_stat             ├─► ExitTable: rows of an event, or of one of its reasons ─► shares, times with their bounds
//! perf stat -e kvm:*   │
//! BCC's kvmexit        │
//! KVM's statistics     │
//! bpftrace's maps      │
//! xenalyze             │
//! lines of a trace     ┘
//! ```

use crate::{Architecture, CodeList, ExitCode};
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
    /// KVM's own statistics: files of debugfs, or `info stats` of QEMU's monitor.
    Counters,
    /// Maps that a bpftrace program counts exits in.
    Bpftrace,
    /// The summary of Xen's xenalyze.
    Xenalyze,
    /// Lines of a trace without times or threads, as mails and logs quote them.
    TraceLines,
}

impl ExitTableSource {
    /// All of them.
    pub const ALL: [ExitTableSource; 8] = [
        ExitTableSource::PerfKvmStat,
        ExitTableSource::KvmStat,
        ExitTableSource::PerfStat,
        ExitTableSource::Kvmexit,
        ExitTableSource::Counters,
        ExitTableSource::Bpftrace,
        ExitTableSource::Xenalyze,
        ExitTableSource::TraceLines,
    ];

    /// Its id in JSON.
    pub const fn id(self) -> &'static str {
        match self {
            ExitTableSource::PerfKvmStat => "perf_kvm_stat",
            ExitTableSource::KvmStat => "kvm_stat",
            ExitTableSource::PerfStat => "perf_stat",
            ExitTableSource::Kvmexit => "kvmexit",
            ExitTableSource::Counters => "kvm_counters",
            ExitTableSource::Bpftrace => "bpftrace",
            ExitTableSource::Xenalyze => "xenalyze",
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
            ExitTableSource::Counters => "KVM's statistics",
            ExitTableSource::Bpftrace => "bpftrace",
            ExitTableSource::Xenalyze => "xenalyze",
            ExitTableSource::TraceLines => "lines of a trace",
        }
    }
}

/// The event whose rows are exits.
pub const EXIT_EVENT: &str = "kvm_exit";

/// The counter of all exits among KVM's statistics: `exits` of `kvm_vcpu_stats_desc` (arch/x86/kvm/x86.c, arch/arm64/kvm/guest.c).
pub const EXITS_COUNTER: &str = "exits";

/// KVM's statistics that count exits of x86 or arm64 (`struct kvm_vcpu_stat`), as debugfs and QEMU call them. Until Linux 5.13 windows
/// had shorter names in debugfs.
const EXIT_COUNTERS: [&str; 17] = [
    EXITS_COUNTER,
    "io_exits",
    "mmio_exits",
    "signal_exits",
    "irq_exits",
    "irq_window_exits",
    "irq_window",
    "nmi_window_exits",
    "nmi_window",
    "halt_exits",
    "hypercalls",
    "notify_window_exits",
    "hvc_exit_stat",
    "wfe_exit_stat",
    "wfi_exit_stat",
    "mmio_exit_user",
    "mmio_exit_kernel",
];

/// The counter of exits of this name.
pub fn exit_counter(name: &str) -> Option<&'static str> {
    EXIT_COUNTERS.into_iter().find(|counter| *counter == name)
}

/// Reasons of AMD's processors of which the name in AMD's manual, which xenalyze and kvm_stat print, is no form of the kernel's:
/// `hvm_svm_exit_reason_name` of Xen's tools/xentrace/xenalyze.c, `SVM_EXIT_REASONS` of the kernel's tools/kvm/kvm_stat/kvm_stat.
const MANUALS_NAMES: [(&str, &str); 3] = [("INTR", "interrupt"), ("IOIO", "io"), ("VMMCALL", "hypercall")];

/// The kernel's name of a reason that xenalyze prints as `VMEXIT_NPF` or `VMEXIT_CR0_READ`, or kvm_stat as `IOIO`; others are the kernel's
/// own.
fn kernel_name(name: &str) -> String {
    let manuals = |name: &str| MANUALS_NAMES.iter().find(|row| row.0 == name).map(|row| row.1);
    let Some(name) = name.strip_prefix("VMEXIT_") else { return manuals(name).unwrap_or(name).to_string() };
    let other = manuals(name);
    let access = ["READ", "WRITE"].into_iter().find_map(|access| {
        let register = name.strip_suffix(access)?.strip_suffix('_')?;
        Some(format!("{access}_{register}").to_lowercase())
    });
    other.map(str::to_string).or(access).unwrap_or_else(|| name.to_lowercase())
}

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
    /// Part of the time of all rows, 0 to 1, as the tool printed it.
    pub time_share: Option<f64>,
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

    /// The number of its reason, where the tool has no name of any, as bpftrace.
    pub fn number(&self) -> Option<u64> {
        self.key.as_deref().filter(|_| self.event == EXIT_EVENT)?.parse().ok()
    }

    /// The codes of exits that are called as its key is; of a number, those of x86 that have it, as nothing says whose it is.
    pub fn codes(&self) -> impl Iterator<Item = ExitCode> + use<> {
        let of_x86 = |number| [CodeList::Vmx, CodeList::Svm].map(|list| ExitCode::new(list, number));
        // What has no name is printed in hexadecimal.
        let is_named = |code: &ExitCode| !code.name().starts_with("0x");
        let numbered = self.number().map(of_x86).into_iter().flatten().filter(is_named);
        let name = self.key.as_deref().filter(|_| self.event == EXIT_EVENT).map(kernel_name);
        name.into_iter().flat_map(|name| ExitCode::called(&name).collect::<Vec<_>>()).chain(numbered)
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
    /// Events that the tool lost, at least: perf counts the records that tell of losses, each of one event or more
    /// (`process_lost_event` of tools/perf/builtin-kvm.c).
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
        self.printed_exits().or_else(|| self.reasons().map(|row| row.count).reduce(u64::saturating_add))
    }

    /// All exits, as the tool has them, whatever rows there are.
    pub fn printed_exits(&self) -> Option<u64> {
        let is_all =
            |row: &&ExitTableRow| row.key.is_none() && [EXIT_EVENT, EXITS_COUNTER].contains(&row.event.as_str());
        let is_of_exits = self.rows.iter().all(|row| row.event == EXIT_EVENT);
        self.rows.iter().find(is_all).map(|row| row.count).or(self.count.filter(|_| is_of_exits))
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
            ("VMEXIT_HLT", true),
            ("VMEXIT_IOIO", false),
            ("unknown kvm exit code:131072 on VMX", false),
            ("12", true),
            ("120", true),
            ("166", true),
            ("123", false),
            ("48", false),
        ] {
            assert_eq!(reason(name).is_halt(), is_halt, "{name}");
        }
        let event = ExitTableRow { event: "kvm_mmio".into(), key: Some("HLT".into()), ..ExitTableRow::default() };
        assert!(!event.is_halt(), "no exit's reason");
    }

    /// kvm_stat has other names than the kernel of three reasons.
    #[test]
    fn names_of_amds_manual_are_the_kernels_reasons() {
        for (name, number) in [("IOIO", 0x7b), ("INTR", 0x60), ("VMMCALL", 0x81), ("NPF", 0x400), ("123", 0x7b)] {
            let codes: Vec<ExitCode> = reason(name).codes().filter(|code| code.list != CodeList::Loongarch).collect();
            assert_eq!(codes, [ExitCode::new(CodeList::Svm, number)], "{name}");
        }
    }

    #[test]
    fn reasons_tell_the_architecture_or_nothing_does() {
        let of = |names: &[&str]| {
            let rows = names.iter().map(|name| reason(name)).collect();
            ExitTable { rows, ..ExitTable::new(ExitTableSource::PerfKvmStat) }.architecture()
        };
        assert_eq!(of(&["npf", "HLT"]), Some(Architecture::X86));
        assert_eq!(of(&["WFx"]), Some(Architecture::Arm64));
        assert_eq!(of(&["VMEXIT_CR0_WRITE"]), Some(Architecture::X86));
        assert_eq!(of(&["NOWHERE"]), None);
    }
}
