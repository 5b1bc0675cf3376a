//! The page of accesses to ports and emulated memory, and what the default report says of them.

use crate::names::{percent, thousands};
use crate::page::{PageSection, Table, column, length, plain};
use crate::pio::{PioRow, PioRows, PioSum};
use crate::report::Report;
use exitscope_analysis::record_commands::{HowToRecord, Missed};
use exitscope_units::Nanos;

/// Rows of a table.
const MOST: usize = 12;

/// The page `--view pio`.
pub(crate) fn pio_sections(report: &Report) -> Vec<PageSection> {
    let Some(rows) = &report.pio else {
        let text = format!(
            "No exit in this trace is an access to a port or to emulated memory. {}",
            report.how.sentence(&[Missed::Exits, Missed::Subjects], "while the guest does I/O")
        );
        return vec![PageSection { title: "Accesses".into(), sentences: vec![plain(text)], ..PageSection::default() }];
    };
    let tables = [("port", "Port accesses"), ("mmio", "Accesses to emulated memory, by page")];
    let mut sections: Vec<PageSection> =
        tables.into_iter().filter_map(|(kind, title)| accesses(rows, kind, title, &report.how)).collect();
    if rows.ports.exits > 0 {
        sections.push(quick_path(rows));
    }
    sections.extend(cheaper(rows));
    sections
}

/// What the default report says: a few lines.
pub(crate) fn pio_summary(rows: &PioRows) -> PageSection {
    let sentence = |what: &str, sum: &PioSum| {
        (sum.exits > 0).then(|| {
            if !rows.has_handlers {
                return plain(format!("{} {what}", thousands(sum.exits)));
            }
            plain(format!(
                "{} {what}, {} of them ({}) handled by {}, which cost {}",
                thousands(sum.exits),
                thousands(sum.user_space_exits),
                percent(sum.user_space_exits, sum.exits),
                server(rows, true),
                length(Some(sum.user_space_cost_ns)),
            ))
        })
    };
    PageSection {
        title: "Accesses to devices".into(),
        sentences: [sentence("accesses to ports", &rows.ports), sentence("accesses to emulated memory", &rows.mmio)]
            .into_iter()
            .flatten()
            .collect(),
        notes: vec!["by port and page, and what cheaper handlers would gain: --view pio".to_string()],
        ..PageSection::default()
    }
}

fn server(rows: &PioRows, outside: bool) -> &'static str {
    if !rows.has_handlers {
        return "-";
    }
    match (rows.xen, outside) {
        (true, true) => "device model",
        (true, false) => "Xen",
        (false, true) => "user space",
        (false, false) => "kernel",
    }
}

/// The title of what is spent before and after user space handles an access.
fn inside(rows: &PioRows) -> &'static str {
    match (rows.has_handlers, rows.xen) {
        (false, _) => "cost each",
        (true, true) => "in Xen",
        (true, false) => "in kernel",
    }
}

/// Lengths of each as means, so that they add up.
fn accesses(rows: &PioRows, kind: &str, title: &str, how: &HowToRecord) -> Option<PageSection> {
    let of_kind: Vec<&PioRow> = rows.rows.iter().filter(|row| row.subject_kind == kind).collect();
    let columns = vec![
        column("", true, 0),
        column("handler", true, 1),
        column("exits", false, 0),
        column("cost", false, 2),
        column("mean", false, 0),
        column("p50", false, 4),
        column("p99", false, 2),
        column("to handover p50", false, 5),
        column("to completion p50", false, 3),
        column("to completion p99", false, 6),
        column(inside(rows), false, 0),
        column(server(rows, true), false, 0),
        column("steal", false, 1),
    ];
    let row = |row: &&PioRow| {
        let mean = |sum: u64| length(sum.checked_div(row.exit_time.count));
        let outside = |nanos: Option<u64>| if row.in_user_space { length(nanos) } else { String::new() };
        vec![
            row.label.clone(),
            server(rows, row.in_user_space).to_string(),
            thousands(row.exits),
            length(Some(row.kernel_ns.saturating_add(row.user_space_ns))),
            length(row.exit_time.mean_ns),
            length(row.exit_time.p50_ns),
            length(row.exit_time.p99_ns),
            outside(row.to_handover.p50_ns),
            outside(row.to_completion.p50_ns),
            outside(row.to_completion.p99_ns),
            mean(row.kernel_ns),
            if row.in_user_space { mean(row.user_space_ns) } else { String::new() },
            mean(row.steal_ns),
        ]
    };
    let mut notes = more(of_kind.len());
    let parts = match rows.has_handlers {
        true => format!("{}, {}", inside(rows), server(rows, true)),
        false => "cost each".to_string(),
    };
    notes.push(format!(
        "cost: of all accesses; mean, p50, p99: from exit to entry; {parts}, steal: its parts, on average"
    ));
    if !rows.has_handlers {
        let what = match rows.xen {
            true => "The log has no records of the scheduler, so accesses that waited for the device model",
            false => "No kvm_userspace_exit in the trace, so accesses that user space handled",
        };
        let record = how.sentence(&[Missed::UserExits], "");
        notes.push(format!("{what} cannot be distinguished from others. {record}"));
    } else if of_kind.iter().any(|row| row.in_user_space) {
        notes.push(match rows.xen {
            true => "to handover: from the exit until a vCPU of the device model's domain was woken on that CPU, or \
                this vCPU stopped running; to completion: from the exit until this vCPU, blocked or offline, was \
                runnable again, or was woken before it had stopped"
                .to_string(),
            false => {
                "to handover: from the exit until kvm_userspace_exit; to completion: until KVM_RUN was called again"
                    .to_string()
            }
        });
        if !rows.xen && of_kind.iter().all(|row| row.to_completion.count == 0) {
            let record = how.sentence(&[Missed::Calls], "");
            notes.push(format!("The trace does not show when KVM_RUN was called again. {record}"));
        }
    }
    (!of_kind.is_empty()).then(|| PageSection {
        title: title.to_string(),
        table: Some(Table { columns, rows: of_kind.iter().take(MOST).map(row).collect() }),
        notes,
        say_hidden: true,
        ..PageSection::default()
    })
}

fn more(rows: usize) -> Vec<String> {
    let more = rows.saturating_sub(MOST);
    if more > 0 { vec![format!("and {} more (--format json)", thousands(more as u64))] } else { Vec::new() }
}

/// Who decodes the accesses.
fn quick_path(rows: &PioRows) -> PageSection {
    let PioSum { exits, non_string: in_register, string, .. } = rows.ports;
    let mut text = format!(
        "{} of {} port accesses are plain and qualify, {} are string accesses (INS, OUTS) and do not",
        thousands(in_register),
        thousands(exits),
        thousands(string)
    );
    let unsaid = exits - in_register - string;
    if unsaid > 0 {
        text += &format!("; for {} the trace does not show which", thousands(unsaid));
    }
    let mut sentences = vec![plain(text + ".")];
    sentences.push(plain(
        match rows.xen {
            true => {
                "Xen 3.1, and Xen since 2010, decode plain accesses from the exit's own information; Xen 3.3 emulates \
                 a write once and a read twice. The log does not show its version of Xen."
            }
            false => "KVM already decodes plain accesses from the exit's own information: there is nothing to gain.",
        }
        .to_string(),
    ));
    if let Some(emulation) = rows.emulation_ns {
        sentences.push(plain(format!(
            "An emulation takes about {} here: string accesses are handed over that much later than plain ones, by \
             the medians.",
            Nanos(emulation)
        )));
    } else if rows.xen {
        sentences.push(plain(
            "The recording has no string access, which would show what an emulation takes, so the gain of the quick \
             path is not known."
                .to_string(),
        ));
    }
    PageSection {
        title: "Quick path: plain accesses, decoded without the instruction".into(),
        sentences,
        table: Some(qualify(rows)),
        notes: more(rows.rows.iter().filter(|row| row.subject_kind == "port").count())
            .into_iter()
            .chain([STRING.to_string()])
            .collect(),
        say_hidden: true,
    }
}

const STRING: &str =
    "string: INS and OUTS, whose data are in memory; they alone can be repeated (REP). Any port and any size qualify";

/// Which of them qualify.
fn qualify(rows: &PioRows) -> Table {
    let columns = vec![
        column("", true, 0),
        column("exits", false, 0),
        column("bytes", true, 1),
        column("qualify", false, 0),
        column("string", false, 0),
        column("not said", false, 0),
    ];
    let row = |row: &PioRow| {
        let sizes: Vec<String> = row.sizes.keys().map(u16::to_string).collect();
        let string = if row.string { row.exits } else { 0 };
        vec![
            row.label.clone(),
            thousands(row.exits),
            if sizes.is_empty() { "-".to_string() } else { sizes.join(", ") },
            thousands(row.non_string),
            thousands(string),
            thousands(row.exits - row.non_string - string),
        ]
    };
    Table { columns, rows: rows.rows.iter().filter(|row| row.subject_kind == "port").take(MOST).map(row).collect() }
}

/// What those cost that need not leave the kernel.
fn cheaper(rows: &PioRows) -> Option<PageSection> {
    let outside: Vec<&PioRow> = rows.rows.iter().filter(|row| row.in_user_space).collect();
    if outside.is_empty() {
        return None;
    }
    let columns = vec![
        column("", true, 0),
        column("exits", false, 0),
        column("written", false, 2),
        column("ioeventfd", true, 1),
        column("mean cost", false, 1),
        column(inside(rows), false, 1),
        column("gain at most", false, 0),
    ];
    let row = |row: &&PioRow| {
        let sum = if row.subject_kind == "port" { &rows.ports } else { &rows.mmio };
        let then = if writes(row) { sum.write_in_kernel_ns } else { sum.read_in_kernel_ns };
        let now = (row.kernel_ns + row.user_space_ns).checked_div(row.exit_time.count);
        vec![
            row.label.clone(),
            thousands(row.exits),
            row.value_range.map_or(String::new(), |[low, high]| match low == high {
                true => format!("{low:#x}"),
                false => format!("{low:#x}-{high:#x}"),
            }),
            ioeventfd(row).to_string(),
            length(now),
            length(then),
            length(row.gain_ns),
        ]
    };
    let mut notes = more(outside.len());
    notes.push(
        "ioeventfd: for writes to one register that only signal. With datamatch, an ioeventfd passes one value on; \
         several values fit only if the device does not look at them, which no trace shows"
            .to_string(),
    );
    let bases = [&rows.ports, &rows.mmio].into_iter().filter(|sum| sum.user_space_exits > 0);
    notes.push(match bases.clone().any(|sum| sum.write_in_kernel_ns.is_some()) {
        true => format!(
            "{}: the median cost of this recording's accesses that are served there, of the same direction if there \
             are any; gain at most: the cost of all accesses, less that median for each. Work that the device still \
             has to do moves to another thread",
            inside(rows)
        ),
        false => {
            "No access is served in the kernel in this recording, so there is no cost to compare with.".to_string()
        }
    });
    Some(PageSection {
        title: format!(
            "Handled by {}: gain if {} handled them",
            server(rows, true),
            if rows.xen { "Xen" } else { "the kernel" }
        ),
        table: Some(Table { columns, rows: outside.iter().take(MOST).map(row).collect() }),
        notes,
        say_hidden: true,
        ..PageSection::default()
    })
}

fn writes(row: &PioRow) -> bool {
    matches!(row.direction, Some("out" | "write"))
}

fn ioeventfd(row: &PioRow) -> &'static str {
    match (row.value_range, row.address_range) {
        _ if !writes(row) => "no: a read",
        (None, _) => "no: data in memory",
        (_, Some([low, high])) if low != high => "several registers",
        (Some([low, high]), _) if low == high => "with datamatch",
        _ => "if data do not matter",
    }
}
