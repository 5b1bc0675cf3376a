//! Programs: what a virtual CPU, or a thread of the host, does.
//!
//! ```text
//! Repeat(∞, [ Lock(0), Compute(5us), Unlock(0), Compute(exponential 20us), Count ])
//! ```

use exitscope_units::Picos;

/// A length of time, fixed or random.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeDistribution {
    /// Always this long.
    Fixed(Picos),
    /// Evenly spread from the first to the second.
    Uniform(Picos, Picos),
    /// Exponential with this mean.
    Exponential(Picos),
    /// Normal with this mean and standard deviation; below zero counts as zero.
    Normal(Picos, Picos),
}

impl TimeDistribution {
    /// No time.
    pub const ZERO: TimeDistribution = TimeDistribution::Fixed(Picos(0));

    /// Its mean (of a normal one, before what is below zero is cut).
    pub const fn mean(self) -> Picos {
        match self {
            TimeDistribution::Fixed(mean) | TimeDistribution::Exponential(mean) | TimeDistribution::Normal(mean, _) => {
                mean
            }
            TimeDistribution::Uniform(low, high) => Picos(low.0 / 2 + high.0 / 2 + (low.0 & high.0 & 1)),
        }
    }
}

/// One step of a program. Locks, disks and channels are indices into their lists in the VM or the scenario.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// Runs guest code that would take this long on a core of its own.
    Compute(TimeDistribution),
    /// From here on its code takes this much from its siblings in a core, in thousandths of what ordinary code takes.
    Demand(u32),
    /// Takes a spinlock of the VM.
    Lock(usize),
    /// Gives it back.
    Unlock(usize),
    /// Reads (`write` false) or writes an I/O port.
    Port {
        /// Port number.
        port: u16,
        /// Bytes: 1, 2 or 4.
        size: u8,
        /// Whether it is an OUT.
        write: bool,
        /// INS or OUTS.
        string: bool,
    },
    /// Reads or writes a guest-physical address outside memory.
    Mmio {
        /// Guest-physical address.
        address: u64,
        /// Bytes.
        size: u8,
        /// Whether it is a write.
        write: bool,
        /// The value written: an ioeventfd may ask for it.
        value: u64,
    },
    /// Calls the hypervisor; handled in the kernel.
    Hypercall(u32),
    /// Executes CPUID; handled in the kernel.
    Cpuid,
    /// Sets a timer and idles until it fires.
    Sleep(TimeDistribution),
    /// Sends an inter-processor interrupt to a vCPU of the same VM.
    Ipi(u32),
    /// Idles until an inter-processor interrupt arrives; returns at once if one is pending.
    AwaitIpi,
    /// Hands a request to a disk of the VM.
    Submit(usize),
    /// Idles until a request that this vCPU submitted to the disk is done.
    Await(usize),
    /// Sends a message into a channel.
    Send(usize),
    /// Idles until a message comes out of the channel, and takes it.
    Receive(usize),
    /// Sends an answer to whoever sent the last message received.
    Reply,
    /// Idles until the answer to an earlier `Send` arrives.
    AwaitReply,
    /// One unit of work is done: throughput counts these.
    Count,
    /// A latency begins.
    Start,
    /// The latency that began last ends, and is recorded.
    Stop,
    /// Does the steps this often; `None`: for ever.
    Repeat(Option<u32>, Vec<Op>),
    /// Does one of the lists, chosen at random by weight.
    Pick(Vec<(u32, Vec<Op>)>),
}

/// Steps, done once from first to last; the vCPU then idles for good.
pub type Program = Vec<Op>;
