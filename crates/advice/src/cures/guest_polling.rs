//! What is said of every guest that is advised to poll: whose CPUs its polls take.

/// `poll_idle` of drivers/cpuidle/poll_state.c goes round in the guest until its limit passes: its host sees a vCPU that runs, and
/// `kvm_vcpu_can_poll` of virt/kvm/kvm_main.c, which ends KVM's own polls, is not asked.
pub(crate) const TAKES_CPUS: &str = "only where each vCPU has a CPU to itself: a polling guest looks busy to its host, takes up to a whole \
    CPU for each of its vCPUs from neighbours or from its quota, and does not stop polling when another task wants the CPU";
