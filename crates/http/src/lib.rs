//! A small HTTP server for few clients: one thread, one request on each connection, everything with a limit. And a client that
//! gets one answer ([`ServerAddress::get`]).
//!
//! ```text
//! accept ─► TLS ─► request ─► may it be asked? ─► RequestHandler::answer ─► Reply: whole, or notes as they come
//!                             path, method, host, token
//! ```
//!
//! Every connection is accepted, and has a seat of its kind, of which there is a number in all and one for each peer
//! (`seats.rs`): a client that never sends, never reads or sends byte by byte holds one of its own until its time is up, and
//! nothing else. What watches over the server has seats that no other request takes. What is sent while it happens
//! ([`Reply::event_stream`]) is only ever the last note: a client that is slow misses some.
//!
//! Does not know: what is served.

mod authorization;
mod client;
pub mod credentials;
mod reply;
mod seats;
mod server;

pub use authorization::{AllowedHosts, BrowserIsolation};
pub use client::{GetError, ServerAddress};
pub use hyper::body::Bytes;
pub use hyper::http::{HeaderName, HeaderValue, StatusCode};
pub use reply::{Reply, SseChannel, SseEvent, visible};
pub use server::serve;
pub use tokio_rustls::TlsAcceptor;

use std::rc::Rc;
use std::time::Duration;

/// Access policy: TLS, token, timeouts.
#[derive(Default)]
pub struct ServerAccess {
    /// The certificate, if only TLS is spoken.
    pub tls: Option<TlsAcceptor>,
    /// What whoever asks for a [`PathAccess::Guarded`] must know.
    pub token: Option<String>,
    /// How long clients are waited for.
    pub patience: Timeouts,
    /// If browsers are to be served: what is held against pages of others that run in them.
    pub browsers: Option<BrowserIsolation>,
}

/// How long clients are waited for.
#[derive(Clone, Copy, Debug)]
pub struct Timeouts {
    /// From the connection to the whole request.
    pub request: Duration,
    /// From there until the answer is read.
    pub answer: Duration,
    /// For how long notes are sent; browsers connect anew then.
    pub notes: Duration,
}

impl Default for Timeouts {
    fn default() -> Timeouts {
        let seconds = Duration::from_secs;
        Timeouts { request: seconds(5), answer: seconds(10), notes: seconds(300) }
    }
}

/// What is at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathAccess {
    /// There is nothing at this path.
    None,
    /// Something for everybody.
    Open,
    /// Something for who knows the token, if there is one.
    Guarded,
}

/// A request for something that is there, of someone who may ask.
#[derive(Clone, Debug)]
pub struct HttpRequest {
    /// The path.
    pub path: String,
    /// What the client takes: its `Accept` headers, joined by commas.
    pub accept: String,
    /// Of who has read notes before: the id of the last one.
    pub last_note: Option<String>,
    /// What was posted, by POST.
    pub posted: Option<Bytes>,
}

/// What the server serves.
pub trait RequestHandler: 'static {
    /// What is at this path.
    fn path_access(&self, path: &str) -> PathAccess;

    /// Bytes that may be posted to this path; 0 where it only is read.
    fn most_posted(&self, _path: &str) -> usize {
        0
    }

    /// Whether what watches over the server asks for this path, which then has seats that nothing else takes.
    fn is_watching(&self, _path: &str) -> bool {
        false
    }

    /// Answers.
    fn answer(self: Rc<Self>, asked: HttpRequest) -> impl Future<Output = Reply> + 'static;

    /// Called several times a second.
    fn poll_changes(self: &Rc<Self>);

    /// Something that the server did.
    fn count(&self, what: ServerEvent);
}

/// What the server counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerEvent {
    /// A request was answered with this status.
    Answered(u16),
    /// A connection took too long, or lost its seat to a newer one.
    TimedOut,
    /// A client did not agree on TLS.
    TlsFailed,
}
