//! The same metrics of a recording.

use crate::counts::{Counts, NamedVm, SeriesLimits};
use crate::families as f;
use crate::scrape::{SampleValue, Scrape};
use exitscope_live::Deltas;
use exitscope_model::{Exit, Halt, Handler, TimePart, VcpuIdentity};
use exitscope_record::{CountAndTime, CountKey, CountedKind, CountedVcpu, CountedVcpuState, Snapshot, VcpuRunner};

/// Kinds of counts at most (some 100 MB): no recording of a host has so many, a forged one may.
const MOST: usize = 1 << 16;

/// What a recording holds, counted as the exporter counts on a live host.
#[derive(Debug, Default)]
pub struct RecordingMetrics {
    snapshot: Snapshot,
}

impl RecordingMetrics {
    /// Adds an exit.
    pub fn absorb(&mut self, exit: &Exit) {
        let lane = lane(&exit.who);
        let state = self
            .snapshot
            .lanes
            .entry(lane)
            .or_insert_with(|| CountedVcpuState { vcpu: exit.who.vcpu.number(), ..CountedVcpuState::default() });
        state.events += u64::from(exit.events);
        let Some(count) = self.count(lane, CountedKind::Exit(exit.code)) else { return };
        count.count += 1;
        count.to_user += u64::from(exit.handler != Handler::Kernel);
        if exit.timed {
            count.total = count.total.saturating_add(exit.total().0);
            TimePart::BESIDE_COST.iter().for_each(|&part| count.not_cost.add(part, exit.part(part)));
            count.lengths.record(exit.total().0);
        }
    }

    /// Adds a halt, if KVM said how it ended.
    pub fn absorb_halt(&mut self, halt: &Halt) {
        let Some(told) = halt.vcpu_wakeup else { return };
        let cause = CountedKind::Halt { slept: told.waited, valid: told.valid };
        let lane = lane(&halt.who);
        let Some(count) = self.count(lane, cause) else { return };
        count.count += 1;
        count.total = count.total.saturating_add(told.length.0);
        count.lengths.record(told.length.0);
    }

    /// Events that the recorder lost.
    pub fn lose(&mut self, events: u64) {
        self.snapshot.lost = self.snapshot.lost.saturating_add(events);
    }

    /// As OpenMetrics text. `named` says what the VM of a process, or of Xen's domain, is called.
    pub fn text(&self, limits: SeriesLimits, named: impl Fn(u32) -> NamedVm) -> String {
        let mut counts = Counts::new(limits);
        counts.absorb(&Deltas::default().take(&self.snapshot), named);
        let mut scrape = Scrape::default();
        counts.write(&mut scrape);
        scrape.add(&f::BUILD, [env!("CARGO_PKG_VERSION"), "recording"], SampleValue::Info);
        scrape.open_metrics()
    }

    /// The count of these; `None`, and lost, where there is no room for it.
    fn count(&mut self, lane: CountedVcpu, cause: CountedKind) -> Option<&mut CountAndTime> {
        let key = CountKey { lane, cause, subject: None };
        if self.snapshot.counts.len() >= MOST && !self.snapshot.counts.contains_key(&key) {
            self.snapshot.lost += 1;
            return None;
        }
        Some(self.snapshot.counts.entry(key).or_default())
    }
}

/// Who runs the vCPU.
fn lane(who: &VcpuIdentity) -> CountedVcpu {
    let runner = if who.tid.0 == 0 { VcpuRunner::Vcpu(who.vcpu.0) } else { VcpuRunner::Thread(who.tid.0) };
    CountedVcpu { process: who.vm.0, runner }
}

#[cfg(test)]
mod tests {
    use super::*;
    use exitscope_model::{Assembler, CodeList, Event, EventKind, ExitCode, Ledger, NameId, SubjectWord};
    use exitscope_units::{Moment, PcpuId, Tid, VcpuId, VmId};

    #[test]
    fn steal_and_halted_time_are_no_cost() {
        let switch = |prev, sleeps, next| EventKind::switch(Tid(prev), sleeps, Tid(next));
        let exit = |number| EventKind::Exit {
            code: ExitCode::new(CodeList::Vmx, number),
            idle: false,
            words: SubjectWord::NONE,
            rip: 0,
        };
        let kinds = [
            (0, exit(10)),
            (100, switch(7, false, 0)),
            (900, switch(0, false, 7)),
            (1_000, EventKind::Enter),
            (2_000, exit(12)),
            (2_100, switch(7, true, 0)),
            (2_600, EventKind::Wakeup { tid: Tid(7) }),
            (2_700, switch(0, false, 7)),
            (2_705, EventKind::HaltPoll { grow: false, new: 0, old: 0 }),
            (2_710, EventKind::HaltEnd { ns: 700, waited: true, valid: true }),
            (2_800, EventKind::Enter),
        ];
        let event = |(at, kind)| Event {
            at: Moment::from_nanos(at),
            tid: Tid(7),
            vm: VmId(1),
            vcpu: VcpuId(0),
            cpu: PcpuId(0),
            name: NameId(0),
            kind,
        };
        let events = kinds.map(event);
        let (mut exits, mut ledger, mut assembler) = (Vec::new(), Ledger::default(), Assembler::default());
        assembler.push(&events, &mut exits, &mut ledger);
        let mut recorded = RecordingMetrics::default();
        exits.iter().for_each(|exit| recorded.absorb(exit));
        let limits = SeriesLimits { vms: 9, reasons: 9, ..SeriesLimits::default() };
        let text = recorded.text(limits, |_| NamedVm { name: "web".into(), ..NamedVm::default() });
        for line in [
            "exitscope_exit_cost_seconds_total{vm=\"web\",reason=\"CPUID\"} 2e-7",
            "exitscope_exit_cost_seconds_total{vm=\"web\",reason=\"HLT\"} 2e-7",
            "exitscope_exit_part_seconds_total{vm=\"web\",reason=\"CPUID\",part=\"steal\"} 8e-7",
            "exitscope_exit_part_seconds_total{vm=\"web\",reason=\"HLT\",part=\"halted\"} 5e-7",
        ] {
            assert!(text.contains(line), "{line} is not in\n{text}");
        }
    }
}
