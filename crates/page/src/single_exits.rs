//! Single exits, as a page holds them: all of a recording up to a bound, beyond it the stretches of time that have the slowest.
//!
//! ```text
//! Briefs ─► chunk of 4,096 exits, in the order in which they ended ─► full: packed ─► too many chunks: the least slow one goes
//! ```
//!
//! Columns of a chunk, as [`push_all`] packs numbers, `begin` and kernel as [`push_planes`] does: how long after the last exit of its
//! vCPU each exit began (of the vCPU's first in the chunk, after `first_ns`; zigzag), vCPU, cause, whether it went to user space, CPU, place in the guest (its number + 1, 0 where the trace does not say), kernel, user space,
//! and which other parts it has, as bits; then these parts, exit by exit. Of CPU, place and user space, what is the same as it last was
//! in the chunk is 0, else it is the value + 1: as of the vCPU's last exit, and of the cause's.

use crate::columns::{push_all, push_planes};
use crate::names::Briefs;
use exitscope_analysis::Index;
use exitscope_model::{ExitParts, TimePart};
use rustc_hash::FxHashMap;
use schemars::JsonSchema;
use serde::Serialize;

/// Exits of a chunk.
const OF_CHUNK: usize = 4_096;

/// Chunks at most: of a million exits (about 12 MB before the page is packed).
const CHUNKS: usize = 256;

/// Places in guests at most; exits elsewhere have none.
const RIPS: u32 = 1 << 14;

/// An exit.
#[derive(Clone, Copy, Debug)]
struct Single {
    at: u64,
    lane: u16,
    cause: u16,
    cpu: u16,
    /// The place in the guest + 1, or 0.
    rip: u32,
    to_user: bool,
    kernel: u64,
    user: u64,
    waits: Option<[u64; WAITS]>,
}

const WAITS: usize = TimePart::BESIDE_COST.len();

/// Exits one after the other, packed.
#[derive(Clone, Debug)]
struct Chunk {
    rows: usize,
    /// When the first of them began, when the last exit before them ended, and when the last of them did.
    first: u64,
    from: u64,
    to: u64,
    /// The most cost and steal of one of them.
    slowest: u64,
    columns: Vec<u8>,
}

/// Single exits of a recording.
#[derive(Clone, Debug)]
pub struct SingleExits {
    most: usize,
    chunks: Vec<Chunk>,
    open: Vec<Single>,
    rips: Index<u64>,
    /// The numbers of vCPUs and causes are below these.
    below: (u32, u32),
    /// When the last exit of all chunks ended.
    ended: u64,
    /// All that there were.
    exits: u64,
}

/// What is kept of single exits.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct SingleExitsHead {
    /// Exits that there are; all of them are kept if that is the sum of the chunks' rows.
    exits: u64,
    /// Columns of each chunk that are packed one number an exit: begin, vCPU, cause, user space, CPU, place in the guest, …
    columns: Vec<&'static str>,
    /// Where in the page the vCPUs of that column are, and the causes: one vCPU may have several numbers here.
    lanes: Vec<u32>,
    causes: Vec<u32>,
    /// Those of the columns that are packed byte by byte of their numbers.
    planes: [&'static str; 2],
    /// Places in guests: instruction pointers, in hexadecimal.
    rips: Vec<String>,
    /// The other parts of exits, by the bits of the last of these columns, from the lowest on.
    parts: Vec<&'static str>,
    chunks: Vec<SingleChunk>,
}

/// Exits that ended one after the other.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct SingleChunk {
    rows: usize,
    /// When the first of them began, from the page's begin on.
    first_ns: u64,
    /// What ended in this time is in the chunk.
    from_ns: u64,
    to_ns: u64,
    /// Length of its columns.
    bytes: usize,
}

fn zigzag(difference: i64) -> u64 {
    ((difference << 1) ^ (difference >> 63)) as u64
}

/// Of each value of a key that is not the key's last one, the value + 1; else 0. At first it is 0.
fn changes(values: impl Iterator<Item = (u16, u64)>) -> impl Iterator<Item = u64> {
    let mut last: FxHashMap<u16, u64> = FxHashMap::default();
    values.map(move |(key, value)| {
        let before = last.insert(key, value).unwrap_or(0);
        if before == value { 0 } else { value + 1 }
    })
}

impl SingleExits {
    /// Nothing yet, of which up to a million exits will be kept.
    pub fn new() -> SingleExits {
        SingleExits::of_at_most(CHUNKS)
    }

    /// Nothing, and nothing will be kept.
    pub fn none() -> SingleExits {
        SingleExits::of_at_most(0)
    }

    fn of_at_most(most: usize) -> SingleExits {
        let (chunks, open, rips) = (Vec::new(), Vec::new(), Index::of_at_most(RIPS));
        SingleExits { most, chunks, open, rips, below: (0, 0), ended: 0, exits: 0 }
    }

    /// Adds exits that are looked at, and whose ends were both seen.
    pub fn absorb(&mut self, briefs: &Briefs) {
        if self.most == 0 {
            return;
        }
        for exit in briefs.exits.iter().filter(|exit| exit.counted && exit.timed) {
            let waits = |parts: &ExitParts| TimePart::BESIDE_COST.map(|part| parts.get(part).0);
            self.below.0 = self.below.0.max(u32::from(exit.lane) + 1);
            self.below.1 = self.below.1.max(u32::from(exit.cause) + 1);
            let rip = if exit.rip == 0 { RIPS } else { self.rips.of(exit.rip) };
            self.open.push(Single {
                at: exit.at,
                lane: exit.lane,
                cause: exit.cause,
                cpu: exit.cpu,
                rip: if rip == RIPS { 0 } else { rip + 1 },
                to_user: exit.to_user,
                kernel: exit.kernel,
                user: exit.user,
                waits: exit.parts(&briefs.parts).map(waits),
            });
            if self.open.len() >= OF_CHUNK {
                self.close();
            }
        }
    }

    fn close(&mut self) {
        let exits = std::mem::take(&mut self.open);
        self.exits += exits.len() as u64;
        let end = |exit: &Single| {
            let waits = exit.waits.into_iter().flatten().fold(0, u64::saturating_add);
            exit.at.saturating_add(exit.kernel).saturating_add(exit.user).saturating_add(waits)
        };
        let slow = |exit: &Single| {
            let steal = TimePart::BESIDE_COST.iter().position(|part| *part == TimePart::Steal);
            let steal = exit.waits.zip(steal).map_or(0, |(waits, at)| waits[at]);
            exit.kernel.saturating_add(exit.user).saturating_add(steal)
        };
        let from = self.ended;
        let last = exits.iter().map(end).max().unwrap_or(from);
        self.ended = self.ended.max(last);
        let first = exits.iter().map(|exit| exit.at).min().unwrap_or(0);
        let mut ends: FxHashMap<u16, u64> = FxHashMap::default();
        let after = |exit: &Single| {
            let before = ends.insert(exit.lane, end(exit)).unwrap_or(first);
            zigzag(exit.at.wrapping_sub(before) as i64)
        };
        let after: Vec<u64> = exits.iter().map(after).collect();
        let mut columns = Vec::new();
        push_planes(&mut columns, &after);
        push_all(&mut columns, exits.iter().map(|exit| exit.lane.into()));
        push_all(&mut columns, exits.iter().map(|exit| exit.cause.into()));
        push_all(&mut columns, changes(exits.iter().map(|exit| (exit.cause, exit.to_user.into()))));
        push_all(&mut columns, changes(exits.iter().map(|exit| (exit.lane, exit.cpu.into()))));
        push_all(&mut columns, changes(exits.iter().map(|exit| (exit.cause, exit.rip.into()))));
        push_planes(&mut columns, &exits.iter().map(|exit| exit.kernel).collect::<Vec<u64>>());
        push_all(&mut columns, exits.iter().map(|exit| exit.user));
        let bits = |waits: &[u64; WAITS]| (0..).zip(waits).map(|(at, wait)| u64::from(*wait > 0) << at).sum();
        push_all(&mut columns, exits.iter().map(|exit| exit.waits.as_ref().map_or(0, bits)));
        push_all(&mut columns, exits.iter().flat_map(|exit| exit.waits).flatten().filter(|wait| *wait > 0));
        self.chunks.push(Chunk {
            rows: exits.len(),
            first,
            from,
            to: last.max(from),
            slowest: exits.iter().map(slow).max().unwrap_or(0),
            columns,
        });
        if self.chunks.len() > self.most
            && let Some(least) = (0..self.chunks.len()).min_by_key(|at| self.chunks[*at].slowest)
        {
            self.chunks.remove(least);
        }
    }

    /// What a page holds of them, counted from `base`; `lane` and `cause` say where vCPUs and causes are in the page. Appends the columns
    /// to `bytes`.
    pub fn finish(
        mut self,
        base: u64,
        (lane, cause): (impl Fn(u32) -> u32, impl Fn(u32) -> u32),
        bytes: &mut Vec<u8>,
    ) -> Option<SingleExitsHead> {
        if !self.open.is_empty() {
            self.close();
        }
        if self.exits == 0 {
            return None;
        }
        let after = |at: u64| at.saturating_sub(base);
        let chunk = |chunk: &Chunk| {
            let began = bytes.len();
            bytes.extend(&chunk.columns);
            SingleChunk {
                rows: chunk.rows,
                first_ns: after(chunk.first),
                from_ns: after(chunk.from),
                to_ns: after(chunk.to),
                bytes: bytes.len() - began,
            }
        };
        let chunks = self.chunks.iter().map(chunk).collect();
        let [kernel, user] = [TimePart::Kernel, TimePart::User].map(TimePart::column);
        Some(SingleExitsHead {
            exits: self.exits,
            columns: vec!["begin", "lane", "cause", "to_user", "cpu", "rip", kernel, user, "others"],
            lanes: (0..self.below.0).map(lane).collect(),
            causes: (0..self.below.1).map(cause).collect(),
            planes: ["begin", kernel],
            rips: self.rips.keys().iter().map(|rip| format!("{rip:#x}")).collect(),
            parts: TimePart::BESIDE_COST.map(TimePart::column).to_vec(),
            chunks,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::Names;
    use crate::slow::tests::exit;
    use exitscope_analysis::Selection;
    use exitscope_model::Exit;
    use exitscope_units::{Nanos, PcpuId};

    fn kept(most: usize, exits: &[Exit]) -> (SingleExitsHead, Vec<u8>) {
        let (mut names, mut briefs) = (Names::new(&Selection::default()), Briefs::default());
        exits.iter().for_each(|exit| names.absorb(exit, &mut briefs));
        let mut singles = SingleExits::of_at_most(most);
        singles.absorb(&briefs);
        let mut bytes = vec![7];
        let head = singles.finish(1_000, (|lane| lane + 40, |cause| cause + 50), &mut bytes).unwrap();
        (head, bytes.split_off(1))
    }

    /// As the page reads columns that are not packed byte by byte.
    fn numbers(bytes: &[u8]) -> Vec<u64> {
        let mut all = Vec::new();
        let (mut value, mut shift) = (0, 0);
        for byte in bytes {
            value |= u64::from(byte & 0x7f) << shift;
            shift += 7;
            if byte & 0x80 == 0 {
                all.push(std::mem::take(&mut value));
                shift = 0;
            }
        }
        all
    }

    #[test]
    fn exits_are_packed_column_by_column_with_the_parts_that_they_have() {
        let with = |exit: Exit, part, nanos| Exit { parts: exit.parts.with(part, Nanos(nanos)), ..exit };
        let exits = [
            Exit { rip: 0xffff_ffff_8100_0000, cpu: PcpuId(3), ..exit(1_500, 100) },
            with(with(exit(1_200, 30), TimePart::Halted, 900), TimePart::User, 5),
            Exit { timed: false, ..exit(1_600, 1) },
        ];
        let (head, bytes) = kept(2, &exits);
        assert_eq!(
            (head.exits, head.chunks.len(), head.chunks[0].rows),
            (2, 1, 2),
            "those without a length have no place"
        );
        let halted = TimePart::BESIDE_COST.iter().position(|part| *part == TimePart::Halted).unwrap();
        // Begins, vCPUs, causes, to user space, CPUs, places, kernel, user space, which others; the others. What was 3 and is 0 is 1.
        // The first began 300 ns after what is the first moment, the second 400 ns before the first ended.
        let begins =
            [2, 600_u16.to_le_bytes()[0], 799_u16.to_le_bytes()[0], 600_u16.to_le_bytes()[1], 799_u16.to_le_bytes()[1]];
        let (begun, rest) = bytes.split_at(begins.len());
        assert_eq!(begun, begins);
        let expected = [0, 0, 0, 0, 0, 0, 4, 1, 2, 1, 1, 100, 30, 0, 5, 0, 1 << halted, 900];
        assert_eq!(head.rips, ["0xffffffff81000000"]);
        assert_eq!((head.lanes, head.causes), (vec![40], vec![50]));
        assert_eq!(numbers(rest), expected);
        let chunk = &head.chunks[0];
        assert_eq!((chunk.first_ns, chunk.from_ns, chunk.to_ns, chunk.bytes), (200, 0, 1_135, bytes.len()));
    }

    #[test]
    fn beyond_the_bound_the_chunks_with_the_slowest_exits_stay_and_what_is_left_out_is_known() {
        let chunk = OF_CHUNK as u64;
        // The second and the fourth chunk have a slow one.
        let cost = |number: u64| if number == chunk + 5 || number == 3 * chunk + 9 { 90 } else { 10 };
        let exits: Vec<Exit> = (0..5 * chunk).map(|number| exit(2_000 + number * 100, cost(number))).collect();
        let (head, _) = kept(2, &exits);
        assert_eq!(head.exits, 5 * chunk);
        let times: Vec<(u64, u64)> = head.chunks.iter().map(|chunk| (chunk.from_ns, chunk.to_ns)).collect();
        let ended = |number: u64| 1_000 + (number - 1) * 100 + cost(number - 1);
        assert_eq!(times, [1, 3].map(|at| (ended(at * chunk), ended((at + 1) * chunk))));
    }
}
