//! The lab: programs on real KVM guests, and what their exits cost.
//!
//! ```text
//!            abi (shared with guest/)                              account, events
//!               │                                                       ▲
//! Payload ── steps, knobs ──► LabVm, LabVcpu ──► run() ─► KvmExit ─► serve (handlers, delay, locks, registers, parkers)
//!               ▲                ▲                                      │
//!            samples          Watch: time, signals, crashes             └─► Bench: turns of one thing to measure
//!               │                                                              │
//!               └────────── LabSession: rounds, speed; Series ◄─────────────────┘ ──► Findings (tables, sentences)
//! ```
//!
//! Nothing here needs root where `/dev/kvm` may be opened. A guest has 32 MiB of memory and nothing of the host; a run has
//! a limit of time; SIGINT, SIGTERM and SIGHUP, a crash and a guest that never ends all lead out of [`Watch::run`] with an error
//! that says so, with every thread gone.
//!
//! [`running_guests`] measures nothing: its guests run on, for whoever changes their settings in files and reads a counter.
//!
//! # How to add an experiment
//!
//! 1. Write `src/<name>.rs` with `pub fn run(machine: &LabMachine, plan: &MeasurePlan, keep_events: bool) ->
//!    Result<(Findings, Vec<Event>), LabError>`; `exits.rs` is an example.
//! 2. What the guest does is a program of [`abi::op`] steps, run by the payload in `guest/`. A new kind of step is a number
//!    there and an arm in `guest/src/program.rs`; the policies (idling, yielding) are already behind `RECEIVE` and `LOCK`,
//!    with the knobs of the [`Payload`]'s `Policies` and the flags of [`abi::machine`].
//! 3. Who answers its exits: a [`bench::Spec`] if the usual handlers do, and [`bench::Bench::turn`] runs it. With a run loop or
//!    a dispatcher of your own: [`LabVm::new`], [`Payload::new`] and `load`, then [`Watch::run`] (a thread for each vCPU) or
//!    [`Watch::run_jobs`] (threads as you like) around [`next_exit`] or [`LabVcpu::run`]. A [`LabVcpu`] is a value: any thread may
//!    run it, [`Kick::kick`] brings it out. Doorbells come as [`KvmExit::Bell`]. Wait for others on a [`Parker`] only, so that
//!    the end of the run reaches you.
//! 4. Take turns with [`session::LabSession`], which also makes the findings, collect in a [`measure::Series`], put
//!    [`FindingFigure`](exitscope_scenario::findings::FindingFigure)s into rows. What cannot be done here is a row with `cannot`.
//! 5. In the command: an arm of `LabCommand` (`cli.rs`) with [`exits`]'s flags, a line in `EXPERIMENTS` and an arm in
//!    `lab.rs`. Text, JSON, CSV, benchstat, `--against` and `--trace` then work as they are.
//! 6. A test in `crates/exitscope/tests/lab.rs` with counts that are known, and a section in docs/lab.md.

pub mod abi;
pub mod agree;
pub mod bench;
mod boot;
mod compile;
pub mod compute_speed;
pub mod delay;
mod delay_plan;
pub mod device_model;
pub mod dispatcher;
pub mod doctor;
mod error;
pub mod events;
pub mod exit_account;
pub mod exits;
pub mod followed;
pub mod gang;
pub mod haltpoll;
pub mod hidden;
pub mod host;
pub mod in_turns;
pub mod instruction_counts;
mod load_generator;
pub mod loaded_vm;
pub mod machine;
pub mod measure;
mod memory;
pub mod others;
mod payload;
pub mod pio;
mod placement;
pub mod run;
mod run_limits;
pub mod run_loop;
pub mod running_guests;
pub mod session;
mod setting_file;
mod span;
mod stats;
mod thread_use;
mod tracefs;
pub mod tracer;
pub mod vcores;
mod vcpu;
pub mod virtual_speedup;
mod vm;
pub mod vmexit;
pub mod yielding;

pub use boot::PrivilegeRing;
pub use error::LabError;
pub use machine::{LabMachine, ticks};
pub use memory::{GuestMemory, PlainData};
pub use payload::{Payload, sampled, step};
pub use placement::KeptThreads;
pub use run_limits::{Parker, Watch, next_exit};
pub use span::Span;
pub use vcpu::{Kick, KvmExit, LabVcpu};
pub use vm::{IoAddress, LabVm, VmConfig, open_kvm};
