//! Pages of text, of recordings that are a few events. `cargo xtask docs` has this test write them anew; look at what changed.

use exitscope_analysis::{Dimension, Facts, FactsOptions, Selection};
use exitscope_model::{
    ApicvChange, Assembler, BesideRow, CodeList, Event, EventKind, ExitCode, Ledger, NameId, PortAccessForm, Subject,
    SubjectKind, SubjectWord, TraceInfo,
};
use exitscope_policy::vcore::H_DOORBELL;
use exitscope_units::{Moment, PcpuId, Tid, VcpuId, VmId};
use exitscope_view::{
    MechanismView, Page, Report, ReportOptions, SortKey, TerminalStyle, TraceRow, report_page, view_page, write_page,
};
use std::collections::BTreeMap;
use std::path::Path;

/// Set, this has pages written instead of compared.
const WRITE: &str = "EXITSCOPE_WRITE_DOCUMENTS";

const US: u64 = 1_000;

/// What threads of one VM do, one thing after the other; thread 10 + n runs vCPU n.
#[derive(Default)]
struct Recording {
    now: u64,
    events: Vec<Event>,
}

impl Recording {
    /// So many nanoseconds later, on this vCPU.
    fn after(&mut self, nanos: u64, vcpu: u32, kind: EventKind) {
        self.now += nanos;
        let (at, tid) = (Moment::from_nanos(1_000_000_000 + self.now), Tid(10 + vcpu));
        self.events.push(Event {
            at,
            tid,
            vm: VmId(1),
            vcpu: VcpuId(vcpu),
            cpu: PcpuId(vcpu),
            name: NameId::NONE,
            kind,
        });
    }

    fn exit(&mut self, vcpu: u32, code: ExitCode) {
        self.after(50 * US, vcpu, EventKind::Exit { code, idle: false, words: SubjectWord::NONE, rip: 0 });
    }
}

/// An AMD host: 23 writes to a port, which user space finishes; 5 halts, of which 3 are polled out and 2 sleep; 7 loops of
/// PAUSE, in which another thread gets the CPU.
fn svm() -> Recording {
    let [io, hlt, pause] = [0x7b, 0x78, 0x77].map(|code| ExitCode::new(CodeList::Svm, code));
    let mut all = Recording::default();
    all.after(0, 0, EventKind::Enter);
    all.after(0, 1, EventKind::Enter);
    for number in 0..23 {
        let written = Subject {
            kind: SubjectKind::Port,
            write: true,
            form: PortAccessForm::NonString,
            size: 1,
            key: 0x80,
            value: number,
        };
        all.exit(0, io);
        all.after(US, 0, EventKind::Detail(written));
        all.after(US, 0, EventKind::UserspaceExit { reason: 2, errno: 0 });
        all.after(US, 0, EventKind::SyscallExit);
        all.after(10 * US, 0, EventKind::RunEnter);
        all.after(2 * US, 0, EventKind::Enter);
    }
    for number in 0..5 {
        let waited = number >= 3;
        let length = if waited { 300 * US } else { (20 + number) * US };
        all.exit(1, hlt);
        if waited {
            all.after(50 * US, 1, EventKind::switch(Tid(11), true, Tid(0)));
            all.after(length - 60 * US, 1, EventKind::Wakeup { tid: Tid(11) });
            all.after(10 * US, 1, EventKind::switch(Tid(0), true, Tid(11)));
        } else {
            all.after(length, 1, EventKind::Other);
        }
        all.after(0, 1, EventKind::HaltEnd { ns: length, waited, valid: true });
        all.after(2 * US, 1, EventKind::Enter);
    }
    for _ in 0..7 {
        all.exit(1, pause);
        all.after(US, 1, EventKind::switch(Tid(11), false, Tid(77)));
        all.after(30 * US, 1, EventKind::switch(Tid(77), true, Tid(11)));
        all.after(US, 1, EventKind::Enter);
    }
    all
}

/// A POWER8 host: 13 runs of a virtual core of two threads; in 11, the system call of one forces the other out.
fn powerpc() -> Recording {
    let [syscall, forced] = [0xc00, H_DOORBELL as u64].map(|trap| ExitCode::new(CodeList::PpcTrap, trap));
    let mut all = Recording::default();
    for number in 0..13 {
        all.after(US, 0, EventKind::RunCore { exit: false, runnable: 2 });
        all.after(US, 0, EventKind::Enter);
        all.after(0, 1, EventKind::Enter);
        all.exit(0, syscall);
        all.after(
            0,
            1,
            EventKind::Exit {
                code: if number < 11 { forced } else { syscall },
                idle: false,
                words: SubjectWord::NONE,
                rip: 0,
            },
        );
        all.after(US, 0, EventKind::RunCore { exit: true, runnable: 2 });
    }
    // The runner records for the threads of its core.
    all.events.iter_mut().for_each(|event| event.tid = Tid(10));
    all
}

/// An AMD host: 40 times vCPU 0 ends an interrupt and halts; in the middle 20 the PIT inhibits AVIC, and the end is an exit. vCPU 1 sends 3
/// interrupts, an exit each.
fn avic() -> Recording {
    const PIT_REINJ: u8 = 9;
    let [msr, ipi, hlt] = [0x7c, 0x401, 0x78].map(|code| ExitCode::new(CodeList::Svm, code));
    let change = |set, inhibits| {
        EventKind::ApicvChange(ApicvChange { reason: PIT_REINJ, set, inhibits: u64::from(inhibits) << PIT_REINJ })
    };
    let end =
        Subject { kind: SubjectKind::Msr, write: true, form: PortAccessForm::Unknown, size: 8, key: 0x80b, value: 0 };
    let mut all = Recording::default();
    all.after(0, 0, EventKind::Enter);
    all.after(0, 1, EventKind::Enter);
    for number in 0..40 {
        match number {
            10 => all.after(US, 0, change(true, true)),
            30 => all.after(US, 0, change(false, false)),
            _ => {}
        }
        if (10..30).contains(&number) {
            all.exit(0, msr);
            all.after(US, 0, EventKind::Detail(end));
            all.after(US, 0, EventKind::Enter);
        }
        if number % 15 == 0 {
            all.exit(1, ipi);
            all.after(3 * US, 1, EventKind::Enter);
        }
        all.exit(0, hlt);
        all.after(850 * US, 0, EventKind::Enter);
    }
    all
}

/// The report of a recording.
fn report(recording: &Recording, arch: &str) -> Report {
    let comms = [(1, "guest".to_string())].into_iter().collect();
    report_of(recording, TraceInfo { format: "events".into(), arch: arch.into(), comms, ..TraceInfo::default() })
}

/// The report of a recording that says this of itself.
fn report_of(recording: &Recording, info: TraceInfo) -> Report {
    let events = &recording.events;
    let (first, last) = (events[0].at, events[events.len() - 1].at);
    let mut facts =
        Facts::new(&FactsOptions { by: vec![Dimension::Reason], slowest: 3, selection: Selection::default() });
    let (mut rows, mut ledger, mut assembler) = (Vec::new(), Ledger::default(), Assembler::default());
    ledger.events = events.len() as u64;
    let beside = |facts: &mut Facts, assembler: &Assembler| {
        facts.note_event_kinds(assembler.kinds());
        assembler.cpu_intervals().iter().for_each(|stretch| facts.absorb_stretch(stretch));
        assembler.halts().iter().for_each(|halt| _ = facts.absorb_halt(halt));
        assembler.yields().iter().for_each(|of| _ = facts.absorb_yield(of));
        assembler.preemptions().iter().for_each(|of| _ = facts.absorb_preemption(of));
        assembler.queue_stays().iter().for_each(|stay| facts.absorb_queue_stay(stay));
        for row in assembler.beside_rows() {
            if let BesideRow::ApicvChange(of) = row {
                facts.absorb_apicv_change(of);
            }
        }
    };
    facts.begin(first);
    assembler.push(events, &mut rows, &mut ledger);
    beside(&mut facts, &assembler);
    if assembler.is_by_runner() {
        events.iter().for_each(|event| facts.absorb_runner_event(event));
    }
    assembler.finish(&mut rows, &mut ledger);
    beside(&mut facts, &assembler);
    rows.iter().for_each(|exit| _ = facts.absorb(exit));
    facts.end(first, last, &Default::default());
    let made = ReportOptions {
        exits: rows.len() as u64,
        timed_exits: rows.iter().filter(|exit| exit.timed).count() as u64,
        selection: Selection::default(),
        sort: SortKey::Cost,
        top: usize::MAX,
        breaches: Vec::new(),
        threads_per_core: None,
        cycles_per_s: None,
        functions: BTreeMap::new(),
    };
    let trace = TraceRow::of("made.up".into(), &info, "host", (first, last), ledger.events);
    Report::of(&facts, &ledger, vec![trace], &info, made)
}

fn check(name: &str, page: &Page) {
    let mut text = Vec::new();
    write_page(page, TerminalStyle { width: Some(120), colour: false, unicode: true }, &mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/pages/{name}.txt"));
    if std::env::var_os(WRITE).is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    let golden = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(text, golden, "{}: `cargo xtask docs` writes it anew", path.display());
}

#[test]
fn pages_of_writes_halts_and_yields_are_as_they_were() {
    let report = report(&svm(), "x86_64");
    check("report", &report_page(&report, 10));
    for (name, view) in [
        ("halt", MechanismView::Halt),
        ("pio", MechanismView::Pio),
        ("phases", MechanismView::Phases),
        ("yield", MechanismView::Yield),
    ] {
        check(name, &view_page(&report, view));
    }
}

#[test]
fn a_page_of_what_inhibits_avic_is_as_it_was() {
    let info = TraceInfo {
        format: "events".into(),
        arch: "x86_64".into(),
        release: "6.8.0".into(),
        comms: [(1, "guest".to_string())].into_iter().collect(),
        ..TraceInfo::default()
    };
    check("interrupts", &view_page(&report_of(&avic(), info), MechanismView::Interrupts));
}

#[test]
fn a_page_of_ganged_exits_is_as_it_was() {
    check("gang", &view_page(&report(&powerpc(), "ppc64le"), MechanismView::Gang));
}

#[test]
fn pages_of_views_that_a_recording_has_nothing_of_say_so() {
    let report = report(&powerpc(), "ppc64le");
    for (name, view) in [("no-pio", MechanismView::Pio), ("no-yield", MechanismView::Yield)] {
        check(name, &view_page(&report, view));
    }
}

#[test]
fn a_rate_given_by_hand_is_said_and_warned_of_where_halts_contradict_it() {
    let halts = |handling: u64| {
        let hlt = ExitCode::new(CodeList::Svm, 0x78);
        let mut all = Recording::default();
        all.after(0, 1, EventKind::Enter);
        for _ in 0..21 {
            all.exit(1, hlt);
            all.after(2_000 * US + handling, 1, EventKind::HaltEnd { ns: 2_000 * US, waited: true, valid: true });
            all.after(2 * US, 1, EventKind::Enter);
        }
        all
    };
    let coverage = |handling, given_hz| {
        let report = report_of(&halts(handling), TraceInfo { given_hz, ..TraceInfo::default() });
        let said = serde_json::to_value(report.halt.as_ref().unwrap()).unwrap()["clock"].clone();
        let sentences = report_page(&report, 3).sections.swap_remove(0).sentences;
        let rate = sentences.iter().any(|sentence| sentence.text.contains("2,000,000,000 ticks"));
        let warns = sentences.into_iter().find(|sentence| sentence.warning).map(|sentence| sentence.text);
        (rate, warns, said)
    };
    let hz = Some(2_000_000_000);
    assert_eq!(coverage(7 * US, hz), (true, None, serde_json::Value::Null));
    assert_eq!(coverage(250 * US, None), (false, None, serde_json::Value::Null), "the trace says the rate");
    let warning = "--tsc-hz is not the clock's rate: 21 of 21 halts of more than 1 ms differ from the \
        length in kvm_vcpu_wakeup by more than 2 %. By these halts, the rate is at most about 2,250 MHz";
    let row = serde_json::json!({ "compared": 21, "mismatched": 21, "at_most_hz": 2_250_000_000_u64 });
    assert_eq!(coverage(250 * US, hz), (true, Some(warning.to_string()), row));
}
