//! The run loop of one vCPU: runs the guest, answers what comes out, accounts for it, until its program ends.
//!
//! ```text
//! KVM_RUN ─► exit ─► owed delay ─┬─ access ─► registers ─► lock ─► device, here or on its thread ─┬─► delay ─► account ─► KVM_RUN
//!                                ├─ HALT, SLEEP ─► the vCPU's parker ─────────────────────────────┤
//!                                ├─ WAKE ─► another's parker ─────────────────────────────────────┤
//!                                └─ DONE ─► the end
//! ```

use crate::abi::{VcpuPage, bell};
use crate::device_model::{Device, DeviceThread};
use crate::events::Events;
use crate::exit_account::{ExitAccount, LabExitReason, LabHandler};
use crate::virtual_speedup::{OwedDelay, VirtualSpeedup};
use crate::{IoAddress, KvmExit, LabError, LabMachine, LabVcpu, LabVm, Parker, Watch, abi, boot, next_exit, ticks};
use exitscope_policy::exit_path::{DeviceLock, RegisterSync};
use exitscope_policy::host_halt_poll::{self, HostHaltPoll, PollOwner, PollPermission};
use exitscope_units::Nanos;
use std::mem::offset_of;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How exits of a VM are served. One for all its vCPUs.
pub struct Setup<'a> {
    /// The machine, for its clock.
    pub machine: &'a LabMachine,
    /// Who answers accesses. What no device has is answered with zeros.
    pub devices: &'a [Device],
    /// A device model's thread that does so; `None`: the vCPU's own thread.
    pub thread: Option<&'a DeviceThread>,
    /// One lock for all devices or one for each; `None`: no lock.
    pub lock: Option<DeviceLock>,
    /// How registers are synchronised at each access: by ioctls, or through the shared page; `None`: not at all.
    pub registers: Option<RegisterSync>,
    /// Nanoseconds that every exit to user space takes longer.
    pub delay_ns: u64,
    /// Only every second exit of a vCPU does, not the first.
    pub delay_alternates: bool,
    /// Which exits are longer, or as if they were shorter, than those of other kinds.
    pub changed: ChangedExits<'a>,
    /// Where each vCPU waits when it halts, by its number.
    pub parkers: &'a [Parker],
    /// KVM collects writes in a ring, which is emptied at every exit of vCPU 0.
    pub coalesces: bool,
    /// Halts block inside KVM, in this VM, where KVM polls before it sleeps; `None`: on the vCPU's parker.
    pub halts_in: Option<&'a LabVm>,
    /// Who takes what goes outside: answers to clients, and disks' requests.
    pub outside: Option<&'a dyn OutboundSink>,
    /// Polls on the parker before waiting there, as KVM does before it blocks; `None`: waits at once.
    pub halt_poll: Option<host_halt_poll::Params>,
    /// By vCPU number: whom it shares its CPUs with. A vCPU whose CPU another one wants does not poll; empty: nobody shares one.
    pub beside: &'a [CpuSharers],
    /// Whether events are kept.
    pub events: bool,
    /// The lock for all devices.
    pub big_lock: Mutex<()>,
}

impl<'a> Setup<'a> {
    /// No devices, no locks, no registers, no delay.
    pub fn new(machine: &'a LabMachine, parkers: &'a [Parker]) -> Setup<'a> {
        Setup {
            machine,
            devices: &[],
            thread: None,
            lock: None,
            registers: None,
            delay_ns: 0,
            delay_alternates: false,
            changed: ChangedExits::default(),
            parkers,
            coalesces: false,
            halts_in: None,
            outside: None,
            halt_poll: None,
            beside: &[],
            events: false,
            big_lock: Mutex::default(),
        }
    }
}

/// Whom a vCPU's thread shares its CPUs with.
#[derive(Clone, Debug, Default)]
pub struct CpuSharers {
    /// The numbers of the other vCPUs that may run on them.
    pub others: Vec<u32>,
    /// How many CPUs there are.
    pub cpus: usize,
}

/// What is different of one kind of exit, on purpose.
#[derive(Clone, Copy, Debug, Default)]
pub struct ChangedExits<'a> {
    /// Those of one kind are as if they were cheaper.
    pub cheaper: Option<&'a VirtualSpeedup>,
    /// Those of this kind take so many nanoseconds longer.
    pub longer: Option<(LabExitReason, u64)>,
}

/// Who takes what vCPUs send outside.
pub trait OutboundSink: Sync {
    /// vCPU `number` answers client `client`.
    fn reply(&self, number: u32, client: u32);
    /// vCPU `number` hands a request to disk `disk`.
    fn submit(&self, number: u32, disk: u32);
}

/// What a vCPU's run was.
#[derive(Clone, Debug, Default)]
pub struct VcpuRun {
    /// Its exits to user space.
    pub account: ExitAccount,
    /// Its events, if they are kept.
    pub events: Events,
    /// Writes that came through the ring of coalesced accesses.
    pub coalesced: u64,
    /// Halts before which the run loop polled, and those whose wake-up came while it did.
    pub polls: [u64; 2],
    /// The exit, in no account, that was being answered when the run was ended.
    pub cut_off: Option<LabExitReason>,
    /// Ticks of a [`VirtualSpeedup`]'s delays that it had not taken when its run was over.
    pub owed: u64,
}

/// Runs a vCPU until its program is over.
pub fn serve(vcpu: &mut LabVcpu, setup: &Setup, watch: &Watch) -> Result<VcpuRun, LabError> {
    let mut served = VcpuRun::default();
    serve_into(vcpu, setup, watch, &mut served)?;
    Ok(served)
}

/// The same, with what was counted kept even if the run ends before the program.
pub fn serve_into(vcpu: &mut LabVcpu, setup: &Setup, watch: &Watch, served: &mut VcpuRun) -> Result<(), LabError> {
    let clock = TickClock::new(setup.machine);
    let owed = OwedDelay::new(setup.changed.cheaper, vcpu.number());
    vcpu.share_registers(setup.registers == Some(RegisterSync::Page));
    let mut serving = Serving { setup, watch, clock, poll: HostHaltPoll::new(PollOwner::Vcpu), owed };
    let result = serving.until_done(vcpu, served);
    setup.parkers.get(vcpu.number() as usize).inspect(|parker| parker.retire());
    served.owed = serving.owed.owes();
    result
}

/// A vCPU that is served.
struct Serving<'a> {
    setup: &'a Setup<'a>,
    watch: &'a Watch,
    clock: TickClock,
    poll: HostHaltPoll,
    owed: OwedDelay<'a>,
}

impl Serving<'_> {
    fn until_done(&mut self, vcpu: &mut LabVcpu, served: &mut VcpuRun) -> Result<(), LabError> {
        let (setup, watch) = (self.setup, self.watch);
        let delay = setup.machine.ticks_in(setup.delay_ns);
        let longer = setup.changed.longer.map(|(reason, ns)| (reason, setup.machine.ticks_in(ns)));
        let mut answer = 0;
        let mut delayed = !setup.delay_alternates;
        loop {
            if setup.events {
                served.events.enter(vcpu, self.clock.ns(ticks()), answer);
            }
            let exit = next_exit(vcpu, watch)?;
            wait(self.owed.take(), watch);
            let begin = ticks();
            let reason = LabExitReason::of(&exit);
            served.cut_off = Some(reason);
            if setup.events {
                served.events.exit(vcpu, self.clock.ns(begin), &exit);
            }
            if setup.coalesces && vcpu.index() == 0 {
                served.coalesced += vcpu.drain()?;
            }
            let mut handler = LabHandler::Doorbell;
            answer = 0;
            match exit {
                KvmExit::Bell { bell: bell::DONE, .. } => {
                    served.cut_off = None;
                    return Ok(());
                }
                KvmExit::Bell { bell, value } => answer = self.bell(vcpu, bell, value, begin, &mut served.polls)?,
                KvmExit::Halt => self.halt(vcpu, begin, &mut served.polls)?,
                KvmExit::Kicked => {}
                KvmExit::PortIn { port, .. } => {
                    (handler, answer) = access(vcpu, setup, watch, IoAddress::Port(port), false, begin)?
                }
                KvmExit::PortOut { port, .. } => {
                    (handler, _) = access(vcpu, setup, watch, IoAddress::Port(port), true, begin)?
                }
                KvmExit::MmioRead { address, .. } => {
                    (handler, answer) = access(vcpu, setup, watch, IoAddress::Address(address), false, begin)?;
                }
                KvmExit::MmioWrite { address, .. } => {
                    (handler, _) = access(vcpu, setup, watch, IoAddress::Address(address), true, begin)?;
                }
                KvmExit::Msr { .. } => handler = LabHandler::Inline,
            }
            vcpu.answer(answer);
            longer.filter(|longer| longer.0 == reason).inspect(|longer| wait(longer.1, watch));
            // An exit that is not delayed looks at the clock as well, and nothing hints that this spins: both would take longer than
            // the shortest delays, which end with the first look that is late enough.
            let answered = ticks();
            if delayed {
                while ticks().wrapping_sub(answered) < delay {}
            }
            delayed = !(delayed && setup.delay_alternates);
            self.owed.has_made(reason);
            served.account.record(reason, handler, self.clock.length(ticks() - begin));
            served.cut_off = None;
        }
    }

    /// Does what a doorbell that ends no program asks for. What the guest reads from it.
    fn bell(
        &mut self,
        vcpu: &mut LabVcpu,
        bell: u16,
        value: u32,
        begin: u64,
        polls: &mut [u64; 2],
    ) -> Result<u64, LabError> {
        let setup = self.setup;
        match bell {
            bell::PANIC => {
                return Err(LabError::Crash(format!("vCPU {}: its payload gave up ({value})", vcpu.index())));
            }
            bell::HALT if setup.halts_in.is_some() => vcpu.halt_in_kernel()?,
            bell::HALT => self.halt(vcpu, begin, polls)?,
            bell::SLEEP => {
                let place = boot::area(vcpu.index()) + offset_of!(VcpuPage, sleep_ns) as u64;
                let ns = vcpu.memory().u64(place).load(std::sync::atomic::Ordering::SeqCst);
                self.park(vcpu, Instant::now().checked_add(Duration::from_nanos(ns)))?;
            }
            bell::WAKE => {
                self.owed.wakes(value);
                if let Some(vm) = setup.halts_in {
                    vm.wake(value)?;
                } else if let Some(parker) = setup.parkers.get(value as usize) {
                    parker.wake();
                }
            }
            bell::YIELD | bell::YIELD_TO => std::thread::yield_now(),
            // Whoever has not halted counts as running: the kernel does not say more.
            bell::SENSE => return Ok(1),
            bell::REPLY => {
                if let Some(outside) = setup.outside {
                    outside.reply(vcpu.number(), value);
                }
            }
            bell::SUBMIT => {
                if let Some(outside) = setup.outside {
                    outside.submit(vcpu.number(), value);
                }
            }
            _ => {}
        }
        Ok(0)
    }

    /// Waits for a wake-up, by polling first if that is asked for.
    fn halt(&mut self, vcpu: &LabVcpu, begin: u64, polls: &mut [u64; 2]) -> Result<(), LabError> {
        let (setup, clock) = (self.setup, &self.clock);
        match poll_for_wake(vcpu, setup, self.watch, clock, &mut self.poll, polls) {
            true => self.owed.unblocks(),
            false => self.park(vcpu, None)?,
        }
        if let Some(params) = &setup.halt_poll {
            let length = Nanos(self.clock.length(ticks() - begin));
            self.poll.finish(params, &PollPermission::default(), length, true);
        }
        Ok(())
    }

    fn park(&mut self, vcpu: &LabVcpu, until: Option<Instant>) -> Result<(), LabError> {
        let parker = self.setup.parkers.get(vcpu.number() as usize);
        let parker = parker.ok_or_else(|| LabError::Crash(format!("vCPU {} halts for ever", vcpu.index())))?;
        self.owed.blocks();
        if !parker.park_until(self.watch, until) {
            return Err(self.watch.why());
        }
        self.owed.unblocks();
        wait(self.owed.take(), self.watch);
        Ok(())
    }
}

/// Keeps this thread from going on for so many ticks, or until the run is over.
fn wait(length: u64, watch: &Watch) {
    if length > 0 {
        let begin = ticks();
        while ticks().wrapping_sub(begin) < length && !watch.is_over() {
            std::hint::spin_loop();
        }
    }
}

/// Looks for a wake-up for as long as host halt polling says. Whether it came.
fn poll_for_wake(
    vcpu: &LabVcpu,
    setup: &Setup,
    watch: &Watch,
    clock: &TickClock,
    poll: &mut HostHaltPoll,
    polls: &mut [u64; 2],
) -> bool {
    let Some((params, parker)) = setup.halt_poll.as_ref().zip(setup.parkers.get(vcpu.number() as usize)) else {
        return false;
    };
    let (begin, limit) = (ticks(), poll.start(params, &PollPermission::default()).0);
    if limit == 0 || is_wanted(vcpu, setup) {
        return false;
    }
    polls[0] += 1;
    while clock.length(ticks() - begin) < limit && !watch.is_over() && !is_wanted(vcpu, setup) {
        if parker.take() {
            polls[1] += 1;
            return true;
        }
        std::hint::spin_loop();
    }
    false
}

/// Whether another vCPU wants the CPU of this one: KVM then does not poll, kvm_vcpu_can_poll() of virt/kvm/kvm_main.c.
fn is_wanted(vcpu: &LabVcpu, setup: &Setup) -> bool {
    setup.beside.get(vcpu.number() as usize).is_some_and(|beside| {
        let runs = |other: &&u32| setup.parkers.get(**other as usize).is_some_and(|parker| !parker.is_asleep());
        beside.others.iter().filter(runs).count() >= beside.cpus
    })
}

/// One access: who answered it, and what.
fn access(
    vcpu: &mut LabVcpu,
    setup: &Setup,
    watch: &Watch,
    place: IoAddress,
    write: bool,
    begin: u64,
) -> Result<(LabHandler, u64), LabError> {
    let big =
        (setup.lock == Some(DeviceLock::Big)).then(|| setup.big_lock.lock().unwrap_or_else(PoisonError::into_inner));
    get_registers(vcpu, setup.registers)?;
    let number = setup.devices.iter().position(|device| device.has(place));
    let (mut handler, mut value) = (LabHandler::Inline, 0);
    if let Some(number) = number {
        let device = &setup.devices[number];
        let own = (setup.lock == Some(DeviceLock::Split)).then(|| device.lock());
        (handler, value) = match setup.thread {
            Some(thread) => (LabHandler::Thread, thread.ask(begin, number, write, watch)?),
            None => (LabHandler::Inline, device.access(write)),
        };
        drop(own);
    }
    set_registers(vcpu, setup.registers)?;
    drop(big);
    Ok((handler, value))
}

/// Reads the registers as a device model does that needs them: every class by an ioctl of its own, only the general ones,
/// or none as the page has them.
fn get_registers(vcpu: &mut LabVcpu, how: Option<RegisterSync>) -> Result<(), LabError> {
    let fd = vcpu.fd();
    match how {
        None => {}
        Some(RegisterSync::Page) => {
            std::hint::black_box(fd.sync_regs_mut().regs.rax);
        }
        Some(RegisterSync::Needed) => {
            std::hint::black_box(fd.get_regs().map_err(LabError::kvm("KVM_GET_REGS"))?);
        }
        Some(RegisterSync::All) => {
            std::hint::black_box(fd.get_regs().map_err(LabError::kvm("KVM_GET_REGS"))?);
            std::hint::black_box(fd.get_sregs().map_err(LabError::kvm("KVM_GET_SREGS"))?);
            std::hint::black_box(fd.get_fpu().map_err(LabError::kvm("KVM_GET_FPU"))?);
            std::hint::black_box(fd.get_vcpu_events().map_err(LabError::kvm("KVM_GET_VCPU_EVENTS"))?);
            std::hint::black_box(fd.get_debug_regs().map_err(LabError::kvm("KVM_GET_DEBUGREGS"))?);
            std::hint::black_box(fd.get_mp_state().map_err(LabError::kvm("KVM_GET_MP_STATE"))?);
        }
    }
    Ok(())
}

/// Writes them back.
fn set_registers(vcpu: &mut LabVcpu, how: Option<RegisterSync>) -> Result<(), LabError> {
    let fd = vcpu.fd();
    match how {
        None => {}
        Some(RegisterSync::Page) => fd.set_sync_dirty_reg(kvm_ioctls::SyncReg::Register),
        Some(RegisterSync::Needed | RegisterSync::All) => {
            let regs = fd.get_regs().map_err(LabError::kvm("KVM_GET_REGS"))?;
            fd.set_regs(&regs).map_err(LabError::kvm("KVM_SET_REGS"))?;
        }
    }
    Ok(())
}

/// Turns ticks into nanoseconds of the monotonic clock.
pub(crate) struct TickClock {
    at: u64,
    ns: u64,
    ns_per_2_32: u128,
}

impl TickClock {
    pub(crate) fn new(machine: &LabMachine) -> TickClock {
        // SAFETY: the kernel fills in one `timespec`.
        let now = unsafe {
            let mut now: libc::timespec = std::mem::zeroed();
            libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut now);
            now
        };
        TickClock {
            at: ticks(),
            ns: now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64,
            ns_per_2_32: (1_000_000_000u128 << 32) / u128::from(machine.tsc_hz.max(1)),
        }
    }

    pub(crate) fn length(&self, ticks: u64) -> u64 {
        ((u128::from(ticks) * self.ns_per_2_32) >> 32) as u64
    }

    pub(crate) fn ns(&self, ticks: u64) -> u64 {
        self.ns + self.length(ticks.saturating_sub(self.at))
    }
}

/// A [`Parker`] for each vCPU.
pub fn parkers(vcpus: u32) -> Vec<Parker> {
    (0..vcpus.min(abi::MAX_VCPUS as u32)).map(|_| Parker::default()).collect()
}
