//! Recordings made up of few numbers, and all that advice says of them: facts, gains, causes, what is left alone and what is
//! not judged. `advice/*.txt` holds the words; each test says why they are right.

#[path = "../../analysis/tests/common/mod.rs"]
mod common;

use common::plain;
use exitscope_advice::{
    Advice, AdviceInput, AdviceSetting, CitedValue, GoesInto, InKernelPath, Judgement, RecordedHost, Trials, judge,
};
use exitscope_analysis::{RecordedHaltPolling, Selection};
use exitscope_model::*;
use exitscope_policy::vcore::H_DOORBELL;
use exitscope_units::{Moment, Nanos, PcpuId, Tid, VcpuId, VmId};
use std::fmt::Write;
use std::path::Path;

/// Set, the files are written instead of compared.
const WRITE: &str = "EXITSCOPE_WRITE_DOCUMENTS";

const US: u64 = 1_000;
const MS: u64 = 1_000_000;
const SECOND: u64 = 1_000_000_000;

const CPUID: u64 = 10;
const HLT: u64 = 12;
const IO: u64 = 30;
const MSR_WRITE: u64 = 32;
const PAUSE: u64 = 40;
const EPT_MISCONFIG: u64 = 49;

fn at(nanos: u64) -> Moment {
    Moment::from_nanos(nanos)
}

fn vcpu(vm: u32, vcpu: u32) -> VcpuIdentity {
    VcpuIdentity { vm: VmId(vm), vcpu: VcpuId(vcpu), tid: Tid(vm * 100 + vcpu) }
}

/// An exit of VMX's number that has this much of the parts.
fn exit(who: VcpuIdentity, begin: u64, number: u64, guest: u64, parts: &[(TimePart, u64)]) -> Exit {
    let code = ExitCode::new(CodeList::Vmx, number);
    Exit {
        at: at(begin),
        who,
        code,
        guest: Nanos(guest),
        parts: parts.iter().fold(ExitParts::ZERO, |sum, (part, time)| sum.with(*part, Nanos(*time))),
        is_halt: code.is_halt(),
        ..plain()
    }
}

fn about(kind: SubjectKind, key: u64, write: bool, value: u64) -> Subject {
    Subject { kind, write, form: PortAccessForm::NonString, size: 4, key, value }
}

/// What a recording holds, in the order in which each kind came.
#[derive(Default)]
struct Recording {
    kinds: EventKinds,
    exits: Vec<Exit>,
    halts: Vec<Halt>,
    yields: Vec<Yield>,
    preemptions: Vec<Preemption>,
    runs: Vec<Event>,
    /// Of no exit: what each vCPU did besides.
    stretches: Vec<CpuInterval>,
    machine: RecordedHost,
    length: u64,
}

impl Recording {
    /// Of a PC whose VM 1 is QEMU's and VM 2 Firecracker's, with all kinds of events.
    fn of(length: u64) -> Recording {
        let kinds = EventKinds { switches: true, handlers: true, wakeups: true, polls: true, ..EventKinds::default() };
        let comms = [(1, "qemu-system-x86"), (2, "firecracker"), (999, "make")];
        let info = TraceInfo {
            arch: "x86_64".into(),
            release: "6.1.0".into(),
            settings: vec![exitscope_model::HostSetting::new("kvm", "halt_poll_ns", "10000")],
            ..TraceInfo::default()
        };
        let machine = RecordedHost {
            arch: info.arch.clone(),
            release: info.release.clone(),
            cpus: 4,
            comms: comms.map(|(tid, name)| (tid, name.to_string())).into_iter().collect(),
            polling: RecordedHaltPolling::of(&info),
            settings: info.settings.clone(),
            ..RecordedHost::default()
        };
        Recording { kinds, machine, length, ..Recording::default() }
    }

    fn rest(&mut self, who: VcpuIdentity, part: TimePart, time: u64) {
        self.stretches.push(CpuInterval { who, from: at(0), parts: AllParts::ZERO.with(part, Nanos(time)) });
    }

    /// Reads it twice, as the command does.
    fn judged(&self) -> Judgement {
        let mut input = AdviceInput::new(&Selection::default());
        input.begin(at(0));
        input.note_event_kinds(self.kinds);
        self.exits.iter().for_each(|exit| _ = input.absorb(exit));
        self.halts.iter().for_each(|halt| _ = input.absorb_halt(halt));
        self.yields.iter().for_each(|of| _ = input.absorb_yield(of));
        self.preemptions.iter().for_each(|of| input.absorb_preemption(of));
        self.runs.iter().for_each(|event| input.facts.absorb_runner_event(event));
        self.stretches.iter().for_each(|stretch| input.facts.absorb_stretch(stretch));
        input.end(at(0), at(self.length), &Default::default());
        let mut trials = Trials::new(&input, &self.machine);
        trials.begin(at(0));
        if trials.need_reading() {
            self.halts.iter().for_each(|halt| trials.absorb_halt(halt));
            self.yields.iter().for_each(|of| trials.absorb_yield(of));
            if trials.need_core_runs() {
                self.runs.iter().for_each(|event| trials.absorb_runner_event(event));
            }
        }
        trials.end();
        // What two cost models say: of reads by a device little, else more.
        let simulate = |kind, way| match (kind, way) {
            (SubjectKind::Port, InKernelPath::Device) => vec![0.5, 0.75],
            _ => vec![],
        };
        judge(&input, &trials, &self.machine, &simulate)
    }
}

/// All of a judgement, as text.
fn words(of: &Judgement) -> String {
    let mut text = String::new();
    let vm = |vm: Option<VmId>| vm.map_or("host".to_string(), |vm| format!("VM {}", vm.0));
    for (fact, number) in of.facts().iter().zip(1..) {
        let figure = match fact.figure {
            CitedValue::Count(count) => count.to_string(),
            CitedValue::Rate(rate) => format!("{rate:.2}/s"),
            CitedValue::Time(time) => format!("{} ns", time.0),
            CitedValue::Share(share) => format!("{:.3} %", share * 100.0),
            CitedValue::Cpus(cpus) => format!("{cpus:.3} CPUs"),
            CitedValue::Value(value) => format!("{value:#x}"),
        };
        _ = writeln!(text, "[{number}] {} ({}) {}: {figure}", vm(fact.vm), fact.topic.id(), fact.what);
    }
    for (advice, number) in of.advice().iter().zip(1..) {
        let plan = advice.plan();
        let facts: Vec<usize> = advice.evidence().iter().map(|fact| fact.number()).collect();
        _ = writeln!(
            text,
            "\n{number}. {} for {}, about {:?}, by {facts:?}",
            plan.rule.id(),
            vm(plan.vm),
            plan.subject
        );
        _ = writeln!(text, "  {}", plan.change);
        for setting in &plan.settings {
            _ = match setting {
                AdviceSetting::Knob { side, knob, value } => writeln!(text, "  - {side:?} {}={value}", knob.name),
                other => writeln!(text, "  - {other:?}"),
            };
        }
        _ = writeln!(
            text,
            "  wins {} ({} to {}) ns/s of {}, {:?}",
            plan.gain.headline.0,
            plan.gain.low.0,
            plan.gain.high.0,
            plan.gain.of.id(),
            plan.gain.how
        );
        _ = writeln!(
            text,
            "  risk: {}\n  payer: {}\n  undo: {}\n  acts: {}",
            plan.risk, plan.payer, plan.undo, plan.acts
        );
    }
    for left in &of.left_alone {
        let facts: Vec<usize> = left.evidence().iter().map(|fact| fact.number()).collect();
        _ = writeln!(text, "\nleft alone, by {facts:?}: {}", left.why);
    }
    for row in &of.not_judged {
        _ = writeln!(text, "\nnot judged: {}, as {}\n  {}", row.what, row.missing, row.record.unwrap_or("-"));
    }
    for row in &of.causes {
        let of_cost = row.of_cost.map_or("-".to_string(), |share| format!("{:.2} %", share * 100.0));
        _ = writeln!(
            text,
            "\ncause of VM {}: {} {:?}: {} exits, {} ns, {of_cost} of cost, {:.2} % of time\n  {:?}",
            row.vm.map_or(0, |vm| vm.0),
            match row.into {
                GoesInto::Exits(code) => code.name(),
                other => format!("{other:?}"),
            },
            row.subject,
            row.exits,
            row.time.0,
            row.of_time * 100.0,
            row.verdict
        );
    }
    text
}

#[track_caller]
fn check(recording: &Recording, name: &str) {
    let found = words(&recording.judged());
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/advice/{name}.txt"));
    if std::env::var_os(WRITE).is_some() {
        std::fs::write(&path, &found).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(found, expected, "{}: `cargo xtask docs` writes it anew", path.display());
}

/// A halt of this length, of which so much was polled at most; it is woken after `gap`, and back `back` later.
fn halt(who: VcpuIdentity, begin: u64, gap: u64, back: u64, waited: bool, change: Option<PollChange>) -> Halt {
    Halt {
        who,
        begin: at(begin),
        asleep: waited.then_some(at(begin + 2 * US)),
        woken: waited.then_some(at(begin + gap)),
        vcpu_wakeup: Some(VcpuWakeup {
            length: Nanos(if waited { gap + back } else { gap }),
            waited,
            valid: true,
            may_poll: true,
        }),
        change,
        kicked: false,
        ipi: None,
        end: at(begin + if waited { gap + back } else { gap }),
        entered: Some(at(begin + gap + back)),
    }
}

/// Two vCPUs halt every 200 us for 6 to 27 us, and are back 30 us later: KVM polls for 10 us, which ends few. VM 2's vCPU
/// halts every millisecond for half of it.
fn halts_a_little_longer_than_polls() -> Recording {
    let mut recording = Recording::of(400 * MS);
    for number in 0..1_999 {
        for who in [vcpu(1, 0), vcpu(1, 1)] {
            let begin = number * 200 * US + 100 * US;
            let (gap, back, waited) = match number % 7 {
                0 => (6 * US, 3 * US, false),
                rest => (9 * US + rest * 3 * US, 30 * US + number % 11 * 100, true),
            };
            let change = (number % 7 == 1).then_some(PollChange { grow: false, new: 10_000, old: 10_000 });
            recording.halts.push(halt(who, begin, gap, back, waited, change.filter(|_| number == 1)));
            let parts = [(TimePart::Halted, gap), (TimePart::Kernel, back)];
            recording.exits.push(exit(who, begin, HLT, 150 * US, &parts));
        }
        if number % 5 == 0 {
            let begin = number * 200 * US + 50 * US;
            recording.halts.push(halt(vcpu(2, 0), begin, 500 * US, 20 * US, true, None));
            let parts = [(TimePart::Halted, 500 * US), (TimePart::Kernel, 20 * US)];
            recording.exits.push(exit(vcpu(2, 0), begin, HLT, 480 * US, &parts));
        }
    }
    recording
}

#[test]
fn polls_that_are_a_little_too_short_are_made_longer() {
    check(&halts_a_little_longer_than_polls(), "longer_polls");
}

/// A quota is used up by polls, and KVM does not poll while another task wants the CPU.
#[test]
fn polls_stay_as_they_are_under_a_quota_and_where_vcpus_wait_for_cpus() {
    let mut quota = halts_a_little_longer_than_polls();
    for number in 0..10 {
        let (who, at) = (vcpu(1, 0), at(number * 10 * MS));
        quota.preemptions.push(Preemption { who, at, ran: None, yields: 0, first: None, by: None, yielded: false });
    }
    check(&quota, "polls_under_quota");
    let mut waiting = halts_a_little_longer_than_polls();
    waiting.rest(vcpu(1, 0), TimePart::Steal, 60 * MS);
    check(&waiting, "polls_while_waiting");
}

/// Polls of 140 us, of which one in ten ends its halt: the others are woken 10 us later.
#[test]
fn polls_that_mostly_fail_are_made_shorter() {
    let mut recording = Recording::of(400 * MS);
    recording.machine.polling.in_force = Some(Nanos(140_000));
    recording.machine.polling.params.halt_poll_ns = Nanos(140_000);
    for number in 0..999 {
        let (who, begin) = (vcpu(1, 0), number * 400 * US + 100 * US);
        let caught = number % 10 == 0;
        let (gap, back) = if caught { (60 * US, 2 * US) } else { (150 * US, 3 * US) };
        let of = halt(who, begin, gap, back, !caught, None);
        recording.halts.push(Halt { asleep: of.asleep.map(|_| at(begin + 140 * US)), ..of });
        let parts = [(TimePart::Polling, gap.min(140 * US)), (TimePart::Halted, gap.saturating_sub(140 * US))];
        recording.exits.push(exit(who, begin, HLT, 140 * US, &parts));
    }
    check(&recording, "shorter_polls");
}

/// Four vCPUs of three VMs on two CPUs: VM 1 polls in its guest, VM 2 lost its CPU to `make` and to VM 1, VM 3 hardly waits.
#[test]
fn cpus_that_are_short_are_shared_by_fewer_and_no_guest_polls_on_them() {
    let mut recording = Recording::of(SECOND);
    recording.machine.cpus = 2;
    let poll_control = about(SubjectKind::Msr, 0x4b56_4d05, true, 0);
    recording
        .exits
        .push(Exit { subject: Some(poll_control), ..exit(vcpu(1, 0), 1, MSR_WRITE, 0, &[(TimePart::Kernel, US)]) });
    for number in 0..1_000 {
        let begin = number * MS + 500;
        for (who, steal, by) in
            [(vcpu(1, 0), 100, 999), (vcpu(1, 1), 150, 200), (vcpu(2, 0), 300, 999), (vcpu(3, 0), 1, 7)]
        {
            let parts = [(TimePart::Halted, 400 * US), (TimePart::Steal, steal * US), (TimePart::Kernel, 5 * US)];
            recording.exits.push(exit(who, begin, HLT, (595 - steal) * US, &parts));
            if number % 4 == 0 {
                let ran = Some(at(begin + steal * US));
                let of =
                    Preemption { who, at: at(begin), ran, yields: 0, first: None, by: Some(Tid(by)), yielded: false };
                recording.preemptions.push(of);
            }
        }
    }
    check(&recording, "short_of_cpus");
}

/// CPU left idle at one preemption in five: no task took it.
#[test]
fn a_cpu_that_is_left_idle_while_a_vcpu_wants_it_says_quota() {
    let mut recording = Recording::of(SECOND);
    for number in 0..200 {
        let (who, begin) = (vcpu(1, 0), number * 5 * MS);
        recording.exits.push(exit(
            who,
            begin,
            1,
            3 * MS,
            &[(TimePart::Steal, 2 * MS - 10 * US), (TimePart::Kernel, 10 * US)],
        ));
        let by = (number % 5 > 0).then_some(Tid(999));
        recording.preemptions.push(Preemption {
            who,
            at: at(begin),
            ran: None,
            yields: 0,
            first: None,
            by,
            yielded: false,
        });
    }
    check(&recording, "quota");
}

/// How a thread leaves a core run: its vCPU, the trap, whether it had ceded, and how long after it is back, if that is recorded.
type LeavingThread = (u32, u64, bool, Option<u64>);

/// 400 runs of a virtual core, one every 250 us, which its threads leave in this way after 100 us.
fn core_runs(recording: &mut Recording, vm: u32, threads: &[LeavingThread]) {
    let event = |nanos, vcpu, kind| Event {
        at: at(nanos),
        tid: Tid(50 + vm),
        vm: VmId(vm),
        vcpu: VcpuId(vcpu),
        cpu: PcpuId(8 * (vm - 1)),
        name: NameId::NONE,
        kind,
    };
    let runnable = threads.len() as u32;
    for number in 0..400 {
        let begin = number * 250 * US;
        recording.runs.push(event(begin, 0, EventKind::RunCore { exit: false, runnable }));
        for &(vcpu, trap, idle, _) in threads {
            let code = ExitCode::new(CodeList::PpcTrap, trap);
            let kind = EventKind::Exit { code, idle, words: SubjectWord::NONE, rip: 0 };
            recording.runs.push(event(begin + 100 * US, vcpu, kind));
        }
        recording.runs.push(event(begin + 101 * US, 0, EventKind::RunCore { exit: true, runnable }));
        let back = threads.iter().filter_map(|&(vcpu, _, _, back)| Some((vcpu, back?)));
        recording.runs.extend(back.map(|(vcpu, back)| event(begin + 100 * US + back, vcpu, EventKind::Enter)));
    }
    recording.runs.sort_by_key(|event| event.at);
}

fn of_core(vm: u32, vcpu: u32) -> VcpuIdentity {
    VcpuIdentity { tid: Tid(0), ..self::vcpu(vm, vcpu) }
}

/// A host of one core, whose VM 1 has a virtual core of these threads. Exits of vCPU 0 take 20 us; nothing is known of the others.
fn on_one_core(threads: &[LeavingThread]) -> Recording {
    let mut recording = Recording::of(100 * MS);
    recording.kinds = EventKinds { by_runner: true, ..EventKinds::default() };
    (recording.machine.arch, recording.machine.polling) = ("ppc64le".into(), RecordedHaltPolling::default());
    recording.machine.cpus = 1;
    core_runs(&mut recording, 1, threads);
    for number in 0..400 {
        let code = ExitCode::new(CodeList::PpcTrap, SYSCALL);
        let begin = number * 250 * US + 100 * US;
        let of = exit(of_core(1, 0), begin, 0, 100 * US, &[(TimePart::Kernel, 20 * US)]);
        recording.exits.push(Exit { code, is_halt: false, ..of });
    }
    for &(of, ..) in &threads[1..] {
        recording.rest(of_core(1, of), TimePart::Unknown, 100 * MS);
    }
    recording
}

const SYSCALL: u64 = 0xc00;
const DOORBELL: u64 = H_DOORBELL as u64;

/// A virtual core of four threads: 0 leaves for a system call and takes 1 and 2 along, which are back 40 and 60 us later;
/// 3 has nothing to do.
const TAKEN_ALONG: [LeavingThread; 4] = [
    (0, SYSCALL, false, None),
    (1, DOORBELL, false, Some(40 * US)),
    (2, DOORBELL, false, Some(60 * US)),
    (3, DOORBELL, true, None),
];

#[test]
fn virtual_cores_are_made_as_narrow_as_wins_nearly_all() {
    let mut recording = on_one_core(&TAKEN_ALONG);
    recording.machine.cpus = 4;
    check(&recording, "virtual_cores");
    // Two more vCPUs never leave the guest: of four virtual cores, one core has to do for more than two at a time, and is split.
    for of in 1..3 {
        recording.exits.push(exit(of_core(1, of), 99 * MS, 0, 99 * MS, &[]));
    }
    recording.machine.cpus = 1;
    check(&recording, "split_cores");
    // Four further VMs want it, too: that is more than four subcores have.
    for vm in 2..6 {
        core_runs(&mut recording, vm, &[(0, SYSCALL, false, None), (1, DOORBELL, false, Some(40 * US))]);
        for of in 0..2 {
            recording.exits.push(exit(of_core(vm, of), 99 * MS, 0, 99 * MS, &[]));
        }
    }
    check(&recording, "too_few_cores");
}

/// The two events that the script of 2015 reads.
#[test]
fn without_entries_forced_exits_are_counted_and_bounded_by_the_next_run() {
    let recording = on_one_core(&TAKEN_ALONG.map(|(vcpu, trap, ceded, _)| (vcpu, trap, ceded, None)));
    check(&recording, "virtual_cores_counted");
}

/// No thread but one is active, or none is forced out, or seldom: narrower virtual cores would take cores and win nothing.
#[test]
fn virtual_cores_are_left_as_they_are_where_nobody_is_taken_along() {
    let idle = |vcpu| (vcpu, DOORBELL, true, None);
    let timer = |vcpu| (vcpu, u64::from(exitscope_policy::vcore::HV_DECREMENTER), false, None);
    let soon = |vcpu| (vcpu, DOORBELL, false, Some(US));
    let leaves = (0, SYSCALL, false, None);
    for threads in [
        [leaves, idle(1), idle(2), idle(3)],
        [timer(0), timer(1), timer(2), timer(3)],
        [leaves, soon(1), soon(2), soon(3)],
    ] {
        let judgement = on_one_core(&threads).judged();
        let of_vcores = |advice: &&Advice| advice.plan().rule.id() == "virtual_cores";
        assert_eq!(judgement.advice().iter().filter(of_vcores).count(), 0, "{threads:?}");
        assert!(judgement.left_alone.is_empty(), "{threads:?} {:?}", judgement.left_alone);
    }
}

/// Two vCPUs yield every 250 us in waits of four; at so many of 20 yields the sibling had lost its CPU.
fn spins(call: YieldCall, finds: u64) -> Recording {
    let mut recording = Recording::of(SECOND);
    for (number, who) in (0..2_000).flat_map(|number| [(number, vcpu(1, 0)), (number, vcpu(1, 1))]) {
        let begin = number * 500 * US + u64::from(who.vcpu.0) * 250 * US;
        let found = number % 20 < finds;
        recording.yields.push(Yield {
            who,
            at: at(begin),
            call,
            target: (number % 2 == 0).then_some(VcpuId(1 - who.vcpu.0)),
            target_state: if number % 2 == 1 {
                TargetState::Unknown
            } else if found {
                TargetState::Preempted
            } else {
                TargetState::Running
            },
            found: Some(RunnableSiblings { preempted: u32::from(found), woken: u32::from(number % 20 == 19) }),
            guest: Nanos(4_096 << (number % 4)),
            again: number % 4 > 0,
            was_out: number % 4 == 0,
            window: None,
            recipient: if found { YieldRecipient::Sibling } else { YieldRecipient::Nobody },
            waited: Nanos(3 * US),
            entered: Some(at(begin + 15 * US)),
        });
        if found {
            let (ran, first) = (Some(at(begin + 90 * US)), Some(at(begin + 10 * US)));
            let by = Some(Tid(999));
            recording.preemptions.push(Preemption { who, at: at(begin), ran, yields: 2, first, by, yielded: false });
        }
        let parts = [(TimePart::Kernel, 12 * US), (TimePart::Steal, 3 * US)];
        recording.exits.push(exit(who, begin, PAUSE, 485 * US, &parts));
    }
    recording
}

#[test]
fn spinning_vcpus_with_nobody_to_yield_to_spin_longer() {
    check(&spins(YieldCall::Pause, 0), "spin_longer");
}

/// With one yield in twenty that finds a sibling the rule is the same, with three it is another.
#[test]
fn spinning_vcpus_that_find_siblings_without_a_cpu_wait_for_lock_holders() {
    check(&spins(YieldCall::Pause, 1), "seldom_found");
    check(&spins(YieldCall::Pause, 3), "lock_holders");
}

#[test]
fn the_lock_code_of_s390_looks_more_often_before_it_yields() {
    let mut recording = spins(YieldCall::Diag44, 0);
    recording.machine.arch = "s390x".into();
    check(&recording, "spin_retry");
    let mut recording = spins(YieldCall::Diag44, 8);
    recording.machine.arch = "s390x".into();
    check(&recording, "name_the_holder");
}

/// What a busy VM asks for, each at its own rate: a serial port and a doorbell of user space, a register of a device, an MSR
/// and CPUID in the kernel, data in memory.
fn devices(vm: u32, idle: bool) -> Recording {
    let mut recording = Recording::of(SECOND);
    let who = vcpu(vm, 0);
    let every = if idle { 3 * MS } else { MS };
    for number in 0..SECOND / every {
        let begin = number * every;
        let mut ask = |after: u64, code, detail: Subject, outside: bool, kernel: u64, user: u64| {
            let parts = [(TimePart::Kernel, kernel), (TimePart::User, user)];
            let handler = if outside { Handler::Userspace(2) } else { Handler::Kernel };
            let of = exit(who, begin + after, code, 10 * US, &parts);
            recording.exits.push(Exit { subject: Some(detail), handler, ..of });
        };
        ask(10 * US, IO, about(SubjectKind::Port, 0x3f8, true, number), true, 5 * US, 25 * US + number % 100 * 100);
        ask(60 * US, EPT_MISCONFIG, about(SubjectKind::Mmio, 0xfe00_3000, true, number % 3), true, 4 * US, 20 * US);
        ask(
            100 * US,
            EPT_MISCONFIG,
            about(SubjectKind::Mmio, 0xfe80_0010, true, number * 5_000),
            true,
            4 * US,
            18 * US,
        );
        ask(140 * US, MSR_WRITE, about(SubjectKind::Msr, 0x1234, true, number), false, 15 * US, 0);
        ask(170 * US, CPUID, about(SubjectKind::Cpuid, number % 4, false, 0), false, 30 * US, 0);
        ask(210 * US, IO, about(SubjectKind::Port, 0x1234, false, 0), true, 6 * US, 16 * US);
        ask(240 * US, IO, about(SubjectKind::Port, 0x61, false, 0), false, 2 * US, 0);
        let string = Subject { form: PortAccessForm::String, size: 2, ..about(SubjectKind::Port, 0x1f0, true, 0) };
        ask(250 * US, IO, string, true, 10 * US, 30 * US);
        if number % 40 == 0 {
            ask(290 * US, IO, about(SubjectKind::Port, 0x70, true, 0x8a), true, 5 * US, 9 * US);
        }
        // An access of which one end is missing, and one that names nothing.
        let of = exit(who, begin + 300 * US, IO, 0, &[]);
        recording.exits.push(Exit { timed: false, ..of });
        if idle {
            let parts = [(TimePart::Halted, 2_600 * US), (TimePart::Kernel, US)];
            recording.exits.push(exit(who, begin + 310 * US, HLT, 0, &parts));
        }
    }
    if !idle {
        recording.rest(who, TimePart::Guest, SECOND / 2);
    }
    recording
}

#[test]
fn what_a_busy_vm_asks_for_is_answered_in_cheaper_ways() {
    check(&devices(1, false), "devices");
}

#[test]
fn an_idle_vm_of_another_vmm_is_asked_what_keeps_it_busy() {
    check(&devices(2, true), "idle_devices");
}

/// Xen 4.0, whose domain waits for its device model, and for CPUs.
#[test]
fn an_old_xen_has_its_own_words() {
    let mut recording = devices(1, false);
    (recording.machine.xen, recording.machine.release) = (true, "4.0.1".into());
    recording.machine.comms.clear();
    for exit in &mut recording.exits {
        if exit.handler != Handler::Kernel {
            exit.handler = Handler::DeviceModel;
        }
        exit.parts.add(TimePart::Steal, Nanos(20 * US));
    }
    check(&recording, "old_xen");
}

/// Half a second, in which nothing but exits that name nothing was recorded, and halts of which nobody told.
#[test]
fn what_a_poor_recording_lacks_is_named_with_what_records_it() {
    let mut recording = Recording::of(SECOND / 2);
    recording.kinds = EventKinds::default();
    for number in 0..300 {
        let begin = number * MS;
        recording.exits.push(exit(vcpu(1, 0), begin, IO, 300 * US, &[(TimePart::Kernel, 20 * US)]));
        recording.exits.push(exit(vcpu(1, 0), begin + 400 * US, HLT, 80 * US, &[(TimePart::Undivided, 100 * US)]));
        let of = halt(vcpu(1, 0), begin + 400 * US, 100 * US, 0, true, None);
        recording.halts.push(Halt { asleep: None, woken: None, vcpu_wakeup: None, ..of });
    }
    check(&recording, "poor");
    recording.exits.iter_mut().for_each(|exit| exit.timed = false);
    check(&recording, "untimed");
    recording.exits.clear();
    check(&recording, "empty");
}
