//! Replays of policies: a recording is read, and once more through what other settings would have made of it.
//!
//! ```text
//! first reading ─► settings in force, typical costs ─► second reading ─► every configuration's outcome
//! ```

mod halts;
mod ports;
mod vcores;
mod yields;

pub use halts::{PredictedHalts, predict_halts, replay_halts};
pub use ports::{PortsAndModel, replay_ports};
pub use vcores::replay_vcores;
pub use yields::{CALL_AXIS, LabelledSpin, SurveyedYields, replay_yields, spin_rows, survey_yields};

use crate::{ReadError, ReadOptions, ReadTrace, read_alone};
use exitscope_analysis::record_commands::{HowToRecord, Missed};
use exitscope_analysis::{Facts, FactsOptions, Selection, TraceSink};
use exitscope_model::{BesideRow, Exit, VcpuIdentity};
use exitscope_policy::KnobError;
use exitscope_trace::Input;
use exitscope_units::Moment;

/// Knobs that a configuration sets, by name.
pub type KnobValues = Vec<(&'static str, u64)>;

/// A recording of which something is replayed.
pub struct ReplayInput<'a> {
    /// The recording.
    pub input: &'a Input,
    /// What of it is replayed.
    pub selection: Selection,
    /// How it is read.
    pub options: ReadOptions,
}

/// Why nothing is replayed.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// The recording cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// A knob does not take a value.
    #[error(transparent)]
    Knob(#[from] KnobError),
    /// A knob has no effect where vCPUs yield in this way; those that have.
    #[error("{name} changes nothing where vCPUs yield by {call}; there are {own}")]
    NoEffect {
        /// The knob.
        name: String,
        /// How vCPUs yield.
        call: &'static str,
        /// The knobs that there are.
        own: String,
    },
    /// It holds nothing that could be replayed.
    #[error("{trace}: {why}")]
    Nothing {
        /// The file.
        trace: String,
        /// What is missing, and how to record it.
        why: String,
    },
}

impl ReplayInput<'_> {
    /// Facts about what is selected.
    fn facts(&self) -> Result<(ReadTrace, Facts), ReadError> {
        let wanted = FactsOptions { by: Vec::new(), slowest: 0, selection: self.selection.clone() };
        let (trace, mut facts) = read_alone(self.input, self.options, || Facts::new(&wanted))?;
        let (first, last) = trace.span.unwrap_or_default();
        facts.end(first, last, &trace.vcpu_of);
        Ok((trace, facts))
    }

    /// Has a sink take what is selected.
    fn read<T: TraceSink>(&self, fresh: impl Fn() -> T) -> Result<(ReadTrace, T), ReadError> {
        let all = (Moment::default(), Moment::MAX);
        let fresh = || Selected { selection: &self.selection, window: all, into: fresh() };
        let (trace, selected) = read_alone(self.input, self.options, fresh)?;
        Ok((trace, selected.into))
    }
}

impl ReadTrace {
    /// How to record what the trace lacks.
    pub fn how_to_record(&self) -> HowToRecord {
        HowToRecord::of(&self.info)
    }

    fn sentence(&self, missed: Missed, meanwhile: &str) -> String {
        self.how_to_record().sentence(&[missed], meanwhile).trim_end_matches('.').to_string()
    }

    fn has_nothing(&self, why: impl Into<String>) -> ReplayError {
        ReplayError::Nothing { trace: self.name.clone(), why: why.into() }
    }
}

/// Passes on what is selected.
struct Selected<'a, T> {
    selection: &'a Selection,
    window: (Moment, Moment),
    into: T,
}

impl<T> Selected<'_, T> {
    #[inline]
    fn holds(&self, at: Moment, who: &VcpuIdentity) -> bool {
        self.window.0 <= at && at <= self.window.1 && self.selection.holds_who(who)
    }
}

impl<T: TraceSink> TraceSink for Selected<'_, T> {
    fn begin(&mut self, first: Moment) {
        self.window = self.selection.window(first);
    }

    #[inline]
    fn absorb(&mut self, exit: &Exit) {
        if self.holds(exit.at, &exit.who) {
            self.into.absorb(exit);
        }
    }

    fn beside_row(&mut self, row: BesideRow<'_>) {
        let holds = match row {
            BesideRow::Halt(halt) => self.holds(halt.begin, &halt.who),
            BesideRow::Yield(of) => self.holds(of.at, &of.who),
            BesideRow::Preemption(of) => self.holds(of.at, &of.who),
            // No replay takes them.
            BesideRow::CpuInterval(_)
            | BesideRow::WakeUp(_)
            | BesideRow::StealPiece(_)
            | BesideRow::PleUpdate(_)
            | BesideRow::KvmActivity(_)
            | BesideRow::ApicvChange(_)
            | BesideRow::Idle(_)
            | BesideRow::QueueStay(_)
            | BesideRow::SchedulerEvent(_)
            | BesideRow::RunnerEvent(_) => false,
        };
        if holds {
            self.into.beside_row(row);
        }
    }
}
