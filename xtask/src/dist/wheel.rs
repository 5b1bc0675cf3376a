//! Python's package: the command and the module in one wheel, for every Python from the one that crates/python/pyproject.toml names.
//!
//! maturin makes it, as its users have it from pip. It links to the machine's glibc, as Python does: of which version, the wheel's name says.

use super::compile::{Flavour, of_reproducible};
use super::{files_of, output};
use crate::{cargo, root, target};
use anyhow::{Context, ensure};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The package's folder.
pub const PACKAGE: &str = "crates/python";

/// Packages that make and try the wheel, of fixed versions.
const MATURIN: &str = "maturin==1.16.0";

/// Makes the wheel.
pub fn make(into: &Path) -> anyhow::Result<()> {
    let tools = environment("wheel-tools", &[MATURIN])?;
    let mut build = Command::new(tools.join("bin/maturin"));
    of_reproducible(&mut build, root(), &[])?;
    build.args(["build", "--quiet", "--profile", Flavour::PLAIN.profile, "--out"]).arg(into);
    build.arg("--manifest-path").arg(root().join(PACKAGE).join("Cargo.toml"));
    build.env("CARGO", cargo()?.get_program()).env("CARGO_TARGET_DIR", target()?.join("dist-wheel"));
    ensure!(build.status()?.success(), "the wheel does not build");
    Ok(())
}

/// The wheel of a folder.
pub fn wheel_in(folder: &Path) -> anyhow::Result<PathBuf> {
    let name = files_of(folder)?.into_iter().find(|name| name.ends_with(".whl"));
    Ok(folder.join(name.context("there is no wheel: `make dist` makes it")?))
}

/// An environment of Python with these packages, kept below the target directory.
pub fn environment(name: &str, packages: &[&str]) -> anyhow::Result<PathBuf> {
    let folder = target()?.join(name);
    let listed = folder.join("packages.txt");
    let wanted = packages.join("\n");
    if std::fs::read_to_string(&listed).is_ok_and(|there| there == wanted) {
        return Ok(folder);
    }
    output(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&folder))?;
    output(
        Command::new(folder.join("bin/pip")).args(["install", "--quiet", "--disable-pip-version-check"]).args(packages),
    )?;
    std::fs::write(listed, wanted)?;
    Ok(folder)
}
