//! Clients that ask for a page of what happens now and leave before it is made. The memory that this takes is that of the
//! whole process, so this is the only test here.

mod common;

use common::corpus;
use exitscope_http::{ServerAccess, SseEvent, Timeouts, serve};
use exitscope_model::{EventNames, Ledger};
use exitscope_pipeline::{RecentSlices, SampleDecoder};
use exitscope_serve::{LiveView, Pages, ServedContent};
use exitscope_trace::open;
use exitscope_units::Nanos;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{scope, sleep};
use std::time::Duration;
use tokio::sync::watch;

/// Clients that come at a time: more than are let wait.
const CLIENTS: usize = 120;

/// How often they come.
const WAVES: usize = 10;

/// What is kept: all of it.
const KEEP: Nanos = Nanos(600_000_000_000);

/// A ring that had the events of a recording, as a capture would have them.
fn ring() -> Arc<Mutex<RecentSlices>> {
    let mut source = open(&corpus("x86-svm/t2.data.gz")).unwrap();
    let (mut events, mut ledger) = (Vec::new(), Ledger::default());
    while source.read(&mut events, &mut ledger).unwrap() {}
    let mut ring = RecentSlices::new(source.info().clone(), events[0].at, KEEP);
    let mut decoder = SampleDecoder::new(&[], &mut EventNames::default());
    for events in events.chunks(1000) {
        decoder.events = events.to_vec();
        ring.absorb(&decoder, events[events.len() - 1].at);
        decoder.clear();
    }
    Arc::new(Mutex::new(ring))
}

/// A client that asks, and leaves after that time.
fn ask(address: SocketAddr, leave_after: Duration) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(b"GET /live/data HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    sleep(leave_after);
}

/// A client that stays until it has the answer.
fn ask_and_stay(address: SocketAddr) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(b"GET /live/data HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    assert!(answer.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&answer[..100]));
}

/// The most MB that this process had resident while that was done.
fn peak_of(done: impl FnOnce()) -> u64 {
    std::fs::write("/proc/self/clear_refs", "5").unwrap();
    done();
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    peak.trim().trim_end_matches(" kB").parse::<u64>().unwrap() >> 10
}

#[test]
fn who_leaves_takes_no_more_memory_than_who_stays() {
    let (tell, notes) = watch::channel(SseEvent::default());
    let (stop, version) = (AtomicBool::new(false), AtomicU64::new(0));
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, ring) = (listener.local_addr().unwrap(), ring());
    // As when a second has passed: what was made before is not what is shown now.
    let go_on = || {
        let id = version.fetch_add(1, Ordering::Relaxed).to_string();
        tell.send_replace(SseEvent { id, data: String::new() });
    };
    scope(|threads| {
        threads.spawn(|| {
            let patience = Timeouts { answer: Duration::from_secs(60), ..Timeouts::default() };
            let shown = ServedContent::Live(Rc::new(LiveView::new(KEEP, ring, notes)));
            let access = ServerAccess { patience, ..ServerAccess::default() };
            serve(listener, access, Pages::new(shown), || stop.load(Ordering::Relaxed)).unwrap();
        });
        let one = peak_of(|| {
            for _ in 0..3 {
                go_on();
                ask_and_stay(address);
            }
        });
        let mut most = 0;
        for leave_after in [0, 50, 500].map(Duration::from_millis) {
            let all = peak_of(|| {
                for _ in 0..WAVES {
                    go_on();
                    scope(|clients| {
                        for _ in 0..CLIENTS {
                            clients.spawn(|| ask(address, leave_after));
                        }
                    });
                }
                // What they asked for may be still being made.
                ask_and_stay(address);
            });
            println!("one client who stays: {one} MB; {CLIENTS} who leave after {leave_after:?}: {all} MB");
            most = most.max(all);
        }
        stop.store(true, Ordering::Relaxed);
        assert!(most <= 2 * one, "{most} MB, with one client who stays {one} MB");
    });
}
