//! perf.data files: real ones compared with what `perf script` (6.1) says of them, and small ones made here of every
//! shape of attr and record.

use exitscope_model::{CodeList, Event, EventKind, ExitCode, ExitWord, Ledger, LedgerLine, SubjectWord};
use exitscope_trace::{EventFilter, Input, SourceOptions, TraceError, open, open_input};
use exitscope_units::{PcpuId, Tid, VcpuId, VmId};
use std::collections::BTreeMap;

mod common;

use common::damage::Dice;
use common::{Said, corpus, drain, said};

impl Said {
    fn times(&self) -> Vec<u64> {
        self.events.iter().map(|event| event.at.as_nanos()).collect()
    }
}

/// Compares with lines `     12 kvm:kvm_exit:`, made by `perf script -F event | sort | uniq -c`, after taking
/// `left_out` from ours; and with the first and last time of `perf script -F time --ns`.
fn compare(trace: &str, counts: &str, first_and_last: [u64; 2], left_out: &[(&str, u64)]) -> Said {
    let said = drain(open(&corpus(trace)).unwrap()).unwrap();
    let text = std::fs::read_to_string(corpus(counts)).unwrap();
    let theirs: BTreeMap<&str, u64> = (text.lines())
        .filter_map(|line| line.trim().trim_end_matches(':').split_once(' '))
        .map(|(count, name)| (name, count.parse().unwrap()))
        .collect();
    let mut ours: BTreeMap<&str, u64> = BTreeMap::new();
    for event in &said.events {
        *ours.entry(said.info.names.get(event.name)).or_default() += 1;
    }
    for (name, count) in left_out {
        *ours.get_mut(name).unwrap() -= count;
    }
    assert_eq!(ours, theirs, "{trace}");
    assert_eq!(said.lines(), [], "{trace}");
    assert!(said.events.is_sorted_by_key(|event| event.at), "{trace}");
    let ends = [said.events.first(), said.events.last()].map(|event| event.unwrap().at.as_nanos());
    assert_eq!(ends, first_and_last, "{trace}");
    assert!(said.events.iter().all(|event| event.cpu.0 < 16), "{trace}");
    said
}

#[test]
fn real_x86_traces_are_what_perf_says_they_are() {
    // Samples taken in guest mode (88 PERF_RECORD_MISC_GUEST_KERNEL, 1 GUEST_USER): the interrupt that wakes the thread
    // came before the host's registers were back. `perf script` has no guest machine to hand them to ("unprocessable"),
    // `perf script -D` shows them with misc 0x4 and 0x5.
    let guest_mode = [("sched:sched_wakeup", 89)];
    let traces = [
        ("t2", [30_163_347_420, 40_067_569_956], &guest_mode[..]),
        ("t4-callchain", [72_510_177_001, 74_200_952_261], &[]),
        ("t4-kvmstat", [68_996_185_803, 70_437_293_980], &[]),
        ("t4-pipe", [61_893_513_689, 63_963_702_314], &[]),
        ("t4-zstd", [55_197_917_575, 57_572_662_656], &[]),
    ];
    for (name, ends, left_out) in traces {
        let counts = format!("x86-svm/peers/{name}.data.event-counts.txt");
        let said = compare(&format!("x86-svm/{name}.data.gz"), &counts, ends, left_out);
        let info = &said.info;
        assert_eq!((info.arch.as_str(), info.release.as_str()), ("x86_64", "6.1.0-56-cloud-amd64"), "{name}");
        assert_eq!(info.format, if name == "t4-pipe" { "perf.data (pipe)" } else { "perf.data" });
        assert_eq!(info.clock, if name == "t4-callchain" { "monotonic" } else { "perf" });
        assert!(said.events.iter().all(|event| event.cpu.0 < 2));
    }
}

#[test]
fn real_powerpc_traces_are_what_perf_says_they_are() {
    let traces = [
        ("p8_2core_smt4_gang_exits_rfc", [19_115_746_920, 20_677_561_866]),
        ("p8_smt4_callgraph", [80_218_422_210, 80_523_825_442]),
        ("p8_smt4_cede_all", [39_757_469_242, 41_286_420_982]),
        ("p8_smt4_gang_exits_rfc", [34_441_566_086, 35_987_749_760]),
        ("p8_smt4_one_thread", [18_837_603_772, 19_848_472_614]),
        ("p8_smt4_one_vm_two_threads", [7_432_642_986, 8_447_814_416]),
        ("p8_smt4_two_vms", [27_257_334_740, 28_782_640_224]),
        ("p9_smt2_two_vms", [12_190_376_096, 13_421_222_832]),
    ];
    for (name, ends) in traces {
        let counts = format!("powerpc/{name}.data.event-counts.txt");
        let said = compare(&format!("powerpc/{name}.data.gz"), &counts, ends, &[]);
        assert_eq!(said.info.arch, "ppc64le", "{name}");
    }
}

#[test]
fn payloads_are_what_perf_prints() {
    let find = |trace: &str, at: u64| {
        let said = drain(open(&corpus(trace)).unwrap()).unwrap();
        let event = *said.events.iter().find(|event| event.at.as_nanos() == at).unwrap();
        (event, said.info)
    };
    // perf script -F pid,tid,cpu,time,event,trace --ns
    //  175/181   [000]    68.996185803: kvm:kvm_entry: vcpu 0, rip 0xfff0
    let (entry, info) = find("x86-svm/t4-kvmstat.data.gz", 68_996_185_803);
    assert_eq!((entry.vm, entry.tid, entry.cpu), (VmId(175), Tid(181), PcpuId(0)));
    assert_eq!((entry.vcpu, entry.kind), (VcpuId(0), EventKind::Enter));
    assert_eq!(info.comms[&181], "qemu-system-x86");
    //  187/193   [001]    72.511258511:  kvm:kvm_exit: vcpu 0 reason npf rip 0xfff0 info1 0x0000000100000014 …
    let (npf, _) = find("x86-svm/t4-callchain.data.gz", 72_511_258_511);
    assert_eq!((npf.vm, npf.tid, npf.cpu, npf.vcpu), (VmId(187), Tid(193), PcpuId(1), VcpuId(0)));
    let code = ExitCode::new(CodeList::Svm, 0x400);
    let words = SubjectWord::new(code, |word| (word == ExitWord::Info1).then_some(0x1_0000_0014));
    assert_eq!(npf.kind, EventKind::Exit { code, idle: false, words, rip: 0xfff0 });
    //  151/158   [000]    55.542666782:             kvm:kvm_userspace_exit: reason KVM_EXIT_UNKNOWN (0)
    let (user, _) = find("x86-svm/t4-zstd.data.gz", 55_542_666_782);
    assert_eq!((user.vm, user.tid, user.cpu), (VmId(151), Tid(158), PcpuId(0)));
    assert!(matches!(user.kind, EventKind::UserspaceExit { .. }));
    //  428/431   [000]    80.220486340:       kvm_hv:kvm_guest_enter: VCPU 2: pc=0x2500 pexcp=0x0 ceded=0
    let (enter, _) = find("powerpc/p8_smt4_callgraph.data.gz", 80_220_486_340);
    assert_eq!((enter.vm, enter.tid, enter.vcpu, enter.kind), (VmId(428), Tid(431), VcpuId(2), EventKind::Enter));
}

#[test]
fn what_is_not_asked_for_is_counted_and_nothing_else_is_left_out() {
    let traces = ["x86-svm/t2.data.gz", "x86-svm/t4-pipe.data.gz", "x86-svm/t4-v6.dat.gz", "arm64/arm.dat.gz"];
    for trace in traces {
        let all = drain(open(&corpus(trace)).unwrap()).unwrap();
        {
            let keep = EventFilter::Used;
            let input = Input::open(&corpus(trace)).unwrap();
            let mut source = open_input(input, SourceOptions { keep, ..SourceOptions::default() }).unwrap();
            let (mut events, mut ledger) = (Vec::new(), Ledger::default());
            while source.read(&mut events, &mut ledger).unwrap() {}
            let wanted = |event: &&Event| event.kind != EventKind::Other;
            let expected: Vec<Event> = all.events.iter().filter(wanted).copied().collect();
            assert!(events == expected, "{trace}, {keep:?}: {} events, not {}", events.len(), expected.len());
            let left_out = (all.events.len() - events.len()) as u64;
            assert_eq!(
                (ledger.events, ledger.get(LedgerLine::OtherTracepoint)),
                (all.ledger.events, left_out),
                "{trace}"
            );
        }
    }
}

#[test]
fn a_spooled_trace_is_the_same_trace() {
    for trace in ["x86-svm/t4-zstd.data.gz", "x86-svm/t4-kvmstat.data.gz", "powerpc/p8_smt4_cede_all.data.gz"] {
        let file = Input::open(&corpus(trace)).unwrap().read_vec(0, u64::MAX).unwrap();
        let (spooled, opened) = (said(&file).unwrap(), drain(open(&corpus(trace)).unwrap()).unwrap());
        assert_eq!(spooled.events, opened.events);
        assert_eq!(spooled.ledger, opened.ledger);
    }
}

// ---------------------------------------------------------------------------------------------------------------------
// Traces made here.

/// How numbers are written.
#[derive(Clone, Copy)]
struct Machine {
    big: bool,
}

const HOST: Machine = Machine { big: false };
const MACHINES: [Machine; 2] = [HOST, Machine { big: true }];

// perf_event_sample_format.
const IP: u64 = 1 << 0;
const TID: u64 = 1 << 1;
const TIME: u64 = 1 << 2;
const ADDR: u64 = 1 << 3;
const READ: u64 = 1 << 4;
const CALLCHAIN: u64 = 1 << 5;
const ID: u64 = 1 << 6;
const CPU: u64 = 1 << 7;
const PERIOD: u64 = 1 << 8;
const STREAM_ID: u64 = 1 << 9;
const RAW: u64 = 1 << 10;
const IDENTIFIER: u64 = 1 << 16;
/// What `perf record -a -e kvm:…` chooses.
const USUAL: u64 = IDENTIFIER | IP | TID | TIME | CPU | PERIOD | RAW;

// perf_event_read_format.
const ENABLED: u64 = 1 << 0;
const RUNNING: u64 = 1 << 1;
const READ_ID: u64 = 1 << 2;
const GROUP: u64 = 1 << 3;
const READ_LOST: u64 = 1 << 4;

// Features.
const TRACING_DATA: u32 = 1;
const HOSTNAME: u32 = 3;
const ARCH: u32 = 6;
const COMPRESSED: u32 = 27;

const COMMON: &str = "format:\n\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n\tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;\n\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n";
const KVM_ENTRY: u16 = 7;
const KVM_FPU: u16 = 8;

/// `perf_event_attr`.
#[derive(Clone, Copy)]
struct Attr {
    kind: u32,
    config: u64,
    sample_type: u64,
    read_format: u64,
    sample_id_all: bool,
    clock: Option<u32>,
}

const TRACEPOINT: Attr =
    Attr { kind: 2, config: 7, sample_type: USUAL, read_format: READ_ID, sample_id_all: true, clock: None };

/// What a sample holds; those fields are written that the attr asks for.
#[derive(Clone, Copy)]
struct Sample<'a> {
    id: u64,
    pid: u32,
    tid: u32,
    time: u64,
    cpu: u32,
    read: &'a [u64],
    chain: &'a [u64],
    raw: &'a [u8],
}

impl Machine {
    fn u16(self, value: u16) -> Vec<u8> {
        if self.big { value.to_be_bytes().to_vec() } else { value.to_le_bytes().to_vec() }
    }

    fn u32(self, value: u32) -> Vec<u8> {
        if self.big { value.to_be_bytes().to_vec() } else { value.to_le_bytes().to_vec() }
    }

    fn u64(self, value: u64) -> Vec<u8> {
        if self.big { value.to_be_bytes().to_vec() } else { value.to_le_bytes().to_vec() }
    }

    fn u64s(self, values: &[u64]) -> Vec<u8> {
        values.iter().flat_map(|&value| self.u64(value)).collect()
    }

    fn attr(self, attr: Attr) -> Vec<u8> {
        // The flags are bit-fields, which a big-endian compiler lays out from the top.
        let bit = |bit: u32, on: bool| u64::from(on) << if self.big { 63 - bit } else { bit };
        let flags = bit(0, true) | bit(18, attr.sample_id_all) | bit(25, attr.clock.is_some());
        let mut bytes = [
            self.u32(attr.kind),
            self.u32(128),
            self.u64s(&[attr.config, 1, attr.sample_type, attr.read_format, flags]),
        ]
        .concat();
        bytes.resize(92, 0);
        bytes.extend(self.u32(attr.clock.unwrap_or(0)));
        bytes.resize(128, 0);
        bytes
    }

    fn record(self, kind: u32, misc: u16, body: &[u8]) -> Vec<u8> {
        [self.u32(kind), self.u16(misc), self.u16(8 + body.len() as u16), body.to_vec()].concat()
    }

    /// In the order of `perf_event_output`, which is not that of the bits.
    fn sample(self, attr: Attr, sample: Sample) -> Vec<u8> {
        let mut body = Vec::new();
        let mut field = |bit: u64, bytes: Vec<u8>| {
            if attr.sample_type & bit != 0 {
                body.extend(bytes);
            }
        };
        field(IDENTIFIER, self.u64(sample.id));
        field(IP, self.u64(0xffff_ffff_8100_0000));
        field(TID, [self.u32(sample.pid), self.u32(sample.tid)].concat());
        field(TIME, self.u64(sample.time));
        field(ADDR, self.u64(0xadd));
        field(ID, self.u64(sample.id));
        field(STREAM_ID, self.u64(0x57));
        field(CPU, [self.u32(sample.cpu), self.u32(0)].concat());
        field(PERIOD, self.u64(1));
        field(READ, self.u64s(sample.read));
        field(CALLCHAIN, [self.u64(sample.chain.len() as u64), self.u64s(sample.chain)].concat());
        // Size and bytes together are a multiple of 8.
        let size = (4 + sample.raw.len()).next_multiple_of(8) - 4;
        let mut raw = [self.u32(size as u32), sample.raw.to_vec()].concat();
        raw.resize(4 + size, 0);
        field(RAW, raw);
        self.record(9, 1, &body)
    }

    /// What ends records that are no samples.
    fn trailer(self, attr: Attr, time: u64, cpu: u32, id: u64) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut field = |bit: u64, part: Vec<u8>| {
            if attr.sample_id_all && attr.sample_type & bit != 0 {
                bytes.extend(part);
            }
        };
        field(TID, [self.u32(100), self.u32(100)].concat());
        field(TIME, self.u64(time));
        field(ID, self.u64(id));
        field(STREAM_ID, self.u64(0x57));
        field(CPU, [self.u32(cpu), self.u32(0)].concat());
        field(IDENTIFIER, self.u64(id));
        bytes
    }

    fn comm(self, tid: u32, name: &[u8], trailer: &[u8]) -> Vec<u8> {
        let mut padded = name.to_vec();
        padded.resize((name.len() + 1).next_multiple_of(8), 0);
        self.record(3, 0, &[&self.u32(40)[..], &self.u32(tid), &padded, trailer].concat())
    }

    fn fork(self, child: u32, parent: u32, trailer: &[u8]) -> Vec<u8> {
        let ids = [self.u32(40), self.u32(40), self.u32(child), self.u32(parent), self.u64(5)].concat();
        self.record(7, 0, &[&ids[..], trailer].concat())
    }

    fn lost(self, count: u64, trailer: &[u8]) -> Vec<u8> {
        self.record(2, 0, &[&self.u64s(&[1, count])[..], trailer].concat())
    }

    fn lost_samples(self, misc: u16, count: u64, trailer: &[u8]) -> Vec<u8> {
        self.record(13, misc, &[&self.u64(count)[..], trailer].concat())
    }

    fn round(self) -> Vec<u8> {
        self.record(68, 0, &[])
    }

    /// `kvm_entry` of `vcpu`.
    fn entry(self, vcpu: u32) -> Vec<u8> {
        [self.u16(KVM_ENTRY), vec![0, 0], self.u32(42), self.u32(vcpu)].concat()
    }

    /// `kvm_fpu`.
    fn fpu(self, load: bool) -> Vec<u8> {
        [self.u16(KVM_FPU), vec![0, 0], self.u32(42), self.u32(u32::from(load))].concat()
    }

    /// A sample as perf usually has it.
    fn usual(self, time: u64, cpu: u32) -> Vec<u8> {
        self.of(TRACEPOINT, time, cpu)
    }

    fn of(self, attr: Attr, time: u64, cpu: u32) -> Vec<u8> {
        let raw = self.entry(3);
        self.sample(attr, Sample { id: 1, pid: 40, tid: 42, time, cpu, read: &[], chain: &[], raw: &raw })
    }

    fn tracing_data(self) -> Vec<u8> {
        let format = |name: &str, id: u16, field: &str| {
            let text = format!(
                "name: {name}\nID: {id}\n{COMMON}\tfield:unsigned int {field};\toffset:8;\tsize:4;\tsigned:0;\n\nprint fmt: \"%u\", REC->{field}\n"
            );
            [self.u64(text.len() as u64), text.into_bytes()].concat()
        };
        let cmdlines = "42 qemu vcpu 0\n";
        [
            b"\x17\x08\x44tracing0.6\0".to_vec(),
            vec![u8::from(self.big), 8],
            self.u32(4096),
            [b"header_page\0", &self.u64(0)[..], b"header_event\0", &self.u64(0)].concat(),
            self.u32(0),
            [&self.u32(1)[..], b"kvm\0", &self.u32(2)].concat(),
            format("kvm_entry", KVM_ENTRY, "vcpu_id"),
            format("kvm_fpu", KVM_FPU, "load"),
            self.u32(0),
            self.u32(0),
            self.u64(cmdlines.len() as u64),
            cmdlines.as_bytes().to_vec(),
        ]
        .concat()
    }

    /// A string feature.
    fn string(self, text: &str) -> Vec<u8> {
        let mut padded = text.as_bytes().to_vec();
        padded.resize(64, 0);
        [self.u32(64), padded].concat()
    }

    fn features(self) -> Vec<(u32, Vec<u8>)> {
        vec![(TRACING_DATA, self.tracing_data()), (HOSTNAME, self.string("lab")), (ARCH, self.string("s390x"))]
    }

    /// COMPRESSED (81), or COMPRESSED2 (83), which is padded.
    fn compressed(self, kind: u32, packed: &[u8]) -> Vec<u8> {
        if kind == 81 {
            return self.record(81, 0, packed);
        }
        let mut body = [&self.u64(packed.len() as u64)[..], packed].concat();
        body.resize(body.len().next_multiple_of(8), 0);
        self.record(83, 0, &body)
    }
}

/// A trace to be written down.
struct Trace<'a> {
    machine: Machine,
    attrs: &'a [(Attr, &'a [u64])],
    records: &'a [Vec<u8>],
    features: Vec<(u32, Vec<u8>)>,
}

const HEADER: usize = 104;
const ATTR: usize = 128 + 16;

/// A trace with one event.
fn one(machine: Machine, attr: Attr, records: &[Vec<u8>]) -> Vec<u8> {
    Trace { machine, attrs: &[(attr, &[1])], records, features: machine.features() }.file()
}

impl Trace<'_> {
    fn file(&self) -> Vec<u8> {
        self.file_with_words(8)
    }

    /// As a file, the feature bits in words of this size.
    fn file_with_words(&self, word: usize) -> Vec<u8> {
        let m = self.machine;
        let ids: usize = self.attrs.iter().map(|(_, ids)| ids.len() * 8).sum();
        let (attrs_at, attrs_size) = (HEADER + ids, self.attrs.len() * ATTR);
        let data = self.records.concat();
        let magic = if m.big { b"2ELIFREP" } else { b"PERFILE2" };
        let place = [HEADER as u64, ATTR as u64, attrs_at as u64, attrs_size as u64];
        let data_place = [(attrs_at + attrs_size) as u64, data.len() as u64, 0, 0];
        let mut file = [magic.to_vec(), m.u64s(&place), m.u64s(&data_place)].concat();
        let mut bits = [0u8; 32];
        for (feature, _) in &self.features {
            let (at, bit) = (*feature as usize / 8, feature % 8);
            let at = if m.big { at / word * word + word - 1 - at % word } else { at };
            bits[at] |= 1 << bit;
        }
        file.extend(bits);
        assert_eq!(file.len(), HEADER);
        self.attrs.iter().for_each(|(_, ids)| file.extend(m.u64s(ids)));
        let mut ids_at = HEADER;
        for (attr, ids) in self.attrs {
            file.extend(m.attr(*attr));
            file.extend(m.u64s(&[ids_at as u64, ids.len() as u64 * 8]));
            ids_at += ids.len() * 8;
        }
        file.extend(data);
        let mut at = (file.len() + self.features.len() * 16) as u64;
        for (_, section) in &self.features {
            file.extend(m.u64s(&[at, section.len() as u64]));
            at += section.len() as u64;
        }
        self.features.iter().for_each(|(_, section)| file.extend(section));
        file
    }

    /// As a pipe: its pieces, each of which makes sense without what follows.
    fn pieces(&self) -> Vec<Vec<u8>> {
        let m = self.machine;
        let magic = if m.big { b"2ELIFREP" } else { b"PERFILE2" };
        let mut pieces = vec![[magic.to_vec(), m.u64(16)].concat()];
        for (attr, ids) in self.attrs {
            pieces.push(m.record(64, 0, &[m.attr(*attr), m.u64s(ids)].concat()));
        }
        for (feature, section) in &self.features {
            if *feature == TRACING_DATA {
                let mut data = section.clone();
                data.resize(data.len().next_multiple_of(8), 0);
                pieces.push([m.record(66, 0, &m.u32(section.len() as u32)), data].concat());
            } else {
                pieces.push(m.record(80, 0, &[&m.u64(u64::from(*feature))[..], section].concat()));
            }
        }
        pieces.extend(self.records.iter().cloned());
        pieces
    }

    fn pipe(&self) -> Vec<u8> {
        self.pieces().concat()
    }
}

/// Moments of the events that are there, and nothing to complain of.
#[track_caller]
fn assert_clean(file: &[u8], times: &[u64]) -> Said {
    let said = said(file).unwrap();
    assert_eq!(said.lines(), []);
    assert_eq!(said.times(), times);
    said
}

#[test]
fn either_byte_order_file_or_pipe() {
    for m in MACHINES {
        let attr = Attr { clock: Some(1), ..TRACEPOINT };
        let records = [m.usual(1_000, 2), m.usual(2_000, 5)];
        let trace = Trace { machine: m, attrs: &[(attr, &[1])], records: &records, features: m.features() };
        for (file, format) in [(trace.file(), "perf.data"), (trace.pipe(), "perf.data (pipe)")] {
            let said = assert_clean(&file, &[1_000, 2_000]);
            assert_eq!(said.told(), [(1_000, 2, EventKind::Enter), (2_000, 5, EventKind::Enter)]);
            let event = said.events[0];
            assert_eq!((event.vm, event.tid, event.vcpu), (VmId(40), Tid(42), VcpuId(3)));
            let info = &said.info;
            assert_eq!(info.names.get(event.name), "kvm:kvm_entry");
            assert_eq!((info.format.as_str(), info.clock.as_str()), (format, "monotonic"));
            assert_eq!((info.hostname.as_str(), info.arch.as_str()), ("lab", "s390x"));
            assert_eq!(info.comms[&42], "qemu vcpu 0");
        }
        // A 32-bit host writes the feature bits in words of 4 bytes.
        assert_clean(&trace.file_with_words(4), &[1_000, 2_000]);
    }
}

#[test]
fn samples_are_told_apart_by_their_ids() {
    let plain = |sample_type| Attr { sample_type, ..TRACEPOINT };
    let hardware = |sample_type| Attr { kind: 0, config: 0, ..plain(sample_type) };
    for (one, other) in [
        // IDENTIFIER stands first whatever else there is.
        (plain(USUAL), hardware(IDENTIFIER | IP | TID | TIME | PERIOD)),
        (plain(USUAL), plain(USUAL | ADDR | CALLCHAIN)),
        // ID behind the same fields.
        (plain(IP | TID | TIME | ID | CPU | RAW), hardware(IP | TID | TIME | ID)),
        (plain(IP | TID | TIME | ID | CPU | RAW), plain(IP | TID | TIME | ID | STREAM_ID | CPU | PERIOD | RAW)),
    ] {
        for m in MACHINES {
            let (raw, fpu) = (m.entry(3), m.fpu(true));
            let sample = Sample { id: 11, pid: 40, tid: 42, time: 100, cpu: 1, read: &[], chain: &[], raw: &raw };
            let second = Sample { id: 22, time: 200, raw: &fpu, chain: &[1, 2], ..sample };
            let records = [m.sample(one, sample), m.sample(other, second), m.sample(one, Sample { id: 12, ..sample })];
            let attrs: [(Attr, &[u64]); 2] = [(one, &[11, 12]), (other, &[21, 22])];
            let trace = Trace { machine: m, attrs: &attrs, records: &records, features: m.features() };
            for file in [trace.file(), trace.pipe()] {
                let said = said(&file).unwrap();
                let counted = other.kind == 0;
                let kind = if counted { EventKind::Other } else { EventKind::Fpu { load: true } };
                let cpu = if other.sample_type & CPU == 0 { u32::MAX } else { 1 };
                assert_eq!(said.told(), [(100, 1, EventKind::Enter), (100, 1, EventKind::Enter), (200, cpu, kind)]);
                assert_eq!(said.lines(), if counted { vec![(LedgerLine::NotTracepoint, 1)] } else { vec![] });
                assert!(said.events.iter().all(|event| event.tid == Tid(42)));
            }
            // An id that no attr has.
            let records = [m.sample(one, sample), m.sample(one, Sample { id: 99, ..sample })];
            let strange = said(&Trace { records: &records, ..trace }.file()).unwrap();
            assert_eq!(strange.lines(), [(LedgerLine::BadRecord, 1)]);
            assert_eq!(strange.told()[1].2, EventKind::Other);
        }
    }
}

#[test]
fn an_attr_without_samples_does_not_matter() {
    let dummy = Attr { kind: 1, config: 9, sample_type: IDENTIFIER | IP | TID | TIME | CPU, ..TRACEPOINT };
    let records = [HOST.usual(100, 1)];
    // Ids are not needed then.
    let attrs: [(Attr, &[u64]); 2] = [(dummy, &[]), (TRACEPOINT, &[])];
    assert_clean(&Trace { machine: HOST, attrs: &attrs, records: &records, features: HOST.features() }.file(), &[100]);
}

#[test]
fn counter_values_and_call_chains_stand_before_the_raw_record() {
    let cases: [(u64, &[u64]); 6] = [
        (0, &[77]),
        (READ_ID | READ_LOST, &[77, 1, 0]),
        (ENABLED | RUNNING | READ_ID, &[77, 5, 5, 1]),
        (GROUP, &[3, 77, 78, 79]),
        (GROUP | READ_ID | READ_LOST, &[2, 77, 1, 0, 78, 2, 0]),
        (GROUP | ENABLED | RUNNING | READ_ID, &[2, 5, 5, 77, 1, 78, 2]),
    ];
    for m in MACHINES {
        for (read_format, read) in cases {
            for (fields, chain) in [(READ, &[][..]), (READ | CALLCHAIN, &[]), (READ | CALLCHAIN, &[1, 2, 3])] {
                let attr = Attr { sample_type: USUAL | fields, read_format, ..TRACEPOINT };
                let raw = m.fpu(true);
                let sample = Sample { id: 1, pid: 40, tid: 42, time: 100, cpu: 1, read, chain, raw: &raw };
                let said = assert_clean(&one(m, attr, &[m.sample(attr, sample)]), &[100]);
                assert_eq!(said.events[0].kind, EventKind::Fpu { load: true });
            }
        }
        // Counts that no record can hold.
        for absurd in [u64::MAX, u64::MAX / 8, 1 << 61, 9_000] {
            for sample_type in [USUAL | CALLCHAIN, USUAL | READ] {
                let attr = Attr { sample_type, read_format: GROUP, ..TRACEPOINT };
                let mut sample = m.usual(100, 1);
                let at = 8 + 6 * 8;
                sample.splice(at..at, m.u64(absurd));
                let size = m.u16(sample.len() as u16);
                sample[6..8].copy_from_slice(&size);
                let said = said(&one(m, attr, &[sample])).unwrap();
                assert_eq!((said.lines(), said.events.len()), (vec![(LedgerLine::BadRecord, 1)], 1));
            }
        }
    }
}

#[test]
fn samples_without_time_cpu_or_payload() {
    let no_time = Attr { sample_type: TID | CPU | RAW, ..TRACEPOINT };
    assert_clean(&one(HOST, no_time, &[HOST.of(no_time, 5, 1), HOST.of(no_time, 4, 2)]), &[0, 0]);
    // The thread is known from the payload.
    let bare = Attr { sample_type: TIME | RAW, ..TRACEPOINT };
    let said_bare = assert_clean(&one(HOST, bare, &[HOST.of(bare, 5, 1)]), &[5]);
    let event = said_bare.events[0];
    assert_eq!((event.tid, event.vm, event.cpu), (Tid(42), VmId::UNKNOWN, PcpuId(u32::MAX)));
    let no_raw = Attr { sample_type: USUAL & !RAW, ..TRACEPOINT };
    let said_no_raw = said(&one(HOST, no_raw, &[HOST.of(no_raw, 5, 1)])).unwrap();
    assert_eq!(
        (said_no_raw.told(), said_no_raw.lines()),
        (vec![(5, 1, EventKind::Other)], vec![(LedgerLine::BadRecord, 1)])
    );
}

#[test]
fn events_without_a_format_are_counted() {
    let records = [HOST.usual(100, 1), HOST.usual(200, 1)];
    let trace = Trace { machine: HOST, attrs: &[(TRACEPOINT, &[1])], records: &records, features: vec![] };
    for file in [trace.file(), trace.pipe()] {
        let said = said(&file).unwrap();
        assert_eq!(said.lines(), [(LedgerLine::UnknownFormat, 2)]);
        assert_eq!(said.told(), [(100, 1, EventKind::Other), (200, 1, EventKind::Other)]);
    }
}

#[test]
fn losses_are_told_at_their_moment_and_cpu() {
    for m in MACHINES {
        let by_id = Attr { sample_type: TIME | ID | CPU | TID | RAW, ..TRACEPOINT };
        for attr in [TRACEPOINT, by_id] {
            let records = [
                m.of(attr, 100, 0),
                m.of(attr, 300, 0),
                m.round(),
                m.lost(7, &m.trailer(attr, 250, 1, 1)),
                m.of(attr, 260, 1),
                m.lost_samples(0, 2, &m.trailer(attr, 270, 1, 1)),
                m.lost(0, &m.trailer(attr, 280, 1, 1)),
            ];
            let said = said(&one(m, attr, &records)).unwrap();
            let lost = |count| EventKind::Lost { count };
            let expected =
                [(100, 0, EventKind::Enter), (250, 1, lost(7)), (260, 1, EventKind::Enter), (270, 1, lost(2))];
            assert_eq!(said.told()[..4], expected);
            assert_eq!(said.told()[4..], [(280, 1, lost(0)), (300, 0, EventKind::Enter)]);
            assert_eq!(said.lines(), [(LedgerLine::LostRecords, 10)]);
        }
    }
    // Without sample_id_all: the latest moment so far, no CPU. Records too short for their count.
    let attr = Attr { sample_id_all: false, ..TRACEPOINT };
    let records = [HOST.usual(100, 0), HOST.lost(7, &[]), HOST.record(2, 0, &[0; 8]), HOST.record(13, 0, &[])];
    let bare = said(&one(HOST, attr, &records)).unwrap();
    assert_eq!(bare.told(), [(100, 0, EventKind::Enter), (100, u32::MAX, EventKind::Lost { count: 7 })]);
    assert_eq!(bare.lines(), [(LedgerLine::LostRecords, 7), (LedgerLine::BadRecord, 2)]);
}

#[test]
fn a_loss_is_of_the_event_that_its_identifier_names() {
    let (first, second) = (TRACEPOINT, Attr { sample_type: USUAL | STREAM_ID, ..TRACEPOINT });
    let attrs: [(Attr, &[u64]); 2] = [(first, &[1]), (second, &[2])];
    let records = [HOST.lost(7, &HOST.trailer(second, 250, 5, 2)), HOST.lost(8, &HOST.trailer(first, 260, 6, 1))];
    let file = Trace { machine: HOST, attrs: &attrs, records: &records, features: vec![] }.file();
    assert_eq!(
        said(&file).unwrap().told(),
        [(250, 5, EventKind::Lost { count: 7 }), (260, 6, EventKind::Lost { count: 8 })]
    );
}

#[test]
fn losses_that_perf_sums_up_at_the_end_count_once() {
    // Since 6.0 perf reads every event's counter of lost samples when it ends, and writes a LOST_SAMPLES of time 0.
    let total = |count| HOST.lost_samples(0, count, &HOST.trailer(TRACEPOINT, 0, 0, 1));
    let told = HOST.lost(7, &HOST.trailer(TRACEPOINT, 250, 1, 1));
    let filtered = HOST.lost_samples(1 << 15, 1_000, &HOST.trailer(TRACEPOINT, 0, 0, 1));
    let records = [HOST.usual(100, 0), told, HOST.usual(300, 0), total(5), total(2), filtered];
    let same = said(&one(HOST, TRACEPOINT, &records)).unwrap();
    assert_eq!((same.lines(), same.events.len()), (vec![(LedgerLine::LostRecords, 7)], 3));
    // Losses after which no record found room.
    let more = said(&one(HOST, TRACEPOINT, &[&records[..], &[total(4)]].concat())).unwrap();
    assert_eq!(more.lines(), [(LedgerLine::LostRecords, 11)]);
    assert_eq!(more.told().last(), Some(&(300, u32::MAX, EventKind::Lost { count: 4 })));
}

#[test]
fn threads_have_the_names_that_they_had_last() {
    for m in MACHINES {
        let at = |time| m.trailer(TRACEPOINT, time, 0, 1);
        let records = [
            // As perf makes them up for what runs already: of time zero, in order.
            m.fork(50, 40, &at(0)),
            m.comm(40, b"qemu", &at(0)),
            m.fork(51, 40, &at(0)),
            m.comm(52, b"old", &at(0)),
            // CPU 0's buffer is written before CPU 1's, whatever was first.
            m.comm(53, b"CPU 0/KVM", &at(200)),
            m.fork(53, 40, &at(100)),
            m.fork(52, 40, &at(300)),
            m.comm(54, b"\xffodd", &at(400)),
        ];
        let said = assert_clean(&one(m, TRACEPOINT, &records), &[]);
        let name = |tid: u32| said.info.comms.get(&tid).map(String::as_str);
        assert_eq!([40, 50, 51].map(name), [Some("qemu"), None, Some("qemu")]);
        assert_eq!([52, 53, 54].map(name), [Some("qemu"), Some("CPU 0/KVM"), Some("\u{fffd}odd")]);
    }
}

#[test]
fn rounds_put_cpus_in_order() {
    let m = HOST;
    let records = [
        [m.usual(100, 0), m.usual(400, 0)].concat(),
        [m.usual(50, 1), m.usual(300, 1)].concat(),
        m.round(),
        [m.usual(500, 0), m.usual(900, 0)].concat(),
        [m.usual(350, 1), m.usual(800, 1)].concat(),
        m.round(),
        [m.usual(1_000, 0), m.usual(850, 1)].concat(),
        m.round(),
    ];
    let sorted = [50, 100, 300, 350, 400, 500, 800, 850, 900, 1_000];
    let said = assert_clean(&one(m, TRACEPOINT, &records), &sorted);
    assert_eq!(said.events[3].cpu, PcpuId(1));
    // Times that cannot be do not end the reading.
    let absurd = [m.usual(u64::MAX, 0), m.round(), m.round(), m.round()].concat();
    let mut file_records = vec![absurd];
    file_records.resize_with(40_000, || [m.usual(100, 0), m.round()].concat());
    let all = said_events(&one(m, TRACEPOINT, &file_records));
    assert_eq!(all, 40_000);
}

fn said_events(file: &[u8]) -> u64 {
    said(file).unwrap().ledger.events
}

#[test]
fn records_that_hold_no_event_are_passed_over() {
    let m = HOST;
    let auxtrace = |trailing: u64| m.record(71, 0, &[m.u64(trailing), vec![0; 32]].concat());
    // Data of a hardware tracer that look like a record.
    let data = [m.usual(150, 9), vec![0xff; 1_000]].concat();
    let records = [
        m.usual(100, 0),
        [auxtrace(data.len() as u64), data.clone()].concat(),
        m.usual(200, 0),
        m.record(10, 0, &[0; 64]),
        m.record(82, 0, &[]),
        m.record(300, 0, &[1; 16]),
        m.record(23, 0, &[1; 3]),
        m.usual(300, 0),
    ];
    let trace = Trace { machine: m, attrs: &[(TRACEPOINT, &[1])], records: &records, features: m.features() };
    for file in [trace.file(), trace.pipe()] {
        let said = said(&file).unwrap();
        assert_eq!((said.times(), said.lines()), (vec![100, 200, 300], vec![(LedgerLine::UnknownRecord, 2)]));
        let at = file.windows(4).position(|window| window == m.u32(300)).unwrap() as u64;
        assert_eq!(said.ledger.first(LedgerLine::UnknownRecord), Some(at));
    }
    // Longer than the file.
    let cut = said(&one(m, TRACEPOINT, &[m.usual(100, 0), auxtrace(1 << 40)])).unwrap();
    assert_eq!((cut.times(), cut.lines()), (vec![100], vec![(LedgerLine::TruncatedBytes, 1 << 40)]));
    // Records of a pipe where none belong.
    let misplaced = said(&one(m, TRACEPOINT, &[m.record(64, 0, &m.attr(TRACEPOINT)), m.usual(100, 0)])).unwrap();
    assert_eq!((misplaced.times(), misplaced.lines()), (vec![100], vec![(LedgerLine::UnknownRecord, 1)]));
}

#[test]
fn records_go_on_behind_a_damaged_one() {
    let m = HOST;
    for size in [0u16, 5, 13] {
        for behind in 1..=6 {
            let mut bad = m.usual(150, 0);
            bad[6..8].copy_from_slice(&m.u16(size));
            let mut records = vec![m.usual(100, 0), bad];
            records.extend((0..behind).map(|n| m.usual(200 + n, 0)));
            let trace = Trace { machine: m, attrs: &[(TRACEPOINT, &[1])], records: &records, features: m.features() };
            for file in [trace.file(), trace.pipe()] {
                let said = said(&file).unwrap();
                let times: Vec<u64> = [100, 100].into_iter().chain((0..behind).map(|n| 200 + n)).collect();
                assert_eq!((said.times(), said.lines()), (times, vec![(LedgerLine::BadRecord, 1)]), "{size} {behind}");
                // A hole, across which nothing is timed.
                assert_eq!(said.told()[1], (100, u32::MAX, EventKind::Lost { count: 0 }));
                let at = file.windows(8).position(|window| window[..8] == records[1][..8]).unwrap() as u64;
                assert_eq!(said.ledger.first(LedgerLine::BadRecord), Some(at));
            }
        }
    }
}

/// `parts` through one zstd stream, flushed after each.
fn zstd(parts: &[&[u8]]) -> Vec<Vec<u8>> {
    use std::io::Write;
    let mut encoder = zstd::stream::write::Encoder::new(Vec::new(), 1).unwrap();
    let packed = parts.iter().map(|part| {
        encoder.write_all(part).unwrap();
        encoder.flush().unwrap();
        std::mem::take(encoder.get_mut())
    });
    packed.collect()
}

fn compressed_feature(m: Machine) -> Vec<(u32, Vec<u8>)> {
    let mut features = m.features();
    features.push((COMPRESSED, [m.u32(1), m.u32(1), m.u32(1), m.u32(2), m.u32(1 << 19)].concat()));
    features
}

#[test]
fn compressed_records_may_be_cut_anywhere() {
    for m in MACHINES {
        let plain = [m.usual(100, 0), m.usual(200, 0), m.round(), m.usual(150, 1)].concat();
        for kind in [81, 83] {
            for cut in 1..plain.len() {
                let packed = zstd(&[&plain[..cut], &plain[cut..]]);
                let records: Vec<_> = packed.iter().map(|packed| m.compressed(kind, packed)).collect();
                let records = [records, vec![m.usual(300, 0)]].concat();
                let features = compressed_feature(m);
                let trace = Trace { machine: m, attrs: &[(TRACEPOINT, &[1])], records: &records, features };
                assert_clean(&trace.file(), &[100, 150, 200, 300]);
                assert_clean(&trace.pipe(), &[100, 150, 200, 300]);
            }
        }
    }
    // A little that unpacks to much.
    let many: Vec<u8> = (0..40_000).flat_map(|n| HOST.usual(n, 0)).collect();
    let packed = zstd(&[&many])[0].clone();
    let records: Vec<_> = packed.chunks(60_000).map(|chunk| HOST.compressed(81, chunk)).collect();
    let features = compressed_feature(HOST);
    let trace = Trace { machine: HOST, attrs: &[(TRACEPOINT, &[1])], records: &records, features };
    assert_clean(&trace.file(), &(0..40_000).collect::<Vec<_>>());
}

#[test]
fn a_damaged_compressed_stream_costs_what_it_held() {
    let m = HOST;
    let parts: Vec<Vec<u8>> = (1..=6).map(|n| m.usual(n * 100, 0)).collect();
    let frames: Vec<Vec<u8>> =
        parts.chunks(3).flat_map(|frame| zstd(&frame.iter().map(|part| &part[..]).collect::<Vec<_>>())).collect();
    let mut records: Vec<_> = frames.iter().map(|packed| m.compressed(81, packed)).collect();
    records[1][8..].fill(0xff);
    let features = compressed_feature(m);
    let trace = Trace { machine: m, attrs: &[(TRACEPOINT, &[1])], records: &records, features };
    let said_damaged = said(&trace.file()).unwrap();
    // The second is damaged, the third cannot be read without it, with the fourth a new frame begins.
    assert_eq!(said_damaged.lines(), [(LedgerLine::BadCompression, 2)]);
    assert_eq!(said_damaged.times(), [100, 100, 100, 400, 500, 600]);
    assert_eq!(said_damaged.told()[1], (100, u32::MAX, EventKind::Lost { count: 0 }));
    // A record that is damaged inside.
    let mut bad = m.usual(150, 0);
    bad[6..8].fill(0);
    let plain = [m.usual(100, 0), bad, (2..20).flat_map(|n| m.usual(n * 100, 0)).collect()].concat();
    for cut in (1..plain.len()).step_by(40) {
        let packed = zstd(&[&plain[..cut], &plain[cut..]]);
        let records: Vec<_> = packed.iter().map(|packed| m.compressed(81, packed)).collect();
        let features = compressed_feature(m);
        let trace = Trace { machine: m, attrs: &[(TRACEPOINT, &[1])], records: &records, features };
        let said = said(&trace.file()).unwrap();
        assert_eq!(said.lines(), [(LedgerLine::BadRecord, 1)], "{cut}");
        assert_eq!(said.times()[..2], [100, 100]);
        assert_eq!(said.times()[2..], (2..20).map(|n| n * 100).collect::<Vec<_>>(), "{cut}");
    }
    // The stream is cut within a record.
    let packed = zstd(&[&parts.concat()[..100]])[0].clone();
    let records = [m.compressed(81, &packed)];
    let features = compressed_feature(m);
    let said_cut = said(&Trace { machine: m, attrs: &[(TRACEPOINT, &[1])], records: &records, features }.file());
    let rest = 100 - parts[0].len() as u64;
    assert_eq!(said_cut.unwrap().ledger.get(LedgerLine::TruncatedBytes), rest);
}

#[test]
fn an_unfinished_or_cut_file_says_so() {
    let m = HOST;
    let records = [m.usual(100, 0), m.usual(200, 0)];
    let file = one(m, TRACEPOINT, &records);
    let data = HEADER + 8 + ATTR;
    let end = data + records.concat().len();
    // The recorder was killed: no size, no features.
    let mut unfinished = file[..end].to_vec();
    unfinished[48..56].fill(0);
    let said_unfinished = said(&unfinished).unwrap();
    assert_eq!(said_unfinished.times(), [100, 200]);
    assert_eq!(said_unfinished.lines(), [(LedgerLine::UnfinishedFile, 1), (LedgerLine::UnknownFormat, 2)]);
    // So was one that compressed; nothing in the header says so.
    let packed = zstd(&[&records.concat()])[0].clone();
    let mut killed = one(m, TRACEPOINT, &[m.compressed(81, &packed)]);
    killed.truncate(data + 8 + packed.len());
    killed[48..56].fill(0);
    assert_eq!(said(&killed).unwrap().times(), [100, 200]);
    // Cut in the data.
    let in_data = said(&file[..end - 10]).unwrap();
    let partial = records[0].len() as u64 - 10;
    let expected = vec![(LedgerLine::UnknownFormat, 1), (LedgerLine::TruncatedBytes, partial + 10)];
    assert_eq!((in_data.times(), in_data.lines()), (vec![100], expected));
    // Cut behind the data, in the list of features and in the formats.
    for cut in [end, end + 5, end + 16, end + 48, end + 60, end + 200] {
        let said = said(&file[..cut]).unwrap();
        assert_eq!(said.ledger.events, 2);
        assert!(said.ledger.get(LedgerLine::TruncatedBytes) > 0, "{cut}");
        assert_eq!(said.ledger.first(LedgerLine::TruncatedBytes), Some(cut as u64));
        assert!(said.ledger.get(LedgerLine::UnknownFormat) + said.ledger.get(LedgerLine::BadRecord) > 0, "{cut}");
    }
}

// ---------------------------------------------------------------------------------------------------------------------
// Damage.

/// Records of every kind.
fn all_records(m: Machine) -> Vec<Vec<u8>> {
    let at = |time| m.trailer(TRACEPOINT, time, 1, 1);
    let mut records = vec![m.comm(40, b"qemu", &at(0)), m.fork(42, 40, &at(0))];
    for n in 1..8 {
        records.extend([m.usual(n * 100, 0), m.usual(n * 100 + 50, 0), m.usual(n * 100 - 20, 1)]);
        records.push([m.record(71, 0, &[m.u64(24), vec![0; 32]].concat()), vec![0x55; 24]].concat());
        records.extend([m.lost(2, &at(n * 100 + 1)), m.record(10, 0, &[0; 40]), m.round()]);
    }
    records
}

/// One small trace of every shape.
fn small_traces() -> Vec<Vec<u8>> {
    let mut traces = Vec::new();
    for m in MACHINES {
        let records = all_records(m);
        let attrs: [(Attr, &[u64]); 2] =
            [(TRACEPOINT, &[1, 2]), (Attr { sample_type: USUAL | CALLCHAIN, ..TRACEPOINT }, &[3])];
        let trace = Trace { machine: m, attrs: &attrs, records: &records, features: m.features() };
        traces.extend([trace.file(), trace.pipe()]);
        // Data of hardware tracers are not compressed.
        let packable: Vec<Vec<u8>> = records.iter().filter(|record| record[..4] != m.u32(71)).cloned().collect();
        let parts: Vec<Vec<u8>> = packable.concat().chunks(333).map(<[u8]>::to_vec).collect();
        let packed = zstd(&parts.iter().map(|part| &part[..]).collect::<Vec<_>>());
        for kind in [81, 83] {
            let records: Vec<_> = packed.iter().map(|packed| m.compressed(kind, packed)).collect();
            let trace = Trace { machine: m, attrs: &attrs, records: &records, features: compressed_feature(m) };
            traces.extend([trace.file(), trace.pipe()]);
        }
    }
    traces
}

#[test]
fn a_cut_file_says_so_wherever_it_is_cut() {
    for file in small_traces() {
        let whole = said(&file).unwrap();
        assert_eq!(whole.lines(), [(LedgerLine::LostRecords, 14)]);
        assert_eq!(whole.ledger.events, 21);
        if file[8..16].contains(&16) {
            continue;
        }
        for end in 0..file.len() {
            // The losses that the recorder tells of are no word of what is missing.
            let Ok(said) = said(&file[..end]) else { continue };
            let told = said.lines().iter().any(|(line, _)| *line != LedgerLine::LostRecords);
            assert!(told, "cut at {end} of {}", file.len());
        }
    }
}

#[test]
fn a_cut_pipe_says_so_unless_it_is_cut_between_records() {
    let records = all_records(HOST);
    let trace = Trace { machine: HOST, attrs: &[(TRACEPOINT, &[1])], records: &records, features: HOST.features() };
    let pieces = trace.pieces();
    let mut ends = vec![0];
    pieces.iter().for_each(|piece| ends.push(ends.last().unwrap() + piece.len()));
    let file = pieces.concat();
    for end in 17..file.len() {
        let said = said(&file[..end]).unwrap();
        let told = said.lines().iter().any(|(line, _)| *line != LedgerLine::LostRecords);
        assert_eq!(told, !ends.contains(&end), "cut at {end}");
    }
}

#[test]
fn flipped_bits_and_absurd_numbers_are_survived() {
    let mut dice = Dice(2);
    for file in small_traces() {
        let mut damaged = file.clone();
        // Numbers are where multiples of their sizes are.
        for (size, fill) in [(2, 0), (4, 0xff), (8, 0xff)] {
            for at in (0..file.len()).step_by(size) {
                let end = (at + size).min(file.len());
                damaged[at..end].fill(fill);
                let _ = said(&damaged);
                damaged[at..end].copy_from_slice(&file[at..end]);
            }
        }
        for _ in 0..400 {
            let mut damaged = file.clone();
            dice.damage(&mut damaged);
            if let Ok(said) = said(&damaged) {
                // Each record takes at least 8 bytes.
                assert!(said.events.len() < 10_000);
            }
        }
    }
}

#[test]
fn a_header_that_cannot_be_is_an_error_or_a_line() {
    let file = one(HOST, TRACEPOINT, &[HOST.usual(100, 0), HOST.usual(200, 0)]);
    // Size, attr_size, attrs, data; the ids of the attr; the features.
    let ids = HEADER + 8 + 128;
    let features = HEADER + 8 + ATTR + 2 * HOST.usual(0, 0).len();
    for at in [8, 16, 24, 32, 40, 48, ids, ids + 8, features, features + 8] {
        for value in [0, 1, 7, 65, 145, 1 << 20, 1 << 40, 1 << 63, u64::MAX] {
            let mut wrong = file.clone();
            wrong[at..at + 8].copy_from_slice(&HOST.u64(value));
            // One event has no need of its ids, wherever they are.
            let harmless = at == ids && value < file.len() as u64 - 8 || at == ids + 8 && value == 0;
            match said(&wrong) {
                Err(TraceError::Damaged { .. }) => {}
                Err(other) => panic!("{other}"),
                Ok(said) if said.lines().is_empty() => {
                    assert!(harmless && said.times() == [100, 200], "{at}: {value}");
                }
                Ok(_) => {}
            }
        }
    }
}

#[test]
fn ids_claimed_many_times_are_not_read_many_times() {
    // A thousand attrs that all say that their ids are the whole file.
    let attrs: Vec<(Attr, &[u64])> = vec![(TRACEPOINT, &[]); 1_000];
    let records = [HOST.usual(100, 0)];
    let mut file = Trace { machine: HOST, attrs: &attrs, records: &records, features: HOST.features() }.file();
    let len = file.len() as u64;
    for n in 0..1_000 {
        let at = HEADER + n * ATTR + 128;
        file[at..at + 16].copy_from_slice(&HOST.u64s(&[0, len]));
    }
    let said = said(&file).unwrap();
    assert_eq!(said.lines(), [(LedgerLine::BadRecord, 999 + u64::from(!len.is_multiple_of(8)))]);
}
