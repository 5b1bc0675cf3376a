//! The server, asked by clients that behave, by clients that do not, and by browsers that others' pages run in.

use exitscope_http::{
    AllowedHosts, BrowserIsolation, HttpRequest, PathAccess, Reply, RequestHandler, ServerAccess, ServerAddress,
    ServerEvent, SseChannel, SseEvent, StatusCode, Timeouts, credentials, serve,
};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::watch;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

/// How long things may take that take no time on a quiet machine.
const LONG: Duration = Duration::from_secs(60);

/// `/open` for everybody, and `/watch` and `/watch/big` for who watches over it; `/big`, `/notes` and `/` for who may.
struct Things {
    notes: SseChannel,
    cut: Arc<AtomicU64>,
    no_tls: Arc<AtomicU64>,
}

impl RequestHandler for Things {
    fn path_access(&self, path: &str) -> PathAccess {
        match path {
            "/open" | "/watch" | "/watch/big" => PathAccess::Open,
            "/" | "/big" | "/notes" => PathAccess::Guarded,
            _ => PathAccess::None,
        }
    }

    fn is_watching(&self, path: &str) -> bool {
        path.starts_with("/watch")
    }

    fn answer(self: Rc<Self>, asked: HttpRequest) -> impl Future<Output = Reply> + 'static {
        std::future::ready(match asked.path.as_str() {
            // No socket's buffers hold that.
            "/big" | "/watch/big" => Reply::of(StatusCode::OK, "application/gzip", vec![7; 32 << 20]),
            "/notes" => Reply::event_stream(self.notes.clone(), asked.last_note),
            path => Reply::text(StatusCode::OK, format!("this is {path}\n")),
        })
    }

    fn poll_changes(self: &Rc<Self>) {}

    fn count(&self, what: ServerEvent) {
        self.cut.fetch_add(u64::from(what == ServerEvent::TimedOut), Ordering::Relaxed);
        self.no_tls.fetch_add(u64::from(what == ServerEvent::TlsFailed), Ordering::Relaxed);
    }
}

/// A server at work, stopped when dropped.
struct Server {
    address: SocketAddr,
    notes: watch::Sender<SseEvent>,
    cut: Arc<AtomicU64>,
    no_tls: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    fn start(access: ServerAccess) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (notes, seen) = watch::channel(SseEvent::default());
        let stop = Arc::new(AtomicBool::new(false));
        let (cut, no_tls) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let (asked, counts) = (stop.clone(), (cut.clone(), no_tls.clone()));
        let thread = std::thread::spawn(move || {
            let things = Things { notes: seen, cut: counts.0, no_tls: counts.1 };
            serve(listener, access, things, || asked.load(Ordering::Relaxed)).unwrap();
        });
        Server { address, notes, cut, no_tls, stop, thread: Some(thread) }
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(LONG)).unwrap();
        stream
    }

    /// A connection from another address of this machine's own.
    fn connect_from(&self, address: [u8; 4]) -> TcpStream {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap();
        let connected = async {
            let socket = tokio::net::TcpSocket::new_v4().unwrap();
            socket.bind((address, 0).into()).unwrap();
            socket.connect(self.address).await.unwrap().into_std().unwrap()
        };
        let stream = runtime.block_on(connected);
        stream.set_nonblocking(false).unwrap();
        stream.set_read_timeout(Some(LONG)).unwrap();
        stream
    }

    /// A connection of a client that trusts this certificate.
    fn connect_by_tls(&self, trusted: Option<CertificateDer<'static>>) -> StreamOwned<ClientConnection, TcpStream> {
        let mut roots = RootCertStore::empty();
        trusted.into_iter().for_each(|certificate| roots.add(certificate).unwrap());
        let provider = Arc::new(tokio_rustls::rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        let config = config.with_root_certificates(roots).with_no_client_auth();
        let name = ServerName::try_from("localhost").unwrap();
        StreamOwned::new(ClientConnection::new(Arc::new(config), name).unwrap(), self.connect())
    }

    /// A request whose answer is never read; the first bytes of that are there.
    fn ask_and_not_read(&self, stream: TcpStream, path: &str) -> TcpStream {
        (&stream).write_all(format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").as_bytes()).unwrap();
        (&stream).read_exact(&mut [0; 16]).unwrap();
        stream
    }

    fn ask(&self, request: &str) -> String {
        answer(self.connect(), request)
    }

    fn get(&self, path: &str, headers: &str) -> String {
        self.ask(&format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n"))
    }

    fn note(&self, id: &str, data: &str) {
        self.notes.send_replace(SseEvent { id: id.into(), data: data.into() });
    }

    fn stop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let ended = self.thread.take().map(JoinHandle::join);
        assert!(ended.is_none_or(|ended| ended.is_ok()) || std::thread::panicking());
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
    }
}

/// A connection of either kind.
trait ReadWrite: Read + Write {}
impl<T: Read + Write> ReadWrite for T {}

/// Sends a request and reads what comes until the connection ends.
fn answer(mut stream: impl Read + Write, request: &str) -> String {
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[track_caller]
fn wait_until(it_is_so: impl Fn() -> bool) {
    let end = Instant::now() + LONG;
    while !it_is_so() {
        assert!(Instant::now() < end, "it never comes to that");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn status(answer: &str) -> u16 {
    answer.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or_else(|| panic!("no status: {answer}"))
}

fn header<'a>(answer: &'a str, name: &str) -> Option<&'a str> {
    answer.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
}

/// Reads lines of a stream of notes until one is this; what was before it.
fn until(lines: &mut impl BufRead, last: &str) -> Vec<String> {
    let mut seen = Vec::new();
    loop {
        let mut line = String::new();
        assert!(lines.read_line(&mut line).unwrap() > 0, "ended after {seen:?}");
        let line = line.trim_end().to_string();
        if line == last {
            return seen;
        }
        seen.push(line);
    }
}

fn browsers(token: Option<&str>) -> ServerAccess {
    let names = AllowedHosts { any_address: false, names: Vec::new() };
    let browsers = Some(BrowserIsolation { names, cookie: Some("test".into()) });
    ServerAccess { browsers, token: token.map(str::to_string), ..ServerAccess::default() }
}

#[test]
fn every_answer_to_a_browser_forbids_what_is_not_needed() {
    let server = Server::start(browsers(None));
    for path in ["/", "/open", "/other"] {
        let answer = server.get(path, "");
        assert!(header(&answer, "content-security-policy").is_some_and(|policy| {
            policy.contains("default-src 'none'") && policy.contains("frame-ancestors 'none'")
        }));
        assert_eq!(header(&answer, "x-content-type-options"), Some("nosniff"), "{answer}");
        assert_eq!(header(&answer, "referrer-policy"), Some("no-referrer"));
        assert_eq!(header(&answer, "x-frame-options"), Some("DENY"));
        assert_eq!(header(&answer, "cross-origin-resource-policy"), Some("same-origin"));
        assert_eq!(header(&answer, "cache-control"), Some("no-store"));
    }
}

#[test]
fn nobody_elses_name_and_nobody_elses_page_get_an_answer() {
    let server = Server::start(browsers(None));
    let with = |head: &str| status(&server.ask(&format!("GET / HTTP/1.1\r\n{head}\r\n")));
    let port = server.address.port();
    assert_eq!(with(&format!("Host: 127.0.0.1:{port}\r\n")), 200);
    assert_eq!(with("Host: localhost:1\r\n"), 200);
    assert!(server.ask("GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n").contains("--host-name"));
    assert_eq!(with(&format!("Host: evil.example:{port}\r\n")), 421);
    assert_eq!(with("Host: localhost\r\nHost: evil.example\r\n"), 400);
    assert_eq!(with(""), 421);
    assert_eq!(status(&server.ask("GET http://evil.example/ HTTP/1.1\r\nHost: localhost\r\n\r\n")), 421);
    for (authority, expected) in [
        ("localhost:", 200),
        ("localhost:65535", 200),
        ("localhost:65536", 400),
        ("localhost:http", 400),
        ("localhost:+80", 400),
        ("localhost:80:80", 400),
        ("[::1]:80", 200),
        ("[::1]:x", 400),
        ("[::1]80", 400),
        ("evil.example:x", 400),
        // Digits to Unicode, and a letter.
        ("localhost:\u{ff18}\u{ff10}", 400),
        ("localhost:\u{668}\u{660}", 400),
        ("localh\u{f6}st", 400),
    ] {
        assert_eq!(with(&format!("Host: {authority}\r\n")), expected, "{authority}");
        let whole = server.ask(&format!("GET http://{authority}/ HTTP/1.1\r\nHost: localhost\r\n\r\n"));
        assert_eq!(status(&whole), expected, "{authority}");
    }
    let of_page = |site: &str, mode: &str| {
        with(&format!("Host: localhost\r\nSec-Fetch-Site: {site}\r\nSec-Fetch-Mode: {mode}\r\n"))
    };
    assert_eq!(of_page("same-origin", "cors"), 200);
    assert_eq!(of_page("none", "navigate"), 200);
    assert_eq!(of_page("cross-site", "navigate"), 200, "a link");
    assert_eq!(of_page("cross-site", "no-cors"), 403);
    assert_eq!(of_page("same-site", "cors"), 403);
}

#[test]
fn a_browser_keeps_the_token_in_a_cookie_and_not_in_addresses() {
    let server = Server::start(browsers(Some("secret")));
    assert_eq!(status(&server.get("/open", "")), 200);
    for (path, headers, expected) in [
        ("/", "", 401),
        ("/?token=wrong", "", 401),
        ("/?token=", "", 401),
        ("/", "Cookie: test=wrong\r\n", 401),
        ("/", "Cookie: other=secret\r\n", 401),
        ("/", "Cookie: other=1; test=secret\r\n", 200),
        ("/", "Authorization: Bearer secret\r\n", 200),
        ("/other", "", 401),
        ("/other?token=wrong", "", 401),
        ("/other", "Cookie: test=secret\r\n", 404),
        ("/other", "Authorization: Bearer secret\r\n", 404),
        ("//evil.example/?token=secret", "", 404),
    ] {
        assert_eq!(status(&server.get(path, headers)), expected, "{path} {headers:?}");
    }
    let deletes = |path: &str| status(&server.ask(&format!("DELETE {path} HTTP/1.1\r\nHost: localhost\r\n\r\n")));
    assert_eq!(["/", "/other", "/open", "/?token=secret"].map(deletes), [401, 401, 405, 405]);
    let answer = server.get("/?a=b&token=secret", "");
    assert_eq!((status(&answer), header(&answer, "location")), (303, Some("/")));
    let cookie = header(&answer, "set-cookie").unwrap();
    assert_eq!(cookie, "test=secret; Path=/; HttpOnly; SameSite=Lax");
    let line = format!("Cookie: {}\r\n", cookie.split(';').next().unwrap());
    assert_eq!(status(&server.get("/", &line)), 200);
}

#[test]
fn what_is_no_proper_request_is_refused() {
    let server = Server::start(browsers(None));
    let long = "x".repeat(64 << 10);
    for (request, expected) in [
        ("GET /open/../../etc/passwd HTTP/1.1\r\nHost: localhost\r\n\r\n".to_string(), 404),
        ("GET /%2e%2e/etc/passwd HTTP/1.1\r\nHost: localhost\r\n\r\n".to_string(), 404),
        ("GET /open%00 HTTP/1.1\r\nHost: localhost\r\n\r\n".to_string(), 404),
        ("DELETE / HTTP/1.1\r\nHost: localhost\r\n\r\n".to_string(), 405),
        ("POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9999999999\r\n\r\nabc".to_string(), 405),
        ("nonsense\r\n\r\n".to_string(), 400),
        (format!("GET / HTTP/1.1\r\nHost: localhost\r\nA: {long}\r\n\r\n"), 431),
    ] {
        assert_eq!(status(&server.ask(&request)), expected, "{:?}", &request[..40.min(request.len())]);
    }
    let answer = server.ask(&format!("GET /{long} HTTP/1.1\r\nHost: localhost\r\n\r\n"));
    assert!(matches!(status(&answer), 414 | 431), "{answer}");
}

#[test]
fn notes_come_as_a_stream_of_events_and_go_on_where_they_were() {
    let mut server = Server::start(browsers(None));
    server.note("1", "{\"a\":1}");
    let mut stream = server.connect();
    stream.write_all(b"GET /notes HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let mut lines = BufReader::new(stream);
    let head = until(&mut lines, "");
    assert!(head.contains(&"content-type: text/event-stream".to_string()), "{head:?}");
    let first = until(&mut lines, "id: 1");
    assert!(first.contains(&"retry: 1000".to_string()), "{first:?}");
    until(&mut lines, "data: {\"a\":1}");
    server.note("2", "{}");
    until(&mut lines, "id: 2");
    until(&mut lines, "data: {}");
    drop(lines);
    // Who knows the last one is told only of the next.
    let mut stream = server.connect();
    stream.write_all(b"GET /notes HTTP/1.1\r\nHost: localhost\r\nLast-Event-ID: 2\r\n\r\n").unwrap();
    let mut lines = BufReader::new(stream);
    until(&mut lines, "retry: 1000");
    server.note("3", "{}");
    let between = until(&mut lines, "id: 3");
    assert!(!between.iter().any(|line| line.starts_with("id:")), "{between:?}");
    // Streams end with the server, which does not wait for them.
    server.stop();
    let mut rest = String::new();
    let _ = lines.read_to_string(&mut rest);
}

#[test]
fn who_never_reads_notes_is_dropped_and_misses_some() {
    let second = Duration::from_secs(1);
    let patience = Timeouts { answer: second, notes: second, ..Timeouts::default() };
    let server = Server::start(ServerAccess { patience, ..browsers(None) });
    let mut deaf = server.connect();
    deaf.write_all(b"GET /notes HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    // Megabytes, as fast as they can be made; none of them is kept.
    let data = "x".repeat(1 << 20);
    let mut sent = 0;
    while server.cut.load(Ordering::Relaxed) == 0 {
        sent += 1;
        server.note(&sent.to_string(), &data);
        std::thread::sleep(Duration::from_millis(5));
        assert!(sent < 60_000, "it is never dropped");
    }
    let mut got = Vec::new();
    let _ = deaf.read_to_end(&mut got);
    assert!(got.len() < sent * (1 << 20), "{} bytes of {sent} notes", got.len());
}

#[test]
fn clients_that_never_read_or_never_send_are_cut_and_others_are_served() {
    let two = Duration::from_secs(2);
    let patience = Timeouts { request: two, answer: two, ..Timeouts::default() };
    let server = Server::start(ServerAccess { patience, ..browsers(None) });
    let mut deaf = server.connect();
    deaf.write_all(b"GET /big HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let silent: Vec<TcpStream> = (0..40).map(|_| server.connect()).collect();
    let mut slow = server.connect();
    slow.write_all(b"GET /op").unwrap();
    assert_eq!(status(&server.get("/open", "")), 200);
    // All of them in their turn: the deaf one, the silent ones, the slow one.
    wait_until(|| server.cut.load(Ordering::Relaxed) == 42);
    drop((deaf, silent, slow));
}

/// Nobody is cut because time is up.
fn without_end() -> ServerAccess {
    let end = Duration::from_secs(86_400);
    ServerAccess { patience: Timeouts { request: end, answer: end, notes: end }, ..browsers(None) }
}

#[test]
fn neither_half_open_connections_nor_viewers_nor_deaf_ones_keep_others_out() {
    let server = Server::start(without_end());
    let viewers: Vec<TcpStream> = (0..40).map(|_| server.ask_and_not_read(server.connect(), "/notes")).collect();
    let deaf: Vec<TcpStream> =
        (0..20).map(|_| server.ask_and_not_read(server.connect_from([127, 0, 0, 2]), "/watch/big")).collect();
    let mut half_open = Vec::new();
    for at in 0..200 {
        let mut stream = server.connect();
        stream.write_all(&b"GET /open HTTP/1.1\r\nHost: local"[..at % 30]).unwrap();
        half_open.push(stream);
    }
    for path in ["/watch", "/open", "/"] {
        assert_eq!(status(&server.get(path, "")), 200, "{path}");
    }
    // Of the deaf ones as many as there are seats, of those that do not ask likewise, less the three above.
    wait_until(|| server.cut.load(Ordering::Relaxed) >= (20 - 8) + (200 - 128));
    drop((viewers, deaf, half_open));
}

/// Clients of one address that do not ask: half of them send half a request. Who is cut comes again.
fn half_open(address: SocketAddr, clients: usize, stop: &AtomicBool) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build().unwrap();
    let comes_again = |at: usize| async move {
        loop {
            let Ok(mut stream) = tokio::net::TcpStream::connect(address).await else { continue };
            if at.is_multiple_of(2) {
                let _ = stream.write_all(b"GET /watch HTTP/1.1\r\nHost: local").await;
            }
            let _ = stream.read_u8().await;
        }
    };
    let tasks = tokio::task::LocalSet::new();
    (0..clients).for_each(|at| drop(tasks.spawn_local(comes_again(at))));
    let stopped = async {
        while !stop.load(Ordering::Relaxed) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    runtime.block_on(tasks.run_until(stopped));
}

#[test]
fn no_scrape_is_missed_beside_a_thousand_half_open_clients_of_the_same_address() {
    let folder = tempfile::tempdir().unwrap();
    let (certificate, key, trusted) = certificate(folder.path());
    let tls = Some(credentials::tls(&certificate, &key).unwrap());
    for (access, trusted) in [(without_end(), None), (ServerAccess { tls, ..without_end() }, Some(trusted))] {
        let (server, stop) = (Server::start(access), AtomicBool::new(false));
        let is_tls = trusted.is_some();
        let ask = |mut stream: Box<dyn ReadWrite>| {
            let mut answer = String::new();
            let asked = stream.write_all(b"GET /watch HTTP/1.1\r\nHost: localhost\r\n\r\n");
            asked.and_then(|()| stream.read_to_string(&mut answer)).is_ok() && answer.ends_with("this is /watch\n")
        };
        let scrape = || match &trusted {
            Some(trusted) => ask(Box::new(server.connect_by_tls(Some(trusted.clone())))),
            None => ask(Box::new(server.connect())),
        };
        std::thread::scope(|threads| {
            threads.spawn(|| half_open(server.address, 1000, &stop));
            wait_until(|| server.cut.load(Ordering::Relaxed) > 1000);
            let began = Instant::now();
            let answered = (0..11).filter(|_| scrape()).count();
            println!("{answered} of 11 scrapes in {:?}, {:?} cut", began.elapsed(), server.cut);
            stop.store(true, Ordering::Relaxed);
            // A handshake that waits for a CPU for longer than a seat lasts is cut, once perhaps.
            assert!(answered >= if is_tls { 10 } else { 11 }, "{answered} of 11, by TLS: {is_tls}");
        });
    }
}

#[test]
fn a_peer_that_has_its_share_is_told_so_and_another_is_answered() {
    let server = Server::start(without_end());
    for (path, share) in [("/notes", 64), ("/big", 16)] {
        let held: Vec<TcpStream> = (0..share).map(|_| server.ask_and_not_read(server.connect(), path)).collect();
        let refused = server.get(path, "");
        assert_eq!((status(&refused), header(&refused, "retry-after")), (429, Some("1")), "{path}");
        assert!(refused.contains(&format!("from this address: {share} are in progress")), "{refused}");
        drop(server.ask_and_not_read(server.connect_from([127, 0, 0, 2]), path));
        assert_eq!(status(&server.get("/watch", "")), 200, "{path}");
        drop(held);
    }
    wait_until(|| status(&server.get("/open", "")) == 200);
}

#[test]
fn a_head_that_comes_byte_by_byte_is_cut_when_its_time_is_up() {
    let patience = Timeouts { request: Duration::from_secs(1), ..Timeouts::default() };
    let server = Server::start(ServerAccess { patience, ..browsers(None) });
    let mut slow = server.connect();
    let mut sent = 0;
    while server.cut.load(Ordering::Relaxed) == 0 {
        // It may be cut just now.
        let _ = slow.write_all(if sent == 0 { b"GET /open HTTP/1.1\r\nA: " } else { b"a" });
        sent += 1;
        std::thread::sleep(Duration::from_millis(10));
        assert!(sent < 6_000, "it is never cut");
    }
    let mut got = Vec::new();
    let _ = slow.read_to_end(&mut got);
    assert_eq!(got, b"");
}

/// A certificate for `localhost` and its key, in files, and the certificate itself.
fn certificate(folder: &std::path::Path) -> (PathBuf, PathBuf, CertificateDer<'static>) {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_string()]).unwrap();
    let (certificate, key) = (folder.join("cert.pem"), folder.join("key.pem"));
    std::fs::write(&certificate, made.cert.pem()).unwrap();
    std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    (certificate, key, made.cert.der().clone())
}

#[test]
fn with_a_certificate_only_tls_is_spoken() {
    let folder = tempfile::tempdir().unwrap();
    let (certificate, key, trusted) = certificate(folder.path());
    let access = ServerAccess { tls: Some(credentials::tls(&certificate, &key).unwrap()), ..ServerAccess::default() };
    let server = Server::start(access);
    let speak = |trusted: Option<CertificateDer<'static>>| {
        let mut stream = server.connect_by_tls(trusted);
        stream.write_all(b"GET /open HTTP/1.1\r\nHost: localhost\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok::<String, std::io::Error>(answer)
    };
    let answer = speak(Some(trusted.clone())).unwrap();
    assert_eq!(status(&answer), 200);
    assert!(answer.ends_with("this is /open\n"));
    assert!(speak(None).is_err(), "whoever does not know the certificate does not go on");
    let mut plain = server.connect();
    plain.write_all(b"GET /open HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    let _ = plain.read_to_end(&mut answer);
    assert!(!String::from_utf8_lossy(&answer).contains("this is"), "nothing is said without TLS");
    // The server may hear of it only later that it is not trusted.
    wait_until(|| server.no_tls.load(Ordering::Relaxed) == 2);
}

#[test]
fn the_client_speaks_tls_with_whom_the_system_trusts_and_with_nobody_else() {
    const ASKED: &str = "EXITSCOPE_TEST_ASKED";
    const NAME: &str = "the_client_speaks_tls_with_whom_the_system_trusts_and_with_nobody_else";
    match std::env::var(ASKED) {
        // The process that asks: whom it trusts is in its environment.
        Ok(address) => print_answer(&address),
        Err(_) => ask_by_processes(NAME, ASKED),
    }
}

fn print_answer(address: &str) {
    match ServerAddress::parse(address).unwrap().get("/open", &[("a", "1")], LONG, 1000) {
        Ok((status, body)) => println!("{status}: {}", String::from_utf8(body).unwrap()),
        Err(error) => println!("no answer: {error}"),
    }
}

/// Has processes ask which run the test of this name, with the server's address in this variable.
fn ask_by_processes(test: &str, variable: &str) {
    let (folder, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (certificate, key, _) = self::certificate(folder.path());
    let (another, _, _) = self::certificate(other.path());
    let access = ServerAccess { tls: Some(credentials::tls(&certificate, &key).unwrap()), ..ServerAccess::default() };
    let server = Server::start(access);
    let ask = |trusted: &PathBuf, scheme: &str| {
        let mut asks = std::process::Command::new(std::env::current_exe().unwrap());
        asks.args([test, "--exact", "--nocapture"]).env("SSL_CERT_FILE", trusted).env_remove("SSL_CERT_DIR");
        let address = format!("{scheme}://localhost:{}", server.address.port());
        String::from_utf8(asks.env(variable, address).output().unwrap().stdout).unwrap()
    };
    assert!(ask(&certificate, "https").contains("200 OK: this is /open\n"));
    let untrusted = ask(&another, "https");
    assert!(untrusted.contains("no answer: invalid peer certificate"), "{untrusted}");
    assert!(ask(&certificate, "http").contains("no answer: "));
}

#[test]
fn a_certificate_and_anothers_key_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (certificate, _, _) = self::certificate(folder.path());
    let other = tempfile::tempdir().unwrap();
    let (_, key, _) = self::certificate(other.path());
    assert!(credentials::tls(&certificate, &key).is_err());
    assert!(credentials::tls(&certificate, &certificate).is_err_and(|error| error.to_string().contains("private key")));
    assert!(credentials::tls(&key, &key).is_err_and(|error| error.to_string().contains("certificate")));
}
