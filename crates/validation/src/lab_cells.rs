//! Settings of one program that the simulator and the lab both run, and what is changed of each: `validate --lab`.
//!
//! ```text
//! host polling × guest polling × VMs on two CPUs × yields × critical sections × who answers a port ─► all settings
//! setting, one of these changed ─► by a seed: CHOSEN of each change, and some in which nothing is changed
//! ```
//!
//! Two vCPUs of a VM, on a CPU each, pass a ball to each other: they compute, take a lock for a critical section, write a port, wake the
//! other, and take the lock once more, before they wait. Other VMs do the same on the same two CPUs.

use exitscope_policy::Policies;
use exitscope_policy::yielding::{DiagnoseSupport, Generation};
use exitscope_scenario::{HandlerSpec, HostSpec, Op, RegistrationKind, Scenario, SpinWait, TimeDistribution, VmSpec};
use exitscope_sim::latin_hypercube;
use exitscope_units::Picos;
use serde::{Deserialize, Serialize};

/// The seed by which cells are chosen. Those of the first pass, which is kept, were chosen by 56.
pub const SEED: u64 = 57;

/// A port of KVM's interrupt controllers, and one of nobody's.
const KERNEL_PORT: u16 = 0x4d0;
const OTHER_PORT: u16 = 0x510;

/// The name of the VMs of a cell.
pub const PAIRS: &str = "pair";

/// How long polls last at most.
const POLL_NS: u64 = 200_000;

/// The mean of a ball's computing, and each critical section.
const COMPUTE: Picos = Picos::from_nanos(40_000);
const SECTION: Picos = Picos::from_nanos(20_000);

/// Who answers a write to a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PortAnswer {
    /// A device inside KVM.
    Kernel,
    /// An ioeventfd.
    Ioeventfd,
    /// User space.
    User,
}

impl PortAnswer {
    const ALL: [PortAnswer; 3] = [PortAnswer::Kernel, PortAnswer::Ioeventfd, PortAnswer::User];

    const fn word(self) -> &'static str {
        match self {
            PortAnswer::Kernel => "kernel",
            PortAnswer::Ioeventfd => "ioeventfd",
            PortAnswer::User => "user space",
        }
    }

    /// The write, and what is registered for it.
    pub(crate) fn write(self) -> (Op, Option<HandlerSpec>) {
        let port = if self == PortAnswer::Kernel { KERNEL_PORT } else { OTHER_PORT };
        let kind = match self {
            PortAnswer::Kernel => Some(RegistrationKind::Kernel),
            PortAnswer::Ioeventfd => Some(RegistrationKind::Ioeventfd { size: 1, datamatch: None }),
            PortAnswer::User => None,
        };
        let at = |kind| HandlerSpec { port: true, first: port.into(), last: port.into(), kind };
        (Op::Port { port, size: 1, write: true, string: false }, kind.map(at))
    }
}

/// What is changed of a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LabChange {
    HostPolls,
    GuestPolls,
    Yields,
    MoreVms,
    KernelPort,
    UserPort,
    Sections,
    Nothing,
}

/// How many cells of each change there are: those whose sign no one knows without a model, those whose sign is plain (user space is further
/// away than the kernel, and more work takes longer), and those in which nothing is changed.
const CHOSEN: [(LabChange, usize); 8] = [
    (LabChange::HostPolls, 8),
    (LabChange::GuestPolls, 8),
    (LabChange::Yields, 8),
    (LabChange::MoreVms, 6),
    (LabChange::KernelPort, 4),
    (LabChange::UserPort, 5),
    (LabChange::Sections, 5),
    (LabChange::Nothing, 4),
];

/// One setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LabSetting {
    /// The host polls before it blocks a vCPU.
    pub host_polls: bool,
    /// Guests poll before they halt; the host then does not.
    pub guest_polls: bool,
    /// VMs on the two CPUs, with two vCPUs each.
    pub vms: u32,
    /// A waiter for a lock yields (X'44') after it has looked for it `spin_retry` times.
    pub yields: bool,
    /// Whether there are critical sections.
    pub sections: bool,
    /// Who answers the port.
    pub port: PortAnswer,
}

/// What is changed of a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LabCell {
    /// Before the change.
    pub before: LabSetting,
    /// After it.
    pub after: LabSetting,
    /// Whether its sign is plain without any model.
    pub plain: bool,
}

impl LabSetting {
    fn all() -> Vec<LabSetting> {
        let mut all = Vec::new();
        for bits in 0..16 {
            let on = |bit: u32| bits >> bit & 1 == 1;
            for vms in [1, 2, 4] {
                all.extend(PortAnswer::ALL.map(|port| LabSetting {
                    host_polls: on(0),
                    guest_polls: on(1),
                    vms,
                    yields: on(2),
                    sections: on(3),
                    port,
                }));
            }
        }
        // Whoever takes no lock yields to nobody.
        all.retain(|of| of.sections || !of.yields);
        all
    }

    /// What the change makes of it; nothing where it changes nothing, or is the way back.
    fn changed(self, by: LabChange) -> Option<LabSetting> {
        let (polls, port) = (self.host_polls || self.guest_polls, self.port);
        let after = match by {
            LabChange::HostPolls if !polls => LabSetting { host_polls: true, ..self },
            LabChange::GuestPolls if !self.guest_polls => LabSetting { guest_polls: true, ..self },
            LabChange::Yields if self.sections && !self.yields => LabSetting { yields: true, ..self },
            LabChange::MoreVms if self.vms < 4 => LabSetting { vms: self.vms * 2, ..self },
            LabChange::KernelPort if port == PortAnswer::Kernel => LabSetting { port: PortAnswer::Ioeventfd, ..self },
            LabChange::UserPort if port == PortAnswer::Ioeventfd => LabSetting { port: PortAnswer::User, ..self },
            LabChange::Sections if !self.sections => LabSetting { sections: true, ..self },
            LabChange::Nothing => self,
            _ => return None,
        };
        Some(after)
    }

    fn words(self) -> Vec<String> {
        let on = |on: bool, what: &str| if on { what.to_string() } else { format!("no {what}") };
        vec![
            format!("{} on 2 CPUs", exitscope_scenario::findings::counted(self.vms.into(), "VM")),
            on(self.host_polls, "host polling"),
            on(self.guest_polls, "guest polling"),
            on(self.sections, "critical sections"),
            on(self.yields, "yields"),
            format!("port: {}", self.port.word()),
        ]
    }

    /// Its guests, on a host that has no costs yet.
    pub fn scenario(self) -> Scenario {
        let mut vm = VmSpec { copies: self.vms, pinned: true, cpus: vec![0, 1], ..VmSpec::new(PAIRS, 2) };
        for vcpu in [0, 1] {
            let program = self.program(vcpu);
            vm = vm.running_on(vcpu, vec![Op::Repeat(None, program)]);
        }
        vm.locks = vec!["lock".to_string()];
        vm.cpuidle_haltpoll = self.guest_polls;
        vm.registrations.extend(self.port.write().1);
        vm.policies.host_halt_poll.halt_poll_ns.0 = if self.host_polls { POLL_NS } else { 0 };
        vm.policies.guest_halt_poll.guest_halt_poll_ns.0 = POLL_NS;
        if self.yields {
            let spin_retry = vm.policies.yielding.spin_retry;
            yield_when_spinning(&mut vm, spin_retry);
        }
        host_of(vm)
    }

    fn program(self, vcpu: u32) -> Vec<Op> {
        let section = match self.sections {
            true => vec![Op::Lock(0), Op::Compute(TimeDistribution::Fixed(SECTION)), Op::Unlock(0)],
            false => Vec::new(),
        };
        let compute = vec![Op::Compute(TimeDistribution::Exponential(COMPUTE))];
        let (write, _) = self.port.write();
        let pass = [compute, section.clone(), vec![write, Op::Ipi(1 - vcpu)], section].concat();
        let wait = vec![Op::AwaitIpi, Op::Count];
        // One begins with the ball, the other waits for it.
        if vcpu == 0 { [pass, wait].concat() } else { [wait, pass].concat() }
    }
}

/// Has waiters say X'44' after so many looks, and nothing else.
pub(crate) fn yield_when_spinning(vm: &mut VmSpec, spin_retry: u32) {
    vm.spin = SpinWait::Diagnose(DiagnoseSupport { diag44: true, diag9c: false, sense_running: false, lpar: false });
    vm.policies.yielding.spin_generation = Generation::L1b;
    vm.policies.yielding.spin_retry = spin_retry;
}

/// A scenario of these VMs alone, on two threads of one core, where nothing but them yields or polls.
pub(crate) fn host_of(vm: VmSpec) -> Scenario {
    let mut host = HostSpec { threads: 2, smt_speed: vec![1_000, 1_000], ..HostSpec::new(1) };
    (host.scheduler.steal, host.scheduler.balance) = (false, false);
    host.scheduler.yields = exitscope_scenario::YieldRules::Zvm;
    let mut scenario = Scenario::new(&vm.name.clone(), host);
    let without_ple = |policies: &mut Policies| policies.yielding.ple_gap = 0;
    without_ple(&mut scenario.policies);
    scenario.vms.push(vm);
    scenario.vms.iter_mut().for_each(|vm| without_ple(&mut vm.policies));
    scenario
}

impl LabCell {
    /// Whether nothing is changed.
    pub fn is_null(&self) -> bool {
        self.before == self.after
    }

    /// What is changed, and what stays as it is.
    pub fn labels(&self) -> [String; 2] {
        let (before, after) = (self.before.words(), self.after.words());
        let (mut changed, mut stays) = (Vec::new(), Vec::new());
        for (before, after) in before.into_iter().zip(after) {
            match before == after {
                true => stays.push(before),
                false => changed.push(format!("{before} → {after}")),
            }
        }
        [if changed.is_empty() { "nothing".to_string() } else { changed.join(", ") }, stays.join(", ")]
    }
}

/// The cells that a seed chooses, nulls last.
pub fn lab_cells(seed: u64) -> Vec<LabCell> {
    let chosen = (0..).zip(CHOSEN).flat_map(|(at, (change, count))| {
        let plain = matches!(change, LabChange::UserPort | LabChange::Sections | LabChange::Nothing);
        let cell = |before: LabSetting| Some(LabCell { before, after: before.changed(change)?, plain });
        let cells: Vec<LabCell> = LabSetting::all().into_iter().filter_map(cell).collect();
        // Points of as many parts as there are cells, in a random order.
        let order = latin_hypercube(cells.len(), 1, seed.wrapping_mul(CHOSEN.len() as u64).wrapping_add(at));
        let place = |point: &Vec<f64>| (point[0] * cells.len() as f64) as usize;
        order.iter().take(count).map(|point| cells[place(point)]).collect::<Vec<_>>()
    });
    chosen.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_chooses_48_different_cells_of_which_most_have_no_plain_sign() {
        let cells = lab_cells(SEED);
        assert_eq!(cells.len(), 48);
        for (at, cell) in cells.iter().enumerate() {
            assert!(!cells[..at].contains(cell), "{cell:?}");
            assert!(cell.is_null() || cell.before != cell.after);
        }
        assert!(cells.iter().filter(|cell| !cell.plain).count() * 2 > cells.len());
        assert_eq!(cells, lab_cells(SEED));
        assert_ne!(cells, lab_cells(SEED + 1));
    }

    #[test]
    fn every_factor_is_changed_in_some_cell_and_is_named() {
        let all: Vec<String> = lab_cells(SEED).iter().map(|cell| cell.labels()[0].clone()).collect();
        for factor in ["host polling", "guest polling", "VMs", "critical sections", "yields", "port", "nothing"] {
            assert!(all.iter().any(|label| label.contains(factor)), "{factor}: {all:?}");
        }
    }
}
