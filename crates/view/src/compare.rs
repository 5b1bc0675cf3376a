//! A comparison as plain data.

use crate::compare_verdict::DiffVerdictRow;
use crate::names::thousands;
use crate::report::{CoverageLine, EventKindsRow, SelectionRow, TraceRow};
use exitscope_analysis::{ChangeVerdict, DiffMeasure, DiffRow, MeasureChange};
use exitscope_units::Nanos;
use schemars::JsonSchema;
use serde::Serialize;

/// What changed between two recordings. All lengths are in nanoseconds; cost and rates are per second of vCPU time, so that neither
/// how long a recording is nor how many vCPUs it has changes them.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Comparison {
    /// Name and version of this layout. Fields may be added within a version; none changes its meaning.
    pub schema: &'static str,
    /// The result of the comparison, and how sure it is.
    pub verdict: DiffVerdictRow,
    /// Confidence of the intervals, in per cent.
    pub confidence_percent: f64,
    /// Which exits were looked at, on both sides.
    pub selection: SelectionRow,
    /// The recordings before the change.
    pub before: SideRow,
    /// The recordings after the change.
    pub after: SideRow,
    /// All reasons together first, then reason by reason, most costly first.
    pub rows: Vec<ReasonComparison>,
    /// Reasons left out by --top.
    pub rows_left_out: usize,
}

/// One side of a comparison.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct SideRow {
    /// The recordings of this side.
    pub traces: Vec<TraceRow>,
    /// Number of events that were read.
    pub events: u64,
    /// Number of exits that the selection holds.
    pub exits: u64,
    /// Records that the recorder says it lost.
    pub lost: u64,
    /// Time from the first to the last event, within --from and --to, summed over the traces.
    pub duration_ns: u64,
    /// Time of all selected vCPUs, each from its first event to its last, within --from and --to.
    pub vcpu_ns: u64,
    /// Time in the guest of these vCPUs, a part of `vcpu_ns`.
    pub guest_ns: u64,
    /// What all of its traces tell.
    pub event_kinds: EventKindsRow,
    /// Everything that was seen and not used.
    pub lines: Vec<CoverageLine>,
}

/// One reason on both sides.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ReasonComparison {
    /// The exit reason, in the kernel's spelling; absent for all reasons together.
    pub reason: Option<String>,
    /// The reasons that all together are without, because their vCPUs are halted there.
    pub without: Vec<String>,
    /// Number of exits for this reason before the change.
    pub count_before: u64,
    /// Number of exits for this reason after the change.
    pub count_after: u64,
    /// Of the cost of all exits, the part of this reason, on the side on which it is larger; absent of all reasons together,
    /// and where nothing costs anything.
    pub share_of_cost: Option<f64>,
    /// The change of each measure.
    pub changes: Vec<ChangeRow>,
}

/// One measure on both sides.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ChangeRow {
    /// `cost_ns_per_s`, `rate_per_s`, `mean_ns`, `p50_ns` or `p99_ns`; of all exits together also `cost_ns_per_guest_s` (per second that
    /// guests ran), `cost_ns_per_work`, `guest_ns_per_s` and `steal_ns_per_s`.
    pub measure: &'static str,
    /// What is compared.
    #[serde(skip)]
    pub of: DiffMeasure,
    /// The value before the change; absent if there was nothing to measure. With several recordings on each side the geometric mean of
    /// theirs, or the mean where some have none.
    pub before: Option<f64>,
    /// The value after the change; absent if there was nothing to measure.
    pub after: Option<f64>,
    /// Lower bound of after minus before; absent where there is too little for an interval.
    pub low: Option<f64>,
    /// Upper bound of after minus before; absent where there is too little for an interval.
    pub high: Option<f64>,
    /// How often chance makes as large a change, of this row alone; absent with one recording on a side.
    pub p_value: Option<f64>,
    /// Recordings a side (of a fleet by anything but hosts: hosts) that make a change as large as this clear in 80 of 100 repetitions;
    /// absent with one on a side.
    pub needed: Option<usize>,
    /// `more`, `less`, `unclear` (chance may explain it: the interval holds zero, or would if corrected for all reasons), `too few` (no interval) or `not judged` (by what the sides are, nothing is said
    /// of any change).
    #[schemars(extend("enum" = ["more", "less", "unclear", "too few", "not judged"]))]
    pub verdict: &'static str,
}

impl Comparison {
    /// The name and version of the layout.
    pub const SCHEMA: &'static str = "exitscope.diff/1";
}

impl ReasonComparison {
    /// Rows with less than this part of the cost on either side are folded.
    pub(crate) const SMALL: f64 = 0.01;

    /// Whether less than a hundredth of the cost on either side is its own.
    pub(crate) fn is_small(&self) -> bool {
        self.share_of_cost.is_some_and(|share| share < ReasonComparison::SMALL)
    }

    /// What each of these costs, of all reasons that they are.
    pub(crate) fn set_shares(rows: &mut [ReasonComparison]) {
        let costs = |row: &ReasonComparison| {
            let cost = row.changes.iter().find(|change| change.of == DiffMeasure::Cost);
            cost.map_or([0.0; 2], |cost| [cost.before, cost.after].map(|side| side.unwrap_or(0.0)))
        };
        let of_reasons = rows.iter().filter(|row| row.reason.is_some()).map(costs);
        let all = of_reasons.fold([0.0; 2], |all, own| [all[0] + own[0], all[1] + own[1]]);
        for row in rows.iter_mut().filter(|row| row.reason.is_some()) {
            let parts = costs(row).into_iter().zip(all).filter(|(_, all)| *all > 0.0).map(|(own, all)| own / all);
            row.share_of_cost = parts.reduce(f64::max);
        }
    }

    /// Plain data of all rows; `judge` says what may be said of a change.
    pub fn all(rows: &[DiffRow], judge: &dyn Fn(&DiffRow, &MeasureChange) -> ChangeVerdict) -> Vec<ReasonComparison> {
        let mut all: Vec<ReasonComparison> = rows.iter().map(|row| ReasonComparison::of(row, judge)).collect();
        ReasonComparison::set_shares(&mut all);
        all
    }

    /// What the row is called.
    pub(crate) fn name(&self) -> String {
        match (&self.reason, &self.without[..]) {
            (Some(reason), _) => reason.clone(),
            (None, []) => "all".to_string(),
            (None, without) => format!("all but {}", without.join(", ")),
        }
    }

    /// Plain data of a row.
    pub fn of(row: &DiffRow, judge: &dyn Fn(&DiffRow, &MeasureChange) -> ChangeVerdict) -> ReasonComparison {
        ReasonComparison {
            reason: row.reason.clone(),
            without: row.without.clone(),
            count_before: row.counts.0,
            count_after: row.counts.1,
            share_of_cost: None,
            changes: row.changes.iter().map(|change| ChangeRow::of(change, judge(row, change))).collect(),
        }
    }
}

impl ChangeRow {
    fn of(change: &MeasureChange, verdict: ChangeVerdict) -> ChangeRow {
        let (measure, unit) = match change.measure {
            DiffMeasure::Rate => ("rate_per_s", 1_000.0),
            DiffMeasure::Mean => ("mean_ns", 1.0),
            DiffMeasure::P50 => ("p50_ns", 1.0),
            DiffMeasure::P99 => ("p99_ns", 1.0),
            DiffMeasure::Cost => ("cost_ns_per_s", 1.0),
            DiffMeasure::CostOfGuest => ("cost_ns_per_guest_s", 1.0),
            DiffMeasure::CostOfWork => ("cost_ns_per_work", 1_000.0),
            DiffMeasure::Guest => ("guest_ns_per_s", 1.0),
            DiffMeasure::Steal => ("steal_ns_per_s", 1.0),
        };
        ChangeRow {
            measure,
            of: change.measure,
            before: change.before.map(|value| value as f64 / unit),
            after: change.after.map(|value| value as f64 / unit),
            low: change.interval.map(|interval| interval.low as f64 / unit),
            high: change.interval.map(|interval| interval.high as f64 / unit),
            p_value: change.units.map(|units| units.p_value),
            needed: change.units.and_then(|units| units.needed),
            verdict: match verdict {
                ChangeVerdict::More => "more",
                ChangeVerdict::Less => "less",
                ChangeVerdict::Unclear => "unclear",
                ChangeVerdict::TooFew => "too few",
                ChangeVerdict::NotJudged => "not judged",
            },
        }
    }

    /// A value of this measure for a person.
    pub(crate) fn text(&self, value: Option<f64>) -> String {
        let Some(value) = value else { return "-".to_string() };
        match self.of {
            DiffMeasure::Rate | DiffMeasure::Cost if value == 0.0 => "0/s".to_string(),
            DiffMeasure::Rate if value < 10.0 => format!("{value:.2}/s"),
            DiffMeasure::Rate if value < 100.0 => format!("{value:.1}/s"),
            DiffMeasure::Rate => format!("{}/s", thousands(value.round() as u64)),
            DiffMeasure::Cost | DiffMeasure::CostOfGuest | DiffMeasure::Guest | DiffMeasure::Steal => {
                format!("{}/s", Nanos(value.round() as u64))
            }
            DiffMeasure::Mean | DiffMeasure::P50 | DiffMeasure::P99 | DiffMeasure::CostOfWork => {
                Nanos(value.round() as u64).to_string()
            }
        }
    }

    /// Whether more or less is certain.
    pub(crate) fn verdict_is_clear(&self) -> bool {
        matches!(self.verdict, "more" | "less")
    }

    pub(crate) fn percent(&self) -> String {
        match (self.before, self.after) {
            (Some(before), Some(after)) if before > 0.0 => match (after - before) / before * 100.0 {
                change if change >= 99.95 => format!("+{}%", thousands(change.round() as u64)),
                change if change.abs() < 0.05 => "0.0%".to_string(),
                change => format!("{change:+.1}%"),
            },
            _ => "-".to_string(),
        }
    }

    pub(crate) fn interval_text(&self) -> String {
        let signed = |value: f64| {
            let text = self.text(Some(value.abs()));
            match text.contains(|c: char| ('1'..='9').contains(&c)) {
                true => format!("{}{text}", if value < 0.0 { '-' } else { '+' }),
                false => text,
            }
        };
        match (self.low, self.high) {
            (Some(low), Some(high)) => format!("{} to {}", signed(low), signed(high)),
            _ => "-".to_string(),
        }
    }

    pub(crate) fn verdict_text(&self) -> &'static str {
        match self.verdict {
            "unclear" | "not judged" => "",
            verdict => verdict,
        }
    }
}

impl std::fmt::Display for ChangeRow {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.of.name())
    }
}
