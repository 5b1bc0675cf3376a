//! Replays of yields: PAUSE loops with other windows, s390 lock code that spins longer, asks otherwise, or not at all.

use super::{Configuration, Grid, table};
use crate::cli::ReplayArgs;
use anyhow::bail;
use exitscope_analysis::replay::{MACHINE, SpinModel};
use exitscope_model::YieldCall;
use exitscope_pipeline::replay::{ReplayInput, SurveyedYields, replay_yields, survey_yields};
use exitscope_policy::yielding::{DiagnoseSupport, Generation, Params};
use exitscope_view::{AxisRow, Replay};

/// What waiters say, and the lock code that says so. Today's code asks before every call only directly in a partition.
const SAYS: [(&str, Option<(Generation, DiagnoseSupport)>); 4] = [
    ("none", None),
    ("X'44'", Some((Generation::L1b, MACHINE))),
    ("X'9C'", Some((Generation::L2, MACHINE))),
    ("X'9C' sensing", Some((Generation::Classic, DiagnoseSupport { sense_running: true, lpar: true, ..MACHINE }))),
];

/// The axis of [`SAYS`].
const CALL_AXIS: &str = "call";

pub fn replay(args: &ReplayArgs, of: &ReplayInput, grid: Grid) -> anyhow::Result<Replay> {
    let surveyed = survey_yields(of)?;
    let SurveyedYields { survey, call, in_force, .. } = &surveyed;
    let call = *call;
    let grid = if args.vary.is_empty() { Grid::new(args, default_vary(call))? } else { grid };
    let (axes, configurations) = configurations(&grid, args, call, in_force)?;
    let (labels, asks): (Vec<_>, Vec<_>) = configurations.into_iter().unzip();
    let (trace, done) = replay_yields(of, &surveyed, &asks)?;
    let senses = asks.iter().any(|asks| matches!(asks, SpinModel::Code(_, machine) if machine.sense_running));
    Ok(table(args, of, &trace, axes, labels).yields(survey, (call, in_force), senses, &done)?)
}

fn default_vary(call: YieldCall) -> &'static str {
    match call {
        YieldCall::Pause => "ple_window=1024,2048,4096,8192,16384,65536,1048576",
        YieldCall::PauseFilter => "pause_filter_count=500,1000,3000,10000,30000,65535",
        _ => "spin_retry=0,100,1000,10000,100000",
    }
}

type Labelled = (Vec<String>, SpinModel);

/// What is varied, and every row. Unless the lock code's generation is, waiters say each thing they can, and nothing.
fn configurations(
    grid: &Grid,
    args: &ReplayArgs,
    call: YieldCall,
    in_force: &SpinModel,
) -> anyhow::Result<(Vec<AxisRow>, Vec<Labelled>)> {
    let plain = grid.configurations(args.policy.name())?;
    let base = match in_force {
        SpinModel::Vmx(params) | SpinModel::Svm(params) | SpinModel::Code(params, _) => *params,
        SpinModel::Never => Params::default(),
    };
    let with = |configuration: &Configuration, mut params: Params| -> anyhow::Result<Params> {
        for (name, value) in &configuration.set {
            params.set(name, *value)?;
        }
        Ok(params)
    };
    for name in grid.axes.all().iter().map(|axis| axis.key.as_str()).chain(grid.set.iter().map(|row| row.0)) {
        if !in_force.knobs().any(|knob| knob.name == name) {
            let own: Vec<&str> = in_force.knobs().map(|knob| knob.name).collect();
            bail!("{name} changes nothing where vCPUs yield by {}; there are {}", call.name(), own.join(", "));
        }
    }
    let mut rows = Vec::new();
    let names_code = plain.iter().flat_map(|row| &row.set).any(|(name, _)| *name == "spin_generation");
    if matches!(in_force, SpinModel::Code(..)) && !names_code {
        for (says, code) in SAYS {
            for configuration in &plain {
                let labels = [vec![says.to_string()], configuration.labels.clone()].concat();
                match code {
                    Some((generation, machine)) => {
                        let params = with(configuration, Params { spin_generation: generation, ..base })?;
                        rows.push((labels, SpinModel::Code(params, machine)));
                    }
                    // However long it spins.
                    None if rows.is_empty() => {
                        let any = configuration.labels.iter().map(|_| "-".to_string());
                        rows.push(([says.to_string()].into_iter().chain(any).collect(), SpinModel::Never));
                    }
                    None => {}
                }
            }
        }
        let says = AxisRow::new(CALL_AXIS.to_string(), SAYS.map(|row| row.0.to_string()).to_vec());
        return Ok((std::iter::once(says).chain(AxisRow::all(&grid.axes)).collect(), rows));
    }
    if args.vary.is_empty() {
        rows.push((plain[0].labels.iter().map(|_| "off".to_string()).collect(), SpinModel::Never));
    }
    for configuration in plain {
        let params = with(&configuration, base)?;
        let asks = match call {
            YieldCall::Pause => SpinModel::Vmx(params),
            YieldCall::PauseFilter => SpinModel::Svm(params),
            _ => SpinModel::Code(params, DiagnoseSupport { sense_running: true, ..MACHINE }),
        };
        rows.push((configuration.labels, asks));
    }
    Ok((AxisRow::all(&grid.axes), rows))
}
