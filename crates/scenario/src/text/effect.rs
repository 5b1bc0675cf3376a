//! Knobs that are set and change nothing: those of another architecture, or of what no guest does.

use super::node::{Node, Value};
use crate::{Arch, Scenario, SpinWait};
use std::collections::BTreeSet;

/// The knobs that the file or an override sets, for the scenario or a VM.
pub(crate) fn knobs_set(root: &Node) -> BTreeSet<String> {
    let vms = match root.get("vm").map(|vms| &vms.value) {
        Some(Value::List(vms)) => &vms[..],
        _ => &[],
    };
    let tables = vms.iter().chain([root]).filter_map(|node| node.get("policies"));
    let entries = tables.filter_map(|table| match &table.value {
        Value::Table(entries) => Some(entries),
        _ => None,
    });
    entries.flatten().map(|entry| entry.key.clone()).collect()
}

/// Why this knob changes nothing in this scenario, if it does not.
pub(crate) fn without(knob: &str, scenario: &Scenario) -> Option<&'static str> {
    let arch = scenario.host.arch;
    let diagnoses = scenario.vms.iter().any(|vm| matches!(vm.spin, SpinWait::Diagnose(_)));
    let guests_poll = scenario.vms.iter().any(|vm| vm.cpuidle_haltpoll);
    let (idle, why) = match knob {
        "spin_retry" | "spin_generation" => {
            (!diagnoses, "no guest here spins as those of s390 do (spin = { diag44 = true, … })")
        }
        "diag9c_forwarding_hz" | "halt_poll_max_steal" => (true, "nothing is below the simulated hypervisor"),
        _ if knob.starts_with("ple_") => (arch != Arch::Vmx, "only hosts of arch = \"vmx\" have it"),
        _ if knob.starts_with("pause_filter_") => (arch != Arch::Svm, "only hosts of arch = \"svm\" have it"),
        "threads_per_core" | "subcores_per_core" | "smt_mode" | "dynamic_mt_modes" | "one_vm_per_core" => {
            (!scenario.host.ganged, "only hosts with ganged = true have virtual cores of several threads")
        }
        _ if knob.starts_with("guest_halt_poll_") || matches!(knob, "cpu_relax_ns" | "tick_ns") => {
            (!guests_poll, "no guest here polls: a VM does with cpuidle_haltpoll = true")
        }
        _ if knob.starts_with("halt_poll_ns") => {
            let all_poll = !scenario.vms.is_empty() && scenario.vms.iter().all(|vm| vm.cpuidle_haltpoll);
            (all_poll, "guests that poll (cpuidle_haltpoll = true) switch host polling off")
        }
        _ => return None,
    };
    idle.then_some(why)
}
