//! Who had the CPU for which a vCPU waited, as switches of all threads tell it.

use exitscope_model::*;
use exitscope_units::{Moment, PcpuId, Tid, VcpuId, VmId};

const HLT: ExitCode = ExitCode::new(CodeList::Vmx, 12);

/// Of vCPU `n` of VM 1, whose thread is 10 + n, on this CPU.
fn of(at: u64, vcpu: u32, cpu: u32, kind: EventKind) -> Event {
    let (tid, vm) = (Tid(10 + vcpu), VmId(1));
    Event { tid, vm, vcpu: VcpuId(vcpu), ..Event::nameless(Moment::from_nanos(at), PcpuId(cpu), kind) }
}

fn exit(at: u64, vcpu: u32, cpu: u32) -> Event {
    of(at, vcpu, cpu, EventKind::Exit { code: HLT, idle: false, words: SubjectWord::NONE, rip: 0 })
}

/// On `cpu`, a thread of a process that is called so gives way to another: to sleep, or not.
fn switch(at: u64, cpu: u32, prev: (u32, u32, &str), sleeps: bool, next: u32) -> Event {
    let (tid, process, name) = (Tid(prev.0), VmId(prev.1), ThreadName::new(prev.2.as_bytes()));
    let kind = EventKind::Switch { prev: tid, sleeps, next: Tid(next), prev_name: name };
    Event { tid, vm: process, ..Event::nameless(Moment::from_nanos(at), PcpuId(cpu), kind) }
}

fn woken(at: u64, tid: u32) -> Event {
    Event::nameless(Moment::from_nanos(at), PcpuId(7), EventKind::Wakeup { tid: Tid(tid) })
}

/// The pieces, and the steal of all vCPUs.
fn pieces(events: &[Event]) -> (Vec<(u64, u64, String)>, u64) {
    let (mut assembler, mut rows, mut ledger) = (Assembler::default(), Vec::new(), Ledger::default());
    let (mut found, mut steal) = (Vec::new(), 0);
    let mut take = |assembler: &Assembler| {
        found.extend_from_slice(assembler.steal_pieces());
        for row in assembler.beside_rows() {
            if let BesideRow::CpuInterval(interval) = row {
                steal += interval.parts.get(TimePart::Steal).0;
            }
        }
    };
    for events in events.chunks(3) {
        assembler.push(events, &mut rows, &mut ledger);
        take(&assembler);
    }
    assembler.finish(&mut rows, &mut ledger);
    take(&assembler);
    steal += rows.iter().map(|row: &Exit| row.part(TimePart::Steal).0).sum::<u64>();
    let named = |taker| match taker {
        CpuTaker::Thread { tid, process, name } => {
            format!("{} {} of {}", name.text().unwrap_or_default(), tid.0, process.0)
        }
        CpuTaker::WakingUp => "waking up".to_string(),
        CpuTaker::Idle => "idle".to_string(),
    };
    let found = found.iter().map(|piece| (piece.from.as_nanos(), piece.to.as_nanos(), named(piece.taker)));
    (found.collect(), steal)
}

fn piece(from: u64, to: u64, who: &str) -> (u64, u64, String) {
    (from, to, who.to_string())
}

const VCPU: (u32, u32, &str) = (10, 1, "CPU 0/KVM");
const IDLE: (u32, u32, &str) = (0, 0, "swapper/1");
const YES: (u32, u32, &str) = (50, 50, "yes");

/// vCPU 0 halts on CPU 1, which runs what these events say until the vCPU is switched in at 9,000,000.
fn after_a_wake_up(woken_at: u64, between: &[Event], last: (u32, u32, &str)) -> (Vec<(u64, u64, String)>, u64) {
    let begin = [exit(100, 0, 1), switch(200, 1, VCPU, true, 50)];
    let end = [switch(9_000_000, 1, last, false, 10), of(9_000_100, 0, 1, EventKind::Enter), exit(9_000_200, 0, 1)];
    let mut events = [&begin[..], between, &[woken(woken_at, 10)], &end].concat();
    events.sort_by_key(|event| event.at);
    pieces(&events)
}

#[test]
fn after_a_wake_up_those_are_named_who_had_the_cpu_that_the_vcpu_got() {
    let kworker = (5, 5, "kworker/1:2");
    let between = [switch(3_000, 1, YES, false, 5), switch(5_500, 1, kworker, true, 50)];
    let (found, steal) = after_a_wake_up(1_000, &between, YES);
    let expected = [
        piece(1_000, 3_000, "yes 50 of 50"),
        piece(3_000, 5_500, "kworker/1:2 5 of 5"),
        piece(5_500, 9_000_000, "yes 50 of 50"),
    ];
    assert_eq!((found, steal), (expected.to_vec(), 8_999_000));
}

#[test]
fn an_idle_cpu_wakes_up_for_a_millisecond_and_is_idle_for_longer() {
    let slept = [switch(1_000, 1, YES, true, 0)];
    assert_eq!(after_a_wake_up(8_000_000, &slept, IDLE).0, [piece(8_000_000, 9_000_000, "waking up")]);
    assert_eq!(after_a_wake_up(7_999_999, &slept, IDLE).0, [piece(7_999_999, 9_000_000, "idle")]);
}

#[test]
fn where_switches_are_missing_or_lost_nobody_is_named() {
    // Thread 60 took the CPU, and 61 gives it away.
    let unseen = [switch(3_000, 1, YES, true, 60)];
    let (found, steal) = after_a_wake_up(1_000, &unseen, (61, 61, "make"));
    assert_eq!((found, steal), (vec![piece(1_000, 3_000, "yes 50 of 50")], 8_999_000));
    for (cpu, known) in [(1, false), (2, true), (u32::MAX, false)] {
        let lost = [switch(3_000, 1, YES, true, 60), Event::lost(Moment::from_nanos(4_000), PcpuId(cpu), 9)];
        let mut expected = vec![piece(1_000, 3_000, "yes 50 of 50")];
        expected.extend(known.then(|| piece(3_000, 9_000_000, "make 60 of 60")));
        if cpu == 2 {
            assert_eq!(after_a_wake_up(1_000, &lost, (60, 60, "make")).0, expected, "CPU {cpu}");
        } else {
            // What a loss hides of the vCPU is no steal, either.
            assert!(after_a_wake_up(1_000, &lost, (60, 60, "make")).0.len() <= 1, "CPU {cpu}");
        }
    }
}

#[test]
fn names_are_those_of_the_time_whoever_has_the_thread_id_later() {
    let shell = (60, 60, "sh");
    let between = [
        switch(2_000, 1, YES, true, 60),
        switch(3_000, 1, shell, false, 0),
        switch(4_000, 1, IDLE, false, 60),
        // execve.
        switch(6_000, 1, (60, 60, "cc1"), true, 0),
        switch(7_000, 1, IDLE, false, 60),
        // Another process has the id.
        switch(8_000, 1, (60, 59, "worker"), true, 50),
    ];
    let (found, steal) = after_a_wake_up(1_500, &between, YES);
    let expected = [
        piece(1_500, 2_000, "yes 50 of 50"),
        piece(2_000, 3_000, "sh 60 of 60"),
        piece(3_000, 4_000, "waking up"),
        piece(4_000, 6_000, "cc1 60 of 60"),
        piece(6_000, 7_000, "waking up"),
        piece(7_000, 8_000, "worker 60 of 59"),
        piece(8_000, 9_000_000, "yes 50 of 50"),
    ];
    assert_eq!((found, steal), (expected.to_vec(), 8_998_500));
}

/// vCPU 0 is preempted on CPU 1 at 1,000 and switched in at 9,000 on this CPU.
fn preempted(between: &[Event], back: Event) -> (Vec<(u64, u64, String)>, u64) {
    let begin = [of(100, 0, 1, EventKind::Enter), exit(500, 0, 1), switch(1_000, 1, VCPU, false, 50)];
    let end = [of(9_100, 0, back.cpu.0, EventKind::Enter), exit(9_200, 0, back.cpu.0)];
    let mut events = [&begin[..], between, &[back], &end].concat();
    events.sort_by_key(|event| event.at);
    pieces(&events)
}

#[test]
fn after_a_preemption_those_are_named_who_had_the_cpu_that_was_lost() {
    let sibling = (11, 1, "CPU 1/KVM");
    let between = [switch(4_000, 1, YES, false, 11)];
    let expected = [piece(1_000, 4_000, "yes 50 of 50"), piece(4_000, 9_000, "CPU 1/KVM 11 of 1")];
    let stays = preempted(&between, switch(9_000, 1, sibling, true, 10));
    assert_eq!(stays, (expected.to_vec(), 8_000));
    // It is moved to CPU 2, which `make` had, and CPU 1 is never idle: who had that.
    let other = [switch(800, 2, IDLE, false, 70), switch(9_500, 1, sibling, true, 0)];
    let moved = preempted(&[&between[..], &other].concat(), switch(9_000, 2, (70, 70, "make"), false, 10));
    assert_eq!(moved, (expected.to_vec(), 8_000), "the sibling's switch comes later");
    let unseen = [switch(800, 2, IDLE, false, 70), switch(9_500, 1, (12, 1, "CPU 2/KVM"), true, 0)];
    let moved = preempted(&[&between[..], &unseen].concat(), switch(9_000, 2, (70, 70, "make"), false, 10));
    assert_eq!(moved, (expected[..1].to_vec(), 8_000), "another one gave the CPU away");
}

#[test]
fn a_runnable_vcpu_of_an_idle_cpu_was_moved_if_it_ran_elsewhere_and_is_kept_from_it_else() {
    let slept = switch(3_000, 1, YES, true, 0);
    let quota = preempted(&[slept], switch(9_000, 1, IDLE, false, 10));
    assert_eq!(quota, ([piece(1_000, 3_000, "yes 50 of 50"), piece(3_000, 9_000, "idle")].to_vec(), 8_000));
    let make = (70, 70, "make");
    let busy = [switch(800, 2, IDLE, false, 70), slept, switch(8_000, 1, IDLE, false, 50)];
    let moved = preempted(&busy, switch(9_000, 2, make, false, 10));
    assert_eq!(moved, ([piece(1_000, 3_000, "yes 50 of 50"), piece(3_000, 9_000, "make 70 of 70")].to_vec(), 8_000));
}

#[test]
fn of_a_long_wait_the_last_switches_are_known_and_the_rest_is_not() {
    // 2,000 switches between two threads, one every microsecond.
    let threads = [YES, (51, 51, "no")];
    let many: Vec<Event> = (0..2_000_u64)
        .map(|number| {
            let [one, other] = [threads[number as usize % 2], threads[(number as usize + 1) % 2]];
            switch(10_000 + number * 1_000, 1, one, false, other.0)
        })
        .collect();
    let (found, steal) = after_a_wake_up(5_000, &many, YES);
    assert_eq!((found.len(), steal), (511, 8_995_000));
    let named: u64 = found.iter().map(|(from, to, _)| to - from).sum();
    assert_eq!((found[510].1, named), (9_000_000, 9_000_000 - found[0].0));
}
