//! Replays of yields: PAUSE loops with other windows, s390 lock code that spins longer, asks otherwise, or not at all.

use super::{Grid, table};
use crate::cli::ReplayArgs;
use exitscope_analysis::replay::SpinModel;
use exitscope_model::YieldCall;
use exitscope_pipeline::replay::{CALL_AXIS, ReplayInput, SurveyedYields, replay_yields, spin_rows, survey_yields};
use exitscope_view::{AxisRow, Replay};

pub fn replay(args: &ReplayArgs, of: &ReplayInput, grid: Grid) -> anyhow::Result<Replay> {
    let surveyed = survey_yields(of)?;
    let SurveyedYields { survey, call, in_force, .. } = &surveyed;
    let call = *call;
    let grid = if args.vary.is_empty() { Grid::new(args, default_vary(call))? } else { grid };
    let (labels, sets) = grid.labels_and_sets(args.policy.name())?;
    let names = grid.axes.all().iter().map(|axis| axis.key.as_str()).chain(grid.set.iter().map(|row| row.0));
    let rows = labels.into_iter().zip(sets).collect();
    let (calls, rows) = spin_rows(&surveyed, names, rows, args.vary.is_empty())?;
    let (labels, asks): (Vec<_>, Vec<_>) = rows.into_iter().unzip();
    let calls = calls.map(|calls| AxisRow::new(CALL_AXIS.to_string(), calls)).into_iter();
    let axes = calls.chain(AxisRow::all(&grid.axes)).collect();
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
