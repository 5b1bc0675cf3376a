//! Pages for a browser: of recordings, of what happens now, or of a store.
//!
//! ```text
//! files ─► ServedFiles: read when asked for, anew when changed ───────────────────────┐
//! LiveCapture: Capture ─► SampleDecoder ─► RecentSlices ─► CachedPage ────────────────┼─► Pages ─► exitscope-http
//! store ─► CachedPage: asked anew whenever the page is loaded ────────────────────────┘
//! ```
//!
//! How recordings are read, and a store is asked, is the caller's: [`Recordings`], [`Make`].
//!
//! Does not know: flags, signals, SQL.

mod cached_page;
mod live_capture;
mod live_page;
mod named_file;
mod paste;
mod routes;
mod served_files;

pub use cached_page::{CachedPage, Make};
pub use live_capture::{LiveCapture, LiveError, LiveOptions, LiveView};
pub use live_page::{LivePageError, write_live_page};
pub use named_file::{CannotRead, NamedFile};
pub use routes::{Pages, ServedContent};
pub use served_files::{RecordingPage, RecordingSummary, Recordings, ServedFiles};

/// The `Content-Type` of pages.
pub(crate) const HTML: &str = "text/html; charset=utf-8";
