//! KVM's own counters of a vCPU, as binary statistics (KVM_GET_STATS_FD).
//!
//! ```text
//! header: flags, name_size, descriptors, offsets of id, descriptors and data, 32 bits each
//! descriptor: 32 bits of flags, 16 of exponent, 16 of size, 32 of offset in data, 32 of bucket size, name
//! ```
//!
//! Source: Linux Documentation/virt/kvm/api.rst, 4.133.

use crate::LabVcpu;
use std::fs::File;
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::fs::FileExt;

/// Descriptors that are read at most, and the longest name: several times what any kernel has.
const MAX_COUNTERS: u64 = 4_096;
const MAX_NAME: usize = 256;

/// The counters of these names so far; `None` if this kernel has not got all of them.
pub fn vcpu_counters<const N: usize>(vcpu: &mut LabVcpu, names: [&str; N]) -> Option<[u64; N]> {
    const KVM_GET_STATS_FD: libc::c_ulong = 0xaece;
    // SAFETY: the call takes no argument and gives a new file descriptor, or -1.
    let fd = unsafe { libc::ioctl(vcpu.fd().as_raw_fd(), KVM_GET_STATS_FD, 0) };
    if fd < 0 {
        return None;
    }
    // SAFETY: the descriptor is new and nobody else's.
    let file = unsafe { File::from_raw_fd(fd) };
    let mut found = [None; N];
    let header = |at: u64| word(&file, at * 4);
    let (name_size, count) = (header(1)? as usize, header(2)?.min(MAX_COUNTERS));
    let (descriptors, data) = (header(4)?, header(5)?);
    let mut name = [0; MAX_NAME];
    let name = name.get_mut(..name_size)?;
    for number in 0..count {
        let at = descriptors + number * (16 + name_size as u64);
        file.read_exact_at(name, at + 16).ok()?;
        let text = name.split(|&byte| byte == 0).next().unwrap_or_default();
        if let Some(wanted) = names.iter().position(|wanted| wanted.as_bytes() == text) {
            let mut value = [0; 8];
            file.read_exact_at(&mut value, data + word(&file, at + 8)?).ok()?;
            found[wanted] = Some(u64::from_ne_bytes(value));
        }
    }
    let all = found.map(|value| value.unwrap_or(0));
    found.iter().all(Option::is_some).then_some(all)
}

fn word(file: &File, at: u64) -> Option<u64> {
    let mut bytes = [0; 4];
    file.read_exact_at(&mut bytes, at).ok()?;
    Some(u32::from_ne_bytes(bytes).into())
}
