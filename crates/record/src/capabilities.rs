//! What a process must be allowed to do, so that it can record without being root.

use std::fs;

/// A capability of Linux, and what it is for here. With each is said what else it allows: SECURITY.md.
#[derive(Debug)]
pub struct Capability {
    /// As setcap and setpriv write it.
    pub name: &'static str,
    /// include/uapi/linux/capability.h.
    number: u32,
    /// What it is needed for.
    pub needed_for: &'static str,
    /// What happens without it.
    pub without: Without,
}

/// What becomes of recording without a capability.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Without {
    /// Nothing is recorded.
    Nothing,
    /// It works, and costs guests more.
    Dearer,
    /// It works, and one thing is not told.
    Less,
}

/// What a group of tracefs spares.
const READS_EVERYTHING: &str = "cap_dac_read_search";

/// All, those first without which nothing works.
///
/// perf_event_open of other processes' events asks for CAP_PERFMON unless perf_event_paranoid is -1 (include/linux/perf_event.h,
/// `perf_allow_tracepoint`), and so does loading a BPF program of tracing, beside CAP_BPF (kernel/bpf/syscall.c, `bpf_prog_load`:
/// `is_perfmon_prog_type`), Linux 6.12. CAP_SYS_ADMIN holds both (`perfmon_capable`, `bpf_capable`). tracefs is mounted for root alone, mode 0700
/// (fs/tracefs/inode.c, TRACEFS_DEFAULT_MODE). BPF_ENABLE_STATS asks for CAP_SYS_ADMIN (kernel/bpf/syscall.c, `bpf_enable_stats`).
pub const CAPABILITIES: [Capability; 4] = [
    Capability {
        name: "cap_perfmon",
        number: 38,
        needed_for: "tracepoints of all processes, by BPF programs or perf events",
        without: Without::Nothing,
    },
    Capability {
        name: READS_EVERYTHING,
        number: 2,
        needed_for: "reading tracefs, where it is not given to a group of yours",
        without: Without::Nothing,
    },
    Capability {
        name: "cap_bpf",
        number: 39,
        needed_for: "BPF programs, which cost guests less",
        without: Without::Dearer,
    },
    Capability {
        name: "cap_sys_admin",
        number: 21,
        needed_for: "measuring what recording and counting cost; not needed, and better not given",
        without: Without::Less,
    },
];

impl Capability {
    /// Whether this process has it; `None` where /proc does not say.
    pub fn is_held(&self) -> Option<bool> {
        let status = fs::read_to_string("/proc/self/status").ok()?;
        let mask = status.lines().find_map(|line| line.strip_prefix("CapEff:"))?;
        Some(u64::from_str_radix(mask.trim(), 16).ok()? >> self.number & 1 == 1)
    }

    /// Those that recording needs, as setcap takes them, where tracefs is given to a group of those who record: without the one that
    /// reads every file of the host.
    pub fn where_tracefs_is_readable() -> String {
        let needed = CAPABILITIES.iter().filter(|of| of.without != Without::Less && of.name != READS_EVERYTHING);
        format!("{}+ep", needed.map(|of| of.name).collect::<Vec<_>>().join(","))
    }

    /// How root gives a program what recording needs.
    pub fn remedy() -> String {
        let needed = CAPABILITIES.iter().filter(|of| of.without != Without::Less).map(|of| of.name);
        format!("run as root, or `setcap {}+ep` the program", needed.collect::<Vec<_>>().join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_needed_is_not_asked_for() {
        let remedy = Capability::remedy();
        assert!(remedy.contains("`setcap cap_perfmon,cap_dac_read_search,cap_bpf+ep` the program"), "{remedy}");
        assert_eq!(Capability::where_tracefs_is_readable(), "cap_perfmon,cap_bpf+ep");
        assert!(CAPABILITIES.iter().all(|of| of.is_held().is_some()));
    }
}
