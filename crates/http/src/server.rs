//! Accepts connections, and ends them in time.

use crate::authorization::{add_security_headers, authorize};
use crate::reply::{Content, Reply, Sent};
use crate::seats::{Guest, Refused, Room, Rooms};
use crate::{HttpRequest, RequestHandler, ServerAccess, ServerEvent};
use hyper::body::{Body, Bytes, Incoming};
use hyper::header::{ACCEPT, HeaderValue, RETRY_AFTER};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use std::cell::Cell;
use std::convert::Infallible;
use std::future::poll_fn;
use std::io;
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::rc::Rc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::watch;
use tokio::task::{LocalSet, yield_now};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, sleep_until, timeout};

/// How often the site is looked after, and whether to stop is asked.
const TURN: Duration = Duration::from_millis(250);

/// How long requests in hand are waited for at the end.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(2);

/// How often it is looked whether any is still in hand then.
const LOOK: Duration = Duration::from_millis(10);

/// Connections that wait to be accepted; the kernel may allow fewer.
const BACKLOG: u32 = 4096;

/// Bytes of a request's head.
const HEAD: usize = 16 << 10;

/// Answers until `stop` says so. Returns when nothing is under way any more.
pub fn serve<S: RequestHandler>(
    listener: TcpListener,
    access: ServerAccess,
    site: S,
    stop: impl Fn() -> bool,
) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
    let tasks = LocalSet::new();
    let served = tasks.block_on(&runtime, accept(listener, access, Rc::new(site), stop));
    drop(tasks);
    // Nobody waits for the answer that another thread still works on.
    runtime.shutdown_background();
    served
}

/// What all connections share.
struct Server<S> {
    access: ServerAccess,
    site: Rc<S>,
    /// Ends with the server.
    stopped: watch::Receiver<()>,
}

/// A client, until its connection ends.
struct Client<'a, S> {
    server: &'a Server<S>,
    guest: Guest,
    /// When its time is up.
    until: Cell<Instant>,
}

async fn accept<S: RequestHandler>(
    listener: TcpListener,
    access: ServerAccess,
    site: Rc<S>,
    stop: impl Fn() -> bool,
) -> io::Result<()> {
    // The standard library lets few wait, and whoever finds no place tries again only after a second. It has no other type for a
    // socket; this one listens already, and is only told how many may wait.
    let socket = std::net::TcpStream::from(OwnedFd::from(listener));
    let listener = TcpSocket::from_std_stream(socket).listen(BACKLOG)?;
    let rooms = Rc::new(Rooms::default());
    let (stopping, stopped) = watch::channel(());
    let server = Rc::new(Server { access, site: site.clone(), stopped });
    let mut turns = interval(TURN);
    turns.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = turns.tick() => {
                if stop() {
                    break;
                }
                site.poll_changes();
            }
            accepted = async { rooms.ready().await; listener.accept().await } => match accepted {
                Ok((stream, peer)) => {
                    let (server, guest) = (server.clone(), rooms.enter(peer.ip()));
                    tokio::task::spawn_local(async move {
                        let until = Cell::new(Instant::now() + server.access.patience.request);
                        let client = Client { server: &server, guest, until };
                        tokio::select! {
                            () = client.handle_connection(stream) => {}
                            () = passed(&client.until) => server.site.count(ServerEvent::TimedOut),
                            () = client.guest.lost() => server.site.count(ServerEvent::TimedOut),
                        }
                    });
                    // It is heard before the next one comes, who may have its seat: of what is there already no request is lost,
                    // however many connections come at a time.
                    yield_now().await;
                }
                // Mostly that no descriptor is left, which passes.
                Err(_) => sleep(TURN).await,
            },
        }
    }
    drop((listener, stopping));
    let answered = async {
        while rooms.owe_answers() {
            sleep(LOOK).await;
        }
    };
    let _ = timeout(SHUTDOWN_GRACE, answered).await;
    Ok(())
}

/// Waits until that moment, which may be put off meanwhile.
async fn passed(until: &Cell<Instant>) {
    while Instant::now() < until.get() {
        sleep_until(until.get()).await;
    }
}

impl<S: RequestHandler> Client<'_, S> {
    /// Hears one request and answers it.
    async fn handle_connection(&self, stream: TcpStream) {
        match &self.server.access.tls {
            None => self.serve_http(stream).await,
            Some(tls) => match tls.accept(stream).await {
                Ok(stream) => self.serve_http(stream).await,
                Err(_) => self.server.site.count(ServerEvent::TlsFailed),
            },
        }
    }

    async fn serve_http(&self, stream: impl AsyncRead + AsyncWrite + Unpin) {
        let service = service_fn(|request: Request<Incoming>| async move {
            self.until.set(Instant::now() + self.server.access.patience.answer);
            Ok::<_, Infallible>(self.respond(request).await)
        });
        let mut http = http1::Builder::new();
        // The time for a head is the client's own, TLS included.
        http.keep_alive(false).header_read_timeout(None).max_buf_size(HEAD);
        // What a client does wrong is answered by hyper, or is its own affair.
        let _ = http.serve_connection(TokioIo::new(stream), service).await;
    }

    async fn respond(&self, request: Request<Incoming>) -> Response<Sent> {
        let Server { access, site, stopped } = self.server;
        let answer = self.answer(request).await.unwrap_or_else(refuse);
        site.count(ServerEvent::Answered(answer.status.as_u16()));
        if let Content::Notes(..) = answer.content {
            self.until.set(Instant::now() + access.patience.notes + access.patience.answer);
        }
        let mut response = answer.response(stopped, access.patience.notes);
        if access.browsers.is_some() {
            add_security_headers(response.headers_mut());
        }
        response
    }

    /// The answer, which this client has a seat for.
    async fn answer(&self, request: Request<Incoming>) -> Result<Reply, Refused> {
        let Server { access, site, .. } = self.server;
        let (head, body) = request.into_parts();
        let path = head.uri.path();
        let most_posted = site.most_posted(path);
        if let Err(answer) = authorize(&head, access, site.path_access(path), most_posted > 0) {
            // A line, which takes no room: where there is no seat it keeps the one that it may lose.
            let _ = self.guest.go_to(Room::Sending);
            return Ok(answer);
        }
        let is_watching = site.is_watching(path);
        self.guest.go_to(if is_watching { Room::Watching } else { Room::Waiting })?;
        let text = |value: &HeaderValue| value.to_str().ok().map(str::to_string);
        let accept: Vec<String> = head.headers.get_all(ACCEPT).iter().filter_map(text).collect();
        let last_note = head.headers.get("last-event-id").and_then(text);
        let posted = match head.method == Method::POST {
            true => match posted(body, most_posted).await {
                Ok(posted) => Some(posted),
                Err(answer) => return Ok(answer),
            },
            false => None,
        };
        let asked = HttpRequest { path: path.to_string(), accept: accept.join(","), last_note, posted };
        let answer = site.clone().answer(asked).await;
        if !is_watching && matches!(answer.content, Content::Whole(_)) {
            self.guest.go_to(Room::Sending)?;
        }
        Ok(answer)
    }
}

/// What a request brings, of so many bytes at most. A longer one is not read to its end.
async fn posted(mut body: Incoming, most: usize) -> Result<Bytes, Reply> {
    let too_long = || Reply::text(StatusCode::PAYLOAD_TOO_LARGE, format!("More than {most} bytes.\n"));
    if body.size_hint().lower() > most as u64 {
        return Err(too_long());
    }
    let mut read = Vec::new();
    while let Some(frame) = poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await {
        let frame = frame.map_err(|_| Reply::text(StatusCode::BAD_REQUEST, "The request ends early.\n"))?;
        let Ok(bytes) = frame.into_data() else { continue };
        if read.len() + bytes.len() > most {
            return Err(too_long());
        }
        read.extend_from_slice(&bytes);
    }
    Ok(Bytes::from(read))
}

/// What is said to who gets no seat.
fn refuse(refused: Refused) -> Reply {
    let answer = match refused {
        Refused::Peer(most) => {
            let text = format!("Too many requests from this address: {most} are in progress, which is the limit.\n");
            Reply::text(StatusCode::TOO_MANY_REQUESTS, text)
        }
        Refused::All(most) => {
            let text = format!("Too many requests: {most} are in progress, which is the limit.\n");
            Reply::text(StatusCode::SERVICE_UNAVAILABLE, text)
        }
    };
    answer.with(RETRY_AFTER, HeaderValue::from_static("1"))
}
