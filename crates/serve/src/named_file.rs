//! A served file, opened anew for each reading although anything may have been put in its place.
//!
//! ```text
//! at the start: name ─► all symbolic links resolved ─► the path that is served
//! later:        each folder, then the file, none of them a link, the file a regular one ─► opened
//! ```
//!
//! The server reads with its own rights on behalf of its clients. Whoever may write to a recording's directory must not make it
//! read a link to /etc/shadow, an endless device or a pipe without a writer. A new regular file in the same place is served:
//! `exitscope record` leaves one.

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, Stat, fstat, openat, statat};
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Component, Path, PathBuf};

/// A file that cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("cannot read {}", name.display())]
pub struct CannotRead {
    /// What it is called.
    pub name: PathBuf,
    /// Why it could not be read.
    pub source: io::Error,
}

/// A file that was named when the server started.
#[derive(Clone, Debug)]
pub struct NamedFile {
    /// What it is called.
    name: PathBuf,
    /// Where it is, without symbolic links.
    path: PathBuf,
}

impl NamedFile {
    /// Finds the file that is called so, and whether it can be read.
    pub fn find(name: &Path) -> Result<NamedFile, CannotRead> {
        let cannot = |source| CannotRead { name: name.to_path_buf(), source };
        let path = name.canonicalize().map_err(cannot)?;
        let file = NamedFile { name: name.to_path_buf(), path };
        file.open()?;
        Ok(file)
    }

    /// What it is called.
    pub fn name(&self) -> &Path {
        &self.name
    }

    /// What is there now; an error if that is no regular file.
    pub(crate) fn stat(&self) -> io::Result<Stat> {
        let (folder, name) = self.folder()?;
        regular(statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)?)
    }

    /// The file, as it is now.
    pub fn open(&self) -> Result<File, CannotRead> {
        self.open_regular().map_err(|source| CannotRead { name: self.name.clone(), source })
    }

    fn open_regular(&self) -> io::Result<File> {
        let (folder, name) = self.folder()?;
        // Looked at first: opening a device may do something.
        regular(statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW)?)?;
        // What was put there since does not make us wait.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let file = openat(&folder, name, flags, Mode::empty())?;
        regular(fstat(&file)?)?;
        Ok(file.into())
    }

    /// The folder that it is in, and its name there.
    fn folder(&self) -> io::Result<(OwnedFd, &OsStr)> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut folder = openat(CWD, "/", flags, Mode::empty())?;
        let mut name = None;
        for part in self.path.components() {
            let Component::Normal(part) = part else { continue };
            if let Some(inner) = name.replace(part) {
                folder = openat(&folder, inner, flags, Mode::empty())?;
            }
        }
        Ok((folder, name.unwrap_or_default()))
    }
}

/// What was found, if it is a regular file.
fn regular(found: Stat) -> io::Result<Stat> {
    let what = match FileType::from_raw_mode(found.st_mode) {
        FileType::RegularFile => return Ok(found),
        FileType::Symlink => "a symbolic link; links are followed only when the server starts",
        FileType::Directory => "a directory, not a file",
        FileType::Fifo => "a pipe, not a regular file",
        _ => "not a regular file",
    };
    Err(io::Error::other(what))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::fcntl_getfl;
    use rustix::io::{FdFlags, fcntl_getfd};

    /// What is put in its place between the look and the opening is not followed, not waited for, and not left to programs that are
    /// started.
    #[test]
    fn a_file_and_its_folder_are_opened_without_following_or_waiting() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("one.data");
        std::fs::write(&path, "one").unwrap();
        let named = NamedFile::find(&path).unwrap();
        assert_eq!(named.name(), path);
        let file = named.open().unwrap();
        assert!(fcntl_getfl(&file).unwrap().contains(OFlags::NOFOLLOW | OFlags::NONBLOCK));
        assert!(fcntl_getfd(&file).unwrap().contains(FdFlags::CLOEXEC));
        let (opened, name) = named.folder().unwrap();
        assert_eq!(name, "one.data");
        assert!(fcntl_getfl(&opened).unwrap().contains(OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW));
        assert!(fcntl_getfd(&opened).unwrap().contains(FdFlags::CLOEXEC));
    }
}
