//! What can go wrong, and what to do about it.

use crate::Capability;
use exitscope_units::Nanos;
use std::io;
use std::path::PathBuf;

/// Why nothing is recorded.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// There is no tracefs.
    #[error("no tracefs at /sys/kernel/tracing: mount it with `mount -t tracefs nodev /sys/kernel/tracing`, as root")]
    NoTracefs,
    /// tracefs is there and may not be read.
    #[error(
        "{path} may not be read: run as root, or give {path} to your group: `chgrp -R GROUP {path} && chmod -R g+rX {path}`"
    )]
    Forbidden {
        /// The file that may not be opened.
        path: PathBuf,
    },
    /// The kernel has none of KVM's tracepoints.
    #[error("this kernel has no tracepoints of KVM: load its module (`modprobe kvm_intel`, `kvm_amd`, `kvm_hv`)")]
    NoTracepoints,
    /// Neither way of recording works.
    #[error("neither BPF ({bpf}) nor perf events ({perf}) may be used: {}", Capability::remedy())]
    NoRoute {
        /// Why not BPF.
        bpf: io::Error,
        /// Why not perf events.
        perf: io::Error,
    },
    /// Exits cannot be delayed, as no BPF program may be run.
    #[error(
        "exits cannot be delayed: only a BPF program can, and BPF may not be used ({bpf}): {}",
        Capability::remedy()
    )]
    NoDelay {
        /// Why not BPF.
        bpf: io::Error,
    },
    /// Exits cannot be delayed, as the kernel takes no loops.
    #[error("exits cannot be delayed: this kernel takes no BPF program with a loop; Linux 5.3 and later do")]
    NoBoundedLoop,
    /// Exits cannot be delayed, as the host's clock is too coarse or too slow.
    #[error(
        "exits cannot be delayed: this host's clock is read in steps of {step}, too coarse to bound a delay by; \
         a finer one may be named in /sys/devices/system/clocksource/clocksource0/available_clocksource"
    )]
    CoarseClock {
        /// From one reading to the next, where they differ.
        step: Nanos,
    },
    /// A delay that is too long.
    #[error("a delay of {asked} is too long: a single exit is delayed by at most {most}")]
    DelayTooLong {
        /// The delay.
        asked: Nanos,
        /// The longest.
        most: Nanos,
    },
    /// The exits that were asked for have no tracepoint that fires here.
    #[error("{exits} cannot be delayed: {why}")]
    NotDelayable {
        /// Which exits.
        exits: String,
        /// Why not.
        why: String,
    },
    /// The kernel refuses a program: our mistake, or a kernel that does things otherwise.
    #[error("the kernel refuses the BPF program for {tracepoint}: {error}\n{log}")]
    Refused {
        /// For which.
        tracepoint: String,
        /// What it returned.
        error: io::Error,
        /// What its verifier says.
        log: String,
    },
    /// A system call failed.
    #[error("{what}: {error}")]
    Io {
        /// The operation that failed.
        what: String,
        /// The operating system's error.
        error: io::Error,
    },
}

impl RecordError {
    pub(crate) fn io(what: impl Into<String>, error: io::Error) -> RecordError {
        RecordError::Io { what: what.into(), error }
    }
}
