//! Functions that make much of little, each with a bound on what one call may give. `--memory` bounds
//! what operators hold; a function is called for a whole batch at once, and no operator
//! accounts for its memory.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::compute::cast;
use arrow::datatypes::{
    DataType, FieldRef, Int64Type, IntervalMonthDayNanoType, IntervalUnit, TimeUnit,
};
use datafusion::common::{Result, resources_err};
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{
    ColumnarValue, Documentation, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature,
};

/// Bytes of a number, and what an item of a list takes at least.
const ITEM_BYTES: u64 = 8;
const NANOSECONDS_A_DAY: i64 = 86_400_000_000_000;

/// What a function gives, as determined by its arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Makes {
    /// A text so many times: `repeat(text, n)`.
    Repeated,
    /// A text of so many characters: `lpad(text, n)`.
    Padded,
    /// Values from one to another: `range(start, stop, step)`; whether the last one is among them.
    Series,
    /// A value so many times: `array_repeat(value, n)`.
    List,
    /// A list of so many items: `array_resize(list, n)`.
    Resized,
}

/// The functions that are bounded. Not among them are those whose result is at most some times their
/// input (`replace`, `concat`): they grow by what a query writes out.
const BOUNDED: [(&str, Makes); 7] = [
    ("repeat", Makes::Repeated),
    ("lpad", Makes::Padded),
    ("rpad", Makes::Padded),
    ("range", Makes::Series),
    ("generate_series", Makes::Series),
    ("array_repeat", Makes::List),
    ("array_resize", Makes::Resized),
];

/// The function, bounded to so many bytes a call if it is one of those that need it.
pub fn bounded(function: Arc<ScalarUDF>, bytes_max: u64) -> Arc<ScalarUDF> {
    match BOUNDED.iter().find(|(name, _)| *name == function.name()) {
        Some((_, makes)) => {
            let bounded = Bounded { inner: function, makes: *makes, bytes_max };
            Arc::new(ScalarUDF::new_from_impl(bounded))
        }
        None => function,
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Bounded {
    inner: Arc<ScalarUDF>,
    makes: Makes,
    bytes_max: u64,
}

impl ScalarUDFImpl for Bounded {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn aliases(&self) -> &[String] {
        self.inner.aliases()
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.inner.inner().return_type(types)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        self.inner.inner().return_field_from_args(args)
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        self.inner.inner().coerce_types(types)
    }

    fn simplify(&self, args: Vec<Expr>, info: &SimplifyContext) -> Result<ExprSimplifyResult> {
        self.inner.inner().simplify(args, info)
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.inner.inner().documentation()
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let bytes = self.makes.bytes(&args);
        if bytes > self.bytes_max {
            return resources_err!(
                "`{}` would produce {} MiB at once, but a call may produce {} MiB: produce less, or \
                 raise `--memory`",
                self.name(),
                bytes >> 20,
                self.bytes_max >> 20
            );
        }
        self.inner.invoke_with_args(args)
    }
}

impl Makes {
    /// Bytes of the result, as far as the arguments tell: nothing where they are of other types.
    fn bytes(self, args: &ScalarFunctionArgs) -> u64 {
        // What is the same for all rows is computed once.
        let scalar = args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        let rows = if scalar { 1 } else { args.number_rows };
        let array = |i: usize| -> Option<ArrayRef> { args.args.get(i)?.to_array(rows).ok() };
        let whole = |i: usize| cast(&array(i)?, &DataType::Int64).ok();
        let sum = |of: &dyn Fn(usize) -> u64| (0..rows).map(of).fold(0, u64::saturating_add);
        let bytes = || -> Option<u64> {
            let times = |i: usize| -> Option<Vec<u64>> {
                let array = whole(i)?;
                let values = array.as_primitive::<Int64Type>();
                Some((0..rows).map(|row| at(values, row).max(0) as u64).collect())
            };
            Some(match self {
                Self::Repeated | Self::List => {
                    let (sizes, times) = (sizes(&array(0)?), times(1)?);
                    sum(&|row| sizes[row].saturating_mul(times[row]))
                }
                Self::Padded => times(1)?.iter().fold(0, |sum, n| sum.saturating_add(*n)),
                Self::Resized => {
                    let times = times(1)?;
                    sum(&|row| times[row].saturating_mul(ITEM_BYTES))
                }
                Self::Series => {
                    let (start, stop) = match args.args.len() {
                        1 => (None, points(&array(0)?)?),
                        _ => (Some(points(&array(0)?)?), points(&array(1)?)?),
                    };
                    let step = match array(2) {
                        Some(step) => Some(points(&step)?),
                        None => None,
                    };
                    let items = |row: usize| {
                        let start = start.as_ref().map_or(0, |start| start[row]);
                        let step = step.as_ref().map_or(1, |step| step[row]).unsigned_abs();
                        stop[row].abs_diff(start) / step.max(1)
                    };
                    sum(&|row| items(row).saturating_mul(ITEM_BYTES))
                }
            })
        };
        bytes().unwrap_or(0)
    }
}

/// The value of a row; 0 for NULL.
fn at(values: &arrow::array::Int64Array, row: usize) -> i64 {
    if values.is_null(row) { 0 } else { values.value(row) }
}

/// Bytes of each value: those of texts as they are, of others on average.
fn sizes(array: &ArrayRef) -> Vec<u64> {
    if let Ok(texts) = cast(array, &DataType::LargeUtf8)
        && array.data_type().is_string()
    {
        let texts = texts.as_string::<i64>();
        return (0..texts.len()).map(|row| texts.value_length(row) as u64).collect();
    }
    let each = array.to_data().get_slice_memory_size().unwrap_or(0) / array.len().max(1);
    vec![(each as u64).max(ITEM_BYTES); array.len()]
}

/// Numbers, points of time and steps between them, on one scale.
fn points(array: &ArrayRef) -> Option<Vec<i64>> {
    let nanoseconds = DataType::Timestamp(TimeUnit::Nanosecond, None);
    let array = match array.data_type() {
        DataType::Date32 | DataType::Date64 | DataType::Timestamp(..) => {
            cast(&cast(array, &nanoseconds).ok()?, &DataType::Int64).ok()?
        }
        DataType::Interval(IntervalUnit::MonthDayNano) => {
            let steps = array.as_primitive::<IntervalMonthDayNanoType>();
            let length = |step: arrow::datatypes::IntervalMonthDayNano| {
                let days = i64::from(step.months) * 28 + i64::from(step.days);
                days.saturating_mul(NANOSECONDS_A_DAY).saturating_add(step.nanoseconds)
            };
            return Some(steps.iter().map(|step| step.map_or(1, length)).collect());
        }
        _ => cast(array, &DataType::Int64).ok()?,
    };
    let values = array.as_primitive::<Int64Type>();
    Some((0..values.len()).map(|row| at(values, row)).collect())
}
