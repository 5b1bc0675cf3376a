//! Port accesses on other ways.

use super::{KnobValues, ReplayError, ReplayInput};
use crate::ReadTrace;
use exitscope_analysis::TraceSink;
use exitscope_analysis::record_commands::Missed;
use exitscope_analysis::replay::{IN_KERNEL, InKernelHandling, PhaseCosts, PortReplay, ReplayedPorts};
use exitscope_model::{BesideRow, Exit, SubjectKind};
use exitscope_policy::port_path::PortPathWork;
use exitscope_scenario::{CostFigure, CostModel, models};

struct PortReplays(Vec<PortReplay>);

impl TraceSink for PortReplays {
    fn absorb(&mut self, exit: &Exit) {
        self.0.iter_mut().for_each(|replay| replay.absorb(exit));
    }

    fn beside_row(&mut self, _row: BesideRow<'_>) {}
}

/// The machine on which Xen's long way was measured.
const OF_XEN: &str = "nehalem-xen-3.3";

/// What came of port accesses, and the cost model that says what the recording has no cost of.
pub struct PortsAndModel {
    /// What came of them.
    pub ports: ReplayedPorts,
    /// The model that was asked for; for a log of Xen's that has no emulated access, that of the machine on which these were measured.
    pub model: Option<CostModel>,
}

/// Replays port accesses with each of these configurations. What the recording has no cost of has that of `model`.
pub fn replay_ports(
    of: &ReplayInput<'_>,
    configurations: &[KnobValues],
    model: Option<CostModel>,
) -> Result<(ReadTrace, PortsAndModel), ReplayError> {
    let (trace, facts) = of.facts()?;
    let ports = || facts.accesses.cells().into_iter().filter(|(key, _)| key.at.kind == SubjectKind::Port);
    let accesses: u64 = ports().map(|(_, of)| of.stats.count).sum();
    let outside = ports().filter(|(key, _)| key.outside).map(|(_, of)| of.stats.count).sum();
    let string = ports().filter(|(key, _)| key.string).map(|(_, of)| of.stats.count).sum();
    let untold = ports().filter(|(key, _)| !key.string).map(|(_, of)| of.stats.count - of.plain).sum();
    let typical = facts.accesses.typical();
    let arch = &trace.info.arch;
    if accesses == 0 && !arch.is_empty() && !arch.starts_with("x86") && !arch.starts_with('i') {
        return Err(trace.has_nothing(format!("no port access to replay: processors of {arch} have no ports")));
    }
    if accesses == 0 {
        return Err(trace.has_nothing(format!("no port access to replay. {}", trace.sentence(Missed::Exits, ""))));
    }
    let xen = trace.is_xen();
    let recorded = PortReplay::recorded(xen);
    let lacks_emulation = model.is_none() && xen && typical.emulation.is_none();
    let of_xen = || models().ok()?.into_iter().find(|model| model.name == OF_XEN);
    let model = if lacks_emulation { of_xen() } else { model };
    let costs = model.as_ref().map(phase_costs);
    let mut replays = vec![PortReplay::new(recorded, InKernelHandling::Nothing, xen, &typical, costs.clone())];
    for configuration in configurations {
        let (mut params, mut served) = (recorded, InKernelHandling::Nothing);
        for &(name, value) in configuration {
            match name == IN_KERNEL.name {
                true => served = InKernelHandling::ALL[value as usize],
                false => params.set(name, value)?,
            }
        }
        replays.push(PortReplay::new(params, served, xen, &typical, costs.clone()));
    }
    let (trace, PortReplays(replays)) = of.read(|| PortReplays(replays.clone()))?;
    let mut outcomes: Vec<_> = replays.into_iter().map(|replay| (replay.outcome, replay.lengths)).collect();
    let in_force = outcomes.remove(0);
    let ports = ReplayedPorts { accesses, outside, string, untold, typical, in_force, outcomes };
    Ok((trace, PortsAndModel { ports, model }))
}

/// What each step of a port access takes.
fn phase_costs(model: &CostModel) -> PhaseCosts {
    let rows: [(PortPathWork, &[&CostFigure]); 14] = [
        (PortPathWork::Exit, &[&model.exit]),
        (PortPathWork::Decode, &[&model.port_decode]),
        (PortPathWork::Emulate, &[&model.emulate]),
        (PortPathWork::Device, &[&model.kernel_device]),
        (PortPathWork::Signal, &[&model.eventfd]),
        (PortPathWork::Store, &[&model.coalesce]),
        (PortPathWork::LeaveToUser, &[&model.kernel_leave, &model.user_loop]),
        (PortPathWork::WakeDeviceModel, &[&model.wake]),
        (PortPathWork::Block, &[&model.switch]),
        (PortPathWork::DeviceModel, &[&model.device]),
        (PortPathWork::ReturnFromUser, &[&model.kernel_enter]),
        (PortPathWork::Resume, &[&model.wake_latency, &model.switch]),
        (PortPathWork::Complete, &[&model.complete_io]),
        (PortPathWork::Entry, &[&model.entry]),
    ];
    rows.into_iter().map(|(phase, costs)| (phase, costs.iter().map(|cost| cost.time.as_nanos()).sum())).collect()
}
