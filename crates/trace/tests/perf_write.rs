//! perf.data files that are written here: read back by our reader and by the real perf.

use exitscope_model::{
    CodeList, Event, EventKind, EventNames, ExitCode, ExitWord, HostSetting, IdleEvent, LedgerLine, PollChange,
    PortAccessForm, Subject, SubjectKind, SubjectWord, ThreadName,
};
use exitscope_skips::{Part, Skipped, or_skip, skip};
use exitscope_trace::{PerfHead, PerfWriter, WrittenTrace, open};
use exitscope_units::{Moment, PcpuId, Tid, VcpuId, VmId};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::io::{self, Cursor, Seek, SeekFrom, Write};
use std::path::Path;
use std::process::Command;

mod common;

use common::{Said, corpus, drain, said};

/// Tracepoints, what they may say, and whether they name the vCPU.
type Shapes = &'static [(&'static str, fn(&[u64; 4]) -> EventKind, bool)];

fn exit(list: CodeList, number: u64, idle: bool, r: &[u64; 4]) -> EventKind {
    EventKind::Exit { code: ExitCode::new(list, number), idle, words: SubjectWord::NONE, rip: r[2] }
}

fn port_exit(r: &[u64; 4]) -> EventKind {
    let code = ExitCode::new(CodeList::Svm, 0x7b);
    EventKind::Exit {
        code,
        idle: false,
        words: SubjectWord::new(code, |word| (word == ExitWord::Info1).then_some(r[0] & 0xffff_ffff)),
        rip: r[2],
    }
}

fn plain(kind: SubjectKind, key: u64, value: u64) -> EventKind {
    EventKind::Detail(Subject { kind, write: false, form: PortAccessForm::Unknown, size: 0, key, value })
}

fn access(kind: SubjectKind, size: u16, r: &[u64; 4]) -> EventKind {
    EventKind::Detail(Subject {
        kind,
        write: r[0] & 1 == 1,
        form: PortAccessForm::Unknown,
        size,
        key: r[1],
        value: r[2],
    })
}

fn system_register(r: &[u64; 4]) -> EventKind {
    access(SubjectKind::SystemRegister, 0, &[r[0], r[1] & 0x1f_ffe0, 0, 0])
}

fn switch(r: &[u64; 4]) -> EventKind {
    let [prev, next] = [r[0], r[2]].map(|thread| Tid(thread as u32 >> 1));
    EventKind::Switch { prev, sleeps: r[1] & 1 == 1, next, prev_name: ThreadName::new(&r[3].to_le_bytes()) }
}

fn idle(event: IdleEvent) -> EventKind {
    EventKind::Idle(event)
}

fn poll_change(r: &[u64; 4]) -> PollChange {
    PollChange { grow: r[0] & 1 == 1, new: r[1] as u32, old: r[2] as u32 }
}

const X86: Shapes = &[
    ("kvm:kvm_exit", |r| exit(CodeList::Vmx, r[0] & 0xffff_ffff, false, r), true),
    ("kvm:kvm_exit", |r| exit(CodeList::Svm, r[0] & 0xffff_ffff, false, r), true),
    ("kvm:kvm_exit", port_exit, true),
    ("kvm:kvm_entry", |_| EventKind::Enter, true),
    ("kvm:kvm_userspace_exit", |r| EventKind::UserspaceExit { reason: r[0] as u32, errno: r[1] as i32 }, false),
    ("kvm:kvm_fpu", |r| EventKind::Fpu { load: r[0] & 1 == 1 }, false),
    ("kvm:kvm_vcpu_wakeup", |r| EventKind::HaltEnd { ns: r[0], waited: r[1] & 1 == 1, valid: r[1] & 2 == 0 }, false),
    ("kvm:kvm_pio", |r| access(SubjectKind::Port, r[3] as u16, &[r[0], r[1] & 0xffff, r[2] & 0xffff_ffff, 0]), false),
    ("kvm:kvm_mmio", |r| access(SubjectKind::Mmio, r[3] as u16, r), false),
    ("kvm:kvm_msr", |r| access(SubjectKind::Msr, 0, &[r[0], r[1] & 0xffff_ffff, r[2], 0]), false),
    ("kvm:kvm_hypercall", |r| plain(SubjectKind::Hypercall, r[0], r[1]), false),
    ("kvm:kvm_cpuid", |r| plain(SubjectKind::Cpuid, r[0] & 0xffff_ffff, r[1] & 0xffff_ffff), false),
    ("kvm:kvm_page_fault", |r| plain(SubjectKind::PageFault, r[0], r[1]), true),
    ("kvm:kvm_inj_virq", |r| EventKind::Inject { vector: r[0] as u32 }, false),
    ("kvm:kvm_halt_poll_ns", |r| EventKind::HaltPoll { grow: r[0] & 1 == 1, new: r[1] as u32, old: r[2] as u32 }, true),
    ("kvm:kvm_ple_window_update", |r| EventKind::PleWindow { new: r[0] as u32, old: r[1] as u32 }, true),
    ("sched:sched_switch", switch, false),
    ("sched:sched_wakeup", |r| EventKind::Wakeup { tid: Tid(r[0] as u32) }, false),
    ("sched:sched_wake_idle_without_ipi", |r| idle(IdleEvent::WokenPolling { cpu: PcpuId(r[0] as u32 >> 1) }), false),
    ("power:guest_halt_poll_ns", |r| idle(IdleEvent::PollLimit(poll_change(r))), false),
    ("syscalls:sys_enter_ioctl", |_| EventKind::RunEnter, false),
    ("syscalls:sys_exit_ioctl", |_| EventKind::SyscallExit, false),
    ("kvm:kvm_test_age_hva", |_| EventKind::Other, false),
    ("a name:with \"odd\" characters\n", |_| EventKind::Other, false),
];

const ARM64: Shapes = &[
    ("kvm:kvm_exit", |r| exit(CodeList::Arm64Ec, r[0] & 0x3f, false, r), false),
    ("kvm:kvm_exit", |r| exit(CodeList::Arm64Exit, r[0] & 1, false, r), false),
    ("kvm:kvm_entry", |_| EventKind::Enter, false),
    ("kvm:kvm_wfx_arm64", |r| EventKind::Wfx { wfe: r[0] & 1 == 1 }, false),
    ("kvm:kvm_hvc_arm64", |r| plain(SubjectKind::Hvc, r[0], r[1]), false),
    ("kvm:kvm_guest_fault", |r| plain(SubjectKind::PageFault, r[0], r[1]), false),
    ("kvm:kvm_handle_sys_reg", system_register, false),
    ("kvm:kvm_sys_access", system_register, false),
];

const POWERPC: Shapes = &[
    ("kvm_hv:kvm_guest_exit", |r| exit(CodeList::PpcTrap, r[0] & 0xfff, r[1] & 1 == 1, r), true),
    ("kvm_hv:kvm_guest_enter", |_| EventKind::Enter, true),
    ("kvm_hv:kvm_hcall_enter", |r| plain(SubjectKind::PpcHcall, r[0], r[1]), true),
    ("kvm_hv:kvmppc_run_core", |r| EventKind::RunCore { exit: r[0] & 1 == 1, runnable: r[1] as u32 }, true),
    ("kvm_hv:kvmppc_run_vcpu_enter", |_| EventKind::VcpuHint, true),
    ("sched:sched_switch", switch, false),
];

const S390: Shapes = &[
    ("kvm:kvm_s390_sie_exit", |r| exit(CodeList::S390, r[0] & 0xff, false, r), true),
    ("kvm:kvm_s390_sie_enter", |_| EventKind::Enter, true),
    ("kvm:kvm_s390_handle_diag", |r| plain(SubjectKind::Diag, r[0] & 0xffff, 0), true),
    ("kvm:kvm_s390_handle_sigp", |r| plain(SubjectKind::Sigp, r[0] & 0xff, r[1] & 0xffff), true),
    (
        "kvm:kvm_s390_intercept_instruction",
        |r| plain(SubjectKind::Instruction, 0xb27d, 0xb27d << 48 | r[0] >> 16),
        true,
    ),
    ("kvm:kvm_userspace_exit", |r| EventKind::UserspaceExit { reason: r[0] as u32, errno: r[1] as i32 }, false),
    ("sched:sched_switch", switch, false),
];

const ARCHES: [(&str, Shapes); 4] = [("x86_64", X86), ("aarch64", ARM64), ("ppc64le", POWERPC), ("s390x", S390)];

fn names(shapes: Shapes) -> EventNames {
    let mut names = EventNames::default();
    for shape in shapes {
        names.intern(shape.0);
    }
    names
}

/// A file that is written, and what was written.
fn written(arch: &str, names: &EventNames, events: &[Event], compressed: bool) -> (Vec<u8>, WrittenTrace) {
    let mut file = Cursor::new(Vec::new());
    let head = PerfHead { compressed, ..head(arch, names) };
    let mut writer = PerfWriter::new(&mut file, &head).unwrap();
    writer.thread(Moment::default(), VmId(1_000), Tid(1_000), "guest").unwrap();
    writer.thread(Moment::default(), VmId(1_000), Tid(1_001), "CPU 0/KVM").unwrap();
    events.iter().for_each(|event| writer.event(event).unwrap());
    let written = writer.finish().unwrap();
    (file.into_inner(), written)
}

fn head<'a>(arch: &'a str, names: &'a EventNames) -> PerfHead<'a> {
    let (cpuid, release) = ("GenuineIntel,6,85,7", "6.1.0");
    PerfHead {
        arch,
        cpuid,
        cpu: "",
        settings: &[],
        hostname: "host",
        release,
        cpus: 4,
        command: &[],
        names,
        compressed: false,
    }
}

/// Events of these shapes, losses between them, in order.
fn events(shapes: Shapes) -> impl Strategy<Value = Vec<Event>> {
    let one = (any::<(u16, [u64; 4])>(), 0u64..3, any::<(u32, u32)>(), 0u32..300, 0u32..4);
    prop::collection::vec(one, 0..200).prop_map(move |drawn| {
        let mut names = names(shapes);
        let mut now = 0;
        let events = drawn.into_iter().map(|((shape, r), step, (tid, vm), vcpu, cpu)| {
            now += step;
            let at = Moment::from_nanos(now);
            if shape % 16 == 15 && now > 0 {
                return Event::lost(at, PcpuId(cpu), r[0] >> 40);
            }
            let (name, kind, says_vcpu) = shapes[usize::from(shape) % shapes.len()];
            let vcpu = if says_vcpu { VcpuId(vcpu) } else { VcpuId::UNKNOWN };
            let name = names.intern(name);
            Event { at, tid: Tid(tid), vm: VmId(vm), vcpu, cpu: PcpuId(cpu), name, kind: kind(&r) }
        });
        events.collect()
    })
}

/// Events with their names spelt out, `_` for what no name can have.
fn spelt(events: &[Event], names: &EventNames) -> Vec<(Event, String)> {
    let odd = |c: char| if c.is_ascii_alphanumeric() || c == ':' { c } else { '_' };
    events
        .iter()
        .map(|&event| (Event { name: Default::default(), ..event }, names.get(event.name).chars().map(odd).collect()))
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn what_is_written_is_read(
        all in (events(X86), events(ARM64), events(POWERPC), events(S390)),
        compressed in any::<bool>(),
    ) {
        for ((arch, shapes), events) in ARCHES.into_iter().zip([all.0, all.1, all.2, all.3]) {
            let names = names(shapes);
            let (file, written) = written(arch, &names, &events, compressed);
            prop_assert_eq!((written.events, written.left_out), (events.len() as u64, 0), "{}", arch);
            prop_assert_eq!(written.bytes, file.len() as u64);
            let said = said(&file).unwrap();
            prop_assert_eq!(spelt(&said.events, &said.info.names), spelt(&events, &names));
            let lost: u64 = events.iter().map(|e| if let EventKind::Lost { count } = e.kind { count.max(1) } else { 0 }).sum();
            prop_assert_eq!(said.lines(), if lost > 0 { vec![(LedgerLine::LostRecords, lost)] } else { vec![] });
            prop_assert_eq!((said.info.arch.as_str(), said.info.release.as_str()), (arch, "6.1.0"));
            prop_assert_eq!((&said.info.comms[&1_000], &said.info.comms[&1_001]), (&"guest".into(), &"CPU 0/KVM".into()));
        }
    }
}

#[test]
fn what_no_tracepoint_says_is_left_out_and_counted() {
    let names = names(X86);
    let event = |name: &str, kind| Event {
        name: names.clone().intern(name),
        ..Event::nameless(Moment::default(), PcpuId(0), kind)
    };
    let odd = [
        event("kvm:kvm_exit", exit(CodeList::PpcTrap, 0x500, false, &[0; 4])),
        event("kvm:kvm_exit", EventKind::Enter),
        event("kvm:kvm_pio", plain(SubjectKind::Cpuid, 1, 0)),
        event("kvm:kvm_test_age_hva", EventKind::Enter),
        event("no:such", EventKind::Other),
        Event::nameless(Moment::default(), PcpuId(0), EventKind::Other),
    ];
    let (file, written) = written("x86_64", &names, &odd, false);
    assert_eq!((written.events, written.left_out), (0, 6));
    assert_eq!((said(&file).unwrap().events.len(), said(&file).unwrap().lines()), (0, vec![]));
}

/// What was written where, call by call.
#[derive(Default)]
struct Journal {
    at: u64,
    calls: Vec<(u64, Vec<u8>)>,
}

impl Write for Journal {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.calls.push((self.at, bytes.to_vec()));
        self.at += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Seek for Journal {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let SeekFrom::Start(at) = to else { panic!("only absolute places are used") };
        self.at = at;
        Ok(at)
    }
}

/// So many entries, a nanosecond apart.
fn entries(count: u64, names: &EventNames) -> Vec<Event> {
    let name = names.clone().intern("kvm:kvm_entry");
    let entry = |n| Event { name, tid: Tid(1_001), vcpu: VcpuId(0), ..Event::nameless(n, PcpuId(0), EventKind::Enter) };
    (0..count).map(|n| entry(Moment::from_nanos(n))).collect()
}

/// Of a file that a full disk or a copy cut short, whatever is there can be read: formats stand before the first block, and
/// where they are in the first record.
#[test]
fn a_file_cut_within_its_first_block_is_read_up_to_there() {
    let names = names(X86);
    for compressed in [false, true] {
        let (mut file, all) = (Cursor::new(Vec::new()), entries(40_000, &names));
        let mut writer = PerfWriter::new(&mut file, &PerfHead { compressed, ..head("x86_64", &names) }).unwrap();
        all.iter().for_each(|event| writer.event(event).unwrap());
        writer.finish().unwrap();
        let file = file.into_inner();
        let told: Vec<_> = all.iter().map(|event| (event.at.as_nanos(), event.cpu.0, event.kind)).collect();
        let data = u64::from_le_bytes(file[40..48].try_into().unwrap()) as usize;
        let mut seen = 0;
        for len in (data + 1_000..file.len()).step_by(29_989) {
            let said = said(&file[..len]).unwrap();
            let read = said.told();
            assert!(said.ledger.is_cut() && read.len() >= seen && told.starts_with(&read), "{len}: {:?}", said.lines());
            assert!(said.lines().iter().all(|line| line.0 == LedgerLine::TruncatedBytes), "{len}: {:?}", said.lines());
            assert_eq!((said.info.arch.as_str(), said.info.hostname.as_str()), ("x86_64", "host"));
            seen = read.len();
        }
        assert!(compressed || seen * 100 >= told.len() * 95, "{seen} of {}", told.len());
    }
}

#[test]
fn a_killed_writer_leaves_whole_blocks() {
    let names = names(X86);
    let all = entries(40_000, &names);
    let mut journal = Journal::default();
    let mut writer = PerfWriter::new(&mut journal, &head("x86_64", &names)).unwrap();
    all.iter().for_each(|event| writer.event(event).unwrap());
    writer.finish().unwrap();
    let told: Vec<_> = all.iter().map(|event| (event.at.as_nanos(), event.cpu.0, event.kind)).collect();
    let (mut file, mut seen, mut steps) = (Vec::new(), 0, Vec::new());
    for (call, (at, bytes)) in journal.calls.iter().enumerate() {
        for part in [bytes.len() / 2, bytes.len()] {
            let at = *at as usize;
            file.resize(file.len().max(at + part), 0);
            file[at..at + part].copy_from_slice(&bytes[..part]);
            // Before the front and the length of the first data are there is nothing to be read.
            if call < 3 {
                continue;
            }
            let said = said(&file).unwrap();
            assert!(said.events.len() >= seen && told.starts_with(&said.told()), "call {call}");
            // Between the two small writes that add a block, the last record seems to go on behind the data. Places of
            // sections of which a part was written are no records.
            // The mark of the end is written last, and stands at the beginning of its place.
            let is_whole = call == journal.calls.len() - 1;
            let expected = [LedgerLine::UnfinishedFile, LedgerLine::TruncatedBytes, LedgerLine::BadRecord];
            assert!(said.lines().iter().all(|line| expected.contains(&line.0)), "call {call}: {:?}", said.lines());
            assert_eq!(said.ledger.get(LedgerLine::UnfinishedFile), u64::from(!is_whole), "call {call}");
            if said.events.len() > seen {
                seen = said.events.len();
                steps.push(seen);
            }
        }
    }
    // A sample of kvm_entry takes 88 bytes; of a block of which half was written, with places behind it, half is read.
    assert_eq!(steps, [5_959, 11_916, 17_875, 23_832, 29_791, 35_748, 37_875, 40_000]);
}

/// Reads a trace, writes it again, and reads that.
fn rewritten(trace: &str, cpuid: &str) -> (Said, Said, Vec<u8>, WrittenTrace) {
    let first = drain(open(&corpus(trace)).unwrap()).unwrap();
    let info = &first.info;
    let head = PerfHead {
        arch: &info.arch,
        cpuid,
        cpu: &info.cpu,
        settings: &info.settings,
        hostname: &info.hostname,
        release: &info.release,
        cpus: 1,
        command: &["perf".to_string(), "record".to_string()],
        names: &info.names,
        compressed: trace.contains("t2"),
    };
    let mut file = Cursor::new(Vec::new());
    let mut writer = PerfWriter::new(&mut file, &head).unwrap();
    for (&tid, name) in &info.comms {
        writer.thread(Moment::default(), VmId(tid), Tid(tid), name).unwrap();
    }
    first.events.iter().for_each(|event| writer.event(event).unwrap());
    let written = writer.finish().unwrap();
    let file = file.into_inner();
    let second = said(&file).unwrap();
    (first, second, file, written)
}

#[test]
fn recordings_that_are_written_again_keep_every_event() {
    for trace in [
        "x86-svm/t2.data.gz",
        "x86-svm/t4-callchain.data.gz",
        "x86-svm/t4-pipe.data.gz",
        "x86-svm/t4-none.dat.gz",
        "powerpc/p8_smt4_two_vms.data.gz",
        "powerpc/p9_smt2_two_vms.data.gz",
        "powerpc/p8_smt4_trace.dat.gz",
        "arm64/arm.dat.gz",
    ] {
        let (first, second, _, written) = rewritten(trace, "");
        assert_eq!((written.events, written.left_out), (first.events.len() as u64, 0), "{trace}");
        let sides = [&first, &second].map(|said| spelt(&said.events, &said.info.names));
        let differs = sides[0].iter().zip(&sides[1]).find(|(a, b)| a != b);
        assert_eq!(differs, None, "{trace}");
        assert_eq!(second.events.len(), first.events.len(), "{trace}");
        assert_eq!(second.info.arch, first.info.arch, "{trace}");
        for (tid, name) in &first.info.comms {
            assert_eq!(second.info.comms.get(tid).map(String::as_str), name.get(..name.len().min(15)), "{trace} {tid}");
        }
    }
}

/// What perf prints of a file.
fn perf(file: &Path, arguments: &[&str]) -> Result<String, Skipped> {
    let place = arguments.iter().position(|&argument| argument == "FILE").unwrap();
    let (before, after) = (&arguments[..place], &arguments[place + 1..]);
    match Command::new("perf").args(before).arg(file).args(after).output() {
        Ok(output) => {
            let errors = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "perf {arguments:?}: {errors}");
            // perf kvm stat prints its table as if it were an error.
            let said = if output.stdout.is_empty() { errors } else { String::from_utf8_lossy(&output.stdout) };
            Ok(said.into_owned())
        }
        Err(error) => Err(skip(Part::Perf, format!("perf cannot be run: {error}"))),
    }
}

fn stored(bytes: &[u8]) -> tempfile::NamedTempFile {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(bytes).unwrap();
    file
}

/// The rows of a table of `perf kvm stat`: reason, samples, and the times.
fn rows(table: &str) -> Vec<Vec<&str>> {
    let rows = table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    rows.filter(|row| row.iter().any(|cell| cell.ends_with('%'))).collect()
}

#[test]
fn perf_kvm_stat_says_the_same_of_a_recording_that_is_written_again() {
    for name in ["t4-kvmstat", "t4-callchain", "t2"] {
        let (_, _, bytes, _) = rewritten(&format!("x86-svm/{name}.data.gz"), "AuthenticAMD,23,1,2");
        let file = stored(&bytes);
        let ours = or_skip!(perf(file.path(), &["kvm", "--host", "-i", "FILE", "stat", "report"]));
        let theirs = std::fs::read_to_string(corpus(&format!("x86-svm/peers/{name}.data.perf-kvm-stat.txt"))).unwrap();
        assert!(rows(&theirs).len() > 5, "{name}");
        assert_eq!(rows(&ours), rows(&theirs), "{name}");
    }
}

#[test]
fn perf_script_reads_every_architecture() {
    for (arch, shapes) in ARCHES {
        let names = names(shapes);
        let mut dice = common::damage::Dice(7);
        let mut expected: BTreeMap<&str, usize> = BTreeMap::new();
        let events: Vec<Event> = (0..500u64)
            .map(|n| {
                // Not the last one, whose name is spelt differently.
                let (name, kind, _) = shapes[dice.below(shapes.len() - usize::from(arch == "x86_64"))];
                let r = [(); 4].map(|()| dice.below(1 << 62) as u64);
                *expected.entry(name).or_default() += 1;
                Event {
                    tid: Tid(1_001),
                    vm: VmId(1_000),
                    vcpu: VcpuId(0),
                    name: names.clone().intern(name),
                    ..Event::nameless(Moment::from_nanos(1_000 + n), PcpuId(0), kind(&r))
                }
            })
            .collect();
        let (bytes, _) = written(arch, &names, &events, false);
        let file = stored(&bytes);
        let text = or_skip!(perf(file.path(), &["script", "-i", "FILE", "--ns", "-F", "comm,pid,tid,cpu,time,event"]));
        let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
        for line in text.lines() {
            // CPU 0/KVM  1000/1001  [000]     0.000001000: kvm:kvm_entry:
            assert!(line.trim().starts_with("CPU 0/KVM") && line.contains("1000/1001"), "{arch}: {line}");
            let name = line.split_whitespace().last().unwrap().trim_end_matches(':');
            *seen.entry(names_of(shapes, name)).or_default() += 1;
        }
        assert_eq!(seen, expected, "{arch}");
        let header = perf(file.path(), &["script", "--header-only", "-i", "FILE"]).unwrap();
        for line in [&format!("arch : {arch}"), "hostname : host", "os release : 6.1.0", "nrcpus online : 4"] {
            assert!(header.contains(line), "{arch}: {header}");
        }
    }
}

fn names_of(shapes: Shapes, name: &str) -> &'static str {
    shapes.iter().map(|shape| shape.0).find(|&known| known == name).unwrap_or_else(|| panic!("{name} was not written"))
}

#[test]
fn perf_prints_the_kernels_words() {
    // Where the guest is.
    let at = [0, 0, 0x1_2340, 0];
    let cases: [(&str, &str, EventKind, &str); 6] = [
        ("x86_64", "kvm:kvm_exit", exit(CodeList::Vmx, 48, false, &at), "vcpu 3 reason EPT_VIOLATION rip 0x12340"),
        (
            "x86_64",
            "kvm:kvm_userspace_exit",
            EventKind::UserspaceExit { reason: 2, errno: 0 },
            "reason KVM_EXIT_IO (2)",
        ),
        (
            "aarch64",
            "kvm:kvm_exit",
            exit(CodeList::Arm64Ec, 0x24, false, &at),
            "TRAP: HSR_EC: 0x0024 (DABT_LOW), PC: 0x0000000000012340",
        ),
        (
            "ppc64le",
            "kvm_hv:kvm_guest_exit",
            exit(CodeList::PpcTrap, 0xc00, true, &at),
            "VCPU 3: trap=SYSCALL pc=0x12340 msr=0x0, ceded=1",
        ),
        (
            "s390x",
            "kvm:kvm_s390_sie_exit",
            exit(CodeList::S390, 0x1c, false, &at),
            "03[0000000000000000-0000000000012340]: exit sie icptcode 28 (Wait state)",
        ),
        ("s390x", "kvm:kvm_s390_handle_diag", plain(SubjectKind::Diag, 0x9c, 0), "handle diagnose call 009c ("),
    ];
    for (arch, name, kind, words) in cases {
        let mut names = EventNames::default();
        let name = names.intern(name);
        let event = Event { vcpu: VcpuId(3), name, ..Event::nameless(Moment::from_nanos(1_000), PcpuId(0), kind) };
        let file = stored(&written(arch, &names, &[event], false).0);
        let text = or_skip!(perf(file.path(), &["script", "-i", "FILE", "-F", "trace"]));
        assert!(text.contains(words), "{arch} {kind:?}: {text}");
    }
}

/// Settings of two modules, and one that is known in the end.
fn settings() -> Vec<HostSetting> {
    vec![
        HostSetting::new("kvm", "halt_poll_ns", "200000"),
        HostSetting::new("kvm", "nx_huge_pages", "auto"),
        HostSetting::new("haltpoll", "guest_halt_poll_ns", "200000"),
        HostSetting::new("exitscope", "events", ""),
        HostSetting::new("exitscope", "words", "é".repeat(1_000)),
    ]
}

/// A file with settings, of which one is changed after each of two events.
fn with_settings(arch: &str, compressed: bool) -> Vec<u8> {
    let (mut file, settings) = (Cursor::new(Vec::new()), settings());
    let names = names(X86);
    let head = PerfHead { compressed, settings: &settings, cpu: "Fast 9000", ..head(arch, &names) };
    let mut writer = PerfWriter::new(&mut file, &head).unwrap();
    let kind = EventKind::HaltPoll { grow: true, new: 10_000, old: 0 };
    let name = names.clone().intern("kvm:kvm_halt_poll_ns");
    let event = Event { vcpu: VcpuId(0), name, ..Event::nameless(Moment::from_nanos(1), PcpuId(0), kind) };
    writer.event(&event).unwrap();
    writer.set(3, "1");
    writer.flush().unwrap();
    writer.event(&event).unwrap();
    writer.set(3, "1000");
    writer.set(3, "2");
    writer.set(99, "nobody's");
    writer.flush().unwrap();
    writer.set(3, "2, and no event since");
    writer.finish().unwrap();
    file.into_inner()
}

#[test]
fn settings_are_read_as_they_were_last_set() {
    for (arch, compressed) in [("x86_64", false), ("x86_64", true), ("s390x", false)] {
        let read = said(&with_settings(arch, compressed)).unwrap();
        let mut expected = settings();
        expected[3].value = "2, and no event since".into();
        expected[4].value = "é".repeat(127);
        assert_eq!(read.info.settings, expected, "{arch}");
        assert_eq!((read.info.cpu.as_str(), read.info.setting("kvm", "nx_huge_pages")), ("Fast 9000", Some("auto")));
    }
}

#[test]
fn perf_reads_a_file_with_settings_and_shows_them() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("perf.data");
    std::fs::write(&path, with_settings("x86_64", false)).unwrap();
    let header = or_skip!(perf(&path, &["report", "--header-only", "-i", "FILE"]));
    for line in [
        "# cpudesc : Fast 9000",
        "# kvm pmu capabilities: halt_poll_ns=200000, nx_huge_pages=auto",
        "# haltpoll pmu capabilities: guest_halt_poll_ns=200000",
    ] {
        assert!(header.contains(line), "{line} is not in {header}");
    }
    assert_eq!(perf(&path, &["script", "-i", "FILE"]).unwrap().lines().count(), 2, "and nothing is complained of");
}

#[test]
fn settings_that_are_cut_off_are_counted_and_the_others_stand() {
    let file = with_settings("x86_64", false);
    let words = b"auto";
    let at = file.windows(words.len()).position(|bytes| bytes == words).unwrap();
    for (length, left) in [(u32::MAX, 1), (1 << 20, 1)] {
        let mut damaged = file.clone();
        damaged[at - 4..at].copy_from_slice(&length.to_le_bytes());
        let read = said(&damaged).unwrap();
        assert_eq!(read.info.settings.len(), left);
        assert_eq!(read.ledger.get(LedgerLine::BadRecord), 1);
    }
}
