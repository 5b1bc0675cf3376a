//! `sql` and `fleet`: answers are what the reports say; nothing writes, nothing eats the machine, damage is named.
#![cfg(feature = "sql")]

mod common;

use common::{Terminal, check_json, corpus, exitscope, report, run, stderr, stdout};
use exitscope_model::{ExitParts, SumRow, TimePart, WhoRow};
use exitscope_skips::or_skip;
use exitscope_store::{RecordingRow, RecordingStats, Store};
use exitscope_units::Nanos;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Stdio;

/// Two recordings, of two hosts.
const RECORDINGS: [(&str, &str, &str); 2] =
    [("x86-svm/t2.data.gz", "a", "2026-11-20"), ("x86-svm/t4-kvmstat.data.gz", "b", "2026-11-22")];

fn store(at: &Path) -> String {
    for (trace, host, day) in RECORDINGS {
        let mut command = exitscope();
        command.args(["store", "add"]).arg(at).arg(corpus(trace)).args(["--host", host, "--day", day]);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
    }
    at.to_str().unwrap().to_string()
}

fn rows(place: &str, query: &str) -> Vec<serde_json::Value> {
    let output = run(&["sql", place, query, "--format", "json"]);
    assert!(output.status.success(), "{query}: {}", stderr(&output));
    stdout(&output).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn names_of_hosts_and_places_may_have_any_letters() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("größe ~ 100% [a] #1");
    let (place, trace) = (place.to_str().unwrap(), corpus("x86-svm/t4-kvmstat.data.gz"));
    let hosts = ["<b>web</b>", "a/b %2F=é", "#~*"];
    for (host, day) in hosts.iter().zip(["2026-11-20", "2026-11-21", "2026-11-22"]) {
        // A copy that is another recording.
        let copy = folder.path().join(day);
        std::fs::write(&copy, [common::unpacked("x86-svm/t4-kvmstat.data.gz"), day.into()].concat()).unwrap();
        let output = run(&["store", "add", place, copy.to_str().unwrap(), "--host", host, "--day", day]);
        assert!(output.status.success(), "{host}: {}", stderr(&output));
    }
    let exits: u64 = report(&[&trace], &[])["total"]["count"].as_u64().unwrap();
    for host in hosts {
        let row = &rows(place, &format!("select count(*) n from exits where host = '{host}'"))[0];
        assert_eq!(row["n"], exits, "{host}");
    }
    let fleet = run(&["fleet", "report", place, "--by", "host", "--format", "json"]);
    assert!(fleet.status.success() && stderr(&fleet).is_empty(), "{}", stderr(&fleet));
}

#[test]
fn who_reads_no_further_is_no_error() {
    let folder = tempfile::tempdir().unwrap();
    let place = store(folder.path());
    for format in ["csv", "json"] {
        let mut command = exitscope();
        command.args(["sql", &place, "select * from exits", "--format", format]);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success() && stderr(&output).is_empty(), "{format}: {}", stderr(&output));
        assert!(line.contains("reason"), "{line}");
    }
}

#[test]
fn halts_and_ganged_exits_are_those_of_the_report() {
    let folder = tempfile::tempdir().unwrap();
    let place = store(folder.path());
    let gang = "powerpc/p8_smt4_gang_exits_rfc.data.gz";
    let output = run(&["store", "add", &place, corpus(gang).to_str().unwrap(), "--host", "p", "--day", "2026-11-22"]);
    assert!(output.status.success(), "{}", stderr(&output));
    for (trace, host, _) in RECORDINGS {
        let halts = &report(&[&corpus(trace)], &["--view", "halt"])["halt"];
        let query = format!(
            "select sum(halts) halts, sum(blocked) blocked, sum(gap_sum_ns) gap, max(gap_max_ns) gap_max, sum(grown) grown, \
             sum(poll_fail_ns) poll_fail, histogram_percentile(gap_bucket_ns, gap_bucket_count, 50) p50, \
             histogram_percentile(latency_bucket_ns, latency_bucket_count, 50) latency from halts where host = '{host}'"
        );
        let row = &rows(&place, &query)[0];
        let all = &halts["all"];
        assert!(all["halts"].as_u64().unwrap() > 0, "{trace}");
        for (name, expected) in [
            ("halts", &all["halts"]),
            ("blocked", &all["blocked"]),
            ("gap", &all["gaps"]["sum_ns"]),
            ("gap_max", &all["gaps"]["max_ns"]),
            ("grown", &all["grown"]),
            ("poll_fail", &all["poll_fail_ns"]),
            ("p50", &all["gaps"]["p50_ns"]),
            ("latency", &all["latency"]["p50_ns"]),
        ] {
            assert_eq!(&row[name], expected, "{name} of {trace}");
        }
    }
    let gangs =
        rows(&place, "select vcore, vcpus, runs, ganged, forced_exits, forced_out_sum_ns from gangs order by vcore");
    let expected = report(&[&corpus(gang)], &["--view", "gang"]);
    let expected = expected["gang"]["vcores"].as_array().unwrap();
    assert_eq!(gangs.len(), expected.len());
    assert!(gangs.iter().any(|row| row["ganged"].as_u64().unwrap() > 0));
    for (row, vcore) in gangs.iter().zip(expected) {
        for name in ["runs", "ganged", "forced_exits"] {
            assert_eq!(row[name], vcore[name], "{name}");
        }
        assert_eq!(row["vcore"], vcore["vcpus"][0]);
        assert_eq!(row["forced_out_sum_ns"], vcore["forced_out"]["sum_ns"]);
    }
}

#[test]
fn trials_are_rows_by_setting_and_metric_whichever_way_they_came() {
    let folder = tempfile::tempdir().unwrap();
    let [root, state, place] = ["root", "state", "fleet"].map(|name| folder.path().join(name));
    let knob = root.join("sys/module/kvm/parameters/halt_poll_ns");
    std::fs::create_dir_all(knob.parent().unwrap()).unwrap();
    std::fs::create_dir_all(root.join("proc/sys/kernel")).unwrap();
    std::fs::write(root.join("proc/sys/kernel/hostname"), "web-17\n").unwrap();
    std::fs::write(&knob, "200000\n").unwrap();
    let mut command = exitscope();
    command.args(["try", "halt_poll_ns=0", "--no-count", "--yes", "--turn", "20ms", "--settle", "1ms", "--for", "1s"]);
    command.args([
        "--metric",
        &format!("awk '{{ print 1 + $1 / 200000 }}' {}", knob.display()),
        "--better",
        "lower",
        "--format",
        "json",
    ]);
    command.arg("--root").arg(&root).arg("--store").arg(&place);
    let output = command.arg("--state").arg(state.join("applied.json")).output().unwrap();
    assert!(output.status.code().is_some_and(|code| code != 1), "{}", stderr(&output));
    let made: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let place = place.to_str().unwrap();
    let history = state.join("trials.jsonl");
    let add = || {
        let output = run(&["store", "add", place, history.to_str().unwrap()]);
        assert!(output.status.success(), "{}", stderr(&output));
        format!("{}{}", stdout(&output), stderr(&output))
    };
    assert!(add().contains("0 trials, 1 already there"));

    // A trial of delays of another host, and a line that was cut.
    let mut delays = made.clone();
    delays["host"] = "db-03".into();
    delays["sensitivity"] = serde_json::json!({
        "vm": "web01", "exits": "all", "reason": null, "ruling": "found", "percent_per_100ns": 0.22, "low_percent": 0.16,
        "high_percent": null, "text": "", "exits_per_s": 12045.0, "missed": 0, "levels": []
    });
    let longer = delays["verdict"]["settings"][0].clone();
    delays["verdict"]["settings"].as_array_mut().unwrap().push(longer);
    let before = std::fs::read_to_string(&history).unwrap();
    std::fs::write(&history, format!("{before}{delays}\n{{\"schema\":\"exitscope.try/1\",")).unwrap();
    let said = add();
    assert!(said.contains("1 trial, 1 already there") && said.contains("1 of its lines is no trial"), "{said}");

    let rows = rows(place, "select * from trials order by host, decides desc");
    assert_eq!(rows.len(), 3 * made["verdict"]["settings"][0]["effects"].as_array().unwrap().len());
    let effect = &made["verdict"]["settings"][0]["effects"][0];
    let (delayed, first) = (&rows[0], rows.iter().find(|row| row["host"] == "web-17").unwrap());
    assert_eq!((&first["setting"], &first["in_force"]), (&"halt_poll_ns=0".into(), &"halt_poll_ns=200000".into()));
    for (column, key) in [
        ("value_in_force", "in_force"),
        ("value_with", "with"),
        ("change_percent", "change_percent"),
        ("low_percent", "low_percent"),
        ("metric", "metric"),
    ] {
        assert_eq!(first.get(column).unwrap_or(&serde_json::Value::Null), &effect[key], "{column}");
    }
    assert_eq!(first["ruling"], made["verdict"]["settings"][0]["ruling"]);
    assert_eq!(first["day"].as_str(), made["began"].as_str().map(|began| &began[..10]));
    assert!(first["decides"] == true && first.get("percent_per_100ns").is_none_or(|slope| slope.is_null()), "{first}");
    assert_eq!((&delayed["ruling"], &delayed["percent_per_100ns"]), (&"found".into(), &0.22.into()));

    let listed = stdout(&run(&["store", "list", place]));
    assert!(listed.contains("2 trials") && listed.contains("db-03"), "{listed}");
    assert_eq!(listed.matches("0.22% per 100ns").count(), 1, "{listed}");
    let of_delays: Vec<&str> = listed.lines().filter(|row| row.contains("db-03")).collect();
    assert!(of_delays.len() == 1 && of_delays[0].contains("found"), "{listed}");
    let dropped = stdout(&run(&["store", "drop", place, "--before", "2999-01-01", "--host", "db-03"]));
    assert!(dropped.starts_with("0 recordings and 1 trial dropped"), "{dropped}");
    assert!(stdout(&run(&["store", "list", place])).contains("1 trial\n"));
}

/// By reason: some figures.
fn by_reason(rows: &[serde_json::Value], figures: &[&str]) -> BTreeMap<String, Vec<u64>> {
    let of = |row: &serde_json::Value| figures.iter().map(|name| row[*name].as_u64().unwrap_or(0)).collect();
    rows.iter().map(|row| (row["reason"].as_str().unwrap().to_string(), of(row))).collect()
}

#[test]
fn sums_and_percentiles_are_those_of_the_report() {
    let folder = tempfile::tempdir().unwrap();
    let place = store(folder.path());
    for (trace, host, _) in RECORDINGS {
        let expected = report(&[&corpus(trace)], &[]);
        let expected = expected["rows"].as_array().unwrap();
        let sums =
            ["count", "kernel_ns", "user_space_ns", "polling_ns", "halted_ns", "halt_not_divided_ns", "steal_ns"];
        for table in ["exits", "reason_stats"] {
            let count = if table == "exits" { "count(*)" } else { "sum(count)" };
            let times = sums[1..].iter().map(|name| format!("sum({name}) as {name}")).collect::<Vec<_>>().join(", ");
            let query =
                format!("select reason, {count} as count, {times} from {table} where host = '{host}' group by reason");
            assert_eq!(by_reason(&rows(&place, &query), &sums), by_reason(expected, &sums), "{table} of {trace}");
        }
        let query = format!(
            "select reason, histogram_percentile(exit_time_bucket_ns, exit_time_bucket_count, 50) as p50_ns, \
             histogram_percentile(exit_time_bucket_ns, exit_time_bucket_count, 99.9) as p999_ns from reason_stats where host = '{host}' group by reason"
        );
        let answer = by_reason(&rows(&place, &query), &["p50_ns", "p999_ns"]);
        for row in expected {
            // The report knows the longest and the shortest besides, and each one of up to 32.
            let clamp = |name: &str, value: u64| {
                let least = if value == 0 { 0 } else { row["min_ns"].as_u64().unwrap_or(0) };
                let clamped = value.max(least).min(row["max_ns"].as_u64().unwrap());
                let expected = row[name].as_u64().unwrap();
                match row["timed"].as_u64().unwrap() <= 32 {
                    true => assert!(clamped.abs_diff(expected) <= expected / 32, "{name}: {clamped}, {expected}"),
                    false => assert_eq!(clamped, expected, "{name}"),
                }
            };
            let values = &answer[row["reason"].as_str().unwrap()];
            if row["timed"].as_u64().is_none_or(|timed| timed > 0) {
                clamp("p50_ns", values[0]);
                clamp("p999_ns", values[1]);
            }
        }
    }
}

#[test]
fn an_answer_does_not_depend_on_files_threads_or_memory() {
    let folder = tempfile::tempdir().unwrap();
    let place = store(folder.path());
    let query = "select host, reason, handler, count(*) n, sum(kernel_ns) k, min(at_ns) f, max(user_space_ns) u from exits \
                 group by host, reason, handler order by host, reason, handler";
    let first = stdout(&run(&["sql", &place, query, "--format", "csv"]));
    assert!(first.lines().count() > 10, "{first}");
    for flags in [["--threads", "1"], ["--threads", "5"], ["--memory", "16M"]] {
        let again = exitscope().args(["sql", &place, query, "--format", "csv"]).args(flags).output().unwrap();
        assert_eq!(stdout(&again), first, "{flags:?}");
    }
    run(&["store", "compact", &place]);
    assert_eq!(stdout(&run(&["sql", &place, query, "--format", "csv"])), first, "after compaction");
}

#[test]
fn only_files_of_the_hosts_and_days_that_are_asked_for_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let place = store(folder.path());
    let plan = |condition: &str| {
        stdout(&run(&[
            "sql",
            &place,
            &format!("explain select count(cpu) from exits where {condition}"),
            "--format",
            "csv",
        ]))
    };
    for condition in ["host = 'a'", "day < '2026-11-21'", "host = 'a' and day = '2026-11-20' and kernel_ns > 5"] {
        let plan = plan(condition);
        assert!(plan.contains("host=a/") && !plan.contains("host=b/"), "{condition}: {plan}");
    }
    assert!(!plan("host = 'nobody'").contains(".parquet"));
    assert_eq!(rows(&place, "select count(*) as n from exits where host = 'nobody'")[0]["n"], 0);
    let both = rows(&place, "select count(*) as n from exits where host <> 'nobody'");
    assert_eq!(both, rows(&place, "select sum(exits) as n from recordings"));
}

#[test]
fn every_format_holds_the_same_rows() {
    let folder = tempfile::tempdir().unwrap();
    let place = store(folder.path());
    let query = "select reason, count(*) as n from exits group by reason order by n desc, reason";
    let lines = rows(&place, query);
    let csv = stdout(&run(&["sql", &place, query, "--format", "csv"]));
    let of_json = lines.iter().map(|row| format!("{},{}\n", row["reason"].as_str().unwrap(), row["n"]));
    assert_eq!(csv, format!("reason,n\n{}", of_json.collect::<String>()));
    let text = stdout(&run(&["sql", &place, query]));
    for line in csv.lines().skip(1) {
        let line = line.replace(',', " ");
        let found = text.lines().any(|of| of.split_whitespace().collect::<Vec<_>>().join(" ") == line);
        assert!(found, "{line} in {text}");
    }
    assert!(text.starts_with(&format!("{} rows", lines.len())), "{text}");
    let first = stdout(&run(&["sql", &place, query, "--rows", "2"]));
    assert!(first.starts_with("The first 2 rows; --rows shows more"), "{first}");

    let to = folder.path().join("rows.parquet");
    let output = run(&["sql", &place, query, "--format", "parquet", "-o", to.to_str().unwrap()]);
    assert!(output.status.success(), "{}", stderr(&output));
    let bytes = std::fs::read(&to).unwrap();
    assert!(bytes.starts_with(b"PAR1") && bytes.ends_with(b"PAR1"), "{} bytes", bytes.len());
    assert!(stderr(&output).contains(&format!("{} rows", lines.len())), "{}", stderr(&output));
    let none = run(&["sql", &place, "select recording from recordings where false", "--format", "csv"]);
    assert_eq!(stdout(&none), "recording\n", "names without rows");
}

#[test]
fn queries_come_from_a_pipe_too() {
    let folder = tempfile::tempdir().unwrap();
    let place = store(folder.path());
    let mut child = exitscope()
        .args(["sql", &place, "--format", "csv"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(b"select 1 as a;\nselect count(*) as b\n  from recordings;").unwrap();
    assert_eq!(stdout(&child.wait_with_output().unwrap()), "a\n1\nb\n2\n");
}

#[test]
fn functions_of_ours_say_what_the_kernel_says() {
    let folder = tempfile::tempdir().unwrap();
    let place = store(folder.path());
    let row = &rows(
        &place,
        "select exit_name('vmx', 30) as a, exit_name('svm', 123) as b, exit_name('kvm', 2) as c, \
         time_bucket('10ms', 123456789) as d, time_bucket(1000, 1999) as e",
    )[0];
    assert_eq!(
        (row["a"].as_str(), row["b"].as_str(), row["c"].as_str(), row["d"].as_u64(), row["e"].as_u64()),
        (Some("IO_INSTRUCTION"), Some("io"), Some("KVM_EXIT_IO"), Some(120_000_000), Some(1000))
    );
    // Every exit is in a bucket of time, and the share over nothing is all.
    let over = rows(
        &place,
        "select histogram_share_over(exit_time_bucket_ns, exit_time_bucket_count, '0ns') as all_of_them from reason_stats",
    );
    assert_eq!(over[0]["all_of_them"], 1.0);
    for (wrong, why) in [
        ("select exit_name('z80', 1)", "z80 is no list of exit codes; they are vmx"),
        ("select time_bucket('10 parsecs', 1)", "10 parsecs is no length of time"),
        ("select time_bucket(0, 1)", "no width"),
        ("select histogram_percentile(1, 2, 3)", "takes a distribution first"),
        (
            "select histogram_percentile(exit_time_bucket_ns, exit_time_bucket_count, 101) from reason_stats",
            "from 0 to 100",
        ),
        ("select nothing from exits", "nothing"),
        ("selec", "selec"),
    ] {
        let output = run(&["sql", &place, wrong]);
        assert_eq!(output.status.code(), Some(2), "{wrong}");
        assert!(stderr(&output).contains(why), "{wrong}: {}", stderr(&output));
    }
}

#[test]
fn queries_only_read_and_have_limits() {
    let folder = tempfile::tempdir().unwrap();
    let place = store(folder.path());
    let before = files_below(folder.path());
    for wrong in [
        "insert into runs values ('x')",
        "delete from exits",
        "create table t as select 1",
        "create external table t stored as csv location '/etc/passwd'",
        "copy exits to 'never.csv'",
        "drop table exits",
        "set datafusion.execution.target_partitions = 1",
    ] {
        let output = run(&["sql", &place, wrong]);
        assert_eq!(output.status.code(), Some(2), "{wrong}: {}", stdout(&output));
    }
    assert_eq!(files_below(folder.path()), before);
    let many = "select count(*) from exits a, exits b, exits c where a.at_ns + b.at_ns < c.at_ns";
    let output = run(&["sql", &place, many, "--timeout", "300ms"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("no answer after 300ms"), "{}", stderr(&output));
    let large =
        "select array_agg(a.at_ns * 100000 + b.at_ns) from exits a cross join (select at_ns from exits limit 2000) b";
    let output = run(&["sql", &place, large, "--memory", "16M"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("needs more memory than it may have (16 MiB)"), "{}", stderr(&output));
}

fn files_below(at: &Path) -> Vec<std::path::PathBuf> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(at).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { files.extend(files_below(&path)) } else { files.push(path) }
    }
    files.sort();
    files
}

#[test]
fn a_damaged_file_is_named_and_the_rest_is_asked_only_on_request() {
    let folder = tempfile::tempdir().unwrap();
    let place = store(folder.path());
    let n = |output: &std::process::Output| stdout(output).lines().nth(1).unwrap().parse::<u64>().unwrap();
    let sql = "select count(*) from exits where kernel_ns is null or kernel_ns >= 0";
    let query = ["sql", &place, sql, "--format", "csv"];
    let rest = ["sql", &place, sql, "--format", "csv", "--no-verify"];
    let whole = n(&run(&query));
    let files = Store::open(folder.path()).unwrap().contents().unwrap().pieces.into_values();
    let damaged = files.filter(|piece| piece.table == "exits").find(|piece| piece.host == "b").unwrap();
    let file = folder.path().join(&damaged.path);
    let bytes = std::fs::read(&file).unwrap();
    let refused = |arguments: &[&str]| {
        let output = run(arguments);
        assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(2), ""), "{}", stderr(&output));
        assert!(stderr(&output).contains(&damaged.path), "{}", stderr(&output));
    };
    let foreign = |len: usize| [b"PAR1".to_vec(), vec![7; len - 8], b"PAR1".to_vec()].concat();
    let later = {
        let at = bytes.windows(17).rposition(|window| window == b"exitscope.store/1").unwrap();
        let mut bytes = bytes.clone();
        bytes[at + 16] = b'9';
        bytes
    };
    for (what, why) in [
        (bytes[..bytes.len() / 2].to_vec(), "bytes instead of"),
        (foreign(bytes.len()), "left out"),
        (later, "it is of schema exitscope.store/9"),
        (Vec::new(), "it has 0 bytes"),
    ] {
        std::fs::write(&file, what).unwrap();
        refused(&query);
        let output = run(&rest);
        assert!(stderr(&output).contains(&damaged.path) && stderr(&output).contains(why), "{}", stderr(&output));
        assert_eq!(n(&output), whole - damaged.rows);
    }
    let elsewhere = run(&["sql", &place, "select count(*) from exits where host <> 'b'", "--format", "csv"]);
    assert_eq!((n(&elsewhere), stderr(&elsewhere).as_str()), (whole - damaged.rows, ""), "it needs no damaged file");
    let fleet = run(&["fleet", "report", &place, "--no-verify"]);
    assert!(stdout(&fleet).contains(&format!("left out: {}", damaged.path)), "{}", stdout(&fleet));
    std::fs::remove_file(&file).unwrap();
    refused(&query);
    assert!(stderr(&run(&rest)).contains("it is not there"));
    // What no length says, a hash does.
    let mut bytes = bytes;
    let middle = bytes.len() / 3;
    bytes[middle] ^= 1;
    std::fs::write(&file, bytes).unwrap();
    refused(&query);
    refused(&["store", "files", &place, "exits"]);
    let check = run(&["store", "check", &place]);
    assert_eq!(check.status.code(), Some(1));
    assert!(stdout(&check).contains("its bytes are not those that were written"), "{}", stdout(&check));
}

#[test]
fn the_table_of_advice_has_the_gains_that_advise_prints() {
    let folder = tempfile::tempdir().unwrap();
    let place = store(folder.path());
    let mut compared = 0;
    for (trace, host, _) in RECORDINGS {
        let printed = run(&["advise", corpus(trace).to_str().unwrap(), "--format", "json"]);
        let printed: serde_json::Value = serde_json::from_slice(&printed.stdout).unwrap();
        let query = format!("select * from advice where host = '{host}'");
        let rows = rows(&place, &query);
        let advised = printed["advice"].as_array().unwrap();
        assert_eq!(rows.len(), advised.len(), "{host}");
        for advice in advised {
            let row = rows.iter().find(|row| row["change"] == advice["change"]).unwrap();
            for name in ["headline_ns_per_s", "low_ns_per_s", "high_ns_per_s", "method"] {
                assert_eq!(row[name], advice["gain"][name], "{host}: {}: {name}", advice["change"]);
            }
            compared += 1;
        }
    }
    assert!(compared > 0);
}

/// A recording of a VM of four vCPUs in which an `msr` exit takes so long on average, and an `io` exit always the same.
fn made(store: &Store, host: &str, day: &str, release: &str, msr_ns: u64) {
    let id = format!("{host}-{day}");
    let span = 1_000_000_000;
    let run = RecordingRow {
        id: id.clone(),
        name: id.clone(),
        host: host.to_string(),
        day: day.to_string(),
        format: "perf.data".to_string(),
        arch: "x86_64".to_string(),
        release: release.to_string(),
        cpu: "A CPU".to_string(),
        cpus: 8,
        clock: "mono".to_string(),
        first_ns: 5_000,
        last_ns: 5_000 + 32 * span - 1,
        events: 0,
        exits: 32 * 4 * 200,
        timed: 32 * 4 * 200,
        lost: 0,
        settings: Vec::new(),
        advice: Vec::new(),
    };
    let mut facts = Vec::new();
    for at in 0..32u64 {
        for vcpu in 0..4u32 {
            for (reason, each) in [("msr", msr_ns), ("io", 20_000)] {
                // Some noise, of a few per cent, that is not the same in any two stretches.
                let noise = (at * 7 + u64::from(vcpu) * 3 + u64::from(host.as_bytes()[0])) % 11;
                let each = each + each * noise / 200;
                facts.push(SumRow {
                    who: WhoRow { vm: Some(7), vcpu: Some(vcpu), ..WhoRow::default() },
                    vm_vcpus: 4,
                    at_ns: 5_000 + at * span,
                    span_ns: span,
                    reason: reason.to_string(),
                    count: 100,
                    timed: 100,
                    parts: ExitParts::ZERO.with(TimePart::Kernel, Nanos(100 * each)),
                    min_ns: Some(each),
                    max_ns: each,
                    exit_times: vec![(each, 100)],
                    ..SumRow::default()
                });
            }
        }
    }
    let sums = RecordingStats { facts, ..RecordingStats::default() };
    store.add(&id, host, day, Vec::new()).unwrap().finish(&run, &sums).unwrap();
}

#[test]
fn a_kernel_that_costs_more_is_told_from_one_that_does_not() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().to_str().unwrap();
    let store = Store::make(folder.path()).unwrap();
    let hosts = [("a", 2_000), ("b", 2_010), ("c", 1_990), ("d", 2_005), ("e", 1_995)];
    for (at, (host, msr_ns)) in hosts.into_iter().enumerate() {
        made(&store, host, "2026-11-02", "6.1.0", msr_ns);
        made(&store, host, "2026-11-16", "6.8.0", msr_ns * 107 / 100);
        let text = stdout(&run(&["fleet", "report", place]));
        let few = "Doubtful: fewer than 2 hosts on a side.";
        assert_eq!(text.contains(few), at < 1, "{} hosts: {text}", at + 1);
        assert_eq!(text.contains("costs"), at >= 1, "{} hosts: {text}", at + 1);
    }
    let output = run(&["fleet", "report", place, "--format", "json"]);
    let fleet: serde_json::Value = serde_json::from_str(&stdout(&output)).unwrap();
    check_json("fleet", [&fleet]);
    let comparison = &fleet["comparisons"][0];
    assert_eq!((&fleet["against"], &comparison["value"]), (&"6.1.0".into(), &"6.8.0".into()));
    assert_eq!((&comparison["before"]["hosts"], &comparison["shape"]["vcpus"]), (&5.into(), &4.into()));
    let cost = |reason: &str| {
        let rows = comparison["rows"].as_array().unwrap();
        let row = rows.iter().find(|row| row["reason"] == reason).unwrap();
        row["changes"].as_array().unwrap().iter().find(|change| change["measure"] == "cost_ns_per_s").unwrap().clone()
    };
    let (msr, io) = (cost("msr"), cost("io"));
    assert_eq!((&msr["verdict"], &io["verdict"]), (&"more".into(), &"unclear".into()));
    let change = msr["after"].as_f64().unwrap() / msr["before"].as_f64().unwrap();
    assert!((change - 1.07).abs() < 0.002, "{change}");
    // 100 exits in a second, of a vCPU.
    let expected = msr["before"].as_f64().unwrap() / 100.0;
    assert!((2_000.0..2_110.0).contains(&expected), "{expected}");
    let text = stdout(&run(&["fleet", "report", place]));
    let wanted = "6.8.0 costs 7.0% more in msr exits than 6.1.0, VMs of 4 vCPUs on A CPU";
    assert!(text.contains(wanted), "{text}");
    assert!(!text.contains("in io exits"), "{text}");

    let weeks = stdout(&run(&["fleet", "report", place, "--by", "week"]));
    assert!(weeks.contains("2026-W47 costs 7.0% more in msr exits than 2026-W45"), "{weeks}");
    let less = stdout(&run(&["fleet", "report", place, "--against", "6.8.0"]));
    assert!(less.contains("6.1.0 costs 6.5% less in msr exits than 6.8.0"), "{less}");
    let one = stdout(&run(&["fleet", "report", place, "--before", "2026-11-10"]));
    assert!(one.contains("There is nothing to compare by kernel."), "{one}");
    let wrong = run(&["fleet", "report", place, "--against", "5.0"]);
    assert!(stderr(&wrong).contains("there are: 6.1.0, 6.8.0"), "{}", stderr(&wrong));
}

#[test]
fn a_host_that_stands_out_is_named_with_its_reason() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::make(folder.path()).unwrap();
    for (host, msr_ns) in [("a", 2_000), ("b", 2_040), ("c", 1_960), ("d", 2_020), ("e", 1_980), ("f", 9_000)] {
        made(&store, host, "2026-11-02", "6.1.0", msr_ns);
    }
    let output = run(&["fleet", "report", folder.path().to_str().unwrap(), "--format", "json"]);
    let fleet: serde_json::Value = serde_json::from_str(&stdout(&output)).unwrap();
    let outliers = fleet["outliers"].as_array().unwrap();
    assert_eq!(outliers.len(), 1, "{outliers:?}");
    assert_eq!((&outliers[0]["host"], &outliers[0]["reason"]), (&"f".into(), &"msr".into()));
}

#[test]
fn the_prompt_completes_names_goes_on_after_errors_and_remembers() {
    let folder = tempfile::tempdir().unwrap();
    let place = store(&folder.path().join("fleet"));
    let state = folder.path().join("state");
    let command = format!("env XDG_STATE_HOME={} {} sql {place}", state.display(), env!("CARGO_BIN_EXE_exitscope"));
    let terminal = or_skip!(Terminal::start("sql", (100, 40), &command));
    terminal.wait_for(&["Queries end with ;", "sql>"]);
    // A name by its beginning; then the rest of the query on a second line.
    terminal.keys(&["select max(first_d", "Tab", ") d from hosts", "Enter"]);
    terminal.keys(&["where host = 'a'\\;", "Enter"]);
    terminal.wait_for(&["max(first_day) d from hosts", "2026-11-20", "1 row"]);
    terminal.keys(&["select nothing from exits\\;", "Enter"]);
    terminal.wait_for(&["No field named nothing"]);
    terminal.keys(&["drop table exits\\;", "Enter"]);
    terminal.wait_for(&["DDL not supported"]);
    terminal.keys(&["\\d", "Enter"]);
    terminal.wait_for(&["advice: recording, host, day", "histogram_percentile(bucket_ns, bucket_count, p)"]);
    terminal.keys(&["\\q", "Enter"]);
    terminal.wait_for(&["ended with 0"]);
    terminal.keys(&["clear", "Enter"]);
    terminal.keys(&[&command, "Enter"]);
    terminal.wait_for(&["Queries end with ;"]);
    // Up past the end of the last time, the help, and the two errors.
    terminal.keys(&["Up", "Up", "Up", "Up", "Up", "Enter"]);
    terminal.wait_for(&["2026-11-20"]);
    let mode = |path: &str| state.join(path).metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!((mode("exitscope"), mode("exitscope/sql_history")), (0o700, 0o600), "queries are their owner's alone");
}

#[test]
fn files_may_be_joined_and_removed_while_a_prompt_is_open() {
    let folder = tempfile::tempdir().unwrap();
    let place = store(&folder.path().join("fleet"));
    let state = folder.path().display();
    let command = format!("env XDG_STATE_HOME={state} {} sql {place}", env!("CARGO_BIN_EXE_exitscope"));
    let terminal = or_skip!(Terminal::start("joined", (100, 40), &command));
    terminal.wait_for(&["Queries end with ;", "sql>"]);
    let store = Store::open(&folder.path().join("fleet")).unwrap();
    let old: Vec<_> = store.contents().unwrap().pieces.into_keys().collect();
    let third = corpus("x86-svm/t4-zstd.data.gz");
    let output = run(&["store", "add", &place, third.to_str().unwrap(), "--host", "a", "--day", "2026-11-20"]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(store.compact().unwrap().after > 0);
    assert!(store.clean(std::time::Duration::ZERO).unwrap() > 0);
    assert!(old.iter().any(|path| !folder.path().join("fleet").join(path).exists()));
    terminal.keys(&["select count(distinct recording) + 97000 r from exits\\;", "Enter"]);
    terminal.wait_for(&["the store has changed; recordings in it: 3", "97003"]);
}
