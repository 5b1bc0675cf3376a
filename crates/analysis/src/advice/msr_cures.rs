//! The same for MSRs and CPUID.
//!
//! Numbers: `arch/x86/include/asm/msr-index.h` and `hyperv-tlfs.h`; x2APIC registers are 0x800 and the APIC's offset / 16.

use super::cures::{Answer, Cure, Helps, NOBODY, Source, by_hand, libvirt, qemu};
use super::judgement::{Setting, Side};
use exitscope_model::DetailKind;
use exitscope_policy::{Knob, Place, Unit};

const fn msr(first: u64, last: u64, name: &'static str, answer: Answer) -> Source {
    Source { kind: DetailKind::Msr, range: (first, last), name, answer }
}

use Answer::Cure as C;

pub(super) static MSRS: &[Source] = &[
    msr(0x6e0, 0x6e0, "timer", C(&TIMER)),
    msr(0x832, 0x832, "timer", C(&TIMER)),
    msr(0x838, 0x839, "timer", C(&TIMER)),
    msr(0x4000_0084, 0x4000_0084, "Hyper-V synthetic timers", C(&STIMER)),
    msr(0x4000_00b0, 0x4000_00b7, "Hyper-V synthetic timers", C(&STIMER)),
    msr(0x4000_0020, 0x4000_0020, "Hyper-V reference counter", C(&REFERENCE_TIME)),
    msr(0x830, 0x830, "IPIs", C(&IPI)),
    msr(0x83f, 0x83f, "IPIs", C(&IPI)),
    msr(0x4000_0071, 0x4000_0071, "IPIs", C(&IPI)),
    msr(0x808, 0x80b, "APIC's EOI and TPR", C(&EOI)),
    msr(0x4000_0070, 0x4000_0070, "APIC's EOI and TPR", C(&EOI)),
    msr(0x4000_0072, 0x4000_0072, "APIC's EOI and TPR", C(&EOI)),
    msr(0x48, 0x49, "speculation control", C(&SPECULATION)),
    msr(0x10, 0x10, "TSC", C(&TSC)),
    msr(0x3b, 0x3b, "TSC", C(&TSC)),
    msr(0xe7, 0xe8, "APERF and MPERF", C(&APERF)),
    msr(0xc1, 0xc8, "performance counters", C(&PMU)),
    msr(0x186, 0x18d, "performance counters", C(&PMU)),
    msr(0x309, 0x30c, "performance counters", C(&PMU)),
    msr(0x38d, 0x390, "performance counters", C(&PMU)),
    msr(0x4c1, 0x4c8, "performance counters", C(&PMU)),
    msr(0xc001_0000, 0xc001_0007, "performance counters", C(&PMU)),
    msr(0xc001_0200, 0xc001_020b, "performance counters", C(&PMU)),
    msr(0xc000_0300, 0xc000_0303, "performance counters", C(&PMU)),
    Source { kind: DetailKind::Cpuid, range: (0, u64::MAX), name: "CPUID", answer: C(&CPUID) },
];

/// KVM's APIC virtualisation on Intel.
static ENABLE_APICV: Knob = Knob {
    name: "enable_apicv",
    // A switch, but written as a number: on some kernels -1 leaves it to KVM, and `Y` is refused.
    unit: Unit::Count,
    default: 1,
    min: 0,
    max: 1,
    place: Place::ModuleAtLoad("kvm_intel"),
    about: "VMX: whether the processor virtualises the APIC",
};

/// The same on AMD.
static AVIC: Knob = Knob {
    name: "avic",
    default: 0,
    place: Place::ModuleAtLoad("kvm_amd"),
    about: "SVM: whether the processor virtualises the APIC",
    ..ENABLE_APICV
};

/// IPIs without an exit on Intel.
static ENABLE_IPIV: Knob =
    Knob { name: "enable_ipiv", about: "VMX: whether the processor delivers IPIs to running vCPUs", ..ENABLE_APICV };

const fn on(knob: &'static Knob) -> Setting {
    Setting::Knob { side: Side::Host, knob, value: 1 }
}

static TIMER: Cure = Cure {
    change: "let the guest arm its timer less often: each arming is an exit, and each expiry most often another",
    settings: &[
        by_hand(
            "in a Linux guest: find who arms timers with `perf stat -e timer:hrtimer_start -a sleep 1` and `perf \
                record -e timer:hrtimer_start`; a kernel with HZ=1000 and a periodic tick (nohz=off) is a cause, \
                short sleeps of polling programs are another",
        ),
        by_hand("in a Windows guest: `powercfg /energy` names programs that ask for a timer of 1 ms"),
    ],
    xen: "",
    helps: Helps::Always,
    risk: "programs that sleep for very short times wake up later",
    payer: NOBODY,
};

static STIMER: Cure = Cure {
    change: "let Hyper-V's synthetic timers interrupt directly, without a message that the guest must end with \
        another exit; and find the program that asks for a short timer",
    settings: &[
        libvirt("features/hyperv", "<stimer state='on'><direct state='on'/></stimer>"),
        qemu("-cpu host,hv-time,hv-vpindex,hv-synic,hv-stimer,hv-stimer-direct"),
        by_hand("in the guest: `powercfg /energy` names programs that ask for a timer of 1 ms"),
    ],
    xen: "viridian=[\"base\",\"freq\",\"time_ref_count\",\"reference_tsc\",\"stimer\"] in the domain's xl.cfg",
    helps: Helps::Always,
    risk: "direct mode needs QEMU 4.1 and libvirt 5.7 or later, and a Windows that knows it",
    payer: NOBODY,
};

static REFERENCE_TIME: Cure = Cure {
    change: "offer the guest Hyper-V's reference TSC page, which it reads without an exit, and a TSC that does not \
        change",
    settings: &[
        libvirt("clock", "<timer name='hypervclock' present='yes'/>"),
        libvirt("cpu", "<feature policy='require' name='invtsc'/>"),
        qemu("-cpu host,hv-time,invtsc=on,migratable=off"),
    ],
    xen: "viridian=[\"base\",\"reference_tsc\"] in the domain's xl.cfg",
    helps: Helps::Always,
    risk: "with invtsc the VM can be migrated only to hosts of the same TSC frequency",
    payer: "whoever migrates VMs",
};

static IPI: Cure = Cure {
    change: "let the processor deliver interrupts between vCPUs (IPI virtualisation: Intel from Sapphire Rapids on, \
        AVIC on AMD), or have fewer of them: fewer vCPUs, or guest halt polling, which wakes without one",
    settings: &[
        on(&ENABLE_IPIV),
        on(&AVIC),
        by_hand(
            "where the processor cannot: kvm-pv-ipi and kvm-pv-tlb-flush (on with -cpu host; libvirt: <pv-ipi state='on'/> in \
                <features><kvm>) make one hypercall of an interrupt that a Linux guest sends to several vCPUs; one to a single \
                vCPU, as most wake-ups are, stays an exit. Where it can, kvm-pv-ipi=off: the hypercall leaves the guest, which \
                the interrupts would not",
        ),
        by_hand(
            "what sends them: in the guest `perf record -e 'irq_vectors:*' -g`; TLB flushes and wake-ups are the \
                usual ones",
        ),
    ],
    xen: "use event channels: PVH, or PV drivers in an HVM guest",
    helps: Helps::WithHardware,
    risk: "AVIC is left out by KVM for guests with nested virtualisation, and was faulty on some early processors; to a guest in \
        x2APIC mode, as this one, it helps only with x2AVIC (AMD from Zen 4 on)",
    payer: NOBODY,
};

static EOI: Cure = Cure {
    change: "switch APIC virtualisation on: without it each end of an interrupt is an exit",
    settings: &[
        on(&ENABLE_APICV),
        on(&AVIC),
        by_hand(
            "where the processor cannot: see that nobody switched kvm-pv-eoi off (libvirt: <apic eoi='off'/>); it is on by \
                default, and spares a Linux guest part of these exits",
        ),
    ],
    xen: "apicv is on by default where the processor has it; x2apic in the guest",
    helps: Helps::WithHardware,
    risk: "KVM leaves it out where it cannot be used (AutoEOI of Hyper-V's SynIC: hv-avic; PIT with reinjection); to a guest in \
        x2APIC mode AVIC helps only with x2AVIC (AMD from Zen 4 on)",
    payer: NOBODY,
};

static SPECULATION: Cure = Cure {
    change: "give the guest a processor model with enhanced or automatic IBRS, so that its kernel does not switch \
        speculation control at every entry",
    settings: &[
        libvirt("cpu", "<feature policy='require' name='ibrs-all'/>"),
        qemu("-cpu host"),
        by_hand("in a Linux guest /sys/devices/system/cpu/vulnerabilities/spectre_v2 says what it uses"),
    ],
    xen: "",
    helps: Helps::Always,
    risk: "the processor must have it; do not switch mitigations off instead without deciding so",
    payer: NOBODY,
};

static TSC: Cure = Cure {
    change: "let the guest read its clock with RDTSC instead of the MSR",
    settings: &[by_hand("in the guest: whose code it is, the rip of the exits says (`perf record -e kvm:kvm_exit`)")],
    xen: "",
    helps: Helps::Always,
    risk: "none",
    payer: NOBODY,
};

static APERF: Cure = Cure {
    change: "let the guest read APERF and MPERF less often",
    settings: &[by_hand("in the guest: turbostat, cpupower monitor and reads of scaling_cur_freq are what reads them")],
    xen: "",
    helps: Helps::Always,
    risk: "none",
    payer: NOBODY,
};

static PMU: Cure = Cure {
    change: "stop counting in the guest: every change of a performance counter is an exit, also for the watchdog that \
        uses one",
    settings: &[
        Setting::GuestBoot("nmi_watchdog=0"),
        libvirt("features", "<pmu state='off'/>"),
        qemu("-cpu host,pmu=off"),
        by_hand("in the guest: end `perf` and profilers that run all the time"),
    ],
    xen: "vpmu=off on Xen's command line",
    helps: Helps::Always,
    risk: "no profiles and no hard-lockup watchdog in the guest",
    payer: "whoever profiles in the guest",
};

static CPUID: Cure = Cure {
    change: "let the guest's program use CPUID less: it always exits, and no setting of the host changes that",
    settings: &[by_hand(
        "in the guest: the rip of the exits says whose code it is; CPUID as a fence around RDTSC can be LFENCE or \
            RDTSCP, features can be looked up once",
    )],
    xen: "",
    helps: Helps::Always,
    risk: "none",
    payer: NOBODY,
};
