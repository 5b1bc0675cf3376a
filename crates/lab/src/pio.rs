//! `lab pio`: a guest reads a port again and again, on the long way (emulated, by a device model that the scheduler has to
//! run) and on the ways around it.
//!
//! ```text
//! long way   exit ─► emulate the instruction ─► wake the device model's thread ─► wait ─► answer ─► entry
//! quick path exit ─► port, size, direction from the exit ─► answer in place ────────────────────► entry
//! ```
//!
//! KVM reads plain accesses off the exit and emulates string ones (INS), so that both ways are there to be measured; which
//! way an access takes is what `port_path` of the policy crate says. After Xen 3.3's quick path.

use crate::abi::{ProgramStep, op};
use crate::bench::Spec;
use crate::events::Events;
use crate::exits::{KERNEL_PORT, Timed, unsupported_as_row};
use crate::measure::MeasurePlan;
use crate::session::LabSession;
use crate::{IoAddress, LabError, LabMachine, VmConfig, step};
use exitscope_model::Event;
use exitscope_policy::port_path::{Direction, Params, PortAccess, PortHandler, PortRegistration, route};
use exitscope_scenario::findings::{FindingFigure, FindingRow, Findings, FindingsTable, Unit};

const PORT: u16 = 0x10;

/// The ways: how the guest accesses the port, who is registered there, and whether the device model has a thread.
pub(crate) const WAYS: [(PortAccess, Option<PortRegistration>, bool); 7] = [
    (access(true, Direction::In, PORT), None, true),
    (access(true, Direction::In, PORT), None, false),
    (access(false, Direction::In, PORT), None, true),
    (access(false, Direction::In, PORT), None, false),
    (access(false, Direction::In, KERNEL_PORT), Some(PortRegistration::Device { port: KERNEL_PORT, len: 2 }), false),
    (
        access(false, Direction::Out, PORT),
        Some(PortRegistration::Ioeventfd { port: PORT, len: 1, datamatch: None }),
        false,
    ),
    (access(false, Direction::Out, PORT), Some(PortRegistration::Coalesced { port: PORT, len: 4 }), false),
];

const fn access(string: bool, direction: Direction, port: u16) -> PortAccess {
    PortAccess { port, size: 1, direction, value: 1, string, rep: false }
}

/// Measures it. With `keep_events`, the events of the last round come with it.
pub fn run(machine: &LabMachine, plan: &MeasurePlan, keep_events: bool) -> Result<(Findings, Vec<Event>), LabError> {
    let mut session = LabSession::new(machine, plan, false)?;
    let mut ways = Vec::new();
    for (access, registration, thread) in WAYS {
        ways.push(Timed::new(machine, spec(machine, access, registration, thread), plan)?);
    }
    session.take_turns(ways.len(), |session, round, at| {
        if let Ok(timed) = &mut ways[at]
            && let Err(error) = timed.turn(machine, plan, round, keep_events && session.is_last(round))
        {
            ways[at] = Err(unsupported_as_row(error)?);
        }
        Ok(())
    })?;
    let mut findings = session.findings(
        "pio",
        "What a port access costs, by its way: emulated or decoded from the exit, by a device model with \
            a thread or in place",
    )?;
    let mut events = Vec::new();
    let rows = WAYS.into_iter().zip(ways).map(|((access, registration, thread), timed)| {
        let labels = labels(machine, access, registration, thread);
        match timed {
            Err(why) => FindingRow { labels, cannot: Some(why), ..FindingRow::default() },
            Ok(timed) => {
                let mut row = timed.row(machine, labels);
                row.figures.extend(FindingFigure::of_rounds("exit to entry", Unit::Nanos, &timed.in_user));
                row.figures.extend(FindingFigure::of_rounds("exit to device thread", Unit::Nanos, &timed.to_thread));
                events.extend(timed.events);
                row
            }
        }
    });
    let rows: Vec<FindingRow> = rows.collect();
    findings.summary = summary(machine, &rows);
    findings.tables = vec![FindingsTable {
        title: "A port access by its way",
        labels: vec!["access", "decoded", "answered by"],
        rows,
    }];
    Ok((findings, Events::merge(events)))
}

pub(crate) fn spec(
    machine: &LabMachine,
    access: PortAccess,
    registration: Option<PortRegistration>,
    thread: bool,
) -> Spec {
    let port: u64 = access.port.into();
    let size: u32 = access.size.into();
    let step = match (access.string, access.direction) {
        (true, direction) => {
            ProgramStep { a: size, b: port, c: u64::from(direction == Direction::Out), ..step(op::PORT_STRING) }
        }
        (false, Direction::In) => ProgramStep { a: size, b: port, ..step(op::PORT_IN) },
        (false, Direction::Out) => ProgramStep { a: size, b: port, c: access.value.into(), ..step(op::PORT_OUT) },
    };
    let place = IoAddress::Port(access.port);
    let spec = Spec { thread, ..Spec::new(machine.ring(), step) };
    match registration {
        None => Spec { devices: vec![(place, place)], ..spec },
        Some(PortRegistration::Device { .. }) => Spec { config: VmConfig { irqchip: true, ..spec.config }, ..spec },
        Some(PortRegistration::Ioeventfd { len, .. }) => Spec { ioeventfds: vec![(place, len)], ..spec },
        Some(PortRegistration::Coalesced { .. }) => Spec { coalesced: vec![place], ..spec },
    }
}

/// How the access is made, how it is decoded and who answers it, by the policy.
pub(crate) fn labels(
    machine: &LabMachine,
    access: PortAccess,
    registration: Option<PortRegistration>,
    thread: bool,
) -> Vec<String> {
    let bus: Vec<PortRegistration> = registration.into_iter().collect();
    // A back end that emulates ring 0 emulates the instruction of every access.
    let params = Params { quick_path: !machine.emulates_ring_0, ..Params::default() };
    let way = route(&params, &bus, &access, true);
    let name = match (access.string, access.direction) {
        (true, Direction::In) => "INS",
        (true, Direction::Out) => "OUTS",
        (false, Direction::In) => "IN",
        (false, Direction::Out) => "OUT",
    };
    let server = match (way.server, thread) {
        (PortHandler::Device, _) => "kernel",
        (PortHandler::Ioeventfd, _) => "ioeventfd",
        (PortHandler::Coalesced, _) => "coalesced",
        (PortHandler::DeviceModel, true) => "device thread",
        (PortHandler::DeviceModel, false) => "user space, in place",
    };
    [name, if way.quick { "off the exit" } else { "emulated" }, server].map(String::from).to_vec()
}

fn summary(machine: &LabMachine, rows: &[FindingRow]) -> Vec<String> {
    let time = |row: usize| rows.get(row)?.figure("time");
    let mut said = Vec::new();
    if let (Some(before), Some(after)) = (time(0), time(3)) {
        said.push(format!(
            "The long way (emulated, a device thread) takes {}, the short one (in place) {}: {}.",
            before.micros(),
            after.micros(),
            match before.may_equal(after) {
                true => "no certain difference".to_string(),
                false => format!("{:.0} % less", (1.0 - after.value / before.value) * 100.0),
            }
        ));
    }
    if machine.emulates_ring_0 {
        said.push("This back end emulates the instruction of every access: it has no quick path to show.".to_string());
    } else if let (Some(emulated), Some(quick)) = (time(1), time(3)) {
        said.push(format!("Emulating the instruction takes {} of that.", emulated.longer_than(quick)));
    }
    if let (Some(thread), Some(quick)) = (time(2), time(3)) {
        said.push(format!("The hop to the device thread and back takes {}.", thread.longer_than(quick)));
    }
    said
}
