//! What exitscope found as one self-contained HTML page: a report, a comparison, a sweep, an experiment of the lab, a
//! fleet.
//!
//! ```text
//! OverTime: sums by time, vCPU, reason, length; single exits ─► lists, columns ─┐
//! Report, Advised, polls, drags, as JSON ──────────────────────────────────────┼─► gzip ─► web/dist/page.html with data ─► file
//! Comparison and its lengths, Sweep, LabReport, Fleet, as JSON ────────────────┘
//! ```
//!
//! What a report already has comes from there; what is computed here is only what a picture over time needs, bounded in
//! size whatever the length of the recording. The front end is in web/; where it was not built, there are no pages.
//!
//! Does not know: files to read, where rows came from.

mod cpu_waits;
mod drags;
mod html;
mod other;
mod over_time;
mod page_parts;
mod polls;
mod reread;
mod served;
mod single_exits;

pub use drags::DragsHead;
pub use flate2::Compression;
pub use html::{Contents, PageData, is_built, write_data, write_page};
pub use other::{Other, SideLengths, write_other, write_other_data};
pub use over_time::TimeTables;
pub use page_parts::finish_page_parts;
pub use polls::Polls;
pub use reread::{NoAnswer, Question, Reread};
pub use served::{Addresses, served_page};
