//! Accounts of one recording held against each other: the same events with less among them, in another order, or under other names.
//!
//! ```text
//! trace ─► Recorded ─┬─► all of it ───────────────────────────────────────────► Account ─┐
//!                    └─► without a tracepoint; cut; in windows; reordered; renamed ─► Account ─┴─► a Case, and what is wrong with it
//! ```
//!
//! What is left out may make an account say less and nothing else: a part of a vCPU's time loses only to *unknown*, to *not divided*, to
//! *excluded*, or to one that the report then says is not told apart from it ([`DECLARED`]).

use anyhow::Context;
use exitscope_analysis::{Dimension, Facts, FactsOptions, MomentSpec, Selection, VerdictState};
use exitscope_model::{
    AllParts, CodeList, Event, EventKind, EventNames, Ledger, NameId, TimePart, TraceInfo, VcpuIdentity,
};
use exitscope_pipeline::read_source;
use exitscope_trace::{EventSource, Input, SourceOptions, TraceError, open_input};
use exitscope_units::{Moment, Nanos, PcpuId, Tid, VcpuId, VmId};
use exitscope_view::{Report, ReportOptions, SortKey, TerminalStyle, TraceRow, report_page, write_page};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Events that a [`EventsInMemory`] passes on at once.
const BATCH: usize = 4096;

/// xentrace logs do not say how fast the clock is; this is the corpus's (`xl info`).
const CLOCK_HZ: u64 = 2_596_120_000;

/// One of so many parts of the time of a damaged recording may be another one's.
const MOST_DAMAGED: u64 = 20;

/// vCPUs of a powerpc guest's recording have lower numbers.
const MOST_THREADS: u32 = 1 << 10;

/// Parts that may gain by what is left out.
const SAYS_LESS: [TimePart; 3] = [TimePart::Unknown, TimePart::Undivided, TimePart::Excluded];

/// A part that gains where a tracepoint is left out, because nothing tells it apart from those that lose.
pub struct Declared {
    /// How the tracepoint's name ends.
    pub tracepoint: &'static str,
    /// What gains.
    pub gains: &'static [TimePart],
    /// As much as these lose, at most.
    pub loses: &'static [TimePart],
    /// What the report says of that: its coverage, its verdict or what makes that doubtful.
    pub said: &'static str,
}

use TimePart::{Guest, Halted, Kernel, Memory, Polling, Steal, Stopped, Undivided, Unknown, User};

/// What reports say is not told apart.
pub const DECLARED: [Declared; 9] = [
    declared(
        "kvm_userspace_exit",
        &[Kernel, Halted, Memory],
        &[User, Stopped, Unknown, Undivided],
        "No kvm_userspace_exit",
    ),
    declared("kvm_fpu", &[User], &[Kernel, Polling, Undivided], "way back into the guest"),
    declared("sys_enter_ioctl", &[User], &[Kernel, Polling, Undivided], "way back into the guest"),
    declared("sys_enter", &[User], &[Kernel, Polling, Undivided], "way back into the guest"),
    declared("kvm_vcpu_wakeup", &[User], &[Kernel, Polling, Halted], "way back into the guest"),
    declared("kvm_mmio", &[User], &[Kernel], "way back into the guest"),
    declared("kvm_pio", &[User], &[Kernel], "way back into the guest"),
    declared("sched_switch", &[Kernel, User, Guest, Polling, Memory, Halted], &[Steal, Stopped, Memory], "steal"),
    declared("sched_wakeup", &[Kernel, User, Memory, Stopped], &[Steal], "the wait for a CPU at their end"),
];

const fn declared(
    tracepoint: &'static str,
    gains: &'static [TimePart],
    loses: &'static [TimePart],
    said: &'static str,
) -> Declared {
    Declared { tracepoint, gains, loses, said }
}

/// A recording, all of it in memory.
#[derive(Clone)]
pub struct Recorded {
    /// The file's name.
    pub name: String,
    /// What it says of itself.
    pub info: TraceInfo,
    /// In order of time.
    pub events: Vec<Event>,
}

impl Recorded {
    /// Reads a file.
    pub fn read(path: &Path) -> anyhow::Result<Recorded> {
        let open = |clock_hz| open_input(Input::open(path)?, SourceOptions { clock_hz, ..SourceOptions::default() });
        let mut source = open(None).or_else(|_| open(Some(CLOCK_HZ)))?;
        let (mut events, mut ledger) = (Vec::new(), Ledger::default());
        while source.read(&mut events, &mut ledger)? {}
        let name = path.file_name().context("a file")?.to_string_lossy().into_owned();
        Ok(Recorded { name, info: source.info().clone(), events })
    }

    /// The tracepoints of which it has events.
    pub fn tracepoints(&self) -> BTreeSet<NameId> {
        self.events.iter().map(|event| event.name).filter(|name| *name != NameId::NONE).collect()
    }

    /// The same, as if this tracepoint had not been recorded.
    pub fn without(&self, name: NameId) -> Recorded {
        let mut names = EventNames::default();
        for number in 0..self.info.names.len() as u16 {
            let kept = self.info.names.get(NameId(number));
            names.intern(&if number == name.0 { format!("not recorded: {kept}") } else { kept.to_string() });
        }
        let events = self.events.iter().filter(|event| event.name != name).copied().collect();
        Recorded { name: self.name.clone(), info: TraceInfo { names, ..self.info.clone() }, events }
    }

    fn with_events(&self, events: impl Iterator<Item = Event>) -> Recorded {
        Recorded { name: self.name.clone(), info: self.info.clone(), events: events.collect() }
    }

    /// Events of one moment that are of different threads and CPUs, the other way round: none of them knows of the other.
    pub fn reordered(&self) -> Recorded {
        let mut events = self.events.clone();
        for at in 1..events.len() {
            let (one, other) = (events[at - 1], events[at]);
            let are_apart = one.tid != other.tid && one.cpu != other.cpu && one.vcpu != other.vcpu;
            let is_one_vcpus = |event: &Event| {
                !matches!(
                    event.kind,
                    EventKind::Lost { .. }
                        | EventKind::Switch { .. }
                        | EventKind::Wakeup { .. }
                        | EventKind::ExitInfo(_)
                )
            };
            if one.at == other.at && are_apart && is_one_vcpus(&one) && is_one_vcpus(&other) {
                events.swap(at - 1, at);
            }
        }
        self.with_events(events.into_iter())
    }

    /// The same of VMs, threads and CPUs of other numbers.
    pub fn renamed(&self) -> Recorded {
        let thread = |tid: Tid| if tid.0 == 0 { tid } else { Tid(tid.0 ^ 0x1000_0000) };
        let events = self.events.iter().map(|event| {
            let kind = match event.kind {
                EventKind::Switch { prev, sleeps, next, prev_name } => {
                    EventKind::Switch { prev: thread(prev), sleeps, next: thread(next), prev_name }
                }
                EventKind::Wakeup { tid } => EventKind::Wakeup { tid: thread(tid) },
                kind => kind,
            };
            let vm = match event.vm {
                vm @ (VmId::UNKNOWN | VmId::IDLE_DOMAIN) => vm,
                VmId(vm) => VmId(vm ^ 0x1000_0000),
            };
            Event { tid: thread(event.tid), vm, kind, ..*event }
        });
        let comms = self.info.comms.iter().map(|(tid, comm)| (thread(Tid(*tid)).0, comm.clone())).collect();
        Recorded { info: TraceInfo { comms, ..self.info.clone() }, ..self.with_events(events) }
    }

    /// powerpc: the virtual cores of all VMs as those of one. Which of them take turns does not depend on whose they are.
    pub fn in_one_vm(&self) -> Option<Recorded> {
        let is_trap =
            |event: &Event| matches!(event.kind, EventKind::Exit { code, .. } if code.list == CodeList::PpcTrap);
        let vms: BTreeSet<VmId> = self.events.iter().filter(|event| is_trap(event)).map(|event| event.vm).collect();
        let first = *vms.first().filter(|_| vms.len() > 1)?;
        let events = self.events.iter().map(|event| match vms.iter().position(|vm| *vm == event.vm) {
            Some(number) if event.vcpu != VcpuId::UNKNOWN => {
                Event { vm: first, vcpu: VcpuId(event.vcpu.0 + number as u32 * MOST_THREADS), ..*event }
            }
            Some(_) => Event { vm: first, ..*event },
            None => *event,
        });
        Some(self.with_events(events))
    }

    /// What is made of it.
    pub fn account(&self) -> anyhow::Result<Account> {
        self.account_of(Selection::default())
    }

    fn account_of(&self, selection: Selection) -> anyhow::Result<Account> {
        let wanted = FactsOptions { by: vec![Dimension::Reason], slowest: 0, selection: selection.clone() };
        let mut facts = Facts::new(&wanted);
        let source = EventsInMemory { info: self.info.clone(), events: self.events.clone(), at: 0 };
        let trace = read_source(Box::new(source), &self.name, &mut facts)?;
        let (first, last) = trace.span.unwrap_or_default();
        facts.end(first, last, &trace.vcpu_of);
        let mut vcpus: BTreeMap<VcpuKey, AllParts> = BTreeMap::new();
        for (who, time) in &facts.divisions {
            vcpus.entry(VcpuKey::of(*who)).or_default().merge(&time.parts);
        }
        let options = ReportOptions {
            exits: trace.exits,
            timed_exits: trace.timed_exits,
            selection,
            sort: SortKey::Cost,
            top: 0,
            breaches: Vec::new(),
            threads_per_core: None,
            cycles_per_s: None,
            functions: BTreeMap::new(),
        };
        let row = TraceRow::of(self.name.clone(), &trace.info, "", trace.ends, trace.ledger.events);
        let report = Report::of(&facts, &trace.ledger, vec![row], &trace.info, options);
        let mut text = Vec::new();
        write_page(&report_page(&report, 0), TerminalStyle { width: None, colour: false, unicode: true }, &mut text)?;
        let text = [String::from_utf8(text)?, report.verdict.doubts.join("\n")].concat();
        let verdict = (report.verdict.text.clone(), report.verdict.is_doubtful);
        let is_told = !VerdictState::UNTOLD.contains(&report.verdict.state);
        Ok(Account { vcpus, verdict, is_told, exits: facts.all.count, ends: trace.ends, text })
    }

    /// For how long, up to a moment, each thread's or vCPU's last event that says where it is had been.
    fn open_at(&self, moment: Moment) -> u64 {
        let mut last: BTreeMap<(Tid, VcpuId, PcpuId), Moment> = BTreeMap::new();
        for event in self.events.iter().take_while(|event| event.at <= moment) {
            use EventKind::{Enter, Exit, Fpu, RunEnter, UserspaceExit};
            if matches!(event.kind, Enter | Exit { .. } | Fpu { load: true } | RunEnter | UserspaceExit { .. }) {
                last.insert((event.tid, event.vcpu, PcpuId(0)), event.at);
            }
        }
        last.values().filter_map(|at| moment.since(*at)).fold(0, |sum, open: Nanos| sum.saturating_add(open.0))
    }
}

/// A source of events in memory.
struct EventsInMemory {
    info: TraceInfo,
    events: Vec<Event>,
    at: usize,
}

impl EventSource for EventsInMemory {
    fn info(&self) -> &TraceInfo {
        &self.info
    }

    fn read(&mut self, events: &mut Vec<Event>, ledger: &mut Ledger) -> Result<bool, TraceError> {
        let batch = &self.events[self.at..self.events.len().min(self.at + BATCH)];
        ledger.events += batch.iter().filter(|event| !matches!(event.kind, EventKind::Lost { .. })).count() as u64;
        events.extend_from_slice(batch);
        self.at += batch.len();
        Ok(self.at < self.events.len())
    }

    fn progress(&self) -> (u64, u64) {
        (self.at as u64, self.events.len() as u64)
    }
}

/// A vCPU, whether or not anything says its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct VcpuKey(VmId, Tid, VcpuId);

impl VcpuKey {
    fn of(who: VcpuIdentity) -> VcpuKey {
        VcpuKey(who.vm, who.tid, if who.tid == Tid(0) { who.vcpu } else { VcpuId::UNKNOWN })
    }
}

/// What is made of a recording.
pub struct Account {
    /// Where each vCPU's time went.
    pub vcpus: BTreeMap<VcpuKey, AllParts>,
    /// The verdict, and whether it is doubtful.
    pub verdict: (String, bool),
    /// Whether it says where most of the time goes.
    is_told: bool,
    /// Exits.
    pub exits: u64,
    ends: (Moment, Moment),
    /// All that the report says.
    text: String,
}

/// How much a part of the vCPUs' time is more, and less, than in another account, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// The part.
    pub part: TimePart,
    /// Of vCPUs that have more of it, together.
    pub more: u64,
    /// Of those that have less.
    pub less: u64,
}

impl Account {
    /// By part: the sums over vCPUs of what is more, and of what is less.
    pub fn changes(&self, than: &Account) -> Vec<Change> {
        let mut changes = TimePart::ALL.map(|part| Change { part, more: 0, less: 0 });
        let keys: BTreeSet<_> = self.vcpus.keys().chain(than.vcpus.keys()).collect();
        for key in keys {
            let of = |account: &Account| account.vcpus.get(key).copied().unwrap_or_default();
            let (now, then) = (of(self), of(than));
            for change in &mut changes {
                change.more += now.get(change.part).0.saturating_sub(then.get(change.part).0);
                change.less += then.get(change.part).0.saturating_sub(now.get(change.part).0);
            }
        }
        changes.into_iter().filter(|change| change.more + change.less > 0).collect()
    }

    /// All of the vCPUs' time.
    pub fn wall(&self) -> u64 {
        self.vcpus.values().map(|parts| parts.sum().0).sum()
    }

    /// The parts without whose they are, in order.
    fn nameless(&self) -> Vec<AllParts> {
        let mut parts: Vec<AllParts> = self.vcpus.values().copied().collect();
        parts.sort_by_key(|parts| TimePart::ALL.map(|part| parts.get(part).0));
        parts
    }
}

/// A recording that was changed, and its account beside that of the whole.
pub struct Case {
    /// What was done: `without kvm:kvm_fpu`.
    pub what: String,
    /// The parts that changed.
    pub changes: Vec<Change>,
    /// What must not be.
    pub wrong: Vec<String>,
}

/// A damaged recording without one of its tracepoints, whose number `pick` says: what must not be. Its events contradict one another,
/// which made time unknown; without some of them nothing contradicts the others.
pub fn without_one(recorded: &Recorded, pick: u64) -> anyhow::Result<Vec<String>> {
    let names: Vec<NameId> = recorded.tracepoints().into_iter().collect();
    let Some(name) = names.get((pick % names.len().max(1) as u64) as usize) else { return Ok(Vec::new()) };
    let whole = recorded.account()?;
    // Where events are out of order, or cannot have been, what is left of them says something else.
    if whole.vcpus.values().any(|parts| parts.get(TimePart::Excluded) > Nanos::ZERO) {
        return Ok(Vec::new());
    }
    let Case { what, changes, .. } = without(recorded, *name, &whole)?;
    let known = changes.iter().filter(|of| SAYS_LESS.contains(&of.part)).map(|of| of.less).sum::<u64>();
    let most = known.saturating_add(whole.wall() / MOST_DAMAGED);
    let gains = changes.iter().filter(|of| !SAYS_LESS.contains(&of.part));
    let tracepoint = recorded.info.names.get(*name);
    let wrong = gains.filter(|gain| gain.more > most.saturating_add(allowed(tracepoint, gain.part, &changes)));
    Ok(wrong.map(|gain| format!("{what}: {} gains {} ns", gain.part.name(), gain.more)).collect())
}

/// The rows that declare that a part gains without this tracepoint, and how much of it.
fn rows(tracepoint: &str, part: TimePart) -> impl Iterator<Item = &'static Declared> {
    let is_of = move |row: &&Declared| tracepoint.split_once(':').is_some_and(|(_, name)| name == row.tracepoint);
    DECLARED.iter().filter(is_of).filter(move |row| row.gains.contains(&part)).collect::<Vec<_>>().into_iter()
}

fn lost(row: &Declared, changes: &[Change]) -> u64 {
    changes.iter().filter(|of| row.loses.contains(&of.part)).map(|of| of.less).fold(0, u64::saturating_add)
}

fn allowed(tracepoint: &str, part: TimePart, changes: &[Change]) -> u64 {
    rows(tracepoint, part).map(|row| lost(row, changes)).fold(0, u64::saturating_add)
}

fn without(recorded: &Recorded, name: NameId, whole: &Account) -> anyhow::Result<Case> {
    let tracepoint = recorded.info.names.get(name);
    let less = recorded.without(name).account()?;
    let changes = less.changes(whole);
    let mut wrong = undeclared(tracepoint, &changes, &less);
    if whole.verdict.1 && !less.verdict.1 {
        wrong.push(format!("the verdict is certain now: {}", less.verdict.0));
    }
    Ok(Case { what: format!("without {tracepoint}"), changes, wrong })
}

/// All that is done to a recording.
pub fn cases(recorded: &Recorded) -> anyhow::Result<(Account, Vec<Case>)> {
    let whole = recorded.account()?;
    let mut cases = Vec::new();
    for name in recorded.tracepoints() {
        cases.push(without(recorded, name, &whole)?);
    }
    // What is recorded is not said to lack.
    let marks = ["kvm_userspace_exit", "kvm_fpu", "sys_enter_ioctl", "sched_wakeup"];
    let recorded_names = recorded.tracepoints().into_iter().map(|name| recorded.info.names.get(name));
    let said = recorded_names.filter_map(|name| name.split_once(':')).filter(|(_, name)| marks.contains(name));
    let lacks = |row: &&Declared| whole.text.contains(row.said);
    let wrong = said.flat_map(|(_, name)| DECLARED.iter().filter(move |row| row.tracepoint == name)).filter(lacks);
    let wrong =
        wrong.map(|row| format!("{} is recorded, and the report says {:?}", row.tracepoint, row.said)).collect();
    cases.push(Case { what: "all of it".into(), changes: Vec::new(), wrong });
    cases.extend(cuts(recorded, &whole)?);
    cases.push(windows(recorded, &whole)?);
    let alike = [("reordered", Some(recorded.reordered())), ("renamed", Some(recorded.renamed()))];
    for (what, changed) in alike.into_iter().chain([("in one VM", recorded.in_one_vm())]) {
        let Some(changed) = changed else { continue };
        let changed = changed.account()?;
        let is_same = changed.nameless() == whole.nameless() && changed.verdict == whole.verdict;
        let changes = if is_same { Vec::new() } else { changed.changes(&whole) };
        let wrong = if is_same { Vec::new() } else { vec![format!("another account: {}", changed.verdict.0)] };
        cases.push(Case { what: what.into(), changes, wrong });
    }
    Ok((whole, cases))
}

/// Gains that the report does not declare.
fn undeclared(tracepoint: &str, changes: &[Change], less: &Account) -> Vec<String> {
    let gains = changes.iter().filter(|change| change.more > 0 && !SAYS_LESS.contains(&change.part));
    let mut wrong = Vec::new();
    for gain in gains {
        let allowed = allowed(tracepoint, gain.part, changes);
        if gain.more > allowed {
            wrong.push(format!("{} gains {} ns, of which {allowed} may be", gain.part.name(), gain.more));
        }
        // Where nothing can be told, it is not said what of it is not told apart.
        let is_unsaid = |row: &&Declared| less.is_told && lost(row, changes) > 0 && !less.text.contains(row.said);
        for row in rows(tracepoint, gain.part).filter(is_unsaid) {
            wrong.push(format!("{} gains, and the report does not say {:?}", gain.part.name(), row.said));
        }
    }
    wrong
}

/// The recording up to a moment, and from it on: a part gains no more than what was open there.
fn cuts(recorded: &Recorded, whole: &Account) -> anyhow::Result<Vec<Case>> {
    let mut cases = Vec::new();
    for third in 1..3 {
        let long = whole.ends.1.since(whole.ends.0).unwrap_or_default().0;
        let moment = Moment::from_nanos(whole.ends.0.as_nanos() + long / 3 * third);
        let open = recorded.open_at(moment);
        for (what, is_kept) in [("up to", true), ("from", false)] {
            let events = recorded.events.iter().filter(|event| (event.at <= moment) == is_kept).copied();
            let changes = recorded.with_events(events).account()?.changes(whole);
            let gains = changes.iter().filter(|change| change.more > open && !SAYS_LESS.contains(&change.part));
            let wrong = gains.map(|gain| format!("{} gains {} ns, and {open} were open", gain.part.name(), gain.more));
            cases.push(Case { what: format!("{what} {third}/3"), wrong: wrong.collect(), changes });
        }
    }
    Ok(cases)
}

/// Two windows that meet hold what the whole holds, but for what rounding takes.
fn windows(recorded: &Recorded, whole: &Account) -> anyhow::Result<Case> {
    let long = whole.ends.1.since(whole.ends.0).unwrap_or_default().0;
    let moment = MomentSpec::At(Moment::from_nanos(whole.ends.0.as_nanos() + long / 2));
    let (mut before, mut after) = (Selection::default(), Selection::default());
    (before.to, after.from) = (Some(moment), Some(moment));
    let (first, second) = (recorded.account_of(before)?, recorded.account_of(after)?);
    let mut both = first;
    for (key, parts) in second.vcpus {
        both.vcpus.entry(key).or_default().merge(&parts);
    }
    let changes = both.changes(whole);
    // Of each vCPU's row at the border each part is rounded.
    let most = (whole.vcpus.len() * TimePart::ALL.len()) as u64;
    let wrong = changes.iter().filter(|change| change.more.max(change.less) > most);
    let wrong = wrong.map(|change| format!("{}: {} ns more, {} less", change.part.name(), change.more, change.less));
    Ok(Case { what: "in two windows".into(), wrong: wrong.collect(), changes })
}
