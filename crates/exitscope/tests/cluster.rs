//! A cluster of real processes answers as one process does, also when an executor is lost.
#![cfg(feature = "cluster")]

mod common;

use common::{corpus, exitscope, run, stderr, stdout};
use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// A scheduler and its executors, which end with it, and which want a token. Tests may run as root (--insecure).
struct Cluster {
    address: String,
    folder: TempDir,
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

/// Whatever the umask of whoever starts them, what they write is to be private.
fn part(arguments: &[&str]) -> Command {
    let mut shell = Command::new("sh");
    shell.args(["-c", "umask 0; exec \"$@\"", "sh"]).arg(exitscope().get_program());
    shell.args(["cluster"]).args(arguments).arg("--insecure");
    shell
}

impl Cluster {
    fn new(executors: usize) -> Cluster {
        let port = free();
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("token"), "secret\n").unwrap();
        fs::write(folder.path().join("other"), "secret2\n").unwrap();
        let mut cluster =
            Cluster { address: format!("df://127.0.0.1:{port}"), folder, scheduler: None, executors: Vec::new() };
        let listen = format!("127.0.0.1:{port}");
        let arguments = ["scheduler", "--listen", &listen, "--token-file", &cluster.file("token")];
        cluster.scheduler = Some(quiet(&mut part(&arguments)));
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
        let mut executor = part(&["executor", "--scheduler", &self.address, "--listen", &listen]);
        executor.args(["--threads", "1", "--memory", "256M", "--token-file", &self.file("token")]);
        self.executors.push(quiet(executor.args(["--work", &self.file("work")])));
    }

    fn file(&self, name: &str) -> String {
        self.folder.path().join(name).to_str().unwrap().to_string()
    }

    fn sql(&self, place: &str, query: &str) -> Command {
        let mut command = self.sql_without_token(place, query);
        command.args(["--cluster-token-file", &self.file("token")]);
        command
    }

    fn sql_without_token(&self, place: &str, query: &str) -> Command {
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
        .args(["--cluster-token-file", &cluster.file("token")])
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
    let there = ["--cluster", &cluster.address, "--cluster-token-file", &cluster.file("token")];
    let (alone, together) = (sweep(&[]), sweep(&there));
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

/// Fails if others than its owner may do anything with it, or with what is in it. How many files there are.
fn private_files(path: &Path) -> usize {
    let about = path.symlink_metadata().unwrap();
    let wanted = if about.is_dir() { 0o700 } else { 0o600 };
    assert_eq!(about.mode() & 0o777, wanted, "{}", path.display());
    match about.is_dir() {
        true => path.read_dir().unwrap().map(|entry| private_files(&entry.unwrap().path())).sum(),
        false => 1,
    }
}

#[test]
fn nobody_is_let_in_without_the_token_and_results_are_private() {
    let folder = tempfile::tempdir().unwrap();
    let place = store(folder.path());
    let mut cluster = Cluster::new(1);
    let query = "select host, reason, count(*) n from exits group by host, reason order by host, reason";
    let said = |output: Output, flag: &str, why: &str| {
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(flag) && said.contains(why) && !said.contains("secret"), "{said}");
    };
    said(cluster.sql_without_token(&place, query).output().unwrap(), "--cluster-token-file", "requires a token");
    let mut other = cluster.sql_without_token(&place, query);
    other.args(["--cluster-token-file", &cluster.file("other")]);
    said(other.output().unwrap(), "--cluster-token-file", "requires another token");
    let listen = format!("127.0.0.1:{}", free());
    let stranger = ["executor", "--scheduler", &cluster.address, "--listen", &listen];
    said(part(&stranger).output().unwrap(), "--token-file", "requires a token");

    let output = cluster.sql(&place, query).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let work = cluster.folder.path().join("work");
    assert!(private_files(&work) > 0, "no results in {}", work.display());
    // What an executor made goes with it.
    let mut executor = cluster.executors.remove(0);
    assert!(Command::new("kill").arg(executor.id().to_string()).status().unwrap().success());
    executor.wait().unwrap();
    assert_eq!(private_files(&work), 0);
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
