//! What is drawn, on screens of any size.

use super::super::frame::{GangCause, VcpuRow, VmRow};
use super::*;
use ratatui::Terminal;
use ratatui::backend::TestBackend;

/// A frame as text.
fn drawn(size: (u16, u16), frame: &Frame, state: &mut State, no_kvm: Option<&str>) -> String {
    let mut terminal = Terminal::new(TestBackend::new(size.0, size.1)).unwrap();
    terminal.draw(|to| draw(to, frame, state, no_kvm)).unwrap();
    let buffer = terminal.backend().buffer();
    let rows = buffer.content().chunks(usize::from(size.0));
    rows.map(|row| row.iter().map(|cell| cell.symbol()).collect::<String>() + "\n").collect()
}

fn power() -> Frame {
    let gangs = GangRow {
        runs_per_s: 1200.0,
        ganged: 0.35,
        forced_per_s: 900.0,
        forced: 0.42,
        lost: 0.125,
        causes: vec![GangCause {
            vcpu: 3,
            reason: "SYSCALL".into(),
            runs_per_s: 420.0,
            forced_per_s: 880.0,
            lost: 0.12,
        }],
    };
    let halts = KvmHalts {
        source: "descriptors",
        attempted: 1000,
        successful: 900,
        success_ns: 90_000_000,
        fail_ns: 20_000_000,
        wait_ns: 5_000_000_000,
        success_lengths: vec![(65_536, 900)],
        fail_lengths: vec![(131_072, 100)],
        wait_lengths: vec![(1 << 24, 100)],
        ..KvmHalts::default()
    };
    let vm = VmRow { pid: 7, name: "p8".into(), gangs: Some(gangs), kvm_halts: Some(halts), ..VmRow::default() };
    Frame { vms: vec![vm], time: 1.0, ..Frame::default() }
}

#[test]
fn gang_exits_have_a_panel_where_virtual_cores_have_runs() {
    let frame = power();
    let mut state = State { panel: Panel::Gangs, ..State::default() };
    for size in [(80, 24), (160, 40)] {
        let screen = drawn(size, &frame, &mut state, None);
        for words in
            ["p8: gang exits", "1,200 core runs/s", "35.0% ended", "900", "vCPU 3 SYSCALL", "420", "880", "12.0%"]
        {
            assert!(screen.contains(words), "{words} is not on\n{screen}");
        }
    }
    let elsewhere =
        Frame { vms: vec![VmRow { name: "web".into(), ..VmRow::default() }], time: 1.0, ..Frame::default() };
    for size in [(80, 24), (160, 40)] {
        let screen = drawn(size, &elsewhere, &mut state, None);
        assert!(!screen.contains("gang") && screen.contains("web: exits"), "{screen}");
    }
}

#[test]
fn kvms_own_histograms_are_drawn_and_their_source_is_said() {
    let mut frame = power();
    let mut state = State { panel: Panel::Halts, ..State::default() };
    let screen = drawn((80, 24), &frame, &mut state, None);
    for words in ["KVM, since the VM began", "polled, and caught it", "90.0%", "polled in vain", "asleep", "5.00s"] {
        assert!(screen.contains(words), "{words} is not on\n{screen}");
    }
    assert!(screen.contains("KVM's statistics") && screen.contains('█'), "{screen}");
    frame.vms[0].kvm_halts = None;
    let screen = drawn((80, 24), &frame, &mut state, Some("debugfs is locked"));
    assert!(screen.contains("debugfs is locked") && !screen.contains("polled in vain"), "{screen}");
}

#[test]
fn any_size_of_terminal_will_do() {
    let row = Group { kind: "reason", name: "EXTERNAL_INTERRUPT".into(), lengths: vec![(4096, 7)], ..Group::default() };
    let figures =
        Figures { reasons: vec![row.clone()], about: vec![row.clone()], halts: vec![row], ..Figures::default() };
    let vcpu = |vcpu| VcpuRow { vcpu: Some(vcpu), figures: figures.clone(), ..VcpuRow::default() };
    let vcpus = (0..70_000).map(vcpu).collect();
    let vm = VmRow {
        name: "ein langer Name mit Ü und 漢字".into(),
        figures: figures.clone(),
        vcpus,
        ..power().vms.remove(0)
    };
    let frame = Frame { vms: vec![vm], time: 1.0, lost: 3, ..Frame::default() };
    for (width, height) in [(1, 1), (3, 2), (9, 4), (20, 7), (80, 24), (119, 3), (120, 9), (160, 50), (300, 2)] {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        for &panel in Panel::of(&frame) {
            for help in [false, true] {
                let mut state = State { panel, help, ..State::default() };
                terminal.draw(|to| draw(to, &frame, &mut state, Some("forbidden"))).unwrap();
                terminal.draw(|to| draw(to, &Frame::default(), &mut state, None)).unwrap();
            }
        }
    }
}
