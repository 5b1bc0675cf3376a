//! Host halt polling: when a vCPU halts, KVM polls for its wake-up before it gives the CPU away.
//!
//! ```text
//!                start: limit = min(limit, max)
//!   HLT exit ──────────────────────────────────► polling for limit ──► woken ──► finish(halt length)
//!      │                                              │ nothing came      ▲
//!      │ limit = 0, or polling not allowed            ▼                   │
//!      └─────────────────────────────────────────► blocked ───────────────┘
//!
//!   finish:  length <= limit          keep             length: the whole halt, the poll included
//!            length < max             grow
//!            length > max             shrink           so does a wake-up that is not valid
//! ```
//!
//! The guest's governor ([`guest_halt_poll`](crate::guest_halt_poll)) compares only the halt after its poll; the host
//! compares the whole. Growing has no upper bound here: the tracepoint can show 320000 with a largest of 200000, and the
//! excess goes at the next start.
//!
//! Sources: Linux virt/kvm/kvm_main.c (kvm_vcpu_halt), arch/powerpc/kvm/book3s_hv.c (kvmppc_vcore_blocked),
//! arch/s390/kvm/kvm-s390.c (kvm_arch_no_poll).

pub use crate::poll_adjustment::PollAdjustment;

use crate::knob::{KnobLocation, KnobMachines, KnobUnit, params};
use exitscope_units::Nanos;

params! {
    /// The tunables of host halt polling.
    halt_poll_ns: Nanos, KnobUnit::Nanos, 200_000, 0 => u32::MAX, KnobLocation::Module("kvm"), KnobMachines::All,
        "The longest KVM polls for a halted vCPU, in nanoseconds; 0 switches host polling off";
    halt_poll_ns_grow: u32, KnobUnit::Factor, 2, 0 => u32::MAX, KnobLocation::Module("kvm"), KnobMachines::All,
        "The poll is multiplied by this after a halt that a longer poll would have caught; 0 never grows";
    halt_poll_ns_grow_start: Nanos, KnobUnit::Nanos, 10_000, 0 => u32::MAX, KnobLocation::Module("kvm"), KnobMachines::All,
        "The poll at which growing begins, in nanoseconds; it is smaller only where halt_poll_ns is";
    halt_poll_ns_shrink: u32, KnobUnit::Factor, 2, 0 => u32::MAX, KnobLocation::Module("kvm"), KnobMachines::All,
        "The poll is divided by this after a long halt; 0 resets it to 0. The default is 2 from Linux 6.11 on, before 0";
    halt_poll_max_steal: u32, KnobUnit::Percent, 10, 0 => 255, KnobLocation::Module("kvm"), KnobMachines::Of("s390"),
        "s390: no polling while the hypervisor below takes at least this share of the time";
}

/// What `halt_poll_ns_shrink` is by default from which version of Linux on, newest first (virt/kvm/kvm_main.c; "KVM: Enable
/// halt polling shrink parameter by default" came with 6.11).
pub const HALT_POLL_NS_SHRINK_DEFAULTS: &[((u32, u32), u32)] = &[((6, 11), 2), ((0, 0), 0)];

impl Params {
    /// Whether s390 polls while `steal` percent of the time go to the hypervisor's other guests.
    pub fn polls_despite_steal(&self, steal: u32) -> bool {
        steal < self.halt_poll_max_steal
    }
}

/// What one VM and one vCPU say about polling for them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PollPermission {
    /// The VM's own largest poll, set with KVM_CAP_HALT_POLL; it replaces the module's.
    pub cap: Option<Nanos>,
    /// No polling for this vCPU: on x86 its guest polls ([`PollControl`](crate::guest_halt_poll::PollControl)), on s390
    /// too much time is stolen.
    pub no_poll: bool,
}

/// Whose polling it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PollOwner {
    /// A vCPU's: everywhere but below.
    #[default]
    Vcpu,
    /// A virtual core's, on POWER7 and POWER8, when all its vCPUs have ceded: shrinks without a floor, is capped after
    /// it grew, and asks neither VM nor vCPU.
    Vcore,
}

/// How one halt passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HaltResult {
    /// Time spent polling.
    pub polled: Nanos,
    /// Time spent blocked, the CPU given away. Zero after a poll: `halt_successful_poll`.
    pub blocked: Nanos,
    /// The poll of the next halt, as the tracepoint shows it: possibly above the largest.
    pub poll: Nanos,
}

/// KVM's polling state of one vCPU or virtual core.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostHaltPoll {
    whose: PollOwner,
    poll: u32,
}

impl HostHaltPoll {
    /// One that has never halted: it does not poll the first time.
    pub const fn new(whose: PollOwner) -> HostHaltPoll {
        HostHaltPoll { whose, poll: 0 }
    }

    /// A vCPU whose poll length is known, for one that is met in the middle of a trace.
    pub const fn with_poll(whose: PollOwner, poll: u32) -> HostHaltPoll {
        HostHaltPoll { whose, poll }
    }

    /// The poll length as the tracepoint shows it.
    pub fn poll(&self) -> Nanos {
        Nanos(u64::from(self.poll))
    }

    /// A halt begins: how long to poll. Zero: block at once.
    ///
    /// The poll also ends when another task waits for this CPU or the thread is to be rescheduled: one task runs alone.
    #[inline]
    pub fn start(&mut self, params: &Params, leave: &PollPermission) -> Nanos {
        if self.whose == PollOwner::Vcpu {
            self.poll = self.poll.min(self.largest(params, leave));
            if leave.no_poll {
                return Nanos::ZERO;
            }
        }
        self.poll()
    }

    /// The halt is over, `halt` after it began, the poll included. `valid` is false for wake-ups that s390 says nothing
    /// came of.
    #[inline]
    pub fn finish(
        &mut self,
        params: &Params,
        leave: &PollPermission,
        halt: Nanos,
        valid: bool,
    ) -> Option<PollAdjustment> {
        if self.whose == PollOwner::Vcpu && leave.no_poll {
            return None;
        }
        let most = self.largest(params, leave);
        let longest = Nanos(u64::from(most));
        let change = match () {
            _ if self.whose == PollOwner::Vcpu && !valid => Some(self.shrink(params)),
            _ if most == 0 => {
                self.poll = 0;
                None
            }
            _ if halt <= self.poll() => None,
            _ if self.poll > 0 && halt > longest => Some(self.shrink(params)),
            _ if self.poll < most && halt < longest => Some(self.grow(params)),
            _ => None,
        };
        if self.whose == PollOwner::Vcore {
            self.poll = self.poll.min(most);
        }
        change.map(|change| PollAdjustment { new: self.poll(), ..change })
    }

    fn largest(&self, params: &Params, leave: &PollPermission) -> u32 {
        let cap = leave.cap.filter(|_| self.whose == PollOwner::Vcpu);
        u32::try_from(cap.unwrap_or(params.halt_poll_ns).0).unwrap_or(u32::MAX)
    }

    fn grow(&mut self, params: &Params) -> PollAdjustment {
        let old = self.poll();
        if params.halt_poll_ns_grow > 0 {
            let grown = self.poll.wrapping_mul(params.halt_poll_ns_grow);
            self.poll = grown.max(params.halt_poll_ns_grow_start.0 as u32);
        }
        PollAdjustment { grow: true, old, new: self.poll() }
    }

    fn shrink(&mut self, params: &Params) -> PollAdjustment {
        let old = self.poll();
        self.poll = self.poll.checked_div(params.halt_poll_ns_shrink).unwrap_or(0);
        if self.whose == PollOwner::Vcpu && self.poll() < params.halt_poll_ns_grow_start {
            self.poll = 0;
        }
        PollAdjustment { grow: false, old, new: self.poll() }
    }

    /// One halt, step by step, that a valid event ends `event` after it began; nobody else wants the CPU.
    pub fn halt(&mut self, params: &Params, leave: &PollPermission, event: Nanos) -> HaltResult {
        let polled = self.start(params, leave).min(event);
        self.finish(params, leave, event, true);
        HaltResult { polled, blocked: Nanos(event.0 - polled.0), poll: self.poll() }
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
    fn the_worked_example_holds_with_the_x86_defaults() {
        let (params, leave) = (Params::default(), PollPermission::default());
        let mut vcpu = HostHaltPoll::new(PollOwner::Vcpu);
        for (event, polled, after) in [
            (15_000, 0, 10_000),
            (15_000, 10_000, 20_000),
            (30_000, 20_000, 40_000),
            (60_000, 40_000, 80_000),
            (120_000, 80_000, 160_000),
            (170_000, 160_000, 320_000),
            (190_000, 190_000, 200_000),
            (150_000, 150_000, 200_000),
            (250_000, 200_000, 100_000),
            (250_000, 100_000, 50_000),
            (250_000, 50_000, 25_000),
            (250_000, 25_000, 12_500),
            (250_000, 12_500, 0),
            (250_000, 0, 0),
            (5_000, 0, 10_000),
        ] {
            let halt = vcpu.halt(&params, &leave, Nanos(event));
            let blocked = Nanos(event - polled);
            assert_eq!(halt, HaltResult { polled: Nanos(polled), blocked, poll: Nanos(after) }, "event at {event}");
        }
    }

    #[test]
    fn what_is_traced_is_what_was_decided() {
        let (params, leave) = (Params::default(), PollPermission::default());
        let mut vcpu = HostHaltPoll::with_poll(PollOwner::Vcpu, 160_000);
        let grown = vcpu.finish(&params, &leave, us(170), true);
        assert_eq!(grown, Some(PollAdjustment { grow: true, old: us(160), new: us(320) }));
        let still = Params { halt_poll_ns_grow: 0, ..params };
        let mut vcpu = HostHaltPoll::new(PollOwner::Vcpu);
        let traced = vcpu.finish(&still, &leave, us(5), true);
        assert_eq!(traced, Some(PollAdjustment { grow: true, old: us(0), new: us(0) }));
    }

    #[test]
    fn a_poll_that_is_switched_off_meanwhile_is_zero_and_nothing_is_traced() {
        let off = Params { halt_poll_ns: Nanos::ZERO, ..Params::default() };
        for halt in [us(5), us(900)] {
            let mut vcpu = HostHaltPoll::with_poll(PollOwner::Vcpu, 160_000);
            assert_eq!(
                (vcpu.finish(&off, &PollPermission::default(), halt, true), vcpu.poll()),
                (None, us(0)),
                "{halt}"
            );
        }
    }

    #[test]
    fn a_halt_of_exactly_the_largest_poll_changes_nothing() {
        let mut vcpu = HostHaltPoll::with_poll(PollOwner::Vcpu, 100_000);
        assert_eq!(vcpu.finish(&Params::default(), &PollPermission::default(), us(200), true), None);
    }

    #[test]
    fn a_wake_up_that_is_not_valid_shrinks_even_after_a_short_halt() {
        let mut vcpu = HostHaltPoll::with_poll(PollOwner::Vcpu, 100_000);
        let change = vcpu.finish(&Params::default(), &PollPermission::default(), us(5), false);
        assert_eq!(change, Some(PollAdjustment { grow: false, old: us(100), new: us(50) }));
    }

    #[test]
    fn the_vms_cap_replaces_the_modules_largest_in_either_direction() {
        let params = Params::default();
        let mut vcpu = HostHaltPoll::with_poll(PollOwner::Vcpu, 200_000);
        assert_eq!(vcpu.start(&params, &PollPermission { cap: Some(us(60)), no_poll: false }), us(60));
        let wide = PollPermission { cap: Some(us(900)), no_poll: false };
        let mut vcpu = HostHaltPoll::with_poll(PollOwner::Vcpu, 200_000);
        assert_eq!(vcpu.halt(&params, &wide, us(700)).poll, us(400));
        let off = PollPermission { cap: Some(Nanos::ZERO), no_poll: false };
        assert_eq!(vcpu.halt(&params, &off, us(700)), HaltResult { polled: us(0), blocked: us(700), poll: us(0) });
    }

    #[test]
    fn a_vcpu_whose_guest_polls_is_left_alone() {
        let leave = PollPermission { no_poll: true, cap: None };
        let mut vcpu = HostHaltPoll::with_poll(PollOwner::Vcpu, 100_000);
        assert_eq!(
            vcpu.halt(&Params::default(), &leave, us(5)),
            HaltResult { polled: us(0), blocked: us(5), poll: us(100) }
        );
        assert!(Params::default().polls_despite_steal(9) && !Params::default().polls_despite_steal(10));
    }

    #[test]
    fn a_virtual_core_shrinks_without_a_floor_and_never_exceeds_the_largest() {
        let params = Params { halt_poll_ns: us(10), ..Params::default() };
        let leave = PollPermission { cap: Some(us(900)), no_poll: true };
        let mut vcore = HostHaltPoll::new(PollOwner::Vcore);
        for (event, after) in [(5_000, 10_000), (20_000, 5_000), (20_000, 2_500), (9_000, 10_000), (20_000, 5_000)] {
            assert_eq!(vcore.halt(&params, &leave, Nanos(event)).poll, Nanos(after), "event at {event}");
        }
        let wide = Params { halt_poll_ns: us(200), ..Params::default() };
        let mut vcore = HostHaltPoll::with_poll(PollOwner::Vcore, 160_000);
        let capped = vcore.finish(&wide, &leave, us(170), true);
        assert_eq!(capped, Some(PollAdjustment { grow: true, old: us(160), new: us(200) }));
    }

    fn any_params() -> impl Strategy<Value = Params> {
        let ns = || (0u64..400_000).prop_map(Nanos);
        (ns(), 0u32..5, ns(), 0u32..5).prop_map(|(most, grow, start, shrink)| Params {
            halt_poll_ns: most,
            halt_poll_ns_grow: grow,
            halt_poll_ns_grow_start: start,
            halt_poll_ns_shrink: shrink,
            halt_poll_max_steal: 10,
        })
    }

    fn any_whose() -> impl Strategy<Value = PollOwner> {
        prop_oneof![Just(PollOwner::Vcpu), Just(PollOwner::Vcore)]
    }

    proptest! {
        #[test]
        fn step_by_step_equals_whole(
            params in any_params(), whose in any_whose(), events in prop::collection::vec(0u64..600_000, 1..40)
        ) {
            let leave = PollPermission::default();
            let mut vcpu = HostHaltPoll::new(whose);
            for event in events {
                let (before, most) = (vcpu.poll().0, params.halt_poll_ns.0);
                let halt = vcpu.halt(&params, &leave, Nanos(event));
                // As a whole, out of the description in the kernel's document.
                let poll = before.min(most);
                prop_assert_eq!(halt.polled, Nanos(poll.min(event)));
                prop_assert_eq!(halt.polled.0 + halt.blocked.0, event);
                let floor = if whose == PollOwner::Vcpu { params.halt_poll_ns_grow_start.0 } else { 0 };
                let next = match () {
                    _ if most == 0 => 0,
                    _ if event <= poll => poll,
                    _ if event > most => {
                        let shrunk = poll.checked_div(u64::from(params.halt_poll_ns_shrink)).unwrap_or(0);
                        if shrunk < floor { 0 } else { shrunk }
                    }
                    _ if event < most && params.halt_poll_ns_grow > 0 => {
                        (poll * u64::from(params.halt_poll_ns_grow)).max(params.halt_poll_ns_grow_start.0)
                    }
                    _ => poll,
                };
                let next = if whose == PollOwner::Vcore { next.min(most) } else { next };
                prop_assert_eq!(halt.poll, Nanos(next));
            }
        }

        #[test]
        fn no_halt_polls_longer_than_allowed(
            params in any_params(), whose in any_whose(), cap in prop::option::of(0u64..400_000), no_poll: bool,
            events in prop::collection::vec(0u64..600_000, 1..40)
        ) {
            let leave = PollPermission { cap: cap.map(Nanos), no_poll };
            let mut vcpu = HostHaltPoll::new(whose);
            for event in events {
                let polled = vcpu.halt(&params, &leave, Nanos(event)).polled;
                match whose {
                    PollOwner::Vcpu if no_poll => prop_assert_eq!(polled, Nanos::ZERO),
                    PollOwner::Vcpu => prop_assert!(polled <= leave.cap.unwrap_or(params.halt_poll_ns)),
                    PollOwner::Vcore => prop_assert!(polled <= params.halt_poll_ns),
                }
            }
        }
    }
}
