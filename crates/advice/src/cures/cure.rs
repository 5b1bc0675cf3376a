//! What can be done about what a guest asks for too often: what a row of the tables of cures says.

use super::passed_msrs::PassedMsr;
use crate::setting::AdviceSetting;
use exitscope_analysis::SubjectKey;
use exitscope_model::{KvmActivity, SubjectKind};
use exitscope_policy::Knob;
use std::borrow::Cow;

/// A device, or a group of registers, that guests ask for.
#[derive(Debug)]
pub(crate) struct ExitSource {
    pub kind: SubjectKind,
    /// First and last port, address, MSR or leaf.
    pub range: (u64, u64),
    /// Rows of the same name are one source.
    pub name: &'static str,
    /// Whether only QEMU has it there: of other VMs nothing says what it is.
    pub of_qemu: bool,
    pub answer: Remedy,
}

/// What to do about it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Remedy {
    /// A change.
    Cure(&'static Cure),
    /// Nothing, for this reason.
    Leave(&'static str),
    /// Nobody can say, for this reason.
    Unjudged(&'static str),
    /// An MSR that KVM lets guests reach without an exit: that there are exits has few reasons.
    Passed(&'static PassedMsr),
}

/// When a change helps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CureCondition {
    /// Whoever answers.
    Always,
    /// Where user space answers: the exits go away.
    Outside,
    /// Where user space answers: the kernel then does.
    ByMovingIn,
}

/// What is won at least; at most it is all the time of the exits.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Least {
    /// Their time, without what long ones take beyond the median: nothing asks for it any more.
    All,
    /// The same, without those that stay, or in whose place others come: so many for each exit about this. The text says why, as a
    /// range.
    But(fn(&SubjectKey) -> u64, &'static str),
    /// What they take longer than exits that the kernel answers: as many of those come at worst. The text says why, as a range.
    InKernel(&'static str),
    /// Nothing: this says why, as a range.
    Nothing(&'static str),
}

/// When a change acts, and how it is undone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Acts {
    /// A VM's configuration.
    AtStart,
    /// In the guest.
    InGuest,
    /// Parameters of the host's module, beside other lines.
    WithModule,
    /// What is written on the host, or is on its command line.
    AtHost,
    /// What is found by looking.
    ByLooking,
}

/// A switch of the host's that a change is about, on Intel's or on AMD's processors.
#[derive(Debug)]
pub(crate) struct Switch {
    pub module: &'static str,
    pub knob: &'static Knob,
    /// What is to be done if it is on, and there are these exits all the same.
    pub on: &'static str,
    /// Signs by which a VM shows that it was off, or the processor cannot.
    pub off: &'static [KvmActivity],
    /// Whether it does nothing while something inhibits a VM's virtual APIC.
    pub of_apic: bool,
}

/// A change that makes a guest ask less often, or less dearly.
#[derive(Debug)]
pub(crate) struct Cure {
    /// The change as a short imperative, without its conditions.
    pub title: &'static str,
    pub change: &'static str,
    /// What must be on at the host; whether it is, is asked of the recording.
    pub switches: &'static [Switch],
    pub settings: &'static [AdviceSetting],
    /// The same for a guest of Xen's, if it is not what the settings say of the guest alone.
    pub xen: &'static str,
    /// When it helps.
    pub helps: CureCondition,
    pub least: Least,
    pub acts: Acts,
    pub risk: &'static str,
    pub payer: &'static str,
}

impl Cure {
    /// What is to be set for a guest of Xen's; nothing if there is no such change on Xen.
    pub fn for_xen(&self) -> Vec<AdviceSetting> {
        let of_guest =
            |setting: &&AdviceSetting| matches!(setting, AdviceSetting::ByHand(_) | AdviceSetting::GuestBoot(_));
        match self.xen {
            "" => self.settings.iter().filter(of_guest).cloned().collect(),
            xen => vec![by_hand(xen)],
        }
    }
}

pub(crate) const NOBODY: &str = "nobody";

/// A guest that asks less often, but for how: nothing of the host's changes that, and nobody knows how much it can do without.
pub(crate) const IN_GUEST: Cure = Cure {
    title: "",
    change: "",
    switches: &[],
    settings: &[],
    xen: "",
    helps: CureCondition::Always,
    least: LESS_OFTEN,
    acts: Acts::InGuest,
    risk: "none",
    payer: NOBODY,
};

/// Why the least gain of a change is nothing.
pub(crate) const LESS: &str =
    "from 0 (the recording does not show how many of them the guest can do without) to all their time";
pub(crate) const LESS_OFTEN: Least = Least::Nothing(LESS);
pub(crate) const WITH_HARDWARE: Least =
    Least::Nothing("from 0 (if the processor or a setting keeps each access an exit) to all their time");
pub(crate) const REPLACES: &str = "from 0 (what replaces it may need as many exits) to all their time";
pub(crate) const REPLACED: Least = Least::Nothing(REPLACES);

pub(crate) const fn libvirt(within: &'static str, xml: &'static str) -> AdviceSetting {
    AdviceSetting::Libvirt { within, xml: Cow::Borrowed(xml) }
}

pub(crate) const fn qemu(option: &'static str) -> AdviceSetting {
    AdviceSetting::Qemu(Cow::Borrowed(option))
}

pub(crate) const fn by_hand(text: &'static str) -> AdviceSetting {
    AdviceSetting::ByHand(Cow::Borrowed(text))
}

pub(crate) const fn memory(first: u64, last: u64, name: &'static str, answer: Remedy) -> ExitSource {
    ExitSource { kind: SubjectKind::Mmio, range: (first, last), name, of_qemu: false, answer }
}

/// The same, where QEMU alone has it there.
pub(crate) const fn of_qemu(row: ExitSource) -> ExitSource {
    ExitSource { kind: row.kind, range: row.range, name: row.name, of_qemu: true, answer: row.answer }
}
