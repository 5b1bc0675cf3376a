//! The instructions that leave the guest, and a few that do not.

use crate::abi::{BELLS, SHARED, Shared, VcpuPage, WAKE_VECTOR, privileged, self_ipi};
use core::arch::{asm, global_asm};
use core::mem::offset_of;

/// Where wake-up interrupts are counted.
const INTERRUPTS: u64 = SHARED + offset_of!(Shared, interrupts) as u64;

/// x2APIC's registers.
const X2APIC_EOI: u32 = 0x80b;
const X2APIC_ICR: u32 = 0x830;
const X2APIC_SELF_IPI: u32 = 0x83f;

/// In the interrupt command register: to whoever writes it.
const TO_ITSELF: u64 = 1 << 18;

/// In CR8: holds every interrupt back.
const HIGHEST_PRIORITY: u64 = 15;

// Interrupts are off but in places that expect them, `let_interrupts_in`, `await_interrupt`, `relax_with_interrupts` and
// `wait_for_interrupt`: nothing of compiled code, like the red zone below its stack pointer, is in their way. The handler
// counts, and restores what it uses; the linker puts it first, at `abi::WAKE_INTERRUPT`. Two things that processors never
// do, but an emulated one may: it lets an interrupt in between STI and HLT, and then the HLT that it was to end is skipped,
// which `wait_for_interrupt` returns as 1 in rax; it delivers an interrupt twice, the second time right at the handler's
// beginning, which then runs twice.
global_asm!(
    ".section .wake, \"ax\"",
    "push rax",
    "push rcx",
    "push rdx",
    "mov ecx, {eoi}",
    "xor eax, eax",
    "xor edx, edx",
    "wrmsr",
    "lock inc qword ptr [{count}]",
    "lea rax, [rip + wait_hlt]",
    "cmp [rsp + 24], rax",
    "jne 2f",
    "inc qword ptr [rsp + 24]",
    "inc qword ptr [rsp + 16]",
    "2:",
    "pop rdx",
    "pop rcx",
    "pop rax",
    "iretq",
    ".text",
    "wait_for_interrupt:",
    "xor eax, eax",
    "sti",
    "wait_hlt:",
    "hlt",
    "cli",
    "ret",
    eoi = const X2APIC_EOI,
    count = const INTERRUPTS,
);

/// The time stamp counter, read after everything before it is done and before anything after it begins.
pub fn now() -> u64 {
    let (low, high): (u32, u32);
    // SAFETY: reads a counter.
    unsafe { asm!("lfence", "rdtsc", "lfence", out("eax") low, out("edx") high, options(nomem, nostack)) };
    u64::from(high) << 32 | u64::from(low)
}

/// The compute loop.
pub fn compute(passes: u64) {
    if passes > 0 {
        // SAFETY: counts a register down.
        unsafe { asm!("2:", "dec {0}", "jnz 2b", inout(reg) passes => _, options(nomem, nostack)) };
    }
}

/// Lets the other hardware thread go first.
pub fn relax() {
    core::hint::spin_loop();
}

/// Rings a doorbell.
pub fn ring(page: &mut VcpuPage, bell: u16, value: u32) {
    page.bells += 1;
    port_out(BELLS + bell, 4, value);
}

/// Asks at a doorbell.
pub fn ask(page: &mut VcpuPage, bell: u16) -> u32 {
    page.bells += 1;
    port_in(BELLS + bell, 4)
}

/// IN of 1, 2 or 4 bytes.
pub fn port_in(port: u16, size: u32) -> u32 {
    let mut value = 0u32;
    // SAFETY: a port access leaves the guest or is answered by KVM; it touches no memory of the payload's.
    unsafe {
        match size {
            1 => asm!("in al, dx", in("dx") port, inout("eax") value, options(nostack)),
            2 => asm!("in ax, dx", in("dx") port, inout("eax") value, options(nostack)),
            _ => asm!("in eax, dx", in("dx") port, inout("eax") value, options(nostack)),
        }
    }
    value
}

/// OUT of 1, 2 or 4 bytes.
pub fn port_out(port: u16, size: u32, value: u32) {
    // SAFETY: as for `port_in`. Doorbells may change memory, so the compiler keeps nothing in registers over it.
    unsafe {
        match size {
            1 => asm!("out dx, al", in("dx") port, in("eax") value, options(nostack)),
            2 => asm!("out dx, ax", in("dx") port, in("eax") value, options(nostack)),
            _ => asm!("out dx, eax", in("dx") port, in("eax") value, options(nostack)),
        }
    }
}

/// INS or OUTS of 1, 2 or 4 bytes: the data are in memory, so that KVM has to emulate the instruction.
pub fn port_string(port: u16, size: u32, write: bool) {
    let mut data = 0u32;
    let place = &raw mut data;
    // SAFETY: reads or writes at most the four bytes of `data`; the direction flag is clear, as everywhere in compiled
    // code.
    unsafe {
        match (write, size) {
            (false, 1) => asm!("insb", in("dx") port, inout("rdi") place => _, options(nostack)),
            (false, 2) => asm!("insw", in("dx") port, inout("rdi") place => _, options(nostack)),
            (false, _) => asm!("insd", in("dx") port, inout("rdi") place => _, options(nostack)),
            (true, 1) => asm!("outsb", in("dx") port, inout("rsi") place => _, options(nostack)),
            (true, 2) => asm!("outsw", in("dx") port, inout("rsi") place => _, options(nostack)),
            (true, _) => asm!("outsd", in("dx") port, inout("rsi") place => _, options(nostack)),
        }
    }
}

/// A load of 1, 2, 4 or 8 bytes, as one instruction that KVM can emulate.
pub fn load(address: u64, size: u32) -> u64 {
    let mut value = 0u64;
    // SAFETY: the program's author asked for this address; whatever it is, only this guest is hurt.
    unsafe {
        match size {
            1 => asm!("movzx {0:e}, byte ptr [{1}]", inout(reg) value, in(reg) address, options(nostack)),
            2 => asm!("mov {0:x}, [{1}]", inout(reg) value, in(reg) address, options(nostack)),
            4 => asm!("mov {0:e}, [{1}]", inout(reg) value, in(reg) address, options(nostack)),
            _ => asm!("mov {0:r}, [{1}]", inout(reg) value, in(reg) address, options(nostack)),
        }
    }
    value
}

/// A store of 1, 2, 4 or 8 bytes.
pub fn store(address: u64, size: u32, value: u64) {
    // SAFETY: as for `load`.
    unsafe {
        match size {
            1 => asm!("mov [{1}], {0}", in(reg_byte) value as u8, in(reg) address, options(nostack)),
            2 => asm!("mov [{1}], {0:x}", in(reg) value, in(reg) address, options(nostack)),
            4 => asm!("mov [{1}], {0:e}", in(reg) value, in(reg) address, options(nostack)),
            _ => asm!("mov [{1}], {0:r}", in(reg) value, in(reg) address, options(nostack)),
        }
    }
}

/// VMMCALL if `amd`, else VMCALL, with a number and no arguments.
pub fn hypercall(amd: bool, number: u64) {
    // SAFETY: KVM answers in rax and changes nothing else.
    unsafe {
        match amd {
            true => asm!("vmmcall", inout("rax") number => _, options(nostack)),
            false => asm!("vmcall", inout("rax") number => _, options(nostack)),
        }
    }
}

/// CPUID of a leaf.
pub fn cpuid(leaf: u32) {
    core::hint::black_box(core::arch::x86_64::__cpuid(leaf));
}

/// RDMSR; ring 0 only.
pub fn rdmsr(number: u32) -> u64 {
    let (low, high): (u32, u32);
    // SAFETY: a register that is not there ends this guest, nothing else.
    unsafe { asm!("rdmsr", in("ecx") number, out("eax") low, out("edx") high, options(nostack)) };
    u64::from(high) << 32 | u64::from(low)
}

/// WRMSR; ring 0 only.
pub fn wrmsr(number: u32, value: u64) {
    // SAFETY: as for `rdmsr`.
    unsafe {
        asm!("wrmsr", in("ecx") number, in("eax") value as u32, in("edx") (value >> 32) as u32, options(nostack));
    }
}

/// An instruction of ring 0's, one of [`privileged`]. False: there is no such.
pub fn execute(instruction: u32) -> bool {
    const CR0_WP: u64 = 1 << 16;
    const CR4_PGE: u64 = 1 << 7;
    // What DR7 always has.
    const DR7: u64 = 1 << 10;
    // SAFETY: the registers have their values back at the end, but for CR8 and DR7, in which nothing is ever set.
    unsafe {
        match instruction {
            privileged::READ_CR8 => asm!("mov {}, cr8", out(reg) _, options(nostack)),
            privileged::WRITE_CR8 => write_cr8(0),
            privileged::TOGGLE_CR0_WP => {
                asm!("mov {0}, cr0", "xor {0}, {1}", "mov cr0, {0}", "xor {0}, {1}", "mov cr0, {0}",
                    out(reg) _, in(reg) CR0_WP, options(nostack));
            }
            privileged::TOGGLE_CR4_PGE => {
                asm!("mov {0}, cr4", "xor {0}, {1}", "mov cr4, {0}", "xor {0}, {1}", "mov cr4, {0}",
                    out(reg) _, in(reg) CR4_PGE, options(nostack));
            }
            privileged::WRITE_DR7 => asm!("mov dr7, {}", in(reg) DR7, options(nostack)),
            privileged::WBINVD => asm!("wbinvd", options(nostack)),
            _ => return false,
        }
    }
    true
}

fn write_cr8(priority: u64) {
    // SAFETY: says which interrupts wait.
    unsafe { asm!("mov cr8, {}", in(reg) priority, options(nostack)) };
}

/// Sends the wake-up interrupt to this vCPU and takes it, as the flags of [`self_ipi`] have it; ring 0 only. Whether it halted.
pub fn interrupt_itself(how: u32) -> bool {
    let has = |flag| how & flag != 0;
    let (register, value) = match has(self_ipi::REGISTER) {
        true => (X2APIC_SELF_IPI, u64::from(WAKE_VECTOR)),
        false => (X2APIC_ICR, TO_ITSELF | u64::from(WAKE_VECTOR)),
    };
    if has(self_ipi::ENABLED) {
        // SAFETY: as in `let_interrupts_in`, for longer.
        unsafe {
            asm!("sti", "mov cr8, {high}", "wrmsr", "mov cr8, {low}", "nop", "cli",
                high = in(reg) HIGHEST_PRIORITY, low = in(reg) 0u64,
                in("ecx") register, in("eax") value as u32, in("edx") 0u32);
        }
        return false;
    }
    if has(self_ipi::TASK_PRIORITY) {
        write_cr8(HIGHEST_PRIORITY);
    }
    wrmsr(register, value);
    if has(self_ipi::TASK_PRIORITY) {
        write_cr8(0);
    }
    if has(self_ipi::HLT) {
        return halt();
    }
    let_interrupts_in();
    false
}

/// Sends the wake-up interrupt; ring 0 only. The vCPUs' x2APIC numbers are their own.
pub fn send_wake_interrupt(vcpu: u32) {
    wrmsr(X2APIC_ICR, u64::from(vcpu) << 32 | u64::from(WAKE_VECTOR));
}

/// Lets the interrupts in that wait; ring 0 only.
pub fn let_interrupts_in() {
    // SAFETY: the handler restores what it uses.
    unsafe { asm!("sti", "nop", "cli") };
}

/// Lets interrupts in until their count is no longer `before`; ring 0 only.
pub fn await_interrupt(before: u64) {
    // With interrupts on at every instruction: KVM's PVM emulates this code, and looks for interrupts after each 1,024
    // instructions (`pvm_emul_batch`). In a loop of eight that lets them in at one, it would look at another one for ever.
    // SAFETY: as in `let_interrupts_in`.
    unsafe {
        asm!("sti", "2:", "pause", "cmp [{count}], {before}", "je 2b", "cli",
            count = const INTERRUPTS, before = in(reg) before);
    }
}

/// So many times [`relax`], with interrupts let in; ring 0 only.
pub fn relax_with_interrupts(times: u64) {
    if times > 0 {
        // SAFETY: as in `await_interrupt`.
        unsafe { asm!("sti", "2:", "pause", "dec {0}", "jnz 2b", "cli", inout(reg) times => _) };
    }
}

/// HLT until an interrupt, unless `ready`; ring 0 only. Whether it halted.
pub fn halt_unless(ready: impl Fn() -> bool) -> bool {
    // One that came too late for the last halt is not to end this one.
    let_interrupts_in();
    if ready() {
        return false;
    }
    halt()
}

/// HLT until an interrupt, which may be there already; ring 0 only. Whether it halted.
fn halt() -> bool {
    let skipped: u64;
    // SAFETY: the handler restores what it uses. Interrupts are let in with the HLT, so that none is missed.
    unsafe { asm!("call wait_for_interrupt", out("rax") skipped) };
    skipped == 0
}
