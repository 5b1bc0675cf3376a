//! What can be done about a port, an address or an MSR that a guest asks for too often: the tables together.

use super::arm_cures::ARM64;
use super::device_cures::DEVICES;
use super::msr_cures::{HCALLS, MSRS};
use crate::cures::cure::{ExitSource, Remedy};
use crate::evidence::input::RecordedHost;
use exitscope_model::{Architecture, SubjectKind};

/// Every row, of all machines.
pub(crate) fn sources() -> impl Iterator<Item = &'static ExitSource> {
    DEVICES.iter().chain(MSRS).chain(HCALLS).chain(ARM64)
}

/// The source of a detail. A machine whose architecture nothing says (Xen, text) is x86; others have no fixed places: QEMU's
/// virt has a PL011 at 0x9000000 (VIRT_UART in hw/arm/virt.c), another VMM or machine something else. QEMU's own places have a
/// meaning only where the VMM is QEMU, and under Xen, whose device model it is on a PC.
pub(crate) fn source(host: &RecordedHost, is_qemu: bool, kind: SubjectKind, key: u64) -> Option<&'static ExitSource> {
    let rows: &[&[ExitSource]] = match Architecture::of(&host.arch) {
        None if host.arch.is_empty() => &[DEVICES, MSRS],
        Some(Architecture::X86) => &[DEVICES, MSRS],
        Some(Architecture::Powerpc) => &[HCALLS],
        Some(Architecture::Arm64) => &[ARM64],
        Some(Architecture::Riscv | Architecture::S390 | Architecture::Loongarch | Architecture::Mips) | None => &[],
    };
    let is_here = |row: &&ExitSource| match host.xen {
        true => !matches!(row.answer, Remedy::Cure(cure) if cure.for_xen().is_empty()),
        false => !row.of_qemu || is_qemu,
    };
    let mut rows = rows.iter().copied().flatten().filter(is_here);
    rows.find(|row| row.kind == kind && (row.range.0..=row.range.1).contains(&key))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cures::cure::Least;
    use crate::setting::AdviceSetting;

    fn named(arch: &str, is_qemu: bool, kind: SubjectKind, key: u64) -> Option<&'static str> {
        let host = RecordedHost { arch: arch.to_string(), ..RecordedHost::default() };
        source(&host, is_qemu, kind, key).map(|row| row.name)
    }

    #[test]
    fn xen_has_no_row_whose_change_is_none_of_its() {
        let of = |xen, key| {
            let host = RecordedHost { xen, ..RecordedHost::default() };
            source(&host, false, SubjectKind::Msr, key).map(|row| row.name)
        };
        // Direct synthetic timers.
        assert_eq!((of(false, 0x4000_0084), of(true, 0x4000_0084)), (Some("Hyper-V messages' end"), None));
        assert_eq!(of(true, 0xe7), Some("APERF and MPERF"));
    }

    #[test]
    fn the_devices_that_people_complain_about_are_in_the_table() {
        for (kind, key, name) in [
            (SubjectKind::Mmio, 0xfed0_0000, "HPET"),
            (SubjectKind::Port, 0x608, "ACPI PM timer"),
            (SubjectKind::Port, 0xb008, "ACPI PM timer"),
            (SubjectKind::Port, 0x71, "RTC"),
            (SubjectKind::Port, 0x43, "PIT"),
            (SubjectKind::Port, 0x61, "PC speaker's port"),
            (SubjectKind::Msr, 0x4000_00b0, "Hyper-V synthetic timers"),
            (SubjectKind::Msr, 0x4000_0084, "Hyper-V messages' end"),
            (SubjectKind::Msr, 0x6e0, "timer"),
            (SubjectKind::Cpuid, 0x8000_0008, "CPUID"),
        ] {
            assert_eq!(named("x86_64", true, kind, key), Some(name), "{key:#x}");
        }
        let sysreg = exitscope_model::codes::system_register;
        for (kind, key, name) in [
            (SubjectKind::SystemRegister, sysreg([3, 0, 0, 4, 0]), Some("ID registers")),
            (SubjectKind::SystemRegister, sysreg([3, 0, 0, 0, 5]), None),
            (SubjectKind::SystemRegister, sysreg([3, 0, 12, 11, 5]), Some("IPIs (SGIs)")),
            (SubjectKind::SystemRegister, sysreg([3, 3, 14, 2, 1]), Some("physical timer")),
            (SubjectKind::SystemRegister, sysreg([3, 3, 14, 3, 1]), Some("virtual timer")),
            (SubjectKind::SystemRegister, sysreg([3, 3, 14, 0, 2]), None),
            (SubjectKind::SystemRegister, sysreg([2, 0, 1, 3, 4]), Some("debug registers")),
            (SubjectKind::SystemRegister, sysreg([1, 0, 7, 10, 2]), Some("cache maintenance by set and way")),
            (SubjectKind::SystemRegister, sysreg([3, 0, 2, 0, 1]), Some("memory registers, caches off")),
            (SubjectKind::SystemRegister, sysreg([3, 3, 9, 13, 0]), Some("performance counters")),
            (SubjectKind::Hvc, 0x8400_0000, Some("PSCI's version")),
            (SubjectKind::Hvc, 0x8400_0001, None),
            (SubjectKind::Msr, 0x6e0, None),
        ] {
            assert_eq!(named("aarch64", true, kind, key), name, "{key:#x}");
        }
        assert_eq!(named("x86_64", true, SubjectKind::Port, 0x1234), None);
    }

    #[test]
    fn what_only_qemu_has_at_a_place_is_not_named_where_nothing_says_qemu() {
        for key in [0x402, 0x510, 0x608, 0xb008] {
            assert!(named("x86_64", true, SubjectKind::Port, key).is_some(), "{key:#x}");
            assert_eq!(named("x86_64", false, SubjectKind::Port, key), None, "{key:#x}");
        }
        assert_eq!(named("x86_64", false, SubjectKind::Port, 0x71), Some("RTC"), "a PC's own place");
        for (key, name) in [
            (0x800_0000, "interrupt controller"),
            (0x80a_0000, "interrupt controller"),
            (0x900_0000, "serial port"),
            (0x901_0000, "RTC"),
            (0xa00_3000, "virtio-mmio"),
            (0x3f00_1000, "PCI configuration"),
        ] {
            assert_eq!(named("aarch64", true, SubjectKind::Mmio, key), Some(name), "{key:#x}");
            assert_eq!(named("aarch64", false, SubjectKind::Mmio, key), None, "Arm machines differ: {key:#x}");
        }
        assert_eq!(named("aarch64", true, SubjectKind::Mmio, 0xfed0_0000), None);
    }

    #[test]
    fn every_setting_is_spelled_as_qemu_and_libvirt_do() {
        for row in sources() {
            let Remedy::Cure(cure) = &row.answer else { continue };
            let wrong: Vec<String> = cure.settings.iter().flat_map(crate::setting_syntax::misspelt).collect();
            assert_eq!(wrong, Vec::<String>::new(), "{}", row.name);
        }
    }

    /// What was claimed once and is wrong, and what is claimed in its place; the comment beside each row of the tables
    /// names the source.
    #[test]
    fn no_cure_claims_what_its_source_denies() {
        let cure = |kind, key| match &source(&RecordedHost::default(), true, kind, key).unwrap().answer {
            Remedy::Cure(cure) => *cure,
            other => panic!("{key:#x}: {other:?}"),
        };
        let said = |kind, key| {
            let cure = cure(kind, key);
            format!("{} {:?} {} {}", cure.change, cure.settings, cure.risk, cure.payer)
        };
        use SubjectKind::{Mmio, Msr, Port};
        for (kind, key, says, does_not_say) in [
            // QEMU, target/i386/kvm/kvm.c, kvm_arch_init_vcpu: invtsc_mig_blocker, unless user_tsc_khz is set.
            (
                Msr,
                0x4000_0020,
                "QEMU refuses to migrate or to save the VM, unless tsc-frequency is given",
                "can be migrated only",
            ),
            // Linux, arch/x86/kvm/vmx/posted_intr.c, vmx_can_use_vtd_pi: irqchip_in_kernel.
            (Port, 0x40, "posted interrupts need an irqchip in the kernel", "posted interrupts and"),
            // Linux, arch/x86/kvm/svm/avic.c, avic_vcpu_get_apicv_inhibit_reasons: is_guest_mode(vcpu).
            (Msr, 0x830, "since Linux 5.19 only while they run", "only while a nested guest runs"),
            // Linux, arch/x86/kvm/hyperv.c, stimer_expiration: a direct timer sends no message; stimer_set_config arms.
            (Msr, 0x4000_00b1, "ask for fewer timers", "direct state"),
            (Msr, 0x4000_0084, "direct state", "arming"),
            // QEMU, docs/system/cpu-models-x86.rst.inc: -cpu host is a model of its own, which others are not added to.
            (Port, 0x608, "-cpu …,kvmclock=on", "-cpu host"),
            // Linux, kernel/time/clocksource.c; QEMU, docs/system/i386/hyperv.rst: the whole set.
            (Mmio, 0xfed0_0000, "hv-time,hv-vpindex,hv-synic,hv-stimer", "for Windows offer hypervclock at"),
            (Mmio, 0xfed0_0000, "fallen back from the TSC or kvm-clock", "without exits to user space"),
            (Port, 0x608, "if it is the guest's clock", "it reads the ACPI PM timer as its clock"),
            (Port, 0x71, "if the guest is Windows", "a Windows guest without them"),
        ] {
            let text = said(kind, key);
            assert!(text.contains(says), "{key:#x} says {says}: {text}");
            assert!(!text.contains(does_not_say), "{key:#x} does not say {does_not_say}: {text}");
        }
        for row in DEVICES.iter().chain(MSRS) {
            if let Remedy::Cure(cure) = &row.answer {
                let wrong = |text: &str| text.contains("-cpu host") || text.contains("ibrs-all");
                let wrong = |setting: &AdviceSetting| match setting {
                    AdviceSetting::Qemu(text) | AdviceSetting::Libvirt { xml: text, .. } => wrong(text),
                    _ => false,
                };
                assert!(!cure.settings.iter().any(wrong), "{}: {:?}", row.name, cure.settings);
            }
        }
        // Linux, arch/x86/kvm/vmx/vmx.c and svm/svm.c, vmx_set_msr and svm_set_msr: passed through after the first write that
        // is not zero (SPEC_CTRL); by CPUID (PRED_CMD).
        for key in [0x48, 0x49, 0x10b, 0x1c4, 0x174, 0xc000_0100, 0xc000_0102] {
            let answer = source(&RecordedHost::default(), true, Msr, key).unwrap().answer;
            assert!(matches!(answer, Remedy::Passed(_)), "{key:#x}");
        }
        // QEMU, hw/audio/pcspk.c: not the PIT.
        assert!(matches!(source(&RecordedHost::default(), true, Port, 0x61).unwrap().answer, Remedy::Leave(_)));
        // A tick, a read, a call that the guest can do with less of is not gone.
        for key in [0x6e0, 0x832, 0x838, 0x830, 0x80b, 0x10, 0xe7, 0x4000_00b0, 0x4000_0020] {
            assert!(matches!(cure(Msr, key).least, Least::Nothing(_)), "{key:#x}");
        }
        assert!(matches!(cure(SubjectKind::Cpuid, 4).least, Least::Nothing(_)));
    }

    #[test]
    fn each_least_gain_above_nothing_is_held_against_made_recordings() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/gains.md");
        let table = std::fs::read_to_string(path).unwrap();
        let mut rows = 0;
        for row in sources() {
            let Remedy::Cure(cure) = &row.answer else { continue };
            if !matches!(cure.least, Least::Nothing(_)) {
                assert!(table.contains(&format!("\n| {} |", row.name)), "{}: `cargo xtask gains`", row.name);
                rows += 1;
            }
        }
        assert!(rows >= 10, "{rows}");
    }

    #[test]
    fn no_two_rows_claim_the_same_place() {
        let rows: Vec<&ExitSource> = DEVICES.iter().chain(MSRS).collect();
        for (at, row) in rows.iter().enumerate() {
            assert!(row.range.0 <= row.range.1, "{}", row.name);
            for other in &rows[at + 1..] {
                let apart = row.range.1 < other.range.0 || other.range.1 < row.range.0;
                assert!(row.kind != other.kind || apart, "{} and {}", row.name, other.name);
            }
        }
    }
}
