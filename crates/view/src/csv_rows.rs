//! The rows of a report as CSV.

use crate::Report;
use std::io::{self, Write};

/// Writes the rows with a heading: the dimensions, then the figures under their JSON names. Empty where there is no
/// figure.
pub fn write_csv(report: &Report, out: impl Write) -> io::Result<()> {
    let mut out = csv::Writer::from_writer(out);
    let headings = [
        "count",
        "timed",
        "rate_per_s",
        "total_ns",
        "cost_ns",
        "share_of_cost",
        "kernel_ns",
        "user_ns",
        "idle_ns",
        "waiting_ns",
        "min_ns",
        "mean_ns",
        "p50_ns",
        "p90_ns",
        "p99_ns",
        "p999_ns",
        "max_ns",
        "user_share",
    ];
    out.write_record(report.by.iter().copied().chain(headings)).map_err(io::Error::from)?;
    for row in &report.rows {
        let figures = &row.figures;
        let length = |length: Option<u64>| length.map_or(String::new(), |nanos| nanos.to_string());
        let values = [
            figures.count.to_string(),
            figures.timed.to_string(),
            figures.rate_per_s.to_string(),
            figures.total_ns.to_string(),
            figures.cost_ns.to_string(),
            figures.share_of_cost.to_string(),
            figures.kernel_ns.to_string(),
            figures.user_ns.to_string(),
            figures.idle_ns.to_string(),
            figures.waiting_ns.to_string(),
            length(figures.min_ns),
            length(figures.mean_ns),
            length(figures.p50_ns),
            length(figures.p90_ns),
            length(figures.p99_ns),
            length(figures.p999_ns),
            length(figures.max_ns),
            figures.user_share.to_string(),
        ];
        out.write_record(row.place.labels.iter().cloned().chain(values)).map_err(io::Error::from)?;
    }
    out.flush()
}
