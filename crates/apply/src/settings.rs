//! The settings of a running host that act at once and can be restored, beside the knobs of policies: one row each.
//!
//! A row says where the setting is, which values it takes and where the kernel documents it. Reading, writing, checking and
//! docs/settings.md follow from the row.

use exitscope_units::Nanos;
use std::fmt;
use std::fs;
use std::io::{self, Write};
use std::path::Path;

/// A setting.
#[derive(Debug, PartialEq, Eq)]
pub struct SettingDefinition {
    /// As it is typed.
    pub name: &'static str,
    /// Where a host has it.
    pub place: SettingPlace,
    /// The values that it takes.
    pub values: SettingValues,
    /// Whether a trial without a metric of the workload may judge it, by the share of vCPU time in exits. That share also falls when a
    /// VM gets less CPU time or waits longer: only what changes the VM's own memory faults, and has no thread of its own that would
    /// take CPU time, is judged by it.
    pub judged_by_cost: bool,
    /// What it does, in a sentence.
    pub about: &'static str,
    /// Where the kernel documents it, or implements it.
    pub source: &'static str,
}

/// Where a host has a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SettingPlace {
    /// A file.
    File(&'static str),
    /// A file in each folder of `within` whose name is `prefix` and a number.
    EachFolder {
        /// The folder of folders.
        within: &'static str,
        /// What their names begin with.
        prefix: &'static str,
        /// The file, below the folder.
        file: &'static str,
    },
    /// `cpu.max` of a control group (version 2), or `cpu.cfs_quota_us` (version 1).
    Quota,
    /// The CPUs that a thread may run on.
    Affinity(ThreadsOf),
    /// The nice value of a thread.
    Nice(ThreadsOf),
}

/// Which threads of a VM have a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThreadsOf {
    /// Those of its vCPUs.
    Vcpus,
    /// Those that work for its devices.
    Workers,
}

/// Values of a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SettingValues {
    /// A number within these bounds.
    Number(i64, i64),
    /// The same, or this word.
    NumberOr(i64, i64, &'static str),
    /// One of these words. Its file has the word alone, or all of them and the one in force in brackets.
    Words(&'static [&'static str]),
    /// A word that the host lists in this file.
    Listed(&'static str),
    /// `max`, or microseconds of CPU time in each period.
    Quota,
    /// Numbers of CPUs and ranges of them, joined by `+`, `0-3+8`; or [`ALL_CPUS`].
    Cpus,
}

/// The CPUs of a thread that is not pinned: all that its cpuset, or the host, has now and will have.
pub const ALL_CPUS: &str = "all";

/// The largest CPU number that is set: what the C library's `cpu_set_t` holds.
pub const MAX_CPU: usize = 1023;

/// The shortest quota: `min_cfs_quota_period` in kernel/sched/core.c.
const MIN_QUOTA: Nanos = Nanos(1_000_000);

const THP: &str = "Documentation/admin-guide/mm/transhuge.rst";
const KSM: &str = "Documentation/admin-guide/mm/ksm.rst";
const AFFINITY: &str = "kernel/sched/syscalls.c, sched_setaffinity";
const NICE: &str = "kernel/sys.c, setpriority: of the thread alone";
const UINT: i64 = u32::MAX as i64;

/// A file that takes a number.
const fn number(
    name: &'static str,
    path: &'static str,
    (min, max): (i64, i64),
    about: &'static str,
    source: &'static str,
) -> SettingDefinition {
    let (place, values) = (SettingPlace::File(path), SettingValues::Number(min, max));
    SettingDefinition { name, place, values, judged_by_cost: false, about, source }
}

/// All rows.
pub const SETTINGS: &[SettingDefinition] = &[
    SettingDefinition {
        name: "thp_enabled",
        place: SettingPlace::File("/sys/kernel/mm/transparent_hugepage/enabled"),
        values: SettingValues::Words(&["always", "madvise", "never"]),
        judged_by_cost: true,
        about: "Which memory gets huge pages: at a page fault at once, and bit by bit where khugepaged makes them of existing pages; \
            huge pages that are there stay",
        source: THP,
    },
    SettingDefinition {
        name: "thp_defrag",
        place: SettingPlace::File("/sys/kernel/mm/transparent_hugepage/defrag"),
        values: SettingValues::Words(&["always", "defer", "defer+madvise", "madvise", "never"]),
        judged_by_cost: true,
        about: "Whether a page fault waits until a huge page has been made free",
        source: THP,
    },
    number(
        "khugepaged_defrag",
        "/sys/kernel/mm/transparent_hugepage/khugepaged/defrag",
        (0, 1),
        "Whether khugepaged compacts memory to make huge pages",
        THP,
    ),
    number(
        "khugepaged_pages_to_scan",
        "/sys/kernel/mm/transparent_hugepage/khugepaged/pages_to_scan",
        (1, UINT),
        "Pages that khugepaged scans at a time",
        THP,
    ),
    number(
        "khugepaged_scan_sleep_millisecs",
        "/sys/kernel/mm/transparent_hugepage/khugepaged/scan_sleep_millisecs",
        (0, UINT),
        "How long khugepaged sleeps between scans, in milliseconds",
        THP,
    ),
    // 2 unmerges all pages, which setting 0 or 1 again does not undo (mm/ksm.c, run_store).
    number("ksm_run", "/sys/kernel/mm/ksm/run", (0, 1), "Whether ksmd merges equal pages", KSM),
    number("ksm_pages_to_scan", "/sys/kernel/mm/ksm/pages_to_scan", (0, UINT), "Pages that ksmd scans at a time", KSM),
    number(
        "ksm_sleep_millisecs",
        "/sys/kernel/mm/ksm/sleep_millisecs",
        (0, UINT),
        "How long ksmd sleeps between scans, in milliseconds",
        KSM,
    ),
    // Without it a VM may be slower for remote memory, and so have fewer exits: what exits cost does not judge it.
    number(
        "numa_balancing",
        "/proc/sys/kernel/numa_balancing",
        (0, 3),
        "Whether pages move to the node of the CPU that uses them (1), or between tiers of memory (2)",
        "Documentation/admin-guide/sysctl/kernel.rst",
    ),
    // Of `exitscope lab guests`, below the root that it is given: what a trial of it finds is known beforehand.
    number(
        "worker_delay_ns",
        "/worker_delay_ns",
        (0, 1_000_000_000),
        "Of `exitscope lab guests io` alone: how long its disk's worker takes, in nanoseconds",
        "docs/lab.md",
    ),
    SettingDefinition {
        name: "cpuidle_governor",
        place: SettingPlace::File("/sys/devices/system/cpu/cpuidle/current_governor"),
        values: SettingValues::Listed("available_governors"),
        judged_by_cost: false,
        about: "The governor that chooses the idle state of the host's CPUs",
        source: "Documentation/admin-guide/pm/cpuidle.rst",
    },
    SettingDefinition {
        name: "cpufreq_governor",
        place: SettingPlace::EachFolder {
            within: "/sys/devices/system/cpu/cpufreq",
            prefix: "policy",
            file: "scaling_governor",
        },
        values: SettingValues::Listed("scaling_available_governors"),
        judged_by_cost: false,
        about: "The governor that chooses the frequency of the host's CPUs, for each cpufreq policy. A governor that \
            is replaced loses its tunables (up_threshold, rate_limit_us, scaling_setspeed, …): they have their \
            defaults when it is restored",
        source: "Documentation/admin-guide/pm/cpufreq.rst; drivers/cpufreq/cpufreq_governor.c, cpufreq_dbs_governor_exit",
    },
    SettingDefinition {
        name: "cpu_resume_latency_us",
        place: SettingPlace::EachFolder {
            within: "/sys/devices/system/cpu",
            prefix: "cpu",
            file: "power/pm_qos_resume_latency_us",
        },
        // S32_MAX is the kernel's own for no limit (drivers/base/power/sysfs.c, pm_qos_resume_latency_us_store).
        values: SettingValues::NumberOr(0, i32::MAX as i64 - 1, "n/a"),
        judged_by_cost: false,
        about: "How long each CPU of the host may take to leave its idle state, in microseconds: 0 is no limit, n/a allows the first \
                state alone (on x86 POLL)",
        source: "Documentation/ABI/testing/sysfs-devices-power",
    },
    SettingDefinition {
        name: "cpu_quota",
        place: SettingPlace::Quota,
        values: SettingValues::Quota,
        judged_by_cost: false,
        about: "CPU time that a control group (--cgroup) has in each period; the period stays",
        source: "Documentation/admin-guide/cgroup-v2.rst, Documentation/scheduler/sched-bwc.rst",
    },
    SettingDefinition {
        name: "affinity",
        place: SettingPlace::Affinity(ThreadsOf::Vcpus),
        values: SettingValues::Cpus,
        judged_by_cost: false,
        about: "CPUs that each vCPU thread of a VM (--vm) may run on",
        source: AFFINITY,
    },
    SettingDefinition {
        name: "nice",
        place: SettingPlace::Nice(ThreadsOf::Vcpus),
        values: SettingValues::Number(-20, 19),
        judged_by_cost: false,
        about: "Nice value of each vCPU thread of a VM (--vm)",
        source: NICE,
    },
    SettingDefinition {
        name: "worker_affinity",
        place: SettingPlace::Affinity(ThreadsOf::Workers),
        values: SettingValues::Cpus,
        judged_by_cost: false,
        about: "CPUs that the threads that work for devices of a VM (--vm) may run on: the VMM's first thread, its I/O threads, and \
                vhost's",
        source: AFFINITY,
    },
    SettingDefinition {
        name: "worker_nice",
        place: SettingPlace::Nice(ThreadsOf::Workers),
        values: SettingValues::Number(-20, 19),
        judged_by_cost: false,
        about: "Nice value of the same threads",
        source: NICE,
    },
];

/// The row of that name.
pub fn setting(name: &str) -> Option<&'static SettingDefinition> {
    SETTINGS.iter().find(|setting| setting.name == name)
}

/// Writes the rows as a document (Markdown).
pub fn write_settings_document(out: &mut dyn Write) -> io::Result<()> {
    writeln!(
        out,
        "# Settings\n\nSettings of the running host that `exitscope try` sets and restores, beside the [knobs](knobs.md) that \
         can be written. Each acts at once, on what happens from then on. Generated by `exitscope docs settings`.\n\n\
         Where a metric of the workload is needed, exit cost alone judges nothing: it also falls when a VM gets less CPU time, or \
         waits longer.\n\n\
         | setting | values | where | what | metric of the workload | documented in |\n| --- | --- | --- | --- | --- | --- |"
    )?;
    for SettingDefinition { name, place, values, judged_by_cost, about, source } in SETTINGS {
        let metric = if *judged_by_cost { "or exit cost" } else { "needed" };
        writeln!(out, "| `{name}` | {values} | `{place}` | {about} | {metric} | {source} |")?;
    }
    Ok(())
}

impl SettingValues {
    /// Reads a value as people type it, and gives it in the one spelling that is kept and compared.
    pub fn parse(self, text: &str) -> Option<String> {
        let text = text.trim();
        match self {
            SettingValues::Number(min, max) => {
                text.parse::<i64>().ok().filter(|value| (min..=max).contains(value)).map(|value| value.to_string())
            }
            SettingValues::NumberOr(_, _, word) if text == word => Some(text.to_string()),
            SettingValues::NumberOr(min, max, _) => SettingValues::Number(min, max).parse(text),
            SettingValues::Words(words) => words.contains(&text).then(|| text.to_string()),
            SettingValues::Listed(_) => is_word(text).then(|| text.to_string()),
            SettingValues::Quota if text == "max" => Some(text.to_string()),
            SettingValues::Quota => {
                let micros = text.parse::<u64>().ok().and_then(|micros| micros.checked_mul(1_000)).map(Nanos);
                let quota = micros.or_else(|| Nanos::parse(text))?;
                (quota >= MIN_QUOTA).then(|| (quota.0 / 1_000).to_string())
            }
            SettingValues::Cpus if text == ALL_CPUS => Some(text.to_string()),
            SettingValues::Cpus => cpus(text).map(|cpus| cpu_list(&cpus)),
        }
    }

    /// The value in force, of what a file says.
    pub fn in_force(self, line: &str) -> String {
        let line = line.trim();
        let bracketed = || Some(line.split_once('[')?.1.split_once(']')?.0.to_string());
        match self {
            SettingValues::Words(_) => bracketed().unwrap_or_else(|| line.to_string()),
            SettingValues::Quota => match line.split_whitespace().next().unwrap_or_default() {
                "-1" => "max".to_string(),
                quota => quota.to_string(),
            },
            _ => line.to_string(),
        }
    }
}

impl fmt::Display for SettingValues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SettingValues::Number(min, max) => write!(f, "a number from {min} to {max}"),
            SettingValues::NumberOr(min, max, word) => write!(f, "a number from {min} to {max}, or {word}"),
            SettingValues::Words(words) => write!(f, "one of {}", words.join(", ")),
            SettingValues::Listed(file) => write!(f, "a word that {file} lists"),
            SettingValues::Quota => f.write_str("max, or CPU time in each period from 1ms on, like 50ms"),
            SettingValues::Cpus => write!(f, "CPUs, like 0-3+8, or {ALL_CPUS}"),
        }
    }
}

impl fmt::Display for SettingPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SettingPlace::File(path) => f.write_str(path),
            SettingPlace::EachFolder { within, prefix, file } => write!(f, "{within}/{prefix}*/{file}"),
            SettingPlace::Quota => f.write_str("cpu.max, cpu.cfs_quota_us"),
            SettingPlace::Affinity(_) => f.write_str("sched_setaffinity"),
            SettingPlace::Nice(_) => f.write_str("setpriority"),
        }
    }
}

/// Whether a text is one word as governors are called.
pub fn is_word(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|letter| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_'))
}

/// The CPUs of a list, in order and none twice; `None` of none.
pub fn cpus(text: &str) -> Option<Vec<usize>> {
    let mut cpus = Vec::new();
    for part in text.split('+') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (first.trim().parse::<usize>().ok()?, last.trim().parse::<usize>().ok()?);
        if first > last || last > MAX_CPU {
            return None;
        }
        cpus.extend(first..=last);
    }
    cpus.sort_unstable();
    cpus.dedup();
    Some(cpus)
}

/// The CPUs of a list as the kernel writes it, `0-3,8`.
pub fn kernel_cpus(text: &str) -> Option<Vec<usize>> {
    cpus(&text.trim().replace(',', "+"))
}

/// The CPUs that a file lists so.
pub fn listed_cpus(file: &Path) -> Option<Vec<usize>> {
    kernel_cpus(&fs::read_to_string(file).ok()?)
}

/// CPUs in order as a list.
pub fn cpu_list(cpus: &[usize]) -> String {
    let ranges = cpus.chunk_by(|a, b| a + 1 == *b);
    let text = |range: &[usize]| match range {
        [one] => one.to_string(),
        _ => format!("{}-{}", range[0], range[range.len() - 1]),
    };
    ranges.map(text).collect::<Vec<_>>().join("+")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_of_letters_digits_and_what_joins_them() {
        assert!(is_word("menu") && is_word("intel_pstate-2") && is_word("-"));
        assert!(!is_word("") && !is_word("a b") && !is_word("../menu"));
    }

    #[test]
    fn values_are_read_as_people_write_them_and_kept_in_one_spelling() {
        for (name, text, value) in [
            ("thp_enabled", " always ", Some("always")),
            ("thp_enabled", "[always]", None),
            ("thp_defrag", "defer+madvise", Some("defer+madvise")),
            ("ksm_run", "2", None),
            ("khugepaged_pages_to_scan", "0", None),
            ("nice", "-05", Some("-5")),
            ("cpu_quota", "50ms", Some("50000")),
            ("cpu_quota", "50000", Some("50000")),
            ("cpu_quota", "max", Some("max")),
            ("cpu_quota", "10us", None),
            ("affinity", "3+0-1+1", Some("0-1+3")),
            ("affinity", " all", Some("all")),
            ("affinity", "1-0", None),
            ("affinity", "0-1024", None),
            ("affinity", "", None),
            ("cpuidle_governor", "../menu", None),
            ("cpu_resume_latency_us", " n/a ", Some("n/a")),
            ("cpu_resume_latency_us", "020", Some("20")),
            ("cpu_resume_latency_us", "2147483647", None),
        ] {
            assert_eq!(setting(name).unwrap().values.parse(text).as_deref(), value, "{name}={text}");
        }
    }

    #[test]
    fn the_value_in_force_is_found_in_what_the_kernel_prints() {
        for (name, line, value) in [
            ("thp_defrag", "always defer [defer+madvise] madvise never\n", "defer+madvise"),
            ("cpuidle_governor", "menu\n", "menu"),
            ("cpu_quota", "max 100000\n", "max"),
            ("cpu_quota", "50000 100000\n", "50000"),
            ("cpu_quota", "-1\n", "max"),
            ("ksm_pages_to_scan", "100\n", "100"),
            ("cpu_resume_latency_us", "n/a\n", "n/a"),
        ] {
            assert_eq!(setting(name).unwrap().values.in_force(line), value, "{name}");
        }
    }

    #[test]
    fn no_name_is_there_twice_nor_that_of_a_knob() {
        for (at, row) in SETTINGS.iter().enumerate() {
            assert!(SETTINGS[..at].iter().all(|other| other.name != row.name), "{}", row.name);
            assert!(exitscope_policy::knob(row.name).is_none(), "{}", row.name);
        }
    }
}
