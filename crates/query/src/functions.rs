//! What SQL alone does not have.

use datafusion::arrow::array::{Array, ArrayRef, AsArray, ListArray, StringArray, StructArray, UInt64Array};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Fields, UInt64Type};
use datafusion::common::{Result, ScalarValue, exec_err, plan_err};
use datafusion::execution::context::SessionContext;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
    Signature, Volatility,
};
use exitscope_model::{CodeList, ExitCode};
use exitscope_stats::FineBuckets;
use exitscope_units::Nanos;
use std::sync::Arc;

/// A function of ours, for docs and help.
#[derive(Clone, Copy, Debug)]
pub struct SqlFunction {
    /// How it is called.
    pub call: &'static str,
    /// What it gives.
    pub gives: &'static str,
}

/// Our functions.
pub const FUNCTIONS: [SqlFunction; 5] = [
    SqlFunction {
        call: "histogram_percentile(bucket_ns, bucket_count, p)",
        gives: "Aggregate: the length below or at which p per cent of the exits (or halts, with gap_bucket_ns and gap_bucket_count, …) are, \
                in nanoseconds, exact to the buckets (1/32)",
    },
    SqlFunction {
        call: "histogram_share_over(bucket_ns, bucket_count, length)",
        gives: "Aggregate: the share of exits in buckets that begin at this length ('100us', or a number of \
                nanoseconds) or above, 0 to 1",
    },
    SqlFunction {
        call: "histogram_merge(bucket_ns, bucket_count)",
        gives: "Aggregate: the distribution of all of them, with the fields bucket_ns and bucket_count",
    },
    SqlFunction {
        call: "time_bucket(width, at_ns)",
        gives: "The begin of the bucket of time that a moment is in, in nanoseconds; the width like '10ms', or a number of \
                nanoseconds",
    },
    SqlFunction {
        call: "exit_name(list, code)",
        gives: "The kernel's name of an exit code; the list is vmx, svm, arm64, arm64_ec, s390, book3s, booke, \
                riscv, loongarch or kvm (KVM's own KVM_EXIT_*)",
    },
];

/// Adds them to a context.
pub(crate) fn register(context: &SessionContext) {
    aggregate().into_iter().for_each(|function| context.register_udaf(function));
    scalar().into_iter().for_each(|function| context.register_udf(function));
}

/// Those of many rows.
pub(crate) fn aggregate() -> Vec<AggregateUDF> {
    [What::Percentile, What::ShareOver, What::Merge].map(|what| AggregateUDF::from(Lengths::new(what))).into()
}

/// Those of one row.
pub(crate) fn scalar() -> Vec<ScalarUDF> {
    let two = || Signature::any(2, Volatility::Immutable);
    let ours = [ScalarUDF::from(TimeBucket(two())), ScalarUDF::from(ExitName(two()))];
    #[cfg(feature = "cluster")]
    let ours = ours.into_iter().chain(crate::cluster_function::registered());
    ours.into_iter().collect()
}

/// What is wanted of a distribution.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum What {
    Percentile,
    ShareOver,
    Merge,
}

/// Aggregates of distributions of lengths.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Lengths {
    what: What,
    signature: Signature,
}

impl Lengths {
    fn new(what: What) -> Lengths {
        let arguments = if what == What::Merge { 2 } else { 3 };
        Lengths { what, signature: Signature::any(arguments, Volatility::Immutable) }
    }
}

impl AggregateUDFImpl for Lengths {
    fn name(&self) -> &str {
        match self.what {
            What::Percentile => "histogram_percentile",
            What::ShareOver => "histogram_share_over",
            What::Merge => "histogram_merge",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        let numbers = |of: &DataType| matches!(of, DataType::List(item) if item.data_type() == &DataType::UInt64);
        if !types.iter().take(2).all(numbers) {
            return plan_err!(
                "{} takes a distribution first, which is two columns: exit_time_bucket_ns and exit_time_bucket_count, or others of the kind",
                self.name()
            );
        }
        Ok(match self.what {
            What::Percentile => DataType::UInt64,
            What::ShareOver => DataType::Float64,
            What::Merge => DataType::Struct(pair()),
        })
    }

    fn accumulator(&self, _: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        Ok(Box::new(Merged { what: self.what, lengths: FineBuckets::default(), limit: None }))
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        let field = |what: &str, kind| Arc::new(Field::new(format!("{}[{what}]", args.name), kind, true));
        Ok(vec![field("lengths", list()), field("counts", list()), field("limit", DataType::Float64)])
    }
}

fn list() -> DataType {
    DataType::List(Arc::new(Field::new_list_field(DataType::UInt64, true)))
}

/// A distribution as one value.
fn pair() -> Fields {
    Fields::from(vec![Field::new("bucket_ns", list(), true), Field::new("bucket_count", list(), true)])
}

/// A distribution that grows.
#[derive(Debug)]
struct Merged {
    what: What,
    lengths: FineBuckets,
    /// The last argument, once it was seen.
    limit: Option<f64>,
}

impl Merged {
    /// The shortest length of each bucket, and how many there are in it: lists of one row.
    fn lists(&self) -> [ArrayRef; 2] {
        let list = |of: &dyn Fn((u64, u64, u64)) -> u64| -> ArrayRef {
            let values = self.lengths.buckets().map(|bucket| Some(of(bucket))).collect::<Vec<_>>();
            Arc::new(ListArray::from_iter_primitive::<UInt64Type, _, _>([Some(values)]))
        };
        [list(&|bucket| bucket.0), list(&|bucket| bucket.2)]
    }

    fn add(&mut self, lengths: &ArrayRef, counts: &ArrayRef) -> Result<()> {
        let (lengths, counts): (&ListArray, &ListArray) = (lengths.as_list(), counts.as_list());
        for row in 0..lengths.len() {
            if lengths.is_null(row) || counts.is_null(row) {
                continue;
            }
            let (lengths, counts) = (lengths.value(row), counts.value(row));
            if lengths.len() != counts.len() {
                return exec_err!("a distribution has {} lengths and {} counts", lengths.len(), counts.len());
            }
            let (lengths, counts) = (lengths.as_primitive::<UInt64Type>(), counts.as_primitive::<UInt64Type>());
            for (length, count) in lengths.values().iter().zip(counts.values()) {
                self.lengths.record_many(*length, *count);
            }
        }
        Ok(())
    }
}

impl Accumulator for Merged {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        if let Some(limit) = values.get(2).filter(|limit| self.limit.is_none() && !limit.is_empty()) {
            let value = ScalarValue::try_from_array(limit, 0)?;
            self.limit = Some(if self.what == What::Percentile { number(&value)? } else { nanos(&value)? as f64 });
        }
        self.add(&values[0], &values[1])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let limit = self.limit.unwrap_or(0.0);
        Ok(match self.what {
            What::Percentile if !(0.0..=100.0).contains(&limit) => {
                return exec_err!("a percentile is from 0 to 100, not {limit}");
            }
            What::Percentile => ScalarValue::UInt64(self.lengths.quantile((limit * 100.0).round() as u64)),
            What::ShareOver => {
                let total = self.lengths.total();
                let over: u64 = self.lengths.buckets().filter(|of| of.0 as f64 >= limit).map(|of| of.2).sum();
                ScalarValue::Float64((total > 0).then(|| over as f64 / total as f64))
            }
            What::Merge => {
                let [lengths, counts] = self.lists();
                ScalarValue::Struct(Arc::new(StructArray::try_new(pair(), vec![lengths, counts], None)?))
            }
        })
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.lengths.bytes()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let [lengths, counts] = self.lists().map(|list| ScalarValue::List(Arc::new(list.as_list().clone())));
        Ok(vec![lengths, counts, ScalarValue::Float64(self.limit)])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        for row in 0..states[2].len() {
            if let ScalarValue::Float64(Some(limit)) = ScalarValue::try_from_array(&states[2], row)? {
                self.limit = Some(limit);
            }
        }
        self.add(&states[0], &states[1])
    }
}

/// The begin of a bucket of time.
#[derive(Debug, PartialEq, Eq, Hash)]
struct TimeBucket(Signature);

impl ScalarUDFImpl for TimeBucket {
    fn name(&self) -> &str {
        "time_bucket"
    }

    fn signature(&self) -> &Signature {
        &self.0
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::UInt64)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let width = match &args.args[0] {
            ColumnarValue::Scalar(width) => nanos(width)?,
            ColumnarValue::Array(_) => return exec_err!("the width of a time_bucket is the same for all rows"),
        };
        if width == 0 {
            return exec_err!("a time_bucket of no width");
        }
        let at = args.args[1].cast_to(&DataType::UInt64, None)?;
        let begins = |at: &UInt64Array| at.unary::<_, UInt64Type>(|at| at / width * width);
        Ok(match at {
            ColumnarValue::Array(at) => ColumnarValue::Array(Arc::new(begins(at.as_primitive()))),
            ColumnarValue::Scalar(ScalarValue::UInt64(at)) => {
                ColumnarValue::Scalar(ScalarValue::UInt64(at.map(|at| at / width * width)))
            }
            ColumnarValue::Scalar(other) => return exec_err!("{other} is no moment"),
        })
    }
}

/// The kernel's name of an exit code.
#[derive(Debug, PartialEq, Eq, Hash)]
struct ExitName(Signature);

impl ScalarUDFImpl for ExitName {
    fn name(&self) -> &str {
        "exit_name"
    }

    fn signature(&self) -> &Signature {
        &self.0
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let columns = ColumnarValue::values_to_arrays(&args.args)?;
        let mut names = Vec::with_capacity(args.number_rows);
        for row in 0..columns[0].len() {
            let list = ScalarValue::try_from_array(&columns[0], row)?.to_string();
            let Some((_, known)) = CodeList::NAMES.into_iter().find(|of| of.0 == list) else {
                let names = CodeList::NAMES.map(|of| of.0).join(", ");
                return exec_err!("{list} is no list of exit codes; they are {names}");
            };
            let code = ScalarValue::try_from_array(&columns[1], row)?.cast_to(&DataType::UInt64)?;
            names.push(match code {
                ScalarValue::UInt64(Some(code)) => Some(ExitCode::new(known, code).name()),
                _ => None,
            });
        }
        let names: ArrayRef = Arc::new(StringArray::from(names));
        Ok(ColumnarValue::Array(names))
    }
}

/// A length of time: a number of nanoseconds, or like `10ms`.
fn nanos(value: &ScalarValue) -> Result<u64> {
    let text = value.to_string();
    match Nanos::parse(&text) {
        Some(length) => Ok(length.0),
        None => text.parse().or_else(|_| plan_err!("{text} is no length of time, like '10ms' or 10000000")),
    }
}

fn number(value: &ScalarValue) -> Result<f64> {
    value.to_string().parse().or_else(|_| plan_err!("{value} is no number"))
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_function_is_in_the_docs() {
        let docs = include_str!("../../../docs/sql.md");
        for function in super::FUNCTIONS {
            assert!(docs.contains(&format!("| `{}` |", function.call)), "{}", function.call);
        }
    }

    #[test]
    fn what_is_said_of_exit_name_names_every_list() {
        let row = super::FUNCTIONS.iter().find(|row| row.call.starts_with("exit_name(")).unwrap();
        let is_of_word = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
        let words: Vec<&str> = row.gives.split(|letter| !is_of_word(letter)).collect();
        let missing: Vec<&str> =
            super::CodeList::NAMES.iter().map(|list| list.0).filter(|name| !words.contains(name)).collect();
        assert!(missing.is_empty(), "{missing:?}");
    }
}
