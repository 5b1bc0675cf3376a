//! Pages that are not of a report: what `diff`, `sweep`, `lab`, `fleet report` and `try` say as JSON, as it is.

use crate::html::{PACKING, PageContent, PageData, pack, write_file};
use exitscope_analysis::{Diff, DiffRow};
use exitscope_view::{Comparison, Fleet, LabReport, Sweep, TrialReport};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;
use std::io::{self, Write};

/// What such a page shows.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum ResultPage<'a> {
    /// Two sides of a comparison.
    Diff {
        /// What changed.
        diff: &'a Comparison,
        /// How long exits took on both sides; all together first, then by reason, as in the comparison.
        lengths: Vec<SideLengths>,
    },
    /// Many runs of a scenario.
    Sweep {
        /// What they gave.
        sweep: &'a Sweep,
    },
    /// An experiment on real guests.
    Lab {
        /// What it found.
        lab: &'a LabReport,
    },
    /// A fleet.
    Fleet {
        /// What differs within it.
        fleet: &'a Fleet,
    },
    /// Trials on a running host.
    Trial {
        /// What they found, the oldest first.
        trials: &'a [TrialReport],
    },
}

/// How long the exits of one reason took on both sides.
#[derive(Debug, Serialize, JsonSchema)]
pub struct SideLengths {
    /// The reason; absent for all exits.
    reason: Option<String>,
    /// Shortest length of each bucket, and the exits of it before and after.
    counts: Vec<(u64, u64, u64)>,
}

impl SideLengths {
    /// The lengths of the exits that a row is of.
    pub fn of(row: &DiffRow, before: &Diff, after: &Diff) -> SideLengths {
        let [before, after] = [before, after].map(|side| side.lengths(row));
        let mut counts: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
        before.counts().buckets().for_each(|(low, _, count)| counts.entry(low).or_default().0 += count);
        after.counts().buckets().for_each(|(low, _, count)| counts.entry(low).or_default().1 += count);
        SideLengths {
            reason: row.reason.clone(),
            counts: counts.into_iter().map(|(low, (before, after))| (low, before, after)).collect(),
        }
    }
}

impl ResultPage<'_> {
    fn title(&self) -> String {
        match self {
            ResultPage::Diff { diff, .. } => {
                let side = |traces: &[exitscope_view::TraceRow]| {
                    traces.iter().map(|trace| trace.name.as_str()).collect::<Vec<_>>().join(", ")
                };
                format!("{} → {}", side(&diff.before.traces), side(&diff.after.traces))
            }
            ResultPage::Sweep { sweep } => format!("sweep of {}", sweep.scenario.name),
            ResultPage::Lab { lab } => format!("lab {}", lab.experiment),
            ResultPage::Fleet { fleet } => format!("fleet by {}", fleet.by.name()),
            ResultPage::Trial { trials: [trial] } => format!("trial on {}", trial.host),
            ResultPage::Trial { trials } => format!("{} trials", trials.len()),
        }
    }
}

/// Writes the page. Errors: those of `out`; also if the front end is not there.
pub fn write_result_page(shown: &ResultPage<'_>, out: &mut dyn Write) -> io::Result<()> {
    write_file(&shown.title(), |to| write_result_data(shown, to), out)
}

/// Writes what the page shows, packed, without the page. Errors: those of `out`.
pub fn write_result_data(shown: &ResultPage<'_>, out: &mut dyn Write) -> io::Result<()> {
    pack(&PageData::from(PageContent::Other(shown)), &[], PACKING, out)
}
