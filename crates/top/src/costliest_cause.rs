//! The cause of exits that costs most, and what the tables of advice know of it.
//!
//! ```text
//! IntervalTotals ─► the costliest reason, or what most of its exits are about ─► CountedCause ─► TopCause
//! ```
//!
//! Which of the changes helps, or whether any does, depends on what counts do not show: a recording tells.

use crate::figures::part;
use crate::frame::TopCause;
use exitscope_advice::{CountedCause, NOTEWORTHY_OF_TIME, RecordedHost};
use exitscope_analysis::SubjectKey;
use exitscope_live::{IntervalTotals, LiveGroup};

/// The cause that costs most of these vCPUs' time, if the tables have it. `is_qemu`: all their VMs are QEMU's.
pub fn costliest_cause(totals: &IntervalTotals, host: &RecordedHost, is_qemu: bool) -> Option<TopCause> {
    let busy = totals.reasons().filter(|(code, _)| !code.is_halt());
    let (code, reason) = busy.max_by_key(|(_, of)| of.within.cost())?;
    let subjects = totals.groups.iter().filter_map(|(group, of)| match group {
        LiveGroup::Subject(about) => Some((about, of.within.cost())),
        _ => None,
    });
    // What exits are about is counted whatever their reason: only most of the time of a reason is what it is about.
    let about = subjects.max_by_key(|(_, cost)| *cost).filter(|(_, cost)| *cost > reason.within.cost() / 2);
    let of_subject = about.and_then(|(about, cost)| {
        let key = SubjectKey { kind: about.kind, key: about.key, write: about.write };
        Some((CountedCause::of_subject(host, is_qemu, key)?, cost))
    });
    let (known, cost) = of_subject.or_else(|| Some((CountedCause::of_reason(host, code)?, reason.within.cost())))?;
    let cost = part(cost, totals.wall).filter(|_| cost >= totals.wall / NOTEWORTHY_OF_TIME)?;
    let CountedCause { name, changes, inherent } = known;
    let changes = changes.into_iter().map(str::to_string).collect();
    Some(TopCause { name: name.to_string(), cost, changes, inherent: inherent.map(str::to_string) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use exitscope_live::GroupTotals;
    use exitscope_model::{CodeList, ExitCode, SubjectKind};
    use exitscope_record::{CountAndTime, CountedSubject};

    const IO: LiveGroup = LiveGroup::Reason(ExitCode::new(CodeList::Vmx, 30));
    const WINDOWS: LiveGroup = LiveGroup::Reason(ExitCode::new(CodeList::Vmx, 7));
    const HLT: LiveGroup = LiveGroup::Reason(ExitCode::new(CodeList::Vmx, 12));

    fn port(key: u64) -> LiveGroup {
        LiveGroup::Subject(CountedSubject { kind: SubjectKind::Port, key, write: true })
    }

    /// Of a vCPU's 1,000 ns, with groups that cost so much.
    fn of(groups: &[(LiveGroup, u64)], is_qemu: bool) -> Option<TopCause> {
        let cost = |total| CountAndTime { count: 1, total, ..CountAndTime::default() };
        let group =
            |&(group, total): &(LiveGroup, u64)| (group, GroupTotals { ended: cost(total), within: cost(total) });
        let totals =
            IntervalTotals { wall: 1_000, groups: groups.iter().map(group).collect(), ..IntervalTotals::default() };
        let host = RecordedHost { arch: "x86_64".to_string(), ..RecordedHost::default() };
        costliest_cause(&totals, &host, is_qemu)
    }

    #[test]
    fn it_is_what_most_of_the_costliest_reason_is_about_else_the_reason() {
        let serial = of(&[(IO, 300), (port(0x3f8), 200), (port(0x60), 90), (WINDOWS, 250)], true).unwrap();
        assert_eq!((&*serial.name, serial.cost), ("serial port", 0.2));
        assert!(!serial.changes.is_empty() && serial.inherent.is_none());
        let windows = of(&[(WINDOWS, 300), (IO, 140), (port(0x3f8), 140)], true).unwrap();
        assert_eq!((&*windows.name, windows.cost), ("interrupt windows", 0.3));
    }

    #[test]
    fn what_no_table_has_or_takes_little_is_none_and_halts_are_no_cause() {
        assert_eq!(of(&[], true), None);
        assert_eq!(of(&[(IO, 300), (port(0x1234), 300)], true), None, "a port that is nobody's");
        assert_eq!(of(&[(IO, 300), (port(0x60), 140), (port(0x3f8), 130)], true), None, "it is about several");
        assert_eq!(of(&[(WINDOWS, 9)], true), None, "it takes little");
        assert_eq!(of(&[(HLT, 900)], true), None);
        assert_eq!(of(&[(HLT, 900), (WINDOWS, 10)], true).unwrap().name, "interrupt windows");
        assert_eq!(of(&[(IO, 300), (port(0x608), 300)], true).unwrap().name, "ACPI PM timer");
        assert_eq!(of(&[(IO, 300), (port(0x608), 300)], false), None, "a port of QEMU's own");
    }
}
