//! A box to paste a table of another tool into: a page without scripts, and what is said of the text as one.
//!
//! ```text
//! GET /paste ─► the box      POST /paste ─► Recordings::pasted, on another thread ─► the answer's page
//! ```

use crate::served_files::Recordings;
use exitscope_http::{Bytes, HeaderName, HeaderValue, Reply, StatusCode};
use std::pin::Pin;
use std::sync::Arc;
use tokio::task::spawn_blocking;

/// Bytes of a text at most: what people paste is some kilobytes.
pub(crate) const MOST: usize = 256 << 10;

/// The name of the box. A form of text alone puts it before what was pasted.
const FIELD: &str = "table=";

/// Where forms go, and that nothing runs or is loaded.
const POLICY: &str =
    "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

const FORM: &str = "<!doctype html>
<html lang=\"en\">
<head>
<meta charset=\"utf-8\">
<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">
<title>Paste a table</title>
<style>:root{color-scheme:light dark;font:16px/1.5 system-ui,sans-serif}body{margin:2rem auto;max-width:70rem;padding:0 1rem}\
textarea{width:100%;height:24rem;font-family:monospace}h1{font-size:1.4rem}</style>
</head>
<body>
<main>
<h1>Paste a table</h1>
<form method=\"post\" action=\"/paste\" enctype=\"text/plain\">
<p><label for=\"table\">A table of exits of perf kvm stat, kvm_stat, perf stat, KVM's statistics, bpftrace, kvmexit or xenalyze, as it stands \
in a mail or on a terminal. It is read and not kept.</label></p>
<p><textarea id=\"table\" name=\"table\" required></textarea></p>
<p><button>Read it</button> <a href=\"/\">Recordings</a></p>
</form>
</main>
</body>
</html>
";

/// Where forms of pages may go, as their policy says, and those of the list of recordings, which has the box.
pub(crate) const NO_FORMS: &str = "form-action 'none'";
pub(crate) const FORMS_OF_LIST: &str = "form-action 'self'";

/// Without this header of a page that has the box, a browser does not say that the form is this server's own.
pub(crate) const FROM_OWN_PAGE: (HeaderName, HeaderValue) =
    (HeaderName::from_static("referrer-policy"), HeaderValue::from_static("same-origin"));

fn page(status: StatusCode, text: impl Into<Bytes>) -> Reply {
    let (policy, rules) = (HeaderName::from_static("content-security-policy"), HeaderValue::from_static(POLICY));
    let (referrer, own) = FROM_OWN_PAGE;
    Reply::of(status, crate::HTML, text).with(policy, rules).with(referrer, own)
}

/// The box; or what is said of what was pasted.
pub(crate) fn answer(recordings: Arc<dyn Recordings>, posted: Option<Bytes>) -> Pin<Box<dyn Future<Output = Reply>>> {
    Box::pin(async move {
        let Some(posted) = posted else { return page(StatusCode::OK, FORM) };
        let text = posted.strip_prefix(FIELD.as_bytes()).unwrap_or(&posted).to_vec();
        match spawn_blocking(move || recordings.pasted(&text)).await {
            Ok(Ok(answer)) => page(StatusCode::OK, answer),
            Ok(Err(why)) => Reply::text(StatusCode::UNPROCESSABLE_ENTITY, format!("{why}\n")),
            Err(_) => Reply::text(StatusCode::INTERNAL_SERVER_ERROR, "The text could not be read.\n"),
        }
    })
}
