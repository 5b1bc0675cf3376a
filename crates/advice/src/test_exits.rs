//! Exits and recordings made up for tests of rules.

use crate::AdviceInput;
use exitscope_model::{Preemption, TimePart, VcpuIdentity};
use exitscope_units::{Moment, Nanos, Tid};

#[path = "../../analysis/src/test_exits.rs"]
mod exits;

pub(crate) use exits::{exit, spent, vcpu};

/// A preemption that was not seen to end; by nobody, its CPU was left idle.
pub(super) fn preemption(who: VcpuIdentity, at: Moment, by: Option<Tid>) -> Preemption {
    Preemption { who, at, ran: None, yields: 0, first: None, by, yielded: false }
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
