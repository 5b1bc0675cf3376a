//! `store`: what was added is what the report counts, and nothing is there by halves.
#![cfg(feature = "store")]

mod common;

use common::{corpus, exitscope, report, run, stderr, stdout, traces};
use exitscope_skips::{Part, Skipped, need, or_skip};
use exitscope_store::arrow_array::cast::AsArray;
use exitscope_store::arrow_array::types::{Int32Type, UInt64Type};
use exitscope_store::arrow_array::{Array, RecordBatch};
use exitscope_store::{DataFile, Store};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

/// Exits, and what they hold of most parts.
const COLUMNS: [&str; 7] =
    ["count", "kernel_ns", "user_space_ns", "polling_ns", "halted_ns", "halt_not_divided_ns", "steal_ns"];

/// Those, by reason.
type Sums = BTreeMap<String, [u64; COLUMNS.len()]>;

fn add(store: &Path, files: &[PathBuf], flags: &[&str]) -> Output {
    exitscope().args(["store", "add"]).arg(store).args(files).args(flags).output().unwrap()
}

fn in_report(of: &serde_json::Value) -> Sums {
    // Of exits without lengths there are no sums.
    let figures = |row: &serde_json::Value| COLUMNS.map(|name| row[name].as_u64().unwrap_or(0));
    let rows = of["rows"].as_array().unwrap().iter();
    rows.map(|row| (row["reason"].as_str().unwrap().to_string(), figures(row))).collect()
}

/// Pieces of one table, of one host or of all.
fn pieces(store: &Store, table: &str, host: Option<&str>) -> Vec<DataFile> {
    let all = store.contents().unwrap().pieces.into_values();
    all.filter(|piece| piece.table == table && host.is_none_or(|host| piece.host == host)).collect()
}

fn numbers<'a>(batch: &'a RecordBatch, name: &str) -> &'a exitscope_store::arrow_array::UInt64Array {
    batch.column_by_name(name).unwrap().as_primitive::<UInt64Type>()
}

fn in_exits(store: &Store, pieces: &[DataFile]) -> Sums {
    let mut sums = Sums::new();
    for piece in pieces {
        let mut rows = 0;
        for batch in store.rows(piece).unwrap() {
            let batch = batch.unwrap();
            rows += batch.num_rows() as u64;
            let reasons = batch.column_by_name("reason").unwrap().as_dictionary::<Int32Type>();
            let names = reasons.values().as_string::<i32>();
            let times = COLUMNS[1..].iter().map(|name| numbers(&batch, name)).collect::<Vec<_>>();
            for row in 0..batch.num_rows() {
                let sum = sums.entry(names.value(reasons.key(row).unwrap()).to_string()).or_default();
                sum[0] += 1;
                for (at, column) in times.iter().enumerate() {
                    sum[at + 1] += if column.is_null(row) { 0 } else { column.value(row) };
                }
            }
        }
        assert_eq!(rows, piece.rows);
    }
    sums
}

fn in_facts(store: &Store, pieces: &[DataFile]) -> Sums {
    let mut sums = Sums::new();
    for piece in pieces {
        for batch in store.rows(piece).unwrap() {
            let batch = batch.unwrap();
            let names = batch.column_by_name("reason").unwrap().as_string::<i32>();
            let columns = COLUMNS.map(|name| numbers(&batch, name));
            let timed = numbers(&batch, "timed");
            let lengths = batch.column_by_name("exit_time_bucket_count").unwrap().as_list::<i32>();
            for row in 0..batch.num_rows() {
                let sum = sums.entry(names.value(row).to_string()).or_default();
                (0..COLUMNS.len()).for_each(|at| sum[at] += columns[at].value(row));
                let counted: u64 = lengths.value(row).as_primitive::<UInt64Type>().values().iter().sum();
                assert_eq!(counted, timed.value(row), "every exit with two ends has a length");
            }
        }
    }
    sums
}

#[test]
fn what_was_added_is_what_the_report_counts() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("fleet");
    let mut hosts = BTreeMap::new();
    for (at, trace) in traces().into_iter().enumerate() {
        let host = format!("host/{at} é");
        let output = add(&place, std::slice::from_ref(&trace), &["--host", &host, "--day", "2026-11-22"]);
        assert!(output.status.success(), "{}", stderr(&output));
        hosts.insert(host, trace);
    }
    let store = Store::open(&place).unwrap();
    for (host, trace) in &hosts {
        let expected = in_report(&report(&[trace], &[]));
        assert_eq!(in_exits(&store, &pieces(&store, "exits", Some(host))), expected, "{}", trace.display());
        assert_eq!(in_facts(&store, &pieces(&store, "reason_stats", Some(host))), expected, "{}", trace.display());
    }
    let list = run(&["store", "list", place.to_str().unwrap(), "--format", "json"]);
    assert_eq!(stdout(&list).lines().count(), hosts.len());
    let files = Store::open(&place).unwrap().contents().unwrap().pieces.len();
    let check = run(&["store", "check", place.to_str().unwrap()]);
    assert!(stdout(&check).starts_with(&format!("{files} files are intact\n")), "{}", stdout(&check));
}

#[test]
fn exits_of_a_vcpu_are_in_order_of_time() {
    let folder = tempfile::tempdir().unwrap();
    add(folder.path(), &[corpus("x86-svm/t2.data.gz")], &["--host", "a"]);
    let store = Store::open(folder.path()).unwrap();
    let mut last = (0, 0);
    for batch in store.rows(&pieces(&store, "exits", None)[0]).unwrap() {
        let batch = batch.unwrap();
        let vcpus =
            batch.column_by_name("vcpu").unwrap().as_primitive::<exitscope_store::arrow_array::types::UInt32Type>();
        let moments = numbers(&batch, "at_ns");
        for row in 0..batch.num_rows() {
            let place = (vcpus.value(row), moments.value(row));
            assert!(last <= place, "{last:?} {place:?}");
            last = place;
        }
    }
    assert_eq!(last.0, 1, "both vCPUs");
}

#[test]
fn the_same_recording_is_added_once() {
    let folder = tempfile::tempdir().unwrap();
    let trace = corpus("x86-svm/t4-kvmstat.data.gz");
    let copy = folder.path().join("copy.data");
    std::fs::write(&copy, common::unpacked("x86-svm/t4-kvmstat.data.gz")).unwrap();
    let place = folder.path().join("fleet");
    let first = add(&place, std::slice::from_ref(&trace), &["--host", "a"]);
    assert!(stdout(&first).contains("bytes an exit"), "{}", stdout(&first));
    for file in [trace, copy] {
        let again = add(&place, &[file], &["--host", "b"]);
        assert!(stdout(&again).contains("already there, of host a"), "{}", stdout(&again));
    }
    assert_eq!(Store::open(&place).unwrap().contents().unwrap().runs.len(), 1);
}

#[test]
fn a_bad_file_keeps_no_other_out_and_what_is_lost_is_said_as_the_report_says_it() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("fleet");
    let whole = common::unpacked("x86-svm/t2.data.gz");
    let file = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    };
    let cut = file("cut.data", &whole[..whole.len() / 3 * 2]);
    let (bad, empty) = (file("bad.data", b"no recording"), file("empty.data", b""));
    let files = [
        bad.clone(),
        corpus("x86-svm/t4-kvmstat.data.gz"),
        folder.path().join("missing.data"),
        cut.clone(),
        empty.clone(),
        corpus("x86-svm/t4-zstd.data.gz"),
    ];
    let output = add(&place, &files, &["--host", "a"]);
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(2), "{said}");
    for file in ["bad.data is no", "missing.data: ", "empty.data is empty"] {
        assert!(said.lines().any(|line| line.starts_with("exitscope: ") && line.contains(file)), "{file} {said}");
    }
    assert_eq!(stdout(&output).lines().count(), 3, "{}", stdout(&output));
    assert_eq!(Store::open(&place).unwrap().contents().unwrap().runs.len(), 3);
    // The report's own words, of each file that was added.
    let mut warnings = 0;
    for file in [&files[1], &cut, &files[5]] {
        let coverage = &report(&[file], &[])["coverage"];
        for line in coverage["lines"].as_array().unwrap() {
            let text = line["text"].as_str().unwrap().trim_end_matches('.');
            let name = file.file_name().unwrap().to_str().unwrap();
            let is = |said: &str| said.contains("warning: ") && said.contains(name) && said.contains(text);
            let bad = ["loss", "error"].contains(&line["severity"].as_str().unwrap());
            assert_eq!(said.lines().any(is), bad, "{name}: {text}: {said}");
            warnings += usize::from(bad);
        }
    }
    assert!(warnings > 0, "a recording that was cut off is not whole: {said}");
    let fine = add(&place, &[corpus("x86-svm/t4-callchain.data.gz")], &["--host", "a"]);
    assert_eq!((fine.status.code(), stderr(&fine).as_str()), (Some(0), ""));
}

#[test]
fn compaction_names_what_is_damaged_and_ends_with_one() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().to_str().unwrap();
    let traces = ["x86-svm/t2.data.gz", "x86-svm/t4-kvmstat.data.gz", "x86-svm/t4-zstd.data.gz"].map(corpus);
    add(folder.path(), &traces, &["--host", "a", "--day", "2026-11-20"]);
    let store = Store::open(folder.path()).unwrap();
    let bad = pieces(&store, "exits", None).remove(1);
    let mut bytes = std::fs::read(folder.path().join(&bad.path)).unwrap();
    let middle = bytes.len() / 3;
    bytes[middle] ^= 1;
    std::fs::write(folder.path().join(&bad.path), bytes).unwrap();
    let output = run(&["store", "compact", place]);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    let says = format!("damaged, and left as it is: {}: its bytes are not those that were written", bad.path);
    assert!(stdout(&output).contains(&says), "{}", stdout(&output));
    assert!(stdout(&output).contains("; 0 that belong to nothing were removed"), "{}", stdout(&output));
    assert_eq!(pieces(&store, "exits", None).len(), 2);
    assert_eq!(store.check().unwrap().damaged.len(), 1);
}

#[test]
fn whatever_stops_an_add_leaves_nothing_half() {
    let folder = tempfile::tempdir().unwrap();
    let trace = corpus("x86-svm/t2.data.gz");
    for delay in (0..200).step_by(10) {
        let mut command = exitscope();
        command.args(["store", "add"]).arg(folder.path()).arg(&trace).args(["--host", "a"]);
        let mut child = command.stdout(Stdio::null()).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(delay));
        child.kill().unwrap();
        child.wait().unwrap();
        let Ok(store) = Store::open(folder.path()) else { continue };
        let contents = store.contents().unwrap();
        assert_eq!(contents.pieces.len(), 3 * contents.runs.len(), "exits, facts and halts");
        assert_eq!(store.check().unwrap().damaged, []);
    }
    let output = add(folder.path(), std::slice::from_ref(&trace), &["--host", "a"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let store = Store::open(folder.path()).unwrap();
    store.clean(Duration::ZERO).unwrap();
    assert_eq!(in_exits(&store, &pieces(&store, "exits", None)), in_report(&report(&[&trace], &[])));
    let unlisted = store.check().unwrap().unlisted;
    assert!(unlisted.iter().all(|path| !path.ends_with(".parquet")), "{unlisted:?}");
}

/// A small disk, until it is dropped.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    fn new(size: &str) -> Result<SmallDisk, Skipped> {
        let folder = tempfile::tempdir().unwrap();
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={size}"), "tmpfs"])
            .arg(folder.path())
            .output()
            .unwrap();
        need(mounted.status.success(), Part::Mount, stderr(&mounted)).map(|()| SmallDisk(folder))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0.path()).status();
    }
}

#[test]
fn a_full_disk_ends_an_add_and_the_store_is_as_it_was() {
    let disk = or_skip!(SmallDisk::new("256k"));
    let place = disk.0.path().join("fleet");
    let first = add(&place, &[corpus("x86-svm/t4-kvmstat.data.gz")], &["--host", "a"]);
    assert!(first.status.success(), "{}", stderr(&first));
    let full = add(&place, &[corpus("x86-svm/t2.data.gz")], &["--host", "a"]);
    assert_eq!(full.status.code(), Some(2));
    assert!(stderr(&full).contains("No space left on device"), "{}", stderr(&full));
    let store = Store::open(&place).unwrap();
    assert_eq!(store.contents().unwrap().runs.len(), 1);
    let check = store.check().unwrap();
    assert_eq!((check.whole, check.damaged, check.unlisted), (3, vec![], vec![]), "nothing is left of it");
}

#[test]
fn several_may_add_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let traces: Vec<PathBuf> = traces().into_iter().take(8).collect();
    let children: Vec<_> = traces
        .iter()
        .map(|trace| {
            let mut command = exitscope();
            command.args(["store", "add"]).arg(folder.path()).arg(trace).args(["--host", "a"]);
            command.stdout(Stdio::null()).spawn().unwrap()
        })
        .collect();
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    let store = Store::open(folder.path()).unwrap();
    let contents = store.contents().unwrap();
    assert_eq!((contents.runs.len(), contents.number), (8, 8));
    assert_eq!((pieces(&store, "exits", None).len(), pieces(&store, "reason_stats", None).len()), (8, 8));
}

#[test]
fn joined_files_hold_what_the_single_ones_did_and_old_days_go() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().to_str().unwrap();
    let traces: Vec<PathBuf> = traces().into_iter().take(4).collect();
    add(folder.path(), &traces[..3], &["--host", "a", "--day", "2026-11-20"]);
    add(folder.path(), &traces[3..], &["--host", "a", "--day", "2026-11-22"]);
    let store = Store::open(folder.path()).unwrap();
    let before = in_exits(&store, &pieces(&store, "exits", None));
    let facts = in_facts(&store, &pieces(&store, "reason_stats", None));
    let output = run(&["store", "compact", place]);
    // A file of each table, of the recordings that have any of it.
    assert!(stdout(&output).starts_with("8 files became 3;"), "{}", stdout(&output));
    assert_eq!(pieces(&store, "exits", None).len(), 2);
    assert_eq!(in_exits(&store, &pieces(&store, "exits", None)), before);
    assert_eq!(in_facts(&store, &pieces(&store, "reason_stats", None)), facts);
    store.clean(Duration::ZERO).unwrap();
    assert_eq!(store.check().unwrap().unlisted, Vec::<String>::new());

    let output = run(&["store", "drop", place, "--before", "2026-11-22"]);
    assert!(stdout(&output).starts_with("3 recordings dropped"), "{}", stdout(&output));
    assert_eq!(in_exits(&store, &pieces(&store, "exits", None)), in_report(&report(&[&traces[3]], &[])));
    store.clean(Duration::ZERO).unwrap();
    assert_eq!(store.check().unwrap().unlisted, Vec::<String>::new());
}

#[test]
fn what_is_damaged_or_foreign_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().to_str().unwrap();
    add(
        folder.path(),
        &[corpus("x86-svm/t2.data.gz"), corpus("x86-svm/t4-kvmstat.data.gz")],
        &["--host", "a", "--day", "2026-11-22"],
    );
    let store = Store::open(folder.path()).unwrap();
    let cut = &pieces(&store, "exits", None)[0].path;
    let file = folder.path().join(cut);
    let bytes = std::fs::read(&file).unwrap();
    std::fs::write(&file, &bytes[..bytes.len() / 2]).unwrap();
    std::fs::write(folder.path().join("exits/foreign.parquet"), "PAR1").unwrap();
    let output = run(&["store", "check", place]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stdout(&output).contains(&format!("damaged: {cut}: it has")), "{}", stdout(&output));
    assert!(stdout(&output).contains("left over: exits/foreign.parquet"), "{}", stdout(&output));

    let entry = folder.path().join("_log/00000000000000000002.json");
    let bytes = std::fs::read(&entry).unwrap();
    let mut flipped = bytes.clone();
    flipped[bytes.len() / 2] ^= 1;
    std::fs::write(&entry, flipped).unwrap();
    let output = run(&["store", "check", place]);
    let damaged = "damaged: _log/00000000000000000002.json: its bytes are not those that were written";
    assert!(stdout(&output).contains(damaged), "{}", stdout(&output));
    assert!(stdout(&output).starts_with("the files are not checked: "), "{}", stdout(&output));
    assert_eq!(output.status.code(), Some(1));
    for command in ["compact", "list"] {
        let output = run(&["store", command, place]);
        assert_eq!(output.status.code(), Some(2), "{command}");
        assert!(
            stderr(&output).contains("_log/00000000000000000002.json of the log is damaged"),
            "{}",
            stderr(&output)
        );
    }
    std::fs::write(&entry, bytes).unwrap();

    std::fs::write(folder.path().join("_log/00000000000000000003.json"), r#"{"schema":"exitscope.store/2","new":1}"#)
        .unwrap();
    let newer = run(&["store", "list", place]);
    assert_eq!(newer.status.code(), Some(2));
    assert!(stderr(&newer).contains("is of schema exitscope.store/2"), "{}", stderr(&newer));
    std::fs::write(folder.path().join("_log/00000000000000000003.json"), "{").unwrap();
    assert!(stderr(&run(&["store", "list", place])).contains("is damaged"));
    std::fs::remove_file(folder.path().join("_log/00000000000000000001.json")).unwrap();
    std::fs::remove_file(folder.path().join("_log/00000000000000000003.json")).unwrap();
    assert!(stderr(&run(&["store", "list", place])).contains("00000000000000000001.json of the log is missing"));
    let none = run(&["store", "list", "/nowhere"]);
    assert!(stderr(&none).contains("/nowhere is no store"), "{}", stderr(&none));
}

#[test]
fn the_files_of_a_table_are_those_that_belong_to_the_store() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().to_str().unwrap();
    let traces: Vec<PathBuf> = traces().into_iter().take(3).collect();
    add(folder.path(), &traces[..2], &["--host", "a", "--day", "2026-11-20"]);
    add(folder.path(), &traces[2..], &["--host", "b", "--day", "2026-11-22"]);
    let listed = |table: &str| {
        let output = run(&["store", "files", place, table]);
        assert!(output.status.success(), "{}", stderr(&output));
        stdout(&output).lines().map(PathBuf::from).collect::<Vec<_>>()
    };
    // What a reader finds in these files, whatever else lies beside them.
    let store = Store::open(folder.path()).unwrap();
    let known = std::cell::RefCell::new(BTreeMap::new());
    let sums = |table: &str| {
        known.borrow_mut().extend(store.contents().unwrap().pieces);
        let piece = |path: PathBuf| known.borrow()[path.strip_prefix(place).unwrap().to_str().unwrap()].clone();
        let files: Vec<DataFile> = listed(table).into_iter().map(piece).collect();
        (files.len(), in_exits(&store, &files))
    };
    let (count, exits) = sums("exits");
    assert_eq!((count, &exits), (3, &in_exits(&store, &pieces(&store, "exits", None))));
    assert!(run(&["store", "compact", place]).status.success());
    assert_eq!(sums("exits"), (2, exits), "the files that were joined are not listed");
    assert!(run(&["store", "drop", place, "--before", "2026-11-22"]).status.success());
    let left = in_report(&report(&[&traces[2]], &[]));
    assert_eq!(sums("exits"), (1, left), "nor those that were dropped");
    let wrong = run(&["store", "files", place, "recordings"]);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(
        stderr(&wrong).contains("no table recordings has files; those that have are exits, "),
        "{}",
        stderr(&wrong)
    );
}

#[test]
fn many_entries_become_one() {
    let folder = tempfile::tempdir().unwrap();
    add(folder.path(), &[corpus("x86-svm/t4-kvmstat.data.gz")], &["--host", "a"]);
    let store = Store::open(folder.path()).unwrap();
    for _ in 0..70 {
        let contents = store.contents().unwrap();
        let run = contents.runs.values().next().unwrap().clone();
        store.drop_before("2999-01-01", None).unwrap();
        store
            .add(&run.id, "a", &run.day, Vec::new())
            .unwrap()
            .finish(&exitscope_store::RecordingRow { exits: 0, ..run }, &exitscope_store::RecordingStats::default())
            .unwrap();
    }
    let before = store.contents().unwrap();
    assert!(before.entries > 100);
    store.compact().unwrap();
    store.clean(Duration::ZERO).unwrap();
    let after = store.contents().unwrap();
    assert_eq!((after.entries, &after.runs, &after.pieces), (1, &before.runs, &before.pieces));
    assert_eq!(std::fs::read_dir(folder.path().join("_log")).unwrap().count(), 1);
}
