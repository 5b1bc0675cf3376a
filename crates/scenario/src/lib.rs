//! Scenarios: what the simulator and the lab run, and what came of it. Host, guests, their programs, policies and costs, as one value.
//!
//! ```text
//! Scenario ┬ HostSpec ── Scheduler
//!          ├ CostModel ── CostFigure (time, origin, source), by the name of a machine: models/*.toml
//!          ├ Policies (knobs, from the policy crate)
//!          ├ VmSpec … ── Program, Disk, HandlerSpec
//!          ├ HostThread … ── Program
//!          └ Channel …, Load …
//!
//! scenario.toml ─► ScenarioDocument ─ set("duration", "5s") … ─► Scenario, or ScenarioError with line and column
//! Scenario ─► the simulator ─► SimOutcome; the lab ─► Findings: plain data
//! ```

mod assumptions;
mod costs;
pub mod findings;
mod guest;
mod host;
mod library;
mod models;
pub mod outcome;
mod program;
mod scenario;
mod set_key;
pub mod text;
pub mod vary_axis;

pub use assumptions::{Assumption, assumptions};
pub use costs::{AssumedRange, CostFigure, CostModel, CostOrigin, ExitSpread, SmtSpeed};
pub use exitscope_policy::Policies;
pub use guest::{Arrival, Channel, Disk, Doorbell, HandlerSpec, HostThread, Load, RegistrationKind, SpinWait, VmSpec};
pub use host::{Arch, HostSpec, Scheduler, YieldRules};
pub use library::{LIBRARY, LibraryProgram};
pub use models::models;
pub use program::{Op, Program, TimeDistribution};
pub use scenario::Scenario;
pub use text::{ScenarioDocument, ScenarioError, nearest_name};
