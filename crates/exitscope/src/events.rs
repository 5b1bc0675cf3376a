//! `exitscope events`.

use crate::Outcome;
use crate::cli::{EventsArgs, EventsFormat};
use exitscope_model::{Ledger, Severity};
use exitscope_trace::{Input, Options};
use exitscope_view::{EventRow, event_text};
use std::io::Write;

pub fn run(args: &EventsArgs, out: &mut dyn Write) -> anyhow::Result<Outcome> {
    let options = Options { clock_hz: args.clock.tsc_hz, only_used: false };
    let mut source = exitscope_trace::open_input(Input::open(&args.file)?, options)?;
    let mut ledger = Ledger::default();
    let mut events = Vec::new();
    loop {
        events.clear();
        let more = source.read(&mut events, &mut ledger)?;
        let names = &source.info().names;
        for event in &events {
            match args.format {
                EventsFormat::Text => writeln!(out, "{}", event_text(event, names))?,
                EventsFormat::Json => {
                    serde_json::to_writer(&mut *out, &EventRow::of(event, names))?;
                    writeln!(out)?;
                }
            }
        }
        if !more {
            break;
        }
    }
    for (line, count) in ledger.lines().filter(|row| row.0.severity() >= Severity::Loss) {
        let first = ledger.first(line).map_or(String::new(), |at| format!(" (first at {at})"));
        anstream::eprintln!("exitscope: {count}: {}{first}", line.prose());
    }
    Ok(Outcome::Fine)
}
