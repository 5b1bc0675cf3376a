//! The figures of replays, by policy: a table with a row for each configuration, and what has to be known to read it.
//!
//! ```text
//! outcomes of configurations ─► figures, notes ─► Replay
//! ```

mod halts;
mod ports;
mod vcores;
mod yields;

use crate::FigureUnit;
use crate::replay::{FigureRow, Replay, ReplayRow};
use exitscope_analysis::record_commands::HowToRecord;
use exitscope_units::Nanos;

/// A replay whose table is still to be filled.
pub struct ReplayTable<'a> {
    /// All that is known before: what was read, and what was varied.
    pub replay: Replay,
    /// How long the recording is.
    pub length: Nanos,
    /// The values of each configuration, in the order of what was varied.
    pub labels: Vec<Vec<String>>,
    /// The figure that decides which row is the best: a name for the highest, with `-` before it the lowest.
    pub best: Option<&'a str>,
    /// How to record what the recording lacks.
    pub record: HowToRecord,
}

/// A figure of a replay, and where its number comes from.
struct ReplayFigure<Outcome> {
    row: FigureRow,
    /// Its value of an outcome; the second is that of the settings in force.
    value: fn(&Outcome, &Outcome) -> Option<f64>,
}

impl<Outcome> ReplayFigure<Outcome> {
    const fn new(
        rank: u8,
        name: &'static str,
        unit: FigureUnit,
        higher_is_better: bool,
        about: &'static str,
        value: fn(&Outcome, &Outcome) -> Option<f64>,
    ) -> ReplayFigure<Outcome> {
        ReplayFigure { row: FigureRow { name, unit, higher_is_better, description: about, rank }, value }
    }
}

/// What the table begins with.
enum Start<'a, Outcome> {
    /// What was recorded, and what the settings in force make of it when they are replayed.
    Both { recorded: &'a Outcome, in_force: (Vec<String>, &'a Outcome) },
    /// The settings in force, replayed.
    InForce(Vec<String>, &'a Outcome),
    /// What was recorded, which needs no replay.
    Recorded(&'a Outcome),
}

/// Fills the table of `replay`, whose axes are known: how it was, then a row for each of `others`. The figure `best` decides
/// which is the best.
fn fill<'a, Outcome: 'a>(
    replay: &mut Replay,
    figures: &[&ReplayFigure<Outcome>],
    best: Option<&str>,
    start: Start<'a, Outcome>,
    others: impl Iterator<Item = (Vec<String>, &'a Outcome)>,
) -> Result<(), NoSuchFigure> {
    let as_recorded = replay.vary.iter().map(|_| "as recorded".to_string()).collect();
    let is_recorded = matches!(start, Start::Recorded(_));
    let (recorded, in_force) = match start {
        Start::Both { recorded, in_force } => (Some((as_recorded, recorded)), in_force),
        Start::InForce(labels, outcome) => (None, (labels, outcome)),
        Start::Recorded(outcome) => (None, (as_recorded, outcome)),
    };
    let base = in_force.1;
    replay.figures = figures.iter().map(|figure| figure.row.clone()).collect();
    replay.best_by = best.map(|best| best_by(best, &mut replay.figures)).transpose()?;
    let row = |(labels, outcome): (Vec<String>, &Outcome)| {
        let values = figures.iter().map(|figure| (figure.value)(outcome, base)).collect();
        ReplayRow::of(&replay.vary, labels, &replay.figures, values)
    };
    let recorded = recorded.map(|recorded| ReplayRow { recorded: true, ..row(recorded) });
    let in_force = ReplayRow { in_force: true, recorded: is_recorded, ..row(in_force) };
    replay.rows = recorded.into_iter().chain([in_force]).chain(others.map(row)).collect();
    replay.mark_best();
    Ok(())
}

/// There is no figure of that name.
#[derive(Debug, thiserror::Error)]
#[error("--best: there is no figure {name}; there are {known}")]
pub struct NoSuchFigure {
    name: String,
    known: String,
}

/// The figure of this name, which decides which row is the best: the highest, with `-` before it the lowest.
fn best_by(wanted: &str, figures: &mut [FigureRow]) -> Result<FigureRow, NoSuchFigure> {
    let name = wanted.strip_prefix('-').unwrap_or(wanted);
    let Some(at) = figures.iter().position(|figure| figure.name == name) else {
        let names: Vec<&str> = figures.iter().map(|figure| figure.name).collect();
        return Err(NoSuchFigure { name: name.to_string(), known: names.join(", ") });
    };
    figures[at].higher_is_better = !wanted.starts_with('-');
    Ok(figures[at].clone())
}

#[cfg(test)]
mod tests {
    use super::ReplayFigure;

    /// Checks that the figures are these, and that each has its own number of an outcome whose numbers all differ.
    pub fn check<Outcome>(
        figures: &[&ReplayFigure<Outcome>],
        outcome: &Outcome,
        base: &Outcome,
        wanted: &[(&str, f64)],
    ) {
        let found: Vec<(&str, f64)> =
            figures.iter().map(|figure| (figure.row.name, (figure.value)(outcome, base).unwrap())).collect();
        assert_eq!(found, wanted);
        for (at, (name, value)) in wanted.iter().enumerate() {
            assert!(wanted[..at].iter().all(|other| other.1 != *value), "{name} has the number of another");
        }
    }
}
