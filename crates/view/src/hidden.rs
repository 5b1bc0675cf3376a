//! How much of the guests' time may be what no tracepoint sees around entry and exit: exits by reason, times the bound that
//! `lab exits` found for the reason on the same host.

use crate::lab::{LabReport, LabTable};
use crate::names::{share, thousands};
use crate::report::Report;
use exitscope_analysis::Facts;
use exitscope_scenario::findings::{HIDDEN_BOUND, HIDDEN_REASON, HIDDEN_TITLE};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;

/// What of the guests' time no tracepoint sees, at most: part of what is given as their time.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct HiddenTime {
    /// All exits together, each with the bound of its reason, in nanoseconds.
    pub at_most_ns: u64,
    /// All guests' time, in nanoseconds.
    pub guest_ns: u64,
    /// `at_most_ns` as a share of `guest_ns`, 0 to 1.
    pub share_of_guest: f64,
    /// The exits by reason, those with the most hidden time first.
    pub reasons: Vec<HiddenReason>,
    /// What makes the bounds less sure.
    pub warnings: Vec<String>,
}

/// The exits of a reason.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct HiddenReason {
    /// The exit reason.
    pub reason: String,
    /// Number of exits for this reason.
    pub exits: u64,
    /// The bound of each, in nanoseconds.
    pub bound_ns: u64,
    /// Whether it was measured for this reason; else it is the greatest that was measured for any.
    pub measured: bool,
}

impl HiddenTime {
    /// By the bounds of this run of `lab exits`; an error says why they say nothing of this report's recordings.
    pub fn of(report: &Report, facts: &Facts, lab: &LabReport) -> Result<HiddenTime, String> {
        if report.selection.narrows_exits() {
            return Err("hidden time is known only for all exits together: omit --reason, --longer-than and --where"
                .to_string());
        }
        let guest_ns = report.vcpus.iter().fold(0u64, |sum, vcpu| sum.saturating_add(vcpu.times.guest_ns));
        if guest_ns == 0 {
            return Err("the recording does not show how long vCPUs were in their guests".to_string());
        }
        let cpu = &lab.manifest.cpu;
        if let Some(other) = report.traces.iter().find(|of| !of.cpu.is_empty() && !cpu.is_empty() && of.cpu != *cpu) {
            return Err(format!(
                "the bounds were measured on another CPU ({cpu}) than that of {} ({})",
                other.name, other.cpu
            ));
        }
        let bounds = bounds(lab)?;
        let greatest = bounds.values().copied().fold(0, u64::max);
        let mut exits: BTreeMap<String, u64> = BTreeMap::new();
        for (key, phases) in facts.phases.cells() {
            *exits.entry(key.code.name()).or_default() += phases.stats.count;
        }
        let row = |(reason, exits): (String, u64)| {
            let bound = bounds.get(reason.as_str()).copied();
            HiddenReason { reason, exits, bound_ns: bound.unwrap_or(greatest), measured: bound.is_some() }
        };
        let mut reasons: Vec<HiddenReason> = exits.into_iter().map(row).collect();
        reasons.sort_by_key(|row| std::cmp::Reverse(row.exits.saturating_mul(row.bound_ns)));
        let at_most_ns =
            reasons.iter().fold(0u64, |sum, row| sum.saturating_add(row.exits.saturating_mul(row.bound_ns)));
        let kernel = &lab.manifest.kernel;
        let others = report.traces.iter().filter(|trace| !trace.release.is_empty() && trace.release != *kernel);
        let warnings = others.map(|trace| {
            format!(
                "{} was recorded on kernel {}, the bounds were measured on {kernel}: the work around entry and exit \
                 may differ",
                trace.name, trace.release
            )
        });
        let warnings = warnings.collect();
        Ok(HiddenTime { at_most_ns, guest_ns, share_of_guest: at_most_ns as f64 / guest_ns as f64, reasons, warnings })
    }

    /// What a person is told beside the division of vCPU time.
    pub(crate) fn notes(&self) -> Vec<String> {
        let not_measured: Vec<String> = (self.reasons.iter().filter(|row| !row.measured))
            .map(|row| format!("{} ({})", row.reason, thousands(row.exits)))
            .collect();
        let of_others = match not_measured.is_empty() {
            true => String::new(),
            false => {
                format!("; the greatest bound is used for {}, which have none of their own", not_measured.join(", "))
            }
        };
        let hidden = format!(
            "up to {} of guest time is hidden around entry and exit, by the bounds of lab exits{of_others}",
            share(self.share_of_guest)
        );
        [hidden].into_iter().chain(self.warnings.iter().cloned()).collect()
    }
}

/// By reason, the greatest bound in nanoseconds, whoever answers.
fn bounds(lab: &LabReport) -> Result<BTreeMap<&str, u64>, String> {
    let table = lab.tables.iter().find(|table| table.title == HIDDEN_TITLE);
    let rows = table.map_or(&[][..], |table: &LabTable| &table.rows);
    let mut bounds = BTreeMap::new();
    for row in rows {
        let bound = row.figures.iter().find(|figure| figure.name == HIDDEN_BOUND);
        if let Some((reason, bound)) = row.labels.get(HIDDEN_REASON).zip(bound) {
            let greatest: &mut u64 = bounds.entry(reason.as_str()).or_default();
            *greatest = (*greatest).max(bound.value.max(0.0).ceil() as u64);
        }
    }
    match bounds.is_empty() {
        false => Ok(bounds),
        true => Err(match rows.iter().find_map(|row| row.unavailable.as_ref()) {
            Some(why) => format!("the run of lab exits has no bounds: {why}"),
            None => "the run of lab exits has no bounds: save another with --format json".to_string(),
        }),
    }
}
