//! The program as people get it: it needs nothing of the machine that it runs on, and has nothing of the one that built it.
//!
//! musl's standard library would do the same, and not every toolchain has it. glibc is linked into the program instead
//! (`crt-static`). Of what it then loads at run time, one thing is left: modules that look up names, where nsswitch.conf asks
//! for others than `files` and `dns`, which are in the library itself from glibc 2.34 on (its NEWS, 2.34). Tried: with `hosts: files dns`
//! nothing is loaded; libnss_myhostname.so.2 is, and works where the system's glibc is the one that was linked in. With another one
//! the linker promises nothing ("requires at runtime the shared libraries from the glibc version used for linking").

use super::tools::AUDITABLE;
use crate::{cargo, root, tidy};
use anyhow::{Context, ensure};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The front end of pages.
pub const PAGE: &str = "web/dist/page.html";

/// For what machines.
pub const TARGET: &str = "x86_64-unknown-linux-gnu";

/// How the paths of the building machine are called in the program.
const SOURCES: &str = "/exitscope";
const CRATES: &str = "/crates";
const STANDARD_LIBRARY: &str = "/rust";

/// The command with some of its features.
pub struct Flavour {
    /// What packages are called.
    pub name: &'static str,
    /// Of the top Cargo.toml.
    pub profile: &'static str,
    features: &'static str,
    /// The largest program, in bytes; `None` is any.
    pub at_most: Option<u64>,
}

impl Flavour {
    /// What most people need.
    pub const PLAIN: Flavour = Flavour { name: "exitscope", profile: "dist", features: "", at_most: Some(25_000_000) };
    /// With the store, SQL and clusters.
    pub const FLEET: Flavour =
        Flavour { name: "exitscope-fleet", profile: "fleet", features: "sql,cluster", at_most: None };
}

/// Builds a tree's command below `into`; gives the program.
pub fn compile(flavour: &Flavour, tree: &Path, into: &Path) -> anyhow::Result<PathBuf> {
    let mut build = Command::new(AUDITABLE.program()?);
    of_reproducible(&mut build, tree, &["-Ctarget-feature=+crt-static"])?;
    build.args(["auditable", "build", "--quiet", "--locked", "--package", "exitscope", "--bin", "exitscope"]);
    build.args(["--profile", flavour.profile, "--features", flavour.features, "--target", TARGET]);
    build.current_dir(tree).env("CARGO_TARGET_DIR", into);
    ensure!(build.status()?.success(), "{} does not build", flavour.name);
    Ok(into.join(TARGET).join(flavour.profile).join("exitscope"))
}

/// Has a command that builds a tree by cargo leave this machine's paths and the time out of it.
pub fn of_reproducible(build: &mut Command, tree: &Path, flags: &[&str]) -> anyhow::Result<()> {
    // What is set and taken away for cargo.
    for (name, value) in cargo()?.get_envs() {
        match value {
            Some(value) => build.env(name, value),
            None => build.env_remove(name),
        };
    }
    let paths = paths(tree)?;
    let mut flags: Vec<String> = flags.iter().map(ToString::to_string).collect();
    flags.extend(paths.iter().map(|(from, to)| format!("--remap-path-prefix={}={to}", from.display())));
    let of_c: Vec<String> =
        paths.iter().map(|(from, to)| format!("-ffile-prefix-map={}={to}", from.display())).collect();
    ensure!(
        of_c.iter().all(|flag| !flag.contains(' ')),
        "a path with a space cannot be taken out of what C compilers write"
    );
    build.env("CARGO_ENCODED_RUSTFLAGS", flags.join("\u{1f}")).env_remove("RUSTFLAGS");
    build.env(format!("CFLAGS_{}", TARGET.replace('-', "_")), of_c.join(" "));
    build.env("SOURCE_DATE_EPOCH", super::source_date()?.to_string()).env("CARGO_INCREMENTAL", "0");
    Ok(())
}

/// Paths of this machine that compilers write into programs, and what is written instead; the more special ones last, since the last
/// that fits is taken.
fn paths(tree: &Path) -> anyhow::Result<[(PathBuf, &'static str); 3]> {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cargo")));
    let home = home.context("neither CARGO_HOME nor HOME says where crates are")?;
    let rustc = super::output(Command::new("rustc").args(["--print", "sysroot"]))?;
    let library = PathBuf::from(String::from_utf8(rustc.stdout)?.trim());
    Ok([(library, STANDARD_LIBRARY), (home, CRATES), (tree.to_path_buf(), SOURCES)])
}

/// Has a folder hold what a build needs, and nothing else: the files of the repository, and the front end of pages, which is built before.
/// What is there already stays as it is, with its times, so that cargo builds only what changed.
pub fn copy_tree(to: &Path) -> anyhow::Result<()> {
    let files: BTreeSet<PathBuf> = tidy::files()?.into_iter().chain([PathBuf::from(PAGE)]).collect();
    remove_others(to, Path::new(""), &files)?;
    for file in files {
        let (copy, bytes) = (to.join(&file), fs::read(root().join(&file)).with_context(|| file.display().to_string())?);
        if fs::read(&copy).is_ok_and(|there| there == bytes) {
            continue;
        }
        fs::create_dir_all(copy.parent().context("a file in no folder")?)?;
        fs::write(copy, bytes)?;
    }
    Ok(())
}

fn remove_others(tree: &Path, below: &Path, files: &BTreeSet<PathBuf>) -> anyhow::Result<()> {
    for entry in tree.join(below).read_dir()? {
        let path = below.join(entry?.file_name());
        let there = tree.join(&path);
        if there.is_dir() && !there.is_symlink() {
            remove_others(tree, &path, files)?;
        } else if !files.contains(&path) {
            fs::remove_file(there)?;
        }
    }
    Ok(())
}
