//! A small HTTP server: one request on each connection, all on one thread, everything with a limit.
//!
//! ```text
//! accept (at most CONNECTIONS) ─► TLS ─► request ─► token ─► Site ─► response      all of it in time, or it is cut
//! ```
//!
//! A client that never sends, never reads or sends byte by byte holds one of the connections for as long as that, and
//! nothing else.

use crate::{Count, Site};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{ALLOW, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue, WWW_AUTHENTICATE};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use std::cell::RefCell;
use std::convert::Infallible;
use std::io;
use std::net::TcpListener;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use subtle::ConstantTimeEq;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::task::LocalSet;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, timeout};
use tokio_rustls::TlsAcceptor;

/// Connections at a time; further ones wait until one ends.
const CONNECTIONS: usize = 32;

/// How often the site is looked after, and whether to stop is asked.
const TURN: Duration = Duration::from_millis(250);

/// How long requests in hand are waited for at the end.
const FAREWELL: Duration = Duration::from_secs(2);

/// Bytes of a request's head.
const HEAD: usize = 16 << 10;

/// What OpenMetrics calls itself.
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const TEXT: &str = "text/plain; charset=utf-8";
const HTML: &str = "text/html; charset=utf-8";

/// Who may ask, how, and how long it may take.
pub struct Access {
    /// The certificate, if only TLS is spoken.
    pub tls: Option<TlsAcceptor>,
    /// What whoever asks for more than `/healthz` must know.
    pub token: Option<String>,
    /// How long a connection may take, from its beginning to its end.
    pub patience: Duration,
}

impl Default for Access {
    fn default() -> Access {
        Access { tls: None, token: None, patience: Duration::from_secs(10) }
    }
}

type Shared<S> = Rc<RefCell<S>>;

/// Answers until `stop` says so. Returns when nothing is under way any more.
pub fn serve<S: Site + 'static>(
    listener: TcpListener,
    access: Access,
    site: S,
    stop: impl Fn() -> bool,
) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
    let tasks = LocalSet::new();
    tasks.block_on(&runtime, async {
        let listener = tokio::net::TcpListener::from_std(listener)?;
        let (site, access) = (Rc::new(RefCell::new(site)), Rc::new(access));
        let places = Arc::new(Semaphore::new(CONNECTIONS));
        let mut turns = interval(TURN);
        turns.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let next = async {
                let place = places.clone().acquire_owned().await;
                (listener.accept().await, place)
            };
            tokio::select! {
                _ = turns.tick() => {
                    if stop() {
                        break;
                    }
                    site.borrow_mut().turn();
                }
                (accepted, place) = next => match accepted {
                    Ok((stream, _)) => {
                        let (site, access) = (site.clone(), access.clone());
                        tokio::task::spawn_local(async move {
                            if timeout(access.patience, converse(stream, &access, &site)).await.is_err() {
                                site.borrow_mut().count(Count::Cut);
                            }
                            drop(place);
                        });
                    }
                    // Mostly that no descriptor is left, which passes.
                    Err(_) => sleep(TURN).await,
                },
            }
        }
        drop(listener);
        let _ = timeout(FAREWELL, places.acquire_many(CONNECTIONS as u32)).await;
        Ok(())
    })
}

/// Hears one request and answers it.
async fn converse<S: Site + 'static>(stream: TcpStream, access: &Rc<Access>, site: &Shared<S>) {
    match &access.tls {
        None => speak(stream, access, site).await,
        Some(tls) => match tls.accept(stream).await {
            Ok(stream) => speak(stream, access, site).await,
            Err(_) => site.borrow_mut().count(Count::NoTls),
        },
    }
}

async fn speak<S: Site + 'static>(stream: impl AsyncRead + AsyncWrite + Unpin, access: &Rc<Access>, site: &Shared<S>) {
    let service = service_fn(|request: Request<Incoming>| {
        let response = answer(&request, access, site);
        site.borrow_mut().count(Count::Answered(response.status().as_u16()));
        async { Ok::<_, Infallible>(response) }
    });
    let mut http = http1::Builder::new();
    http.keep_alive(false).header_read_timeout(None).max_buf_size(HEAD);
    // What a client does wrong is answered by hyper, or is its own affair.
    let _ = http.serve_connection(TokioIo::new(stream), service).await;
}

fn answer<S: Site>(request: &Request<Incoming>, access: &Access, site: &Shared<S>) -> Response<Full<Bytes>> {
    let path = request.uri().path();
    if !matches!(path, "/" | "/metrics" | "/healthz") {
        return plain(StatusCode::NOT_FOUND, "There is /metrics, /healthz and /.\n");
    }
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        let mut response = plain(StatusCode::METHOD_NOT_ALLOWED, "GET or HEAD.\n");
        response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        return response;
    }
    if path == "/healthz" {
        return match site.borrow().health() {
            Ok(()) => plain(StatusCode::OK, "ok\n"),
            Err(trouble) => plain(StatusCode::SERVICE_UNAVAILABLE, format!("{trouble}\n")),
        };
    }
    if let Some(token) = &access.token
        && !knows(request.headers(), token)
    {
        let mut response = plain(StatusCode::UNAUTHORIZED, "A bearer token is needed.\n");
        response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        return response;
    }
    if path == "/" {
        return with(StatusCode::OK, HTML, site.borrow().index());
    }
    let began = Instant::now();
    let scraped = site.borrow_mut().scrape();
    site.borrow_mut().count(Count::Scraped(began.elapsed()));
    match scraped {
        Ok(text) => with(StatusCode::OK, OPEN_METRICS, text),
        Err(trouble) => plain(StatusCode::INTERNAL_SERVER_ERROR, format!("{trouble}\n")),
    }
}

/// Whether the request has the token; how long that takes does not depend on what is wrong with it.
fn knows(headers: &HeaderMap, token: &str) -> bool {
    let given = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
    let given =
        given.and_then(|value| value.split_once(' ')).filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
    given.is_some_and(|(_, given)| given.trim().as_bytes().ct_eq(token.as_bytes()).into())
}

fn plain(status: StatusCode, text: impl Into<String>) -> Response<Full<Bytes>> {
    with(status, TEXT, text.into())
}

fn with(status: StatusCode, kind: &'static str, text: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(text)));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert("cache-control", HeaderValue::from_static("no-store"));
    headers.insert("x-content-type-options", HeaderValue::from_static("nosniff"));
    response
}
