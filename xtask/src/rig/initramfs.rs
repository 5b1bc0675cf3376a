//! The machine's file system: a cpio archive that the kernel unpacks into memory.
//!
//! ```text
//! /init              rig/init
//! /bin/busybox       shell and small tools
//! /modules/          kvm-amd, the results' port and what they need; `order`
//! /steps/            a script for each step
//! /scenarios/        the scenarios of this repository
//! /usr/bin/          perf, trace-cmd, exitscope, tiny-guest
//! /lib…              the libraries of those, where this machine has them
//! ```

use super::packages::{Packages, run};
use super::remove;
use super::steps::Step;
use crate::root;
use anyhow::{Context, bail, ensure};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The archive's name, in the rig's folder.
pub const IMAGE: &str = "initramfs.cpio";

/// Kernel modules that the steps need; what these need is found in them.
const MODULES: &[&str] = &["virtio_pci", "virtio_console", "kvm_amd"];

/// Programs of this machine that the steps need.
const TOOLS: &[&str] = &["perf", "trace-cmd"];

/// Writes [`IMAGE`] with `ours`, which are programs of this workspace, and `steps`.
pub fn pack(folder: &Path, packages: &Packages, ours: &[PathBuf], steps: &[Step]) -> anyhow::Result<()> {
    let tree = folder.join("tree");
    remove(&tree)?;
    for name in ["bin", "modules", "steps", "scenarios", "usr/bin", "sys", "proc", "dev"] {
        std::fs::create_dir_all(tree.join(name))?;
    }
    std::fs::copy(root().join("rig/init"), tree.join("init"))?;
    std::fs::copy(packages.busybox(), tree.join("bin/busybox"))?;
    copy_modules(&packages.modules()?, &tree.join("modules"))?;
    for scenario in std::fs::read_dir(root().join("scenarios"))? {
        let scenario = scenario?;
        std::fs::copy(scenario.path(), tree.join("scenarios").join(scenario.file_name()))?;
    }
    for (at, step) in steps.iter().enumerate() {
        std::fs::write(tree.join("steps").join(step.id(at)), step.line)?;
    }
    let tools = TOOLS.iter().map(|tool| find(tool)).collect::<anyhow::Result<Vec<_>>>()?;
    for program in tools.iter().chain(ours) {
        copy_program(program, &tree)?;
    }
    archive(&packages.busybox(), &tree, &folder.join(IMAGE))
}

/// A program's path, from its name.
fn find(tool: &str) -> anyhow::Result<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut places = std::env::split_paths(&path).map(|folder| folder.join(tool));
    places.find(|place| place.is_file()).with_context(|| format!("{tool} is missing; `make setup` installs it"))
}

/// Copies a program and its libraries. Symbols for a debugger stay behind: they would make up most of the archive.
fn copy_program(program: &Path, tree: &Path) -> anyhow::Result<()> {
    let to = tree.join("usr/bin").join(program.file_name().context("a program has a name")?);
    run(Command::new("strip").arg("-o").arg(&to).arg(program))
        .with_context(|| format!("cannot copy {}", program.display()))?;
    let listed = run(Command::new("ldd").arg(program)).with_context(|| format!("{}", program.display()))?;
    for line in listed.lines() {
        ensure!(!line.contains("not found"), "{}: {}", program.display(), line.trim());
        let Some(library) = line.split_whitespace().find(|word| word.starts_with('/')) else { continue };
        let to = tree.join(library.trim_start_matches('/'));
        std::fs::create_dir_all(to.parent().context("a library is in a folder")?)?;
        std::fs::copy(library, to).with_context(|| library.to_string())?;
    }
    Ok(())
}

/// Copies [`MODULES`] and what they need, and writes down the order to load them in.
fn copy_modules(from: &Path, to: &Path) -> anyhow::Result<()> {
    let mut there = BTreeMap::new();
    list_modules(&from.join("kernel"), &mut there)?;
    let builtin = std::fs::read_to_string(from.join("modules.builtin")).unwrap_or_default();
    let builtin: BTreeSet<String> = builtin.lines().filter_map(|line| module_name(Path::new(line))).collect();
    let mut order = String::new();
    let mut seen = builtin;
    for name in MODULES {
        copy_module(name, &there, &mut seen, to, &mut order)?;
    }
    Ok(std::fs::write(to.join("order"), order)?)
}

/// Copies the module `name` behind what it needs, unless it was `seen`, and adds its line to `order`.
fn copy_module(
    name: &str,
    there: &BTreeMap<String, PathBuf>,
    seen: &mut BTreeSet<String>,
    to: &Path,
    order: &mut String,
) -> anyhow::Result<()> {
    if !seen.insert(name.to_string()) {
        return Ok(());
    }
    let path = there.get(name).with_context(|| format!("the kernel's package has no module {name}"))?;
    let module = unpacked(path)?;
    for needed in needs(&module) {
        copy_module(&needed, there, seen, to, order)?;
    }
    std::fs::write(to.join(name), module)?;
    order.push_str(name);
    order.push('\n');
    Ok(())
}

/// A module's bytes; newer packages have them compressed.
fn unpacked(path: &Path) -> anyhow::Result<Vec<u8>> {
    if path.extension().is_none_or(|extension| extension == "ko") {
        return Ok(std::fs::read(path)?);
    }
    ensure!(path.extension().is_some_and(|extension| extension == "xz"), "{}: not xz", path.display());
    let output = Command::new("xz").args(["--decompress", "--stdout"]).arg(path).output().context("xz")?;
    ensure!(output.status.success(), "{}: {}", path.display(), String::from_utf8_lossy(&output.stderr).trim());
    Ok(output.stdout)
}

/// The modules below `folder` by name.
fn list_modules(folder: &Path, modules: &mut BTreeMap<String, PathBuf>) -> anyhow::Result<()> {
    for entry in std::fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            list_modules(&entry.path(), modules)?;
        } else if let Some(name) = module_name(&entry.path()) {
            modules.insert(name, entry.path());
        }
    }
    Ok(())
}

/// `kvm_amd` of `…/kvm-amd.ko.xz`: files' names and modules' names differ in dashes.
fn module_name(path: &Path) -> Option<String> {
    let (name, _) = path.file_name()?.to_str()?.split_once(".ko")?;
    Some(name.replace('-', "_"))
}

/// The modules that a module says it needs: `depends=a,b` in its own words.
fn needs(module: &[u8]) -> Vec<String> {
    const KEY: &[u8] = b"\0depends=";
    let Some(at) = module.windows(KEY.len()).position(|window| window == KEY) else { return Vec::new() };
    let value = module[at + KEY.len()..].split(|&byte| byte == 0).next().unwrap_or_default();
    let names = String::from_utf8_lossy(value).replace('-', "_");
    names.split(',').filter(|name| !name.is_empty()).map(str::to_string).collect()
}

/// Packs the tree with busybox, which is there in any case.
fn archive(busybox: &Path, tree: &Path, image: &Path) -> anyhow::Result<()> {
    let status = Command::new("sh")
        .args(["-c", r#""$0" find . | "$0" cpio -o -H newc"#])
        .arg(busybox)
        .current_dir(tree)
        .stdin(Stdio::null())
        .stdout(File::create(image)?)
        .status()?;
    if !status.success() {
        bail!("cannot write {}: {status}", image.display());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_module_says_what_it_needs() {
        let module = b"\x7fELF\0license=GPL\0depends=kvm,irq-bypass\0retpoline=Y\0";
        assert_eq!(needs(module), ["kvm", "irq_bypass"]);
        assert_eq!(needs(b"\0depends=\0"), [""; 0]);
    }

    #[test]
    fn files_of_modules_have_the_modules_name() {
        for path in ["a/kvm-amd.ko", "a/kvm_amd.ko.xz"] {
            assert_eq!(module_name(Path::new(path)).as_deref(), Some("kvm_amd"));
        }
        assert_eq!(module_name(Path::new("a/modules.dep")), None);
    }
}
