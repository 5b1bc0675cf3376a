//! Which tree the settings are in that a state file notes: the `sys` below a root, known by device and inode, however it is
//! reached.
//!
//! *Why not its path.* A link, a bind mount and a relative path reach the same files, and tomorrow other files may be at this
//! path. The path is only named to people.
//!
//! *The kernel's own.* sysfs is mounted once for each network namespace, each with a device of its own, and all of them show the
//! settings of one kernel. So what was set through one of them can be restored through any other, also where a container was
//! started again.

use rustix::fs::statfs;
use serde::{Deserialize, Serialize};
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

/// What statfs(2) says of sysfs (linux/magic.h).
const SYSFS: u64 = 0x6265_6572;

/// Letters of a path at most: one of PATH_MAX bytes, of which each may be no text.
const PATH: usize = 3 * 4096;

/// A tree of settings.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct SettingsTree {
    /// Its root, for people.
    pub root: String,
    /// The device of its folder.
    device: u64,
    /// The inode of its folder.
    inode: u64,
    /// When the folder was made, in nanoseconds of Unix time, where the file system knows: an inode may be used again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    made: Option<u64>,
    /// Whether the folder is the kernel's sysfs.
    is_kernels: bool,
}

impl SettingsTree {
    /// The tree below `root`.
    pub fn of(root: &Path) -> io::Result<SettingsTree> {
        let folder = folder(root);
        let about = fs::metadata(&folder)?;
        let made = about.created().ok().and_then(|made| made.duration_since(UNIX_EPOCH).ok());
        let root = fs::canonicalize(root)?.display().to_string();
        Ok(SettingsTree {
            root: root.chars().map(|letter| if letter.is_control() { '?' } else { letter }).collect(),
            device: about.dev(),
            inode: about.ino(),
            made: made.and_then(|made| made.as_nanos().try_into().ok()),
            is_kernels: statfs(&folder)?.f_type as u64 == SYSFS,
        })
    }

    /// Whether both are one tree, if the host was not booted between.
    pub fn is_same(&self, other: &SettingsTree) -> bool {
        let key = |of: &SettingsTree| (of.device, of.inode, of.made);
        self.is_kernels && other.is_kernels || key(self) == key(other)
    }

    /// Whether the path can be shown.
    pub fn is_sound(&self) -> bool {
        self.root.len() <= PATH && !self.root.chars().any(char::is_control)
    }
}

/// The folder in which the host below `root` shows its settings; the root, if there is none.
pub fn folder(root: &Path) -> PathBuf {
    let sys = root.join("sys");
    if sys.is_dir() { sys } else { root.to_path_buf() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn a_tree_is_the_same_by_any_path_and_no_other_is() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::create_dir_all(path("one/sys")).unwrap();
        fs::create_dir_all(path("two/sys")).unwrap();
        fs::create_dir(path("none")).unwrap();
        symlink(path("one"), path("link")).unwrap();
        let of = |name: &str| SettingsTree::of(&path(name)).unwrap();
        assert!(of("one").is_same(&of("link")) && of("one").is_same(&of("two/../one/.")));
        assert_eq!(of("link").root, fs::canonicalize(path("one")).unwrap().display().to_string());
        assert!(!of("one").is_same(&of("two")) && !of("one").is_same(&of("none")));
        // Without a sys, the root; and one that comes later is another tree.
        let before = of("none");
        assert!(before.is_same(&of("none")));
        fs::create_dir(path("none/sys")).unwrap();
        assert!(!before.is_same(&of("none")));
        assert!(SettingsTree::of(&path("nowhere")).is_err());
    }

    #[test]
    fn a_path_that_is_too_long_or_acts_on_a_terminal_is_not_sound() {
        let folder = tempfile::tempdir().unwrap();
        let of = |root: String| SettingsTree { root, ..SettingsTree::of(folder.path()).unwrap() };
        assert!(of("/".to_string()).is_sound() && of("x".repeat(PATH)).is_sound());
        assert!(!of("x".repeat(PATH + 1)).is_sound() && !of("/a\u{1b}[2J".to_string()).is_sound());
    }

    #[test]
    fn a_folder_that_was_made_anew_is_another_one_although_it_has_the_inode() {
        let folder = tempfile::tempdir().unwrap();
        let made = |made| SettingsTree { made, ..SettingsTree::of(folder.path()).unwrap() };
        assert!(!made(Some(1)).is_same(&made(Some(2))) && made(None).is_same(&made(None)));
    }

    #[test]
    fn the_kernels_settings_are_the_same_wherever_they_are_mounted() {
        let folder = tempfile::tempdir().unwrap();
        symlink("/sys", folder.path().join("sys")).unwrap();
        let (here, linked) = (SettingsTree::of(Path::new("/")).unwrap(), SettingsTree::of(folder.path()).unwrap());
        assert!(here.is_same(&linked) && here.is_kernels);
        // As another network namespace has it.
        assert!(here.is_same(&SettingsTree { device: linked.device + 1, ..linked.clone() }));
        let plain = SettingsTree { is_kernels: false, ..linked };
        assert!(!SettingsTree { device: plain.device + 1, ..plain }.is_same(&here));
    }
}
