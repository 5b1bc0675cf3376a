//! Runs a line of shell in a guest, by the command that reaches it: `ssh vm1`, `docker exec vm1 sh -c`.
//!
//! The local shell splits the command as the user has quoted it, and adds the script as one argument. ssh hands that to the
//! guest's shell as it is, and so does `sh -c`. Scripts are only those of [`read_script`] and [`write_script`], whose words need
//! no quoting in any shell.
//!
//! What runs is bounded: it reads nothing, of what it writes 4 kB are read, and it is killed with its process group when its
//! time is over. So a watchdog comes to an end also if a guest hangs.

use crate::knob_file::is_value;
use rustix::fs::{OFlags, fcntl_setfl};
use rustix::process::{Pid, Signal, kill_process_group};
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// How long a script may take, the way to the guest included.
pub const GUEST_TIME: Duration = Duration::from_secs(5);

/// How often it is looked whether it has ended.
const STEP: Duration = Duration::from_millis(2);

/// Bytes of what it writes that are read.
const MOST: u64 = 4096;

/// Letters of a command.
const COMMAND: usize = 1024;

/// Letters of an error that are shown.
const SHOWN: usize = 200;

/// Whether a text can be such a command: one line.
pub fn is_guest_command(text: &str) -> bool {
    !text.trim().is_empty() && text.len() <= COMMAND && !text.chars().any(char::is_control)
}

/// The script that prints a file.
pub fn read_script(path: &str) -> String {
    format!("cat {path}")
}

/// The script that writes a value into a file; `None` of what is no value.
pub fn write_script(path: &str, value: &str) -> Option<String> {
    is_value(value).then(|| format!("echo {value} > {path}"))
}

/// Runs a script in the guest, and gives the first line that it prints.
pub fn run_in_guest(command: &str, script: &str, within: Duration) -> io::Result<String> {
    let mut shell = Command::new("sh");
    // `$1` is the script. Behind the command nothing else is the local shell's to read.
    shell.args(["-c", &format!("{command} \"$1\""), "sh", script]);
    shell.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    let mut child = shell.spawn()?;
    let Some(status) = wait(&mut child, within)? else {
        return Err(io::Error::other(format!("the guest's command did not end within {} s", within.as_secs_f64())));
    };
    // What is left in the background may hold the pipes open: nothing is waited for.
    let said = child.stdout.take().map(read_what_is_there).transpose()?.unwrap_or_default();
    if status.success() {
        return Ok(first_line(&said));
    }
    let error = child.stderr.take().map(read_what_is_there).transpose()?.unwrap_or_default();
    let error: String = first_line(&error).chars().take(SHOWN).collect();
    Err(io::Error::other(format!("the guest's command failed ({status}): {error:?}")))
}

/// Waits for a process; kills its group when the time is over, and then has no status.
fn wait(child: &mut Child, within: Duration) -> io::Result<Option<std::process::ExitStatus>> {
    let until = Instant::now() + within;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if Instant::now() >= until {
            // It has not been waited for, so that its number is still its own.
            if let Some(group) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
                let _ = kill_process_group(group, Signal::KILL);
            }
            child.wait()?;
            return Ok(None);
        }
        thread::sleep(STEP);
    }
}

/// What a pipe has now.
fn read_what_is_there(mut pipe: impl Read + AsFd) -> io::Result<String> {
    fcntl_setfl(&pipe, OFlags::NONBLOCK)?;
    let mut bytes = Vec::new();
    match pipe.by_ref().take(MOST).read_to_end(&mut bytes) {
        Err(error) if error.kind() != io::ErrorKind::WouldBlock => Err(error),
        _ => Ok(String::from_utf8_lossy(&bytes).into_owned()),
    }
}

fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().trim().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOON: Duration = Duration::from_secs(5);

    #[test]
    fn a_script_reaches_the_guest_as_one_argument_and_is_bounded() {
        for (command, script, says) in [
            ("sh -c", "echo 7; echo 8", Some("7")),
            ("sh -c", "printf '%s' \"a  b\"", Some("a  b")),
            ("env 'A=x y' sh -c", "echo \"$A\"", Some("x y")),
            // As ssh: the arguments joined are the guest's script.
            ("fake() { sh -c \"$*\"; }; fake", "echo $((1 + 1))", Some("2")),
            ("sh -c", "cat", Some("")),
            ("sh -c", "exit 3", None),
            ("no-such-command", "echo 1", None),
        ] {
            assert_eq!(run_in_guest(command, script, SOON).ok().as_deref(), says, "{command} {script}");
        }
        let error = run_in_guest("sh -c", "echo 'no\x1b route' >&2; exit 255", SOON).unwrap_err().to_string();
        assert_eq!(error, "the guest's command failed (exit status: 255): \"no\\u{1b} route\"");
    }

    #[test]
    fn a_guest_that_hangs_or_floods_or_leaves_something_behind_is_not_waited_for() {
        let short = Duration::from_millis(300);
        for script in ["sleep 60", "sleep 60 & wait", "cat /dev/zero", "exec sleep 60"] {
            let began = Instant::now();
            let error = run_in_guest("sh -c", script, short).unwrap_err().to_string();
            assert_eq!(error, "the guest's command did not end within 0.3 s", "{script}");
            assert!(began.elapsed() < SOON, "{script}");
        }
        let began = Instant::now();
        assert_eq!(run_in_guest("sh -c", "sleep 7 & echo 1", SOON).unwrap(), "1");
        assert!(began.elapsed() < Duration::from_secs(4), "what is left in the background holds the pipe");
    }

    #[test]
    fn scripts_have_only_values_and_commands_only_one_line() {
        assert_eq!(write_script("/sys/x", "200000").as_deref(), Some("echo 200000 > /sys/x"));
        for bad in ["1; rm x", "$(x)", "a b", "", "1>2"] {
            assert_eq!(write_script("/sys/x", bad), None, "{bad}");
        }
        assert!(is_guest_command("ssh -o 'X y' vm1"));
        assert!(!is_guest_command(" ") && !is_guest_command("a\nb") && !is_guest_command(&"a".repeat(1025)));
    }
}
