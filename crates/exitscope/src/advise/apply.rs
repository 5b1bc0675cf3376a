//! Sets what was advised on the running host, and restores what was there before.
//!
//! ```text
//! plan ─► shown ─► yes? ─► lock ─► still so? ─► old values into the state file ─► write ─► read back
//!                                                --undo: the state file backwards, as far as it is still our own
//! ```
//!
//! Only knobs of the host's kernel that can be written while it runs are set. Which file a knob has is the knob's own to
//! say, never the state file's. A kill at any moment leaves a state file that says what may have been changed.

use super::knob_file::{at_load, file, is_read_only, is_value, read, remedy, same, set};
use super::state::{Changed, Lock, State, default_path};
use crate::Outcome;
use crate::cli::AdviseArgs;
use anyhow::{Context, bail};
use exitscope_analysis::advice::{Judgement, Setting, Side, halt_poll_reach};
use exitscope_policy::{Knob, knob};
use std::fs;
use std::io::{self, BufRead, IsTerminal, Write};
use std::path::{Path, PathBuf};

/// One knob to set.
#[derive(Clone)]
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
    let boot = boot_id(&args.root)?;
    let path = args.state.clone().unwrap_or_else(default_path);
    // A file that cannot be used is told before anybody is asked.
    load(&path, &host)?;
    if !args.yes && !agreed(out)? {
        writeln!(out, "  nothing was changed")?;
        return Ok(Outcome::Failed);
    }
    let lock = Lock::take(&path)?;
    let mut state = load(&path, &host)?.unwrap_or_else(|| State::of(&host, &boot));
    if state.boot != boot {
        writeln!(out, "  changes from before the last boot are dropped from the state file: the boot has reset them")?;
        state = State::of(&host, &boot);
    }
    let (steps, all) = still_so(steps, out)?;
    let before = state.changes.clone();
    for step in &steps {
        state.note(step.knob.name, &step.old, &step.new);
    }
    state.save(&path, &lock)?;
    let mut failed = !problems.is_empty() || !all;
    for step in &steps {
        match set(step.knob, &step.path, &step.new) {
            Ok(()) => {
                state.is_set(step.knob.name);
                writeln!(out, "  done: {} is {}", step.path.display(), step.new)?;
            }
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
    state.save(&path, &lock)?;
    if !state.changes.is_empty() {
        let path = path.display();
        writeln!(out, "  `exitscope advise --undo` restores what was there; it is kept in {path}")?;
    }
    Ok(if failed { Outcome::Failed } else { Outcome::Fine })
}

/// Restores everything that the state file has and that is still as it was set, last change first.
pub fn undo(args: &AdviseArgs, out: &mut dyn Write) -> anyhow::Result<Outcome> {
    let path = args.state.clone().unwrap_or_else(default_path);
    let nothing = || format!("{} is not there: nothing was applied, or --state named another file", path.display());
    let host = host_name(&args.root);
    load(&path, &host)?.with_context(nothing)?;
    let lock = Lock::take(&path)?;
    let mut state = load(&path, &host)?.with_context(nothing)?;
    if state.boot != boot_id(&args.root)? {
        let text = "nothing to restore: applied before the last boot, which has reset the knobs";
        writeln!(out, "{text}; removing {}", path.display())?;
        state.changes.clear();
        state.save(&path, &lock)?;
        return Ok(Outcome::Fine);
    }
    let mut left = Vec::new();
    for change in state.changes.iter().rev() {
        match restore(change, &args.root, args.select.clock.force) {
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
    state.save(&path, &lock)?;
    Ok(if failed { Outcome::Failed } else { Outcome::Fine })
}

/// The state file, if it is there and of this host.
fn load(path: &Path, host: &str) -> anyhow::Result<Option<State>> {
    let state = State::load(path)?;
    if let Some(other) = state.as_ref().filter(|state| state.host != host) {
        bail!("{}: says what was applied to {}, and this host is {host}", path.display(), other.host);
    }
    Ok(state)
}

/// Restores a knob; if somebody else has changed it since, only by force.
fn restore(change: &Changed, root: &Path, force: bool) -> anyhow::Result<String> {
    let Changed { old, new, .. } = change;
    let knob = knob(&change.knob).with_context(|| format!("there is no knob {}", change.knob))?;
    let path = file(knob, root).with_context(|| format!("{} has no file", change.knob))?;
    let now = read(&path).map_err(|error| anyhow::anyhow!(remedy(knob, &path, &error)))?;
    let at = path.display();
    if same(knob, &now, old) {
        return Ok(format!("{at} is {old} already: there is nothing to restore"));
    }
    let is_own = change.is_own(&now);
    if !is_own && !force {
        bail!(
            "{at} is {now:?}, not {new} as --apply set it: changed by somebody else, or its module was reloaded; left \
             unchanged (`--undo --force` restores {old})"
        );
    }
    set(knob, &path, old)?;
    let by_others = if is_own { String::new() } else { format!(" (it was {now:?}, set by somebody else)") };
    Ok(format!("restored: {at} is {old} again{by_others}"))
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
            Ok(old) if !is_value(&old) => {
                problems.push(format!("{} is {old:?}, not a value that --undo could restore", path.display()));
            }
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

/// Those steps whose knob is still what was shown to who agreed, and whether the others are set already; what is not, is said.
fn still_so(steps: Vec<Step>, out: &mut dyn Write) -> io::Result<(Vec<Step>, bool)> {
    let (mut left, mut all) = (Vec::new(), true);
    for step in steps {
        let path = step.path.display();
        let problem = match read(&step.path) {
            Ok(now) if same(step.knob, &now, &step.old) => {
                left.push(step);
                continue;
            }
            Ok(now) if same(step.knob, &now, &step.new) => {
                writeln!(out, "  {path} is {now} already")?;
                continue;
            }
            Ok(now) => format!("{path} was {} when shown and is {now:?} now; run `advise --apply` again", step.old),
            Err(error) => remedy(step.knob, &step.path, &error),
        };
        writeln!(out, "  not changed: {problem}")?;
        all = false;
    }
    Ok((left, all))
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

fn host_name(root: &Path) -> String {
    fs::read_to_string(root.join("proc/sys/kernel/hostname"))
        .map_or_else(|_| "this host".to_string(), |name| name.trim().to_string())
}

/// What the kernel calls this boot. It has one name for all containers (drivers/char/random.c, `sysctl_bootid`), so that our own
/// /proc says it where the host's is not mounted below `root`.
fn boot_id(root: &Path) -> anyhow::Result<String> {
    const FILE: &str = "proc/sys/kernel/random/boot_id";
    let id = fs::read_to_string(root.join(FILE)).or_else(|_| fs::read_to_string(Path::new("/").join(FILE)));
    let id = id.with_context(|| {
        format!("cannot read /{FILE}: changes of this boot cannot be distinguished from earlier ones")
    })?;
    Ok(id.trim().to_string())
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

    fn changed(knob: &Knob, old: &str, new: &str) -> Changed {
        let [knob, old, new] = [knob.name, old, new].map(str::to_string);
        Changed { knob, old, new, before: None }
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
        let said = restore(&changed(knob, &old, &new), Path::new("/"), false).unwrap();
        assert!(said.ends_with(&format!("is {old} again")), "{said}");
        assert_eq!(read(&path).unwrap(), old);
    }

    /// A host on which one knob can be set, and the file of that.
    fn host() -> (tempfile::TempDir, &'static Knob, PathBuf) {
        let root = tempfile::tempdir().unwrap();
        let knob = knob("halt_poll_ns").unwrap();
        let path = file(knob, root.path()).unwrap();
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        (root, knob, path)
    }

    #[test]
    fn what_changed_while_the_user_was_asked_is_not_set() {
        let (_root, knob, path) = host();
        let step = Step { knob, path: path.clone(), old: "777".to_string(), new: "0".to_string() };
        for (now, goes_on, is_trouble, says) in [
            ("777\n", true, false, ""),
            ("0\n", false, false, "is 0 already"),
            ("5\n", false, true, "was 777 when shown and is \"5\" now"),
            ("\x1b[31m\n", false, true, "is \"\\u{1b}[31m\" now"),
        ] {
            fs::write(&path, now).unwrap();
            let mut out = Vec::new();
            let (left, all) = still_so(vec![step.clone()], &mut out).unwrap();
            let said = String::from_utf8(out).unwrap();
            assert_eq!((left.len() == 1, all), (goes_on, !is_trouble), "{now:?}: {said}");
            assert!(said.contains(says), "{now:?}: {said}");
        }
    }

    #[test]
    fn only_what_is_still_as_it_was_set_is_restored() {
        let (root, knob, path) = host();
        let set_twice = Changed { before: Some("40000".to_string()), ..changed(knob, "777", "50000") };
        for (now, force, says, then) in [
            ("50000", false, Ok("restored"), "777"),
            // Killed before it was written, the first time or the second.
            ("777", false, Ok("is 777 already"), "777"),
            ("40000", false, Ok("restored"), "777"),
            ("5", false, Err("changed by somebody else"), "5"),
            ("5", true, Ok("(it was \"5\", set by somebody else)"), "777"),
        ] {
            fs::write(&path, format!("{now}\n")).unwrap();
            let done = restore(&set_twice, root.path(), force);
            let fits = match (&done, says) {
                (Ok(said), Ok(words)) => said.contains(words),
                (Err(error), Err(words)) => error.to_string().contains(words),
                _ => false,
            };
            assert!(fits, "{now} {force}: {done:?}");
            assert_eq!(read(&path).unwrap(), then, "{now} {force}");
        }
    }
}
