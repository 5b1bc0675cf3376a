//! The server and what it serves, asked by clients that behave and by clients that do not.

use exitscope_exporter::{Exporter, FAMILIES, Kind, Limits, Source};
use exitscope_http::{Access, Patience, serve};
use exitscope_model::{CodeList, ExitCode};
use exitscope_record::{Cause, Cost, Key, Lane, LaneState, Runner, Snapshot};
use openmetrics_parser::openmetrics::parse_openmetrics;
use openmetrics_parser::{MetricNumber, OpenMetricsValue};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{JoinHandle, sleep};
use std::time::{Duration, Instant};

/// Names that need care in OpenMetrics.
const NAMES: [&str; 3] = ["plain", "a \"quoted\" back\\slash", "two\nlines, and ö"];

/// A source that always says the same.
struct Fixed {
    snapshot: Snapshot,
    works: bool,
}

impl Fixed {
    /// So many VMs, each with the exits of so many reasons: 1, 2, 3, … of them, 1 us each.
    fn new(vms: u32, reasons: u64) -> Fixed {
        let mut snapshot = Snapshot { cost: Some(Cost { runs: 100, ns: 20_000 }), lost: 3, ..Snapshot::default() };
        for process in 0..vms {
            let lane = Lane { process, runner: Runner::Thread(process) };
            snapshot.lanes.insert(lane, LaneState { events: 7, ..LaneState::default() });
            for number in 0..reasons {
                let cause = Cause::Exit(ExitCode::new(CodeList::Vmx, number));
                let count = snapshot.counts.entry(Key { lane, cause, about: None }).or_default();
                for _ in 0..=number {
                    count.count += 1;
                    count.total += 1_000;
                    count.lengths.record(1_000);
                }
            }
            let halts =
                snapshot.counts.entry(Key { lane, cause: Cause::Halt { slept: true, valid: true }, about: None });
            halts.or_default().count = 5;
            snapshot.counts.entry(Key { lane, cause: Cause::Served, about: None }).or_default().count = 11;
        }
        Fixed { snapshot, works: true }
    }
}

impl Source for Fixed {
    fn read(&mut self) -> Result<&Snapshot, String> {
        if self.works { Ok(&self.snapshot) } else { Err("the kernel is gone".into()) }
    }

    fn forget_ended(&mut self) {}

    fn name(&self, process: u32) -> String {
        NAMES.get(process as usize).map_or_else(|| format!("vm{process}"), |name| name.to_string())
    }

    fn route(&self) -> &'static str {
        "bpf"
    }
}

/// A server at work, stopped when dropped.
struct Server {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    fn start(source: Fixed, access: Access) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let asked = stop.clone();
        let thread = std::thread::spawn(move || {
            let exporter = Exporter::new(source, Limits { vms: 1000, reasons: 64 });
            serve(listener, access, exporter, || asked.load(Ordering::Relaxed)).unwrap();
        });
        Server { address, stop, thread: Some(thread) }
    }

    fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).unwrap()
    }

    fn ask(&self, request: &str) -> String {
        answer(self.connect(), request)
    }

    fn get(&self, path: &str) -> String {
        self.ask(&format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n"))
    }

    /// The value of a sample, by how its line begins.
    fn value(&self, sample: &str) -> f64 {
        let metrics = self.get("/metrics");
        let line = metrics.lines().find_map(|line| line.strip_prefix(sample));
        line.unwrap_or_else(|| panic!("no {sample}")).trim().parse().unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let ended = self.thread.take().unwrap().join();
        assert!(ended.is_ok() || std::thread::panicking());
    }
}

/// Sends a request and reads what comes until the connection ends.
fn answer(mut stream: impl Read + Write, request: &str) -> String {
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

fn body(answer: &str) -> &str {
    answer.split_once("\r\n\r\n").map_or("", |parts| parts.1)
}

fn status(answer: &str) -> u16 {
    answer.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or_else(|| panic!("no status: {answer}"))
}

fn is_unit_of_histogram(line: &str) -> bool {
    let histograms = FAMILIES.iter().filter(|family| family.kind == Kind::Histogram);
    line.strip_prefix("# UNIT ")
        .is_some_and(|rest| histograms.into_iter().any(|of| rest == format!("{} seconds", of.full_name())))
}

#[test]
fn another_reader_of_openmetrics_reads_every_family_and_value() {
    let server = Server::start(Fixed::new(3, 4), Access::default());
    let answer = server.get("/metrics");
    assert!(answer.contains("content-type: application/openmetrics-text; version=1.0.0; charset=utf-8"), "{answer}");
    // This reader knows units only of counters and gauges.
    let text: String =
        body(&answer).lines().filter(|line| !is_unit_of_histogram(line)).flat_map(|line| [line, "\n"]).collect();
    let read = parse_openmetrics(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let exits = &read.families["exitscope_exits"];
    let counts: Vec<(String, MetricNumber)> = exits
        .iter_samples()
        .map(|sample| {
            let OpenMetricsValue::Counter(counter) = &sample.value else { panic!("no counter: {sample:?}") };
            let labels = sample.get_labelset().unwrap();
            let vm = labels.iter().find(|(name, _)| *name == "vm").unwrap().1;
            (vm.to_string(), counter.value)
        })
        .collect();
    assert_eq!(counts.len(), 3 * 4);
    for name in NAMES {
        let escaped = name.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
        let of = |label: &str| label == name || label == escaped;
        let of_vm = counts.iter().filter(|(vm, _)| of(vm));
        let counts: Vec<MetricNumber> = of_vm.map(|(_, count)| *count).collect();
        assert!((1..=4).all(|count| counts.contains(&MetricNumber::Int(count))), "{name:?}: {counts:?}");
    }
    let durations = &read.families["exitscope_exit_duration_seconds"];
    for sample in durations.iter_samples() {
        let OpenMetricsValue::Histogram(histogram) = &sample.value else { panic!("no histogram: {sample:?}") };
        let last = histogram.buckets.last().unwrap();
        assert!(last.upper_bound.is_infinite());
        assert_eq!(histogram.count, Some(last.count.as_f64() as u64));
        assert!((histogram.sum.unwrap().as_f64() - last.count.as_f64() * 1e-6).abs() < 1e-12);
    }
    for name in ["exitscope_halts", "exitscope_served", "exitscope_vcpus", "exitscope_build", "process_cpu_seconds"] {
        assert!(read.families.contains_key(name), "{name}");
    }
    assert_eq!(server.value("exitscope_lost_events_total"), 3.0);
    assert_eq!(server.value("exitscope_event_cost_seconds"), 200e-9);
}

#[test]
fn only_who_knows_the_token_is_answered() {
    let server = Server::start(Fixed::new(1, 1), Access { token: Some("secret".into()), ..Access::default() });
    let ask =
        |path: &str, header: &str| status(&server.ask(&format!("GET {path} HTTP/1.1\r\nHost: x\r\n{header}\r\n")));
    for (header, expected) in [
        ("", 401),
        ("Authorization: Bearer wrong\r\n", 401),
        ("Authorization: Bearer secretly\r\n", 401),
        ("Authorization: Bearer \r\n", 401),
        ("Authorization: Basic secret\r\n", 401),
        ("Authorization: secret\r\n", 401),
        ("Authorization: Bearer secret\r\n", 200),
        ("authorization: bearer secret\r\n", 200),
    ] {
        assert_eq!(ask("/metrics", header), expected, "{header:?}");
        assert_eq!(ask("/", header), expected, "{header:?}");
        assert_eq!(ask("/healthz", header), 200, "{header:?}");
    }
}

#[test]
fn what_is_no_proper_request_is_refused() {
    let server = Server::start(Fixed::new(1, 1), Access::default());
    for (request, expected) in [
        ("GET /other HTTP/1.1\r\nHost: x\r\n\r\n".to_string(), 404),
        ("GET /metrics/../etc HTTP/1.1\r\nHost: x\r\n\r\n".to_string(), 404),
        ("POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n".to_string(), 405),
        ("HEAD /metrics HTTP/1.1\r\nHost: x\r\n\r\n".to_string(), 200),
        ("GET /metrics?x=y HTTP/1.1\r\nHost: x\r\n\r\n".to_string(), 200),
        ("nonsense\r\n\r\n".to_string(), 400),
        (format!("GET /metrics HTTP/1.1\r\nHost: x\r\nA: {}\r\n\r\n", "x".repeat(64 << 10)), 431),
    ] {
        assert_eq!(status(&server.ask(&request)), expected, "{:?}", &request[..40.min(request.len())]);
    }
    assert!(body(&server.get("/")).contains("/metrics"));
    assert_eq!(server.value("exitscope_http_responses_total{code=\"405\"}"), 1.0);
}

#[test]
fn clients_that_never_read_or_never_send_are_cut_and_others_are_served() {
    let two = Duration::from_secs(2);
    let patience = Patience { request: two, answer: two, ..Patience::default() };
    // Some 10 MB of text, which no socket's buffers hold.
    let server = Server::start(Fixed::new(400, 30), Access { patience, ..Access::default() });
    let mut deaf = server.connect();
    deaf.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    // More than there are places.
    let silent: Vec<TcpStream> = (0..40).map(|_| server.connect()).collect();
    let mut slow = server.connect();
    slow.write_all(b"GET /met").unwrap();
    assert_eq!(status(&server.get("/healthz")), 200);
    // All of them in their turn: the deaf one, the silent ones, the slow one.
    let end = Instant::now() + Duration::from_secs(60);
    while server.value("exitscope_http_cut_total") < 42.0 {
        assert!(Instant::now() < end, "some are never cut");
        sleep(Duration::from_millis(100));
    }
    drop((deaf, silent, slow));
}

#[test]
fn a_source_that_fails_is_told_to_who_asks() {
    let mut source = Fixed::new(1, 1);
    source.works = false;
    let server = Server::start(source, Access::default());
    let answer = server.get("/metrics");
    assert_eq!((status(&answer), body(&answer)), (500, "the kernel is gone\n"));
    assert_eq!(status(&server.get("/healthz")), 503);
}
