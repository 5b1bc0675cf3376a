//! A run's exits as events, like those of a recording: what `--trace` keeps and `exitscope report` reads.
//!
//! The lab sees KVM from user space: KVM_RUN is entered, and comes back with a reason. What KVM answers itself it does
//! not see; a recording by perf does. What the lab's dispatcher does is as a host's scheduler would tell it: its threads are
//! the CPUs, a doorbell that yields is the diagnose that it stands for.

use crate::abi::{BELLS, MAX_VCPUS, bell};
use crate::{KvmExit, LabVcpu};
use exitscope_model::{Event, EventKind, EventNames, NameId, PortAccessForm, Subject, SubjectKind};
use exitscope_units::{Moment, PcpuId, Tid, VcpuId, VmId};

/// Events that a vCPU keeps at most; more are counted as lost.
pub const MAX_EVENTS: usize = 4_000_000;

const TRACEPOINTS: [&str; 7] = [
    "syscalls:sys_enter_ioctl",
    "kvm:kvm_userspace_exit",
    "kvm:kvm_pio",
    "kvm:kvm_mmio",
    "kvm:kvm_s390_handle_diag",
    "sched:sched_switch",
    "sched:sched_wakeup",
];
const ENTER: NameId = NameId(0);
const USER_EXIT: NameId = NameId(1);
const PIO: NameId = NameId(2);
const MMIO: NameId = NameId(3);
const DIAG: NameId = NameId(4);
const SWITCH: NameId = NameId(5);
const WAKEUP: NameId = NameId(6);

/// The names of the lab's events; an event's name is the position in this list.
pub fn event_names() -> EventNames {
    let mut names = EventNames::default();
    for name in TRACEPOINTS {
        names.intern(name);
    }
    names
}

/// The events of one vCPU.
#[derive(Clone, Debug, Default)]
pub struct Events {
    events: Vec<Event>,
    lost: u64,
    /// A read whose answer is told after the next entry, as KVM does.
    read: Option<(Subject, NameId)>,
    /// Which of the dispatcher's threads runs the vCPU: they are its CPUs. Without one, the host's CPUs are.
    thread: Option<u32>,
}

impl Events {
    /// The dispatcher's thread `thread` runs the vCPU from `at` on; it had been queued since `woken`, if it slept before.
    /// `idle`: the thread ran no other before.
    pub fn runs(&mut self, vcpu: &LabVcpu, at: u64, thread: u32, woken: Option<u64>, idle: bool) {
        self.thread = Some(thread);
        let tid = thread_of(vcpu, vcpu.index());
        if let Some(woken) = woken {
            self.push(vcpu, woken, WAKEUP, EventKind::Wakeup { tid });
        }
        if idle {
            self.push(vcpu, at, SWITCH, EventKind::switch(Tid(0), true, tid));
        }
    }

    /// Its thread runs `next` from `at` on, or nobody; `sleeps`: the vCPU has nothing to do.
    pub fn leaves(&mut self, vcpu: &LabVcpu, at: u64, sleeps: bool, next: Option<u32>) {
        let next = next.map_or(Tid(0), |next| thread_of(vcpu, next));
        self.push(vcpu, at, SWITCH, EventKind::switch(thread_of(vcpu, vcpu.index()), sleeps, next));
    }

    /// The vCPU enters KVM_RUN at `at` (nanoseconds of CLOCK_MONOTONIC).
    pub fn enter(&mut self, vcpu: &LabVcpu, at: u64, answer: u64) {
        self.push(vcpu, at, ENTER, EventKind::RunEnter);
        if let Some((detail, name)) = self.read.take() {
            self.push(vcpu, at, name, EventKind::Detail(Subject { value: answer, ..detail }));
        }
    }

    /// It came out at `at`.
    pub fn exit(&mut self, vcpu: &LabVcpu, at: u64, exit: &KvmExit) {
        const IO: u32 = 2;
        const HLT: u32 = 5;
        const MMIO_EXIT: u32 = 6;
        const INTR: u32 = 10;
        const RDMSR: u32 = 29;
        const WRMSR: u32 = 30;
        let port = |port: u16, size: u8, value: u64, write: bool| {
            (
                Subject {
                    kind: SubjectKind::Port,
                    write,
                    form: PortAccessForm::Unknown,
                    size: size.into(),
                    key: port.into(),
                    value,
                },
                PIO,
            )
        };
        let mmio = |key: u64, size: u8, value: u64, write: bool| {
            (
                Subject {
                    kind: SubjectKind::Mmio,
                    write,
                    form: PortAccessForm::Unknown,
                    size: size.into(),
                    key,
                    value,
                },
                MMIO,
            )
        };
        let (reason, errno, detail) = match *exit {
            KvmExit::PortIn { port: number, size } => (IO, 0, Some(port(number, size, 0, false))),
            KvmExit::PortOut { port: number, size, value } => (IO, 0, Some(port(number, size, value.into(), true))),
            KvmExit::MmioRead { address, size } => (MMIO_EXIT, 0, Some(mmio(address, size, 0, false))),
            KvmExit::MmioWrite { address, size, value } => (MMIO_EXIT, 0, Some(mmio(address, size, value, true))),
            // A doorbell that halts is a halt, as is the end of a program: its time is no cost.
            KvmExit::Bell { bell: bell::HALT | bell::SLEEP | bell::DONE, .. } | KvmExit::Halt => (HLT, 0, None),
            // As on s390, where the call is all that the event says.
            KvmExit::Bell { bell: bell::YIELD, .. } => (IO, 0, Some(diagnose(0x44))),
            KvmExit::Bell { bell: bell::YIELD_TO, .. } => (IO, 0, Some(diagnose(0x9c))),
            KvmExit::Bell { bell, value } => (IO, 0, Some(port(BELLS + bell, 4, value.into(), bell != bell::SENSE))),
            KvmExit::Kicked => (INTR, -libc::EINTR, None),
            KvmExit::Msr { written: None, .. } => (RDMSR, 0, None),
            KvmExit::Msr { written: Some(_), .. } => (WRMSR, 0, None),
        };
        if let Some((detail, name)) = detail {
            match detail.write || name == DIAG {
                true => self.push(vcpu, at, name, EventKind::Detail(detail)),
                false => self.read = Some((detail, name)),
            }
        }
        self.push(vcpu, at, USER_EXIT, EventKind::UserspaceExit { reason, errno });
    }

    fn push(&mut self, vcpu: &LabVcpu, at: u64, name: NameId, kind: EventKind) {
        if self.events.len() >= MAX_EVENTS {
            self.lost += 1;
            return;
        }
        let event = Event {
            at: Moment::from_nanos(at),
            // A number of its own for each vCPU, whichever thread runs it: it is the vCPU's story that is told. So for each VM.
            tid: thread_of(vcpu, vcpu.index()),
            vm: VmId(std::process::id() + vcpu.number() - vcpu.index()),
            vcpu: VcpuId(vcpu.index()),
            cpu: self.thread.map_or_else(this_cpu, PcpuId),
            name,
            kind,
        };
        self.events.push(event);
    }

    /// The events of several vCPUs in the order of time; what did not fit is a loss at the end.
    pub fn merge(parts: Vec<Events>) -> Vec<Event> {
        let lost: u64 = parts.iter().map(|part| part.lost).sum();
        let mut all: Vec<Event> = parts.into_iter().flat_map(|part| part.events).collect();
        all.sort_by_key(|event| event.at);
        if lost > 0
            && let Some(last) = all.last()
        {
            all.push(Event::lost(last.at, last.cpu, lost));
        }
        all
    }
}

/// The CPU that runs us.
fn this_cpu() -> PcpuId {
    // SAFETY: asks for a number; a kernel that does not say gives -1, which in perf.data is no CPU.
    PcpuId(unsafe { libc::sched_getcpu() } as u32)
}

fn diagnose(key: u64) -> (Subject, NameId) {
    (Subject { kind: SubjectKind::Diag, write: false, form: PortAccessForm::Unknown, size: 0, key, value: 0 }, DIAG)
}

/// What stands for the thread of vCPU `index` of the same VM.
fn thread_of(vcpu: &LabVcpu, index: u32) -> Tid {
    Tid(std::process::id() + MAX_VCPUS as u32 + vcpu.number() - vcpu.index() + index)
}
