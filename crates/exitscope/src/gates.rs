//! What becomes of the limits of `--fail-on`, and with them of the command.

use crate::Outcome;
use exitscope_analysis::{Breach, LimitCheck};
use exitscope_pipeline::ReadError;

/// What became of the limits of --fail-on; they are also said.
pub struct Gates {
    pub breaches: Vec<Breach>,
    /// Whether one could not be judged.
    unjudged: bool,
}

impl Gates {
    /// Says what was passed, and what could not be judged.
    pub fn of(checks: impl IntoIterator<Item = LimitCheck>) -> Gates {
        let mut gates = Gates { breaches: Vec::new(), unjudged: false };
        for check in checks {
            match check {
                LimitCheck::Holds => {}
                LimitCheck::Passed(breach) => {
                    say!("{breach}");
                    gates.breaches.push(breach);
                }
                LimitCheck::Unknown(limit) => {
                    say!("{limit}");
                    gates.unjudged = true;
                }
            }
        }
        gates
    }

    /// Says of what nothing could be read: limits cannot be judged then.
    pub fn cannot_judge(&mut self, unread: &[ReadError]) {
        unread.iter().for_each(|unread| say!("{unread}"));
        self.unjudged |= !unread.is_empty();
    }

    /// How the command ends. What could not be judged is no success, and no finding.
    pub fn outcome(&self) -> Outcome {
        match (self.unjudged, self.breaches.is_empty()) {
            (true, _) => Outcome::Failed,
            (false, true) => Outcome::Fine,
            (false, false) => Outcome::Findings,
        }
    }
}
