//! Programs: steps as they are written, or those of the library.
//!
//! ```text
//! { repeat = 10, steps = ["count"] } ─► Op::Repeat(Some(10), [Op::Count])   spots: [repeat's, count's]
//! ```

use super::fields::{Fields, Item, unknown};
use super::node::{Value, ValuePosition};
use super::rows::{ALTERNATIVE, MAX_NESTING, MAX_OPS, STEPS, ScenarioKey, StepRow};
use super::{Fault, check};
use crate::library::{LIBRARY, LibraryProgram};
use crate::{Op, Program};

/// The names that a program may use.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scope<'a> {
    pub channels: &'a [crate::Channel],
    pub locks: &'a [String],
    pub disks: &'a [crate::Disk],
    /// vCPUs of the VM; none: a thread of the host.
    pub vcpus: Option<u32>,
    /// Whether an exit takes any time.
    pub exits_take_time: bool,
}

/// Where a step stood.
#[derive(Clone, Debug)]
pub(crate) struct Spot {
    pub at: ValuePosition,
    pub path: String,
}

impl Scope<'_> {
    /// The channel of this key, or the only one.
    pub fn channel(&self, fields: &Fields, key: &str) -> Result<usize, Fault> {
        self.only(fields, key, "channel", self.channels.iter().map(|channel| channel.name.as_str()).collect())
    }

    /// The disk of this key, or the only one.
    pub fn disk(&self, fields: &Fields, key: &str) -> Result<usize, Fault> {
        self.only(fields, key, "disk", self.disks.iter().map(|disk| disk.name.as_str()).collect())
    }

    /// The lock of this key, or the only one.
    pub fn lock(&self, fields: &Fields, key: &str) -> Result<usize, Fault> {
        self.only(fields, key, "lock", self.locks.iter().map(String::as_str).collect())
    }

    fn only(&self, fields: &Fields, key: &str, what: &str, names: Vec<&str>) -> Result<usize, Fault> {
        match (fields.find(key), names.len()) {
            (Some(item), 0) => Err(item.fault(format!("there is no {what} here"))),
            (Some(item), _) => named(&item, what, &names),
            (None, 1) => Ok(0),
            (None, 0) => Err(fields.item.fault(format!("it needs a {what}, and there is none"))),
            (None, _) => Err(fields.item.fault(format!("{key:?} is missing: there are several, {}", names.join(", ")))),
        }
    }
}

fn named(item: &Item, what: &str, names: &[&str]) -> Result<usize, Fault> {
    let text = item.text()?;
    let fault = || item.fault(unknown(text, what, names.iter().copied()));
    names.iter().position(|name| *name == text).ok_or_else(fault)
}

/// Reads and checks the program of a table with `steps` or `library`. `rows` are the table's other keys.
pub(crate) fn program(item: &Item, rows: &'static [ScenarioKey], scope: &Scope) -> Result<Program, Fault> {
    let (program, spots) = match library(item)? {
        None => {
            let fields = item.fields(rows)?;
            let Some(steps) = fields.find("steps") else {
                return Err(item.fault("either \"steps\" or \"library\" must be given"));
            };
            let mut reader = Reader { scope, spots: Vec::new() };
            (reader.steps(&steps, 0)?, reader.spots)
        }
        Some(library) => {
            let fields = item.fields_of(rows.iter().chain(library.parameters).collect())?;
            if let Some(steps) = fields.find("steps") {
                return Err(steps.fault("either \"steps\" or \"library\", not both"));
            }
            let spot =
                Spot { at: item.node.get("library").map_or(item.node.at, |node| node.at), path: item.path.clone() };
            ((library.build)(&fields, scope)?, vec![spot])
        }
    };
    check::program(&program, &spots, scope)?;
    Ok(program)
}

/// The library program that a table names, if it names one.
pub(crate) fn library(item: &Item) -> Result<Option<&'static LibraryProgram>, Fault> {
    let Some(entry) = item.entries()?.iter().find(|entry| entry.key == "library") else { return Ok(None) };
    let item = item.entry(entry);
    let text = item.text()?;
    let found = LIBRARY.iter().find(|program| program.name == text);
    let names = LIBRARY.iter().map(|program| program.name);
    found.map(Some).ok_or_else(|| item.fault(unknown(text, "library program", names)))
}

struct Reader<'a> {
    scope: &'a Scope<'a>,
    /// Where each step stood, outer before inner, in the order of the program.
    spots: Vec<Spot>,
}

impl Reader<'_> {
    fn steps(&mut self, item: &Item, depth: usize) -> Result<Vec<Op>, Fault> {
        if depth > MAX_NESTING {
            return Err(item.fault(format!("steps in steps, more than {MAX_NESTING} deep")));
        }
        item.list()?.map(|item| self.step(&item, depth)).collect()
    }

    fn spot(&mut self, item: &Item) -> Result<(), Fault> {
        if self.spots.len() >= MAX_OPS {
            return Err(item.fault(format!("a program has at most {MAX_OPS} steps")));
        }
        self.spots.push(Spot { at: item.node.at, path: item.path.clone() });
        Ok(())
    }

    fn step(&mut self, item: &Item, depth: usize) -> Result<Op, Fault> {
        self.spot(item)?;
        let row = step_row(item)?;
        if row.rows.is_empty() {
            return Ok(match row.word {
                "cpuid" => Op::Cpuid,
                "await_ipi" => Op::AwaitIpi,
                "reply" => Op::Reply,
                "await_reply" => Op::AwaitReply,
                "count" => Op::Count,
                "start" => Op::Start,
                _ => Op::Stop,
            });
        }
        let fields = item.fields(row.rows)?;
        let (word, scope) = (row.word, self.scope);
        Ok(match word {
            "compute" => Op::Compute(fields.span(word)?),
            "demand" => Op::Demand(fields.number(word)?),
            "sleep" => Op::Sleep(fields.span(word)?),
            "lock" => Op::Lock(scope.lock(&fields, word)?),
            "unlock" => Op::Unlock(scope.lock(&fields, word)?),
            "port_in" | "port_out" => Op::Port {
                port: fields.number(word)?,
                size: fields.number("size")?,
                write: word == "port_out",
                string: fields.switch("string")?,
            },
            "mmio_read" | "mmio_write" => Op::Mmio {
                address: fields.number(word)?,
                size: fields.number("size")?,
                write: word == "mmio_write",
                value: if word == "mmio_write" { fields.number("value")? } else { 0 },
            },
            "hypercall" => Op::Hypercall(fields.number(word)?),
            "ipi" => Op::Ipi(fields.number(word)?),
            "submit" => Op::Submit(scope.disk(&fields, word)?),
            "await" => Op::Await(scope.disk(&fields, word)?),
            "send" => Op::Send(scope.channel(&fields, word)?),
            "receive" => Op::Receive(scope.channel(&fields, word)?),
            "repeat" => {
                let times = fields.number(word)?;
                Op::Repeat(Some(times), self.steps(&fields.need("steps")?, depth + 1)?)
            }
            "forever" => Op::Repeat(None, self.steps(&fields.need(word)?, depth + 1)?),
            _ => Op::Pick(self.pick(&fields.need(word)?, depth)?),
        })
    }

    fn pick(&mut self, item: &Item, depth: usize) -> Result<Vec<(u32, Vec<Op>)>, Fault> {
        let mut alternatives = Vec::new();
        for alternative in item.list()? {
            self.spot(&alternative)?;
            let fields = alternative.fields(ALTERNATIVE)?;
            let weight = fields.number("weight")?;
            alternatives.push((weight, self.steps(&fields.need("steps")?, depth + 1)?));
        }
        if alternatives.is_empty() { Err(item.fault("nothing to pick from")) } else { Ok(alternatives) }
    }
}

/// Which step it is.
fn step_row(item: &Item) -> Result<&'static StepRow, Fault> {
    let find = |word: &str| STEPS.iter().find(|step| step.word == word);
    let words = || STEPS.iter().map(|step| step.word);
    match &item.node.value {
        Value::Text(text) => match find(text) {
            Some(step) if step.rows.is_empty() => Ok(step),
            Some(step) => Err(item.fault(format!("{0:?} takes {1}: {{ {0} = … }}", step.word, step.rows[0].kind))),
            None => Err(item.fault(unknown(text, "step", words()))),
        },
        Value::Table(entries) => match entries.iter().find_map(|entry| find(&entry.key)) {
            Some(step) if !step.rows.is_empty() => Ok(step),
            Some(step) => Err(item.fault(format!("{0:?} takes no value: write {0:?} alone", step.word))),
            None => match entries.first() {
                Some(entry) => Err(item.unknown(entry, "step", words())),
                None => Err(item.fault("an empty table is no step")),
            },
        },
        _ => Err(item.fault(format!("{} is not a step", item.node.what()))),
    }
}
