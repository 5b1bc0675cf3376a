//! Files of before a column was thought of are asked together with those that have it; and a store may change while it is
//! open.

use datafusion::arrow::array::RecordBatch;
use datafusion::parquet::arrow::ArrowWriter;
use datafusion::parquet::file::metadata::KeyValue;
use datafusion::parquet::file::properties::WriterProperties;
use exitscope_model::SumRow;
use exitscope_query::{EngineLimits, QueryEngine, ResultColumns};
use exitscope_store::{FileCheck, RecordingRow, RecordingStats, SCHEMA, Store};
use std::time::Duration;

fn run(host: &str) -> RecordingRow {
    let text = String::new;
    RecordingRow {
        id: host.to_string(),
        name: text(),
        host: host.to_string(),
        day: "2026-11-22".to_string(),
        format: text(),
        arch: text(),
        release: text(),
        cpu: text(),
        cpus: 1,
        clock: text(),
        first_ns: 0,
        last_ns: 100,
        events: 3,
        exits: 0,
        timed: 0,
        lost: 0,
        settings: Vec::new(),
        advice: Vec::new(),
    }
}

#[test]
fn files_without_later_columns_are_read_with_those_that_have_them() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::make(folder.path()).unwrap();
    let fact = SumRow { reason: "msr".to_string(), count: 23, at_ns: 5, span_ns: 10, ..SumRow::default() };
    let sums = RecordingStats { facts: vec![fact], ..RecordingStats::default() };
    for host in ["a", "b"] {
        let adding = store.add(host, host, "2026-11-22", Vec::new()).unwrap();
        adding.finish(&run(host), &sums).unwrap();
    }
    // The first file as it was before facts had stretches of time.
    let pieces = store.contents().unwrap().pieces;
    let piece = pieces.values().find(|piece| piece.table == "reason_stats" && piece.host == "a").unwrap();
    let batch = store.rows(piece).unwrap().next().unwrap().unwrap();
    let schema = batch.schema();
    let columns = schema.fields().iter().zip(batch.columns());
    let kept = columns.filter(|(field, _)| !["vm_vcpus", "at_ns", "span_ns"].contains(&field.name().as_str()));
    let old = RecordBatch::try_from_iter(kept.map(|(field, column)| (field.name(), column.clone()))).unwrap();
    let of = KeyValue::new("exitscope.schema".to_string(), SCHEMA.to_string());
    let properties = WriterProperties::builder().set_key_value_metadata(Some(vec![of])).build();
    let file = folder.path().join(&piece.path);
    let mut writer =
        ArrowWriter::try_new(std::fs::File::create(&file).unwrap(), old.schema(), Some(properties)).unwrap();
    writer.write(&old).unwrap();
    writer.close().unwrap();
    let entry = folder.path().join("_log/00000000000000000001.json");
    let (before, after) = (piece.bytes, file.metadata().unwrap().len());
    let text = std::fs::read_to_string(&entry).unwrap();
    // Its entry as it was before entries and files had hashes.
    let (_, fields) = text.split_once(",\"schema\"").unwrap();
    let text = format!("{{\"schema\"{fields}").replace(&piece.sha256, "");
    let text = text.replace(&format!("\"bytes\":{before}"), &format!("\"bytes\":{after}"));
    std::fs::write(&entry, text).unwrap();

    let limits = EngineLimits { memory: 64 << 20, time: Duration::from_secs(60), threads: 2 };
    let engine = QueryEngine::open(&store, limits, FileCheck::Hashes).unwrap();
    assert_eq!(engine.left_out(), []);
    let mut seen = Vec::new();
    let query = "select host, sum(count) as n, count(at_ns) as with_time from reason_stats group by host order by host";
    engine
        .query(query, &mut |_, batch| {
            let Some(batch) = batch else { return Ok(true) };
            let columns = ResultColumns(batch);
            let (n, with_time) = (columns.numbers("n").unwrap(), columns.numbers("with_time").unwrap());
            seen.extend((0..batch.num_rows()).map(|row| (n.value(row), with_time.value(row))));
            Ok(true)
        })
        .unwrap();
    assert_eq!(seen, [(23, 0), (23, 1)]);
}

#[test]
fn files_that_are_joined_and_removed_under_an_open_engine_are_found_anew() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::make(folder.path()).unwrap();
    let add = |id: &str| {
        let fact = SumRow { reason: "msr".to_string(), count: 23, span_ns: 10, ..SumRow::default() };
        let run = RecordingRow { id: id.to_string(), ..run("a") };
        let adding = store.add(id, "a", "2026-11-22", Vec::new()).unwrap();
        adding.finish(&run, &RecordingStats { facts: vec![fact], ..RecordingStats::default() }).unwrap();
    };
    ["r1", "r2"].into_iter().for_each(add);
    let limits = EngineLimits { memory: 64 << 20, time: Duration::from_secs(60), threads: 2 };
    let mut engine = QueryEngine::open(&store, limits, FileCheck::Hashes).unwrap();
    let count = |engine: &QueryEngine| {
        let mut sum = 0;
        engine.query("select sum(count) as n from reason_stats", &mut |_, batch| {
            sum += batch.map_or(0, |batch| ResultColumns(batch).numbers("n").unwrap().value(0));
            Ok(true)
        })?;
        Ok::<u64, exitscope_query::QueryError>(sum)
    };
    assert_eq!(count(&engine).unwrap(), 46);
    assert!(!engine.refresh(&store).unwrap(), "nothing has changed");
    add("r3");
    assert_eq!((store.compact().unwrap().before, store.compact().unwrap().after), (6, 0));
    assert_eq!(count(&engine).unwrap(), 46, "the old files are there for a day");
    assert!(store.clean(Duration::ZERO).unwrap() > 0);
    assert!(count(&engine).is_err(), "and then they are not");
    assert!(engine.refresh(&store).unwrap());
    assert_eq!((count(&engine).unwrap(), engine.runs().len(), engine.left_out().len()), (69, 3, 0));
}
