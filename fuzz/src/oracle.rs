//! What must hold of any input: the readers agree with themselves, the command says something of it, and what it says
//! is as its schemas say and adds up.
//!
//! ```text
//! bytes ─┬─► readers, twice ────────────────────► as many events each time
//!        └─► exitscope report, events, advise ─► JSON ─► schema · quantiles in order · rows = total · parts = whole
//! ```

use crate::metamorphic::{Recorded, without_one};
use crate::root;
use anyhow::Context;
use exitscope::CommandLine;
use exitscope_model::{EventKind, Ledger, TimePart};
use exitscope_trace::counts::is_counts;
use exitscope_trace::{EventFilter, Input, SourceOptions, open_input};
use flate2::read::GzDecoder;
use jsonschema::Validator;
use serde_json::Value;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// xentrace logs do not say how fast the clock is.
const CLOCK_HZ: u64 = 1_000_000_000;

/// Lines of `events` that are held against their schema, of one input.
const EVENTS_CHECKED: usize = 64;

/// Judges inputs. It is made once, as schemas and command lines take longer than a small input.
pub struct Oracle {
    /// Where an input lies while the command reads it.
    folder: TempDir,
    report: Said,
    page: Said,
    events: Said,
    advice: Said,
    counts: Said,
    counts_page: Said,
    counts_advice: Said,
}

/// A command, and the schema of what it says.
struct Said {
    command: CommandLine,
    schema: Validator,
}

impl Said {
    fn new(folder: &Path, arguments: &[&str], schema: &str) -> anyhow::Result<Said> {
        let input = folder.join("input");
        let input = input.to_str().context("a folder whose name is UTF-8")?;
        let clock = CLOCK_HZ.to_string();
        let arguments = [&["exitscope"], arguments, &["--tsc-hz", &clock, input]].concat();
        let path = root().join("docs").join(format!("{schema}.schema.json"));
        let schema = serde_json::from_slice(&fs::read(&path).with_context(|| path.display().to_string())?)?;
        Ok(Said { command: CommandLine::parse(&arguments)?, schema: jsonschema::validator_for(&schema)? })
    }

    /// What it says of the input. Errors: that it could not.
    fn of_input(&self) -> Result<Vec<u8>, String> {
        let mut out = Vec::new();
        self.command.run(&mut out).map_err(|error| format!("{error:#}"))?;
        Ok(out)
    }

    /// JSON, which must be as its schema says.
    fn parse(&self, json: &[u8], what: &str) -> Result<Value, String> {
        let value = serde_json::from_slice(json).map_err(|error| format!("{what}: no JSON: {error}"))?;
        if let Some(misfit) = self.schema.iter_errors(&value).next() {
            return Err(format!("{what} against its schema: {}: {misfit}", misfit.instance_path()));
        }
        Ok(value)
    }
}

impl Oracle {
    /// Needs room for one input and one page, in memory where there is a file system for that.
    pub fn new() -> anyhow::Result<Oracle> {
        let memory = PathBuf::from("/dev/shm");
        let folder = tempfile::tempdir_in(if memory.is_dir() { memory } else { std::env::temp_dir() })?;
        let page = folder.path().join("page.html");
        let page = page.to_str().context("a folder whose name is UTF-8")?;
        let said = |arguments: &[&str], schema: &str| Said::new(folder.path(), arguments, schema);
        Ok(Oracle {
            report: said(&["report", "--format", "json", "--by", "vcpu,reason"], "report")?,
            page: said(&["report", "--html", page], "page")?,
            events: said(&["events", "--format", "json"], "events")?,
            advice: said(&["advise", "--format", "json"], "advise")?,
            counts: said(&["report", "--format", "json"], "counts")?,
            counts_page: said(&["report", "--html", page], "counts")?,
            counts_advice: said(&["advise", "--format", "json"], "counts")?,
            folder,
        })
    }

    /// Takes an input all the way, and returns how many events it has. One that cannot be read to its end is fine
    /// (`None`) if the command refuses it, too; a broken promise is not.
    pub fn check(&self, bytes: &[u8]) -> Result<Option<u64>, String> {
        let path = self.folder.path().join("input");
        fs::write(&path, bytes).map_err(|error| format!("cannot write the input: {error}"))?;
        let Some(events) = read_twice(&path)? else {
            return match self.report.of_input() {
                Ok(_) => Err("it cannot be read, but there is a report".to_string()),
                Err(_) => self.check_counts(&path).map(|()| None),
            };
        };
        let report = self.report.parse(&self.report.of_input()?, "report")?;
        check_report(&report).map_err(|broken| format!("report: {broken}"))?;
        self.check_page(&report)?;
        check_without_one(&path, bytes)?;
        for line in self.events.of_input()?.split(|&byte| byte == b'\n').take(EVENTS_CHECKED) {
            if !line.is_empty() {
                self.events.parse(line, "events")?;
            }
        }
        // Of nothing there is no advice.
        match self.advice.of_input() {
            Ok(advice) => drop(self.advice.parse(&advice, "advice")?),
            Err(error) if error.ends_with("no event could be read") => {}
            Err(error) => return Err(format!("advice: {error}")),
        }
        Ok(Some(events))
    }

    /// A text of counts is refused, or what is said of it is as its schema says, has parts of a whole, and is the same as advice and as page.
    fn check_counts(&self, path: &Path) -> Result<(), String> {
        let input = Input::open(path).map_err(|error| error.to_string());
        if !input.and_then(|input| is_counts(&input).map_err(|error| error.to_string())).unwrap_or(false) {
            return Ok(());
        }
        let Ok(json) = self.counts.of_input() else { return Ok(()) };
        let report = self.counts.parse(&json, "counts")?;
        for table in array(&report, "tables") {
            for part in [&table["exits_at_most"], &table["halted"], &table["not_in_rows"], &table["costliest"]["part"]]
            {
                if part.as_f64().is_some_and(|part| !(0.0..=1.0).contains(&part)) {
                    return Err(format!("counts: a part of {part}: {table}"));
                }
            }
        }
        let advice = self.counts_advice.parse(&self.counts_advice.of_input()?, "advice of counts")?;
        if advice != report {
            return Err("advice of counts differs from their report".to_string());
        }
        self.counts_page.of_input().map(drop)
    }

    /// The page of the input holds the same figures as its report.
    fn check_page(&self, report: &Value) -> Result<(), String> {
        self.page.of_input()?;
        let page =
            fs::read_to_string(self.folder.path().join("page.html")).map_err(|error| format!("page: {error}"))?;
        let json = page_data(&page).ok_or("page: its data cannot be unpacked")?;
        let page = self.page.parse(&json, "page")?;
        check_report(&page["report"]).map_err(|broken| format!("page: {broken}"))?;
        for part in ["total", "vcpus", "halt", "yield", "pio"] {
            if page["report"][part] != report[part] {
                return Err(format!("{part} of the page is {}, of the report {}", page["report"][part], report[part]));
            }
        }
        Ok(())
    }
}

/// Without one of its tracepoints, the same input has a less divided account, and no other one.
fn check_without_one(path: &Path, bytes: &[u8]) -> Result<(), String> {
    // Of what cannot be read to its end nothing is held against anything.
    let Ok(recorded) = Recorded::read(path) else { return Ok(()) };
    let wrong = without_one(&recorded, bytes.len() as u64).map_err(|error| format!("{error:#}"))?;
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("; ")) }
}

/// The JSON of a page's data: `web/src/data.ts` unpacks it in the same way.
fn page_data(page: &str) -> Option<Vec<u8>> {
    let (data, _) = page.split_once("id=\"data\">")?.1.split_once('<')?;
    let packed = base64::Engine::decode(&base64::engine::general_purpose::STANDARD, data).ok()?;
    let mut bytes = Vec::new();
    GzDecoder::new(&packed[..]).read_to_end(&mut bytes).ok()?;
    let (length, rest) = bytes.split_first_chunk::<4>()?;
    Some(rest.get(..u32::from_le_bytes(*length) as usize)?.to_vec())
}

/// Reads a trace twice, with all events and with those that are used, and returns how many it has, if it can be read.
fn read_twice(path: &Path) -> Result<Option<u64>, String> {
    let read = [EventFilter::All, EventFilter::Used].map(|keep| events(path, keep));
    match read {
        [None, None] => Ok(None),
        [Some((left, all)), ..] if left != all => Err(format!("{left} events left the reader, its ledger has {all}")),
        [Some((_, all)), Some((_, used))] if used == all => Ok(Some(all)),
        _ => Err(format!("whichever events are asked for, there are as many, not {read:?} (left, in the ledger)")),
    }
}

/// How many events left the reader, and how many it has in its ledger; `None` if it refuses the trace, at once or later.
/// Losses are no events.
fn events(path: &Path, keep: EventFilter) -> Option<(u64, u64)> {
    let options = SourceOptions { keep, clock_hz: Some(CLOCK_HZ), ..SourceOptions::default() };
    let mut source = Input::open(path).and_then(|input| open_input(input, options)).ok()?;
    let (mut events, mut ledger, mut left) = (Vec::new(), Ledger::default(), 0);
    loop {
        events.clear();
        let more = source.read(&mut events, &mut ledger).ok()?;
        left += events.iter().filter(|event| !matches!(event.kind, EventKind::Lost { .. })).count() as u64;
        if !more {
            return Some((left, ledger.events));
        }
    }
}

fn check_report(report: &Value) -> Result<(), String> {
    check_everywhere(report, &mut "report".to_string())?;
    check_total(report)?;
    array(report, "vcpus").iter().try_for_each(check_conserved)
}

/// What holds of every object of a report, wherever it is.
fn check_everywhere(value: &Value, path: &mut String) -> Result<(), String> {
    let depth = path.len();
    let mut inside = |name: &str, value: &Value| {
        path.push('/');
        path.push_str(name);
        let checked = check_everywhere(value, path);
        path.truncate(depth);
        checked
    };
    match value {
        Value::Array(values) => values.iter().enumerate().try_for_each(|(at, value)| inside(&at.to_string(), value)),
        Value::Object(fields) => {
            fields.iter().try_for_each(|(name, value)| inside(name, value))?;
            check_quantiles(value)
                .and_then(|()| check_parts_of_exits(value))
                .map_err(|broken| format!("{path}: {broken}"))
        }
        _ => Ok(()),
    }
}

/// Quantiles are in order and the greatest is greater, the mean's, too. Exits without a length count as zero, and the least
/// leaves them out (`no_length` of the ledger).
fn check_quantiles(of: &Value) -> Result<(), String> {
    const NAMES: [&str; 6] = ["min_ns", "p50_ns", "p90_ns", "p99_ns", "p999_ns", "max_ns"];
    let there: Vec<(&str, u128)> = NAMES.iter().filter_map(|&name| Some((name, number(of, name)?))).collect();
    for pair in there.windows(2) {
        let [(less, a), (more, b)] = pair else { continue };
        if a > b && (*less, *b) != ("min_ns", 0) {
            return Err(format!("{less} {a} is more than {more} {b}"));
        }
    }
    match (number(of, "mean_ns"), number(of, "max_ns")) {
        (Some(mean), Some(most)) if mean > most => Err(format!("a mean of {mean} ns among at most {most} ns")),
        _ => Ok(()),
    }
}

/// The parts of exits add up to the time from exit to entry, and cost is two of them.
fn check_parts_of_exits(of: &Value) -> Result<(), String> {
    let Some(total) = number(of, "exit_time_ns") else { return Ok(()) };
    let parts = TimePart::OF_EXITS.map(TimePart::column);
    if parts.iter().any(|part| of.get(part).is_none()) {
        return Ok(());
    }
    equal("parts", sum(of, &parts), "exit time", total)?;
    match number(of, "cost_ns") {
        Some(cost) => equal("kernel and user space", sum(of, &["kernel_ns", "user_space_ns"]), "cost", cost),
        None => Ok(()),
    }
}

/// Rows add up to the total row, and vCPUs have as many exits.
fn check_total(report: &Value) -> Result<(), String> {
    let (total, rows, vcpus) = (&report["total"], array(report, "rows"), array(report, "vcpus"));
    let count = number(total, "count").unwrap_or_default();
    equal("exits read", number(&report["coverage"], "exits").unwrap_or_default(), "in total", count)?;
    let of_vcpus = vcpus.iter().filter_map(|vcpu| number(vcpu, "exits")).sum();
    equal("exits of vCPUs", of_vcpus, "in total", count)?;
    // Where groups were too many, those that were left out are in the total only.
    if number(report, "rows_left_out") == Some(0) && number(report, "ungrouped_exits") == Some(0) {
        let parts = TimePart::OF_EXITS.map(TimePart::column);
        for name in ["count", "timed", "exit_time_ns", "cost_ns"].iter().chain(&parts) {
            let of_rows = rows.iter().filter_map(|row| number(row, name)).sum();
            equal(&format!("{name} of rows"), of_rows, "in total", number(total, name).unwrap_or_default())?;
        }
    }
    Ok(())
}

/// The parts of a vCPU's time are its span. That this is the time from its first event to its last the assembler asserts.
fn check_conserved(vcpu: &Value) -> Result<(), String> {
    let parts = TimePart::ALL.map(TimePart::column);
    let span = number(vcpu, "span_ns").unwrap_or_default();
    equal("the parts of a vCPU's time", sum(vcpu, &parts), "its span", span).map_err(|error| format!("{error}: {vcpu}"))
}

fn equal(what: &str, found: u128, of: &str, wanted: u128) -> Result<(), String> {
    match found == wanted {
        true => Ok(()),
        false => Err(format!("{what}: {found}, {of}: {wanted}")),
    }
}

fn sum(of: &Value, names: &[&str]) -> u128 {
    names.iter().filter_map(|name| number(of, name)).sum()
}

fn number(of: &Value, name: &str) -> Option<u128> {
    of.get(name)?.as_u64().map(u128::from)
}

fn array<'a>(of: &'a Value, name: &str) -> &'a [Value] {
    of[name].as_array().map(Vec::as_slice).unwrap_or_default()
}
