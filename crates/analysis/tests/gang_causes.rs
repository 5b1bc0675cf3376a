//! Who is made answerable for the time that vCPUs lost by being forced out.

use exitscope_analysis::GangFacts;
use exitscope_model::{CodeList, Event, EventKind, ExitCode, NameId, SubjectWord};
use exitscope_policy::vcore::H_DOORBELL;
use exitscope_units::{Moment, PcpuId, Tid, VcpuId, VmId};

const SYSCALL: u64 = 0xc00;
const DECREMENTER: u64 = 0x900;
const STORAGE: u64 = 0xe00;
const FORCED: u64 = H_DOORBELL as u64;

fn event(at: u64, vcpu: u32, kind: EventKind) -> Event {
    let (tid, vm, cpu) = (Tid(7), VmId(5), PcpuId(0));
    Event { at: Moment::from_nanos(at), tid, vm, vcpu: VcpuId(vcpu), cpu, name: NameId::NONE, kind }
}

fn exit(trap: u64, idle: bool) -> EventKind {
    EventKind::Exit { code: ExitCode::new(CodeList::PpcTrap, trap), idle, words: SubjectWord::NONE, rip: 0 }
}

/// A run whose vCPUs leave at 10 with these traps, and enter again at 10 and so many ns.
fn run(at: u64, vcpus: &[(u64, bool, u64)]) -> Vec<Event> {
    let all = vcpus.len() as u32;
    let mut events = vec![event(at, 0, EventKind::RunCore { exit: false, runnable: all })];
    events.extend((0..).zip(vcpus).map(|(vcpu, &(trap, idle, _))| event(at + 10, vcpu, exit(trap, idle))));
    events.push(event(at + 11, 0, EventKind::RunCore { exit: true, runnable: all }));
    let mut entries: Vec<_> =
        (0..).zip(vcpus).map(|(vcpu, &(.., after))| event(at + 10 + after, vcpu, EventKind::Enter)).collect();
    entries.sort_by_key(|event| event.at);
    events.extend(entries);
    events
}

/// Where several threads of a run had a reason of their own, nobody can tell which came first: each has all the exits that
/// were forced, and an equal share of the time, so that the shares are the whole.
#[test]
fn what_the_forced_lost_is_shared_equally_among_the_causes_of_the_run() {
    for (what, vcpus, causes, lost) in [
        ("one cause", &[(SYSCALL, false, 50), (FORCED, false, 60)][..], &[(0, SYSCALL, 1, 60)][..], 60),
        (
            "two causes",
            &[(SYSCALL, false, 50), (DECREMENTER, false, 50), (FORCED, false, 60)],
            &[(0, SYSCALL, 1, 30), (1, DECREMENTER, 1, 30)],
            60,
        ),
        (
            "three causes, and two that were forced out",
            &[
                (SYSCALL, false, 50),
                (FORCED, false, 60),
                (STORAGE, false, 50),
                (FORCED, false, 90),
                (SYSCALL, false, 50),
            ],
            &[(0, SYSCALL, 2, 50), (2, STORAGE, 2, 50), (4, SYSCALL, 2, 50)],
            150,
        ),
        (
            "an idle vCPU is no cause, and loses nothing",
            &[(SYSCALL, false, 50), (DECREMENTER, true, 50), (FORCED, true, 90), (FORCED, false, 40)],
            &[(0, SYSCALL, 1, 40)],
            40,
        ),
    ] {
        let mut gangs = GangFacts::default();
        run(100, vcpus).iter().for_each(|event| gangs.absorb(event, |_| true));
        gangs.end();
        let mut found: Vec<_> = (gangs.causes().into_iter())
            .map(|((_, vcpu, trap), cause)| (vcpu.0, u64::from(trap), cause.forced, cause.lost))
            .collect();
        found.sort_unstable();
        assert_eq!(found, causes, "{what}");
        let all = &gangs.vms()[&VmId(5)].lost;
        assert_eq!(
            (all.sum, causes.iter().map(|cause| cause.3).sum()),
            (lost, lost),
            "{what}: the shares are the whole"
        );
    }
}
