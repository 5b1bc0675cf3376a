//! Exits made up for tests of rules.

use super::AdviceInput;
use exitscope_model::{Exit, ExitCode, ExitParts, ExitPhases, Handler, Preemption, TimePart, VcpuIdentity};
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

/// A preemption that was not seen to end; by nobody, its CPU was left idle.
pub(super) fn preemption(who: VcpuIdentity, at: Moment, by: Option<Tid>) -> Preemption {
    Preemption { who, at, ran: None, yields: 0, first: None, by, yielded: false }
}

/// So many nanoseconds of one part.
pub(crate) fn spent(part: TimePart, nanos: u64) -> ExitParts {
    ExitParts::ZERO.with(part, Nanos(nanos))
}

/// The recording of these vCPUs is over after so long.
pub(super) fn end(input: &mut AdviceInput, vcpus: &[VcpuIdentity], length: u64) {
    let (first, last) = (Moment::from_nanos(0), Moment::from_nanos(length));
    input.facts.end(first, last, &Default::default());
    fill(input, vcpus, length);
    input.sum_up();
}

/// What no exit tells of the time of these vCPUs is unknown.
pub(super) fn fill(input: &mut AdviceInput, vcpus: &[VcpuIdentity], length: u64) {
    for who in vcpus {
        let division = input.facts.divisions.entry(*who).or_default();
        let rest = length.saturating_sub(division.span().0);
        division.parts.add(TimePart::Unknown, Nanos(rest));
    }
}
