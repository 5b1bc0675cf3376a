//! Asks another server, with limits of time and size.

use hyper::body::{Body, Bytes, Incoming};
use hyper::client::conn::http1;
use hyper::header::{ACCEPT, HOST, USER_AGENT};
use hyper::http::uri::Scheme;
use hyper::{Request, StatusCode, Uri};
use hyper_util::rt::TokioIo;
use std::convert::Infallible;
use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

/// The address of a server: scheme, host, port and a path that comes before all others.
#[derive(Clone, Debug, PartialEq)]
pub struct ServerAddress {
    is_tls: bool,
    host: String,
    port: u16,
    /// Host and port as they were written.
    authority: String,
    /// Without a slash at its end.
    base: String,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum GetError {
    /// The server cannot be reached, or TLS does not come about.
    #[error("{0}")]
    Connect(#[source] io::Error),
    /// What it sends is no HTTP, or stops.
    #[error("{0}")]
    Http(#[from] hyper::Error),
    /// The answer is too long.
    #[error("the answer is longer than {0} bytes")]
    TooLong(usize),
    /// It takes too long.
    #[error("no whole answer within {0:?}")]
    Late(Duration),
}

impl ServerAddress {
    /// An http or https URL without user, query and fragment.
    pub fn parse(text: &str) -> Result<ServerAddress, String> {
        let what = || format!("{text:?} is not the URL of a server, like http://localhost:9090");
        let uri: Uri = text.parse().map_err(|_| what())?;
        let authority = uri.authority().filter(|authority| !authority.as_str().contains('@')).ok_or_else(what)?;
        let is_tls = match uri.scheme() {
            Some(scheme) if *scheme == Scheme::HTTPS => true,
            Some(scheme) if *scheme == Scheme::HTTP => false,
            _ => return Err(what()),
        };
        if uri.query().is_some() || text.contains('#') || authority.host().is_empty() {
            return Err(what());
        }
        let port = match authority.as_str().strip_prefix(authority.host()) {
            Some("") | None => {
                if is_tls {
                    443
                } else {
                    80
                }
            }
            Some(port) => port.trim_start_matches(':').parse().map_err(|_| what())?,
        };
        Ok(ServerAddress {
            is_tls,
            host: authority.host().trim_matches(['[', ']']).to_string(),
            port,
            authority: authority.to_string(),
            base: uri.path().trim_end_matches('/').to_string(),
        })
    }

    /// Gets `path` with these parameters. The answer comes within this time and has at most so many bytes; a redirection is
    /// an answer like any other.
    pub fn get(
        &self,
        path: &str,
        parameters: &[(&str, &str)],
        within: Duration,
        largest: usize,
    ) -> Result<(StatusCode, Vec<u8>), GetError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build();
        let runtime = runtime.map_err(GetError::Connect)?;
        let pairs: Vec<String> = parameters.iter().map(|(name, value)| format!("{name}={}", encoded(value))).collect();
        let target = format!("{}{path}?{}", self.base, pairs.join("&"));
        let answer = runtime.block_on(async {
            timeout(within, self.connect_and_ask(&target, largest)).await.unwrap_or(Err(GetError::Late(within)))
        });
        // A name may still be looked up, for which nobody waits any more.
        runtime.shutdown_background();
        answer
    }

    async fn connect_and_ask(&self, target: &str, largest: usize) -> Result<(StatusCode, Vec<u8>), GetError> {
        let stream = TcpStream::connect((self.host.as_str(), self.port)).await.map_err(GetError::Connect)?;
        match self.is_tls {
            false => self.ask(stream, target, largest).await,
            true => {
                let name = ServerName::try_from(self.host.clone()).map_err(|error| io::Error::other(error.to_string()));
                let config = tls_config().map_err(GetError::Connect)?;
                let connected = TlsConnector::from(config).connect(name.map_err(GetError::Connect)?, stream).await;
                self.ask(connected.map_err(GetError::Connect)?, target, largest).await
            }
        }
    }

    async fn ask(
        &self,
        stream: impl AsyncRead + AsyncWrite + Unpin,
        target: &str,
        largest: usize,
    ) -> Result<(StatusCode, Vec<u8>), GetError> {
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        let request = Request::get(target)
            .header(HOST, &self.authority)
            .header(ACCEPT, "application/json")
            .header(USER_AGENT, concat!("exitscope/", env!("CARGO_PKG_VERSION")))
            .body(Nothing)
            .map_err(|error| GetError::Connect(io::Error::other(error)))?;
        let answer = async {
            let response = sender.send_request(request).await?;
            let status = response.status();
            Ok((status, whole(response.into_body(), largest).await?))
        };
        // The connection has to be driven until the answer is whole, and may end first.
        let (mut answer, mut connection) = (pin!(answer), pin!(connection));
        let mut is_open = true;
        poll_fn(|context| {
            if is_open && connection.as_mut().poll(context).is_ready() {
                is_open = false;
            }
            answer.as_mut().poll(context)
        })
        .await
    }
}

/// Trusts the certificates that the system trusts; `SSL_CERT_FILE` names others.
fn tls_config() -> io::Result<Arc<ClientConfig>> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if roots.is_empty() {
        return Err(io::Error::other("this system trusts no certificate; SSL_CERT_FILE names a file of some"));
    }
    let config =
        ClientConfig::builder_with_provider(Arc::new(default_provider())).with_safe_default_protocol_versions();
    let config = config.map_err(io::Error::other)?;
    Ok(Arc::new(config.with_root_certificates(roots).with_no_client_auth()))
}

/// All bytes of a body that is not too long.
async fn whole(mut body: Incoming, largest: usize) -> Result<Vec<u8>, GetError> {
    let mut bytes = Vec::new();
    while let Some(frame) = poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await {
        let Ok(data) = frame?.into_data() else { continue };
        if bytes.len() + data.len() > largest {
            return Err(GetError::TooLong(largest));
        }
        bytes.extend_from_slice(&data);
    }
    Ok(bytes)
}

/// A parameter's value as a URL writes it.
fn encoded(value: &str) -> String {
    let byte = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    };
    value.bytes().map(byte).collect()
}

/// The body of a request that has none.
struct Nothing;

impl Body for Nothing {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<hyper::body::Frame<Bytes>, Infallible>>> {
        Poll::Ready(None)
    }

    fn is_end_stream(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_scheme_host_port_and_the_path_before_all_others() {
        let parts = |text: &str| {
            let of = ServerAddress::parse(text).unwrap();
            (of.is_tls, of.host, of.port, of.base)
        };
        assert_eq!(parts("http://prometheus:9090"), (false, "prometheus".into(), 9090, String::new()));
        assert_eq!(parts("https://metrics.example/prom/"), (true, "metrics.example".into(), 443, "/prom".into()));
        assert_eq!(parts("http://[::1]:9090/"), (false, "::1".into(), 9090, String::new()));
        for text in [
            "",
            "prometheus:9090",
            "ftp://prometheus",
            "http://user:secret@prometheus",
            "http://prometheus/?a=1",
            "http://prometheus/#graph",
            "http://prometheus:90900",
            "/api",
        ] {
            assert!(ServerAddress::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn what_a_query_has_does_not_end_its_parameter() {
        assert_eq!(encoded("rate(a{b=\"c&d\"}[10s]) + 1"), "rate%28a%7Bb%3D%22c%26d%22%7D%5B10s%5D%29%20%2B%201");
    }
}
