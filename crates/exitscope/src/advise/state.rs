//! What was changed on this host, so that it can be undone: a small JSON file, written before anything else is.

use anyhow::{Context, bail};
use serde::{Deserialize, Serialize};
use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

/// The largest state file that is read, in bytes.
const MOST: u64 = 1 << 20;

const SCHEMA: &str = "exitscope.applied/1";

/// What was changed.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct State {
    /// Name and version of this layout.
    schema: String,
    /// The host that it was changed on.
    pub host: String,
    /// In the order in which it was changed.
    pub changes: Vec<Changed>,
}

/// One knob.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Changed {
    /// Its name, in docs/knobs.md.
    pub knob: String,
    /// What it was before the first change.
    pub old: String,
    /// What it was set to last.
    pub new: String,
}

impl State {
    /// Nothing changed yet.
    pub fn of_host(host: &str) -> State {
        State { schema: SCHEMA.to_string(), host: host.to_string(), changes: Vec::new() }
    }

    /// What the file says; `None` if it is not there.
    pub fn load(path: &Path) -> anyhow::Result<Option<State>> {
        let file = match fs::File::open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error).with_context(|| format!("cannot read {}", path.display())),
        };
        let mut text = String::new();
        file.take(MOST + 1).read_to_string(&mut text).with_context(|| format!("cannot read {}", path.display()))?;
        if text.len() as u64 > MOST {
            bail!("{}: too large for a file of what was applied", path.display());
        }
        let state: State = serde_json::from_str(&text)
            .with_context(|| format!("{}: not a file of what was applied", path.display()))?;
        if state.schema != SCHEMA {
            bail!("{}: layout {}, and this version knows {SCHEMA}", path.display(), state.schema);
        }
        Ok(Some(state))
    }

    /// Notes a change; what the knob was before an earlier one stays what is restored.
    pub fn note(&mut self, change: Changed) {
        match self.changes.iter_mut().find(|known| known.knob == change.knob) {
            Some(known) => known.new = change.new,
            None => self.changes.push(change),
        }
    }

    /// Takes a change back that did not come about: what was noted `before` it, if anything, is noted again.
    pub fn forget(&mut self, knob: &str, before: &[Changed]) {
        self.changes.retain(|change| change.knob != knob);
        self.changes.extend(before.iter().find(|change| change.knob == knob).cloned());
    }

    /// Writes it, so that either the old file is there or the new one; without any change, removes it.
    pub fn save(&self, path: &Path) -> anyhow::Result<()> {
        let save = || -> std::io::Result<()> {
            if self.changes.is_empty() {
                return match fs::remove_file(path) {
                    Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
                    done => done,
                };
            }
            let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
            fs::create_dir_all(folder)?;
            let mut file = tempfile::NamedTempFile::new_in(folder)?;
            serde_json::to_writer_pretty(&mut file, self)?;
            file.write_all(b"\n")?;
            file.as_file().sync_all()?;
            file.persist(path)?;
            fs::File::open(folder)?.sync_all()
        };
        save().with_context(|| format!("cannot write {}; --state names another place", path.display()))
    }
}

/// Where the file is unless --state says.
pub fn default_path() -> PathBuf {
    let home = std::env::var_os("XDG_STATE_HOME").map(PathBuf::from).filter(|home| home.is_absolute());
    home.map_or(PathBuf::from("/var/lib/exitscope"), |home| home.join("exitscope")).join("applied.json")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changed(old: &str, new: &str) -> Changed {
        Changed { knob: "halt_poll_ns".to_string(), old: old.to_string(), new: new.to_string() }
    }

    #[test]
    fn the_first_old_value_is_what_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("deep/applied.json");
        assert!(State::load(&path).unwrap().is_none());
        let mut state = State::of_host("here");
        state.note(changed("200000", "50000"));
        state.note(changed("50000", "0"));
        state.save(&path).unwrap();
        let read = State::load(&path).unwrap().unwrap();
        assert_eq!((read.host.as_str(), read.changes), ("here", vec![changed("200000", "0")]));
        state.forget("halt_poll_ns", &[changed("200000", "50000")]);
        assert_eq!(state.changes, [changed("200000", "50000")], "as before the change that failed");
        state.forget("halt_poll_ns", &[]);
        state.save(&path).unwrap();
        assert!(!path.exists());
        state.save(&path).unwrap();
    }

    #[test]
    fn what_is_no_such_file_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("applied.json");
        for (text, says) in [
            ("", "not a file of what was applied"),
            ("{\"schema\": 1}", "not a file of what was applied"),
            ("{\"schema\": \"exitscope.applied/2\", \"host\": \"\", \"changes\": []}", "layout exitscope.applied/2"),
        ] {
            fs::write(&path, text).unwrap();
            assert!(State::load(&path).unwrap_err().to_string().contains(says), "{text}");
        }
        fs::write(&path, vec![b' '; MOST as usize + 1]).unwrap();
        assert!(State::load(&path).unwrap_err().to_string().contains("too large"));
    }
}
