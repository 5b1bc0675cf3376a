//! A command that runs while its host is recorded.

use crate::signalled;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus};
use std::thread::sleep;
use std::time::Duration;

/// How often it is looked whether the command has ended.
const POLL: Duration = Duration::from_millis(10);

/// A command that was started. It runs on where this is dropped.
pub struct Workload {
    child: Child,
    pid: Pid,
}

impl Workload {
    /// Starts a program.
    pub fn start(program: &str, arguments: &[String]) -> io::Result<Workload> {
        let child = Command::new(program).args(arguments).spawn()?;
        let pid = Pid::from_child(&child);
        Ok(Workload { child, pid })
    }

    /// Whether it has ended. It is not waited for yet: until then the kernel keeps its name, which its last events need.
    pub fn has_ended(&self) -> io::Result<bool> {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        Ok(waitid(WaitId::Pid(self.pid), options)?.is_some())
    }

    /// Ends it at once.
    pub fn kill(&mut self) -> io::Result<()> {
        self.child.kill()
    }

    /// Waits for it, and returns its status if it failed. A signal that this process caught ends it, too, as `perf record` does
    /// (`__cmd_record` of tools/perf/builtin-record.c): the signal may have come to this process alone. Then it did not fail.
    pub fn wait(&mut self) -> io::Result<Option<ExitStatus>> {
        let mut is_asked = false;
        let status = loop {
            if let Some(status) = self.child.try_wait()? {
                break status;
            }
            if signalled().is_some() && !is_asked {
                kill_process(self.pid, Signal::TERM)?;
                is_asked = true;
            }
            sleep(POLL);
        };
        let was_ended = signalled().is_some() && status.signal().is_some();
        Ok((!status.success() && !was_ended).then_some(status))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One test, as a signal is the whole process's.
    #[test]
    fn a_command_is_waited_for_and_a_signal_ends_it_too() {
        crate::catch_signals().unwrap();
        assert_eq!(signalled(), None);
        let mut workload = Workload::start("true", &[]).unwrap();
        while !workload.has_ended().unwrap() {
            sleep(POLL);
        }
        let name = std::fs::read_to_string(format!("/proc/{}/comm", workload.child.id())).unwrap();
        assert_eq!((&*name, workload.wait().unwrap()), ("true\n", None), "it is there until it is waited for");
        let mut workload = Workload::start("false", &[]).unwrap();
        assert_eq!(workload.wait().unwrap().and_then(|status| status.code()), Some(1));
        assert!(Workload::start("/no/such/program", &[]).is_err());

        let mut workload = Workload::start("sleep", &["1000".to_string()]).unwrap();
        assert!(!workload.has_ended().unwrap());
        signal_hook::low_level::raise(signal_hook::consts::SIGTERM).unwrap();
        assert_eq!(signalled(), Some("SIGTERM"));
        assert_eq!(workload.wait().unwrap(), None, "it was ended on purpose");
    }
}
