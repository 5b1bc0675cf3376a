//! Debian's package: the files of a system, and what dpkg is told of them.
//!
//! By dpkg-deb and the rows of `contents`: cargo-deb would want the same list a second time, in Cargo.toml.

use super::contents::{Layout, PackagedFile, files};
use super::output;
use crate::root;
use anyhow::Context;
use exitscope_record::Capability;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

/// Who answers for the package.
pub const MAINTAINER: &str = "The exitscope authors <exitscope@users.noreply.github.com>";

/// What maintainer scripts need: addgroup and setcap.
const NEEDS: &str = "adduser, libcap2-bin";

const SCRIPTS: [&str; 3] = ["postinst", "prerm", "postrm"];

/// The package's name in dist/.
pub fn name() -> String {
    format!("exitscope_{}_amd64.deb", super::VERSION)
}

/// Writes the package of a program.
pub fn make(program: &Path, into: &Path) -> anyhow::Result<()> {
    let files = files(Layout::System, program)?;
    let staging = tempfile::tempdir()?;
    fs::set_permissions(staging.path(), fs::Permissions::from_mode(0o755))?;
    let size: usize = files.iter().map(|file| file.bytes.len()).sum();
    for PackagedFile { path, bytes, mode } in &files {
        write(&staging.path().join(path), bytes, *mode)?;
    }
    let mut sums = Command::new("md5sum");
    sums.args(files.iter().map(|file| &file.path)).current_dir(staging.path());
    let told = staging.path().join("DEBIAN");
    write(&told.join("md5sums"), &output(&mut sums)?.stdout, 0o644)?;
    write(&told.join("control"), control(size.div_ceil(1024)).as_bytes(), 0o644)?;
    for name in SCRIPTS {
        let script = fs::read_to_string(root().join("contrib/debian").join(name)).context(name)?;
        let script = script.replace("@CAPABILITIES@", &Capability::where_tracefs_is_readable());
        write(&told.join(name), script.as_bytes(), 0o755)?;
    }
    let mut build = Command::new("dpkg-deb");
    build.args(["--root-owner-group", "-Zxz", "--build"]).arg(staging.path()).arg(into.join(name()));
    build.env("SOURCE_DATE_EPOCH", super::source_date()?.to_string());
    output(&mut build).context("Debian's dpkg-deb makes the package")?;
    Ok(())
}

fn write(path: &Path, bytes: &[u8], mode: u32) -> anyhow::Result<()> {
    let folder = path.parent().context("a file in no folder")?;
    fs::create_dir_all(folder)?;
    fs::write(path, bytes)?;
    Ok(fs::set_permissions(path, fs::Permissions::from_mode(mode))?)
}

/// `size` is in KiB.
fn control(size: usize) -> String {
    format!(
        "Package: exitscope\nVersion: {}\nArchitecture: amd64\nMaintainer: {MAINTAINER}\nInstalled-Size: {size}\nDepends: {NEEDS}\n\
         Section: admin\nPriority: optional\nHomepage: {}\n\
         Description: where virtual machines lose time in VM exits\n \
         Shows why a virtual machine is slow: which exits, halts and waits take its\n \
         vCPUs' time, and what a change would gain. Reads perf.data, trace.dat, ftrace\n \
         text and xentrace logs, or records and watches the running host.\n \
         .\n \
         Members of the group exitscope may record without being root.\n",
        super::VERSION,
        env!("CARGO_PKG_REPOSITORY"),
    )
}
