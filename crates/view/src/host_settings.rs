//! On what a trace was recorded, and what recording it cost, as far as the recorder says.

use crate::names::thousands;
use crate::report::TraceRow;
use exitscope_model::{HostSetting, TraceInfo, is_of_identity, recorder};
use exitscope_policy::all_knobs;
use exitscope_units::Nanos;
use schemars::JsonSchema;
use serde::Serialize;

/// What was in force on the recorded machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct HostSettingRow {
    /// The kernel module, `host`, or `exitscope` for what the recorder says of itself.
    pub component: String,
    /// Its name, the kernel's where the kernel has one.
    pub name: String,
    /// What it was, in the kernel's spelling.
    pub value: String,
}

/// The settings of a trace; who its VMs are is told elsewhere ([`crate::VmIdentityRow`]).
pub(crate) fn rows(info: &TraceInfo) -> Vec<HostSettingRow> {
    let row = |setting: &HostSetting| HostSettingRow {
        component: setting.of.clone(),
        name: setting.name.clone(),
        value: setting.value.clone(),
    };
    info.settings.iter().filter(|setting| !is_of_identity(setting)).map(row).collect()
}

/// What a page says of the machine and of the recorder, a sentence each.
pub(crate) fn sentences(trace: &TraceRow) -> Vec<String> {
    let value = |of: &str, name: &str| {
        let found = trace.settings.iter().find(|row| row.component == of && row.name == name);
        found.map(|row| row.value.as_str())
    };
    let mut sentences = Vec::new();
    if let Some(back_end) = value("host", "back_end") {
        let mut words = vec![trace.cpu.clone(), format!("{} CPUs", trace.cpus)];
        words.retain(|word| !word.is_empty());
        words.push(format!("KVM by {back_end}"));
        for (name, shown) in [("smt", "SMT"), ("governor", "governor"), ("clock_source", "clock")] {
            words.extend(value("host", name).map(|value| format!("{shown} {value}")));
        }
        words.extend(
            trace.settings.iter().filter(|row| is_telling(row)).map(|row| format!("{}={}", row.name, row.value)),
        );
        sentences.push(format!("Recorded on {}", words.join(", ")));
    }
    let number = |name| value("exitscope", name).and_then(|text| text.parse::<u64>().ok());
    if let (Some(cost), Some(events)) =
        (number(recorder::COST_NS), number(recorder::EVENTS).filter(|events| *events > 0))
    {
        let each = (cost as f64 / events as f64).round() as u64;
        let length = trace.last_ns.saturating_sub(trace.first_ns);
        sentences.push(format!(
            "Recording took {} of the guests' time, {} for each of {} events of KVM, in {}",
            Nanos(cost),
            Nanos(each),
            thousands(events),
            Nanos(length),
        ));
    }
    sentences
}

/// Whether a reader wants to see it at once: halt polling, and every knob that is not as the kernel has it.
fn is_telling(row: &HostSettingRow) -> bool {
    let knob = all_knobs().find(|knob| knob.name == row.name && knob.file().is_some());
    knob.is_some_and(|knob| {
        knob.name == "halt_poll_ns" || knob.parse(&row.value).is_ok_and(|value| value != knob.default)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trace(settings: &[(&str, &str, &str)]) -> TraceRow {
        let settings = settings.iter().map(|&(of, name, value)| HostSettingRow {
            component: of.into(),
            name: name.into(),
            value: value.into(),
        });
        TraceRow {
            cpu: "Fast 9000".into(),
            cpus: 2,
            settings: settings.collect(),
            last_ns: 2_000_000_000,
            ..TraceRow::default()
        }
    }

    #[test]
    fn a_page_names_the_machine_the_knobs_that_matter_and_the_cost() {
        let said = sentences(&trace(&[
            ("host", "back_end", "kvm_amd"),
            ("host", "clock_source", "tsc"),
            ("kvm", "halt_poll_ns", "200000"),
            ("kvm", "halt_poll_ns_shrink", "4"),
            ("kvm", "halt_poll_ns_grow", "2"),
            ("kvm", "tdp_mmu", "Y"),
            ("exitscope", "events", "4000"),
            ("exitscope", "cost_ns", "1000000"),
        ]));
        assert_eq!(
            said,
            [
                "Recorded on Fast 9000, 2 CPUs, KVM by kvm_amd, clock tsc, halt_poll_ns=200000, halt_poll_ns_shrink=4",
                "Recording took 1.00ms of the guests' time, 250ns for each of 4,000 events of KVM, in 2.00s",
            ]
        );
    }

    #[test]
    fn other_recorders_settings_are_not_taken_for_ours() {
        assert!(sentences(&trace(&[("cpu_core", "branches", "32")])).is_empty());
        assert!(sentences(&trace(&[("exitscope", "cost_ns", "soon"), ("exitscope", "events", "1")])).is_empty());
    }
}
