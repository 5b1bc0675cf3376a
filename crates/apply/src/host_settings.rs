//! The settings of this host, held by one process at a time: noted in the state file, set, checked and restored.

use crate::applied_settings::{
    AppliedSetting, AppliedSettings, AppliedSettingsError, BOOT_ID, SettingsLock, tried_path,
};
use crate::knob_file::KnobFileError;
use crate::placed_setting::{PlaceError, PlacedSetting};
use crate::plan::SettingChange;
use crate::tree::SettingsTree;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

/// The knobs of a host, while nobody else sets or restores any.
///
/// Each knob is noted, saved, set, and saved again. A kill in between leaves a state file from which the next
/// [`HostSettings::open`] restores.
pub struct HostSettings {
    root: PathBuf,
    path: PathBuf,
    applied: AppliedSettings,
    /// What was applied before the last [`HostSettings::note`].
    before: Vec<AppliedSetting>,
    /// What people type to restore guests whose settings were set before the last boot.
    guests: Vec<String>,
    lock: SettingsLock,
}

/// What a state file has from earlier runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EarlierSettings {
    /// There is no such file.
    None,
    /// Settings of this boot, which can be restored.
    ThisBoot,
    /// Settings of an earlier boot: the kernel has reset them since, and so they are dropped.
    EarlierBoot,
}

impl EarlierSettings {
    fn of(applied: Option<&AppliedSettings>, boot: &str) -> EarlierSettings {
        match applied {
            None => EarlierSettings::None,
            Some(applied) if applied.boot == boot => EarlierSettings::ThisBoot,
            Some(_) => EarlierSettings::EarlierBoot,
        }
    }
}

/// A setting that was restored.
#[derive(Debug, PartialEq, Eq)]
pub struct Restored {
    /// The setting, where this host has it.
    pub place: PlacedSetting,
    /// The value restored.
    pub old: String,
    /// What it was before; `None` if it had the old value already.
    pub from: Option<String>,
    /// Whether `from` was set by somebody else.
    pub by_others: bool,
    /// Whether what it is a setting of has ended, and nothing was to be done.
    pub gone: bool,
}

impl fmt::Display for Restored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (at, old) = (&self.place, &self.old);
        match &self.from {
            _ if self.gone => write!(f, "{at} is gone: there is nothing to restore"),
            None => write!(f, "{at} is {old} already: there is nothing to restore"),
            Some(now) if self.by_others => {
                write!(f, "restored: {at} is {old} again (it was {now:?}, set by somebody else)")
            }
            Some(_) => write!(f, "restored: {at} is {old} again"),
        }
    }
}

/// Why a knob was not restored.
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    /// The state file names a setting that there is not.
    #[error(transparent)]
    Place(#[from] PlaceError),
    /// It cannot be read or written.
    #[error(transparent)]
    File(#[from] KnobFileError),
    /// Somebody else has set it since; the setting, the value in force, the one that it was set to, and the one before.
    #[error(
        "{0} is {1:?}, not {2} as --apply set it: changed by somebody else, or its module was reloaded; left \
         unchanged (`--undo --force` restores {3})"
    )]
    ByOthers(String, String, String, String),
    /// What is below the root now is not what was; the root, and what was there.
    #[error("{0} is not the tree below {1} in which it was set")]
    OtherTree(String, String),
    /// It had only CPUs that are off now, or that its cpuset has no longer; the setting, the old value, and the one in force.
    #[error("{0} was {1}, but none of these CPUs can be used now; it is {2}")]
    Lost(String, String, String),
}

impl HostSettings {
    /// What is in the state file `path` of the host below `root`; an error where [`HostSettings::open`] would have one.
    pub fn earlier(root: &Path, path: &Path) -> Result<EarlierSettings, AppliedSettingsError> {
        let here = nothing_applied(root)?;
        let applied = load(path, root, &here)?;
        Ok(EarlierSettings::of(applied.as_ref(), &here.boot))
    }

    /// Takes the lock and reads the state file, with what earlier runs have left, killed or not.
    pub fn open(root: &Path, path: &Path) -> Result<(HostSettings, EarlierSettings), AppliedSettingsError> {
        HostSettings::with_lock(root, path, SettingsLock::take(root, path)?)
    }

    /// The same, by whoever holds the lock, which may be that of another state file.
    pub(crate) fn with_lock(
        root: &Path,
        path: &Path,
        lock: SettingsLock,
    ) -> Result<(HostSettings, EarlierSettings), AppliedSettingsError> {
        let here = nothing_applied(root)?;
        let applied = load(path, root, &here)?;
        let earlier = EarlierSettings::of(applied.as_ref(), &here.boot);
        let left = applied.iter().filter(|_| earlier == EarlierSettings::EarlierBoot).flat_map(|of| &of.changes);
        let guests = left.filter_map(|applied| by_hand(root, applied)).collect();
        let applied = applied.filter(|_| earlier == EarlierSettings::ThisBoot);
        let applied = applied.unwrap_or(here);
        let [root, path] = [root, path].map(Path::to_path_buf);
        Ok((HostSettings { root, path, applied, before: Vec::new(), guests, lock }, earlier))
    }

    /// What to say of guests: the last boot of the host has dropped what was noted of them, and may not have restarted them.
    pub fn left_in_guests(&self) -> impl Iterator<Item = String> {
        let text = "a guest that was not restarted with the host still has what was set in it";
        self.guests.iter().map(move |by_hand| format!("{text}: `{by_hand}` restores it"))
    }

    /// What is applied, or about to be.
    pub fn applied(&self) -> &[AppliedSetting] {
        &self.applied.changes
    }

    /// Notes in the state file that these are about to be set.
    pub fn note<'a>(
        &mut self,
        changes: impl IntoIterator<Item = &'a SettingChange>,
    ) -> Result<(), AppliedSettingsError> {
        if let Some((here, noted)) = self.moved() {
            return Err(AppliedSettingsError::OtherTree(self.path.clone(), noted, here));
        }
        self.before = self.applied.changes.clone();
        for SettingChange { place, old, new } in changes {
            self.applied.note(place, old, new);
        }
        self.save()
    }

    /// Sets what was noted, and reads it back. What has failed and changed nothing is no longer noted.
    pub fn set(&mut self, change: &SettingChange) -> Result<(), KnobFileError> {
        let SettingChange { place, old, new } = change;
        assert!(self.applied().iter().any(|row| row.is_of(place)), "{} is noted before it is set", place.name());
        let done = place.set(new);
        match done {
            Ok(()) => self.applied.is_set(place),
            Err(_) if place.read().is_ok_and(|now| now == *old) => self.applied.forget(place, &self.before),
            // What the kernel has made of it is not somebody else's.
            Err(KnobFileError::NotTaken(_, _, ref now)) => self.applied.became(place, now),
            Err(_) => {}
        }
        done
    }

    /// Notes that something is set already, and that this is to stay; returns what is restored by who undoes it.
    pub(crate) fn note_set(&mut self, change: &SettingChange) -> Result<String, AppliedSettingsError> {
        let old = self.applied.note(&change.place, &change.old, &change.new);
        self.applied.is_set(&change.place);
        self.save().map(|()| old)
    }

    /// The first setting that no longer has the value that it was set to, and the value that it has. What has ended is not
    /// one.
    pub fn changed_by_others(&self) -> Result<Option<(&AppliedSetting, String)>, RestoreError> {
        for applied in self.applied() {
            let place = PlacedSetting::find(&applied.knob, applied.target.as_deref(), &self.root)?;
            if place.is_gone() {
                continue;
            }
            let now = place.read()?;
            if !applied.is_own(&place, &now) {
                return Ok(Some((applied, now)));
            }
        }
        Ok(None)
    }

    /// Gives these up: they are no longer noted, and not restored.
    pub(crate) fn give_up(&mut self, these: &[AppliedSetting]) {
        self.applied.changes.retain(|applied| !these.contains(applied));
    }

    /// What people type to restore a setting in a guest.
    pub(crate) fn by_hand(&self, applied: &AppliedSetting) -> Option<String> {
        by_hand(&self.root, applied)
    }

    /// Notes nothing any more: what is set stays.
    pub(crate) fn forget_all(&mut self) {
        self.applied.changes.clear();
    }

    /// What is locked, for another state file.
    pub(crate) fn lock_file(&self) -> std::io::Result<std::fs::File> {
        self.lock.shared()
    }

    /// The lock, for another state file of the same host.
    pub(crate) fn into_lock(self) -> SettingsLock {
        self.lock
    }

    /// Restores everything that is applied and still as it was set, last change first; by force also what others have set
    /// since. What cannot be restored stays applied.
    pub fn restore(&mut self, force: bool) -> Vec<Result<Restored, RestoreError>> {
        let all = std::mem::take(&mut self.applied.changes);
        let moved = self.moved();
        let restore = |applied: &AppliedSetting| match &moved {
            None => restore(applied, &self.root, force),
            Some((here, noted)) => Err(RestoreError::OtherTree(here.clone(), noted.clone())),
        };
        let done: Vec<_> = all.iter().rev().map(restore).collect();
        let left = all.into_iter().zip(done.iter().rev()).filter(|(_, done)| done.is_err());
        self.applied.changes = left.map(|(applied, _)| applied).collect();
        done
    }

    /// The root and the one that was noted, if another tree is there now, as where a link leads elsewhere meanwhile.
    fn moved(&self) -> Option<(String, String)> {
        let noted = self.applied.tree.as_ref()?;
        let root = || self.root.display().to_string();
        match SettingsTree::of(&self.root) {
            Ok(now) if now.is_same(noted) => None,
            now => Some((now.map_or_else(|_| root(), |now| now.root), noted.root.clone())),
        }
    }

    /// Writes the state file; where nothing is applied, removes it.
    pub fn save(&self) -> Result<(), AppliedSettingsError> {
        self.applied.save(&self.path, &self.lock)
    }
}

fn by_hand(root: &Path, applied: &AppliedSetting) -> Option<String> {
    PlacedSetting::find(&applied.knob, applied.target.as_deref(), root).ok()?.by_hand(&applied.old)
}

/// What a state file of the host below `root` says before anything is applied.
fn nothing_applied(root: &Path) -> Result<AppliedSettings, AppliedSettingsError> {
    let tree = SettingsTree::of(root).map_err(|error| AppliedSettingsError::TreeNotRead(root.to_path_buf(), error))?;
    Ok(AppliedSettings::of(&host_name(root), &boot_id(root)?, tree))
}

/// Takes the word of who asks that the state file `path`, and that of trials beside it, are of the tree below `root`, where they do
/// not say it, as earlier versions did not.
pub fn take_for_tree(root: &Path, path: &Path) -> Result<(), AppliedSettingsError> {
    let paths = [path.to_path_buf(), tried_path(path)];
    let has_none = |path: &PathBuf| Ok(AppliedSettings::load(path)?.is_some_and(|applied| applied.tree.is_none()));
    if !paths.iter().map(has_none).collect::<Result<Vec<bool>, AppliedSettingsError>>()?.contains(&true) {
        return Ok(());
    }
    let lock = SettingsLock::take(root, path)?;
    let here = nothing_applied(root)?;
    for path in paths {
        if let Some(mut applied) = AppliedSettings::load(&path)?.filter(|applied| applied.tree.is_none()) {
            applied.tree.clone_from(&here.tree);
            applied.save(&path, &lock)?;
        }
    }
    Ok(())
}

/// The state file, if it is there and of this host, of which `here` is.
fn load(path: &Path, root: &Path, here: &AppliedSettings) -> Result<Option<AppliedSettings>, AppliedSettingsError> {
    let Some(applied) = AppliedSettings::load(path)? else { return Ok(None) };
    let here_root = || here.tree.as_ref().map_or_else(|| root.display().to_string(), |tree| tree.root.clone());
    if let (Some(noted), Some(tree)) = (&applied.tree, &here.tree)
        && !noted.is_same(tree)
    {
        return Err(AppliedSettingsError::OtherTree(path.to_path_buf(), noted.root.clone(), here_root()));
    }
    // A host may be renamed, and a container has a name of its own: its boot has one id. But a tree that is no host's has neither, and
    // is known by its name.
    let is_same_boot = applied.boot == here.boot;
    if applied.host != here.host && !(is_same_boot && applied.host != UNKNOWN_HOST && root.join(BOOT_ID).exists()) {
        return Err(AppliedSettingsError::OtherHost(path.to_path_buf(), applied.host, here.host.clone()));
    }
    if applied.tree.is_none() {
        return Err(AppliedSettingsError::NoTree(path.to_path_buf(), here_root()));
    }
    // What is not seen here may be there all the same.
    let of_namespace = |applied: &AppliedSetting| {
        let place = PlacedSetting::find(&applied.knob, applied.target.as_deref(), root);
        place.map_or(true, |place| place.is_of_namespace())
    };
    if is_same_boot && applied.namespaces != here.namespaces && applied.changes.iter().any(of_namespace) {
        return Err(AppliedSettingsError::OtherContainer(path.to_path_buf()));
    }
    Ok(Some(applied))
}

/// Restores a setting; if somebody else has changed it since, only by force.
fn restore(applied: &AppliedSetting, root: &Path, force: bool) -> Result<Restored, RestoreError> {
    let old = &applied.old;
    let place = PlacedSetting::find(&applied.knob, applied.target.as_deref(), root)?;
    match put_back(&place, applied, force) {
        Ok((from, by_others)) => Ok(Restored { place, old: old.clone(), from, by_others, gone: false }),
        // A thread may end, or a control group be removed, at any moment.
        Err(_) if place.is_gone() => Ok(Restored { place, old: old.clone(), from: None, by_others: false, gone: true }),
        Err(error) => Err(error),
    }
}

/// Sets the old value; what was in force, if that was another one, and whether somebody else had set it.
fn put_back(
    place: &PlacedSetting,
    applied: &AppliedSetting,
    force: bool,
) -> Result<(Option<String>, bool), RestoreError> {
    let AppliedSetting { old, new, .. } = applied;
    let now = place.read()?;
    let by_others = !applied.is_own(place, &now);
    let is_old = place.is_same(&now, old) && (place.is_read_whole() || by_others);
    let from = (!is_old).then_some(now);
    match &from {
        Some(now) if by_others && !force => {
            Err(RestoreError::ByOthers(place.to_string(), now.clone(), new.clone(), old.clone()))
        }
        Some(now) if place.has_lost(old) => Err(RestoreError::Lost(place.to_string(), old.clone(), now.clone())),
        Some(_) => place.set(old).map(|()| (from, by_others)).map_err(RestoreError::from),
        None => Ok((from, by_others)),
    }
}

/// What a host is called whose name cannot be read.
pub const UNKNOWN_HOST: &str = "this host";

/// The name of the host below `root`.
pub fn host_name(root: &Path) -> String {
    fs::read_to_string(root.join("proc/sys/kernel/hostname"))
        .map_or_else(|_| UNKNOWN_HOST.to_string(), |name| name.trim().to_string())
}

/// What the kernel calls this boot. It has one name for all containers (drivers/char/random.c, `sysctl_bootid`), so that our own
/// /proc says it where the host's is not mounted below `root`.
fn boot_id(root: &Path) -> Result<String, AppliedSettingsError> {
    let id = fs::read_to_string(root.join(BOOT_ID)).or_else(|_| fs::read_to_string(Path::new("/").join(BOOT_ID)));
    id.map(|id| id.trim().to_string()).map_err(AppliedSettingsError::NoBootId)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::knob_file::read;
    use crate::placed_setting::{SettingTargets, TaskThread};
    use crate::plan::{PlannedSetting, plan};
    use exitscope_policy::{Knob, knob};
    use exitscope_skips::{Part, or_skip, skip};

    /// Writes the old value back, whatever happens.
    struct WrittenBack(PathBuf, String);

    impl Drop for WrittenBack {
        fn drop(&mut self) {
            let _ = fs::write(&self.0, &self.1);
        }
    }

    fn applied(knob: &Knob, old: &str, new: &str) -> AppliedSetting {
        let [knob, old, new] = [knob.name, old, new].map(str::to_string);
        AppliedSetting { knob, target: None, old, new, before: None }
    }

    #[test]
    fn a_real_knob_is_set_read_back_and_restored() {
        // Each of these may be one nanosecond longer without anything on this machine feeling it.
        let candidates = ["halt_poll_ns_grow_start", "guest_halt_poll_grow_start"].map(|name| knob(name).unwrap());
        let found = candidates.into_iter().find_map(|knob| {
            let place = PlacedSetting::of_knob(knob, Path::new("/"))?;
            let old = place.read().ok().filter(|_| !place.is_read_only())?;
            fs::OpenOptions::new().write(true).open(place.to_string()).ok()?;
            Some((knob, place, old))
        });
        let missing = || skip(Part::KvmParameters, "this user can write neither of those tried");
        let (knob, place, old) = or_skip!(found.ok_or_else(missing));
        let path = PathBuf::from(place.to_string());
        let _written_back = WrittenBack(path.clone(), old.clone());
        let new = (old.parse::<u64>().unwrap() + 1).to_string();
        place.set(&new).unwrap();
        assert_eq!(read(&path).unwrap(), new);
        let said = restore(&applied(knob, &old, &new), Path::new("/"), false).unwrap().to_string();
        assert!(said.ends_with(&format!("is {old} again")), "{said}");
        assert_eq!(read(&path).unwrap(), old);

        // What the kernel refuses, and leaves as it was, is nothing to restore.
        let state = tempfile::tempdir().unwrap();
        let (mut settings, _) = HostSettings::open(Path::new("/"), &state.path().join("applied.json")).unwrap();
        let change = SettingChange { place, old: old.clone(), new: "no number".to_string() };
        settings.note([&change]).unwrap();
        assert!(settings.set(&change).is_err());
        assert_eq!((settings.applied().len(), read(&path).unwrap()), (0, old));
    }

    /// A host on which one knob can be set, and the file of that.
    pub fn host_with_one_knob() -> (tempfile::TempDir, &'static Knob, PathBuf) {
        let root = tempfile::tempdir().unwrap();
        let knob = knob("halt_poll_ns").unwrap();
        let path = PathBuf::from(PlacedSetting::of_knob(knob, root.path()).unwrap().to_string());
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        (root, knob, path)
    }

    #[test]
    fn cpus_that_are_all_gone_are_said_and_not_written() {
        let own = std::process::id();
        let threads = vec![TaskThread::of(own, own).unwrap()];
        let targets = SettingTargets { threads, ..SettingTargets::default() };
        let place = PlacedSetting::all("affinity", Path::new("/"), &targets).unwrap().remove(0);
        let [knob, old, new] = ["affinity", "1023", "1022"].map(str::to_string);
        let applied = AppliedSetting { knob, target: place.target().map(str::to_string), old, new, before: None };
        let before = place.read().unwrap();
        // It has lost those of the trial, too, so that what it has now is not somebody else's.
        let error = restore(&applied, Path::new("/"), false).unwrap_err();
        assert!(matches!(error, RestoreError::Lost(..)), "{error}");
        assert!(
            error.to_string().ends_with(&format!("was 1023, but none of these CPUs can be used now; it is {before}")),
            "{error}"
        );
        assert_eq!(place.read().unwrap(), before);
    }

    #[test]
    fn a_host_that_was_renamed_is_the_same_until_it_is_booted() {
        let (root, knob, path) = host_with_one_knob();
        let write = |file: &str, text: &str| {
            let file = root.path().join(file);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        };
        const NAME: &str = "proc/sys/kernel/hostname";
        write(BOOT_ID, "boot-1\n");
        let state = root.path().join("state/applied.json");
        let open = || HostSettings::open(root.path(), &state);
        let place = PlacedSetting::of_knob(knob, root.path()).unwrap();
        let change = SettingChange { place, old: "777".to_string(), new: "0".to_string() };
        let set = |name: &str| {
            write(NAME, name);
            fs::write(&path, "777\n").unwrap();
            let mut settings = open().unwrap().0;
            settings.note([&change]).unwrap();
            settings.set(&change).unwrap();
            settings.save().unwrap();
        };
        set("pod-a\n");
        write(NAME, "pod-b\n");
        let (mut settings, earlier) = open().unwrap();
        assert_eq!(earlier, EarlierSettings::ThisBoot);
        assert_eq!((settings.restore(false).len(), read(&path).unwrap().as_str()), (1, "777"));
        settings.save().unwrap();
        drop(settings);

        // Threads and groups that another container does not see may be there all the same.
        let quota = PlacedSetting::find("cpu_quota", Some("vm"), root.path()).unwrap();
        let change = SettingChange { place: quota, old: "max".to_string(), new: "50000".to_string() };
        let mut settings = open().unwrap().0;
        settings.note([&change]).unwrap();
        drop(settings);
        assert_eq!(open().unwrap().1, EarlierSettings::ThisBoot);
        let text = fs::read_to_string(&state).unwrap();
        fs::write(&state, text.replace(&nothing_applied(root.path()).unwrap().namespaces, "pid:[1] cgroup:[2]"))
            .unwrap();
        let other = open().err().unwrap().to_string();
        assert!(other.contains("from another container"), "{other}");
        fs::remove_file(&state).unwrap();

        set("pod-a\n");
        write(NAME, "pod-b\n");
        write(BOOT_ID, "boot-2\n");
        let other = open().err().unwrap().to_string();
        assert!(other.contains("holds settings that were applied to pod-a, and this host is pod-b"), "{other}");
        // A tree that is no host's has no boot of its own.
        fs::remove_file(root.path().join(BOOT_ID)).unwrap();
        fs::remove_file(root.path().join(NAME)).unwrap();
        let text = fs::read_to_string(&state).unwrap().replace("boot-1", &boot_id(root.path()).unwrap());
        fs::write(&state, text).unwrap();
        assert!(open().err().unwrap().to_string().contains("and this host is this host"));
    }

    #[test]
    fn nothing_is_written_where_a_link_leads_elsewhere_meanwhile() {
        let ((one, knob, path), (two, _, other)) = (host_with_one_knob(), host_with_one_knob());
        fs::write(&path, "777\n").unwrap();
        fs::write(&other, "0\n").unwrap();
        let link = one.path().join("link");
        let lead_to = |root: &Path| {
            let _ = fs::remove_file(&link);
            std::os::unix::fs::symlink(root, &link).unwrap();
        };
        lead_to(one.path());
        let state = one.path().join("state/applied.json");
        let PlannedSetting::Change(change) = plan(&link, [(knob, 0)]).remove(0) else { panic!("it is set") };
        let (mut settings, _) = HostSettings::open(&link, &state).unwrap();
        settings.note([&change]).unwrap();
        settings.set(&change).unwrap();
        settings.save().unwrap();
        lead_to(two.path());
        let error = settings.restore(true).remove(0).unwrap_err().to_string();
        assert!(error.contains(" is not the tree below "), "{error}");
        assert!(matches!(settings.note([&change]), Err(AppliedSettingsError::OtherTree(..))));
        assert_eq!((read(&other).unwrap().as_str(), settings.applied().len(), state.exists()), ("0", 1, true));
        lead_to(one.path());
        assert!(settings.restore(false)[0].is_ok());
        assert_eq!((read(&path).unwrap().as_str(), read(&other).unwrap().as_str()), ("777", "0"));
    }

    #[test]
    fn only_what_is_still_as_it_was_set_is_restored() {
        let (root, knob, path) = host_with_one_knob();
        let set_twice = AppliedSetting { before: Some("40000".to_string()), ..applied(knob, "777", "50000") };
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
                (Ok(restored), Ok(words)) => restored.to_string().contains(words),
                (Err(error), Err(words)) => error.to_string().contains(words),
                _ => false,
            };
            assert!(fits, "{now} {force}: {done:?}");
            assert_eq!(read(&path).unwrap(), then, "{now} {force}");
        }
    }

    #[test]
    fn what_a_killed_run_left_is_found_checked_and_restored() {
        let (root, knob, path) = host_with_one_knob();
        fs::write(&path, "777\n").unwrap();
        let (root, state) = (root.path(), root.path().join("state/applied.json"));
        let turn = |settings: &mut HostSettings, new: u64| {
            let PlannedSetting::Change(change) = plan(root, [(knob, new)]).remove(0) else { panic!("{new} is set") };
            settings.note([&change]).unwrap();
            settings.set(&change).unwrap();
        };
        let (mut settings, earlier) = HostSettings::open(root, &state).unwrap();
        assert_eq!(earlier, EarlierSettings::None);
        for new in [0, 50_000, 0, 40_000] {
            turn(&mut settings, new);
            settings.save().unwrap();
            assert!(settings.changed_by_others().unwrap().is_none());
        }
        // Killed between setting and saving.
        turn(&mut settings, 10_000);
        drop(settings);
        let (mut settings, earlier) = HostSettings::open(root, &state).unwrap();
        assert_eq!((earlier, settings.applied().len()), (EarlierSettings::ThisBoot, 1));
        assert!(settings.changed_by_others().unwrap().is_none());
        fs::write(&path, "5\n").unwrap();
        let (changed, now) = settings.changed_by_others().unwrap().unwrap();
        assert_eq!((changed.new.as_str(), now.as_str()), ("10000", "5"));
        assert!(settings.restore(false)[0].is_err() && settings.applied().len() == 1);
        assert!(settings.restore(true)[0].is_ok() && settings.applied().is_empty());
        settings.save().unwrap();
        assert_eq!((read(&path).unwrap().as_str(), state.exists()), ("777", false));
    }

    #[test]
    #[should_panic(expected = "halt_poll_ns is noted before it is set")]
    fn nothing_is_set_that_is_not_noted() {
        let (root, knob, _path) = host_with_one_knob();
        let (mut settings, _) = HostSettings::open(root.path(), &root.path().join("applied.json")).unwrap();
        let place = PlacedSetting::of_knob(knob, root.path()).unwrap();
        let _ = settings.set(&SettingChange { place, old: "1".to_string(), new: "2".to_string() });
    }
}
