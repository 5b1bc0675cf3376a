//! `exitscope store`: recordings and trials at rest.
//!
//! ```text
//! first reading ─┬─► ExportedVcpus ─► second reading ─┬─► exits ─┐
//!                │                                    └─► facts ─┼─► Store
//!                └─► AdviceInput ─► advice ──────────────────────┘
//! ```

use crate::cli::{EventsFormat, StoreAddArgs, StoreCommand, StoreListArgs};
use crate::devices;
use crate::read;
use crate::report::terminal_style;
use crate::stored_trials;
use crate::{Outcome, write_json};
use anyhow::bail;
use chrono::{DateTime, NaiveDate, Utc};
use exitscope_analysis::advice::{AdviceInput, Judgement};
use exitscope_analysis::{DurationStats, Selection, SumsByTime, TraceSink};
use exitscope_export::{ExportedVcpus, VcpuSurvey};
use exitscope_model::encode::line;
use exitscope_model::{Exit, HostSetting, LedgerLine, TraceInfo};
use exitscope_pipeline::{EarlierFiles, ReadOptions, judgement, read_alone, read_with_vcpus, reread};
use exitscope_store::{
    AddOutcome, AdvisedRow, Compacted, DamagedFile, PendingRecording, RecordingRow, RecordingStats, Store, StoreCheck,
    StoreError, StoredEffectRow, StoredSettingRow, StoredTrialRow,
};
use exitscope_trace::{EventFilter, Input, SourceOptions};
use exitscope_view::{
    AdviceRow, Coverage, Page, PageSection, Table, TableColumn, TrialReport, plural, thousands, write_page,
};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::time::{Duration, SystemTime};

/// Bytes of a recording that are hashed at once.
const CHUNK: u64 = 1 << 20;

/// Longer than any add or query takes: what is left of adds that were stopped is older, and whoever opened the store before
/// files were joined or dropped has its answer.
const ABANDONED: Duration = Duration::from_secs(24 * 3600);

pub fn run(command: &StoreCommand, out: &mut dyn Write) -> anyhow::Result<Outcome> {
    match command {
        StoreCommand::Add(args) => add(args, out),
        StoreCommand::List(args) => list(args, out),
        StoreCommand::Compact { dir } => {
            let store = Store::open(dir)?;
            let Compacted { before, after, damaged } = store.compact()?;
            let removed = store.clean(ABANDONED)?;
            writeln!(out, "{before} files became {after}; {removed} that belong to nothing were removed")?;
            for DamagedFile { path, why } in &damaged {
                writeln!(out, "{}", line(&format!("damaged, and left as it is: {path}: {why}")))?;
            }
            Ok(if damaged.is_empty() { Outcome::Fine } else { Outcome::Findings })
        }
        StoreCommand::Drop { dir, before, host } => {
            let (runs, trials) = Store::open(dir)?.drop_before(&before.to_string(), host.as_deref())?;
            let trials = if trials > 0 { format!(" and {}", counted(trials, "trial")) } else { String::new() };
            let runs = counted(runs, "recording");
            writeln!(out, "{runs}{trials} dropped; their files go with the first `compact` a day later")?;
            Ok(Outcome::Fine)
        }
        StoreCommand::Check { dir } => {
            let StoreCheck { whole, damaged, unlisted } = Store::open(dir)?.check()?;
            writeln!(out, "{whole} files are as they should be")?;
            for DamagedFile { path, why } in &damaged {
                writeln!(out, "{}", line(&format!("damaged: {path}: {why}")))?;
            }
            for path in &unlisted {
                writeln!(out, "{}", line(&format!("not of the store, or left over: {path}")))?;
            }
            Ok(if damaged.is_empty() { Outcome::Fine } else { Outcome::Findings })
        }
    }
}

/// Adds one file after the other. One that cannot be read does not keep the others out; what the store itself cannot do ends
/// it.
fn add(args: &StoreAddArgs, out: &mut dyn Write) -> anyhow::Result<Outcome> {
    let store = Store::make(&args.dir)?;
    let mut there = store.contents()?.runs;
    let mut outcome = Outcome::Fine;
    for file in &args.files {
        match add_file(args, &store, file, &mut there) {
            Ok(Done { says, warnings }) => {
                writeln!(out, "{}", line(&format!("{}: {says}", file.display())))?;
                out.flush()?;
                for warning in warnings {
                    say!("warning: {}: {warning}", file.display());
                }
            }
            Err(error) if error.downcast_ref::<StoreError>().is_some() => {
                return Err(error.context(file.display().to_string()));
            }
            Err(error) => {
                say!("{}: {error:#}", file.display());
                outcome = Outcome::Failed;
            }
        }
    }
    Ok(outcome)
}

/// What became of a file, and what affects its figures, as `report` says it.
struct Done {
    says: String,
    warnings: Vec<String>,
}

fn add_file(
    args: &StoreAddArgs,
    store: &Store,
    file: &Path,
    there: &mut BTreeMap<String, RecordingRow>,
) -> anyhow::Result<Done> {
    if stored_trials::are_in(file) {
        let (says, warnings) = stored_trials::add_file(store, file, args.host.as_deref())?;
        return Ok(Done { says, warnings });
    }
    let input = read::open_one(file, &args.clock)?;
    let id = hash(&input)?;
    if let Some(run) = there.get(&id) {
        let says = format!("already there, of host {} and day {}", run.host, run.day);
        return Ok(Done { says, warnings: Vec::new() });
    }
    let (run, added, warnings) = add_one(args, store, file, &input, id)?;
    let says = match added {
        AddOutcome::New { exits, sums } => {
            let each = exits as f64 / run.exits.max(1) as f64;
            format!(
                "{} exits of host {} and day {}, {} KB ({each:.1} bytes an exit, and {} KB of sums)",
                thousands(run.exits),
                run.host,
                run.day,
                exits.div_ceil(1000),
                sums.div_ceil(1000),
            )
        }
        AddOutcome::Already => "somebody else added it just now".to_string(),
    };
    there.insert(run.id.clone(), run);
    Ok(Done { says, warnings })
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

fn add_one(
    args: &StoreAddArgs,
    store: &Store,
    file: &Path,
    input: &Input,
    id: String,
) -> anyhow::Result<(RecordingRow, AddOutcome, Vec<String>)> {
    let selection = Selection::default();
    let options = read::options(&args.clock, EventFilter::Timed, &selection);
    let fresh = || (VcpuSurvey::new(&selection), AdviceInput::new(&selection));
    let devices = devices::read(&args.names)?;
    let (mut first, (survey, mut advice_input)) = read_alone(input, options, fresh)?;
    let row = read::row(&first);
    devices::name(&mut first.info, devices.as_ref());
    let (begin, end) = first.span.unwrap_or_default();
    advice_input.end(begin, end, &first.vcpu_of);
    let (judgement, _) =
        judgement(&advice_input, &row.recorded_host(&first.info), |trials| reread(input, options, trials))?;
    let mut lanes = ExportedVcpus::default();
    lanes.add(survey, &first.vcpu_of, &selection);
    lanes.end(&first.info);
    if lanes.beyond > 0 {
        bail!("{} exits are of more vCPUs than a recording can have", thousands(lanes.beyond));
    }
    let host = match &args.host {
        Some(host) => host.clone(),
        None if row.hostname.is_empty() => {
            bail!("the recording does not say of which host it is: add --host NAME")
        }
        None => row.hostname.clone(),
    };
    let day = args.day.map_or_else(|| day_of(file), Ok)?.to_string();
    let vcpus: Vec<_> = lanes.all().iter().map(|lane| lane.row.clone()).collect();
    let mut adding = store.add(&id, &host, &day, vcpus.clone())?;
    adding.name_subjects(first.info.subject_names());
    let mut passing = Passing { lanes: &lanes, adding, sums: SumsByTime::new(row.first_ns, row.last_ns), failed: None };
    let options = ReadOptions { source: SourceOptions { exit_info: true, ..options.source }, ..options };
    let trace = read_with_vcpus(input, &mut EarlierFiles::default(), &first.vcpu_of, options, &mut passing)?;
    let Passing { adding, sums, failed, .. } = passing;
    if let Some(error) = failed {
        return Err(error.into());
    }
    let facts = &advice_input.facts;
    let stats = RecordingStats {
        facts: sums.rows(&vcpus),
        halts: facts.halts.rows(&trace.info, DurationStats::spread).0,
        gangs: facts.gangs.vcores(None).iter().map(|vcore| vcore.row(&trace.info, DurationStats::spread)).collect(),
    };
    let mut warnings = warnings(&Coverage::of(&trace.ledger, trace.exits, trace.timed_exits));
    if sums.left_out() > 0 {
        let count = thousands(sums.left_out());
        warnings.push(format!("{count} exits are in no sum (reason_stats): it has too many vCPUs and reasons"));
    }
    let row = read::row(&trace);
    let setting = |of: &HostSetting| StoredSettingRow {
        component: of.of.clone(),
        name: of.name.clone(),
        value: of.value.clone(),
    };
    let run = RecordingRow {
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
        advice: advice(&judgement, &first.info),
    };
    let added = adding.finish(&run, &stats)?;
    Ok((run, added, warnings))
}

fn advice(judgement: &Judgement, info: &TraceInfo) -> Vec<AdvisedRow> {
    let row = |advice: AdviceRow| AdvisedRow {
        vm: (advice.scope == "vm").then_some(advice.scope_text),
        change: advice.change,
        gain_kind: advice.gain.kind.to_string(),
        low_ns_per_s: advice.gain.low_ns_per_s,
        high_ns_per_s: advice.gain.high_ns_per_s,
        method: advice.gain.method.to_string(),
    };
    AdviceRow::all(judgement, info).into_iter().map(row).collect()
}

/// Passes exits on to the store.
struct Passing<'a> {
    lanes: &'a ExportedVcpus,
    adding: PendingRecording<'a>,
    sums: SumsByTime,
    failed: Option<StoreError>,
}

impl TraceSink for Passing<'_> {
    fn absorb(&mut self, exit: &Exit) {
        let Some(lane) = self.lanes.place(&exit.who).filter(|_| self.failed.is_none()) else { return };
        self.sums.absorb(lane, exit);
        self.failed = self.adding.absorb(lane, exit).err();
    }

    fn is_full(&self) -> bool {
        self.failed.is_some()
    }
}

/// A hash of a recording's bytes, unpacked.
fn hash(input: &Input) -> anyhow::Result<String> {
    let (mut hash, mut at) = (Sha256::new(), 0);
    while at < input.len() {
        let bytes = input.read_vec(at, CHUNK)?;
        if bytes.is_empty() {
            break;
        }
        hash.update(&bytes);
        at += bytes.len() as u64;
    }
    Ok(hash.finalize().iter().take(16).map(|byte| format!("{byte:02x}")).collect())
}

/// The day on which a file was last written, in UTC: recordings do not say.
fn day_of(file: &Path) -> anyhow::Result<NaiveDate> {
    let written = match file.as_os_str() == "-" {
        true => SystemTime::now(),
        false => file.metadata()?.modified()?,
    };
    Ok(DateTime::<Utc>::from(written).date_naive())
}

fn counted(count: usize, what: &str) -> String {
    let count = count as u64;
    format!("{} {}", thousands(count), plural(count, what))
}

/// The store in a directory or a bucket, to which trials will be added; made if there is none.
pub fn for_trials(dir: &Path) -> anyhow::Result<()> {
    Ok(Store::make(dir).map(drop)?)
}

/// Adds a trial.
pub fn add_trial(dir: &Path, trial: &TrialReport) -> anyhow::Result<()> {
    stored_trials::add(&Store::make(dir)?, std::slice::from_ref(trial)).map(drop)
}

fn list(args: &StoreListArgs, out: &mut dyn Write) -> anyhow::Result<Outcome> {
    let contents = Store::open(&args.dir)?.contents()?;
    if args.format == EventsFormat::Json {
        for run in contents.runs.values() {
            write_json(run, out)?;
        }
        return Ok(Outcome::Fine);
    }
    let mut runs: Vec<&RecordingRow> = contents.runs.values().collect();
    runs.sort_by(|a, b| (&a.host, &a.day, &a.id).cmp(&(&b.host, &b.day, &b.id)));
    let column = |title: &'static str, names, rank| TableColumn { title: title.into(), names, rank };
    let table = Table {
        columns: vec![
            column("host", true, 0),
            column("day", true, 0),
            column("recording", true, 3),
            column("kernel", true, 1),
            column("CPU", true, 4),
            column("exits", false, 0),
            column("lost", false, 2),
            column("id", true, 1),
        ],
        rows: runs
            .iter()
            .map(|run| {
                let name = Path::new(&run.name).file_name().map_or(run.name.clone(), |name| name.display().to_string());
                let (exits, lost) = (thousands(run.exits), thousands(run.lost));
                let id = run.id.get(..12).unwrap_or(&run.id).to_string();
                vec![run.host.clone(), run.day.clone(), name, run.release.clone(), run.cpu.clone(), exits, lost, id]
            })
            .collect(),
    };
    let exits = thousands(runs.iter().map(|run| run.exits).sum());
    let bytes = contents.pieces.values().map(|piece| piece.bytes).sum::<u64>().div_ceil(1000);
    let hosts = runs.iter().map(|run| &run.host).collect::<std::collections::BTreeSet<_>>().len();
    let title = format!(
        "{} of {hosts} hosts: {exits} exits, {} KB in {} files",
        counted(runs.len(), "recording"),
        thousands(bytes),
        contents.pieces.len()
    );
    let mut sections = vec![PageSection { title, table: Some(table), ..PageSection::default() }];
    if !contents.trials.is_empty() {
        sections.push(trials(contents.trials.values()));
    }
    write_page(&Page { sections }, terminal_style(), out)?;
    Ok(Outcome::Fine)
}

/// Trials, a row for each setting that was compared, by what decided.
fn trials<'a>(trials: impl ExactSizeIterator<Item = &'a StoredTrialRow>) -> PageSection {
    let title = counted(trials.len(), "trial");
    let columns = ["host", "began", "setting", "instead of", "change", "ruling"];
    let columns = columns.iter().zip([0, 2, 0, 1, 0, 0]).map(|(title, rank)| TableColumn {
        title: (*title).into(),
        names: *title != "change",
        rank,
    });
    let mut trials: Vec<&StoredTrialRow> = trials.collect();
    trials.sort_by(|a, b| (&a.host, &a.began).cmp(&(&b.host, &b.began)));
    let row = |trial: &StoredTrialRow, effect: &StoredEffectRow| {
        let change = effect.change_percent[0].map_or("-".to_string(), |percent| format!("{percent:+.2}%"));
        let ruling = effect.ruling.replace('_', " ");
        vec![trial.host.clone(), trial.began.clone(), effect.setting.clone(), trial.in_force.clone(), change, ruling]
    };
    let decided = |trial: &'a StoredTrialRow| {
        trial.effects.iter().filter(|effect| effect.decides).map(move |effect| row(trial, effect))
    };
    let rows = trials.into_iter().flat_map(decided).collect();
    PageSection { title, table: Some(Table { columns: columns.collect(), rows }), ..PageSection::default() }
}
