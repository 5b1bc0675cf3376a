//! What comes out of Debian packages: the kernel with its modules, and busybox. They are unpacked, never installed.

use super::remove;
use anyhow::{Context, bail, ensure};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A package without files of its own, which depends on the newest kernel for virtual machines.
const KERNEL: &str = "linux-image-cloud-amd64";
const BUSYBOX: &str = "busybox-static";

/// The folder that the packages are unpacked in.
pub struct Packages(PathBuf);

impl Packages {
    /// The kernel's image.
    pub fn kernel(&self) -> anyhow::Result<PathBuf> {
        only_entry(&self.0.join("boot"), "vmlinuz-")
    }

    /// The folder of the kernel's modules.
    pub fn modules(&self) -> anyhow::Result<PathBuf> {
        only_entry(&self.0.join("lib/modules"), "")
    }

    /// The busybox program; it is statically linked.
    pub fn busybox(&self) -> PathBuf {
        self.0.join("bin/busybox")
    }
}

/// The packages below `folder`, downloaded the first time.
pub fn unpacked(folder: &Path) -> anyhow::Result<Packages> {
    let packages = folder.join("packages");
    if !packages.exists() {
        eprintln!("rig: downloading {KERNEL} and {BUSYBOX}");
        download(folder).with_context(|| format!("cannot get {KERNEL} and {BUSYBOX} with apt-get"))?;
        let part = folder.join("packages.part");
        remove(&part)?;
        for package in std::fs::read_dir(folder.join("debs"))? {
            run(Command::new("dpkg-deb").arg("--extract").arg(package?.path()).arg(&part))?;
        }
        // Only once everything is there, so that an interrupted run is not taken for a whole one.
        std::fs::rename(part, &packages)?;
        remove(&folder.join("debs"))?;
        remove(&folder.join("apt"))?;
    }
    Ok(Packages(packages))
}

/// Downloads the packages to `debs`. The lists of packages are fetched to a place of our own: the machine's may be old
/// or empty, and only root may change them.
fn download(folder: &Path) -> anyhow::Result<()> {
    let apt = |program: &str| {
        let mut apt = Command::new(program);
        for (option, path) in [("Dir::State::lists", "apt/lists"), ("Dir::Cache", "apt/cache")] {
            apt.arg("-o").arg(format!("{option}={}", folder.join(path).display()));
        }
        apt.args(["-o", "APT::Sandbox::User=root", "-q", "-q"]);
        apt
    };
    let debs = folder.join("debs");
    remove(&debs)?;
    for folder in [&debs, &folder.join("apt/lists/partial"), &folder.join("apt/cache/archives/partial")] {
        std::fs::create_dir_all(folder)?;
    }
    run(apt("apt-get").arg("update"))?;
    let shown = run(apt("apt-cache").args(["show", "--no-all-versions", KERNEL]))?;
    let kernel = shown.lines().find_map(|line| line.strip_prefix("Depends: ")?.split([' ', ',']).next());
    let kernel = kernel.with_context(|| format!("{KERNEL} depends on no kernel"))?;
    run(apt("apt-get").args(["download", kernel, BUSYBOX]).current_dir(&debs))?;
    Ok(())
}

/// Runs a command to its end; returns what it printed.
pub fn run(command: &mut Command) -> anyhow::Result<String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.env("LC_ALL", "C").output().with_context(|| format!("cannot run {program}"))?;
    if !output.status.success() {
        bail!("{program}: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn only_entry(folder: &Path, prefix: &str) -> anyhow::Result<PathBuf> {
    let entries = std::fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))?;
    let mut entries: Vec<PathBuf> = entries.map(|entry| Ok(entry?.path())).collect::<std::io::Result<_>>()?;
    entries.retain(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(prefix)));
    ensure!(entries.len() == 1, "{}: {} files {prefix}*, expected one", folder.display(), entries.len());
    Ok(entries.remove(0))
}
