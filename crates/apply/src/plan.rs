//! What would be changed: each knob with its file, its value in force and the new one, or why that cannot be done.

use crate::knob_file::{KnobFileError, at_load, cannot, file, is_read_only, is_value, read, same};
use exitscope_policy::Knob;
use std::fmt;
use std::path::{Path, PathBuf};

/// One knob to set.
#[derive(Clone, Debug)]
pub struct KnobChange {
    /// The knob.
    pub knob: &'static Knob,
    /// Its file on this host.
    pub path: PathBuf,
    /// The value in force.
    pub old: String,
    /// The value to set, in the kernel's spelling.
    pub new: String,
}

/// What is to be done about one knob.
#[derive(Debug)]
pub enum PlannedSetting {
    /// It is to be set.
    Change(KnobChange),
    /// Its file has this value already.
    IsSet(PathBuf, String),
    /// It cannot be set.
    NotPossible(KnobFileError),
}

impl fmt::Display for PlannedSetting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PlannedSetting::Change(KnobChange { path, old, new, .. }) => {
                write!(f, "{}: {old} becomes {new}", path.display())
            }
            PlannedSetting::IsSet(path, now) => write!(f, "{} is {now} already", path.display()),
            PlannedSetting::NotPossible(error) => error.fmt(f),
        }
    }
}

/// What setting these knobs of the host below `root` takes, in their order. Knobs without a file are left out; of several
/// changes of one knob the first counts.
pub fn plan(root: &Path, wanted: impl IntoIterator<Item = (&'static Knob, u64)>) -> Vec<PlannedSetting> {
    let mut planned: Vec<PlannedSetting> = Vec::new();
    for (knob, value) in wanted {
        let Some(path) = file(knob, root) else { continue };
        let is_planned =
            |row: &PlannedSetting| matches!(row, PlannedSetting::Change(change) if change.knob.name == knob.name);
        if !planned.iter().any(is_planned) {
            planned.push(plan_one(knob, path, knob.text(value).to_string()));
        }
    }
    planned
}

fn plan_one(knob: &'static Knob, path: PathBuf, new: String) -> PlannedSetting {
    match read(&path) {
        Err(error) => PlannedSetting::NotPossible(cannot(knob, &path, error)),
        Ok(old) if same(knob, &old, &new) => PlannedSetting::IsSet(path, old),
        // Some kernels are built with parameters that can only be read.
        Ok(_) if !knob.is_writable() || is_read_only(&path) => PlannedSetting::NotPossible(at_load(knob, path, new)),
        Ok(now) if !is_value(&now) => PlannedSetting::NotPossible(KnobFileError::NotRestorable(path, now)),
        Ok(old) => PlannedSetting::Change(KnobChange { knob, path, old, new }),
    }
}

impl KnobChange {
    /// What there is to do now, some time after it was planned.
    pub fn still(self) -> PlannedSetting {
        match read(&self.path) {
            Ok(now) if same(self.knob, &now, &self.old) => PlannedSetting::Change(self),
            Ok(now) if same(self.knob, &now, &self.new) => PlannedSetting::IsSet(self.path, now),
            Ok(now) => PlannedSetting::NotPossible(KnobFileError::ChangedSince(self.path, self.old, now)),
            Err(error) => PlannedSetting::NotPossible(cannot(self.knob, &self.path, error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host_settings::tests::host_with_one_knob;
    use std::fs;

    #[test]
    fn what_changed_while_the_user_was_asked_is_not_set() {
        let (_root, knob, path) = host_with_one_knob();
        let change = KnobChange { knob, path: path.clone(), old: "777".to_string(), new: "0".to_string() };
        for (now, goes_on, is_trouble, says) in [
            ("777\n", true, false, ""),
            ("0\n", false, false, "is 0 already"),
            ("5\n", false, true, "was 777 when shown and is \"5\" now"),
            ("\x1b[31m\n", false, true, "is \"\\u{1b}[31m\" now"),
        ] {
            fs::write(&path, now).unwrap();
            let still = change.clone().still();
            let said = still.to_string();
            let is = (matches!(still, PlannedSetting::Change(_)), matches!(still, PlannedSetting::NotPossible(_)));
            assert_eq!(is, (goes_on, is_trouble), "{now:?}: {said}");
            assert!(said.contains(says), "{now:?}: {said}");
        }
    }

    #[test]
    fn the_first_of_several_changes_of_a_knob_counts() {
        let (root, knob, path) = host_with_one_knob();
        fs::write(&path, "777\n").unwrap();
        let said: Vec<String> =
            plan(root.path(), [(knob, 777), (knob, 5), (knob, 6)]).iter().map(|row| row.to_string()).collect();
        assert_eq!(said, [format!("{} is 777 already", path.display()), format!("{}: 777 becomes 5", path.display())]);
    }
}
