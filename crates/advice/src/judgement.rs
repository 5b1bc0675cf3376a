//! What a judgement is made of: facts with numbers, advice that cites them, and what is said of each cause.

use super::cause::{CauseRow, CauseSubject, Covered, RuleAnswer};
use super::setting::AdviceSetting;
use crate::evidence::input::RecordedHost;
use exitscope_analysis::record_commands::HowToRecord;
use exitscope_units::{Nanos, VmId};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// An enum whose values have ids for JSON.
macro_rules! ids {
    ($(#[$about:meta])* $name:ident { $($(#[$of:meta])* $value:ident $id:literal,)* }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum $name { $($(#[$of])* $value),* }

        impl $name {
            /// Every value.
            pub const ALL: &'static [$name] = &[$($name::$value),*];

            /// Its id in JSON.
            pub const fn id(self) -> &'static str {
                match self { $($name::$value => $id),* }
            }
        }
    };
}

/// The number of a fact of a judgement; given by [`Judgement::cite`] alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CitedFactId(usize);

impl CitedFactId {
    /// From 1 on.
    pub fn number(self) -> usize {
        self.0
    }
}

/// A figure of a fact.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum CitedValue {
    /// A number of things.
    Count(u64),
    /// How many a second.
    Rate(f64),
    /// A length of time.
    Time(Nanos),
    /// A part of one.
    Share(f64),
    /// How many CPUs.
    Cpus(f64),
    /// A number that a guest wrote.
    Value(u64),
}

/// A part of a whole.
pub(super) fn share(part: u64, whole: u64) -> CitedValue {
    CitedValue::Share(part as f64 / whole.max(1) as f64)
}

ids! {
    /// What a fact is of: the part of a page where it can be seen.
    Topic {
        /// What exits are about: ports, addresses, MSRs, CPUID leaves.
        Devices "devices",
        /// The phases of exits.
        Phases "phases",
        /// Halts and polls.
        Halts "halts",
        /// Yields.
        Yields "yields",
        /// Core runs, and who is forced out of them.
        Gangs "gangs",
        /// Where the time of vCPUs goes.
        Timeline "timeline",
    }
}

/// What is advised: of one VM, or of the host, and of one subject, there is one advice of each at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rule {
    id: &'static str,
    /// What it shares with those of which only one can be followed.
    one_of: Option<&'static str>,
}

impl Rule {
    /// By its id in JSON.
    pub(crate) const fn new(id: &'static str) -> Rule {
        Rule { id, one_of: None }
    }

    /// One of several ways to the same, each of which makes the others do nothing.
    pub(crate) const fn one_of(way_to: &'static str, id: &'static str) -> Rule {
        Rule { id, one_of: Some(way_to) }
    }

    /// Its id in JSON.
    pub const fn id(self) -> &'static str {
        self.id
    }
}

/// Something that the recording says.
#[derive(Clone, Debug, PartialEq)]
pub struct CitedFact {
    /// Of which VM; `None`: of the host, or of all VMs together.
    pub vm: Option<VmId>,
    /// What it is of.
    pub topic: Topic,
    /// What, in words.
    pub what: String,
    /// The value of the fact, with its unit.
    pub figure: CitedValue,
}

/// Facts that support an advice: at least one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Evidence(Vec<CitedFactId>);

impl Evidence {
    /// These facts.
    pub fn of(first: CitedFactId, more: &[CitedFactId]) -> Evidence {
        let mut facts = vec![first];
        facts.extend(more);
        facts.sort();
        facts.dedup();
        Evidence(facts)
    }
}

ids! {
    /// What a gain is a gain of.
    GainOf {
        /// Time of vCPUs that went into exits.
        Exits "exits",
        /// Time from a wake-up to the entry into the guest.
        WakeUps "wake_ups",
        /// CPU time of the host.
        HostCpu "host_cpu",
        /// Time that vCPUs were runnable, without a CPU.
        Steal "steal",
        /// CPU time of yields, and time that vCPUs yielded for one without a CPU.
        Yields "yields",
        /// Time that vCPUs lost to others' exits.
        ForcedOut "forced_out",
    }
}

impl GainOf {
    /// In words, after a part of vCPUs' time, or a number of CPUs.
    pub fn text(self) -> &'static str {
        match self {
            GainOf::Exits => "in exits",
            GainOf::WakeUps => "from wake-ups to entries into the guest",
            GainOf::HostCpu => "in CPU time of the host",
            GainOf::Steal => "waiting for a CPU",
            GainOf::Yields => "in yields and the steal during them",
            GainOf::ForcedOut => "lost to other threads' exits",
        }
    }
}

/// How a gain was found out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GainMethod {
    /// The policy's state machine ran over the recording, part by part; the range is the 95 % confidence interval.
    Replayed(&'static str),
    /// Added up from the recording; this says what the range is of.
    Counted(&'static str),
    /// The simulator ran what was recorded on other ways; this says what its shares were applied to.
    Simulated(&'static str),
    /// A published ratio, applied to what was added up from the recording; this is the source.
    Published(&'static str),
}

/// What a change is expected to win, in each second in which the vCPUs concerned were seen, all of them
/// together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gain {
    /// Of what.
    pub of: GainOf,
    /// What is said first: what the change usually wins where it does what it is made for. Waits for a CPU are not in it. Advice is
    /// ranked by it and by what is sure ([`Gain::rank`]).
    pub headline: Nanos,
    /// At least.
    pub low: Nanos,
    /// At most.
    pub high: Nanos,
    /// Whether waits for a CPU may be in that, as nothing in the recording tells them apart.
    pub may_wait: bool,
    /// How it was found out.
    pub how: GainMethod,
}

impl Gain {
    /// What advice is ranked by: the middle between what is sure and the headline, as a headline of which nothing is sure is a bound,
    /// and what is won may be anywhere below it; then what is sure.
    pub(crate) fn rank(self) -> (u64, Nanos) {
        (self.low.0.saturating_add(self.headline.0) / 2, self.low)
    }
}

/// An advice but for its evidence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdviceDraft {
    /// What is advised.
    pub rule: Rule,
    /// What it is about.
    pub subject: CauseSubject,
    /// For which VM; `None`: for the host.
    pub vm: Option<VmId>,
    /// The change as a short imperative, without its conditions.
    pub title: Cow<'static, str>,
    /// What to change, under which conditions and why.
    pub change: String,
    /// How exactly; alternatives and additions are told by their text.
    pub settings: Vec<AdviceSetting>,
    /// What it wins.
    pub gain: Gain,
    /// What can go wrong.
    pub risk: Cow<'static, str>,
    /// Who pays for it.
    pub payer: Cow<'static, str>,
    /// How to undo it.
    pub undo: Cow<'static, str>,
    /// From when on it acts.
    pub acts: Cow<'static, str>,
}

/// What an advice says.
pub(crate) struct AdviceWords {
    /// The change as a short imperative, without its conditions.
    pub title: Cow<'static, str>,
    /// What to change, under which conditions and why.
    pub change: String,
    /// How exactly.
    pub settings: Vec<AdviceSetting>,
    /// What can go wrong.
    pub risk: Cow<'static, str>,
    /// Who pays for it.
    pub payer: Cow<'static, str>,
    /// How to undo it.
    pub undo: Cow<'static, str>,
    /// From when on it acts.
    pub acts: Cow<'static, str>,
}

impl AdviceWords {
    /// The advice of a rule to a VM, or to the host, that is about no subject.
    pub fn of(self, rule: Rule, vm: Option<VmId>, gain: Gain) -> AdviceDraft {
        let AdviceWords { title, change, settings, risk, payer, undo, acts } = self;
        AdviceDraft { rule, subject: CauseSubject::None, vm, title, change, settings, gain, risk, payer, undo, acts }
    }
}

/// An advice, as it was given; its number is found out when all are ranked.
#[must_use = "`say` of which causes it is: they are listed as what no rule looks at otherwise"]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct AdviceId(usize);

/// An advice. There is none without evidence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Advice {
    plan: AdviceDraft,
    evidence: Evidence,
    id: AdviceId,
}

impl Advice {
    /// What to do.
    pub fn plan(&self) -> &AdviceDraft {
        &self.plan
    }

    /// The facts that say so.
    pub fn evidence(&self) -> &[CitedFactId] {
        &self.evidence.0
    }
}

/// Something that costs and is to be left as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AcceptedCost {
    /// The facts.
    pub evidence: Evidence,
    /// Why nothing is advised.
    pub why: String,
}

impl AcceptedCost {
    /// The facts that it is about.
    pub fn evidence(&self) -> &[CitedFactId] {
        &self.evidence.0
    }
}

/// What could not be judged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotJudged {
    /// What is not judged.
    pub what: &'static str,
    /// Why: what the recording does not have.
    pub missing: Cow<'static, str>,
    /// How to record it, if that can be.
    pub record: Option<&'static str>,
}

/// Facts that are looked through for one that was noted before: rules note what they share in one go.
const RECENT: usize = 64;

/// One part in so many of the time judged against: less is within what runs of one and the same workload differ by.
pub(super) const MIN_COST_SHARE: u64 = 100;

/// What rules make of a recording.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Judgement {
    facts: Vec<CitedFact>,
    advice: Vec<Advice>,
    said: BTreeMap<Option<VmId>, Vec<(Covered, RuleAnswer)>>,
    /// What takes a noteworthy part of a VM's cost or time, costliest first, VM by VM; filled at the end.
    pub causes: Vec<CauseRow>,
    /// The same of all VMs together.
    pub causes_of_all: Vec<CauseRow>,
    /// Of each VM, the time of its vCPUs in each second of theirs, and of all in each second in which any was seen; filled at the end.
    pub(super) vcpu_time: BTreeMap<Option<VmId>, Nanos>,
    /// Looked at and left alone.
    pub left_alone: Vec<AcceptedCost>,
    /// Not judged.
    pub not_judged: Vec<NotJudged>,
}

impl Judgement {
    /// Of [`NotJudged::what`]: nothing is judged.
    pub const ANYTHING: &'static str = "anything";

    /// Of [`NotJudged::what`]: without that, next to nothing is judged.
    pub const COST: &'static str = "what exits cost";

    /// Numbers a fact; what was noted before keeps its number.
    pub fn cite(&mut self, vm: Option<VmId>, topic: Topic, what: impl Into<String>, figure: CitedValue) -> CitedFactId {
        let fact = CitedFact { vm, topic, what: what.into(), figure };
        let recent = self.facts.len().saturating_sub(RECENT);
        let known = self.facts[recent..].iter().position(|old| *old == fact).map(|at| recent + at);
        let at = known.unwrap_or_else(|| {
            self.facts.push(fact);
            self.facts.len() - 1
        });
        CitedFactId(at + 1)
    }

    /// Adds an advice.
    pub(super) fn advise(&mut self, first: CitedFactId, more: &[CitedFactId], plan: AdviceDraft) -> AdviceId {
        let id = AdviceId(self.advice.len());
        self.advice.push(Advice { plan, evidence: Evidence::of(first, more), id });
        id
    }

    /// Says something of what a VM's exits come from, or with `None` of those of all VMs.
    pub(super) fn say(&mut self, vm: Option<VmId>, of: Covered, said: RuleAnswer) {
        self.said.entry(vm).or_default().push((of, said));
    }

    /// What was said of a VM's exits.
    pub(super) fn said(&self, vm: VmId) -> impl Iterator<Item = (&Covered, &RuleAnswer)> {
        [Some(vm), None].into_iter().filter_map(|of| self.said.get(&of)).flatten().map(|row| (&row.0, &row.1))
    }

    /// The number of an advice, from 1 on, once all are ranked.
    pub(super) fn number(&self, id: AdviceId) -> Option<usize> {
        self.advice.iter().position(|advice| advice.id == id).map(|at| at + 1)
    }

    /// Notes what is to be left as it is.
    pub fn accept_cost(&mut self, first: CitedFactId, more: &[CitedFactId], why: impl Into<String>) {
        self.left_alone.push(AcceptedCost { evidence: Evidence::of(first, more), why: why.into() });
    }

    /// The time of a VM's vCPUs in each second in which they were seen, or of all in each second in which any was seen.
    pub fn vcpu_time(&self, vm: Option<VmId>) -> Nanos {
        self.vcpu_time.get(&vm).copied().unwrap_or_default()
    }

    /// The facts; the first is number 1.
    pub fn facts(&self) -> &[CitedFact] {
        &self.facts
    }

    /// The advice, what wins most first.
    pub fn advice(&self) -> &[Advice] {
        &self.advice
    }

    /// The number of better advice of which this one, of number `number`, is an alternative: following both does not win both.
    pub fn instead_of(&self, number: usize) -> Option<usize> {
        let plan = &self.advice.get(number.checked_sub(1)?)?.plan;
        let meets = |other: &AdviceDraft| other.vm.is_none() || plan.vm.is_none() || other.vm == plan.vm;
        let is_way = |other: &Advice| plan.rule.one_of.is_some() && other.plan.rule.one_of == plan.rule.one_of;
        let mut better = self.advice.iter().take(number - 1);
        better.position(|other| is_way(other) && meets(&other.plan)).map(|at| at + 1)
    }

    /// The number of better advice that is the same change, for other exits: whoever follows it wins both.
    pub fn same_as(&self, number: usize) -> Option<usize> {
        let plan = &self.advice.get(number.checked_sub(1)?)?.plan;
        let is_same = |other: &Advice| (&other.plan.title, other.plan.vm) == (&plan.title, plan.vm);
        if self.instead_of(number).is_some() {
            return None;
        }
        self.advice.iter().take(number - 1).position(is_same).map(|at| at + 1)
    }

    /// Keeps advice for these VMs, and for the host where it was said of one of them, or of none.
    pub(super) fn retain_of(&mut self, is_asked: impl Fn(VmId) -> bool) {
        let of_answer =
            |(_, said): &(Covered, RuleAnswer)| if let RuleAnswer::Advice(id) = said { Some(*id) } else { None };
        let said_of = |is: &dyn Fn(Option<VmId>) -> bool| -> Vec<AdviceId> {
            let answers = self.said.iter().filter(|(vm, _)| is(**vm)).flat_map(|(_, said)| said);
            answers.filter_map(of_answer).collect()
        };
        let of_asked = said_of(&|vm| vm.is_none_or(&is_asked));
        let of_others = said_of(&|vm| vm.is_some_and(|vm| !is_asked(vm)));
        self.advice.retain(|advice| match advice.plan.vm {
            Some(vm) => is_asked(vm),
            None => of_asked.contains(&advice.id) || !of_others.contains(&advice.id),
        });
        let facts = &self.facts;
        let about = |row: &AcceptedCost| row.evidence().first().and_then(|fact| facts[fact.0 - 1].vm);
        self.left_alone.retain(|row| about(row).is_none_or(&is_asked));
    }

    /// Has its texts name no command that records what the recording has, and no setting without the value that it has.
    pub(super) fn word(&mut self, how: &HowToRecord, host: &RecordedHost) {
        let word = |text: &mut String| {
            if let Cow::Owned(worded) = how.worded(text) {
                *text = worded;
            }
        };
        for plan in self.advice.iter_mut().map(|advice| &mut advice.plan) {
            word(&mut plan.change);
            for setting in &mut plan.settings {
                if let AdviceSetting::ByHand(text) = setting {
                    let mut worded = how.worded(text).into_owned();
                    // A guest's modules have other values.
                    if !text.starts_with("in ") {
                        worded = host.with_value(&worded).unwrap_or(worded);
                    }
                    *text = worded.into();
                }
            }
        }
        self.left_alone.iter_mut().for_each(|row| word(&mut row.why));
        for (_, said) in self.said.values_mut().flatten() {
            match said {
                RuleAnswer::Inherent(why) | RuleAnswer::NotRecorded(why) | RuleAnswer::NotJudged(why) => word(why),
                RuleAnswer::Advice(_) | RuleAnswer::Small(_) => {}
            }
        }
    }

    /// Puts the advice into the order of what it wins ([`Gain::rank`]), and the facts into that in which they are cited.
    pub(crate) fn rank(&mut self) {
        self.advice.sort_by_key(|advice| std::cmp::Reverse(advice.plan.gain.rank()));
        let mut numbers = vec![0; self.facts.len() + 1];
        let mut facts = Vec::with_capacity(self.facts.len());
        let evidence = self.advice.iter_mut().map(|advice| &mut advice.evidence);
        for evidence in evidence.chain(self.left_alone.iter_mut().map(|row| &mut row.evidence)) {
            for fact in &mut evidence.0 {
                if numbers[fact.0] == 0 {
                    facts.push(self.facts[fact.0 - 1].clone());
                    numbers[fact.0] = facts.len();
                }
                *fact = CitedFactId(numbers[fact.0]);
            }
            evidence.0.sort();
        }
        self.facts = facts;
    }
}

#[cfg(test)]
#[expect(unused_must_use, reason = "these are about advice alone")]
mod tests {
    use super::*;

    fn plan(high: u64) -> AdviceDraft {
        let gain = Gain {
            of: GainOf::Exits,
            headline: Nanos(high),
            low: Nanos(0),
            high: Nanos(high),
            may_wait: false,
            how: GainMethod::Counted(""),
        };
        let text = || Cow::Borrowed("");
        AdviceDraft {
            rule: Rule::new("cure"),
            subject: CauseSubject::None,
            vm: None,
            title: text(),
            change: String::new(),
            settings: Vec::new(),
            gain,
            risk: text(),
            payer: text(),
            undo: text(),
            acts: text(),
        }
    }

    #[test]
    fn a_fact_keeps_its_number_and_advice_comes_best_first() {
        let mut judgement = Judgement::default();
        let first = judgement.cite(None, Topic::Timeline, "exits", CitedValue::Count(3));
        let other = judgement.cite(Some(VmId(1)), Topic::Timeline, "exits", CitedValue::Count(3));
        assert_eq!((first.number(), other.number()), (1, 2));
        assert_eq!(judgement.cite(None, Topic::Timeline, "exits", CitedValue::Count(3)), first);
        judgement.advise(first, &[], plan(1));
        judgement.advise(other, &[first, other], plan(9));
        judgement.rank();
        assert_eq!(judgement.advice()[0].plan().gain.high, Nanos(9));
        assert_eq!(judgement.advice()[0].evidence(), [first, other]);
        // A fact that is cited first gets the first number.
        let mut judgement = Judgement::default();
        let facts = [1, 2, 3].map(|count| judgement.cite(None, Topic::Timeline, "exits", CitedValue::Count(count)));
        judgement.advise(facts[0], &[], plan(1));
        judgement.advise(facts[2], &[facts[0]], plan(9));
        judgement.rank();
        assert_eq!(
            judgement.facts().iter().map(|fact| fact.figure).collect::<Vec<_>>(),
            [CitedValue::Count(1), CitedValue::Count(3)]
        );
        assert_eq!(judgement.advice()[1].evidence(), [CitedFactId(1)]);
    }

    #[test]
    fn a_change_for_other_exits_names_the_first_advice_of_it() {
        let mut judgement = Judgement::default();
        let fact = judgement.cite(None, Topic::Timeline, "exits", CitedValue::Count(3));
        for (high, vm, title) in [(9, 1, "a"), (8, 1, "b"), (7, 2, "a"), (6, 1, "a"), (5, 1, "a")] {
            let draft = AdviceDraft { vm: Some(VmId(vm)), title: Cow::Borrowed(title), ..plan(high) };
            judgement.advise(fact, &[], draft);
        }
        judgement.rank();
        assert_eq!(
            [0, 1, 2, 3, 4, 5, 6].map(|number| judgement.same_as(number)),
            [None, None, None, None, Some(1), Some(1), None]
        );
    }

    #[test]
    fn of_bounds_a_sure_gain_is_first_and_a_much_larger_bound_is_before_it() {
        let mut judgement = Judgement::default();
        let fact = judgement.cite(None, Topic::Timeline, "exits", CitedValue::Count(3));
        for (low, high) in [(0, 40), (39, 39), (0, 90), (30, 30), (0, 60)] {
            let gain = Gain { low: Nanos(low), ..plan(high).gain };
            judgement.advise(fact, &[], AdviceDraft { gain, ..plan(high) });
        }
        judgement.rank();
        let ranked: Vec<u64> = judgement.advice().iter().map(|advice| advice.plan().gain.headline.0).collect();
        assert_eq!(ranked, [90, 39, 30, 60, 40]);
    }

    #[test]
    fn a_fact_is_looked_for_among_the_last_64() {
        let mut judgement = Judgement::default();
        let note = |judgement: &mut Judgement, count| {
            judgement.cite(None, Topic::Halts, "halts", CitedValue::Count(count)).number()
        };
        for count in 1..=65 {
            assert_eq!(note(&mut judgement, count), count as usize);
        }
        assert_eq!((note(&mut judgement, 2), note(&mut judgement, 65)), (2, 65));
        assert_eq!(note(&mut judgement, 1), 66, "too long ago");
    }

    #[test]
    fn evidence_is_in_order_and_without_doubles() {
        let evidence = Evidence::of(CitedFactId(4), &[CitedFactId(2), CitedFactId(4), CitedFactId(9)]);
        assert_eq!(evidence, Evidence(vec![CitedFactId(2), CitedFactId(4), CitedFactId(9)]));
        assert_eq!(
            AcceptedCost { evidence, why: String::new() }.evidence(),
            [CitedFactId(2), CitedFactId(4), CitedFactId(9)]
        );
    }

    #[test]
    fn of_selected_vms_advice_for_them_is_kept_and_advice_for_the_host_that_was_said_of_them() {
        let mut judgement = Judgement::default();
        let facts =
            [1, 2].map(|vm| judgement.cite(Some(VmId(vm)), Topic::Halts, "halts", CitedValue::Count(vm.into())));
        let mut advise = |vm: Option<u32>, high, said: &[u32]| {
            let id = judgement.advise(facts[0], &[facts[1]], AdviceDraft { vm: vm.map(VmId), ..plan(high) });
            said.iter().for_each(|vm| judgement.say(Some(VmId(*vm)), Covered::Steal, RuleAnswer::Advice(id)));
        };
        advise(Some(1), 1, &[1]);
        advise(Some(2), 2, &[2]);
        advise(None, 3, &[1, 2]);
        advise(None, 4, &[1]);
        advise(None, 5, &[]);
        facts.iter().for_each(|fact| judgement.accept_cost(*fact, &[], "left"));
        judgement.retain_of(|vm| vm == VmId(2));
        let kept: Vec<u64> = judgement.advice().iter().map(|advice| advice.plan().gain.high.0).collect();
        assert_eq!((kept, judgement.left_alone.len()), (vec![2, 3, 5], 1));
    }

    #[test]
    fn of_ways_to_the_same_the_best_is_first_and_the_others_are_instead_of_it() {
        let mut judgement = Judgement::default();
        let fact = judgement.cite(None, Topic::Halts, "halts", CitedValue::Count(1));
        let (one, other) = (Rule::one_of("polls", "host"), Rule::one_of("polls", "guest"));
        for (rule, vm, high) in [(other, Some(2), 9), (one, None, 8), (other, Some(1), 7), (Rule::new("cure"), None, 6)]
        {
            judgement.advise(fact, &[], AdviceDraft { rule, vm: vm.map(VmId), ..plan(high) });
        }
        judgement.rank();
        assert_eq!(
            [0, 1, 2, 3, 4, 5].map(|number| judgement.instead_of(number)),
            [None, None, Some(1), Some(2), None, None]
        );
    }

    #[test]
    fn each_gain_has_words_of_its_own() {
        let texts: std::collections::BTreeSet<&str> = GainOf::ALL.iter().map(|of| of.text()).collect();
        assert_eq!((texts.len(), GainOf::Steal.text()), (GainOf::ALL.len(), "waiting for a CPU"));
    }

    #[test]
    fn an_advice_keeps_its_number_and_what_is_said_of_all_vms_is_said_of_each() {
        let mut judgement = Judgement::default();
        let fact = judgement.cite(None, Topic::Timeline, "exits", CitedValue::Count(3));
        let ids = [1, 9, 5].map(|high| judgement.advise(fact, &[], plan(high)));
        judgement.rank();
        assert_eq!(ids.map(|id| judgement.number(id)), [Some(3), Some(1), Some(2)]);
        assert_eq!(judgement.number(AdviceId(3)), None);
        judgement.say(None, Covered::Halts, RuleAnswer::Small("of all"));
        judgement.say(Some(VmId(1)), Covered::Steal, RuleAnswer::Small("of one"));
        let said = |vm| judgement.said(VmId(vm)).map(|row| *row.0).collect::<Vec<_>>();
        assert_eq!((said(1), said(2)), (vec![Covered::Steal, Covered::Halts], vec![Covered::Halts]));
    }
}
