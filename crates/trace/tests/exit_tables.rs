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
    for text in [PERF, SCREEN] {
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
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % below.max(1) as u64) as usize
    };
    let mut read_some = 0;
    for name in names {
        let whole = std::fs::read(folder.join(format!("{name}.txt"))).unwrap();
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
    assert!(read_some > 5_000, "{read_some} of 10,000 damaged tables were read");
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
