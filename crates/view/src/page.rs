//! A page: titles, sentences and tables as plain data, and how a report becomes one.

use crate::compare::{ChangeRow, Comparison, ReasonComparison};
use crate::gang_page::{gang_sections, gang_summary};
use crate::halt_page::{halt_sections, halt_summary};
use crate::hidden::HiddenTime;
use crate::host_settings;
use crate::idle_polls::{idle_poll_section, idle_poll_summary};
use crate::interrupts_page::{interrupts_sections, interrupts_summary, of_x86_alone};
use crate::names::{self, percent, plural, rate, share, thousands};
use crate::phases_page::{phases_sections, phases_summary};
use crate::pio_page::{pio_sections, pio_summary};
use crate::report::{
    BreachRow, CoverageLine, EventKindsRow, ExitFigures, Report, SelectionRow, SignRow, StayStatsRow, SubjectRow,
    TimelineRows, TraceRow,
};
pub use crate::sections::VCPU_ROWS;
pub use crate::sections::{Page, PageSection, Sentence, Table, TableColumn, column, length, plain};
pub(crate) use crate::sections::{and_more, heaviest, more_in_json};
use crate::steal_takers::StealTakerRow;
use crate::vm_identities_page::vm_identities_section;
use crate::yield_page::{yield_sections, yield_summary};
use exitscope_analysis::record_commands::Missed;
use exitscope_analysis::{DiffMeasure, Dimension};
use exitscope_model::{LedgerLine, TimePart, WhoRow};
use exitscope_units::{Moment, Nanos, VmId};

/// Bars of a sparkline at most: with its words it fits into 80 columns.
const MAX_BARS: usize = 56;

/// Injected vectors that are listed.
const VECTORS: usize = 16;

/// Dimensions of what exits are about: only some exits have a place there.
pub(crate) const ABOUT: [Dimension; 5] =
    [Dimension::Port, Dimension::Mmio, Dimension::Msr, Dimension::Hypercall, Dimension::Cpuid];

/// The page of a report, with at most `detail_rows` rows in each table of what exits were about; tables of vCPUs may have [`VCPU_ROWS`]
/// in any case.
pub fn report_page(report: &Report, detail_rows: usize) -> Page {
    let mut sections = vec![head(report)];
    sections[0].sentences.extend(untold(report));
    let vcpu_rows = detail_rows.max(VCPU_ROWS);
    sections.extend(vm_identities_section(report, vcpu_rows));
    if !report.vcpus.is_empty() {
        sections.push(vcpus(report, vcpu_rows));
    }
    if !report.run_states.is_empty() {
        sections.push(run_states(report, vcpu_rows));
    }
    sections.extend(steal_takers(report, vcpu_rows));
    if report.total.count > 0 {
        sections.push(groups(report));
        sections.extend(details(report, detail_rows));
        sections.extend(injected(report));
        sections.extend(signs(report));
        sections.extend(slowest(report));
        sections.extend(report.timeline.as_ref().map(over_time));
    }
    sections.extend(MechanismView::ALL.iter().filter_map(|view| view.summary(report)));
    sections.extend(report.idle_polls.as_ref().map(idle_poll_summary));
    sections.extend(breaches(report));
    Page { sections }
}

/// A view of one mechanism.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MechanismView {
    /// Idle gaps, polls, wake-ups.
    Halt,
    /// Ganged exits.
    Gang,
    /// Accesses to ports and emulated memory.
    Pio,
    /// The steps of exits.
    Phases,
    /// Yields, preempted vCPUs, the run queue.
    Yield,
    /// What inhibits APICv and AVIC, and exits for the local APIC.
    Interrupts,
}

impl MechanismView {
    /// Each of them, in the order of a report.
    pub const ALL: [MechanismView; 6] = [
        MechanismView::Gang,
        MechanismView::Halt,
        MechanismView::Pio,
        MechanismView::Phases,
        MechanismView::Yield,
        MechanismView::Interrupts,
    ];

    /// What the default report says of it, a few lines, if it has anything.
    fn summary(self, report: &Report) -> Option<PageSection> {
        match self {
            MechanismView::Gang => report.gang.as_ref().map(gang_summary),
            MechanismView::Halt => report.halt.as_ref().map(halt_summary),
            MechanismView::Pio => report.pio.as_ref().map(pio_summary),
            MechanismView::Phases => report.phases.as_ref().and_then(phases_summary),
            MechanismView::Yield => report.yields.as_ref().and_then(yield_summary),
            MechanismView::Interrupts => report.interrupts.as_ref().and_then(interrupts_summary),
        }
    }
}

/// The page of one view: coverage, and all that the report says of the mechanism.
pub fn view_page(report: &Report, view: MechanismView) -> Page {
    let mut sections = vec![head(report)];
    sections.extend(match view {
        MechanismView::Halt => {
            let idle_polls = report.idle_polls.as_ref().map(idle_poll_section);
            halt_sections(report).into_iter().chain(idle_polls).collect()
        }
        MechanismView::Gang => gang_sections(report),
        MechanismView::Pio => pio_sections(report),
        MechanismView::Phases => phases_sections(report),
        MechanismView::Yield => yield_sections(report),
        MechanismView::Interrupts if !report.is_kvm_on_x86() => vec![of_x86_alone()],
        MechanismView::Interrupts => interrupts_sections(report.interrupts.as_ref(), &report.how, report.coverage.lost),
    });
    sections.extend(breaches(report));
    Page { sections }
}

fn breaches(report: &Report) -> Option<PageSection> {
    let sentence =
        |breach: &BreachRow| Sentence { text: format!("{}: found {}", breach.threshold, breach.found), warning: true };
    (!report.breaches.is_empty()).then(|| PageSection {
        title: "Thresholds passed".into(),
        sentences: report.breaches.iter().map(sentence).collect(),
        ..PageSection::default()
    })
}

fn head(report: &Report) -> PageSection {
    // That a part is missing goes before all.
    let (cut, damage): (Vec<_>, Vec<_>) = report.coverage.damage().partition(|line| line.is_cut());
    let warning = |line: &CoverageLine| Sentence { text: line.to_string(), warning: true };
    let mut sentences: Vec<Sentence> = cut.into_iter().map(warning).collect();
    for trace in &report.traces {
        let about = [&trace.format, &trace.arch, &trace.release, &trace.hostname];
        let about: Vec<&str> = about.into_iter().map(String::as_str).filter(|text| !text.is_empty()).collect();
        let length = Nanos(trace.last_ns.saturating_sub(trace.first_ns));
        sentences.push(plain(format!("{}: {}, {length} long", trace.name, about.join(", "))));
        sentences.extend(by_hand(trace));
        sentences.extend(host_settings::sentences(trace).into_iter().map(plain));
    }
    sentences.extend(report.halt.as_ref().and_then(|halt| halt.clock).map(|clock| clock.warning()));
    let coverage = &report.coverage;
    let is_not_understood = |row: &&CoverageLine| LedgerLine::NOT_UNDERSTOOD.iter().any(|line| line.id() == row.id);
    let not_understood: u64 = coverage.lines.iter().filter(is_not_understood).map(|line| line.count).sum();
    sentences.push(plain(format!(
        "{} events read, {} exits made ({} timed), {}, {} not understood",
        thousands(coverage.events),
        thousands(coverage.exits),
        thousands(coverage.timed_exits),
        coverage.lost.map_or("losses unknown".to_string(), |lost| format!("{} lost", thousands(lost))),
        thousands(not_understood),
    )));
    sentences.extend(selected(&report.selection));
    sentences.extend(damage.into_iter().map(warning));
    if coverage.exits == 0 {
        let text = match coverage.events {
            0 => "There is no event in the trace, so there is nothing to account for.".to_string(),
            events if not_understood >= events => "None of the events could be read.".to_string(),
            _ if coverage.lines.iter().any(|line| line.id == "guest_recording") => {
                "No event in the trace is a VM exit: it is a guest's own recording, and exits are in its host's."
                    .to_string()
            }
            _ => format!(
                "No event in the trace is a VM exit. {}",
                report.how.sentence(&[Missed::Exits], "while a guest runs")
            ),
        };
        sentences.push(Sentence { text, warning: true });
    } else if report.total.count == 0 {
        sentences.push(Sentence { text: "The selection contains no exit.".to_string(), warning: true });
    }
    if coverage.exits > 0 && coverage.timed_exits == 0 {
        let text = "No exit has a length, because no entry into a guest follows one: record the tracepoint of entries \
                    (kvm:kvm_entry, kvm_hv:kvm_guest_enter; on Xen, TRC_HVM_ENTRYEXIT) as well."
            .to_string();
        sentences.push(Sentence { text, warning: true });
    }
    let mut notes: Vec<String> =
        coverage.lines.iter().filter(|line| line.severity == "notice").map(ToString::to_string).collect();
    if coverage.lines.iter().any(|line| line.id == "unnamed_vcpu") {
        notes.push("`xentrace -D -e 0x000af000` records the scheduler as well, which names vCPUs".to_string());
    }
    PageSection { title: "Coverage".into(), sentences, notes, ..PageSection::default() }
}

/// What lengths rest on, where the clock's rate was given by hand.
pub(crate) fn by_hand(trace: &TraceRow) -> Option<Sentence> {
    let hz = thousands(trace.given_hz?);
    Some(plain(format!("Lengths depend on --tsc-hz, given by hand: {hz} ticks of the trace's clock per second")))
}

/// What the trace does not tell, and what was made of it.
fn untold(report: &Report) -> Option<Sentence> {
    let EventKindsRow { user_space: user, scheduler, all_steal, kvm_run, by_runner, switches, sleeps } =
        report.event_kinds;
    let unwoken = format!(
        "{} of {} sleeps have no sched_wakeup in the trace: the wait for a CPU at their end is counted as sleep, or \
         not divided from it",
        thousands(sleeps.1),
        thousands(sleeps.0)
    );
    let texts = match (user, scheduler) {
        _ if report.coverage.timed_exits == 0 => return None,
        _ if report.is_xen() && user && scheduler => vec![],
        _ if report.is_xen() => vec![
            "No run states in the trace: waiting for the device model and steal are counted as Xen's time, and halts \
             are not divided",
        ],
        (false, false) => vec![
            "No kvm_userspace_exit and no sched_switch in the trace: user space and steal are counted as the kernel's \
             time",
        ],
        (false, true) => vec![
            "No kvm_userspace_exit in the trace: user space, and the time in which it kept vCPUs from running, are \
             counted under what the exit is for: the kernel's time, halted, or waiting for memory",
        ],
        (true, false) => {
            vec!["No sched_switch in the trace: steal is counted as the kernel's, user space's or the halt's time"]
        }
        (true, true) => vec![],
    };
    let more = [
        (
            by_runner && !switches,
            "On powerpc without sched_switch, steal is only the time in which other virtual cores had the CPU: the \
             time in which other tasks had it is counted as the kernel's, user space's or the halt's",
        ),
        (switches && !all_steal, &unwoken),
        (
            user && !kvm_run,
            "The trace does not show when KVM_RUN is entered (kvm_fpu, sys_enter_ioctl): the kernel's way back into \
             the guest may be counted as user space's time",
        ),
    ];
    let more = more.into_iter().filter(|row| row.0).map(|row| row.1);
    let text = texts.into_iter().chain(more).collect::<Vec<_>>().join(". ");
    if text.is_empty() {
        return None;
    }
    let missed = [(!user, Missed::UserExits), (!switches || !all_steal, Missed::Scheduler), (!kvm_run, Missed::Calls)];
    let missed: Vec<Missed> = missed.into_iter().filter_map(|(is_missed, of)| is_missed.then_some(of)).collect();
    Some(plain(format!("{text}. {}", report.how.sentence(&missed, "to tell them apart"))))
}

/// A figure, if the trace tells such.
pub(crate) fn if_told(told: bool, figure: String) -> String {
    if told { figure } else { "-".to_string() }
}

/// `Selected: VM 121; reason io`, if anything is left out.
fn selected(selection: &SelectionRow) -> Option<Sentence> {
    let what = selection.to_string();
    // `Facts::absorb` of the analysis.
    let whole = match selection.from.is_some() || selection.to.is_some() {
        true => ". vCPUs' time is what passed within; rows of exits have those that began within, each as a whole",
        false => "",
    };
    (!what.is_empty()).then(|| plain(format!("Selected: {what}{whole}")))
}

/// Parts that are shown whether or not there is any of them.
fn always(part: TimePart) -> bool {
    matches!(part, TimePart::Guest | TimePart::Kernel | TimePart::User | TimePart::Halted | TimePart::Steal)
}

/// The parts of vCPUs' time that are shown: the usual ones, and what there is.
fn parts_of_vcpus(report: &Report) -> Vec<TimePart> {
    let is_there = |part: TimePart| always(part) || report.vcpus.iter().any(|row| row.times.get(part) > 0);
    TimePart::ALL.into_iter().filter(|part| is_there(*part)).collect()
}

/// What is to be said of a part that is there.
fn on_parts(report: &Report) -> Vec<String> {
    let is_there = |part: TimePart| report.vcpus.iter().any(|row| row.times.get(part) > 0);
    let mut notes = Vec::new();
    if is_there(TimePart::Undivided) {
        let untold = "halt, not divided: the recording has too little to divide these halts into polling, halted, \
            steal and cost";
        // Where the scheduler's events are there, it is not they that are missing.
        notes.push(match report.event_kinds.scheduler {
            true => untold.to_string(),
            false => match report.how.command(&[Missed::HaltEnds, Missed::Scheduler]) {
                Ok(command) => format!("{untold}; {command} records more"),
                Err(why) => format!("{untold}: {why}"),
            },
        });
    }
    if is_there(TimePart::Unknown) && report.is_xen() {
        let what = "unknown: stretches of more than 2 ms within exits in which the vCPU's CPU recorded nothing, though the vCPU had it";
        notes.push(what.to_string());
    }
    if is_there(TimePart::Excluded) {
        notes.push("excluded: a loss hides what happened in this time; no other figure includes it".to_string());
    }
    notes
}

/// Whether a recording tells how large a part of the time is, which divides into `of`.
pub(crate) fn is_told(report: &Report, part: TimePart, of: &dyn Fn(TimePart) -> u64) -> bool {
    match part {
        TimePart::Unknown | TimePart::Excluded => true,
        // Where no exit has an end, no part of the time is known.
        _ if report.coverage.timed_exits == 0 => false,
        // Where nothing tells the two apart, what is neither user space's nor the scheduler's is unknown.
        TimePart::Guest | TimePart::Kernel => {
            of(TimePart::Guest) > 0 || of(TimePart::Kernel) > 0 || of(TimePart::Unknown) == 0
        }
        TimePart::User => report.event_kinds.user_space,
        TimePart::Steal => report.event_kinds.tells_steal(of(part)),
        TimePart::Halted => {
            report.event_kinds.scheduler && !report.event_kinds.by_runner
                || of(TimePart::Halted) > 0
                || of(TimePart::Undivided) == 0
        }
        _ => true,
    }
}

fn vcpus(report: &Report, most: usize) -> PageSection {
    let mut columns = vec![column("VM", true, 0), column("vCPU", true, 0), column("wall", false, 1)];
    let shown_parts = parts_of_vcpus(report);
    columns.extend(shown_parts.iter().map(|part| column(part.name(), false, if always(*part) { 0 } else { 1 })));
    columns.extend([column("exits", false, 2), column("exits/s", false, 3)]);
    let mut order: Vec<_> = report.vcpus.iter().collect();
    order.sort_by_key(|row| (row.who.vm, row.who.vcpu.is_none(), row.who.vcpu, row.who.tid));
    // Where nothing says the VM, two may each have this vCPU.
    let mut numbers: Vec<_> = order.iter().filter(|row| row.who.vm.is_none()).map(|row| row.who.vcpu_label()).collect();
    numbers.sort_unstable();
    let vcpu_label = |who: &WhoRow| {
        let label = who.vcpu_label();
        let is_twice = who.vm.is_none() && numbers.windows(2).any(|pair| pair[0] == label && pair[1] == label);
        match who.tid.filter(|_| is_twice && who.vcpu.is_some()) {
            Some(tid) => format!("{label} (thread {tid})"),
            None => label,
        }
    };
    let (shown, left_out) = heaviest(order, most, |row| row.cost_ns.unwrap_or(0));
    let rows = shown.into_iter().map(|row| {
        let of = |part| row.times.get(part);
        let share = |part: TimePart| if_told(is_told(report, part, &of), percent(of(part), row.span_ns));
        let mut cells = vec![row.who.vm_label(), vcpu_label(&row.who), Nanos(row.span_ns).to_string()];
        cells.extend(shown_parts.iter().map(|part| share(*part)));
        cells.push(thousands(row.exits));
        cells.push(if row.span_ns == 0 { "-".to_string() } else { rate(row.exits as f64 * 1e9 / row.span_ns as f64) });
        cells
    });
    PageSection {
        title: "Where the wall time of each vCPU went".into(),
        table: Some(Table { rows: rows.collect(), columns }),
        notes: report
            .selection
            .narrows_exits()
            .then(|| "of all exits, whatever --reason, --longer-than and --where select".into())
            .into_iter()
            .chain(report.is_xen().then(|| "kernel: in Xen; user space: waiting for the device model".into()))
            .chain(on_parts(report))
            .chain(report.hidden.iter().flat_map(HiddenTime::notes))
            .chain(and_more(left_out))
            .collect(),
        ..PageSection::default()
    }
}

fn run_states(report: &Report, most: usize) -> PageSection {
    let columns = vec![
        column("VM", true, 0),
        column("vCPU", true, 0),
        column("running", false, 0),
        column("woken", false, 0),
        column("preempted", false, 0),
        column("blocked", false, 0),
        column("offline", false, 0),
        column("paused", false, 2),
        column("lost", false, 2),
        column("times woken", false, 3),
        column("times preempted", false, 4),
        column("times offline", false, 5),
    ];
    let mut order: Vec<_> = report.run_states.iter().collect();
    order.sort_by_key(|row| (row.who.vm, row.who.vcpu));
    let (shown, left_out) = heaviest(order, most, |row| row.woken.ns.saturating_add(row.preempted.ns));
    let rows = shown.into_iter().map(|row| {
        // Idling waits for no CPU: somebody has it.
        let waits = row.who.vm != Some(VmId::IDLE_DOMAIN.0);
        let [woken, preempted] = [row.woken, row.preempted].map(|stays| waits.then_some(stays));
        let [running, blocked, offline, paused, lost] =
            [row.running, row.blocked, row.offline, row.paused, row.unknown].map(Some);
        let lengths = [running, woken, preempted, blocked, offline, paused, lost]
            .map(|stays: Option<StayStatsRow>| length(stays.map(|stays| stays.ns)));
        let counts =
            [woken, preempted, offline].map(|stays| stays.map_or("-".to_string(), |stays| thousands(stays.count)));
        [&[row.who.vm_label(), row.who.vcpu_label()][..], &lengths, &counts].concat()
    });
    let said = "woken and preempted: runnable, waiting for a physical CPU; offline: waiting for the device model";
    let notes = [said.to_string()].into_iter().chain(and_more(left_out)).collect();
    PageSection {
        title: "How long Xen's scheduler had each vCPU in each state".into(),
        table: Some(Table { columns, rows: rows.collect() }),
        notes,
        ..PageSection::default()
    }
}

/// Who had the CPUs for which vCPUs waited, `most` rows at most.
fn steal_takers(report: &Report, most: usize) -> Option<PageSection> {
    let rows = &report.steal_takers;
    if rows.is_empty() {
        return None;
    }
    let (shown, left_out) = heaviest(rows, most, |row| row.steal_ns);
    let of_vm = |row: &StealTakerRow| rows.iter().filter(|other| other.who == row.who).map(|row| row.steal_ns).sum();
    let table = shown.into_iter().map(|row| {
        let share = percent(row.steal_ns, of_vm(row));
        vec![row.who.vm_label(), row.label.clone(), length(Some(row.steal_ns)), share]
    });
    let meaning = "who had the CPU: the CPU that the vCPU lost, or, after a wake-up, the CPU that it then got; kernel \
        threads by their names";
    Some(PageSection {
        title: "Steal by who had the CPU".into(),
        table: Some(Table {
            columns: vec![
                column("VM", true, 0),
                column("who had the CPU", true, 0),
                column("steal", false, 0),
                column("of the VM's", false, 0),
            ],
            rows: table.collect(),
        }),
        notes: [meaning.to_string()].into_iter().chain(more_in_json(left_out)).collect(),
        ..PageSection::default()
    })
}

/// The parts of exits beside their cost that there are in any group.
fn parts_of_exits(report: &Report) -> Vec<TimePart> {
    let figures = || report.rows.iter().map(|row| &row.figures).chain([&report.total]);
    TimePart::BESIDE_COST.into_iter().filter(|part| figures().any(|of| of.times.get(*part) > Some(0))).collect()
}

/// The columns of figures, with these parts.
fn figure_columns(parts: &[TimePart]) -> Vec<TableColumn> {
    let mut columns = vec![column("exits", false, 0), column("/s", false, 7), column("exit time", false, 5)];
    columns.extend(parts.iter().map(|part| column(part.name(), false, 9)));
    columns.extend([
        column("cost", false, 0),
        column("share", false, 0),
        column("mean", false, 4),
        column("p50", false, 0),
        column("p90", false, 6),
        column("p99", false, 0),
        column("p99.9", false, 8),
        column("max", false, 2),
        column("to user space", false, 3),
    ]);
    columns
}

fn figures(figures: &ExitFigures, told: EventKindsRow, parts: &[TimePart]) -> Vec<String> {
    let length = |length: Option<u64>| length.map_or("-".to_string(), |nanos| Nanos(nanos).to_string());
    let sum = |nanos: Option<u64>| match (figures.timed, nanos) {
        (0, _) | (_, None) => "-".to_string(),
        (_, Some(0)) => "0".to_string(),
        (_, Some(nanos)) => Nanos(nanos).to_string(),
    };
    let mut cells = vec![thousands(figures.count), rate(figures.rate_per_s), sum(figures.exit_time_ns)];
    cells.extend(parts.iter().map(|part| sum(figures.times.get(*part))));
    cells.extend([
        sum(figures.cost_ns),
        figures.share_of_cost.filter(|_| figures.timed > 0).map_or("-".to_string(), share),
        length(figures.mean_ns),
        length(figures.p50_ns),
        length(figures.p90_ns),
        length(figures.p99_ns),
        length(figures.p999_ns),
        length(figures.max_ns),
        if_told(told.user_space, share(figures.user_space_share)),
    ]);
    cells
}

fn names<'a>(dims: impl IntoIterator<Item = &'a Dimension>) -> String {
    dims.into_iter().map(|dim| dim.name()).collect::<Vec<_>>().join(", ")
}

fn groups(report: &Report) -> PageSection {
    let mut columns: Vec<TableColumn> = report.by.iter().map(|dim| column(dim.name(), true, 0)).collect();
    let parts = parts_of_exits(report);
    columns.extend(figure_columns(&parts));
    let mut rows: Vec<Vec<String>> = report
        .rows
        .iter()
        .map(|row| [row.place.labels.clone(), figures(&row.figures, report.event_kinds, &parts)].concat())
        .collect();
    if report.rows.len() > 1 {
        let mut labels = vec![String::new(); report.by.len()];
        labels[0] = "all".to_string();
        rows.push([labels, figures(&report.total, report.event_kinds, &parts)].concat());
    }
    let mut notes: Vec<String> = and_more(report.rows_left_out).into_iter().collect();
    if report.rows.len() > 1 && !report.exit_times_without.is_empty() {
        notes.push(format!("all: mean to max are without halts ({})", report.exit_times_without.join(", ")));
    }
    if report.ungrouped_exits > 0 {
        let dims = names(report.by.iter().filter(|&&dim| ABOUT.contains(&dim) || dim == Dimension::Rip));
        let (exits, have, are) =
            if report.ungrouped_exits == 1 { ("exit", "has", "is") } else { ("exits", "have", "are") };
        notes.push(format!(
            "{} {exits} {have} none of {dims} and {are} in none of these groups",
            thousands(report.ungrouped_exits)
        ));
    }
    PageSection {
        title: format!("Exits by {}", names(&report.by)),
        table: Some(Table { columns, rows }),
        notes,
        ..PageSection::default()
    }
}

fn details(report: &Report, most: usize) -> Vec<PageSection> {
    let mut headings: Vec<&str> = Vec::new();
    for row in &report.subjects {
        if !headings.contains(&row.heading) {
            headings.push(row.heading);
        }
    }
    let parts = parts_of_exits(report);
    let section = |heading: &&str| {
        let of_kind: Vec<&SubjectRow> = report.subjects.iter().filter(|row| row.heading == *heading).collect();
        let rows = of_kind
            .iter()
            .take(most)
            .map(|row| [vec![row.label.clone()], figures(&row.figures, report.event_kinds, &parts)].concat())
            .collect();
        let mut columns = vec![column("", true, 0)];
        columns.extend(figure_columns(&parts));
        let notes = and_more(of_kind.len().saturating_sub(most)).into_iter().collect();
        PageSection {
            title: heading.to_string(),
            table: Some(Table { columns, rows }),
            notes,
            ..PageSection::default()
        }
    };
    headings.iter().map(section).collect()
}

fn injected(report: &Report) -> Option<PageSection> {
    let mut vectors: Vec<_> = report.injected.iter().collect();
    vectors.sort_by_key(|row| (std::cmp::Reverse(row.count), row.vector));
    let mut list: Vec<String> = vectors
        .iter()
        .take(VECTORS)
        .map(|row| {
            let called = row.name.as_ref().map_or(row.vector.to_string(), |name| format!("{}, {name}", row.vector));
            format!("{:#04x} ({called}): {}", row.vector, thousands(row.count))
        })
        .collect();
    if vectors.len() > VECTORS {
        list.push(format!("and {} more (--format json)", vectors.len() - VECTORS));
    }
    (!list.is_empty()).then(|| PageSection {
        title: "Interrupts injected, by vector".into(),
        sentences: vec![plain(list.join("; "))],
        ..PageSection::default()
    })
}

/// What KVM's events show of what it does beside exits.
fn signs(report: &Report) -> Option<PageSection> {
    let columns = vec![
        column("events", false, 0),
        column("what they show", true, 0),
        column("tracepoint", true, 1),
        column("in process", true, 2),
    ];
    let row = |row: &SignRow| {
        let number = row.process.map_or_else(|| "?".to_string(), |process| process.to_string());
        let process = row.process_name.as_ref().map(|name| format!("{name} ({number})")).unwrap_or(number);
        vec![thousands(row.count), row.what.clone(), row.event.to_string(), process]
    };
    let rows: Vec<Vec<String>> = report.signs.iter().map(row).collect();
    (!rows.is_empty()).then(|| PageSection {
        title: "Beside exits".into(),
        table: Some(Table { columns, rows }),
        ..PageSection::default()
    })
}

fn slowest(report: &Report) -> Option<PageSection> {
    let columns = vec![
        column("at", false, 0),
        column("cost", false, 0),
        column("steal", false, 2),
        column("reason", true, 0),
        column("subject", true, 0),
        column("handler", true, 0),
        column("user space", false, 3),
        column("VM", true, 2),
        column("vCPU", true, 1),
        column("CPU", true, 3),
    ];
    let told = report.event_kinds;
    let rows: Vec<Vec<String>> = report
        .slowest
        .iter()
        .map(|row| {
            vec![
                report.moment(row.at_ns, Nanos(1)),
                length(Some(row.times.kernel_ns + row.times.user_space_ns)),
                if_told(told.tells_steal(row.times.steal_ns), length(Some(row.times.steal_ns))),
                row.reason.clone(),
                row.subject.clone().unwrap_or_default(),
                if_told(told.user_space, row.handler.clone()),
                if_told(told.user_space, length(Some(row.times.user_space_ns))),
                row.who.vm_label(),
                row.who.vcpu_label(),
                row.cpu.to_string(),
            ]
        })
        .collect();
    (!rows.is_empty()).then(|| PageSection {
        title: "Slowest single exits, by cost and steal".into(),
        table: Some(Table { columns, rows }),
        ..PageSection::default()
    })
}

fn over_time(timeline: &TimelineRows) -> PageSection {
    let squeeze = timeline.counts.len().div_ceil(MAX_BARS).max(1);
    let width = timeline.width_ns * squeeze as u64;
    let bars = |values: &[u64]| -> Vec<u64> { values.chunks(squeeze).map(|part| part.iter().sum()).collect() };
    let (counts, cost) = (bars(&timeline.counts), bars(timeline.cost_ns.as_deref().unwrap_or_default()));
    let most = |values: &[u64]| values.iter().copied().max().unwrap_or(0);
    let mut sentences = vec![format!("exits {}  at most {}", spark(&counts), thousands(most(&counts)))];
    if most(&cost) > 0 {
        sentences.push(format!("cost  {}  at most {}", spark(&cost), Nanos(most(&cost))));
    }
    let first = names::trimmed(Moment::from_nanos(timeline.first_ns));
    PageSection {
        title: format!("Over time, from {first} s on, {} a bar", names::exact_length(width)),
        sentences: sentences.into_iter().map(plain).collect(),
        ..PageSection::default()
    }
}

pub(crate) fn spark(values: &[u64]) -> String {
    const BARS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let most = values.iter().copied().max().unwrap_or(0).max(1);
    // Rounded up: what is not nothing shows.
    values.iter().map(|&value| BARS[(u128::from(value) * 8).div_ceil(u128::from(most)) as usize]).collect()
}

/// Reasons that a table of changes shows where small ones are folded.
const CHANGED: usize = 10;

/// What changed, reason by reason; those that cost next to nothing on either side are only counted if they are `folded`.
pub(crate) fn changes(
    title: String,
    rows: &[ReasonComparison],
    left_out: usize,
    folded: bool,
    note: &str,
) -> PageSection {
    let (small, large): (Vec<&ReasonComparison>, Vec<&ReasonComparison>) =
        rows.iter().partition(|row| folded && row.is_small());
    let most = if folded { CHANGED + 1 } else { usize::MAX };
    let beyond = large.len().saturating_sub(most) + left_out;
    let further = (!small.is_empty()).then(|| {
        let rows = plural(small.len() as u64, "row");
        format!("{} further {rows} under 1% of the cost on either side (--top all, --format json)", small.len())
    });
    let columns = vec![
        column("reason", true, 0),
        column("measure", true, 0),
        column("before", false, 2),
        column("after", false, 1),
        column("change", false, 3),
        column("interval of the change", false, 0),
        column("verdict", true, 0),
    ];
    // What costs nothing on either side says nothing.
    let says = |change: &&ChangeRow| {
        change.of != DiffMeasure::Cost || [change.before, change.after].into_iter().flatten().any(|cost| cost > 0.0)
    };
    let rows = large.into_iter().take(most).flat_map(|row| {
        row.changes.iter().filter(says).enumerate().map(move |(at, change)| {
            let name = if at == 0 { row.name() } else { String::new() };
            vec![
                name,
                change.to_string(),
                change.text(change.before),
                change.text(change.after),
                change.percent(),
                change.interval_text(),
                change.verdict_text().to_string(),
            ]
        })
    });
    PageSection {
        title,
        table: Some(Table { columns, rows: rows.collect() }),
        notes: and_more(beyond).into_iter().chain(further).chain([note.to_string()]).collect(),
        ..PageSection::default()
    }
}

/// What the rows of a comparison claim.
fn what_intervals_cover(comparison: &Comparison) -> String {
    let mut changes = comparison.rows.iter().flat_map(|row| &row.changes);
    let is_judged = changes.any(|change| matches!(change.verdict, "more" | "less" | "unclear"));
    let verdicts = match (is_judged, comparison.verdict.order) {
        (false, _) => "No row has a verdict, for the reason above.",
        (true, Some(_)) => {
            "A row has a verdict only where its change remains certain when all rows are tested together."
        }
        (true, None) => "A row has a verdict only where the interval of its change excludes zero.",
    };
    let cover = match comparison.verdict.order {
        Some(_) => {
            "A figure is the geometric mean over a side's recordings. Intervals cover the variation from recording to recording; each \
             interval is for one row alone."
        }
        None => {
            "The intervals cover only the variation within a recording; with several recordings on each side (--before, --after) they cover \
             the variation from run to run."
        }
    };
    format!(
        "Cost and rates are per second of vCPU time; mean, p50 and p99 are of whole exits, with recorded steal in them, which cost is without. \
         {verdicts} {cover}"
    )
}

/// The page of a comparison; reasons that cost next to nothing are only counted if they are `folded`.
pub fn comparison_page(comparison: &Comparison, folded: bool) -> Page {
    let side = |name: &str, side: &crate::SideRow| {
        let files = side.traces.iter().map(|trace| trace.name.as_str()).collect::<Vec<_>>().join(", ");
        plain(format!(
            "{name} {files}: {} events read, {} exits, {} lost, {} long, {} of vCPU time",
            thousands(side.events),
            thousands(side.exits),
            thousands(side.lost),
            Nanos(side.duration_ns),
            Nanos(side.vcpu_ns)
        ))
    };
    let mut head = PageSection { title: "Compared".into(), ..PageSection::default() };
    head.sentences.push(side("before:", &comparison.before));
    head.sentences.push(side("after: ", &comparison.after));
    head.sentences.extend(selected(&comparison.selection));
    for (name, side) in [("before", &comparison.before), ("after", &comparison.after)] {
        for line in side.lines.iter().filter(|line| matches!(line.severity, "loss" | "error")) {
            head.sentences.push(Sentence { text: format!("{name}: {line}"), warning: true });
        }
    }
    let table = changes(
        format!("Change by reason, {} % confidence", comparison.confidence_percent),
        &comparison.rows,
        comparison.rows_left_out,
        folded,
        &what_intervals_cover(comparison),
    );
    Page { sections: vec![comparison.verdict.headline.section(), head, table] }
}
