//! `exitscope top`: this host's VM exits, as they happen.

use crate::cli::{EventsFormat, TopArgs};
use crate::host::LiveHost;
use crate::terminal::terminal_style;
use crate::{Outcome, write_json};
use anyhow::bail;
use exitscope_measure::this_program;
use exitscope_signals::{catch_signals, signalled};
use exitscope_top::{ChildCommands, RecordTarget, Top, TopOptions};
use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

/// How often it is looked whether a signal came.
const TURN: Duration = Duration::from_millis(100);

/// How long an orderly end may take after a signal.
const PATIENCE: Duration = Duration::from_secs(3);

pub fn run(args: &TopArgs, out: &mut dyn Write) -> anyhow::Result<Outcome> {
    let is_json = args.format == EventsFormat::Json;
    let is_batch = args.batch || is_json;
    let is_terminal = io::stdout().is_terminal() && io::stdin().is_terminal();
    if !is_batch && !is_terminal {
        bail!("this is not a terminal: use --batch, or --format json");
    }
    if is_json && !args.columns.is_empty() {
        bail!("--columns is for the screen and for text: JSON always has all columns");
    }
    catch_signals()?;
    let is_over = || signalled().is_some();
    let mut top = Top::start(TopOptions {
        processes: args.whose.running()?,
        vm_name: args.whose.vm.clone(),
        without_bpf: args.no_bpf,
        host: LiveHost::new().info(),
        interval: Duration::from_nanos(args.interval.0),
        iterations: args.iterations,
        columns: args.columns.clone(),
    })?;
    if !is_batch {
        std::thread::spawn(end_without_terminal);
        top.show(args, is_over, |said| say!("{said}"))?;
        return Ok(Outcome::Fine);
    }
    while let Some(frame) = top.next_interval(is_over)? {
        if is_json {
            write_json(&frame, out)?;
        } else {
            top.write_text(&frame, terminal_style(), out)?;
        }
        out.flush()?;
    }
    Ok(Outcome::Fine)
}

/// Ends the process after a signal if nothing else does: crossterm reads a terminal that has gone away for ever.
fn end_without_terminal() {
    while signalled().is_none() {
        sleep(TURN);
    }
    sleep(PATIENCE);
    std::process::exit(1);
}

/// The same command, with what it was told to watch.
impl ChildCommands for TopArgs {
    fn record(&self, target: &RecordTarget, length: Duration, file: &Path) -> Command {
        let whose: Vec<String> = match (target, &self.whose.vm) {
            (RecordTarget::Vm { pid, .. }, _) => vec![format!("--pid={pid}")],
            (RecordTarget::All, Some(name)) => vec![format!("--vm={name}")],
            (RecordTarget::All, None) => self.whose.pid.iter().map(|pid| format!("--pid={pid}")).collect(),
        };
        let mut command = this_program();
        command.arg("record").arg(format!("--for={}s", length.as_secs())).args(whose);
        command.args(self.no_bpf.then_some("--no-bpf")).arg(format!("--output={}", file.display()));
        command
    }

    fn report(&self, file: &Path, is_all: bool) -> Command {
        let mut command = this_program();
        command.arg("report").arg(file).args(is_all.then_some("--all"));
        command
    }
}
