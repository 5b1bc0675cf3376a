//! Draws an interval.
//!
//! ```text
//! exitscope top   host, kernel, how many, exits/s                                                time
//! what watching costs
//! VM / vCPU        exits/s   cost   idle  waiting   p99  top reason       ← the list; one row is selected
//! ─ the selected row's exits, by reason ─ │ what they were about │ halts, gang exits ← side by side, or one after Tab
//! keys
//! ```

use super::frame::{Figures, Frame, GangRow, Row as Group};
use super::kernel::KvmHalts;
use super::state::{Line as ListLine, Panel, RowId, Sort, State, vcpu_name};
use super::text;
use exitscope_view::{rate, share};
use ratatui::layout::{Alignment, Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style, Stylize};
use ratatui::text::{Line, Span, Text};
use ratatui::widgets::{Cell, Clear, Paragraph, Row, Table, TableState, Wrap};

/// From here on the panels stand side by side.
const WIDE: u16 = 120;

/// From here on a list of groups has room for who handled them, and for histograms.
const WITH_USERS: u16 = 72;
const WITH_BARS: u16 = 90;

/// Room for the list's header and rows, and for a panel, at least.
const LIST: u16 = 4;

/// Shares from which a row's cost is worth a colour.
const MUCH: f64 = 0.2;
const VERY_MUCH: f64 = 0.5;

/// Draws `frame` as `state` says; `no_kvm`: why KVM's own counters are not there.
pub fn draw(to: &mut ratatui::Frame, frame: &Frame, state: &mut State, no_kvm: Option<&str>) {
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
    let chosen = selected.map(|at| lines[at]);
    draw_panels(to, panels, chosen, state.panel.on(frame), no_kvm);
    draw_foot(to, foot, state, frame);
    if state.help {
        draw_help(to, to.area(), frame);
    }
}

fn draw_head(to: &mut ratatui::Frame, area: Rect, frame: &Frame) {
    let [first, second] = Layout::vertical([Constraint::Length(1); 2]).areas(area);
    let exits: f64 = frame.vms.iter().map(|vm| vm.figures.exits_per_s).sum();
    let time = text::time_of_day(frame.time);
    let [left, right] = Layout::horizontal([Constraint::Fill(1), Constraint::Length(time.len() as u16)]).areas(first);
    let what = Line::from(vec![
        "exitscope top".bold(),
        format!("  {} {}  {}  ", frame.host, frame.kernel, text::how_many(frame)).into(),
        format!("{} exits/s", rate(exits)).bold(),
    ]);
    to.render_widget(what, left);
    if frame.time > 0.0 {
        to.render_widget(Line::from(time).right_aligned(), right);
    }
    let own = match text::lost(frame) {
        Some(lost) => Line::from(lost).style(Style::new().fg(Color::Red).bold()),
        None if frame.time > 0.0 => {
            let route = if frame.not_bpf.is_some() { "perf events" } else { "BPF" };
            Line::from(format!("{route}: {}", text::own(&frame.own)))
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
    let wide = area.width >= WIDE;
    let sorted = |title: &str, sort: Sort| if state.sort == sort { format!("{title}▼") } else { title.to_string() };
    let mut titles = vec![
        (sorted("VM / vCPU", Sort::Name), Alignment::Left, Constraint::Min(16)),
        (sorted("exits/s", Sort::Exits), Alignment::Right, Constraint::Length(9)),
        (sorted("cost", Sort::Cost), Alignment::Right, Constraint::Length(6)),
        (sorted("idle", Sort::Idle), Alignment::Right, Constraint::Length(6)),
        (sorted("waiting", Sort::Waiting), Alignment::Right, Constraint::Length(8)),
        (sorted("p99", Sort::P99), Alignment::Right, Constraint::Length(7)),
        ("top reason".to_string(), Alignment::Left, Constraint::Length(if wide { 24 } else { 18 })),
    ];
    if wide {
        titles.insert(6, ("to user".to_string(), Alignment::Right, Constraint::Length(7)));
        titles.insert(1, ("PID".to_string(), Alignment::Right, Constraint::Length(8)));
        titles.push(("in now".to_string(), Alignment::Left, Constraint::Length(26)));
    }
    let header = titles.iter().map(|(title, alignment, _)| cell(title.clone(), *alignment));
    let rows = lines.iter().map(|line| {
        let mut cells = list_cells(line, wide);
        let style = match line.figures().cost {
            _ if line.ended() => Style::new().dim(),
            cost if cost >= VERY_MUCH => Style::new().fg(Color::Red),
            cost if cost >= MUCH => Style::new().fg(Color::Yellow),
            _ => Style::new(),
        };
        if line.vcpu.is_none() {
            cells[0] = cells[0].clone().style(Style::new().bold());
        }
        Row::new(cells).style(style)
    });
    let table = Table::new(rows, titles.iter().map(|title| title.2))
        .header(Row::new(header).style(Style::new().reversed()))
        .row_highlight_style(Style::new().add_modifier(Modifier::REVERSED));
    let mut place = TableState::default().with_selected(selected);
    to.render_stateful_widget(table, area, &mut place);
    if lines.is_empty() && area.height > 1 {
        let said = match (frame.time > 0.0, state.filter.is_empty()) {
            (false, _) => "",
            (true, true) => "no virtual machine runs here, or none that we may see",
            (true, false) => "no virtual machine has this in its name or its PID (Esc: show all)",
        };
        to.render_widget(Line::from(said), Rect { y: area.y + 1, height: 1, ..area });
    }
}

fn list_cells(line: &ListLine, wide: bool) -> Vec<Cell<'static>> {
    let figures = line.figures();
    let mut name = match line.vcpu {
        Some(vcpu) => format!("  {}", vcpu_name(vcpu)),
        None if wide => line.vm.name.clone(),
        None => format!("{} ({})", line.vm.name, line.vm.pid),
    };
    if line.ended() {
        name.push_str(" (ended)");
    }
    let top = figures.reasons.first().filter(|row| row.per_s > 0.0 || row.cost > 0.0);
    let right = |text: String| cell(text, Alignment::Right);
    let mut cells = vec![
        cell(name, Alignment::Left),
        right(rate(figures.exits_per_s)),
        right(share(figures.cost)),
        right(share(figures.idle)),
        right(figures.waiting.map_or("-".to_string(), share)),
        right(text::length(figures.p99_ns)),
        cell(top.map_or("-".to_string(), |row| row.name.clone()), Alignment::Left),
    ];
    if wide {
        cells.insert(6, right(share(figures.to_user)));
        let pid = match line.vcpu {
            None => Some(line.vm.pid),
            Some(vcpu) => vcpu.tid,
        };
        cells.insert(1, right(pid.map_or(String::new(), |pid| pid.to_string())));
        let open = line.vcpu.and_then(|vcpu| Some(format!("{} {}", vcpu.open.as_ref()?, text::length(vcpu.open_ns))));
        cells.push(cell(open.unwrap_or_default(), Alignment::Left));
    }
    cells
}

fn draw_panels(to: &mut ratatui::Frame, area: Rect, chosen: Option<ListLine>, panel: Panel, no_kvm: Option<&str>) {
    let Some(line) = chosen else { return };
    let figures = line.figures();
    let halts = line.vm.kvm_halts.as_ref();
    let gangs = line.vm.gangs.as_ref();
    let name = line.name();
    let titles = [format!("{name}: exits"), format!("{name}: about what"), format!("{name}: halts")];
    let [reasons, about, halted] = titles;
    let ganged = format!("{}: gang exits", line.vm.name);
    if area.width < WIDE {
        return match panel {
            Panel::Reasons => draw_groups(to, area, reasons, &figures.reasons),
            Panel::About => draw_groups(to, area, about, &figures.about),
            Panel::Halts => draw_halts(to, area, halted, figures, halts, no_kvm),
            Panel::Gangs => draw_gangs(to, area, ganged, gangs),
        };
    }
    let [left, _, right] =
        Layout::horizontal([Constraint::Fill(3), Constraint::Length(1), Constraint::Fill(2)]).areas(area);
    let rows = (figures.reasons.len() as u16).saturating_add(2);
    let [upper, lower] =
        Layout::vertical([Constraint::Length(rows.min(area.height * 2 / 3)), Constraint::Fill(1)]).areas(left);
    draw_groups(to, upper, reasons, &figures.reasons);
    draw_halts(to, lower, halted, figures, halts, no_kvm);
    let gangs_height = if gangs.is_some() { right.height / 2 } else { 0 };
    let [right, below] = Layout::vertical([Constraint::Fill(1), Constraint::Length(gangs_height)]).areas(right);
    draw_groups(to, right, about, &figures.about);
    if gangs.is_some() {
        draw_gangs(to, below, ganged, gangs);
    }
}

/// A list of groups: reasons, or what exits were about.
fn draw_groups(to: &mut ratatui::Frame, area: Rect, title: String, groups: &[Group]) {
    let with_bars = area.width >= WITH_BARS;
    let mut titles = vec![
        (title, Alignment::Left, Constraint::Min(18)),
        ("/s".to_string(), Alignment::Right, Constraint::Length(8)),
        ("cost".to_string(), Alignment::Right, Constraint::Length(6)),
        ("mean".to_string(), Alignment::Right, Constraint::Length(6)),
        ("p50".to_string(), Alignment::Right, Constraint::Length(6)),
        ("p99".to_string(), Alignment::Right, Constraint::Length(6)),
    ];
    let with_users = area.width >= WITH_USERS;
    if with_users {
        titles.push(("to user".to_string(), Alignment::Right, Constraint::Length(7)));
    }
    if with_bars {
        titles.push((text::BARS_TITLE.to_string(), Alignment::Left, Constraint::Length(24)));
    }
    let header = titles.iter().map(|(title, alignment, _)| cell(title.clone(), *alignment));
    let rows = groups.iter().map(|group| {
        let name = match group.kind {
            "reason" | "halt" => group.name.clone(),
            kind => format!("{kind} {}", group.name),
        };
        let right = |text: String| cell(text, Alignment::Right);
        let mut cells = vec![cell(name, Alignment::Left), right(rate(group.per_s)), right(share(group.cost))];
        cells.extend([group.mean_ns, group.p50_ns, group.p99_ns].map(|ns| right(text::length(ns))));
        if with_users {
            cells.push(right(share(group.to_user)));
        }
        if with_bars {
            cells.push(cell(text::bars(&group.lengths), Alignment::Left));
        }
        let quiet = group.per_s == 0.0 && group.cost == 0.0;
        Row::new(cells).style(if quiet { Style::new().dim() } else { Style::new() })
    });
    let table = Table::new(rows, titles.iter().map(|title| title.2)).header(header_row(header));
    to.render_widget(table, area);
}

fn draw_halts(
    to: &mut ratatui::Frame,
    area: Rect,
    title: String,
    figures: &Figures,
    kvm: Option<&KvmHalts>,
    no_kvm: Option<&str>,
) {
    let [list, own, rest] = Layout::vertical([
        Constraint::Length(figures.halts.len() as u16 + 1),
        Constraint::Length(if kvm.is_some() { 4 } else { 0 }),
        Constraint::Fill(1),
    ])
    .areas(area);
    let header = [title, "/s".into(), "share".into(), "mean".into(), "p99".into(), text::BARS_TITLE.into()];
    let alignments =
        [Alignment::Left, Alignment::Right, Alignment::Right, Alignment::Right, Alignment::Right, Alignment::Left];
    let aligned =
        |cells: [String; 6]| Row::new(cells.into_iter().zip(alignments).map(|(text, alignment)| cell(text, alignment)));
    let all: f64 = figures.halts.iter().map(|row| row.per_s).sum();
    let rows = figures.halts.iter().map(|row| {
        aligned([
            row.name.clone(),
            rate(row.per_s),
            share(if all > 0.0 { row.per_s / all } else { 0.0 }),
            text::length(row.mean_ns),
            text::length(row.p99_ns),
            text::bars(&row.lengths),
        ])
    });
    let widths = [
        Constraint::Min(18),
        Constraint::Length(8),
        Constraint::Length(6),
        Constraint::Length(6),
        Constraint::Length(6),
        Constraint::Length(24),
    ];
    let reversed = Style::new().reversed();
    to.render_widget(Table::new(rows, widths).header(aligned(header).style(reversed)), list);
    if let Some(halts) = kvm {
        let header = [
            "KVM, since the VM began".to_string(),
            "count".into(),
            "share".into(),
            "mean".into(),
            "time".into(),
            text::BARS_TITLE.into(),
        ];
        let rows = text::kvm_halts(halts)
            .map(|row| aligned([row.name.into(), row.count, row.share, row.mean, row.time, text::bars(row.lengths)]));
        to.render_widget(Table::new(rows, widths).header(aligned(header).style(reversed)), own);
    }
    let mut said = Vec::new();
    if figures.halts.is_empty() {
        said.push("no halt has ended in KVM since watching began".to_string());
    }
    if let Some(ns) = figures.poll_ns {
        said.push(format!("KVM polls for up to {} before it sleeps", text::length(Some(ns.into()))));
    }
    match (kvm, no_kvm) {
        (Some(halts), _) => said.push(text::kvm_source(halts)),
        (None, Some(why)) => said.push(text::no_kvm(why)),
        (None, None) => {}
    }
    let said = Text::from(said.into_iter().map(Line::from).collect::<Vec<_>>());
    to.render_widget(Paragraph::new(said).wrap(Wrap { trim: true }), rest);
}

/// The runs of a VM's virtual cores, and what forced others out.
fn draw_gangs(to: &mut ratatui::Frame, area: Rect, title: String, gangs: Option<&GangRow>) {
    let Some(gangs) = gangs else {
        return to.render_widget(Line::from(format!("{title}: none, its vCPUs run each by itself")), area);
    };
    let [said, list] = Layout::vertical([Constraint::Length(2), Constraint::Fill(1)]).areas(area);
    let lines = text::gangs(gangs).map(Line::from);
    to.render_widget(Paragraph::new(Text::from(lines.to_vec())), said);
    let header = [title, "runs/s".into(), "forced/s".into(), "lost".into()];
    let alignments = [Alignment::Left, Alignment::Right, Alignment::Right, Alignment::Right];
    let header = header.into_iter().zip(alignments).map(|(title, alignment)| cell(title, alignment));
    let rows = gangs.causes.iter().map(|cause| {
        let name = format!("vCPU {} {}", cause.vcpu, cause.reason);
        let cells = [name, rate(cause.runs_per_s), rate(cause.forced_per_s), share(cause.lost)];
        Row::new(cells.into_iter().zip(alignments).map(|(text, alignment)| cell(text, alignment)))
    });
    let widths = [Constraint::Min(18), Constraint::Length(8), Constraint::Length(8), Constraint::Length(6)];
    to.render_widget(Table::new(rows, widths).header(header_row(header)), list);
}

fn draw_foot(to: &mut ratatui::Frame, area: Rect, state: &State, frame: &Frame) {
    if state.typing {
        return to.render_widget(Line::from(format!("filter by name or PID: {}_", state.filter)), area);
    }
    let mut spans = Vec::new();
    let mut say = |key: &'static str, what: String| {
        spans.push(Span::styled(key, Style::new().bold()));
        spans.push(Span::raw(format!(" {what}  ")));
    };
    say("?", "help".into());
    say("s", format!("sort: {}", state.sort.name()));
    match state.within {
        None if state.filter.is_empty() => say("/", "filter".into()),
        None => say("/", format!("filter: {}", state.filter)),
        Some(_) => say("Esc", "back".into()),
    }
    if !matches!(state.within, Some(RowId { vcpu: Some(_), .. })) {
        say("Enter", "into".into());
    }
    if area.width < WIDE {
        say("Tab", state.panel.next(frame, 1).name().into());
    }
    say("p", if state.paused { "go on".into() } else { "pause".into() });
    say("q", "quit".into());
    if state.paused {
        spans.insert(0, Span::styled("PAUSED ", Style::new().reversed()));
    }
    to.render_widget(Line::from(spans), area);
}

fn draw_help(to: &mut ratatui::Frame, area: Rect, frame: &Frame) {
    const KEYS: &[(&str, &str)] = &[
        ("arrows j k PgUp PgDn", "select a VM or vCPU"),
        ("Enter, Esc", "look into it, and back"),
        ("Tab", "next list: reasons; ports, MMIO, MSRs, …; halts; on POWER gang exits"),
        ("s S", "sort by the next or former column"),
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
    say("cost     share of wall time in exits: in KVM and in user space; never halts");
    say("idle     share of wall time in which vCPUs had nothing to do");
    say("waiting  share in which threads could run and had no CPU; may lie in cost");
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

fn cell(text: String, alignment: Alignment) -> Cell<'static> {
    Cell::from(Text::from(text).alignment(alignment))
}

fn header_row<'a>(cells: impl Iterator<Item = Cell<'a>>) -> Row<'a> {
    Row::new(cells).style(Style::new().reversed())
}

#[cfg(test)]
#[path = "screen_tests.rs"]
mod tests;
