//! `min` and `max` of groups over numbers some of which are NaN. DataFusion's own keep NaN or not, as the order of the rows has
//! it; without groups they take it for the greatest number, as sorting does. So it is here.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, FieldRef, Float32Type, Float64Type};
use datafusion::common::Result;
use datafusion::functions_aggregate::min_max::{max_udaf, min_udaf};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, GroupsAccumulator, ReversedUDAF, SetMonotonicity,
};
use datafusion_functions_aggregate_common::aggregate::groups_accumulator::prim_op::PrimitiveGroupsAccumulator;

use crate::exact::wrapped::as_inner;

/// The aggregates `min` and `max`.
pub fn extremes() -> [Arc<AggregateUDF>; 2] {
    [(min_udaf(), false), (max_udaf(), true)]
        .map(|(inner, is_max)| Arc::new(AggregateUDF::new_from_impl(Extreme { inner, is_max })))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Extreme {
    inner: Arc<AggregateUDF>,
    is_max: bool,
}

/// Accumulates the extremes of groups of such numbers.
macro_rules! of_floats {
    ($self:expr, $kind:expr, $arrow:ty, $native:ty) => {{
        let kind = $kind;
        match $self.is_max {
            true => {
                let greater = |most: &mut $native, value: $native| {
                    if value > *most || value.is_nan() {
                        *most = value;
                    }
                };
                let all = PrimitiveGroupsAccumulator::<$arrow, _>::new(kind, greater);
                Ok(Box::new(all.with_starting_value(<$native>::NEG_INFINITY)) as _)
            }
            false => {
                let smaller = |least: &mut $native, value: $native| {
                    if value < *least || least.is_nan() {
                        *least = value;
                    }
                };
                let all = PrimitiveGroupsAccumulator::<$arrow, _>::new(kind, smaller);
                Ok(Box::new(all.with_starting_value(<$native>::NAN)) as _)
            }
        }
    }};
}

impl AggregateUDFImpl for Extreme {
    as_inner!();

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        self.inner.inner().accumulator(args)
    }

    fn create_sliding_accumulator(
        &self,
        args: AccumulatorArgs<'_>,
    ) -> Result<Box<dyn Accumulator>> {
        self.inner.inner().create_sliding_accumulator(args)
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        self.inner.inner().state_fields(args)
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs<'_>) -> bool {
        self.inner.inner().groups_accumulator_supported(args)
    }

    fn create_groups_accumulator(
        &self,
        args: AccumulatorArgs<'_>,
    ) -> Result<Box<dyn GroupsAccumulator>> {
        match args.return_field.data_type() {
            kind @ DataType::Float32 => of_floats!(self, kind, Float32Type, f32),
            kind @ DataType::Float64 => of_floats!(self, kind, Float64Type, f64),
            _ => self.inner.inner().create_groups_accumulator(args),
        }
    }

    fn is_descending(&self) -> Option<bool> {
        self.inner.inner().is_descending()
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
