//! What is said of KVM's polls that succeed, and keep CPUs busy.

use crate::cures::cure::by_hand;
use crate::cures::halt_poll_scope::halt_poll_reach;
use crate::judgement::AdviceWords;
use crate::rules::polling::RESTORE;
use crate::setting::{AdviceSetting, SettingSide};
use exitscope_policy::Knob;
use exitscope_units::{Nanos, Thousands};

pub(super) const RANGE: &str = "from the part of successful polls beyond the new limit (polls that then fail still take that limit) to \
    all the time of the polls that exceed it (KVM shortens polls that fail); the CPU time of blocking and waking is not included";

/// Polls keep `cpus` CPUs busy; with `limit`, `later` wake-ups a second come later.
pub(super) fn shorter(knob: &'static Knob, limit: u64, cpus: f64, later: f64, release: &str) -> AdviceWords {
    let later = Thousands(later.round() as u64);
    let then = match limit {
        0 => "without them".to_string(),
        limit => format!("with polls limited to {}", Nanos(limit)),
    };
    let tried = format!(
        "`exitscope try halt_poll_ns={} --vm PID --metric …` measures on this host what it costs the guest, and \
         restores the value",
        knob.text(limit)
    );
    AdviceWords {
        title: "Shorten host halt polling".into(),
        change: format!(
            "shorten host halt polling, if the CPUs that it takes are worth more than early wake-ups: successful polls keep {cpus:.2} CPUs \
             busy; {then}, {later} wake-ups a second come later, each by the time to wake a sleeping thread"
        ),
        settings: vec![
            AdviceSetting::Knob { side: SettingSide::Host, knob, value: limit },
            by_hand(
                "for one VM alone: KVM_CAP_HALT_POLL, a limit that its VMM sets (KVM_ENABLE_CAP); other VMs keep halt_poll_ns",
            ),
            AdviceSetting::ByHand(tried.into()),
        ],
        risk: "wake-ups come later, each by the time that blocking and waking take: microseconds, and many more of them if CPUs go into \
            deep idle states (the recording does not show how many, as these halts did not block); it acts on all VMs"
            .into(),
        payer: format!("the guests: {later} wake-ups a second come later").into(),
        undo: RESTORE.into(),
        acts: halt_poll_reach(release).text().into(),
    }
}
