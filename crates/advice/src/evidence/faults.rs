//! Which exits are faults at memory, and of what kind.

use exitscope_analysis::ExitCause;
use exitscope_model::codes::detail_name;
use exitscope_model::{CodeList, SubjectKind};

/// What happened, of a fault at memory; none where the exit is about a device, or nothing says what it is about.
fn fault(cause: &ExitCause) -> Option<&'static str> {
    let key = cause.subject().filter(|key| matches!(key.kind, SubjectKind::PageFault | SubjectKind::EptViolation))?;
    detail_name(key.kind, key.key).filter(|_| cause.code.is_page_fault() && !is_of_reverse_map(cause))
}

/// SEV-SNP's reverse map forbids the access, whatever the page tables say: PFERR_GUEST_RMP_MASK of arch/x86/include/asm/kvm_host.h.
pub(crate) fn is_of_reverse_map(cause: &ExitCause) -> bool {
    const RMP: u64 = 1 << 31;
    let key = cause.subject().filter(|key| key.kind == SubjectKind::PageFault && key.key & RMP != 0);
    key.is_some() && cause.code.basic().list == CodeList::Svm && cause.code.is_page_fault()
}

/// KVM's entries for emulated devices have reserved bits set (`kvm_mmu_set_mmio_spte_mask` of `arch/x86/kvm/mmu/spte.c`).
pub(crate) fn is_memory_fault(cause: &ExitCause) -> bool {
    fault(cause).is_some_and(|what| !what.ends_with("reserved bit"))
}

/// The page is there, and may only be read for now.
pub(crate) fn is_write_to_protected(cause: &ExitCause) -> bool {
    fault(cause).is_some_and(|what| what.starts_with("write") && what.ends_with("not allowed"))
}

/// KVM has taken the permission to execute from a huge page, which it splits at the fetch: `kvm_mmu_hugepage_adjust`,
/// `disallowed_hugepage_adjust` of arch/x86/kvm/mmu/mmu.c, against iTLB multihit of Intel's.
pub(crate) fn is_fetch_of_split(cause: &ExitCause) -> bool {
    cause.code.basic().list == CodeList::Vmx
        && fault(cause).is_some_and(|what| what.starts_with("fetch") && what.ends_with("not allowed"))
}
