//! Accepts connections, and ends them in time.

use crate::admission::{admit, protect};
use crate::answer::{Content, Sent};
use crate::{Access, Asked, Count, Site};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use std::cell::Cell;
use std::convert::Infallible;
use std::io;
use std::net::TcpListener;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::{Semaphore, watch};
use tokio::task::LocalSet;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, sleep_until, timeout};

/// Connections at a time; further ones wait until one ends.
const PLACES: usize = 32;

/// How often the site is looked after, and whether to stop is asked.
const TURN: Duration = Duration::from_millis(250);

/// How long requests in hand are waited for at the end.
const FAREWELL: Duration = Duration::from_secs(2);

/// Bytes of a request's head.
const HEAD: usize = 16 << 10;

/// Answers until `stop` says so. Returns when nothing is under way any more.
pub fn serve<S: Site>(listener: TcpListener, access: Access, site: S, stop: impl Fn() -> bool) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
    let tasks = LocalSet::new();
    let served = tasks.block_on(&runtime, accept(listener, access, Rc::new(site), stop));
    drop(tasks);
    // Nobody waits for the answer that another thread still works on.
    runtime.shutdown_background();
    served
}

async fn accept<S: Site>(
    listener: TcpListener,
    access: Access,
    site: Rc<S>,
    stop: impl Fn() -> bool,
) -> io::Result<()> {
    let listener = tokio::net::TcpListener::from_std(listener)?;
    let places = Arc::new(Semaphore::new(PLACES));
    let (stopping, stopped) = watch::channel(());
    let client = Rc::new((access, site.clone(), stopped));
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
                site.turn();
            }
            (accepted, place) = next => match accepted {
                Ok((stream, _)) => {
                    let client = client.clone();
                    tokio::task::spawn_local(async move {
                        let (access, site, stopped) = &*client;
                        let until = Cell::new(Instant::now() + access.patience.request);
                        tokio::select! {
                            () = converse(stream, access, site, stopped, &until) => {}
                            () = passed(&until) => site.count(Count::Cut),
                        }
                        drop(place);
                    });
                }
                // Mostly that no descriptor is left, which passes.
                Err(_) => sleep(TURN).await,
            },
        }
    }
    drop((listener, stopping));
    let _ = timeout(FAREWELL, places.acquire_many(PLACES as u32)).await;
    Ok(())
}

/// Waits until that moment, which may be put off meanwhile.
async fn passed(until: &Cell<Instant>) {
    while Instant::now() < until.get() {
        sleep_until(until.get()).await;
    }
}

/// Hears one request and answers it.
async fn converse<S: Site>(
    stream: TcpStream,
    access: &Access,
    site: &Rc<S>,
    stopped: &watch::Receiver<()>,
    until: &Cell<Instant>,
) {
    match &access.tls {
        None => speak(stream, access, site, stopped, until).await,
        Some(tls) => match tls.accept(stream).await {
            Ok(stream) => speak(stream, access, site, stopped, until).await,
            Err(_) => site.count(Count::NoTls),
        },
    }
}

async fn speak<S: Site>(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    access: &Access,
    site: &Rc<S>,
    stopped: &watch::Receiver<()>,
    until: &Cell<Instant>,
) {
    let service = service_fn(|request: Request<Incoming>| async move {
        until.set(Instant::now() + access.patience.answer);
        Ok::<_, Infallible>(answer(request, access, site, stopped, until).await)
    });
    let mut http = http1::Builder::new();
    http.keep_alive(false).header_read_timeout(None).max_buf_size(HEAD);
    // What a client does wrong is answered by hyper, or is its own affair.
    let _ = http.serve_connection(TokioIo::new(stream), service).await;
}

async fn answer<S: Site>(
    request: Request<Incoming>,
    access: &Access,
    site: &Rc<S>,
    stopped: &watch::Receiver<()>,
    until: &Cell<Instant>,
) -> Response<Sent> {
    let (head, _) = request.into_parts();
    let path = head.uri.path();
    let answer = match admit(&head, access, site.place(path)) {
        Ok(()) => {
            let last_note = head.headers.get("last-event-id").and_then(|id| id.to_str().ok());
            let asked = Asked { path: path.to_string(), last_note: last_note.map(str::to_string) };
            site.clone().answer(asked).await
        }
        Err(answer) => answer,
    };
    site.count(Count::Answered(answer.status.as_u16()));
    if let Content::Notes(..) = answer.content {
        until.set(Instant::now() + access.patience.notes + access.patience.answer);
    }
    let mut response = answer.response(stopped, access.patience.notes);
    if access.browsers.is_some() {
        protect(response.headers_mut());
    }
    response
}
