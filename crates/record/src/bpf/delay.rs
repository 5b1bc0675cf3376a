//! Makes exits of one VM longer, to find what their length is worth: see [`super::delay_program`] for what the program does.
//!
//! ```text
//! control: the delay, until when ─► program at kvm_exit or kvm_userspace_exit ─► states: thread ─► exits, delays, time
//! ```
//!
//! *Which exits.* Where `kvm_exit` fires, all; it never does where KVM runs guests without VMX and SVM. At `kvm_userspace_exit`,
//! those that leave `KVM_RUN`, those by a signal included. Perf events can delay nothing.
//!
//! *What waits for a delay besides the vCPU.* x86 has `kvm_exit` in `vmx_vcpu_run` and `svm_vcpu_run`, which `vcpu_enter_guest`
//! (`arch/x86/kvm/x86.c`) calls with interrupts disabled: the host's interrupts on that CPU, and other threads that it should
//! run, come later by up to the delay. (Older kernels have it in the back end's `handle_exit`, with interrupts enabled.)
//! `kvm_userspace_exit` is in `kvm_vcpu_ioctl` (`virt/kvm/kvm_main.c`), with interrupts enabled: only other threads wait, where
//! the kernel calls a tracepoint's programs with preemption disabled. An interrupt in a delay is a part of the delay, not more.
//!
//! *Where it is refused.* Where BPF may not be used; where the kernel takes no loops (before Linux 5.3); where the clock moves in
//! steps longer than [`MAX_STEP`], with which neither a delay nor its share of the time would be bounded.
//!
//! *What else runs at the tracepoint.* Programs run in the order in which they were attached. A count of exits that is to have the
//! delay in their length has to be started before: else the delay comes before its timestamp. A program that looks at a record
//! (a reason, at `kvm_exit`) keeps other such programs from running on its CPU meanwhile (`trace_call_bpf` of
//! `kernel/trace/bpf_trace.c`); at raw tracepoints, which have all others, only itself.

use super::arguments::among_arguments;
use super::delay_program::{
    CONTROL_SIZE, DELAYED, DelayMaps, DelayedBy, EXITS, LONGEST, MAX_DELAY, SKIPPED, SPUN, STATE_SIZE, delay_program,
};
use super::{NoBpf, any_cpu, attach, load, map};
use crate::btf::Btf;
use crate::bytes::u64_at;
use crate::capture::possible_cpus;
use crate::sys::{self, ProgramKind};
use crate::tracepoints::{find, is_software};
use crate::{RecordError, Tracepoint, tracefs};
use exitscope_model::EventNames;
use exitscope_trace::tracefs::{CountRole, Decoder, FieldLocation, Format};
use exitscope_units::Nanos;
use std::ffi::CString;
use std::fmt;
use std::io;
use std::os::fd::OwnedFd;

/// Virtual CPUs of a VM at most: as many as KVM has on any architecture.
const MAX_THREADS: u32 = 4_096;

/// The longest step of a clock by which exits are delayed, in nanoseconds. Those of processors have some 10; an HPET is read in
/// 1,000; one that is moved by the timer's interrupt has a million and more.
const MAX_STEP: u64 = 2_000;

/// Steps of the clock of which the shortest counts.
const STEPS: u32 = 20;

/// Which exits a program can delay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DelayedExits {
    /// All, at `kvm_exit`.
    All,
    /// Those for which `KVM_RUN` returns to user space, at `kvm_userspace_exit`.
    ToUserSpace,
}

impl DelayedExits {
    /// The most that can be delayed on this host: all, or if `kvm_exit` does not fire here, those to user space.
    pub fn widest() -> Result<DelayedExits, RecordError> {
        match DelayedExits::All.source() {
            Ok(_) => Ok(DelayedExits::All),
            Err(RecordError::NotDelayable { .. }) => {
                DelayedExits::ToUserSpace.source().map(|_| DelayedExits::ToUserSpace)
            }
            Err(error) => Err(error),
        }
    }

    /// Whether these can be delayed on this host, as far as that is known before a program is loaded.
    pub fn check(self) -> Result<(), RecordError> {
        self.source().map(|_| ())
    }

    /// The tracepoint, without its group `kvm`.
    pub fn tracepoint(self) -> &'static str {
        match self {
            DelayedExits::All => "kvm_exit",
            DelayedExits::ToUserSpace => "kvm_userspace_exit",
        }
    }

    /// The tracepoint of this host, and where it has the reason.
    fn source(self) -> Result<(Tracepoint, CountRole), RecordError> {
        let cannot = |why: &str| RecordError::NotDelayable { exits: self.to_string(), why: why.to_string() };
        if self == DelayedExits::All && is_software() {
            return Err(cannot("KVM runs guests here without VMX and SVM, and its kvm_exit never fires"));
        }
        let found = find(&tracefs()?, &[&format!("kvm:{}", self.tracepoint())]).map_err(|error| match error {
            RecordError::NoTracepoints => cannot("this kernel has no such tracepoint, or KVM's module is not loaded"),
            error => error,
        })?;
        let role = |tracepoint: &Tracepoint| {
            let format = Format::parse(&tracepoint.format)?;
            Decoder::new(&tracepoint.system, &format, &mut EventNames::default()).role()
        };
        let source = found.into_iter().find_map(|tracepoint| role(&tracepoint).map(|role| (tracepoint, role)));
        source.ok_or_else(|| cannot("the tracepoint's fields are not known"))
    }
}

impl fmt::Display for DelayedExits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DelayedExits::All => write!(f, "all exits (at {})", self.tracepoint()),
            DelayedExits::ToUserSpace => write!(f, "exits to user space (at {})", self.tracepoint()),
        }
    }
}

/// What was delayed since the program began, of all threads of the process together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DelayCounts {
    /// Exits of the process, and of the reason if there is one, while a lease was in force, those with a delay of 0 included.
    pub exits: u64,
    /// Those of them that were delayed.
    pub delayed: u64,
    /// Those that were not, as the thread had spent its share of the time.
    pub skipped: u64,
    /// Further ones, of threads beyond the 4,096 that there is room for, which were not delayed.
    pub lost: u64,
    /// Time spent in delays, by the clock that the program reads; what happened meanwhile, like interrupts, included.
    pub spun: Nanos,
    /// The longest delay since the beginning.
    pub longest: Nanos,
}

impl DelayCounts {
    /// What was counted after `before`; `longest` stays that since the beginning.
    pub fn since(&self, before: &DelayCounts) -> DelayCounts {
        DelayCounts {
            exits: self.exits - before.exits,
            delayed: self.delayed - before.delayed,
            skipped: self.skipped - before.skipped,
            lost: self.lost - before.lost,
            spun: Nanos(self.spun.0 - before.spun.0),
            longest: self.longest,
        }
    }

    /// By how much an exit was delayed on average, in nanoseconds, those that were not delayed included; `None` without exits.
    pub fn mean_delay(&self) -> Option<f64> {
        let exits = self.exits + self.lost;
        (exits > 0).then(|| self.spun.0 as f64 / exits as f64)
    }
}

/// A program that delays exits of one process, as long as this lives.
///
/// It begins without a lease: nothing is delayed or counted. [`set`](ExitDelay::set) gives one, which ends after
/// [`LEASE`](ExitDelay::LEASE) unless it is renewed: a command that hangs delays nobody any longer.
#[derive(Debug)]
pub struct ExitDelay {
    exits: DelayedExits,
    delay: Nanos,
    maps: DelayMaps,
    cpus: usize,
    program: OwnedFd,
    /// Kept open: closing it stops the program.
    _event: OwnedFd,
}

impl ExitDelay {
    /// The longest delay of one exit: what is asked for beyond is refused, and the program itself does not go beyond.
    pub const MAX_DELAY: Nanos = Nanos(MAX_DELAY);

    /// The share of its time by which a thread is delayed at most, in per cent, in each window of 10 ms.
    pub const MAX_SHARE: u64 = 20;

    /// How long a delay stays in force after it was set or renewed.
    pub const LEASE: Nanos = Nanos(2_000_000_000);

    /// Starts the program for these exits of this process. With a `reason`, only for those: the number in the first field of the
    /// tracepoint that tells of it (`exit_reason` of `kvm_exit` on x86; `KVM_EXIT_*`, where `KVM_EXIT_INTR` stands for all that
    /// signals end).
    pub fn start(process: u32, exits: DelayedExits, reason: Option<u32>) -> Result<ExitDelay, RecordError> {
        let source = exits.source()?;
        match shortest_step(sys::now) {
            ..=MAX_STEP => {}
            step => return Err(RecordError::CoarseClock { step: Nanos(step) }),
        }
        let maps = maps().map_err(refusal)?;
        let (program, kind) = load_program(&source, process, reason, &maps).map_err(refusal)?;
        let name = source.0.name.as_str();
        let event = match kind {
            ProgramKind::Tracepoint => any_cpu().and_then(|cpu| attach(&source.0, &program, cpu)),
            ProgramKind::RawTracepoint => {
                CString::new(name).map_err(io::Error::from).and_then(|name| sys::attach_raw(&name, &program))
            }
        };
        let event = event.map_err(|bpf| RecordError::NoDelay { bpf })?;
        let cpus = possible_cpus()? as usize;
        Ok(ExitDelay { exits, delay: Nanos::ZERO, maps, cpus, program, _event: event })
    }

    /// Which exits it delays.
    pub fn exits(&self) -> DelayedExits {
        self.exits
    }

    /// From now on, each exit is delayed by this; 0 delays none and still counts them. Gives a lease.
    pub fn set(&mut self, delay: Nanos) -> Result<(), RecordError> {
        if delay > ExitDelay::MAX_DELAY {
            return Err(RecordError::DelayTooLong { asked: delay, most: ExitDelay::MAX_DELAY });
        }
        self.delay = delay;
        self.renew()
    }

    /// Lets the delay stay in force for another [`LEASE`](ExitDelay::LEASE) from now on.
    pub fn renew(&mut self) -> Result<(), RecordError> {
        control(&self.maps, self.delay.0, sys::now() + ExitDelay::LEASE.0)
    }

    /// Ends the lease: nothing is delayed or counted until the next one.
    pub fn end_lease(&mut self) -> Result<(), RecordError> {
        control(&self.maps, 0, 0)
    }

    /// What was delayed so far.
    pub fn counts(&self) -> Result<DelayCounts, RecordError> {
        counts(&self.maps, self.cpus).map_err(|error| RecordError::io("reading the delays of exits", error))
    }

    /// How often the program did not run as another one was at work on the CPU; kernels before 6.1 say 0.
    pub fn missed(&self) -> u64 {
        sys::runs(&self.program).map_or(0, |runs| runs.missed)
    }
}

fn maps() -> Result<DelayMaps, NoBpf> {
    Ok(DelayMaps {
        control: map(sys::ARRAY, 4, CONTROL_SIZE as u32, 1, None)?,
        states: map(sys::HASH, 8, STATE_SIZE as u32, MAX_THREADS, None)?,
        lost: map(sys::PERCPU_ARRAY, 4, 8, 1, None)?,
    })
}

/// Loads the program: for a raw tracepoint, if that is given all that the program looks at.
fn load_program(
    (tracepoint, role): &(Tracepoint, CountRole),
    process: u32,
    reason: Option<u32>,
    maps: &DelayMaps,
) -> Result<(OwnedFd, ProgramKind), NoBpf> {
    let load = |role, kind| {
        let of = DelayedBy { process, reason: reason.map(|reason| (role, reason)) };
        load(tracepoint, &delay_program(of, maps), kind).map(|program| (program, kind))
    };
    if reason.is_none() {
        return load(*role, ProgramKind::RawTracepoint);
    }
    match among_arguments(tracepoint, *role, FieldLocation::default(), Btf::of_this_kernel().as_ref()) {
        Some((role, _)) => load(role, ProgramKind::RawTracepoint),
        None => load(*role, ProgramKind::Tracepoint),
    }
}

/// The shortest step from one reading of a clock to the next that differs.
fn shortest_step(mut now: impl FnMut() -> u64) -> u64 {
    let mut step = || {
        let first = now();
        loop {
            let next = now();
            if next > first {
                return next - first;
            }
        }
    };
    (0..STEPS).map(|_| step()).min().unwrap_or(u64::MAX)
}

/// Why exits cannot be delayed.
fn refusal(why: NoBpf) -> RecordError {
    match why {
        NoBpf::Forbidden(bpf) => RecordError::NoDelay { bpf },
        // What the verifier says of a loop where it takes none.
        NoBpf::Trouble(RecordError::Refused { log, .. }) if log.contains("back-edge") => RecordError::NoBoundedLoop,
        NoBpf::Trouble(error) => error,
    }
}

fn control(maps: &DelayMaps, delay: u64, until: u64) -> Result<(), RecordError> {
    let value = [delay, until].map(u64::to_ne_bytes).concat();
    let done = sys::update(&maps.control, &0u32.to_ne_bytes(), &value);
    done.map_err(|error| RecordError::io("setting the delay of exits", error))
}

fn counts(maps: &DelayMaps, cpus: usize) -> io::Result<DelayCounts> {
    let mut sum = DelayCounts::default();
    sys::each_element(&maps.states, 8, STATE_SIZE, |_, state| {
        sum.exits += u64_at(state, EXITS);
        sum.delayed += u64_at(state, DELAYED);
        sum.skipped += u64_at(state, SKIPPED);
        sum.spun = sum.spun.plus(Nanos(u64_at(state, SPUN)));
        sum.longest = sum.longest.max(Nanos(u64_at(state, LONGEST)));
    })?;
    let mut lost = vec![0; cpus];
    sys::lookup_percpu(&maps.lost, 0, &mut lost)?;
    sum.lost = lost.iter().sum();
    Ok(sum)
}

#[cfg(test)]
#[path = "delay_tests.rs"]
mod tests;
