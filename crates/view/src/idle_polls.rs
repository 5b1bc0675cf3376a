//! Polls of idle CPUs, as the kernel that recorded tells of them: of a guest, which wake-ups they spared an interrupt.

use crate::names::thousands;
use crate::page::{PageSection, Table, VCPU_ROWS, column, heaviest, length, more_in_json, plain};
use exitscope_analysis::{CpuIdlePolls, Facts};
use exitscope_units::PcpuId;
use schemars::JsonSchema;
use serde::Serialize;

/// Polls of idle CPUs, by the events of the kernel that recorded; CPUs of several recordings are one if their numbers are.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct IdlePollRows {
    /// All CPUs together.
    pub all: IdlePollRow,
    /// By CPU.
    pub cpus: Vec<IdlePollRow>,
}

/// Polls of one CPU. Figures of which the recording has no event are null: that may be as there were none, or as they were not recorded.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct IdlePollRow {
    /// The CPU: of a guest, the vCPU's number in the guest. Null for all together.
    pub cpu: Option<u32>,
    /// Times that there was something to do for it while it polled, so that it was sent no interrupt (sched_wake_idle_without_ipi). Also a
    /// CPU that idles by MWAIT polls.
    pub woken_without_ipi: Option<u64>,
    /// Times that its limit grew (guest_halt_poll_ns).
    pub limit_grown: Option<u64>,
    /// Times that its limit shrank.
    pub limit_shrunk: Option<u64>,
    /// For how long it polls before it halts after the last change.
    pub limit_ns: Option<u32>,
    /// The longest such limit, before or after a change.
    pub longest_limit_ns: Option<u32>,
}

impl IdlePollRow {
    fn of(cpu: Option<PcpuId>, of: &CpuIdlePolls, all: &CpuIdlePolls) -> IdlePollRow {
        let has_limits = all.longest_limit.is_some();
        IdlePollRow {
            cpu: cpu.map(|cpu| cpu.0),
            woken_without_ipi: (all.woken_without_ipi > 0).then_some(of.woken_without_ipi),
            limit_grown: has_limits.then_some(of.changes.0),
            limit_shrunk: has_limits.then_some(of.changes.1),
            limit_ns: of.limit,
            longest_limit_ns: of.longest_limit,
        }
    }
}

impl IdlePollRows {
    /// Those of these facts, if there are any and they are a guest's: a host's CPUs poll, too, when they idle by MWAIT, and only guests have
    /// the governor haltpoll (`init_haltpoll` of drivers/cpuidle/governors/haltpoll.c).
    pub(crate) fn of(facts: &Facts) -> Option<IdlePollRows> {
        let polls = &facts.idle_polls;
        let all = polls.all();
        let may_be_guests = all.longest_limit.is_some() || facts.all.count == 0;
        (may_be_guests && !polls.cpus.is_empty()).then(|| IdlePollRows {
            all: IdlePollRow::of(None, &all, &all),
            cpus: polls.cpus.iter().map(|(cpu, of)| IdlePollRow::of(Some(*cpu), of, &all)).collect(),
        })
    }
}

/// What the page of halts says of them.
pub(crate) fn idle_poll_section(rows: &IdlePollRows) -> PageSection {
    let columns = vec![
        column("CPU", true, 0),
        column("woken without IPI", false, 0),
        column("limit", false, 0),
        column("longest limit", false, 3),
        column("grown", false, 5),
        column("shrunk", false, 5),
    ];
    let row = |row: &IdlePollRow| {
        let counted = |figure: Option<u64>| figure.map_or("-".to_string(), thousands);
        vec![
            row.cpu.map_or("all".to_string(), |cpu| cpu.to_string()),
            counted(row.woken_without_ipi),
            length(row.limit_ns.map(u64::from)),
            length(row.longest_limit_ns.map(u64::from)),
            counted(row.limit_grown),
            counted(row.limit_shrunk),
        ]
    };
    let (shown, left_out) = heaviest(&rows.cpus, VCPU_ROWS, |row| row.woken_without_ipi.unwrap_or(0));
    let mut table: Vec<Vec<String>> = shown.into_iter().map(row).collect();
    if rows.cpus.len() > 1 {
        table.push(row(&rows.all));
    }
    PageSection {
        title: "Idle CPUs that polled, by the events of the kernel that recorded".into(),
        table: Some(Table { columns, rows: table }),
        notes: more_in_json(left_out).into_iter().chain(notes(&rows.all)).collect(),
        ..PageSection::default()
    }
}

/// What has to be known to read the table.
fn notes(all: &IdlePollRow) -> Vec<String> {
    let woken = match all.woken_without_ipi {
        Some(_) => {
            "woken without IPI: there was something to do for a CPU whose idle task polled, so that no interrupt was sent to it \
             (sched_wake_idle_without_ipi); a CPU that idles by MWAIT polls, too"
        }
        None => {
            "No sched_wake_idle_without_ipi in the trace: how many wake-ups needed no interrupt is unknown, unless the event was \
             recorded, and then none did."
        }
    };
    let limit = match all.longest_limit_ns {
        Some(_) => {
            "limit: for how long the CPU polls before it halts, after the last change that the governor haltpoll made \
             (guest_halt_poll_ns, in the guest)"
        }
        None => {
            "No guest_halt_poll_ns in the trace: no limit of the governor haltpoll changed, or the event was not recorded, or this \
             kernel has another governor."
        }
    };
    [woken, limit].map(str::to_string).to_vec()
}

/// What the default report says of them: a sentence.
pub(crate) fn idle_poll_summary(rows: &IdlePollRows) -> PageSection {
    let all = &rows.all;
    let woken = all.woken_without_ipi.map(|woken| {
        format!("wake-ups of CPUs whose idle task polled, sent without an interrupt: {}", thousands(woken))
    });
    let limits = all.limit_grown.zip(all.limit_shrunk).map(|(grown, shrunk)| {
        format!("changes of how long the guest polls: {} up, {} down", thousands(grown), thousands(shrunk))
    });
    PageSection {
        title: "Idle CPUs of the kernel that recorded".into(),
        sentences: [woken, limits].into_iter().flatten().map(plain).collect(),
        notes: vec!["by CPU: --view halt".to_string()],
        ..PageSection::default()
    }
}
