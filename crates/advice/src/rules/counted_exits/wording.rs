//! What is said of tables of exits.

pub(super) const NO_COLUMNS: &str = "which thread and when: the lines lack the columns before the event, as `perf script` and `trace-cmd report` print them";
pub(super) const NO_TIMES: &str = "what exits cost: the table has no times";
pub(super) const NO_SPAN: &str =
    "how much of the vCPUs' time exits take: nothing says how long was counted, or how many vCPUs there are";
pub(super) const NO_SPAN_BUT_A_BOUND: &str = "how much of the vCPUs' time exits take within that bound, and how much of the time outside halts: nothing says how long was counted, or how many vCPUs there are";
pub(super) const NO_LOSSES: &str =
    "whether perf lost events: `perf kvm stat report` warns of that above its table, not in it";
pub(super) const NO_SUM: &str = "whether rows are missing: nothing says how many exits there were";
pub(super) const NO_WAITS: &str = "how long vCPUs waited for a CPU, within exits or outside";

pub(super) const PORTS: &str = "which ports, what asks for them, and whether the kernel or user space answers";
pub(super) const MSRS: &str = "which MSRs, read or written";
pub(super) const LEAVES: &str = "which leaves of CPUID, and where the guest asks for them";
pub(super) const APIC: &str = "which registers of the local APIC, and what inhibits APICv or AVIC";
pub(super) const ADDRESSES: &str = "which addresses, of which device, and whether the kernel or user space answers";
pub(super) const SPINNING: &str = "whether vCPUs spin because the holder of a lock is preempted";
pub(super) const HYPERCALLS: &str = "which hypercalls";
pub(super) const REGISTERS: &str = "which system registers, read or written";
pub(super) const HALTS: &str = "how long halts last, whether polling would end them sooner, and what wakes vCPUs up";
pub(super) const VECTORS: &str = "which interrupts of the host, and what they are for";
pub(super) const FAULTS: &str =
    "whether guests touch memory for the first time, the host takes it away, or devices are accessed";
pub(super) const ABOUT_WHAT: &str = "what exits are about";
pub(super) const WHO_ASKS: &str = "what asks for these accesses, and whether the kernel or user space answers";
