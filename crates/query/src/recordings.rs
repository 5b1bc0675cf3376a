//! The tables that the log says: `recordings`, `hosts`, `vms`, `knobs`, `advice`, `trials`.

use crate::table::MemoryTable;
use datafusion::arrow::array::{
    ArrayRef, BooleanArray, Date32Array, Float64Array, RecordBatch, StringArray, UInt32Array, UInt64Array,
};
use datafusion::arrow::datatypes::{DataType, Field, Schema};
use datafusion::common::{Result, ScalarValue};
use exitscope_model::{HostSetting, IdentityField, VmIdentity, VmManager};
use exitscope_store::{AdvisedRow, RecordingRow, StoredEffectRow, StoredSettingRow, StoredTrialRow};
use exitscope_units::VmId;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Columns by name.
type Columns = Vec<(&'static str, ArrayRef)>;

/// A row for each recording.
pub(crate) fn runs(runs: &[RecordingRow]) -> Result<MemoryTable> {
    table(vec![
        ("recording", words(runs, |run| &run.id)),
        ("host", words(runs, |run| &run.host)),
        ("day", days(runs, |run| &run.day)?),
        ("name", words(runs, |run| &run.name)),
        ("format", words(runs, |run| &run.format)),
        ("arch", words(runs, |run| &run.arch)),
        ("release", words(runs, |run| &run.release)),
        ("cpu", words(runs, |run| &run.cpu)),
        ("cpus", Arc::new(runs.iter().map(|run| Some(run.cpus)).collect::<UInt32Array>())),
        ("clock", words(runs, |run| &run.clock)),
        ("first_ns", numbers(runs, |run| run.first_ns)),
        ("last_ns", numbers(runs, |run| run.last_ns)),
        ("events", numbers(runs, |run| run.events)),
        ("exits", numbers(runs, |run| run.exits)),
        ("timed", numbers(runs, |run| run.timed)),
        ("lost", numbers(runs, |run| run.lost)),
    ])
}

/// A row for each host: what its newest recording says, and sums over all.
pub(crate) fn hosts(runs: &[RecordingRow]) -> Result<MemoryTable> {
    let mut by_host: BTreeMap<&str, Vec<&RecordingRow>> = BTreeMap::new();
    runs.iter().for_each(|run| by_host.entry(&run.host).or_default().push(run));
    by_host.values_mut().for_each(|runs| runs.sort_by_key(|run| (&run.day, &run.id)));
    let hosts: Vec<(&RecordingRow, &RecordingRow, Vec<&RecordingRow>)> =
        by_host.into_values().filter_map(|runs| Some((*runs.first()?, *runs.last()?, runs))).collect();
    table(vec![
        ("host", words(&hosts, |of| &of.1.host)),
        ("arch", words(&hosts, |of| &of.1.arch)),
        ("release", words(&hosts, |of| &of.1.release)),
        ("cpu", words(&hosts, |of| &of.1.cpu)),
        ("cpus", Arc::new(hosts.iter().map(|of| Some(of.1.cpus)).collect::<UInt32Array>())),
        ("first_day", days(&hosts, |of| &of.0.day)?),
        ("last_day", days(&hosts, |of| &of.1.day)?),
        ("recordings", numbers(&hosts, |of| of.2.len() as u64)),
        ("exits", numbers(&hosts, |of| of.2.iter().map(|run| run.exits).sum())),
        ("lost", numbers(&hosts, |of| of.2.iter().map(|run| run.lost).sum())),
    ])
}

/// A row for each VM of which a recording says who it is.
pub(crate) fn vms(runs: &[RecordingRow]) -> Result<MemoryTable> {
    let identities = |run: &RecordingRow| {
        let setting = |of: &StoredSettingRow| HostSetting::new(&of.component, &of.name, &of.value);
        VmIdentity::all_of_settings(&run.settings.iter().map(setting).collect::<Vec<_>>())
    };
    let vms: Vec<(&RecordingRow, VmId, VmIdentity)> =
        runs.iter().flat_map(|run| identities(run).into_iter().map(move |(vm, of)| (run, vm, of))).collect();
    let mut columns: Columns = vec![
        ("recording", words(&vms, |of| &of.0.id)),
        ("host", words(&vms, |of| &of.0.host)),
        ("day", days(&vms, |of| &of.0.day)?),
        ("vm", Arc::new(vms.iter().map(|of| of.1.number()).collect::<UInt32Array>())),
        ("manager", words(&vms, |of| of.2.manager.map_or("", VmManager::id))),
    ];
    for &field in IdentityField::ALL {
        columns.push((field.id(), words(&vms, |of| of.2.get(field).unwrap_or_default())));
    }
    table(columns)
}

/// A row for each thing that was in force during a recording.
pub(crate) fn knobs(runs: &[RecordingRow]) -> Result<MemoryTable> {
    let knobs: Vec<(&RecordingRow, &StoredSettingRow)> =
        runs.iter().flat_map(|run| run.settings.iter().map(move |setting| (run, setting))).collect();
    table(vec![
        ("recording", words(&knobs, |of| &of.0.id)),
        ("host", words(&knobs, |of| &of.0.host)),
        ("day", days(&knobs, |of| &of.0.day)?),
        ("component", words(&knobs, |of| &of.1.component)),
        ("name", words(&knobs, |of| &of.1.name)),
        ("value", words(&knobs, |of| &of.1.value)),
    ])
}

/// A row for each thing to change, by each recording.
pub(crate) fn advice(runs: &[RecordingRow]) -> Result<MemoryTable> {
    let advice: Vec<(&RecordingRow, &AdvisedRow)> =
        runs.iter().flat_map(|run| run.advice.iter().map(move |advice| (run, advice))).collect();
    table(vec![
        ("recording", words(&advice, |of| &of.0.id)),
        ("host", words(&advice, |of| &of.0.host)),
        ("day", days(&advice, |of| &of.0.day)?),
        ("change", words(&advice, |of| &of.1.change)),
        ("vm", words(&advice, |of| of.1.vm.as_deref().unwrap_or_default())),
        ("gain_kind", words(&advice, |of| &of.1.gain_kind)),
        ("headline_ns_per_s", Arc::new(advice.iter().map(|of| of.1.headline_ns_per_s).collect::<UInt64Array>())),
        ("low_ns_per_s", numbers(&advice, |of| of.1.low_ns_per_s)),
        ("high_ns_per_s", numbers(&advice, |of| of.1.high_ns_per_s)),
        ("method", words(&advice, |of| &of.1.method)),
    ])
}

/// A row for each setting that was compared with the one in force, and each metric, of each trial.
pub(crate) fn trials(trials: &[StoredTrialRow]) -> Result<MemoryTable> {
    let effects: Vec<(&StoredTrialRow, &StoredEffectRow)> =
        trials.iter().flat_map(|trial| trial.effects.iter().map(move |effect| (trial, effect))).collect();
    let decides = effects.iter().map(|of| Some(of.1.decides)).collect::<BooleanArray>();
    let floats = |of: fn(&StoredEffectRow) -> Option<f64>| reals(&effects, |row| of(row.1));
    let slopes = |at: usize| reals(&effects, move |row| row.0.percent_per_100ns[at]);
    table(vec![
        ("trial", words(&effects, |of| &of.0.id)),
        ("host", words(&effects, |of| &of.0.host)),
        ("day", days(&effects, |of| &of.0.day)?),
        ("began", words(&effects, |of| &of.0.began)),
        ("setting", words(&effects, |of| &of.1.setting)),
        ("in_force", words(&effects, |of| &of.0.in_force)),
        ("ruling", words(&effects, |of| &of.1.ruling)),
        ("kept", words(&effects, |of| of.0.kept.as_deref().unwrap_or_default())),
        ("metric", words(&effects, |of| &of.1.metric)),
        ("unit", words(&effects, |of| &of.1.unit)),
        ("decides", Arc::new(decides)),
        ("value_in_force", floats(|of| of.means[0])),
        ("value_with", floats(|of| of.means[1])),
        ("change_percent", floats(|of| of.change_percent[0])),
        ("low_percent", floats(|of| of.change_percent[1])),
        ("high_percent", floats(|of| of.change_percent[2])),
        ("predicted_in_force", floats(|of| of.predicted.map(|of| of[0]))),
        ("predicted_with", floats(|of| of.predicted.map(|of| of[1]))),
        ("predicted_low", floats(|of| of.predicted.map(|of| of[2]))),
        ("predicted_high", floats(|of| of.predicted.map(|of| of[3]))),
        ("percent_per_100ns", slopes(0)),
        ("low_percent_per_100ns", slopes(1)),
        ("high_percent_per_100ns", slopes(2)),
        ("decided_by", words(&effects, |of| &of.0.decided_by)),
        ("end", words(&effects, |of| &of.0.end)),
        ("blocks", numbers(&effects, |of| of.0.blocks)),
        ("took_ns", numbers(&effects, |of| of.0.took_ns)),
        ("alpha", reals(&effects, |of| Some(of.0.alpha))),
    ])
}

fn table(columns: Columns) -> Result<MemoryTable> {
    let fields: Vec<Field> =
        columns.iter().map(|(name, column)| Field::new(*name, column.data_type().clone(), true)).collect();
    let schema = Arc::new(Schema::new(fields));
    let batch = RecordBatch::try_new(schema.clone(), columns.into_iter().map(|of| of.1).collect())?;
    MemoryTable::new(schema, vec![batch])
}

/// What is empty is not known.
fn words<T>(rows: &[T], of: impl Fn(&T) -> &str) -> ArrayRef {
    Arc::new(rows.iter().map(|row| Some(of(row)).filter(|word| !word.is_empty())).collect::<StringArray>())
}

fn numbers<T>(rows: &[T], of: impl Fn(&T) -> u64) -> ArrayRef {
    Arc::new(rows.iter().map(|row| Some(of(row))).collect::<UInt64Array>())
}

fn reals<T>(rows: &[T], of: impl Fn(&T) -> Option<f64>) -> ArrayRef {
    Arc::new(rows.iter().map(of).collect::<Float64Array>())
}

fn days<T>(rows: &[T], of: impl Fn(&T) -> &str) -> Result<ArrayRef> {
    let day = |row| match ScalarValue::try_from_string(of(row).to_string(), &DataType::Date32)? {
        ScalarValue::Date32(day) => Ok(day),
        _ => Ok(None),
    };
    Ok(Arc::new(rows.iter().map(day).collect::<Result<Date32Array>>()?))
}
