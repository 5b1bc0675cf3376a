//! Verdicts of counts.

use super::*;
use crate::figure_text;
use crate::frame::{RateFigures, TopGangRow, TopVcpuRow, VmRow};
use exitscope_live::{GroupTotals, LiveGroup};
use exitscope_model::{CodeList, ExitCode, ExitParts};
use exitscope_record::CountAndTime;

const IO: ExitCode = ExitCode::new(CodeList::Vmx, 30);

fn of_wall(wall: u64) -> IntervalTotals {
    let mut sums = IntervalTotals::default();
    (sums.wall, sums.has_kvm_exit) = (wall, true);
    sums
}

/// A second of a vCPU with so many exits for I/O, of so many nanoseconds together.
fn second(exits: u64, total: u64, steal: u64) -> IntervalTotals {
    let outside = ExitParts::ZERO.with(TimePart::Steal, Nanos(steal));
    let mut sums = of_wall(1_000_000_000);
    (sums.outside, sums.switches) = (outside, true);
    let mut count = CountAndTime { count: exits, total, ..CountAndTime::default() };
    (0..exits).for_each(|_| count.lengths.record(total / exits));
    sums.groups.insert(LiveGroup::Reason(IO), GroupTotals { ended: count.clone(), within: count });
    sums
}

fn frame(lost: u64) -> Frame {
    let vms = vec![VmRow { vcpus: vec![TopVcpuRow::default()], ..VmRow::default() }];
    Frame { seconds: 1.0, has_kvm_exit: true, lost, vms, ..Frame::default() }
}

#[test]
fn the_verdict_is_of_the_last_intervals_together_and_forgets_older_ones() {
    let mut recent = RecentIntervals::new(2);
    assert!(recent.verdict(&RecordedHost::default(), false).is_none());
    recent.push(second(10, 200_000_000, 0), &frame(0));
    recent.push(second(10, 100_000_000, 100_000_000), &frame(0));
    let live = recent.verdict(&RecordedHost::default(), false).unwrap();
    let (said, doubts) = figure_text::verdict(&live);
    let costly = "Last 2.0 s: Exits cost 15.0% of vCPU time; the costliest is IO_INSTRUCTION (15.0%); steal takes 5.0%";
    assert_eq!(said, costly);
    assert_eq!((live.verdict.state, live.verdict.cause.as_deref()), ("exits_dominate", Some("IO_INSTRUCTION")));
    assert_eq!((doubts, live.verdict.is_doubtful, live.verdict.is_good), (None, false, false));
    for _ in 0..INTERVALS {
        recent.push(second(10, 1_000_000, 300_000_000), &frame(0));
    }
    let live = recent.verdict(&RecordedHost::default(), false).unwrap();
    assert_eq!((live.seconds, live.verdict.state, live.verdict.share), (10.0, "steal_dominates", Some(0.3)));
}

#[test]
fn where_counts_bear_no_verdict_it_is_said_why() {
    let said = |sums: IntervalTotals, frame: &Frame| {
        let mut recent = RecentIntervals::new(2);
        recent.push(sums, frame);
        let live = recent.verdict(&RecordedHost::default(), false).unwrap();
        assert!(live.verdict.best_change.is_none());
        figure_text::verdict(&live)
    };
    let quiet = of_wall(1_000);
    assert_eq!(said(quiet, &frame(0)), ("Doubtful: no VM exit in 1.0 s".to_string(), None));
    let mut blind = second(10, 200_000_000, 0);
    blind.has_kvm_exit = false;
    let (text, doubts) = said(blind, &Frame { has_kvm_exit: false, ..frame(0) });
    assert_eq!(text, "Doubtful: 80.0% of vCPU time is unaccounted for: kvm_exit does not fire on this host");
    assert_eq!(doubts, None);
}

#[test]
fn events_that_went_missing_make_a_verdict_doubtful_for_as_long_as_they_are_of_its_intervals() {
    let mut recent = RecentIntervals::new(2);
    recent.push(second(10, 200_000_000, 0), &frame(0));
    recent.push(second(10, 200_000_000, 0), &frame(1_234));
    let live = recent.verdict(&RecordedHost::default(), false).unwrap();
    assert_eq!(figure_text::verdict(&live).1.as_deref(), Some("Doubtful: 1,234 events are in no figure"));
    assert!(live.verdict.is_doubtful);
    for _ in 0..INTERVALS {
        recent.push(second(10, 200_000_000, 0), &frame(1_234));
    }
    assert_eq!(figure_text::verdict(&recent.verdict(&RecordedHost::default(), false).unwrap()).1, None);
}

#[test]
fn exits_that_were_forced_are_told_from_what_exits_cost() {
    let gangs = TopGangRow { runs_per_s: 100.0, ganged: Some(0.4), forced_out: Some(0.2), ..TopGangRow::default() };
    let figures = RateFigures { vcpu_seconds: 1.0, ..RateFigures::default() };
    let vms = vec![VmRow { gangs: Some(gangs), figures, ..VmRow::default() }];
    let mut recent = RecentIntervals::new(2);
    recent.push(second(10, 300_000_000, 0), &Frame { vms, ..frame(0) });
    let (said, _) = figure_text::verdict(&recent.verdict(&RecordedHost::default(), false).unwrap());
    assert_eq!(said, "Last 1.0 s: 20.0% of vCPU time is lost to other threads' exits: 40 of 100 core runs were ganged");
}
