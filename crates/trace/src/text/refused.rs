//! Why a text is refused: by a line that lacks what accounting needs, or by what its times and threads say together.

use super::flaw::Flaw;
use crate::TraceError;
use crate::source::MAX_THREADS;
use exitscope_model::{CodeList, EventKind};
use exitscope_units::{Moment, VcpuId};
use rustc_hash::FxHashMap;

/// Why a text cannot be used.
pub(super) enum Refusal {
    /// By a line, the first of its kind.
    Line(Flaw, LineAt),
    /// Its times are those between events.
    Differences,
    /// Its threads are processes.
    Processes,
}

impl Refusal {
    /// The error about the file of this name.
    #[cold]
    pub fn of(self, name: &str) -> TraceError {
        let name = name.to_string();
        match self {
            Refusal::Line(flaw @ Flaw::Counter, LineAt { offset, .. }) => {
                TraceError::Damaged { name, structure: "line", offset, problem: flaw.problem().to_string() }
            }
            Refusal::Line(flaw, LineAt { number, .. }) => {
                TraceError::Unsupported { name, what: format!("line {number} {}", flaw.problem()) }
            }
            Refusal::Differences => TraceError::Unsupported {
                name,
                what: "its times are not in order, as those between one event and the next are not (perf script \
                       --deltatime); print it with moments"
                    .to_string(),
            },
            Refusal::Processes => TraceError::Unsupported {
                name,
                what:
                    "one thread is in several vCPUs at once, so that its number is the process's (perf script -F pid \
                       without tid); print it with perf script -F comm,pid,tid,cpu,time,event,trace"
                        .to_string(),
            },
        }
    }
}

/// Where a line is.
#[derive(Clone, Copy, Default)]
pub(super) struct LineAt {
    /// Where it begins, in bytes.
    pub offset: u64,
    /// Its number, counted from 1.
    pub number: u64,
}

/// Whether times are moments: those are in order. The times between events, which `perf script --deltatime` prints in their
/// place, are not.
#[derive(Default)]
pub(super) struct OrderCheck {
    /// The first time was zero: nothing is before the first event.
    from_zero: bool,
    /// Events so far, and those whose time is below the one before.
    pub events: u64,
    backwards: u64,
}

impl OrderCheck {
    /// Events by which it shows.
    pub const ENOUGH: u64 = 64;

    /// Events by which it shows in a text that has no more.
    const FEW: u64 = 8;

    /// The time of an event, after one of time `latest`.
    #[inline]
    pub fn note(&mut self, at: Moment, latest: Moment) {
        if self.events < OrderCheck::ENOUGH {
            self.from_zero |= self.events == 0 && at == Moment::default();
            self.backwards += u64::from(at < latest);
            self.events += 1;
        }
    }

    /// Whether these were no moments.
    pub fn is_of_differences(&self) -> bool {
        match self.from_zero {
            true => self.backwards * 8 > self.events,
            false if self.events == OrderCheck::ENOUGH => self.backwards * 4 > self.events,
            false => self.events >= OrderCheck::FEW && self.backwards * 3 > self.events,
        }
    }
}

/// Whether threads are threads: such a one leaves the vCPU that it entered. Where `perf script -F pid` prints the process in
/// the thread's place, all vCPUs of a VM seem to be one thread's.
#[derive(Default)]
pub(super) struct ThreadCheck {
    /// The vCPU that each entered last.
    entered: FxHashMap<u32, VcpuId>,
    /// Exits so far, and those from another vCPU than the one entered.
    exits: u64,
    strange: u64,
}

impl ThreadCheck {
    /// Strange exits that may be damage, or a loss that nothing says.
    const FEW: u64 = 4;

    /// An event of a thread of which no process is known.
    #[inline]
    pub fn note(&mut self, tid: u32, kind: EventKind, vcpu: VcpuId) {
        match kind {
            _ if vcpu == VcpuId::UNKNOWN => {}
            EventKind::Enter if self.entered.len() < MAX_THREADS => {
                self.entered.insert(tid, vcpu);
            }
            // POWER8 enters and leaves with all vCPUs of a core at once.
            EventKind::Exit { code, .. } if code.list != CodeList::PpcTrap => {
                if let Some(entered) = self.entered.remove(&tid) {
                    self.exits += 1;
                    self.strange += u64::from(entered != vcpu);
                }
            }
            _ => {}
        }
    }

    /// Nothing is known of where they are.
    pub fn forget(&mut self) {
        self.entered.clear();
    }

    /// Whether these are processes. A vCPU alone on its host never shows it, one of many in every second exit.
    pub fn are_processes(&self) -> bool {
        self.strange > ThreadCheck::FEW && self.strange * 64 > self.exits
    }
}
