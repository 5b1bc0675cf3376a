//! Intervals one after the other: for the caller to write, or on the screen until the user leaves it.

use crate::batch;
use crate::columns::{ColumnChoice, TopColumn};
use crate::frame::Frame;
use crate::recorder::{ChildCommands, ChildError, ChildRecorder};
use crate::sampler::Sampler;
use crate::screen;
use crate::screen_state::ScreenState;
use exitscope_model::TraceInfo;
use exitscope_record::{Processes, RecordError};
use exitscope_view::TerminalStyle;
use ratatui::crossterm::event::{self, Event, KeyEventKind};
use std::io::{self, Write};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// How long a request to end may wait.
const TURN: Duration = Duration::from_millis(100);

/// What is watched, and how.
#[derive(Clone, Debug)]
pub struct TopOptions {
    /// The processes whose VMs are watched.
    pub processes: Processes,
    /// VMs of this name are watched as they come.
    pub vm_name: Option<String>,
    /// Counts by perf events.
    pub without_bpf: bool,
    /// This host, as a recording of it would say.
    pub host: TraceInfo,
    /// How long an interval is.
    pub interval: Duration,
    /// Intervals until the end; `None`: without end.
    pub iterations: Option<u64>,
    /// The list's columns, in their order; without any, all of which there is something.
    pub columns: Vec<TopColumn>,
}

/// Why the screen ended early.
#[derive(Debug, thiserror::Error)]
pub enum ScreenError {
    /// Counting failed.
    #[error(transparent)]
    Count(#[from] RecordError),
    /// The terminal cannot be made a screen.
    #[error("cannot use this terminal")]
    Terminal(#[source] io::Error),
    /// The terminal gives no keys.
    #[error("cannot read the keyboard")]
    Keyboard(#[source] io::Error),
    /// The terminal takes no text.
    #[error(transparent)]
    Draw(io::Error),
}

/// Counting at work, and what is shown of it.
pub struct Top {
    sampler: Sampler,
    state: ScreenState,
    interval: Duration,
    /// Intervals that are left.
    left: Option<u64>,
}

impl Top {
    /// Begins to count. Errors say what to do about them.
    pub fn start(options: TopOptions) -> Result<Top, RecordError> {
        let (interval, left) = (options.interval, options.iterations);
        let state = ScreenState { columns: ColumnChoice::of(&options.columns), ..ScreenState::default() };
        Ok(Top { sampler: Sampler::start(options)?, state, interval, left })
    }

    /// The next interval, at its end; `None` after the last one, and as soon as it `is_over`.
    pub fn next_interval(&mut self, is_over: impl Fn() -> bool) -> Result<Option<Frame>, RecordError> {
        if self.is_last() || !wait(self.interval, is_over) {
            return Ok(None);
        }
        self.take().map(Some)
    }

    fn is_last(&self) -> bool {
        self.left == Some(0)
    }

    fn take(&mut self) -> Result<Frame, RecordError> {
        let frame = self.sampler.take()?;
        self.state.remember(&frame);
        self.left = self.left.map(|left| left.saturating_sub(1));
        Ok(frame)
    }

    /// Writes the latest interval as a page of text, with the columns of the options.
    pub fn write_text(&self, frame: &Frame, look: TerminalStyle, out: &mut dyn Write) -> io::Result<()> {
        batch::write_text(frame, &self.state, look, out)
    }

    /// Shows intervals until the user leaves, the last one was shown, or it `is_over`. Recordings that the user wants are made
    /// by `commands`; after the screen, `say` gets what became of the one that was at work.
    pub fn show(
        mut self,
        commands: &dyn ChildCommands,
        is_over: impl Fn() -> bool,
        say: impl Fn(&str),
    ) -> Result<(), ScreenError> {
        // Restores the terminal when the loop ends in whatever way, and when it panics.
        let mut terminal = ratatui::try_init().map_err(ScreenError::Terminal)?;
        let mut recorder = ChildRecorder::new(commands);
        let ended = self.watch(&mut terminal, &mut recorder, is_over);
        ratatui::restore();
        recorder.end(say);
        ended
    }

    fn watch(
        &mut self,
        terminal: &mut ratatui::DefaultTerminal,
        recorder: &mut ChildRecorder,
        is_over: impl Fn() -> bool,
    ) -> Result<(), ScreenError> {
        let mut frame = Frame::default();
        let mut next = Instant::now() + self.interval;
        let mut changed = true;
        loop {
            if changed {
                terminal.draw(|to| screen::draw(to, &frame, &mut self.state)).map_err(ScreenError::Draw)?;
            }
            changed = false;
            let left = next.saturating_duration_since(Instant::now());
            if event::poll(left.min(TURN)).map_err(ScreenError::Keyboard)? {
                match event::read().map_err(ScreenError::Keyboard)? {
                    Event::Key(key) if key.kind != KeyEventKind::Release => self.state.key(key, &frame),
                    _ => {}
                }
                changed = true;
            }
            if self.state.quit || is_over() {
                return Ok(());
            }
            changed |= go_on(recorder, &mut self.state, terminal.size().map_err(ScreenError::Draw)?.width);
            if Instant::now() >= next {
                // What happens while it is paused is in no frame, but time goes on: the next is of one interval again.
                let taken = self.take()?;
                if !self.state.paused {
                    frame = taken;
                    changed = true;
                }
                if self.is_last() {
                    return Ok(());
                }
                next = Instant::now() + self.interval;
            }
        }
    }
}

/// False as soon as it `is_over`.
fn wait(interval: Duration, is_over: impl Fn() -> bool) -> bool {
    let until = Instant::now() + interval;
    while !is_over() {
        match until.checked_duration_since(Instant::now()) {
            Some(left) if !left.is_zero() => sleep(left.min(TURN)),
            _ => return true,
        }
    }
    false
}

/// Begins what the user wants recorded, and shows what has become of it; true if there is something new.
fn go_on(recorder: &mut ChildRecorder, state: &mut ScreenState, columns: u16) -> bool {
    let came = begin(recorder, state, columns).and_then(|()| recorder.poll(columns));
    let is_new = !matches!(came, Ok(None));
    match came {
        Ok(Some(report)) => state.report = Some(report),
        Ok(None) => {}
        Err(error) => state.trouble = Some(error.to_string()),
    }
    let progress = recorder.progress();
    let has_changed = is_new || progress != state.progress;
    state.progress = progress;
    has_changed
}

fn begin(recorder: &mut ChildRecorder, state: &mut ScreenState, columns: u16) -> Result<(), ChildError> {
    if let Some(target) = state.wanted.take() {
        recorder.record(&target)?;
    }
    match state.report.as_mut().filter(|report| report.wants_other) {
        Some(report) => {
            report.wants_other = false;
            recorder.report(report.file.clone(), !report.is_all, columns)
        }
        None => Ok(()),
    }
}
