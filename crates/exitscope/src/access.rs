//! Who may ask a server, and what is said when it starts.

use crate::cli::{AccessArgs, ClusterCommand};
use anyhow::{Context, ensure};
use exitscope_http::{AllowedHosts, ServerAccess, credentials};
use std::net::{IpAddr, SocketAddr, TcpListener, ToSocketAddrs};

/// The access that the flags ask for.
pub fn access_of(args: &AccessArgs) -> anyhow::Result<ServerAccess> {
    Ok(ServerAccess {
        tls: match (&args.tls_cert, &args.tls_key) {
            (Some(certificate), Some(key)) => Some(credentials::tls(certificate, key)?),
            _ => None,
        },
        token: args.token_file.as_deref().map(credentials::token).transpose()?,
        ..ServerAccess::default()
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
pub fn names(args: &AccessArgs, listen: &str, address: SocketAddr) -> AllowedHosts {
    let host = listen.rsplit_once(':').map_or(listen, |parts| parts.0).trim_matches(['[', ']']);
    let told = host.parse::<IpAddr>().is_err().then(|| host.to_string());
    let own = rustix::system::uname().nodename().to_string_lossy().into_owned();
    // As a Host header has it, somebody may name a port, too.
    let bare = |name: String| name.split(':').next().unwrap_or_default().trim_end_matches('.').to_string();
    let names = told.into_iter().chain([own]).chain(args.host_name.iter().cloned()).map(bare);
    AllowedHosts { any_address: !address.ip().is_loopback(), names: names.filter(|name| !name.is_empty()).collect() }
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
        "--listen {listen}: any host that reaches this port can run queries, and with them read and write files as this user: a cluster has \
         neither TLS nor tokens. To listen there nevertheless, give --insecure, and keep the port on a private network"
    );
    Ok(())
}

/// `http` or `https`.
pub fn scheme(access: &ServerAccess) -> &'static str {
    if access.tls.is_some() { "https" } else { "http" }
}

/// Says what is missing where others than this machine can reach us.
pub fn warn(address: SocketAddr, access: &ServerAccess) {
    if address.ip().is_loopback() {
        return;
    }
    let missing = match (&access.tls, &access.token) {
        (Some(_), Some(_)) => return,
        (None, None) => "without TLS and without a token (--tls-cert, --tls-key, --token-file)",
        (None, _) => "without TLS, so that the token can be read on the way (--tls-cert, --tls-key)",
        _ => "without a token (--token-file)",
    };
    say!("warning: serving {address} {missing}");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::{Cli, Command};
    use clap::Parser;

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
