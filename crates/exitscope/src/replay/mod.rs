//! `exitscope replay`: what other settings would have made of a recording.
//!
//! ```text
//! --vary, --set ─► configurations ─► pipeline: every configuration's outcome ─► figures, notes ─► Replay
//! ```

mod gang;
mod halt;
mod port;
mod yielding;

use crate::Outcome;
use crate::cli::{PolicyName, ReplayArgs, SimFormat};
use crate::read;
use crate::report::look;
use crate::select;
use anyhow::{Context, bail};
use exitscope_analysis::Selection;
use exitscope_pipeline::ReadTrace;
use exitscope_pipeline::replay::{IN_KERNEL, KnobValues, ReplayInput};
use exitscope_policy::{Knob, POLICIES};
use exitscope_scenario::vary::{self, Axes};
use exitscope_trace::Keep;
use exitscope_view::{FigureRow, FigureUnit, Replay, ReplayRow, replay_page, write_page, write_replay_csv};
use std::io::Write;

/// Configurations at most.
const MAX_CONFIGURATIONS: u64 = 10_000;

pub fn run(args: &ReplayArgs, out: &mut dyn Write) -> anyhow::Result<Outcome> {
    if args.select.narrows_exits() {
        bail!(
            "a policy is replayed over all that happened to a vCPU: --reason, --longer-than and --where have no meaning here"
        );
    }
    if args.costs.is_some() && args.policy != PolicyName::PortPath {
        bail!(
            "--costs is for port_path: of {}, all that is needed is in the recording, or unknown",
            args.policy.name()
        );
    }
    let file = read::files(args.file.as_slice(), args.input.as_slice())?.remove(0);
    let input = read::open_one(&file, &args.select.clock)?;
    let grid = Grid::new(args, args.policy.default_vary())?;
    let selection = select::selection(&args.select, std::slice::from_ref(&input))?;
    let options = read::options(&args.select.clock, Keep::Timed, &selection);
    let of = ReplayInput { input: &input, selection, options };
    let replay = match args.policy {
        PolicyName::HostHaltPoll | PolicyName::GuestHaltPoll => halt::replay(args, &of, &grid)?,
        PolicyName::Vcore => gang::replay(args, &of, &grid)?,
        PolicyName::PortPath => port::replay(args, &of, &grid)?,
        PolicyName::Yielding => yielding::replay(args, &of, grid)?,
    };
    match args.format {
        SimFormat::Json => {
            serde_json::to_writer(&mut *out, &replay)?;
            writeln!(out)?;
        }
        SimFormat::Csv => {
            for line in replay.damage() {
                say!("{line}");
            }
            write_replay_csv(&replay, &mut *out)?;
        }
        SimFormat::Text => write_page(&replay_page(&replay), look(), out)?,
    }
    Ok(Outcome::Fine)
}

/// A knob and its value.
type Setting = (&'static str, u64);

/// Every combination of the values asked for.
struct Grid {
    axes: Axes,
    set: KnobValues,
}

/// One combination.
struct Configuration {
    /// The values as they were written, in the order of the axes.
    labels: Vec<String>,
    /// All knobs that are set.
    set: KnobValues,
}

impl Grid {
    /// What was asked for, or `default`.
    fn new(args: &ReplayArgs, default: &str) -> anyhow::Result<Grid> {
        let policy = args.policy.name();
        let axes = match args.vary.is_empty() {
            true => vec![vary::parse(default).map_err(anyhow::Error::msg)?],
            false => args.vary.clone(),
        };
        let axes = Axes::new(axes).map_err(anyhow::Error::msg)?;
        let size = axes.combinations();
        if size > MAX_CONFIGURATIONS {
            bail!("{size} configurations are too many: at most {MAX_CONFIGURATIONS}");
        }
        let set = args.set.iter().map(|(key, value)| setting(policy, key, value)).collect::<anyhow::Result<_>>()?;
        for axis in axes.all() {
            axis.values.iter().try_for_each(|value| setting(policy, &axis.key, value).map(|_| ()))?;
        }
        Ok(Grid { axes, set })
    }

    /// Every configuration, the first axis changing slowest.
    fn configurations(&self, policy: &str) -> anyhow::Result<Vec<Configuration>> {
        let one = |number| {
            let values = self.axes.combination(number as usize);
            let own = values.iter().map(|(key, value)| setting(policy, key, value));
            let set = self.set.iter().map(|of| Ok(*of)).chain(own).collect::<anyhow::Result<_>>()?;
            Ok(Configuration { labels: values.iter().map(|row| row.1.to_string()).collect(), set })
        };
        (0..self.axes.combinations()).map(one).collect()
    }
}

/// The knobs of a policy, and what its replay can vary besides.
fn knobs(policy: &str) -> impl Iterator<Item = &'static Knob> {
    let of_policy = POLICIES.iter().filter(move |row| row.0 == policy).flat_map(|row| row.1);
    of_policy.chain((policy == "port_path").then_some(&IN_KERNEL))
}

fn setting(policy: &str, key: &str, value: &str) -> anyhow::Result<Setting> {
    let knob = knobs(policy).find(|knob| knob.name == key).with_context(|| {
        let names: Vec<&str> = knobs(policy).map(|knob| knob.name).collect();
        format!("{policy} has no knob {key}; it has {}", names.join(", "))
    })?;
    Ok((knob.name, knob.parse(value).map_err(anyhow::Error::msg)?))
}

/// A figure of a replay, and where its number comes from.
struct Figure<Outcome> {
    row: FigureRow,
    /// Its value of an outcome; the second is that of the settings in force.
    value: fn(&Outcome, &Outcome) -> Option<f64>,
}

impl<Outcome> Figure<Outcome> {
    const fn new(
        rank: u8,
        name: &'static str,
        unit: FigureUnit,
        higher_is_better: bool,
        about: &'static str,
        value: fn(&Outcome, &Outcome) -> Option<f64>,
    ) -> Figure<Outcome> {
        Figure { row: FigureRow { name, unit, higher_is_better, description: about, rank }, value }
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
    figures: &[&Figure<Outcome>],
    best: Option<&str>,
    start: Start<'a, Outcome>,
    others: impl Iterator<Item = (Vec<String>, &'a Outcome)>,
) -> anyhow::Result<()> {
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

/// The figure of this name, which decides which row is the best: the highest, with `-` before it the lowest.
fn best_by(wanted: &str, figures: &mut [FigureRow]) -> anyhow::Result<FigureRow> {
    let name = wanted.strip_prefix('-').unwrap_or(wanted);
    let names: Vec<&str> = figures.iter().map(|figure| figure.name).collect();
    let unknown = || format!("--best: there is no figure {name}; there are {}", names.join(", "));
    let figure = figures.iter_mut().find(|figure| figure.name == name).with_context(unknown)?;
    figure.higher_is_better = !wanted.starts_with('-');
    Ok(figure.clone())
}

/// What all replays have in common.
fn head(args: &ReplayArgs, trace: &ReadTrace, selection: &Selection) -> Replay {
    let coverage = exitscope_view::Coverage::of(&trace.ledger, trace.exits, trace.timed_exits);
    Replay {
        schema: Replay::SCHEMA,
        trace: read::row(trace),
        coverage: coverage.lines,
        selection: exitscope_view::SelectionRow::of(selection),
        policy: args.policy.name(),
        over: String::new(),
        in_force: Vec::new(),
        decisions: None,
        vary: Vec::new(),
        figures: Vec::new(),
        best_by: None,
        rows: Vec::new(),
        notes: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::Figure;

    /// Checks that the figures are these, and that each has its own number of an outcome whose numbers all differ.
    pub fn check<Outcome>(figures: &[&Figure<Outcome>], outcome: &Outcome, base: &Outcome, wanted: &[(&str, f64)]) {
        let found: Vec<(&str, f64)> =
            figures.iter().map(|figure| (figure.row.name, (figure.value)(outcome, base).unwrap())).collect();
        assert_eq!(found, wanted);
        for (at, (name, value)) in wanted.iter().enumerate() {
            assert!(wanted[..at].iter().all(|other| other.1 != *value), "{name} has the number of another");
        }
    }
}
