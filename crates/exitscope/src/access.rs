//! Who may ask a server, and what is said when it starts.

use crate::cli::{AccessArgs, ClusterCommand};
use anyhow::{Context, ensure};
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

/// Refuses to open a cluster to others than this machine unless that is said to be meant. Ballista, as it is used here, has
/// neither TLS nor tokens, and does what it is sent: a plan may read and write any file that its process may.
pub fn cluster_is_meant(what: &ClusterCommand) -> anyhow::Result<()> {
    let (listen, insecure) = match what {
        ClusterCommand::Scheduler { listen, insecure } => (listen, *insecure),
        ClusterCommand::Executor(args) => (&args.listen, args.insecure),
    };
    ensure!(
        insecure || listen.ip().is_loopback(),
        "--listen {listen}: whoever reaches it can run queries, and with them read and write files as this user: a cluster has \
         neither TLS nor tokens. --insecure listens there nevertheless; keep the port on a network of your own"
    );
    Ok(())
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
    anstream::eprintln!("exitscope: whoever reaches {address} may ask it, {missing}");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::{Cli, Command};
    use clap::Parser;

    #[test]
    fn a_cluster_listens_beyond_loopback_only_if_that_is_said_to_be_meant() {
        for (flags, refused) in [
            (&[][..], false),
            (&["--listen", "127.0.0.1:7"], false),
            (&["--listen", "127.9.9.9:7"], false),
            (&["--listen", "[::1]:7"], false),
            (&["--listen", "0.0.0.0:7"], true),
            (&["--listen", "[::]:7"], true),
            (&["--listen", "10.0.0.1:7"], true),
            (&["--listen", "[::ffff:10.0.0.1]:7"], true),
            (&["--listen", "10.0.0.1:7", "--insecure"], false),
            (&["--listen", "0.0.0.0:7", "--insecure"], false),
        ] {
            for part in ["scheduler", "executor"] {
                let cli = Cli::try_parse_from([&["exitscope", "cluster", part][..], flags].concat()).unwrap();
                let Command::Cluster { what } = cli.command else { panic!("{part}") };
                let said = cluster_is_meant(&what).map_err(|error| error.to_string());
                assert_eq!(said.is_err(), refused, "{part} {flags:?}: {said:?}");
                if let Err(said) = said {
                    assert!(said.contains("--insecure") && said.contains(flags[1]), "{said}");
                }
            }
        }
    }
}
