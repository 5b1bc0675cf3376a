//! What this host's virtual machines leave their guests for, as it happens, in a terminal.
//!
//! ```text
//! LiveCounts ─► Sampler, every interval ─► Frame ─┬─► the screen, by ScreenState: what the user looks at
//!                                                 └─► text or JSON, one interval after the other
//! R ─► ChildRecorder: a recording, then its report, by the ChildCommands of the caller ─► ReportText ─► the screen
//! ```
//!
//! Does not know: flags, signals, exit codes.
#![cfg(target_os = "linux")]

mod batch;
mod choices;
mod chooser;
mod columns;
mod costliest_cause;
mod figure_text;
mod figures;
mod frame;
mod gangs;
mod help;
mod history;
mod line;
mod list;
mod panels;
mod recorder;
mod report_text;
mod sampler;
mod screen;
mod screen_state;
mod timeline;
mod top;
mod verdict;

pub use columns::TopColumn;
pub use frame::Frame;
pub use recorder::{ChildCommands, RecordTarget};
pub use top::{ScreenError, Top, TopOptions};
