//! Who may ask: by path, method, host and token.
//!
//! ```text
//! host, of a name if browsers reach it ─► Open: ───────────────────────────┬─► path ─► method ─► yes; POST where there is a limit,
//!                                                                          │                   and not from another's page
//!                                         all else: token by Authorization; ┘
//!                                                   where there is a cookie, also by it, or by ?token=, which becomes it,
//!                                                   so that it is in no address that is passed on
//! ```

use crate::{PathAccess, Reply, ServerAccess, StatusCode};
use hyper::Method;
use hyper::header::{
    ALLOW, AUTHORIZATION, COOKIE, HOST, HeaderMap, HeaderName, HeaderValue, ORIGIN, SET_COOKIE, WWW_AUTHENTICATE,
};
use hyper::http::request::Parts;
use std::net::IpAddr;
use subtle::ConstantTimeEq;

/// What is held against pages of others that run in the same browsers.
#[derive(Clone, Debug)]
pub struct BrowserIsolation {
    /// What the server may be called.
    pub names: AllowedHosts,
    /// The cookie that keeps the token, if browsers are who asks, and not only what may be made to ask.
    pub cookie: Option<String>,
}

/// What a server may be called, so that nobody's name for our address (DNS rebinding) makes a browser take us for theirs.
#[derive(Clone, Debug)]
pub struct AllowedHosts {
    /// By any address, not only by this machine's own for itself.
    pub any_address: bool,
    /// By these names, too.
    pub names: Vec<String>,
}

impl AllowedHosts {
    /// Whether `host`, as a request has it, is one of them. Whatever port: it may be forwarded.
    pub fn hold(&self, host: &str) -> bool {
        let name = match host.strip_prefix('[') {
            Some(rest) => rest.split(']').next().unwrap_or_default(),
            None => host.split(':').next().unwrap_or_default(),
        };
        if let Ok(address) = name.parse::<IpAddr>() {
            return self.any_address || address.is_loopback();
        }
        let is = |known: &str| name.trim_end_matches('.').eq_ignore_ascii_case(known);
        is("localhost") || self.names.iter().any(|known| is(known))
    }
}

const UNKNOWN_NAME: &str =
    "Unknown host name: use an address of this machine, or start the server with --host-name NAME.\n";

/// Headers of every answer to a browser, unless the answer has its own: nothing runs, nobody frames it, nobody else's page
/// reads it.
const FOR_BROWSERS: [(&str, &str); 6] = [
    ("content-security-policy", "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"),
    ("x-frame-options", "DENY"),
    ("referrer-policy", "no-referrer"),
    ("cross-origin-resource-policy", "same-origin"),
    ("cross-origin-opener-policy", "same-origin"),
    ("x-dns-prefetch-control", "off"),
];

/// Adds what browsers are told.
pub(crate) fn add_security_headers(headers: &mut HeaderMap) {
    for (name, value) in FOR_BROWSERS {
        headers.entry(HeaderName::from_static(name)).or_insert(HeaderValue::from_static(value));
    }
}

/// Whether the request may be answered; otherwise what is answered instead. Who does not know the token does not learn what
/// there is.
pub(crate) fn authorize(
    request: &Parts,
    access: &ServerAccess,
    place: PathAccess,
    takes_posts: bool,
) -> Result<(), Reply> {
    check_authorities(request)?;
    if let Some(browsers) = &access.browsers {
        check_browser(request, browsers)?;
    }
    let mut by_address = None;
    if let Some(token) = &access.token
        && place != PathAccess::Open
    {
        by_address = check_token(request, token, access)?;
    }
    if place == PathAccess::None {
        return Err(Reply::text(StatusCode::NOT_FOUND, "There is nothing here.\n"));
    }
    let is_post = request.method == Method::POST && takes_posts;
    if !is_post && !matches!(request.method, Method::GET | Method::HEAD) {
        let (text, allowed) = match takes_posts {
            true => ("GET, HEAD or POST.\n", "GET, HEAD, POST"),
            false => ("GET or HEAD.\n", "GET, HEAD"),
        };
        let answer = Reply::text(StatusCode::METHOD_NOT_ALLOWED, text);
        return Err(answer.with(ALLOW, HeaderValue::from_static(allowed)));
    }
    if is_post && access.browsers.is_some() && !is_from_own_page(request) {
        return Err(Reply::text(StatusCode::FORBIDDEN, "Not from other pages.\n"));
    }
    by_address.map_or(Ok(()), Err)
}

/// Whether no browser says that a page of another site posts this: a form elsewhere leads here as a link does, but with what that page
/// wants.
fn is_from_own_page(request: &Parts) -> bool {
    let text = |name: HeaderName| request.headers.get(name).map(|value| value.to_str().unwrap_or_default());
    if let Some(site) = text(HeaderName::from_static("sec-fetch-site")) {
        return matches!(site, "same-origin" | "none");
    }
    // Browsers of before say where the page is from, and programs nothing.
    text(ORIGIN).is_none_or(|origin| {
        let host = origin.split_once("://").map(|(_, host)| host);
        host.is_some() && authorities(request).any(|authority| authority == host)
    })
}

/// What the request calls the server: in its address, and by Host; `None` where that is not ASCII.
fn authorities(request: &Parts) -> impl Iterator<Item = Option<&str>> {
    let hosts = request.headers.get_all(HOST).into_iter().map(|host| host.to_str().ok());
    request.uri.authority().map(|authority| Some(authority.as_str())).into_iter().chain(hosts)
}

/// Refuses what is no host: RFC 9112, 3.2 asks for 400 where there are several, or one is not as a URI has it.
fn check_authorities(request: &Parts) -> Result<(), Reply> {
    let why = match request.headers.get_all(HOST).iter().nth(1) {
        Some(_) => "There is more than one Host.\n",
        None if authorities(request).any(|authority| authority.is_none()) => "The host is not ASCII.\n",
        None if authorities(request).flatten().any(|authority| !has_proper_port(authority)) => {
            "The port of the host is no number.\n"
        }
        None => return Ok(()),
    };
    Err(Reply::text(StatusCode::BAD_REQUEST, why))
}

/// Whether nothing follows the host, or a port, which may be empty.
fn has_proper_port(authority: &str) -> bool {
    let name_ends = authority.rfind(']').map_or_else(|| authority.find(':').unwrap_or(authority.len()), |at| at + 1);
    let rest = &authority[name_ends..];
    let is_port = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit()) && text.parse::<u16>().is_ok();
    rest.is_empty() || rest.strip_prefix(':').is_some_and(|port| port.is_empty() || is_port(port))
}

/// Refuses what comes by somebody else's name, or from somebody else's page.
fn check_browser(request: &Parts, browsers: &BrowserIsolation) -> Result<(), Reply> {
    let text = |name| request.headers.get(name).and_then(|value| value.to_str().ok());
    let host = authorities(request).flatten().next();
    if !host.is_some_and(|host| browsers.names.hold(host)) {
        return Err(Reply::text(StatusCode::MISDIRECTED_REQUEST, UNKNOWN_NAME));
    }
    // A link from elsewhere is fine; what a page elsewhere loads is not.
    let site = HeaderName::from_static("sec-fetch-site");
    let mode = HeaderName::from_static("sec-fetch-mode");
    if matches!(text(site), Some("cross-site" | "same-site")) && text(mode) != Some("navigate") {
        return Err(Reply::text(StatusCode::FORBIDDEN, "Not for other pages.\n"));
    }
    Ok(())
}

/// Refuses who does not know the token. What is answered to who has it in the address: that he keep it elsewhere.
fn check_token(request: &Parts, token: &str, access: &ServerAccess) -> Result<Option<Reply>, Reply> {
    let is = |given: &str| bool::from(given.as_bytes().ct_eq(token.as_bytes()));
    if bearer(&request.headers).is_some_and(is) {
        return Ok(None);
    }
    let Some(cookie) = access.browsers.as_ref().and_then(|browsers| browsers.cookie.as_deref()) else {
        let answer = Reply::text(StatusCode::UNAUTHORIZED, "A bearer token is needed.\n");
        return Err(answer.with(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer")));
    };
    if let Some(given) = query(request, "token")
        && is(given)
    {
        let secure = if access.tls.is_some() { "; Secure" } else { "" };
        let kept = format!("{cookie}={token}; Path=/; HttpOnly; SameSite=Lax{secure}");
        if let Ok(kept) = HeaderValue::from_str(&kept) {
            return Ok(Some(Reply::redirect_to(request.uri.path()).with(SET_COOKIE, kept)));
        }
    }
    if cookies(&request.headers).any(|(name, value)| name == cookie && is(value)) {
        return Ok(None);
    }
    let answer = "A token is needed: open the address that exitscope printed, which has it.\n";
    Err(Reply::text(StatusCode::UNAUTHORIZED, answer).with(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer")))
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, given) = headers.get(AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then_some(given.trim())
}

fn query<'a>(request: &'a Parts, name: &str) -> Option<&'a str> {
    let pairs = request.uri.query()?.split('&').filter_map(|pair| pair.split_once('='));
    pairs.into_iter().find(|pair| pair.0 == name).map(|pair| pair.1)
}

fn cookies(headers: &HeaderMap) -> impl Iterator<Item = (&str, &str)> {
    let lines = headers.get_all(COOKIE).into_iter().filter_map(|value| value.to_str().ok());
    lines.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_own_names_are_taken() {
        let loopback = AllowedHosts { any_address: false, names: Vec::new() };
        let open = AllowedHosts { any_address: true, names: vec!["host.example".into(), "host".into()] };
        for (host, by_loopback, by_open) in [
            ("127.0.0.1:9966", true, true),
            ("localhost", true, true),
            ("LOCALHOST.:80", true, true),
            ("[::1]:9966", true, true),
            ("192.0.2.7:9966", false, true),
            ("[2001:db8::1]", false, true),
            ("host.example:9966", false, true),
            ("host:9966", false, true),
            ("host.evil.example", false, false),
            ("evil.example", false, false),
            ("localhost.evil.example", false, false),
            ("127.0.0.1.evil.example", false, false),
            ("", false, false),
            ("[", false, false),
        ] {
            assert_eq!(loopback.hold(host), by_loopback, "{host}");
            assert_eq!(open.hold(host), by_open, "{host}");
        }
    }
}
