//! Why KVM may not let the processor virtualise a VM's APIC (APICv of VMX, AVIC of SVM): the reasons of
//! `kvm_apicv_inhibit_changed`, and which kernel numbers them how.
//!
//! ```text
//! "set reason=9, inhibits=0x200" ─┐
//! the kernel's release ───────────┴─► INHIBITS: PIT_REINJ on Linux 6.3, SEV on 6.0, X2APIC on 5.19
//! ```
//!
//! Must not depend on: events, exits.

use crate::release::version;

/// A reason.
#[derive(Debug, PartialEq, Eq)]
pub struct ApicvInhibit {
    /// The kernel's name, without `APICV_INHIBIT_REASON_`.
    pub name: &'static str,
    /// The same for people.
    pub words: &'static str,
    /// Whether it concerns AVIC alone, and not Intel's APICv: it is in `AVIC_REQUIRED_APICV_INHIBITS` of arch/x86/kvm/svm/svm.h,
    /// and not in `VMX_REQUIRED_APICV_INHIBITS` of arch/x86/kvm/vmx/main.c. KVM does not set those that do not concern it.
    pub avic_alone: bool,
    /// What sets it.
    pub set_by: &'static str,
    /// What clears it.
    pub cleared_by: &'static str,
    /// Its number in each of [`NUMBERINGS`].
    numbers: [Option<u8>; NUMBERINGS.len()],
}

/// The first Linux of each numbering of `enum kvm_apicv_inhibit` (arch/x86/include/asm/kvm_host.h). The event is of 5.18 (commit
/// 4f4c4a3ee53c), and so are its names; a9603ae0e4ee and 3743c2f02517 (5.19-rc3) put those of both vendors first and added two,
/// X2APIC went with the hybrid AVIC (0e311d33bfbe, 6.0), 5063c41bebac and 9a364857ab4f (6.3) added two. 1aa6e256e46f, after
/// 6.16, appended one.
const NUMBERINGS: [(u32, u32); 4] = [(5, 18), (5, 19), (6, 0), (6, 3)];

/// The number of DISABLED, the same in every kernel.
pub const APICV_DISABLED: u8 = 0;
/// The number of HYPERV, the same in every kernel.
pub const APICV_HYPERV: u8 = 1;

const fn inhibit(
    name: &'static str,
    words: &'static str,
    avic_alone: bool,
    by: [&'static str; 2],
    numbers: [Option<u8>; NUMBERINGS.len()],
) -> ApicvInhibit {
    ApicvInhibit { name, words, avic_alone, set_by: by[0], cleared_by: by[1], numbers }
}

/// All of them, in the order of the newest numbering; the last are gone. Who sets and clears them: the functions named.
pub static INHIBITS: &[ApicvInhibit] = &[
    // `kvm_apicv_init` of arch/x86/kvm/x86.c; nothing else is traced of such a VM (`kvm_set_or_clear_apicv_inhibit`),
    // but, as in Linux 6.1, ABSENT beside it.
    inhibit(
        "DISABLED",
        "switched off, or not possible on the host",
        false,
        ["the host: the module's parameter, or its processor", "nothing while the VM is there"],
        [Some(APICV_DISABLED); 4],
    ),
    // `synic_update_vector` of arch/x86/kvm/hyperv.c.
    inhibit(
        "HYPERV",
        "Hyper-V's AutoEOI",
        false,
        ["the guest: a vector of its SynIC with AutoEOI", "the guest: no vCPU uses AutoEOI any more"],
        [Some(APICV_HYPERV); 4],
    ),
    // `kvm_apicv_init`, KVM_CREATE_IRQCHIP and KVM_CAP_SPLIT_IRQCHIP of arch/x86/kvm/x86.c.
    inhibit(
        "ABSENT",
        "no APIC in the kernel yet",
        false,
        ["KVM: a new VM", "the VMM: it creates the kernel's APICs"],
        [Some(7), Some(2), Some(2), Some(2)],
    ),
    // `kvm_arch_vcpu_guestdbg_update_apicv_inhibit` of arch/x86/kvm/x86.c.
    inhibit(
        "BLOCKIRQ",
        "a debugger blocks interrupts",
        false,
        ["the VMM: KVM_GUESTDBG_BLOCKIRQ", "the VMM: no vCPU has KVM_GUESTDBG_BLOCKIRQ"],
        [Some(6), Some(3), Some(3), Some(3)],
    ),
    // `kvm_recalculate_apic_map` of arch/x86/kvm/lapic.c.
    inhibit(
        "PHYSICAL_ID_ALIASED",
        "APIC IDs that are not one for each vCPU",
        false,
        ["the guest or the VMM: APIC IDs", "the guest or the VMM: an APIC ID for each vCPU"],
        [None, None, None, Some(4)],
    ),
    // The same; before Linux 6.3, where nothing cleared it, `kvm_lapic_xapic_id_updated`.
    inhibit(
        "APIC_ID_MODIFIED",
        "an APIC ID that is not the vCPU's",
        false,
        ["the guest or the VMM: an APIC ID", "from Linux 6.3 on, the guest or the VMM: the vCPU's ID again"],
        [None, Some(4), Some(4), Some(5)],
    ),
    // `kvm_lapic_set_base` of arch/x86/kvm/lapic.c.
    inhibit(
        "APIC_BASE_MODIFIED",
        "an APIC that was moved to another address",
        false,
        ["the guest or the VMM: the APIC's base", "nothing while the VM is there"],
        [None, Some(5), Some(5), Some(6)],
    ),
    // Linux 5.18 alone sets it for a VM; later it is a vCPU's, and no event says it (`avic_vcpu_get_apicv_inhibit_reasons` of
    // arch/x86/kvm/svm/avic.c).
    inhibit(
        "NESTED",
        "nested virtualisation",
        true,
        ["the VMM: SVM in the guest's CPUID", "nothing while the VM is there"],
        [Some(2), Some(6), Some(6), Some(7)],
    ),
    // `svm_enable_irq_window` and `interrupt_window_interception` of arch/x86/kvm/svm/svm.c: with AVIC, for ExtINT alone.
    inhibit(
        "IRQWIN",
        "an interrupt of the PIC that waits (ExtINT)",
        true,
        ["KVM: an interrupt window", "KVM: the window opens"],
        [Some(3), Some(7), Some(7), Some(8)],
    ),
    // `kvm_pit_set_reinject` of arch/x86/kvm/i8254.c.
    inhibit(
        "PIT_REINJ",
        "a PIT that reinjects lost ticks",
        true,
        ["the VMM: the PIT's reinjection", "the VMM: no reinjection"],
        [Some(4), Some(8), Some(8), Some(9)],
    ),
    // `sev_guest_init` of arch/x86/kvm/svm/sev.c.
    inhibit(
        "SEV",
        "SEV",
        true,
        ["the VMM: a VM with SEV", "nothing while the VM is there"],
        [Some(8), Some(10), Some(9), Some(10)],
    ),
    // `kvm_recalculate_apic_map` of arch/x86/kvm/lapic.c.
    inhibit(
        "LOGICAL_ID_ALIASED",
        "logical APIC IDs that are not one for each vCPU",
        true,
        ["the guest: logical APIC IDs", "the guest: a logical APIC ID for each vCPU"],
        [None, None, None, Some(11)],
    ),
    // `avic_init_backing_page` of arch/x86/kvm/svm/avic.c.
    inhibit(
        "PHYSICAL_ID_TOO_BIG",
        "a vCPU's ID that AVIC cannot address",
        true,
        ["the VMM: a vCPU's ID", "nothing while the VM is there"],
        [None, None, None, Some(12)],
    ),
    // `svm_vcpu_after_set_cpuid` of arch/x86/kvm/svm/svm.c.
    inhibit(
        "X2APIC",
        "x2APIC in the guest's CPUID",
        true,
        ["the VMM: x2APIC in the guest's CPUID", "nothing while the VM is there"],
        [Some(5), Some(9), None, None],
    ),
];

/// The place in [`NUMBERINGS`] of a kernel of this release. Where a release before the event's has the event, it was taken back
/// into that kernel, with whichever numbers; of 5.19, the first candidates had those of 5.18.
fn numbering(release: &str) -> Option<usize> {
    let is_told = !release.contains("-rc") && !release.starts_with("Xen ");
    let version = version(release).filter(|_| is_told)?;
    NUMBERINGS.iter().rposition(|first| *first <= version)
}

/// The reasons that this number may stand for in a kernel of this release; of all kernels with the event where the release does
/// not say.
pub fn apicv_inhibits(number: u8, release: &str) -> Vec<&'static ApicvInhibit> {
    let at = numbering(release);
    let is_it = |of: &&ApicvInhibit| match at {
        Some(at) => of.numbers[at] == Some(number),
        None => of.numbers.contains(&Some(number)),
    };
    INHIBITS.iter().filter(is_it).collect()
}

/// What the number means; where kernels disagree, the number and what it may be.
pub fn apicv_inhibit_words(number: u8, release: &str) -> String {
    match apicv_inhibits(number, release).as_slice() {
        [] => format!("reason {number}"),
        [one] => one.words.to_string(),
        [most @ .., last] => {
            let names: Vec<&str> = most.iter().map(|of| of.name).collect();
            format!("reason {number} ({} or {})", names.join(", "), last.name)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the enumeration of these kernels lists, in its order; read from the sources of 6.1, 6.12 and 6.16, and from the
    /// commits named at [`NUMBERINGS`].
    const LISTED: [(&[&str], &[&str]); 4] = [
        (
            &["5.18.0", "5.18.19-generic"],
            &["DISABLED", "HYPERV", "NESTED", "IRQWIN", "PIT_REINJ", "X2APIC", "BLOCKIRQ", "ABSENT", "SEV"],
        ),
        (
            &["5.19.0-50-generic"],
            &[
                "DISABLED",
                "HYPERV",
                "ABSENT",
                "BLOCKIRQ",
                "APIC_ID_MODIFIED",
                "APIC_BASE_MODIFIED",
                "NESTED",
                "IRQWIN",
                "PIT_REINJ",
                "X2APIC",
                "SEV",
            ],
        ),
        (
            &["6.0.19", "6.1.0-56-cloud-amd64", "6.2.12"],
            &[
                "DISABLED",
                "HYPERV",
                "ABSENT",
                "BLOCKIRQ",
                "APIC_ID_MODIFIED",
                "APIC_BASE_MODIFIED",
                "NESTED",
                "IRQWIN",
                "PIT_REINJ",
                "SEV",
            ],
        ),
        (
            &["6.3.0", "6.12.117+deb12-amd64", "6.18.1", "7.0.0"],
            &[
                "DISABLED",
                "HYPERV",
                "ABSENT",
                "BLOCKIRQ",
                "PHYSICAL_ID_ALIASED",
                "APIC_ID_MODIFIED",
                "APIC_BASE_MODIFIED",
                "NESTED",
                "IRQWIN",
                "PIT_REINJ",
                "SEV",
                "LOGICAL_ID_ALIASED",
                "PHYSICAL_ID_TOO_BIG",
            ],
        ),
    ];

    #[test]
    fn each_kernel_has_the_numbers_of_its_enumeration() {
        for (releases, names) in LISTED {
            for release in releases {
                for (number, name) in (0..).zip(names) {
                    let found: Vec<&str> = apicv_inhibits(number, release).iter().map(|of| of.name).collect();
                    assert_eq!(found, [*name], "{release} {number}");
                }
                assert_eq!(apicv_inhibits(names.len() as u8, release), Vec::<&ApicvInhibit>::new(), "{release}");
            }
        }
    }

    #[test]
    fn without_a_release_that_tells_a_number_is_named_only_where_all_kernels_agree() {
        // Red Hat's 5.14 has the event, and the numbers of whichever kernel it was taken from.
        for release in ["", "5.14.0-427.13.1.el9_4.x86_64", "5.19.0-rc1", "Xen 4.17.5"] {
            let words = |number| apicv_inhibit_words(number, release);
            assert_eq!(
                [APICV_DISABLED, APICV_HYPERV, 11, 12].map(words),
                [
                    "switched off, or not possible on the host",
                    "Hyper-V's AutoEOI",
                    "logical APIC IDs that are not one for each vCPU",
                    "a vCPU's ID that AVIC cannot address"
                ],
                "{release}"
            );
            assert_eq!(words(2), "reason 2 (ABSENT or NESTED)");
            assert_eq!(words(9), "reason 9 (PIT_REINJ, SEV or X2APIC)");
            assert_eq!(words(99), "reason 99");
        }
        assert_eq!(apicv_inhibit_words(9, "6.12.1"), "a PIT that reinjects lost ticks");
        assert_eq!(apicv_inhibit_words(12, "6.1.0"), "reason 12");
    }

    #[test]
    fn those_of_avic_alone_come_after_those_of_both() {
        // As the kernel's list has them since 5.19, where comments divide it.
        let alone: Vec<bool> = INHIBITS.iter().map(|of| of.avic_alone).collect();
        assert!(alone.is_sorted(), "{alone:?}");
        assert_eq!(alone.iter().filter(|alone| !**alone).count(), 7);
    }
}
