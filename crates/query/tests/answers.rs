//! Answers of known sums, and that a query ends: at its limits, with an error, or when enough was taken.

use exitscope_model::{ExitParts, SumRow, TimePart, WhoRow};
use exitscope_query::{EngineLimits, QueryEngine, QueryError, ResultColumns, TABLES};
use exitscope_store::{FileCheck, RecordingRow, RecordingStats, Store, StoredSettingRow};
use exitscope_units::Nanos;
use std::time::{Duration, Instant};

const LIMITS: EngineLimits = EngineLimits { memory: 64 << 20, time: Duration::from_secs(60), threads: 2 };

/// A recording of a host that ends at a moment.
fn row(host: &str, last_ns: u64) -> RecordingRow {
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
        last_ns,
        events: 3,
        exits: 0,
        timed: 0,
        lost: 0,
        settings: Vec::new(),
        advice: Vec::new(),
    }
}

/// A store of a recording of each host, with 23 `MSR_WRITE` and 41 `HLT` in each of some stretches of 10 ns.
fn opened(hosts: &[&str], stretches: u64, limits: EngineLimits) -> (tempfile::TempDir, QueryEngine) {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::make(folder.path()).unwrap();
    for host in hosts {
        let run = row(host, 10 * stretches);
        let fact = |(at, reason, count, length): (u64, &str, u64, u64)| SumRow {
            reason: reason.to_string(),
            count,
            at_ns: 10 * at,
            span_ns: 10,
            parts: ExitParts::ZERO.with(TimePart::Kernel, Nanos(count * length)),
            exit_times: vec![(length, count)],
            ..SumRow::default()
        };
        let of = |at| [(at, "MSR_WRITE", 23, 1_000), (at, "HLT", 41, 64_000)];
        let facts = (0..stretches).flat_map(of).map(fact).collect();
        let adding = store.add(host, host, "2026-11-22", Vec::new()).unwrap();
        adding.finish(&run, &RecordingStats { facts, ..RecordingStats::default() }).unwrap();
    }
    let engine = QueryEngine::open(&store, limits, FileCheck::Hashes).unwrap();
    (folder, engine)
}

/// The numbers of a column of an answer.
fn ask(engine: &QueryEngine, sql: &str, column: &str) -> Result<Vec<u64>, QueryError> {
    let mut numbers = Vec::new();
    engine.query(sql, &mut |_, batch| {
        let Some(batch) = batch else { return Ok(true) };
        numbers.extend(ResultColumns(batch).numbers(column).expect("a column of numbers").values());
        Ok(true)
    })?;
    Ok(numbers)
}

#[test]
fn sums_counts_and_our_functions_give_the_known_numbers() {
    let (_folder, engine) = opened(&["a", "b"], 3, LIMITS);
    for (sql, numbers) in [
        ("select sum(count) as n from reason_stats", vec![2 * 3 * (23 + 41)]),
        ("select sum(count) as n from reason_stats where reason = 'HLT' and host = 'b'", vec![3 * 41]),
        ("select sum(count) as n from reason_stats group by reason order by reason", vec![2 * 3 * 41, 2 * 3 * 23]),
        ("select sum(kernel_ns) as n from reason_stats where host = 'a' and reason = 'HLT'", vec![3 * 41 * 64_000]),
        ("select count(*) as n from recordings", vec![2]),
        ("select count(*) as n from exits", vec![0]),
        (
            "select sum(count) as n from reason_stats group by time_bucket('20ns', at_ns) order by time_bucket('20ns', at_ns)",
            vec![256, 128],
        ),
    ] {
        assert_eq!(ask(&engine, sql, "n").unwrap(), numbers, "{sql}");
    }
    // 23 of 64 take 1000 ns, the others 64 us; lengths are exact to 1/32.
    for (per_cent, length) in [(35, 1_000), (37, 64_000)] {
        let sql = format!(
            "select histogram_percentile(exit_time_bucket_ns, exit_time_bucket_count, {per_cent}) as n from reason_stats where host = 'a'"
        );
        let found = ask(&engine, &sql, "n").unwrap();
        assert!(found.len() == 1 && found[0].abs_diff(length) <= length / 32, "{sql}: {found:?}");
    }
    let above = ask(
        &engine,
        "select cast(1e6 * histogram_share_over(exit_time_bucket_ns, exit_time_bucket_count, '10us') as bigint) as n from reason_stats",
        "n",
    );
    assert_eq!(above.unwrap(), [640_625], "41 of 64");
}

#[test]
fn vms_are_called_as_the_recording_says_and_join_what_happened_in_them() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::make(folder.path()).unwrap();
    let setting = |component: &str, name: &str, value: &str| StoredSettingRow {
        component: component.to_string(),
        name: name.to_string(),
        value: value.to_string(),
    };
    let of = "vm 7 identity";
    let settings = vec![
        setting("kvm", "halt_poll_ns", "200000"),
        setting(of, "manager", "libvirt"),
        setting(of, "name", "web"),
        setting(of, "name from", "command line"),
        setting(of, "vmid", "hearsay"),
        setting("vm 7 of nobody", "name", "other"),
    ];
    let run = RecordingRow { settings, ..row("a", 10) };
    let of_vm = |vm, count| SumRow { who: WhoRow { vm, ..WhoRow::default() }, count, ..SumRow::default() };
    let facts = vec![of_vm(Some(7), 5), of_vm(Some(8), 6), of_vm(None, 7)];
    let adding = store.add("a", "a", "2026-11-22", Vec::new()).unwrap();
    adding.finish(&run, &RecordingStats { facts, ..RecordingStats::default() }).unwrap();
    let engine = QueryEngine::open(&store, LIMITS, FileCheck::Hashes).unwrap();
    let is_it = "manager = 'libvirt' and name = 'web' and host = 'a' and vmid is null and pod is null";
    assert_eq!(
        ask(&engine, &format!("select vm as n from vms where {is_it}"), "n").unwrap(),
        [7],
        "without its source"
    );
    assert_eq!(ask(&engine, "select count(*) as n from vms", "n").unwrap(), [1]);
    let join = "select sum(count) as n from reason_stats r join vms v on v.recording = r.recording and v.vm = r.vm";
    assert_eq!(ask(&engine, join, "n").unwrap(), [5]);
}

#[test]
fn every_table_is_there_with_its_columns_and_their_names_are_offered() {
    let (_folder, engine) = opened(&["a"], 1, LIMITS);
    let words = engine.words();
    for table in TABLES {
        let columns = engine.columns(table);
        assert!(
            !columns.is_empty() && words.contains(table) && columns.iter().all(|name| words.contains(name)),
            "{table}"
        );
        assert!(ask(&engine, &format!("select count(*) as n from {table}"), "n").is_ok(), "{table}");
    }
    assert_eq!(engine.columns("nothing"), [""; 0]);
}

#[test]
fn what_is_wrong_or_would_change_something_is_an_error_that_names_it() {
    let (folder, engine) = opened(&["a"], 1, LIMITS);
    let file = folder.path().join("out.csv");
    for (sql, named) in [
        ("select sum(cuont) from reason_stats", "cuont"),
        ("select * from fact", "fact"),
        ("selekt 1", "selekt"),
        ("create table t as select 1", "DDL"),
        ("drop table reason_stats", "DDL"),
        ("insert into reason_stats select * from reason_stats", "DML"),
        (&format!("copy (select 1) to '{}'", file.display()), "DML"),
        ("set datafusion.execution.batch_size = 1", "tatement"),
        ("select histogram_percentile(exit_time_bucket_ns, exit_time_bucket_count, 101) from reason_stats", "101"),
    ] {
        match ask(&engine, sql, "n") {
            Err(QueryError::Query(why)) => assert!(why.contains(named), "{sql}: {why}"),
            other => panic!("{sql}: {other:?}"),
        }
    }
    assert!(!file.exists());
}

#[test]
fn a_query_that_takes_too_long_or_too_much_ends_with_that_limit() {
    let (_folder, engine) = opened(&["a"], 500, EngineLimits { time: Duration::from_millis(300), ..LIMITS });
    let began = Instant::now();
    let long = "select count(*) as n from reason_stats a, reason_stats b, reason_stats c, reason_stats d where a.count + b.count + c.count + d.count = 1";
    assert!(matches!(ask(&engine, long, "n"), Err(QueryError::Time(_))));
    assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
    // A hash join of this edition writes nothing to disk: its smaller side has to fit.
    let (_folder, engine) = opened(&["a"], 500, EngineLimits { memory: 1 << 14, ..LIMITS });
    let large =
        "select count(*) as n from reason_stats a join reason_stats b on a.at_ns = b.at_ns and a.reason = b.reason";
    assert!(matches!(ask(&engine, large, "n"), Err(QueryError::Memory(memory, _)) if memory == 1 << 14));
}

#[test]
fn whoever_has_enough_is_given_no_more() {
    let (_folder, engine) = opened(&["a"], 500, LIMITS);
    let mut calls = 0;
    let all = "select a.count from reason_stats a, reason_stats b, reason_stats c";
    let done = engine.query(all, &mut |columns, batch| {
        assert_eq!(columns.fields().len(), 1);
        calls += 1;
        Ok(batch.is_none_or(|batch| batch.num_rows() == 0))
    });
    assert!(done.is_ok() && calls >= 2, "{calls}");
    let failed = engine.query(all, &mut |_, _| Err(std::io::ErrorKind::BrokenPipe.into()));
    assert!(matches!(failed, Err(QueryError::Taken(_))));
}
