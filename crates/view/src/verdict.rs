//! The verdict on a recording, in words: what dominates, how large it is, what the best change wins, and what makes it doubtful.

use crate::advice::{AdviceReport, AdviceRow};
use crate::exit_bound::ExitBoundRow;
use crate::halt::ClockRow;
use crate::names::{percent, thousands};
use crate::report::{CoverageLine, SelectionRow};
use crate::verdict_context::VerdictContext;
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
    /// Why it is not doubtful, in a clause; null where it is, and where figures are counted live.
    pub sure: Option<String>,
    /// Whether that is much: its size against the CPUs, and against the other VMs of the recording; null where nothing was timed, and
    /// where figures are counted live.
    pub amount: Option<String>,
    /// The vCPU that loses most to what dominates, and the others; null of one vCPU, and where figures are counted live.
    pub worst_vcpu: Option<String>,
    /// What was not recorded or was lost, and what no rule could judge for that.
    pub not_seen: Vec<String>,
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
    /// The change as a short imperative, without its conditions.
    pub title: String,
    /// The change, in a sentence.
    pub change: String,
    /// The expected gain, in words.
    pub gain: String,
    /// What can go wrong with the change, in a clause.
    pub risk: String,
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
        let not_judged = advised.map(|advised| advised.not_judged.iter().map(|row| row.what).collect());
        let context = VerdictContext {
            facts,
            info,
            verdict: &verdict,
            cpus: words.cpus,
            has_steal: words.has_steal,
            untold_losses: advised
                .is_some_and(|advised| advised.coverage.iter().any(CoverageLine::leaves_losses_untold)),
            not_judged: not_judged.unwrap_or_default(),
        };
        row.amount = context.amount();
        row.worst_vcpu = context.worst_vcpu();
        row.not_seen = context.not_seen();
        row.sure = (!row.is_doubtful).then(|| context.sure());
        row.best_change = advised.and_then(|advised| advised.advice.first()).map(BestChangeRow::of);
        row
    }

    /// A verdict in words; `cause` and what it costs is what exits are mostly for.
    pub fn worded(verdict: &Verdict, words: &VerdictWords, cause: Option<&(String, u64)>) -> VerdictRow {
        let Verdict { state, time, next, cost, wall, halted, is_doubtful, .. } = *verdict;
        let share = percent(time.0, wall.0);
        let VerdictWords { vcpus, wanted, cpus, core_runs: (runs, ganged), .. } = *words;
        let record = |missed: &[Missed]| words.how.clause(missed);
        let mostly = cause.filter(|(_, cost)| cost.saturating_mul(20) >= time.0);
        let exits = exits_cost(words.has_steal, words.has_turns || words.sleeps.is_some());
        let exits_cost = format!("E{}", &exits[1..]);
        let text = match state {
            VerdictState::ExitsDominate => {
                let costliest =
                    mostly.map(|(cause, cost)| format!("; the costliest is {cause} ({})", percent(*cost, wall.0)));
                format!("{exits_cost} {share} of vCPU time{}", costliest.unwrap_or_default())
            }
            VerdictState::StealDominates if words.has_turns => {
                let least = "while another virtual core runs there";
                format!("Virtual cores take turns on a CPU: vCPUs wait at least {share} of their time {least}")
            }
            VerdictState::StealDominates if words.took_turns => {
                format!("Virtual cores take turns on a CPU: vCPUs wait {share} of their time for a CPU")
            }
            VerdictState::StealDominates => {
                let there = if cpus > 0 { format!(", and the host has {cpus}") } else { String::new() };
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
            VerdictState::NoExits => format!("Doubtful: the recording has no VM exit; {}", record(&[Missed::Exits])),
            VerdictState::NoLengths if ganged > 0 => format!(
                "Doubtful what exits cost: no entry into a guest was recorded; {} of {} core runs were ganged; {}",
                thousands(ganged),
                thousands(runs),
                record(&[Missed::Entries])
            ),
            VerdictState::NoLengths => {
                let record = record(&[Missed::Entries]);
                format!("Doubtful what exits cost: no entry into a guest was recorded; {record}")
            }
            VerdictState::MostlyUnknown => {
                let likely = match is_undivided(verdict) {
                    true => "; most likely vCPUs are halted most of the time",
                    false => "; where most of the time goes is doubtful",
                };
                format!("{exits_cost} {} of vCPU time{likely}", percent(cost.0, wall.0))
            }
        };
        let and_next = next.map(|(state, time)| {
            let what = match state {
                VerdictState::StealDominates => "steal takes",
                VerdictState::PollingBurns => "polling takes",
                _ => exits,
            };
            format!("; {what} {}", percent(time.0, wall.0))
        });
        let text = text + &and_next.unwrap_or_default();
        let doubts = doubts(verdict, words);
        let counts_steal = counts_steal(state);
        let told = !matches!(state, VerdictState::NoExits | VerdictState::NoLengths);
        VerdictRow {
            state: state.id(),
            text,
            share: told.then(|| time.0 as f64 / wall.0.max(1) as f64),
            is_good: matches!(state, VerdictState::Healthy | VerdictState::MostlyHalted),
            is_doubtful: is_doubtful || !words.has_steal && counts_steal,
            doubts,
            sure: None,
            amount: None,
            worst_vcpu: None,
            not_seen: Vec::new(),
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

/// What a verdict says that exits do with vCPU time, by whether all steal is told from it, or some.
pub(crate) fn exits_cost(has_steal: bool, has_some_steal: bool) -> &'static str {
    match (has_steal, has_some_steal) {
        (true, _) => "exits cost",
        (false, true) => "exits, and steal that was not recorded, take",
        (false, false) => "exits, and steal during them, take",
    }
}

/// What makes a verdict doubtful, or hides a part of it.
fn doubts(verdict: &Verdict, words: &VerdictWords) -> Vec<String> {
    let Verdict { state, next, wall, hidden, unknown, undivided, is_doubtful, .. } = *verdict;
    let mut doubts: Vec<String> =
        (state == VerdictState::MostlyUnknown).then(|| mostly_unknown(verdict, words)).into_iter().collect();
    let noteworthy = |time: Nanos| is_doubtful || time.0.saturating_mul(20) >= wall.0;
    if hidden > Nanos::ZERO && noteworthy(hidden) && (doubts.is_empty() || hidden <= unknown) {
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
    let is_cost_next = next.is_some_and(|(state, _)| state == VerdictState::ExitsDominate);
    if !words.has_steal && (counts_steal(state) || is_cost_next) {
        let steal = match (words.has_turns, words.sleeps) {
            (true, _) => "steal by other vCPUs' exits and other tasks".to_string(),
            (false, Some((all, unwoken))) => {
                format!("steal at the end of {} of {} sleeps", thousands(unwoken), thousands(all))
            }
            (false, None) => "steal".to_string(),
        };
        doubts.push(format!("{steal} was not recorded, and is part of what exits cost"));
    }
    doubts
}

/// Whether steal that was not recorded is in the size of a verdict.
fn counts_steal(state: VerdictState) -> bool {
    matches!(state, VerdictState::ExitsDominate | VerdictState::ForcedOut)
}

/// What exits of all VMs together are mostly for, as far as rules tell causes apart, and what that costs.
fn costliest(advised: &AdviceReport) -> Option<(String, u64)> {
    let row = advised.causes_of_all.iter().find(|row| row.kind == "exits")?;
    Some((row.named(": "), row.time_ns))
}

/// Of a verdict that cannot be told: whether most of what is unknown is in halts.
fn is_undivided(Verdict { time, hidden, unknown, undivided, .. }: &Verdict) -> bool {
    hidden <= unknown && undivided.0.saturating_mul(2) > time.0
}

/// Why most of the time is unknown, and what to record.
fn mostly_unknown(verdict: &Verdict, words: &VerdictWords) -> String {
    let Verdict { time, wall, hidden, unknown, undivided, .. } = *verdict;
    let share = percent(time.0, wall.0);
    match () {
        _ if hidden > unknown => {
            format!("losses hide most of {share} of vCPU time; record with larger buffers")
        }
        _ if is_undivided(verdict) => format!(
            "{} of vCPU time is in halts that no event divides into polling, halted and steal; {}",
            percent(undivided.0, wall.0),
            words.how.clause(&[Missed::HaltEnds, Missed::Scheduler])
        ),
        () => format!(
            "{share} of vCPU time is unaccounted for, halts that are not divided included; {}",
            words.how.clause(Missed::OF_TIME)
        ),
    }
}

/// A text up to its first full stop, colon or semicolon that is not between brackets.
fn first_clause(text: &str) -> &str {
    let mut depth = 0;
    let end = text.char_indices().find(|&(at, c)| {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        depth <= 0 && [';', ':', '.'].contains(&c) && text[at + 1..].starts_with(' ')
    });
    end.map_or(text, |(end, _)| &text[..end])
}

impl BestChangeRow {
    fn of(row: &AdviceRow) -> BestChangeRow {
        BestChangeRow {
            advice: row.number,
            scope: row.scope_text.clone(),
            title: row.title.clone(),
            change: row.change.clone(),
            gain: row.gain.text.clone(),
            risk: first_clause(&row.risk).to_string(),
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
        let row = |undivided, unknown| {
            let parts = AllParts::ZERO.with(TimePart::Guest, Nanos(990 - undivided - unknown));
            let parts = parts.with(TimePart::Undivided, Nanos(undivided)).with(TimePart::Unknown, Nanos(unknown));
            let input = VerdictInput {
                parts: parts.with(TimePart::Kernel, Nanos(10)),
                exits: 9,
                timed_exits: 9,
                forced_out: Nanos::ZERO,
            };
            VerdictRow::worded(&Verdict::of(&input), &words(), None)
        };
        // The answer, then the doubt.
        let halts = row(976, 10);
        assert_eq!(halts.text, "Exits cost 1.0% of vCPU time; most likely vCPUs are halted most of the time");
        let doubt = "97.6% of vCPU time is in halts that no event divides into polling, halted and steal; record with `exitscope record";
        assert!(halts.is_doubtful && halts.doubts[0].starts_with(doubt), "{halts:?}");
        let unknown = row(400, 401);
        assert_eq!(unknown.text, "Exits cost 1.0% of vCPU time; where most of the time goes is doubtful");
        assert!(unknown.doubts[0].starts_with("80.1% of vCPU time is unaccounted for"), "{unknown:?}");
    }

    #[test]
    fn a_risk_is_shown_as_its_first_clause() {
        assert_eq!(
            first_clause("it is left off (AutoEOI; the PIT); AVIC needs Zen 4"),
            "it is left off (AutoEOI; the PIT)"
        );
        assert_eq!(first_clause("only with a CPU for each: it looks busy"), "only with a CPU for each");
        assert_eq!(first_clause("it takes 0.5 GB. Without it, none"), "it takes 0.5 GB");
        assert_eq!(first_clause("none known"), "none known");
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
