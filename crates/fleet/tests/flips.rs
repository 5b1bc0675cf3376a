//! One flipped bit anywhere in the files of a store: whoever reads the file names it, and nothing is answered from it.

use exitscope_fleet::{FleetOptions, report};
use exitscope_model::{
    CodeList, Exit, ExitCode, ExitInfo, ExitParts, ExitPhases, HaltRow, Handler, Spread, SumRow, TimePart,
    VcpuIdentity, WhoRow,
};
use exitscope_query::{EngineLimits, QueryEngine};
use exitscope_store::{DataFile, FileCheck, RecordingRow, RecordingStats, Store};
use exitscope_units::{Moment, Nanos, PcpuId, Tid, VcpuId, VmId};
use exitscope_view::FleetBy;
use parquet::file::reader::{FileReader, SerializedFileReader};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// What the places are chosen by.
const SEED: u64 = 0x5eed_0f52;

const LIMITS: EngineLimits = EngineLimits { memory: 64 << 20, time: Duration::from_secs(60), threads: 1 };

/// Parts of files, and how many places are chosen in each.
const REGIONS: [(Region, usize); 4] =
    [(Region::Data, 80), (Region::Dictionary, 40), (Region::Footer, 40), (Region::Log, 40)];

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Region {
    /// Pages of values, with their headers.
    Data,
    /// Pages of dictionaries, with their headers.
    Dictionary,
    /// What stands behind the pages of a file.
    Footer,
    /// An entry of the log.
    Log,
}

/// A bit of a file of the store.
#[derive(Debug)]
struct Place {
    path: String,
    region: Region,
    byte: u64,
    bit: u32,
}

/// An xorshift generator (Marsaglia 2003).
struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

fn exit(at: u64) -> Exit {
    Exit {
        at: Moment::from_nanos(at),
        who: VcpuIdentity { vm: VmId(7), vcpu: VcpuId(0), tid: Tid(70) },
        cpu: PcpuId(1),
        code: ExitCode::new(CodeList::Vmx, 12 + at % 3),
        rip: 0,
        info: ExitInfo::default(),
        handler: Handler::Kernel,
        subject: None,
        injected: None,
        guest: Nanos::ZERO,
        parts: ExitParts::ZERO.with(TimePart::Kernel, Nanos(at * 7919 % 104_729)),
        phases: ExitPhases::default(),
        timed: true,
        is_halt: false,
        events: 1,
    }
}

/// Adds a recording with a few exits, sums and halts.
fn add(store: &Store, id: &str, host: &str, release: &str) {
    let who = WhoRow { vm: Some(7), vcpu: Some(0), ..WhoRow::default() };
    let mut adding = store.add(id, host, "2026-11-22", vec![Arc::new(who.clone())]).unwrap();
    (0..60).for_each(|at| adding.absorb(0, &exit(at)).unwrap());
    let text = String::new;
    let run = RecordingRow {
        id: id.to_string(),
        name: text(),
        host: host.to_string(),
        day: "2026-11-22".to_string(),
        format: text(),
        arch: text(),
        release: release.to_string(),
        cpu: text(),
        cpus: 1,
        clock: text(),
        first_ns: 0,
        last_ns: 99,
        events: 3,
        exits: 60,
        timed: 60,
        lost: 0,
        settings: Vec::new(),
        advice: Vec::new(),
    };
    let fact = |at: u64| SumRow {
        who: who.clone(),
        at_ns: 10 * at,
        span_ns: 10,
        reason: ["HLT", "MSR_WRITE"][at as usize % 2].to_string(),
        count: at + 1,
        parts: ExitParts::ZERO.with(TimePart::Kernel, Nanos(at * 1009)),
        exit_times: vec![(at, at + 1)],
        ..SumRow::default()
    };
    let halts = HaltRow::<Spread> { who: who.clone(), halts: 5, ..HaltRow::default() };
    let facts = (0..10).map(fact).collect();
    let stats = RecordingStats { facts, halts: vec![halts], ..RecordingStats::default() };
    adding.finish(&run, &stats).unwrap();
}

fn made() -> (tempfile::TempDir, Store) {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::make(folder.path()).unwrap();
    for (id, host, release) in [("r1", "a", "6.1.0"), ("r2", "a", "6.1.0"), ("r3", "b", "6.8.0")] {
        add(&store, id, host, release);
    }
    (folder, store)
}

/// What a Parquet file consists of.
fn regions(file: &Path) -> Vec<(Region, Range<u64>)> {
    let bytes = file.metadata().unwrap().len();
    let reader = SerializedFileReader::new(File::open(file).unwrap()).unwrap();
    let (mut regions, mut end) = (vec![(Region::Data, 0..4)], 4);
    for column in reader.metadata().row_groups().iter().flat_map(|group| group.columns()) {
        let (from, size) = column.byte_range();
        let data = column.data_page_offset() as u64;
        regions.extend([(Region::Dictionary, from..data), (Region::Data, data..from + size)]);
        end = end.max(from + size);
    }
    regions.push((Region::Footer, end..bytes));
    regions.retain(|(_, range)| !range.is_empty());
    regions
}

/// The places that the seed chooses, from all bytes of a region alike.
fn places(folder: &Path, files: impl Iterator<Item = String>) -> Vec<Place> {
    let mut all: BTreeMap<Region, Vec<(String, Range<u64>)>> = BTreeMap::new();
    for path in files {
        for (region, range) in regions(&folder.join(&path)) {
            all.entry(region).or_default().push((path.clone(), range));
        }
    }
    for number in 1..=3 {
        let path = format!("_log/{number:020}.json");
        let bytes = folder.join(&path).metadata().unwrap().len();
        all.entry(Region::Log).or_default().push((path, 0..bytes));
    }
    let mut chance = Chance(SEED);
    let mut places = Vec::new();
    for (region, count) in REGIONS {
        let ranges = &all[&region];
        let sum = ranges.iter().map(|(_, range)| range.end - range.start).sum();
        for _ in 0..count {
            let mut at = chance.below(sum);
            let (path, byte) = ranges
                .iter()
                .find_map(|(path, range)| {
                    let length = range.end - range.start;
                    if at < length {
                        return Some((path.clone(), range.start + at));
                    }
                    at -= length;
                    None
                })
                .unwrap();
            places.push(Place { path, region, byte, bit: chance.below(8) as u32 });
        }
    }
    places
}

/// A file with one bit flipped, until it is dropped. Each time it is written it is of another second.
struct Flipped<'a> {
    file: PathBuf,
    whole: Vec<u8>,
    seconds: &'a mut u64,
}

impl<'a> Flipped<'a> {
    fn new(folder: &Path, place: &Place, seconds: &'a mut u64) -> Flipped<'a> {
        let file = folder.join(&place.path);
        let whole = fs::read(&file).unwrap();
        let mut flipped = Flipped { file, whole: whole.clone(), seconds };
        let mut bytes = whole;
        bytes[place.byte as usize] ^= 1 << place.bit;
        flipped.write(&bytes);
        flipped
    }

    fn write(&mut self, bytes: &[u8]) {
        fs::write(&self.file, bytes).unwrap();
        *self.seconds += 1;
        let at = SystemTime::UNIX_EPOCH + Duration::from_secs(*self.seconds);
        File::options().write(true).open(&self.file).unwrap().set_modified(at).unwrap();
    }
}

impl Drop for Flipped<'_> {
    fn drop(&mut self) {
        let whole = std::mem::take(&mut self.whole);
        self.write(&whole);
    }
}

/// Whether an answer was refused, and the refusal names the file.
fn names<T>(path: &str, what: &str, place: &Place, answer: Result<T, String>) {
    match answer {
        Err(why) => assert!(why.contains(path), "{what} of {place:?}: {why}"),
        Ok(_) => panic!("{what} of {place:?} is answered"),
    }
}

fn query(engine: &QueryEngine, sql: &str) -> Result<u64, String> {
    let mut rows = 0;
    let answered = engine.query(sql, &mut |_, batch| {
        rows += batch.map_or(0, |batch| batch.num_rows() as u64);
        Ok(true)
    });
    answered.map(|()| rows).map_err(|error| error.to_string())
}

fn fleet(engine: &QueryEngine) -> Result<String, String> {
    let options = FleetOptions {
        by: FleetBy::Kernel,
        against: None,
        since: None,
        before: None,
        top: 5,
        confidence_percent: 95.0,
    };
    let fleet = report(engine, &options).map_err(|error| error.to_string())?;
    Ok(format!("{fleet:?}"))
}

fn open(store: &Store) -> Result<QueryEngine, String> {
    QueryEngine::open(store, LIMITS, FileCheck::Hashes).map_err(|error| error.to_string())
}

#[test]
fn a_flipped_bit_is_named_with_its_file_and_nothing_is_answered_from_it() {
    let (folder, store) = made();
    let pieces: BTreeMap<String, DataFile> = store.contents().unwrap().pieces;
    let engine = open(&store).unwrap();
    let (whole, mut seconds) = (fleet(&engine).unwrap(), 0);
    // Tables that a comparison of the fleet reads nothing of: it is made, which takes longest, once with a damaged file of each.
    let mut unread = BTreeSet::new();
    for place in places(folder.path(), pieces.keys().cloned()) {
        let _flipped = Flipped::new(folder.path(), &place, &mut seconds);
        let path = place.path.as_str();
        let check = store.check().unwrap();
        assert_eq!(check.damaged.iter().map(|of| &*of.path).collect::<Vec<_>>(), [path], "{place:?}");
        let Some(piece) = pieces.get(path) else {
            names(path, "the log", &place, store.contents().map_err(|error| error.to_string()));
            names(path, "sql", &place, open(&store));
            names(path, "compact", &place, store.compact().map_err(|error| error.to_string()));
            continue;
        };
        let table = &piece.table;
        for sql in [format!("select * from {table}"), format!("select count(*) from {table}")] {
            names(path, &sql, &place, query(&engine, &sql));
        }
        let elsewhere = format!("select * from {table} where host <> '{}'", piece.host);
        assert!(query(&engine, &elsewhere).unwrap() > 0, "{place:?}: other files are read");
        match table.as_str() {
            "reason_stats" => names(path, "fleet", &place, fleet(&engine)),
            _ if unread.insert(table) => {
                assert_eq!(fleet(&engine).as_ref(), Ok(&whole), "{place:?}: it reads no {table}");
            }
            _ => {}
        }
        let files = store.files(table, FileCheck::Hashes).map_err(|error| error.to_string());
        names(path, "files", &place, files);
        names(path, "rows", &place, store.rows(piece).map(drop).map_err(|error| error.to_string()));
    }
    assert_eq!(store.check().unwrap().damaged, [], "each was whole again");
    assert_eq!(fleet(&engine), Ok(whole));
}

/// A copy of a store.
fn copied(folder: &Path) -> tempfile::TempDir {
    let copy = tempfile::tempdir().unwrap();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(at) = folders.pop() {
        for entry in fs::read_dir(&at).unwrap() {
            let path = entry.unwrap().path();
            let to = copy.path().join(path.strip_prefix(folder).unwrap());
            if path.is_dir() {
                fs::create_dir(&to).unwrap();
                folders.push(path);
            } else {
                fs::copy(&path, &to).unwrap();
            }
        }
    }
    copy
}

#[test]
fn a_file_with_a_flipped_bit_is_never_joined() {
    let (folder, store) = made();
    let pieces: BTreeMap<String, DataFile> = store.contents().unwrap().pieces;
    // Only files of the host with two recordings are joined.
    let joined = pieces.values().filter(|piece| piece.host == "a").map(|piece| piece.path.clone());
    let places = places(folder.path(), joined).into_iter().filter(|place| place.region != Region::Log);
    let (mut seconds, mut tried) = (0, 0);
    for place in places.step_by(4) {
        let copy = copied(folder.path());
        let store = Store::open(copy.path()).unwrap();
        let _flipped = Flipped::new(copy.path(), &place, &mut seconds);
        let done = store.compact().unwrap();
        assert_eq!(done.damaged.iter().map(|of| &of.path).collect::<Vec<_>>(), [&place.path], "{place:?}");
        assert!(store.contents().unwrap().pieces.contains_key(&place.path), "{place:?} was joined");
        assert_eq!(done.after, 2, "{place:?}: those of the other tables are");
        tried += 1;
    }
    assert_eq!(tried, 40);
}

/// Ways to a table's rows; one of its files is damaged.
const WAYS: [&str; 13] = [
    "select count(*) from exits",
    "select * from exits limit 1",
    "select kernel_ns from exits order by at_ns limit 1",
    "select count(*) over () from exits",
    "select * from exits where host = 'a' or kernel_ns > 0",
    "select (select max(kernel_ns) from exits) m",
    "select 1 where exists (select 1 from exits)",
    "select recording from recordings where recording in (select recording from exits)",
    "with e as (select * from exits) select count(*) from e",
    "select 1 union all select at_ns from exits",
    "select f.count from reason_stats f, exits e where f.recording = e.recording",
    "select h.host from hosts h left join exits e on e.host = h.host",
    "explain analyze select * from exits",
];

#[test]
fn no_way_leads_around_a_damaged_file() {
    let (folder, store) = made();
    let pieces = store.contents().unwrap().pieces;
    let piece = pieces.values().find(|piece| piece.table == "exits" && piece.host == "b").unwrap();
    let place = Place { path: piece.path.clone(), region: Region::Data, byte: piece.bytes / 3, bit: 0 };
    let engine = open(&store).unwrap();
    assert!(WAYS.iter().all(|sql| query(&engine, sql).unwrap() > 0), "each reads a whole store");
    let mut seconds = 0;
    let _flipped = Flipped::new(folder.path(), &place, &mut seconds);
    for sql in WAYS {
        names(&place.path, sql, &place, query(&engine, sql));
    }
    for sql in ["select count(*) from exits where host = 'a'", "select count(*) from reason_stats"] {
        assert!(query(&engine, sql).is_ok(), "{sql} does not need it");
    }
}
