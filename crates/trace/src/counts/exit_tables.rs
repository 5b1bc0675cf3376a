//! Tables of exits as tools print them and as people paste them: found by their headings, or by lines that only they have.
//!
//! ```text
//!              VM-EXIT    Samples  Samples%     Time%    Min Time    Max Time         Avg time     perf kvm stat report, live
//!  Event name              Samples   Sample%    Time (ns)     Time%   Max Time (ns)   …            the same since Linux 6.4
//!  Event                                         Total %Total CurAvg/s                             kvm_stat
//!  kvm_exit(HLT)                                  812       40                                     kvm_stat -1
//!           251,812      kvm:kvm_exit                                                              perf stat -e 'kvm:*'
//!  PID      TID      KVM_EXIT_REASON                     COUNT                                     kvmexit of BCC
//!  kvm_exit: reason HLT rip 0xffffffff81 info 0 0                                                  a trace, quoted without times
//! ```
//!
//! Layouts: `print_result` and `kvm_hists__init_output` of tools/perf/builtin-kvm.c, `refresh_body` and `batch` of
//! tools/kvm/kvm_stat/kvm_stat, `print_counter_aggr` of tools/perf/util/stat-display.c, tools/kvmexit.py of BCC. A row that a mail
//! program has wrapped goes on in the next line; quotation marks before a line are passed over.

use super::table_rows::{
    CountedMap, Counter, LONGEST_PROGRAM, LogColumns, MapLine, bucket, counted_maps, counter, log_columns, log_row,
    map_line, unit_of_map, xenalyze_row,
};
use exitscope_model::{EXIT_EVENT, ExitCode, ExitTable, ExitTableRow, ExitTableSource, Ledger, LedgerLine};
use exitscope_units::Nanos;
use std::collections::HashMap;

/// Rows of a table at most, and tables of a text. kvm_stat has some hundred.
const MOST_ROWS: usize = 4_096;
const MOST_TABLES: usize = 1_024;

/// Lines over which a row may be wrapped.
const MOST_WRAPPED: usize = 3;

/// The columns of a table of `perf kvm stat`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum PerfLayout {
    /// Shares and the mean, of the first releases.
    Mean,
    /// Shares, shortest, longest and mean.
    #[default]
    Spread,
    /// Sums in nanoseconds, since Linux 6.4.
    Sums,
}

/// What lines are taken for.
#[derive(Clone, Debug, PartialEq)]
enum Now {
    Perf {
        event: String,
        layout: PerfLayout,
    },
    KvmStat,
    /// kvm_stat's lines without a heading; how wide names are is all that tells them.
    Batch,
    PerfStat,
    Kvmexit {
        trailing: usize,
    },
    /// kvm_stat's lines of a second each: what the columns are of, and the moments of the first line and of the last.
    Log {
        columns: LogColumns,
        moments: Option<[u64; 2]>,
    },
    /// KVM's statistics of a VM.
    Counters,
    /// A program of bpftrace: the map whose lines are met, and while a histogram goes on, its reason and its unit in nanoseconds.
    Bpftrace {
        map: Option<String>,
        histogram: Option<(String, Option<u64>)>,
    },
    Xenalyze,
    TraceLines,
}

impl Now {
    /// The tool whose table such lines are.
    fn source(&self) -> ExitTableSource {
        match self {
            Now::Perf { .. } => ExitTableSource::PerfKvmStat,
            Now::KvmStat | Now::Batch | Now::Log { .. } => ExitTableSource::KvmStat,
            Now::PerfStat => ExitTableSource::PerfStat,
            Now::Kvmexit { .. } => ExitTableSource::Kvmexit,
            Now::Counters => ExitTableSource::Counters,
            Now::Bpftrace { .. } => ExitTableSource::Bpftrace,
            Now::Xenalyze => ExitTableSource::Xenalyze,
            Now::TraceLines => ExitTableSource::TraceLines,
        }
    }
}

/// Tables as they are met.
#[derive(Debug, Default)]
pub(super) struct ExitTables {
    tables: Vec<ExitTable>,
    now: Option<Now>,
    /// Whose exits the next table has.
    of: String,
    /// Lines of a row that goes on, and the first one's number.
    row: Vec<String>,
    row_at: u64,
    /// Where events and their reasons are among the table's rows.
    known: HashMap<(String, Option<String>), usize>,
    /// Whether the table whose lines are met is one beyond those that are kept.
    is_full: bool,
    /// Rows beyond those that are kept.
    not_kept: u64,
    /// A program of bpftrace, whose lines may be wrapped anywhere, and the maps in which programs count by reason.
    program: String,
    counted_maps: Vec<CountedMap>,
    /// What perf lost of the table that follows, at least.
    lost: Option<u64>,
    /// Of a log, what was counted after its first line.
    after_first: HashMap<(String, Option<String>), u64>,
}

/// Whether a line is of such a table: a heading, or a row that is no table's but one of these.
pub(super) fn is_of_one(line: &str) -> bool {
    let words = words(line);
    let is_row = batch_row(&words).is_some() || counted_event(&words).is_some() || counter(line).is_some();
    is_row || heading(&words).is_some() || of_whom(&words).is_some() || log_columns(line).is_some() || is_exit_map(line)
}

/// Whether a line is of a map of bpftrace whose keys are reasons, as no map of another program has them; or asks for one.
fn is_exit_map(line: &str) -> bool {
    let is_asked = line.contains("bpftrace") && line.contains("kvm:kvm_exit");
    is_asked || map_line(line).is_some_and(|map| map.key.iter().any(|part| is_reason(part)))
}

/// Whether exits have such a reason.
fn is_reason(key: &str) -> bool {
    ExitCode::called(key).next().is_some()
}

/// Whether a line is an event of a trace without its time or thread.
pub(super) fn is_event(line: &str) -> bool {
    trace_line(&words(line)).is_some()
}

/// The words of a line without marks of quotation and frames around it.
pub(super) fn words(line: &str) -> Vec<&str> {
    line.split(|c: char| c.is_whitespace() || c == '│')
        .filter(|word| !word.is_empty())
        .skip_while(|word| word.chars().all(|c| matches!(c, '>' | '|' | '#')))
        .collect()
}

/// Whose exits the tables that follow have: `Analyze events for all VMs, VCPU 27:`, and of xenalyze `|-- Domain 6 --|`.
fn of_whom(words: &[&str]) -> Option<String> {
    if let ["|--", "Domain", domain, "--|"] = words {
        return Some(format!("domain {domain}"));
    }
    let of = words.strip_prefix(&["Analyze", "events", "for"])?;
    Some(of.join(" ").trim_end_matches(':').to_string())
}

/// How many events perf lost at least, as it says above its table: `Processed 9281 events and lost 3 chunks!`, and where it knows the
/// events' part of all, `Processed 9281 samples and lost 12.34%!` (`perf_session__warn_about_errors` of tools/perf/util/session.c).
fn lost_by_perf(words: &[&str]) -> Option<u64> {
    match words.strip_prefix(&["Processed"])? {
        [_, "events", "and", "lost", chunks, "chunks!"] => number(chunks),
        [_, "samples", "and", "lost", part] => percent(part.strip_suffix('!')?).map(|_| 1),
        _ => None,
    }
}

/// What a heading begins.
fn heading(words: &[&str]) -> Option<Now> {
    let has = |name: &str| words.contains(&name);
    let samples = words.iter().position(|word| *word == "Samples");
    match () {
        _ if samples > Some(0) && has("Samples%") => {
            let layout = if has("Min") || has("Max") { PerfLayout::Spread } else { PerfLayout::Mean };
            Some(Now::Perf { event: event_of(&words[..samples?]), layout })
        }
        _ if samples == Some(2) && words.starts_with(&["Event", "name"]) && has("Sample%") => {
            Some(Now::Perf { event: EXIT_EVENT.to_string(), layout: PerfLayout::Sums })
        }
        _ if has("%Total") && has("CurAvg/s") && matches!(words.first(), Some(&"Event")) => Some(Now::KvmStat),
        _ if words.starts_with(&["kvm", "statistics"]) => Some(Now::KvmStat),
        _ if words.starts_with(&["Performance", "counter", "stats", "for"]) => Some(Now::PerfStat),
        _ if *words == ["Exit", "reasons:"] => Some(Now::Xenalyze),
        _ => {
            let count = words.windows(2).position(|pair| pair == ["KVM_EXIT_REASON", "COUNT"])? + 1;
            Some(Now::Kvmexit { trailing: words.len() - count - 1 })
        }
    }
}

/// How `perf kvm stat` heads a table of exits.
const OF_EXITS: &str = "VM-EXIT";

/// The event of a table of `perf kvm stat` that is headed so, where the heading's beginning may be cut.
fn event_of(heading: &[&str]) -> String {
    let heading = heading.join(" ");
    if OF_EXITS.ends_with(&heading) { EXIT_EVENT.to_string() } else { heading }
}

/// A whole number, whatever divides its thousands.
pub(super) fn number(word: &str) -> Option<u64> {
    let digits: String = word.chars().filter(|c| !matches!(c, ',' | '.' | '\'' | '\u{202f}' | '\u{a0}')).collect();
    let is_plain = word.starts_with(|c: char| c.is_ascii_digit()) && digits.bytes().all(|byte| byte.is_ascii_digit());
    let groups = || word.split([',', '.', '\'', '\u{202f}', '\u{a0}']).skip(1).all(|group| group.len() == 3);
    (is_plain && (digits.len() == word.len() || groups())).then(|| digits.parse().ok())?
}

/// A decimal number, whose point may be a comma.
pub(super) fn decimal(word: &str) -> Option<f64> {
    word.replace(',', ".").parse::<f64>().ok().filter(|number| number.is_finite() && *number >= 0.0)
}

/// A share: `78.41%`.
pub(super) fn percent(word: &str) -> Option<f64> {
    decimal(word.strip_suffix('%')?)
}

/// A time of `perf kvm stat`, `12.71us`: at least and at most, as it has two digits behind the point.
fn micros(word: &str) -> Option<[f64; 2]> {
    let micros = decimal(word.strip_suffix("us")?)?;
    Some([(micros - 0.005).max(0.0) * 1e3, (micros + 0.005) * 1e3])
}

/// So many nanoseconds, `count` times.
fn nanos([least, most]: [f64; 2], count: u64) -> [Nanos; 2] {
    [Nanos((least * count as f64).floor() as u64), Nanos((most * count as f64).ceil() as u64)]
}

/// A line that kvm_stat prints for a program: a name that is an event's, and two numbers.
fn batch_row(words: &[&str]) -> Option<ExitTableRow> {
    let [name, count, per_s] = words else { return None };
    let (event, key) = event_and_key(name)?;
    let row = ExitTableRow { count: number(count)?, per_s: Some(number(per_s)? as f64), ..ExitTableRow::default() };
    name.starts_with("kvm_").then_some(ExitTableRow { event, key, ..row })
}

/// `kvm_exit(HLT)` is the event and a part of it.
pub(super) fn event_and_key(name: &str) -> Option<(String, Option<String>)> {
    let is_name =
        |name: &str| !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    match name.split_once('(') {
        Some((event, key)) => is_name(event).then(|| (event.to_string(), key.strip_suffix(')').map(str::to_string))),
        None => is_name(name).then(|| (name.to_string(), None)),
    }
}

/// A line of `perf stat` of one of KVM's tracepoints: a number, and its name.
fn counted_event(words: &[&str]) -> Option<(Option<u64>, String)> {
    let at = words.iter().position(|word| word.starts_with("kvm:") || word.starts_with("kvm_hv:"))?;
    let (event, count) = (words[at].split_once(':')?.1, &words[..at]);
    let count = match count {
        [one] => number(one)?,
        ["<not", "counted>" | "supported>"] => return Some((None, event.to_string())),
        // A space divides thousands in some languages.
        [first, rest @ ..] if !rest.is_empty() && rest.iter().all(|group| group.len() == 3) => {
            number(&[&[*first], rest].concat().concat())?
        }
        _ => return None,
    };
    Some((Some(count), event.to_string()))
}

/// An event of KVM as the kernel prints it, and of an exit its reason: `kvm_exit: reason HLT rip 0x…`, with the vCPU before it since
/// Linux 5.10 (`TRACE_EVENT_KVM_EXIT` of arch/x86/kvm/trace.h), and `kvm_exit: TRAP: HSR_EC: 0x0001 (WFx), PC: 0x…`
/// (arch/arm64/kvm/trace_arm.h).
fn trace_line(words: &[&str]) -> Option<(String, Option<String>)> {
    let (at, event) = words.iter().enumerate().find_map(|(at, word)| {
        let name = word.strip_suffix(':')?;
        let event = name.rsplit_once(':').map_or(name, |(_, event)| event);
        event.starts_with("kvm_").then_some((at, event))
    })?;
    let rest = &words[at + 1..];
    let first = *rest.first()?;
    let is_of_kernel = match event {
        "kvm_entry" => first.starts_with("vcpu") || first.starts_with("PC:"),
        "kvm_pio" => first.starts_with("pio_"),
        "kvm_msr" => first.starts_with("msr_"),
        "kvm_mmio" => first == "mmio",
        "kvm_cpuid" => first == "func",
        "kvm_hypercall" => first == "nr",
        EXIT_EVENT => return Some((event.to_string(), Some(exit_reason(rest)?))),
        _ => false,
    };
    is_of_kernel.then(|| (event.to_string(), None))
}

/// The reason of an exit of which these are the words behind its event.
fn exit_reason(rest: &[&str]) -> Option<String> {
    if let Some(of_x86) = rest.iter().take(4).position(|word| *word == "reason") {
        let words = rest[of_x86 + 1..].iter().take_while(|word| !matches!(**word, "rip" | "info" | "info1"));
        return Some(words.copied().collect::<Vec<_>>().join(" ")).filter(|name| !name.is_empty());
    }
    let (exit, class) =
        (rest.first()?.strip_suffix(':')?, rest.iter().position(|word| *word == "HSR_EC:" || *word == "ESR_EC:")?);
    match exit {
        "TRAP" => Some(rest.get(class + 2)?.trim_end_matches(',').strip_prefix('(')?.strip_suffix(')')?.to_string()),
        _ => Some(exit.to_string()),
    }
}

impl ExitTables {
    /// Looks at a line, of which the end may be missing; whether it was one of a table.
    pub fn line(&mut self, line: &str, may_be_cut: bool, at: u64, ledger: &mut Ledger) -> bool {
        let words = words(line);
        if let Some(of) = of_whom(&words) {
            self.flush(ledger);
            (self.of, self.now) = (of, None);
            return true;
        }
        if let Some(lost) = lost_by_perf(&words) {
            self.lost = Some(lost);
            return true;
        }
        if let Some(now) = heading(&words) {
            self.flush(ledger);
            self.begin(now, &words);
            return true;
        }
        if let Some(columns) = log_columns(line) {
            self.flush(ledger);
            // The head comes again every 20 lines.
            if !matches!(&self.now, Some(Now::Log { columns: known, .. }) if *known == columns) {
                self.begin(Now::Log { columns, moments: None }, &words);
            }
            return true;
        }
        // The last number may be cut, but for the times of `perf kvm stat`, whose unit follows.
        let is_of_perf = matches!(self.now, Some(Now::Perf { .. }));
        let ends_in_digit = line.trim_end().ends_with(|c: char| c.is_ascii_digit());
        let ends_in_number = words.last().is_some_and(|word| number(word).is_some()) || !is_of_perf && ends_in_digit;
        if may_be_cut && ends_in_number && (is_of_one(line) || is_event(line) || self.now.is_some()) {
            ledger.count_at(LedgerLine::TruncatedBytes, at);
            return true;
        }
        match &self.now {
            Some(Now::Perf { .. }) => self.perf_line(&words, at, ledger),
            Some(Now::KvmStat) => self.kvm_stat_line(&words),
            Some(Now::Kvmexit { trailing }) => self.kvmexit_line(&words, *trailing),
            Some(Now::PerfStat) => self.end_perf_stat(&words) || self.line_of_no_table(line, &words),
            Some(Now::Log { .. }) => self.log_line(line, at, ledger) || self.line_of_no_table(line, &words),
            Some(Now::Xenalyze) => self.xenalyze_line(&words) || self.line_of_no_table(line, &words),
            Some(Now::Bpftrace { .. }) => self.bpftrace_line(line) || self.line_of_no_table(line, &words),
            Some(Now::Batch | Now::TraceLines | Now::Counters) | None => self.line_of_no_table(line, &words),
        }
    }

    /// The tables that have a row, or say that there were no exits.
    pub fn end(mut self, ledger: &mut Ledger) -> Vec<ExitTable> {
        self.flush(ledger);
        ledger.add(LedgerLine::BadText, self.not_kept);
        self.tables.retain(|table| !table.rows.is_empty() || table.count == Some(0));
        self.tables
    }

    fn begin(&mut self, now: Now, words: &[&str]) {
        let source = now.source();
        // kvm_stat's title stands above its heading, which names the same table; and each vCPU of a domain has its reasons.
        let is_same = self.tables.last().is_some_and(|table| match source {
            ExitTableSource::KvmStat => self.now == Some(Now::KvmStat) && now == Now::KvmStat && table.rows.is_empty(),
            ExitTableSource::Xenalyze => table.source == source && table.of == self.of,
            _ => false,
        });
        let of = match &now {
            Now::PerfStat => words[4..].join(" ").trim_end_matches(':').trim_matches('\'').to_string(),
            Now::KvmStat => words.strip_prefix(&["kvm", "statistics", "-"]).unwrap_or_default().join(" "),
            Now::Log { .. } => "log".to_string(),
            _ => self.of.clone(),
        };
        self.now = Some(now);
        if !is_same {
            self.known.clear();
            self.after_first.clear();
        }
        self.is_full = !is_same && self.tables.len() >= MOST_TABLES;
        if !is_same && !self.is_full {
            let lost = self.lost.take().filter(|_| source == ExitTableSource::PerfKvmStat);
            self.tables.push(ExitTable { of, lost, ..ExitTable::new(source) });
        }
    }

    /// The table whose lines are met, if it is kept.
    fn table(&mut self) -> Option<&mut ExitTable> {
        self.tables.last_mut().filter(|_| !self.is_full)
    }

    fn push(&mut self, row: ExitTableRow) {
        let Some(table) = self.tables.last_mut().filter(|_| !self.is_full) else {
            self.not_kept += u64::from(self.is_full);
            return;
        };
        // Threads of one reason are one row.
        let is_log = matches!(self.now, Some(Now::Log { .. }));
        let adds_up = !matches!(table.source, ExitTableSource::PerfKvmStat | ExitTableSource::PerfStat)
            && (is_log || table.source != ExitTableSource::KvmStat);
        let key = (row.event.clone(), row.key.clone());
        match self.known.get(&key).copied().filter(|_| adds_up) {
            Some(at) => {
                let known = &mut table.rows[at];
                known.count = known.count.saturating_add(row.count);
                let sum = |[a, b]: [Nanos; 2], [c, d]: [Nanos; 2]| {
                    [Nanos(a.0.saturating_add(c.0)), Nanos(b.0.saturating_add(d.0))]
                };
                known.time = known.time.zip(row.time).map(|(a, b)| sum(a, b));
                known.per_s = row.per_s;
            }
            None if table.rows.len() < MOST_ROWS => {
                if adds_up {
                    self.known.insert(key, table.rows.len());
                }
                table.rows.push(row);
            }
            None => self.not_kept += 1,
        }
    }

    fn line_of_no_table(&mut self, line: &str, words: &[&str]) -> bool {
        if let Some(counter) = counter(line) {
            self.counter(counter);
            return true;
        }
        if is_exit_map(line) {
            self.program.clear();
            self.counted_maps.clear();
            self.begin(Now::Bpftrace { map: None, histogram: None }, words);
            self.bpftrace_line(line);
            return true;
        }
        if let Some((count, event)) = counted_event(words) {
            if self.now != Some(Now::PerfStat) {
                self.begin(Now::PerfStat, &["", "", "", ""]);
            }
            if let Some(count) = count {
                self.push(ExitTableRow { event, count, ..ExitTableRow::default() });
            }
            return true;
        }
        if let Some((event, key)) = trace_line(words) {
            if self.now != Some(Now::TraceLines) {
                self.begin(Now::TraceLines, words);
            }
            self.push(ExitTableRow { event, key, count: 1, ..ExitTableRow::default() });
            return true;
        }
        let Some(row) = batch_row(words) else { return false };
        if self.now != Some(Now::Batch) {
            self.begin(Now::Batch, words);
        }
        self.push(row);
        true
    }

    /// A row of `perf kvm stat`, a part of one, or the line below them.
    fn perf_line(&mut self, words: &[&str], at: u64, ledger: &mut Ledger) -> bool {
        if words.is_empty() {
            return self.flush(ledger);
        }
        let line = words.join(" ");
        if let Some(totals) = line.strip_prefix("Total Samples:") {
            self.flush(ledger);
            return self.totals(totals);
        }
        if let Some(lost) = line.strip_prefix("Lost events:") {
            if let (Some(table), Some(lost)) = (self.table(), number(lost.trim())) {
                table.lost = Some(lost);
            }
            return true;
        }
        // A line that begins a row of its own ends the one before it, which is cut.
        if !self.row.is_empty() && self.perf_row(&line, true).is_some() {
            self.flush(ledger);
        }
        if self.row.is_empty() {
            self.row_at = at;
        }
        self.row.push(line);
        let whole = self.row.join(" ");
        match self.perf_row(&whole, false) {
            Some(row) => {
                self.row.clear();
                self.push(row);
                true
            }
            None if self.perf_row(&whole, true).is_some() && self.row.len() < MOST_WRAPPED => true,
            // The rest of a heading that is wrapped, or somebody's words.
            None => self.flush(ledger),
        }
    }

    /// Takes what there is of a row as cut; whether it was one.
    fn flush(&mut self, ledger: &mut Ledger) -> bool {
        if self.row.is_empty() {
            return false;
        }
        let whole = std::mem::take(&mut self.row).join(" ");
        let row = self.perf_row(&whole, true);
        if let Some(row) = row {
            ledger.count_at(LedgerLine::BadText, self.row_at);
            self.push(row);
            return true;
        }
        false
    }

    /// A row: a name, its count, shares, and times; of one that may be cut, as much as there is.
    fn perf_row(&self, line: &str, may_be_cut: bool) -> Option<ExitTableRow> {
        let Some(Now::Perf { event, layout }) = &self.now else { return None };
        let words: Vec<&str> = line.split_whitespace().collect();
        let at = (1..words.len())
            .find(|&at| number(words[at]).is_some() && words.get(at + 1).is_some_and(|next| percent(next).is_some()))?;
        let (name, count) = (words[..at].join(" "), number(words[at])?);
        let rest = &words[at + 1..];
        // The share of samples, and that of the time, which may be cut.
        let shares: Vec<f64> = rest.iter().filter_map(|word| percent(word)).collect();
        let time_share = shares.get(1).map(|percent| percent / 100.0);
        let row = ExitTableRow { event: event.clone(), key: Some(name), count, time_share, ..ExitTableRow::default() };
        if *layout == PerfLayout::Sums {
            let numbers: Vec<u64> = rest.iter().filter_map(|word| number(word)).collect();
            return match numbers[..] {
                [sum, longest, _, _] => {
                    Some(ExitTableRow { time: Some([Nanos(sum); 2]), longest: Some(Nanos(longest)), ..row })
                }
                [sum, ..] if may_be_cut => Some(ExitTableRow { time: Some([Nanos(sum); 2]), ..row }),
                [] if may_be_cut => Some(row),
                _ => None,
            };
        }
        let times: Vec<[f64; 2]> = rest.iter().filter_map(|word| micros(word)).collect();
        let longest = |of: [f64; 2]| Some(Nanos(of[1].floor() as u64));
        match (layout, &times[..]) {
            (PerfLayout::Mean, [mean]) => Some(ExitTableRow { time: Some(nanos(*mean, count)), ..row }),
            (PerfLayout::Spread, [_, most, mean]) => {
                Some(ExitTableRow { time: Some(nanos(*mean, count)), longest: longest(*most), ..row })
            }
            (PerfLayout::Spread, [_, most]) if may_be_cut => Some(ExitTableRow { longest: longest(*most), ..row }),
            (_, [] | [_]) if may_be_cut => Some(row),
            _ => None,
        }
    }

    /// `79744, Total events handled time:130785328.50us.`
    fn totals(&mut self, line: &str) -> bool {
        let is_of_exits = matches!(&self.now, Some(Now::Perf { event, .. }) if event == EXIT_EVENT);
        let Some(table) = self.table() else { return false };
        let Some((count, time)) = line.split_once(", Total events handled time:") else { return false };
        // A table of accesses without any says nothing of exits.
        table.count = number(count.trim()).filter(|count| *count > 0 || is_of_exits);
        let time = time.trim_end_matches('.').trim().strip_suffix("us").and_then(decimal);
        table.time = time.map(|micros| Nanos((micros * 1e3).round() as u64));
        true
    }

    /// A row of kvm_stat's screen: `kvm_exit(HLT)  812  1.3  40`, and of its first versions without the share.
    fn kvm_stat_line(&mut self, words: &[&str]) -> bool {
        let [name, count, rest @ ..] = words else { return false };
        let (Some((event, key)), Some(count)) = (event_and_key(name), number(count)) else { return false };
        let per_s = match rest {
            [share, per_s] if share.contains('.') => number(per_s),
            [per_s] if !per_s.contains('.') => number(per_s),
            [] | [_] => None,
            _ => return false,
        };
        let per_s = per_s.map(|per_s| per_s as f64);
        match self.table().filter(|_| event == "Total") {
            Some(table) => table.count = Some(count),
            None => self.push(ExitTableRow { event, key, count, per_s, ..ExitTableRow::default() }),
        }
        true
    }

    /// Ends a table of `perf stat` with the line that says how long was counted; whether it is that line.
    fn end_perf_stat(&mut self, words: &[&str]) -> bool {
        let seconds = || decimal(words.first()?);
        match words {
            [_, "seconds", "time", "elapsed", ..] => {
                let (span, table) = (seconds().map(|seconds| Nanos((seconds * 1e9) as u64)), self.table());
                if let Some(table) = table {
                    let per_s =
                        |count: u64| span.filter(|span| span.0 > 0).map(|span| count as f64 * 1e9 / span.0 as f64);
                    table.rows.iter_mut().for_each(|row| row.per_s = per_s(row.count));
                    table.span = span;
                }
                self.now = None;
                true
            }
            _ => false,
        }
    }

    /// One of KVM's statistics: another VM's, or a later reading of the same, is another table.
    fn counter(&mut self, Counter { of, name, count }: Counter) {
        let is_known = self.known.contains_key(&(name.to_string(), None));
        let is_other = self.now != Some(Now::Counters) || self.of != of || is_known;
        self.of = of;
        if is_other {
            self.begin(Now::Counters, &[]);
        }
        self.push(ExitTableRow { event: name.to_string(), count, ..ExitTableRow::default() });
    }

    /// A line of kvm_stat's log, of which each column counts since the line before.
    fn log_line(&mut self, line: &str, at: u64, ledger: &mut Ledger) -> bool {
        let Some(Now::Log { columns, moments }) = self.now.clone() else { return false };
        let line = line.trim_start_matches(['>', '|', ' ', '\t']);
        let Some((moment, counts)) = log_row(line, columns.len()) else {
            // A cut one has fewer figures than columns, which are then whose nobody knows.
            let is_cut =
                !line.is_empty() && line.bytes().all(|byte| byte.is_ascii_digit() || b" \t,:-".contains(&byte));
            if is_cut {
                ledger.count_at(LedgerLine::BadText, at);
            }
            return is_cut;
        };
        let (first, is_first) = (moments.map_or(moment, |[first, _]| Some(first)), moments.is_none());
        // What the first line counted was counted before its moment.
        let since = first.zip(moment).and_then(|(first, last)| last.checked_sub(first)).filter(|since| *since > 0);
        for ((event, key), count) in columns.iter().zip(counts) {
            let before = self.after_first.get(&(event.clone(), key.clone())).copied().unwrap_or_default();
            let after = if is_first { 0 } else { before.saturating_add(count) };
            let per_s = since.map(|since| after as f64 / since as f64);
            self.after_first.insert((event.clone(), key.clone()), after);
            self.push(ExitTableRow { event: event.clone(), key: key.clone(), count, per_s, ..ExitTableRow::default() });
        }
        self.now = Some(Now::Log { columns, moments: first.zip(moment).map(|(first, last)| [first, last]) });
        true
    }

    /// A row of xenalyze, of a vCPU, or what is below one.
    fn xenalyze_line(&mut self, words: &[&str]) -> bool {
        xenalyze_row(words).map(|row| self.push(row)).is_some()
    }

    /// A line of a program of bpftrace, of a map, or of a histogram in one.
    fn bpftrace_line(&mut self, line: &str) -> bool {
        let Some(Now::Bpftrace { map, histogram }) = self.now.clone() else { return false };
        let of = |key: String| ExitTableRow { event: EXIT_EVENT.into(), key: Some(key), ..ExitTableRow::default() };
        if let Some(found) = map_line(line) {
            let Some(reason) = self.reason_of(&found, map.as_ref()) else {
                self.now = Some(Now::Bpftrace { map, histogram: None });
                return true;
            };
            // Two maps of a program may count the same exits.
            if map.as_ref().is_some_and(|map| *map != found.name) {
                self.begin(Now::Bpftrace { map: None, histogram: None }, &[]);
            }
            let histogram = found.count.is_none().then(|| (reason.clone(), unit_of_map(&found.name)));
            self.now = Some(Now::Bpftrace { map: Some(found.name), histogram });
            if let Some(count) = found.count {
                self.push(ExitTableRow { count, ..of(reason) });
            }
            return true;
        }
        let (Some((reason, unit)), Some((bounds, count))) = (histogram, bucket(line)) else {
            self.program_line(line);
            return false;
        };
        let time = |unit: u64| bounds.map(|bound| Nanos(bound.saturating_mul(unit).saturating_mul(count)));
        self.push(ExitTableRow { count, time: unit.map(time), ..of(reason) });
        true
    }

    /// A line that may be of a program: what stands in several is looked at together.
    fn program_line(&mut self, line: &str) {
        let line = line.trim_start_matches(['>', '|', ' ', '\t']).trim_end();
        if self.program.len() + line.len() > LONGEST_PROGRAM {
            return;
        }
        self.program.push_str(line);
        self.counted_maps = counted_maps(&self.program);
    }

    /// The reason in a map's key; `None` of a map that counts something else. Where no program is there to say it, a map counts exits if
    /// its keys are reasons.
    fn reason_of(&self, found: &MapLine, map: Option<&String>) -> Option<String> {
        if !self.counted_maps.is_empty() {
            let counted = self.counted_maps.iter().find(|counted| counted.name == found.name)?;
            return found.key.get(counted.reason).cloned();
        }
        let named = found.key.iter().find(|part| is_reason(part));
        named.or_else(|| found.key.last().filter(|_| map == Some(&found.name))).cloned()
    }

    /// A row of kvmexit: `1274253  1274261  HLT  12`, and with a mean in nanoseconds behind it.
    fn kvmexit_line(&mut self, words: &[&str], trailing: usize) -> bool {
        let Some(at) = words.len().checked_sub(trailing + 2) else { return false };
        let (reason, Some(count)) = (words[at], number(words[at + 1])) else { return false };
        if !reason.starts_with(|c: char| c.is_ascii_alphabetic()) {
            return false;
        }
        let reason = reason.strip_prefix("EXIT_REASON_").unwrap_or(reason);
        let mean = words.get(at + 2).and_then(|word| decimal(word)).map(|mean| nanos([mean, mean + 1.0], count));
        self.push(ExitTableRow {
            event: EXIT_EVENT.to_string(),
            key: Some(reason.to_string()),
            count,
            time: mean,
            ..ExitTableRow::default()
        });
        true
    }
}
