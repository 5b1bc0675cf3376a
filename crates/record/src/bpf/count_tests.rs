//! The kernel takes the programs; and they count what [`Fold`] counts, given the same records.
//!
//! ```text
//!                                    ┌─► decoded ─► Fold ─────────────────────────────────────► CountReading ─┐
//! records, generated or recorded ────┤                                                                        ├─ the same
//!                                    └─► their fields as words ─► program, BPF_PROG_TEST_RUN ─► CountReading ─┘
//! ```
//!
//! A program is the one that `top` runs, at other places: what it looks at is in words of eight bytes, as a raw tracepoint's
//! arguments are. The first two of them are time and thread, for which two calls of the kernel's helpers are exchanged.

use super::super::assembler::{BpfAssembler, Helper, Reg, Width};
use super::layout::CTX;
use super::*;
use crate::aggregate::Fold;
use crate::capture::possible_cpus;
use crate::tracefs;
use crate::tracepoints::{COMMON, find};
use exitscope_model::{CodeList, EventNames, Ledger, Subject};
use exitscope_skips::{Part, Skipped, or_skip, skip};
use exitscope_trace::tracefs::Format;
use exitscope_trace::tracepoints::{self, RecordWhen};
use exitscope_units::VcpuId;
use proptest::prelude::*;
use proptest::test_runner::{TestError, TestRunner};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// A host that polls, and tells of exits and of its scheduler.
const HOST: Traits = Traits { is_software: false, polls: true, switches: true };

/// Words that a raw tracepoint's program may look at, and which of them are not fields.
const WORDS: usize = 12;
const TIME: usize = 0;
const THREAD: usize = 1;
const FIELDS: usize = 2;

/// A field of a record: bytes, name, and values that are worth a try.
type Column = (usize, &'static str, &'static [u64]);
type Layout = (&'static str, &'static [Column]);

const FLAG: &[u64] = &[0, 1];
const VCPU: Column = (4, "vcpu_id", &[0, 1, 300]);
const REASONS: &[u64] = &[0, 1, 12, 30, 0x7b, 0x8000_0021];
/// Numbers that are the same to a program that looks at too few bytes.
const NUMBERS: &[u64] = &[0, 1, 0x80, 0x1_0080, u32::MAX as u64];
/// Two of them KVM may answer itself.
const PORTS: &[u64] = &[0x20, 0x61, 0x80, 0x3fd, 0x1_0080];
const ADDRESSES: &[u64] = &[0, 0xfff, 0x1000, 0xfee0_0300, 0xffff_ffff_f000, u64::MAX];
const ERRNOS: &[u64] = &[0, 0, 11, -4i32 as u32 as u64, -14i32 as u32 as u64];
const LENGTHS: &[u64] = &[0, 1, 7, 900, 4_000, 1 << 37, 1 << 39];

const USERSPACE_EXIT: Layout = ("kvm_userspace_exit", &[(4, "reason", &[2, 2, 5, 6, 10, 29]), (4, "errno", ERRNOS)]);
const MMIO: Layout =
    ("kvm_mmio", &[(4, "type", &[0, 1, 2]), (4, "len", &[4]), (8, "gpa", ADDRESSES), (8, "val", ADDRESSES)]);
const WAKEUP: Layout = ("kvm_vcpu_wakeup", &[(8, "ns", LENGTHS), (1, "waited", FLAG), (1, "valid", FLAG)]);
const HALT_POLL: Layout = ("kvm_halt_poll_ns", &[(1, "grow", FLAG), VCPU, (4, "new", NUMBERS), (4, "old", NUMBERS)]);

/// Threads of [`any_steps`], and one that is no vCPU's.
const THREADS: &[u64] = &[0, 70, 71, 72];
const SWITCH: Layout = (
    "sched_switch",
    &[(4, "prev_pid", THREADS), (8, "prev_state", &[0, 1, 2, 0x100, 0x402]), (4, "next_pid", THREADS)],
);
const SCHED_WAKEUP: Layout = ("sched_wakeup", &[(4, "pid", THREADS)]);

/// What fires on x86 besides `kvm_exit` and `kvm_entry`.
const X86: [Layout; 14] = [
    USERSPACE_EXIT,
    ("kvm_pio", &[(4, "rw", FLAG), (4, "port", PORTS), (4, "size", &[1]), (4, "count", &[1])]),
    MMIO,
    ("kvm_fast_mmio", &[(8, "gpa", ADDRESSES)]),
    ("kvm_msr", &[(4, "write", FLAG), (4, "ecx", NUMBERS), (8, "data", NUMBERS)]),
    ("kvm_cr", &[(4, "rw", FLAG), (4, "cr", &[0, 3, 8]), (8, "val", NUMBERS)]),
    ("kvm_apic", &[(4, "rw", FLAG), (4, "reg", NUMBERS), (8, "val", NUMBERS)]),
    ("kvm_cpuid", &[(4, "function", NUMBERS), (4, "index", FLAG)]),
    ("kvm_hypercall", &[(8, "nr", ADDRESSES)]),
    ("kvm_page_fault", &[VCPU, (8, "fault_address", ADDRESSES), (8, "error_code", ADDRESSES)]),
    WAKEUP,
    HALT_POLL,
    SWITCH,
    SCHED_WAKEUP,
];

const HARDWARE: [Layout; 2] = [
    ("kvm_exit", &[(4, "exit_reason", REASONS), (8, "guest_rip", ADDRESSES), (4, "isa", &[1, 2]), VCPU]),
    ("kvm_entry", &[VCPU]),
];

/// Stands for entries where `kvm_exit` never fires.
const SOFTWARE: [Layout; 1] = [("kvm_fpu", &[(4, "load", FLAG)])];

const ARM64: [Layout; 10] = [
    ("kvm_exit", &[(4, "ret", &[0, 1, 2]), (4, "esr_ec", &[1, 0x16, 0x24]), (8, "vcpu_pc", ADDRESSES)]),
    ("kvm_entry", &[(8, "vcpu_pc", ADDRESSES)]),
    USERSPACE_EXIT,
    MMIO,
    ("kvm_handle_sys_reg", &[(8, "hsr", &[0, 1, 0x6232_c001, 0x6232_c000, 0x6230_0141])]),
    ("kvm_hvc_arm64", &[(8, "vcpu_pc", &[0]), (8, "r0", ADDRESSES), (8, "imm", &[0])]),
    WAKEUP,
    HALT_POLL,
    SWITCH,
    SCHED_WAKEUP,
];

fn source(&(name, columns): &Layout) -> Source {
    let (mut text, mut at) = (format!("name: {name}\nID: 1\nformat:\n"), COMMON);
    for (size, field, _) in columns {
        at = at.next_multiple_of(*size);
        text += &format!("\tfield:u{} {field};\toffset:{at};\tsize:{size};\tsigned:0;\n", 8 * size);
        at += size;
    }
    text += "\nprint fmt: \"\"\n";
    let system = if name.starts_with("sched") { "sched" } else { "kvm" };
    let tracepoint = Tracepoint::parse(system, &text).expect("a format");
    let format = Format::parse(&text).expect("a format");
    let decoder = Decoder::new(system, &format, &mut EventNames::default());
    let role = decoder.role().unwrap_or_else(|| panic!("{name} has a role"));
    (tracepoint, decoder, role)
}

/// A record with these values, in the order of its fields.
fn record(tracepoint: &Tracepoint, values: impl IntoIterator<Item = u64>) -> Vec<u8> {
    let mut record = vec![0; tracepoint.size];
    let format = Format::parse(&tracepoint.format).expect("a format");
    for (field, value) in format.fields.iter().zip(values) {
        put(&mut record, FieldLocation { offset: field.offset, size: field.size }, value);
    }
    record
}

/// A record that a thread makes at a moment.
#[derive(Clone, Debug)]
struct Step {
    at: u64,
    thread: u64,
    source: usize,
    record: Vec<u8>,
}

/// A number in a record.
fn get(record: &[u8], place: FieldLocation) -> u64 {
    ByteOrder::NATIVE.unsigned(record, place.offset, place.size).expect("a field of the record")
}

/// What programs count.
fn by_programs(
    sources: &[Source],
    traits: Traits,
    counting: &CountingOptions,
    steps: &[Step],
) -> Result<CountReading, NoBpf> {
    let mut engine = ByBpf::idle(sources, traits, counting, possible_cpus().map_err(NoBpf::Trouble)?)?;
    let mut fields = Vec::new();
    for (number, ((tracepoint, _, role), vcpu)) in (0..).zip(sources.iter().zip(vcpus(sources))) {
        let places = RefCell::new(Vec::new());
        let to_word = |place: FieldLocation| {
            let mut places = places.borrow_mut();
            if place.size == 0 {
                return Some(place);
            }
            places.push(place);
            Some(FieldLocation { offset: 8 * (FIELDS + places.len() - 1), size: place.size })
        };
        let (role, vcpu) = (role.moved(to_word).expect("a word each"), to_word(vcpu).expect("a word"));
        let program = repeatable(count_program(role, number, vcpu, traits, &engine.maps));
        engine.programs.push(load(tracepoint, &program, ProgramKind::RawTracepoint)?);
        fields.push(places.into_inner());
    }
    for step in steps {
        let mut words = [0; 8 * WORDS];
        let mut set = |word, size, value| put(&mut words, FieldLocation { offset: 8 * word, size }, value);
        set(TIME, 8, step.at);
        set(THREAD, 8, step.thread);
        for (word, place) in (FIELDS..).zip(&fields[step.source]) {
            set(word, place.size, get(&step.record, *place));
        }
        sys::test_run(&engine.programs[step.source], &words).map_err(NoBpf::Forbidden)?;
    }
    engine.read(now(steps), &gone(steps)).map_err(NoBpf::Forbidden)
}

/// When the last of them is over.
fn now(steps: &[Step]) -> u64 {
    steps.last().map_or(0, |step| step.at + 500)
}

/// Every other thread.
fn gone(steps: &[Step]) -> BTreeSet<CountedVcpu> {
    steps.iter().filter(|step| step.thread % 2 == 0).map(|step| lane(step.thread)).collect()
}

/// The same program, which takes time and thread from its words.
fn repeatable(program: Vec<u64>) -> Vec<u64> {
    let instruction = |write: &dyn Fn(&mut BpfAssembler)| {
        let mut a = BpfAssembler::default();
        write(&mut a);
        a.finish()[0]
    };
    let given = |helper: Helper, word: usize| {
        let word = instruction(&|a| a.load(Width::Double, Reg(0), CTX, 8 * word as i16));
        (instruction(&|a| a.call(helper)), word)
    };
    let given = [given(Helper::KtimeGetNs, TIME), given(Helper::GetCurrentPidTgid, THREAD)];
    let exchange = |was: u64| given.iter().find(|(call, _)| *call == was).map_or(was, |(_, word)| *word);
    program.into_iter().map(exchange).collect()
}

/// What [`Fold`] counts.
fn by_fold(sources: &[Source], traits: Traits, counting: &CountingOptions, steps: &[Step]) -> CountReading {
    let mut fold = Fold::new(traits, counting.max_lanes as usize, counting.max_counts as usize);
    let vcpus: Vec<FieldLocation> = vcpus(sources).collect();
    for step in steps {
        let decoded = sources[step.source].1.decode(&step.record, ByteOrder::NATIVE).expect("a whole record");
        let vcpu = if vcpus[step.source].size > 0 { decoded.vcpu } else { VcpuId::UNKNOWN };
        if decoded.kind != (EventKind::Fpu { load: false }) {
            fold.take(lane(step.thread), step.at, decoded.kind, vcpu);
        }
    }
    fold.read(now(steps), &gone(steps))
}

type Sums = BTreeMap<CountKey, CountAndTime>;

/// A reading as it is compared: programs may have several counts for what is one key to us.
fn sums(reading: CountReading) -> (Sums, Sums, BTreeMap<CountedVcpu, CountedVcpuState>, u64) {
    let sum = |counts: Vec<(CountKey, CountAndTime)>| {
        let mut sums = Sums::new();
        counts.into_iter().for_each(|(key, count)| sums.entry(key).or_default().add(&count));
        sums
    };
    (sum(reading.counts), sum(reading.unsettled), reading.lanes.into_iter().collect(), reading.lost)
}

/// Programs may be run here.
fn can_run() -> Result<(), Skipped> {
    let sources = [source(&HARDWARE[1])];
    let step = Step { at: 1, thread: 1, source: 0, record: vec![0; sources[0].0.size] };
    match by_programs(&sources, HOST, &CountingOptions::default(), &[step]) {
        Ok(_) => Ok(()),
        Err(NoBpf::Forbidden(error)) => Err(skip(Part::Bpf, error)),
        Err(NoBpf::Trouble(error)) => panic!("{error}"),
    }
}

fn compare(
    layouts: &[Layout],
    traits: Traits,
    counting: &CountingOptions,
    steps: &[Step],
) -> Result<(), TestCaseError> {
    let sources: Vec<Source> = layouts.iter().map(source).collect();
    let counted = by_programs(&sources, traits, counting, steps).map_err(|why| match why {
        NoBpf::Forbidden(error) => TestCaseError::fail(error.to_string()),
        NoBpf::Trouble(error) => TestCaseError::fail(error.to_string()),
    })?;
    prop_assert_eq!(sums(counted), sums(by_fold(&sources, traits, counting, steps)));
    Ok(())
}

/// Records of a few threads in any order, at moments that grow, stay, and now and then go back.
fn any_steps(layouts: &[Layout]) -> impl Strategy<Value = Vec<Step>> + use<> {
    let layouts = layouts.to_vec();
    let sources: Vec<Source> = layouts.iter().map(source).collect();
    let forward = prop_oneof![4 => 0i64..3_000, 1 => Just(0), 1 => -900i64..0, 1 => Just(1 << 38)];
    // Half of all are of the first three: begin, end, and the way to user space.
    let one = (prop_oneof![0..layouts.len(), 0..3usize], 0u64..3, forward, any::<[prop::sample::Index; 5]>());
    prop::collection::vec(one, 1..150).prop_map(move |all| {
        let mut now = 1_000_000i64;
        let step = |(source, thread, forward, picks): (usize, u64, i64, [prop::sample::Index; 5])| {
            now = (now + forward).max(1);
            let columns = layouts[source].1.iter().zip(picks);
            let record = record(&sources[source].0, columns.map(|((.., values), pick)| *pick.get(values)));
            Step { at: now as u64, thread: (7 << 32) | (70 + thread), source, record }
        };
        all.into_iter().map(step).collect()
    })
}

#[test]
fn programs_count_what_the_fold_counts_of_any_records() {
    or_skip!(can_run());
    let narrow = CountingOptions { max_lanes: 2, max_counts: 6, ..CountingOptions::default() };
    for (layouts, traits, counting) in [
        ([&HARDWARE[..], &X86].concat(), HOST, CountingOptions::default()),
        ([&SOFTWARE[..], &X86].concat(), Traits { is_software: true, ..HOST }, CountingOptions::default()),
        (ARM64.to_vec(), Traits { polls: false, ..HOST }, CountingOptions::default()),
        ([&HARDWARE[..], &X86].concat(), Traits { polls: false, ..HOST }, CountingOptions::default()),
        // Nothing here is several keys to programs and one to us, so that both run out of room at the same moment.
        ([&HARDWARE[..], &[USERSPACE_EXIT, WAKEUP, SWITCH]].concat(), HOST, narrow),
    ] {
        let mut runner =
            TestRunner::new(ProptestConfig { cases: 200, failure_persistence: None, ..Default::default() });
        match runner.run(&any_steps(&layouts), |steps| compare(&layouts, traits, &counting, &steps)) {
            Ok(()) => {}
            Err(TestError::Fail(why, steps)) => panic!("{}: {why}\n{steps:?}", layouts[0].0),
            Err(TestError::Abort(why)) => panic!("{why}"),
        }
    }
}

/// A record of this tracepoint that says what an event says, as far as that is counted.
fn recorded(&(name, columns): &Layout, kind: EventKind, vcpu: VcpuId) -> Option<Vec<u64>> {
    let named: &[(&str, u64)] = match (name, kind) {
        ("kvm_exit", EventKind::Exit { code, .. }) => {
            &[("exit_reason", code.number), ("isa", if code.list == CodeList::Svm { 2 } else { 1 })]
        }
        ("kvm_entry", EventKind::Enter) => &[],
        ("kvm_fpu", EventKind::Fpu { load }) => &[("load", load.into())],
        ("kvm_userspace_exit", EventKind::UserspaceExit { reason, errno }) => {
            &[("reason", reason.into()), ("errno", errno as u32 as u64)]
        }
        ("kvm_vcpu_wakeup", EventKind::HaltEnd { ns, waited, valid }) => {
            &[("ns", ns), ("waited", waited.into()), ("valid", valid.into())]
        }
        ("kvm_halt_poll_ns", EventKind::HaltPoll { new, old, .. }) => &[("new", new.into()), ("old", old.into())],
        ("sched_switch", EventKind::Switch { prev, sleeps, next, .. }) => {
            &[("prev_pid", prev.0.into()), ("prev_state", sleeps.into()), ("next_pid", next.0.into())]
        }
        ("sched_wakeup", EventKind::Wakeup { tid }) => &[("pid", tid.0.into())],
        (name, EventKind::Detail(Subject { kind, write, key, .. })) => match (name, kind) {
            ("kvm_pio", SubjectKind::Port) => &[("rw", write.into()), ("port", key)],
            ("kvm_mmio", SubjectKind::Mmio) => &[("type", 1 + u64::from(write)), ("gpa", key)],
            ("kvm_msr", SubjectKind::Msr) => &[("write", write.into()), ("ecx", key)],
            ("kvm_cr", SubjectKind::ControlRegister) => &[("rw", write.into()), ("cr", key)],
            ("kvm_apic", SubjectKind::Apic) => &[("rw", write.into()), ("reg", key)],
            ("kvm_cpuid", SubjectKind::Cpuid) => &[("function", key)],
            ("kvm_hypercall", SubjectKind::Hypercall) => &[("nr", key)],
            ("kvm_page_fault", SubjectKind::PageFault) => &[("error_code", key)],
            _ => return None,
        },
        _ => return None,
    };
    let value = |field: &str| match field {
        "vcpu_id" => vcpu.0.into(),
        _ => named.iter().find(|(name, _)| *name == field).map_or(0, |(_, value)| *value),
    };
    Some(columns.iter().map(|(_, field, _)| value(field)).collect())
}

#[test]
fn programs_count_what_the_fold_counts_of_recordings() {
    or_skip!(can_run());
    let hardware = [&HARDWARE[..], &X86].concat();
    let software = [&SOFTWARE[..], &X86].concat();
    // With the number of wake-up latencies that a report has (`report --view halt`), and their sum.
    for (file, layouts, latencies) in [
        ("x86-svm/t2.data.gz", &hardware, (1_605, 793_143_677)),
        ("x86-svm/t4-none.dat.gz", &hardware, (1_985, 166_014_028)),
        ("x86-svm/t4-kvmstat.data.gz", &hardware, (0, 0)),
        ("lab/contended.data.gz", &software, (0, 0)),
    ] {
        let is_software = layouts.len() == software.len();
        let traits = Traits { is_software, ..HOST };
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus").join(file);
        let mut trace = exitscope_trace::open(&path).expect(file);
        let (mut events, mut ledger) = (Vec::new(), Ledger::default());
        while trace.read(&mut events, &mut ledger).expect(file) {}
        let sources: Vec<Source> = layouts.iter().map(source).collect();
        let steps = events.iter().filter_map(|event| {
            let told = |(at, layout)| Some((at, recorded(layout, event.kind, event.vcpu)?));
            let (source, values) = layouts.iter().enumerate().find_map(told)?;
            let thread = u64::from(event.vm.0) << 32 | u64::from(event.tid.0);
            Some(Step { at: event.at.as_nanos(), thread, source, record: record(&sources[source].0, values) })
        });
        let steps: Vec<Step> = steps.collect();
        compare(layouts, traits, &CountingOptions::default(), &steps).unwrap_or_else(|why| panic!("{file}: {why}"));
        let reading = by_fold(&sources, traits, &CountingOptions::default(), &steps);
        let is_exit = |(key, _): &&(CountKey, CountAndTime)| matches!(key.cause, CountedKind::Exit(_));
        let mut wake_ups = HaltWakeUps::default();
        reading.lanes.iter().for_each(|(_, lane)| wake_ups.add(&lane.wake_ups));
        assert_eq!((wake_ups.seen, wake_ups.latency), latencies, "{file}");
        let counted: u64 =
            [reading.counts, reading.unsettled].iter().flatten().filter(is_exit).map(|(_, c)| c.count).sum();
        let exits = events.iter().filter(|event| matches!(event.kind, EventKind::Exit { .. })).count() as u64;
        assert!(if is_software { counted > 0 } else { counted == exits && exits > 0 }, "{file}: {counted} of {exits}");
    }
}

#[test]
fn the_kernel_takes_every_program_with_kvm_exit_and_without_of_arguments_and_of_records() {
    let mut names = EventNames::default();
    let source = |tracepoint: Tracepoint| {
        let decoder = Decoder::new(&tracepoint.system, &Format::parse(&tracepoint.format)?, &mut names);
        let role = decoder.role()?;
        Some((tracepoint, decoder, role))
    };
    let wanted = tracepoints::recorded(|when| !matches!(when, RecordWhen::Never(_) | RecordWhen::Calls));
    let found = tracefs().and_then(|tracefs| find(&tracefs, &wanted));
    let trouble = match found {
        Ok(found) => {
            let sources: Vec<Source> = found.into_iter().filter_map(source).collect();
            let started = [(true, true), (true, false), (false, true), (false, false)].map(|(is_software, raw)| {
                let processes = if is_software { Processes::All } else { Processes::These(vec![1]) };
                let counting = CountingOptions { processes, max_counts: 10, ..CountingOptions::default() };
                ByBpf::start_at(&sources, Traits { is_software, ..HOST }, &counting, 1, raw).err()
            });
            match started.into_iter().flatten().next() {
                None => None,
                Some(NoBpf::Trouble(error)) => panic!("{error}"),
                Some(NoBpf::Forbidden(error)) => Some(error.to_string()),
            }
        }
        Err(error) => Some(error.to_string()),
    };
    or_skip!(trouble.map_or(Ok(()), |trouble| Err(skip(Part::Bpf, trouble))));
}
