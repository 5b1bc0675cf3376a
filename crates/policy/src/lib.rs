//! The mechanisms that decide when a vCPU polls, yields, gangs and exits, each written once as a pure state machine.
//!
//! ```text
//!                                              ┌─ guest_halt_poll   poll before halting, in the guest
//!   replay over a trace ─┐                     ├─ host_halt_poll    poll before blocking, in the host
//!   simulator ───────────┼─► step(time, …) ──► ├─ yielding          whom a vCPU that spins lets run
//!   a guest's own code ──┘    decision ◄────── ├─ vcore             which hardware threads leave together
//!                                              ├─ port_path         which way a port access takes
//!                                              └─ exit_path         which phases an exit has
//! ```
//!
//! Time is an argument. Nothing here has a clock, a thread, a heap, a float or randomness, so that the same code runs in
//! a bare guest and gives the same answers everywhere. What a step costs is the caller's to know.
//!
//! Every tunable number is a [`Knob`]: one row, under the kernel's own name.
#![no_std]

mod bounded_list;
pub mod exit_path;
pub mod guest_halt_poll;
pub mod host_halt_poll;
mod knob;
mod poll_adjustment;
pub mod port_path;
pub mod vcore;
pub mod yielding;

pub use bounded_list::BoundedList;
pub use knob::{Knob, KnobBoot, KnobError, KnobFile, KnobLocation, KnobMachines, KnobText, KnobUnit};

/// Lists the policies: makes `Policies`, a field each, and all that goes through every one of them.
macro_rules! policies {
    ($($(#[$doc:meta])* $policy:ident,)*) => {
        /// The settings of all policies.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Policies {
            $($(#[$doc])* pub $policy: $policy::Params,)*
        }

        /// Each policy's name and the rows of its knobs.
        pub const POLICIES: &[(&str, &[Knob])] = &[$((stringify!($policy), $policy::Params::KNOBS),)*];

        impl Policies {
            /// The value of the knob of this name, of whichever policy.
            pub fn get(&self, name: &str) -> Option<u64> {
                None$(.or_else(|| self.$policy.get(name)))*
            }

            /// Sets the knob of this name, if the value is within its bounds.
            pub fn set(&mut self, name: &str, value: u64) -> Result<(), KnobError> {
                $(if self.$policy.get(name).is_some() {
                    return self.$policy.set(name, value);
                })*
                Err(KnobError::NoSuchKnob)
            }
        }
    };
}

policies! {
    /// Guest halt polling.
    guest_halt_poll,
    /// Host halt polling.
    host_halt_poll,
    /// Directed yield and pause-loop exiting.
    yielding,
    /// Gangs of hardware threads.
    vcore,
    /// The way of a port access.
    port_path,
    /// The phases of an exit.
    exit_path,
}

/// The rows of all policies.
pub fn all_knobs() -> impl Iterator<Item = &'static Knob> {
    POLICIES.iter().flat_map(|(_, knobs)| *knobs)
}

/// The row of this name.
pub fn knob(name: &str) -> Option<&'static Knob> {
    all_knobs().find(|knob| knob.name == name)
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::collections::BTreeSet;
    use std::string::ToString;

    #[test]
    fn every_row_is_well_formed_and_its_name_is_its_own() {
        let mut names = BTreeSet::new();
        for knob in all_knobs() {
            assert!(names.insert(knob.name), "{} twice", knob.name);
            assert_eq!(knob.check(knob.default), Ok(knob.default), "{}", knob.name);
            assert!(knob.max <= u64::from(u32::MAX), "{}", knob.name);
            assert!(knob.about.len() > 10 && !knob.about.ends_with('.'), "{}", knob.name);
            match knob.unit {
                KnobUnit::Bool => assert_eq!((knob.min, knob.max), (0, 1), "{}", knob.name),
                KnobUnit::Choice(words) => {
                    assert_eq!((knob.min, knob.max), (0, words.len() as u64 - 1), "{}", knob.name)
                }
                _ => {}
            }
        }
    }

    #[test]
    fn every_knob_is_read_written_and_bounded_by_its_name() {
        for knob in all_knobs() {
            let mut policies = Policies::default();
            assert_eq!(policies.get(knob.name), Some(knob.default), "{}", knob.name);
            for value in [knob.min, knob.max, knob.default] {
                assert_eq!(knob.parse(&knob.text(value).to_string()), Ok(value), "{}", knob.name);
                assert_eq!(policies.set(knob.name, value), Ok(()), "{}", knob.name);
                assert_eq!(policies.get(knob.name), Some(value), "{}", knob.name);
            }
            let error = policies.set(knob.name, knob.max + 1).unwrap_err();
            assert_eq!(error, KnobError::OutOfBounds { knob, value: knob.max + 1 });
            assert_eq!(policies, Policies::default(), "{}", knob.name);
        }
        assert_eq!(Policies::default().set("no_such_knob", 1), Err(KnobError::NoSuchKnob));
        assert!(all_knobs().all(|row| knob(row.name).is_some_and(|found| core::ptr::eq(found, row))));
        assert_eq!(knob("no_such_knob"), None);
    }
}
