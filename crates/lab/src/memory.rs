//! A guest's memory: so many bytes of ours, mapped once, never moved.
//!
//! The guest may write anywhere in it at any moment, so that it is read and written through raw pointers and atomics
//! only, never through a plain reference.

use crate::LabError;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64};

/// A guest's memory, from guest-physical address 0 on. Unmapped when the last VM that uses it is gone.
#[derive(Debug)]
pub struct GuestMemory {
    start: NonNull<u8>,
    size: u64,
}

// SAFETY: it is a range of shared memory, used through atomics and volatile copies only.
unsafe impl Send for GuestMemory {}
// SAFETY: as above.
unsafe impl Sync for GuestMemory {}

impl GuestMemory {
    /// `size` bytes of zeros; pages are taken from the system when they are first used.
    pub fn new(size: u64) -> Result<GuestMemory, LabError> {
        let length = usize::try_from(size).expect("a guest's memory is small");
        // SAFETY: a new anonymous mapping at a place that the kernel chooses touches no memory of ours.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                length,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                -1,
                0,
            )
        };
        let Some(start) = NonNull::new(start.cast::<u8>()).filter(|start| start.as_ptr().cast() != libc::MAP_FAILED)
        else {
            return Err(LabError::io("mmap of a guest's memory", std::io::Error::last_os_error()));
        };
        // A huge page would come with one fault for 512 of them, and guests use few. It fails only where there are none.
        // SAFETY: the range is the mapping, which nobody uses yet.
        unsafe { libc::madvise(start.as_ptr().cast(), length, libc::MADV_NOHUGEPAGE) };
        Ok(GuestMemory { start, size })
    }

    /// Bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Where it is in our address space, for KVM.
    pub(crate) fn host_address(&self) -> u64 {
        self.start.as_ptr() as u64
    }

    /// The place of `length` bytes at guest-physical `address`. Panics if they are not in memory: addresses are ours, never
    /// the guest's.
    fn at(&self, address: u64, length: u64) -> *mut u8 {
        let fits = address.checked_add(length).is_some_and(|end| end <= self.size);
        assert!(fits, "{length} bytes at {address:#x} are not in a guest's memory of {:#x} bytes", self.size);
        // SAFETY: within the mapping, as was just checked.
        unsafe { self.start.as_ptr().add(address as usize) }
    }

    /// Writes bytes.
    pub fn write(&self, address: u64, bytes: &[u8]) {
        let to = self.at(address, bytes.len() as u64);
        // SAFETY: the place is within the mapping, and `bytes` is not, as no references into it are given out but atomics.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) };
    }

    /// Reads bytes.
    pub fn read(&self, address: u64, bytes: &mut [u8]) {
        let from = self.at(address, bytes.len() as u64);
        // SAFETY: as for `write`.
        unsafe { std::ptr::copy_nonoverlapping(from, bytes.as_mut_ptr(), bytes.len()) };
    }

    /// Fills a range with zeros.
    pub fn clear(&self, address: u64, length: u64) {
        let to = self.at(address, length);
        // SAFETY: within the mapping.
        unsafe { std::ptr::write_bytes(to, 0, length as usize) };
    }

    /// Writes a value.
    pub fn put<T: PlainData>(&self, address: u64, value: &T) {
        let to = self.at(address, size_of::<T>() as u64).cast::<T>();
        // SAFETY: the place is within the mapping; any bytes may stand there.
        unsafe { to.write_unaligned(*value) };
    }

    /// Reads a value.
    pub fn get<T: PlainData>(&self, address: u64) -> T {
        let from = self.at(address, size_of::<T>() as u64).cast::<T>();
        // SAFETY: the place is within the mapping; any bytes are a `T`, as it is plain.
        unsafe { from.read_unaligned() }
    }

    /// Gives the pages of a range back to the system: they are zeros again, and the guest's next access to each of them
    /// is a page fault that KVM has to serve.
    pub fn forget(&self, address: u64, length: u64) -> Result<(), LabError> {
        let start = self.at(address, length);
        // SAFETY: the range is within the private anonymous mapping, and nothing of ours depends on its bytes.
        match unsafe { libc::madvise(start.cast(), length as usize, libc::MADV_DONTNEED) } {
            0 => Ok(()),
            _ => Err(LabError::io("madvise of a guest's memory", std::io::Error::last_os_error())),
        }
    }

    /// The 32-bit word at a 4-byte-aligned address.
    pub fn u32(&self, address: u64) -> &AtomicU32 {
        assert!(address.is_multiple_of(4));
        // SAFETY: within the mapping, which lives as long as `self`; aligned; every bit pattern is one.
        unsafe { &*self.at(address, 4).cast::<AtomicU32>() }
    }

    /// The 64-bit word at an 8-byte-aligned address.
    pub fn u64(&self, address: u64) -> &AtomicU64 {
        assert!(address.is_multiple_of(8));
        // SAFETY: as for `u32`.
        unsafe { &*self.at(address, 8).cast::<AtomicU64>() }
    }
}

/// A type whose every pattern of bits is a value, without padding that anybody looks at.
///
/// # Safety
///
/// It must consist of integers only.
pub unsafe trait PlainData: Copy {}

// SAFETY: integers and arrays of them.
unsafe impl PlainData for crate::abi::ProgramStep {}
// SAFETY: as above.
unsafe impl PlainData for crate::abi::VcpuPage {}
// SAFETY: as above.
unsafe impl PlainData for crate::abi::Control {}
// SAFETY: an integer.
unsafe impl PlainData for u32 {}

impl Drop for GuestMemory {
    fn drop(&mut self) {
        // SAFETY: it is the mapping of `new`, and nobody has references into it any more.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.size as usize) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::ProgramStep;
    use std::panic::catch_unwind;
    use std::sync::atomic::Ordering::Relaxed;

    const SIZE: u64 = 3 * 4096;

    #[test]
    fn what_was_written_is_read_up_to_the_last_byte() {
        let memory = GuestMemory::new(SIZE).unwrap();
        let step = ProgramStep { op: 1, a: 2, b: 3, c: u64::MAX };
        let last = SIZE - size_of::<ProgramStep>() as u64;
        // Steps may stand anywhere, aligned or not.
        for at in [0, 1, 4096 - 5, last] {
            memory.put(at, &step);
            assert_eq!(memory.get::<ProgramStep>(at), step, "at {at}");
        }
        memory.write(SIZE - 3, &[7, 8, 9]);
        let mut bytes = [0; 4];
        memory.read(SIZE - 4, &mut bytes);
        assert_eq!(bytes, [0xff, 7, 8, 9]);
        memory.u32(SIZE - 4).store(5, Relaxed);
        assert_eq!(memory.u64(SIZE - 8).load(Relaxed) >> 32, 5);
        memory.write(SIZE, &[]);
    }

    #[test]
    fn cleared_and_forgotten_bytes_are_zeros_and_no_others_are() {
        let memory = GuestMemory::new(SIZE).unwrap();
        let sum = || {
            let mut bytes = vec![0; SIZE as usize];
            memory.read(0, &mut bytes);
            bytes.iter().map(|&byte| u64::from(byte)).sum::<u64>()
        };
        memory.write(0, &[1; SIZE as usize]);
        memory.clear(5, 10);
        assert_eq!(sum(), SIZE - 10);
        memory.forget(4096, 4096).unwrap();
        assert_eq!(sum(), SIZE - 10 - 4096);
        memory.clear(0, SIZE);
        assert_eq!(sum(), 0);
    }

    #[test]
    fn nothing_beyond_the_end_is_touched() {
        let memory = GuestMemory::new(SIZE).unwrap();
        let beyond: [&(dyn Fn() + std::panic::RefUnwindSafe); 8] = [
            &|| memory.write(SIZE - 1, &[0; 2]),
            &|| memory.read(u64::MAX, &mut [0; 2]),
            &|| memory.clear(0, SIZE + 1),
            &|| memory.put(SIZE - 4, &ProgramStep::default()),
            &|| assert_eq!(memory.get::<ProgramStep>(SIZE), ProgramStep::default()),
            &|| drop(memory.forget(SIZE, 1)),
            &|| memory.u32(SIZE).store(0, Relaxed),
            &|| memory.u64(SIZE).store(0, Relaxed),
        ];
        for (number, access) in beyond.into_iter().enumerate() {
            assert!(catch_unwind(access).is_err(), "access {number} was let through");
        }
    }
}
