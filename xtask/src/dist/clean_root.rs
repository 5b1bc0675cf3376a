//! A Debian system with nothing but what every one has, in which a package is used as a new user would.

use super::output;
use crate::target;
use anyhow::{Context, ensure};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

/// What the package needs that the smallest Debian lacks: `apt install ./exitscope.deb` would bring it.
const INCLUDED: &str = "--include=adduser,libcap2-bin";

/// Where a user of the system works.
pub const WORK: &str = "/srv";

const PATH: &str = "/usr/sbin:/usr/bin:/sbin:/bin";

/// What is the system's own account of packages and users, and what users make.
const NOT_COMPARED: [&str; 8] =
    ["var/lib/dpkg", "var/log", "var/cache", "etc/group-", "etc/gshadow-", "etc/passwd-", "srv", "run"];

/// A root folder, removed with this value.
pub struct CleanRoot {
    folder: TempDir,
}

impl CleanRoot {
    /// A folder with nothing in it.
    pub fn empty() -> anyhow::Result<CleanRoot> {
        let folder = tempfile::tempdir_in(target()?)?;
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755))?;
        Ok(CleanRoot { folder })
    }

    /// The smallest Debian of this machine's release. mmdebstrap makes it once, from where this machine has its packages.
    pub fn debian() -> anyhow::Result<CleanRoot> {
        let root = CleanRoot::empty()?;
        output(Command::new("tar").arg("-xf").arg(debian_archive()?).arg("-C").arg(root.path()))?;
        fs::create_dir_all(root.within(WORK))?;
        fs::write(root.within("/etc/hosts"), "127.0.0.1 localhost\n")?;
        Ok(root)
    }

    /// Where it is on this machine.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// A file in it, by its path there.
    pub fn within(&self, path: &str) -> PathBuf {
        self.path().join(path.trim_start_matches('/'))
    }

    /// Puts a copy of a file there.
    pub fn add(&self, file: &Path, to: &str) -> anyhow::Result<()> {
        let to = self.within(to);
        fs::copy(file, &to).with_context(|| format!("{} to {}", file.display(), to.display()))?;
        Ok(())
    }

    /// Runs a program there, with nothing mounted.
    pub fn bare(&self, program: &str, arguments: &[&str]) -> anyhow::Result<Output> {
        let mut command = Command::new("chroot");
        command.arg(self.path()).arg(program).args(arguments);
        output(command.env_clear().env("PATH", PATH).env("LC_ALL", "C.UTF-8").env("COLUMNS", "100"))
    }

    /// A line for the shell of a user there, with what a running system has mounted. Who kills it leaves no mount.
    pub fn shell(&self, user: &str, line: &str) -> Command {
        // tracefs and /dev/kvm are the host's, as in a system that runs on it.
        let enter = "cd \"$1\" && mount -t proc proc proc && mount --rbind /sys sys && mount --rbind /dev dev \
                     && exec chroot . runuser -u \"$2\" -- sh -c \"cd $4 && $3\"";
        let mut command = Command::new("unshare");
        command.args(["--mount", "--propagation", "slave", "sh", "-c", enter, "sh"]);
        command.arg(self.path()).args([user, line, WORK]).stdin(Stdio::null()).env_clear();
        command.env("PATH", PATH).env("LC_ALL", "C.UTF-8").env("DEBIAN_FRONTEND", "noninteractive");
        command
    }

    /// What is there: by path, what a file is and holds.
    pub fn snapshot(&self) -> anyhow::Result<BTreeMap<PathBuf, String>> {
        let mut found = BTreeMap::new();
        self.gather(Path::new(""), &mut found)?;
        Ok(found)
    }

    fn gather(&self, below: &Path, found: &mut BTreeMap<PathBuf, String>) -> anyhow::Result<()> {
        for entry in self.path().join(below).read_dir()? {
            let entry = entry?;
            let path = below.join(entry.file_name());
            if NOT_COMPARED.iter().any(|of| path == Path::new(of)) {
                continue;
            }
            let about = entry.metadata()?;
            let holds = match about.file_type() {
                kind if kind.is_dir() => {
                    self.gather(&path, found)?;
                    String::new()
                }
                kind if kind.is_symlink() => fs::read_link(entry.path())?.display().to_string(),
                kind if kind.is_file() => {
                    let mut hash = Sha256::new();
                    io::copy(&mut fs::File::open(entry.path())?, &mut hash)?;
                    format!("{:x}", hash.finalize())
                }
                _ => String::new(),
            };
            found.insert(path, format!("{:o} {}:{} {holds}", about.mode(), about.uid(), about.gid()));
        }
        Ok(())
    }
}

fn debian_archive() -> anyhow::Result<PathBuf> {
    let release = fs::read_to_string("/etc/os-release")?;
    let name = release.lines().find_map(|line| line.strip_prefix("VERSION_CODENAME="));
    let name = name.context("/etc/os-release names no release of Debian")?;
    let folder = target()?.join("dist-roots");
    let archive = folder.join(format!("{name}.tar"));
    if !archive.exists() {
        eprintln!("dist: making a clean root of Debian {name}");
        fs::create_dir_all(&folder)?;
        let unfinished = folder.join("unfinished.tar");
        let mut make = Command::new("mmdebstrap");
        make.args(["--quiet", "--variant=minbase", INCLUDED, name]).arg(&unfinished);
        ensure!(make.status().context("mmdebstrap is missing")?.success(), "mmdebstrap failed");
        fs::rename(unfinished, &archive)?;
    }
    Ok(archive)
}
