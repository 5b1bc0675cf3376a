//! `exitscope doctor`.

use crate::cli::{DoctorArgs, EventsFormat};
use crate::terminal::terminal_style;
use crate::{Outcome, write_json};
use exitscope_lab::doctor::checkup;
use exitscope_lab::open_kvm;
use exitscope_record::{Aggregation, CAPABILITIES, Capability, CountingOptions, TracingBackend, Without};
use exitscope_scenario::findings::{Check, CheckState};
use exitscope_signals::catch_signals;
use exitscope_view::{DoctorReport, doctor_page, write_page};
use std::io::Write;

pub fn run(args: &DoctorArgs, out: &mut dyn Write) -> anyhow::Result<Outcome> {
    catch_signals()?;
    let mut checks = checkup()?;
    let recording = recording();
    let works = recording.iter().all(|check| check.state != CheckState::Missing);
    checks.extend(recording);
    checks.extend(CAPABILITIES.iter().filter_map(|of| capability(of, works)));
    let checkup = DoctorReport::of(&checks);
    match args.format {
        EventsFormat::Json => write_json(&checkup, out)?,
        EventsFormat::Text => write_page(&doctor_page(&checkup), terminal_style(), out)?,
    }
    // The page has said all; without KVM the exit code and one line say so as well.
    out.flush()?;
    open_kvm()?;
    Ok(Outcome::Fine)
}

/// Whether `record` and `exporter` can do their work here, found out by beginning it.
fn recording() -> Vec<Check> {
    let row =
        |what: &str, state, found, remedy| Check { area: "Recording", what: what.to_string(), state, found, remedy };
    let what = "exitscope record and exporter";
    let counting = match Aggregation::start(&CountingOptions::default()) {
        Err(error) => {
            return vec![row(what, CheckState::Missing, "cannot be done".to_string(), Some(error.to_string()))];
        }
        Ok(counting) => counting,
    };
    match counting.route() {
        TracingBackend::PerfEvents { because } => {
            let remedy = format!(
                "BPF costs guests less: {}; a kernel needs CONFIG_BPF_SYSCALL and CONFIG_BPF_EVENTS, and in a container BPF must \
                 be allowed",
                Capability::remedy()
            );
            vec![row(what, CheckState::Limited, format!("by perf events; BPF: {because}"), Some(remedy))]
        }
        TracingBackend::Bpf => {
            let (arguments, records) = counting.tracepoints();
            let found = format!("arguments of {}; records of {}", arguments.join(", "), records.join(", "));
            let looked_at = match arguments.iter().any(|name| *name != "kvm_entry") {
                true => row("programs that count look at", CheckState::Good, found, None),
                false => {
                    let remedy = "a kernel with BTF (CONFIG_DEBUG_INFO_BTF) describes the arguments; reading \
                        arguments costs guests less than reading records";
                    row("programs that count look at", CheckState::Limited, found, Some(remedy.to_string()))
                }
            };
            vec![row(what, CheckState::Good, "by BPF programs".to_string(), None), looked_at]
        }
    }
}

/// Whether a capability that recording uses is held. Where it `works`, none is missing: groups and perf_event_paranoid may stand in.
fn capability(of: &Capability, works: bool) -> Option<Check> {
    let (state, found) = match of.is_held()? {
        true => (CheckState::Good, of.needed_for.to_string()),
        false if of.without == Without::Nothing && !works => {
            (CheckState::Missing, format!("not held: {}", of.needed_for))
        }
        false => (CheckState::Limited, format!("not held: {}", of.needed_for)),
    };
    let remedy = (state == CheckState::Missing || state == CheckState::Limited && of.without == Without::Dearer)
        .then(Capability::remedy);
    Some(Check { area: "Capabilities", what: of.name.to_string(), state, found, remedy })
}
