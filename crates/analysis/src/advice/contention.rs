//! Rules about CPUs that vCPUs wait for, overcommit and steal; and Xen's long way of a port access.

use super::judgement::{Figure, Gain, GainOf, How, Judgement, Plan, Setting};
use super::kernels::version;
use super::material::{Machine, Material, VmTime, total};
use super::sources::WORTH;
use exitscope_model::DetailKind;
use exitscope_units::VmId;
use std::collections::BTreeMap;

/// Waiting of one part in so many of the time that vCPUs want is felt; below, it is how a scheduler works. The rule of
/// thumb of monitoring is the same: steal of 10 %.
const FELT: u64 = 10;

/// VMs that are named as waiting, those that wait most.
const NAMED: usize = 8;

/// Of those who took vCPUs' CPUs, so many are named.
const INTRUDERS: usize = 3;

/// vCPUs that are pinned at most.
const PINS: u64 = 512;

pub(super) const WAITED: &str = "part of the time that its vCPUs want a CPU in which they wait for one";

/// Xen 3.3 to 4.0 emulate every port access as if it were string I/O; changeset 147808b8b8 of 2010 ended that.
const LONG_WAY: std::ops::RangeInclusive<(u32, u32)> = (3, 3)..=(4, 0);

/// Of a port read of 16,112 cycles, the short way saves 2,816 (xen-devel, 2008: 13,296 are left).
const SHORT_WAY: (u64, u64) = (2_816, 16_112);

pub(super) fn judge(material: &Material, machine: &Machine, judgement: &mut Judgement) {
    if material.facts.heard.switches {
        waiting(material, machine, judgement);
    }
    for (&vm, time) in &material.vms {
        if machine.xen {
            long_way(material, machine, vm, time, judgement);
        }
    }
}

/// A part of a whole.
pub(super) fn share(part: u64, whole: u64) -> Figure {
    Figure::Share(part as f64 / whole.max(1) as f64)
}

fn is_felt(time: &VmTime) -> bool {
    time.waiting.saturating_mul(FELT) >= time.wanted().max(1) && time.waiting.saturating_mul(WORTH) >= time.wall
}

/// vCPUs that wait for a CPU.
fn waiting(material: &Material, machine: &Machine, judgement: &mut Judgement) {
    let felt: Vec<(VmId, VmTime)> =
        material.vms.iter().filter(|(_, time)| is_felt(time)).map(|(vm, time)| (*vm, *time)).collect();
    if felt.is_empty() {
        return;
    }
    let duration = material.facts.duration.0.max(1);
    let wanted = total(material.vms.values().map(VmTime::wanted));
    let waited = total(felt.iter().map(|(_, time)| time.waiting));
    let have = duration.saturating_mul(u64::from(machine.cpus));
    let mut facts = Vec::new();
    let mut worst: Vec<&(VmId, VmTime)> = felt.iter().collect();
    worst.sort_by_key(|(vm, time)| (std::cmp::Reverse(time.waiting), *vm));
    for (vm, time) in worst.into_iter().take(NAMED) {
        facts.push(judgement.note(Some(*vm), WAITED, share(time.waiting, time.wanted())));
    }
    for (name, times) in intruders(material, machine, &felt) {
        let what = format!("times that {name} took the CPU from one of those vCPUs that wanted to run on");
        facts.push(judgement.note(None, what, Figure::Count(times)));
    }
    if felt.len() > NAMED {
        facts.push(judgement.note(
            None,
            "VMs whose vCPUs wait noteworthily for CPUs",
            Figure::Count(felt.len() as u64),
        ));
    }
    let cpus = wanted as f64 / duration as f64;
    facts.push(judgement.note(None, "CPUs that all recorded vCPUs together want", Figure::Cpus(cpus)));
    if machine.cpus > 0 {
        facts.push(judgement.note(None, "CPUs of the host", Figure::Count(u64::from(machine.cpus))));
    }
    let short = machine.cpus > 0 && wanted > have;
    let change = match short {
        true => format!(
            "run fewer vCPUs on this host, or give it more CPUs: its vCPUs want {cpus:.1} CPUs and there are {}",
            machine.cpus
        ),
        false => "look who takes the vCPUs' CPUs: together they would fit on the host, and they wait nevertheless"
            .to_string(),
    };
    let hand = |text: &'static str| Setting::ByHand(text.into());
    let settings = match (short, machine.xen) {
        (true, _) => vec![hand("fewer or smaller VMs here, or fewer vCPUs for those that have more than they use")],
        (false, true) => vec![
            hand("`xl vcpu-list` shows affinities, `xl sched-credit2` weights and caps; domain 0 competes as well"),
            hand("give domain 0 CPUs of its own: dom0_max_vcpus= and dom0_vcpus_pin on Xen's command line"),
        ],
        (false, false) => vec![
            hand(
                "limits: cpu.max and cpuset.cpus of the VM's cgroup (libvirt: <cputune>), and its affinity (taskset \
                    -p)",
            ),
            hand("neighbours: `perf sched timehist -w` says which task ran instead"),
            pins(felt.iter().map(|(_, time)| time.vcpus).max().unwrap_or(1)),
        ],
    };
    let low = if short { wanted.saturating_sub(have).min(waited) } else { 0 };
    let gain = Gain {
        of: GainOf::Waiting,
        low: material.per_second(low),
        high: material.per_second(waited),
        how: How::Counted(match short {
            true => "from what the host is short of, to all of the waiting",
            false => "from nothing, to all of the waiting",
        }),
    };
    let (risk, undo, acts) = match (short, machine.xen) {
        (true, _) => (
            "fewer vCPUs are a lower peak",
            "move the VMs back, or give them their vCPUs back",
            "at once where VMs can be moved, else when a VM is started anew",
        ),
        (false, true) => (
            "what domain 0 has of its own the guests have less",
            "restore affinities and weights, or Xen's command line",
            "affinities and weights at once, Xen's command line after a restart of the host",
        ),
        (false, false) => {
            ("pinned vCPUs cannot move to a CPU that is free", "restore affinities and limits", "at once")
        }
    };
    let plan = Plan {
        vm: None,
        change,
        settings,
        gain,
        risk: risk.into(),
        payer: "whoever has the CPUs now".into(),
        undo: undo.into(),
        acts: acts.into(),
    };
    judgement.advise(facts[0], &facts[1..], plan);
}

/// A CPU of its own for each of a VM's vCPUs. Which CPUs nobody else needs no recording says: that is to be filled in.
pub(super) fn pins(vcpus: u64) -> Setting {
    let pin = |vcpu| format!("<vcpupin vcpu='{vcpu}' cpuset='…'/>");
    let xml = (0..vcpus.clamp(1, PINS)).map(pin).collect::<Vec<String>>().join("\n");
    Setting::Libvirt { within: "cputune", xml: xml.into() }
}

/// Who ran instead of the vCPUs of these VMs, most often first, under the names of their threads.
fn intruders(material: &Material, machine: &Machine, felt: &[(VmId, VmTime)]) -> Vec<(String, u64)> {
    let mut names: BTreeMap<String, u64> = BTreeMap::new();
    for (tid, times) in felt.iter().flat_map(|(vm, _)| material.preempted_by(*vm)) {
        let name = match material.vm_of(tid) {
            Some(vm) => format!("a vCPU of VM {}", vm.0),
            None => machine.comms.get(&tid.0).cloned().unwrap_or_else(|| format!("thread {}", tid.0)),
        };
        *names.entry(name).or_default() += times;
    }
    let mut names: Vec<_> = names.into_iter().collect();
    names.sort_by_key(|(name, times)| (std::cmp::Reverse(*times), name.clone()));
    names.truncate(INTRUDERS);
    names
}

/// A Xen that takes the long way for every port access.
fn long_way(material: &Material, machine: &Machine, vm: VmId, time: &VmTime, judgement: &mut Judgement) {
    let reads = material.of_details(vm, |key| key.kind == DetailKind::Port && !key.write);
    let saved = reads.cost().0 / SHORT_WAY.1 * SHORT_WAY.0;
    if !version(&machine.release).is_some_and(|version| LONG_WAY.contains(&version))
        || saved.saturating_mul(WORTH) < time.wall
    {
        return;
    }
    let facts = [
        judgement.note(Some(vm), "port reads a second", Figure::Rate(material.rate(reads.count))),
        judgement.note(Some(vm), "their time, of the vCPUs' time", share(reads.cost().0, time.wall)),
    ];
    let per_second = material.per_second(saved);
    let plan = Plan {
        vm: Some(vm),
        change: format!(
            "use Xen 4.1 or later: {} emulates every port access, newer ones decode it from the exit",
            machine.release
        ),
        settings: vec![Setting::ByHand("Xen 4.1 or later on the host; or PV drivers, which need no ports".into())],
        gain: Gain {
            of: GainOf::Exits,
            low: per_second,
            high: per_second,
            how: How::Published("xen-devel, 2008: a port read of 16,112 cycles took 13,296 with the short way"),
        },
        risk: "that of an update".into(),
        payer: "nobody".into(),
        undo: "boot the old Xen".into(),
        acts: "after a restart of the host".into(),
    };
    judgement.advise(facts[0], &facts[1..], plan);
}

#[cfg(test)]
mod tests {
    use super::super::made::{end, exit, vcpu};
    use super::*;
    use crate::Selection;
    use exitscope_model::{CodeList, EventKinds, Exit, ExitCode, Preemption};
    use exitscope_units::{Moment, Nanos, Tid};

    const US: u64 = 1_000;
    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn who_took_the_cpus_of_vcpus_that_wait_is_named() {
        let mut material = Material::new(&Selection::default());
        material.begin(Moment::from_nanos(0));
        material.heard(EventKinds { switches: true, ..EventKinds::default() });
        for (number, of) in (1..=2_000).flat_map(|number| [(number, 0), (number, 1)]) {
            let left = exit(vcpu(of), number * 500 * US, ExitCode::new(CodeList::Vmx, 1));
            let waiting = Nanos(100 * US);
            material.absorb(&Exit { guest: Nanos(398 * US), kernel: Nanos(2 * US), waiting, ..left });
            let (who, at, by) = (left.who, left.at, Some(Tid(99)));
            material.absorb_preemption(&Preemption { who, at, ran: None, yields: 0, first: None, by });
        }
        end(&mut material, &[vcpu(0), vcpu(1)], SECOND);
        let comms = [(99, "make".to_string())].into_iter().collect();
        let machine = Machine { arch: "x86_64".to_string(), cpus: 4, comms, ..Machine::default() };
        let mut judgement = Judgement::default();
        judge(&material, &machine, &mut judgement);
        let [advice] = judgement.advice() else { panic!("{judgement:#?}") };
        assert!(advice.plan().change.starts_with("look who takes the vCPUs' CPUs"), "{}", advice.plan().change);
        let misspelt: Vec<_> = advice.plan().settings.iter().flat_map(super::super::spelling::misspelt).collect();
        assert_eq!(misspelt, Vec::<String>::new());
        let pins = Setting::Libvirt {
            within: "cputune",
            xml: "<vcpupin vcpu='0' cpuset='…'/>\n<vcpupin vcpu='1' cpuset='…'/>".into(),
        };
        assert!(advice.plan().settings.contains(&pins), "{:?}", advice.plan().settings);
        assert!(judgement.facts().iter().any(|fact| fact.what.starts_with("times that make took the CPU")));
    }
}
