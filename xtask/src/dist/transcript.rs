//! What a new user types, and what is answered, as docs/examples shows it.

use super::clean_root::CleanRoot;
use anyhow::{Context, ensure};
use std::io::{self, Read};
use std::process::{Command, ExitStatus};

/// Lines as a terminal shows them.
#[derive(Default)]
pub struct Transcript {
    text: String,
}

impl Transcript {
    /// Says what is going to be shown.
    pub fn heading(&mut self, text: &str) {
        if !self.text.is_empty() {
            self.text.push('\n');
        }
        self.text += &format!("# {text}\n");
    }

    /// Runs a line as a user of the root, who sees what it prints; an error if it fails.
    pub fn run(&mut self, root: &CleanRoot, user: &str, line: &str) -> anyhow::Result<String> {
        let (status, text) = self.attempt(root, user, line)?;
        ensure!(status.success(), "{user}: {line}: {status}\n{text}");
        Ok(text)
    }

    /// The same, of what may fail: how it ended and what it printed.
    pub fn attempt(&mut self, root: &CleanRoot, user: &str, line: &str) -> anyhow::Result<(ExitStatus, String)> {
        let prompt = if user == "root" { '#' } else { '$' };
        self.text += &format!("{user}{prompt} {line}\n");
        let (status, text) = captured(root.shell(user, line))?;
        self.text += &text;
        Ok((status, text))
    }

    /// All of it.
    pub fn text(&self) -> &str {
        &self.text
    }
}

/// How a command ended, and what it printed: errors among all else, in the order in which a terminal would show them.
fn captured(mut command: Command) -> anyhow::Result<(ExitStatus, String)> {
    let (mut printed, end) = io::pipe()?;
    command.env("COLUMNS", "100").stdout(end.try_clone()?).stderr(end);
    let mut child = command.spawn().with_context(|| format!("cannot run {command:?}"))?;
    // It holds ends of the pipe, which is read until all are closed.
    drop(command);
    let mut bytes = Vec::new();
    printed.read_to_end(&mut bytes)?;
    Ok((child.wait()?, String::from_utf8_lossy(&bytes).into_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_stand_where_they_were_printed() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo reads; echo warns >&2; echo reports; exit 3"]);
        let (status, text) = captured(command).unwrap();
        assert_eq!((status.code(), text.as_str()), (Some(3), "reads\nwarns\nreports\n"));
    }
}
