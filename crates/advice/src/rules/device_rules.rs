//! Rules about what guests ask for: devices behind ports and addresses, doorbells, MSRs, CPUID.
//!
//! A source is judged by the time that its exits cost, however few they are: of a busy VM, measured against the time of its
//! vCPUs; of an idle one, against one CPU, since it should need none.

use super::not_judged::{Gap, Lacks};
use super::simulated_gain::{InKernelPath, Simulate, how_simulated, spared};
use super::{polling, reasons};
use crate::cause::{CauseSubject, Covered, CureLookup, RuleAnswer};
use crate::cures::cure::{Acts, Cure, CureCondition, Least, Remedy, Switch};
use crate::cures::device_cures::{
    APIC_PAGE, HPET_PAGE, HPET_TIMER, LOCAL_APIC_BY_AVIC, LOCAL_APIC_ON_SVM, LOCAL_APIC_OUTSIDE, NO_SERIAL_PORT,
    SERIAL_PORT, SERIAL_STATUS,
};
use crate::cures::msr_cures::{
    EOIS, IPI_TO_HALTED, IPI_TO_HALTED_ALONE, IPI_TO_ITSELF, IPIS, OF_AVIC, OF_HV_APICV, TIMERS, TSC, TSC_WRITES,
};
use crate::cures::passed_msrs::{MsrEvidence, PassedMsr, TSC_READS};
use crate::cures::table::source;
use crate::cures::vmm_settings::{for_vmm, in_force, is_qemus};
use crate::evidence::input::{AdviceInput, RecordedHost, VmTime, Vmm};
use crate::evidence::subject_stats::{AddressSpread, SubjectStats};
use crate::evidence::usual_cost::{sure_cost, usual_cost};
use crate::judgement::{
    AdviceDraft, AdviceId, CitedValue, Gain, GainMethod, GainOf, Judgement, MIN_COST_SHARE, Rule, Topic, share,
};
use crate::setting::{SettingCondition, SettingSide};
use crate::{AdviceSetting, CitedFactId};
use exitscope_analysis::record_commands::Missed;
use exitscope_analysis::{ExitStats, SubjectKey, Tally, is_part};
use exitscope_model::host_memory::{KSM_RUN, NUMA_BALANCING, THP_ENABLED};
use exitscope_model::version;
use exitscope_model::{APICV_HYPERV, CodeList, KvmActivity, SubjectKind, SubjectName, TimePart};
use exitscope_units::VmId;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// What the table of devices and registers has for the subject.
pub(crate) const CURE: Rule = Rule::new("cure");

/// Exits at least: chance decides about fewer.
pub(crate) const FEWEST: u64 = 30;

/// Sleeping outside is told if it is one part in so many of the way there and back.
const MIN_ASLEEP_SHARE: u64 = 10;

/// An idle VM is halted for at least so many hundredths of its time.
const IDLE_PERCENT: u64 = 80;

/// What an idle VM is troubled by takes at least one part in so many of what it uses.
const OF_IDLE_USE: u64 = 5;

/// Answers of some causes that what else the recording shows chooses instead of the table's.
const WITH_APICV: Remedy = Remedy::Leave(reasons::EOI_INDUCED);
const OUTSIDE: Remedy = Remedy::Cure(&LOCAL_APIC_OUTSIDE);
const TO_ITSELF: Remedy = Remedy::Cure(&IPI_TO_ITSELF);
const TO_HALTED: Remedy = Remedy::Cure(&IPI_TO_HALTED);
const TO_HALTED_ALONE: Remedy = Remedy::Cure(&IPI_TO_HALTED_ALONE);

const ON_SVM: Remedy = Remedy::Cure(&LOCAL_APIC_ON_SVM);
const BY_AVIC: Remedy = Remedy::Cure(&LOCAL_APIC_BY_AVIC);
const TIMERS_ALONE: Remedy = Remedy::Unjudged(HPET_TIMER);
const STATUS_ALONE: Remedy = Remedy::Cure(&SERIAL_STATUS);
const NO_PORT: Remedy = Remedy::Cure(&NO_SERIAL_PORT);

/// Why nothing is to be set where the kernel takes the writes already: `virtio_queue_host_notifier_aio_poll_begin` of QEMU's
/// hw/virtio/virtio.c; `vhost_disable_notify` of drivers/vhost/vhost.c, which sets VRING_USED_F_NO_NOTIFY, or with event_idx leaves
/// avail_event where the driver has passed it, until `vhost_enable_notify` moves it; event_idx of `DEFINE_VIRTIO_COMMON_FEATURES` in
/// QEMU's include/hw/virtio/virtio.h.
const BY_IOEVENTFD: &str = "a doorbell that the kernel already takes by an ioeventfd (kvm_fast_mmio), as for virtio \
    queues: each notification is one exit that does not go to user space. A driver sends fewer if it uses event_idx, \
    which QEMU offers by default, and none while the device's side works through the queue (an iothread that polls by \
    poll-max-ns, a busy vhost worker)";

/// Of an MSR that is in no table, nobody can say that the guest should ask for it less.
const OTHER_MSR: &str = "exitscope has no rule for this MSR: each access to an MSR that the hypervisor does not let \
    through is an exit, and the rip of the exits shows whose code it is (`report --by rip`)";

/// By the names of the causes.
pub(crate) const OTHERWISE: [(&str, &[Remedy]); 6] = [
    (HPET_PAGE, &[TIMERS_ALONE]),
    (TSC, &[Remedy::Passed(&TSC_READS), Remedy::Unjudged(TSC_WRITES)]),
    (EOIS, &[WITH_APICV]),
    (APIC_PAGE, &[OUTSIDE, ON_SVM, BY_AVIC]),
    (SERIAL_PORT, &[STATUS_ALONE, NO_PORT]),
    (IPIS, &[TO_ITSELF, TO_HALTED, TO_HALTED_ALONE]),
];

/// Exits whose trace should say what they were about: port, MSR, CPUID leaf, hypercall.
pub(crate) const ABOUT: &[(CodeList, u64)] = &[
    (CodeList::Vmx, 10),
    (CodeList::Vmx, 18),
    (CodeList::Vmx, 30),
    (CodeList::Vmx, 31),
    (CodeList::Vmx, 32),
    // RDMSR and WRMSRNS with the MSR's number in the instruction.
    (CodeList::Vmx, 84),
    (CodeList::Vmx, 85),
    (CodeList::Svm, 0x72),
    (CodeList::Svm, 0x7b),
    (CodeList::Svm, 0x7c),
    (CodeList::Svm, 0x81),
    // KVM_EXIT_IO, KVM_EXIT_MMIO, KVM_EXIT_X86_RDMSR and KVM_EXIT_X86_WRMSR, where no kvm_exit is.
    (CodeList::KvmExit, 2),
    (CodeList::KvmExit, 6),
    (CodeList::KvmExit, 29),
    (CodeList::KvmExit, 30),
];

/// Exits at which a nested guest is entered: VMLAUNCH, VMRESUME, VMRUN.
const ENTRIES: &[(CodeList, u64)] = &[(CodeList::Vmx, 20), (CodeList::Vmx, 24), (CodeList::Svm, 0x80)];

/// What is not judged of exits by what they are about.
pub(crate) const GAPS: &[Gap] = &[
    Gap {
        what: "which ports, MSRs, CPUID leaves and hypercalls guests use",
        lacks: Lacks::Events(&[Missed::Subjects]),
        missing: |of| {
            let input = of.selected;
            let about: u64 = input.vms.keys().map(|vm| input.of_reasons(*vm, ABOUT).count).sum();
            let said = input.vms.keys().flat_map(|vm| input.subjects_of(*vm)).map(|(_, about)| about.stats.count);
            (about > 2 * said.sum::<u64>())
                .then_some("most of those exits have no kvm_pio, kvm_msr, kvm_cpuid or kvm_hypercall")
        },
    },
    Gap {
        what: "which exits are of a nested guest (L2), and which of the guest itself (L1)",
        lacks: Lacks::Events(&[Missed::Nested]),
        missing: |of| {
            let input = of.selected;
            let enters = input.vms.keys().any(|vm| input.of_reasons(*vm, ENTRIES).count > 0);
            let mut causes = input.vms.keys().flat_map(|vm| input.causes(*vm));
            (enters && !causes.any(|(cause, _)| cause.code.nested)).then_some("the recording has no kvm_nested_vmexit")
        },
    },
    Gap {
        what: "who handles the halts of nested guests (L2): the host (L0), or their hypervisor (L1)",
        lacks: Lacks::Events(&[Missed::Reflected]),
        missing: |of| {
            let mut causes = of.selected.vms.keys().flat_map(|vm| of.selected.causes(*vm));
            let halts = causes.any(|(cause, _)| reasons::is_halt_of_nested(cause));
            (halts && !reasons::tells_who_halts(of.selected, of.host))
                .then_some("the recording has no kvm_nested_vmexit_inject")
        },
    },
    Gap {
        what: "which exits go on to user space",
        lacks: Lacks::Events(&[Missed::UserExits]),
        missing: |of| {
            let is_unsaid = !of.selected.facts.event_kinds.handlers && !of.host.arch.starts_with("ppc");
            is_unsaid.then_some(if of.host.xen { NO_RUN_STATES } else { "the recording has no kvm_userspace_exit" })
        },
    },
];

/// What a recording of Xen lacks.
pub(crate) const NO_RUN_STATES: &str = "the recording has no run states";

/// A VM's exits about one thing.
#[derive(Default)]
pub(crate) struct VmSubjectExits {
    pub all: SubjectStats,
    pub writes: SubjectStats,
    /// The most costly.
    top: Option<(SubjectKey, u64)>,
    /// Ports, registers, … that they are about.
    places: usize,
    answer: Option<Remedy>,
    /// What is noted besides.
    pub more: Vec<(Topic, String, CitedValue)>,
    /// What they cost for sure, if a part of their time may be something else.
    pub for_sure: Option<u64>,
    /// What they cost for sure, if some stay after the change or others come in their place.
    pub sure: u64,
    /// What of that stays, or comes in its place.
    pub stays: u64,
    /// powerpc: what other vCPUs lost because these exits forced them out, while no other virtual core had the CPU.
    pub forces: u64,
}

impl VmSubjectExits {
    /// Without the scheduler's events, long exits may be waits for a CPU: how much of the time is beyond what they usually take.
    pub fn note_long_ones(&mut self, input: &AdviceInput) {
        let cell = &self.all.stats;
        let beyond = cell.cost().0.saturating_sub(usual_cost(cell, input.facts.event_kinds.switches));
        if beyond.saturating_mul(MIN_ASLEEP_SHARE) > cell.cost().0 {
            let what = "share of the time of those exits that is in long exits, which may be waiting for a CPU";
            self.more.push((Topic::Devices, what.to_string(), share(beyond, cell.cost().0)));
        }
    }

    /// What they cost at most, for sure; those that they force out included.
    fn most(&self) -> u64 {
        self.for_sure.unwrap_or(self.all.stats.cost().0).saturating_add(self.forces)
    }

    /// Exits that no port or register tells apart.
    pub fn of(cell: ExitStats, answer: Remedy) -> VmSubjectExits {
        let all = SubjectStats { stats: cell, ..SubjectStats::default() };
        VmSubjectExits { all, answer: Some(answer), ..VmSubjectExits::default() }
    }
}

pub(crate) fn judge(input: &AdviceInput, host: &RecordedHost, simulate: &Simulate<'_>, judgement: &mut Judgement) {
    for vm in JudgedVm::all(input, host, simulate) {
        let mut accounts: BTreeMap<CureLookup, VmSubjectExits> = BTreeMap::new();
        for (key, about) in input.subjects_of(vm.id) {
            let row = source(host, vm.is_qemu(), key.kind, key.key);
            if row.is_none() && !is_judged(key.kind) {
                continue;
            }
            let account = accounts.entry(CureLookup::of(host, vm.is_qemu(), *key)).or_default();
            account.all.merge(about);
            account.places += usize::from(account.top.is_none_or(|top| top.0.key != key.key));
            account.forces += input.facts.gangs.forced_by(|of, _, about| (of, about) == (vm.id, Some(*key))).0;
            if key.write {
                account.writes.merge(about);
            }
            if account.top.is_none_or(|top| top.1 < about.stats.cost().0) {
                account.top = Some((*key, about.stats.cost().0));
            }
            account.answer = row.map(|row| match row.name {
                EOIS if reasons::has_apicv(&vm) => WITH_APICV,
                _ => row.answer,
            });
            if let Some(Remedy::Cure(Cure { least: Least::But(stay, _), .. })) = account.answer {
                let sure = sure_cost(&about.stats);
                account.sure = account.sure.saturating_add(sure);
                account.stays = account.stays.saturating_add(stay(key).saturating_mul(sure));
            }
        }
        for (asked, account) in &mut accounts {
            vm.choose(asked, account);
            // Nothing says what of an exit Xen's scheduler had, or the device model.
            if host.xen && !input.facts.event_kinds.switches {
                account.for_sure = Some(usual_cost(&account.all.stats, false));
            }
            account.note_long_ones(input);
            let covered = Covered::Subject(*asked);
            let said = vm.judge(*asked, account, judgement);
            // Each expiry of a timer is of the same cause as its arming.
            if let (RuleAnswer::Advice(_), CureLookup::Named(TIMERS)) = (&said, asked) {
                judgement.say(Some(vm.id), Covered::Reason(CodeList::Vmx, PREEMPTION_TIMER), said.clone());
            }
            judgement.say(Some(vm.id), covered, said);
        }
        reasons::judge(&vm, judgement);
    }
}

/// Says of each VM's halts what no rule about polls says.
pub(crate) fn judge_halts(
    input: &AdviceInput,
    host: &RecordedHost,
    unknown: Option<RuleAnswer>,
    simulate: &Simulate<'_>,
    judgement: &mut Judgement,
) {
    for vm in JudgedVm::all(input, host, simulate) {
        reasons::halts(&vm, unknown.clone(), judgement);
    }
}

/// VMX's exit at which a guest's timer expires.
pub(crate) const PREEMPTION_TIMER: u64 = 52;

/// Whether what is in no table is judged, too.
fn is_judged(kind: SubjectKind) -> bool {
    matches!(kind, SubjectKind::Port | SubjectKind::Mmio | SubjectKind::Msr | SubjectKind::Cpuid)
}

/// One VM, and what it is judged by.
pub(crate) struct JudgedVm<'a> {
    pub id: VmId,
    pub time: VmTime,
    pub vmm: Vmm,
    pub input: &'a AdviceInput,
    pub host: &'a RecordedHost,
    pub simulate: &'a Simulate<'a>,
}

impl<'a> JudgedVm<'a> {
    /// Each VM of a recording.
    fn all(
        input: &'a AdviceInput,
        host: &'a RecordedHost,
        simulate: &'a Simulate<'a>,
    ) -> impl Iterator<Item = JudgedVm<'a>> {
        let vms = input.vms.iter();
        vms.map(move |(&id, &time)| JudgedVm { id, time, vmm: input.vmm(id, host), input, host, simulate })
    }
}

impl JudgedVm<'_> {
    /// Whether it has nothing to do.
    fn is_idle(&self) -> bool {
        self.time.in_halts.saturating_mul(100) >= self.time.wall.saturating_mul(IDLE_PERCENT).max(1)
    }

    /// What else the recording shows may choose another answer than the table's.
    fn choose(&self, asked: &CureLookup, account: &mut VmSubjectExits) {
        match asked {
            CureLookup::Named(APIC_PAGE) if self.is_beyond_kernel(&account.all.stats) => account.answer = Some(OUTSIDE),
            CureLookup::Named(APIC_PAGE) if !self.input.is_vmx => {
                account.answer = Some(if self.host.xen { ON_SVM } else { BY_AVIC });
            }
            CureLookup::Named(HPET_PAGE) if account.writes.stats.count == account.all.stats.count => {
                account.answer = Some(TIMERS_ALONE);
            }
            CureLookup::Named(SERIAL_PORT) if account.all.unanswered == account.all.stats.count => {
                account.answer = Some(NO_PORT);
            }
            CureLookup::Named(SERIAL_PORT) if !self.uses_serial() => account.answer = Some(STATUS_ALONE),
            CureLookup::Named(IPIS) => self.look_at_targets(account),
            CureLookup::Named(TSC) if account.writes.stats.count.saturating_mul(2) > account.all.stats.count => {
                account.answer = Some(Remedy::Unjudged(TSC_WRITES));
            }
            CureLookup::Other(..)
                if !self.host.xen && account.all.by_ioeventfd.saturating_mul(2) > account.all.stats.count =>
            {
                account.answer = Some(Remedy::Leave(BY_IOEVENTFD));
            }
            CureLookup::Named(TSC) if self.input.is_vmx => account.answer = Some(Remedy::Passed(&TSC_READS)),
            _ => {}
        }
    }

    /// Whether bytes go through a serial port: by its first register, of eight (hw/char/serial.c of QEMU), or unless all that is done
    /// on a PL011's page is to read its flags (UARTFR: offset 0x18, pl011_read in hw/char/pl011.c).
    fn uses_serial(&self) -> bool {
        let is_serial = |key: &SubjectKey| {
            let row = source(self.host, self.is_qemu(), key.kind, key.key);
            row.is_some_and(|row| row.name == SERIAL_PORT)
        };
        let is_data = |key: &SubjectKey, about: &SubjectStats| match key.kind {
            SubjectKind::Mmio => {
                let is_status = |spot: AddressSpread| spot.only && spot.address & 0xfff == 0x18;
                key.write || !about.address_spread.is_some_and(is_status)
            }
            _ => key.key & 7 == 0,
        };
        let subjects = self.input.subjects_of(self.id);
        subjects.iter().any(|(key, about)| about.stats.count > 0 && is_serial(key) && is_data(key, about))
    }

    /// To whom most of its IPIs go decides what spares them.
    fn look_at_targets(&self, account: &mut VmSubjectExits) {
        let ipis = self.input.ipis(self.id);
        let most = |part: u64| !self.host.xen && part.saturating_mul(2) > ipis.all();
        match () {
            _ if most(ipis.itself) => account.answer = Some(TO_ITSELF),
            // Intel's processors leave the receiver's notification to the host, and the sender in its guest.
            _ if most(ipis.halted) && !self.input.is_vmx => {
                let must_not_poll =
                    polling::is_short(self.time.steal, self.time.wanted()) || self.input.is_throttled(self.id);
                account.answer = Some(if must_not_poll { TO_HALTED_ALONE } else { TO_HALTED });
            }
            _ => {}
        }
        for (part, what) in [
            (ipis.halted, "share of the IPIs that went to a vCPU that had halted"),
            (ipis.itself, "share of the IPIs that went to the vCPU that sent them"),
        ] {
            if part > 0 {
                let share = CitedValue::Share(part as f64 / ipis.all() as f64);
                account.more.push((Topic::Devices, what.to_string(), share));
            }
        }
    }

    /// Words for a second of the VM's, where it was there for a part of the recording alone.
    fn while_seen(&self) -> &'static str {
        if self.is_there_for_a_part() { ", while its vCPUs were seen" } else { "" }
    }

    /// Whether it was seen in a part of the recording alone, as one is that is started meanwhile.
    pub(crate) fn is_there_for_a_part(&self) -> bool {
        self.time.span > 0 && is_part(self.time.span, self.input.facts.duration.0)
    }

    fn is_worth_it(&self, account: &VmSubjectExits) -> bool {
        self.is_worth(self.usual(account))
    }

    fn is_worth(&self, cost: u64) -> bool {
        let used = self.time.guest.saturating_add(self.time.cost);
        let hundred_times = cost.saturating_mul(MIN_COST_SHARE);
        let idly = || cost.saturating_mul(OF_IDLE_USE) >= used && hundred_times >= self.input.facts.duration.0;
        hundred_times >= self.time.wall || self.is_idle() && idly()
    }

    pub(crate) fn is_qemu(&self) -> bool {
        self.vmm.is_qemu()
    }

    /// Judges one source; what is to be said of it at the end.
    fn judge(&self, asked: CureLookup, account: &VmSubjectExits, judgement: &mut Judgement) -> RuleAnswer {
        let Some((key, _)) = account.top else { return RuleAnswer::NotJudged(UNTIMED.into()) };
        let place = place(key);
        let mostly = if account.places > 1 { "mostly " } else { "" };
        let given = match self.host.names.of_key(&[self.id], key.kind, key.key) {
            Some(SubjectName::Given(given)) => Some(given),
            _ => None,
        };
        let name = match (asked, given) {
            (CureLookup::Named(name), Some(given)) if name != place => format!("{name} ({mostly}{place}, {given})"),
            (CureLookup::Named(name), None) if name != place => format!("{name} ({mostly}{place})"),
            (_, Some(given)) => format!("{place} ({given})"),
            (_, None) => place,
        };
        self.judge_as(Thing { subject: asked.subject(key), key: Some(key), name: &name }, account, judgement)
    }

    /// The same of exits that are called so.
    pub(crate) fn judge_as(&self, thing: Thing<'_>, account: &VmSubjectExits, judgement: &mut Judgement) -> RuleAnswer {
        let (cell, name) = (&account.all.stats, thing.name);
        if cell.timed == 0 {
            return RuleAnswer::NotJudged(UNTIMED.into());
        }
        let is_msr = thing.key.is_some_and(|key| key.kind == SubjectKind::Msr);
        let is_outside = self.is_beyond_kernel(cell);
        if is_msr && account.all.refused.saturating_mul(2) > cell.count {
            return RuleAnswer::NotJudged(
                "user space answers (KVM_EXIT_X86_RDMSR, KVM_EXIT_X86_WRMSR), as it asked KVM for MSRs that KVM does not know, for \
                 accesses that are invalid, or for those that it filters: `perf record -e kvm:kvm_msr` shows the values, and no rule \
                 looks at them"
                    .into(),
            );
        }
        match account.answer {
            Some(Remedy::Unjudged(why)) => return RuleAnswer::NotJudged(why.into()),
            Some(Remedy::Passed(_)) if self.host.xen => return RuleAnswer::NotJudged(OTHER_MSR.into()),
            Some(Remedy::Passed(msr)) => return RuleAnswer::NotJudged(self.passed(msr, account)),
            _ => {}
        }
        let is_access = thing.key.is_some_and(|key| matches!(key.kind, SubjectKind::Port | SubjectKind::Mmio));
        if self.host.xen
            && !self.input.facts.event_kinds.handlers
            && is_access
            && matches!(account.answer, Some(Remedy::Leave(_)))
        {
            return self.not_recorded(MAY_WAIT_FOR_DEVICE_MODEL, &[Missed::Scheduler]);
        }
        if cell.timed < FEWEST {
            return RuleAnswer::NotJudged(format!("too few exits to judge: {}", cell.timed));
        }
        if !self.is_worth_it(account) {
            return self.little(account);
        }
        let facts = self.note(name, account, judgement);
        let leave = |said: RuleAnswer, judgement: &mut Judgement| {
            if let RuleAnswer::Inherent(why) = &said {
                judgement.accept_cost(facts[0], &facts[1..], format!("{name}: {why}"));
            }
            said
        };
        match (account.answer, thing.key) {
            (Some(Remedy::Leave(why)), _) => leave(RuleAnswer::Inherent(why.into()), judgement),
            (Some(Remedy::Cure(cure)), _) if cure.helps != CureCondition::Always && !is_outside => {
                leave(self.answered_inside(), judgement)
            }
            (Some(Remedy::Cure(cure)), _) => match self.is_made(cure) {
                Some(had) => leave(
                    RuleAnswer::NotJudged(format!(
                        "QEMU's command line already has what would avoid them ({had}), and they occur nevertheless"
                    )),
                    judgement,
                ),
                None => RuleAnswer::Advice(self.cure(cure, thing, account, &facts, judgement)),
            },
            _ if is_msr => RuleAnswer::NotJudged(OTHER_MSR.into()),
            (_, Some(key)) if is_outside => RuleAnswer::Advice(self.unknown(thing, key, account, &facts, judgement)),
            _ => leave(self.answered_inside(), judgement),
        }
    }

    /// What is said of exits that take too little time for an advice, for sure or at most.
    fn little(&self, account: &VmSubjectExits) -> RuleAnswer {
        let cell = &account.all.stats;
        // Where nothing can be set, nothing can be whatever they wait for.
        let is_known = matches!(account.answer, Some(Remedy::Leave(_))) && account.for_sure.is_none();
        if self.is_worth(cell.cost().0) && !is_known {
            return self.not_recorded(if self.host.xen { MAY_WAIT_ON_XEN } else { MAY_WAIT }, &[Missed::Scheduler]);
        }
        match account.answer {
            Some(Remedy::Leave(why)) => RuleAnswer::Inherent(why.into()),
            Some(Remedy::Cure(cure)) if cure.helps == CureCondition::Always || self.is_beyond_kernel(cell) => {
                RuleAnswer::Small(cure.change)
            }
            Some(Remedy::Cure(_)) => self.answered_inside(),
            _ => RuleAnswer::NotJudged("too little time to look for a change".into()),
        }
    }

    /// That the recording lacks this, and how to record it.
    fn not_recorded(&self, why: &str, missed: &[Missed]) -> RuleAnswer {
        RuleAnswer::NotRecorded(format!("{why}; {}", self.host.how(&self.input.facts).clause(missed)))
    }

    /// What explains exits for an MSR that KVM lets guests reach without.
    fn passed(&self, msr: &PassedMsr, account: &VmSubjectExits) -> String {
        let values = account.writes.written.range;
        let has_nested = || self.input.causes(self.id).iter().any(|(cause, _)| cause.code.nested);
        let lists = self.input.causes(self.id).iter().map(|(cause, _)| cause.code.list);
        msr.explained(MsrEvidence {
            list: lists.max_by_key(|list| matches!(list, CodeList::Vmx | CodeList::Svm)).unwrap_or(CodeList::KvmExit),
            kernel: version(&self.host.release),
            // Without values, writes are of zero.
            written: (account.writes.stats.count > 0).then(|| values.unwrap_or_default()),
            // Those of nested guests have codes of their own then.
            no_nested: self.host.how_recorded.was_recorded(Missed::Nested) || has_nested(),
        })
    }

    /// What is said of accesses of which user space and device model answer none, or nothing says that they do.
    fn answered_inside(&self) -> RuleAnswer {
        match self.input.facts.event_kinds.handlers {
            true => RuleAnswer::Inherent(
                "the hypervisor itself already answers it; only the guest can access it less often".into(),
            ),
            false => self.not_recorded(NOT_SAID_WHO, &[Missed::UserExits]),
        }
    }

    /// Notes the facts about a source.
    fn note(&self, name: &str, account: &VmSubjectExits, judgement: &mut Judgement) -> Vec<CitedFactId> {
        let (vm, about) = (Some(self.id), &account.all);
        let cell = &about.stats;
        let mut facts = vec![
            judgement.cite(
                vm,
                Topic::Devices,
                format!("exits a second for {name}{}", self.while_seen()),
                CitedValue::Rate(self.input.rate(Some(self.id), cell.count)),
            ),
            judgement.cite(
                vm,
                Topic::Devices,
                format!("time of those exits, as a share of the vCPUs' time: {name}"),
                share(cell.cost().0, self.time.wall),
            ),
        ];
        if let Some(median) = cell.quantile(5_000) {
            facts.push(judgement.cite(
                vm,
                Topic::Devices,
                format!("median length of an exit for {name}"),
                CitedValue::Time(median),
            ));
        }
        if self.input.facts.event_kinds.handlers {
            let whose = if self.host.xen { "the device model" } else { "user space" };
            facts.push(judgement.cite(
                vm,
                Topic::Devices,
                format!("share of the exits for {name} that {whose} answers"),
                share(cell.user_count, cell.count),
            ));
            if about.trip > 0 {
                let left = if self.host.xen { "beginning to wait for the device model" } else { "leaving the kernel" };
                let what = format!("share of the time of those exits from {left} to the next entry: {name}");
                facts.push(judgement.cite(vm, Topic::Phases, what, share(about.trip, cell.cost().0)));
            }
            if about.asleep.saturating_mul(MIN_ASLEEP_SHARE) > about.trip {
                let what = format!(
                    "share of the time from leaving the kernel to the next entry in which the vCPU's thread sleeps, as while another thread \
                     holds the VMM's lock: {name}"
                );
                facts.push(judgement.cite(vm, Topic::Phases, what, share(about.asleep, about.trip)));
            }
        }
        if about.strings > 0 {
            let what = format!("share of the exits for {name} whose data are in memory (INS, OUTS)");
            facts.push(judgement.cite(vm, Topic::Devices, what, share(about.strings, cell.count)));
        }
        let steal = cell.part(TimePart::Steal).0;
        if steal.saturating_mul(MIN_COST_SHARE) >= self.time.wall {
            let what = format!("steal during those exits (not in their time), as a share of the vCPUs' time: {name}");
            facts.push(judgement.cite(vm, Topic::Timeline, what, share(steal, self.time.wall)));
        }
        if account.forces > 0 {
            let what = format!(
                "time that other vCPUs lost because these exits forced them out, as a share of the vCPUs' time: {name}"
            );
            facts.push(judgement.cite(vm, Topic::Gangs, what, share(account.forces, self.time.wall)));
        }
        for (topic, what, figure) in &account.more {
            facts.push(judgement.cite(vm, *topic, what.clone(), *figure));
        }
        if self.is_idle() {
            facts.extend(self.note_idleness(judgement));
        }
        facts
    }

    /// Notes what it uses although it has nothing to do.
    fn note_idleness(&self, judgement: &mut Judgement) -> [CitedFactId; 2] {
        let vm = Some(self.id);
        let cpus = self.input.busy(vm, self.time.guest.saturating_add(self.time.cost));
        let halted = share(self.time.in_halts, self.time.wall);
        [
            judgement.cite(vm, Topic::Timeline, "share of its time that it is halted", halted),
            judgement.cite(vm, Topic::Timeline, "CPUs that it keeps busy nevertheless", CitedValue::Cpus(cpus)),
        ]
    }

    /// Whether user space or the device model answers, as far as the recording says.
    pub(crate) fn is_beyond_kernel(&self, cell: &ExitStats) -> bool {
        cell.user_count * 2 > cell.count
    }

    pub(crate) fn idle_words(&self) -> &'static str {
        if self.is_idle() { "this VM has nothing to do and keeps the host busy; " } else { "" }
    }

    /// What to do about switches of modules: by the values that were in force, or else how to find them out.
    fn in_force(&self, Switch { module, knob, on, off, of_apic }: &Switch) -> Vec<AdviceSetting> {
        let name = knob.name;
        if let Some(inhibited) = self.inhibited().filter(|_| *of_apic) {
            return inhibited;
        }
        let write = format!("`options {module} {name}=1` in modprobe.d switches it on if the processor can do it");
        let setting = match self.host.switch(module, name) {
            Some(false) => {
                let also =
                    format!("{module}'s {name} is N also if the processor cannot do it: then this changes nothing");
                return vec![
                    AdviceSetting::Knob { side: SettingSide::Host, knob, value: 1 },
                    AdviceSetting::ByHand(also.into()),
                ];
            }
            Some(true) => format!("{module}'s {name} was on, and these exits occur nevertheless: {on}"),
            None => match self.input.kvm_activity(self.id, off).first() {
                Some((activity, _)) => format!(
                    "{module}'s {name} was off when this VM was made, or the processor cannot do it ({} shows that): \
                     {write}",
                    activity.event()
                ),
                None => format!(
                    "the recording does not show whether {module}'s {name} is on: see \
                     /sys/module/{module}/parameters/{name}. If it is N, {write}; if it is Y, {on}"
                ),
            },
        };
        vec![AdviceSetting::ByHand(setting.into())]
    }

    /// What to do where the recording shows that Hyper-V's AutoEOI inhibits the processor's virtual APIC: the module's switches do not
    /// matter then. Other reasons have other numbers from release to release. `enum kvm_apicv_inhibit`, and `synic_update_vector` of
    /// arch/x86/kvm/hyperv.c; hv-apicv of QEMU's docs/system/i386/hyperv.rst.
    fn inhibited(&self) -> Option<Vec<AdviceSetting>> {
        let (activity, _) = *self.input.kvm_activity(self.id, &[KvmActivity::ApicvInhibited(APICV_HYPERV)]).first()?;
        let says = format!(
            "kvm_apicv_inhibit_changed shows for this VM: {}, by its synthetic interrupt controller (hv-synic), and \
             each interrupt between vCPUs then costs an exit at both ends: QEMU's -cpu …,hv-apicv (from 6.2 on) tells \
             Windows to do without AutoEOI",
            activity.what(&self.host.release)
        );
        Some(vec![AdviceSetting::ByHand(says.into())])
    }

    fn cure(
        &self,
        cure: &Cure,
        Thing { subject, key, name }: Thing<'_>,
        account: &VmSubjectExits,
        facts: &[CitedFactId],
        judgement: &mut Judgement,
    ) -> AdviceId {
        let settings = match self.host.xen {
            true => cure.for_xen(),
            false => {
                let switches = cure.switches.iter().filter(|switch| self.has(switch));
                let switches = switches.flat_map(|switch| self.in_force(switch));
                self.of_vmm(switches.chain(cure.settings.iter().cloned()).collect())
            }
        };
        let range = self.gain(cure, key, account);
        let forces =
            if account.forces > 0 { "; these exits force other vCPUs out, which is a part of the gain" } else { "" };
        let change = format!("{}{name}: {}{forces}", self.idle_words(), cure.change);
        let is_inhibited = cure.switches.iter().any(|of| of.of_apic && self.has(of)) && self.inhibited().is_some();
        // Xen takes its part from the domain's configuration, or the guest; so does an option of the VM's in place of a switch.
        let is_of_vm = self.host.xen || is_inhibited;
        let acts = if is_of_vm && cure.acts == Acts::WithModule { Acts::AtStart } else { cure.acts };
        let risk = match cure.risk {
            _ if is_inhibited => OF_HV_APICV,
            // What is said of AVIC is of AMD's processors.
            OF_AVIC if self.input.is_vmx => OF_APICV,
            risk => risk,
        };
        let (rule, title, payer) = (CURE, cure.title.into(), cure.payer);
        self.advise(AdviceText { rule, subject, title, change, risk, payer, acts }, settings, range, facts, judgement)
    }

    /// What a cure wins.
    fn gain(&self, cure: &Cure, key: Option<SubjectKey>, account: &VmSubjectExits) -> GainRange {
        let cell = &account.all.stats;
        let moved_in = |key| self.moved_in(&account.all, key, InKernelPath::Device);
        if let (CureCondition::ByMovingIn, Some(key)) = (cure.helps, key) {
            return moved_in(key);
        }
        let (low, range) = match cure.least {
            Least::All => (sure_cost(cell), MEDIANS),
            Least::But(_, range) => (account.sure.saturating_sub(account.stays), range),
            Least::InKernel(range) => (key.map_or(0, |key| moved_in(key).low), range),
            Least::Nothing(range) => (0, range),
        };
        let (high, range) = match (self.is_idle(), low) {
            (false, _) => (account.most(), range),
            (true, 0) => (self.time.cost, "from 0 to the time of all exits of this idle VM"),
            (true, _) => (
                self.time.cost,
                "from the part of their time that is certain to go, to the time of all exits of this \
                    idle VM",
            ),
        };
        GainRange { headline: self.usual(account), low, high, how: GainMethod::Counted(range) }
    }

    /// What exits usually cost, waits for a CPU left out.
    pub(crate) fn usual_cost(&self, cell: &ExitStats) -> u64 {
        usual_cost(cell, self.input.facts.event_kinds.switches)
    }

    /// The same of an account; those that they force out included.
    fn usual(&self, account: &VmSubjectExits) -> u64 {
        let usual = self.usual_cost(&account.all.stats);
        account.for_sure.unwrap_or(u64::MAX).min(usual).saturating_add(account.forces)
    }

    /// QEMU's options, if they are all that a cure has, and are in force.
    fn is_made(&self, cure: &Cure) -> Option<String> {
        let Vmm::Qemu(options) = &self.vmm else { return None };
        let is_all = !cure.switches.iter().any(|switch| self.has(switch))
            && cure.settings.iter().all(|of| is_qemus(of) || of.parts().1.is_some());
        in_force(options, cure.settings).filter(|_| is_all)
    }

    /// Of settings, those that this VM's VMM can take, as [`for_vmm`].
    pub(crate) fn of_vmm(&self, settings: Vec<AdviceSetting>) -> Vec<AdviceSetting> {
        for_vmm(&self.vmm, settings.into_iter().filter(|setting| self.fits_guest(setting)).collect())
    }

    /// Whether a line is not of another guest than this one, whose interface to its hypervisor shows what it is not: Windows makes no
    /// hypercalls of KVM's, and who uses Hyper-V's registers has no use for kvm-clock.
    fn fits_guest(&self, setting: &AdviceSetting) -> bool {
        let asks = |is: fn(&SubjectKey) -> bool| {
            let about = self.input.subjects_of(self.id).iter();
            about.filter(|(_, about)| about.stats.count > 0).any(|(key, _)| is(key))
        };
        let guest = match setting.parts() {
            (AdviceSetting::ByHand(text), _) if text.starts_with("in a Windows guest") => {
                Some(SettingCondition::WindowsGuest)
            }
            (AdviceSetting::ByHand(text), _) if text.starts_with("in a Linux guest") => {
                Some(SettingCondition::LinuxGuest)
            }
            (_, guest) => guest,
        };
        match guest {
            Some(SettingCondition::WindowsGuest) => !asks(|key| key.kind == SubjectKind::Hypercall),
            Some(SettingCondition::LinuxGuest) => {
                !asks(|key| key.kind == SubjectKind::Msr && (0x4000_0000..0x4000_1000).contains(&key.key))
            }
            Some(SettingCondition::IntelHost) => self.input.is_vmx,
            // Where a recording does not say, they may be on.
            Some(SettingCondition::NumaBalancing) => self.host.in_force(NUMA_BALANCING) != Some("0"),
            Some(SettingCondition::Ksm) => self.host.in_force(KSM_RUN).is_none_or(|run| run == "1"),
            // Kernels before Linux 7.0 have no such parameter.
            Some(SettingCondition::MediatedPmu) => {
                self.host.switch(if self.input.is_vmx { "kvm_intel" } else { "kvm_amd" }, "enable_mediated_pmu")
                    == Some(false)
            }
            Some(SettingCondition::HugePages) => self.host.in_force(THP_ENABLED) != Some("never"),
            Some(SettingCondition::OtherClock | SettingCondition::VirtioConsole) | None => true,
        }
    }

    /// What accesses to `key` cost more than if the kernel served them in this way: by what such accesses take in this
    /// recording, or else by what the simulator says.
    pub(crate) fn moved_in(&self, about: &SubjectStats, key: SubjectKey, way: InKernelPath) -> GainRange {
        let cell = &about.stats;
        let usual = self.usual_cost(cell);
        let then = self.input.facts.accesses.typical().in_kernel(key.kind, key.write);
        if let Some(then) = then.filter(|_| self.input.facts.event_kinds.handlers && !self.host.xen) {
            let then = then.0.saturating_mul(cell.timed);
            let [low, headline, high] = [sure_cost(cell), usual, cell.cost().0].map(|cost| cost.saturating_sub(then));
            let how = GainMethod::Counted(IN_KERNEL);
            return match high {
                // A typical access that is served inside may be another than these.
                0 => GainRange { headline: about.trip.min(usual), low: 0, high: about.trip, how },
                _ => GainRange { headline, low, high, how },
            };
        }
        let of = |nanos: u64, share: f64| (nanos as f64 * share) as u64;
        match spared(self.simulate, key.kind, way) {
            Some((least, most)) => GainRange {
                headline: of(usual, (least + most) / 2.0),
                low: of(sure_cost(cell), least),
                high: of(cell.cost().0, most),
                how: GainMethod::Simulated(how_simulated(way)),
            },
            None => GainRange {
                headline: about.trip.min(usual),
                low: about.trip.min(sure_cost(cell)),
                high: cell.cost().0,
                how: GainMethod::Counted(BEYOND),
            },
        }
    }

    /// Whether a switch is of this machine's processors.
    fn has(&self, switch: &Switch) -> bool {
        (switch.module == "kvm_intel") == self.input.is_vmx
    }

    pub(crate) fn advise(
        &self,
        words: AdviceText,
        settings: Vec<AdviceSetting>,
        GainRange { headline, low, high, how }: GainRange,
        facts: &[CitedFactId],
        judgement: &mut Judgement,
    ) -> AdviceId {
        let (acts, undo) = match words.acts {
            Acts::WithModule => (
                "for the module when it is reloaded, with no VM running; for the VM at its next start",
                "remove the settings, and reload the module or restart the VM",
            ),
            Acts::InGuest => ("at once, in the guest", "change it back in the guest"),
            Acts::AtHost => (
                "at once for what is written on the host; what is on its command line when it is booted",
                "restore the old values, and remove what was added to its command line",
            ),
            Acts::ByLooking => ("once the cause is found and ended", "nothing to undo: by itself it changes nothing"),
            Acts::AtStart => ("at the next VM start", "remove the settings and restart the VM"),
        };
        let gain = Gain {
            of: GainOf::Exits,
            headline: self.input.per_second(Some(self.id), headline.min(high)),
            low: self.input.per_second(Some(self.id), low.min(headline).min(high)),
            high: self.input.per_second(Some(self.id), high),
            may_wait: !self.input.facts.event_kinds.switches,
            how,
        };
        let plan = AdviceDraft {
            rule: words.rule,
            subject: words.subject,
            vm: Some(self.id),
            title: words.title,
            change: words.change,
            settings,
            gain,
            risk: words.risk.into(),
            payer: words.payer.into(),
            undo: undo.into(),
            acts: acts.into(),
        };
        judgement.advise(facts[0], &facts[1..], plan)
    }
}

/// What is won in the whole recording, in nanoseconds.
pub(crate) struct GainRange {
    pub headline: u64,
    pub low: u64,
    pub high: u64,
    pub how: GainMethod,
}

/// Why nothing is said of exits at which another task may have taken the CPU.
const MAY_WAIT: &str = "most of their time is in long exits, which may be waits for a CPU that another task took";

const MAY_WAIT_ON_XEN: &str = "most of their time is in long exits, which may be waits for the device model or for a \
    CPU: the recording has no run states, which would show that";

/// Of accesses on Xen.
const MAY_WAIT_FOR_DEVICE_MODEL: &str =
    "the recording has no run states, which would show how much of it is waiting for the device model or for a CPU";

/// Of exits that may be answered in the kernel or beyond.
const NOT_SAID_WHO: &str = "the recording does not show who answers it";

/// The risk of APIC virtualisation on Intel's processors, where it is on by default.
const OF_APICV: &str = "none known";

/// Why nothing is said of exits without an end.
const UNTIMED: &str = "none of these exits is timed";

/// What ranges go by.
const MEDIANS: &str = "at least their time with no exit counted longer than the median, at most all their time";
const BEYOND: &str = "at least the time outside the kernel and on the way there and back, no exit counted longer than the median; at most all their time";
const IN_KERNEL: &str = "what they take more than accesses that the kernel serves in this recording: at least with no exit \
    counted longer than the median, at most with all their time";

/// What an advice is about, as far as facts and words go.
#[derive(Clone, Copy)]
pub(crate) struct Thing<'a> {
    pub subject: CauseSubject,
    /// The most costly of its ports or registers, if these tell it apart.
    pub key: Option<SubjectKey>,
    pub name: &'a str,
}

/// What an advice is, but for its figures.
pub(crate) struct AdviceText {
    pub rule: Rule,
    pub subject: CauseSubject,
    pub title: Cow<'static, str>,
    pub change: String,
    pub risk: &'static str,
    pub payer: &'static str,
    pub acts: Acts,
}

/// `port 0x608`, `MSR 0x7777`, `MSR_IA32_TSC_DEADLINE`, `MMIO page 0xfed00000`, `CPUID`, `APIC_TMICT`.
fn place(key: SubjectKey) -> String {
    let number = key.key;
    match (key.kind, exitscope_model::codes::detail_name(key.kind, number)) {
        (SubjectKind::Port, _) => format!("port {number:#x}"),
        (SubjectKind::Mmio, _) => format!("MMIO page {number:#x}"),
        (SubjectKind::Cpuid, _) => "CPUID".to_string(),
        (_, Some(name)) => name.to_string(),
        (SubjectKind::Msr, None) => format!("MSR {number:#x}"),
        (kind, None) => format!("{} {number:#x}", kind.name().replace('_', " ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cures::apic_switches::APICV;
    use crate::cures::apic_switches::AVIC_SWITCH;
    use crate::cures::cure::by_hand;
    use crate::test_exits::{end, exit, spent, vcpu};
    use exitscope_analysis::Selection;
    use exitscope_model::QemuOptions;
    use exitscope_model::{
        CodeList, EventKinds, Exit, ExitCode, GivenByVm, GivenNames, Handler, PortAccessForm, Subject, SubjectNames,
        TraceInfo,
    };
    use exitscope_units::{Moment, Nanos};

    const US: u64 = 1_000;
    const SECOND: u64 = 1_000_000_000;

    /// A VM of one vCPU that asks for something so often in a second, each time for so long. The rest of the time it is
    /// in the guest, or, `idle`, halted.
    fn judged(kind: SubjectKind, key: u64, per_s: u64, takes: u64, idle: bool, xen: bool) -> Judgement {
        judged_on(&RecordedHost { arch: "x86_64".into(), xen, ..of_qemu() }, kind, key, per_s, takes, idle)
    }

    /// A host whose VM is QEMU's.
    fn of_qemu() -> RecordedHost {
        RecordedHost { comms: [(1, "qemu-system-x86".to_string())].into_iter().collect(), ..RecordedHost::default() }
    }

    #[test]
    fn lines_for_another_guest_than_this_one_are_left_out() {
        let lines = |beside: Option<(SubjectKind, u64)>| {
            let host = RecordedHost { arch: "x86_64".into(), ..of_qemu() };
            let mut input = AdviceInput::new(&Selection::default());
            input.begin(Moment::from_nanos(0));
            let asks = [Some((SubjectKind::Port, 0x608)), Some((SubjectKind::Msr, 0x6e0)), beside];
            for (kind, key) in (1..=2_000).flat_map(|_| asks).flatten() {
                let form = PortAccessForm::NonString;
                let detail = Some(Subject { kind, write: kind == SubjectKind::Msr, form, size: 4, key, value: 0 });
                let (handler, parts) = match kind {
                    SubjectKind::Port => (Handler::Userspace(2), spent(TimePart::User, 50 * US)),
                    _ => (Handler::Kernel, spent(TimePart::Kernel, 50 * US)),
                };
                input.absorb(&Exit {
                    subject: detail,
                    handler,
                    parts,
                    ..exit(vcpu(0), 0, ExitCode::new(CodeList::Vmx, 30))
                });
            }
            input.note_event_kinds(EventKinds { handlers: true, ..EventKinds::default() });
            end(&mut input, &[vcpu(0)], SECOND);
            let mut judgement = Judgement::default();
            judge(&input, &host, &|_, _| Vec::new(), &mut judgement);
            let all: Vec<String> =
                judgement.advice().iter().map(|advice| format!("{:?}", advice.plan().settings)).collect();
            let all = all.join(" ");
            (all.contains("in a Windows guest"), all.contains("timer name='kvmclock'"))
        };
        assert_eq!(lines(None), (true, true));
        assert_eq!(lines(Some((SubjectKind::Hypercall, 5))), (false, true), "KVM_HC_KICK_CPU");
        assert_eq!(lines(Some((SubjectKind::Msr, 0x4000_0020))), (true, false), "Hyper-V's counter");
    }

    #[test]
    fn what_somebody_said_is_there_stands_beside_the_number() {
        let mut given = GivenNames::default();
        given.ports.name(0x3f8, 0x3ff, "serial ttyS0");
        given.memory.name(0xfebf_b000, 0xfebf_bfff, "virtio-blk vda notify");
        let of_vm = [(vcpu(0).vm, given)].into_iter().collect();
        let given = GivenByVm { all: GivenNames::default(), of_vm }.into();
        let names = SubjectNames::of(&TraceInfo { given, ..TraceInfo::default() });
        let host = RecordedHost { names, ..of_qemu() };
        for (kind, key, says) in [
            (SubjectKind::Port, 0x3f9, "serial port (port 0x3f9, serial ttyS0)"),
            (SubjectKind::Mmio, 0xfebf_b000, "MMIO page 0xfebfb000 (virtio-blk vda notify)"),
            (SubjectKind::Mmio, 0xfebf_a000, "MMIO page 0xfebfa000"),
            (SubjectKind::Port, 0x2f8, "serial port (port 0x2f8)"),
        ] {
            let judgement = judged_on(&host, kind, key, 10_000, 20 * US, false);
            let fact = &judgement.facts()[0].what;
            assert_eq!(*fact, format!("exits a second for {says}"));
        }
    }

    fn judged_on(host: &RecordedHost, kind: SubjectKind, key: u64, per_s: u64, takes: u64, idle: bool) -> Judgement {
        judged_of(host, (kind, key), None, per_s, takes, idle)
    }

    /// Reads, or writes of a value.
    fn judged_of(
        host: &RecordedHost,
        (kind, key): (SubjectKind, u64),
        written: Option<u64>,
        per_s: u64,
        takes: u64,
        idle: bool,
    ) -> Judgement {
        let mut input = AdviceInput::new(&Selection::default());
        input.begin(Moment::from_nanos(0));
        input.note_event_kinds(EventKinds { handlers: true, ..EventKinds::default() });
        let rest = Nanos(SECOND / per_s - takes);
        let (write, value) = (written.is_some(), written.unwrap_or(0));
        let detail = Some(Subject { kind, write, form: PortAccessForm::Unknown, size: 4, key, value });
        for number in 1..=per_s {
            let at = number * (SECOND / per_s);
            let mut about = Exit { subject: detail, ..exit(vcpu(0), at, ExitCode::new(CodeList::Vmx, 32)) };
            match kind {
                SubjectKind::Msr | SubjectKind::Cpuid => about.parts = spent(TimePart::Kernel, takes),
                _ => (about.handler, about.parts) = (Handler::Userspace(2), spent(TimePart::User, takes)),
            }
            if idle {
                input.absorb(&Exit {
                    parts: spent(TimePart::Halted, rest.0),
                    ..exit(vcpu(0), at, ExitCode::new(CodeList::Vmx, 12))
                });
            } else {
                about.guest = rest;
            }
            input.absorb(&about);
        }
        end(&mut input, &[vcpu(0)], SECOND);
        let mut judgement = Judgement::default();
        judge(&input, host, &|_, _| Vec::new(), &mut judgement);
        crate::causes::list(&input, &input, host, &mut judgement);
        judgement
    }

    #[test]
    fn what_is_asked_too_often_is_named_with_what_to_do() {
        for (kind, key, says, setting, is_gone) in [
            (SubjectKind::Msr, 0x6e0, "timer (MSR_IA32_TSC_DEADLINE): let the guest arm", "hrtimer_start", false),
            (SubjectKind::Msr, 0x4000_00b1, "Hyper-V synthetic timers", "powercfg", false),
            (SubjectKind::Msr, 0x4000_0084, "Hyper-V messages' end", "<direct state='on'/>", false),
            (SubjectKind::Msr, 0x4000_0020, "Hyper-V reference counter", "hypervclock", false),
            (SubjectKind::Msr, 0x830, "IPIs (x2APIC_ICR)", "enable_ipiv", false),
            (SubjectKind::Msr, 0x4000_0071, "Hyper-V IPIs", "hv-ipi", false),
            (SubjectKind::Msr, 0x80b, "APIC's EOI and TPR", "enable_apicv", false),
            (SubjectKind::Msr, 0x38f, "performance counters", "nmi_watchdog=0", true),
            (SubjectKind::Cpuid, 4, "CPUID", "RDTSCP", false),
            (SubjectKind::Port, 0x60, "keyboard controller (port 0x60)", "i8042=off", true),
            (SubjectKind::Port, 0x80, "delay port 0x80", "io_delay=none", false),
            (SubjectKind::Port, 0x1f7, "IDE disk", "bus='virtio'", true),
            (SubjectKind::Mmio, 0xb_8000, "VGA", "virtio-gpu", false),
        ] {
            let judgement = judged(kind, key, 2_000, 20 * US, false, false);
            let [advice] = judgement.advice() else { panic!("{key:#x}: {:#?}", judgement.advice()) };
            assert!(advice.plan().change.contains(says), "{key:#x}: {}", advice.plan().change);
            assert!(format!("{:?}", advice.plan().settings).contains(setting), "{:?}", advice.plan().settings);
            assert!(!format!("{:?}", advice.plan().settings).contains("kvm_amd"), "on Intel");
            let misspelt: Vec<_> = advice.plan().settings.iter().flat_map(crate::setting_syntax::misspelt).collect();
            assert_eq!(misspelt, Vec::<String>::new());
            // The least gain is all of it only where nothing is left to ask.
            let (gain, all) = (advice.plan().gain, Nanos(40_000 * US));
            assert_eq!((gain.low, gain.high), (if is_gone { all } else { Nanos::ZERO }, all), "{key:#x}");
        }
    }

    #[test]
    fn switches_of_the_module_are_offered_by_the_value_that_was_in_force() {
        for (told, says, is_offered) in [
            (None, "does not show whether kvm_intel's enable_apicv is on", false),
            (Some("N"), "enable_apicv", true),
            (Some("0"), "enable_apicv", true),
            (Some("Y"), "kvm_intel's enable_apicv was on", false),
            // Linux, arch/x86/kvm/svm/avic.c, avic_want_avic_enabled: -1 leaves it to KVM.
            (Some("-1"), "does not show whether", false),
        ] {
            let settings = told.map(|value| exitscope_model::HostSetting::new("kvm_intel", "enable_apicv", value));
            let host = RecordedHost { arch: "x86_64".into(), settings: settings.into_iter().collect(), ..of_qemu() };
            let judgement = judged_on(&host, SubjectKind::Msr, 0x80b, 2_000, 20 * US, false);
            let settings = &judgement.advice()[0].plan().settings;
            assert!(format!("{settings:?}").contains(says), "{told:?}: {settings:?}");
            let is_knob = |setting: &AdviceSetting| matches!(setting, AdviceSetting::Knob { .. });
            assert_eq!(settings.iter().any(is_knob), is_offered, "{told:?}: {settings:?}");
        }
    }

    /// Only a kernel that has it has the parameter.
    #[test]
    fn a_mediated_pmu_is_offered_only_where_the_kernel_has_it_and_it_is_off() {
        for (module, told, is_offered) in [
            ("kvm_intel", None, false),
            ("kvm_intel", Some("Y"), false),
            ("kvm_intel", Some("N"), true),
            ("kvm_amd", Some("N"), false),
        ] {
            let settings = told.map(|value| exitscope_model::HostSetting::new(module, "enable_mediated_pmu", value));
            let host = RecordedHost { arch: "x86_64".into(), settings: settings.into_iter().collect(), ..of_qemu() };
            for key in [0x186, 0x38f, 0xc1, 0x3f1] {
                let judgement = judged_on(&host, SubjectKind::Msr, key, 2_000, 20 * US, false);
                let settings = format!("{:?}", judgement.advice()[0].plan().settings);
                assert_eq!(settings.contains("enable_mediated_pmu=1"), is_offered, "{module} {told:?}: {settings}");
                assert!(settings.contains("pmu=off"), "{key:#x}: {settings}");
            }
        }
    }

    #[test]
    fn what_is_on_qemus_command_line_is_not_offered_again() {
        let on = |command: &str| {
            let command: Vec<String> = command.split(' ').map(str::to_string).collect();
            let options = QemuOptions::of_command(&command).unwrap_or_default();
            RecordedHost { arch: "x86_64".into(), settings: options.settings(vcpu(0).vm).collect(), ..of_qemu() }
        };
        let (hpet, pm_timer) = (0xfed0_00f0, 0x608);
        // Lines for the VM alone: nothing is left to do.
        for (command, is_offered) in [("kvm -machine hpet=on", true), ("firecracker", true), ("kvm -no-hpet", false)] {
            let judgement = judged_on(&on(command), SubjectKind::Mmio, hpet, 2_000, 20 * US, false);
            assert_eq!(judgement.advice().is_empty(), !is_offered, "{command}: {:?}", judgement.advice());
            let says = format!("{judgement:?}")
                .contains("QEMU's command line already has what would avoid them (-machine hpet=off)");
            assert_eq!(says, !is_offered, "{command}: {judgement:?}");
        }
        // Lines for the guest are left.
        for (command, is_offered) in [("kvm -cpu host", true), ("kvm -cpu host,hv-time", false)] {
            let judgement = judged_on(&on(command), SubjectKind::Port, pm_timer, 2_000, 20 * US, false);
            let settings = &judgement.advice()[0].plan().settings;
            assert_eq!(settings.iter().any(is_qemus), is_offered, "{command}: {settings:?}");
            let says = format!("{settings:?}").contains("already: -cpu kvmclock=on -cpu hv-time=on");
            assert_eq!(says, !is_offered, "{command}: {settings:?}");
        }
    }

    #[test]
    fn what_the_recording_shows_of_a_switch_is_not_asked_for() {
        let host = RecordedHost { arch: "x86_64".into(), ..of_qemu() };
        let mut told = Vec::new();
        with_vm(VmTime::default(), &host, &[], true, |vm| {
            told.extend(APICV.iter().map(|switch| vm.in_force(switch)));
        });
        let texts: Vec<String> = told.iter().map(|settings| format!("{settings:?}")).collect();
        assert!(
            texts.iter().all(|text| text.contains("does not show whether") && text.contains("inhibit")),
            "{texts:?}"
        );
        let mut input = AdviceInput::new(&Selection::default());
        let activity = exitscope_model::KvmActivity::ApicvInhibited(0);
        input.absorb_kvm_activity(&exitscope_model::KvmActivityEvent {
            who: vcpu(0),
            at: Moment::from_nanos(0),
            activity,
        });
        let simulate: &Simulate<'_> = &|_, _| Vec::new();
        let (id, time, vmm) = (vcpu(0).vm, VmTime::default(), Vmm::Qemu(QemuOptions::default()));
        let vm = JudgedVm { id, time, vmm, input: &input, host: &host, simulate };
        let said = format!("{:?}", vm.in_force(&AVIC_SWITCH));
        assert!(
            said.contains("was off when this VM was made, or the processor cannot") && said.contains("avic=1"),
            "{said}"
        );
    }

    #[test]
    fn an_apic_that_user_space_answers_for_is_to_be_kvms() {
        let told = |outside: bool| {
            let host = RecordedHost { arch: "x86_64".into(), ..of_qemu() };
            let mut input = AdviceInput::new(&Selection::default());
            input.begin(Moment::from_nanos(0));
            input.note_event_kinds(EventKinds { handlers: true, ..EventKinds::default() });
            for number in 1..=2_000 {
                let detail = Subject {
                    kind: SubjectKind::Mmio,
                    write: true,
                    form: PortAccessForm::Unknown,
                    size: 4,
                    key: 0xfee0_0380,
                    value: 9,
                };
                let handler = if outside { Handler::Userspace(6) } else { Handler::Kernel };
                let of = exit(vcpu(0), number * 500 * US, ExitCode::new(CodeList::Vmx, 49));
                let parts = spent(TimePart::Kernel, 20 * US);
                input.absorb(&Exit { subject: Some(detail), handler, parts, guest: Nanos(480 * US), ..of });
            }
            end(&mut input, &[vcpu(0)], SECOND);
            let mut judgement = Judgement::default();
            judge(&input, &host, &|_, _| Vec::new(), &mut judgement);
            judgement.advice()[0].plan().clone()
        };
        assert!(told(true).change.contains("let KVM be the local APIC"), "{:?}", told(true));
        assert!(format!("{:?}", told(true).settings).contains("kernel_irqchip=on"));
        assert!(told(false).change.contains("x2APIC"), "{:?}", told(false));
    }

    #[test]
    fn lines_of_qemu_are_for_vms_of_qemu() {
        for (comm, says, has_lines) in [
            (Some("qemu-system-x86"), "-machine hpet=off", true),
            (Some("CPU 0/KVM"), "-machine hpet=off", true),
            (None, "nothing in the recording shows that QEMU runs this VM", true),
            (Some("firecracker"), "called firecracker, so its VMM is not QEMU", false),
        ] {
            let comms = comm.map(|comm| (1, comm.to_string())).into_iter().collect();
            let host = RecordedHost { arch: "x86_64".into(), comms, ..RecordedHost::default() };
            let judgement = judged_on(&host, SubjectKind::Mmio, 0xfed0_0000, 2_000, 20 * US, false);
            let settings = &judgement.advice()[0].plan().settings;
            assert!(format!("{settings:?}").contains(says), "{comm:?}: {settings:?}");
            assert_eq!(settings.iter().any(is_qemus), has_lines, "{comm:?}: {settings:?}");
        }
    }

    #[test]
    fn what_weighs_is_named_with_what_is_said_of_it() {
        let verdict = |kind, key, per_s, takes| {
            let judgement = judged(kind, key, per_s, takes, false, false);
            assert_eq!(judgement.causes.len(), 1, "{key:#x}: {:#?}", judgement.causes);
            judgement.causes[0].verdict.clone()
        };
        use crate::CauseVerdict::{Changed, Inherent, NotJudged, Small};
        // 35 accesses a second, of 1 ms each: their time counts, not their number.
        assert_eq!(verdict(SubjectKind::Port, 0x3f8, 35, 1_000 * US), Changed(vec![1]));
        assert!(matches!(verdict(SubjectKind::Port, 0x3f8, 35, 10 * US), Small(change) if change.contains("console")));
        assert!(matches!(verdict(SubjectKind::Port, 0xcf8, 2_000, 20 * US), Inherent(why) if why.contains("boot")));
        // Linux, arch/x86/kvm/vmx/vmx.c, vmx_set_msr; QEMU, hw/audio/pcspk.c.
        assert!(matches!(verdict(SubjectKind::Msr, 0x48, 2_000, 20 * US), NotJudged(why) if why.contains("nested")));
        assert!(matches!(verdict(SubjectKind::Port, 0x61, 2_000, 20 * US), Inherent(why) if why.contains("channel 2")));
        assert!(matches!(verdict(SubjectKind::Port, 0x3f8, 20, 2_000 * US), NotJudged(why) if why.contains("too few")));
        assert_eq!(verdict(SubjectKind::Hypercall, 1, 2_000, 20 * US), NotJudged(crate::causes::NO_RULE.to_string()));
    }

    #[test]
    fn what_is_asked_seldom_or_cheaply_is_not_worth_a_word() {
        for (kind, key, per_s, takes) in [
            (SubjectKind::Port, 0x71, 20, 600 * US),
            (SubjectKind::Port, 0x71, 2_000, US),
            (SubjectKind::Msr, 0x6e0, 400, 20 * US),
            (SubjectKind::Msr, 0x6e0, 4_000, 2 * US),
        ] {
            let judgement = judged(kind, key, per_s, takes, false, false);
            assert_eq!((judgement.advice().len(), judgement.facts().len()), (0, 0), "{key:#x} {per_s}/s {takes}");
        }
        let boot = judged(SubjectKind::Port, 0xcf8, 2_000, 20 * US, false, false);
        assert_eq!((boot.advice().len(), boot.left_alone.len()), (0, 1));
    }

    /// Of an MSR, what is said of it: never that the guest should do anything else.
    fn said_of(msr: u64, value: Option<u64>) -> String {
        let judgement = judged_of(&of_qemu(), (SubjectKind::Msr, msr), value, 2_000, 20 * US, false);
        assert_eq!(judgement.advice().len(), 0, "{msr:#x}: {:?}", judgement.advice());
        let crate::CauseVerdict::NotJudged(why) = &judgement.causes[0].verdict else {
            panic!("{:?}", judgement.causes)
        };
        why.to_string()
    }

    #[test]
    fn why_an_msr_that_kvm_lets_through_is_asked_for_is_told_by_its_values_as_far_as_they_go() {
        for msr in [0xc000_0100, 0xc000_0101, 0xc000_0102, 0x174] {
            let said = said_of(msr, Some(7));
            assert!(said.contains("without an exit, always") && !said.contains("zero"), "{msr:#x}: {said}");
            assert!(said.contains("a nested guest's") && said.contains("a filter"), "{msr:#x}: {said}");
        }
        // One value, not zero, again and again: it is no write of zero.
        assert!(!said_of(0x48, Some(1)).contains("writes of zero"));
        assert!(said_of(0x48, Some(0)).contains("writes of zero"));
        assert!(said_of(0x7777, Some(1)).contains("exitscope has no rule for this MSR"));
        // Intel's processors leave reads of the TSC to the guest, and nobody sets it to know the time.
        assert!(said_of(0x10, Some(1)).contains("the guest sets its TSC"));
        assert!(said_of(0x10, None).contains("always, to read it"));
    }

    #[test]
    fn an_idle_vm_is_told_so_and_xen_has_its_own_words() {
        const XEN_CLOCK: &str = "in a Linux guest: echo xen (or tsc) > \
            /sys/devices/system/clocksource/clocksource0/current_clocksource; for Windows \
            viridian=[\"defaults\",\"reference_tsc\",\"stimer\"]; then hpet=0 in the domain's xl.cfg";
        let idle = judged(SubjectKind::Mmio, 0xfed0_00f0, 1_000, 15 * US, true, false);
        assert!(idle.advice()[0].plan().change.starts_with("this VM has nothing to do and keeps the host busy; HPET"));
        let busy = judged(SubjectKind::Mmio, 0xfed0_00f0, 1_000, 15 * US, false, false);
        assert!(busy.advice()[0].plan().change.starts_with("HPET"));
        let xen = judged(SubjectKind::Mmio, 0xfed0_00f0, 1_000, 15 * US, true, true);
        assert_eq!(xen.advice()[0].plan().settings, [by_hand(XEN_CLOCK)]);
        let cpuid = judged(SubjectKind::Cpuid, 0, 2_000, 20 * US, false, true);
        assert!(
            matches!(cpuid.advice()[0].plan().settings[..], [AdviceSetting::ByHand(_)]),
            "what holds for any guest"
        );
    }

    /// Exits of which so many were timed, of the same length, and so many left the kernel.
    fn cell(count: u64, outside: u64, takes: u64) -> ExitStats {
        let mut cell = ExitStats::default();
        for number in 0..count {
            let handler = if number < outside { Handler::Userspace(2) } else { Handler::Kernel };
            let of = exit(vcpu(0), number, ExitCode::new(CodeList::Vmx, 30));
            cell.absorb(&Exit { handler, parts: spent(TimePart::Kernel, takes), ..of });
        }
        cell
    }

    /// Has a VM with this time judged.
    fn with_vm<T>(
        time: VmTime,
        host: &RecordedHost,
        shares: &[f64],
        handlers: bool,
        with: impl FnOnce(&JudgedVm<'_>) -> T,
    ) -> T {
        let mut input = AdviceInput::new(&Selection::default());
        input.facts.duration = Nanos(2_000);
        input.facts.event_kinds.handlers = handlers;
        let simulate = |_: SubjectKind, _: InKernelPath| shares.to_vec();
        with(&JudgedVm {
            id: VmId(1),
            time,
            vmm: Vmm::Qemu(QemuOptions::default()),
            input: &input,
            host,
            simulate: &simulate,
        })
    }

    #[test]
    fn a_vm_is_idle_that_is_halted_for_four_fifths_of_its_time() {
        for (in_halts, wall, idle) in
            [(800, 1_000, true), (799, 1_000, false), (800, 1_001, false), (0, 0, false), (1, 0, true)]
        {
            let time = VmTime { in_halts, wall, ..VmTime::default() };
            let found =
                with_vm(time, &RecordedHost::default(), &[], true, |vm| (vm.is_idle(), !vm.idle_words().is_empty()));
            assert_eq!(found, (idle, idle), "{in_halts} of {wall}");
        }
    }

    #[test]
    fn a_source_is_worth_it_by_the_time_of_a_busy_vm_and_by_one_cpu_of_an_idle_one() {
        let busy = |wall| VmTime { wall, guest: 60, cost: 40, ..VmTime::default() };
        let idle = |wall, guest| VmTime { wall, guest, cost: 40, in_halts: wall, ..VmTime::default() };
        // 20 ns cost a hundredth of 2,000 ns, which are the recording's.
        for (what, time, cost, worth) in [
            ("a hundredth", busy(2_000), 20, true),
            ("less", busy(2_001), 20, false),
            ("idle, of many vCPUs", idle(90_000, 60), 20, true),
            ("less than a hundredth of a CPU", idle(90_000, 55), 19, false),
            ("less than a fifth of what it uses", idle(90_000, 61), 20, false),
            ("busy, of many vCPUs", busy(90_000), 20, false),
        ] {
            let account = VmSubjectExits {
                all: SubjectStats { stats: cell(1, 1, cost), ..SubjectStats::default() },
                ..VmSubjectExits::default()
            };
            assert_eq!(
                with_vm(time, &RecordedHost::default(), &[], true, |vm| vm.is_worth_it(&account)),
                worth,
                "{what}"
            );
        }
    }

    #[test]
    fn user_space_answers_if_more_than_half_went_there() {
        for (count, outside, beyond) in [(10, 5, false), (10, 6, true), (3, 1, false), (3, 2, true), (0, 0, false)] {
            let found = with_vm(VmTime::default(), &RecordedHost::default(), &[], true, |vm| {
                vm.is_beyond_kernel(&cell(count, outside, 7))
            });
            assert_eq!(found, beyond, "{outside} of {count}");
        }
    }

    #[test]
    fn what_moving_into_the_kernel_wins_is_the_simulators_or_the_way_out_and_back() {
        let key = SubjectKey { kind: SubjectKind::Port, key: 0x1234, write: true };
        let about = SubjectStats { stats: cell(10, 10, 33), trip: 250, ..SubjectStats::default() };
        let of = |shares: &[f64], about: &SubjectStats| {
            let range = with_vm(VmTime::default(), &RecordedHost::default(), shares, true, |vm| {
                vm.moved_in(about, key, InKernelPath::Device)
            });
            (range.low, range.headline, range.high)
        };
        assert_eq!(of(&[0.5, 0.75], &about), (165, 206, 247));
        assert_eq!(of(&[], &about), (250, 250, 330));
        assert_eq!(of(&[], &SubjectStats { trip: 400, ..about }), (330, 330, 330), "no more than all of it");
    }

    #[test]
    fn places_have_the_names_of_their_kind() {
        for (kind, key, name) in [
            (SubjectKind::Port, 0x608, "port 0x608"),
            (SubjectKind::Msr, 0x7777, "MSR 0x7777"),
            (SubjectKind::Msr, 0x6e0, "MSR_IA32_TSC_DEADLINE"),
            (SubjectKind::Cpuid, 7, "CPUID"),
            (SubjectKind::Mmio, 0xfed0_0000, "MMIO page 0xfed00000"),
            (SubjectKind::Apic, 0x380, "APIC_TMICT"),
            (SubjectKind::Apic, 0x382, "apic 0x382"),
            (SubjectKind::PpcHcall, 0x58, "H_PUT_TERM_CHAR"),
        ] {
            assert_eq!(place(SubjectKey { kind, key, write: false }), name);
        }
        assert!(is_judged(SubjectKind::Cpuid) && is_judged(SubjectKind::Mmio) && !is_judged(SubjectKind::Hypercall));
    }

    #[test]
    fn what_takes_too_little_is_told_by_who_answers_and_what_is_known() {
        // 30 exits of 33 ns are 990 ns of a vCPU's 100 us: less than a hundredth.
        let time = VmTime { wall: 100_000, guest: 90_000, ..VmTime::default() };
        use SubjectKind::{Msr, Port};
        let judge = |kind, number, write, count, outside, wall, handlers| {
            let host = of_qemu();
            let key = SubjectKey { kind, key: number, write };
            let refused = if kind == Msr { outside } else { 0 };
            let all = SubjectStats { stats: cell(count, outside, 33), refused, ..SubjectStats::default() };
            let answer = source(&host, true, kind, number).map(|row| row.answer);
            let account = VmSubjectExits { all, top: Some((key, 1)), answer, ..VmSubjectExits::default() };
            let mut judgement = Judgement::default();
            let asked = CureLookup::of(&host, true, key);
            with_vm(VmTime { wall, ..time }, &host, &[], handlers, |vm| vm.judge(asked, &account, &mut judgement))
        };
        let inherent = |said: RuleAnswer, says: &str| {
            assert!(matches!(&said, RuleAnswer::Inherent(why) if why.contains(says)), "{said:?}")
        };
        let unjudged = |said: RuleAnswer, says: &str| {
            assert!(matches!(&said, RuleAnswer::NotJudged(why) if why.contains(says)), "{said:?}")
        };
        inherent(judge(Port, 0xcf8, true, 30, 30, 100_000, true), "boot");
        inherent(judge(Port, 0xcf8, true, 30, 30, 10_000, true), "boot");
        inherent(judge(Port, 0x3f8, true, 30, 0, 100_000, true), "hypervisor itself");
        inherent(judge(Port, 0x3f8, true, 30, 15, 10_000, true), "hypervisor itself");
        inherent(judge(Port, 0x1234, true, 30, 0, 10_000, true), "hypervisor itself");
        let said = judge(Port, 0x3f8, true, 30, 0, 100_000, false);
        assert!(
            matches!(&said, RuleAnswer::NotRecorded(why) if why.contains("does not show who answers it; record with")),
            "{said:?}"
        );
        unjudged(judge(Port, 0x1234, true, 30, 30, 100_000, true), "too little time");
        unjudged(judge(Port, 0x3f8, true, 29, 29, 10_000, true), "too few exits to judge: 29");
        unjudged(judge(Port, 0x3f8, true, 0, 0, 10_000, true), "none of these exits is timed");
        unjudged(judge(Msr, 0x7777, true, 30, 16, 10_000, true), "or for those that it filters");
        unjudged(judge(Msr, 0x48, true, 30, 0, 10_000, true), "nested");
        unjudged(judge(Msr, 0x7777, false, 30, 15, 99_000, true), "exitscope has no rule for this MSR");
        assert!(matches!(judge(Port, 0x3f8, true, 30, 16, 100_000, true), RuleAnswer::Small(_)));
        assert!(matches!(judge(Msr, 0x6e0, true, 30, 0, 100_000, true), RuleAnswer::Small(_)));
        for (kind, number, outside) in [(Port, 0x3f8, 16), (Msr, 0x6e0, 0), (Port, 0x1234, 16)] {
            let said = judge(kind, number, false, 30, outside, 99_000, true);
            assert!(matches!(said, RuleAnswer::Advice(_)), "{number:#x}: {said:?}");
        }
    }
}
