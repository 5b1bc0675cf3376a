//! What is said to VMs whose vCPUs wait for a CPU, for each thing that they may wait for.

use super::takers::CpuHolder;
use super::{Crowd, Taking, WaitsFor};
use crate::cures::cure::by_hand;
use crate::cures::vmm_settings::for_vmm;
use crate::evidence::input::Vmm;
use crate::judgement::AdviceWords;
use crate::setting::AdviceSetting;
use exitscope_analysis::TakerKind;
use exitscope_units::VcpuId;
use std::borrow::Cow;

/// vCPUs that are pinned at most.
const PINS: u64 = 512;

/// What ranges go by.
pub(super) const WHAT_IS_LACKING: &str = "at least the CPU time that is wanted beyond the host's CPUs, steal after yields left out; at most all steal of these vCPUs";
pub(super) const ALL_OF_IT: &str = "from 0 to all of these vCPUs' steal";
pub(super) const ALL_THAT_IS_KNOWN: &str = "from 0 to all of these vCPUs' known steal";

/// Where nobody had the CPUs; what can be done about that, the rule about idle states says.
pub(super) const WAKING_UP: &str = "the CPUs for which these vCPUs waited were idle, and that is how long they took to wake up (see idle \
    states)";

/// What is done about vCPUs that take each other's CPUs.
const OWN_VCPUS: &str =
    "mostly another vCPU of the same VM took the CPU: fewer vCPUs, or more CPUs in the VM's affinity and cpuset";
pub(super) const TIMEHIST: &str = "neighbours: `perf sched timehist -w` shows which task ran instead";

const WHOEVER: &str = "whoever has the CPUs now";
const PINNED: &str = "pinned vCPUs cannot move to a CPU that is free";
pub(crate) const LOWER_PEAK: &str = "with fewer vCPUs the VM can do less at its peak";

/// Of little waiting; with the vCPU that waits for more than the others, and how much.
pub(super) fn little(worst: Option<(VcpuId, f64)>) -> String {
    let worst = match worst {
        Some((vcpu, share)) => format!(", on average (vCPU {}: {:.0} %)", vcpu.0, share * 100.0),
        None => String::new(),
    };
    format!("steal is less than 10 % of the time in which its vCPUs could run{worst}: no rule looks at so little")
}

impl WaitsFor {
    pub(super) fn words(self, vmm: &Vmm) -> AdviceWords {
        match self {
            WaitsFor::Quota => quota(),
            WaitsFor::Short { wanted, cpus } => short(wanted, cpus),
            WaitsFor::Xen(cure, crowd) => AdviceWords {
                title: cure.title.map_or_else(|| crowd.title(), Cow::Borrowed),
                change: cure.change.unwrap_or_else(|| crowd.change()),
                settings: cure.settings,
                risk: cure.risk.into(),
                payer: cure.payer.into(),
                undo: cure.undo.into(),
                acts: cure.acts.into(),
            },
            WaitsFor::Crowded(crowd) => AdviceWords {
                title: crowd.title(),
                change: crowd.change(),
                settings: for_vmm(vmm, crowd.settings()),
                risk: crowd.risk().into(),
                payer: WHOEVER.into(),
                undo: "restore affinities and limits".into(),
                acts: "at once".into(),
            },
        }
    }
}

/// A quota is counted in periods of the cgroup's: where a vCPU runs does not matter to it.
fn quota() -> AdviceWords {
    AdviceWords {
        title: "Look for a CPU quota".into(),
        change: "look for a CPU quota: vCPUs have work, yet their CPUs sit idle".into(),
        settings: vec![
            by_hand(
                "cpu.max of the VM's cgroup (libvirt: <quota> in <cputune>), and nr_throttled in its cpu.stat: a larger quota, or \
                    fewer vCPUs; pinning does not help",
            ),
            by_hand(
                "if there is no quota: an affinity or a cpuset (`taskset -p`, cpuset.cpus) that keeps vCPUs off idle CPUs",
            ),
        ],
        risk: "a VM without a quota takes CPU time from its neighbours".into(),
        payer: WHOEVER.into(),
        undo: "restore the quota".into(),
        acts: "at once".into(),
    }
}

fn short(wanted: f64, cpus: u32) -> AdviceWords {
    AdviceWords {
        title: "Run fewer vCPUs on this host".into(),
        change: format!(
            "run fewer vCPUs on this host, or give it more CPUs: vCPUs run on or wait for {wanted:.1} CPUs, and the host has {cpus}"
        ),
        settings: vec![by_hand("fewer or smaller VMs here, or fewer vCPUs for those that have more than they use")],
        risk: LOWER_PEAK.into(),
        payer: WHOEVER.into(),
        undo: "move the VMs back, or restore their vCPUs".into(),
        acts: "at once where VMs can be moved, else at the next VM start".into(),
    }
}

/// The fact that somebody had the CPU, or nobody.
pub(super) fn had_the_cpu(holder: &CpuHolder) -> String {
    match holder.kind {
        TakerKind::WakingUp => "share of that steal in which the CPU had been idle and was waking up".to_string(),
        TakerKind::Idle => "share of that steal in which the CPU was idle".to_string(),
        _ => format!("share of that steal in which {} had the CPU", holder.label),
    }
}

/// Who had the CPU, within a sentence.
fn had(holder: &CpuHolder) -> &str {
    match holder.kind {
        TakerKind::WakingUp | TakerKind::Idle => "nobody",
        _ => &holder.label,
    }
}

impl Crowd {
    fn title(&self) -> Cow<'static, str> {
        match (self.cpus, self.pinned) {
            (0, _) => "Find out what keeps vCPUs waiting",
            (_, Some(_)) => "Give vCPUs CPUs of their own",
            (_, None) => "Keep other tasks off the vCPUs' CPUs",
        }
        .into()
    }

    fn change(&self) -> String {
        let Crowd { wanted, cpus, .. } = self;
        let taken = match &self.taken {
            Taking::Unknown => String::new(),
            Taking::AfterWakeUps => "; mostly after wake-ups".to_string(),
            Taking::By(name, None) => format!("; {name} preempts them"),
            Taking::By(name, Some(next)) => format!("; {name} preempts them most, then {next}"),
            Taking::Had(first, None) => format!("; while they waited, {} had the CPU", had(first)),
            Taking::Had(first, Some(next)) => {
                format!("; while they waited, {} had the CPU longest, then {}", had(first), had(next))
            }
        };
        if *cpus == 0 {
            return format!(
                "find what keeps vCPUs waiting: they run on or wait for {wanted:.2} CPUs, and the recording does not show how many the \
                 host has{taken}"
            );
        }
        let own = if self.pinned.is_some() { "give vCPUs CPUs of their own, or keep" } else { "keep" };
        format!(
            "{own} other tasks off the vCPUs' CPUs: vCPUs wait although they run on or wait for {wanted:.2} of {cpus} CPUs{taken}"
        )
    }

    /// Of what the settings say: they pin vCPUs, or keep others away.
    fn risk(&self) -> &'static str {
        let has_vcpus = |kind| matches!(kind, TakerKind::OtherVm | TakerKind::SomeVcpu | TakerKind::SameVm);
        match &self.taken {
            _ if self.pinned.is_some() || self.own => PINNED,
            Taking::Had(first, _) if has_vcpus(first.kind) => PINNED,
            _ => "the tasks that are kept off these CPUs have fewer CPUs left",
        }
    }

    fn settings(&self) -> Vec<AdviceSetting> {
        let limits = by_hand(
            "first the limits: cpu.max and cpuset.cpus of the VM's cgroup (libvirt: <cputune>), and its affinity (taskset \
                -p); under a quota, which nr_throttled in cpu.stat shows, pinning does not help",
        );
        let whose = match (self.own, &self.taken) {
            (_, Taking::Had(first, _)) => first.cure(),
            (true, _) => by_hand(OWN_VCPUS),
            (false, Taking::Unknown) => by_hand(TIMEHIST),
            (false, Taking::AfterWakeUps | Taking::By(..)) => by_hand(
                "affinities and cpusets that keep such tasks off the vCPUs' CPUs; a kernel thread bound to a CPU (kworker/CPU:…) cannot be moved",
            ),
        };
        [limits, whose].into_iter().chain(self.pinned.map(pins)).collect()
    }
}

/// A CPU of its own for each of a VM's vCPUs. Which CPUs nobody else needs no recording says: that is to be filled in.
pub(crate) fn pins(vcpus: u64) -> AdviceSetting {
    let pin = |vcpu| format!("<vcpupin vcpu='{vcpu}' cpuset='…'/>");
    let xml = (0..vcpus.clamp(1, PINS)).map(pin).collect::<Vec<String>>().join("\n");
    AdviceSetting::Libvirt { within: "cputune", xml: xml.into() }
}

/// Of virtual cores of powerpc that take turns: of one VM, or of several; on one CPU, or on more.
pub(super) fn turns(of_one_vm: bool, on_one_cpu: bool) -> AdviceWords {
    let apart = "other CPUs that have time left for some of their threads (taskset -p, cpuset.cpus)";
    let fewer = if of_one_vm { "fewer vCPUs for this VM, or more CPUs" } else { "fewer VMs here, or more CPUs" };
    AdviceWords {
        title: "Run fewer virtual cores on a core".into(),
        change: "run fewer virtual cores on a core, or give them more cores: they take turns".into(),
        settings: (!on_one_cpu).then(|| by_hand(apart)).into_iter().chain([by_hand(fewer)]).collect(),
        risk: LOWER_PEAK.into(),
        payer: WHOEVER.into(),
        undo: "restore the affinities and the VMs' vCPUs".into(),
        acts: "affinities at once, fewer vCPUs at the next VM start".into(),
    }
}

/// Of a Xen that takes the long way for every port access.
pub(super) fn newer_xen(release: &str) -> AdviceWords {
    AdviceWords {
        title: "Use Xen 4.1 or later".into(),
        change: format!(
            "use Xen 4.1 or later: {release} emulates every port access, newer ones decode it from the exit"
        ),
        settings: vec![by_hand("Xen 4.1 or later on the host; or PV drivers, which need no ports")],
        risk: "that of updating Xen".into(),
        payer: crate::cures::cure::NOBODY.into(),
        undo: "boot the old Xen".into(),
        acts: "after a restart of the host".into(),
    }
}
