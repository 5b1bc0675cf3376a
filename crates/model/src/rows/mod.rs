//! Rows of the tables that leave exitscope, and their columns.
//!
//! ```text
//! Exit ─► ExitRows ─► ExitRow ─► exit_columns: a row for each exit
//! sums of facts ─► SumRow · HaltRow · GangRow ─► sum_columns · halt_columns · gang_columns: rows that can be added up
//! ```

/// The columns of the parts of exits, of rows that hold them as this says.
macro_rules! part_columns {
    ($row:ty, $of:expr) => {
        $crate::rows::part_columns!($row, $of; Kernel User Polling Halted Undivided Memory Steal Stopped Unknown)
    };
    ($row:ty, $of:expr; $($part:ident)*) => {
        [$(
            $crate::Column::new(
                $crate::TimePart::$part.column(),
                "ns",
                $crate::TimePart::$part.prose(),
                $crate::Of::U64(|row: &$row| {
                    let of: fn(&$row) -> Option<&$crate::ExitParts> = $of;
                    of(row).map(|parts| parts.get($crate::TimePart::$part).0)
                }),
            )
        ),*]
    };
}
use part_columns;

mod exits;
mod sums;
#[cfg(test)]
mod tests;
mod who;

pub use exits::{ExitRow, ExitRows, exit_columns};
pub use sums::{GangRow, HaltRow, Spread, SumRow, gang_columns, halt_columns, sum_columns};
pub use who::{WhoRow, is_called, vcpu_by_name};
