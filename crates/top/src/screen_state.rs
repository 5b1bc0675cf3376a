//! What the user does: where they look, how rows are ordered, and what each key changes.
//!
//! ```text
//! every VM and vCPU ── Enter ─► a VM and its vCPUs ── Enter ─► a vCPU
//!                   ◄── Esc ──                     ◄── Esc ──
//! ```

use crate::choices::{ListOrder, Panel};
use crate::chooser::Chooser;
use crate::columns::ColumnChoice;
use crate::figure_text;
use crate::frame::{Frame, RateFigures, TopVcpuRow, VmRow};
use crate::history::History;
use crate::line::{ListLine, RowId};
use crate::recorder::RecordTarget;
use crate::report_text::ReportText;
use exitscope_model::TimePart;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use std::collections::HashMap;

/// How far Page Up and Page Down go.
const PAGE: usize = 10;

/// Intervals whose cost is a column.
pub const PAST: usize = 24;

/// By row; of none, all VMs.
type Histories = HashMap<Option<RowId>, History>;

/// Where the user looks.
#[derive(Clone, Debug, Default)]
pub struct ScreenState {
    /// What was entered: nothing, a VM, or a vCPU.
    pub within: Option<RowId>,
    pub selected: Option<RowId>,
    /// No row is selected: details are of all VMs.
    pub is_all: bool,
    /// The costliest VM of the beginning, or what the user wanted instead, is selected.
    pub has_begun: bool,
    /// Where the selected row is, so that the next takes its place when it is gone.
    pub at: usize,
    pub sort: ListOrder,
    pub filter: String,
    /// The filter is being typed.
    pub typing: bool,
    pub paused: bool,
    pub panel: Panel,
    pub help: bool,
    /// Only VMs are listed, else their vCPUs below them.
    pub only_vms: bool,
    pub columns: ColumnChoice,
    /// The list of all columns is shown.
    pub chooser: Option<Chooser>,
    /// Where the time of rows went in the last intervals; of no row: of all VMs.
    pub histories: Histories,
    /// The same as it was when it was paused.
    pub frozen: Option<Histories>,
    /// The user wants a recording of this.
    pub wanted: Option<RecordTarget>,
    /// How far the recording is.
    pub progress: Option<String>,
    /// What went wrong, until the next key.
    pub trouble: Option<String>,
    /// The report that is shown.
    pub report: Option<ReportText>,
    pub quit: bool,
}

impl ScreenState {
    /// The rows of the list.
    pub fn lines<'a>(&self, frame: &'a Frame) -> Vec<ListLine<'a>> {
        let filter = self.filter.to_lowercase();
        let wanted = |vm: &&VmRow| match self.within {
            Some(within) => vm.pid == within.pid,
            None => vm.name.to_lowercase().contains(&filter) || vm.pid.to_string().contains(&filter),
        };
        let mut vms: Vec<&VmRow> = frame.vms.iter().filter(wanted).collect();
        let larger = |a: &RateFigures, b: &RateFigures| self.sort.of(b).total_cmp(&self.sort.of(a));
        vms.sort_by(|a, b| {
            larger(&a.figures, &b.figures).then_with(|| a.name.cmp(&b.name)).then_with(|| a.pid.cmp(&b.pid))
        });
        let mut lines = Vec::new();
        for vm in vms {
            let mut vcpus: Vec<&TopVcpuRow> = vm.vcpus.iter().collect();
            // Equal ones stay in the order of their numbers.
            vcpus.sort_by(|a, b| larger(&a.figures, &b.figures));
            let vcpus = vcpus.into_iter().map(|vcpu| ListLine { vm, vcpu: Some(vcpu) });
            match self.within {
                Some(RowId { vcpu: Some(_), .. }) => lines.extend(vcpus.filter(|line| Some(line.id()) == self.within)),
                within => {
                    lines.push(ListLine { vm, vcpu: None });
                    if !self.only_vms || within.is_some() {
                        lines.extend(vcpus);
                    }
                }
            }
        }
        lines
    }

    /// Keeps where the time went in this interval; of rows that are gone nothing.
    pub fn remember(&mut self, frame: &Frame) {
        let vms = frame.vms.iter().map(|vm| ListLine { vm, vcpu: None });
        let vcpus = frame.vms.iter().flat_map(|vm| vm.vcpus.iter().map(move |vcpu| ListLine { vm, vcpu: Some(vcpu) }));
        let rows = vms.chain(vcpus).map(|line| (Some(line.id()), line.figures()));
        let mut histories = HashMap::new();
        for (row, figures) in rows.chain([(None, &frame.figures)]) {
            let mut history = self.histories.remove(&row).unwrap_or_default();
            history.push(figures);
            histories.insert(row, history);
        }
        self.histories = histories;
    }

    /// Where the time of a row went in the intervals before what is shown; of none, that of all VMs.
    pub fn history(&self, row: Option<RowId>) -> Option<&History> {
        self.frozen.as_ref().unwrap_or(&self.histories).get(&row)
    }

    /// What a row cost in the last intervals, as bars up to all of its time.
    pub fn past(&self, row: RowId) -> String {
        let costs = self.history(Some(row)).into_iter().flat_map(|history| history.shares(TimePart::Kernel, PAST));
        let bars: String = costs.map(|cost| figure_text::bar((cost * 1e6) as u64, 1_000_000)).collect();
        format!("{bars:>PAST$}")
    }

    /// What is recorded: the VM of the selected row, or all.
    fn target(&self, lines: &[ListLine]) -> RecordTarget {
        let selected = lines.iter().find(|line| Some(line.id()) == self.selected && !self.is_all);
        selected.map_or(RecordTarget::All, |line| RecordTarget::Vm { pid: line.vm.pid, name: line.vm.name.clone() })
    }

    /// The number of the selected row, which is always one of those that there are: at the beginning the costliest VM's.
    pub fn select(&mut self, lines: &[ListLine]) -> Option<usize> {
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
        self.trouble = None;
        if let Some(report) = &mut self.report {
            if !report.key(key.code) {
                self.report = None;
            }
            return;
        }
        if let Some(chooser) = &mut self.chooser {
            if !chooser.key(key.code, &mut self.columns) {
                self.chooser = None;
            }
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
            KeyCode::Char('p' | ' ') => self.pause(),
            KeyCode::Char('o') | KeyCode::F(2) => self.chooser = Some(Chooser::default()),
            KeyCode::Char('R') => self.wanted = Some(self.target(&lines)),
            KeyCode::Char('s' | '>') => self.sort = self.sort.next(false),
            KeyCode::Char('S' | '<') => self.sort = self.sort.next(true),
            KeyCode::Char(letter) if let Some(sort) = ListOrder::of_key(letter) => self.sort = sort,
            KeyCode::Char('v') => self.only_vms = !self.only_vms,
            KeyCode::Char('/') | KeyCode::F(4) if self.within.is_none() => self.typing = true,
            KeyCode::Tab => self.panel = self.panel.next(frame, false),
            KeyCode::BackTab => self.panel = self.panel.next(frame, true),
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

    fn pause(&mut self) {
        self.paused = !self.paused;
        self.frozen = self.paused.then(|| self.histories.clone());
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

    fn go(&mut self, lines: &[ListLine], to: usize) {
        (self.has_begun, self.is_all) = (true, false);
        self.at = to.min(lines.len().saturating_sub(1));
        self.selected = lines.get(self.at).map(ListLine::id);
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

/// The VM that costs most, if any of these costs anything.
fn costliest(lines: &[ListLine]) -> Option<usize> {
    let vms = lines.iter().enumerate().filter(|(_, line)| line.vcpu.is_none() && line.figures().exits_per_s > 0.0);
    let by_cost = |(_, a): &(usize, &ListLine), (_, b): &(usize, &ListLine)| {
        let of = |line: &ListLine| (line.figures().cost.unwrap_or(0.0), line.figures().exits_per_s);
        of(a).partial_cmp(&of(b)).unwrap_or(std::cmp::Ordering::Equal)
    };
    // Of equal ones the first.
    vms.rev().max_by(by_cost).map(|(at, _)| at)
}

#[cfg(test)]
#[path = "state_tests.rs"]
mod tests;
