//! Single exits, packed: all of a recording up to a bound, beyond it the stretches of time that have the slowest.
//!
//! ```text
//! TimelineBatch ─► chunk of 4,096 exits, in the order in which they ended ─► full: packed ─► too many chunks: the least slow one goes
//! ```
//!
//! Columns of a chunk, as [`push_all`] packs numbers, `begin` and kernel as [`push_planes`] does: how long after the last exit of its
//! vCPU each exit began (of the vCPU's first in the chunk, after `first_ns`; zigzag), vCPU, cause, whether it went to user space, CPU, place in the guest (its number + 1, 0 where the trace does not say), kernel, user space,
//! and which other parts it has, as bits; then these parts, exit by exit. Of CPU, place and user space, what is the same as it last was
//! in the chunk is 0, else it is the value + 1: as of the vCPU's last exit, and of the cause's. Beside them are the waits for a CPU
//! that ended in the chunk's time; of too many, those of the least slow chunks go.

use super::columns::{push_all, push_planes, zigzag};
use super::cpu_waits::CpuWait;
use super::timeline_keys::TimelineBatch;
use crate::KeyNumbering;
use exitscope_model::{ExitParts, TimePart};
use exitscope_units::Tid;
use rustc_hash::FxHashMap;

/// Exits of a chunk.
pub const OF_CHUNK: usize = 4_096;

/// Chunks at most: of a million exits (about 12 MB before the page is packed).
const CHUNKS: usize = 256;

/// Places in guests at most; exits elsewhere have none.
const RIPS: u32 = 1 << 14;

/// Waits for a CPU at most (about 160 KB before the page is packed).
pub const CPU_WAITS: usize = 1 << 14;

/// Threads at most that took CPUs or woke vCPUs; further ones have one number.
pub const THREADS: u32 = 1 << 10;

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
pub struct Chunk {
    /// Number of exits in the chunk.
    pub rows: usize,
    /// When the first of them began, in nanoseconds.
    pub first: u64,
    /// When the last exit before them ended.
    pub from: u64,
    /// When the last of them ended.
    pub to: u64,
    /// The most cost and steal of one of them.
    slowest: u64,
    /// They, packed.
    pub columns: Vec<u8>,
    /// The waits for a CPU that ended in its time; `None` if they are left out.
    pub cpu_waits: Option<Vec<CpuWait>>,
}

/// Single exits of a recording.
#[derive(Clone, Debug)]
pub struct SingleExits {
    most: usize,
    /// Those that are in this time in part, or all.
    within: Option<(u64, u64)>,
    /// Those that are kept; all, once it has [ended](SingleExits::end).
    pub chunks: Vec<Chunk>,
    open: Vec<Single>,
    /// Places in guests.
    pub rips: KeyNumbering<u64>,
    /// Threads that took CPUs or woke vCPUs.
    pub threads: KeyNumbering<Tid>,
    /// Waits that ended after the last chunk, and whether some of these are left out.
    cpu_waits: Vec<CpuWait>,
    lacks_waits: bool,
    /// Waits for a CPU in all chunks.
    all_waits: usize,
    /// The numbers of vCPUs and causes are below these.
    pub below: (u32, u32),
    /// When the last exit of all chunks ended.
    ended: u64,
    /// All that there were, as far as they are in chunks.
    pub exits: u64,
}

/// Of each value of a key that is not the key's last one, the value + 1; else 0. At first it is 0.
fn changes(values: impl Iterator<Item = (u16, u64)>) -> impl Iterator<Item = u64> {
    let mut last: FxHashMap<u16, u64> = FxHashMap::default();
    values.map(move |(key, value)| {
        let before = last.insert(key, value).unwrap_or(0);
        if before == value { 0 } else { value + 1 }
    })
}

impl Chunk {
    /// How many waits for a CPU it has.
    fn waits(&self) -> usize {
        self.cpu_waits.as_ref().map_or(0, Vec::len)
    }
}

impl SingleExits {
    /// Nothing yet, of which up to a million exits will be kept.
    pub(super) fn new() -> SingleExits {
        SingleExits::of_at_most(CHUNKS)
    }

    /// Nothing, and nothing will be kept.
    pub fn none() -> SingleExits {
        SingleExits::of_at_most(0)
    }

    /// Single exits of a time at most.
    pub const MOST_WITHIN: usize = 16 * OF_CHUNK;

    /// Nothing yet, of which those will be kept that are between these moments in part.
    pub fn within(from: u64, to: u64) -> SingleExits {
        SingleExits { within: Some((from, to)), ..SingleExits::of_at_most(SingleExits::MOST_WITHIN / OF_CHUNK) }
    }

    /// Whether there are too many in that time.
    pub fn is_cut(&self) -> bool {
        self.within.is_some() && self.exits + self.open.len() as u64 > SingleExits::MOST_WITHIN as u64
    }

    /// When the first began that is kept.
    pub fn first(&self) -> Option<u64> {
        let open = self.open.iter().map(|exit| exit.at);
        self.chunks.iter().map(|chunk| chunk.first).chain(open).min()
    }

    fn of_at_most(most: usize) -> SingleExits {
        SingleExits {
            most,
            within: None,
            chunks: Vec::new(),
            open: Vec::new(),
            rips: KeyNumbering::of_at_most(RIPS),
            threads: KeyNumbering::of_at_most(THREADS),
            cpu_waits: Vec::new(),
            lacks_waits: false,
            all_waits: 0,
            below: (0, 0),
            ended: 0,
            exits: 0,
        }
    }

    /// Adds exits that are looked at, and whose ends were both seen.
    pub fn absorb(&mut self, batch: &TimelineBatch) {
        if self.most == 0 {
            return;
        }
        let within = self.within;
        let is_within = |from: u64, to: u64| within.is_none_or(|within| from <= within.1 && to >= within.0);
        let exits = batch.exits.iter().filter(|exit| exit.counted && exit.timed);
        for exit in exits.filter(|exit| is_within(exit.at, exit.at.saturating_add(exit.total))) {
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
                waits: exit.parts(&batch.parts).map(waits),
            });
            if self.open.len() >= OF_CHUNK {
                self.close();
            }
        }
        let waits = batch.cpu_waits.iter().filter(|wait| is_within(wait.at, wait.end()));
        waits.for_each(|wait| self.add_wait(wait));
        self.bound_waits();
    }

    /// Adds a wait for a CPU to the chunk in whose time it ended; if that one is open, it is kept aside.
    fn add_wait(&mut self, wait: &CpuWait) {
        self.below.0 = self.below.0.max(u32::from(wait.lane) + 1);
        wait.by.into_iter().for_each(|by| _ = self.threads.of(by));
        if wait.end() > self.ended {
            self.lacks_waits |= self.cpu_waits.len() >= CPU_WAITS;
            if !self.lacks_waits {
                self.cpu_waits.push(*wait);
            }
            return;
        }
        let place = self.chunks.partition_point(|chunk| chunk.to < wait.end());
        let chunk = self.chunks.get_mut(place).filter(|chunk| chunk.from < wait.end());
        if let Some(waits) = chunk.and_then(|chunk| chunk.cpu_waits.as_mut()) {
            waits.push(*wait);
            self.all_waits += 1;
        }
    }

    /// Leaves out the waits of the least slow chunks while there are too many.
    fn bound_waits(&mut self) {
        while self.all_waits > CPU_WAITS {
            let with_some = self.chunks.iter_mut().filter(|chunk| chunk.waits() > 0);
            let Some(least) = with_some.min_by_key(|chunk| chunk.slowest) else { return };
            self.all_waits -= least.waits();
            least.cpu_waits = None;
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
        let (mut waits, later) = std::mem::take(&mut self.cpu_waits).into_iter().partition(|wait| wait.end() <= last);
        self.cpu_waits = later;
        let cpu_waits = (!std::mem::take(&mut self.lacks_waits)).then(|| std::mem::take(&mut waits));
        self.all_waits += cpu_waits.as_ref().map_or(0, Vec::len);
        self.chunks.push(Chunk {
            cpu_waits,
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
            self.all_waits -= self.chunks.remove(least).waits();
        }
    }

    /// Ends it: what is kept is in chunks.
    pub fn end(&mut self) {
        if !self.open.is_empty() {
            self.close();
        }
        let last = self.chunks.last_mut().filter(|last| last.to == self.ended);
        if let Some(waits) = last.and_then(|last| last.cpu_waits.as_mut()) {
            self.all_waits += self.cpu_waits.len();
            waits.append(&mut self.cpu_waits);
        }
        self.bound_waits();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Selection;
    use crate::over_time::TimelineKeys;
    use crate::over_time::slowest_by_interval::tests::exit;
    use exitscope_model::{Exit, Preemption, ThreadWakeUp};
    use exitscope_units::{Moment, Nanos, PcpuId};

    fn kept(most: usize, exits: &[Exit]) -> SingleExits {
        let (mut names, mut batch) = (TimelineKeys::new(&Selection::default()), TimelineBatch::default());
        exits.iter().for_each(|exit| names.absorb(exit, &mut batch));
        let mut singles = SingleExits::of_at_most(most);
        singles.absorb(&batch);
        singles.end();
        singles
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
        let singles = kept(2, &exits);
        let chunk = &singles.chunks[0];
        assert_eq!(
            (singles.exits, singles.chunks.len(), chunk.rows),
            (2, 1, 2),
            "those without a length have no place"
        );
        let halted = TimePart::BESIDE_COST.iter().position(|part| *part == TimePart::Halted).unwrap();
        // Begins, vCPUs, causes, to user space, CPUs, places, kernel, user space, which others; the others. What was 3 and is 0 is 1.
        // The first began 300 ns after what is the first moment, the second 400 ns before the first ended.
        let begins =
            [2, 600_u16.to_le_bytes()[0], 799_u16.to_le_bytes()[0], 600_u16.to_le_bytes()[1], 799_u16.to_le_bytes()[1]];
        let (begun, rest) = chunk.columns.split_at(begins.len());
        assert_eq!(begun, begins);
        let expected = [0, 0, 0, 0, 0, 0, 4, 1, 2, 1, 1, 100, 30, 0, 5, 0, 1 << halted, 900];
        assert_eq!((singles.rips.keys(), singles.below), (&[0xffff_ffff_8100_0000][..], (1, 1)));
        assert_eq!(numbers(rest), expected);
        assert_eq!((chunk.first, chunk.from, chunk.to), (1_200, 0, 2_135));
    }

    #[test]
    fn waits_for_a_cpu_are_of_the_chunk_in_whose_time_they_ended_and_the_least_slow_chunks_lose_theirs() {
        let (chunk, per) = (OF_CHUNK as u64, CPU_WAITS / 2);
        // The last chunk but one is the least slow.
        let cost = |number: u64| if number / chunk == 1 { 10 } else { 20 };
        let exits = (0..3 * chunk).map(|number| exit(2_000 + number * 100, cost(number)));
        let (mut names, mut batch) = (TimelineKeys::new(&Selection::default()), TimelineBatch::default());
        exits.for_each(|exit| names.absorb(&exit, &mut batch));
        let who = exit(0, 0).who;
        let at = |number: u64| Moment::from_nanos(2_000 + number * 100);
        let preempted = |at, ran| Preemption { who, at, ran, yields: 0, first: None, by: Some(Tid(7)), yielded: false };
        // Begun in the first chunk, ended in the second.
        names.absorb_preemption(&preempted(at(chunk - 3), Some(at(chunk + 3))), &mut batch);
        (0..per).for_each(|_| names.absorb_preemption(&preempted(at(5), Some(at(6))), &mut batch));
        // Nothing after it is known.
        names.absorb_wake_up(&ThreadWakeUp { who, at: at(3 * chunk), ran: None, by: None }, &mut batch);
        let made = |batch: &TimelineBatch| {
            let mut singles = SingleExits::of_at_most(9);
            singles.absorb(batch);
            singles.end();
            let waits = |chunk: &Chunk| chunk.cpu_waits.as_ref().map(Vec::len);
            (singles.chunks.iter().map(waits).collect::<Vec<_>>(), singles)
        };
        let (waits, singles) = made(&batch);
        assert_eq!((waits, singles.threads.keys()), (vec![Some(per), Some(1), Some(1)], &[Tid(7)][..]));
        let over = CpuWait {
            at: at(chunk - 3).as_nanos(),
            ran: Some(at(chunk + 3).as_nanos()),
            lane: 0,
            woken: false,
            by: Some(Tid(7)),
        };
        assert_eq!(singles.chunks[1].cpu_waits, Some(vec![over]));
        // Too many.
        (0..=per).for_each(|_| names.absorb_preemption(&preempted(at(chunk + 5), Some(at(chunk + 6))), &mut batch));
        assert_eq!(made(&batch).0, [Some(per), None, Some(1)]);
    }

    #[test]
    fn of_a_time_exits_are_kept_that_reach_into_it() {
        let (mut names, mut batch) = (TimelineKeys::new(&Selection::default()), TimelineBatch::default());
        // Ends before it, ends with its begin, begins before it, is in it, begins with its end, begins after it.
        let all = [exit(100, 50), exit(150, 50), exit(190, 300), exit(250, 10), exit(300, 90), exit(301, 1)];
        all.iter().for_each(|exit| names.absorb(exit, &mut batch));
        let mut singles = SingleExits::within(200, 300);
        singles.absorb(&batch);
        assert_eq!(singles.open.iter().map(|exit| exit.at).collect::<Vec<_>>(), [150, 190, 250, 300]);
        assert_eq!((singles.first(), singles.is_cut()), (Some(150), false));
        let most = SingleExits::MOST_WITHIN - 4;
        (0..most).for_each(|_| names.absorb(&exit(250, 1), &mut batch));
        let mut singles = SingleExits::within(200, 300);
        singles.absorb(&batch);
        assert!(!singles.is_cut());
        names.absorb(&exit(250, 1), &mut batch);
        let mut singles = SingleExits::within(200, 300);
        singles.absorb(&batch);
        assert!(singles.is_cut());
    }

    #[test]
    fn beyond_the_bound_the_chunks_with_the_slowest_exits_stay_and_what_is_left_out_is_known() {
        let chunk = OF_CHUNK as u64;
        // The second and the fourth chunk have a slow one.
        let cost = |number: u64| if number == chunk + 5 || number == 3 * chunk + 9 { 90 } else { 10 };
        let exits: Vec<Exit> = (0..5 * chunk).map(|number| exit(2_000 + number * 100, cost(number))).collect();
        let singles = kept(2, &exits);
        assert_eq!(singles.exits, 5 * chunk);
        let times: Vec<(u64, u64)> = singles.chunks.iter().map(|chunk| (chunk.from, chunk.to)).collect();
        let ended = |number: u64| 2_000 + (number - 1) * 100 + cost(number - 1);
        assert_eq!(times, [1, 3].map(|at| (ended(at * chunk), ended((at + 1) * chunk))));
    }
}
