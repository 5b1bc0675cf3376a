//! Whose exits, why, about what: numbers for all of these, so that sums over time need not know more.
//!
//! ```text
//! Exit ─► selected? ─► vCPU, reason, thing: small numbers ─► Brief ─► Sums
//!             └──────► the slowest exits of every part of the recording
//! ```

use crate::slow::Slow;
use exitscope_analysis::{DetailKey, Index, MAX_KEYS, Selection};
use exitscope_model::{Door, Exit, ExitCode, LaneSpan, Who, Yield};
use exitscope_units::{Moment, Tid, VcpuId};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// vCPUs, reasons, and things that exits were about, at most, so that a number is a u16; further ones are counted
/// together.
pub const LANES: u32 = (1 << 12) - 1;
pub const REASONS: u32 = (1 << 10) - 1;
pub const ABOUTS: u32 = 1 << 13;

/// What an exit gives to sums over time. Times in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub struct Brief {
    pub(crate) at: u64,
    /// Time in the guest before it.
    pub(crate) guest: u64,
    /// Kernel, user, idle, waiting; zero if not both ends were seen.
    pub(crate) times: [u64; 4],
    pub(crate) lane: u16,
    pub(crate) reason: u16,
    pub(crate) about: Option<u16>,
    pub(crate) timed: bool,
    pub(crate) to_user: bool,
    /// Whether it is one of those that are looked at; else its vCPU is, and only where that one's time went counts.
    pub(crate) counted: bool,
}

/// What sums over time are of, by number.
#[derive(Clone, Debug)]
pub struct Names {
    selection: Selection,
    pub(crate) window: (Moment, Moment),
    pub(crate) lanes: Index<Who>,
    pub(crate) reasons: Index<ExitCode>,
    pub(crate) abouts: Index<DetailKey>,
    pub(crate) slow: Slow,
    pub(crate) spans: FxHashMap<Who, (Moment, Moment)>,
    pub(crate) vcpu_of: FxHashMap<Tid, VcpuId>,
    /// Yields that name a vCPU: from, to, how many.
    pub(crate) named: BTreeMap<(Who, VcpuId), u64>,
}

impl Names {
    /// None yet.
    pub fn new(selection: &Selection) -> Names {
        Names {
            selection: selection.clone(),
            window: (Moment::default(), Moment::MAX),
            lanes: Index::of_at_most(LANES),
            reasons: Index::of_at_most(REASONS),
            abouts: Index::of_at_most(ABOUTS),
            slow: Slow::default(),
            spans: FxHashMap::default(),
            vcpu_of: FxHashMap::default(),
            named: BTreeMap::new(),
        }
    }

    /// Says when the trace's first event was; what is looked at, from then on.
    pub fn begin(&mut self, first: Moment) -> (Moment, Moment) {
        self.window = self.selection.window(first);
        self.window
    }

    /// What sums over time take of an exit; nothing if its vCPU is not looked at.
    #[inline]
    pub fn brief(&mut self, exit: &Exit) -> Option<Brief> {
        if !self.selection.holds_who(&exit.who) {
            return None;
        }
        let counted = self.window.0 <= exit.at && exit.at <= self.window.1 && self.selection.holds_exit(exit);
        let (mut reason, mut about) = (0, None);
        if counted {
            reason = self.reasons.of(exit.code) as u16;
            about = exit.detail.map(|detail| self.abouts.of(DetailKey::of(detail)) as u16);
            self.slow.absorb(exit);
        }
        Some(Brief {
            at: exit.at.as_nanos(),
            guest: exit.guest.0,
            times: match exit.timed {
                true => [exit.kernel.0, exit.user.0, exit.idle.0, exit.waiting.0],
                false => [0; 4],
            },
            lane: self.lanes.of(exit.who) as u16,
            reason,
            about,
            timed: exit.timed,
            to_user: exit.door != Door::Kernel,
            counted,
        })
    }

    /// Adds one yield.
    pub fn absorb_yield(&mut self, of: &Yield) {
        let within = self.window.0 <= of.at && of.at <= self.window.1 && self.selection.holds_who(&of.who);
        let Some(target) = of.target.filter(|_| within) else { return };
        let key = (of.who, target);
        if self.named.len() < MAX_KEYS || self.named.contains_key(&key) {
            *self.named.entry(key).or_default() += 1;
        }
    }

    /// Takes note of when a vCPU was seen; its number, if it is looked at.
    pub(crate) fn span(&mut self, lane: &LaneSpan, vcpu_of: &FxHashMap<Tid, VcpuId>) -> Option<u32> {
        let number = self.lanes.of(lane.who);
        self.spans.insert(lane.who, (lane.first.max(self.window.0), lane.last.min(self.window.1)));
        self.selection.holds_who(&lane.who.completed(vcpu_of)).then_some(number)
    }
}
