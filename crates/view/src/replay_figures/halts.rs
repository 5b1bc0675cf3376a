//! Replays of halt polling.

use super::{NoSuchFigure, ReplayFigure, ReplayTable, Start, fill};
use crate::FigureUnit::{Count, Ns, Share};
use crate::{DecisionsRow, KnobValueRow, Replay, thousands};
use exitscope_analysis::record_commands::{HowToRecord, Missed};
use exitscope_analysis::replay::{HaltOutcome, HaltPolicy, ReplayedHalts, knobs_of};
use exitscope_analysis::{HaltStats, PollSettings};
use exitscope_model::Architecture;
use exitscope_policy::Knob;

const NOT_BLOCKED: ReplayFigure<HaltOutcome> =
    ReplayFigure::new(5, "not_blocked", Count, true, "halts that end before they block", |of, _| {
        Some(of.caught as f64)
    });

/// What ends in a poll of the guest has not left it.
const EXITS_AVOIDED: ReplayFigure<HaltOutcome> =
    ReplayFigure::new(2, "exits_avoided", Count, true, "exits that would not have happened", |of, _| {
        Some(of.caught as f64)
    });

/// What a guest's poll spares besides, where the recording has IPIs.
const IPIS_SPARED: ReplayFigure<HaltOutcome> = ReplayFigure::new(
    4,
    "ipis_spared",
    Count,
    true,
    "successful polls of halts in which a sibling sent a reschedule or a single function-call IPI, which Linux spares a vCPU that polls",
    |of, _| Some(of.ipis_spared as f64),
);

const OF_POLLS: [ReplayFigure<HaltOutcome>; 5] = [
    ReplayFigure::new(3, "share_of_halts", Share, true, "share of the halts that end so", |of, _| {
        (of.halts > 0).then(|| of.caught as f64 / of.halts as f64)
    }),
    ReplayFigure::new(
        6,
        "successful_polls",
        Count,
        true,
        "polls that a wake-up ended before the vCPU blocked",
        |of, _| Some(of.hits as f64),
    ),
    ReplayFigure::new(6, "failed_polls", Count, false, "polls that ended without a wake-up", |of, _| {
        Some(of.misses as f64)
    }),
    ReplayFigure::new(0, "polling", Ns, false, "CPU time of polls", |of, _| Some(of.polling as f64)),
    ReplayFigure::new(4, "poll_fail", Ns, false, "CPU time of failed polls", |of, _| Some(of.polling_missed as f64)),
];

/// The figures that need to know when something woke a vCPU.
const OF_LATENCY: [ReplayFigure<HaltOutcome>; 5] = [
    ReplayFigure::new(2, "wakeup_mean", Ns, false, "mean wake-up latency", |of, _| {
        of.latencies.mean().map(|mean| mean.0 as f64)
    }),
    ReplayFigure::new(5, "wakeup_p50", Ns, false, "median wake-up latency", |of, _| quantile(of, 5_000)),
    ReplayFigure::new(5, "wakeup_p99", Ns, false, "99th percentile of the wake-up latency", |of, _| {
        quantile(of, 9_900)
    }),
    ReplayFigure::new(
        0,
        "gain",
        Ns,
        true,
        "reduction of wake-up latency against the settings in force, summed over the halts",
        |of, base| Some(won(of, base)),
    ),
    ReplayFigure::new(
        0,
        "net_gain",
        Ns,
        true,
        "gain, less the CPU time that polls take beyond that with the settings in force",
        |of, base| Some(won(of, base) - (of.polling as f64 - base.polling as f64)),
    ),
];

fn quantile(of: &HaltOutcome, per_10_000: u64) -> Option<f64> {
    of.latencies.quantile(per_10_000).map(|length| length.0 as f64)
}

fn won(of: &HaltOutcome, base: &HaltOutcome) -> f64 {
    base.latencies.sum as f64 - of.latencies.sum as f64
}

/// The figures of a policy; `exact` is whether the recording tells latencies, `ipis` whether it has IPIs to halted vCPUs.
fn figures(policy: HaltPolicy, exact: bool, ipis: bool) -> Vec<&'static ReplayFigure<HaltOutcome>> {
    let first: &[_] = match policy {
        HaltPolicy::Host => &[&NOT_BLOCKED],
        HaltPolicy::Guest if ipis => &[&EXITS_AVOIDED, &IPIS_SPARED],
        HaltPolicy::Guest => &[&EXITS_AVOIDED],
    };
    let of_latency: &[_] = if exact { &OF_LATENCY } else { &[] };
    first.iter().copied().chain(&OF_POLLS).chain(of_latency).collect()
}

impl ReplayTable<'_> {
    /// Fills it with halts replayed with other polls, recorded on this architecture.
    pub fn halts(self, policy: HaltPolicy, arch: &str, done: &ReplayedHalts) -> Result<Replay, NoSuchFigure> {
        let ReplayTable { mut replay, length, labels, best, record } = self;
        let ReplayedHalts { halts, all, decisions, .. } = done;
        let vcpus = match halts.vcpus.len() {
            1 => "1 vCPU".to_string(),
            vcpus => format!("{vcpus} vCPUs"),
        };
        replay.over = format!("{} halts of {vcpus}, {length} long", thousands(all.halts()));
        let exact = all.is_exact();
        let params = halts.settings.values().next().unwrap_or(&PollSettings::default()).params(&done.host);
        let value = |knob: &Knob| Some(knob.text(params.get(knob.name)?).to_string());
        replay.in_force = knobs_of("host_halt_poll")
            .filter(|knob| knob.machines.has(Architecture::or_x86(arch).row().kernel_name))
            .filter_map(|knob| Some(KnobValueRow { knob: knob.name, value: value(knob)? }))
            .collect();
        replay.decisions = (decisions.changes > 0).then_some(DecisionsRow {
            known: decisions.known,
            same: decisions.same,
            changes: decisions.changes,
            same_changes: decisions.same_changes,
        });
        let in_force = replay.vary.iter().map(|axis| {
            let knob = knobs_of("host_halt_poll").find(|knob| policy == HaltPolicy::Host && knob.name == axis.key);
            knob.and_then(value).unwrap_or("host polls".to_string())
        });
        let start = Start::Both { recorded: &done.recorded, in_force: (in_force.collect(), &done.in_force) };
        let best = best.or(exact.then_some("net_gain"));
        fill(&mut replay, &figures(policy, exact, all.ipis > 0), best, start, labels.into_iter().zip(&done.outcomes))?;
        replay.notes = notes(policy, exact, done, &record);
        let mut best = replay.rows[2..].iter().zip(&done.outcomes).filter(|(row, _)| row.best).peekable();
        if policy == HaltPolicy::Guest && best.peek().is_some() && best.all(|(_, outcome)| outcome.caught == 0) {
            let instead = "in the best rows no guest polls long enough to succeed: their gain is that the host does \
                not poll, as with the host's halt_poll_ns=0 (--policy host_halt_poll)";
            replay.notes.insert(0, instead.to_string());
        }
        Ok(replay)
    }
}

fn notes(policy: HaltPolicy, exact: bool, done: &ReplayedHalts, record: &HowToRecord) -> Vec<String> {
    let ReplayedHalts { halts, all, host, .. } = done;
    let mut notes = Vec::new();
    if !exact {
        notes.push(format!(
            "The trace does not show when vCPUs were woken, so the gain of a poll is unknown, and somewhat more \
                 polls are successful than shown. {}",
            record.sentence(&[Missed::HaltEnds, Missed::Scheduler], "")
        ));
    }
    match policy {
        HaltPolicy::Host => {
            notes.push(
                "a successful poll of the host avoids no exit; it keeps the thread from giving its CPU away"
                    .to_string(),
            );
            if all.late_caught.count + all.late_slept.count > 0 {
                notes.push(format!(
                    "a wake-up soon after a poll's end may find the vCPU not yet blocked; the replay assumes that as often \
                     as the recording shows it ({} of {})",
                    thousands(all.late_caught.count),
                    thousands(all.late_caught.count + all.late_slept.count)
                ));
            }
        }
        HaltPolicy::Guest => {
            notes.push(
                "while a guest's governor polls, its host does not (MSR_KVM_POLL_CONTROL), however short the guest's \
                 limit; a successful poll avoids the exit, and its wake-up counts as taking no time; an interrupt \
                 that ends the poll may still cost an exit of its own"
                    .to_string(),
            );
            notes.push(
                "a guest's poll ends when something is runnable, and an interrupt after which the guest halted again \
                 within 5us is taken to have made nothing runnable"
                    .to_string(),
            );
            notes.push(ipis(all));
        }
    }
    if all.changes == (0, 0) && policy == HaltPolicy::Host {
        let whose = match host.in_force {
            Some(_) => "the settings of the host that it has",
            None => "the defaults",
        };
        notes.push(format!(
            "The trace has no change of a poll (kvm_halt_poll_ns), so {whose} are assumed to be in force for every VM"
        ));
    }
    notes.push(
        match halts.guest_polls {
            true => {
                "A guest polled when this was recorded (MSR_KVM_POLL_CONTROL): the gaps that its successful polls \
                 ended are missing from every row, and its polls shorten the other gaps. The rows show only what its \
                 settings left"
            }
            false => {
                "The recording shows whether guests polled before they halted only if their driver started meanwhile; \
                 if they did, the gaps that their successful polls ended are missing. The host's polls hide no gap"
            }
        }
        .to_string(),
    );
    notes.push("gaps are replayed unchanged; an earlier wake-up would shift later ones".to_string());
    notes
}

/// What is known of the IPIs that polls of the guest spare.
fn ipis(all: &HaltStats) -> String {
    match all.ipis {
        0 => "no exit of the recording tells of a reschedule or a single function-call IPI to a halted vCPU, so how many IPIs \
              polls would spare is unknown"
            .to_string(),
        of => format!(
            "IPIs spared: of {} halts in which a sibling sent IPI 0xfd or 0xfb, those that a poll would have ended; a Linux \
             guest sets a flag of a vCPU that polls instead (0xfb: from Linux 5.8 on), so that the exit which sends the IPI is \
             spared, too. IPIs that cause no exit are not counted",
            thousands(of)
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use exitscope_units::Nanos;

    #[test]
    fn each_figure_of_halts_is_its_own() {
        let mut outcome = HaltOutcome {
            halts: 40,
            caught: 10,
            hits: 9,
            misses: 8,
            polling: 700,
            polling_missed: 300,
            ipis_spared: 6,
            ..HaltOutcome::default()
        };
        [1, 2, 30].into_iter().for_each(|latency| outcome.latencies.record(Nanos(latency)));
        let mut base = HaltOutcome { polling: 200, ..HaltOutcome::default() };
        base.latencies.record(Nanos(1_033));
        let polls = [
            ("share_of_halts", 0.25),
            ("successful_polls", 9.0),
            ("failed_polls", 8.0),
            ("polling", 700.0),
            ("poll_fail", 300.0),
        ];
        let latencies =
            [("wakeup_mean", 11.0), ("wakeup_p50", 2.0), ("wakeup_p99", 30.0), ("gain", 1_000.0), ("net_gain", 500.0)];
        let spared = [("exits_avoided", 10.0), ("ipis_spared", 6.0)];
        for (policy, ipis, first) in [
            (HaltPolicy::Host, false, &[("not_blocked", 10.0)][..]),
            (HaltPolicy::Host, true, &[("not_blocked", 10.0)]),
            (HaltPolicy::Guest, false, &spared[..1]),
            (HaltPolicy::Guest, true, &spared),
        ] {
            let untimed = [first, &polls[..]].concat();
            super::super::tests::check(&figures(policy, false, ipis), &outcome, &base, &untimed);
            let timed = [&untimed[..], &latencies[..]].concat();
            super::super::tests::check(&figures(policy, true, ipis), &outcome, &base, &timed);
        }
    }
}
