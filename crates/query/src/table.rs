//! Tables: of many files (`exits`, `reason_stats`, …), and of rows in memory.

use async_trait::async_trait;
use datafusion::arrow::array::{Array, BooleanArray, RecordBatch};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
#[cfg(feature = "cluster")]
use datafusion::arrow::ipc::{reader::StreamReader, writer::StreamWriter};
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DFSchema, DataFusionError, Result, ScalarValue, Statistics, plan_err};
use datafusion::datasource::MemTable;
use datafusion::datasource::TableType;
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::{FileGroup, FileScanConfigBuilder, ParquetSource};
use datafusion::datasource::source::DataSourceExec;
use datafusion::datasource::source_as_provider;
use datafusion::datasource::table_schema::TableSchema;
use datafusion::execution::SessionState;
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::logical_expr::expr_rewriter::unnormalize_cols;
use datafusion::logical_expr::utils::conjunction;
use datafusion::logical_expr::{Expr, LogicalPlan, TableProviderFilterPushDown, TableScan};
use datafusion::object_store::path::Path;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::empty::EmptyExec;
use exitscope_store::{DataFile, StoreError, VerifiedBytes, VerifiedFiles, schema};
use serde::{Deserialize, Serialize};
use std::any::Any;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The columns that folders say.
const FOLDERS: [&str; 2] = ["host", "day"];

/// Files of one table.
#[derive(Debug)]
pub(crate) struct ParquetTable {
    origin: Origin,
    schema: TableSchema,
    url: ObjectStoreUrl,
    files: Vec<PartitionedFile>,
}

/// Files that this process found to be as they were written, whichever engine asked for them.
static VERIFIED: LazyLock<VerifiedFiles> = LazyLock::new(VerifiedFiles::default);

/// What comparing files with their hashes takes.
#[derive(Debug, Default)]
pub(crate) struct Verification(Mutex<(VerifiedBytes, Duration)>);

impl Verification {
    pub(crate) fn so_far(&self) -> (VerifiedBytes, Duration) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, more: VerifiedBytes, took: Duration) {
        let mut sum = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        sum.0.files += more.files;
        sum.0.bytes += more.bytes;
        sum.1 += took;
    }
}

/// What a table of files is made from.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Origin {
    /// Which: one of [`exitscope_store::TABLES`].
    pub table: String,
    /// The address of what holds the files.
    pub url: String,
    /// The path to the store there.
    pub prefix: String,
    /// The files.
    pub pieces: Vec<DataFile>,
}

impl ParquetTable {
    /// A table of these files.
    pub(crate) fn new(origin: Origin) -> Result<ParquetTable> {
        let Some(columns) = schema(&origin.table) else { return plan_err!("there is no table {}", origin.table) };
        let folders: Vec<FieldRef> = vec![
            Arc::new(Field::new(FOLDERS[0], words(), false)),
            Arc::new(Field::new(FOLDERS[1], DataType::Date32, false)),
        ];
        let schema = TableSchema::builder(flat(&columns)).with_table_partition_cols(folders).build();
        let unknown = Statistics::new_unknown(schema.table_schema());
        let file = |piece: &DataFile| file(&origin.prefix, piece, &unknown);
        let files: Result<Vec<PartitionedFile>> = origin.pieces.iter().map(file).collect();
        Ok(ParquetTable { url: ObjectStoreUrl::parse(&origin.url)?, schema, files: files?, origin })
    }

    /// For another process.
    #[cfg(feature = "cluster")]
    pub(crate) fn to_bytes(&self) -> Result<Vec<u8>> {
        serde_json::to_vec(&self.origin).map_err(|error| DataFusionError::External(error.into()))
    }

    /// Of another process.
    #[cfg(feature = "cluster")]
    pub(crate) fn from_bytes(bytes: &[u8]) -> Result<ParquetTable> {
        ParquetTable::new(serde_json::from_slice(bytes).map_err(|error| DataFusionError::External(error.into()))?)
    }

    /// What is known of the rows of these files: how many.
    fn sum_of(&self, files: &[PartitionedFile]) -> Statistics {
        let rows = |file: &PartitionedFile| file.statistics.as_ref().and_then(|of| of.num_rows.get_value().copied());
        let sum = files.iter().filter_map(rows).sum();
        Statistics::new_unknown(&self.schema()).with_num_rows(Precision::Exact(sum))
    }

    /// The places in `files` of those that may have rows of which these conditions hold, as far as they are on host and day.
    /// The optimizer sees to it that the other conditions get to the files.
    fn places(&self, state: &dyn Session, conditions: &[Expr]) -> Result<Vec<usize>> {
        let conditions = conditions.iter().filter(|condition| of_folders(condition)).cloned();
        let Some(condition) = conjunction(conditions).filter(|_| !self.files.is_empty()) else {
            return Ok((0..self.files.len()).collect());
        };
        let schema = Arc::new(Schema::new(self.schema.table_partition_cols().clone()));
        let column =
            |at: usize| ScalarValue::iter_to_array(self.files.iter().map(|file| file.partition_values[at].clone()));
        let folders = RecordBatch::try_new(schema.clone(), vec![column(0)?, column(1)?])?;
        let condition = state.create_physical_expr(condition, &DFSchema::try_from(schema)?)?;
        let holds = condition.evaluate(&folders)?.into_array(self.files.len())?;
        let holds = holds.as_any().downcast_ref::<BooleanArray>();
        let holds = |at: usize| holds.is_none_or(|holds| holds.is_valid(at) && holds.value(at));
        Ok((0..self.files.len()).filter(|at| holds(*at)).collect())
    }

    /// Compares the files that a scan under these conditions reads with their hashes.
    async fn verify(&self, state: &dyn Session, conditions: &[Expr], cost: &Verification) -> Result<()> {
        let objects = state.runtime_env().object_store(&self.url)?;
        let Origin { url, prefix, pieces, .. } = &self.origin;
        let began = Instant::now();
        let files: Vec<DataFile> = self.places(state, conditions)?.iter().map(|&at| pieces[at].clone()).collect();
        let verified = VERIFIED.verify(&objects, (url, prefix), files).await;
        let verified = verified.map_err(|damaged| DataFusionError::External(StoreError::Damaged(damaged).into()))?;
        cost.add(verified, began.elapsed());
        Ok(())
    }
}

/// Compares all files that a plan reads with their hashes, before anything is answered from them. Whoever asks does so, also
/// of a cluster: its scheduler need not reach the files.
pub(crate) async fn verify_scans(state: &SessionState, plan: &LogicalPlan, cost: &Verification) -> Result<()> {
    let mut scans: Vec<TableScan> = Vec::new();
    state.optimize(plan)?.apply_with_subqueries(|node| {
        scans.extend(match node {
            LogicalPlan::TableScan(scan) => Some(scan.clone()),
            _ => None,
        });
        Ok(TreeNodeRecursion::Continue)
    })?;
    for TableScan { source, filters, .. } in scans {
        let provider = source_as_provider(&source)?;
        let provider: &dyn Any = provider.as_ref();
        if let Some(table) = provider.downcast_ref::<ParquetTable>() {
            // As a scan is given them.
            table.verify(state, &unnormalize_cols(filters), cost).await?;
        }
    }
    Ok(())
}

#[async_trait]
impl TableProvider for ParquetTable {
    fn schema(&self) -> SchemaRef {
        self.schema.table_schema().clone()
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn statistics(&self) -> Option<Statistics> {
        Some(self.sum_of(&self.files))
    }

    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> Result<Vec<TableProviderFilterPushDown>> {
        let of = |filter: &&Expr| match of_folders(filter) {
            true => TableProviderFilterPushDown::Exact,
            false => TableProviderFilterPushDown::Inexact,
        };
        Ok(filters.iter().map(of).collect())
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let places = self.places(state, filters)?;
        let files: Vec<PartitionedFile> = places.into_iter().map(|at| self.files[at].clone()).collect();
        if files.is_empty() {
            let schema = datafusion::common::project_schema(&self.schema(), projection)?;
            return Ok(Arc::new(EmptyExec::new(schema)));
        }
        let mut options = state.default_table_options().parquet;
        options.global = state.config_options().execution.parquet.clone();
        let source = ParquetSource::new(self.schema.clone()).with_table_parquet_options(options);
        let statistics = self.sum_of(&files);
        let groups = FileGroup::new(files).split_files(state.config_options().execution.target_partitions);
        let scan = FileScanConfigBuilder::new(self.url.clone(), Arc::new(source))
            .with_file_groups(groups)
            .with_statistics(statistics)
            .with_projection_indices(projection.cloned())?
            .with_limit(limit)
            .build();
        Ok(DataSourceExec::from_data_source(scan))
    }
}

/// A table of rows in memory.
#[derive(Debug)]
pub(crate) struct MemoryTable {
    #[cfg_attr(not(feature = "cluster"), expect(dead_code))]
    parts: Vec<RecordBatch>,
    table: MemTable,
}

impl MemoryTable {
    /// A table of these rows, of which each part may be worked on by itself.
    pub(crate) fn new(schema: SchemaRef, parts: Vec<RecordBatch>) -> Result<MemoryTable> {
        let table = MemTable::try_new(schema, parts.iter().map(|part| vec![part.clone()]).collect())?;
        Ok(MemoryTable { parts, table })
    }

    /// For another process.
    #[cfg(feature = "cluster")]
    pub(crate) fn to_bytes(&self) -> Result<Vec<u8>> {
        let mut writer = StreamWriter::try_new(Vec::new(), &self.table.schema())?;
        self.parts.iter().try_for_each(|part| writer.write(part))?;
        Ok(writer.into_inner()?)
    }

    /// Of another process.
    #[cfg(feature = "cluster")]
    pub(crate) fn from_bytes(bytes: &[u8]) -> Result<MemoryTable> {
        let reader = StreamReader::try_new(bytes, None)?;
        let schema = reader.schema();
        MemoryTable::new(schema, reader.collect::<std::result::Result<_, _>>()?)
    }
}

#[async_trait]
impl TableProvider for MemoryTable {
    fn schema(&self) -> SchemaRef {
        self.table.schema()
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.table.scan(state, projection, filters, limit).await
    }
}

fn words() -> DataType {
    DataType::Dictionary(Box::new(DataType::UInt16), Box::new(DataType::Utf8))
}

/// Words are read as they are, and not as numbers of a dictionary: grouping by them is faster so.
fn flat(columns: &SchemaRef) -> SchemaRef {
    let of = |field: &FieldRef| match field.data_type() {
        DataType::Dictionary(..) | DataType::Utf8 => {
            Arc::new(field.as_ref().clone().with_data_type(DataType::Utf8View))
        }
        _ => field.clone(),
    };
    Arc::new(Schema::new(columns.fields().iter().map(of).collect::<Vec<_>>()))
}

fn file(prefix: &str, piece: &DataFile, unknown: &Statistics) -> Result<PartitionedFile> {
    let path = format!("{prefix}/{}", piece.path);
    let host = ScalarValue::Dictionary(Box::new(DataType::UInt16), Box::new(ScalarValue::from(piece.host.as_str())));
    let day = ScalarValue::try_from_string(piece.day.clone(), &DataType::Date32)?;
    let rows = unknown.clone().with_num_rows(Precision::Exact(piece.rows as usize));
    let mut file = PartitionedFile::new(String::new(), piece.bytes);
    // It is spelt as object stores want it; `new` would spell it so once more.
    file.object_meta.location = Path::parse(path).map_err(|error| DataFusionError::External(error.into()))?;
    Ok(file.with_partition_values(vec![host, day]).with_statistics(Arc::new(rows)))
}

/// Whether a condition is on nothing but the columns that folders say.
fn of_folders(condition: &Expr) -> bool {
    let columns = condition.column_refs();
    !columns.is_empty() && !condition.is_volatile() && columns.iter().all(|column| FOLDERS.contains(&column.name()))
}
