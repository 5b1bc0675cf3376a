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
pub(super) const CPUS_SHORT: &str = "polling would not bring wake-ups forward: vCPUs wait for CPUs, and KVM does not poll while another task \
    wants the CPU";
pub(super) const NONE_PAYS: &str =
    "the guest itself halts that often, and in a replay no other halt_poll_ns gains more than it costs";

/// Why the host's polling is not judged.
pub(super) const GUEST_SWITCHED_IT_OFF: &str =
    "the guest switched KVM's halt polling off (MSR_KVM_POLL_CONTROL): no setting of the host changes that";
pub(super) const LIMIT_UNKNOWN: &str = "the recording does not show halt_poll_ns, so no other value is replayed; KVM's decisions at best \
    bound it (`report --view halt`), and /sys/module/kvm/parameters/halt_poll_ns has it";
pub(super) const ANOTHER_LIMIT: &str = "KVM's decisions do not follow halt_poll_ns: the VMM set a limit of its own (KVM_CAP_HALT_POLL), or \
    halt_poll_ns was changed";
pub(super) const NEVER_POLLED: &str = "KVM polled at no halt, although many halts were shorter than halt_poll_ns: the guest switched polling \
    off before the recording (MSR_KVM_POLL_CONTROL), or the VMM set a limit of its own (KVM_CAP_HALT_POLL)";

/// What recordings lack.
pub(super) const NO_ENDS: &str = "the recording has no kvm_vcpu_wakeup";
pub(super) const NO_POLLS: &str =
    "the recording has no kvm_halt_poll_ns and no sched_switch, which show how long KVM polled";
pub(super) const BY_RUNNER: &str =
    "on powerpc a whole virtual core halts, so exitscope does not count the sleep of one thread as a halt";
pub(super) const NO_WAKEUPS: &str = "the recording has no sched_wakeup, which shows when vCPUs were woken";
pub(super) const GUEST_POLLED: &str = "the guest polled, and waits that its polls ended left no trace; record again with guest_halt_poll_ns=0 in the guest";
pub(super) const HALTS_UNTRIED: &str = "there were more halts than are kept for a replay";

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
            title: "Lengthen host halt polling".into(),
            change: format!("lengthen host halt polling: {} would end {caught} halts before they block", self.set_to()),
            settings: vec![self.set(SettingSide::Host), by_hand(QUOTA)],
            risk: "polling takes power, and slows the sibling hyperthreads; KVM stops polling when another task wants the CPU; \
                it acts on all VMs"
                .into(),
            payer: self.more_polling().into(),
            undo: RESTORE.into(),
            acts: halt_poll_reach(self.release).text().into(),
        }
    }

    fn shorter_host(&self) -> AdviceWords {
        let verb = if self.value == 0 { "disable" } else { "shorten" };
        AdviceWords {
            title: if self.value == 0 { "Switch host halt polling off" } else { "Shorten host halt polling" }.into(),
            change: format!("{verb} host halt polling: {}; most polling time is in failed polls", self.set_to()),
            settings: vec![self.set(SettingSide::Host)],
            risk: "workloads that were not in this recording may gain from longer polls; it acts on all VMs".into(),
            payer: format!("the guests: their wake-ups come later, by {} in each second in total", self.price).into(),
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
            title: "Let the guest poll before it halts".into(),
            change: format!(
                "let the guest poll before it halts, in place of KVM: {name}={value} would have avoided {caught} of the exits for halts, \
                 each with a wake-up or a poll by KVM"
            ),
            settings: for_vmm(vmm, settings),
            risk: format!(
                "{TAKES_CPUS}; the replay keeps the waits as they were, but a guest that is woken earlier may halt earlier again"
            )
            .into(),
            payer: self.more_polling().into(),
            undo: "in the guest: write the old value back, or modprobe -r cpuidle-haltpoll".into(),
            acts: "at once, in the guest where it is set; its driver switches KVM's own polling for this guest off \
                where the host offers that (poll-control)"
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
            "the host's CPUs: {} more polling in each second ({cpus:.2} CPUs), which also slows sibling hyperthreads",
            self.price
        )
    }
}
