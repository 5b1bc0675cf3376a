//! What of a scenario a real run follows: the rest is this machine's own.

use exitscope_policy::{Policies, all_knobs};
use exitscope_scenario::{CostModel, HostSpec, Scenario, TimeDistribution};

/// The knobs that the lab's guests and run loops go by.
const KNOBS: [&str; 15] = [
    "guest_halt_poll_ns",
    "guest_halt_poll_shrink",
    "guest_halt_poll_grow",
    "guest_halt_poll_grow_start",
    "guest_halt_poll_allow_shrink",
    "guest_halt_poll_reset",
    "halt_poll_ns",
    "halt_poll_ns_grow",
    "halt_poll_ns_grow_start",
    "halt_poll_ns_shrink",
    "spin_retry",
    "spin_generation",
    "device_model",
    "register_sync",
    "device_lock",
];

/// The scenario with everything that a real run does not follow as it is by default: two of which this is the same are one and the same
/// run.
pub fn followed(scenario: &Scenario) -> Scenario {
    let mut costs = CostModel::default();
    costs.delay.time = scenario.costs.delay.time;
    let mut of = Scenario { costs, vms: scenario.vms.clone(), ..Scenario::new("", HostSpec::new(1)) };
    // Who leaves together is not pinned.
    of.host.ganged = scenario.host.ganged;
    // How long it runs changes no rate.
    (of.warmup, of.duration) = (scenario.warmup, scenario.duration);
    (of.channels, of.loads) = (scenario.channels.clone(), scenario.loads.clone());
    of.channels.iter_mut().for_each(|channel| channel.latency = TimeDistribution::ZERO);
    for vm in &mut of.vms {
        (vm.weight, vm.device_model_cpus) = (1_024, Vec::new());
        let set = vm.policies;
        vm.policies = Policies::default();
        for name in KNOBS {
            // Each is within its bounds already.
            let _ = set.get(name).map(|value| vm.policies.set(name, value));
        }
    }
    of
}

/// The knobs of a scenario's VMs that are not as by default, and that a real run does not follow.
pub(crate) fn not_followed(scenario: &Scenario) -> Vec<&'static str> {
    let default = Policies::default();
    let differs = |name| scenario.vms.iter().any(|vm| vm.policies.get(name) != default.get(name));
    all_knobs().map(|knob| knob.name).filter(|name| !KNOBS.contains(name) && differs(name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_machine_has_of_its_own_is_not_followed_and_what_guests_do_is() {
        let text = "name = \"x\"\n[host]\ncores = 2\n[[vm]]\nname = \"v\"\nprogram = [{ steps = [{ forever = [{ compute = \"1us\" }, \
                    { port_out = 0x80 }] }] }]";
        let document = exitscope_scenario::ScenarioDocument::parse("x", text).unwrap();
        let with = |key: &str, value: &str| {
            let mut document = document.clone();
            document.set(key, value).unwrap();
            document.scenario().unwrap()
        };
        let before = document.scenario().unwrap();
        for (key, value, is_followed) in [
            ("costs.exit", "100us", false),
            ("costs.exit_spread", "{ p5 = 800, p95 = 2500 }", false),
            ("host.cores", "1", false),
            ("vm.v.weight", "2", false),
            ("seed", "9", false),
            ("duration", "3s", true),
            ("quick_path", "N", false),
            ("ple_gap", "0", false),
            ("delay", "1us", true),
            ("halt_poll_ns", "0", true),
            ("guest_halt_poll_ns", "0", true),
            ("spin_retry", "7", true),
            ("device_lock", "split", true),
            ("vm.v.vcpus", "2", true),
            ("vm.v.cpuidle_haltpoll", "true", true),
        ] {
            let with = with(key, value);
            assert_ne!(with, before, "{key}");
            assert_eq!(followed(&with) != followed(&before), is_followed, "{key}");
        }
        assert_eq!(not_followed(&with("quick_path", "N")), ["quick_path"]);
        assert_eq!(not_followed(&before), [""; 0]);
    }
}
