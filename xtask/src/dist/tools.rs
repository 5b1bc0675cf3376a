//! Programs that cargo builds for us, of fixed versions, in target/tools.

use crate::{cargo, target};
use anyhow::ensure;
use std::path::PathBuf;

/// A tool of crates.io.
pub struct Tool {
    name: &'static str,
    version: &'static str,
}

/// Writes into the program which crates it is made of.
pub const AUDITABLE: Tool = Tool { name: "cargo-auditable", version: "0.7.7" };
/// Writes the same as a CycloneDX document.
pub const CYCLONEDX: Tool = Tool { name: "cargo-cyclonedx", version: "0.5.9" };
/// Judges licences, versions and sources of crates.
pub const DENY: Tool = Tool { name: "cargo-deny", version: "0.20.2" };

impl Tool {
    /// The program, which is built if it is not there.
    pub fn program(&self) -> anyhow::Result<PathBuf> {
        let folder = target()?.join("tools");
        let program = folder.join("bin").join(self.name);
        let listed = std::fs::read_to_string(folder.join(".crates.toml")).unwrap_or_default();
        if program.exists() && listed.contains(&format!("\"{} {} ", self.name, self.version)) {
            return Ok(program);
        }
        eprintln!("dist: building {} {}", self.name, self.version);
        let mut install = cargo()?;
        install.args(["install", "--quiet", "--debug", "--locked", "--version", self.version, "--root"]);
        install.arg(&folder).arg(self.name).env("CARGO_TARGET_DIR", folder.join("build"));
        ensure!(install.status()?.success(), "{} does not build", self.name);
        Ok(program)
    }
}
