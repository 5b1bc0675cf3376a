//! Which settings a VMM can take.

use super::cure::by_hand;
use crate::evidence::input::Vmm;
use crate::setting::{AdviceSetting, SettingCondition};
use exitscope_model::QemuOptions;

/// Of settings, those that the VMM can take: QEMU's and libvirt's lines are QEMU's, and where nothing says that it is QEMU, that
/// is said first.
pub(crate) fn for_vmm(vmm: &Vmm, settings: Vec<AdviceSetting>) -> Vec<AdviceSetting> {
    if !settings.iter().any(is_qemus) {
        return settings;
    }
    let mut kept = match vmm {
        Vmm::Qemu(options) => {
            let Some(had) = in_force(options, &settings) else { return settings };
            vec![AdviceSetting::ByHand(format!("on QEMU's command line already: {had}").into())]
        }
        Vmm::Other(name) => vec![AdviceSetting::ByHand(
            format!("its threads are called {name}, so its VMM is not QEMU: see what that VMM offers instead").into(),
        )],
        Vmm::Unknown => vec![by_hand(IF_QEMU)],
    };
    // What needs a device that nothing adds is left out with the lines that would add it.
    let needs_device =
        |of: &AdviceSetting| matches!(vmm, Vmm::Other(_)) && of.parts().1 == Some(SettingCondition::VirtioConsole);
    let may_be_qemus = *vmm == Vmm::Unknown;
    kept.extend(settings.into_iter().filter(|of| (may_be_qemus || !is_qemus(of)) && !needs_device(of)));
    kept
}

/// Whether a setting is a line for QEMU, or for libvirt, which makes one of it.
pub(crate) fn is_qemus(setting: &AdviceSetting) -> bool {
    matches!(setting.parts().0, AdviceSetting::Qemu(_) | AdviceSetting::Libvirt { .. })
}

/// QEMU's options among settings, if all of them are in force, or all that are not for one system's guests alone: setting them would change nothing. libvirt's lines are the same
/// in its words.
pub(crate) fn in_force(options: &QemuOptions, settings: &[AdviceSetting]) -> Option<String> {
    let offered = |setting: &'_ AdviceSetting| match setting.parts().0 {
        AdviceSetting::Qemu(option) => Some(option.to_string()),
        _ => None,
    };
    let is_for_all = |of: &AdviceSetting| matches!(of.parts().1, None | Some(SettingCondition::OtherClock));
    let for_all = settings.iter().any(|of| is_for_all(of) && offered(of).is_some());
    let of_this = |of: &&AdviceSetting| !for_all || is_for_all(of);
    let offered: Vec<String> = settings.iter().filter(of_this).filter_map(offered).collect();
    let are_all = !offered.is_empty() && offered.iter().all(|option| options.have(option) == Some(true));
    are_all.then(|| offered.join(" ").replace("…,", ""))
}

/// Where nothing says who runs the VM's devices.
const IF_QEMU: &str =
    "nothing in the recording shows that QEMU runs this VM: the lines for QEMU and libvirt apply only if it does";
