//! Who may ask a server, and what is said when it starts.

use crate::cli::AccessArgs;
use anyhow::Context;
use exitscope_http::{Access, Names, access};
use std::net::{IpAddr, SocketAddr, TcpListener, ToSocketAddrs};

/// The access that the flags ask for.
pub fn access_of(args: &AccessArgs) -> anyhow::Result<Access> {
    Ok(Access {
        tls: match (&args.tls_cert, &args.tls_key) {
            (Some(certificate), Some(key)) => Some(access::tls(certificate, key)?),
            _ => None,
        },
        token: args.token_file.as_deref().map(access::token).transpose()?,
        ..Access::default()
    })
}

/// Listens.
pub fn listen(at: impl ToSocketAddrs + std::fmt::Display) -> anyhow::Result<(TcpListener, SocketAddr)> {
    let listener = TcpListener::bind(&at).with_context(|| format!("cannot listen on {at}"))?;
    let address = listener.local_addr()?;
    Ok((listener, address))
}

/// What a server that listens there may be called: by addresses if others reach it, by the name that it was told to listen
/// on, by those of --host-name, and by this machine's own, which nobody else can have lead here. Others are somebody else's,
/// who may let them lead here so that his page reads what we answer (DNS rebinding).
pub fn names(args: &AccessArgs, listen: &str, address: SocketAddr) -> Names {
    let host = listen.rsplit_once(':').map_or(listen, |parts| parts.0).trim_matches(['[', ']']);
    let told = host.parse::<IpAddr>().is_err().then(|| host.to_string());
    let own = rustix::system::uname().nodename().to_string_lossy().into_owned();
    // As a Host header has it, somebody may name a port, too.
    let bare = |name: String| name.split(':').next().unwrap_or_default().trim_end_matches('.').to_string();
    let names = told.into_iter().chain([own]).chain(args.host_name.iter().cloned()).map(bare);
    Names { any_address: !address.ip().is_loopback(), names: names.filter(|name| !name.is_empty()).collect() }
}

/// `http` or `https`.
pub fn scheme(access: &Access) -> &'static str {
    if access.tls.is_some() { "https" } else { "http" }
}

/// Says what is missing where others than this machine can reach us.
pub fn warn(address: SocketAddr, access: &Access) {
    if address.ip().is_loopback() {
        return;
    }
    let missing = match (&access.tls, &access.token) {
        (Some(_), Some(_)) => return,
        (None, None) => "without TLS and without a token (--tls-cert, --tls-key, --token-file)",
        (None, _) => "without TLS, so that the token can be read on the way (--tls-cert, --tls-key)",
        _ => "without a token (--token-file)",
    };
    say!("whoever reaches {address} may ask it, {missing}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_called_as_it_was_told_and_as_its_machine_is() {
        let told = vec!["host1.example:9965".to_string(), "host2.example.".to_string(), String::new()];
        let args = AccessArgs { tls_cert: None, tls_key: None, token_file: None, host_name: told };
        let own = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let at = |address: &str| address.parse::<SocketAddr>().unwrap();
        for (listen, address, host, expected) in [
            ("127.0.0.1:9965", "127.0.0.1:9965", "host1.example", true),
            ("127.0.0.1:9965", "127.0.0.1:9965", "host2.example:80", true),
            ("127.0.0.1:9965", "127.0.0.1:9965", "host3.example", false),
            ("127.0.0.1:9965", "127.0.0.1:9965", "192.0.2.1", false),
            ("0.0.0.0:9965", "0.0.0.0:9965", "192.0.2.1:9965", true),
            ("0.0.0.0:9965", "0.0.0.0:9965", "host3.example", false),
            ("[::]:9965", "[::]:9965", "[2001:db8::1]:9965", true),
            ("host3.example:9965", "192.0.2.1:9965", "host3.example:9965", true),
            ("127.0.0.1:9965", "127.0.0.1:9965", own.as_str(), true),
            ("127.0.0.1:9965", "127.0.0.1:9965", "", false),
        ] {
            assert_eq!(names(&args, listen, at(address)).hold(host), expected, "{listen} {host}");
        }
    }
}
