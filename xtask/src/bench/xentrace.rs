//! A large xentrace log out of a small one: the part between two quiet moments again and again, each time later.
//!
//! ```text
//! cpu 0 ──────┤ T1 ………………………… T2 ├────      times ≤ T2, then N - 1 times what lies between T1 and T2, moved on.
//! cpu 1 ──────┤                   ├────      At T1 and T2 every guest is blocked, so that all fits together.
//! ```

use anyhow::{Context, ensure};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Read, Write};
use std::path::Path;

const CPU_CHANGE: u32 = 0x0001_f003;
const WRAP_BUFFER: u32 = 0x0001_f002;
const VMEXIT: u32 = 0x0008_1002;
const IDLE_DOMAIN: u32 = 0x7fff;
const BLOCKED: u32 = 2;

/// Cycles of rest that a quiet moment has on each side.
const REST: u64 = 50_000;

/// A record: event, time in cycles, its own or that of the one before, whether it is its own, and its bytes.
struct Record<'a> {
    event: u32,
    at: u64,
    stamped: bool,
    bytes: &'a [u8],
}

fn u32_at(bytes: &[u8], at: usize) -> anyhow::Result<u32> {
    let raw = bytes.get(at..at + 4).context("a record that is too short")?;
    Ok(u32::from_le_bytes(raw.try_into()?))
}

/// Calls `each` with the log's windows one after another, so that a log of any size takes the room of one window.
fn each_window(log: &Path, mut each: impl FnMut(u32, &[Record]) -> anyhow::Result<()>) -> anyhow::Result<()> {
    let mut log = BufReader::new(File::open(log)?);
    let (mut header, mut data, mut latest) = ([0; 12], Vec::new(), BTreeMap::new());
    while !log.fill_buf()?.is_empty() {
        log.read_exact(&mut header)?;
        ensure!(u32_at(&header, 0)? == 0x2000_0000 | CPU_CHANGE, "a window that does not begin with CPU_CHANGE");
        let cpu = u32_at(&header, 4)?;
        data.resize(u32_at(&header, 8)? as usize, 0);
        log.read_exact(&mut data)?;
        let mut records = Vec::new();
        let mut at = 0;
        while at < data.len() {
            let header = u32_at(&data, at)?;
            let (event, stamped) = (header & 0x0fff_ffff, header >> 31 == 1);
            let size = 4 + 8 * usize::from(stamped) + 4 * (header >> 28 & 7) as usize;
            let bytes = data.get(at..at + size).context("a record that is not whole")?;
            if event != WRAP_BUFFER {
                if stamped {
                    latest.insert(cpu, u64::from(u32_at(&data, at + 8)?) << 32 | u64::from(u32_at(&data, at + 4)?));
                }
                records.push(Record { event, at: latest.get(&cpu).copied().unwrap_or(0), stamped, bytes });
            }
            at += size;
        }
        each(cpu, &records)?;
    }
    Ok(())
}

/// The first and the last moment at which every guest's vCPU is blocked.
fn quiet(log: &Path) -> anyhow::Result<(u64, u64)> {
    let mut changes: Vec<(u64, u32, u32)> = Vec::new();
    each_window(log, |_, records| {
        for record in records.iter().filter(|record| record.event & !0xff0 == 0x0002_1001) {
            changes.push((record.at, record.event, u32_at(record.bytes, 12)?));
        }
        Ok(())
    })?;
    changes.sort_unstable();
    let guests: BTreeSet<u32> = changes.iter().map(|row| row.2).filter(|vcpu| vcpu >> 16 != IDLE_DOMAIN).collect();
    let mut states = BTreeMap::new();
    let mut moments = Vec::new();
    for pair in changes.windows(2) {
        let (at, event, vcpu) = pair[0];
        states.insert(vcpu, event >> 4 & 0xf);
        let blocked = guests.iter().all(|guest| states.get(guest) == Some(&BLOCKED));
        if blocked && pair[1].0 - at > 2 * REST {
            moments.push(at + REST);
        }
    }
    let (first, last) = (moments.first().context("no quiet moment")?, moments.last().context("no quiet moment")?);
    ensure!(first < last, "one quiet moment only");
    Ok((*first, *last))
}

/// Writes the log `from` to `to`, its middle `times` times over.
pub fn repeat(from: &Path, to: &Path, times: u64) -> anyhow::Result<()> {
    let (first, last) = quiet(from)?;
    let mut out = BufWriter::new(File::create(to)?);
    let mut data = Vec::new();
    for round in 0..times {
        each_window(from, |cpu, records| {
            data.clear();
            for record in records.iter().filter(|record| record.at <= last && (round == 0 || record.at > first)) {
                let moved = record.at + round * (last - first);
                if record.stamped {
                    data.extend_from_slice(&record.bytes[..4]);
                    data.extend_from_slice(&moved.to_le_bytes());
                    data.extend_from_slice(&record.bytes[12..]);
                } else {
                    data.extend_from_slice(record.bytes);
                }
            }
            if !data.is_empty() {
                let header = [0x2000_0000 | CPU_CHANGE, cpu, data.len() as u32];
                out.write_all(&header.map(u32::to_le_bytes).concat())?;
                out.write_all(&data)?;
            }
            Ok(())
        })?;
    }
    Ok(out.flush()?)
}

/// How many records a log has that this program wrote, and how many bytes those of VM exits.
pub fn count(log: &Path) -> anyhow::Result<(u64, u64)> {
    let (mut count, mut exits) = (0, 0);
    each_window(log, |_, records| {
        count += records.len() as u64;
        exits +=
            records.iter().filter(|record| record.event == VMEXIT).map(|record| record.bytes.len() as u64).sum::<u64>();
        Ok(())
    })?;
    Ok((count, exits))
}
