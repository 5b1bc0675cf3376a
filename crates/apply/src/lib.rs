//! Knobs of the running host: planned, set, checked and restored.
//!
//! ```text
//! (knob, value)… ─► plan ─► KnobChange… ─► HostSettings: note ─► set ─► changed_by_others ─► restore
//!                                                        │       │                           │
//!                                              state file, first  └── file of the knob, read back
//! ```
//!
//! Only knobs of the host's kernel that can be written while it runs are set. Which file a knob has is the knob's own to
//! say, never the state file's. A kill at any moment leaves a state file with all that may have been changed: whoever opens
//! it next can restore that.
//!
//! Must not depend on: advice, flags, drawing.

mod applied_settings;
mod host_settings;
mod knob_file;
mod plan;

pub use applied_settings::{AppliedSetting, AppliedSettingsError, default_path};
pub use host_settings::{EarlierSettings, HostSettings, RestoreError, Restored, host_name};
pub use knob_file::KnobFileError;
pub use plan::{KnobChange, PlannedSetting, plan};
