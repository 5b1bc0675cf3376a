//! The host: its processors and how its hypervisor shares them out.

use exitscope_units::Picos;

/// The host's processors.
///
/// ```text
/// socket ── core ── hardware thread
///                   └─ a CPU of the scheduler: one thread, or with `ganged` all threads of a (sub)core
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostSpec {
    /// Whose exit codes a trace of the run has.
    pub arch: Arch,
    /// Sockets.
    pub sockets: u32,
    /// Cores in each socket.
    pub cores: u32,
    /// Hardware threads in each core: 1, 2, 4 or 8.
    pub threads: u32,
    /// Speed of one thread in thousandths of a core of its own, by how many threads of the core are busy: `[0]` with
    /// one busy thread (1000), `[1]` with two, …, up to as many as may be busy ([`crate::Scenario::busy_threads`]).
    pub smt_speed: Vec<u32>,
    /// Whether a core's threads enter and leave guests together (powerpc before POWER9). `subcores_per_core` splits them.
    pub ganged: bool,
    /// Whether a device's interrupt reaches a running vCPU without an exit.
    pub posted_interrupts: bool,
    /// How CPUs are shared out.
    pub scheduler: Scheduler,
}

impl HostSpec {
    /// CPUs of the scheduler in one core, if each core is split into `subcores`.
    pub const fn cpus_per_core(&self, subcores: u32) -> u32 {
        if self.ganged { subcores } else { self.threads }
    }

    /// How many CPUs the scheduler has, if each core is split into `subcores`.
    pub const fn cpus(&self, subcores: u32) -> u32 {
        self.sockets * self.cores * self.cpus_per_core(subcores)
    }
}

/// A processor architecture with virtualisation, as far as exits are named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arch {
    /// Intel's VMX.
    Vmx,
    /// AMD's SVM.
    Svm,
    /// powerpc, book3s HV.
    Powerpc,
    /// s390.
    S390,
}

impl Arch {
    /// Whether processors of today have a device's interrupt reach a running vCPU without an exit, and hypervisors let
    /// them: Intel's APICv and AMD's AVIC.
    pub const fn posts_interrupts(self) -> bool {
        matches!(self, Arch::Vmx | Arch::Svm)
    }

    /// Whether a guest that sets its timer leaves for that: it writes an MSR. Powerpc's decrementer and s390's clock
    /// comparator are the guest's own.
    pub const fn timer_exits(self) -> bool {
        matches!(self, Arch::Vmx | Arch::Svm)
    }
}

/// How CPUs are shared out: a queue for each CPU, ordered by run time over weight.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scheduler {
    /// How long a task runs before the next waiting one gets its turn.
    pub time_slice: Picos,
    /// By how much less a woken task must have run, to take the CPU from the running one.
    pub wakeup_granularity: Picos,
    /// Whether an idle CPU takes waiting tasks from other CPUs' queues.
    pub steal: bool,
    /// Whether a busy CPU, at every tick, takes a waiting task over from one where at least two more wait.
    pub balance: bool,
    /// Whose rules yields follow.
    pub yields: YieldRules,
}

/// Whose rules a yield of a vCPU follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum YieldRules {
    /// KVM: undirected yields choose a candidate among the VM's vCPUs, with boosting.
    Kvm,
    /// z/VM: fast path when nobody waits; otherwise another vCPU of the VM.
    Zvm,
}

impl Default for Scheduler {
    /// Linux's fair scheduler, roughly.
    fn default() -> Scheduler {
        Scheduler {
            time_slice: Picos::from_nanos(3_000_000),
            wakeup_granularity: Picos::from_nanos(1_000_000),
            steal: true,
            balance: true,
            yields: YieldRules::Kvm,
        }
    }
}

impl HostSpec {
    /// A host of so many single-threaded cores, with VMX and Linux's scheduler.
    pub fn new(cores: u32) -> HostSpec {
        HostSpec {
            arch: Arch::Vmx,
            sockets: 1,
            cores,
            threads: 1,
            smt_speed: vec![1_000],
            ganged: false,
            posted_interrupts: Arch::Vmx.posts_interrupts(),
            scheduler: Scheduler::default(),
        }
    }
}
