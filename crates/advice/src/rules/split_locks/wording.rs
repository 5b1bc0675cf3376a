//! What is said of split locks.

use super::Told;
use crate::cures::cure::by_hand;
use crate::judgement::AdviceWords;

pub(super) const RANGE: &str = "from 0 (if nobody can change the program) to all their time; what other CPUs lose at \
    each lock is not included";

pub(super) const SMALL: &str =
    "fix the program in the guest that locks memory across two cache lines, or tell it to align what it locks";

pub(super) const EITHER: &str = "the guest locks memory across two cache lines and the host traps it (split_lock_detect=), or its programs \
    check alignment themselves (CR0.AM and EFLAGS.AC), which KVM hands back to it: `dmesg | grep -i split_lock` on the host names the \
    thread and the place where the host traps them";

/// KVM_CAP_X86_BUS_LOCK_EXIT of Documentation/virt/kvm/api.rst; `kvm_rate_limit_on_bus_lock` of QEMU's target/i386/kvm/kvm.c;
/// Documentation/arch/x86/buslock.rst, and `split_lock_mitigate` of Documentation/admin-guide/sysctl/kernel.rst.
pub(super) fn cure(told: Told) -> Option<AdviceWords> {
    let where_it_is = "which program: the rip of the exits (`exitscope report --by rip` of a recording with kvm_exit), looked up in the \
        guest's /proc/kallsyms and /proc/PID/maps";
    let (title, change, settings, undo, acts) = match told {
        Told::Slowed => (
            "Fix the program that takes split locks",
            "fix the program in the guest that locks memory across two cache lines: the host traps each such lock, and the vCPU \
             sleeps for 10 ms and more at it",
            vec![
                by_hand("the host's `dmesg | grep split_lock` has the vCPU's thread and the address in the guest"),
                by_hand(where_it_is),
                by_hand(
                    "until it is fixed: `sysctl kernel.split_lock_mitigate=0` on the host, where it has that, leaves the sleep out; \
                     split_lock_detect=off on its command line traps none",
                ),
            ],
            "`sysctl kernel.split_lock_mitigate=1`, or the old command line",
            "in the guest, once the program is another; a sysctl at once; the host's command line when it is booted",
        ),
        Told::BusLocks => (
            "Fix the program that takes bus locks",
            "fix the program in the guest that takes bus locks (memory across two cache lines, or uncached): the VMM asked for an exit \
             after each, to slow them down",
            vec![
                by_hand(where_it_is),
                by_hand(
                    "QEMU: its limit is bus-lock-ratelimit=N of -machine, so many a second; without it there are no such exits",
                ),
            ],
            "restore the old limit",
            "in the guest, once the program is another; a limit of QEMU's at the next VM start",
        ),
        Told::Either => return None,
    };
    Some(AdviceWords {
        title: title.into(),
        change: change.into(),
        settings,
        risk: "where they are let through, each split lock holds up all CPUs of the host".into(),
        payer: "nobody, if the program is fixed; else whoever shares the host".into(),
        undo: undo.into(),
        acts: acts.into(),
    })
}
