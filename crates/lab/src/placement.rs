//! On which CPUs the lab keeps the threads that run vCPUs: the same rule for every experiment.
//!
//! ```text
//! threads of an experiment ─► a CPU of its own each, as long as all that always work find one; otherwise any
//! of a scenario:
//!   VM pinned ─────────► vCPU n on the nth of its `cpus`
//!   VM with `cpus` ────► any of them
//!   other VMs ─────────► a CPU of its own each, as long as all of them find one that no pinned vCPU has; otherwise any
//!
//! a thread begins ─► Placement::keep ─► the CPUs that the kernel then has for it ─► KeptThreads (one for a LabMachine)
//! ```
//!
//! CPU n of the scenario is the nth of those that the lab may run on.

use exitscope_scenario::VmSpec;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Where the threads that had CPUs of their own were, by their number: as the kernel said after they were put there.
#[derive(Debug, Default)]
pub struct KeptThreads(Mutex<BTreeMap<usize, Vec<usize>>>);

impl KeptThreads {
    /// The CPUs of each thread, in their order.
    pub fn cpus(&self) -> Vec<Vec<usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }

    fn note(&self, thread: usize, cpus: Vec<usize>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(thread, cpus);
    }
}

/// Where vCPUs are kept.
#[derive(Clone, Debug, Default)]
pub(crate) struct Placement {
    /// The CPUs of each vCPU's thread, in the order of VMs, copies and vCPUs; empty: any.
    pub cpus: Vec<Vec<usize>>,
    /// What is not as the scenario has it, or not on a CPU of its own.
    pub notes: Vec<String>,
    /// Where is noted what became of it.
    kept: Arc<KeptThreads>,
}

impl Placement {
    /// Of threads of which the first `working` always have something to do, and others only for a moment. Without `pin`, all run
    /// anywhere.
    pub fn of_threads((cpus, kept): (&[usize], &Arc<KeptThreads>), working: usize, pin: bool) -> Placement {
        let own = cpus.get(..working).filter(|_| pin).unwrap_or_default();
        let cpus = own.iter().map(|&cpu| vec![cpu]).collect();
        Placement { cpus, notes: Vec::new(), kept: Arc::clone(kept) }
    }

    /// Of one thread, on these CPUs.
    #[cfg(test)]
    pub fn on(cpus: Vec<usize>) -> Placement {
        Placement { cpus: vec![cpus], ..Placement::default() }
    }

    /// Of the vCPUs of a scenario's VMs.
    pub fn of_vms(
        (cpus, kept): (&[usize], &Arc<KeptThreads>),
        vms: &[VmSpec],
        running: impl Fn(&VmSpec) -> Vec<u32>,
        pin: bool,
    ) -> Placement {
        Placement { kept: Arc::clone(kept), ..Placement::new(vms, running, cpus, pin) }
    }

    /// Keeps the calling thread, number `thread`, where it is placed. False: that is not permitted.
    pub fn keep(&self, thread: usize) -> bool {
        let Some(cpus) = self.cpus.get(thread).filter(|cpus| !cpus.is_empty()) else { return true };
        let is_kept = keep_on(cpus);
        self.kept.note(thread, allowed_cpus());
        is_kept
    }

    /// Places the vCPUs that `running` names, of each VM. `cpus` are those of the lab. Without `pin`, all run anywhere.
    fn new(vms: &[VmSpec], running: impl Fn(&VmSpec) -> Vec<u32>, cpus: &[usize], pin: bool) -> Placement {
        let mut placement = Placement::default();
        let mut free = Vec::new();
        for spec in vms {
            let own = running(spec);
            for copy in 0..spec.copies {
                for &vcpu in &own {
                    let wanted = wanted(spec, vcpu);
                    let here: Vec<usize> = wanted.iter().filter_map(|cpu| cpus.get(*cpu as usize).copied()).collect();
                    if pin && here.len() < wanted.len() {
                        placement.note_missing(spec, vcpu, copy, here.len(), cpus.len());
                    }
                    if wanted.is_empty() {
                        free.push(placement.cpus.len());
                    }
                    placement.cpus.push(if pin { here } else { Vec::new() });
                }
            }
        }
        if pin {
            placement.spread(&free, cpus);
        }
        placement
    }

    /// Gives each of these vCPUs a CPU that is no other's, if there are enough.
    fn spread(&mut self, free: &[usize], cpus: &[usize]) {
        let taken = |cpu: &usize| self.cpus.iter().any(|of| of.contains(cpu));
        let left: Vec<usize> = cpus.iter().copied().filter(|cpu| !taken(cpu)).collect();
        if free.len() <= left.len() {
            free.iter().zip(left).for_each(|(&at, cpu)| self.cpus[at] = vec![cpu]);
        } else {
            self.notes.push(format!(
                "{} vCPUs share {} CPUs without being pinned: which of them run at once is the host scheduler's choice",
                free.len(),
                cpus.len()
            ));
        }
    }

    fn note_missing(&mut self, spec: &VmSpec, vcpu: u32, copy: u32, here: usize, cpus: usize) {
        let name = if spec.copies > 1 { format!("{}-{copy}", spec.name) } else { spec.name.clone() };
        let instead = if here == 0 { "it runs on any" } else { "it runs on the others" };
        self.notes.push(format!(
            "{name} vCPU {vcpu}: this machine lacks CPUs that it is kept on, as it has {cpus}; {instead}"
        ));
    }
}

/// The scenario's CPUs of a vCPU; none: any.
fn wanted(spec: &VmSpec, vcpu: u32) -> Vec<u32> {
    match (spec.pinned, spec.cpus.is_empty()) {
        (true, true) => vec![vcpu],
        (true, false) => spec.cpus.get(vcpu as usize).copied().into_iter().collect(),
        (false, _) => spec.cpus.clone(),
    }
}

/// The CPUs on which this process may run.
pub(crate) fn allowed_cpus() -> Vec<usize> {
    // SAFETY: all zeros are an empty set; the kernel fills it in.
    let set = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &mut set);
        set
    };
    // SAFETY: the numbers are below the size of the set.
    (0..libc::CPU_SETSIZE as usize).filter(|&cpu| unsafe { libc::CPU_ISSET(cpu, &set) }).collect()
}

/// Keeps this thread on some CPUs from now on. False: that is not permitted.
pub(crate) fn keep_on(cpus: &[usize]) -> bool {
    if cpus.iter().any(|&cpu| cpu >= libc::CPU_SETSIZE as usize) {
        return false;
    }
    // SAFETY: all zeros are an empty set, and every CPU is below its size.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        cpus.iter().for_each(|&cpu| libc::CPU_SET(cpu, &mut set));
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set) == 0
    }
}

/// CPUs in words: `0`, `0, 2`; `any` where there are none.
pub(crate) fn cpus_in_words(cpus: &[usize]) -> String {
    let words: Vec<String> = cpus.iter().map(usize::to_string).collect();
    if words.is_empty() { "any".to_string() } else { words.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vm(vcpus: u32, cpus: &[u32], pinned: bool) -> VmSpec {
        VmSpec { cpus: cpus.to_vec(), pinned, ..VmSpec::new("web", vcpus) }
    }

    fn place(vms: &[VmSpec], cpus: &[usize], pin: bool) -> Placement {
        Placement::new(vms, |spec| (0..spec.vcpus).collect(), cpus, pin)
    }

    #[test]
    fn each_vcpu_has_a_cpu_of_its_own_where_there_are_enough() {
        let own = place(&[vm(2, &[], false)], &[4, 7], true);
        assert_eq!((own.cpus, own.notes), (vec![vec![4], vec![7]], vec![]));
        let copies = VmSpec { copies: 2, ..vm(1, &[], false) };
        assert_eq!(place(&[copies], &[4, 7], true).cpus, [[4], [7]]);
        let shared = place(&[vm(3, &[], false)], &[4, 7], true);
        assert_eq!(shared.cpus, [[0; 0]; 3], "of too few CPUs none is anyone's");
        assert!(shared.notes[0].starts_with("3 vCPUs share 2 CPUs"), "{:?}", shared.notes);
        let anywhere = place(&[vm(2, &[], true)], &[4, 7], false);
        assert_eq!((anywhere.cpus, anywhere.notes), (vec![vec![]; 2], vec![]));
    }

    #[test]
    fn pinned_vcpus_have_the_cpus_that_the_scenario_gives_them_and_others_keep_off() {
        let vms = [vm(1, &[], false), vm(2, &[2, 0], true), vm(1, &[1, 2], false)];
        let placed = place(&vms, &[10, 11, 12, 13], true);
        assert_eq!(placed.cpus, [vec![13], vec![12], vec![10], vec![11, 12]]);
        assert!(placed.notes.is_empty());
        assert_eq!(place(&[vm(2, &[], true)], &[10, 11], true).cpus, [[10], [11]], "without a list, all CPUs in order");
        // Pinned copies are on the same CPUs, as in the simulator.
        let copies = VmSpec { copies: 2, ..vm(1, &[1], true) };
        assert_eq!(place(&[copies], &[10, 11], true).cpus, [[11], [11]]);
    }

    #[test]
    fn a_cpu_that_this_machine_lacks_is_said() {
        let placed = place(&[vm(2, &[0, 5], true)], &[3, 4], true);
        assert_eq!(placed.cpus, [vec![3], vec![]]);
        assert!(placed.notes[0].starts_with("web vCPU 1: this machine lacks"), "{:?}", placed.notes);
        assert!(placed.notes[0].ends_with("it runs on any"));
        assert_eq!([cpus_in_words(&[]), cpus_in_words(&[0, 2])], ["any", "0, 2"]);
    }
}
