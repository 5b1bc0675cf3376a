//! Where the time of rows went in the last intervals.
//!
//! ```text
//! Figures of each interval ─► History of each row: shares of each part, KEPT intervals of them
//! ```

use crate::frame::Figures;
use exitscope_model::TimePart;
use std::collections::VecDeque;

/// Intervals that are kept of each row; an interval takes 40 bytes.
pub const KEPT: usize = 60;

/// A part of the vCPUs' time as live counting tells them apart: together they are all of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LivePart {
    Cost,
    Guest,
    Polling,
    Halted,
    Undivided,
    Memory,
    Steal,
    Stopped,
    Unknown,
}

impl LivePart {
    /// All, in the order in which they are shown.
    pub const ALL: [LivePart; 9] = [
        LivePart::Cost,
        LivePart::Guest,
        LivePart::Polling,
        LivePart::Halted,
        LivePart::Undivided,
        LivePart::Memory,
        LivePart::Steal,
        LivePart::Stopped,
        LivePart::Unknown,
    ];

    pub const fn name(self) -> &'static str {
        match self {
            LivePart::Cost => "cost",
            LivePart::Guest => TimePart::Guest.name(),
            LivePart::Polling => TimePart::Polling.name(),
            LivePart::Halted => TimePart::Halted.name(),
            LivePart::Undivided => TimePart::Undivided.name(),
            LivePart::Memory => TimePart::Memory.name(),
            LivePart::Steal => TimePart::Steal.name(),
            LivePart::Stopped => TimePart::Stopped.name(),
            LivePart::Unknown => TimePart::Unknown.name(),
        }
    }

    /// The share of the vCPUs' time that it is; nothing of steal where the scheduler does not tell.
    pub fn of(self, figures: &Figures) -> Option<f64> {
        match self {
            LivePart::Cost => Some(figures.cost),
            LivePart::Guest => Some(figures.guest),
            LivePart::Polling => Some(figures.polling),
            LivePart::Halted => Some(figures.halted),
            LivePart::Undivided => Some(figures.halt_not_divided),
            LivePart::Memory => Some(figures.waiting_for_memory),
            LivePart::Steal => figures.steal,
            LivePart::Stopped => Some(figures.stopped),
            LivePart::Unknown => Some(figures.unknown),
        }
    }
}

/// The last intervals of a row, the latest last.
#[derive(Clone, Debug, Default)]
pub struct History {
    intervals: VecDeque<Interval>,
}

#[derive(Clone, Debug)]
struct Interval {
    /// The vCPUs' time in it, in seconds.
    seconds: f32,
    shares: [f32; LivePart::ALL.len()],
}

impl History {
    /// Adds an interval; the oldest leaves when there are more than [`KEPT`].
    pub fn push(&mut self, figures: &Figures) {
        let shares = LivePart::ALL.map(|part| part.of(figures).unwrap_or(0.0) as f32);
        self.intervals.push_back(Interval { seconds: figures.vcpu_seconds as f32, shares });
        self.intervals.drain(..self.intervals.len().saturating_sub(KEPT));
    }

    /// Intervals that are there.
    pub fn len(&self) -> usize {
        self.intervals.len()
    }

    /// The shares of a part in the last `most` intervals.
    pub fn shares(&self, part: LivePart, most: usize) -> impl Iterator<Item = f64> {
        let from = self.len().saturating_sub(most);
        self.intervals.iter().skip(from).map(move |interval| f64::from(interval.shares[part as usize]))
    }

    /// The share of a part in the vCPUs' time of the last `most` intervals.
    pub fn mean(&self, part: LivePart, most: usize) -> f64 {
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
        let figures = |cost, vcpu_seconds| Figures { cost, vcpu_seconds, ..Figures::default() };
        assert_eq!(history.mean(LivePart::Cost, KEPT), 0.0);
        // A vCPU that came late had a short interval.
        history.push(&figures(1.0, 0.25));
        history.push(&figures(0.5, 0.75));
        assert_eq!(history.mean(LivePart::Cost, KEPT), 0.625);
        assert_eq!((history.mean(LivePart::Cost, 1), history.mean(LivePart::Steal, KEPT)), (0.5, 0.0));
        assert_eq!(history.shares(LivePart::Cost, 1).collect::<Vec<_>>(), [0.5]);
        for _ in 0..KEPT {
            history.push(&figures(0.25, 1.0));
        }
        assert_eq!((history.len(), history.mean(LivePart::Cost, KEPT)), (KEPT, 0.25));
    }

    #[test]
    fn every_part_has_its_own_share() {
        let figures = Figures {
            cost: 0.01,
            guest: 0.02,
            polling: 0.03,
            halted: 0.04,
            halt_not_divided: 0.05,
            waiting_for_memory: 0.06,
            steal: None,
            stopped: 0.08,
            unknown: 0.09,
            ..Figures::default()
        };
        let shares = LivePart::ALL.map(|part| part.of(&figures).map(|share| (share * 100.0).round()));
        let expected = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0].map(Some);
        assert_eq!(shares.map(|share| share.or(Some(7.0))), expected);
        assert_eq!(LivePart::Steal.of(&figures), None);
    }
}
