//! Queries, and their limits.

#[cfg(feature = "cluster")]
use crate::cluster_access::SchedulerAddress;
use crate::functions;
use crate::object_stores::environment;
use crate::recordings;
use crate::table::{Origin, ParquetTable, Verification, verify_scans};
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::DataFusionError;
use datafusion::execution::context::{SQLOptions, SessionConfig, SessionContext};
use datafusion::execution::memory_pool::{FairSpillPool, TrackConsumersPool};
use exitscope_store::{
    DamagedFile, DataFile, FileCheck, RecordingRow, Store, StoreError, StoredTrialRow, VerifiedBytes,
};
use exitscope_units::Nanos;
use futures::StreamExt;
use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc::channel;
use tokio::time::{Instant, timeout_at};

/// The tables.
pub const TABLES: [&str; 10] =
    ["exits", "reason_stats", "halts", "gangs", "recordings", "hosts", "vms", "knobs", "advice", "trials"];

/// Batches of rows that wait to be taken, at most.
const WAITING: usize = 4;

/// What a query may take.
#[derive(Clone, Copy, Debug)]
pub struct EngineLimits {
    /// Bytes of memory for what is sorted, grouped and joined; what does not fit goes to disk where it can.
    pub memory: u64,
    /// Time from its begin to its last row.
    pub time: Duration,
    /// Cores.
    pub threads: usize,
}

/// Why a query has no answer.
#[derive(Debug, thiserror::Error)]
pub enum QueryError {
    /// The store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// It is wrong, or a file is damaged.
    #[error("{0}")]
    Query(String),
    /// It needs too much memory.
    #[error("the query needs more memory than it may have ({} MiB): {}", .0 >> 20, .1)]
    Memory(u64, String),
    /// The cluster lost an executor, several times.
    #[error("the cluster lost an executor meanwhile, {ATTEMPTS} times: {0}")]
    Lost(String),
    /// It takes too long.
    #[error("the query has no answer after {0}, and may take no longer")]
    Time(Nanos),
    /// Its rows were not taken.
    #[error("its rows cannot be written")]
    Taken(#[from] std::io::Error),
}

/// Who takes the columns and the rows of an answer.
pub type BatchCallback<'a> = &'a mut dyn FnMut(&SchemaRef, Option<&RecordBatch>) -> std::io::Result<bool>;

/// What errors of decoders add where no hash was compared: they do not name the file.
const MAY_BE_DAMAGED: &str = "a file may be damaged: `exitscope store check` names it";

/// How often a cluster is asked at most.
const ATTEMPTS: u32 = 4;

/// Asks a store.
pub struct QueryEngine {
    context: SessionContext,
    /// Runs queries. Always there, until the end.
    runtime: Option<Runtime>,
    /// Keeps time while they run: the other one may not get to it.
    waiting: Runtime,
    limits: EngineLimits,
    /// How often it asks at most.
    attempts: u32,
    /// The newest entry of the store's log that it knows.
    newest: u64,
    runs: Vec<RecordingRow>,
    check: FileCheck,
    left_out: Vec<DamagedFile>,
    verification: Arc<Verification>,
}

impl QueryEngine {
    /// Opens a store for queries that this process answers.
    pub fn open(store: &Store, limits: EngineLimits, check: FileCheck) -> Result<QueryEngine, QueryError> {
        let pool = FairSpillPool::new(limits.memory as usize);
        let named = NonZeroUsize::new(3).unwrap_or(NonZeroUsize::MIN);
        let environment = environment()
            .with_memory_pool(Arc::new(TrackConsumersPool::new(pool, named)))
            .build_arc()
            .map_err(wrong)?;
        let config = session_config(SessionConfig::new()).with_target_partitions(limits.threads.max(1));
        let context = SessionContext::new_with_config_rt(config, environment);
        functions::register(&context);
        QueryEngine::new(limits, workers(limits)?, context, 1)?.with(store, check)
    }

    /// Opens a store for queries that the cluster of this scheduler answers. Memory is bounded by its executors.
    #[cfg(feature = "cluster")]
    pub fn on_cluster(
        store: &Store,
        limits: EngineLimits,
        scheduler: &SchedulerAddress,
        check: FileCheck,
    ) -> Result<QueryEngine, QueryError> {
        QueryEngine::without_store(limits, scheduler)?.with(store, check)
    }

    /// For what the cluster of this scheduler is to do without a store.
    #[cfg(feature = "cluster")]
    pub(crate) fn without_store(limits: EngineLimits, scheduler: &SchedulerAddress) -> Result<QueryEngine, QueryError> {
        let runtime = workers(limits)?;
        let context = runtime.block_on(crate::cluster::connect(scheduler))?;
        QueryEngine::new(limits, runtime, context, ATTEMPTS)
    }

    fn new(
        limits: EngineLimits,
        runtime: Runtime,
        context: SessionContext,
        attempts: u32,
    ) -> Result<QueryEngine, QueryError> {
        let waiting = Builder::new_current_thread().enable_time().build()?;
        Ok(QueryEngine {
            context,
            runtime: Some(runtime),
            waiting,
            limits,
            attempts,
            newest: 0,
            runs: Vec::new(),
            check: FileCheck::Hashes,
            left_out: Vec::new(),
            verification: Arc::default(),
        })
    }

    fn with(mut self, store: &Store, check: FileCheck) -> Result<QueryEngine, QueryError> {
        self.check = check;
        self.load(store)?;
        Ok(self)
    }

    /// Looks whether the store has changed since, and if so asks what belongs to it now; whether it has. Whoever keeps an
    /// engine open does so before each query: files that were joined or dropped are removed a day later.
    pub fn refresh(&mut self, store: &Store) -> Result<bool, QueryError> {
        let changed = store.newest()? != self.newest;
        if changed {
            self.load(store)?;
        }
        Ok(changed)
    }

    fn load(&mut self, store: &Store) -> Result<(), QueryError> {
        let contents = store.contents()?;
        let (pieces, left_out) = match self.check {
            // Those that a query needs are compared with their hashes before it.
            FileCheck::Hashes => (contents.pieces.values().cloned().collect(), Vec::new()),
            FileCheck::Ends => store.readable(&contents)?,
        };
        let newest = contents.number;
        self.runs = contents.runs.into_values().collect();
        let trials: Vec<StoredTrialRow> = contents.trials.into_values().collect();
        self.left_out = left_out;
        TABLES.iter().try_for_each(|table| self.context.deregister_table(*table).map(drop)).map_err(wrong)?;
        self.register(store, &pieces, &trials).map_err(wrong)?;
        self.newest = newest;
        Ok(())
    }

    /// Adds a table.
    #[cfg(feature = "cluster")]
    pub(crate) fn table(&self, name: &str, table: crate::table::MemoryTable) -> Result<(), DataFusionError> {
        self.context.register_table(name, Arc::new(table)).map(drop)
    }

    fn register(&self, store: &Store, pieces: &[DataFile], trials: &[StoredTrialRow]) -> Result<(), DataFusionError> {
        let (url, prefix) = store.address();
        for table in exitscope_store::TABLES {
            let pieces = pieces.iter().filter(|piece| piece.table == table).cloned().collect();
            let (url, prefix) = (url.to_string(), prefix.to_string());
            let provider = ParquetTable::new(Origin { table: table.to_string(), url, prefix, pieces })?;
            self.context.register_table(table, Arc::new(provider))?;
        }
        self.context.register_table("recordings", Arc::new(recordings::runs(&self.runs)?))?;
        self.context.register_table("hosts", Arc::new(recordings::hosts(&self.runs)?))?;
        self.context.register_table("vms", Arc::new(recordings::vms(&self.runs)?))?;
        self.context.register_table("knobs", Arc::new(recordings::knobs(&self.runs)?))?;
        self.context.register_table("advice", Arc::new(recordings::advice(&self.runs)?))?;
        self.context.register_table("trials", Arc::new(recordings::trials(trials)?))?;
        Ok(())
    }

    /// The recordings of the store.
    pub fn runs(&self) -> &[RecordingRow] {
        &self.runs
    }

    /// Files that queries leave out, as they cannot be read; only [`FileCheck::Ends`] leaves any out.
    pub fn left_out(&self) -> &[DamagedFile] {
        &self.left_out
    }

    /// What comparing files with their hashes has taken so far.
    pub fn verified(&self) -> (VerifiedBytes, Duration) {
        self.verification.so_far()
    }

    /// Answers a query. `take` gets the columns, and batches of rows as they come; `None` comes first, so that columns
    /// are known where there are no rows. It may say that it has enough. On a cluster that lost an executor meanwhile, the
    /// query is asked again, from the columns on.
    pub fn query(&self, sql: &str, take: BatchCallback<'_>) -> Result<(), QueryError> {
        let end = Instant::now() + self.limits.time;
        for _ in 1..self.attempts {
            match self.attempt(sql, end, take) {
                Err(QueryError::Lost(_)) => {}
                done => return done,
            }
        }
        self.attempt(sql, end, take)
    }

    fn attempt(&self, sql: &str, end: Instant, take: BatchCallback<'_>) -> Result<(), QueryError> {
        let only_reads = SQLOptions::new().with_allow_ddl(false).with_allow_dml(false).with_allow_statements(false);
        let (send, mut rows) = channel(WAITING);
        let (context, sql) = (self.context.clone(), sql.to_string());
        let cost = (self.check == FileCheck::Hashes).then(|| self.verification.clone());
        let work = async move {
            let answer = async {
                let asked = context.sql_with_options(&sql, only_reads).await?;
                if let Some(cost) = cost {
                    verify_scans(&context.state(), asked.logical_plan(), &cost).await?;
                }
                let mut rows = asked.execute_stream().await?;
                let columns = rows.schema();
                // Nobody listens any more if there were enough.
                let mut heard = send.send(Ok((columns.clone(), None))).await.is_ok();
                while heard && let Some(batch) = rows.next().await {
                    heard = send.send(Ok((columns.clone(), Some(batch?)))).await.is_ok();
                }
                Ok(())
            };
            if let Err(error) = answer.await {
                let _ = send.send(Err(error)).await;
            }
        };
        let mut task = self.runtime().spawn(work);
        let mut taken = false;
        loop {
            match self.waiting.block_on(async { timeout_at(end, rows.recv()).await }) {
                // What ended in a panic has no whole answer.
                Ok(None) => {
                    let ended = self.waiting.block_on(&mut task);
                    return ended.map_err(|error| match self.check {
                        FileCheck::Hashes => QueryError::Query(format!("the query broke off: {error}")),
                        FileCheck::Ends => QueryError::Query(format!("the query broke off: {error}; {MAY_BE_DAMAGED}")),
                    });
                }
                Ok(Some(Ok((columns, batch)))) => {
                    taken |= batch.is_some();
                    if !take(&columns, batch.as_ref())? {
                        return Ok(());
                    }
                }
                // Rows that were taken cannot be given back.
                Ok(Some(Err(error))) => return Err(self.failed(error, !taken)),
                Err(_) => {
                    task.abort();
                    return Err(QueryError::Time(Nanos(self.limits.time.as_nanos() as u64)));
                }
            }
        }
    }

    /// The columns of a table.
    pub fn columns(&self, table: &str) -> Vec<String> {
        let provider = self.runtime().block_on(self.context.table_provider(table)).ok();
        let schema = provider.map(|provider| provider.schema());
        schema.iter().flat_map(|schema| schema.fields().iter().map(|field| field.name().clone())).collect()
    }

    /// All names that a query may have: tables, columns, functions.
    pub fn words(&self) -> BTreeSet<String> {
        let state = self.context.state();
        let (scalar, aggregate) = (state.scalar_functions(), state.aggregate_functions());
        let functions = scalar.keys().chain(aggregate.keys()).chain(state.window_functions().keys());
        let tables = TABLES.into_iter().flat_map(|table| {
            let mut names = self.columns(table);
            names.push(table.to_string());
            names
        });
        functions.cloned().chain(tables).collect()
    }

    fn runtime(&self) -> &Runtime {
        self.runtime.as_ref().expect("it is there until the engine is dropped")
    }

    fn failed(&self, error: DataFusionError, again: bool) -> QueryError {
        if again && self.attempts > 1 && is_lost(&error.to_string()) {
            return QueryError::Lost(error.strip_backtrace());
        }
        match error.find_root() {
            DataFusionError::ResourcesExhausted(why) => QueryError::Memory(self.limits.memory, why.clone()),
            DataFusionError::External(own) if own.is::<StoreError>() => QueryError::Query(own.to_string()),
            DataFusionError::ParquetError(_) if self.check == FileCheck::Ends => {
                QueryError::Query(format!("{}; {MAY_BE_DAMAGED}", error.strip_backtrace()))
            }
            _ => wrong(error),
        }
    }
}

impl Drop for QueryEngine {
    /// What a query that was given up is still at need not be waited for.
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// What is the same wherever a query runs.
pub(crate) fn session_config(config: SessionConfig) -> SessionConfig {
    config.with_information_schema(true).set_bool("datafusion.execution.parquet.pushdown_filters", true)
}

fn workers(limits: EngineLimits) -> std::io::Result<Runtime> {
    Builder::new_multi_thread().worker_threads(limits.threads.max(1)).enable_all().build()
}

/// Whether an error of a cluster means that an executor was lost, so that a query may be asked again.
fn is_lost(error: &str) -> bool {
    ["Cancelled", "failed 1 times", "FetchFailed", "transport error", "Connection refused", "connection closed"]
        .iter()
        .any(|words| error.contains(words))
}

pub(crate) fn wrong(error: DataFusionError) -> QueryError {
    QueryError::Query(error.strip_backtrace())
}
