//! Who may ask a server, and what is said when it starts.

use crate::cli::{AccessArgs, ClusterAccessArgs, ClusterCommand};
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

/// Refuses to run a program of a cluster that lets in more than it should, unless that is said to be meant: whoever is let in
/// has plans carried out, and they read and write any file that the process may. Ballista, as it is used here, has no TLS.
pub fn cluster_is_meant(what: &ClusterCommand) -> anyhow::Result<()> {
    let (listen, access) = match what {
        ClusterCommand::Scheduler { listen, access } => (*listen, access),
        ClusterCommand::Executor(args) => (args.listen, &args.access),
    };
    is_meant(rustix::process::geteuid().is_root(), listen, access)
}

fn is_meant(is_root: bool, listen: SocketAddr, access: &ClusterAccessArgs) -> anyhow::Result<()> {
    if access.insecure {
        return Ok(());
    }
    ensure!(
        !is_root,
        "as root: queries can read and write every file of this machine. Run it as a user who can read the store and nothing else; to \
         run it as root nevertheless, give --insecure"
    );
    ensure!(
        access.token_file.is_some(),
        "--listen {listen}: without a token, whoever reaches this port, like any user of this machine, can run queries, and with them \
         read and write files as this user. Give --token-file FILE; to run without a token nevertheless, give --insecure"
    );
    ensure!(
        listen.ip().is_loopback(),
        "--listen {listen}: a cluster has no TLS, so the token and all rows cross the network in the clear. To listen there \
         nevertheless, give --insecure, and keep the port on a private network"
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
    fn a_cluster_lets_nobody_in_without_a_token_unless_that_is_said_to_be_meant() {
        let token: &[&str] = &["--token-file", "t"];
        let at = |address: &'static str| [token, &["--listen", address]].concat();
        for (flags, is_root, refused) in [
            (vec![], false, Some("--token-file")),
            (vec!["--listen", "[::1]:7"], false, Some("--token-file")),
            (vec!["--listen", "0.0.0.0:7"], false, Some("--token-file")),
            (vec!["--insecure"], false, None),
            (vec!["--insecure"], true, None),
            (token.to_vec(), false, None),
            (token.to_vec(), true, Some("as root")),
            (vec![], true, Some("as root")),
            (at("127.9.9.9:7"), false, None),
            (at("[::1]:7"), false, None),
            (at("0.0.0.0:7"), false, Some("--listen 0.0.0.0:7: a cluster has no TLS")),
            (at("[::]:7"), false, Some("TLS")),
            (at("10.0.0.1:7"), false, Some("TLS")),
            (at("[::ffff:10.0.0.1]:7"), false, Some("TLS")),
            ([&at("10.0.0.1:7")[..], &["--insecure"]].concat(), false, None),
            (vec!["--listen", "0.0.0.0:7", "--insecure"], true, None),
        ] {
            for part in ["scheduler", "executor"] {
                let cli = Cli::try_parse_from([&["exitscope", "cluster", part][..], &flags].concat()).unwrap();
                let Command::Cluster { what } = cli.command else { panic!("{part}") };
                let (listen, access) = match &what {
                    ClusterCommand::Scheduler { listen, access } => (*listen, access),
                    ClusterCommand::Executor(args) => (args.listen, &args.access),
                };
                let said = is_meant(is_root, listen, access).map_err(|error| error.to_string()).err();
                assert_eq!(said.is_some(), refused.is_some(), "{part} {flags:?}: {said:?}");
                if let (Some(said), Some(refused)) = (said, refused) {
                    assert!(said.contains("--insecure") && said.contains(refused), "{flags:?}: {said}");
                }
            }
        }
    }
}
