//! Rules about what guests ask for: devices behind ports and addresses, doorbells, MSRs, CPUID.
//!
//! A source is judged if it is asked often and its exits cost much: of a busy VM, measured against the time of its vCPUs;
//! of an idle one, against one CPU, since it should need none.

use super::about::About;
use super::cures::{ACTS, Answer, Cure, Helps, UNDO, by_hand, source};
use super::judgement::{Figure, Gain, GainOf, How, Judgement, Plan};
use super::material::{Machine, Material, VmTime};
use super::simulated::{SOURCE, Simulate, Way, spared};
use super::{FactId, Setting};
use crate::{Cell, DetailKey, Tally};
use exitscope_model::DetailKind;
use exitscope_units::{Nanos, VmId};
use std::collections::BTreeMap;

/// One part in so many of the time judged against: less is within what runs of one and the same workload differ by.
pub(super) const WORTH: u64 = 100;

/// Exits at least: chance decides about fewer.
const FEWEST: u64 = 100;

/// Accesses to a device a second at least. A tick of 100 Hz is ordinary use of a timer, and not seldom asked for.
const OFTEN_DEVICE: f64 = 100.0;

/// MSR accesses and CPUIDs a second at least: each takes some microseconds, so that fewer cannot make up 1 % of a CPU.
const OFTEN_REGISTER: f64 = 500.0;

/// Sleeping outside is told if it is one part in so many of the way there and back.
const NOTED: u64 = 10;

/// An idle VM is halted for at least so many hundredths of its time.
const IDLE_PERCENT: u64 = 80;

/// What an idle VM is troubled by takes at least one part in so many of what it uses.
const OF_IDLE_USE: u64 = 5;

/// What is asked for: a row of the table of cures, or something that is not in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Asked {
    Named(&'static str),
    Other(DetailKind, u64),
}

/// A VM's exits about one thing.
#[derive(Default)]
pub(super) struct Account {
    pub all: About,
    pub writes: About,
    /// The most costly.
    top: Option<(DetailKey, u64)>,
    answer: Option<&'static Answer>,
}

pub(super) fn judge(material: &Material, machine: &Machine, simulate: &Simulate<'_>, judgement: &mut Judgement) {
    for (&vm, time) in &material.vms {
        let mut accounts: BTreeMap<Asked, Account> = BTreeMap::new();
        for (key, about) in material.about(vm).iter().filter(|(key, _)| is_judged(key.kind)) {
            let key = *key;
            let row = source(&machine.arch, key.kind, key.key);
            let asked = row.map_or(Asked::Other(key.kind, key.key), |row| Asked::Named(row.name));
            let account = accounts.entry(asked).or_default();
            account.all.merge(about);
            if key.write {
                account.writes.merge(about);
            }
            if account.top.is_none_or(|top| top.1 < about.cell.cost().0) {
                account.top = Some((key, about.cell.cost().0));
            }
            account.answer = row.map(|row| &row.answer);
        }
        for (asked, account) in &accounts {
            let vm = Vm { id: vm, time: *time, material, machine, simulate };
            vm.judge(*asked, account, judgement);
        }
    }
}

fn is_judged(kind: DetailKind) -> bool {
    matches!(kind, DetailKind::Port | DetailKind::Mmio | DetailKind::Msr | DetailKind::Cpuid)
}

/// One VM, and what it is judged by.
pub(super) struct Vm<'a> {
    pub id: VmId,
    pub time: VmTime,
    pub material: &'a Material,
    pub machine: &'a Machine,
    pub simulate: &'a Simulate<'a>,
}

impl Vm<'_> {
    /// Whether it has nothing to do.
    fn is_idle(&self) -> bool {
        self.time.idle.saturating_mul(100) >= self.time.wall.saturating_mul(IDLE_PERCENT).max(1)
    }

    fn is_worth_it(&self, account: &Account) -> bool {
        let cost = account.all.cell.cost().0;
        let used = self.time.guest.saturating_add(self.time.cost);
        let hundred_times = cost.saturating_mul(WORTH);
        let idly = || cost.saturating_mul(OF_IDLE_USE) >= used && hundred_times >= self.material.facts.duration.0;
        hundred_times >= self.time.wall || self.is_idle() && idly()
    }

    fn judge(&self, asked: Asked, account: &Account, judgement: &mut Judgement) {
        let Some((key, _)) = account.top else { return };
        let cell = &account.all.cell;
        let often = match key.kind {
            DetailKind::Msr | DetailKind::Cpuid => OFTEN_REGISTER,
            _ => OFTEN_DEVICE,
        };
        if cell.timed < FEWEST || self.material.rate(cell.count) < often || !self.is_worth_it(account) {
            return;
        }
        let place = place(key);
        let name = match asked {
            Asked::Named(name) if name != place => format!("{name} ({place})"),
            _ => place,
        };
        let facts = self.note(&name, account, judgement);
        match account.answer {
            Some(Answer::Leave(why)) => judgement.leave(facts[0], &facts[1..], format!("{name}: {why}")),
            Some(Answer::Cure(cure))
                if matches!(cure.helps, Helps::Outside | Helps::ByMovingIn) && !self.is_beyond_kernel(cell) =>
            {
                judgement.leave(facts[0], &facts[1..], format!("{name}: {}", self.in_kernel()));
            }
            Some(Answer::Cure(cure)) => self.cure(cure, key, &name, account, &facts, judgement),
            None => self.unknown(key, &name, account, &facts, judgement),
        }
    }

    /// Notes the facts about a source.
    fn note(&self, name: &str, account: &Account, judgement: &mut Judgement) -> Vec<FactId> {
        let (vm, about) = (Some(self.id), &account.all);
        let cell = &about.cell;
        let share = |part: u64, whole: u64| Figure::Share(part as f64 / whole.max(1) as f64);
        let mut facts = vec![
            judgement.note(vm, format!("exits a second for {name}"), Figure::Rate(self.material.rate(cell.count))),
            judgement.note(
                vm,
                format!("time of those exits, of the vCPUs' time: {name}"),
                share(cell.cost().0, self.time.wall),
            ),
        ];
        if let Some(median) = cell.quantile(5_000) {
            facts.push(judgement.note(vm, format!("median length of an exit for {name}"), Figure::Time(median)));
        }
        if self.material.facts.heard.doors {
            let whose = if self.machine.xen { "the device model" } else { "user space" };
            facts.push(judgement.note(
                vm,
                format!("part of the exits for {name} that {whose} answers"),
                share(cell.user_count, cell.count),
            ));
            if about.trip > 0 {
                let what = match self.machine.xen {
                    true => format!("part of the time of those exits spent waiting for the device model: {name}"),
                    false => {
                        format!("part of the time of those exits from leaving the kernel until entering again: {name}")
                    }
                };
                facts.push(judgement.note(vm, what, share(about.trip, cell.cost().0)));
            }
            if about.asleep.saturating_mul(NOTED) > about.trip {
                let what =
                    format!("part of that in which the vCPU's thread sleeps, as for a lock of all devices: {name}");
                facts.push(judgement.note(vm, what, share(about.asleep, about.trip)));
            }
        }
        if about.strings > 0 {
            let what = format!("part of the exits for {name} whose data are in memory (INS, OUTS)");
            facts.push(judgement.note(vm, what, share(about.strings, cell.count)));
        }
        if self.is_idle() {
            let used = self.time.guest.saturating_add(self.time.cost);
            let cpus = used as f64 / self.material.facts.duration.0.max(1) as f64;
            facts.push(judgement.note(vm, "part of its time that it is halted", share(self.time.idle, self.time.wall)));
            facts.push(judgement.note(vm, "CPUs that it keeps busy nevertheless", Figure::Cpus(cpus)));
        }
        facts
    }

    /// Whether user space or the device model answers, as far as the recording says.
    pub(super) fn is_beyond_kernel(&self, cell: &Cell) -> bool {
        cell.user_count * 2 > cell.count
    }

    pub(super) fn in_kernel(&self) -> &'static str {
        match self.material.facts.heard.doors {
            true => "the hypervisor itself answers it already; only the guest can ask less often",
            false => "the recording does not say who answers it",
        }
    }

    pub(super) fn idle_words(&self) -> &'static str {
        if self.is_idle() { "this VM has nothing to do and keeps the host busy; " } else { "" }
    }

    fn cure(
        &self,
        cure: &Cure,
        key: DetailKey,
        name: &str,
        account: &Account,
        facts: &[FactId],
        judgement: &mut Judgement,
    ) {
        let of_guest = |setting: &&Setting| matches!(setting, Setting::ByHand(_) | Setting::GuestBoot(_));
        let settings = match (self.machine.xen, cure.xen) {
            (true, "") => cure.settings.iter().filter(of_guest).cloned().collect(),
            (true, xen) => vec![by_hand(xen)],
            (false, _) => cure.settings.iter().filter(|setting| self.has(setting)).cloned().collect(),
        };
        let cell = &account.all.cell;
        let range = match (cure.helps, self.is_idle()) {
            (Helps::ByMovingIn, _) => self.moved_in(&account.all, key, Way::Device),
            (Helps::WithHardware, false) => Range { low: 0, high: cell.cost().0, how: How::Counted(FROM_NOTHING) },
            (_, true) => Range {
                low: medians(cell),
                high: self.time.cost,
                how: How::Counted(
                    "from their median length times their number, to the time of all exits of this idle VM",
                ),
            },
            (_, false) => Range { low: medians(cell), high: cell.cost().0, how: How::Counted(MEDIANS) },
        };
        let change = format!("{}{name}: {}", self.idle_words(), cure.change);
        let in_guest = cure.settings.iter().all(|setting| matches!(setting, Setting::ByHand(_)));
        self.advise(Words { change, risk: cure.risk, payer: cure.payer, in_guest }, settings, range, facts, judgement);
    }

    /// What accesses to `key` cost more than if the kernel served them in this way: by what such accesses take in this
    /// recording, or else by what the simulator says.
    pub(super) fn moved_in(&self, about: &About, key: DetailKey, way: Way) -> Range {
        let cell = &about.cell;
        let then = self.material.facts.accesses.typical().in_kernel(key.kind, key.write);
        if let Some(then) = then.filter(|_| self.material.facts.heard.doors && !self.machine.xen) {
            let then = then.0.saturating_mul(cell.timed);
            let (low, high) = (medians(cell).saturating_sub(then), cell.cost().0.saturating_sub(then));
            // A typical access that is served inside may be another than these.
            let (low, high) = if high > 0 { (low, high) } else { (0, about.trip) };
            return Range { low, high, how: How::Counted(IN_KERNEL) };
        }
        match spared(self.simulate, key.kind, way) {
            Some((least, most)) => {
                let of = |nanos: u64, share: f64| (nanos as f64 * share) as u64;
                let (low, high) = (of(medians(cell), least), of(cell.cost().0, most));
                Range { low, high, how: How::Simulated(SOURCE) }
            }
            None => Range { low: about.trip.min(medians(cell)), high: cell.cost().0, how: How::Counted(BEYOND) },
        }
    }

    /// Whether the machine has the module that a setting is of.
    fn has(&self, setting: &Setting) -> bool {
        let Setting::Knob { knob, .. } = setting else { return true };
        let file = knob.file().map(|file| file.to_string()).unwrap_or_default();
        !(file.contains("/kvm_intel/") && !self.material.is_vmx || file.contains("/kvm_amd/") && self.material.is_vmx)
    }

    pub(super) fn advise(
        &self,
        words: Words,
        settings: Vec<Setting>,
        Range { low, high, how }: Range,
        facts: &[FactId],
        judgement: &mut Judgement,
    ) {
        let by_host = settings.iter().any(|setting| matches!(setting, Setting::Knob { .. }));
        let (acts, undo) = match (by_host, words.in_guest) {
            (true, _) => (
                "when the module is loaded anew, with no VM running",
                "take the options out again and load the module anew",
            ),
            (false, true) => ("at once, in the guest", "change it back in the guest"),
            (false, false) => (ACTS, UNDO),
        };
        let gain = Gain {
            of: GainOf::Exits,
            low: self.material.per_second(low.min(high)),
            high: self.material.per_second(high),
            how,
        };
        let plan = Plan {
            vm: Some(self.id),
            change: words.change,
            settings,
            gain,
            risk: words.risk.into(),
            payer: words.payer.into(),
            undo: undo.into(),
            acts: acts.into(),
        };
        judgement.advise(facts[0], &facts[1..], plan);
    }
}

/// What is won in the whole recording, in nanoseconds.
pub(super) struct Range {
    pub low: u64,
    pub high: u64,
    pub how: How,
}

/// What ranges go by.
pub(super) const MEDIANS: &str = "from their median length times their number, to all their time";
pub(super) const BEYOND: &str =
    "from their way out of the kernel and back, at most their medians together, to all their time";
const FROM_NOTHING: &str =
    "from nothing, where the processor cannot do it and each access is an exit still, to all their time";
const IN_KERNEL: &str = "what they take longer than accesses that the kernel serves in this recording, from their median \
    length to all their time";

/// The words of an advice that are not figures.
pub(super) struct Words {
    pub change: String,
    pub risk: &'static str,
    pub payer: &'static str,
    /// Whether it is done in the guest, while it runs.
    pub in_guest: bool,
}

/// The time of the exits without the few that took very long, which may have had other reasons.
pub(super) fn medians(cell: &Cell) -> u64 {
    cell.quantile(5_000).unwrap_or(Nanos::ZERO).0.saturating_mul(cell.timed).min(cell.cost().0)
}

/// `port 0x608`, `MSR 0x6e0`, `address 0xfed00000`, `CPUID`.
fn place(key: DetailKey) -> String {
    match key.kind {
        DetailKind::Port => format!("port {:#x}", key.key),
        DetailKind::Msr => match exitscope_model::codes::detail_name(key.kind, key.key) {
            Some(name) => name.to_string(),
            None => format!("MSR {:#x}", key.key),
        },
        DetailKind::Cpuid => "CPUID".to_string(),
        _ => format!("address {:#x}", key.key),
    }
}

#[cfg(test)]
mod tests {
    use super::super::made::{end, exit, vcpu};
    use super::*;
    use crate::Selection;
    use exitscope_model::{CodeList, Detail, Door, EventKinds, Exit, ExitCode, Form};
    use exitscope_units::Moment;

    const US: u64 = 1_000;
    const SECOND: u64 = 1_000_000_000;

    /// A VM of one vCPU that asks for something so often in a second, each time for so long. The rest of the time it is
    /// in the guest, or, `idle`, halted.
    fn judged(kind: DetailKind, key: u64, per_s: u64, takes: u64, idle: bool, xen: bool) -> Judgement {
        let mut material = Material::new(&Selection::default());
        material.begin(Moment::from_nanos(0));
        material.heard(EventKinds { doors: true, ..EventKinds::default() });
        let rest = Nanos(SECOND / per_s - takes);
        let detail = Some(Detail { kind, write: false, form: Form::Untold, size: 4, key, value: 0 });
        for number in 1..=per_s {
            let at = number * (SECOND / per_s);
            let mut about = Exit { detail, ..exit(vcpu(0), at, ExitCode::new(CodeList::Vmx, 32)) };
            match kind {
                DetailKind::Msr | DetailKind::Cpuid => about.kernel = Nanos(takes),
                _ => (about.door, about.user) = (Door::Userspace(2), Nanos(takes)),
            }
            if idle {
                material.absorb(&Exit { idle: rest, ..exit(vcpu(0), at, ExitCode::new(CodeList::Vmx, 12)) });
            } else {
                about.guest = rest;
            }
            material.absorb(&about);
        }
        end(&mut material, &[vcpu(0)], SECOND);
        let machine = Machine { arch: "x86_64".to_string(), xen, ..Machine::default() };
        let mut judgement = Judgement::default();
        judge(&material, &machine, &|_, _| Vec::new(), &mut judgement);
        judgement
    }

    #[test]
    fn what_is_asked_too_often_is_named_with_what_to_do() {
        for (kind, key, says, setting) in [
            (DetailKind::Msr, 0x6e0, "timer (MSR_IA32_TSC_DEADLINE): let the guest arm", "hrtimer_start"),
            (DetailKind::Msr, 0x4000_00b1, "Hyper-V synthetic timers", "<direct state='on'/>"),
            (DetailKind::Msr, 0x4000_0020, "Hyper-V reference counter", "hypervclock"),
            (DetailKind::Msr, 0x830, "IPIs (x2APIC_ICR)", "enable_ipiv"),
            (DetailKind::Msr, 0x80b, "APIC's EOI and TPR", "enable_apicv"),
            (DetailKind::Msr, 0x38f, "performance counters", "nmi_watchdog=0"),
            (DetailKind::Msr, 0x48, "speculation control", "ibrs-all"),
            (DetailKind::Msr, 0x7777, "ask for MSR 0x7777 less often", "kvm_msr"),
            (DetailKind::Cpuid, 4, "CPUID", "RDTSCP"),
            (DetailKind::Port, 0x60, "keyboard controller (port 0x60)", "i8042=off"),
            (DetailKind::Port, 0x80, "delay port 0x80", "io_delay=none"),
            (DetailKind::Port, 0x1f7, "IDE disk", "bus='virtio'"),
            (DetailKind::Mmio, 0xb_8000, "VGA", "virtio-gpu"),
        ] {
            let judgement = judged(kind, key, 2_000, 20 * US, false, false);
            let [advice] = judgement.advice() else { panic!("{key:#x}: {:#?}", judgement.advice()) };
            assert!(advice.plan().change.contains(says), "{key:#x}: {}", advice.plan().change);
            assert!(format!("{:?}", advice.plan().settings).contains(setting), "{:?}", advice.plan().settings);
            assert!(!format!("{:?}", advice.plan().settings).contains("kvm_amd"), "on Intel");
            let misspelt: Vec<_> = advice.plan().settings.iter().flat_map(super::super::spelling::misspelt).collect();
            assert_eq!(misspelt, Vec::<String>::new());
            let gain = advice.plan().gain;
            // What only some processors can do may win nothing.
            let low = if setting.starts_with("enable_") { Nanos::ZERO } else { Nanos(40_000 * US) };
            assert_eq!((gain.low, gain.high), (low, Nanos(40_000 * US)), "{key:#x}");
        }
    }

    #[test]
    fn what_is_asked_seldom_or_cheaply_is_not_worth_a_word() {
        for (kind, key, per_s, takes) in [
            (DetailKind::Port, 0x71, 90, 200 * US),
            (DetailKind::Port, 0x71, 2_000, US),
            (DetailKind::Msr, 0x6e0, 400, 100 * US),
            (DetailKind::Msr, 0x6e0, 4_000, 2 * US),
        ] {
            let judgement = judged(kind, key, per_s, takes, false, false);
            assert_eq!((judgement.advice().len(), judgement.facts().len()), (0, 0), "{key:#x} {per_s}/s {takes}");
        }
        let boot = judged(DetailKind::Port, 0xcf8, 2_000, 20 * US, false, false);
        assert_eq!((boot.advice().len(), boot.left_alone.len()), (0, 1));
    }

    #[test]
    fn an_idle_vm_is_told_so_and_xen_has_its_own_words() {
        let idle = judged(DetailKind::Mmio, 0xfed0_00f0, 1_000, 15 * US, true, false);
        assert!(idle.advice()[0].plan().change.starts_with("this VM has nothing to do and keeps the host busy; HPET"));
        let busy = judged(DetailKind::Mmio, 0xfed0_00f0, 1_000, 15 * US, false, false);
        assert!(busy.advice()[0].plan().change.starts_with("HPET"));
        let xen = judged(DetailKind::Mmio, 0xfed0_00f0, 1_000, 15 * US, true, true);
        assert_eq!(xen.advice()[0].plan().settings, [by_hand("hpet=0 in the domain's xl.cfg")]);
        let cpuid = judged(DetailKind::Cpuid, 0, 2_000, 20 * US, false, true);
        assert!(matches!(cpuid.advice()[0].plan().settings[..], [Setting::ByHand(_)]), "what holds for any guest");
    }
}
