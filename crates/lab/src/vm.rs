//! A virtual machine of KVM's: memory, vCPUs, and the handlers that KVM itself keeps.

use crate::boot::{self, PrivilegeRing};
use crate::{GuestMemory, LabError, LabVcpu, abi};
use kvm_bindings::{
    KVM_CAP_HALT_POLL, KVM_CAP_X86_USER_SPACE_MSR, KVM_MAX_CPUID_ENTRIES, KVM_MSR_EXIT_REASON_INVAL,
    KVM_MSR_EXIT_REASON_UNKNOWN, kvm_enable_cap, kvm_ioeventfd, kvm_ioeventfd_flag_nr_datamatch,
    kvm_ioeventfd_flag_nr_pio, kvm_msi, kvm_userspace_memory_region,
};
use kvm_ioctls::{Cap, IoEventAddress, Kvm, VmFd};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;
use vmm_sys_util::eventfd::EventFd;

/// Where an access leaves the guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum IoAddress {
    /// An I/O port.
    Port(u16),
    /// A guest-physical address.
    Address(u64),
}

/// What a VM is made with.
#[derive(Clone, Copy, Debug)]
pub struct VmConfig {
    /// vCPUs, from 1 to [`abi::MAX_VCPUS`].
    pub vcpus: u32,
    /// The privilege level of its programs.
    pub ring: PrivilegeRing,
    /// Whether KVM keeps the interrupt controllers. Then HLT blocks inside KVM; otherwise it comes out as
    /// [`KvmExit::Halt`](crate::KvmExit::Halt).
    pub irqchip: bool,
    /// The longest that KVM polls when a vCPU of this VM halts, in nanoseconds, instead of the module's `halt_poll_ns`.
    pub halt_poll_ns: Option<u32>,
}

impl VmConfig {
    /// So many vCPUs in this ring, with interrupt controllers only where ring 0 needs them to be woken.
    pub fn new(vcpus: u32, ring: PrivilegeRing) -> VmConfig {
        VmConfig { vcpus, ring, irqchip: ring == PrivilegeRing::Zero, halt_poll_ns: None }
    }
}

/// Opens `/dev/kvm`; says what is missing if that fails.
pub fn open_kvm() -> Result<Kvm, LabError> {
    let kvm = Kvm::new().map_err(|error| {
        let (trouble, remedy) = trouble_with_kvm(&io::Error::from_raw_os_error(error.errno()));
        LabError::NoKvm(format!("{trouble}; {remedy}"))
    })?;
    const STABLE: i32 = 12;
    match kvm.get_api_version() {
        STABLE => Ok(kvm),
        other => Err(LabError::NoKvm(format!("/dev/kvm speaks version {other}, not {STABLE}"))),
    }
}

/// What an error at opening `/dev/kvm` means, and what helps.
pub(crate) fn trouble_with_kvm(error: &io::Error) -> (String, String) {
    match error.kind() {
        io::ErrorKind::NotFound => (
            "there is no /dev/kvm".to_string(),
            "load kvm_intel or kvm_amd; the machine, or the hypervisor below it, has to offer virtualisation"
                .to_string(),
        ),
        io::ErrorKind::PermissionDenied => {
            let about = std::fs::metadata("/dev/kvm").ok();
            let (mode, group) = about.map_or((0, 0), |about| (about.mode() & 0o777, about.gid()));
            (
                format!("no permission to open /dev/kvm: its mode is {mode:04o}, its group {group}"),
                match mode & 0o060 {
                    0o060 => format!("become root, or a member of its group (its name: `getent group {group}`)"),
                    _ => "become root, or have root let its group in: `chgrp kvm /dev/kvm && chmod 0660 /dev/kvm`; its mode \
                          shuts the group out"
                        .to_string(),
                },
            )
        }
        _ => (format!("/dev/kvm cannot be opened: {error}"), "see that it is KVM's device".to_string()),
    }
}

/// A virtual machine.
#[derive(Debug)]
pub struct LabVm {
    fd: VmFd,
    memory: Arc<GuestMemory>,
    shared: Arc<GuestMemory>,
    first: u32,
    config: VmConfig,
    entry: u64,
    run_size: usize,
}

impl LabVm {
    /// A VM with the payload in its memory, and its vCPUs, which stand at the payload's entry.
    pub fn new(kvm: &Kvm, config: VmConfig) -> Result<(LabVm, Vec<LabVcpu>), LabError> {
        LabVm::sharing(kvm, config, &LabVm::shared_memory()?, 0)
    }

    /// Memory for [`LabVm::sharing`].
    pub fn shared_memory() -> Result<Arc<GuestMemory>, LabError> {
        Ok(Arc::new(GuestMemory::new(abi::SHARED_SIZE)?))
    }

    /// The same, with locks, boxes and counters in memory that other VMs have as well; its vCPUs are numbered from `first`
    /// on, so that each has a number of its own there.
    pub fn sharing(
        kvm: &Kvm,
        config: VmConfig,
        shared: &Arc<GuestMemory>,
        first: u32,
    ) -> Result<(LabVm, Vec<LabVcpu>), LabError> {
        assert!(first + config.vcpus <= abi::MAX_VCPUS as u32, "{} vCPUs from {first} on", config.vcpus);
        assert!((1..=abi::MAX_VCPUS as u32).contains(&config.vcpus), "{} vCPUs", config.vcpus);
        let memory = Arc::new(GuestMemory::new(abi::MEMORY_SIZE)?);
        let entry = boot::prepare(&memory)?;
        let fd = kvm.create_vm().map_err(LabError::kvm("KVM_CREATE_VM"))?;
        // Intel CPUs that cannot run real mode keep a task segment there; others do not mind.
        fd.set_tss_address(0xfffb_d000).map_err(LabError::kvm("KVM_SET_TSS_ADDR"))?;
        if config.irqchip {
            fd.create_irq_chip().map_err(LabError::kvm("KVM_CREATE_IRQCHIP"))?;
        }
        let regions = [
            (0, memory.host_address(), abi::SHARED),
            (abi::SHARED, shared.host_address(), abi::SHARED_SIZE),
            (abi::PROGRAMS, memory.host_address() + abi::PROGRAMS, memory.size() - abi::PROGRAMS),
        ];
        for (slot, (guest_phys_addr, userspace_addr, memory_size)) in (0..).zip(regions) {
            let region = kvm_userspace_memory_region { slot, flags: 0, guest_phys_addr, memory_size, userspace_addr };
            // SAFETY: each region lies within the mapping of `memory` or of `shared`, which this VM and each of its vCPUs
            // keep alive, and whose bytes are only used as what others may change at any time.
            unsafe { fd.set_user_memory_region(region) }.map_err(LabError::kvm("KVM_SET_USER_MEMORY_REGION"))?;
        }
        let run_size = kvm.get_vcpu_mmap_size().map_err(LabError::kvm("KVM_GET_VCPU_MMAP_SIZE"))?;
        let vm = LabVm { fd, memory, shared: Arc::clone(shared), first, config, entry, run_size };
        if let Some(most) = config.halt_poll_ns {
            vm.cap_halt_polling(most)?;
        }
        let cpuid = kvm.get_supported_cpuid(KVM_MAX_CPUID_ENTRIES).map_err(LabError::kvm("KVM_GET_SUPPORTED_CPUID"))?;
        let vcpus = (0..config.vcpus).map(|index| vm.vcpu(index, &cpuid));
        let vcpus = vcpus.collect::<Result<Vec<_>, _>>()?;
        Ok((vm, vcpus))
    }

    fn vcpu(&self, index: u32, cpuid: &kvm_bindings::CpuId) -> Result<LabVcpu, LabError> {
        boot::prepare_vcpu(&self.memory, index);
        let fd = self.fd.create_vcpu(index.into()).map_err(LabError::kvm("KVM_CREATE_VCPU"))?;
        fd.set_cpuid2(cpuid).map_err(LabError::kvm("KVM_SET_CPUID2"))?;
        let mut sregs = fd.get_sregs().map_err(LabError::kvm("KVM_GET_SREGS"))?;
        boot::system_registers(&mut sregs, index, self.config.ring);
        fd.set_sregs(&sregs).map_err(LabError::kvm("KVM_SET_SREGS"))?;
        if self.config.irqchip {
            enable_apic(&fd)?;
        }
        let keep = [Arc::clone(&self.memory), Arc::clone(&self.shared)];
        let mut vcpu = LabVcpu::new(fd, index, self.first + index, keep, self.run_size)?;
        vcpu.start(&self.config, self.entry)?;
        Ok(vcpu)
    }

    /// Puts a vCPU of this VM back to the payload's entry.
    pub fn restart(&self, vcpu: &mut LabVcpu) -> Result<(), LabError> {
        vcpu.start(&self.config, self.entry)
    }

    /// What it was made with.
    pub fn config(&self) -> &VmConfig {
        &self.config
    }

    /// Its memory.
    pub fn memory(&self) -> &Arc<GuestMemory> {
        &self.memory
    }

    /// What its vCPUs share, with those of other VMs if there are any.
    pub fn shared(&self) -> &Arc<GuestMemory> {
        &self.shared
    }

    /// The number of its first vCPU among all that share memory.
    pub fn first_number(&self) -> u32 {
        self.first
    }

    /// What KVM answers about a capability of this VM.
    pub fn capability(&self, cap: Cap) -> i32 {
        self.fd.check_extension_int(cap)
    }

    /// Sets the longest that KVM polls when a vCPU of this VM halts, in nanoseconds. It acts from the next halt of each
    /// vCPU on, also of a VM that runs: kvm_vm_ioctl_enable_cap_generic() stores it in the VM, where kvm_vcpu_halt() reads
    /// it at each halt, by kvm_vcpu_max_halt_poll_ns() (virt/kvm/kvm_main.c).
    pub fn cap_halt_polling(&self, most: u32) -> Result<(), LabError> {
        let mut cap = kvm_enable_cap { cap: KVM_CAP_HALT_POLL, ..kvm_enable_cap::default() };
        cap.args[0] = most.into();
        self.fd.enable_cap(&cap).map_err(LabError::kvm("KVM_CAP_HALT_POLL"))
    }

    /// Has KVM signal an eventfd for writes of `size` bytes (0: any) to this place, of this value only if there is one:
    /// the guest goes on at once.
    pub fn ioeventfd(&self, fd: &EventFd, place: IoAddress, size: u8, datamatch: Option<u64>) -> Result<(), LabError> {
        const KVM_IOEVENTFD: libc::c_ulong = 0x4040_ae79;
        let (addr, flag) = match place {
            IoAddress::Port(port) => (port.into(), 1 << kvm_ioeventfd_flag_nr_pio),
            IoAddress::Address(address) => (address, 0),
        };
        let request = kvm_ioeventfd {
            datamatch: datamatch.unwrap_or(0),
            addr,
            len: size.into(),
            fd: fd.as_raw_fd(),
            flags: flag | if datamatch.is_some() { 1 << kvm_ioeventfd_flag_nr_datamatch } else { 0 },
            ..kvm_ioeventfd::default()
        };
        // kvm-ioctls has no way to ask for a size without a value.
        // SAFETY: the kernel reads one `kvm_ioeventfd`, which this is.
        match unsafe { libc::ioctl(self.fd.as_raw_fd(), KVM_IOEVENTFD, &request) } {
            0 => Ok(()),
            _ => Err(LabError::io("KVM_IOEVENTFD", io::Error::last_os_error())),
        }
    }

    /// Has reads and writes of MSRs that KVM does not know come out as [`crate::KvmExit::Msr`].
    pub fn exit_on_unknown_msrs(&self) -> Result<(), LabError> {
        let mut cap = kvm_enable_cap { cap: KVM_CAP_X86_USER_SPACE_MSR, ..kvm_enable_cap::default() };
        cap.args[0] = u64::from(KVM_MSR_EXIT_REASON_UNKNOWN | KVM_MSR_EXIT_REASON_INVAL);
        self.fd.enable_cap(&cap).map_err(LabError::kvm("KVM_CAP_X86_USER_SPACE_MSR"))
    }

    /// Has KVM collect writes to `size` bytes from this place on in a ring, which [`LabVcpu::coalesced`] reads.
    pub fn coalesce(&self, place: IoAddress, size: u32) -> Result<(), LabError> {
        self.fd.register_coalesced_mmio(address(place), size).map_err(LabError::kvm("KVM_REGISTER_COALESCED_MMIO"))
    }

    /// Wakes a vCPU that halted inside KVM, without an interrupt: the same message that a guest's KVM_HC_KICK_CPU makes.
    /// Needs the interrupt controllers.
    pub fn wake(&self, vcpu: u32) -> Result<(), LabError> {
        const REMOTE_READ: u32 = 3 << 8;
        let msi = kvm_msi { address_lo: 0xfee0_0000 | (vcpu & 0xff) << 12, data: REMOTE_READ, ..kvm_msi::default() };
        self.fd.signal_msi(msi).map(drop).map_err(LabError::kvm("KVM_SIGNAL_MSI"))
    }

    /// Sends an interrupt to a vCPU. Needs the interrupt controllers, and ring 0 to serve it.
    pub fn interrupt(&self, vcpu: u32, vector: u8) -> Result<(), LabError> {
        let msi = kvm_msi { address_lo: 0xfee0_0000 | (vcpu & 0xff) << 12, data: vector.into(), ..kvm_msi::default() };
        self.fd.signal_msi(msi).map(drop).map_err(LabError::kvm("KVM_SIGNAL_MSI"))
    }
}

fn address(place: IoAddress) -> IoEventAddress {
    match place {
        IoAddress::Port(port) => IoEventAddress::Pio(port.into()),
        IoAddress::Address(address) => IoEventAddress::Mmio(address),
    }
}

/// Switches a vCPU's interrupt controller on.
fn enable_apic(fd: &kvm_ioctls::VcpuFd) -> Result<(), LabError> {
    const SPURIOUS: usize = 0xf0;
    const ENABLED: i8 = 1; // bit 8 of the register
    let mut apic = fd.get_lapic().map_err(LabError::kvm("KVM_GET_LAPIC"))?;
    apic.regs[SPURIOUS] = -1;
    apic.regs[SPURIOUS + 1] |= ENABLED;
    fd.set_lapic(&apic).map_err(LabError::kvm("KVM_SET_LAPIC"))
}
