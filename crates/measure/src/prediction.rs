//! What a trial is predicted to find: the host is recorded for a moment, and the values are replayed over that.

use crate::this_program;
use exitscope_advice::PredictedFigure;
use exitscope_analysis::Selection;
use exitscope_analysis::replay::{HaltPolicy, knobs_of};
use exitscope_apply::TriedSetting;
use exitscope_pipeline::ReadOptions;
use exitscope_pipeline::replay::predict_halts;
use exitscope_policy::Knob;
use exitscope_record::Processes;
use exitscope_trace::{EventFilter, Input, SourceOptions};
use exitscope_trial::{HostTrial, Prediction};
use exitscope_units::Nanos;
use exitscope_view::PredictedFromRow;
use std::fs::{self, File, Permissions};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::process::Stdio;
use std::thread;
use std::time::Duration;

/// How long is recorded: a turn, within these bounds.
const LENGTHS: [Nanos; 2] = [Nanos(2_000_000_000), Nanos(10_000_000_000)];

/// A larger recording is given up: the folder for temporary files may be memory.
const MAX_RECORDING: u64 = 512 << 20;

/// How often it is looked how large it is.
const LOOK: Duration = Duration::from_millis(20);

/// What the host is recorded for before a trial.
pub struct Predictor {
    policy: HaltPolicy,
    knob: &'static Knob,
    values: Vec<u64>,
    processes: Processes,
    /// How long it is recorded.
    pub length: Nanos,
}

impl Predictor {
    /// Of a trial of this setting, on all VMs or on those of `processes`. `is_guests`: a parameter of guests is that of the VM's guest,
    /// and not this machine's own. An error says why nothing is predicted of it; of most settings nothing can be.
    pub fn new(
        tried: &TriedSetting,
        turn: Nanos,
        processes: &Processes,
        is_guests: bool,
    ) -> Result<Option<Predictor>, String> {
        let of = |policy: HaltPolicy| Some((policy, knobs_of(policy.name()).find(|knob| knob.name == tried.name())?));
        let Some((policy, knob)) = HaltPolicy::ALL.into_iter().find_map(of) else { return Ok(None) };
        if policy == HaltPolicy::Guest {
            if !is_guests {
                return Err(format!("without --guest, {} is this machine's own, as if it were a guest", knob.name));
            }
            if *processes == Processes::All {
                return Err("--vm does not say which VM the guest is".to_string());
            }
            // What its polls end is no exit, so that no recording of the host has it.
            if knob.name != LIMIT || tried.in_force.iter().any(|value| knob.parse(value) != Ok(0)) {
                return Err(format!(
                    "the guest polls already, unless {LIMIT}=0 is in force and other values of it are tried"
                ));
            }
        }
        let values = tried.values.iter().map(|value| knob.parse(value)).collect::<Result<Vec<u64>, _>>();
        let values = values.map_err(|error| error.to_string())?;
        let length = turn.clamp(LENGTHS[0], LENGTHS[1]);
        Ok(Some(Predictor { policy, knob, values, processes: processes.clone(), length }))
    }

    /// Records, and predicts what can be: of host halt polling, CPU time of polls and wake-up latency; of the guest's, exits. An
    /// error says why nothing is predicted.
    pub fn predict(&self, trial: &mut HostTrial) -> Result<PredictedFromRow, String> {
        let folder = tempfile::Builder::new().permissions(Permissions::from_mode(0o700)).tempdir();
        let folder = folder.map_err(|error| format!("there is no room for a recording: {error}"))?;
        let recording = folder.path().join("perf.data");
        record(&self.processes, self.length, &recording)?;
        let input = Input::open(&recording).map_err(|error| error.to_string())?;
        let source = SourceOptions { keep: EventFilter::Used, ..SourceOptions::default() };
        let options = ReadOptions { source, need_vcpus: false, progress: |_| None };
        let knob = (self.policy, self.knob.name);
        let predicted = predict_halts(&input, options, &Selection::default(), knob, &self.values);
        let predicted = predicted.map_err(|error| error.to_string())?;
        for (setting, of) in predicted.values.iter().enumerate() {
            for (metric, figure) in of.figures() {
                trial.predict(setting, metric, prediction(&figure));
            }
        }
        Ok(PredictedFromRow { length_ns: self.length.0, halts: predicted.halts })
    }
}

/// The limit of the guest's polls.
const LIMIT: &str = "guest_halt_poll_ns";

fn prediction(of: &PredictedFigure) -> Prediction {
    Prediction { in_force: of.recorded, with: of.with, interval: (of.low, of.high) }
}

/// Has another process of this program record: it has its own rings and threads, which are gone with it.
fn record(processes: &Processes, length: Nanos, to: &Path) -> Result<(), String> {
    let mut recorder = this_program();
    recorder.args(["record", "--for", &format!("{}ns", length.0), "--output"]).arg(to);
    if let Processes::These(these) = processes {
        these.iter().for_each(|process| _ = recorder.args(["-p", &process.to_string()]));
    }
    // Not a pipe, which nobody would read while it runs.
    let errors = to.with_extension("errors");
    let said = File::options().write(true).create_new(true).mode(0o600).open(&errors);
    let said = said.map_err(|error| format!("there is no room for a recording: {error}"))?;
    recorder.stdin(Stdio::null()).stdout(Stdio::null()).stderr(said);
    let mut recorder = recorder.spawn().map_err(|error| format!("cannot record: {error}"))?;
    let status = loop {
        if let Some(status) = recorder.try_wait().map_err(|error| format!("cannot record: {error}"))? {
            break status;
        }
        if fs::metadata(to).is_ok_and(|file| file.len() > MAX_RECORDING) {
            let _ = recorder.kill().and_then(|()| recorder.wait());
            return Err(format!("the recording became larger than {} MiB", MAX_RECORDING >> 20));
        }
        thread::sleep(LOOK);
    };
    if !status.success() {
        let why = fs::read_to_string(&errors).unwrap_or_default();
        return Err(format!("cannot record: {}", why.lines().last().unwrap_or_default()));
    }
    Ok(())
}
