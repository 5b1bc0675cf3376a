//! A virtual CPU: a value that any thread may run, until it comes out with a reason.
//!
//! ```text
//! vcpu.run() ─► KvmExit::PortIn { .. } ─► vcpu.answer(value) ─► vcpu.run() ─► KvmExit::Bell { HALT } ─► …
//!     ▲
//!     └─ KvmExit::Kicked: somebody called Kick::kick on this vCPU's handle
//! ```

use crate::{GuestMemory, LabError, VmConfig, abi, boot};
use kvm_bindings::{KVM_MP_STATE_HALTED, KVM_MP_STATE_RUNNABLE, kvm_mp_state, kvm_run};
use kvm_ioctls::{SyncReg, VcpuExit, VcpuFd};
use std::io;
use std::os::fd::AsRawFd;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicU8, Ordering};

/// Why a vCPU came out of the guest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KvmExit {
    /// IN of so many bytes; has to be answered before the next run, otherwise the guest reads zeros.
    PortIn {
        /// The port.
        port: u16,
        /// Bytes.
        size: u8,
    },
    /// OUT.
    PortOut {
        /// The port.
        port: u16,
        /// Bytes.
        size: u8,
        /// What was written.
        value: u32,
    },
    /// A load from outside memory; has to be answered.
    MmioRead {
        /// Guest-physical address.
        address: u64,
        /// Bytes.
        size: u8,
    },
    /// A store outside memory.
    MmioWrite {
        /// Guest-physical address.
        address: u64,
        /// Bytes.
        size: u8,
        /// What was written.
        value: u64,
    },
    /// A doorbell of the payload's, one of [`abi::bell`]. `SENSE` has to be answered.
    Bell {
        /// The doorbell, one of [`abi::bell`].
        bell: u16,
        /// What it says.
        value: u32,
    },
    /// HLT, where KVM has no interrupt controller.
    Halt,
    /// Somebody kicked it out, or a signal came.
    Kicked,
    /// An MSR that was asked to come out: number, and what is written.
    Msr {
        /// The register.
        number: u32,
        /// What is written; `None`: a read, which has to be answered.
        written: Option<u64>,
    },
}

/// A virtual CPU.
#[derive(Debug)]
pub struct LabVcpu {
    fd: VcpuFd,
    index: u32,
    kick: Arc<Kicker>,
    /// Where the answer to the last exit goes.
    unanswered: Option<Unanswered>,
    number: u32,
    /// The memory of its VM, and what that shares.
    memory: [Arc<GuestMemory>; 2],
}

/// A place in the page that KVM shares with us.
#[derive(Debug)]
struct Unanswered(NonNull<u8>, usize);

// SAFETY: it points into the mapping of the `VcpuFd` beside which it stands, and moves with it.
unsafe impl Send for Unanswered {}

impl LabVcpu {
    pub(crate) fn new(
        fd: VcpuFd,
        index: u32,
        number: u32,
        memory: [Arc<GuestMemory>; 2],
        run_size: usize,
    ) -> Result<LabVcpu, LabError> {
        let kick = Arc::new(Kicker::new(&fd, run_size)?);
        Ok(LabVcpu { fd, index, kick, unanswered: None, number, memory })
    }

    pub(crate) fn start(&mut self, config: &VmConfig, entry: u64) -> Result<(), LabError> {
        self.finish_access()?;
        if config.irqchip {
            // It may have been stopped in a halt; and all but the first begin waiting for a start-up interrupt, which
            // nobody sends here.
            self.set_state(KVM_MP_STATE_RUNNABLE)?;
        }
        let regs = boot::registers(self.index, config.ring, entry);
        self.fd.set_regs(&regs).map_err(LabError::kvm("KVM_SET_REGS"))
    }

    /// Completes an access that was answered, or abandoned: KVM does that at the beginning of a run.
    fn finish_access(&mut self) -> Result<(), LabError> {
        self.unanswered = None;
        self.kick.page().store(1, Ordering::SeqCst);
        let result = self.fd.run().map(drop);
        self.kick.page().store(0, Ordering::SeqCst);
        match result {
            Err(error) if error.errno() != libc::EINTR => Err(LabError::kvm("KVM_RUN")(error)),
            _ => Ok(()),
        }
    }

    /// Its number in the VM.
    pub fn index(&self) -> u32 {
        self.index
    }

    /// Its number among all that share memory.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// What kicks it out of the guest, from any thread.
    pub fn kick(&self) -> Kick {
        Kick(Arc::clone(&self.kick))
    }

    /// Forgets a kick that found it outside the guest. Whoever kicks must not do so at the same time.
    pub fn forget_kick(&self) {
        self.kick.page().store(0, Ordering::SeqCst);
    }

    /// The memory of its VM.
    pub fn memory(&self) -> &Arc<GuestMemory> {
        &self.memory[0]
    }

    /// The registers and settings that KVM has ioctls for.
    pub fn fd(&mut self) -> &mut VcpuFd {
        &mut self.fd
    }

    /// Has KVM put the general registers into the shared page at each exit (KVM_CAP_SYNC_REGS), or not.
    pub fn share_registers(&mut self, share: bool) {
        match share {
            true => self.fd.set_sync_valid_reg(SyncReg::Register),
            false => self.fd.clear_sync_valid_reg(SyncReg::Register),
        }
    }

    /// Has its next run begin with a halt inside KVM, which [`crate::LabVm::wake`] ends; as does a wake-up that came before.
    /// Needs the interrupt controllers.
    pub fn halt_in_kernel(&mut self) -> Result<(), LabError> {
        self.set_state(KVM_MP_STATE_HALTED)
    }

    fn set_state(&mut self, mp_state: u32) -> Result<(), LabError> {
        self.fd.set_mp_state(kvm_mp_state { mp_state }).map_err(LabError::kvm("KVM_SET_MP_STATE"))
    }

    /// Runs the guest until it comes out.
    pub fn run(&mut self) -> Result<KvmExit, LabError> {
        self.kick.runs_on_this_thread();
        self.unanswered = None;
        let exit = match self.fd.run() {
            Ok(exit) => exit,
            Err(error) if error.errno() == libc::EINTR || error.errno() == libc::EAGAIN => {
                self.kick.page().store(0, Ordering::SeqCst);
                return Ok(KvmExit::Kicked);
            }
            Err(error) => return Err(self.crash(&format!("KVM_RUN: {}", io::Error::from_raw_os_error(error.errno())))),
        };
        let mut answer = |data: &mut [u8]| {
            data.fill(0);
            self.unanswered = NonNull::new(data.as_mut_ptr()).map(|place| Unanswered(place, data.len()));
        };
        Ok(match exit {
            VcpuExit::IoIn(port, data) => {
                answer(data);
                let size = data.len().min(4) as u8;
                match bell(port) {
                    Some(bell) => KvmExit::Bell { bell, value: 0 },
                    None => KvmExit::PortIn { port, size },
                }
            }
            VcpuExit::IoOut(port, data) => {
                let value = number(data) as u32;
                match bell(port) {
                    Some(bell) => KvmExit::Bell { bell, value },
                    None => KvmExit::PortOut { port, size: data.len().min(4) as u8, value },
                }
            }
            VcpuExit::MmioRead(address, data) => {
                answer(data);
                KvmExit::MmioRead { address, size: data.len() as u8 }
            }
            VcpuExit::MmioWrite(address, data) => {
                KvmExit::MmioWrite { address, size: data.len() as u8, value: number(data) }
            }
            VcpuExit::X86Rdmsr(exit) => {
                *exit.error = 0;
                let number = exit.index;
                let place = NonNull::from(exit.data).cast();
                self.unanswered = Some(Unanswered(place, 8));
                KvmExit::Msr { number, written: None }
            }
            VcpuExit::X86Wrmsr(exit) => {
                *exit.error = 0;
                KvmExit::Msr { number: exit.index, written: Some(exit.data) }
            }
            VcpuExit::Hlt => KvmExit::Halt,
            VcpuExit::Intr => KvmExit::Kicked,
            other => {
                let what = match other {
                    VcpuExit::Shutdown => "a fault that it has no handler for (triple fault)".to_string(),
                    VcpuExit::InternalError => "KVM could not emulate an instruction".to_string(),
                    other => format!("an exit that its program has no reason for, {other:?}"),
                };
                return Err(self.crash(&what));
            }
        })
    }

    /// What the guest reads, if the last exit was a read.
    pub fn answer(&mut self, value: u64) {
        if let Some(Unanswered(place, length)) = self.unanswered.take() {
            for at in 0..length {
                // SAFETY: the `length` bytes from `place` on are in the page that KVM shares with us, which is mapped as
                // long as `self.fd` lives. KVM does not run this vCPU while we have `&mut self`.
                unsafe { place.add(at).write(value.to_le_bytes()[at % 8]) };
            }
        }
    }

    /// The next write that KVM has collected in the ring of this VM, of [`crate::LabVm::coalesce`]: place, bytes, value.
    pub fn coalesced(&mut self) -> Result<Option<(crate::IoAddress, u8, u64)>, LabError> {
        let entry = self.fd.coalesced_mmio_read().map_err(LabError::kvm("the ring of coalesced accesses"))?;
        Ok(entry.map(|entry| {
            // SAFETY: both names of the field are 32-bit numbers.
            let is_port = unsafe { entry.__bindgen_anon_1.pio } != 0;
            let place = match is_port {
                true => crate::IoAddress::Port(entry.phys_addr as u16),
                false => crate::IoAddress::Address(entry.phys_addr),
            };
            let size = entry.len.min(8) as u8;
            (place, size, number(&entry.data[..usize::from(size)]))
        }))
    }

    /// Takes all writes out of the ring of coalesced accesses. How many there were.
    pub fn drain(&mut self) -> Result<u64, LabError> {
        let mut count = 0;
        while self.coalesced()?.is_some() {
            count += 1;
        }
        Ok(count)
    }

    /// Maps the ring of coalesced accesses; once, before [`LabVcpu::coalesced`].
    pub fn map_ring(&mut self) -> Result<(), LabError> {
        self.fd.map_coalesced_mmio_ring().map_err(LabError::kvm("the ring of coalesced accesses"))
    }

    /// What became of the guest, with the registers that tell where.
    fn crash(&mut self, what: &str) -> LabError {
        let mut text = format!("vCPU {}: {what}", self.index);
        if let Ok(events) = self.fd.get_vcpu_events()
            && (events.exception.injected != 0 || events.exception.pending != 0)
        {
            let name = match events.exception.nr {
                6 => " (invalid instruction)",
                8 => " (double fault)",
                13 => " (general protection)",
                14 => " (page fault)",
                _ => "",
            };
            text.push_str(&format!("; exception {}{name}", events.exception.nr));
        }
        if let (Ok(regs), Ok(sregs)) = (self.fd.get_regs(), self.fd.get_sregs()) {
            text.push_str(&format!("; rip {:#x}, rsp {:#x}, cr2 {:#x}", regs.rip, regs.rsp, sregs.cr2));
        }
        LabError::Crash(text)
    }
}

fn bell(port: u16) -> Option<u16> {
    port.checked_sub(abi::BELLS).filter(|&bell| bell < abi::bell::COUNT)
}

/// Up to eight bytes, the lowest first.
fn number(bytes: &[u8]) -> u64 {
    bytes.iter().take(8).rev().fold(0, |value, byte| value << 8 | u64::from(*byte))
}

/// Kicks a vCPU out of the guest, from any thread.
#[derive(Clone, Debug)]
pub struct Kick(Arc<Kicker>);

impl Kick {
    /// Has the vCPU's run, or its next one if it is not running, come out as [`KvmExit::Kicked`].
    pub fn kick(&self) {
        self.0.page().store(1, Ordering::SeqCst);
        let thread = self.0.thread.load(Ordering::SeqCst);
        if thread != 0 {
            // SAFETY: signals a thread of this process; its handler does nothing. A thread that is gone is an error that
            // does not matter here.
            unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), thread, kick_signal()) };
        }
    }
}

/// A second mapping of the page that KVM shares, for the one byte that says that a run has to end at once.
#[derive(Debug)]
struct Kicker {
    run: NonNull<kvm_run>,
    size: usize,
    /// The thread that ran the vCPU last.
    thread: AtomicI32,
}

// SAFETY: only the one byte is used, as an atomic.
unsafe impl Send for Kicker {}
// SAFETY: as above.
unsafe impl Sync for Kicker {}

impl Kicker {
    fn new(fd: &VcpuFd, size: usize) -> Result<Kicker, LabError> {
        install_kick_handler()?;
        // SAFETY: a new mapping at a place that the kernel chooses, of the vCPU's shared pages.
        let run = unsafe {
            let protection = libc::PROT_READ | libc::PROT_WRITE;
            libc::mmap(std::ptr::null_mut(), size, protection, libc::MAP_SHARED, fd.as_raw_fd(), 0)
        };
        match NonNull::new(run.cast::<kvm_run>()) {
            Some(run) if run.as_ptr().cast() != libc::MAP_FAILED => Ok(Kicker { run, size, thread: AtomicI32::new(0) }),
            _ => Err(LabError::io("mmap of a vCPU's page", io::Error::last_os_error())),
        }
    }

    /// `immediate_exit`.
    fn page(&self) -> &AtomicU8 {
        // SAFETY: the mapping lives as long as `self`, and KVM itself expects this byte to change at any time.
        unsafe { AtomicU8::from_ptr(&raw mut (*self.run.as_ptr()).immediate_exit) }
    }

    fn runs_on_this_thread(&self) {
        thread_local!(static ID: i32 = {
            // SAFETY: asks for a number.
            unsafe { libc::gettid() }
        });
        ID.with(|id| self.thread.store(*id, Ordering::SeqCst));
    }
}

impl Drop for Kicker {
    fn drop(&mut self) {
        // SAFETY: it is the mapping of `new`.
        unsafe { libc::munmap(self.run.as_ptr().cast(), self.size) };
    }
}

fn kick_signal() -> i32 {
    libc::SIGRTMIN()
}

/// A handler that does nothing: the signal's work is to have KVM_RUN return.
fn install_kick_handler() -> Result<(), LabError> {
    extern "C" fn nothing(_: i32) {}
    // SAFETY: all zeros are a valid `sigaction`; the handler does nothing, which is safe at any moment.
    let done = unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = nothing as extern "C" fn(i32) as usize;
        libc::sigaction(kick_signal(), &action, std::ptr::null_mut())
    };
    match done {
        0 => Ok(()),
        _ => Err(LabError::io("sigaction", io::Error::last_os_error())),
    }
}
