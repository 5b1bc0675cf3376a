//! What came out of a vCPU, by reason and handler: how often, and how long until it went in again.

use crate::Exit;
use exitscope_stats::Histogram;

/// Who finished an exit, as far as user space sees any.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Door {
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
    Bell,
}

impl Door {
    /// Every handler.
    pub const ALL: [Door; 6] = [Door::Kernel, Door::Ioeventfd, Door::Coalesced, Door::Inline, Door::Thread, Door::Bell];

    /// For people.
    pub fn name(self) -> &'static str {
        match self {
            Door::Kernel => "kernel",
            Door::Ioeventfd => "ioeventfd",
            Door::Coalesced => "coalesced",
            Door::Inline => "user space",
            Door::Thread => "device thread",
            Door::Bell => "doorbell",
        }
    }
}

/// Why an exit came, without its particulars.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Reason {
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

impl Reason {
    /// Every reason.
    pub const ALL: [Reason; 14] = [
        Reason::PortIn,
        Reason::PortOut,
        Reason::MmioRead,
        Reason::MmioWrite,
        Reason::Halt,
        Reason::Sleep,
        Reason::Wake,
        Reason::Yield,
        Reason::YieldTo,
        Reason::Sense,
        Reason::Outside,
        Reason::Msr,
        Reason::Kicked,
        Reason::Other,
    ];

    /// For people.
    pub fn name(self) -> &'static str {
        match self {
            Reason::PortIn => "port read",
            Reason::PortOut => "port write",
            Reason::MmioRead => "MMIO read",
            Reason::MmioWrite => "MMIO write",
            Reason::Halt => "halt",
            Reason::Sleep => "sleep",
            Reason::Wake => "wake-up",
            Reason::Yield => "yield",
            Reason::YieldTo => "directed yield",
            Reason::Sense => "sense running",
            Reason::Outside => "disk or answer",
            Reason::Msr => "MSR",
            Reason::Kicked => "kick",
            Reason::Other => "other",
        }
    }

    /// Why this exit came.
    pub fn of(exit: &Exit) -> Reason {
        use crate::abi::bell;
        match exit {
            Exit::PortIn { .. } => Reason::PortIn,
            Exit::PortOut { .. } => Reason::PortOut,
            Exit::MmioRead { .. } => Reason::MmioRead,
            Exit::MmioWrite { .. } => Reason::MmioWrite,
            Exit::Halt => Reason::Halt,
            Exit::Msr { .. } => Reason::Msr,
            Exit::Kicked => Reason::Kicked,
            Exit::Bell { bell, .. } => match *bell {
                bell::HALT => Reason::Halt,
                bell::SLEEP => Reason::Sleep,
                bell::WAKE => Reason::Wake,
                bell::YIELD => Reason::Yield,
                bell::YIELD_TO => Reason::YieldTo,
                bell::SENSE => Reason::Sense,
                bell::REPLY | bell::SUBMIT => Reason::Outside,
                _ => Reason::Other,
            },
        }
    }
}

/// Exits of one reason and one handler.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cell {
    /// Number of exits.
    pub count: u64,
    /// From the exit to the next entry, as user space sees it, in nanoseconds: how they are spread.
    pub times: Histogram,
    /// Their sum.
    pub sum_ns: u64,
}

/// Exits of a vCPU, or of several.
#[derive(Clone, Debug, PartialEq)]
pub struct Account {
    cells: Vec<Cell>,
}

impl Default for Account {
    fn default() -> Account {
        Account { cells: vec![Cell::default(); Reason::ALL.len() * Door::ALL.len()] }
    }
}

impl Account {
    /// Counts one exit that user space worked on for so many nanoseconds.
    pub fn record(&mut self, reason: Reason, handler: Door, ns: u64) {
        let cell = &mut self.cells[reason as usize * Door::ALL.len() + handler as usize];
        cell.count += 1;
        cell.times.record(ns);
        cell.sum_ns += ns;
    }

    /// Adds those of another.
    pub fn merge(&mut self, other: &Account) {
        for (cell, more) in self.cells.iter_mut().zip(&other.cells) {
            cell.count += more.count;
            cell.times.merge(&more.times);
            cell.sum_ns += more.sum_ns;
        }
    }

    /// What there is, by reason and handler.
    pub fn rows(&self) -> impl Iterator<Item = (Reason, Door, &Cell)> {
        let keys =
            Reason::ALL.into_iter().flat_map(|reason| Door::ALL.into_iter().map(move |handler| (reason, handler)));
        keys.zip(&self.cells)
            .filter(|(_, cell)| cell.count > 0)
            .map(|((reason, handler), cell)| (reason, handler, cell))
    }

    /// How many exits of a reason there are, by any handler.
    pub fn count(&self, reason: Reason) -> u64 {
        self.rows().filter(|row| row.0 == reason).map(|row| row.2.count).sum()
    }
}
