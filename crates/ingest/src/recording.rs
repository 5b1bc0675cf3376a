//! A recording into a store, by two readings of it.

use crate::IngestError;
use exitscope_advice::{AdviceInput, Judgement};
use exitscope_analysis::{DurationStats, Selection, SumsByTime, TraceSink};
use exitscope_export::{ExportedVcpus, VcpuSurvey};
use exitscope_model::{BesideRow, Exit, HostSetting, LedgerLine, TraceInfo};
use exitscope_pipeline::{EarlierFiles, Judged, ReadOptions, ReadTrace, judgement, read_again, read_alone, reread};
use exitscope_store::{
    AddOutcome, AdvisedRow, PendingRecording, RecordingRow, RecordingStats, Store, StoreError, StoredSettingRow,
};
use exitscope_trace::{Input, SourceOptions, TraceError};
use exitscope_view::{AdviceRow, Coverage, TraceRow, thousands};
use sha2::{Digest, Sha256};

/// Bytes of a recording that are hashed at once.
const CHUNK: u64 = 1 << 20;

/// Where and when a recording was made.
#[derive(Clone, Debug)]
pub struct Provenance {
    /// The host; `None`: the one that it names.
    pub host: Option<String>,
    /// The day, in UTC, as 2026-11-22: recordings do not say.
    pub day: String,
}

/// What became of a recording.
#[derive(Clone, Debug)]
pub struct AddedRecording {
    /// As the store has it.
    pub row: RecordingRow,
    /// Whether it is new.
    pub outcome: AddOutcome,
    /// What affects its figures, as a report says it.
    pub warnings: Vec<String>,
}

/// The id of a recording: a hash of its bytes, unpacked.
pub fn recording_id(input: &Input) -> Result<String, TraceError> {
    let (mut hash, mut at) = (Sha256::new(), 0);
    while at < input.len() {
        let bytes = input.read_vec(at, CHUNK)?;
        if bytes.is_empty() {
            break;
        }
        hash.update(&bytes);
        at += bytes.len() as u64;
    }
    Ok(crate::id(hash))
}

/// Adds the recording `id`. `name` gives its subjects the names that were said beside it.
pub fn add_recording(
    store: &Store,
    input: &Input,
    id: String,
    Provenance { host, day }: Provenance,
    options: ReadOptions,
    name: impl FnOnce(&mut TraceInfo),
) -> Result<AddedRecording, IngestError> {
    let selection = Selection::default();
    let fresh = || (VcpuSurvey::new(&selection), AdviceInput::new(&selection));
    let (mut first, (survey, mut advice_input)) = read_alone(input, options, fresh)?;
    let row = row(&first);
    name(&mut first.info);
    let (begin, end) = first.span.unwrap_or_default();
    advice_input.end(begin, end, &first.vcpu_of);
    let (judgement, _) = judgement(Judged::all(&advice_input, &row.recorded_host(&first.info)), |trials| {
        reread(input, options, trials)
    })?;
    let mut vcpus = ExportedVcpus::default();
    vcpus.add(survey, &first.vcpu_of, &selection);
    vcpus.end(&first.info);
    if vcpus.beyond > 0 {
        return Err(IngestError::TooManyVcpus(thousands(vcpus.beyond)));
    }
    let host = host.or(Some(row.hostname).filter(|name| !name.is_empty()));
    let host = host.ok_or_else(|| IngestError::NoHost("the recording".to_string()))?;
    let rows: Vec<_> = vcpus.all().iter().map(|vcpu| vcpu.row.clone()).collect();
    let mut adding = store.add(&id, &host, &day, rows.clone())?;
    adding.name_subjects(first.info.subject_names());
    let mut passing = Passing { vcpus: &vcpus, adding, sums: SumsByTime::new(row.first_ns, row.last_ns), failed: None };
    let options = ReadOptions { source: SourceOptions { exit_info: true, ..options.source }, ..options };
    let trace = read_again(input, &mut EarlierFiles::default(), &first.first_reading(), options, &mut passing)?;
    let Passing { adding, sums, failed, .. } = passing;
    if let Some(error) = failed {
        return Err(error.into());
    }
    let facts = &advice_input.facts;
    let stats = RecordingStats {
        facts: sums.rows(&rows),
        halts: facts.halts.rows(&trace.info, DurationStats::spread).0,
        gangs: facts.gangs.vcores(None).iter().map(|vcore| vcore.row(&trace.info, DurationStats::spread)).collect(),
    };
    let mut warnings = warnings(&Coverage::of(&trace.ledger, trace.exits, trace.timed_exits));
    if sums.left_out() > 0 {
        let count = thousands(sums.left_out());
        warnings.push(format!("{count} exits are in no sum (reason_stats): it has too many vCPUs and reasons"));
    }
    let row = recording_row(&trace, id, host, day, advice(&judgement, &first.info));
    let outcome = adding.finish(&row, &stats)?;
    Ok(AddedRecording { row, outcome, warnings })
}

fn row(trace: &ReadTrace) -> TraceRow {
    TraceRow::of(trace.name.clone(), &trace.info, trace.hostname(), trace.ends, trace.ledger.events)
}

fn recording_row(trace: &ReadTrace, id: String, host: String, day: String, advice: Vec<AdvisedRow>) -> RecordingRow {
    let row = row(trace);
    let setting = |of: &HostSetting| StoredSettingRow {
        component: of.of.clone(),
        name: of.name.clone(),
        value: of.value.clone(),
    };
    RecordingRow {
        id,
        name: row.name,
        host,
        day,
        format: row.format,
        arch: row.arch,
        release: row.release,
        cpu: row.cpu,
        cpus: row.cpus,
        clock: row.clock,
        first_ns: row.first_ns,
        last_ns: row.last_ns,
        events: row.events,
        exits: trace.exits,
        timed: trace.timed_exits,
        lost: trace.ledger.get(LedgerLine::LostRecords),
        settings: trace.info.settings.iter().map(setting).collect(),
        advice,
    }
}

fn advice(judgement: &Judgement, info: &TraceInfo) -> Vec<AdvisedRow> {
    let row = |advice: AdviceRow| AdvisedRow {
        vm: (advice.scope == "vm").then_some(advice.scope_text),
        change: advice.change,
        gain_kind: advice.gain.kind.to_string(),
        headline_ns_per_s: Some(advice.gain.headline_ns_per_s),
        low_ns_per_s: advice.gain.low_ns_per_s,
        high_ns_per_s: advice.gain.high_ns_per_s,
        method: advice.gain.method.to_string(),
    };
    AdviceRow::all(judgement, info).into_iter().map(row).collect()
}

fn warnings(coverage: &Coverage) -> Vec<String> {
    let mut warnings: Vec<String> = coverage.damage().map(ToString::to_string).collect();
    match (coverage.exits, coverage.timed_exits) {
        (0, _) => warnings.push("there is no VM exit in it".to_string()),
        (_, 0) => warnings.push("no exit has a length, because no entry into a guest follows one".to_string()),
        _ => {}
    }
    warnings
}

/// Passes exits on to the store.
struct Passing<'a> {
    vcpus: &'a ExportedVcpus,
    adding: PendingRecording<'a>,
    sums: SumsByTime,
    failed: Option<StoreError>,
}

impl TraceSink for Passing<'_> {
    fn absorb(&mut self, exit: &Exit) {
        let Some(vcpu) = self.vcpus.place(&exit.who).filter(|_| self.failed.is_none()) else { return };
        self.sums.absorb(vcpu, exit);
        self.failed = self.adding.absorb(vcpu, exit).err();
    }

    fn is_full(&self) -> bool {
        self.failed.is_some()
    }

    fn beside_row(&mut self, _row: BesideRow<'_>) {}
}
