//! What can be done about the host's interrupts that make guests leave, by what their vectors are for.
//!
//! `handle_external_interrupt` of arch/x86/kvm/vmx/vmx.c: the host's handler runs, and nothing else is done. Vectors:
//! arch/x86/include/asm/irq_vectors.h.

use super::apic_switches::ENABLE_APICV;
use super::cure::{Acts, Cure, CureCondition, LESS_OFTEN, Least, NOBODY, Switch, by_hand};
use crate::setting::AdviceSetting;
use exitscope_policy::Knob;

const MUST_COME: Least = Least::Nothing("from 0 (if they must come to this CPU) to all their time");
const NOT_THE_VMS: Least =
    Least::Nothing("from 0 (if the interrupts are the VM's own or must come to this CPU) to all their time");

/// `native_smp_send_reschedule` and `native_send_call_func_ipi` of arch/x86/kernel/smp.c are traced by ipi_send_cpu and
/// ipi_send_cpumask of include/trace/events/ipi.h, since 6.4.
const SENDERS: AdviceSetting = by_hand(
    "who sends them: from Linux 6.4 on, `perf record -a -g -e ipi:ipi_send_cpu -e ipi:ipi_send_cpumask -- sleep 10` on the host has the \
        senders' stacks",
);

/// Where no vector says what they are: of AMD's processors none does (an intercepted INTR stays pending until the host takes it).
pub(crate) static HOST_INTERRUPTS: Cure = Cure {
    title: "Keep other interrupts off the vCPUs' CPUs",
    change: "keep interrupts that are not the VM's away from the CPUs of its vCPUs: each makes the guest leave",
    switches: &[],
    settings: &[
        by_hand(
            "which they are, where kvm_exit has no vector (on AMD's processors, and in text without intr_info): `perf record -a -e \
                irq:irq_handler_entry -e 'irq_vectors:*' -- sleep 10`, or the columns of those CPUs in the host's \
                /proc/interrupts, twice, some seconds apart; rows with numbers are devices, LOC is the timer, RES and CAL are IPIs of other CPUs",
        ),
        by_hand(
            "devices: /proc/irq/N/smp_affinity_list, or irqaffinity= on the host's command line; for devices assigned to the VM (VFIO), \
                posted interrupts, which need an IOMMU that remaps interrupts",
        ),
        by_hand(
            "the timer: where each vCPU has a CPU of its own, nohz_full= and rcu_nocbs= on the host's command line stop the host's tick; \
                timers of the guest stay where the host keeps them in timers of its own, as on AMD's processors, which have no \
                preemption timer like VMX's",
        ),
        by_hand("perf itself: if it samples cycles, its interrupts are among these"),
    ],
    // `dump_irqs` of xen/arch/x86/irq.c; docs/man/xl.1.pod.in.
    xen: "`xl debug-keys i`, then `xl dmesg`, list the host's interrupts and the CPUs that take each; `xl vcpu-pin` gives the \
        VM's vCPUs others",
    helps: CureCondition::Always,
    least: NOT_THE_VMS,
    acts: Acts::AtHost,
    risk: "other CPUs take these interrupts instead",
    payer: "the CPUs that take the interrupts",
};

/// `apic_timer_fn` of arch/x86/kvm/lapic.c is a guest's timer, `tick_nohz_handler` (before 6.9 `tick_sched_timer`) of
/// kernel/time/tick-sched.c the tick; nohz_full= of Documentation/timers/no_hz.rst.
pub(crate) static TIMER: Cure = Cure {
    title: "Find out whose timers interrupt the vCPUs' CPUs",
    change: "the host's own timer interrupts the CPUs of these vCPUs: its tick, timers of the host, and those timers of guests that VMX's \
        preemption timer does not keep",
    settings: &[
        by_hand(
            "which it is: `perf record -a -e timer:hrtimer_expire_entry -- sleep 10` has the functions: those that begin with tick_ are \
                the tick, apic_timer_fn is a guest's timer",
        ),
        by_hand(
            "the tick: where each vCPU has a CPU of its own, nohz_full= and rcu_nocbs= on the host's command line stop it while the vCPU \
                is the only task there",
        ),
    ],
    least: Least::Nothing("from 0 (if these timers are the guest's or must expire on this CPU) to all their time"),
    risk: "with nohz_full= each way into the kernel and back costs more on these CPUs, each exit to user space too",
    payer: NOBODY,
    ..HOST_INTERRUPTS
};

/// Keeps guests' timers on Intel: `preemption_timer` of arch/x86/kvm/vmx/vmx.c, which `hardware_setup` also clears where the processor
/// has none or a broken one; a `bool` that can be read only, once loaded.
static PREEMPTION_TIMER: Knob = Knob {
    name: "preemption_timer",
    about: "VMX: whether the processor's preemption timer keeps a running guest's APIC timer",
    ..ENABLE_APICV
};

/// `kvm_can_use_hv_timer` of arch/x86/kvm/lapic.c: not with MWAIT in the guest, nor where the timer's interrupt is posted.
pub(crate) const PREEMPTION_TIMER_SWITCH: Switch = Switch {
    module: "kvm_intel",
    knob: &PREEMPTION_TIMER,
    on: "KVM does without it for guests that may run MWAIT (QEMU's -overcommit cpu-pm=on), and for those whose timer it posts \
        (pi_inject_timer of the module kvm)",
    off: &[],
    of_apic: false,
};

pub(crate) static GUEST_TIMER: Cure = Cure {
    title: "Let VMX's preemption timer keep the guest's timer",
    change: "most of these interrupts are the guest's own timer, which a timer of the host emulates: have VMX's \
        preemption timer keep it, or let the guest arm it less often",
    switches: &[PREEMPTION_TIMER_SWITCH],
    settings: &[by_hand(
        "an expiry stays an exit (PREEMPTION_TIMER), without the host's interrupt in it; only fewer timers of the \
         guest mean fewer exits (see timer)",
    )],
    least: LESS_OFTEN,
    acts: Acts::WithModule,
    risk: "none known",
    payer: NOBODY,
    ..HOST_INTERRUPTS
};

/// The same where nothing says how many of them are.
pub(crate) static GUEST_TIMERS_TOO: Cure = Cure {
    title: "Switch VMX's preemption timer on",
    change: "the host's own timer interrupts the CPUs of these vCPUs, for the guest's timers too, as VMX's preemption timer is off: have it keep \
        those, and see what the others are",
    settings: TIMER.settings,
    ..GUEST_TIMER
};

/// `kvm_vcpu_kick` of virt/kvm/kvm_main.c and `resched_curr` of kernel/sched/core.c send them.
pub(crate) static RESCHEDULE: Cure = Cure {
    title: "Find out who sends reschedule interrupts",
    change: "another CPU asks these to reschedule: KVM itself, to have a running vCPU look at an interrupt or a request, or the scheduler, \
        for a task that it wakes there: find out who sends them",
    settings: &[
        SENDERS,
        by_hand(
            "kvm_vcpu_kick in a stack: an interrupt for this vCPU, or a request of the VMM's; where APICv is in force an interrupt needs \
                none (see interrupt windows)",
        ),
        by_hand(
            "try_to_wake_up in a stack: another task is woken on the vCPU's CPU (`perf record -a -e sched:sched_wakeup -- sleep 10` \
                names it): give it other CPUs (cpusets, taskset)",
        ),
    ],
    least: MUST_COME,
    acts: Acts::ByLooking,
    risk: "none: it only finds out what causes them",
    payer: NOBODY,
    ..HOST_INTERRUPTS
};

/// `smp_call_function_many_cond` of kernel/smp.c; `kvm_kick_many_cpus` of virt/kvm/kvm_main.c, `flush_tlb_multi` of arch/x86/mm/tlb.c,
/// `membarrier_private_expedited` of kernel/sched/membarrier.c are callers.
pub(crate) static FUNCTION_CALL: Cure = Cure {
    title: "Find out who sends function-call interrupts",
    change: "other CPUs have these call a function: TLB flushes of a process that runs there (the VMM's too), membarrier(), requests of \
        KVM's to all vCPUs of a VM, wake-ups: find out who sends them",
    settings: &[
        SENDERS,
        by_hand(
            "by what the stacks show: flush_tlb: who unmaps memory of the VMM's (a balloon, NUMA balancing, KSM, its \
                allocator); membarrier: the process that calls it; kvm_make_all_cpus_request: the MMU's changes, \
                which `perf record -e kvm:kvm_unmap_hva_range` shows",
        ),
    ],
    ..RESCHEDULE
};

/// `handle_external_interrupt` sees POSTED_INTR only where the processor does not take it for the VMCS that is in force: `vmx_pi_update_irte`
/// and `vmx_vcpu_pi_load` of arch/x86/kvm/vmx/posted_intr.c keep devices' interrupts posted while APICv is inhibited. In
/// arch/x86/kvm/vmx/nested.c `prepare_vmcs02_constant_state` gives L2 another notification vector, and `prepare_vmcs02_early` no posted
/// interrupts unless L1 asks for them.
pub(crate) static POSTED: Cure = Cure {
    title: "Find out why posted interrupts are not in force",
    change: "notifications of posted interrupts make the guest leave; the processor would take them without an exit \
        if posted interrupts were in force for the vCPU that runs. They are not: APICv is inhibited, a nested guest \
        (L2) runs, or the notification is for another vCPU",
    settings: &[
        by_hand(
            "whether APICv is inhibited for this VM: `perf record -e kvm:kvm_apicv_inhibit_changed` from the VM's start on",
        ),
        by_hand("whether nested guests run: `perf record -e kvm:kvm_nested_vmexit -e kvm:kvm_exit`"),
        by_hand("whether several vCPUs share a CPU: give each one its own (libvirt's <vcpupin>)"),
    ],
    least: MUST_COME,
    acts: Acts::ByLooking,
    risk: "none: it only finds out what causes them",
    payer: NOBODY,
    ..HOST_INTERRUPTS
};

/// `pi_enable_wakeup_handler` and `pi_wakeup_handler` of arch/x86/kvm/vmx/posted_intr.c: the CPU on which a vCPU blocked gets its posted
/// interrupts, of assigned devices and of IPI virtualisation (`vmx_needs_pi_wakeup`).
pub(crate) static POSTED_WAKEUP: Cure = Cure {
    title: "Give each vCPU a CPU of its own",
    change: "posted interrupts wake vCPUs that halted on these CPUs, and the vCPUs that run there now leave their \
        guest for it: give each vCPU a CPU of its own",
    settings: &[by_hand(
        "libvirt's <vcpupin>; only where there are CPUs enough. The interrupts are of devices that are assigned to a VM (VFIO), or IPIs \
            where IPI virtualisation is on",
    )],
    least: MUST_COME,
    risk: "a vCPU that is pinned cannot use another CPU that is free",
    payer: "other tasks of these CPUs",
    ..HOST_INTERRUPTS
};

/// managed_irq of isolcpus= in Documentation/admin-guide/kernel-parameters.txt: the kernel places these interrupts, and none can be set
/// through /proc/irq. Posted interrupts: `vmx_can_use_vtd_pi` of arch/x86/kvm/vmx/posted_intr.c, `avic_pi_update_irte` of
/// arch/x86/kvm/svm/avic.c.
pub(crate) static DEVICE: Cure = Cure {
    title: "Move devices' interrupts to other CPUs",
    change: "devices of the host interrupt the CPUs of these vCPUs: move their interrupts to other CPUs",
    settings: &[
        by_hand(
            "which devices: /proc/interrupts names the IRQs that the facts have; where they have none, `perf record -a -e irq:irq_handler_entry \
                -- sleep 10` tells, or the numbered rows of /proc/interrupts in the columns of those CPUs, twice, some seconds apart",
        ),
        by_hand(
            "then /proc/irq/N/smp_affinity_list (irqbalance may move them back), or irqaffinity= on the host's command line; those of \
                queues that the kernel places itself (NVMe and the like) refuse it: isolcpus=managed_irq,CPUS keeps them away where \
                their queue has other CPUs",
        ),
        by_hand(
            "a device that the VM itself has (VFIO): where interrupt remapping can post its interrupts (VT-d with APICv, AMD's IOMMU with \
                AVIC), they reach the running guest without an exit",
        ),
    ],
    ..HOST_INTERRUPTS
};
