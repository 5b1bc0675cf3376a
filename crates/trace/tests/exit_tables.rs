//! Tables of exits as other tools print them: whole, quoted, wrapped, cut, and beside other text.

use exitscope_model::{ExitTable, ExitTableRow, ExitTableSource, LedgerLine};
use exitscope_trace::Input;
use exitscope_trace::counts::{CountedText, is_counts, read};
use exitscope_units::Nanos;

const PERF: &str = "\
Analyze events for all VMs, VCPU 27:

             VM-EXIT    Samples  Samples%     Time%    Min Time    Max Time         Avg time

      IO_INSTRUCTION     251812    78.41%    81.30%      1.92us    912.55us     12.71us ( +-   0.20% )
                 HLT      35122    10.94%    17.80%      0.80us  15622.10us     19.95us ( +-   2.10% )
           MSR_WRITE      12773     3.98%     0.20%      0.35us     55.00us      0.62us ( +-   0.80% )

Total Samples:299707, Total events handled time:3936854.12us.

Lost events: 12
";

const SCREEN: &str = "\
kvm statistics - summary

 Event                                         Total %Total CurAvg/s
 kvm_entry                                    238130    8.3     4419
 kvm_exit                                     238130    8.3     4419
   kvm_exit(UNKNOWN)                          124281   52.2     2374
   kvm_exit(WFx)                              112549   47.3
 kvm_fpu                                      476260   16.5     8838
 Total                                       1064350          20050
";

fn counted(text: &str) -> CountedText {
    let input = || Input::from_bytes("pasted", text.as_bytes()).unwrap();
    assert!(is_counts(&input()).unwrap(), "{text}");
    read(&input()).unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn one(text: &str) -> ExitTable {
    let counted = counted(text);
    assert_eq!(counted.ledger.lines().collect::<Vec<_>>(), [], "{text}");
    assert_eq!(counted.tables.len(), 1, "{text}: {:?}", counted.tables);
    counted.tables[0].clone()
}

fn row<'a>(table: &'a ExitTable, event: &str, key: Option<&str>) -> &'a ExitTableRow {
    let is_it = |row: &&ExitTableRow| row.event == event && row.key.as_deref() == key;
    table.rows.iter().find(is_it).unwrap_or_else(|| panic!("{event} {key:?}: {table:?}"))
}

fn exit<'a>(table: &'a ExitTable, reason: &str) -> &'a ExitTableRow {
    row(table, "kvm_exit", Some(reason))
}

#[test]
fn perf_kvm_stat_has_counts_times_and_what_it_lost() {
    let table = one(PERF);
    assert_eq!((table.source, table.of.as_str()), (ExitTableSource::PerfKvmStat, "all VMs, VCPU 27"));
    assert_eq!((table.exits(), table.time, table.lost), (Some(299_707), Some(Nanos(3_936_854_120)), Some(12)));
    let io = exit(&table, "IO_INSTRUCTION");
    assert_eq!((io.count, io.longest), (251_812, Some(Nanos(912_555))));
    // Its mean has two digits behind the point: 12.705 to 12.715 us.
    let [least, most] = io.time.unwrap();
    assert_eq!((least.0 / 1_000, most.0 / 1_000), (3_199_271, 3_201_789));
    assert!(exit(&table, "HLT").is_halt());
    assert_eq!(table.span, None, "it does not say how long it counted");
}

#[test]
fn what_mail_programs_do_to_a_table_changes_nothing() {
    let whole = one(PERF);
    let quoted: String = PERF.lines().map(|line| format!("> > {line}\n")).collect();
    assert_eq!(one(&quoted), whole);
    assert_eq!(one(&format!("# perf kvm stat report --vcpu 27\n\nHello,\nI see 3 exits:\n{PERF}-- \nJane\n")), whole);
    assert_eq!(one(&PERF.replace('\n', "\r\n").replace("   ", "\t")), whole);
    // Wrapped after 72 columns, as a quoting program does, in heading and rows.
    let wrapped: String = PERF
        .lines()
        .map(|line| match line.match_indices(' ').map(|at| at.0).rfind(|at| (40..72).contains(at)) {
            Some(at) if line.len() > 72 => format!(">> {}\n>> {}\n", &line[..at], line[at..].trim_start()),
            _ => format!(">> {line}\n"),
        })
        .collect();
    assert_eq!(one(&wrapped), whole, "{wrapped}");
}

#[test]
fn a_cut_row_gives_what_it_has_and_is_counted() {
    let cut: String = PERF.lines().map(|line| format!("{}\n", line.get(..60).unwrap_or(line))).collect();
    let text = counted(&cut);
    let [table] = &text.tables[..] else { panic!("{text:?}") };
    assert_eq!(text.ledger.lines().collect::<Vec<_>>(), [(LedgerLine::BadText, 3)]);
    let counts = |table: &ExitTable| -> Vec<(Option<String>, u64)> {
        table.rows.iter().map(|row| (row.key.clone(), row.count)).collect()
    };
    assert_eq!(counts(table), counts(&one(PERF)), "no row less, and none more");
    assert!(!table.is_timed(), "no time is made up: {table:?}");
}

/// Whatever is cut off at the end, no row is there that the whole does not have, and none has another count or more time.
#[test]
fn a_paste_that_is_cut_anywhere_only_has_less() {
    for text in [PERF, SCREEN, COUNTERS, MAPS] {
        let whole = one(text);
        for end in (0..text.len()).filter(|&end| text.is_char_boundary(end)) {
            let Ok(input) = Input::from_bytes("pasted", &text.as_bytes()[..end]) else { continue };
            let Ok(cut) = read(&input) else { continue };
            for found in cut.tables.iter().flat_map(|table| &table.rows) {
                let of = row(&whole, &found.event, found.key.as_deref());
                assert_eq!(found.count, of.count, "{end}: {found:?}");
                assert!(found.time.is_none() || found.time == of.time, "{end}: {found:?}");
            }
        }
    }
}

#[test]
fn layouts_of_other_releases_of_perf_are_read() {
    let first = "
             VM-EXIT    Samples  Samples%     Time%         Avg time
                 HLT      10     50.00%    90.00%    100.00us ( +-   1.00% )
                  io      10     50.00%    10.00%     11.00us ( +-   1.00% )
Total Samples:20, Total events handled time:1110.00us.
";
    let table = one(first);
    assert_eq!(exit(&table, "io").time, Some([Nanos(109_950), Nanos(110_050)]));
    assert_eq!(exit(&table, "io").longest, None);
    let sums = "
Event name                Samples   Sample%    Time (ns)     Time%   Max Time (ns)   Min Time (ns)  Mean Time (ns)
STORE_GUEST_PAGE_FAULT     26968     54.00%    2003031800    40.00%     3361400         27600          74274
VIRTUAL_INST_FAULT         1247      2.00%     340820800     6.00%      1190800         43300          273312
";
    let table = one(sums);
    let fault = exit(&table, "STORE_GUEST_PAGE_FAULT");
    assert_eq!((fault.time, fault.longest), (Some([Nanos(2_003_031_800); 2]), Some(Nanos(3_361_400))));
    let ports = PERF.replace("             VM-EXIT", "      IO Port Access").replace("IO_INSTRUCTION", "0x3f8:POUT");
    assert_eq!(row(&one(&ports), "IO Port Access", Some("0x3f8:POUT")).count, 251_812);
    assert_eq!(one(&ports).reasons().count(), 0, "accesses are no reasons");
}

#[test]
fn kvm_stat_is_read_as_a_screen_and_as_lines() {
    let table = one(SCREEN);
    assert_eq!((table.source, table.of.as_str(), table.exits()), (ExitTableSource::KvmStat, "summary", Some(238_130)));
    assert_eq!(exit(&table, "UNKNOWN").per_s, Some(2_374.0));
    assert_eq!(exit(&table, "WFx").per_s, None, "it prints no rate of what did not come");
    assert!(!table.is_timed());
    let lines = "\
kvm_entry                                         500        40
kvm_exit                                          500        40
kvm_exit(HLT)                                     300        20
";
    let batch = one(lines);
    assert_eq!((batch.exits(), exit(&batch, "HLT").count, exit(&batch, "HLT").per_s), (Some(500), 300, Some(20.0)));
    let old = one("kvm statistics\n\n kvm_exit       8234331     342\n kvm_mmio(read)    4294    7\n");
    assert_eq!((old.exits(), row(&old, "kvm_mmio", Some("read")).per_s), (Some(8_234_331), Some(7.0)));
}

#[test]
fn perf_stat_and_kvmexit_are_read() {
    let stat = "
 Performance counter stats for 'system wide':

         3,358,451      kvm:kvm_exit                  #    0.031 M/sec
            34,863      kvm:kvm_fpu
     <not counted>      kvm:kvm_pio
         1,000,000      cycles

     107.500000000 seconds time elapsed
";
    let table = one(stat);
    assert_eq!((table.source, table.of.as_str()), (ExitTableSource::PerfStat, "system wide"));
    assert_eq!((table.exits(), table.span), (Some(3_358_451), Some(Nanos(107_500_000_000))));
    assert_eq!(table.rows.len(), 2, "what was not counted is no zero");
    assert!((table.rows[0].per_s.unwrap() - 31_241.4).abs() < 0.1);
    let spaced = one(&stat.replace("3,358,451", "3 358 451"));
    assert_eq!(spaced.exits(), Some(3_358_451));

    let bcc = "
Display kvm exit reasons and statistics for all threads after sleeping 10 secs.
PID      TID      KVM_EXIT_REASON                     COUNT
159607   159615   EXIT_REASON_HLT                     53760
159607   159615   EPT_MISCONFIG                       15444
159607   159616   HLT                                 1
";
    let table = one(bcc);
    assert_eq!((table.source, table.exits()), (ExitTableSource::Kvmexit, Some(69_205)));
    assert_eq!(exit(&table, "HLT").count, 53_761, "threads are added up");
    let timed = one("PID TID KVM_EXIT_REASON COUNT EXIT_TIME_AVG\n9352 9385 MSR_WRITE 2295 1616\n");
    assert_eq!(exit(&timed, "MSR_WRITE").time, Some([Nanos(2_295 * 1_616), Nanos(2_295 * 1_617)]));
}

const LOG: &str = "\
kvm_entry kvm_exit kvm_exit(HLT) kvm_fpu 
2026-11-28 10:00:01       500       500       300        12
2026-11-28 10:00:02       400       410       200        10
kvm_entry kvm_exit kvm_exit(HLT) kvm_fpu 
2026-11-28 10:00:04       100       100        50         2
";

#[test]
fn a_log_of_kvm_stat_has_the_sums_of_its_lines_and_rates_between_their_moments() {
    let table = one(LOG);
    assert_eq!((table.source, table.of.as_str(), table.exits()), (ExitTableSource::KvmStat, "log", Some(1_010)));
    assert_eq!(exit(&table, "HLT").count, 550);
    // The first line counted before its moment: 510 exits in the 3 seconds after it.
    assert_eq!(row(&table, "kvm_exit", None).per_s, Some(170.0));
    let csv = "timestamp,kvm_entry,kvm_exit,kvm_exit(HLT),kvm_fpu\n2026-11-28 10:00:01,500,500,300,12\n\
        2026-11-28 10:00:02,400,410,200,10\n2026-11-28 10:00:04,100,100,50,2\n";
    assert_eq!(one(csv).rows, table.rows);
    // Until Linux 5.5 lines have no moment, and thus no rate.
    let old = one("kvm_entry kvm_exit\n       500       510\n        10        20\n");
    assert_eq!((old.exits(), row(&old, "kvm_exit", None).per_s), (Some(530), None));
    let counted = counted(&format!("{LOG}2026-11-28 10:00:05       100       10"));
    assert_eq!(exit(&counted.tables[0], "HLT").count, 550, "a cut line has figures of columns that nobody knows");
    assert_ne!(counted.ledger.lines().count(), 0);
}

const COUNTERS: &str = "\
/sys/kernel/debug/kvm/1712-14/exits:100000
/sys/kernel/debug/kvm/1712-14/halt_exits:20000
/sys/kernel/debug/kvm/1712-14/halt_wait_ns:99999999
/sys/kernel/debug/kvm/1712-14/io_exits:70000
/sys/kernel/debug/kvm/1712-14/pf_taken:12
";

#[test]
fn kvms_statistics_are_read_from_debugfs_and_from_qemus_monitor() {
    let table = one(COUNTERS);
    assert_eq!((table.source, table.of.as_str()), (ExitTableSource::Counters, "1712-14"));
    assert_eq!((table.exits(), row(&table, "io_exits", None).count, table.rows.len()), (Some(100_000), 70_000, 3));
    // A later reading, and another VM, are tables of their own.
    let several =
        counted(&format!("{COUNTERS}{}{}", COUNTERS.replace("70000", "70500"), COUNTERS.replace("1712-14", "9-9")));
    let counts: Vec<u64> = several.tables.iter().map(|table| row(table, "io_exits", None).count).collect();
    assert_eq!(counts, [70_000, 70_500, 70_000]);
    let arm = one("/sys/kernel/debug/kvm/exits:50\n/sys/kernel/debug/kvm/wfi_exit_stat:40\n");
    assert_eq!((arm.of.as_str(), row(&arm, "wfi_exit_stat", None).count), ("", 40));
    // QEMU has those of each vCPU, one below the other.
    let vcpu = "/machine/unattached/device[0]\nprovider: kvm\n    exits (cumulative): 30\n    halt_wait_ns (cumulative, ns): 7\n    \
        io_exits (cumulative): 20\n    guest_mode (instant): 0\n";
    let qemu = one(&format!("(qemu) info stats vcpu\n{vcpu}{}", vcpu.replace("device[0]", "device[2]")));
    assert_eq!((qemu.exits(), row(&qemu, "io_exits", None).count), (Some(60), 40), "vCPUs are added up");
}

const MAPS: &str = "\
# bpftrace -e 'tracepoint:kvm:kvm_exit { @[args->exit_reason] = count(); }'
Attaching 1 probe...
^C

@[30]: 12
@[48]: 250
";

#[test]
fn maps_and_histograms_of_bpftrace_are_read() {
    let table = one(MAPS);
    assert_eq!((table.source, table.exits(), exit(&table, "48").count), (ExitTableSource::Bpftrace, Some(262), 250));
    let named = one("@exits[EXTERNAL_INTERRUPT]: 5\n@exits[4242, HLT]: 7\n@exits[4243, HLT]: 8\n");
    assert_eq!(exit(&named, "HLT").count, 15, "threads are added up");
    let hist = "@ns[HLT]: \n[512, 1K)              3 |@@@@@@@@@@@@@@      |\n[1K, 2K)               2 |@@@@@@@@            |\n";
    let table = one(hist);
    assert_eq!(exit(&table, "HLT").count, 5);
    assert_eq!(exit(&table, "HLT").time, Some([Nanos(3 * 512 + 2 * 1_024), Nanos(3 * 1_024 + 2 * 2_048)]));
    assert_eq!(exit(&one(&hist.replace("@ns", "@usecs")), "HLT").time.unwrap()[0], Nanos(3_584_000));
    assert_eq!(exit(&one(&hist.replace("@ns", "@")), "HLT").time, None, "nothing says its unit");
    // A map of something else is no table.
    let other = Input::from_bytes("other", b"@[qemu-system-x86]: 12\n@[4242]: 9\n").unwrap();
    assert!(!is_counts(&other).unwrap());
}

/// What the real tool printed of a real log; crates/exitscope/tests/xen.rs holds the log's own counts against it.
#[test]
fn a_summary_of_xenalyze_has_the_reasons_of_each_domain() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus/xen");
    let text = std::fs::read_to_string(folder.join("pvh2_contend_sched_hvm.xenalyze-summary.txt")).unwrap();
    let counted = counted(&text);
    let of: Vec<(&str, usize)> = counted.tables.iter().map(|table| (table.of.as_str(), table.rows.len())).collect();
    assert_eq!(of.iter().map(|of| of.0).collect::<Vec<_>>(), ["domain 3"], "{of:?}");
    let table = &counted.tables[0];
    let io = exit(table, "VMEXIT_IOIO");
    let sums = text.lines().filter(|line| line.contains("VMEXIT_IOIO")).map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        (words[1].parse::<u64>().unwrap(), words[2].trim_end_matches('s').parse::<f64>().unwrap())
    });
    let (count, seconds) = sums.fold((0, 0.0), |sum, row| (sum.0 + row.0, sum.1 + row.1));
    let [least, most] = io.time.unwrap().map(|time| time.0 as f64 / 1e9);
    assert_eq!(io.count, count);
    assert!(least <= seconds && seconds <= most && most - least < 0.03, "{least} {seconds} {most}");
    assert!(exit(table, "VMEXIT_HLT").is_halt());
    let is_reason = |row: &ExitTableRow| row.key.as_ref().is_some_and(|key| key.starts_with("VMEXIT_"));
    assert!(table.rows.iter().all(is_reason), "what is below a reason is a part of it: {table:?}");
}

/// Without times no exit has a length, and without threads nothing says whose it is: what is left is how often.
#[test]
fn lines_of_a_trace_without_times_are_counted() {
    let text = "
Hi, with strace off I see this over and over:
> kvm_exit: reason IO_INSTRUCTION rip 0xffffffff81445 info 3f80008 0
> kvm_pio: pio_write at 0x3f8 size 1 count 1 val 0x41
> kvm_entry: vcpu 0
> kvm_exit: vcpu 0 reason EXTERNAL_INTERRUPT rip 0xffffffff81000 info1 0x0 info2 0x0
> kvm:kvm_exit: reason IO_INSTRUCTION rip 0xffffffff81445 info 3f80008 0
What is kvm_exit: a function?
";
    let table = one(text);
    assert_eq!((table.source, table.exits()), (ExitTableSource::TraceLines, Some(3)));
    assert_eq!((exit(&table, "IO_INSTRUCTION").count, exit(&table, "EXTERNAL_INTERRUPT").count), (2, 1));
    assert_eq!(row(&table, "kvm_pio", None).count, 1);
    let arm =
        one("kvm_exit: TRAP: HSR_EC: 0x0001 (WFx), PC: 0xffff\nkvm_exit: IRQ: HSR_EC: 0x0000 (UNKNOWN), PC: 0x1\n");
    assert!(exit(&arm, "WFx").is_halt());
    assert_eq!(exit(&arm, "IRQ").count, 1);
}

#[test]
fn several_tables_of_a_text_stay_apart() {
    let text = counted(&format!("Before:\n{PERF}\nAfter:\n{}", PERF.replace("251812", "12")));
    let counts: Vec<u64> = text.tables.iter().map(|table| exit(table, "IO_INSTRUCTION").count).collect();
    assert_eq!(counts, [251_812, 12]);
}

/// Whatever bytes are changed, left out or repeated, tables are read or refused, and stay small.
#[test]
fn damaged_tables_are_read_or_refused() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/counts");
    let names = ["mail-perf-kvm-stat", "old-perf-kvm-stat", "kvm-stat", "perf-stat", "kvmexit"];
    let files = names.map(|name| std::fs::read(folder.join(format!("{name}.txt"))).unwrap());
    let others = [LOG, COUNTERS, MAPS].map(|text| text.as_bytes().to_vec());
    let xen = folder.join("../../../../../corpus/xen/pvh1_smallbuf_credit1.xenalyze-summary.txt");
    let texts = files.into_iter().chain(others).chain([std::fs::read(xen).unwrap()]);
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % below.max(1) as u64) as usize
    };
    let mut read_some = 0;
    for whole in texts {
        for _ in 0..2_000 {
            let mut text = whole.clone();
            for _ in 0..=next(8) {
                if text.is_empty() {
                    break;
                }
                let (at, len) = (next(text.len()), next(40));
                let end = (at + len).min(text.len());
                match next(4) {
                    0 => text[at] = [b' ', b'9', b'%', b'(', b'>', b'\n', 0xff, b'.'][next(8)],
                    1 => drop(text.drain(at..end)),
                    2 => text.extend_from_within(at..end),
                    _ => text.truncate(end.max(1)),
                }
            }
            let Ok(counted) = Input::from_bytes("damaged", &text).and_then(|input| read(&input)) else { continue };
            read_some += 1;
            let rows: usize = counted.tables.iter().map(|table| table.rows.len()).sum();
            assert!(rows <= text.len() / 8, "{rows} rows of {} bytes", text.len());
        }
    }
    assert!(read_some > 8_000, "{read_some} of 18,000 damaged tables were read");
}

#[test]
fn a_table_of_more_rows_than_any_tool_has_is_kept_in_part_and_counted() {
    let rows: String = (0..10_000).map(|at| format!("1 2 REASON_{at} 3\n")).collect();
    let text = counted(&format!("PID TID KVM_EXIT_REASON COUNT\n{rows}"));
    assert_eq!(text.tables[0].rows.len(), 4_096);
    assert_eq!(text.ledger.lines().collect::<Vec<_>>(), [(LedgerLine::BadText, 10_000 - 4_096)]);
}

#[test]
fn rows_of_a_table_beyond_those_that_are_kept_go_into_no_other() {
    let table = "PID TID KVM_EXIT_REASON COUNT\n1 2 HLT 3\n";
    let text = counted(&table.repeat(1_030));
    assert_eq!(text.tables.len(), 1_024);
    assert!(text.tables.iter().all(|table| exit(table, "HLT").count == 3));
    assert_eq!(text.ledger.lines().collect::<Vec<_>>(), [(LedgerLine::BadText, 6)]);
}
