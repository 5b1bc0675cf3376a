//! Runs of kvm-unit-tests' vmexit: what operations took, and what no run says, as data and as pages.

use crate::exit_tables::NextRow;
use crate::names::thousands;
use crate::page::{PageSection, Table, column, plain};
use crate::sides::SidesRow;
use exitscope_analysis::record_commands::{HowToRecord, Missed};
use exitscope_model::{OperationCost, OperationCosts, TraceInfo, timed_operation};
use schemars::JsonSchema;
use serde::Serialize;

/// What the test is called.
pub(crate) const VMEXIT: &str = "kvm-unit-tests' vmexit";

/// What a run lacks.
const NOT_RECORDED: [&str; 4] = [
    "how often any guest does this: the test's guest does nothing else",
    "how many exits an operation makes, and whether it makes one at all",
    "how long a cycle is: cycles are of the guest's TSC",
    "how much runs differ: each operation has one average",
];

/// What a recording would tell.
const TELLS: &str = "how often your guest does what costs here";

/// A run of the test.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct OperationCostsReport {
    /// What was timed, in the order of the run.
    pub rows: Vec<OperationRow>,
    /// What takes longest of what waits for nothing; absent if all that was timed waits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub longest: Option<OperationRow>,
    /// Cycles that a port's read takes more if QEMU answers it (`inl_from_qemu`) than if the kernel does (`inl_from_kernel`); absent where
    /// not both were timed, or it takes no more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub way_to_user_space_cycles: Option<u64>,
    /// What a run does not tell.
    pub not_recorded: Vec<&'static str>,
    /// What to record next, and what it would tell.
    pub next: NextRow,
}

/// An operation.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct OperationRow {
    /// Its name, as the test prints it.
    pub name: String,
    /// What the guest does, as a verb.
    pub what: String,
    /// Cycles of the guest's TSC for one, on average.
    pub cycles: u64,
    /// Whether the guest also waits for something in it: another vCPU, a timer, an interrupt.
    pub waits: bool,
}

/// A run on both sides. Nothing says how much runs differ anyway, so no change is judged.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct OperationComparison {
    /// The operations of both sides, or of one.
    pub rows: Vec<OperationChangeRow>,
}

/// An operation on both sides, or on one.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct OperationChangeRow {
    /// Its name, as the test prints it.
    pub name: String,
    /// Cycles before and after; absent on a side that does not have it.
    pub cycles: SidesRow<Option<u64>>,
    /// Cycles after less those before, as a share of those before; absent where a side does not have them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub change: Option<f64>,
}

impl OperationCostsReport {
    /// A run, and what it comes to.
    pub(crate) fn of(run: &OperationCosts) -> OperationCostsReport {
        // The test is of x86.
        let how = HowToRecord::of(&TraceInfo { arch: "x86_64".to_string(), ..TraceInfo::default() });
        OperationCostsReport {
            rows: run.rows.iter().map(OperationRow::of).collect(),
            longest: run.longest().map(OperationRow::of),
            way_to_user_space_cycles: run.way_to_user_space(),
            not_recorded: NOT_RECORDED.to_vec(),
            next: NextRow { command: how.command(Missed::OF_TIME).unwrap_or_default(), tells: TELLS },
        }
    }
}

impl OperationRow {
    fn of(cost: &OperationCost) -> OperationRow {
        // `ipi NAME` and `eoi NAME` are parts of NAME.
        let (part, name) = cost.name.split_once(' ').unwrap_or(("", &cost.name));
        let known = timed_operation(name);
        let what = match part {
            "ipi" => "of that, to send the IPI",
            "eoi" => "of that, to end the interrupt",
            _ => known.map_or("", |of| of.what),
        };
        let waits = part.is_empty() && known.is_some_and(|of| of.waits);
        OperationRow { name: cost.name.clone(), what: what.to_string(), cycles: cost.cycles, waits }
    }
}

impl OperationComparison {
    /// The runs of both sides, the first with the first; and how many are on one alone.
    pub(crate) fn of(before: &[OperationCosts], after: &[OperationCosts]) -> (Vec<OperationComparison>, usize) {
        let pair = |(before, after): (&OperationCosts, &OperationCosts)| {
            let cycles =
                |run: &OperationCosts, name: &str| run.rows.iter().find(|row| row.name == name).map(|row| row.cycles);
            let new = after.rows.iter().filter(|row| cycles(before, &row.name).is_none());
            let row = |row: &OperationCost| {
                let [old, new] = [before, after].map(|run| cycles(run, &row.name));
                let change = old.zip(new).filter(|(old, _)| *old > 0).map(|(old, new)| new as f64 / old as f64 - 1.0);
                OperationChangeRow { name: row.name.clone(), cycles: SidesRow { before: old, after: new }, change }
            };
            OperationComparison { rows: before.rows.iter().chain(new).map(row).collect() }
        };
        (before.iter().zip(after).map(pair).collect(), before.len().abs_diff(after.len()))
    }
}

/// The section of a run.
pub(crate) fn operation_costs(report: &OperationCostsReport) -> PageSection {
    let mut said = Vec::new();
    said.extend(report.longest.as_ref().map(|row| {
        plain(format!("Takes longest: {}, {} cycles; the guest {}", row.name, thousands(row.cycles), row.what))
    }));
    said.extend(report.way_to_user_space_cycles.map(|cycles| {
        plain(format!(
            "A port that QEMU answers takes {} cycles more than one that the kernel answers (inl_from_qemu, inl_from_kernel): the way to \
             user space and back, and QEMU's own work",
            thousands(cycles)
        ))
    }));
    said.push(plain(format!("Not recorded: {}", report.not_recorded.join("; "))));
    said.push(plain(format!(
        "Record next: {}, while the guest runs whose work matters; it tells {}, and how much of the vCPUs' time that takes",
        report.next.command, report.next.tells
    )));
    let columns = vec![column("", true, 0), column("cycles", false, 0), column("the guest", true, 0)];
    let cells = |row: &OperationRow| vec![row.name.clone(), thousands(row.cycles), row.what.clone()];
    PageSection {
        title: format!("Cycles an operation, as timed by {VMEXIT}"),
        sentences: said,
        table: Some(Table { columns, rows: report.rows.iter().map(cells).collect() }),
        notes: vec![
            "an average of at least 64 operations; where all vCPUs do it at once, until the last one is done"
                .to_string(),
        ],
        say_hidden: true,
    }
}

/// The section of a run on both sides.
pub(crate) fn operation_changes(of: &OperationComparison) -> PageSection {
    let columns = vec![
        column("", true, 0),
        column("cycles before", false, 0),
        column("after", false, 0),
        column("change", false, 0),
    ];
    let cells = |row: &OperationChangeRow| {
        let cycles = |cycles: Option<u64>| cycles.map_or("-".to_string(), thousands);
        let change = row.change.map_or("-".to_string(), |change| {
            format!("{:+.1}%", change * 100.0).replace("+0.0%", "0.0%").replace("-0.0%", "0.0%")
        });
        vec![row.name.clone(), cycles(row.cycles.before), cycles(row.cycles.after), change]
    };
    PageSection {
        title: format!("Cycles an operation, as timed by {VMEXIT}"),
        table: Some(Table { columns, rows: of.rows.iter().map(cells).collect() }),
        notes: vec![
            "one run a side does not show how much runs differ; of two machines, cycles compare only if both TSCs are as fast"
                .to_string(),
        ],
        ..PageSection::default()
    }
}
