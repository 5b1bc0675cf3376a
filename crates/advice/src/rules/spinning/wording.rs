//! What is said of vCPUs that spin and yield.

use super::{ParavirtualLocks, PreemptedHolders};
use crate::cures::cure::{by_hand, qemu};
use crate::cures::vmm_settings::for_vmm;
use crate::evidence::input::Vmm;
use crate::judgement::AdviceWords;
use crate::rules::steal::{LOWER_PEAK, pins};
use crate::setting::{AdviceSetting, SettingSide};
use exitscope_policy::Knob;

/// Why nothing is said of yields.
pub(super) const UNKNOWN: &str =
    "the recording does not show whether a sibling was waiting for a CPU when a vCPU yielded";

/// Why nothing is said of vCPUs that may be no siblings.
pub(super) const SEVERAL: &str = "vCPUs of several VMs yield, and the recording does not tell the VMs apart, so it is \
    not known which vCPUs are siblings";

/// Why nothing is said of a few.
pub(super) const FEW: &str = "the VM's vCPUs yield fewer than 500 times a second: no rule looks at so few";

/// Why nothing is said of a VM of one vCPU.
pub(super) const ALONE: &str = "the VM has only one vCPU, so a yield waits for no sibling: no rule looks at that";

/// What a VM's yields show that seldom find a preempted sibling. A loop with PAUSE need not be a lock's: Linux spins so on other CPUs'
/// answers, too (`csd_lock_wait` of kernel/smp.c).
macro_rules! seldom_found {
    ($so:literal) => {
        concat!(
            "under 10% of yields find a preempted sibling, so its vCPUs mostly spin on something else than a preempted lock holder, as \
             on a contended lock",
            $so
        )
    };
}

/// Why nothing is to be done about yields on machines where the host has no part in how long vCPUs spin.
pub(super) const CONTENDED: &str = seldom_found!(": only the guest can change that");

/// The same on arm64: `kvm_vcpu_should_clear_twe` of arch/arm64/kvm/arm.c.
pub(super) const CONTENDED_ON_ARM64: &str = seldom_found!(
    ": only the guest can change that; KVM traps WFE only where the CPU has another task to run, or as the host's command line says by \
     kvm-arm.wfe_trap_policy= (Linux 6.12 has it)"
);

/// Why nothing is said of some that take little time.
pub(super) const LITTLE: &str = "yields take less than 1 % of the vCPUs' time: no rule looks at so little";
pub(super) const YIELDS_UNTRIED: &str = "there were more yields than are kept for a replay";
pub(super) const CONTENDED_AND_UNTRIED: &str = seldom_found!(
    "; the recording does not show how long they spin, so other windows of PAUSE loops were not replayed"
);
pub(super) const CONTENDED_AND_TRIED: &str = seldom_found!(
    "; in a replay no other window of PAUSE loops gains anything for certain: only the guest can change that"
);

/// What the gain of lock holders that keep running goes by.
pub(super) const OF_HOLDERS: &str = "from 0 to the CPU time of the yields plus the time from a sibling's first yield until the preempted \
    vCPU ran again, which is steal of that vCPU";

/// What the gain of no exits for PAUSE goes by, where nothing says how long vCPUs spin.
pub(super) const OF_SPINNING_ON: &str =
    "from 0 (if vCPUs spin in the guest for as long instead) to all the time of these yields";

impl PreemptedHolders {
    pub(super) fn words(&self, vmm: &Vmm) -> AdviceWords {
        let mut settings =
            vec![by_hand("fewer vCPUs for this VM, or a CPU for each, so that a lock's holder keeps running")];
        settings.extend(self.pinned.map(pins));
        settings.extend(self.locks.settings());
        if self.undirected {
            settings.push(by_hand(
                "a guest kernel that names the lock's holder when it yields, by X'9C': Linux from 5.5 on gives no X'44', and since late 2006 its \
                 lock code gives it only where the hypervisor has no X'9C'",
            ));
        }
        AdviceWords {
            title: "Keep lock holders running".into(),
            change:
                "keep lock holders running: vCPUs spin while a sibling, which may hold the lock, waits for a CPU"
                    .into(),
            settings: for_vmm(vmm, settings),
            risk: match self.locks {
                ParavirtualLocks::Kvm | ParavirtualLocks::Xen => {
                    "with fewer vCPUs the VM can do less at its peak; paravirtual locks cost a little where CPUs are not short"
                }
                ParavirtualLocks::None | ParavirtualLocks::On => LOWER_PEAK,
            }
            .into(),
            payer: "neighbours, where vCPUs get CPUs of their own".into(),
            undo: "restore the VM's vCPUs and affinities".into(),
            acts: "affinities at once, the rest at the next VM start".into(),
        }
    }
}

impl ParavirtualLocks {
    fn settings(self) -> Vec<AdviceSetting> {
        match self {
            ParavirtualLocks::None => Vec::new(),
            ParavirtualLocks::On => vec![by_hand(
                "its guest has paravirtual spinlocks already: its KVM_HC_KICK_CPU hypercalls wake vCPUs that wait for a lock",
            )],
            ParavirtualLocks::Kvm => vec![
                AdviceSetting::Libvirt { within: "features", xml: "<pvspinlock state='on'/>".into() },
                AdviceSetting::Qemu("-cpu …,kvm-pv-unhalt=on,kvm-pv-sched-yield=on".into()),
                by_hand(
                    "with paravirtual spinlocks (KVM_FEATURE_PV_UNHALT) a vCPU that waits for a lock halts instead of spinning, and the one \
                     that releases it wakes the next; a Linux guest does not use them with nopvspin on its command line, or with \
                     kvm-hint-dedicated=on",
                ),
            ],
            ParavirtualLocks::Xen => vec![by_hand(
                "a guest kernel without nopvspin (xen_nopvspin in older ones) on its command line: a vCPU that waits for a lock then blocks instead of spinning",
            )],
        }
    }
}

/// The same for one VM alone.
const OF_ONE_VM: [AdviceSetting; 2] = [
    qemu("-overcommit cpu-pm=on"),
    by_hand(
        "cpu-pm=on disables PAUSE exits for one VM alone, but also its exits for halts: the guest then idles on the CPU itself, so only \
         where each vCPU has a CPU of its own",
    ),
];

/// No exits for PAUSE, or a longer window, to be tried. `ple_gap`, `ple_window` (arch/x86/kvm/vmx/vmx.c) and `pause_filter_count`
/// (arch/x86/kvm/svm/svm.c) are of mode 0444: they are set when the module is loaded, by any kernel.
pub(super) fn try_spinning(off: &'static Knob, window: &'static Knob, longer: u64) -> AdviceWords {
    let (off_name, name) = (off.name, window.name);
    let mut settings = vec![AdviceSetting::Knob { side: SettingSide::Host, knob: off, value: 0 }];
    settings.extend(OF_ONE_VM);
    settings.push(AdviceSetting::ByHand(
        format!(
            "or make PAUSE exits fewer by a longer window: {name}={longer} ({} by default)",
            window.text(window.default)
        )
        .into(),
    ));
    settings.push(by_hand(
        "`exitscope try` sets neither, as both are read when the module is loaded: record before and after, and compare with `exitscope diff`",
    ));
    settings.push(by_hand(
        "either way the guest spins on: in a Linux guest `perf lock contention -ab sleep 10` names contended locks, and `perf top` \
         shows what else spins",
    ));
    AdviceWords {
        title: "Try fewer PAUSE exits, or none".into(),
        change: format!(
            "try without PAUSE exits ({off_name}=0), or with fewer: under 10% of yields find a preempted sibling; the recording does not \
             show how long vCPUs spin, so neither was replayed"
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
        title: if off { "Switch PAUSE exits off" } else { "Let vCPUs spin longer before they yield" }.into(),
        change: match off {
            true => format!("disable PAUSE exits ({name}=0): under 10% of yields find a preempted sibling"),
            false => format!(
                "let vCPUs spin longer before they yield ({name}={}): under 10% of yields find a preempted sibling",
                knob.text(value)
            ),
        },
        settings,
        risk: match off {
            true => "where vCPUs have to share CPUs, spinning ones no longer make way; it acts on all VMs",
            false => "where vCPUs have to share CPUs, spinning ones make way later; it acts on all VMs",
        }
        .into(),
        payer: "VMs that share their CPUs".into(),
        undo: if is_guests { "write the old value back" } else { "remove the parameter and reload the module" }.into(),
        acts: match is_guests {
            true => "at once, in the guest where it is set",
            false => "when the module is reloaded, with no VM running",
        }
        .into(),
    }
}
