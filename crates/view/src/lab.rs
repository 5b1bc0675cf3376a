//! What an experiment of the lab found, as plain data: what JSON shows, and what `--against` reads back.

use crate::FigureUnit;
use crate::headline::Headline;
use crate::operation_costs::VMEXIT;
use exitscope_model::{OperationCosts, timed_operation};
use exitscope_scenario::findings::{
    ESTIMATOR, FindingFigure, FindingRow, Findings, FindingsTable, MEAN_CYCLES, Manifest, OPERATIONS_TITLE, Unit,
    counted,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What an experiment on real KVM guests found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LabReport {
    /// Name and version of this layout. Fields may be added within a version; none changes its meaning.
    pub schema: String,
    /// What was found first of all.
    #[serde(default)]
    pub verdict: Headline,
    /// The experiment, as the command has it.
    pub experiment: String,
    /// What the experiment measures, in a sentence.
    pub description: String,
    /// The machine and the settings of this run.
    pub manifest: ManifestRow,
    /// What was found, in plain words.
    pub summary: Vec<String>,
    /// What makes the figures less sure.
    pub warnings: Vec<String>,
    /// The figures, a table for each kind of them.
    pub tables: Vec<LabTable>,
    /// What the guests executed in all that leaves a guest, as they counted it: also those that probed the machine, first
    /// turns and warm-ups. A recording of the kernel's shows as many exits, but where the processor answers by itself (MSRs
    /// of interrupts, with APICv or AVIC), or an end of time stopped a guest in the middle (`lab run`).
    #[serde(default)]
    pub executed: Vec<ExecutedRow>,
}

/// Instructions of a kind.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ExecutedRow {
    /// `hypercall`, `CPUID`, `MSR access`, `port access`, `MMIO access`, `HLT` or `first touch of a page`.
    pub instruction: String,
    /// Times that it was executed.
    pub count: u64,
}

/// What ran an experiment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ManifestRow {
    /// KVM's back end, by its module.
    pub back_end: String,
    /// Whether ring 0 of guests is emulated: then costs are the emulator's.
    pub emulates_ring_0: bool,
    /// The processor's vendor, as CPUID spells it.
    pub vendor: String,
    /// The processor's model, as /proc/cpuinfo spells it; empty if unknown.
    #[serde(default)]
    pub cpu: String,
    /// The host kernel's release, as `uname -r` prints it.
    pub kernel: String,
    /// Ticks of the time stamp counter in a second.
    pub tsc_hz: u64,
    /// CPUs on which the lab may run.
    pub cpus: usize,
    /// Whether vCPUs were kept on a CPU each, where there are enough.
    pub pinned: bool,
    /// The CPUs on which each thread was kept that had CPUs of its own, as the kernel had them; empty if none had.
    #[serde(default)]
    pub kept_on: Vec<Vec<usize>>,
    /// What measures rates and shares of time.
    #[serde(default)]
    pub clock: String,
    /// How rounds become figures.
    #[serde(default)]
    pub estimator: String,
    /// Rounds, in which all rows take turns.
    pub rounds: u32,
    /// How long each row is measured, all rounds together.
    pub duration_ns: u64,
}

/// Figures of a kind.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LabTable {
    /// The title of the table: what its rows have in common.
    pub title: String,
    /// What the labels of each row are, in their order: the headings of the first columns.
    pub labels: Vec<String>,
    /// The rows, in the order in which the experiment defines them.
    pub rows: Vec<LabRow>,
}

/// One thing that was measured, or cannot be.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LabRow {
    /// What distinguishes this row: a text for each of the table's `labels`.
    pub labels: Vec<String>,
    /// What was measured of it; empty if it is unavailable.
    pub figures: Vec<LabFigure>,
    /// Why it could not be measured; there are no figures then.
    pub unavailable: Option<String>,
    /// Names of figures that were measured and that the rounds leave open: their intervals say next to nothing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_measurable: Vec<String>,
}

/// A figure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LabFigure {
    /// What is measured, such as `time` or `exits`: the same figure has the same name in all rows.
    pub name: String,
    /// What it is measured in.
    pub unit: FigureUnit,
    /// Its value, in `unit`; for times, the median of all samples.
    pub value: f64,
    /// Lower bound of the 95 % confidence interval, over rounds; absent where the figure has none.
    pub low: Option<f64>,
    /// Upper bound of the 95 % confidence interval, over rounds; absent where the figure has none.
    pub high: Option<f64>,
    /// 5th percentile of the samples, in `unit`; absent of figures without samples.
    pub p5: Option<f64>,
    /// 95th percentile of the samples, in `unit`; absent of figures without samples.
    pub p95: Option<f64>,
    /// Samples that the value is of; absent of figures without samples.
    pub samples: Option<u64>,
    /// Samples beyond the middle half by more than three times its width; they count like the others.
    pub outliers: Option<u64>,
    /// The value of each round.
    pub rounds: Vec<f64>,
}

impl LabReport {
    /// The schema's name and version.
    pub const SCHEMA: &'static str = "exitscope.lab/1";

    /// What was found, as plain data.
    pub fn of(findings: &Findings) -> LabReport {
        let m = &findings.manifest;
        let report = LabReport {
            schema: LabReport::SCHEMA.to_string(),
            verdict: Headline::default(),
            experiment: findings.experiment.to_string(),
            description: findings.description.to_string(),
            manifest: ManifestRow {
                back_end: m.back_end.clone(),
                emulates_ring_0: m.emulates_ring_0,
                vendor: m.vendor.clone(),
                cpu: m.cpu.clone(),
                kernel: m.kernel.clone(),
                tsc_hz: m.tsc_hz,
                cpus: m.cpus,
                pinned: m.pinned,
                kept_on: m.kept_on.clone(),
                clock: m.clock.to_string(),
                estimator: m.estimator.to_string(),
                rounds: m.rounds,
                duration_ns: m.duration_ns,
            },
            summary: findings.summary.clone(),
            warnings: findings.warnings.clone(),
            tables: findings
                .tables
                .iter()
                .map(|table| LabTable {
                    title: table.title.to_string(),
                    labels: table.labels.iter().map(ToString::to_string).collect(),
                    rows: table
                        .rows
                        .iter()
                        .map(|row| LabRow {
                            labels: row.labels.clone(),
                            figures: row.figures.iter().map(figure).collect(),
                            unavailable: row.cannot.clone(),
                            not_measurable: row.not_measurable.iter().map(|name| name.to_string()).collect(),
                        })
                        .collect(),
                })
                .collect(),
            executed: findings
                .executed
                .iter()
                .map(|(kind, count)| ExecutedRow { instruction: kind.name().to_string(), count: *count })
                .collect(),
        };
        LabReport { verdict: report.headline(), ..report }
    }

    /// Runs of kvm-unit-tests' vmexit with so many vCPUs, as `lab vmexit` has them: each run is a round, as the test has one average.
    pub fn of_operations(runs: &[OperationCosts], vcpus: u32) -> LabReport {
        let mut rows: Vec<FindingRow> = Vec::new();
        for cost in runs.iter().flat_map(|run| &run.rows) {
            let labels = operation_labels(&cost.name, vcpus);
            if rows.iter().any(|row| row.labels == labels) {
                continue;
            }
            let cycles = |run: &OperationCosts| {
                let own = run.rows.iter().find(|row| operation_labels(&row.name, vcpus) == labels);
                own.map(|row| row.cycles as f64)
            };
            let rounds: Vec<f64> = runs.iter().filter_map(cycles).collect();
            let figures = FindingFigure::of_rounds(MEAN_CYCLES, Unit::Cycles, &rounds).into_iter().collect();
            rows.push(FindingRow { labels, figures, ..FindingRow::default() });
        }
        let manifest = Manifest {
            back_end: VMEXIT.to_string(),
            cpus: vcpus as usize,
            rounds: runs.len() as u32,
            clock: "the guest's time stamp counter",
            estimator: ESTIMATOR,
            ..Manifest::default()
        };
        let summary = format!("{}, with {}", counted(runs.len() as u64, "run"), counted(vcpus.into(), "vCPU"));
        LabReport::of(&Findings {
            experiment: "vmexit",
            description: "What kvm-unit-tests' vmexit printed",
            manifest,
            summary: vec![summary],
            warnings: vec![
                "the test does not print which machine and kernel it ran on, nor how fast its time stamp counter is"
                    .to_string(),
            ],
            tables: vec![FindingsTable { title: OPERATIONS_TITLE, labels: vec!["operation", "vCPUs"], rows }],
            executed: Vec::new(),
        })
    }

    /// What was found first of all: the main point, which has its intervals, and what makes the figures less sure.
    pub fn headline(&self) -> Headline {
        let is_measured = self.tables.iter().any(|table| table.rows.iter().any(|row| !row.figures.is_empty()));
        let mut doubts = Vec::new();
        if self.manifest.emulates_ring_0 {
            doubts.push(format!("{} emulates ring 0 of guests: costs are the emulator's", self.manifest.back_end));
        }
        doubts.extend(self.warnings.iter().cloned());
        let (first, rest) = match (is_measured, self.summary.split_first()) {
            (true, Some((first, rest))) => (first.trim_end_matches('.').to_string(), rest),
            (true, None) => (format!("{}: no finding in words, see the figures", self.description), &[][..]),
            (false, _) => ("Doubtful: nothing could be measured here".to_string(), &self.summary[..]),
        };
        Headline {
            state: if is_measured { "found" } else { "cannot_tell" }.to_string(),
            text: first,
            details: rest.to_vec(),
            is_doubtful: !doubts.is_empty(),
            doubts,
        }
    }

    /// The row of this table with these labels.
    pub fn row(&self, title: &str, labels: &[String]) -> Option<&LabRow> {
        let table = self.tables.iter().find(|table| table.title == title)?;
        table.rows.iter().find(|row| row.labels == labels)
    }
}

/// The labels of an operation, as `lab vmexit` has them: names of all versions of the test are one, and an operation that only one
/// vCPU does, or two, has so many.
fn operation_labels(printed: &str, vcpus: u32) -> Vec<String> {
    let (part, name) = printed.rsplit_once(' ').map_or(("", printed), |(part, name)| (part, name));
    let known = timed_operation(name);
    let plain = known.filter(|_| !name.contains(':')).map_or(name, |of| of.name);
    let name = if part.is_empty() { plain.to_string() } else { format!("{part} {plain}") };
    let vcpus = match known {
        Some(of) if of.is_parallel => vcpus,
        Some(of) if of.name.starts_with("ipi") => 2,
        _ => 1,
    };
    vec![name, vcpus.to_string()]
}

fn figure(figure: &FindingFigure) -> LabFigure {
    LabFigure {
        name: figure.name.to_string(),
        unit: figure.unit.into(),
        value: figure.value,
        low: figure.interval.map(|interval| interval.0),
        high: figure.interval.map(|interval| interval.1),
        p5: figure.spread.map(|spread| spread.0),
        p95: figure.spread.map(|spread| spread.1),
        samples: figure.samples.map(|samples| samples.0),
        outliers: figure.samples.map(|samples| samples.1),
        rounds: figure.rounds.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use exitscope_model::OperationCost;

    #[test]
    fn runs_of_the_test_are_rounds_of_the_labs_rows() {
        let run = |rows: &[(&str, u64)]| OperationCosts {
            rows: rows.iter().map(|row| OperationCost { name: row.0.into(), cycles: row.1 }).collect(),
        };
        let runs = [
            run(&[("cpuid", 1_000), ("ipi+halt", 9_000), ("self_ipi_sti_nop", 3_000), ("ipi self_ipi_sti_nop", 700)]),
            run(&[("cpuid", 1_200), ("ipi_halt", 9_400), ("mmio-no-eventfd:pci-mem", 12_044)]),
        ];
        let report = LabReport::of_operations(&runs, 4);
        let rows: Vec<(Vec<&str>, f64, usize)> = report.tables[0]
            .rows
            .iter()
            .map(|row| {
                (row.labels.iter().map(String::as_str).collect(), row.figures[0].value, row.figures[0].rounds.len())
            })
            .collect();
        assert_eq!(
            rows,
            [
                (vec!["cpuid", "4"], 1_100.0, 2),
                (vec!["ipi_halt", "2"], 9_200.0, 2),
                (vec!["self_ipi_sti_nop", "1"], 3_000.0, 1),
                (vec!["ipi self_ipi_sti_nop", "1"], 700.0, 1),
                (vec!["mmio-no-eventfd:pci-mem", "1"], 12_044.0, 1),
            ]
        );
        assert_eq!((report.experiment.as_str(), report.tables[0].title.as_str()), ("vmexit", OPERATIONS_TITLE));
    }
}
