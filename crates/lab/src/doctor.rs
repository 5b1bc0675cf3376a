//! What KVM and tracing can do on this machine, found out by doing it.
//!
//! ```text
//! /dev/kvm ─► back end, capabilities ─► handlers: a probing guest each ─► tracepoints: which of them that guest fires
//!          ─► knobs and their values ─► clocks, CPUs, permissions
//! ```

use crate::abi::{ProgramStep, op};
use crate::bench::{Bench, Job, Spec};
use crate::exits::KERNEL_PORT;
use crate::machine::probe;
use crate::tracefs::{TracefsInstance, tracefs};
use crate::vm::trouble_with_kvm;
use crate::{IoAddress, LabError, LabMachine, PrivilegeRing, VmConfig, host, sampled, step};
use exitscope_policy::all_knobs;
use exitscope_scenario::findings::{Check, CheckState};
use exitscope_signals::signalled;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

const KVM: &str = "KVM";
const DOORS: &str = "What guests can do here, tried by a guest, and how long it took";
const TRACING: &str = "Tracepoints";
const KNOBS: &str = "Knobs";
const MACHINE: &str = "Machine";

/// Looks at everything. What is missing is a check, not an error; only a signal is one.
pub fn checkup() -> Result<Vec<Check>, LabError> {
    let mut checks = Vec::new();
    let machine = match fs::File::options().read(true).write(true).open("/dev/kvm") {
        Ok(_) => match LabMachine::new() {
            Ok(machine) => Some(machine),
            Err(error) => {
                checks.push(Check::new(KVM, "/dev/kvm", CheckState::Missing, error));
                None
            }
        },
        Err(error) => {
            let (trouble, remedy) = trouble_with_kvm(&error);
            let remedy = format!("{remedy}. The simulator (exitscope sim) and reports need no KVM");
            checks.push(Check::new(KVM, "/dev/kvm", CheckState::Missing, trouble).remedy(&remedy));
            None
        }
    };
    if let Some(machine) = &machine {
        kvm(machine, &mut checks)?;
        handlers(machine, &mut checks)?;
    }
    tracing(machine.as_ref(), &mut checks)?;
    knobs(&mut checks);
    if let Some(machine) = &machine {
        clocks(machine, &mut checks);
    }
    Ok(checks)
}

fn kvm(machine: &LabMachine, checks: &mut Vec<Check>) -> Result<(), LabError> {
    checks.push(Check::new(KVM, "/dev/kvm", CheckState::Good, "may be opened"));
    let found = format!("{} on {}", machine.back_end, machine.vendor);
    checks.push(match machine.emulates_ring_0 {
        false => Check::new(KVM, "back end", CheckState::Good, format!("{found}: runs every ring natively")),
        true => Check::new(
            KVM,
            "back end",
            CheckState::Limited,
            format!("{found}: emulates ring 0 of guests; programs of the lab run in ring 3 and halt by a doorbell"),
        )
        .remedy(
            "costs measured here are not those of hardware, and cannot calibrate the simulator: use a host with VMX or \
             SVM for that",
        ),
    });
    for (cap, name, without) in [
        (kvm_bindings::KVM_CAP_SYNC_REGS, "registers in the shared page (KVM_CAP_SYNC_REGS)", "their row of lab exits"),
        (kvm_bindings::KVM_CAP_IMMEDIATE_EXIT, "immediate_exit (KVM_CAP_IMMEDIATE_EXIT)", "the lab itself"),
        (kvm_bindings::KVM_CAP_IOEVENTFD, "ioeventfd (KVM_CAP_IOEVENTFD)", "its rows"),
        (kvm_bindings::KVM_CAP_COALESCED_MMIO, "coalesced MMIO (KVM_CAP_COALESCED_MMIO)", "its rows"),
        (kvm_bindings::KVM_CAP_COALESCED_PIO, "coalesced ports (KVM_CAP_COALESCED_PIO)", "their rows"),
        (
            kvm_bindings::KVM_CAP_HALT_POLL,
            "a limit of host halt polling for each VM (KVM_CAP_HALT_POLL)",
            "lab haltpoll's host polling",
        ),
        (
            kvm_bindings::KVM_CAP_BINARY_STATS_FD,
            "statistics as binary (KVM_CAP_BINARY_STATS_FD)",
            "KVM's own counts of polls",
        ),
        (kvm_bindings::KVM_CAP_X86_USER_SPACE_MSR, "MSRs to user space (KVM_CAP_X86_USER_SPACE_MSR)", "their rows"),
    ] {
        checks.push(match machine.kvm.check_extension_raw(cap.into()) {
            1.. => Check::new(KVM, name, CheckState::Good, "yes"),
            _ => Check::new(KVM, name, CheckState::Missing, "no")
                .remedy(&format!("needs a newer kernel; without it: no {without}")),
        });
    }
    Ok(())
}

/// Passes of the loop of the guests that only compute.
const PASSES: u64 = 100;

/// Each handler is tried with a guest whose exits it finishes.
fn handlers(machine: &LabMachine, checks: &mut Vec<Check>) -> Result<(), LabError> {
    let port = ProgramStep { a: 1, b: 0x10, ..step(op::PORT_OUT) };
    let mmio = ProgramStep { a: 4, b: 0xfeb0_0000, ..step(op::MMIO_WRITE) };
    let at = |place| (place, 4);
    let spec = |ring, step| Spec::new(ring, step);
    let ring = machine.ring();
    let irqchip = VmConfig { irqchip: true, ..VmConfig::new(1, ring) };
    let mut tries = vec![
        ("compute in ring 3", spec(PrivilegeRing::Three, ProgramStep { b: PASSES, ..step(op::COMPUTE) })),
        ("compute in ring 0", spec(PrivilegeRing::Zero, ProgramStep { b: PASSES, ..step(op::COMPUTE) })),
        ("ports, to user space", spec(ring, port)),
        ("MMIO, to user space", spec(ring, mmio)),
        (
            "ports, answered by KVM",
            Spec { config: irqchip, ..spec(ring, ProgramStep { b: KERNEL_PORT.into(), op: op::PORT_IN, ..port }) },
        ),
        ("ioeventfd on a port", Spec { ioeventfds: vec![(IoAddress::Port(0x10), 1)], ..spec(ring, port) }),
        ("ioeventfd on an address", Spec { ioeventfds: vec![at(IoAddress::Address(0xfeb0_0000))], ..spec(ring, mmio) }),
        ("coalesced writes", Spec { coalesced: vec![IoAddress::Address(0xfeb0_0000)], ..spec(ring, mmio) }),
        ("CPUID", spec(ring, step(op::CPUID))),
        ("hypercall", spec(ring, ProgramStep { b: 100, ..step(op::HYPERCALL) })),
        ("MSRs", spec(PrivilegeRing::Zero, ProgramStep { b: 0x277, ..step(op::RDMSR) })),
        ("interrupts", spec(PrivilegeRing::Zero, step(op::INTERRUPT))),
    ];
    for (what, spec) in tries.drain(..) {
        if let Some(signal) = signalled() {
            return Err(LabError::Signal(signal));
        }
        let Job::Step(ProgramStep { op, .. }, _) = spec.job else { continue };
        let emulated = spec.config.ring == PrivilegeRing::Zero && machine.emulates_ring_0;
        let turn = Bench::new(machine, spec).and_then(|mut bench| bench.turn(machine, 51, false, false));
        checks.push(match turn {
            Ok(mut turn) => {
                turn.samples.sort_unstable();
                let ticks = turn.samples.get(turn.samples.len() / 2).map_or(0.0, |&ticks| f64::from(ticks) - turn.base);
                let length = exitscope_units::Nanos(machine.ns_in(ticks.max(0.0)).round() as u64);
                let found = match op {
                    op::COMPUTE => format!("about {length} for {PASSES} passes of a loop"),
                    _ => format!("about {length} each"),
                };
                match emulated {
                    true => Check::new(DOORS, what, CheckState::Limited, format!("{found}, emulated")),
                    false => Check::new(DOORS, what, CheckState::Good, found),
                }
            }
            Err(error) => Check::new(DOORS, what, CheckState::Missing, error),
        });
    }
    Ok(())
}

/// Which of KVM's tracepoints fire for a guest that accesses ports and addresses, and executes CPUID.
fn tracing(machine: Option<&LabMachine>, checks: &mut Vec<Check>) -> Result<(), LabError> {
    const NEEDED: [(&str, &str); 3] = [
        ("kvm_exit", "the length of each exit; without it only exits to user space are seen"),
        ("kvm_entry", "the end of each exit"),
        ("kvm_userspace_exit", "what goes on to user space"),
    ];
    let tracefs = match tracefs() {
        Ok(tracefs) => tracefs,
        Err(forbidden) => {
            let (found, remedy) = match forbidden {
                None => ("not mounted".to_string(), "mount -t tracefs nodev /sys/kernel/tracing, as root".to_string()),
                Some(path) => (
                    format!("{} may not be read", path.display()),
                    format!(
                        "run as root, or give it to your group: `chgrp -R GROUP {0} && chmod -R g+rX {0}`",
                        path.display()
                    ),
                ),
            };
            checks.push(Check::new(TRACING, "tracefs", CheckState::Missing, found).remedy(&remedy));
            return Ok(());
        }
    };
    checks.extend(tracer_in_use(&tracefs));
    let events = fs::read_dir(tracefs.join("events/kvm"))
        .map(|list| list.flatten().filter(|entry| entry.path().is_dir()).count());
    checks.push(match events {
        Ok(count) => Check::new(TRACING, "kvm events offered", CheckState::Good, count),
        Err(error) => Check::new(TRACING, "kvm events offered", CheckState::Missing, error)
            .remedy("read tracefs as root, or have its group; a kernel without tracepoints needs CONFIG_TRACEPOINTS"),
    });
    let Some(machine) = machine else { return Ok(()) };
    match fired(machine, &tracefs) {
        Err(LabError::System { error, .. }) => checks.push(
            Check::new(TRACING, "which really fire", CheckState::Missing, format!("not known: {error}"))
                .remedy("run exitscope doctor as root once"),
        ),
        Err(error) => return Err(error),
        Ok(counts) => {
            for (name, for_what) in NEEDED {
                let check = match counts.get(name) {
                    Some(count) => {
                        Check::new(TRACING, name, CheckState::Good, format!("fires ({count} for the probing guest)"))
                    }
                    None => Check::new(TRACING, name, CheckState::Missing, "never fires with this back end")
                        .remedy(&format!("it would show {for_what}; reports use the events that do fire")),
                };
                checks.push(check);
            }
            let others = counts.iter().filter(|row| !NEEDED.iter().any(|needed| needed.0 == row.0.as_str()));
            let others: Vec<String> = others.map(|(name, count)| format!("{name} {count}")).collect();
            checks.push(Check::new(TRACING, "others that fire", CheckState::Good, others.join(", ")));
        }
    }
    Ok(())
}

/// The host's own tracer: one of functions makes every exit longer, whoever measures it.
fn tracer_in_use(tracefs: &Path) -> Option<Check> {
    let tracer = fs::read_to_string(tracefs.join("current_tracer")).ok()?;
    let check = |state, found: &str| Check::new(TRACING, "tracer in use", state, found);
    Some(match tracer.trim() {
        "nop" => check(CheckState::Good, "none"),
        tracer => check(CheckState::Limited, tracer).remedy(&format!(
            "exits take longer while it runs, and exitscope lab tracer measures by how much; as root: echo nop > {}/current_tracer",
            tracefs.display()
        )),
    })
}

fn fired(machine: &LabMachine, tracefs: &Path) -> Result<BTreeMap<String, u64>, LabError> {
    let trouble = |error| LabError::io("an instance of tracefs", error);
    let instance = TracefsInstance::new(tracefs, "doctor").map_err(trouble)?;
    instance.write("events/kvm/enable", "1").map_err(trouble)?;
    let port = ProgramStep { a: 1, b: 0x10, ..step(op::PORT_OUT) };
    let mmio = ProgramStep { a: 4, b: 0xfeb0_0000, ..step(op::MMIO_READ) };
    let steps = [sampled(23, port), sampled(17, mmio), sampled(13, step(op::CPUID))].concat();
    probe(machine, VmConfig::new(1, machine.ring()), &steps)?;
    instance.write("events/kvm/enable", "0").map_err(trouble)?;
    let text = instance.read("trace").map_err(trouble)?;
    let mut counts = BTreeMap::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        // `comm-pid [cpu] flags time: event: …`
        if let Some(name) = line.split(": ").nth(1) {
            *counts.entry(name.trim().to_string()).or_insert(0) += 1;
        }
    }
    Ok(counts)
}

fn knobs(checks: &mut Vec<Check>) {
    for knob in all_knobs() {
        if let Some(value) = host::value_of(knob) {
            let found = match value == knob.text(knob.default).to_string() {
                true => value,
                false => format!("{value} (the kernel's default is {})", knob.text(knob.default)),
            };
            checks.push(Check::new(KNOBS, knob.name, CheckState::Good, found));
        }
    }
}

fn clocks(machine: &LabMachine, checks: &mut Vec<Check>) {
    let source = host::of_machine(host::CLOCK_SOURCE).unwrap_or_else(|| "unknown".to_string());
    checks.push(Check::new(MACHINE, "clock source", CheckState::Good, source));
    let said = machine.kvm_tsc_hz.map_or(String::new(), |hz| format!("; KVM says {:.3} GHz", hz as f64 / 1e9));
    let found = format!("{:.3} GHz by the monotonic clock{said}", machine.tsc_hz as f64 / 1e9);
    checks.push(Check::new(MACHINE, "time stamp counter", CheckState::Good, found));
    checks.push(match machine.cpus.len() {
        1 => Check::new(MACHINE, "CPUs", CheckState::Limited, "1")
            .remedy("experiments with two vCPUs show the scheduler, not wake-ups: give the lab two CPUs"),
        cpus => Check::new(MACHINE, "CPUs", CheckState::Good, cpus),
    });
    if let Some(governor) = host::of_machine(host::GOVERNOR) {
        checks.push(match governor.as_str() {
            "performance" => Check::new(MACHINE, "frequency governor", CheckState::Good, governor),
            _ => Check::new(MACHINE, "frequency governor", CheckState::Limited, governor)
                .remedy("cpupower frequency-set -g performance, for steadier figures"),
        });
    }
    if let Ok(paranoid) = fs::read_to_string("/proc/sys/kernel/perf_event_paranoid") {
        let paranoid = paranoid.trim();
        // SAFETY: asks for a number.
        let root = unsafe { libc::geteuid() } == 0;
        checks.push(match root || paranoid.parse().is_ok_and(|level: i32| level < 0) {
            true => Check::new(MACHINE, "recording with perf", CheckState::Good, "permitted"),
            false => Check::new(
                MACHINE,
                "recording with perf",
                CheckState::Limited,
                format!("perf_event_paranoid is {paranoid}"),
            )
            .remedy("record as root, or set kernel.perf_event_paranoid to -1"),
        });
    }
}
