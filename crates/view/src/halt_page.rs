//! The page of halts, and what the default report says of them.

use crate::halt::{DurationStatsRow, HaltRows, PollSettingsRow};
use crate::names::{percent, thousands};
use crate::page::{PageSection, Table, VCPU_ROWS, column, heaviest, length, more_in_json, plain};
use crate::report::{Report, TraceRow};
use exitscope_analysis::record_commands::Missed;
use exitscope_model::HaltRow;
use exitscope_units::Nanos;

/// The page `--view halt`.
pub(crate) fn halt_sections(report: &Report) -> Vec<PageSection> {
    let Some(rows) = &report.halt else {
        let text = format!(
            "No vCPU halts in this trace: there is no exit of HLT, WFx, an s390 wait or H_CEDE, and no kvm_vcpu_wakeup. \
             {}",
            report.how.sentence(&[Missed::Exits, Missed::HaltEnds], "while guests are idle")
        );
        return vec![PageSection { title: "Halts".into(), sentences: vec![plain(text)], ..PageSection::default() }];
    };
    let mut sections = vec![by_vcpu(rows, report)];
    sections.extend((rows.all.halts > 0).then(|| by_length(rows, report.is_xen())));
    sections.extend(settings(rows));
    sections
}

/// What the default report says: a few lines.
pub(crate) fn halt_summary(rows: &HaltRows) -> PageSection {
    let all = &rows.all;
    let mut sentences = vec![match (all.not_blocked, all.blocked) {
        _ if all.halts + all.unfinished == 0 => {
            format!("{} halts, all of them in user space", thousands(all.in_user_space))
        }
        _ if all.halts == 0 => {
            format!("{} halts, none of them with both ends in the recording", thousands(all.unfinished))
        }
        (Some(not_blocked), Some(blocked)) => format!(
            "{} halts: {} ended before they blocked ({}), {} blocked",
            thousands(all.halts),
            thousands(not_blocked),
            percent(not_blocked, all.halts),
            thousands(blocked)
        ),
        _ => format!("{} halts", thousands(all.halts)),
    }];
    if all.pending > 0 {
        sentences.push(format!(
            "{} more exits for a halt found something pending, and did not halt",
            thousands(all.pending)
        ));
    }
    let mut figures = Vec::new();
    if all.gaps.count > 0 {
        figures.push(format!("gaps {}", quantiles(&all.gaps, all.halts)));
    }
    if all.latency.count > 0 {
        figures.push(format!("wake-up latency {}", quantiles(&all.latency, all.halts)));
    }
    if let (true, Some(miss)) = (all.has_wakeup_events, all.poll_fail_ns) {
        let all = Nanos(all.poll_success_ns + miss);
        figures.push(format!("polling took {all} of CPU time, {} of it in failed polls", Nanos(miss)));
    }
    sentences.extend((!figures.is_empty()).then(|| figures.join("; ")));
    let notes = vec!["by vCPU and by length: --view halt".to_string()];
    PageSection {
        title: "Halts".into(),
        sentences: sentences.into_iter().map(plain).collect(),
        notes,
        ..PageSection::default()
    }
}

/// Lengths of which one in a hundred is longer: of fewer, the longest is no such thing.
const HUNDREDTH: u64 = 100;

/// `p50 145us, p99 5.90ms`; of few, what there is, and of how many halts it is.
fn quantiles(of: &DurationStatsRow, halts: u64) -> String {
    let few = if of.count < halts { format!(" (known of {})", thousands(of.count)) } else { String::new() };
    match of.count {
        HUNDREDTH.. => format!("p50 {}, p99 {}{few}", length(of.p50_ns), length(of.p99_ns)),
        _ => format!("p50 {}, at most {}{few}", length(of.p50_ns), length(of.max_ns)),
    }
}

/// The length of which one in a hundred is longer, of enough.
fn p99(of: &DurationStatsRow) -> String {
    length(of.p99_ns.filter(|_| of.count >= HUNDREDTH))
}

fn by_vcpu(rows: &HaltRows, report: &Report) -> PageSection {
    let several_vms = rows.vcpus.iter().any(|row| row.who.vm != rows.vcpus[0].who.vm);
    let columns = vec![
        column("VM", true, if several_vms { 0 } else { 9 }),
        column("vCPU", true, 0),
        column("halts", false, 0),
        column("pending", false, 9),
        column("not blocked", false, 0),
        column("gap p50", false, 0),
        column("p99", false, 6),
        column("wake-up p50", false, 0),
        column("p99", false, 0),
        column("not blocked p50", false, 3),
        column("blocked p50", false, 3),
        column("failed polls", false, 7),
        column("polling", false, 0),
        column("of it failed", false, 0),
    ];
    let row = |row: &HaltRow<DurationStatsRow>, vm: String, vcpu: String| {
        let optional = |figure: Option<String>| figure.unwrap_or("-".to_string());
        let polled = row.has_wakeup_events.then_some(row.poll_fail_ns).flatten();
        vec![
            vm,
            vcpu,
            thousands(row.halts),
            thousands(row.pending),
            optional(row.not_blocked.map(|not_blocked| percent(not_blocked, row.halts))),
            length(row.gaps.p50_ns),
            p99(&row.gaps),
            length(row.latency.p50_ns),
            p99(&row.latency),
            length(row.latency_not_blocked.p50_ns),
            length(row.latency_blocked.p50_ns),
            optional(row.failed_polls.filter(|_| row.has_wakeup_events).map(thousands)),
            optional(polled.map(|miss| length(Some(row.poll_success_ns + miss)))),
            optional(polled.map(|miss| length(Some(miss)))),
        ]
    };
    let (shown, left_out) = heaviest(&rows.vcpus, VCPU_ROWS, |row| row.halts);
    let mut table: Vec<Vec<String>> =
        shown.into_iter().map(|of| row(of, of.who.vm_label(), of.who.vcpu_label())).collect();
    if rows.vcpus.len() > 1 {
        table.push(row(&rows.all, String::new(), "all".to_string()));
    }
    PageSection {
        title: "Halts, by vCPU".into(),
        table: Some(Table { columns, rows: table }),
        notes: more_in_json(left_out).into_iter().chain(notes(rows, report)).collect(),
        say_hidden: true,
        ..PageSection::default()
    }
}

/// Whether the host was set not to poll.
fn is_of_no_polls(trace: &TraceRow) -> bool {
    trace.settings.iter().any(|of| (&*of.component, &*of.name, of.value.trim()) == ("kvm", "halt_poll_ns", "0"))
}

/// What is known of the host's polling, where no failed poll was told of.
fn polling(rows: &HaltRows, report: &Report) -> Option<String> {
    let all = &rows.all;
    if report.is_xen() {
        return Some("Xen does not poll for a halted vCPU: all of them blocked.".to_string());
    }
    if !all.has_wakeup_events {
        let record = report.how.sentence(&[Missed::HaltEnds], "");
        return Some(format!("No kvm_vcpu_wakeup in the trace: which halts blocked is unknown. {record}"));
    }
    if all.poll_fail_ns.is_some() {
        return None;
    }
    if report.traces.iter().all(is_of_no_polls) {
        return Some(
            "The host's halt_poll_ns was 0, so that it polled for no VM but those with a limit of their own \
             (KVM_CAP_HALT_POLL), of which no kvm_halt_poll_ns in the trace tells."
                .to_string(),
        );
    }
    let most = all.before_block_ns.map_or(String::new(), |most| {
        format!(" It is at most {}, the time from the beginning of halts until threads blocked.", Nanos(most))
    });
    Some(format!(
        "No kvm_halt_poll_ns in the trace: either KVM never changed the length of a poll, or the event was not recorded; \
         the CPU time of failed polls is unknown.{most}"
    ))
}

/// What has to be known to read the table.
fn notes(rows: &HaltRows, report: &Report) -> Vec<String> {
    let all = &rows.all;
    let mut notes =
        vec!["gap: from the exit until something woke the vCPU; wake-up: from there to its entry".to_string()];
    if all.has_wakeup_events && !report.is_xen() {
        notes.push("not blocked: something woke it before its thread blocked, as in a successful poll".to_string());
    }
    if rows.of_vcores {
        return vec![
            "A halt is a virtual core's, while all its vCPUs have ceded (kvmppc_vcore_wakeup); it is shown under the \
             vCPU that ran the core. Gaps include the way back to the CPU."
                .to_string(),
        ];
    }
    notes.extend(polling(rows, report).filter(|_| all.halts > 0 || report.is_xen()));
    if all.inexact_gaps > 0 {
        let how = if all.has_wakeup_events && !report.is_xen() {
            format!(" {}", report.how.sentence(&[Missed::Scheduler], ""))
        } else {
            String::new()
        };
        notes.push(format!(
            "{} of {} gaps include the way back to the CPU, and have no wake-up latency, because {} recorded.{how}",
            thousands(all.inexact_gaps),
            thousands(all.halts),
            if report.is_xen() { "no run states were" } else { "no sched_wakeup of the vCPU's thread was" }
        ));
    }
    if all.kicked > 0 {
        notes.push(format!(
            "Halts ended by a sibling's KVM_HC_KICK_CPU (waits for a paravirtual spinlock): {}",
            thousands(all.kicked)
        ));
    }
    if all.unfinished > 0 {
        notes.push(format!(
            "Halts not in the table, because the recording's end or a loss cuts them off: {}",
            thousands(all.unfinished)
        ));
    }
    if all.in_user_space > 0 {
        notes.push(format!(
            "Halts not in the table, because user space handles them (KVM_EXIT_HLT) and KVM does not poll for them: {}",
            thousands(all.in_user_space)
        ));
    }
    if all.pending > 0 {
        notes.push(format!(
            "Exits for a halt that did not halt, because something was pending: {}",
            thousands(all.pending)
        ));
    }
    notes.push(match rows.guest_polls {
        true => "A guest switched the host's polling off (MSR_KVM_POLL_CONTROL), so it polls itself before it halts: \
            gaps that end in one of its successful polls cause no exit, and are missing here."
            .to_string(),
        false => "Gaps that end in a guest's own successful poll cause no exit, and would be missing here.".to_string(),
    });
    notes
}

fn by_length(rows: &HaltRows, xen: bool) -> PageSection {
    let columns = vec![
        column("up to", false, 0),
        column("gaps", false, 0),
        column("share", false, 0),
        column("cumulative", false, 0),
        column("not blocked", false, 0),
        column("blocked", false, 0),
    ];
    let all: u64 = rows.gaps.iter().map(|gap| gap.not_blocked + gap.blocked).sum();
    let mut before = 0;
    let table = rows.gaps.iter().map(|gap| {
        let count = gap.not_blocked + gap.blocked;
        before += count;
        vec![
            gap.up_to_ns.map_or("longer".to_string(), crate::names::exact_length),
            thousands(count),
            percent(count, all),
            percent(before, all),
            if rows.all.has_wakeup_events { thousands(gap.not_blocked) } else { "-".to_string() },
            if rows.all.has_wakeup_events { thousands(gap.blocked) } else { "-".to_string() },
        ]
    });
    PageSection {
        title: "Gaps by length".into(),
        table: Some(Table { columns, rows: table.collect() }),
        // Xen does not poll.
        notes: (!xen)
            .then(|| {
                "cumulative: gaps that would end within a poll of that length, if every halt were polled".to_string()
            })
            .into_iter()
            .collect(),
        ..PageSection::default()
    }
}

fn settings(rows: &HaltRows) -> Option<PageSection> {
    let sentence = |row: &PollSettingsRow| {
        let unseen = || "not seen".to_string();
        let most = match (row.halt_poll_ns, row.halt_poll_less_than_ns) {
            (Some(most), _) => most.to_string(),
            (None, Some(less)) => {
                format!("between {} and {less}, taken as {}", row.halt_poll_more_than_ns, row.halt_poll_assumed_ns)
            }
            (None, None) => format!("more than {}, taken as {}", row.halt_poll_more_than_ns, row.halt_poll_assumed_ns),
        };
        plain(format!(
            "{}halt_poll_ns {most}; halt_poll_ns_grow {}, halt_poll_ns_grow_start {}, halt_poll_ns_shrink {} (from {} \
             decisions)",
            if row.vm == 0 { String::new() } else { format!("VM {}: ", row.vm) },
            row.grow.map_or_else(unseen, |grow| grow.to_string()),
            row.grow_start_ns.map_or_else(unseen, |start| start.to_string()),
            row.shrink.map_or_else(unseen, |shrink| shrink.to_string()),
            thousands(row.decisions),
        ))
    };
    (!rows.settings.is_empty()).then(|| PageSection {
        title: "Halt polling parameters, inferred from kvm_halt_poll_ns".into(),
        sentences: rows.settings.iter().map(sentence).collect(),
        notes: vec!["what other settings would have done: exitscope replay --policy host_halt_poll".to_string()],
        ..PageSection::default()
    })
}
