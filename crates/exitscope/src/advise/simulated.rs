//! What the simulator says of accesses on other ways, for advice about recordings that have none to compare with.
//!
//! ```text
//! one vCPU: compute, access, compute, access, …  ─► time of an access      by user space
//! the same, with a device in the kernel, an ioeventfd, a coalesced zone ─► the share that each spares
//! ```

use anyhow::Context;
use exitscope_analysis::advice::{Machine, Simulated, Way};
use exitscope_model::DetailKind;
use exitscope_scenario::Document;
use exitscope_sim::{Limits, Unseen};

/// Cost models of x86 hosts under KVM. Of other hosts, the simulator has no costs of these ways.
const MODELS: [&str; 4] = ["default", "small-packet-2019", "broadwell-2016", "ivy-bridge-2016"];

/// Accesses, and where they go: what a step says, and what a registration does.
const ACCESSES: [(DetailKind, &str, &str); 2] = [
    (DetailKind::Port, "port_out = 0xc000", "port = 0xc000"),
    (DetailKind::Mmio, "mmio_write = 0xfeb00000", "address = 0xfeb00000"),
];

/// Ways, as a registration names them.
const WAYS: [(Way, &str); 3] = [(Way::Device, "kernel"), (Way::Ioeventfd, "ioeventfd"), (Way::Coalesced, "coalesced")];

/// What each way spares, on each cost model; nothing for a machine that they are not of.
pub fn ways(machine: &Machine) -> anyhow::Result<Simulated> {
    let mut simulated = Simulated::default();
    if machine.xen || !machine.arch.starts_with("x86") {
        return Ok(simulated);
    }
    for model in MODELS {
        for (kind, step, place) in ACCESSES {
            let outside = time(model, step, "")?;
            for (way, name) in WAYS {
                let inside = time(model, step, &format!("register = [{{ kind = '{name}', {place} }}]"))?;
                simulated.note(kind, way, 1.0 - inside / outside);
            }
        }
    }
    Ok(simulated)
}

/// Time of an access, outside the guest, in nanoseconds.
fn time(model: &str, step: &str, register: &str) -> anyhow::Result<f64> {
    let text = format!(
        "name = 'ways'\nduration = '2ms'\n[host]\ncores = 1\n[costs]\nmodel = '{model}'\n[[vm]]\nname = 'guest'\n{register}\n\
         [[vm.program]]\nsteps = [{{ forever = [{{ compute = '10us' }}, {{ {step} }}, 'count'] }}]\n"
    );
    let scenario = Document::parse("ways", &text)?.scenario()?;
    let (outcome, _) = exitscope_sim::run(&scenario, Unseen, Limits::default())?;
    let vm = outcome.vms.first().context("a scenario of one VM has an outcome of one")?;
    let time = vm.time.kernel.0 + vm.time.user.0;
    Ok(time as f64 / vm.work.count.max(1) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_spares_something_and_none_all_of_it() {
        for model in MODELS {
            for (_, step, place) in ACCESSES {
                let outside = time(model, step, "").unwrap();
                for (_, name) in WAYS {
                    let inside = time(model, step, &format!("register = [{{ kind = '{name}', {place} }}]")).unwrap();
                    assert!(0.0 < inside && inside < outside, "{model} {step} {name}: {inside} of {outside}");
                }
            }
        }
        let powerpc = Machine { arch: "ppc64le".to_string(), ..Machine::default() };
        assert_eq!(ways(&powerpc).unwrap(), Simulated::default());
    }
}
