//! The page of ganged exits, and what the default report says of them.

use crate::gang::{ForcingExitsRow, GangRows};
use crate::halt::DurationStatsRow;
use crate::names::{percent, thousands};
use crate::page::{PageSection, Table, column, length, plain};
use crate::report::Report;
use exitscope_analysis::record_commands::{CORE_RUNS, HowToRecord, Missed};
use exitscope_model::GangRow;
use std::collections::BTreeMap;

/// Causes that are listed.
const MOST_CAUSES: usize = 12;

/// The page `--view gang`.
pub(crate) fn gang_sections(report: &Report) -> Vec<PageSection> {
    let said = |text: String| {
        vec![PageSection { title: "Ganged exits".into(), sentences: vec![plain(text)], ..PageSection::default() }]
    };
    match &report.gang {
        None => said(format!(
            "No exit of a powerpc guest is in this trace: exits are ganged on POWER7 and POWER8, where the threads of a \
             virtual core leave the guest together. Record there with {CORE_RUNS}."
        )),
        Some(rows) if rows.vms.is_empty() => said(alone(rows)),
        Some(rows) => {
            let causes = (!rows.causes.is_empty()).then(|| causes(rows));
            [by_vm(rows), by_vcore(rows, &report.how)].into_iter().chain(causes).collect()
        }
    }
}

/// What the default report says: a few lines.
pub(crate) fn gang_summary(rows: &GangRows) -> PageSection {
    let mut section = PageSection { title: "Ganged exits".into(), ..PageSection::default() };
    if rows.vms.is_empty() {
        section.sentences.push(plain(alone(rows)));
        return section;
    }
    let turns = shared_cores(rows).map_or("", |_| ", other virtual cores' turns included");
    let sentence = |row: &GangRow<DurationStatsRow>| {
        let lost = if row.forced_out.count == 0 {
            String::new()
        } else {
            format!("; time lost {}{turns}", length(Some(row.forced_out.sum_ns)))
        };
        plain(format!(
            "VM {}: {} of {} core runs ganged; of threads that had not ceded, {} of {} exits forced ({}){lost}",
            vm(row),
            thousands(row.ganged),
            thousands(row.runs),
            thousands(row.forced_exits),
            thousands(row.exits),
            percent(row.forced_exits, row.exits),
        ))
    };
    section.sentences.extend(rows.vms.iter().map(sentence));
    section.notes.push("by virtual core and cause, and by the rule of the script of 2015: --view gang".to_string());
    section
}

/// No run at all.
fn alone(rows: &GangRows) -> String {
    format!(
        "0 ganged exits: {} exits, and no kvmppc_run_core. On POWER9 and later every vCPU is a virtual core of its own and \
         leaves alone; on POWER7 and POWER8 record with {CORE_RUNS}.",
        thousands(rows.guest_exits)
    )
}

fn vm(row: &GangRow<DurationStatsRow>) -> String {
    match (&row.vm_name, row.vm) {
        (Some(name), Some(vm)) => format!("{name} {vm}"),
        (None, Some(vm)) => vm.to_string(),
        _ => "-".to_string(),
    }
}

fn by_vm(rows: &GangRows) -> PageSection {
    let columns = vec![
        column("VM", true, 0),
        column("core runs", false, 0),
        column("2015 script", false, 0),
        column("several active", false, 0),
        column("decrementer", false, 0),
        column("ganged", false, 0),
        column("share", false, 0),
    ];
    let table = rows.vms.iter().map(|row| {
        vec![
            vm(row),
            thousands(row.runs),
            thousands(row.ganged_script),
            thousands(row.runs_of_several),
            thousands(row.decrementer),
            thousands(row.ganged),
            percent(row.ganged, row.runs),
        ]
    });
    let mut notes = vec![
        "2015 script: runs with more than one vCPU runnable at the end, not counting those that ceded in the run; the script \
         misses threads that need user space. It keeps one count of ceded threads per process, shared by all cores; --format script \
         prints the script's own number"
            .to_string(),
        "several active: runs that two or more threads left without having ceded. Of these, decrementer: the shared \
         decrementer ended the run for all, and no thread forced another; ganged: all others in which at least two of the threads \
         got into the guest"
            .to_string(),
    ];
    if rows.unpaired_runs > 0 {
        notes.push(format!("Runs not counted, because only one end was seen: {}", thousands(rows.unpaired_runs)));
    }
    PageSection {
        title: "Ganged exits, by VM and rule".into(),
        table: Some(Table { columns, rows: table.collect() }),
        notes,
        ..PageSection::default()
    }
}

fn by_vcore(rows: &GangRows, how: &HowToRecord) -> PageSection {
    let columns = vec![
        column("VM", true, 1),
        column("vCPUs", true, 0),
        column("on CPUs", true, 4),
        column("exits", false, 0),
        column("forced exits", false, 0),
        column("share", false, 0),
        column("joined", false, 3),
        column("entry refused", false, 2),
        column("time lost", false, 0),
        column("p50", false, 0),
        column("p99", false, 2),
    ];
    let table = rows.vcores.iter().map(|row| {
        vec![
            vm(row),
            row.vcpus.as_deref().map_or(String::new(), ranges),
            ranges(&row.cpus),
            thousands(row.exits),
            thousands(row.forced_exits),
            percent(row.forced_exits, row.exits),
            thousands(row.joined),
            thousands(row.entry_refused),
            if row.forced_out.count == 0 { "-".to_string() } else { length(Some(row.forced_out.sum_ns)) },
            length(row.forced_out.p50_ns),
            length(row.forced_out.p99_ns),
        ]
    });
    let mut notes = vec![
        "exits: of threads that had not ceded; forced exits: by a sibling's doorbell (0xe80), with no reason of their \
         own; time lost: from a forced exit to the thread's next entry, other VMs' turns on the core included"
            .to_string(),
    ];
    notes.extend(shared_cores(rows));
    let forced: u64 = rows.vms.iter().map(|row| row.forced_exits).sum();
    let ganged: u64 = rows.vms.iter().map(|row| row.ganged).sum();
    if rows.vms.iter().all(|row| row.forced_out.count == 0) && forced > 0 {
        let at_most = match rows.forced_out_at_most_ns {
            0 => String::new(),
            nanos => format!("; it is at most {}, the time until each thread's next run", length(Some(nanos))),
        };
        notes.push(format!(
            "No entry follows a forced exit in this trace, so the time lost is unknown{at_most}. {}",
            how.sentence(&[Missed::Entries], "")
        ));
    }
    if forced == 0 && ganged > 0 {
        notes.push(
            "No thread has the doorbell's trap 0xe80. On POWER7 threads are forced out by an external interrupt \
             (0x500), which cannot be told from an interrupt of their own."
                .to_string(),
        );
    }
    PageSection {
        title: "Virtual cores".into(),
        table: Some(Table { columns, rows: table.collect() }),
        notes,
        say_hidden: true,
        ..PageSection::default()
    }
}

/// Cores on which virtual cores take turns, as the CPUs say that recorded their runs.
fn shared_cores(rows: &GangRows) -> Option<String> {
    let mut vcores: BTreeMap<u32, usize> = BTreeMap::new();
    rows.vcores.iter().flat_map(|row| &row.cpus).for_each(|cpu| *vcores.entry(*cpu).or_default() += 1);
    let shared: Vec<u32> = vcores.into_iter().filter(|(_, vcores)| *vcores > 1).map(|(cpu, _)| cpu).collect();
    (!shared.is_empty()).then(|| {
        format!(
            "On CPU {} several virtual cores ran in turn: part of the time lost there is other virtual cores' turns",
            ranges(&shared)
        )
    })
}

/// `0-3, 8`.
fn ranges(numbers: &[u32]) -> String {
    let mut parts: Vec<(u32, u32)> = Vec::new();
    for &number in numbers {
        match parts.last_mut() {
            Some(last) if last.1 + 1 == number => last.1 = number,
            _ => parts.push((number, number)),
        }
    }
    let text = |(first, last)| if first == last { format!("{first}") } else { format!("{first}-{last}") };
    parts.into_iter().map(text).collect::<Vec<_>>().join(", ")
}

fn causes(rows: &GangRows) -> PageSection {
    let columns = vec![
        column("VM", true, 1),
        column("vCPU", true, 0),
        column("reason", true, 0),
        column("runs", false, 0),
        column("forced exits", false, 0),
        column("time lost by others", false, 0),
    ];
    let several = rows.vms.len() > 1;
    let row = |row: &ForcingExitsRow| {
        vec![
            if several { row.vm.map_or("-".to_string(), |vm| vm.to_string()) } else { String::new() },
            row.vcpu.to_string(),
            row.reason.clone(),
            thousands(row.runs),
            thousands(row.forced_exits),
            if row.forced_out_ns == 0 { "-".to_string() } else { length(Some(row.forced_out_ns)) },
        ]
    };
    let mut notes = Vec::new();
    if rows.causes.len() > MOST_CAUSES {
        notes.push(format!("and {} more (--format json)", rows.causes.len() - MOST_CAUSES));
    }
    notes.push(
        "if several threads of a run had a reason to leave, the recording does not show which left first: each of their \
         rows counts all forced exits of the run, and an equal part of the time"
            .to_string(),
    );
    let lost: u64 = rows.vms.iter().map(|row| row.forced_out.sum_ns).sum();
    let of_causes: u64 = rows.causes.iter().map(|cause| cause.forced_out_ns).sum();
    if lost > of_causes {
        notes.push(format!("time lost in runs in which no thread shows the cause: {}", length(Some(lost - of_causes))));
    }
    PageSection {
        title: "Exits that forced others out".into(),
        table: Some(Table { columns, rows: rows.causes.iter().take(MOST_CAUSES).map(row).collect() }),
        notes,
        ..PageSection::default()
    }
}
