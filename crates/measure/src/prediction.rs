//! What a trial is predicted to find: the host is recorded for a moment, and the values are replayed over that.

use exitscope_analysis::advice::PredictedFigure;
use exitscope_analysis::replay::knobs_of;
use exitscope_pipeline::ReadOptions;
use exitscope_pipeline::replay::predict_halts;
use exitscope_record::Processes;
use exitscope_trace::{EventFilter, Input, SourceOptions};
use exitscope_trial::{HostTrial, Prediction};
use exitscope_units::Nanos;
use exitscope_view::PredictedFromRow;
use std::path::Path;
use std::process::{Command, Stdio};

/// How long is recorded: a turn, within these bounds.
const LENGTHS: [Nanos; 2] = [Nanos(2_000_000_000), Nanos(10_000_000_000)];

/// Predicts what can be: of the knobs of host halt polling, CPU time of polls and wake-up latency. `values` are those of the
/// trial's settings but the one in force. An error says why nothing is predicted.
pub fn predict(
    trial: &mut HostTrial,
    name: &str,
    values: &[String],
    processes: &Processes,
) -> Result<Option<PredictedFromRow>, String> {
    let Some(knob) = knobs_of("host_halt_poll").find(|knob| knob.name == name) else { return Ok(None) };
    let length = trial.plan().lengths.turn.clamp(LENGTHS[0], LENGTHS[1]);
    let values = values.iter().map(|value| knob.parse(value)).collect::<Result<Vec<u64>, _>>();
    let values = values.map_err(|error| error.to_string())?;
    let folder = tempfile::tempdir().map_err(|error| format!("there is no room for a recording: {error}"))?;
    let recording = folder.path().join("perf.data");
    record(processes, length, &recording)?;
    let input = Input::open(&recording).map_err(|error| error.to_string())?;
    let source = SourceOptions { keep: EventFilter::Timed, ..SourceOptions::default() };
    let options = ReadOptions { source, need_vcpus: false, progress: |_| None };
    let predicted = predict_halts(&input, options, knob.name, &values).map_err(|error| error.to_string())?;
    for (setting, of) in predicted.values.iter().enumerate() {
        trial.predict(setting, "polling", prediction(&of.polling));
        if let Some(wakeup) = &of.wakeup {
            trial.predict(setting, "wakeup", prediction(wakeup));
        }
    }
    Ok(Some(PredictedFromRow { length_ns: length.0, halts: predicted.halts }))
}

fn prediction(of: &PredictedFigure) -> Prediction {
    Prediction { in_force: of.recorded, with: of.with, interval: (of.low, of.high) }
}

/// Has another process of this program record: it has its own rings and threads, which are gone with it.
fn record(processes: &Processes, length: Nanos, to: &Path) -> Result<(), String> {
    let mut recorder = Command::new("/proc/self/exe");
    recorder.args(["record", "--for", &format!("{}ns", length.0), "--output"]).arg(to);
    if let Processes::These(these) = processes {
        these.iter().for_each(|process| _ = recorder.args(["-p", &process.to_string()]));
    }
    let done = recorder.stdin(Stdio::null()).output().map_err(|error| format!("cannot record: {error}"))?;
    if !done.status.success() {
        let why = String::from_utf8_lossy(&done.stderr);
        return Err(format!("cannot record: {}", why.lines().last().unwrap_or_default()));
    }
    Ok(())
}
