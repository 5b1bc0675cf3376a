//! trace.dat files: real ones compared with what `trace-cmd report` (3.1.6) says of them, and small ones made here of
//! every shape of ring-buffer page.

use exitscope_model::{CodeList, Event, EventKind, ExitCode, ExitWord, LedgerLine, SubjectWord};
use exitscope_skips::or_skip;
use exitscope_trace::{Input, SourceOptions, TraceError, open, open_input, tracedat};
use exitscope_units::{PcpuId, Tid, VcpuId, VmId};
use std::collections::{BTreeMap, BTreeSet};

mod common;

use common::damage::Dice;
use common::trace_dat::{HOST, Machine, PAGE, Trace};
use common::{Said, corpus, drain, said, shared};

/// Compares with lines `     12 kvm_exit:`, made by `trace-cmd report | awk … | sort | uniq -c`, and with the first and
/// last time that `trace-cmd report -t` prints.
fn compare(trace: &str, counts: &str, first_and_last: [u64; 2]) -> Said {
    let said = drain(open(&corpus(trace)).unwrap()).unwrap();
    let text = std::fs::read_to_string(corpus(counts)).unwrap();
    let theirs: BTreeMap<&str, u64> = (text.lines())
        .filter_map(|line| line.trim().trim_end_matches(':').split_once(' '))
        .map(|(count, name)| (name, count.parse().unwrap()))
        .collect();
    let mut ours: BTreeMap<&str, u64> = BTreeMap::new();
    for event in &said.events {
        let name = said.info.names.get(event.name);
        *ours.entry(name.split_once(':').unwrap().1).or_default() += 1;
    }
    assert_eq!(ours, theirs, "{trace}");
    assert_eq!(said.ledger.lines().filter(|line| line.0 != LedgerLine::UncertainLoss).count(), 0, "{trace}");
    assert!(said.events.is_sorted_by_key(|event| event.at), "{trace}");
    let ends = [said.events.first(), said.events.last()].map(|event| event.unwrap().at.as_nanos());
    assert_eq!(ends, first_and_last, "{trace}");
    said
}

#[test]
fn real_traces_are_what_trace_cmd_says_they_are() {
    let none = "x86-svm/peers/t4-none.dat.event-counts.txt";
    let said = compare("x86-svm/t4-none.dat.gz", none, [76_680_836_946, 78_900_433_934]);
    // CPU 0: entries 9,496 and read events 31,328; there are 40,283.
    assert_eq!(said.lines(), [(LedgerLine::UncertainLoss, 9_496 + 31_328 - 40_283)]);
    let info = &said.info;
    assert_eq!((info.format.as_str(), info.clock.as_str()), ("trace.dat v7", "global"));
    assert_eq!((info.arch.as_str(), info.release.as_str()), ("x86_64", "6.1.0-56-cloud-amd64"));
    assert_eq!(info.hostname, "(none)");

    let v6 = "x86-svm/peers/t4-v6.dat.event-counts.txt";
    let said = compare("x86-svm/t4-v6.dat.gz", v6, [83_078_426_280, 85_043_759_504]);
    assert_eq!((said.info.format.as_str(), said.info.clock.as_str()), ("trace.dat v6", "global"));
    assert_eq!(said.info.comms[&214], "qemu-system-x86");

    // Compressed with zstd.
    let arm = "arm64/arm.dat.event-counts.txt";
    let said = compare("arm64/arm.dat.gz", arm, [13_588_960_880, 14_585_411_536]);
    assert_eq!((said.info.arch.as_str(), said.info.clock.as_str()), ("aarch64", "local"));

    // Pages of 64 KB.
    let p8 = "powerpc/p8_smt4_trace.dat.event-counts.txt";
    let said = compare("powerpc/p8_smt4_trace.dat.gz", p8, [88_250_004_546, 88_966_206_196]);
    assert_eq!(said.info.arch, "ppc64le");
    // kvmppc_run_vcpu_enter says of which VM its thread is ("tgid=456"), and so for the events that follow.
    let vms: Vec<VmId> = said.events.iter().map(|event| event.vm).collect();
    assert!(vms.iter().all(|vm| [VmId(0), VmId(456)].contains(vm)));
    assert!(vms.iter().filter(|vm| **vm == VmId(456)).count() > 6_000);
}

#[test]
fn payloads_are_what_trace_cmd_prints() {
    let first = |trace: &str, wanted: fn(&EventKind) -> bool| {
        let said = drain(open(&corpus(trace)).unwrap()).unwrap();
        *said.events.iter().find(|event| wanted(&event.kind)).unwrap()
    };
    let exit = |kind: &EventKind| matches!(kind, EventKind::Exit { .. });
    // trace-cmd report -t | grep -m1 'kvm_entry:', and of kvm_exit; `reason` is that of <asm/svm.h> and HSR_EC is ESR_EC.
    // qemu-system-x86-219   [000]    83.509058260: kvm_entry:             vcpu 0 rip 0xfff0
    let entry = first("x86-svm/t4-v6.dat.gz", |kind| *kind == EventKind::Enter);
    assert_eq!((entry.at.as_nanos(), entry.tid, entry.cpu), (83_509_058_260, Tid(219), PcpuId(0)));
    assert_eq!((entry.vm, entry.vcpu), (VmId::UNKNOWN, VcpuId(0)));
    // qemu-system-x86-219   [000]    83.509148685: kvm_exit:             reason EXIT_NPF rip 0xfff0 info 100000014 fffffff0
    let npf = first("x86-svm/t4-v6.dat.gz", exit);
    assert_eq!((npf.at.as_nanos(), npf.tid, npf.cpu), (83_509_148_685, Tid(219), PcpuId(0)));
    let code = ExitCode::new(CodeList::Svm, 0x400);
    let words = SubjectWord::new(code, |word| (word == ExitWord::Info1).then_some(0x1_0000_0014));
    assert_eq!(npf.kind, EventKind::Exit { code, idle: false, words, rip: 0xfff0 });
    // guest-121   [001]    13.592918800: kvm_exit:             … TRAP: HSR_EC: 0x0020 (IABT_LOW), PC: 0x0000000040000000
    let abort = first("arm64/arm.dat.gz", exit);
    assert_eq!((abort.at.as_nanos(), abort.tid, abort.cpu), (13_592_918_800, Tid(121), PcpuId(1)));
    assert_eq!(
        abort.kind,
        EventKind::Exit {
            code: ExitCode::new(CodeList::Arm64Ec, 0x20),
            idle: false,
            words: SubjectWord::NONE,
            rip: 0x4000_0000
        }
    );
}

// ---------------------------------------------------------------------------------------------------------------------
// Traces made here.

/// A trace of this machine with one buffer.
fn one(cpus: &[Vec<u8>]) -> Vec<u8> {
    Trace { machine: HOST, buffers: &[("", "local", cpus)], options: &[], compressor: "none" }.v7()
}

fn entries(machine: Machine, ticks: u64, deltas: &[u32]) -> Vec<u8> {
    let records: Vec<_> = deltas.iter().map(|&delta| machine.entry(delta, 42, 3)).collect();
    machine.page(ticks, 0, &records, &[])
}

#[test]
fn every_order_word_and_compression_says_the_same() {
    for (big, long) in [(false, 8), (false, 4), (true, 8), (true, 4)] {
        let m = Machine { big, long, ..HOST };
        let cpus = [
            [entries(m, 1_000, &[0, 100, 100]), entries(m, 2_000, &[1]), entries(m, 3_000, &[0])].concat(),
            [entries(m, 1_050, &[0, 100]), entries(m, 2_000, &[0])].concat(),
        ];
        let buffers: &[(&str, &str, &[Vec<u8>])] = &[("", "local", &cpus)];
        let expected = [(1_000, 0), (1_050, 1), (1_100, 0), (1_150, 1), (1_200, 0), (2_000, 1), (2_001, 0), (3_000, 0)];
        let expected: Vec<_> = expected.map(|(at, cpu)| (at, cpu, EventKind::Enter)).to_vec();
        let trace = |compressor| Trace { machine: m, buffers, options: &[], compressor };
        for (file, format) in [
            (trace("none").v6(), "trace.dat v6"),
            (trace("none").v7(), "trace.dat v7"),
            (trace("zlib").v7(), "trace.dat v7"),
            (trace("zstd").v7(), "trace.dat v7"),
        ] {
            let said = said(&file).unwrap();
            assert_eq!(said.told(), expected, "{format} {big} {long}");
            assert_eq!(said.lines(), []);
            assert!(said.events.iter().all(|event| (event.tid, event.vcpu) == (Tid(42), VcpuId(3))));
            assert_eq!(said.info.names.get(said.events[0].name), "kvm:kvm_entry");
            assert_eq!((said.info.format.as_str(), said.info.clock.as_str()), (format, "local"));
            assert_eq!((said.info.hostname.as_str(), said.info.release.as_str()), ("host", "6.1.0"));
            assert_eq!((said.info.arch.as_str(), said.info.comms[&42].as_str()), ("x86_64", "qemu vcpu 0"));
        }
    }
}

#[test]
fn instances_are_merged_into_one_stream() {
    let (a, b) = ([entries(HOST, 10, &[0, 20])], [entries(HOST, 20, &[0]), entries(HOST, 25, &[0])]);
    let trace =
        Trace { machine: HOST, buffers: &[("", "local", &a), ("mine", "local", &b)], options: &[], compressor: "none" };
    for file in [trace.v6(), trace.v7()] {
        let said = said(&file).unwrap();
        assert_eq!(
            said.told().iter().map(|row| (row.0, row.1)).collect::<Vec<_>>(),
            [(10, 0), (20, 0), (25, 1), (30, 0)]
        );
        assert_eq!(said.lines(), []);
    }
    // Times of another clock have no place among these.
    let other = Trace { buffers: &[("", "local", &a), ("mine", "mono", &b)], ..trace };
    let said = said(&other.v7()).unwrap();
    assert_eq!((said.events.len(), said.lines()), (2, vec![(LedgerLine::BadRecord, 1)]));
}

#[test]
fn the_kernels_own_losses_are_told_where_they_happened() {
    const MISSED: u64 = 1 << 31;
    const STORED: u64 = 1 << 30;
    for machine in [HOST, Machine { big: true, long: 4, ..HOST }] {
        let entry = |delta| vec![machine.entry(delta, 42, 0)];
        let cpu0 = [
            machine.page(100, 0, &entry(0), &[]),
            machine.page(300, MISSED | STORED, &entry(5), &machine.long(17)),
            machine.page(400, MISSED, &entry(0), &[]),
            // Nothing but a loss, and no record after it.
            machine.page(500, MISSED | STORED, &[], &machine.long(2)),
        ];
        let cpu1 = machine.page(200, 0, &entry(0), &[]);
        let cpus = [cpu0.concat(), cpu1];
        let trace = Trace { machine, buffers: &[("", "local", &cpus)], options: &[], compressor: "none" };
        let said = said(&trace.v7()).unwrap();
        let lost = |count| EventKind::Lost { count };
        assert_eq!(
            said.told(),
            [
                (100, 0, EventKind::Enter),
                (200, 1, EventKind::Enter),
                (305, 0, lost(17)),
                (305, 0, EventKind::Enter),
                (400, 0, lost(0)),
                (400, 0, EventKind::Enter),
                (500, 0, lost(2)),
            ]
        );
        assert_eq!(said.lines(), [(LedgerLine::LostRecords, 17 + 1 + 2)]);
        assert_eq!(said.ledger.events, 4);
    }
}

/// Losses, with moments and CPUs, and the ledger.
type Losses = (Vec<(u64, u32, EventKind)>, Vec<(LedgerLine, u64)>);

/// What a trace with two pages of two records each on CPU 0 and this CPUSTAT says of losses.
fn with_stat(second_page_flags: u64, stat: &str) -> Losses {
    let records = [HOST.entry(0, 42, 3), HOST.entry(5, 42, 3)];
    let pages = [HOST.page(10, 0, &records, &[]), HOST.page(20, second_page_flags, &records, &[])].concat();
    let stat = format!("{stat}\0");
    let options: [(u16, &[u8]); 1] = [(2, stat.as_bytes())];
    let buffers: [(&str, &str, &[Vec<u8>]); 1] = [("", "local", &[pages])];
    let trace = |compressor| Trace { machine: HOST, buffers: &buffers, options: &options, compressor };
    let [first, second, third] = [trace("none").v6(), trace("none").v7(), trace("zlib").v7()].map(|file| {
        let said = said(&file).unwrap();
        let losses = said.told().into_iter().filter(|told| told.2 != EventKind::Enter).collect::<Vec<_>>();
        (losses, said.lines())
    });
    assert!(first == second && second == third, "{stat}");
    first
}

#[test]
fn records_that_the_kernel_counted_and_no_page_holds_are_missing_between_any_two_pages() {
    let lost = |at, count| (at, 0, EventKind::Lost { count });
    let whole = "CPU: 0\nentries: 1\noverrun: 0\ncommit overrun: 0\ndropped events: 0\nread events: 3\n";
    assert_eq!(with_stat(0, whole), (vec![], vec![]));
    // More than were counted: tracing went on meanwhile.
    assert_eq!(with_stat(0, &whole.replace("entries: 1", "entries: 0")), (vec![], vec![]));
    // As many as were still in the buffer may have been read, and counted again.
    let twice = with_stat(0, &whole.replace("read events: 3", "read events: 4"));
    assert_eq!(twice, (vec![], vec![(LedgerLine::UncertainLoss, 1)]));
    let unplaced = |count| vec![(LedgerLine::LostRecords, count), (LedgerLine::UnplacedLoss, 1)];
    // Behind the first page, before the second and behind it.
    let at_any = |count| (vec![lost(15, 0), lost(20, 0), lost(25, 0), lost(25, count)], unplaced(count));
    assert_eq!(with_stat(0, &whole.replace("entries: 1", "entries: 8")), at_any(7));
    assert_eq!(with_stat(0, &whole.replace("dropped events: 0", "dropped events: 9")), at_any(9));
    assert_eq!(with_stat(0, &whole.replace("commit overrun: 0", "commit overrun: 2")), at_any(2));
    assert_eq!(with_stat(0, &whole.replace("\noverrun: 0", "\noverrun: 4")), at_any(4));
    // A page that is marked says where.
    let marked = with_stat(1 << 31, &whole.replace("\noverrun: 0", "\noverrun: 4"));
    assert_eq!(marked, (vec![lost(20, 0), lost(25, 3)], vec![(LedgerLine::LostRecords, 4)]));
    // Of CPU 1 there are no pages at all.
    let elsewhere = (vec![(25, 1, EventKind::Lost { count: 4 })], vec![(LedgerLine::LostRecords, 4)]);
    assert_eq!(with_stat(0, &whole.replace("CPU: 0", "CPU: 1")), elsewhere);
}

#[test]
fn the_counts_of_an_instance_are_not_those_of_the_top_buffer() {
    let (top, mine) = ([entries(HOST, 10, &[0, 1, 1])], [entries(HOST, 20, &[0])]);
    let stats: [(u16, &[u8]); 3] = [
        (2, b"CPU: 0\nentries: 3\nread events: 0\n\0"),
        (2, b"\nBuffer: mine\n\n\0"),
        (2, b"CPU: 0\nentries: 0\nread events: 1\n\0"),
    ];
    let buffers: [(&str, &str, &[Vec<u8>]); 2] = [("", "local", &top), ("mine", "local", &mine)];
    let trace = Trace { machine: HOST, buffers: &buffers, options: &stats, compressor: "none" };
    for file in [trace.v6(), trace.v7()] {
        let said = said(&file).unwrap();
        assert_eq!((said.events.len(), said.lines()), (4, vec![]));
    }
}

#[test]
fn a_recorder_that_lost_pages_is_found_out() {
    let path = or_skip!(shared("public/host-all-kvm-events.v7.trace.dat"));
    let options = SourceOptions { clock_hz: Some(2_400_000_000), ..SourceOptions::default() };
    let said = drain(open_input(Input::open(&path).unwrap(), options).unwrap()).unwrap();
    assert_eq!(said.ledger.events, 3_116 + 2_989 + 1_591 + 96);
    assert_eq!(said.ledger.get(LedgerLine::LostRecords), (5_785 - 3_116) + (6_282 - 2_989));
    // CPUs 5 and 6 have 26 and 25 pages, CPUs 8 and 10 what was counted. A loss begins behind each and ends before the next.
    let mut suspect = BTreeMap::new();
    said.events.iter().filter(|event| event.kind == EventKind::Lost { count: 0 }).for_each(|event| {
        *suspect.entry(event.cpu.0).or_insert(0) += 1;
    });
    assert_eq!(suspect, [(5, 26 + 25), (6, 25 + 24)].into());
}

#[test]
fn time_goes_on_over_extends_absolute_stamps_and_padding() {
    for machine in [HOST, Machine { big: true, ..HOST }, Machine { long: 4, ..HOST }] {
        let word = |value| machine.u32(value);
        let top = 0xa << 60;
        let records = [
            machine.entry(1, 42, 0),
            // 3 << 27 and 5 more.
            [machine.head(30, 5), word(3)].concat(),
            machine.entry(1, 42, 0),
            // A record that was discarded: 12 bytes after the head, its time counts.
            [machine.head(29, 7), word(12), vec![0; 8]].concat(),
            machine.entry(1, 42, 0),
            // 59 bits of an absolute time.
            [machine.head(31, 9), word(0x1000)].concat(),
            // The long form: 16 bytes with the word itself.
            [machine.head(0, 2), word(16), machine.payload(7, 42, 0)].concat(),
            // 13 bytes in four words, one of them used for padding.
            [machine.head(0, 2), word(17), machine.payload(7, 42, 0), vec![1, 0, 0, 0]].concat(),
            machine.entry(1, 42, 0),
            // Nothing was written behind this.
            machine.head(29, 0),
            vec![0xff; 12],
        ];
        let cpus = [machine.page(top + 1_000, 0, &records, &[])];
        let trace = Trace { machine, buffers: &[("", "local", &cpus)], options: &[], compressor: "none" };
        let said = said(&trace.v7()).unwrap();
        let extended = top + 1_001 + (3 << 27) + 5;
        let absolute = top + (0x1000 << 27) + 9;
        let expected = [top + 1_001, extended + 1, extended + 9, absolute + 2, absolute + 4, absolute + 5];
        assert_eq!(said.told(), expected.map(|at| (at, 0, EventKind::Enter)));
        assert_eq!(said.lines(), []);
    }
}

#[test]
fn what_cannot_be_read_is_counted_and_what_follows_is_read() {
    let entry = HOST.entry(1, 42, 0);
    let cases: [(&str, Vec<Vec<u8>>, LedgerLine); 5] = [
        ("a length of nothing", vec![[HOST.head(0, 1), HOST.u32(0)].concat(), entry.clone()], LedgerLine::BadRecord),
        ("a length beyond the page", vec![[HOST.head(0, 1), HOST.u32(u32::MAX)].concat()], LedgerLine::BadRecord),
        ("a record beyond the data", vec![HOST.head(9, 1), entry.clone()], LedgerLine::BadRecord),
        ("a payload too short", vec![[HOST.head(2, 1), HOST.u32(7), HOST.u32(42)].concat()], LedgerLine::BadRecord),
        ("no such format", vec![[HOST.head(3, 1), HOST.payload(9, 42, 0)].concat()], LedgerLine::UnknownFormat),
    ];
    for (name, records, line) in cases {
        let cpus = [[HOST.page(100, 0, &records, &[]), entries(HOST, 500, &[0])].concat()];
        let said = said(&one(&cpus)).unwrap();
        assert_eq!(said.lines(), [(line, 1)], "{name}");
        assert_eq!(said.told().last(), Some(&(500, 0, EventKind::Enter)), "{name}");
        // Where the next record begins is not known in the first three: a hole, after which nothing pairs.
        match said.events[0].kind {
            EventKind::Lost { count } => assert_eq!(count, 0),
            kind => {
                assert_eq!(
                    (kind, said.events[0].tid),
                    (EventKind::Other, Tid(if line == LedgerLine::BadRecord { 0 } else { 42 }))
                )
            }
        }
    }
    // More data than the page has room for.
    let mut page = entries(HOST, 100, &[1, 1]);
    page[8..16].copy_from_slice(&HOST.u64(4_000));
    let said = said(&one(&[[page, entries(HOST, 500, &[0])].concat()])).unwrap();
    assert!(said.ledger.get(LedgerLine::BadRecord) > 0 && said.told().last() == Some(&(500, 0, EventKind::Enter)));
}

#[test]
fn a_damaged_chunk_costs_what_it_held() {
    let pages: Vec<Vec<u8>> = (1..=6).map(|n| entries(HOST, n * 100, &[0, 1])).collect();
    let cpus = [pages.concat()];
    for compressor in ["zlib", "zstd"] {
        let trace = Trace { machine: HOST, buffers: &[("", "local", &cpus)], options: &[], compressor };
        let file = trace.v7();
        // The second of three chunks.
        let chunk = trace.pack(&cpus[0][2 * PAGE..4 * PAGE]);
        let at = file.windows(chunk.len()).position(|window| window == chunk).unwrap();
        let mut damaged = file.clone();
        damaged[at + 8..at + chunk.len()].fill(0x55);
        let said = said(&damaged).unwrap();
        assert_eq!(said.lines(), [(LedgerLine::BadCompression, 1)]);
        assert_eq!(said.ledger.first(LedgerLine::BadCompression), Some(at as u64));
        let times: Vec<u64> = said.told().iter().map(|row| row.0).collect();
        assert_eq!(times, [100, 101, 200, 201, 500, 500, 501, 600, 601]);
        assert_eq!(said.events[4].kind, EventKind::Lost { count: 0 });
    }
}

#[test]
fn clocks_that_count_ticks_need_their_rate() {
    let cpus = [entries(HOST, 3_000_000, &[0, 1_500])];
    let buffers: [(&str, &str, &[Vec<u8>]); 1] = [("", "x86-tsc", &cpus)];
    let trace = |options| Trace { machine: HOST, buffers: &buffers, options, compressor: "none" };
    let tsc: &[(u16, &[u8])] = &[(4, b"local [x86-tsc] counter\0")];
    for file in [trace(tsc).v6(), trace(tsc).v7()] {
        match said(&file).map(|said| said.events.len()) {
            Err(TraceError::Clock { clock, .. }) => assert_eq!(clock, "x86-tsc"),
            other => panic!("{other:?}"),
        }
        let options = SourceOptions { clock_hz: Some(1_500_000_000), ..SourceOptions::default() };
        let source = tracedat::open(Input::from_bytes("made.dat", &file).unwrap(), options).unwrap();
        let said = drain(source).unwrap();
        assert_eq!(said.told().iter().map(|row| row.0).collect::<Vec<_>>(), [2_000_000, 2_001_000]);
        assert_eq!(said.info.clock, "x86-tsc");
    }
    // (ticks * mult) >> shift; the offset of the third member is not used, DATE (us) and OFFSET (ns) are.
    let scale = [HOST.u32(1 << 20), HOST.u32(21), HOST.u64(99)].concat();
    let options = [tsc[0], (14, &scale[..]), (1, b"0x2\0"), (7, b"-500\0")];
    let said = said(&trace(&options).v7()).unwrap();
    assert_eq!(said.told().iter().map(|row| row.0).collect::<Vec<_>>(), [1_501_500, 1_502_250]);
}

#[test]
fn a_guests_time_is_shifted_and_a_hosts_threads_are_virtual_cpus() {
    let cpus = [entries(HOST, 1_000, &[0])];
    let samples = [HOST.u64(500), HOST.u64(-200i64 as u64), HOST.u64(1)].concat();
    let shift = [HOST.u64(1), HOST.u32(0), HOST.u32(1), HOST.u32(1), samples].concat();
    let guest = [&b"debian\0"[..], &HOST.u64(5), &HOST.u32(1), &HOST.u32(6), &HOST.u32(42)].concat();
    let options: [(u16, &[u8]); 2] = [(12, &shift), (13, &guest)];
    let trace = Trace { machine: HOST, buffers: &[("", "local", &cpus)], options: &options, compressor: "none" };
    for file in [trace.v6(), trace.v7()] {
        let said = said(&file).unwrap();
        assert_eq!(said.told(), [(800, 0, EventKind::Enter)]);
        assert!(said.info.is_guests && said.lines() == [(LedgerLine::GuestRecording, 1)]);
        // The event's own word counts for more.
        assert_eq!(said.events[0].vcpu, VcpuId(3));
        // Its host's trace, and its guests': by these the parts of a session are found.
        let session = tracedat::session(&Input::from_bytes("made", &file).unwrap());
        assert_eq!(session, tracedat::Session { id: None, guests: vec![5], host: Some(1) });
    }
    assert_eq!(tracedat::session(&Input::from_bytes("made", b"no trace.dat").unwrap()), tracedat::Session::default());
    let unknown = [HOST.page(1_000, 0, &[[HOST.head(3, 0), HOST.payload(9, 42, 0)].concat()], &[])];
    let said = said(&Trace { buffers: &[("", "local", &unknown)], ..trace }.v7()).unwrap();
    assert_eq!(said.events[0].vcpu, VcpuId(6));
}

#[test]
fn what_is_no_event_trace_is_refused_with_its_reason() {
    let text = b"# tracer: irqsoff\n".to_vec();
    let cpus = [text];
    let trace = Trace { machine: HOST, buffers: &[("", "local", &cpus)], options: &[], compressor: "none" };
    let mut file = trace.v6();
    let at = file.windows(10).position(|window| window == b"flyrecord\0").unwrap();
    file[at..at + 10].copy_from_slice(b"latency  \0");
    let problem = |file: &[u8]| said(file).map(|said| said.events.len()).unwrap_err().to_string();
    assert!(problem(&file).contains("latency tracer"), "{}", problem(&file));

    let file = trace.v7();
    let version = [&file[..10], b"8", &file[11..]].concat();
    assert!(problem(&version).contains("version \"8\""), "{}", problem(&version));
    let at = file.windows(5).position(|window| window == b"none\0").unwrap();
    let lz4 = [&file[..at], b"lz4x", &file[at + 4..]].concat();
    assert!(problem(&lz4).contains("lz4x"), "{}", problem(&lz4));
    let unfinished = problem(&file[..file.len() - 200]);
    assert!(unfinished.contains("recorder did not finish"), "{unfinished}");
    assert!(problem(&file[..12]).contains("cut short"));
}

#[test]
fn data_beyond_the_file_or_claimed_twice_is_counted() {
    let pages = [entries(HOST, 100, &[0]), entries(HOST, 200, &[0])].concat();
    let cpus = [pages.clone(), pages];
    let trace = Trace { machine: HOST, buffers: &[("", "local", &cpus)], options: &[], compressor: "none" };
    let file = trace.v6();
    let cut = said(&file[..file.len() - PAGE]).unwrap();
    assert_eq!((cut.events.len(), cut.lines()), (3, vec![(LedgerLine::TruncatedBytes, PAGE as u64)]));
    assert_eq!(cut.ledger.first(LedgerLine::TruncatedBytes), Some((file.len() - PAGE) as u64));
    // All of it gone.
    let none = said(&file[..file.len() - 4 * PAGE]).map(|said| said.events.len()).unwrap_err().to_string();
    assert!(none.contains("beyond the end of the file"), "{none}");
    // Both CPUs at the same place.
    let table = file.windows(10).position(|window| window == b"flyrecord\0").unwrap() + 10;
    let mut twice = file.clone();
    twice.copy_within(table..table + 8, table + 16);
    let twice = said(&twice).unwrap();
    assert_eq!((twice.events.len(), twice.lines()), (2, vec![(LedgerLine::BadRecord, 1)]));
    // A trace in which nothing was recorded is whole.
    let empty = Trace { buffers: &[("", "local", &[Vec::new()])], ..trace };
    for file in [empty.v6(), empty.v7()] {
        let said = said(&file).unwrap();
        assert_eq!((said.events.len(), said.lines()), (0, vec![]));
    }
}

// ---------------------------------------------------------------------------------------------------------------------
// Damage.

/// One small trace of every shape.
/// Events of one CPU, without losses.
fn of_cpu(said: &Said, cpu: u32) -> Vec<&Event> {
    said.events.iter().filter(|event| event.cpu.0 == cpu && !matches!(event.kind, EventKind::Lost { .. })).collect()
}

/// What names the ring pages of version 7 stands behind them.
#[test]
fn a_file_cut_within_its_ring_pages_is_read_up_to_there() {
    for trace in ["x86-svm/t4-none.dat.gz", "arm64/arm.dat.gz"] {
        let input = Input::open(&corpus(trace)).unwrap();
        let whole = input.read_vec(0, input.len()).unwrap();
        let all = said(&whole).unwrap();
        let cpus: BTreeSet<u32> = all.events.iter().map(|event| event.cpu.0).collect();
        let (pages, end) = ring_pages(&whole);
        let mut earlier = 0;
        for part in 1..=8 {
            // The last is whole but for what stands behind the pages.
            let len = pages + (end - pages) / 8 * part + if part == 8 { 20 } else { 0 };
            let cut = said(&whole[..len]).unwrap();
            let (events, lines) = (cut.ledger.events, cut.lines());
            assert!(cut.ledger.is_cut() && events >= earlier, "{trace} {part}/8: {events}, {lines:?}");
            earlier = events;
            for &cpu in &cpus {
                assert!(of_cpu(&all, cpu).starts_with(&of_cpu(&cut, cpu)), "{trace} {part}/8, CPU {cpu}");
            }
            assert!(cut.events.iter().all(|event| cpus.contains(&event.cpu.0)));
            let missing = cut.ledger.get(LedgerLine::LostRecords) + cut.ledger.get(LedgerLine::UncertainLoss);
            assert!(events + missing >= all.ledger.events, "{trace} {part}/8: {events}, {lines:?}");
        }
        assert_eq!(earlier, all.ledger.events, "{trace}");
        // The recorder may not have come to writing how many bytes they are; or it is no such number.
        let mut cut = whole[..pages + (end - pages) / 2].to_vec();
        let known = said(&cut).unwrap().ledger.events;
        for (size, line) in [(0, LedgerLine::UnfinishedFile), (u64::MAX, LedgerLine::TruncatedBytes)] {
            cut[pages - 8..pages].copy_from_slice(&size.to_le_bytes());
            let said = said(&cut).unwrap();
            assert!(said.ledger.events == known && said.ledger.get(line) > 0, "{trace}: {:?}", said.lines());
        }
        // Before them there is nothing to read.
        let error = said(&whole[..pages - 20]).err().unwrap().to_string();
        assert!(error.contains("the file was cut, or its recorder did not finish"), "{error}");
    }
}

/// Where the section of ring pages of a version 7 begins and ends.
fn ring_pages(file: &[u8]) -> (usize, usize) {
    let u64_at = |at: usize| u64::from_le_bytes(file[at..at + 8].try_into().unwrap()) as usize;
    let mut at = 10 + 2 + 2 + 4;
    // The compressor, its version, and where the options are.
    for _ in 0..2 {
        at += file[at..].iter().position(|&byte| byte == 0).unwrap() + 1;
    }
    at += 8;
    while file[at] != 3 {
        at += 16 + u64_at(at + 8);
    }
    (at + 16, at + 16 + u64_at(at + 8))
}

fn small_traces() -> Vec<Vec<u8>> {
    let pages = |cpu: u64| (1..=6).flat_map(move |n| entries(HOST, n * 1_000 + cpu * 10, &[0, 100, 200])).collect();
    let cpus: [Vec<u8>; 2] = [pages(0), pages(1)];
    let guest = [&b"debian\0"[..], &HOST.u64(5), &HOST.u32(1), &HOST.u32(6), &HOST.u32(42)].concat();
    let options: [(u16, &[u8]); 2] = [(2, b"CPU: 0\ndropped events: 0\n\0"), (13, &guest)];
    let buffers: [(&str, &str, &[Vec<u8>]); 2] = [("", "local", &cpus), ("mine", "local", &cpus[..1])];
    let trace = |compressor| Trace { machine: HOST, buffers: &buffers, options: &options, compressor };
    vec![trace("none").v6(), trace("none").v7(), trace("zlib").v7(), trace("zstd").v7()]
}

/// Reads what is damaged: any error will do, and whatever is missing must be told.
fn assert_honest(bytes: &[u8], whole: usize, what: &str) {
    let Ok(said) = said(bytes) else { return };
    let events = said.ledger.events as usize;
    assert!(events == whole || said.ledger.lines().next().is_some(), "{what}: {events} of {whole} events, and silent");
}

#[test]
fn a_cut_file_says_so_wherever_it_is_cut() {
    for file in small_traces() {
        let whole = said(&file).unwrap();
        assert_eq!(whole.lines(), []);
        for end in (0..file.len()).step_by(7).chain(file.len() - 64..file.len()) {
            // Of a cut that takes no record away there is nothing to say.
            assert_honest(&file[..end], whole.events.len(), &format!("cut at {end} of {}", file.len()));
        }
    }
}

#[test]
fn flipped_bits_and_absurd_numbers_are_survived() {
    let mut dice = Dice(2);
    for file in small_traces() {
        let mut damaged = file.clone();
        for at in 0..file.len() {
            for size in [4, 8] {
                let end = (at + size).min(file.len());
                damaged[at..end].fill(0xff);
                let _ = said(&damaged);
                damaged[at..end].copy_from_slice(&file[at..end]);
            }
        }
        for _ in 0..400 {
            let mut damaged = file.clone();
            dice.damage(&mut damaged);
            if let Ok(said) = said(&damaged) {
                // Each event takes at least one word of a page, and pages are as long as the file or unpacked.
                assert!(said.events.len() < 10_000);
            }
        }
    }
}

#[test]
fn nothing_is_allocated_on_a_files_word_alone() {
    let file = &small_traces()[0];
    let tag = |tag: &[u8]| file.windows(tag.len()).position(|window| window == tag).unwrap();
    // A hundred million CPUs, a terabyte of ring pages, a format of exabytes.
    let cpus = tag(b"options  \0") - 4;
    let table = tag(b"flyrecord\0") + 10;
    let format = tag(b"name: kvm_entry") - 8;
    for (at, value) in [(cpus, 100_000_000), (table + 8, 1 << 40), (format, 1 << 60)] {
        let mut huge = file.clone();
        let size = if at == cpus { 4 } else { 8 };
        huge[at..at + size].copy_from_slice(&HOST.u64(value)[..size]);
        assert_honest(&huge, usize::MAX, "absurd");
    }
    // Pages of nothing, and pages larger than any ring buffer's.
    for size in [0u32, 1, 16, 1 << 24, u32::MAX] {
        let mut pages = file.clone();
        let at = 10 + 2 + 2;
        pages[at..at + 4].copy_from_slice(&HOST.u32(size));
        assert!(said(&pages).is_err(), "{size}");
    }
    // Ten thousand options that name one and the same section of formats.
    let cpus = [entries(HOST, 100, &[0])];
    let buffers: [(&str, &str, &[Vec<u8>]); 1] = [("", "local", &cpus)];
    let trace = |options| Trace { machine: HOST, buffers: &buffers, options, compressor: "none" };
    let formats = trace(&[]).v7().windows(8).position(|window| window == b"\x01\0\0\0kvm\0").unwrap() - 16;
    let again = HOST.u64(formats as u64);
    let many = trace(&vec![(18, &again[..]); 10_000]).v7();
    let fit = many.len() / (16 + HOST.event_formats().len());
    let rejected = said(&many).unwrap().ledger.get(LedgerLine::BadRecord);
    assert!(rejected > 10_000 - fit as u64 && rejected < 10_000, "{rejected}");
    // A chain of options that bites its tail.
    let mut ring = small_traces()[1].clone();
    let first = ring.windows(4).position(|window| window == b"1.0\0").unwrap() + 4;
    let section = u64::from_le_bytes(ring[first..first + 8].try_into().unwrap()) as usize;
    let size = u64::from_le_bytes(ring[section + 8..section + 16].try_into().unwrap()) as usize;
    let link = section + 16 + size - 8;
    let here = HOST.u64(section as u64);
    ring[link..link + 8].copy_from_slice(&here);
    assert!(said(&ring).is_err());
}
