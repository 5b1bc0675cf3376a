//! What a vCPU needs before its first instruction: descriptors, page tables, the payload, registers.
//!
//! Long mode, 4 GiB mapped to themselves for ring 3 (which ring 0 may use as well). Ring 3 may use every port: by IOPL,
//! and by a task state segment whose I/O bitmap allows all, as one KVM back end drops IOPL.

use crate::abi;
use crate::{GuestMemory, LabError};
use kvm_bindings::{kvm_regs, kvm_segment, kvm_sregs};

/// The payload, as build.rs made it.
const PAYLOAD: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/guest.elf"));

/// The privilege level that a guest's program runs at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PrivilegeRing {
    /// The kernel's: every instruction, interrupts, HLT. A back end without VMX or SVM emulates it, instruction by
    /// instruction.
    Zero,
    /// User code: runs natively everywhere.
    Three,
}

const CODE_0: u16 = 0x08;
const DATA_0: u16 = 0x10;
const DATA_3: u16 = 0x18 | 3;
const CODE_3: u16 = 0x20 | 3;
const TASK: u16 = 0x28;

/// Bytes of the fixed part of a task state segment, behind which the I/O bitmap stands.
const TSS_FIXED: u64 = 104;
/// A bit for each port, and the byte of ones that has to follow.
const TSS_LIMIT: u64 = TSS_FIXED + 65_536 / 8;

const PRESENT_WRITABLE_USER: u64 = 7;
const LARGE: u64 = 1 << 7;

/// Writes what all vCPUs share. Where the payload begins.
pub(crate) fn prepare(memory: &GuestMemory) -> Result<u64, LabError> {
    gdt(memory);
    idt(memory);
    page_tables(memory);
    load(memory)
}

/// Writes a vCPU's task state segment.
pub(crate) fn prepare_vcpu(memory: &GuestMemory, index: u32) {
    let area = area(index);
    let tss = area + abi::TSS_OFFSET;
    memory.write(tss + 102, &(TSS_FIXED as u16).to_le_bytes());
    memory.write(tss + TSS_LIMIT, &[0xff]);
}

/// A vCPU's area.
pub(crate) fn area(index: u32) -> u64 {
    abi::VCPUS + u64::from(index) * abi::VCPU_SIZE
}

fn gdt(memory: &GuestMemory) {
    let descriptors: [u64; 5] =
        [0, 0x00af_9b00_0000_ffff, 0x00cf_9300_0000_ffff, 0x00cf_f300_0000_ffff, 0x00af_fb00_0000_ffff];
    for (at, descriptor) in descriptors.iter().enumerate() {
        memory.write(abi::GDT + 8 * at as u64, &descriptor.to_le_bytes());
    }
}

/// One gate: the interrupt that ends a halt. Exceptions have none, so that they end the guest and are reported.
fn idt(memory: &GuestMemory) {
    let handler = abi::WAKE_INTERRUPT;
    let low = (handler & 0xffff) | u64::from(CODE_0) << 16 | 0x8e00 << 32 | (handler >> 16 & 0xffff) << 48;
    let gate = abi::IDT + 16 * u64::from(abi::WAKE_VECTOR);
    memory.write(gate, &low.to_le_bytes());
    memory.write(gate + 8, &(handler >> 32).to_le_bytes());
}

fn page_tables(memory: &GuestMemory) {
    let entry = |table: u64, at: u64, value: u64| memory.write(table + 8 * at, &value.to_le_bytes());
    let (pml4, pdpt) = (abi::PAGE_TABLES, abi::PAGE_TABLES + 0x1000);
    let (directories, first_2_mib) = (abi::PAGE_TABLES + 0x2000, abi::PAGE_TABLES + 0x6000);
    entry(pml4, 0, pdpt | PRESENT_WRITABLE_USER);
    for gib in 0..4 {
        entry(pdpt, gib, (directories + 0x1000 * gib) | PRESENT_WRITABLE_USER);
    }
    entry(directories, 0, first_2_mib | PRESENT_WRITABLE_USER);
    for large in 1..4 * 512 {
        entry(directories, large, large << 21 | PRESENT_WRITABLE_USER | LARGE);
    }
    // Page 0 stays out.
    for page in 1..512 {
        entry(first_2_mib, page, page << 12 | PRESENT_WRITABLE_USER);
    }
}

/// Copies the payload's segments to where it is linked. Its entry.
fn load(memory: &GuestMemory) -> Result<u64, LabError> {
    let word = |at: usize, size: usize| -> Option<u64> {
        let mut bytes = [0; 8];
        bytes[..size].copy_from_slice(PAYLOAD.get(at..at.checked_add(size)?)?);
        Some(u64::from_le_bytes(bytes))
    };
    let copy = || -> Option<u64> {
        let (table, size, count) = (word(32, 8)?, word(54, 2)?, word(56, 2)?);
        for header in (0..count).map(|at| (table + at * size) as usize) {
            const LOAD: u64 = 1;
            if word(header, 4)? == LOAD {
                let (offset, address, length) = (word(header + 8, 8)?, word(header + 16, 8)?, word(header + 32, 8)?);
                if address < abi::PAYLOAD || address.checked_add(word(header + 40, 8)?)? > abi::SHARED {
                    return None;
                }
                memory.write(address, PAYLOAD.get(offset as usize..(offset + length) as usize)?);
            }
        }
        word(24, 8)
    };
    copy().ok_or_else(|| LabError::CannotDo("the payload built into this program is not what it should be".into()))
}

/// The registers with which vCPU `index` begins to run the payload at `entry`.
pub(crate) fn registers(index: u32, ring: PrivilegeRing, entry: u64) -> kvm_regs {
    const IOPL_3: u64 = 3 << 12;
    let area = area(index);
    kvm_regs {
        rip: entry,
        rdi: area,
        // As after a call: eight below a multiple of 16.
        rsp: area + abi::STACK_END - 8,
        // With interrupts off: ring 0 lets them in where it expects them.
        rflags: 2 | match ring {
            PrivilegeRing::Zero => 0,
            PrivilegeRing::Three => IOPL_3,
        },
        ..kvm_regs::default()
    }
}

/// Changes what the kernel gave as the registers of a new vCPU into those of 64-bit code with paging.
pub(crate) fn system_registers(sregs: &mut kvm_sregs, index: u32, ring: PrivilegeRing) {
    const CR0: u64 = 1 << 31 | 1 << 16 | 1 << 5 | 1 << 4 | 1 << 1 | 1; // PG WP NE ET MP PE
    const CR4: u64 = 1 << 10 | 1 << 9 | 1 << 5; // OSXMMEXCPT OSFXSR PAE
    const EFER: u64 = 1 << 10 | 1 << 8; // LMA LME
    const X2APIC: u64 = 1 << 10;
    let flat = kvm_segment { base: 0, limit: 0xffff_ffff, present: 1, s: 1, g: 1, ..kvm_segment::default() };
    let (code, data, level) = match ring {
        PrivilegeRing::Zero => (CODE_0, DATA_0, 0),
        PrivilegeRing::Three => (CODE_3, DATA_3, 3),
    };
    sregs.cs = kvm_segment { selector: code, type_: 0xb, dpl: level, l: 1, ..flat };
    let data = kvm_segment { selector: data, type_: 3, dpl: level, db: 1, ..flat };
    (sregs.ds, sregs.es, sregs.fs, sregs.gs, sregs.ss) = (data, data, data, data, data);
    sregs.tr = kvm_segment {
        base: area(index) + abi::TSS_OFFSET,
        limit: TSS_LIMIT as u32,
        selector: TASK,
        type_: 0xb,
        present: 1,
        ..kvm_segment::default()
    };
    (sregs.gdt.base, sregs.gdt.limit) = (abi::GDT, 8 * 7 - 1);
    (sregs.idt.base, sregs.idt.limit) = (abi::IDT, 0xfff);
    (sregs.cr0, sregs.cr3, sregs.cr4, sregs.efer) = (CR0, abi::PAGE_TABLES, CR4, EFER);
    if sregs.apic_base != 0 {
        sregs.apic_base |= X2APIC;
    }
}
