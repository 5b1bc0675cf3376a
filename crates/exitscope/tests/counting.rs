//! Exits of real guests, counted where they happen by either route, are those that a recording made at the same time has.
// Where nothing can be counted, a test ends, and its guests with it.
#![allow(clippy::zombie_processes)]

mod common;

use common::{cannot_trace, exits_at, go, held_guest, kvm, machine, recording, report, run, stdout};
use exitscope_model::SubjectKind;
use exitscope_record::{
    Aggregation, CountedKind, CountingOptions, HaltWakeUps, Processes, Snapshot, TracingBackend, VmProcess,
};
use exitscope_skips::{Skipped, or_skip};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

/// Counting at work.
fn start(counting: &CountingOptions) -> Result<Aggregation, Skipped> {
    kvm()?;
    match Aggregation::start(counting) {
        Ok(aggregation) => {
            assert_eq!(*aggregation.route() == TracingBackend::Bpf, !counting.without_bpf);
            Ok(aggregation)
        }
        Err(error) => Err(cannot_trace(error)),
    }
}

fn of(guests: &[&Child]) -> Processes {
    Processes::These(guests.iter().map(|guest| guest.id()).collect())
}

/// Everything, once those who were at work have ended.
fn all(mut aggregation: Aggregation) -> Snapshot {
    let snapshot = aggregation.read().unwrap().clone();
    assert!(snapshot.lanes.values().all(|lane| lane.ended), "{:?}", snapshot.lanes);
    snapshot
}

fn about(snapshot: &Snapshot, kind: SubjectKind, key: u64, write: bool) -> u64 {
    let of = snapshot.counts.iter().filter(|(of, _)| matches!(of.cause, CountedKind::Exit(_)));
    let of = of.filter(|(of, _)| of.subject.is_some_and(|of| (of.kind, of.key, of.write) == (kind, key, write)));
    of.map(|(_, count)| count.count).sum()
}

fn by_reason(snapshot: &Snapshot) -> BTreeMap<String, u64> {
    let mut reasons = BTreeMap::new();
    for (key, count) in &snapshot.counts {
        if let CountedKind::Exit(code) = key.cause {
            *reasons.entry(code.name()).or_insert(0) += count.count;
        }
    }
    reasons
}

#[test]
fn counts_are_those_of_a_recording_made_meanwhile_by_either_route() {
    let _machine = machine();
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("perf.data");
    for without_bpf in [false, true] {
        let mut guests = [held_guest(400), held_guest(300)];
        let processes = of(&guests.each_ref());
        let pids = guests.each_ref().map(|guest| guest.id().to_string()).join(",");
        let aggregation = or_skip!(start(&CountingOptions { processes, without_bpf, ..CountingOptions::default() }));
        let mut record = Command::new(env!("CARGO_BIN_EXE_exitscope"));
        record.args(["record", "--buffer", "16M", "-p", &pids, "-o"]).arg(&data);
        let mut record = recording(record).unwrap();
        guests.iter_mut().for_each(go);
        assert!(guests.iter_mut().all(|guest| guest.wait().unwrap().success()));
        go(&mut record);
        assert!(record.wait().unwrap().success());
        let (snapshot, report) = (all(aggregation), report(&[&data], &["--by", "reason"]));
        assert_eq!((snapshot.lost, report["coverage"]["lost"].as_u64()), (0, Some(0)));
        assert_eq!(snapshot.lanes.len(), 2);
        assert!(snapshot.lanes.keys().all(|lane| VmProcess::of(lane.process).name.is_empty()), "they are gone");
        for (kind, name, key, write, direction, each) in [
            (SubjectKind::Port, "port", 0x10, true, "out", 23),
            (SubjectKind::Port, "port", 0x11, false, "in", 17),
            (SubjectKind::Mmio, "mmio", 0x8000, true, "write", 13),
        ] {
            let counted = about(&snapshot, kind, key, write);
            assert_eq!((counted, exits_at(&report, name, key, direction)), (700 * each, 700 * each), "{without_bpf}");
        }
        let rows = report["rows"].as_array().unwrap().iter();
        let recorded: BTreeMap<String, u64> =
            rows.map(|row| (row["reason"].as_str().unwrap().to_string(), row["count"].as_u64().unwrap())).collect();
        assert_eq!(by_reason(&snapshot), recorded, "{without_bpf}");
        for count in
            snapshot.counts.iter().filter(|(key, _)| key.cause != CountedKind::InKernel).map(|(_, count)| count)
        {
            let untimed = count.count - count.lengths.total();
            assert!(untimed <= 2, "the last exit of each has no end, {untimed} have none");
            let mean = count.total.checked_div(count.lengths.total());
            assert!(count.lengths.quantile(0) <= mean && mean <= Some(count.total), "{count:?}");
        }
    }
}

/// Two vCPUs that wake each other, as soon as they are told to begin.
fn held_lab() -> Child {
    let mut lab = Command::new("sh");
    lab.args(["-c", "read go; exec \"$0\" lab haltpoll --duration 60ms --repeat 2"]);
    lab.arg(env!("CARGO_BIN_EXE_exitscope")).stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap()
}

/// Wake-up latencies of the halts of a recording: to the entry, or to the halt's end where entries are not told of.
fn recorded_latencies(data: &Path) -> Vec<u64> {
    let events = stdout(&run(&["events", data.to_str().unwrap(), "--format", "json"]));
    let events: Vec<Value> = events.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let has_entries = events.iter().any(|event| event["event"] == "kvm:kvm_entry");
    let (mut woken, mut ended, mut latencies) = (BTreeMap::new(), BTreeMap::new(), Vec::new());
    for event in &events {
        let (at, tid) = (event["at_ns"].as_u64().unwrap(), event["tid"].as_u64().unwrap());
        match event["event"].as_str().unwrap() {
            "sched:sched_wakeup" => _ = woken.insert(event["next"].as_u64().unwrap(), at),
            "kvm:kvm_vcpu_wakeup" => {
                let begin = at - event["halt_ns"].as_u64().unwrap();
                let slept = woken.get(&tid).copied().filter(|woken| *woken >= begin);
                let since = if event["waited"] == true { slept } else { Some(at) };
                match since {
                    Some(since) if has_entries => _ = ended.insert(tid, since),
                    since => latencies.extend(since.map(|since| at - since)),
                }
            }
            "kvm:kvm_entry" => latencies.extend(ended.remove(&tid).map(|since| at - since)),
            _ => {}
        }
    }
    latencies
}

#[test]
fn wake_up_latencies_are_those_of_a_recording_made_meanwhile_by_either_route() {
    let _machine = machine();
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("perf.data");
    for without_bpf in [false, true] {
        let mut lab = held_lab();
        let counting = CountingOptions { processes: of(&[&lab]), without_bpf, ..CountingOptions::default() };
        let aggregation = or_skip!(start(&counting));
        let mut record = Command::new(env!("CARGO_BIN_EXE_exitscope"));
        record.args(["record", "--buffer", "16M", "-p", &lab.id().to_string(), "-o"]).arg(&data);
        let mut record = recording(record).unwrap();
        go(&mut lab);
        assert!(lab.wait().unwrap().success());
        go(&mut record);
        assert!(record.wait().unwrap().success());
        let (snapshot, recorded) = (all(aggregation), recorded_latencies(&data));
        let mut counted = HaltWakeUps::default();
        snapshot.lanes.values().for_each(|lane| counted.add(&lane.wake_ups));
        let mean = counted.latency as f64 / counted.seen as f64;
        let of_recording = recorded.iter().sum::<u64>() as f64 / recorded.len() as f64;
        assert!(counted.seen > 200, "{without_bpf}: {counted:?}");
        // A route that is told of threads late does not see what woke them before.
        assert!(without_bpf || counted.unseen * 20 <= counted.seen, "{counted:?}");
        // Neither has all halts of the other, and few of them take most of the time.
        let ratio = mean / of_recording;
        assert!((0.33..3.0).contains(&ratio), "{without_bpf}: {mean} counted, {of_recording} recorded");
    }
}

#[test]
fn only_wanted_processes_are_counted_and_more_can_be_added() {
    let _machine = machine();
    for without_bpf in [false, true] {
        let mut guests = [held_guest(20), held_guest(1_000_000)];
        let counting =
            CountingOptions { processes: Processes::These(vec![1]), without_bpf, ..CountingOptions::default() };
        let mut aggregation = or_skip!(start(&counting));
        let [other, wanted] = &mut guests;
        go(other);
        assert!(other.wait().unwrap().success());
        aggregation.watch(wanted.id()).unwrap();
        go(wanted);
        while aggregation.read().unwrap().counts.is_empty() {
            sleep(Duration::from_millis(10));
        }
        let (before, open) = {
            let snapshot = aggregation.snapshot();
            assert!(snapshot.lanes.keys().all(|lane| lane.process == wanted.id()), "{without_bpf}");
            (by_reason(snapshot).values().sum::<u64>(), snapshot.lanes.values().all(|lane| !lane.ended))
        };
        assert!(before > 0 && open);
        // It ends while it is watched.
        wanted.kill().unwrap();
        wanted.wait().unwrap();
        let snapshot = aggregation.read().unwrap();
        assert!(snapshot.lanes.values().all(|lane| lane.ended));
        assert!(by_reason(snapshot).values().sum::<u64>() >= before);
        let last = by_reason(snapshot);
        assert_eq!(by_reason(aggregation.read().unwrap()), last, "what has ended stays until it is forgotten");
        aggregation.forget_ended();
        assert!(aggregation.snapshot().counts.is_empty() && aggregation.snapshot().lanes.is_empty());
        assert!(aggregation.read().unwrap().counts.is_empty(), "the kernel has no more of it either");
    }
}

#[test]
fn what_has_no_room_is_counted_as_lost() {
    let _machine = machine();
    for without_bpf in [false, true] {
        let mut guest = held_guest(100);
        let counting =
            CountingOptions { processes: of(&[&guest]), without_bpf, max_counts: 2, ..CountingOptions::default() };
        let aggregation = or_skip!(start(&counting));
        go(&mut guest);
        assert!(guest.wait().unwrap().success());
        let snapshot = all(aggregation);
        let counted: u64 = snapshot.counts.values().map(|count| count.count).sum();
        assert!(snapshot.lost > 0);
        assert_eq!(counted + snapshot.lost, 100 * (23 + 17 + 13 + 1), "{without_bpf}: {:?}", snapshot.counts.keys());
    }
}
