//! Runs a tiny real-mode guest that leaves for user space a known number of times, and says how often it did.
//!
//! ```text
//! 0x1000  one page: 23 × out 0x10, al · 17 × in al, 0x11 · 13 × mov [0x8000], al · hlt
//! 0x8000  nothing: a write there leaves the guest as MMIO
//! ```
//!
//! Record it and every tool must find these counts. They are prime and differ, so that none can be mistaken for
//! another or for a multiple. Where KVM is a software back end (a host that is itself a guest without VMX or SVM),
//! kvm_exit and kvm_entry may never fire; kvm_userspace_exit, kvm_pio, kvm_mmio and kvm_fpu still do.
//!
//! Exit codes: 0 the guest did exactly this, 1 it did not, 2 bad flags, 3 there is no KVM to run it on.

use clap::Parser;
use std::process::ExitCode;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
use std::time::Duration;

/// Without KVM, or on a machine that is not x86-64, there is nothing to run.
const NO_KVM: u8 = 3;

/// Runs a guest of one vCPU that does 23 port writes, 17 port reads, 13 MMIO writes and 1 halt, and prints what came.
#[derive(Parser)]
struct Flags {
    /// Run the guest's code this many times, in one VM
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    repeat: u32,
    /// Stay on the first CPU that this process may use
    #[arg(long)]
    pin: bool,
    /// Also print how long that took, in nanoseconds, without what comes before and after: all times together, and what a
    /// quarter of them did not reach
    #[arg(long)]
    time: bool,
}

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod guest;

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
fn main() -> ExitCode {
    let flags = Flags::parse();
    let expected = guest::PER_RUN.times(flags.repeat);
    match guest::run(flags.repeat, flags.pin) {
        Ok((counts, mut took)) => {
            println!("{counts}");
            if flags.time {
                took.sort_unstable();
                let all: Duration = took.iter().sum();
                println!("nanoseconds {} quarter {}", all.as_nanos(), took[took.len() / 4].as_nanos());
            }
            if counts == expected {
                return ExitCode::SUCCESS;
            }
            eprintln!("tiny-guest: expected {expected}");
            ExitCode::from(1)
        }
        Err(guest::Trouble::NoKvm(why)) => {
            eprintln!("tiny-guest: cannot open /dev/kvm ({why}); it needs the kvm module and permission to use it");
            ExitCode::from(NO_KVM)
        }
        Err(guest::Trouble::Failed(what)) => {
            eprintln!("tiny-guest: {what}");
            ExitCode::from(1)
        }
    }
}

#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
fn main() -> ExitCode {
    Flags::parse();
    eprintln!("tiny-guest: its guest is x86 code, and this is not an x86-64 Linux machine; nothing was run");
    ExitCode::from(NO_KVM)
}
