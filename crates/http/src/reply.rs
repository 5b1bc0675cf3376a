//! Answers: a whole body, or notes that are sent as they come (server-sent events).

use hyper::body::{Body, Bytes, Frame, SizeHint};
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue};
use hyper::{Response, StatusCode};
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio::time::{sleep, timeout};

const TEXT: &str = "text/plain; charset=utf-8";

/// After how long without a note something is sent all the same, so that both sides see whether the other is there.
const HEARTBEAT: Duration = Duration::from_secs(10);

/// What a browser waits before it connects anew.
const RETRY: Duration = Duration::from_secs(1);

/// Something that clients are told when it happens. Each replaces the one before.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SseEvent {
    /// Its name, of letters, digits and signs: no two that differ have the same one.
    pub id: String,
    /// What it says, in one line.
    pub data: String,
}

/// Where the last note is.
pub type SseChannel = watch::Receiver<SseEvent>;

/// An answer.
#[derive(Debug)]
pub struct Reply {
    pub(crate) status: StatusCode,
    headers: Vec<(HeaderName, HeaderValue)>,
    pub(crate) content: Content,
}

#[derive(Debug)]
pub(crate) enum Content {
    Whole(Bytes),
    /// Notes, and the id of the last one that the client has.
    Notes(SseChannel, Option<String>),
}

impl Reply {
    /// This body, of this kind (`Content-Type`).
    pub fn of(status: StatusCode, kind: &'static str, body: impl Into<Bytes>) -> Reply {
        let headers = vec![(CONTENT_TYPE, HeaderValue::from_static(kind))];
        Reply { status, headers, content: Content::Whole(body.into()) }
    }

    /// Lines for people, some of whom read them in a terminal: they are made [`visible`].
    pub fn text(status: StatusCode, text: impl AsRef<str>) -> Reply {
        Reply::of(status, TEXT, visible(text.as_ref()))
    }

    /// Look there instead: a path of this server's.
    pub fn redirect_to(path: &str) -> Reply {
        let place = HeaderValue::from_str(path).unwrap_or(HeaderValue::from_static("/"));
        Reply::text(StatusCode::SEE_OTHER, "").with(hyper::header::LOCATION, place)
    }

    /// The last note, if it is not `seen`, and further ones as they come.
    pub fn event_stream(notes: SseChannel, seen: Option<String>) -> Reply {
        let headers = vec![(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"))];
        Reply { status: StatusCode::OK, headers, content: Content::Notes(notes, seen) }
    }

    /// The same with one more header.
    pub fn with(mut self, name: HeaderName, value: HeaderValue) -> Reply {
        self.headers.push((name, value));
        self
    }

    /// What is sent; notes for so long, unless `stop` ends before.
    pub(crate) fn response(self, stop: &watch::Receiver<()>, long: Duration) -> Response<Sent> {
        let body = match self.content {
            Content::Whole(bytes) => Sent::Whole(Some(bytes)),
            Content::Notes(notes, seen) => {
                let (to, from) = mpsc::channel(1);
                let told = tell(notes, seen, to, stop.clone());
                tokio::task::spawn_local(timeout(long, told));
                Sent::AsTheyCome(from)
            }
        };
        let mut response = Response::new(body);
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        headers.insert("x-content-type-options", HeaderValue::from_static("nosniff"));
        headers.extend(self.headers);
        response
    }
}

/// The same text with those characters spelt out (`\u{1b}`) that show nothing and make a terminal do something else than
/// show: control characters but for tabs and ends of lines, and those that turn the direction in which text is shown.
pub fn visible(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for letter in text.chars() {
        let is_direction = matches!(
            letter,
            '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
        );
        match (letter.is_control() && !matches!(letter, '\t' | '\n')) || is_direction {
            true => shown.extend(letter.escape_unicode()),
            false => shown.push(letter),
        }
    }
    shown
}

/// Sends notes until nobody reads, nobody writes, or `stop` ends.
async fn tell(mut notes: SseChannel, mut seen: Option<String>, to: mpsc::Sender<Bytes>, mut stop: watch::Receiver<()>) {
    if to.send(Bytes::from(format!("retry: {}\n\n", RETRY.as_millis()))).await.is_err() {
        return;
    }
    loop {
        let note = notes.borrow_and_update().clone();
        if !note.id.is_empty() && seen.as_ref() != Some(&note.id) {
            if to.send(Bytes::from(format!("id: {}\ndata: {}\n\n", note.id, note.data))).await.is_err() {
                return;
            }
            seen = Some(note.id);
        }
        tokio::select! {
            changed = notes.changed() => if changed.is_err() { return },
            () = sleep(HEARTBEAT) => if to.send(Bytes::from_static(b":\n\n")).await.is_err() { return },
            () = to.closed() => return,
            _ = stop.changed() => return,
        }
    }
}

/// A body on its way.
pub(crate) enum Sent {
    Whole(Option<Bytes>),
    AsTheyCome(mpsc::Receiver<Bytes>),
}

impl Body for Sent {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let next = match &mut *self {
            Sent::Whole(bytes) => Poll::Ready(bytes.take().filter(|bytes| !bytes.is_empty())),
            Sent::AsTheyCome(from) => from.poll_recv(cx),
        };
        next.map(|bytes| bytes.map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Sent::Whole(bytes) => bytes.as_ref().is_none_or(|bytes| bytes.is_empty()),
            Sent::AsTheyCome(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Sent::Whole(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64)),
            Sent::AsTheyCome(_) => SizeHint::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_would_not_show_is_spelt_out() {
        for (text, shown) in [
            ("plain, ö, \"quoted\", back\\slash", "plain, ö, \"quoted\", back\\slash"),
            ("two\n\tlines", "two\n\tlines"),
            ("\x1b]0;title\x07\r\u{9b}31m", "\\u{1b}]0;title\\u{7}\\u{d}\\u{9b}31m"),
            ("a\u{202e}b\u{2066}c\u{200f}", "a\\u{202e}b\\u{2066}c\\u{200f}"),
            ("<script>=cmd()", "<script>=cmd()"),
        ] {
            assert_eq!(visible(text), shown);
        }
        let Content::Whole(body) = Reply::text(StatusCode::OK, "\x1b[31m\n").content else { unreachable!() };
        assert_eq!(body, "\\u{1b}[31m\n");
    }
}
