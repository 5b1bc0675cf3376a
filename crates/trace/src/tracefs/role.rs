//! What a tracepoint is to a program that counts exits where they happen, and which bytes of its records that looks at.
//!
//! ```text
//! kvm_exit ─► Exit{code: exit_reason, isa}     kvm_pio ─► About{port, key: port, write: rw is not 0}
//! ```

use super::Decoder;
use super::decode::At;
use crate::tracepoints::Meaning;
use exitscope_model::DetailKind;

/// Where a field is in a record, common fields included; no bytes if this format has no such field.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// Bytes from the start of the record.
    pub offset: usize,
    /// Bytes that it takes: 0, 1, 2, 4 or 8.
    pub size: usize,
}

/// When an access is a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Write {
    /// Always, or never.
    Fixed(bool),
    /// If this field is not zero.
    NotZero(Place),
    /// If this field has this value.
    Is(Place, i32),
}

/// What a tracepoint is to a count of exits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// An exit begins. What its reason is decoded from.
    Exit([Place; 2]),
    /// An exit ends.
    Enter,
    /// `KVM_RUN` returns to user space: `reason` and `errno`.
    UserspaceExit([Place; 2]),
    /// `KVM_RUN` begins if this field is not zero (`kvm_fpu`).
    RunEnter(Place),
    /// What the exit is about.
    About {
        /// Kind of thing.
        kind: DetailKind,
        /// The field with the subject's key.
        key: Place,
        /// Whether the guest wrote.
        write: Write,
    },
    /// A halt is over.
    HaltEnd {
        /// How long it took, in nanoseconds.
        ns: Place,
        /// Whether the thread slept.
        waited: Place,
        /// Whether the wake-up was for something; before Linux 4.4 it does not say.
        valid: Place,
    },
    /// How long KVM polls from now on, and how long it has polled, in nanoseconds.
    HaltPoll([Place; 2]),
    /// A CPU goes from one thread to another.
    Switch {
        /// The thread that leaves it.
        prev: Place,
        /// Its state: bits 0 to 7 are zero if it could go on.
        state: Place,
        /// The thread that has it now.
        next: Place,
    },
    /// This thread is woken.
    Wakeup(Place),
}

impl Role {
    /// The same of fields that are elsewhere: `to` says where each is. `None` if it does not say so of one.
    pub fn moved(self, to: impl Fn(Place) -> Option<Place>) -> Option<Role> {
        let both = |[a, b]: [Place; 2]| Some([to(a)?, to(b)?]);
        Some(match self {
            Role::Exit(code) => Role::Exit(both(code)?),
            Role::Enter => Role::Enter,
            Role::UserspaceExit(code) => Role::UserspaceExit(both(code)?),
            Role::RunEnter(load) => Role::RunEnter(to(load)?),
            Role::About { kind, key, write } => {
                let write = match write {
                    Write::Fixed(write) => Write::Fixed(write),
                    Write::NotZero(place) => Write::NotZero(to(place)?),
                    Write::Is(place, value) => Write::Is(to(place)?, value),
                };
                Role::About { kind, key: to(key)?, write }
            }
            Role::HaltEnd { ns, waited, valid } => {
                Role::HaltEnd { ns: to(ns)?, waited: to(waited)?, valid: to(valid)? }
            }
            Role::HaltPoll(lengths) => Role::HaltPoll(both(lengths)?),
            Role::Switch { prev, state, next } => Role::Switch { prev: to(prev)?, state: to(state)?, next: to(next)? },
            Role::Wakeup(thread) => Role::Wakeup(to(thread)?),
        })
    }
}

impl Decoder {
    /// What this tracepoint is to a count of exits; `None` if nothing, or if its key has to be computed.
    pub fn role(&self) -> Option<Role> {
        let place = |n: usize| Place::of(self.fields[n]);
        let about = |kind, key, write| Some(Role::About { kind, key: place(key), write });
        match self.meaning {
            Meaning::ExitX86 | Meaning::ExitArm64 | Meaning::ExitCeded => Some(Role::Exit([place(0), place(1)])),
            Meaning::ExitOf(_) => Some(Role::Exit([place(0), Place::default()])),
            Meaning::Enter => Some(Role::Enter),
            Meaning::Userspace => Some(Role::UserspaceExit([place(0), place(1)])),
            Meaning::Fpu => Some(Role::RunEnter(place(0))),
            Meaning::Mmio => about(DetailKind::Mmio, 2, Write::Is(place(0), 2)),
            Meaning::Pio => about(DetailKind::Port, 2, Write::NotZero(place(0))),
            Meaning::Written(kind) => about(kind, 1, Write::NotZero(place(0))),
            Meaning::Plain(kind) => about(kind, 0, Write::Fixed(false)),
            Meaning::Hypercall => about(DetailKind::Hypercall, 0, Write::Fixed(false)),
            // What of it is the register, whoever reads the counts knows.
            Meaning::TrappedSystemRegister => about(DetailKind::SystemRegister, 0, Write::Fixed(false)),
            Meaning::FastMmio => about(DetailKind::Mmio, 0, Write::Fixed(true)),
            Meaning::HaltEnd => Some(Role::HaltEnd { ns: place(0), waited: place(1), valid: place(2) }),
            Meaning::HaltPoll => Some(Role::HaltPoll([place(1), place(2)])),
            Meaning::Switch => Some(Role::Switch { prev: place(0), state: place(1), next: place(2) }),
            Meaning::Wakeup => Some(Role::Wakeup(place(0))),
            _ => None,
        }
    }

    /// Where its records name the virtual CPU.
    pub fn vcpu_place(&self) -> Place {
        Place::of(self.vcpu)
    }
}

impl Place {
    fn of(at: At) -> Place {
        Place { offset: at.offset as usize, size: at.size.into() }
    }
}
