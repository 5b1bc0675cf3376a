//! A scenario: everything that a run depends on, as one value.

use crate::{Channel, CostModel, HostSpec, HostThread, Load, Policies, VmSpec};
use exitscope_policy::port_path::DeviceModel;
use exitscope_units::Picos;

/// What to run.
#[derive(Clone, Debug, PartialEq)]
pub struct Scenario {
    /// Its name.
    pub name: String,
    /// What it stands for, for people.
    pub description: String,
    /// All randomness comes from this.
    pub seed: u64,
    /// Simulated time before measuring begins.
    pub warmup: Picos,
    /// Simulated time that is measured.
    pub duration: Picos,
    /// Processors and hypervisor.
    pub host: HostSpec,
    /// What each step costs.
    pub costs: CostModel,
    /// Knobs that hold where a VM does not say otherwise.
    pub policies: Policies,
    /// The VMs.
    pub vms: Vec<VmSpec>,
    /// Threads of the host that run programs.
    pub threads: Vec<HostThread>,
    /// The channels.
    pub channels: Vec<Channel>,
    /// Load from outside.
    pub loads: Vec<Load>,
}

impl Scenario {
    /// One second after a tenth of a second of warm-up, with nothing on the host yet.
    pub fn new(name: &str, host: HostSpec) -> Scenario {
        Scenario {
            name: name.to_string(),
            description: String::new(),
            seed: 1,
            warmup: Picos::from_nanos(100_000_000),
            duration: Picos::from_nanos(1_000_000_000),
            host,
            costs: CostModel::default(),
            policies: Policies::default(),
            vms: Vec::new(),
            threads: Vec::new(),
            channels: Vec::new(),
            loads: Vec::new(),
        }
    }

    /// The most hardware threads of a core that may be busy at once: all of them, or fewer if there is less to run. For so
    /// many, `smt_speed` has to have a speed.
    pub fn busy_threads(&self) -> u32 {
        let threads_of_channels = self.channels.iter().filter(|channel| channel.thread > Picos::ZERO).count();
        let of_vm = |vm: &VmSpec| {
            let scheduled = usize::from(vm.policies.port_path.device_model == DeviceModel::Scheduled);
            let disks = vm.disks.iter().filter(|disk| disk.thread > Picos::ZERO).count();
            u64::from(vm.copies) * (u64::from(vm.vcpus) + (scheduled + disks + threads_of_channels) as u64)
        };
        let of_vms: u64 = self.vms.iter().map(of_vm).sum();
        let of_host: u64 = self.threads.iter().map(|thread| u64::from(thread.copies)).sum();
        u64::from(self.host.threads).min(of_vms + of_host) as u32
    }
}
