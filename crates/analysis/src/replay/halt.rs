//! Halt polling, the host's and the guest's, replayed over recorded halts.
//!
//! ```text
//! recorded:  exit ── poll 20 us ──┬ asleep ─────── woken at 50 us ─── way back 30 us ─── entry      latency 30 us
//! replayed with a poll of 80 us:  ┴─ poll ──────── caught at 50 us ── entry                        latency 5 us
//! ```

use super::Lateness;
use super::lateness::Draw;
use crate::halts::{before_sleep, gap, gap_of_kvm, late, latency, poll};
use crate::{DurationStats, HaltStats, KeyNumbering, MAX_KEYS, PollSettings, RecordedHaltPolling};
use exitscope_model::{Halt, VcpuIdentity, is_spared_by_polls, poll_limit};
use exitscope_policy::KnobError;
use exitscope_policy::guest_halt_poll::{self, GuestHaltPoll, IdleOutcome, IdleState};
use exitscope_policy::host_halt_poll::{self, HostHaltPoll, PollPermission};
use exitscope_units::{Moment, Nanos, VmId};
use std::collections::BTreeMap;

/// A guest that halts again so soon after a wake-up has run no task: the interrupt made nothing runnable. A recording of the
/// host does not say which did. Between such a halt and the one before it lie an interrupt's handler and the way through the
/// idle loop; natively 3 us were the least, and a task needs two switches besides.
const NOTHING_RAN: Nanos = Nanos(5_000);

/// Whose polling is replayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HaltPolicy {
    /// KVM's, in the host.
    Host,
    /// The governor's, in the guest. The host does not poll then: the guest's driver switches that off.
    Guest,
}

impl HaltPolicy {
    /// Both.
    pub const ALL: [HaltPolicy; 2] = [HaltPolicy::Host, HaltPolicy::Guest];

    /// The name of the policy that has its knobs.
    pub fn name(self) -> &'static str {
        match self {
            HaltPolicy::Host => "host_halt_poll",
            HaltPolicy::Guest => "guest_halt_poll",
        }
    }
}

/// What waking up typically takes, for halts that would have ended in another way than they did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypicalWakeup {
    /// By how much the wake-up latency of a vCPU that slept is longer than that of one that was caught: of the medians.
    pub back: Nanos,
    /// What is caught after the end of a poll.
    pub lateness: Lateness,
}

impl TypicalWakeup {
    /// As a recording shows it.
    pub fn of(stats: &HaltStats) -> TypicalWakeup {
        let median = |lengths: &DurationStats| lengths.quantile(5_000).unwrap_or_default();
        let (caught, slept) = (median(&stats.successful_polls.latencies), median(&stats.blocked.latencies));
        TypicalWakeup { back: Nanos(slept.0.saturating_sub(caught.0)), lateness: Lateness::of(stats) }
    }
}

/// What one configuration would have made of the halts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HaltOutcome {
    /// Halts. With the guest's polling also idle exits at which something was pending.
    pub halts: u64,
    /// Those that would have ended without giving the CPU away (the host's polling) or without an exit (the guest's).
    pub caught: u64,
    /// Successful polls.
    pub hits: u64,
    /// Failed polls.
    pub misses: u64,
    /// CPU time of polls.
    pub polling: u64,
    /// CPU time of those that would not have caught anything.
    pub polling_missed: u64,
    /// Successful polls of guests, of halts in which a sibling sent an IPI that a Linux guest spares a vCPU that polls.
    pub ipis_spared: u64,
    /// Wake-up latencies, of halts whose gap is known exactly.
    pub latencies: DurationStats,
}

/// One configuration, replayed.
#[derive(Clone, Debug)]
pub struct HaltReplay {
    policy: HaltPolicy,
    /// The settings of each VM, before `set`.
    base: BTreeMap<VmId, host_halt_poll::Params>,
    set: Vec<(&'static str, u64)>,
    typical: TypicalWakeup,
    recorder: HaltNumbering,
    /// What is known of each vCPU, by its number.
    host: Vec<Option<(host_halt_poll::Params, HostHaltPoll)>>,
    guest: Vec<Option<Guest>>,
    /// Whether what comes late is caught.
    draw: Draw,
    /// Whether KVM told of the recorded halts, so that idle exits of which it did not were none.
    has_wakeups: bool,
    from: RecordedHaltPolling,
    /// What it would have done.
    pub outcome: HaltOutcome,
}

impl HaltReplay {
    /// A configuration: knobs `set` on top of the settings that were in force (the host's) or the defaults (the guest's).
    pub fn new(
        policy: HaltPolicy,
        settings: &BTreeMap<VmId, PollSettings>,
        host: &RecordedHaltPolling,
        set: &[(&'static str, u64)],
        all: &HaltStats,
    ) -> Result<HaltReplay, KnobError> {
        let replay = HaltReplay {
            policy,
            base: settings.iter().map(|(vm, seen)| (*vm, seen.params(host))).collect(),
            set: set.to_vec(),
            typical: TypicalWakeup::of(all),
            recorder: HaltNumbering::default(),
            host: Vec::new(),
            guest: Vec::new(),
            draw: Draw::default(),
            has_wakeups: all.has_wakeups(),
            from: *host,
            outcome: HaltOutcome::default(),
        };
        match policy {
            HaltPolicy::Host => replay.host_params(VmId::UNKNOWN).map(|_| ())?,
            HaltPolicy::Guest => replay.guest_params().map(|_| ())?,
        }
        Ok(replay)
    }

    fn host_params(&self, vm: VmId) -> Result<host_halt_poll::Params, KnobError> {
        let mut params = self.base.get(&vm).copied().unwrap_or_else(|| PollSettings::default().params(&self.from));
        self.set.iter().try_for_each(|(name, value)| params.set(name, *value))?;
        Ok(params)
    }

    fn guest_params(&self) -> Result<guest_halt_poll::Params, KnobError> {
        let mut params = guest_halt_poll::Params::default();
        self.set.iter().try_for_each(|(name, value)| params.set(name, *value))?;
        Ok(params)
    }

    /// Replays one halt.
    pub fn absorb(&mut self, halt: &Halt) {
        let recorded = self.recorder.recorded(halt);
        self.absorb_recorded(&[recorded]);
    }

    /// The same, of halts that others replay as well: all of one [`HaltNumbering`]'s. It takes less time for many at once.
    pub fn absorb_recorded(&mut self, halts: &[RecordedHalt]) {
        match self.policy {
            HaltPolicy::Host => halts.iter().for_each(|recorded| self.absorb_host(recorded)),
            HaltPolicy::Guest => halts.iter().for_each(|recorded| self.absorb_guest(recorded)),
        }
    }

    #[inline]
    fn absorb_host(&mut self, recorded: &RecordedHalt) {
        if self.has_wakeups && !recorded.has_wakeups {
            // Nothing was waited for, so KVM did not come to poll.
            return;
        }
        if self.host.get(recorded.vcpu as usize).is_none_or(Option::is_none) {
            // `new` has checked that the knobs can be set.
            let params = self.host_params(recorded.vm).unwrap_or_default();
            set(&mut self.host, recorded.vcpu, (params, HostHaltPoll::new(self.from.whose)));
        }
        let Some(Some((params, state))) = self.host.get_mut(recorded.vcpu as usize) else { return };
        let poll = state.start(params, &PollPermission::default());
        let chance = |late| self.typical.lateness.chance_given(late, recorded.seen());
        let caught = !recorded.uncatchable && late(recorded.gap, poll).is_none_or(|late| self.draw.take(chance(late)));
        let length = match (caught, recorded.slept) {
            (true, _) => recorded.gap,
            (false, true) => recorded.length,
            (false, false) => recorded.length.plus(self.typical.back),
        };
        state.finish(params, &PollPermission::default(), length, recorded.valid);
        let until = if caught { recorded.gap } else { Nanos(recorded.polled_at_most.into()) };
        let polled = (poll > Nanos::ZERO).then_some(poll.min(until));
        let latency = recorded.latency().map(|latency| match (caught, recorded.slept) {
            (true, true) => Nanos(latency.0.saturating_sub(recorded.length.0.saturating_sub(recorded.gap.0))),
            (false, false) => latency.plus(self.typical.back),
            _ => latency,
        });
        self.outcome.absorb(caught, polled, latency);
    }

    /// A poll of the guest's ends when something has become runnable, or when its limit has passed; an interrupt that wakes
    /// nobody is handled within it (Linux, drivers/cpuidle/poll_state.c, poll_idle: need_resched; kernel/sched/idle.c, do_idle).
    #[inline]
    fn absorb_guest(&mut self, recorded: &RecordedHalt) {
        let pending = self.has_wakeups && !recorded.has_wakeups;
        let gap = if pending { Nanos::ZERO } else { recorded.gap_from_exit };
        if self.guest.get(recorded.vcpu as usize).is_none_or(Option::is_none) {
            let params = self.guest_params().unwrap_or_default();
            set(&mut self.guest, recorded.vcpu, Guest { params, state: GuestHaltPoll::new(), polls_for: None });
        }
        let Some(Some(Guest { params, state, polls_for })) = self.guest.get_mut(recorded.vcpu as usize) else { return };
        let ran = Nanos(recorded.ran.into());
        // How long the poll lasts already.
        let begun = match polls_for.take() {
            Some(polled) if ran <= NOTHING_RAN => Some(polled.plus(ran)),
            under_way => {
                if under_way.is_some() {
                    state.reflect(params, IdleOutcome::Polled { expired: false });
                }
                (state.select() != IdleState::Halt).then_some(Nanos::ZERO)
            }
        };
        let left = begun.map(|begun| Nanos(params.poll_end(state.limit()).0.saturating_sub(begun.0)));
        let polled = left.map(|left| left.min(gap));
        let caught = left.is_some_and(|left| gap <= left);
        self.outcome.ipis_spared += u64::from(caught && recorded.ipi);
        match begun {
            Some(begun) if caught => *polls_for = Some(begun.plus(gap)),
            Some(_) => _ = state.reflect(params, IdleOutcome::Polled { expired: true }),
            None => {}
        }
        // Without the host's polling, what that caught would have slept.
        let latency = match (caught, recorded.slept || pending) {
            (true, _) => recorded.latency().map(|_| Nanos::ZERO),
            (false, true) => recorded.latency(),
            (false, false) => recorded.latency().map(|latency| latency.plus(self.typical.back)),
        };
        if !caught {
            let residency = Nanos(gap.0 - polled.unwrap_or_default().0).plus(latency.unwrap_or_default());
            state.reflect(params, IdleOutcome::Halted { residency });
        }
        self.outcome.absorb(caught, polled, latency);
    }
}

/// What is known of a vCPU whose guest polls.
#[derive(Clone, Debug)]
struct Guest {
    params: guest_halt_poll::Params,
    state: GuestHaltPoll,
    /// How long it had polled when something woke it: whether that ended the poll shows when it halts again.
    polls_for: Option<Nanos>,
}

impl HaltOutcome {
    /// What KVM's polling made of recorded halts.
    pub fn recorded(stats: &HaltStats) -> HaltOutcome {
        HaltOutcome {
            halts: stats.halts(),
            caught: stats.successful_polls.gaps.count,
            hits: stats.hits,
            misses: stats.misses,
            polling: stats.poll_hit.saturating_add(stats.poll_miss),
            polling_missed: stats.poll_miss,
            ipis_spared: 0,
            latencies: stats.latencies(),
        }
    }

    fn absorb(&mut self, caught: bool, polled: Option<Nanos>, latency: Option<Nanos>) {
        self.halts += 1;
        self.caught += u64::from(caught);
        if let Some(polled) = polled {
            *(if caught { &mut self.hits } else { &mut self.misses }) += 1;
            self.polling = self.polling.saturating_add(polled.0);
            self.polling_missed = self.polling_missed.saturating_add(if caught { 0 } else { polled.0 });
        }
        if let Some(latency) = latency {
            self.latencies.record(latency);
        }
    }
}

/// Puts what is known of a vCPU in its place.
fn set<T>(all: &mut Vec<Option<T>>, vcpu: u32, known: T) {
    let vcpu = vcpu as usize;
    if vcpu >= all.len() {
        all.resize_with(vcpu + 1, || None);
    }
    all[vcpu] = Some(known);
}

/// Numbers the vCPUs of halts, so that of many replays none must look them up, and knows where each left off.
#[derive(Clone, Debug)]
pub struct HaltNumbering {
    numbers: KeyNumbering<VcpuIdentity>,
    before: Vec<Before>,
}

/// What was seen of a vCPU before a halt.
#[derive(Clone, Copy, Debug, Default)]
struct Before {
    /// Its poll after KVM's last change, in nanoseconds.
    poll: Option<u32>,
    /// Its entry after its last halt.
    entered: Option<Moment>,
}

impl Default for HaltNumbering {
    fn default() -> HaltNumbering {
        HaltNumbering { numbers: KeyNumbering::of_at_most(MAX_KEYS as u32), before: Vec::new() }
    }
}

impl HaltNumbering {
    /// What a halt says.
    pub fn recorded(&mut self, halt: &Halt) -> RecordedHalt {
        let vcpu = self.numbers.of(halt.who);
        if vcpu as usize >= self.before.len() {
            self.before.resize(vcpu as usize + 1, Before::default());
        }
        let before = &mut self.before[vcpu as usize];
        let recorded = RecordedHalt::of(halt, vcpu, *before);
        *before = Before { poll: halt.change.map(|change| change.new).or(before.poll), entered: halt.entered };
        recorded
    }

    /// The same of another's, as one of this one's.
    pub fn renumber(&mut self, other: &HaltNumbering, recorded: &RecordedHalt) -> RecordedHalt {
        let who = other.numbers.keys().get(recorded.vcpu as usize);
        let vcpu = who.map_or(self.numbers.other(), |who| self.numbers.of(*who));
        RecordedHalt { vcpu, ..*recorded }
    }
}

/// What a recorded halt says about others that it could have been.
#[derive(Clone, Copy, Debug)]
pub struct RecordedHalt {
    vm: VmId,
    /// Its vCPU's number in the [`HaltNumbering`].
    vcpu: u32,
    /// Whether KVM told of it, and whether its wake-up was for something.
    has_wakeups: bool,
    valid: bool,
    slept: bool,
    /// KVM polled longer than the gap, and slept nevertheless: somebody else wanted the CPU.
    uncatchable: bool,
    /// Whether a sibling sent an IPI meanwhile that a Linux guest spares a vCPU that polls.
    ipi: bool,
    /// Whether the wake-up latency is known.
    exact: bool,
    latency: Nanos,
    /// From KVM's beginning of the halt until something woke the vCPU.
    gap: Nanos,
    /// The same, from the exit on.
    gap_from_exit: Nanos,
    /// The halt as KVM measures it.
    length: Nanos,
    /// The longest that a poll which fails could have taken, in nanoseconds; as all these, so many at most.
    polled_at_most: u32,
    /// How long it was polled for, as far as that is known.
    polled: u32,
    /// The longest that KVM would have polled, or [`UNKNOWN`].
    limit: u32,
    /// From the entry after the halt before, if that is known, until the vCPU said again that it has nothing to do.
    ran: u32,
}

const UNKNOWN: u32 = u32::MAX;

impl RecordedHalt {
    fn of(halt: &Halt, vcpu: u32, before: Before) -> RecordedHalt {
        let (gap_from_exit, _) = gap(halt);
        let whole = halt.end.since(halt.begin).unwrap_or_default();
        let length = halt.vcpu_wakeup.map_or(whole, |wakeup| wakeup.length);
        let slept = halt.vcpu_wakeup.is_none_or(|wakeup| wakeup.waited);
        let gap = halt.vcpu_wakeup.map_or(gap_from_exit, |wakeup| gap_of_kvm(halt, &wakeup));
        let limit = halt.vcpu_wakeup.and_then(|wakeup| poll_limit(&wakeup, halt.change, before.poll));
        let uncatchable = slept && limit.is_some_and(|limit| limit > 0 && u64::from(limit) >= gap.0);
        // Where KVM has not said yet how long it polls, it polled until the thread slept at most.
        let unsaid = || {
            halt.vcpu_wakeup.filter(|_| before.poll.or(limit).is_none()).and_then(|wakeup| before_sleep(halt, &wakeup))
        };
        let polled = poll(halt, before.poll).map(|poll| poll.length).or_else(unsaid);
        let polled_at_most = polled.filter(|_| uncatchable).unwrap_or(gap).min(gap);
        let latency = latency(halt);
        let ran = before.entered.and_then(|entered| halt.begin.since(entered));
        RecordedHalt {
            vm: halt.who.vm,
            vcpu,
            has_wakeups: halt.vcpu_wakeup.is_some(),
            valid: halt.vcpu_wakeup.is_none_or(|wakeup| wakeup.valid),
            slept,
            uncatchable,
            ipi: halt.ipi.is_some_and(is_spared_by_polls),
            exact: latency.is_some(),
            latency: latency.unwrap_or_default(),
            gap,
            gap_from_exit,
            length,
            polled_at_most: short(polled_at_most),
            polled: short(polled.unwrap_or_default()),
            limit: limit.unwrap_or(UNKNOWN),
            ran: ran.map_or(UNKNOWN, short),
        }
    }

    /// How late something woke the vCPU after the poll that was in force, and whether it was caught, if that poll is known.
    fn seen(&self) -> Option<(Nanos, bool)> {
        let limit = Nanos((self.limit != UNKNOWN).then_some(self.limit)?.into());
        Some((late(self.gap, limit).unwrap_or_default(), !self.slept))
    }

    /// Whose vCPU halted.
    pub fn vm(&self) -> VmId {
        self.vm
    }

    /// From what woke the vCPU to its entry.
    pub fn latency(&self) -> Option<Nanos> {
        self.exact.then_some(self.latency)
    }

    /// How long KVM polled, if it said anything of this halt, and whether that ended it.
    pub fn polled(&self) -> Option<(Nanos, bool)> {
        self.has_wakeups.then_some((Nanos(self.polled.into()), !self.slept && self.limit != 0))
    }

    /// How long the halt lasted as KVM measures it.
    pub fn length(&self) -> Nanos {
        self.length
    }
}

fn short(length: Nanos) -> u32 {
    u32::try_from(length.0).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Halts;
    use exitscope_model::{TraceInfo, VcpuWakeup};
    use exitscope_units::{Tid, VcpuId};

    const US: u64 = 1_000;

    fn x86() -> RecordedHaltPolling {
        RecordedHaltPolling::of(&TraceInfo { arch: "x86_64".to_string(), ..TraceInfo::default() })
    }

    /// Ten halts of 50 us, of which the vCPU sleeps all; 20 us from the wake-up to the CPU, 5 us from there to the entry.
    fn slept() -> Vec<Halt> {
        let who = VcpuIdentity { vm: VmId(1), vcpu: VcpuId(0), tid: Tid(2) };
        let at = |nanos| Moment::from_nanos(nanos);
        (1..=10)
            .map(|number| {
                let begin = number * 1_000 * US;
                Halt {
                    who,
                    begin: at(begin),
                    asleep: Some(at(begin)),
                    woken: Some(at(begin + 50 * US)),
                    vcpu_wakeup: Some(VcpuWakeup { length: Nanos(70 * US), waited: true, valid: true, may_poll: true }),
                    change: None,
                    kicked: false,
                    ipi: None,
                    end: at(begin + 70 * US),
                    entered: Some(at(begin + 75 * US)),
                }
            })
            .collect()
    }

    fn replayed(policy: HaltPolicy, set: &[(&'static str, u64)]) -> HaltOutcome {
        let mut halts = Halts::default();
        slept().iter().for_each(|halt| halts.absorb(halt));
        let mut replay = HaltReplay::new(policy, &halts.settings, &x86(), set, &halts.all()).unwrap();
        slept().iter().for_each(|halt| replay.absorb(halt));
        replay.outcome
    }

    #[test]
    fn a_host_that_polls_long_enough_saves_the_way_back_to_the_cpu() {
        let never = replayed(HaltPolicy::Host, &[("halt_poll_ns", 0)]);
        assert_eq!((never.halts, never.caught, never.polling, never.latencies.sum), (10, 0, 0, 250 * US));
        // The poll grows to 10, 20, 40 and 80 us; from then on it catches what comes after 50 us.
        let polls = replayed(HaltPolicy::Host, &[("halt_poll_ns", 200 * US)]);
        assert_eq!((polls.caught, polls.polling_missed, polls.polling), (6, 70 * US, 370 * US));
        assert_eq!(polls.latencies.sum, (4 * 25 + 6 * 5) * US);
    }

    #[test]
    fn a_guest_that_polls_long_enough_saves_the_exit() {
        // The first halt, of no poll, makes the limit 50 us.
        let polls = replayed(HaltPolicy::Guest, &[("guest_halt_poll_ns", 200 * US)]);
        assert_eq!((polls.caught, polls.polling, polls.latencies.sum), (9, 450 * US, 25 * US));
        let never = replayed(HaltPolicy::Guest, &[("guest_halt_poll_ns", 0)]);
        assert_eq!((never.caught, never.polling, never.latencies.sum), (0, 0, 250 * US));
    }

    #[test]
    fn each_tunable_of_the_guests_governor_changes_what_it_decides() {
        // Gaps that make the limit grow, and two that make it shrink.
        let gaps = [30, 120, 80, 500, 500].iter().cycle().take(50);
        let mut at = 0;
        let halts: Vec<Halt> = gaps
            .map(|gap| {
                at += 2_000 * US;
                let moment = |after| Moment::from_nanos(at + after * US);
                let wakeup = VcpuWakeup { length: Nanos((gap + 20) * US), waited: true, valid: true, may_poll: true };
                let (asleep, woken, entered) = (Some(moment(0)), Some(moment(*gap)), Some(moment(gap + 25)));
                Halt {
                    begin: moment(0),
                    asleep,
                    woken,
                    vcpu_wakeup: Some(wakeup),
                    end: moment(gap + 20),
                    entered,
                    ..slept()[0]
                }
            })
            .collect();
        let mut all = Halts::default();
        halts.iter().for_each(|halt| all.absorb(halt));
        let replayed = |set: &[(&'static str, u64)]| {
            let mut replay = HaltReplay::new(HaltPolicy::Guest, &all.settings, &x86(), set, &all.all()).unwrap();
            halts.iter().for_each(|halt| replay.absorb(halt));
            replay.outcome
        };
        for (name, value) in [
            ("guest_halt_poll_ns", 60 * US),
            ("guest_halt_poll_grow", 1),
            ("guest_halt_poll_grow_start", 190 * US),
            ("guest_halt_poll_shrink", 1),
            ("guest_halt_poll_allow_shrink", 0),
        ] {
            assert_ne!(replayed(&[(name, value)]), replayed(&[]), "{name}={value}");
        }
    }

    #[test]
    fn a_poll_that_somebody_else_cut_short_is_not_made_to_catch() {
        let mut halts = Halts::default();
        let cut = Halt {
            change: Some(exitscope_model::PollChange { grow: false, new: 0, old: 160_000 }),
            asleep: Some(Moment::from_nanos(1_010 * US)),
            ..slept()[0]
        };
        halts.absorb(&cut);
        let set = [("halt_poll_ns_grow_start", 100 * US), ("halt_poll_ns", 200 * US)];
        let mut replay = HaltReplay::new(HaltPolicy::Host, &halts.settings, &x86(), &set, &halts.all()).unwrap();
        replay.absorb(&cut);
        replay.absorb(&cut);
        assert_eq!((replay.outcome.caught, replay.outcome.polling), (0, 10 * US), "as long as it polled when recorded");
    }

    #[test]
    fn what_a_halt_says_is_a_line_of_cache() {
        assert_eq!(size_of::<RecordedHalt>(), 64);
    }

    #[test]
    fn a_knob_of_another_policy_is_refused() {
        let halts = Halts::default();
        let other = HaltReplay::new(HaltPolicy::Guest, &halts.settings, &x86(), &[("halt_poll_ns", 1)], &halts.all());
        assert_eq!(other.err(), Some(KnobError::NoSuchKnob));
    }

    #[test]
    fn what_a_halt_says_of_its_poll_is_what_kvm_last_said() {
        let change = |old, new| Some(exitscope_model::PollChange { grow: true, new, old });
        let [first, second, third] = slept()[..3] else { unreachable!() };
        let wakeup =
            |length: u64, waited| Some(VcpuWakeup { length: Nanos(length * US), waited, valid: true, may_poll: true });
        // Its thread slept 30 us after it halted; KVM polls for 40 us from now on.
        let cut = Halt {
            change: change(20_000, 40_000),
            asleep: Some(Moment::from_nanos(first.begin.as_nanos() + 30 * US)),
            ..first
        };
        let caught = Halt {
            vcpu_wakeup: wakeup(35, false),
            end: Moment::from_nanos(second.begin.as_nanos() + 35 * US),
            ..second
        };
        let mut recorder = HaltNumbering::default();
        let halts = [cut, caught, Halt { vcpu_wakeup: None, ..third }];
        let said = halts.map(|halt| {
            let recorded = recorder.recorded(&halt);
            let micros = |length: Nanos| length.0 / US;
            let polled = recorded.polled().map(|(length, caught)| (micros(length), caught));
            (polled, recorded.seen().map(|(late, caught)| (micros(late), caught)), recorded.latency().map(micros))
        });
        let expected = [
            // Woken after 50 us, 30 us after a poll of 20.
            (Some((20, false)), Some((30, false)), Some(25)),
            // Within the poll of 40; from there to the entry 75 us after the halt.
            (Some((35, true)), Some((0, true)), Some(40)),
            (None, None, Some(25)),
        ];
        assert_eq!(said, expected);
        assert_eq!([Nanos(7), Nanos(u64::from(u32::MAX)), Nanos(1 << 40)].map(short), [7, u32::MAX, u32::MAX]);
    }

    #[test]
    fn coming_back_from_sleep_takes_longer_by_the_difference_of_the_medians() {
        let mut stats = HaltStats::default();
        [30, 90, 20].iter().for_each(|&latency| stats.successful_polls.latencies.record(Nanos(latency)));
        [500, 700, 40].iter().for_each(|&latency| stats.blocked.latencies.record(Nanos(latency)));
        assert_eq!(TypicalWakeup::of(&stats).back, Nanos(470));
        let mut swapped = HaltStats::default();
        (swapped.successful_polls, swapped.blocked) = (stats.blocked, stats.successful_polls);
        assert_eq!(TypicalWakeup::of(&swapped).back, Nanos(0), "never sooner");
    }
}
