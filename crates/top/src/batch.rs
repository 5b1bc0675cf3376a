//! An interval as a page of text.

use crate::columns::TopColumn;
use crate::figure_text::{self, measured};
use crate::frame::{Frame, TopGangRow, TopGroupRow};
use crate::line::{ListLine, vcpu_name};
use crate::screen_state::ScreenState;
use exitscope_live::KvmHalts;
use exitscope_view::{
    Page, PageSection, Sentence, Table, TableColumn, TerminalStyle, column, length, plain, rate, thousands, write_page,
};
use std::io::{self, Write};

/// Rows of a list.
const ROWS: usize = 10;

/// An interval as a page, with the columns that `state` has.
pub fn write_text(frame: &Frame, state: &ScreenState, look: TerminalStyle, out: &mut dyn Write) -> io::Result<()> {
    let mut sections = vec![machines(frame, state)];
    for vm in frame.vms.iter().filter(|vm| vm.figures.exits > 0) {
        let whose = if frame.vms.len() > 1 { format!(" of {} ({})", vm.name, vm.pid) } else { String::new() };
        sections.push(list(format!("Exits{whose} by reason"), &vm.figures.reasons));
        if !vm.figures.subjects.is_empty() {
            sections.push(list(format!("Exits{whose} by subject"), &vm.figures.subjects));
        }
        if !vm.figures.halts.is_empty() {
            sections.push(list(format!("Halts{whose}"), &vm.figures.halts));
        }
        sections.extend(vm.kvm_halts.as_ref().map(|halts| kvm_halts(&whose, halts)));
        sections.extend(vm.gangs.as_ref().map(|row| gangs(&whose, row)));
    }
    sections[0]
        .notes
        .extend(figure_text::no_kvm(&frame.vms.iter().filter(|vm| vm.figures.exits > 0).collect::<Vec<_>>()));
    write_page(&Page { sections }, look, out)
}

fn machines(frame: &Frame, state: &ScreenState) -> PageSection {
    let verdict = frame.verdict.as_ref().map(|verdict| match figure_text::verdict(verdict) {
        (said, Some(doubts)) => format!("{said}; {doubts}"),
        (said, None) => said,
    });
    let mut sentences = vec![
        format!(
            "{}, {:.1} s on {}; {}",
            figure_text::time_of_day(frame.time),
            frame.seconds,
            frame.host,
            figure_text::route(frame)
        ),
        format!("Cost of watching: {}", figure_text::own(frame).join("; ")),
    ];
    sentences.extend(figure_text::missed(frame));
    if !frame.has_kvm_exit {
        sentences.push("kvm_exit does not fire here: user-space exits are complete, in-kernel exits partial".into());
    }
    let cause = frame.verdict.as_ref().and_then(figure_text::cause);
    let mut sentences: Vec<Sentence> = verdict.into_iter().chain(cause).chain(sentences).map(plain).collect();
    sentences.extend(figure_text::lost(frame).map(|text| Sentence { text, warning: true }));
    let lines = state.lines(frame);
    let shown = shown(state, &lines);
    let columns = shown.iter().map(|id| column(id.title(), id.is_words(), id.rank()));
    PageSection {
        title: format!("exitscope top: {}", figure_text::how_many(frame)),
        sentences,
        table: Some(Table {
            columns: [column("VM", true, 0)].into_iter().chain(columns).collect(),
            rows: lines.iter().map(|line| machine(line, &shown, state)).collect(),
        }),
        say_hidden: true,
        ..PageSection::default()
    }
}

/// The columns of text: unless they were asked for, those that are of the interval.
fn shown(state: &ScreenState, lines: &[ListLine]) -> Vec<TopColumn> {
    let mut shown = state.columns.of_rows(lines);
    shown.retain(|&id| state.columns.is_asked(id) || !matches!(id, TopColumn::Now | TopColumn::Past));
    shown
}

fn machine(line: &ListLine, shown: &[TopColumn], state: &ScreenState) -> Vec<String> {
    let name = match line.vcpu {
        None => line.vm.name.clone(),
        Some(vcpu) => format!("  {}", vcpu_name(vcpu)),
    };
    let ended = if line.ended() { " (ended)" } else { "" };
    let cell = |id: &TopColumn| match id {
        TopColumn::Past => state.past(line.id()),
        id => id.cell(line).text(),
    };
    [name + ended].into_iter().chain(shown.iter().map(cell)).collect()
}

fn list(title: String, rows: &[TopGroupRow]) -> PageSection {
    let columns = columns_of(&["name", "count", "/s", "cost", "time", "to user space", "mean", "p50", "p99"]);
    let row = |row: &TopGroupRow| {
        let lengths = [row.mean_ns, row.p50_ns, row.p99_ns].map(length);
        let mut cells = vec![
            row.label(),
            thousands(row.count),
            rate(row.per_s),
            measured(row.cost),
            measured(row.exit_time),
            measured(row.to_user_space),
        ];
        cells.extend(lengths);
        cells
    };
    let more = rows.len().saturating_sub(ROWS);
    let notes = (more > 0).then(|| format!("and {more} more (--format json has all)"));
    PageSection {
        title,
        table: Some(Table { columns, rows: rows.iter().take(ROWS).map(row).collect() }),
        notes: notes.into_iter().collect(),
        ..PageSection::default()
    }
}

fn kvm_halts(whose: &str, halts: &KvmHalts) -> PageSection {
    let columns = ["halts", "count", "of polls", "time", "mean"];
    let rows =
        figure_text::kvm_halts(halts).map(|row| vec![row.name.to_string(), row.count, row.share, row.time, row.mean]);
    PageSection {
        title: format!("Halts{whose} since the VM began, as KVM counts them"),
        sentences: vec![plain(figure_text::kvm_source(halts))],
        table: Some(Table { columns: columns_of(&columns), rows: rows.to_vec() }),
        ..PageSection::default()
    }
}

fn gangs(whose: &str, row: &TopGangRow) -> PageSection {
    let causes = row.causes.iter().take(ROWS).map(|cause| {
        let name = format!("vCPU {} {}", cause.vcpu, cause.reason);
        vec![name, rate(cause.runs_per_s), rate(cause.forced_exits_per_s), measured(cause.forced_out)]
    });
    PageSection {
        title: format!("Gang exits{whose}"),
        sentences: figure_text::gangs(row).map(plain).to_vec(),
        table: Some(Table {
            columns: columns_of(&["what forced others out", "runs/s", "forced/s", "lost"]),
            rows: causes.collect(),
        }),
        ..PageSection::default()
    }
}

/// Columns of which the first has names.
fn columns_of(titles: &[&'static str]) -> Vec<TableColumn> {
    titles.iter().enumerate().map(|(at, title)| column(*title, at == 0, 0)).collect()
}
