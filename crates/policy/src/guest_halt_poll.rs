//! Guest halt polling: Linux's cpuidle governor `haltpoll`. Before it halts, an idle vCPU polls for a while, so that a
//! wake-up which comes soon costs neither an exit nor an interrupt.
//!
//! ```text
//!             select: limit > 0                      need_resched seen: reflect(Polled, not expired)
//!   idle ───────────────────────────► polling ─────────────────────────────────────────────────────► running
//!    │                                   │ limit passed: reflect(Polled, expired)                       ▲
//!    │ select: limit = 0                 ▼                                                              │
//!    └───────────────────────────────► halted ──────────────────────────────────────────────────────────┘
//!                                        interrupt: reflect(Halted for r), which adjusts the limit:
//!                                          limit < r <= guest_halt_poll_ns   grow
//!                                          r > guest_halt_poll_ns            shrink, if allowed
//! ```
//!
//! The idle loop repeats select, enter, reflect until it has something to run: an interrupt that ends a halt but wakes
//! nobody adjusts the limit and begins a new poll. The state is per vCPU and outlives the task that went idle.
//!
//! The governor is a bool of drivers/cpuidle/Kconfig (CPU_IDLE_GOV_HALTPOLL): the module `cpuidle-haltpoll` is its driver, without the
//! parameters.
//!
//! Sources: Linux drivers/cpuidle/governors/haltpoll.c ("cpuidle: do not shrink guest poll_limit_ns below grow_start" was
//! applied for 6.9), drivers/cpuidle/poll_state.c, drivers/cpuidle/cpuidle-haltpoll.c, arch/x86/kvm/x86.c (the host's side of
//! the handshake).

pub use crate::poll_adjustment::PollAdjustment;

use crate::knob::{KnobLocation, KnobMachines, KnobUnit, params};
use exitscope_units::Nanos;

/// After how many rounds of its loop `poll_idle` looks at the clock.
pub const RELAX_COUNT: u64 = 201;

params! {
    /// The tunables of guest halt polling.
    guest_halt_poll_ns: Nanos, KnobUnit::Nanos, 200_000, 0 => u32::MAX, KnobLocation::BuiltIn("haltpoll"), KnobMachines::Of("x86"),
        "The longest a vCPU polls before it halts, in nanoseconds; 0 switches guest polling off, unless the limit has grown and may \
            not shrink";
    guest_halt_poll_shrink: u32, KnobUnit::Factor, 2, 0 => u32::MAX, KnobLocation::BuiltIn("haltpoll"), KnobMachines::Of("x86"),
        "The limit is divided by this after a long halt; 0 resets it to 0";
    guest_halt_poll_grow: u32, KnobUnit::Factor, 2, 0 => u32::MAX, KnobLocation::BuiltIn("haltpoll"), KnobMachines::Of("x86"),
        "The limit is multiplied by this after a halt that a longer poll would have caught";
    guest_halt_poll_grow_start: Nanos, KnobUnit::Nanos, 50_000, 0 => u32::MAX, KnobLocation::BuiltIn("haltpoll"), KnobMachines::Of("x86"),
        "The limit at which growing begins, in nanoseconds, and the smallest but 0 if guest_halt_poll_reset is Y";
    guest_halt_poll_allow_shrink: bool, KnobUnit::Bool, 1, 0 => 1, KnobLocation::BuiltIn("haltpoll"), KnobMachines::Of("x86"),
        "Whether the limit may shrink";
    guest_halt_poll_reset: bool, KnobUnit::Bool, 1, 0 => 1, KnobLocation::Design, KnobMachines::Of("x86"),
        "Whether a limit that shrinks below guest_halt_poll_grow_start becomes 0: Y in guests of Linux 6.9 and later, N in older ones, where it goes on shrinking";
    cpu_relax_ns: Nanos, KnobUnit::Nanos, 0, 0 => 1_000_000, KnobLocation::Machine, KnobMachines::All,
        "What one round of the poll loop takes, in nanoseconds; 201 of them pass between looks at the clock. 0: the limit is met exactly";
    tick_ns: Nanos, KnobUnit::Nanos, 4_000_000, 100_000 => 10_000_000, KnobLocation::Design, KnobMachines::All,
        "The guest kernel's tick, in nanoseconds (CONFIG_HZ): a poll without a limit lasts a sixteenth of it";
}

/// What the governor chose for the next moment of idleness.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdleState {
    /// Poll for at most `limit`; the tick goes on.
    Poll {
        /// Nanoseconds.
        limit: Nanos,
    },
    /// Halt; the tick may be stopped.
    Halt,
}

/// What became of it: told to the governor afterwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdleOutcome {
    /// The poll ended, with work to do or, if `expired`, because the limit passed.
    Polled {
        /// Nothing came within the limit.
        expired: bool,
    },
    /// The halt ended.
    Halted {
        /// How long it took, the poll before it excluded.
        residency: Nanos,
    },
}

/// How one idle period passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdlePeriod {
    /// Time spent polling, and the CPU's time with it.
    pub polled: Nanos,
    /// Time spent halted. Zero: the poll caught the event, and no exit was needed.
    pub halted: Nanos,
    /// The limit for the next period.
    pub limit: Nanos,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Poll,
    Halt,
}

/// The governor's state of one vCPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GuestHaltPoll {
    limit: Nanos,
    last: State,
    expired: bool,
}

impl GuestHaltPoll {
    /// A vCPU whose governor has just been enabled: it will halt at once.
    pub const fn new() -> GuestHaltPoll {
        GuestHaltPoll { limit: Nanos::ZERO, last: State::Poll, expired: false }
    }

    /// A vCPU whose limit is known, for one that is met in the middle of a trace.
    pub const fn with_limit(limit: Nanos) -> GuestHaltPoll {
        GuestHaltPoll { limit, last: State::Halt, expired: false }
    }

    /// How long the vCPU would poll now.
    pub const fn limit(&self) -> Nanos {
        self.limit
    }

    /// Chooses between polling and halting.
    pub fn select(&self) -> IdleState {
        match (self.last, self.expired) {
            _ if self.limit == Nanos::ZERO => IdleState::Halt,
            (State::Poll, true) => IdleState::Halt,
            _ => IdleState::Poll { limit: self.limit },
        }
    }

    /// As [`select`](Self::select) while somebody asks for no latency at all (a PM-QoS request of 0): always polls. A
    /// poll without a limit is given a sixteenth of a tick, and the kernel stores that: it may exceed
    /// `guest_halt_poll_ns`, and stays until the next halt adjusts it.
    pub fn select_without_latency(&mut self, params: &Params) -> IdleState {
        if self.limit == Nanos::ZERO {
            self.limit = Nanos(params.tick_ns.0 / 16);
        }
        IdleState::Poll { limit: self.limit }
    }

    /// Takes note of what became of the choice. Not called when there was work to do before a halt could begin.
    pub fn reflect(&mut self, params: &Params, entered: IdleOutcome) -> Option<PollAdjustment> {
        match entered {
            IdleOutcome::Polled { expired } => {
                (self.last, self.expired) = (State::Poll, expired);
                None
            }
            IdleOutcome::Halted { residency } => {
                self.last = State::Halt;
                self.adjust(params, residency)
            }
        }
    }

    fn adjust(&mut self, params: &Params, block: Nanos) -> Option<PollAdjustment> {
        let (old, most) = (self.limit, params.guest_halt_poll_ns);
        let start = params.guest_halt_poll_grow_start;
        let grow = block > old && block <= most;
        let new = if grow {
            // The kernel keeps the product in 32 bits.
            let grown = old.0.wrapping_mul(u64::from(params.guest_halt_poll_grow)) as u32;
            Nanos(u64::from(grown)).max(start).min(most)
        } else if block > most && params.guest_halt_poll_allow_shrink {
            let shrunk = Nanos(old.0.checked_div(u64::from(params.guest_halt_poll_shrink)).unwrap_or(0));
            if shrunk < start && params.guest_halt_poll_reset { Nanos::ZERO } else { shrunk }
        } else {
            return None;
        };
        self.limit = new;
        Some(PollAdjustment { grow, old, new })
    }

    /// One idle period, step by step, that ends when an event comes `event` after it began.
    pub fn idle(&mut self, params: &Params, event: Nanos) -> IdlePeriod {
        let mut polled = Nanos::ZERO;
        if let IdleState::Poll { limit } = self.select() {
            let end = params.poll_end(limit);
            let expired = event > end;
            self.reflect(params, IdleOutcome::Polled { expired });
            polled = event.min(end);
        }
        let halted = Nanos(event.0 - polled.0);
        if halted > Nanos::ZERO {
            self.reflect(params, IdleOutcome::Halted { residency: halted });
        }
        IdlePeriod { polled, halted, limit: self.limit }
    }
}

impl Params {
    /// When a poll that nothing ends gives up: at the first look at the clock that finds more than `limit` gone.
    pub fn poll_end(&self, limit: Nanos) -> Nanos {
        match self.cpu_relax_ns.0 * RELAX_COUNT {
            0 => limit,
            between_looks => Nanos((limit.0 / between_looks + 1) * between_looks),
        }
    }
}

/// The handshake that turns the host's polling off while the guest polls, on x86: a model-specific register of each
/// vCPU that the guest writes. As the host keeps it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PollControl(u64);

impl PollControl {
    /// The register, `MSR_KVM_POLL_CONTROL`.
    pub const MSR: u32 = 0x4b56_4d05;
    /// The bit of CPUID 0x40000001 EAX that offers it, `KVM_FEATURE_POLL_CONTROL`.
    pub const FEATURE: u32 = 1 << 12;

    /// After a reset of the vCPU the host polls.
    pub const fn new() -> PollControl {
        PollControl(1)
    }

    /// What the guest writes when its haltpoll driver starts (`polls`) or is removed, given the features it was
    /// offered. `None`: the host does not offer the handshake, goes on polling, and both poll.
    pub const fn guest_writes(features: u32, polls: bool) -> Option<u64> {
        match features & PollControl::FEATURE {
            0 => None,
            _ => Some(!polls as u64),
        }
    }

    /// The guest's write arrives. `false`: only bit 0 may be set, and the guest gets a general protection fault.
    #[must_use]
    pub fn write(&mut self, value: u64) -> bool {
        if value & !1 != 0 {
            return false;
        }
        self.0 = value;
        true
    }

    /// Whether the host may poll for this vCPU.
    pub const fn host_polls(self) -> bool {
        self.0 & 1 == 1
    }
}

impl Default for PollControl {
    fn default() -> PollControl {
        PollControl::new()
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use proptest::prelude::*;

    const fn us(us: u64) -> Nanos {
        Nanos(us * 1_000)
    }

    #[test]
    fn the_worked_example_holds_with_the_kernels_defaults() {
        let params = Params::default();
        let mut vcpu = GuestHaltPoll::new();
        for (event, limit, polled, halted, after) in [
            (30, 0, 0, 30, 50),
            (40, 50, 40, 0, 50),
            (120, 50, 50, 70, 100),
            (130, 100, 100, 30, 100),
            (260, 100, 100, 160, 200),
            (180, 200, 180, 0, 200),
            (500, 200, 200, 300, 100),
            (500, 100, 100, 400, 50),
            (150, 50, 50, 100, 100),
            (500, 100, 100, 400, 50),
            (500, 50, 50, 450, 0),
            (30, 0, 0, 30, 50),
        ] {
            assert_eq!(vcpu.limit(), us(limit), "before {event}");
            let period = vcpu.idle(&params, us(event));
            assert_eq!(
                period,
                IdlePeriod { polled: us(polled), halted: us(halted), limit: us(after) },
                "event at {event}"
            );
        }
    }

    #[test]
    fn a_halt_of_exactly_the_largest_poll_grows_and_one_nanosecond_more_shrinks() {
        let params = Params::default();
        for (residency, grow, new) in [(200_000, true, 200_000), (200_001, false, 50_000)] {
            let mut vcpu = GuestHaltPoll::with_limit(us(100));
            let change = vcpu.reflect(&params, IdleOutcome::Halted { residency: Nanos(residency) });
            assert_eq!(change, Some(PollAdjustment { grow, old: us(100), new: Nanos(new) }));
        }
    }

    #[test]
    fn a_shrink_of_nothing_is_still_traced_and_a_forbidden_one_is_not() {
        let long = IdleOutcome::Halted { residency: us(900) };
        let traced = GuestHaltPoll::new().reflect(&Params::default(), long);
        assert_eq!(traced, Some(PollAdjustment { grow: false, old: Nanos::ZERO, new: Nanos::ZERO }));
        let stiff = Params { guest_halt_poll_allow_shrink: false, ..Params::default() };
        assert_eq!(GuestHaltPoll::with_limit(us(100)).reflect(&stiff, long), None);
        let reset = Params { guest_halt_poll_shrink: 0, ..Params::default() };
        assert_eq!(GuestHaltPoll::with_limit(us(200)).reflect(&reset, long).unwrap().new, Nanos::ZERO);
    }

    #[test]
    fn an_interrupt_that_wakes_nobody_begins_a_new_poll() {
        let params = Params::default();
        let mut vcpu = GuestHaltPoll::with_limit(us(50));
        vcpu.reflect(&params, IdleOutcome::Polled { expired: true });
        assert_eq!(vcpu.select(), IdleState::Halt);
        vcpu.reflect(&params, IdleOutcome::Halted { residency: us(60) });
        assert_eq!(vcpu.select(), IdleState::Poll { limit: us(100) });
    }

    #[test]
    fn work_between_an_expired_poll_and_its_halt_makes_the_next_period_halt_at_once() {
        let params = Params::default();
        let mut vcpu = GuestHaltPoll::with_limit(us(50));
        vcpu.reflect(&params, IdleOutcome::Polled { expired: true });
        assert_eq!(vcpu.idle(&params, us(20)), IdlePeriod { polled: us(0), halted: us(20), limit: us(50) });
        assert_eq!(vcpu.idle(&params, us(20)), IdlePeriod { polled: us(20), halted: us(0), limit: us(50) });
    }

    #[test]
    fn an_event_that_comes_with_the_end_of_the_poll_is_caught_and_one_nanosecond_later_is_not() {
        let params = Params::default();
        for (event, halted) in [(50_000, 0), (50_001, 1)] {
            let mut vcpu = GuestHaltPoll::with_limit(us(50));
            assert_eq!(
                vcpu.idle(&params, Nanos(event)),
                IdlePeriod { polled: us(50), halted: Nanos(halted), limit: us(50) }
            );
            assert_eq!(vcpu.select(), IdleState::Poll { limit: us(50) }, "after an event at {event}");
        }
    }

    #[test]
    fn a_request_for_no_latency_stores_a_limit_that_may_exceed_the_largest() {
        let params = Params::default();
        let mut vcpu = GuestHaltPoll::new();
        assert_eq!(vcpu.select_without_latency(&params), IdleState::Poll { limit: us(250) });
        assert_eq!(vcpu.select(), IdleState::Poll { limit: us(250) });
    }

    #[test]
    fn the_clock_is_looked_at_every_201_rounds_only() {
        let params = Params { cpu_relax_ns: Nanos(40), ..Params::default() };
        assert_eq!(params.poll_end(Nanos(50_000)), Nanos(7 * 201 * 40));
        assert_eq!(params.poll_end(Nanos(201 * 40)), Nanos(2 * 201 * 40));
        let mut vcpu = GuestHaltPoll::with_limit(us(50));
        assert_eq!(vcpu.idle(&params, us(56)), IdlePeriod { polled: us(56), halted: us(0), limit: us(50) });
    }

    #[test]
    fn the_guest_turns_the_hosts_polling_off_and_on_again() {
        let mut control = PollControl::new();
        assert!(control.host_polls());
        let off = PollControl::guest_writes(PollControl::FEATURE | 1, true).unwrap();
        assert!(control.write(off) && !control.host_polls());
        assert!(!control.write(2) && !control.host_polls());
        assert!(control.write(PollControl::guest_writes(PollControl::FEATURE, false).unwrap()) && control.host_polls());
        assert_eq!(PollControl::guest_writes(1, true), None);
    }

    fn any_params() -> impl Strategy<Value = Params> {
        let ns = || (0u64..400_000).prop_map(Nanos);
        (ns(), 0u32..5, 0u32..5, ns(), any::<[bool; 2]>(), 0u64..100).prop_map(
            |(most, shrink, grow, start, [allow, reset], relax)| Params {
                guest_halt_poll_ns: most,
                guest_halt_poll_shrink: shrink,
                guest_halt_poll_grow: grow,
                guest_halt_poll_grow_start: start,
                guest_halt_poll_allow_shrink: allow,
                guest_halt_poll_reset: reset,
                cpu_relax_ns: Nanos(relax),
                tick_ns: us(4_000),
            },
        )
    }

    proptest! {
        #[test]
        fn the_limit_is_zero_or_within_its_bounds(params in any_params(), halts in prop::collection::vec(0u64..600_000, 1..40)) {
            let mut vcpu = GuestHaltPoll::new();
            for halt in halts {
                let change = vcpu.reflect(&params, IdleOutcome::Halted { residency: Nanos(halt) });
                prop_assert!(vcpu.limit() <= params.guest_halt_poll_ns);
                let least = params.guest_halt_poll_grow_start.min(params.guest_halt_poll_ns);
                let floor = if params.guest_halt_poll_reset { least } else { Nanos::ZERO };
                prop_assert!(vcpu.limit() == Nanos::ZERO || vcpu.limit() >= floor);
                if let Some(PollAdjustment { grow: false, old, new }) = change {
                    prop_assert!(new <= old);
                }
            }
        }
    }
}
