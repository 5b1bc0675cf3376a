//! What may slow a guest beside exits and waiting. No recording of its host judges it: where exits are ruled out it is named, in no
//! order, with what shows it.

/// Something that may slow a guest.
#[derive(Clone, Copy, Debug)]
pub struct GuestCheck {
    /// What it is.
    pub what: &'static str,
    /// What shows it: commands between backquotes.
    pub check: &'static str,
    /// Whether it is about what exits hide around their tracepoints, and answered where that was measured.
    pub is_of_hidden: bool,
    /// Whether it may be so on a host of this architecture, as `uname -m` says it, with so many CPUs; empty and 0 if unknown.
    pub fits: fn(&str, u32) -> bool,
}

const fn check(what: &'static str, check: &'static str, fits: fn(&str, u32) -> bool) -> GuestCheck {
    GuestCheck { what, check, is_of_hidden: false, fits }
}

/// All.
pub const GUEST_CHECKS: &[GuestCheck] = &[
    check("mitigations in the guest", "`grep . /sys/devices/system/cpu/vulnerabilities/*` in the guest", |_, _| true),
    check(
        "NUMA",
        "`numastat -p PID` and `numactl --hardware` on the host: whether the guest's memory is on the nodes of its vCPUs' CPUs",
        |_, cpus| cpus != 1,
    ),
    check(
        "huge pages of the guest",
        "`grep -i huge /proc/PID/smaps_rollup` on the host, `grep -i huge /proc/meminfo` in the guest",
        |_, _| true,
    ),
    check(
        "frequency",
        "`perf stat -e cycles,task-clock -t TID -- sleep 10` on the host, of a vCPU's thread",
        |_, _| true,
    ),
    // arm64's servers have one thread a core.
    check("SMT", "`lscpu -e` on the host, and what runs on the sibling of a vCPU's CPU", |arch, cpus| {
        cpus != 1 && !arch.starts_with("aarch64")
    }),
    GuestCheck {
        what: "what an exit hides on this host",
        check: "`systemd-detect-virt` (a host that is a VM itself) and `cat /sys/devices/system/cpu/vulnerabilities/l1tf` (cache flushes \
            at entry) on the host: with either it is more; `exitscope lab exits` measures it",
        is_of_hidden: true,
        fits: |_, _| true,
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_with_one_cpu_has_neither_nodes_nor_siblings() {
        let fitting = |arch, cpus| -> Vec<&str> {
            GUEST_CHECKS.iter().filter(|row| (row.fits)(arch, cpus)).map(|row| row.what).collect()
        };
        assert_eq!(fitting("", 0).len(), GUEST_CHECKS.len());
        assert!(!fitting("x86_64", 1).iter().any(|what| ["NUMA", "SMT"].contains(what)));
        assert!(!fitting("aarch64", 64).contains(&"SMT") && fitting("s390x", 4).contains(&"SMT"));
    }
}
