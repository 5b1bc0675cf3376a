//! Exits made up for tests, those of crate `advice` among them.

use exitscope_model::{Exit, ExitCode, ExitParts, ExitPhases, Handler, TimePart, VcpuIdentity};
use exitscope_units::{Moment, Nanos, PcpuId, Tid, VcpuId, VmId};

/// A vCPU of VM 1.
pub(crate) fn vcpu(number: u32) -> VcpuIdentity {
    VcpuIdentity { vm: VmId(1), vcpu: VcpuId(number), tid: Tid(10 + number) }
}

/// A timed exit to the kernel that takes no time.
pub(crate) fn exit(who: VcpuIdentity, at: u64, code: ExitCode) -> Exit {
    Exit {
        at: Moment::from_nanos(at),
        who,
        cpu: PcpuId(0),
        code,
        rip: 0,
        info: exitscope_model::ExitInfo::default(),
        handler: Handler::Kernel,
        subject: None,
        injected: None,
        guest: Nanos::ZERO,
        parts: ExitParts::ZERO,
        phases: ExitPhases::default(),
        timed: true,
        is_halt: code.is_halt(),
        events: 1,
    }
}

/// So many nanoseconds of one part.
pub(crate) fn spent(part: TimePart, nanos: u64) -> ExitParts {
    ExitParts::ZERO.with(part, Nanos(nanos))
}
