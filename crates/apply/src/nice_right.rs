//! Whether a nice value can be lowered, which is more than raising it: what could not be restored is not to be set.

use std::fs;

/// CAP_SYS_NICE as a bit of the effective set, see capabilities(7).
const SYS_NICE: u64 = 1 << 23;

/// The user namespace of the host (include/uapi/linux/nsfs.h: USER_NS_INIT_INO).
const FIRST_NAMESPACE: &str = "user:[4026531837]";

/// Whether this process may set a thread of `process` to this nice value, whatever it has now (kernel/sys.c, `set_one_prio`;
/// kernel/sched/syscalls.c, `can_nice`: by the capability in the first user namespace, or within the limit of the thread).
pub(crate) fn may_have_nice(process: u32, nice: i32) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    // A kernel without user namespaces has one, and no link.
    let is_first = fs::read_link("/proc/self/ns/user").map_or(true, |link| link.as_os_str() == FIRST_NAMESPACE);
    let limits = fs::read_to_string(format!("/proc/{process}/limits")).unwrap_or_default();
    is_right(has_capability(&status) && is_first, &limits, nice)
}

fn is_right(has_right: bool, limits: &str, nice: i32) -> bool {
    has_right || lowest_nice(limits).is_some_and(|lowest| nice >= lowest)
}

fn has_capability(status: &str) -> bool {
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    line.and_then(|set| u64::from_str_radix(set.trim(), 16).ok()).is_some_and(|set| set & SYS_NICE != 0)
}

/// The lowest nice value within RLIMIT_NICE, of which 20 is subtracted: `Max nice priority         0    0`.
fn lowest_nice(limits: &str) -> Option<i32> {
    let soft = limits.lines().find_map(|line| line.strip_prefix("Max nice priority"))?.split_whitespace().next()?;
    match soft {
        "unlimited" => Some(-20),
        soft => Some(20 - soft.parse::<i32>().ok()?.min(40)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_nice_value_is_lowered_by_the_capability_or_within_the_limit() {
        assert!(has_capability("Name:\tx\nCapEff:\t000001ffffffffff\n"));
        assert!(!has_capability("CapPrm:\t000001ffffffffff\nCapEff:\t00000000ff7fffff\n") && !has_capability(""));
        for (soft, lowest) in
            [("0", Some(20)), ("20", Some(0)), ("30", Some(-10)), ("unlimited", Some(-20)), ("x", None)]
        {
            let limits = format!("Max cpu time  unlimited\nMax nice priority         {soft}                    0\n");
            assert_eq!(lowest_nice(&limits), lowest, "{soft}");
        }
        let to_10 = "Max nice priority         10                    0\n";
        assert!(is_right(false, to_10, 11) && is_right(false, to_10, 10) && !is_right(false, to_10, 9));
        assert!(is_right(true, to_10, -20) && !is_right(false, "", 19));
        assert!(lowest_nice(&fs::read_to_string("/proc/self/limits").unwrap()).is_some());
    }
}
