//! What keys do.

use super::*;
use crate::columns::TopColumn;
use crate::frame::{RateFigures, TopGangRow, TopVcpuRow};
use crate::line::vcpu_name;

fn frame() -> Frame {
    let figures = |cost| RateFigures { cost: Some(cost), ..RateFigures::default() };
    let vcpu = |vcpu, cost| TopVcpuRow {
        vcpu: Some(vcpu),
        tid: Some(100 + vcpu),
        figures: figures(cost),
        ..TopVcpuRow::default()
    };
    let vm = |pid, name: &str, cost, vcpus| VmRow {
        pid,
        name: name.into(),
        figures: figures(cost),
        vcpus,
        ..VmRow::default()
    };
    Frame {
        vms: vec![vm(7, "db", 0.1, vec![vcpu(0, 0.1)]), vm(8, "web", 0.5, vec![vcpu(1, 0.2), vcpu(2, 0.8)])],
        ..Frame::default()
    }
}

/// `web01`, `web01 vCPU 3`.
fn name(line: &ListLine) -> String {
    line.vcpu.map_or(line.vm.name.clone(), |vcpu| format!("{} {}", line.vm.name, vcpu_name(vcpu)))
}

fn names(state: &ScreenState, frame: &Frame) -> Vec<String> {
    state.lines(frame).iter().map(name).collect()
}

fn press(state: &mut ScreenState, frame: &Frame, codes: &[KeyCode]) {
    for &code in codes {
        state.key(KeyEvent::from(code), frame);
        let lines = state.lines(frame);
        state.select(&lines);
    }
}

#[test]
fn rows_are_entered_and_left_sorted_and_filtered() {
    let (frame, mut state) = (frame(), ScreenState::default());
    assert_eq!(names(&state, &frame), ["web", "web vCPU 2", "web vCPU 1", "db", "db vCPU 0"]);
    press(&mut state, &frame, &[KeyCode::Down, KeyCode::Up, KeyCode::Enter]);
    assert_eq!(names(&state, &frame), ["web", "web vCPU 2", "web vCPU 1"]);
    press(&mut state, &frame, &[KeyCode::End, KeyCode::Enter]);
    assert_eq!(names(&state, &frame), ["web vCPU 1"]);
    press(&mut state, &frame, &[KeyCode::Esc, KeyCode::Esc, KeyCode::Char('v')]);
    assert_eq!(names(&state, &frame), ["web", "db"]);
    press(&mut state, &frame, &[KeyCode::Char('S')]);
    assert_eq!((state.sort, names(&state, &frame)), (ListOrder::Name, vec!["db".to_string(), "web".to_string()]));
    press(&mut state, &frame, &[KeyCode::Char('/'), KeyCode::Char('W'), KeyCode::Char('q'), KeyCode::Backspace]);
    assert!(state.typing && !state.quit);
    assert_eq!(names(&state, &frame), ["web"]);
    press(&mut state, &frame, &[KeyCode::Enter, KeyCode::Esc, KeyCode::Char('q')]);
    assert!(state.filter.is_empty() && state.quit);
}

#[test]
fn the_costliest_vm_is_selected_at_the_beginning_and_none_on_demand() {
    let mut state = ScreenState::default();
    // Before anything has come, and while nothing costs anything.
    assert_eq!(state.select(&[]), None);
    let mut idle = frame();
    idle.vms.iter_mut().for_each(|vm| vm.figures = RateFigures::default());
    let lines = state.lines(&idle);
    assert_eq!(state.select(&lines).map(|at| name(&lines[at])), Some("db".into()));
    // The costliest VM, whatever rows are sorted by; and it stays that when another comes to cost more.
    let mut busy = frame();
    busy.vms.iter_mut().for_each(|vm| vm.figures.exits_per_s = 9.0);
    state.sort = ListOrder::Name;
    let selected = |state: &mut ScreenState, frame: &Frame| {
        let lines = state.lines(frame);
        state.select(&lines).map(|at| name(&lines[at]))
    };
    assert_eq!(selected(&mut state, &busy), Some("web".into()));
    busy.vms[0].figures.cost = Some(0.9);
    assert_eq!(selected(&mut state, &busy), Some("web".into()));
    press(&mut state, &busy, &[KeyCode::Esc]);
    assert_eq!((selected(&mut state, &busy), state.is_all), (None, true));
    // Nothing is entered out of nowhere; the arrows choose again, and so does a filter.
    press(&mut state, &busy, &[KeyCode::Enter]);
    assert_eq!((state.within, selected(&mut state, &busy)), (None, None));
    press(&mut state, &busy, &[KeyCode::Down]);
    assert_eq!(selected(&mut state, &busy), Some("db".into()));
    press(&mut state, &busy, &[KeyCode::Esc, KeyCode::Char('/'), KeyCode::Char('w'), KeyCode::Enter]);
    assert_eq!(selected(&mut state, &busy), Some("web".into()));
    // The first Esc shows all rows again, the next is the one that selects none.
    press(&mut state, &busy, &[KeyCode::Esc]);
    assert_eq!(selected(&mut state, &busy), Some("web".into()));
    press(&mut state, &busy, &[KeyCode::Esc]);
    assert_eq!(selected(&mut state, &busy), None);
}

#[test]
fn gang_exits_are_a_panel_where_there_are_virtual_cores() {
    let (mut frame, mut state) = (frame(), ScreenState::default());
    let seen = |state: &mut ScreenState, frame: &Frame| {
        press(state, frame, &[KeyCode::Tab]);
        state.panel.name()
    };
    assert_eq!([(); 3].map(|()| seen(&mut state, &frame)), ["ports, MSRs", "halts", "reasons"]);
    frame.vms[1].gangs = Some(TopGangRow::default());
    assert_eq!([(); 3].map(|()| seen(&mut state, &frame)), ["ports, MSRs", "halts", "gang exits"]);
    // The VM has ended.
    frame.vms.remove(1);
    assert_eq!((state.panel.on(&frame), seen(&mut state, &frame)), (Panel::Reasons, "ports, MSRs"));
}

#[test]
fn a_key_sorts_by_its_column_at_once() {
    let (frame, mut state) = (frame(), ScreenState::default());
    let sorted = |state: &mut ScreenState, key| {
        press(state, &frame, &[KeyCode::Char(key)]);
        state.sort
    };
    assert_eq!(['N', 'T', 'P', 'E', 'H', 'C'].map(|key| sorted(&mut state, key)), {
        let [steal, halted] = [TimePart::Steal, TimePart::Halted].map(|part| ListOrder::By(TopColumn::Part(part)));
        let [p99, exits, cost] = [TopColumn::P99, TopColumn::Exits, TopColumn::COST].map(ListOrder::By);
        [ListOrder::Name, steal, p99, exits, halted, cost]
    });
}

#[test]
fn costs_of_the_last_intervals_are_kept_and_those_of_rows_that_are_gone_are_not() {
    let (mut frame, mut state) = (frame(), ScreenState::default());
    let web = RowId { pid: 8, vcpu: None };
    for cost in [0.0, 0.01, 1.0] {
        frame.vms[1].figures.cost = Some(cost);
        state.remember(&frame);
    }
    assert_eq!((state.past(web).chars().count(), state.past(web).trim_start()), (PAST, "▁█"));
    for _ in 0..PAST {
        state.remember(&frame);
    }
    assert_eq!(state.past(web), "█".repeat(PAST));
    frame.vms.remove(1);
    state.remember(&frame);
    assert_eq!((state.histories.len(), state.past(web).trim()), (3, ""), "a VM, its vCPU, and all");
}

#[test]
fn a_row_that_is_gone_leaves_its_place_to_the_next() {
    let (mut frame, mut state) = (frame(), ScreenState::default());
    press(&mut state, &frame, &[KeyCode::End]);
    assert_eq!(state.selected, Some(RowId { pid: 7, vcpu: Some(100) }));
    frame.vms.remove(0);
    let lines = state.lines(&frame);
    assert_eq!(state.select(&lines), Some(2));
    frame.vms.clear();
    assert_eq!(state.select(&[]), None);
    press(&mut state, &frame, &[KeyCode::Down, KeyCode::Enter, KeyCode::PageUp, KeyCode::Tab]);
}

#[test]
fn what_is_paused_has_the_history_that_it_had() {
    let (mut frame, mut state) = (frame(), ScreenState::default());
    let web = RowId { pid: 8, vcpu: None };
    state.remember(&frame);
    press(&mut state, &frame, &[KeyCode::Char('p')]);
    let before = state.past(web);
    frame.vms[1].figures.cost = Some(1.0);
    state.remember(&frame);
    assert_eq!(state.past(web), before);
    press(&mut state, &frame, &[KeyCode::Char('p')]);
    assert!(state.past(web).ends_with('█') && state.past(web).trim().chars().count() == 2);
}

#[test]
fn what_is_recorded_is_the_vm_of_the_selected_row_or_all() {
    let (frame, mut state) = (frame(), ScreenState::default());
    let web = RecordTarget::Vm { pid: 8, name: "web".into() };
    for (keys, wanted) in [
        (&[KeyCode::Char('j'), KeyCode::Char('k')][..], &web),
        (&[KeyCode::Char('j')], &web),
        (&[KeyCode::Esc], &RecordTarget::All),
        (&[KeyCode::Down], &web),
        (&[KeyCode::End], &RecordTarget::Vm { pid: 7, name: "db".into() }),
    ] {
        press(&mut state, &frame, keys);
        assert!(state.wanted.is_none());
        press(&mut state, &frame, &[KeyCode::Char('R')]);
        assert_eq!(state.wanted.take().as_ref(), Some(wanted), "{keys:?}");
    }
}
