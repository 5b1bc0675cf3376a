//! The exit row: one exit, when, how long, who, why, where to and about what.

use crate::{Detail, ExitCode, Way};
use exitscope_units::{Moment, Nanos, PcpuId, Tid, VcpuId, VmId};
use rustc_hash::FxHashMap;

/// Whose exit it is. A trace that does not name the vCPU still names the thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Who {
    /// The VM (process), or unknown.
    pub vm: VmId,
    /// The vCPU's number, or unknown.
    pub vcpu: VcpuId,
    /// The thread; zero where the vCPU is named by the event and recorded by another's thread (powerpc).
    pub tid: Tid,
}

impl Who {
    /// The same, with the vCPU that its thread is known to run if it does not say one itself.
    #[inline]
    pub fn completed(mut self, vcpu_of: &FxHashMap<Tid, VcpuId>) -> Who {
        if self.vcpu == VcpuId::UNKNOWN
            && let Some(&vcpu) = vcpu_of.get(&self.tid)
        {
            self.vcpu = vcpu;
        }
        self
    }
}

/// Where the vCPU left to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Door {
    /// Handled in the kernel.
    Kernel,
    /// Went on to user space, with this `KVM_EXIT_*` reason.
    Userspace(u32),
    /// Xen: waited for the device model, which runs in another domain.
    DeviceModel,
}

/// One exit. Its parts are disjoint: `kernel + user + idle + waiting` is the whole time from exit to entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exit {
    /// When the vCPU left its guest.
    pub at: Moment,
    /// Whose exit.
    pub who: Who,
    /// Where it happened.
    pub cpu: PcpuId,
    /// Why.
    pub code: ExitCode,
    /// Where in the guest: its instruction pointer (`guest_rip`, `vcpu_pc`, `sepc`, `pc`, the PSW's address); zero if the
    /// trace does not say.
    pub rip: u64,
    /// Where to.
    pub door: Door,
    /// About what.
    pub detail: Option<Detail>,
    /// Interrupt vector injected at the entry that ended it.
    pub injected: Option<u32>,
    /// Time in the guest that this exit ended.
    pub guest: Nanos,
    /// Time handled by the kernel.
    pub kernel: Nanos,
    /// Time from the return to user space to the next `KVM_RUN`; on Xen, time waiting for the device model.
    pub user: Nanos,
    /// Time halted: the vCPU had nothing to do. Also time that its thread slept in user space after it was kicked out
    /// (`KVM_EXIT_INTR`): who kicked it wanted it to wait. Never a cost.
    pub idle: Nanos,
    /// Time runnable but not running, from scheduler events; on Xen, also paused.
    pub waiting: Nanos,
    /// How its cost divides into steps.
    pub way: Way,
    /// Whether both ends were seen; if not, the times mean nothing and only the count stands.
    pub timed: bool,
    /// Whether the exit is of the idle kind.
    pub is_idle: bool,
    /// Events folded into this row.
    pub events: u32,
}

impl Exit {
    /// From exit to entry, everything included: what `perf kvm stat` calls the exit's time on x86, s390 and powerpc.
    pub fn total(&self) -> Nanos {
        Nanos(self.kernel.0 + self.user.0 + self.idle.0 + self.waiting.0)
    }

    /// What the exit cost: the time handled by the kernel and by user space.
    pub fn cost(&self) -> Nanos {
        Nanos(self.kernel.0 + self.user.0)
    }
}

/// Takes rows as they are completed.
pub trait Rows {
    /// Takes one.
    fn take(&mut self, row: &Exit);
}

impl Rows for Vec<Exit> {
    fn take(&mut self, row: &Exit) {
        self.push(*row);
    }
}

/// A column of the exit table: name, unit, prose.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    /// Name in JSON, CSV and SQL.
    pub name: &'static str,
    /// Unit, empty if none.
    pub unit: &'static str,
    /// What it is.
    pub prose: &'static str,
}

/// Every column of the exit table. Times of an exit of which only one end was seen mean nothing, and are absent.
pub const COLUMNS: &[Column] = &[
    Column { name: "at_ns", unit: "ns", prose: "When the vCPU left its guest, on the trace's clock." },
    Column { name: "vm", unit: "", prose: "The VM's process id, or Xen's domain; absent if the trace does not say." },
    Column { name: "vm_name", unit: "", prose: "The VM's process name." },
    Column { name: "vcpu", unit: "", prose: "The vCPU's number; absent if nothing in the trace says." },
    Column { name: "on_cpu", unit: "", prose: "The physical CPU, where nothing else says which vCPU it is (Xen)." },
    Column { name: "tid", unit: "", prose: "The vCPU's thread; absent where another thread records for it (powerpc)." },
    Column { name: "cpu", unit: "", prose: "The physical CPU." },
    Column { name: "reason", unit: "", prose: "The exit reason, in the kernel's spelling." },
    Column {
        name: "door",
        unit: "",
        prose: "`kernel`, the KVM_EXIT_* reason with which it went on to user space, or `device model`.",
    },
    Column { name: "about", unit: "", prose: "What kind of thing it was about: `port`, `mmio`, `msr`, …" },
    Column { name: "key", unit: "", prose: "Port, address, MSR, hypercall number, CPUID leaf, error code, …" },
    Column { name: "name", unit: "", prose: "What that is called, where it has a name." },
    Column { name: "direction", unit: "", prose: "`in`, `out`, `read`, `write`, where that has a meaning." },
    Column { name: "size_bytes", unit: "bytes", prose: "Size of the access." },
    Column { name: "value", unit: "", prose: "Value read or written, CPUID index, fault address, …" },
    Column { name: "injected_vector", unit: "", prose: "Interrupt vector injected at the entry that ended it." },
    Column { name: "timed", unit: "", prose: "`true` if both ends were seen." },
    Column { name: "total_ns", unit: "ns", prose: "From exit to entry, everything included." },
    Column { name: "kernel_ns", unit: "ns", prose: "Handled by the kernel." },
    Column { name: "user_ns", unit: "ns", prose: "In user space, or waiting for Xen's device model." },
    Column { name: "idle_ns", unit: "ns", prose: "Halted, or asleep in user space after a kick; never a cost." },
    Column { name: "waiting_ns", unit: "ns", prose: "Runnable but not running, from scheduler events." },
    Column { name: "reaching_ns", unit: "ns", prose: "Of kernel_ns, until the first event of the exit's handler." },
    Column { name: "leaving_ns", unit: "ns", prose: "Of kernel_ns, on the way to user space." },
    Column { name: "asleep_ns", unit: "ns", prose: "Of user_ns, asleep." },
    Column { name: "entering_ns", unit: "ns", prose: "Of kernel_ns, from the call of KVM_RUN until the entry." },
    Column { name: "guest_ns", unit: "ns", prose: "In the guest, before this exit." },
];
