//! Which tracepoints there are on this host, and how their records are laid out.

use crate::RecordError;
use exitscope_trace::tracefs::Format;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// The tracepoints that exitscope makes use of, on any architecture, as `system:name`. Of these, a host has some.
pub const TRACEPOINTS: &[&str] = &[
    // An exit, its end, and the way out to user space.
    "kvm:kvm_exit",
    "kvm:kvm_entry",
    "kvm:kvm_enter",
    "kvm:kvm_reenter",
    "kvm:kvm_userspace_exit",
    "kvm:kvm_s390_sie_enter",
    "kvm:kvm_s390_sie_exit",
    "kvm_booke:kvm_exit",
    "kvm_hv:kvm_guest_exit",
    "kvm_hv:kvm_guest_enter",
    "kvm_pr:kvm_exit",
    "kvm_pr:kvm_book3s_reenter",
    // What it was about.
    "kvm:kvm_pio",
    "kvm:kvm_mmio",
    "kvm:kvm_fast_mmio",
    "kvm:kvm_iocsr",
    "kvm:kvm_msr",
    "kvm:kvm_cr",
    "kvm:kvm_cpuid",
    "kvm:kvm_apic",
    "kvm:kvm_hypercall",
    "kvm:kvm_hv_hypercall",
    "kvm:kvm_xen_hypercall",
    "kvm:kvm_hvc_arm64",
    "kvm:kvm_sys_access",
    "kvm:kvm_handle_sys_reg",
    "kvm:kvm_page_fault",
    "kvm:kvm_guest_fault",
    "kvm:kvm_inj_virq",
    "kvm:kvm_s390_intercept_instruction",
    "kvm:kvm_s390_intercept_prog",
    "kvm:kvm_s390_handle_sigp",
    "kvm:kvm_s390_handle_sigp_pei",
    "kvm:kvm_s390_handle_diag",
    "kvm_hv:kvm_hcall_enter",
    "kvm_hv:kvm_page_fault_enter",
    // Halts, yields, virtual cores.
    "kvm:kvm_vcpu_wakeup",
    "kvm:kvm_halt_poll_ns",
    "kvm:kvm_ple_window_update",
    "kvm:kvm_wfx_arm64",
    "kvm_hv:kvmppc_vcore_wakeup",
    "kvm_hv:kvmppc_run_core",
    "kvm_hv:kvmppc_run_vcpu_enter",
    "kvm_hv:kvmppc_run_vcpu_exit",
];

/// What stands for entries where a back end of x86 knows neither `kvm_exit` nor `kvm_entry`: the guest's FPU state is loaded
/// when KVM_RUN begins.
const WITHOUT_EXITS: &str = "kvm:kvm_fpu";

/// The back ends of x86 that have `kvm_exit`.
const HARDWARE: [&str; 2] = ["/sys/module/kvm_intel", "/sys/module/kvm_amd"];

/// The scheduler's, which tell when a virtual CPU could run and did not.
pub const SCHEDULER: &[&str] = &["sched:sched_switch", "sched:sched_wakeup"];

/// Bytes of a record's common fields, `common_type` to `common_pid`, at which BPF programs may not look.
pub(crate) const COMMON: usize = 8;

/// A tracepoint of this host.
#[derive(Clone, Debug)]
pub struct Tracepoint {
    /// Its group, like `kvm`.
    pub system: String,
    /// Its name, like `kvm_exit`.
    pub name: String,
    /// Its number, which changes from boot to boot.
    pub id: u32,
    /// Bytes of its records, as far as their size is fixed.
    pub size: usize,
    /// The text that says so.
    pub format: String,
    /// Of the scheduler's tracepoints: where its records have the threads that they are about, 4 bytes each.
    pub threads: Vec<usize>,
}

/// Where tracefs is.
pub fn tracefs() -> Result<PathBuf, RecordError> {
    let known = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];
    let mut forbidden = None;
    for path in known.map(PathBuf::from) {
        match fs::read_dir(path.join("events")) {
            Ok(_) => return Ok(path),
            Err(error) if error.kind() == ErrorKind::PermissionDenied => forbidden = forbidden.or(Some(path)),
            Err(_) => {}
        }
    }
    Err(forbidden.map_or(RecordError::NoTracefs, |path| RecordError::Forbidden { path }))
}

/// The tracepoints of KVM that say something here.
pub fn of_kvm(tracefs: &Path) -> Result<Vec<Tracepoint>, RecordError> {
    let is_software = cfg!(target_arch = "x86_64") && !HARDWARE.iter().any(|module| Path::new(module).exists());
    let wanted: Vec<&str> = TRACEPOINTS.iter().copied().chain(is_software.then_some(WITHOUT_EXITS)).collect();
    find(tracefs, &wanted)
}

/// Those of `wanted` (`system:name`) that this host has, in that order; an error if it has none.
pub fn find(tracefs: &Path, wanted: &[&str]) -> Result<Vec<Tracepoint>, RecordError> {
    let mut found = Vec::new();
    for name in wanted {
        let Some((system, name)) = name.split_once(':') else { continue };
        let path = tracefs.join("events").join(system).join(name).join("format");
        match fs::read_to_string(&path) {
            Ok(text) => found.extend(Tracepoint::parse(system, &text)),
            Err(error) if error.kind() == ErrorKind::PermissionDenied => return Err(RecordError::Forbidden { path }),
            Err(_) => {}
        }
    }
    if found.is_empty() { Err(RecordError::NoTracepoints) } else { Ok(found) }
}

impl Tracepoint {
    /// Whether it is the scheduler's, and wanted for threads that were seen in others.
    pub fn is_scheduler(&self) -> bool {
        self.system == "sched"
    }

    /// The tracepoint of this format text.
    pub(crate) fn parse(system: &str, text: &str) -> Option<Tracepoint> {
        let format = Format::parse(text)?;
        let size = format.fields.iter().map(|field| field.offset + field.size).max()?;
        let names = ["prev_pid", "next_pid", "pid"];
        let fields = format.fields.iter().filter(|field| system == "sched" && names.contains(&field.name.as_str()));
        let threads = fields.map(|field| field.offset).collect();
        Some(Tracepoint { system: system.into(), name: format.name, id: format.id, size, format: text.into(), threads })
    }
}

#[cfg(test)]
#[path = "tracepoints_tests.rs"]
mod tests;
