//! What inhibits APICv and AVIC, and exits for the local APIC, as plain data.

use exitscope_analysis::{ApicExitKind, ApicExits, ApicvState, Facts, InhibitStats, VmApicv};
use exitscope_model::{TraceInfo, WhoRow, apicv_inhibit_words, apicv_inhibits};
use exitscope_units::VmId;
use schemars::JsonSchema;
use serde::Serialize;

/// For how long KVM kept the processor from virtualising VMs' APICs (APICv of VMX, AVIC of SVM), why, and which exits for the
/// local APIC there were meanwhile. KVM traces changes: before a VM's first, what was in force is known only as far as that one
/// tells.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct InterruptRows {
    /// The VMs with such events or exits.
    pub vms: Vec<VmApicvRow>,
    /// Exits for MSRs that the recording does not name: some may be the APIC's.
    pub unnamed_msrs: u64,
}

/// One VM.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct VmApicvRow {
    /// The VM's process id; absent if the trace does not say.
    pub vm: Option<u32>,
    /// The VM's name, or its process's; absent if the recording has none.
    pub vm_name: Option<String>,
    /// VMs of which these events and exits are, at least: where they are of several, which one is inhibited is not known, and all
    /// that rests on it is left out.
    pub of_vms: usize,
    /// Events of `kvm_apicv_inhibit_changed`, also those that change nothing.
    pub events: u64,
    /// Time in which a reason was in force, of that in which the VM was seen.
    pub inhibited_ns: u64,
    /// Time in which no reason was in force, of that in which the VM was seen.
    pub allowed_ns: u64,
    /// Time of which that is not known: before the first event.
    pub unknown_ns: u64,
    /// The reasons, longest in force first.
    pub inhibits: Vec<InhibitRow>,
    /// Exits for the local APIC, by what they are for.
    pub exits: Vec<ApicExitRow>,
}

/// One reason.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct InhibitRow {
    /// The reason's number in the kernel's `enum kvm_apicv_inhibit` (arch/x86/include/asm/kvm_host.h) of the recorded kernel.
    pub number: u8,
    /// The kernel's name, without `APICV_INHIBIT_REASON_`; null if kernels disagree and the trace does not say which it is of.
    pub name: Option<&'static str>,
    /// What it is, for a person.
    pub reason: String,
    /// Whether kernels disagree on the number, and the trace does not settle it.
    #[serde(skip)]
    pub is_ambiguous: bool,
    /// Whether it concerns AVIC alone; null with `name`.
    pub avic_alone: Option<bool>,
    /// What sets it; null with `name`.
    pub set_by: Option<&'static str>,
    /// What clears it; null with `name`.
    pub cleared_by: Option<&'static str>,
    /// How long it was in force.
    pub in_force_ns: u64,
    /// Whether it was from the beginning on.
    pub from_begin: bool,
    /// Whether it was at the end.
    pub at_end: bool,
    /// How often it was set where it was not known to be in force.
    pub sets: u64,
    /// When it was set first.
    pub first_set_ns: Option<u64>,
    /// The vCPU in whose thread; null if it was in another of the VMM.
    pub first_set_in: Option<WhoRow>,
}

/// Exits of one kind, by whether APICv or AVIC was inhibited when they began.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ApicExitRow {
    /// `eoi`, `task_priority`, `ipi`, `other_register`, `interrupt_window` or `host_interrupt`.
    pub kind: &'static str,
    /// What these exits are for, in words.
    pub what: &'static str,
    /// Exits while APICv or AVIC was inhibited.
    pub inhibited: ApicExitSums,
    /// Exits while it was not inhibited.
    pub allowed: ApicExitSums,
    /// Exits while it is not known whether it was.
    pub unknown: ApicExitSums,
}

/// Exits in one state.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ApicExitSums {
    /// Number of exits in this state.
    pub count: u64,
    /// What they cost; null if there are some and of none both ends were seen.
    pub cost_ns: Option<u64>,
    /// Exits per second of the state's time; null if there was none.
    pub rate_per_s: Option<f64>,
}

impl ApicExitSums {
    fn of(exits: ApicExits, nanos: u64) -> ApicExitSums {
        ApicExitSums {
            count: exits.count,
            cost_ns: (exits.timed > 0 || exits.count == 0).then_some(exits.cost),
            rate_per_s: (nanos > 0).then(|| exits.count as f64 * 1e9 / nanos as f64),
        }
    }
}

impl InhibitRow {
    fn of(number: u8, stats: &InhibitStats, info: &TraceInfo) -> InhibitRow {
        let meant = apicv_inhibits(number, &info.release);
        let one = if let [one] = meant.as_slice() { Some(*one) } else { None };
        let who = stats.first_set.map(|(_, who)| WhoRow::of(who, info)).filter(|who| who.vcpu.is_some());
        InhibitRow {
            number,
            name: one.map(|of| of.name),
            reason: apicv_inhibit_words(number, &info.release),
            is_ambiguous: meant.len() > 1,
            avic_alone: one.map(|of| of.avic_alone),
            set_by: one.map(|of| of.set_by),
            cleared_by: one.map(|of| of.cleared_by),
            in_force_ns: stats.in_force,
            from_begin: stats.from_begin,
            at_end: stats.at_end,
            sets: stats.sets,
            first_set_ns: stats.first_set.map(|(at, _)| at.as_nanos()),
            first_set_in: who,
        }
    }
}

impl VmApicvRow {
    fn of(vm: VmId, of: &VmApicv, of_vms: usize, info: &TraceInfo) -> VmApicvRow {
        let of_one = of_vms < 2;
        let time = |state| if of_one { of.time(state) } else { 0 };
        let row = |kind: ApicExitKind| {
            let sums = |state| ApicExitSums::of(of.exits(kind, state), of.time(state));
            let states = [ApicvState::Inhibited, ApicvState::Allowed, ApicvState::Unknown];
            let [inhibited, allowed, unknown] = states.map(sums);
            ApicExitRow { kind: kind.id(), what: kind.what(), inhibited, allowed, unknown }
        };
        let exits = ApicExitKind::ALL.into_iter().map(row).filter(|row| row.count() > 0 && of_one).collect();
        let stats = of.reasons.iter().filter(|_| of_one);
        let mut inhibits: Vec<InhibitRow> = stats.map(|(number, stats)| InhibitRow::of(*number, stats, info)).collect();
        inhibits.sort_by_key(|row| (std::cmp::Reverse(row.in_force_ns), row.number));
        VmApicvRow {
            vm: vm.number(),
            vm_name: info.vm_name(vm),
            of_vms,
            events: of.events,
            inhibited_ns: time(ApicvState::Inhibited),
            allowed_ns: time(ApicvState::Allowed),
            unknown_ns: time(ApicvState::Unknown),
            inhibits,
            exits,
        }
    }
}

impl ApicExitRow {
    /// All of them.
    pub fn count(&self) -> u64 {
        self.inhibited.count + self.allowed.count + self.unknown.count
    }
}

impl InterruptRows {
    /// Those of these facts, if there are any.
    pub fn of(facts: &Facts, info: &TraceInfo) -> Option<InterruptRows> {
        let of = &facts.interrupts;
        let row = |(vm, of): (&VmId, &VmApicv)| VmApicvRow::of(*vm, of, facts.vms_within(*vm), info);
        let vms: Vec<VmApicvRow> =
            of.vms.iter().map(row).filter(|row| row.events > 0 || !row.exits.is_empty()).collect();
        (!vms.is_empty()).then_some(InterruptRows { vms, unnamed_msrs: of.unnamed_msrs })
    }
}
