//! Settings of the running host: planned, set, checked and restored; and tried, with a watchdog.
//!
//! ```text
//! (knob, value)… ─► plan ─► SettingChange… ─► HostSettings: note ─► set ─► changed_by_others ─► restore
//!                             ▲                              │       │
//! NAME=VALUE,… ─► TriedSetting│                  state file, first   └── PlacedSetting: written, read back
//!                   │         │
//!                   └─► TrialGuard ─ socket ─ watch_trial, in a process of its own
//!                          │                        └── HostLimits: pressure, steal and load of the host
//!                      TrialLock: one at a time on a host
//! ```
//!
//! Only what is a row is set: a knob of the host's kernel that can be written while it runs, or a [`SettingDefinition`]. Which file
//! it has is the row's to say, never the state file's; of a knob in a guest the state file has the command that reaches it. A
//! kill at any moment leaves a state file with all that may have been changed: whoever opens it next can restore that.
//!
//! Must not depend on: advice, flags, drawing, how a trial is judged.

mod applied_settings;
mod cpu_ticks;
mod cpuset;
mod guest_command;
mod host_limits;
mod host_lock;
mod host_settings;
mod knob_file;
mod knob_source;
mod messages;
mod nice_right;
mod placed_setting;
mod plan;
mod settings;
mod tree;
mod trial_guard;
mod tried_setting;
mod watchdog;

pub use applied_settings::{AppliedSetting, AppliedSettingsError, default_path, tried_path};
pub use cpu_ticks::CpuTicks;
pub use host_limits::{HostHealth, HostLimit, HostLimitError, HostLimits, HostMeasure};
pub use host_settings::{
    EarlierSettings, HostSettings, RestoreError, Restored, UNKNOWN_HOST, host_name, take_for_tree,
};
pub use knob_file::KnobFileError;
pub use messages::TrialEnding;
pub use placed_setting::{PlaceError, PlacedSetting, SettingTargets, TaskThread};
pub use plan::{PlannedSetting, SettingChange, plan};
pub use settings::{SETTINGS, SettingDefinition, SettingPlace, SettingValues, ThreadsOf, write_settings_document};
pub use trial_guard::{GuardError, LEASE, TrialGuard, TrialLock};
pub use tried_setting::{TriedSetting, TriedSettingError};
pub use watchdog::{LeftByTrial, restore_tried, watch_trial};
