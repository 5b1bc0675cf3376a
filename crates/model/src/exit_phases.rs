//! The way of an exit: how its cost divides into steps, and when others began and ended to serve it.
//!
//! ```text
//!  kvm_exit   kvm_pio    kvm_fpu(put)            sys_exit     sleeps    sys_enter (or kvm_fpu(load))
//!     │ reaching │ handling │ leaving ─┬─ leaving ───┤ user │ asleep │ user │ entering │ kvm_entry
//!                             kvm_userspace_exit = handed                 answered
//! ```
//!
//! What nothing marks is part of the step around it: without system calls in the trace, the return to user space is part
//! of `user`. On Xen `user` is waiting for the device model. The steps together are the exit's cost, kernel and user; idle
//! time and waiting for a CPU are in none.

use exitscope_units::Nanos;

/// A part of an exit's cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum ExitPhase {
    /// Until the first event of the exit's handler.
    ToHandler,
    /// In the kernel's handler.
    Handling,
    /// On the way from KVM to user space.
    ToUserSpace,
    /// In user space.
    UserSpace,
    /// In user space, asleep.
    UserSpaceAsleep,
    /// From the call of `KVM_RUN` until the entry.
    Reentry,
}

impl ExitPhase {
    /// All, in order.
    pub const ALL: [ExitPhase; 6] = [
        ExitPhase::ToHandler,
        ExitPhase::Handling,
        ExitPhase::ToUserSpace,
        ExitPhase::UserSpace,
        ExitPhase::UserSpaceAsleep,
        ExitPhase::Reentry,
    ];
}

/// What was seen of an exit's way. An exit that goes to user space and back, or to a device model, has another than the
/// first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum PhaseBoundary {
    /// An event of its handler.
    HandlerEvent,
    /// KVM put the guest's floating-point state aside (`kvm_fpu`), or the system call returned: when it began to leave.
    FpuPut,
    /// Somebody outside was told to serve it (`kvm_userspace_exit`; on Xen, the vCPU stopped running for an access, or was
    /// woken in one although it ran).
    HandedOver,
    /// `KVM_RUN` returned to user space (`sys_exit_ioctl`).
    KvmRunReturned,
    /// `KVM_RUN` was called again, or loaded the guest's floating-point state; on Xen, the device model had answered.
    KvmRunEntered,
    /// The kernel emulated an instruction.
    Emulated,
}

impl PhaseBoundary {
    /// All, in order.
    pub const ALL: [PhaseBoundary; 6] = [
        PhaseBoundary::HandlerEvent,
        PhaseBoundary::FpuPut,
        PhaseBoundary::HandedOver,
        PhaseBoundary::KvmRunReturned,
        PhaseBoundary::KvmRunEntered,
        PhaseBoundary::Emulated,
    ];
}

/// The way of one exit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExitPhases {
    times: [Nanos; ExitPhase::ALL.len()],
    /// From the exit until others were told to serve it: `kvm_userspace_exit`; on Xen, until a vCPU of another domain was
    /// woken on this physical CPU, or this one stopped running. Zero if that was not seen; of no meaning if nobody else
    /// served it.
    pub handed: Nanos,
    /// From the exit until they had served it: `KVM_RUN` was called again; on Xen, the vCPU was runnable again, or was woken
    /// while it still ran. Zero if that was not seen.
    pub answered: Nanos,
    /// Time in system calls that user space made for the exit, part of [`ExitPhase::UserSpace`] and
    /// [`ExitPhase::UserSpaceAsleep`].
    pub in_calls: Nanos,
    /// Of that, in calls that read or write registers.
    pub in_register_calls: Nanos,
    /// Such system calls.
    pub calls: u16,
    /// Of these, those that read or write registers.
    pub register_calls: u16,
    marks: u8,
}

impl ExitPhases {
    /// How long a step took.
    pub const fn time(&self, step: ExitPhase) -> Nanos {
        self.times[step as usize]
    }

    /// Whether this was seen.
    pub const fn has(&self, mark: PhaseBoundary) -> bool {
        self.marks & 1 << mark as u8 != 0
    }

    /// Whether nothing was seen: all of it is handling.
    pub const fn is_unmarked(&self) -> bool {
        self.marks == 0
    }

    /// Whether more was seen than an event of its handler: else there are no steps but reaching and handling.
    pub const fn is_more_than_reached(&self) -> bool {
        self.marks & !(1 << PhaseBoundary::HandlerEvent as u8) != 0
    }

    #[inline(always)]
    pub(crate) fn mark(&mut self, mark: PhaseBoundary) {
        self.marks |= 1 << mark as u8;
    }

    #[inline(always)]
    pub(crate) fn spend(&mut self, step: ExitPhase, time: Nanos) {
        let spent = &mut self.times[step as usize];
        *spent = spent.plus(time);
    }

    /// `time` of one step, as far as it has that much, belongs to another.
    pub(crate) fn move_time(&mut self, from: ExitPhase, to: ExitPhase, time: Nanos) {
        let moved = self.deduct(from, time);
        self.spend(to, moved);
    }

    /// `time` of a step, as far as it has that much, belongs to none.
    pub(crate) fn deduct(&mut self, step: ExitPhase, time: Nanos) -> Nanos {
        let left = &mut self.times[step as usize];
        let taken = left.0.min(time.0);
        left.0 -= taken;
        Nanos(taken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_mark_is_seen_apart_from_the_others() {
        assert!(ExitPhases::default().is_unmarked() && !ExitPhases::default().is_more_than_reached());
        for only in PhaseBoundary::ALL {
            let mut way = ExitPhases::default();
            (0..2).for_each(|_| way.mark(only));
            assert_eq!(
                PhaseBoundary::ALL.map(|mark| way.has(mark)),
                PhaseBoundary::ALL.map(|mark| mark == only),
                "{only:?}"
            );
            assert_eq!(
                (way.is_unmarked(), way.is_more_than_reached()),
                (false, only != PhaseBoundary::HandlerEvent),
                "{only:?}"
            );
            way.mark(PhaseBoundary::HandlerEvent);
            assert!(way.has(only) && way.has(PhaseBoundary::HandlerEvent));
            assert_eq!(way.is_more_than_reached(), only != PhaseBoundary::HandlerEvent, "{only:?}");
        }
    }

    #[test]
    fn time_of_a_step_is_moved_and_taken_as_far_as_there_is_so_much() {
        let mut way = ExitPhases::default();
        way.spend(ExitPhase::UserSpace, Nanos(70));
        way.spend(ExitPhase::UserSpace, Nanos(30));
        way.spend(ExitPhase::Handling, Nanos(9));
        way.move_time(ExitPhase::UserSpace, ExitPhase::Handling, Nanos(40));
        assert_eq!(ExitPhase::ALL.map(|step| way.time(step).0), [0, 49, 0, 60, 0, 0]);
        way.move_time(ExitPhase::UserSpace, ExitPhase::ToUserSpace, Nanos(61));
        assert_eq!(ExitPhase::ALL.map(|step| way.time(step).0), [0, 49, 60, 0, 0, 0]);
        assert_eq!(
            (way.deduct(ExitPhase::ToUserSpace, Nanos(7)), way.deduct(ExitPhase::ToUserSpace, Nanos(100))),
            (Nanos(7), Nanos(53))
        );
        assert_eq!(
            (way.deduct(ExitPhase::ToUserSpace, Nanos(1)), way.time(ExitPhase::ToUserSpace)),
            (Nanos(0), Nanos(0))
        );
    }
}
