//! Port accesses on other ways, replayed over those that were recorded.
//!
//! ```text
//! recorded: OUT 0x3f8, 9 us, user space ─► route(settings, who serves 0x3f8) ─► ioeventfd: what the kernel's own take, 2 us
//! ```
//!
//! Costs are those of the recording: an access that goes the way it went costs what it did, one that the kernel now serves
//! costs what others that the kernel served typically did, and one that is emulated instead of decoded from the exit takes longer by
//! what string accesses take, which are emulated always. What the recording has no cost of is left unknown, or is what it was, changed
//! by what a cost model says of the steps that differ.

use crate::{DurationStats, TypicalAccesses};
use exitscope_model::{Exit, Handler, PortAccessForm, Subject, SubjectKind, TimePart};
use exitscope_policy::port_path::{
    CoalescedRing, DeviceModel, Direction, Params, PortAccess, PortHandler, PortPathWork, PortRegistration, PortRoute,
    phases, route,
};
use exitscope_units::{Nanos, VmId};
use std::collections::BTreeMap;

/// What the kernel is to serve of the accesses that went outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InKernelHandling {
    /// None of these accesses.
    Nothing,
    /// Plain writes, by an event descriptor.
    Ioeventfd,
    /// Plain writes, in the ring of coalesced writes while it has room.
    Coalesced,
    /// All of them, by devices of its own.
    Devices,
}

impl InKernelHandling {
    /// Each, under its name.
    pub const WORDS: &'static [&'static str] = &["none", "ioeventfd", "coalesced", "devices"];

    /// All, in the order of the names.
    pub const ALL: [InKernelHandling; 4] = [
        InKernelHandling::Nothing,
        InKernelHandling::Ioeventfd,
        InKernelHandling::Coalesced,
        InKernelHandling::Devices,
    ];

    fn registration(self, access: &PortAccess) -> Option<PortRegistration> {
        let (port, len) = (access.port, u16::from(access.size));
        let is_plain_write = access.direction == Direction::Out && access.qualifies();
        match self {
            InKernelHandling::Devices => Some(PortRegistration::Device { port, len }),
            InKernelHandling::Ioeventfd if is_plain_write => {
                Some(PortRegistration::Ioeventfd { port, len: 0, datamatch: None })
            }
            InKernelHandling::Coalesced if is_plain_write => Some(PortRegistration::Coalesced { port, len }),
            _ => None,
        }
    }
}

/// What steps take by a cost model, in nanoseconds; of steps that it does not name, nothing.
pub type PhaseCosts = Vec<(PortPathWork, u64)>;

/// What the accesses would have come to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortOutcome {
    /// Accesses.
    pub accesses: u64,
    /// Accesses that somebody outside the kernel serves.
    pub outside: u64,
    /// Times that an instruction is emulated.
    pub emulations: u64,
    /// Times that the vCPU gives its CPU away until a device model has answered.
    pub blocks: u64,
    /// What they cost, in nanoseconds, as far as that is known.
    pub time: u64,
    /// Accesses of which it is not.
    pub unknown: u64,
    /// Accesses of which a cost model says it.
    pub modelled: u64,
    /// Accesses of which the recording says it by its string accesses.
    pub by_string: u64,
}

/// How long accesses take that a device model answers, as far as the recording or a cost model says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PortLengths {
    /// From the exit until the device model is told: on Xen, until its vCPU is woken, which is `blocked_to_runnable`.
    pub handed: DurationStats,
    /// From the exit to the entry.
    pub whole: DurationStats,
}

/// One setting, replayed.
#[derive(Clone, Debug)]
pub struct PortReplay {
    params: Params,
    served: InKernelHandling,
    /// On which way device models answered when this was recorded.
    recorded: Params,
    /// What an access takes that the kernel serves: a read, a write.
    in_kernel: [Option<u64>; 2],
    /// What an emulation takes more than the decoding of what the exit says.
    emulation: Option<Nanos>,
    /// For what the recording has no cost of.
    costs: Option<PhaseCosts>,
    rings: BTreeMap<VmId, CoalescedRing>,
    /// What came of it.
    pub outcome: PortOutcome,
    /// How long those take that a device model answers.
    pub lengths: PortLengths,
}

/// What the steps of another way take more, in nanoseconds.
#[derive(Clone, Copy)]
struct LongerWay {
    to_handover: i64,
    whole: i64,
}

impl PortReplay {
    /// Replays these settings; `typical` are the recording's costs, and `costs` are for what it has none of. `scheduled`: the
    /// device model had to be scheduled (Xen).
    pub fn new(
        params: Params,
        served: InKernelHandling,
        scheduled: bool,
        typical: &TypicalAccesses,
        costs: Option<PhaseCosts>,
    ) -> PortReplay {
        let cost = |write| typical.in_kernel(SubjectKind::Port, write).map(|mean| mean.0);
        PortReplay {
            params,
            served,
            recorded: PortReplay::recorded(scheduled),
            in_kernel: [cost(false), cost(true)],
            emulation: typical.emulation,
            costs,
            rings: BTreeMap::new(),
            outcome: PortOutcome::default(),
            lengths: PortLengths::default(),
        }
    }

    /// The settings that were in force: KVM and today's Xen decode plain accesses from the exit.
    pub fn recorded(scheduled: bool) -> Params {
        let device_model = if scheduled { DeviceModel::Scheduled } else { DeviceModel::Inline };
        Params { quick_path: true, device_model }
    }

    /// Takes one exit.
    pub fn absorb(&mut self, exit: &Exit) {
        let outside = exit.handler != Handler::Kernel;
        let Some(access) = exit.subject.as_ref().and_then(access) else {
            // Whoever is outside for something else looks into the ring as well.
            if let (true, Some(ring)) = (outside, self.rings.get_mut(&exit.who.vm)) {
                ring.drain();
            }
            return;
        };
        let kernels = PortRegistration::Device { port: access.port, len: u16::from(access.size) };
        let bus = if outside { self.served.registration(&access) } else { Some(kernels) };
        let has_room = self.rings.get(&exit.who.vm).is_none_or(CoalescedRing::has_room);
        let way = route(&self.params, bus.as_slice(), &access, has_room);
        match way.server {
            PortHandler::Coalesced => self.rings.entry(exit.who.vm).or_default().push(),
            PortHandler::DeviceModel => {
                self.rings.get_mut(&exit.who.vm).map(CoalescedRing::drain);
            }
            _ => {}
        }
        let steps = phases(&self.params, &way, access.direction);
        let times = |phase| steps.iter().filter(|step| **step == phase).count() as u64;
        let outcome = &mut self.outcome;
        outcome.accesses += 1;
        outcome.outside += u64::from(way.server == PortHandler::DeviceModel);
        outcome.emulations += times(PortPathWork::Emulate);
        // Answered before the vCPU had lost its CPU: it did not give it away.
        if exit.handler != Handler::DeviceModel || exit.part(TimePart::User) > Nanos::ZERO {
            outcome.blocks += times(PortPathWork::Block);
        }
        let (cost, longer) = self.cost(exit, outside, &way, &access);
        match cost {
            Some(cost) => self.outcome.time = self.outcome.time.saturating_add(cost),
            None => self.outcome.unknown += 1,
        }
        if let Some(longer) = longer.filter(|_| exit.timed && outside && way.server == PortHandler::DeviceModel) {
            let length = |recorded: Nanos, more| Nanos(recorded.0.saturating_add_signed(more));
            if exit.phases.handed > Nanos::ZERO {
                self.lengths.handed.record(length(exit.phases.handed, longer.to_handover));
            }
            self.lengths.whole.record(length(exit.total(), longer.whole));
        }
    }

    /// What it costs, and how much longer it takes than it did; each if that is known.
    fn cost(
        &mut self,
        exit: &Exit,
        outside: bool,
        way: &PortRoute,
        access: &PortAccess,
    ) -> (Option<u64>, Option<LongerWay>) {
        const AS_RECORDED: LongerWay = LongerWay { to_handover: 0, whole: 0 };
        if let Some(cost) = self.recorded_cost(exit, outside, way, access) {
            return (Some(cost), Some(AS_RECORDED));
        }
        if let Some((cost, longer)) = self.by_string(exit, outside, way, access) {
            self.outcome.by_string += 1;
            return (Some(cost), Some(longer));
        }
        self.outcome.modelled += u64::from(self.costs.is_some());
        let longer = self.by_model(outside, way, access);
        (longer.map(|longer| exit.cost().0.saturating_add_signed(longer.whole)), longer)
    }

    /// The same of an access that takes the way it took, but is emulated: each time as much longer as string accesses are, which are
    /// emulated always.
    fn by_string(&self, exit: &Exit, outside: bool, way: &PortRoute, access: &PortAccess) -> Option<(u64, LongerWay)> {
        let leaves = way.server == PortHandler::DeviceModel;
        if leaves && self.params.device_model != self.recorded.device_model || way.quick || !access.qualifies() {
            return None;
        }
        let steps = phases(&self.params, way, access.direction);
        let times = steps.iter().filter(|step| **step == PortPathWork::Emulate).count() as u64;
        let emulation = self.emulation?.0;
        let base = if outside == leaves { exit.cost().0 } else { self.in_kernel(access)? };
        let whole = emulation.saturating_mul(times);
        let longer = LongerWay { to_handover: emulation as i64, whole: whole as i64 };
        Some((base.saturating_add(whole), longer))
    }

    fn in_kernel(&self, access: &PortAccess) -> Option<u64> {
        self.in_kernel[usize::from(access.direction == Direction::Out)]
    }

    /// What the cost model says of the steps that differ.
    fn by_model(&self, outside: bool, way: &PortRoute, access: &PortAccess) -> Option<LongerWay> {
        let costs = self.costs.as_ref()?;
        let cost = |phase: &PortPathWork| costs.iter().find(|row| row.0 == *phase).map_or(0, |row| row.1 as i64);
        // Until the device model is told, and all.
        let sums = |params: &Params, way: &PortRoute| {
            let steps = phases(params, way, access.direction);
            let tells =
                |step: &&PortPathWork| !matches!(**step, PortPathWork::WakeDeviceModel | PortPathWork::LeaveToUser);
            [steps.iter().take_while(tells).map(cost).sum::<i64>(), steps.iter().map(cost).sum()]
        };
        let kernels = PortRegistration::Device { port: access.port, len: u16::from(access.size) };
        let served: &[PortRegistration] = if outside { &[] } else { &[kernels] };
        let then = sums(&self.recorded, &route(&self.recorded, served, access, true));
        let now = sums(&self.params, way);
        Some(LongerWay { to_handover: now[0] - then[0], whole: now[1] - then[1] })
    }

    /// What it costs on a way that the recording has.
    fn recorded_cost(&self, exit: &Exit, outside: bool, way: &PortRoute, access: &PortAccess) -> Option<u64> {
        if !exit.timed {
            return Some(0);
        }
        let leaves = way.server == PortHandler::DeviceModel;
        let other_device_model = leaves && self.params.device_model != self.recorded.device_model;
        if way.quick != access.qualifies() || other_device_model {
            return None;
        }
        match outside == leaves {
            true => Some(exit.cost().0),
            false => self.in_kernel(access),
        }
    }
}

/// The policy's idea of a port access. What is not known to be in memory is taken to be in a register.
fn access(detail: &Subject) -> Option<PortAccess> {
    (detail.kind == SubjectKind::Port).then(|| PortAccess {
        port: detail.key as u16,
        size: detail.size.clamp(1, 4) as u8,
        direction: if detail.write { Direction::Out } else { Direction::In },
        value: detail.value as u32,
        string: detail.form == PortAccessForm::String,
        rep: false,
    })
}
