//! The places in memory that `abi` names, as references; and the functions that compiled Rust expects of C.

use crate::abi::{CONTROL, Control, MAX_SAMPLES, SAMPLES, SHARED, Shared, ProgramStep, VcpuPage};

/// A copy of what all vCPUs are told. The lab may write it at any time, each word at once, and counts that in
/// `Shared::control_changes` afterwards.
pub fn control() -> Control {
    // SAFETY: the lab maps a `Control` there, of which all bit patterns are valid.
    unsafe { (CONTROL as *const Control).read_volatile() }
}

/// What vCPUs share: atomics only.
pub fn shared() -> &'static Shared {
    // SAFETY: the lab maps a `Shared` there; zeros are a valid one.
    unsafe { &*(SHARED as *const Shared) }
}

/// This vCPU's page.
pub fn vcpu(address: u64) -> &'static mut VcpuPage {
    // SAFETY: the lab gives each vCPU the address of a page that no other vCPU uses, and reads it only while this one
    // does not run.
    unsafe { &mut *(address as *mut VcpuPage) }
}

/// The program of a vCPU.
pub fn program(page: &VcpuPage) -> &'static mut [ProgramStep] {
    // SAFETY: the lab writes `steps` steps at `program` and gives each vCPU its own.
    unsafe { core::slice::from_raw_parts_mut(page.program as *mut ProgramStep, page.steps as usize) }
}

/// A table of lengths, of `count` entries.
pub fn table(address: u64, count: u32) -> &'static [u32] {
    // SAFETY: the lab writes tables before any vCPU runs.
    unsafe { core::slice::from_raw_parts(address as *const u32, count as usize) }
}

/// Keeps a sample in the buffer of this vCPU, or counts it as lost.
pub fn sample(page: &mut VcpuPage, ticks: u64) {
    if u64::from(page.samples) >= MAX_SAMPLES {
        page.samples_lost += 1;
        return;
    }
    let at = SAMPLES + u64::from(page.index) * MAX_SAMPLES * 4 + u64::from(page.samples) * 4;
    page.samples += 1;
    // SAFETY: within this vCPU's own buffer.
    unsafe { *(at as *mut u32) = ticks.min(u64::from(u32::MAX)) as u32 };
}

// SAFETY: C's memcpy. Written with the string instruction, as a loop would be compiled into a call of itself.
#[unsafe(no_mangle)]
unsafe extern "C" fn memcpy(to: *mut u8, from: *const u8, count: usize) -> *mut u8 {
    // SAFETY: the caller's pointers are good for `count` bytes and do not overlap.
    unsafe {
        core::arch::asm!("rep movsb", inout("rdi") to => _, inout("rsi") from => _, inout("rcx") count => _, options(nostack))
    };
    to
}

// SAFETY: C's memset.
#[unsafe(no_mangle)]
unsafe extern "C" fn memset(to: *mut u8, byte: i32, count: usize) -> *mut u8 {
    // SAFETY: the caller's pointer is good for `count` bytes.
    unsafe {
        core::arch::asm!("rep stosb", inout("rdi") to => _, inout("rcx") count => _, in("al") byte as u8, options(nostack))
    };
    to
}

// SAFETY: C's bcmp.
#[unsafe(no_mangle)]
unsafe extern "C" fn bcmp(a: *const u8, b: *const u8, count: usize) -> i32 {
    for at in 0..count {
        // SAFETY: the caller's pointers are good for `count` bytes.
        let (a, b) = unsafe { (a.add(at).read_volatile(), b.add(at).read_volatile()) };
        if a != b {
            return i32::from(a) - i32::from(b);
        }
    }
    0
}
