//! What takes a noteworthy part of a VM's cost or time, and what the rules say of it.
//!
//! ```text
//! exits by reason and subject ─► rows of a device together ─► those that weigh ─┬─ a rule gave advice ────► can be changed
//! what rules said ──────────────────────────────────────────────────────────────┼─ … said why nothing can ► inherent
//! polling, halts not divided, unknown ──────────────────────────────────────────┼─ the recording lacks it ► not recorded, and how to
//!                                                                               └─ anything else ─────────► not judged
//! ```
//!
//! Not judged is not "nothing to do": it says that no rule looks at it.

use super::cause::{CauseRow, CauseSubject, CauseVerdict, Covered, CureLookup, GoesInto, RuleAnswer, is_told_apart};
use super::judgement::Judgement;
use crate::evidence::input::{AdviceInput, RecordedHost, VmTime, total};
use crate::rules::device_rules::ABOUT;
use crate::rules::gangs::DOORBELLS;
use crate::rules::gangs::are_forced;
use crate::rules::{RULES, asked};
use exitscope_analysis::record_commands::{HowToRecord, Missed};
use exitscope_analysis::{ExitCause, ExitStats, Facts, GangStats, SubjectKey};
use exitscope_model::{CodeList, ExitCode, TimePart};
use exitscope_units::{Nanos, VmId};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Noteworthy is one part in so many of the cost of a VM's exits …
const OF_COST: u64 = 20;

/// … or of its vCPUs' time.
pub const NOTEWORTHY_OF_TIME: u64 = 100;

/// VMX's exit of accesses to emulated memory.
const EPT_MISCONFIG: u64 = 49;

/// Why nothing is said where no rule said a word.
pub const NO_RULE: &str = "no rule looks at it";

/// The same of exits whose subject is not in the recording.
const UNTOLD: &str = "the recording does not show their subject";

/// Why nothing is said of halts that are not divided …
const UNDIVIDED: &str = "a halt, most likely idle; no event divides it into polling, halted and steal";

/// … and of unknown time.
const UNKNOWN: &str = "nothing in the recording explains it";

/// The same of what a rule says that it judges.
pub const UNANSWERED: &str = "its rule gave no answer for this recording: please report that";

/// How rules tell exits of a reason apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attribution {
    /// Together with others, under this name: of a device, a group of registers, what happened.
    ByName(&'static str),
    /// By the port, page, register or call alone.
    ByKey,
    /// Not at all.
    No,
}

/// How rules tell these exits from others of their reason, of a VM that is, or is not, known to be QEMU's: as the list of causes does.
pub fn attribution(host: &RecordedHost, is_qemu: bool, cause: &ExitCause) -> Attribution {
    match asked(host, is_qemu, cause) {
        Some(CureLookup::Named(name)) => Attribution::ByName(name),
        Some(CureLookup::Other(..)) => Attribution::ByKey,
        None => Attribution::No,
    }
}

/// Lists what weighs of the selected part of a recording, of each VM and of all together. The advice is ranked.
pub(super) fn list(whole: &AdviceInput, selected: &AdviceInput, host: &RecordedHost, judgement: &mut Judgement) {
    let how = host.how(&selected.facts);
    let mut rows = Vec::new();
    let mut all = Sums::default();
    // Of which VMs there are such exits: what is said of the others says nothing of them.
    let mut vms_of: BTreeMap<ExitKey, Vec<VmId>> = BTreeMap::new();
    for (&vm, time) in &selected.vms {
        let VmTime { wall, steal, polling, undivided, unknown, .. } = *time;
        let mut sums = Sums { wall, steal, polling, undivided, unknown, ..Sums::default() };
        sums.forced_out = selected.facts.gangs.vms().get(&vm).map_or(0, GangStats::cost);
        let is_qemu = whole.vmm(vm, host).is_qemu();
        selected.causes(vm).iter().for_each(|(cause, stats)| sums.add(host, is_qemu, cause, stats));
        rows.extend(sums.rows(Some(vm), &how, &|of, untold, _| verdict(judgement, vm, of, unanswered(of, untold))));
        sums.exits.keys().for_each(|key| vms_of.entry(*key).or_default().push(vm));
        all.merge(&sums);
    }
    for (&vm, time) in &whole.vms {
        judgement.vcpu_time.insert(Some(vm), whole.per_second(Some(vm), time.wall));
    }
    let wall = total(whole.vms.values().map(|time| time.wall));
    judgement.vcpu_time.insert(None, whole.per_second(None, wall));
    let every: Vec<VmId> = selected.vms.keys().copied().collect();
    let of_all = |of: &Covers<'_>, untold: CauseVerdict, key: Option<ExitKey>| {
        let untold = unanswered(of, untold);
        let vms = key.and_then(|key| vms_of.get(&key)).unwrap_or(&every);
        let verdicts = vms.iter().map(|vm| verdict(judgement, *vm, of, untold.clone()));
        verdicts.reduce(CauseVerdict::and).unwrap_or(untold)
    };
    judgement.causes_of_all = all.rows(None, &how, &of_all);
    judgement.causes = rows;
}

/// What weighs where no rule looked: of several recordings together, or of a part of the exits.
pub fn unjudged_causes(facts: &Facts, host: &RecordedHost) -> Vec<CauseRow> {
    let mut sums = Sums::default();
    for of in facts.divisions.values() {
        sums.wall = sums.wall.saturating_add(of.parts.sum().0);
        for (to, part) in [
            (&mut sums.steal, TimePart::Steal),
            (&mut sums.polling, TimePart::Polling),
            (&mut sums.undivided, TimePart::Undivided),
            (&mut sums.unknown, TimePart::Unknown),
        ] {
            *to = to.saturating_add(of.parts.get(part).0);
        }
    }
    sums.forced_out = total(facts.gangs.vms().values().map(GangStats::cost));
    facts.causes.cells().iter().for_each(|(cause, stats)| sums.add(host, false, cause, stats));
    sums.rows(None, &host.how(facts), &|_, untold, _| untold)
}

impl CauseVerdict {
    /// Of two VMs together.
    fn and(self, other: CauseVerdict) -> CauseVerdict {
        match (self, other) {
            (CauseVerdict::Changed(mut numbers), CauseVerdict::Changed(others)) => {
                numbers.extend(others);
                numbers.sort_unstable();
                numbers.dedup();
                CauseVerdict::Changed(numbers)
            }
            (changed @ CauseVerdict::Changed(_), _) | (_, changed @ CauseVerdict::Changed(_)) => changed,
            (one, other) if one == other => one,
            _ => CauseVerdict::NotJudged(DIFFERS.to_string()),
        }
    }
}

/// Why nothing is said of all VMs together.
const DIFFERS: &str = "it is judged by VM";

#[derive(Default)]
struct Sum {
    stats: ExitStats,
    cost: u64,
    top: Option<(SubjectKey, u64)>,
}

impl Sum {
    fn add(&mut self, stats: &ExitStats, cost: u64, top: Option<(SubjectKey, u64)>) {
        self.stats.merge(stats);
        self.cost = self.cost.saturating_add(cost);
        self.top = match (top, self.top) {
            (Some(of), top) if top.is_none_or(|top| top.1 < of.1) => Some(of),
            (_, top) => top,
        };
    }
}

/// Whether a rule covers a cause.
type Covers<'a> = dyn Fn(&Covered) -> bool + 'a;

/// What tells exits apart: their reason, and what they are about.
type ExitKey = (ExitCode, Option<CureLookup>);

/// Exits by reason and what they are about, and the time that they are measured against.
#[derive(Default)]
struct Sums {
    exits: BTreeMap<ExitKey, Sum>,
    cost: u64,
    wall: u64,
    steal: u64,
    forced_out: u64,
    polling: u64,
    undivided: u64,
    unknown: u64,
}

impl Sums {
    fn add(&mut self, host: &RecordedHost, is_qemu: bool, cause: &ExitCause, stats: &ExitStats) {
        let cost = stats.cost().0;
        let top = cause.about.filter(|key| is_told_apart(key.kind)).map(|key| (key, cost));
        let key = (cause.code, asked(host, is_qemu, cause));
        self.exits.entry(key).or_default().add(stats, cost, top);
        self.cost = self.cost.saturating_add(cost);
    }

    fn merge(&mut self, other: &Sums) {
        let Sums { exits, cost, wall, steal, forced_out, polling, undivided, unknown } = other;
        let exits = exits.iter();
        exits.for_each(|(key, sum)| self.exits.entry(*key).or_default().add(&sum.stats, sum.cost, sum.top));
        for (to, from) in [
            (&mut self.cost, *cost),
            (&mut self.wall, *wall),
            (&mut self.steal, *steal),
            (&mut self.forced_out, *forced_out),
            (&mut self.polling, *polling),
            (&mut self.undivided, *undivided),
            (&mut self.unknown, *unknown),
        ] {
            *to = to.saturating_add(from);
        }
    }

    /// What weighs, costliest first; `verdict` says what rules made of those that it covers, or else gives back its second argument.
    fn rows(&self, vm: Option<VmId>, how: &HowToRecord, verdict: &Verdicts<'_>) -> Vec<CauseRow> {
        let (all, wall) = (self.cost, self.wall);
        let weighs = |cost: u64| {
            cost > 0
                && (cost.saturating_mul(OF_COST) > all || wall > 0 && cost.saturating_mul(NOTEWORTHY_OF_TIME) > wall)
        };
        let share = |part: u64, whole: u64| part as f64 / whole.max(1) as f64;
        let of_exits = |(&(code, asked), sum): (&ExitKey, &Sum)| CauseRow {
            vm,
            into: GoesInto::Exits(code),
            subject: match (asked, sum.top) {
                (Some(asked), Some((key, _))) => asked.subject(key),
                (Some(CureLookup::Named(name)), None) => CauseSubject::Group(name),
                _ => CauseSubject::None,
            },
            exits: sum.stats.count,
            time: Nanos(sum.cost),
            lengths: sum.stats.quantile(5_000).zip(sum.stats.quantile(9_900)).filter(|_| !halts(&sum.stats)),
            of_cost: Some(share(sum.cost, all)),
            of_time: share(sum.cost, wall),
            verdict: verdict(
                &|of| covers(of, code, asked, halts(&sum.stats)),
                match untold(code, asked) {
                    UNTOLD => not_recorded(UNTOLD, &[Missed::Subjects], how),
                    why => CauseVerdict::NotJudged(why.to_string()),
                },
                Some((code, asked)),
            ),
        };
        let mut rows: Vec<CauseRow> = self.exits.iter().filter(|(_, sum)| weighs(sum.cost)).map(of_exits).collect();
        rows.sort_by_key(|row| (Reverse((row.time, row.exits)), row.into, row.subject));
        rows.extend(self.rows_without_exits(vm, how, verdict));
        rows
    }

    /// What weighs of the time that no exit's cost holds.
    fn rows_without_exits(&self, vm: Option<VmId>, how: &HowToRecord, verdict: &Verdicts<'_>) -> Vec<CauseRow> {
        let wall = self.wall;
        let doorbells = self.exits.iter().filter(|(key, _)| key.1 == Some(CureLookup::Named(DOORBELLS)));
        let doorbells = total(doorbells.map(|(_, sum)| sum.cost));
        // Those are the same time, if they are all of it.
        let is_same = are_forced(doorbells, self.forced_out) && are_forced(self.forced_out, doorbells);
        let forced_out = if is_same { 0 } else { self.forced_out };
        // Without lengths of exits, all of it is unknown, and judged by nobody.
        let unless_all = |time: u64| if self.cost > 0 { time } else { 0 };
        let weighs = |time: &u64| wall > 0 && time.saturating_mul(NOTEWORTHY_OF_TIME) > wall;
        let row = |into, time: u64, verdict| CauseRow {
            vm,
            into,
            subject: CauseSubject::None,
            exits: 0,
            time: Nanos(time),
            lengths: None,
            of_cost: None,
            of_time: time as f64 / wall.max(1) as f64,
            verdict,
        };
        let of_rules = [
            (GoesInto::Steal, Covered::Steal, self.steal),
            (GoesInto::ForcedOut, Covered::ForcedOut, forced_out),
            (GoesInto::Polling, Covered::Halts, self.polling),
        ];
        let none = || CauseVerdict::NotJudged(NO_RULE.to_string());
        let of_rules = of_rules.into_iter().filter(|(.., time)| weighs(time));
        let of_rules = of_rules.map(|(into, of, time)| row(into, time, verdict(&|said| *said == of, none(), None)));
        let of_none = [
            (GoesInto::Undivided, UNDIVIDED, &[Missed::HaltEnds, Missed::Scheduler][..], unless_all(self.undivided)),
            (GoesInto::Unknown, UNKNOWN, Missed::OF_TIME, unless_all(self.unknown)),
        ];
        let of_none = of_none.into_iter().filter(|(.., time)| weighs(time));
        of_rules
            .chain(of_none.map(|(into, why, missed, time)| row(into, time, not_recorded(why, missed, how))))
            .collect()
    }
}

/// What says what became of a cause; the second argument, if no rule does.
type Verdicts<'a> = dyn Fn(&Covers<'_>, CauseVerdict, Option<ExitKey>) -> CauseVerdict + 'a;

/// That the recording lacks this, and how to record it, or why no other would have it.
fn not_recorded(why: &str, missed: &[Missed], how: &HowToRecord) -> CauseVerdict {
    CauseVerdict::NotRecorded(format!("{why}; {}", how.clause(missed)))
}

/// Whether exits are mostly halts: those of other codes than a halt's (a call, an instruction of several) may be.
fn halts(stats: &ExitStats) -> bool {
    stats.parts.in_halts().0.saturating_mul(2) > stats.total().0
}

fn covers(of: &Covered, code: ExitCode, asked: Option<CureLookup>, halts: bool) -> bool {
    match *of {
        Covered::Subject(subject) => asked == Some(subject),
        Covered::Reason(list, number) => code == ExitCode::new(list, number),
        Covered::Halts => (code.is_halt() || halts) && !code.nested,
        Covered::Steal | Covered::ForcedOut => false,
    }
}

/// Why nothing was said of such exits.
fn untold(code: ExitCode, asked: Option<CureLookup>) -> &'static str {
    let number = (code.list, code.number);
    let names_one = ABOUT.contains(&number) || number == (CodeList::Vmx, EPT_MISCONFIG) || code.is_page_fault();
    if names_one && asked.is_none() { UNTOLD } else { NO_RULE }
}

/// The same where rules have looked: one that says that it judges such exits owes an answer.
fn unanswered(of: &Covers<'_>, untold: CauseVerdict) -> CauseVerdict {
    let names = RULES.iter().flat_map(|row| row.names);
    let mut named = names.map(|exits| Covered::Subject(CureLookup::Named(exits.name)));
    let is_owed = RULES.iter().flat_map(|row| row.answers).any(of) || named.any(|covered| of(&covered));
    if is_owed { CauseVerdict::NotJudged(UNANSWERED.to_string()) } else { untold }
}

/// Of all that was said, what helps most; else `untold`.
fn verdict(judgement: &Judgement, vm: VmId, of: &Covers<'_>, untold: CauseVerdict) -> CauseVerdict {
    let said: Vec<&RuleAnswer> = judgement.said(vm).filter(|row| of(row.0)).map(|row| row.1).collect();
    let id = |said: &&RuleAnswer| if let RuleAnswer::Advice(id) = said { judgement.number(*id) } else { None };
    let mut numbers: Vec<usize> = said.iter().filter_map(id).collect();
    numbers.sort_unstable();
    numbers.dedup();
    if !numbers.is_empty() {
        return CauseVerdict::Changed(numbers);
    }
    let inherent = |said: &&RuleAnswer| {
        if let RuleAnswer::Inherent(why) = said { Some(CauseVerdict::Inherent(why.clone())) } else { None }
    };
    let small = |said: &&RuleAnswer| {
        if let RuleAnswer::Small(change) = said { Some(CauseVerdict::Small(change)) } else { None }
    };
    let unjudged = |said: &&RuleAnswer| match said {
        RuleAnswer::NotRecorded(why) => Some(CauseVerdict::NotRecorded(why.clone())),
        RuleAnswer::NotJudged(why) => Some(CauseVerdict::NotJudged(why.clone())),
        _ => None,
    };
    let first = said.iter().find_map(inherent).or_else(|| said.iter().find_map(small));
    first.or_else(|| said.iter().find_map(unjudged)).unwrap_or(untold)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judgement::{AdviceDraft, CitedValue, Gain, GainMethod, GainOf, Rule, Topic};
    use crate::test_exits::{exit, spent, vcpu};
    use exitscope_analysis::Selection;
    use exitscope_model::{Exit, PortAccessForm, Subject, SubjectKind};

    /// Exits of VM 1 for these reasons, about these ports, that cost so much, in so much time of its vCPUs.
    fn causes(exits: &[(u64, Option<u64>, u64)], time: VmTime) -> Vec<CauseRow> {
        let mut input = AdviceInput::new(&Selection::default());
        for (number, port, cost) in exits {
            let of = exit(vcpu(0), 0, ExitCode::new(CodeList::Vmx, *number));
            let detail = port.map(|key| Subject {
                kind: SubjectKind::Port,
                write: true,
                form: PortAccessForm::NonString,
                size: 1,
                key,
                value: 0,
            });
            input.absorb(&Exit { subject: detail, parts: spent(TimePart::Kernel, *cost), ..of });
        }
        input.sum_up();
        input.vms.insert(VmId(1), time);
        let mut judgement = Judgement::default();
        list(&input, &input, &RecordedHost::default(), &mut judgement);
        assert_eq!(judgement.causes_of_all.len(), judgement.causes.len());
        judgement.causes
    }

    #[test]
    fn what_takes_more_than_a_twentieth_of_cost_or_a_hundredth_of_time_weighs() {
        let reasons = |exits: &[(u64, Option<u64>, u64)], wall| {
            let rows = causes(exits, VmTime { wall, ..VmTime::default() });
            rows.iter().map(|row| (row.into, row.time.0)).collect::<Vec<_>>()
        };
        let vmx = |number, time| (GoesInto::Exits(ExitCode::new(CodeList::Vmx, number)), time);
        assert_eq!(reasons(&[(1, None, 950), (7, None, 50)], 5_000), [vmx(1, 950)]);
        assert_eq!(reasons(&[(1, None, 949), (7, None, 51)], 1_000_000), [vmx(1, 949), vmx(7, 51)]);
        assert_eq!(reasons(&[(1, None, 950), (7, None, 50)], 4_999), [vmx(1, 950), vmx(7, 50)]);
        assert_eq!(reasons(&[(1, None, 950), (7, None, 50)], 0), [vmx(1, 950)]);
        assert_eq!(reasons(&[(1, None, 0)], 0), []);
        for (steal, weighs) in [(50, false), (51, true)] {
            let rows = causes(&[], VmTime { wall: 5_000, steal, ..VmTime::default() });
            assert_eq!(rows.len(), usize::from(weighs), "{steal}");
            for row in rows {
                assert_eq!((row.into, row.time.0, row.of_cost, row.of_time), (GoesInto::Steal, 51, None, 0.0102));
            }
        }
    }

    /// Each part of the time that is large is a row, with what rules say of it or how to record more.
    #[test]
    fn what_no_exit_costs_is_a_row_where_it_is_large() {
        let all = VmTime { wall: 5_000, polling: 51, undivided: 52, unknown: 53, ..VmTime::default() };
        let little = VmTime { wall: 5_000, polling: 50, undivided: 50, unknown: 50, ..VmTime::default() };
        let rows = causes(&[(1, None, 1)], all);
        let found: Vec<_> = rows.iter().skip(1).map(|row| (row.into, row.time.0, row.of_time)).collect();
        assert_eq!(
            found,
            [(GoesInto::Polling, 51, 0.0102), (GoesInto::Undivided, 52, 0.0104), (GoesInto::Unknown, 53, 0.0106)]
        );
        for (row, why) in rows[2..].iter().zip([UNDIVIDED, UNKNOWN]) {
            let CauseVerdict::NotRecorded(says) = &row.verdict else { panic!("{row:?}") };
            assert!(says.starts_with(why) && says.contains("record with `exitscope record"), "{says}");
        }
        assert_eq!(causes(&[(1, None, 1)], little).len(), 1);
        assert_eq!(causes(&[], all).len(), 1, "without lengths, all is unknown");
    }

    #[test]
    fn ports_of_one_device_are_one_cause_under_the_costliest() {
        let exits = [
            (30, Some(0x3f8), 200),
            (30, Some(0x3f9), 500),
            (30, Some(0x3fa), 500),
            (30, Some(0x1234), 300),
            (30, None, 100),
        ];
        let rows = causes(&exits, VmTime { wall: 3_200, ..VmTime::default() });
        let key = |key| SubjectKey { kind: SubjectKind::Port, key, write: true };
        let found: Vec<_> =
            rows.iter().map(|row| (row.subject, row.exits, row.time.0, row.of_cost, row.of_time)).collect();
        assert_eq!(
            found,
            [
                (CauseSubject::Named("serial port", key(0x3f9)), 3, 1_200, Some(0.75), 0.375),
                (CauseSubject::Key(key(0x1234)), 1, 300, Some(0.1875), 0.09375),
                (CauseSubject::None, 1, 100, Some(0.0625), 0.03125),
            ]
        );
        let untold = |why: &str| CauseVerdict::NotJudged(why.to_string());
        let verdicts: Vec<_> = rows.into_iter().map(|row| row.verdict).collect();
        let unrecorded = not_recorded(UNTOLD, &[Missed::Subjects], &HowToRecord::default());
        assert_eq!(verdicts, [untold(NO_RULE), untold(NO_RULE), unrecorded]);
    }

    #[test]
    fn what_names_nothing_is_said_of_reasons_that_should_name_something() {
        let asked = Some(CureLookup::Other(SubjectKind::Port, 1));
        for (list, number, about, says) in [
            (CodeList::Vmx, 30, None, "the recording does not show their subject"),
            (CodeList::Vmx, 49, None, "the recording does not show their subject"),
            (CodeList::Svm, 0x7b, None, "the recording does not show their subject"),
            (CodeList::Vmx, 18, None, "the recording does not show their subject"),
            (CodeList::Svm, 0x81, None, "the recording does not show their subject"),
            (CodeList::Vmx, 30, asked, NO_RULE),
            (CodeList::Vmx, 49, asked, NO_RULE),
            (CodeList::Vmx, 48, None, "the recording does not show their subject"),
            (CodeList::Vmx, 47, None, NO_RULE),
            (CodeList::Svm, 49, None, NO_RULE),
        ] {
            assert_eq!(untold(ExitCode::new(list, number), about), says, "{list:?} {number} {about:?}");
        }
    }

    #[test]
    fn each_saying_is_of_its_own_exits() {
        let asked = CureLookup::Other(SubjectKind::Port, 1);
        let (pio, hlt) = (ExitCode::new(CodeList::Vmx, 30), ExitCode::new(CodeList::Vmx, 12));
        for (of, code, about, is_covered) in [
            (Covered::Subject(asked), pio, Some(asked), true),
            (Covered::Subject(asked), pio, Some(CureLookup::Other(SubjectKind::Port, 2)), false),
            (Covered::Subject(asked), pio, None, false),
            (Covered::Reason(CodeList::Vmx, 30), pio, None, true),
            (Covered::Reason(CodeList::Svm, 30), pio, None, false),
            (Covered::Reason(CodeList::Vmx, 31), pio, None, false),
            (Covered::Halts, hlt, None, true),
            (Covered::Halts, pio, None, false),
            (Covered::Steal, hlt, None, false),
            (Covered::ForcedOut, hlt, None, false),
        ] {
            assert_eq!(covers(&of, code, about, false), is_covered, "{of:?} {code:?} {about:?}");
        }
        assert!(!is_told_apart(SubjectKind::PageFault) && !is_told_apart(SubjectKind::Program));
        assert!(is_told_apart(SubjectKind::Port) && is_told_apart(SubjectKind::Msr));
    }

    #[test]
    fn of_all_that_is_said_what_helps_most_is_told() {
        let mut judgement = Judgement::default();
        let fact = judgement.cite(None, Topic::Timeline, "exits", CitedValue::Count(3));
        let plan = AdviceDraft {
            rule: Rule::new("cure"),
            subject: CauseSubject::None,
            vm: None,
            title: "".into(),
            change: String::new(),
            settings: Vec::new(),
            gain: Gain {
                of: GainOf::Exits,
                headline: Nanos(2),
                low: Nanos(1),
                high: Nanos(2),
                may_wait: false,
                how: GainMethod::Counted(""),
            },
            risk: "".into(),
            payer: "".into(),
            undo: "".into(),
            acts: "".into(),
        };
        let larger = AdviceDraft { gain: Gain { headline: Nanos(9), high: Nanos(9), ..plan.gain }, ..plan.clone() };
        let (small, large) = (judgement.advise(fact, &[], plan), judgement.advise(fact, &[], larger));
        judgement.rank();
        let unjudged = || RuleAnswer::NotJudged("why".to_string());
        let unrecorded = || RuleAnswer::NotRecorded("how".to_string());
        let inherent = || RuleAnswer::Inherent("is so".to_string());
        let advice = RuleAnswer::Advice;
        for (said, expected) in [
            (vec![], CauseVerdict::NotJudged("nothing".to_string())),
            (vec![unjudged()], CauseVerdict::NotJudged("why".to_string())),
            (vec![unrecorded(), unjudged()], CauseVerdict::NotRecorded("how".to_string())),
            (vec![unjudged(), unrecorded()], CauseVerdict::NotJudged("why".to_string())),
            (vec![unrecorded(), RuleAnswer::Small("less")], CauseVerdict::Small("less")),
            (vec![unjudged(), RuleAnswer::Small("less"), inherent()], CauseVerdict::Inherent("is so".to_string())),
            (vec![inherent(), advice(small), advice(large), advice(small)], CauseVerdict::Changed(vec![1, 2])),
            (vec![unjudged(), advice(small)], CauseVerdict::Changed(vec![2])),
        ] {
            let mut judgement = judgement.clone();
            for (said, vm) in said.into_iter().zip([Some(VmId(1)), None].into_iter().cycle()) {
                judgement.say(vm, Covered::Halts, said);
            }
            judgement.say(Some(VmId(2)), Covered::Halts, inherent());
            judgement.say(Some(VmId(1)), Covered::Steal, inherent());
            let untold = CauseVerdict::NotJudged("nothing".to_string());
            assert_eq!(verdict(&judgement, VmId(1), &|of| *of == Covered::Halts, untold), expected);
        }
    }
}
