//! The first thing that a comparison, a sweep, an experiment or a fleet says: one sentence, and what it rests on.

use crate::page::{PageSection, Sentence, plain};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The answer, before all figures.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Headline {
    /// Of a comparison `worse`, `better`, `recordings_differ` (of which a side has one), `no_clear_difference`, `same` (every figure is)
    /// or `cannot_tell`; of a fleet the first, the second, the fourth and the last, for the largest certain difference. Of a sweep `best` (one configuration), `ahead` (some, that tie among
    /// themselves), `tie` (all) or `cannot_tell`. Of an experiment `found` or `cannot_tell`.
    #[schemars(extend("enum" = ["worse", "better", "recordings_differ", "no_clear_difference", "same", "cannot_tell", "best", "ahead", "tie", "found"]))]
    pub state: String,
    /// In one sentence.
    pub text: String,
    /// The figures that it rests on, and what it does not say.
    pub details: Vec<String>,
    /// Whether something that is not in the figures could change it.
    pub is_doubtful: bool,
    /// What makes it doubtful, or limits it.
    pub doubts: Vec<String>,
}

impl Headline {
    /// What a page begins with: the sentence is the title.
    pub(crate) fn section(&self) -> PageSection {
        let doubt = |text: &String| Sentence { text: text.clone(), warning: self.is_doubtful };
        let details = self.details.iter().cloned().map(plain);
        PageSection {
            title: self.text.clone(),
            sentences: self.doubts.iter().map(doubt).chain(details).collect(),
            ..PageSection::default()
        }
    }
}
