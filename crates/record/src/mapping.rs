//! Memory that is shared with the kernel.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64};

/// A mapping of a file descriptor, which is unmapped at the end.
#[derive(Debug)]
pub struct Mapping {
    at: NonNull<u8>,
    size: usize,
}

// SAFETY: the mapping belongs to nobody's stack or thread; what it hands out are atomics and copies.
unsafe impl Send for Mapping {}

impl Mapping {
    /// Maps `size` bytes of `fd` from `offset` on.
    pub fn new(fd: &OwnedFd, offset: usize, size: usize, writable: bool) -> io::Result<Mapping> {
        let protection = libc::PROT_READ | if writable { libc::PROT_WRITE } else { 0 };
        // SAFETY: a new mapping where the kernel likes it touches no memory of ours.
        let at = unsafe {
            libc::mmap(std::ptr::null_mut(), size, protection, libc::MAP_SHARED, fd.as_raw_fd(), offset as libc::off_t)
        };
        if at == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let at = NonNull::new(at.cast()).ok_or(io::ErrorKind::InvalidData)?;
        Ok(Mapping { at, size })
    }

    fn place(&self, offset: usize, size: usize) -> *mut u8 {
        assert!(offset.is_multiple_of(size.min(8)) && offset + size <= self.size, "{offset} is not in the mapping");
        // SAFETY: it lies in the mapping, as was just looked at.
        unsafe { self.at.as_ptr().add(offset) }
    }

    /// A number of 8 bytes that the kernel changes, or looks at, meanwhile.
    pub fn u64(&self, offset: usize) -> &AtomicU64 {
        // SAFETY: aligned, in the mapping, which lives as long as `self`; only atomics look at shared numbers.
        unsafe { AtomicU64::from_ptr(self.place(offset, 8).cast()) }
    }

    /// A number of 4 bytes of that kind.
    pub fn u32(&self, offset: usize) -> &AtomicU32 {
        // SAFETY: as above.
        unsafe { AtomicU32::from_ptr(self.place(offset, 4).cast()) }
    }

    /// Appends bytes to `to`, which the kernel must not be writing: it has said so by a number that was loaded before.
    pub fn copy(&self, offset: usize, size: usize, to: &mut Vec<u8>) {
        assert!(offset + size <= self.size, "{offset} is not in the mapping");
        // SAFETY: in the mapping, and nobody writes there until we say that we have read it.
        to.extend_from_slice(unsafe { std::slice::from_raw_parts(self.at.as_ptr().add(offset), size) });
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and nothing refers to it any more.
        unsafe { libc::munmap(self.at.as_ptr().cast(), self.size) };
    }
}
