//! A setting where one host has it: read, written and read back; and what to do where that cannot be done.

use crate::cpuset::cpuset;
use crate::guest_command::{GUEST_TIME, is_guest_command, read_script, run_in_guest, write_script};
use crate::knob_file::{self, KnobFileError};
use crate::knob_source::KnobSource;
use crate::nice_right::may_have_nice;
use crate::settings::{
    ALL_CPUS, MAX_CPU, SettingDefinition, SettingPlace, SettingValues, ThreadsOf, cpu_list, cpus, kernel_cpus,
    listed_cpus, setting,
};
use exitscope_policy::{Knob, KnobLocation, POLICIES, knob};
use rustix::process::{Pid, getpriority_process, setpriority_process};
use rustix::thread::{CpuSet, sched_setaffinity};
use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Where control groups are mounted below a host's root, in the order in which they are looked for.
const CGROUPS: &[&str] = &["sys/fs/cgroup", "sys/fs/cgroup/unified", "sys/fs/cgroup/cpu", "sys/fs/cgroup/cpu,cpuacct"];

/// The file of a quota, of version 2 and of version 1.
const QUOTAS: [&str; 2] = ["cpu.max", "cpu.cfs_quota_us"];

/// The CPUs that are on, as a list like `0-3,8`. Threads are of the host that runs this, whatever its root.
const ONLINE: &str = "/sys/devices/system/cpu/online";

/// Those, and the ones that are off.
const PRESENT: &str = "/sys/devices/system/cpu/present";

/// What the target of a knob in a guest begins with; the command that reaches the guest is behind it.
pub(crate) const GUEST: &str = "guest ";

/// The module whose parameters are set in guests.
const GUEST_MODULE: KnobLocation = KnobLocation::BuiltIn("haltpoll");

/// A knob or a setting at one place of a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlacedSetting {
    row: Row,
    /// Which of the places that there are; `None` if there is only one.
    target: Option<String>,
    at: At,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Row {
    Knob(&'static Knob),
    Setting(&'static SettingDefinition),
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum At {
    File(PathBuf),
    /// The CPUs that a thread may run on.
    Affinity(TaskThread),
    /// The nice value of a thread.
    Nice(TaskThread),
    Guest(GuestFile),
}

/// A file of a guest.
#[derive(Clone, Debug, PartialEq, Eq)]
struct GuestFile {
    /// The command that reaches the guest.
    command: String,
    /// The file there.
    path: String,
}

/// A thread of this host. Its number may be another's later: when it began tells them apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskThread {
    /// Its process.
    pub process: u32,
    /// Its number.
    pub thread: u32,
    /// When it began, in clock ticks since boot (field 22 of /proc/PID/stat, see proc(5)).
    began: u64,
}

/// Why there is no such place.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlaceError {
    /// No row has that name.
    #[error("there is no knob {0:?}")]
    NoName(String),
    /// The knob has no file that changes it while the host runs.
    #[error("{0} cannot be set at run time")]
    NotAtRunTime(&'static str),
    /// It is not a place of this setting.
    #[error("{1:?} is not a place of {0}")]
    BadTarget(&'static str, String),
    /// The host has none.
    #[error("{0}: this host does not have it ({1})")]
    NotThere(&'static str, String),
    /// Flags have not named whose setting it is.
    #[error("{0} needs {1}")]
    NotNamed(&'static str, &'static str),
    /// It is not a setting of a guest.
    #[error("{0} cannot be set in a guest; {names} can", names = guest_names())]
    NotInGuest(String),
    /// The guest's command is none.
    #[error("{0:?} is no command that reaches a guest: one line, like 'ssh vm1'")]
    BadGuest(String),
}

impl TaskThread {
    /// A thread that runs now.
    pub fn of(process: u32, thread: u32) -> Option<TaskThread> {
        let stat = fs::read_to_string(format!("/proc/{process}/task/{thread}/stat")).ok()?;
        // The name before may hold anything, a parenthesis, too. Behind it is field 3.
        let began = stat.rsplit_once(')')?.1.split_whitespace().nth(22 - 3)?.parse().ok()?;
        Some(TaskThread { process, thread, began })
    }

    /// Whether it still runs.
    fn is_there(&self) -> bool {
        TaskThread::of(self.process, self.thread) == Some(*self)
    }

    /// Its number for system calls, if it still runs.
    fn present(&self) -> io::Result<Option<Pid>> {
        match self.is_there() {
            true => Ok(self.id()),
            false => Err(io::Error::other("the thread has ended")),
        }
    }

    fn text(&self) -> String {
        format!("{}/{}/{}", self.process, self.thread, self.began)
    }

    fn parse(text: &str) -> Option<TaskThread> {
        let mut parts = text.split('/');
        let thread = TaskThread {
            process: parts.next()?.parse().ok()?,
            thread: parts.next()?.parse().ok()?,
            began: parts.next()?.parse().ok()?,
        };
        (parts.next().is_none() && thread.text() == text).then_some(thread)
    }

    fn id(&self) -> Option<Pid> {
        Pid::from_raw(i32::try_from(self.thread).ok()?)
    }
}

/// Whose settings are meant, where the host has several.
#[derive(Clone, Debug, Default)]
pub struct SettingTargets {
    /// A control group, as its path below the mount or from the root.
    pub cgroup: Option<String>,
    /// Threads of vCPUs.
    pub threads: Vec<TaskThread>,
    /// Threads that work for the devices of the same VM.
    pub workers: Vec<TaskThread>,
    /// The command that reaches a guest, in which the setting is then.
    pub guest: Option<String>,
}

impl PlacedSetting {
    /// The place of a knob below `root`, if the knob can be written on a running host.
    pub fn of_knob(knob: &'static Knob, root: &Path) -> Option<PlacedSetting> {
        let path = root.join(knob.file()?.to_string().trim_start_matches('/'));
        Some(PlacedSetting { row: Row::Knob(knob), target: None, at: At::File(path) })
    }

    /// The place that a state file names. Which file it has is the row's to say, never the state file's.
    pub fn find(name: &str, target: Option<&str>, root: &Path) -> Result<PlacedSetting, PlaceError> {
        if let Some(command) = target.and_then(|target| target.strip_prefix(GUEST)) {
            return PlacedSetting::in_guest(name, command);
        }
        if let Some(knob) = knob(name) {
            let placed = PlacedSetting::of_knob(knob, root).filter(|_| knob.is_writable() && target.is_none());
            return placed.ok_or(PlaceError::NotAtRunTime(knob.name));
        }
        let row = setting(name).ok_or_else(|| PlaceError::NoName(name.to_string()))?;
        let bad = || PlaceError::BadTarget(row.name, target.unwrap_or_default().to_string());
        let thread = |thread| TaskThread::parse(thread).ok_or_else(bad);
        let at = match (row.place, target) {
            (SettingPlace::File(path), None) => At::File(below(root, path)),
            (SettingPlace::EachFolder { within, prefix, file: name }, Some(folder)) => At::File(
                is_one_of(folder, prefix).then(|| below(root, within).join(folder).join(name)).ok_or_else(bad)?,
            ),
            (SettingPlace::Quota, Some(cgroup)) => At::File(quota_file(root, cgroup).ok_or_else(bad)?),
            (SettingPlace::Affinity(_), Some(of)) => At::Affinity(thread(of)?),
            (SettingPlace::Nice(_), Some(of)) => At::Nice(thread(of)?),
            _ => return Err(bad()),
        };
        Ok(PlacedSetting { row: Row::Setting(row), target: target.map(str::to_string), at })
    }

    /// The place of a knob in the guest that the command reaches.
    fn in_guest(name: &str, command: &str) -> Result<PlacedSetting, PlaceError> {
        if !is_guest_command(command) {
            return Err(PlaceError::BadGuest(command.to_string()));
        }
        let knob = knob(name).filter(|knob| knob.location == GUEST_MODULE);
        let knob = knob.ok_or_else(|| PlaceError::NotInGuest(name.to_string()))?;
        let path = knob.file().ok_or(PlaceError::NotAtRunTime(knob.name))?.to_string();
        let at = At::Guest(GuestFile { command: command.to_string(), path });
        Ok(PlacedSetting { row: Row::Knob(knob), target: Some(format!("{GUEST}{command}")), at })
    }

    /// All places of a setting that `targets` mean.
    pub fn all(name: &str, root: &Path, targets: &SettingTargets) -> Result<Vec<PlacedSetting>, PlaceError> {
        if let Some(command) = targets.guest.as_deref() {
            return Ok(vec![PlacedSetting::in_guest(name, command)?]);
        }
        let Some(row) = setting(name) else { return Ok(vec![PlacedSetting::find(name, None, root)?]) };
        let found: Vec<Option<String>> = match row.place {
            SettingPlace::File(_) => vec![None],
            SettingPlace::EachFolder { within, prefix, file } => {
                let entries = fs::read_dir(below(root, within)).into_iter().flatten().flatten();
                let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
                // The policy of CPUs that are off answers EBUSY.
                let is_off = |name: &String| {
                    let found = fs::read(below(root, within).join(name).join(file));
                    found.is_err_and(|error| error.kind() == io::ErrorKind::ResourceBusy)
                };
                let mut names: Vec<String> = names.filter(|name| is_one_of(name, prefix) && !is_off(name)).collect();
                names.sort_unstable();
                names.into_iter().map(Some).collect()
            }
            SettingPlace::Quota => {
                let cgroup = targets.cgroup.as_deref().ok_or(PlaceError::NotNamed(row.name, "--cgroup"))?;
                let cgroup = cgroup.trim_start_matches('/').trim_start_matches("sys/fs/cgroup/");
                vec![Some(cgroup.trim_end_matches('/').to_string())]
            }
            SettingPlace::Affinity(of) | SettingPlace::Nice(of) => {
                let threads = match of {
                    ThreadsOf::Vcpus => &targets.threads,
                    ThreadsOf::Workers => &targets.workers,
                };
                if threads.is_empty() {
                    return Err(PlaceError::NotNamed(row.name, "--vm, with a VM that runs and has such threads"));
                }
                threads.iter().map(|thread| Some(thread.text())).collect()
            }
        };
        if found.is_empty() {
            return Err(PlaceError::NotThere(row.name, row.place.to_string()));
        }
        found.iter().map(|target| PlacedSetting::find(name, target.as_deref(), root)).collect()
    }

    /// The name of its row.
    pub fn name(&self) -> &'static str {
        match self.row {
            Row::Knob(knob) => knob.name,
            Row::Setting(setting) => setting.name,
        }
    }

    /// Which of the places of its row it is; `None` if there is only one.
    pub fn target(&self) -> Option<&str> {
        self.target.as_deref()
    }

    /// Whether it is in a guest: it takes longer to set, and may be out of reach.
    pub fn is_in_guest(&self) -> bool {
        matches!(self.at, At::Guest(_))
    }

    /// What people type to set it in a guest.
    pub fn by_hand(&self, value: &str) -> Option<String> {
        let At::Guest(GuestFile { command, path }) = &self.at else { return None };
        Some(format!("{command} '{}'", write_script(path, value)?))
    }

    /// Whether a trial without a metric of the workload may judge it.
    pub fn is_judged_by_cost(&self) -> bool {
        matches!(self.row, Row::Setting(SettingDefinition { judged_by_cost: true, .. }))
    }

    /// Its knob, if it is one.
    pub fn knob(&self) -> Option<&'static Knob> {
        match self.row {
            Row::Knob(knob) => Some(knob),
            Row::Setting(_) => None,
        }
    }

    /// A value as people type it, in the one spelling that is kept; otherwise what is expected.
    pub fn parse(&self, text: &str) -> Result<String, String> {
        match self.row {
            Row::Knob(knob) => {
                knob.parse(text).map(|value| knob.text(value).to_string()).map_err(|error| error.to_string())
            }
            Row::Setting(row) => row.values.parse(text).ok_or_else(|| format!("{} takes {}", row.name, row.values)),
        }
    }

    /// Whether a text may have been in force here, so that it can be restored.
    pub fn is_value(&self, text: &str) -> bool {
        match self.row {
            Row::Knob(_) => knob_file::is_value(text),
            Row::Setting(row) => row.values.parse(text).is_some_and(|value| value == text),
        }
    }

    /// Whether the host says that it does not take this value.
    pub fn is_unknown(&self, value: &str) -> bool {
        let path = match &self.at {
            At::Affinity(_) => return !are_online(value),
            At::Nice(_) | At::Guest(_) => return false,
            At::File(path) => path,
        };
        let Row::Setting(SettingDefinition { values: SettingValues::Listed(list), .. }) = self.row else {
            return false;
        };
        let listed = fs::read_to_string(path.with_file_name(list)).unwrap_or_default();
        !listed.split_whitespace().any(|word| word == value)
    }

    /// The CPUs that the control group of a thread allows, if this value has others.
    pub fn allowed_instead(&self, value: &str) -> Option<String> {
        let thread = match &self.at {
            At::Affinity(thread) => thread,
            At::File(_) | At::Nice(_) | At::Guest(_) => return None,
        };
        let (allowed, _) = cpuset(thread.process, thread.thread)?;
        let is_allowed = value == ALL_CPUS || cpus(value)?.iter().all(|cpu| allowed.contains(cpu));
        (!is_allowed).then(|| cpu_list(&allowed))
    }

    /// Whether these values can be set in any order. A nice value that was raised may not be lowered again by everybody.
    pub fn may_alternate<'a>(&self, values: impl Iterator<Item = &'a String>) -> bool {
        let thread = match &self.at {
            At::Nice(thread) => thread,
            At::File(_) | At::Affinity(_) | At::Guest(_) => return true,
        };
        let lowest = values.filter_map(|value| value.parse().ok()).min();
        lowest.is_none_or(|lowest| may_have_nice(thread.process, lowest))
    }

    /// Whether it can only be read.
    pub fn is_read_only(&self) -> bool {
        match &self.at {
            At::File(path) => fs::metadata(path).is_ok_and(|metadata| metadata.permissions().readonly()),
            At::Affinity(_) | At::Nice(_) | At::Guest(_) => false,
        }
    }

    /// Whether what it is a setting of has ended, so that there is nothing to restore.
    pub fn is_gone(&self) -> bool {
        match &self.at {
            At::File(path) => match self.row {
                Row::Setting(SettingDefinition { place: SettingPlace::Quota, .. }) => !path.exists(),
                // A module that was unloaded has its defaults when it is loaded again: MODULE/parameters/NAME.
                Row::Knob(_) => is_folder_gone(path, 2),
                // So has a CPU, or a policy of frequencies, that was taken away.
                Row::Setting(SettingDefinition { place: SettingPlace::EachFolder { file, .. }, .. }) => {
                    is_folder_gone(path, file.split('/').count())
                }
                Row::Setting(_) => false,
            },
            At::Affinity(thread) | At::Nice(thread) => !thread.is_there(),
            // What cannot be reached may only be out of reach for now.
            At::Guest(_) => false,
        }
    }

    /// The value in force.
    pub fn read(&self) -> Result<String, KnobFileError> {
        self.read_raw().map_err(|error| self.cannot(error))
    }

    fn read_raw(&self) -> io::Result<String> {
        // Looked at afterwards: whoever has the number now may have come meanwhile.
        let of_thread = |thread: &TaskThread, found: String| thread.present().map(|_| found);
        match &self.at {
            At::File(path) => {
                let line = knob_file::read(path)?;
                Ok(match self.row {
                    Row::Knob(_) => line,
                    Row::Setting(row) => row.values.in_force(&line),
                })
            }
            At::Guest(GuestFile { command, path }) => run_in_guest(command, &read_script(path), GUEST_TIME),
            At::Affinity(thread) => of_thread(thread, affinity(thread)?),
            At::Nice(thread) => of_thread(thread, getpriority_process(thread.id())?.to_string()),
        }
    }

    /// Writes a value, and reads it back.
    pub fn set(&self, value: &str) -> Result<(), KnobFileError> {
        self.write(value).map_err(|error| self.cannot(error))?;
        let now = self.read()?;
        match self.is_same(&now, value) {
            true => Ok(()),
            false => Err(KnobFileError::NotTaken(self.to_string(), value.to_string(), now)),
        }
    }

    fn write(&self, value: &str) -> io::Result<()> {
        let odd = || io::Error::new(io::ErrorKind::InvalidInput, "not a value");
        match &self.at {
            At::File(path) if value == "max" && path.ends_with(QUOTAS[1]) => knob_file::write(path, "-1"),
            At::File(path) => knob_file::write(path, value),
            At::Guest(GuestFile { command, path }) => {
                let script = write_script(path, value).ok_or_else(odd)?;
                run_in_guest(command, &script, GUEST_TIME).map(drop)
            }
            At::Affinity(thread) => {
                // The kernel cuts it down to what there is, and from 6.2 on keeps it whole as `user_cpus_ptr`
                // (kernel/sched/syscalls.c, __sched_setaffinity).
                let wanted = if value == ALL_CPUS { (0..=MAX_CPU).collect() } else { cpus(value).ok_or_else(odd)? };
                let mut set = CpuSet::new();
                wanted.into_iter().for_each(|cpu| set.set(cpu));
                Ok(sched_setaffinity(thread.present()?, &set)?)
            }
            At::Nice(thread) => Ok(setpriority_process(thread.present()?, value.parse().map_err(|_| odd())?)?),
        }
    }

    /// Whether two texts are the same value: the kernel says `Y` where `1` was written, and leaves CPUs out that are off.
    pub fn is_same(&self, a: &str, b: &str) -> bool {
        if let At::Affinity(thread) = &self.at {
            return a == b || running_cpus(thread, a).is_some_and(|of_a| running_cpus(thread, b) == Some(of_a));
        }
        let value = |text: &str| self.knob().and_then(|knob| knob.parse(text).ok());
        a == b || value(a).is_some_and(|of_a| value(b) == Some(of_a))
    }

    /// Whether what is read says all of what was set. An affinity does not: that a thread was pinned to all CPUs is seen only when others
    /// come.
    pub fn is_read_whole(&self) -> bool {
        !matches!(self.at, At::Affinity(_))
    }

    /// Whether others see it at the same place: not a thread, nor a control group, for those who have a namespace of their own.
    pub fn is_of_namespace(&self) -> bool {
        let is_quota = matches!(self.row, Row::Setting(SettingDefinition { place: SettingPlace::Quota, .. }));
        is_quota || matches!(self.at, At::Affinity(_) | At::Nice(_))
    }

    /// Whether `now` is a value that was set, or may be what the kernel has made of it: of a thread all of whose CPUs are gone, anything
    /// (kernel/sched/core.c, `select_fallback_rq`; where its cpuset has changed, kernel/cgroup/cpuset.c, `cpuset_update_tasks_cpumask`).
    pub fn may_have_become(&self, set: &str, now: &str) -> bool {
        self.is_same(set, now) || self.has_lost(set)
    }

    /// Whether nothing of a value is left that could be set: CPUs that are all off, or outside of the cpuset.
    pub fn has_lost(&self, value: &str) -> bool {
        let At::Affinity(thread) = &self.at else { return false };
        running_cpus(thread, value).is_some_and(|left| left.is_empty())
    }

    /// Why it cannot be read or written.
    fn cannot(&self, error: io::Error) -> KnobFileError {
        let at = self.to_string();
        match error.kind() {
            _ if self.is_in_guest() => KnobFileError::Other(at, error),
            io::ErrorKind::NotFound => match self.knob() {
                Some(knob) => self.missing(KnobSource::here(knob)),
                None => KnobFileError::NotBuilt(at),
            },
            io::ErrorKind::PermissionDenied => KnobFileError::PermissionDenied(at),
            io::ErrorKind::ReadOnlyFilesystem => KnobFileError::ReadOnlyFilesystem(at),
            _ => KnobFileError::Other(at, error),
        }
    }

    /// Why there is no file, of a knob that this has.
    pub(crate) fn missing(&self, source: KnobSource) -> KnobFileError {
        let at = self.to_string();
        match source {
            KnobSource::OtherMachines(other, this) => KnobFileError::OfOtherMachines(at, other, this),
            KnobSource::Module(module) => KnobFileError::NotThere(at, module),
            KnobSource::Kernel => KnobFileError::NotInKernel(at),
        }
    }

    /// Why it cannot be set now although it is there: some kernels are built with parameters that can only be read.
    pub fn at_load(&self, new: String) -> KnobFileError {
        let at = self.to_string();
        let Some(knob) = self.knob().filter(|_| matches!(self.at, At::File(_))) else {
            return KnobFileError::PermissionDenied(at);
        };
        let boot = || knob.parse(&new).ok().and_then(|value| knob.boot(value));
        match (KnobSource::here(knob), boot()) {
            (KnobSource::Module(module), _) => KnobFileError::AtLoad(at, module, knob.name, new),
            (_, Some(boot)) => KnobFileError::AtBoot(at, boot.to_string()),
            (_, None) => KnobFileError::PermissionDenied(at),
        }
    }
}

impl fmt::Display for PlacedSetting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.at {
            At::File(path) => path.display().fmt(f),
            At::Affinity(thread) | At::Nice(thread) => {
                write!(f, "{} of thread {} of process {}", self.name(), thread.thread, thread.process)
            }
            At::Guest(GuestFile { command, path }) => write!(f, "{path} of the guest of `{command}`"),
        }
    }
}

/// The CPUs that a thread may run on, also those that are off now, as far as the kernel lists them; [`ALL_CPUS`] if these are all of its
/// cpuset, or of the host. Whether it is pinned is known only before others come or go.
fn affinity(thread: &TaskThread) -> io::Result<String> {
    let status = fs::read_to_string(format!("/proc/{}/task/{}/status", thread.process, thread.thread))?;
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    let mut allowed =
        list.and_then(kernel_cpus).ok_or_else(|| io::Error::other("its status does not list its CPUs"))?;
    if let Some(present) = listed_cpus(Path::new(PRESENT)) {
        allowed.retain(|cpu| present.contains(cpu));
    }
    Ok(affinity_text(&allowed, all_cpus(thread).as_deref()))
}

fn affinity_text(allowed: &[usize], all: Option<&[usize]>) -> String {
    match all {
        Some(all) if all.iter().all(|cpu| allowed.contains(cpu)) => ALL_CPUS.to_string(),
        _ => cpu_list(allowed),
    }
}

/// All CPUs of a thread that is not pinned, as far as the host says. The root's cpuset lists those that are on; it has fewer where
/// partitions have taken some out of it (Documentation/admin-guide/cgroup-v2.rst).
fn all_cpus(thread: &TaskThread) -> Option<Vec<usize>> {
    let count = |file: &str| listed_cpus(Path::new(file)).map_or(0, |cpus| cpus.len());
    match cpuset(thread.process, thread.thread) {
        Some((own, false)) => Some(own),
        Some((left, true)) if left.len() < count(ONLINE) => Some(left),
        _ => listed_cpus(Path::new(PRESENT)),
    }
}

/// The CPUs of a value that are on, and that the thread's cpuset has.
fn running_cpus(thread: &TaskThread, value: &str) -> Option<Vec<usize>> {
    let (all, online) = (all_cpus(thread), listed_cpus(Path::new(ONLINE)));
    let mut cpus = if value == ALL_CPUS { all.clone()? } else { cpus(value)? };
    let is_in = |of: &Option<Vec<usize>>, cpu: &usize| of.as_ref().is_none_or(|of| of.contains(cpu));
    cpus.retain(|cpu| is_in(&all, cpu) && is_in(&online, cpu));
    Some(cpus)
}

/// Whether the folder that a file is so many levels below has gone, while the one around it is there.
fn is_folder_gone(file: &Path, levels: usize) -> bool {
    let mut above = file.ancestors().skip(levels);
    let (folder, around) = (above.next(), above.next());
    folder.is_some_and(|folder| !folder.exists()) && around.is_some_and(Path::exists)
}

/// Whether all CPUs of a list are online, as far as this host says.
fn are_online(value: &str) -> bool {
    let Some(online) = listed_cpus(Path::new(ONLINE)).filter(|_| value != ALL_CPUS) else { return true };
    cpus(value).is_some_and(|wanted| wanted.iter().all(|cpu| online.contains(cpu)))
}

/// The names of all that is set in guests.
fn guest_names() -> String {
    let knobs = POLICIES.iter().flat_map(|(_, knobs)| *knobs).filter(|knob| knob.location == GUEST_MODULE);
    knobs.map(|knob| knob.name).collect::<Vec<_>>().join(", ")
}

/// Whether the name of a folder is this and a number.
fn is_one_of(folder: &str, prefix: &str) -> bool {
    let number = folder.strip_prefix(prefix).unwrap_or_default();
    !number.is_empty() && number.chars().all(|letter| letter.is_ascii_digit())
}

fn below(root: &Path, path: &str) -> PathBuf {
    root.join(path.trim_start_matches('/'))
}

/// The quota's file of a control group; `None` if the text is no path below the mount.
fn quota_file(root: &Path, cgroup: &str) -> Option<PathBuf> {
    let is_part = |part: &str| !part.is_empty() && part != "." && part != ".." && !part.chars().any(char::is_control);
    if cgroup.len() > 255 || !cgroup.split('/').all(is_part) {
        return None;
    }
    let files = || {
        let folders = CGROUPS.iter().map(|mount| root.join(mount).join(cgroup));
        folders.flat_map(|folder| QUOTAS.map(|name| folder.join(name)))
    };
    // Where none is there, the name of the first says so.
    files().find(|file| file.exists()).or_else(|| files().next())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::process::{Child, Command};

    /// A guest whose /sys is a folder, with guest_halt_poll_ns of 200000.
    pub struct FakeGuest(tempfile::TempDir);

    impl FakeGuest {
        pub fn new() -> FakeGuest {
            let guest = FakeGuest(tempfile::tempdir().unwrap());
            fs::create_dir_all(guest.file().parent().unwrap()).unwrap();
            fs::write(guest.file(), "200000\n").unwrap();
            // As ssh: it has one text, in which /sys is the guest's.
            let script = format!("sh -c \"$(printf '%s' \"$*\" | sed 's|/sys/|{}/sys/|')\"", guest.0.path().display());
            fs::write(guest.0.path().join("reach"), script).unwrap();
            guest
        }

        pub fn command(&self) -> String {
            format!("sh '{}'", self.0.path().join("reach").display())
        }

        pub fn file(&self) -> PathBuf {
            self.0.path().join("sys/module/haltpoll/parameters/guest_halt_poll_ns")
        }

        pub fn now(&self) -> String {
            fs::read_to_string(self.file()).unwrap().trim().to_string()
        }

        /// It takes no more than this: whatever it is told to write, that is in the file.
        pub fn clamp(&self, most: &str) {
            let file = self.file();
            let script = format!("case \"$*\" in *echo*) echo {most} > '{0}' ;; *) cat '{0}' ;; esac", file.display());
            fs::write(self.0.path().join("reach"), script).unwrap();
        }

        /// It can no longer be reached.
        pub fn end(&self) {
            fs::write(self.0.path().join("reach"), "echo 'no route' >&2; exit 255").unwrap();
        }

        /// Nothing that it is asked comes to an end.
        pub fn hang(&self) {
            fs::write(self.0.path().join("reach"), "sleep 60").unwrap();
        }
    }

    struct Ended(Child);

    impl Drop for Ended {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    #[test]
    fn nice_and_affinity_of_a_thread_are_set_and_read_back_until_it_ends() {
        let mut child = Ended(Command::new("sleep").arg("60").spawn().unwrap());
        let id = child.0.id();
        let targets = SettingTargets { threads: vec![TaskThread::of(id, id).unwrap()], ..SettingTargets::default() };
        // In clock ticks since boot, of which there are 100 a second.
        let uptime: f64 = fs::read_to_string("/proc/uptime").unwrap().split(' ').next().unwrap().parse().unwrap();
        let began = targets.threads[0].began as f64 / 100.0;
        assert!(began <= uptime && began > uptime - 60.0, "{began} of {uptime} s");
        let [nice] = &PlacedSetting::all("nice", Path::new("/"), &targets).unwrap()[..] else { panic!("one thread") };
        let without = PlacedSetting::all("worker_nice", Path::new("/"), &targets).unwrap_err().to_string();
        assert_eq!(without, "worker_nice needs --vm, with a VM that runs and has such threads");
        let workers = SettingTargets { workers: targets.threads.clone(), ..SettingTargets::default() };
        let worker = &PlacedSetting::all("worker_nice", Path::new("/"), &workers).unwrap()[0];
        assert_eq!(worker.to_string(), format!("worker_nice of thread {id} of process {id}"));
        let old: i32 = nice.read().unwrap().parse().unwrap();
        let new = (old + 1).min(19).to_string();
        nice.set(&new).unwrap();
        assert_eq!(nice.read().unwrap(), new);
        let affinity = &PlacedSetting::all("affinity", Path::new("/"), &targets).unwrap()[0];
        let all = affinity.read().unwrap();
        assert_eq!((affinity.allowed_instead(&all), affinity.is_unknown(&all)), (None, false));
        // Of the threads of a test, whether they are pinned is not known.
        let listed = running_cpus(&targets.threads[0], &all).unwrap();
        if let Some((allowed, _)) = cpuset(id, id) {
            assert_eq!(affinity.allowed_instead("1023"), Some(cpu_list(&allowed)));
        }
        let one = listed[0].to_string();
        affinity.set(&one).unwrap();
        assert_eq!(affinity.read().unwrap(), if listed.len() > 1 { one.as_str() } else { &all });
        affinity.set(&all).unwrap();
        let read_again = PlacedSetting::find("affinity", affinity.target(), Path::new("/")).unwrap();
        assert_eq!((&read_again, read_again.is_gone()), (affinity, false));
        // Which CPUs are off makes no difference, and none that is on is left out.
        let listed = cpu_list(&listed);
        assert!(affinity.is_same(&all, &format!("{listed}+1023")) && affinity.is_same(&listed, &all));
        assert!(!affinity.is_same(&all, &one) || listed == one);
        // What the kernel does with a thread all of whose CPUs are gone is not somebody else's doing.
        assert!(affinity.may_have_become("1023", &all) && !affinity.may_have_become(&one, "1023"));
        assert!(affinity.has_lost("1023") && !affinity.has_lost(&format!("{one}+1023")) && !affinity.has_lost(&all));
        // A CPU that there is not.
        assert!(affinity.set("1023").is_err() && affinity.read().unwrap() == all);
        assert!(
            affinity.is_unknown("1023") && affinity.is_unknown(&format!("{one}+1023")) && !affinity.is_unknown(&one)
        );
        child.0.kill().unwrap();
        child.0.wait().unwrap();
        assert!(affinity.is_gone() && affinity.read().is_err() && affinity.set(&all).is_err());
    }

    #[test]
    fn a_knob_whose_module_was_unloaded_is_gone_and_one_that_cannot_be_read_is_not() {
        let (root, knob, path) = crate::host_settings::tests::host_with_one_knob();
        let place = PlacedSetting::of_knob(knob, root.path()).unwrap();
        assert!(!place.is_gone() && place.read().is_err(), "the module is there");
        fs::remove_dir_all(path.ancestors().nth(2).unwrap()).unwrap();
        assert!(place.is_gone());
    }

    #[test]
    fn who_may_run_on_all_cpus_is_not_pinned() {
        assert_eq!(affinity_text(&[0, 1, 2], Some(&[0, 1, 2])), "all");
        assert_eq!(affinity_text(&[0, 1, 2, 3], Some(&[0, 1])), "all");
        assert_eq!(affinity_text(&[0, 1], Some(&[0, 1, 2])), "0-1");
        assert_eq!(affinity_text(&[0, 1], None), "0-1");
    }

    #[test]
    fn a_setting_of_each_cpu_is_in_the_folders_of_cpus_alone() {
        let root = tempfile::tempdir().unwrap();
        for folder in ["cpu0", "cpu1", "cpu10", "cpufreq", "cpuidle", "cpu", "power"] {
            let folder = root.path().join("sys/devices/system/cpu").join(folder).join("power");
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join("pm_qos_resume_latency_us"), "0\n").unwrap();
        }
        let all = PlacedSetting::all("cpu_resume_latency_us", root.path(), &SettingTargets::default()).unwrap();
        let targets: Vec<&str> = all.iter().filter_map(PlacedSetting::target).collect();
        assert_eq!(targets, ["cpu0", "cpu1", "cpu10"]);
        all[1].set("n/a").unwrap();
        assert_eq!((all[1].read().unwrap().as_str(), all[0].read().unwrap().as_str()), ("n/a", "0"));
        assert!(PlacedSetting::find("cpu_resume_latency_us", Some("cpufreq"), root.path()).is_err());
        fs::remove_dir_all(root.path().join("sys/devices/system/cpu/cpu1")).unwrap();
        assert!(all[1].is_gone() && !all[0].is_gone());
        fs::remove_dir_all(root.path().join("sys/devices")).unwrap();
        assert!(!all[0].is_gone(), "what is not there at all tells nothing");
    }

    #[test]
    fn a_quota_is_found_in_either_version_of_control_groups() {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("sys/fs/cgroup/two/vm/cpu.max", "max 100000\n");
        write("sys/fs/cgroup/cpu/one/cpu.cfs_quota_us", "50000\n");
        let place = |cgroup: &str| {
            let targets = SettingTargets { cgroup: Some(cgroup.to_string()), ..SettingTargets::default() };
            PlacedSetting::all("cpu_quota", root.path(), &targets).map(|mut all| all.remove(0))
        };
        let [two, one] = ["/sys/fs/cgroup/two/vm", "one/"].map(|cgroup| place(cgroup).unwrap());
        assert_eq!((two.read().unwrap().as_str(), one.read().unwrap().as_str()), ("max", "50000"));
        one.write("max").unwrap();
        assert_eq!(fs::read_to_string(root.path().join("sys/fs/cgroup/cpu/one/cpu.cfs_quota_us")).unwrap(), "-1\n");
        assert_eq!(one.read().unwrap(), "max");
        one.write("60000").unwrap();
        assert_eq!(one.read().unwrap(), "60000");
        two.write("max").unwrap();
        assert_eq!(fs::read_to_string(root.path().join("sys/fs/cgroup/two/vm/cpu.max")).unwrap(), "max\n");
        assert!(!one.is_in_guest());
        let denied = one.cannot(io::ErrorKind::PermissionDenied.into());
        assert!(matches!(denied, KnobFileError::PermissionDenied(_)), "{denied}");
        let (long, longest) = ("x".repeat(256), "x".repeat(255));
        assert!(place(&long).is_err() && place(&"x".repeat(300)).is_err() && place(&longest).is_ok());
        assert!(place("none").unwrap().is_gone());
        for bad in ["../../etc", "a//b", "", "a/../b"] {
            assert!(place(bad).is_err(), "{bad}");
        }
        let all = PlacedSetting::all("cpu_quota", root.path(), &SettingTargets::default());
        assert_eq!(all.unwrap_err().to_string(), "cpu_quota needs --cgroup");
    }

    #[test]
    fn a_knob_of_a_guest_is_read_and_written_by_its_command() {
        let guest = FakeGuest::new();
        let targets = SettingTargets { guest: Some(guest.command()), ..SettingTargets::default() };
        let all = |name| PlacedSetting::all(name, Path::new("/none"), &targets);
        let [limit] = &all("guest_halt_poll_ns").unwrap()[..] else { panic!("one place") };
        assert!(limit.is_in_guest());
        assert_eq!(limit.read().unwrap(), "200000");
        limit.set("50000").unwrap();
        assert_eq!(guest.now(), "50000");
        assert!(limit.set("1;2").is_err() && guest.now() == "50000");
        let read_again = PlacedSetting::find("guest_halt_poll_ns", limit.target(), Path::new("/")).unwrap();
        assert_eq!(&read_again, limit);
        let by_hand = limit.by_hand("200000").unwrap();
        assert!(std::process::Command::new("sh").args(["-c", &by_hand]).status().unwrap().success());
        assert_eq!(guest.now(), "200000");
        let said = all("thp_enabled").unwrap_err().to_string();
        assert!(said.starts_with("thp_enabled cannot be set in a guest; guest_halt_poll_ns, "), "{said}");
        assert!(all("guest_halt_poll_reset").is_err());
        let gone = PlacedSetting::find("guest_halt_poll_ns", Some("guest exit 255;"), Path::new("/")).unwrap();
        let said = gone.read().unwrap_err().to_string();
        assert!(said.contains("of the guest of `exit 255;`: the guest's command failed"), "{said}");
        for bad in ["guest ", "guest a\nb"] {
            assert!(PlacedSetting::find("guest_halt_poll_ns", Some(bad), Path::new("/")).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_place_is_only_where_its_row_says() {
        let root = Path::new("/");
        for (name, target) in [
            ("thp_enabled", Some("x")),
            ("cpufreq_governor", None),
            ("cpufreq_governor", Some("../policy0")),
            ("cpufreq_governor", Some("policy0/../../x")),
            ("halt_poll_ns", Some("x")),
            ("ple_gap", None),
            ("affinity", Some("1/2")),
            ("affinity", Some("1/2/3/4")),
            ("affinity", Some("01/2/3")),
            ("nothing", None),
        ] {
            assert!(PlacedSetting::find(name, target, root).is_err(), "{name} {target:?}");
        }
    }

    #[test]
    fn a_word_is_known_if_the_host_lists_it() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("sys/devices/system/cpu/cpufreq/policy0");
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("scaling_available_governors"), "performance schedutil \n").unwrap();
        fs::write(folder.join("scaling_governor"), "schedutil\n").unwrap();
        let all = PlacedSetting::all("cpufreq_governor", root.path(), &SettingTargets::default()).unwrap();
        assert_eq!((all.len(), all[0].read().unwrap().as_str()), (1, "schedutil"));
        assert!(!all[0].is_unknown("performance") && all[0].is_unknown("powersave"));
    }
}
