//! What an experiment found, as plain data: tables of figures, each with its interval, and sentences for people.
//!
//! ```text
//! Findings ┬ Manifest: what ran the guests, how often, how quiet it was
//!          ├ summary, warnings
//!          └ FindingsTable … ── FindingRow … ── labels · FindingFigure … (value, interval, spread) · or why it cannot be done here
//! ```

use exitscope_stats::Estimate;

/// What an experiment found.
#[derive(Clone, Debug, Default)]
pub struct Findings {
    /// The experiment's name, as the command has it.
    pub experiment: &'static str,
    /// What it is about, in a sentence.
    pub description: &'static str,
    /// What ran it.
    pub manifest: Manifest,
    /// What was found, in plain words.
    pub summary: Vec<String>,
    /// What makes the figures less sure.
    pub warnings: Vec<String>,
    /// The figures.
    pub tables: Vec<FindingsTable>,
    /// What the guests executed in all that leaves a guest: known when every guest is gone.
    pub executed: Vec<(Instruction, u64)>,
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
    /// The processor's model, as /proc/cpuinfo spells it; empty if it does not.
    pub cpu: String,
    /// The kernel's release.
    pub kernel: String,
    /// Ticks of the time stamp counter in a second.
    pub tsc_hz: u64,
    /// CPUs on which the lab may run.
    pub cpus: usize,
    /// Whether vCPUs were kept on a CPU each, where there are enough.
    pub pinned: bool,
    /// The CPUs on which each thread was kept that had CPUs of its own, as the kernel had them.
    pub kept_on: Vec<Vec<usize>>,
    /// What measures rates and shares of time.
    pub clock: &'static str,
    /// How rounds become figures.
    pub estimator: &'static str,
    /// Rounds, in which all rows take turns.
    pub rounds: u32,
    /// Nanoseconds that each row is measured for, all rounds together.
    pub duration_ns: u64,
}

/// Figures of a kind.
#[derive(Clone, Debug, Default)]
pub struct FindingsTable {
    /// What they are.
    pub title: &'static str,
    /// The names of the labels.
    pub labels: Vec<&'static str>,
    /// The rows.
    pub rows: Vec<FindingRow>,
}

/// One thing that was measured, or cannot be.
#[derive(Clone, Debug, Default)]
pub struct FindingRow {
    /// What tells it from the others: a text for each of the table's labels.
    pub labels: Vec<String>,
    /// The figures, in the same order in every row of a table that has them.
    pub figures: Vec<FindingFigure>,
    /// The names of figures that the rounds leave open: their intervals say next to nothing.
    pub not_measurable: Vec<&'static str>,
    /// Why it could not be measured; there are no figures then.
    pub cannot: Option<String>,
}

/// A figure.
#[derive(Clone, Debug, PartialEq)]
pub struct FindingFigure {
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

/// How rounds become figures, whatever was measured: what [`FindingFigure`]'s constructors do.
pub const ESTIMATOR: &str = "mean of rounds with Student's t; ratios round by round, by their logarithms; shares of counts by \
                             Wilson; times of single exits: the median of all, with the interval of the rounds' medians";

/// What an experiment measures in each of its rounds.
#[derive(Debug)]
pub struct Measured<Round: 'static> {
    name: &'static str,
    unit: Unit,
    /// Its value in a round, if there is one.
    of: fn(&Round) -> Option<f64>,
}

impl<Round> Measured<Round> {
    /// Of this name and unit.
    pub const fn new(name: &'static str, unit: Unit, of: fn(&Round) -> Option<f64>) -> Measured<Round> {
        Measured { name, unit, of }
    }

    /// Its figure; none of no round.
    pub fn figure(&self, rounds: &[Round]) -> Option<FindingFigure> {
        match self.unit {
            Unit::Share => FindingFigure::of_shares(self.name, &self.values(rounds)),
            _ => FindingFigure::of_rounds(self.name, self.unit, &self.values(rounds)),
        }
    }

    /// Its values.
    pub fn values(&self, rounds: &[Round]) -> Vec<f64> {
        rounds.iter().filter_map(self.of).collect()
    }

    /// Round by round, how many times as much it is as in other rounds: what is slow in one round is so for both. Rounds in
    /// which there was nothing of it tell nothing.
    pub fn ratios(&self, own: &[Round], other: &[Round]) -> Vec<f64> {
        let pairs = own.iter().zip(other).filter_map(|(own, other)| Some((self.of)(own)? / (self.of)(other)?));
        pairs.filter(|ratio| ratio.is_finite()).collect()
    }
}

impl FindingFigure {
    /// A figure with a value of each round: their mean, with its interval.
    pub fn of_rounds(name: &'static str, unit: Unit, rounds: &[f64]) -> Option<FindingFigure> {
        let estimate = Estimate::of(rounds)?;
        Some(FindingFigure {
            interval: estimate.interval,
            rounds: rounds.to_vec(),
            ..FindingFigure::plain(name, unit, estimate.mean)
        })
    }

    /// The same, where each round's value counts by a weight of its own.
    pub fn of_weighted_rounds(name: &'static str, unit: Unit, rounds: &[(f64, f64)]) -> Option<FindingFigure> {
        let estimate = Estimate::weighted(rounds)?;
        Some(FindingFigure {
            interval: estimate.interval,
            rounds: rounds.iter().map(|(value, _)| *value).collect(),
            ..FindingFigure::plain(name, unit, estimate.mean)
        })
    }

    /// A share of things that were counted: all rounds' parts in all rounds' wholes.
    pub fn of_counts(name: &'static str, rounds: &[(u64, u64)]) -> Option<FindingFigure> {
        let counted = rounds.iter().filter(|(_, whole)| *whole > 0);
        let shares = counted.map(|&(part, whole)| part as f64 / whole as f64).collect();
        Some(FindingFigure::of_estimate(name, Unit::Share, Estimate::of_counts(rounds)?, shares))
    }

    /// A share of each round that is of no counted things.
    pub fn of_shares(name: &'static str, rounds: &[f64]) -> Option<FindingFigure> {
        Some(FindingFigure::of_estimate(name, Unit::Share, Estimate::of_shares(rounds)?, rounds.to_vec()))
    }

    /// How many times as much, round by round: the geometric mean. Its interval allows for its being the best of so many.
    pub fn of_ratios(name: &'static str, ratios: &[f64], choices: usize) -> Option<FindingFigure> {
        let estimate = Estimate::of_ratios(ratios, choices)?;
        Some(FindingFigure::of_estimate(name, Unit::Count, estimate, ratios.to_vec()))
    }

    fn of_estimate(name: &'static str, unit: Unit, estimate: Estimate, rounds: Vec<f64>) -> FindingFigure {
        FindingFigure { interval: estimate.interval, rounds, ..FindingFigure::plain(name, unit, estimate.mean) }
    }

    /// Whether its interval says next to nothing: of a share, it holds more than half of all shares; of a ratio, it reaches from less
    /// than half of the value to more than twice it. Without an interval nothing is known of that.
    pub fn is_open(&self) -> bool {
        self.interval.is_some_and(|(low, high)| match self.unit {
            Unit::Share => high - low > 0.5,
            _ => high > 4.0 * low,
        })
    }

    /// Its interval as a ratio has it: `0.85 to 1.30`; its value if it has none.
    pub fn between(&self) -> String {
        self.interval.map_or(format!("{:.2}", self.value), |(low, high)| format!("{low:.2} to {high:.2}"))
    }

    /// A figure of which only the value is known.
    pub fn plain(name: &'static str, unit: Unit, value: f64) -> FindingFigure {
        FindingFigure { name, unit, value, interval: None, spread: None, samples: None, rounds: Vec::new() }
    }

    /// Half of its interval's width, if it has one.
    pub fn half(&self) -> Option<f64> {
        self.interval.map(|(low, high)| (high - low) / 2.0)
    }

    /// Whether its value may be `other` but for chance: it has no interval, or one that holds it.
    pub fn may_be(&self, other: f64) -> bool {
        self.interval.is_none_or(|(low, high)| low <= other && other <= high)
    }

    /// Whether chance may have ordered the two: their intervals meet, or one has none.
    pub fn may_equal(&self, other: &FindingFigure) -> bool {
        self.interval.zip(other.interval).is_none_or(|(own, other)| own.0 <= other.1 && other.0 <= own.1)
    }

    /// Its value in `size`s, with half of its interval: `392 ±134`.
    pub fn with_margin(&self, size: f64, decimals: usize) -> String {
        margin(self.value / size, self.half().map(|half| half / size), decimals)
    }

    /// A length in microseconds, with half of its interval: `42.5 ±4.6 us`.
    pub fn micros(&self) -> String {
        micros(self.value, self.half())
    }

    /// How much longer it is than another length, both of nanoseconds, and whether that may be chance:
    /// `9.88 ±1.20 us`.
    pub fn longer_than(&self, other: &FindingFigure) -> String {
        let half = self.half().zip(other.half()).map(|(own, other)| own.hypot(other));
        format!("{}{}", micros(self.value - other.value, half), noise(self.may_equal(other)))
    }
}

/// What is said instead of a figure that the rounds leave open.
pub const NOT_MEASURABLE: &str = "not measurable here";

/// What is said behind a difference that may be chance.
pub fn noise(may_be_chance: bool) -> &'static str {
    if may_be_chance { " (within the noise)" } else { "" }
}

fn micros(ns: f64, half: Option<f64>) -> String {
    let decimals = if ns.abs() < 1e4 { 2 } else { 1 };
    format!("{} us", margin(ns / 1e3, half.map(|half| half / 1e3), decimals))
}

fn margin(value: f64, half: Option<f64>, decimals: usize) -> String {
    let half = half.map_or(String::new(), |half| format!(" ±{half:.decimals$}"));
    format!("{value:.decimals$}{half}")
}

impl FindingRow {
    /// Adds a figure, or that the rounds leave it open.
    pub fn add_unless_open(&mut self, figure: Option<FindingFigure>) {
        match figure {
            Some(figure) if figure.is_open() => self.not_measurable.push(figure.name),
            figure => self.figures.extend(figure),
        }
    }

    /// Its figure of this name.
    pub fn figure(&self, name: &str) -> Option<&FindingFigure> {
        self.figures.iter().find(|figure| figure.name == name)
    }
}

impl FindingsTable {
    /// The row with the largest figure of this name, and those that only chance may have kept from being it.
    pub fn largest(&self, name: &str) -> Option<(&FindingRow, Vec<&FindingRow>)> {
        largest(self.rows.iter(), name)
    }
}

/// The same among some rows.
pub fn largest<'a>(
    rows: impl Iterator<Item = &'a FindingRow> + Clone,
    name: &str,
) -> Option<(&'a FindingRow, Vec<&'a FindingRow>)> {
    let having = rows.filter_map(|row| Some((row, row.figure(name)?)));
    let (best, most) = having.clone().max_by(|a, b| f64::total_cmp(&a.1.value, &b.1.value))?;
    let alike = having.filter(|(row, figure)| !std::ptr::eq(*row, best) && most.may_equal(figure));
    Some((best, alike.map(|(row, _)| row).collect()))
}

/// `1 VM`, `2 VMs`.
pub fn counted(count: u64, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// Kinds of instructions that leave a guest, or are answered by its processor alone where that can do it: end of interrupt
/// and the like are MSRs (x2APIC) which no exit is needed for with APICv or AVIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Instruction {
    /// VMCALL or VMMCALL.
    Hypercall,
    /// CPUID.
    Cpuid,
    /// RDMSR or WRMSR, those of interrupts among them.
    Msr,
    /// IN, OUT, INS or OUTS, doorbells among them.
    Port,
    /// A load or store outside memory.
    Mmio,
    /// HLT.
    Halt,
    /// The first write to a page of the arena since its memory was given back.
    Touch,
}

impl Instruction {
    /// Every kind.
    pub const ALL: [Instruction; 7] = [
        Instruction::Hypercall,
        Instruction::Cpuid,
        Instruction::Msr,
        Instruction::Port,
        Instruction::Mmio,
        Instruction::Halt,
        Instruction::Touch,
    ];

    /// For people.
    pub fn name(self) -> &'static str {
        match self {
            Instruction::Hypercall => "hypercall",
            Instruction::Cpuid => "CPUID",
            Instruction::Msr => "MSR access",
            Instruction::Port => "port access",
            Instruction::Mmio => "MMIO access",
            Instruction::Halt => "HLT",
            Instruction::Touch => "first touch of a page",
        }
    }
}

/// One thing that was looked at.
#[derive(Clone, Debug)]
pub struct Check {
    /// What it belongs to.
    pub area: &'static str,
    /// What was looked at.
    pub what: String,
    /// How it stands.
    pub state: CheckState,
    /// What was found.
    pub found: String,
    /// How to get what is missing.
    pub remedy: Option<String>,
}

/// How something stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckState {
    /// It is there.
    Good,
    /// It is there in part.
    Limited,
    /// It is not.
    Missing,
}

impl Check {
    /// Without a remedy.
    pub fn new(area: &'static str, what: &str, state: CheckState, found: impl ToString) -> Check {
        Check { area, what: what.to_string(), state, found: found.to_string(), remedy: None }
    }

    /// With what gets it.
    pub fn remedy(self, remedy: &str) -> Check {
        Check { remedy: Some(remedy.to_string()), ..self }
    }
}

/// The table of what operations of kvm-unit-tests' vmexit take.
pub const OPERATIONS_TITLE: &str = "Operations of kvm-unit-tests' vmexit";

/// Of that table, the figure that the test itself prints: the mean of all iterations, until the last vCPU is done.
pub const MEAN_CYCLES: &str = "mean cycles";

/// The table of what no tracepoint sees of an exit.
pub const HIDDEN_TITLE: &str = "Time that no tracepoint sees, around an exit";

/// Of that table, the figure within which 95 of 100 exits are.
pub const HIDDEN_BOUND: &str = "bound";

/// Of that table, the label that says of which reason the exits are.
pub const HIDDEN_REASON: usize = 2;

#[cfg(test)]
mod tests {
    use super::*;

    fn row(label: &str, rounds: &[f64]) -> FindingRow {
        let figures = FindingFigure::of_rounds("rate", Unit::PerSecond, rounds).into_iter().collect();
        FindingRow { labels: vec![label.to_string()], figures, ..FindingRow::default() }
    }

    #[test]
    fn the_largest_is_named_with_those_that_may_be_as_large() {
        let rows =
            vec![row("low", &[10.0, 11.0, 12.0]), row("wide", &[20.0, 60.0, 40.0]), row("most", &[49.0, 50.0, 51.0])];
        let table = FindingsTable { rows, ..FindingsTable::default() };
        let (best, alike) = table.largest("rate").unwrap();
        assert_eq!(best.labels, ["most"]);
        assert_eq!(alike.iter().map(|row| row.labels[0].as_str()).collect::<Vec<_>>(), ["wide"]);
        assert!(table.largest("no such").is_none());
    }

    #[test]
    fn a_single_round_decides_nothing() {
        let [one, other] = [row("", &[1.0]), row("", &[9.0])];
        assert!(one.figures[0].may_equal(&other.figures[0]) && one.figures[0].may_be(9.0));
    }

    #[test]
    fn differences_have_the_margin_of_both_and_say_what_may_be_chance() {
        let time = |value, half| FindingFigure {
            interval: Some((value - half, value + half)),
            ..FindingFigure::plain("time", Unit::Nanos, value)
        };
        assert_eq!(time(52_300.0, 400.0).longer_than(&time(42_500.0, 300.0)), "9.80 ±0.50 us");
        assert_eq!(time(42_600.0, 400.0).longer_than(&time(42_500.0, 300.0)), "0.10 ±0.50 us (within the noise)");
        assert_eq!(FindingFigure::plain("time", Unit::Nanos, 14_530.0).micros(), "14.5 us");
    }

    #[test]
    fn a_figure_that_rounds_leave_open_is_named_instead_of_shown() {
        let mut row = FindingRow::default();
        row.add_unless_open(FindingFigure::of_counts("found held", &[(0, 9), (9, 9)]));
        row.add_unless_open(FindingFigure::of_ratios("times", &[0.4, 8.0], 1));
        row.add_unless_open(FindingFigure::of_ratios("of alone", &[0.9, 1.0, 1.1], 1));
        row.add_unless_open(FindingFigure::of_shares("queue empty", &[0.2, 0.25, 0.22]));
        assert_eq!(row.not_measurable, ["found held", "times"]);
        assert_eq!(row.figures.iter().map(|figure| figure.name).collect::<Vec<_>>(), ["of alone", "queue empty"]);
        assert_eq!(row.figures[0].between(), "0.78 to 1.28");
        assert!(!FindingFigure::plain("times", Unit::Count, 3.0).is_open());
    }

    #[test]
    fn one_is_no_plural() {
        assert_eq!([1, 2].map(|count| counted(count, "VM")), ["1 VM", "2 VMs"]);
    }
}
