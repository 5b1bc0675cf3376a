//! What is to be tried, as it is typed: `halt_poll_ns=0,50us`; and where this host has it.

use crate::knob_file::KnobFileError;
use crate::knob_source::KnobSource;
use crate::placed_setting::{PlaceError, PlacedSetting, SettingTargets};
use crate::plan::PlannedSetting;
use crate::settings::SETTINGS;
use exitscope_policy::{Knob, all_knobs};
use std::path::Path;

/// A setting, the value in force at each of its places, and other values to try, none twice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TriedSetting {
    /// Where the host has it: at least one place.
    pub places: Vec<PlacedSetting>,
    /// The value in force at each place.
    pub in_force: Vec<String>,
    /// The values to try, each for all places.
    pub values: Vec<String>,
}

/// Why there is nothing to try.
#[derive(Debug, thiserror::Error)]
pub enum TriedSettingError {
    /// No name, or no values.
    #[error("{0:?} sets nothing: write a setting and the values to try, like halt_poll_ns=0,50us")]
    NoValue(String),
    /// No row has that name.
    #[error("no setting {0:?} can be tried; there are {1}")]
    NoName(String, String),
    /// It is not on this host, or cannot be changed while the host runs.
    #[error(transparent)]
    Place(#[from] PlaceError),
    /// Not a value of the setting.
    #[error("{0:?}: {1}")]
    BadValue(String, String),
    /// The host does not list this value.
    #[error("{0} is not one of the values that this host has for {1}")]
    Unknown(String, String),
    /// The control group of a thread does not allow it; the value, the thread's setting, and what is allowed.
    #[error("{0} has CPUs that are not allowed for {1}: the cpuset of its control group has {2}")]
    NotAllowed(String, String, String),
    /// A nice value could not be lowered again.
    #[error(
        "{0}: a nice value that was raised could not be lowered again: lowering needs CAP_SYS_NICE in the host's user namespace, or a limit of nice values"
    )]
    NotLowered(String),
    /// The same value again.
    #[error("{0}={1} is given twice")]
    Twice(&'static str, String),
    /// It is in force.
    #[error("{0} is {1} already: there is nothing to compare it with")]
    InForce(&'static str, String),
    /// It cannot be read or written.
    #[error(transparent)]
    File(#[from] KnobFileError),
}

impl TriedSetting {
    /// Reads `NAME=VALUE,…` and looks for the setting on the host below `root`.
    pub fn find(text: &str, root: &Path, targets: &SettingTargets) -> Result<TriedSetting, TriedSettingError> {
        let nothing = || TriedSettingError::NoValue(text.to_string());
        let (name, listed) = text.split_once('=').ok_or_else(nothing)?;
        let (name, listed) = (name.trim(), listed.trim());
        if name.is_empty() || listed.is_empty() {
            return Err(nothing());
        }
        let places = PlacedSetting::all(name, root, targets).map_err(|error| match error {
            PlaceError::NoName(name) => TriedSettingError::NoName(name, names().join(", ")),
            error => TriedSettingError::Place(error),
        })?;
        let first = &places[0];
        let mut values: Vec<String> = Vec::new();
        for text in listed.split(',') {
            let value =
                first.parse(text).map_err(|error| TriedSettingError::BadValue(text.trim().to_string(), error))?;
            if values.contains(&value) {
                return Err(TriedSettingError::Twice(first.name(), value));
            }
            values.push(value);
        }
        let in_force = places.iter().map(PlacedSetting::read).collect::<Result<Vec<String>, _>>()?;
        for (place, now) in places.iter().zip(&in_force) {
            if !place.may_alternate(values.iter().chain([now])) {
                return Err(TriedSettingError::NotLowered(place.to_string()));
            }
        }
        for value in &values {
            if in_force.iter().zip(&places).all(|(now, place)| place.is_same(now, value)) {
                return Err(TriedSettingError::InForce(first.name(), value.clone()));
            }
            for place in &places {
                if place.is_unknown(value) {
                    return Err(TriedSettingError::Unknown(value.clone(), place.to_string()));
                }
                if let Some(allowed) = place.allowed_instead(value) {
                    return Err(TriedSettingError::NotAllowed(value.clone(), place.to_string(), allowed));
                }
                // What cannot be written or restored is refused before anybody is asked.
                if let PlannedSetting::NotPossible(error) = PlannedSetting::of(place.clone(), value.clone()) {
                    return Err(error.into());
                }
            }
        }
        Ok(TriedSetting { places, in_force, values })
    }

    /// The name of the setting.
    pub fn name(&self) -> &'static str {
        self.places[0].name()
    }

    /// What the settings of a plan are called: the one in force first.
    pub fn labels(&self) -> Vec<String> {
        let first = &self.in_force[0];
        let now = match self.in_force.iter().all(|value| value == first) {
            true => first.clone(),
            false => "as it is".to_string(),
        };
        [&now].into_iter().chain(&self.values).map(|value| format!("{}={value}", self.name())).collect()
    }
}

/// The names of all that can be tried on such a machine.
fn names() -> Vec<&'static str> {
    let is_tried = |knob: &&Knob| knob.is_writable() && KnobSource::here(knob).is_of_this_machine();
    let knobs = all_knobs().filter(is_tried);
    knobs.map(|knob: &Knob| knob.name).chain(SETTINGS.iter().map(|setting| setting.name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host_settings::tests::host_with_one_knob;
    use std::fs;

    #[test]
    fn a_setting_and_its_values_are_read_as_people_write_them() {
        let (root, _, path) = host_with_one_knob();
        fs::write(&path, "200000\n").unwrap();
        let find = |text: &str| TriedSetting::find(text, root.path(), &SettingTargets::default());
        for (text, values) in
            [("halt_poll_ns=0", vec!["0"]), (" halt_poll_ns = 50us, 100000 ,0", vec!["50000", "100000", "0"])]
        {
            assert_eq!(find(text).unwrap().values, values, "{text}");
        }
        assert_eq!(find("halt_poll_ns=0").unwrap().labels(), ["halt_poll_ns=200000", "halt_poll_ns=0"]);
        for (text, says) in [
            (
                "halt_poll_ns",
                "\"halt_poll_ns\" sets nothing: write a setting and the values to try, like halt_poll_ns=0,50us",
            ),
            (
                "halt_poll_ns=",
                "\"halt_poll_ns=\" sets nothing: write a setting and the values to try, like halt_poll_ns=0,50us",
            ),
            ("halt_poll_ns=0,0ns", "halt_poll_ns=0 is given twice"),
            ("halt_poll_ns=200us", "halt_poll_ns is 200000 already: there is nothing to compare it with"),
            ("ple_gap=0", "ple_gap cannot be set at run time"),
        ] {
            assert_eq!(find(text).unwrap_err().to_string(), says, "{text}");
        }
        let error = find("hlt_poll=1").unwrap_err().to_string();
        assert!(
            error.contains("no setting \"hlt_poll\" can be tried; there are ") && error.contains(", thp_enabled, "),
            "{error}"
        );
        // What another architecture has cannot be tried here.
        assert_eq!(error.contains("spin_retry"), cfg!(target_arch = "s390x"), "{error}");
        let error = find("halt_poll_ns=0,,1").unwrap_err().to_string();
        assert!(error.starts_with("\"\": halt_poll_ns is a time from 0 to "), "{error}");
        fs::write(&path, "two words\n").unwrap();
        let error = find("halt_poll_ns=0").unwrap_err().to_string();
        assert!(error.contains("not a value that could be restored"), "{error}");
    }
}
