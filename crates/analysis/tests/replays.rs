//! What was recorded, replayed: halts, KVM's decisions and port accesses, with whole outcomes that are worked out by hand.

mod common;

use common::plain;
use exitscope_analysis::replay::{
    HaltNumbering, HaltOutcome, HaltPolicy, HaltReplay, InKernelHandling, PollDecisionCheck, PortOutcome, PortReplay,
};
use exitscope_analysis::{AccessKey, Accesses, DurationStats, Halts, RecordedHaltPolling};
use exitscope_model::*;
use exitscope_policy::port_path::{CoalescedRing, DeviceModel, Params, PortPathWork};
use exitscope_units::{Moment, Nanos, Tid, VcpuId, VmId};

const US: u64 = 1_000;

fn at(nanos: u64) -> Moment {
    Moment::from_nanos(nanos)
}

fn who(vm: u32, vcpu: u32) -> VcpuIdentity {
    VcpuIdentity { vm: VmId(vm), vcpu: VcpuId(vcpu), tid: Tid(vm * 10 + vcpu) }
}

fn x86() -> RecordedHaltPolling {
    RecordedHaltPolling::of(&TraceInfo { arch: "x86_64".into(), ..TraceInfo::default() })
}

fn lengths(each: &[u64]) -> DurationStats {
    let mut lengths = DurationStats::default();
    each.iter().for_each(|length| lengths.record(Nanos(*length * US)));
    lengths
}

/// A halt that begins in this second, and of which KVM tells, unless it is woken without: in microseconds, after how long
/// something woke the vCPU, the halt ended, and the vCPU entered.
fn halt(second: u64, told: Option<bool>, [woken, end, entered]: [u64; 3]) -> Halt {
    let after = |micros: u64| at(second * 1_000_000 * US + micros * US);
    let slept = told != Some(false);
    Halt {
        who: who(1, 0),
        begin: after(0),
        asleep: (told == Some(true)).then_some(after(1)),
        woken: slept.then_some(after(woken)),
        vcpu_wakeup: told.map(|waited| VcpuWakeup { length: Nanos(end * US), waited, valid: true, may_poll: true }),
        change: None,
        kicked: false,
        ipi: None,
        end: after(end),
        entered: Some(after(entered)),
    }
}

/// Two that KVM caught and two that slept. Back from sleep takes 34 us longer by the medians, 3 and 37 us. One idle exit of
/// which KVM tells nothing: something was pending.
fn halts() -> Vec<Halt> {
    vec![
        halt(1, Some(false), [20, 20, 23]),
        halt(2, Some(false), [40, 40, 45]),
        halt(3, Some(true), [160, 190, 197]),
        halt(4, Some(true), [300, 341, 350]),
        halt(5, None, [2, 4, 4]),
    ]
}

fn replayed(policy: HaltPolicy, set: &[(&'static str, u64)], halts: &[Halt]) -> HaltOutcome {
    let mut facts = Halts::default();
    halts.iter().for_each(|halt| facts.absorb(halt));
    let mut replay = HaltReplay::new(policy, &facts.settings, &x86(), set, &facts.all()).unwrap();
    halts.iter().for_each(|halt| replay.absorb(halt));
    replay.outcome
}

#[test]
fn the_hosts_polls_catch_what_comes_within_them_and_cost_what_they_last() {
    let always = |micros: u64| {
        let nanos = micros * US;
        [("halt_poll_ns", nanos), ("halt_poll_ns_grow_start", nanos), ("halt_poll_ns_shrink", 1)]
    };
    let outcome = |caught, misses, polling, polling_missed, latencies: [u64; 4]| HaltOutcome {
        halts: 4,
        caught,
        hits: caught,
        misses,
        polling: polling * US,
        polling_missed: polling_missed * US,
        ipis_spared: 0,
        latencies: lengths(&latencies),
    };
    // None is caught: those that were come back as late as those that slept.
    assert_eq!(replayed(HaltPolicy::Host, &always(0), &halts()), outcome(0, 0, 0, 0, [37, 39, 37, 50]));
    // The first finds no poll. It lasts 54 us with the way back, less than 60: so the poll becomes 60.
    assert_eq!(replayed(HaltPolicy::Host, &always(60), &halts()), outcome(1, 2, 40 + 60 + 60, 120, [37, 5, 37, 50]));
    // What slept is caught within 170 us, and spares the 30 us until it had its CPU back.
    assert_eq!(replayed(HaltPolicy::Host, &always(170), &halts()), outcome(2, 1, 40 + 160 + 170, 170, [37, 5, 7, 50]));
    // With 54 us at most, the first is no reason to poll longer, and nothing else is.
    assert_eq!(replayed(HaltPolicy::Host, &always(54), &halts()), outcome(0, 0, 0, 0, [37, 39, 37, 50]));
}

#[test]
fn the_guests_polls_catch_what_was_pending_and_grow_by_what_they_miss() {
    let outcome = replayed(HaltPolicy::Guest, &[("guest_halt_poll_ns", 200 * US)], &halts());
    let expected = HaltOutcome {
        halts: 5,
        // The second, and what was pending.
        caught: 2,
        hits: 2,
        // The third with a limit of 50 us, which makes it 100, and the fourth.
        misses: 2,
        polling: (40 + 50 + 100) * US,
        polling_missed: 150 * US,
        ipis_spared: 0,
        // The first without the host's poll; no exit is none.
        latencies: lengths(&[37, 0, 37, 50, 0]),
    };
    assert_eq!(outcome, expected);
    // Of the halts that a poll ends, those whose vCPU a sibling sent what Linux does not send to who polls.
    let sent = |vectors: [Option<u8>; 5]| {
        let halts: Vec<Halt> = halts().into_iter().zip(vectors).map(|(halt, ipi)| Halt { ipi, ..halt }).collect();
        let [guest, host] = [("guest_halt_poll_ns", HaltPolicy::Guest), ("halt_poll_ns", HaltPolicy::Host)]
            .map(|(knob, policy)| replayed(policy, &[(knob, 200 * US)], &halts));
        let mut stats = Halts::default();
        halts.iter().for_each(|halt| stats.absorb(halt));
        (guest.ipis_spared, host.ipis_spared, stats.all().ipis)
    };
    assert_eq!(sent([Some(0xfd), Some(0xfb), Some(0xfd), None, None]), (1, 0, 3));
    assert_eq!(sent([None, Some(0xfc), None, None, Some(0xfd)]), (1, 0, 1));
    assert_eq!(sent([Some(0x20), Some(0xf6), None, None, None]), (0, 0, 0));
    let never = replayed(HaltPolicy::Guest, &[("guest_halt_poll_ns", 0)], &halts());
    assert_eq!(never, HaltOutcome { halts: 5, latencies: lengths(&[37, 39, 37, 50, 2]), ..HaltOutcome::default() });
}

#[test]
fn where_kvm_tells_of_no_halt_every_idle_exit_is_one() {
    let untold = [halt(1, None, [30, 60, 64]), halt(2, None, [50, 90, 97])];
    let set = [("halt_poll_ns", 100 * US), ("halt_poll_ns_grow_start", 70 * US), ("halt_poll_ns_shrink", 1)];
    // The first lasts 60 us, so that the poll becomes 70: what slept is caught after 50 us and needs 7 us more.
    let expected = HaltOutcome {
        halts: 2,
        caught: 1,
        hits: 1,
        polling: 50 * US,
        latencies: lengths(&[34, 7]),
        ..HaltOutcome::default()
    };
    assert_eq!(replayed(HaltPolicy::Host, &set, &untold), expected);
}

#[test]
fn polls_are_each_vcpus_own_and_settings_each_vms() {
    // As if several had halted at a time: each finds no poll the first time.
    let of = |vm, vcpu| {
        let own = |halt: Halt| Halt { who: who(vm, vcpu), ..halt };
        [own(halt(1, Some(true), [60, 70, 75])), own(halt(2, Some(true), [60, 70, 75]))]
    };
    let [a, b, c] = [of(1, 0), of(1, 1), of(2, 0)];
    let all = [a[0], b[0], c[0], c[1], a[1], b[1]];
    let set = [("halt_poll_ns_grow_start", 80 * US)];
    let outcome = replayed(HaltPolicy::Host, &set, &all);
    assert_eq!((outcome.halts, outcome.caught, outcome.polling), (6, 3, 180 * US));
    // Of VM 2 it is known that it polls for 75 us at most, so that its vCPU never polls for 80.
    let change = |grow, old, new| Some(PollChange { grow, new, old });
    let told = |length: u64| Some(VcpuWakeup { length: Nanos(length * US), waited: true, valid: true, may_poll: true });
    let cut = [
        Halt { change: change(true, 70_000, 140_000), vcpu_wakeup: told(72), ..c[0] },
        Halt { change: change(false, 75_000, 0), vcpu_wakeup: told(90), ..c[1] },
    ];
    let outcome = replayed(HaltPolicy::Host, &set[..0], &[a[0], cut[0], cut[1], a[1]]);
    assert_eq!((outcome.halts, outcome.caught), (4, 0));
    let outcome = replayed(HaltPolicy::Guest, &[("guest_halt_poll_ns", 200 * US)], &all);
    // Each halts for 75 us the first time, which makes 50 us of the limit: that is too little, and the second halt misses it.
    assert_eq!((outcome.halts, outcome.caught, outcome.misses, outcome.polling), (6, 0, 3, 150 * US));
}

#[test]
fn what_kvm_made_of_halts_is_what_was_recorded() {
    let mut facts = Halts::default();
    let poll = |old| Some(PollChange { grow: true, new: old * 2, old });
    let [first, second, third, fourth, pending] = halts()[..] else { unreachable!() };
    let slept = Halt { asleep: Some(at(3_000_000 * US + 70 * US)), change: poll(50_000), ..third };
    [first, Halt { change: poll(90_000), ..second }, slept, fourth, pending].iter().for_each(|halt| facts.absorb(halt));
    facts.end(|who| who);
    let recorded = HaltOutcome::recorded(&facts.all());
    let expected = HaltOutcome {
        halts: 4,
        caught: 2,
        hits: 2,
        misses: 1,
        polling: (20 + 40 + 50) * US,
        polling_missed: 50 * US,
        ipis_spared: 0,
        latencies: lengths(&[3, 5, 37, 50]),
    };
    assert_eq!(recorded, expected);
}

#[test]
fn a_halt_taken_over_from_another_reading_is_of_the_same_vcpu() {
    let of = |vcpu| Halt { who: who(1, vcpu), ..halt(1, Some(true), [60, 70, 75]) };
    let (mut first, mut second) = (HaltNumbering::default(), HaltNumbering::default());
    first.recorded(&of(0));
    [2, 1, 0].iter().for_each(|&vcpu| _ = second.recorded(&of(vcpu)));
    let third = second.recorded(&Halt { who: who(1, 0), ..halt(2, Some(true), [60, 71, 75]) });
    let adopted = first.renumber(&second, &third);
    assert_eq!(adopted.length(), Nanos(71 * US));
    // With 80 us, the second halt of vCPU 0 is caught, whichever number it had.
    let mut facts = Halts::default();
    facts.absorb(&of(0));
    let set = [("halt_poll_ns_grow_start", 80 * US)];
    for (recorded, caught) in [(adopted, 1), (first.renumber(&second, &second.clone().recorded(&of(1))), 0)] {
        let mut replay = HaltReplay::new(HaltPolicy::Host, &facts.settings, &x86(), &set, &facts.all()).unwrap();
        replay.absorb_recorded(&[HaltNumbering::default().recorded(&of(0)), recorded]);
        assert_eq!(replay.outcome.caught, caught);
    }
}

#[test]
fn decisions_are_compared_one_by_one_and_what_was_not_foreseen_spoils_no_other() {
    let told = |second, length: u64, change: Option<(bool, u32, u32)>| Halt {
        vcpu_wakeup: Some(VcpuWakeup { length: Nanos(length), waited: true, valid: true, may_poll: true }),
        change: change.map(|(grow, old, new)| PollChange { grow, new, old }),
        ..halt(second, Some(true), [1, 2, 3])
    };
    let halts = [
        // Nobody knows the poll yet.
        (told(1, 5_000, None), (0, 0, 0, 0)),
        (told(2, 15_000, Some((true, 0, 10_000))), (1, 1, 1, 1)),
        (told(3, 8_000, None), (2, 2, 1, 1)),
        // It should have grown to 20 us.
        (told(4, 30_000, None), (3, 2, 1, 1)),
        // It should have been 20 us, and grown to 40.
        (told(5, 35_000, Some((true, 10_000, 30_000))), (4, 2, 2, 1)),
        // From where it says that it is.
        (told(6, 40_000, Some((true, 30_000, 60_000))), (5, 3, 3, 2)),
        (told(7, 61_000, Some((true, 60_000, 120_000))), (6, 4, 4, 3)),
        // KVM told nothing of this one, and of those of another VM no decision.
        (halt(8, None, [1, 2, 3]), (6, 4, 4, 3)),
        (Halt { who: who(2, 0), ..told(9, 15_000, None) }, (6, 4, 4, 3)),
        // Another vCPU has a poll of its own.
        (Halt { who: who(1, 1), ..told(10, 15_000, Some((true, 0, 10_000))) }, (7, 5, 5, 4)),
        (told(11, 130_000, Some((true, 120_000, 240_000))), (8, 6, 6, 5)),
    ];
    let mut facts = Halts::default();
    halts.iter().for_each(|(halt, _)| facts.absorb(halt));
    let mut decisions = PollDecisionCheck::new(&facts.settings, &x86());
    for (number, (halt, expected)) in halts.iter().enumerate() {
        decisions.absorb(halt);
        let found = (decisions.known, decisions.same, decisions.changes, decisions.same_changes);
        assert_eq!(found, *expected, "{number}");
    }
}

/// An access to port 0x80 that cost so much, of a string or not, by somebody outside the kernel or not.
fn access(write: bool, string: bool, outside: bool, cost: u64) -> Exit {
    let form = if string { PortAccessForm::String } else { PortAccessForm::NonString };
    Exit {
        code: ExitCode::new(CodeList::Vmx, 30),
        handler: if outside { Handler::Userspace(2) } else { Handler::Kernel },
        subject: Some(Subject { kind: SubjectKind::Port, write, form, size: 1, key: 0x80, value: 5 }),
        parts: ExitParts::ZERO.with(TimePart::Kernel, Nanos(cost)),
        ..plain()
    }
}

/// What each step takes, so that each sum shows which steps are in it.
fn costs() -> Vec<(PortPathWork, u64)> {
    vec![
        (PortPathWork::Exit, 10),
        (PortPathWork::Decode, 3),
        (PortPathWork::Emulate, 100),
        (PortPathWork::Device, 7),
        (PortPathWork::Signal, 5),
        (PortPathWork::Store, 11),
        (PortPathWork::LeaveToUser, 40),
        (PortPathWork::WakeDeviceModel, 60),
        (PortPathWork::Block, 300),
        (PortPathWork::DeviceModel, 1_000),
        (PortPathWork::ReturnFromUser, 50),
        (PortPathWork::Resume, 70),
        (PortPathWork::Complete, 20),
        (PortPathWork::Entry, 9),
    ]
}

/// Those of a recording in which the kernel served these.
fn accesses(exits: &[Exit]) -> Accesses {
    let mut accesses = Accesses::default();
    exits.iter().for_each(|exit| accesses.absorb(AccessKey::of(exit).unwrap(), exit));
    accesses
}

#[test]
fn a_port_access_costs_what_it_did_what_the_kernels_own_do_or_what_a_model_says() {
    let now = PortReplay::recorded(false);
    assert_eq!((now.quick_path, now.device_model), (true, DeviceModel::Inline));
    assert_eq!(PortReplay::recorded(true), Params { device_model: DeviceModel::Scheduled, ..now });
    let (emulating, scheduled) = (Params { quick_path: false, ..now }, PortReplay::recorded(true));
    let (write, read) = (access(true, false, true, 5_000), access(false, false, true, 7_000));
    let (outs, ins) = (access(true, true, true, 9_000), access(false, true, true, 9_500));
    let (kernels, cut) = (access(true, false, false, 31), Exit { timed: false, ..write });
    use InKernelHandling::{Coalesced, Devices, Ioeventfd, Nothing};
    // Times at which somebody outside serves it, emulations and blocks; what it costs where the recording has nothing of the
    // kernel's own, where it has a write of 30 and a read of 25 ns, and where a model says it.
    for (what, params, served, exit, steps, bare, typical, model) in [
        ("a write", now, Nothing, write, (1, 0, 0), Some(5_000), Some(5_000), None),
        ("a read", now, Nothing, read, (1, 0, 0), Some(7_000), Some(7_000), None),
        ("a string that is written", now, Nothing, outs, (1, 1, 0), Some(9_000), Some(9_000), None),
        ("a string that is read", now, Nothing, ins, (1, 2, 0), Some(9_500), Some(9_500), None),
        ("the kernel's own", now, Nothing, kernels, (0, 0, 0), Some(31), Some(31), None),
        ("of which an end is missing", now, Ioeventfd, cut, (0, 0, 0), Some(0), Some(0), None),
        // Decoding and leaving, 1,112 ns in all, become a signal, 27, a store, 33, or a device, 29.
        ("a write by an event", now, Ioeventfd, write, (0, 0, 0), None, Some(30), Some(3_915)),
        ("a write to the ring", now, Coalesced, write, (0, 0, 0), None, Some(30), Some(3_921)),
        ("a write to a device", now, Devices, write, (0, 0, 0), None, Some(30), Some(3_917)),
        // A read has the way back, 20 ns, as well.
        ("a read of a device", now, Devices, read, (0, 0, 0), None, Some(25), Some(7_000 - 1_132 + 29)),
        ("a read by an event", now, Ioeventfd, read, (1, 0, 0), Some(7_000), Some(7_000), None),
        ("a read of the ring", now, Coalesced, read, (1, 0, 0), Some(7_000), Some(7_000), None),
        ("a string by an event", now, Ioeventfd, outs, (1, 1, 0), Some(9_000), Some(9_000), None),
        ("a string to a device", now, Devices, outs, (0, 1, 0), None, Some(30), Some(9_000 - 1_209 + 126)),
        // Emulated instead of decoded: 97 ns more, and for a read once more instead of the way back.
        ("an emulated write", emulating, Nothing, write, (1, 1, 0), None, None, Some(5_097)),
        ("an emulated read", emulating, Nothing, read, (1, 2, 0), None, None, Some(7_000 + 97 + 80)),
        ("an emulated one of the kernel's own", emulating, Nothing, kernels, (0, 1, 0), None, None, Some(128)),
        // Waking, blocking and resuming instead of leaving and returning.
        ("a scheduled write", scheduled, Nothing, write, (1, 0, 1), None, None, Some(5_340)),
        ("a scheduled read", scheduled, Nothing, read, (1, 0, 1), None, None, Some(7_340)),
        ("the kernel's own, beside it", scheduled, Nothing, kernels, (0, 0, 0), Some(31), Some(31), None),
    ] {
        let run = |known: &[Exit], costs| {
            let mut replay = PortReplay::new(params, served, false, &accesses(known).typical(), costs);
            replay.absorb(&exit);
            replay.outcome
        };
        let outcome = |time: Option<u64>, modelled| {
            let (outside, emulations, blocks) = steps;
            let unknown = u64::from(time.is_none());
            PortOutcome {
                accesses: 1,
                outside,
                emulations,
                blocks,
                time: time.unwrap_or(0),
                unknown,
                modelled,
                by_string: 0,
            }
        };
        let known = [access(true, false, false, 30), access(false, false, false, 25)];
        assert_eq!(run(&[], None), outcome(bare, 0), "{what}");
        assert_eq!(run(&known, None), outcome(typical, 0), "{what}");
        assert_eq!(run(&[], Some(costs())), outcome(bare.or(model), u64::from(bare.is_none())), "{what}");
    }
}

/// String accesses are emulated always: where they are handed over later than plain ones, that is what an emulation takes.
#[test]
fn an_emulated_access_takes_longer_by_what_string_accesses_of_the_recording_take() {
    let handed = |mut exit: Exit, nanos| {
        exit.phases.handed = Nanos(nanos);
        exit
    };
    let (read, write) = (handed(access(false, false, true, 7_000), 400), handed(access(true, false, true, 5_000), 300));
    let (ins, kernels) = (access(false, true, true, 9_500), access(true, false, false, 31));
    let run = |exits: &[Exit], string: u64, costs| {
        let typical = accesses(&[read, handed(ins, string)]).typical();
        let params = Params { quick_path: false, ..PortReplay::recorded(true) };
        let mut replay = PortReplay::new(params, InKernelHandling::Nothing, true, &typical, costs);
        exits.iter().for_each(|exit| replay.absorb(exit));
        (typical.emulation.map(|length| length.0), replay.outcome, replay.lengths)
    };
    for costs in [None, Some(costs())] {
        let (emulation, of, lengths) = run(&[read, write, kernels, handed(ins, 1_000)], 1_000, costs);
        let emulation = emulation.unwrap();
        assert!((580..=620).contains(&emulation), "{emulation}");
        assert_eq!((of.emulations, of.by_string, of.modelled, of.unknown), (2 + 1 + 1 + 2, 3, 0, 0));
        assert_eq!(of.time, (7_000 + 2 * emulation) + (5_000 + emulation) + (31 + emulation) + 9_500);
        // That of the kernel's own is answered by no device model.
        assert_eq!(lengths.handed.sum, (400 + emulation) + (300 + emulation) + 1_000);
        assert_eq!(lengths.whole.sum, (7_000 + 2 * emulation) + (5_000 + emulation) + 9_500);
        assert_eq!((lengths.handed.count, lengths.whole.count), (3, 3));
    }
    // String accesses that are handed over as soon say nothing: a model does.
    let (emulation, of, _) = run(&[read], 400, None);
    assert_eq!((emulation, of.by_string, of.modelled, of.unknown), (None, 0, 0, 1));
    let (_, of, lengths) = run(&[read], 400, Some(costs()));
    // Decoding takes 3 ns, an emulation 100, and it takes two instead of the way back.
    assert_eq!((of.by_string, of.modelled, of.time), (0, 1, 7_000 + 97 + 80));
    assert_eq!((lengths.handed.sum, lengths.whole.sum), (400 + 97, 7_000 + 97 + 80));
}

#[test]
fn a_device_model_that_was_scheduled_costs_what_it_did_where_it_still_is() {
    let write = access(true, false, true, 5_000);
    let run = |params| {
        let mut replay =
            PortReplay::new(params, InKernelHandling::Nothing, true, &Accesses::default().typical(), Some(costs()));
        replay.absorb(&write);
        (replay.outcome.time, replay.outcome.modelled, replay.outcome.blocks)
    };
    assert_eq!(run(PortReplay::recorded(true)), (5_000, 0, 1));
    assert_eq!(run(PortReplay::recorded(false)), (4_660, 1, 0));
}

#[test]
fn only_who_leaves_the_same_vms_guest_empties_its_ring() {
    let write = access(true, false, true, 5_000);
    let read = access(false, false, true, 5_000);
    let of = |exit: Exit, vm| Exit { who: who(vm, 0), ..exit };
    let nameless = |exit: Exit| Exit { subject: None, ..exit };
    let kernels = access(true, false, false, 31);
    let memory =
        |exit: Exit| Exit { subject: exit.subject.map(|of| Subject { kind: SubjectKind::Mmio, ..of }), ..exit };
    // The ring has room for one less than its entries.
    let half = vec![of(write, 1); CoalescedRing::ENTRIES as usize / 2];
    for (what, between, outside, accesses) in [
        ("a read that leaves", of(read, 1), 1, 1),
        ("another VM's", of(read, 2), 1 + 1, 1),
        ("something else that leaves", of(nameless(write), 1), 0, 0),
        ("something else of another VM", of(nameless(write), 2), 1, 0),
        ("memory", of(memory(write), 1), 0, 0),
        ("something else that does not leave", of(nameless(kernels), 1), 1, 0),
        ("the kernel's own", of(kernels, 1), 1, 1),
    ] {
        let typical = Accesses::default().typical();
        let mut replay =
            PortReplay::new(PortReplay::recorded(false), InKernelHandling::Coalesced, false, &typical, None);
        [&half[..], &[between], &half[..]].concat().iter().for_each(|exit| replay.absorb(exit));
        let (outcome, all) = (replay.outcome, u64::from(CoalescedRing::ENTRIES));
        assert_eq!((outcome.outside, outcome.accesses), (outside, all + accesses), "{what}");
    }
}
