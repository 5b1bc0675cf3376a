//! A cluster of real processes answers as one process does, also when an executor is lost.
#![cfg(feature = "cluster")]

mod common;

use common::{corpus, exitscope, run, stderr, stdout};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A scheduler and its executors, which end with it.
struct Cluster {
    address: String,
    scheduler: Option<Child>,
    executors: Vec<Child>,
}

/// A port that nobody had a moment ago.
fn free() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn quiet(command: &mut Command) -> Child {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

impl Cluster {
    fn new(executors: usize) -> Cluster {
        let port = free();
        let scheduler = quiet(exitscope().args(["cluster", "scheduler", "--listen", &format!("127.0.0.1:{port}")]));
        let mut cluster =
            Cluster { address: format!("df://127.0.0.1:{port}"), scheduler: Some(scheduler), executors: Vec::new() };
        let end = Instant::now() + Duration::from_secs(30);
        while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(Instant::now() < end, "no scheduler");
            std::thread::sleep(Duration::from_millis(50));
        }
        (0..executors).for_each(|_| cluster.add());
        cluster
    }

    fn add(&mut self) {
        let listen = format!("127.0.0.1:{}", free());
        let flags = ["--scheduler", &self.address, "--listen", &listen, "--threads", "1", "--memory", "256M"];
        self.executors.push(quiet(exitscope().args(["cluster", "executor"]).args(flags)));
    }

    fn sql(&self, place: &str, query: &str) -> Command {
        let mut command = exitscope();
        command.args(["sql", place, query, "--format", "csv", "--timeout", "600s", "--cluster", &self.address]);
        command
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for child in self.executors.iter_mut().chain(&mut self.scheduler) {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn store(at: &Path) -> String {
    for (trace, host, day) in [
        ("x86-svm/t2.data.gz", "a", "2026-11-20"),
        ("x86-svm/t4-kvmstat.data.gz", "b", "2026-11-22"),
        ("x86-svm/t4-callchain.data.gz", "c", "2026-11-22"),
    ] {
        let mut command = exitscope();
        command.args(["store", "add"]).arg(at).arg(corpus(trace)).args(["--host", host, "--day", day]);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
    }
    at.to_str().unwrap().to_string()
}

/// A query that takes seconds, in stages.
const LONG: &str = "select a.reason, count(*) n, sum((a.at_ns * 31 + b.at_ns) % 1000003) s from exits a join \
    (select at_ns, at_ns % 389 as k from exits) b on a.at_ns % 389 = b.k group by a.reason order by a.reason";

#[test]
fn a_cluster_answers_as_one_process_does() {
    let folder = tempfile::tempdir().unwrap();
    let place = store(folder.path());
    let cluster = Cluster::new(2);
    for query in [
        "select host, day, reason, count(*) n, sum(kernel_ns) k, min(at_ns) f, max(user_space_ns) u from exits \
         group by host, day, reason order by host, day, reason",
        "select reason, histogram_percentile(exit_time_bucket_ns, exit_time_bucket_count, 99) p, sum(count) n from reason_stats group by reason order by reason",
        "select r.release, f.reason, sum(f.count) n from reason_stats f join recordings r on f.recording = r.recording group by 1, 2 order by 1, 2",
        "select host, exit_name('svm', 123) e, count(distinct time_bucket('10ms', at_ns)) b from exits where host <> 'b' \
         group by host order by host",
        "select component, name, value from knobs order by 1, 2, 3",
        "select host, count(*) from advice group by host order by host",
        "select count(*) from exits",
    ] {
        let alone = run(&["sql", &place, query, "--format", "csv"]);
        assert!(alone.status.success(), "{query}: {}", stderr(&alone));
        let together = cluster.sql(&place, query).output().unwrap();
        assert!(together.status.success(), "{query}: {}", stderr(&together));
        assert_eq!(stdout(&together), stdout(&alone), "{query}");
    }
    let alone = run(&["fleet", "report", &place, "--by", "host", "--format", "json"]);
    let together = exitscope()
        .args(["fleet", "report", &place, "--by", "host", "--format", "json", "--cluster", &cluster.address])
        .output();
    assert_eq!(stdout(&together.unwrap()), stdout(&alone));
    let wrong = cluster.sql(&place, "select nothing from exits").output().unwrap();
    assert_eq!(wrong.status.code(), Some(2));
    assert!(stderr(&wrong).contains("nothing"), "{}", stderr(&wrong));
}

#[test]
fn a_sweep_on_a_cluster_is_the_one_of_this_machine() {
    let cluster = Cluster::new(2);
    let scenario = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/ping-pong.toml");
    let sweep = |flags: &[&str]| {
        let mut command = exitscope();
        command.arg("sweep").arg(&scenario).args(["--vary", "halt_poll_ns=0,50us,200us", "--replicates", "3"]);
        command.args(["--set", "duration=50ms", "--format", "json"]).args(flags).output().unwrap()
    };
    let (alone, together) = (sweep(&[]), sweep(&["--cluster", &cluster.address]));
    assert!(alone.status.success() && together.status.success(), "{} {}", stderr(&alone), stderr(&together));
    assert_eq!(stdout(&together), stdout(&alone));
    assert!(stdout(&alone).contains("throughput"), "{}", stdout(&alone));
}

#[test]
fn an_executor_that_is_lost_in_mid_query_is_made_up_for() {
    let folder = tempfile::tempdir().unwrap();
    let place = store(folder.path());
    let alone = stdout(&run(&["sql", &place, LONG, "--format", "csv"]));
    let mut cluster = Cluster::new(2);
    let query = cluster.sql(&place, LONG).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(1_500));
    cluster.executors[0].kill().unwrap();
    let output = query.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(stdout(&output), alone);
}

#[test]
fn executors_may_come_late_and_a_scheduler_that_is_gone_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let place = store(folder.path());
    let mut cluster = Cluster::new(0);
    let query = "select count(*) n, sum(at_ns) s from exits";
    let waiting = cluster.sql(&place, query).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    std::thread::sleep(Duration::from_secs(1));
    cluster.add();
    let output = waiting.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(stdout(&output), stdout(&run(&["sql", &place, query, "--format", "csv"])));
    let mut scheduler = cluster.scheduler.take().unwrap();
    scheduler.kill().unwrap();
    scheduler.wait().unwrap();
    let gone = cluster.sql(&place, query).output().unwrap();
    assert_eq!(gone.status.code(), Some(2));
    assert!(stderr(&gone).contains("no scheduler at 127.0.0.1:"), "{}", stderr(&gone));
}

#[test]
fn the_manifest_has_flags_that_there_are() {
    let manifest = include_str!("../../../contrib/kubernetes.yaml");
    let args = manifest.lines().filter_map(|line| line.trim().strip_prefix("args: "));
    let args: Vec<Vec<String>> = args.map(|args| serde_json::from_str(args).unwrap()).collect();
    assert_eq!(args.len(), 2);
    for args in args {
        let output = exitscope().args(&args).arg("--help").output().unwrap();
        assert!(output.status.success(), "{args:?}: {}", stderr(&output));
    }
    let wrong = run(&["cluster", "executor", "--nothing", "--help"]);
    assert_eq!(wrong.status.code(), Some(2), "what is no flag would have been found");
}
