//! A single thing to set, on a host, in a guest or in a VM's configuration.

use exitscope_policy::Knob;
use std::borrow::Cow;

/// Whose system a setting is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SettingSide {
    /// The host's.
    Host,
    /// The guest's.
    Guest,
}

/// A single thing to set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AdviceSetting {
    /// A knob of the kernel.
    Knob {
        /// Whose kernel.
        side: SettingSide,
        /// Which one.
        knob: &'static Knob,
        /// Its value.
        value: u64,
    },
    /// A module that must be loaded, with these parameters.
    Module {
        /// Whose kernel.
        side: SettingSide,
        /// Its name.
        name: &'static str,
        /// `name=value`, with blanks between.
        parameters: &'static str,
    },
    /// An element of libvirt's domain XML.
    Libvirt {
        /// The elements below `<domain>` that it is in, with slashes between.
        within: &'static str,
        /// The element.
        xml: Cow<'static, str>,
    },
    /// An option of QEMU's.
    Qemu(Cow<'static, str>),
    /// Words of the guest kernel's command line.
    GuestBoot(&'static str),
    /// What no file takes: for a person.
    ByHand(Cow<'static, str>),
    /// Another of these, to be set where this holds, which the recording does not say.
    When {
        /// What has to hold.
        condition: SettingCondition,
        /// What is then to be set.
        set: &'static AdviceSetting,
    },
}

impl AdviceSetting {
    /// What is set, and on which condition alone.
    pub fn parts(&self) -> (&AdviceSetting, Option<SettingCondition>) {
        match self {
            AdviceSetting::When { condition, set } => (set, Some(*condition)),
            _ => (self, None),
        }
    }
}

/// What has to hold of a guest or its host, where that is not in a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SettingCondition {
    /// It is Linux.
    LinuxGuest,
    /// It is Windows.
    WindowsGuest,
    /// It keeps time with another clock.
    OtherClock,
    /// Its VM has a virtio console.
    VirtioConsole,
    /// The host's processors are Intel's.
    IntelHost,
    /// The host balances memory between its nodes.
    NumaBalancing,
    /// The host merges equal pages.
    Ksm,
    /// The host makes huge pages of small ones.
    HugePages,
    /// The host's KVM offers a mediated PMU, which is off.
    MediatedPmu,
}

impl SettingCondition {
    /// As the beginning of a sentence.
    pub fn text(self) -> &'static str {
        match self {
            SettingCondition::LinuxGuest => "for a Linux guest",
            SettingCondition::WindowsGuest => "for a Windows guest",
            SettingCondition::OtherClock => "once the guest keeps time with another clock",
            SettingCondition::VirtioConsole => "once the VM has a virtio console",
            SettingCondition::IntelHost => "on Intel's processors",
            SettingCondition::NumaBalancing => "where NUMA balancing is on",
            SettingCondition::Ksm => "where KSM runs",
            SettingCondition::HugePages => "where khugepaged runs",
            SettingCondition::MediatedPmu => "as the mediated PMU of this kernel was off",
        }
    }
}
