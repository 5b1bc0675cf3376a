//! What exitscope found as one self-contained HTML page: a report, a comparison, a sweep, an experiment of the lab, a
//! fleet.
//!
//! ```text
//! Timelines: sums by time, vCPU, reason, length; single exits ─► lists, columns ─┐
//! Report, AdviceReport, polls, exits forced out, as JSON ────────────────────────┼─► gzip ─► web/dist/page.html with data ─► file
//! Comparison and its lengths, Sweep, LabReport, Fleet, as JSON ──────────────────┘
//! ```
//!
//! What a report already has comes from there; what is computed here is only what a picture over time needs, bounded in
//! size whatever the length of the recording. The front end is in web/; where it was not built, there are no pages.
//!
//! Does not know: files to read, where rows came from.

mod cpu_waits;
mod forced_out_timeline;
mod html;
mod page_parts;
mod poll_limits;
mod reread;
mod result_page;
mod served_page;
mod single_exits;
mod timelines;

pub use flate2::Compression;
pub use forced_out_timeline::ForcedOutColumns;
pub use html::{PageContents, PageData, is_built, write_data, write_page};
pub use page_parts::finish_page_parts;
pub use poll_limits::PollLimitTable;
pub use reread::{NoAnswer, Question, Reread};
pub use result_page::{ResultPage, SideLengths, write_result_data, write_result_page};
pub use served_page::{ServedUrls, served_page};
pub use timelines::TimelineTables;
