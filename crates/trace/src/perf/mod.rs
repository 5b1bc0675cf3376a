//! perf.data, as a file and as a pipe.
//!
//! ```text
//! head: attrs, ids, formats ─► cursor: blocks of whole records ─► records: events ─► merge: time order
//!                                        └──── pool: on several threads ────┘
//! ```
//!
//! perf writes its per-CPU buffers one after the other and a FINISHED_ROUND behind each time round: what is older than
//! the latest event of the round before cannot be followed by anything older (`ordered_events` of tools/perf). Where
//! each CPU is seen to have a buffer of its own, events leave earlier (`cpus`).

mod attr;
mod cpu_progress;
mod cursor;
mod decode_pool;
mod header;
mod records;
mod stream;
mod write;

use crate::event_merge::Merge;
use crate::input::Input;
use crate::source::{EventSource, MAX_THREADS, SourceOptions, TraceError};
use cpu_progress::CpuProgress;
use cursor::Cursor;
use decode_pool::DecodePool;
use exitscope_model::{Event, Ledger, LedgerLine, TraceInfo};
use exitscope_units::{Moment, PcpuId};
pub use header::looks_like;
use records::{RecordBlock, Thread};
use rustc_hash::FxHashMap;
use stream::PerfStream;
pub use write::{PerfWriter, TraceDescription, WrittenTrace, known_formats};

/// Events that one call to [`EventSource::read`] aims to append: they are to stay in a core's first cache, where they were merged.
const BATCH: usize = 512;

/// Data from this size on is decoded on several threads.
const POOLED: u64 = 1 << 20;

/// Opens a perf.data.
pub fn open(input: Input, options: SourceOptions) -> Result<Box<dyn EventSource>, TraceError> {
    Ok(Box::new(PerfData::open(input, options, POOLED)?))
}

struct PerfData {
    info: TraceInfo,
    blocks: Blocks,
    merge: Merge,
    /// What the header gave, until the first read.
    ledger: Ledger,
    /// The latest moment so far, that at the last FINISHED_ROUND, and that at the one before: up to it events leave.
    latest: Moment,
    round: Moment,
    until: Moment,
    cpus: CpuProgress,
    /// Whether no record is left to be read.
    ended: bool,
    /// When threads got their names.
    named: FxHashMap<u32, Moment>,
    /// Records lost as LOST records say, and as perf's totals at the end say.
    lost: u64,
    lost_in_all: u64,
    /// The file's name, if it is one of a directory and had no event so far.
    directory: Option<String>,
    done: u64,
    total: u64,
}

enum Blocks {
    Pool(DecodePool),
    Stream(Box<PerfStream>),
}

impl EventSource for PerfData {
    fn info(&self) -> &TraceInfo {
        &self.info
    }

    fn read(&mut self, events: &mut Vec<Event>, ledger: &mut Ledger) -> Result<bool, TraceError> {
        ledger.merge(&std::mem::take(&mut self.ledger));
        let full = events.len() + BATCH;
        loop {
            self.merge.drain(self.until, full.saturating_sub(events.len()), events);
            if events.len() >= full {
                return Ok(true);
            }
            if self.ended {
                return Ok(false);
            }
            let next = match &mut self.blocks {
                Blocks::Pool(pool) => pool.next(),
                Blocks::Stream(stream) => stream.next(&mut self.info),
            };
            match next.transpose()? {
                Some(block) => self.take(block, ledger),
                None => self.end(ledger)?,
            }
        }
    }

    fn progress(&self) -> (u64, u64) {
        (self.done.min(self.total), self.total)
    }
}

impl PerfData {
    fn open(input: Input, options: SourceOptions, pooled: u64) -> Result<PerfData, TraceError> {
        let mut ledger = Ledger::default();
        let head = header::read(&input, options, &mut ledger)?;
        if input.truncation().is_some() {
            ledger.count_at(LedgerLine::BadCompression, input.len());
        }
        let total = input.len();
        let (at, end) = head.data;
        let name = input.name().to_string();
        let cursor = Cursor::new(input, head.context.order, (at, end), head.behind, head.sequential);
        let blocks = if head.sequential || head.behind.is_some() || end.saturating_sub(at) < pooled {
            Blocks::Stream(Box::new(PerfStream::new(cursor, head.context)))
        } else {
            Blocks::Pool(DecodePool::start(cursor, head.context)?)
        };
        Ok(PerfData {
            info: head.info,
            blocks,
            merge: Merge::default(),
            ledger,
            latest: Moment::default(),
            round: Moment::default(),
            until: Moment::default(),
            cpus: CpuProgress::default(),
            lost: 0,
            lost_in_all: 0,
            directory: head.directory.then_some(name),
            named: FxHashMap::default(),
            ended: false,
            done: 0,
            total,
        })
    }

    /// Lets everything go that was held back.
    fn end(&mut self, ledger: &mut Ledger) -> Result<(), TraceError> {
        if let Some(name) = self.directory.take() {
            let what = "perf wrote its samples to the files data.0, data.1, … beside it (perf record --threads)";
            return Err(TraceError::Unsupported { name, what: what.to_string() });
        }
        // Behind the last record of a buffer the kernel had no room to say what it lost; the totals know.
        let unsaid = self.lost_in_all.saturating_sub(self.lost);
        if unsaid > 0 {
            ledger.add(LedgerLine::LostRecords, unsaid);
            self.merge.push(vec![Event::lost(self.latest, PcpuId(u32::MAX), unsaid)], &[]);
        }
        self.ended = true;
        self.until = Moment::MAX;
        self.done = self.total;
        Ok(())
    }

    fn take(&mut self, mut block: RecordBlock, ledger: &mut Ledger) {
        // What says no moment of its own has the latest one before it; here that was in a block before.
        let untimed = block.events.iter().take_while(|event| event.at == Moment::default()).count();
        block.events[..untimed].iter_mut().for_each(|event| event.at = self.latest);
        if untimed > 0 && block.events.get(untimed).is_some_and(|event| event.at < self.latest) {
            block.runs.insert(0, untimed);
        }
        for &latest in &block.rounds {
            self.latest = self.latest.max(latest);
            self.until = self.until.max(self.round);
            self.round = self.latest;
        }
        self.latest = self.latest.max(block.latest());
        self.cpus.take(&block.stretches, block.rounds.len());
        if let Some(complete) = self.cpus.complete(self.info.cpus) {
            self.until = self.until.max(complete);
        }
        self.done += cursor::BLOCK;
        self.lost = self.lost.saturating_add(block.lost);
        self.lost_in_all = self.lost_in_all.saturating_add(block.lost_in_all);
        if block.ledger.events > 0 {
            self.directory = None;
        }
        ledger.merge(&block.ledger);
        for (at, thread) in block.threads.drain(..) {
            let (tid, name) = match thread {
                Thread::Comm(tid, name) => (tid, name),
                Thread::Fork { child, parent } => match self.info.comms.get(&parent) {
                    Some(name) => (child, name.clone()),
                    None => continue,
                },
            };
            let known = self.info.comms.len() < MAX_THREADS || self.info.comms.contains_key(&tid);
            // Records of different CPUs are not in order.
            if known && self.named.get(&tid).is_none_or(|&named| named <= at) {
                self.named.insert(tid, at);
                self.info.comms.insert(tid, name);
            }
        }
        block.events = self.merge.push(std::mem::take(&mut block.events), &block.runs);
        if let Some(median) = self.merge.overfull() {
            self.until = self.until.max(median);
        }
        match &mut self.blocks {
            Blocks::Pool(pool) => pool.recycle(block),
            Blocks::Stream(stream) => stream.recycle(block),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use exitscope_model::EventKind;
    use proptest::prelude::*;

    /// One record of a generated file. The payload of a [`Made::Deceit`] looks like records.
    #[derive(Clone, Debug)]
    enum Made {
        Sample { cpu: u32, at: u64, payload: usize },
        Round,
        Lost { cpu: u32, at: u64 },
        LostInAll(u64),
        Comm { tid: u32, at: u64 },
        Fork { child: u32, parent: u32, at: u64 },
        Unknown(usize),
        Aux(usize),
        Damaged(u16),
        Deceit(usize),
    }

    fn made() -> impl Strategy<Value = Made> {
        // Few different moments, so that equal ones occur; zero is "not known".
        let (cpu, at, tid) = (0u32..4, 0u64..500, 0u32..8);
        prop_oneof![
            12 => (cpu.clone(), at.clone(), prop_oneof![0usize..64, 0usize..60_000])
                .prop_map(|(cpu, at, payload)| Made::Sample { cpu, at, payload }),
            2 => Just(Made::Round),
            1 => (cpu, at.clone()).prop_map(|(cpu, at)| Made::Lost { cpu, at }),
            1 => (0u64..50).prop_map(Made::LostInAll),
            1 => (tid.clone(), at.clone()).prop_map(|(tid, at)| Made::Comm { tid, at }),
            1 => (tid.clone(), tid, at).prop_map(|(child, parent, at)| Made::Fork { child, parent, at }),
            1 => (0usize..8_000).prop_map(|words| Made::Unknown(words * 8)),
            1 => (0usize..400_000).prop_map(Made::Aux),
            1 => (0u16..8).prop_map(Made::Damaged),
            1 => (0usize..2_700).prop_map(Made::Deceit),
        ]
    }

    fn record(kind: u32, body: &[u8]) -> Vec<u8> {
        [&kind.to_le_bytes()[..], &[0, 0], &(8 + body.len() as u16).to_le_bytes(), body].concat()
    }

    fn u64s(values: &[u64]) -> Vec<u8> {
        values.iter().flat_map(|value| value.to_le_bytes()).collect()
    }

    impl Made {
        fn bytes(&self) -> Vec<u8> {
            // The end of records that are no samples: TID, TIME, CPU, IDENTIFIER.
            let end = |at: u64, cpu: u32| u64s(&[0, at, u64::from(cpu), 1]);
            let pair = |low: u32, high: u32| u64::from(high) << 32 | u64::from(low);
            match *self {
                Made::Sample { cpu, at, payload } => {
                    let size = payload.next_multiple_of(8) + 4;
                    let fixed = u64s(&[1, pair(40, 42), at, u64::from(cpu)]);
                    record(9, &[&fixed[..], &(size as u32).to_le_bytes(), &vec![7; size]].concat())
                }
                Made::Round => record(68, &[]),
                Made::Lost { cpu, at } => record(2, &[u64s(&[1, 3]), end(at, cpu)].concat()),
                Made::LostInAll(count) => record(13, &[u64s(&[count]), end(0, 0)].concat()),
                Made::Comm { tid, at } => {
                    record(3, &[&u64s(&[pair(40, tid)])[..], format!("name{:04}", at).as_bytes(), &end(at, 0)].concat())
                }
                Made::Fork { child, parent, at } => {
                    record(7, &[u64s(&[pair(40, 40), pair(child, parent), at]), end(at, 0)].concat())
                }
                Made::Unknown(size) => record(200, &vec![1; size]),
                Made::Aux(trailing) => {
                    [record(71, &u64s(&[trailing as u64, 0, 0, 0, 0])), vec![0xee; trailing]].concat()
                }
                Made::Deceit(inner) => {
                    let payload = [&[0; 4][..], &record(9, &[0; 16]).repeat(inner)].concat();
                    let fixed = u64s(&[1, pair(40, 42), 0, 0]);
                    record(9, &[&fixed[..], &(payload.len() as u32).to_le_bytes(), &payload].concat())
                }
                Made::Damaged(size) => [&record(9, &[])[..6], &size.to_le_bytes(), &[0xee; 48]].concat(),
            }
        }
    }

    fn file(records: &[Made]) -> Vec<u8> {
        let data: Vec<u8> = records.iter().flat_map(Made::bytes).collect();
        let places = [104, 144, 104, 144, 248, data.len() as u64, 0, 0, 0, 0, 0, 0];
        // IDENTIFIER, TID, TIME, CPU, RAW; sample_id_all.
        let attr = u64s(&[128 << 32 | 2, 7, 1, 1 << 16 | 1 << 10 | 1 << 7 | 1 << 2 | 1 << 1, 0, 1 << 18]);
        [b"PERFILE2".to_vec(), u64s(&places), attr, vec![0; 96], data].concat()
    }

    /// What perf writes of `times`, each on a CPU: whenever it goes round, a buffer written later has events that the
    /// ones before had not yet. `rounds` says at how many events it does.
    fn recorded(times: &[(u32, u64)], rounds: &[usize]) -> Vec<Made> {
        let (mut made, mut written) = (Vec::new(), [0; 4]);
        for &round in rounds.iter().chain([&times.len()]) {
            for (cpu, from) in (0..).zip(&mut written) {
                let to = (round + 3 * cpu as usize).min(times.len()).max(*from);
                let new = times[*from..to].iter().filter(|time| time.0 == cpu);
                made.extend(new.map(|&(cpu, at)| Made::Sample { cpu, at, payload: 8 }));
                *from = to;
            }
            made.push(Made::Round);
        }
        made
    }

    fn drain(mut source: PerfData) -> (Vec<Event>, Ledger, Vec<(u32, String)>) {
        let (mut events, mut ledger) = (Vec::new(), Ledger::default());
        while source.read(&mut events, &mut ledger).unwrap() {}
        let mut comms: Vec<_> = source.info.comms.into_iter().collect();
        comms.sort();
        (events, ledger, comms)
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
        #[test]
        fn what_leaves_early_is_in_order(
            steps in prop::collection::vec((0u32..4, 1u64..20_000_000), 1..200),
            mut rounds in prop::collection::vec(0usize..200, 0..12),
        ) {
            let mut now = 0;
            let times: Vec<_> = steps.iter().map(|&(cpu, step)| (cpu, { now += step; now })).collect();
            rounds.sort();
            rounds.iter_mut().for_each(|round| *round = times.len().min(*round));
            let bytes = file(&recorded(&times, &rounds));
            let input = Input::from_bytes("made.data", &bytes).unwrap();
            let mut source = PerfData::open(input, SourceOptions::default(), u64::MAX).unwrap();
            source.info.cpus = 4;
            let (events, ..) = drain(source);
            let read: Vec<_> = events.iter().map(|event| (event.cpu.0, event.at.as_nanos())).collect();
            prop_assert_eq!(read, times);
        }
    }

    #[test]
    fn a_file_may_become_shorter_while_it_is_read() {
        let sample = |at| Made::Sample { cpu: 0, at, payload: 8_000 };
        let records: Vec<Made> = (1..200).map(|at| if at % 90 == 0 { Made::Damaged(3) } else { sample(at) }).collect();
        let bytes = file(&records);
        let place = tempfile::NamedTempFile::new().unwrap();
        for kept in (0..bytes.len()).step_by(40_009) {
            for pooled in [0, u64::MAX] {
                std::fs::write(place.path(), &bytes).unwrap();
                let source =
                    PerfData::open(Input::open(place.path()).unwrap(), SourceOptions::default(), pooled).unwrap();
                place.as_file().set_len(kept as u64).unwrap();
                let (events, ledger, _) = drain(source);
                assert!(events.len() < 210 && ledger.events < 200, "{kept}");
                // Threads may have been faster.
                assert!(pooled == 0 || ledger.events <= kept as u64 / 8_000, "{kept}");
                assert!(
                    pooled == 0 || ledger.get(LedgerLine::TruncatedBytes) + ledger.get(LedgerLine::BadRecord) > 0,
                    "{kept}"
                );
            }
        }
    }

    #[test]
    fn a_wrong_guess_is_noticed_and_made_good() {
        let records: Vec<Made> =
            (1..40).flat_map(|number| [Made::Deceit(2_600), Made::Sample { cpu: 0, at: number, payload: 8 }]).collect();
        let input = Input::from_bytes("made.data", &file(&records)).unwrap();
        let one = PerfData::open(input.try_clone().unwrap(), SourceOptions::default(), u64::MAX).unwrap();
        let mut many = PerfData::open(input, SourceOptions::default(), 0).unwrap();
        let (mut events, mut ledger) = (Vec::new(), Ledger::default());
        while many.read(&mut events, &mut ledger).unwrap() {}
        assert!(matches!(&many.blocks, Blocks::Pool(pool) if !pool.guesses()));
        assert_eq!(ledger.events, records.len() as u64);
        assert_eq!((events, ledger), {
            let (events, ledger, _) = drain(one);
            (events, ledger)
        });
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]
        #[test]
        fn threads_do_not_change_what_is_read(records in prop::collection::vec(made(), 0..150)) {
            let input = Input::from_bytes("made.data", &file(&records)).unwrap();
            let one = PerfData::open(input.try_clone().unwrap(), SourceOptions::default(), u64::MAX).unwrap();
            let many = PerfData::open(input, SourceOptions::default(), 0).unwrap();
            prop_assert!(matches!(many.blocks, Blocks::Pool(_)) || records.is_empty());
            prop_assert!(matches!(one.blocks, Blocks::Stream(_)));
            let (one, many) = (drain(one), drain(many));
            prop_assert_eq!(&one, &many);
            let (events, ledger, _) = one;
            let is_sample = |made: &&Made| matches!(made, Made::Sample { .. } | Made::Deceit(_));
            let samples = records.iter().filter(is_sample).count() as u64;
            let damaged = records.iter().filter(|made| matches!(made, Made::Damaged(_))).count() as u64;
            if damaged == 0 {
                prop_assert_eq!(ledger.events, samples);
                let lost = records.iter().filter(|made| matches!(made, Made::Lost { .. })).count() as u64 * 3;
                let in_all = records.iter().map(|made| if let Made::LostInAll(n) = made { *n } else { 0 }).sum();
                prop_assert_eq!(ledger.get(LedgerLine::LostRecords), lost.max(in_all));
                if !records.iter().any(|made| matches!(made, Made::Round)) {
                    prop_assert!(events.is_sorted_by_key(|event| event.at));
                }
            }
            // At most one line for each; what is behind one is found unless the file ends there. Records within another
            // one pass for true there.
            if !records.iter().any(|made| matches!(made, Made::Deceit(_))) {
                prop_assert!(ledger.get(LedgerLine::BadRecord) <= damaged);
                let holes = events.iter().filter(|event| event.kind == EventKind::Lost { count: 0 }).count() as u64;
                prop_assert_eq!(holes, ledger.get(LedgerLine::BadRecord));
            }
        }
    }
}
