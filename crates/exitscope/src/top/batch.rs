//! `top --batch`: an interval after the other, as text or as a line of JSON.

use super::frame::{Figures, Frame, GangRow, Row};
use super::kernel::KvmHalts;
use super::state::{Line, State, vcpu_name};
use super::text;
use exitscope_view::{Column, Look, Page, Section, Sentence, Table, rate, share, thousands, write_page};
use std::io::{self, Write};

/// Rows of a list.
const ROWS: usize = 10;

/// An interval as one line.
pub fn write_json(frame: &Frame, out: &mut dyn Write) -> anyhow::Result<()> {
    serde_json::to_writer(&mut *out, frame)?;
    Ok(writeln!(out)?)
}

/// An interval as a page.
pub fn write_text(frame: &Frame, look: Look, out: &mut dyn Write) -> io::Result<()> {
    let mut sections = vec![machines(frame)];
    for vm in frame.vms.iter().filter(|vm| vm.figures.exits > 0) {
        let whose = if frame.vms.len() > 1 { format!(" of {} ({})", vm.name, vm.pid) } else { String::new() };
        sections.push(list(format!("Exits{whose} by reason"), &vm.figures.reasons));
        if !vm.figures.subjects.is_empty() {
            sections.push(list(format!("What exits{whose} were about"), &vm.figures.subjects));
        }
        if !vm.figures.halts.is_empty() {
            sections.push(list(format!("Halts{whose}"), &vm.figures.halts));
        }
        sections.extend(vm.kvm_halts.as_ref().map(|halts| kvm_halts(&whose, halts)));
        sections.extend(vm.gangs.as_ref().map(|row| gangs(&whose, row)));
    }
    sections[0].notes.extend(text::no_kvm(&frame.vms.iter().filter(|vm| vm.figures.exits > 0).collect::<Vec<_>>()));
    write_page(&Page { sections }, look, out)
}

fn machines(frame: &Frame) -> Section {
    let mut sentences = vec![
        format!("{}, {:.1} s on {}; {}", text::time_of_day(frame.time), frame.seconds, frame.host, text::route(frame)),
        format!("Cost of watching: {}", text::own(&frame.overhead).join("; ")),
    ];
    sentences.extend(text::missed(frame));
    if !frame.has_kvm_exit {
        sentences.push("kvm_exit does not fire here: exits are those that go to user space, others only as far as KVM tells of them".into());
    }
    let mut sentences: Vec<Sentence> = sentences.into_iter().map(|text| Sentence { text, warning: false }).collect();
    sentences.extend(text::lost(frame).map(|text| Sentence { text, warning: true }));
    let columns = ["VM", "PID", "exits/s", "cost", "polling", "halted", "steal", "to user space", "p99", "top reason"];
    let names = [true, false, false, false, false, false, false, false, false, true];
    let columns = columns.into_iter().zip(names).map(|(title, names)| Column { title: title.into(), names, rank: 0 });
    let rows = State::default().lines(frame).iter().map(machine).collect();
    Section {
        title: format!("exitscope top: {}", text::how_many(frame)),
        sentences,
        table: Some(Table { columns: columns.collect(), rows }),
        ..Section::default()
    }
}

fn machine(line: &Line) -> Vec<String> {
    let Figures { exits_per_s, cost, polling, halted, steal, to_user_space: to_user, p99_ns, reasons, .. } =
        line.figures();
    let (name, pid) = match line.vcpu {
        None => (line.vm.name.clone(), line.vm.pid.to_string()),
        Some(vcpu) => (format!("  {}", vcpu_name(vcpu)), String::new()),
    };
    let ended = if line.ended() { " (ended)" } else { "" };
    let top = reasons.first().filter(|row| row.per_s > 0.0).map_or("-".to_string(), |row| row.name.clone());
    vec![
        name + ended,
        pid,
        rate(*exits_per_s),
        share(*cost),
        share(*polling),
        share(*halted),
        steal.map_or("-".to_string(), share),
        share(*to_user),
        text::length(*p99_ns),
        top,
    ]
}

fn list(title: String, rows: &[Row]) -> Section {
    let columns = columns_of(&["name", "count", "/s", "cost", "time", "to user space", "mean", "p50", "p99"]);
    let row = |row: &Row| {
        let name = if ["reason", "halt"].contains(&row.kind) {
            row.name.clone()
        } else {
            format!("{} {}", row.kind, row.name)
        };
        let lengths = [row.mean_ns, row.p50_ns, row.p99_ns].map(text::length);
        let mut cells = vec![
            name,
            thousands(row.count),
            rate(row.per_s),
            share(row.cost),
            share(row.exit_time),
            share(row.to_user_space),
        ];
        cells.extend(lengths);
        cells
    };
    let more = rows.len().saturating_sub(ROWS);
    let notes = (more > 0).then(|| format!("and {more} more (--format json has all)"));
    Section {
        title,
        table: Some(Table { columns, rows: rows.iter().take(ROWS).map(row).collect() }),
        notes: notes.into_iter().collect(),
        ..Section::default()
    }
}

fn kvm_halts(whose: &str, halts: &KvmHalts) -> Section {
    let columns = ["halts", "count", "of polls", "time", "mean"];
    let rows = text::kvm_halts(halts).map(|row| vec![row.name.to_string(), row.count, row.share, row.time, row.mean]);
    Section {
        title: format!("Halts{whose} since the VM began, as KVM counts them"),
        sentences: vec![Sentence { text: text::kvm_source(halts), warning: false }],
        table: Some(Table { columns: columns_of(&columns), rows: rows.to_vec() }),
        ..Section::default()
    }
}

fn gangs(whose: &str, row: &GangRow) -> Section {
    let causes = row.causes.iter().take(ROWS).map(|cause| {
        let name = format!("vCPU {} {}", cause.vcpu, cause.reason);
        vec![name, rate(cause.runs_per_s), rate(cause.forced_exits_per_s), share(cause.forced_out)]
    });
    Section {
        title: format!("Gang exits{whose}"),
        sentences: text::gangs(row).into_iter().map(|text| Sentence { text, warning: false }).collect(),
        table: Some(Table {
            columns: columns_of(&["what forced others out", "runs/s", "forced/s", "lost"]),
            rows: causes.collect(),
        }),
        ..Section::default()
    }
}

/// Columns of which the first has names.
fn columns_of(titles: &[&'static str]) -> Vec<Column> {
    titles.iter().enumerate().map(|(at, title)| Column { title: (*title).into(), names: at == 0, rank: 0 }).collect()
}
