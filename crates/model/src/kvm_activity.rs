//! Events that show what KVM does beside exits: in an exit's thread, or in another.
//!
//! ```text
//! kvm_unmap_hva_range ─► KvmActivity::Unmapped      kvm_apicv_inhibit_changed: set reason=2 ─► KvmActivity::ApicvInhibited(2)
//! ```

use crate::apicv_inhibit::apicv_inhibit_words;

/// `kvm_apicv_inhibit_changed`: a reason is set, or cleared. KVM traces each request, also one that changes nothing
/// (`set_or_clear_apicv_inhibit` of arch/x86/kvm/x86.c).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ApicvChange {
    /// The reason's number ([`crate::apicv_inhibits`]); 255 if it is above that.
    pub reason: u8,
    /// Whether it is set, else cleared.
    pub set: bool,
    /// All reasons in force from now on, a bit each.
    pub inhibits: u64,
}

impl ApicvChange {
    /// What it shows of KVM.
    pub const fn activity(self) -> KvmActivity {
        match self.set {
            true => KvmActivity::ApicvInhibited(self.reason),
            false => KvmActivity::ApicvAllowed(self.reason),
        }
    }
}

/// What an event shows of what KVM does, in an exit or in another thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum KvmActivity {
    /// `kvm_pml_full`: the buffer is full in which VMX's page-modification logging notes which pages the guest writes.
    PmlFull,
    /// `kvm_dirty_ring_exit`: the ring is full in which KVM notes which pages the guest writes.
    DirtyRingFull,
    /// `kvm_rmp_fault`: SEV-SNP's reverse map does not agree with an access.
    RmpFault,
    /// `kvm_unmap_hva_range`: the host changes how a range of the VMM's memory is mapped, whether or not it is the guest's
    /// (`kvm_mmu_notifier_invalidate_range_start` of `virt/kvm/kvm_main.c`); with the binary logarithm of the range's bytes, rounded
    /// down, or zero where the event does not say.
    Unmapped(u8),
    /// `kvm_age_hva`: the host looks whether the guest has used a page.
    Aged,
    /// `kvm_apicv_inhibit_changed`: the processor may not virtualise the VM's APIC, for the reason of this number
    /// ([`crate::apicv_inhibits`]).
    ApicvInhibited(u8),
    /// The same: no more for this reason.
    ApicvAllowed(u8),
    /// `kvm_avic_incomplete_ipi`: an IPI that AVIC did not deliver whole, for the reason of this number in the kernel's `enum
    /// avic_ipi_failure_cause` of `arch/x86/include/asm/svm.h`.
    AvicIncompleteIpi(u8),
    /// `kvm_avic_kick_vcpu_slowpath`: an IPI that AVIC did not deliver, which KVM looks for the receivers of
    /// (`avic_kick_target_vcpus` of `arch/x86/kvm/svm/avic.c`).
    AvicKick,
    /// `kvm_avic_ga_log`: the IOMMU tells of an interrupt for a vCPU that does not run (`avic_ga_log_notifier` there).
    AvicGaLog,
    /// `kvm_hv_stimer_expiration`: one of Hyper-V's timers of a vCPU is due (`stimer_expiration` of `arch/x86/kvm/hyperv.c`).
    HvTimer,
    /// `kvm_smm_transition`: a vCPU enters system management mode, or leaves it (`kvm_smm_changed` of `arch/x86/kvm/x86.c`, from Linux
    /// 6.2 on `smm.c`).
    SmmTransition,
    /// `kvm_async_pf_not_present`: a page that the guest uses has to be read in first, and the vCPU does not wait for it in the fault
    /// (`kvm_arch_async_page_not_present` of `arch/x86/kvm/x86.c`, and s390's).
    AsyncPageFault,
    /// `kvm_timer_emulate`: arm64, KVM emulates one of the guest's timers (`timer_emulate` of `arch/arm64/kvm/arch_timer.c`).
    TimerEmulated,
}

impl KvmActivity {
    /// The tracepoint.
    pub const fn event(self) -> &'static str {
        match self {
            KvmActivity::PmlFull => "kvm_pml_full",
            KvmActivity::DirtyRingFull => "kvm_dirty_ring_exit",
            KvmActivity::RmpFault => "kvm_rmp_fault",
            KvmActivity::Unmapped(_) => "kvm_unmap_hva_range",
            KvmActivity::Aged => "kvm_age_hva",
            KvmActivity::ApicvInhibited(_) | KvmActivity::ApicvAllowed(_) => "kvm_apicv_inhibit_changed",
            KvmActivity::AvicIncompleteIpi(_) => "kvm_avic_incomplete_ipi",
            KvmActivity::AvicKick => "kvm_avic_kick_vcpu_slowpath",
            KvmActivity::AvicGaLog => "kvm_avic_ga_log",
            KvmActivity::HvTimer => "kvm_hv_stimer_expiration",
            KvmActivity::SmmTransition => "kvm_smm_transition",
            KvmActivity::AsyncPageFault => "kvm_async_pf_not_present",
            KvmActivity::TimerEmulated => "kvm_timer_emulate",
        }
    }

    /// [`KvmActivity::Unmapped`] of 4 MiB and more, which is more than a huge page of x86.
    pub const WIDE: KvmActivity = KvmActivity::Unmapped(22);

    /// The same of less, or of which nobody knows.
    pub const NARROW: KvmActivity = KvmActivity::Unmapped(0);

    /// The same of this range, if it is of ranges.
    pub const fn of_range(self, start: u64, end: u64) -> KvmActivity {
        match (self, end.saturating_sub(start).checked_ilog2()) {
            (KvmActivity::Unmapped(_), Some(power)) => KvmActivity::Unmapped(power as u8),
            _ => self,
        }
    }

    /// `kvm_unmap_hva_range` of so many bytes.
    pub const fn unmapped(bytes: u64) -> KvmActivity {
        KvmActivity::NARROW.of_range(0, bytes)
    }

    /// What it is counted as: of ranges only whether they are wide.
    pub const fn counted_as(self) -> KvmActivity {
        match self {
            KvmActivity::Unmapped(22..) => KvmActivity::WIDE,
            KvmActivity::Unmapped(_) => KvmActivity::NARROW,
            other => other,
        }
    }

    /// The number beside it in its event; zero if there is none. Of a range from zero on, its end.
    pub const fn number(self) -> u64 {
        match self {
            KvmActivity::AvicIncompleteIpi(number) => number as u64,
            KvmActivity::Unmapped(power @ 1..64) => 1 << power,
            _ => 0,
        }
    }

    /// What it shows, for people, of a kernel of this release; it may be empty.
    pub fn what(self, release: &str) -> String {
        match self {
            KvmActivity::PmlFull => "buffers of logged pages full".into(),
            KvmActivity::DirtyRingFull => "rings of dirty pages full".into(),
            KvmActivity::RmpFault => "faults of SEV-SNP's reverse map".into(),
            KvmActivity::Unmapped(_) if self == KvmActivity::WIDE => {
                "memory mappings of the VMM changed, 4 MiB and more at once".into()
            }
            KvmActivity::Unmapped(_) => "memory mappings of the VMM changed".into(),
            KvmActivity::Aged => "pages whose use the host looked at".into(),
            KvmActivity::ApicvInhibited(reason) => format!("APICv inhibited: {}", apicv_inhibit_words(reason, release)),
            KvmActivity::ApicvAllowed(reason) => {
                format!("APICv no longer inhibited: {}", apicv_inhibit_words(reason, release))
            }
            KvmActivity::AvicIncompleteIpi(cause) => format!("IPIs not delivered by AVIC: {}", ipi_failure(cause)),
            KvmActivity::AvicKick => "IPIs that KVM delivered for AVIC".into(),
            KvmActivity::AvicGaLog => "interrupts for vCPUs not running (AVIC)".into(),
            KvmActivity::HvTimer => "Hyper-V timers due".into(),
            KvmActivity::SmmTransition => "entries into system management mode, and returns".into(),
            KvmActivity::AsyncPageFault => "pages that had to be read in first".into(),
            KvmActivity::TimerEmulated => "timers that KVM emulated".into(),
        }
    }
}

/// What `enum avic_ipi_failure_cause` of `arch/x86/include/asm/svm.h` says of a number.
fn ipi_failure(cause: u8) -> String {
    match cause {
        0 => "of a kind that it leaves to KVM".into(),
        1 => "the vCPU did not run".into(),
        2 => "no such vCPU".into(),
        3 => "no page for the vCPU's APIC".into(),
        4 => "no such vector".into(),
        other => format!("reason {other}"),
    }
}
