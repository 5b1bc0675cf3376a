//! Knobs: one row for each tunable number of a policy, under the kernel's own name.
//!
//! ```text
//!  --set guest_halt_poll_ns=80us ──► Knob::parse ──► Params::set ──► a policy reads the field
//!                                       │
//!           docs, the guest's page, advice: loop over the rows, Params::get ──► Knob::text
//! ```
//!
//! A policy declares its tunables once, with `params!`; struct, defaults, rows, `get` and `set` come from there.

use core::fmt;
use exitscope_units::Nanos;

/// What a knob's number counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KnobUnit {
    /// Nanoseconds.
    Nanos,
    /// How many of something.
    Count,
    /// A multiplier or a divisor.
    Factor,
    /// In a hundred.
    Percent,
    /// Times a second.
    Hertz,
    /// Ticks of the time stamp counter.
    Cycles,
    /// Yes or no: 1 or 0.
    Bool,
    /// One of these words; the number is the position in the list.
    Choice(&'static [&'static str]),
}

/// Where a running system has a knob.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KnobLocation {
    /// A parameter of a kernel module: `/sys/module/<module>/parameters/<name>`, and `<module>.<name>=` at boot.
    Module(&'static str),
    /// The same, but only until the module is loaded: its file can be read and not written.
    ModuleAtLoad(&'static str),
    /// A parameter of code that a kernel is built with or lacks, and that no module brings: the same file, the same at boot.
    BuiltIn(&'static str),
    /// A file that is read and written as text.
    File(&'static str),
    /// A file that is read and written as text, and the same at boot, as `<name>=`.
    FileAndBoot(&'static str, &'static str),
    /// An ioctl or a capability of KVM's.
    Ioctl(&'static str),
    /// Chosen when the software was built or written: no switch in a running system, but one here.
    Design,
    /// A property of the machine.
    Machine,
}

/// On which machines something asks a knob.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KnobMachines {
    /// All.
    All,
    /// Those of one architecture, by the name of its folder in the kernel's `arch/`.
    Of(&'static str),
}

impl KnobMachines {
    /// Whether those of this architecture are among them.
    pub fn has(self, kernel_name: &str) -> bool {
        self.other_than(kernel_name).is_none()
    }

    /// The architecture that has it, if it is not this one.
    pub fn other_than(self, kernel_name: &str) -> Option<&'static str> {
        match self {
            KnobMachines::All => None,
            KnobMachines::Of(name) => (name != kernel_name).then_some(name),
        }
    }
}

/// One tunable number of a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Knob {
    /// The kernel's name for it, or ours where the kernel has none.
    pub name: &'static str,
    /// What the number counts.
    pub unit: KnobUnit,
    /// The kernel's default.
    pub default: u64,
    /// The smallest value that makes sense.
    pub min: u64,
    /// The largest value.
    pub max: u64,
    /// Where a running system has it.
    pub location: KnobLocation,
    /// On which machines something asks it.
    pub machines: KnobMachines,
    /// What it does, in a sentence.
    pub about: &'static str,
}

/// Why a knob cannot be set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KnobError {
    /// No policy has a knob of that name.
    NoSuchKnob,
    /// The text is not a value of the knob's unit.
    NotAValue {
        /// The knob that was to be set.
        knob: &'static Knob,
    },
    /// The number is out of the knob's bounds.
    OutOfBounds {
        /// The knob that was to be set.
        knob: &'static Knob,
        /// The number.
        value: u64,
    },
}

impl Knob {
    /// Reads a value as people and the kernel write it: `80us` or `80000` for a time, `Y` or `true` for a switch, the
    /// word for a choice, otherwise a number.
    pub fn parse(&'static self, text: &str) -> Result<u64, KnobError> {
        let text = text.trim();
        let number = text.parse::<u64>().ok();
        let value = match self.unit {
            KnobUnit::Nanos => number.or_else(|| Nanos::parse(text).map(|nanos| nanos.0)),
            KnobUnit::Bool => switch(text).map(u64::from),
            KnobUnit::Choice(words) => {
                words.iter().position(|word| word.eq_ignore_ascii_case(text)).map(|position| position as u64)
            }
            KnobUnit::Count | KnobUnit::Factor | KnobUnit::Percent | KnobUnit::Hertz | KnobUnit::Cycles => number,
        };
        self.check(value.ok_or(KnobError::NotAValue { knob: self })?)
    }

    /// The value, if it is within the bounds.
    pub fn check(&'static self, value: u64) -> Result<u64, KnobError> {
        match self.min <= value && value <= self.max {
            true => Ok(value),
            false => Err(KnobError::OutOfBounds { knob: self, value }),
        }
    }

    /// A value in the kernel's spelling: what is written into its file or behind its name at boot.
    pub fn text(&self, value: u64) -> KnobText {
        KnobText { unit: self.unit, value }
    }

    /// The file that shows it on a running system, if there is one.
    pub fn file(&self) -> Option<KnobFile> {
        let is_file = !matches!(self.location, KnobLocation::Ioctl(_) | KnobLocation::Design | KnobLocation::Machine);
        is_file.then_some(KnobFile { place: self.location, name: self.name })
    }

    /// Whether writing its file changes it on a running system.
    pub fn is_writable(&self) -> bool {
        self.file().is_some() && !matches!(self.location, KnobLocation::ModuleAtLoad(_))
    }

    /// The words for a kernel's command line that set it, if it can be set there.
    pub fn boot(&self, value: u64) -> Option<KnobBoot> {
        let is_at_boot = match self.location {
            KnobLocation::Module(_)
            | KnobLocation::ModuleAtLoad(_)
            | KnobLocation::BuiltIn(_)
            | KnobLocation::FileAndBoot(..) => true,
            KnobLocation::File(_) | KnobLocation::Ioctl(_) | KnobLocation::Design | KnobLocation::Machine => false,
        };
        is_at_boot.then(|| KnobBoot { place: self.location, name: self.name, text: self.text(value) })
    }
}

/// A yes or a no, as the kernel's `kstrtobool` and people write them.
fn switch(text: &str) -> Option<bool> {
    let is = |words: [&str; 5]| words.iter().any(|word| word.eq_ignore_ascii_case(text));
    match () {
        _ if is(["y", "yes", "1", "true", "on"]) => Some(true),
        _ if is(["n", "no", "0", "false", "off"]) => Some(false),
        _ => None,
    }
}

/// A knob's value in the kernel's spelling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KnobText {
    unit: KnobUnit,
    value: u64,
}

impl fmt::Display for KnobText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.unit {
            KnobUnit::Bool => f.write_str(if self.value == 0 { "N" } else { "Y" }),
            KnobUnit::Choice(words) => f.write_str(words.get(self.value as usize).copied().unwrap_or("?")),
            _ => write!(f, "{}", self.value),
        }
    }
}

/// The path of a knob's file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KnobFile {
    place: KnobLocation,
    name: &'static str,
}

impl fmt::Display for KnobFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.place {
            KnobLocation::Module(module) | KnobLocation::ModuleAtLoad(module) | KnobLocation::BuiltIn(module) => {
                write!(f, "/sys/module/{module}/parameters/{}", self.name)
            }
            KnobLocation::File(path) | KnobLocation::FileAndBoot(path, _) => f.write_str(path),
            KnobLocation::Ioctl(_) | KnobLocation::Design | KnobLocation::Machine => Ok(()),
        }
    }
}

/// A knob on a kernel's command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KnobBoot {
    place: KnobLocation,
    name: &'static str,
    text: KnobText,
}

impl fmt::Display for KnobBoot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.place {
            KnobLocation::Module(module) | KnobLocation::ModuleAtLoad(module) | KnobLocation::BuiltIn(module) => {
                write!(f, "{module}.{}={}", self.name, self.text)
            }
            KnobLocation::FileAndBoot(_, word) => write!(f, "{word}={}", self.text),
            KnobLocation::File(_) | KnobLocation::Ioctl(_) | KnobLocation::Design | KnobLocation::Machine => Ok(()),
        }
    }
}

impl fmt::Display for KnobUnit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            KnobUnit::Nanos => "ns",
            KnobUnit::Count => "count",
            KnobUnit::Factor => "factor",
            KnobUnit::Percent => "%",
            KnobUnit::Hertz => "1/s",
            KnobUnit::Cycles => "cycles",
            KnobUnit::Bool => "Y or N",
            KnobUnit::Choice(words) => {
                for (at, word) in words.iter().enumerate() {
                    write!(f, "{}{word}", if at == 0 { "" } else { ", " })?;
                }
                return Ok(());
            }
        })
    }
}

impl fmt::Display for KnobMachines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            KnobMachines::All => "all",
            KnobMachines::Of(name) => name,
        })
    }
}

impl fmt::Display for KnobLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KnobLocation::Module(module) => write!(f, "module {module}"),
            KnobLocation::ModuleAtLoad(module) => write!(f, "module {module}, when it is loaded"),
            KnobLocation::BuiltIn(part) => write!(f, "{part}, built into the kernel"),
            KnobLocation::File(path) => f.write_str(path),
            KnobLocation::FileAndBoot(path, word) => write!(f, "{path}, {word}= at boot"),
            KnobLocation::Ioctl(name) => f.write_str(name),
            KnobLocation::Design => f.write_str("built in"),
            KnobLocation::Machine => f.write_str("the machine"),
        }
    }
}

impl fmt::Display for KnobError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let knob = match self {
            KnobError::NoSuchKnob => return f.write_str("no policy has a knob of that name"),
            KnobError::NotAValue { knob } => knob,
            KnobError::OutOfBounds { knob, value } => {
                write!(f, "{value} is out of bounds: ")?;
                knob
            }
        };
        let Knob { name, unit, min, max, .. } = knob;
        match unit {
            KnobUnit::Bool => write!(f, "{name} is Y or N"),
            KnobUnit::Choice(_) => write!(f, "{name} is one of {unit}"),
            KnobUnit::Nanos => write!(f, "{name} is a time from {min} to {max} ns, such as {} or 80us", knob.default),
            _ => write!(f, "{name} is a whole number from {min} to {max} ({unit})"),
        }
    }
}

impl core::error::Error for KnobError {}

/// A type that a knob's number is stored as.
pub(crate) trait KnobType: Copy {
    fn from_knob(value: u64) -> Self;
    fn to_knob(self) -> u64;
}

impl KnobType for u32 {
    fn from_knob(value: u64) -> u32 {
        value as u32 // within the row's bounds, which a test holds to be within the type's
    }
    fn to_knob(self) -> u64 {
        u64::from(self)
    }
}

impl KnobType for Nanos {
    fn from_knob(value: u64) -> Nanos {
        Nanos(value)
    }
    fn to_knob(self) -> u64 {
        self.0
    }
}

impl KnobType for bool {
    fn from_knob(value: u64) -> bool {
        value != 0
    }
    fn to_knob(self) -> u64 {
        u64::from(self)
    }
}

/// Declares a policy's tunables, one line each: field, type, unit, default, bounds, place, machines, and what it does. Makes the
/// struct `Params` with its defaults, its rows `KNOBS`, and `get` and `set` by name.
macro_rules! params {
    ($(#[$doc:meta])* $($name:ident: $type:ty, $unit:expr, $default:expr, $min:expr => $max:expr, $place:expr, $machines:expr, $about:expr;)*) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct Params {
            $(#[doc = $about] pub $name: $type,)*
        }

        impl Params {
            /// The rows of these tunables, in the order of the fields.
            pub const KNOBS: &'static [$crate::Knob] = &[$($crate::Knob {
                name: stringify!($name),
                unit: $unit,
                default: $default as u64,
                min: $min as u64,
                max: $max as u64,
                location: $place,
                machines: $machines,
                about: $about,
            }),*];

            /// The value of the knob of this name.
            pub fn get(&self, name: &str) -> Option<u64> {
                match name {
                    $(stringify!($name) => Some($crate::knob::KnobType::to_knob(self.$name)),)*
                    _ => None,
                }
            }

            /// Sets the knob of this name, if the value is within its bounds.
            pub fn set(&mut self, name: &str, value: u64) -> Result<(), $crate::KnobError> {
                let knob = Self::KNOBS.iter().find(|knob| knob.name == name);
                let value = knob.ok_or($crate::KnobError::NoSuchKnob)?.check(value)?;
                match name {
                    $(stringify!($name) => self.$name = $crate::knob::KnobType::from_knob(value),)*
                    _ => {}
                }
                Ok(())
            }
        }

        impl Default for Params {
            fn default() -> Params {
                Params { $($name: $crate::knob::KnobType::from_knob($default as u64)),* }
            }
        }
    };
}
pub(crate) use params;

/// Declares an enum that a knob chooses among; the words are the knob's, in the order of the variants.
macro_rules! choice {
    ($(#[$doc:meta])* $type:ident { $($(#[$variant_doc:meta])* $variant:ident = $word:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $type {
            $($(#[$variant_doc])* $variant,)*
        }

        impl $type {
            /// Every one, in the order of the knob's words.
            pub const ALL: &'static [$type] = &[$($type::$variant),*];
            /// The knob's words.
            pub const WORDS: &'static [&'static str] = &[$($word),*];
        }

        impl $crate::knob::KnobType for $type {
            fn from_knob(value: u64) -> $type {
                // `set` let through only what the row allows, and the row is made of WORDS.
                Self::ALL[(value as usize).min(Self::ALL.len() - 1)]
            }
            fn to_knob(self) -> u64 {
                self as u64
            }
        }
    };
}
pub(crate) use choice;

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::string::ToString;

    static TIME: Knob = Knob {
        name: "some_time",
        unit: KnobUnit::Nanos,
        default: 200_000,
        min: 10,
        max: 1_000_000,
        location: KnobLocation::Module("haltpoll"),
        machines: KnobMachines::Of("s390"),
        about: "",
    };
    static SWITCH: Knob = Knob { name: "some_switch", unit: KnobUnit::Bool, default: 1, min: 0, max: 1, ..TIME };
    static WORD: Knob =
        Knob { name: "some_word", unit: KnobUnit::Choice(&["big", "split"]), default: 0, min: 0, max: 1, ..TIME };
    static COUNT: Knob = Knob { name: "some_count", unit: KnobUnit::Count, default: 3, min: 0, max: 9, ..TIME };

    #[test]
    fn values_are_read_as_people_and_the_kernel_write_them() {
        for (knob, text, value) in [
            (&TIME, "80us", 80_000),
            (&TIME, " 200000 ", 200_000),
            (&TIME, "1ms", 1_000_000),
            (&TIME, "12.5us", 12_500),
            (&SWITCH, "Y", 1),
            (&SWITCH, "n", 0),
            (&SWITCH, "true", 1),
            (&SWITCH, "False", 0),
            (&WORD, "split", 1),
            (&WORD, "BIG", 0),
            (&COUNT, "9", 9),
        ] {
            assert_eq!(knob.parse(text), Ok(value), "{} = {text}", knob.name);
        }
    }

    #[test]
    fn errors_name_the_knob_its_bounds_and_its_unit() {
        for (knob, text, says) in [
            (&TIME, "soon", "some_time is a time from 10 to 1000000 ns, such as 200000 or 80us"),
            (
                &TIME,
                "2ms",
                "2000000 is out of bounds: some_time is a time from 10 to 1000000 ns, such as 200000 or 80us",
            ),
            (&TIME, "-1", "some_time is a time from 10 to 1000000 ns, such as 200000 or 80us"),
            (&SWITCH, "2", "some_switch is Y or N"),
            (&WORD, "", "some_word is one of big, split"),
            (&COUNT, "10", "10 is out of bounds: some_count is a whole number from 0 to 9 (count)"),
            (&COUNT, "3us", "some_count is a whole number from 0 to 9 (count)"),
        ] {
            assert_eq!(knob.parse(text).unwrap_err().to_string(), says, "{} = {text}", knob.name);
        }
    }

    #[test]
    fn a_place_says_where_a_person_finds_the_knob() {
        for (place, says) in [
            (KnobLocation::Module("kvm"), "module kvm"),
            (KnobLocation::ModuleAtLoad("kvm_amd"), "module kvm_amd, when it is loaded"),
            (KnobLocation::BuiltIn("haltpoll"), "haltpoll, built into the kernel"),
            (
                KnobLocation::File("/sys/devices/system/cpu/subcores_per_core"),
                "/sys/devices/system/cpu/subcores_per_core",
            ),
            (
                KnobLocation::FileAndBoot("/proc/sys/kernel/spin_retry", "spin_retry"),
                "/proc/sys/kernel/spin_retry, spin_retry= at boot",
            ),
            (KnobLocation::Ioctl("KVM_CAP_PPC_SMT"), "KVM_CAP_PPC_SMT"),
            (KnobLocation::Design, "built in"),
            (KnobLocation::Machine, "the machine"),
        ] {
            assert_eq!(place.to_string(), says);
        }
    }

    #[test]
    fn a_knob_is_asked_on_all_machines_or_on_those_of_one_architecture() {
        assert!(KnobMachines::All.has("x86") && TIME.machines.has("s390") && !TIME.machines.has("x86"));
    }

    #[test]
    fn the_kernel_is_told_in_its_own_spelling() {
        assert_eq!(TIME.file().unwrap().to_string(), "/sys/module/haltpoll/parameters/some_time");
        assert_eq!(TIME.boot(80_000).unwrap().to_string(), "haltpoll.some_time=80000");
        assert_eq!(SWITCH.text(1).to_string(), "Y");
        let sysctl = Knob { location: KnobLocation::FileAndBoot("/proc/sys/kernel/spin_retry", "spin_retry"), ..COUNT };
        assert_eq!(sysctl.file().unwrap().to_string(), "/proc/sys/kernel/spin_retry");
        assert_eq!(sysctl.boot(7).unwrap().to_string(), "spin_retry=7");
        let loaded = Knob { location: KnobLocation::ModuleAtLoad("kvm_amd"), ..COUNT };
        assert_eq!(loaded.file().unwrap().to_string(), "/sys/module/kvm_amd/parameters/some_count");
        assert!(!loaded.is_writable() && loaded.boot(1).is_some() && sysctl.is_writable());
        let built_in = Knob { location: KnobLocation::BuiltIn("haltpoll"), ..COUNT };
        assert_eq!(built_in.file().unwrap().to_string(), "/sys/module/haltpoll/parameters/some_count");
        assert_eq!(built_in.boot(7).unwrap().to_string(), "haltpoll.some_count=7");
        assert!(built_in.is_writable());
        let design = Knob { location: KnobLocation::Design, ..COUNT };
        assert_eq!((design.file(), design.boot(1), design.is_writable()), (None, None, false));
    }
}
