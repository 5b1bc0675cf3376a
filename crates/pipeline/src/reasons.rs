//! The reasons of traces' exits: whether those that were named are among them, and else which there are.

use crate::{ReadError, ReadOptions, read_all};
use exitscope_analysis::TraceSink;
use exitscope_model::codes::is_called;
use exitscope_model::{BesideRow, Exit, ExitCode};
use exitscope_trace::Input;
use rustc_hash::FxHashMap;

/// Why a reason's name cannot be meant.
#[derive(Debug, thiserror::Error)]
pub enum ReasonError {
    /// A trace cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// Misspelt.
    #[error("no hypervisor has an exit reason {wanted:?}; {there}")]
    Unknown {
        /// The name.
        wanted: String,
        /// Which reasons the traces' exits have.
        there: String,
    },
    /// No exit has one of the reasons that are selected.
    #[error("no exit in {inputs} has the reason {wanted}; {there}")]
    None {
        /// The names.
        wanted: String,
        /// The traces.
        inputs: String,
        /// Which reasons the traces' exits have.
        there: String,
    },
}

/// Exits by reason.
struct Reasons<'a> {
    found: FxHashMap<ExitCode, u64>,
    /// Once an exit has one of these, the rest of the trace need not be read.
    enough: &'a [String],
    is_full: bool,
}

impl TraceSink for Reasons<'_> {
    #[inline]
    fn absorb(&mut self, exit: &Exit) {
        let enough = self.enough;
        let count = self.found.entry(exit.code).or_insert_with(|| {
            self.is_full |= enough.iter().any(|wanted| is_called(&exit.code.name(), wanted));
            0
        });
        *count += 1;
    }

    fn is_full(&self) -> bool {
        self.is_full
    }

    fn beside_row(&mut self, _row: BesideRow<'_>) {}
}

/// Whether exits of one of the reasons `selected` are in the traces, and every other of these names is a hypervisor's. Traces
/// are read for it only as far as it is not known.
pub fn check_reasons(
    selected: &[String],
    others: &[&str],
    inputs: &[Input],
    options: ReadOptions,
) -> Result<(), ReasonError> {
    let names = selected.iter().map(String::as_str).chain(others.iter().copied());
    let unknown: Vec<&str> = names.filter(|name| !ExitCode::is_known(name)).collect();
    if selected.is_empty() && unknown.is_empty() {
        return Ok(());
    }
    let enough = if unknown.is_empty() { selected } else { &[] };
    let fresh = || Reasons { found: FxHashMap::default(), enough, is_full: false };
    let add = |mut all: FxHashMap<ExitCode, u64>, of: FxHashMap<ExitCode, u64>| {
        of.into_iter().for_each(|(code, count)| *all.entry(code).or_default() += count);
        all
    };
    let (all, _) = read_all(inputs, options, fresh, |of, _| of.found, add)?;
    let found = all.unwrap_or_default();
    let has = |wanted: &str| found.keys().any(|code| is_called(&code.name(), wanted));
    if let Some(wanted) = unknown.iter().find(|name| !has(name)) {
        return Err(ReasonError::Unknown { wanted: wanted.to_string(), there: list(&found) });
    }
    // Of a recording without exits there is more to say than that.
    if !selected.is_empty() && !found.is_empty() && !selected.iter().any(|name| has(name)) {
        let inputs = inputs.iter().map(Input::name).collect::<Vec<_>>().join(", ");
        return Err(ReasonError::None { wanted: selected.join(" or "), inputs, there: list(&found) });
    }
    Ok(())
}

/// The reasons that there are, most frequent first.
fn list(found: &FxHashMap<ExitCode, u64>) -> String {
    /// Of them are named at most.
    const MOST: usize = 20;
    let mut names: Vec<(u64, String)> = found.iter().map(|(code, count)| (*count, code.name())).collect();
    names.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
    let mut shown: Vec<String> = names.iter().take(MOST).map(|row| row.1.clone()).collect();
    if names.len() > MOST {
        shown.push(format!("and {} more", names.len() - MOST));
    }
    match shown.is_empty() {
        true => "the recording has no exits".to_string(),
        false => format!("there are {}", shown.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use exitscope_model::CodeList;

    #[test]
    fn twenty_reasons_are_named_most_frequent_first_and_the_rest_is_counted() {
        let of = |count: u64| (0..count).map(|at| (ExitCode::new(CodeList::Vmx, at), count - at)).collect();
        let name = |at| ExitCode::new(CodeList::Vmx, at).name();
        assert_eq!(list(&of(0)), "the recording has no exits");
        assert_eq!(list(&of(2)), format!("there are {}, {}", name(0), name(1)));
        let first = (0..20).map(name).collect::<Vec<_>>().join(", ");
        assert_eq!(list(&of(20)), format!("there are {first}"));
        assert_eq!(list(&of(23)), format!("there are {first}, and 3 more"));
    }
}
