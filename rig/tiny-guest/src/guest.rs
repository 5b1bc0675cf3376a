//! The guest's code, and the loop that runs it on one virtual CPU and counts its exits.

use kvm_bindings::kvm_userspace_memory_region;
use kvm_ioctls::{Kvm, VcpuExit, VcpuFd, VmFd};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::cell::UnsafeCell;
use std::fmt;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

/// The port that it writes to.
pub const OUT_PORT: u16 = 0x10;
const IN_PORT: u16 = 0x11;
/// Where the code is.
pub const CODE_AT: u64 = 0x1000;
const MEMORY: usize = 0x2000;
const NO_MEMORY: u64 = 0x8000;

/// What one run of the guest's code does.
pub const PER_RUN: Counts = Counts { out: 23, r#in: 17, mmio_write: 13, hlt: 1 };

/// A run of the code that needs more exits than this has gone astray.
const MAX_EXITS: u32 = 1000;

/// 16-bit code; the immediate operands of the `mov cx` are the counts of [`PER_RUN`].
#[rustfmt::skip]
const CODE: &[u8] = &[
    0x31, 0xc0,                            //    xor ax, ax
    0xb9, PER_RUN.out as u8, 0x00,         //    mov cx, 23
    0xfe, 0xc0,                            // a: inc al
    0xe6, OUT_PORT as u8,                  //    out 0x10, al
    0xe2, 0xfa,                            //    loop a
    0xb9, PER_RUN.r#in as u8, 0x00,        //    mov cx, 17
    0xe4, IN_PORT as u8,                   // b: in al, 0x11
    0xe2, 0xfc,                            //    loop b
    0xb9, PER_RUN.mmio_write as u8, 0x00,  //    mov cx, 13
    0xa2, 0x00, 0x80,                      // c: mov [0x8000], al
    0xe2, 0xfb,                            //    loop c
    0xf4,                                  //    hlt
];

/// How often the guest left for user space, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Port writes.
    pub out: u32,
    /// Port reads.
    pub r#in: u32,
    /// Writes outside memory.
    pub mmio_write: u32,
    /// Halts.
    pub hlt: u32,
}

impl Counts {
    /// The counts of `runs` runs, each like this one.
    pub fn times(self, runs: u32) -> Counts {
        Counts {
            out: self.out * runs,
            r#in: self.r#in * runs,
            mmio_write: self.mmio_write * runs,
            hlt: self.hlt * runs,
        }
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "out {} in {} mmio_write {} hlt {}", self.out, self.r#in, self.mmio_write, self.hlt)
    }
}

/// Why there are no counts.
#[derive(Debug)]
pub enum Trouble {
    /// `/dev/kvm` cannot be opened.
    NoKvm(io::Error),
    /// KVM is there, and something went wrong.
    Failed(String),
}

/// Runs the guest's code until it halts, `repeat` times on one virtual CPU; says what came, and how long each time took. A
/// file `counter` has the number of runs so far.
pub fn run(repeat: u32, counter: Option<&Path>) -> Result<(Counts, Vec<Duration>), Trouble> {
    let no_file = |error: io::Error| Trouble::Failed(format!("cannot write the counter: {error}"));
    let counter = counter.map(File::create).transpose().map_err(no_file)?;
    let mut counts = Counts::default();
    let mut took = Vec::with_capacity(repeat as usize);
    with_vcpu(CODE, &[], |_, vcpu| {
        for number in 0..repeat {
            if let Some(counter) = &counter {
                // All numbers are as long as any other, so that nobody reads a part of two.
                counter.write_all_at(format!("{number:010}\n").as_bytes(), 0).map_err(no_file)?;
            }
            let began = Instant::now();
            start_in_real_mode(vcpu, CODE_AT)?;
            run_until_halt(vcpu, &mut counts)?;
            took.push(began.elapsed());
        }
        Ok(())
    })?;
    Ok((counts, took))
}

/// Has `then` run a virtual CPU in a VM of its own, with `code` and interrupt vectors (their number, and where in the code
/// their handlers are) in its memory. Where there are vectors, there is a local APIC in the kernel.
pub fn with_vcpu(
    code: &[u8],
    vectors: &[(u8, usize)],
    then: impl FnOnce(&VmFd, &mut VcpuFd) -> Result<(), Trouble>,
) -> Result<(), Trouble> {
    let kvm = Kvm::new().map_err(|error| Trouble::NoKvm(io_error(error)))?;
    let memory = Memory::with(code, vectors);
    let vm = kvm.create_vm().map_err(failed("KVM_CREATE_VM"))?;
    // Intel CPUs that cannot run real mode keep a task segment there; others do not mind.
    vm.set_tss_address(0xfffb_d000).map_err(failed("KVM_SET_TSS_ADDR"))?;
    let region = kvm_userspace_memory_region {
        slot: 0,
        flags: 0,
        guest_phys_addr: 0,
        memory_size: MEMORY as u64,
        userspace_addr: memory.0.get() as u64,
    };
    // SAFETY: the region is exactly the bytes of `memory`, which is page-aligned. It outlives `vm` and the vCPU, as
    // locals are dropped in reverse order. Nothing reads or writes it from here on, and its bytes are in an
    // `UnsafeCell`, so the guest may change them.
    unsafe { vm.set_user_memory_region(region) }.map_err(failed("KVM_SET_USER_MEMORY_REGION"))?;
    if !vectors.is_empty() {
        vm.create_irq_chip().map_err(failed("KVM_CREATE_IRQCHIP"))?;
    }
    let mut vcpu = vm.create_vcpu(0).map_err(failed("KVM_CREATE_VCPU"))?;
    then(&vm, &mut vcpu)
}

/// Stays on the first CPU that this process may use.
pub fn pin_to_first_cpu() -> Result<(), Trouble> {
    let pin = || {
        let allowed = sched_getaffinity(None)?;
        let mut first = CpuSet::new();
        first.set((0..CpuSet::MAX_CPU).find(|&cpu| allowed.is_set(cpu)).unwrap_or(0));
        sched_setaffinity(None, &first)
    };
    pin().map_err(|error| Trouble::Failed(format!("cannot stay on one CPU: {error}")))
}

/// Sets the vCPU to the beginning of the code at `rip`, with interrupts off and a stack below the code.
pub fn start_in_real_mode(vcpu: &VcpuFd, rip: u64) -> Result<(), Trouble> {
    let mut sregs = vcpu.get_sregs().map_err(failed("KVM_GET_SREGS"))?;
    for segment in [&mut sregs.cs, &mut sregs.ds] {
        segment.base = 0;
        segment.selector = 0;
    }
    vcpu.set_sregs(&sregs).map_err(failed("KVM_SET_SREGS"))?;
    let mut regs = vcpu.get_regs().map_err(failed("KVM_GET_REGS"))?;
    regs.rip = rip;
    regs.rsp = CODE_AT;
    regs.rflags = 2; // bit 1 is always set
    vcpu.set_regs(&regs).map_err(failed("KVM_SET_REGS"))
}

fn run_until_halt(vcpu: &mut VcpuFd, counts: &mut Counts) -> Result<(), Trouble> {
    let mut written = 0;
    for _ in 0..MAX_EXITS {
        match vcpu.run() {
            Ok(VcpuExit::IoOut(OUT_PORT, data)) => {
                counts.out += 1;
                written += 1;
                if data != [written] {
                    return Err(Trouble::Failed(format!("port write {written} of this run carried {data:?}")));
                }
            }
            Ok(VcpuExit::IoIn(IN_PORT, data)) => {
                counts.r#in += 1;
                data.fill(0x5a);
            }
            Ok(VcpuExit::MmioWrite(NO_MEMORY, _)) => counts.mmio_write += 1,
            Ok(VcpuExit::Hlt) => {
                counts.hlt += 1;
                return Ok(());
            }
            Ok(other) => return Err(Trouble::Failed(format!("an exit that the guest has no reason for: {other:?}"))),
            Err(error) if io_error(error).kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(failed("KVM_RUN")(error)),
        }
    }
    Err(Trouble::Failed(format!("no hlt within {MAX_EXITS} exits; so far: {counts}")))
}

/// The guest's memory: a page of vectors and stack, and one of code.
#[repr(align(4096))]
struct Memory(UnsafeCell<[u8; MEMORY]>);

impl Memory {
    fn with(code: &[u8], vectors: &[(u8, usize)]) -> Box<Memory> {
        let mut bytes = [0; MEMORY];
        bytes[CODE_AT as usize..][..code.len()].copy_from_slice(code);
        for &(vector, handler) in vectors {
            // Real mode: an offset, and a segment, which is 0.
            let offset = (CODE_AT as usize + handler) as u16;
            bytes[usize::from(vector) * 4..][..2].copy_from_slice(&offset.to_le_bytes());
        }
        Box::new(Memory(UnsafeCell::new(bytes)))
    }
}

/// What the kernel answered.
pub fn io_error(error: kvm_ioctls::Error) -> io::Error {
    io::Error::from_raw_os_error(error.errno())
}

/// Says which ioctl failed.
pub fn failed(ioctl: &'static str) -> impl Fn(kvm_ioctls::Error) -> Trouble {
    move |error| Trouble::Failed(format!("{ioctl}: {}", io_error(error)))
}
