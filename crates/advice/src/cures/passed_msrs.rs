//! MSRs that KVM lets guests reach without an exit: when, and what explains exits all the same.
//!
//! ```text
//! row: when on Intel's, when on AMD's ─┬─► vendor and kernel of the recording ─► when, here
//! values written, nested guests ───────┴─► explanations that these leave open
//! ```

use exitscope_model::CodeList;
use std::fmt::Write;

/// When KVM lets guests reach an MSR without an exit, by whose processor the host has.
#[derive(Debug)]
pub(crate) struct PassedMsr {
    pub on_intel: Passing,
    pub on_amd: Passing,
    /// Bits, and what writes say that set one of them now and then.
    pub toggled: Option<(u64, &'static str)>,
}

/// When it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Passing {
    /// From the beginning.
    Always,
    /// Once the guest has written something else than zero; with AMD's V_SPEC_CTRL from the beginning.
    AfterWrite { or_virtual: bool },
    /// Where the guest's CPUID has it, from this kernel on; before it, once the guest has written it.
    ByCpuid,
    /// The same from then on; before it, KVM does not know it.
    ByCpuidOrUnknown,
    /// Where the guest's CPUID has it, to read it.
    ReadsByCpuid,
    /// Unless the guest's CPUID says that its processor is one of Intel's.
    UnlessIntel,
    /// Where the VMM gives the guest its C-states.
    WithCstates,
    /// Always, to read it.
    Reads,
    /// Never: kernels write it while they boot.
    Never,
    /// Never.
    Trapped,
    /// The processor has no such MSR.
    Absent,
}

/// SPEC_CTRL_IBRS of arch/x86/include/asm/msr-index.h.
const IBRS: u64 = 1;

/// The first kernel in which CPUID decides, about.
const BY_CPUID: (u32, u32) = (6, 4);

/// The first one with filters of MSRs: KVM_X86_SET_MSR_FILTER of Documentation/virt/kvm/api.rst.
const FILTERS: (u32, u32) = (5, 10);

/// `vmx_set_msr` of arch/x86/kvm/vmx/vmx.c and `svm_set_msr` of arch/x86/kvm/svm/svm.c: MSR_IA32_SPEC_CTRL. Two values are written at each
/// entry into a Linux kernel with the mitigation IBRS, which `spectre_v2_select_mitigation` and `retbleed_select_mitigation` of
/// arch/x86/kernel/cpu/bugs.c choose.
pub(crate) static SPEC_CTRL: PassedMsr = PassedMsr {
    on_intel: Passing::AfterWrite { or_virtual: false },
    on_amd: Passing::AfterWrite { or_virtual: true },
    toggled: Some((
        IBRS,
        "the guest's kernel switches IBRS on and off, as Linux does at each entry into its kernel where the \
        mitigation is IBRS: enhanced IBRS, where the processor has it, is written once, and spectre_v2= and retbleed= \
        on the guest's command line choose another (its /sys/devices/system/cpu/vulnerabilities shows which is in \
        force, and what the choice leaves open); ",
    )),
};

/// `vmx_vcpu_after_set_cpuid` and `svm_vcpu_after_set_cpuid`.
pub(crate) static COMMANDS: PassedMsr =
    PassedMsr { on_intel: Passing::ByCpuid, on_amd: Passing::ByCpuid, toggled: None };

/// The same: MSR_IA32_FLUSH_CMD, which Linux 6.1 has in neither.
pub(crate) static L1D_FLUSHES: PassedMsr =
    PassedMsr { on_intel: Passing::ByCpuidOrUnknown, on_amd: Passing::ByCpuidOrUnknown, toggled: None };

/// `vmx_vcpu_after_set_cpuid`, with MSR_TYPE_R; AMD's processors have no XFD.
pub(crate) static XFD_ERR: PassedMsr =
    PassedMsr { on_intel: Passing::ReadsByCpuid, on_amd: Passing::Absent, toggled: None };

/// `vmx_set_msr`: MSR_IA32_XFD.
pub(crate) static XFD: PassedMsr =
    PassedMsr { on_intel: Passing::AfterWrite { or_virtual: false }, on_amd: Passing::Absent, toggled: None };

/// `vmx_vcpu_create` of arch/x86/kvm/vmx/vmx.c, and direct_access_msrs of arch/x86/kvm/svm/svm.c.
pub(crate) static BASES: PassedMsr = PassedMsr { on_intel: Passing::Always, on_amd: Passing::Always, toggled: None };

/// The same; `init_vmcb_after_set_cpuid` of svm.c.
pub(crate) static SYSENTER: PassedMsr =
    PassedMsr { on_intel: Passing::Always, on_amd: Passing::UnlessIntel, toggled: None };

/// direct_access_msrs of svm.c; `vmx_msr_bitmap` has no bits for them, as they are among vmx_uret_msrs_list.
pub(crate) static SYSCALL: PassedMsr = PassedMsr { on_intel: Passing::Never, on_amd: Passing::Always, toggled: None };

/// `vmx_vcpu_create`: MSR_IA32_TSC for reads; direct_access_msrs of svm.c has none.
pub(crate) static TSC_READS: PassedMsr =
    PassedMsr { on_intel: Passing::Reads, on_amd: Passing::Trapped, toggled: None };

/// `vmx_vcpu_create` with KVM_X86_DISABLE_EXITS_CSTATE: those of a core.
pub(crate) static RESIDENCY: PassedMsr =
    PassedMsr { on_intel: Passing::WithCstates, on_amd: Passing::Absent, toggled: None };

/// What a recording says that decides between explanations.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MsrEvidence {
    /// Whose exits they are.
    pub list: CodeList,
    /// The host's kernel, if that is known.
    pub kernel: Option<(u32, u32)>,
    /// The least and the greatest value that was written, if any was.
    pub written: Option<(u64, u64)>,
    /// Whether the recording tells exits of nested guests apart, so that these are none.
    pub no_nested: bool,
}

impl MsrEvidence {
    /// Whether the host's kernel is known, and older than this one.
    fn is_older(&self, than: (u32, u32)) -> bool {
        self.kernel.is_some_and(|kernel| kernel < than)
    }
}

/// What shows more.
const LOOK: &str = "`perf record -e kvm:kvm_exit -e kvm:kvm_msr` shows the values, and by the rip whose code it is";

impl Passing {
    /// As a clause behind `KVM lets guests reach the register without an exit`; of a kernel, if that is known.
    fn clause(self, kernel: Option<(u32, u32)>) -> &'static str {
        match self {
            Passing::Always => "always",
            Passing::AfterWrite { or_virtual: false } => "from the first write on that is not zero",
            Passing::AfterWrite { or_virtual: true } => {
                "from the first write on that is not zero, or always where the processor has V_SPEC_CTRL (since about Linux 6.17 only if \
                the guest's CPUID has it)"
            }
            Passing::ByCpuid => match kernel {
                None => {
                    "where the guest's CPUID has it, since about Linux 6.4, and before that from the first write on"
                }
                Some(kernel) if kernel < BY_CPUID => "from the first write on",
                Some(_) => "where the guest's CPUID has it",
            },
            Passing::ByCpuidOrUnknown if kernel.is_some() => "where the guest's CPUID has it",
            Passing::ByCpuidOrUnknown => {
                "where the guest's CPUID has it, since about Linux 6.4; earlier kernels refuse each access"
            }
            Passing::ReadsByCpuid => "where the guest's CPUID has it, but to read it alone",
            Passing::UnlessIntel => "unless the guest's CPUID says that its processor is one of Intel's",
            Passing::WithCstates => "where the VMM gives the guest its C-states (-overcommit cpu-pm=on)",
            Passing::Reads => "always, to read it",
            Passing::Never => "never, and kernels write it while they boot",
            Passing::Trapped => "never",
            Passing::Absent => "never, as these have no such register",
        }
    }
}

impl PassedMsr {
    /// When, of all processors and kernels.
    pub fn when(&self) -> String {
        match self.on_intel == self.on_amd {
            true => format!("{}, on Intel's processors and on AMD's", self.on_intel.clause(None)),
            false => {
                format!("on Intel's processors {}, on AMD's {}", self.on_intel.clause(None), self.on_amd.clause(None))
            }
        }
    }

    /// Why there are exits all the same, as far as a recording leaves it open.
    pub fn explained(&self, of: MsrEvidence) -> String {
        let (whose, when, passing) = match of.list {
            CodeList::Vmx => ("on Intel's processors ", self.on_intel.clause(of.kernel).into(), Some(self.on_intel)),
            CodeList::Svm => ("on AMD's processors ", self.on_amd.clause(of.kernel).into(), Some(self.on_amd)),
            _ => ("", self.when(), None),
        };
        match passing {
            Some(Passing::ByCpuidOrUnknown) if of.is_older(BY_CPUID) => {
                return format!("{whose}each access is an exit, and refused before about Linux 6.4; {LOOK}");
            }
            Some(Passing::Absent) => {
                return format!("{whose}there is no such register: each access is an exit, and refused; {LOOK}");
            }
            Some(Passing::Never) => {
                return format!("{whose}each access is an exit, and kernels write it while they boot; {LOOK}");
            }
            Some(Passing::Trapped) => return format!("{whose}each access is an exit; {LOOK}"),
            _ => {}
        }
        let toggles = |bits: u64| of.written.is_some_and(|(low, high)| (low ^ high) & bits != 0);
        let mut text = match self.toggled {
            Some((bits, says)) if toggles(bits) => says.to_string(),
            _ => String::new(),
        };
        let _ = write!(text, "{whose}KVM lets guests reach the register without an exit, {when}");
        let why = self.explanations(of, passing);
        match why.split_last() {
            Some((last, [])) => _ = write!(text, ": repeated exits mean {last}"),
            Some((last, more)) => _ = write!(text, ": repeated exits mean {} or {last}", more.join(", ")),
            None => text += "; nothing in the recording shows why there are exits nevertheless",
        }
        let _ = write!(text, "; {LOOK}");
        text
    }

    fn explanations(&self, of: MsrEvidence, passing: Option<Passing>) -> Vec<&'static str> {
        let may_be = |is: fn(Passing) -> bool| match passing {
            Some(passing) => is(passing),
            None => is(self.on_intel) || is(self.on_amd),
        };
        let by_write = may_be(|passing| matches!(passing, Passing::AfterWrite { .. }));
        let by_cpuid = may_be(|passing| matches!(passing, Passing::ByCpuid | Passing::ByCpuidOrUnknown));
        let reads = may_be(|passing| passing == Passing::ReadsByCpuid);
        [
            (by_write && of.written == Some((0, 0)), "writes of zero alone"),
            (by_write && of.written.is_none(), "that the guest has not written it"),
            (may_be(|passing| passing == Passing::WithCstates), "a VMM that gives no C-states"),
            (may_be(|passing| passing == Passing::UnlessIntel), "that the guest is shown a processor of Intel's"),
            (reads, "writes"),
            (reads || by_cpuid && !of.is_older(BY_CPUID), "that its CPUID lacks it"),
            (!of.no_nested, "a nested guest's accesses (`perf record -e kvm:kvm_nested_vmexit`)"),
            (!of.is_older(FILTERS), "a filter of the VMM's"),
            (by_cpuid && of.kernel.is_none(), "an older kernel"),
        ]
        .into_iter()
        .filter_map(|(is_open, why)| is_open.then_some(why))
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OPEN: MsrEvidence =
        MsrEvidence { list: CodeList::Vmx, kernel: None, written: Some((1, 1)), no_nested: false };

    #[test]
    fn vendor_kernel_values_and_nested_guests_decide_between_explanations() {
        let says = |msr: &PassedMsr, of: MsrEvidence, says: &[&str], not: &[&str]| {
            let text = msr.explained(of);
            says.iter().for_each(|words| assert!(text.contains(words), "{words}: {text}"));
            not.iter().for_each(|words| assert!(!text.contains(words), "{words}: {text}"));
        };
        let (new, old) = (Some((6, 8)), Some((5, 4)));
        says(
            &SPEC_CTRL,
            OPEN,
            &["first write on that is not zero", "nested", "filter"],
            &["V_SPEC_CTRL", "AMD", "older kernel", "zero alone"],
        );
        says(&SPEC_CTRL, MsrEvidence { list: CodeList::Svm, ..OPEN }, &["V_SPEC_CTRL"], &["Intel"]);
        says(
            &SPEC_CTRL,
            MsrEvidence { written: Some((0, 0)), ..OPEN },
            &["mean writes of zero alone, a nested"],
            &["IBRS"],
        );
        says(&SPEC_CTRL, MsrEvidence { written: Some((0, 1)), ..OPEN }, &["switches IBRS on and off"], &[]);
        // STIBP and SSBD are other bits.
        for written in [(1, 3), (0, 4)] {
            says(&SPEC_CTRL, MsrEvidence { written: Some(written), ..OPEN }, &["nested"], &["switches IBRS"]);
        }
        says(
            &SPEC_CTRL,
            MsrEvidence { written: None, ..OPEN },
            &["that the guest has not written it"],
            &["zero alone"],
        );
        says(&COMMANDS, OPEN, &["since about Linux 6.4", "an older kernel", "CPUID lacks it"], &[]);
        says(&COMMANDS, MsrEvidence { kernel: new, ..OPEN }, &["CPUID has it:", "CPUID lacks it"], &["6.4", "older"]);
        says(
            &COMMANDS,
            MsrEvidence { kernel: old, ..OPEN },
            &["without an exit, from the first write on: repeated exits mean a nested"],
            &["filter", "CPUID", "older"],
        );
        says(&L1D_FLUSHES, OPEN, &["refuse each access", "an older kernel", "CPUID lacks it"], &["first write"]);
        says(
            &L1D_FLUSHES,
            MsrEvidence { kernel: old, ..OPEN },
            &["refused before about Linux 6.4"],
            &["without an exit"],
        );
        says(&L1D_FLUSHES, MsrEvidence { kernel: new, ..OPEN }, &["CPUID lacks it"], &["an older kernel"]);
        says(
            &XFD_ERR,
            OPEN,
            &["to read it alone: repeated exits mean writes, that its CPUID lacks it"],
            &["6.4", "first write"],
        );
        says(&BASES, MsrEvidence { no_nested: true, ..OPEN }, &["always: repeated exits mean a filter"], &["nested"]);
        says(
            &BASES,
            MsrEvidence { no_nested: true, kernel: old, ..OPEN },
            &["nothing in the recording shows"],
            &["mean"],
        );
        says(&SYSCALL, OPEN, &["each access is an exit, and kernels write it"], &["AMD", "without an exit", "nested"]);
        says(
            &SYSCALL,
            MsrEvidence { list: CodeList::Svm, ..OPEN },
            &["on AMD's processors KVM lets guests reach the register without an exit, always"],
            &["boots"],
        );
        says(&SYSENTER, MsrEvidence { list: CodeList::Svm, ..OPEN }, &["shown a processor of Intel's"], &[]);
        // KVM's own codes do not say whose processor it is.
        says(
            &XFD,
            MsrEvidence { list: CodeList::KvmExit, ..OPEN },
            &["on Intel's", "on AMD's never, as these have no"],
            &[],
        );
    }
}
