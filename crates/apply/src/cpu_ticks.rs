//! What the CPUs of a host did since it booted.

use std::fs;
use std::io;
use std::path::Path;

/// The file, below the host's root.
pub(crate) const FILE: &str = "proc/stat";

/// Time of all CPUs since boot, in ticks of 1/100 s each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuTicks {
    /// Time in which they had nothing to do, or waited for a disk.
    pub idle: u64,
    /// Time in which they, themselves virtual, could run and had no CPU.
    pub steal: u64,
    /// All time of all CPUs.
    pub all: u64,
}

impl CpuTicks {
    /// Those of the host below `root`.
    pub fn read(root: &Path) -> io::Result<CpuTicks> {
        let text = fs::read_to_string(root.join(FILE))?;
        CpuTicks::parse(&text).ok_or_else(|| io::Error::other("not in the kernel's layout"))
    }

    /// The first line of /proc/stat, see proc(5): `cpu user nice system idle iowait irq softirq steal guest guest_nice`, the last
    /// two of which are within the first two.
    fn parse(text: &str) -> Option<CpuTicks> {
        let line = text.lines().next()?.strip_prefix("cpu ")?;
        let ticks: Vec<u64> = line.split_whitespace().take(8).filter_map(|ticks| ticks.parse().ok()).collect();
        let idle = ticks.get(3)?.saturating_add(*ticks.get(4)?);
        let all = ticks.iter().fold(0, |sum: u64, of| sum.saturating_add(*of));
        Some(CpuTicks { idle, steal: *ticks.get(7)?, all })
    }

    /// What was added since an earlier moment. A kernel may take back a few ticks of idle time.
    pub fn since(&self, earlier: &CpuTicks) -> CpuTicks {
        CpuTicks {
            idle: self.idle.saturating_sub(earlier.idle),
            steal: self.steal.saturating_sub(earlier.steal),
            all: self.all.saturating_sub(earlier.all),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guests_are_within_user_time_and_waiting_for_a_disk_is_idle() {
        let of = CpuTicks::parse("cpu  100 5 20 300 40 1 2 3 90 4\ncpu0 1 2 3\n").unwrap();
        assert_eq!(of, CpuTicks { idle: 340, steal: 3, all: 471 });
        let later = CpuTicks { idle: 339, steal: 5, all: 481 };
        assert_eq!(later.since(&of), CpuTicks { idle: 0, steal: 2, all: 10 });
        for text in ["", "cpu0 1 2 3 4 5 6 7 8\n", "cpu  1 2 3 4 5 6 7\n"] {
            assert_eq!(CpuTicks::parse(text), None, "{text}");
        }
        assert!(CpuTicks::read(Path::new("/")).unwrap().all > 0);
    }
}
