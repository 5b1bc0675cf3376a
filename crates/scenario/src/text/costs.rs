//! `[costs]`, and the files of cost models that it may name.
//!
//! ```text
//! [costs] model = "z9-zvm-5.3" ─► models/z9-zvm-5.3.toml ─ base ─► models/z990-zvm-5.3.toml ─ base ─► default
//!         exit = "1us"            clock_hz = …                     exit = { time = "360 cycles", … }
//! ```
//!
//! Each changes what is to its right. The clock is the leftmost one: costs in cycles are of it, wherever they stand.

use super::fields::{Item, unknown};
use super::node::{Value, ValuePosition};
use super::rows::{COST, COSTS, EXIT_SPREAD, MAX_TEXT, MODEL, SMT_SPEED, ScenarioKey};
use super::{Fault, KeyType, ScenarioDocument, ScenarioError};
use crate::models::{DEFAULT, FILES};
use crate::{CostFigure, CostModel, CostOrigin, ExitSpread, SmtSpeed};
use std::borrow::Cow;
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// How many models may build on each other.
const MAX_BASES: u32 = 8;

/// The costs of a scenario. Paths begin at `folder`, in a `--set` at the current one.
pub(crate) fn scenario(item: &Item, folder: &Path) -> Result<CostModel, Fault> {
    let clock = clock(item)?;
    let mut costs = base(item, "model", clock, folder, 0)?;
    change(&mut costs, item, COSTS)?;
    Ok(costs)
}

/// Reads a cost model's file. A `clock` takes the place of its own.
pub(crate) fn model(
    name: &str,
    origin: &str,
    text: &str,
    clock: Option<u64>,
    bases: u32,
) -> Result<CostModel, ScenarioError> {
    let document = ScenarioDocument::parse(origin, text)?;
    read(&document, name, origin, clock, bases).map_err(|fault| document.locate(fault))
}

fn read(
    document: &ScenarioDocument,
    name: &str,
    origin: &str,
    own: Option<u64>,
    bases: u32,
) -> Result<CostModel, Fault> {
    let clock_hz = CostModel::default().clock_hz;
    let item = Item { node: Cow::Borrowed(&document.root), path: String::new(), clock_hz };
    let own = own.or(clock(&item)?);
    let folder = Path::new(origin).parent().unwrap_or(Path::new(""));
    let mut costs = base(&item, "base", own, folder, bases)?;
    costs.name = name.to_string();
    costs.description = match item.get("description") {
        Some(about) => about.text()?.to_string(),
        None => return Err(item.fault("\"description\" is missing: what machine it is")),
    };
    if let Some(item) = item.get("smt_speed") {
        let fields = item.fields(SMT_SPEED)?;
        costs.smt_speed = SmtSpeed {
            thousandths: smt_speed(&fields.need("thousandths")?, 8)?,
            origin: ORIGINS[fields.word("origin")?],
            source: fields.text("source")?,
        };
    }
    change(&mut costs, &item, MODEL)?;
    Ok(costs)
}

/// The clock of this table, if it has one.
fn clock(item: &Item) -> Result<Option<u64>, Fault> {
    let Some(own) = item.get("clock_hz") else { return Ok(None) };
    match COSTS.iter().find(|row| row.key == "clock_hz").map(|row| row.kind) {
        Some(KeyType::Number(of, min, max)) => own.number(of, min, max).map(Some),
        _ => Ok(None),
    }
}

/// The model that this table builds on, with this clock.
fn base(item: &Item, key: &str, clock: Option<u64>, folder: &Path, bases: u32) -> Result<CostModel, Fault> {
    let named = item.get(key);
    let name = named.as_ref().map_or(Ok(DEFAULT), Item::text)?;
    if name == DEFAULT {
        let costs = CostModel::default();
        return Ok(CostModel { clock_hz: clock.unwrap_or(costs.clock_hz), ..costs });
    }
    let item = named.as_ref().unwrap_or(item);
    if bases >= MAX_BASES {
        return Err(item.fault(format!("more than {MAX_BASES} cost models that build on each other")));
    }
    let read = if let Some((_, text)) = FILES.iter().find(|file| file.0 == name) {
        model(name, &format!("{name}.toml"), text, clock, bases + 1)
    } else if name.ends_with(".toml") || name.contains('/') {
        let folder = if matches!(item.node.at, ValuePosition::Set(_)) { Path::new("") } else { folder };
        let path = folder.join(name);
        let text = file(&path).map_err(|error| item.fault(format!("cannot read {}: {error}", path.display())))?;
        model(name, &path.display().to_string(), &text, clock, bases + 1)
    } else {
        let known = [DEFAULT].into_iter().chain(FILES.iter().map(|file| file.0));
        return Err(item.fault(unknown(name, "cost model", known)));
    };
    read.map_err(|error| item.fault(error.to_string()))
}

/// A file's text; of one that is too long, so much that its length is an error.
fn file(path: &Path) -> std::io::Result<String> {
    let mut text = String::new();
    File::open(path)?.take(MAX_TEXT as u64 + 1).read_to_string(&mut text)?;
    Ok(text)
}

/// Changes the costs that the table has; `rows` are its other keys.
fn change(costs: &mut CostModel, item: &Item, rows: &'static [ScenarioKey]) -> Result<(), Fault> {
    let item = Item { clock_hz: costs.clock_hz, ..item.clone() };
    if let Some(item) = item.get("exit_spread") {
        costs.exit_spread = Some(exit_spread(&item)?);
    }
    for entry in item.entries()?.iter().filter(|entry| rows.iter().all(|row| row.key != entry.key)) {
        match costs.get_mut(&entry.key) {
            Some(row) => *row = cost(&item.entry(entry))?,
            None => {
                let known = rows.iter().map(|row| row.key).chain(CostModel::ROWS.iter().map(|row| row.0));
                return Err(item.unknown(entry, "cost", known));
            }
        }
    }
    Ok(())
}

/// In the order of their row.
const ORIGINS: [CostOrigin; 3] = [CostOrigin::Published, CostOrigin::Calibrated, CostOrigin::Assumed];

fn cost(item: &Item) -> Result<CostFigure, Fault> {
    if !matches!(item.node.value, Value::Table(_)) {
        return Ok(CostFigure { time: item.time()?, origin: CostOrigin::Assumed, source: "the scenario".to_string() });
    }
    let fields = item.fields(COST)?;
    let origin = ORIGINS[fields.word("origin")?];
    Ok(CostFigure { time: fields.time("time")?, origin, source: fields.text("source")? })
}

fn exit_spread(item: &Item) -> Result<ExitSpread, Fault> {
    let fields = item.fields(EXIT_SPREAD)?;
    Ok(ExitSpread {
        p5: fields.number("p5")?,
        p95: fields.number("p95")?,
        origin: ORIGINS[fields.word("origin")?],
        source: fields.text("source")?,
    })
}

/// Speeds with one, two, … busy threads, of so many threads at most.
pub(crate) fn smt_speed(item: &Item, threads: usize) -> Result<Vec<u32>, Fault> {
    let mut speeds = Vec::new();
    for item in item.short_list()? {
        let most = speeds.last().copied().unwrap_or(1000);
        let speed = item.number("speed in thousandths, not above the one before", 1, u64::from(most))? as u32;
        if speeds.is_empty() && speed != 1000 {
            return Err(item.fault("the first speed is that of a core of its own, 1000"));
        }
        speeds.push(speed);
    }
    match speeds.len() {
        0 => Err(item.fault("an empty list: the first speed is 1000")),
        count if count > threads => Err(item.fault(format!("{count} speeds, but {threads} threads in a core"))),
        _ => Ok(speeds),
    }
}
