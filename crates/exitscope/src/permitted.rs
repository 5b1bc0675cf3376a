//! The copy of this program that a package gives to a group, with the capabilities that recording needs.
//!
//! Debian's wireshark does the same: everyone may run /usr/bin/wireshark, and the group `wireshark` alone may run /usr/bin/dumpcap,
//! which has capabilities (wireshark-common 4.0.17-0+deb12u3, postinst). Here both are one program, so the package keeps a copy.

use crate::cli::Command;
use exitscope_record::{CAPABILITIES, RecordError};
use std::io::ErrorKind;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::{env, process};

/// Where a package puts this program, and its copy. contrib/debian/postinst names both.
const INSTALLED: &str = "/usr/bin/exitscope";
const PERMITTED: &str = "/usr/libexec/exitscope/exitscope";

/// What is said to who is not of the package's group, after what the command says.
const GROUP: &str =
    "members of the group exitscope record without root: `sudo usermod -aG exitscope USER`, then log in again";

/// Goes on as the copy, where a command that watches this host would lack a capability. Returns where there is no copy, or who runs this
/// is not of its group: then the command itself says what is missing, and what this returns.
pub fn go_on_as_permitted(command: &Command) -> Option<&'static str> {
    let first = &CAPABILITIES[0];
    let program = env::current_exe().unwrap_or_default();
    if first.is_held() == Some(false) && has_a_copy(&program) && watches_this_host(command) {
        // Only a failure returns: the copy is missing, or the group's alone.
        let failed = process::Command::new(PERMITTED).arg0("exitscope").args(env::args_os().skip(1)).exec();
        return (failed.kind() == ErrorKind::PermissionDenied).then_some(GROUP);
    }
    None
}

/// Whether who runs this may not watch the host.
pub fn is_forbidden(error: &anyhow::Error) -> bool {
    let is_it = |of: &RecordError| matches!(of, RecordError::Forbidden { .. } | RecordError::NoRoute { .. });
    error.chain().any(|cause| cause.downcast_ref().is_some_and(is_it))
}

/// The copy is of the program that the package installed. Any other build, and the copy itself, is run as it is.
fn has_a_copy(program: &Path) -> bool {
    program == Path::new(INSTALLED)
}

fn watches_this_host(command: &Command) -> bool {
    match command {
        Command::Record(_) | Command::Top(_) | Command::Exporter(_) | Command::Doctor(_) => true,
        Command::Serve(args) => args.live,
        Command::Diff(args) => args.alternate.is_some(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::Cli;
    use clap::Parser;

    #[test]
    fn only_commands_that_watch_the_host_go_on_as_the_copy() {
        let watches = |words: &[&str]| watches_this_host(&Cli::try_parse_from(words).unwrap().command);
        assert!(watches(&["exitscope", "record", "--for", "1s"]));
        assert!(watches(&["exitscope", "serve", "--live"]));
        assert!(!watches(&["exitscope", "serve", "perf.data"]));
        assert!(watches(&["exitscope", "diff", "--alternate", "2", "--a", "true", "--b", "true", "--", "load"]));
        assert!(!watches(&["exitscope", "diff", "a.data", "b.data"]));
        assert!(!watches(&["exitscope", "report", "perf.data"]));
    }

    #[test]
    fn the_group_helps_where_the_host_may_not_be_watched_and_nowhere_else() {
        let path = "/sys/kernel/tracing/events".into();
        let forbidden = anyhow::Error::from(RecordError::Forbidden { path }).context("recording");
        assert!(is_forbidden(&forbidden));
        assert!(
            !is_forbidden(&RecordError::NoTracepoints.into()) && !is_forbidden(&anyhow::anyhow!("no such process"))
        );
    }

    #[test]
    fn only_the_installed_program_has_a_copy() {
        assert!(has_a_copy(Path::new("/usr/bin/exitscope")));
        assert!(!has_a_copy(Path::new(PERMITTED)));
        assert!(!has_a_copy(Path::new("/usr/local/bin/exitscope")));
    }
}
