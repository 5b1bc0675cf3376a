//! Sets what was advised on the running host, and restores what was there before.
//!
//! ```text
//! plan ─► shown ─► yes? ─► old values into the state file ─► write ─► read back      --undo: the state file backwards
//! ```
//!
//! Only knobs of the host's kernel that can be written while it runs are set. Which file a knob has is the knob's own to
//! say, never the state file's.

use super::state::{Changed, State, default_path};
use crate::Outcome;
use crate::cli::AdviseArgs;
use anyhow::{Context, bail};
use exitscope_analysis::advice::{Judgement, Setting, Side, halt_poll_reach};
use exitscope_policy::{Knob, knob};
use std::fs;
use std::io::{self, BufRead, IsTerminal, Write};
use std::path::{Path, PathBuf};

/// One knob to set.
struct Step {
    knob: &'static Knob,
    path: PathBuf,
    old: String,
    new: String,
}

pub fn apply(
    args: &AdviseArgs,
    judgement: &Judgement,
    recorded_on: &str,
    out: &mut dyn Write,
) -> anyhow::Result<Outcome> {
    let host = host_name(&args.root);
    writeln!(out, "\nTo be applied to {host}")?;
    let (steps, problems) = plan(judgement, &args.root, out)?;
    for problem in &problems {
        writeln!(out, "  not possible: {problem}")?;
    }
    if steps.is_empty() {
        writeln!(out, "  nothing")?;
        return Ok(if problems.is_empty() { Outcome::Fine } else { Outcome::Failed });
    }
    if !recorded_on.is_empty() && recorded_on != host && !args.any_host {
        bail!(
            "the recording is of {recorded_on} and this host is {host}: --any-host applies its advice here nevertheless"
        );
    }
    if !args.yes && !agreed(out)? {
        writeln!(out, "  nothing was changed")?;
        return Ok(Outcome::Failed);
    }
    let path = args.state.clone().unwrap_or_else(default_path);
    let mut state = State::load(&path)?.unwrap_or_else(|| State::of_host(&host));
    if state.host != host {
        bail!("{}: says what was applied to {}, and this host is {host}", path.display(), state.host);
    }
    let before = state.changes.clone();
    for step in &steps {
        state.note(Changed { knob: step.knob.name.to_string(), old: step.old.clone(), new: step.new.clone() });
    }
    state.save(&path)?;
    let mut failed = !problems.is_empty();
    for step in &steps {
        match set(step.knob, &step.path, &step.new) {
            Ok(()) => writeln!(out, "  done: {} is {}", step.path.display(), step.new)?,
            Err(error) => {
                failed = true;
                writeln!(out, "  failed: {error:#}")?;
                // Nothing is to be restored of what was not changed.
                if read(&step.path).is_ok_and(|now| now == step.old) {
                    state.forget(step.knob.name, &before);
                }
            }
        }
    }
    state.save(&path)?;
    writeln!(out, "  `exitscope advise --undo` restores what was there; it is kept in {}", path.display())?;
    Ok(if failed { Outcome::Failed } else { Outcome::Fine })
}

/// Restores everything that the state file has, last change first.
pub fn undo(args: &AdviseArgs, out: &mut dyn Write) -> anyhow::Result<Outcome> {
    let path = args.state.clone().unwrap_or_else(default_path);
    let Some(mut state) = State::load(&path)? else {
        bail!("{} is not there: nothing was applied, or --state named another file", path.display());
    };
    let host = host_name(&args.root);
    if state.host != host {
        bail!("{}: says what was applied to {}, and this host is {host}", path.display(), state.host);
    }
    let mut left = Vec::new();
    for change in state.changes.iter().rev() {
        match restore(change, &args.root) {
            Ok(said) => writeln!(out, "{said}")?,
            Err(error) => {
                writeln!(out, "failed: {error:#}")?;
                left.push(change.clone());
            }
        }
    }
    left.reverse();
    let failed = !left.is_empty();
    state.changes = left;
    state.save(&path)?;
    Ok(if failed { Outcome::Failed } else { Outcome::Fine })
}

fn restore(change: &Changed, root: &Path) -> anyhow::Result<String> {
    let knob = knob(&change.knob).with_context(|| format!("there is no knob {}", change.knob))?;
    let path = file(knob, root).with_context(|| format!("{} has no file", change.knob))?;
    let now = read(&path).map_err(|error| anyhow::anyhow!(remedy(knob, &path, &error)))?;
    set(knob, &path, &change.old)?;
    let by_others = match same(knob, &now, &change.new) {
        true => String::new(),
        false => format!(" (it was {now}, not the {} that was set: somebody else changed it)", change.new),
    };
    Ok(format!("restored: {} is {} again{by_others}", path.display(), change.old))
}

/// The steps, and what cannot be done, with the remedy; both are printed.
fn plan(judgement: &Judgement, root: &Path, out: &mut dyn Write) -> anyhow::Result<(Vec<Step>, Vec<String>)> {
    let (mut steps, mut problems): (Vec<Step>, Vec<String>) = (Vec::new(), Vec::new());
    let mut others = 0;
    for setting in judgement.advice().iter().flat_map(|advice| &advice.plan().settings) {
        let Setting::Knob { side: Side::Host, knob, value } = setting else {
            others += 1;
            continue;
        };
        let Some(path) = file(knob, root) else { continue };
        let new = knob.text(*value).to_string();
        // What wins more comes first and decides.
        if steps.iter().any(|step| step.knob.name == knob.name) {
            continue;
        }
        match read(&path) {
            Err(error) => problems.push(remedy(knob, &path, &error)),
            Ok(old) if same(knob, &old, &new) => writeln!(out, "  {} is {old} already", path.display())?,
            // Some kernels are built with parameters that can only be read.
            Ok(_) if !knob.is_writable() || is_read_only(&path) => problems.push(at_load(knob, &path, &new)),
            Ok(old) => {
                writeln!(out, "  {}: {old} becomes {new}", path.display())?;
                steps.push(Step { knob, path, old, new });
            }
        }
    }
    if steps.iter().any(|step| step.knob.name == "halt_poll_ns") {
        let release = fs::read_to_string(root.join("proc/sys/kernel/osrelease")).unwrap_or_default();
        writeln!(out, "  halt_poll_ns acts {}", halt_poll_reach(release.trim()).text())?;
    }
    if others > 0 {
        writeln!(out, "  what is not a knob of the host's kernel is not applied; --as prints it as files")?;
    }
    Ok((steps, problems))
}

fn agreed(out: &mut dyn Write) -> anyhow::Result<bool> {
    let stdin = io::stdin();
    if !stdin.is_terminal() {
        writeln!(out, "  there is no terminal to ask: --yes goes ahead")?;
        return Ok(false);
    }
    write!(out, "  Go ahead? [y/N] ")?;
    out.flush()?;
    let mut answer = String::new();
    stdin.lock().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

/// The knob's file below `root`.
fn file(knob: &'static Knob, root: &Path) -> Option<PathBuf> {
    Some(root.join(knob.file()?.to_string().trim_start_matches('/')))
}

fn read(path: &Path) -> io::Result<String> {
    fs::read_to_string(path).map(|text| text.trim().to_string())
}

fn is_read_only(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|metadata| metadata.permissions().readonly())
}

/// Whether two texts are the same value of a knob: the kernel says `Y` where `1` was written.
fn same(knob: &'static Knob, a: &str, b: &str) -> bool {
    a == b || matches!((knob.parse(a), knob.parse(b)), (Ok(a), Ok(b)) if a == b)
}

/// Writes a value, and reads it back.
fn set(knob: &'static Knob, path: &Path, value: &str) -> anyhow::Result<()> {
    let write = || -> io::Result<()> {
        // Never creates a file: what is not there is not a knob.
        let mut file = fs::OpenOptions::new().write(true).truncate(true).open(path)?;
        file.write_all(value.as_bytes())?;
        file.flush()
    };
    write().map_err(|error| anyhow::anyhow!(remedy(knob, path, &error)))?;
    let now = read(path).with_context(|| format!("cannot read {}", path.display()))?;
    match same(knob, &now, value) {
        true => Ok(()),
        false => bail!("{}: wrote {value}, and it is {now}", path.display()),
    }
}

/// What to do about a knob that cannot be read or written.
fn remedy(knob: &Knob, path: &Path, error: &io::Error) -> String {
    let path = path.display();
    let boot = knob.boot(knob.default).map(|boot| boot.to_string()).unwrap_or_default();
    let module = boot.split('.').next().filter(|_| boot.contains('.')).unwrap_or("kvm");
    match error.kind() {
        io::ErrorKind::NotFound => {
            format!(
                "{path} is not there: `modprobe {module}` loads its module, unless this processor or kernel does not \
                    have it"
            )
        }
        io::ErrorKind::PermissionDenied => format!("{path}: permission denied; run as root"),
        io::ErrorKind::ReadOnlyFilesystem => {
            format!(
                "{path} is on a file system that is read-only here, as in a container: run on the host, or name its \
                    /sys with --root"
            )
        }
        _ => format!("{path}: {error}"),
    }
}

/// What to do about a knob that only loading the module sets.
fn at_load(knob: &Knob, path: &Path, new: &str) -> String {
    let module = path.iter().rev().nth(2).map_or_else(Default::default, |name| name.to_string_lossy());
    format!(
        "{} cannot be written while the module is loaded: put `options {module} {}={new}` into \
         /etc/modprobe.d/exitscope.conf, end all VMs, then `modprobe -r {module} && modprobe {module}`; where it is built \
         in, boot with {module}.{}={new}",
        path.display(),
        knob.name,
        knob.name
    )
}

fn host_name(root: &Path) -> String {
    read(&root.join("proc/sys/kernel/hostname")).unwrap_or_else(|_| "this host".to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes the old value back, whatever happens.
    struct Restored(PathBuf, String);

    impl Drop for Restored {
        fn drop(&mut self) {
            let _ = fs::write(&self.0, &self.1);
        }
    }

    #[test]
    fn a_real_knob_is_set_read_back_and_restored() {
        // Each of these may be one nanosecond longer without anything on this machine feeling it.
        let candidates = ["halt_poll_ns_grow_start", "guest_halt_poll_grow_start"].map(|name| knob(name).unwrap());
        let found = candidates.into_iter().find_map(|knob| {
            let path = file(knob, Path::new("/"))?;
            let old = read(&path).ok().filter(|_| !is_read_only(&path))?;
            fs::OpenOptions::new().write(true).open(&path).ok()?;
            Some((knob, path, old))
        });
        let Some((knob, path, old)) = found else {
            // Not `eprintln!`, which the test harness swallows when the test passes.
            let said =
                io::stderr().write_all(b"SKIPPED: no parameter of kvm or haltpoll can be written by this user\n");
            return said.expect("stderr is open");
        };
        let _restored = Restored(path.clone(), old.clone());
        let new = (old.parse::<u64>().unwrap() + 1).to_string();
        set(knob, &path, &new).unwrap();
        assert_eq!(read(&path).unwrap(), new);
        let change = Changed { knob: knob.name.to_string(), old: old.clone(), new };
        let said = restore(&change, Path::new("/")).unwrap();
        assert!(said.ends_with(&format!("is {old} again")), "{said}");
        assert_eq!(read(&path).unwrap(), old);
    }

    #[test]
    fn values_are_compared_as_values() {
        let bool = knob("guest_halt_poll_allow_shrink").unwrap();
        assert!(same(bool, "Y", "1") && !same(bool, "Y", "N"));
        let time = knob("halt_poll_ns").unwrap();
        assert!(same(time, "50000", "50000") && !same(time, "50000", "0"));
    }

    #[test]
    fn what_cannot_be_written_says_what_to_do() {
        let knob = knob("halt_poll_ns").unwrap();
        let path = Path::new("/sys/module/kvm/parameters/halt_poll_ns");
        for (kind, says) in [
            (io::ErrorKind::NotFound, "modprobe kvm"),
            (io::ErrorKind::PermissionDenied, "run as root"),
            (io::ErrorKind::ReadOnlyFilesystem, "--root"),
        ] {
            assert!(remedy(knob, path, &kind.into()).contains(says), "{kind:?}");
        }
        let gap = exitscope_policy::knob("ple_gap").unwrap();
        let said = at_load(gap, Path::new("/sys/module/kvm_intel/parameters/ple_gap"), "0");
        assert!(said.contains("options kvm_intel ple_gap=0"), "{said}");
    }
}
