//! What a record says, in our words: kind, whose it is, and who runs on its physical CPU from then on.
//!
//! ```text
//! 0x81002 (0x7b, eip)          on the CPU of domain 6, vCPU 0   ─►  Exit io of domain 6, vCPU 0
//! 0x21031 (6 << 16 | 0)                                         ─►  RunState running to offline of domain 6, vCPU 0
//! ```

use super::names::{RecordOwner, event};
use super::record::Record;
use crate::source::XenMode;
use crate::tracepoints::{about, exit};
use exitscope_model::{CodeList, EventKind, ExitCode, PortAccessForm, RunState, Subject, SubjectKind};
use exitscope_units::{VcpuId, VmId};
use rustc_hash::FxHashSet;

/// Event flags and classes, `xen/include/public/trace.h`.
const WIDE: u32 = 0x100;
const WRITE: u32 = 0x200;
const NESTED: u32 = 0x400;
const CLASS_HVM: u32 = 0x0008_0000;

/// Domain and number of a virtual CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Vcpu {
    pub domain: u16,
    pub number: u16,
}

impl Vcpu {
    /// As one word: the domain is the high half.
    pub fn packed(word: u32) -> Vcpu {
        Vcpu { domain: (word >> 16) as u16, number: word as u16 }
    }

    /// As Xen 3.3.0 and LOST_RECORDS have it: the domain is the low half.
    pub fn packed_low(word: u32) -> Vcpu {
        Vcpu { domain: word as u16, number: (word >> 16) as u16 }
    }

    fn pair(record: &Record, at: usize) -> Option<Vcpu> {
        let half = |word: u32| u16::try_from(word).ok();
        Some(Vcpu { domain: half(record.word(at)?)?, number: half(record.word(at + 1)?)? })
    }

    /// The same in the model's terms.
    pub fn ids(self) -> (VmId, VcpuId) {
        (VmId::domain(u32::from(self.domain)), VcpuId(u32::from(self.number)))
    }
}

/// What is known of an event number.
#[derive(Clone, Copy, Debug)]
pub(super) struct Meaning {
    /// How to read its words.
    pub means: XenRecordKind,
    /// How it says whose it is.
    pub whose: RecordOwner,
    /// Whether the event is known at all.
    pub known: bool,
}

/// What is to become of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RecordFilter {
    /// Nobody uses it: it is counted.
    Skip,
    /// The same, but it says who runs on the CPU.
    Runs,
    /// It leaves the reader, or has to be looked at.
    Leaves,
}

/// What is to become of events, those that were met last near at hand.
#[derive(Debug)]
pub(super) struct Fates {
    only_used: bool,
    near: Box<[(u32, RecordFilter); Fates::NEAR]>,
}

/// A place in a table of `places` (a power of two below 2^16), spread over it.
#[inline]
pub(super) fn slot(id: u32, places: usize) -> usize {
    (id.wrapping_mul(0x9e37_79b1) >> 16) as usize & (places - 1)
}

impl Fates {
    const NEAR: usize = 1024;

    /// If `only_used`, what accounting has no use for is skipped.
    pub fn new(only_used: bool) -> Fates {
        Fates { only_used, near: Box::new([(u32::MAX, RecordFilter::Leaves); Fates::NEAR]) }
    }

    /// What is to become of `id`, if that is near at hand.
    #[inline]
    pub fn known(&self, id: u32) -> Option<RecordFilter> {
        let (known, fate) = self.near[slot(id, Fates::NEAR)];
        (known == id).then_some(fate)
    }

    /// What is to become of `id`.
    #[inline]
    pub fn of(&mut self, id: u32) -> RecordFilter {
        match self.known(id) {
            Some(fate) => fate,
            None => self.learn(id),
        }
    }

    #[cold]
    fn learn(&mut self, id: u32) -> RecordFilter {
        let meaning = Meaning::of(id);
        let unused = self.only_used && meaning.known && meaning.is_unused() && meaning.means != XenRecordKind::Sleep;
        let fate = match (unused, id) {
            // What INFNEXT (0x2800f) says, SWITCH says behind it.
            (true, 0x0002_800a | 0x0002_8011) => RecordFilter::Runs,
            // The next record of the kind is skipped without being looked at.
            (true, _) => RecordFilter::Skip,
            (false, _) => RecordFilter::Leaves,
        };
        self.near[slot(id, Fates::NEAR)] = (id, fate);
        fate
    }
}

/// How to read a record's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum XenRecordKind {
    Enter,
    Exit,
    SvmExit,
    RunState(RunState, RunState),
    Inject,
    Hypercall,
    Msr {
        write: bool,
    },
    Cr {
        write: bool,
        wide: bool,
    },
    /// CLTS and LMSW write CR0.
    Cr0,
    Cpuid,
    /// Port (true) or address, then data.
    Access {
        port: bool,
        write: bool,
        wide: bool,
    },
    /// Port and size, of Xen before 2008-09.
    OldPort {
        write: bool,
    },
    NestedPageFault,
    PageFault {
        wide: bool,
    },
    PvHypercall,
    /// The vCPU is put to sleep: paused.
    Sleep,
    /// `vcpu_wake` is called for the vCPU.
    Wake,
    /// The vCPU yields.
    Yield,
    /// Nothing that is used.
    Other,
}

impl Meaning {
    /// What the event `id` means.
    pub fn of(id: u32) -> Meaning {
        let found = event(id);
        let class = if id >> 16 == CLASS_HVM >> 16 { RecordOwner::Current } else { RecordOwner::Nobody };
        Meaning { means: XenRecordKind::of(id), whose: found.map_or(class, |row| row.1), known: found.is_some() }
    }

    /// Whether accounting has no use for the event.
    pub fn is_unused(&self) -> bool {
        matches!(self.means, XenRecordKind::Other | XenRecordKind::Sleep | XenRecordKind::PvHypercall)
    }
}

impl XenRecordKind {
    fn of(id: u32) -> XenRecordKind {
        let (wide, write) = (id & WIDE != 0, id & WRITE != 0);
        match id {
            0x0002_1002 => XenRecordKind::RunState(RunState::Running, RunState::Running),
            _ if id & !0xff0 == 0x0002_1001 => match (state(id >> 8), state(id >> 4)) {
                (Some(from), Some(to)) => XenRecordKind::RunState(from, to),
                _ => XenRecordKind::Other,
            },
            0x0002_8003 => XenRecordKind::Sleep,
            0x0002_8004 => XenRecordKind::Wake,
            0x0002_8005 => XenRecordKind::Yield,
            0x0008_1001 | 0x0008_1401 => XenRecordKind::Enter,
            _ if id & !(WIDE | NESTED) == 0x0008_1002 => XenRecordKind::Exit,
            _ if id & !(WIDE | NESTED) == 0x0008_1003 => XenRecordKind::SvmExit,
            0x0008_2001 | 0x0008_2101 => XenRecordKind::PageFault { wide },
            0x0008_2004 | 0x0008_2005 => XenRecordKind::Inject,
            0x0008_2006 | 0x0008_2007 => XenRecordKind::OldPort { write: id & 1 == 1 },
            0x0008_2008 | 0x0008_2108 => XenRecordKind::Cr { write: false, wide },
            0x0008_2009 | 0x0008_2109 => XenRecordKind::Cr { write: true, wide },
            0x0008_200c | 0x0008_200d => XenRecordKind::Msr { write: id & 1 == 1 },
            0x0008_200e => XenRecordKind::Cpuid,
            0x0008_2012 => XenRecordKind::Hypercall,
            _ if id & !(WIDE | WRITE) == 0x0008_2016 => XenRecordKind::Access { port: true, write, wide },
            _ if id & !(WIDE | WRITE) == 0x0008_2017 => XenRecordKind::Access { port: false, write, wide },
            0x0008_2018 | 0x0008_2019 | 0x0008_2119 => XenRecordKind::Cr0,
            0x0008_2021 => XenRecordKind::NestedPageFault,
            0x0020_1001 | 0x0020_1101 | 0x0020_100d => XenRecordKind::PvHypercall,
            _ => XenRecordKind::Other,
        }
    }

    /// What `record` says; `None` if it is too short for it.
    #[inline]
    pub fn read(self, record: &Record, mode: XenMode) -> Option<EventKind> {
        let word = |at| record.word(at);
        let number = |at| record.word(at).map(u64::from);
        let rip = || if record.id & WIDE != 0 { record.wide(1) } else { number(1) }.unwrap_or(0);
        let of_level = |code: ExitCode| if record.id & NESTED != 0 { code.of_nested() } else { code };
        Some(match self {
            XenRecordKind::Enter => EventKind::Enter,
            XenRecordKind::Exit => exit(of_level(code(word(0)?, mode)), rip()),
            XenRecordKind::SvmExit => exit(of_level(code(word(0)?, XenMode::Svm)), rip()),
            XenRecordKind::RunState(from, to) => EventKind::RunState { from, to },
            XenRecordKind::Inject => EventKind::Inject { vector: word(0)? },
            XenRecordKind::Hypercall => about(SubjectKind::XenHypercall, false, number(0)?, 0),
            XenRecordKind::Msr { write } => about(SubjectKind::Msr, write, number(0)?, record.wide(1).unwrap_or(0)),
            XenRecordKind::Cr { write, wide } => {
                let value = if wide { record.wide(1) } else { number(1) };
                about(SubjectKind::ControlRegister, write, number(0)?, value.unwrap_or(0))
            }
            XenRecordKind::Cr0 => about(SubjectKind::ControlRegister, true, 0, number(0).unwrap_or(0)),
            // Six words since 2010 or so, with the sub-leaf in the second; five before.
            XenRecordKind::Cpuid => {
                let sub_leaf = if record.extra() >= 6 { number(1)? } else { 0 };
                about(SubjectKind::Cpuid, false, number(0)?, sub_leaf)
            }
            XenRecordKind::Access { port, write, wide } => {
                let kind = if port { SubjectKind::Port } else { SubjectKind::Mmio };
                let (key, value) = if wide { (record.wide(0)?, record.wide(2)) } else { (number(0)?, number(1)) };
                // No data where it is a pointer (string instructions).
                let form = if value.is_some() { PortAccessForm::NonString } else { PortAccessForm::String };
                EventKind::Detail(Subject { kind, write, form, size: 0, key, value: value.unwrap_or(0) })
            }
            XenRecordKind::OldPort { write } => {
                let size = word(1).and_then(|size| u16::try_from(size).ok()).unwrap_or(0);
                EventKind::Detail(Subject {
                    kind: SubjectKind::Port,
                    write,
                    form: PortAccessForm::Unknown,
                    size,
                    key: number(0)?,
                    value: 0,
                })
            }
            XenRecordKind::NestedPageFault => about(SubjectKind::PageFault, false, number(4)?, record.wide(0)?),
            XenRecordKind::PageFault { wide } => {
                let address = if wide { record.wide(1)? } else { number(1)? };
                about(SubjectKind::PageFault, false, number(0)?, address)
            }
            // The second version of the event has flags above the number; the first, its number behind the address.
            XenRecordKind::PvHypercall if record.id & 0xf == 0xd => {
                about(SubjectKind::XenHypercall, false, number(0)? & 0xf_ffff, 0)
            }
            XenRecordKind::PvHypercall => {
                let at = if record.id & WIDE != 0 { 2 } else { 1 };
                about(SubjectKind::XenHypercall, false, number(at)?, 0)
            }
            // Of whom, its words say: the domain, then the vCPU.
            XenRecordKind::Wake => word(1).map(|_| EventKind::VcpuWake { paused: false })?,
            XenRecordKind::Yield => EventKind::Yield,
            XenRecordKind::Sleep | XenRecordKind::Other => EventKind::Other,
        })
    }
}

/// Which vCPUs are paused: those that were put to sleep, until they run again.
#[derive(Debug, Default)]
pub(super) struct Paused(FxHashSet<Vcpu>);

impl Paused {
    /// vCPUs at most; of further ones a pause looks like a wait for the device model.
    const MAX: usize = 1 << 16;

    /// `vcpu` is put to sleep.
    pub fn add(&mut self, vcpu: Vcpu) {
        if self.0.len() < Paused::MAX {
            self.0.insert(vcpu);
        }
    }

    /// Whether none is.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Tells a pause from another change to or from being offline, and the end of one from another wake-up.
    pub fn tell(&mut self, vcpu: Option<Vcpu>, kind: EventKind) -> EventKind {
        let Some(vcpu) = vcpu.filter(|vcpu| self.0.contains(vcpu)) else { return kind };
        let (from, to) = match kind {
            EventKind::RunState { from, to } => (from, to),
            EventKind::VcpuWake { .. } => return EventKind::VcpuWake { paused: true },
            _ => return kind,
        };
        match (from, to) {
            (_, RunState::Offline) => EventKind::RunState { from, to: RunState::Paused },
            (RunState::Offline, _) => {
                self.0.remove(&vcpu);
                EventKind::RunState { from: RunState::Paused, to }
            }
            _ => {
                if to == RunState::Running {
                    self.0.remove(&vcpu);
                }
                kind
            }
        }
    }
}

fn state(number: u32) -> Option<RunState> {
    RunState::NUMBERED.get((number & 0xf) as usize).copied()
}

fn code(reason: u32, mode: XenMode) -> ExitCode {
    match mode {
        XenMode::Svm => ExitCode::new(CodeList::Svm, u64::from(reason)),
        XenMode::Vmx => ExitCode::new(CodeList::Vmx, u64::from(reason)),
    }
}

/// Whose a record says that it is.
#[inline]
pub(super) fn said(whose: RecordOwner, record: &Record) -> Option<Vcpu> {
    match whose {
        RecordOwner::Packed(at) => record.word(usize::from(at)).map(Vcpu::packed),
        RecordOwner::Pair(at) => Vcpu::pair(record, usize::from(at)),
        RecordOwner::Current | RecordOwner::Nobody => None,
    }
}

/// Changes who runs on the CPU to who does from this record on, if it says so.
#[inline]
pub(super) fn running_after(record: &Record, current: &mut Option<Vcpu>) {
    let packed = record.word(0).map(Vcpu::packed);
    match record.id {
        // From running to something else. One CPU may speak for the vCPUs of a whole core.
        _ if record.id & !0xf0 == 0x0002_1001 && *current != packed => {}
        _ if record.id & !0xf0 == 0x0002_1001 => *current = None,
        // From something else to running, running on.
        _ if record.id & !0xf00 == 0x0002_1001 || record.id == 0x0002_1002 => *current = packed,
        0x0002_800a => *current = Vcpu::pair(record, 2),
        0x0002_800f | 0x0002_8011 => *current = Vcpu::pair(record, 0),
        _ => {}
    }
}

/// Who ran on the CPU before this record, if it says so.
pub(super) fn running_before(record: &Record) -> Option<Vcpu> {
    match record.id {
        _ if record.id & !0xf0 == 0x0002_1001 => record.word(0).map(Vcpu::packed),
        0x0002_1002 => record.word(0).map(Vcpu::packed),
        0x0002_800a | 0x0002_800e | 0x0002_8011 => Vcpu::pair(record, 0),
        _ => None,
    }
}
