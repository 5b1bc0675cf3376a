//! What happens on this host now, for all who show it while it happens.
//!
//! ```text
//! /proc, now and then ─► VmWatch: VMs, what they are called, when they are gone
//! Sample ─► ThreadNames: what threads are called, once each
//! ```
//!
//! Does not know: flags, drawing, facts.
#![cfg(target_os = "linux")]

mod thread_names;
mod vm_watch;

pub use thread_names::ThreadNames;
pub use vm_watch::VmWatch;
