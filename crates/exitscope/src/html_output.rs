//! Where `--html` writes a page.

use crate::output_file::{is_none_of, replace};
use anyhow::bail;
use exitscope_page::is_built;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// Why there are no pages.
pub const NOT_BUILT: &str = "this exitscope was built without the front end of pages. With Node 20 or later and npm: \
                             `make page`, or `npm ci` and `npm run build` in web/; then build exitscope again";

/// Fails if there will be no page: there is no front end, or the file is one of those that are read.
pub fn check(to: &Path, inputs: &[PathBuf]) -> anyhow::Result<()> {
    if !is_built() {
        bail!("--html: {NOT_BUILT}");
    }
    is_none_of(to, inputs, "--html")
}

/// Writes the page, and says so; what was there is kept as FILE.old.
pub fn write(to: &Path, page: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> anyhow::Result<()> {
    let name = to.display();
    let size = replace(to, |file| {
        let mut out = BufWriter::new(file);
        page(&mut out).and_then(|()| out.flush())?;
        Ok(file.metadata().map_or(0, |file| file.len()))
    })?;
    say!("wrote {name} ({} KB); open it in any browser", size / 1000);
    Ok(())
}
