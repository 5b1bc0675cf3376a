//! The package of RPM, installed by rpm into a clean root, used and removed. The root is Debian's: no other's packages are to be had.

use super::super::clean_root::{CleanRoot, WORK};
use super::super::rpm;
use super::{RECORDING, folder, output, root};
use anyhow::{Context, ensure};
use std::process::Command;

/// Where Debian's rpm has its database. Split, as it is no path of this machine.
const OF_DEBIAN: &str = concat!("/", "root/.rpmdb");

/// Not of the group: members may record, others not.
const USER: &str = "bob";

pub fn check() -> anyhow::Result<String> {
    let clean = CleanRoot::debian()?;
    let package = folder().join(rpm::name());
    let quietly = |line: &str| output(&mut clean.shell("root", line));
    quietly(&format!("adduser --quiet --disabled-password --gecos '' {USER} && mkdir -p /usr/share/licenses"))?;
    clean.add(&root().join(RECORDING), &format!("{WORK}/t2.data.gz"))?;
    let before = clean.snapshot()?;
    // What it needs is called otherwise on Debian.
    let of_root = |words: &[&str]| {
        let mut rpm = Command::new("rpm");
        rpm.arg("--root").arg(clean.path()).args(words);
        rpm
    };
    output(of_root(&["--nodeps", "--install"]).arg(&package)).context("rpm installs it")?;
    let verified =
        output(&mut of_root(&["--nodeps", "--verify", "exitscope"])).context("rpm finds it as it was packed")?;
    ensure!(verified.stdout.is_empty(), "{}", String::from_utf8_lossy(&verified.stdout));
    let report = output(&mut clean.shell(USER, "exitscope report t2.data.gz"))?;
    ensure!(String::from_utf8_lossy(&report.stdout).contains("Best change"), "no report");
    let copy =
        quietly("stat -c '%U:%G %a' /usr/libexec/exitscope/exitscope && getcap /usr/libexec/exitscope/exitscope")?;
    let copy = String::from_utf8(copy.stdout)?;
    ensure!(copy.contains("root:exitscope 750") && copy.contains("cap_perfmon"), "the group's copy is another: {copy}");
    let said = clean.shell(USER, "exitscope record --for 1s").output()?;
    let text = String::from_utf8_lossy(&said.stderr).into_owned();
    ensure!(
        said.status.code() == Some(2) && text.contains("group exitscope"),
        "who is not of the group is not told so: {text}"
    );
    output(&mut of_root(&["--nodeps", "--erase", "exitscope"])).context("rpm removes it")?;
    // The database of packages. What is made before is what every system of RPM has.
    quietly(&format!("groupdel exitscope && rm -rf /var/lib/rpm {OF_DEBIAN}"))?;
    let after = clean.snapshot()?;
    let differs = |path: &&std::path::PathBuf| before.get(*path) != after.get(*path);
    let left: Vec<_> = before.keys().chain(after.keys()).filter(differs).collect();
    ensure!(left.is_empty(), "what differs after the removal: {left:?}");
    Ok("installed by rpm, verified, used and removed without leavings, in a root of Debian".to_string())
}
