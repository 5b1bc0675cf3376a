//! What people and scripts are shown.
//!
//! ```text
//! Facts, ledger ─► Report (plain data, the JSON schema) ─┬─► JSON
//! Outcomes ─► Simulated, Sweep ──────────────────────────┼─► CSV
//!                                                        └─► Page (titles, sentences, tables) ─► text
//! ```
//!
//! Does not know: where rows came from.

mod advice;
mod advice_files;
mod advice_page;
mod compare;
mod compare_verdict;
mod csv_rows;
mod doctor_page;
pub mod documents;
mod events;
mod figure_unit;
mod fleet;
mod gang;
mod gang_page;
mod halt;
mod halt_page;
mod headline;
mod hidden;
mod lab;
mod lab_costs;
mod lab_page;
mod names;
mod page;
mod phases;
mod phases_page;
mod pio;
mod pio_page;
mod recorded;
mod replay;
mod replay_figures;
mod replay_page;
mod report;
mod simulated;
mod simulated_page;
mod summary;
mod sweep;
mod sweep_metrics;
mod sweep_page;
mod sweep_verdict;
mod text;
mod times;
mod verdict;
mod yield_page;
mod yields;

pub use advice::{AdviceRow, AdviceSettingRow, Advised, AdvisedCauseRow, FactRow, GainRow, LeftAloneRow, NotJudgedRow};
pub use advice_files::{Form, write_settings};
pub use advice_page::advice_page;
pub use compare::{ChangeRow, Compared, Comparison, SideRow};
pub use compare_verdict::DiffVerdictRow;
pub use csv_rows::{write_csv, write_metrics_csv, write_replay_csv, write_sweep_csv};
pub use doctor_page::{CheckRow, Checkup, doctor_page};
pub use events::{EventRow, event_text};
pub use figure_unit::FigureUnit;
pub use fleet::{Fleet, FleetAdvice, FleetComparison, FleetSide, LeftOutFile, Outlier, Shape, fleet_page};
pub use gang::{CauseRow, GangRows};
pub use halt::{ClockRow, GapRow, HaltRows, LengthsRow, PollSettingsRow};
pub use headline::Headline;
pub use hidden::{HiddenReason, HiddenTime};
pub use lab::{LabFigure, LabReport, LabRow, LabTable, ManifestRow};
pub use lab_costs::{LabCostsError, lab_costs};
pub use lab_page::{lab_comparison_page, lab_page, write_benchstat, write_lab_csv};
pub use names::{NO_SUBJECT, detail as detail_label, detail_of_kind, plural, rate, share, thousands};
pub use page::{
    Column, Page, Section, Sentence, Table, View, column, comparison_page, length, plain, report_page, view_page,
};
pub use phases::{PhaseRow, PhaseRows, RemovableRow};
pub use pio::{PioRow, PioRows, PioSum};
pub use recorded::{HostSettingRow, own};
pub use replay::{DecisionsRow, FigureRow, Replay, ReplayRow, SettingRow};
pub use replay_figures::{NoSuchFigure, ReplayTable};
pub use replay_page::replay_page;
pub use report::{
    Coverage, CoverageLine, Figures, Made, Place, Report, Row, RunStatesRow, SelectionRow, SlowRow, SortKey, StaysRow,
    ToldRow, TraceRow, VcpuRow, WhenRow,
};
pub use simulated::{
    CostsRow, LatencyRow, LocksRow, MetricRow, PollsRow, ReasonRow, ScenarioRow, Simulated, SimulatedVm, WorkRow,
    YieldsRow,
};
pub use simulated_page::simulated_page;
pub use summary::write_summary;
pub use sweep::{AxisRow, Configuration, Sweep, SweepMetric, SweepRow};
pub use sweep_metrics::{SweepMetrics, SweepMetricsError};
pub use sweep_page::sweep_page;
pub use text::{Look, write_page};
pub use times::{ExitTimes, VcpuTimes};
pub use verdict::{BestChangeRow, VerdictRow, VerdictWords};
pub use yields::{LongestRow, PreemptedRow, QueueRow, TargetRow, WindowRow, YieldRow, YieldRows};
