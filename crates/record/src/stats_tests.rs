//! The layout, whole and damaged; and a virtual CPU of this machine's KVM that halts a known number of times.

use super::*;
use exitscope_skips::{Part, or_skip, skip};
use std::os::fd::{FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Statistics as the kernel lays them out: name, flags, exponent, values.
fn laid_out(stats: &[(&str, u32, i16, &[u64])]) -> Vec<u8> {
    const NAME: usize = 48;
    let id = b"kvm-1/vcpu-0".as_slice();
    let descriptors = HEADER + NAME;
    let data = descriptors + stats.len() * (DESCRIPTOR + NAME);
    let mut bytes = Vec::new();
    for number in [0, NAME, stats.len(), HEADER, descriptors, data] {
        bytes.extend((number as u32).to_ne_bytes());
    }
    bytes.extend(id);
    bytes.resize(descriptors, 0);
    let mut offset = 0u32;
    for (name, flags, exponent, values) in stats {
        bytes.extend(flags.to_ne_bytes());
        bytes.extend(exponent.to_ne_bytes());
        bytes.extend((values.len() as u16).to_ne_bytes());
        bytes.extend(offset.to_ne_bytes());
        bytes.extend(0u32.to_ne_bytes());
        bytes.extend(name.as_bytes());
        bytes.resize(bytes.len() + NAME - name.len(), 0);
        offset += 8 * values.len() as u32;
    }
    bytes.extend(stats.iter().flat_map(|stat| stat.3).flat_map(|value| value.to_ne_bytes()));
    bytes
}

fn read(bytes: &[u8]) -> io::Result<Stats> {
    Stats::read(|to, at| {
        let from = bytes.get(usize::try_from(at).unwrap()..).and_then(|rest| rest.get(..to.len()));
        to.copy_from_slice(from.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    })
}

const HISTOGRAM: u32 = LOG_HISTOGRAM | DECIMAL_SECONDS;

#[test]
fn numbers_and_histograms_are_found_by_name() {
    let bytes = laid_out(&[
        ("halt_wakeup", 0, 0, &[7]),
        ("halt_wait_hist", HISTOGRAM, -9, &[1, 0, 2, 0, 3]),
        ("cycles_hist", LOG_HISTOGRAM | 0x30, -9, &[1]),
        ("halt_wait_ns", DECIMAL_SECONDS, -9, &[900]),
    ]);
    let stats = read(&bytes).unwrap();
    assert_eq!(
        (stats.value("halt_wakeup"), stats.value("halt_wait_ns"), stats.value("none")),
        (Some(7), Some(900), None)
    );
    assert_eq!(stats.lengths("halt_wait_hist"), Some(vec![(0, 1), (2, 2), (8, 3)]));
    assert_eq!(stats.lengths("halt_wakeup"), None, "no histogram");
    assert_eq!(stats.lengths("cycles_hist"), None, "not of time");
    assert_eq!(read(&laid_out(&[])).unwrap(), Stats::default());
}

#[test]
fn damage_is_an_error_or_other_numbers_and_never_much_memory() {
    let whole = laid_out(&[("a", 0, 0, &[7]), ("b", HISTOGRAM, -9, &[1, 2, 3])]);
    for cut in 0..whole.len() {
        assert!(read(&whole[..cut]).is_err(), "cut at {cut}");
    }
    for at in 0..whole.len() {
        for value in [0, 1, 0x7f, 0xff] {
            let mut bytes = whole.clone();
            bytes[at] = value;
            // Bounds hold where memory is asked for; here, no more is there than was laid out.
            if let Ok(stats) = read(&bytes) {
                assert!(stats.by_name.len() <= 2 && stats.by_name.values().all(|stat| stat.values.len() <= 4), "{at}");
                stats.by_name.keys().for_each(|name| assert!(stats.lengths(name).is_none_or(|all| all.len() <= 3)));
            }
        }
    }
    for (at, large) in [(4, MAX_NAME as u32 + 1), (8, MAX_COUNT as u32 + 1), (HEADER + 48 + 8, u32::MAX - 8)] {
        let mut bytes = whole.clone();
        bytes[at..at + 4].copy_from_slice(&large.to_ne_bytes());
        assert_eq!(read(&bytes).unwrap_err().kind(), io::ErrorKind::InvalidData, "{at}");
    }
}

/// Requests of `/dev/kvm`, a VM and a virtual CPU, `include/uapi/linux/kvm.h`, and the state of a halted one.
const CREATE_VM: u64 = 0xae01;
const CREATE_IRQCHIP: u64 = 0xae60;
const CREATE_VCPU: u64 = 0xae41;
const RUN: u64 = 0xae80;
const SET_MP_STATE: u64 = 0x4004_ae99;
const GET_STATS_FD: u64 = 0xaece;
const HALTED: u32 = 3;

fn ioctl(fd: &impl AsRawFd, request: u64, argument: u64) -> io::Result<i32> {
    // SAFETY: none of the requests above takes a pointer, but SET_MP_STATE, whose four bytes its caller has.
    let done = unsafe { libc::ioctl(fd.as_raw_fd(), request as _, argument) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(done) }
}

fn made(fd: &impl AsRawFd, request: u64, argument: u64) -> io::Result<OwnedFd> {
    // SAFETY: the requests that this is used for return a descriptor, which nobody else has.
    ioctl(fd, request, argument).map(|fd| unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Halts of the virtual CPU, each of which a signal ends.
const HALTS: u64 = 5;

/// A virtual CPU of a VM of ours that has halted [`HALTS`] times, and its statistics, kept open as QEMU does.
fn halted() -> io::Result<[OwnedFd; 3]> {
    extern "C" fn nothing(_: i32) {}
    // SAFETY: all zeros are a valid `sigaction`; the handler does nothing. Without SA_RESTART, KVM_RUN ends with EINTR.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = nothing as extern "C" fn(i32) as usize;
        libc::sigaction(libc::SIGUSR1, &action, std::ptr::null_mut());
    }
    let kvm = File::options().read(true).write(true).open("/dev/kvm")?;
    let vm = made(&kvm, CREATE_VM, 0)?;
    // With KVM's own interrupt controller, it is KVM that halts.
    ioctl(&vm, CREATE_IRQCHIP, 0)?;
    let vcpu = made(&vm, CREATE_VCPU, 3)?;
    let stats = made(&vcpu, GET_STATS_FD, 0)?;
    ioctl(&vcpu, SET_MP_STATE, std::ptr::from_ref(&HALTED) as u64)?;
    // SAFETY: asks for a number.
    let thread = unsafe { libc::pthread_self() };
    for _ in 0..HALTS {
        let ended = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                // A signal before it halts would be in vain.
                while !ended.load(Ordering::SeqCst) {
                    std::thread::sleep(Duration::from_millis(20));
                    // SAFETY: the thread is there: it waits for this one.
                    unsafe { libc::pthread_kill(thread, libc::SIGUSR1) };
                }
            });
            let error = ioctl(&vcpu, RUN, 0).expect_err("nothing but a signal ends it");
            assert_eq!(error.raw_os_error(), Some(libc::EINTR));
            ended.store(true, Ordering::SeqCst);
        });
    }
    Ok([vm, vcpu, stats])
}

#[test]
fn a_descriptor_that_a_process_keeps_open_tells_of_its_halts() {
    let kept = or_skip!(halted().map_err(|error| skip(Part::Kvm, format!("no virtual CPU can be made: {error}"))));
    // By the way on which another process's are read.
    let stats = vcpu_stats(std::process::id()).unwrap();
    let [(3, stats)] = &stats[..] else { panic!("one virtual CPU, number 3: {stats:?}") };
    let waits = stats.lengths("halt_wait_hist").unwrap();
    assert_eq!(waits.iter().map(|(_, count)| count).sum::<u64>(), HALTS, "{stats:?}");
    let least: u64 = waits.iter().map(|(low, count)| low * count).sum();
    let waited = stats.value("halt_wait_ns").unwrap();
    assert!(least <= waited && waited <= 2 * least, "{waited} ns, at least {least}");
    assert!(stats.lengths("halt_poll_success_hist").is_some() && stats.lengths("halt_poll_fail_hist").is_some());
    assert_eq!(stats.value("halt_successful_poll"), Some(0), "no signal came within 200 us");
    drop(kept);
    assert!(vcpu_stats(std::process::id()).unwrap().is_empty(), "none was kept");
}

#[test]
fn a_process_that_is_not_there_is_an_error() {
    assert!(vcpu_stats(u32::MAX).is_err());
}
