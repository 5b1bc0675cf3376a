//! What is missing of each CPU's records: what the kernel counted against what its ring pages hold.
//!
//! ```text
//! CPUSTAT  entries + read events ─┐
//! pages    records ───────────────┴─► missing: written by the kernel, in no page
//!          marks of overwriting ◄───► overrun
//! ```
//!
//! Pages carry no number, so that one that the recorder lost leaves no trace but the count. Records go missing between
//! pages only: a recorder reads pages whole, and a record for which there is no room ends its page (`rb_reset_tail` of
//! `kernel/trace/ring_buffer.c`). Where nothing says between which, each page of that CPU may follow a loss.

use super::head::{Region, TraceDatHeader};
use super::options::CpuCounts;
use super::stream::{RingPageStream, Step};
use super::unpack::Unpacker;
use crate::{Input, TraceError};
use exitscope_model::Ledger;
use std::num::NonZero;
use std::thread;

/// What is missing of one CPU's records.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Missing {
    /// Records, but for those of which a page says that they are missing before it.
    pub count: u64,
    /// Whether nothing says between which pages.
    pub is_anywhere: bool,
    /// Records that are missing, or that the kernel counted twice.
    pub uncertain: u64,
}

/// Bytes of ring pages from which on several threads count.
const POOLED: u64 = 1 << 20;

/// What is missing in each region. Pages are read for it.
pub(super) fn missing(input: &Input, head: &TraceDatHeader) -> Result<Vec<Missing>, TraceError> {
    let regions = &head.regions;
    if regions.iter().map(|region| region.data.size).sum::<u64>() < POOLED {
        return regions.iter().map(|region| missing_in(region, input, head)).collect();
    }
    let workers = thread::available_parallelism().map_or(1, NonZero::get).min(regions.len());
    let work = |first: usize| -> Result<Vec<(usize, Missing)>, TraceError> {
        let mine = (first..regions.len()).step_by(workers);
        mine.map(|at| Ok((at, missing_in(&regions[at], input, head)?))).collect()
    };
    let mut missing = vec![Missing::default(); regions.len()];
    thread::scope(|scope| {
        let threads: Vec<_> = (0..workers).map(|first| scope.spawn(move || work(first))).collect();
        for thread in threads {
            let found = thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
            found.into_iter().for_each(|(at, found)| missing[at] = found);
        }
        Ok(missing)
    })
}

fn missing_in(region: &Region, input: &Input, head: &TraceDatHeader) -> Result<Missing, TraceError> {
    let CpuCounts { kept, overrun, dropped } = region.counts;
    if kept.is_none() && overrun == 0 {
        return Ok(Missing { count: dropped, is_anywhere: dropped > 0, uncertain: 0 });
    }
    let mut stream = RingPageStream::new(*region, head.regions.len(), head.order, head.long);
    let (mut unpacker, mut packed) = (Unpacker::new(region.packing), Vec::new());
    let (mut there, mut marked, mut is_marked_without_count) = (0u64, 0u64, false);
    // What is damaged is told when it is read again.
    let mut damage = Ledger::default();
    loop {
        let step = stream.step(&mut damage);
        if let Some(count) = stream.missed.take() {
            marked = marked.saturating_add(count.max(1));
            is_marked_without_count |= count == 0;
        }
        match step {
            Step::Record(_) => there += 1 + stream.skip_records(),
            Step::Block if stream.refill(input, &mut unpacker, &mut packed, &mut damage)?.is_some() => {}
            Step::Block => break,
        }
    }
    let (buffered, read) = kept.unwrap_or((0, 0));
    let unheld = buffered.saturating_add(read).saturating_sub(there);
    // No more can be in both.
    let (unheld, uncertain) = if unheld > buffered.min(read) { (unheld, 0) } else { (0, unheld) };
    let unmarked = overrun.saturating_sub(marked);
    let is_explained = region.is_cut || damage.lines().next().is_some();
    let is_anywhere = unheld > 0 && !is_explained || unmarked > 0 && !is_marked_without_count || dropped > 0;
    let count = unheld.saturating_add(unmarked).saturating_add(dropped);
    Ok(Missing { count, is_anywhere, uncertain })
}
