//! Every metric, once.

use exitscope_model::TimePart;
use std::io::{self, Write};

/// A metric, or several that differ in their labels.
#[derive(Debug, PartialEq, Eq)]
pub struct Family {
    /// Its name, without unit and without what its kind adds.
    pub name: &'static str,
    /// What kind it is.
    pub kind: MetricKind,
    /// Its unit, if it has one: `seconds` or `bytes`.
    pub unit: Option<&'static str>,
    /// Its labels.
    pub labels: &'static [&'static str],
    /// What it says, in a sentence without a full stop.
    pub help: &'static str,
}

/// What kind a metric is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricKind {
    /// It only grows.
    Counter,
    /// It goes up and down.
    Gauge,
    /// How many were how long.
    Histogram,
    /// Always 1; its labels say something.
    Info,
}

impl Family {
    /// Its name with its unit.
    pub fn full_name(&self) -> String {
        match self.unit {
            Some(unit) => format!("{}_{unit}", self.name),
            None => self.name.to_string(),
        }
    }

    /// The names of its samples, as queries have them.
    pub fn samples(&self) -> Vec<String> {
        let name = self.full_name();
        let suffixes: &[&str] = match self.kind {
            MetricKind::Counter => &["_total"],
            MetricKind::Gauge => &[""],
            MetricKind::Histogram => &["_bucket", "_count", "_sum"],
            MetricKind::Info => &["_info"],
        };
        suffixes.iter().map(|suffix| format!("{name}{suffix}")).collect()
    }
}

macro_rules! families {
    ($($id:ident: $kind:ident $name:literal $unit:expr, [$($label:literal),*], $help:literal;)*) => {
        $(#[doc = $help] pub static $id: Family = Family {
            name: $name, kind: MetricKind::$kind, unit: $unit, labels: &[$($label),*], help: $help,
        };)*

        /// All of them, in the order in which they are written.
        pub static FAMILIES: &[&Family] = &[$(&$id),*];
    };
}

/// The value of the label `part`. What exits cost is one figure: counting does not tell the kernel's time from user space's.
pub fn part_label(part: TimePart) -> &'static str {
    if part == TimePart::Kernel { "cost" } else { part.column().trim_end_matches("_ns") }
}

const SECONDS: Option<&str> = Some("seconds");
const BYTES: Option<&str> = Some("bytes");

families! {
    EXITS: Counter "exitscope_exits" None, ["vm", "reason"],
        "VM exits";
    EXIT_TIME: Histogram "exitscope_exit_time" SECONDS, ["vm", "reason"],
        "Exit time: from the exit to the entry that ends it, whatever it holds";
    EXIT_COST: Counter "exitscope_exit_cost" SECONDS, ["vm", "reason"],
        "Cost of exits: time in the kernel and in user space, and nothing else";
    EXIT_PARTS: Counter "exitscope_exit_part" SECONDS, ["vm", "reason", "part"],
        "Time in exits that is no cost, by what it is: polling, halted, steal, stopped, and the other parts of docs/accounting.md";
    VM_TIME: Counter "exitscope_vm_time" SECONDS, ["vm", "part"],
        "Wall time of the VM's vCPUs since their first event, by what it was: guest, cost (of exits), and the parts that are no cost; together all of it";
    VCPU_TIME: Counter "exitscope_vcpu_time" SECONDS, ["vm", "vcpu", "part"],
        "The same by vCPU, with --per-vcpu; vCPUs of which no event says the number are together `unknown`";
    USER_SPACE_EXITS: Counter "exitscope_user_space_exits" None, ["vm", "reason"],
        "VM exits that user space answered";
    IN_KERNEL_EVENTS: Counter "exitscope_in_kernel_events" None, ["vm"],
        "What the kernel did for a guest without an exit that is seen, on back ends that fire no kvm_exit";
    YIELDS: Counter "exitscope_yields" None, ["vm", "call"],
        "Exits by which vCPUs yield, and kicks of those that wait (KVM_HC_KICK_CPU, H_PROD), by call; arm64's WFE is not among them";
    HALTS: Counter "exitscope_halts" None, ["vm", "blocked", "valid"],
        "Halts that ended: whether the vCPU blocked, and whether the wake-up was valid (not so only on s390)";
    HALT_DURATION: Histogram "exitscope_halt_duration" SECONDS, ["vm", "blocked", "valid"],
        "Halts as KVM measures them: from the poll until the thread runs again";
    VM_PROCESSES: Gauge "exitscope_vm_processes" None, ["vm"],
        "Processes that run a VM of this name and had an exit lately";
    VM: Info "exitscope_vm" None, ["vm", "manager", "uuid", "vmid", "namespace", "pod", "vmi", "display_name"],
        "What the VM is called by those who run it, as docs/identity.md has it; a label is empty where that is not known, or where several processes of this name differ";
    VCPUS: Gauge "exitscope_vcpus" None, ["vm"],
        "Virtual CPUs that had an exit lately";
    OVERFLOW_VMS: Gauge "exitscope_overflow_vms" None, [],
        "Names of VMs that are counted under the VM `other`, because there are more than --max-vms";
    OVERFLOW_REASONS: Gauge "exitscope_overflow_reasons" None, [],
        "Exit reasons that are counted under the reason `other`, because there are too many";
    EVENTS: Counter "exitscope_events" None, [],
        "Events of the kernel that were looked at";
    LOST: Counter "exitscope_lost_events" None, [],
        "Exits, halts or events that are in no count, because there was no room for them in the kernel";
    MISSED: Counter "exitscope_missed_scheduler_events" None, [],
        "Events of the scheduler that were missed: up to its next such event, a thread's time without a CPU is counted as what it did before";
    EVENT_COST: Gauge "exitscope_event_cost" SECONDS, [],
        "What counting one event takes on the CPU where it happens, as far as that was measured";
    OVERHEAD: Counter "exitscope_overhead" SECONDS, [],
        "What counting took on the CPUs where events happened: events by what one takes";
    BUILD: Info "exitscope_build" None, ["version", "tracing_backend"],
        "Version of exitscope, and what counts events: bpf, perf_events, or a recording";
    SCRAPES: Counter "exitscope_scrapes" None, [],
        "Times that metrics were made";
    SCRAPE_TIME: Counter "exitscope_scrape_duration" SECONDS, [],
        "Time in which metrics were made";
    HTTP_RESPONSES: Counter "exitscope_http_responses" None, ["code"],
        "HTTP requests that were answered, by status";
    HTTP_TIMEOUTS: Counter "exitscope_http_timeouts" None, [],
        "Connections closed because they took too long or because a newer one needed their place";
    TLS_FAILURES: Counter "exitscope_tls_failures" None, [],
        "Connections on which no TLS came about";
    PROCESS_CPU: Counter "process_cpu" SECONDS, [],
        "CPU time of this process, in user space and in the kernel";
    PROCESS_MEMORY: Gauge "process_resident_memory" BYTES, [],
        "Memory that this process has in use";
    PROCESS_FDS: Gauge "process_open_fds" None, [],
        "Descriptors that this process has open";
    PROCESS_START: Gauge "process_start_time" SECONDS, [],
        "When this process began, since 1970";
}

/// Writes docs/metrics.md.
pub fn write_metrics_document(out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "# Metrics\n")?;
    writeln!(
        out,
        "What `exitscope exporter` serves; how to run it: [exporter.md](exporter.md). Generated by `exitscope docs \
         metrics`.\n\n| metric | kind | labels | what |\n| --- | --- | --- | --- |"
    )?;
    for family in FAMILIES {
        let names: Vec<String> = family.samples().iter().map(|name| format!("`{name}`")).collect();
        let labels: Vec<String> = family.labels.iter().map(|label| format!("`{label}`")).collect();
        let kind = format!("{:?}", family.kind).to_lowercase();
        writeln!(out, "| {} | {kind} | {} | {} |", names.join(", "), labels.join(", "), family.help)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_as_prometheus_wants_them_and_once() {
        let mut names: Vec<String> = FAMILIES.iter().map(|family| family.full_name()).collect();
        let count = names.len();
        for name in &names {
            assert!(name.chars().all(|letter| letter.is_ascii_lowercase() || letter == '_'), "{name}");
            assert!(["_total", "_count", "_sum", "_bucket"].iter().all(|suffix| !name.ends_with(suffix)), "{name}");
        }
        names.sort();
        names.dedup();
        assert_eq!(names.len(), count);
        assert!(FAMILIES.iter().all(|family| !family.help.ends_with('.') && !family.help.contains(['\n', '\\', '"'])));
    }
}
