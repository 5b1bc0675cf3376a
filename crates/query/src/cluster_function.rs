//! Work on a cluster that is not a query of a store: a function of the program's own, applied to many texts.

use crate::QueryError;
use crate::cluster_access::SchedulerAddress;
use crate::columns::ResultColumns;
use crate::engine::{EngineLimits, QueryEngine, wrong};
use crate::table::MemoryTable;
use datafusion::arrow::array::{Array, ArrayRef, AsArray, RecordBatch, StringArray, UInt64Array};
use datafusion::arrow::datatypes::{DataType, Field, Schema};
use datafusion::common::Result;
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility};
use std::hash::{Hash, Hasher};
use std::sync::{Arc, OnceLock};

/// A function: of what is the same for all, and of what is one's own.
pub type ClusterFunction = fn(&str, &str) -> String;

/// Parts of the work at most: each is a task.
const PARTS: usize = 256;

static OFFERED: OnceLock<(&'static str, ClusterFunction)> = OnceLock::new();

/// Offers a function under a name that SQL may call it by. Scheduler, executors and whoever asks all have to, and there is
/// one.
pub fn register_cluster_function(name: &'static str, function: ClusterFunction) {
    OFFERED.get_or_init(|| (name, function));
}

/// What is offered.
pub(crate) fn registered() -> Option<ScalarUDF> {
    OFFERED.get().map(|&(name, function)| {
        ScalarUDF::from(Offered { name, function, takes: Signature::string(2, Volatility::Immutable) })
    })
}

/// Has the cluster of this scheduler apply what is offered to every one of `own`; the results, in the same order.
pub fn run_on_cluster(
    scheduler: &SchedulerAddress,
    limits: EngineLimits,
    common: &str,
    own: Vec<String>,
) -> Result<Vec<String>, QueryError> {
    let Some(&(name, _)) = OFFERED.get() else { return Err(QueryError::Query("no function is offered".to_string())) };
    let engine = QueryEngine::without_store(limits, scheduler)?;
    let count = own.len();
    engine.table("work", parts(own).map_err(wrong)?).map_err(wrong)?;
    let mut results = vec![None; count];
    let mut failed = Ok(());
    let query = format!("select number, {name}('{}', own) as result from work", common.replace('\'', "''"));
    engine.query(&query, &mut |_, batch| {
        failed = batch.map_or(Ok(()), |batch| take(batch, &mut results));
        Ok(failed.is_ok())
    })?;
    failed?;
    let whole: Option<Vec<String>> = results.into_iter().collect();
    whole.ok_or_else(|| QueryError::Query("some results are missing".to_string()))
}

fn parts(own: Vec<String>) -> Result<MemoryTable> {
    let field = |name, kind| Field::new(name, kind, false);
    let schema = Arc::new(Schema::new(vec![field("number", DataType::UInt64), field("own", DataType::Utf8)]));
    let size = own.len().div_ceil(PARTS).max(1);
    let part = |(at, own): (usize, &[String])| {
        let from = (at * size) as u64;
        let numbers: ArrayRef = Arc::new((from..from + own.len() as u64).collect::<UInt64Array>());
        let own: ArrayRef = Arc::new(StringArray::from_iter_values(own));
        RecordBatch::try_new(schema.clone(), vec![numbers, own])
    };
    let parts = own.chunks(size).enumerate().map(part).collect::<Result<Vec<_>, _>>()?;
    MemoryTable::new(schema, parts)
}

fn take(batch: &RecordBatch, results: &mut [Option<String>]) -> Result<(), QueryError> {
    let columns = ResultColumns(batch);
    let (numbers, texts) = (columns.numbers("number")?, columns.words("result")?);
    for row in 0..batch.num_rows() {
        if let Some(place) = results.get_mut(numbers.value(row) as usize) {
            *place = Some(texts.value(row).to_string());
        }
    }
    Ok(())
}

#[derive(Debug)]
struct Offered {
    name: &'static str,
    function: ClusterFunction,
    takes: Signature,
}

impl PartialEq for Offered {
    fn eq(&self, other: &Offered) -> bool {
        self.name == other.name
    }
}

impl Eq for Offered {}

impl Hash for Offered {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl ScalarUDFImpl for Offered {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.takes
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let columns = ColumnarValue::values_to_arrays(&args.args)?;
        let texts = |at: usize| datafusion::arrow::compute::cast(&columns[at], &DataType::Utf8);
        let (common, own) = (texts(0)?, texts(1)?);
        let (common, own) = (common.as_string::<i32>(), own.as_string::<i32>());
        let result = |row: usize| Some((self.function)(common.value(row), own.value(row)));
        let results: ArrayRef = Arc::new((0..own.len()).map(result).collect::<StringArray>());
        Ok(ColumnarValue::Array(results))
    }
}
