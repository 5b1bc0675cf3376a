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

/// Of what perf 6.1 printed of the recordings in corpus/, on x86 and powerpc, no row is left out: rows are as many exits, and as much time,
/// as perf's own sum. crates/exitscope/tests/peers.rs holds the same tables against the recordings.
#[test]
fn tables_that_perf_made_of_recordings_are_read_whole() {
    let corpus = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus");
    let files = ["x86-svm/peers", "powerpc"].map(|folder| std::fs::read_dir(corpus.join(folder)).unwrap());
    let paths = files.into_iter().flatten().map(|entry| entry.unwrap().path());
    let mut tables = 0;
    for path in paths.filter(|path| path.to_str().unwrap().ends_with("stat.txt")) {
        let text = counted(&std::fs::read_to_string(&path).unwrap());
        assert_eq!(text.ledger.lines().collect::<Vec<_>>(), [], "{}", path.display());
        for table in &text.tables {
            tables += u32::from(!table.rows.is_empty());
            let sum = |of: &dyn Fn(&ExitTableRow) -> u64| table.rows.iter().map(of).sum::<u64>();
            assert_eq!(table.count, Some(sum(&|row| row.count)), "{}: {table:?}", path.display());
            let [least, most] = [0, 1].map(|at| sum(&|row| row.time.unwrap()[at].0));
            let all = table.time.unwrap().0;
            assert!(least <= all && all <= most, "{}: {least} {all} {most}", path.display());
        }
    }
    assert!(tables >= 11, "{tables}");
}

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

/// `perf kvm stat report` warns of losses on its other stream, which a terminal shows above the table.
#[test]
fn what_perf_says_of_losses_above_its_table_is_of_that_table() {
    let report = PERF.replace("Lost events: 12\n", "");
    assert_eq!(one(&report).lost, None);
    let chunks = "Warning:\nProcessed 599414 events and lost 3 chunks!\n\nCheck IO/CPU overload!\n\n";
    let two = counted(&format!("{chunks}{report}{}", report.replace("VCPU 27", "VCPU 28")));
    assert_eq!(two.tables.iter().map(|table| table.lost).collect::<Vec<_>>(), [Some(3), None]);
    assert_eq!(one(&format!("> Processed 599414 samples and lost 12.34%!\n{report}")).lost, Some(1), "at least");
}

#[test]
fn what_mail_programs_do_to_a_table_changes_nothing() {
    let whole = one(PERF);
    let quoted: String = PERF.lines().map(|line| format!("> > {line}\n")).collect();
    assert_eq!(one(&quoted), whole);
    // Selected from the middle of its heading on: what is exits stays exits, so that halts are no cost.
    assert_eq!(one(&PERF[PERF.find("-EXIT").unwrap()..]).reasons().count(), 3);
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
    // What QEMU 7.2 printed on a host with KVM: of the vCPU that its monitor is at, and nothing says which that is.
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/counts");
    let text = std::fs::read_to_string(folder.join("info-stats.txt")).unwrap();
    let qemu = one(&text);
    assert_eq!((qemu.of.as_str(), qemu.exits()), ("one vCPU, at QEMU's monitor", Some(2_197)));
    assert_eq!((row(&qemu, "signal_exits", None).count, qemu.rows.len()), (2, 10));
    // Another vCPU, or the same one later, is not added.
    let two = counted(&format!("{text}(qemu) cpu 1\n{}", text.replace("2197", "2198")));
    assert_eq!(two.tables.iter().map(ExitTable::exits).collect::<Vec<_>>(), [Some(2_197), Some(2_198)]);
}

/// What QEMU 7.2 answered on a host with KVM, twice, with two vCPUs.
fn query_stats() -> String {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/counts");
    std::fs::read_to_string(folder.join("query-stats.json")).unwrap()
}

#[test]
fn answers_to_query_stats_are_read_however_they_are_printed() {
    let text = query_stats();
    let whole = counted(&text);
    assert_eq!(whole.ledger.lines().collect::<Vec<_>>(), []);
    let figures: Vec<_> = whole.tables.iter().map(|table| (table.source, table.exits(), table.rows.len())).collect();
    let expected: Vec<u64> = sums_of_exits(&text);
    let of = |exits| (ExitTableSource::Counters, Some(exits), 10);
    assert_eq!(figures, expected.iter().map(|exits| of(*exits)).collect::<Vec<_>>());
    assert_eq!(expected.len(), 2, "two readings");
    // Pretty, quoted, wrapped at blanks, and keys in another order.
    let broken = text.replace(", ", ",\n  ").replace(": ", ":\n ");
    let quoted: String = broken.lines().map(|line| format!("> > {line}\n")).collect();
    let other = text.replace("\"name\": \"exits\", \"value\": ", "\"name\": \"exits\",\"unit\":\"x\",\"value\":");
    for text in [broken, quoted, other, format!("On the host I get\n{text}\nwhat is that?\n")] {
        assert_eq!(counted(&text).tables, whole.tables, "{text}");
    }
    // As jq leaves them, without what is around: a vCPU that comes again is of a later reading.
    let bare = text.replace("\"return\"", "\"answer\"");
    assert_eq!(counted(&bare).tables, whole.tables);
}

/// Sums of `"exits", "value": …` by line, read in another way.
fn sums_of_exits(text: &str) -> Vec<u64> {
    let of = |line: &str| {
        let parts = line.split("{\"name\": \"exits\", \"value\": ").skip(1);
        parts.map(|part| part.split('}').next().unwrap().parse::<u64>().unwrap()).reduce(|sum, exits| sum + exits)
    };
    text.lines().filter_map(of).collect()
}

/// Of a vCPU whose list is cut nobody knows what is missing; other providers' statistics are none of exits.
#[test]
fn a_cut_answer_to_query_stats_has_the_vcpus_that_are_whole() {
    let text = query_stats();
    let first = text.lines().find(|line| line.contains("halt_exits")).unwrap();
    let whole = one(&format!("{first}\n"));
    let end_of_first = first.find("\"qom-path\"").unwrap();
    for end in (0..first.len()).step_by(3) {
        let Ok(cut) = Input::from_bytes("pasted", &first.as_bytes()[..end]).and_then(|input| read(&input)) else {
            assert!(end < end_of_first, "{end}");
            continue;
        };
        let [table] = &cut.tables[..] else { panic!("{end}: {cut:?}") };
        assert!(table.exits() < whole.exits() || table == &whole, "{end}: {table:?}");
        assert!(table.exits() >= Some(1) && end + 3 > end_of_first, "{end}: {table:?}");
    }
    let other = Input::from_bytes("other", first.replace("\"kvm\"", "\"cryptodev\"").as_bytes()).unwrap();
    assert!(read(&other).is_err());
    // All vCPUs of a large VM are on one line, which is longer than lines of traces are.
    let vcpu = |at: u32| {
        format!(
            "{{\"provider\": \"kvm\", \"qom-path\": \"/machine/cpu[{at}]\", \"stats\": [{{\"name\": \"exits\", \"value\": {at}}}, {{\"name\": \"halt_wait_hist\", \"value\": [{}1]}}]}}",
            "0, ".repeat(300)
        )
    };
    let vcpus: Vec<String> = (0..200).map(vcpu).collect();
    let large = format!("{{\"return\": [{}]}}\n", vcpus.join(", "));
    assert!(large.len() > 128 << 10);
    assert_eq!(one(&large).exits(), Some((0..200).sum()));
}

/// What the real test printed in a guest on a real KVM; its line that the shell added is passed over.
fn vmexit() -> String {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/counts");
    std::fs::read_to_string(folder.join("vmexit.txt")).unwrap()
}

#[test]
fn operations_of_vmexit_have_their_cycles() {
    let of = |text: &str| -> Vec<(String, u64)> {
        let counted = counted(text);
        assert_eq!((counted.operations.len(), counted.tables.len()), (1, 0), "{counted:?}");
        counted.operations[0].rows.iter().map(|row| (row.name.clone(), row.cycles)).collect()
    };
    let rows = of(&vmexit());
    let expected = [
        ("cpuid", 331_239),
        ("vmcall", 940_754),
        ("inl_from_pmtimer", 713_872),
        ("inl_from_qemu", 603_993),
        ("inl_from_kernel", 230_854),
        ("outl_to_kernel", 225_583),
    ];
    assert_eq!(rows, expected.map(|(name, cycles)| (name.to_string(), cycles)));
    let quoted: String = vmexit().lines().map(|line| format!("> {line}\r\n")).collect();
    assert_eq!(of(&quoted), rows);
    let others = "tscdeadline_immed (skipped)\nself_ipi_sti_nop 9000\n  ipi self_ipi_sti_nop 3000\n  eoi self_ipi_sti_nop 20\n\
        mmio-no-eventfd:pci-mem 12044\nipi+halt 7000\nvmcall -12\n";
    let names =
        ["self_ipi_sti_nop", "ipi self_ipi_sti_nop", "eoi self_ipi_sti_nop", "mmio-no-eventfd:pci-mem", "ipi+halt"];
    assert_eq!(of(others).iter().map(|row| row.0.as_str()).collect::<Vec<_>>(), names);
    assert_eq!(counted(others).ledger.lines().collect::<Vec<_>>(), [(LedgerLine::BadText, 1)], "an overflow");
    assert_eq!(of("paging enabled\ncpuid 1183\n").len(), 1, "a single operation, as the test's own groups run it");
    let two = counted(&vmexit().repeat(2));
    assert_eq!(two.operations.len(), 2, "an operation that comes again is of another run");
    // A name and a number alone are nothing.
    let other = Input::from_bytes("other", b"cpuid 13\nlevels of cpuid\n").unwrap();
    assert!(!is_counts(&other).unwrap());
}

#[test]
fn a_number_that_may_be_cut_is_no_figure_of_vmexit() {
    let text = vmexit();
    let whole = counted(&text).operations;
    for end in 0..text.len() {
        let Ok(cut) = Input::from_bytes("pasted", &text.as_bytes()[..end]).and_then(|input| read(&input)) else {
            continue;
        };
        for row in cut.operations.iter().flat_map(|run| &run.rows) {
            assert!(whole[0].rows.contains(row), "{end}: {row:?}");
        }
    }
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
    // What a program keeps beside its counts is no count, and two maps of the same exits are two tables.
    let command = "# bpftrace -e 'tracepoint:kvm:kvm_exit { @start[tid] = nsecs; @c[args->exit_reason, tid] = count();\n @us[args->exit_reason] = hist(1); }'\n";
    let two = counted(&format!(
        "{command}@start[135]: 185626223940\n@c[120, 135]: 7\n@us[120]:\n[4, 8)   7 |@@|\n@start[136]: 9\n[8, 16)   9 |@@|\n"
    ));
    let rows: Vec<_> =
        two.tables.iter().flat_map(|table| &table.rows).map(|row| (row.key.as_deref(), row.count)).collect();
    assert_eq!(rows, [(Some("120"), 7), (Some("120"), 7)], "{two:?}");
    // A map of something else is no table.
    let other = Input::from_bytes("other", b"@[qemu-system-x86]: 12\n@[4242]: 9\n").unwrap();
    assert!(!is_counts(&other).unwrap());
}

/// What bpftrace 0.17 printed beside `perf record` in the rig: 101 runs of a guest that does 40 port accesses, 13 writes to memory that is
/// not there, and a halt, and 37 runs. Reasons of AMD: 123 io, 120 hlt, 1024 npf, 96 interrupt.
#[test]
fn maps_of_bpftrace_have_what_the_guest_did() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/counts");
    let of = |name: &str| one(&std::fs::read_to_string(folder.join(name)).unwrap());
    let (counts, times) = (of("rig-bpftrace.txt"), of("rig-bpftrace-hist.txt"));
    let rows =
        |table: &ExitTable| table.rows.iter().map(|row| (row.key.clone().unwrap(), row.count)).collect::<Vec<_>>();
    // One page fault is the first touch of the guest's code; `perf script` counted 59 interrupts of the host beside it.
    let expected = [("96", 59), ("120", 101), ("1024", 13 * 101 + 1), ("123", 40 * 101)];
    assert_eq!(rows(&counts), expected.map(|(name, count)| (name.to_string(), count)));
    assert_eq!((exit(&times, "123").count, exit(&times, "1024").count, times.rows.len()), (40 * 37, 13 * 37 + 1, 4));
    assert!(times.rows.iter().all(|row| row.time.is_some()));
    // Quoted, and the program wrapped within words.
    let text = std::fs::read_to_string(folder.join("rig-bpftrace-hist.txt")).unwrap();
    let (program, maps) = text.split_once('\n').unwrap();
    let wrapped: Vec<&str> = program.as_bytes().chunks(60).map(|part| std::str::from_utf8(part).unwrap()).collect();
    let quoted: String = wrapped.into_iter().chain(maps.lines()).map(|line| format!("> {line}\n")).collect();
    assert_eq!(one(&quoted), times);
    assert!(exit(&times, "120").is_halt() && !exit(&times, "123").is_halt());
}

/// What kvm_stat of Linux 6.1 wrote in the rig while the same guest ran 53 times: its own names of AMD's reasons.
#[test]
fn a_log_of_kvm_stat_has_what_the_guest_did() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/counts");
    let table = one(&std::fs::read_to_string(folder.join("rig-kvm-stat-log.csv")).unwrap());
    let count = |reason: &str| exit(&table, reason).count;
    assert_eq!([count("IOIO"), count("HLT"), count("NPF")], [40 * 53, 53, 13 * 53 + 1]);
    assert_eq!((table.exits(), table.reasons().map(|row| row.count).sum::<u64>()), (Some(2_881), 2_881));
    assert_eq!(row(&table, "kvm_userspace_exit", None).count, (40 + 13 + 1) * 53);
    assert!(exit(&table, "HLT").is_halt() && exit(&table, "IOIO").codes().next().is_some());
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
