//! The payload: runs a program, step by step, on a bare virtual CPU, with the policies of the policy crate.
//!
//! ```text
//! lab writes Control, VcpuPage, steps ─► start(vcpu) ─► steps … ─► doorbells: HALT, WAKE, SLEEP, YIELD, …, DONE
//!                                           │
//!                                           └─► counts, samples in the VcpuPage: the lab reads them
//! ```
//!
//! There is no kernel below it. It runs in ring 3, where every KVM back end runs code natively, and halts by a doorbell;
//! or in ring 0, where it halts with HLT and is woken by an interrupt. `Control::hlt` says which.
#![no_std]
#![no_main]

#[path = "../../src/abi.rs"]
#[allow(dead_code)]
mod abi;
mod cpu;
mod idle;
mod lock;
mod memory;
mod program;

use abi::{BELLS, Control, MAGIC, bell, trouble};

/// Entry: the lab puts the address of this vCPU's page into the first argument's register.
// SAFETY: no other symbol of the payload has this name.
#[unsafe(no_mangle)]
extern "C" fn start(vcpu: u64) -> ! {
    let control = memory::control();
    if control.magic != MAGIC {
        give_up(trouble::LAYOUT);
    }
    let page = memory::vcpu(vcpu);
    program::run(&control, page);
    loop {
        cpu::ring(page, bell::DONE, 0);
    }
}

/// Tells the lab why this vCPU cannot go on; the lab does not run it again.
fn give_up(why: u32) -> ! {
    loop {
        cpu::port_out(BELLS + bell::PANIC, 4, why);
    }
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo) -> ! {
    give_up(trouble::PANIC)
}

/// The policies as the knobs in `control` set them; what is out of bounds keeps its default.
fn policies(control: &Control) -> exitscope_policy::Policies {
    let mut policies = exitscope_policy::Policies::default();
    let count = (control.knob_count as usize).min(control.knobs.len());
    for (knob, value) in exitscope_policy::all_knobs().zip(&control.knobs[..count]) {
        let _ = policies.set(knob.name, *value);
    }
    policies
}
