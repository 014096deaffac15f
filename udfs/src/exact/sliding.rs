//! Aggregates over frames that move. DataFusion keeps a running total and takes away what leaves the frame: of floating-point
//! numbers what stays is then wrong (1e16, 0.5, 0.5 leave 0 of the last two), one NaN spoils all frames behind it, and many
//! aggregates cannot be taken away from at all. Here each frame is put together from partial states, and nothing is taken away.

use std::mem::size_of_val;
use std::sync::Arc;

use datafusion::arrow::array::ArrayRef;
use datafusion::arrow::datatypes::{DataType, FieldRef, Schema};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{Accumulator, AggregateUDF, AggregateUDFImpl, ReversedUDAF};
use datafusion::physical_expr::{PhysicalExpr, PhysicalSortExpr};

use crate::exact::wrapped::as_inner;

/// The aggregate `inner`, over frames that move.
pub fn sliding(inner: Arc<AggregateUDF>) -> Arc<AggregateUDF> {
    Arc::new(AggregateUDF::new_from_impl(Sliding { inner }))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Sliding {
    inner: Arc<AggregateUDF>,
}

impl AggregateUDFImpl for Sliding {
    as_inner!();

    fn return_field(&self, fields: &[FieldRef]) -> Result<FieldRef> {
        self.inner.inner().return_field(fields)
    }

    fn is_nullable(&self) -> bool {
        self.inner.inner().is_nullable()
    }

    fn default_value(&self, kind: &DataType) -> Result<ScalarValue> {
        self.inner.inner().default_value(kind)
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        self.inner.inner().accumulator(args)
    }

    fn create_sliding_accumulator(
        &self,
        args: AccumulatorArgs<'_>,
    ) -> Result<Box<dyn Accumulator>> {
        let make = Maker::new(Arc::clone(&self.inner), &args);
        // What cannot be made is reported now.
        make.accumulator()?;
        Ok(Box::new(Frame { make, front: Vec::new(), back: Vec::new(), of_back: None }))
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        self.inner.inner().state_fields(args)
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        ReversedUDAF::NotSupported
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        self.inner.inner().order_sensitivity()
    }

    fn supports_null_handling_clause(&self) -> bool {
        self.inner.inner().supports_null_handling_clause()
    }
}

/// Makes accumulators of the same call.
#[derive(Debug)]
struct Maker {
    function: Arc<AggregateUDF>,
    return_field: FieldRef,
    schema: Schema,
    ignore_nulls: bool,
    order_bys: Vec<PhysicalSortExpr>,
    is_reversed: bool,
    name: String,
    is_distinct: bool,
    exprs: Vec<Arc<dyn PhysicalExpr>>,
    expr_fields: Vec<FieldRef>,
}

impl Maker {
    fn new(function: Arc<AggregateUDF>, args: &AccumulatorArgs<'_>) -> Self {
        Self {
            function,
            return_field: Arc::clone(&args.return_field),
            schema: args.schema.clone(),
            ignore_nulls: args.ignore_nulls,
            order_bys: args.order_bys.to_vec(),
            is_reversed: args.is_reversed,
            name: args.name.to_owned(),
            is_distinct: args.is_distinct,
            exprs: args.exprs.to_vec(),
            expr_fields: args.expr_fields.to_vec(),
        }
    }

    fn accumulator(&self) -> Result<Box<dyn Accumulator>> {
        self.function.accumulator(AccumulatorArgs {
            return_field: Arc::clone(&self.return_field),
            schema: &self.schema,
            ignore_nulls: self.ignore_nulls,
            order_bys: &self.order_bys,
            is_reversed: self.is_reversed,
            name: &self.name,
            is_distinct: self.is_distinct,
            exprs: &self.exprs,
            expr_fields: &self.expr_fields,
        })
    }

    /// One accumulator that has seen what the states have seen, in their order.
    fn merged<'a>(
        &self,
        states: impl IntoIterator<Item = &'a State>,
    ) -> Result<Box<dyn Accumulator>> {
        let mut all = self.accumulator()?;
        for state in states {
            let arrays = state.iter().map(|value| value.to_array_of_size(1));
            all.merge_batch(&arrays.collect::<Result<Vec<_>>>()?)?;
        }
        Ok(all)
    }
}

/// What an accumulator knows of some rows.
type State = Vec<ScalarValue>;

/// A frame: a queue of two stacks. The front holds, for each of its rows, the state of that row and all behind it in the front, so
/// that the first leaves by being dropped; the back holds rows, and the state of all of them. When the front is empty, it is made of the
/// back. Each row is merged a few times, whatever the size of the frame.
#[derive(Debug)]
struct Frame {
    make: Maker,
    /// The first row of the frame is the last here.
    front: Vec<State>,
    /// Rows that came since, in their order.
    back: Vec<Vec<ArrayRef>>,
    of_back: Option<State>,
}

impl Frame {
    fn rows_of_back(&self) -> usize {
        self.back.iter().map(|rows| count(rows)).sum()
    }

    /// Makes the front of the rows of the back but the first `left`, which have left the frame.
    fn turn(&mut self, left: usize) -> Result<()> {
        let mut remaining = self.rows_of_back();
        self.of_back = None;
        for rows in std::mem::take(&mut self.back).into_iter().rev() {
            for row in (0..count(&rows)).rev() {
                if remaining == left {
                    return Ok(());
                }
                remaining -= 1;
                let row: Vec<ArrayRef> = rows.iter().map(|column| column.slice(row, 1)).collect();
                let mut first = self.make.accumulator()?;
                first.update_batch(&row)?;
                let state = match self.front.last() {
                    None => first.state()?,
                    Some(behind) => self.make.merged([&first.state()?, behind])?.state()?,
                };
                self.front.push(state);
            }
        }
        Ok(())
    }

    fn whole(&self) -> Result<Box<dyn Accumulator>> {
        self.make.merged(self.front.last().into_iter().chain(&self.of_back))
    }
}

fn count(rows: &[ArrayRef]) -> usize {
    rows.first().map_or(0, |column| column.len())
}

impl Accumulator for Frame {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        if count(values) == 0 {
            return Ok(());
        }
        let mut all = self.make.merged(&self.of_back)?;
        all.update_batch(values)?;
        self.of_back = Some(all.state()?);
        self.back.push(values.to_vec());
        Ok(())
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let of_front = count(values).min(self.front.len());
        self.front.truncate(self.front.len() - of_front);
        match count(values) - of_front {
            0 => Ok(()),
            left => self.turn(left),
        }
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        self.whole()?.evaluate()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        self.whole()?.state()
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let mut all = self.make.merged(&self.of_back)?;
        all.merge_batch(states)?;
        self.of_back = Some(all.state()?);
        Ok(())
    }

    fn size(&self) -> usize {
        let state = |state: &State| state.iter().map(ScalarValue::size).sum::<usize>();
        let rows = self.back.iter().flatten().map(|column| column.get_array_memory_size());
        size_of_val(self) + self.front.iter().map(state).sum::<usize>() + rows.sum::<usize>()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use datafusion::arrow::array::StringArray;
    use datafusion::arrow::datatypes::Field;
    use datafusion::functions_aggregate::array_agg::array_agg_udaf;
    use datafusion::physical_expr::expressions::Column;
    use proptest::prelude::*;

    use super::*;

    /// `array_agg` over texts, which shows all rows of a frame in their order.
    fn frame() -> Box<dyn Accumulator> {
        let column = Field::new("s", DataType::Utf8, true);
        let schema = Schema::new(vec![column.clone()]);
        let list = Field::new_list("l", Field::new_list_field(DataType::Utf8, true), true);
        sliding(array_agg_udaf())
            .create_sliding_accumulator(AccumulatorArgs {
                return_field: list.into(),
                schema: &schema,
                ignore_nulls: false,
                order_bys: &[],
                is_reversed: false,
                name: "array_agg",
                is_distinct: false,
                exprs: &[Arc::new(Column::new("s", 0))],
                expr_fields: &[column.into()],
            })
            .unwrap()
    }

    proptest! {
        #[test]
        fn a_frame_has_the_rows_that_have_not_left_it(
            steps in proptest::collection::vec((0_usize..4, 0_usize..6), 0..40),
        ) {
            let (mut frame, mut rows, mut next) = (frame(), VecDeque::new(), 0);
            for (come, leave) in steps {
                let coming: Vec<String> = (next..next + come).map(|row| row.to_string()).collect();
                next += come;
                rows.extend(coming.iter().cloned());
                frame.update_batch(&[Arc::new(StringArray::from(coming))]).unwrap();
                let leaving: Vec<String> = rows.drain(..leave.min(rows.len())).collect();
                frame.retract_batch(&[Arc::new(StringArray::from(leaving))]).unwrap();
                let listed: Vec<&str> = rows.iter().map(String::as_str).collect();
                let shown = frame.evaluate().unwrap().to_string();
                prop_assert_eq!(shown.trim_matches(['[', ']']), listed.join(", "));
            }
        }
    }
}
