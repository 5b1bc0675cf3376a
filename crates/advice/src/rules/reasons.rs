//! Rules about exits that their reason tells apart, or their reason and what happened: no device or register of the tables of
//! cures is behind them.
//!
//! ```text
//! npf, write not allowed ──► "writes to protected memory" ─┐
//! EXTERNAL_INTERRUPT 0xec ─► "the host's timer" ───────────┼─► worth a word? ─► advice, or why nothing can be set
//! VMREAD, VMRESUME ────────► "nested hypervisor" ──────────┤
//! EPT_VIOLATION (L2) ──────► "nested guests" ──────────────┘
//! ```

use super::device_rules::{JudgedVm, PREEMPTION_TIMER, Thing, VmSubjectExits};
use super::gangs::{self, DOORBELLS};
use super::polling::{self, is_short};
use crate::cause::{CauseSubject, Covered, CureLookup, NamedExits, RuleAnswer, is_about, is_for};
use crate::cures::apic_switches::APICV;
use crate::cures::cure::{
    Acts, Cure, CureCondition, IN_GUEST, LESS_OFTEN, Least, NOBODY, Remedy, Switch, WITH_HARDWARE, by_hand, libvirt,
    qemu,
};
use crate::cures::guest_polling::TAKES_CPUS;
use crate::cures::host_interrupts::{
    DEVICE, FUNCTION_CALL, GUEST_TIMER, GUEST_TIMERS_TOO, HOST_INTERRUPTS, POSTED, POSTED_WAKEUP,
    PREEMPTION_TIMER_SWITCH, RESCHEDULE, TIMER,
};
use crate::cures::msr_cures::{CPUID, RDPMC, TIMERS};
use crate::cures::table::source;
use crate::cures::unmapping_cures::{
    BY_COMPACTION, BY_KHUGEPAGED, BY_KSM, BY_NUMA_SCANS, BY_RECLAIM, BY_VCPUS, BY_VCPUS_WITHOUT_NUMA, BY_VMM,
    PERHAPS_TAKEN, TAKEN_AWAY,
};
use crate::evidence::faults::{is_fetch_of_split, is_memory_fault, is_write_to_protected};
use crate::evidence::input::{AdviceInput, RecordedHost};
use crate::evidence::unmappings::{UnmapCount, Unmapper, mostly};
use crate::evidence::usual_cost::usual_cost;
use crate::judgement::{CitedValue, Judgement, Topic};
use exitscope_analysis::record_commands::Missed;
use exitscope_analysis::{ExitCause, ExitStats, SubjectKey};
use exitscope_model::codes::{HostVectorKind, KVM_EXIT_MEMORY_FAULT, is_of_pcs};
use exitscope_model::host_memory::NUMA_BALANCING;
use exitscope_model::version;
use exitscope_model::{CodeList, ExitCode, KvmActivity, SubjectKind, SubjectName, TimePart};
use exitscope_policy::vcore::H_DOORBELL;
use exitscope_policy::{Knob, KnobLocation, KnobMachines, KnobUnit};
use exitscope_units::Nanos;
use std::collections::BTreeMap;

/// No handler of an interrupt takes so long: who waits longer waits for something else.
const HANDLER: Nanos = Nanos(500_000);

/// Exits that are judged together.
pub(crate) struct ExitGroup {
    pub exits: NamedExits,
    /// Of interrupts of the host: those of vectors for this alone.
    vector: Option<HostVectorKind>,
    /// What else KVM's events may show of where they come from.
    activities: &'static [KvmActivity],
    /// What may be said of them.
    pub answers: &'static [Remedy],
    /// Which of these holds for a VM.
    choose: fn(&JudgedVm<'_>) -> usize,
    /// Whether another task may have the CPU next, so that without the scheduler's events a part of their time is steal.
    may_wait: bool,
}

/// A group of which the same may be said of every VM, and nothing else shows where it comes from.
const fn row(
    name: &'static str,
    exits: &'static str,
    has: fn(&ExitCause) -> bool,
    answers: &'static [Remedy],
) -> ExitGroup {
    ExitGroup {
        exits: NamedExits { name, exits, has },
        vector: None,
        activities: &[],
        answers,
        choose: |_| 0,
        may_wait: false,
    }
}

/// A group of interrupts of the host, by what their vectors are for.
const fn vectors(
    name: &'static str,
    exits: &'static str,
    vector: HostVectorKind,
    answers: &'static [Remedy],
) -> ExitGroup {
    ExitGroup { vector: Some(vector), may_wait: true, ..row(name, exits, is_interrupt, answers) }
}

/// In the order in which they are looked for.
pub(crate) static GROUPS: &[ExitGroup] = &[
    ExitGroup {
        choose: who_halts,
        ..row(
            "halts of nested guests",
            "HLT, hlt (L2)",
            is_halt_of_nested,
            &[Remedy::Unjudged(WHOSE_HALTS), Remedy::Unjudged(ALSO_OF_L0), Remedy::Leave(NESTED_GUESTS)],
        )
    },
    row(
        "nested guests",
        "every exit (L2) but for an interrupt of the host",
        |of| of.code.nested && !is_interrupt(of),
        &[Remedy::Leave(NESTED_GUESTS)],
    ),
    ExitGroup {
        activities: LOGGED,
        choose: |vm| {
            let ring = happened(vm, KvmActivity::DirtyRingFull);
            usize::from(vm.input.of_reasons(vm.id, &[PML_FULL]).count > 0 || ring > 0)
        },
        ..row(
            PROTECTED,
            "EPT_VIOLATION, npf, aborts of the second stage: write, not allowed",
            is_write_to_protected,
            &[Remedy::Cure(&DIRTY), Remedy::Leave(LOGGING)],
        )
    },
    row(
        "memory faults or device accesses",
        "H_DATA_STORAGE, H_INST_STORAGE",
        is_untold_fault,
        &[Remedy::Cure(&UNTOLD)],
    ),
    row("code in huge pages", "EPT_VIOLATION: fetch, not allowed", is_fetch_of_split, &[Remedy::Cure(&NX_HUGE_PAGES)]),
    ExitGroup {
        activities: TAKEN,
        choose: memory_faults,
        ..row(
            FAULTS,
            "EPT_VIOLATION, npf, aborts of the second stage: any other access to memory",
            is_memory_fault,
            &[
                Remedy::Cure(&FIRST_TOUCH),
                Remedy::Cure(&ONCE_EACH),
                Remedy::Cure(&EITHER),
                Remedy::Cure(&TAKEN_AWAY),
                Remedy::Cure(&PERHAPS_TAKEN),
                Remedy::Cure(&BY_VCPUS),
                Remedy::Cure(&BY_VCPUS_WITHOUT_NUMA),
                Remedy::Cure(&BY_NUMA_SCANS),
                Remedy::Cure(&BY_VMM),
                Remedy::Cure(&BY_KHUGEPAGED),
                Remedy::Cure(&BY_KSM),
                Remedy::Cure(&BY_RECLAIM),
                Remedy::Cure(&BY_COMPACTION),
                Remedy::Cure(&READ_IN),
            ],
        )
    },
    ExitGroup {
        choose: whose_timer,
        ..vectors(
            "the host's timer",
            "EXTERNAL_INTERRUPT: LOCAL_TIMER; interrupt, with local_timer_entry",
            HostVectorKind::Timer,
            &[Remedy::Cure(&TIMER), Remedy::Cure(&GUEST_TIMER), Remedy::Cure(&GUEST_TIMERS_TOO)],
        )
    },
    ExitGroup {
        choose: |vm| usize::from(are_kicks(vm)),
        ..vectors(
            "reschedule interrupts of the host",
            "EXTERNAL_INTERRUPT: RESCHEDULE; interrupt, with reschedule_entry",
            HostVectorKind::Reschedule,
            &[Remedy::Cure(&RESCHEDULE), Remedy::Leave(KICKS)],
        )
    },
    ExitGroup {
        activities: UNMAPPED,
        ..vectors(
            "function calls of the host's other CPUs",
            "EXTERNAL_INTERRUPT: CALL_FUNCTION, CALL_FUNCTION_SINGLE; interrupt, with call_function_entry or call_function_single_entry",
            HostVectorKind::FunctionCall,
            &[Remedy::Cure(&FUNCTION_CALL)],
        )
    },
    vectors(
        "notifications of posted interrupts",
        "EXTERNAL_INTERRUPT: POSTED_INTR, POSTED_INTR_NESTED",
        HostVectorKind::Posted,
        &[Remedy::Cure(&POSTED)],
    ),
    vectors(
        "wake-ups by posted interrupts",
        "EXTERNAL_INTERRUPT: POSTED_INTR_WAKEUP",
        HostVectorKind::PostedWakeup,
        &[Remedy::Cure(&POSTED_WAKEUP)],
    ),
    vectors(
        "interrupts of the host's devices",
        "EXTERNAL_INTERRUPT: vectors below the kernel's own; interrupt, with irq_handler_entry",
        HostVectorKind::Device,
        &[Remedy::Cure(&DEVICE)],
    ),
    ExitGroup {
        may_wait: true,
        ..row(
            "interrupts of the host",
            "EXTERNAL_INTERRUPT without a vector, or of another one; interrupt",
            is_interrupt,
            &[Remedy::Cure(&HOST_INTERRUPTS)],
        )
    },
    ExitGroup {
        activities: &[KvmActivity::TimerEmulated],
        choose: |vm| usize::from(is_timer_storm(vm)),
        ..row(
            "a system register, its name not recorded",
            "SYS64 (arm64) without kvm_sys_access",
            |of| of.about.is_none() && is_for(of, SYSTEM_REGISTERS.0, &[SYSTEM_REGISTERS.1]),
            &[Remedy::Unjudged(UNTOLD_REGISTER), Remedy::Unjudged(TIMER_STORM)],
        )
    },
    row(
        "interrupts of the host, or for the guest",
        "IRQ (arm64), IRQ_S_TIMER and the like (riscv)",
        is_interrupt_of_either,
        &[Remedy::Unjudged(EITHERS_INTERRUPT)],
    ),
    row(
        "calls of the SBI",
        "EXC_SUPERVISOR_SYSCALL",
        |of| is_for(of, CodeList::Riscv, &[10]),
        &[Remedy::Unjudged(SBI_CALLS)],
    ),
    row(
        "instructions that KVM answers, WFI among them",
        "EXC_VIRTUAL_INST_FAULT",
        |of| is_for(of, CodeList::Riscv, &[22]),
        &[Remedy::Unjudged(VIRTUAL_INSTRUCTIONS)],
    ),
    row(
        "memory faults or device accesses",
        "EXC_INST_GUEST_PAGE_FAULT, EXC_LOAD_GUEST_PAGE_FAULT, EXC_STORE_GUEST_PAGE_FAULT",
        |of| is_for(of, CodeList::Riscv, &[20, 21, 23]) && of.about.is_none(),
        &[Remedy::Unjudged(GUEST_PAGE_FAULTS)],
    ),
    ExitGroup {
        choose: |vm| usize::from(has_apicv(vm)),
        ..row(
            "interrupt windows",
            "INTERRUPT_WINDOW, vintr, TPR_BELOW_THRESHOLD, write_cr8",
            is_window,
            &[Remedy::Cure(&WINDOWS), Remedy::Unjudged(WINDOWS_WITH_APICV)],
        )
    },
    row("ends of interrupts", "EOI_INDUCED", |of| is_for(of, CodeList::Vmx, &[45]), &[Remedy::Leave(EOI_INDUCED)]),
    ExitGroup {
        activities: FALLBACKS,
        choose: avic_fallback,
        ..row(
            "IPIs that AVIC does not deliver",
            "avic_incomplete_ipi",
            |of| is_for(of, CodeList::Svm, &[0x401]),
            &[
                Remedy::Leave(INCOMPLETE_IPI),
                Remedy::Leave(NOT_RUNNING),
                Remedy::Leave(OF_OTHER_KIND),
                Remedy::Unjudged(INVALID_TARGET),
            ],
        )
    },
    ExitGroup {
        choose: |vm| usize::from(version(&vm.host.release).is_none_or(|kernel| kernel < TRAPS_XFD)),
        ..row(
            "first uses of AMX",
            "EXCEPTION_NMI with #NM",
            |of| is_for(of, CodeList::Vmx, &[0]) && is_about(of, SubjectKind::Exception, &[NM]),
            &[Remedy::Leave(AMX), Remedy::Unjudged(NM_BEFORE)],
        )
    },
    ExitGroup {
        activities: &[KvmActivity::SmmTransition],
        ..row(
            "returns from system management mode",
            "rsm",
            |of| is_for(of, CodeList::Svm, &[0x73]),
            &[Remedy::Leave(SMM)],
        )
    },
    row(
        "nested hypervisor",
        "VMX's instructions (VMCLEAR to VMON, INVEPT, INVVPID), SVM's (vmrun, vmload, vmsave, stgi, clgi, skinit, invlpga)",
        is_nested,
        &[Remedy::Cure(&NESTED)],
    ),
    row("returns for a signal", "KVM_EXIT_INTR", |of| of.code == ExitCode::INTR, &[Remedy::Unjudged(SIGNALS)]),
    ExitGroup {
        may_wait: true,
        ..row(
            "timers of the host",
            "HV_DECREMENTER",
            |of| is_for(of, CodeList::PpcTrap, &[0x980]),
            &[Remedy::Leave(HOST_TIMER)],
        )
    },
    ExitGroup {
        may_wait: true,
        ..row(
            DOORBELLS,
            "0xe80 (H_DOORBELL)",
            |of| is_for(of, CodeList::PpcTrap, &[H_DOORBELL as u64]),
            &[Remedy::Leave(TO_LEAVE)],
        )
    },
    row(
        "halts by H_CEDE, and entries that came too late",
        "RETURN_TO_HOST",
        |of| is_for(of, CodeList::PpcTrap, &[0]),
        &[Remedy::Leave(NOTHING_LEFT)],
    ),
    row(
        "instructions that the processor does not have",
        "H_EMUL_ASSIST",
        |of| is_for(of, CodeList::PpcTrap, &[0xe40]),
        &[Remedy::Leave(ILLEGAL)],
    ),
    ExitGroup {
        activities: LOGGED,
        ..row("logging of written pages", "PML_FULL", |of| is_for(of, CodeList::Vmx, &[62]), &[Remedy::Leave(PML)])
    },
    row(
        "expiries of the guest's timer",
        "PREEMPTION_TIMER",
        |of| is_for(of, CodeList::Vmx, &[PREEMPTION_TIMER]),
        &[Remedy::Leave(EXPIRY)],
    ),
    row(
        "CPUID, its leaf not recorded",
        "CPUID, cpuid without kvm_cpuid",
        |of| of.about.is_none() && (is_for(of, CodeList::Vmx, &[10]) || is_for(of, CodeList::Svm, &[0x72])),
        &[Remedy::Cure(&CPUID)],
    ),
    row(
        "reads of performance counters",
        "RDPMC, rdpmc",
        |of| is_for(of, CodeList::Vmx, &[15]) || is_for(of, CodeList::Svm, &[0x6f]),
        &[Remedy::Cure(&RDPMC)],
    ),
    row("what TDX guests ask for", "TDCALL", |of| is_for(of, CodeList::Vmx, &[77]), &[Remedy::Unjudged(TDCALLS)]),
    row(
        "conversions of a confidential guest's memory",
        "KVM_EXIT_MEMORY_FAULT, also after EPT_VIOLATION, npf and aborts of the second stage",
        |of| unresolved_fault(of) == Some(u64::from(KVM_EXIT_MEMORY_FAULT)),
        &[Remedy::Unjudged(MEMORY_FAULT)],
    ),
    row(
        "memory that KVM could not map",
        "KVM_RUN EFAULT or EHWPOISON; these, or KVM_EXIT_UNKNOWN, after EPT_VIOLATION, npf and aborts of the second stage",
        |of| unresolved_fault(of).is_some(),
        &[Remedy::Unjudged(UNMAPPABLE)],
    ),
    row(
        "page tables that KVM shadows",
        "EXCEPTION_NMI and PF excp with a page fault, INVLPG, invlpg, INVPCID, invpcid, writes of CR3",
        is_shadowing,
        &[Remedy::Cure(&SHADOWING)],
    ),
];

const LOGGED: &[KvmActivity] = &[KvmActivity::PmlFull, KvmActivity::DirtyRingFull];
const UNMAPPED: &[KvmActivity] = &[KvmActivity::NARROW, KvmActivity::WIDE];
const TAKEN: &[KvmActivity] = &[KvmActivity::NARROW, KvmActivity::WIDE, KvmActivity::Aged, KvmActivity::AsyncPageFault];

const PROTECTED: &str = "writes to protected memory";
const FAULTS: &str = "memory faults";

/// Whether a nested guest halts.
pub(crate) fn is_halt_of_nested(cause: &ExitCause) -> bool {
    cause.code.nested && cause.code.is_halt()
}

/// Whether a recording tells which exits of nested guests KVM handed to their hypervisor.
pub(crate) fn tells_who_halts(input: &AdviceInput, host: &RecordedHost) -> bool {
    input.facts.event_kinds.reflects || host.how_recorded.was_recorded(Missed::Reflected)
}

/// What is said of a nested guest's halts: what KVM hands on is not halted within the exit, which ends with L1's entry.
fn who_halts(vm: &JudgedVm<'_>) -> usize {
    let halted = |stats: &ExitStats| stats.part(TimePart::Halted).0 + stats.part(TimePart::Polling).0 > 0;
    let mut causes = vm.input.causes(vm.id).iter();
    match tells_who_halts(vm.input, vm.host) {
        true => 2,
        false => usize::from(causes.any(|(cause, stats)| is_halt_of_nested(cause) && halted(stats))),
    }
}

/// The group of exits that come from this.
pub(crate) fn group(host: &RecordedHost, cause: &ExitCause) -> Option<&'static ExitGroup> {
    let vector = || cause.about.and_then(|key| host_vector(host, key));
    GROUPS.iter().find(|group| (group.exits.has)(cause) && group.vector.is_none_or(|kind| vector() == Some(kind)))
}

/// What an interrupt of the host is for.
fn host_vector(host: &RecordedHost, about: SubjectKey) -> Option<HostVectorKind> {
    match about.kind {
        SubjectKind::HostVector => host.names.host_vector(about.key),
        SubjectKind::HostIrq => Some(HostVectorKind::Device),
        _ => None,
    }
}

/// powerpc's H_DATA_STORAGE and H_INST_STORAGE say nothing more where guests have radix trees: `kvmppc_book3s_radix_page_fault`
/// has no tracepoint.
fn is_untold_fault(cause: &ExitCause) -> bool {
    cause.about.is_none() && is_for(cause, CodeList::PpcTrap, &[0xe00, 0xe20])
}

/// Why `KVM_RUN` returned, as the number of its code, where that was a fault that KVM could not resolve.
fn unresolved_fault(cause: &ExitCause) -> Option<u64> {
    match cause.subject() {
        Some(key) => (key.kind == SubjectKind::MemoryFault).then_some(key.key),
        None => cause.code.is_unresolved_fault().then_some(cause.code.number),
    }
}

/// Of x86: on arm64 the guest's own timer leaves it by an interrupt of the host's, too. Those that meet a nested guest are the
/// host's, too: `nested_vmx_l0_wants_exit` of arch/x86/kvm/vmx/nested.c, `nested_svm_exit_special` of arch/x86/kvm/svm/nested.c.
fn is_interrupt(cause: &ExitCause) -> bool {
    let code = cause.code.basic();
    matches!((code.list, code.number), (CodeList::Vmx, 1) | (CodeList::Svm, 0x60))
}

/// On arm64 and riscv the guest's own timer interrupts the host, too, and so may its devices.
fn is_interrupt_of_either(cause: &ExitCause) -> bool {
    let code = cause.code.basic();
    match code.list {
        CodeList::Arm64Exit => code.number == 0,
        CodeList::Riscv => code.number >> 63 != 0 || code.number >> 31 & 1 != 0,
        _ => false,
    }
}

/// Interrupt windows, and VMX's and SVM's exits for a task priority that was lowered or written.
fn is_window(cause: &ExitCause) -> bool {
    is_for(cause, CodeList::Vmx, &[7, 43]) || is_for(cause, CodeList::Svm, &[0x18, 0x64]) || is_of_register(cause, 8)
}

/// VMX's accesses to this control register.
fn is_of_register(cause: &ExitCause, number: u64) -> bool {
    is_for(cause, CodeList::Vmx, &[28]) && is_about(cause, SubjectKind::ControlRegister, &[number])
}

/// What only a hypervisor runs: VMX's and SVM's own instructions.
fn is_nested(cause: &ExitCause) -> bool {
    is_for(cause, CodeList::Vmx, &[19, 20, 21, 22, 23, 24, 25, 26, 27, 50, 53])
        || is_for(cause, CodeList::Svm, &[0x7a, 0x80, 0x82, 0x83, 0x84, 0x85, 0x86])
}

/// What KVM intercepts only where it shadows the guest's page tables, as it does where the processor's second stage of translation
/// is off: page faults, INVLPG, INVPCID, and CR3 (`vmx_exec_control` and `vmx_need_pf_intercept` of arch/x86/kvm/vmx, where INVPCID
/// exits as INVLPG does; `init_vmcb` and `svm_recalc_instruction_intercepts` of arch/x86/kvm/svm/svm.c clear these intercepts where
/// it has NPT, unless the guest's CPUID lacks INVPCID: then each is a #UD).
fn is_shadowing(cause: &ExitCause) -> bool {
    const PF: u64 = 14;
    // kvm_page_fault (`kvm_handle_page_fault` of arch/x86/kvm/mmu/mmu.c) tells more than the exit's own word.
    let is_fault = || cause.subject().is_some_and(|key| key.kind == SubjectKind::PageFault);
    (is_for(cause, CodeList::Vmx, &[0]) && (is_about(cause, SubjectKind::Exception, &[PF]) || is_fault()))
        || is_of_register(cause, 3)
        || is_for(cause, CodeList::Vmx, &[14, 58])
        || is_for(cause, CodeList::Svm, &[0x4e, 0x79, 0x13, 0xa2])
}

/// Exits that only a VM has whose APIC the processor virtualises: APIC_WRITE and EOI_INDUCED; AVIC's own.
const OF_APICV: &[(CodeList, u64)] =
    &[(CodeList::Vmx, 45), (CodeList::Vmx, 56), (CodeList::Svm, 0x401), (CodeList::Svm, 0x402)];

/// Whether the processor virtualises the VM's APIC, as its exits show.
pub(crate) fn has_apicv(vm: &JudgedVm<'_>) -> bool {
    vm.input.of_reasons(vm.id, OF_APICV).count > 0
}

/// A VM's exits of a group, and what those about each thing cost.
struct Grouped {
    group: &'static ExitGroup,
    stats: ExitStats,
    about: Vec<(SubjectKey, u64)>,
    /// As [`VmSubjectExits::forces`].
    forces: u64,
}

pub(crate) fn judge(vm: &JudgedVm<'_>, judgement: &mut Judgement) {
    let mut groups: BTreeMap<&'static str, Grouped> = BTreeMap::new();
    for (cause, stats) in vm.input.causes(vm.id) {
        if let Some(group) = group(vm.host, cause)
            && !matches!(CureLookup::of_subject(vm.host, vm.is_qemu(), cause), Some(CureLookup::Named(_)))
        {
            let of = Grouped { group, stats: ExitStats::default(), about: Vec::new(), forces: 0 };
            let grouped = groups.entry(group.exits.name).or_insert(of);
            grouped.stats.merge(stats);
            grouped.about.extend(cause.about.map(|key| (key, stats.cost().0)));
            let is_it = |of, trap: u16, about| (of, u64::from(trap), about) == (vm.id, cause.code.number, cause.about);
            grouped.forces += vm.input.facts.gangs.forced_by(is_it).0;
        }
    }
    for (name, Grouped { group, stats, about, forces }) in groups {
        if name == DOORBELLS && gangs::judges_doorbells(vm.input, vm.id) {
            continue;
        }
        let mut account = VmSubjectExits::of(stats, group.answers[(group.choose)(vm)]);
        account.forces = forces;
        if group.vector == Some(HostVectorKind::Timer) {
            account.more.extend(injected_by_timer(vm));
        }
        let whose = name.strip_prefix("the ").unwrap_or(name);
        for (key, share) in costliest(&about, account.all.stats.cost().0) {
            let number = match vm.host.names.of_key(&[vm.id], key.kind, key.key) {
                Some(name) => format!("{:#x}, {name}", key.key),
                None => format!("{:#x}", key.key),
            };
            let what = match key.kind {
                SubjectKind::HostIrq => {
                    let handler = vm.host.names.of_key(&[vm.id], key.kind, key.key);
                    let handler = handler.map_or(String::new(), |handler| format!(", {handler}"));
                    format!("share of the time of the {whose}: IRQ {}{handler}", key.key)
                }
                SubjectKind::HostVector | SubjectKind::EoiVector | SubjectKind::IncompleteIpi => {
                    format!("share of the time of the {whose}: with vector {number}")
                }
                _ => format!("share of the time of the {whose}: {number}"),
            };
            account.more.push((Topic::Devices, what, CitedValue::Share(share)));
        }
        if group.may_wait && !vm.input.facts.event_kinds.switches {
            let median = account.all.stats.quantile(5_000).unwrap_or(Nanos::ZERO);
            account.for_sure = Some(if median > HANDLER { 0 } else { usual_cost(&account.all.stats, false) });
        }
        if name == FAULTS {
            account.more.extend(of_faults(vm));
        }
        account.note_long_ones(vm.input);
        for (activity, count) in vm.input.kvm_activity(vm.id, group.activities) {
            let what = format!("{} ({}) meanwhile", activity.what(&vm.host.release), activity.event());
            account.more.push((Topic::Devices, what, CitedValue::Count(count)));
        }
        let said = vm.judge_as(Thing { subject: CauseSubject::Group(name), key: None, name }, &account, judgement);
        judgement.say(Some(vm.id), Covered::Subject(CureLookup::Named(name)), said);
    }
}

/// Where a VM's memory was missing, whether again, and who took it away.
fn of_faults(vm: &JudgedVm<'_>) -> Vec<(Topic, String, CitedValue)> {
    let touched = vm.input.touched(vm.id);
    let mut facts = Vec::new();
    if touched.all() > 0 {
        let of = |part: u64, all: u64| CitedValue::Share(part as f64 / all.max(1) as f64);
        facts.push((
            format!("share of the {FAULTS} at pages that had one before in this recording"),
            of(touched.again, touched.all()),
        ));
        facts.push((
            format!("regions of 2 MiB that hold the {} pages with first {FAULTS}", touched.first),
            CitedValue::Count(touched.regions),
        ));
        facts.push((
            format!("share of the time of the {FAULTS} in those that are alone in their region of 2 MiB"),
            of(touched.alone, touched.time),
        ));
    }
    let place = mostly_at(vm);
    facts.extend(place.map(|(place, share)| (format!("share of the {FAULTS} in {place}"), CitedValue::Share(share))));
    facts.extend(vm.input.unmappers(vm.id, vm.host).into_iter().map(|(unmapper, count)| {
        let what = format!("changes of a VMM's memory mappings (kvm_unmap_hva_range) in {}", unmapper.threads());
        (what, CitedValue::Count(count.times))
    }));
    facts.into_iter().map(|(what, figure)| (Topic::Devices, what, figure)).collect()
}

/// As much as every PC may have.
const BELOW: &str = "memory below 3 GiB";

/// Where most pages of a VM's memory were missing: by what somebody called the place, or by how PCs are made.
fn mostly_at(vm: &JudgedVm<'_>) -> Option<(String, f64)> {
    let mut places: BTreeMap<String, u64> = BTreeMap::new();
    let mut all = 0;
    for (address, faults) in vm.input.missing_at(vm.id) {
        all += faults;
        let place = match (vm.host.names.of_key(&[vm.id], SubjectKind::Mmio, address), address) {
            (Some(SubjectName::Given(given)), _) => given.to_string(),
            _ if !is_of_pcs(&vm.host.arch) => continue,
            // Below, there is as much as the firmware finds; devices and firmware are at the end (hw/i386/pc.c of QEMU).
            (_, ..0xc000_0000) => BELOW.to_string(),
            (_, ..0x1_0000_0000) => "the gap below 4 GiB, where devices are".to_string(),
            _ => "memory above 4 GiB".to_string(),
        };
        *places.entry(place).or_default() += faults;
    }
    let (place, most) = places.into_iter().max_by_key(|(_, faults)| *faults)?;
    // Where memory usually is says nothing.
    (place != BELOW).then(|| (place, most as f64 / all as f64))
}

/// Vectors of which it is said what part they are, at most.
const VECTORS: usize = 3;

/// What the costliest of exits that cost `all` are about; of interrupts of the host the costliest vectors.
fn costliest(about: &[(SubjectKey, u64)], all: u64) -> Vec<(SubjectKey, f64)> {
    let mut by_key: BTreeMap<SubjectKey, u64> = BTreeMap::new();
    about.iter().for_each(|(key, cost)| *by_key.entry(*key).or_default() += cost);
    let mut rows: Vec<(SubjectKey, u64)> = by_key.into_iter().collect();
    rows.sort_by_key(|(key, cost)| (std::cmp::Reverse(*cost), *key));
    let is_vector = rows.first().is_some_and(|(key, _)| key.kind.is_of_host());
    rows.truncate(if is_vector { VECTORS } else { 1 });
    rows.into_iter().map(|(key, cost)| (key, cost as f64 / all.max(1) as f64)).collect()
}

/// What is said of halts if no rule about polls says more: those that found an event pending, and otherwise why not.
pub(crate) fn halts(vm: &JudgedVm<'_>, unknown: Option<RuleAnswer>, judgement: &mut Judgement) {
    let mut stats = ExitStats::default();
    let halts = vm.input.causes(vm.id).iter().filter(|(cause, _)| cause.code.is_halt() && !cause.code.nested);
    halts.for_each(|(_, of)| stats.merge(of));
    let blocked = vm.input.halts(vm.id).halts();
    let pending = stats.timed.saturating_sub(blocked);
    let all = stats.count;
    // Without kvm_vcpu_wakeup nothing says which halts found one; elsewhere WFEs and the like are such exits, too.
    let is_x86 = !vm.host.xen && is_of_pcs(&vm.host.arch);
    if is_x86 && vm.input.facts.halts.all().has_wakeups() && pending.saturating_mul(2) > stats.timed {
        let share = pending as f64 / stats.timed as f64;
        let mut account = VmSubjectExits::of(stats, may_poll(vm));
        let what = "share of the halts that found an event pending, and blocked nobody";
        account.more.push((Topic::Halts, what.to_string(), CitedValue::Share(share)));
        let thing = Thing { subject: CauseSubject::Group("halts"), key: None, name: "halts" };
        let said = vm.judge_as(thing, &account, judgement);
        judgement.say(Some(vm.id), Covered::Halts, said);
    }
    if vm.host.xen {
        judgement.say(Some(vm.id), Covered::Halts, RuleAnswer::Inherent(XEN_HALTS.into()));
        return;
    }
    let outside = vm.input.halts(vm.id).in_user_space;
    let few = vm.input.facts.halts.all().halts() < polling::FEWEST;
    let unknown = unknown.or_else(|| few.then(|| RuleAnswer::NotJudged(FEW_HALTS.to_string())));
    if outside > 0 && outside == all {
        judgement.say(Some(vm.id), Covered::Halts, RuleAnswer::NotJudged(HALTS_OUTSIDE.into()));
    } else if let Some(why) = unknown {
        judgement.say(Some(vm.id), Covered::Halts, why);
    }
}

/// What is said of halts that find an event pending: a guest must not poll on a CPU that others wait for.
fn may_poll(vm: &JudgedVm<'_>) -> Remedy {
    let AdviceInput { facts, .. } = vm.input;
    match () {
        _ if facts.halts.guest_polls => Remedy::Leave(POLLS_ALREADY),
        _ if !facts.event_kinds.switches => Remedy::Unjudged(CPUS_UNKNOWN),
        _ if is_short(vm.time.steal, vm.time.wanted()) || vm.input.is_throttled(vm.id) => Remedy::Leave(CPUS_SHORT),
        _ => Remedy::Cure(&PENDING),
    }
}

const POLLS_ALREADY: &str =
    "most halts find an event pending already, although the guest polls before it halts (MSR_KVM_POLL_CONTROL)";
const CPUS_UNKNOWN: &str = "most halts find an event pending already, and guest halt polling would avoid these exits; \
    a recording with sched_switch shows whether CPUs are free for that";
const CPUS_SHORT: &str = "most halts find an event pending already, and guest halt polling would avoid these exits; \
    but it takes CPU time, and vCPUs wait for CPUs here";

const FEW_HALTS: &str = "the recording shows how long fewer than 200 halts waited: too few to judge polling by";

/// `hvm_hlt` of xen/arch/x86/hvm/hvm.c, `vcpu_block` of xen/common/sched/core.c.
const XEN_HALTS: &str = "the guest halts, and Xen does not poll first: its scheduler has the CPU until the vCPU is \
    woken; fewer wake-ups of the guest mean fewer halts";

/// `kvm_emulate_halt` of arch/x86/kvm/x86.c: with the local APIC in user space a halt is KVM_EXIT_HLT.
const HALTS_OUTSIDE: &str = "user space halts these vCPUs, because their local APIC is in user space: KVM neither \
    polls for them nor traces them; with an irqchip in the kernel (QEMU's default) it would do both; the recording \
    does not show what that would gain";

/// Memory is missing when it is touched first, or again; which, the addresses of the faults say. Where most of
/// their time is that of faults alone in their 2 MiB, pages of that size need as many. The place among the group's answers.
fn memory_faults(vm: &JudgedVm<'_>) -> usize {
    let touched = vm.input.touched(vm.id);
    let faults = vm.input.causes(vm.id).iter().filter(|(cause, _)| is_memory_fault(cause));
    let faults: u64 = faults.map(|(_, stats)| stats.count).sum();
    let unmappers = vm.input.unmappers(vm.id, vm.host);
    let may_fault = unmappers.values().map(|count| count.faults).fold(0, u64::saturating_add);
    let is_often = may_fault >= touched.all();
    let is_again = touched.again.saturating_mul(2) > touched.all();
    match mostly(&unmappers).filter(|_| is_often) {
        _ if happened(vm, KvmActivity::AsyncPageFault).saturating_mul(2) > faults => 13,
        _ if touched.all() == 0 => 2,
        // The memory of a VM that is started meanwhile was not there before.
        Some(unmapper) if is_again || !vm.is_there_for_a_part() => {
            5 + taken_by(unmapper, unmappers[&unmapper], has_no_numa_balancing(vm))
        }
        _ if is_again => 3,
        None if is_often && !vm.is_there_for_a_part() => 4,
        _ => usize::from(touched.alone.saturating_mul(2) > touched.time),
    }
}

/// The place among the answers that are of one who takes memory away.
fn taken_by(unmapper: Unmapper, count: UnmapCount, no_numa_balancing: bool) -> usize {
    match unmapper {
        Unmapper::Vcpus if no_numa_balancing => 1,
        Unmapper::Vcpus if count.wide > 0 => 2,
        Unmapper::Vcpus => 0,
        Unmapper::Vmm => 3,
        Unmapper::Khugepaged => 4,
        Unmapper::Ksm => 5,
        Unmapper::Reclaim => 6,
        Unmapper::Compaction => 7,
    }
}

/// Whether the recording says that it was off.
fn has_no_numa_balancing(vm: &JudgedVm<'_>) -> bool {
    vm.host.in_force(NUMA_BALANCING) == Some("0")
}

/// How often KVM did this for a VM.
fn happened(vm: &JudgedVm<'_>, activity: KvmActivity) -> u64 {
    vm.input.kvm_activity(vm.id, &[activity]).first().map_or(0, |row| row.1)
}

/// arm64's trapped accesses to system registers.
const SYSTEM_REGISTERS: (CodeList, u64) = (CodeList::Arm64Ec, 0x18);

const UNTOLD_REGISTER: &str = "the guest accesses system registers that trap, and the recording does not show which: \
    `perf record -e kvm:kvm_sys_access` does; the vcpu_pc of the exits shows whose code it is";

/// `timer_emulate` of arch/arm64/kvm/arch_timer.c.
fn is_timer_storm(vm: &JudgedVm<'_>) -> bool {
    happened(vm, KvmActivity::TimerEmulated).saturating_mul(2) >= vm.input.of_reasons(vm.id, &[SYSTEM_REGISTERS]).count
}

/// The timers that KVM emulates: `kvm_timer_should_fire` and `timer_emulate` of arch/arm64/kvm/arch_timer.c, `get_timer_map` and
/// `timer_set_traps` for which, and `__timer_enable_traps` of arch/arm64/kvm/hyp/nvhe/timer-sr.c.
const TIMER_STORM: &str = "a timer storm, or a host without VHE: most of these exits have KVM emulate a timer (kvm_timer_emulate), which it does \
    when the guest programs that, and without VHE each time that it loads the vCPU. The virtual timer (CNTV) of a guest that is not nested needs no exit; a nested guest's does, and so \
    does the physical one where the host runs without VHE, or gives the guest's counter an offset and has no CNTPOFF (ECV). After a restore or a migration, a guest re-arms a timer at once if it is long overdue or its offset (CNTVOFF) was not \
    restored: `perf record -e kvm:kvm_sys_access` shows which register";

/// `ARM_EXCEPTION_IRQ`, and scause with its highest bit (arch/riscv/kvm/vcpu_exit.c, IRQ_S_SOFT and others of
/// arch/riscv/include/asm/csr.h); `kvm_timer_update_irq` of arch/arm64/kvm/arch_timer.c.
const EITHERS_INTERRUPT: &str = "an interrupt ended the stay in the guest, the host's or the guest's own timer's; on riscv the reason \
    says whether a timer (IRQ_S_TIMER), an IPI (IRQ_S_SOFT) or a device (IRQ_S_EXT) asked for it; whose it was, `perf record -e \
    irq:irq_handler_entry -e 'ipi:*' -e 'kvm:*' -a -- sleep 10` shows, on arm64 kvm_timer_update_irq for the guest's timers";

/// `kvm_riscv_vcpu_sbi_ecall` of arch/riscv/kvm/vcpu_sbi.c.
const SBI_CALLS: &str = "the guest calls its firmware (timers, IPIs, remote fences, consoles), which KVM or user \
    space answers, and no tracepoint shows what it asks for: `trace-cmd record -p function -l 'kvm_sbi_*' -l \
    'kvm_riscv_vcpu_sbi_*'` does";

/// `kvm_riscv_vcpu_virtual_insn` of arch/riscv/kvm/vcpu_insn.c: WFI and accesses to CSRs; no event says which.
const VIRTUAL_INSTRUCTIONS: &str = "the guest executes instructions that KVM answers: WFI, by which it halts, or accesses to CSRs, and no \
    event shows which CSRs; those that halt have kvm:kvm_vcpu_wakeup, and with sched_switch, what a vCPU slept in them is a halt";

/// `gstage_page_fault` of arch/riscv/kvm/vcpu_exit.c: `(htval << 2) | (stval & 3)`.
const GUEST_PAGE_FAULTS: &str = "the guest accesses memory that is not mapped for it, or a device that is emulated there: kvm_exit's HTVAL is \
    the address divided by four (`exitscope events`, `perf script`), and no rule looks at it";

/// VMX's exit for a full page of PML.
const PML_FULL: (CodeList, u64) = (CodeList::Vmx, 62);

/// How many of a VM's exits are for vectors of the host's of this kind.
fn host_interrupts(vm: &JudgedVm<'_>, kind: HostVectorKind) -> u64 {
    let is_it = |cause: &ExitCause| cause.about.and_then(|key| host_vector(vm.host, key)) == Some(kind);
    let causes = vm.input.causes(vm.id).iter().filter(|(cause, _)| is_interrupt(cause) && is_it(cause));
    causes.map(|(_, stats)| stats.count).sum()
}

/// `kvm_vcpu_trigger_posted_interrupt` of arch/x86/kvm/vmx/vmx.c and `kvm_vcpu_kick` of virt/kvm/kvm_main.c: without APICv the kick is
/// the host's reschedule interrupt.
fn are_kicks(vm: &JudgedVm<'_>) -> bool {
    let sent = vm.input.ipis(vm.id).all();
    sent.saturating_mul(2) > host_interrupts(vm, HostVectorKind::Reschedule) && !has_apicv(vm)
}

/// Whether a vector is the host's timer's.
fn is_timer(vm: &JudgedVm<'_>, vector: u64) -> bool {
    vm.host.names.host_vector(vector) == Some(HostVectorKind::Timer)
}

/// The interrupt that most expiries of the host's timer end with, if there is one.
fn injected_by_timer(vm: &JudgedVm<'_>) -> Option<(Topic, String, CitedValue)> {
    let (vector, count) = vm.input.injected_after(vm.id, |vector| is_timer(vm, vector))?;
    let name = vm.host.names.guest_vector(&[vm.id], vector.into()).map_or(String::new(), |name| format!(", {name}"));
    let what =
        format!("share of the host's timer interrupts at which KVM injects vector {vector:#x}{name} into the guest");
    Some((
        Topic::Devices,
        what,
        CitedValue::Share(count as f64 / host_interrupts(vm, HostVectorKind::Timer).max(1) as f64),
    ))
}

/// What is said of the host's timer: whose most expiries are, or that those of guests must be among them. A guest's own are those at
/// which one and the same interrupt is injected, where the guest arms a timer and VMX's preemption timer ends none: `apic_timer_fn` and
/// `kvm_inject_apic_timer_irqs` of arch/x86/kvm/lapic.c. With APICv nothing says what was injected: kvm_inj_virq is of `vmx_inject_irq`.
fn whose_timer(vm: &JudgedVm<'_>) -> usize {
    let is_armed = |key: &SubjectKey| {
        source(vm.host, vm.is_qemu(), key.kind, key.key).is_some_and(|row| row.name == TIMERS) && key.write
    };
    let has_other = vm.input.of_reasons(vm.id, &[(CodeList::Vmx, PREEMPTION_TIMER)]).count > 0;
    if has_other || vm.input.of_details(vm.id, is_armed).count == 0 {
        return 0;
    }
    let injected = vm.input.injected_after(vm.id, |vector| is_timer(vm, vector)).map_or(0, |(_, count)| count);
    let is_off = vm.host.switch(PREEMPTION_TIMER_SWITCH.module, PREEMPTION_TIMER_SWITCH.knob.name) == Some(false);
    match injected.saturating_mul(2) > host_interrupts(vm, HostVectorKind::Timer) {
        true => 1,
        false if is_off => 2,
        false => 0,
    }
}

const KICKS: &str = "KVM has a vCPU take an interrupt that a sibling sent, by the host's reschedule interrupt: they are the other half of the \
    guest's IPIs, and go with them (see IPIs)";

const LOGGING: &str = "the guest's memory is logged, as the exits for a full log show (PML_FULL, KVM_EXIT_DIRTY_RING_FULL), and these pages \
    fault for it when they are written first: it ends with the migration, the backup or the display that it is for (`virsh domjobinfo DOMAIN`)";

/// EXIT_REASON_TDCALL of arch/x86/include/uapi/asm/vmx.h; `tdcall_to_vmx_exit_reason` and `handle_tdvmcall` of arch/x86/kvm/vmx/tdx.c.
const TDCALLS: &str = "a TDX guest asks its host for something that has no exit reason of its own: to convert pages (KVM_EXIT_HYPERCALL \
    follows), or for a quote and the like (KVM_EXIT_TDX): `perf record -e kvm:kvm_userspace_exit -e kvm:kvm_exit` shows which";

/// KVM_EXIT_MEMORY_FAULT of Documentation/virt/kvm/api.rst; `kvm_mmu_prepare_memory_fault_exit` of arch/x86/kvm/mmu/mmu.c.
const MEMORY_FAULT: &str = "the guest uses memory as private that is shared, or the other way round, and user space converts it: no \
    tracepoint has the direction (`perf trace -e ioctl` on the VMM shows KVM_SET_MEMORY_ATTRIBUTES)";

/// `trace_kvm_userspace_exit` of include/trace/events/kvm.h prints an error without the reason; -EFAULT comes with
/// KVM_EXIT_MEMORY_FAULT, and without it where KVM gets no page (`kvm_handle_error_pfn` of arch/x86/kvm/mmu/mmu.c).
const UNMAPPABLE: &str = "KVM_RUN failed, as KVM could not map memory that the guest used: the guest uses memory as private that is shared, \
    or the other way round, and user space converts it (KVM_EXIT_MEMORY_FAULT, a reason that text does not print beside the error: \
    perf.data and trace.dat have it), or nothing is mapped where the VMM said that \
    memory is (`perf trace -e ioctl,munmap,madvise` on the VMM)";

/// `KVM_EXIT_INTR` of Documentation/virt/kvm/api.rst, and `immediate_exit` there.
const SIGNALS: &str = "a signal has ended KVM_RUN, or user space had asked it to end: the VMM wants the thread for \
    something else, and the recording does not show for what (`perf record -a -e signal:signal_generate` names who \
    sends signals)";

/// `__kvmppc_vcore_entry` of arch/powerpc/kvm/book3s_hv_interrupts.S puts the host's decrementer into the hypervisor's;
/// `kvmppc_handle_exit_hv` of arch/powerpc/kvm/book3s_hv.c: "the host merely wanted to get our attention".
const HOST_TIMER: &str = "a timer of the host is due, and the hypervisor's decrementer ends the stay in the guest: the guest does not \
    cause these exits";

/// `kvmhv_interrupt_vcore` of arch/powerpc/kvm/book3s_hv_builtin.c, and IPIs of the host.
const TO_LEAVE: &str = "another thread or CPU of the host asks the thread to leave its guest; where that is another thread of the \
    virtual core that had to leave, the rule about ganged exits judges it";

/// The trap is 0 where nothing is left to do: `kvmppc_h_cede` and `secondary_too_late` of
/// arch/powerpc/kvm/book3s_hv_rmhandlers.S, `kvmhv_p9_guest_entry` of arch/powerpc/kvm/book3s_hv.c.
const NOTHING_LEFT: &str = "nothing is left for KVM to handle: the guest has ceded (H_CEDE) and halts; or, on POWER7 and POWER8, \
    the thread was about to enter its guest while another thread of its virtual core was already leaving, and left with it; or, on \
    POWER9 and later, KVM has already answered a hypercall of the interrupt controller";

/// `kvmppc_handle_exit_hv` of arch/powerpc/kvm/book3s_hv.c hands it back as a program interrupt, or to a debugger of the guest.
const ILLEGAL: &str = "the guest runs instructions that the processor does not have, and KVM hands each back to it as \
    an illegal instruction: only the guest can show who runs them";

/// `handle_pml_full` of arch/x86/kvm/vmx/vmx.c: the processor has filled a page with the addresses of pages that the guest wrote.
const PML: &str = "the guest's memory is logged (a migration, a backup, an emulated display), and the processor notes \
    by itself which pages are written (PML): an exit for each 512 of them, where each page would fault otherwise. \
    `virsh domjobinfo DOMAIN`, or `info migrate` in QEMU's monitor, shows whether it is a migration or a backup: then \
    this ends with it";

/// `handle_preemption_timer` of arch/x86/kvm/vmx/vmx.c.
const EXPIRY: &str = "a timer that the guest armed expires while it runs: VMX's preemption timer ends the stay in the \
    guest, which spares an interrupt of the host's; only fewer timers of the guest mean fewer exits (see timer)";

/// `nested_vmx_reflect_vmexit` of arch/x86/kvm/vmx/nested.c hands most of them to L1.
const NESTED_GUESTS: &str = "it is the guest's own guest (L2) that left, and KVM handles such exits or hands them to \
    the guest's hypervisor: `exitscope record` in the guest shows what L2 leaves for, and what would avoid it";

/// `nested_vmx_l1_wants_exit` of arch/x86/kvm/vmx/nested.c, `nested_svm_intercept` of arch/x86/kvm/svm/nested.c: by whether L1 asked for
/// exits at HLT; the tracepoint is fired where an exit is handed to it.
const WHOSE_HALTS: &str = "a nested guest (L2) halts, and the recording does not show who handles it: its hypervisor \
    (L1), which asked for these exits, or the host (L0), where the vCPU halts then; `perf record -e \
    kvm:kvm_nested_vmexit -e kvm:kvm_nested_vmexit_inject -e kvm:kvm_exit -e kvm:kvm_entry` shows it";
const ALSO_OF_L0: &str = "a nested guest (L2) halts, and the host (L0) has the vCPU halt at a part of these exits at \
    least, as their time halted or polled shows; the recording does not show how many it hands to the nested guest's \
    hypervisor (L1): `perf record -e kvm:kvm_nested_vmexit -e kvm:kvm_nested_vmexit_inject -e kvm:kvm_exit -e \
    kvm:kvm_entry` shows it";

const WINDOWS_WITH_APICV: &str = "the processor virtualises the APIC, as other exits of this VM show: `perf record -e \
    kvm:kvm_inj_virq -e kvm:kvm_nested_vmexit -e kvm:kvm_apicv_inhibit_changed -e kvm:kvm_exit` shows what still \
    waits for a window (NMIs, a nested guest, an APIC that is inhibited now and then)";

/// `vcpu_load_eoi_exitmap` of arch/x86/kvm/x86.c, which has Hyper-V's SynIC in it (`synic_update_vector`); `kvm_ioapic_scan_entry` of
/// arch/x86/kvm/ioapic.c, and `kvm_scan_ioapic_routes` for a split irqchip. Direct timers go past the SynIC: `stimer_notify_direct`.
pub(crate) const EOI_INDUCED: &str = "the processor virtualises the APIC, and leaves the guest only for the ends of interrupts of which KVM must \
    hear: level-triggered ones, those of the RTC and the PIT where KVM is the I/O APIC, and those of Hyper-V's SynIC, as of synthetic \
    timers that send messages (hv-stimer-direct avoids these); devices with MSI or MSI-X (virtio, VFIO) have none";

/// Why AVIC did not deliver them, as numbers of `enum avic_ipi_failure_cause` (arch/x86/include/asm/svm.h).
const FALLBACKS: &[KvmActivity] = &[
    KvmActivity::AvicIncompleteIpi(0),
    KvmActivity::AvicIncompleteIpi(1),
    KvmActivity::AvicIncompleteIpi(2),
    KvmActivity::AvicIncompleteIpi(3),
    KvmActivity::AvicIncompleteIpi(4),
    KvmActivity::AvicKick,
];

/// What is said of a VM's IPIs that AVIC does not deliver, by why most were not: `avic_incomplete_ipi_interception` of
/// arch/x86/kvm/svm/avic.c.
fn avic_fallback(vm: &JudgedVm<'_>) -> usize {
    let failures = FALLBACKS.iter().filter(|of| matches!(of, KvmActivity::AvicIncompleteIpi(_)));
    let failures: Vec<(KvmActivity, u64)> = failures.flat_map(|of| vm.input.kvm_activity(vm.id, &[*of])).collect();
    let all: u64 = failures.iter().map(|row| row.1).sum();
    match failures.iter().find(|row| row.1.saturating_mul(2) > all).map(|row| row.0) {
        Some(KvmActivity::AvicIncompleteIpi(1)) => 1,
        Some(KvmActivity::AvicIncompleteIpi(0)) => 2,
        Some(_) => 3,
        None => 0,
    }
}

const INCOMPLETE_IPI: &str = "AVIC delivers IPIs to vCPUs that run; these went to ones that did not, which only KVM can wake, or are \
    of a kind that AVIC leaves to KVM";

/// `avic_kick_target_vcpus` there: the interrupt is in the vCPU's APIC already.
const NOT_RUNNING: &str = "most went to vCPUs that did not run (kvm_avic_incomplete_ipi, id 1): AVIC has put the interrupt into the \
    receiver's APIC, and KVM has to wake it, or to wait until it has a CPU; the wake-up is what costs (see halts)";

const OF_OTHER_KIND: &str = "most are of a kind that AVIC leaves to KVM (kvm_avic_incomplete_ipi, id 0): NMIs, INIT, start-ups, and \
    interrupts of lowest priority or that are level-triggered";

const INVALID_TARGET: &str = "most name a vCPU that AVIC does not find, or a vector that no IPI has \
    (kvm_avic_incomplete_ipi, id 2 to 4): `perf record -e kvm:kvm_avic_incomplete_ipi -e kvm:kvm_exit` has the ICR of \
    each, and the rip of the exits shows whose code sends them (`report --by rip`)";

/// #NM of `arch/x86/include/asm/trapnr.h`.
const NM: u64 = 7;

/// KVM lets guests have XFD, and traps #NM for it, since Linux 5.17.
const TRAPS_XFD: (u32, u32) = (5, 17);

/// `vmx_update_exception_bitmap` of arch/x86/kvm/vmx/vmx.c traps #NM once the guest has written XFD, to keep XFD_ERR;
/// `handle_xfd_event` of arch/x86/kernel/traps.c allocates the thread's state at the first.
const AMX: &str = "a Linux guest has programs that use AMX: each thread's first use of it is a #NM (XFD), by which its kernel gives it room \
    for the tiles, and KVM traps every #NM from then on; it is once for each thread, and there is nothing to set";

const NM_BEFORE: &str = "the guest's #NM exits: Linux before 5.17 trapped #NM for the guest's floating point alone, later \
    kernels for AMX, too; the recording does not show that this host's kernel is 5.17 or later";

/// `kvm_smm_changed` of arch/x86/kvm/x86.c, from Linux 6.2 on smm.c. EDK2: SMM_REQUIRE of OvmfPkg.
const SMM: &str = "the guest's firmware leaves system management mode, which it enters for each access to a UEFI \
    variable that Secure Boot protects (OVMF built with SMM_REQUIRE); the rip of the exits at port 0xb2 shows who \
    asks for that, and only fewer of these requests mean fewer exits";

/// `direct_page_fault` of arch/x86/kvm/mmu/mmu.c maps a page when the guest touches it first, whether or not the VMM has it
/// already; KVM_PRE_FAULT_MEMORY of Linux 6.11 (Documentation/virt/kvm/api.rst) does so before.
static FIRST_TOUCH: Cure = Cure {
    title: "Back the guest's memory with huge pages",
    change: "the guest touches most of these pages for the first time in this recording: back its memory with huge \
        pages, so that one fault maps 2 MiB or 1 GiB, and have them there before the guest needs them; while a guest \
        boots or its program grows, such faults are normal",
    switches: &[],
    settings: &[
        libvirt("memoryBacking", "<hugepages/>"),
        libvirt("memoryBacking", "<allocation mode='immediate'/>"),
        qemu("-object memory-backend-memfd,id=mem,size=…,hugetlb=on,prealloc=on -machine memory-backend=mem"),
        by_hand(
            "or transparent huge pages: `cat /sys/kernel/mm/transparent_hugepage/enabled` on the host; QEMU asks for them by \
                madvise, so that `madvise` is enough",
        ),
    ],
    xen: "",
    helps: CureCondition::Always,
    least: Least::Nothing("from 0 (if the guest touches this memory only once) to all their time"),
    acts: Acts::AtStart,
    risk: "memory that is preallocated is there for this VM alone: it cannot be overcommitted",
    payer: "other users of the host's memory",
};

static EITHER: Cure = Cure {
    title: "Record the faults' addresses",
    change: "the guest accesses memory that is not mapped for it, for the first time or because the host unmapped it \
        meanwhile; without the addresses the recording does not show which",
    switches: &[],
    settings: &[
        by_hand(
            "`perf record -e kvm:kvm_page_fault`, where the kernel has it, shows the addresses: with them, advice \
             tells which it is",
        ),
        by_hand(
            "either way huge pages need fewer faults: <hugepages/> in libvirt's <memoryBacking>, or \
                /sys/kernel/mm/transparent_hugepage/enabled on the host",
        ),
    ],
    risk: "huge pages are taken as a whole: less memory is left to overcommit",
    least: Least::Nothing("from 0 (if the guest touches this memory only once) to all their time"),
    ..FIRST_TOUCH
};

/// `kvm_faultin_pfn` of arch/x86/kvm/mmu/mmu.c: getting the page would have to wait for its being read, from swap, a file, or, by
/// userfaultfd, the source of a migration.
static READ_IN: Cure = Cure {
    title: "Keep the guest's memory in the host's memory",
    change: "most of these pages are not in the host's memory and have to be read in first (kvm_async_pf_not_present): the host has \
        swapped the guest's memory out, or its memory is a file, or still with the source of a postcopy migration",
    settings: &[
        by_hand(
            "swap: `grep VmSwap /proc/PID/status` of the VMM, `vmstat 1` (si, so), and its cgroup's memory.high and memory.max",
        ),
        by_hand("a postcopy migration: `info migrate` in QEMU's monitor, `virsh domjobinfo DOMAIN`; this ends with it"),
        by_hand(
            "against swapping: more memory for the host, or less for its VMs; for this VM <locked/> in libvirt's <memoryBacking>, or \
                -overcommit mem-lock=on",
        ),
    ],
    risk: "memory that is locked is there for this VM alone: the host swaps other memory instead",
    ..TAKEN_AWAY
};

/// [`FIRST_TOUCH`] where a page of 2 MiB can spare no fault.
static ONCE_EACH: Cure = Cure {
    title: "Preallocate the guest's memory",
    change: "the guest touches most of these pages for the first time in this recording, and most of the time goes \
        into faults that are alone in their 2 MiB: the host maps huge pages already, or huge pages would not reduce \
        the number of faults; preallocate the guest's memory",
    settings: &[
        libvirt("memoryBacking", "<allocation mode='immediate'/>"),
        qemu("-object memory-backend-memfd,id=mem,size=…,prealloc=on -machine memory-backend=mem"),
        by_hand(
            "KVM still maps each page at its first touch: only the time to find and clear the memory for it is saved",
        ),
    ],
    ..FIRST_TOUCH
};

/// `kvmppc_book3s_radix_page_fault` of arch/powerpc/kvm/book3s_64_mmu_radix.c has no tracepoint, and hands what is in no memslot to
/// `kvmppc_hv_emulate_mmio`.
static UNTOLD: Cure = Cure {
    title: "Find out which memory or device these accesses are for",
    change: "the guest accesses memory that is not mapped for it, or a device that is emulated there: no event of \
        this kernel shows where",
    settings: &[
        by_hand(
            "whether it is a device: `perf record -e kvm:kvm_userspace_exit` beside the rest has KVM_EXIT_MMIO then, and the device is \
                what to replace",
        ),
        by_hand(
            "if it is memory, huge pages need fewer faults: /sys/kernel/mm/transparent_hugepage/enabled on the host, or hugetlbfs",
        ),
        libvirt("memoryBacking", "<hugepages/>"),
    ],
    least: Least::Nothing("from 0 (if it is a device, or memory that is touched once) to all their time"),
    ..EITHER
};

/// `nx_huge_pages` and `nx_huge_pages_recovery_ratio` of Documentation/admin-guide/kernel-parameters.txt, and
/// hw-vuln/multihit.rst beside it.
static NX_HUGE_PAGES: Cure = Cure {
    title: "Decide whether KVM is to split executable huge pages",
    change: "the guest runs code from pages that may not be executed: KVM maps huge pages so, and splits them where guests run code, \
        against a flaw of Intel's processors (iTLB multihit)",
    switches: &[],
    settings: &[by_hand(
        "/sys/module/kvm/parameters/nx_huge_pages is Y if KVM does so, and \
         /sys/devices/system/cpu/vulnerabilities/itlb_multihit shows whether this processor has the flaw; if all \
         guests are trusted, set it to N; nx_huge_pages_recovery_ratio=0 leaves split pages split",
    )],
    xen: "",
    helps: CureCondition::Always,
    least: Least::Nothing("from 0 (if each page is split only once) to all their time"),
    acts: Acts::AtHost,
    risk: "on a processor with the flaw a guest can stop the host where it is N",
    payer: "whoever shares the host with a guest that is not trusted",
};

/// `kvm_mmu_slot_apply_flags`, `fast_page_fault` of arch/x86/kvm; a page that was only read so far may be the zero page, or
/// KSM's, until it is written.
static DIRTY: Cure = Cure {
    title: "Find out what write-protects the guest's pages",
    change: "the guest writes to pages that it may only read for now: its memory is being logged (a migration, a backup, an emulated \
        display), or is shared until it is written (KSM, the zero page), or holds page tables that KVM follows (those of a nested \
        guest)",
    switches: &[],
    settings: &[
        by_hand(
            "whether it is a migration or a backup: `virsh domjobinfo DOMAIN`, or in QEMU's monitor `info migrate`: then this \
                ends with it",
        ),
        by_hand("whether it is KSM: /sys/kernel/mm/ksm/run and pages_sharing beside it"),
        by_hand("whether it is a display: a VGA or QXL that nobody looks at; virtio-gpu, or none"),
    ],
    xen: "",
    helps: CureCondition::Always,
    least: Least::Nothing("from 0 (if the guest's memory is logged for a purpose) to all their time"),
    acts: Acts::ByLooking,
    risk: "none: it only finds out what causes them",
    payer: NOBODY,
};

/// `kvm_enable_irq_window`; with APICv or AVIC hardware waits for the guest itself.
static WINDOWS: Cure = Cure {
    title: "Switch APIC virtualisation on",
    change: "have the processor virtualise the APIC: without that, an interrupt that the guest cannot take yet waits for an exit at \
        the moment when it can, and so do task priorities",
    switches: APICV,
    settings: &[],
    xen: "apicv is on by default where the processor has it",
    helps: CureCondition::Always,
    least: WITH_HARDWARE,
    acts: Acts::WithModule,
    risk: "KVM inhibits APIC virtualisation for some VMs: kvm_apicv_inhibit_changed shows why",
    payer: NOBODY,
};

/// Intel's: `cpu_has_vmx_shadow_vmcs`, `handle_vmread` of arch/x86/kvm/vmx.
static SHADOW_VMCS: Knob = Knob {
    name: "enable_shadow_vmcs",
    unit: KnobUnit::Count,
    default: 1,
    min: 0,
    max: 1,
    location: KnobLocation::ModuleAtLoad("kvm_intel"),
    machines: KnobMachines::Of("x86"),
    about: "VMX: whether a nested hypervisor reads and writes its VMCS without an exit",
};

/// AMD's: `svm_hardware_setup` of arch/x86/kvm/svm/svm.c.
static VLS: Knob = Knob {
    name: "vls",
    location: KnobLocation::ModuleAtLoad("kvm_amd"),
    about: "SVM: whether a nested hypervisor's VMLOAD and VMSAVE need no exit",
    ..SHADOW_VMCS
};

/// `ept` of kvm_intel, `npt` of kvm_amd: on where the processor has it (`hardware_setup` of arch/x86/kvm/vmx/vmx.c,
/// `svm_hardware_setup` of arch/x86/kvm/svm/svm.c).
static EPT: Knob =
    Knob { name: "ept", about: "VMX: whether the processor translates guests' addresses (EPT)", ..SHADOW_VMCS };
static NPT: Knob = Knob {
    name: "npt",
    location: KnobLocation::ModuleAtLoad("kvm_amd"),
    about: "SVM: whether the processor translates guests' addresses (NPT)",
    ..SHADOW_VMCS
};

/// CR3: `vmx_set_cr0` of arch/x86/kvm/vmx/vmx.c.
const SHADOWS_STILL: &str = "page faults leave the guest, too, where it was given fewer bits of physical addresses than the host has (-cpu \
    …,phys-bits=…, kvm_intel's allow_smaller_maxphyaddr), and writes of CR3 while it has paging off, where kvm_intel's \
    unrestricted_guest is N";

static SHADOWING: Cure = Cure {
    title: "Switch EPT or NPT on",
    change: "have the processor translate the guest's addresses (EPT, NPT): KVM shadows its page tables, and page faults, INVLPG, \
        INVPCID and writes of CR3 are exits",
    switches: &[
        Switch { module: "kvm_intel", knob: &EPT, on: SHADOWS_STILL, off: &[], of_apic: false },
        Switch { module: "kvm_amd", knob: &NPT, on: SHADOWS_STILL, off: &[], of_apic: false },
    ],
    settings: &[by_hand("if the host is a guest itself: its own hypervisor has to offer EPT or NPT to it")],
    xen: "hap=1",
    helps: CureCondition::Always,
    least: WITH_HARDWARE,
    acts: Acts::WithModule,
    risk: "none known on processors that have it",
    payer: NOBODY,
};

const NESTED_STILL: &str =
    "what still leaves are the entries of its guest themselves, and fields that KVM does not shadow";

static NESTED: Cure = Cure {
    title: "Make the nested guest exit less often",
    change: "the guest is a hypervisor itself, and these are its own instructions, some for each exit of its guest: what counts is \
        how often that guest leaves",
    switches: &[
        Switch { module: "kvm_intel", knob: &SHADOW_VMCS, on: NESTED_STILL, off: &[], of_apic: false },
        Switch { module: "kvm_amd", knob: &VLS, on: NESTED_STILL, off: &[], of_apic: false },
    ],
    settings: &[
        by_hand(
            "in the guest: `exitscope record` there shows what its guests leave for; each exit spared there spares several here",
        ),
        by_hand(
            // EVMCS1_UNSUPPORTED_* of arch/x86/kvm/vmx/hyperv.h (evmcs.h), and QEMU's docs/system/i386/hyperv.rst.
            "for Hyper-V as the guest's hypervisor, on Intel: hv-evmcs (with hv-vapic), an enlightened VMCS, which it reads and \
                writes in memory; it takes posted interrupts, APIC virtualisation, PML and the preemption timer from it: measure with \
                and without",
        ),
        by_hand(
            "where nobody needs it (Windows' virtualisation-based security): remove virtualisation from the guest \
             (-cpu …,vmx=off or svm=off)",
        ),
    ],
    xen: "",
    helps: CureCondition::Always,
    least: LESS_OFTEN,
    acts: Acts::WithModule,
    risk: "programs in the guest that need virtualisation fail without it",
    payer: NOBODY,
};

/// `kvm_vcpu_halt` of virt/kvm/kvm_main.c: `kvm_vcpu_check_block` finds the event before anybody blocks; cpuidle's haltpoll
/// looks before it halts (drivers/cpuidle/governors/haltpoll.c).
static PENDING: Cure = Cure {
    title: "Switch guest halt polling on",
    change: "most halts of this guest find an event pending already: it leaves and comes back at once. Guest halt \
        polling looks for events for a while before the guest halts, which avoids such exits",
    settings: &[
        by_hand(
            "in a Linux guest: the cpuidle-haltpoll driver (modprobe cpuidle-haltpoll force=1 where KVM does not hint at \
                dedicated CPUs), guest_halt_poll_ns in /sys/module/haltpoll/parameters",
        ),
        by_hand("what wakes it so soon: `perf record -e 'irq_vectors:*' -g` in the guest"),
    ],
    risk: TAKES_CPUS,
    payer: "who else wants the CPU",
    ..IN_GUEST
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::causes;
    use crate::evidence::input::RecordedHost;
    use crate::setting::AdviceSetting;
    use crate::test_exits::{end, exit, spent, vcpu};
    use crate::{CauseSubject, CauseVerdict};
    use exitscope_analysis::Selection;
    use exitscope_model::VcpuIdentity;
    use exitscope_model::{EventKinds, Exit, ExitCode, Halt, KvmActivityEvent, PortAccessForm, Subject, VcpuWakeup};
    use exitscope_units::{Moment, Nanos, Tid, VcpuId, VmId};

    const US: u64 = 1_000;
    const SECOND: u64 = 1_000_000_000;

    /// Exits for one reason, about something whose value goes round in so many, and as many more about nothing of another.
    struct Made {
        code: ExitCode,
        about: Option<(SubjectKind, bool, u64)>,
        /// How many values there are; zero: it does not say.
        values: u64,
        /// How far those are apart, as a power of two.
        apart: u32,
        per_s: u64,
        beside: Option<ExitCode>,
        activities: &'static [KvmActivity],
        /// Whether KVM hands exits of nested guests to their hypervisor.
        reflects: bool,
    }

    const fn made(code: ExitCode, about: Option<(SubjectKind, bool, u64)>) -> Made {
        Made { code, about, values: 1, apart: 12, per_s: 2_000, beside: None, activities: &[], reflects: false }
    }

    const fn vmx(number: u64) -> ExitCode {
        ExitCode::new(CodeList::Vmx, number)
    }

    const fn svm(number: u64) -> ExitCode {
        ExitCode::new(CodeList::Svm, number)
    }

    /// A vCPU that makes such exits for a second, each of 20 us, and is in its guest for the rest.
    fn judged(arch: &str, made: &Made) -> Judgement {
        let host = RecordedHost {
            arch: arch.into(),
            comms: [(1, "qemu-system-x86".to_string())].into_iter().collect(),
            ..RecordedHost::default()
        };
        let activity = |&activity| KvmActivityEvent { who: vcpu(0), at: Moment::from_nanos(SECOND / 2), activity };
        judged_on(&host, made, made.activities.iter().map(activity))
    }

    /// The same on this host, where KVM does this meanwhile.
    fn judged_on(host: &RecordedHost, made: &Made, activities: impl Iterator<Item = KvmActivityEvent>) -> Judgement {
        let mut input = AdviceInput::new(&Selection::default());
        input.begin(Moment::from_nanos(0));
        let reflects = made.reflects;
        input.note_event_kinds(EventKinds { handlers: true, reflects, ..EventKinds::default() });
        for number in 1..=made.per_s {
            let at = number * (SECOND / made.per_s);
            let detail = made.about.map(|(kind, write, key)| {
                let value = number.checked_rem(made.values).map_or(0, |page| (1 + page) << made.apart);
                Subject { kind, write, form: PortAccessForm::Unknown, size: 0, key, value }
            });
            let parts = spent(TimePart::Kernel, 20 * US);
            let guest = Nanos(SECOND / made.per_s - 20 * US);
            input.absorb(&Exit { subject: detail, parts, guest, ..exit(vcpu(0), at, made.code) });
            if let Some(code) = made.beside {
                input.absorb(&Exit { parts: spent(TimePart::Kernel, US), ..exit(vcpu(0), at + 30 * US, code) });
            }
        }
        activities.for_each(|of| input.absorb_kvm_activity(&of));
        end(&mut input, &[vcpu(0)], SECOND);
        let mut judgement = Judgement::default();
        crate::rules::device_rules::judge(&input, host, &|_, _| Vec::new(), &mut judgement);
        judgement.rank();
        causes::list(&input, &input, host, &mut judgement);
        judgement
    }

    /// Causes whose answer is a change: what the advice says, one of its settings, and what its facts say of the exits.
    #[test]
    fn each_cause_gets_its_advice_and_as_many_exits_that_take_no_time_get_none() {
        use SubjectKind as D;
        let ept = |key| Some((D::EptViolation, false, key));
        let npf = |key| Some((D::PageFault, false, key));
        let vector = |vector| made(vmx(1), Some((D::HostVector, false, vector)));
        let cases = [
            (Made { values: 5_000, ..made(vmx(48), ept(0x182)) }, "for the first time", "<hugepages/>", "0x182, write"),
            (
                Made { values: 5_000, apart: 21, ..made(vmx(48), ept(0x182)) },
                "alone in their 2 MiB",
                "immediate",
                "hold the 2000 pages with first",
            ),
            (
                Made { values: 5_000, apart: 21, ..made(vmx(48), ept(0x181)) },
                "alone in their",
                "prealloc=on",
                "alone in their region of 2 MiB",
            ),
            (
                Made { values: 5_000, apart: 33, ..made(vmx(48), ept(0x181)) },
                "alone in their",
                "prealloc=on",
                "in memory above 4 GiB",
            ),
            (made(vmx(48), ept(0x19c)), "may not be executed", "nx_huge_pages", "fetch, not allowed"),
            (
                Made { values: 400, ..made(vmx(48), ept(0x181)) },
                "unmapped them meanwhile",
                "numa_balancing",
                "0x181, read",
            ),
            // Nobody says where.
            (
                Made { values: 0, ..made(svm(0x400), npf(0x1_0000_0014)) },
                "does not show which",
                "kvm_page_fault",
                "fetch, not",
            ),
            (made(vmx(48), ept(0x192)), "may only read for now", "domjobinfo", "0x192, write, not allowed"),
            (Made { values: 5_000, ..made(svm(0x400), npf(0x1_0000_0014)) }, "first time", "hugetlb=on", "fetch, not"),
            (made(svm(0x400), npf(0x1_0000_0007)), "may only read", "pages_sharing", "write, not allowed"),
            (vector(0xec), "the host's own timer", "nohz_full", "with vector 0xec, LOCAL_TIMER, of recent Linux"),
            // It is the host's, whoever runs meanwhile.
            (Made { code: vmx(1).of_nested(), ..vector(0xec) }, "own timer", "apic_timer_fn", "with vector 0xec"),
            (vector(0xfd), "asks these to reschedule", "kvm_vcpu_kick", "with vector 0xfd, RESCHEDULE"),
            (vector(0xfb), "call a function", "membarrier", "with vector 0xfb, CALL_FUNCTION_SINGLE"),
            (vector(0xf2), "notifications of posted interrupts", "kvm_apicv_inhibit_changed", "0xf2, POSTED_INTR"),
            (vector(0xf1), "wake vCPUs that halted", "<vcpupin>", "0xf1, POSTED_INTR_WAKEUP"),
            (vector(0x31), "devices of the host", "managed_irq", "with vector 0x31"),
            (vector(0xf6), "keep interrupts", "/proc/interrupts", "with vector 0xf6, IRQ_WORK"),
            (made(svm(0x60), None), "keep interrupts", "nohz_full", "exits a second for interrupts of the host"),
            (made(vmx(7), None), "virtualise the APIC", "enable_apicv", "interrupt windows"),
            (made(svm(0x64), None), "virtualise the APIC", "avic", "interrupt windows"),
            (made(vmx(43), None), "virtualise the APIC", "enable_apicv", "interrupt windows"),
            (made(vmx(14), None), "KVM shadows its page tables", "ept", "page tables that KVM shadows"),
            (made(vmx(58), None), "KVM shadows its page tables", "ept", "page tables that KVM shadows"),
            (made(svm(0xa2), None), "KVM shadows its page tables", "npt", "page tables that KVM shadows"),
            (made(vmx(0), Some((D::Exception, false, 14))), "KVM shadows", "phys-bits", ": 0xe"),
            (made(vmx(28), Some((D::ControlRegister, true, 3))), "KVM shadows", "ept", ": 0x3"),
            (
                made(vmx(28), Some((D::ControlRegister, true, 8))),
                "virtualise the APIC",
                "enable_apicv",
                "interrupt windows",
            ),
            (made(vmx(10), None), "use CPUID less", "LFENCE", "CPUID, its leaf not recorded"),
            (made(svm(0x6f), None), "performance counters less often", "rdpmc", "reads of performance counters"),
            (made(svm(0x4e), None), "KVM shadows", "npt", "page tables that KVM shadows"),
            (made(vmx(23), None), "a hypervisor itself", "enable_shadow_vmcs", "nested hypervisor"),
            (made(vmx(24), None), "a hypervisor itself", "hv-evmcs", "nested hypervisor"),
            (made(svm(0x80), None), "a hypervisor itself", "vls", "nested hypervisor"),
            // Registers of the APIC: with APICv by APIC_WRITE, without by APIC_ACCESS.
            (made(vmx(56), Some((D::Apic, true, 0x380))), "arm its timer less often", "hrtimer", "timer (APIC_TMICT)"),
            (made(vmx(56), Some((D::Apic, true, 0x300))), "between vCPUs", "enable_ipiv", "IPIs (APIC_ICR)"),
            (
                made(vmx(44), Some((D::Apic, true, 0xb0))),
                "virtualise the APIC",
                "enable_apicv",
                "EOI and TPR (APIC_EOI)",
            ),
        ];
        for (made, says, setting, fact) in cases {
            let judgement = judged("x86_64", &made);
            let [advice] = judgement.advice() else { panic!("{:?}: {:#?}", made.code, judgement.advice()) };
            let plan = advice.plan();
            assert!(plan.change.contains(says), "{:?}: {}", made.code, plan.change);
            assert!(format!("{:?}", plan.settings).contains(setting), "{:?}: {:?}", made.code, plan.settings);
            let misspelt: Vec<_> = plan.settings.iter().flat_map(crate::setting_syntax::misspelt).collect();
            assert_eq!(misspelt, Vec::<String>::new());
            let facts: Vec<&str> = judgement.facts().iter().map(|fact| fact.what.as_str()).collect();
            assert!(facts.iter().any(|of| of.contains(fact)), "{:?}: {facts:#?}", made.code);
            // What a recording shows is never that all of it goes away.
            assert_eq!((plan.gain.low, plan.gain.high), (Nanos::ZERO, Nanos(40_000 * US)), "{:?}", made.code);
            assert_eq!(judgement.causes[0].verdict, CauseVerdict::Changed(vec![1]), "{:?}", made.code);

            let healthy = judged("x86_64", &Made { per_s: 40, ..made });
            assert_eq!((healthy.advice().len(), healthy.facts().len()), (0, 0), "{:?}", made.code);
        }
    }

    const NOT_RUN: KvmActivity = KvmActivity::AvicIncompleteIpi(1);

    /// Causes of which nothing can be set, or nobody can say, with the reason.
    #[test]
    fn each_cause_that_nothing_changes_says_why() {
        use SubjectKind as D;
        let call = |kind, number| Some((kind, false, number));
        let inherent = [
            ("x86_64", made(vmx(45), Some((D::EoiVector, false, 0x31))), "level-triggered"),
            ("x86_64", made(svm(0x401), Some((D::IncompleteIpi, false, 0xfd))), "only KVM can wake"),
            (
                "x86_64",
                Made {
                    activities: &[NOT_RUN, NOT_RUN, KvmActivity::AvicIncompleteIpi(0)],
                    ..made(svm(0x401), Some((D::IncompleteIpi, false, 0xfd)))
                },
                "the wake-up is what costs",
            ),
            (
                "x86_64",
                Made { activities: &[KvmActivity::AvicIncompleteIpi(0)], ..made(svm(0x401), None) },
                "of lowest priority or that",
            ),
            ("x86_64", made(svm(0x73), None), "Secure Boot"),
            // AVIC is in force, as its exit shows.
            ("x86_64", made(svm(0x402), Some((D::Apic, true, 0xb0))), "level-triggered"),
            ("x86_64", made(vmx(18), call(D::HypervHypercall, 0x14)), "hv-tlbflush"),
            ("x86_64", made(vmx(18), call(D::HypervHypercall, 0x15)), "hv-ipi"),
            ("x86_64", made(vmx(18), call(D::HypervHypercall, 0x08)), "long wait for a lock"),
            ("x86_64", made(vmx(18), call(D::HypervHypercall, 0x5d)), "VMBus"),
            ("x86_64", made(svm(0x81), call(D::Hypercall, 10)), "kvm-pv-ipi=off"),
            ("x86_64", made(svm(0x81), call(D::Hypercall, 5)), "PV spinlocks"),
            ("x86_64", made(vmx(18), call(D::Hypercall, 11)), "kvm-pv-sched-yield"),
            ("x86_64", made(svm(0x403), call(D::Vmgexit, 0x8000_0010)), "shares pages with the host"),
            ("x86_64", made(svm(0x403), call(D::GhcbMsr, 0x14)), "shares pages with the host"),
            // A write without a size: kvm_fast_mmio.
            ("x86_64", made(vmx(49), Some((D::Mmio, true, 0xfebf_b000))), "by an ioeventfd (kvm_fast_mmio)"),
            ("x86_64", made(vmx(62), None), "notes by itself which pages are written (PML)"),
            ("x86_64", made(vmx(52), None), "only fewer timers of the guest"),
            // A nested guest's exits are its hypervisor's to spare, whatever they are for.
            ("x86_64", made(vmx(32).of_nested(), call(D::Msr, 0x6e0)), "own guest (L2)"),
            ("x86_64", made(vmx(48).of_nested(), call(D::EptViolation, 0x182)), "own guest (L2)"),
            ("x86_64", made(vmx(30).of_nested(), call(D::Port, 0x71)), "own guest (L2)"),
            ("x86_64", made(svm(0x72).of_nested(), None), "own guest (L2)"),
            ("x86_64", Made { reflects: true, ..made(svm(0x78).of_nested(), None) }, "own guest (L2)"),
            ("x86_64", Made { reflects: true, ..made(vmx(12).of_nested(), None) }, "own guest (L2)"),
        ];
        for (arch, made, says) in inherent {
            let judgement = judged(arch, &made);
            assert_eq!(judgement.advice().len(), 0, "{:?}", judgement.advice());
            let verdict = &judgement.causes[0].verdict;
            assert!(
                matches!(verdict, CauseVerdict::Inherent(why) if why.contains(says)),
                "{:?}: {verdict:?}",
                made.code
            );
            assert_eq!(judgement.left_alone.len(), 1, "{:?}", made.code);
        }
        let unjudged = [
            (
                Made { beside: Some(vmx(56)), ..made(vmx(7), None) },
                "kvm_inj_virq",
                CauseSubject::Group("interrupt windows"),
            ),
            (
                made(vmx(12).of_nested(), None),
                "kvm_nested_vmexit_inject",
                CauseSubject::Group("halts of nested guests"),
            ),
            (made(svm(0x78).of_nested(), None), "(L1)", CauseSubject::Group("halts of nested guests")),
            (made(ExitCode::INTR, None), "the VMM wants the thread for", CauseSubject::Group("returns for a signal")),
            (made(vmx(77), None), "no exit reason of its own", CauseSubject::Group("what TDX guests ask for")),
            (
                Made { activities: &[KvmActivity::AvicIncompleteIpi(2)], ..made(svm(0x401), None) },
                "AVIC does not find",
                CauseSubject::Group("IPIs that AVIC does not deliver"),
            ),
            // Nothing says which kernel it is.
            (
                made(vmx(0), Some((SubjectKind::Exception, false, 7))),
                "before 5.17",
                CauseSubject::Group("first uses of AMX"),
            ),
            (
                made(ExitCode::new(CodeList::KvmExit, 39), None),
                "user space converts it",
                CauseSubject::Group("conversions of a confidential guest's memory"),
            ),
        ];
        for (made, says, subject) in unjudged {
            let judgement = judged("x86_64", &made);
            assert_eq!(judgement.advice().len(), 0, "{:?}", made.code);
            let row = judgement.causes.iter().find(|row| row.into == crate::GoesInto::Exits(made.code)).unwrap();
            assert!(matches!(&row.verdict, CauseVerdict::NotJudged(why) if why.contains(says)), "{:?}", row.verdict);
            assert_eq!(row.subject, subject, "{:?}", made.code);
        }
        // The second is an entry of an emulated device, whose access the recording lacks.
        for made in [made(vmx(48), None), made(svm(0x400), Some((D::PageFault, false, 0x1_0000_000f)))] {
            let row = &judged("x86_64", &made).causes[0];
            assert!(
                matches!(&row.verdict, CauseVerdict::NotRecorded(why) if why.contains("does not show their subject; record with")),
                "{row:?}"
            );
        }
    }

    #[test]
    fn what_belongs_to_another_cause_says_so_where_the_recording_shows_it() {
        use SubjectKind as D;
        let said = |judgement: &Judgement, code: ExitCode| {
            let row = judgement.causes.iter().find(|row| row.into == crate::GoesInto::Exits(code)).unwrap();
            match &row.verdict {
                CauseVerdict::Inherent(why) => why.clone(),
                other => format!("{other:?}"),
            }
        };
        // Pages are logged by PML, whose exits are there; without them, it may be something else.
        let written = made(vmx(48), Some((D::EptViolation, false, 0x192)));
        let logged = judged("x86_64", &Made { beside: Some(vmx(62)), ..written });
        assert!(said(&logged, vmx(48)).contains("PML_FULL"), "{:?}", logged.causes);
        assert!(said(&judged("x86_64", &written), vmx(48)).starts_with("Changed"));
        // Hyper-V's EOI leaves whatever virtualises the APIC, unless the guest is told to use that.
        let eoi = judged("x86_64", &made(vmx(32), Some((D::Msr, true, 0x4000_0070))));
        assert!(said(&eoi, vmx(32)).starts_with("Changed"), "{:?}", eoi.causes);
    }

    /// Pages fault again, or for the first time in the recording; the thread that unmaps says who takes them away, and what is off does not.
    #[test]
    fn who_takes_memory_away_is_told_by_the_thread() {
        let info = |settings: &[(&str, &str)]| RecordedHost {
            arch: "x86_64".into(),
            comms: [(1, "qemu-system-x86"), (70, "khugepaged"), (71, "ksmd"), (72, "kswapd1"), (73, "kcompactd0")]
                .map(|(tid, name)| (tid, name.to_string()))
                .into_iter()
                .collect(),
            settings: settings
                .iter()
                .map(|(name, value)| exitscope_model::HostSetting::new("host", name, *value))
                .collect(),
            ..RecordedHost::default()
        };
        let thread = |vm, tid| VcpuIdentity { vm: VmId(vm), vcpu: VcpuId::UNKNOWN, tid: Tid(tid) };
        let (own, vmm) = (vcpu(0), thread(1, 1));
        let kernel = |tid| thread(tid, tid);
        for (settings, unmaps, says, sets, does_not_set) in [
            (&[][..], &[(own, 500)][..], "vCPU threads themselves", "kernel.numa_balancing=0", "khugepaged"),
            (
                &[("numa_balancing", "1")],
                &[(own, 500)],
                "NUMA balancing, writes",
                "kernel.numa_balancing=0",
                "dommemstat",
            ),
            (&[("numa_balancing", "0")], &[(own, 500)], "NUMA balancing is off", "pgsteal", "kernel.numa_balancing=0"),
            (&[("ksm_run", "0")], &[(own, 500)], "vCPU threads themselves", "pgsteal", "ksm/run"),
            (&[("ksm_run", "1")], &[(own, 500)], "vCPU threads themselves", "ksm/run", "khugepaged"),
            (&[], &[(vmm, 500), (own, 9)], "because the VMM unmapped them", "dommemstat", "pgsteal"),
            (&[], &[(kernel(70), 500), (own, 9)], "khugepaged collapses", "pages_collapsed", "numa"),
            (&[], &[(kernel(71), 500)], "have ksmd leave", "mem-merge=off", "numa"),
            (&[], &[(kernel(72), 500)], "kswapd unmaps", "<locked/>", "numa"),
            (&[], &[(kernel(73), 500)], "find out why kcompactd runs", "compaction_proactiveness=0", "numa"),
            // Nobody does most, and too few to explain the faults.
            (&[], &[(own, 300), (kernel(71), 300)], "no thread does most", "kernel.numa_balancing=0", "<hugepages/>"),
            (
                &[("thp_enabled", "always madvise [never]")],
                &[(own, 300), (kernel(71), 300)],
                "no thread does most",
                "ksm/run",
                "pages_collapsed",
            ),
            (&[], &[(own, 9)], "for the first time", "<hugepages/>", "numa"),
        ] {
            let host = info(settings);
            let made = Made { values: 5_000, ..made(vmx(48), Some((SubjectKind::EptViolation, false, 0x182))) };
            let events = unmaps
                .iter()
                .flat_map(|&(who, count)| (0..count).map(move |_| who))
                .map(|who| KvmActivityEvent { who, at: Moment::from_nanos(SECOND / 2), activity: KvmActivity::NARROW });
            let judgement = judged_on(&host, &made, events);
            let [advice] = judgement.advice() else { panic!("{settings:?} {unmaps:?}: {:#?}", judgement.causes) };
            let all = format!("{:?}", advice.plan().settings);
            assert!(advice.plan().change.contains(says), "{unmaps:?}: {}", advice.plan().change);
            assert!(all.contains(sets) && !all.contains(does_not_set), "{settings:?} {unmaps:?}: {all}");
            let misspelt: Vec<_> = advice.plan().settings.iter().flat_map(crate::setting_syntax::misspelt).collect();
            assert_eq!(misspelt, Vec::<String>::new());
        }
    }

    /// One scan of NUMA balancing takes as much away as thousands of pages; where it is off, it is another's.
    #[test]
    fn mappings_that_are_wide_are_those_of_scans_of_numa_balancing() {
        let change = |setting: Option<&str>, activity, count: usize| {
            let settings = setting.map(|value| exitscope_model::HostSetting::new("host", "numa_balancing", value));
            let settings = settings.into_iter().collect();
            let host = RecordedHost { arch: "x86_64".into(), settings, ..RecordedHost::default() };
            let made = Made { values: 5_000, ..made(vmx(48), Some((SubjectKind::EptViolation, false, 0x182))) };
            let of = KvmActivityEvent { who: vcpu(0), at: Moment::from_nanos(SECOND / 2), activity };
            let judgement = judged_on(&host, &made, std::iter::repeat_n(of, count));
            let [advice] = judgement.advice() else { panic!("{:#?}", judgement.causes) };
            advice.plan().change.clone()
        };
        let (wide, narrow) = (KvmActivity::unmapped(256 << 20), KvmActivity::NARROW);
        assert!(change(None, wide, 10).contains("whether NUMA balancing causes"));
        assert!(change(Some("1"), wide, 10).contains("whether NUMA balancing causes"));
        assert!(change(Some("0"), wide, 10).contains("NUMA balancing is off"));
        assert!(
            change(None, KvmActivity::WIDE, 1).contains("for the first time"),
            "4 MiB are not enough for 2,000 faults"
        );
        assert!(change(None, narrow, 10).contains("for the first time"));
        assert!(change(None, narrow, 500).contains("the recording does not tell them apart"));
    }

    /// A vCPU that is interrupted by the host's vector 0xfd, and sends interrupts or does not; its APIC is virtualised or not.
    #[test]
    fn kicks_are_the_other_half_of_ipis() {
        let verdict = |sends: bool, apicv: bool| {
            let info = exitscope_model::TraceInfo {
                arch: "x86_64".into(),
                release: "6.1.0".into(),
                ..exitscope_model::TraceInfo::default()
            };
            let host = RecordedHost { arch: "x86_64".into(), names: info.subject_names(), ..RecordedHost::default() };
            let mut input = AdviceInput::new(&Selection::default());
            input.begin(Moment::from_nanos(0));
            let about = |kind, write, key, value| {
                Some(Subject { kind, write, form: PortAccessForm::Unknown, size: 0, key, value })
            };
            for number in 1..=1_000 {
                let at = number * 1_000 * US;
                let parts = spent(TimePart::Kernel, 20 * US);
                let kick = exit(vcpu(0), at, vmx(1));
                input.absorb(&Exit { subject: about(SubjectKind::HostVector, false, 0xfd, 0), parts, ..kick });
                if sends {
                    let icr = exit(vcpu(1), at + 100 * US, vmx(32));
                    input.absorb(&Exit { subject: about(SubjectKind::Msr, true, 0x830, 0xfb), parts, ..icr });
                }
                if apicv {
                    input.absorb(&Exit { parts, ..exit(vcpu(1), at + 200 * US, vmx(56)) });
                }
            }
            end(&mut input, &[vcpu(0), vcpu(1)], SECOND);
            let mut judgement = Judgement::default();
            crate::rules::device_rules::judge(&input, &host, &|_, _| Vec::new(), &mut judgement);
            judgement.rank();
            causes::list(&input, &input, &host, &mut judgement);
            let row = judgement.causes.iter().find(|row| row.into == crate::GoesInto::Exits(vmx(1)));
            matches!(&row.unwrap().verdict, CauseVerdict::Inherent(why) if why.contains("other half"))
        };
        assert!(verdict(true, false));
        assert!(!verdict(false, false), "nobody sends any");
        assert!(!verdict(true, true), "APICv is in force: they are somebody else's");
    }

    /// A guest that arms its timer and is interrupted by the host's, at which KVM injects an interrupt or does not; beside it VMX's preemption
    /// timer expires, or does not.
    #[test]
    fn a_guests_own_timer_is_told_from_the_hosts_by_what_it_injects() {
        let change = |injected: Option<u32>, arms: bool, beside: bool, in_force: Option<&str>| {
            let settings =
                in_force.map(|value| exitscope_model::HostSetting::new("kvm_intel", "preemption_timer", value));
            let settings = settings.into_iter().collect();
            let host = RecordedHost { arch: "x86_64".into(), settings, ..RecordedHost::default() };
            let mut input = AdviceInput::new(&Selection::default());
            input.begin(Moment::from_nanos(0));
            let about =
                |kind, write, key| Some(Subject { kind, write, form: PortAccessForm::Unknown, size: 0, key, value: 0 });
            for number in 1..=1_000 {
                let at = number * 1_000 * US;
                let parts = spent(TimePart::Kernel, 20 * US);
                let subject = about(SubjectKind::HostVector, false, 0xec);
                // An interrupt of a device's now and then is not the timer's.
                let injected = if number % 10 == 0 { Some(0x31) } else { injected };
                input.absorb(&Exit { subject, parts, injected, ..exit(vcpu(0), at, vmx(1)) });
                if arms {
                    let parts = spent(TimePart::Kernel, US);
                    let subject = about(SubjectKind::Msr, true, 0x6e0);
                    input.absorb(&Exit { subject, parts, ..exit(vcpu(0), at + 100 * US, vmx(32)) });
                }
                if beside {
                    let parts = spent(TimePart::Kernel, US);
                    input.absorb(&Exit { parts, ..exit(vcpu(0), at + 200 * US, vmx(PREEMPTION_TIMER)) });
                }
            }
            end(&mut input, &[vcpu(0)], SECOND);
            let mut judgement = Judgement::default();
            crate::rules::device_rules::judge(&input, &host, &|_, _| Vec::new(), &mut judgement);
            judgement.rank();
            let advice = &judgement.advice()[0];
            (advice.plan().change.clone(), format!("{:?} {:?}", advice.plan().settings, judgement.facts()))
        };
        let (own, settings) = change(Some(0xec), true, false, None);
        assert!(own.contains("the guest's own timer"), "{own}");
        assert!(settings.contains("preemption_timer") && settings.contains("injects vector 0xec"), "{settings}");
        let (own, settings) = change(Some(0xec), true, false, Some("N"));
        assert!(own.contains("own timer") && settings.contains("Knob"), "{settings}");
        let (own, settings) = change(Some(0xec), true, false, Some("Y"));
        assert!(own.contains("own timer") && settings.contains("cpu-pm"), "{settings}");
        for (injected, arms, beside) in [(None, true, false), (Some(0xec), false, false), (Some(0xec), true, true)] {
            let (hosts, settings) = change(injected, arms, beside, None);
            assert!(hosts.contains("its tick"), "{injected:?} {arms} {beside}: {hosts}");
            assert!(!settings.contains("preemption_timer"), "{settings}");
        }
        let (too, settings) = change(None, true, false, Some("N"));
        assert!(too.contains("for the guest's timers too") && settings.contains("apic_timer_fn"), "{too} {settings}");
        let (hosts, _) = change(None, true, true, Some("N"));
        assert!(hosts.contains("its tick"), "it expires, whatever a setting says: {hosts}");
    }

    /// A nested guest that halts within its exits, by the host, and whether the recording has those that its hypervisor handles.
    #[test]
    fn halts_of_nested_guests_within_their_exits_are_the_hosts_at_least_in_part() {
        let verdict = |reflects: bool| {
            let host = RecordedHost { arch: "x86_64".into(), ..RecordedHost::default() };
            let mut input = AdviceInput::new(&Selection::default());
            input.begin(Moment::from_nanos(0));
            input.note_event_kinds(EventKinds { reflects, ..EventKinds::default() });
            for number in 1..=1_000 {
                let parts = spent(TimePart::Kernel, 50 * US).with(TimePart::Halted, Nanos(100 * US));
                input.absorb(&Exit { parts, ..exit(vcpu(0), number * 1_000 * US, vmx(12).of_nested()) });
            }
            end(&mut input, &[vcpu(0)], SECOND);
            let mut judgement = Judgement::default();
            crate::rules::device_rules::judge(&input, &host, &|_, _| Vec::new(), &mut judgement);
            judgement.rank();
            causes::list(&input, &input, &host, &mut judgement);
            judgement.causes[0].verdict.clone()
        };
        let is =
            |verdict: &CauseVerdict, says: &str| matches!(verdict, CauseVerdict::NotJudged(why) if why.contains(says));
        assert!(
            is(&verdict(false), "the host (L0) has the vCPU halt at a part of these exits"),
            "{:?}",
            verdict(false)
        );
        assert!(matches!(verdict(true), CauseVerdict::Inherent(why) if why.contains("own guest (L2)")));
    }

    /// A tick of 5 us at which the CPU goes to another task for 2 ms now and then: without sched_switch all of it looks like cost.
    #[test]
    fn long_interrupts_of_the_host_are_not_judged_where_they_may_be_waits_for_a_cpu() {
        let verdict = |switches: bool, long: u64| {
            let host = RecordedHost { arch: "x86_64".into(), ..RecordedHost::default() };
            let mut input = AdviceInput::new(&Selection::default());
            input.begin(Moment::from_nanos(0));
            input.note_event_kinds(EventKinds { switches, ..EventKinds::default() });
            for number in 1..=200 {
                let parts = spent(TimePart::Kernel, if number % 20 == 0 { long } else { 5 * US });
                let guest = Nanos(2_000 * US);
                input.absorb(&Exit { parts, guest, ..exit(vcpu(0), number * 5_000 * US, vmx(1)) });
            }
            end(&mut input, &[vcpu(0)], SECOND);
            let mut judgement = Judgement::default();
            crate::rules::device_rules::judge(&input, &host, &|_, _| Vec::new(), &mut judgement);
            judgement.rank();
            causes::list(&input, &input, &host, &mut judgement);
            judgement.causes[0].verdict.clone()
        };
        assert!(
            matches!(verdict(false, 2_000 * US), CauseVerdict::NotRecorded(why) if why.contains("waits for a CPU"))
        );
        assert!(matches!(verdict(true, 2_000 * US), CauseVerdict::Changed(_)));
        assert!(matches!(verdict(false, 5 * US), CauseVerdict::Small(_)));
    }

    #[test]
    fn what_kvm_did_meanwhile_is_a_fact_of_the_causes_that_it_explains() {
        let noted = |made: &Made| {
            let judgement = judged("x86_64", made);
            let of = judgement.facts().iter().filter(|fact| fact.what.ends_with(" meanwhile"));
            of.map(|fact| (fact.what.clone(), fact.figure)).collect::<Vec<_>>()
        };
        let activities: &[KvmActivity] =
            &[KvmActivity::NARROW, KvmActivity::PmlFull, KvmActivity::NARROW, KvmActivity::RmpFault];
        let count = |what: &str, count| (what.to_string(), crate::CitedValue::Count(count));
        let again = Made { values: 400, activities, ..made(vmx(48), Some((SubjectKind::EptViolation, false, 0x181))) };
        let unmapped = "memory mappings of the VMM changed (kvm_unmap_hva_range) meanwhile";
        assert_eq!(noted(&again), [count(unmapped, 2)]);
        let logged = Made { activities, ..made(vmx(48), Some((SubjectKind::EptViolation, false, 0x192))) };
        assert_eq!(noted(&logged), [count("buffers of logged pages full (kvm_pml_full) meanwhile", 1)]);
        assert_eq!(noted(&Made { activities, ..made(vmx(7), None) }), []);
    }

    #[test]
    fn pages_that_have_to_be_read_in_are_a_cause_of_their_own_where_most_are() {
        static READ_IN: [KvmActivity; 301] = [KvmActivity::AsyncPageFault; 301];
        let fault = Made { values: 30, per_s: 600, ..made(vmx(48), Some((SubjectKind::EptViolation, false, 0x181))) };
        let change = |activities| {
            let judgement = judged("x86_64", &Made { activities, ..fault });
            judgement.advice().iter().map(|advice| advice.plan().change.clone()).collect::<Vec<_>>()
        };
        let (of_all, of_half) = (change(&READ_IN), change(&READ_IN[1..]));
        assert!(of_all.len() == 1 && of_all[0].contains("read in first"), "{of_all:?}");
        assert!(of_half.len() == 1 && !of_half[0].contains("read in first"), "{of_half:?}");
    }

    #[test]
    fn the_console_of_a_pseries_guest_is_one_and_the_same_number_on_x86_is_not() {
        let of = made(ExitCode::new(CodeList::PpcTrap, 0xc00), Some((SubjectKind::PpcHcall, false, 0x58)));
        let judgement = judged("ppc64le", &of);
        let [advice] = judgement.advice() else { panic!("{:#?}", judgement.causes) };
        assert!(advice.plan().change.starts_with("serial console (H_PUT_TERM_CHAR): print less"));
        assert_eq!(judged("x86_64", &of).advice().len(), 0);
        for (trap, says) in [
            (0x980, "timer of the host"),
            (0xe80, "asks the thread to leave"),
            (0, "was already leaving"),
            (0xe40, "illegal instruction"),
        ] {
            let judgement = judged("ppc64le", &made(ExitCode::new(CodeList::PpcTrap, trap), None));
            let verdict = &judgement.causes[0].verdict;
            assert!(matches!(verdict, CauseVerdict::Inherent(why) if why.contains(says)), "{trap:#x}: {verdict:?}");
        }
        let prod = made(ExitCode::new(CodeList::PpcTrap, 0xc00), Some((SubjectKind::PpcHcall, false, 0xe8)));
        let verdict = &judged("ppc64le", &prod).causes[0].verdict;
        assert!(
            matches!(verdict, CauseVerdict::Inherent(why) if why.contains("fewer waits mean fewer calls")),
            "{verdict:?}"
        );
        let faults = judged("ppc64le", &made(ExitCode::new(CodeList::PpcTrap, 0xe00), None));
        assert!(faults.advice()[0].plan().change.contains("no event of this kernel shows where"), "H_DATA_STORAGE");
    }

    /// A vCPU that halts 2,000 times a second, 20 us each, and blocks at so many of these.
    fn halting(blocked: u64, wakeup: bool, unknown: Option<&str>) -> Judgement {
        halting_by(vmx(12), blocked, wakeup, unknown)
    }

    /// The same by this reason.
    fn halting_by(code: ExitCode, blocked: u64, wakeup: bool, unknown: Option<&str>) -> Judgement {
        halting_where("x86_64", false, code, blocked, wakeup, unknown)
    }

    /// The same of a machine of which the scheduler's events are there.
    fn halting_on(arch: &str, code: ExitCode, blocked: u64, wakeup: bool, unknown: Option<&str>) -> Judgement {
        halting_where(arch, true, code, blocked, wakeup, unknown)
    }

    fn halting_where(
        arch: &str,
        switches: bool,
        code: ExitCode,
        blocked: u64,
        wakeup: bool,
        unknown: Option<&str>,
    ) -> Judgement {
        let host = RecordedHost { arch: arch.into(), ..RecordedHost::default() };
        let mut input = AdviceInput::new(&Selection::default());
        input.begin(Moment::from_nanos(0));
        input.note_event_kinds(EventKinds { switches, ..EventKinds::default() });
        for number in 1..=2_000 {
            let at = number * 500 * US;
            let parts = spent(TimePart::Kernel, 20 * US);
            input.absorb(&Exit { parts, guest: Nanos(480 * US), ..exit(vcpu(0), at, code) });
            if number <= blocked {
                let wakeup =
                    wakeup.then_some(VcpuWakeup { length: Nanos(15 * US), waited: true, valid: true, may_poll: true });
                let begin = Moment::from_nanos(at);
                let end = Moment::from_nanos(at + 15 * US);
                let (asleep, woken, entered) = (Some(begin), None, None);
                let halt = Halt {
                    who: vcpu(0),
                    begin,
                    asleep,
                    woken,
                    vcpu_wakeup: wakeup,
                    change: None,
                    kicked: false,
                    ipi: None,
                    end,
                    entered,
                };
                input.facts.absorb_halt(&halt);
            }
        }
        end(&mut input, &[vcpu(0)], SECOND);
        let mut judgement = Judgement::default();
        crate::rules::device_rules::judge_halts(
            &input,
            &host,
            unknown.map(|why| RuleAnswer::NotJudged(why.to_string())),
            &|_, _| Vec::new(),
            &mut judgement,
        );
        judgement.rank();
        causes::list(&input, &input, &host, &mut judgement);
        judgement
    }

    #[test]
    fn halts_that_find_an_event_pending_are_told_from_those_that_block() {
        // Nothing says whether CPUs are free.
        assert!(
            matches!(&halting(700, true, None).causes[0].verdict, CauseVerdict::NotJudged(why) if why.contains("sched_switch"))
        );
        let pending = halting_on("x86_64", vmx(12), 700, true, None);
        let [advice] = pending.advice() else { panic!("{:#?}", pending.causes) };
        assert!(advice.plan().change.contains("find an event pending already"));
        assert!(matches!(&advice.plan().settings[0], AdviceSetting::ByHand(text) if text.contains("cpuidle-haltpoll")));
        let share = pending.facts().iter().find(|fact| fact.what.contains("blocked nobody")).unwrap();
        assert_eq!(share.figure, crate::CitedValue::Share(0.65));
        assert_eq!(pending.causes[0].verdict, CauseVerdict::Changed(vec![1]));

        let blocked = halting(1_300, true, None);
        assert_eq!(blocked.advice().len(), 0, "{:#?}", blocked.advice());
        // Without kvm_vcpu_wakeup nothing says which found one; on arm64 a WFE is such an exit, too.
        assert_eq!(halting(0, false, None).advice().len(), 0);
        assert_eq!(halting_on("aarch64", ExitCode::new(CodeList::Arm64Ec, 1), 700, true, None).advice().len(), 0);
        // Where user space halts, it is not for want of events that nothing is judged.
        let outside = halting_by(ExitCode::new(CodeList::KvmExit, 5), 0, false, Some("nobody says what it was"));
        let verdict = &outside.causes[0].verdict;
        assert!(
            matches!(verdict, CauseVerdict::NotJudged(why) if why.contains("their local APIC is in user space")),
            "{verdict:?}"
        );
        let unknown = halting(1_300, true, Some("nobody says what it was"));
        let verdict = &unknown.causes[0].verdict;
        assert!(matches!(verdict, CauseVerdict::NotJudged(why) if why == "nobody says what it was"));
    }
}
