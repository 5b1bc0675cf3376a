//! What can go wrong, and what to do about it.

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
    #[error(
        "neither BPF ({bpf}) nor perf events ({perf}) may be used: run as root, or \
         `setcap cap_bpf,cap_perfmon,cap_dac_read_search+ep` this program"
    )]
    NoRoute {
        /// Why not BPF.
        bpf: io::Error,
        /// Why not perf events.
        perf: io::Error,
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
