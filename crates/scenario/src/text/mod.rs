//! Scenario files: TOML for people, with every fault at its line and column.
//!
//! ```text
//! text ─► ScenarioDocument (a tree with places) ─ set(key, value) … ─► scenario() ─► Scenario, or ScenarioError
//!                                                                      rows · fields · read · steps · check
//! ```

mod check;
mod costs;
mod effect;
mod fields;
mod node;
mod page;
mod read;
mod rows;
mod set;
mod steps;
mod time;

pub use fields::nearest_name;
pub use page::page;
pub use rows::{
    KeyDefault, KeyType, MAX_CPUS, MAX_INSTANT, MAX_LIST, MAX_NESTING, MAX_OPS, MAX_TEXT, MAX_VCPUS, ScenarioKey,
    StepRow,
};
pub use time::MAX_TIME;

pub(crate) use fields::Fields;
pub(crate) use rows::{DEMAND, row};
pub(crate) use steps::Scope;

use crate::{CostModel, Scenario};
use node::{Node, ValuePosition};
use std::fmt;
use std::path::Path;

/// Something is wrong at a place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    pub at: ValuePosition,
    pub path: String,
    pub what: String,
}

/// Why a scenario file is not a scenario: `scenario.toml:12:8: vm[0].vcpus: 0 is not a number of vCPUs: at least 1`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScenarioError {
    /// The file's name, or the override: `--set vm.web.vcpus=0`.
    pub origin: String,
    /// Line and column in the file, both from 1; none in an override.
    pub position: Option<(usize, usize)>,
    /// The keys that lead to the value; empty if the text is no TOML.
    pub path: String,
    /// What is wrong, in a sentence.
    pub what: String,
}

impl fmt::Display for ScenarioError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.origin)?;
        if let Some((line, column)) = self.position {
            write!(f, ":{line}:{column}")?;
        }
        if !self.path.is_empty() {
            write!(f, ": {}", self.path)?;
        }
        write!(f, ": {}", self.what)
    }
}

impl std::error::Error for ScenarioError {}

/// A scenario file that was read but not yet understood, so that its values can still be set.
#[derive(Clone, Debug)]
pub struct ScenarioDocument {
    origin: String,
    text: String,
    root: Node,
    /// The overrides, as they were given.
    sets: Vec<String>,
}

impl ScenarioDocument {
    /// Reads a file's text; `origin` is its name, for errors.
    pub fn parse(origin: &str, text: &str) -> Result<ScenarioDocument, ScenarioError> {
        let empty = Node { at: ValuePosition::File(0), value: node::Value::Table(Vec::new()) };
        let mut document =
            ScenarioDocument { origin: origin.to_string(), text: String::new(), root: empty, sets: Vec::new() };
        if text.len() > MAX_TEXT {
            let what = format!("{} bytes are too much for a scenario: at most {MAX_TEXT}", text.len());
            return Err(document.locate(Fault { at: ValuePosition::File(0), path: String::new(), what }));
        }
        document.text = text.to_string();
        document.root = Node::document(text).map_err(|fault| document.locate(fault))?;
        Ok(document)
    }

    /// Sets one value, as if it stood so in the file. Whether it is a good one, [`ScenarioDocument::scenario`] says.
    ///
    /// | key | value |
    /// | --- | --- |
    /// | `duration`, `host.cores`, `costs.exit`, … | any key of the file, with dots |
    /// | `vm.<name>.vcpus`, `channel.<name>.latency`, … | the same in the table of that name, or of that number |
    /// | `thread.0.search.uniform.1`, … | what has this number, from 0, in a list |
    /// | a knob, `spin_retry` | for the scenario, and for the VMs that have their own |
    /// | `vm.<name>.<knob>` | for the VM |
    /// | `vm.<name>.<parameter>` | a parameter of the VM's library programs |
    /// | `cost.<name>`, `delay` | short for `costs.<name>`, `costs.delay` |
    ///
    /// The value is as in the file; quotes may be left out.
    pub fn set(&mut self, key: &str, value: &str) -> Result<(), ScenarioError> {
        self.sets.push(format!("--set {key}={value}"));
        let at = ValuePosition::Set(self.sets.len() - 1);
        set::set(&mut self.root, key, value, at).map_err(|fault| self.locate(fault))
    }

    /// The scenario that it describes.
    pub fn scenario(&self) -> Result<Scenario, ScenarioError> {
        let folder = Path::new(&self.origin).parent().unwrap_or(Path::new(""));
        read::scenario(&self.root, folder).map_err(|fault| {
            let mut error = self.locate(fault);
            if error.position.is_some() && !self.sets.is_empty() {
                // The file may be good without them.
                error.what.push_str(&format!(" (with {})", self.sets.join(" ")));
            }
            error
        })
    }

    /// Knobs that are set and change nothing in this scenario, and why.
    pub fn idle_knobs(&self, scenario: &Scenario) -> Vec<(String, &'static str)> {
        let set = effect::knobs_set(&self.root).into_iter();
        set.filter_map(|knob| effect::without(&knob, scenario).map(|why| (knob, why))).collect()
    }

    fn locate(&self, fault: Fault) -> ScenarioError {
        let Fault { at, path, what } = fault;
        match at {
            ValuePosition::File(offset) => {
                let before = self.text.get(..offset).unwrap_or(&self.text);
                let start = before.rfind('\n').map_or(0, |end| end + 1);
                let line = before.bytes().filter(|byte| *byte == b'\n').count() + 1;
                let position = Some((line, before[start..].chars().count() + 1));
                ScenarioError { origin: self.origin.clone(), position, path, what }
            }
            ValuePosition::Set(number) => {
                let origin = self.sets.get(number).cloned().unwrap_or_default();
                ScenarioError { origin, position: None, path, what }
            }
        }
    }
}

/// Reads the file of a cost model; `name` is the model's.
pub(crate) fn cost_model(name: &str, text: &str) -> Result<CostModel, ScenarioError> {
    costs::model(name, &format!("{name}.toml"), text, None, 0)
}

impl Scenario {
    /// Reads a scenario file. Its name in errors is `scenario.toml`; [`ScenarioDocument`] takes another, and overrides.
    pub fn from_toml(text: &str) -> Result<Scenario, ScenarioError> {
        ScenarioDocument::parse("scenario.toml", text)?.scenario()
    }
}

impl std::str::FromStr for Scenario {
    type Err = ScenarioError;

    fn from_str(text: &str) -> Result<Scenario, ScenarioError> {
        Scenario::from_toml(text)
    }
}
