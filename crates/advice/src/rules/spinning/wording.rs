//! What is said of vCPUs that spin and yield.

use super::{ParavirtualLocks, PreemptedHolders};
use crate::cures::cure::{by_hand, qemu};
use crate::cures::vmm_settings::for_vmm;
use crate::evidence::input::Vmm;
use crate::judgement::AdviceWords;
use crate::rules::steal::pins;
use crate::setting::{AdviceSetting, SettingSide};
use exitscope_policy::Knob;

/// Why nothing is said of yields.
pub(super) const UNKNOWN: &str = "the recording does not show which vCPUs ran meanwhile, and which waited";

/// Why nothing is said of vCPUs that may be no siblings.
pub(super) const SEVERAL: &str = "vCPUs of several VMs yield, and the recording does not tell the VMs apart: it does \
    not show whether a sibling had no CPU";

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
pub(super) const OF_HOLDERS: &str = "from 0 to the sum of the yields' CPU time and the time for which siblings \
    yielded to a vCPU without a CPU (this time is also steal)";

/// What the gain of no exits for PAUSE goes by, where nothing says how long vCPUs spin.
pub(super) const OF_SPINNING_ON: &str =
    "from 0 (if vCPUs spin on in the guest for as long) to all the time of these yields";

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
                    "paravirtual spinlocks (KVM_FEATURE_PV_UNHALT) are for a guest kernel without nopvspin: a vCPU \
                     that waits halts instead of spinning, and one that releases the lock wakes the next; a Linux \
                     guest leaves them out with kvm-hint-dedicated",
                ),
            ],
            ParavirtualLocks::Xen => vec![by_hand(
                "a guest kernel without xen_nopvspin: a vCPU that waits for a lock then blocks instead of spinning",
            )],
        }
    }
}

/// The same for one VM alone.
const OF_ONE_VM: [AdviceSetting; 2] = [
    qemu("-overcommit cpu-pm=on"),
    by_hand("cpu-pm=on does it for one VM, and lets it halt the CPU itself as well: only with a CPU for each vCPU"),
];

/// No exits for PAUSE, or a longer window, to be tried. `ple_gap`, `ple_window` (arch/x86/kvm/vmx/vmx.c) and `pause_filter_count`
/// (arch/x86/kvm/svm/svm.c) are of mode 0444: they are set when the module is loaded, by any kernel.
pub(super) fn try_spinning(off: &'static Knob, window: &'static Knob, longer: u64) -> AdviceWords {
    let (off_name, name) = (off.name, window.name);
    let mut settings = vec![AdviceSetting::Knob { side: SettingSide::Host, knob: off, value: 0 }];
    settings.extend(OF_ONE_VM);
    settings.push(AdviceSetting::ByHand(
        format!("or fewer of them, by a longer window: {name}={longer} ({} by default)", window.text(window.default))
            .into(),
    ));
    settings.push(by_hand(
        "`exitscope try` sets neither, as both are read when the module is loaded: record before and after, and compare by `exitscope diff`",
    ));
    settings.push(by_hand(
        "either way the guest's locks stay contended: in a Linux guest `perf lock contention -ab sleep 10` names them",
    ));
    AdviceWords {
        change: format!(
            "the guest's locks are contended while all its vCPUs run: try without PAUSE exits ({off_name}=0), or with \
             fewer; the recording does not show how long vCPUs spin, so neither was replayed"
        ),
        settings,
        ..spin_longer(SettingSide::Host, off, 0)
    }
}

/// A longer window of PAUSE loops, or none; or of a guest, lock code that looks more often before it yields.
pub(super) fn spin_longer(side: SettingSide, knob: &'static Knob, value: u64) -> AdviceWords {
    let is_guests = side == SettingSide::Guest;
    let off = value == 0 && !is_guests;
    let mut settings = vec![AdviceSetting::Knob { side, knob, value }];
    if off {
        settings.extend(OF_ONE_VM);
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
