//! One process at a time sets anything on a host, whichever state file it has: a lock on the folder in which the host shows its
//! settings, `sys` below its root.
//!
//! *Why that folder.* flock(2) works on anything that can be opened, also in sysfs. The folder is there on every host, is
//! the same for a container that has the host's /sys mounted elsewhere (`--root`), needs no right to write, and leaves no file
//! behind, so none can be planted. A lock on the setting's own file would not exclude a trial of another setting, and two trials
//! measure each other. A container whose sysfs is of its own network namespace has another folder, and is not excluded.
//! Any user of the host can hold the lock: the error names the process.
//!
//! *How command and watchdog hold it together.* Whoever begins must have it alone, and then shares it; its watchdog adds a share
//! of its own. So the lock is held until both have ended, and the kernel knows each of them by its number.

use crate::tree::folder;
use rustix::fs::{FlockOperation, flock, major, minor, stat};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

/// Letters of a command line that are shown.
const SHOWN: usize = 120;

/// A share of the lock, let go when it is dropped or its process ends.
#[derive(Debug)]
pub struct HostLock {
    folder: File,
}

/// Why the lock is not held.
#[derive(Debug)]
pub enum HostLockError {
    /// Who has it, if the kernel says so.
    Held(Option<String>),
    /// The folder cannot be locked.
    NotLocked(PathBuf, io::Error),
}

impl HostLock {
    /// Takes the lock of the host below `root`, which nobody may have.
    pub fn take(root: &Path) -> Result<HostLock, HostLockError> {
        let lock = HostLock::locked(root, FlockOperation::NonBlockingLockExclusive)?;
        // The kernel lets the lock go before it gives a share, so that somebody else may have come in between.
        lock.lock(root, FlockOperation::NonBlockingLockShared)?;
        Ok(lock)
    }

    /// Adds a share to the one that whoever started this process has.
    pub fn join(root: &Path) -> Result<HostLock, HostLockError> {
        HostLock::locked(root, FlockOperation::NonBlockingLockShared)
    }

    fn locked(root: &Path, how: FlockOperation) -> Result<HostLock, HostLockError> {
        let path = folder(root);
        let file = File::open(&path).map_err(|error| HostLockError::NotLocked(path, error))?;
        let lock = HostLock { folder: file };
        lock.lock(root, how)?;
        Ok(lock)
    }

    fn lock(&self, root: &Path, how: FlockOperation) -> Result<(), HostLockError> {
        match flock(&self.folder, how) {
            Ok(()) => Ok(()),
            Err(rustix::io::Errno::WOULDBLOCK) => Err(HostLockError::Held(holder(&folder(root)))),
            Err(error) => Err(HostLockError::NotLocked(folder(root), error.into())),
        }
    }
}

impl Drop for HostLock {
    fn drop(&mut self) {
        // A process that another thread has just forked has the folder open, too, until it is another program's: closing it here
        // would not let go (flock(2)).
        let _ = flock(&self.folder, FlockOperation::Unlock);
    }
}

/// The processes that have a lock on the folder, as far as this namespace shows them: a trial and its watchdog.
fn holder(folder: &Path) -> Option<String> {
    let about = stat(folder).ok()?;
    let file = format!("{:02x}:{:02x}:{}", major(about.st_dev), minor(about.st_dev), about.st_ino);
    let locks = fs::read_to_string("/proc/locks").ok()?;
    let text = |process: u32| match command_text(&fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default()) {
        text if text.is_empty() => format!("process {process}"),
        text => format!("process {process} ({text})"),
    };
    let holders: Vec<String> = holders_of(&locks, &file).into_iter().map(text).collect();
    (!holders.is_empty()).then(|| holders.join(" and "))
}

/// The processes that hold a file in /proc/locks (proc(5)): `1: FLOCK ADVISORY READ PROCESS MAJOR:MINOR:INODE 0 EOF`.
fn holders_of(locks: &str, file: &str) -> Vec<u32> {
    let holder = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let is_held = words.get(1) == Some(&"FLOCK") && words.get(5) == Some(&file);
        words.get(4).filter(|_| is_held)?.parse().ok().filter(|&process: &u32| process > 0)
    };
    let mut holders: Vec<u32> = locks.lines().filter_map(holder).collect();
    holders.sort_unstable();
    holders.dedup();
    holders
}

/// A command line as text that does not act on a terminal.
fn command_text(line: &[u8]) -> String {
    let line = String::from_utf8_lossy(line.strip_suffix(b"\0").unwrap_or(line)).replace('\0', " ");
    let mut shown: String =
        line.chars().take(SHOWN).map(|letter| if letter.is_ascii_graphic() { letter } else { ' ' }).collect();
    if line.chars().count() > SHOWN {
        shown.push_str("...");
    }
    if shown.trim().is_empty() { String::new() } else { format!("`{}`", shown.trim()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_taken_by_one_and_joined_by_its_watchdog() {
        let root = tempfile::tempdir().unwrap();
        for with_sys in [false, true] {
            if with_sys {
                fs::create_dir(root.path().join("sys")).unwrap();
            }
            let taken = HostLock::take(root.path()).unwrap();
            let Err(HostLockError::Held(Some(by))) = HostLock::take(root.path()) else { panic!("it is held") };
            assert!(by.starts_with(&format!("process {} (`", std::process::id())), "{by}");
            let joined = HostLock::join(root.path()).unwrap();
            drop(taken);
            assert!(HostLock::take(root.path()).is_err(), "the watchdog still has it");
            drop(joined);
            drop(HostLock::take(root.path()).unwrap());
        }
    }

    #[test]
    fn it_is_let_go_although_a_process_that_was_just_forked_has_the_folder_open() {
        let root = tempfile::tempdir().unwrap();
        let taken = HostLock::take(root.path()).unwrap();
        let forked = taken.folder.try_clone().unwrap();
        drop(taken);
        drop(HostLock::take(root.path()).unwrap());
        drop(forked);
    }

    #[test]
    fn the_folders_of_a_kernel_can_be_locked() {
        for folder in ["/sys/kernel", "/proc/sys/kernel"] {
            let taken = HostLock::take(Path::new(folder)).unwrap();
            assert!(HostLock::take(Path::new(folder)).is_err(), "{folder}");
            drop(taken);
        }
    }

    #[test]
    fn a_holder_is_found_by_its_file_and_shown_without_control_characters() {
        let locks = "1: POSIX  ADVISORY  WRITE 7 00:16:1 0 EOF\n2: FLOCK  ADVISORY  READ 18 00:16:12 0 EOF\n\
                     3: FLOCK  ADVISORY  READ 19 00:16:1 0 EOF\n4: FLOCK  ADVISORY  READ 17 00:16:1 0 EOF\n4: -> FLOCK  ADVISORY  WRITE 20 00:17:1 0 EOF\n\
                     5: FLOCK  ADVISORY  READ 0 00:16:1 0 EOF\n";
        assert_eq!((holders_of(locks, "00:16:1"), holders_of(locks, "00:17:1")), (vec![17, 19], Vec::new()));
        assert_eq!(command_text(b"exitscope\0try\0nice=5\0"), "`exitscope try nice=5`");
        assert_eq!(command_text(b"a\x1b[31m\0"), "`a [31m`");
        assert_eq!(command_text(b""), "");
        assert_eq!(command_text(&[b'a'; 200]).len(), SHOWN + 5);
    }
}
