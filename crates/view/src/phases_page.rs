//! The page of the steps of exits, and what the default report says of them.

use crate::names::{percent, thousands};
use crate::page::{Section, Table, column, length, plain};
use crate::phases::{PhaseRow, PhaseRows, RemovableRow};
use crate::report::Report;
use exitscope_analysis::recording::with_calls;

/// Rows of a table.
const MOST: usize = 16;

/// The page `--view phases`.
pub(crate) fn phases_sections(report: &Report) -> Vec<Section> {
    let Some(rows) = &report.phases else {
        let text =
            format!("No exit in this trace has both ends, so none has steps. Record with {}.", report.how_to_record());
        return vec![Section { title: "Steps of exits".into(), sentences: vec![plain(text)], ..Section::default() }];
    };
    let mut sections = vec![steps(rows)];
    sections.extend(within(rows));
    sections.extend((!rows.removable.is_empty()).then(|| removable(rows)));
    sections
}

/// What the default report says: a few lines.
pub(crate) fn phases_summary(rows: &PhaseRows) -> Option<Section> {
    let of = &rows.outside;
    let share = |nanos| percent(nanos, of.cost_ns());
    let parts = [
        (if rows.xen { "in Xen before" } else { "in the kernel before" }, of.reaching_ns + of.handling_ns),
        ("on the way out", of.leaving_ns),
        (if rows.xen { "waiting for the device model" } else { "in user space" }, of.user_ns),
        ("asleep there", of.asleep_ns),
        ("on the way back in", of.entering_ns),
    ];
    let parts: Vec<String> =
        parts.iter().filter(|part| part.1 > 0).map(|(name, nanos)| format!("{} {name}", share(*nanos))).collect();
    (of.timed > 0).then(|| Section {
        title: "Steps of exits".into(),
        sentences: vec![plain(format!(
            "{} exits left {} and cost {}: {}",
            thousands(of.timed),
            if rows.xen { "Xen" } else { "the kernel" },
            length(Some(of.cost_ns())),
            parts.join(", ")
        ))],
        notes: vec!["by reason, and what would take steps away: --view phases".to_string()],
        ..Section::default()
    })
}

fn served(rows: &PhaseRows, outside: bool) -> &'static str {
    match (rows.xen, outside) {
        (true, true) => "device model",
        (true, false) => "Xen",
        (false, true) => "user space",
        (false, false) => "kernel",
    }
}

/// Mean lengths, so that a row adds up.
fn steps(rows: &PhaseRows) -> Section {
    let columns = vec![
        column("reason", true, 0),
        column("handled by", true, 0),
        column("exits", false, 0),
        column("cost", false, 0),
        column(if rows.xen { "" } else { "to handler" }, false, 2),
        column(if rows.xen { "in Xen" } else { "handling" }, false, 0),
        column("leaving", false, 1),
        column(if rows.xen { "device model" } else { "user space" }, false, 0),
        column("asleep", false, 3),
        column("entering", false, 1),
        column("steal", false, 2),
        column("in halts", false, 4),
    ];
    // A step is a mean over the exits in which something marks it; what nothing marks is not zero, but unknown.
    let row = |row: &PhaseRow, name: String| {
        let mean = |nanos: u64| length(nanos.checked_div(row.timed));
        let marked = |marks: u64, nanos: u64| match (marks, nanos) {
            (0, 0) if row.outside => "-".to_string(),
            (0, 0) => String::new(),
            _ => mean(nanos),
        };
        let outside = |nanos: u64| if row.outside { mean(nanos) } else { String::new() };
        vec![
            name,
            served(rows, row.outside).to_string(),
            thousands(row.exits),
            mean(row.cost_ns()),
            match row.reached {
                0 if rows.xen => String::new(),
                0 => "-".to_string(),
                _ => mean(row.reaching_ns),
            },
            mean(row.handling_ns),
            marked(row.left, row.leaving_ns),
            outside(row.user_ns),
            outside(row.asleep_ns),
            marked(row.called, row.entering_ns),
            mean(row.steal_ns),
            mean(row.in_halts_ns),
        ]
    };
    let of_reason = |of: &PhaseRow| row(of, of.reason.clone().unwrap_or_default());
    let mut table: Vec<Vec<String>> = rows.rows.iter().take(MOST).map(of_reason).collect();
    for all in [&rows.inside, &rows.outside] {
        if all.exits > 0 && rows.rows.len() > 1 {
            table.push(row(all, "all".to_string()));
        }
    }
    let mut notes = Vec::new();
    if rows.rows.len() > MOST {
        notes.push(format!("and {} more (--format json)", rows.rows.len() - MOST));
    }
    notes.push("mean lengths; the steps add up to the cost; steal and halts are beside it".to_string());
    if rows.xen {
        notes.push(
            "device model: waiting for it; entering: from when the vCPU runs again, it having answered, or from its answer \
             where that came before the vCPU had stopped. Xen's handlers write records without a time of their own, so when \
             they begin is not known"
                .to_string(),
        );
        return Section {
            title: "Steps of exits, by reason".into(),
            table: Some(Table { columns, rows: table }),
            notes,
            say_hidden: true,
            ..Section::default()
        };
    }
    notes.push(
        "to handler: until the first event of the handler, which some handlers write at their end (kvm_msr, kvm_cpuid, reads of \
         ports); - where there is none"
            .to_string(),
    );
    notes.push(match rows.outside.returned > 0 {
        _ if rows.outside.exits == 0 => format!(
            "No kvm_userspace_exit in the trace, so what user space did is part of handling. Record with {}.",
            with_calls(rows.xen)
        ),
        true => "leaving: from kvm_fpu, or kvm_userspace_exit, until the system call returns; entering: from KVM_RUN to kvm_entry"
            .to_string(),
        false => format!(
            "leaving: from kvm_fpu to kvm_userspace_exit; the return from there is part of user space, because no system calls \
             were recorded; entering: from KVM_RUN to kvm_entry. Record with {}.",
            with_calls(rows.xen)
        ),
    });
    Section {
        title: "Steps of exits, by reason".into(),
        table: Some(Table { columns, rows: table }),
        notes,
        say_hidden: true,
        ..Section::default()
    }
}

/// Emulated instructions and system calls.
fn within(rows: &PhaseRows) -> Option<Section> {
    let some: Vec<&PhaseRow> =
        rows.rows.iter().filter(|row| row.emulated.unwrap_or(0) + row.calls > 0).take(MOST).collect();
    let calls_seen = rows.outside.returned > 0;
    let mut columns = vec![
        column("reason", true, 0),
        column("handled by", true, 0),
        column("exits", false, 0),
        column("emulated", false, 0),
    ];
    if calls_seen {
        let of_calls = ["system calls an exit", "time in them", "of registers", "time in those"];
        columns.extend(of_calls.map(|title| column(title, false, 1)));
    }
    let row = |row: &&PhaseRow| {
        let per_exit = |count: u64| format!("{:.1}", count as f64 / row.timed.max(1) as f64);
        let mut cells = vec![
            row.reason.clone().unwrap_or_default(),
            served(rows, row.outside).to_string(),
            thousands(row.exits),
            percent(row.emulated.unwrap_or(0), row.timed),
        ];
        if calls_seen {
            cells.extend([
                per_exit(row.calls),
                length(row.in_calls_ns.checked_div(row.timed)),
                per_exit(row.register_calls),
                length(row.in_register_calls_ns.checked_div(row.timed)),
            ]);
        }
        cells
    };
    let calls = "; system calls: what user space called before KVM_RUN, and mean time an exit in these";
    let emulated = "emulated: exits for which the kernel decoded and executed an instruction (kvm_emulate_insn)";
    (!some.is_empty()).then(|| Section {
        title: "Within the steps".into(),
        table: Some(Table { columns, rows: some.iter().map(row).collect() }),
        notes: vec![format!("{emulated}{}", if calls_seen { calls } else { "" })],
        say_hidden: true,
        ..Section::default()
    })
}

fn removable(rows: &PhaseRows) -> Section {
    let columns = vec![
        column("change", true, 0),
        column("exits", false, 0),
        column("removes at most", false, 0),
        column("of all cost", false, 1),
        column("an exit", false, 0),
        column(if rows.cycles_per_s.is_some() { "cycles an exit" } else { "" }, false, 0),
        column("how known", true, 2),
    ];
    let all = rows.inside.cost_ns().saturating_add(rows.outside.cost_ns());
    let row = |row: &RemovableRow| {
        vec![
            row.change.replace('_', " "),
            thousands(row.exits),
            length(row.removes_ns),
            row.removes_ns.map_or("-".to_string(), |removes| percent(removes, all)),
            length(row.removes_ns.and_then(|removes| removes.checked_div(row.exits))),
            match rows.cycles_per_s {
                Some(_) => row.removes_cycles_an_exit.map_or("-".to_string(), thousands),
                None => String::new(),
            },
            if row.removes_ns.is_some() { row.how.to_string() } else { "-".to_string() },
        ]
    };
    let mut notes: Vec<String> =
        rows.removable.iter().map(|row| format!("{}: {}", row.change.replace('_', " "), row.rule)).collect();
    if rows.removable.iter().any(|row| row.removes_ns.is_none()) {
        notes.push(format!("- where the trace does not say. Record with {}.", with_calls(rows.xen)));
    }
    if rows.cycles_per_s.is_none() {
        notes.push("in cycles as well with --tsc-hz, the processor's cycles in a second".to_string());
    }
    Section {
        title: "What would take steps away".into(),
        table: Some(Table { columns, rows: rows.removable.iter().map(row).collect() }),
        notes,
        ..Section::default()
    }
}
