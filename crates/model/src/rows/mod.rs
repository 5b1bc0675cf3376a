//! Rows of the tables that leave exitscope, and their columns.
//!
//! ```text
//! Exit ─► ExitRows ─► ExitRow ─► exit_columns: a row for each exit
//! sums of facts ─► SumRow · HaltRow · GangRow ─► sum_columns · halt_columns · gang_columns: rows that can be added up
//! ```

mod exits;
mod sums;
#[cfg(test)]
mod tests;
mod who;

pub use exits::{ExitRow, ExitRows, exit_columns};
pub use sums::{GangRow, HaltRow, Spread, SumRow, gang_columns, halt_columns, sum_columns};
pub use who::WhoRow;
