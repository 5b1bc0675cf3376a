//! The switches of APIC virtualisation, on Intel's and on AMD's processors.

use super::cure::Switch;
use exitscope_model::{APICV_DISABLED, KvmActivity};
use exitscope_policy::{Knob, KnobLocation, KnobMachines, KnobUnit};

/// KVM's APIC virtualisation on Intel.
pub(crate) static ENABLE_APICV: Knob = Knob {
    name: "enable_apicv",
    // A switch, but written as a number: on some kernels -1 leaves it to KVM, and `Y` is refused.
    unit: KnobUnit::Count,
    default: 1,
    min: 0,
    max: 1,
    location: KnobLocation::ModuleAtLoad("kvm_intel"),
    machines: KnobMachines::Of("x86"),
    about: "VMX: whether the processor virtualises the APIC",
};

/// The same on AMD; from Linux 6.18 on it is on where the processor has x2AVIC (`avic_want_avic_enabled` in
/// arch/x86/kvm/svm/avic.c).
pub(crate) static AVIC: Knob = Knob {
    name: "avic",
    default: 0,
    location: KnobLocation::ModuleAtLoad("kvm_amd"),
    about: "SVM: whether the processor virtualises the APIC",
    ..ENABLE_APICV
};

/// The PIT inhibits it where it reinjects lost ticks (`kvm_pit_set_reinject` of arch/x86/kvm/i8254.c), as QEMU has it by default
/// (`lost_tick_policy` of hw/i386/kvm/i8254.c).
pub(crate) const AVIC_SWITCH: Switch = Switch {
    module: "kvm_amd",
    knob: &AVIC,
    on: "`perf record -e kvm:kvm_apicv_inhibit_changed`, from the VM's start on, shows what inhibits it for this VM; \
        QEMU's PIT does by default (-global kvm-pit.lost_tick_policy=discard; libvirt: <timer name='pit' \
        tickpolicy='discard'/>)",
    off: DISABLED,
    of_apic: true,
};

/// `APICV_INHIBIT_REASON_DISABLE` of arch/x86/include/asm/kvm_host.h, which `kvm_apicv_init` of arch/x86/kvm/x86.c sets where the
/// module's switch is off or the processor cannot.
pub(crate) const DISABLED: &[KvmActivity] = &[KvmActivity::ApicvInhibited(APICV_DISABLED)];

/// What takes exits for the local APIC away: `enable_apicv` of arch/x86/kvm/vmx/vmx.c, `avic` of arch/x86/kvm/svm/avic.c.
pub(crate) static APICV: &[Switch] = &[
    Switch {
        module: "kvm_intel",
        knob: &ENABLE_APICV,
        on: "`perf record -e kvm:kvm_apicv_inhibit_changed`, from the VM's start on, shows what inhibits it for this \
            VM",
        off: DISABLED,
        of_apic: true,
    },
    AVIC_SWITCH,
];
