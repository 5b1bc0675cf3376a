//! The way of a port access: who decodes it, who serves it, and what that takes.
//!
//! ```text
//!   VMEXIT ─► string or REP, or no quick path? ─ no ──► quick: port, size, direction from the exit's own words
//!                     │ yes                                        │
//!                     ▼                                            ▼
//!             emulation: fetch the instruction, decode ──► who serves it?
//!                                                            │  device in the kernel  ─► done in place
//!                                                            │  ioeventfd, datamatch  ─► signal, done
//!                                                            │  coalesced zone        ─► into the ring, done
//!                                                            └► device model: through the scheduler, or in the
//!             emulation again, for an IN ◄── response ◄─────────  vCPU's own thread; the guest waits
//!                     └─► VMENTRY
//! ```
//!
//! Xen 3.3 sent every access through the emulation: an IN that a device model serves pays it twice, once to send it and
//! once to pick up the answer, an OUT once. Xen 3.1, Xen since 2010 and KVM decode plain accesses from the exit.
//!
//! Sources: Xen xen/arch/x86/hvm/{io,emulate}.c and hvm/vmx/vmx.c at 3.1, 3.3 and today; Linux arch/x86/kvm/x86.c
//! (kvm_fast_pio), virt/kvm/eventfd.c, virt/kvm/coalesced_mmio.c.

use crate::bounded_list::BoundedList;
use crate::knob::{KnobLocation, KnobMachines, KnobUnit, choice, params};

params! {
    /// The choices of a hypervisor about port accesses.
    quick_path: bool, KnobUnit::Bool, 1, 0 => 1, KnobLocation::Design, KnobMachines::Of("x86"),
        "Whether plain port accesses are decoded from the exit (Xen 3.1, Xen since 2010, KVM) or all are emulated (Xen 3.3)";
    device_model: DeviceModel, KnobUnit::Choice(DeviceModel::WORDS), DeviceModel::Inline, 0 => DeviceModel::ALL.len() - 1,
        KnobLocation::Design, KnobMachines::All, "Where the device model runs: in the vCPU's own thread (KVM), or in one that the scheduler must run (Xen)";
}

choice! {
    /// Where the device model runs.
    DeviceModel {
        /// In the vCPU's own thread: leaving to user space is enough.
        Inline = "inline",
        /// In a thread or domain of its own: the vCPU blocks, the scheduler runs the other, and back.
        Scheduled = "scheduled",
    }
}

/// Which way data go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// The guest reads the port.
    In,
    /// The guest writes the port.
    Out,
}

/// A guest's access to a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortAccess {
    /// The port.
    pub port: u16,
    /// Bytes: 1, 2 or 4.
    pub size: u8,
    /// Which way.
    pub direction: Direction,
    /// What is written. Unused by an IN.
    pub value: u32,
    /// INS or OUTS: data are in memory, not in a register.
    pub string: bool,
    /// With a REP prefix: many accesses in one instruction.
    pub rep: bool,
}

impl PortAccess {
    /// The access out of a VMX exit qualification. `value` is the guest's EAX.
    pub const fn from_vmx(qualification: u64, value: u32) -> PortAccess {
        PortAccess {
            port: (qualification >> 16) as u16,
            size: (qualification & 7) as u8 + 1,
            direction: direction(qualification & 1 << 3 != 0),
            value,
            string: qualification & 1 << 4 != 0,
            rep: qualification & 1 << 5 != 0,
        }
    }

    /// The access out of an SVM EXITINFO1. `value` is the guest's EAX.
    pub const fn from_svm(exitinfo1: u64, value: u32) -> PortAccess {
        PortAccess {
            port: (exitinfo1 >> 16) as u16,
            size: (exitinfo1 >> 4 & 7) as u8, // three bits, of which one is set: 1, 2 or 4
            direction: direction(exitinfo1 & 1 != 0),
            value,
            string: exitinfo1 & 1 << 2 != 0,
            rep: exitinfo1 & 1 << 3 != 0,
        }
    }

    /// Whether the exit's own words say all that is needed, so that no instruction has to be fetched. Neither string
    /// accesses nor repeated ones qualify: their data are in memory.
    pub const fn qualifies(&self) -> bool {
        !self.string && !self.rep
    }

    /// Whether it lies wholly within the `len` ports from `port`.
    const fn is_within(&self, port: u16, len: u32) -> bool {
        port <= self.port && self.port as u32 + self.size as u32 <= port as u32 + len
    }
}

const fn direction(is_in: bool) -> Direction {
    if is_in { Direction::In } else { Direction::Out }
}

/// Somebody in the kernel who serves ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PortRegistration {
    /// A device in the kernel or the hypervisor.
    Device {
        /// Its first port.
        port: u16,
        /// How many ports.
        len: u16,
    },
    /// An event descriptor that a write signals.
    Ioeventfd {
        /// The port, exactly.
        port: u16,
        /// The size of the write, exactly: 1, 2, 4 or 8; 0 for any.
        len: u8,
        /// Only writes of this value.
        datamatch: Option<u32>,
    },
    /// A range whose writes are kept in a ring until the device model looks.
    Coalesced {
        /// The first port.
        port: u16,
        /// How many ports.
        len: u16,
    },
}

/// Why a registration is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RegistrationError {
    /// A size that no write has, or a value to match but no size (EINVAL).
    Invalid,
    /// A write could signal two event descriptors (EEXIST).
    Exists,
}

impl PortRegistration {
    /// Whether it may be added to `others`. An event descriptor may not, if a write to its port could be meant for
    /// another one as well: same port, and one of either size, or the same size and one of any value or the same value.
    pub fn check(&self, others: &[PortRegistration]) -> Result<(), RegistrationError> {
        let PortRegistration::Ioeventfd { port, len, datamatch } = *self else { return Ok(()) };
        if !matches!(len, 0 | 1 | 2 | 4 | 8) || (len == 0 && datamatch.is_some()) {
            return Err(RegistrationError::Invalid);
        }
        let collides = others.iter().any(|other| match *other {
            PortRegistration::Ioeventfd { port: its_port, len: its_len, datamatch: its_match } => {
                let values_meet = datamatch.is_none() || its_match.is_none() || datamatch == its_match;
                port == its_port && (len == 0 || its_len == 0 || (len == its_len && values_meet))
            }
            PortRegistration::Device { .. } | PortRegistration::Coalesced { .. } => false,
        });
        if collides { Err(RegistrationError::Exists) } else { Ok(()) }
    }

    /// How it serves the access; `None` if it lets it pass. `room`: the ring has room for one more.
    fn serves(&self, access: &PortAccess, room: bool) -> Option<PortHandler> {
        let is_write = access.direction == Direction::Out;
        match *self {
            PortRegistration::Device { port, len } => {
                access.is_within(port, u32::from(len)).then_some(PortHandler::Device)
            }
            PortRegistration::Ioeventfd { port, len, datamatch } => {
                let mask = u32::MAX >> (32 - 8 * u32::from(access.size.clamp(1, 4)));
                let hit = is_write
                    && port == access.port
                    && (len == 0 || len == access.size)
                    && datamatch.is_none_or(|value| value == access.value & mask);
                hit.then_some(PortHandler::Ioeventfd)
            }
            PortRegistration::Coalesced { port, len } => {
                (is_write && room && access.is_within(port, u32::from(len))).then_some(PortHandler::Coalesced)
            }
        }
    }
}

/// Who serves an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PortHandler {
    /// A device in the kernel or the hypervisor.
    Device,
    /// An event descriptor: somebody else does the work, the guest does not wait.
    Ioeventfd,
    /// The ring of coalesced writes.
    Coalesced,
    /// The device model outside the kernel.
    DeviceModel,
}

/// The way of one access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortRoute {
    /// Decoded from the exit, otherwise emulated.
    pub quick: bool,
    /// Who serves it.
    pub server: PortHandler,
    /// The position of the registration that took it.
    pub registration: Option<usize>,
}

/// The way that an access takes. `bus` is asked in order; who lets the access pass leaves it to the next, and at last to
/// the device model. `room`: the coalesced ring has room ([`CoalescedRing::has_room`]).
pub fn route(params: &Params, bus: &[PortRegistration], access: &PortAccess, room: bool) -> PortRoute {
    let taken = bus.iter().enumerate().find_map(|(at, who)| Some((at, who.serves(access, room)?)));
    let (registration, server) = match taken {
        Some((at, server)) => (Some(at), server),
        None => (None, PortHandler::DeviceModel),
    };
    PortRoute { quick: params.quick_path && access.qualifies(), server, registration }
}

/// One thing that happens on the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PortPathWork {
    /// The hardware leaves the guest.
    Exit,
    /// The access is read off the exit's own words.
    Decode,
    /// The instruction is fetched from the guest's memory, decoded and executed.
    Emulate,
    /// A device in the kernel or the hypervisor acts.
    Device,
    /// An event descriptor is signalled.
    Signal,
    /// The write is stored in the ring.
    Store,
    /// The vCPU's own thread leaves to user space.
    LeaveToUser,
    /// The request is written down and the device model woken: the moment of Xen's `blocked_to_runnable`.
    WakeDeviceModel,
    /// The vCPU gives its CPU away until the answer is there.
    Block,
    /// The device model acts.
    DeviceModel,
    /// The vCPU's own thread comes back from user space.
    ReturnFromUser,
    /// The vCPU is woken and gets a CPU.
    Resume,
    /// What was read is put into the guest's register.
    Complete,
    /// The hardware enters the guest.
    Entry,
}

/// The most phases that any access takes.
pub const MAX_PHASES: usize = 8;

/// What an access pays, in order. Accesses of a REP instruction each pay for their own.
pub fn phases(params: &Params, route: &PortRoute, direction: Direction) -> BoundedList<PortPathWork, MAX_PHASES> {
    let decode = if route.quick { PortPathWork::Decode } else { PortPathWork::Emulate };
    let mut steps = BoundedList::new(PortPathWork::Exit);
    steps.extend([PortPathWork::Exit, decode]);
    match (route.server, params.device_model) {
        (PortHandler::Device, _) => steps.push(PortPathWork::Device),
        (PortHandler::Ioeventfd, _) => steps.push(PortPathWork::Signal),
        (PortHandler::Coalesced, _) => steps.push(PortPathWork::Store),
        (PortHandler::DeviceModel, DeviceModel::Inline) => {
            steps.extend([PortPathWork::LeaveToUser, PortPathWork::DeviceModel, PortPathWork::ReturnFromUser]);
        }
        (PortHandler::DeviceModel, DeviceModel::Scheduled) => {
            steps.extend([
                PortPathWork::WakeDeviceModel,
                PortPathWork::Block,
                PortPathWork::DeviceModel,
                PortPathWork::Resume,
            ]);
        }
    }
    // An access that is served in place is finished by the decoding that is still under way.
    if direction == Direction::In && route.server == PortHandler::DeviceModel {
        steps.push(if route.quick { PortPathWork::Complete } else { PortPathWork::Emulate });
    }
    steps.push(PortPathWork::Entry);
    steps
}

/// The ring of coalesced writes, as kernel and device model share it: positions of the oldest and the next entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CoalescedRing {
    first: u32,
    last: u32,
}

impl CoalescedRing {
    /// Entries of a ring of one 4 KiB page; one of them always stays empty.
    pub const ENTRIES: u32 = 170;

    /// Whether one more write fits. If not, it goes to the device model.
    pub const fn has_room(&self) -> bool {
        (self.last + 1) % Self::ENTRIES != self.first
    }

    /// A write is stored. Nothing happens without room.
    pub fn push(&mut self) {
        if self.has_room() {
            self.last = (self.last + 1) % Self::ENTRIES;
        }
    }

    /// The device model takes all writes out, at its next exit or timer: how many there were.
    pub fn drain(&mut self) -> u32 {
        let waiting = (self.last + Self::ENTRIES - self.first) % Self::ENTRIES;
        self.first = self.last;
        waiting
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use proptest::prelude::*;
    use std::vec::Vec;

    const READ: PortAccess =
        PortAccess { port: 0x1f0, size: 2, direction: Direction::In, value: 0, string: false, rep: false };
    const WRITE: PortAccess = PortAccess { direction: Direction::Out, value: 7, ..READ };
    const XEN_3_3: Params = Params { quick_path: false, device_model: DeviceModel::Scheduled };
    const PATCHED: Params = Params { quick_path: true, ..XEN_3_3 };

    fn way(params: &Params, access: &PortAccess) -> Vec<PortPathWork> {
        phases(params, &route(params, &[], access, true), access.direction).to_vec()
    }

    #[test]
    fn accesses_are_read_off_the_exits_own_words() {
        let read = PortAccess { port: 0x71, size: 1, value: 5, ..READ };
        assert_eq!(PortAccess::from_vmx(0x0071_0008, 5), read);
        assert_eq!(PortAccess::from_svm(0x0071_0011, 5), read);
        let outs = PortAccess { port: 0x1f0, size: 4, value: 0, string: true, rep: true, ..WRITE };
        assert_eq!(PortAccess::from_vmx(0x01f0_0033, 0), outs);
        assert_eq!(PortAccess::from_svm(0x01f0_004c, 0), outs);
        assert!(read.qualifies() && !outs.qualifies());
        assert!(!PortAccess { string: false, ..outs }.qualifies() && !PortAccess { rep: false, ..outs }.qualifies());
    }

    #[test]
    fn xen_3_3_emulates_an_in_twice_and_an_out_once() {
        use PortPathWork::*;
        let sent = [Exit, Emulate, WakeDeviceModel, Block, DeviceModel, Resume];
        assert_eq!(way(&XEN_3_3, &READ), [&sent[..], &[Emulate, Entry]].concat());
        assert_eq!(way(&XEN_3_3, &WRITE), [&sent[..], &[Entry]].concat());
        let quick = [Exit, Decode, WakeDeviceModel, Block, DeviceModel, Resume];
        assert_eq!(way(&PATCHED, &READ), [&quick[..], &[Complete, Entry]].concat());
        assert_eq!(way(&PATCHED, &WRITE), [&quick[..], &[Entry]].concat());
        let string = PortAccess { string: true, ..READ };
        assert_eq!(way(&PATCHED, &string), way(&XEN_3_3, &string));
    }

    #[test]
    fn kvm_serves_a_port_in_its_own_thread_unless_somebody_in_the_kernel_takes_it() {
        use PortPathWork::*;
        let params = Params::default();
        assert_eq!(way(&params, &READ), [Exit, Decode, LeaveToUser, DeviceModel, ReturnFromUser, Complete, Entry]);
        for (who, server, phase) in [
            (PortRegistration::Device { port: 0x1f0, len: 8 }, PortHandler::Device, Device),
            (PortRegistration::Ioeventfd { port: 0x1f0, len: 2, datamatch: Some(7) }, PortHandler::Ioeventfd, Signal),
            (PortRegistration::Coalesced { port: 0x1f0, len: 2 }, PortHandler::Coalesced, Store),
        ] {
            let route = route(&params, &[who], &WRITE, true);
            assert_eq!(route, PortRoute { quick: true, server, registration: Some(0) });
            assert_eq!(phases(&params, &route, Direction::Out)[..], [Exit, Decode, phase, Entry]);
        }
    }

    #[test]
    fn an_ioeventfd_takes_exactly_its_port_size_and_value_and_lets_the_rest_pass() {
        let event = |len, datamatch| PortRegistration::Ioeventfd { port: 0x1f0, len, datamatch };
        for (who, access, taken) in [
            (event(0, None), WRITE, true),
            (event(0, None), PortAccess { size: 4, ..WRITE }, true),
            (event(2, None), WRITE, true),
            (event(2, Some(7)), WRITE, true),
            (event(2, Some(7)), PortAccess { value: 0xabcd_0007, ..WRITE }, true),
            (event(2, Some(8)), WRITE, false),
            // As many bytes of the value count as are written.
            (event(2, Some(0x1234)), PortAccess { value: 0x5678_1234, ..WRITE }, true),
            (event(1, Some(0x34)), PortAccess { size: 1, value: 0x5678_1234, ..WRITE }, true),
            (event(4, Some(0x1234)), PortAccess { size: 4, value: 0x5678_1234, ..WRITE }, false),
            (event(4, None), WRITE, false),
            (event(0, None), READ, false),
            (event(0, None), PortAccess { port: 0x1f1, ..WRITE }, false),
        ] {
            let bus = [who, PortRegistration::Device { port: 0x1f0, len: 8 }];
            let server = route(&Params::default(), &bus, &access, true).server;
            assert_eq!(server, if taken { PortHandler::Ioeventfd } else { PortHandler::Device }, "{who:?} {access:?}");
        }
    }

    #[test]
    fn a_coalesced_zone_takes_whole_writes_while_its_ring_has_room() {
        let bus = [PortRegistration::Coalesced { port: 0x1f0, len: 2 }];
        let server = |access: &PortAccess, room| route(&Params::default(), &bus, access, room).server;
        assert_eq!(server(&WRITE, true), PortHandler::Coalesced);
        for (access, room) in [
            (WRITE, false),
            (READ, true),
            (PortAccess { size: 4, ..WRITE }, true),
            (PortAccess { port: 0x1f1, ..WRITE }, true),
            (PortAccess { port: 0x1ef, ..WRITE }, true),
        ] {
            assert_eq!(server(&access, room), PortHandler::DeviceModel, "{access:?}");
        }
    }

    #[test]
    fn the_ring_holds_one_less_than_its_entries() {
        let mut ring = CoalescedRing::default();
        for _ in 0..3 {
            (0..200).for_each(|_| ring.push());
            assert!(!ring.has_room());
            assert_eq!((ring.drain(), ring.drain()), (CoalescedRing::ENTRIES - 1, 0));
        }
    }

    #[test]
    fn an_ioeventfd_that_could_be_mistaken_for_another_is_refused() {
        let event = |len, datamatch| PortRegistration::Ioeventfd { port: 0x1f0, len, datamatch };
        for (new, old, answer) in [
            (event(3, None), event(1, None), Err(RegistrationError::Invalid)),
            (event(0, Some(1)), event(1, None), Err(RegistrationError::Invalid)),
            (event(2, Some(1)), event(2, Some(1)), Err(RegistrationError::Exists)),
            (event(2, Some(1)), event(2, Some(2)), Ok(())),
            (event(2, Some(1)), event(2, None), Err(RegistrationError::Exists)),
            (event(2, None), event(4, None), Ok(())),
            (event(0, None), event(4, Some(1)), Err(RegistrationError::Exists)),
            (event(2, None), PortRegistration::Device { port: 0x1f0, len: 8 }, Ok(())),
            (PortRegistration::Ioeventfd { port: 0x1f4, len: 0, datamatch: None }, event(0, None), Ok(())),
        ] {
            assert_eq!(new.check(&[old]), answer, "{new:?} beside {old:?}");
        }
    }

    fn any_access() -> impl Strategy<Value = PortAccess> {
        let size = prop::sample::select(std::vec![1u8, 2, 4]);
        (0u16..16, size, any::<bool>(), 0u32..4, any::<bool>(), any::<bool>()).prop_map(
            |(port, size, is_in, value, string, rep)| PortAccess {
                port,
                size,
                direction: direction(is_in),
                value,
                string,
                rep,
            },
        )
    }

    fn any_registration() -> impl Strategy<Value = PortRegistration> {
        let len = prop::sample::select(std::vec![0u8, 1, 2, 4]);
        prop_oneof![
            (0u16..16, 1u16..8).prop_map(|(port, len)| PortRegistration::Device { port, len }),
            (0u16..16, 1u16..8).prop_map(|(port, len)| PortRegistration::Coalesced { port, len }),
            (0u16..16, len, prop::option::of(0u32..4)).prop_map(|(port, len, datamatch)| {
                PortRegistration::Ioeventfd { port, len, datamatch: datamatch.filter(|_| len > 0) }
            }),
        ]
    }

    proptest! {
        #[test]
        fn every_way_begins_with_the_exit_ends_with_the_entry_and_asks_one_server(
            access in any_access(), bus in prop::collection::vec(any_registration(), 0..6), quick: bool, scheduled: bool,
            room: bool
        ) {
            let device_model = if scheduled { DeviceModel::Scheduled } else { DeviceModel::Inline };
            let params = Params { quick_path: quick, device_model };
            let route = route(&params, &bus, &access, room);
            let steps = phases(&params, &route, access.direction);
            prop_assert_eq!((steps[0], steps[steps.len() - 1]), (PortPathWork::Exit, PortPathWork::Entry));
            let count = |phase| steps.iter().filter(|step| **step == phase).count();
            let served = [PortPathWork::Device, PortPathWork::Signal, PortPathWork::Store, PortPathWork::DeviceModel].map(count);
            prop_assert_eq!(served.iter().sum::<usize>(), 1);
            prop_assert_eq!(count(PortPathWork::Decode) == 1, quick && access.qualifies());
            prop_assert_eq!(route.registration.is_none(), route.server == PortHandler::DeviceModel);
        }

        #[test]
        fn at_most_one_accepted_ioeventfd_takes_a_write(
            wanted in prop::collection::vec(any_registration(), 0..12), access in any_access()
        ) {
            let mut bus: Vec<PortRegistration> = Vec::new();
            for who in wanted {
                if who.check(&bus).is_ok() {
                    bus.push(who);
                }
            }
            let takers = bus.iter().filter(|who| who.serves(&access, true) == Some(PortHandler::Ioeventfd)).count();
            prop_assert!(takers <= 1);
        }
    }
}
