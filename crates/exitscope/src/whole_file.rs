//! Files that are there only when they are whole: until then, what was there stays.
//!
//! ```text
//! a temporary file beside it ─► FILE
//! ```

use anyhow::{Context, bail};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use tempfile::NamedTempFile;

/// Writes the file, in place of what was there. `before` is called when the new one is whole.
pub fn write<T>(
    path: &Path,
    write: impl FnOnce(&File) -> anyhow::Result<T>,
    before: impl FnOnce() -> anyhow::Result<()>,
) -> anyhow::Result<T> {
    let cannot = || format!("cannot write {}", path.display());
    if is_special(path) {
        return write(&File::create(path).with_context(cannot)?).with_context(cannot);
    }
    let new = beside(path).with_context(cannot)?;
    let written = write(new.as_file()).with_context(cannot)?;
    before()?;
    new.persist(path).with_context(cannot)?;
    Ok(written)
}

/// Something that is not a file, like /dev/null: it is written as it is.
pub fn is_special(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|about| !about.is_file())
}

/// A temporary file in the same folder.
pub fn beside(path: &Path) -> io::Result<NamedTempFile> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    tempfile::Builder::new().permissions(fs::Permissions::from_mode(0o666)).tempfile_in(folder)
}

/// Fails if the file to write is one of those that are read.
pub fn is_none_of(to: &Path, files: &[PathBuf], flag: &str) -> anyhow::Result<()> {
    let same = |path: &PathBuf| path.canonicalize().is_ok_and(|path| to.canonicalize().is_ok_and(|to| path == to));
    if files.iter().any(same) {
        bail!("{flag}: {} is the trace itself", to.display());
    }
    Ok(())
}
