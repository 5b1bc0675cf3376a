//! What is said of halt polling, the host's and the guest's.

use super::PollLimitChange;
use crate::cures::cure::by_hand;
use crate::cures::guest_polling::TAKES_CPUS;
use crate::cures::halt_poll_scope::halt_poll_reach;
use crate::cures::vmm_settings::for_vmm;
use crate::evidence::input::Vmm;
use crate::judgement::AdviceWords;
use crate::setting::{AdviceSetting, SettingSide};
use exitscope_policy::Knob;
use exitscope_units::Nanos;

/// How a setting of the host is undone.
pub(crate) const RESTORE: &str = "exitscope advise --undo, or write the old value back";

/// Why longer polls of the host are not advised.
pub(super) const UNDER_A_QUOTA: &str =
    "longer polls would use up a quota of CPU time: CPUs were left idle while vCPUs were runnable";
pub(super) const CPUS_SHORT: &str = "polling would not shorten the way from a wake-up to the guest: vCPUs wait for CPUs, and KVM does not \
    poll while another task wants its CPU";
pub(super) const NONE_PAYS: &str =
    "the guest itself halts that often; no other halt_poll_ns that was replayed would pay";

/// Why the host's polling is not judged.
pub(super) const GUEST_SWITCHED_IT_OFF: &str =
    "a guest switched it off for itself (MSR_KVM_POLL_CONTROL): no setting of the host changes that";
pub(super) const LIMIT_UNKNOWN: &str = "the recording does not show halt_poll_ns, so no other value is replayed; \
    KVM's decisions show at best between which values it was (`report --view halt`), and \
    /sys/module/kvm/parameters/halt_poll_ns shows it";
pub(super) const ANOTHER_LIMIT: &str =
    "KVM decided by another limit than halt_poll_ns: the VMM's own (KVM_CAP_HALT_POLL), or it was changed";
pub(super) const NEVER_POLLED: &str = "KVM polled for no halt although halt_poll_ns is longer than many were: a guest that switched it off before the \
    recording (MSR_KVM_POLL_CONTROL), or the VMM's own limit (KVM_CAP_HALT_POLL)";

/// What recordings lack.
pub(super) const NO_ENDS: &str = "the recording has no kvm_vcpu_wakeup";
pub(super) const NO_POLLS: &str =
    "the recording has no kvm_halt_poll_ns and no sched_switch, which show what KVM's polls took";
pub(super) const BY_RUNNER: &str = "on powerpc halts are virtual cores', and no thread's sleep is taken for one";
pub(super) const NO_WAKEUPS: &str = "the recording has no sched_wakeup, which shows when vCPUs were woken";
pub(super) const GUEST_POLLED: &str =
    "the guest polled: gaps that its polls ended left no trace; set guest_halt_poll_ns=0 in it meanwhile";
pub(super) const HALTS_UNTRIED: &str = "there were more halts than are kept to try it on";

/// Polling is CPU time, which a quota of the VM's cgroup counts; no event tells of a quota.
const QUOTA: &str = "only if cpu.max of the VM's cgroup is max (libvirt: no <quota> in <cputune>): polling uses up a \
    quota, and the recording does not show whether there is one";

const GOVERNOR: &str = "only if /sys/devices/system/cpu/cpuidle/current_governor in the guest is not already haltpoll \
    with a longer guest_halt_poll_ns: the recording does not show it";

/// A change of halt polling, as it is worded.
pub(super) struct PollWords<'a> {
    pub what: PollLimitChange,
    pub knob: &'static Knob,
    pub value: u64,
    /// The host's limit before, and whether the recording says so itself.
    pub was: Option<(Nanos, bool)>,
    /// Halts that polls would have ended.
    pub caught: u64,
    /// What it costs in each second: polling, or later wake-ups.
    pub price: Nanos,
    /// The kernel's.
    pub release: &'a str,
}

impl PollWords<'_> {
    pub fn words(&self, vmm: &Vmm) -> AdviceWords {
        match self.what {
            PollLimitChange::LongerHost => self.longer_host(),
            PollLimitChange::ShorterHost => self.shorter_host(),
            PollLimitChange::Guest => self.guest(vmm),
        }
    }

    fn longer_host(&self) -> AdviceWords {
        let caught = self.caught;
        AdviceWords {
            change: format!("lengthen host halt polling: {} would end {caught} halts before they block", self.set_to()),
            settings: vec![self.set(SettingSide::Host), by_hand(QUOTA)],
            risk: "KVM stops polling when another task wants the CPU, so that only power and \
                hyperthreads suffer; it acts on all VMs"
                .into(),
            payer: self.more_polling().into(),
            undo: RESTORE.into(),
            acts: halt_poll_reach(self.release).text().into(),
        }
    }

    fn shorter_host(&self) -> AdviceWords {
        let verb = if self.value == 0 { "disable" } else { "shorten" };
        AdviceWords {
            change: format!("{verb} host halt polling: {}; most polling time is in failed polls", self.set_to()),
            settings: vec![self.set(SettingSide::Host)],
            risk: "latencies of workloads that were not in this recording; it acts on all VMs".into(),
            payer: format!("the guests: wake-ups later by {} in each second, all together", self.price).into(),
            undo: RESTORE.into(),
            acts: halt_poll_reach(self.release).text().into(),
        }
    }

    fn guest(&self, vmm: &Vmm) -> AdviceWords {
        let (name, value, caught) = (self.knob.name, self.knob.text(self.value), self.caught);
        let settings = vec![
            AdviceSetting::Module { side: SettingSide::Guest, name: "cpuidle-haltpoll", parameters: "force=1" },
            self.set(SettingSide::Guest),
            AdviceSetting::Libvirt { within: "features/kvm", xml: "<poll-control state='on'/>".into() },
            AdviceSetting::Qemu("-cpu …,kvm-poll-control=on".into()),
            by_hand(GOVERNOR),
            by_hand(QUOTA),
        ];
        AdviceWords {
            change: format!(
                "let the guest poll before it halts, instead of KVM for it: {name}={value} would have avoided {caught} of the exits for \
                 halts, and with each a wake-up or a poll of KVM's"
            ),
            settings: for_vmm(vmm, settings),
            risk: format!(
                "{TAKES_CPUS}; gaps are replayed unchanged, and a guest that is answered sooner may ask sooner"
            )
            .into(),
            payer: self.more_polling().into(),
            undo: "in the guest: write the old value back, or modprobe -r cpuidle-haltpoll".into(),
            acts: "at once, in the guest in which it is set; the guest's driver switches KVM's own polling \
                off for it where the host offers that (poll-control)"
                .into(),
        }
    }

    fn set(&self, side: SettingSide) -> AdviceSetting {
        AdviceSetting::Knob { side, knob: self.knob, value: self.value }
    }

    /// `halt_poll_ns=50us (it was 200us)`.
    fn set_to(&self) -> String {
        let was = match self.was {
            Some((limit, true)) => format!(" (it was {limit})"),
            Some((limit, false)) => format!(" (it was {limit}, as KVM's decisions show)"),
            None => String::new(),
        };
        format!("{}={}{was}", self.knob.name, self.knob.text(self.value))
    }

    fn more_polling(&self) -> String {
        let cpus = self.price.0 as f64 / 1e9;
        format!(
            "the host's CPUs: {} more polling in each second, {cpus:.2} CPUs; sibling hyperthreads feel it",
            self.price
        )
    }
}
