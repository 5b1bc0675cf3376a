//! The log of a store: what belongs to it.

use crate::StoreError;
use crate::error::DamagedFile;
use crate::location::{READS, StoreLocation};
use crate::seal::{self, Seal};
use object_store::ObjectMeta;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::time::SystemTime;

/// The schema of entries and files. A higher number means that this version cannot read them.
pub const SCHEMA: &str = "exitscope.store/1";

/// Where entries are.
pub(crate) const LOG: &str = "_log";

/// One recording in the store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordingRow {
    /// Hash of the recording's bytes: the same recording is not added twice.
    pub id: String,
    /// The recording's name when it was added.
    pub name: String,
    /// The host.
    pub host: String,
    /// The day of the recording, in UTC, as 2026-11-22.
    pub day: String,
    /// Its format.
    pub format: String,
    /// Machine architecture; empty if unknown.
    pub arch: String,
    /// Kernel release; empty if unknown.
    pub release: String,
    /// The CPU's model; empty if unknown.
    pub cpu: String,
    /// CPUs of the machine; 0 if unknown.
    pub cpus: u32,
    /// The clock's name; empty if unknown.
    pub clock: String,
    /// The first event, in nanoseconds on that clock.
    pub first_ns: u64,
    /// The last event.
    pub last_ns: u64,
    /// Events read.
    pub events: u64,
    /// Exits.
    pub exits: u64,
    /// Exits of which both ends were seen.
    pub timed: u64,
    /// Records that the recorder lost.
    pub lost: u64,
    /// What was in force on the machine.
    pub settings: Vec<StoredSettingRow>,
    /// What to change; none in entries of before it was kept.
    #[serde(default)]
    pub advice: Vec<AdvisedRow>,
}

/// What to change on a machine, by a recording of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AdvisedRow {
    /// The change that was advised.
    pub change: String,
    /// The VM; none if it is the host.
    pub vm: Option<String>,
    /// Of what it wins, as advice in JSON names it: `exits`, `wake_ups`, `steal`, …
    pub gain_kind: String,
    /// What it usually wins, in each second; none in entries of before it was kept.
    #[serde(default)]
    pub headline_ns_per_s: Option<u64>,
    /// At least so much, in each second.
    pub low_ns_per_s: u64,
    /// Upper bound of the gain, in nanoseconds per second.
    pub high_ns_per_s: u64,
    /// How that was found out: `replayed`, `counted`, `simulated`, `published`.
    pub method: String,
}

/// What was in force on a machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredSettingRow {
    /// The kernel module, `host`, or `exitscope`.
    pub component: String,
    /// Its name.
    pub name: String,
    /// What it was.
    pub value: String,
}

/// A trial of settings on a host, or of delays of its exits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StoredTrialRow {
    /// Of which host it is, when it began and what its order was drawn with, as a hash: the same trial is not added twice.
    pub id: String,
    /// The host.
    pub host: String,
    /// The day on which it began, in UTC, as 2026-11-22.
    pub day: String,
    /// When it began, as RFC 3339 writes it.
    pub began: String,
    /// The setting in force.
    pub in_force: String,
    /// What the first metric is, in words.
    pub decided_by: String,
    /// `decided`, `time_over`, `aborted` or `stopped`.
    pub end: String,
    /// Whole blocks.
    pub blocks: u64,
    /// How long its turns took.
    pub took_ns: u64,
    /// The chance of any false alarm, at most.
    pub alpha: f64,
    /// The setting that was left in force, if it is another one.
    pub kept: Option<String>,
    /// Whether its settings are delays of exits, which a slope judges.
    #[serde(default)]
    pub of_delays: bool,
    /// What 100 ns less in each exit are worth, in per cent of the first metric, with its interval; of delays alone.
    pub percent_per_100ns: [Option<f64>; 3],
    /// A row for each setting but the one in force, and each metric.
    pub effects: Vec<StoredEffectRow>,
}

/// What a trial found of a metric under a setting.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StoredEffectRow {
    /// The setting.
    pub setting: String,
    /// `better`, `worse`, `no_difference` or `undecided`; of delays, `found`, `negligible` or `undecided`.
    pub ruling: String,
    /// The metric.
    pub metric: String,
    /// `ns`, `percent`, `per_second` or `number`.
    pub unit: String,
    /// Whether the ruling follows from it.
    pub decides: bool,
    /// Mean of the turns of the setting in force, and of this one.
    pub means: [Option<f64>; 2],
    /// The change in per cent of the value in force, with its interval.
    pub change_percent: [Option<f64>; 3],
    /// What is in force as it was recorded, what was predicted of the value in force that was measured, and its interval; none if
    /// nothing was.
    pub predicted: Option<[f64; 4]>,
}

/// A Parquet file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DataFile {
    /// One of [`TABLES`](crate::TABLES).
    pub table: String,
    /// Below the store.
    pub path: String,
    /// The host.
    pub host: String,
    /// The day.
    pub day: String,
    /// Recordings of which it has rows.
    pub runs: Vec<String>,
    /// Rows.
    pub rows: u64,
    /// Bytes.
    pub bytes: u64,
    /// Their hash; empty in entries of before it was kept.
    #[serde(default)]
    pub sha256: String,
}

/// One change.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct LogEntry {
    /// [`SCHEMA`].
    pub schema: String,
    /// What was done: `add`, `compact`, `drop`, or `all`, which says everything and stands for all entries before.
    pub what: String,
    /// Recordings that belong to the store from now on.
    pub runs: Vec<RecordingRow>,
    /// Files that do.
    pub add: Vec<DataFile>,
    /// Paths of files that do no longer.
    pub remove: Vec<String>,
    /// Recordings and trials that do no longer.
    pub forget: Vec<String>,
    /// Trials that belong to the store from now on; none in entries of before they were kept.
    #[serde(default)]
    pub trials: Vec<StoredTrialRow>,
}

/// What belongs to a store.
#[derive(Clone, Debug, Default)]
pub struct StoreContents {
    /// The newest entry's number; 0 if there is none.
    pub number: u64,
    /// Recordings by id.
    pub runs: BTreeMap<String, RecordingRow>,
    /// Files by path.
    pub pieces: BTreeMap<String, DataFile>,
    /// Trials by id.
    pub trials: BTreeMap<String, StoredTrialRow>,
    /// Entries that were read.
    pub entries: u64,
    /// Those among them that have no hash of their own, as earlier versions wrote them.
    pub unsealed: u64,
}

/// What a check of every entry found, also of those for which a later one stands.
#[derive(Debug, Default)]
pub(crate) struct LogCheck {
    /// Entries that are as they were written.
    pub(crate) whole: u64,
    /// Entries without a hash, which cannot be checked.
    pub(crate) unsealed: u64,
    /// Entries that are not as they were written.
    pub(crate) damaged: Vec<DamagedFile>,
}

/// What a log says of before.
#[derive(Debug, Default)]
pub(crate) struct OldLog {
    /// Paths of entries for which a later one has stood for long.
    pub(crate) superseded: Vec<String>,
    /// Paths of files that were removed from the store since.
    pub(crate) removed_since: BTreeSet<String>,
}

impl StoreContents {
    /// Reads the log.
    pub fn read(place: &StoreLocation) -> Result<StoreContents, StoreError> {
        let found: Vec<(u64, String)> =
            entries(place)?.into_iter().rev().map(|(number, file)| (number, file.location.to_string())).collect();
        // Backwards to an entry that says everything, then forwards.
        let mut entries: Vec<(u64, LogEntry)> = Vec::new();
        let mut unsealed = 0;
        'read: for some in found.chunks(READS) {
            let read = place.read_each(some.iter().map(|(_, path)| (path.as_str(), None)));
            for ((number, path), bytes) in some.iter().zip(read) {
                if entries.last().is_some_and(|(later, _)| later - 1 != *number) {
                    return Err(StoreError::Missing { entry: path_of(number + 1) });
                }
                let (entry, seal) = parse(path, &bytes?)?;
                unsealed += u64::from(seal == Seal::None);
                let is_all = entry.what == "all";
                entries.push((*number, entry));
                if is_all {
                    break 'read;
                }
            }
        }
        if let Some((number, entry)) = entries.last()
            && *number != 1
            && entry.what != "all"
        {
            return Err(StoreError::Missing { entry: path_of(number - 1) });
        }
        let mut contents = StoreContents { entries: entries.len() as u64, unsealed, ..StoreContents::default() };
        for (number, entry) in entries.into_iter().rev() {
            contents.take(entry);
            contents.number = number;
        }
        Ok(contents)
    }

    /// Writes the next entry; whether nobody else had written it.
    pub fn commit(&self, place: &StoreLocation, entry: &LogEntry) -> Result<bool, StoreError> {
        let path = path_of(self.number + 1);
        let bytes = serde_json::to_vec(entry)
            .map_err(|error| StoreError::Entry { entry: path.clone(), why: error.to_string() })?;
        place.create(&path, seal::sealed(&bytes))
    }

    /// An entry that says everything.
    pub fn all(&self) -> LogEntry {
        LogEntry {
            what: "all".to_string(),
            runs: self.runs.values().cloned().collect(),
            add: self.pieces.values().cloned().collect(),
            trials: self.trials.values().cloned().collect(),
            ..LogEntry::new("all")
        }
    }

    /// What the log says of before: an entry is written when what it says is so, and never changed, so that the time of its
    /// file tells since when it is so.
    pub(crate) fn old_log(&self, place: &StoreLocation, until: SystemTime) -> Result<OldLog, StoreError> {
        let first = self.number - self.entries.saturating_sub(1);
        let entries = entries(place)?;
        let is_old = |file: &ObjectMeta| SystemTime::from(file.last_modified) <= until;
        // As long as the entry that says everything is new, those before it tell when files were removed.
        let stands = entries.iter().any(|(number, file)| *number == first && is_old(file));
        let mut old = OldLog::default();
        let mut new = Vec::new();
        for (number, file) in &entries {
            let path = file.location.to_string();
            match () {
                _ if stands && *number < first => old.superseded.push(path),
                _ if is_old(file) => {}
                _ => new.push(path),
            }
        }
        for some in new.chunks(READS) {
            let read = place.read_each(some.iter().map(|path| (path.as_str(), None)));
            for (path, bytes) in some.iter().zip(read) {
                old.removed_since.extend(parse(path, &bytes?)?.0.remove);
            }
        }
        Ok(old)
    }

    fn take(&mut self, entry: LogEntry) {
        if entry.what == "all" {
            self.runs.clear();
            self.pieces.clear();
            self.trials.clear();
        }
        for path in entry.remove {
            self.pieces.remove(&path);
        }
        for id in entry.forget {
            self.runs.remove(&id);
            self.trials.remove(&id);
        }
        self.runs.extend(entry.runs.into_iter().map(|run| (run.id.clone(), run)));
        self.pieces.extend(entry.add.into_iter().map(|piece| (piece.path.clone(), piece)));
        self.trials.extend(entry.trials.into_iter().map(|trial| (trial.id.clone(), trial)));
    }
}

impl LogEntry {
    /// An entry that changes nothing yet.
    pub fn new(what: &str) -> LogEntry {
        LogEntry { schema: SCHEMA.to_string(), what: what.to_string(), ..LogEntry::default() }
    }
}

/// The number of the newest entry; 0 if there is none.
pub(crate) fn newest(place: &StoreLocation) -> Result<u64, StoreError> {
    Ok(entries(place)?.last().map_or(0, |entry| entry.0))
}

/// The files of entries, by their numbers.
fn entries(place: &StoreLocation) -> Result<Vec<(u64, ObjectMeta)>, StoreError> {
    let files = place.list(LOG)?.into_iter();
    let mut entries: Vec<(u64, ObjectMeta)> =
        files.filter_map(|file| Some((file.location.filename().and_then(number_of)?, file))).collect();
    entries.sort_by_key(|entry| entry.0);
    Ok(entries)
}

/// Reads every entry.
pub(crate) fn check(place: &StoreLocation) -> Result<LogCheck, StoreError> {
    let mut checked = LogCheck::default();
    let paths: Vec<String> = entries(place)?.into_iter().map(|entry| entry.1.location.to_string()).collect();
    for some in paths.chunks(READS) {
        let read = place.read_each(some.iter().map(|path| (path.as_str(), None)));
        for (path, bytes) in some.iter().zip(read) {
            match parse(path, &bytes?) {
                Ok((_, Seal::Intact)) => checked.whole += 1,
                Ok((_, Seal::None)) => checked.unsealed += 1,
                Err(StoreError::Entry { why, .. }) => checked.damaged.push(DamagedFile { path: path.clone(), why }),
                Err(error) => return Err(error),
            }
        }
    }
    Ok(checked)
}

fn parse(path: &str, bytes: &[u8]) -> Result<(LogEntry, Seal), StoreError> {
    /// Of a later version, nothing else need be as it is here.
    #[derive(Deserialize)]
    struct Head {
        schema: String,
    }
    let damaged = |why: String| StoreError::Entry { entry: path.to_string(), why };
    let seal = seal::check(bytes).map_err(|why| damaged(why.to_string()))?;
    let head: Head = serde_json::from_slice(bytes).map_err(|error| damaged(error.to_string()))?;
    if head.schema != SCHEMA {
        return Err(StoreError::Newer { entry: path.to_string(), schema: head.schema });
    }
    Ok((serde_json::from_slice(bytes).map_err(|error| damaged(error.to_string()))?, seal))
}

fn path_of(number: u64) -> String {
    format!("{LOG}/{number:020}.json")
}

fn number_of(name: &str) -> Option<u64> {
    name.strip_suffix(".json").filter(|digits| digits.len() == 20)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With the fields that all entries have had; what came later has to have a default.
    const FIRST: &str = r#"{"schema": "exitscope.store/1", "what": "add", "runs": [{"id": "1f", "name": "perf.data", "host": "a",
        "day": "2026-11-22", "format": "perf.data", "arch": "x86_64", "release": "6.1.0", "cpu": "", "cpus": 4, "clock": "",
        "first_ns": 1, "last_ns": 2, "events": 3, "exits": 4, "timed": 5, "lost": 6,
        "settings": [{"component": "kvm", "name": "halt_poll_ns", "value": "200000"}]}],
        "add": [], "remove": [], "forget": []}"#;

    #[test]
    fn entries_of_the_first_version_are_read() {
        let (entry, seal) = parse("1.json", FIRST.as_bytes()).unwrap();
        assert_eq!(seal, Seal::None);
        let run = &entry.runs[0];
        assert_eq!((run.host.as_str(), run.lost, run.settings.len(), run.advice.len()), ("a", 6, 1, 0));
        assert_eq!(entry.trials, []);
    }

    #[test]
    fn advice_of_before_headlines_were_kept_has_none() {
        let row = r#"{"change": "c", "vm": null, "gain_kind": "exits", "low_ns_per_s": 1, "high_ns_per_s": 3, "method": "counted"}"#;
        let old: AdvisedRow = serde_json::from_str(row).unwrap();
        assert_eq!((old.headline_ns_per_s, old.low_ns_per_s, old.high_ns_per_s), (None, 1, 3));
    }
}
