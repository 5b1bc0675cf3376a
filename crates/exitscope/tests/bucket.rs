//! A store in a bucket, of an S3 server that runs beside the test, is what one in a directory is.
#![cfg(feature = "sql")]

mod common;

use common::{corpus, exitscope, stderr, stdout};
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Moto, which `make setup` installs: a server that speaks S3, with buckets in memory. It ends with this value.
struct Server {
    port: u16,
    child: Child,
}

impl Server {
    fn new() -> Server {
        let target = Path::new(env!("CARGO_BIN_EXE_exitscope")).ancestors().nth(2).unwrap();
        let moto = target.join("moto/bin/moto_server");
        assert!(moto.is_file(), "{} is missing: `make setup` installs it", moto.display());
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let mut command = Command::new(moto);
        command.args(["-H", "127.0.0.1", "-p", &port.to_string()]);
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let server = Server { port, child };
        let end = Instant::now() + Duration::from_secs(60);
        // It may take connections before it answers.
        while !server.ask("PUT /fleets").is_ok_and(|answer| answer.starts_with("HTTP/1.1 200")) {
            assert!(Instant::now() < end, "no S3 server, or no bucket");
            std::thread::sleep(Duration::from_millis(50));
        }
        server
    }

    /// What it answers to this line of a request.
    fn ask(&self, line: &str) -> io::Result<String> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port))?;
        let head = "Host: 127.0.0.1\r\nContent-Length: 0\r\nConnection: close\r\n\
                    Authorization: AWS4-HMAC-SHA256 Credential=k/20260101/us-east-1/s3/aws4_request";
        stream.write_all(format!("{line} HTTP/1.1\r\n{head}\r\n\r\n").as_bytes())?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    }

    /// The command, with the server's keys.
    fn exitscope(&self, arguments: &[&str]) -> Command {
        let mut command = exitscope();
        command.args(arguments).env("AWS_ENDPOINT_URL", format!("http://127.0.0.1:{}", self.port));
        with_keys(&mut command);
        command
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.exitscope(arguments).output().unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn with_keys(command: &mut Command) -> &mut Command {
    let keys = [("AWS_ACCESS_KEY_ID", "k"), ("AWS_SECRET_ACCESS_KEY", "s"), ("AWS_REGION", "us-east-1")];
    command.envs(keys)
}

const PLACE: &str = "s3://fleets/of/ours";

const RECORDINGS: [(&str, &str); 3] =
    [("x86-svm/t2.data.gz", "a"), ("x86-svm/t4-kvmstat.data.gz", "b"), ("x86-svm/t4-callchain.data.gz", "c")];

/// Adds everything, all at once.
fn fill(command: impl Fn() -> Command, place: &str) {
    let add = |(trace, host): (&str, &str)| {
        let trace: PathBuf = corpus(trace);
        let mut command = command();
        command.args(["store", "add", place]).arg(trace).args(["--host", host, "--day", "2026-11-22"]);
        command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let children: Vec<Child> = RECORDINGS.into_iter().map(add).collect();
    for child in children {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
    }
}

const QUERIES: [&str; 3] = [
    "select host, reason, count(*) n, sum(kernel_ns) k, max(user_space_ns) u from exits group by host, reason order by host, reason",
    "select reason, sum(count) n, histogram_percentile(exit_time_bucket_ns, exit_time_bucket_count, 99) p99 from reason_stats where host <> 'b' \
     group by reason order by reason",
    "select host, sum(halts) n, sum(gap_sum_ns) gap from halts group by host order by host",
];

#[test]
fn a_store_in_a_bucket_answers_as_one_in_a_directory() {
    let server = Server::new();
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path().to_str().unwrap();
    let none = server.run(&["store", "list", PLACE]);
    assert_eq!(none.status.code(), Some(2));
    assert!(stderr(&none).contains("s3://fleets/of/ours is no store"), "{}", stderr(&none));

    fill(|| server.exitscope(&[]), PLACE);
    fill(exitscope, directory);
    let same = |arguments: &[&str]| {
        let of = |place: &str| {
            let all: Vec<&str> = arguments.iter().map(|&of| if of == "PLACE" { place } else { of }).collect();
            let output = server.run(&all);
            assert!(output.status.success(), "{all:?}: {}", stderr(&output));
            assert_eq!(stderr(&output), "", "{all:?}");
            stdout(&output)
        };
        let (there, here) = (of(PLACE), of(directory));
        assert_eq!(there, here, "{arguments:?}");
        assert!(!there.is_empty());
    };
    let all = || {
        QUERIES.iter().for_each(|query| same(&["sql", "PLACE", query, "--format", "csv"]));
        same(&["fleet", "report", "PLACE", "--by", "host", "--format", "json"]);
    };
    all();
    same(&["store", "check", "PLACE"]);
    same(&["store", "compact", "PLACE"]);
    all();

    let again = server.run(&["store", "add", PLACE, corpus(RECORDINGS[0].0).to_str().unwrap(), "--host", "z"]);
    assert!(stdout(&again).contains("already there, of host a"), "{}", stdout(&again));
    // Nothing outside of its own path.
    let listed = server.ask("GET /fleets?list-type=2").unwrap();
    assert!(listed.contains("<Key>of/ours/_log/00000000000000000001.json</Key>"), "{listed}");
    assert_eq!(listed.matches("<Key>").count(), listed.matches("<Key>of/ours/").count());
}

#[cfg(feature = "cluster")]
#[test]
fn executors_read_a_bucket_themselves() {
    let server = Server::new();
    fill(|| server.exitscope(&[]), PLACE);
    let ports: Vec<u16> = [(); 3]
        .map(|()| TcpListener::bind("127.0.0.1:0").unwrap())
        .iter()
        .map(|listener| listener.local_addr().unwrap().port())
        .collect();
    let (scheduler, address) = (format!("127.0.0.1:{}", ports[0]), format!("df://127.0.0.1:{}", ports[0]));
    let quiet = |command: &mut Command| command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    // It makes plans, and reads nothing.
    let mut parts = vec![quiet(exitscope().args(["cluster", "scheduler", "--insecure", "--listen", &scheduler]))];
    let end = Instant::now() + Duration::from_secs(30);
    while TcpStream::connect(&scheduler).is_err() {
        assert!(Instant::now() < end, "no scheduler");
        std::thread::sleep(Duration::from_millis(50));
    }
    let work = tempfile::tempdir().unwrap();
    for port in &ports[1..] {
        let listen = format!("127.0.0.1:{port}");
        parts.push(quiet(&mut server.exitscope(&[
            "cluster",
            "executor",
            "--insecure",
            "--scheduler",
            &address,
            "--listen",
            &listen,
            "--work",
            work.path().to_str().unwrap(),
        ])));
    }
    for query in QUERIES {
        let alone = server.run(&["sql", PLACE, query, "--format", "csv"]);
        let together =
            server.run(&["sql", PLACE, query, "--format", "csv", "--cluster", &address, "--timeout", "120s"]);
        assert!(together.status.success(), "{}", stderr(&together));
        assert_eq!(stdout(&together), stdout(&alone));
    }
    parts.iter_mut().for_each(|part| drop((part.kill(), part.wait())));
}

#[test]
fn what_is_wrong_with_a_bucket_is_said() {
    let server = Server::new();
    let said = |command: &mut Command| {
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(2));
        stderr(&output)
    };
    let list = |place: &str| said(&mut server.exitscope(&["store", "list", place]));
    let missing = list("s3://nobodys/fleet/");
    assert!(missing.starts_with("exitscope: cannot list s3://nobodys/fleet/_log: The specified bucket"), "{missing}");
    assert!(missing.trim_end().ends_with("(NoSuchBucket)"), "{missing}");
    assert!(list("s3:///fleet").contains("a bucket is named like s3://bucket/path"));
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let begin = Instant::now();
    let mut command = exitscope();
    let nobody =
        said(with_keys(command.args(["store", "list", PLACE]).env("AWS_ENDPOINT_URL", format!("http://{free}"))));
    assert_eq!(nobody, "exitscope: cannot list s3://fleets/of/ours/_log: Connection refused (os error 111)\n");
    assert!(begin.elapsed() < Duration::from_secs(60), "{:?}", begin.elapsed());
}
