//! `exitscope store`: recordings and trials at rest.

use crate::cli::{EventsFormat, StoreAddArgs, StoreCommand, StoreListArgs};
use crate::devices::{self, DeviceList};
use crate::read::RecordingAccess;
use crate::terminal::terminal_style;
use crate::{Outcome, write_json};
use anyhow::{Context, bail};
use chrono::{DateTime, NaiveDate, Utc};
use exitscope_analysis::Selection;
use exitscope_ingest::{
    AddedRecording, AddedTrials, IngestError, Provenance, add_recording, add_trials, add_trials_of, holds_trials,
    recording_id,
};
use exitscope_model::TraceInfo;
use exitscope_model::encode::line;
use exitscope_pipeline::AdviceError;
use exitscope_store::{
    AddOutcome, Compacted, DamagedFile, FileCheck, RecordingRow, Store, StoreCheck, StoredEffectRow, StoredTrialRow,
    TABLES,
};
use exitscope_trace::EventFilter;
use exitscope_view::{
    Page, PageSection, Table, TableColumn, TrialReport, plural, ruling_in_words, thousands, write_page,
};
use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::time::{Duration, SystemTime};

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
            writeln!(out, "{runs}{trials} dropped; the first `compact` a day later removes their files")?;
            Ok(Outcome::Fine)
        }
        StoreCommand::Check { dir } => check(&Store::open(dir)?.check()?, out),
        StoreCommand::Files { dir, table, no_verify } => {
            let check = if *no_verify { FileCheck::Ends } else { FileCheck::Hashes };
            let Some(files) = Store::open(dir)?.files(table, check)? else {
                bail!("no table {table} has files; those that have are {}", TABLES.join(", "));
            };
            // As they are, for other programs.
            files.iter().try_for_each(|file| writeln!(out, "{file}"))?;
            Ok(Outcome::Fine)
        }
    }
}

fn check(found: &StoreCheck, out: &mut dyn Write) -> anyhow::Result<Outcome> {
    let StoreCheck { whole, entries, unsealed, unhashed, damaged, is_log_damaged, unlisted } = found;
    if *is_log_damaged {
        writeln!(out, "the files are not checked: a damaged entry of the log hides which belong to the store")?;
    } else {
        writeln!(out, "{whole} files are intact")?;
    }
    writeln!(out, "{entries} entries of the log are intact")?;
    if *unhashed > 0 {
        writeln!(out, "{unhashed} of these files have no hash in the log: their rows can be read, no more is checked")?;
    }
    if *unsealed > 0 {
        writeln!(out, "{unsealed} entries of the log have no hash and are not checked; `compact` writes one that has")?;
    }
    for DamagedFile { path, why } in damaged {
        writeln!(out, "{}", line(&format!("damaged: {path}: {why}")))?;
    }
    for path in unlisted {
        writeln!(out, "{}", line(&format!("not of the store, or left over: {path}")))?;
    }
    Ok(if damaged.is_empty() { Outcome::Fine } else { Outcome::Findings })
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
            Err(error) if matches!(error.downcast_ref(), Some(IngestError::Store(_))) => {
                return Err(error.context(file.display().to_string()));
            }
            Err(error) => {
                say!("{error:#}");
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

/// The error with the file's name, if it does not name the file itself.
fn of_file(error: IngestError, file: &Path) -> anyhow::Error {
    let name = || file.display().to_string();
    match error {
        // `add` names it, or another file is in the way.
        IngestError::Store(_) | IngestError::Read(_) | IngestError::Advice(AdviceError::Read(_)) => error.into(),
        error => anyhow::Error::new(error).context(name()),
    }
}

/// Adds a file. Errors name it, but for those of the store.
fn add_file(
    args: &StoreAddArgs,
    store: &Store,
    file: &Path,
    there: &mut BTreeMap<String, RecordingRow>,
) -> anyhow::Result<Done> {
    if holds_trials(file) {
        let AddedTrials { new, there, unread } =
            add_trials_of(store, file, args.host.as_deref()).map_err(|error| of_file(error, file))?;
        let says = format!("{}, {} already there", counted(new, "trial"), thousands(there as u64));
        let warning = (unread > 0).then(|| {
            let are = if unread == 1 { "is" } else { "are" };
            format!("{unread} of its lines {are} no trial of this version")
        });
        return Ok(Done { says, warnings: warning.into_iter().collect() });
    }
    let access = RecordingAccess::of(&args.clock);
    let input = access.open_one(file)?;
    let id = recording_id(&input)?;
    if let Some(run) = there.get(&id) {
        let says = format!("already there, of host {} and day {}", run.host, run.day);
        return Ok(Done { says, warnings: Vec::new() });
    }
    let options = access.options(EventFilter::Used, &Selection::default());
    let devices = DeviceList::of(&args.names).into_devices()?;
    let made = Provenance { host: args.host.clone(), day: args.day.map_or_else(|| day_of(file), Ok)?.to_string() };
    let name = |info: &mut TraceInfo| devices::name(info, devices.as_ref());
    let added = add_recording(store, &input, id, made, options, name).map_err(|error| of_file(error, file))?;
    let AddedRecording { row: run, outcome, warnings } = added;
    let says = match outcome {
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
        AddOutcome::Already => "another process added it just now".to_string(),
    };
    there.insert(run.id.clone(), run);
    Ok(Done { says, warnings })
}

/// The day on which a file was last written, in UTC: recordings do not say.
fn day_of(file: &Path) -> anyhow::Result<NaiveDate> {
    let written = match file.as_os_str() == "-" {
        true => SystemTime::now(),
        false => file.metadata().and_then(|about| about.modified()).with_context(|| file.display().to_string())?,
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
    Ok(add_trials(&Store::make(dir)?, std::slice::from_ref(trial)).map(drop)?)
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
    let recordings = PageSection { title, table: Some(table), ..PageSection::default() };
    let trials = (!contents.trials.is_empty()).then(|| trials(contents.trials.values()));
    let sections = match trials {
        Some(trials) if runs.is_empty() => vec![trials],
        trials => std::iter::once(recordings).chain(trials).collect(),
    };
    write_page(&Page { sections }, terminal_style(), out)?;
    Ok(Outcome::Fine)
}

/// Trials, by what decided: a row for each setting that was compared, and one for all the delays of a trial.
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
    let row = |trial: &StoredTrialRow, setting: String, change: Option<String>, ruling: &str| {
        let (change, ruling) = (change.unwrap_or("-".to_string()), ruling_in_words(ruling, Some(&trial.end)));
        vec![trial.host.clone(), trial.began.clone(), setting, trial.in_force.clone(), change, ruling]
    };
    let decided = |trial: &'a StoredTrialRow| {
        let effects: Vec<&StoredEffectRow> = trial.effects.iter().filter(|effect| effect.decides).collect();
        match &effects[..] {
            [first, ..] if trial.of_delays => {
                let delays: Vec<&str> = effects.iter().map(|effect| &*effect.setting).collect();
                let slope = trial.percent_per_100ns[0].map(|slope| format!("{slope:+.2}% per 100ns"));
                vec![row(trial, delays.join(", "), slope, &first.ruling)]
            }
            _ => effects
                .iter()
                .map(|effect| {
                    let change = effect.change_percent[0].map(|percent| format!("{percent:+.2}%"));
                    row(trial, effect.setting.clone(), change, &effect.ruling)
                })
                .collect(),
        }
    };
    let rows = trials.into_iter().flat_map(decided).collect();
    PageSection { title, table: Some(Table { columns: columns.collect(), rows }), ..PageSection::default() }
}
