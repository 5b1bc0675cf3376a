//! Guests that halt or are stopped, for how long and how often is known.
//!
//! ```text
//! 0x1000  sti · hlt · out 0x10, al     sleep: the local APIC's timer ends the hlt
//! 0x1001        hlt · out 0x10, al     pending: a wake-up is there before the hlt
//! 0x1004  jmp to itself                stop: a signal ends KVM_RUN, the VMM sleeps, and runs it again
//! 0x1006  iret                         what the timer's interrupt runs
//! ```
//!
//! The timer is written into the APIC with KVM_SET_LAPIC, which starts it anew from its count (`kvm_apic_set_state` of
//! `arch/x86/kvm/lapic.c`): the guest has to do nothing that would be an exit more.
//!
//! The wake-up is what KVM_HC_KICK_CPU makes for a lock's waiter, sent as a message of delivery mode REMRD
//! (`kvm_pv_kick_cpu_op` of `arch/x86/kvm/x86.c`); it stays until the next hlt. An interrupt would not do: that it is let in
//! only after the hlt is for the `sti` before it to see to, and QEMU's emulation of SVM forgets the `sti` where an interrupt
//! of the host's own comes between the two (`helper_vmrun` of QEMU 7.2 does not look at the VMCB's interrupt shadow). The
//! interrupt then comes first, and the hlt lasts for ever.

use crate::guest::{CODE_AT, OUT_PORT, Trouble, failed, io_error, start_in_real_mode, with_vcpu};
use kvm_bindings::{kvm_lapic_state, kvm_msi};
use kvm_ioctls::{VcpuExit, VcpuFd, VmFd};
use std::io;
use std::time::{Duration, Instant};

const CODE: &[u8] = &[0xfb, 0xf4, 0xe6, OUT_PORT as u8, 0xeb, 0xfe, 0xcf];
const HLT: u64 = 1;
const OUT: u64 = 2;
const SPIN: u64 = 4;
const HANDLER: usize = 6;
const VECTOR: u8 = 0x21;

/// In one run, so often: halts that find an event pending, halts that last, and stops.
pub const PENDING: u32 = 23;
pub const SLEEPS: u32 = 7;
pub const STOPS: u32 = 5;

/// For so long a guest runs before it is stopped.
const RUNNING: libc::timeval = libc::timeval { tv_sec: 0, tv_usec: 20_000 };

/// Registers of the local APIC, by offset (Intel's manual, volume 3, "Local APIC Register Address Map").
const SPURIOUS: usize = 0xf0;
const IN_SERVICE: usize = 0x100;
const LVT_TIMER: usize = 0x320;
const INITIAL_COUNT: usize = 0x380;
const CURRENT_COUNT: usize = 0x390;
const DIVIDE: usize = 0x3e0;

/// Halts so often while a wake-up is pending.
pub fn halt_with_pending(times: u32) -> Result<(), Trouble> {
    // To the first APIC; delivery mode 3 is REMRD.
    let wake_up = kvm_msi { address_lo: 0xfee0_0000, data: 3 << 8, ..kvm_msi::default() };
    with_apic(|vm, vcpu, lapic| {
        vcpu.set_lapic(&lapic).map_err(failed("KVM_SET_LAPIC"))?;
        for _ in 0..times {
            vm.signal_msi(wake_up).map_err(failed("KVM_SIGNAL_MSI"))?;
            run_to_out(vcpu, HLT)?;
        }
        Ok(())
    })
}

/// Halts so often for so long: from just before KVM_RUN until the APIC's timer fires.
pub fn halt_for(times: u32, length: Duration) -> Result<(), Trouble> {
    // The bus's clock has one cycle in a nanosecond (APIC_BUS_CYCLE_NS_DEFAULT of arch/x86/kvm/lapic.h).
    let cycles = u32::try_from(length.as_nanos()).map_err(|_| Trouble::Failed("at most 4 s".to_string()))?;
    with_apic(|_, vcpu, mut lapic| {
        set(&mut lapic, IN_SERVICE + usize::from(VECTOR / 32) * 0x10, 0);
        set(&mut lapic, LVT_TIMER, u32::from(VECTOR));
        set(&mut lapic, DIVIDE, 0b1011); // by 1
        set(&mut lapic, INITIAL_COUNT, cycles);
        set(&mut lapic, CURRENT_COUNT, cycles);
        for _ in 0..times {
            vcpu.set_lapic(&lapic).map_err(failed("KVM_SET_LAPIC"))?;
            run_to_out(vcpu, 0)?;
        }
        Ok(())
    })
}

/// Has `then` run a virtual CPU with a local APIC, and gives it what to set that to: as it is, but on.
fn with_apic(then: impl FnOnce(&VmFd, &mut VcpuFd, kvm_lapic_state) -> Result<(), Trouble>) -> Result<(), Trouble> {
    with_vcpu(CODE, &[(VECTOR, HANDLER)], |vm, vcpu| {
        let mut lapic = vcpu.get_lapic().map_err(failed("KVM_GET_LAPIC"))?;
        set(&mut lapic, SPURIOUS, 0x1ff);
        then(vm, vcpu, lapic)
    })
}

fn set(lapic: &mut kvm_lapic_state, register: usize, value: u32) {
    for (to, byte) in lapic.regs[register..].iter_mut().zip(value.to_le_bytes()) {
        *to = byte as std::ffi::c_char;
    }
}

/// Runs the guest from a place in its code until it writes to its port.
fn run_to_out(vcpu: &mut VcpuFd, from: u64) -> Result<(), Trouble> {
    start_in_real_mode(vcpu, CODE_AT + from)?;
    while !ran_to_out(vcpu)? {}
    Ok(())
}

/// Runs the guest until it writes to its port (`true`) or a signal comes.
fn ran_to_out(vcpu: &mut VcpuFd) -> Result<bool, Trouble> {
    match vcpu.run() {
        Ok(VcpuExit::IoOut(OUT_PORT, _)) => Ok(true),
        Ok(other) => Err(Trouble::Failed(format!("an exit that the guest has no reason for: {other:?}"))),
        Err(error) if io_error(error).kind() == io::ErrorKind::Interrupted => Ok(false),
        Err(error) => Err(failed("KVM_RUN")(error)),
    }
}

/// Stops a guest that spins so often for so long; says how long all stops lasted.
pub fn stop(times: u32, length: Duration) -> Result<Duration, Trouble> {
    extern "C" fn nothing(_: libc::c_int) {}
    // SAFETY: the handler does nothing, and is there as long as the program. Without SA_RESTART, which `signal` would set,
    // the signal ends KVM_RUN.
    let caught = unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = nothing as extern "C" fn(libc::c_int) as libc::sighandler_t;
        libc::sigaction(libc::SIGALRM, &action, std::ptr::null_mut())
    };
    if caught != 0 {
        return Err(Trouble::Failed(format!("sigaction: {}", io::Error::last_os_error())));
    }
    let mut stopped = Duration::ZERO;
    with_vcpu(CODE, &[], |_, vcpu| {
        start_in_real_mode(vcpu, CODE_AT + SPIN)?;
        for _ in 0..times {
            let once = libc::itimerval { it_interval: libc::timeval { tv_sec: 0, tv_usec: 0 }, it_value: RUNNING };
            // SAFETY: `once` is a valid value, and the old one is not asked for.
            if unsafe { libc::setitimer(libc::ITIMER_REAL, &once, std::ptr::null_mut()) } != 0 {
                return Err(Trouble::Failed(format!("setitimer: {}", io::Error::last_os_error())));
            }
            if ran_to_out(vcpu)? {
                return Err(Trouble::Failed("a guest that spins wrote to a port".to_string()));
            }
            let began = Instant::now();
            std::thread::sleep(length);
            stopped += began.elapsed();
        }
        // It runs once more, so that the last stop has an end.
        run_to_out(vcpu, OUT)
    })?;
    Ok(stopped)
}
