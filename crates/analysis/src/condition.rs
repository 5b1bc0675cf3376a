//! A condition on exits, as it is typed for `--where` and in a page's query box (`web/src/condition.ts` reads the same).
//!
//! ```text
//! "reason = io and cost > 100us" ─► Condition: terms ─┐
//! Texts: names of VMs, subjects, … ───────────────────┴─► ExitFilter ─► Exit: holds or not
//! ```

use crate::SubjectKey;
use exitscope_model::{Exit, ExitCode, Handler, TimePart, VcpuIdentity};
use exitscope_units::{Nanos, PcpuId, VmId};
use rustc_hash::FxHashMap;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// Texts whose comparison is remembered; beyond, all are forgotten.
const REMEMBERED: usize = 1 << 16;

/// A length of an exit that conditions compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Length {
    /// Kernel and user space.
    Cost,
    /// From exit to entry.
    ExitTime,
    /// One part of it.
    Part(TimePart),
}

impl Length {
    /// Every length.
    pub fn all() -> impl Iterator<Item = Length> {
        [Length::Cost, Length::ExitTime].into_iter().chain(TimePart::OF_EXITS.map(Length::Part))
    }

    /// Its word in conditions.
    pub fn name(self) -> &'static str {
        match self {
            Length::Cost => "cost",
            Length::ExitTime => "exit_time",
            Length::Part(part) => part.column().trim_end_matches("_ns"),
        }
    }
}

/// How two values are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[expect(missing_docs, reason = "their names say it")]
pub enum Than {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
    /// A text that holds another.
    Has,
}

/// How comparisons are written, those first that begin as others do.
const SIGNS: [(&str, Than); 7] = [
    ("!=", Than::Ne),
    ("<=", Than::Le),
    (">=", Than::Ge),
    ("=", Than::Eq),
    ("<", Than::Lt),
    (">", Than::Gt),
    ("~", Than::Has),
];

/// A limit of a length, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[expect(missing_docs, reason = "their names say it")]
pub struct Limit {
    pub of: Length,
    pub than: Than,
    pub ns: u64,
}

impl Limit {
    /// Whether it holds of an exit with these parts and exit time, in nanoseconds.
    pub fn holds(&self, part: impl Fn(TimePart) -> u64, exit_time: u64) -> bool {
        let length = match self.of {
            Length::Cost => part(TimePart::Kernel).saturating_add(part(TimePart::User)),
            Length::ExitTime => exit_time,
            Length::Part(of) => part(of),
        };
        match self.than {
            Than::Eq => length == self.ns,
            Than::Ne => length != self.ns,
            Than::Lt => length < self.ns,
            Than::Le => length <= self.ns,
            Than::Gt => length > self.ns,
            Than::Ge => length >= self.ns,
            Than::Has => false,
        }
    }
}

/// What conditions compare as text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "their names say it")]
pub enum TextWord {
    Vm,
    Vcpu,
    Reason,
    Subject,
    Handler,
    Cpu,
    Rip,
    Function,
}

impl TextWord {
    /// Every word.
    pub const ALL: [TextWord; 8] = [
        TextWord::Vm,
        TextWord::Vcpu,
        TextWord::Reason,
        TextWord::Subject,
        TextWord::Handler,
        TextWord::Cpu,
        TextWord::Rip,
        TextWord::Function,
    ];

    /// The word; that of `--by`, where that has it.
    pub fn name(self) -> &'static str {
        match self {
            TextWord::Vm => "vm",
            TextWord::Vcpu => "vcpu",
            TextWord::Reason => "reason",
            TextWord::Subject => "subject",
            TextWord::Handler => "handler",
            TextWord::Cpu => "cpu",
            TextWord::Rip => "rip",
            TextWord::Function => "function",
        }
    }

    fn of(self, exit: &Exit) -> TextKey {
        match self {
            TextWord::Vm => TextKey::Vm(exit.who.vm),
            TextWord::Vcpu => TextKey::Vcpu(exit.who),
            TextWord::Reason => TextKey::Reason(exit.code),
            TextWord::Subject => TextKey::Subject(exit.subject.map(SubjectKey::of)),
            TextWord::Handler => TextKey::Handler { user_space: exit.handler != Handler::Kernel },
            TextWord::Cpu => TextKey::Cpu(exit.cpu),
            TextWord::Rip => TextKey::Rip(exit.rip),
            TextWord::Function => TextKey::Function(exit.rip),
        }
    }
}

/// What an exit has under a [`TextWord`], to be named.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "those of `TextWord`")]
pub enum TextKey {
    Vm(VmId),
    Vcpu(VcpuIdentity),
    Reason(ExitCode),
    Subject(Option<SubjectKey>),
    Handler {
        user_space: bool,
    },
    Cpu(PcpuId),
    /// An instruction pointer; zero if none was recorded.
    Rip(u64),
    /// The function of the guest that holds this instruction pointer.
    Function(u64),
}

/// What something is called, as pages show it.
pub type Texts = Arc<dyn Fn(TextKey) -> String + Send + Sync>;

/// A comparison of texts, without regard to case.
#[derive(Clone, Debug, PartialEq, Eq)]
struct TextTerm {
    word: TextWord,
    than: Than,
    /// In lower case.
    wanted: String,
}

impl TextTerm {
    fn holds(&self, text: &str) -> bool {
        let text = text.to_lowercase();
        match self.than {
            Than::Has => text.contains(&self.wanted),
            Than::Ne => !self.is(&text),
            _ => self.is(&text),
        }
    }

    /// `vcpu = 1` is the one called `vCPU 1`.
    fn is(&self, text: &str) -> bool {
        let is_number = !self.wanted.is_empty() && self.wanted.bytes().all(|digit| digit.is_ascii_digit());
        let before = text.strip_suffix(&self.wanted);
        before.is_some_and(|rest| rest.is_empty() || is_number && !rest.ends_with(|last: char| last.is_ascii_digit()))
    }
}

/// A condition: comparisons that hold all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    /// As it was typed.
    text: String,
    texts: Vec<TextTerm>,
    limits: Vec<Limit>,
}

/// What is wrong with a condition.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "their messages say it")]
pub enum ConditionError {
    #[error("{0:?} is no comparison: write it like cost > 100us")]
    NoComparison(String),
    #[error("{0:?} is unknown: there are {words}", words = words())]
    NoWord(String),
    #[error("{0:?} is no length: write it like 100us or 1.5ms")]
    NoLength(String),
    #[error("{0} is a length: ~ finds parts of texts")]
    PartOfLength(&'static str),
    #[error("{0} is a text: compare it by =, != or ~")]
    OrderOfTexts(&'static str),
}

/// Every word that conditions have.
fn words() -> String {
    let words: Vec<&str> =
        TextWord::ALL.into_iter().map(TextWord::name).chain(Length::all().map(Length::name)).collect();
    words.join(", ")
}

impl Condition {
    /// What its texts are about.
    pub fn words(&self) -> impl Iterator<Item = TextWord> {
        self.texts.iter().map(|term| term.word)
    }

    /// The reasons that it names whole.
    pub fn reasons(&self) -> impl Iterator<Item = &str> {
        let whole = |term: &&TextTerm| term.word == TextWord::Reason && term.than != Than::Has;
        self.texts.iter().filter(whole).map(|term| &*term.wanted)
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl FromStr for Condition {
    type Err = ConditionError;

    fn from_str(text: &str) -> Result<Condition, ConditionError> {
        let mut condition = Condition { text: text.trim().to_string(), texts: Vec::new(), limits: Vec::new() };
        for term in terms(text) {
            let none = || ConditionError::NoComparison(term.to_string());
            let end = term.find(|c: char| !c.is_ascii_alphabetic() && c != '_').filter(|end| *end > 0);
            let (name, rest) = term.split_at(end.ok_or_else(none)?);
            let sign = |(sign, than)| Some((than, rest.trim_start().strip_prefix(sign)?.trim()));
            let (than, value) = SIGNS.into_iter().find_map(sign).ok_or_else(none)?;
            let value = unquoted(value);
            if let Some(of) = Length::all().find(|of| of.name() == name) {
                let ns = length(value).ok_or_else(|| ConditionError::NoLength(value.to_string()))?;
                if than == Than::Has {
                    return Err(ConditionError::PartOfLength(of.name()));
                }
                condition.limits.push(Limit { of, than, ns });
                continue;
            }
            let word = TextWord::ALL.into_iter().find(|word| word.name() == name);
            let word = word.ok_or_else(|| ConditionError::NoWord(name.to_string()))?;
            if !matches!(than, Than::Eq | Than::Ne | Than::Has) {
                return Err(ConditionError::OrderOfTexts(word.name()));
            }
            condition.texts.push(TextTerm { word, than, wanted: value.to_lowercase() });
        }
        Ok(condition)
    }
}

/// What stands between the words `and`.
fn terms(text: &str) -> Vec<&str> {
    let mut terms = Vec::new();
    let (mut from, mut at) = (0, 0);
    while let Some(gap) = text[at..].find(char::is_whitespace).map(|gap| at + gap) {
        let word = text[gap..].trim_start();
        at = text.len() - word.len();
        let and = word.split(char::is_whitespace).next().unwrap_or_default();
        if and.eq_ignore_ascii_case("and") && and.len() < word.len() {
            terms.push(text[from..gap].trim());
            at = text.len() - word[and.len()..].trim_start().len();
            from = at;
        }
    }
    terms.push(text[from..].trim());
    terms
}

/// A value without the quotes around it.
fn unquoted(value: &str) -> &str {
    let within = |quote| value.strip_prefix(quote)?.strip_suffix(quote);
    within('"').or_else(|| within('\'')).unwrap_or(value)
}

/// A length in nanoseconds; of zero also without a unit.
fn length(text: &str) -> Option<u64> {
    match text.parse() {
        Ok(0.0) if text.starts_with('0') => Some(0),
        _ => Nanos::parse(text).map(|length| length.0),
    }
}

/// The exits of which a condition holds.
#[derive(Clone)]
pub struct ExitFilter {
    condition: Condition,
    texts: Texts,
    /// What came of comparisons of texts, by the number of the term.
    known: FxHashMap<(usize, TextKey), bool>,
}

impl ExitFilter {
    /// Those whose texts are these.
    pub fn new(condition: Condition, texts: Texts) -> ExitFilter {
        ExitFilter { condition, texts, known: FxHashMap::default() }
    }

    /// The condition.
    pub fn condition(&self) -> &Condition {
        &self.condition
    }

    /// Whether the exit is one of them. One that has no length is within no limit.
    pub fn holds(&mut self, exit: &Exit) -> bool {
        let ExitFilter { condition, texts, known } = self;
        let within = |limit: &Limit| exit.timed && limit.holds(|part| exit.part(part).0, exit.total().0);
        if !condition.limits.iter().all(within) {
            return false;
        }
        condition.texts.iter().enumerate().all(|(number, term)| {
            let of = term.word.of(exit);
            if known.len() >= REMEMBERED {
                known.clear();
            }
            *known.entry((number, of)).or_insert_with(|| term.holds(&texts(of)))
        })
    }
}

impl fmt::Debug for ExitFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ExitFilter").field(&self.condition).finish()
    }
}
