//! Exits made up for tests of rules.

use super::Material;
use exitscope_model::{Door, Exit, ExitCode, LaneSpan, Way, Who};
use exitscope_units::{Moment, Nanos, PcpuId, Tid, VcpuId, VmId};

/// A vCPU of VM 1.
pub(crate) fn vcpu(number: u32) -> Who {
    Who { vm: VmId(1), vcpu: VcpuId(number), tid: Tid(10 + number) }
}

/// A timed exit to the kernel that takes no time.
pub(crate) fn exit(who: Who, at: u64, code: ExitCode) -> Exit {
    Exit {
        at: Moment::from_nanos(at),
        who,
        cpu: PcpuId(0),
        code,
        rip: 0,
        info: exitscope_model::ExitInfo::default(),
        door: Door::Kernel,
        detail: None,
        injected: None,
        guest: Nanos::ZERO,
        kernel: Nanos::ZERO,
        user: Nanos::ZERO,
        idle: Nanos::ZERO,
        waiting: Nanos::ZERO,
        way: Way::default(),
        timed: true,
        is_idle: code.is_idle(),
        events: 1,
    }
}

/// The recording of these vCPUs is over after so long.
pub(super) fn end(material: &mut Material, vcpus: &[Who], length: u64) {
    let (first, last) = (Moment::from_nanos(0), Moment::from_nanos(length));
    let lanes: Vec<_> = vcpus.iter().map(|who| LaneSpan { who: *who, first, last, tail_guest: Nanos::ZERO }).collect();
    material.end(first, last, &lanes, &Default::default());
}
