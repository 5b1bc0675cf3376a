//! Files that a run of the lab, of the simulator or of an export leaves. It may take minutes, and may be stopped: what was
//! there stays until the new one is whole.
//!
//! ```text
//! can_write: nothing is run in vain · replace: a temporary file beside it, written; FILE ─► FILE.old; that ─► FILE
//! create: FILE ─► FILE.old; a new FILE that grows
//! ```

use anyhow::{Context, bail};
use rustix::fs::OFlags;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use tempfile::NamedTempFile;

/// What is written tells whatever the guests did: it is its owner's alone, as perf.data is.
const PRIVATE: u32 = 0o600;

/// Fails if the file to write is one of those that are read.
pub fn is_none_of(to: &Path, inputs: &[PathBuf], flag: &str) -> anyhow::Result<()> {
    let same = |path: &PathBuf| path.canonicalize().is_ok_and(|path| to.canonicalize().is_ok_and(|to| path == to));
    match inputs.iter().any(same) {
        true => bail!("{flag}: {} is the file that is read", to.display()),
        false => Ok(()),
    }
}

/// Fails if the file will not be able to be written; changes nothing.
pub fn can_write(path: &Path) -> anyhow::Result<()> {
    let tried = match is_special(path) {
        // Whoever reads a pipe would take the end of this for the end of all.
        true if path.metadata().is_ok_and(|about| about.file_type().is_fifo()) => Ok(()),
        true => open_special(path).map(drop),
        false => beside(path).map(drop),
    };
    tried.with_context(|| format!("cannot write {}", path.display()))
}

/// Writes the file; what was there is kept as FILE.old. If that fails, all stays as it was.
pub fn replace<T>(path: &Path, write: impl FnOnce(&File) -> anyhow::Result<T>) -> anyhow::Result<T> {
    let cannot = || format!("cannot write {}", path.display());
    // Another trouble than with the file may have ended it.
    let of_file = |error: anyhow::Error| if error.is::<io::Error>() { error.context(cannot()) } else { error };
    if is_special(path) {
        return write(&open_special(path).with_context(cannot)?).map_err(of_file);
    }
    let new = beside(path).with_context(cannot)?;
    let made = write(new.as_file()).map_err(of_file)?;
    keep_old(path)?;
    new.persist(path).with_context(cannot)?;
    Ok(made)
}

/// A file that is written as it grows; what was there is kept as FILE.old.
pub fn create(path: &Path) -> anyhow::Result<File> {
    let cannot = || format!("cannot write {}", path.display());
    if is_special(path) {
        return open_special(path).with_context(cannot);
    }
    keep_old(path)?;
    // Whoever puts a link there now gets no file of ours through it: O_EXCL follows none.
    File::options().write(true).create_new(true).mode(PRIVATE).open(path).with_context(cannot)
}

/// As perf does: what was there last time is kept once, as FILE.old. Of a link, the link is kept, and nothing is written
/// through it.
fn keep_old(path: &Path) -> anyhow::Result<()> {
    if path.symlink_metadata().is_ok_and(|about| !about.is_dir()) {
        let mut old = path.as_os_str().to_owned();
        old.push(".old");
        fs::rename(path, &old).with_context(|| format!("cannot keep the old {}", path.display()))?;
    }
    Ok(())
}

/// Something that is not a file, like a pipe: it is written as it is. So is what is in /dev and /proc, even where it leads to
/// a file: another one of the name /dev/stdout would be of no use. A link elsewhere is none of these.
fn is_special(path: &Path) -> bool {
    is_of_kernel(path)
        || path.symlink_metadata().is_ok_and(|about| !about.is_file() && !about.is_symlink() && !about.is_dir())
}

fn is_of_kernel(path: &Path) -> bool {
    folder(path).canonicalize().is_ok_and(|folder| folder == Path::new("/dev") || folder.starts_with("/proc"))
}

fn open_special(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    options.write(true);
    if !is_of_kernel(path) {
        options.custom_flags(OFlags::NOFOLLOW.bits() as i32);
    }
    let file = options.open(path)?;
    // As a shell's `>` leaves it.
    if file.metadata()?.is_file() {
        file.set_len(0)?;
    }
    Ok(file)
}

fn folder(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// A temporary file in the same folder, of its owner's alone, under a name that nobody knows.
fn beside(path: &Path) -> io::Result<NamedTempFile> {
    let made = tempfile::Builder::new().permissions(fs::Permissions::from_mode(PRIVATE)).tempfile_in(folder(path));
    // Its error names the temporary file.
    made.map_err(|error| error.kind().into())
}
