//! Halts: a vCPU has nothing to do, and waits for what wakes it.
//!
//! ```text
//!  exit (hlt)        sched_switch        sched_wakeup       sched_switch   kvm_halt_poll_ns    kvm_entry
//!     │   KVM polls       │     asleep        │  waits for CPU    │        kvm_vcpu_wakeup         │
//!   begin ───────────── asleep ───────────── woken ───────────────┴────────────── end ──────── entered
//! ```
//!
//! On powerpc, where a ceded vCPU goes on entering with its virtual core, the halts are the virtual cores'. A wake-up
//! that comes while KVM still polls leaves out what is between `asleep` and `woken`. An exit may hold several halts: one
//! that nothing came of is followed by the next.

use crate::{PollChange, VcpuIdentity};
use exitscope_units::{Moment, Nanos};

/// One halt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Halt {
    /// The vCPU that halted.
    pub who: VcpuIdentity,
    /// When the vCPU left its guest with nothing to do; of further halts in one exit, when KVM began them.
    pub begin: Moment,
    /// When its thread gave its CPU away, from scheduler events.
    pub asleep: Option<Moment>,
    /// When its thread was made runnable again, from scheduler events.
    pub woken: Option<Moment>,
    /// What KVM said at its end (`kvm_vcpu_wakeup`).
    pub vcpu_wakeup: Option<VcpuWakeup>,
    /// The change of the poll that KVM made of it (`kvm_halt_poll_ns`).
    pub change: Option<PollChange>,
    /// Whether a sibling ended it by `KVM_HC_KICK_CPU`: the vCPU waited for a paravirtual spinlock.
    pub kicked: bool,
    /// The vector of the last IPI that a sibling sent the vCPU meanwhile, as far as an exit tells of it.
    pub ipi: Option<u8>,
    /// When it was over: KVM's wake-up event, or the entry where there is none.
    pub end: Moment,
    /// The entry into the guest, unless another halt came before.
    pub entered: Option<Moment>,
}

/// What `kvm_vcpu_wakeup` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VcpuWakeup {
    /// How long the halt lasted, polling included.
    pub length: Nanos,
    /// Whether the thread slept.
    pub waited: bool,
    /// Whether the wake-up was for something.
    pub valid: bool,
    /// Whether KVM may have polled, where it has said nothing of this vCPU's polls: the host's `halt_poll_ns` is not 0.
    pub may_poll: bool,
}

/// The longest that KVM would have polled in such a halt, in nanoseconds, if the recording says: when it changes a poll, it says
/// how long it was, and it is as the vCPU's `last` change left it otherwise. A vCPU of which it has told no change has no limit of
/// its own (`KVM_CAP_HALT_POLL`), and polls as the host does.
///
/// A halt longer than the poll always changes it, or makes a poll of zero stay zero (`kvm_vcpu_halt` of `virt/kvm/kvm_main.c`),
/// unless polling is off: `None` then, too.
pub fn poll_limit(wakeup: &VcpuWakeup, change: Option<PollChange>, last: Option<u32>) -> Option<u32> {
    let last = last.or((!wakeup.may_poll).then_some(0));
    let unchanged = || last.filter(|last| *last == 0 || wakeup.length.0 <= u64::from(*last));
    change.map(|change| change.old).or_else(unchanged)
}

/// A lane's halt so far.
#[derive(Clone, Debug, Default)]
pub struct OpenHalt {
    /// The exit that says that there is nothing to do.
    idle_since: Option<Moment>,
    asleep: Option<Moment>,
    woken: Option<Moment>,
    pub change: Option<PollChange>,
    kicked: bool,
    ipi: Option<u8>,
    /// A halt that is over, before the entry.
    ended: Option<Halt>,
}

impl OpenHalt {
    /// The vCPU leaves its guest; `idle`: with nothing to do.
    #[inline(always)]
    pub fn exit(&mut self, at: Moment, idle: bool, halts: &mut Vec<Halt>) {
        if idle || self.is_open() {
            halts.extend(self.ended);
            *self = OpenHalt { idle_since: idle.then_some(at), ..OpenHalt::default() };
        }
    }

    /// The thread gives its CPU away and sleeps.
    pub fn sleep(&mut self, at: Moment) {
        self.asleep.get_or_insert(at);
    }

    /// The thread is made runnable. What counts is the last wake-up: earlier ones came to nothing.
    pub fn wake(&mut self, at: Moment) {
        self.woken = Some(at);
    }

    /// KVM says that a halt is over.
    pub fn vcpu_wakeup(&mut self, at: Moment, who: VcpuIdentity, wakeup: VcpuWakeup, halts: &mut Vec<Halt>) {
        let begun = Moment::from_nanos(at.as_nanos().saturating_sub(wakeup.length.0));
        let begin = self.idle_since.take().unwrap_or(begun);
        let within = |moment: Option<Moment>| moment.filter(|moment| *moment >= begin && wakeup.waited);
        let (asleep, woken) = (within(self.asleep.take()), within(self.woken.take()));
        let change = self.change.take();
        halts.extend(self.ended.take());
        let (kicked, ipi) = (std::mem::take(&mut self.kicked), self.ipi.take());
        let vcpu_wakeup = Some(wakeup);
        self.ended = Some(Halt { who, begin, asleep, woken, vcpu_wakeup, change, kicked, ipi, end: at, entered: None });
    }

    /// The vCPU enters its guest; `idle`: from an exit with nothing to do.
    #[inline(always)]
    pub fn enter(&mut self, at: Moment, who: VcpuIdentity, idle: bool, halts: &mut Vec<Halt>) {
        if self.is_open() {
            self.close(at, who, idle, halts);
        }
    }

    /// The recording ends.
    pub fn finish(&mut self, halts: &mut Vec<Halt>) {
        halts.extend(self.ended.take());
    }

    /// The change of the poll that KVM made of the halt that ended last.
    pub fn ended_change(&self) -> Option<PollChange> {
        self.ended.and_then(|halt| halt.change)
    }

    /// User space halts (`KVM_EXIT_HLT`): KVM does not, and fires nothing when it is over.
    pub fn hand_over(&mut self) {
        self.idle_since = None;
    }

    /// A sibling kicks the vCPU (`KVM_HC_KICK_CPU`): if it halts, it waited for a paravirtual spinlock.
    pub fn kick(&mut self) {
        self.kicked |= self.is_open();
    }

    /// A sibling sends the vCPU an IPI of this vector.
    pub fn ipi(&mut self, vector: u8) {
        if self.is_open() {
            self.ipi = Some(vector);
        }
    }

    fn is_open(&self) -> bool {
        self.idle_since.is_some() || self.ended.is_some()
    }

    fn close(&mut self, at: Moment, who: VcpuIdentity, idle: bool, halts: &mut Vec<Halt>) {
        let OpenHalt { idle_since, asleep, woken, kicked, ipi, ended, .. } = std::mem::take(self);
        match (ended, idle_since) {
            (Some(halt), _) => {
                let (kicked, ipi) = (halt.kicked || kicked, ipi.or(halt.ipi));
                halts.push(Halt { who, entered: Some(at), kicked, ipi, ..halt });
            }
            (None, Some(begin)) if idle => {
                let (wakeup, change) = (None, None);
                halts.push(Halt {
                    who,
                    begin,
                    asleep,
                    woken,
                    vcpu_wakeup: wakeup,
                    change,
                    kicked,
                    ipi,
                    end: at,
                    entered: Some(at),
                });
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use exitscope_units::{Tid, VcpuId, VmId};

    fn at(nanos: u64) -> Moment {
        Moment::from_nanos(nanos)
    }

    fn who(vcpu: u32) -> VcpuIdentity {
        VcpuIdentity { vm: VmId(3), vcpu: VcpuId(vcpu), tid: Tid(11) }
    }

    fn wakeup(length: u64, waited: bool) -> VcpuWakeup {
        VcpuWakeup { length: Nanos(length), waited, valid: true, may_poll: true }
    }

    /// What is known of a halt, but for whose it is: begin, asleep, woken, end, entered.
    fn moments(halt: &Halt) -> [Option<u64>; 5] {
        let moments = [Some(halt.begin), halt.asleep, halt.woken, Some(halt.end), halt.entered];
        moments.map(|moment| moment.map(Moment::as_nanos))
    }

    #[test]
    fn a_halt_was_polled_for_as_kvm_last_said_and_else_as_the_host_does() {
        let limit = |may_poll, change: Option<(u32, u32)>, last| {
            let change = change.map(|(old, new)| PollChange { grow: new > old, new, old });
            poll_limit(&VcpuWakeup { may_poll, ..wakeup(80, false) }, change, last)
        };
        for may_poll in [true, false] {
            assert_eq!(limit(may_poll, Some((50, 0)), Some(90)), Some(50), "the change says how long it was");
            assert_eq!(limit(may_poll, None, Some(80)), Some(80));
            assert_eq!(limit(may_poll, None, Some(79)), None, "it would have changed");
            assert_eq!(limit(may_poll, None, Some(0)), Some(0));
        }
        assert_eq!((limit(true, None, None), limit(false, None, None)), (None, Some(0)));
    }

    #[test]
    fn a_halt_is_whole_when_its_vcpu_enters() {
        let (mut halting, mut halts) = (OpenHalt::default(), Vec::new());
        halting.exit(at(100), true, &mut halts);
        halting.sleep(at(130));
        halting.sleep(at(150));
        halting.wake(at(170));
        halting.wake(at(190));
        let change = PollChange { grow: true, new: 20, old: 10 };
        halting.change = Some(change);
        assert_eq!(halting.ended_change(), None, "it is not over");
        halting.vcpu_wakeup(at(210), who(5), wakeup(95, true), &mut halts);
        assert_eq!((halts.len(), halting.ended_change()), (0, Some(change)));
        // Who it was is known by the entry.
        halting.enter(at(220), who(7), true, &mut halts);
        let [halt] = halts[..] else { panic!("{halts:?}") };
        assert_eq!(moments(&halt), [Some(100), Some(130), Some(190), Some(210), Some(220)]);
        let said = (halt.who, halt.vcpu_wakeup, halt.change, halt.kicked);
        assert_eq!(said, (who(7), Some(wakeup(95, true)), Some(change), false));
        // Nothing is left of it.
        halting.enter(at(230), who(7), true, &mut halts);
        halting.finish(&mut halts);
        assert_eq!((halts.len(), halting.ended_change()), (1, None));
    }

    #[test]
    fn further_halts_of_an_exit_begin_when_kvm_began_them() {
        let (mut halting, mut halts) = (OpenHalt::default(), Vec::new());
        halting.exit(at(100), true, &mut halts);
        // It slept before this halt began, and its second sleep began with it.
        halting.vcpu_wakeup(at(200), who(5), wakeup(30, false), &mut halts);
        halting.sleep(at(260));
        halting.wake(at(280));
        halting.vcpu_wakeup(at(300), who(5), wakeup(40, true), &mut halts);
        halting.sleep(at(339));
        halting.wake(at(340));
        halting.vcpu_wakeup(at(400), who(5), wakeup(60, true), &mut halts);
        halting.finish(&mut halts);
        let expected = [
            [Some(100), None, None, Some(200), None],
            [Some(260), Some(260), Some(280), Some(300), None],
            [Some(340), None, Some(340), Some(400), None],
        ];
        assert_eq!(halts.iter().map(moments).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn a_poll_that_succeeded_did_not_sleep_whatever_the_scheduler_said() {
        let (mut halting, mut halts) = (OpenHalt::default(), Vec::new());
        halting.exit(at(100), true, &mut halts);
        halting.sleep(at(120));
        halting.wake(at(140));
        halting.vcpu_wakeup(at(200), who(5), wakeup(90, false), &mut halts);
        halting.finish(&mut halts);
        assert_eq!(halts.iter().map(moments).collect::<Vec<_>>(), [[Some(100), None, None, Some(200), None]]);
    }

    #[test]
    fn a_halt_that_nobody_told_of_is_the_exit_if_that_was_idle_to_its_end() {
        for idle in [true, false] {
            let (mut halting, mut halts) = (OpenHalt::default(), Vec::new());
            halting.exit(at(100), true, &mut halts);
            halting.sleep(at(120));
            halting.wake(at(140));
            halting.kick();
            halting.enter(at(160), who(5), idle, &mut halts);
            let found: Vec<_> = halts.iter().map(|halt| (moments(halt), halt.kicked, halt.vcpu_wakeup)).collect();
            let whole = ([Some(100), Some(120), Some(140), Some(160), Some(160)], true, None);
            assert_eq!(found, if idle { vec![whole] } else { vec![] });
        }
    }

    #[test]
    fn an_exit_that_is_not_idle_ends_what_was_open_and_begins_nothing() {
        let (mut halting, mut halts) = (OpenHalt::default(), Vec::new());
        // Only told of, with no idle exit before it: then another exit comes.
        halting.sleep(at(50));
        halting.vcpu_wakeup(at(90), who(5), wakeup(60, true), &mut halts);
        halting.exit(at(100), false, &mut halts);
        assert_eq!(halts.iter().map(moments).collect::<Vec<_>>(), [[Some(30), Some(50), None, Some(90), None]]);
        halting.enter(at(110), who(5), true, &mut halts);
        // An idle exit of which no entry was seen is none after another exit.
        halting.exit(at(120), true, &mut halts);
        halting.exit(at(130), false, &mut halts);
        halting.enter(at(140), who(5), true, &mut halts);
        assert_eq!(halts.len(), 1);
        // What the scheduler says while nothing is open is kept for a halt of which no idle exit tells.
        halting.sleep(at(150));
        halting.exit(at(155), false, &mut halts);
        halting.vcpu_wakeup(at(190), who(5), wakeup(45, true), &mut halts);
        halting.finish(&mut halts);
        assert_eq!(moments(&halts[1]), [Some(145), Some(150), None, Some(190), None]);
    }

    #[test]
    fn a_kick_counts_while_a_halt_is_open_until_the_entry() {
        // Whether a kick comes before the idle exit, within the halt, and after KVM told of its end.
        for (kicks, kicked) in [
            ([false, false, false], false),
            ([true, false, false], false),
            ([false, true, false], true),
            ([false, false, true], true),
            ([false, true, true], true),
        ] {
            let (mut halting, mut halts) = (OpenHalt::default(), Vec::new());
            let kick = |halting: &mut OpenHalt, at: usize| kicks[at].then(|| halting.kick());
            kick(&mut halting, 0);
            halting.exit(at(100), true, &mut halts);
            kick(&mut halting, 1);
            halting.vcpu_wakeup(at(200), who(5), wakeup(90, true), &mut halts);
            kick(&mut halting, 2);
            halting.enter(at(210), who(5), true, &mut halts);
            assert_eq!(halts.iter().map(|halt| halt.kicked).collect::<Vec<_>>(), [kicked], "{kicks:?}");
        }
    }
}
