//! What is said of KVM's polls that succeed, and keep CPUs busy.

use crate::cures::cure::by_hand;
use crate::cures::halt_poll_scope::halt_poll_reach;
use crate::judgement::AdviceWords;
use crate::rules::polling::RESTORE;
use crate::setting::{AdviceSetting, SettingSide};
use exitscope_policy::Knob;
use exitscope_units::Nanos;

pub(super) const RANGE: &str = "from what successful polls took beyond the value, as a poll that fails takes the value, to all that these took, as KVM \
    gives up polls that fail; blocking and waking take CPU time, too, which is not in it";

/// Polls keep `cpus` CPUs busy; with `limit`, `later` wake-ups a second come later.
pub(super) fn shorter(knob: &'static Knob, limit: u64, cpus: f64, later: f64, release: &str) -> AdviceWords {
    let then = match limit {
        0 => "without them".to_string(),
        limit => format!("with polls of at most {}", Nanos(limit)),
    };
    let tried = format!(
        "what it costs the guest, `exitscope try halt_poll_ns={} --vm PID --metric …` measures on this host, and \
         restores the value",
        knob.text(limit)
    );
    AdviceWords {
        change: format!(
            "shorten host halt polling, if its CPUs are worth more than early wake-ups: KVM's successful polls keep {cpus:.2} CPUs busy; \
             {then}, {later:.0} wake-ups a second come later, each by what it takes to wake a thread that sleeps"
        ),
        settings: vec![
            AdviceSetting::Knob { side: SettingSide::Host, knob, value: limit },
            by_hand(
                "for one VM alone: KVM_CAP_HALT_POLL, a limit that its VMM sets (KVM_ENABLE_CAP); other VMs keep halt_poll_ns",
            ),
            AdviceSetting::ByHand(tried.into()),
        ],
        risk: "wake-ups come later, by how much the recording does not show, as these halts did not block: by some microseconds, and by \
            more where CPUs go into deep idle states; it acts on all VMs"
            .into(),
        payer: format!("the guests: {later:.0} wake-ups a second come later").into(),
        undo: RESTORE.into(),
        acts: halt_poll_reach(release).text().into(),
    }
}
