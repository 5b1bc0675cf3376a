//! The rows of a report as CSV.

use crate::page::ABOUT;
use crate::{ExitFigures, GroupKeyRow, MetricRow, Replay, Report, Sweep};
use exitscope_analysis::Dimension;
use exitscope_model::encode::csv_field;
use std::io::{self, Write};

/// A column: its heading, and the cell of a row.
type Column<Row> = (&'static str, fn(&Row) -> String);

/// The figures of a group, under their JSON names.
const FIGURES: [Column<ExitFigures>; 23] = [
    ("count", |of| of.count.to_string()),
    ("timed", |of| of.timed.to_string()),
    ("rate_per_s", |of| of.rate_per_s.to_string()),
    ("exit_time_ns", |of| text(of.exit_time_ns)),
    ("cost_ns", |of| text(of.cost_ns)),
    ("share_of_cost", |of| text(of.share_of_cost)),
    ("kernel_ns", |of| text(of.times.kernel_ns)),
    ("user_space_ns", |of| text(of.times.user_space_ns)),
    ("polling_ns", |of| text(of.times.polling_ns)),
    ("halted_ns", |of| text(of.times.halted_ns)),
    ("halt_not_divided_ns", |of| text(of.times.halt_not_divided_ns)),
    ("waiting_for_memory_ns", |of| text(of.times.waiting_for_memory_ns)),
    ("steal_ns", |of| text(of.times.steal_ns)),
    ("stopped_ns", |of| text(of.times.stopped_ns)),
    ("unknown_ns", |of| text(of.times.unknown_ns)),
    ("min_ns", |of| text(of.min_ns)),
    ("mean_ns", |of| text(of.mean_ns)),
    ("p50_ns", |of| text(of.p50_ns)),
    ("p90_ns", |of| text(of.p90_ns)),
    ("p99_ns", |of| text(of.p99_ns)),
    ("p999_ns", |of| text(of.p999_ns)),
    ("max_ns", |of| text(of.max_ns)),
    ("user_space_share", |of| of.user_space_share.to_string()),
];

/// What says which group a row is, along a dimension.
fn place_columns(dim: Dimension) -> &'static [Column<GroupKeyRow>] {
    match dim {
        Dimension::Vm => &[("vm", |place| text(place.who.vm)), ("vm_name", |place| text(place.who.vm_name.as_ref()))],
        Dimension::Vcpu => &[
            ("vcpu", |place| text(place.who.vcpu)),
            ("tid", |place| text(place.who.tid)),
            ("on_cpu", |place| text(place.who.on_cpu)),
        ],
        Dimension::Reason => &[("reason", |place| text(place.reason.as_ref()))],
        Dimension::Subject => {
            &[("subject_kind", |place| text(place.subject_kind)), ("subject_key", |place| text(place.subject_key))]
        }
        Dimension::Handler => &[("handler", |place| text(place.handler.as_ref()))],
        Dimension::Port => &[("port", |place| text(place.port))],
        Dimension::Mmio => &[("mmio", |place| text(place.mmio))],
        Dimension::Msr => &[("msr", |place| text(place.msr))],
        Dimension::Hypercall => &[("hypercall", |place| text(place.hypercall))],
        Dimension::Cpuid => &[("cpuid", |place| text(place.cpuid))],
        Dimension::Rip => &[("rip", |place| text(place.rip)), ("function", |place| text(place.function.as_ref()))],
        Dimension::Cpu => &[("cpu", |place| text(place.cpu))],
        Dimension::Time(_) => &[("time_ns", |place| text(place.time_ns))],
    }
}

/// What says more of a group, if a dimension is of subjects.
const SUBJECT_COLUMNS: &[Column<GroupKeyRow>] =
    &[("direction", |place| text(place.direction)), ("subject_name", |place| text(place.subject_name.as_ref()))];

/// What says which group a row is, along these dimensions.
fn places(by: &[Dimension]) -> impl Iterator<Item = &'static Column<GroupKeyRow>> {
    let is_about = by.iter().any(|dim| *dim == Dimension::Subject || ABOUT.contains(dim));
    by.iter().flat_map(|dim| place_columns(*dim)).chain(if is_about { SUBJECT_COLUMNS } else { &[] })
}

/// The names of the columns that say which group a row is, along these dimensions.
pub fn place_names(by: &[Dimension]) -> Vec<&'static str> {
    places(by).map(|column| column.0).collect()
}

/// Writes the rows with a heading: which group, then its figures, all under their JSON names and as JSON has them.
/// Empty where JSON has nothing.
pub fn write_csv(report: &Report, out: impl Write) -> io::Result<()> {
    let mut out = csv::Writer::from_writer(out);
    let places: Vec<_> = places(&report.by).collect();
    let headings = places.iter().map(|column| column.0).chain(FIGURES.map(|column| column.0));
    out.write_record(headings).map_err(io::Error::from)?;
    for row in &report.rows {
        let places = places.iter().map(|column| csv_field(&column.1(&row.place)).into_owned());
        let figures = FIGURES.iter().map(|column| column.1(&row.figures));
        out.write_record(places.chain(figures)).map_err(io::Error::from)?;
    }
    out.flush()
}

/// Writes the figures of a simulated run, one a line.
pub fn write_metrics_csv(metrics: &[MetricRow], out: impl Write) -> io::Result<()> {
    let mut out = csv::Writer::from_writer(out);
    out.write_record(["metric", "value", "unit"]).map_err(io::Error::from)?;
    for MetricRow { name, value, unit, measure: _ } in metrics {
        out.write_record([name.as_str(), &value.to_string(), unit.name()]).map_err(io::Error::from)?;
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
    let last = ["recorded", "in_force", "best"].map(String::from);
    out.write_record(replay.columns().into_iter().chain(last)).map_err(io::Error::from)?;
    for row in &replay.rows {
        let last = [row.recorded, row.in_force, row.best].map(|is| is.to_string());
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

fn text(value: Option<impl ToString>) -> String {
    value.map_or(String::new(), |value| value.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ExitSums, GroupRow};
    use exitscope_model::WhoRow;

    #[test]
    fn each_column_holds_what_json_has_under_its_name() {
        let figures = ExitFigures {
            count: 1,
            timed: 2,
            rate_per_s: 3.5,
            exit_time_ns: Some(4),
            cost_ns: Some(5),
            share_of_cost: Some(0.6),
            times: ExitSums {
                kernel_ns: Some(7),
                user_space_ns: Some(8),
                polling_ns: Some(9),
                halted_ns: Some(10),
                halt_not_divided_ns: Some(41),
                waiting_for_memory_ns: Some(42),
                steal_ns: Some(43),
                stopped_ns: Some(44),
                unknown_ns: Some(45),
            },
            min_ns: Some(11),
            mean_ns: Some(12),
            p50_ns: Some(13),
            p90_ns: Some(14),
            p99_ns: Some(15),
            p999_ns: Some(16),
            max_ns: Some(17),
            user_space_share: 0.18,
        };
        let place = GroupKeyRow {
            who: WhoRow { vm: Some(21), vm_name: Some("name".into()), vcpu: Some(22), tid: Some(23), on_cpu: Some(24) },
            reason: Some("reason".into()),
            handler: Some("handler".into()),
            port: Some(25),
            mmio: Some(26),
            msr: Some(27),
            hypercall: Some(28),
            cpuid: Some(29),
            rip: Some(30),
            function: Some("function".into()),
            subject_kind: Some("kind"),
            subject_key: Some(33),
            subject_name: Some("of".into()),
            direction: Some("in"),
            cpu: Some(31),
            time_ns: Some(32),
            labels: Vec::new(),
        };
        let json = serde_json::to_value(GroupRow { place: place.clone(), figures: figures.clone() }).unwrap();
        let places = Dimension::ALL.into_iter().flat_map(place_columns).chain(SUBJECT_COLUMNS);
        let cells = places.map(|column| (column.0, column.1(&place)));
        let cells: Vec<_> = cells.chain(FIGURES.map(|column| (column.0, column.1(&figures)))).collect();
        for (name, found) in &cells {
            assert_eq!(*found, cell(&json[name]), "{name}");
        }
        assert_eq!(cells.len(), json.as_object().unwrap().len());
    }
}
