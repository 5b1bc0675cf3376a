//! `exitscope events`.

use crate::cli::{EventsArgs, EventsFormat};
use crate::read::{self, RecordingAccess};
use crate::{Outcome, write_json};
use exitscope_analysis::Selection;
use exitscope_model::encode::line;
use exitscope_model::{Event, EventKind, EventNames, ExitInfo, Ledger};
use exitscope_trace::{EventFilter, SourceOptions};
use exitscope_view::{Coverage, EventRow, event_text};
use std::io::Write;

pub fn run(args: &EventsArgs, out: &mut dyn Write) -> anyhow::Result<Outcome> {
    // Each flag is named, so that a new one has an effect.
    let EventsArgs { file, input, tids, from, to, clock, format } = args;
    let file = read::files(file.as_slice(), input.as_slice())?.remove(0);
    let access = RecordingAccess::of(clock);
    let options = SourceOptions { exit_info: true, ..access.source(EventFilter::All) };
    let mut source = exitscope_trace::open_input(access.open_one(&file)?, options)?;
    let mut ledger = Ledger::default();
    let mut events = Vec::new();
    let mut selection = Selection::default();
    (selection.from, selection.to) = (*from, *to);
    let mut window = None;
    let mut print = |event: &Event, info: &ExitInfo, names: &EventNames| -> anyhow::Result<()> {
        let (from, to) = *window.get_or_insert_with(|| selection.window(event.at));
        let is_of = |tid: &u32| {
            let other = match event.kind {
                EventKind::Switch { next, .. } => next,
                EventKind::Wakeup { tid } => tid,
                _ => event.tid,
            };
            event.tid.0 == *tid || other.0 == *tid
        };
        if event.at < from || event.at > to || !(tids.is_empty() || tids.iter().any(is_of)) {
            return Ok(());
        }
        let row = EventRow::of(event, info, names);
        match format {
            EventsFormat::Text => writeln!(out, "{}", line(&event_text(event.at, row)))?,
            EventsFormat::Json => write_json(&row, out)?,
        }
        Ok(())
    };
    let nothing = ExitInfo::default();
    // The last event if it is an exit: what it says besides may follow.
    let mut exit: Option<Event> = None;
    loop {
        events.clear();
        let more = source.read(&mut events, &mut ledger)?;
        let names = &source.info().names;
        for event in &events {
            let before = exit.take();
            if let EventKind::ExitInfo(info) = event.kind {
                before.iter().try_for_each(|exit| print(exit, &info, names))?;
                continue;
            }
            before.iter().try_for_each(|exit| print(exit, &nothing, names))?;
            match event.kind {
                EventKind::Exit { .. } => exit = Some(*event),
                _ => print(event, &nothing, names)?,
            }
        }
        if !more {
            exit.iter().try_for_each(|exit| print(exit, &nothing, names))?;
            break;
        }
    }
    for line in Coverage::of(&ledger, 0, 0).damage() {
        say!("{line}");
    }
    Ok(Outcome::Fine)
}
