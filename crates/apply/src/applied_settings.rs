//! What was changed on this host since it was booted, so that it can be restored: a small JSON file, written before anything
//! else is, and a lock beside it, which whoever changes anything holds.
//!
//! ```text
//! noted: old, new, and what was set before ─► written, and what was set before is forgotten
//!          └─ killed here, the knob is any of the three, and is known ─┘
//! ```
//!
//! Its text comes from a file, and what is restored from it is written with the rights of whoever undoes: it is believed only
//! if nobody else may have written it, and says nothing but values of knobs.

use crate::host_lock::{HostLock, HostLockError};
use crate::knob_file::open;
use crate::placed_setting::{GUEST, PlacedSetting};
use crate::tree::SettingsTree;
use rustix::process::geteuid;
use serde::{Deserialize, Serialize};
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// The largest state file that is read, in bytes: all knobs, and settings of each of two thousand threads, of which each may have
/// three lists of CPUs in 4 kB, are fewer.
pub const MOST: u64 = 1 << 25;

/// Letters of a host's name or of a boot's.
const NAME: usize = 255;

const SCHEMA: &str = "exitscope.applied/1";

/// The file in which the kernel says what it calls this boot.
pub const BOOT_ID: &str = "proc/sys/kernel/random/boot_id";

/// What to do about a file that cannot be used.
const REMOVE: &str = "if nothing in it has to be restored, remove it";

/// Why a state file cannot be used. Each has the file.
#[derive(Debug, thiserror::Error)]
pub enum AppliedSettingsError {
    /// It cannot be read.
    #[error("cannot read {path}", path = .0.display())]
    NotRead(PathBuf, #[source] io::Error),
    /// Another user may have written it.
    #[error(
        "{path}: owned or writable by another user; if its content is right, `chown {user}` and `chmod 600` the file",
        path = .0.display(),
        user = geteuid().as_raw()
    )]
    OfAnotherUser(PathBuf),
    /// Another user may put another one in its place, and what restores a guest is a command in it; its folder.
    #[error(
        "{path}: other users can write to this folder, and what restores a guest is a command in a file there; \
         --state names another place",
        path = .0.display()
    )]
    SharedFolder(PathBuf),
    /// It is larger than any of ours.
    #[error("{path}: too large for a state file; {REMOVE}", path = .0.display())]
    TooLarge(PathBuf),
    /// It is not such JSON.
    #[error("{path}: not a state file; {REMOVE}", path = .0.display())]
    NotJson(PathBuf, #[source] serde_json::Error),
    /// It is of another version.
    #[error("{path}: has layout {1:?}, and this version reads {SCHEMA}", path = .0.display())]
    OtherLayout(PathBuf, String),
    /// It says what no such file says.
    #[error("{path}: not a state file: {1}; {REMOVE}", path = .0.display())]
    NotSettings(PathBuf, String),
    /// It is of another host; that one, and this one.
    #[error("{path}: holds settings that were applied to {1}, and this host is {2}; {REMOVE}", path = .0.display())]
    OtherHost(PathBuf, String, String),
    /// It has settings of threads or control groups as another container sees them.
    #[error("{path}: holds settings of threads or control groups that were applied from another container, or from outside of this one; restore them there", path = .0.display())]
    OtherContainer(PathBuf),
    /// It is of another tree; the root of that one, and of this one.
    #[error(
        "{path}: has settings of the tree below {1}, which is not the tree below {2}: nothing was restored, and the \
         file is kept; `exitscope advise --undo --root {1}` restores them, with the same --state, and with that \
         tree's present path if it has moved; if the tree is gone, restore the old values in the file by hand, and \
         remove it",
        path = .0.display()
    )]
    OtherTree(PathBuf, String, String),
    /// It does not say of which tree it is; the root of this one.
    #[error(
        "{path}: written by an earlier version, which did not note the --root of its settings: nothing was restored, \
         and the file is kept; if their root was {1}, `exitscope advise --undo --force --root {1}`, with the same \
         --state, restores them",
        path = .0.display()
    )]
    NoTree(PathBuf, String),
    /// The tree below this root cannot be told from others.
    #[error("cannot read {path}, which distinguishes its settings from those of another --root", path = .0.display())]
    TreeNotRead(PathBuf, #[source] io::Error),
    /// It cannot be written.
    #[error("cannot write {path}; --state names another place", path = .0.display())]
    NotWritten(PathBuf, #[source] io::Error),
    /// The lock beside it cannot be taken.
    #[error("cannot lock {path}; --state names another place", path = .0.display())]
    NotLocked(PathBuf, #[source] io::Error),
    /// Another process holds the lock.
    #[error("another `exitscope advise` or `exitscope try` is setting or restoring knobs (it holds {path}); try again when it has ended", path = .0.display())]
    Held(PathBuf),
    /// Another process sets or restores settings of this host, with another state file; that process.
    #[error(
        "settings of this host are being tried, set or restored already{by}, with another state file; one at a time: try again when it has ended",
        by = .0.as_ref().map(|by| format!(" by {by}")).unwrap_or_default()
    )]
    HostHeld(Option<String>),
    /// The host's own lock cannot be taken.
    #[error("cannot lock {path}: another trial of this host could run at the same time", path = .0.display())]
    HostNotLocked(PathBuf, #[source] io::Error),
    /// The kernel does not say which boot this is.
    #[error("cannot read /{BOOT_ID}: changes of this boot cannot be distinguished from earlier ones")]
    NoBootId(#[source] io::Error),
}

/// The state file: settings that were changed, with their old values.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct AppliedSettings {
    /// Name and version of this layout.
    schema: String,
    /// The host that it was changed on.
    pub host: String,
    /// The boot since which it was changed, as the kernel calls it: another one has set all knobs anew.
    pub boot: String,
    /// Whose processes and control groups are seen by who changed it, see namespaces(7).
    #[serde(default)]
    pub namespaces: String,
    /// The tree in which it was changed; earlier versions did not note it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tree: Option<SettingsTree>,
    /// In the order in which it was changed.
    pub changes: Vec<AppliedSetting>,
}

/// One knob, or another setting.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct AppliedSetting {
    /// Its name, in docs/knobs.md or docs/settings.md.
    pub knob: String,
    /// Which of its places: a thread, a control group, a folder; `None` if there is only one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// What it was before the first change.
    pub old: String,
    /// What it was set to last, or is about to be.
    pub new: String,
    /// What it was set to before, until it is known to be set to `new`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<String>,
}

impl AppliedSetting {
    /// Whether it is of this place.
    pub fn is_of(&self, place: &PlacedSetting) -> bool {
        self.knob == place.name() && self.target.as_deref() == place.target()
    }

    /// Whether this value is one that was set here, and not by somebody else.
    pub fn is_own(&self, place: &PlacedSetting, value: &str) -> bool {
        let set = [Some(&self.new), self.before.as_ref()];
        set.into_iter().flatten().any(|set| place.may_have_become(set, value))
    }

    /// Whether restoring it runs a command that is in the file.
    fn has_command(&self) -> bool {
        self.target.as_deref().is_some_and(|target| target.starts_with(GUEST))
    }

    /// Why this cannot be undone, whatever the host is like.
    fn trouble(&self) -> Option<String> {
        let place = match PlacedSetting::find(&self.knob, self.target.as_deref(), Path::new("/")) {
            Err(error) => return Some(error.to_string()),
            Ok(place) => place,
        };
        let values = [Some(&self.old), Some(&self.new), self.before.as_ref()];
        let bad = values.into_iter().flatten().find(|value| !place.is_value(value))?;
        Some(format!("{bad:?} is not a value of {}", self.knob))
    }
}

impl AppliedSettings {
    /// Nothing changed yet.
    pub fn of(host: &str, boot: &str, tree: SettingsTree) -> AppliedSettings {
        let [schema, host, boot] = [SCHEMA, host, boot].map(str::to_string);
        AppliedSettings { schema, host, boot, namespaces: namespaces(), tree: Some(tree), changes: Vec::new() }
    }

    /// What the file says; `None` if it is not there.
    pub fn load(path: &Path) -> Result<Option<AppliedSettings>, AppliedSettingsError> {
        let cannot = |source| AppliedSettingsError::NotRead(path.to_path_buf(), source);
        let file = match open(path, OpenOptions::new().read(true)) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            file => file.map_err(cannot)?,
        };
        let about = file.metadata().map_err(cannot)?;
        let own = [0, geteuid().as_raw()].contains(&about.uid());
        if !own || about.mode() & 0o022 != 0 {
            return Err(AppliedSettingsError::OfAnotherUser(path.to_path_buf()));
        }
        let mut text = String::new();
        file.take(MOST + 1).read_to_string(&mut text).map_err(cannot)?;
        if text.len() as u64 > MOST {
            return Err(AppliedSettingsError::TooLarge(path.to_path_buf()));
        }
        let applied: AppliedSettings =
            serde_json::from_str(&text).map_err(|source| AppliedSettingsError::NotJson(path.to_path_buf(), source))?;
        if applied.schema != SCHEMA {
            return Err(AppliedSettingsError::OtherLayout(path.to_path_buf(), applied.schema));
        }
        if applied.changes.iter().any(AppliedSetting::has_command) {
            can_hold_command(path)?;
        }
        match applied.trouble() {
            Some(trouble) => Err(AppliedSettingsError::NotSettings(path.to_path_buf(), trouble)),
            None => Ok(Some(applied)),
        }
    }

    /// Why this is not what was applied anywhere.
    fn trouble(&self) -> Option<String> {
        let is_name = |name: &String| name.len() <= NAME && !name.chars().any(char::is_control);
        if ![&self.host, &self.boot, &self.namespaces].into_iter().all(is_name) {
            return Some("host or boot is not a name".to_string());
        }
        if self.tree.as_ref().is_some_and(|tree| !tree.is_sound()) {
            return Some("its root is not a path".to_string());
        }
        self.changes.iter().enumerate().find_map(|(at, change)| {
            let occurs_twice = || {
                let is_same =
                    |earlier: &AppliedSetting| (&earlier.knob, &earlier.target) == (&change.knob, &change.target);
                let twice = self.changes[..at].iter().any(is_same);
                twice.then(|| format!("{} occurs twice", change.knob))
            };
            change.trouble().or_else(occurs_twice)
        })
    }

    /// Notes that a setting which is `now` this is about to be set, and returns what is restored: what it was before the first
    /// change, unless somebody else has set it since; then that is.
    pub fn note(&mut self, place: &PlacedSetting, now: &str, new: &str) -> String {
        let known = self.changes.iter().position(|change| change.is_of(place)).map(|at| self.changes.remove(at));
        let own = known.filter(|known| known.is_own(place, now));
        let before = own.is_some().then(|| now.to_string());
        let old = own.map_or_else(|| now.to_string(), |known| known.old);
        let (knob, target) = (place.name().to_string(), place.target().map(str::to_string));
        self.changes.push(AppliedSetting { knob, target, old: old.clone(), new: new.to_string(), before });
        old
    }

    /// Notes that it has been set.
    pub fn is_set(&mut self, place: &PlacedSetting) {
        self.changes.iter_mut().filter(|change| change.is_of(place)).for_each(|change| change.before = None);
    }

    /// Notes that it has been set, and is another value now than was asked for.
    pub fn became(&mut self, place: &PlacedSetting, now: &str) {
        if place.is_value(now) {
            self.changes
                .iter_mut()
                .filter(|change| change.is_of(place))
                .for_each(|change| change.new = now.to_string());
        }
    }

    /// Takes a change back that did not come about: what was noted `before` it, if anything, is noted again.
    pub fn forget(&mut self, place: &PlacedSetting, before: &[AppliedSetting]) {
        self.changes.retain(|change| !change.is_of(place));
        self.changes.extend(before.iter().find(|change| change.is_of(place)).cloned());
    }

    /// Writes it, so that either the old file is there or the new one; without any change, removes it.
    pub fn save(&self, path: &Path, _held: &SettingsLock) -> Result<(), AppliedSettingsError> {
        let save = || -> io::Result<()> {
            if self.changes.is_empty() {
                remove(path)?;
            } else {
                // Of this name, so that what a kill leaves is known, and gone with the next run. Nobody else writes it.
                let new = beside(path, ".new");
                remove(&new)?;
                // What a full file system has taken in part is not left there.
                self.write_new(&new).and_then(|()| fs::rename(&new, path)).inspect_err(|_| {
                    let _ = remove(&new);
                })?;
            }
            File::open(folder(path))?.sync_all()
        };
        save().map_err(|source| AppliedSettingsError::NotWritten(path.to_path_buf(), source))
    }

    /// Writes it into a file that there is not yet.
    fn write_new(&self, path: &Path) -> io::Result<()> {
        let mut file = open(path, OpenOptions::new().write(true).create_new(true).mode(0o600))?;
        serde_json::to_writer_pretty(&mut file, self)?;
        file.write_all(b"\n")?;
        file.sync_all()
    }
}

/// Held while anything is changed; let go with the last process that holds it, however that ends.
pub struct SettingsLock {
    /// Removed by who took it.
    path: Option<PathBuf>,
    /// What is locked.
    file: File,
    /// The lock of the host, whatever state file others have; of what is inherited, who inherits has another share.
    _host: Option<HostLock>,
}

impl From<HostLockError> for AppliedSettingsError {
    fn from(error: HostLockError) -> AppliedSettingsError {
        match error {
            HostLockError::Held(by) => AppliedSettingsError::HostHeld(by),
            HostLockError::NotLocked(path, error) => AppliedSettingsError::HostNotLocked(path, error),
        }
    }
}

impl SettingsLock {
    /// Takes it, and the lock of the host below `root`, or says that somebody else has one of them.
    pub fn take(root: &Path, state: &Path) -> Result<SettingsLock, AppliedSettingsError> {
        let path = beside(state, ".lock");
        let cannot = |source| AppliedSettingsError::NotLocked(path.clone(), source);
        create_folder(folder(state)).map_err(cannot)?;
        loop {
            let mut options = OpenOptions::new();
            let file = open(&path, options.read(true).write(true).create(true).mode(0o600)).map_err(cannot)?;
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Err(AppliedSettingsError::Held(path)),
                Err(TryLockError::Error(error)) => return Err(cannot(error)),
            }
            // Whoever had it may have removed it meanwhile, so that another one is there now.
            let of = |about: fs::Metadata| (about.dev(), about.ino());
            if fs::symlink_metadata(&path).is_ok_and(|there| file.metadata().is_ok_and(|ours| of(ours) == of(there))) {
                // What a kill has left.
                for left in [beside(state, ".new"), beside(&tried_path(state), ".new")] {
                    remove(&left).map_err(cannot)?;
                }
                let mut lock = SettingsLock { path: Some(path), file, _host: None };
                // Of the two it is the second, so that whoever has both is told of by the state file.
                lock._host = Some(HostLock::take(root)?);
                return Ok(lock);
            }
        }
    }

    /// The same lock, held by another process, too: it belongs to the open file (flock(2)).
    pub(crate) fn shared(&self) -> io::Result<File> {
        self.file.try_clone()
    }

    /// What [`SettingsLock::shared`] gave to this process.
    pub(crate) fn inherited(file: File) -> SettingsLock {
        SettingsLock { path: None, file, _host: None }
    }
}

impl Drop for SettingsLock {
    fn drop(&mut self) {
        let _ = self.path.as_deref().map(remove);
    }
}

/// Removes a file, if it is there.
fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        done => done,
    }
}

/// Creates a folder, and those above it, that is nobody else's, whatever the umask: see [`can_hold_command`].
fn create_folder(path: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// The namespaces of processes and of control groups that this process is in, see namespaces(7).
fn namespaces() -> String {
    let link = |name| fs::read_link(format!("/proc/self/ns/{name}")).unwrap_or_default().display().to_string();
    ["pid", "cgroup"].map(link).join(" ")
}

/// Whether a state file may have a guest's command, which is run: others can neither write it nor put another file in its place.
pub(crate) fn can_hold_command(path: &Path) -> Result<(), AppliedSettingsError> {
    let is_shared = |about: fs::Metadata| about.mode() & 0o022 != 0 && about.mode() & 0o1000 == 0;
    match fs::metadata(folder(path)).map_or(true, is_shared) {
        true => Err(AppliedSettingsError::SharedFolder(folder(path).to_path_buf())),
        false => Ok(()),
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

/// The state file of a trial, beside that of what was applied.
pub fn tried_path(state: &Path) -> PathBuf {
    match state.file_name().is_some_and(|name| name == "applied.json") {
        true => state.with_file_name("tried.json"),
        false => beside(state, ".tried"),
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
    use std::os::unix::fs::{PermissionsExt, symlink};

    fn changed(old: &str, new: &str, before: Option<&str>) -> AppliedSetting {
        let [knob, old, new] = ["halt_poll_ns", old, new].map(str::to_string);
        AppliedSetting { knob, target: None, old, new, before: before.map(str::to_string) }
    }

    fn nothing_applied() -> AppliedSettings {
        AppliedSettings::of("here", "boot", SettingsTree::of(Path::new("/")).unwrap())
    }

    fn placed() -> PlacedSetting {
        PlacedSetting::find("halt_poll_ns", None, Path::new("/")).unwrap()
    }

    /// Writes what others have no part in.
    fn write(path: &Path, text: &str) {
        fs::write(path, text).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
    }

    #[test]
    fn a_file_that_is_not_there_is_removed_and_one_that_cannot_be_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("state");
        fs::write(&file, "").unwrap();
        assert!(remove(&file).is_ok() && !file.exists() && remove(&file).is_ok());
        assert!(remove(folder.path()).is_err(), "a folder is no file");
    }

    #[test]
    fn what_was_before_the_first_own_change_is_kept_until_somebody_else_changes_it() {
        let mut state = nothing_applied();
        state.note(&placed(), "200000", "50000");
        assert_eq!(state.changes, [changed("200000", "50000", None)]);
        // Killed here, it is the old value or the new one; either goes on.
        state.note(&placed(), "200000", "40000");
        assert_eq!(state.changes, [changed("200000", "40000", None)]);
        assert_eq!(state.note(&placed(), "40000", "0"), "200000");
        assert_eq!(state.changes, [changed("200000", "0", Some("40000"))]);
        // Killed here, it is what it was set to before or the new value.
        assert!(
            ["0", "40000"].iter().all(|own| state.changes[0].is_own(&placed(), own))
                && !state.changes[0].is_own(&placed(), "200000")
        );
        state.is_set(&placed());
        assert_eq!(state.changes, [changed("200000", "0", None)]);
        // The kernel has cut it down, or says what is no value.
        state.became(&placed(), "100");
        state.became(&placed(), "no value\n");
        assert!(state.changes[0].is_own(&placed(), "100"));
        state.became(&placed(), "0");
        // Somebody else has set it.
        state.note(&placed(), "7", "0");
        assert_eq!(state.changes, [changed("7", "0", None)]);
        state.forget(&placed(), &[changed("200000", "0", None)]);
        assert_eq!(state.changes, [changed("200000", "0", None)], "as before the change that failed");
        state.forget(&placed(), &[]);
        assert_eq!(state.changes, []);
    }

    #[test]
    fn it_is_written_whole_and_by_one_at_a_time_and_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let above = folder.path().join("deep");
        let within = above.join("down");
        let path = within.join("applied.json");
        assert!(AppliedSettings::load(&path).unwrap().is_none() && !within.exists());
        let lock = SettingsLock::take(folder.path(), &path).unwrap();
        for folder in [&above, &within] {
            assert_eq!(fs::metadata(folder).unwrap().mode() & 0o777, 0o700, "whatever the umask");
        }
        let other = SettingsLock::take(folder.path(), &path).err().unwrap().to_string();
        assert!(other.contains("another `exitscope advise`"), "{other}");
        let mut state = nothing_applied();
        state.note(&placed(), "200000", "50000");
        state.save(&path, &lock).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        let read = AppliedSettings::load(&path).unwrap().unwrap();
        assert_eq!((read.host.as_str(), read.boot.as_str(), read.changes), ("here", "boot", state.changes.clone()));
        drop(lock);
        // What a run left that was killed while it wrote.
        write(&beside(&path, ".new"), "{\"sch");
        write(&beside(&path, ".lock"), "");
        let lock = SettingsLock::take(folder.path(), &path).unwrap();
        assert_eq!(AppliedSettings::load(&path).unwrap().unwrap().changes, state.changes);
        state.forget(&placed(), &[]);
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
            let done = SettingsLock::take(folder.path(), &path).and_then(|lock| {
                AppliedSettings::load(&path)?;
                let mut state = nothing_applied();
                state.note(&placed(), "200000", "50000");
                state.save(&path, &lock)
            });
            assert_eq!(done.is_err(), ending != ".new", "{ending}: a link that is known to be our own is removed");
            assert_eq!(fs::read_to_string(&other).unwrap(), "untouched", "{ending}");
            let _ = (fs::remove_file(&link), fs::remove_file(&path));
        }
    }

    #[test]
    fn a_guests_command_is_not_taken_from_where_others_can_write() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("applied.json");
        let change =
            "{\"knob\": \"guest_halt_poll_ns\", \"target\": \"guest ssh vm1\", \"old\": \"1\", \"new\": \"0\"}";
        write(
            &path,
            &format!("{{\"schema\": \"{SCHEMA}\", \"host\": \"h\", \"boot\": \"b\", \"changes\": [{change}]}}"),
        );
        let with = |of_folder: u32, of_file: u32| {
            fs::set_permissions(folder.path(), fs::Permissions::from_mode(of_folder)).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(of_file)).unwrap();
            AppliedSettings::load(&path)
        };
        assert!(with(0o755, 0o600).unwrap().is_some() && with(0o1777, 0o600).unwrap().is_some());
        let (of_folders, of_files) = ("other users can write to this folder", "owned or writable by another user");
        for (of_folder, of_file, says) in
            [(0o777, 0o600, of_folders), (0o775, 0o600, of_folders), (0o755, 0o620, of_files), (0o755, 0o602, of_files)]
        {
            let said = with(of_folder, of_file).unwrap_err().to_string();
            assert!(said.contains(says), "{of_folder:o} {of_file:o}: {said}");
            assert_eq!(can_hold_command(&path).is_ok(), says == of_files);
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
        assert!(AppliedSettings::load(&path).unwrap().is_some());
        for (text, says) in [
            (String::new(), "not a state file"),
            ("{\"schema\": 1}".to_string(), "not a state file"),
            (format!("{{\"schema\": \"{SCHEMA}\", \"host\": \"\", \"changes\": []}}"), "not a state file"),
            (with("").replace("/1", "/2"), "layout \"exitscope.applied/2\""),
            (with("").replace("\"h\"", "\"\\u001b[31m\""), "host or boot is not a name"),
            (with(&change("/etc/passwd", "x", "y")), "there is no knob \"/etc/passwd\""),
            (with(&change("../../etc/passwd", "x", "y")), "there is no knob"),
            (with(&change("ple_gap", "1", "2")), "ple_gap cannot be set at run time"),
            (with(&change("halt_poll_ns", "1\\n2", "0")), "\"1\\n2\" is not a value of halt_poll_ns"),
            (with(&change("halt_poll_ns", "0", "")), "\"\" is not a value"),
            (with(&change("thp_enabled", "always", "sometimes")), "\"sometimes\" is not a value of thp_enabled"),
            (with(&change("affinity", "0", "1")), "\"\" is not a place of affinity"),
            (with(&format!("{sound}, {sound}")), "halt_poll_ns occurs twice"),
            (with(&sound.replace('}', ", \"path\": \"/etc/passwd\"}")), "not a state file"),
            (" ".repeat(MOST as usize + 1), "too large"),
        ] {
            write(&path, &text);
            let said = AppliedSettings::load(&path).unwrap_err().to_string();
            assert!(said.contains(says), "{text}: {said}");
        }
        // Nor what others may have written.
        write(&path, &with(&sound));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap();
        assert!(AppliedSettings::load(&path).unwrap_err().to_string().contains("owned or writable by another user"));
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        assert!(AppliedSettings::load(&path).is_err());
    }
}
