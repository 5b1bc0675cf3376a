//! What is said to guests that poll while others wait for their CPUs.

use crate::cures::cure::by_hand;
use crate::judgement::AdviceWords;
use crate::setting::{AdviceSetting, SettingSide};
use exitscope_policy::Knob;

pub(super) const RANGE: &str = "from 0 to the guest time before halts, at most the default length of a poll for each; \
    successful polls leave no trace";

/// `knob` is the guest's longest poll.
pub(super) fn no_polls(knob: &'static Knob) -> AdviceWords {
    AdviceWords {
        title: "Switch guest halt polling off".into(),
        change:
            "let the guest halt without polling first: vCPUs wait for CPUs, and a guest's poll, unlike KVM's own, does \
            not end when another task wants the CPU"
                .into(),
        settings: vec![
            AdviceSetting::Knob { side: SettingSide::Guest, knob, value: 0 },
            by_hand("or, in the guest: modprobe -r cpuidle-haltpoll, after which KVM polls for it again"),
        ],
        risk: "wake-ups that ended the guest's polls come later, and cost an exit for a halt".into(),
        payer: "this guest: its wake-ups".into(),
        undo: "in the guest: write the old value back, or load cpuidle-haltpoll again".into(),
        acts: "at once, in the guest where it is set".into(),
    }
}
