//! Large traces out of small ones: the records of a real recording again and again, each time later.
//!
//! ```text
//! perf.data    header │ data                │ features     data × N, its samples' times moved on; the table of
//!              ───────┼─────────────────────┼─────────     features moved back
//! trace.dat    metadata │ pages cpu 0 │ pages cpu 1 │ options     each CPU's pages × N, their time stamps moved on;
//!                                                                 sizes and offsets behind them patched
//! ```
//!
//! Everything is copied in a stream. A large program here would show in the peak memory of the programs that it
//! starts: the kernel counts what a child had before it became another program.

use anyhow::{Context, ensure};
use std::fs::File;
use std::io::{BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::Path;

/// Bytes that are written at once, as recorders do, which empty a buffer of the kernel's: it is what the page cache keeps
/// together.
const PIECE: usize = 256 << 10;

const PERF_HEADER: u64 = 104;
const PERF_RECORD_SAMPLE: u32 = 9;
const PERF_RECORD_FINISHED_ROUND: u32 = 68;
/// Where a sample has its time, with IDENTIFIER, IP, TID and TIME recorded.
const SAMPLE_TIME: usize = 32;
/// PERF_SAMPLE_IP, _TID and _TIME.
const SAMPLE_TYPE_FIRST: u64 = 1 | 2 | 4;
const SAMPLE_TYPE_IDENTIFIER: u64 = 1 << 16;
/// Where perf_event_attr has its sample_type.
const ATTR_SAMPLE_TYPE: u64 = 24;

const MILLISECOND: u64 = 1_000_000;
const SECOND: u64 = 1_000_000_000;

/// Writes the perf.data file `from` to `to` with its samples `times` times over.
pub fn repeat_perf(from: &Path, to: &Path, times: u64) -> anyhow::Result<()> {
    let mut file = File::open(from)?;
    let header = read_at(&mut file, 0, PERF_HEADER)?;
    ensure!(
        header.starts_with(b"PERFILE2") && u64_at(&header, 8)? == PERF_HEADER,
        "not a little-endian perf.data file"
    );
    let sample_type = read_at(&mut file, u64_at(&header, 24)? + ATTR_SAMPLE_TYPE, 8)?;
    let sample_type = u64_at(&sample_type, 0)?;
    ensure!(
        sample_type & SAMPLE_TYPE_FIRST == SAMPLE_TYPE_FIRST && sample_type & SAMPLE_TYPE_IDENTIFIER != 0,
        "samples without identifier, ip, tid or time"
    );
    let (data, data_len) = (u64_at(&header, 40)?, u64_at(&header, 48)?);
    let features: u32 = (72..PERF_HEADER as usize).map(|at| header[at].count_ones()).sum();

    let (mut first, mut last) = (u64::MAX, 0);
    each_record(&mut file, data, data_len, |kind, record| {
        if kind == PERF_RECORD_SAMPLE {
            let time = u64_at(record, SAMPLE_TIME)?;
            (first, last) = (first.min(time), last.max(time));
        }
        Ok(())
    })?;
    ensure!(first <= last, "no samples");
    let span = last - first + MILLISECOND;

    let mut out = BufWriter::with_capacity(PIECE, File::create(to)?);
    copy_range(&mut file, 0, data, &mut out)?;
    let mut written = 0;
    for round in 0..times {
        each_record(&mut file, data, data_len, |kind, record| {
            if kind == PERF_RECORD_SAMPLE {
                let time = u64_at(record, SAMPLE_TIME)? + round * span;
                record[SAMPLE_TIME..SAMPLE_TIME + 8].copy_from_slice(&time.to_le_bytes());
            } else if round > 0 && kind != PERF_RECORD_FINISHED_ROUND {
                return Ok(()); // names of threads and the like, with a time of the first round
            }
            written += record.len() as u64;
            Ok(out.write_all(record)?)
        })?;
    }
    let grown = written - data_len;
    let table = read_at(&mut file, data + data_len, u64::from(features) * 16)?;
    for section in table.chunks_exact(16) {
        out.write_all(&(u64_at(section, 0)? + grown).to_le_bytes())?;
        out.write_all(&section[8..])?;
    }
    let after_table = data + data_len + table.len() as u64;
    let end = file.metadata()?.len();
    copy_range(&mut file, after_table, end - after_table, &mut out)?;
    let mut out = out.into_inner()?;
    write_at(&mut out, 48, written)
}

/// Hands each record between `at` and `at + len` to `visit`, with its type.
fn each_record(
    file: &mut File,
    at: u64,
    len: u64,
    mut visit: impl FnMut(u32, &mut [u8]) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    file.seek(SeekFrom::Start(at))?;
    let mut data = BufReader::new(file).take(len);
    let mut record = Vec::new();
    while data.limit() > 0 {
        record.resize(8, 0);
        data.read_exact(&mut record)?;
        let kind = u32::from_le_bytes(record[..4].try_into()?);
        let size = usize::from(u16::from_le_bytes(record[6..8].try_into()?));
        ensure!(size >= 8, "a record of {size} bytes");
        record.resize(size, 0);
        data.read_exact(&mut record[8..])?;
        visit(kind, &mut record)?;
    }
    Ok(())
}

const OPTION_DONE: u16 = 0;
const OPTION_BUFFER: u16 = 3;

/// Where one CPU's ring-buffer pages are, and where the BUFFER option says so: offset, then size.
struct Pages {
    said_at: u64,
    offset: u64,
    size: u64,
}

/// Writes the uncompressed trace.dat file (version 7) `from` to `to` with its pages `times` times over.
pub fn repeat_tracedat(from: &Path, to: &Path, times: u64) -> anyhow::Result<()> {
    let mut file = File::open(from)?;
    let start = read_at(&mut file, 0, 32)?;
    ensure!(
        start.starts_with(b"\x17\x08\x44tracing7\0\0\x08") && start[18..].starts_with(b"none\0\0"),
        "not an uncompressed little-endian trace.dat file of version 7"
    );
    let page_size = u64::from(u32::from_le_bytes(start[14..18].try_into()?));

    // The sections of options: each ends with the place of the next. One of them has the buffer.
    let mut patches = Vec::new();
    let mut buffer = None;
    let mut next = u64_at(&start, 24)?;
    while next != 0 {
        let body_at = next + 16;
        let body_len = u64_at(&read_at(&mut file, next, 16)?, 8)?;
        let body = read_at(&mut file, body_at, body_len)?;
        let mut at = 0;
        next = 0;
        while at + 6 <= body.len() {
            let id = u16::from_le_bytes(body[at..at + 2].try_into()?);
            let size = u32::from_le_bytes(body[at + 2..at + 6].try_into()?) as usize;
            let option = body.get(at + 6..at + 6 + size).context("an option longer than its section")?;
            let option_at = body_at + at as u64 + 6;
            if id == OPTION_DONE {
                next = u64_at(option, 0)?;
                patches.push((option_at, next));
            } else if id == OPTION_BUFFER {
                buffer = Some((u64_at(option, 0)?, cpus(option, option_at)?));
            }
            at += 6 + size;
        }
    }
    let (buffer_at, cpus) = buffer.context("no buffer")?;
    let (first, last) = (cpus.first().context("no CPUs")?, cpus.last().context("no CPUs")?);
    let (pages_at, pages_end) = (first.offset, last.offset + last.size);
    ensure!(
        cpus.windows(2).all(|pair| pair[0].offset + pair[0].size == pair[1].offset) && buffer_at < pages_at,
        "the CPUs' pages are not one after the other"
    );

    let mut stamps = (u64::MAX, 0);
    for cpu in &cpus {
        each_page(&mut file, cpu, page_size, |page| {
            let stamp = u64_at(page, 0)?;
            stamps = (stamps.0.min(stamp), stamps.1.max(stamp));
            Ok(())
        })?;
    }
    let span = stamps.1 - stamps.0 + SECOND; // no page of these recordings covers a second

    let mut out = BufWriter::with_capacity(PIECE, File::create(to)?);
    copy_range(&mut file, 0, pages_at, &mut out)?;
    for cpu in &cpus {
        for round in 0..times {
            each_page(&mut file, cpu, page_size, |page| {
                let stamp = u64_at(page, 0)? + round * span;
                page[..8].copy_from_slice(&stamp.to_le_bytes());
                Ok(out.write_all(page)?)
            })?;
        }
    }
    let end = file.metadata()?.len();
    copy_range(&mut file, pages_end, end - pages_end, &mut out)?;

    let grown = (pages_end - pages_at) * (times - 1);
    let moved = |place: u64| if place >= pages_end { place + grown } else { place };
    let buffer_len = u64_at(&read_at(&mut file, buffer_at, 16)?, 8)?;
    let mut out = out.into_inner()?;
    write_at(&mut out, buffer_at + 8, buffer_len + grown)?;
    for (option_at, section) in patches {
        write_at(&mut out, moved(option_at), moved(section))?;
    }
    for cpu in &cpus {
        write_at(&mut out, moved(cpu.said_at), pages_at + (cpu.offset - pages_at) * times)?;
        write_at(&mut out, moved(cpu.said_at) + 8, cpu.size * times)?;
    }
    Ok(())
}

/// The CPUs of a BUFFER option: u64 section, name, clock, u32 page size, u32 CPUs, then of each u32 CPU, u64 offset,
/// u64 size.
fn cpus(option: &[u8], option_at: u64) -> anyhow::Result<Vec<Pages>> {
    let mut at = 8;
    for _name_and_clock in 0..2 {
        at += option[at..].iter().position(|&byte| byte == 0).context("a name without an end")? + 1;
    }
    at += 8;
    let entries = option.get(at..).context("a BUFFER option without CPUs")?.chunks_exact(20).enumerate();
    let pages = entries.map(|(nr, entry)| {
        let said_at = option_at + (at + nr * 20 + 4) as u64;
        Ok(Pages { said_at, offset: u64_at(entry, 4)?, size: u64_at(entry, 12)? })
    });
    pages.collect()
}

fn each_page(
    file: &mut File,
    cpu: &Pages,
    page_size: u64,
    mut visit: impl FnMut(&mut [u8]) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    ensure!(
        page_size >= 16 && cpu.size.is_multiple_of(page_size),
        "pages of {page_size} bytes do not fill {} bytes",
        cpu.size
    );
    file.seek(SeekFrom::Start(cpu.offset))?;
    let mut data = BufReader::new(file);
    let mut page = vec![0; page_size as usize];
    for _ in 0..cpu.size / page_size {
        data.read_exact(&mut page)?;
        visit(&mut page)?;
    }
    Ok(())
}

fn u64_at(bytes: &[u8], at: usize) -> anyhow::Result<u64> {
    let raw = bytes.get(at..at + 8).context("a structure that is too short")?;
    Ok(u64::from_le_bytes(raw.try_into()?))
}

fn read_at(file: &mut File, at: u64, len: u64) -> anyhow::Result<Vec<u8>> {
    ensure!(at + len <= file.metadata()?.len(), "{len} bytes at {at} are not there");
    let mut bytes = vec![0; len as usize];
    file.seek(SeekFrom::Start(at))?;
    file.read_exact(&mut bytes)?;
    Ok(bytes)
}

fn write_at(file: &mut File, at: u64, value: u64) -> anyhow::Result<()> {
    file.seek(SeekFrom::Start(at))?;
    Ok(file.write_all(&value.to_le_bytes())?)
}

fn copy_range(file: &mut File, at: u64, len: u64, out: &mut impl Write) -> anyhow::Result<()> {
    file.seek(SeekFrom::Start(at))?;
    let copied = std::io::copy(&mut file.take(len), out)?;
    ensure!(copied == len, "{len} bytes at {at} are not there");
    Ok(())
}
