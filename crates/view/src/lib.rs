//! What people and scripts are shown.
//!
//! ```text
//! Facts, ledger ─► Report (plain data, the JSON schema) ─┬─► JSON
//!                                                        ├─► CSV
//!                                                        └─► Page (titles, sentences, tables) ─► text
//! ```
//!
//! Does not know: where rows came from.

mod compare;
mod csv_rows;
mod events;
mod names;
mod page;
mod report;
mod text;

pub use compare::{ChangeRow, Compared, Comparison, SideRow};
pub use csv_rows::write_csv;
pub use events::{EventRow, event_text};
pub use page::{Page, Section, Table, comparison_page, report_page};
pub use report::{
    Coverage, CoverageLine, Figures, Made, Place, Report, Row, SelectionRow, SortKey, TraceRow, VcpuRow, WhenRow,
};
pub use text::{Look, write_page};
