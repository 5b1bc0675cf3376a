//! Bounded reads below a root.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

/// Bytes that are read of a file at most: a command line may be as long as the stack allows (6 MiB, `_STK_LIM / 4 * 3` of
/// fs/exec.c), and what names a VM is at its beginning; a domain of libvirt takes some 10 KiB.
const LONGEST: u64 = 1 << 20;

/// Entries that are read of a folder at most.
const ENTRIES: usize = 1 << 16;

/// A host's files, below a root.
#[derive(Clone, Debug)]
pub struct HostTree {
    root: PathBuf,
}

impl Default for HostTree {
    /// This host.
    fn default() -> HostTree {
        HostTree::below("/")
    }
}

/// What was read of a file.
pub(crate) struct Contents {
    pub bytes: Vec<u8>,
    /// Whether that is all of it.
    pub is_whole: bool,
}

impl HostTree {
    /// The tree below `root`.
    pub fn below(root: impl Into<PathBuf>) -> HostTree {
        HostTree { root: root.into() }
    }

    /// Reads a plain file, given relative to the root; neither a link, which could lead anywhere, nor a pipe, at which a
    /// reader would wait.
    pub(crate) fn read(&self, path: impl AsRef<Path>) -> Option<Contents> {
        let path = self.root.join(path);
        if !fs::symlink_metadata(&path).ok()?.is_file() {
            return None;
        }
        let mut bytes = Vec::new();
        File::open(path).ok()?.take(LONGEST + 1).read_to_end(&mut bytes).ok()?;
        let is_whole = bytes.len() as u64 <= LONGEST;
        bytes.truncate(LONGEST as usize);
        Some(Contents { bytes, is_whole })
    }

    /// The text of such a file, if it is read whole.
    pub(crate) fn text(&self, path: impl AsRef<Path>) -> Option<String> {
        let contents = self.read(path)?;
        contents.is_whole.then(|| String::from_utf8_lossy(&contents.bytes).into_owned())
    }

    /// The words of such a file that end with a NUL each (`/proc/PID/cmdline`, `/proc/PID/environ`). One that was cut is left out.
    pub(crate) fn words(&self, path: impl AsRef<Path>) -> Vec<String> {
        let Some(Contents { mut bytes, is_whole }) = self.read(path) else { return Vec::new() };
        if !is_whole {
            let end = bytes.iter().rposition(|&byte| byte == 0).unwrap_or(0);
            bytes.truncate(end);
        }
        let text = String::from_utf8_lossy(&bytes);
        text.strip_suffix('\0').unwrap_or(&text).split('\0').map(str::to_string).collect()
    }

    /// The names in a folder; `None` if it cannot be listed, or has too many.
    pub(crate) fn names(&self, path: impl AsRef<Path>) -> Option<Vec<String>> {
        let entries = fs::read_dir(self.root.join(path)).ok()?.flatten();
        let names: Vec<String> =
            entries.filter_map(|entry| entry.file_name().into_string().ok()).take(ENTRIES + 1).collect();
        (names.len() <= ENTRIES).then_some(names)
    }
}
