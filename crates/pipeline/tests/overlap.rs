//! Recordings of one host's clock that overlap in time: an exit that several hold is counted once, every other each time, and
//! the order of the files changes no count.

use exitscope_analysis::TraceSink;
use exitscope_model::{
    BOOT_ID, BesideRow, CodeList, Event, EventKind, EventNames, Exit, ExitCode, HostSetting, LedgerLine, SubjectWord,
};
use exitscope_pipeline::{ReadOptions, read_all};
use exitscope_trace::{Input, PerfHead, PerfWriter, SourceOptions};
use exitscope_units::{Moment, PcpuId, Tid, VcpuId, VmId};
use std::fs::File;
use std::path::Path;

#[derive(Default)]
struct Exits(u64);

impl TraceSink for Exits {
    fn absorb(&mut self, _: &Exit) {
        self.0 += 1;
    }

    fn beside_row(&mut self, _: BesideRow<'_>) {}
}

/// When a vCPU leaves its guest, and where in it.
type Left = (u64, u64);

/// A recording of a host by this name.
fn recording(path: &Path, hostname: &str, boot: Option<&str>, exits: impl IntoIterator<Item = Left>) -> Input {
    let mut names = EventNames::default();
    let (exit, entry) = (names.intern("kvm:kvm_exit"), names.intern("kvm:kvm_entry"));
    let settings: Vec<_> = boot.map(|id| HostSetting::new("host", BOOT_ID, id)).into_iter().collect();
    let head = PerfHead {
        arch: "x86_64",
        cpuid: "GenuineIntel,6,85,7",
        cpu: "",
        settings: &settings,
        hostname,
        release: "6.1.0",
        cpus: 4,
        command: &[],
        names: &names,
        compressed: false,
    };
    let mut writer = PerfWriter::new(File::create(path).unwrap(), &head).unwrap();
    writer.thread(Moment::default(), VmId(1_000), Tid(1_001), "CPU 0/KVM").unwrap();
    for (at, rip) in exits {
        let code = ExitCode::new(CodeList::Vmx, 30);
        let left = EventKind::Exit { code, idle: false, words: SubjectWord::NONE, rip };
        for (at, name, kind) in [(at, exit, left), (at + 900, entry, EventKind::Enter)] {
            let at = Moment::from_nanos(at);
            let event =
                Event { at, name, kind, cpu: PcpuId(0), tid: Tid(1_001), vm: VmId(1_000), vcpu: VcpuId::UNKNOWN };
            writer.event(&event).unwrap();
        }
    }
    writer.finish().unwrap();
    Input::open(path).unwrap()
}

/// Exits of these files together, and events that were counted once, in every order of the files.
fn counts(inputs: &[Input]) -> Vec<(u64, u64)> {
    let options = ReadOptions { source: SourceOptions::default(), need_vcpus: false, progress: |_| None };
    let orders: &[&[usize]] = match inputs.len() {
        2 => &[&[0, 1], &[1, 0]],
        _ => &[&[0, 1, 2], &[0, 2, 1], &[1, 0, 2], &[1, 2, 0], &[2, 0, 1], &[2, 1, 0]],
    };
    let of = |order: &&[usize]| {
        let inputs: Vec<_> = order.iter().map(|&place| inputs[place].try_clone().unwrap()).collect();
        let add = |a: u64, b: u64| a + b;
        let (exits, traces) = read_all(&inputs, options, Exits::default, |sink, _| sink.0, add).unwrap();
        (exits.unwrap(), traces.iter().map(|trace| trace.ledger.get(LedgerLine::Overlapping)).sum())
    };
    orders.iter().map(of).collect()
}

/// A guest that polls a port: many like exits, each within a recorder's doubt about the moment of the next.
fn polling(exits: std::ops::Range<u64>) -> impl Iterator<Item = Left> {
    exits.map(|exit| (1_000_000 + exit * 2_500, 0xfff0))
}

/// A guest that does this and that.
fn varied(exits: std::ops::Range<u64>) -> impl Iterator<Item = Left> + Clone {
    exits.map(|exit| (1_000_000 + exit * 40_000 + exit * exit % 977 * 3, 0x1000 + exit * exit % 89 * 16))
}

struct Made {
    inputs: Vec<Input>,
    _folder: tempfile::TempDir,
}

fn made<I: IntoIterator<Item = Left>>(hostname: &str, parts: Vec<(Option<&str>, I)>) -> Made {
    let folder = tempfile::tempdir().unwrap();
    let one = |(place, (boot, exits)): (usize, (Option<&str>, I))| {
        recording(&folder.path().join(format!("{place}.data")), hostname, boot, exits)
    };
    let inputs = parts.into_iter().enumerate().map(one).collect();
    Made { inputs, _folder: folder }
}

#[test]
fn what_two_recordings_of_a_boot_hold_counts_once_in_either_order() {
    for boot in [Some("b1"), None] {
        let of = made("host", vec![(boot, polling(0..250)), (boot, polling(150..400))]);
        assert!(counts(&of.inputs).iter().all(|found| *found == (400, 2 * 100)), "{boot:?}: {:?}", counts(&of.inputs));
        let of = made("host", vec![(boot, varied(0..250)), (boot, varied(150..400))]);
        assert!(counts(&of.inputs).iter().all(|found| *found == (400, 2 * 100)), "{boot:?}: {:?}", counts(&of.inputs));
        let three = vec![(boot, polling(0..200)), (boot, polling(100..300)), (boot, polling(150..400))];
        let found = counts(&made("host", three).inputs);
        assert!(found.iter().all(|found| *found == (400, 2 * 250)), "{boot:?}: {found:?}");
    }
}

#[test]
fn recorders_that_read_the_clock_a_little_later_hold_the_same() {
    let late = |by: u64| varied(150..400).map(move |(at, rip)| (at + by, rip));
    for by in [0, 300, 9_000] {
        let of = made("host", vec![(Some("b1"), varied(0..250).collect::<Vec<_>>()), (Some("b1"), late(by).collect())]);
        assert!(counts(&of.inputs).iter().all(|found| *found == (400, 200)), "{by}: {:?}", counts(&of.inputs));
    }
}

#[test]
fn after_a_reboot_the_clock_comes_by_the_same_moments_again_and_each_exit_counts() {
    // By the boot, though the exits look alike; and by the exits alone, be they ever so few.
    let of = made("host", vec![(Some("b1"), polling(0..250)), (Some("b2"), polling(0..250))]);
    assert_eq!(counts(&of.inputs), [(500, 0); 2]);
    for exits in [3, 10, 250] {
        let moved = varied(0..exits).map(|(at, rip)| (at + 15_000, rip + 0x1_0000)).collect::<Vec<_>>();
        let of = made("host", vec![(None, varied(0..exits).collect()), (None, moved)]);
        assert_eq!(counts(&of.inputs), [(2 * exits, 0); 2], "{exits}");
    }
}

#[test]
fn a_few_exits_that_both_hold_count_once() {
    let of = made("host", vec![(None, varied(0..6)), (None, varied(3..9))]);
    assert_eq!(counts(&of.inputs), [(9, 2 * 3); 2]);
}

#[test]
fn what_one_recorder_lost_the_other_tells() {
    let lossy = |of: u64| varied(0..400).enumerate().filter(move |(place, _)| *place as u64 / 10 % 3 != of);
    let [a, b] = [0, 1].map(|of| lossy(of).map(|(_, exit)| exit).collect::<Vec<_>>());
    let both = a.iter().filter(|exit| b.contains(exit)).count() as u64;
    let all = (a.len() + b.len()) as u64 - both;
    assert_eq!(all, 400);
    let of = made("host", vec![(Some("b1"), a), (Some("b1"), b)]);
    assert_eq!(counts(&of.inputs), [(all, 2 * both); 2]);
}

#[test]
fn one_within_another_adds_nothing() {
    let of = made("host", vec![(Some("b1"), polling(0..400)), (Some("b1"), polling(100..200))]);
    assert_eq!(counts(&of.inputs), [(400, 200); 2]);
}
