//! What was changed on this host since it was booted, so that it can be undone: a small JSON file, written before anything
//! else is, and a lock beside it, which whoever changes anything holds.
//!
//! ```text
//! noted: old, new, and what was set before ─► written, and what was set before is forgotten
//!          └─ killed here, the knob is any of the three, and is known ─┘
//! ```
//!
//! Its text comes from a file, and what is restored from it is written with the rights of whoever undoes: it is believed only
//! if nobody else may have written it, and says nothing but values of knobs.

use super::knob_file::{is_value, open, same};
use anyhow::{Context, bail};
use exitscope_policy::knob;
use rustix::process::geteuid;
use serde::{Deserialize, Serialize};
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// The largest state file that is read, in bytes: all knobs with the longest values are fewer.
const MOST: u64 = 64 << 10;

/// Letters of a host's name or of a boot's.
const NAME: usize = 255;

const SCHEMA: &str = "exitscope.applied/1";

/// What was changed.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct State {
    /// Name and version of this layout.
    schema: String,
    /// The host that it was changed on.
    pub host: String,
    /// The boot since which it was changed, as the kernel calls it: another one has set all knobs anew.
    pub boot: String,
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
    /// What it was set to last, or is about to be.
    pub new: String,
    /// What it was set to before, until it is known to be set to `new`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<String>,
}

impl Changed {
    /// Whether this value is one that was set here, and not by somebody else.
    pub fn is_own(&self, value: &str) -> bool {
        let set = [Some(&self.new), self.before.as_ref()];
        knob(&self.knob).is_some_and(|knob| set.into_iter().flatten().any(|set| same(knob, set, value)))
    }

    /// Why this cannot be undone, whatever the host is like.
    fn trouble(&self) -> Option<String> {
        match knob(&self.knob) {
            None => return Some(format!("there is no knob {:?}", self.knob)),
            Some(knob) if !knob.is_writable() => return Some(format!("{} cannot be set at run time", knob.name)),
            Some(_) => {}
        }
        let values = [Some(&self.old), Some(&self.new), self.before.as_ref()];
        let bad = values.into_iter().flatten().find(|value| !is_value(value))?;
        Some(format!("{bad:?} is not a value of {}", self.knob))
    }
}

impl State {
    /// Nothing changed yet.
    pub fn of(host: &str, boot: &str) -> State {
        let [schema, host, boot] = [SCHEMA, host, boot].map(str::to_string);
        State { schema, host, boot, changes: Vec::new() }
    }

    /// What the file says; `None` if it is not there.
    pub fn load(path: &Path) -> anyhow::Result<Option<State>> {
        let cannot = || format!("cannot read {}", path.display());
        let file = match open(path, OpenOptions::new().read(true)) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error).with_context(cannot),
        };
        let about = file.metadata().with_context(cannot)?;
        let own = [0, geteuid().as_raw()].contains(&about.uid());
        if !own || about.mode() & 0o022 != 0 {
            bail!(
                "{}: owned or writable by another user; if its content is right, `chown {}` and `chmod 600` the file",
                path.display(),
                geteuid().as_raw()
            );
        }
        let mut text = String::new();
        file.take(MOST + 1).read_to_string(&mut text).with_context(cannot)?;
        if text.len() as u64 > MOST {
            bail!("{}: too large for a file of what was applied", path.display());
        }
        let no_such_file = || format!("{}: not a file of what was applied", path.display());
        let state: State = serde_json::from_str(&text).with_context(no_such_file)?;
        if state.schema != SCHEMA {
            bail!("{}: layout {:?}, and this version knows {SCHEMA}", path.display(), state.schema);
        }
        let is_name = |name: &String| name.len() <= NAME && !name.chars().any(char::is_control);
        if ![&state.host, &state.boot].into_iter().all(is_name) {
            bail!("{}: host or boot is not a name", no_such_file());
        }
        for (at, change) in state.changes.iter().enumerate() {
            if let Some(trouble) = change.trouble() {
                bail!("{}: {trouble}", no_such_file());
            }
            if state.changes[..at].iter().any(|earlier| earlier.knob == change.knob) {
                bail!("{}: {} occurs twice", no_such_file(), change.knob);
            }
        }
        Ok(Some(state))
    }

    /// Notes that a knob which is `now` this is about to be set. What it was before the first change stays what is restored,
    /// unless somebody else has set it since: then that is.
    pub fn note(&mut self, knob: &str, now: &str, new: &str) {
        let known = self.changes.iter().position(|change| change.knob == knob).map(|at| self.changes.remove(at));
        let own = known.filter(|known| known.is_own(now));
        let before = own.is_some().then(|| now.to_string());
        let old = own.map_or_else(|| now.to_string(), |known| known.old);
        self.changes.push(Changed { knob: knob.to_string(), old, new: new.to_string(), before });
    }

    /// Notes that a knob has been set.
    pub fn is_set(&mut self, knob: &str) {
        self.changes.iter_mut().filter(|change| change.knob == knob).for_each(|change| change.before = None);
    }

    /// Takes a change back that did not come about: what was noted `before` it, if anything, is noted again.
    pub fn forget(&mut self, knob: &str, before: &[Changed]) {
        self.changes.retain(|change| change.knob != knob);
        self.changes.extend(before.iter().find(|change| change.knob == knob).cloned());
    }

    /// Writes it, so that either the old file is there or the new one; without any change, removes it.
    pub fn save(&self, path: &Path, _held: &Lock) -> anyhow::Result<()> {
        let save = || -> io::Result<()> {
            if self.changes.is_empty() {
                remove(path)?;
            } else {
                // Of this name, so that what a kill leaves is known, and gone with the next run. Nobody else writes it.
                let new = beside(path, ".new");
                remove(&new)?;
                let mut file = open(&new, OpenOptions::new().write(true).create_new(true).mode(0o600))?;
                serde_json::to_writer_pretty(&mut file, self)?;
                file.write_all(b"\n")?;
                file.sync_all()?;
                fs::rename(&new, path)?;
            }
            File::open(folder(path))?.sync_all()
        };
        save().with_context(|| format!("cannot write {}; --state names another place", path.display()))
    }
}

/// Held while anything is changed; let go with the process, however that ends.
pub struct Lock {
    path: PathBuf,
    /// What is locked.
    _file: File,
}

impl Lock {
    /// Takes it, or says that somebody else has it.
    pub fn take(state: &Path) -> anyhow::Result<Lock> {
        let path = beside(state, ".lock");
        let cannot = || format!("cannot lock {}; --state names another place", path.display());
        fs::create_dir_all(folder(state)).with_context(cannot)?;
        loop {
            let mut options = OpenOptions::new();
            let file = open(&path, options.read(true).write(true).create(true).mode(0o600)).with_context(cannot)?;
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => bail!(
                    "another `exitscope advise` is setting or restoring knobs (it holds {}); try again when it has ended",
                    path.display()
                ),
                Err(TryLockError::Error(error)) => return Err(error).with_context(cannot),
            }
            // Whoever had it may have removed it meanwhile, so that another one is there now.
            let of = |about: fs::Metadata| (about.dev(), about.ino());
            if fs::symlink_metadata(&path).is_ok_and(|there| file.metadata().is_ok_and(|ours| of(ours) == of(there))) {
                // What a kill has left.
                remove(&beside(state, ".new")).with_context(cannot)?;
                return Ok(Lock { path, _file: file });
            }
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        let _ = remove(&self.path);
    }
}

/// Removes a file, if it is there.
fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        done => done,
    }
}

fn folder(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut path = path.as_os_str().to_owned();
    path.push(ending);
    path.into()
}

/// Where the file is unless --state says.
pub fn default_path() -> PathBuf {
    let home = std::env::var_os("XDG_STATE_HOME").map(PathBuf::from).filter(|home| home.is_absolute());
    home.map_or(PathBuf::from("/var/lib/exitscope"), |home| home.join("exitscope")).join("applied.json")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    fn changed(old: &str, new: &str, before: Option<&str>) -> Changed {
        let [knob, old, new] = ["halt_poll_ns", old, new].map(str::to_string);
        Changed { knob, old, new, before: before.map(str::to_string) }
    }

    /// Writes what others have no part in.
    fn write(path: &Path, text: &str) {
        fs::write(path, text).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
    }

    #[test]
    fn what_was_before_the_first_own_change_is_kept_until_somebody_else_changes_it() {
        let mut state = State::of("here", "boot");
        state.note("halt_poll_ns", "200000", "50000");
        assert_eq!(state.changes, [changed("200000", "50000", None)]);
        // Killed here, it is the old value or the new one; either goes on.
        state.note("halt_poll_ns", "200000", "40000");
        assert_eq!(state.changes, [changed("200000", "40000", None)]);
        state.note("halt_poll_ns", "40000", "0");
        assert_eq!(state.changes, [changed("200000", "0", Some("40000"))]);
        // Killed here, it is what it was set to before or the new value.
        assert!(["0", "40000"].iter().all(|own| state.changes[0].is_own(own)) && !state.changes[0].is_own("200000"));
        state.is_set("halt_poll_ns");
        assert_eq!(state.changes, [changed("200000", "0", None)]);
        // Somebody else has set it.
        state.note("halt_poll_ns", "7", "0");
        assert_eq!(state.changes, [changed("7", "0", None)]);
        state.forget("halt_poll_ns", &[changed("200000", "0", None)]);
        assert_eq!(state.changes, [changed("200000", "0", None)], "as before the change that failed");
        state.forget("halt_poll_ns", &[]);
        assert_eq!(state.changes, []);
    }

    #[test]
    fn it_is_written_whole_and_by_one_at_a_time_and_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let within = folder.path().join("deep");
        let path = within.join("applied.json");
        assert!(State::load(&path).unwrap().is_none() && !within.exists());
        let lock = Lock::take(&path).unwrap();
        let other = Lock::take(&path).err().unwrap().to_string();
        assert!(other.contains("another `exitscope advise`"), "{other}");
        let mut state = State::of("here", "boot");
        state.note("halt_poll_ns", "200000", "50000");
        state.save(&path, &lock).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        let read = State::load(&path).unwrap().unwrap();
        assert_eq!((read.host.as_str(), read.boot.as_str(), read.changes), ("here", "boot", state.changes.clone()));
        drop(lock);
        // What a run left that was killed while it wrote.
        write(&beside(&path, ".new"), "{\"sch");
        write(&beside(&path, ".lock"), "");
        let lock = Lock::take(&path).unwrap();
        assert_eq!(State::load(&path).unwrap().unwrap().changes, state.changes);
        state.forget("halt_poll_ns", &[]);
        state.save(&path, &lock).unwrap();
        state.save(&path, &lock).unwrap();
        drop(lock);
        assert_eq!(fs::read_dir(&within).unwrap().count(), 0);
    }

    #[test]
    fn nothing_is_written_through_a_link() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("applied.json");
        let other = folder.path().join("other");
        write(&other, "untouched");
        for ending in [".lock", ".new", ""] {
            let link = beside(&path, ending);
            symlink(&other, &link).unwrap();
            let done = Lock::take(&path).and_then(|lock| {
                State::load(&path)?;
                let mut state = State::of("here", "boot");
                state.note("halt_poll_ns", "200000", "50000");
                state.save(&path, &lock)
            });
            assert_eq!(done.is_err(), ending != ".new", "{ending}: a link that is known to be our own is removed");
            assert_eq!(fs::read_to_string(&other).unwrap(), "untouched", "{ending}");
            let _ = (fs::remove_file(&link), fs::remove_file(&path));
        }
    }

    #[test]
    fn what_is_no_such_file_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("applied.json");
        let with = |changes: &str| {
            format!("{{\"schema\": \"{SCHEMA}\", \"host\": \"h\", \"boot\": \"b\", \"changes\": [{changes}]}}")
        };
        let change = |knob: &str, old: &str, new: &str| {
            format!("{{\"knob\": \"{knob}\", \"old\": \"{old}\", \"new\": \"{new}\"}}")
        };
        let sound = change("halt_poll_ns", "200000", "0");
        write(&path, &with(&sound));
        assert!(State::load(&path).unwrap().is_some());
        for (text, says) in [
            (String::new(), "not a file of what was applied"),
            ("{\"schema\": 1}".to_string(), "not a file of what was applied"),
            (
                format!("{{\"schema\": \"{SCHEMA}\", \"host\": \"\", \"changes\": []}}"),
                "not a file of what was applied",
            ),
            (with("").replace("/1", "/2"), "layout \"exitscope.applied/2\""),
            (with("").replace("\"h\"", "\"\\u001b[31m\""), "host or boot is not a name"),
            (with(&change("/etc/passwd", "x", "y")), "there is no knob \"/etc/passwd\""),
            (with(&change("../../etc/passwd", "x", "y")), "there is no knob"),
            (with(&change("ple_gap", "1", "2")), "ple_gap cannot be set at run time"),
            (with(&change("halt_poll_ns", "1\\n2", "0")), "\"1\\n2\" is not a value of halt_poll_ns"),
            (with(&change("halt_poll_ns", "0", "")), "\"\" is not a value"),
            (with(&format!("{sound}, {sound}")), "halt_poll_ns occurs twice"),
            (with(&sound.replace('}', ", \"path\": \"/etc/passwd\"}")), "not a file of what was applied"),
            (" ".repeat(MOST as usize + 1), "too large"),
        ] {
            write(&path, &text);
            let said = State::load(&path).unwrap_err().to_string();
            assert!(said.contains(says), "{text}: {said}");
        }
        // Nor what others may have written.
        write(&path, &with(&sound));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap();
        assert!(State::load(&path).unwrap_err().to_string().contains("owned or writable by another user"));
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        assert!(State::load(&path).is_err());
    }
}
