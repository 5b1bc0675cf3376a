//! What the user does: where they look, how rows are ordered, and what each key changes.
//!
//! ```text
//! every VM and vCPU ── Enter ─► a VM and its vCPUs ── Enter ─► a vCPU
//!                   ◄── Esc ──                     ◄── Esc ──
//! ```

use super::frame::{Figures, Frame, VcpuRow, VmRow};
use super::text;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use std::collections::{HashMap, VecDeque};

/// How far Page Up and Page Down go.
const PAGE: usize = 10;

/// Intervals that are remembered.
const PAST: usize = 24;

/// What names a row from one interval to the next: a process; and a thread, or a vCPU's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RowId {
    pub pid: u32,
    pub vcpu: Option<u32>,
}

/// A row of the list.
#[derive(Clone, Copy, Debug)]
pub struct Line<'a> {
    pub vm: &'a VmRow,
    /// None: the VM itself.
    pub vcpu: Option<&'a VcpuRow>,
}

/// What rows are ordered by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sort {
    Cost,
    Exits,
    Halted,
    Steal,
    P99,
    Name,
}

impl Sort {
    /// The key that sorts by it at once.
    fn of_key(key: char) -> Option<Sort> {
        match key {
            'C' => Some(Sort::Cost),
            'E' => Some(Sort::Exits),
            'H' => Some(Sort::Halted),
            'T' => Some(Sort::Steal),
            'P' => Some(Sort::P99),
            'N' => Some(Sort::Name),
            _ => None,
        }
    }

    pub const ALL: [Sort; 6] = [Sort::Cost, Sort::Exits, Sort::Halted, Sort::Steal, Sort::P99, Sort::Name];

    pub fn name(self) -> &'static str {
        match self {
            Sort::Cost => "cost",
            Sort::Exits => "exits/s",
            Sort::Halted => "halted",
            Sort::Steal => "steal",
            Sort::P99 => "p99",
            Sort::Name => "name",
        }
    }

    /// What comes first has the largest.
    fn of(self, figures: &Figures) -> f64 {
        match self {
            Sort::Cost => figures.cost,
            Sort::Exits => figures.exits_per_s,
            Sort::Halted => figures.halted,
            Sort::Steal => figures.steal.unwrap_or(0.0),
            Sort::P99 => figures.p99_ns.unwrap_or(0) as f64,
            Sort::Name => 0.0,
        }
    }
}

/// What is shown below the list, where there is no room for all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Panel {
    Reasons,
    About,
    Halts,
    /// Where virtual cores have runs.
    Gangs,
}

impl Panel {
    const ALL: [Panel; 4] = [Panel::Reasons, Panel::About, Panel::Halts, Panel::Gangs];

    /// Those that this frame has.
    pub fn of(frame: &Frame) -> &'static [Panel] {
        let with_gangs = frame.vms.iter().any(|vm| vm.gangs.is_some());
        &Panel::ALL[..if with_gangs { 4 } else { 3 }]
    }

    /// Which this is, if it is there; else the first.
    pub fn on(self, frame: &Frame) -> Panel {
        if Panel::of(frame).contains(&self) { self } else { Panel::Reasons }
    }

    /// The one `steps` behind it.
    pub fn next(self, frame: &Frame, steps: usize) -> Panel {
        next(Panel::of(frame), self.on(frame), steps)
    }

    pub fn name(self) -> &'static str {
        match self {
            Panel::Reasons => "reasons",
            Panel::About => "ports, MSRs",
            Panel::Halts => "halts",
            Panel::Gangs => "gang exits",
        }
    }
}

/// Where the user looks.
#[derive(Clone, Debug)]
pub struct State {
    /// What was entered: nothing, a VM, or a vCPU.
    pub within: Option<RowId>,
    pub selected: Option<RowId>,
    /// No row is selected: details are of all VMs.
    pub is_all: bool,
    /// The costliest VM of the beginning, or what the user wanted instead, is selected.
    pub has_begun: bool,
    /// Where the selected row is, so that the next takes its place when it is gone.
    pub at: usize,
    pub sort: Sort,
    pub filter: String,
    /// The filter is being typed.
    pub typing: bool,
    pub paused: bool,
    pub panel: Panel,
    pub help: bool,
    /// vCPUs are listed below their VMs.
    pub vcpus: bool,
    /// What rows cost in the last intervals, the latest last.
    pub past: HashMap<RowId, VecDeque<f64>>,
    pub quit: bool,
}

impl Default for State {
    fn default() -> State {
        State {
            within: None,
            selected: None,
            is_all: false,
            has_begun: false,
            at: 0,
            sort: Sort::Cost,
            filter: String::new(),
            typing: false,
            paused: false,
            panel: Panel::Reasons,
            help: false,
            vcpus: true,
            past: HashMap::new(),
            quit: false,
        }
    }
}

impl State {
    /// The rows of the list.
    pub fn lines<'a>(&self, frame: &'a Frame) -> Vec<Line<'a>> {
        let filter = self.filter.to_lowercase();
        let wanted = |vm: &&VmRow| match self.within {
            Some(within) => vm.pid == within.pid,
            None => vm.name.to_lowercase().contains(&filter) || vm.pid.to_string().contains(&filter),
        };
        let mut vms: Vec<&VmRow> = frame.vms.iter().filter(wanted).collect();
        let larger = |a: &Figures, b: &Figures| self.sort.of(b).total_cmp(&self.sort.of(a));
        vms.sort_by(|a, b| {
            larger(&a.figures, &b.figures).then_with(|| a.name.cmp(&b.name)).then_with(|| a.pid.cmp(&b.pid))
        });
        let mut lines = Vec::new();
        for vm in vms {
            let mut vcpus: Vec<&VcpuRow> = vm.vcpus.iter().collect();
            // Equal ones stay in the order of their numbers.
            vcpus.sort_by(|a, b| larger(&a.figures, &b.figures));
            let vcpus = vcpus.into_iter().map(|vcpu| Line { vm, vcpu: Some(vcpu) });
            match self.within {
                Some(RowId { vcpu: Some(_), .. }) => lines.extend(vcpus.filter(|line| Some(line.id()) == self.within)),
                within => {
                    lines.push(Line { vm, vcpu: None });
                    if self.vcpus || within.is_some() {
                        lines.extend(vcpus);
                    }
                }
            }
        }
        lines
    }

    /// Keeps what rows cost in this interval; of those that are gone nothing.
    pub fn remember(&mut self, frame: &Frame) {
        let mut past = HashMap::new();
        let vms = frame.vms.iter().map(|vm| Line { vm, vcpu: None });
        let vcpus = frame.vms.iter().flat_map(|vm| vm.vcpus.iter().map(move |vcpu| Line { vm, vcpu: Some(vcpu) }));
        for line in vms.chain(vcpus) {
            let mut costs: VecDeque<f64> = self.past.remove(&line.id()).unwrap_or_default();
            costs.push_back(line.figures().cost);
            costs.drain(..costs.len().saturating_sub(PAST));
            past.insert(line.id(), costs);
        }
        self.past = past;
    }

    /// What a row cost in the last intervals, as bars up to all of its time.
    pub fn past(&self, row: RowId) -> String {
        let costs = self.past.get(&row).into_iter().flatten();
        let bars: String = costs.map(|&cost| text::bar((cost * 1e6) as u64, 1_000_000)).collect();
        format!("{bars:>PAST$}")
    }

    /// The number of the selected row, which is always one of those that there are: at the beginning the costliest VM's.
    pub fn select(&mut self, lines: &[Line]) -> Option<usize> {
        if self.is_all {
            return None;
        }
        if !self.has_begun
            && let Some(at) = costliest(lines)
        {
            (self.has_begun, self.selected) = (true, Some(lines[at].id()));
        }
        let found = lines.iter().position(|line| Some(line.id()) == self.selected);
        let at = found.unwrap_or(self.at).min(lines.len().checked_sub(1)?);
        self.at = at;
        self.selected = Some(lines[at].id());
        Some(at)
    }

    /// Does what a key is for.
    pub fn key(&mut self, key: KeyEvent, frame: &Frame) {
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            self.quit |= key.code == KeyCode::Char('c');
            return;
        }
        if self.typing {
            return self.type_filter(key.code);
        }
        if self.help {
            self.quit |= matches!(key.code, KeyCode::Char('q') | KeyCode::F(10));
            self.help = false;
            return;
        }
        let lines = self.lines(frame);
        match key.code {
            KeyCode::Char('q') | KeyCode::F(10) => self.quit = true,
            KeyCode::Char('?' | 'h') | KeyCode::F(1) => self.help = true,
            KeyCode::Char('p' | ' ') => self.paused = !self.paused,
            KeyCode::Char('s' | '>') => self.sort = next(&Sort::ALL, self.sort, 1),
            KeyCode::Char('S' | '<') => self.sort = next(&Sort::ALL, self.sort, Sort::ALL.len() - 1),
            KeyCode::Char(letter) if let Some(sort) = Sort::of_key(letter) => self.sort = sort,
            KeyCode::Char('v') => self.vcpus = !self.vcpus,
            KeyCode::Char('/') | KeyCode::F(4) if self.within.is_none() => self.typing = true,
            KeyCode::Tab => self.panel = self.panel.next(frame, 1),
            KeyCode::BackTab => self.panel = self.panel.next(frame, Panel::of(frame).len() - 1),
            KeyCode::Enter | KeyCode::Right => self.enter(),
            KeyCode::Esc | KeyCode::Backspace | KeyCode::Left => self.leave(),
            KeyCode::Up | KeyCode::Char('k') => self.go(&lines, self.at.saturating_sub(1)),
            KeyCode::Down | KeyCode::Char('j') => self.go(&lines, if self.is_all { 0 } else { self.at + 1 }),
            KeyCode::PageUp => self.go(&lines, self.at.saturating_sub(PAGE)),
            KeyCode::PageDown => self.go(&lines, self.at + PAGE),
            KeyCode::Home => self.go(&lines, 0),
            KeyCode::End => self.go(&lines, usize::MAX),
            _ => {}
        }
    }

    fn type_filter(&mut self, code: KeyCode) {
        // What is looked for is what is wanted.
        self.is_all = false;
        match code {
            KeyCode::Enter => self.typing = false,
            KeyCode::Esc => {
                self.typing = false;
                self.filter.clear();
            }
            KeyCode::Backspace => {
                self.filter.pop();
            }
            KeyCode::Char(letter) => self.filter.push(letter),
            _ => {}
        }
    }

    fn go(&mut self, lines: &[Line], to: usize) {
        (self.has_begun, self.is_all) = (true, false);
        self.at = to.min(lines.len().saturating_sub(1));
        self.selected = lines.get(self.at).map(Line::id);
    }

    fn enter(&mut self) {
        // A VM's own row in its list leads nowhere further.
        if self.selected != self.within && self.selected.is_some() {
            self.within = self.selected;
            self.has_begun = true;
        }
    }

    fn leave(&mut self) {
        match self.within {
            None if self.filter.is_empty() => {
                (self.has_begun, self.is_all, self.selected, self.at) = (true, true, None, 0);
            }
            None => self.filter.clear(),
            // From a vCPU that was entered out of the whole list, back to that of its VM.
            Some(RowId { pid, vcpu: Some(_) }) => self.within = Some(RowId { pid, vcpu: None }),
            Some(_) => self.within = None,
        }
    }
}

impl<'a> Line<'a> {
    pub fn id(&self) -> RowId {
        RowId { pid: self.vm.pid, vcpu: self.vcpu.map(|vcpu| vcpu.tid.or(vcpu.vcpu).unwrap_or(0)) }
    }

    pub fn figures(&self) -> &'a Figures {
        self.vcpu.map_or(&self.vm.figures, |vcpu| &vcpu.figures)
    }

    pub fn ended(&self) -> bool {
        self.vcpu.map_or(self.vm.ended, |vcpu| vcpu.ended)
    }
}

/// `vCPU 3`, or `thread 4711` where nothing says which vCPU that is.
pub fn vcpu_name(vcpu: &VcpuRow) -> String {
    match (vcpu.vcpu, vcpu.tid) {
        (Some(number), _) => format!("vCPU {number}"),
        (None, tid) => format!("thread {}", tid.unwrap_or(0)),
    }
}

/// The VM that costs most, if any of these costs anything.
fn costliest(lines: &[Line]) -> Option<usize> {
    let vms = lines.iter().enumerate().filter(|(_, line)| line.vcpu.is_none() && line.figures().exits_per_s > 0.0);
    let by_cost = |(_, a): &(usize, &Line), (_, b): &(usize, &Line)| {
        let of = |line: &Line| (line.figures().cost, line.figures().exits_per_s);
        of(a).partial_cmp(&of(b)).unwrap_or(std::cmp::Ordering::Equal)
    };
    // Of equal ones the first.
    vms.rev().max_by(by_cost).map(|(at, _)| at)
}

/// The one that is `steps` behind `now` in the circle of all.
fn next<T: Copy + PartialEq>(all: &[T], now: T, steps: usize) -> T {
    let at = all.iter().position(|&one| one == now).unwrap_or(0);
    all[(at + steps) % all.len()]
}

#[cfg(test)]
mod tests {
    use super::super::frame::GangRow;
    use super::*;

    fn frame() -> Frame {
        let figures = |cost| Figures { cost, ..Figures::default() };
        let vcpu = |vcpu, cost| VcpuRow {
            vcpu: Some(vcpu),
            tid: Some(100 + vcpu),
            figures: figures(cost),
            ..VcpuRow::default()
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
    fn name(line: &Line) -> String {
        line.vcpu.map_or(line.vm.name.clone(), |vcpu| format!("{} {}", line.vm.name, vcpu_name(vcpu)))
    }

    fn names(state: &State, frame: &Frame) -> Vec<String> {
        state.lines(frame).iter().map(name).collect()
    }

    fn press(state: &mut State, frame: &Frame, codes: &[KeyCode]) {
        for &code in codes {
            state.key(KeyEvent::from(code), frame);
            let lines = state.lines(frame);
            state.select(&lines);
        }
    }

    #[test]
    fn rows_are_entered_and_left_sorted_and_filtered() {
        let (frame, mut state) = (frame(), State::default());
        assert_eq!(names(&state, &frame), ["web", "web vCPU 2", "web vCPU 1", "db", "db vCPU 0"]);
        press(&mut state, &frame, &[KeyCode::Down, KeyCode::Up, KeyCode::Enter]);
        assert_eq!(names(&state, &frame), ["web", "web vCPU 2", "web vCPU 1"]);
        press(&mut state, &frame, &[KeyCode::End, KeyCode::Enter]);
        assert_eq!(names(&state, &frame), ["web vCPU 1"]);
        press(&mut state, &frame, &[KeyCode::Esc, KeyCode::Esc, KeyCode::Char('v')]);
        assert_eq!(names(&state, &frame), ["web", "db"]);
        press(&mut state, &frame, &[KeyCode::Char('S')]);
        assert_eq!((state.sort, names(&state, &frame)), (Sort::Name, vec!["db".to_string(), "web".to_string()]));
        press(&mut state, &frame, &[KeyCode::Char('/'), KeyCode::Char('W'), KeyCode::Char('q'), KeyCode::Backspace]);
        assert!(state.typing && !state.quit);
        assert_eq!(names(&state, &frame), ["web"]);
        press(&mut state, &frame, &[KeyCode::Enter, KeyCode::Esc, KeyCode::Char('q')]);
        assert!(state.filter.is_empty() && state.quit);
    }

    #[test]
    fn the_costliest_vm_is_selected_at_the_beginning_and_none_on_demand() {
        let mut state = State::default();
        // Before anything has come, and while nothing costs anything.
        assert_eq!(state.select(&[]), None);
        let mut idle = frame();
        idle.vms.iter_mut().for_each(|vm| vm.figures = Figures::default());
        let lines = state.lines(&idle);
        assert_eq!(state.select(&lines).map(|at| name(&lines[at])), Some("db".into()));
        // The costliest VM, whatever rows are sorted by; and it stays that when another comes to cost more.
        let mut busy = frame();
        busy.vms.iter_mut().for_each(|vm| vm.figures.exits_per_s = 9.0);
        state.sort = Sort::Name;
        let selected = |state: &mut State, frame: &Frame| {
            let lines = state.lines(frame);
            state.select(&lines).map(|at| name(&lines[at]))
        };
        assert_eq!(selected(&mut state, &busy), Some("web".into()));
        busy.vms[0].figures.cost = 0.9;
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
        let (mut frame, mut state) = (frame(), State::default());
        let seen = |state: &mut State, frame: &Frame| {
            press(state, frame, &[KeyCode::Tab]);
            state.panel.name()
        };
        assert_eq!([(); 3].map(|()| seen(&mut state, &frame)), ["ports, MSRs", "halts", "reasons"]);
        frame.vms[1].gangs = Some(GangRow::default());
        assert_eq!([(); 3].map(|()| seen(&mut state, &frame)), ["ports, MSRs", "halts", "gang exits"]);
        // The VM has ended.
        frame.vms.remove(1);
        assert_eq!((state.panel.on(&frame), seen(&mut state, &frame)), (Panel::Reasons, "ports, MSRs"));
    }

    #[test]
    fn a_key_sorts_by_its_column_at_once() {
        let (frame, mut state) = (frame(), State::default());
        let sorted = |state: &mut State, key| {
            press(state, &frame, &[KeyCode::Char(key)]);
            state.sort
        };
        assert_eq!(['N', 'T', 'P', 'E', 'H', 'C'].map(|key| sorted(&mut state, key)), {
            [Sort::Name, Sort::Steal, Sort::P99, Sort::Exits, Sort::Halted, Sort::Cost]
        });
    }

    #[test]
    fn costs_of_the_last_intervals_are_kept_and_those_of_rows_that_are_gone_are_not() {
        let (mut frame, mut state) = (frame(), State::default());
        let web = RowId { pid: 8, vcpu: None };
        for cost in [0.0, 0.01, 1.0] {
            frame.vms[1].figures.cost = cost;
            state.remember(&frame);
        }
        assert_eq!((state.past(web).chars().count(), state.past(web).trim_start()), (PAST, "▁█"));
        for _ in 0..PAST {
            state.remember(&frame);
        }
        assert_eq!(state.past(web), "█".repeat(PAST));
        frame.vms.remove(1);
        state.remember(&frame);
        assert_eq!((state.past.len(), state.past(web).trim()), (2, ""));
    }

    #[test]
    fn a_row_that_is_gone_leaves_its_place_to_the_next() {
        let (mut frame, mut state) = (frame(), State::default());
        press(&mut state, &frame, &[KeyCode::End]);
        assert_eq!(state.selected, Some(RowId { pid: 7, vcpu: Some(100) }));
        frame.vms.remove(0);
        let lines = state.lines(&frame);
        assert_eq!(state.select(&lines), Some(2));
        frame.vms.clear();
        assert_eq!(state.select(&[]), None);
        press(&mut state, &frame, &[KeyCode::Down, KeyCode::Enter, KeyCode::PageUp, KeyCode::Tab]);
    }
}
