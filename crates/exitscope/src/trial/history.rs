//! `exitscope try --history`: the trials of this host.

use crate::terminal::terminal_style;
use crate::trial_args::{TryArgs, TryFormat};
use crate::{Outcome, write_json};
use anyhow::Context;
use exitscope_apply::default_path;
use exitscope_measure::{history_path, read_history};
use exitscope_view::{trial_history_page, write_page};
use std::io::Write;

/// Shows them.
pub fn show(args: &TryArgs, out: &mut dyn Write) -> anyhow::Result<Outcome> {
    let path = history_path(&args.state.clone().unwrap_or_else(default_path));
    let (trials, unread) = read_history(&path).with_context(|| format!("cannot read {}", path.display()))?;
    if let Some(to) = &args.html {
        super::write_html(to, &trials)?;
    }
    match args.format {
        _ if args.html.is_some() => {}
        TryFormat::Json => trials.iter().try_for_each(|trial| write_json(trial, out))?,
        TryFormat::Text if trials.is_empty() => writeln!(out, "no trial was made here yet")?,
        TryFormat::Text => write_page(&trial_history_page(&trials), terminal_style(), out)?,
    }
    if unread > 0 {
        let lines = if unread == 1 { "line is" } else { "lines are" };
        say!("{}: {unread} {lines} no trial of this version: cut by a kill, or of another", path.display());
    }
    Ok(Outcome::Fine)
}
