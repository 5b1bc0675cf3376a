//! The page of yields, and what the default report says of them.

use crate::names::{self, exact_length, percent, thousands};
use crate::page::{PageSection, Table, column, length, more_in_json, plain, spark};
use crate::report::{Report, TimelineRows};
use crate::yields::{PleWindowRow, PreemptedRow, PreemptionRow, QueueRow, TargetRow, YieldRow, YieldRows};
use exitscope_analysis::record_commands::Missed;
use exitscope_model::Architecture;
use exitscope_units::{Moment, Nanos};

/// vCPUs and targets that are listed.
const MOST_ROWS: usize = 24;

/// The architecture of the machines of a report.
fn architecture(report: &Report) -> Architecture {
    Architecture::or_x86(report.traces.first().map_or("", |trace| trace.arch.as_str()))
}

/// The page `--view yield`.
pub(crate) fn yield_sections(report: &Report) -> Vec<PageSection> {
    let none = || {
        plain(format!(
            "No vCPU yields in this trace: there is no {}. {}",
            architecture(report).row().yields,
            report.how.sentence(&[Missed::Exits], "while vCPUs contend")
        ))
    };
    let Some(rows) = &report.yields else {
        return vec![PageSection { title: "Yields".into(), sentences: vec![none()], ..PageSection::default() }];
    };
    let mut sections = match rows.vcpus.is_empty() {
        true => vec![PageSection { title: "Yields".into(), sentences: vec![none()], ..PageSection::default() }],
        false => vec![by_vcpu(rows, report)],
    };
    if !rows.targets.is_empty() {
        sections.push(by_target(rows));
    }
    if rows.all_preempted.preemptions > 0 {
        sections.push(preempted(rows));
    }
    if !rows.longest.is_empty() {
        sections.push(longest(rows, report));
    }
    sections.extend(windows(rows));
    sections.extend(rows.queue.as_ref().map(queue));
    sections
}

/// What the default report says: a few lines.
pub(crate) fn yield_summary(rows: &YieldRows) -> Option<PageSection> {
    let mut calls: Vec<(&str, u64)> = Vec::new();
    for row in rows.vcpus.iter().filter(|row| row.waits) {
        let call = row.call.unwrap_or_default();
        match calls.iter_mut().find(|known| known.0 == call) {
            Some(known) => known.1 += row.count,
            None => calls.push((call, row.count)),
        }
    }
    if calls.is_empty() {
        return None;
    }
    let calls: Vec<String> = calls.iter().map(|(call, count)| format!("{} by {call}", thousands(*count))).collect();
    let sentences = [format!("yields: {}", calls.join(", "))].into_iter().chain(verdict(rows)).map(plain).collect();
    let notes = vec!["by vCPU and target, with the run queue: --view yield".to_string()];
    Some(PageSection { title: "Yields".into(), sentences, notes, ..PageSection::default() })
}

/// Whether those that yield wait for one that was preempted.
fn verdict(rows: &YieldRows) -> Option<String> {
    let (all, known) = (&rows.all, rows.all.known());
    if known == 0 {
        return None;
    }
    Some(match all.sibling_preempted {
        0 => {
            format!("at none of {} yields was a sibling preempted: no sign of lock-holder preemption", thousands(known))
        }
        count => format!(
            "at {} of {} yields ({}) a sibling was preempted, which may be the one that holds the lock; from the first yield \
             until it ran: {} in all, p99 {}",
            thousands(count),
            thousands(known),
            percent(count, known),
            Nanos(rows.all_preempted.sibling_wait.sum_ns),
            length(rows.all_preempted.sibling_wait.p99_ns),
        ),
    })
}

/// As long as a terminal is high, and what that leaves out.
fn listed<T>(rows: &[T], row: impl Fn(&T) -> Vec<String>, notes: &mut Vec<String>) -> Vec<Vec<String>> {
    notes.extend(more_in_json(rows.len().saturating_sub(MOST_ROWS)));
    rows.iter().take(MOST_ROWS).map(row).collect()
}

fn by_vcpu(rows: &YieldRows, report: &Report) -> PageSection {
    let several_vms = rows.vcpus.iter().any(|row| row.who.vm != rows.vcpus[0].who.vm);
    let columns = vec![
        column("VM", true, if several_vms { 0 } else { 9 }),
        column("vCPU", true, 0),
        column("call", true, 0),
        column("yields", false, 0),
        column("repeated", false, 4),
        column("between p50", false, 3),
        column("sibling preempted", false, 0),
        column("sibling runnable", false, 7),
        column("none runnable", false, 1),
        column("to target", false, 6),
        column("to sibling", false, 2),
        column("to others", false, 5),
        column("kept CPU", false, 2),
        column("exit p50", false, 3),
        column("p99", false, 8),
        column("steal", false, 4),
    ];
    // Whom a yield names is seldom recorded.
    let names_vcpus = !rows.targets.is_empty() || rows.other_targets > 0;
    let row = |row: &YieldRow| {
        let known = row.known();
        let gave = row.gave_target + row.gave_sibling + row.gave_other + row.kept_cpu;
        vec![
            if row.call.is_some() { row.who.vm_label() } else { String::new() },
            if row.call.is_some() { row.who.vcpu_label() } else { "all".to_string() },
            row.call.unwrap_or_default().to_string(),
            thousands(row.count),
            percent(row.repeated, row.count),
            length(row.between_repeats.p50_ns),
            percent(row.sibling_preempted, known),
            percent(row.sibling_runnable, known),
            percent(row.no_runnable_sibling, known),
            if names_vcpus { percent(row.gave_target, gave) } else { "-".to_string() },
            percent(row.gave_sibling, gave),
            percent(row.gave_other, gave),
            percent(row.kept_cpu, gave),
            length(row.exit_time.p50_ns),
            length(row.exit_time.p99_ns),
            length(report.event_kinds.scheduler.then_some(row.steal_ns)),
        ]
    };
    let mut notes = notes(rows, report);
    let mut table = listed(&rows.vcpus, row, &mut notes);
    if rows.vcpus.len() > 1 && rows.all.count > 0 {
        table.push(row(&rows.all));
    }
    PageSection {
        title: "Yields, by vCPU and call".into(),
        sentences: verdict(rows).into_iter().map(plain).collect(),
        table: Some(Table { columns, rows: table }),
        notes,
        say_hidden: true,
    }
}

/// What has to be known to read the table.
fn notes(rows: &YieldRows, report: &Report) -> Vec<String> {
    let all = &rows.all;
    let mut notes =
        vec!["repeated: the previous exit was a yield, too; between: time in the guest since then".to_string()];
    if all.known() > 0 {
        notes.push(
            "sibling preempted, sibling runnable (woken, not preempted), none runnable: the VM's other vCPUs at that \
             moment"
                .to_string(),
        );
    }
    if all.gave_target + all.gave_sibling + all.gave_other + all.kept_cpu > 0 {
        notes.push(
            "to …: who had the CPU next; kept CPU: the vCPU ran on, as the hypervisor ignored the yield or found no \
             better one"
                .to_string(),
        );
    }
    let says = |call: &str| rows.vcpus.iter().any(|row| row.call == Some(call));
    if all.count > 0 && all.known() == 0 {
        let powerpc = report.traces.iter().any(|trace| Architecture::of(&trace.arch) == Some(Architecture::Powerpc));
        notes.push(match powerpc {
            true => "Which vCPUs waited for a CPU is unknown: on powerpc one vCPU's thread runs other vCPUs, so the \
                scheduler's events do not show it."
                .to_string(),
            false => format!(
                "Which vCPUs waited for a CPU is unknown without the scheduler's events. {}",
                report.how.sentence(&[Missed::Scheduler], "")
            ),
        });
    }
    if says("KVM_HC_KICK_CPU") || says("H_PROD") {
        notes.push("KVM_HC_KICK_CPU and H_PROD wake a vCPU; the row all is without them".to_string());
    }
    let is_s390 = architecture(report) == Architecture::S390;
    if says("X'9C'") && is_s390 {
        notes.push(
            "No tracepoint shows which vCPU X'9C' names, or whether KVM ignored it or passed it on; KVM counts that \
             in diag_9c_ignored and diag_9c_forward of /sys/kernel/debug/kvm."
                .to_string(),
        );
    }
    if (says("X'44'") || says("X'9C'")) && !is_s390 {
        notes.push(
            "X'44' and X'9C' are the lab's, whose run loops serve them; this host's KVM has neither. The recording \
             does not show which vCPU X'9C' names."
                .to_string(),
        );
    }
    if says("PAUSE") && !report.is_xen() {
        notes.push(
            "PAUSE names no vCPU: the processor ends a loop of PAUSEs with an exit, KVM chooses the vCPU to boost \
             (kvm_vcpu_on_spin), and no tracepoint shows which."
                .to_string(),
        );
    }
    if says("KVM_HC_SCHED_YIELD") {
        notes.push(
            "KVM_HC_SCHED_YIELD names a local APIC, which is taken for the vCPU of that number; guests make it after \
             calls of functions on other CPUs, not for locks."
                .to_string(),
        );
    }
    if all.known() > 0 && rows.vcpus.iter().any(|row| row.who.vm.is_none()) {
        notes.push("The trace does not show which VM a vCPU belongs to, so all count as siblings.".to_string());
    }
    notes
}

fn by_target(rows: &YieldRows) -> PageSection {
    let columns = vec![
        column("VM", true, 1),
        column("vCPU", true, 0),
        column("call", true, 0),
        column("yields", false, 0),
        column("running", false, 0),
        column("preempted", false, 0),
        column("runnable", false, 2),
        column("halted", false, 2),
        column("unknown", false, 3),
    ];
    let row = |row: &TargetRow| {
        let part = |count| percent(count, row.count);
        vec![
            row.who.vm_label(),
            row.who.vcpu_label(),
            row.call.to_string(),
            thousands(row.count),
            part(row.running),
            part(row.preempted),
            part(row.runnable),
            part(row.halted),
            part(row.unknown),
        ]
    };
    let mut notes = vec!["a yield to a vCPU that runs or sleeps is ignored".to_string()];
    let table = listed(&rows.targets, row, &mut notes);
    if rows.other_targets > 0 {
        notes.push(format!("Yields to further vCPUs, not listed: {}", thousands(rows.other_targets)));
    }
    PageSection {
        title: "Yields, by the vCPU that was named".into(),
        table: Some(Table { columns, rows: table }),
        notes,
        ..PageSection::default()
    }
}

fn preempted(rows: &YieldRows) -> PageSection {
    let several_vms = rows.preempted.iter().any(|row| row.who.vm != rows.preempted[0].who.vm);
    let columns = vec![
        column("VM", true, if several_vms { 0 } else { 9 }),
        column("vCPU", true, 0),
        column("preempted", false, 0),
        column("p50", false, 3),
        column("p99", false, 3),
        column("with sibling yields", false, 0),
        column("yields", false, 2),
        column("sibling wait", false, 0),
        column("p50", false, 1),
        column("p99", false, 1),
    ];
    let row = |row: &PreemptedRow, vm: String, vcpu: String| {
        vec![
            vm,
            vcpu,
            thousands(row.preemptions),
            length(row.steal.p50_ns),
            length(row.steal.p99_ns),
            thousands(row.with_sibling_yields),
            thousands(row.yields),
            length(Some(row.sibling_wait.sum_ns)),
            length(row.sibling_wait.p50_ns),
            length(row.sibling_wait.p99_ns),
        ]
    };
    let mut notes = vec![
        "preempted: how often the vCPU lost its CPU while runnable, and the steal until it ran again; with sibling \
         yields: how often siblings yielded meanwhile; sibling wait: from the first such yield until the vCPU ran; if \
         several vCPUs were preempted at once, each counts all of it"
            .to_string(),
    ];
    let mut table = listed(&rows.preempted, |of| row(of, of.who.vm_label(), of.who.vcpu_label()), &mut notes);
    if rows.preempted.len() > 1 {
        table.push(row(&rows.all_preempted, String::new(), "all".to_string()));
    }
    PageSection {
        title: "Preempted vCPUs, and siblings that yielded meanwhile".into(),
        table: Some(Table { columns, rows: table }),
        notes,
        say_hidden: true,
        ..PageSection::default()
    }
}

fn longest(rows: &YieldRows, report: &Report) -> PageSection {
    let columns = vec![
        column("at", false, 0),
        column("VM", true, 1),
        column("vCPU", true, 0),
        column("preempted for", false, 0),
        column("first yield after", false, 0),
        column("yields", false, 0),
    ];
    let row = |row: &PreemptionRow| {
        vec![
            report.moment(row.at_ns, Nanos(1)),
            row.who.vm_label(),
            row.who.vcpu_label(),
            length(Some(row.ran_ns.saturating_sub(row.at_ns))),
            length(Some(row.first_yield_ns.saturating_sub(row.at_ns))),
            thousands(row.yields.into()),
        ]
    };
    PageSection {
        title: "Preemptions that siblings waited for longest".into(),
        table: Some(Table { columns, rows: rows.longest.iter().map(row).collect() }),
        ..PageSection::default()
    }
}

fn windows(rows: &YieldRows) -> Option<PageSection> {
    let sentence = |row: &PleWindowRow| {
        plain(format!(
            "{}{} times grown, {} times shrunk, between {} and {}",
            row.vm.map_or(String::new(), |vm| format!("VM {vm}: ")),
            thousands(row.grown),
            thousands(row.shrunk),
            thousands(row.min.into()),
            thousands(row.max.into()),
        ))
    };
    (!rows.windows.is_empty()).then(|| PageSection {
        title: "Windows of PAUSE loops (kvm_ple_window_update)".into(),
        sentences: rows.windows.iter().map(sentence).collect(),
        notes: vec![
            "how long a vCPU may loop on PAUSE before it exits: cycles on VMX, PAUSEs on SVM; what other windows \
             would have done: exitscope replay --policy yielding"
                .to_string(),
        ],
        ..PageSection::default()
    })
}

fn queue(queue: &QueueRow) -> PageSection {
    let columns =
        vec![column("vCPUs", false, 0), column("time", false, 0), column("share", false, 0), column("up to", false, 1)];
    let deepest = queue.time_ns.iter().rposition(|time| *time > 0).unwrap_or(0);
    let mut before = 0;
    let table = queue.time_ns.iter().enumerate().take(deepest + 1).map(|(depth, &time)| {
        before += time;
        let or_more = if depth + 1 == queue.time_ns.len() { " or more" } else { "" };
        vec![
            format!("{depth}{or_more}"),
            length(Some(time)),
            percent(time, queue.span_ns),
            percent(before, queue.span_ns),
        ]
    });
    let mut sentences = vec![format!(
        "{:.2} vCPUs wait for each CPU on average, at most {}; the queue is empty {} of the time",
        queue.mean,
        thousands(queue.max.into()),
        percent(queue.time_ns[0], queue.span_ns),
    )];
    sentences.extend(queue.timeline.as_ref().map(over_time));
    PageSection {
        title: "Run queues: vCPUs that are runnable without a CPU".into(),
        sentences: sentences.into_iter().map(plain).collect(),
        table: Some(Table { columns, rows: table.collect() }),
        notes: vec![
            "vCPUs of all VMs, each from its first exit in the trace on, under the CPU that it last ran on; time: \
             summed over the CPUs that run vCPUs; other threads of the host are not counted"
                .to_string(),
        ],
        ..PageSection::default()
    }
}

/// Means of buckets, in thousandths, as bars.
fn over_time(timeline: &TimelineRows) -> String {
    let buckets = timeline.counts.iter().zip(timeline.cost_ns.iter().flatten());
    let means: Vec<u64> =
        buckets.map(|(&time, &waited)| (u128::from(waited) * 1_000 / u128::from(time.max(1))) as u64).collect();
    let most = means.iter().copied().max().unwrap_or(0);
    format!(
        "over time {}  at most {}.{:02}, from {} s on, {} a bar",
        spark(&means),
        most / 1_000,
        most % 1_000 / 10,
        names::trimmed(Moment::from_nanos(timeline.first_ns)),
        exact_length(timeline.width_ns)
    )
}
