//! What operations of a guest took in a test of its own: kvm-unit-tests' x86/vmexit. They are cycles, not counts: no guest's exits are in
//! them.
//!
//! ```text
//! cpuid 1183            ┐
//! inl_from_qemu 10544   ├─► OperationCosts of a run ─► what is slow, what the way to user space adds
//! inl_from_kernel 2113  ┘
//! ```

/// An operation that the test has, and what its guest does, once for each figure: `tests` of x86/vmexit.c of kvm-unit-tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimedOperation {
    /// Its name; in old versions some had `-` or `+` where now `_` is.
    pub name: &'static str,
    /// What the guest does, as a verb.
    pub what: &'static str,
    /// Whether it waits for something: another vCPU, a timer, an interrupt. Then its cycles are not those of exits alone.
    pub waits: bool,
    /// Whether all vCPUs do it at once, each for itself; otherwise one does it.
    pub is_parallel: bool,
}

const fn row(name: &'static str, what: &'static str, waits: bool) -> TimedOperation {
    TimedOperation { name, what, waits, is_parallel: false }
}

/// One that all vCPUs do at once.
const fn on_all(name: &'static str, what: &'static str, waits: bool) -> TimedOperation {
    TimedOperation { is_parallel: true, ..row(name, what, waits) }
}

/// Two of which the difference is what user space adds: both read a port that has nothing behind it but its handler.
const OF_USER_SPACE: &str = "inl_from_qemu";
const OF_KERNEL: &str = "inl_from_kernel";

/// The operations.
pub const TIMED_OPERATIONS: [TimedOperation; 35] = [
    on_all("cpuid", "executes CPUID", false),
    on_all("vmcall", "makes a hypercall", false),
    on_all("mov_from_cr8", "reads CR8", false),
    on_all("mov_to_cr8", "writes CR8", false),
    on_all("inl_from_pmtimer", "reads the port of the ACPI timer", false),
    on_all(OF_USER_SPACE, "reads port 0x1234, which no device has", false),
    on_all(OF_KERNEL, "reads port 0x4d0 of the interrupt controller", false),
    on_all("outl_to_kernel", "writes port 0x4d0 of the interrupt controller", false),
    on_all("mov_dr", "writes DR7", false),
    on_all("tscdeadline_immed", "sets the TSC deadline to a moment that has passed", false),
    on_all("tscdeadline", "sets the TSC deadline, and waits 3,000 cycles for it", true),
    row("self_ipi_sti_nop", "sends itself an IPI and takes it", false),
    row("self_ipi_sti_hlt", "sends itself an IPI and halts until it is there", true),
    row("self_ipi_tpr", "sends itself an IPI that the task priority holds back, and lowers it", false),
    row("self_ipi_tpr_sti_nop", "sends itself an IPI that the task priority holds back, and lowers it", false),
    row(
        "self_ipi_tpr_sti_hlt",
        "sends itself an IPI that the task priority holds back, lowers it, and halts until it is there",
        true,
    ),
    row("x2apic_self_ipi_sti_nop", "sends itself an IPI by an MSR and takes it", false),
    row("x2apic_self_ipi_sti_hlt", "sends itself an IPI by an MSR and halts until it is there", true),
    row("x2apic_self_ipi_tpr", "sends itself an IPI that the task priority holds back, and lowers it", false),
    row("x2apic_self_ipi_tpr_sti_nop", "sends itself an IPI that the task priority holds back, and lowers it", false),
    row(
        "x2apic_self_ipi_tpr_sti_hlt",
        "sends itself an IPI that the task priority holds back, lowers it, and halts until it is there",
        true,
    ),
    row("ipi", "has another vCPU do nothing, by an IPI, and waits for that", true),
    row("ipi_halt", "has another vCPU, which has had time to halt, do nothing, by an IPI, and waits for that", true),
    on_all("ple_round_robin", "spins with PAUSE until it is its turn", true),
    on_all("wr_kernel_gs_base", "writes an MSR that guests usually write without an exit", false),
    on_all("wr_tsx_ctrl_msr", "writes MSR_IA32_TSX_CTRL", false),
    on_all("wr_ibrs_msr", "writes MSR_IA32_SPEC_CTRL twice", false),
    on_all("wr_ibpb_msr", "writes MSR_IA32_PRED_CMD", false),
    on_all("wr_tsc_adjust_msr", "writes MSR_IA32_TSC_ADJUST", false),
    on_all("rd_tsc_adjust_msr", "reads MSR_IA32_TSC_ADJUST", false),
    on_all("toggle_cr0_wp", "writes CR0 twice", false),
    on_all("toggle_cr4_pge", "writes CR4 twice", false),
    row("pci-mem", "writes to memory of QEMU's pci-testdev", false),
    row("pci-io", "writes to a port of QEMU's pci-testdev", false),
    on_all("wbinvd", "executes WBINVD", false),
];

/// The operation of a name that a run has printed: `cpuid`, `ipi+halt`, `mmio-no-eventfd:pci-mem`.
pub fn timed_operation(printed: &str) -> Option<&'static TimedOperation> {
    let name = printed.rsplit_once(':').map_or(printed, |(_, name)| name);
    let is_it = |row: &&TimedOperation| {
        row.name == name || !row.name.contains('-') && row.name == name.replace(['-', '+'], "_")
    };
    TIMED_OPERATIONS.iter().find(is_it)
}

/// What an operation took in a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperationCost {
    /// As the run printed it.
    pub name: String,
    /// Cycles of the guest's TSC for one, on average. All vCPUs do most operations at once: then it is how long the last one took.
    pub cycles: u64,
}

/// A run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OperationCosts {
    /// In the order of the run.
    pub rows: Vec<OperationCost>,
}

impl OperationCosts {
    /// Cycles of the first row of this name.
    fn cycles(&self, name: &str) -> Option<u64> {
        self.rows.iter().find(|row| row.name == name).map(|row| row.cycles)
    }

    /// Cycles that a read of a port takes more if user space answers it than if the kernel does; `None` where not both were timed, or
    /// it takes no more.
    pub fn way_to_user_space(&self) -> Option<u64> {
        self.cycles(OF_USER_SPACE)?.checked_sub(self.cycles(OF_KERNEL)?).filter(|more| *more > 0)
    }

    /// What takes longest of what waits for nothing.
    pub fn longest(&self) -> Option<&OperationCost> {
        let waits = |row: &OperationCost| timed_operation(&row.name).is_some_and(|of| of.waits);
        self.rows.iter().filter(|row| !waits(row)).max_by_key(|row| row.cycles)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn costs(rows: &[(&str, u64)]) -> OperationCosts {
        let row = |row: &(&str, u64)| OperationCost { name: row.0.into(), cycles: row.1 };
        OperationCosts { rows: rows.iter().map(row).collect() }
    }

    #[test]
    fn names_of_all_versions_are_known_and_others_are_not() {
        for (printed, name) in [
            ("cpuid", Some("cpuid")),
            ("ipi+halt", Some("ipi_halt")),
            ("ple-round-robin", Some("ple_round_robin")),
            ("mmio-no-eventfd:pci-mem", Some("pci-mem")),
            ("pci_mem", None),
            ("cpuids", None),
        ] {
            assert_eq!(timed_operation(printed).map(|of| of.name), name, "{printed}");
        }
    }

    #[test]
    fn what_waits_is_not_the_longest_and_user_space_is_a_difference() {
        let run =
            costs(&[("ipi_halt", 90_000), ("cpuid", 1_100), ("inl_from_qemu", 9_000), ("inl_from_kernel", 2_000)]);
        assert_eq!(run.longest().map(|row| row.name.as_str()), Some("inl_from_qemu"));
        assert_eq!(run.way_to_user_space(), Some(7_000));
        assert_eq!(costs(&[("inl_from_qemu", 9), ("inl_from_kernel", 9)]).way_to_user_space(), None);
        assert_eq!(costs(&[("inl_from_qemu", 9)]).way_to_user_space(), None, "of nothing nothing is left");
        assert_eq!(costs(&[("ipi", 9)]).longest(), None);
    }
}
