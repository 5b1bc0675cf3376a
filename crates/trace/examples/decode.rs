//! Reads a trace through and says how long that took: `decode FILE [--names]`.
//!
//! ```text
//! events 653375  out of order 0  seconds 0.0142  ns/event 21.7
//! ```

use exitscope_model::{EventKind, Ledger};
use exitscope_units::Moment;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Instant;

fn main() {
    let mut args = std::env::args().skip(1);
    let Some(file) = args.next() else {
        eprintln!("usage: decode FILE [--names]");
        std::process::exit(2);
    };
    let by_name = args.next().is_some();
    let begun = Instant::now();
    let mut source = match exitscope_trace::open(Path::new(&file)) {
        Ok(source) => source,
        Err(error) => {
            eprintln!("{error}");
            std::process::exit(1);
        }
    };
    let (mut ledger, mut batch) = (Ledger::default(), Vec::new());
    let (mut latest, mut older, mut lost) = (Moment::default(), 0u64, 0u64);
    let mut names = BTreeMap::<String, u64>::new();
    loop {
        batch.clear();
        let more = match source.read(&mut batch, &mut ledger) {
            Ok(more) => more,
            Err(error) => {
                eprintln!("{error}");
                std::process::exit(1);
            }
        };
        for event in &batch {
            older += u64::from(event.at < latest);
            latest = latest.max(event.at);
            lost += u64::from(matches!(event.kind, EventKind::Lost { .. }));
            if by_name && !matches!(event.kind, EventKind::Lost { .. }) {
                *names.entry(source.info().names.get(event.name).to_string()).or_default() += 1;
            }
        }
        if !more {
            break;
        }
    }
    let seconds = begun.elapsed().as_secs_f64();
    let events = ledger.events;
    println!(
        "events {events}  out of order {older}  losses {lost}  seconds {seconds:.4}  ns/event {:.1}",
        seconds * 1e9 / events.max(1) as f64
    );
    for (line, count) in ledger.lines() {
        println!("  {} {count} first at {:?}", line.id(), ledger.first(line));
    }
    if by_name {
        let info = source.info();
        println!(
            "  {} {} {:?} {} {} comms {}",
            info.format,
            info.arch,
            info.hostname,
            info.release,
            info.clock,
            info.comms.len()
        );
        for (name, count) in names {
            println!("{count:7} {name}:");
        }
    }
}
