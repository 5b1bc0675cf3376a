//! KVM's own statistics of virtual CPUs, as it hands them out on descriptors of KVM_GET_STATS_FD.
//!
//! ```text
//! the VMM's descriptor anon_inode:kvm-vcpu-stats:N ─► pidfd_getfd ─► read, closed at once
//!
//! header: flags · size of names · how many · where are: the id, descriptors, data          (6 × 4 bytes)
//! descriptor: flags (4) exponent (2) size (2) offset (4) parameter (4) name
//! data, at a descriptor's offset: as many numbers of 8 bytes as its size says
//! ```
//!
//! Only the process that made a VM may ask KVM for such a descriptor; others get EIO. What it keeps open can be taken from
//! it, as QEMU does since 8.1. A descriptor keeps the whole VM alive, so that none is kept.
//!
//! Source: Documentation/virt/kvm/api.rst, section 4.133.

use crate::bytes::{u16_at, u32_at, u64_at};
use crate::sys;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::FileExt;

/// What the link of such a descriptor begins with; the number of the virtual CPU follows.
const LINK: &str = "anon_inode:kvm-vcpu-stats:";

/// Bytes of the header, and of a descriptor without its name.
const HEADER: usize = 24;
const DESCRIPTOR: usize = 16;

/// Bounds on what is taken for statistics. KVM has some fifty of a virtual CPU, in 3 KB.
const MAX_NAME: usize = 256;
const MAX_COUNT: usize = 4096;
const MAX_DATA: usize = 1 << 20;

/// Descriptors that are read of one process, at most.
const MAX_VCPUS: usize = 4096;

/// The parts of a descriptor's flags.
const TYPE: u32 = 0xf;
const LOG_HISTOGRAM: u32 = 4;
const UNIT_AND_BASE: u32 = 0xff0;
/// Seconds, times powers of ten.
const DECIMAL_SECONDS: u32 = 0x20;
/// The power that makes nanoseconds of them.
const NANO: i16 = -9;

/// The statistics of a virtual CPU since it was made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    by_name: BTreeMap<String, Stat>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Stat {
    flags: u32,
    exponent: i16,
    values: Vec<u64>,
}

impl Stats {
    /// A number, if there is one of this name; of a histogram its first.
    pub fn value(&self, name: &str) -> Option<u64> {
        self.by_name.get(name)?.values.first().copied()
    }

    /// A logarithmic histogram of lengths: of each bucket that is not empty, its lower bound in nanoseconds and its count.
    pub fn lengths(&self, name: &str) -> Option<Vec<(u64, u64)>> {
        let stat = self.by_name.get(name)?;
        let fits = stat.flags & TYPE == LOG_HISTOGRAM
            && stat.flags & UNIT_AND_BASE == DECIMAL_SECONDS
            && stat.exponent == NANO
            && stat.values.len() <= 64;
        // The first bucket is 0, the next 1, then 2 and 3, 4 to 7, and so on.
        let low = |at: usize| if at == 0 { 0 } else { 1 << (at - 1) };
        let buckets = stat.values.iter().enumerate().filter(|(_, count)| **count > 0);
        fits.then(|| buckets.map(|(at, &count)| (low(at), count)).collect())
    }

    /// Reads them by `read`, which fills a buffer from a place on.
    fn read(read: impl Fn(&mut [u8], u64) -> io::Result<()>) -> io::Result<Stats> {
        let bytes = |at: usize, size: usize| {
            let mut bytes = vec![0; size];
            read(&mut bytes, at as u64).map(|()| bytes)
        };
        let odd = || io::Error::new(io::ErrorKind::InvalidData, "not statistics of KVM");
        let header = bytes(0, HEADER)?;
        let [name_size, count, descriptors, data] = [4, 8, 16, 20].map(|at| u32_at(&header, at) as usize);
        if name_size > MAX_NAME || count > MAX_COUNT {
            return Err(odd());
        }
        let each = DESCRIPTOR + name_size;
        let descriptors = bytes(descriptors, count * each)?;
        let places = descriptors.chunks_exact(each).map(|raw| (raw, u32_at(raw, 8) as usize, u16_at(raw, 6) as usize));
        let size = places.clone().map(|(_, from, values)| from.saturating_add(8 * values)).max().unwrap_or(0);
        if size > MAX_DATA {
            return Err(odd());
        }
        let data = bytes(data, size)?;
        let by_name = places.map(|(raw, from, values)| {
            let name: Vec<u8> = raw[DESCRIPTOR..].iter().copied().take_while(|&byte| byte != 0).collect();
            let values = (0..values).map(|at| u64_at(&data, from + 8 * at)).collect();
            let stat = Stat { flags: u32_at(raw, 0), exponent: u16_at(raw, 4) as i16, values };
            (String::from_utf8_lossy(&name).into_owned(), stat)
        });
        Ok(Stats { by_name: by_name.collect() })
    }
}

/// The statistics of a process's virtual CPUs, with the number of each, as far as it keeps descriptors of them open: empty
/// where it does not. Needs what attaching a debugger needs (root, or CAP_SYS_PTRACE).
pub fn vcpu_stats(process: u32) -> io::Result<Vec<(u32, Stats)>> {
    let mut open: Vec<(RawFd, u32)> = Vec::new();
    for entry in fs::read_dir(format!("/proc/{process}/fd"))?.flatten() {
        let fd = entry.file_name().to_str().and_then(|name| name.parse().ok());
        let vcpu = fs::read_link(entry.path()).ok().and_then(|link| link.to_str()?.strip_prefix(LINK)?.parse().ok());
        open.extend(fd.zip(vcpu));
    }
    if open.is_empty() {
        return Ok(Vec::new());
    }
    let process = sys::open_process(process)?;
    let mut stats = Vec::new();
    for (fd, vcpu) in open.into_iter().take(MAX_VCPUS) {
        let taken = match sys::take_descriptor(&process, fd) {
            Ok(taken) => File::from(taken),
            // It was closed meanwhile.
            Err(error) if error.raw_os_error() == Some(libc::EBADF) => continue,
            Err(error) => return Err(error),
        };
        // Another may have taken its place.
        let link = fs::read_link(format!("/proc/self/fd/{}", taken.as_raw_fd()))?;
        if link.to_str() == Some(&format!("{LINK}{vcpu}")) {
            stats.push((vcpu, Stats::read(|to, at| taken.read_exact_at(to, at))?));
        }
    }
    Ok(stats)
}

#[cfg(test)]
#[path = "stats_tests.rs"]
mod tests;
