//! The page of the steps of exits, and what the default report says of them.

use crate::names::{percent, thousands};
use crate::page::{PageSection, Table, column, length, plain};
use crate::phases::{PhaseRow, PhaseRows, RemovableRow};
use crate::report::Report;
use exitscope_analysis::record_commands::{HowToRecord, Missed};

/// Rows of a table.
const MOST: usize = 16;

/// Which steps of KVM's own are in which phase: vcpu_enter_guest() and vcpu_run() of arch/x86/kvm/x86.c; kvm_exit and
/// kvm_entry are in the vendor's vcpu_run() within. Linux 5.17 and later.
const HELD_ON_X86: &str = "steps of KVM within these phases: to handler has the enabling of interrupts, the accounting of guest time and \
                           the lock of memory slots (SRCU); in handler (for exits to user space, re-entry) has the checks for requests, \
                           signals and other work, the disabling of interrupts, and accounting again; handler fastpath has none of these";

/// The page `--view phases`.
pub(crate) fn phases_sections(report: &Report) -> Vec<PageSection> {
    let Some(rows) = &report.phases else {
        let text = format!(
            "No exit in this trace has both ends, so none has phases. {}",
            report.how.sentence(&[Missed::Exits, Missed::Entries], "")
        );
        return vec![PageSection {
            title: "Phases of exits".into(),
            sentences: vec![plain(text)],
            ..PageSection::default()
        }];
    };
    let mut sections = vec![steps(rows, &report.how)];
    sections[0].notes.extend(report.is_kvm_on_x86().then(|| HELD_ON_X86.to_string()));
    sections.extend(within(rows));
    sections.extend((!rows.removable.is_empty()).then(|| removable(rows, &report.how)));
    sections
}

/// What the default report says: a few lines.
pub(crate) fn phases_summary(rows: &PhaseRows) -> Option<PageSection> {
    let of = &rows.in_user_space;
    let share = |nanos| percent(nanos, of.cost_ns());
    let parts = [
        (if rows.xen { "in Xen before" } else { "in the kernel before" }, of.to_handler_ns + of.handler_ns),
        ("to user space", of.to_user_space_ns),
        (if rows.xen { "waiting for the device model" } else { "in user space" }, of.user_space_ns),
        ("asleep there", of.user_space_asleep_ns),
        ("on re-entry", of.reentry_ns),
    ];
    let parts: Vec<String> =
        parts.iter().filter(|part| part.1 > 0).map(|(name, nanos)| format!("{} {name}", share(*nanos))).collect();
    (of.timed > 0).then(|| PageSection {
        title: "Phases of exits".into(),
        sentences: vec![plain(format!(
            "{} exits left {} and cost {}: {}",
            thousands(of.timed),
            if rows.xen { "Xen" } else { "the kernel" },
            length(Some(of.cost_ns())),
            parts.join(", ")
        ))],
        notes: vec!["by reason, and what is avoidable: --view phases".to_string()],
        ..PageSection::default()
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
fn steps(rows: &PhaseRows, how: &HowToRecord) -> PageSection {
    let columns = vec![
        column("reason", true, 0),
        column("handler", true, 0),
        column("exits", false, 0),
        column("cost", false, 0),
        column(if rows.xen { "" } else { "to handler" }, false, 2),
        column(if rows.xen { "in Xen" } else { "in handler" }, false, 0),
        column("to user space", false, 1),
        column(if rows.xen { "device model" } else { "user space" }, false, 0),
        column("asleep", false, 3),
        column("re-entry", false, 1),
        column("steal", false, 2),
        column("in halts", false, 4),
    ];
    // A phase is a mean over the exits in which something marks it; what nothing marks is not zero, but unknown.
    let row = |row: &PhaseRow, name: String| {
        let mean = |nanos: u64| length(nanos.checked_div(row.timed));
        let marked = |marks: u64, nanos: u64| match (marks, nanos) {
            (0, 0) if row.in_user_space => "-".to_string(),
            (0, 0) => String::new(),
            _ => mean(nanos),
        };
        let outside = |nanos: u64| if row.in_user_space { mean(nanos) } else { String::new() };
        vec![
            name,
            served(rows, row.in_user_space).to_string(),
            thousands(row.exits),
            mean(row.cost_ns()),
            match row.with_handler_event {
                0 if rows.xen => String::new(),
                0 => "-".to_string(),
                _ => mean(row.to_handler_ns),
            },
            mean(row.handler_ns),
            marked(row.with_fpu_put, row.to_user_space_ns),
            outside(row.user_space_ns),
            outside(row.user_space_asleep_ns),
            marked(row.with_syscall_entry, row.reentry_ns),
            mean(row.steal_ns),
            mean(row.in_halts_ns),
        ]
    };
    let of_reason = |of: &PhaseRow| row(of, of.reason.clone().unwrap_or_default());
    let mut table: Vec<Vec<String>> = rows.rows.iter().take(MOST).map(of_reason).collect();
    for all in [&rows.in_kernel, &rows.in_user_space] {
        if all.exits > 0 && rows.rows.len() > 1 {
            table.push(row(all, "all".to_string()));
        }
    }
    let mut notes = Vec::new();
    if rows.rows.len() > MOST {
        notes.push(format!("and {} more (--format json)", rows.rows.len() - MOST));
    }
    notes.push("mean lengths; the phases add up to the cost; steal and halts are not part of it".to_string());
    if rows.xen {
        notes.push(
            "device model: waiting for it; re-entry: from when the vCPU runs again after the device model's answer, \
             or from the answer if it came before the vCPU had stopped. Xen's handlers write records without a time \
             of their own, so their beginning is not known"
                .to_string(),
        );
        return PageSection {
            title: "Phases of exits, by reason".into(),
            table: Some(Table { columns, rows: table }),
            notes,
            say_hidden: true,
            ..PageSection::default()
        };
    }
    notes.push(
        "to handler: until the first event of the handler, which some handlers write at their end (kvm_msr, \
         kvm_cpuid, reads of ports); -: no such event"
            .to_string(),
    );
    notes.push(match rows.in_user_space.with_syscall_return > 0 {
        _ if rows.in_user_space.exits == 0 => format!(
            "No kvm_userspace_exit in the trace, so time in user space is counted as the handler's. {}",
            how.sentence(&[Missed::UserExits, Missed::Calls], "")
        ),
        true => "to user space: from kvm_fpu, or kvm_userspace_exit, until the system call returns; re-entry: from KVM_RUN to kvm_entry"
            .to_string(),
        false => format!(
            "to user space: from kvm_fpu to kvm_userspace_exit; the return from there is part of user space, because no system \
             calls are in the trace; re-entry: from KVM_RUN to kvm_entry. {}",
            how.sentence(&[Missed::Calls], "")
        ),
    });
    PageSection {
        title: "Phases of exits, by reason".into(),
        table: Some(Table { columns, rows: table }),
        notes,
        say_hidden: true,
        ..PageSection::default()
    }
}

/// Emulated instructions and system calls.
fn within(rows: &PhaseRows) -> Option<PageSection> {
    let some: Vec<&PhaseRow> = rows.rows.iter().filter(|row| row.emulated + row.syscalls > 0).take(MOST).collect();
    let calls_seen = rows.in_user_space.with_syscall_return > 0;
    let mut columns = vec![
        column("reason", true, 0),
        column("handler", true, 0),
        column("exits", false, 0),
        column("emulated", false, 0),
    ];
    if calls_seen {
        let of_calls = ["system calls per exit", "time in them", "register ioctls", "time in those"];
        columns.extend(of_calls.map(|title| column(title, false, 1)));
    }
    let row = |row: &&PhaseRow| {
        let per_exit = |count: u64| format!("{:.1}", count as f64 / row.timed.max(1) as f64);
        let mut cells = vec![
            row.reason.clone().unwrap_or_default(),
            served(rows, row.in_user_space).to_string(),
            thousands(row.exits),
            percent(row.emulated, row.timed),
        ];
        if calls_seen {
            cells.extend([
                per_exit(row.syscalls),
                length(row.syscall_ns.checked_div(row.timed)),
                per_exit(row.register_ioctls),
                length(row.register_ioctl_ns.checked_div(row.timed)),
            ]);
        }
        cells
    };
    let calls = "; system calls: those of user space before KVM_RUN, and the mean time per exit in them";
    let emulated = "emulated: exits for which the kernel decoded and executed an instruction (kvm_emulate_insn)";
    (!some.is_empty()).then(|| PageSection {
        title: "Within the phases".into(),
        table: Some(Table { columns, rows: some.iter().map(row).collect() }),
        notes: vec![format!("{emulated}{}", if calls_seen { calls } else { "" })],
        say_hidden: true,
        ..PageSection::default()
    })
}

fn removable(rows: &PhaseRows, how: &HowToRecord) -> PageSection {
    let columns = vec![
        column("change", true, 0),
        column("exits", false, 0),
        column("avoidable, at most", false, 0),
        column("of all cost", false, 1),
        column("per exit", false, 0),
        column(if rows.cycles_per_s.is_some() { "cycles per exit" } else { "" }, false, 0),
        column("method", true, 2),
    ];
    let all = rows.in_kernel.cost_ns().saturating_add(rows.in_user_space.cost_ns());
    let row = |row: &RemovableRow| {
        vec![
            row.change.replace('_', " "),
            thousands(row.exits),
            length(row.avoidable_ns),
            row.avoidable_ns.map_or("-".to_string(), |removes| percent(removes, all)),
            length(row.avoidable_ns.and_then(|removes| removes.checked_div(row.exits))),
            match rows.cycles_per_s {
                Some(_) => row.avoidable_cycles_per_exit.map_or("-".to_string(), thousands),
                None => String::new(),
            },
            if row.avoidable_ns.is_some() { row.method.to_string() } else { "-".to_string() },
        ]
    };
    let mut notes: Vec<String> =
        rows.removable.iter().map(|row| format!("{}: {}", row.change.replace('_', " "), row.rule)).collect();
    if rows.removable.iter().any(|row| row.avoidable_ns.is_none()) {
        notes.push(format!("-: not in the trace. {}", how.sentence(&[Missed::Calls], "")));
    }
    if rows.cycles_per_s.is_none() {
        notes.push("--tsc-hz, the processor's cycles per second, adds a column in cycles".to_string());
    }
    PageSection {
        title: "What changes would avoid".into(),
        table: Some(Table { columns, rows: rows.removable.iter().map(row).collect() }),
        notes,
        ..PageSection::default()
    }
}
