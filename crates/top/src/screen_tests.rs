//! What is drawn, on screens of any size.

use super::*;
use crate::choices::Panel;
use crate::columns::ColumnChoice;
use crate::figure_text::measured;
use crate::frame::{
    GangCause, LiveVerdict, RateFigures, TopCause, TopGangRow, TopGroupRow as Group, TopOverhead, TopVcpuRow, VmRow,
};
use crate::list::width;
use crate::report_text::ReportText;
use exitscope_live::KvmHalts;
use exitscope_view::{VerdictRow, length, share};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Cell;
use ratatui::crossterm::event::KeyCode;
use std::collections::BTreeSet;

/// A frame as text.
fn drawn(size: (u16, u16), frame: &Frame, state: &mut ScreenState) -> String {
    let mut terminal = Terminal::new(TestBackend::new(size.0, size.1)).unwrap();
    terminal.draw(|to| draw(to, frame, state)).unwrap();
    let buffer = terminal.backend().buffer();
    // A wide character takes the next cell, too.
    let text = |row: &[Cell]| {
        let (mut text, mut at) = (String::new(), 0);
        while let Some(cell) = row.get(at) {
            text.push_str(cell.symbol());
            at += usize::from(width(cell.symbol()).max(1));
        }
        text + "\n"
    };
    buffer.content().chunks(usize::from(size.0)).map(text).collect()
}

fn power() -> Frame {
    let gangs = TopGangRow {
        runs_per_s: 1200.0,
        ganged: Some(0.35),
        forced_exits_per_s: 900.0,
        forced_exits: Some(0.42),
        forced_out: Some(0.125),
        causes: vec![GangCause {
            vcpu: 3,
            reason: "SYSCALL".into(),
            runs_per_s: 420.0,
            forced_exits_per_s: 880.0,
            forced_out: Some(0.12),
        }],
    };
    let halts = KvmHalts {
        source: "descriptors",
        attempted_polls: 1000,
        successful_polls: 900,
        poll_success_ns: 90_000_000,
        poll_fail_ns: 20_000_000,
        wait_ns: 5_000_000_000,
        poll_success_histogram: vec![(65_536, 900)],
        poll_fail_histogram: vec![(131_072, 100)],
        wait_histogram: vec![(1 << 24, 100)],
        ..KvmHalts::default()
    };
    let vm = VmRow { pid: 7, name: "p8".into(), gangs: Some(gangs), kvm_halts: Some(halts), ..VmRow::default() };
    Frame { vms: vec![vm], time: 1.0, ..Frame::default() }
}

#[test]
fn gang_exits_have_a_panel_where_virtual_cores_have_runs() {
    let frame = power();
    let mut state = ScreenState { panel: Panel::Gangs, ..ScreenState::default() };
    for size in [(80, 24), (160, 40)] {
        let screen = drawn(size, &frame, &mut state);
        for words in
            ["p8: gang exits", "1,200 core runs/s", "35.0% ended", "900", "vCPU 3 SYSCALL", "420", "880", "12.0%"]
        {
            assert!(screen.contains(words), "{words} is not on\n{screen}");
        }
    }
    let elsewhere =
        Frame { vms: vec![VmRow { name: "web".into(), ..VmRow::default() }], time: 1.0, ..Frame::default() };
    for size in [(80, 24), (160, 40)] {
        let screen = drawn(size, &elsewhere, &mut state);
        assert!(!screen.contains("gang") && screen.contains("web: exits"), "{screen}");
    }
}

#[test]
fn kvms_own_histograms_are_drawn_and_their_source_is_said() {
    let mut frame = power();
    let mut state = ScreenState { panel: Panel::Halts, ..ScreenState::default() };
    let screen = drawn((80, 24), &frame, &mut state);
    for words in ["KVM, since the VM began", "successful poll", "90.0%", "failed poll", "blocked", "5.00s"] {
        assert!(screen.contains(words), "{words} is not on\n{screen}");
    }
    assert!(screen.contains("KVM's own: its statistics") && screen.contains('█'), "{screen}");
    frame.vms[0].kvm_halts = None;
    frame.vms[0].no_kvm_halts = Some("debugfs is locked".into());
    let screen = drawn((80, 24), &frame, &mut state);
    assert!(screen.contains("debugfs is locked") && !screen.contains("failed poll"), "{screen}");
}

#[test]
fn details_are_of_the_costliest_vm_at_the_start_then_of_the_chosen_one_and_of_all_where_none_is() {
    let halts = |attempted| KvmHalts {
        source: "debugfs",
        attempted_polls: attempted,
        successful_polls: attempted,
        ..KvmHalts::default()
    };
    let figures = |reason: &str, cost| RateFigures {
        exits_per_s: 9.0,
        cost: Some(cost),
        reasons: vec![Group { kind: "reason", name: reason.into(), per_s: 9.0, ..Group::default() }],
        poll_ns: Some(if cost > 0.5 { 43_200 } else { 0 }),
        ..RateFigures::default()
    };
    let vm = |pid, name: &str, kvm_halts, why: Option<&str>, reason, cost| VmRow {
        pid,
        name: name.into(),
        figures: figures(reason, cost),
        kvm_halts,
        no_kvm_halts: why.map(str::to_string),
        vcpus: vec![TopVcpuRow { vcpu: Some(3), figures: figures("VCPU", cost), ..TopVcpuRow::default() }],
        ..VmRow::default()
    };
    let vms = vec![
        vm(7, "db", Some(halts(1_111)), None, "DB", 0.1),
        vm(8, "web", None, Some("it keeps its counters to itself"), "WEB", 0.9),
        vm(9, "db", Some(halts(2_222)), None, "OTHER", 0.2),
    ];
    let frame = Frame { vms, time: 1.0, figures: figures("ALL", 0.4), ..Frame::default() };
    let of = |pid, vcpu| ScreenState { selected: Some(RowId { pid, vcpu }), has_begun: true, ..ScreenState::default() };
    let secret = "KVM's own counters are not shown: it keeps its counters to itself";
    for (what, state, is_there, is_not) in [
        (
            "the start",
            ScreenState::default(),
            &["web: halts", "web: exits", secret, "up to 43.2us"][..],
            &["1,111", "3,333"][..],
        ),
        // Two VMs are called so.
        ("a VM", of(7, None), &["db (7): halts", "1,111", "does not poll"], &["itself", "2,222", "43.2us", "whole VM"]),
        ("its vCPU", of(7, Some(3)), &["db (7) vCPU 3: halts", "1,111", ", of the whole VM"], &["itself", "2,222"]),
        (
            "all",
            ScreenState { is_all: true, has_begun: true, ..ScreenState::default() },
            &["all VMs: halts", "all VMs: exits", "3,333", "own counters of 1 of 3 VMs are not shown: it keeps its"],
            &["1,111", "2,222"],
        ),
    ] {
        for size in [(80, 30), (140, 40)] {
            let panels: &[Panel] = if size.0 < WIDE { &[Panel::Reasons, Panel::Halts] } else { &[Panel::Halts] };
            let drawn = |panel: &Panel| drawn(size, &frame, &mut ScreenState { panel: *panel, ..state.clone() });
            let screen: String = panels.iter().map(drawn).collect();
            // Sentences go on in the next line.
            let said = screen.split_whitespace().collect::<Vec<_>>().join(" ");
            for words in is_there.iter().filter(|words| size.0 < WIDE || words.len() < 40) {
                assert!(said.contains(words), "{what}: {words} is not on\n{screen}");
            }
            for words in is_not {
                assert!(!said.contains(words), "{what}: {words} is on\n{screen}");
            }
        }
    }
}

#[test]
fn rows_that_have_no_room_are_counted() {
    let vm = |pid: u32| VmRow { pid, vcpus: vec![TopVcpuRow::default(); 2], ..VmRow::default() };
    let reasons = vec![Group { kind: "reason", name: "R".into(), ..Group::default() }; 40];
    let figures = RateFigures { reasons: reasons.clone(), subjects: reasons, ..RateFigures::default() };
    let mut frame = Frame { vms: (1..=30).map(vm).collect(), time: 1.0, figures, ..Frame::default() };
    frame.vms[0].figures = frame.figures.clone();
    let mut state = ScreenState { is_all: true, has_begun: true, ..ScreenState::default() };
    // 7 of the 90 rows of the list, 9 of the 40 reasons.
    let screen = drawn((80, 24), &frame, &mut state);
    assert!(screen.contains("and 27 more VMs, 56 more vCPUs ") && screen.contains("and 31 more "), "{screen}");
    state.only_vms = true;
    assert!(drawn((80, 24), &frame, &mut state).contains("and 23 more VMs "), "no vCPU is listed");
    let wide = drawn((140, 24), &frame, &mut state);
    assert_eq!(wide.matches(" more ").count(), 3, "of VMs, of reasons and of what they were about\n{wide}");
}

#[test]
fn parts_that_add_up_to_all_are_columns_where_there_is_any_of_them() {
    let figures = |unknown| RateFigures {
        cost: Some(0.25),
        guest: Some(0.4),
        halted: Some(0.2),
        steal: Some(0.15 - unknown),
        unknown: Some(unknown),
        ..RateFigures::default()
    };
    let header = |width, unknown| {
        let vm = VmRow { pid: 7, name: "web".into(), figures: figures(unknown), ..VmRow::default() };
        let frame = Frame { vms: vec![vm], time: 1.0, ..Frame::default() };
        drawn((width, 30), &frame, &mut ScreenState::default()).lines().nth(2).unwrap().to_string()
    };
    let titles = |header: &str| {
        let all = ["cost▼", "guest", "polling", "halted", "steal", "stopped", "unknown"];
        all.into_iter().filter(|title| header.contains(title)).collect::<Vec<_>>()
    };
    assert_eq!(titles(&header(160, 0.0)), ["cost▼", "guest", "halted", "steal"]);
    assert_eq!(titles(&header(160, 0.1)), ["cost▼", "guest", "halted", "steal", "unknown"]);
    assert_eq!(titles(&header(80, 0.1)), ["cost▼", "guest", "halted", "steal", "unknown"]);
}

fn of_one_vm(figures: RateFigures) -> Frame {
    let vcpus = vec![TopVcpuRow { vcpu: Some(0), tid: Some(8), figures: figures.clone(), ..TopVcpuRow::default() }];
    let vm = VmRow { pid: 7, name: "web".into(), figures: figures.clone(), vcpus, ..VmRow::default() };
    Frame { vms: vec![vm], time: 1.0, seconds: 1.0, figures, ..Frame::default() }
}

#[test]
fn what_makes_figures_doubtful_is_wrapped_and_not_cut() {
    let overhead =
        TopOverhead { cpus: 0.031, ns_per_event: Some(242.0), vcpu_share: Some(0.02), ..TopOverhead::default() };
    let mut live = live_verdict();
    live.verdict.doubts.insert(0, "steal was not recorded of every vCPU".into());
    let missing = Frame { overhead, verdict: Some(live), missed: 4_567, ..of_one_vm(RateFigures::default()) };
    let lost = Frame { lost: 8_901, ..missing.clone() };
    let of_missed = "4,567 of the scheduler's events missed";
    let of_watching = "242 ns an event, 2.0% of the vCPUs' time; exitscope: 3.1% of a CPU; ";
    for (frame, said) in [
        (&missing, format!("{of_watching}{of_missed}")),
        (&lost, format!("8,901 events lost: map or ring full; {of_missed}")),
    ] {
        for width in [60, 80, 100, 200] {
            let screen = drawn((width, 24), frame, &mut ScreenState::default());
            let text = screen.split_whitespace().collect::<Vec<_>>().join(" ");
            for said in [said.as_str(), "Doubtful: steal was not recorded of every vCPU; 4,567 events are in no figure"]
            {
                assert!(text.contains(said), "{said} is not in {width} columns\n{screen}");
            }
        }
    }
    // Where there is but one line, what is missing goes before what exitscope itself takes.
    let low = drawn((90, 12), &missing, &mut ScreenState::default());
    assert!(low.contains(of_missed) && !low.contains("exitscope: 3.1%"), "{low}");
}

#[test]
fn columns_that_have_no_room_are_named() {
    let frame =
        of_one_vm(RateFigures { cost: Some(0.5), polling: Some(0.25), unknown: Some(0.25), ..RateFigures::default() });
    let hidden = |size, state: &mut ScreenState| {
        let screen = drawn(size, &frame, state);
        screen.lines().find(|line| line.starts_with("hidden: ")).map(|line| line.trim_end().to_string())
    };
    let all = "hidden: to-user, now, past (o chooses columns)";
    assert_eq!(hidden((80, 24), &mut ScreenState::default()).as_deref(), Some(all));
    assert_eq!(hidden((200, 24), &mut ScreenState::default()), None);
    let mut few =
        ScreenState { columns: ColumnChoice::of(&[TopColumn::P99, TopColumn::COST]), ..ScreenState::default() };
    assert_eq!(hidden((80, 24), &mut few), None);
    let header = drawn((80, 24), &frame, &mut few).lines().nth(2).unwrap().to_string();
    assert_eq!(header.split_whitespace().collect::<Vec<_>>(), ["VM", "/", "vCPU", "p99", "cost▼"]);
}

#[test]
fn all_columns_are_listed_with_what_they_are_and_whether_they_are_shown() {
    let frame =
        of_one_vm(RateFigures { cost: Some(0.5), polling: Some(0.25), unknown: Some(0.25), ..RateFigures::default() });
    let mut state = ScreenState::default();
    for key in [KeyCode::Char('o'), KeyCode::End, KeyCode::Char(' ')] {
        state.key(key.into(), &frame);
    }
    let screen = drawn((80, 24), &frame, &mut state);
    for words in [
        "[x] cost ",
        "Share of wall time in exits",
        "[x] polling             Share of wall time polling",
        "[x] memory      none    Share of wall time blocked until a page is there",
        "[x] to-user     hidden  Share of exits",
        "[ ] past ",
    ] {
        assert!(screen.contains(words), "{words} is not on\n{screen}");
    }
    // The selected one is shown on the smallest screen, too.
    assert!(drawn((40, 6), &frame, &mut state).contains("[ ] past"));
    state.key(KeyCode::Esc.into(), &frame);
    assert!(state.chooser.is_none() && !drawn((240, 24), &frame, &mut state).contains("the last intervals"));
}

#[test]
fn large_screens_have_the_timeline_of_the_selected_row() {
    let figures = |cost, guest, halted| RateFigures {
        cost: Some(cost),
        guest: Some(guest),
        halted: Some(halted),
        steal: Some(0.0),
        vcpu_seconds: 1.0,
        reasons: vec![Group { kind: "reason", name: "HLT".into(), ..Group::default() }],
        ..RateFigures::default()
    };
    let mut state = ScreenState::default();
    state.remember(&of_one_vm(figures(0.125, 0.375, 0.5)));
    let frame = of_one_vm(figures(0.25, 0.75, 0.0));
    state.remember(&frame);
    let rows = |size, state: &mut ScreenState| {
        let screen = drawn(size, &frame, state);
        let from = screen.lines().position(|line| line.contains("timeline"))?;
        let row = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
        Some(screen.lines().skip(from).map(row).collect::<Vec<_>>())
    };
    let small = rows((120, 24), &mut state).unwrap();
    let at = |what: &str| small.iter().find(|row| row.contains(what)).unwrap_or_else(|| panic!("{small:?}"));
    assert!(small[0].contains("web: timeline now mean 2 × 1.0 s, top = 100%"), "{small:?}");
    assert!(at("cost 2").ends_with("cost 25.0% 18.8% ▄█"), "{small:?}");
    assert!(at("halted 0").ends_with("halted 0% 25.0% █"), "{small:?}");
    assert!(!small.iter().any(|row| row.contains("stopped")), "{small:?}");
    let large = rows((200, 60), &mut state).unwrap();
    assert!(large.iter().any(|row| row.contains("guest 75.0% 56.3% ██")), "{large:?}");
    state.key(KeyCode::Down.into(), &frame);
    assert!(rows((120, 30), &mut state).unwrap()[0].contains("web vCPU 0: timeline"));
    assert!(rows((119, 30), &mut state).is_none() && rows((120, 12), &mut state).is_none());
}

#[test]
fn the_verdict_is_the_first_answer_and_has_two_lines_at_most() {
    let mut frame = of_one_vm(RateFigures::default());
    frame.verdict = Some(live_verdict());
    let screen = drawn((80, 24), &frame, &mut ScreenState::default());
    let lines: Vec<&str> = screen.lines().map(str::trim_end).collect();
    assert_eq!(lines[1], "Last 7.0 s: vCPUs wait for a CPU 23.4% of their time: 12 vCPUs run on or wait");
    assert_eq!(lines[2], "for 9.3 CPUs, and the host has 8. Doubtful: 4,567 events are in no figure");
    let narrow = drawn((60, 24), &frame, &mut ScreenState::default());
    let narrow = narrow.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(narrow.contains("the host has 8. Doubtful: 4,567 events are in no figure"), "{narrow}");
    assert!(!drawn((80, 12), &frame, &mut ScreenState::default()).contains("vCPUs wait"));
}

#[test]
fn where_there_is_room_the_lengths_of_exits_stand_below_the_halts_a_row_for_each_doubling() {
    let histogram = vec![(1_024, 30), (1_280, 10), (4_096, 20), (1 << 40, 1)];
    let frame = of_one_vm(RateFigures { histogram, ..RateFigures::default() });
    let rows = |size| {
        let screen = drawn(size, &frame, &mut ScreenState::default());
        let rows = screen.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
        rows.skip_while(|line| !line.contains("lengths of exits")).skip(1).collect::<Vec<_>>()
    };
    let wide = rows((240, 50));
    assert!(wide[0].starts_with("< 2.05us 40 65.6% ████"), "{wide:#?}");
    assert!(wide[1].starts_with("< 4.10us 0 0%"), "what lies between is there: {wide:#?}");
    assert!(wide[2].starts_with("< 8.19us 20 32.8% ████"), "{wide:#?}");
    let last = wide.iter().find(|line| line.contains("and more")).unwrap();
    assert!(last.starts_with("8.59s and more 1 1.6% █▎"), "{last}");
    let blocks = |line: &str| line.chars().filter(|letter| *letter == '█').count();
    assert_eq!((blocks(&wide[0]), blocks(&wide[2])), (48, 24));
    assert!(rows((160, 24)).is_empty() && rows((100, 60)).is_empty(), "no room");
}

#[test]
fn below_the_verdict_stands_the_costliest_cause_and_what_may_change_it() {
    let said = |changes: &[&str], inherent: Option<&str>| {
        let changes = changes.iter().map(|change| change.to_string()).collect();
        let cause =
            TopCause { name: "serial port".into(), cost: 0.123, changes, inherent: inherent.map(str::to_string) };
        let verdict = LiveVerdict { costliest_cause: Some(cause), ..live_verdict() };
        let frame = Frame { verdict: Some(verdict), ..of_one_vm(RateFigures::default()) };
        let screen = drawn((100, 24), &frame, &mut ScreenState::default());
        screen.lines().find_map(|line| Some(line.split_once("serial port, ")?.1.trim_end().to_string()))
    };
    let one = said(&["Print less"], None).unwrap();
    assert_eq!(one, "12.3% of vCPU time; may help: Print less (R records and judges it)");
    let three = said(&["Print less", "Print nothing", "Look away"], None).unwrap();
    assert_eq!(three, "12.3% of vCPU time; may help: Print less, or 2 other changes (R records and judges");
    assert_eq!(said(&[], Some("it prints")).unwrap(), "12.3% of vCPU time; inherent: it prints");
    assert_eq!(said(&[], None), None, "only a recording tells more");
}

fn live_verdict() -> LiveVerdict {
    let verdict = VerdictRow {
        state: "steal_dominates",
        text: "vCPUs wait for a CPU 23.4% of their time: 12 vCPUs run on or wait for 9.3 CPUs, and the host has 8"
            .into(),
        share: Some(0.234),
        is_good: false,
        is_doubtful: true,
        doubts: vec!["4,567 events are in no figure".into()],
        cause: None,
        is_advised: false,
        best_change: None,
        exit_bound: None,
        sure: None,
        amount: None,
        worst_vcpu: None,
        not_seen: Vec::new(),
    };
    LiveVerdict { seconds: 7.0, verdict, costliest_cause: None }
}

#[test]
fn a_recording_tells_how_far_it_is_and_what_went_wrong() {
    let frame = of_one_vm(RateFigures::default());
    let mut state = ScreenState { progress: Some("recording web: 2 of 5 s, to F".into()), ..ScreenState::default() };
    assert!(drawn((80, 24), &frame, &mut state).contains("recording web: 2 of 5 s, to F  "));
    state = ScreenState { trouble: Some("cannot record: \u{1b}no room".into()), ..ScreenState::default() };
    assert!(drawn((80, 24), &frame, &mut state).contains("cannot record: \u{fffd}no room"));
    state.key(KeyCode::Char('j').into(), &frame);
    assert!(!drawn((80, 24), &frame, &mut state).contains("cannot record"), "it has been read");
    state.report = Some(ReportText::new("web.perf.data".into(), "Exits cost 15.0%", false));
    let screen = drawn((80, 24), &frame, &mut state);
    assert!(screen.contains("recorded: web.perf.data") && screen.contains("Exits cost 15.0%"), "{screen}");
    state.key(KeyCode::Char('q').into(), &frame);
    assert!(!state.quit && !drawn((80, 24), &frame, &mut state).contains("recorded: "));
}

#[test]
fn nothing_in_a_name_acts_on_the_screen() {
    let name = "=\u{1b}[2J\u{202e}<b>;\n";
    let mut frame = Hard::frame();
    frame.host = name.to_string();
    for vm in &mut frame.vms {
        vm.name = name.to_string();
        vm.figures.reasons.iter_mut().for_each(|row| row.name = name.to_string());
    }
    for panel in [Panel::Reasons, Panel::About, Panel::Halts, Panel::Gangs] {
        let mut state = ScreenState { panel, ..ScreenState::default() };
        let screen = drawn((160, 50), &frame, &mut state);
        let acts = |c: char| (c.is_control() && c != '\n') || ('\u{202a}'..='\u{202e}').contains(&c);
        assert!(!screen.contains(acts), "{screen}");
        assert!(screen.contains("=\u{fffd}[2J\u{fffd}<b>;"), "{screen}");
    }
}

/// Frames of any size are drawn: with more rows than a screen has, than fits into 16 bits, and with none.
#[test]
fn any_size_of_terminal_will_do() {
    let row =
        Group { kind: "reason", name: "EXTERNAL_INTERRUPT".into(), histogram: vec![(4096, 7)], ..Group::default() };
    let figures = RateFigures {
        reasons: vec![row.clone()],
        subjects: vec![row.clone()],
        halts: vec![row],
        ..RateFigures::default()
    };
    let frame = |vcpus: u32| {
        let vcpu = |vcpu| TopVcpuRow { vcpu: Some(vcpu), figures: figures.clone(), ..TopVcpuRow::default() };
        let vm = VmRow {
            name: "ein langer Name mit Ü und 漢字".into(),
            figures: figures.clone(),
            vcpus: (0..vcpus).map(vcpu).collect(),
            ..power().vms.remove(0)
        };
        Frame { vms: vec![vm], time: 1.0, lost: 3, ..Frame::default() }
    };
    for (width, height) in [(1, 1), (3, 2), (9, 4), (20, 7), (80, 24), (119, 3), (120, 9), (160, 50), (300, 2)] {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        for (frame, panels) in [(frame(60), Panel::of(&power())), (Frame::default(), &[Panel::Reasons])] {
            for (&panel, help) in panels.iter().flat_map(|panel| [(panel, false), (panel, true)]) {
                let mut state = ScreenState { panel, help, ..ScreenState::default() };
                terminal.draw(|to| draw(to, &frame, &mut state)).unwrap();
            }
        }
    }
    let screen = drawn((120, 40), &frame(70_000), &mut ScreenState::default());
    assert!(screen.contains("and 69,986 more vCPUs"), "{screen}");
}

/// Figures whose every number is another: rates of nine digits, shares and lengths as wide as they get.
struct Hard(u64);

impl Hard {
    fn next(&mut self) -> u64 {
        self.0 += 1;
        self.0
    }

    fn rate(&mut self) -> f64 {
        (999_999_999 - self.next() * 7_654_321 % 800_000_000) as f64
    }

    fn share(&mut self) -> f64 {
        0.999 - (self.next() % 890) as f64 / 1000.0
    }

    /// 43.2us, 999ms, 87.3us, …
    fn length(&mut self) -> u64 {
        match self.next() {
            at if at % 3 == 0 => 43_200 + at % 500 * 100,
            at if at % 3 == 1 => (999 - at % 800) * 1_000_000,
            at => (4_000 + at % 1_000) * 1_000_000_000,
        }
    }

    fn lengths(&mut self) -> Vec<(u64, u64)> {
        (0..40).step_by(3).map(|bit| (1 << bit, self.next())).collect()
    }

    fn row(&mut self, kind: &'static str, name: &str) -> Group {
        Group {
            kind,
            name: name.into(),
            key: None,
            count: self.next(),
            per_s: self.rate(),
            cost: Some(self.share()),
            exit_time: Some(self.share()),
            to_user_space: Some(self.share()),
            mean_ns: Some(self.length()),
            p50_ns: Some(self.length()),
            p99_ns: Some(self.length()),
            histogram: self.lengths(),
        }
    }

    fn figures(&mut self, cost: f64) -> RateFigures {
        let reasons = ["EXTERNAL_INTERRUPT", "EPT_MISCONFIG", "hyperv hypercall (in the kernel)", "HLT", "MSR_WRITE"];
        let about = [("port", "out COM"), ("mmio", "write"), ("msr", "MSR_IA32_TSC_DEADLINE write"), ("port", "in")];
        RateFigures {
            exits: self.next(),
            vcpu_seconds: 1.0,
            exits_per_s: self.rate(),
            cost: Some(cost),
            guest: Some(self.share()),
            polling: Some(self.share()),
            unknown: Some(self.share()),
            halted: Some(self.share()),
            steal: Some(self.share()),
            to_user_space: Some(self.share()),
            p99_ns: Some(self.length()),
            reasons: reasons.map(|name| self.row("reason", name)).to_vec(),
            subjects: about.map(|(kind, name)| self.row(kind, name)).to_vec(),
            halts: ["blocked", "successful poll"].map(|name| self.row("halt", name)).to_vec(),
            poll_ns: Some(43_100),
            ..RateFigures::default()
        }
    }

    fn gangs(&mut self) -> TopGangRow {
        let mut cause = |vcpu, reason: &str| GangCause {
            vcpu,
            reason: reason.into(),
            runs_per_s: self.rate(),
            forced_exits_per_s: self.rate(),
            forced_out: Some(self.share()),
        };
        let causes = vec![cause(70_001, "SYSCALL"), cause(70_002, "H_DATA_STORAGE")];
        TopGangRow {
            runs_per_s: self.rate(),
            ganged: Some(self.share()),
            forced_exits_per_s: self.rate(),
            forced_exits: Some(self.share()),
            forced_out: Some(self.share()),
            causes,
        }
    }

    fn halts(&mut self) -> KvmHalts {
        let (successful, failed) = (100_000_000 + self.next() * 1_003, 200_000_000 + self.next() * 1_007);
        KvmHalts {
            source: "descriptors",
            attempted_polls: successful + failed,
            successful_polls: successful,
            poll_success_ns: successful * 43_200,
            poll_fail_ns: failed * 87_300,
            wait_ns: self.length(),
            poll_success_histogram: self.lengths(),
            ..KvmHalts::default()
        }
    }

    fn vm(&mut self, pid: u32, name: &str, cost: f64) -> VmRow {
        let vcpu = |hard: &mut Hard, at: u32| TopVcpuRow {
            vcpu: Some(70_000 + at),
            tid: Some(pid + at),
            open_reason: Some("EXTERNAL_INTERRUPT".into()),
            open_ns: Some(hard.length()),
            figures: hard.figures(cost - f64::from(at) / 10.0),
            ..TopVcpuRow::default()
        };
        VmRow {
            pid,
            name: name.into(),
            figures: self.figures(cost),
            kvm_halts: Some(self.halts()),
            gangs: Some(self.gangs()),
            vcpus: vec![vcpu(self, 1), vcpu(self, 2)],
            ..VmRow::default()
        }
    }

    fn frame() -> Frame {
        let mut hard = Hard(0);
        let names =
            ["web", "ein sehr langer Name mit Ü und 漢字漢字漢字, den niemand kürzt", "漢字漢字漢字漢字漢字漢字", "db"];
        let vms = (0..).zip(names).map(|(at, name)| hard.vm(4_194_000 + 10 * at, name, 1.0 - f64::from(at) / 7.0));
        let vms = vms.collect();
        Frame {
            vms,
            time: 86_399.0,
            host: "host.example.org".into(),
            kernel: "generic-kernel".into(),
            figures: hard.figures(0.777),
            overhead: TopOverhead {
                cpus: 0.654,
                events_per_s: 1.0,
                ns_per_event: Some(98_765.0),
                vcpu_share: Some(0.888),
            },
            ..Frame::default()
        }
    }
}

/// Every word with a digit in it that figures are printed as, and what names are printed whole.
fn printed(frame: &Frame) -> BTreeSet<String> {
    let mut all: Vec<String> = Vec::new();
    let mut figures = |figures: &RateFigures| {
        let RateFigures {
            exits_per_s,
            cost,
            guest,
            polling,
            unknown,
            halted,
            steal,
            to_user_space: to_user,
            p99_ns,
            reasons,
            subjects: about,
            halts,
            poll_ns,
            ..
        } = figures;
        all.push(rate(*exits_per_s));
        all.extend([*cost, *guest, *polling, *unknown, *halted, *steal, *to_user].map(measured));
        all.extend([*p99_ns, poll_ns.map(u64::from)].map(length));
        let of_all: f64 = halts.iter().map(|row| row.per_s).sum();
        all.extend(halts.iter().map(|row| share(row.per_s / of_all)));
        for row in reasons.iter().chain(about).chain(halts) {
            all.extend([rate(row.per_s), measured(row.cost), measured(row.to_user_space)]);
            all.extend([row.mean_ns, row.p50_ns, row.p99_ns].map(length));
            all.push(row.name.clone());
        }
    };
    figures(&frame.figures);
    frame
        .vms
        .iter()
        .flat_map(|vm| vm.vcpus.iter().map(|vcpu| &vcpu.figures).chain([&vm.figures]))
        .for_each(&mut figures);
    let mut sum = KvmHalts::default();
    for vm in &frame.vms {
        let gangs = vm.gangs.as_ref().unwrap();
        let halts = vm.kvm_halts.clone().unwrap();
        all.extend(figure_text::gangs(gangs));
        all.extend([gangs.runs_per_s, gangs.forced_exits_per_s].map(rate));
        all.push(measured(gangs.forced_out));
        for cause in &gangs.causes {
            all.extend([rate(cause.runs_per_s), rate(cause.forced_exits_per_s), measured(cause.forced_out)]);
        }
        all.extend([vm.pid, vm.vcpus[0].tid.unwrap(), vm.vcpus[1].tid.unwrap()].map(|pid| pid.to_string()));
        all.extend(vm.vcpus.iter().map(|vcpu| format!("vCPU {} {}", vcpu.vcpu.unwrap(), length(vcpu.open_ns))));
        all.push(vm.name.clone());
        sum += halts.clone();
        for row in figure_text::kvm_halts(&halts).into_iter().chain(figure_text::kvm_halts(&sum)) {
            all.extend([row.count, row.share, row.mean, row.time]);
        }
    }
    all.push(rate(frame.vms.iter().map(|vm| vm.figures.exits_per_s).sum()));
    all.extend(figure_text::own(frame));
    all.extend(["p50", "p99"].map(str::to_string));
    all.push(figure_text::time_of_day(frame.time));
    all.iter().flat_map(|text| words(text)).collect()
}

/// The words in which there are digits.
fn words(text: &str) -> Vec<String> {
    let bare = |word: &str| word.trim_matches(['(', ')', ',', ';', ':']).to_string();
    text.split_whitespace().map(bare).filter(|word| word.chars().any(|letter| letter.is_ascii_digit())).collect()
}

/// What of a screen is no number that was to be printed; counts of rows are left out.
fn cut(screen: &str, frame: &Frame, printed: &BTreeSet<String>) -> Vec<String> {
    let mut found = Vec::new();
    for line in screen.lines() {
        let line = line
            .replace(figure_text::BARS_TITLE.trim_end(), "")
            .replace("1 × 0.0 s, top = 100%", "")
            .replace(&figure_text::how_many(frame), "");
        // `and 7 more`, `and 3 more VMs, 6 more vCPUs`
        let line = line.split("and ").map(|part| match part.split_once(" more") {
            Some((count, rest)) if count.parse::<u32>().is_ok() => rest
                .trim_start_matches(|letter: char| "VMs, vCPU".contains(letter) || letter.is_ascii_digit())
                .trim_start_matches(" more vCPUs")
                .trim_start_matches(" more vCPU")
                .to_string(),
            _ => part.to_string(),
        });
        let line = line.collect::<Vec<_>>().join(" ");
        // Of a name there may be the beginning.
        let is_name = |word: &str| match word.strip_suffix('…') {
            Some(name) => {
                !name.starts_with(|letter: char| letter.is_ascii_digit())
                    && printed.range(name.to_string()..).next().is_some_and(|whole| whole.starts_with(name))
            }
            None => false,
        };
        found.extend(words(&line).into_iter().filter(|word| !printed.contains(word) && !is_name(word)));
    }
    found
}

#[test]
fn no_figure_is_cut_on_a_terminal_of_any_size() {
    let frame = Hard::frame();
    let printed = printed(&frame);
    // What is cut of one number must not be another.
    for (a, b) in printed.iter().flat_map(|a| printed.iter().map(move |b| (a, b))).filter(|(a, b)| a != b) {
        assert!(!a.ends_with(b.as_str()) && !a.starts_with(b.as_str()), "{b} is a part of {a}");
    }
    let widths = (80..=220).zip([24, 41, 60].into_iter().cycle());
    let heights = (24..=60).flat_map(|height| [80, 120, 138].map(|width| (width, height)));
    let vm = &frame.vms[0];
    let [reason, about] = [&vm.figures.reasons[0], &vm.figures.subjects[0]];
    let kvm = figure_text::kvm_halts(vm.kvm_halts.as_ref().unwrap());
    for size in widths.chain(heights) {
        let panels = if size.0 < WIDE { Panel::of(&frame) } else { &[Panel::Reasons] };
        for &panel in panels {
            // Others than the first are chosen now and then: that takes time.
            let some = usize::from(size.0 + size.1) % 3;
            for (what, mut state) in chosen(panel).into_iter().step_by(some + 1) {
                let screen = drawn(size, &frame, &mut state);
                let cut = cut(&screen, &frame, &printed);
                assert!(cut.is_empty(), "{cut:?} in {size:?}, {what}\n{screen}");
                // And what matters most is there.
                let mut there = vec![rate(vm.figures.exits_per_s), measured(vm.figures.cost)];
                if what == "a VM" {
                    let is_wide = size.0 >= WIDE;
                    let is = |wanted| is_wide || panel == wanted;
                    there.extend(
                        is(Panel::Reasons).then(|| [rate(reason.per_s), measured(reason.cost)]).into_iter().flatten(),
                    );
                    there.extend(
                        is(Panel::About).then(|| [rate(about.per_s), measured(about.cost)]).into_iter().flatten(),
                    );
                    there.extend(
                        is(Panel::Halts)
                            .then(|| [rate(vm.figures.halts[0].per_s), kvm[0].count.clone()])
                            .into_iter()
                            .flatten(),
                    );
                }
                for figure in there {
                    assert!(screen.contains(&figure), "{figure} is not in {size:?}, {what}\n{screen}");
                }
            }
        }
    }
}

/// States in which a VM is chosen, one of its vCPUs, and none.
fn chosen(panel: Panel) -> [(&'static str, ScreenState); 3] {
    let vcpu = RowId { pid: 4_194_000, vcpu: Some(4_194_001) };
    let mut state = ScreenState { panel, ..ScreenState::default() };
    state.remember(&Hard::frame());
    [
        ("a VM", state.clone()),
        ("a vCPU", ScreenState { selected: Some(vcpu), has_begun: true, ..state.clone() }),
        ("all", ScreenState { is_all: true, has_begun: true, ..state }),
    ]
}
