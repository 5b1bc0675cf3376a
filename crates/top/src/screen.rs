//! Draws an interval.
//!
//! ```text
//! exitscope top   host, kernel, how many, exits/s                                                time
//! the verdict on the last intervals, and the costliest cause
//! what watching costs
//! VM / vCPU        exits/s   cost  guest  halted   steal  top reason    ← the list; one row is selected
//! hidden: columns for which there is no room
//! the selected row's exits, by reason │ what they were about        ← side by side, or one after Tab;
//! its halts, lengths                  │ its timeline, gang exits      lengths and the timeline only side by side
//! keys
//! ```

use crate::choices::ListOrder;
use crate::columns::TopColumn;
use crate::figure_text;
use crate::frame::Frame;
use crate::help;
use crate::line::{ListLine, RowId, vcpu_name};
use crate::list::{Column, List, Words, elided, kept, wrapped};
use crate::panels::{self, Chosen};
use crate::screen_state::ScreenState;
use exitscope_model::encode;
use exitscope_view::rate;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Style, Stylize};
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;

/// From here on the panels stand side by side.
pub const WIDE: u16 = 120;

/// Room for the list's header and rows, and for a panel, at least.
const LIST: u16 = 4;

/// From here on there is room for the verdict, and for what columns are hidden.
const HIGH: u16 = 18;

/// Of so many lines of a terminal, the verdict may have one; and so may what is said of watching.
const HEAD: u16 = 5;

/// Lines for the costliest cause, at most.
const CAUSE: usize = 2;

/// Room in columns of the list, at least.
const NAME: u16 = 16;
const PID: u16 = 8;
const EXITS: u16 = 9;
const FIGURE: u16 = 6;
const REASON: usize = 16;
const OPEN: usize = 24;

/// Letters of the filter that are shown, at most.
const FILTER: u16 = 24;

/// Lines for what went wrong, at most.
const TROUBLE: usize = 3;

/// Shares from which a row's cost is worth a colour.
const MUCH: f64 = 0.2;
const VERY_MUCH: f64 = 0.5;

/// Draws `frame` as `state` says.
pub fn draw(to: &mut ratatui::Frame, frame: &Frame, state: &mut ScreenState) {
    let lines = state.lines(frame);
    let selected = state.select(&lines);
    let area = to.area();
    let shown = shown(&lines, area.width, state);
    let (verdict, watching) = (verdict(frame, area), watching(frame, area));
    let head = 1 + (verdict.len() + watching.len()) as u16;
    let most = (area.height.saturating_sub(1 + head) / 2).max(LIST);
    let left_out = rows(&lines, &shown, selected, state, most).left_out(area.width);
    let hidden: Vec<TopColumn> = left_out.into_iter().map(|at| shown[at - 1]).collect();
    let says_hidden = u16::from(!hidden.is_empty() && area.height >= HIGH && !lines.is_empty());
    let wanted_list = (lines.len() + 1).min(usize::from(u16::MAX)) as u16;
    let trouble = trouble(state, area.width);
    let [head, list, said, panels, foot] = Layout::vertical([
        Constraint::Length(head),
        Constraint::Length(wanted_list.clamp(LIST - says_hidden, most - says_hidden)),
        Constraint::Length(says_hidden),
        Constraint::Fill(1),
        Constraint::Length((trouble.len() as u16).max(1)),
    ])
    .areas(area);
    draw_head(to, head, frame, verdict, watching);
    draw_list(to, list, &lines, &rows(&lines, &shown, selected, state, list.height), state, frame);
    to.render_widget(Line::from(elided(&hidden_columns(&hidden), said.width)).dim(), said);
    if !lines.is_empty() {
        let row = selected.map(|at| lines[at]);
        let history = state.history(row.map(|row| row.id()));
        panels::draw(to, panels, &Chosen::of(row, frame, history), &state.panel.and_further(frame));
    }
    match trouble.is_empty() {
        true => draw_foot(to, foot, state, frame),
        false => to.render_widget(Paragraph::new(trouble).style(Style::new().fg(Color::Red).bold()), foot),
    }
    if state.help {
        help::draw(to, frame);
    }
    if let Some(chooser) = &state.chooser {
        chooser.draw(to, &state.columns, &shown, &hidden);
    }
    if let Some(report) = &mut state.report {
        report.draw(to);
    }
}

/// What went wrong, in lines that take the place of the keys until one is pressed.
fn trouble(state: &ScreenState, width: u16) -> Vec<Line<'static>> {
    let lines = state.trouble.iter().flat_map(|trouble| wrapped(&encode::line(trouble), width));
    lines.take(TROUBLE).map(Line::from).collect()
}

/// The columns that these rows have something of.
fn shown(lines: &[ListLine], width: u16, state: &ScreenState) -> Vec<TopColumn> {
    let mut shown = state.columns.of_rows(lines);
    // Where there is little room, a VM's process is in its name.
    shown.retain(|&id| id != TopColumn::Pid || width >= WIDE || state.columns.is_asked(id));
    shown
}

fn hidden_columns(hidden: &[TopColumn]) -> String {
    let names: Vec<&str> = hidden.iter().map(|id| id.name()).collect();
    format!("hidden: {} (o chooses columns)", names.join(", "))
}

/// The verdict with what makes it doubtful, and the costliest cause; none on small terminals.
fn verdict(frame: &Frame, area: Rect) -> Vec<String> {
    let Some(verdict) = frame.verdict.as_ref().filter(|_| area.height >= HIGH) else { return Vec::new() };
    let text = match figure_text::verdict(verdict) {
        (said, Some(doubts)) if verdict.verdict.is_doubtful => format!("{said}. {doubts}"),
        (said, Some(doubts)) => format!("{said}; {doubts}"),
        (said, None) => said,
    };
    let mut lines = clipped(&encode::line(&text), area.width, usize::from(area.height / HEAD));
    let cause = figure_text::cause(verdict);
    lines.extend(cause.iter().flat_map(|cause| clipped(&encode::line(cause), area.width, CAUSE)));
    lines
}

/// What watching costs, and which events are missing. Where there is room for one line alone, what is missing stays longest.
fn watching(frame: &Frame, area: Rect) -> Vec<Line<'static>> {
    let most = if area.height >= HIGH { usize::from(area.height / HEAD) } else { 1 };
    let (lost, missed) = (figure_text::lost(frame), figure_text::missed(frame));
    if let Some(lost) = lost {
        let text = [Some(lost), missed].into_iter().flatten().collect::<Vec<_>>().join("; ");
        let lines = clipped(&text, area.width, most).into_iter();
        return lines.map(|line| Line::from(line).style(Style::new().fg(Color::Red).bold())).collect();
    }
    if frame.time == 0.0 {
        return vec![Line::from("counting…")];
    }
    let route = if frame.bpf_error.is_some() { "perf events" } else { "BPF" };
    let [cost, ourselves] = figure_text::own(frame);
    let mut parts = vec![(0, format!("{route}: {cost}")), (2, format!("; {ourselves}"))];
    parts.extend(missed.map(|missed| (1, format!("; {missed}"))));
    if most > 1 {
        let text: String = parts.into_iter().map(|part| part.1).collect();
        return clipped(&text, area.width, most).into_iter().map(Line::from).collect();
    }
    vec![kept(parts.into_iter().map(|(rank, text)| (rank, vec![Span::raw(text)])).collect(), area.width)]
}

/// A text in so many lines at most; an ellipsis ends what is longer.
fn clipped(text: &str, width: u16, most: usize) -> Vec<String> {
    let mut lines = wrapped(text, width);
    if lines.len() > most {
        let rest = lines.split_off(most.saturating_sub(1)).join(" ");
        lines.push(elided(&rest, width));
    }
    lines
}

fn draw_head(to: &mut ratatui::Frame, area: Rect, frame: &Frame, verdict: Vec<String>, watching: Vec<Line<'static>>) {
    let own = Constraint::Length(watching.len() as u16);
    let [first, answer, second] = Layout::vertical([Constraint::Length(1), Constraint::Fill(1), own]).areas(area);
    let is_good = frame.verdict.as_ref().is_none_or(|live| live.verdict.is_good || live.verdict.is_doubtful);
    let style = if is_good { Style::new() } else { Style::new().fg(Color::Yellow) };
    let verdict: Vec<Line> = verdict.into_iter().map(Line::from).collect();
    to.render_widget(Paragraph::new(verdict).style(style.bold()), answer);
    let exits: f64 = frame.vms.iter().map(|vm| vm.figures.exits_per_s).sum();
    let time = if frame.time > 0.0 { figure_text::time_of_day(frame.time) } else { String::new() };
    // Where there is no room for both, what was counted goes before the time.
    let beside = time.len() as u16 + 1;
    let (room, has_time) = if first.width > 2 * beside { (first.width - beside, true) } else { (first.width, false) };
    let parts = vec![
        (0, vec!["exitscope top".bold()]),
        (3, vec![Span::raw(format!("  {}", encode::line(&frame.host)))]),
        (4, vec![Span::raw(format!(" {}", frame.kernel))]),
        (2, vec![Span::raw(format!("  {}", figure_text::how_many(frame)))]),
        (1, vec![format!("  {} exits/s", rate(exits)).bold()]),
    ];
    to.render_widget(kept(parts, room), first);
    if has_time {
        to.render_widget(Line::from(time).right_aligned(), first);
    }
    to.render_widget(Paragraph::new(watching), second);
}

/// As many rows of the list as fit into this height.
fn rows(lines: &[ListLine], shown: &[TopColumn], selected: Option<usize>, state: &ScreenState, height: u16) -> List {
    let has_pid = shown.contains(&TopColumn::Pid);
    List::new(columns(shown, state), (lines.len(), selected), height, |at| {
        let line = &lines[at];
        let style = match line.figures().cost.unwrap_or(0.0) {
            _ if line.ended() => Style::new().dim(),
            cost if cost >= VERY_MUCH => Style::new().fg(Color::Red),
            cost if cost >= MUCH => Style::new().fg(Color::Yellow),
            _ => Style::new(),
        };
        let cell = |id: &TopColumn| match id {
            TopColumn::Past => state.past(line.id()).into(),
            id => id.cell(line),
        };
        let cells = [name(line, has_pid)].into_iter().chain(shown.iter().map(cell)).collect();
        (cells, if line.vcpu.is_none() { style.bold() } else { style })
    })
}

fn draw_list(to: &mut ratatui::Frame, area: Rect, lines: &[ListLine], list: &List, state: &ScreenState, frame: &Frame) {
    let hidden = lines[..list.hidden.0].iter().chain(&lines[lines.len() - list.hidden.1..]);
    let (vms, vcpus): (Vec<&ListLine>, Vec<&ListLine>) = hidden.partition(|line| line.vcpu.is_none());
    let more = [(vms.len(), "more VM"), (vcpus.len(), "more vCPU")].into_iter().filter(|(count, _)| *count > 0);
    let more: Vec<String> = more.map(|(count, what)| figure_text::number_of(count, what)).collect();
    list.draw(to, area, (!more.is_empty()).then(|| format!("and {}", more.join(", "))));
    if lines.is_empty() && area.height > 1 {
        let said = match (frame.time > 0.0, state.filter.is_empty()) {
            (false, _) => "",
            (true, true) => "no VM visible; other users' VMs need root",
            (true, false) => "no virtual machine has this in its name or its PID (Esc: show all)",
        };
        to.render_widget(Line::from(said), Rect { y: area.y + 1, height: 1, ..area });
    }
}

/// The list's columns, of which the first is the name.
fn columns(ids: &[TopColumn], state: &ScreenState) -> Vec<Column> {
    let sorted =
        |title: &str, sort: ListOrder| if state.sort == sort { format!("{title}▼") } else { title.to_string() };
    let mut columns = vec![Column::words(sorted("VM / vCPU", ListOrder::Name), 0, NAME)];
    columns.extend(ids.iter().map(|&id| {
        let title = sorted(id.title(), ListOrder::By(id));
        match id {
            TopColumn::Past => Column::bars(id.title()),
            // As wide where there is nothing in it, so that no other column comes and goes.
            TopColumn::TopReason => Column::words(format!("{title:<REASON$}"), id.rank(), REASON as u16),
            TopColumn::Now => Column::words(format!("{title:<OPEN$}"), id.rank(), OPEN as u16),
            TopColumn::Pid => Column::figures(title, id.rank(), PID),
            TopColumn::Exits => Column::figures(title, id.rank(), EXITS),
            _ => Column::figures(title, id.rank(), FIGURE),
        }
    }));
    columns
}

fn name(line: &ListLine, has_pid: bool) -> Words {
    let ended = if line.ended() { " (ended)" } else { "" };
    match line.vcpu {
        Some(vcpu) => format!("  {}{ended}", vcpu_name(vcpu)).into(),
        None if has_pid => Words::new(line.vm.name.clone(), ended),
        None => Words::new(line.vm.name.clone(), format!(" ({}){ended}", line.vm.pid)),
    }
}

fn draw_foot(to: &mut ratatui::Frame, area: Rect, state: &ScreenState, frame: &Frame) {
    if state.typing {
        // The end of what is typed is what is looked at.
        let typed: String = state.filter.chars().rev().collect();
        let typed: String = elided(&typed, area.width.saturating_sub(24)).chars().rev().collect();
        return to.render_widget(Line::from(format!("filter by name or PID: {typed}_")), area);
    }
    let mut parts = Vec::new();
    let mut say = |rank, key: &'static str, what: &str| {
        parts.push((rank, vec![Span::styled(key, Style::new().bold()), Span::raw(format!(" {what}  "))]));
    };
    say(1, "?", "help");
    say(6, "s", &format!("sort: {}", state.sort.name()));
    match state.within {
        None if state.filter.is_empty() => {
            say(5, "/", "filter");
            if !state.is_all {
                say(8, "Esc", "all VMs");
            }
        }
        None => say(5, "/", &format!("filter: {}", elided(&state.filter, FILTER))),
        Some(_) => say(3, "Esc", "back"),
    }
    if !matches!(state.within, Some(RowId { vcpu: Some(_), .. })) && !state.is_all {
        say(4, "Enter", "into");
    }
    if area.width < WIDE {
        say(2, "Tab", state.panel.next(frame, false).name());
    }
    say(9, "o", "columns");
    say(8, "R", "record");
    say(7, "p", if state.paused { "go on" } else { "pause" });
    say(1, "q", "quit");
    if let Some(progress) = &state.progress {
        let said = elided(&encode::line(progress), area.width.saturating_sub(2)) + "  ";
        parts.insert(0, (0, vec![Span::styled(said, Style::new().fg(Color::Green))]));
    }
    if state.paused {
        parts.insert(0, (0, vec![Span::styled("PAUSED ", Style::new().reversed())]));
    }
    to.render_widget(kept(parts, area.width), area);
}

#[cfg(test)]
#[path = "screen_tests.rs"]
mod tests;
