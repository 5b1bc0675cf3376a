//! Tests that cannot run on this machine, or not all of them: each says so here, and nowhere else.
//!
//! ```text
//! a part of the machine is missing ─► skip(part, reason) ─► "skipped: TEST: PART: REASON" ─► or_skip!: the test ends
//!                                                            └► the file that EXITSCOPE_SKIPS names, or stderr
//! ```
//!
//! `cargo xtask ci` names such a file for all tests, counts the lines by part, and fails if a part is there after all. web/test/skips.mjs
//! does the same for the tests of pages. Only tests and `xtask` use this crate.
//!
//! Must not depend on: any other crate.

use std::fmt::Display;
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

/// Names the file to which skips are appended. Cargo swallows what a test prints that passes.
pub const FILE_VARIABLE: &str = "EXITSCOPE_SKIPS";

/// What every line of a skip begins with.
const BEGIN: &str = "skipped: ";

/// What a test may need of the machine, with its name in lines, and the variable that must be 1 for the test to pass without it.
macro_rules! parts {
    ($($(#[$doc:meta])* $part:ident = $name:literal, $variable:expr;)*) => {
        /// What a test may need of the machine.
        #[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
        pub enum Part {
            $($(#[$doc])* $part,)*
        }

        impl Part {
            /// All of them.
            pub const ALL: &[Part] = &[$(Part::$part),*];

            /// Its name in the lines of skips.
            pub fn name(self) -> &'static str {
                match self {
                    $(Part::$part => $name,)*
                }
            }

            /// The environment variable that must be 1 for a test to pass without this part; `None` if it always may.
            pub fn variable(self) -> Option<&'static str> {
                match self {
                    $(Part::$part => $variable,)*
                }
            }
        }
    };
}

/// Set to 1, this allows the tests to pass on a machine where no guest can be run or watched.
const WITHOUT_KVM: Option<&str> = Some("EXITSCOPE_WITHOUT_KVM");

parts! {
    /// /dev/kvm can be opened.
    Kvm = "kvm", WITHOUT_KVM;
    /// Guests can be traced: KVM, its tracepoints, and the right to read them.
    Tracing = "tracing", WITHOUT_KVM;
    /// BPF programs can be loaded.
    Bpf = "bpf", WITHOUT_KVM;
    /// The kernel's types, as BTF.
    Btf = "btf", None;
    /// The program perf.
    Perf = "perf", WITHOUT_KVM;
    /// The program trace-cmd.
    TraceCmd = "trace-cmd", WITHOUT_KVM;
    /// The program tmux: terminals.
    Tmux = "tmux", WITHOUT_KVM;
    /// The program qemu-system-x86_64.
    Qemu = "qemu", WITHOUT_KVM;
    /// The program promtool, of Prometheus.
    Promtool = "promtool", None;
    /// The program systemd-analyze.
    SystemdAnalyze = "systemd-analyze", None;
    /// The user is root.
    Root = "root", None;
    /// File systems can be mounted.
    Mount = "mount", WITHOUT_KVM;
    /// Two CPUs on which this process may run.
    TwoCpus = "two-cpus", None;
    /// Parameters of the kernel's modules kvm or haltpoll can be written.
    KvmParameters = "kvm-parameters", None;
    /// Parameters of ksmd, the kernel's merging of equal pages, can be written.
    Ksm = "ksm", None;
    /// The front end of pages, which `make page` builds.
    FrontEnd = "front-end", None;
    /// The command has the feature `sql`.
    Sql = "sql", Some("EXITSCOPE_WITHOUT_SQL");
    /// Recordings that may not be published, in a folder beside the checkout.
    SharedTraces = "shared-traces", None;
    /// The toolchain has the address sanitizer.
    Sanitizer = "sanitizer", Some("EXITSCOPE_WITHOUT_SANITIZER");
    /// The emulated KVM host can be put together.
    Rig = "rig", Some("EXITSCOPE_WITHOUT_RIG");
}

/// A skip that has been reported: nothing but [`skip`] makes one.
#[derive(Debug)]
#[must_use]
pub struct Skipped(());

/// Reports that the current test ends, or leaves something out, because a part of the machine is missing.
///
/// # Panics
///
/// If no test may pass without this part: see [`Part::variable`].
pub fn skip(part: Part, reason: impl Display) -> Skipped {
    try_skip(part, reason).unwrap_or_else(|error| panic!("{error}"))
}

/// The same, unless the part is there.
///
/// # Errors
///
/// What [`or_skip!`] takes, if the part is missing.
pub fn need(is_there: bool, part: Part, reason: impl Display) -> Result<(), Skipped> {
    if is_there { Ok(()) } else { Err(skip(part, reason)) }
}

/// The same for what is no test.
///
/// # Errors
///
/// What is missing and which variable allows that, if it is not set.
pub fn try_skip(part: Part, reason: impl Display) -> Result<Skipped, String> {
    let is_allowed = |variable: &str| std::env::var(variable).is_ok_and(|value| value == "1");
    if let Some(variable) = part.variable().filter(|variable| !is_allowed(variable)) {
        return Err(format!("{}: {reason}\nSet {variable}=1 to pass without it.", part.name()));
    }
    let line = line(&current_test(), part, &reason.to_string());
    let written = match std::env::var_os(FILE_VARIABLE) {
        // One write, so that the lines of several programs do not mix.
        Some(file) => {
            File::options().append(true).create(true).open(file).and_then(|mut file| file.write_all(line.as_bytes()))
        }
        // Not `eprintln!`, which the test harness swallows when the test passes.
        None => io::stderr().write_all(line.as_bytes()),
    };
    written.map_err(|error| format!("{}: {error}", line.trim_end()))?;
    Ok(Skipped(()))
}

/// Ends the current function, which returns nothing, if what it needs was skipped.
#[macro_export]
macro_rules! or_skip {
    ($needed:expr) => {
        match $needed {
            Ok(needed) => needed,
            Err(skipped) => {
                let _: $crate::Skipped = skipped;
                return;
            }
        }
    };
}

/// A line of a skip, read.
#[derive(Debug, PartialEq)]
pub struct SkipLine<'a> {
    /// Program and test.
    pub test: &'a str,
    /// The part that is missing.
    pub part: Part,
    /// Why it cannot be used.
    pub reason: &'a str,
}

impl SkipLine<'_> {
    /// Reads a line; `None` if it is none of ours.
    pub fn parse(line: &str) -> Option<SkipLine<'_>> {
        let (test, rest) = line.strip_prefix(BEGIN)?.split_once(": ")?;
        let (part, reason) = rest.split_once(": ")?;
        let part = *Part::ALL.iter().find(|known| known.name() == part)?;
        Some(SkipLine { test, part, reason })
    }
}

fn line(test: &str, part: Part, reason: &str) -> String {
    let words: Vec<&str> = reason.split_whitespace().collect();
    format!("{BEGIN}{test}: {}: {}\n", part.name(), words.join(" "))
}

/// The program's name and the test's, which is that of its thread.
fn current_test() -> String {
    let program = std::env::current_exe().ok();
    let stem = program.as_deref().and_then(Path::file_stem).map(|stem| stem.to_string_lossy().into_owned());
    let stem = stem.unwrap_or_default();
    // Cargo puts a hash behind the name of a test program.
    let name = match stem.rsplit_once('-') {
        Some((name, hash)) if hash.len() == 16 && hash.chars().all(|c| c.is_ascii_hexdigit()) => name,
        _ => &stem,
    };
    format!("{name}::{}", std::thread::current().name().unwrap_or("a thread"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_test_part_and_reason() {
        let line = line("lab::a_guest", Part::Kvm, "/dev/kvm: no\n  such file");
        assert_eq!(line, "skipped: lab::a_guest: kvm: /dev/kvm: no such file\n");
        let read = SkipLine::parse(line.trim_end()).unwrap();
        assert_eq!(read, SkipLine { test: "lab::a_guest", part: Part::Kvm, reason: "/dev/kvm: no such file" });
        for other in ["lab::a_guest: kvm: no", "skipped: a test: moon: no", "skipped: a test", "skipped: a test: kvm"] {
            assert_eq!(SkipLine::parse(other), None, "{other}");
        }
    }

    #[test]
    fn the_current_test_is_named_by_its_program_and_its_thread() {
        let thread = std::thread::Builder::new().name("tests::one".to_string());
        let name = thread.spawn(current_test).unwrap().join().unwrap();
        assert_eq!(name, "exitscope_skips::tests::one");
    }

    #[test]
    fn a_part_without_which_no_test_may_pass_is_an_error() {
        let missing = Part::ALL.iter().filter(|part| part.variable().is_some_and(|name| std::env::var(name).is_err()));
        for &part in missing {
            let error = try_skip(part, "gone").unwrap_err();
            assert!(error.contains(part.name()) && error.contains("gone"), "{error}");
            assert!(error.contains(part.variable().unwrap()), "{error}");
        }
    }

    #[test]
    fn names_of_parts_are_words_and_their_own() {
        let names: std::collections::BTreeSet<&str> = Part::ALL.iter().map(|part| part.name()).collect();
        assert_eq!(names.len(), Part::ALL.len());
        assert!(names.iter().all(|name| !name.contains(|c: char| c.is_whitespace() || c == ':')));
    }
}
