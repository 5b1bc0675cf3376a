//! `lab vmexit`: the operations of kvm-unit-tests' x86/vmexit that a bare guest can do, under their names, on one vCPU and on as many
//! as there are CPUs.
//!
//! ```text
//! TIMED_OPERATIONS (crate model) ─► what the guest does, or why it cannot ─► a Bench each ─► cycles as that test has them, and time
//! ```
//!
//! What each does is as in x86/vmexit.c of kvm-unit-tests (commit ed31b563 of kvm-x86/kvm-unit-tests). That test has one average of all
//! iterations, until the last vCPU is done: `mean cycles` here. The lab's guest is in x2APIC mode, where that test's interrupt commands
//! are writes of the same MSR.

use crate::abi::{ProgramStep, op, privileged, self_ipi};
use crate::bench::{Job, Spec};
use crate::events::Events;
use crate::exits::{KERNEL_PORT, Timed, unsupported_as_row};
use crate::measure::MeasurePlan;
use crate::session::LabSession;
use crate::{LabError, LabMachine, PrivilegeRing, VmConfig, step};
use exitscope_model::{Event, TIMED_OPERATIONS};
use exitscope_scenario::findings::{
    FindingFigure, FindingRow, Findings, FindingsTable, MEAN_CYCLES, OPERATIONS_TITLE, Unit,
};

/// MSRs of the operations: Intel SDM, volume 4, tables 2-2 and 2-27.
const IA32_TSC_ADJUST: u64 = 0x3b;
const IA32_PRED_CMD: u64 = 0x49;
const IA32_TSX_CTRL: u64 = 0x122;
const KERNEL_GS_BASE: u64 = 0xc000_0102;

/// The port of QEMU's ACPI timer on its PC machine, as x86/vmexit.c had it before it looked it up (`inl(0xb008)`).
const PM_TIMER: u64 = 0xb008;

/// For how many cycles `ipi_halt` lets the other vCPU halt.
const TIME_TO_HALT: u64 = 2_000;

/// Measures it. With `keep_events`, the events of the last round come with it.
pub fn run(machine: &LabMachine, plan: &MeasurePlan, keep_events: bool) -> Result<(Findings, Vec<Event>), LabError> {
    let mut session = LabSession::new(machine, plan, false)?;
    let wanted = operations(machine);
    let mut benches = Vec::new();
    for (_, spec) in &wanted {
        benches.push(match spec {
            Ok(spec) => Timed::new(machine, spec.clone(), plan)?,
            Err(why) => Err(why.to_string()),
        });
    }
    session.take_turns(benches.len(), |session, round, at| {
        if let Ok(timed) = &mut benches[at]
            && let Err(error) = timed.turn(machine, plan, round, keep_events && session.is_last(round))
        {
            benches[at] = Err(unsupported_as_row(error)?);
        }
        Ok(())
    })?;
    let mut findings = session.findings(
        "vmexit",
        "The operations of kvm-unit-tests' vmexit that a bare guest can do, on one vCPU and on all",
    )?;
    let mut events = Vec::new();
    let rows = wanted.into_iter().zip(benches).map(|((labels, _), bench)| match bench {
        Err(why) => FindingRow { labels, cannot: Some(why), ..FindingRow::default() },
        Ok(timed) => {
            let row = row(machine, labels, &timed);
            events.extend(timed.events);
            row
        }
    });
    let rows: Vec<FindingRow> = rows.collect();
    findings.summary = summary(&rows);
    findings.tables = vec![FindingsTable { title: OPERATIONS_TITLE, labels: vec!["operation", "vCPUs"], rows }];
    Ok((findings, Events::merge(events)))
}

fn row(machine: &LabMachine, labels: Vec<String>, timed: &Timed) -> FindingRow {
    let row = timed.row(machine, labels);
    let mean = FindingFigure::of_rounds(MEAN_CYCLES, Unit::Cycles, &timed.longest_mean);
    let others = row.figures.into_iter().filter(|figure| figure.name != "cycles");
    FindingRow { figures: mean.into_iter().chain(others).collect(), ..row }
}

/// Every operation and on how many vCPUs, with what the guest does or why it cannot.
fn operations(machine: &LabMachine) -> Vec<(Vec<String>, Result<Spec, &'static str>)> {
    let all = machine.cpus.len() as u32;
    let rows = TIMED_OPERATIONS.iter().flat_map(|operation| {
        let alone = if operation.name.starts_with("ipi") { 2 } else { 1 };
        let at_once = (operation.is_parallel && all > alone).then_some(all);
        [Some(alone), at_once]
            .into_iter()
            .flatten()
            .map(|vcpus| (vec![operation.name.to_string(), vcpus.to_string()], spec(machine, operation.name, vcpus)))
    });
    rows.collect()
}

/// What the guest does in an operation, on so many vCPUs.
fn spec(machine: &LabMachine, name: &str, vcpus: u32) -> Result<Spec, &'static str> {
    let msr = |op, b, c| (PrivilegeRing::Zero, ProgramStep { b, c, ..step(op) });
    let zero = |op, a| (PrivilegeRing::Zero, ProgramStep { a, ..step(op) });
    let any = |step| (machine.ring(), step);
    let port = |op, a, b| any(ProgramStep { a, b, ..step(op) });
    let (ring, step) = match name {
        "cpuid" => any(step(op::CPUID)),
        "vmcall" => any(step(op::HYPERCALL)),
        "mov_from_cr8" => zero(op::PRIVILEGED, privileged::READ_CR8),
        "mov_to_cr8" => zero(op::PRIVILEGED, privileged::WRITE_CR8),
        "inl_from_pmtimer" => port(op::PORT_IN, 4, PM_TIMER),
        "inl_from_qemu" => port(op::PORT_IN, 4, 0x1234),
        "inl_from_kernel" => port(op::PORT_IN, 1, KERNEL_PORT.into()),
        "outl_to_kernel" => port(op::PORT_OUT, 1, KERNEL_PORT.into()),
        "mov_dr" => zero(op::PRIVILEGED, privileged::WRITE_DR7),
        "ipi" | "ipi_halt" => {
            let c = if name == "ipi" { 0 } else { TIME_TO_HALT };
            (PrivilegeRing::Zero, ProgramStep { a: 1, c, ..step(op::INTERRUPT) })
        }
        "ple_round_robin" => any(step(op::NOTHING)),
        "wr_kernel_gs_base" => msr(op::WRMSR, KERNEL_GS_BASE, 0),
        "wr_tsx_ctrl_msr" => msr(op::WRMSR, IA32_TSX_CTRL, 0),
        "wr_ibrs_msr" => return Err("two values in turns are not a step of the lab's guest"),
        "wr_ibpb_msr" => msr(op::WRMSR, IA32_PRED_CMD, 1),
        "wr_tsc_adjust_msr" => msr(op::WRMSR, IA32_TSC_ADJUST, 0),
        "rd_tsc_adjust_msr" => msr(op::RDMSR, IA32_TSC_ADJUST, 0),
        "toggle_cr0_wp" => zero(op::PRIVILEGED, privileged::TOGGLE_CR0_WP),
        "toggle_cr4_pge" => zero(op::PRIVILEGED, privileged::TOGGLE_CR4_PGE),
        "wbinvd" => zero(op::PRIVILEGED, privileged::WBINVD),
        "pci-mem" | "pci-io" => return Err("needs QEMU's pci-testdev"),
        "tscdeadline_immed" | "tscdeadline" => return Err("the lab's guests have no TSC deadline timer"),
        name => zero(op::SELF_IPI, self_ipi_flags(name).ok_or("the lab's guest cannot do it")?),
    };
    let job = match name {
        "ipi" | "ipi_halt" => Job::BesideHalter(step),
        "ple_round_robin" => Job::RoundRobin(vcpus),
        _ => Job::Step(step, 0),
    };
    // The kernel's own port is that of its interrupt controllers.
    let irqchip = ring == PrivilegeRing::Zero || name.ends_with("kernel");
    Ok(Spec { job, config: VmConfig { irqchip, ..VmConfig::new(vcpus, ring) }, ..Spec::new(ring, step) })
}

/// How `NAME` sends itself an interrupt and takes it.
fn self_ipi_flags(name: &str) -> Option<u32> {
    let (register, rest) = match name.strip_prefix("x2apic_") {
        Some(rest) => (self_ipi::REGISTER, rest),
        None => (0, name),
    };
    let how = match rest.strip_prefix("self_ipi_")? {
        "sti_nop" => 0,
        "sti_hlt" => self_ipi::HLT,
        "tpr" => self_ipi::ENABLED,
        "tpr_sti_nop" => self_ipi::TASK_PRIORITY,
        "tpr_sti_hlt" => self_ipi::TASK_PRIORITY | self_ipi::HLT,
        _ => return None,
    };
    Some(register | how)
}

/// What the way to user space adds to a port's read.
fn summary(rows: &[FindingRow]) -> Vec<String> {
    let time = |name: &str| rows.iter().find(|row| row.labels == [name, "1"])?.figure("time");
    let both = time("inl_from_qemu").zip(time("inl_from_kernel"));
    let said = both.map(|(user, kernel)| {
        format!(
            "A port read that user space answers (inl_from_qemu) takes {}, {} longer than one that KVM answers (inl_from_kernel).",
            user.micros(),
            user.longer_than(kernel)
        )
    });
    said.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_self_ipi_of_the_test_is_known_and_no_two_are_the_same() {
        let own = TIMED_OPERATIONS.iter().filter(|of| of.name.contains("self_ipi"));
        let flags: Vec<u32> = own.map(|of| self_ipi_flags(of.name).unwrap_or_else(|| panic!("{}", of.name))).collect();
        let distinct: std::collections::BTreeSet<&u32> = flags.iter().collect();
        assert_eq!((flags.len(), distinct.len()), (10, 10));
        assert_eq!(self_ipi_flags("ipi"), None);
    }
}
