//! Files that a run of the lab, of the simulator or of an export leaves. It may take minutes, and may be stopped: what was
//! there stays until the new one is whole.
//!
//! ```text
//! can_write: nothing is run in vain · replace: a temporary file beside it, written; FILE ─► FILE.old; that ─► FILE
//! ```

use anyhow::{Context, bail};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use tempfile::NamedTempFile;

/// Fails if the file to write is one of those that are read.
pub fn is_none_of(to: &Path, inputs: &[PathBuf], flag: &str) -> anyhow::Result<()> {
    let same = |path: &PathBuf| path.canonicalize().is_ok_and(|path| to.canonicalize().is_ok_and(|to| path == to));
    match inputs.iter().any(same) {
        true => bail!("{flag}: {} is what is read", to.display()),
        false => Ok(()),
    }
}

/// Fails if the file will not be able to be written; changes nothing.
pub fn can_write(path: &Path) -> anyhow::Result<()> {
    let tried = match is_special(path) {
        true => File::options().write(true).open(path).map(drop),
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
        return write(&File::create(path).with_context(cannot)?).map_err(of_file);
    }
    let new = beside(path).with_context(cannot)?;
    let made = write(new.as_file()).map_err(of_file)?;
    keep_old(path)?;
    new.persist(path).with_context(cannot)?;
    Ok(made)
}

/// As perf does: what was there last time is kept once, as FILE.old.
pub fn keep_old(path: &Path) -> anyhow::Result<()> {
    if path.is_file() && !is_special(path) {
        let mut old = path.as_os_str().to_owned();
        old.push(".old");
        fs::rename(path, &old).with_context(|| format!("cannot keep the old {}", path.display()))?;
    }
    Ok(())
}

/// Something that is not a file, like /dev/null: it is written as it is. So is /dev/stdout, even where it leads to a file:
/// another one of that name would be of no use.
fn is_special(path: &Path) -> bool {
    let of_kernel = |folder: PathBuf| folder == Path::new("/dev") || folder.starts_with("/proc");
    folder(path).canonicalize().is_ok_and(of_kernel) || fs::metadata(path).is_ok_and(|about| !about.is_file())
}

fn folder(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn beside(path: &Path) -> io::Result<NamedTempFile> {
    let folder = folder(path);
    tempfile::Builder::new().permissions(fs::Permissions::from_mode(0o666)).tempfile_in(folder)
}
