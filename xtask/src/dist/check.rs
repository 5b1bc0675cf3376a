//! Tries what is in dist/, part by part: each prints what it found.
//!
//! Clean roots, containers and capabilities are root's to make, so all of it is run as root. A part that this machine cannot do is an
//! error, but for recording where there is no /dev/kvm, which is said.

use super::compile::{Flavour, compile, copy_tree};
use super::{deb, folder, image, output, recorded_build, sbom, tarball, tools};
use crate::{cargo, root};
use anyhow::{Context, bail, ensure};
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Instant;
use tempfile::TempDir;

mod container;
mod debian;
mod fedora;
mod wheel;

/// What is tried.
#[derive(Clone, Copy, Debug, PartialEq, clap::ValueEnum)]
pub enum Part {
    /// SHA256SUMS
    Sums,
    /// The program: static, stripped, small, and starts in an empty root
    Program,
    /// Debian's package: lintian, and installed, used and removed in a clean root
    Deb,
    /// RPM's package: installed by rpm, used and removed in a clean root
    Rpm,
    /// The image: run by crun, as nobody, read-only
    Image,
    /// Python's wheel: installed, its tests, and its times beside the command's
    Wheel,
    /// The list of crates, against what the program says itself
    Sbom,
    /// Licences, bans and sources of crates, and the licence of each file
    Licences,
    /// The program, built again in another path: the same bytes
    Again,
}

/// The recording that everything is tried with.
const RECORDING: &str = "corpus/x86-svm/t2.data.gz";

/// From nothing to the first report, in seconds, at most.
const AT_MOST_SECONDS: f64 = 60.0;

/// Tries the named parts, or all.
pub fn run(only: &[Part]) -> anyhow::Result<()> {
    let user = output(Command::new("id").arg("-u"))?;
    ensure!(user.stdout.trim_ascii() == b"0", "clean roots and capabilities are root's: run this as root");
    let all = <Part as clap::ValueEnum>::value_variants();
    for part in all.iter().filter(|part| only.is_empty() || only.contains(part)) {
        let began = Instant::now();
        let found = match part {
            Part::Sums => sums(),
            Part::Program => program(),
            Part::Deb => debian::check(),
            Part::Rpm => fedora::check(),
            Part::Image => container::check(),
            Part::Wheel => wheel::check(),
            Part::Sbom => crates(),
            Part::Licences => licences(),
            Part::Again => again(),
        };
        let found = found.with_context(|| format!("{part:?}"))?;
        println!("{:<9}{:>6.1} s  {found}", format!("{part:?}").to_lowercase(), began.elapsed().as_secs_f64());
    }
    Ok(())
}

fn sums() -> anyhow::Result<String> {
    let said = output(Command::new("sha256sum").args(["--check", "--strict", "SHA256SUMS"]).current_dir(folder()))?;
    let checked = String::from_utf8_lossy(&said.stdout).lines().count();
    let others = super::files_of(&folder())?.len() - 1;
    ensure!(checked == others, "SHA256SUMS has {checked} of {others} files");
    Ok(format!("{checked} files are as SHA256SUMS says"))
}

/// The tarball's folder, unpacked.
fn unpacked() -> anyhow::Result<(TempDir, PathBuf)> {
    let place = tempfile::tempdir()?;
    let name = tarball::folder_name(&Flavour::PLAIN);
    let archive = folder().join(format!("{name}.tar.gz"));
    output(Command::new("tar").arg("-xf").arg(archive).arg("-C").arg(place.path())).context("`make dist` makes it")?;
    let path = place.path().join(name);
    Ok((place, path))
}

fn program() -> anyhow::Result<String> {
    let (_place, unpacked) = unpacked()?;
    let program = unpacked.join("exitscope");
    let size = fs::metadata(&program)?.len();
    let at_most = Flavour::PLAIN.at_most.unwrap_or(u64::MAX);
    ensure!(size <= at_most, "the program has {size} bytes, {at_most} at most");
    let headers = output(Command::new("readelf").args(["--program-headers", "--dynamic", "--wide"]).arg(&program))?;
    let headers = String::from_utf8(headers.stdout)?;
    for word in ["INTERP", "(NEEDED)"] {
        ensure!(!headers.contains(word), "the program is not static: {word}");
    }
    let sections = output(Command::new("readelf").args(["--sections", "--wide"]).arg(&program))?;
    let sections = String::from_utf8(sections.stdout)?;
    ensure!(!sections.contains(" .symtab ") && !sections.contains(" .debug_"), "the program is not stripped");
    for name in ["man/exitscope.1", "completions/exitscope.bash", "LICENSE-MIT", "LICENSE-APACHE"] {
        ensure!(fs::metadata(unpacked.join(name)).is_ok_and(|file| file.len() > 0), "the tarball has no {name}");
    }
    let empty = super::clean_root::CleanRoot::empty()?;
    empty.add(&program, "/exitscope")?;
    // What is compressed is unpacked into a folder for temporary files, which an empty root has not.
    let data = output(Command::new("gzip").args(["--decompress", "--stdout", RECORDING]).current_dir(root()))?;
    fs::write(empty.within("/t2.data"), data.stdout)?;
    let mut here = Command::new(&program);
    here.arg("report").arg(RECORDING).current_dir(root()).env("LC_ALL", "C.UTF-8").env("COLUMNS", "100");
    let here = output(&mut here)?;
    let there = empty.bare("/exitscope", &["report", "/t2.data"])?;
    // The last line names the file.
    let figures = |text: &[u8]| {
        let text = String::from_utf8_lossy(text).into_owned();
        text.lines().filter(|line| !line.starts_with("More:")).collect::<Vec<_>>().join("\n")
    };
    ensure!(figures(&there.stdout) == figures(&here.stdout), "in an empty root the report is another");
    empty.bare("/exitscope", &["report", "/t2.data", "--html", "/page.html"])?;
    let page = fs::metadata(empty.within("/page.html"))?.len();
    let front_end = fs::metadata(root().join(super::compile::PAGE))?.len();
    ensure!(page > front_end, "the page has no front end: {page} bytes");
    Ok(format!("{:.1} MB, static, stripped; reports and writes a page in an empty root", size as f64 / 1e6))
}

fn crates() -> anyhow::Result<String> {
    let (_place, unpacked) = unpacked()?;
    let in_program = recorded_build::crates_in(&unpacked.join("exitscope"))?;
    let listed = sbom::crates_in(&folder().join(sbom::NAME))?;
    let missing: Vec<_> = in_program.difference(&listed).collect();
    ensure!(missing.is_empty(), "in the program and not in {}: {missing:?}", sbom::NAME);
    let more = listed.difference(&in_program).count();
    Ok(format!("{} crates in the program, all in {}, which lists {more} more", in_program.len(), sbom::NAME))
}

fn licences() -> anyhow::Result<String> {
    let mut deny = Command::new(tools::DENY.program()?);
    let cargo = cargo()?;
    deny.arg("--offline")
        .args(["check", "licenses", "bans", "sources"])
        .current_dir(root())
        .env("CARGO", cargo.get_program());
    let said = output(&mut deny)?;
    let said = String::from_utf8_lossy(&said.stderr).into_owned() + &String::from_utf8_lossy(&said.stdout);
    let verdict = said.lines().rfind(|line| line.contains(" ok")).context("cargo-deny gives no verdict")?;
    let reuse = crate::target()?.join("reuse");
    if !reuse.join("bin/reuse").exists() {
        output(Command::new("python3").args(["-m", "venv"]).arg(&reuse))?;
        output(Command::new(reuse.join("bin/pip")).args(["install", "--quiet", "reuse==6.2.0"]))?;
    }
    output(Command::new(reuse.join("bin/reuse")).arg("lint").arg("--quiet").current_dir(root()))?;
    Ok(format!("cargo deny: {}; reuse: every file has a licence", verdict.trim()))
}

fn again() -> anyhow::Result<String> {
    let (_place, unpacked) = unpacked()?;
    // Kept, as cargo's target directory is: the first time takes as long as the first build.
    let elsewhere = std::env::temp_dir().join("exitscope-elsewhere");
    let tree = elsewhere.join("tree");
    ensure!(tree != root(), "this is the other path: build in another folder than {}", tree.display());
    fs::create_dir_all(&tree)?;
    copy_tree(&tree)?;
    let anew = compile(&Flavour::PLAIN, &tree, &elsewhere.join("target"))?;
    let (was, is) = (fs::read(unpacked.join("exitscope"))?, fs::read(anew)?);
    if was != is {
        let at = was.iter().zip(&is).position(|(a, b)| a != b);
        bail!("{} and {} bytes, which differ first at {at:?}", was.len(), is.len());
    }
    for path in [root(), tree.as_path()] {
        let path = path.display().to_string();
        ensure!(!is.windows(path.len()).any(|bytes| bytes == path.as_bytes()), "the program names {path}");
    }
    Ok(format!("built in another path: the same {} bytes, sha256 {}", is.len(), super::sha256(&is)))
}
