//! Where the ring pages of a version 7 are whose table of them is cut off: the recorder writes it behind them.
//!
//! ```text
//! section   u16 BUFFER, u16 flags (1: compressed), u32 description, u64 size (0 until it is whole)
//! CPU       at a multiple of the page size: its pages, or u32 chunks and each: u32 packed size, u32 size, data
//! ```
//!
//! As `tcmd_out_write_cpu_data` of trace-cmd's `trace-output.c` writes them, one CPU after the other, those without a
//! record without a byte.

use super::options::{CpuData, id};
use crate::bytes::ByteOrder;
use crate::{Input, TraceError};

/// What was found.
#[derive(Debug)]
pub(super) struct CutBuffer {
    pub cpus: Vec<CpuData>,
    /// Whether the pages are in compressed chunks.
    pub is_packed: bool,
    /// Whether the recorder stopped before it had written them all.
    pub is_unfinished: bool,
}

/// The ring pages in the section at `at`, of these CPUs in this order; none if there is no such section.
pub(super) fn find(
    input: &Input,
    order: ByteOrder,
    at: u64,
    page: u64,
    mut cpus: impl Iterator<Item = u32>,
) -> Result<Option<CutBuffer>, TraceError> {
    let head = input.read_vec(at, 16)?;
    let (Some(id::BUFFER), Some(flags), Some(size)) = (order.u16(&head, 0), order.u16(&head, 2), order.u64(&head, 8))
    else {
        return Ok(None);
    };
    let begin = at.saturating_add(16);
    let mut buffer = CutBuffer { cpus: Vec::new(), is_packed: flags & 1 != 0, is_unfinished: size == 0 };
    let end = if buffer.is_unfinished { input.len() } else { begin.saturating_add(size) };
    let mut from = begin.next_multiple_of(page);
    while from < end.min(input.len()) {
        let to = match buffer.is_packed {
            true => chunks_end(input, order, from)?,
            false => pages_end(input, order, from, page)?,
        };
        let to = to.filter(|&to| to < end).unwrap_or(end);
        // Beyond the CPUs that are known to have any, nobody knows whose they are.
        buffer.cpus.push(CpuData { cpu: cpus.next().unwrap_or(u32::MAX), offset: from, size: to - from });
        let Some(next) = to.checked_next_multiple_of(page) else { break };
        from = next;
    }
    Ok(Some(buffer))
}

/// Where the chunks end that begin at `at`; none if the file does before.
fn chunks_end(input: &Input, order: ByteOrder, mut at: u64) -> Result<Option<u64>, TraceError> {
    let number = |at: u64| Ok::<_, TraceError>(order.u32(&input.read_vec(at, 4)?, 0));
    let Some(chunks) = number(at)? else { return Ok(None) };
    at += 4;
    for _ in 0..chunks {
        let Some(packed) = number(at)? else { return Ok(None) };
        at += 8 + u64::from(packed);
    }
    Ok(Some(at).filter(|&at| at <= input.len()))
}

/// Where the pages end that begin at `at`: before one that is older than the one before, which is another CPU's; none if
/// the file does before.
fn pages_end(input: &Input, order: ByteOrder, mut at: u64, page: u64) -> Result<Option<u64>, TraceError> {
    let mut latest = 0;
    while let Some(time) = order.u64(&input.read_vec(at, 8)?, 0) {
        if time < latest {
            return Ok(Some(at));
        }
        latest = time;
        at += page;
    }
    Ok(None)
}
