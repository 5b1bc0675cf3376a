//! `exitscope events`.

use crate::Outcome;
use crate::cli::{EventsArgs, EventsFormat};
use crate::read;
use exitscope_model::Ledger;
use exitscope_trace::Keep;
use exitscope_view::{Coverage, EventRow, event_text};
use std::io::Write;

pub fn run(args: &EventsArgs, out: &mut dyn Write) -> anyhow::Result<Outcome> {
    let file = read::files(args.file.as_slice(), args.input.as_slice())?.remove(0);
    let mut source = exitscope_trace::open_input(read::open_one(&file, &args.clock)?, args.clock.options(Keep::All))?;
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
    for line in Coverage::of(&ledger, 0, 0).damage() {
        anstream::eprintln!("exitscope: {line}");
    }
    Ok(Outcome::Fine)
}
