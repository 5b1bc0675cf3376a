//! What tables of exits that other tools made come to: which reason costs most, as far as the table can say it, and what to record.
//!
//! ```text
//! rows with times ────► halts apart; the reason that takes most of the rest
//! rows without times ─► the reason that comes most often, whatever it costs
//! kvm_fpu ────────────► how many exits go on in user space
//! halts of a whole ───► what all other exits take of the vCPUs' time at most
//! ```
//!
//! A table has no subjects (which port, which MSR), and says neither how long vCPUs waited nor, of most tools, how long was counted:
//! no setting is advised by it, and no gain is in it.

mod wording;

use exitscope_analysis::record_commands::{HowToRecord, Missed};
use exitscope_model::{Architecture, CodeList, EXIT_EVENT, ExitTable, ExitTableRow, ExitTableSource, TraceInfo};
use exitscope_units::Nanos;

/// How perf and kvm_stat call a reason of which their tables have no name: `exit_event_decode_key` of
/// tools/perf/util/kvm-stat.c, and the tables of tools/kvm/kvm_stat/kvm_stat.
const UNKNOWN_CODE: &str = "unknown kvm exit code:";
const UNKNOWN: &str = "UNKNOWN";

/// Reasons of hardware are smaller (`vmx_exit_reason`: 16 bits, then flags). Back ends in software number theirs from here on.
const LEAST_OF_SOFTWARE: u64 = 1 << 16;
/// How many they have.
const MOST_OF_SOFTWARE: u64 = 5;

/// What a table comes to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ExitTableJudgement {
    /// The reason that costs most, or comes most often where nothing has a time.
    pub costliest: Option<CostliestReason>,
    /// The part of the time that are halts, and their reasons' names.
    pub halted: Option<(f64, Vec<String>)>,
    /// A reason among whose exits are halts that no reason of their own tells apart, and by what guests halt.
    pub halts_within: Option<(String, &'static str)>,
    /// The part of the vCPUs' time that exits but halts take at most, 0 to 1; `None` where the table does not show it.
    pub exits_at_most: Option<f64>,
    /// Exits that went on in user space.
    pub user_exits: Option<CountedUserExits>,
    /// Reasons that the tool did not know.
    pub unknown: Option<UnknownReasons>,
    /// The part of the exits, or of their time, that no row of the text is of; `None` where nothing says how many there are.
    pub not_in_rows: Option<f64>,
    /// What a recording would tell of the costliest reason, and the command that makes one.
    pub next: NextRecording,
    /// What the table does not tell, and why.
    pub not_recorded: Vec<&'static str>,
}

/// Exits that went on in user space, as far as a table shows them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CountedUserExits {
    /// How many.
    pub count: u64,
    /// Of how many exits.
    pub of: u64,
    /// Whether they were counted themselves; otherwise they are half of the events `kvm_fpu`.
    pub is_exact: bool,
}

/// Why a tool did not know a reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum UnknownReasons {
    /// The tool has numbers alone, which are not the same on all processors.
    Numbered,
    /// It is newer than the tool, or the tool's table is short.
    Unnamed,
    /// It is of a back end in software, and of no hardware.
    Software,
}

/// The reason that costs most beside halts.
#[derive(Clone, Debug, PartialEq)]
pub struct CostliestReason {
    /// Its name, as the table has it.
    pub name: String,
    /// How many.
    pub count: u64,
    /// How often a second.
    pub per_s: Option<f64>,
    /// The part of the time of all exits but halts, or of all exits where nothing has a time.
    pub part: f64,
    /// Whether the table shows that no other reason passes it. Otherwise nothing says whether rows are missing: `part` is of the rows in the
    /// text alone, and a reason of which the row is not there may come first.
    pub is_of_whole: bool,
    /// How long they took, where the table has times.
    pub time: Option<Nanos>,
    /// The longest.
    pub longest: Option<Nanos>,
}

/// What to record next.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NextRecording {
    /// The command.
    pub command: &'static str,
    /// What it tells.
    pub tells: &'static str,
}

/// Judges a table.
pub fn judge_exit_table(table: &ExitTable) -> ExitTableJudgement {
    let costliest = costliest(table);
    let mut not_recorded = Vec::new();
    if table.source == ExitTableSource::TraceLines {
        not_recorded.push(wording::NO_COLUMNS);
    }
    if !table.is_timed() {
        not_recorded.push(wording::NO_TIMES);
    }
    let not_in_rows = not_in_rows(table);
    if not_in_rows.is_none() && table.source != ExitTableSource::TraceLines {
        not_recorded.push(wording::NO_SUM);
    }
    let exits_at_most = exits_at_most(table);
    match exits_at_most {
        Some(_) => not_recorded.push(wording::NO_SPAN_BUT_A_BOUND),
        None if table.span.is_none() => not_recorded.push(wording::NO_SPAN),
        None => {}
    }
    if exits_at_most.is_some() && table.lost.is_none() {
        not_recorded.push(wording::NO_LOSSES);
    }
    not_recorded.push(wording::NO_WAITS);
    let arch = table.architecture().map_or("", |of| of.row().machine);
    let is_xen = table.source == ExitTableSource::Xenalyze;
    let how = HowToRecord::of(&TraceInfo { arch: arch.to_string(), by_vcpu: is_xen, ..TraceInfo::default() });
    ExitTableJudgement {
        halted: halted(table),
        exits_at_most,
        halts_within: table.reasons().find_map(|row| Some((row.key.clone()?, holds_halts(row, table.architecture())?))),
        user_exits: user_exits(table),
        unknown: table.reasons().filter_map(unknown).max(),
        next: NextRecording {
            command: how.command(Missed::OF_TIME).unwrap_or_default(),
            tells: tells(costliest.as_ref(), table),
        },
        not_in_rows: not_in_rows.filter(|part| *part >= NOTEWORTHY),
        not_recorded,
        costliest,
    }
}

/// Less than one of a hundred exits without a row are not spoken of: figures are printed with few digits.
const NOTEWORTHY: f64 = 0.01;

/// The time of all rows of the whole table: by the tool's own sum, or by the shares that it prints.
fn whole_time(table: &ExitTable) -> Option<f64> {
    let timed = || table.rows.iter().filter(|row| row.time.is_some());
    let sum = sum(timed().filter_map(ExitTableRow::middle)) as f64;
    let shares: Option<f64> = timed().map(|row| row.time_share).sum();
    let by_shares = shares.filter(|shares| *shares > 0.0).map(|shares| sum / shares.min(1.0));
    table.time.map(|time| time.0 as f64).or(by_shares).map(|whole| whole.max(sum))
}

/// The part of the exits, or of their time, that is of no row, as of a text that is cut, and where a tool has no counter of a reason.
fn not_in_rows(table: &ExitTable) -> Option<f64> {
    let rest = |known: f64, whole: f64| if whole > 0.0 { (1.0 - known / whole).max(0.0) } else { 0.0 };
    if table.is_timed() {
        return Some(rest(sum(table.rows.iter().filter_map(ExitTableRow::middle)) as f64, whole_time(table)?));
    }
    let whole = table.printed_exits()?;
    Some(rest(keyed(table).map(|row| row.count).fold(0, u64::saturating_add) as f64, whole as f64))
}

/// The rows that are parts of all exits: their reasons; in a table of accesses, those; in one of events alone, those of which one comes
/// with each exit of a kind.
fn keyed(table: &ExitTable) -> impl Iterator<Item = &ExitTableRow> {
    let (has_reasons, has_keys) = (table.reasons().next().is_some(), table.rows.iter().any(|row| row.key.is_some()));
    table.rows.iter().filter(move |row| match &row.key {
        Some(_) => row.event == EXIT_EVENT || !has_reasons,
        None => !has_keys && subject_event(&row.event).is_some(),
    })
}

/// Why the tool did not know a row's reason, if it did not: `unknown kvm exit code:131072 on VMX`, `UNKNOWN`.
fn unknown(row: &ExitTableRow) -> Option<UnknownReasons> {
    if row.number().is_some() {
        return Some(UnknownReasons::Numbered);
    }
    let name = row.key.as_deref()?;
    let number = name.strip_prefix(UNKNOWN_CODE).map(|rest| rest.split_whitespace().next()?.parse::<u64>().ok());
    let is_of_software = |number: u64| {
        number.is_multiple_of(LEAST_OF_SOFTWARE) && (1..=MOST_OF_SOFTWARE).contains(&(number / LEAST_OF_SOFTWARE))
    };
    match number {
        Some(Some(number)) if is_of_software(number) => Some(UnknownReasons::Software),
        Some(_) => Some(UnknownReasons::Unnamed),
        None => (name == UNKNOWN).then_some(UnknownReasons::Unnamed),
    }
}

/// By what guests halt within exits of this reason: a hypercall of powerpc (`H_CEDE`, `kvmppc_pseries_do_hcall`), a trapped WFI of arm64
/// where perf has no exception class, and of riscv (`kvm_riscv_vcpu_virtual_insn`).
fn holds_halts(row: &ExitTableRow, arch: Option<Architecture>) -> Option<&'static str> {
    let codes = row.codes().filter(|code| arch.is_none() || code.list.architecture() == arch);
    codes
        .filter_map(|code| match (code.list, code.number) {
            (CodeList::PpcTrap, 0xc00) => Some("H_CEDE"),
            (CodeList::Arm64Exit, 2) | (CodeList::Riscv, 22) => Some("WFI"),
            _ => None,
        })
        .next()
}

fn sum(rows: impl Iterator<Item = Nanos>) -> u64 {
    rows.fold(0, |sum, time| sum.saturating_add(time.0))
}

fn costliest(table: &ExitTable) -> Option<CostliestReason> {
    let not_in_rows = not_in_rows(table);
    let of = |row: &ExitTableRow, part: f64| CostliestReason {
        name: row.key.clone().unwrap_or_else(|| row.event.clone()),
        count: row.count,
        per_s: row.per_s,
        part,
        is_of_whole: not_in_rows.is_some(),
        time: row.middle(),
        longest: row.longest,
    };
    // A reason of which the row is missing may cost, or come, as much as all that are missing together.
    let missing = not_in_rows.unwrap_or(0.0);
    let busy = || keyed(table).filter(|row| !row.is_halt());
    if table.is_timed() {
        let most = busy().filter(|row| row.time.is_some()).max_by_key(|row| row.middle())?;
        let (rows, halts) = (keyed(table), keyed(table).filter(|row| row.is_halt()));
        let rows = sum(rows.filter_map(ExitTableRow::middle)) as f64;
        let whole = whole_time(table).unwrap_or(rows);
        let busy = (whole - sum(halts.filter_map(ExitTableRow::middle)) as f64).max(1.0);
        let time = most.middle()?.0 as f64;
        return (time >= missing * whole).then(|| of(most, (time / busy).min(1.0)));
    }
    // perf ranks reasons by their time: of a table of which the times are cut off, another reason would be first.
    if table.source == ExitTableSource::PerfKvmStat {
        return None;
    }
    // Events of which nobody knows of how many exits they are, are no part of them.
    let has_whole = table.printed_exits().is_some();
    let came = keyed(table).filter(|row| row.count > 0 && (row.key.is_some() || has_whole));
    let most = came.max_by_key(|row| row.count)?;
    // A table that was cut has fewer rows than exits, never more.
    let all = table.exits().or(table.count).unwrap_or(0).max(most.count);
    (most.count as f64 >= missing * all as f64).then(|| of(most, most.count as f64 / all.max(1) as f64))
}

fn halted(table: &ExitTable) -> Option<(f64, Vec<String>)> {
    let rows = sum(table.reasons().filter_map(ExitTableRow::middle));
    let (halts, all) = (table.reasons().filter(|row| row.is_halt()), whole_time(table).unwrap_or(rows as f64));
    let halts: Vec<&ExitTableRow> = halts.filter(|row| row.time.is_some()).collect();
    let names = halts.iter().filter_map(|row| row.key.clone()).collect();
    let time = sum(halts.iter().filter_map(|row| row.middle()));
    (all > 0.0 && !halts.is_empty()).then(|| (time as f64 / all, names))
}

/// Half of the last digit of a share that `perf kvm stat` prints as `96.15%`.
const HALF_DIGIT_OF_SHARE: f64 = 0.000_05;
/// Half of the last digit of its sum of all times, `1110.00us`, in nanoseconds.
const HALF_DIGIT_OF_SUM: f64 = 5.0;

/// What exits but halts take of the vCPUs' time at most: their part of the time of all exits. `perf kvm stat` says neither how long it
/// counted nor how many vCPUs there are (`print_result` of tools/perf/builtin-kvm.c). But each of its times is from a `kvm_exit` to the
/// next `kvm_entry` of one thread (`handle_begin_event`, `handle_end_event`), so that exits of a vCPU do not overlap, and a vCPU's time is
/// theirs and the guest's: all exits together are no more than the vCPUs' time. Of what perf lost nothing is known, so there is no
/// bound. Other tools' tables may lack exits that a program left out.
fn exits_at_most(table: &ExitTable) -> Option<f64> {
    if table.source != ExitTableSource::PerfKvmStat || table.lost.is_some_and(|lost| lost > 0) {
        return None;
    }
    let halts: Vec<&ExitTableRow> = table.reasons().filter(|row| row.is_halt()).collect();
    let by_shares = || halts.iter().filter_map(|row| Some((row.time_share? - HALF_DIGIT_OF_SHARE).max(0.0)));
    let least = halts.iter().filter_map(|row| row.time).fold(0_u64, |sum, time| sum.saturating_add(time[0].0));
    let by_times = table.time.filter(|all| all.0 > 0).map(|all| least as f64 / (all.0 as f64 + HALF_DIGIT_OF_SUM));
    // Both are of the same halts, of which the larger least is nearer.
    let halted = by_shares().reduce(|sum, share| sum + share).into_iter().chain(by_times).reduce(f64::max)?;
    (halted > 0.0).then(|| (1.0 - halted).clamp(0.0, 1.0))
}

/// `kvm_fpu` comes twice for each stay in KVM_RUN: where the guest's registers are loaded and where they are put back
/// (`kvm_load_guest_fpu` and `kvm_put_guest_fpu` of arch/x86/kvm/x86.c, called by `kvm_arch_vcpu_ioctl_run` since Linux 4.15, commit
/// f775b13eedee2; before, also where a vCPU's thread lost its CPU).
fn user_exits(table: &ExitTable) -> Option<CountedUserExits> {
    let count =
        |event: &str| table.rows.iter().find(|row| row.event == event && row.key.is_none()).map(|row| row.count);
    let of = table.exits()?;
    if let Some(count) = count("kvm_userspace_exit") {
        return Some(CountedUserExits { count, of, is_exact: true });
    }
    let count = count("kvm_fpu").filter(|count| *count > 1)? / 2;
    (count <= of).then_some(CountedUserExits { count, of, is_exact: false })
}

/// What a recording would tell of exits of which one such event is each: those that an exit handler fires once.
fn subject_event(event: &str) -> Option<&'static str> {
    Some(match event {
        "kvm_pio" | "io_exits" => wording::PORTS,
        "kvm_msr" => wording::MSRS,
        "kvm_cpuid" => wording::LEAVES,
        "kvm_mmio" | "mmio_exits" | "mmio_exit_user" | "mmio_exit_kernel" => wording::ADDRESSES,
        "kvm_hypercall" | "hypercalls" | "hvc_exit_stat" => wording::HYPERCALLS,
        "irq_exits" => wording::VECTORS,
        "halt_exits" | "wfi_exit_stat" => wording::HALTS,
        "wfe_exit_stat" => wording::SPINNING,
        "kvm_page_fault" => wording::FAULTS,
        _ => return None,
    })
}

/// What a recording would tell of exits with this reason, of such events, or of what no table knows.
fn tells(of: Option<&CostliestReason>, table: &ExitTable) -> &'static str {
    let row = |of: &CostliestReason| table.rows.iter().find(|row| row.key.as_ref() == Some(&of.name));
    let code = of.and_then(|of| row(of)?.codes().next());
    let Some(code) = code else {
        let is_of_exits = table.exits().is_some();
        let event = of.and_then(|of| subject_event(&of.name));
        return event.unwrap_or(if is_of_exits { wording::ABOUT_WHAT } else { wording::WHO_ASKS });
    };
    match (code.list, code.number) {
        (CodeList::Vmx, 30) | (CodeList::Svm, 0x7b) => wording::PORTS,
        (CodeList::Vmx, 31 | 32) | (CodeList::Svm, 0x7c) => wording::MSRS,
        (CodeList::Vmx, 10) | (CodeList::Svm, 0x72) => wording::LEAVES,
        (CodeList::Vmx, 44 | 56) | (CodeList::Svm, 0x401 | 0x402) => wording::APIC,
        (CodeList::Vmx, 49) => wording::ADDRESSES,
        (CodeList::Vmx, 40) | (CodeList::Svm, 0x77) => wording::SPINNING,
        (CodeList::Vmx, 18) | (CodeList::Svm, 0x81) => wording::HYPERCALLS,
        (CodeList::Arm64Ec, 0x18) => wording::REGISTERS,
        _ if code.is_halt() => wording::HALTS,
        _ if code.is_host_interrupt() => wording::VECTORS,
        _ if code.is_page_fault() => wording::FAULTS,
        _ => wording::ABOUT_WHAT,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(name: &str, count: u64, micros: Option<u64>) -> ExitTableRow {
        let time = micros.map(|micros| [Nanos(micros * 1_000); 2]);
        ExitTableRow { event: EXIT_EVENT.into(), key: Some(name.into()), count, time, ..ExitTableRow::default() }
    }

    fn judged(rows: Vec<ExitTableRow>) -> ExitTableJudgement {
        let is_timed = rows.iter().any(|row| row.time.is_some());
        let source = if is_timed { ExitTableSource::PerfKvmStat } else { ExitTableSource::Kvmexit };
        judge_exit_table(&ExitTable { rows, ..ExitTable::new(source) })
    }

    #[test]
    fn halts_are_no_cost_and_the_rest_is_measured_without_them() {
        let judgement =
            judged(vec![row("HLT", 10, Some(900)), row("IO_INSTRUCTION", 5, Some(75)), row("MSR_WRITE", 90, Some(25))]);
        let costliest = judgement.costliest.unwrap();
        assert_eq!((costliest.name.as_str(), costliest.part), ("IO_INSTRUCTION", 0.75));
        assert_eq!(judgement.halted, Some((0.9, vec!["HLT".to_string()])));
        assert_eq!(judgement.next.tells, wording::PORTS);
        assert!(judgement.next.command.starts_with("`exitscope record"));
    }

    /// Halts are the least of the vCPUs' time that other exits do not take; how long guests ran on top is not known.
    #[test]
    fn exits_are_bounded_by_the_halts_of_a_table_that_lost_nothing() {
        let share = |row: ExitTableRow, share| ExitTableRow { time_share: Some(share), ..row };
        let percent = |rows: &[ExitTableRow]| {
            let table = ExitTable { rows: rows.to_vec(), ..ExitTable::new(ExitTableSource::PerfKvmStat) };
            judge_exit_table(&table).exits_at_most.map(|part| (part * 1e5).round() / 1e3)
        };
        let rows = ["hlt", "idle-halt", "io"].map(|name| row(name, 10, Some(100)));
        let [hlt, idle, io] = rows;
        let whole = [share(hlt.clone(), 0.9), share(idle, 0.06), share(io.clone(), 0.04)];
        assert_eq!(percent(&whole), Some(4.01), "rounded upwards, by half a digit for each row of halts");
        assert_eq!(percent(&whole[..1]), Some(10.005), "of a text that is cut, as much as is left");
        assert_eq!(percent(&[share(io.clone(), 1.0)]), None, "without halts there is no bound");
        assert_eq!(percent(&[hlt.clone(), io.clone()]), None, "the rows may not be all");
        let with = |source, time: Option<u64>, lost| {
            let rows = vec![hlt.clone(), io.clone()];
            judge_exit_table(&ExitTable { rows, time: time.map(Nanos), lost, ..ExitTable::new(source) }).exits_at_most
        };
        let part = with(ExitTableSource::PerfKvmStat, Some(200_000), None).unwrap();
        assert!((0.5..0.500_1).contains(&part), "{part}");
        assert_eq!(with(ExitTableSource::PerfKvmStat, Some(200_000), Some(3)), None, "what was lost is not known");
        assert_eq!(with(ExitTableSource::Bpftrace, Some(200_000), None), None, "a program may leave exits out");
        for (name, is_halt) in [("WFx", true), ("Wait state", true), ("EXTERNAL_INTERRUPT", false)] {
            assert_eq!(percent(&[share(row(name, 1, None), 0.5)]).is_some(), is_halt, "{name}");
        }
    }

    #[test]
    fn without_times_only_how_often_is_known() {
        let judgement = judged(vec![row("HLT", 90, None), row("msr", 10, None)]);
        let costliest = judgement.costliest.unwrap();
        assert_eq!((costliest.name.as_str(), costliest.part, costliest.time), ("HLT", 0.9, None));
        assert!(!costliest.is_of_whole, "a row that is missing may come first");
        assert_eq!(judgement.halted, None, "how long they were is not known");
        assert!(judgement.not_recorded.contains(&wording::NO_TIMES));
        let cut = ExitTable { rows: vec![row("HLT", 90, None)], ..ExitTable::new(ExitTableSource::PerfKvmStat) };
        assert_eq!(judge_exit_table(&cut).costliest, None, "perf has times, and they are cut off");
    }

    #[test]
    fn a_table_of_events_alone_has_the_most_frequent_one_that_says_what_exits_are_about() {
        let of = |event: &str, count| ExitTableRow { event: event.into(), count, ..ExitTableRow::default() };
        assert_eq!(judged(vec![of("kvm_pio", 9), of("kvm_msr", 80)]).costliest, None, "of how many exits is not known");
        let judgement = judged(vec![of("kvm_entry", 100), of("kvm_exit", 100), of("kvm_msr", 80), of("kvm_fpu", 2)]);
        let costliest = judgement.costliest.unwrap();
        assert_eq!((costliest.name.as_str(), costliest.part, costliest.is_of_whole), ("kvm_msr", 0.8, true));
        assert_eq!(judgement.next.tells, wording::MSRS);
        assert_eq!(judged(vec![of("kvm_exit", 100)]).next.tells, wording::ABOUT_WHAT);
        assert_eq!(
            judged(vec![of("kvm_exit", 0), row("HLT", 0, None)]).costliest,
            None,
            "kvm_stat prints what did not come"
        );
    }

    #[test]
    fn user_exits_are_half_of_kvm_fpu_unless_they_cannot_be() {
        let with = |fpu| {
            let fpu = ExitTableRow { event: "kvm_fpu".into(), count: fpu, ..ExitTableRow::default() };
            judged(vec![row("io", 100, None), fpu]).user_exits.map(|of| (of.count, of.of, of.is_exact))
        };
        assert_eq!(with(80), Some((40, 100, false)));
        assert_eq!(with(202), None, "more than exits: it counted something else");
        assert_eq!(judged(vec![row("io", 100, None)]).user_exits, None);
    }

    #[test]
    fn reasons_that_a_tool_does_not_know_are_said_to_be_unknown() {
        for (name, expected) in [
            ("unknown kvm exit code:131072 on VMX", Some(UnknownReasons::Software)),
            ("unknown kvm exit code:327680 on VMX", Some(UnknownReasons::Software)),
            ("unknown kvm exit code:393216 on VMX", Some(UnknownReasons::Unnamed)),
            ("unknown kvm exit code:77 on VMX", Some(UnknownReasons::Unnamed)),
            ("UNKNOWN", Some(UnknownReasons::Unnamed)),
            ("123", Some(UnknownReasons::Numbered)),
            ("HLT", None),
        ] {
            assert_eq!(judged(vec![row(name, 5, Some(1))]).unknown, expected, "{name}");
        }
    }

    #[test]
    fn reasons_that_hold_halts_say_by_what() {
        for (name, expected) in [
            ("SYSCALL", Some("H_CEDE")),
            ("TRAP", Some("WFI")),
            ("VIRTUAL_INST_FAULT", Some("WFI")),
            ("HV_DECREMENTER", None),
        ] {
            assert_eq!(judged(vec![row(name, 5, Some(1))]).halts_within.map(|of| of.1), expected, "{name}");
        }
    }

    /// Of a table that is cut, no reason is named that one of the missing rows may pass.
    #[test]
    fn what_is_missing_may_be_more_than_what_is_there() {
        let table = |exits, rows| {
            let all = ExitTableRow { event: EXIT_EVENT.into(), count: exits, ..ExitTableRow::default() };
            let rows = std::iter::once(all).chain(rows).collect();
            judge_exit_table(&ExitTable { rows, ..ExitTable::new(ExitTableSource::KvmStat) })
        };
        let thousandths = |part: f64| (part * 1_000.0).round();
        let named =
            |judged: ExitTableJudgement| (judged.costliest.map(|of| of.name), judged.not_in_rows.map(thousandths));
        let msr = || row("MSR_WRITE", 40, None);
        assert_eq!(named(table(50, [msr()])), (Some("MSR_WRITE".to_string()), Some(200.0)));
        assert_eq!(named(table(100, [msr()])), (None, Some(600.0)));
        let timed = |share| ExitTableRow { time_share: Some(share), ..row("MSR_WRITE", 40, Some(40)) };
        assert_eq!(named(judged(vec![timed(0.8)])).0, Some("MSR_WRITE".to_string()));
        assert_eq!(named(judged(vec![timed(0.4)])), (None, Some(600.0)));
        assert_eq!(named(judged(vec![msr()])).1, None, "nothing says how many there are");
    }

    /// KVM's statistics count no exit for MSRs, CPUID and others: what all counters together lack may be one of these.
    #[test]
    fn counters_of_kvm_name_a_reason_only_where_the_exits_without_a_counter_are_fewer() {
        let of = |event: &str, count| ExitTableRow { event: event.into(), count, ..ExitTableRow::default() };
        let judged = |exits, io| {
            let rows = vec![of("exits", exits), of("io_exits", io), of("halt_exits", 10)];
            judge_exit_table(&ExitTable { rows, ..ExitTable::new(ExitTableSource::Counters) })
        };
        let found = judged(100, 80);
        assert_eq!(found.costliest.map(|of| (of.name, of.part)), Some(("io_exits".to_string(), 0.8)));
        assert_eq!(found.next.tells, wording::PORTS);
        assert_eq!(judged(200, 80).costliest, None);
    }

    #[test]
    fn a_table_of_accesses_has_a_costliest_one() {
        let of = |mut row: ExitTableRow| {
            row.event = "IO Port Access".into();
            row
        };
        let judgement = judged(vec![of(row("0x3f8:POUT", 9, Some(10))), of(row("0xcfc:PIN", 1, Some(30)))]);
        assert_eq!(judgement.costliest.map(|of| (of.name, of.part)), Some(("0xcfc:PIN".to_string(), 0.75)));
        assert_eq!(judgement.next.tells, wording::WHO_ASKS);
    }
}
