//! The tests of the crates that run guests with `unsafe` code, under the address sanitizer.
//!
//! ```text
//! a program with a use after free ─► must be caught, or the sanitizer sees nothing here
//! crates with unsafe code ─► cargo test -Zsanitizer=address ─► real guests on /dev/kvm, as in the plain tests
//! ```
//!
//! It sees accesses beyond what was allocated or mapped, uses after free, and leaks, in the lab's own process. What a guest
//! does in its memory is the processor's affair, and not seen. Miri runs no guest and knows none of KVM's calls; the thread
//! sanitizer needs a standard library built for it, whose source a plain toolchain does not bring.

use crate::{cargo, target};
use anyhow::{Context, Error, ensure};
use exitscope_skips::{Part, try_skip};
use std::path::Path;
use std::process::Command;

/// The crates.
const UNSAFE: &[&str] = &["exitscope-lab", "exitscope-record", "tiny-guest"];

const FLAG: &str = "-Zsanitizer=address";

/// Where the sanitizer's library is part of every toolchain of rustup's.
pub const TARGET: &str = "x86_64-unknown-linux-gnu";

/// A use after free.
const WRONG: &str = "fn main() { let p = Box::into_raw(Box::new(7u8)); \
                     unsafe { drop(Box::from_raw(p)); std::process::exit(i32::from(p.read_volatile())) } }";

/// Runs the tests.
pub fn run() -> anyhow::Result<()> {
    let folder = target()?.join("sanitize");
    std::fs::create_dir_all(&folder)?;
    if let Err(error) = sees_what_is_wrong(&folder) {
        let _skipped = try_skip(Part::Sanitizer, format!("{error:#}")).map_err(Error::msg)?;
        return Ok(());
    }
    let mut cargo = cargo()?;
    cargo.args(["test", "--quiet", "--locked", "--lib", "--bins", "--tests", "--target", TARGET]);
    for name in UNSAFE {
        cargo.args(["--package", name]);
    }
    // The switch is not stable, but what it switches on is part of stable toolchains.
    cargo.env("RUSTC_BOOTSTRAP", "1").env("RUSTFLAGS", FLAG).env("CARGO_TARGET_DIR", &folder);
    // As rustc compiles it.
    cargo.env_remove("RUSTC_WORKSPACE_WRAPPER");
    // Built sooner, and nothing that is wrong is optimised away.
    for setting in ["opt-level=0", "debug=\"line-tables-only\"", "package.\"*\".opt-level=0"] {
        cargo.arg("--config").arg(format!("profile.dev.{setting}"));
    }
    ensure!(cargo.status()?.success(), "the tests fail under the address sanitizer");
    Ok(())
}

/// Fails unless a program that is wrong is caught.
fn sees_what_is_wrong(folder: &Path) -> anyhow::Result<()> {
    let (source, program) = (folder.join("wrong.rs"), folder.join("wrong"));
    std::fs::write(&source, WRONG)?;
    let mut rustc = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
    rustc.args(["--edition=2024", "--target", TARGET, FLAG, "-o"]).arg(&program).arg(&source);
    let built = rustc.env("RUSTC_BOOTSTRAP", "1").output().context("cannot run rustc")?;
    let complaint = String::from_utf8_lossy(&built.stderr);
    ensure!(built.status.success(), "the toolchain has no address sanitizer for {TARGET}: {}", complaint.trim());
    let caught = Command::new(&program).output()?;
    let said = String::from_utf8_lossy(&caught.stderr);
    ensure!(
        said.contains("heap-use-after-free"),
        "the address sanitizer does not see a use after free: {}",
        said.trim()
    );
    Ok(())
}
