//! What came out of a vCPU, by reason and handler: how often, and how long until it went in again.

use crate::KvmExit;
use exitscope_stats::Histogram;

/// Who finished an exit, as far as user space sees any.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum LabHandler {
    /// Answered inside KVM: no exit to user space.
    Kernel,
    /// KVM signals an eventfd and goes on.
    Ioeventfd,
    /// KVM puts the write into a ring and goes on.
    Coalesced,
    /// User space answers, on the vCPU's own thread.
    Inline,
    /// User space hands it to a device model's thread, and waits for that.
    Thread,
    /// A doorbell of the payload's.
    Doorbell,
}

impl LabHandler {
    /// Every handler.
    pub const ALL: [LabHandler; 6] = [
        LabHandler::Kernel,
        LabHandler::Ioeventfd,
        LabHandler::Coalesced,
        LabHandler::Inline,
        LabHandler::Thread,
        LabHandler::Doorbell,
    ];

    /// For people.
    pub fn name(self) -> &'static str {
        match self {
            LabHandler::Kernel => "kernel",
            LabHandler::Ioeventfd => "ioeventfd",
            LabHandler::Coalesced => "coalesced",
            LabHandler::Inline => "user space",
            LabHandler::Thread => "device thread",
            LabHandler::Doorbell => "doorbell",
        }
    }
}

/// Why an exit came, without its particulars.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum LabExitReason {
    /// IN.
    PortIn,
    /// OUT.
    PortOut,
    /// A load outside memory.
    MmioRead,
    /// A store outside memory.
    MmioWrite,
    /// HLT, or the doorbell for it.
    Halt,
    /// The doorbell of a sleep.
    Sleep,
    /// The doorbell of a wake-up.
    Wake,
    /// The doorbell of X'44'.
    Yield,
    /// The doorbell of X'9C'.
    YieldTo,
    /// The doorbell of SIGP sense running.
    Sense,
    /// The doorbell of a disk's request, or of an answer to a client outside.
    Outside,
    /// RDMSR or WRMSR.
    Msr,
    /// Kicked out, or a signal.
    Kicked,
    /// What ends a program, and its other words with the lab.
    Other,
}

impl LabExitReason {
    /// Every reason.
    pub const ALL: [LabExitReason; 14] = [
        LabExitReason::PortIn,
        LabExitReason::PortOut,
        LabExitReason::MmioRead,
        LabExitReason::MmioWrite,
        LabExitReason::Halt,
        LabExitReason::Sleep,
        LabExitReason::Wake,
        LabExitReason::Yield,
        LabExitReason::YieldTo,
        LabExitReason::Sense,
        LabExitReason::Outside,
        LabExitReason::Msr,
        LabExitReason::Kicked,
        LabExitReason::Other,
    ];

    /// For people.
    pub fn name(self) -> &'static str {
        match self {
            LabExitReason::PortIn => "port read",
            LabExitReason::PortOut => "port write",
            LabExitReason::MmioRead => "MMIO read",
            LabExitReason::MmioWrite => "MMIO write",
            LabExitReason::Halt => "halt",
            LabExitReason::Sleep => "sleep",
            LabExitReason::Wake => "wake-up",
            LabExitReason::Yield => "yield",
            LabExitReason::YieldTo => "directed yield",
            LabExitReason::Sense => "sense running",
            LabExitReason::Outside => "disk or answer",
            LabExitReason::Msr => "MSR",
            LabExitReason::Kicked => "kick",
            LabExitReason::Other => "other",
        }
    }

    /// Why this exit came.
    pub fn of(exit: &KvmExit) -> LabExitReason {
        use crate::abi::bell;
        match exit {
            KvmExit::PortIn { .. } => LabExitReason::PortIn,
            KvmExit::PortOut { .. } => LabExitReason::PortOut,
            KvmExit::MmioRead { .. } => LabExitReason::MmioRead,
            KvmExit::MmioWrite { .. } => LabExitReason::MmioWrite,
            KvmExit::Halt => LabExitReason::Halt,
            KvmExit::Msr { .. } => LabExitReason::Msr,
            KvmExit::Kicked => LabExitReason::Kicked,
            KvmExit::Bell { bell, .. } => match *bell {
                bell::HALT => LabExitReason::Halt,
                bell::SLEEP => LabExitReason::Sleep,
                bell::WAKE => LabExitReason::Wake,
                bell::YIELD => LabExitReason::Yield,
                bell::YIELD_TO => LabExitReason::YieldTo,
                bell::SENSE => LabExitReason::Sense,
                bell::REPLY | bell::SUBMIT => LabExitReason::Outside,
                _ => LabExitReason::Other,
            },
        }
    }
}

/// Exits of one reason and one handler.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ExitAccountRow {
    /// Number of exits.
    pub count: u64,
    /// From the exit to the next entry, as user space sees it, in nanoseconds: how they are spread.
    pub times: Histogram,
    /// Their sum.
    pub sum_ns: u64,
}

/// Exits of a vCPU, or of several.
#[derive(Clone, Debug, PartialEq)]
pub struct ExitAccount {
    cells: Vec<ExitAccountRow>,
}

impl Default for ExitAccount {
    fn default() -> ExitAccount {
        ExitAccount { cells: vec![ExitAccountRow::default(); LabExitReason::ALL.len() * LabHandler::ALL.len()] }
    }
}

impl ExitAccount {
    /// Counts one exit that user space worked on for so many nanoseconds.
    pub fn record(&mut self, reason: LabExitReason, handler: LabHandler, ns: u64) {
        let cell = &mut self.cells[reason as usize * LabHandler::ALL.len() + handler as usize];
        cell.count += 1;
        cell.times.record(ns);
        cell.sum_ns += ns;
    }

    /// Adds those of another.
    pub fn merge(&mut self, other: &ExitAccount) {
        for (cell, more) in self.cells.iter_mut().zip(&other.cells) {
            cell.count += more.count;
            cell.times.merge(&more.times);
            cell.sum_ns += more.sum_ns;
        }
    }

    /// What there is, by reason and handler.
    pub fn rows(&self) -> impl Iterator<Item = (LabExitReason, LabHandler, &ExitAccountRow)> {
        let keys = LabExitReason::ALL
            .into_iter()
            .flat_map(|reason| LabHandler::ALL.into_iter().map(move |handler| (reason, handler)));
        keys.zip(&self.cells)
            .filter(|(_, cell)| cell.count > 0)
            .map(|((reason, handler), cell)| (reason, handler, cell))
    }

    /// How many exits of a reason there are, by any handler.
    pub fn count(&self, reason: LabExitReason) -> u64 {
        self.rows().filter(|row| row.0 == reason).map(|row| row.2.count).sum()
    }
}
