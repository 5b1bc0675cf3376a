//! The parts of a page that take long: what to change, a replay of polling, what happened when.

use crate::poll_limits::{PollLimitTable, halt_polls};
use crate::timelines::TimelineTables;
use exitscope_advice::PageFacts;
use exitscope_advice::{RecordedHost, TriedLimits, attribution};
use exitscope_analysis::over_time::Timelines;
use exitscope_analysis::{ExitCause, RecordedHaltPolling};
use exitscope_model::TraceInfo;
use exitscope_view::TraceRow;
use std::panic::resume_unwind;
use std::sync::mpsc::channel;
use std::thread::{self, ScopedJoinHandle};

/// What other limits of polling would have made of the halts; `tried` waits for those that advice tries.
fn polls(
    of: &PageFacts,
    info: &TraceInfo,
    is_xen: bool,
    tried: impl FnOnce() -> TriedLimits,
) -> Option<PollLimitTable> {
    // Xen does not poll for halted vCPUs, and its guests have no cpuidle governor haltpoll.
    if is_xen {
        return None;
    }
    // Advice is on all halts.
    let tried = of.has_all_halts().then_some(tried);
    halt_polls(&of.advice_input.facts.halts, of.kept_halts(), &RecordedHaltPolling::of(info), tried)
}

/// All that takes long, at once: what is `advised`, the replay of polling, what happened when. There is a time axis if there
/// is one trace.
pub fn finish_page_parts<A, E>(
    of: &PageFacts,
    advised: impl FnOnce() -> Result<(A, TriedLimits), E>,
    over_time: impl FnOnce() -> Timelines + Send,
    traces: &[TraceRow],
    info: &TraceInfo,
) -> Result<(A, Option<PollLimitTable>, TimelineTables), E> {
    let host = traces.first().map_or(RecordedHost::default(), |trace| trace.recorded_host(info));
    let is_xen = host.xen;
    let is_qemu = of.advice_input.has_qemu(&host);
    let apart = |cause: &ExitCause| attribution(&host, is_qemu, cause);
    thread::scope(|scope| {
        let over_time = scope.spawn(move || TimelineTables::of(over_time(), traces.len() == 1, info, apart));
        let (send, tried) = channel();
        // Where there is no advice, nothing was tried.
        let polls = scope.spawn(move || polls(of, info, is_xen, || tried.recv().unwrap_or_default()));
        let (advised, tried) = advised()?;
        // Nobody waits for it where there are no halts.
        let _ = send.send(tried);
        Ok((advised, joined(polls), joined(over_time)))
    })
}

fn joined<T>(thread: ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|panic| resume_unwind(panic))
}

#[cfg(test)]
mod tests {
    use super::*;
    use exitscope_advice::MAX_KEPT_LIVE;
    use exitscope_advice::Trials;
    use exitscope_analysis::{Selection, TraceSink};
    use exitscope_model::{BesideRow, Halt, VcpuIdentity, VcpuWakeup};
    use exitscope_units::{Moment, Nanos, Tid, VcpuId, VmId};

    #[test]
    fn limits_that_were_tried_for_advice_are_what_the_slider_would_have_tried() {
        for vms in [1, 2] {
            let mut facts = PageFacts::by_reason(&Selection::default(), 0, MAX_KEPT_LIVE);
            facts.begin(Moment::default());
            for number in 0..400 {
                // 1 us to 1 ms, from 150 us on asleep.
                let gap = 1_000 << (number % 11);
                let waited = gap > 150_000;
                let moment = |after| Moment::from_nanos(number * 5_000_000 + after);
                let who = VcpuIdentity {
                    vm: VmId((number % vms) as u32),
                    vcpu: VcpuId((number % 3) as u32),
                    tid: Tid((number % 6) as u32),
                };
                // Now and then something is pending, and KVM tells of no halt.
                let told = (number % 13 != 5).then_some(VcpuWakeup {
                    length: Nanos(gap),
                    waited,
                    valid: number % 7 != 0,
                    may_poll: true,
                });
                let (asleep, woken) = (waited.then(|| moment(150_000)), waited.then(|| moment(gap - 9_000)));
                let (end, entered) = (moment(gap), Some(moment(gap + 2_000)));
                let (change, kicked, ipi) = (None, false, None);
                facts.beside_row(BesideRow::Halt(&Halt {
                    who,
                    begin: moment(0),
                    asleep,
                    woken,
                    vcpu_wakeup: told,
                    change,
                    kicked,
                    ipi,
                    end,
                    entered,
                }));
            }
            facts.advice_input.sum_up();
            let info = TraceInfo::default();
            let trace = TraceRow::of("t".to_string(), &info, "", Default::default(), 400);
            let mut trials = facts.replay_kept_only(Trials::new(&facts.advice_input, &trace.recorded_host(&info)));
            trials.end();
            let tried = trials.limits();
            assert_eq!((tried.host.len(), tried.guest.len()), (8, if vms == 1 { 5 } else { 0 }));
            let json = |tried| serde_json::to_string(&polls(&facts, &info, false, || tried).unwrap()).unwrap();
            assert_eq!(json(tried), json(TriedLimits::default()));
        }
    }
}
