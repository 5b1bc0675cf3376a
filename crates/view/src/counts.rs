//! Counts of yields as plain data: what a monitor or a kernel counted, what rules say of it, and what changed.

use crate::advice::{AdviceSettingRow, figure};
use crate::exit_tables::{ExitTableComparison, ExitTableReport};
use crate::operation_costs::{OperationComparison, OperationCostsReport};
use crate::report::{Coverage, CoverageLine};
use crate::sides::SidesRow;
use exitscope_advice::{CountedAdvice, CountedFact, CountedRule, judge_counts};
use exitscope_analysis::{CountedChange, CountedSide, CountsNotCompared, compare_counts};
use exitscope_model::{
    CountSource, ExitTable, ExitTableSource, Ledger, OperationCosts, YieldCount, YieldCounter, YieldCounts, counters_of,
};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Serialize;

/// What texts of counts hold together.
#[derive(Clone, Debug, Default)]
pub struct CountedTexts {
    /// Their names.
    pub files: Vec<String>,
    /// Yields, by system and interval.
    pub counts: Vec<YieldCounts>,
    /// Tables of exits.
    pub tables: Vec<ExitTable>,
    /// What operations took in runs of kvm-unit-tests' vmexit.
    pub operations: Vec<OperationCosts>,
    /// What of them was not used, and why.
    pub ledger: Ledger,
}

/// Yields and exits that somebody else counted: what `report`, `report --view yield` and `advise` say of texts of counts, which hold no
/// events. What was not counted is absent, and not zero.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct CountsReport {
    /// Name and version of this layout. Fields may be added within a version; none changes its meaning.
    pub schema: &'static str,
    /// The files that were read, as they were given; `-` is standard input.
    pub files: Vec<String>,
    /// What of these texts was not used, and why.
    pub coverage: Vec<CoverageLine>,
    /// Yields by system and interval, in the order of the files.
    pub counts: Vec<CountsRow>,
    /// Tables of exits, in the order of the files.
    pub tables: Vec<ExitTableReport>,
    /// Runs of kvm-unit-tests' vmexit, in the order of the files.
    pub operations: Vec<OperationCostsReport>,
    /// Advice that these counts bear.
    pub advice: Vec<CountsAdviceRow>,
    /// What happens often, and is to be left as it is.
    pub accepted: Vec<AcceptedCountRow>,
    /// What cannot be judged by these counts, and why.
    pub not_judged: Vec<CountNotJudgedRow>,
}

/// What one source counted of one system in one interval.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct CountsRow {
    /// `fcx102` (z/VM's Performance Toolkit), `kvm_stats` (KVM, of a VM or of all) or `diag_stat` (a Linux kernel, of its own diagnoses).
    #[schemars(schema_with = "source_ids")]
    pub source: &'static str,
    /// The system: model and serial number of the machine, or the VM's folder in /sys/kernel/debug/kvm; absent if nothing says it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system: Option<String>,
    /// The interval as the screen prints it, such as `14:00:00-14:10:00`; absent of other sources.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interval: Option<String>,
    /// Length of the interval in nanoseconds; absent if the text does not show it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub span_ns: Option<u64>,
    /// Whether this is a single reading of counters that count since the start of a kernel or a VM: then there are no rates.
    pub since_start: bool,
    /// The counters that the text has.
    pub counts: Vec<CountRow>,
    /// The figures of this source that the text does not have, as the source calls them.
    pub missing: Vec<&'static str>,
    /// X'44' on the fast path, as a share (0 to 1) of all X'44'; absent unless both are counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fast_share: Option<f64>,
    /// X'9C' as a share (0 to 1) of X'9C' and X'44'; absent unless both are counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub named_share: Option<f64>,
    /// X'9C' that KVM ignored, as a share (0 to 1) of all X'9C'; absent unless both are counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ignored_share: Option<f64>,
    /// The guest's `kernel.spin_retry`, where the text has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spin_retry: Option<u64>,
}

/// How often something happened.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct CountRow {
    /// The name of the counter in this layout.
    #[schemars(schema_with = "counter_ids")]
    pub counter: &'static str,
    /// The name that the source prints for it.
    pub printed: &'static str,
    /// How often it happened in the interval, or since the start.
    pub count: u64,
    /// How often it happened per second; absent where the length of the interval is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub per_s: Option<f64>,
    /// What it counts, in words.
    #[serde(skip)]
    pub what: &'static str,
}

/// A figure that an advice rests on.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct CountFactRow {
    /// What the value is of, in words.
    pub what: String,
    /// The value, in `unit`.
    pub value: f64,
    /// The unit of `value`: `per_s`, `share` (0 to 1) or `count`.
    pub unit: &'static str,
    /// How much, for a person.
    pub text: String,
}

/// An advice.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct CountsAdviceRow {
    /// Its number, from 1 on.
    pub number: usize,
    /// The id of the rule that advises it.
    #[schemars(schema_with = "rule_ids")]
    pub rule: &'static str,
    /// The row of `counts` that it is based on, from 1 on.
    pub of: usize,
    /// The change as a short imperative, without its conditions.
    pub title: &'static str,
    /// The change, in a sentence.
    pub change: String,
    /// What to set or to do, in the order in which to think of it.
    pub settings: Vec<AdviceSettingRow>,
    /// What is known of the gain, in words: counts have no times, so it has no figure.
    pub gain: &'static str,
    /// The figures that it rests on.
    pub evidence: Vec<CountFactRow>,
    /// When the change takes effect.
    pub takes_effect: &'static str,
    /// What can go wrong with the change.
    pub risk: &'static str,
    /// Who has a disadvantage from the change.
    pub who_pays: &'static str,
    /// How to undo the change.
    pub undo: &'static str,
}

/// Something that happens often, and is left as it is.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct AcceptedCountRow {
    /// The row of `counts` that it is based on, from 1 on.
    pub of: usize,
    /// The figure that shows how often.
    pub fact: CountFactRow,
    /// Why no change is advised.
    pub why: &'static str,
}

/// What is not judged.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct CountNotJudgedRow {
    /// The rows of `counts` for which that is so, from 1 on.
    pub of: Vec<usize>,
    /// What is not judged.
    pub what: &'static str,
    /// Why it is not judged, and what would show it.
    pub why: &'static str,
}

/// Counts of yields before and after a change. Nothing says how much the rates differ from one interval to the next anyway, so no
/// change is judged.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct CountsComparison {
    /// Name and version of this layout. Fields may be added within a version; none changes its meaning.
    pub schema: &'static str,
    /// The files of both sides.
    pub files: SidesRow<Vec<String>>,
    /// What of them was not used, and why.
    pub coverage: SidesRow<Vec<CoverageLine>>,
    /// The systems that are on both sides.
    pub systems: Vec<SystemChangeRow>,
    /// The systems that are not compared.
    pub not_compared: Vec<NotComparedRow>,
    /// The tables of exits that are on both sides.
    pub tables: Vec<ExitTableComparison>,
    /// The tools of tables that are on one side alone.
    #[schemars(schema_with = "tool_ids")]
    pub tables_not_compared: Vec<&'static str>,
    /// Runs of kvm-unit-tests' vmexit on both sides, the first with the first.
    pub operations: Vec<OperationComparison>,
    /// How many of these runs are on one side alone.
    pub operations_not_compared: usize,
}

/// A system on both sides.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct SystemChangeRow {
    /// The source, as in `CountsRow`: `fcx102`, `kvm_stats` or `diag_stat`.
    #[schemars(schema_with = "source_ids")]
    pub source: &'static str,
    /// The system, as in `CountsRow`; absent if the text does not name it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system: Option<String>,
    /// The counts that are compared, before and after.
    pub sides: SidesRow<ComparedRow>,
    /// The counters that both sides have.
    pub changes: Vec<CountChangeRow>,
}

/// What is compared of a side.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ComparedRow {
    /// Number of intervals of this system on this side.
    pub intervals: usize,
    /// Whether these intervals overlap: then only the longest is compared; otherwise they are added up.
    pub longest_alone: bool,
    /// The counts that are compared.
    pub counts: CountsRow,
}

/// A counter on both sides.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct CountChangeRow {
    /// The name of the counter in this layout.
    #[schemars(schema_with = "counter_ids")]
    pub counter: &'static str,
    /// Rate per second before the change.
    pub before_per_s: f64,
    /// Rate per second after the change.
    pub after_per_s: f64,
    /// The rate after less that before, as a share of that before; absent where that is zero.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub change: Option<f64>,
    /// What it counts, in words.
    #[serde(skip)]
    pub what: &'static str,
}

/// A system that is not compared.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct NotComparedRow {
    /// The source, as in `CountsRow`: `fcx102`, `kvm_stats` or `diag_stat`.
    #[schemars(schema_with = "source_ids")]
    pub source: &'static str,
    /// The system, as in `CountsRow`; absent if the text does not name it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system: Option<String>,
    /// Why it is not compared.
    pub why: &'static str,
}

impl CountsReport {
    /// The name and version of the layout.
    pub const SCHEMA: &'static str = "exitscope.counts/1";

    /// Counts out of these files, and what rules say of them.
    pub fn of(texts: &CountedTexts) -> CountsReport {
        let CountedTexts { files, counts, tables, operations, ledger } = texts;
        let judgement = judge_counts(counts);
        let advice = judgement.advice.iter().enumerate().map(|(at, advice)| CountsAdviceRow::of(at + 1, advice));
        let accepted = judgement.left_alone.iter().map(|(of, fact, why)| AcceptedCountRow {
            of: of + 1,
            fact: CountFactRow::of(fact),
            why,
        });
        let mut not_judged: Vec<CountNotJudgedRow> = Vec::new();
        for &(of, what, why) in &judgement.not_judged {
            match not_judged.iter_mut().find(|row| (row.what, row.why) == (what, why)) {
                Some(row) => row.of.push(of + 1),
                None => not_judged.push(CountNotJudgedRow { of: vec![of + 1], what, why }),
            }
        }
        CountsReport {
            schema: CountsReport::SCHEMA,
            files: files.clone(),
            coverage: Coverage::of(ledger, 0, 0).lines,
            tables: tables.iter().map(ExitTableReport::of).collect(),
            operations: operations.iter().map(OperationCostsReport::of).collect(),
            counts: counts.iter().map(CountsRow::of).collect(),
            advice: advice.collect(),
            accepted: accepted.collect(),
            not_judged,
        }
    }
}

impl CountsRow {
    fn of(counts: &YieldCounts) -> CountsRow {
        CountsRow {
            source: counts.source.id(),
            system: named(&counts.system),
            interval: named(&counts.interval),
            span_ns: counts.span.map(|span| span.0),
            since_start: counts.is_since_start,
            counts: counts.counts.iter().map(|count| CountRow::of(counts.source, count)).collect(),
            missing: counts.missing().filter_map(|row| row.printed.first().copied()).collect(),
            fast_share: counts.fast_share(),
            named_share: counts.named_share(),
            ignored_share: counts.ignored_share(),
            spin_retry: counts.spin_retry,
        }
    }
}

/// A name, unless it is empty.
fn named(name: &str) -> Option<String> {
    Some(name.to_string()).filter(|name| !name.is_empty())
}

impl CountRow {
    fn of(source: CountSource, count: &YieldCount) -> CountRow {
        let row = counters_of(source).find(|row| row.counter == count.counter);
        CountRow {
            counter: count.counter.id(),
            printed: row.and_then(|row| row.printed.first()).copied().unwrap_or_default(),
            count: count.count,
            per_s: count.per_s,
            what: count.counter.prose(),
        }
    }
}

impl CountFactRow {
    fn of((what, value): &CountedFact) -> CountFactRow {
        let (value, unit, text) = figure(*value);
        CountFactRow { what: what.to_string(), value, unit, text }
    }
}

impl CountsAdviceRow {
    fn of(number: usize, advice: &CountedAdvice) -> CountsAdviceRow {
        CountsAdviceRow {
            number,
            rule: advice.rule.id(),
            of: advice.of + 1,
            title: advice.title,
            change: advice.change.to_string(),
            settings: advice.settings.iter().map(AdviceSettingRow::of).collect(),
            gain: advice.gain,
            evidence: advice.evidence.iter().map(CountFactRow::of).collect(),
            takes_effect: advice.acts,
            risk: advice.risk,
            who_pays: advice.payer,
            undo: advice.undo,
        }
    }
}

impl CountsComparison {
    /// The name and version of the layout.
    pub const SCHEMA: &'static str = "exitscope.counts_diff/1";

    /// Both sides, compared.
    pub fn of(before: &CountedTexts, after: &CountedTexts) -> CountsComparison {
        let (changes, others) = compare_counts(&before.counts, &after.counts);
        let (tables, tables_not_compared) = ExitTableComparison::of(&before.tables, &after.tables);
        let (operations, operations_not_compared) = OperationComparison::of(&before.operations, &after.operations);
        let lines = |texts: &CountedTexts| Coverage::of(&texts.ledger, 0, 0).lines;
        let not_compared = others.iter().map(|(source, system, why)| NotComparedRow {
            source: source.id(),
            system: named(system),
            why: why_not(*why),
        });
        CountsComparison {
            schema: CountsComparison::SCHEMA,
            files: SidesRow { before: before.files.clone(), after: after.files.clone() },
            coverage: SidesRow { before: lines(before), after: lines(after) },
            systems: changes.iter().map(SystemChangeRow::of).collect(),
            not_compared: not_compared.collect(),
            tables,
            tables_not_compared,
            operations,
            operations_not_compared,
        }
    }
}

fn why_not(why: CountsNotCompared) -> &'static str {
    match why {
        CountsNotCompared::OneSide => "it is on one side alone",
        CountsNotCompared::NoRate => {
            "a side has no rate: a single reading counts since some start, and two need the time before each (docs/counts.md)"
        }
        CountsNotCompared::NoLengths => "a side has several screens that do not show how long their intervals are",
    }
}

impl SystemChangeRow {
    fn of(change: &CountedChange) -> SystemChangeRow {
        let [before, after] = &change.sides;
        let compared = |side: &CountedSide| ComparedRow {
            intervals: side.intervals,
            longest_alone: side.is_longest_alone,
            counts: CountsRow::of(&side.counts),
        };
        let row = |count: &YieldCount| {
            let (old, new) = (count.per_s?, after.counts.get(count.counter)?.per_s?);
            Some(CountChangeRow {
                counter: count.counter.id(),
                before_per_s: old,
                after_per_s: new,
                change: (old > 0.0).then(|| (new - old) / old),
                what: count.counter.prose(),
            })
        };
        SystemChangeRow {
            source: change.source.id(),
            system: named(&change.system),
            changes: before.counts.counts.iter().filter_map(row).collect(),
            sides: SidesRow { before: compared(before), after: compared(after) },
        }
    }
}

fn source_ids(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "enum": CountSource::ALL.map(CountSource::id) })
}

fn tool_ids(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "array", "items": { "type": "string", "enum": ExitTableSource::ALL.map(ExitTableSource::id) } })
}

fn counter_ids(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "enum": YieldCounter::ALL.iter().map(|of| of.id()).collect::<Vec<_>>() })
}

fn rule_ids(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "enum": CountedRule::ALL.map(CountedRule::id) })
}
