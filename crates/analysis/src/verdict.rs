//! What a recording comes to: where the vCPUs' time goes that guests miss.
//!
//! ```text
//! parts of the time ─┬─ no exits, no lengths, mostly unknown ─► cannot tell
//!                    ├─ the largest of cost, steal, polling, if it is noteworthy ─► that; forced out, where that is half of the cost
//!                    └─ none of them ─► mostly halted, or healthy
//! ```

use exitscope_model::{AllParts, TimePart};
use exitscope_units::Nanos;

/// A part is noteworthy from one in so many of the vCPUs' time on …
pub(crate) const OF_TIME: u64 = 20;

/// … or where vCPUs are mostly halted, from one in so many of what is left, if that is a hundredth of all.
const OF_WANTED: u64 = 5;
const AT_LEAST: u64 = 100;

/// vCPUs are mostly halted if so many fifths of their time are.
const MOSTLY: (u64, u64) = (4, 5);

/// What a verdict is of: all vCPUs together.
#[derive(Clone, Copy, Debug)]
pub struct VerdictInput {
    /// Where their time went.
    pub parts: AllParts,
    /// Exits.
    pub exits: u64,
    /// Exits of which both ends were seen.
    pub timed_exits: u64,
    /// Of the cost, what threads of virtual cores lost to other threads' exits.
    pub forced_out: Nanos,
}

/// What dominates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VerdictState {
    /// What exits cost.
    ExitsDominate,
    /// Waiting for a CPU.
    StealDominates,
    /// Leaving because another thread of the virtual core had to.
    ForcedOut,
    /// Polling before halted vCPUs block.
    PollingBurns,
    /// Nothing, and vCPUs are halted most of the time.
    MostlyHalted,
    /// No part of the time is large enough to name.
    Healthy,
    /// There is no exit.
    NoExits,
    /// No exit has a length.
    NoLengths,
    /// Most of the time is hidden by losses, or nothing says where it went.
    MostlyUnknown,
}

impl VerdictState {
    /// Its name in JSON.
    pub const fn id(self) -> &'static str {
        match self {
            VerdictState::ExitsDominate => "exits_dominate",
            VerdictState::StealDominates => "steal_dominates",
            VerdictState::ForcedOut => "forced_out",
            VerdictState::PollingBurns => "polling_burns",
            VerdictState::MostlyHalted => "mostly_halted",
            VerdictState::Healthy => "healthy",
            VerdictState::NoExits => "no_exits",
            VerdictState::NoLengths => "no_lengths",
            VerdictState::MostlyUnknown => "mostly_unknown",
        }
    }

    /// The ids of those that say what a recording lacks, and not where its time goes.
    pub const UNTOLD: [&'static str; 3] =
        [VerdictState::NoExits.id(), VerdictState::NoLengths.id(), VerdictState::MostlyUnknown.id()];

    /// All ids.
    pub const IDS: [&'static str; 9] = [
        VerdictState::ExitsDominate.id(),
        VerdictState::StealDominates.id(),
        VerdictState::ForcedOut.id(),
        VerdictState::PollingBurns.id(),
        VerdictState::MostlyHalted.id(),
        VerdictState::Healthy.id(),
        VerdictState::NoExits.id(),
        VerdictState::NoLengths.id(),
        VerdictState::MostlyUnknown.id(),
    ];
}

/// What a recording comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// What dominates.
    pub state: VerdictState,
    /// How much time that is, of all vCPUs together.
    pub time: Nanos,
    /// What takes the second most of it, if that is noteworthy, too.
    pub next: Option<(VerdictState, Nanos)>,
    /// What exits cost.
    pub cost: Nanos,
    /// All of their time.
    pub wall: Nanos,
    /// What losses hide of it.
    pub hidden: Nanos,
    /// What nothing says of it, halts that are not divided included.
    pub unknown: Nanos,
    /// Of that, halts that are not divided.
    pub undivided: Nanos,
    /// What they halted.
    pub halted: Nanos,
    /// Whether what is hidden or unknown could make another verdict of it.
    pub is_doubtful: bool,
}

impl Verdict {
    /// Of these parts.
    pub fn of(input: &VerdictInput) -> Verdict {
        let VerdictInput { parts, exits, timed_exits, forced_out } = input;
        let of = |part| parts.get(part).0;
        let wall = parts.sum().0;
        let hidden = of(TimePart::Excluded);
        let unknown = of(TimePart::Unknown).saturating_add(of(TimePart::Undivided));
        let untold = hidden.saturating_add(unknown);
        let made = |state, time, is_doubtful| Verdict {
            state,
            time: Nanos(time),
            next: None,
            cost: parts.cost(),
            wall: Nanos(wall),
            hidden: Nanos(hidden),
            unknown: Nanos(unknown),
            undivided: parts.get(TimePart::Undivided),
            halted: parts.get(TimePart::Halted),
            is_doubtful,
        };
        match () {
            _ if *exits == 0 => return made(VerdictState::NoExits, 0, true),
            _ if *timed_exits == 0 => return made(VerdictState::NoLengths, 0, true),
            _ if untold.saturating_mul(2) > wall => return made(VerdictState::MostlyUnknown, untold, true),
            _ => {}
        }
        let away = of(TimePart::Halted).saturating_add(of(TimePart::Stopped)).saturating_add(of(TimePart::Memory));
        let wanted = wall.saturating_sub(away);
        let is_noteworthy = |time: u64| {
            time.saturating_mul(OF_TIME) >= wall
                || time.saturating_mul(OF_WANTED) >= wanted && time.saturating_mul(AT_LEAST) >= wall
        };
        let cost = parts.cost().0;
        let mut rivals = [
            (cost, VerdictState::ExitsDominate),
            (of(TimePart::Steal), VerdictState::StealDominates),
            (of(TimePart::Polling), VerdictState::PollingBurns),
        ];
        rivals.sort_by_key(|rival| std::cmp::Reverse(rival.0));
        let [(most, state), (next, second), _] = rivals;
        if !is_noteworthy(most) {
            let is_halted = away.saturating_mul(MOSTLY.1) >= wall.saturating_mul(MOSTLY.0);
            let (state, time) = if is_halted {
                (VerdictState::MostlyHalted, away)
            } else {
                (VerdictState::Healthy, of(TimePart::Guest))
            };
            return made(state, time, is_noteworthy(most.saturating_add(untold)));
        }
        // What is not known could all be the next one's, or be steal.
        let is_doubtful = next.saturating_add(untold) >= most && untold > 0;
        let found = match state {
            VerdictState::ExitsDominate if forced_out.0.saturating_mul(2) >= cost => {
                made(VerdictState::ForcedOut, forced_out.0, is_doubtful)
            }
            state => made(state, most, is_doubtful),
        };
        Verdict { next: Some((second, Nanos(next))).filter(|_| is_noteworthy(next)), ..found }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use TimePart::{Excluded, Guest, Halted, Kernel, Polling, Steal, Undivided, Unknown, User};

    fn verdict(parts: &[(TimePart, u64)], forced_out: u64) -> Verdict {
        let parts = parts.iter().fold(AllParts::ZERO, |sum, (part, time)| sum.with(*part, Nanos(*time)));
        Verdict::of(&VerdictInput { parts, exits: 9, timed_exits: 8, forced_out: Nanos(forced_out) })
    }

    #[test]
    fn what_takes_most_of_the_time_that_guests_miss_dominates() {
        use VerdictState as V;
        for (what, parts, forced_out, state, time) in [
            ("exits", &[(Guest, 800), (Kernel, 60), (User, 50), (Steal, 90)][..], 0, V::ExitsDominate, 110),
            ("forced out", &[(Guest, 800), (Kernel, 200)], 100, V::ForcedOut, 100),
            ("forced out a little", &[(Guest, 800), (Kernel, 200)], 99, V::ExitsDominate, 200),
            ("steal", &[(Guest, 500), (Kernel, 200), (Steal, 300)], 0, V::StealDominates, 300),
            ("polls", &[(Guest, 500), (Kernel, 60), (Polling, 240), (Halted, 200)], 0, V::PollingBurns, 240),
            ("a twentieth", &[(Guest, 950), (Kernel, 50)], 0, V::ExitsDominate, 50),
            ("less", &[(Guest, 951), (Kernel, 49)], 0, V::Healthy, 951),
            ("of the rest", &[(Guest, 40), (Kernel, 10), (Halted, 950)], 0, V::ExitsDominate, 10),
            ("less of the rest", &[(Guest, 41), (Kernel, 10), (Halted, 949)], 0, V::MostlyHalted, 949),
            ("hardly anything", &[(Guest, 1), (Kernel, 9), (Halted, 990)], 0, V::MostlyHalted, 990),
            ("halted a little less", &[(Guest, 190), (Kernel, 11), (Halted, 799)], 0, V::Healthy, 190),
            ("mostly unknown", &[(Guest, 499), (Unknown, 200), (Excluded, 301)], 0, V::MostlyUnknown, 501),
        ] {
            let found = verdict(parts, forced_out);
            assert_eq!((found.state, found.time), (state, Nanos(time)), "{what}");
            assert_eq!(found.is_doubtful, state == V::MostlyUnknown, "{what}");
        }
    }

    #[test]
    fn what_comes_next_is_said_if_it_is_noteworthy_too() {
        use VerdictState::{ExitsDominate, StealDominates};
        let next = |parts: &[(TimePart, u64)]| verdict(parts, 0).next;
        assert_eq!(next(&[(Guest, 700), (Kernel, 200), (Steal, 100)]), Some((StealDominates, Nanos(100))));
        assert_eq!(next(&[(Guest, 500), (Kernel, 200), (Steal, 300)]), Some((ExitsDominate, Nanos(200))));
        assert_eq!(next(&[(Guest, 751), (Kernel, 200), (Steal, 49)]), None, "less than a twentieth");
        assert_eq!(next(&[(Guest, 990), (Kernel, 5), (Steal, 5)]), None, "nothing is");
    }

    #[test]
    fn what_is_hidden_or_unknown_makes_a_verdict_doubtful_that_it_could_change() {
        for (what, parts, is_doubtful) in [
            ("it could be the next one's", &[(Guest, 700), (Kernel, 150), (Steal, 100), (Excluded, 50)][..], true),
            ("not quite", &[(Guest, 701), (Kernel, 150), (Steal, 100), (Excluded, 49)], false),
            ("halts not divided", &[(Guest, 700), (Kernel, 150), (Steal, 100), (Undivided, 50)], true),
            ("it could be noteworthy", &[(Guest, 950), (Kernel, 30), (Unknown, 20)], true),
            ("it could not", &[(Guest, 951), (Kernel, 30), (Unknown, 19)], false),
        ] {
            assert_eq!(verdict(parts, 0).is_doubtful, is_doubtful, "{what}");
        }
    }

    #[test]
    fn without_exits_or_lengths_nothing_is_said() {
        let parts = AllParts::ZERO.with(Guest, Nanos(100));
        for (exits, timed_exits, state) in [(0, 0, VerdictState::NoExits), (7, 0, VerdictState::NoLengths)] {
            let found = Verdict::of(&VerdictInput { parts, exits, timed_exits, forced_out: Nanos::ZERO });
            assert_eq!((found.state, found.is_doubtful), (state, true));
        }
        let all = [
            VerdictState::ExitsDominate,
            VerdictState::StealDominates,
            VerdictState::ForcedOut,
            VerdictState::PollingBurns,
            VerdictState::MostlyHalted,
            VerdictState::Healthy,
            VerdictState::NoExits,
            VerdictState::NoLengths,
            VerdictState::MostlyUnknown,
        ];
        assert_eq!(all.map(VerdictState::id), VerdictState::IDS);
    }
}
