//! Recordings of which is known how often and for how long a vCPU waited, and of which is known what is missing.

use super::steps::{Outcome, equal};
use anyhow::{Context, ensure};
use serde_json::Value;

/// What tiny-guest does in one run: halts with a wake-up pending, halts that last, stops.
const PENDING: u64 = 23;
const SLEEPS: u64 = 7;
const STOPS: u64 = 5;

/// Port accesses of one run without a flag, each of which is an exit of reason io.
const IO: u64 = 40;

const MILLISECOND: u64 = 1_000_000;

/// Every halt is an exit, and none of them blocked.
pub fn halts_that_found_an_event_pending(outcome: &Outcome) -> anyhow::Result<String> {
    let (report, halts) = (outcome.report("trace")?, 11 * PENDING);
    let wakeups = count(&outcome.events("trace")?, |event| event["event"] == "kvm:kvm_vcpu_wakeup");
    equal(&[
        ("exits of reason hlt", report.of("hlt"), halts),
        ("writes to port 0x10", report.about("port", |port, way| (port, way) == (0x10, "out")), halts),
        ("wake-ups", wakeups, 0),
        ("ns of these in halts", report.parts_of("hlt", &["polling_ns", "halted_ns", "halt_not_divided_ns"]), 0),
    ])?;
    ensure!(report.parts_of("hlt", &["cost_ns"]) > 0, "halts that find a wake-up pending cost");
    Ok(format!("{halts} halts that found a wake-up pending, and did not block"))
}

/// Every halt blocked until its timer fired, 100 ms after KVM_SET_LAPIC.
pub fn halts_of_a_known_length(outcome: &Outcome) -> anyhow::Result<String> {
    let report = outcome.report("trace")?;
    let wakeups = count(&outcome.events("trace")?, |event| event["event"] == "kvm:kvm_vcpu_wakeup");
    equal(&[("exits of reason hlt", report.of("hlt"), SLEEPS), ("wake-ups", wakeups, SLEEPS)])?;
    let time = report.time_of("hlt");
    within("time of halts", time, SLEEPS * 100 * MILLISECOND)?;
    let blocked = report.parts_of("hlt", &["halted_ns", "halt_not_divided_ns", "steal_ns"]);
    within("time of halts blocked", blocked, SLEEPS * 100 * MILLISECOND)?;
    // The first may be over before the recorder follows its thread.
    let halted = report.parts_of("hlt", &["halted_ns"]);
    ensure!(halted >= (SLEEPS - 2) * 100 * MILLISECOND, "{halted} ns halted");
    Ok(format!("{SLEEPS} halts of 100 ms, {} ms in all", time / MILLISECOND))
}

/// Every stop lasted 500 ms, from KVM_EXIT_INTR to the entry after it.
pub fn stops_of_a_known_length(outcome: &Outcome) -> anyhow::Result<String> {
    const EINTR: i64 = -4;
    let events = outcome.events("trace")?;
    let at = |event: &Value| event["at_ns"].as_u64().context("an event has a moment");
    let mut times = Vec::new();
    for (stop, event) in events.iter().enumerate().filter(|(_, event)| event["errno"] == EINTR) {
        let entry = events[stop..].iter().find(|event| event["event"] == "kvm:kvm_entry").context("it runs again")?;
        times.push(at(entry)? - at(event)?);
    }
    equal(&[("stops", times.len() as u64, STOPS)])?;
    times.iter().try_for_each(|&time| within("a stop", time, 500 * MILLISECOND))?;
    let report = outcome.report("trace")?;
    // A signal comes in an exit, mostly one for an interrupt, which lasts as long.
    ensure!(report.time_of_all() >= times.iter().sum(), "exits are shorter than the stops in them");
    within("time stopped", report.stopped(), STOPS * 500 * MILLISECOND)?;
    Ok(format!("{STOPS} stops of 500 ms"))
}

/// Two guests stayed on a CPU each; without the buffer of CPU 1, the report has the first one's exits and no others.
pub fn nothing_stands_in_for_a_buffer_that_is_gone(outcome: &Outcome) -> anyhow::Result<String> {
    let report = outcome.report("trace")?;
    equal(&[("exits of reason io on both CPUs", report.of("io"), (37 + 41) * IO)])?;
    let mut bytes = std::fs::read(outcome.folder.join("trace"))?;
    take_buffer(&mut bytes, 1).context("it is no trace.dat of version 6")?;
    std::fs::write(outcome.folder.join("taken"), bytes)?;
    let report = outcome.report_of_damaged("taken")?;
    equal(&[("exits of reason io on CPU 0", report.of("io"), 37 * IO), ("halts on CPU 0", report.of("hlt"), 37)])?;
    Ok("without the buffer of CPU 1, the counts of the guest on CPU 0".to_string())
}

/// Has a trace.dat of version 6 hold no data of a CPU: after "flyrecord" there is, for each, where its data begins and how
/// much it is (trace-cmd.dat.v6(5)).
fn take_buffer(trace: &mut [u8], cpu: usize) -> Option<()> {
    const BEFORE: &[u8] = b"flyrecord\0";
    let table = trace.windows(BEFORE.len()).position(|window| window == BEFORE)? + BEFORE.len();
    trace.get_mut(table + 16 * cpu + 8..)?.get_mut(..8)?.fill(0);
    Some(())
}

fn count(events: &[Value], wanted: impl Fn(&&Value) -> bool) -> u64 {
    events.iter().filter(wanted).count() as u64
}

/// It took as long as it was to take, but for a fifth: an emulator is slow, and a timer counts from before the exit.
fn within(what: &str, found: u64, wanted: u64) -> anyhow::Result<()> {
    let about = wanted - wanted / 5..=wanted + wanted / 5;
    ensure!(about.contains(&found), "{what}: {found} ns, not {wanted} ns");
    Ok(())
}
