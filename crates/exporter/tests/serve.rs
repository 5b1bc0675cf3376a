//! The server and what it serves, asked by clients that behave and by clients that do not.

use exitscope_exporter::{CountsSource, Exporter, FAMILIES, MetricKind, NamedVm, SeriesLimits};
use exitscope_http::{AllowedHosts, BrowserIsolation, ServerAccess, Timeouts, serve};
use exitscope_live::{CountInterval, Deltas};
use exitscope_model::{CodeList, ExitCode, IdentityField, IdentitySource, VmIdentity, VmManager};
use exitscope_record::{CountKey, CountedKind, CountedVcpu, CountedVcpuState, CountingCost, Snapshot, VcpuRunner};
use exitscope_skips::{Part, or_skip, skip};
use openmetrics_parser::openmetrics::parse_openmetrics;
use openmetrics_parser::{MetricNumber, OpenMetricsValue};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{JoinHandle, sleep};
use std::time::{Duration, Instant};

/// Names that need care in OpenMetrics, as they are and as they come out.
const NAMES: [(&str, &str); 4] = [
    ("plain", "plain"),
    ("a \"quoted\" back\\slash", "a \"quoted\" back\\slash"),
    ("two\nlines, and ö", "two\nlines, and ö"),
    (HOSTILE, "\n\"} 1\\\\u{1b}]0;x\\u{7}\\u{202e}<script>alert(1)</script>\n=cmd()"),
];

/// A name that somebody gave to a VM so that whoever reads it does what he wants.
const HOSTILE: &str = "\n\"} 1\\\x1b]0;x\x07\u{202e}<script>alert(1)</script>\n=cmd()";

/// A source that always says the same.
struct Fixed {
    snapshot: Snapshot,
    deltas: Deltas,
    works: bool,
}

impl Fixed {
    /// So many VMs, each with the exits of so many reasons: 1, 2, 3, … of them, 1 us each.
    fn new(vms: u32, reasons: u64) -> Fixed {
        let mut snapshot =
            Snapshot { cost: Some(CountingCost { runs: 100, ns: 20_000 }), lost: 3, missed: 5, ..Snapshot::default() };
        for process in 0..vms {
            let lane = CountedVcpu { process, runner: VcpuRunner::Thread(process) };
            snapshot.lanes.insert(lane, CountedVcpuState { events: 7, ..CountedVcpuState::default() });
            for number in 0..reasons {
                let cause = CountedKind::Exit(ExitCode::new(CodeList::Vmx, number));
                let count = snapshot.counts.entry(CountKey { lane, cause, subject: None }).or_default();
                for _ in 0..=number {
                    count.count += 1;
                    count.total += 1_000;
                    count.lengths.record(1_000);
                }
            }
            let halts = snapshot.counts.entry(CountKey {
                lane,
                cause: CountedKind::Halt { slept: true, valid: true },
                subject: None,
            });
            halts.or_default().count = 5;
            snapshot.counts.entry(CountKey { lane, cause: CountedKind::InKernel, subject: None }).or_default().count =
                11;
        }
        Fixed { snapshot, deltas: Deltas::default(), works: true }
    }
}

impl CountsSource for Fixed {
    fn read(&mut self) -> Result<CountInterval, String> {
        if self.works { Ok(self.deltas.take(&self.snapshot)) } else { Err("the kernel is gone".into()) }
    }

    fn vm(&mut self, process: u32) -> NamedVm {
        let name = NAMES.get(process as usize).map_or_else(|| format!("vm{process}"), |name| name.0.to_string());
        let mut identity = VmIdentity::managed_by(VmManager::Libvirt);
        identity.set(IdentityField::DisplayName, &name, IdentitySource::LibvirtState);
        NamedVm { name, identity }
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
    fn start(source: Fixed, access: ServerAccess) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let asked = stop.clone();
        let thread = std::thread::spawn(move || {
            let exporter = Exporter::new(source, SeriesLimits { vms: 1000, reasons: 64, per_vcpu: true });
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
        self.get_as(path, "*/*")
    }

    fn get_as(&self, path: &str, accept: &str) -> String {
        self.ask(&format!("GET {path} HTTP/1.1\r\nHost: x\r\nAccept: {accept}\r\n\r\n"))
    }

    /// The value of a sample, by how its line begins.
    fn value(&self, sample: &str) -> f64 {
        self.value_if_told(sample).unwrap_or_else(|| panic!("no {sample}"))
    }

    /// The same of an answer that may be cut.
    fn value_if_told(&self, sample: &str) -> Option<f64> {
        let metrics = self.get("/metrics");
        let value = metrics.lines().find_map(|line| line.strip_prefix(sample))?;
        Some(value.trim().parse().unwrap())
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
    let histograms = FAMILIES.iter().filter(|family| family.kind == MetricKind::Histogram);
    line.strip_prefix("# UNIT ")
        .is_some_and(|rest| histograms.into_iter().any(|of| rest == format!("{} seconds", of.full_name())))
}

#[test]
fn another_reader_of_openmetrics_reads_every_family_and_value() {
    let server = Server::start(Fixed::new(4, 4), ServerAccess::default());
    let answer = server.get_as("/metrics", "application/openmetrics-text; version=1.0.0");
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
    assert_eq!(counts.len(), 4 * 4);
    for (_, name) in NAMES {
        let escaped = name.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
        let of = |label: &str| label == name || label == escaped;
        let of_vm = counts.iter().filter(|(vm, _)| of(vm));
        let counts: Vec<MetricNumber> = of_vm.map(|(_, count)| *count).collect();
        assert!((1..=4).all(|count| counts.contains(&MetricNumber::Int(count))), "{name:?}: {counts:?}");
    }
    let durations = &read.families["exitscope_exit_time_seconds"];
    for sample in durations.iter_samples() {
        let OpenMetricsValue::Histogram(histogram) = &sample.value else { panic!("no histogram: {sample:?}") };
        let last = histogram.buckets.last().unwrap();
        assert!(last.upper_bound.is_infinite());
        assert_eq!(histogram.count, Some(last.count.as_f64() as u64));
        assert!((histogram.sum.unwrap().as_f64() - last.count.as_f64() * 1e-6).abs() < 1e-12);
    }
    for name in
        ["exitscope_halts", "exitscope_in_kernel_events", "exitscope_vcpus", "exitscope_build", "process_cpu_seconds"]
    {
        assert!(read.families.contains_key(name), "{name}");
    }
    assert_eq!(server.value("exitscope_lost_events_total"), 3.0);
    assert_eq!(server.value("exitscope_missed_scheduler_events_total"), 5.0);
    assert_eq!(server.value("exitscope_event_cost_seconds"), 200e-9);
}

#[test]
fn who_does_not_ask_for_openmetrics_gets_text_that_promtool_finds_nothing_in() {
    let server = Server::start(Fixed::new(4, 4), ServerAccess::default());
    let answer = server.get("/metrics");
    assert!(answer.contains("content-type: text/plain; version=0.0.4; charset=utf-8\r\n"), "{answer}");
    assert!(answer.contains("vary: accept\r\n"), "{answer}");
    let text = body(&answer);
    for line in ["# TYPE exitscope_exits_total counter", "# TYPE exitscope_build_info gauge"] {
        assert!(text.lines().any(|other| other == line), "{line}");
    }
    // The same samples, and nothing about them that this format does not have.
    let open_metrics = server.get_as("/metrics", "application/openmetrics-text");
    let samples = |text: &str| {
        let lines = text.lines().filter(|line| line.starts_with("exitscope_exit"));
        lines.map(str::to_string).collect::<Vec<_>>()
    };
    assert_eq!(samples(text), samples(body(&open_metrics)));
    assert!(!text.contains("# UNIT") && !text.contains("# EOF"));
    let known: Vec<String> = FAMILIES.iter().flat_map(|family| family.samples()).collect();
    for line in text.lines().filter(|line| !line.starts_with("# ")) {
        let name = line.split(['{', ' ']).next().unwrap();
        assert!(known.iter().any(|known| known == name), "{line:?}");
    }
    let promtool =
        Command::new("promtool").args(["check", "metrics"]).stdin(Stdio::piped()).stderr(Stdio::piped()).spawn();
    match promtool {
        Ok(mut promtool) => {
            promtool.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
            let found = promtool.wait_with_output().unwrap();
            assert!(found.status.success() && found.stderr.is_empty(), "{}", String::from_utf8_lossy(&found.stderr));
        }
        Err(error) => or_skip!(Err(skip(Part::Promtool, format!("promtool, of Debian's package prometheus: {error}")))),
    }
}

#[test]
fn a_hostile_name_is_a_label_and_nothing_else() {
    let server = Server::start(Fixed::new(4, 1), ServerAccess::default());
    for accept in ["text/plain", "application/openmetrics-text"] {
        let answer = server.get_as("/metrics", accept);
        let text = body(&answer);
        let shows = |letter: char| letter == '\n' || !(letter.is_control() || letter == '\u{202e}');
        assert!(text.chars().all(shows), "{text:?}");
        let label = r#"vm="\n\"} 1\\\\u{1b}]0;x\\u{7}\\u{202e}<script>alert(1)</script>\n=cmd()""#;
        assert!(text.contains(&format!("exitscope_vcpus{{{label}}} 1\n")), "{text}");
    }
    assert!(!server.get("/").contains("script>"));
    let mut source = Fixed::new(1, 1);
    source.works = false;
    let server = Server::start(source, ServerAccess::default());
    let answer = server.get("/metrics");
    assert!(answer.contains("content-type: text/plain; charset=utf-8\r\n"), "{answer}");
    assert!(answer.contains("x-content-type-options: nosniff\r\n"), "{answer}");
}

#[test]
fn a_scrape_succeeds_beside_half_open_and_deaf_clients() {
    let end = Duration::from_secs(86_400);
    let patience = Timeouts { request: end, answer: end, notes: end };
    // Some 10 MB of text, which no socket's buffers hold.
    let server = Server::start(Fixed::new(400, 30), ServerAccess { patience, ..ServerAccess::default() });
    let deaf: Vec<TcpStream> = (0..16).map(|_| server.connect()).collect();
    for mut stream in &deaf {
        stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
        stream.read_exact(&mut [0; 16]).unwrap();
    }
    let half_open: Vec<TcpStream> = (0..64).map(|_| server.connect()).collect();
    for mut stream in &half_open {
        stream.write_all(b"GET /metrics HTTP/1.1\r\nHost:").unwrap();
    }
    assert_eq!(status(&server.get("/healthz")), 200);
    let scraped = server.get("/metrics");
    assert!(status(&scraped) == 200 && body(&scraped).contains("\nprocess_start_time_seconds "));
    drop((deaf, half_open));
}

#[test]
fn nobody_elses_name_and_nobody_elses_page_get_metrics() {
    let names = AllowedHosts { any_address: false, names: vec!["host1".into()] };
    let access = ServerAccess { browsers: Some(BrowserIsolation { names, cookie: None }), ..ServerAccess::default() };
    let server = Server::start(Fixed::new(1, 1), access);
    for (head, expected) in [
        ("Host: localhost\r\n", 200),
        ("Host: 127.0.0.1:9965\r\n", 200),
        ("Host: host1:9965\r\n", 200),
        ("Host: evil.example:9965\r\n", 421),
        ("Host: 192.0.2.1\r\n", 421),
        ("", 421),
        ("Host: localhost\r\nSec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: no-cors\r\n", 403),
    ] {
        for path in ["/metrics", "/healthz", "/"] {
            let answer = server.ask(&format!("GET {path} HTTP/1.1\r\n{head}\r\n"));
            assert_eq!(status(&answer), expected, "{path} {head:?}");
            assert!(answer.contains("content-security-policy: default-src 'none'"), "{answer}");
        }
    }
}

#[test]
fn only_who_knows_the_token_is_answered() {
    let server =
        Server::start(Fixed::new(1, 1), ServerAccess { token: Some("secret".into()), ..ServerAccess::default() });
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
    let server = Server::start(Fixed::new(1, 1), ServerAccess::default());
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
    let patience = Timeouts { request: two, answer: two, ..Timeouts::default() };
    // Some 10 MB of text, which no socket's buffers hold.
    let server = Server::start(Fixed::new(400, 30), ServerAccess { patience, ..ServerAccess::default() });
    let mut deaf = server.connect();
    deaf.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    let silent: Vec<TcpStream> = (0..40).map(|_| server.connect()).collect();
    let mut slow = server.connect();
    slow.write_all(b"GET /met").unwrap();
    assert_eq!(status(&server.get("/healthz")), 200);
    // All of them in their turn: the deaf one, the silent ones, the slow one.
    let end = Instant::now() + Duration::from_secs(60);
    let mut cut = 42.0;
    loop {
        match server.value_if_told("exitscope_http_timeouts_total") {
            Some(told) if told >= cut => break,
            Some(_) => {}
            // On a busy machine two seconds are too few for this answer, too.
            None => cut += 1.0,
        }
        assert!(Instant::now() < end, "some are never cut");
        sleep(Duration::from_millis(100));
    }
    drop((deaf, silent, slow));
}

#[test]
fn a_source_that_fails_is_told_to_who_asks() {
    let mut source = Fixed::new(1, 1);
    source.works = false;
    let server = Server::start(source, ServerAccess::default());
    let answer = server.get("/metrics");
    assert_eq!((status(&answer), body(&answer)), (500, "the kernel is gone\n"));
    assert_eq!(status(&server.get("/healthz")), 503);
}
