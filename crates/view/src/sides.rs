//! What comparisons have twice.

use schemars::JsonSchema;
use serde::Serialize;

/// Something of both sides.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct SidesRow<T> {
    /// Of the files before the change.
    pub before: T,
    /// Of the files after the change.
    pub after: T,
}
