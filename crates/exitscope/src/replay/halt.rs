//! Replays of halt polling.

use super::{Configuration, Grid, best_by, figure, head, knobs};
use crate::cli::{PolicyName, ReplayArgs};
use crate::read::{self, Earlier, Sink};
use crate::select;
use anyhow::bail;
use exitscope_analysis::replay::{Decisions, HaltOutcome, HaltPolicy, HaltReplay};
use exitscope_analysis::{Facts, PollHost, PollSettings, Selection, Wanted};
use exitscope_model::{Exit, Halt};
use exitscope_trace::{Input, Keep};
use exitscope_units::{Moment, Nanos};
use exitscope_view::{DecisionsRow, FigureRow, Replay, ReplayRow, SettingRow};

/// A latency is shown if no more than one gap in so many is inexact.
const EXACT: u64 = 20;

const FIGURES: &[FigureRow] = &[
    figure(5, "caught", "count", true, "halts that a poll would have caught"),
    figure(2, "exits_avoided", "count", true, "exits that would not have happened"),
    figure(3, "share", "share", true, "share of the halts that a poll would have caught"),
    figure(0, "polling", "ns", false, "CPU time of polls"),
    figure(4, "for_nothing", "ns", false, "CPU time of polls that would not have caught anything"),
    figure(2, "wakeup_mean", "ns", false, "mean wake-up latency"),
    figure(5, "wakeup_p50", "ns", false, "median wake-up latency"),
    figure(5, "wakeup_p99", "ns", false, "99th percentile of the wake-up latency"),
    figure(0, "time_won", "ns", true, "wake-up latency less than with the settings in force, summed over the halts"),
    figure(0, "net", "ns", true, "time won, less the CPU time that polls take more than with the settings in force"),
];

/// The figures that need to know when something woke a vCPU.
const OF_LATENCY: [&str; 5] = ["wakeup_mean", "wakeup_p50", "wakeup_p99", "time_won", "net"];

/// What is run over the halts of the second reading.
struct Replays {
    selection: Selection,
    window: (Moment, Moment),
    replays: Vec<HaltReplay>,
    decisions: Decisions,
}

impl Sink for Replays {
    fn begin(&mut self, first: Moment) {
        self.window = self.selection.window(first);
    }

    fn absorb(&mut self, _: &Exit) {}

    fn halt(&mut self, halt: &Halt) {
        let within = self.window.0 <= halt.begin && halt.begin <= self.window.1;
        if within && self.selection.holds_who(&halt.who) {
            self.decisions.absorb(halt);
            self.replays.iter_mut().for_each(|replay| replay.absorb(halt));
        }
    }
}

pub fn replay(args: &ReplayArgs, input: &Input, grid: &Grid) -> anyhow::Result<Replay> {
    let policy = if args.policy == PolicyName::HostHaltPoll { HaltPolicy::Host } else { HaltPolicy::Guest };
    let selection = select::selection(&args.select, std::slice::from_ref(input))?;
    let (need_vcpus, options) = (!selection.vcpus.is_empty(), args.select.clock.options(Keep::Timed));
    let wanted = Wanted { by: Vec::new(), slowest: 0, selection: selection.clone() };
    let read_halts =
        || read::read_input(input.try_clone()?, &mut Earlier::default(), need_vcpus, options, || Facts::new(&wanted));
    let (trace, mut facts) = read_halts()?;
    let (first, last) = trace.span.unwrap_or_default();
    facts.end(first, last, &trace.lanes, &trace.vcpu_of);
    let all = facts.halts.all();
    if all.halts() == 0 {
        bail!("{}: no halt to replay. Record with {}", trace.row.name, super::how_to_record(&trace));
    }
    if trace.row.is_xen() {
        bail!(
            "{}: Xen does not poll for halted vCPUs, and its guests have no cpuidle governor haltpoll: there is no policy to \
             replay",
            trace.row.name
        );
    }
    if policy == HaltPolicy::Guest && trace.row.arch.starts_with("ppc") {
        bail!("{}: powerpc guests have no cpuidle governor haltpoll", trace.row.name);
    }
    let configurations = grid.configurations(args.policy.name())?;
    let host = PollHost::of(&trace.info);
    let settings = &facts.halts.settings;
    let mut replays = vec![HaltReplay::new(HaltPolicy::Host, settings, &host, &[], &all)?];
    for configuration in &configurations {
        replays.push(HaltReplay::new(policy, settings, &host, &configuration.set, &all)?);
    }
    let fresh = || Replays {
        selection: selection.clone(),
        window: (Moment::default(), Moment::MAX),
        replays: replays.clone(),
        decisions: Decisions::new(settings, &host),
    };
    let (trace, done) = read::read_input(input.try_clone()?, &mut Earlier::default(), need_vcpus, options, fresh)?;

    let mut replay = head(args, &trace, &selection);
    replay.over = format!(
        "{} halts of {}, {} long",
        exitscope_view::thousands(all.halts()),
        match facts.halts.vcpus.len() {
            1 => "1 vCPU".to_string(),
            vcpus => format!("{vcpus} vCPUs"),
        },
        Nanos(last.since(first).unwrap_or_default().0)
    );
    let exact = all.inexact() * EXACT <= all.halts();
    let shown = |figure: &&FigureRow| match figure.name {
        "exits_avoided" => policy == HaltPolicy::Guest,
        "caught" => policy == HaltPolicy::Host,
        name => exact || !OF_LATENCY.contains(&name),
    };
    replay.figures = FIGURES.iter().filter(shown).cloned().collect();
    replay.best_by = best_by(args.best.as_deref(), exact.then_some("net"), &mut replay.figures)?;
    replay.vary = grid.axes();
    let params = facts.halts.settings.values().next().unwrap_or(&PollSettings::default()).params(&host);
    replay.in_force = knobs("host_halt_poll")
        .filter(|knob| trace.row.arch.starts_with("s390") || knob.name != "halt_poll_max_steal")
        .filter_map(|knob| Some(SettingRow { knob: knob.name, value: knob.text(params.get(knob.name)?).to_string() }))
        .collect();
    let decisions = &done.decisions;
    replay.decisions = (decisions.changes > 0).then_some(DecisionsRow {
        known: decisions.known,
        same: decisions.same,
        changes: decisions.changes,
        same_changes: decisions.same_changes,
    });
    let (base, guest) = (&done.replays[0].outcome, policy == HaltPolicy::Guest);
    let row = |labels: Vec<String>, outcome: &HaltOutcome, policy: HaltPolicy| {
        let value = |figure: &FigureRow| match (figure.name, policy) {
            // What a host's poll catches has left the guest.
            ("exits_avoided" | "share", HaltPolicy::Host) if guest => Some(0.0),
            (name, _) => value(name, outcome, base),
        };
        ReplayRow::of(&replay.vary, labels, &replay.figures, replay.figures.iter().map(value).collect())
    };
    let recorded = grid.axes.iter().map(|axis| match (policy, params.get(&axis.key)) {
        (HaltPolicy::Host, Some(value)) => knobs("host_halt_poll")
            .find(|knob| knob.name == axis.key)
            .map_or(String::new(), |knob| knob.text(value).to_string()),
        _ => "host polls".to_string(),
    });
    let mut rows = vec![ReplayRow { in_force: true, ..row(recorded.collect(), base, HaltPolicy::Host) }];
    for (Configuration { labels, .. }, done) in configurations.iter().zip(&done.replays[1..]) {
        rows.push(row(labels.clone(), &done.outcome, policy));
    }
    replay.rows = rows;
    replay.mark_best();
    replay.notes = notes(policy, exact, &all, facts.halts.guest_polls, super::how_to_record(&trace));
    let mut best = replay.rows[1..].iter().zip(&done.replays[1..]).filter(|(row, _)| row.best).peekable();
    if guest && best.peek().is_some() && best.all(|(_, done)| done.outcome.caught == 0) {
        let instead = "the best let no guest poll for long enough to catch anything: what they win is that the host does not \
                       poll, as with its halt_poll_ns=0 (--policy host_halt_poll)";
        replay.notes.insert(0, instead.to_string());
    }
    Ok(replay)
}

fn value(name: &str, outcome: &HaltOutcome, base: &HaltOutcome) -> Option<f64> {
    let difference = |a: u64, b: u64| a as f64 - b as f64;
    let won = difference(base.latencies.sum, outcome.latencies.sum);
    let rank = |per_10_000| outcome.latencies.quantile(per_10_000).map(|length| length.0 as f64);
    match name {
        "caught" | "exits_avoided" => Some(outcome.caught as f64),
        "share" => (outcome.halts > 0).then(|| outcome.caught as f64 / outcome.halts as f64),
        "polling" => Some(outcome.polling as f64),
        "for_nothing" => Some(outcome.polling_missed as f64),
        "wakeup_mean" => outcome.latencies.mean().map(|mean| mean.0 as f64),
        "wakeup_p50" => rank(5_000),
        "wakeup_p99" => rank(9_900),
        "time_won" => Some(won),
        _ => Some(won - difference(outcome.polling, base.polling)),
    }
}

fn notes(
    policy: HaltPolicy,
    exact: bool,
    all: &exitscope_analysis::HaltCell,
    guest_polls: bool,
    record: &str,
) -> Vec<String> {
    let mut notes = Vec::new();
    if !exact {
        notes.push(
            format!(
                "What woke the vCPUs when is not in the trace, so what a poll wins cannot be told, and polls catch somewhat more \
                 than is shown. Record with {record}."
            ),
        );
    }
    match policy {
        HaltPolicy::Host => {
            notes.push("a host's poll avoids no exit; it avoids that the thread gives its CPU away".to_string())
        }
        HaltPolicy::Guest => {
            notes.push(
                "while a guest's governor polls its host does not (MSR_KVM_POLL_CONTROL), however short the limit; a halt that \
                 is caught avoids the exit, and its wake-up counts as taking no time; an interrupt that ends the poll may \
                 still cost an exit of its own"
                    .to_string(),
            );
        }
    }
    if all.changes == (0, 0) && policy == HaltPolicy::Host {
        notes.push(
            "No change of a poll was traced (kvm_halt_poll_ns), so the settings in force are taken to be the defaults"
                .to_string(),
        );
    }
    if guest_polls {
        notes.push("A guest polled when this was recorded: the gaps that it caught are missing here".to_string());
    }
    notes.push("the gaps are taken as they were; a guest that is answered sooner may ask again sooner".to_string());
    notes
}
