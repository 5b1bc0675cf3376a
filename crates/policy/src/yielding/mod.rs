//! Directed yield: what a vCPU that waits for a lock tells the hypervisor, and what the hypervisor makes of it.
//!
//! ```text
//!   guest                                       hypervisor
//!   SpinLoop: spin spin_retry times,            z/VM   diag44, pick_undirected, diag9c
//!   then say nothing, X'44' or X'9C', ────────► KVM    diag9c with Forwarding; on_spin for X'44'
//!   after sensing if the machine can
//!   PAUSE loops, said by the processor ───────► KVM    on_spin, how often: PleWindow
//!   H_CONFER to a holder that does not run ───► KVM    confer: first inside the gang, then to the holder
//! ```

pub mod confer;
mod diagnose;
mod on_spin;
mod pause_loop;
mod spin_loop;

pub use diagnose::{
    Diag9cIgnored, Diag9cOutcome, Diag44, Forwarding, Target, Waiting, diag9c, diag44, pick_undirected,
};
pub use on_spin::{HostTask, OnSpin, SpinVcpu, YieldTo};
pub use pause_loop::{PleChange, PleWindow};
pub use spin_loop::{DiagnoseCall, DiagnoseSupport, Generation, SpinAction, SpinLoop};

use crate::knob::{KnobLocation, KnobMachines, KnobUnit, params};

params! {
    /// The tunables of yielding.
    spin_retry: u32, KnobUnit::Count, 1_000, 0 => i32::MAX, KnobLocation::FileAndBoot("/proc/sys/kernel/spin_retry", "spin_retry"), KnobMachines::Of("s390"),
        "s390 guests: how often a waiter looks at a lock before it asks the hypervisor";
    spin_generation: Generation, KnobUnit::Choice(Generation::WORDS), Generation::Classic, 0 => Generation::ALL.len() - 1,
        KnobLocation::Design, KnobMachines::Of("s390"), "s390 guests: the generation of the lock code, which decides when and how it asks";
    diag9c_forwarding_hz: u32, KnobUnit::Hertz, 0, 0 => u32::MAX, KnobLocation::Module("kvm"), KnobMachines::Of("s390"),
        "s390 hosts: how many X'9C' a second are passed on to the hypervisor below; less than the host's HZ passes none";
    ple_gap: u32, KnobUnit::Cycles, 128, 0 => u32::MAX, KnobLocation::ModuleAtLoad("kvm_intel"), KnobMachines::Of("x86"),
        "VMX: PAUSEs further apart are not of one loop; 0 switches pause-loop exiting off";
    ple_window: u32, KnobUnit::Cycles, 4_096, 0 => u32::MAX, KnobLocation::ModuleAtLoad("kvm_intel"), KnobMachines::Of("x86"),
        "VMX: a loop of PAUSEs that lasts longer exits; where a vCPU's window begins and is reset to";
    ple_window_grow: u32, KnobUnit::Factor, 2, 0 => u32::MAX, KnobLocation::ModuleAtLoad("kvm_intel"), KnobMachines::Of("x86"),
        "VMX: the window grows by this at each exit: a factor if below ple_window, else a summand; 0 resets it";
    ple_window_shrink: u32, KnobUnit::Factor, 0, 0 => u32::MAX, KnobLocation::ModuleAtLoad("kvm_intel"), KnobMachines::Of("x86"),
        "VMX: the window shrinks by this once the vCPU was scheduled out; 0 resets it";
    ple_window_max: u32, KnobUnit::Cycles, u32::MAX, 0 => u32::MAX, KnobLocation::ModuleAtLoad("kvm_intel"), KnobMachines::Of("x86"),
        "VMX: the largest window";
    pause_filter_thresh: u32, KnobUnit::Cycles, 128, 0 => u16::MAX, KnobLocation::ModuleAtLoad("kvm_amd"), KnobMachines::Of("x86"),
        "SVM: PAUSEs further apart are not of one loop";
    pause_filter_count: u32, KnobUnit::Count, 3_000, 0 => u16::MAX, KnobLocation::ModuleAtLoad("kvm_amd"), KnobMachines::Of("x86"),
        "SVM: a loop of more PAUSEs exits; where a vCPU's window begins and is reset to";
    pause_filter_count_grow: u32, KnobUnit::Factor, 2, 0 => u16::MAX, KnobLocation::ModuleAtLoad("kvm_amd"), KnobMachines::Of("x86"),
        "SVM: as ple_window_grow";
    pause_filter_count_shrink: u32, KnobUnit::Factor, 0, 0 => u16::MAX, KnobLocation::ModuleAtLoad("kvm_amd"), KnobMachines::Of("x86"),
        "SVM: as ple_window_shrink";
    pause_filter_count_max: u32, KnobUnit::Count, u16::MAX, 0 => u16::MAX, KnobLocation::ModuleAtLoad("kvm_amd"), KnobMachines::Of("x86"),
        "SVM: the largest window";
}
