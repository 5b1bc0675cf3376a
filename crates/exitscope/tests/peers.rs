//! Against `perf kvm stat report`: what it printed for each recording lies beside it in corpus/.

mod common;

use common::{corpus, report};
use exitscope_model::{Assembler, Event, EventKind, Handler, Ledger, SubjectKind};
use std::collections::BTreeMap;

/// What perf printed: samples per reason, and the total time in hundredths of a microsecond.
struct Printed {
    samples: BTreeMap<String, u64>,
    total: u64,
}

fn printed(path: &str) -> Printed {
    let text = std::fs::read_to_string(corpus(path)).unwrap();
    let (table, rest) = text.split_once("Total Samples:").unwrap();
    let row = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let at = (1..words.len()).find(|&at| words.get(at + 1).is_some_and(|next| next.ends_with('%')))?;
        Some((words[..at].join(" "), words[at].parse().ok()?))
    };
    let total = rest.split_once("handled time:").unwrap().1.split_once("us").unwrap().0;
    Printed { samples: table.lines().filter_map(row).collect(), total: total.replace('.', "").parse().unwrap() }
}

fn events(path: &str) -> Vec<Event> {
    let mut source = exitscope_trace::open(&corpus(path)).unwrap();
    let (mut events, mut ledger) = (Vec::new(), Ledger::default());
    while source.read(&mut events, &mut ledger).unwrap() {}
    events
}

/// perf's rule (`tools/perf/builtin-kvm.c`): a thread is known from its first entry on, an exit is remembered per
/// thread, and the thread's next entry makes a sample of it. Exits that another exit of the same thread follows,
/// and those without an entry, are dropped.
fn perf_rule(events: &[Event]) -> BTreeMap<String, u64> {
    let mut threads = BTreeMap::new();
    let mut samples = BTreeMap::new();
    for event in events {
        match event.kind {
            EventKind::Exit { code, .. } => {
                if let Some(last) = threads.get_mut(&event.tid) {
                    *last = Some(code);
                }
            }
            EventKind::Enter => {
                if let Some(code) = threads.insert(event.tid, None).flatten() {
                    // perf 6.1 has no name for 0xe80 and 0xea0.
                    let unnamed = matches!(code.number, 0xe80 | 0xea0);
                    let name = if unnamed { "UNKNOWN".to_string() } else { code.name() };
                    *samples.entry(name).or_insert(0) += 1;
                }
            }
            _ => {}
        }
    }
    samples
}

fn exits_by_reason(events: &[Event]) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    for event in events {
        if let EventKind::Exit { code, .. } = event.kind {
            *counts.entry(code.name()).or_insert(0) += 1;
        }
    }
    counts
}

/// Reason to (exits, timed exits), from the report.
fn reported(path: &str) -> (BTreeMap<String, (u64, u64)>, serde_json::Value) {
    let report = report(&[&corpus(path)], &["--by", "reason"]);
    let rows = report["rows"].as_array().unwrap().iter().map(|row| {
        let number = |name: &str| row[name].as_u64().unwrap();
        (row["reason"].as_str().unwrap().to_string(), (number("count"), number("timed")))
    });
    (rows.collect(), report)
}

fn coverage(report: &serde_json::Value, id: &str) -> u64 {
    let lines = report["coverage"]["lines"].as_array().unwrap();
    lines.iter().find(|line| line["id"] == id).map_or(0, |line| line["count"].as_u64().unwrap())
}

#[test]
fn on_x86_perf_drops_only_the_exits_that_the_recording_cut_off() {
    for (trace, stat) in [
        ("x86-svm/t2.data.gz", "x86-svm/peers/t2.data.perf-kvm-stat.txt"),
        ("x86-svm/t4-kvmstat.data.gz", "x86-svm/peers/t4-kvmstat.data.perf-kvm-stat.txt"),
        ("x86-svm/t4-callchain.data.gz", "x86-svm/peers/t4-callchain.data.perf-kvm-stat.txt"),
    ] {
        let perf = printed(stat);
        let (ours, report) = reported(trace);
        let timed: BTreeMap<_, _> =
            ours.iter().map(|(name, row)| (name.clone(), row.1)).filter(|row| row.1 > 0).collect();
        assert_eq!(timed, perf.samples, "{trace}: exits with both ends are perf's samples");
        let untimed: u64 = ours.values().map(|row| row.0 - row.1).sum();
        assert_eq!(untimed, coverage(&report, "unfinished_exit"), "{trace}: the rest was open when recording ended");
        let total = report["total"]["exit_time_ns"].as_u64().unwrap();
        assert_eq!((total + 5) / 10, perf.total, "{trace}: total time in 1/100 us");
        assert_eq!(perf_rule(&events(trace)), perf.samples, "{trace}: perf's rule on our events");
    }
}

#[test]
fn on_powerpc_perf_pairs_by_recording_thread_and_ours_by_vcpu() {
    for name in [
        "p8_smt4_one_thread",
        "p8_smt4_one_vm_two_threads",
        "p8_smt4_two_vms",
        "p8_smt4_callgraph",
        "p8_smt4_cede_all",
        "p9_smt2_two_vms",
    ] {
        let (trace, stat) = (format!("powerpc/{name}.data.gz"), format!("powerpc/{name}.kvmstat.txt"));
        let events = events(&trace);
        // The same events under perf's rule give perf's figures, so the rule is the whole difference.
        assert_eq!(perf_rule(&events), printed(&stat).samples, "{name}: perf's rule on our events");
        let (ours, report) = reported(&trace);
        let counts: BTreeMap<_, _> = ours.iter().map(|(name, row)| (name.clone(), row.0)).collect();
        assert_eq!(counts, exits_by_reason(&events), "{name}: every exit event is an exit");
        let untimed: u64 = ours.values().map(|row| row.0 - row.1).sum();
        let explained = coverage(&report, "unfinished_exit") + coverage(&report, "exit_without_entry");
        assert_eq!(untimed, explained, "{name}");
        let timed: u64 = ours.values().map(|row| row.1).sum();
        assert!(timed >= printed(&stat).samples.values().sum(), "{name}");
    }
}

#[test]
fn on_arm64_ours_times_the_handling_and_not_the_guest() {
    let events = events("arm64/arm.dat.gz");
    let (ours, report) = reported("arm64/arm.dat.gz");
    let counts: BTreeMap<_, _> = ours.iter().map(|(name, row)| (name.clone(), row.0)).collect();
    assert_eq!(counts, exits_by_reason(&events));
    // Exit to entry and entry to exit, thread by thread, straight from the events.
    let (mut left, mut entered) = (BTreeMap::new(), BTreeMap::new());
    let (mut handling, mut guest) = (0, 0);
    for event in &events {
        let at = event.at.as_nanos();
        match event.kind {
            EventKind::Exit { .. } => {
                left.insert(event.tid, at);
                guest += entered.remove(&event.tid).map_or(0, |since| at - since);
            }
            EventKind::Enter => {
                entered.insert(event.tid, at);
                handling += left.remove(&event.tid).map_or(0, |since| at - since);
            }
            _ => {}
        }
    }
    assert_eq!(report["total"]["exit_time_ns"].as_u64(), Some(handling));
    let vcpus = report["vcpus"].as_array().unwrap();
    let in_guest: u64 = vcpus.iter().map(|row| row["guest_ns"].as_u64().unwrap()).sum();
    assert_eq!(in_guest, guest);
    let numbers: Vec<_> = vcpus.iter().map(|row| row["vcpu"].as_u64()).collect();
    assert_eq!(numbers, [Some(0), Some(1)], "vCPUs are found although the events do not name them");
}

#[test]
fn every_event_of_the_corpus_is_in_a_row_or_in_the_ledger() {
    for trace in common::traces() {
        let mut source = exitscope_trace::open(&trace).unwrap();
        let (mut events, mut rows, mut ledger) = (Vec::new(), Vec::new(), Ledger::default());
        while source.read(&mut events, &mut ledger).unwrap() {}
        let mut assembler = Assembler::default();
        assembler.push(&events, &mut rows, &mut ledger);
        assembler.finish(&mut rows, &mut ledger);
        let inside: u64 = rows.iter().map(|row| u64::from(row.events)).sum();
        assert!(ledger.events > 0, "{}", trace.display());
        assert_eq!(inside + ledger.events_outside_rows(), ledger.events, "{}", trace.display());
    }
}

/// How often user space did what: port or address, and whether the guest wrote.
fn done_by_user_space(events: &[Event]) -> BTreeMap<(SubjectKind, u64, bool), u64> {
    let (mut rows, mut ledger) = (Vec::new(), Ledger::default());
    let mut assembler = Assembler::default();
    assembler.push(events, &mut rows, &mut ledger);
    assembler.finish(&mut rows, &mut ledger);
    let mut counts = BTreeMap::new();
    for detail in rows.iter().filter(|exit| exit.handler != Handler::Kernel).filter_map(|exit| exit.subject) {
        if matches!(detail.kind, SubjectKind::Port | SubjectKind::Mmio) {
            *counts.entry((detail.kind, detail.key, detail.write)).or_insert(0) += 1;
        }
    }
    counts
}

/// A back end that fires no `kvm_exit` leaves the other events as they are.
#[test]
fn without_kvm_exit_what_user_space_did_is_the_same() {
    for trace in
        ["x86-svm/t4-zstd.data.gz", "x86-svm/t4-pipe.data.gz", "x86-svm/t4-none.dat.gz", "x86-svm/t4-v6.dat.gz"]
    {
        let mut events = events(trace);
        let recorded = done_by_user_space(&events);
        assert!(
            recorded[&(SubjectKind::Port, 0x3fd, false)] > 100
                && !recorded.contains_key(&(SubjectKind::Port, 0x21, true))
        );
        events.retain(|event| !matches!(event.kind, EventKind::Exit { .. } | EventKind::Enter));
        assert_eq!(done_by_user_space(&events), recorded, "{trace}");
    }
}

/// KVM's exits and entries and the scheduler's events tell where a vCPU's time went: unknown and excluded are for what they
/// cannot tell.
#[test]
fn of_a_whole_recording_with_the_schedulers_events_no_time_is_unknown() {
    let report = report(&[&corpus("x86-svm/t2.data.gz")], &[]);
    for vcpu in report["vcpus"].as_array().unwrap() {
        let time = |part: &str| vcpu[part].as_u64().unwrap();
        assert!(time("unknown_ns") + time("excluded_ns") <= time("span_ns") / 1_000, "{vcpu}");
    }
}
