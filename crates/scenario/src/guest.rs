//! Guests: VMs, their devices, the channels between them, and the load from outside.

use crate::program::{Program, TimeDistribution};
use exitscope_policy::Policies;
use exitscope_policy::exit_path::Registers;
use exitscope_policy::yielding::DiagnoseSupport;
use exitscope_units::Picos;

/// Some VMs that are alike.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VmSpec {
    /// Its name, unique in the scenario; copies are numbered.
    pub name: String,
    /// How many VMs like this there are.
    pub copies: u32,
    /// Virtual CPUs of each.
    pub vcpus: u32,
    /// Share of the CPUs when they are short; 1024 is the usual one.
    pub weight: u32,
    /// CPUs of the scheduler on which its vCPUs may run; empty: all.
    pub cpus: Vec<u32>,
    /// Whether vCPU (or virtual core) n stays on the nth of `cpus`.
    pub pinned: bool,
    /// Names of its spinlocks.
    pub locks: Vec<String>,
    /// CPUs on which its device model may run, where `device_model` gives it a task of its own; empty: all.
    pub device_model_cpus: Vec<u32>,
    /// Classes of registers that its device model reads and writes, by ioctl or page as `register_sync` says.
    pub registers: Registers,
    /// What is registered with the hypervisor for ports and addresses.
    pub registrations: Vec<HandlerSpec>,
    /// Its disks.
    pub disks: Vec<Disk>,
    /// Which vCPUs run which program. A vCPU without one idles.
    pub programs: Vec<(Vec<u32>, Program)>,
    /// The knobs that hold for it: the scenario's, but where it has its own.
    pub policies: Policies,
    /// Whether its idle loop polls before it halts, by the `guest_halt_poll_*` knobs (cpuidle's haltpoll is loaded).
    pub cpuidle_haltpoll: bool,
    /// What its kernel does when it spins for a lock and spinning does not help.
    pub spin: SpinWait,
}

/// What a guest kernel does when it spins for a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpinWait {
    /// Executes PAUSE; the processor makes an exit when it has done so for a window's time (x86).
    PauseLoop,
    /// Looks whether the holder runs, and calls the hypervisor for it if it does not (powerpc).
    Confer,
    /// Spins `spin_retry` times, then calls the hypervisor, if the machine has a call for that (s390).
    Diagnose(DiagnoseSupport),
}

/// What answers an access, where it is not the device model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HandlerSpec {
    /// Whether `first` and `last` are ports, not addresses.
    pub port: bool,
    /// First port or guest-physical address.
    pub first: u64,
    /// Last one.
    pub last: u64,
    /// What answers.
    pub kind: RegistrationKind,
}

/// What answers an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RegistrationKind {
    /// A device inside the hypervisor.
    Kernel,
    /// An ioeventfd: of this access size (0: any), for this value only if there is one.
    Ioeventfd {
        /// Bytes, or 0 for any.
        size: u8,
        /// The value asked for.
        datamatch: Option<u64>,
    },
    /// Writes are collected in a ring.
    Coalesced,
}

/// A disk: what happens after a request was handed over by the accesses that the program makes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Disk {
    /// Its name.
    pub name: String,
    /// How long a request takes.
    pub service: TimeDistribution,
    /// How many requests it works on at once.
    pub parallel: u32,
    /// Host CPU time of the thread that serves a request (half before, half after); zero: no thread.
    pub thread: Picos,
}

/// A way for messages: to any vCPU that receives from it, in order of arrival.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Channel {
    /// Its name, unique in the scenario.
    pub name: String,
    /// From the sender's device to the receiver's, one way.
    pub latency: TimeDistribution,
    /// What a send costs the sender.
    pub doorbell: Doorbell,
    /// Host CPU time of the device thread for each message on each side; zero: no thread.
    pub thread: Picos,
}

/// What a vCPU does to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doorbell {
    /// Writes memory only: the other side sees it.
    Memory,
    /// An exit that signals an eventfd.
    Eventfd,
    /// An exit to the device model in user space.
    DeviceModel,
}

/// Load from outside the host, into a channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Load {
    /// The channel.
    pub channel: usize,
    /// How it arrives.
    pub arrival: Arrival,
}

/// How load arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// So many clients; each sends, waits for the answer, thinks, and sends again.
    Closed {
        /// How many clients.
        clients: u32,
        /// How long each thinks.
        think: TimeDistribution,
    },
    /// A message after each such time, whatever became of the last one.
    Open {
        /// Between two messages.
        every: TimeDistribution,
    },
}

/// A thread of the host that runs a program: native work beside the guests, or without any.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostThread {
    /// Its name.
    pub name: String,
    /// How many there are.
    pub copies: u32,
    /// CPUs on which it may run; empty: all.
    pub cpus: Vec<u32>,
    /// Whether copy n stays on the nth of `cpus`.
    pub pinned: bool,
    /// What it does: computing, sleeping, sending and receiving.
    pub program: Program,
}

impl VmSpec {
    /// One VM without devices, whose vCPUs run anywhere and do nothing.
    pub fn new(name: &str, vcpus: u32) -> VmSpec {
        VmSpec {
            name: name.to_string(),
            copies: 1,
            vcpus,
            weight: 1_024,
            cpus: Vec::new(),
            pinned: false,
            locks: Vec::new(),
            device_model_cpus: Vec::new(),
            registers: Registers::default(),
            registrations: Vec::new(),
            disks: Vec::new(),
            programs: Vec::new(),
            policies: Policies::default(),
            cpuidle_haltpoll: false,
            spin: SpinWait::PauseLoop,
        }
    }

    /// The same, with `program` on all its vCPUs that have none yet.
    pub fn running(mut self, program: Program) -> VmSpec {
        let free = (0..self.vcpus).filter(|vcpu| !self.programs.iter().any(|(vcpus, _)| vcpus.contains(vcpu)));
        let free = free.collect();
        self.programs.push((free, program));
        self
    }

    /// The same, with `program` on one vCPU.
    pub fn running_on(mut self, vcpu: u32, program: Program) -> VmSpec {
        self.programs.push((vec![vcpu], program));
        self
    }
}

impl Channel {
    /// A channel through shared memory, without latency.
    pub fn new(name: &str) -> Channel {
        Channel {
            name: name.to_string(),
            latency: TimeDistribution::ZERO,
            doorbell: Doorbell::Memory,
            thread: Picos::ZERO,
        }
    }
}
