//! Where the time of rows went in the last intervals.
//!
//! ```text
//! RateFigures of each interval ─► History of each row: shares of each part, KEPT intervals of them
//! ```

use crate::frame::RateFigures;
use exitscope_model::{ALL_PARTS, TimePart};
use std::collections::VecDeque;

/// Intervals that are kept of each row; an interval takes 48 bytes.
pub const KEPT: usize = 60;

/// The last intervals of a row, the latest last.
#[derive(Clone, Debug, Default)]
pub struct History {
    intervals: VecDeque<Interval>,
}

#[derive(Clone, Debug)]
struct Interval {
    /// The vCPUs' time in it, in seconds.
    seconds: f32,
    /// By part.
    shares: [f32; ALL_PARTS],
}

impl History {
    /// Adds an interval; the oldest leaves when there are more than [`KEPT`].
    pub fn push(&mut self, figures: &RateFigures) {
        let mut shares = [0.0; ALL_PARTS];
        TimePart::ALL.iter().for_each(|&part| shares[part as usize] = figures.share_of(part).unwrap_or(0.0) as f32);
        self.intervals.push_back(Interval { seconds: figures.vcpu_seconds as f32, shares });
        self.intervals.drain(..self.intervals.len().saturating_sub(KEPT));
    }

    /// Intervals that are there.
    pub fn len(&self) -> usize {
        self.intervals.len()
    }

    /// The shares of a part in the last `most` intervals.
    pub fn shares(&self, part: TimePart, most: usize) -> impl Iterator<Item = f64> {
        let from = self.len().saturating_sub(most);
        self.intervals.iter().skip(from).map(move |interval| f64::from(interval.shares[part as usize]))
    }

    /// The share of a part in the vCPUs' time of the last `most` intervals.
    pub fn mean(&self, part: TimePart, most: usize) -> f64 {
        let from = self.len().saturating_sub(most);
        let of = |interval: &Interval| f64::from(interval.seconds) * f64::from(interval.shares[part as usize]);
        let seconds: f64 = self.intervals.iter().skip(from).map(|interval| f64::from(interval.seconds)).sum();
        let time: f64 = self.intervals.iter().skip(from).map(of).sum();
        if seconds > 0.0 { time / seconds } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_intervals_are_kept_and_a_mean_is_of_the_vcpus_time() {
        let mut history = History::default();
        let figures = |cost, vcpu_seconds| RateFigures { cost: Some(cost), vcpu_seconds, ..RateFigures::default() };
        assert_eq!(history.mean(TimePart::Kernel, KEPT), 0.0);
        // A vCPU that came late had a short interval.
        history.push(&figures(1.0, 0.25));
        history.push(&figures(0.5, 0.75));
        assert_eq!(history.mean(TimePart::Kernel, KEPT), 0.625);
        assert_eq!((history.mean(TimePart::Kernel, 1), history.mean(TimePart::Steal, KEPT)), (0.5, 0.0));
        assert_eq!(history.shares(TimePart::Kernel, 1).collect::<Vec<_>>(), [0.5]);
        for _ in 0..KEPT {
            history.push(&figures(0.25, 1.0));
        }
        assert_eq!((history.len(), history.mean(TimePart::Kernel, KEPT)), (KEPT, 0.25));
    }
}
