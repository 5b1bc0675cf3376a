//! An instance of tracefs of the lab's own: its tracer and its events are nobody else's, and go with it, also after a kill.
//!
//! ```text
//! TracefsInstance::new ─► instances/exitscope-NAME-PID, and a guard: a process that waits for the other end of a pipe
//!        dropped, or killed ─► the pipe ends ─► the guard stops the tracer and the events, and removes the instance
//! ```
//!
//! A guard that is killed as well leaves the instance behind; the next one that is made removes it.

use std::ffi::{CStr, CString};
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// What names of instances begin with; they end with the process whose they are.
const PREFIX: &str = "exitscope-";

/// What stops tracing in an instance, in this order.
const STOP: [(&str, &CStr); 3] = [("tracing_on", c"0"), ("events/enable", c"0"), ("current_tracer", c"nop")];

/// How often, and how many microseconds apart, an instance is tried to be removed: one that somebody reads cannot be.
const TRIES: (u32, u32) = (100, 20_000);

/// Where tracefs is; where it is but may not be read, if anywhere, otherwise.
pub(crate) fn tracefs() -> Result<PathBuf, Option<PathBuf>> {
    let mut forbidden = None;
    for place in ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"].map(PathBuf::from) {
        match fs::read_dir(place.join("events")) {
            Ok(_) => return Ok(place),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => forbidden = forbidden.or(Some(place)),
            Err(_) => {}
        }
    }
    Err(forbidden)
}

/// What ftrace itself traces on this host, by whoever: its tracer, and whether events of KVM are on. `None`: that cannot be
/// read. Programs of BPF and perf are not told of there.
pub(crate) fn host_tracing() -> Option<String> {
    let tracefs = tracefs().ok()?;
    let tracer = fs::read_to_string(tracefs.join("current_tracer")).ok()?;
    let events = fs::read_to_string(tracefs.join("set_event")).ok()?;
    let events = events.lines().filter(|line| line.starts_with("kvm:")).count();
    let tracer = if tracer.trim() == "nop" { "no tracer" } else { tracer.trim() };
    Some(format!("{tracer} and {events} events of KVM"))
}

/// An instance, which goes when it is dropped or its process ends.
#[derive(Debug)]
pub(crate) struct TracefsInstance {
    path: PathBuf,
    guard: libc::pid_t,
    /// The guard waits for its end.
    alive: Option<OwnedFd>,
}

impl TracefsInstance {
    /// Makes it, with its guard.
    pub(crate) fn new(tracefs: &Path, name: &str) -> io::Result<TracefsInstance> {
        let instances = tracefs.join("instances");
        remove_orphans(&instances);
        let path = instances.join(format!("{PREFIX}{name}-{}", std::process::id()));
        fs::create_dir(&path)?;
        let guarded = Teardown::new(&path).and_then(|teardown| {
            let (waiting, alive) = pipe()?;
            // SAFETY: the child calls functions only that may be called between a fork and the end, and ends.
            match unsafe { libc::fork() } {
                -1 => Err(io::Error::last_os_error()),
                0 => teardown.wait_and_end(waiting.as_raw_fd(), alive.as_raw_fd()),
                guard => Ok((guard, alive)),
            }
        });
        match guarded {
            Ok((guard, alive)) => Ok(TracefsInstance { path, guard, alive: Some(alive) }),
            Err(error) => {
                let _ = fs::remove_dir(&path);
                Err(error)
            }
        }
    }

    /// Writes one of its files.
    pub(crate) fn write(&self, file: &str, text: &str) -> io::Result<()> {
        fs::write(self.path.join(file), text)
    }

    /// Reads one of its files.
    pub(crate) fn read(&self, file: &str) -> io::Result<String> {
        fs::read_to_string(self.path.join(file))
    }
}

impl Drop for TracefsInstance {
    fn drop(&mut self) {
        drop(self.alive.take());
        // SAFETY: waits for the own child; nothing is written.
        unsafe { libc::waitpid(self.guard, std::ptr::null_mut(), 0) };
    }
}

/// What the guard does, made before it is: it must not allocate.
struct Teardown {
    files: Vec<(CString, &'static CStr)>,
    path: CString,
}

impl Teardown {
    fn new(path: &Path) -> io::Result<Teardown> {
        let of = |path: &Path| CString::new(path.as_os_str().as_bytes()).map_err(io::Error::other);
        let files = STOP.iter().map(|(file, text)| Ok((of(&path.join(file))?, *text)));
        Ok(Teardown { files: files.collect::<io::Result<_>>()?, path: of(path)? })
    }

    /// Waits until the pipe ends, and removes the instance. A signal to the group of processes ends the other first.
    fn wait_and_end(&self, waiting: i32, alive: i32) -> ! {
        // SAFETY: system calls on descriptors and strings that the child owns since the fork.
        unsafe {
            let mut all: libc::sigset_t = std::mem::zeroed();
            libc::sigfillset(&mut all);
            libc::sigprocmask(libc::SIG_BLOCK, &all, std::ptr::null_mut());
            // Who waits for the end of the other's output does not wait for the guard.
            for descriptor in [0, 1, 2, alive] {
                libc::close(descriptor);
            }
            let mut byte = 0u8;
            while libc::read(waiting, (&raw mut byte).cast(), 1) > 0 {}
            self.run();
            libc::_exit(0)
        }
    }

    fn run(&self) {
        for (file, text) in &self.files {
            // SAFETY: as above.
            unsafe {
                let opened = libc::open(file.as_ptr(), libc::O_WRONLY | libc::O_CLOEXEC);
                libc::write(opened, text.as_ptr().cast(), text.count_bytes());
                libc::close(opened);
            }
        }
        let (tries, apart) = TRIES;
        for _ in 0..tries {
            // SAFETY: as above.
            unsafe {
                if libc::rmdir(self.path.as_ptr()) == 0 || *libc::__errno_location() == libc::ENOENT {
                    return;
                }
                libc::usleep(apart);
            }
        }
    }
}

/// Removes instances of processes that are gone.
fn remove_orphans(instances: &Path) {
    for entry in fs::read_dir(instances).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let owner = name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.rsplit('-').next()?.parse::<u32>().ok());
        if owner.is_some_and(|owner| !Path::new(&format!("/proc/{owner}")).exists())
            && let Ok(teardown) = Teardown::new(&entry.path())
        {
            teardown.run();
        }
    }
}

fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut ends = [0; 2];
    // SAFETY: the kernel fills in two descriptors, which nobody else owns.
    unsafe {
        match libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) {
            0 => Ok((OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1]))),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_orphan_goes_and_what_is_another_s_stays() {
        let instances = tempfile::tempdir().unwrap();
        let own = format!("exitscope-x-{}", std::process::id());
        // 4194304 is the most that kernel.pid_max may be, so that no process has it.
        for name in ["exitscope-x-4194304", &own, "perf-4194304", "exitscope-x"] {
            fs::create_dir(instances.path().join(name)).unwrap();
        }
        remove_orphans(instances.path());
        let mut left: Vec<_> =
            fs::read_dir(instances.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, ["exitscope-x", own.as_str(), "perf-4194304"]);
    }

    #[test]
    fn an_instance_goes_with_its_owner() {
        // A directory stands for tracefs: making and removing instances is the same.
        let tracefs = tempfile::tempdir().unwrap();
        fs::create_dir(tracefs.path().join("instances")).unwrap();
        let instance = TracefsInstance::new(tracefs.path(), "test").unwrap();
        let path = instance.path.clone();
        assert!(path.is_dir());
        drop(instance);
        assert!(!path.exists());
    }
}
