//! The ledger counts, keeps where and when, and adds up.

use exitscope_model::{Ledger, LedgerLine, Severity};
use exitscope_units::Moment;

fn at(nanos: u64) -> Moment {
    Moment::from_nanos(nanos)
}

/// A ledger of these counts.
fn counted(counts: &[(LedgerLine, u64)]) -> Ledger {
    let mut ledger = Ledger::default();
    counts.iter().for_each(|&(line, count)| ledger.add(line, count));
    ledger
}

#[test]
fn every_line_is_told_apart_by_its_name_and_its_sentence() {
    let mut names: Vec<_> = LedgerLine::ALL.iter().flat_map(|line| [line.id(), line.prose()]).collect();
    assert!(names.iter().all(|name| name.len() > 5), "{names:?}");
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), 2 * LedgerLine::ALL.len());
    let lines = [LedgerLine::OutsideExit, LedgerLine::NoLength, LedgerLine::SpansLoss, LedgerLine::BadText];
    assert_eq!(lines.map(LedgerLine::severity), [Severity::Info, Severity::Notice, Severity::Loss, Severity::Error]);
    assert_eq!(lines.map(LedgerLine::id), ["outside_exit", "no_length", "spans_loss", "bad_text"]);
}

#[test]
fn counts_stand_in_order_and_zeros_are_left_out() {
    let mut ledger = counted(&[(LedgerLine::BadText, 5), (LedgerLine::Scheduler, 0), (LedgerLine::OutsideExit, 3)]);
    assert_eq!(ledger.lines().collect::<Vec<_>>(), [(LedgerLine::OutsideExit, 3), (LedgerLine::BadText, 5)]);
    ledger.count(LedgerLine::BadText);
    assert_eq!([LedgerLine::BadText, LedgerLine::Scheduler].map(|line| ledger.get(line)), [6, 0]);
    ledger.add(LedgerLine::BadText, u64::MAX - 3);
    assert_eq!(ledger.get(LedgerLine::BadText), u64::MAX, "it does not wrap");
}

#[test]
fn the_first_place_of_a_line_is_the_lowest_also_of_two_ledgers() {
    let mut ledger = Ledger::default();
    ledger.count_at(LedgerLine::BadRecord, 700);
    ledger.add_at(LedgerLine::BadRecord, 4, 300);
    ledger.count_at(LedgerLine::BadRecord, 500);
    ledger.count(LedgerLine::BadText);
    assert_eq!((ledger.get(LedgerLine::BadRecord), ledger.first(LedgerLine::BadRecord)), (6, Some(300)));
    assert_eq!(ledger.first(LedgerLine::BadText), None);
    let mut other = Ledger::default();
    other.add_at(LedgerLine::BadRecord, 2, 200);
    other.count_at(LedgerLine::BadText, 9);
    let mut both = ledger.clone();
    both.merge(&other);
    other.merge(&ledger);
    for both in [both, other] {
        assert_eq!((both.get(LedgerLine::BadRecord), both.first(LedgerLine::BadRecord)), (8, Some(200)));
        assert_eq!((both.get(LedgerLine::BadText), both.first(LedgerLine::BadText)), (2, Some(9)));
    }
}

#[test]
fn moments_of_the_first_eight_of_a_line_are_kept() {
    let mut ledger = Ledger::default();
    (11..=16).for_each(|nanos| ledger.count_moment(LedgerLine::ImpossibleExit, at(nanos)));
    ledger.count_moment(LedgerLine::ExitOutOfOrder, at(5));
    let mut other = Ledger::default();
    (21..=29).for_each(|nanos| other.count_moment(LedgerLine::ImpossibleExit, at(nanos)));
    let moments =
        |ledger: &Ledger| ledger.moments(LedgerLine::ImpossibleExit).map(Moment::as_nanos).collect::<Vec<_>>();
    assert_eq!((moments(&other), other.get(LedgerLine::ImpossibleExit)), ((21..=28).collect(), 9));
    ledger.merge(&other);
    assert_eq!((moments(&ledger), ledger.get(LedgerLine::ImpossibleExit)), (vec![11, 12, 13, 14, 15, 16, 21, 22], 15));
    assert_eq!(ledger.moments(LedgerLine::ExitOutOfOrder).collect::<Vec<_>>(), [at(5)]);
}

#[test]
fn events_that_are_not_passed_on_are_events_and_have_a_first_and_a_last_moment() {
    let mut ledger = counted(&[]);
    ledger.events = 10;
    assert_eq!(ledger.skipped(), None);
    ledger.skip(at(40));
    assert_eq!(ledger.skipped(), Some((at(40), at(40))), "one alone is both");
    ledger.skip_all(7, at(30), at(60));
    ledger.skip(at(50));
    let found = (ledger.events, ledger.get(LedgerLine::OtherTracepoint), ledger.skipped());
    assert_eq!(found, (19, 9, Some((at(30), at(60)))));
    let mut other = Ledger::default();
    other.skip_all(4, at(20), at(35));
    other.merge(&ledger);
    let found = (other.events, other.get(LedgerLine::OtherTracepoint), other.skipped());
    assert_eq!(found, (23, 13, Some((at(20), at(60)))));
}

#[test]
fn a_trace_is_unread_if_no_more_events_were_than_were_not_understood() {
    let lines = [
        (LedgerLine::UnknownFormat, 2),
        (LedgerLine::BadRecord, 3),
        (LedgerLine::BadText, 5),
        (LedgerLine::UnknownRecord, 7),
    ];
    for (events, unread) in [(16, true), (17, true), (18, false)] {
        let mut ledger = counted(&lines);
        ledger.events = events;
        assert_eq!(ledger.is_unread(), unread, "{events}");
    }
    assert!(counted(&[]).is_unread(), "there is nothing to read");
    let mut other = counted(&[(LedgerLine::OutsideExit, 9)]);
    other.events = 1;
    assert!(!other.is_unread(), "an event that belongs to no exit is understood");
}

#[test]
fn losses_are_null_only_where_a_text_does_not_say_and_none_is_known_of() {
    for unsaid_by in [LedgerLine::LossUnknown, LedgerLine::MissingLines] {
        for (lost, unsaid, expected) in
            [(0, 0, Some(0)), (5, 0, Some(5)), (0, 2, None), (5, 2, Some(5)), (1, 1, Some(1))]
        {
            let ledger = counted(&[(LedgerLine::LostRecords, lost), (unsaid_by, unsaid)]);
            assert_eq!(ledger.lost(), expected, "{lost} {unsaid}");
        }
    }
}

#[test]
fn a_recording_is_cut_by_each_of_the_three_lines_that_say_so() {
    for &line in LedgerLine::ALL {
        let cuts = matches!(line, LedgerLine::UnfinishedFile | LedgerLine::TruncatedBytes | LedgerLine::BadCompression);
        assert_eq!(counted(&[(line, 3)]).is_cut(), cuts, "{line:?}");
    }
    assert!(!Ledger::default().is_cut());
}

#[test]
fn events_outside_rows_are_those_of_the_lines_that_count_events() {
    let lines = [
        (LedgerLine::OutsideExit, 1_000_000),
        (LedgerLine::Scheduler, 200_000),
        (LedgerLine::OtherTracepoint, 30_000),
        (LedgerLine::GuestEvent, 4_000),
        (LedgerLine::EntryWithoutExit, 500),
        (LedgerLine::BeforeRecording, 60),
        (LedgerLine::Overlapping, 7),
    ];
    let mut ledger = counted(&lines);
    // These are counted in a row, too, or are no events.
    [LedgerLine::OutOfOrder, LedgerLine::LostRecords, LedgerLine::UnfinishedExit]
        .into_iter()
        .for_each(|line| ledger.add(line, 9));
    assert_eq!(ledger.events_outside_rows(), 1_234_567);
}
