//! The page of what happens now is that of a recording of the same, however its time is sliced.

mod common;

use common::{corpus, data_of, page_data, run, stderr};
use exitscope_model::{EventNames, Ledger};
use exitscope_pipeline::{RecentSlices, SampleDecoder};
use exitscope_serve::write_live_page;
use exitscope_trace::open;
use exitscope_units::Nanos;
use serde_json::Value;
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// Slices that a ring keeps.
const SLICES: u64 = 30;

/// Longer than any of the recordings, thirty times.
const LONG: Nanos = Nanos(600_000_000_000);

/// The page that a ring gives which had the events of a recording, so many at a time.
fn through_ring(path: &Path, keep: Nanos, batch: usize) -> Value {
    let mut source = open(path).unwrap();
    let (mut events, mut ledger) = (Vec::new(), Ledger::default());
    while source.read(&mut events, &mut ledger).unwrap() {}
    let mut ring = RecentSlices::new(source.info().clone(), events[0].at, keep);
    let mut feed = SampleDecoder::new(&[], &mut EventNames::default());
    feed.named = source.info().comms.iter().map(|(thread, name)| (*thread, name.clone())).collect();
    feed.ledger = ledger;
    for events in events.chunks(batch) {
        feed.events = events.to_vec();
        ring.absorb(&feed, events[events.len() - 1].at);
        feed.clear();
    }
    let mut packed = Vec::new();
    write_live_page(ring.copy(), &mut packed).unwrap();
    page_data(&packed)
}

/// The page of a recording.
fn page_of(path: &Path) -> Value {
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("page.html");
    let output = run(&["report", path.to_str().unwrap(), "--html", page.to_str().unwrap()]);
    assert!(output.status.success(), "{}", stderr(&output));
    data_of(&page)
}

/// A recording of a simulated run.
fn simulated(folder: &Path, scenario: &str) -> PathBuf {
    let (text, trace) = (folder.join("scenario.toml"), folder.join("run.data"));
    std::fs::write(&text, scenario).unwrap();
    let output = run(&["sim", text.to_str().unwrap(), "--trace", trace.to_str().unwrap()]);
    assert!(output.status.success(), "{}", stderr(&output));
    trace
}

/// Whether a ring, in one slice and in many, says what a page of the recording says. Returns the latter.
fn same_in_any_slices(path: &Path) -> Value {
    let wanted = page_of(path);
    let trace = &wanted["report"]["traces"][0];
    let [first, last] = ["first_ns", "last_ns"].map(|end| trace[end].as_u64().unwrap());
    let many = Nanos(last - first + 1);
    for (keep, batch) in [(LONG, usize::MAX), (many, 1000), (many, 77)] {
        let page = through_ring(path, keep, batch);
        for part in ["total", "vcpus", "rows", "subjects", "slowest", "halt", "yield", "pio", "phases", "duration_ns"] {
            assert_eq!(page["report"][part], wanted["report"][part], "{path:?} {keep} {batch}: {part}");
        }
        assert_eq!(page["report"]["coverage"]["exits"], wanted["report"]["coverage"]["exits"]);
        assert_eq!(
            page["timelines"]["vcpus"].as_array().unwrap().len(),
            wanted["timelines"]["vcpus"].as_array().unwrap().len()
        );
        for part in ["facts", "advice", "accepted_costs", "not_judged", "causes"] {
            assert_eq!(page["advice"][part], wanted["advice"][part], "{path:?} {keep} {batch}: {part}");
        }
        assert_eq!(page["polls"], wanted["polls"], "{path:?} {keep} {batch}");
    }
    wanted
}

/// What is advised, one line each.
fn changes(page: &Value) -> String {
    let rows = page["advice"]["advice"].as_array().unwrap().iter();
    rows.map(|row| row["change"].as_str().unwrap()).collect::<Vec<_>>().join("\n")
}

/// Two vCPUs exchange messages and halt between; nobody polls.
const PING_PONG: &str = "name = 'two'\nduration = '300ms'\n[host]\ncores = 2\n[policies]\nhalt_poll_ns = 0\n[costs]\n\
    wake_latency = '20us'\n[[channel]]\nname = 'pipe'\nlatency = '10us'\ndoorbell = 'memory'\n[[vm]]\nname = 'pair'\n\
    vcpus = 2\n[[vm.program]]\nvcpus = [0]\nlibrary = 'ping_pong'\nrole = 'client'\n[[vm.program]]\nvcpus = [1]\n\
    library = 'ping_pong'\nrole = 'server'\n";

/// Six vCPUs spin for one lock, and nobody waits for a CPU: 170,000 yields.
const IN_VAIN: &str = "name = 'six'\nduration = '100ms'\n[host]\ncores = 8\n[policies]\nple_window_grow = 1\n[[thread]]\nname = 'cron'\n\
    steps = [{ forever = [{ sleep = '2ms' }, { compute = '20us' }] }]\n[[vm]]\nname = 'web'\nvcpus = 6\nlocks = ['l']\n\
    [[vm.program]]\nsteps = [{ forever = [{ compute = { exponential = '5us' } }, { lock = 'l' }, { compute = '60us' }, { \
    unlock = 'l' }] }]\n";

#[test]
fn however_it_is_sliced_it_is_what_a_report_says() {
    let page = same_in_any_slices(&corpus("x86-svm/t2.data.gz"));
    assert!(changes(&page).contains("keep other tasks off the vCPUs' CPUs"), "{}", changes(&page));
    assert!(!page["polls"].is_null());
    for name in ["x86-svm/t4-kvmstat.data.gz", "lab/contended.data.gz", "arm64/arm.dat.gz"] {
        same_in_any_slices(&corpus(name));
    }
}

#[test]
fn however_it_is_sliced_settings_are_tried_on_the_same() {
    let folder = tempfile::tempdir().unwrap();
    for (scenario, advised) in
        [(PING_PONG, "lengthen host halt polling"), (PING_PONG, "let the guest poll"), (IN_VAIN, "let vCPUs spin")]
    {
        let page = same_in_any_slices(&simulated(folder.path(), scenario));
        assert!(changes(&page).contains(advised), "{advised}: {}", changes(&page));
    }
}

#[test]
fn of_more_than_is_kept_it_is_said_that_nothing_was_tried() {
    let folder = tempfile::tempdir().unwrap();
    let trace = simulated(folder.path(), &IN_VAIN.replace("100ms", "200ms"));
    for keep in [LONG, Nanos(200_000_000)] {
        let page = through_ring(&trace, keep, 1000);
        let counted = page["report"]["yield"]["all"]["count"].as_u64().unwrap();
        assert!(counted > 300_000, "{counted}");
        let not_judged = page["advice"]["not_judged"].as_array().unwrap().iter();
        let what: Vec<_> = not_judged.map(|row| row["what"].as_str().unwrap()).collect();
        assert!(what.contains(&"what other windows of PAUSE loops, or none, would gain"), "{keep}: {what:?}");
        assert_eq!((changes(&page), page["advice"]["accepted_costs"].as_array().unwrap().len()), (String::new(), 0));
    }
}

#[test]
fn what_a_guest_said_in_an_earlier_slice_holds_in_the_later_ones() {
    // It says that it polls, that it does not, and that it does; and halts every millisecond.
    let mut text = "# tracer: nop\n#\n".to_string();
    let mut line = |task: &str, at_us: u64, event: &str| {
        writeln!(text, "  {task}  [002] d..2. 100.{at_us:06}: {event}").unwrap();
    };
    let (vcpu, other) = ("CPU 0/KVM-2001", "make-77");
    let switch = |from: &str, pid: u32, state: &str, to: &str, next: u32| {
        format!(
            "sched_switch: prev_comm={from} prev_pid={pid} prev_prio=120 prev_state={state} ==> next_comm={to} \
             next_pid={next} next_prio=120"
        )
    };
    for number in 0..900 {
        let at = number * 1_000;
        if let Some(control) = [(50, 0), (300, 1), (450, 0)].iter().find(|said| said.0 == number) {
            line(vcpu, at, "kvm_exit: reason MSR_WRITE rip 0xffffffff81000000 info 0 0");
            line(vcpu, at + 2, &format!("kvm_msr: msr_write 4b564d05 = {:#x}", control.1));
            line(vcpu, at + 4, "kvm_entry: vcpu 0, rip 0xffffffff81000002");
        }
        line(vcpu, at + 100, "kvm_exit: reason HLT rip 0xffffffff81000010 info 0 0");
        line(vcpu, at + 105, &switch("CPU 0/KVM", 2001, "S", "make", 77));
        line(other, at + 600, "sched_wakeup: comm=CPU 0/KVM pid=2001 prio=120 target_cpu=002");
        line(other, at + 750, &switch("make", 77, "R", "CPU 0/KVM", 2001));
        line(vcpu, at + 755, "kvm_entry: vcpu 0, rip 0xffffffff81000011");
    }
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("idle.txt");
    std::fs::write(&trace, text).unwrap();
    let page = same_in_any_slices(&trace);
    let words = "let the guest halt without polling first";
    assert!(changes(&page).contains(words), "{}", changes(&page));
    // Of the last third of a second nothing says that the guest polls.
    let last = through_ring(&trace, Nanos(300_000_000), 77);
    assert!(!changes(&last).contains(words), "{}", changes(&last));
}

#[test]
fn only_the_last_of_it_is_kept() {
    let keep = Nanos(2_000_000_000);
    let [page, all] = [keep, LONG].map(|keep| through_ring(&corpus("x86-svm/t2.data.gz"), keep, 1000));
    let number = |of: &Value| of.as_u64().unwrap();
    let [exits, of_all] = [&page, &all].map(|page| number(&page["report"]["total"]["count"]));
    assert!(0 < exits && exits < of_all, "{exits} of {of_all}");
    let [halts, of_all] = [&page, &all].map(|page| number(&page["polls"]["replayed"]));
    assert!(0 < halts && halts < of_all, "{halts} of {of_all}");
    let trace = &page["report"]["traces"][0];
    let long = number(&trace["last_ns"]) - number(&trace["first_ns"]);
    assert!(keep.0 <= long && long <= keep.0 + keep.0 / SLICES * 2, "{long}");
    let base: u64 = page["timelines"]["base_ns"].as_str().unwrap().parse().unwrap();
    // To the bucket.
    let widest = page["timelines"]["tables"].as_array().unwrap().iter().map(|table| number(&table["width_ns"])).max();
    assert!(base + widest.unwrap() > number(&trace["first_ns"]), "nothing is older than what is kept");
}
