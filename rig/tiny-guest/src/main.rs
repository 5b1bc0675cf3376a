//! Runs a tiny real-mode guest that leaves for user space a known number of times, and says how often it did.
//!
//! ```text
//! 0x1000  code: 23 × out 0x10, al · 17 × in al, 0x11 · 13 × mov [0x8000], al · hlt
//! 0x8000  nothing: a write there leaves the guest as MMIO
//! ```
//!
//! Record it and every tool must find these counts. They are prime and differ, so that none can be mistaken for
//! another or for a multiple. Where KVM is a software back end (a host that is itself a guest without VMX or SVM),
//! kvm_exit and kvm_entry may never fire; kvm_userspace_exit, kvm_pio, kvm_mmio and kvm_fpu still do.
//!
//! `--pending`, `--sleep` and `--stop` run other guests instead, whose vCPU waits: how often and for how long is known, too.
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
    /// Keep the number of runs so far in this file
    #[arg(long, value_name = "FILE")]
    counter: Option<std::path::PathBuf>,
    /// Instead, halt 23 times with a wake-up pending
    #[arg(long, group = "wait")]
    pending: bool,
    /// Instead, halt 7 times for so many milliseconds
    #[arg(long, group = "wait", value_name = "MS", value_parser = clap::value_parser!(u32).range(1..=4000))]
    sleep: Option<u32>,
    /// Instead, spin, and be stopped 5 times by the VMM for so many milliseconds
    #[arg(long, group = "wait", value_name = "MS", value_parser = clap::value_parser!(u32).range(1..=60_000))]
    stop: Option<u32>,
}

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod guest;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod waits;

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
fn main() -> ExitCode {
    let flags = Flags::parse();
    match run(&flags) {
        Ok(code) => code,
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

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
fn run(flags: &Flags) -> Result<ExitCode, guest::Trouble> {
    if flags.pin {
        guest::pin_to_first_cpu()?;
    }
    let (repeat, length) = (flags.repeat, |millis| Duration::from_millis(u64::from(millis)));
    if flags.pending {
        waits::halt_with_pending(waits::PENDING * repeat)?;
        println!("pending_hlt {}", waits::PENDING * repeat);
    } else if let Some(millis) = flags.sleep {
        waits::halt_for(waits::SLEEPS * repeat, length(millis))?;
        println!("sleeping_hlt {} of {millis} ms", waits::SLEEPS * repeat);
    } else if let Some(millis) = flags.stop {
        let stopped = waits::stop(waits::STOPS * repeat, length(millis))?;
        println!("stop {} nanoseconds {}", waits::STOPS * repeat, stopped.as_nanos());
    } else {
        let (counts, mut took) = guest::run(repeat, flags.counter.as_deref())?;
        println!("{counts}");
        if flags.time {
            took.sort_unstable();
            let all: Duration = took.iter().sum();
            println!("nanoseconds {} quarter {}", all.as_nanos(), took[took.len() / 4].as_nanos());
        }
        let expected = guest::PER_RUN.times(repeat);
        if counts != expected {
            eprintln!("tiny-guest: expected {expected}");
            return Ok(ExitCode::from(1));
        }
    }
    Ok(ExitCode::SUCCESS)
}

#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
fn main() -> ExitCode {
    Flags::parse();
    eprintln!("tiny-guest: its guest is x86 code, and this is not an x86-64 Linux machine; nothing was run");
    ExitCode::from(NO_KVM)
}
