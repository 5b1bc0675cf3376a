//! Where the time of vCPUs of powerpc goes, whose virtual core's runner records for them: docs/accounting.md, "powerpc".

use exitscope_model::*;
use exitscope_units::{Moment, PcpuId, Tid, VcpuId, VmId};
use std::collections::BTreeMap;

const SYSCALL: u64 = 0xc00;
const HV_DECREMENTER: u64 = 0x980;

/// An event of a VM, by this thread on this CPU.
fn event(at: u64, tid: u32, vcpu: u32, kind: EventKind) -> Event {
    let (at, tid, vcpu) = (Moment::from_nanos(at), Tid(tid), VcpuId(vcpu));
    Event { at, tid, vm: VmId(1), vcpu, cpu: PcpuId(0), name: NameId(0), kind }
}

fn on(cpu: u32, event: Event) -> Event {
    Event { cpu: PcpuId(cpu), ..event }
}

fn enter(at: u64, tid: u32, vcpu: u32) -> Event {
    event(at, tid, vcpu, EventKind::Enter)
}

fn exit(at: u64, tid: u32, vcpu: u32, trap: u64) -> Event {
    let code = ExitCode::new(CodeList::PpcTrap, trap);
    event(at, tid, vcpu, EventKind::Exit { code, idle: false, words: SubjectWord::NONE, rip: 0 })
}

/// A core run begins, or is over.
fn core(at: u64, tid: u32, exit: bool) -> Event {
    event(at, tid, tid - 20, EventKind::RunCore { exit, runnable: 2 })
}

fn hcall(at: u64, tid: u32, vcpu: u32) -> Event {
    let (kind, form) = (SubjectKind::PpcHcall, PortAccessForm::Unknown);
    event(at, tid, vcpu, EventKind::Detail(Subject { kind, write: false, form, size: 0, key: 0x58, value: 0 }))
}

fn returns(at: u64, tid: u32, errno: i32) -> Event {
    event(at, tid, VcpuId::UNKNOWN.0, EventKind::UserspaceExit { reason: 19, errno })
}

fn switch(at: u64, prev: u32, sleeps: bool, next: u32) -> Event {
    event(at, prev, VcpuId::UNKNOWN.0, EventKind::switch(Tid(prev), sleeps, Tid(next)))
}

fn wakeup(at: u64, tid: u32) -> Event {
    event(at, 0, VcpuId::UNKNOWN.0, EventKind::Wakeup { tid: Tid(tid) })
}

type Parts = BTreeMap<&'static str, u64>;

/// The parts that are not zero, by vCPU.
fn account(events: &[Event]) -> BTreeMap<u32, Parts> {
    let (mut assembler, mut rows, mut ledger) = (Assembler::default(), Vec::new(), Ledger::default());
    assembler.push(events, &mut rows, &mut ledger);
    let mut stretches = assembler.cpu_intervals().to_vec();
    let spans = assembler.finish(&mut rows, &mut ledger);
    stretches.extend_from_slice(assembler.cpu_intervals());
    let mut all: BTreeMap<u32, AllParts> = BTreeMap::new();
    for row in &rows {
        let of = all.entry(row.who.vcpu.0).or_default();
        of.add(TimePart::Guest, row.guest);
        if row.timed {
            of.merge(&row.parts);
        }
    }
    stretches.iter().for_each(|stretch| all.entry(stretch.who.vcpu.0).or_default().merge(&stretch.parts));
    for span in spans {
        let parts = all.get(&span.who.vcpu.0).copied().unwrap_or_default();
        assert_eq!(Some(parts.sum()), span.last.since(span.first), "the parts of {:?} are its span", span.who);
    }
    let rows_events: u64 = rows.iter().map(|row| u64::from(row.events)).sum();
    assert_eq!(
        rows_events + ledger.events_outside_rows(),
        events.len() as u64,
        "{:?}",
        ledger.lines().collect::<Vec<_>>()
    );
    let parts_of = |parts: AllParts| TimePart::ALL.map(|part| (part.name(), parts.get(part).0));
    all.into_iter().map(|(vcpu, parts)| (vcpu, parts_of(parts).into_iter().filter(|row| row.1 > 0).collect())).collect()
}

/// A run of the virtual core whose vCPUs these two are: the first one's thread, 20 and its number, records. It enters over 10 and leaves
/// over the last 10 of its 100.
fn run(at: u64, first: u32, trap: u64) -> [Event; 6] {
    let tid = 20 + first;
    [
        enter(at, tid, first),
        enter(at + 5, tid, first + 1),
        core(at + 10, tid, false),
        exit(at + 90, tid, first, trap),
        exit(at + 95, tid, first + 1, HV_DECREMENTER),
        core(at + 100, tid, true),
    ]
}

fn without(events: &[Event], kind: fn(&EventKind) -> bool) -> Vec<Event> {
    events.iter().filter(|event| !kind(&event.kind)).copied().collect()
}

fn is_core_run(kind: &EventKind) -> bool {
    matches!(kind, EventKind::RunCore { .. })
}

#[test]
fn virtual_cores_of_one_vm_that_take_turns_wait_for_one_another() {
    let events = [run(0, 0, SYSCALL), run(1_000, 4, SYSCALL), run(2_000, 0, SYSCALL), run(3_000, 4, SYSCALL)].concat();
    let parts = account(&events);
    // Between their exits and their next entries the other virtual core had the CPU from 1,000 to 1,095.
    for vcpu in [0, 1] {
        let expected: Parts = [("guest", 90 * 2), ("kernel", 2_000 - 90 - 95), ("steal", 95)].into();
        let open = parts[&vcpu].clone();
        assert_eq!((open["guest"], open["steal"]), (expected["guest"], expected["steal"]), "{vcpu}: {open:?}");
        assert_eq!(open["kernel"], expected["kernel"], "{vcpu}: {open:?}");
    }
    // Which threads run together is told with or without core runs.
    assert_eq!(account(&without(&events, is_core_run)), parts);
}

#[test]
fn siblings_that_run_together_do_not_wait_for_one_another() {
    let events = [run(0, 0, SYSCALL), run(1_000, 0, SYSCALL), run(2_000, 0, SYSCALL)].concat();
    for events in [events.clone(), without(&events, is_core_run)] {
        for (vcpu, parts) in account(&events) {
            assert!(!parts.contains_key("steal"), "{vcpu}: {parts:?}");
        }
    }
}

#[test]
fn who_joins_a_run_is_where_that_is() {
    // vCPU 1 joins by its own thread, which is on CPU 8; there a vCPU of another virtual core leaves its guest and enters it again.
    let events = [
        on(8, enter(0, 25, 5)),
        enter(10, 20, 0),
        on(8, exit(40, 25, 5, SYSCALL)),
        on(8, enter(50, 21, 1)),
        exit(90, 20, 0, SYSCALL),
        exit(95, 20, 1, HV_DECREMENTER),
        enter(110, 20, 0),
        enter(115, 20, 1),
        on(8, enter(140, 25, 5)),
    ];
    let first = account(&events);
    assert_eq!(first[&0], [("guest", 80), ("kernel", 20)].into());
    assert_eq!(first[&1], [("guest", 45), ("kernel", 20)].into());
    // From when it is known that it runs elsewhere: what was taken for its time on CPU 8 until then is nobody's.
    assert_eq!(first[&5], [("guest", 40), ("kernel", 100)].into());
    let again = events.iter().map(|event| Event { at: Moment::from_nanos(event.at.as_nanos() + 200), ..*event });
    let both: Vec<Event> = events.iter().copied().chain(again).collect();
    assert!(!account(&both)[&5].contains_key("steal"));
}

#[test]
fn the_time_of_a_vcpu_begins_with_its_first_entry() {
    let events = run(100, 0, SYSCALL);
    let parts = account(&[&events[..], &[enter(250, 20, 0), enter(255, 20, 1)]].concat());
    assert_eq!(parts[&0], [("guest", 90), ("kernel", 60)].into());
    assert_eq!(parts[&1], [("guest", 90), ("kernel", 60)].into());
    // Also where events of threads came before.
    let before = [returns(10, 20, -4), hcall(20, 20, 0)];
    assert_eq!(account(&[&before[..], &events, &[enter(250, 20, 0), enter(255, 20, 1)]].concat()), parts);
}

#[test]
fn a_vcpu_whose_runner_has_no_cpu_waits_for_one() {
    let events = [
        &run(0, 0, SYSCALL)[..],
        &[switch(150, 20, false, 99), switch(450, 99, false, 20)],
        &[enter(500, 20, 0), enter(500, 20, 1), exit(600, 20, 0, SYSCALL), exit(600, 20, 1, SYSCALL)],
        &[enter(700, 20, 0), enter(700, 20, 1)],
    ]
    .concat();
    let parts = account(&events);
    assert_eq!(parts[&0], [("guest", 190), ("kernel", 210), ("steal", 300)].into());
    assert_eq!(parts[&1], [("guest", 190), ("kernel", 205), ("steal", 300)].into());
    // What is told of another thread is nothing of theirs.
    let other =
        [&run(0, 0, SYSCALL)[..], &[switch(150, 77, false, 99), switch(450, 99, false, 77)], &[enter(500, 20, 0)]];
    assert!(!account(&other.concat())[&0].contains_key("steal"));
}

#[test]
fn a_vcpu_that_its_own_thread_works_for_waits_with_that() {
    let begins = [enter(0, 20, 0), enter(0, 20, 1), exit(100, 20, 0, HV_DECREMENTER), exit(100, 20, 1, SYSCALL)];
    let answers = [
        // The runner goes on with its own vCPU, then loses its CPU: no matter to vCPU 1, whose own thread is known.
        hcall(110, 21, 1),
        returns(130, 21, 0),
        switch(150, 20, false, 99),
        switch(170, 21, true, 98),
        wakeup(400, 21),
        switch(450, 98, false, 21),
        event(480, 21, VcpuId::UNKNOWN.0, EventKind::RunEnter),
        switch(500, 99, false, 20),
        enter(600, 20, 0),
        enter(600, 20, 1),
    ];
    let parts = account(&[&begins[..], &answers].concat());
    assert_eq!(parts[&0], [("guest", 100), ("kernel", 150), ("steal", 350)].into());
    assert_eq!(parts[&1], [("guest", 100), ("kernel", 150), ("user space", 300), ("steal", 50)].into());
}

#[test]
fn a_runner_that_answers_for_its_own_vcpu_runs_the_core_no_more() {
    let events = [
        enter(0, 20, 0),
        enter(0, 20, 1),
        exit(100, 20, 0, SYSCALL),
        exit(100, 20, 1, HV_DECREMENTER),
        hcall(110, 20, 0),
        returns(120, 20, 0),
        // Thread 20 waits for what user space does; vCPU 1's own thread is woken to run the core, and waits for a CPU.
        switch(150, 20, false, 99),
        hcall(160, 21, 1),
        switch(200, 21, true, 99),
        wakeup(300, 21),
        switch(340, 99, false, 21),
        enter(400, 21, 1),
        switch(500, 99, false, 20),
        enter(600, 20, 0),
    ];
    let parts = account(&events);
    assert_eq!(parts[&1], [("guest", 100), ("kernel", 260), ("steal", 40)].into());
    assert_eq!(parts[&0], [("guest", 100), ("kernel", 20), ("user space", 130), ("steal", 350)].into());
}

#[test]
fn a_vcpu_that_has_ceded_is_not_divided_whatever_its_threads_do() {
    let idle = Event { kind: cede(), ..exit(100, 20, 1, SYSCALL) };
    let events = [enter(0, 20, 0), enter(0, 20, 1), exit(100, 20, 0, HV_DECREMENTER), idle];
    let events =
        [&events[..], &[switch(150, 20, false, 99), switch(350, 99, false, 20), enter(400, 20, 0), enter(400, 20, 1)]];
    let parts = account(&events.concat());
    assert_eq!(parts[&0], [("guest", 100), ("kernel", 100), ("steal", 200)].into());
    assert_eq!(parts[&1], [("guest", 100), ("halt, not divided", 300)].into());
}

#[test]
fn a_vcpu_that_had_ceded_and_was_kicked_is_stopped() {
    let idle = Event { kind: cede(), ..exit(100, 20, 0, SYSCALL) };
    let wakes = [switch(10, 7, true, 8), enter(20, 20, 0), idle, hint(105, 20, 0), returns(110, 20, -4)];
    let events = [switch(150, 20, true, 99), wakeup(900, 20), switch(950, 99, false, 20), enter(1_000, 20, 0)];
    let parts = account(&[&wakes[..], &events].concat());
    let expected = [("guest", 80), ("halt, not divided", 10), ("user space", 90), ("steal", 50), ("unknown", 750)];
    assert_eq!(parts[&0], expected.into(), "nothing says whether it slept in KVM_RUN");
    let runs = event(960, 20, VcpuId::UNKNOWN.0, EventKind::RunEnter);
    let parts = account(&[&wakes[..], &events[..3], &[runs], &events[3..]].concat());
    assert_eq!(parts[&0]["stopped"], 750);
}

#[test]
fn a_thread_that_waits_for_the_runner_waits_for_no_memory() {
    const H_DATA_STORAGE: u64 = 0xe00;
    let events = [
        enter(0, 20, 0),
        enter(0, 20, 1),
        exit(100, 20, 0, HV_DECREMENTER),
        exit(100, 20, 1, H_DATA_STORAGE),
        hcall(110, 21, 1),
        hint(120, 21, 1),
        switch(130, 21, true, 99),
        enter(900, 20, 0),
        enter(900, 20, 1),
    ];
    assert_eq!(account(&events)[&1], [("guest", 100), ("kernel", 800)].into());
    let (mut assembler, mut rows, mut ledger) = (Assembler::default(), Vec::new(), Ledger::default());
    assembler.push(&events, &mut rows, &mut ledger);
    assert_eq!((assembler.kinds().unwoken_sleeps, assembler.kinds().tell_all_steal()), (0, true));
}

fn hint(at: u64, tid: u32, vcpu: u32) -> Event {
    event(at, tid, vcpu, EventKind::VcpuHint)
}

#[test]
fn a_recording_that_begins_with_the_end_of_a_halt_divides_none() {
    let ends = event(50, 20, VcpuId::UNKNOWN.0, EventKind::HaltEnd { ns: 40, waited: true, valid: true });
    let events = [ends, enter(60, 20, 0), Event { kind: cede(), ..exit(100, 20, 0, SYSCALL) }, enter(900, 20, 0)];
    assert_eq!(account(&events)[&0], [("guest", 40), ("halt, not divided", 800)].into());
}

fn cede() -> EventKind {
    let code = ExitCode::new(CodeList::PpcTrap, 0xe80);
    EventKind::Exit { code, idle: true, words: SubjectWord::NONE, rip: 0 }
}
