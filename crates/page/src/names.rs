//! Whose exits, why, about what: numbers for all of these, so that sums over time need not know more.
//!
//! ```text
//! Exit ─► selected? ─► vCPU, reason, thing: small numbers ─► Brief ─► Sums
//!             └──────► the slowest exits of every part of the recording
//! ```

use crate::slow::Slow;
use exitscope_analysis::{Counted, DetailKey, Index, MAX_KEYS, Selection};
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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

/// The numbers of an exit's reason and of what it was about.
fn numbered(reasons: &mut Index<ExitCode>, abouts: &mut Index<DetailKey>, exit: &Exit) -> (u16, Option<u16>) {
    let about = exit.detail.map(|detail| abouts.of(DetailKey::of(detail)) as u16);
    (reasons.of(exit.code) as u16, about)
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
    known: Known,
}

/// What is known of the numbers that [`Facts`](exitscope_analysis::Facts) gave.
#[derive(Clone, Debug, Default)]
struct Known {
    /// By the vCPU's number.
    lanes: Vec<Option<u16>>,
    /// By the number of the kind: reason, and what such exits are about.
    kinds: Vec<Option<(u16, Option<u16>)>>,
}

/// What is known of a number; if nothing is yet, what `find` finds.
#[inline]
fn known<T: Copy>(all: &mut Vec<Option<T>>, number: u32, find: impl FnOnce() -> T) -> T {
    match all.get(number as usize) {
        Some(Some(known)) => *known,
        _ => {
            let found = find();
            all.resize(all.len().max(number as usize + 1), None);
            all[number as usize] = Some(found);
            found
        }
    }
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
            known: Known::default(),
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
        let is_counted = self.window.0 <= exit.at && exit.at <= self.window.1 && self.selection.holds_exit(exit);
        let kind = is_counted.then(|| numbered(&mut self.reasons, &mut self.abouts, exit));
        let lane = self.lanes.of(exit.who) as u16;
        Some(self.brief_of(exit, lane, kind))
    }

    /// The same of an exit that is counted there by facts of the same recording, which look at the same vCPUs, moments and
    /// exits.
    #[inline(always)]
    pub fn brief_counted(&mut self, exit: &Exit, counted: Counted) -> Brief {
        let Names { known: Known { lanes, kinds }, reasons, abouts, .. } = self;
        let lane = known(lanes, counted.vcpu, || self.lanes.of(exit.who) as u16);
        let kind = counted.kind.map(|kind| match kind {
            Counted::UNNUMBERED => numbered(reasons, abouts, exit),
            kind => known(kinds, kind, || numbered(reasons, abouts, exit)),
        });
        self.brief_of(exit, lane, kind)
    }

    /// What sums take of an exit of this vCPU, for this reason and about this, if it is looked at.
    // Always: what is put together elsewhere, in pieces, and then moved whole, is waited for.
    #[inline(always)]
    fn brief_of(&mut self, exit: &Exit, lane: u16, kind: Option<(u16, Option<u16>)>) -> Brief {
        if kind.is_some() {
            self.slow.absorb(exit);
        }
        let (reason, about) = kind.unwrap_or_default();
        Brief {
            at: exit.at.as_nanos(),
            guest: exit.guest.0,
            times: match exit.timed {
                true => [exit.kernel.0, exit.user.0, exit.idle.0, exit.waiting.0],
                false => [0; 4],
            },
            lane,
            reason,
            about,
            timed: exit.timed,
            to_user: exit.door != Door::Kernel,
            counted: kind.is_some(),
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slow::tests::exit;
    use exitscope_analysis::{Facts, Wanted, When};
    use exitscope_model::{CodeList, Detail, DetailKind, Form};
    use exitscope_units::Nanos;

    #[test]
    fn exits_that_facts_have_numbered_are_the_same_in_brief() {
        let mut selection = Selection::default();
        selection.vcpus = vec![VcpuId(0), VcpuId(2)];
        selection.from = Some(When::After(Nanos(500)));
        selection.longer_than = Some(Nanos(100));
        let (mut alone, mut told) = (Names::new(&selection), Names::new(&selection));
        let mut facts = Facts::new(&Wanted { by: Vec::new(), slowest: 0, selection });
        facts.begin(Moment::default());
        assert_eq!(alone.begin(Moment::default()), told.begin(Moment::default()));
        let mut further = 0;
        for number in 0..40_000u64 {
            let detail = Detail {
                kind: DetailKind::Port,
                write: number % 2 == 0,
                form: Form::Plain,
                size: 4,
                // More than facts number, from some moment on.
                key: if number < 20_000 { number % 5 } else { number },
                value: number,
            };
            let vcpu = (number / 7 % 3) as u32;
            let of = exit(number, 50 + number % 200);
            let exit = Exit {
                who: Who { vcpu: VcpuId(vcpu), tid: Tid(vcpu), ..of.who },
                code: ExitCode::new(CodeList::Vmx, number % 9),
                detail: (number % 4 != 0).then_some(detail),
                timed: number % 13 != 0,
                ..of
            };
            let counted = facts.absorb(&exit);
            further += u64::from(counted.is_some_and(|counted| counted.kind == Some(Counted::UNNUMBERED)));
            assert_eq!(counted.map(|counted| told.brief_counted(&exit, counted)), alone.brief(&exit), "{number}");
        }
        assert!(further > 1_000, "{further}");
        assert_eq!(told.lanes.keys(), alone.lanes.keys());
        assert_eq!(told.reasons.keys(), alone.reasons.keys());
        assert_eq!(told.abouts.keys(), alone.abouts.keys());
    }
}
