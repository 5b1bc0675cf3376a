//! What an experiment found, as plain data: tables of figures, each with its interval, and sentences for people.
//!
//! ```text
//! Findings ┬ Manifest: what ran the guests, how often, how quiet it was
//!          ├ summary, warnings
//!          └ Table … ── Row … ── labels · Figure … (value, interval, spread) · or why it cannot be done here
//! ```

use exitscope_analysis::Estimate;

/// What an experiment found.
#[derive(Clone, Debug, Default)]
pub struct Findings {
    /// The experiment's name, as the command has it.
    pub experiment: &'static str,
    /// What it is about, in a sentence.
    pub about: &'static str,
    /// What ran it.
    pub manifest: Manifest,
    /// What was found, in plain words.
    pub summary: Vec<String>,
    /// What makes the figures less sure.
    pub warnings: Vec<String>,
    /// The figures.
    pub tables: Vec<Table>,
}

/// What ran an experiment.
#[derive(Clone, Debug, Default)]
pub struct Manifest {
    /// KVM's back end, by its module.
    pub back_end: String,
    /// Whether ring 0 of guests is emulated: then costs are the emulator's, and calibrate nothing.
    pub emulates_ring_0: bool,
    /// The processor's vendor.
    pub vendor: String,
    /// The kernel's release.
    pub kernel: String,
    /// Ticks of the time stamp counter in a second.
    pub tsc_hz: u64,
    /// CPUs on which the lab may run.
    pub cpus: usize,
    /// Whether vCPUs were kept on a CPU each.
    pub pinned: bool,
    /// Rounds, in which all rows take turns.
    pub rounds: u32,
    /// Nanoseconds that each row is measured for, all rounds together.
    pub duration_ns: u64,
}

/// Figures of a kind.
#[derive(Clone, Debug, Default)]
pub struct Table {
    /// What they are.
    pub title: &'static str,
    /// The names of the labels.
    pub labels: Vec<&'static str>,
    /// The rows.
    pub rows: Vec<Row>,
}

/// One thing that was measured, or cannot be.
#[derive(Clone, Debug, Default)]
pub struct Row {
    /// What tells it from the others: a text for each of the table's labels.
    pub labels: Vec<String>,
    /// The figures, in the same order in every row of a table that has them.
    pub figures: Vec<Figure>,
    /// Why it could not be measured; there are no figures then.
    pub cannot: Option<String>,
}

/// A figure.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// Its name.
    pub name: &'static str,
    /// What it counts.
    pub unit: Unit,
    /// Its value.
    pub value: f64,
    /// The 95 % confidence interval of the value, from round to round.
    pub interval: Option<(f64, f64)>,
    /// Within what 90 % of the single samples are.
    pub spread: Option<(f64, f64)>,
    /// Single samples, and how many of them are far out (more than three times the width of the middle half beyond it).
    pub samples: Option<(u64, u64)>,
    /// The value of each round.
    pub rounds: Vec<f64>,
}

/// What a figure counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Nanoseconds.
    Nanos,
    /// Ticks of the time stamp counter.
    Cycles,
    /// Things a second.
    PerSecond,
    /// A part of a whole, 0 to 1.
    Share,
    /// A number of things.
    Count,
}

impl Unit {
    /// As JSON and CSV spell it.
    pub fn name(self) -> &'static str {
        match self {
            Unit::Nanos => "ns",
            Unit::Cycles => "cycles",
            Unit::PerSecond => "1/s",
            Unit::Share => "share",
            Unit::Count => "count",
        }
    }
}

impl Figure {
    /// A figure with a value of each round: their mean, with its interval.
    pub fn of_rounds(name: &'static str, unit: Unit, rounds: &[f64]) -> Option<Figure> {
        let estimate = Estimate::of(rounds)?;
        Some(Figure {
            interval: estimate.interval,
            rounds: rounds.to_vec(),
            ..Figure::plain(name, unit, estimate.mean)
        })
    }

    /// A figure of which only the value is known.
    pub fn plain(name: &'static str, unit: Unit, value: f64) -> Figure {
        Figure { name, unit, value, interval: None, spread: None, samples: None, rounds: Vec::new() }
    }
}
