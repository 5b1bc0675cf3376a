//! The machine under the lab: its clock, its CPUs, what KVM's back end can do, and how quiet it is.
//!
//! What the back end can do is found out by doing it, in guests that live for milliseconds; names are for people.

use crate::abi::{self, op};
use crate::host::back_end;
use crate::instruction_counts::InstructionCounts;
use crate::payload::{sampled, step};
use crate::placement::{KeptThreads, allowed_cpus};
use crate::{LabError, LabVm, Payload, PrivilegeRing, Span, VmConfig, Watch, next_exit, open_kvm};
use exitscope_policy::Policies;
use kvm_ioctls::Kvm;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a probing guest may take.
const PROBE_LIMIT: Duration = Duration::from_secs(1);

/// How much slower than ring 3 ring 0 has to be to count as emulated.
const EMULATED: u32 = 20;

/// KVM on this machine, and what was measured of it.
#[derive(Debug)]
pub struct LabMachine {
    /// KVM.
    pub kvm: Kvm,
    /// Ticks of the time stamp counter in a second, as measured.
    pub tsc_hz: u64,
    /// The same as KVM says it; `None` if it does not.
    pub kvm_tsc_hz: Option<u64>,
    /// The loaded module with KVM's back end, as `/sys/module` names it, or what is built in as far as known.
    pub back_end: String,
    /// The processor's vendor, as CPUID spells it.
    pub vendor: String,
    /// The hypercall instruction of the vendor is VMMCALL, else VMCALL.
    pub vmmcall: bool,
    /// Whether ring 0 of a guest is emulated, instruction by instruction.
    pub emulates_ring_0: bool,
    /// The CPUs on which this process may run.
    pub cpus: Vec<usize>,
    /// What guests on it executed so far.
    pub executed: Arc<InstructionCounts>,
    /// Where threads of vCPUs were kept so far.
    pub kept: Arc<KeptThreads>,
}

impl LabMachine {
    /// Finds out. Without KVM, the error says why.
    pub fn new() -> Result<LabMachine, LabError> {
        let kvm = open_kvm()?;
        let vendor = vendor();
        let mut machine = LabMachine {
            kvm,
            tsc_hz: measure_tsc(),
            kvm_tsc_hz: None,
            back_end: back_end(),
            vmmcall: matches!(vendor.as_str(), "AuthenticAMD" | "HygonGenuine"),
            vendor,
            emulates_ring_0: false,
            cpus: allowed_cpus(),
            executed: Arc::default(),
            kept: Arc::default(),
        };
        let speed = |ring| compute_speed(&machine, ring);
        let (three, zero) = (speed(PrivilegeRing::Three)?, speed(PrivilegeRing::Zero));
        // A back end that cannot run ring 0 at all is treated as if it emulated it: programs stay in ring 3.
        machine.emulates_ring_0 = zero.map_or(true, |zero| zero / EMULATED > three.max(1));
        machine.kvm_tsc_hz = kvm_tsc(&machine)?;
        Ok(machine)
    }

    /// Where programs run natively, with all that belongs to a processor if possible.
    pub fn ring(&self) -> PrivilegeRing {
        if self.emulates_ring_0 { PrivilegeRing::Three } else { PrivilegeRing::Zero }
    }

    /// Ticks of the time stamp counter in `ns` nanoseconds.
    pub fn ticks_in(&self, ns: u64) -> u64 {
        (u128::from(ns) * u128::from(self.tsc_hz) / 1_000_000_000) as u64
    }

    /// Nanoseconds in `ticks` of the time stamp counter.
    pub fn ns_in(&self, ticks: f64) -> f64 {
        ticks * 1e9 / self.tsc_hz as f64
    }

    /// Where threads may be kept: the CPUs, and who notes it.
    pub(crate) fn places(&self) -> (&[usize], &Arc<KeptThreads>) {
        (&self.cpus, &self.kept)
    }

    /// The time between two values of the time stamp counter.
    pub fn span(&self, begin: u64, end: u64) -> Span {
        Span::of_ns(self.ns_in(end.saturating_sub(begin) as f64) as u64)
    }
}

/// The time stamp counter.
pub fn ticks() -> u64 {
    // SAFETY: reads a counter that every x86-64 processor has.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// Ticks in a second, against the monotonic clock: the middle of three goes.
fn measure_tsc() -> u64 {
    let mut rates = [0; 3].map(|_: u64| {
        let (begin, at) = (ticks(), Instant::now());
        std::thread::sleep(Duration::from_millis(20));
        let (end, ns) = (ticks(), at.elapsed().as_nanos());
        (u128::from(end - begin) * 1_000_000_000 / ns.max(1)) as u64
    });
    rates.sort_unstable();
    rates[1]
}

fn kvm_tsc(machine: &LabMachine) -> Result<Option<u64>, LabError> {
    let (_vm, mut vcpus) = LabVm::new(&machine.kvm, VmConfig::new(1, PrivilegeRing::Three))?;
    Ok(vcpus[0].fd().get_tsc_khz().ok().map(|khz| u64::from(khz) * 1_000))
}

/// Ticks of a short compute loop.
fn compute_speed(machine: &LabMachine, ring: PrivilegeRing) -> Result<u32, LabError> {
    let loop_of_100 = abi::ProgramStep { b: 100, ..step(op::COMPUTE) };
    let mut samples = probe(machine, VmConfig { irqchip: false, ..VmConfig::new(1, ring) }, &sampled(5, loop_of_100))?;
    samples.sort_unstable();
    samples.get(2).copied().ok_or_else(|| LabError::CannotDo("a probing guest gave no samples".into()))
}

/// Runs a short program on a vCPU of its own and gives back its samples. An error says what the guest could not do.
pub fn probe(machine: &LabMachine, config: VmConfig, steps: &[abi::ProgramStep]) -> Result<Vec<u32>, LabError> {
    let (vm, mut vcpus) = LabVm::new(&machine.kvm, config)?;
    let mut payload = Payload::new(&vm, machine, &Policies::default(), 0);
    payload.load(0, steps, 1)?;
    Watch::new(PROBE_LIMIT).run(&mut vcpus[..1], |vcpu, watch| {
        loop {
            match next_exit(vcpu, watch)? {
                crate::KvmExit::Bell { bell: abi::bell::DONE, .. } => return Ok(()),
                crate::KvmExit::Bell { bell: abi::bell::PANIC, value } => {
                    return Err(LabError::Crash(format!("its payload gave up ({value})")));
                }
                _ => vcpu.answer(0),
            }
        }
    })?;
    Ok(payload.samples(0))
}

fn vendor() -> String {
    let leaf = core::arch::x86_64::__cpuid(0);
    let bytes = [leaf.ebx, leaf.edx, leaf.ecx].map(u32::to_le_bytes).concat();
    String::from_utf8_lossy(&bytes).trim_end_matches('\0').to_string()
}

/// Names this thread as QEMU names that of a vCPU, by which tools know it.
pub fn name_vcpu_thread(number: u32) {
    // The kernel keeps 15 characters, which hold any number below a million.
    let name = std::ffi::CString::new(format!("CPU {number}/KVM")).expect("no zero in it");
    // SAFETY: the kernel copies a text that ends with a zero.
    unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr()) };
}
