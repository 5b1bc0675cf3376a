//! Who may ask the programs of a cluster: whoever names their token, which is one for the whole cluster.
//!
//! ```text
//! sql ──token──► scheduler ◄──token── executor      every request to any port is checked here before Ballista has it
//!  └───token──► executor ◄──token── executor
//! ```
//!
//! Ballista 55 connects without headers of ours: neither an executor's `SchedulerGrpcClient::new` (ballista-executor,
//! executor_process.rs) nor the client that fetches results (ballista-core, client.rs) takes an interceptor. What all of its
//! connections do take is another `Endpoint`. Of an endpoint's settings only the user agent arrives with each request, so the
//! token is its first word. It goes over the wire in the clear, and is shown to whatever listens at the address.

use crate::engine::QueryError;
use axum::extract::ConnectInfo;
use ballista_core::extension::EndpointOverrideFn;
use ballista_core::serde::protobuf::GetJobStatusParams;
use ballista_core::serde::protobuf::scheduler_grpc_client::SchedulerGrpcClient;
use ballista_core::utils::create_grpc_client_endpoint;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use subtle::ConstantTimeEq;
use tokio::time::timeout;
use tonic::metadata::MetadataMap;
use tonic::service::Interceptor;
use tonic::{Code, Request, Status};

/// How long a scheduler may take to answer.
pub(crate) const CONNECT: Duration = Duration::from_secs(5);

/// A scheduler, and the token that it wants.
#[derive(Clone, Debug)]
pub struct SchedulerAddress {
    /// Its host's name or address.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// The cluster's token.
    pub token: ClusterToken,
}

/// The secret that lets into a cluster, if it has one.
#[derive(Clone, Default)]
pub struct ClusterToken(Option<Arc<str>>);

impl SchedulerAddress {
    /// Host and port, as an address on the network has them.
    pub(crate) fn authority(&self) -> String {
        match self.host.contains(':') {
            true => format!("[{}]:{}", self.host, self.port),
            false => format!("{}:{}", self.host, self.port),
        }
    }
}

impl ClusterToken {
    /// A token of printable ASCII without spaces; without one, everybody is let in.
    pub fn new(token: Option<String>) -> ClusterToken {
        ClusterToken(token.map(Arc::from))
    }

    /// Has each of a connection's requests name the token.
    pub(crate) fn in_requests(&self) -> EndpointOverrideFn {
        let token = self.0.clone();
        Arc::new(move |endpoint| match &token {
            Some(token) => Ok(endpoint.user_agent(token.as_ref())?),
            None => Ok(endpoint),
        })
    }

    fn admits(&self, headers: &MetadataMap) -> bool {
        let Some(token) = &self.0 else { return true };
        let agent = headers.get("user-agent").map_or(&b""[..], |agent| agent.as_bytes());
        let given = agent.split(|&byte| byte == b' ').next().unwrap_or_default();
        given.ct_eq(token.as_bytes()).into()
    }
}

/// What it is stays hidden.
impl fmt::Debug for ClusterToken {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(if self.0.is_some() { "ClusterToken(…)" } else { "ClusterToken(none)" })
    }
}

/// Refuses requests that do not name the token, ahead of Ballista's services.
#[derive(Clone)]
pub(crate) struct TokenCheck(pub(crate) ClusterToken);

impl Interceptor for TokenCheck {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        if !self.0.admits(request.metadata()) {
            return Err(Status::unauthenticated("a request without this cluster's token"));
        }
        // The scheduler takes an executor's address from there, if that listens on all of them (ballista-scheduler,
        // scheduler_server/grpc.rs, `extract_connect_info`).
        if let Some(from) = request.remote_addr() {
            request.extensions_mut().insert(ConnectInfo(from));
        }
        Ok(request)
    }
}

/// What a scheduler said to a first request.
pub(crate) enum Greeting {
    /// It takes requests.
    Welcome,
    /// It wants another token.
    Refused,
    /// It cannot be reached.
    Silent(String),
}

/// Asks a scheduler for a job that there is not, to see whether it takes requests.
pub(crate) async fn greet(scheduler: &SchedulerAddress) -> Greeting {
    let ask = async {
        let endpoint = create_grpc_client_endpoint(format!("http://{}", scheduler.authority()), None);
        let endpoint = endpoint.map_err(|error| error.to_string())?;
        let endpoint = scheduler.token.in_requests()(endpoint).map_err(|error| error.to_string())?;
        let connection = endpoint.connect().await.map_err(|error| root_cause(&error))?;
        let asked = SchedulerGrpcClient::new(connection).get_job_status(GetJobStatusParams::default()).await;
        Ok(asked.is_err_and(|status| status.code() == Code::Unauthenticated))
    };
    match timeout(CONNECT, ask).await {
        Ok(Ok(false)) => Greeting::Welcome,
        Ok(Ok(true)) => Greeting::Refused,
        Ok(Err(why)) => Greeting::Silent(why),
        Err(_) => Greeting::Silent("it does not answer".to_string()),
    }
}

/// tonic says "transport error", and the reason further down.
fn root_cause(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}

/// A scheduler refused the token; `flag` is how it is given.
pub(crate) fn refused(scheduler: &SchedulerAddress, flag: &str) -> QueryError {
    let which = if scheduler.token.0.is_some() { "another token than the one given" } else { "a token" };
    let at = scheduler.authority();
    QueryError::Query(format!("the scheduler at {at} requires {which}: {flag} names the file that holds it"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_requests_that_name_the_token_pass() {
        let asked = |wanted: Option<&str>, agent: Option<&'static str>| {
            let mut request = Request::new(());
            if let Some(agent) = agent {
                request.metadata_mut().insert("user-agent", agent.parse().unwrap());
            }
            TokenCheck(ClusterToken::new(wanted.map(str::to_string))).call(request).map_err(|status| status.code())
        };
        for (wanted, agent, passes) in [
            (None, None, true),
            (None, Some("tonic/0.14.9"), true),
            (Some("secret"), Some("secret tonic/0.14.9"), true),
            (Some("secret"), Some("secret"), true),
            (Some("secret"), Some("secret2 tonic/0.14.9"), false),
            (Some("secret"), Some("secre tonic/0.14.9"), false),
            (Some("secret"), Some("tonic/0.14.9 secret"), false),
            (Some("secret"), Some(""), false),
            (Some("secret"), None, false),
        ] {
            let expected = if passes { Ok(()) } else { Err(Code::Unauthenticated) };
            assert_eq!(asked(wanted, agent).map(drop), expected, "{wanted:?} {agent:?}");
        }
    }

    #[test]
    fn a_token_is_not_printed() {
        let token = ClusterToken::new(Some("secret".to_string()));
        let address = SchedulerAddress { host: "h".to_string(), port: 1, token };
        assert!(!format!("{address:?} {}", refused(&address, "--token-file")).contains("secret"));
    }
}
