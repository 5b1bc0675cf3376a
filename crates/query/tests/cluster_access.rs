//! No port of a cluster answers without its token.
#![cfg(feature = "cluster")]

use arrow_flight::flight_service_client::FlightServiceClient;
use arrow_flight::{Action, Criteria, FlightData, Ticket};
use ballista_core::serde::protobuf::scheduler_grpc_client::SchedulerGrpcClient;
use ballista_core::serde::protobuf::{
    CleanJobDataParams, ExecuteQueryParams, GetJobStatusParams, PollWorkParams, RegisterExecutorParams,
};
use exitscope_query::cluster::{Executor, execute, schedule};
use exitscope_query::cluster_access::{ClusterToken, SchedulerAddress};
use std::net::{SocketAddr, TcpListener};
use std::thread;
use std::time::{Duration, Instant};
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Response, Status};

/// An address that nobody had a moment ago.
fn free() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

/// A connection, whose requests name this token.
async fn connect(to: SocketAddr, token: Option<&str>) -> Channel {
    let until = Instant::now() + Duration::from_secs(30);
    loop {
        let endpoint = Endpoint::from_shared(format!("http://{to}")).unwrap();
        let endpoint = token.into_iter().fold(endpoint, |endpoint, token| endpoint.user_agent(token).unwrap());
        match endpoint.connect().await {
            Ok(channel) => return channel,
            Err(error) => assert!(Instant::now() < until, "{to}: {error}"),
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

fn is_refused<T>(answer: Result<Response<T>, Status>) -> bool {
    answer.is_err_and(|status| status.code() == Code::Unauthenticated)
}

/// What the scheduler refuses of some requests.
async fn refusals_of_scheduler(channel: Channel) -> Vec<bool> {
    let mut client = SchedulerGrpcClient::new(channel);
    vec![
        is_refused(client.poll_work(PollWorkParams::default()).await),
        is_refused(client.register_executor(RegisterExecutorParams::default()).await),
        is_refused(client.execute_query(ExecuteQueryParams::default()).await),
        is_refused(client.execute_query_push(ExecuteQueryParams::default()).await),
        is_refused(client.get_job_status(GetJobStatusParams::default()).await),
        is_refused(client.clean_job_data(CleanJobDataParams::default()).await),
    ]
}

/// What an executor refuses of some requests.
async fn refusals_of_executor(channel: Channel) -> Vec<bool> {
    let mut client = FlightServiceClient::new(channel);
    vec![
        is_refused(client.do_get(Ticket::default()).await),
        is_refused(client.do_action(Action::default()).await),
        is_refused(client.do_put(futures::stream::iter([FlightData::default()])).await),
        is_refused(client.list_flights(Criteria::default()).await),
    ]
}

#[test]
fn no_port_answers_without_the_token() {
    let work = tempfile::tempdir().unwrap();
    let (at, listen) = (free(), free());
    let token = ClusterToken::new(Some("secret".to_string()));
    let scheduler = SchedulerAddress { host: at.ip().to_string(), port: at.port(), token: token.clone() };
    let executor = Executor { scheduler, listen, cores: 1, memory: 64 << 20, work: Some(work.path().join("results")) };
    thread::spawn(move || schedule(at, token).unwrap());
    thread::spawn(move || execute(executor).unwrap());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        for (given, refused) in [(None, true), (Some("secret2"), true), (Some("secre"), true), (Some("secret"), false)]
        {
            let answers = refusals_of_scheduler(connect(at, given).await).await;
            assert!(answers.iter().all(|&is| is == refused), "scheduler, {given:?}: {answers:?}");
            let answers = refusals_of_executor(connect(listen, given).await).await;
            assert!(answers.iter().all(|&is| is == refused), "executor, {given:?}: {answers:?}");
        }
    });
}
