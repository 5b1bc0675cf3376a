//! Replays of virtual cores.

use super::{Grid, best_by, figure, head};
use crate::cli::ReplayArgs;
use crate::read::{self, Earlier, Sink};
use crate::select;
use anyhow::bail;
use exitscope_analysis::replay::{GangOutcome, GangReplay};
use exitscope_analysis::{Selection, recording};
use exitscope_model::{Event, Exit};
use exitscope_policy::vcore::Params;
use exitscope_trace::{Input, Keep};
use exitscope_units::{Moment, Nanos};
use exitscope_view::{FigureRow, Replay, ReplayRow, thousands};

const FIGURES: &[FigureRow] = &[
    figure(0, "ganged_runs", "count", false, "core runs that force somebody out"),
    figure(0, "forced_exits", "count", false, "exits of threads that had no reason of their own"),
    figure(0, "exits_avoided", "count", true, "forced exits that would not have happened"),
    figure(1, "time_lost", "ns", false, "from being forced out to the next entry"),
    figure(0, "time_won", "ns", true, "time lost less than as recorded"),
];

/// What is run over the events.
struct Replays {
    selection: Selection,
    window: (Moment, Moment),
    replay: GangReplay,
}

impl Sink for Replays {
    fn begin(&mut self, first: Moment) {
        self.window = self.selection.window(first);
    }

    fn absorb(&mut self, _: &Exit) {}

    fn runner_events(&mut self, events: &[Event]) {
        let Replays { selection, window, replay } = self;
        for event in events {
            replay.absorb(event, |vm, at| {
                window.0 <= at && at <= window.1 && (selection.vms.is_empty() || selection.vms.contains(&vm))
            });
        }
    }
}

pub fn replay(args: &ReplayArgs, input: &Input, grid: &Grid) -> anyhow::Result<Replay> {
    let selection = select::selection(&args.select, std::slice::from_ref(input))?;
    if !selection.vcpus.is_empty() {
        bail!("the threads of a virtual core leave together: --vcpu has no meaning for the policy vcore");
    }
    let configurations = grid.configurations(args.policy.name())?;
    let mut topologies = Vec::new();
    for configuration in &configurations {
        let mut params = Params::default();
        for (name, value) in &configuration.set {
            params.set(name, *value).map_err(anyhow::Error::msg)?;
        }
        if !params.fits() {
            bail!("{}: a virtual core of so many threads does not fit into a subcore", configuration.labels.join(", "));
        }
        topologies.push(params);
    }
    let fresh = || Replays {
        selection: selection.clone(),
        window: (Moment::default(), Moment::MAX),
        replay: GangReplay::new(&topologies),
    };
    let options = args.select.clock.options(Keep::Timed);
    let (trace, done) = read::read_input(input.try_clone()?, &mut Earlier::default(), false, options, fresh)?;
    let done = done.replay;
    if done.core_runs == 0 {
        bail!(
            "{}: no core run to replay. They are of POWER7 and POWER8; record there with {}",
            trace.row.name,
            recording::CORE_RUNS
        );
    }
    let mut replay = head(args, &trace, &selection);
    let (first, last) = trace.span.unwrap_or_default();
    let length = Nanos(last.since(first).unwrap_or_default().0);
    replay.over = format!("{} core runs, {length} long", thousands(done.core_runs));
    let timed = done.recorded.lost > 0;
    let shown = |figure: &&FigureRow| timed || !figure.name.starts_with("time_");
    replay.figures = FIGURES.iter().filter(shown).cloned().collect();
    let default = if timed { "time_won" } else { "exits_avoided" };
    replay.best_by = best_by(args.best.as_deref(), Some(default), &mut replay.figures)?;
    replay.vary = grid.axes();
    let row = |labels: Vec<String>, outcome: &GangOutcome| {
        let values = replay.figures.iter().map(|figure| Some(value(figure.name, outcome, &done.recorded))).collect();
        ReplayRow::of(&replay.vary, labels, &replay.figures, values)
    };
    let recorded = grid.axes.iter().map(|_| "as recorded".to_string()).collect();
    let mut rows = vec![ReplayRow { in_force: true, ..row(recorded, &done.recorded) }];
    for (configuration, (_, outcome)) in configurations.iter().zip(&done.outcomes) {
        rows.push(row(configuration.labels.clone(), outcome));
    }
    replay.rows = rows;
    replay.mark_best();
    replay.notes = vec![
        "a virtual core of fewer vCPUs needs more cores or subcores (subcores_per_core) to run as many at a time: what that \
         costs is not replayed"
            .to_string(),
        "vCPUs that were in different virtual cores when this was recorded stay so: wider ones cannot be replayed".to_string(),
    ];
    if !timed {
        replay.notes.push(format!(
            "No entry follows a forced exit in the trace, so time lost is unknown. Record with {}.",
            recording::CORE_RUNS
        ));
    }
    Ok(replay)
}

fn value(name: &str, outcome: &GangOutcome, recorded: &GangOutcome) -> f64 {
    let value = match name {
        "ganged_runs" => outcome.ganged,
        "forced_exits" => outcome.forced,
        "exits_avoided" => outcome.avoided,
        "time_lost" => outcome.lost,
        _ => recorded.lost.saturating_sub(outcome.lost),
    };
    value as f64
}
