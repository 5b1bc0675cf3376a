//! Tables of what can be changed: by device, register and call, with the settings that do it. They import no rule.

pub(crate) mod apic_switches;
pub(crate) mod arm_cures;
pub(crate) mod cure;
pub(crate) mod device_cures;
pub(crate) mod guest_polling;
pub(crate) mod halt_poll_scope;
pub(crate) mod host_interrupts;
pub(crate) mod msr_cures;
pub(crate) mod passed_msrs;
pub(crate) mod table;
pub(crate) mod unmapping_cures;
pub(crate) mod vmm_settings;
