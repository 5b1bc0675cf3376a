//! Tables of exits before and after a change: the rows of both sides.
//!
//! ```text
//! tables of a side ─► by tool and by what rows are of, in the order of the text ─► pairs ─► rows of both, or of one
//! ```

use exitscope_model::{ExitTable, ExitTableRow};

/// A table on both sides.
#[derive(Clone, Debug, PartialEq)]
pub struct ExitTablePair<'a> {
    /// Before, and after.
    pub sides: [&'a ExitTable; 2],
    /// Their rows, those of before in its order first.
    pub rows: Vec<[Option<&'a ExitTableRow>; 2]>,
}

/// Pairs the tables of both sides: the first of a tool and of an event with the first of the same there. What has no partner is
/// left over.
pub fn pair_exit_tables<'a>(
    before: &'a [ExitTable],
    after: &'a [ExitTable],
) -> (Vec<ExitTablePair<'a>>, Vec<&'a ExitTable>) {
    let mut left: Vec<&ExitTable> = after.iter().collect();
    let (mut pairs, mut alone) = (Vec::new(), Vec::new());
    for table in before {
        match left.iter().position(|later| is_like(table, later)).map(|at| left.remove(at)) {
            Some(later) => pairs.push(ExitTablePair { sides: [table, later], rows: rows(table, later) }),
            None => alone.push(table),
        }
    }
    alone.extend(left);
    (pairs, alone)
}

/// Whether both are of the same tool, and rows of the same kind of thing.
fn is_like(table: &ExitTable, other: &ExitTable) -> bool {
    let event = |table: &ExitTable| table.rows.first().map(|row| (row.event.clone(), row.key.is_some()));
    let is_of_events = |table: &ExitTable| table.rows.iter().any(|row| row.key.is_none());
    table.source == other.source && (event(table) == event(other) || is_of_events(table) && is_of_events(other))
}

fn rows<'a>(before: &'a ExitTable, after: &'a ExitTable) -> Vec<[Option<&'a ExitTableRow>; 2]> {
    let same = |row: &ExitTableRow, table: &'a ExitTable| {
        table.rows.iter().find(|other| (&other.event, &other.key) == (&row.event, &row.key))
    };
    let of_before = before.rows.iter().map(|row| [Some(row), same(row, after)]);
    let of_after = after.rows.iter().filter(|row| same(row, before).is_none()).map(|row| [None, Some(row)]);
    of_before.chain(of_after).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use exitscope_model::{EXIT_EVENT, ExitTableSource};

    fn table(source: ExitTableSource, reasons: &[&str]) -> ExitTable {
        let row = |name: &&str| ExitTableRow {
            event: EXIT_EVENT.into(),
            key: Some(name.to_string()),
            ..ExitTableRow::default()
        };
        ExitTable { rows: reasons.iter().map(row).collect(), ..ExitTable::new(source) }
    }

    #[test]
    fn tables_of_one_tool_are_paired_and_rows_of_one_side_stay() {
        use ExitTableSource::{Kvmexit, PerfKvmStat};
        let before = [table(PerfKvmStat, &["HLT", "MSR_WRITE"]), table(Kvmexit, &["HLT"])];
        let after = [table(PerfKvmStat, &["MSR_WRITE", "CPUID"])];
        let (pairs, alone) = pair_exit_tables(&before, &after);
        let names = |row: &[Option<&ExitTableRow>; 2]| row.map(|row| row.and_then(|row| row.key.clone()));
        let [msr, hlt, cpuid] = ["MSR_WRITE", "HLT", "CPUID"].map(|name| Some(name.to_string()));
        let expected = [[hlt, None], [msr.clone(), msr], [None, cpuid]];
        assert_eq!(pairs.len(), 1);
        assert_eq!(pairs[0].rows.iter().map(names).collect::<Vec<_>>(), expected);
        assert_eq!(alone, [&before[1]]);
    }
}
