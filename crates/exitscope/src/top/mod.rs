//! `exitscope top`: what this host's virtual machines leave their guests for, as it happens.
//!
//! ```text
//! Aggregation ─► Sampler, every interval ─► Frame ─┬─► Screen, with what State says the user looks at
//!                                                  └─► text or JSON (--batch)
//! ```

mod batch;
mod frame;
mod gangs;
mod kernel;
mod list;
mod panels;
mod sampler;
mod screen;
mod state;
mod sums;
mod text;

use crate::Outcome;
use crate::cli::{EventsFormat, TopArgs};
use crate::report::look;
use anyhow::{Context, bail};
use exitscope_lab::{catch_signals, signalled};
use exitscope_record::{Aggregation, Counting};
pub use frame::Frame;
use ratatui::crossterm::event::{self, Event, KeyEventKind};
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
    catch_signals()?;
    let processes = args.whose.running()?;
    let counting =
        Counting { processes: processes.clone(), without_bpf: args.no_bpf, with_cores: true, ..Counting::default() };
    let mut sampler = Sampler::new(Aggregation::start(&counting)?, &processes, args.whose.vm.clone());
    let interval = Duration::from_nanos(args.interval.0);
    if is_batch {
        for turn in 0.. {
            if args.iterations.is_some_and(|most| turn >= most) || !wait(interval) {
                break;
            }
            let frame = sampler.take()?;
            match args.format {
                EventsFormat::Json => batch::write_json(&frame, out)?,
                EventsFormat::Text => batch::write_text(&frame, look(), out)?,
            }
            out.flush()?;
        }
        return Ok(Outcome::Fine);
    }
    std::thread::spawn(end_without_terminal);
    // Restores the terminal when the loop ends in whatever way, and when it panics.
    let mut terminal = ratatui::try_init().context("cannot use this terminal")?;
    let ended = watch(&mut terminal, &mut sampler, interval, args.iterations);
    ratatui::restore();
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
    interval: Duration,
    iterations: Option<u64>,
) -> anyhow::Result<()> {
    let mut state = State::default();
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
