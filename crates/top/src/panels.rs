//! What is shown below the list: of the chosen VM or vCPU, or of all VMs where none is chosen.
//!
//! ```text
//! reasons ┬─┬ what they were about          side by side from WIDE on, each as wide as what it holds;
//! halts ──┤ ├ timeline                      else one of them, and Tab shows the next
//! lengths ┘ └ gang exits                    lengths where there is room for all of them
//! ```

use crate::choices::Panel;
use crate::figure_text::{self, measured};
use crate::frame::{Frame, RateFigures, TopGroupRow as Group, VmRow};
use crate::history::History;
use crate::line::{ListLine, vcpu_name};
use crate::list::{BARS, Column, List, Words, wrapped};
use crate::screen::WIDE;
use crate::timeline::PartsTimeline;
use exitscope_live::KvmHalts;
use exitscope_model::encode;
use exitscope_view::{length, rate, share, thousands};
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::Style;
use ratatui::text::{Line, Text};
use ratatui::widgets::Paragraph;
use std::borrow::Cow;

/// Room for names in lists of groups, at least, and for figures, so that columns do not jump.
const NAME: u16 = 22;
const SHARE: u16 = 6;
const LENGTH: u16 = 6;
const RATE: u16 = 8;

/// Rows of reasons that stay where halts want their room: a header and three.
const FEW_ROWS: u16 = 4;

/// Rows of what exits were about that stay where the timeline wants its room: a header, six, and a blank one.
const ABOUT_ROWS: u16 = 8;

/// Columns of the longest bar of how long exits took.
const LONGEST_BAR: u16 = 48;

/// What is chosen: a VM, one of its vCPUs, or all VMs.
pub struct Chosen<'a> {
    name: Words,
    figures: &'a RateFigures,
    vms: Vec<&'a VmRow>,
    /// KVM's own counters, of whole VMs.
    kvm: Option<Cow<'a, KvmHalts>>,
    is_vcpu: bool,
    /// Where its time went.
    history: Option<&'a History>,
    /// Length of an interval.
    seconds: f64,
}

impl<'a> Chosen<'a> {
    /// Of a row of the list, or of all.
    pub fn of(line: Option<ListLine<'a>>, frame: &'a Frame, history: Option<&'a History>) -> Chosen<'a> {
        let Some(line) = line else {
            let mut sum: Option<KvmHalts> = None;
            for halts in frame.vms.iter().filter_map(|vm| vm.kvm_halts.clone()) {
                *sum.get_or_insert_default() += halts;
            }
            return Chosen {
                name: "all VMs".into(),
                figures: &frame.figures,
                vms: frame.vms.iter().collect(),
                kvm: sum.map(Cow::Owned),
                is_vcpu: false,
                history,
                seconds: frame.seconds,
            };
        };
        let vcpu = line.vcpu.map_or(String::new(), |vcpu| format!(" {}", vcpu_name(vcpu)));
        let is_other = |vm: &&VmRow| vm.name == line.vm.name && vm.pid != line.vm.pid;
        let pid = frame.vms.iter().find(is_other).map_or(String::new(), |_| format!(" ({})", line.vm.pid));
        Chosen {
            name: Words::new(line.vm.name.clone(), pid + &vcpu),
            figures: line.figures(),
            vms: vec![line.vm],
            kvm: line.vm.kvm_halts.as_ref().map(Cow::Borrowed),
            is_vcpu: line.vcpu.is_some(),
            history,
            seconds: frame.seconds,
        }
    }

    fn title(&self, what: &str) -> Words {
        self.name.clone().followed_by(&format!(": {what}"))
    }
}

/// Draws the first panel and, below it, as many of the next as there is room for; or all where they stand side by side.
pub fn draw(to: &mut ratatui::Frame, area: Rect, chosen: &Chosen, panels: &[Panel]) {
    let reasons = |height| groups(chosen.title("exits"), &chosen.figures.reasons, height);
    let about = |height| groups(chosen.title("about what"), &chosen.figures.subjects, height);
    if area.width < WIDE {
        return draw_stacked(to, area, chosen, panels);
    }
    let above = reasons_height(chosen, area.height);
    let has_gangs = chosen.vms.iter().any(|vm| vm.gangs.is_some());
    let below = if has_gangs { area.height / 2 } else { 0 };
    let (reasons, halts) = (reasons(above), halts(chosen, area.height - above));
    let timeline = PartsTimeline::of(chosen.title("timeline"), chosen.history, chosen.figures, chosen.seconds);
    let room = area.height - below;
    let (upper_right, middle) = timeline.as_ref().map_or((room, 0), |timeline| timeline_height(chosen, timeline, room));
    let timeline = timeline.filter(|_| middle > 0);
    let (about, gangs) = (about(upper_right), gangs(chosen, below));
    let right = right_width(area.width, [&reasons, &halts], [&about, &gangs], timeline.is_some());
    let [left, _, right] =
        Layout::horizontal([Constraint::Fill(1), Constraint::Length(1), Constraint::Length(right)]).areas(area);
    let [upper, lower] = Layout::vertical([Constraint::Length(above), Constraint::Fill(1)]).areas(left);
    draw_list(to, upper, &reasons);
    draw_halts_and_lengths(to, lower, chosen, &halts);
    let rows =
        [Constraint::Length(upper_right), Constraint::Length(middle), Constraint::Fill(1), Constraint::Length(below)];
    let [upper, middle, _, lower] = Layout::vertical(rows).areas(right);
    draw_list(to, upper, &about);
    if let Some(timeline) = timeline {
        timeline.draw(to, middle);
    }
    if has_gangs {
        draw_gangs(to, lower, chosen);
    }
}

/// Draws halts, and below them how long the other exits took, if there is room for all of both.
fn draw_halts_and_lengths(to: &mut ratatui::Frame, area: Rect, chosen: &Chosen, halts: &List) {
    let halts_rows = halts.height().saturating_add(said_rows(chosen, area.width)).min(area.height);
    let lengths = lengths(chosen, area.width);
    let below = area.height - halts_rows;
    let has_lengths = lengths.height() > 1 && lengths.height() < below;
    let parts = [Constraint::Length(if has_lengths { halts_rows + 1 } else { area.height }), Constraint::Fill(1)];
    let [upper, lower] = Layout::vertical(parts).areas(area);
    draw_halts(to, upper, chosen, halts);
    if has_lengths {
        draw_list(to, lower, &lengths);
    }
}

/// Draws panels one below the other, with a blank row between, each as high as what it holds.
fn draw_stacked(to: &mut ratatui::Frame, area: Rect, chosen: &Chosen, panels: &[Panel]) {
    let mut room = area;
    for (at, panel) in panels.iter().enumerate() {
        if at > 0 && room.height < FEW_ROWS {
            return;
        }
        let rows = match panel {
            Panel::Reasons | Panel::About => {
                let (what, rows) = match panel {
                    Panel::Reasons => ("exits", &chosen.figures.reasons),
                    _ => ("about what", &chosen.figures.subjects),
                };
                let list = groups(chosen.title(what), rows, room.height);
                draw_list(to, room, &list);
                list.height()
            }
            Panel::Halts => {
                let list = halts(chosen, room.height);
                draw_halts(to, room, chosen, &list);
                list.height().saturating_add(said_rows(chosen, room.width))
            }
            Panel::Gangs => {
                draw_gangs(to, room, chosen);
                room.height
            }
        };
        let used = rows.saturating_add(1).min(room.height);
        room = Rect { y: room.y + used, height: room.height - used, ..room };
    }
}

/// How wide the right side is: as what it holds if that fits, without histograms if need be, else its part of what there is.
fn right_width(width: u16, left: [&List; 2], right: [&List; 2], has_timeline: bool) -> u16 {
    let room = width - 1;
    let needs = |lists: [&List; 2], rank| u32::from(lists.map(|list| list.width(rank)).into_iter().max().unwrap_or(0));
    let (left, left_bare) = (needs(left, BARS), needs(left, BARS - 1));
    let (least, most) = if has_timeline { PartsTimeline::width() } else { (0, 0) };
    let right_bare = needs(right, BARS - 1).max(least.into());
    let right = needs(right, BARS).max(most.into());
    let room = u32::from(room);
    let wanted = match () {
        () if left + right <= room => right + (room - left - right) / 2,
        () if left + right_bare <= room => right_bare,
        () if left_bare + right_bare <= room => right_bare + (room - left_bare - right_bare) / 2,
        () => room * right_bare / (left_bare + right_bare),
    };
    wanted.min(room) as u16
}

/// How many rows what exits were about gets above the timeline, with a blank one, and how many that: none if not all of its
/// parts fit.
fn timeline_height(chosen: &Chosen, timeline: &PartsTimeline, height: u16) -> (u16, u16) {
    let most = usize::from((height / 2).max(ABOUT_ROWS).min(height));
    let about = chosen.figures.subjects.len().saturating_add(2).min(most) as u16;
    let rows = timeline.height(height - about);
    if rows <= height - about { (about, rows) } else { (height, 0) }
}

/// How many rows the reasons get of these, above the halts.
fn reasons_height(chosen: &Chosen, height: u16) -> u16 {
    let wanted = chosen.figures.reasons.len().saturating_add(2).min(usize::from(height)) as u16;
    let halts = halts_height(chosen);
    let said = said_of_halts(chosen).len() as u16;
    let roomy = height.saturating_sub(halts + 2 * said + 1);
    let tight = height.saturating_sub(halts).max(FEW_ROWS).min(height / 2);
    wanted.min(roomy.max(tight)).min(height)
}

fn draw_list(to: &mut ratatui::Frame, area: Rect, list: &List) {
    let more = list.hidden.1;
    list.draw(to, area, (more > 0).then(|| format!("and {} more", thousands(more as u64))));
}

/// Groups: reasons, or what exits were about.
fn groups(title: Words, groups: &[Group], height: u16) -> List {
    let columns = vec![
        Column::words(title, 0, NAME),
        Column::figures("/s", 1, RATE),
        Column::figures("cost", 2, SHARE),
        Column::figures("mean", 4, LENGTH),
        Column::figures("p50", 5, LENGTH),
        Column::figures("p99", 3, LENGTH),
        Column::figures("to user", 6, 0),
        Column::bars(figure_text::BARS_TITLE),
    ];
    List::new(columns, (groups.len(), None), height, |at| {
        let group = &groups[at];
        let mut cells = vec![Words::name(group.label()), rate(group.per_s).into(), measured(group.cost).into()];
        cells.extend([group.mean_ns, group.p50_ns, group.p99_ns].map(|ns| length(ns).into()));
        cells.extend([measured(group.to_user_space).into(), figure_text::bars(&group.histogram).into()]);
        let is_quiet = group.per_s == 0.0 && group.cost.is_none_or(|cost| cost == 0.0);
        (cells, if is_quiet { Style::new().dim() } else { Style::new() })
    })
}

/// Rows of halts, and KVM's own: a header above each.
fn halts_height(chosen: &Chosen) -> u16 {
    let kvm = if chosen.kvm.is_some() { 4 } else { 0 };
    chosen.figures.halts.len() as u16 + 1 + kvm
}

/// Halts, and below them what KVM itself has counted, if there is room for all of that.
fn halts(chosen: &Chosen, height: u16) -> List {
    let halts = &chosen.figures.halts;
    let all: f64 = halts.iter().map(|row| row.per_s).sum();
    let columns = vec![
        Column::words(chosen.title("halts"), 0, NAME),
        Column::figures("/s", 1, RATE),
        Column::figures("share", 2, SHARE),
        Column::figures("mean", 4, LENGTH),
        Column::figures("p99", 3, LENGTH),
        Column::bars(figure_text::BARS_TITLE),
    ];
    let mut list = List::new(columns, (halts.len(), None), height, |at| {
        let row = &halts[at];
        let cells = vec![
            Words::name(row.name.clone()),
            rate(row.per_s).into(),
            share(if all > 0.0 { row.per_s / all } else { 0.0 }).into(),
            length(row.mean_ns).into(),
            length(row.p99_ns).into(),
            figure_text::bars(&row.histogram).into(),
        ];
        (cells, Style::new())
    });
    if let Some(kvm) = chosen.kvm.as_deref().filter(|_| halts_height(chosen) <= height) {
        let since = if chosen.vms.len() > 1 { "KVM, since VMs began" } else { "KVM, since the VM began" };
        list.push([since, "count", "share", "mean", "time", figure_text::BARS_TITLE].map(Words::from).to_vec());
        for row in figure_text::kvm_halts(kvm) {
            let figures = [row.count, row.share, row.mean, row.time, figure_text::bars(row.lengths)].map(Words::from);
            list.push_row([vec![Words::name(row.name)], figures.to_vec()].concat());
        }
    }
    list
}

/// Rows that the lines below the table of halts take.
fn said_rows(chosen: &Chosen, width: u16) -> u16 {
    let said = said_of_halts(chosen);
    said.iter().flat_map(|line| wrapped(line, width)).count().min(usize::from(u16::MAX)) as u16
}

/// How long exits took, halts left out: a row for each doubling, from the first of which there are some to the last.
fn lengths(chosen: &Chosen, width: u16) -> List {
    let rows = figure_text::by_length(&chosen.figures.histogram);
    let all: u64 = rows.iter().map(|row| row.1).sum();
    let most = rows.iter().map(|row| row.1).max().unwrap_or(0);
    let title = chosen.title("lengths of exits, halts left out");
    let room = width.saturating_sub(title.width().max(NAME) + RATE + SHARE + 3).min(LONGEST_BAR);
    let columns = vec![
        Column::words(title, 0, NAME),
        Column::figures("/s", 1, RATE),
        Column::figures("share", 2, SHARE),
        Column::bars(""),
    ];
    List::new(columns, (rows.len(), None), u16::MAX, |at| {
        let (name, count) = &rows[at];
        let per_s = if chosen.seconds > 0.0 { *count as f64 / chosen.seconds } else { 0.0 };
        let part = share(*count as f64 / all.max(1) as f64);
        let bar = figure_text::lying_bar(*count, most, room.into());
        (vec![Words::name(name.clone()), rate(per_s).into(), part.into(), bar.into()], Style::new())
    })
}

fn draw_halts(to: &mut ratatui::Frame, area: Rect, chosen: &Chosen, list: &List) {
    let rows = list.height().min(area.height);
    let [upper, lower] = Layout::vertical([Constraint::Length(rows), Constraint::Fill(1)]).areas(area);
    draw_list(to, upper, list);
    let mut said = said_of_halts(chosen);
    if chosen.kvm.is_some() && halts_height(chosen) > area.height {
        said.insert(0, "KVM's own counters need a higher terminal".to_string());
    }
    draw_said(to, lower, &said);
}

/// The lines below the table of halts.
fn said_of_halts(chosen: &Chosen) -> Vec<String> {
    let mut said = Vec::new();
    if chosen.figures.halts.is_empty() {
        said.push("no halt has ended in KVM since watching began".to_string());
    }
    match chosen.figures.poll_ns {
        None => {}
        Some(0) => said.push("KVM does not poll before it sleeps".to_string()),
        Some(ns) => said.push(format!("KVM polls for up to {} before it sleeps", length(Some(ns.into())))),
    }
    if let Some(kvm) = &chosen.kvm {
        let whole = if chosen.is_vcpu { ", of the whole VM" } else { "" };
        said.push(format!("{}{whole}", figure_text::kvm_source(kvm)));
    }
    said.extend(figure_text::no_kvm(&chosen.vms));
    said
}

/// The runs of a VM's virtual cores, and what forced others out; of several VMs, how each fares.
fn gangs(chosen: &Chosen, height: u16) -> List {
    let (vms, causes) = match &chosen.vms[..] {
        [vm] => (Vec::new(), vm.gangs.as_ref().map_or(&[][..], |gangs| &gangs.causes)),
        vms => (vms.iter().filter_map(|vm| Some((vm, vm.gangs.as_ref()?))).collect(), &[][..]),
    };
    let title = match &chosen.vms[..] {
        [vm] => Words::new(vm.name.clone(), ": gang exits"),
        _ => chosen.title("gang exits"),
    };
    let columns = vec![
        Column::words(title, 0, NAME),
        Column::figures("runs/s", 3, RATE),
        Column::figures("forced/s", 1, RATE),
        Column::figures("lost", 2, SHARE),
    ];
    List::new(columns, (vms.len().max(causes.len()), None), height, |at| {
        let (name, runs, forced, lost) = match vms.get(at) {
            Some((vm, row)) => (
                Words::new(vm.name.clone(), format!(" ({})", vm.pid)),
                row.runs_per_s,
                row.forced_exits_per_s,
                row.forced_out,
            ),
            None => {
                let cause = &causes[at];
                let name = Words::new("", format!("vCPU {} {}", cause.vcpu, cause.reason));
                (name, cause.runs_per_s, cause.forced_exits_per_s, cause.forced_out)
            }
        };
        (vec![name, rate(runs).into(), rate(forced).into(), measured(lost).into()], Style::new())
    })
}

fn draw_gangs(to: &mut ratatui::Frame, area: Rect, chosen: &Chosen) {
    let said = match &chosen.vms[..] {
        [VmRow { gangs: Some(gangs), .. }] => figure_text::gangs(gangs).to_vec(),
        [vm] => return draw_said(to, area, &[format!("{}: no gang exits, each of its vCPUs runs by itself", vm.name)]),
        _ => Vec::new(),
    };
    let height =
        said.iter().flat_map(|line| wrapped(line, area.width)).count().min(usize::from(area.height / 2)) as u16;
    let [upper, lower] = Layout::vertical([Constraint::Length(height), Constraint::Fill(1)]).areas(area);
    draw_said(to, upper, &said);
    draw_list(to, lower, &gangs(chosen, lower.height));
}

/// Draws the sentences that there is room for.
fn draw_said(to: &mut ratatui::Frame, area: Rect, said: &[String]) {
    let mut lines = Vec::new();
    for sentence in said.iter().map(|sentence| wrapped(&encode::line(sentence), area.width)) {
        if lines.len() + sentence.len() <= usize::from(area.height) {
            lines.extend(sentence.into_iter().map(Line::from));
        }
    }
    to.render_widget(Paragraph::new(Text::from(lines)), area);
}
