//! Damage done to one real trace of every kind that a reader takes: cuts at every 4 KB and at 200 random places, 200
//! flipped bits, huge numbers wherever the header has numbers. What is missing must be said.
//!
//! ```text
//! Err   one line, which names the structure and its offset (or that the file is empty, or no trace)
//! Ok    no more events than the whole file; if fewer, a line of the ledger that the whole file does not have
//! ```
//!
//! Some damage leaves a file that is as sound as the whole: each test says which, and why no reader could notice.

use exitscope_model::{LedgerLine, Severity};
use exitscope_trace::{Input, TraceError};
use std::ops::Range;
use std::path::Path;

mod common;

use common::damage::Damage;
use common::trace_dat::{HOST, Machine, Trace};
use common::{Said, corpus, fixture, said};

/// How many bytes a test's trace has, at least and at most: long enough for damage everywhere, short enough to be read
/// a thousand times.
const LENGTH: Range<usize> = 64 << 10..2 << 20;

fn bytes(path: &Path) -> Vec<u8> {
    let input = Input::open(path).unwrap();
    input.read_vec(0, input.len()).unwrap()
}

fn u64_at(bytes: &[u8], at: usize) -> usize {
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap()) as usize
}

fn u32_at(bytes: &[u8], at: usize) -> usize {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize
}

/// Does all damage to `whole`, which has numbers at `numbers`. `sound` tells which damage leaves a file that is as sound
/// as the whole.
fn check(whole: &[u8], numbers: impl IntoIterator<Item = usize>, sound: impl Fn(Damage, &Said, &Said) -> bool) {
    assert!(LENGTH.contains(&whole.len()), "{} bytes", whole.len());
    let complete = said(whole).unwrap();
    assert!(complete.ledger.events > 1_000, "{} events", complete.ledger.events);
    for damage in Damage::all(whole, numbers) {
        let damaged = damage.done_to(whole);
        let partial = match said(&damaged) {
            Ok(partial) => partial,
            Err(error) => {
                assert_clear(&error, damage);
                continue;
            }
        };
        let (left, all) = (partial.ledger.events, complete.ledger.events);
        if matches!(damage, Damage::Cut(_)) {
            assert!(left <= all, "{damage:?} makes {left} events of {all}");
        }
        let says =
            |line: LedgerLine| line.severity() > Severity::Info && partial.ledger.get(line) > complete.ledger.get(line);
        let noticed = LedgerLine::ALL.iter().any(|&line| says(line));
        assert!(
            left >= all || noticed || sound(damage, &partial, &complete),
            "{damage:?}: {left} of {all} events, silently"
        );
    }
}

/// One line, of the right kind.
fn assert_clear(error: &TraceError, damage: Damage) {
    let line = error.to_string();
    assert_eq!(line.lines().count(), 1, "{damage:?}: {line}");
    match (error, damage) {
        (TraceError::Damaged { structure, .. }, _) => assert!(line.contains(structure) && line.contains(" at byte ")),
        (TraceError::Empty { .. }, Damage::Cut(0)) => {}
        // The bytes that say what kind of file it is.
        (TraceError::Unknown { .. }, Damage::Cut(..4096) | Damage::Flip(..32_768)) => {}
        (TraceError::Unknown { .. }, Damage::Half(..16, _) | Damage::Whole(..16, _)) => {}
        // Whole, as far as anyone can see, but of a kind that is not read.
        (TraceError::Unsupported { .. } | TraceError::Clock { .. }, Damage::Flip(_)) => {}
        (TraceError::Unsupported { .. } | TraceError::Clock { .. }, Damage::Half(..) | Damage::Whole(..)) => {}
        _ => panic!("{damage:?}: {line}"),
    }
}

/// A flipped bit in a record can make it one of another type that has no event, or longer, so that it holds the next
/// ones: at most what 64 KB hold. Formats without checksums cannot tell.
fn one_record(damage: Damage, partial: &Said, complete: &Said) -> bool {
    matches!(damage, Damage::Flip(_)) && complete.ledger.events - partial.ledger.events < (64 << 10) / 64
}

// ---------------------------------------------------------------------------------------------------------------------
// perf.data

/// Header, first attr, list of features.
fn perf_numbers(file: &[u8]) -> Vec<usize> {
    let (attrs, features) = (u64_at(file, 24), u64_at(file, 40) + u64_at(file, 48));
    (8..104).step_by(4).chain((attrs..attrs + 144).step_by(4)).chain((features..features + 160).step_by(4)).collect()
}

/// The file with only the first `keep` bytes of its records, and those up to the end of the last one.
fn shortened(file: &[u8], keep: usize) -> Vec<u8> {
    let (data, size) = (u64_at(file, 40), u64_at(file, 48));
    let kept = record_ends(file, data).find(|end| end - data >= keep).unwrap();
    let gone = data + size - kept;
    let mut short = [&file[..kept], &file[data + size..]].concat();
    short[48..56].copy_from_slice(&((kept - data) as u64).to_le_bytes());
    let features: u32 = short[72..104].iter().map(|byte| byte.count_ones()).sum();
    for at in (kept..).step_by(16).take(features as usize) {
        let moved = (u64_at(&short, at) - gone) as u64;
        short[at..at + 8].copy_from_slice(&moved.to_le_bytes());
    }
    short
}

/// Where the records that begin at `at` end.
fn record_ends(file: &[u8], mut at: usize) -> impl Iterator<Item = usize> + '_ {
    std::iter::from_fn(move || {
        let header = file.get(at..at + 8)?;
        // TRACING_DATA's size leaves out the data behind it.
        let behind = if header[0] == 66 { u32_at(file, at + 8).next_multiple_of(8) } else { 0 };
        at += usize::from(u16::from_le_bytes([header[6], header[7]])) + behind;
        Some(at)
    })
}

#[test]
fn perf_data() {
    let file = bytes(&corpus("powerpc/p8_smt4_two_vms.data.gz"));
    check(&file, perf_numbers(&file), one_record);
}

#[test]
fn perf_data_with_call_chains() {
    let file = shortened(&bytes(&corpus("x86-svm/t4-callchain.data.gz")), 600 << 10);
    check(&file, perf_numbers(&file), one_record);
}

#[test]
fn perf_data_compressed() {
    let file = shortened(&bytes(&corpus("x86-svm/t4-zstd.data.gz")), 64 << 10);
    check(&file, perf_numbers(&file), one_record);
}

#[test]
fn perf_pipe() {
    let file = bytes(&corpus("x86-svm/t4-pipe.data.gz"));
    let ends: Vec<usize> = record_ends(&file, 16).take_while(|&end| end < 1 << 20).collect();
    let file = &file[..*ends.last().unwrap()];
    // Header, attr, formats: what comes first.
    check(file, (8..512).step_by(4), |damage, partial, complete| match damage {
        // A pipe has no end but the last record's.
        Damage::Cut(at) => at == 16 || ends.contains(&at),
        _ => one_record(damage, partial, complete),
    });
}

// ---------------------------------------------------------------------------------------------------------------------
// trace.dat

/// What a version 6 file has before its options, and its ring pages.
struct Recorded {
    header_info: Vec<u8>,
    event_formats: Vec<u8>,
    cpus: Vec<Vec<u8>>,
}

/// A real recording, without the kernel's symbols, which nothing reads.
fn recorded() -> Recorded {
    let file = bytes(&corpus("x86-svm/t4-v6.dat.gz"));
    let sized = |at: usize| at + 8 + u64_at(&file, at);
    let header_info = 18;
    let header_event = sized(header_info + b"header_page\0".len());
    let ftrace = sized(header_event + b"header_event\0".len());
    let systems = (0..u32_at(&file, ftrace)).fold(ftrace + 4, |at, _| sized(at));
    // One system: "kvm".
    assert_eq!(file[systems..systems + 8], *b"\x01\0\0\0kvm\0");
    let end = (0..u32_at(&file, systems + 8)).fold(systems + 12, |at, _| sized(at));
    let table = file.windows(10).position(|window| window == b"flyrecord\0").unwrap() + 10;
    let cpus = [table, table + 16].map(|at| file[u64_at(&file, at)..][..60 * PAGE].to_vec());
    Recorded {
        header_info: file[header_info..ftrace].to_vec(),
        event_formats: file[systems..end].to_vec(),
        cpus: cpus.to_vec(),
    }
}

const PAGE: usize = 4096;

/// Everything up to the first long text, and the last bytes, where version 7 has the options that name the ring pages.
fn trace_numbers(file: &[u8]) -> impl Iterator<Item = usize> + use<> {
    (12..64).chain(file.len() - 128..file.len() - 4)
}

/// As [`one_record`]; and of a page the header says how much of it is used.
fn one_page(damage: Damage, partial: &Said, complete: &Said) -> bool {
    matches!(damage, Damage::Flip(_)) && complete.ledger.events - partial.ledger.events < PAGE as u64 / 8
}

fn check_trace_dat(version: u32, compressor: &str) {
    let Recorded { header_info, event_formats, cpus } = recorded();
    let machine = Machine { page: PAGE, ..HOST };
    let trace = Trace { machine, buffers: &[("", "local", &cpus)], options: &[], compressor };
    let file = match version {
        6 => trace.v6_with(&header_info, &event_formats),
        _ => trace.v7_with(&header_info, &event_formats),
    };
    let whole = said(&file).unwrap();
    assert_eq!((whole.lines(), whole.info.format), (vec![], format!("trace.dat v{version}")));
    // Version 6 has its table of CPUs behind the options.
    let table = file.windows(10).position(|window| window == b"flyrecord\0");
    let table = table.map(|at| (at - 128..at + 64).step_by(2));
    check(&file, trace_numbers(&file).chain(table.into_iter().flatten()), one_page);
}

#[test]
fn trace_dat_6() {
    check_trace_dat(6, "none");
}

#[test]
fn trace_dat_7() {
    check_trace_dat(7, "none");
}

#[test]
fn trace_dat_7_zlib() {
    check_trace_dat(7, "zlib");
}

#[test]
fn trace_dat_7_zstd() {
    check_trace_dat(7, "zstd");
}

#[test]
fn trace_dat_7_as_trace_cmd_writes_it() {
    let file = bytes(&corpus("arm64/arm.dat.gz"));
    check(&file, trace_numbers(&file), one_page);
}

// ---------------------------------------------------------------------------------------------------------------------
// xentrace

/// Where the CPU_CHANGE records of the log are.
fn windows(log: &[u8]) -> Vec<usize> {
    let next = |&at: &usize| Some(at + 12 + u32_at(log, at + 8)).filter(|&at| at < log.len());
    std::iter::successors(Some(0), next).collect()
}

fn check_xentrace(path: &str) {
    let log = bytes(&corpus(path));
    let windows = windows(&log);
    // The headers of windows, and the first record of each.
    let numbers = windows.iter().flat_map(|&at| (at..at + 48).step_by(4)).filter(|at| at + 8 <= log.len());
    let numbers = numbers.step_by(7).take(120).chain(0..12);
    check(&log, numbers, |damage, partial, complete| match damage {
        // A log has no end but the last window's.
        Damage::Cut(at) => windows.contains(&at),
        // A damaged word may make a record padding, or one that is longer.
        _ => complete.ledger.events - partial.ledger.events <= 2,
    });
}

#[test]
fn xentrace_of_two_cpus_with_a_loss() {
    check_xentrace("xen/pvh1_smallbuf_credit1.xentrace.gz");
}

#[test]
fn xentrace_without_a_scheduler() {
    check_xentrace("xen/pvh1_hvm.xentrace.gz");
}

// ---------------------------------------------------------------------------------------------------------------------
// Text

/// A text that is cut behind a line end is as sound as before; what is left must be its beginning. A flipped bit may join
/// two lines, or make one a comment.
fn whole_lines(text: &[u8], damage: Damage, partial: &Said, complete: &Said) -> bool {
    match damage {
        Damage::Cut(0) => true,
        Damage::Cut(at) => text[at - 1] == b'\n' && complete.events.starts_with(&partial.events),
        _ => complete.events.len() - partial.events.len() <= 1,
    }
}

fn check_text(path: &Path, format: &str, lines: &[(LedgerLine, u64)]) {
    let mut text = bytes(path);
    text.truncate(LENGTH.end / 2);
    text.truncate(text.iter().rposition(|&byte| byte == b'\n').unwrap() + 1);
    let whole = said(&text).unwrap();
    assert_eq!((&whole.lines()[..], whole.info.format.as_str()), (lines, format));
    check(&text, [], |damage, partial, complete| whole_lines(&text, damage, partial, complete));
    // Every number of the first lines with twenty digits more.
    let digits = |at: usize| text[at].is_ascii_digit();
    for at in (1..2_000).filter(|&at| digits(at) && !digits(at - 1)) {
        let mut huge = text[..LENGTH.start].to_vec();
        huge.splice(at..at, *b"99999999999999999999");
        match said(&huge) {
            Ok(partial) => assert!(partial.events.len() > 100),
            Err(error) => panic!("a number at {at}: {error}"),
        }
    }
}

#[test]
fn ftrace_text() {
    check_text(
        &corpus("x86-svm/t4-ftrace.txt.gz"),
        "ftrace text",
        &[(LedgerLine::MissingLines, 117_600 - 9_569), (LedgerLine::LostRecords, 62_837)],
    );
}

#[test]
fn perf_script_text() {
    check_text(&fixture("t2.perf-script-ns.txt.gz"), "perf script text", &[(LedgerLine::LossUnknown, 1)]);
}

#[test]
fn trace_cmd_report_text() {
    check_text(&fixture("t4-none.trace-cmd-report-t.txt.gz"), "trace-cmd report text", &[]);
}

// ---------------------------------------------------------------------------------------------------------------------
// Compressed traces

/// gzip has a checksum: nothing but its own header can be damaged in silence.
#[test]
fn a_trace_in_gzip() {
    for path in ["powerpc/p8_smt4_cede_all.data.gz", "arm64/arm.dat.gz"] {
        let packed = std::fs::read(corpus(path)).unwrap();
        let complete = said(&packed).unwrap();
        for damage in Damage::all(&packed, []) {
            match said(&damage.done_to(&packed)) {
                Ok(partial) if partial.lines().is_empty() => {
                    assert!(
                        matches!(damage, Damage::Flip(_)) && partial.events == complete.events,
                        "{path} {damage:?}"
                    );
                }
                Ok(_) => {}
                Err(error) => assert_eq!(error.to_string().lines().count(), 1, "{path} {damage:?}"),
            }
        }
    }
}
