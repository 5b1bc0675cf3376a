//! Whatever a file holds, reading it stays within the memory that `exitscope_trace` states. The command runs with no
//! more address space than that, program and libraries included: one allocation beyond it, and it dies of a signal.

#[allow(dead_code)]
#[path = "../../trace/tests/common/damage.rs"]
mod damage;

mod common;

use common::{corpus, unpacked};
use damage::Damage;
use flate2::Crc;
use std::fs::File;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Command, Stdio};

/// The stated bound, in KiB.
const BOUND: usize = exitscope_trace::MAX_MEMORY >> 10;

/// `exitscope report` ends with a report or an error of one line. Returns the exit code.
#[track_caller]
fn assert_ends(input: &Path, what: &str) -> i32 {
    let mut command = Command::new("sh");
    command.args(["-c", &format!("ulimit -v {BOUND} && exec \"$0\" \"$@\"")]).arg(env!("CARGO_BIN_EXE_exitscope"));
    // The rate is for xentrace logs, which do not say it.
    let flags = ["--format", "json", "--tsc-hz", "1000000000"];
    let output = command.arg("report").arg(input).args(flags).stdin(Stdio::null()).output().unwrap();
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    let code = output.status.code().unwrap_or_else(|| panic!("{what}: {}: {message}", output.status));
    match code {
        0 => assert!(output.stdout.starts_with(b"{") && message.is_empty(), "{what}: {message}"),
        2 => assert!(message.starts_with("exitscope: ") && message.lines().count() == 1, "{what}: {message}"),
        _ => panic!("{what}: exit code {code}: {message}"),
    }
    code
}

#[test]
fn damaged_files() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("damaged");
    for trace in
        ["powerpc/p8_smt4_cede_all.data.gz", "x86-svm/t4-zstd.data.gz", "arm64/arm.dat.gz", "xen/pvh1_hvm.xentrace.gz"]
    {
        let whole = unpacked(trace);
        let numbers = (8..104).step_by(4).chain(whole.len() - 128..whole.len() - 8);
        for damage in Damage::all(&whole, numbers).into_iter().step_by(19) {
            std::fs::write(&path, damage.done_to(&whole)).unwrap();
            assert_ends(&path, &format!("{trace} {damage:?}"));
        }
    }
}

/// A perf.data of one event and `len` bytes, with nothing behind its header, and with these numbers at these places.
fn sparse(path: &Path, len: u64, numbers: &[(u64, u64)]) {
    let file = File::create(path).unwrap();
    let places = [104u64, 144, 104, 144, 248, 0, 0, 0, 0, 0, 0, 0];
    // A tracepoint with TIME.
    let attr = [2 | 128 << 32, 7, 1, 4, 0, 0u64];
    let words: Vec<u8> = places.iter().chain(&attr).flat_map(|word| word.to_le_bytes()).collect();
    file.write_all_at(&[b"PERFILE2", &words[..]].concat(), 0).unwrap();
    for (at, value) in numbers {
        file.write_all_at(&value.to_le_bytes(), *at).unwrap();
    }
    file.set_len(len).unwrap();
}

#[test]
fn sections_as_long_as_a_huge_file() {
    const HUGE: u64 = 8 << 30;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("perf.data");
    // Behind data of 8 bytes: the attrs; the ids of the one; the event formats.
    let cases: [(&str, &[(u64, u64)]); 3] = [
        ("attrs", &[(48, 8), (32, HUGE)]),
        ("ids", &[(48, 8), (232, 104), (240, HUGE)]),
        ("formats", &[(48, 8), (72, 2), (256, 104), (264, HUGE)]),
    ];
    for (what, numbers) in cases {
        sparse(&path, HUGE, numbers);
        assert_ends(&path, what);
    }
}

fn record(kind: u32, body: &[u8]) -> Vec<u8> {
    [&kind.to_le_bytes()[..], &[0, 0], &(8 + body.len() as u16).to_le_bytes(), body].concat()
}

#[test]
fn events_of_which_each_is_older_than_the_one_before() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("perf.data");
    sparse(&path, 248, &[]);
    let samples: Vec<u8> = (0..3_000_000u64).rev().flat_map(|time| record(9, &time.to_le_bytes())).collect();
    File::options().append(true).open(&path).unwrap().write_all(&samples).unwrap();
    assert_eq!(assert_ends(&path, "samples"), 0);
}

#[test]
fn blocks_of_one_event_each() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("perf.data");
    sparse(&path, 248, &[]);
    // What a hardware tracer wrote, here nothing, ends a block.
    let traced = record(71, &[0; 40]);
    let block = |time: u64| [record(9, &time.to_le_bytes()), traced.clone()].concat();
    let blocks: Vec<u8> = (0..200_000).flat_map(block).collect();
    File::options().append(true).open(&path).unwrap().write_all(&blocks).unwrap();
    assert_eq!(assert_ends(&path, "blocks"), 0);
}

#[test]
fn more_threads_than_a_kernel_has() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("perf.data");
    sparse(&path, 248, &[]);
    let name = |tid: u32| record(3, &[&[0; 4], &tid.to_le_bytes()[..], b"thread\0\0"].concat());
    let names: Vec<u8> = (0..8_000_000).flat_map(name).collect();
    File::options().append(true).open(&path).unwrap().write_all(&names).unwrap();
    assert_eq!(assert_ends(&path, "names"), 0);
}

#[test]
fn more_cpus_than_a_machine_has() {
    const CPUS: u64 = 1 << 16;
    const APART: u64 = 64 << 10;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.dat");
    // Of version 6: no formats, no symbols, no names.
    let start = b"\x17\x08\x44tracing6\0\0\x08\0\x10\0\0header_page\0\0\0\0\0\0\0\0\0header_event\0\0\0\0\0\0\0\0\0";
    let mut head = [&start[..], &[0; 24], &(CPUS as u32).to_le_bytes(), b"flyrecord\0"].concat();
    let first = 4 << 20;
    for cpu in 0..CPUS {
        head.extend([first + cpu * APART, APART].iter().flat_map(|number| number.to_le_bytes()));
    }
    let file = File::create(&path).unwrap();
    file.write_all_at(&head, 0).unwrap();
    // The time, twelve bytes of data, and a record of that length.
    let page: Vec<u8> = [1, 12, 2, 0].iter().flat_map(|word: &u64| word.to_le_bytes()).collect();
    for cpu in 0..CPUS {
        file.write_all_at(&page, first + cpu * APART).unwrap();
    }
    file.set_len(first + CPUS * APART).unwrap();
    assert_eq!(assert_ends(&path, "CPUs"), 0);
}

#[test]
fn a_dictionary_of_four_gigabytes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.xz");
    let tool = Command::new("xz").args(["-c", "-k"]).arg(corpus("x86-svm/peers/t2.data.event-counts.txt")).output();
    let mut packed = tool.expect("xz is needed for this test").stdout;
    // The first block's header: its size in words less one, flags, id and size of the filter's properties; then the
    // size of the dictionary. The header ends with its checksum.
    let end = 12 + (usize::from(packed[12]) + 1) * 4;
    assert_eq!(packed[14..16], [0x21, 1]);
    packed[16] = 40;
    let mut checksum = Crc::new();
    checksum.update(&packed[12..end - 4]);
    packed[end - 4..end].copy_from_slice(&checksum.sum().to_le_bytes());
    std::fs::write(&path, packed).unwrap();
    assert_eq!(assert_ends(&path, "xz"), 2);
}

#[test]
fn a_huge_log_of_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    // A window that is as long as can be; one that leads nowhere.
    for len in [u32::MAX - 3, 12] {
        let file = File::create(&path).unwrap();
        file.write_all_at(&[0x2001_f003, 4095, len].map(u32::to_le_bytes).concat(), 0).unwrap();
        file.set_len(1 << 30).unwrap();
        assert_ends(&path, &format!("a window of {len} bytes"));
    }
}
