//! What a tracepoint is to a program that counts exits where they happen, and which bytes of its records that looks at.
//!
//! ```text
//! kvm_exit ─► CountRole::Exit[exit_reason, isa]     kvm_pio ─► CountRole::About{port, key: port, write: rw is not 0}
//! ```

use super::Decoder;
use super::decode::At;
use crate::tracepoints::TracepointMeaning;
use exitscope_model::SubjectKind;

/// Where a field is in a record, common fields included; no bytes if this format has no such field.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FieldLocation {
    /// Bytes from the start of the record.
    pub offset: usize,
    /// Bytes that it takes: 0, 1, 2, 4 or 8.
    pub size: usize,
}

/// When an access is a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteRule {
    /// Always, or never.
    Fixed(bool),
    /// If this field is not zero.
    NotZero(FieldLocation),
    /// If this field has this value.
    Is(FieldLocation, i32),
}

/// What a tracepoint is to a count of exits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CountRole {
    /// An exit begins. What its reason is decoded from.
    Exit([FieldLocation; 2]),
    /// An exit ends.
    Enter,
    /// `KVM_RUN` returns to user space: `reason` and `errno`.
    UserspaceExit([FieldLocation; 2]),
    /// `KVM_RUN` begins if this field is not zero (`kvm_fpu`).
    RunEnter(FieldLocation),
    /// What the exit is about.
    About {
        /// Kind of thing.
        kind: SubjectKind,
        /// The field with the subject's key.
        key: FieldLocation,
        /// Whether the guest wrote.
        write: WriteRule,
    },
    /// A halt is over.
    HaltEnd {
        /// How long it took, in nanoseconds.
        ns: FieldLocation,
        /// Whether the thread slept.
        waited: FieldLocation,
        /// Whether the wake-up was for something; before Linux 4.4 it does not say.
        valid: FieldLocation,
    },
    /// How long KVM polls from now on, and how long it has polled, in nanoseconds.
    HaltPoll([FieldLocation; 2]),
    /// A CPU goes from one thread to another.
    Switch {
        /// The thread that leaves it.
        prev: FieldLocation,
        /// Its state: bits 0 to 7 are zero if it could go on.
        state: FieldLocation,
        /// The thread that has it now.
        next: FieldLocation,
    },
    /// This thread is woken.
    Wakeup(FieldLocation),
}

impl CountRole {
    /// The same of fields that are elsewhere: `to` says where each is. `None` if it does not say so of one.
    pub fn moved(self, to: impl Fn(FieldLocation) -> Option<FieldLocation>) -> Option<CountRole> {
        let both = |[a, b]: [FieldLocation; 2]| Some([to(a)?, to(b)?]);
        Some(match self {
            CountRole::Exit(code) => CountRole::Exit(both(code)?),
            CountRole::Enter => CountRole::Enter,
            CountRole::UserspaceExit(code) => CountRole::UserspaceExit(both(code)?),
            CountRole::RunEnter(load) => CountRole::RunEnter(to(load)?),
            CountRole::About { kind, key, write } => {
                let write = match write {
                    WriteRule::Fixed(write) => WriteRule::Fixed(write),
                    WriteRule::NotZero(place) => WriteRule::NotZero(to(place)?),
                    WriteRule::Is(place, value) => WriteRule::Is(to(place)?, value),
                };
                CountRole::About { kind, key: to(key)?, write }
            }
            CountRole::HaltEnd { ns, waited, valid } => {
                CountRole::HaltEnd { ns: to(ns)?, waited: to(waited)?, valid: to(valid)? }
            }
            CountRole::HaltPoll(lengths) => CountRole::HaltPoll(both(lengths)?),
            CountRole::Switch { prev, state, next } => {
                CountRole::Switch { prev: to(prev)?, state: to(state)?, next: to(next)? }
            }
            CountRole::Wakeup(thread) => CountRole::Wakeup(to(thread)?),
        })
    }
}

impl Decoder {
    /// What this tracepoint is to a count of exits; `None` if nothing, or if its key has to be computed.
    pub fn role(&self) -> Option<CountRole> {
        let place = |n: usize| FieldLocation::of(self.fields[n]);
        let about = |kind, key, write| Some(CountRole::About { kind, key: place(key), write });
        match self.meaning {
            TracepointMeaning::ExitX86 | TracepointMeaning::ExitArm64 | TracepointMeaning::ExitCeded => {
                Some(CountRole::Exit([place(0), place(1)]))
            }
            TracepointMeaning::ExitOf(_) => Some(CountRole::Exit([place(0), FieldLocation::default()])),
            TracepointMeaning::Enter => Some(CountRole::Enter),
            TracepointMeaning::Userspace => Some(CountRole::UserspaceExit([place(0), place(1)])),
            TracepointMeaning::Fpu => Some(CountRole::RunEnter(place(0))),
            TracepointMeaning::Mmio => about(SubjectKind::Mmio, 2, WriteRule::Is(place(0), 2)),
            TracepointMeaning::Pio => about(SubjectKind::Port, 2, WriteRule::NotZero(place(0))),
            TracepointMeaning::Written(kind) => about(kind, 1, WriteRule::NotZero(place(0))),
            TracepointMeaning::Plain(kind) => about(kind, 0, WriteRule::Fixed(false)),
            TracepointMeaning::HostIrq => about(SubjectKind::HostIrq, 0, WriteRule::Fixed(false)),
            TracepointMeaning::Hypercall => about(SubjectKind::Hypercall, 0, WriteRule::Fixed(false)),
            // What of it is the register, whoever reads the counts knows.
            TracepointMeaning::TrappedSystemRegister => about(SubjectKind::SystemRegister, 0, WriteRule::Fixed(false)),
            TracepointMeaning::FastMmio => about(SubjectKind::Mmio, 0, WriteRule::Fixed(true)),
            TracepointMeaning::HaltEnd => Some(CountRole::HaltEnd { ns: place(0), waited: place(1), valid: place(2) }),
            TracepointMeaning::HaltPoll => Some(CountRole::HaltPoll([place(1), place(2)])),
            TracepointMeaning::Switch => Some(CountRole::Switch { prev: place(0), state: place(1), next: place(2) }),
            TracepointMeaning::Wakeup => Some(CountRole::Wakeup(place(0))),
            // What these are about has to be computed.
            TracepointMeaning::Refined(_)
            | TracepointMeaning::Privileged
            | TracepointMeaning::GhcbMsr
            | TracepointMeaning::S390Instruction
            | TracepointMeaning::SystemRegister => None,
            // These change no count.
            TracepointMeaning::KvmOut
            | TracepointMeaning::Syscall
            | TracepointMeaning::SyscallExit
            | TracepointMeaning::Emulate
            | TracepointMeaning::Nested
            | TracepointMeaning::Reflect
            | TracepointMeaning::KvmActivity(_)
            | TracepointMeaning::ApicvChange
            | TracepointMeaning::AvicIncompleteIpi
            | TracepointMeaning::Inject
            | TracepointMeaning::WokenPolling
            | TracepointMeaning::GuestPollLimit
            | TracepointMeaning::PleWindow
            | TracepointMeaning::Wfx
            | TracepointMeaning::VcpuHint
            | TracepointMeaning::RunCore
            | TracepointMeaning::Other => None,
        }
    }

    /// Where its records name the virtual CPU.
    pub fn vcpu_place(&self) -> FieldLocation {
        FieldLocation::of(self.vcpu)
    }
}

impl FieldLocation {
    fn of(at: At) -> FieldLocation {
        FieldLocation { offset: at.offset as usize, size: at.size.into() }
    }
}
