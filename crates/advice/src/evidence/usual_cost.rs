//! What exits cost without waits for a CPU, for sure and usually.
//!
//! ```text
//! each exit counts one median at most ────────────────────────────► sure: what waits and rare long ones add is left out
//! sched_switch recorded ─► waits are steal, and not in the cost ──► usual: the cost
//! not recorded ──────────► each exit counts two medians at most ──► usual
//! ```

use exitscope_analysis::ExitStats;
use exitscope_units::Nanos;

/// So many medians count of an exit at most where it may have waited for a CPU. With less a long tail is lost, with more waits are
/// counted: docs/gains.md has how near this is to the truth.
const USUAL: u64 = 2;

/// The time of the exits, of each one median at most.
pub(crate) fn sure_cost(cell: &ExitStats) -> u64 {
    capped(cell, 1)
}

/// What the exits usually cost together.
pub(crate) fn usual_cost(cell: &ExitStats, has_switches: bool) -> u64 {
    if has_switches { cell.cost().0 } else { capped(cell, USUAL) }
}

/// The time of the exits, of each so many medians at most.
fn capped(cell: &ExitStats, medians: u64) -> u64 {
    let cap = cell.quantile(5_000).unwrap_or(Nanos::ZERO).0.saturating_mul(medians);
    let counts = cell.durations.counts();
    // Of a bucket, its middle; no exit was shorter than the shortest.
    let length = |low: u64, width: u64| (low + (width - 1) / 2).max(cell.min.unwrap_or(0)).min(cap);
    let sum = counts.buckets().map(|(low, width, count)| count.saturating_mul(length(low, width)));
    sum.fold(0, u64::saturating_add).min(cell.cost().0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_exits::{exit, spent, vcpu};
    use exitscope_model::{CodeList, Exit, ExitCode, TimePart};

    fn cell(lengths: &[u64]) -> ExitStats {
        let mut cell = ExitStats::default();
        for (number, length) in (0..).zip(lengths) {
            let of = exit(vcpu(0), number, ExitCode::new(CodeList::Vmx, 30));
            cell.absorb(&Exit { parts: spent(TimePart::Kernel, *length), ..of });
        }
        cell
    }

    #[test]
    fn a_long_exit_counts_in_full_only_where_waits_are_told_apart() {
        let of = cell(&[8, 10, 10, 12, 15, 5_000]);
        assert_eq!((usual_cost(&of, true), usual_cost(&of, false)), (5_055, 8 + 10 + 10 + 12 + 15 + 20));
        assert_eq!(sure_cost(&of), 8 + 10 + 10 + 10 + 10 + 10);
    }

    #[test]
    fn alike_exits_cost_what_they_cost_and_none_cost_nothing() {
        for length in [7, 20_000, 123_456_789] {
            let of = cell(&[length; 100]);
            let all = 100 * length;
            assert_eq!((sure_cost(&of), usual_cost(&of, false), usual_cost(&of, true)), (all, all, all), "{length}");
        }
        let none = cell(&[]);
        assert_eq!((sure_cost(&none), usual_cost(&none, false), usual_cost(&none, true)), (0, 0, 0));
    }

    /// Exits of no length, as of a clock that is too coarse, add nothing.
    #[test]
    fn exits_without_a_length_are_not_made_longer() {
        let of = cell(&[0, 0, 0, 9]);
        assert_eq!((sure_cost(&of), usual_cost(&of, false)), (0, 0));
    }
}
