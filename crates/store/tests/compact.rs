//! Joining files makes no damage permanent, and takes no file from who reads it.

use exitscope_model::{ExitParts, SumRow, TimePart, WhoRow};
use exitscope_store::{AddOutcome, Compacted, DataFile, RecordingRow, RecordingStats, Store, StoreContents};
use exitscope_units::Nanos;
use std::fs::File;
use std::path::Path;
use std::time::{Duration, SystemTime};

const DAY: Duration = Duration::from_secs(24 * 3600);

/// Adds a recording without exits, and with some sums.
fn add(store: &Store, id: &str, day: &str) {
    let run = RecordingRow {
        id: id.to_string(),
        name: id.to_string(),
        host: "a".to_string(),
        day: day.to_string(),
        format: "perf.data".to_string(),
        arch: String::new(),
        release: String::new(),
        cpu: String::new(),
        cpus: 0,
        clock: String::new(),
        first_ns: 0,
        last_ns: 1,
        events: 0,
        exits: 0,
        timed: 0,
        lost: 0,
        settings: Vec::new(),
        advice: Vec::new(),
    };
    let fact = |at: u64| SumRow {
        who: WhoRow { vm: Some(7), ..WhoRow::default() },
        at_ns: at,
        count: at * 31 % 1009,
        parts: ExitParts::ZERO.with(TimePart::Kernel, Nanos(at * 7919 % 104_729)),
        ..SumRow::default()
    };
    let sums = RecordingStats { facts: (0..2000).map(fact).collect(), ..RecordingStats::default() };
    store.add(id, "a", day, Vec::new()).unwrap().finish(&run, &sums).unwrap();
}

/// Files of sums, in the order of their recordings.
fn facts(contents: &StoreContents) -> Vec<String> {
    let mut of: Vec<&DataFile> = contents.pieces.values().filter(|piece| piece.table == "reason_stats").collect();
    of.sort_by_key(|piece| &piece.runs);
    of.into_iter().map(|piece| piece.path.clone()).collect()
}

#[test]
fn a_flipped_bit_is_found_before_files_are_joined_and_stays_found() {
    for (name, damage) in [
        (
            "one bit",
            (|bytes| {
                let middle = bytes.len() / 3;
                bytes[middle] ^= 1;
            }) as fn(&mut Vec<u8>),
        ),
        ("cut off", |bytes| bytes.truncate(bytes.len() / 2)),
        ("emptied", Vec::clear),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::make(folder.path()).unwrap();
        ["r1", "r2", "r3"].into_iter().for_each(|id| add(&store, id, "2026-11-22"));
        let mut old = facts(&store.contents().unwrap());
        let bad = old.remove(1);
        let file = folder.path().join(&bad);
        let mut bytes = std::fs::read(&file).unwrap();
        damage(&mut bytes);
        std::fs::write(&file, &bytes).unwrap();

        let Compacted { before, after, damaged } = store.compact().unwrap();
        // Three files of exits become one, and two of sums; the third one is left as it is.
        assert_eq!((before, after), (5, 2), "{name}");
        assert_eq!(damaged.iter().map(|of| &of.path).collect::<Vec<_>>(), [&bad], "{name}");
        assert_eq!(std::fs::read(&file).unwrap(), bytes, "{name}");
        let check = store.check().unwrap();
        assert_eq!(check.damaged, damaged, "{name}: it is not taken for sound later");
        let mut unlisted: Vec<_> = check.unlisted.iter().filter(|path| path.starts_with("reason_stats/")).collect();
        unlisted.sort();
        old.sort();
        assert_eq!(unlisted, old.iter().collect::<Vec<_>>(), "{name}: what was begun and given up leaves nothing");
        assert_eq!(store.compact().unwrap(), Compacted { damaged, ..Compacted::default() }, "{name}: nor then");
    }
}

#[test]
fn only_one_sound_file_is_left_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::make(folder.path()).unwrap();
    ["r1", "r2"].into_iter().for_each(|id| add(&store, id, "2026-11-22"));
    let before = store.contents().unwrap();
    let bad = facts(&before).remove(1);
    std::fs::remove_file(folder.path().join(bad)).unwrap();
    let done = store.compact().unwrap();
    assert_eq!((done.before, done.after, done.damaged.len()), (2, 1, 1), "exits alone: {done:?}");
    assert_eq!(facts(&store.contents().unwrap()), facts(&before));
}

/// Has everything below a folder written so long ago.
fn age(folder: &Path, by: Duration) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            age(&path, by);
        } else {
            File::options().write(true).open(&path).unwrap().set_modified(SystemTime::now() - by).unwrap();
        }
    }
}

#[test]
fn files_of_a_store_that_is_open_stay_for_a_day_after_they_were_joined_or_dropped() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::make(folder.path()).unwrap();
    ["r1", "r2"].into_iter().for_each(|id| add(&store, id, "2026-11-22"));
    add(&store, "r3", "2026-11-01");
    // They were added long ago; somebody opens the store, and the files are joined and dropped only now.
    age(folder.path(), 30 * DAY);
    let opened = store.contents().unwrap();
    let done = store.compact().unwrap();
    assert_eq!((done.before, done.after), (4, 2));
    assert_eq!(store.drop_before("2026-11-20", None).unwrap(), (1, 0));
    let all_there = || opened.pieces.keys().all(|path| folder.path().join(path).is_file());
    for _ in 0..2 {
        assert_eq!(store.clean(DAY).unwrap(), 0);
        assert!(all_there());
        let (sound, left_out) = store.readable(&opened).unwrap();
        assert_eq!((sound.len(), left_out), (6, vec![]), "whoever opened it reads on");
        // Entries that others need to know that stay as long, also where one stands for them.
        for _ in 0..70 {
            add(&store, "r4", "2026-11-22");
            store.drop_before("2999-01-01", None).unwrap();
            add(&store, "r5", "2026-11-22");
        }
        store.compact().unwrap();
    }
    let log = || std::fs::read_dir(folder.path().join("_log")).unwrap().count();
    let entries = log();
    assert!(entries > 100, "{entries}");
    age(folder.path(), 2 * DAY);
    let now = store.contents().unwrap();
    assert!(store.clean(DAY).unwrap() > 6);
    assert!(opened.pieces.keys().all(|path| now.pieces.contains_key(path) || !folder.path().join(path).exists()));
    assert_eq!(store.check().unwrap().damaged, []);
    assert!(log() < 10, "{}", log());
    assert_eq!(store.contents().unwrap().pieces, now.pieces);
}

#[test]
fn what_an_add_that_was_stopped_left_goes_after_a_day() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::make(folder.path()).unwrap();
    add(&store, "r1", "2026-11-22");
    let left = folder.path().join("exits/host=a/day=2026-11-22/left.parquet");
    std::fs::write(&left, "PAR1").unwrap();
    assert_eq!(store.clean(DAY).unwrap(), 0);
    // As `object_store` calls what it has not renamed yet, of files and of entries.
    let begun = ["halts/host=a/day=2026-11-22/r1.parquet#1", "_log/00000000000000000002.json#12"];
    for path in begun {
        std::fs::create_dir_all(folder.path().join(path).parent().unwrap()).unwrap();
        std::fs::write(folder.path().join(path), "PAR1").unwrap();
    }
    let unlisted = store.check().unwrap().unlisted;
    assert!(begun.iter().all(|path| unlisted.contains(&path.to_string())), "{unlisted:?}");
    assert_eq!(store.clean(DAY).unwrap(), 0, "they may belong to an add that runs");
    age(folder.path(), 2 * DAY);
    assert_eq!(store.clean(DAY).unwrap(), 3);
    assert!(!left.exists() && begun.iter().all(|path| !folder.path().join(path).exists()));
    assert_eq!((store.check().unwrap().damaged, store.check().unwrap().unlisted), (vec![], vec![]));
}

/// An entry as it was before entries and files had hashes.
fn without_hashes(store: &Store, entry: &Path) {
    let text = std::fs::read_to_string(entry).unwrap();
    let (_, fields) = text.split_once(",\"schema\"").unwrap();
    let pieces = store.contents().unwrap().pieces;
    let text = pieces.values().fold(format!("{{\"schema\"{fields}"), |text, piece| text.replace(&piece.sha256, ""));
    std::fs::write(entry, text).unwrap();
}

#[test]
fn what_has_no_hash_is_read_but_never_joined_and_said_not_to_be_checked() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::make(folder.path()).unwrap();
    ["r1", "r2", "r3"].into_iter().for_each(|id| add(&store, id, "2026-11-22"));
    without_hashes(&store, &folder.path().join("_log/00000000000000000002.json"));
    let check = store.check().unwrap();
    assert_eq!((check.whole, check.unhashed, check.entries, check.unsealed), (6, 2, 2, 1));
    assert_eq!(check.damaged, []);
    let rows = |piece: &DataFile| store.rows(piece).unwrap().map(|batch| batch.unwrap().num_rows() as u64).sum::<u64>();
    assert!(store.contents().unwrap().pieces.values().all(|piece| piece.rows == rows(piece)));
    let done = store.compact().unwrap();
    assert_eq!((done.before, done.after, done.damaged.len()), (4, 2, 0), "those of r1 and r3");
    let check = store.check().unwrap();
    assert_eq!((check.whole, check.unhashed, store.contents().unwrap().unsealed), (4, 2, 0), "one entry says all");
    let pieces = store.contents().unwrap().pieces;
    let old = pieces.values().find(|piece| piece.table == "reason_stats" && piece.runs == ["r2"]).unwrap().path.clone();
    let mut bytes = std::fs::read(folder.path().join(&old)).unwrap();
    bytes.iter_mut().for_each(|byte| *byte ^= 0x55);
    std::fs::write(folder.path().join(&old), bytes).unwrap();
    let damaged = store.check().unwrap().damaged;
    assert_eq!(damaged.iter().map(|of| &of.path).collect::<Vec<_>>(), [&old]);
}

#[test]
fn an_add_that_comes_second_touches_no_file_of_the_first_and_leaves_none() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::make(folder.path()).unwrap();
    let second = store.add("r1", "a", "2026-11-22", Vec::new()).unwrap();
    add(&store, "r1", "2026-11-22");
    let contents = store.contents().unwrap();
    let run = contents.runs["r1"].clone();
    // The same recording with other names of devices, or by another version.
    let sums = RecordingStats { facts: vec![SumRow::default()], ..RecordingStats::default() };
    assert_eq!(second.finish(&run, &sums).unwrap(), AddOutcome::Already);
    let check = store.check().unwrap();
    assert_eq!((check.whole, check.damaged, check.unlisted), (2, vec![], vec![]));
    assert_eq!(store.contents().unwrap().pieces, contents.pieces);
}
