//! How to record what a trace lacks: the commands that views, replays and advice name.

/// Exits, what they are about, halts, yields and the scheduler, on a host that `uname -m` calls `arch`.
pub fn all(arch: &str, xen: bool) -> &'static str {
    match arch {
        _ if xen => XEN,
        _ if arch.starts_with("ppc") => {
            "`exitscope record --for 10s` (or `perf record -e 'kvm_hv:*' -e 'kvm:*' -e sched:sched_switch -e \
             sched:sched_wakeup -a -- sleep 10`)"
        }
        _ => {
            "`exitscope record --for 10s` (or `perf record -e 'kvm:*' -e sched:sched_switch -e sched:sched_wakeup -a -- \
             sleep 10`)"
        }
    }
}

/// The same, and the system calls of user space.
pub fn with_calls(xen: bool) -> &'static str {
    match xen {
        true => XEN,
        false => {
            "`exitscope record --for 10s --for-view phases` (or `perf record -e 'kvm:*' -e sched:sched_switch -e \
             sched:sched_wakeup -e raw_syscalls:sys_enter -e raw_syscalls:sys_exit -a -- sleep 10`)"
        }
    }
}

/// Core runs of POWER7 and POWER8.
pub const CORE_RUNS: &str = "`exitscope record --for 10s` (or `perf record -e 'kvm_hv:*' -a -- sleep 10`)";

const XEN: &str = "`xentrace -D -e 0x000af000 -T 10 FILE`";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_that_records_is_that_of_the_host() {
        let names = |text: &str| ["xentrace", "kvm_hv:*", "'kvm:*'", "raw_syscalls"].map(|name| text.contains(name));
        for (what, text, expected) in [
            ("x86", all("x86_64", false), [false, false, true, false]),
            ("powerpc", all("ppc64le", false), [false, true, true, false]),
            ("Xen", all("x86_64", true), [true, false, false, false]),
            ("Xen, whatever the machine", all("ppc64le", true), [true, false, false, false]),
            ("with system calls", with_calls(false), [false, false, true, true]),
            ("Xen with system calls", with_calls(true), [true, false, false, false]),
        ] {
            assert_eq!(names(text), expected, "{what}: {text}");
        }
    }
}
