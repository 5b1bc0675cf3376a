//! The same for MSRs, registers of the local APIC, CPUID and hypercalls.
//!
//! Numbers: `arch/x86/include/asm/msr-index.h` and `hyperv-tlfs.h`; x2APIC registers are 0x800 and the APIC's offset / 16.

use super::apic_switches::{APICV, AVIC_SWITCH, ENABLE_APICV};
use super::cure::{
    Acts, Cure, CureCondition, ExitSource, IN_GUEST, LESS_OFTEN, Least, NOBODY, Remedy, Switch, WITH_HARDWARE, by_hand,
    libvirt, qemu,
};
use super::guest_polling::TAKES_CPUS;
use super::passed_msrs::{BASES, COMMANDS, L1D_FLUSHES, RESIDENCY, SPEC_CTRL, SYSCALL, SYSENTER, XFD, XFD_ERR};
use crate::setting::{AdviceSetting, SettingCondition};
use exitscope_model::SubjectKind;
use exitscope_policy::Knob;

const fn msr(first: u64, last: u64, name: &'static str, answer: Remedy) -> ExitSource {
    ExitSource { kind: SubjectKind::Msr, range: (first, last), name, of_qemu: false, answer }
}

const fn apic(first: u64, last: u64, name: &'static str, answer: Remedy) -> ExitSource {
    ExitSource { kind: SubjectKind::Apic, range: (first, last), name, of_qemu: false, answer }
}

const fn call(kind: SubjectKind, number: u64, name: &'static str, answer: Remedy) -> ExitSource {
    ExitSource { kind, range: (number, number), name, of_qemu: false, answer }
}

use Remedy::{Cure as C, Leave, Passed, Unjudged};
use SubjectKind::{GhcbMsr, Hypercall, HypervHypercall, PpcHcall, Vmgexit};

pub(crate) static MSRS: &[ExitSource] = &[
    msr(0x6e0, 0x6e0, TIMERS, C(&TIMER)),
    msr(0x832, 0x832, TIMERS, C(&TIMER)),
    msr(0x838, 0x839, TIMERS, C(&TIMER)),
    msr(0x4000_0084, 0x4000_0084, "Hyper-V messages' end", C(&END_OF_MESSAGE)),
    msr(0x4000_00b0, 0x4000_00b7, "Hyper-V synthetic timers", C(&STIMER)),
    msr(0x4000_0020, 0x4000_0020, "Hyper-V reference counter", C(&REFERENCE_TIME)),
    apic(0x320, 0x320, TIMERS, C(&TIMER)),
    apic(0x380, 0x390, TIMERS, C(&TIMER)),
    apic(0x3e0, 0x3e0, TIMERS, C(&TIMER)),
    msr(0x830, 0x830, IPIS, C(&IPI)),
    apic(0x300, 0x310, IPIS, C(&IPI)),
    msr(0x83f, 0x83f, IPIS, C(&IPI)),
    msr(0x4000_0071, 0x4000_0071, "Hyper-V IPIs", C(&HV_IPIS)),
    apic(0x80, 0xb0, EOIS, C(&EOI)),
    msr(0x808, 0x80b, EOIS, C(&EOI)),
    msr(0x4000_0070, 0x4000_0070, HV_EOIS, C(&HV_EOI)),
    msr(0x4000_0072, 0x4000_0072, HV_EOIS, C(&HV_EOI)),
    msr(0x48, 0x48, "speculation control", Passed(&SPEC_CTRL)),
    msr(0x49, 0x49, "branch predictor barriers", Passed(&COMMANDS)),
    msr(0x10b, 0x10b, "flushes of the L1 data cache", Passed(&L1D_FLUSHES)),
    msr(0x174, 0x176, "entry points of SYSENTER", Passed(&SYSENTER)),
    msr(0x1c4, 0x1c4, "XFD", Passed(&XFD)),
    msr(0x1c5, 0x1c5, "XFD's error", Passed(&XFD_ERR)),
    msr(0x3f8, 0x3fa, "residencies of a package's C-states", Unjudged(PACKAGE_RESIDENCY)),
    msr(0x3fc, 0x3fe, "residencies of C-states", Passed(&RESIDENCY)),
    msr(0x660, 0x660, "residencies of C-states", Passed(&RESIDENCY)),
    msr(0xc000_0081, 0xc000_0084, "entry points of SYSCALL", Passed(&SYSCALL)),
    msr(0xc000_0100, 0xc000_0102, "bases of FS and GS", Passed(&BASES)),
    msr(0x10, 0x10, TSC, C(&TSC_CURE)),
    msr(0x3b, 0x3b, "TSC_ADJUST", Unjudged(TSC_ADJUST)),
    msr(0x4b56_4d02, 0x4b56_4d02, ASYNC_PF, Unjudged(ASYNC)),
    msr(0x4b56_4d06, 0x4b56_4d07, ASYNC_PF, Unjudged(ASYNC)),
    msr(0xe7, 0xe8, "APERF and MPERF", C(&APERF)),
    msr(0xc1, 0xc8, "performance counters", C(&PMU)),
    msr(0x186, 0x18d, "performance counters", C(&PMU)),
    msr(0x309, 0x30c, "performance counters", C(&PMU)),
    msr(0x38d, 0x390, "performance counters", C(&PMU)),
    // MSR_IA32_PEBS_ENABLE, MSR_PEBS_DATA_CFG.
    msr(0x3f1, 0x3f2, "performance counters", C(&PMU)),
    msr(0x4c1, 0x4c8, "performance counters", C(&PMU)),
    // MSR_IA32_DS_AREA.
    msr(0x600, 0x600, "performance counters", C(&PMU)),
    msr(0xc001_0000, 0xc001_0007, "performance counters", C(&AMD_PMU)),
    msr(0xc001_0200, 0xc001_020b, "performance counters", C(&AMD_PMU)),
    msr(0xc000_0300, 0xc000_0303, "performance counters", C(&AMD_PMU)),
    ExitSource { kind: SubjectKind::Cpuid, range: (0, u64::MAX), name: "CPUID", of_qemu: false, answer: C(&CPUID) },
    call(Hypercall, 5, "wake-ups of those who wait for locks", Leave(KICK)),
    call(Hypercall, 10, "IPIs by hypercall", Leave(PV_IPI)),
    call(Hypercall, 11, "yields to vCPUs that are asked for something", Leave(PV_YIELD)),
    call(Hypercall, 12, "page conversions", Leave(CONVERSION)),
    // SVM_VMGEXIT_PSC of arch/x86/include/uapi/asm/svm.h, GHCB_MSR_PSC_REQ of arch/x86/include/asm/sev-common.h.
    call(Vmgexit, 0x8000_0010, "page conversions", Leave(CONVERSION)),
    call(GhcbMsr, 0x14, "page conversions", Leave(CONVERSION)),
    call(HypervHypercall, 0x02, FLUSHES, Leave(FLUSH)),
    call(HypervHypercall, 0x03, FLUSHES, Leave(FLUSH)),
    call(HypervHypercall, 0x13, FLUSHES, Leave(FLUSH)),
    call(HypervHypercall, 0x14, FLUSHES, Leave(FLUSH)),
    call(HypervHypercall, 0x08, "long waits for locks", Leave(LONG_SPIN)),
    call(HypervHypercall, 0x0b, "IPIs by hypercall", Leave(HV_IPI)),
    call(HypervHypercall, 0x15, "IPIs by hypercall", Leave(HV_IPI)),
    call(HypervHypercall, 0x5c, "VMBus", Leave(VMBUS)),
    call(HypervHypercall, 0x5d, "VMBus", Leave(VMBUS)),
];

const ASYNC_PF: &str = "asynchronous page faults";

/// MSR_KVM_ASYNC_PF_EN, _INT and _ACK of Documentation/virt/kvm/x86/msr.rst; `kvm_async_pf_queue_task` of arch/x86/kernel/kvm.c.
const ASYNC: &str = "the guest acknowledges a page that the host had to read in first (MSR_KVM_ASYNC_PF_ACK), or \
    switches that on: the page faults are what matters, and `perf stat -a -e kvm:kvm_async_pf_not_present -e \
    kvm:kvm_async_pf_ready sleep 10` shows how many have to wait";

/// MSR_PKG_C3_RESIDENCY and the two after it of arch/x86/include/asm/msr-index.h, which nothing in arch/x86/kvm has.
const PACKAGE_RESIDENCY: &str = "KVM has no such registers, and refuses each access: the guest asks all the same, and the rip of the exits \
    shows whose code it is (`perf record -e kvm:kvm_exit -e kvm:kvm_msr`)";

/// Interrupts that one vCPU sends to another.
pub(crate) const IPIS: &str = "IPIs";

/// `tsc_verify_tsc_adjust` of arch/x86/kernel/tsc_sync.c.
const TSC_ADJUST: &str = "a Linux guest looks at it when a CPU goes idle, at most once a second for each: more than \
    that is a program's, and the rip of the exits shows whose (`perf record -e kvm:kvm_exit -e kvm:kvm_msr`)";

/// What pseries guests ask for.
pub(crate) static HCALLS: &[ExitSource] = &[
    call(PpcHcall, 0x54, "serial console", C(&TERM_CHAR)),
    call(PpcHcall, 0x58, "serial console", C(&TERM_CHAR)),
    call(PpcHcall, 0xe8, "wake-ups of vCPUs that have ceded", Leave(PROD)),
];

/// H_PROD of `kvmppc_pseries_do_hcall` in arch/powerpc/kvm/book3s_hv.c.
const PROD: &str =
    "the guest wakes a vCPU of its own that has ceded its turn (H_CEDE), or is about to: fewer waits mean fewer calls";

/// `kvm_pv_kick_cpu_op`, `kvm_pv_send_ipi`, `kvm_sched_yield` of arch/x86/kvm; Documentation/virt/kvm/x86/hypercalls.rst.
const KICK: &str = "the guest has PV spinlocks: a vCPU that releases a lock wakes one that waits for it; fewer waits \
    mean fewer calls, so a CPU for each vCPU helps (see steal)";
const PV_IPI: &str = "one call sends an interrupt to many vCPUs (kvm-pv-ipi), where each would be an exit otherwise; only where the \
    processor delivers IPIs itself is kvm-pv-ipi=off better";
const PV_YIELD: &str = "the guest yields to a vCPU that has no CPU and whose answer it waits for \
    (kvm-pv-sched-yield): a CPU for each vCPU helps (see steal)";
const CONVERSION: &str = "a confidential guest shares pages with the host, or takes them back, as its drivers ask for";

/// `kvm_hv_flush_tlb`, `kvm_hv_send_ipi`, `kvm_hv_hypercall` of arch/x86/kvm/hyperv.c.
const FLUSHES: &str = "TLB flushes by hypercall";
const FLUSH: &str =
    "one call flushes the TLBs of many vCPUs (hv-tlbflush), without an IPI to each; fewer vCPUs need fewer";
const HV_IPI: &str = "one call sends an interrupt to many vCPUs (hv-ipi), where each would be an exit otherwise";
const LONG_SPIN: &str = "the guest reports a long wait for a lock, and KVM lets another of its vCPUs run: a CPU for \
    each vCPU helps (see steal)";
const VMBUS: &str = "the guest calls devices of Hyper-V's VMBus: there is nothing to set";

/// The local APIC's ends of interrupts and task priorities.
pub(crate) const EOIS: &str = "APIC's EOI and TPR";

/// The same of Hyper-V's.
const HV_EOIS: &str = "Hyper-V's EOI and TPR";

/// No bit of an MSR bitmap stands for these numbers (`svm_msrpm_offset` of arch/x86/kvm/svm; Intel's SDM, volume 3, "MSR-Bitmap
/// Address"); `kvm_hv_vapic_msr_write` of arch/x86/kvm/hyperv.c answers. With hv-apicv QEMU does not recommend them
/// (HV_APIC_ACCESS_RECOMMENDED in `hyperv_fill_cpuids` of target/i386/kvm/kvm.c).
static HV_EOI: Cure = Cure {
    title: "Let the guest end interrupts at the APIC (hv-apicv)",
    change: "where the processor virtualises the APIC (APICv, AVIC), have the guest end its interrupts there: through Hyper-V's registers \
        (hv-vapic) each end and each task priority is an exit, on any processor; KVM avoids some of the ends by a page that the guest \
        shares with it",
    switches: &[],
    settings: &[
        libvirt("features/hyperv", "<avic state='on'/>"),
        qemu("-cpu …,hv-apicv"),
        by_hand("hv-apicv is of QEMU 6.2 and later: with it QEMU does not recommend Hyper-V's registers to the guest"),
    ],
    xen: "apic_assist of viridian=, which is on by default, spares a part of the ends of interrupts",
    helps: CureCondition::Always,
    least: WITH_HARDWARE,
    acts: Acts::AtStart,
    risk: OF_HV_APICV,
    payer: NOBODY,
};

/// `spapr_vty`: H_PUT_TERM_CHAR takes 16 bytes at most (hw/char/spapr_vty.c of QEMU).
static TERM_CHAR: Cure = Cure {
    title: "Print less on the guest's console",
    change: "print less on the console: each call carries 16 characters at most, and goes to user space",
    switches: &[],
    settings: &[
        by_hand(
            "in the guest: loglevel= or quiet on its command line; log to a file or over the network instead of hvc0",
        ),
        qemu("-device virtio-serial-pci -device virtconsole,chardev=…"),
    ],
    xen: "",
    helps: CureCondition::Always,
    least: LESS_OFTEN,
    acts: Acts::AtStart,
    risk: "messages that are not on the console are missing when the guest hangs",
    payer: NOBODY,
};

/// The guest's own timer: on Intel its expiry is a PREEMPTION_TIMER exit (`vmx_set_hv_timer` in arch/x86/kvm/vmx/vmx.c).
pub(crate) const TIMERS: &str = "timer";

/// IPIs without an exit on Intel.
static ENABLE_IPIV: Knob =
    Knob { name: "enable_ipiv", about: "VMX: whether the processor delivers IPIs to running vCPUs", ..ENABLE_APICV };

static IPIV: &[Switch] = &[
    Switch {
        module: "kvm_intel",
        knob: &ENABLE_IPIV,
        on: "see that enable_apicv is on, too; `perf record -e kvm:kvm_apicv_inhibit_changed`, from the VM's start \
            on, shows what inhibits both for this VM",
        off: &[],
        of_apic: true,
    },
    // `avic_hardware_setup` of arch/x86/kvm/svm/avic.c; the switch is there since Linux 6.17.
    Switch {
        on: "see that its enable_ipiv, if there is one, is Y: KVM clears it on processors of family 17h, which miss \
            IPIs (erratum 1235); `perf record -e kvm:kvm_apicv_inhibit_changed`, from the VM's start on, shows what \
            inhibits AVIC for this VM, above all QEMU's PIT (-global kvm-pit.lost_tick_policy=discard; libvirt: \
            <timer name='pit' tickpolicy='discard'/>)",
        ..AVIC_SWITCH
    },
];

static TIMER: Cure = Cure {
    title: "Let the guest arm its timer less often",
    change: "let the guest arm its timer less often (its tick: nohz_full=, a kernel of lower HZ; programs that sleep briefly): each arming \
        is an exit, and each expiry most often another",
    settings: &[
        by_hand(
            "in a Linux guest: find who arms timers with `perf stat -e timer:hrtimer_start -a sleep 1` and `perf \
                record -e timer:hrtimer_start`; a kernel with HZ=1000 and a periodic tick (nohz=off) is a cause, \
                short sleeps of polling programs are another",
        ),
        by_hand("in a Windows guest: `powercfg /energy` names programs that ask for a timer of 1 ms"),
    ],
    risk: "programs that sleep for very short times wake up later",
    ..IN_GUEST
};

/// `stimer_expiration` in arch/x86/kvm/hyperv.c: a direct timer is an interrupt, without a message that is to be ended.
static END_OF_MESSAGE: Cure = Cure {
    title: "Switch Hyper-V's direct synthetic timers on",
    change: "let Hyper-V's synthetic timers interrupt directly, without a message whose end is an exit",
    switches: &[],
    settings: &[
        libvirt("features/hyperv", "<stimer state='on'><direct state='on'/></stimer>"),
        qemu("-cpu …,hv-time,hv-vpindex,hv-synic,hv-stimer,hv-stimer-direct"),
    ],
    xen: "",
    helps: CureCondition::Always,
    least: Least::Nothing("from 0 (if the messages are not the timers') to all their time"),
    acts: Acts::AtStart,
    risk: "direct mode needs QEMU 4.1 and libvirt 5.7 or later, and a Windows that supports it",
    payer: NOBODY,
};

/// `hv-apicv` in QEMU's docs/system/i386/hyperv.rst.
pub(crate) const OF_HV_APICV: &str = "where a processor does not virtualise the APIC (APICv, AVIC), a guest without AutoEOI is slower: mind the \
    hosts that the VM may migrate to";

static STIMER: Cure = Cure {
    title: "Let the guest ask for fewer timers",
    change: "let the guest ask for fewer timers: each arming of a synthetic timer is an exit, whatever the mode",
    settings: &[by_hand("in the guest: `powercfg /energy` names programs that ask for a timer of 1 ms")],
    risk: "programs that sleep for very short times wake up later",
    ..IN_GUEST
};

/// QEMU's hv-time offers the counter and the page together (HYPERV_FEAT_TIME of target/i386/kvm/kvm.c), and libvirt's hypervclock is
/// hv-time. KVM has the page say that it is invalid where it has no stable TSC to go by (`compute_tsc_page_parameters` of
/// arch/x86/kvm/hyperv.c). `kvm_arch_init_vcpu` in QEMU's target/i386/kvm/kvm.c: invtsc_mig_blocker, unless user_tsc_khz is set.
static REFERENCE_TIME: Cure = Cure {
    title: "Switch the guest's clock to the reference TSC page",
    change: "have the guest read its time from Hyper-V's reference TSC page, without an exit, instead of the register",
    switches: &[],
    settings: &[
        by_hand(
            "QEMU and libvirt offer the page with the register (hv-time; hypervclock): a guest of theirs has it, and does not use it. KVM \
                marks the page invalid while the host's own clock is not its TSC: \
                /sys/devices/system/clocksource/clocksource0/current_clocksource on the host has to be tsc, and its dmesg says why it \
                is not",
        ),
        by_hand(
            "where it is, the guest has found its TSC unstable: invtsc may help (-cpu …,invtsc=on,tsc-frequency=HZ; libvirt: \
                <feature policy='require' name='invtsc'/> and <timer name='tsc' frequency='HZ'/>)",
        ),
        by_hand("another VMM has to offer the page (HV_REFERENCE_TSC_AVAILABLE)"),
    ],
    // A list without "defaults" takes the others away: `hvm_set_viridian_features` of tools/libs/light/libxl_x86.c, xl.cfg.5.
    xen: "viridian=[\"defaults\",\"reference_tsc\"] in the domain's xl.cfg, and what is in its list already",
    helps: CureCondition::Always,
    least: Least::Nothing("from 0 (if the guest has the page and does not trust it) to all their time"),
    acts: Acts::AtStart,
    risk: "with the page, none known; with invtsc, QEMU refuses to migrate or to save the VM, unless tsc-frequency is \
        given, and then it goes only to hosts of that frequency, or that scale it",
    payer: "with invtsc, whoever migrates VMs",
};

/// Whose risk is its hardware's: `avic_hardware_setup` of arch/x86/kvm/svm/avic.c for erratum 1235, and there what it says of
/// x2APIC without x2AVIC; AVIC_REQUIRED_APICV_INHIBITS, and `avic_vcpu_get_apicv_inhibit_reasons` for nested guests (since "KVM:
/// x86: SVM: allow AVIC to co-exist with a nested guest running", 5.19).
pub(crate) const OF_AVIC: &str = "several things inhibit AVIC for a VM: the PIT's reinjection, Hyper-V's AutoEOI, encrypted memory, and nested \
    guests (since Linux 5.19 only while they run). On family 17h KVM does not use its IPIs since about Linux 6.17 (erratum 1235). Without \
    x2AVIC (AMD from Zen 4 on) registers of guests in x2APIC mode still exit";

/// ipi_send_cpu and ipi_send_cpumask of include/trace/events/ipi.h, since 6.4; those of irq_vectors are the receiver's.
const SENDERS: AdviceSetting = by_hand(
    "what sends them: in the guest, from Linux 6.4 on, `perf record -e ipi:ipi_send_cpu -e ipi:ipi_send_cpumask -g`; TLB flushes and \
        wake-ups are the usual ones",
);

/// `kvm_send_ipi_mask` and `kvm_flush_tlb_multi` of arch/x86/kernel/kvm.c.
static IPI: Cure = Cure {
    title: "Send fewer interrupts between vCPUs, or virtualise them",
    change: "let the processor deliver interrupts between vCPUs (IPI virtualisation: Intel from Sapphire Rapids on, \
        AVIC on AMD), or reduce their number: by fewer vCPUs, or, if CPUs are free, by guest halt polling, which \
        needs no interrupt to wake a vCPU",
    switches: IPIV,
    settings: &[
        by_hand(
            "where the processor cannot, and for three vCPUs or more: with kvm-pv-ipi (QEMU's -cpu host has it; libvirt: <pv-ipi \
                state='on'/> in <features><kvm>) a Linux guest sends an interrupt to several vCPUs by one hypercall, and with \
                kvm-pv-tlb-flush it leaves out vCPUs that have no CPU; an interrupt to a single vCPU, as most wake-ups are, stays an \
                exit. Where the processor can: kvm-pv-ipi=off, as the hypercall is an exit and such interrupts are not",
        ),
        SENDERS,
    ],
    // `xen_send_IPI_one` of Linux' drivers/xen/events/events_base.c: EVTCHNOP_send.
    xen: "fewer vCPUs, or fewer wake-ups in the guest: by event channels each interrupt is an exit, too",
    helps: CureCondition::Always,
    least: WITH_HARDWARE,
    acts: Acts::WithModule,
    risk: OF_AVIC,
    payer: NOBODY,
};

/// `avic_incomplete_ipi_interception` of arch/x86/kvm/svm/avic.c: AVIC_IPI_FAILURE_TARGET_NOT_RUNNING. Who waits for work in
/// haltpoll says by TIF_POLLING_NRFLAG that nobody need send it an interrupt: drivers/cpuidle/poll_state.c.
pub(crate) static IPI_TO_HALTED: Cure = Cure {
    title: "Send fewer interrupts to halted vCPUs",
    change: "most of these interrupts wake vCPUs that have halted, and such a wake-up is an exit even with AVIC: \
        reduce their number by fewer vCPUs, or, if CPUs are free, by guest halt polling, which needs no interrupt to \
        wake a vCPU",
    settings: &[
        by_hand(
            "in a Linux guest: the cpuidle-haltpoll driver (modprobe cpuidle-haltpoll force=1 where KVM does not hint at \
                dedicated CPUs); its polls take CPU time",
        ),
        SENDERS,
    ],
    risk: TAKES_CPUS,
    payer: "who else wants the CPU",
    ..IN_GUEST
};

/// The same, where a guest must not poll.
pub(crate) static IPI_TO_HALTED_ALONE: Cure = Cure {
    title: "Give the guest fewer vCPUs, to send fewer interrupts",
    change: "most of these interrupts wake vCPUs that have halted, and such a wake-up is an exit even with AVIC: \
        reduce their number, above all by fewer vCPUs; not by guest halt polling, because CPUs are short",
    settings: &[SENDERS],
    risk: "none known",
    payer: NOBODY,
    ..IN_GUEST
};

/// `arch_irq_work_raise` of arch/x86/kernel/irq_work.c; `vmx_update_msr_bitmap_x2apic` of arch/x86/kvm/vmx/vmx.c.
pub(crate) static IPI_TO_ITSELF: Cure = Cure {
    title: "Send fewer interrupts from vCPUs to themselves",
    change: "most of these interrupts go to the vCPU that sends them: reduce their number, or let the processor \
        deliver them",
    switches: APICV,
    settings: &[
        by_hand(
            "with the APIC virtualised they go through SELF_IPI (MSR 0x83f) without an exit; through the ICR (0x830) kvm_intel's enable_ipiv \
                has to be Y as well",
        ),
        by_hand(
            "what raises them: where their vector is 0xf6, Linux's irq_work (in the guest `perf record -e irq_vectors:irq_work_entry -g`; \
            perf, printk, RCU and BPF programs do); `perf record -e kvm:kvm_apic_ipi` on the host has the vectors",
        ),
    ],
    xen: "",
    helps: CureCondition::Always,
    least: WITH_HARDWARE,
    acts: Acts::WithModule,
    risk: OF_AVIC,
    payer: NOBODY,
};

/// `kvm_hv_send_ipi`, `kvm_hv_flush_tlb` of arch/x86/kvm/hyperv.c.
static HV_IPIS: Cure = Cure {
    title: "Switch Hyper-V's IPI and TLB-flush hypercalls on",
    change: "let Windows send interrupts and flush TLBs by hypercalls, one for many vCPUs: through Hyper-V's register each interrupt is \
        an exit",
    switches: &[],
    settings: &[
        libvirt("features/hyperv", "<vpindex state='on'/>"),
        libvirt("features/hyperv", "<ipi state='on'/>"),
        libvirt("features/hyperv", "<tlbflush state='on'/>"),
        qemu("-cpu …,hv-vpindex,hv-ipi,hv-tlbflush"),
    ],
    xen: "viridian=[\"defaults\",\"hcall_remote_tlb_flush\",\"hcall_ipi\"] in the domain's xl.cfg, and what is in its list already",
    helps: CureCondition::Always,
    least: Least::Nothing("from 0 (if each goes to a single vCPU) to all their time"),
    acts: Acts::AtStart,
    risk: "none known",
    payer: NOBODY,
};

static EOI: Cure = Cure {
    title: "Switch APIC virtualisation on",
    change: "have the processor virtualise the APIC: without that, ends of interrupts and task priorities are exits",
    switches: APICV,
    settings: &[by_hand(
        "where the processor cannot: see that nobody switched kvm-pv-eoi off (libvirt: <apic eoi='off'/>); it is on by \
            default, and spares a Linux guest part of these exits",
    )],
    xen: "apicv is on by default where the processor has it; x2apic in the guest",
    helps: CureCondition::Always,
    least: WITH_HARDWARE,
    acts: Acts::WithModule,
    risk: "KVM inhibits APIC virtualisation for some VMs: by Hyper-V's AutoEOI (hv-avic avoids it), and AVIC also by the \
        PIT's reinjection; for guests in x2APIC mode AVIC needs x2AVIC (AMD from Zen 4 on), without which their APIC \
        registers still exit",
    payer: NOBODY,
};

pub(crate) const TSC: &str = "TSC";

/// `kvm_write_tsc` of arch/x86/kvm/x86.c.
pub(crate) const TSC_WRITES: &str = "the guest sets its TSC, as kernels do while they boot and while they synchronise \
    CPUs: the rip of the exits shows what goes on setting it (`perf record -e kvm:kvm_exit -e kvm:kvm_msr`)";

static TSC_CURE: Cure = Cure {
    title: "Read the guest's clock with RDTSC",
    change: "let the guest read its clock with RDTSC instead of the MSR",
    settings: &[by_hand("in the guest: the rip of the exits shows whose code it is (`perf record -e kvm:kvm_exit`)")],
    ..IN_GUEST
};

/// KVM_X86_DISABLE_EXITS_APERFMPERF of Documentation/virt/kvm/api.rst, of Linux 6.17; no option of QEMU's asks for it as of 10.2.
static APERF: Cure = Cure {
    title: "Read APERF and MPERF less often in the guest",
    change: "let the guest read APERF and MPERF less often",
    settings: &[
        // `arch_scale_freq_tick` of arch/x86/kernel/cpu/aperfmperf.c.
        by_hand(
            "in the guest: turbostat and cpupower monitor read them; so does each tick of Linux where the guest's CPUID has APERFMPERF, \
                which ends if the VMM does not offer that",
        ),
        by_hand(
            "from Linux 6.17 on KVM lets guests read them without an exit if the VMM asks for it \
                (KVM_X86_DISABLE_EXITS_APERFMPERF), which QEMU up to 10.2 does not; they are the CPU's then, not the vCPU's, and mean \
                something only where each vCPU has a CPU of its own",
        ),
    ],
    xen: "in the guest: turbostat and cpupower monitor read them",
    ..IN_GUEST
};

/// `enable_mediated_pmu` of Documentation/admin-guide/kernel-parameters.txt, of Linux 7.0; `kvm_need_rdpmc_intercept` of
/// arch/x86/kvm/pmu.c and `vmx_recalc_pmu_msr_intercepts` of arch/x86/kvm/vmx/vmx.c keep the exits of event selectors.
const MEDIATED: AdviceSetting = AdviceSetting::When {
    condition: SettingCondition::MediatedPmu,
    set: &by_hand(
        "`enable_mediated_pmu=1` for kvm_intel or kvm_amd in modprobe.d: where the VM has all the counters of the processor, reading \
            and switching them (RDPMC, too) then needs no exit, choosing events still does; perf on the host cannot profile guests \
            meanwhile, and most other exits take longer",
    ),
};

/// `pmu=off`: leaf 0xa of CPUID is empty (`cpu_x86_cpuid` of QEMU's target/i386/cpu.c), and without it `intel_pmu_init` of
/// arch/x86/events/intel/core.c has drivers for the P6 up to the Pentium M, the Pentium 4 and Knights Corner alone; on arm64 ID_AA64DFR0_EL1 has no PMU, and `armv8pmu_probe_pmu` of
/// drivers/perf/arm_pmuv3.c none either.
pub(crate) static PMU: Cure = Cure {
    title: "Stop counting with the PMU in the guest",
    change: "stop counting in the guest: every change of a performance counter is an exit, also for the watchdog that \
        uses one",
    switches: &[],
    settings: &[
        AdviceSetting::GuestBoot("nmi_watchdog=0"),
        libvirt("features", "<pmu state='off'/>"),
        qemu("-cpu …,pmu=off"),
        by_hand("in the guest: end `perf` and profilers that run all the time"),
        MEDIATED,
    ],
    // Off unless asked for, and each access exits then, too: docs/misc/xen-command-line.pandoc, `vpmu_do_msr` of xen/arch/x86/cpu/vpmu.c.
    xen: "in the guest: nmi_watchdog=0 on its kernel's command line, and end perf and profilers that run all the time; Xen's vpmu= does not \
        spare these exits",
    helps: CureCondition::Always,
    least: Least::All,
    acts: Acts::AtStart,
    risk: "no profiles and no hard-lockup watchdog in the guest",
    payer: "whoever profiles in the guest",
};

/// AMD's: no CPUID leaf takes the counters of the K7 away, for which `amd_pmu_init` of arch/x86/events/amd/core.c has a driver.
static AMD_PMU: Cure = Cure {
    least: Least::Nothing("from 0 (if others than those that are switched off go on counting) to all their time"),
    ..PMU
};

/// RDPMC's exit is kept unless the PMU is mediated: `kvm_need_rdpmc_intercept` of arch/x86/kvm/pmu.c, and always before Linux 7.0.
pub(crate) static RDPMC: Cure = Cure {
    title: "Read performance counters less often in the guest",
    change: "let the guest's programs read performance counters less often: each RDPMC is an exit",
    settings: &[
        by_hand(
            "in the guest: profilers and libraries that count by themselves (PAPI, `perf stat` with short intervals); \
                /sys/bus/event_source/devices/cpu/rdpmc shows who may",
        ),
        MEDIATED,
    ],
    ..IN_GUEST
};

pub(crate) static CPUID: Cure = Cure {
    title: "Use CPUID less in the guest's program",
    change: "let the guest's program use CPUID less: it always exits, and no setting of the host changes that",
    settings: &[by_hand(
        "in the guest: the rip of the exits shows whose code it is; CPUID as a fence around RDTSC can be LFENCE or \
            RDTSCP, features can be looked up once",
    )],
    ..IN_GUEST
};
