//! The rows of a report as CSV.

use crate::page::ABOUT;
use crate::{MetricRow, Place, Replay, Report, Sweep};
use exitscope_model::encode::csv_field;
use std::io::{self, Write};

/// A column that says which group a row is.
type KeyColumn = (&'static str, fn(&Place) -> String);

/// Writes the rows with a heading: which group, then its figures, all under their JSON names and as JSON has them.
/// Empty where JSON has nothing.
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
    let keys = key_columns(&report.by);
    out.write_record(keys.iter().map(|key| key.0).chain(headings)).map_err(io::Error::from)?;
    for row in &report.rows {
        let figures = &row.figures;
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
            text(figures.min_ns),
            text(figures.mean_ns),
            text(figures.p50_ns),
            text(figures.p90_ns),
            text(figures.p99_ns),
            text(figures.p999_ns),
            text(figures.max_ns),
            figures.user_share.to_string(),
        ];
        out.write_record(keys.iter().map(|key| csv_field(&key.1(&row.place)).into_owned()).chain(values))
            .map_err(io::Error::from)?;
    }
    out.flush()
}

/// Writes the figures of a simulated run, one a line.
pub fn write_metrics_csv(metrics: &[MetricRow], out: impl Write) -> io::Result<()> {
    let mut out = csv::Writer::from_writer(out);
    out.write_record(["metric", "value", "unit"]).map_err(io::Error::from)?;
    for MetricRow { name, value, unit } in metrics {
        out.write_record([name.as_str(), &value.to_string(), unit]).map_err(io::Error::from)?;
    }
    out.flush()
}

/// Writes the configurations of a sweep, one a line: what was varied, then the figures.
pub fn write_sweep_csv(sweep: &Sweep, out: impl Write) -> io::Result<()> {
    let mut out = csv::Writer::from_writer(out);
    let last = ["replicates", "best", "pareto", "error"].map(String::from);
    out.write_record(sweep.columns().into_iter().chain(last)).map_err(io::Error::from)?;
    for row in &sweep.rows {
        let values = row.columns.values().map(cell);
        let last = [
            row.replicates.to_string(),
            row.best.to_string(),
            row.pareto.to_string(),
            csv_field(&text(row.error.as_ref())).into_owned(),
        ];
        out.write_record(values.chain(last)).map_err(io::Error::from)?;
    }
    out.flush()
}

/// Writes the settings of a replay, one a line: what was varied, then the figures.
pub fn write_replay_csv(replay: &Replay, out: impl Write) -> io::Result<()> {
    let mut out = csv::Writer::from_writer(out);
    let last = ["in_force", "best"].map(String::from);
    out.write_record(replay.columns().into_iter().chain(last)).map_err(io::Error::from)?;
    for row in &replay.rows {
        let last = [row.in_force.to_string(), row.best.to_string()];
        out.write_record(row.columns.values().map(cell).chain(last)).map_err(io::Error::from)?;
    }
    out.flush()
}

fn cell(value: &serde_json::Value) -> String {
    match value {
        serde_json::Value::String(text) => csv_field(text).into_owned(),
        serde_json::Value::Null => String::new(),
        value => value.to_string(),
    }
}

fn key_columns(by: &[&str]) -> Vec<KeyColumn> {
    let mut columns: Vec<KeyColumn> = Vec::new();
    for &dim in by {
        match dim {
            "vm" => {
                columns.push(("vm", |place| text(place.who.vm)));
                columns.push(("vm_name", |place| text(place.who.vm_name.as_ref())));
            }
            "vcpu" => {
                columns.push(("vcpu", |place| text(place.who.vcpu)));
                columns.push(("tid", |place| text(place.who.tid)));
                columns.push(("on_cpu", |place| text(place.who.on_cpu)));
            }
            "reason" => columns.push(("reason", |place| text(place.reason.as_ref()))),
            "door" => columns.push(("door", |place| text(place.door.as_ref()))),
            "port" => columns.push(("port", |place| text(place.port))),
            "mmio" => columns.push(("mmio", |place| text(place.mmio))),
            "msr" => columns.push(("msr", |place| text(place.msr))),
            "hypercall" => columns.push(("hypercall", |place| text(place.hypercall))),
            "cpuid" => columns.push(("cpuid", |place| text(place.cpuid))),
            "rip" => {
                columns.push(("rip", |place| text(place.rip)));
                columns.push(("function", |place| text(place.function.as_ref())));
            }
            "cpu" => columns.push(("cpu", |place| text(place.cpu))),
            _ => columns.push(("time_ns", |place| text(place.time_ns))),
        }
    }
    if by.iter().any(|dim| ABOUT.contains(dim)) {
        columns.push(("direction", |place| text(place.direction)));
        columns.push(("name", |place| text(place.name.as_ref())));
    }
    columns
}

fn text(value: Option<impl ToString>) -> String {
    value.map_or(String::new(), |value| value.to_string())
}
