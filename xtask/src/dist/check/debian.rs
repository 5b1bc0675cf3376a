//! Debian's package in a clean root, used by a user who knows nothing of it; what is shown becomes docs/examples/install.txt.

use super::super::clean_root::{CleanRoot, WORK};
use super::super::transcript::Transcript;
use super::{AT_MOST_SECONDS, Flavour, RECORDING, deb, folder, output, root, tarball};
use crate::{cargo, target};
use anyhow::{Context, ensure};
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

/// Where the transcript is kept.
const SHOWN: &str = "docs/examples/install.txt";

/// How often the guest exits, which takes longer than it is watched.
const EXITS: &str = "1000000";

/// Members of the group may record, others not.
const MEMBER: &str = "ada";
const OTHER: &str = "bob";

pub fn check() -> anyhow::Result<String> {
    let mut lint = Command::new("lintian");
    lint.args(["--fail-on", "error", "--no-tag-display-limit"]).arg(folder().join(deb::name()));
    output(&mut lint).context("lintian finds errors")?;
    let root_of_tarball = CleanRoot::debian()?;
    let mut shown = Transcript::default();
    let seconds = [from_tarball(&root_of_tarball, &mut shown)?, from_package(&mut shown)?];
    let slowest = seconds[0].max(seconds[1]);
    ensure!(slowest <= AT_MOST_SECONDS, "the first report came after {slowest:.1} s");
    let text = format!(
        "{}\n# From nothing to the first report: {:.1} s by the tarball, {:.1} s by the package; at most {AT_MOST_SECONDS} s\n",
        shown.text(),
        seconds[0],
        seconds[1]
    );
    fs::write(root().join(SHOWN), text)?;
    Ok(format!(
        "lintian finds no error; installed, used and removed without leavings; first report after {:.1} s (tarball), {:.1} s (package)",
        seconds[0], seconds[1]
    ))
}

/// Puts a file into the folder where users work.
fn lay(root: &CleanRoot, file: &Path) -> anyhow::Result<String> {
    let name = file.file_name().context("a file without a name")?.to_string_lossy().into_owned();
    root.add(file, &format!("{WORK}/{name}"))?;
    Ok(name)
}

fn from_tarball(clean: &CleanRoot, shown: &mut Transcript) -> anyhow::Result<f64> {
    let name = tarball::folder_name(&Flavour::PLAIN);
    lay(clean, &folder().join(format!("{name}.tar.gz")))?;
    lay(clean, &root().join(RECORDING))?;
    shown.heading("A tarball, as anybody, anywhere");
    let began = Instant::now();
    shown.run(clean, "root", &format!("tar -xf {name}.tar.gz"))?;
    let report = shown.run(clean, "root", &format!("{name}/exitscope report t2.data.gz"))?;
    let seconds = began.elapsed().as_secs_f64();
    ensure!(report.contains("Best change"), "no report: {report}");
    Ok(seconds)
}

fn from_package(shown: &mut Transcript) -> anyhow::Result<f64> {
    let clean = CleanRoot::debian()?;
    let quietly = |line: &str| output(&mut clean.shell("root", line));
    for user in [MEMBER, OTHER] {
        quietly(&format!("adduser --quiet --disabled-password --gecos '' {user}"))?;
    }
    let package = lay(&clean, &folder().join(deb::name()))?;
    lay(&clean, &root().join(RECORDING))?;
    quietly(&format!("mkdir {WORK}/a && chown {MEMBER}: {WORK}/a"))?;
    let before = clean.snapshot()?;
    shown.heading("A package, on Debian");
    let began = Instant::now();
    shown.run(&clean, "root", &format!("dpkg -i {package}"))?;
    let report = shown.run(&clean, OTHER, "exitscope report t2.data.gz")?;
    let seconds = began.elapsed().as_secs_f64();
    ensure!(report.contains("Best change"), "no report: {report}");
    let listens = "timeout 2 exitscope serve --listen localhost:0 t2.data.gz 2>&1 | grep -m 1 http://localhost:";
    output(&mut clean.shell(OTHER, listens)).context("the name localhost leads nowhere")?;
    shown.heading("Members of a group record without being root");
    shown.run(&clean, "root", &format!("adduser {MEMBER} exitscope"))?;
    watch(&clean, shown)?;
    shown.heading("Removed");
    shown.run(&clean, "root", "dpkg --purge exitscope")?;
    let after = clean.snapshot()?;
    let differs = |path: &&std::path::PathBuf| before.get(*path) != after.get(*path);
    let left: Vec<_> = before.keys().chain(after.keys()).filter(differs).collect();
    ensure!(left.is_empty(), "what differs after the removal: {left:?}");
    Ok(seconds)
}

/// Records a guest of the host as a member of the group, and not as another.
fn watch(clean: &CleanRoot, shown: &mut Transcript) -> anyhow::Result<()> {
    let doctor = shown.attempt(clean, MEMBER, "exitscope doctor")?.1;
    ensure!(doctor.contains("cap_perfmon"), "the doctor says nothing of capabilities: {doctor}");
    let can_watch = Path::new("/dev/kvm").exists() && Path::new("/sys/kernel/tracing/events/kvm").exists();
    if !can_watch {
        eprintln!("dist: no /dev/kvm or no tracefs here: recording was not tried");
        return Ok(());
    }
    let _guest = Guest::start()?;
    let record = "cd a && exitscope record --for 2s && exitscope report perf.data";
    let recorded = shown.run(clean, MEMBER, record)?;
    ensure!(recorded.contains("exits"), "nothing recorded: {recorded}");
    let (status, text) = shown.attempt(clean, OTHER, "exitscope record --for 2s")?;
    ensure!(status.code() == Some(2), "who is not of the group records, or fails otherwise: {text}");
    ensure!(text.contains("group exitscope"), "who is not of the group is not told of it: {text}");
    Ok(())
}

/// A guest that runs beside, until this is dropped.
struct Guest(Child);

impl Guest {
    fn start() -> anyhow::Result<Guest> {
        ensure!(cargo()?.args(["build", "--quiet", "--package", "tiny-guest"]).status()?.success(), "no guest");
        let mut guest = Command::new(target()?.join("debug/tiny-guest"));
        Ok(Guest(guest.args(["--repeat", EXITS]).stdout(Stdio::null()).spawn()?))
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
