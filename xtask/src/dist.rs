//! What people install: made into dist/, and with --check tried as a new user would.
//!
//! ```text
//! cargo, by `compile` ─► program ─┬─► `contents`, a row for each file ─┬─► `tarball`
//!                                 │                                    ├─► `deb`
//!                                 │                                    ├─► `rpm`
//!                                 │                                    └─► `image`
//!                                 └─► `sbom`                                 all ─► SHA256SUMS ─► `check`
//! maturin ─► `wheel`
//! ```
//!
//! Nothing here depends on the time or the place: times are that of the last commit, and paths are taken out of the program.

mod check;
mod clean_root;
mod compile;
mod contents;
mod deb;
mod image;
mod recorded_build;
mod rpm;
mod sbom;
mod tarball;
mod tools;
mod transcript;
mod wheel;

use crate::{root, target};
use anyhow::{Context, ensure};
use compile::Flavour;
use sha2::{Digest, Sha256};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The release, everywhere: of packages, in their names and in the program.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Flags of `cargo xtask dist`.
#[derive(clap::Args)]
pub struct Flags {
    /// Try what is in dist/: install it in clean roots, use it, build the program again; writes docs/examples/install.txt and python.txt
    #[arg(long)]
    check: bool,
    /// Also make the tarball of the command with the store, SQL and clusters, which takes half an hour to build
    #[arg(long, conflicts_with = "check")]
    fleet: bool,
    /// Make the wheel again, and nothing else
    #[arg(long, conflicts_with_all = ["check", "fleet"])]
    wheel: bool,
    /// Pack this program and build none, so that there is no wheel, for work on the packages
    #[arg(long, value_name = "FILE", conflicts_with_all = ["check", "fleet", "wheel"])]
    program: Option<PathBuf>,
    /// With --check: only these parts
    #[arg(long, value_name = "PART", requires = "check", value_delimiter = ',')]
    only: Vec<check::Part>,
}

/// Makes the packages, or checks those that are there.
pub fn run(flags: &Flags) -> anyhow::Result<()> {
    if flags.check {
        return check::run(&flags.only);
    }
    ensure!(
        fs::metadata(root().join(compile::PAGE)).is_ok_and(|page| page.len() > 0),
        "{} is missing: `make page` builds it, and `make dist` does both",
        compile::PAGE
    );
    let folder = folder();
    if flags.wheel {
        fs::create_dir_all(&folder)?;
        if let Ok(wheel) = wheel::wheel_in(&folder) {
            fs::remove_file(wheel)?;
        }
        wheel::make(&folder)?;
    } else {
        make_all(flags, &folder)?;
    }
    write_sums(&folder)?;
    for file in files_of(&folder)? {
        let size = fs::metadata(folder.join(&file))?.len();
        println!("{:>7.1} MB  dist/{file}", size as f64 / 1e6);
    }
    Ok(())
}

/// Makes the packages, where there are none then.
fn make_all(flags: &Flags, folder: &Path) -> anyhow::Result<()> {
    if folder.exists() {
        fs::remove_dir_all(folder)?;
    }
    fs::create_dir_all(folder)?;
    let program = match &flags.program {
        Some(program) => program.clone(),
        None => build()?,
    };
    tarball::make(&Flavour::PLAIN, &program, folder)?;
    if flags.fleet {
        let program = compile::compile(&Flavour::FLEET, root(), &target()?.join("dist"))?;
        tarball::make(&Flavour::FLEET, &program, folder)?;
    }
    deb::make(&program, folder)?;
    rpm::make(&program, folder)?;
    image::make(&program, folder)?;
    if flags.program.is_none() {
        wheel::make(folder)?;
    }
    sbom::make(folder)
}

/// Builds the program that packages have; gives it.
pub fn build() -> anyhow::Result<PathBuf> {
    compile::compile(&Flavour::PLAIN, root(), &target()?.join("dist"))
}

/// Where packages are put.
fn folder() -> PathBuf {
    root().join("dist")
}

/// The time of the last commit, in seconds since 1970: that of all files in packages.
fn source_date() -> anyhow::Result<u64> {
    let said = output(Command::new("git").args(["log", "-1", "--format=%ct"]).current_dir(root()))?;
    let text = String::from_utf8(said.stdout)?;
    text.trim().parse().with_context(|| format!("git says no time: {text}"))
}

/// What a command prints; an error with what it complained of if it fails.
fn output(command: &mut Command) -> anyhow::Result<Output> {
    let said = command.output().with_context(|| format!("cannot run {command:?}"))?;
    ensure!(
        said.status.success(),
        "{command:?} failed: {}{}",
        String::from_utf8_lossy(&said.stdout),
        String::from_utf8_lossy(&said.stderr).trim()
    );
    Ok(said)
}

/// Names of the files of a folder, sorted.
fn files_of(folder: &Path) -> anyhow::Result<Vec<String>> {
    let entries = fs::read_dir(folder).with_context(|| folder.display().to_string())?;
    let mut names = Vec::new();
    for entry in entries {
        names.push(entry?.file_name().to_string_lossy().into_owned());
    }
    names.sort();
    Ok(names)
}

/// A hash in hexadecimal digits.
fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// What `sha256sum --check` reads.
const SUMS: &str = "SHA256SUMS";

fn write_sums(folder: &Path) -> anyhow::Result<()> {
    let mut sums = String::new();
    for file in files_of(folder)?.into_iter().filter(|file| file != SUMS) {
        sums += &format!("{}  {file}\n", sha256(&fs::read(folder.join(&file))?));
    }
    Ok(fs::write(folder.join(SUMS), sums)?)
}
