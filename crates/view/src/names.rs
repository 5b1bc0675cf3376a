//! How things are called on screen and in files.

use exitscope_model::codes::detail_name;
use exitscope_model::{CodeList, DetailKind, Door, ExitCode};

/// `kernel`, or the kernel's name of the user-space reason.
pub fn door(door: Door) -> String {
    match door {
        Door::Kernel => "kernel".to_string(),
        Door::Userspace(reason) => user_reason(reason),
    }
}

/// `KVM_EXIT_IO`, …
pub fn user_reason(reason: u32) -> String {
    ExitCode::new(CodeList::KvmExit, u64::from(reason)).name()
}

/// What a kind of detail is called: in JSON, and as a heading.
pub fn kind(kind: DetailKind) -> (&'static str, &'static str) {
    match kind {
        DetailKind::PageFault => ("page_fault", "Page faults, by error code or fault status"),
        DetailKind::Apic => ("apic", "Local APIC registers"),
        DetailKind::ControlRegister => ("control_register", "Control registers"),
        DetailKind::SystemRegister => ("system_register", "System registers"),
        DetailKind::Instruction => ("instruction", "Intercepted instructions"),
        DetailKind::Program => ("program_interruption", "Program interruptions"),
        DetailKind::Sigp => ("sigp", "SIGP orders"),
        DetailKind::Cpuid => ("cpuid", "CPUID leaves"),
        DetailKind::Mmio => ("mmio", "MMIO regions"),
        DetailKind::Port => ("port", "I/O ports"),
        DetailKind::Msr => ("msr", "MSRs"),
        DetailKind::Hypercall => ("hypercall", "Hypercalls"),
        DetailKind::HypervHypercall => ("hyperv_hypercall", "Hyper-V hypercalls"),
        DetailKind::XenHypercall => ("xen_hypercall", "Xen hypercalls"),
        DetailKind::PpcHcall => ("hcall", "Hypercalls"),
        DetailKind::Hvc => ("hvc", "HVC and SMC calls, by function"),
        DetailKind::Diag => ("diagnose", "Diagnoses"),
    }
}

/// Which way the guest went, where that has a meaning: `out`, `in`, `write`, `read`.
pub fn direction(kind: DetailKind, write: bool) -> Option<&'static str> {
    match (kind, write) {
        (DetailKind::Port, true) => Some("out"),
        (DetailKind::Port, false) => Some("in"),
        (DetailKind::Mmio | DetailKind::Msr | DetailKind::Apic | DetailKind::ControlRegister, true) => Some("write"),
        (DetailKind::Mmio | DetailKind::Msr | DetailKind::Apic | DetailKind::ControlRegister, false) => Some("read"),
        _ => None,
    }
}

/// `0x3f8 out COM1`, `MSR_IA32_TSC_DEADLINE write`, …
pub fn detail(of: DetailKind, key: u64, write: bool) -> String {
    let mut text = match (of, detail_name(of, key)) {
        (DetailKind::Port | DetailKind::Mmio | DetailKind::Cpuid, _) | (_, None) => format!("{key:#x}"),
        (_, Some(name)) => name.to_string(),
    };
    if let Some(direction) = direction(of, write) {
        text.push(' ');
        text.push_str(direction);
    }
    if let (DetailKind::Port | DetailKind::Mmio, Some(name)) = (of, detail_name(of, key)) {
        text.push(' ');
        text.push_str(name);
    }
    text
}

/// `1,234,567`.
pub fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `12.3%`; `<0.1%` for what is not nothing.
pub fn percent(part: u64, whole: u64) -> String {
    if whole == 0 {
        return "-".to_string();
    }
    let tenths = (u128::from(part) * 1_000 + u128::from(whole) / 2) / u128::from(whole);
    match (tenths, part) {
        (0, 0) => "0%".to_string(),
        (0, _) => "<0.1%".to_string(),
        _ => format!("{}.{}%", tenths / 10, tenths % 10),
    }
}
