//! `sum` of whole numbers, added up in 128 bits: what comes out does not depend on the order of the rows, and a sum that
//! does not fit in `BIGINT` is an error. All else is DataFusion's.

use std::collections::HashSet;
use std::mem::size_of;
use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Decimal128Array, Int64Array, PrimitiveArray,
    UInt64Array,
};
use datafusion::arrow::datatypes::{
    ArrowPrimitiveType, DataType, Decimal128Type, Field, FieldRef, Int64Type, UInt64Type,
};
use datafusion::common::{Result, ScalarValue, exec_datafusion_err, exec_err, internal_err};
use datafusion::functions_aggregate::sum::sum_udaf;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, EmitTo, GroupsAccumulator, ReversedUDAF,
    SetMonotonicity,
};

use crate::exact::wrapped::as_inner;

/// Digits of a sum while it is added up.
const DIGITS: u8 = 38;

/// The aggregate `sum`.
pub fn sum() -> Arc<AggregateUDF> {
    Arc::new(AggregateUDF::new_from_impl(Sum { inner: sum_udaf() }))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Sum {
    inner: Arc<AggregateUDF>,
}

/// A type of whole numbers that sums have.
#[derive(Clone, Copy, Debug)]
enum Whole {
    Signed,
    Unsigned,
}

impl Whole {
    fn of(kind: &DataType) -> Option<Self> {
        match kind {
            DataType::Int64 => Some(Self::Signed),
            DataType::UInt64 => Some(Self::Unsigned),
            _ => None,
        }
    }

    /// Calls `each` for every value that counts, with its row.
    fn each(self, values: &ArrayRef, each: impl FnMut(usize, i128)) -> Result<()> {
        fn go<T: ArrowPrimitiveType>(
            values: &ArrayRef,
            mut each: impl FnMut(usize, i128),
        ) -> Result<()>
        where
            i128: From<T::Native>,
        {
            let Some(values) = values.as_primitive_opt::<T>() else {
                return internal_err!("`sum` got {}", values.data_type());
            };
            match values.nulls().filter(|nulls| nulls.null_count() > 0) {
                None => {
                    values.values().iter().enumerate().for_each(|(row, v)| each(row, (*v).into()))
                }
                Some(nulls) => {
                    nulls.valid_indices().for_each(|row| each(row, values.value(row).into()));
                }
            }
            Ok(())
        }
        match self {
            Self::Signed => go::<Int64Type>(values, each),
            Self::Unsigned => go::<UInt64Type>(values, each),
        }
    }

    fn scalar(self, sum: Option<i128>) -> Result<ScalarValue> {
        Ok(match self {
            Self::Signed => ScalarValue::Int64(fit(sum)?),
            Self::Unsigned => ScalarValue::UInt64(fit(sum)?),
        })
    }

    fn array(self, sums: impl Iterator<Item = Option<i128>>) -> Result<ArrayRef> {
        Ok(match self {
            Self::Signed => Arc::new(sums.map(fit::<i64>).collect::<Result<Int64Array>>()?),
            Self::Unsigned => Arc::new(sums.map(fit::<u64>).collect::<Result<UInt64Array>>()?),
        })
    }
}

fn fit<T: TryFrom<i128>>(sum: Option<i128>) -> Result<Option<T>> {
    let Some(sum) = sum else { return Ok(None) };
    let kind = if sum < 0 || size_of::<T>() == 8 { "BIGINT" } else { "its type" };
    T::try_from(sum).map(Some).map_err(|_| {
        exec_datafusion_err!(
            "`sum` does not fit in {kind}: {sum}; sum `CAST(… AS DECIMAL(38, 0))` or `CAST(… AS DOUBLE)`"
        )
    })
}

fn partial(sum: Option<i128>) -> ScalarValue {
    ScalarValue::Decimal128(sum, DIGITS, 0)
}

fn partial_type() -> DataType {
    DataType::Decimal128(DIGITS, 0)
}

fn partials(values: &[ArrayRef]) -> Result<&PrimitiveArray<Decimal128Type>> {
    match values.first().and_then(|array| array.as_primitive_opt::<Decimal128Type>()) {
        Some(partials) => Ok(partials),
        None => internal_err!("`sum` merges sums"),
    }
}

fn only(values: &[ArrayRef]) -> Result<&ArrayRef> {
    match values.first() {
        Some(values) => Ok(values),
        None => exec_err!("`sum` has one argument"),
    }
}

impl AggregateUDFImpl for Sum {
    as_inner!();

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        match Whole::of(args.return_type()) {
            None => self.inner.inner().accumulator(args),
            Some(whole) if args.is_distinct => {
                Ok(Box::new(OfDistinct { whole, seen: HashSet::new() }))
            }
            Some(whole) => Ok(Box::new(Total { whole, sum: 0, values: 0 })),
        }
    }

    fn create_sliding_accumulator(
        &self,
        args: AccumulatorArgs<'_>,
    ) -> Result<Box<dyn Accumulator>> {
        match Whole::of(args.return_type()) {
            Some(whole) if !args.is_distinct => Ok(Box::new(Total { whole, sum: 0, values: 0 })),
            _ => self.inner.inner().create_sliding_accumulator(args),
        }
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        if Whole::of(args.return_type()).is_none() {
            return self.inner.inner().state_fields(args);
        }
        let item = Field::new_list_field(partial_type(), true);
        let name = format!("{}[sum]", args.name);
        Ok(vec![match args.is_distinct {
            true => Field::new_list(name, item, true).into(),
            false => Field::new(name, partial_type(), true).into(),
        }])
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs<'_>) -> bool {
        self.inner.inner().groups_accumulator_supported(args)
    }

    fn create_groups_accumulator(
        &self,
        args: AccumulatorArgs<'_>,
    ) -> Result<Box<dyn GroupsAccumulator>> {
        match Whole::of(args.return_type()) {
            None => self.inner.inner().create_groups_accumulator(args),
            Some(whole) => Ok(Box::new(OfGroups { whole, sums: Vec::new(), seen: Vec::new() })),
        }
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        ReversedUDAF::Identical
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::Insensitive
    }

    fn set_monotonicity(&self, kind: &DataType) -> SetMonotonicity {
        self.inner.inner().set_monotonicity(kind)
    }
}

/// The sum of all rows, or of a window that slides.
#[derive(Debug)]
struct Total {
    whole: Whole,
    sum: i128,
    /// Values in the sum; without any it is NULL.
    values: u64,
}

impl Total {
    fn now(&self) -> Option<i128> {
        (self.values > 0).then_some(self.sum)
    }
}

impl Accumulator for Total {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let (sum, count) = (&mut self.sum, &mut self.values);
        self.whole.each(only(values)?, |_, value| {
            *sum += value;
            *count += 1;
        })
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let (sum, count) = (&mut self.sum, &mut self.values);
        self.whole.each(only(values)?, |_, value| {
            *sum -= value;
            *count -= 1;
        })
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        self.whole.scalar(self.now())
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![partial(self.now())])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        for value in partials(states)?.iter().flatten() {
            self.sum += value;
            self.values += 1;
        }
        Ok(())
    }

    fn size(&self) -> usize {
        size_of::<Self>()
    }
}

/// The sum of the values that differ.
#[derive(Debug)]
struct OfDistinct {
    whole: Whole,
    seen: HashSet<i128>,
}

impl Accumulator for OfDistinct {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let seen = &mut self.seen;
        self.whole.each(only(values)?, |_, value| {
            seen.insert(value);
        })
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let sum = self.seen.iter().sum();
        self.whole.scalar((!self.seen.is_empty()).then_some(sum))
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let values: Vec<ScalarValue> = self.seen.iter().map(|v| partial(Some(*v))).collect();
        let list = ScalarValue::new_list_nullable(&values, &partial_type());
        Ok(vec![ScalarValue::List(list)])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        for values in only(states)?.as_list::<i32>().iter().flatten() {
            self.seen.extend(partials(&[values])?.iter().flatten());
        }
        Ok(())
    }

    fn size(&self) -> usize {
        size_of::<Self>() + self.seen.capacity() * size_of::<i128>()
    }
}

/// A sum for each group.
#[derive(Debug)]
struct OfGroups {
    whole: Whole,
    sums: Vec<i128>,
    /// Whether a group has a value.
    seen: Vec<bool>,
}

impl OfGroups {
    fn resize(&mut self, groups: usize) {
        self.sums.resize(groups, 0);
        self.seen.resize(groups, false);
    }

    fn take(&mut self, emit_to: EmitTo) -> impl Iterator<Item = Option<i128>> {
        let (sums, seen) =
            (emit_to.take_needed(&mut self.sums), emit_to.take_needed(&mut self.seen));
        sums.into_iter().zip(seen).map(|(sum, seen)| seen.then_some(sum))
    }
}

fn counts(filter: Option<&BooleanArray>, row: usize) -> bool {
    filter.is_none_or(|filter| filter.is_valid(row) && filter.value(row))
}

impl GroupsAccumulator for OfGroups {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        group_indices: &[usize],
        opt_filter: Option<&BooleanArray>,
        total_num_groups: usize,
    ) -> Result<()> {
        self.resize(total_num_groups);
        let (sums, seen) = (&mut self.sums, &mut self.seen);
        let mut add = |row: usize, value: i128| {
            let group = group_indices[row];
            sums[group] += value;
            seen[group] = true;
        };
        match opt_filter {
            None => self.whole.each(only(values)?, add),
            filter => self.whole.each(only(values)?, |row, value| {
                if counts(filter, row) {
                    add(row, value);
                }
            }),
        }
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let whole = self.whole;
        whole.array(self.take(emit_to))
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        let sums: Decimal128Array = self.take(emit_to).collect();
        Ok(vec![Arc::new(sums.with_precision_and_scale(DIGITS, 0)?)])
    }

    fn merge_batch(
        &mut self,
        values: &[ArrayRef],
        group_indices: &[usize],
        total_num_groups: usize,
    ) -> Result<()> {
        self.resize(total_num_groups);
        for (value, &group) in partials(values)?.iter().zip(group_indices) {
            if let Some(value) = value {
                self.sums[group] += value;
                self.seen[group] = true;
            }
        }
        Ok(())
    }

    fn convert_to_state(
        &self,
        values: &[ArrayRef],
        opt_filter: Option<&BooleanArray>,
    ) -> Result<Vec<ArrayRef>> {
        let values = only(values)?;
        let mut sums = vec![None; values.len()];
        self.whole.each(values, |row, value| {
            sums[row] = counts(opt_filter, row).then_some(value);
        })?;
        let sums = Decimal128Array::from(sums).with_precision_and_scale(DIGITS, 0)?;
        Ok(vec![Arc::new(sums)])
    }

    fn size(&self) -> usize {
        self.sums.capacity() * size_of::<i128>() + self.seen.capacity()
    }
}
