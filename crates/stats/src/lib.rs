//! Distributions, quantiles and intervals: the same for what is recorded, counted live, simulated and measured by the lab.
//!
//! ```text
//! values ─► Histogram, Buckets ─► merge, in any order ─► quantile
//! a figure of each run ─► Estimate: mean, Student's t interval; of shares Wilson's, of ratios that of logarithms
//! a figure of each run of two sides ─► MeanChange, Drift: what differs, and what follows the order
//! a figure of each of several ─► off_the_others: whether one is off all others
//! blocks of time ─► Bootstrap ─► a figure of each resample ─► Interval
//! differences, one by one ─► ConfidenceSequence: an interval that may be looked at after each
//! blocks of doses and values ─► DoseSlope: what a unit of dose is worth
//! ```
//!
//! Counts are integers, so that neither order nor the number of pieces changes a result. Does not know: what is measured.

mod bootstrap;
mod buckets;
mod dose;
mod estimate;
mod histogram;
mod mean_change;
mod one_of_many;
mod quantile;
mod sequence;
mod share_and_ratio;

pub use bootstrap::{Bootstrap, Interval};
pub use buckets::{Buckets, CoarseBuckets, FineBuckets, bucket_of};
pub use dose::DoseSlope;
pub use estimate::Estimate;
pub use histogram::Histogram;
pub use mean_change::{Drift, MeanChange, POWER, holm};
pub use one_of_many::off_the_others;
pub use quantile::{quantile, quantile_of_sorted};
pub use sequence::ConfidenceSequence;
