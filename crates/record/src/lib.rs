//! Records the tracepoints of KVM on this host, as cheaply as it can be done.
//!
//! ```text
//! tracepoint ─► BPF program: copies the record ─► a ring for each CPU, nobody is woken ┐
//!         or ─► perf_event_open: a ring for each CPU ──────────────────────────────────┴─► drain, now and then:
//!                                                                       TracepointSamples in the order of time
//! ```
//!
//! Or nothing is copied, and exits are counted where they happen: see [`Aggregation`].
//!
//! [`of_kvm`] looks which tracepoints there are, [`Capture::start`] begins. Guests are never waited for: where a ring is full,
//! a record is lost and counted. Only what runs on the CPU of an exit costs the guest time, so that is kept short: no
//! lookup by thread, no wake-up, and what is not wanted is refused by the BPF program before anything is copied.
//!
//! Or exits are made longer on purpose, to find what their length is worth: see [`ExitDelay`].
//!
//! The BPF programs are assembled here from the places that tracefs gives for each tracepoint's fields: neither clang nor
//! BTF is needed, neither when exitscope is built nor when it runs. Where the kernel has BTF, programs that count look at
//! what tracepoints are given, which is cheaper, instead of at records.
//!
//! `unsafe` is here for system calls and for memory that is shared with the kernel.
#![cfg(target_os = "linux")]

mod aggregate;
mod bpf;
mod btf;
mod bytes;
mod capabilities;
mod capture;
mod error;
mod mapping;
mod perf_events;
mod stats;
mod sys;
mod tracepoints;
mod vms;

pub use aggregate::{
    Aggregation, CountAndTime, CountKey, CountedKind, CountedSubject, CountedVcpu, CountedVcpuState, CountingCost,
    CountingOptions, HaltWakeUps, OpenExit, Snapshot, VcpuRunner,
};
pub use bpf::{DelayCounts, DelayedExits, ExitDelay};
pub use capabilities::{CAPABILITIES, Capability, Without};
pub use capture::{Capture, CaptureOptions, Drained, Processes, TracepointSample, TracingBackend};
pub use error::RecordError;
pub use stats::{Stats, vcpu_stats};
pub use sys::measure_programs;
pub use tracepoints::{Tracepoint, of_calls, of_kvm, of_scheduler, tracefs};
pub use vms::{
    KVM_DEBUGFS, MachineOf, VmLookupError, VmProcess, machine_of, one_vm, thread_name, threads_named_as_vcpus,
    vcpu_threads, vm_names, vms, vms_called, worker_threads,
};
