//! Who may ask a server, and what is said when it starts.

use crate::cli::AccessArgs;
use anyhow::Context;
use exitscope_http::{Access, access};
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};

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
