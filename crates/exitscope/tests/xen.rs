//! Against `xenalyze --summary`: what it printed for each xentrace log lies beside it in corpus/.
//!
//! With `--tsc-hz 1000000000` a cycle is a nanosecond, so that its cycles and our lengths compare to the last digit.

mod common;

use common::{corpus, report, run, stderr, stdout};
use exitscope_model::{Assembler, CodeList, Event, EventKind, ExitCode, Ledger, RunState, SubjectKind};
use exitscope_trace::{EventFilter, Input, SourceOptions, open_input};
use exitscope_units::{PcpuId, VcpuId, VmId};
use serde_json::Value;
use std::collections::BTreeMap;

const HZ: &str = "1000000000";

/// The logs for which xenalyze sums up vCPUs: those with scheduler records.
const LOGS: [&str; 4] = ["hvm1_dm_sched_hvm", "pvh2_contend_sched_hvm", "pvh64_all", "pvh1_smallbuf_credit1"];

/// How many, and their mean length in cycles.
type Row = (u64, u64);

type Who = (u32, u32);

/// What xenalyze printed, by domain and vCPU.
#[derive(Default)]
struct Printed {
    exits: BTreeMap<(Who, &'static str), Row>,
    states: BTreeMap<(Who, String), Row>,
}

/// xenalyze's names of AMD's exit codes, and the kernel's.
const NAMES: [(&str, &str); 13] = [
    ("VMEXIT_CR0_READ", "read_cr0"),
    ("VMEXIT_CR4_READ", "read_cr4"),
    ("VMEXIT_CR0_WRITE", "write_cr0"),
    ("VMEXIT_CR4_WRITE", "write_cr4"),
    ("VMEXIT_INTR", "interrupt"),
    ("VMEXIT_CPUID", "cpuid"),
    ("VMEXIT_HLT", "hlt"),
    ("VMEXIT_IOIO", "io"),
    ("VMEXIT_MSR", "msr"),
    ("VMEXIT_VMMCALL", "hypercall"),
    ("VMEXIT_WBINVD", "wbinvd"),
    ("VMEXIT_NPF", "npf"),
    ("VMEXIT_VINTR", "vintr"),
];

fn printed(name: &str) -> Printed {
    let text = std::fs::read_to_string(corpus(&format!("xen/{name}.xenalyze-summary.txt"))).unwrap();
    let (mut domain, mut vcpu, mut out) = (0, None, Printed::default());
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["|--", "Domain", number, "--|"] => (domain, vcpu) = (number.parse().unwrap(), None),
            ["--", which, "--"] if which.starts_with('v') => vcpu = which[1..].parse().ok(),
            _ => {}
        }
        let Some(vcpu) = vcpu else { continue };
        let who = (domain, vcpu);
        match words[..] {
            [reason, count, _, _, mean, "cyc", _] if reason.starts_with("VMEXIT_") => {
                let name = NAMES.iter().find(|row| row.0 == reason).unwrap_or_else(|| panic!("{reason}")).1;
                out.exits.insert((who, name), (count.parse().unwrap(), mean.parse().unwrap()));
            }
            [state, count, _, mean, _] if state.ends_with(':') => {
                if let (Ok(count), Ok(mean)) = (count.parse(), mean.parse()) {
                    out.states.insert((who, state.trim_end_matches(':').to_string()), (count, mean));
                }
            }
            _ => {}
        }
    }
    out
}

fn log(name: &str) -> String {
    corpus(&format!("xen/{name}.xentrace.gz")).to_str().unwrap().to_string()
}

fn events(name: &str) -> Vec<Event> {
    let options = SourceOptions { clock_hz: Some(1_000_000_000), ..SourceOptions::default() };
    let mut source = open_input(Input::open(log(name).as_ref()).unwrap(), options).unwrap();
    let (mut events, mut ledger) = (Vec::new(), Ledger::default());
    while source.read(&mut events, &mut ledger).unwrap() {}
    events
}

fn who(event: &Event) -> Who {
    (event.vm.number().unwrap(), event.vcpu.number().unwrap())
}

/// xenalyze's rule for exits (`tools/xentrace/xenalyze.c`): an exit ends at the vCPU's next entry, or when it becomes
/// runnable after having been blocked, offline or running: what comes after that is contention. Run states count from
/// when the vCPU is first put on a CPU. (In the one log with a loss, the guest's exits are on the other CPU.)
fn xenalyze_exits(events: &[Event]) -> BTreeMap<(Who, &'static str), Row> {
    let mut open: BTreeMap<Who, (ExitCode, u64)> = BTreeMap::new();
    let mut started: BTreeMap<Who, bool> = BTreeMap::new();
    let mut sums: BTreeMap<(Who, &'static str), Row> = BTreeMap::new();
    for event in events {
        let at = event.at.as_nanos();
        let ends = match event.kind {
            EventKind::Exit { code, .. } => {
                open.insert(who(event), (code, at));
                false
            }
            EventKind::Enter => true,
            EventKind::RunState { to, .. } => {
                let started = started.entry(who(event)).or_insert(false);
                let ends = *started && to == RunState::Runnable;
                *started |= to == RunState::Running;
                ends
            }
            _ => false,
        };
        if let Some((code, since)) = ends.then(|| open.remove(&who(event))).flatten() {
            let name = NAMES.iter().find(|row| row.1 == code.name()).unwrap_or_else(|| panic!("{code:?}")).1;
            let sum = sums.entry((who(event), name)).or_default();
            *sum = (sum.0 + 1, sum.1 + at - since);
        }
    }
    sums.into_iter().map(|(key, (count, total))| (key, (count, total / count))).collect()
}

/// The same for run states; staying in one counts as a stay of its own. Who runs on a CPU at the end of its records
/// stops there.
fn xenalyze_states(events: &[Event]) -> BTreeMap<(Who, String), Row> {
    let mut places: BTreeMap<Who, (&'static str, u64, bool, PcpuId)> = BTreeMap::new();
    let mut sums: BTreeMap<(Who, String), Row> = BTreeMap::new();
    let mut add = |who, state: &str, length| {
        let sum = sums.entry((who, state.to_string())).or_default();
        *sum = (sum.0 + u64::from(length > 0), sum.1 + length);
    };
    let mut ends: BTreeMap<PcpuId, u64> = BTreeMap::new();
    for event in events {
        let at = event.at.as_nanos();
        ends.insert(event.cpu, at);
        let EventKind::RunState { from, to } = event.kind else { continue };
        let who = who(event);
        if let Some(&(state, since, preempted, _)) = places.get(&who) {
            // xenalyze does not tell a pause from other offline time.
            add(who, if state == "paused" { "offline" } else { state }, at - since);
            if state == "runnable" {
                add(who, if preempted { "preempt" } else { "wake" }, at - since);
            }
        }
        if to == RunState::Running || places.contains_key(&who) {
            places.insert(who, (to.name(), at, from == RunState::Running, event.cpu));
        }
    }
    for (who, (state, since, _, cpu)) in places {
        if state == "running" {
            add(who, state, ends[&cpu] - since);
        }
    }
    sums.into_iter().map(|(key, (count, total))| (key, (count, total / count))).collect()
}

/// Our report by vCPU and reason: exits, exits with both ends, their whole length, and of it the waiting.
fn reported(name: &str) -> (Value, BTreeMap<(Who, String), [u64; 4]>) {
    let report = report(&[log(name).as_ref()], &["--by", "vm,vcpu,reason", "--tsc-hz", HZ]);
    let rows = report["rows"].as_array().unwrap().iter().map(|row| {
        let number = |name: &str| row[name].as_u64().unwrap();
        let key = ((number("vm") as u32, number("vcpu") as u32), row["reason"].as_str().unwrap().to_string());
        (key, ["count", "timed", "exit_time_ns", "steal_ns"].map(number))
    });
    let rows = rows.collect();
    (report, rows)
}

#[test]
fn exits_and_their_cycles_are_xenalyzes() {
    for name in LOGS {
        let printed = printed(name);
        let events = events(name);
        // The same events under xenalyze's rule give xenalyze's figures, so the rule is the whole difference.
        assert_eq!(xenalyze_exits(&events), printed.exits, "{name}: xenalyze's rule on our events");
        let (report, rows) = reported(name);
        let (mut compared, mut untimed) = (0, 0);
        for ((who, reason), [count, timed, total, waiting]) in rows {
            untimed += count - timed;
            let theirs = printed.exits.iter().find(|row| row.0.0 == who && row.0.1 == reason);
            let Some((_, &(their_count, their_mean))) = theirs else {
                assert_eq!(timed, 0, "{name} {who:?} {reason}");
                continue;
            };
            // The last exit of a log may have become runnable, which ends it for xenalyze, and not entered.
            assert!(
                (timed..=count).contains(&their_count),
                "{name} {who:?} {reason}: {timed} of {count}, {their_count}"
            );
            if timed != their_count {
                continue;
            }
            if waiting == 0 {
                assert_eq!(total / timed, their_mean, "{name} {who:?} {reason}: nobody else had the CPU");
                compared += 1;
            } else {
                // They stop where the first wait for a CPU ends the exit, we go on to the entry.
                assert!(total >= their_mean * their_count, "{name} {who:?} {reason}");
            }
        }
        assert!(compared >= 6, "{name}: {compared} reasons without contention");
        let lines = report["coverage"]["lines"].as_array().unwrap();
        let line =
            |id: &str| lines.iter().find(|line| line["id"] == id).map_or(0, |line| line["count"].as_u64().unwrap());
        assert_eq!(untimed, line("unfinished_exit") + line("spans_loss") + line("exit_without_entry"), "{name}");
    }
}

#[test]
fn run_states_are_xenalyzes() {
    for name in LOGS {
        let printed = printed(name);
        let lossy = printed.states.keys().any(|key| key.1 == "lost");
        let events = events(name);
        if !lossy {
            assert_eq!(xenalyze_states(&events), printed.states, "{name}: xenalyze's rule on our events");
        }
        let (report, _) = reported(name);
        let rows = report["run_states"].as_array().unwrap();
        assert_eq!(rows.len(), if name.starts_with("pvh2") { 5 } else { 4 }, "{name}");
        for row in rows {
            let who = (row["vm"].as_u64().unwrap() as u32, row["vcpu"].as_u64().unwrap() as u32);
            let is_its = |event: &&Event| matches!(event.kind, EventKind::RunState { .. }) && self::who(event) == who;
            let heard = events.iter().rev().find(is_its).unwrap().at.as_nanos();
            let tail = events.last().unwrap().at.as_nanos() - heard;
            for (ours, theirs) in [
                ("running", "running"),
                ("woken", "wake"),
                ("preempted", "preempt"),
                ("blocked", "blocked"),
                ("offline", "offline"),
            ] {
                let of = |name: &str| (row[name]["count"].as_u64().unwrap(), row[name]["ns"].as_u64().unwrap());
                let pauses = if ours == "offline" { of("paused") } else { (0, 0) };
                let (count, ns) = (of(ours).0 + pauses.0, of(ours).1 + pauses.1);
                let (their_count, their_mean) =
                    printed.states.get(&(who, theirs.to_string())).copied().unwrap_or_default();
                let stays =
                    format!("{name} {who:?} {ours}: {count} of {ns}, theirs {their_count} of {their_mean} each");
                // The loss is on the other CPU than the guest's.
                if lossy && who != (2, 0) {
                    continue;
                }
                // Theirs begin when the vCPU first runs: at most one stay of each kind later than ours.
                let least = their_count * their_mean;
                if ours == "running" {
                    // They count a stay at each record that says that it runs on, and the last one up to its CPU's end.
                    assert!(count <= their_count && ns < least + their_count && ns + tail >= least, "{stays}");
                } else {
                    assert!(count == their_count || count == their_count + 1, "{stays}");
                    assert!(ns >= least && (count > their_count || ns < least + their_count.max(1)), "{stays}");
                }
            }
        }
    }
}

#[test]
fn the_wait_for_the_device_model_is_no_idle_time() {
    let (report, _) = reported("hvm1_dm_sched_hvm");
    let states = report["run_states"].as_array().unwrap();
    let guest = states.iter().find(|row| row["vm"] == 6).unwrap();
    let by_reason = common::report(&[log("hvm1_dm_sched_hvm").as_ref()], &["--by", "reason,handler", "--tsc-hz", HZ]);
    let rows = by_reason["rows"].as_array().unwrap();
    let waited: u64 = rows
        .iter()
        .filter(|row| row["handler"] == "device model")
        .map(|row| row["user_space_ns"].as_u64().unwrap())
        .sum();
    let sum = |name: &str| rows.iter().map(|row| row[name].as_u64().unwrap()).sum::<u64>();
    assert_eq!(waited, sum("user_space_ns"));
    // The recording ends in an exit that had waited; it has no length.
    let events = events("hvm1_dm_sched_hvm");
    let changes = events.iter().rev().filter(|event| event.vm == VmId::domain(6));
    let changed = |wanted| changes.clone().find(|event| event.kind == wanted).unwrap().at.as_nanos();
    let last = changed(EventKind::RunState { from: RunState::Offline, to: RunState::Runnable })
        - changed(EventKind::RunState { from: RunState::Running, to: RunState::Offline });
    assert_eq!(
        waited + last,
        guest["offline"]["ns"].as_u64().unwrap(),
        "all offline time is in exits for the device model"
    );
    assert_eq!(guest["offline"]["count"], 1905);
    let went: u64 =
        rows.iter().filter(|row| row["handler"] == "device model").map(|row| row["count"].as_u64().unwrap()).sum();
    assert_eq!(went, 1905 + 5, "five were answered before the vCPU lost its CPU");
    assert!(rows.iter().all(|row| row["reason"] == "hlt" || row["halted_ns"] == 0));
    assert_eq!(rows.iter().filter(|row| row["reason"] == "hlt").count(), 1);
}

/// An exit: which port or address it accessed, wake-ups of its own vCPU that came while that ran, times that it went offline.
type Woken = (Option<(SubjectKind, u64)>, u64, u64);

/// How many exits there were of each kind.
fn wake_ups(events: &[Event]) -> BTreeMap<Woken, u64> {
    let mut open: BTreeMap<Who, Woken> = BTreeMap::new();
    let (mut offline, mut sums) = (BTreeMap::new(), BTreeMap::new());
    for event in events.iter().filter(|event| event.vcpu != VcpuId::UNKNOWN) {
        let vcpu = who(event);
        match event.kind {
            EventKind::Exit { .. } => _ = open.insert(vcpu, (None, 0, 0)),
            EventKind::Enter => *sums.entry(open.remove(&vcpu).unwrap_or_default()).or_default() += 1,
            EventKind::RunState { to, .. } => {
                let is_offline = to == RunState::Offline;
                offline.insert(vcpu, is_offline || to == RunState::Paused || to == RunState::Blocked);
                open.entry(vcpu).and_modify(|exit| exit.2 += u64::from(is_offline));
            }
            EventKind::VcpuWake { .. } if offline.get(&vcpu) != Some(&true) => {
                _ = open.entry(vcpu).and_modify(|exit| exit.1 += 1)
            }
            EventKind::Detail(detail) if matches!(detail.kind, SubjectKind::Port | SubjectKind::Mmio) => {
                _ = open.entry(vcpu).and_modify(|exit| exit.0 = Some((detail.kind, detail.key)))
            }
            _ => {}
        }
    }
    sums
}

#[test]
fn each_access_to_a_device_of_the_device_model_waited_or_was_answered_while_the_vcpu_ran_and_no_other_exit_was_either()
{
    // README beside the logs: Xen answers the interrupt controllers, the timers, the RTC and CMOS, and all of a PVH guest.
    const OF_DEVICE_MODEL: [u64; 3] = [0x3fd, 0xcf8, 0xcfc];
    for name in LOGS {
        let (mut waited, mut answered, mut neither) = (0, 0, 0);
        for ((about, woken, offline), count) in wake_ups(&events(name)) {
            match (woken, offline) {
                (0, 0) => neither += count,
                (0, 1) => waited += count,
                (1, 0) => answered += count,
                _ => panic!("{name}: {count} exits with {woken} wake-ups, {offline} times offline"),
            }
            let is_access = |key| about == Some((SubjectKind::Port, key));
            let expected = name.starts_with("hvm1") && OF_DEVICE_MODEL.into_iter().any(is_access);
            assert_eq!(woken + offline, u64::from(expected), "{name}: {about:x?}, {count} exits");
        }
        let expected = if name.starts_with("hvm1") { (1904, 5) } else { (0, 0) };
        assert_eq!((waited, answered), expected, "{name}");
        assert!(neither > 1_000, "{name}");
    }
}

#[test]
fn ports_msrs_leaves_pages_and_vectors_have_the_counts_that_lie_beside_the_log() {
    let report = report(&[log("pvh1_hvm").as_ref()], &["--tsc-hz", HZ]);
    let details = report["subjects"].as_array().unwrap();
    let sum = |kind: &str| -> u64 {
        details.iter().filter(|row| row["subject_kind"] == kind).map(|row| row["count"].as_u64().unwrap()).sum()
    };
    // Counts of 0x82016 and 0x82216, 0x8200c and 0x8200d, 0x8200e, 0x82012, 0x82108 and 0x82109, 0x82017 and 0x82217.
    assert_eq!(
        ["port", "msr", "cpuid", "xen_hypercall", "control_register", "mmio"].map(sum),
        [5335 + 93, 231 + 77, 1232, 154, 154 + 385, 77 + 159]
    );
    let port =
        |key: u64| details.iter().find(|row| row["subject_kind"] == "port" && row["subject_key"] == key).unwrap();
    assert_eq!((port(0x3fd)["direction"].as_str(), port(0x3fd)["subject_name"].as_str()), (Some("in"), Some("COM1")));
    let call = details.iter().find(|row| row["subject_kind"] == "xen_hypercall" && row["subject_key"] == 29).unwrap();
    assert_eq!((call["subject_name"].as_str(), call["count"].as_u64()), (Some("sched_op"), Some(77)));
    assert_eq!(report["injected"], serde_json::json!([{ "vector": 64, "count": 77 }]));
    // Nothing names the vCPU of this log.
    assert_eq!((report["vcpus"][0]["on_cpu"].as_u64(), report["vcpus"][0].get("vcpu")), (Some(1), None));
}

#[test]
fn report_events_and_diff_work_on_every_log() {
    for name in ["hvm1_boot_mem", "pvh1_hvm"].into_iter().chain(LOGS) {
        let (path, hz) = (log(name), ["--tsc-hz", "2596120000"]);
        let output = run(&[&["report", &path, "--all"][..], &hz].concat());
        assert!(output.status.success() && stderr(&output).is_empty(), "{name}: {}", stderr(&output));
        let page = stdout(&output);
        assert!(page.contains("xentrace (SVM, as its exit codes show)"), "{name}");
        assert_eq!(page.contains("Xen's scheduler"), LOGS.contains(&name), "{name}");
        let output = run(&[&["events", &path, "--format", "json"][..], &hz].concat());
        let lines = stdout(&output);
        let exits = lines.lines().filter(|line| line.contains("\"kind\":\"exit\"")).count();
        assert!(output.status.success() && exits > 400, "{name}: {exits} exits");
        let output = run(&[&["diff", &path, &log("pvh64_all")][..], &hz].concat());
        assert!(output.status.success() && stdout(&output).contains("Change by reason"), "{name}");
    }
}

#[test]
fn every_event_is_in_a_row_or_in_the_ledger() {
    for name in ["hvm1_boot_mem", "pvh1_hvm"].into_iter().chain(LOGS) {
        for keep in [EventFilter::All, EventFilter::Used] {
            let options = SourceOptions { clock_hz: Some(1_000_000_000), keep, ..SourceOptions::default() };
            let mut source = open_input(Input::open(log(name).as_ref()).unwrap(), options).unwrap();
            let (mut events, mut rows, mut ledger) = (Vec::new(), Vec::new(), Ledger::default());
            while source.read(&mut events, &mut ledger).unwrap() {}
            let mut assembler = Assembler::by_vcpu();
            assembler.push(&events, &mut rows, &mut ledger);
            assembler.finish(&mut rows, &mut ledger);
            let inside: u64 = rows.iter().map(|row| u64::from(row.events)).sum();
            assert_eq!(inside + ledger.events_outside_rows(), ledger.events, "{name}");
        }
    }
}

#[test]
fn domain_0_is_selected_by_its_number() {
    let report = report(&[log("pvh64_all").as_ref()], &["--tsc-hz", HZ, "--vm", "0"]);
    let rows = report["run_states"].as_array().unwrap();
    assert_eq!(rows.len(), 1);
    assert_eq!((rows[0]["vm"].as_u64(), rows[0]["vm_name"].as_str()), (Some(0), Some("Domain-0")));
    assert_eq!(report["total"]["count"], 0);
}

#[test]
fn without_a_rate_there_is_an_error_that_says_what_to_do() {
    let path = log("pvh1_hvm");
    let output = run(&["report", &path]);
    assert_eq!(output.status.code(), Some(2));
    let message = stderr(&output);
    assert!(
        message.contains("--tsc-hz") && message.contains("cpu_mhz") && message.contains("pvh1_hvm.xentrace.xl-info")
    );
    // Told the wrong vendor, the codes are read as that one's, and the report says that it was told.
    let output = run(&["report", &path, "--all", "--tsc-hz", HZ, "--xen-mode", "vmx"]);
    assert!(stdout(&output).contains("xentrace (VMX, as told)"));
}

/// Names that the tests above use are those of the codes.
#[test]
fn names_are_of_amds_codes() {
    for (code, name) in [(0x7b, "io"), (0x72, "cpuid"), (0x400, "npf"), (0x89, "wbinvd"), (0x81, "hypercall")] {
        assert_eq!(ExitCode::new(CodeList::Svm, code).name(), name);
    }
    assert_eq!((VmId::domain(6).number(), VcpuId(0).number()), (Some(6), Some(0)));
}

#[test]
fn halts_without_run_states_are_no_cost() {
    let of = report(&[&corpus("xen/pvh1_hvm.xentrace.gz")], &["--tsc-hz", "2596120000"]);
    let hlt = of["rows"].as_array().unwrap().iter().find(|row| row["reason"] == "hlt").unwrap();
    assert_eq!((&hlt["count"], &hlt["cost_ns"], &hlt["halted_ns"]), (&77.into(), &0.into(), &0.into()));
    assert_eq!(hlt["halt_not_divided_ns"], hlt["exit_time_ns"]);
    let with = report(&[&corpus("xen/pvh2_contend_sched_hvm.xentrace.gz")], &["--tsc-hz", "2596120000"]);
    let hlt = with["rows"].as_array().unwrap().iter().find(|row| row["reason"] == "hlt").unwrap();
    assert_eq!(hlt["halt_not_divided_ns"], 0);
}
