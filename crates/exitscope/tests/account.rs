//! What is said of where the time of a real guest went: the same by a recording, by a live page and by `top`. It is a test by
//! itself, as whoever watches has to have a CPU when the guest begins.
//!
//! All three by BPF: perf events may not have what the idle task does. Once a CPU's idle task is left marked as being within an
//! event (`perf_swevent_get_recursion_context` of kernel/events/core.c), Linux gives none of its events any more, so that a thread
//! is not seen to get the CPU from it. It was so on one CPU of a host with Linux 6.18.

mod common;

use common::server::{PATIENCE, end, front_end, live};
use common::{go, held, machine, recording};
use exitscope_skips::or_skip;
use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Parts of a vCPU's time, as `top` calls them; a report adds `_ns`.
const PARTS: [&str; 8] = ["cost", "polling", "halted", "halt_not_divided", "steal", "stopped", "guest", "unknown"];

/// `exitscope top`, which goes on.
fn top() -> (Child, impl Iterator<Item = serde_json::Value>) {
    let mut top = common::exitscope();
    top.args(["top", "--format", "json", "-d", "300ms"]).stdout(Stdio::piped());
    let mut top = top.spawn().unwrap();
    let lines = BufReader::new(top.stdout.take().unwrap()).lines();
    (top, lines.map(|line| serde_json::from_str(&line.unwrap()).unwrap()))
}

#[test]
fn a_recording_a_page_and_top_divide_the_time_of_one_guest_alike() {
    or_skip!(front_end());
    let _machine = machine();
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("perf.data");
    for flags in ["--sleep 20 --repeat 4", "--pending --repeat 1000", "--stop 50 --repeat 4"] {
        let mut guest = held(flags);
        let server = or_skip!(live(guest.id(), &[]).inspect_err(|_| end(&mut guest)));
        let (mut top, mut lines) = top();
        let mut record = common::exitscope();
        record.args(["record", "-p", &guest.id().to_string(), "-o"]).arg(&data);
        let mut record = recording(record).unwrap();
        lines.next().unwrap();
        go(&mut guest);
        assert!(guest.wait().unwrap().success());
        go(&mut record);
        assert!(record.wait().unwrap().success());

        let recorded = common::report(&[&data], &[])["vcpus"][0].take();
        let parts = |vcpu: &serde_json::Value| PARTS.map(|part| vcpu[format!("{part}_ns")].as_f64().unwrap());
        let span = recorded["span_ns"].as_f64().unwrap();
        let began = Instant::now();
        let shown = loop {
            let vcpu = server.report("/live/data")["vcpus"][0].take();
            // The last events may still be to come.
            if vcpu["span_ns"].as_f64().is_some_and(|shown| shown >= 0.99 * span) {
                break vcpu;
            }
            assert!(began.elapsed() < PATIENCE, "{vcpu}");
            sleep(Duration::from_millis(200));
        };
        let mut counted = [0.0; PARTS.len()];
        for line in lines {
            assert_eq!(line["lost"], 0);
            let vms = line["vms"].as_array().unwrap();
            let Some(vm) = vms.iter().find(|vm| vm["pid"] == guest.id()) else { continue };
            // Of no time there is no part.
            let figure = |name: &str| vm["figures"][name].as_f64().unwrap_or(0.0);
            counted.iter_mut().zip(PARTS).for_each(|(sum, part)| *sum += 1e9 * figure("vcpu_seconds") * figure(part));
            if vm["ended"] == true {
                break;
            }
        }
        top.kill().unwrap();
        top.wait().unwrap();
        let recorded = parts(&recorded);
        for (whose, parts) in [("page", parts(&shown)), ("top", counted)] {
            // A recorder follows a thread from its first event on, so that it may not see its first wait, of twenty and more.
            let is_close = recorded.iter().zip(&parts).all(|(recorded, part)| (part - recorded).abs() < 0.08 * span);
            assert!(is_close, "{flags}: {PARTS:?} of {whose}: {parts:?}, not {recorded:?}");
        }
        assert_eq!(server.end("-INT"), 0);
    }
}
