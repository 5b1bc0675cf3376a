//! `exitscope top`: what this host's virtual machines leave their guests for, as it happens.
//!
//! ```text
//! LiveCounts ─► Sampler, every interval ─► Frame ─┬─► Screen, with what State says the user looks at
//!                                                  └─► text or JSON (--batch)
//! R ─► ChildRecorder: exitscope record, exitscope report ─► ReportText ─► Screen
//! ```

mod batch;
mod choices;
mod chooser;
mod columns;
mod figures;
mod frame;
mod gangs;
mod help;
mod history;
mod line;
mod list;
mod panels;
mod recorder;
mod report_text;
mod sampler;
mod screen;
mod state;
mod text;
mod timeline;
mod verdict;

use crate::Outcome;
use crate::cli::{EventsFormat, TopArgs};
use crate::report::look;
use anyhow::{Context, bail};
use columns::ColumnChoice;
use exitscope_record::Counting;
use exitscope_signals::{catch_signals, signalled};
pub use frame::Frame;
use ratatui::crossterm::event::{self, Event, KeyEventKind};
use recorder::{ChildOutcome, ChildRecorder};
use sampler::Sampler;
use state::State;
use std::io::{self, IsTerminal, Write};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// How long a signal may wait.
const TURN: Duration = Duration::from_millis(100);

/// How long an orderly end may take after a signal.
const PATIENCE: Duration = Duration::from_secs(3);

pub fn run(args: &TopArgs, out: &mut dyn Write) -> anyhow::Result<Outcome> {
    let is_batch = args.batch || args.format == EventsFormat::Json;
    let is_terminal = io::stdout().is_terminal() && io::stdin().is_terminal();
    if !is_batch && !is_terminal {
        bail!("this is not a terminal: use --batch, or --format json");
    }
    if args.format == EventsFormat::Json && !args.columns.is_empty() {
        bail!("--columns is for the screen and for text: JSON always has all columns");
    }
    catch_signals()?;
    let processes = args.whose.running()?;
    let options = Counting { processes, without_bpf: args.no_bpf, with_cores: true, ..Counting::default() };
    let interval = Duration::from_nanos(args.interval.0);
    let mut sampler = Sampler::start(&options, args.whose.vm.clone(), interval)?;
    let mut state = State { columns: ColumnChoice::of(&args.columns), ..State::default() };
    if is_batch {
        for turn in 0.. {
            if args.iterations.is_some_and(|most| turn >= most) || !wait(interval) {
                break;
            }
            let frame = sampler.take()?;
            match args.format {
                EventsFormat::Json => batch::write_json(&frame, out)?,
                EventsFormat::Text => {
                    state.remember(&frame);
                    batch::write_text(&frame, &state, look(), out)?;
                }
            }
            out.flush()?;
        }
        return Ok(Outcome::Fine);
    }
    std::thread::spawn(end_without_terminal);
    // Restores the terminal when the loop ends in whatever way, and when it panics.
    let mut terminal = ratatui::try_init().context("cannot use this terminal")?;
    let mut recorder = ChildRecorder::new(args);
    let ended = watch(&mut terminal, &mut sampler, &mut recorder, state, (interval, args.iterations));
    ratatui::restore();
    recorder.end();
    ended.map(|()| Outcome::Fine)
}

/// Ends the process after a signal if nothing else does: crossterm reads a terminal that has gone away for ever.
fn end_without_terminal() {
    while signalled().is_none() {
        sleep(TURN);
    }
    sleep(PATIENCE);
    std::process::exit(1);
}

/// False if a signal came.
fn wait(interval: Duration) -> bool {
    let until = Instant::now() + interval;
    while signalled().is_none() {
        match until.checked_duration_since(Instant::now()) {
            Some(left) if !left.is_zero() => sleep(left.min(TURN)),
            _ => return true,
        }
    }
    false
}

fn watch(
    terminal: &mut ratatui::DefaultTerminal,
    sampler: &mut Sampler,
    recorder: &mut ChildRecorder,
    mut state: State,
    (interval, iterations): (Duration, Option<u64>),
) -> anyhow::Result<()> {
    let mut frame = Frame::default();
    let (mut turn, mut next) = (0, Instant::now() + interval);
    let mut changed = true;
    loop {
        if changed {
            terminal.draw(|to| screen::draw(to, &frame, &mut state))?;
        }
        changed = false;
        let left = next.saturating_duration_since(Instant::now());
        if event::poll(left.min(TURN)).context("cannot read the keyboard")? {
            match event::read().context("cannot read the keyboard")? {
                Event::Key(key) if key.kind != KeyEventKind::Release => state.key(key, &frame),
                _ => {}
            }
            changed = true;
        }
        if state.quit || signalled().is_some() {
            return Ok(());
        }
        changed |= go_on(recorder, &mut state, terminal.size()?.width);
        if Instant::now() >= next {
            // What happens while it is paused is in no frame, but time goes on: the next is of one interval again.
            let taken = sampler.take()?;
            state.remember(&taken);
            if !state.paused {
                frame = taken;
                changed = true;
            }
            turn += 1;
            if iterations.is_some_and(|most| turn >= most) {
                return Ok(());
            }
            next = Instant::now() + interval;
        }
    }
}

/// Begins what the user wants recorded, and shows what has become of it; true if there is something new.
fn go_on(recorder: &mut ChildRecorder, state: &mut State, columns: u16) -> bool {
    let mut began = Ok(());
    if let Some(target) = state.wanted.take() {
        began = recorder.record(&target);
    }
    if let Some(report) = state.report.as_mut().filter(|report| report.wants_other) {
        report.wants_other = false;
        began = recorder.report(report.file.clone(), !report.is_all, columns);
    }
    let came = match began {
        Ok(()) => recorder.poll(columns),
        Err(error) => Some(ChildOutcome::Trouble(format!("{error:#}"))),
    };
    let is_new = came.is_some();
    match came {
        Some(ChildOutcome::Report(report)) => state.report = Some(report),
        Some(ChildOutcome::Trouble(trouble)) => state.trouble = Some(trouble),
        None => {}
    }
    let progress = recorder.progress();
    let has_changed = is_new || progress != state.progress;
    state.progress = progress;
    has_changed
}
