//! Back ends of KVM that never fire kvm_exit: rows are made of returns to user space, to the last one.

use exitscope_model::*;
use exitscope_units::{Moment, Nanos, PcpuId, Tid, VcpuId, VmId};

fn event(at: u64, kind: Kind) -> Event {
    let (tid, vm, vcpu, cpu, name) = (Tid(10), VmId(1), VcpuId::UNKNOWN, PcpuId(0), NameId(0));
    Event { at: Moment::from_nanos(at), tid, vm, vcpu, cpu, name, kind }
}

fn run(at: u64) -> Event {
    event(at, Kind::Fpu { load: true })
}

fn user(at: u64) -> Event {
    event(at, Kind::UserspaceExit { reason: 2, errno: 0 })
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
        assert_eq!(ledger.get(Line::BeforeRecording), 0, "{returns}");
    }
}

/// One that is still in user space when the recording ends is counted and not timed; what was held back before it is whole.
#[test]
fn a_row_that_was_held_back_is_whole_when_the_next_is_cut_off() {
    let (before_end, rows, ledger) = assemble(&[run(0), user(1_000), run(1_300), user(2_000)]);
    assert_eq!((before_end, rows.len()), (1, 2));
    assert_eq!(rows.iter().map(|row| row.timed).collect::<Vec<_>>(), [true, false]);
    assert_eq!(ledger.get(Line::UnfinishedExit), 1);
}
