//! What is put into a directory is its owner's alone, as perf.data is: `object_store` cannot be told so, and what it makes has
//! the rights that the umask leaves.
//!
//! ```text
//! new directory: 0700      files: 0600      folders: 0700
//! setgid directory: what its group may do there, the group may do with files and folders, too
//! ```

use rustix::fs::Mode;
use rustix::process::umask;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Who has the umask, which is the whole process's.
static TURN: Mutex<()> = Mutex::new(());

/// As long as this is there, only its owner, and who was let in, may use what is created.
pub struct PrivateFiles {
    before: Mode,
    _turn: MutexGuard<'static, ()>,
}

impl PrivateFiles {
    /// Lets nobody in but these of the group.
    pub fn begin(of_group: Mode) -> PrivateFiles {
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        PrivateFiles { before: umask((Mode::RWXG | Mode::RWXO).difference(of_group)), _turn: turn }
    }
}

impl Drop for PrivateFiles {
    fn drop(&mut self) {
        umask(self.before);
    }
}

/// What the group of this directory may do with what is put there: nothing, unless its setgid bit says that it is shared.
pub fn shared_with_group(directory: &Path) -> Mode {
    let mode = directory.metadata().map_or(0, |about| about.mode());
    if mode & 0o2000 == 0 { Mode::empty() } else { Mode::from_raw_mode(mode & 0o070) }
}
