//! The same queries on many machines, by Ballista: a scheduler, executors, and who asks.
//!
//! ```text
//! QueryEngine ─► plan: tables by their files, our functions by name ─► scheduler ─► stages ─► executors ─► rows
//! ```
//!
//! Executors read the store's files themselves: its directory has to be the same for all of them; to a bucket each needs its
//! keys in its own environment. Who may ask them says [`crate::cluster_access`].
//!
//! What Ballista 55 does by itself when an executor is lost is not to be had: it hangs where executors are given work
//! (`push-staged`) or plans change while they run, and where they ask for work it runs stages again and then counts rows
//! twice. So it is kept from it: executors ask for work; it never hears that one was lost; a stage fails the first time; and a
//! [watch] of ours cancels whatever runs when one falls silent. The [engine](crate::QueryEngine) asks again.

use crate::cluster_access::{ClusterToken, Greeting, SchedulerAddress, TokenCheck, greet, refused};
use crate::engine::{QueryError, wrong};
use crate::functions;
use crate::object_stores::environment;
use crate::table::{MemoryTable, ParquetTable};
use arrow_flight::flight_service_server::FlightServiceServer;
use ballista::prelude::{SessionConfigExt, SessionContextExt};
use ballista_core::config::TaskSchedulingPolicy;
use ballista_core::error::BallistaError;
use ballista_core::registry::BallistaFunctionRegistry;
use ballista_core::serde::BallistaLogicalExtensionCodec;
use ballista_core::serde::protobuf::scheduler_grpc_server::SchedulerGrpcServer;
use ballista_core::utils::{GrpcServerConfig, create_grpc_server, create_grpc_server_incoming};
use ballista_executor::ArrowFlightServerProvider;
use ballista_executor::executor_process::{ExecutorProcessConfig, start_executor_process};
use ballista_executor::flight_service::BallistaFlightService;
use ballista_scheduler::cluster::BallistaCluster;
use ballista_scheduler::config::SchedulerConfig;
use ballista_scheduler::scheduler_process::create_scheduler;
use ballista_scheduler::scheduler_server::SchedulerServer;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::TableProvider;
use datafusion::common::{Result, TableReference, plan_err};
use datafusion::datasource::file_format::FileFormatFactory;
use datafusion::execution::context::{SessionConfig, SessionContext, SessionState};
use datafusion::execution::{FunctionRegistry, SessionStateBuilder, TaskContext};
use datafusion::logical_expr::{AggregateUDF, Extension, LogicalPlan, ScalarUDF};
use datafusion_proto::logical_plan::LogicalExtensionCodec;
use datafusion_proto::protobuf::{LogicalPlanNode, PhysicalPlanNode};
use std::collections::BTreeSet;
use std::fs::{DirBuilder, Permissions};
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tempfile::TempDir;
use tokio::runtime::Builder;
use tokio::signal::unix::{SignalKind, signal};
use tonic::service::interceptor::InterceptedService;
use tonic::transport::Server;

/// Bytes of a message between any two of them at most: the files of a store, and the recordings of a fleet.
const MESSAGE: u32 = 256 << 20;

/// An executor of which nothing was heard for so long is lost; each says something every second.
const LOST_AFTER: Duration = Duration::from_secs(6);

/// How often that is looked at.
const EXECUTOR_CHECK_INTERVAL: Duration = Duration::from_millis(500);

/// When Ballista itself takes an executor for lost, in seconds: a day later than the watch.
const NEVER: u64 = 24 * 3600;

/// How long an executor waits before it asks again for a scheduler that is not there yet.
const KNOCK: Duration = Duration::from_millis(500);

/// An executor's place.
#[derive(Clone, Debug)]
pub struct Executor {
    /// The scheduler. Its token is wanted of whoever fetches results, too.
    pub scheduler: SchedulerAddress,
    /// The address at which others fetch what it made.
    pub listen: SocketAddr,
    /// Tasks at a time.
    pub cores: usize,
    /// Bytes of memory for all of them.
    pub memory: u64,
    /// Where it makes its folder for results; where temporary files are, if it is not said.
    pub work: Option<PathBuf>,
}

/// Runs a scheduler for those who have the token until the process ends.
pub fn schedule(listen: SocketAddr, token: ClusterToken) -> Result<(), QueryError> {
    let config = SchedulerConfig {
        external_host: listen.ip().to_string(),
        bind_host: listen.ip().to_string(),
        bind_port: listen.port(),
        scheduling_policy: TaskSchedulingPolicy::PullStaged,
        grpc_server_max_decoding_message_size: MESSAGE,
        grpc_server_max_encoding_message_size: MESSAGE,
        grpc_client_max_message_size: MESSAGE,
        executor_timeout_seconds: NEVER,
        no_executors_grace_period_seconds: NEVER,
        task_max_failures: 1,
        stage_max_failures: 1,
        override_session_builder: Some(Arc::new(state)),
        override_config_producer: Some(Arc::new(|| session_config(&ClusterToken::default()))),
        override_logical_codec: Some(Arc::new(Codec::default())),
        ..SchedulerConfig::default()
    };
    let serve = async {
        let cluster = BallistaCluster::new_from_config(&config).await?;
        let scheduler = create_scheduler::<LogicalPlanNode, PhysicalPlanNode>(cluster, Arc::new(config)).await?;
        tokio::spawn(watch(scheduler.clone()));
        // What `start_grpc_service` of Ballista serves besides is not used here, and would be asked without a token.
        let service = SchedulerGrpcServer::new(scheduler)
            .max_decoding_message_size(MESSAGE as usize)
            .max_encoding_message_size(MESSAGE as usize);
        let incoming = create_grpc_server_incoming(listen, &GrpcServerConfig::default())?;
        let served = Server::builder().add_service(InterceptedService::new(service, TokenCheck(token)));
        served.serve_with_incoming(incoming).await.map_err(BallistaError::TonicError)
    };
    let served = Builder::new_multi_thread().enable_all().build()?.block_on(serve);
    served.map_err(|error| QueryError::Query(format!("cannot schedule at {listen}: {error}")))
}

/// Cancels what runs whenever an executor falls silent or leaves.
async fn watch(scheduler: SchedulerServer<LogicalPlanNode, PhysicalPlanNode>) {
    let mut alive: BTreeSet<String> = BTreeSet::new();
    loop {
        tokio::time::sleep(EXECUTOR_CHECK_INTERVAL).await;
        let Ok(executors) = scheduler.state.executor_manager.get_executors_state().await else { continue };
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let heard = |seen: &Option<Duration>| seen.is_some_and(|seen| now.saturating_sub(seen) < LOST_AFTER);
        let still: BTreeSet<String> =
            executors.into_iter().filter(|of| heard(&of.1)).map(|(executor, ..)| executor.id).collect();
        if alive.difference(&still).next().is_some() {
            for job in scheduler.state.task_manager.get_running_job_cache().keys() {
                // It may have ended just now.
                let _ = scheduler.cancel_job(job.clone()).await;
            }
        }
        alive = still;
    }
}

/// Runs an executor until the process ends.
pub fn execute(executor: Executor) -> Result<(), QueryError> {
    let Executor { scheduler, listen, cores, memory, work } = executor;
    let folder = private_folder(work.as_deref())?;
    let config = executor_config(&scheduler, listen, cores, memory, folder.path())?;
    let serve = async {
        let (mut end, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
        let leave = |folder: TempDir| {
            drop(folder);
            std::process::exit(0)
        };
        tokio::select! {
            biased;
            // Whoever says goodbye has its stages run again, see above.
            _ = end.recv() => leave(folder),
            _ = interrupt.recv() => leave(folder),
            () = refusal(&scheduler) => Err(refused(&scheduler, "--token-file")),
            served = start_executor_process(Arc::new(config)) => {
                let at = scheduler.authority();
                served.map_err(|error| QueryError::Query(format!("cannot execute for {at}: {error}")))
            }
        }
    };
    Builder::new_multi_thread().enable_all().build()?.block_on(serve)
}

/// Its owner's folder for results and spilled rows, gone with the executor. Ballista's own choice would be the name of a
/// temporary folder that it has removed again, which anybody may then make (ballista-executor, executor_process.rs).
fn private_folder(within: Option<&Path>) -> Result<TempDir, QueryError> {
    let within = within.map_or_else(std::env::temp_dir, Path::to_path_buf);
    let make = || {
        DirBuilder::new().recursive(true).mode(0o700).create(&within)?;
        let mut builder = tempfile::Builder::new();
        builder.prefix("exitscope-executor-").permissions(Permissions::from_mode(0o700)).tempdir_in(&within)
    };
    make().map_err(|error| QueryError::Query(format!("cannot keep results in {}: {error}", within.display())))
}

/// Ends when the scheduler is there and does not take the token.
async fn refusal(scheduler: &SchedulerAddress) {
    loop {
        match greet(scheduler).await {
            Greeting::Refused => return,
            Greeting::Welcome => std::future::pending::<()>().await,
            Greeting::Silent(_) => tokio::time::sleep(KNOCK).await,
        }
    }
}

fn executor_config(
    scheduler: &SchedulerAddress,
    listen: SocketAddr,
    cores: usize,
    memory: u64,
    folder: &Path,
) -> Result<ExecutorProcessConfig, QueryError> {
    let token = scheduler.token.clone();
    let of_all = state(session_config(&token)).map_err(wrong)?;
    let spill = folder.to_path_buf();
    Ok(ExecutorProcessConfig {
        bind_host: listen.ip().to_string(),
        external_host: Some(listen.ip()).filter(|ip| !ip.is_unspecified()).map(|ip: IpAddr| ip.to_string()),
        port: listen.port(),
        scheduler_host: scheduler.host.clone(),
        scheduler_port: scheduler.port,
        scheduler_connect_timeout_seconds: 10,
        vcores: cores,
        task_scheduling_policy: TaskSchedulingPolicy::PullStaged,
        work_dir: Some(folder.display().to_string()),
        grpc_max_decoding_message_size: MESSAGE,
        grpc_max_encoding_message_size: MESSAGE,
        executor_heartbeat_interval_seconds: 1,
        memory_pool_size: Some(memory),
        override_function_registry: Some(Arc::new(BallistaFunctionRegistry::from(&of_all))),
        override_runtime_producer: Some(Arc::new(move |_| environment().with_temp_file_path(&spill).build_arc())),
        override_create_grpc_client_endpoint: Some(token.in_requests()),
        override_arrow_flight_service: Some(results(token.clone())),
        override_config_producer: Some(Arc::new(move || session_config(&token))),
        override_logical_codec: Some(Arc::new(Codec::default())),
        ..ExecutorProcessConfig::default()
    })
}

/// Serves what an executor made to those who have the token; otherwise as Ballista does it.
fn results(token: ClusterToken) -> Arc<ArrowFlightServerProvider> {
    Arc::new(move |folder, listen, mut shutdown, config| {
        let check = TokenCheck(token.clone());
        tokio::spawn(async move {
            let service = FlightServiceServer::new(BallistaFlightService::new(folder))
                .max_decoding_message_size(MESSAGE as usize)
                .max_encoding_message_size(MESSAGE as usize);
            let incoming = create_grpc_server_incoming(listen, &config)?;
            let server = create_grpc_server(&config).add_service(InterceptedService::new(service, check));
            let served = server.serve_with_incoming_shutdown(incoming, shutdown.recv());
            served.await.map_err(BallistaError::TonicError)
        })
    })
}

/// A context of which all queries run on the cluster of this scheduler.
pub(crate) async fn connect(scheduler: &SchedulerAddress) -> Result<SessionContext, QueryError> {
    let at = scheduler.authority();
    let wrong = |why: String| QueryError::Query(format!("no scheduler at {at}: {why}"));
    match greet(scheduler).await {
        Greeting::Welcome => {}
        Greeting::Refused => return Err(refused(scheduler, "--cluster-token-file")),
        Greeting::Silent(why) => return Err(wrong(why)),
    }
    let state = state(session_config(&scheduler.token)).map_err(|error| wrong(error.to_string()))?;
    let context = SessionContext::remote_with_state(&format!("df://{at}"), state).await;
    let context = context.map_err(|error| wrong(error.to_string()))?;
    functions::register(&context);
    Ok(context)
}

fn session_config(token: &ClusterToken) -> SessionConfig {
    crate::engine::session_config(SessionConfig::new_with_ballista())
        .with_ballista_logical_extension_codec(Arc::new(Codec::default()))
        .with_ballista_adaptive_query_planner(false)
        .with_ballista_grpc_client_max_message_size(MESSAGE as usize)
        .with_ballista_override_create_grpc_client_endpoint(token.in_requests())
}

fn state(config: SessionConfig) -> Result<SessionState> {
    let builder = SessionStateBuilder::new().with_default_features().with_config(config);
    let mut state = builder.with_runtime_env(environment().build_arc()?).build();
    for function in functions::scalar() {
        // Nothing of ours has the name of another.
        let _ = state.register_udf(Arc::new(function));
    }
    for function in functions::aggregate() {
        let _ = state.register_udaf(Arc::new(function));
    }
    Ok(state)
}

/// Our tables on their way; everything else is Ballista's.
#[derive(Debug, Default)]
struct Codec(BallistaLogicalExtensionCodec);

/// What a table on its way begins with.
const OF_FILES: u8 = 1;
const OF_ROWS: u8 = 2;

impl LogicalExtensionCodec for Codec {
    fn try_decode_table_provider(
        &self,
        bytes: &[u8],
        name: &TableReference,
        schema: SchemaRef,
        context: &TaskContext,
    ) -> Result<Arc<dyn TableProvider>> {
        match bytes {
            [OF_FILES, rest @ ..] => Ok(Arc::new(ParquetTable::from_bytes(rest)?)),
            [OF_ROWS, rest @ ..] => Ok(Arc::new(MemoryTable::from_bytes(rest)?)),
            [] => plan_err!("the table {name} is nothing"),
            _ => self.0.try_decode_table_provider(bytes, name, schema, context),
        }
    }

    fn try_encode_table_provider(
        &self,
        name: &TableReference,
        table: Arc<dyn TableProvider>,
        bytes: &mut Vec<u8>,
    ) -> Result<()> {
        let any: &dyn std::any::Any = table.as_ref();
        if let Some(table) = any.downcast_ref::<ParquetTable>() {
            bytes.push(OF_FILES);
            bytes.extend(table.to_bytes()?);
        } else if let Some(table) = any.downcast_ref::<MemoryTable>() {
            bytes.push(OF_ROWS);
            bytes.extend(table.to_bytes()?);
        } else {
            return self.0.try_encode_table_provider(name, table, bytes);
        }
        Ok(())
    }

    fn try_decode(&self, bytes: &[u8], inputs: &[LogicalPlan], context: &TaskContext) -> Result<Extension> {
        self.0.try_decode(bytes, inputs, context)
    }

    fn try_encode(&self, node: &Extension, bytes: &mut Vec<u8>) -> Result<()> {
        self.0.try_encode(node, bytes)
    }

    fn try_decode_file_format(&self, bytes: &[u8], context: &TaskContext) -> Result<Arc<dyn FileFormatFactory>> {
        self.0.try_decode_file_format(bytes, context)
    }

    fn try_encode_file_format(&self, bytes: &mut Vec<u8>, node: Arc<dyn FileFormatFactory>) -> Result<()> {
        self.0.try_encode_file_format(bytes, node)
    }

    fn try_decode_udf(&self, name: &str, bytes: &[u8]) -> Result<Arc<ScalarUDF>> {
        match functions::scalar().into_iter().find(|function| function.name() == name) {
            Some(function) => Ok(Arc::new(function)),
            None => self.0.try_decode_udf(name, bytes),
        }
    }

    fn try_encode_udf(&self, function: &ScalarUDF, bytes: &mut Vec<u8>) -> Result<()> {
        self.0.try_encode_udf(function, bytes)
    }

    fn try_decode_udaf(&self, name: &str, bytes: &[u8]) -> Result<Arc<AggregateUDF>> {
        match functions::aggregate().into_iter().find(|function| function.name() == name) {
            Some(function) => Ok(Arc::new(function)),
            None => self.0.try_decode_udaf(name, bytes),
        }
    }

    fn try_encode_udaf(&self, function: &AggregateUDF, bytes: &mut Vec<u8>) -> Result<()> {
        self.0.try_encode_udaf(function, bytes)
    }
}
