//! What people and scripts are shown.
//!
//! ```text
//! Facts, ledger ─► Report (plain data, the JSON schema) ─┬─► JSON
//! SimOutcome ─► SimReport, Sweep ────────────────────────┼─► CSV
//!                                                        └─► Page (titles, sentences, tables) ─► text
//! ```
//!
//! Does not know: where rows came from.

mod advice;
mod advice_files;
mod advice_page;
mod compare;
mod compare_verdict;
mod counts;
mod counts_page;
mod csv_rows;
mod doctor_page;
pub mod documents;
mod events;
mod exit_bound;
mod exit_tables;
mod exit_tables_page;
mod figure_unit;
mod fleet;
mod gang;
mod gang_page;
mod halt;
mod halt_page;
mod headline;
mod hidden;
mod host_settings;
mod idle_polls;
mod interrupts;
mod interrupts_page;
mod lab;
mod lab_costs;
mod lab_page;
mod mail;
mod markdown;
mod mechanisms;
mod metric_row;
mod names;
mod operation_costs;
mod page;
mod page_html;
mod palette;
mod phases;
mod phases_page;
mod pio;
mod pio_page;
mod predictions;
mod python_types;
mod replay;
mod replay_figures;
mod replay_page;
mod report;
mod sections;
mod sides;
mod sim_check;
mod simulated;
mod simulated_page;
mod steal_takers;
mod summary;
mod sweep;
mod sweep_metrics;
mod sweep_page;
mod sweep_verdict;
mod text;
mod times;
mod trial_history;
mod trial_report;
mod trial_sensitivity;
mod uncertainty;
mod verdict;
mod verdict_context;
mod vm_identities;
mod vm_identities_page;
mod yield_page;
mod yields;

pub use advice::{
    AcceptedCostRow, AdviceReport, AdviceRow, AdviceSettingRow, AdvisedCauseRow, CitedFactRow, GainRow, NotJudgedRow,
};
pub use advice_files::{SettingsFormat, write_settings};
pub use advice_page::advice_page;
pub use compare::{ChangeRow, Comparison, ReasonComparison, SideRow};
pub use compare_verdict::DiffVerdictRow;
pub use counts::{
    AcceptedCountRow, ComparedRow, CountChangeRow, CountFactRow, CountNotJudgedRow, CountRow, CountedTexts,
    CountsAdviceRow, CountsComparison, CountsReport, CountsRow, NotComparedRow, SystemChangeRow,
};
pub use counts_page::{counts_advice_page, counts_comparison_page, counts_page};
pub use csv_rows::{place_names, write_csv, write_metrics_csv, write_replay_csv, write_sweep_csv};
pub use doctor_page::{CheckRow, DoctorReport, doctor_page};
pub use events::{EventRow, event_text};
pub use exit_bound::{ExitBoundRow, GuestCheckRow};
pub use exit_tables::{
    CostliestRow, ExitTableComparison, ExitTableReport, HaltsWithinRow, NextRow, TableChangeRow, TableRow,
};
pub use figure_unit::FigureUnit;
pub use fleet::{
    Fleet, FleetAdvice, FleetBy, FleetComparison, FleetSide, FleetUnit, LeftOutFile, Outlier, Shape, fleet_page,
};
pub use gang::{ForcingExitsRow, GangRows, GangScriptRow, gang_script};
pub use halt::{ClockRow, DurationStatsRow, GapRow, HaltRows, PollSettingsRow};
pub use headline::Headline;
pub use hidden::{HiddenReason, HiddenTime};
pub use host_settings::HostSettingRow;
pub use idle_polls::{IdlePollRow, IdlePollRows};
pub use interrupts::{ApicExitRow, ApicExitSums, InhibitRow, InterruptRows, VmApicvRow};
pub use lab::{LabFigure, LabReport, LabRow, LabTable, ManifestRow};
pub use lab_costs::{LabCostsError, lab_costs};
pub use lab_page::{lab_comparison_page, lab_page, write_benchstat, write_lab_csv};
pub use mail::mail_text;
pub use markdown::write_markdown;
pub use mechanisms::{MECHANISM_COLUMNS, MECHANISMS, MechanismCell, MechanismRow, write_mechanisms};
pub use metric_row::MetricRow;
pub use names::{NO_SUBJECT, detail as detail_label, detail_of_kind, plural, rate, share, thousands};
pub use operation_costs::{OperationChangeRow, OperationComparison, OperationCostsReport, OperationRow};
pub use page::{
    MechanismView, Page, PageSection, Sentence, Table, TableColumn, VCPU_ROWS, column, comparison_page, length, plain,
    report_page, view_page,
};
pub use page_html::write_page_html;
pub use palette::{Palette, part_character, part_colour};
pub use phases::{PhaseRow, PhaseRows, RemovableRow};
pub use pio::{PioRow, PioRows, PioSum};
pub use predictions::{FiledPrediction, PredictionLine, PredictionScore, PredictionTally, predictions_page};
pub use python_types::write_python_types;
pub use replay::{DecisionsRow, FigureRow, KnobValueRow, Replay, ReplayRow};
pub use replay_figures::{NoSuchFigure, ReplayTable};
pub use replay_page::replay_page;
pub use report::{
    Coverage, CoverageLine, EventKindsRow, ExitFigures, GroupKeyRow, GroupRow, MomentSpecRow, Report, ReportOptions,
    RunStatesRow, SelectionRow, SlowExitRow, SortKey, StayStatsRow, TraceRow, VcpuRow,
};
pub use sides::SidesRow;
pub use sim_check::{CheckedFigure, SimCheck};
pub use simulated::{
    CostsRow, LatencyRow, LocksRow, PollsRow, ReasonRow, ScenarioRow, SimReport, SimulatedVm, WorkRow, YieldsRow,
};
pub use simulated_page::simulated_page;
pub use summary::write_summary;
pub use sweep::{AxisRow, Configuration, Sweep, SweepMetric, SweepRow};
pub use sweep_metrics::{SweepMetrics, SweepMetricsError};
pub use sweep_page::sweep_page;
pub use text::{TerminalStyle, write_page};
pub use times::{ExitSums, ExitTimes, VcpuTimes};
pub use trial_history::{ruling_in_words, trial_history_page};
pub use trial_report::{
    BlockChangeRow, CauseRateRow, PredictedFromRow, PredictionRow, TrialBlockRow, TrialCauseRow, TrialEffectRow,
    TrialLeftRow, TrialPlanRow, TrialReport, TrialVerdictRow, TriedSettingRow, trial_causes_page, unit_name,
};
pub use trial_sensitivity::{DelayLevelRow, SensitivityRow, trial_delays_page};
pub use uncertainty::{
    AssumedRuns, AssumptionRow, ConfigurationRuns, GainUncertainty, MovedBy, RunFigures, UncertainFigure,
    UncertainGain, UncertaintyReport,
};
pub use verdict::{BestChangeRow, VerdictRow, VerdictWords};
pub use vm_identities::VmIdentityRow;
pub use yields::{PleWindowRow, PreemptedRow, PreemptionRow, QueueRow, TargetRow, YieldRow, YieldRows};
