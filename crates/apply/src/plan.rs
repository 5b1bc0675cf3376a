//! What would be changed: each setting with its place, its value in force and the new one, or why that cannot be done.

use crate::PlacedSetting;
use crate::knob_file::KnobFileError;
use exitscope_policy::Knob;
use std::fmt;
use std::path::Path;

/// One setting to set.
#[derive(Clone, Debug)]
pub struct SettingChange {
    /// The setting, where this host has it.
    pub place: PlacedSetting,
    /// The value in force.
    pub old: String,
    /// The value to set, in the kernel's spelling.
    pub new: String,
}

/// What is to be done about one setting.
#[derive(Debug)]
pub enum PlannedSetting {
    /// It is to be set.
    Change(SettingChange),
    /// It has this value already.
    IsSet(PlacedSetting, String),
    /// It cannot be set.
    NotPossible(KnobFileError),
}

impl fmt::Display for PlannedSetting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PlannedSetting::Change(SettingChange { place, old, new }) => write!(f, "{place}: {old} becomes {new}"),
            PlannedSetting::IsSet(place, now) => write!(f, "{place} is {now} already"),
            PlannedSetting::NotPossible(error) => error.fmt(f),
        }
    }
}

/// What setting these knobs of the host below `root` takes, in their order. Knobs without a file are left out; of several
/// changes of one knob the first counts.
pub fn plan(root: &Path, wanted: impl IntoIterator<Item = (&'static Knob, u64)>) -> Vec<PlannedSetting> {
    let mut planned: Vec<PlannedSetting> = Vec::new();
    for (knob, value) in wanted {
        let Some(place) = PlacedSetting::of_knob(knob, root) else { continue };
        let is_planned = |row: &PlannedSetting| matches!(row, PlannedSetting::Change(change) if change.place == place);
        if !planned.iter().any(is_planned) {
            planned.push(PlannedSetting::of(place, knob.text(value).to_string()));
        }
    }
    planned
}

impl PlannedSetting {
    /// What setting this to `new` takes.
    pub fn of(place: PlacedSetting, new: String) -> PlannedSetting {
        match place.read() {
            Err(error) => PlannedSetting::NotPossible(error),
            Ok(old) if place.is_same(&old, &new) => PlannedSetting::IsSet(place, old),
            // Some kernels are built with parameters that can only be read.
            Ok(_) if place.is_read_only() || place.knob().is_some_and(|knob| !knob.is_writable()) => {
                PlannedSetting::NotPossible(place.at_load(new))
            }
            Ok(now) if !place.is_value(&now) => {
                PlannedSetting::NotPossible(KnobFileError::NotRestorable(place.to_string(), now))
            }
            Ok(old) => PlannedSetting::Change(SettingChange { place, old, new }),
        }
    }
}

impl SettingChange {
    /// What there is to do now, some time after it was planned.
    pub fn still(self) -> PlannedSetting {
        match self.place.read() {
            Ok(now) if self.place.is_same(&now, &self.old) => PlannedSetting::Change(self),
            Ok(now) if self.place.is_same(&now, &self.new) => PlannedSetting::IsSet(self.place, now),
            Ok(now) => PlannedSetting::NotPossible(KnobFileError::ChangedSince(self.place.to_string(), self.old, now)),
            Err(error) => PlannedSetting::NotPossible(error),
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
        let (root, knob, path) = host_with_one_knob();
        let place = PlacedSetting::of_knob(knob, root.path()).unwrap();
        let change = SettingChange { place, old: "777".to_string(), new: "0".to_string() };
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
