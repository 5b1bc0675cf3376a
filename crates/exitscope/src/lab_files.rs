//! Files that a run of the lab leaves. It may take minutes, and may be stopped: what was there stays until the new one is
//! whole.
//!
//! ```text
//! before the run: can it be written? · after it: a temporary file beside it ─► FILE ─► FILE.old, then that ─► FILE
//! ```

use crate::live::keep_old;
use crate::whole_file::{self, beside, is_special};
use anyhow::Context;
use std::fs::File;
use std::path::Path;

/// Fails if the file will not be able to be written; changes nothing.
pub fn can_write(path: &Path) -> anyhow::Result<()> {
    let tried = match is_special(path) {
        true => File::options().write(true).open(path).map(drop),
        false => beside(path).map(drop),
    };
    tried.with_context(|| format!("cannot write {}", path.display()))
}

/// Writes the file; what was there is kept as FILE.old.
pub fn replace(path: &Path, write: impl FnOnce(&File) -> anyhow::Result<()>) -> anyhow::Result<()> {
    whole_file::write(path, write, || keep_old(path))
}
