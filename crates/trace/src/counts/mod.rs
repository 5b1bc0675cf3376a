//! What others counted, as text: yields on screens of z/VM's Performance Toolkit and in the counters of KVM and of Linux on s390, and
//! exits in tables of other tools; and what operations took that a test timed.
//!
//! ```text
//! lines ─► which source: a heading, or how a counter is printed ─┬─► exit_tables.rs: perf kvm stat, kvm_stat, … (table_rows.rs)
//!                                                                ├─► vmexit.rs:      kvm-unit-tests' vmexit, cycles an operation
//!                                                                ├─► screens.rs:     FCX102, by system and interval
//!                                                                └─► readings.rs:    differences of two readings
//! bytes ─► query_stats.rs: answers of QEMU's machine protocol, of which a line may have any length
//! ```
//!
//! There are no events in it: it is no [`EventSource`](crate::EventSource), and nothing makes exits of it.

mod exit_tables;
mod query_stats;
mod readings;
mod screens;
mod table_rows;
mod vmexit;

use crate::source::{HEAD, MAX_SECTION, is_trace};
use crate::text::{self, Lines, NextLine};
use crate::{Input, TraceError};
use exit_tables::ExitTables;
use exitscope_model::{ExitTable, Ledger, LedgerLine, OperationCosts, YieldCounts};
use query_stats::StatsAnswers;
use readings::Readings;
use screens::Screens;
use vmexit::VmexitRuns;

/// What a text has counted, and what of it was not used.
#[derive(Debug, Default)]
pub struct CountedText {
    /// By system and interval, in the order of the text.
    pub counts: Vec<YieldCounts>,
    /// Tables of exits, in the order of the text.
    pub tables: Vec<ExitTable>,
    /// What operations took in runs of kvm-unit-tests' vmexit, in the order of the text.
    pub operations: Vec<OperationCosts>,
    /// What was not used, and why.
    pub ledger: Ledger,
}

/// Whether a text that begins with `head` is one of counts. One line of a trace alone, as a manual has it, is none.
pub fn looks_like(head: &[u8]) -> bool {
    let mut events = 0;
    let is_of_lines = head.split(|&byte| byte == b'\n').any(|line| {
        let line = String::from_utf8_lossy(line);
        events += u32::from(exit_tables::is_event(&line));
        events > 1 || exit_tables::is_of_one(&line) || screens::is_of_one(&line) || readings::is_of_one(&line)
    });
    is_of_lines || vmexit::looks_like(head) || query_stats::looks_like(head)
}

/// Bytes in which a text of counts has one, at least: other counters and screens may come before.
const BEGINNING: usize = 64 << 10;

/// Whether an input is a text of counts, and no trace; or a short text of a trace's lines that name no thread, or have no time.
pub fn is_counts(input: &Input) -> Result<bool, TraceError> {
    let mut head = vec![0; BEGINNING];
    let got = input.read_up_to(0, &mut head)?;
    let (first, head) = (&head[..got.min(HEAD)], &head[..got]);
    let is_short_text = got < BEGINNING && text::looks_like(first);
    match is_trace(first) {
        false => Ok(looks_like(head)),
        true => Ok(is_short_text && looks_like(head) && text::lacks_columns(input)?),
    }
}

/// Reads one.
pub fn read(input: &Input) -> Result<CountedText, TraceError> {
    if input.len() > MAX_SECTION {
        let what = format!("counts as text of more than {} MiB", MAX_SECTION >> 20);
        return Err(TraceError::Unsupported { name: input.name().to_string(), what });
    }
    let (mut screens, mut readings, mut ledger) = (Screens::default(), Readings::default(), Ledger::default());
    let (mut tables, mut runs, answers) = (ExitTables::default(), VmexitRuns::default(), answers(input)?);
    let mut lines = Lines::new(input.try_clone()?);
    loop {
        let at = lines.number + 1;
        let before = lines.unended;
        match lines.next_line()? {
            NextLine::End => break,
            NextLine::TooLong if answers.has_line(at) => {}
            NextLine::TooLong => ledger.count_at(LedgerLine::BadText, at),
            NextLine::Line(line) => {
                let line = String::from_utf8_lossy(line).into_owned();
                // A last line without an end may be cut within a number.
                let may_be_cut = lines.unended > before;
                if tables.line(&line, may_be_cut, at, &mut ledger) || runs.line(&line, may_be_cut, at, &mut ledger) {
                    continue;
                }
                if may_be_cut && (screens::has_figure(&line) || readings::is_of_one(&line)) {
                    ledger.add_at(LedgerLine::TruncatedBytes, lines.unended, at);
                } else if !readings.line(&line, at, &mut ledger) {
                    screens.line(&line, at, &mut ledger);
                }
            }
        }
    }
    if input.truncation().is_some() {
        ledger.count_at(LedgerLine::BadCompression, lines.number);
    }
    let mut counts = screens.end();
    counts.extend(readings.end(&mut ledger));
    let (mut tables, operations) = (tables.end(&mut ledger), runs.end(&mut ledger));
    tables.extend(answers.end(&mut ledger));
    match counts.is_empty() && tables.is_empty() && operations.is_empty() {
        true => Err(TraceError::NoCounts { name: input.name().to_string() }),
        false => Ok(CountedText { counts, tables, operations, ledger }),
    }
}

/// Answers to `query-stats` in an input. They are looked for on their own, as all vCPUs of a VM may be on one line.
fn answers(input: &Input) -> Result<StatsAnswers, TraceError> {
    let (mut answers, mut offset, mut buffer) = (StatsAnswers::default(), 0, vec![0; BEGINNING]);
    loop {
        match input.read_up_to(offset, &mut buffer)? {
            0 => return Ok(answers),
            got => {
                answers.take(&buffer[..got]);
                offset += got as u64;
            }
        }
    }
}
