//! Pieces of the time for which vCPUs waited for a CPU: see `switch_history`.

use crate::{ThreadName, VcpuIdentity};
use exitscope_units::{Moment, Tid, VmId};

/// A CPU takes no longer to leave an idle state, in nanoseconds: 133 us to leave C6 of Skylake's servers, 890 us to leave C10 of its
/// clients (`skx_cstates`, `skl_cstates` of drivers/idle/intel_idle.c, and of Xen's xen/arch/x86/cpu/mwait-idle.c).
pub const LONGEST_WAKE_UP: u64 = 1_000_000;

/// Who had a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CpuTaker {
    /// A thread.
    Thread {
        /// Its id.
        tid: Tid,
        /// Its process, if the trace says.
        process: VmId,
        /// What it was called when it left the CPU.
        name: ThreadName,
    },
    /// Nobody: the vCPU had just been woken, and the CPU was idle for no longer than it takes to wake up.
    WakingUp,
    /// Nobody: it was idle.
    Idle,
}

/// A stretch of a vCPU's wait for a CPU in which it is known who had that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StealPiece {
    /// The vCPU that waited.
    pub who: VcpuIdentity,
    /// From when.
    pub from: Moment,
    /// Until when.
    pub to: Moment,
    /// Who had the CPU.
    pub taker: CpuTaker,
}
