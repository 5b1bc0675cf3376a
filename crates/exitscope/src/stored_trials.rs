//! Trials on their way into a store: from `try --store`, and from files of `try --format json` by `store add`.

use anyhow::{Context, bail};
use exitscope_apply::UNKNOWN_HOST;
use exitscope_measure::read_history;
use exitscope_store::{Store, StoredEffectRow, StoredTrialRow};
use exitscope_view::{TrialEffectRow, TrialReport, TriedSettingRow, plural, thousands};
use sha2::{Digest, Sha256};
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// What a file of trials begins with.
const BEGIN: &str = "{\"schema\":\"exitscope.try/";

/// Whether a file holds trials, and no recording.
pub fn are_in(file: &Path) -> bool {
    let mut begin = [0; BEGIN.len()];
    // What is no regular file is read but once.
    let is_file = file.metadata().is_ok_and(|of| of.is_file());
    is_file && File::open(file).and_then(|mut file| file.read_exact(&mut begin)).is_ok() && begin == *BEGIN.as_bytes()
}

/// Adds the trials of a file, of this host or of those that they name; says how many are new, and how many lines were no trial.
pub fn add_file(store: &Store, file: &Path, host: Option<&str>) -> anyhow::Result<(String, Vec<String>)> {
    let (trials, unread) = read_history(file)?;
    let mut begun: Vec<TrialReport> = trials.into_iter().filter(|trial| !trial.began.is_empty()).collect();
    if let Some(host) = host {
        begun.iter_mut().for_each(|trial| trial.host = host.to_string());
    }
    let added = add(store, &begun)?;
    let (new, there) = (added as u64, thousands((begun.len() - added) as u64));
    let says = format!("{} {}, {there} already there", thousands(new), plural(new, "trial"));
    let warning = (unread > 0).then(|| format!("{unread} of its lines are no trial of this version"));
    Ok((says, warning.into_iter().collect()))
}

/// Adds trials; how many were not there yet.
pub fn add(store: &Store, trials: &[TrialReport]) -> anyhow::Result<usize> {
    let rows = trials.iter().map(row).collect::<anyhow::Result<Vec<StoredTrialRow>>>()?;
    Ok(store.add_trials(&rows)?)
}

fn row(trial: &TrialReport) -> anyhow::Result<StoredTrialRow> {
    let TrialReport { host, began, plan, verdict, .. } = trial;
    let day = began.get(..10).with_context(|| format!("{began:?} is no moment"))?;
    if host.is_empty() || host == UNKNOWN_HOST {
        bail!("the trial of {began} does not say of which host it is: add --host NAME");
    }
    let hash = Sha256::digest(format!("{host}\n{began}\n{}", plan.seed));
    let slope = trial.sensitivity.as_ref();
    let effects = verdict.settings.iter().flat_map(|setting| {
        let ruling = slope.map_or(&setting.ruling, |slope| &slope.ruling);
        setting.effects.iter().enumerate().map(move |(at, effect)| effect_row(setting, ruling, at == 0, effect))
    });
    Ok(StoredTrialRow {
        id: hash.iter().take(16).map(|byte| format!("{byte:02x}")).collect(),
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
        predicted: of.predicted.as_ref().map(|of| [of.in_force, of.with, of.low, of.high]),
    }
}
