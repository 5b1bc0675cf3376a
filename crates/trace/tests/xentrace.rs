//! xentrace logs: the recorded ones against the counts that lie beside them, and made ones for what those lack.

use exitscope_model::{
    CodeList, EventKind, ExitCode, LedgerLine, PortAccessForm, RunState, Subject, SubjectKind, SubjectWord,
};
use exitscope_trace::xentrace::event_name;
use exitscope_trace::{EventFilter, Input, SourceOptions, TraceError, XenMode, open_input};
use exitscope_units::{PcpuId, VcpuId, VmId};
use std::collections::BTreeMap;

mod common;

use common::xentrace::{packed, record, window};
use common::{Said, corpus, drain};

/// One cycle is one nanosecond.
const HZ: u64 = 1_000_000_000;

const LOGS: [&str; 6] =
    ["hvm1_boot_mem", "hvm1_dm_sched_hvm", "pvh1_hvm", "pvh1_smallbuf_credit1", "pvh2_contend_sched_hvm", "pvh64_all"];

fn options() -> SourceOptions {
    SourceOptions { clock_hz: Some(HZ), ..SourceOptions::default() }
}

fn recorded(name: &str) -> Said {
    let input = Input::open(&corpus(&format!("xen/{name}.xentrace.gz"))).unwrap();
    drain(open_input(input, options()).unwrap()).unwrap()
}

fn made_with(log: &[u8], options: SourceOptions) -> Said {
    drain(open_input(Input::from_bytes("made", log).unwrap(), options).unwrap()).unwrap()
}

fn made(log: &[u8]) -> Said {
    made_with(log, options())
}

fn detail(kind: SubjectKind, write: bool, key: u64, value: u64) -> EventKind {
    access(kind, write, PortAccessForm::Unknown, key, value)
}

fn access(kind: SubjectKind, write: bool, form: PortAccessForm, key: u64, value: u64) -> EventKind {
    EventKind::Detail(Subject { kind, write, form, size: 0, key, value })
}

fn svm(number: u64) -> EventKind {
    EventKind::Exit { code: ExitCode::new(CodeList::Svm, number), idle: false, words: SubjectWord::NONE, rip: 0x1000 }
}

/// What a counts file says: event to how often, and how many records in all.
fn counts(name: &str) -> (BTreeMap<u32, u64>, u64) {
    let text = std::fs::read_to_string(corpus(&format!("xen/{name}.counts.txt"))).unwrap();
    let (head, rows) = text.split_once('\n').unwrap();
    let words: Vec<&str> = head.split_whitespace().collect();
    let all = words[words.iter().position(|&word| word == "records").unwrap() - 1].parse().unwrap();
    let mut counts = BTreeMap::new();
    for row in rows.lines() {
        let words: Vec<&str> = row.split_whitespace().collect();
        let id = u32::from_str_radix(words[0].strip_prefix("0x").unwrap(), 16).unwrap();
        *counts.entry(id).or_insert(0) += words.last().unwrap().parse::<u64>().unwrap();
    }
    (counts, all)
}

#[test]
fn every_event_of_every_log_is_read() {
    for name in LOGS {
        let said = recorded(name);
        let (expected, all) = counts(name);
        let mut found: BTreeMap<&str, u64> = BTreeMap::new();
        for event in said.events.iter().filter(|event| !matches!(event.kind, EventKind::Lost { .. })) {
            *found.entry(said.info.names.get(event.name)).or_insert(0) += 1;
        }
        // Losses, padding and windows are no events.
        let names: BTreeMap<String, u64> = expected
            .iter()
            .filter(|row| !(0x1f001..=0x1f003).contains(row.0))
            .map(|(&id, &count)| (event_name(id), count))
            .collect();
        assert_eq!(found, names.iter().map(|(name, &count)| (name.as_str(), count)).collect(), "{name}");
        let others: u64 = (0x1f001..=0x1f003).filter_map(|id| expected.get(&id)).sum();
        assert_eq!(said.ledger.events + others, all, "{name}");
        let lost = said.events.iter().filter(|event| matches!(event.kind, EventKind::Lost { .. })).count() as u64;
        assert_eq!(lost, expected.get(&0x1f001).copied().unwrap_or(0), "{name}");
        assert!(said.events.is_sorted_by_key(|event| event.at), "{name}: in time order");
        assert_eq!(said.info.format, "xentrace (SVM, as its exit codes show)");
        let damage: Vec<_> = said.lines().into_iter().filter(|row| row.0 != LedgerLine::UnnamedVcpu).collect();
        let losses = if name == "pvh1_smallbuf_credit1" { vec![(LedgerLine::LostRecords, 18)] } else { vec![] };
        assert_eq!(damage, losses, "{name}");
    }
}

#[test]
fn a_yield_names_its_vcpu() {
    let said = made(&window(1, &[record(0x28005, Some(9), &[6, 2]), record(0x28005, Some(10), &[6])]));
    let of = said.events[0];
    assert_eq!((of.kind, of.vm, of.vcpu), (EventKind::Yield, VmId(6), VcpuId(2)));
}

#[test]
fn vcpus_are_named_by_the_scheduler_or_else_by_their_cpu() {
    for (name, domain) in
        [("hvm1_dm_sched_hvm", 6), ("pvh2_contend_sched_hvm", 3), ("pvh64_all", 2), ("pvh1_smallbuf_credit1", 2)]
    {
        let said = recorded(name);
        for event in said.events.iter().filter(|event| matches!(event.kind, EventKind::Exit { .. } | EventKind::Enter))
        {
            assert_eq!(event.vm, VmId(domain), "{name}: {event:?}");
            assert!(event.vcpu.number().unwrap() < if domain == 3 { 2 } else { 1 }, "{name}: {event:?}");
        }
        assert_eq!(said.ledger.get(LedgerLine::UnnamedVcpu), 0);
    }
    for name in ["pvh1_hvm", "hvm1_boot_mem"] {
        let said = recorded(name);
        let exits = said.events.iter().filter(|event| matches!(event.kind, EventKind::Exit { .. }));
        for event in exits.clone() {
            assert_eq!((event.vm, event.vcpu), (VmId::UNKNOWN, VcpuId::on(PcpuId(1))));
        }
        assert_eq!(said.ledger.get(LedgerLine::UnnamedVcpu), exits.count() as u64);
    }
}

#[test]
fn cpus_are_merged_by_time_and_records_without_a_stamp_have_the_one_before() {
    let log = [
        window(1, &[record(0x21101, Some(100), &[packed(6, 0)]), record(0x81001, Some(110), &[])]),
        window(0, &[record(0x21101, Some(105), &[packed(0, 3)]), record(0x1f002, Some(1), &[0; 3])]),
        window(
            1,
            &[
                record(0x81102, Some(120), &[0x7b, 0x1000, 0]),
                record(0x82216, None, &[0x3f8, 0x41]),
                record(0x1f002, None, &[]),
                record(0x82216, None, &[0x3f9, 0x42]),
                record(0x81001, Some(140), &[]),
            ],
        ),
        window(0, &[record(0x21021, Some(130), &[packed(0, 3)])]),
    ]
    .concat();
    let said = made(&log);
    let out = |port, value| access(SubjectKind::Port, true, PortAccessForm::NonString, port, value);
    let (running, runnable, blocked) = (RunState::Running, RunState::Runnable, RunState::Blocked);
    assert_eq!(
        said.told(),
        [
            (100, 1, EventKind::RunState { from: runnable, to: running }),
            (105, 0, EventKind::RunState { from: runnable, to: running }),
            (110, 1, EventKind::Enter),
            (120, 1, svm(0x7b)),
            (120, 1, out(0x3f8, 0x41)),
            (120, 1, out(0x3f9, 0x42)),
            (130, 0, EventKind::RunState { from: running, to: blocked }),
            (140, 1, EventKind::Enter),
        ]
    );
    assert_eq!(said.lines(), []);
    let named = |vm, vcpu| (VmId::domain(vm), VcpuId(vcpu));
    let whose: Vec<_> = said.events.iter().map(|event| (event.vm, event.vcpu)).collect();
    assert_eq!(whose[1], named(0, 3));
    assert_eq!(whose[3..6], [named(6, 0); 3]);
    assert_eq!(said.events[1].vm.number(), Some(0));
}

#[test]
fn whoever_leaves_a_cpu_first_was_there_before() {
    let log = window(
        2,
        &[
            record(0x82016, None, &[0x3fd, 0x60]),
            record(0x81002, Some(10), &[0x60, 0]),
            record(0x21011, Some(20), &[packed(4, 1)]),
            record(0x81002, Some(30), &[0x60, 0]),
        ],
    );
    let said = made(&log);
    assert_eq!(said.told()[0].0, 10, "what has no stamp before it has the first one");
    let whose: Vec<_> = said.events.iter().map(|event| (event.vm, event.vcpu)).collect();
    let (known, unknown) = ((VmId(4), VcpuId(1)), (VmId::UNKNOWN, VcpuId::on(PcpuId(2))));
    assert_eq!(whose, [known, known, known, unknown]);
    assert_eq!(said.lines(), [(LedgerLine::UnnamedVcpu, 1)]);
}

#[test]
fn a_loss_is_told_where_it_began_and_who_runs_after_it() {
    let log = window(
        0,
        &[
            record(0x21101, Some(10), &[packed(6, 0)]),
            record(0x81002, Some(20), &[0x72, 0]),
            // 18 records from 25 on; at 40, vCPU 1 of domain 7 runs.
            record(0x1f001, Some(40), &[18, 1 << 16 | 7, 25, 0]),
            record(0x81002, Some(50), &[0x72, 0]),
        ],
    );
    let other = window(1, &[record(0x21101, Some(30), &[packed(8, 0)])]);
    let said = made(&[log, other].concat());
    let moments: Vec<u64> = said.events.iter().map(|event| event.at.as_nanos()).collect();
    assert_eq!(moments, [10, 20, 25, 30, 50]);
    assert_eq!(said.events[2].kind, EventKind::Lost { count: 18 });
    assert_eq!((said.events[4].vm, said.events[4].vcpu), (VmId(7), VcpuId(1)));
    assert_eq!(said.lines(), [(LedgerLine::LostRecords, 18)]);
}

/// One vCPU, and exits of these records.
fn guest(records: &[Vec<u8>]) -> Vec<u8> {
    let start = record(0x21101, Some(10), &[packed(6, 0)]);
    window(0, &[&[start][..], records].concat())
}

#[test]
fn handlers_say_what_exits_are_about() {
    let npf = [0x1000, 0xfee0, 0, 0, 0x14, 4];
    let log = guest(&[
        record(0x8200c, None, &[0x1b, 0xfee0_0900, 1]),
        record(0x8200d, None, &[0x6e0, 5, 6]),
        record(0x8200e, None, &[0x4000_0000, 2, 0, 0, 0, 0]),
        record(0x8200e, None, &[7, 0, 0, 0, 0]),
        record(0x82012, None, &[29]),
        record(0x82016, None, &[0x60]),
        record(0x82017, None, &[0xfee0_00b0, 7]),
        record(0x82317, None, &[0x10, 0x1, 0x20, 0x2]),
        record(0x82004, None, &[0x40, 0]),
        record(0x82021, None, &npf),
        record(0x82101, None, &[2, 0x10, 0x3]),
        record(0x82007, None, &[0x70, 1]),
        record(0x82108, None, &[4, 0x20, 1]),
        record(0x82018, None, &[]),
        record(0x82013, None, &[0]),
        record(0x20100d, None, &[0xc0_001d, 1]),
        record(0x201101, None, &[1, 2, 18]),
    ]);
    let told: Vec<EventKind> = made(&log).events.iter().skip(1).map(|event| event.kind).collect();
    use SubjectKind::*;
    let old_port = Subject { kind: Port, write: true, form: PortAccessForm::Unknown, size: 1, key: 0x70, value: 0 };
    assert_eq!(
        told,
        [
            detail(Msr, false, 0x1b, 0x1_fee0_0900),
            detail(Msr, true, 0x6e0, 0x6_0000_0005),
            detail(Cpuid, false, 0x4000_0000, 2),
            detail(Cpuid, false, 7, 0),
            detail(XenHypercall, false, 29, 0),
            access(Port, false, PortAccessForm::String, 0x60, 0),
            access(Mmio, false, PortAccessForm::NonString, 0xfee0_00b0, 7),
            access(Mmio, true, PortAccessForm::NonString, 0x1_0000_0010, 0x2_0000_0020),
            EventKind::Inject { vector: 0x40 },
            detail(PageFault, false, 0x14, 0xfee0_0000_1000),
            detail(PageFault, false, 2, 0x3_0000_0010),
            EventKind::Detail(old_port),
            detail(ControlRegister, false, 4, 0x1_0000_0020),
            detail(ControlRegister, true, 0, 0),
            EventKind::Other,
            detail(XenHypercall, false, 29, 0),
            detail(XenHypercall, false, 18, 0),
        ]
    );
}

#[test]
fn the_vendor_is_told_or_shown_by_the_codes_or_by_the_event() {
    let exits = |id: u32, reasons: &[u32]| {
        let exits = reasons.iter().map(|&reason| record(id, Some(20), &[reason, 0, 0]));
        guest(&exits.collect::<Vec<_>>())
    };
    let codes = |said: &Said| -> Vec<ExitCode> {
        let code = |kind| if let EventKind::Exit { code, .. } = kind { Some(code) } else { None };
        said.events.iter().filter_map(|event| code(event.kind)).collect()
    };
    let vmx = made(&exits(0x81102, &[30, 12, 0x8000_0021]));
    assert_eq!(vmx.info.format, "xentrace (VMX, as its exit codes show)");
    assert_eq!(codes(&vmx), [30, 12, 0x8000_0021].map(|number| ExitCode::new(CodeList::Vmx, number)));
    let told = made_with(&exits(0x81002, &[30, 12]), SourceOptions { xen_mode: Some(XenMode::Svm), ..options() });
    assert_eq!(told.info.format, "xentrace (SVM, as told)");
    assert_eq!(codes(&told), [30, 12].map(|number| ExitCode::new(CodeList::Svm, number)));
    // Since 2024 AMD's have an event of their own; nested guests' have the flag.
    let own = made(&exits(0x81003, &[0x10]));
    assert_eq!((codes(&own), own.info.format.as_str()), (vec![ExitCode::new(CodeList::Svm, 0x10)], "xentrace"));
    let nested = made(&exits(0x81503, &[0x7b]));
    assert_eq!(codes(&nested), [ExitCode::new(CodeList::Svm, 0x7b).of_nested()]);
    assert_eq!(nested.info.names.get(nested.events[1].name), "xen:hvm_nested_svm_exit64");
}

#[test]
fn a_pause_is_told_from_a_wait_for_the_device_model() {
    let log = guest(&[
        record(0x21031, Some(20), &[packed(6, 0)]),
        record(0x21311, Some(30), &[packed(6, 0)]),
        record(0x28003, Some(40), &[6, 0]),
        record(0x21031, Some(50), &[packed(6, 0)]),
        record(0x21311, Some(60), &[packed(6, 0)]),
        record(0x21031, Some(70), &[packed(6, 0)]),
    ]);
    let states: Vec<_> = made(&log)
        .events
        .iter()
        .filter_map(|event| match event.kind {
            EventKind::RunState { from, to } => Some((from.name(), to.name())),
            _ => None,
        })
        .collect();
    let paused = [("running", "paused"), ("paused", "runnable")];
    let waits = [("running", "offline"), ("offline", "runnable")];
    assert_eq!(states[1..], [waits[0], waits[1], paused[0], paused[1], waits[0]]);
}

#[test]
fn a_wake_up_says_of_whom_and_whether_a_pause_ends() {
    // On another vCPU's CPU, and of one that runs. The pause was undone before the vCPU lost its CPU.
    let log = guest(&[
        record(0x28004, Some(20), &[0, 1]),
        record(0x28004, Some(30), &[6, 0]),
        record(0x28003, Some(40), &[6, 0]),
        record(0x28004, Some(50), &[6, 0]),
        record(0x28004, Some(60), &[0, 1]),
        record(0x21002, Some(70), &[packed(6, 0)]),
        record(0x28004, Some(80), &[6, 0]),
        record(0x28004, Some(90), &[]),
    ]);
    let said = made(&log);
    assert_eq!(said.ledger.get(LedgerLine::BadRecord), 1, "one is too short to say of whom");
    let woken: Vec<_> = said
        .events
        .iter()
        .filter_map(|event| match event.kind {
            EventKind::VcpuWake { paused } => Some((event.vm, event.vcpu, paused)),
            _ => None,
        })
        .collect();
    let (guest, model) = ((VmId::domain(6), VcpuId(0)), (VmId::domain(0), VcpuId(1)));
    let of = |(vm, vcpu), paused| (vm, vcpu, paused);
    let expected = [of(model, false), of(guest, false), of(guest, true), of(model, false), of(guest, false)];
    assert_eq!(woken, expected);
}

#[test]
fn xen_3_3_0_names_domain_and_vcpu_in_every_record() {
    let who = 1 << 16 | 5;
    let mut records = Vec::new();
    for at in [100, 200, 300] {
        records.push(record(0x81001, Some(at), &[who]));
        records.push(record(0x81002, Some(at + 10), &[who, 0x7b, 0x1000]));
        records.push(record(0x82007, None, &[who, 0x80, 1]));
    }
    let said = made(&window(3, &records));
    assert!(said.events.iter().all(|event| (event.vm, event.vcpu) == (VmId(5), VcpuId(1))));
    assert_eq!(said.events[1].kind, svm(0x7b));
    assert!(matches!(said.events[2].kind, EventKind::Detail(Subject { key: 0x80, size: 1, .. })));
    // Later, until 2010, the last word was one too many.
    let later = [&[record(0x21101, Some(1), &[packed(5, 1)])][..], &records.map_first_word()].concat();
    let said = made(&window(3, &later));
    assert_eq!(said.events[2].kind, svm(0x7b));
}

trait MapFirstWord {
    fn map_first_word(&self) -> Vec<Vec<u8>>;
}

impl MapFirstWord for Vec<Vec<u8>> {
    /// The same events as Xen wrote them after 3.3.0: reason and address first, a word of no meaning last.
    fn map_first_word(&self) -> Vec<Vec<u8>> {
        let rounds = self.chunks(3).enumerate().flat_map(|(round, _)| {
            let at = 100 * (round as u64 + 1);
            [
                record(0x81001, Some(at), &[0xdead_beef]),
                record(0x81002, Some(at + 10), &[0x7b, 0x1000, 0xdead_beef]),
                record(0x82007, None, &[0x80, 1, 0xdead_beef]),
            ]
        });
        rounds.collect()
    }
}

#[test]
fn the_rate_is_never_guessed() {
    let log = guest(&[record(0x81001, Some(5_192_240_000), &[])]);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    std::fs::write(&path, &log).unwrap();
    let open = |options| open_input(Input::open(&path).unwrap(), options);
    let error = open(SourceOptions::default()).err().unwrap();
    assert!(matches!(&error, TraceError::XenClock { sidecar, .. } if sidecar.ends_with("log.xl-info")), "{error}");
    assert!(error.to_string().contains("--tsc-hz") && error.to_string().contains("xl info"));
    // 2,596.12 MHz.
    let said =
        drain(open(SourceOptions { clock_hz: Some(2_596_120_000), ..SourceOptions::default() }).unwrap()).unwrap();
    assert_eq!(said.events[1].at.as_nanos(), 2_000_000_000);
    let beside = folder.path().join("log.xl-info");
    std::fs::write(beside, "nr_cpus : 2\ncpu_mhz : 2596.120\nxen_version : 4.17.5\n").unwrap();
    let said = drain(open(SourceOptions::default()).unwrap()).unwrap();
    assert_eq!(said.events[1].at.as_nanos(), 2_000_000_000);
    assert_eq!((said.info.release.as_str(), said.info.cpus), ("Xen 4.17.5", 2));
}

#[test]
fn events_that_nobody_uses_need_not_leave() {
    for name in LOGS {
        let input = Input::open(&corpus(&format!("xen/{name}.xentrace.gz"))).unwrap();
        let used = SourceOptions { keep: EventFilter::Used, ..options() };
        let mut source = open_input(input, used).unwrap();
        let (mut events, mut ledger) = (Vec::new(), exitscope_model::Ledger::default());
        while source.read(&mut events, &mut ledger).unwrap() {}
        let all = recorded(name);
        assert_eq!(ledger.events, all.ledger.events, "{name}");
        let hypercalls_of_pv =
            |kind| matches!(kind, EventKind::Detail(Subject { kind: SubjectKind::XenHypercall, .. }));
        let expected = all.events.iter().filter(|event| {
            let pv = all.info.names.get(event.name).starts_with("xen:pv_") && hypercalls_of_pv(event.kind);
            event.kind != EventKind::Other && !pv
        });
        let told = |event: &exitscope_model::Event| (event.at, event.cpu, event.vm, event.vcpu, event.kind);
        assert!(events.iter().map(told).eq(expected.map(told)), "{name}");
    }
}
