//! A scenario beside a recording of what it stands for: whether it is near enough to say anything of changes.

use crate::FigureUnit;
use crate::metric_row::value_text;
use crate::names::listed;
use crate::page::{PageSection, Sentence, Table, column, plain};
use crate::simulated::SimReport;
use exitscope_analysis::Facts;
use exitscope_scenario::outcome::OutcomeUnit;
use schemars::JsonSchema;
use serde::Serialize;

/// A scenario as its file has it, beside a recording.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct SimCheck {
    /// The recording.
    pub recording: String,
    /// By how many per cent of the recorded figure a simulated one may be off.
    pub within_percent: f64,
    /// Whether figures of exits can be compared, and all that both have are as near as that.
    pub agrees: bool,
    /// Values that were set on the command line; where the scenario is not the recording, what they change is not predicted, and the
    /// report is of the scenario without them.
    pub changes: Vec<String>,
    /// What was compared.
    pub figures: Vec<CheckedFigure>,
}

/// A figure of all VMs together.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct CheckedFigure {
    /// What it is: `vcpus`, `exits`, `halts`, `cost`.
    pub name: &'static str,
    /// What it is measured in.
    pub unit: FigureUnit,
    /// In the simulated run.
    pub simulated: Option<f64>,
    /// In the recording; null if that does not tell.
    pub recorded: Option<f64>,
    /// Whether they are near; null if one is missing.
    pub agrees: Option<bool>,
    #[serde(skip)]
    measure: OutcomeUnit,
}

/// Figures of all VMs together, in the order of [`FIGURES`]; `None` where nothing tells.
type Values = [Option<f64>; FIGURES.len()];

/// Name, unit, and what tables call it.
const FIGURES: [(&str, OutcomeUnit, &str); 4] = [
    ("vcpus", OutcomeUnit::Count, "vCPUs"),
    ("exits", OutcomeUnit::PerSecond, "exits"),
    ("halts", OutcomeUnit::PerSecond, "halts"),
    ("cost", OutcomeUnit::Share, "cost, of a CPU"),
];

impl SimCheck {
    /// By how many per cent of the recorded figure a simulated one may be off.
    pub const WITHIN_PERCENT: f64 = 10.0;

    /// A run of the scenario without `changes`, beside what was read of a recording.
    pub fn of(run: &SimReport, facts: &Facts, timed_exits: u64, recording: String, changes: Vec<String>) -> SimCheck {
        let (simulated, recorded) = (of_run(run), of_facts(facts, timed_exits));
        let figures = FIGURES.into_iter().zip(simulated.into_iter().zip(recorded));
        let figures: Vec<CheckedFigure> = figures
            .map(|((name, measure, _), (simulated, recorded))| CheckedFigure {
                name,
                unit: measure.into(),
                simulated,
                recorded,
                agrees: simulated.zip(recorded).and_then(|(simulated, recorded)| agrees(name, simulated, recorded)),
                measure,
            })
            .collect();
        let is_near = |figure: &CheckedFigure| figure.agrees == Some(true);
        SimCheck {
            recording,
            within_percent: SimCheck::WITHIN_PERCENT,
            agrees: figures.iter().all(|figure| figure.agrees != Some(false)) && figures[1..].iter().any(is_near),
            changes,
            figures,
        }
    }

    /// What differs, in words.
    pub fn differences(&self) -> String {
        let differ = self.figures.iter().zip(FIGURES).filter(|(figure, _)| figure.agrees == Some(false));
        let words = differ.map(|(figure, (_, _, label))| {
            let [simulated, recorded] = [figure.simulated, figure.recorded].map(|value| text(value, figure.measure));
            format!("{label} ({simulated} simulated, {recorded} recorded)")
        });
        words.collect::<Vec<_>>().join(", ")
    }

    /// What is said of it.
    pub fn verdict(&self) -> String {
        let within = format!("{:.0} %", self.within_percent);
        if self.agrees {
            let near = self.figures.iter().zip(FIGURES).filter(|(figure, _)| figure.agrees == Some(true));
            let near: Vec<&str> = near.map(|(_, (_, _, label))| label.split(',').next().unwrap_or(label)).collect();
            return format!(
                "The scenario is within {within} of {} in {}.{}",
                self.recording,
                listed(&near),
                self.more_vcpus()
            );
        }
        let declined = match &self.changes[..] {
            [] => "It predicts nothing of that host".to_string(),
            changes => {
                format!("What {} changes is not predicted; the figures below are without it", changes.join(", "))
            }
        };
        match self.differences() {
            none if none.is_empty() => {
                format!("The scenario and {} have no figure of exits that both tell. {declined}.", self.recording)
            }
            some => format!("The scenario is not within {within} of {}: {some}. {declined}.", self.recording),
        }
    }

    /// What is said where the recording has fewer vCPUs.
    fn more_vcpus(&self) -> String {
        let vcpus = self.figures.first().filter(|figure| figure.agrees.is_none());
        let both = vcpus.and_then(|figure| figure.simulated.zip(figure.recorded));
        both.map_or(String::new(), |(own, recorded)| {
            format!(
                " It has {own:.0} vCPUs, the recording exits of {recorded:.0}: one that has nothing to do makes none."
            )
        })
    }

    pub(crate) fn section(&self) -> PageSection {
        let verdict = self.verdict();
        let first = if self.agrees { plain(verdict) } else { Sentence { text: verdict, warning: true } };
        let columns = vec![
            column("all VMs together", true, 0),
            column("simulated", false, 0),
            column("recorded", false, 0),
            column("difference", false, 1),
        ];
        let rows = self.figures.iter().zip(FIGURES).map(|(figure, (_, _, label))| {
            let difference = figure.simulated.zip(figure.recorded).filter(|(_, recorded)| *recorded != 0.0);
            let difference =
                difference.map(|(simulated, recorded)| format!("{:+.1} %", (simulated / recorded - 1.0) * 100.0));
            let [simulated, recorded] = [figure.simulated, figure.recorded].map(|value| text(value, figure.measure));
            vec![label.to_string(), simulated, recorded, difference.unwrap_or("-".to_string())]
        });
        PageSection {
            title: "Scenario and recording".into(),
            sentences: vec![first],
            table: Some(Table { columns, rows: rows.collect() }),
            ..PageSection::default()
        }
    }
}

fn text(value: Option<f64>, measure: OutcomeUnit) -> String {
    match (value, measure) {
        (None, _) => "-".to_string(),
        (Some(value), OutcomeUnit::Count) => format!("{value:.0}"),
        (Some(value), measure) => value_text(value, measure),
    }
}

/// Whether two figures are near. A vCPU that has nothing to do is in no recording: fewer there say nothing.
fn agrees(name: &str, simulated: f64, recorded: f64) -> Option<bool> {
    let is_near = (simulated - recorded).abs() <= recorded.abs() * SimCheck::WITHIN_PERCENT / 100.0;
    (is_near || name != "vcpus" || recorded > simulated).then_some(is_near)
}

fn of_run(run: &SimReport) -> Values {
    let sum = |of: &dyn Fn(&crate::SimulatedVm) -> u64| run.vms.iter().map(of).sum::<u64>() as f64;
    let seconds = run.scenario.duration_ns as f64 / 1e9;
    let halts = sum(&|vm| vm.reasons.iter().filter(|row| row.reason == "halt").map(|row| row.count).sum());
    let cost = sum(&|vm| vm.kernel_ns + vm.user_space_ns + vm.user_space_asleep_ns) / 1e9;
    let vcpus = sum(&|vm| u64::from(vm.copies) * u64::from(vm.vcpus));
    [Some(vcpus), Some(sum(&|vm| vm.exits) / seconds), Some(halts / seconds), Some(cost / seconds)]
}

fn of_facts(facts: &Facts, timed_exits: u64) -> Values {
    let seconds = facts.seen().0 as f64 / 1e9;
    let per_s = |value: f64| (seconds > 0.0).then_some(value / seconds);
    let halts = facts.causes.cells().into_iter().filter(|(cause, _)| cause.code.is_halt());
    let cost: u64 = facts.divisions.values().map(|of| of.cost().0).sum();
    [
        Some(facts.divisions.len() as f64),
        per_s(facts.all.count as f64),
        // Where no kvm_exit was recorded, only exits to user space are known, and halts are none of them.
        per_s(halts.map(|(_, stats)| stats.count).sum::<u64>() as f64).filter(|_| !facts.has_no_kvm_exit()),
        per_s(cost as f64 / 1e9).filter(|_| timed_exits > 0),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fewer_vcpus_in_a_recording_say_nothing_and_all_else_is_near_or_not() {
        for (name, simulated, recorded, wanted) in [
            ("vcpus", 2.0, 2.0, Some(true)),
            ("vcpus", 2.0, 1.0, None),
            ("vcpus", 1.0, 2.0, Some(false)),
            ("halts", 109.0, 100.0, Some(true)),
            ("halts", 91.0, 100.0, Some(true)),
            ("halts", 112.0, 100.0, Some(false)),
            ("halts", 88.0, 100.0, Some(false)),
        ] {
            assert_eq!(agrees(name, simulated, recorded), wanted, "{name} {simulated} {recorded}");
        }
    }
}
