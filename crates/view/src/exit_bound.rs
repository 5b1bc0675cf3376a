//! "It is not the exits": the bound in words, and what else may slow a guest, which no recording of the host judges.

use crate::names::percent;
use exitscope_advice::GUEST_CHECKS;
use exitscope_analysis::{ExitBound, Facts, HiddenOfExit, PUBLISHED_HIDDEN};
use exitscope_units::Nanos;
use schemars::JsonSchema;
use serde::Serialize;

/// How much of the vCPUs' time exits and waiting take at most, where that is little and all of it is recorded.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ExitBoundRow {
    /// Exits and waiting, as a part (0 to 1) of the vCPUs' time without halts. What is unknown counts as theirs.
    pub at_most: f64,
    /// The same, with what exits hide around their tracepoints.
    pub with_hidden: f64,
    /// What an exit hides: `measured` by `lab exits` (`--hidden`), or as `published` of x86.
    #[schemars(extend("enum" = ["measured", "published"]))]
    pub hidden: &'static str,
    /// What they halted, as a part (0 to 1) of all their time.
    pub halted: f64,
    /// In a sentence.
    pub text: String,
    /// What else may slow the guest: not judged, and in no order.
    pub not_judged: Vec<GuestCheckRow>,
    /// The verdict that it stands in place of.
    #[serde(skip)]
    pub instead_of: String,
}

/// Something that may slow a guest, and that no recording of its host judges.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct GuestCheckRow {
    /// What it is.
    pub what: &'static str,
    /// What shows it: commands between backquotes.
    pub check: &'static str,
}

impl ExitBoundRow {
    /// On a host of this architecture, as `uname -m` says it, with so many CPUs; `None` where it is not known, or not little. `measured` is
    /// what all exits hide, in nanoseconds, where that was measured.
    pub(crate) fn of(facts: &Facts, (arch, cpus): (&str, u32), measured: Option<u64>) -> Option<ExitBoundRow> {
        let bound = ExitBound::of(facts, measured.map(Nanos))?;
        let part = |time: Nanos| time.0 as f64 / bound.not_halted.0.max(1) as f64;
        let all = bound.not_halted.0.saturating_add(bound.halted.0);
        let is_published = bound.hidden == HiddenOfExit::Published;
        let checks = GUEST_CHECKS.iter().filter(|row| (row.fits)(arch, cpus) && (is_published || !row.is_of_hidden));
        Some(ExitBoundRow {
            at_most: part(bound.at_most),
            with_hidden: part(bound.with_hidden),
            hidden: if is_published { "published" } else { "measured" },
            halted: bound.halted.0 as f64 / all.max(1) as f64,
            text: text(&bound),
            not_judged: checks.map(|row| GuestCheckRow { what: row.what, check: row.check }).collect(),
            instead_of: String::new(),
        })
    }

    /// What is not judged, by name.
    pub(crate) fn names(&self) -> String {
        self.not_judged.iter().map(|row| row.what).collect::<Vec<_>>().join(", ")
    }
}

fn text(bound: &ExitBound) -> String {
    let ExitBound { at_most, with_hidden, hidden, not_halted, halted } = *bound;
    let part = |time: Nanos| percent(time.0, not_halted.0);
    let hides = match hidden {
        HiddenOfExit::Measured => "with what lab exits measured around each exit".to_string(),
        HiddenOfExit::Published => format!("with up to {PUBLISHED_HIDDEN} around each exit that no tracepoint sees"),
    };
    let all = Nanos(not_halted.0.saturating_add(halted.0));
    // Hardly any halt is none.
    let (of, but_halts) = match halted.0.saturating_mul(1_000) >= all.0 {
        true => ("vCPU time but halts", format!("; {} is halted", percent(halted.0, all.0))),
        false => ("vCPU time", String::new()),
    };
    format!(
        "It is not the exits: they and waiting take at most {} of {of} ({} {hides}); the rest is the guest's own running{but_halts}",
        part(at_most),
        part(with_hidden)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_judged_is_named_one_after_the_other() {
        let row = |what| GuestCheckRow { what, check: "" };
        let mut bound = ExitBoundRow {
            at_most: 0.01,
            with_hidden: 0.02,
            hidden: "published",
            halted: 0.0,
            text: String::new(),
            not_judged: vec![row("caches"), row("memory bandwidth")],
            instead_of: String::new(),
        };
        assert_eq!(bound.names(), "caches, memory bandwidth");
        bound.not_judged.clear();
        assert_eq!(bound.names(), "");
    }
}
