//! Replays of yields: PAUSE loops with other windows, s390 lock code that spins longer, asks otherwise, or not at all.

use super::{Configuration, Figure, Grid, Start, fill, head, knobs};
use crate::cli::ReplayArgs;
use anyhow::bail;
use exitscope_analysis::replay::{Asks, MACHINE, SpinOutcome, SpinSurvey};
use exitscope_model::YieldCall;
use exitscope_pipeline::replay::{ReplayInput, SurveyedYields, replay_yields, survey_yields};
use exitscope_policy::Knob;
use exitscope_policy::yielding::{Generation, Machine, Params};
use exitscope_units::Nanos;
use exitscope_view::FigureUnit::{Count, Ns};
use exitscope_view::{AxisRow, Replay, SettingRow, thousands};

/// What a figure needs besides the yields.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Needs {
    Nothing,
    /// Who waited for a CPU.
    Waiters,
    /// That, and lock code that asks whether the owner runs.
    Senses,
}

const FIGURES: [(Needs, Figure<SpinOutcome>); 7] = [
    (Needs::Nothing, Figure::new(0, "yields", Count, false, "yields", |of, _| Some(of.yields as f64))),
    (
        Needs::Waiters,
        Figure::new(
            3,
            "without_preempted_sibling",
            Count,
            false,
            "yields at which no sibling was preempted: no gain",
            |of, _| Some(of.in_vain as f64),
        ),
    ),
    (
        Needs::Senses,
        Figure::new(
            4,
            "yields_skipped",
            Count,
            true,
            "times at which sense-running said that the owner runs, so that none was made",
            |of, _| Some(of.not_made as f64),
        ),
    ),
    (Needs::Nothing, Figure::new(2, "cost", Ns, false, "CPU time of yields", |of, _| Some(of.cost as f64))),
    (
        Needs::Waiters,
        Figure::new(0, "gain_low", Ns, true, "time that waiters gain, at least", |of, _| Some(of.least as f64)),
    ),
    (
        Needs::Waiters,
        Figure::new(0, "gain_high", Ns, true, "time that waiters gain, at most", |of, _| Some(of.most as f64)),
    ),
    (
        Needs::Waiters,
        Figure::new(0, "gain", Ns, true, "the middle between gain_low and gain_high", |of, _| {
            Some((of.least as f64 + of.most as f64) / 2.0)
        }),
    ),
];

/// The figures of a recording that tells, or does not tell, who waited for a CPU, replayed with lock code that asks, or does
/// not, whether the owner runs.
fn figures(told: bool, senses: bool) -> Vec<&'static Figure<SpinOutcome>> {
    let is_met = |needs| match needs {
        Needs::Nothing => true,
        Needs::Waiters => told,
        Needs::Senses => told && senses,
    };
    FIGURES.iter().filter(|row| is_met(row.0)).map(|row| &row.1).collect()
}

/// What waiters say, and the lock code that says so. Today's code asks before every call only directly in a partition.
const SAYS: [(&str, Option<(Generation, Machine)>); 4] = [
    ("none", None),
    ("X'44'", Some((Generation::L1b, MACHINE))),
    ("X'9C'", Some((Generation::L2, MACHINE))),
    ("X'9C' sensing", Some((Generation::Classic, Machine { sense_running: true, lpar: true, ..MACHINE }))),
];

/// The axis of [`SAYS`].
const CALL_AXIS: &str = "call";

pub fn replay(args: &ReplayArgs, of: &ReplayInput, grid: Grid) -> anyhow::Result<Replay> {
    let surveyed = survey_yields(of)?;
    let SurveyedYields { survey, call, in_force, .. } = &surveyed;
    let call = *call;
    let grid = if args.vary.is_empty() { Grid::new(args, default_vary(call))? } else { grid };
    let (axes, configurations) = configurations(&grid, args, call, in_force)?;
    let asks: Vec<Asks> = configurations.iter().map(|row| row.1).collect();
    let (trace, done) = replay_yields(of, &surveyed, &asks)?;

    let mut replay = head(args, &trace, &of.selection);
    let (first, last) = trace.span.unwrap_or_default();
    replay.over = format!(
        "{} waits with {} yields by {}, {} long",
        thousands(done.waits),
        thousands(done.recorded.yields),
        call.name(),
        Nanos(last.since(first).unwrap_or_default().0)
    );
    let told = survey.known > 0;
    let senses = configurations.iter().any(|row| matches!(row.1, Asks::Code(_, machine) if machine.sense_running));
    replay.vary = axes;
    replay.in_force = settings(in_force);
    let outcomes = configurations.into_iter().map(|row| row.0).zip(done.outcomes());
    let best = args.best.as_deref().or(told.then_some("gain"));
    fill(&mut replay, &figures(told, senses), best, Start::Recorded(&done.recorded), outcomes)?;
    replay.notes = notes(survey, call, told, trace.how_to_record());
    Ok(replay)
}

fn default_vary(call: YieldCall) -> &'static str {
    match call {
        YieldCall::Pause => "ple_window=1024,2048,4096,8192,16384,65536,1048576",
        YieldCall::PauseFilter => "pause_filter_count=500,1000,3000,10000,30000,65535",
        _ => "spin_retry=0,100,1000,10000,100000",
    }
}

type Labelled = (Vec<String>, Asks);

/// What is varied, and every row. Unless the lock code's generation is, waiters say each thing they can, and nothing.
fn configurations(
    grid: &Grid,
    args: &ReplayArgs,
    call: YieldCall,
    in_force: &Asks,
) -> anyhow::Result<(Vec<AxisRow>, Vec<Labelled>)> {
    let plain = grid.configurations(args.policy.name())?;
    let base = match in_force {
        Asks::Vmx(params) | Asks::Svm(params) | Asks::Code(params, _) => *params,
        Asks::Never => Params::default(),
    };
    let with = |configuration: &Configuration, mut params: Params| -> anyhow::Result<Params> {
        for (name, value) in &configuration.set {
            params.set(name, *value)?;
        }
        Ok(params)
    };
    for name in grid.axes.all().iter().map(|axis| axis.key.as_str()).chain(grid.set.iter().map(|row| row.0)) {
        if !own_knobs(in_force).any(|knob| knob.name == name) {
            let own: Vec<&str> = own_knobs(in_force).map(|knob| knob.name).collect();
            bail!("{name} changes nothing where vCPUs yield by {}; there are {}", call.name(), own.join(", "));
        }
    }
    let mut rows = Vec::new();
    let names_code = plain.iter().flat_map(|row| &row.set).any(|(name, _)| *name == "spin_generation");
    if matches!(in_force, Asks::Code(..)) && !names_code {
        for (says, code) in SAYS {
            for configuration in &plain {
                let labels = [vec![says.to_string()], configuration.labels.clone()].concat();
                match code {
                    Some((generation, machine)) => {
                        let params = with(configuration, Params { spin_generation: generation, ..base })?;
                        rows.push((labels, Asks::Code(params, machine)));
                    }
                    // However long it spins.
                    None if rows.is_empty() => {
                        let any = configuration.labels.iter().map(|_| "-".to_string());
                        rows.push(([says.to_string()].into_iter().chain(any).collect(), Asks::Never));
                    }
                    None => {}
                }
            }
        }
        let says = AxisRow::new(CALL_AXIS.to_string(), SAYS.map(|row| row.0.to_string()).to_vec());
        return Ok((std::iter::once(says).chain(AxisRow::all(&grid.axes)).collect(), rows));
    }
    if args.vary.is_empty() {
        rows.push((plain[0].labels.iter().map(|_| "off".to_string()).collect(), Asks::Never));
    }
    for configuration in plain {
        let params = with(&configuration, base)?;
        let asks = match call {
            YieldCall::Pause => Asks::Vmx(params),
            YieldCall::PauseFilter => Asks::Svm(params),
            _ => Asks::Code(params, Machine { sense_running: true, ..MACHINE }),
        };
        rows.push((configuration.labels, asks));
    }
    Ok((AxisRow::all(&grid.axes), rows))
}

/// The knobs that matter to who asks so.
fn own_knobs(asks: &Asks) -> impl Iterator<Item = &'static Knob> + use<> {
    let prefix = match asks {
        Asks::Vmx(_) => "ple_",
        Asks::Svm(_) => "pause_filter_",
        Asks::Code(..) | Asks::Never => "spin_",
    };
    knobs("yielding").filter(move |knob| knob.name.starts_with(prefix))
}

/// The settings that were in force.
fn settings(asks: &Asks) -> Vec<SettingRow> {
    let (Asks::Vmx(params) | Asks::Svm(params) | Asks::Code(params, _)) = asks else { return Vec::new() };
    let row = |knob: &'static Knob| SettingRow {
        knob: knob.name,
        value: knob.text(params.get(knob.name).unwrap_or(knob.default)).to_string(),
    };
    own_knobs(asks).map(row).collect()
}

fn notes(survey: &SpinSurvey, call: YieldCall, told: bool, record: &str) -> Vec<String> {
    let mut notes = Vec::new();
    if !told {
        notes.push(format!(
            "Who waited for a CPU is not in the trace, so that what a yield can win is unknown. Record with {record}."
        ));
    }
    notes.push(match (call, survey.least_window) {
        (YieldCall::Pause | YieldCall::PauseFilter, Some(_)) => {
            "the smallest window that was traced is taken for its base; the other settings in force are taken to be the defaults"
                .to_string()
        }
        (YieldCall::Pause | YieldCall::PauseFilter, None) if survey.is_static() => {
            "no change of a window was traced, and the time between yields is always the same: windows are taken not to grow, and \
             that time for the default window"
                .to_string()
        }
        _ => "the settings in force are not in the trace and are taken to be the defaults: the time between yields is set equal to \
              what these make"
            .to_string(),
    });
    notes.push(
        "at least, at most: nobody knows which vCPU held the lock; a sibling that had lost its CPU may have, and a yield then \
         may have ended the wait, or changed nothing. The CPU time of yields that are not made is in both"
            .to_string(),
    );
    notes.push(
        "the waits are taken as they were: those that ended before a yield are not in the trace, so that who yields sooner \
         yields more often than is shown; and a guest whose locks are free sooner has fewer"
            .to_string(),
    );
    if matches!(call, YieldCall::Diag44 | YieldCall::Diag9c) {
        notes.push(
            "sense-running is an exit of its own under KVM, which is not counted; X'9C' is taken to name a vCPU that had lost its \
             CPU, if there was one"
                .to_string(),
        );
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_figure_of_yields_is_its_own() {
        let outcome = SpinOutcome { yields: 3, in_vain: 5, not_made: 7, cost: 11, least: -13, most: 17 };
        let [yields, cost] = [("yields", 3.0), ("cost", 11.0)];
        let [in_vain, not_made] = [("without_preempted_sibling", 5.0), ("yields_skipped", 7.0)];
        let won = [("gain_low", -13.0), ("gain_high", 17.0), ("gain", 2.0)];
        for (told, senses, wanted) in [
            (false, true, vec![yields, cost]),
            (true, false, [&[yields, in_vain, cost], &won[..]].concat()),
            (true, true, [&[yields, in_vain, not_made, cost], &won[..]].concat()),
        ] {
            super::super::tests::check(&figures(told, senses), &outcome, &SpinOutcome::default(), &wanted);
        }
    }
}
