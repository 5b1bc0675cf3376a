//! What several of these tests begin with.

use exitscope_model::{CodeList, Exit, ExitCode, ExitInfo, ExitParts, ExitPhases, Handler, VcpuIdentity};
use exitscope_units::{Moment, Nanos, PcpuId, Tid, VcpuId, VmId};

/// An exit for reason 0 of VMX without any time, which is the kernel's, of vCPU 0 of VM 1 on CPU 0.
pub fn plain() -> Exit {
    Exit {
        at: Moment::default(),
        who: VcpuIdentity { vm: VmId(1), vcpu: VcpuId(0), tid: Tid(1) },
        cpu: PcpuId(0),
        code: ExitCode::new(CodeList::Vmx, 0),
        rip: 0,
        info: ExitInfo::default(),
        handler: Handler::Kernel,
        subject: None,
        injected: None,
        guest: Nanos(0),
        parts: ExitParts::ZERO,
        phases: ExitPhases::default(),
        timed: true,
        is_halt: false,
        events: 2,
    }
}
