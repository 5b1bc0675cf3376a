//! What a new user types, and what is answered, as docs/examples shows it.

use super::clean_root::CleanRoot;
use anyhow::ensure;
use std::process::{Command, Output};

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
        let (said, text) = self.attempt(root, user, line)?;
        ensure!(said.status.success(), "{user}: {line}: {}\n{text}", said.status);
        Ok(text)
    }

    /// The same, of what may fail: how it ended and what it printed.
    pub fn attempt(&mut self, root: &CleanRoot, user: &str, line: &str) -> anyhow::Result<(Output, String)> {
        let prompt = if user == "root" { '#' } else { '$' };
        self.text += &format!("{user}{prompt} {line}\n");
        let said = captured(root.shell(user, line))?;
        let text = format!("{}{}", String::from_utf8_lossy(&said.stdout), String::from_utf8_lossy(&said.stderr));
        self.text += &text;
        Ok((said, text))
    }

    /// All of it.
    pub fn text(&self) -> &str {
        &self.text
    }
}

fn captured(mut command: Command) -> anyhow::Result<Output> {
    Ok(command.env("COLUMNS", "100").output()?)
}
