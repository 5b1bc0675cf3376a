//! Applies advice to the running host, and restores what was there before.
//!
//! ```text
//! plan ─► shown ─► yes? ─► lock ─► still so? ─► noted in the state file ─► set, and read back
//!                                               --undo: the state file backwards, as far as it is still our own
//! ```

use super::Advised;
use crate::Outcome;
use crate::host::halt_poll_scope;
use crate::question::agreed;
use anyhow::bail;
use exitscope_advice::{AdviceSetting, Judgement, SettingSide};
use exitscope_apply::{
    EarlierSettings, HostSettings, LeftByTrial, PlannedSetting, SettingChange, default_path, host_name, plan,
    restore_tried, take_for_tree,
};
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};

/// The host whose settings are changed.
pub struct ChangedHost {
    /// Where its /sys and /proc are.
    pub root: PathBuf,
    /// Where the old values are kept, unless at the default place.
    pub state: Option<PathBuf>,
    /// Whether recordings of other hosts may have it changed.
    pub any_host: bool,
}

impl ChangedHost {
    fn state(&self) -> PathBuf {
        self.state.clone().unwrap_or_else(default_path)
    }
}

/// Sets what advice asks for, after a question unless `yes`.
pub fn apply(host: &ChangedHost, yes: bool, advised: &Advised, out: &mut dyn Write) -> anyhow::Result<Outcome> {
    let (root, path) = (&host.root, host.state());
    writeln!(out, "\nTo be applied to {}", host_name(root))?;
    for line in restore_tried(root, &path)?.lines() {
        writeln!(out, "  {line}")?;
    }
    let (changes, possible) = planned(&advised.judgement, root, out)?;
    if changes.is_empty() {
        writeln!(out, "  nothing")?;
        return Ok(if possible { Outcome::Fine } else { Outcome::Failed });
    }
    check_host(host, &advised.recorded_on)?;
    // A file that cannot be used is told before anybody is asked.
    HostSettings::earlier(root, &path)?;
    if !yes {
        if !io::stdin().is_terminal() {
            writeln!(out, "  there is no terminal to ask on: --yes applies without asking")?;
            return Ok(Outcome::Failed);
        }
        if !agreed(out)? {
            writeln!(out, "  nothing was changed")?;
            return Ok(Outcome::Failed);
        }
    }
    let (mut settings, earlier) = HostSettings::open(root, &path)?;
    if earlier == EarlierSettings::EarlierBoot {
        writeln!(out, "  changes from before the last boot are dropped from the state file: the boot has reset them")?;
        settings.left_in_guests().try_for_each(|line| writeln!(out, "  {line}"))?;
    }
    let (changes, all) = still_so(changes, out)?;
    settings.note(&changes)?;
    let mut failed = !possible || !all;
    for change in &changes {
        match settings.set(change) {
            Ok(()) => writeln!(out, "  done: {} is {}", change.place, change.new)?,
            Err(error) => {
                failed = true;
                writeln!(out, "  failed: {:#}", anyhow::Error::from(error))?;
            }
        }
    }
    settings.save()?;
    if !settings.applied().is_empty() {
        let path = path.display();
        let root = if root == Path::new("/") { String::new() } else { format!(" --root {}", root.display()) };
        writeln!(out, "  `exitscope advise --undo{root}` restores the old values, which are kept in {path}")?;
    }
    Ok(if failed { Outcome::Failed } else { Outcome::Fine })
}

/// What the recording says is about the host on which it was made.
pub fn check_host(host: &ChangedHost, recorded_on: &str) -> anyhow::Result<()> {
    let name = host_name(&host.root);
    if recorded_on.is_empty() && !host.any_host {
        bail!(
            "the recording does not name its host (text never does): --any-host uses its advice on {name} nevertheless"
        );
    }
    if recorded_on != name && !host.any_host {
        bail!(
            "the recording is from {recorded_on}, and this host is {name}: --any-host uses its advice here nevertheless"
        );
    }
    Ok(())
}

/// Restores everything that the state file has and that is still as it was set, last change first; with `force` also what
/// others have changed since.
pub fn undo(host: &ChangedHost, force: bool, out: &mut dyn Write) -> anyhow::Result<Outcome> {
    let (root, path) = (&host.root, host.state());
    if force {
        take_for_tree(root, &path)?;
    }
    let left = restore_tried(root, &path)?;
    for line in left.lines() {
        writeln!(out, "{line}")?;
    }
    if left != LeftByTrial::Nothing && HostSettings::earlier(root, &path)? == EarlierSettings::None {
        let is_restored = !matches!(left, LeftByTrial::Restored(ending) if !ending.failed.is_empty());
        return Ok(if is_restored { Outcome::Fine } else { Outcome::Failed });
    }
    let is_there = |earlier| match earlier {
        EarlierSettings::None => {
            bail!("{} is not there: nothing was applied, or --state named another file", path.display())
        }
        earlier => Ok(earlier == EarlierSettings::ThisBoot),
    };
    is_there(HostSettings::earlier(root, &path)?)?;
    let (mut settings, earlier) = HostSettings::open(root, &path)?;
    if !is_there(earlier)? {
        let text = "nothing to restore: applied before the last boot, which has reset the knobs";
        writeln!(out, "{text}; removing {}", path.display())?;
        settings.left_in_guests().try_for_each(|line| writeln!(out, "{line}"))?;
    }
    for done in settings.restore(force) {
        match done {
            Ok(restored) => writeln!(out, "{restored}")?,
            Err(error) => writeln!(out, "failed: {:#}", anyhow::Error::from(error))?,
        }
    }
    settings.save()?;
    Ok(if settings.applied().is_empty() { Outcome::Fine } else { Outcome::Failed })
}

/// The changes, and whether all can be made; both are printed.
fn planned(judgement: &Judgement, root: &Path, out: &mut dyn Write) -> io::Result<(Vec<SettingChange>, bool)> {
    let settings = || judgement.advice().iter().flat_map(|advice| &advice.plan().settings);
    let knob = |setting: &AdviceSetting| match setting {
        AdviceSetting::Knob { side: SettingSide::Host, knob, value } => Some((*knob, *value)),
        _ => None,
    };
    let (mut changes, mut problems) = (Vec::new(), Vec::new());
    // What wins more comes first and decides.
    for planned in plan(root, settings().filter_map(knob)) {
        if let PlannedSetting::NotPossible(problem) = planned {
            problems.push(problem);
            continue;
        }
        writeln!(out, "  {planned}")?;
        if let PlannedSetting::Change(change) = planned {
            changes.push(change);
        }
    }
    if changes.iter().any(|change| change.place.name() == "halt_poll_ns") {
        writeln!(out, "  halt_poll_ns takes effect {}", halt_poll_scope(root).text())?;
    }
    if settings().any(|setting| knob(setting).is_none()) {
        writeln!(out, "  settings other than knobs of the host's kernel are not applied; --as prints them as files")?;
    }
    for problem in &problems {
        writeln!(out, "  not possible: {problem}")?;
    }
    Ok((changes, problems.is_empty()))
}

/// Those changes whose knob is still what was shown to who agreed, and whether the others are set already; what is not, is said.
fn still_so(changes: Vec<SettingChange>, out: &mut dyn Write) -> io::Result<(Vec<SettingChange>, bool)> {
    let (mut left, mut all) = (Vec::new(), true);
    for change in changes {
        match change.still() {
            PlannedSetting::Change(change) => left.push(change),
            PlannedSetting::NotPossible(problem) => {
                writeln!(out, "  not changed: {problem}")?;
                all = false;
            }
            is_set => writeln!(out, "  {is_set}")?,
        }
    }
    Ok((left, all))
}
