//! The verdict on a recording, in words: what dominates, how large it is, what the best change wins, and what makes it doubtful.

use crate::advice::{AdviceReport, AdviceRow};
use crate::exit_bound::ExitBoundRow;
use crate::halt::ClockRow;
use crate::names::{percent, thousands};
use crate::report::SelectionRow;
use exitscope_analysis::record_commands::{HowToRecord, Missed};
use exitscope_analysis::{Facts, Verdict, VerdictInput, VerdictState};
use exitscope_model::{AllParts, TimePart, TraceInfo};
use exitscope_units::Nanos;
use schemars::JsonSchema;
use serde::Serialize;

/// What a recording comes to.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct VerdictRow {
    /// What dominates; `healthy` and `mostly_halted` if nothing does; `no_exits`, `no_lengths` and `mostly_unknown` if that
    /// cannot be told.
    #[schemars(schema_with = "state_ids")]
    pub state: &'static str,
    /// In one sentence, with its size.
    pub text: String,
    /// Part of the vCPUs' time that it is: of `healthy` what the guests ran, of `mostly_halted` what they halted.
    pub share: Option<f64>,
    /// Whether it is no news that anything is wrong.
    pub is_good: bool,
    /// Whether what is lost or not recorded could change it.
    pub is_doubtful: bool,
    /// What makes it doubtful, or hides a part of it.
    pub doubts: Vec<String>,
    /// The cause that costs most, where exits dominate and rules looked at the recording.
    pub cause: Option<String>,
    /// Whether rules looked at the recording.
    pub is_advised: bool,
    /// The change that wins most; null if rules know none, or none looked.
    pub best_change: Option<BestChangeRow>,
    /// How much exits and waiting take at most, where the recording shows all of it and it is little; absent otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_bound: Option<ExitBoundRow>,
}

/// The change that wins most.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct BestChangeRow {
    /// The number of the advice.
    pub advice: usize,
    /// For whom it is: `VM qemu-system-x86 121`, or `the host`.
    pub scope: String,
    /// The change, in a sentence.
    pub change: String,
    /// The expected gain, in words.
    pub gain: String,
}

fn state_ids(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({ "type": "string", "enum": VerdictState::IDS })
}

/// What the words need besides the parts.
#[derive(Clone, Debug)]
pub struct VerdictWords {
    /// The number of vCPUs.
    pub vcpus: u64,
    /// CPUs that the vCPUs ran on or waited for, on average.
    pub wanted: f64,
    /// CPUs of the machine; 0 if unknown, or if other vCPUs than those selected use them, too.
    pub cpus: u32,
    /// For how long they were seen.
    pub seen: Nanos,
    /// Core runs, and those of them that were ganged.
    pub core_runs: (u64, u64),
    /// Whether steal was recorded, all of it.
    pub has_steal: bool,
    /// Whether steal is what other virtual cores of powerpc had the CPU, and no scheduler's events say more.
    pub has_turns: bool,
    /// Whether virtual cores of powerpc took turns on a CPU.
    pub took_turns: bool,
    /// Where steal but for what ends a sleep was recorded: sleeps that ended, and how many of them without a wake-up.
    pub sleeps: Option<(u64, u64)>,
    /// How to record what is missed; or why no recording would have more.
    pub how: HowToRecord,
}

impl VerdictRow {
    /// The verdict on these facts of what is selected, of which rules made `advised`.
    pub fn of(
        facts: &Facts,
        info: &TraceInfo,
        selection: &SelectionRow,
        how: &HowToRecord,
        advised: Option<&AdviceReport>,
    ) -> VerdictRow {
        let mut parts = AllParts::ZERO;
        facts.divisions.values().for_each(|of| parts.merge(&of.parts));
        let gangs = facts.gangs.vms();
        let sum = |of: fn(&exitscope_analysis::GangStats) -> u64| gangs.values().map(of).fold(0, u64::saturating_add);
        let verdict = Verdict::of(&VerdictInput {
            parts,
            exits: facts.all.count,
            timed_exits: facts.all.timed,
            forced_out: Nanos(sum(exitscope_analysis::GangStats::cost)),
        });
        let wanted = facts.divisions.values().map(facts.time_wanted()).fold(0, u64::saturating_add);
        let kinds = facts.event_kinds;
        let words = VerdictWords {
            vcpus: facts.divisions.len() as u64,
            wanted: wanted as f64 / facts.seen().0.max(1) as f64,
            // Others than those that are selected use them, too.
            cpus: if selection.is_of_all_vcpus() { info.cpus } else { 0 },
            seen: facts.seen(),
            core_runs: (sum(|of| of.runs), sum(|of| of.ganged)),
            has_steal: facts.event_kinds.tell_all_steal(),
            has_turns: facts.event_kinds.by_runner && !facts.event_kinds.switches,
            took_turns: facts.took_turns(parts.get(TimePart::Steal)),
            sleeps: kinds.switches.then_some((kinds.sleeps, kinds.unwoken_sleeps)),
            how: how.clone(),
        };
        let wrong_clock = ClockRow::of(&facts.halts, info).is_some();
        let mut row = VerdictRow::worded(&verdict, &words, advised.and_then(costliest).as_ref());
        if wrong_clock {
            row.is_doubtful = true;
            row.doubts.insert(0, "halts contradict the clock's rate that --tsc-hz gives".to_string());
        }
        row.is_advised = advised.is_some();
        row.best_change = advised.and_then(|advised| advised.advice.first()).map(BestChangeRow::of);
        row
    }

    /// A verdict in words; `cause` and what it costs is what exits are mostly for.
    pub fn worded(verdict: &Verdict, words: &VerdictWords, cause: Option<&(String, u64)>) -> VerdictRow {
        let Verdict { state, time, next, wall, hidden, unknown, undivided, halted, is_doubtful } = *verdict;
        let share = percent(time.0, wall.0);
        let VerdictWords { vcpus, wanted, cpus, core_runs: (runs, ganged), .. } = *words;
        let record = |missed: &[Missed]| words.how.clause(missed);
        let mostly = cause.filter(|(_, cost)| cost.saturating_mul(20) >= time.0);
        let text = match state {
            VerdictState::ExitsDominate => {
                let what = match words.has_steal {
                    true => "Exits cost",
                    false => "Exits, or waiting for a CPU meanwhile, take",
                };
                let costliest =
                    mostly.map(|(cause, cost)| format!("; the costliest is {cause} ({})", percent(*cost, wall.0)));
                format!("{what} {share} of vCPU time{}", costliest.unwrap_or_default())
            }
            VerdictState::StealDominates if words.has_turns => {
                let least = "while another virtual core runs there";
                format!("Virtual cores take turns on a CPU: vCPUs wait at least {share} of their time {least}")
            }
            VerdictState::StealDominates if words.took_turns => {
                format!("Virtual cores take turns on a CPU: vCPUs wait {share} of their time for a CPU")
            }
            VerdictState::StealDominates => {
                let there = if cpus > 0 { format!(", and there are {cpus}") } else { String::new() };
                let noun = if vcpus == 1 { "vCPU runs on or waits for" } else { "vCPUs run on or wait for" };
                format!(
                    "vCPUs wait for a CPU {share} of their time: {} {noun} {wanted:.1} CPUs{there}",
                    thousands(vcpus)
                )
            }
            VerdictState::ForcedOut => format!(
                "{share} of vCPU time is lost to other threads' exits: {} of {} core runs were ganged",
                thousands(ganged),
                thousands(runs)
            ),
            VerdictState::PollingBurns => {
                let polling = time.0 as f64 / words.seen.0.max(1) as f64;
                format!("Polling for halted vCPUs takes {share} of their time ({polling:.2} CPUs)")
            }
            VerdictState::MostlyHalted if halted.0.saturating_mul(20) < time.0.saturating_mul(19) => format!(
                "vCPUs are halted {} of their time, and for {} they wait for memory or are kept from running; little is lost of the rest",
                percent(halted.0, wall.0),
                percent(time.0.saturating_sub(halted.0), wall.0)
            ),
            VerdictState::MostlyHalted => {
                format!("vCPUs are halted {share} of their time, and little is lost of the rest")
            }
            VerdictState::Healthy => format!("Guests run {share} of vCPU time, and no part of the rest is large"),
            VerdictState::NoExits => format!("Cannot tell: the recording has no VM exit; {}", record(&[Missed::Exits])),
            VerdictState::NoLengths if ganged > 0 => format!(
                "Cannot tell what exits cost: no entry into a guest was recorded ({}); {} of {} core runs were ganged",
                record(&[Missed::Entries]),
                thousands(ganged),
                thousands(runs)
            ),
            VerdictState::NoLengths => {
                let record = record(&[Missed::Entries]);
                format!("Cannot tell what exits cost: no entry into a guest was recorded; {record}")
            }
            VerdictState::MostlyUnknown => mostly_unknown(verdict, words),
        };
        let and_next = next.map(|(state, time)| {
            let what = match state {
                VerdictState::StealDominates => "steal takes",
                VerdictState::PollingBurns => "polling takes",
                _ if !words.has_steal => "exits, or other waiting, take",
                _ => "exits cost",
            };
            format!("; {what} {}", percent(time.0, wall.0))
        });
        let text = text + &and_next.unwrap_or_default();
        let mut doubts = Vec::new();
        let noteworthy = |time: Nanos| is_doubtful || time.0.saturating_mul(20) >= wall.0;
        if hidden > Nanos::ZERO && noteworthy(hidden) {
            doubts.push(format!("losses hide {} of vCPU time", percent(hidden.0, wall.0)));
        }
        if unknown > Nanos::ZERO && noteworthy(unknown) && state != VerdictState::MostlyUnknown {
            let what = match (undivided, undivided == unknown) {
                (_, true) => "in halts that are not divided",
                (Nanos::ZERO, _) => "unknown",
                _ => "unknown, or in halts that are not divided",
            };
            doubts.push(format!("{} of vCPU time is {what}", percent(unknown.0, wall.0)));
        }
        let counts_steal = matches!(state, VerdictState::ExitsDominate | VerdictState::ForcedOut);
        let is_cost_next = next.is_some_and(|(state, _)| state == VerdictState::ExitsDominate);
        if !words.has_steal && (counts_steal || is_cost_next) {
            let steal = match (words.has_turns, words.sleeps) {
                (true, _) => "steal by other vCPUs' exits and other tasks".to_string(),
                (false, Some((all, unwoken))) => {
                    format!("steal at the end of {} of {} sleeps", thousands(unwoken), thousands(all))
                }
                (false, None) => "steal".to_string(),
            };
            doubts.push(format!("{steal} was not recorded, and is part of what exits cost"));
        }
        let told = !matches!(state, VerdictState::NoExits | VerdictState::NoLengths);
        VerdictRow {
            state: state.id(),
            text,
            share: told.then(|| time.0 as f64 / wall.0.max(1) as f64),
            is_good: matches!(state, VerdictState::Healthy | VerdictState::MostlyHalted),
            is_doubtful: is_doubtful || !words.has_steal && counts_steal,
            doubts,
            cause: mostly.filter(|_| state == VerdictState::ExitsDominate).map(|(cause, _)| cause.clone()),
            ..VerdictRow::default()
        }
    }

    /// The same with this bound, or with none, where nothing dominates and nothing is doubtful.
    pub(crate) fn bounded(mut self, bound: Option<ExitBoundRow>) -> VerdictRow {
        if let Some(before) = self.exit_bound.take() {
            self.text = before.instead_of;
        }
        let is_plain = self.state == VerdictState::Healthy.id() && !self.is_doubtful;
        if let Some(mut bound) = bound.filter(|_| is_plain) {
            bound.instead_of = std::mem::replace(&mut self.text, bound.text.clone());
            self.exit_bound = Some(bound);
        }
        self
    }
}

/// What exits of all VMs together are mostly for, as far as rules tell causes apart, and what that costs.
fn costliest(advised: &AdviceReport) -> Option<(String, u64)> {
    let row = advised.causes_of_all.iter().find(|row| row.kind == "exits")?;
    Some((row.named(": "), row.time_ns))
}

/// Why nothing can be told, what it most likely is, and what to record.
fn mostly_unknown(verdict: &Verdict, words: &VerdictWords) -> String {
    let Verdict { time, wall, hidden, unknown, undivided, .. } = *verdict;
    let share = percent(time.0, wall.0);
    match () {
        _ if hidden > unknown => {
            format!("Cannot tell: losses hide most of {share} of vCPU time; record with larger buffers")
        }
        _ if undivided.0.saturating_mul(2) > time.0 => format!(
            "Cannot tell, most likely halted: {} of vCPU time is in halts that no event divides into polling, halted and steal; {}",
            percent(undivided.0, wall.0),
            words.how.clause(&[Missed::HaltEnds, Missed::Scheduler])
        ),
        () => format!(
            "Cannot tell: {share} of vCPU time is unaccounted for, halts that are not divided included; {}",
            words.how.clause(Missed::OF_TIME)
        ),
    }
}

impl BestChangeRow {
    fn of(row: &AdviceRow) -> BestChangeRow {
        BestChangeRow {
            advice: row.number,
            scope: row.scope_text.clone(),
            change: row.change.clone(),
            gain: row.gain.text.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use exitscope_analysis::VerdictInput;

    fn words() -> VerdictWords {
        VerdictWords {
            vcpus: 1,
            wanted: 0.1,
            cpus: 4,
            seen: Nanos(1_000),
            core_runs: (0, 0),
            has_steal: true,
            has_turns: false,
            took_turns: false,
            sleeps: None,
            how: HowToRecord::default(),
        }
    }

    #[test]
    fn halts_that_nothing_divides_are_most_likely_idle() {
        let text = |undivided, unknown| {
            let parts = AllParts::ZERO.with(TimePart::Guest, Nanos(1_000 - undivided - unknown));
            let parts = parts.with(TimePart::Undivided, Nanos(undivided)).with(TimePart::Unknown, Nanos(unknown));
            let input = VerdictInput { parts, exits: 9, timed_exits: 9, forced_out: Nanos::ZERO };
            VerdictRow::worded(&Verdict::of(&input), &words(), None).text
        };
        let halts = "Cannot tell, most likely halted: 98.6% of vCPU time is in halts that no event divides into polling, halted and steal; \
            record with `exitscope record";
        assert!(text(986, 10).starts_with(halts), "{}", text(986, 10));
        assert!(text(400, 401).starts_with("Cannot tell: 80.1% of vCPU time is unaccounted for"), "{}", text(400, 401));
    }

    #[test]
    fn what_is_kept_from_running_is_not_called_halted() {
        let words = words();
        let text = |halted, stopped| {
            let parts = AllParts::ZERO.with(TimePart::Guest, Nanos(50)).with(TimePart::Halted, Nanos(halted));
            let parts = parts.with(TimePart::Stopped, Nanos(stopped));
            let input = VerdictInput { parts, exits: 9, timed_exits: 9, forced_out: Nanos::ZERO };
            VerdictRow::worded(&Verdict::of(&input), &words, None).text
        };
        assert_eq!(text(950, 0), "vCPUs are halted 95.0% of their time, and little is lost of the rest");
        assert_eq!(
            text(150, 800),
            "vCPUs are halted 15.0% of their time, and for 80.0% they wait for memory or are kept from running; little is lost of the rest"
        );
    }
}
