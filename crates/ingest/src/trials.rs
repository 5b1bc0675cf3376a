//! Trials into a store: a trial that was just made, and files of `try --format json`.

use crate::IngestError;
use chrono::DateTime;
use exitscope_apply::UNKNOWN_HOST;
use exitscope_measure::read_history;
use exitscope_store::{Store, StoredEffectRow, StoredTrialRow};
use exitscope_view::{TrialEffectRow, TrialReport, TriedSettingRow};
use sha2::{Digest, Sha256};
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// What a file of trials begins with.
const BEGIN: &str = "{\"schema\":\"exitscope.try/";

/// What became of a file of trials.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddedTrials {
    /// Trials that are new.
    pub new: usize,
    /// Trials that were there already.
    pub there: usize,
    /// Lines that are no trial.
    pub unread: usize,
}

/// Whether a file holds trials, and no recording.
pub fn holds_trials(file: &Path) -> bool {
    let mut begin = [0; BEGIN.len()];
    // What is no regular file is read but once.
    let is_file = file.metadata().is_ok_and(|of| of.is_file());
    is_file && File::open(file).and_then(|mut file| file.read_exact(&mut begin)).is_ok() && begin == *BEGIN.as_bytes()
}

/// Adds the trials of a file, of this host or of those that they name. Plans of trials that were not begun are none.
pub fn add_trials_of(store: &Store, file: &Path, host: Option<&str>) -> Result<AddedTrials, IngestError> {
    let (trials, unread) = read_history(file)?;
    let mut begun: Vec<TrialReport> = trials.into_iter().filter(|trial| !trial.began.is_empty()).collect();
    if let Some(host) = host {
        begun.iter_mut().for_each(|trial| trial.host = host.to_string());
    }
    let new = add_trials(store, &begun)?;
    Ok(AddedTrials { new, there: begun.len() - new, unread })
}

/// Adds trials; how many were not there yet.
pub fn add_trials(store: &Store, trials: &[TrialReport]) -> Result<usize, IngestError> {
    let rows = trials.iter().map(row).collect::<Result<Vec<StoredTrialRow>, IngestError>>()?;
    Ok(store.add_trials(&rows)?)
}

fn row(trial: &TrialReport) -> Result<StoredTrialRow, IngestError> {
    let TrialReport { host, began, plan, verdict, .. } = trial;
    let moment = DateTime::parse_from_rfc3339(began).map_err(|_| IngestError::NoMoment(began.clone()))?;
    let day = moment.to_utc().date_naive();
    if host.is_empty() || host == UNKNOWN_HOST {
        return Err(IngestError::NoHost(format!("the trial of {began}")));
    }
    let slope = trial.sensitivity.as_ref();
    let effects = verdict.settings.iter().flat_map(|setting| {
        let ruling = slope.map_or(&setting.ruling, |slope| &slope.ruling);
        setting.effects.iter().enumerate().map(move |(at, effect)| effect_row(setting, ruling, at == 0, effect))
    });
    Ok(StoredTrialRow {
        id: crate::id(Sha256::new_with_prefix(format!("{host}\n{began}\n{}", plan.seed))),
        host: host.clone(),
        day: day.to_string(),
        began: began.clone(),
        in_force: plan.settings.first().cloned().unwrap_or_default(),
        decided_by: trial.decided_by.clone(),
        end: verdict.end.clone().unwrap_or_default().into_owned(),
        blocks: verdict.blocks,
        took_ns: verdict.took_ns,
        alpha: plan.alpha,
        kept: verdict.keep.clone().filter(|_| trial.left.as_ref().is_some_and(|left| left.kept)),
        of_delays: slope.is_some(),
        percent_per_100ns: slope.map_or([None; 3], |of| [of.percent_per_100ns, of.low_percent, of.high_percent]),
        effects: effects.collect(),
    })
}

fn effect_row(setting: &TriedSettingRow, ruling: &str, decides: bool, of: &TrialEffectRow) -> StoredEffectRow {
    StoredEffectRow {
        setting: setting.setting.clone(),
        ruling: ruling.to_string(),
        metric: of.metric.clone(),
        unit: of.unit.clone().into_owned(),
        decides,
        means: [of.in_force, of.with],
        change_percent: [of.change_percent, of.low_percent, of.high_percent],
        predicted: of
            .predicted
            .as_ref()
            .zip(of.foreseen())
            .map(|(recorded, of)| [recorded.in_force, of.with, of.interval.0, of.interval.1]),
    }
}
