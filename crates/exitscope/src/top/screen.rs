//! Draws an interval.
//!
//! ```text
//! exitscope top   host, kernel, how many, exits/s                                                time
//! what watching costs
//! VM / vCPU        exits/s   cost  halted   steal   p99  top reason       ← the list; one row is selected
//! ─ the selected row's exits, by reason ─ │ what they were about │ halts, gang exits ← side by side, or one after Tab
//! keys
//! ```

use super::frame::{Figures, Frame};
use super::list::{Column, List, Words, elided, kept};
use super::panels::{self, Chosen};
use super::state::{Line as ListLine, RowId, Sort, State, vcpu_name};
use super::text;
use exitscope_model::{TimePart, encode};
use exitscope_view::{rate, share};
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Style, Stylize};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Clear, Paragraph};

/// From here on the panels stand side by side.
pub const WIDE: u16 = 120;

/// Room for the list's header and rows, and for a panel, at least.
const LIST: u16 = 4;

/// Letters of the filter that are shown, at most.
const FILTER: u16 = 24;

/// Shares from which a row's cost is worth a colour.
const MUCH: f64 = 0.2;
const VERY_MUCH: f64 = 0.5;

/// Draws `frame` as `state` says.
pub fn draw(to: &mut ratatui::Frame, frame: &Frame, state: &mut State) {
    let lines = state.lines(frame);
    let selected = state.select(&lines);
    let wanted_list = (lines.len() + 1).min(usize::from(u16::MAX)) as u16;
    let [head, list, panels, foot] = {
        let area = to.area();
        let rest = area.height.saturating_sub(3);
        let list = wanted_list.clamp(LIST, (rest / 2).max(LIST));
        Layout::vertical([Constraint::Length(2), Constraint::Length(list), Constraint::Fill(1), Constraint::Length(1)])
            .areas(area)
    };
    draw_head(to, head, frame);
    draw_list(to, list, &lines, selected, state, frame);
    if !lines.is_empty() {
        let chosen = Chosen::of(selected.map(|at| lines[at]), frame);
        panels::draw(to, panels, &chosen, state.panel.on(frame));
    }
    draw_foot(to, foot, state, frame);
    if state.help {
        draw_help(to, to.area(), frame);
    }
}

fn draw_head(to: &mut ratatui::Frame, area: Rect, frame: &Frame) {
    let [first, second] = Layout::vertical([Constraint::Length(1); 2]).areas(area);
    let exits: f64 = frame.vms.iter().map(|vm| vm.figures.exits_per_s).sum();
    let time = if frame.time > 0.0 { text::time_of_day(frame.time) } else { String::new() };
    // Where there is no room for both, what was counted goes before the time.
    let beside = time.len() as u16 + 1;
    let (room, has_time) = if first.width > 2 * beside { (first.width - beside, true) } else { (first.width, false) };
    let parts = vec![
        (0, vec!["exitscope top".bold()]),
        (3, vec![Span::raw(format!("  {}", encode::line(&frame.host)))]),
        (4, vec![Span::raw(format!(" {}", frame.kernel))]),
        (2, vec![Span::raw(format!("  {}", text::how_many(frame)))]),
        (1, vec![format!("  {} exits/s", rate(exits)).bold()]),
    ];
    to.render_widget(kept(parts, room), first);
    if has_time {
        to.render_widget(Line::from(time).right_aligned(), first);
    }
    let own = match text::lost(frame) {
        Some(lost) => Line::from(lost).style(Style::new().fg(Color::Red).bold()),
        None if frame.time > 0.0 => {
            let route = if frame.bpf_error.is_some() { "perf events" } else { "BPF" };
            let [cost, ourselves] = text::own(&frame.overhead);
            let mut parts = vec![(0, format!("{route}: {cost}")), (1, format!("; {ourselves}"))];
            parts.extend(text::missed(frame).map(|missed| (2, format!("; {missed}"))));
            kept(parts.into_iter().map(|(rank, text)| (rank, vec![Span::raw(text)])).collect(), second.width)
        }
        None => Line::from("counting…"),
    };
    to.render_widget(own, second);
}

fn draw_list(
    to: &mut ratatui::Frame,
    area: Rect,
    lines: &[ListLine],
    selected: Option<usize>,
    state: &State,
    frame: &Frame,
) {
    let (columns, cells): (Vec<Column>, Vec<Cell>) = columns(area.width >= WIDE, lines, state).into_iter().unzip();
    let list = List::new(columns, (lines.len(), selected), area.height, |at| {
        let line = &lines[at];
        let style = match line.figures().cost {
            _ if line.ended() => Style::new().dim(),
            cost if cost >= VERY_MUCH => Style::new().fg(Color::Red),
            cost if cost >= MUCH => Style::new().fg(Color::Yellow),
            _ => Style::new(),
        };
        (cells.iter().map(|cell| cell(line)).collect(), if line.vcpu.is_none() { style.bold() } else { style })
    });
    let hidden = lines[..list.hidden.0].iter().chain(&lines[lines.len() - list.hidden.1..]);
    let (vms, vcpus): (Vec<&ListLine>, Vec<&ListLine>) = hidden.partition(|line| line.vcpu.is_none());
    let more = [(vms.len(), "more VM"), (vcpus.len(), "more vCPU")].into_iter().filter(|(count, _)| *count > 0);
    let more: Vec<String> = more.map(|(count, what)| text::number_of(count, what)).collect();
    list.draw(to, area, (!more.is_empty()).then(|| format!("and {}", more.join(", "))));
    if lines.is_empty() && area.height > 1 {
        let said = match (frame.time > 0.0, state.filter.is_empty()) {
            (false, _) => "",
            (true, true) => "no virtual machine runs here, or none that we may see",
            (true, false) => "no virtual machine has this in its name or its PID (Esc: show all)",
        };
        to.render_widget(Line::from(said), Rect { y: area.y + 1, height: 1, ..area });
    }
}

/// What a row has in a column.
type Cell<'a> = Box<dyn Fn(&ListLine) -> Words + 'a>;

/// A part of the vCPUs' time.
type Part = (TimePart, fn(&Figures) -> f64);

/// Parts that are a column where any row has some of them: with cost, halted and steal they add up to all.
const BEFORE_HALTED: [Part; 2] = [(TimePart::Guest, |of| of.guest), (TimePart::Polling, |of| of.polling)];
const BEHIND_HALTED: [Part; 2] =
    [(TimePart::Undivided, |of| of.halt_not_divided), (TimePart::Memory, |of| of.waiting_for_memory)];
const BEHIND_STEAL: [Part; 2] = [(TimePart::Stopped, |of| of.stopped), (TimePart::Unknown, |of| of.unknown)];

/// The list's columns.
fn columns<'a>(is_wide: bool, lines: &[ListLine], state: &'a State) -> Vec<(Column, Cell<'a>)> {
    let sorted = |title: &str, sort: Sort| if state.sort == sort { format!("{title}▼") } else { title.to_string() };
    let mut columns: Vec<(Column, Cell)> = Vec::new();
    fn figures<'a>(title: String, rank: u8, least: u16, cell: impl Fn(&Figures) -> String + 'a) -> (Column, Cell<'a>) {
        (Column::figures(title, rank, least), Box::new(move |line| cell(line.figures()).into()))
    }
    let parts = |parts: [Part; 2]| {
        let there = parts.into_iter().filter(|(_, of)| is_wide && lines.iter().any(|line| of(line.figures()) > 0.0));
        there.map(|(part, of)| figures(part.name().to_string(), 8, 7, move |row| share(of(row))))
    };
    let name = move |line: &ListLine| -> Words {
        let ended = if line.ended() { " (ended)" } else { "" };
        match line.vcpu {
            Some(vcpu) => format!("  {}{ended}", vcpu_name(vcpu)).into(),
            None if is_wide => Words::new(line.vm.name.clone(), ended),
            None => Words::new(line.vm.name.clone(), format!(" ({}){ended}", line.vm.pid)),
        }
    };
    columns.push((Column::words(sorted("VM / vCPU", Sort::Name), 0, 16), Box::new(name)));
    if is_wide {
        let pid = |line: &ListLine| line.vcpu.map_or(Some(line.vm.pid), |vcpu| vcpu.tid);
        let pid = move |line: &ListLine| pid(line).map_or(String::new(), |pid| pid.to_string()).into();
        columns.push((Column::figures("PID", 3, 8), Box::new(pid)));
    }
    columns.push(figures(sorted("exits/s", Sort::Exits), 1, 9, |row| rate(row.exits_per_s)));
    columns.push(figures(sorted("cost", Sort::Cost), 2, 6, |row| share(row.cost)));
    columns.extend(parts(BEFORE_HALTED));
    columns.push(figures(sorted("halted", Sort::Halted), 4, 7, |row| share(row.halted)));
    columns.extend(parts(BEHIND_HALTED));
    let steal = |row: &Figures| row.steal.map_or("-".to_string(), share);
    columns.push(figures(sorted("steal", Sort::Steal), 5, 8, steal));
    columns.extend(parts(BEHIND_STEAL));
    columns.push(figures(sorted("p99", Sort::P99), 6, 7, |row| text::length(row.p99_ns)));
    if is_wide {
        columns.push(figures("to user".into(), 9, 7, |row| share(row.to_user_space)));
    }
    let top = |line: &ListLine| {
        let top = line.figures().reasons.first().filter(|row| row.per_s > 0.0 || row.cost > 0.0);
        Words::name(top.map_or("-", |row| &row.name))
    };
    columns.push((Column::words("top reason", 7, 18), Box::new(top)));
    if is_wide {
        let open = |line: &ListLine| {
            let vcpu = line.vcpu?;
            Some(Words::new(vcpu.open_reason.clone()?, format!(" {}", text::length(vcpu.open_ns))))
        };
        columns.push((Column::words("in now", 10, 12), Box::new(move |line| open(line).unwrap_or_default())));
        columns.push((Column::bars("cost, the last intervals"), Box::new(|line| state.past(line.id()).into())));
    }
    columns
}

fn draw_foot(to: &mut ratatui::Frame, area: Rect, state: &State, frame: &Frame) {
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
        say(2, "Tab", state.panel.next(frame, 1).name());
    }
    say(7, "p", if state.paused { "go on" } else { "pause" });
    say(1, "q", "quit");
    if state.paused {
        parts.insert(0, (0, vec![Span::styled("PAUSED ", Style::new().reversed())]));
    }
    to.render_widget(kept(parts, area.width), area);
}

fn draw_help(to: &mut ratatui::Frame, area: Rect, frame: &Frame) {
    const KEYS: &[(&str, &str)] = &[
        ("arrows j k PgUp PgDn", "select a VM or vCPU"),
        ("Enter, Esc", "look into it, and back; Esc again shows details of all VMs"),
        ("Tab", "next list: reasons; ports, MSRs, …; halts; gang exits (POWER)"),
        ("s S", "sort by the next or former column"),
        ("C E H T P N", "sort by cost, exits/s, halted, steal, p99, name"),
        ("/", "filter by name or PID; Esc shows all"),
        ("v", "list vCPUs, or only VMs"),
        ("p Space", "pause, and go on"),
        ("q", "quit"),
    ];
    let mut lines: Vec<Line> = vec![Line::from("exitscope top: keys and columns").bold(), Line::default()];
    lines.extend(
        KEYS.iter().map(|(key, what)| Line::from(vec![Span::from(format!("{key:<22}")).bold(), (*what).into()])),
    );
    lines.push(Line::default());
    let mut say = |text: &'static str| lines.push(Line::from(text));
    say("cost     share of wall time in exits, in KVM and in user space: nothing else");
    say("halted   share of wall time in which vCPUs were blocked by a halt");
    say("steal    share in which threads were runnable and had no CPU");
    say("         with guest, polling and what else there is, on wide terminals, they add up to all");
    say("p99      99 % of exits were shorter; halts left out");
    say("to user  share of exits that KVM handed on to QEMU or another VMM");
    if !frame.has_kvm_exit {
        say("kvm_exit does not fire on this host: only exits to user space have a length;");
        say("what the kernel serves itself is counted as far as its events tell.");
    }
    say("All figures are of the last interval. Any key goes back.");
    to.render_widget(Clear, area);
    to.render_widget(Paragraph::new(lines), area);
}

#[cfg(test)]
#[path = "screen_tests.rs"]
mod tests;
