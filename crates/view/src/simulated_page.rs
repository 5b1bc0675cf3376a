//! How a simulated run becomes a page.

use crate::names::{percent, rate, share, thousands};
use crate::page::{Page, PageSection, Sentence, Table, column, plain};
use crate::simulated::{CostsRow, LatencyRow, PollsRow, ScenarioRow, SimReport, SimulatedVm, WorkRow};
use crate::{SimCheck, UncertaintyReport};
use exitscope_model::TimePart;
use exitscope_units::Nanos;

/// The page of a simulated run.
pub fn simulated_page(run: &SimReport) -> Page {
    let mut head = PageSection { title: format!("Simulated: {}", run.scenario.name), ..PageSection::default() };
    head.sentences = scenario_sentences(&run.scenario);
    head.sentences.push(plain(format!(
        "{} measured after {} of warm-up; seed {}; {} events",
        Nanos(run.scenario.duration_ns),
        Nanos(run.scenario.warmup_ns),
        run.scenario.seed,
        thousands(run.events)
    )));
    let mut sections: Vec<PageSection> = run.check.iter().map(SimCheck::section).collect();
    sections.push(head);
    sections.extend(run.uncertainty.as_ref().map(UncertaintyReport::section));
    sections.extend(work(run));
    sections.extend(times(&run.vms));
    sections.extend(exits(&run.vms));
    sections.extend(gangs(run));
    sections.extend(polls(run));
    sections.extend(yields(run));
    sections.extend(locks(run));
    sections.extend(others(run));
    Page { sections }
}

/// What a scenario is about, what it runs on, and what was set on the command line.
pub(crate) fn scenario_sentences(scenario: &ScenarioRow) -> Vec<Sentence> {
    let ScenarioRow { sockets, cores, threads, arch, vms, vcpus, .. } = scenario;
    let total = u64::from(*sockets) * u64::from(*cores);
    let host = match (sockets, threads) {
        (1, 1) => count(total, "CPU"),
        (1, _) => format!("{} of {threads} hardware threads", count(total, "core")),
        (_, _) => format!("{sockets} sockets, {} of {}", count(total, "core"), count(u64::from(*threads), "thread")),
    };
    let mut sentences = vec![];
    if !scenario.description.is_empty() {
        sentences.push(plain(scenario.description.clone()));
    }
    sentences.push(plain(format!("Host: {host} ({arch}); {} with {}", count(*vms, "VM"), count(*vcpus, "vCPU"))));
    sentences.push(plain(format!("Costs: {}", costs(&scenario.costs))));
    if !scenario.set.is_empty() {
        sentences.push(plain(format!("Set: {}", scenario.set.join(", "))));
    }
    sentences
}

/// `1 VM`, `8 VMs`.
fn count(number: u64, one: &str) -> String {
    if number == 1 { format!("1 {one}") } else { format!("{} {one}s", thousands(number)) }
}

/// `default, 45 numbers, all assumed`.
fn costs(costs: &CostsRow) -> String {
    let parts = [(costs.published, "published"), (costs.calibrated, "calibrated"), (costs.assumed, "assumed")];
    let known: Vec<_> = parts.into_iter().filter(|part| part.0 > 0).collect();
    let list = match known[..] {
        [(_, how)] => format!("all {how}"),
        _ => known.iter().map(|(number, how)| format!("{number} {how}")).collect::<Vec<_>>().join(", "),
    };
    format!("{}, {} numbers, {list}", costs.name, costs.published + costs.calibrated + costs.assumed)
}

const LATENCY: [&str; 4] = ["mean", "p50", "p90", "p99"];

fn latency(row: Option<&LatencyRow>) -> [String; 4] {
    let length = |of: fn(&LatencyRow) -> u64| row.map_or("-".to_string(), |row| Nanos(of(row)).to_string());
    [
        length(|row| row.mean_ns.round() as u64),
        length(|row| row.p50_ns),
        length(|row| row.p90_ns),
        length(|row| row.p99_ns),
    ]
}

fn work(run: &SimReport) -> Option<PageSection> {
    let row = |what: String, work: &WorkRow| {
        let label = vec![work.name.clone(), what, rate(work.throughput_per_s)];
        [label, latency(work.latency.as_ref()).to_vec()].concat()
    };
    let vms = run.vms.iter().map(|vm| (count(vm.copies.into(), "VM"), &vm.work));
    let threads = run.threads.iter().map(|thread| ("thread of the host".to_string(), thread));
    let loads = run.loads.iter().map(|load| ("clients outside".to_string(), load));
    let all = vms.chain(threads).chain(loads);
    let all: Vec<_> = all.filter(|(_, work)| work.done > 0 || work.latency.is_some()).collect();
    let is_timed = all.iter().any(|(_, work)| work.latency.is_some());
    let rows: Vec<_> = all.into_iter().map(|(what, work)| row(what, work)).collect();
    let mut columns = vec![column("name", true, 0), column("what", true, 2), column("done/s", false, 0)];
    columns.extend(LATENCY.iter().map(|&title| column(title, false, if title == "mean" { 1 } else { 0 })));
    (!rows.is_empty()).then(|| PageSection {
        title: if is_timed { "Work done, and how long each took" } else { "Work done" }.into(),
        table: Some(Table { columns, rows }),
        ..PageSection::default()
    })
}

/// A part of a VM's time, those of a recording by their names; and whether it is shown if there is none of it anywhere.
type Part = (&'static str, fn(&SimulatedVm) -> u64, bool);

const PARTS: [Part; 9] = [
    (TimePart::Guest.name(), |vm| vm.guest_ns, true),
    ("spinning", |vm| vm.spinning_ns, false),
    ("guest polling", |vm| vm.guest_polling_ns, false),
    (TimePart::Polling.name(), |vm| vm.polling_ns, false),
    (TimePart::Kernel.name(), |vm| vm.kernel_ns, true),
    (TimePart::User.name(), |vm| vm.user_space_ns, false),
    (TimePart::Halted.name(), |vm| vm.halted_ns, true),
    (TimePart::Steal.name(), |vm| vm.steal_ns, true),
    ("user space, asleep", |vm| vm.user_space_asleep_ns, false),
];

fn times(vms: &[SimulatedVm]) -> Option<PageSection> {
    let shown: Vec<_> =
        PARTS.into_iter().filter(|(_, of, always)| *always || vms.iter().any(|vm| of(vm) > 0)).collect();
    let mut columns = vec![column("VM", true, 0), column("vCPUs", false, 1)];
    columns.extend(shown.iter().map(|part| column(part.0, false, 0)));
    let row = |vm: &SimulatedVm| {
        let vcpus = if vm.copies > 1 { format!("{} x {}", vm.copies, vm.vcpus) } else { vm.vcpus.to_string() };
        let parts = shown.iter().map(|part| percent((part.1)(vm), vm.span_ns));
        [vm.work.name.clone(), vcpus].into_iter().chain(parts).collect()
    };
    let rows: Vec<_> = vms.iter().map(row).collect();
    (!rows.is_empty()).then(|| PageSection {
        title: "Where the wall time of the vCPUs went".into(),
        table: Some(Table { columns, rows }),
        ..PageSection::default()
    })
}

fn exits(vms: &[SimulatedVm]) -> Option<PageSection> {
    let columns = vec![
        column("VM", true, 0),
        column("reason", true, 0),
        column("exits", false, 1),
        column("/s", false, 0),
        column("share", false, 0),
    ];
    let mut rows: Vec<Vec<String>> = Vec::new();
    for vm in vms.iter().filter(|vm| vm.exits > 0) {
        let mut name = vm.work.name.clone();
        let total: f64 = vm.reasons.iter().map(|row| row.rate_per_s).sum();
        let all = (vm.reasons.len() > 1).then_some(("all", vm.exits, total));
        for (reason, count, per_s) in vm.reasons.iter().map(|row| (row.reason, row.count, row.rate_per_s)).chain(all) {
            let name = std::mem::take(&mut name);
            rows.push(vec![name, reason.to_string(), thousands(count), rate(per_s), percent(count, vm.exits)]);
        }
    }
    let sentences = if rows.is_empty() { vec![plain("No vCPU left its guest.".to_string())] } else { vec![] };
    let table = (!rows.is_empty()).then_some(Table { columns, rows });
    (!vms.is_empty()).then(|| PageSection {
        title: "Exits by reason".into(),
        sentences,
        table,
        ..PageSection::default()
    })
}

fn gangs(run: &SimReport) -> Option<PageSection> {
    let seconds = run.scenario.duration_ns as f64 / 1e9;
    let row = |vm: &SimulatedVm| {
        let (gang, by_script) = (vm.gang_exits?, vm.gang_exits_by_script?);
        let per_s = |count: u64| rate(count as f64 / seconds);
        Some(vec![vm.work.name.clone(), thousands(gang), per_s(gang), per_s(by_script)])
    };
    let rows: Vec<_> = run.vms.iter().filter_map(row).collect();
    let columns = vec![
        column("VM", true, 0),
        column("gang exits", false, 1),
        column("/s", false, 0),
        column("/s by the script of 2015", false, 0),
    ];
    (!rows.is_empty()).then(|| PageSection {
        title: "Gang exits: two or more threads of a core left though they could have run on".into(),
        table: Some(Table { columns, rows }),
        ..PageSection::default()
    })
}

fn polls(run: &SimReport) -> Option<PageSection> {
    let seconds = run.scenario.duration_ns as f64 / 1e9;
    let columns = vec![column("polls", true, 0), column("/s", false, 0), column("successful", false, 0)];
    let row = |(who, polls): (&str, &PollsRow)| {
        vec![who.to_string(), rate(polls.attempted as f64 / seconds), percent(polls.successful, polls.attempted)]
    };
    let both = [("of guests before a halt", &run.guest_polls), ("of the host after a halt", &run.host_polls)];
    let rows: Vec<_> = both.into_iter().filter(|polls| polls.1.attempted > 0).map(row).collect();
    let spared = format!(
        "{} wake-ups a second found a vCPU that polled in its guest: their wakers sent no interrupt.",
        rate(run.ipis_spared as f64 / seconds)
    );
    let sentences = (run.ipis_spared > 0).then_some(Sentence { text: spared, warning: false });
    (!rows.is_empty()).then(|| PageSection {
        title: "Polls, and how many were successful".into(),
        sentences: sentences.into_iter().collect(),
        table: Some(Table { columns, rows }),
        ..PageSection::default()
    })
}

fn yields(run: &SimReport) -> Option<PageSection> {
    let seconds = run.scenario.duration_ns as f64 / 1e9;
    let all = run.yields.total();
    let kinds = [
        ("to a vCPU that was run", run.yields.directed),
        ("to anybody", run.yields.undirected),
        ("on the fast path: nobody waited", run.yields.fast),
        ("without effect", run.yields.ignored),
    ];
    let kinds = kinds.into_iter().filter(|kind| kind.1 > 0);
    let row = |(kind, count): (&str, u64)| vec![kind.to_string(), rate(count as f64 / seconds), percent(count, all)];
    let columns = vec![column("yields", true, 0), column("/s", false, 0), column("share", false, 0)];
    (all > 0).then(|| PageSection {
        title: "Yields, by what became of them".into(),
        table: Some(Table { columns, rows: kinds.map(row).collect() }),
        ..PageSection::default()
    })
}

fn locks(run: &SimReport) -> Option<PageSection> {
    let locks = run.locks.as_ref()?;
    let seconds = run.scenario.duration_ns as f64 / 1e9;
    let mut columns = vec![column("taken/s", false, 0), column("contended", false, 0)];
    columns.extend(LATENCY.map(|title| column(title, false, 0)));
    let row = vec![rate(locks.taken as f64 / seconds), percent(locks.contended, locks.taken)];
    Some(PageSection {
        title: "Spinlocks, and how long vCPUs that did not get one at once waited".into(),
        table: Some(Table { columns, rows: vec![[row, latency(locks.wait.as_ref()).to_vec()].concat()] }),
        ..PageSection::default()
    })
}

fn others(run: &SimReport) -> Option<PageSection> {
    let seconds = run.scenario.duration_ns as f64 / 1e9;
    let per_s = |count: u64| rate(count as f64 / seconds);
    let mut sentences = vec![format!("On average {:.2} CPUs are busy.", run.busy_cpus)];
    sentences.push(match run.queue_depth {
        0.0 => "No task ever waited for a CPU.".to_string(),
        depth => format!(
            "On average {depth:.2} tasks wait for each CPU; the queue is empty {} of the time.",
            share(run.queue_empty_share)
        ),
    });
    if run.big_lock_waits > 0 {
        sentences.push(format!("{}/s waits for the lock of all devices in user space.", per_s(run.big_lock_waits)));
    }
    if run.emulations > 0 {
        sentences.push(format!("{}/s instructions emulated for port accesses.", per_s(run.emulations)));
    }
    Some(PageSection {
        title: "The host's CPUs".into(),
        sentences: sentences.into_iter().map(plain).collect(),
        ..PageSection::default()
    })
}
