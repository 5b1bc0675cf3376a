//! The system calls that have no safe wrapper: `bpf`, `perf_event_open` and a few of their ioctls, `pidfd_getfd`.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// `enum bpf_map_type`.
pub const HASH: u32 = 1;
pub const ARRAY: u32 = 2;
pub const PERCPU_ARRAY: u32 = 6;
pub const ARRAY_OF_MAPS: u32 = 12;
pub const RINGBUF: u32 = 27;

/// What a program runs at, `enum bpf_prog_type`.
#[derive(Clone, Copy, Debug)]
pub enum ProgramKind {
    /// A tracepoint of perf's, and looks at the record that is made of each event.
    Tracepoint = 5,
    /// A tracepoint itself, and looks at what that is given (`TP_PROTO`): no record is made.
    RawTracepoint = 17,
}

/// `enum bpf_cmd`.
const MAP_CREATE: libc::c_long = 0;
const MAP_LOOKUP_ELEM: libc::c_long = 1;
const MAP_UPDATE_ELEM: libc::c_long = 2;
const MAP_DELETE_ELEM: libc::c_long = 3;
const PROG_LOAD: libc::c_long = 5;
const OBJ_GET_INFO_BY_FD: libc::c_long = 15;
const RAW_TRACEPOINT_OPEN: libc::c_long = 17;
const MAP_LOOKUP_BATCH: libc::c_long = 24;
const ENABLE_STATS: libc::c_long = 32;

/// `PERF_TYPE_TRACEPOINT`.
const TYPE_TRACEPOINT: u32 = 2;

/// `PERF_FLAG_FD_CLOEXEC`.
const FD_CLOEXEC: libc::c_ulong = 8;

/// `PERF_EVENT_IOC_*`, `include/uapi/linux/perf_event.h`.
const IOC_ENABLE: u64 = 0x2400;
const IOC_SET_OUTPUT: u64 = 0x2405;
const IOC_ID: u64 = 0x8008_2407;
const IOC_SET_BPF: u64 = 0x4004_2408;

/// A descriptor out of what a system call returned.
fn owned(returned: libc::c_long) -> io::Result<OwnedFd> {
    match RawFd::try_from(returned) {
        // SAFETY: the kernel has just given us this descriptor, nobody else has it.
        Ok(fd) if fd >= 0 => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
        _ => Err(io::Error::last_os_error()),
    }
}

fn bpf<T>(command: libc::c_long, attr: &T) -> libc::c_long {
    // SAFETY: `attr` begins a `union bpf_attr` of that size, whose pointers live as long as the call.
    unsafe { libc::syscall(libc::SYS_bpf, command, std::ptr::from_ref(attr), size_of::<T>()) }
}

/// The first fields of `BPF_MAP_CREATE`.
#[repr(C)]
struct MapCreate {
    map_type: u32,
    key_size: u32,
    value_size: u32,
    max_entries: u32,
    map_flags: u32,
    inner_map_fd: u32,
}

/// Creates a map; `inner` is like those that an [`ARRAY_OF_MAPS`] holds.
pub fn map(kind: u32, key_size: u32, value_size: u32, entries: u32, inner: Option<&OwnedFd>) -> io::Result<OwnedFd> {
    let inner_map_fd = inner.map_or(0, |fd| fd.as_raw_fd() as u32);
    let attr = MapCreate { map_type: kind, key_size, value_size, max_entries: entries, map_flags: 0, inner_map_fd };
    owned(bpf(MAP_CREATE, &attr))
}

/// The fields of `BPF_MAP_*_ELEM`.
#[repr(C)]
struct MapElem {
    map_fd: u32,
    pad: u32,
    key: u64,
    value: u64,
    flags: u64,
}

/// Sets an element. Key and value have the map's sizes.
pub fn update(map: &OwnedFd, key: &[u8], value: &[u8]) -> io::Result<()> {
    let [key, value] = [key, value].map(|bytes| bytes.as_ptr() as u64);
    let attr = MapElem { map_fd: map.as_raw_fd() as u32, pad: 0, key, value, flags: 0 };
    if bpf(MAP_UPDATE_ELEM, &attr) < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Reads an element of a [`PERCPU_ARRAY`] of u64: its value on each possible CPU. `values` has their number.
pub fn lookup_percpu(map: &OwnedFd, key: u32, values: &mut [u64]) -> io::Result<()> {
    let (key, value) = (std::ptr::from_ref(&key) as u64, values.as_mut_ptr() as u64);
    let attr = MapElem { map_fd: map.as_raw_fd() as u32, pad: 0, key, value, flags: 0 };
    if bpf(MAP_LOOKUP_ELEM, &attr) < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Removes an element, if it is there.
pub fn delete(map: &OwnedFd, key: &[u8]) -> io::Result<()> {
    let attr = MapElem { map_fd: map.as_raw_fd() as u32, pad: 0, key: key.as_ptr() as u64, value: 0, flags: 0 };
    match bpf(MAP_DELETE_ELEM, &attr) {
        0.. => Ok(()),
        _ => match io::Error::last_os_error() {
            error if error.raw_os_error() == Some(libc::ENOENT) => Ok(()),
            error => Err(error),
        },
    }
}

/// The fields of `BPF_MAP_LOOKUP_BATCH`.
#[repr(C)]
struct MapBatch {
    in_batch: u64,
    out_batch: u64,
    keys: u64,
    values: u64,
    count: u32,
    map_fd: u32,
    elem_flags: u64,
    flags: u64,
}

/// Reads a [`HASH`]: hands out each key and its value, which have `key_size` and `value_size` bytes.
pub fn each_element(
    map: &OwnedFd,
    key_size: usize,
    value_size: usize,
    mut each: impl FnMut(&[u8], &[u8]),
) -> io::Result<()> {
    let mut room = 256;
    let (mut keys, mut values) = (Vec::new(), Vec::new());
    // Where a call ended, and the next goes on.
    let (mut from, mut to, mut is_first) = (0u64, 0u64, true);
    loop {
        keys.resize(room * key_size, 0u8);
        values.resize(room * value_size, 0u8);
        let mut attr = MapBatch {
            in_batch: if is_first { 0 } else { std::ptr::from_ref(&from) as u64 },
            out_batch: std::ptr::from_mut(&mut to) as u64,
            keys: keys.as_mut_ptr() as u64,
            values: values.as_mut_ptr() as u64,
            count: room as u32,
            map_fd: map.as_raw_fd() as u32,
            elem_flags: 0,
            flags: 0,
        };
        // SAFETY: the kernel writes to `attr`, and at most `count` keys and values where there is room for them.
        let done = unsafe {
            libc::syscall(libc::SYS_bpf, MAP_LOOKUP_BATCH, std::ptr::from_mut(&mut attr), size_of::<MapBatch>())
        };
        let ended = if done < 0 {
            let error = io::Error::last_os_error();
            match error.raw_os_error() {
                Some(libc::ENOENT) => true,
                // What falls into one of the kernel's buckets must fit.
                Some(libc::ENOSPC) if room < 1 << 20 => {
                    room *= 2;
                    continue;
                }
                _ => return Err(error),
            }
        } else {
            false
        };
        let count = (attr.count as usize).min(room);
        for (key, value) in keys.chunks_exact(key_size).zip(values.chunks_exact(value_size)).take(count) {
            each(key, value);
        }
        if ended {
            return Ok(());
        }
        (from, is_first) = (to, false);
    }
}

/// The first fields of `struct bpf_prog_info`, as 8 bytes each: those that matter are run_time_ns, run_cnt and
/// recursion_misses.
const PROG_INFO: usize = 27;
const RUN_TIME: usize = 24;

/// How a program runs.
#[derive(Clone, Copy, Debug, Default)]
pub struct BpfRunStats {
    /// Time that it took, in nanoseconds, while [`measure_programs`] was in force.
    pub ns: u64,
    /// How often it ran in that time.
    pub count: u64,
    /// How often it did not run as another program was at work on the CPU; kernels before 6.1 do not say.
    pub missed: u64,
}

/// The fields of `BPF_OBJ_GET_INFO_BY_FD`.
#[repr(C)]
struct ObjInfo {
    fd: u32,
    info_len: u32,
    info: u64,
}

/// What the kernel says of a program's runs.
pub fn runs(program: &OwnedFd) -> io::Result<BpfRunStats> {
    let mut info = [0u64; PROG_INFO];
    let size = size_of_val(&info) as u32;
    let attr = ObjInfo { fd: program.as_raw_fd() as u32, info_len: size, info: info.as_mut_ptr() as u64 };
    if bpf(OBJ_GET_INFO_BY_FD, &attr) < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(BpfRunStats { ns: info[RUN_TIME], count: info[RUN_TIME + 1], missed: info[RUN_TIME + 2] })
}

/// Has the kernel measure the runs of BPF programs, whosever they are, as long as what it returns is open; that makes them
/// slower. Needs CAP_SYS_ADMIN.
pub fn measure_programs() -> io::Result<OwnedFd> {
    const RUN_TIME: u32 = 0;
    owned(bpf(ENABLE_STATS, &RUN_TIME))
}

/// The first fields of `BPF_PROG_LOAD`.
#[repr(C)]
struct ProgLoad {
    prog_type: u32,
    insn_cnt: u32,
    insns: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log_buf: u64,
    kern_version: u32,
    prog_flags: u32,
}

/// Loads a program; the error has what the verifier said.
pub fn load(program: &[u64], kind: ProgramKind) -> Result<OwnedFd, (io::Error, String)> {
    let mut log = vec![0u8; 1 << 16];
    let with_log = |log: &mut [u8]| {
        let attr = ProgLoad {
            prog_type: kind as u32,
            insn_cnt: program.len() as u32,
            insns: program.as_ptr() as u64,
            license: c"GPL".as_ptr() as u64,
            log_level: u32::from(!log.is_empty()),
            log_size: log.len() as u32,
            log_buf: if log.is_empty() { 0 } else { log.as_mut_ptr() as u64 },
            kern_version: 0,
            prog_flags: 0,
        };
        owned(bpf(PROG_LOAD, &attr))
    };
    with_log(&mut []).or_else(|_| with_log(&mut log)).map_err(|error| {
        let text: Vec<u8> = log.iter().copied().take_while(|&byte| byte != 0).collect();
        (error, String::from_utf8_lossy(&text).into_owned())
    })
}

/// The fields of `BPF_PROG_TEST_RUN`.
#[cfg(test)]
#[repr(C)]
#[derive(Default)]
struct TestRun {
    prog_fd: u32,
    retval: u32,
    data_sizes: [u32; 2],
    data: [u64; 2],
    repeat: u32,
    duration: u32,
    ctx_size_in: u32,
    ctx_size_out: u32,
    ctx_in: u64,
    ctx_out: u64,
    flags: u32,
    cpu: u32,
    batch_size: u32,
    pad: u32,
}

/// Runs the program of a raw tracepoint once, here, as if it were given `arguments`.
#[cfg(test)]
pub fn test_run(program: &OwnedFd, arguments: &[u8]) -> io::Result<()> {
    const PROG_TEST_RUN: libc::c_long = 10;
    let attr = TestRun {
        prog_fd: program.as_raw_fd() as u32,
        ctx_size_in: arguments.len() as u32,
        ctx_in: arguments.as_ptr() as u64,
        ..TestRun::default()
    };
    if bpf(PROG_TEST_RUN, &attr) < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// The first version of `struct perf_event_attr`, and what came with clock ids.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct EventAttr {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup: u32,
    bp_type: u32,
    config1: u64,
    config2: u64,
    branch_sample_type: u64,
    sample_regs_user: u64,
    sample_stack_user: u32,
    clockid: i32,
    sample_regs_intr: u64,
    aux_watermark: u32,
    sample_max_stack: u16,
    reserved: u16,
}

/// Flags of an attr: disabled, watermark, use_clockid.
const DISABLED: u64 = 1;
const WATERMARK: u64 = 1 << 14;
const USE_CLOCKID: u64 = 1 << 25;

/// Opens a tracepoint on a CPU, for every process, not yet enabled. With `sample_type`, each event is one sample, with
/// CLOCK_MONOTONIC's time, and nobody is woken before `watermark` bytes.
pub fn open_tracepoint(id: u32, cpu: u32, sample_type: u64, watermark: u32) -> io::Result<OwnedFd> {
    let attr = EventAttr {
        kind: TYPE_TRACEPOINT,
        size: size_of::<EventAttr>() as u32,
        config: id.into(),
        sample_period: 1,
        sample_type,
        flags: DISABLED | WATERMARK | USE_CLOCKID,
        wakeup: watermark,
        clockid: libc::CLOCK_MONOTONIC,
        ..EventAttr::default()
    };
    // SAFETY: the attr has the size that it says.
    owned(unsafe { libc::syscall(libc::SYS_perf_event_open, &attr, -1, cpu as libc::c_int, -1, FD_CLOEXEC) })
}

fn ioctl(fd: &OwnedFd, request: u64, argument: libc::c_ulong) -> io::Result<()> {
    // SAFETY: none of these requests takes a pointer, but for the one whose pointer its caller keeps alive.
    let done = unsafe { libc::ioctl(fd.as_raw_fd(), request as _, argument) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Runs a program whenever the tracepoint that `event` is of fires, on any CPU.
pub fn set_bpf(event: &OwnedFd, program: &OwnedFd) -> io::Result<()> {
    ioctl(event, IOC_SET_BPF, program.as_raw_fd() as libc::c_ulong)
}

/// The fields of `BPF_RAW_TRACEPOINT_OPEN`.
#[repr(C)]
struct RawTracepoint {
    name: u64,
    prog_fd: u32,
    pad: u32,
}

/// Runs a program whenever the tracepoint of this name fires, as long as what it returns is open.
pub fn attach_raw(name: &CStr, program: &OwnedFd) -> io::Result<OwnedFd> {
    owned(bpf(
        RAW_TRACEPOINT_OPEN,
        &RawTracepoint { name: name.as_ptr() as u64, prog_fd: program.as_raw_fd() as u32, pad: 0 },
    ))
}

/// Lets the event count from now on.
pub fn enable(event: &OwnedFd) -> io::Result<()> {
    ioctl(event, IOC_ENABLE, 0)
}

/// Has the samples of `event` go to the ring of `to`.
pub fn set_output(event: &OwnedFd, to: &OwnedFd) -> io::Result<()> {
    ioctl(event, IOC_SET_OUTPUT, to.as_raw_fd() as libc::c_ulong)
}

/// The id that samples of this event carry.
pub fn event_id(event: &OwnedFd) -> io::Result<u64> {
    let mut id = 0u64;
    ioctl(event, IOC_ID, std::ptr::from_mut(&mut id) as libc::c_ulong)?;
    Ok(id)
}

/// A descriptor of the process of this id.
pub fn open_process(process: u32) -> io::Result<OwnedFd> {
    // SAFETY: takes numbers and returns a descriptor.
    owned(unsafe { libc::syscall(libc::SYS_pidfd_open, process as libc::pid_t, 0) })
}

/// Another descriptor of what `fd` is in that process. Needs the right to attach a debugger to it.
pub fn take_descriptor(process: &OwnedFd, fd: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: takes numbers and returns a descriptor.
    owned(unsafe { libc::syscall(libc::SYS_pidfd_getfd, process.as_raw_fd(), fd, 0) })
}

/// CLOCK_MONOTONIC, in nanoseconds: what BPF programs and samples are stamped with.
pub fn now() -> u64 {
    clock(libc::CLOCK_MONOTONIC)
}

/// How long this thread has run, in nanoseconds.
pub fn thread_time() -> u64 {
    clock(libc::CLOCK_THREAD_CPUTIME_ID)
}

fn clock(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a `timespec` to write to.
    unsafe { libc::clock_gettime(clock, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Bytes of a page.
pub fn page_size() -> usize {
    // SAFETY: asks for a number.
    unsafe { libc::sysconf(libc::_SC_PAGESIZE) as usize }
}
