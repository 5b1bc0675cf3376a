//! Counts of yields as text: screens of z/VM's Performance Toolkit, diag_stat, KVM's statistics; whole and damaged.

use exitscope_model::{CountSource, LedgerLine, YieldCounter, YieldCounts};
use exitscope_trace::counts::{CountedText, is_counts, read};
use exitscope_trace::{Input, SourceOptions, TraceError, open_input};

fn input(text: &str) -> Input {
    Input::from_bytes("counts", text.as_bytes()).unwrap()
}

fn counted(text: &str) -> CountedText {
    assert!(is_counts(&input(text)).unwrap(), "{text}");
    read(&input(text)).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// A screen of a minute with these counts of the yields, in the layout of the Performance Toolkit.
fn screen(serial: &str, interval: &str, [fast, not_ready, wait, soft, dispatched, cp]: [u64; 6]) -> String {
    let pair = |label: &str, count: u64| {
        let rate = count as f64 / 60.0;
        let rate = if rate < 100.0 { format!("{rate:.1}") } else { format!("{rate:.0}") };
        format!("{label:<23}{count:>7} {:>6}", rate.trim_start_matches('0'))
    };
    let row =
        |left: (&str, u64), right: (&str, u64)| format!("  {}    {}", pair(left.0, left.1), pair(right.0, right.1));
    let rows = [
        format!("  FCX102      CPU 2817  SER {serial}  Interval {interval}    Perf. Monitor"),
        String::new(),
        "  Operation                Count Rate/s    Operation                Count Rate/s".to_string(),
        row(("SVC 76 reflected", 0), ("Diagnose I/O requests", 480)),
        row(("Fast-path SIGP simulat.", 0), ("FP simul of Diag.X'44'", fast)),
        row(("Diag.X'9C', Not Ready", not_ready), ("Diag.X'9C', Wait State", wait)),
        row(("Diag.X'9C', Soft Wait", soft), ("Diag.X'9C', Alr.Dispat.", dispatched)),
        row(("Entries to enabled wait", 16_500), ("CP issued Diag.X'44'", cp)),
    ];
    rows.join("\n") + "\n"
}

const COUNTS: [u64; 6] = [7_200, 18, 642, 7, 9_553, 0];

fn of(counts: &YieldCounts) -> Vec<(YieldCounter, u64)> {
    counts.counts.iter().map(|count| (count.counter, count.count)).collect()
}

fn all(of: [u64; 6]) -> Vec<(YieldCounter, u64)> {
    let counters = [
        YieldCounter::Diag44Fast,
        YieldCounter::Diag9cNotReady,
        YieldCounter::Diag9cWait,
        YieldCounter::Diag9cSoftWait,
        YieldCounter::Diag9cDispatched,
        YieldCounter::CpDiag44,
    ];
    counters.into_iter().zip(of).collect()
}

fn lines(text: &CountedText) -> Vec<(LedgerLine, u64)> {
    text.ledger.lines().collect()
}

#[test]
fn a_screen_has_its_system_its_interval_and_its_counts() {
    let text = counted(&screen("36D85", "10:00:30 - 10:01:30", COUNTS));
    let [one] = &text.counts[..] else { panic!("{:?}", text.counts) };
    assert_eq!((one.source, one.system.as_str()), (CountSource::Fcx102, "CPU 2817 SER 36D85"));
    assert_eq!((one.interval.as_str(), one.span.map(|span| span.0)), ("10:00:30 - 10:01:30", Some(60_000_000_000)));
    assert_eq!(of(one), all(COUNTS));
    assert_eq!(one.get(YieldCounter::Diag9cDispatched).unwrap().per_s, Some(9_553.0 / 60.0));
    assert!(!one.is_since_start && lines(&text).is_empty(), "{text:?}");
    // The screen counts neither all X'44' nor all X'9C'.
    assert_eq!((one.fast_share(), one.named_share(), one.ignored_share()), (None, None, None));
}

#[test]
fn a_screen_is_the_same_however_it_was_pasted() {
    let text = screen("36D85", "10:00:30 - 10:01:30", COUNTS);
    let whole = counted(&text).counts;
    let spaced = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ") + "\n");
    let printed = text.replacen("  FCX102", "1FCX102", 1);
    for pasted in [
        text.replace('\n', "\r\n"),
        spaced.collect(),
        text.replace("  10.7", "  10,7").replace("    .3", "    ,3"),
        text.replace("   9553", "  9,553"),
        text.replace("  Diag", "\tDiag"),
        printed,
        format!("From: somebody\n\n{text}\nRegards\n"),
    ] {
        let pasted = counted(&pasted);
        assert_eq!(pasted.counts, whole);
        assert!(lines(&pasted).is_empty(), "{pasted:?}");
    }
}

#[test]
fn without_its_header_a_screen_has_no_system_and_its_own_rates() {
    let text = screen("36D85", "10:00:30 - 10:01:30", COUNTS);
    let cut: String = text.lines().skip(3).map(|line| format!("{line}\n")).collect();
    let [one] = &counted(&cut).counts[..] else { panic!() };
    assert_eq!((one.system.as_str(), one.interval.as_str(), one.span), ("", "", None));
    assert_eq!(one.get(YieldCounter::Diag9cDispatched).unwrap().per_s, Some(159.0));
    let placeholders = counted(&screen("nnnnn", "HH:MM:SS - HH:MM:SS", COUNTS));
    assert_eq!((placeholders.counts[0].span, of(&placeholders.counts[0])), (None, all(COUNTS)));
}

#[test]
fn screens_of_other_intervals_and_systems_stay_apart_and_repeated_ones_count_once() {
    let first = screen("36D85", "10:00:30 - 10:01:30", COUNTS);
    let second = screen("36D85", "10:01:30 - 10:02:30", [0, 0, 60, 0, 120, 0]);
    let other = screen("11111", "10:00:30 - 10:01:30", [1, 2, 3, 4, 5, 6]);
    let text = counted(&format!("{first}{second}{other}{first}"));
    assert_eq!(text.counts.len(), 3);
    assert_eq!(of(&text.counts[1]), all([0, 0, 60, 0, 120, 0]));
    assert_eq!(of(&text.counts[2]), all([1, 2, 3, 4, 5, 6]));
    assert_eq!(lines(&text), [(LedgerLine::RepeatedScreen, 1)]);
    // The header of a page that goes on is no other screen.
    let header = first.lines().next().unwrap();
    let (above, below) = first.split_at(first.find("  Diag.X'9C', Not").unwrap());
    let paged = counted(&format!("{above}{header}\n{below}"));
    assert_eq!((paged.counts.len(), of(&paged.counts[0])), (1, all(COUNTS)));
    assert!(lines(&paged).is_empty());
}

#[test]
fn one_system_has_one_figure_of_an_interval() {
    let one = screen("36D85", "10:00:30 - 10:01:30", COUNTS);
    let other = screen("36D85", "10:00:30 - 10:01:30", [7_200, 18, 642, 7, 60, 0]);
    let text = counted(&format!("{one}{other}"));
    assert_eq!((text.counts.len(), of(&text.counts[0])), (1, all(COUNTS)));
    assert_eq!(lines(&text), [(LedgerLine::RepeatedScreen, 1), (LedgerLine::BadText, 1)]);
}

#[test]
fn screens_of_other_kinds_are_passed_over_and_counted() {
    let one = screen("36D85", "10:00:30 - 10:01:30", COUNTS);
    let other = "  FCX104      CPU 2817  SER 36D85  Interval 10:00:30 - 10:01:30    Perf. Monitor\n  CP issued Diag.X'44' 5 .1\n";
    let text = counted(&format!("{other}{one}{other}"));
    assert_eq!((text.counts.len(), of(&text.counts[0])), (1, all(COUNTS)));
    assert_eq!(lines(&text), [(LedgerLine::OtherScreen, 2)]);
    assert!(is_counts(&input(other)).unwrap());
    let error = read(&input(other)).unwrap_err();
    assert!(matches!(error, TraceError::NoCounts { .. }), "{error}");
}

#[test]
fn figures_that_are_cut_or_contradict_their_rate_are_losses() {
    let whole = screen("36D85", "10:00:30 - 10:01:30", COUNTS);
    for (from, to) in [
        ("   9553    159", "   9553"),
        ("   9553    159", "   955x    159"),
        ("   9553    159", "   9553    999"),
        ("   9553    159", "  19553    159"),
        ("Alr.Dispat.   9553", "Alr.Dispat.9553"),
        ("   9553    159", "  95.53    159"),
        ("Alr.Dispat.   9553    159", "Alr.Dis"),
    ] {
        assert!(whole.contains(from));
        let text = counted(&whole.replace(from, to));
        let rest: Vec<_> = all(COUNTS).into_iter().filter(|row| row.0 != YieldCounter::Diag9cDispatched).collect();
        assert_eq!(of(&text.counts[0]), rest, "{to}");
        assert_eq!(lines(&text), [(LedgerLine::BadText, 1)], "{to}");
        assert_eq!(text.ledger.first(LedgerLine::BadText), Some(7), "{to}");
    }
    // What a system does not count is no zero, and no loss.
    let none = counted(&whole.replace("   9553    159", "    ---    ---"));
    assert_eq!((none.counts[0].get(YieldCounter::Diag9cDispatched), lines(&none).len()), (None, 0));
}

#[test]
fn however_a_screen_is_cut_no_count_is_another() {
    let whole = screen("36D85", "10:00:30 - 10:01:30", COUNTS);
    for length in 0..whole.len() {
        let cut = &whole[..length];
        let Ok(text) = read(&input(cut)) else { continue };
        for counts in &text.counts {
            let is_right = |row: &(YieldCounter, u64)| all(COUNTS).contains(row);
            assert!(of(counts).iter().all(is_right), "{length}: {counts:?}");
        }
        let last = cut.rsplit('\n').next().unwrap();
        let is_told = ["Diag.X'44'", "Diag.X'9C', Not Ready"].iter().any(|label| last.contains(label));
        assert!(!is_told || !lines(&text).is_empty(), "{length}: {last}");
    }
}

const DIAG_STAT: &str = "               CPU0       CPU1
diag 008:          4          0    Console Function
diag 044:         10         20    Voluntary Timeslice End
diag 09c:        300        670    Relinquish Timeslice
diag 500:      12345         67    Virtio Service
";

#[test]
fn one_reading_of_diag_stat_is_since_the_start() {
    let text = counted(DIAG_STAT);
    let [one] = &text.counts[..] else { panic!("{:?}", text.counts) };
    assert_eq!((one.source, one.is_since_start, one.span), (CountSource::DiagStat, true, None));
    assert_eq!(of(one), [(YieldCounter::Diag44, 30), (YieldCounter::Diag9c, 970)]);
    assert_eq!((one.get(YieldCounter::Diag9c).unwrap().per_s, one.named_share()), (None, Some(0.97)));
    assert!(lines(&text).is_empty());
}

#[test]
fn two_readings_are_an_interval_if_moments_say_how_long_it_was() {
    let later = DIAG_STAT.replace("       300 ", "       800 ").replace("        20 ", "        30 ");
    let text = counted(&format!("1795860030.25\nkernel.spin_retry = 1000\n{DIAG_STAT}1795860040.75\n{later}"));
    let [one] = &text.counts[..] else { panic!("{:?}", text.counts) };
    assert_eq!(
        (one.span.map(|span| span.0), one.is_since_start, one.spin_retry),
        (Some(10_500_000_000), false, Some(1_000))
    );
    assert_eq!(of(one), [(YieldCounter::Diag44, 10), (YieldCounter::Diag9c, 500)]);
    let rate = one.get(YieldCounter::Diag9c).unwrap().per_s.unwrap();
    assert!((rate - 500.0 / 10.5).abs() < 1e-9);
    // Without moments there are counts and no rates.
    let text = counted(&format!("{DIAG_STAT}{later}"));
    let [one] = &text.counts[..] else { panic!("{:?}", text.counts) };
    assert_eq!((one.span, one.is_since_start), (None, false));
    assert_eq!(one.get(YieldCounter::Diag9c).unwrap().per_s, None);
}

#[test]
fn counters_that_begin_anew_have_no_difference() {
    let later = DIAG_STAT.replace("       300 ", "         3 ");
    let text = counted(&format!("1795860030\n{DIAG_STAT}1795860040\n{later}"));
    assert_eq!(of(&text.counts[0]), [(YieldCounter::Diag44, 0)]);
    assert_eq!(lines(&text), [(LedgerLine::CounterReset, 1)]);
}

#[test]
fn lines_of_diag_stat_that_are_cut_are_losses() {
    let cut = |from: &str, to: &str| {
        assert!(DIAG_STAT.contains(from));
        counted(&DIAG_STAT.replace(from, to))
    };
    for (from, to) in [("670    Relinquish Timeslice", "670"), ("        670    Relin", "    Relin"), ("300", "3x0")] {
        let text = cut(from, to);
        assert_eq!(
            (of(&text.counts[0]), lines(&text)),
            (vec![(YieldCounter::Diag44, 30)], vec![(LedgerLine::BadText, 1)]),
            "{to}"
        );
    }
    let ended = DIAG_STAT.find("diag 500").unwrap() - " Timeslice\n".len();
    let text = counted(&DIAG_STAT[..ended]);
    assert_eq!(of(&text.counts[0]), [(YieldCounter::Diag44, 30)]);
    assert!(text.ledger.is_cut());
}

#[test]
fn statistics_of_kvm_are_read_by_vm_as_grep_prints_them() {
    let reading = |vm: &str, ignored: u64, all: u64| {
        format!(
            "/sys/kernel/debug/kvm/{vm}/diag_9c_forward:0\n/sys/kernel/debug/kvm/{vm}/diag_9c_ignored:{ignored}\n\
             /sys/kernel/debug/kvm/{vm}/instruction_diagnose_44:5\n/sys/kernel/debug/kvm/{vm}/instruction_diagnose_9c:{all}\n\
             /sys/kernel/debug/kvm/{vm}/instruction_diagnose_500:77\n"
        )
    };
    let text = counted(&format!(
        "1795860000\n{}{}1795860010\n{}{}",
        reading("4711-15", 100, 200),
        reading("99-12", 0, 0),
        reading("4711-15", 400, 600),
        reading("99-12", 0, 10)
    ));
    let [one, other] = &text.counts[..] else { panic!("{:?}", text.counts) };
    assert_eq!((one.source, one.system.as_str(), other.system.as_str()), (CountSource::KvmStats, "4711-15", "99-12"));
    assert_eq!(one.get(YieldCounter::Diag9c).unwrap().per_s, Some(40.0));
    assert_eq!((one.ignored_share(), one.named_share()), (Some(0.75), Some(1.0)));
    assert_eq!(other.get(YieldCounter::Diag9c).unwrap().count, 10);
    assert!(lines(&text).is_empty());
    // Older kernels' names, in the folder itself; and kvm_stat's columns.
    for text in [
        "instruction_diag_44:5\ninstruction_diag_9c:7\n",
        "instruction_diagnose_44      5     0\ninstruction_diagnose_9c    7    1\n",
    ] {
        let text = counted(text);
        assert_eq!(of(&text.counts[0]), [(YieldCounter::Diag44, 5), (YieldCounter::Diag9c, 7)]);
        assert_eq!(text.counts[0].system, "");
    }
    let all_vms = counted("/sys/kernel/debug/kvm/instruction_diagnose_44:5\n");
    assert_eq!(all_vms.counts[0].system, "");
}

#[test]
fn flipped_bits_make_no_further_figures() {
    let whole = screen("36D85", "10:00:30 - 10:01:30", COUNTS) + DIAG_STAT;
    for at in 0..whole.len() {
        for bit in 0..8 {
            let mut bytes = whole.clone().into_bytes();
            bytes[at] ^= 1 << bit;
            let Ok(text) = read(&Input::from_bytes("counts", &bytes).unwrap()) else { continue };
            let figures: usize = text.counts.iter().map(|of| of.counts.len()).sum();
            assert!(figures <= 8, "byte {at}, bit {bit}: {:?}", text.counts);
        }
    }
}

#[test]
fn counts_are_no_trace_and_traces_are_no_counts() {
    let screen = screen("36D85", "10:00:30 - 10:01:30", COUNTS);
    for text in [screen.as_str(), DIAG_STAT] {
        let error = open_input(input(text), SourceOptions::default()).err().unwrap();
        assert!(matches!(error, TraceError::Counts { .. }), "{error}");
    }
    let trace = "# tracer: nop\n#\n qemu-1 [001] d..1. 87.534187: kvm_entry: vcpu 0, rip 0xfff0\n";
    assert!(!is_counts(&input(&format!("{trace}{screen}"))).unwrap(), "it begins as a trace");
    for text in [
        "",
        "\n",
        "FCX",
        "FCX102\n",
        "           CPU0       \u{e4}CPU1\n",
        "nothing of it\n",
        "           CPU0       CPU1\n 10: 1 2 NMI\n",
    ] {
        assert!(!is_counts(&input(text)).unwrap(), "{text:?}");
    }
}
