//! What a lane makes of what Xen's scheduler says, and how an access is told to be the device model's.
//!
//! ```text
//!  VMEXIT   vcpu_wake (domain 0)   running to offline    vcpu_wake   offline to runnable    VMENTRY
//!     │ kernel │ handed              │ user space                      │ steal, kernel        │   it waited
//!     │ kernel │ handed                kernel          │ answered       kernel                │   answered sooner
//! ```
//!
//! `ioreq_send` of `xen/common/ioreq.c` marks the vCPU as blocked in Xen, asks for the scheduler
//! (`prepare_wait_on_xen_event_channel` of `xen/include/xen/event.h`) and tells the device model. Its answer takes the mark
//! away and wakes the vCPU (`default_xen_notification_fn` of `xen/common/event_channel.c`). If that is before the scheduler
//! looked, the vCPU goes on running (`TRC_SCHED_SWITCH_INFCONT`, as after any look), and no run state says that it was to wait.
//! What does is that a vCPU that runs was woken: whoever else wakes one had blocked it before (`vcpu_unblock` of
//! `xen/common/sched/core.c` does nothing otherwise), paused it (`vcpu_sleep_nosync`, which says so), moves it or starts it,
//! none of which an access does. What Xen answers itself (`hvm_io_intercept` of `xen/arch/x86/hvm/intercept.c`), what nobody
//! answers, and buffered requests, for which nobody waits, wake nobody.

use super::{Lane, LanePosition, LaneRunState};
use crate::{Event, ExitCode, ExitPhase, Handler, PhaseBoundary, TimePart};
use exitscope_units::{Moment, Nanos};

/// `vcpu_wake` says that it was called, and changes the run state of a vCPU that was not runnable: since Xen 4.7 in this order,
/// before in the other, so that the vCPU may run when it is said. Whether one of the two was seen without the other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WakeUp {
    /// Neither.
    #[default]
    None,
    /// The vCPU does not run, and was said to be woken.
    Said,
    /// The vCPU is runnable, or was, and was not said to be woken.
    Unsaid,
}

impl Lane {
    /// Its CPU recorded nothing for so long before now; what was told of it elsewhere meanwhile divides its time.
    #[cold]
    pub fn was_silent(&mut self, now: Moment, silence: Nanos) {
        let untold = now.since(self.since).unwrap_or_default().min(silence);
        if self.state == LanePosition::Kernel
            && self.account(now)
            && let Some(exit) = &mut self.open
        {
            exit.parts.shift(TimePart::Kernel, TimePart::Unknown, untold);
        }
    }

    /// The scheduler has the vCPU in another state from `at` on; the caller notes which.
    pub fn run_state(&mut self, at: Moment, run: LaneRunState) {
        self.account(at);
        match run {
            LaneRunState::Blocked => self.halt.sleep(at),
            _ if self.run == LaneRunState::Blocked => self.halt.wake(at),
            _ => {}
        }
        if self.run.is_not_runnable() && !run.is_not_runnable() {
            self.wake_up = match self.wake_up {
                WakeUp::Said => WakeUp::None,
                WakeUp::None | WakeUp::Unsaid => WakeUp::Unsaid,
            };
        }
        if let Some(exit) = &mut self.open {
            let (waited, waits) = (self.run.waits_for_device_model(exit.code), run.waits_for_device_model(exit.code));
            if waits {
                exit.phases.mark(PhaseBoundary::HandedOver);
                if exit.phases.handed == Nanos::ZERO {
                    exit.phases.handed = at.since(exit.at).unwrap_or_default();
                }
            }
            if waited && !waits {
                exit.phases.answered = at.since(exit.at).unwrap_or_default();
                exit.phases.mark(PhaseBoundary::KvmRunEntered);
            }
            match (waited, waits) {
                (false, true) => self.go(ExitPhase::UserSpace),
                (true, false) => self.go(ExitPhase::Reentry),
                _ => {}
            }
        }
    }

    /// `vcpu_wake` was called for this vCPU. If it runs, and is in an access, the device model has answered that before the
    /// scheduler took its CPU. It never waited: all its time is the kernel's.
    pub fn woken(&mut self, at: Moment, paused: bool) {
        self.account(at);
        if self.run.is_not_runnable() {
            self.wake_up = WakeUp::Said;
            return;
        }
        let is_told = std::mem::take(&mut self.wake_up) == WakeUp::Unsaid;
        if let (Some(exit), LaneRunState::Running, false) = (&mut self.open, self.run, is_told || paused)
            && exit.code.is_access()
            && exit.handler == Handler::Kernel
        {
            exit.handler = Handler::DeviceModel;
            exit.phases.mark(PhaseBoundary::HandedOver);
            exit.phases.mark(PhaseBoundary::KvmRunEntered);
            exit.phases.answered = at.since(exit.at).unwrap_or_default();
            self.go(ExitPhase::Reentry);
        }
    }

    /// A vCPU of another domain was woken on the physical CPU where this one runs: if this one waits for its device model, or
    /// that answers, the device model's.
    pub fn woke_another(&mut self, event: &Event) {
        if let (Some(exit), LaneRunState::Running) = (&mut self.open, self.run)
            && exit.cpu == event.cpu
            && exit.who.vm != event.vm
            && exit.code.is_access()
            && exit.phases.handed == Nanos::ZERO
        {
            exit.phases.handed = event.at.since(exit.at).unwrap_or_default();
        }
    }
}

impl LaneRunState {
    /// Whether `vcpu_wake` makes it runnable.
    fn is_not_runnable(self) -> bool {
        matches!(self, LaneRunState::Blocked | LaneRunState::Offline | LaneRunState::Paused)
    }

    /// Whether a vCPU with an open exit of this code waits for its device model.
    pub(super) fn waits_for_device_model(self, code: ExitCode) -> bool {
        match self {
            LaneRunState::Offline => code.may_wait_for_device_model(),
            // As long as such waits were no pauses.
            LaneRunState::Blocked => code.is_access(),
            _ => false,
        }
    }
}
