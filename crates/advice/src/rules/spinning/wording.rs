//! What is said of vCPUs that spin and yield.

use super::{ParavirtualLocks, PreemptedHolders};
use crate::cures::cure::by_hand;
use crate::cures::vmm_settings::for_vmm;
use crate::evidence::input::Vmm;
use crate::judgement::AdviceWords;
use crate::rules::steal::pins;
use crate::setting::{AdviceSetting, SettingSide};
use exitscope_policy::Knob;

/// Why nothing is said of yields.
pub(super) const UNKNOWN: &str = "the recording does not say which vCPUs ran meanwhile, and which waited";

/// Why nothing is said of vCPUs that may be no siblings.
pub(super) const SEVERAL: &str = "vCPUs of several VMs, which the recording does not tell apart, yield: whether a sibling had no CPU, it does not say";

/// Why nothing is said of a few.
pub(super) const FEW: &str = "its vCPUs yield fewer than 500 times a second: no rule looks at so few";

/// Why nothing is said of a VM of one vCPU.
pub(super) const ALONE: &str = "its only vCPU yields: no rule looks at that";

/// Why nothing is to be done about yields on machines where the host has no part in how long vCPUs spin.
pub(super) const CONTENDED: &str =
    "the guest's locks are contended while all its vCPUs run: only the guest can change that";

/// Why nothing is said of some that take little time.
pub(super) const LITTLE: &str = "yields take less than a hundredth of the vCPUs' time: no rule looks at so little";
pub(super) const YIELDS_UNTRIED: &str = "there were more yields than are kept to try them on";
pub(super) const CONTENDED_AND_UNTRIED: &str = "the guest's locks are contended while all its vCPUs run; the recording does not tell how long they spin, so \
    that other windows of their PAUSE loops were not tried";
pub(super) const CONTENDED_AND_TRIED: &str = "the guest's locks are contended while all its vCPUs run, and other windows of its PAUSE loops would not have \
    won anything beyond doubt: only the guest can change that";

/// What the gain of lock holders that keep running goes by.
pub(super) const OF_HOLDERS: &str = "from nothing to the sum of CPU time of yields and time that siblings yielded for a vCPU without a CPU, which is steal, too";

impl PreemptedHolders {
    pub(super) fn words(&self, vmm: &Vmm) -> AdviceWords {
        let mut settings = vec![by_hand("fewer vCPUs for this VM, or a CPU for each: a lock's holder then runs")];
        settings.extend(self.pinned.map(pins));
        settings.extend(self.locks.settings());
        if self.undirected {
            settings.push(by_hand(
                "a guest kernel that names the holder: recent ones of Linux give X'9C' instead of X'44'",
            ));
        }
        AdviceWords {
            change:
                "keep lock holders running: vCPUs spin while others of the same VM, one of which may hold the lock, \
                wait for a CPU"
                    .into(),
            settings: for_vmm(vmm, settings),
            risk: match self.locks {
                ParavirtualLocks::Kvm | ParavirtualLocks::Xen => {
                    "fewer vCPUs are a lower peak; paravirtual locks cost a little where CPUs are not short"
                }
                ParavirtualLocks::None | ParavirtualLocks::On => "fewer vCPUs are a lower peak",
            }
            .into(),
            payer: "neighbours, where vCPUs get CPUs of their own".into(),
            undo: "give the VM its vCPUs and its affinity back".into(),
            acts: "affinities at once, the rest at the next VM start".into(),
        }
    }
}

impl ParavirtualLocks {
    fn settings(self) -> Vec<AdviceSetting> {
        match self {
            ParavirtualLocks::None => Vec::new(),
            ParavirtualLocks::On => vec![by_hand(
                "its paravirtual spinlocks are on, as hypercalls that wake a waiter (KVM_HC_KICK_CPU) show",
            )],
            ParavirtualLocks::Kvm => vec![
                AdviceSetting::Libvirt { within: "features", xml: "<pvspinlock state='on'/>".into() },
                AdviceSetting::Qemu("-cpu …,kvm-pv-unhalt=on,kvm-pv-sched-yield=on".into()),
                by_hand(
                    "paravirtual spinlocks (KVM_FEATURE_PV_UNHALT) are for a guest kernel without nopvspin: who waits halts instead of \
                     spinning, and who gives the lock back wakes the next one; a Linux guest leaves them out with kvm-hint-dedicated",
                ),
            ],
            ParavirtualLocks::Xen => vec![by_hand(
                "a guest kernel without xen_nopvspin: who waits for a lock then blocks instead of spinning",
            )],
        }
    }
}

/// A longer window of PAUSE loops, or none; or of a guest, lock code that looks more often before it yields.
pub(super) fn spin_longer(side: SettingSide, knob: &'static Knob, value: u64) -> AdviceWords {
    let is_guests = side == SettingSide::Guest;
    let off = value == 0 && !is_guests;
    let mut settings = vec![AdviceSetting::Knob { side, knob, value }];
    if off {
        settings.extend([
            AdviceSetting::Qemu("-overcommit cpu-pm=on".into()),
            by_hand(
                "cpu-pm=on does it for one VM, and lets it halt the CPU itself as well: only with a CPU for each vCPU",
            ),
        ]);
    }
    let name = knob.name;
    AdviceWords {
        change: match off {
            true => format!("disable PAUSE exits ({name}=0): under 10% of yields find a preempted sibling"),
            false => format!(
                "let vCPUs spin longer before they yield ({name}={}): under 10% of yields find a preempted sibling",
                knob.text(value)
            ),
        },
        settings,
        risk: match off {
            true => "once vCPUs have to share CPUs, spinning ones no longer make way; it acts on all VMs",
            false => "once vCPUs have to share CPUs, spinning ones make way later; it acts on all VMs",
        }
        .into(),
        payer: "VMs that share their CPUs".into(),
        undo: if is_guests { "write the old value back" } else { "remove the parameter and reload the module" }.into(),
        acts: match is_guests {
            true => "at once, in the guest in which it is set",
            false => "when the module is reloaded, with no VM running",
        }
        .into(),
    }
}
