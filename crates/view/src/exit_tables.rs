//! Tables of exits that other tools made, as plain data: their rows, what they come to, and what changed.

use crate::sides::SidesRow;
use exitscope_advice::{ExitTableJudgement, UnknownReasons, judge_exit_table};
use exitscope_analysis::{ExitTablePair, pair_exit_tables};
use exitscope_model::{ExitTable, ExitTableRow, ExitTableSource};
use exitscope_units::Nanos;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Serialize;

/// A table of exits.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ExitTableReport {
    /// The tool that printed it.
    #[schemars(schema_with = "source_ids")]
    pub source: &'static str,
    /// Whose exits, in the tool's words; absent if the text does not say it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub of: Option<String>,
    /// All exits; absent where nothing says how many.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exits: Option<u64>,
    /// How long all rows took, by the tool's own sum, in nanoseconds; absent where it has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_ns: Option<u64>,
    /// How long was counted, in nanoseconds; absent where nothing says it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub span_ns: Option<u64>,
    /// Events that the tool lost, at least; absent where it does not say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lost: Option<u64>,
    /// The rows, the costliest first, or where nothing has a time, the most frequent.
    pub rows: Vec<TableRow>,
    /// The reason that costs most beside halts, or comes most often where nothing has a time; absent where no row is a reason.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub costliest: Option<CostliestRow>,
    /// Part of the exits, 0 to 1, or where the table has times, of their time, that no row of the text is of; absent if that is little, or
    /// nothing says how many there are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_in_rows: Option<f64>,
    /// Part of the time between exits and entries that are halts, 0 to 1; absent where the table has no times, or no halts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub halted: Option<f64>,
    /// Part of the vCPUs' time, 0 to 1, that exits but halts take at most; absent where the table does not show it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exits_at_most: Option<f64>,
    /// A reason among whose exits are halts that no reason of their own tells apart; absent if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub halts_within: Option<HaltsWithinRow>,
    /// How many exits went on in user space: the events `kvm_userspace_exit`, or about half of the events `kvm_fpu`; absent where neither
    /// was counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_exits: Option<u64>,
    /// Whether `user_exits` were counted themselves, and are not half of the events `kvm_fpu`; absent with it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_exits_exact: Option<bool>,
    /// Reasons that the tool did not know: `software` if they are of a back end in software, `numbered` if the
    /// tool has numbers alone, `unnamed` otherwise; absent if there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "unknown_ids")]
    pub unknown_reasons: Option<&'static str>,
    /// What the table does not tell.
    pub not_recorded: Vec<&'static str>,
    /// What to record next, and what it would tell.
    pub next: NextRow,
    /// What halts are called in it, for a person.
    #[serde(skip)]
    pub halts: Vec<String>,
}

/// A row of a table of exits.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct TableRow {
    /// `kvm_exit`, another tracepoint, or what the tool's table is headed by.
    pub event: String,
    /// The reason of the exits, or what the accesses were to; absent of all of an event's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// How many.
    pub count: u64,
    /// How many a second, as the tool printed it; absent where it did not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub per_s: Option<f64>,
    /// How long all of them took, in nanoseconds: at least, and at most, as the tool prints few digits; absent where it has no time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_ns: Option<[u64; 2]>,
    /// The longest, in nanoseconds; absent where the tool does not say it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub longest_ns: Option<u64>,
    /// Whether guests halt with it.
    pub halt: bool,
}

/// The costliest reason of a table.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct CostliestRow {
    /// Its name in the table.
    pub reason: String,
    /// How many exits.
    pub count: u64,
    /// How many a second; absent where the tool did not print it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub per_s: Option<f64>,
    /// Part of the time of all exits but halts, 0 to 1; where `time_ns` is absent, part of all exits.
    pub part: f64,
    /// Whether nothing says if rows are missing: then `part` is of the rows in the text, and a reason that has none there may come first.
    pub of_rows_alone: bool,
    /// How long they took, in nanoseconds; absent where the table has no times.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_ns: Option<u64>,
    /// The longest, in nanoseconds; absent where the tool does not say it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub longest_ns: Option<u64>,
}

/// Halts that are among the exits of another reason.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct HaltsWithinRow {
    /// The reason's name in the table.
    pub reason: String,
    /// By what guests halt.
    pub by: &'static str,
}

/// What to record next.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct NextRow {
    /// The command.
    pub command: &'static str,
    /// What it would tell.
    pub tells: &'static str,
}

/// A table of exits on both sides. Nothing says how much runs differ anyway, so no change is judged.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ExitTableComparison {
    /// The tool that printed them.
    #[schemars(schema_with = "source_ids")]
    pub source: &'static str,
    /// Whose exits, on each side; empty if the text does not say it.
    pub of: SidesRow<String>,
    /// The rows of both sides, or of one.
    pub rows: Vec<TableChangeRow>,
}

/// A row on both sides, or on one.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct TableChangeRow {
    /// `kvm_exit`, another tracepoint, or what the tool's table is headed by.
    pub event: String,
    /// The reason of the exits, or what the accesses were to; absent of all of an event's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Before; absent if the row is not there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<TableRow>,
    /// After; absent if the row is not there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<TableRow>,
}

impl ExitTableReport {
    /// A table, and what it comes to.
    pub fn of(table: &ExitTable) -> ExitTableReport {
        let ExitTableJudgement {
            costliest,
            halted,
            exits_at_most,
            halts_within,
            user_exits,
            unknown,
            not_in_rows,
            next,
            not_recorded,
        } = judge_exit_table(table);
        let (halted, halts) = halted.map_or((None, Vec::new()), |(part, names)| (Some(part), names));
        let mut rows: Vec<&ExitTableRow> = table.rows.iter().collect();
        rows.sort_by_key(|row| std::cmp::Reverse((row.middle(), row.count)));
        ExitTableReport {
            source: table.source.id(),
            of: Some(table.of.clone()).filter(|of| !of.is_empty()),
            exits: table.exits(),
            time_ns: table.time.map(|time| time.0),
            span_ns: table.span.map(|span| span.0),
            lost: table.lost,
            rows: rows.into_iter().map(TableRow::of).collect(),
            costliest: costliest.map(|of| CostliestRow {
                reason: of.name,
                count: of.count,
                per_s: of.per_s,
                part: of.part,
                of_rows_alone: !of.is_of_whole,
                time_ns: of.time.map(|time| time.0),
                longest_ns: of.longest.map(|longest| longest.0),
            }),
            not_in_rows,
            halted,
            exits_at_most,
            halts_within: halts_within.map(|(reason, by)| HaltsWithinRow { reason, by }),
            user_exits: user_exits.map(|of| of.count),
            user_exits_exact: user_exits.map(|of| of.is_exact),
            unknown_reasons: unknown.map(unknown_id),
            not_recorded,
            next: NextRow { command: next.command, tells: next.tells },
            halts,
        }
    }

    /// What the tool is called.
    pub fn tool(&self) -> &'static str {
        tool(self.source)
    }
}

/// What the tool of this id is called.
pub(crate) fn tool(id: &str) -> &'static str {
    ExitTableSource::ALL.into_iter().find(|source| source.id() == id).map_or("", ExitTableSource::name)
}

impl TableRow {
    fn of(row: &ExitTableRow) -> TableRow {
        TableRow {
            event: row.event.clone(),
            key: row.key.clone(),
            count: row.count,
            per_s: row.per_s,
            time_ns: row.time.map(|time| time.map(|nanos| nanos.0)),
            longest_ns: row.longest.map(|longest| longest.0),
            halt: row.is_halt(),
        }
    }

    /// How long one took on average; `None` where nothing has a time.
    pub fn mean(&self) -> Option<Nanos> {
        self.middle().map(|time| Nanos(time.0 / self.count.max(1)))
    }

    /// The middle of what all of them took.
    pub fn middle(&self) -> Option<Nanos> {
        self.time_ns.map(|[least, most]| Nanos(least + most.saturating_sub(least) / 2))
    }
}

impl ExitTableComparison {
    /// The tables of both sides; and those that are on one alone.
    pub fn of(before: &[ExitTable], after: &[ExitTable]) -> (Vec<ExitTableComparison>, Vec<&'static str>) {
        let (pairs, alone) = pair_exit_tables(before, after);
        let pair = |pair: &ExitTablePair<'_>| {
            let rows = pair.rows.iter().filter_map(|[before, after]| {
                let of = (*before).or(*after)?;
                Some(TableChangeRow {
                    event: of.event.clone(),
                    key: of.key.clone(),
                    before: before.map(TableRow::of),
                    after: after.map(TableRow::of),
                })
            });
            ExitTableComparison {
                source: pair.sides[0].source.id(),
                of: SidesRow { before: pair.sides[0].of.clone(), after: pair.sides[1].of.clone() },
                rows: rows.collect(),
            }
        };
        (pairs.iter().map(pair).collect(), alone.iter().map(|table| table.source.id()).collect())
    }
}

fn unknown_id(unknown: UnknownReasons) -> &'static str {
    match unknown {
        UnknownReasons::Numbered => "numbered",
        UnknownReasons::Software => "software",
        UnknownReasons::Unnamed => "unnamed",
    }
}

fn unknown_ids(_: &mut SchemaGenerator) -> Schema {
    let ids = [UnknownReasons::Software, UnknownReasons::Unnamed, UnknownReasons::Numbered].map(unknown_id);
    json_schema!({ "type": "string", "enum": ids })
}

fn source_ids(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "enum": ExitTableSource::ALL.map(ExitTableSource::id) })
}
