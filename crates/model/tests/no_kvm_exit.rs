//! Back ends of KVM that never fire kvm_exit: rows are made of returns to user space, to the last one.

use exitscope_model::*;
use exitscope_units::{Moment, Nanos, PcpuId, Tid, VcpuId, VmId};

fn event(at: u64, kind: EventKind) -> Event {
    let (tid, vm, vcpu, cpu, name) = (Tid(10), VmId(1), VcpuId::UNKNOWN, PcpuId(0), NameId(0));
    Event { at: Moment::from_nanos(at), tid, vm, vcpu, cpu, name, kind }
}

fn run(at: u64) -> Event {
    event(at, EventKind::Fpu { load: true })
}

fn user(at: u64) -> Event {
    event(at, EventKind::UserspaceExit { reason: 2, errno: 0 })
}

/// Rows that came before the end, all rows, and the ledger.
fn assemble(events: &[Event]) -> (usize, Vec<Exit>, Ledger) {
    let (mut rows, mut ledger, mut assembler) = (Vec::new(), Ledger::default(), Assembler::default());
    ledger.events = events.len() as u64;
    assembler.push(events, &mut rows, &mut ledger);
    let before_end = rows.len();
    assembler.finish(&mut rows, &mut ledger);
    (before_end, rows, ledger)
}

/// The first row is held back until another shows that it is no tail of an exit that kvm_exit began before the recording.
/// Nothing does when it is the only one: then the end of the recording gives it.
#[test]
fn every_return_to_user_space_is_a_row_also_the_last_one_that_was_held_back() {
    for returns in 0..5u64 {
        let mut events = vec![run(0)];
        events.extend((1..=returns).flat_map(|n| [user(1_000 * n), run(1_000 * n + 300)]));
        let (before_end, rows, ledger) = assemble(&events);
        assert_eq!(rows.len() as u64, returns, "{returns}, of them {before_end} before the end");
        assert!(before_end as u64 <= returns.saturating_sub(1), "the last one waits for what may come: {before_end}");
        for (row, n) in rows.iter().zip(1..) {
            assert_eq!((row.at, row.code.name().as_str()), (Moment::from_nanos(1_000 * n), "KVM_EXIT_IO"));
            assert_eq!((row.part(TimePart::User), row.timed), (Nanos(300), true), "row {n} of {returns}");
        }
        let inside: u64 = rows.iter().map(|row| u64::from(row.events)).sum();
        assert_eq!(inside + ledger.events_outside_rows(), ledger.events, "{returns}");
        assert_eq!(ledger.get(LedgerLine::BeforeRecording), 0, "{returns}");
    }
}

/// One that is still in user space when the recording ends is counted and not timed; what was held back before it is whole.
#[test]
fn a_row_that_was_held_back_is_whole_when_the_next_is_cut_off() {
    let (before_end, rows, ledger) = assemble(&[run(0), user(1_000), run(1_300), user(2_000)]);
    assert_eq!((before_end, rows.len()), (1, 2));
    assert_eq!(rows.iter().map(|row| row.timed).collect::<Vec<_>>(), [true, false]);
    assert_eq!(ledger.get(LedgerLine::UnfinishedExit), 1);
}

fn detail(at: u64, kind: SubjectKind, write: bool, key: u64) -> Event {
    event(at, EventKind::Detail(Subject { kind, write, form: PortAccessForm::Unknown, size: 1, key, value: 7 }))
}

/// The first thing that is told of a vCPU may be what it then leaves for.
#[test]
fn a_write_that_is_the_first_event_of_its_thread_is_what_the_first_row_is_about() {
    let (_, rows, ledger) = assemble(&[detail(1_000, SubjectKind::Port, true, 0x80), user(1_020), run(1_300)]);
    assert_eq!((rows.len(), rows[0].subject.map(|of| of.key), rows[0].events), (1, Some(0x80), 3));
    assert_eq!(ledger.events_outside_rows(), 0);
    // A hypercall is not what user space does a port access for.
    let (_, rows, ledger) = assemble(&[detail(1_000, SubjectKind::Hypercall, false, 9), user(1_020), run(1_300)]);
    assert_eq!((rows[0].subject, rows[0].events, ledger.get(LedgerLine::OutsideExit)), (None, 2, 1));
}

#[test]
fn vcpus_without_kvm_exit_are_counted_if_they_have_rows_that_show_it() {
    let counted = |events: &[Event]| assemble(events).2.get(LedgerLine::NoKvmExit);
    let returns = [user(1_000), run(1_300), user(2_000), run(2_300), user(3_000), run(3_300)];
    let other = |event: &Event| Event { tid: Tid(11), ..*event };
    assert_eq!(counted(&returns), 1);
    assert_eq!(counted(&[&returns[..], &returns.map(|event| other(&event))].concat()), 2);
    // One return may be the tail of an exit, and an access is none.
    assert_eq!(counted(&returns[..2]), 0);
    assert_eq!(counted(&[detail(1_000, SubjectKind::Port, true, 0x80)]), 0);
    // Then one fires.
    assert_eq!(counted(&[&returns[..], &[event(4_000, EventKind::Enter)]].concat()), 0);
}

#[test]
fn accesses_in_hand_when_kvm_exit_fires_belong_to_no_exit() {
    let io = ExitCode::new(CodeList::Vmx, 30);
    let leaves = event(1_100, EventKind::Exit { code: io, idle: false, words: SubjectWord::NONE, rip: 0 });
    let (_, rows, ledger) =
        assemble(&[detail(1_000, SubjectKind::Port, true, 0x80), leaves, event(1_200, EventKind::Enter)]);
    assert_eq!((rows.len(), rows[0].subject, rows[0].events, ledger.get(LedgerLine::OutsideExit)), (1, None, 2, 1));
}

/// perf lists what it was asked to record, also where it never fires: then nothing shows whether a vCPU's thread slept.
#[test]
fn a_halt_in_user_space_is_not_divided_where_no_switch_ever_came() {
    let mut names = EventNames::default();
    names.intern("sched:sched_switch");
    let info = TraceInfo { format: "perf.data".into(), names, ..TraceInfo::default() };
    let halt = |at| event(at, EventKind::UserspaceExit { reason: 5, errno: 0 });
    let parts = |before: &[Event]| {
        let (mut rows, mut ledger, mut assembler) = (Vec::new(), Ledger::default(), Assembler::of(&info));
        let halts = [run(500), halt(1_000), run(9_000), halt(10_000), run(12_000)];
        assembler.push(&[before, &halts].concat(), &mut rows, &mut ledger);
        assembler.finish(&mut rows, &mut ledger);
        let of = |part| rows.iter().fold(0, |sum, row: &Exit| sum + row.part(part).0);
        (of(TimePart::Undivided), of(TimePart::User))
    };
    assert_eq!(parts(&[]), (10_000, 0));
    let switch = EventKind::Switch { prev: Tid(70), sleeps: true, next: Tid(71), prev_name: ThreadName::new(b"other") };
    let others = Event { tid: Tid(70), vm: VmId(0), cpu: PcpuId(3), ..event(100, switch) };
    assert_eq!(parts(&[others]), (0, 10_000), "its own would have come, too");
}
