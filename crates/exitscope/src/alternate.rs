//! Recordings of both sides of a comparison, made in turns: what drifts with time meets both alike.

use crate::cli::{Cli, Command, RecordArgs};
use crate::record;
use anyhow::{Context, bail};
use clap::Parser;
use exitscope_signals::signalled;
use std::io;
use std::path::{Path, PathBuf};
use std::process;

/// What is run for either side, and how often.
pub struct Alternation<'a> {
    /// Recordings of each side.
    pub times: u32,
    /// What makes the host as it is for each side, by its flag; sh runs it.
    pub prepare: [(&'static str, &'a str); 2],
    /// Where the recordings go.
    pub into: &'a Path,
    /// What is recorded.
    pub command: &'a [String],
}

impl Alternation<'_> {
    /// Makes all recordings, and returns those of each side.
    pub fn record(&self) -> anyhow::Result<[Vec<PathBuf>; 2]> {
        let mut sides = [Vec::new(), Vec::new()];
        for pair in 1..=self.times {
            // Whoever is always the second would meet all of a steady drift.
            let order = if pair % 2 == 1 { [0, 1] } else { [1, 0] };
            for side in order {
                self.prepare(side)?;
                let path = self.into.join(format!("{}.{pair}.data", ["a", "b"][side]));
                record::run(&self.recording(&path)?, &mut io::sink())?;
                sides[side].push(path);
                if signalled().is_some() {
                    bail!(
                        "ended by a signal after {} and {} recordings: nothing is compared",
                        sides[0].len(),
                        sides[1].len()
                    );
                }
            }
        }
        Ok(sides)
    }

    fn prepare(&self, side: usize) -> anyhow::Result<()> {
        let (flag, command) = self.prepare[side];
        let status = process::Command::new("sh").args(["-c", command]).stdout(io::stderr()).status();
        let status = status.with_context(|| format!("cannot run sh for {flag}"))?;
        if !status.success() {
            bail!("{flag}: `{command}` ended with {status}: nothing is compared");
        }
        Ok(())
    }

    fn recording(&self, path: &Path) -> anyhow::Result<RecordArgs> {
        let words =
            ["exitscope", "record", "--output"].map(Into::into).into_iter().chain([path.as_os_str().to_owned()]);
        // Standard output is the comparison's.
        let words = words.chain(["--", "sh", "-c", "exec \"$@\" >&2", "sh"].map(Into::into));
        let words = words.chain(self.command.iter().map(Into::into));
        match Cli::try_parse_from(words)?.command {
            Command::Record(args) => Ok(args),
            _ => bail!("not a command of record"),
        }
    }
}
