//! IPIs that one vCPU sends another, as the write of the local APIC's interrupt command register (ICR) says.
//!
//! ```text
//! kvm_msr: msr_write 830 = 0x1000000fd ─► vector 0xfd, to the vCPU whose APIC has the number 1
//! ```

use crate::codes::vector_name;
use crate::{Subject, SubjectKind};
use exitscope_units::VcpuId;

/// The ICR of x2APIC mode, of which one write names vector and destination (Intel SDM, volume 3, "Interrupt Command Register
/// (ICR) in x2APIC Mode"). Of xAPIC's two halves, the one that sends does not say to whom.
const ICR: u64 = 0x830;

/// Delivery mode (0: fixed) and destination shorthand (0: none).
const MODE_AND_SHORTHAND: u64 = 7 << 8 | 3 << 18;
/// The destination is a logical one.
const LOGICAL: u64 = 1 << 11;

/// Interrupts that Linux on x86 does not send to a CPU that polls in its idle loop, by the names of their vectors: `resched_curr` of
/// kernel/sched/core.c (`set_nr_and_not_polling`) and, from Linux 5.8 on, `send_call_function_single_ipi` (`set_nr_if_polling`).
const SPARED_BY_POLLS: [&str; 2] = ["RESCHEDULE", "CALL_FUNCTION_SINGLE"];

/// The vector of a fixed interrupt that this sends to one vCPU, and to which. Local APICs have the numbers of their vCPUs, unless user
/// space gives them others.
#[inline]
pub(crate) fn ipi(of: &Subject) -> Option<(VcpuId, u8)> {
    if of.kind != SubjectKind::Msr || of.key != ICR || !of.write || of.value & MODE_AND_SHORTHAND != 0 {
        return None;
    }
    let destination = (of.value >> 32) as u32;
    let number = match of.value & LOGICAL {
        0 => destination,
        // The cluster, and a bit for each of its 16 APICs ("Logical Destination Mode in x2APIC Mode" there).
        _ if (destination & 0xffff).is_power_of_two() => {
            destination >> 16 << 4 | (destination & 0xffff).trailing_zeros()
        }
        _ => return None,
    };
    Some((VcpuId(number), of.value as u8))
}

/// Whether a Linux guest sends no interrupt of this vector to a vCPU that polls in its idle loop: that has a flag set instead.
pub fn is_spared_by_polls(vector: u8) -> bool {
    vector_name((u32::MAX, 0), vector.into()).is_some_and(|name| SPARED_BY_POLLS.contains(&name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PortAccessForm;

    fn write(key: u64, value: u64) -> Subject {
        Subject { kind: SubjectKind::Msr, write: true, form: PortAccessForm::Unknown, size: 0, key, value }
    }

    #[test]
    fn an_ipi_is_a_fixed_interrupt_to_one_vcpu() {
        for (value, expected) in [
            (0x1_0000_00fd, Some((VcpuId(1), 0xfd))),
            (0xfb, Some((VcpuId(0), 0xfb))),
            // Logical: the fourth APIC of the second cluster; two of one; none.
            (0x1_0008_0000_08fd, Some((VcpuId(19), 0xfd))),
            (0x1_0003_0000_08fd, None),
            (0x1_0000_0000_08fd, None),
            // INIT, start-up, lowest priority, to all but itself.
            (0x1_0000_c500, None),
            (0x1_0000_0699, None),
            (0x1_0000_01fd, None),
            (0xc_00f8, None),
        ] {
            assert_eq!(ipi(&write(0x830, value)), expected, "{value:#x}");
        }
        assert_eq!(ipi(&write(0x838, 0xfd)), None, "the timer's initial count");
        assert_eq!(ipi(&Subject { write: false, ..write(0x830, 0xfd) }), None);
        assert_eq!(ipi(&Subject { kind: SubjectKind::Apic, ..write(0x830, 0xfd) }), None);
    }

    #[test]
    fn interrupts_for_what_is_to_run_are_spared_and_those_of_devices_and_of_many_are_not() {
        let spared: Vec<u8> = (0..=255).filter(|vector| is_spared_by_polls(*vector)).collect();
        assert_eq!(spared, [0xfb, 0xfd]);
    }
}
