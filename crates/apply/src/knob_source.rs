//! What would bring a knob's file to a host that lacks it: told by the knob's row and the host's architecture.

use exitscope_model::Architecture;
use exitscope_policy::{Knob, KnobLocation};

/// What has the file of a knob.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KnobSource {
    /// Machines of an architecture that this one is not of; both, as the kernel's `arch/` calls them.
    OtherMachines(&'static str, String),
    /// A module that can be loaded.
    Module(&'static str),
    /// The kernel: it is built with it or not, and may ask the processor.
    Kernel,
}

impl KnobSource {
    /// Of a machine which `uname -m` calls so.
    pub fn of(knob: &Knob, machine: &str) -> KnobSource {
        let architecture = Architecture::of(machine).map(Architecture::row);
        let name = architecture.map_or(machine, |row| row.kernel_name);
        if let Some(other) = knob.machines.other_than(name) {
            return KnobSource::OtherMachines(other, name.to_string());
        }
        match knob.location {
            KnobLocation::Module("kvm") if architecture.is_some_and(|row| !row.kvm_is_module) => KnobSource::Kernel,
            KnobLocation::Module(module) | KnobLocation::ModuleAtLoad(module) => KnobSource::Module(module),
            KnobLocation::BuiltIn(_) | KnobLocation::File(_) | KnobLocation::FileAndBoot(..) => KnobSource::Kernel,
            KnobLocation::Ioctl(_) | KnobLocation::Design | KnobLocation::Machine => KnobSource::Kernel,
        }
    }

    /// Of the machine that this runs on.
    pub fn here(knob: &Knob) -> KnobSource {
        KnobSource::of(knob, &rustix::system::uname().machine().to_string_lossy())
    }

    /// Whether this machine may have it.
    pub fn is_of_this_machine(&self) -> bool {
        !matches!(self, KnobSource::OtherMachines(..))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PlacedSetting;
    use exitscope_policy::all_knobs;

    /// Which architectures have each knob that has a file, and which of them can load a module that brings it. From the kernel:
    /// `arch/*/kvm/Kconfig`; drivers/cpuidle/Kconfig (HALTPOLL_CPUIDLE is of X86); kernel/sysctl.c and arch/s390/lib/spinlock.c;
    /// arch/s390/kvm/kvm-s390.c; arch/x86/kvm/{vmx/vmx.c,svm/svm.c}; arch/powerpc/platforms/powernv/subcore.c, arch/powerpc/kvm/book3s_hv.c.
    fn expected(name: &str) -> (&'static [&'static str], Option<&'static str>) {
        const ALL: &[&str] = &["x86", "arm64", "riscv", "s390", "powerpc", "loongarch", "mips"];
        match name {
            "halt_poll_ns" | "halt_poll_ns_grow" | "halt_poll_ns_grow_start" | "halt_poll_ns_shrink" => {
                (ALL, Some("kvm"))
            }
            "halt_poll_max_steal" | "diag9c_forwarding_hz" => (&["s390"], Some("kvm")),
            "spin_retry" => (&["s390"], None),
            "subcores_per_core" => (&["powerpc"], None),
            "dynamic_mt_modes" | "one_vm_per_core" => (&["powerpc"], Some("kvm_hv")),
            name if name.starts_with("guest_halt_poll_") => (&["x86"], None),
            name if name.starts_with("ple_") => (&["x86"], Some("kvm_intel")),
            name if name.starts_with("pause_filter_") => (&["x86"], Some("kvm_amd")),
            name => panic!("{name}: who has it?"),
        }
    }

    #[test]
    fn each_knob_that_is_not_there_is_said_to_be_of_whom_it_is_on_every_architecture() {
        let root = tempfile::tempdir().unwrap();
        for knob in all_knobs() {
            let Some(placed) = PlacedSetting::of_knob(knob, root.path()) else { continue };
            let (architectures, module) = expected(knob.name);
            for &architecture in Architecture::ALL {
                let row = architecture.row();
                let said = placed.missing(KnobSource::of(knob, row.machines[0])).to_string();
                let says = match module.filter(|module| *module != "kvm" || row.kernel_name != "arm64") {
                    _ if !architectures.contains(&row.kernel_name) => {
                        format!("{} has it, and this machine is {}", architectures[0], row.kernel_name)
                    }
                    Some(module) => format!("`modprobe {module}` loads its module"),
                    None => "this kernel or processor does not have it".to_string(),
                };
                let at = placed.to_string();
                assert!(said.starts_with(&format!("{at} is not there: {says}")), "{}: {said}", row.kernel_name);
                assert_eq!(said.contains("modprobe"), says.contains("modprobe"), "{said}");
            }
        }
    }

    #[test]
    fn a_machine_that_is_not_known_has_what_all_have() {
        let knob = |name| exitscope_policy::knob(name).unwrap();
        assert_eq!(KnobSource::of(knob("halt_poll_ns"), "alpha"), KnobSource::Module("kvm"));
        let other = KnobSource::of(knob("spin_retry"), "alpha");
        assert_eq!(other, KnobSource::OtherMachines("s390", "alpha".to_string()));
        assert!(!other.is_of_this_machine());
    }
}
