//! What QEMU's machine protocol answers to `query-stats`, as people paste it: on one line, printed over many, quoted, wrapped, cut.
//!
//! ```text
//! {"return": [{"provider": "kvm", "stats": [{"name": "exits", "value": 7}, …], "qom-path": "/machine/unattached/device[2]"}, …]}
//!    a reading         a vCPU, of which the whole list counts, or nothing
//! ```
//!
//! `StatsResult` of QEMU's qapi/stats.json; an answer may have its keys in any order. A parser of JSON would refuse what is cut or has
//! marks of quotation in it, so that this one goes from token to token, and takes what has the form of a list of statistics.

use exitscope_model::{ExitTable, ExitTableRow, ExitTableSource, Ledger, LedgerLine, exit_counter};
use std::collections::BTreeSet;

/// Longer names are none that are looked for, in bytes; vCPUs' paths are shorter.
const MOST_OF_STRING: usize = 256;
/// Tables of a text, and vCPUs of a table, at most.
const MOST_TABLES: usize = 1_024;
const MOST_VCPUS: usize = 1 << 16;

/// Whether a text that begins with `head` has such an answer, be it cut.
pub(super) fn looks_like(head: &[u8]) -> bool {
    let mut answers = StatsAnswers::default();
    answers.take(head);
    answers.seen > 0
}

/// A vCPU's statistics.
#[derive(Debug, Default)]
struct Vcpu {
    rows: Vec<(&'static str, u64)>,
    /// Whether the list has come to its end.
    is_whole: bool,
    has_list: bool,
    path: Option<String>,
    is_of_kvm: bool,
    /// The line that it began in.
    at: u64,
}

/// Answers as their bytes come.
#[derive(Debug, Default)]
pub(super) struct StatsAnswers {
    tables: Vec<ExitTable>,
    /// vCPUs of the last table.
    vcpus: BTreeSet<String>,
    /// Whether the next vCPU is of another answer than the one before.
    is_new: bool,
    vcpu: Vcpu,
    /// Lists that were cut, by the line of the first, and vCPUs beyond those that are kept.
    not_used: u64,
    first_not_used: Option<u64>,
    /// Counters of exits that were met.
    seen: u64,
    /// Lines that have a whole list: they are understood, however long they are.
    lines: BTreeSet<u64>,
    line: u64,
    string: Option<Vec<u8>>,
    is_escaped: bool,
    /// The last string, until what follows shows whether it is a key.
    last: Option<String>,
    key: Option<String>,
    number: String,
    /// Brackets that are open within a list of statistics.
    depth: u32,
    name: Option<&'static str>,
    value: Option<u64>,
}

impl StatsAnswers {
    /// Takes the next bytes of the text.
    pub fn take(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.byte(byte));
    }

    /// Whether the line of this number, counted from 1 on, has an end of a list.
    pub fn has_line(&self, number: u64) -> bool {
        self.lines.contains(&number.saturating_sub(1))
    }

    /// The tables, one for each answer that has counters of exits.
    pub fn end(mut self, ledger: &mut Ledger) -> Vec<ExitTable> {
        self.end_of_vcpu();
        if let Some(at) = self.first_not_used {
            ledger.add_at(LedgerLine::BadText, self.not_used, at);
        }
        self.tables
    }

    fn byte(&mut self, byte: u8) {
        if let Some(string) = &mut self.string {
            match byte {
                b'\n' => self.string = None,
                _ if std::mem::take(&mut self.is_escaped) => string.push(byte),
                b'\\' => self.is_escaped = true,
                b'"' => self.last = self.string.take().and_then(|string| String::from_utf8(string).ok()),
                _ if string.len() < MOST_OF_STRING => string.push(byte),
                _ => {}
            }
            self.line += u64::from(byte == b'\n');
            return;
        }
        if byte.is_ascii_digit() {
            // No number of 64 bits is longer; zeros may be.
            if self.number.len() < 32 {
                self.number.push(char::from(byte));
            }
            return;
        }
        if !self.number.is_empty() {
            self.value_of_key(None);
        }
        match byte {
            b'\n' => self.line += 1,
            b'"' => (self.string, self.is_escaped) = (Some(Vec::new()), false),
            b':' => self.key = self.last.take(),
            b',' | b'{' | b'}' | b'[' | b']' => self.mark(byte),
            _ => {}
        }
    }

    /// What stands between two values.
    fn mark(&mut self, byte: u8) {
        if let Some(text) = self.last.take() {
            self.value_of_key(Some(text));
        }
        match byte {
            b'{' => (self.name, self.value) = (None, None),
            b'}' => {
                if let (Some(name), Some(value), 1) = (self.name.take(), self.value.take(), self.depth) {
                    self.seen += 1;
                    self.vcpu.rows.push((name, value));
                }
            }
            b'[' if self.key.as_deref() == Some("stats") => {
                if self.vcpu.has_list {
                    self.end_of_vcpu();
                    self.vcpu.is_of_kvm = true;
                }
                (self.depth, self.vcpu.has_list, self.vcpu.at) = (1, true, self.line + 1);
            }
            b'[' => {
                self.depth += u32::from(self.depth > 0);
                if self.key.as_deref() == Some("return") {
                    self.end_of_vcpu();
                    self.is_new = true;
                }
            }
            b']' if self.depth > 0 => {
                self.depth -= 1;
                if self.depth == 0 {
                    self.vcpu.is_whole = true;
                    self.lines.extend((self.lines.len() < MOST_VCPUS).then_some(self.line));
                }
            }
            _ => {}
        }
        self.key = None;
    }

    /// The text, or the number, that a key has.
    fn value_of_key(&mut self, text: Option<String>) {
        let number = std::mem::take(&mut self.number);
        match (self.key.take().as_deref(), text) {
            (Some("provider"), Some(provider)) => {
                self.end_of_vcpu();
                self.vcpu.is_of_kvm = provider == "kvm";
            }
            (Some("qom-path"), Some(path)) => self.vcpu.path = Some(path),
            (Some("name"), Some(name)) => self.name = exit_counter(&name),
            (Some("value"), None) => self.value = number.parse().ok(),
            _ => {}
        }
    }

    /// Adds a vCPU of which the list is whole: of one that is cut, nobody knows what is missing.
    fn end_of_vcpu(&mut self) {
        let vcpu = std::mem::take(&mut self.vcpu);
        self.depth = 0;
        if !vcpu.is_of_kvm || vcpu.rows.is_empty() {
            return;
        }
        let is_other = self.is_new || vcpu.path.as_ref().is_some_and(|path| self.vcpus.contains(path));
        let is_kept = self.vcpus.len() < MOST_VCPUS && (self.tables.len() < MOST_TABLES || !is_other);
        if !vcpu.is_whole || !is_kept {
            self.not_used += 1;
            self.first_not_used.get_or_insert(vcpu.at);
            return;
        }
        if is_other || self.tables.is_empty() {
            self.tables.push(ExitTable::new(ExitTableSource::Counters));
            self.vcpus.clear();
            self.is_new = false;
        }
        self.vcpus.extend(vcpu.path);
        let Some(table) = self.tables.last_mut() else { return };
        for (name, count) in vcpu.rows {
            match table.rows.iter_mut().find(|row| row.event == name) {
                Some(row) => row.count = row.count.saturating_add(count),
                None => table.rows.push(ExitTableRow { event: name.to_string(), count, ..ExitTableRow::default() }),
            }
        }
    }
}
