//! How the assembler finds yields, and what became of them.
//!
//! ```text
//! Exit (pause), or Exit and then Subject (hypercall, diagnose) ─► begin_yield ─► Switch: gave ─► Enter: entered, waited
//! ```

use super::{Assembler, CPU_CACHE, NO_LANE, vcpu_key};
use crate::lane::LaneRunState;
use crate::yields::{PleUpdate, TargetState, Yield, YieldCall, YieldRecipient};
use crate::{Event, EventKind, SubjectKind, TimePart};
use exitscope_units::{Moment, Nanos, PcpuId, VcpuId};

impl Assembler {
    /// What an event on this lane says of yields.
    #[inline(always)]
    pub(super) fn look_for_yield(&mut self, event: &Event, number: usize) {
        let said = match event.kind {
            EventKind::Exit { code, .. } => YieldCall::of_exit(code).map(|call| (call, None)),
            // Xen's own records of yields say more.
            EventKind::Detail(detail) if detail.kind == SubjectKind::XenHypercall && self.lanes_by_vcpu => None,
            EventKind::Detail(detail) if detail.kind.is_hypercall() => YieldCall::of_detail(&detail),
            EventKind::Wfx { wfe: true } => Some((YieldCall::Wfe, None)),
            EventKind::Yield => Some((YieldCall::SchedOp, None)),
            EventKind::PleWindow { new, old } => {
                let who = self.lanes[number].who;
                self.beside.ple_updates.push(PleUpdate { who, at: event.at, new, old });
                if let Some(of) = self.lanes[number].yielding.as_mut().filter(|_| new > old) {
                    of.window = Some(old);
                }
                None
            }
            _ => None,
        };
        if let Some((call, target)) = said {
            self.begin_yield(event.at, number, call, target);
        }
    }

    #[cold]
    fn begin_yield(&mut self, at: Moment, number: usize, call: YieldCall, target: Option<VcpuId>) {
        let lane = &self.lanes[number];
        // An exit is one yield, whatever else says so.
        if lane.yielding.is_some() {
            return;
        }
        let (who, again) = (lane.who, lane.after_yield);
        // Without kvm_exit, the call is told before the return to user space.
        let since_entry = || lane.entered.and_then(|entered| at.since(entered)).unwrap_or_default();
        let (left_at, guest) = lane.open.map_or_else(|| (at, since_entry()), |exit| (exit.at, exit.guest));
        let (waiters, waiting) = self.queue.runnable_siblings(at, who.vm, target, call.waits());
        let has_sched_events = self.queue.has_sched_events();
        let other = target.filter(|_| has_sched_events).and_then(|target| self.index.get(&vcpu_key(who.vm, target)));
        let place = waiting.unwrap_or(match other.and_then(|&other| self.lanes.get(other as usize)) {
            Some(other) if matches!(other.run, LaneRunState::Sleeping | LaneRunState::Blocked) => TargetState::Halted,
            Some(other) if other.run == LaneRunState::Running => TargetState::Running,
            _ => TargetState::Unknown,
        });
        let lane = &mut self.lanes[number];
        let was_out = std::mem::take(&mut lane.was_out);
        lane.yielding = Some(Yield {
            who,
            at: left_at,
            call,
            target,
            target_state: place,
            found: has_sched_events.then_some(waiters),
            guest,
            again,
            was_out,
            window: None,
            recipient: if has_sched_events { YieldRecipient::Nobody } else { YieldRecipient::Unknown },
            waited: Nanos::ZERO,
            entered: None,
        });
    }

    /// The lane's vCPU enters its guest.
    #[inline(always)]
    pub(super) fn enters(&mut self, at: Moment, number: usize) {
        let lane = &mut self.lanes[number];
        lane.after_yield = lane.yielding.is_some();
        lane.entered = Some(at);
        if lane.after_yield {
            self.enters_from_yield(at, number);
        }
        self.runs(at, number);
    }

    #[cold]
    fn enters_from_yield(&mut self, at: Moment, number: usize) {
        let lane = &mut self.lanes[number];
        lane.account(at);
        let waited = lane.open.map_or(Nanos::ZERO, |exit| exit.part(TimePart::Steal));
        if let Some(of) = &mut lane.yielding {
            (of.entered, of.waited) = (Some(at), waited);
        }
    }

    /// Xen: a vCPU that yielded and makes no exits (of a PV domain) runs again.
    pub(super) fn end_bare_yield(&mut self, at: Moment, number: usize) {
        let lane = &mut self.lanes[number];
        if lane.open.is_none()
            && let Some(of) = lane.yielding.take()
        {
            self.beside.yields.push(Yield { entered: Some(at), waited: at.since(of.at).unwrap_or_default(), ..of });
        }
    }

    /// A vCPU gives its CPU away, though it could run.
    pub(super) fn yield_cpu_to(&mut self, number: usize, to: Option<usize>) {
        let to = to.map(|to| self.lanes[to].who);
        let lane = &mut self.lanes[number];
        if let Some(of) = lane.yielding.as_mut().filter(|of| of.recipient == YieldRecipient::Nobody) {
            of.recipient = match to {
                Some(to) if to.vm != lane.who.vm => YieldRecipient::Other,
                Some(to) if Some(to.vcpu) == of.target => YieldRecipient::Target,
                Some(_) => YieldRecipient::Sibling,
                None => YieldRecipient::Other,
            };
        }
    }

    /// Xen: it leaves its CPU; the next record of the CPU says who has it.
    pub(super) fn leave_cpu(&mut self, cpu: PcpuId, number: usize, run: LaneRunState) {
        let yields = run == LaneRunState::Preempted && self.lanes[number].yielding.is_some();
        self.given[cpu.0 as usize % CPU_CACHE] = if yields { number as u32 } else { NO_LANE };
    }

    /// Xen: a lane, or what is none, has the CPU now.
    pub(super) fn given_to(&mut self, cpu: PcpuId, to: Option<usize>) {
        let from = std::mem::replace(&mut self.given[cpu.0 as usize % CPU_CACHE], NO_LANE) as usize;
        if from < self.lanes.len() && to != Some(from) {
            self.yield_cpu_to(from, to);
        }
    }
}
