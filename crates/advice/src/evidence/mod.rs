//! What rules look at: what a recording's first reading gives, and what replays of its second one give.

pub(crate) mod faults;
pub(crate) mod host_timers;
pub(crate) mod input;
pub(crate) mod ipis;
pub(crate) mod polling_guests;
pub(crate) mod subject_stats;
pub(crate) mod touched;
pub(crate) mod trials;
pub(crate) mod unmappings;
pub(crate) mod usual_cost;
