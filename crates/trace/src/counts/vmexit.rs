//! What kvm-unit-tests' x86/vmexit prints: an operation and its cycles a line.
//!
//! ```text
//! enabling apic
//! paging enabled
//! cpuid 331239                       "%s %d\n" of `do_test`, x86/vmexit.c
//! tscdeadline (skipped)
//!   ipi self_ipi_sti_nop 3120        a part of the operation above
//! mmio-no-eventfd:pci-mem 12044      of pci-testdev, which names its tests
//! ```

use super::exit_tables::{number, words};
use exitscope_model::{Ledger, LedgerLine, OperationCost, OperationCosts, timed_operation};

/// Rows of a run at most, and runs of a text. The test has some fifty.
const MOST_ROWS: usize = 256;
const MOST_RUNS: usize = 256;

/// What a line is.
#[derive(Debug, PartialEq)]
enum Row<'a> {
    /// An operation, or a part of one, and its cycles.
    Cost(String, u64),
    /// An operation that the machine cannot do, or whose cycles are no number that the test could have printed.
    NoCost,
    /// A line that the tests print before they begin, or that starts this one.
    Around(&'a str),
}

fn row<'a>(words: &[&'a str]) -> Option<Row<'a>> {
    let is_known = |name: &str| timed_operation(name).is_some();
    match *words {
        [name, "(skipped)"] if is_known(name) => Some(Row::NoCost),
        [name, cycles] if is_known(name) => match number(cycles) {
            // `%d`: larger ones are printed as negative numbers.
            Some(cycles) => Some(Row::Cost(name.to_string(), cycles)),
            None => cycles.strip_prefix('-').and_then(number).map(|_| Row::NoCost),
        },
        [part @ ("ipi" | "eoi"), name, cycles] if is_known(name) => {
            Some(Row::Cost(format!("{part} {name}"), number(cycles)?))
        }
        ["enabling", "apic"] | ["paging", "enabled"] => Some(Row::Around(words[1])),
        _ => words
            .iter()
            .find(|word| word.contains("vmexit.flat") || word.starts_with("TESTNAME=vmexit"))
            .map(|word| Row::Around(word)),
    }
}

/// How much lines show that they are of this test: names such as `cpuid` may stand before a number elsewhere.
#[derive(Debug, Default)]
struct Signs {
    rows: usize,
    is_sure: bool,
}

impl Signs {
    fn add(&mut self, row: &Row<'_>) {
        match row {
            Row::Cost(name, _) => {
                self.rows += 1;
                self.is_sure |= name.contains(['_', '-', '+']);
            }
            Row::Around(_) => self.is_sure = true,
            Row::NoCost => {}
        }
    }

    /// Whether there is a run.
    fn are_of_one(&self) -> bool {
        self.rows > 1 || self.rows == 1 && self.is_sure
    }
}

/// Whether a text that begins with `head` has a run.
pub(super) fn looks_like(head: &[u8]) -> bool {
    let mut signs = Signs::default();
    for line in head.split(|&byte| byte == b'\n') {
        let line = String::from_utf8_lossy(line);
        row(&words(&line)).iter().for_each(|row| signs.add(row));
    }
    signs.are_of_one()
}

/// Runs as they are met.
#[derive(Debug, Default)]
pub(super) struct VmexitRuns {
    runs: Vec<OperationCosts>,
    signs: Signs,
    not_kept: u64,
}

impl VmexitRuns {
    /// Looks at a line, of which the end may be missing; whether it was one of a run.
    pub fn line(&mut self, line: &str, may_be_cut: bool, at: u64, ledger: &mut Ledger) -> bool {
        let words = words(line);
        let Some(row) = row(&words) else { return false };
        if may_be_cut && !matches!(row, Row::Around(_)) {
            ledger.count_at(LedgerLine::TruncatedBytes, at);
            return true;
        }
        self.signs.add(&row);
        match row {
            Row::Cost(name, cycles) => self.push(OperationCost { name, cycles }),
            Row::NoCost if !words.contains(&"(skipped)") => ledger.count_at(LedgerLine::BadText, at),
            Row::NoCost | Row::Around(_) => {}
        }
        true
    }

    /// A run has each operation once, or for pci-testdev each of its tests.
    fn push(&mut self, cost: OperationCost) {
        let is_known = self.runs.last().is_some_and(|run| run.rows.iter().any(|row| row.name == cost.name));
        if self.runs.is_empty() || is_known {
            if self.runs.len() >= MOST_RUNS {
                self.not_kept += 1;
                return;
            }
            self.runs.push(OperationCosts::default());
        }
        match self.runs.last_mut().filter(|run| run.rows.len() < MOST_ROWS) {
            Some(run) => run.rows.push(cost),
            None => self.not_kept += 1,
        }
    }

    /// The runs, if there are any.
    pub fn end(self, ledger: &mut Ledger) -> Vec<OperationCosts> {
        if !self.signs.are_of_one() {
            return Vec::new();
        }
        ledger.add(LedgerLine::BadText, self.not_kept);
        self.runs
    }
}
