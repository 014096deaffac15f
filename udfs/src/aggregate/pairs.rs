//! An accumulator of labels: the result follows from how often each pair of them occurs, or each alone.

use std::fmt;
use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, LargeListArray, StringViewArray, UInt64Array,
};
use datafusion::arrow::buffer::OffsetBuffer;
use datafusion::arrow::datatypes::{DataType, Field, UInt64Type};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::Accumulator;

use super::constants::failed;
use crate::stats::{Confusion, StatsError};

/// Computes the result from the counts: the first argument is the predicted label, the second the gold
/// one; of a single argument, the gold one is empty.
pub(super) type Finish =
    Box<dyn Fn(&Confusion<String>) -> Result<Result<ScalarValue>, StatsError> + Send + Sync>;

/// Counts of label pairs.
pub(super) struct Pairs {
    function: &'static str,
    /// Whether the second argument is a label too.
    is_pair: bool,
    confusion: Confusion<String>,
    finish: Finish,
}

impl Pairs {
    /// Counts of the first two arguments, none yet.
    pub(super) fn boxed(function: &'static str, finish: Finish) -> Result<Box<dyn Accumulator>> {
        let confusion = Confusion::default();
        Ok(Box::new(Self { function, is_pair: true, confusion, finish }))
    }

    /// Counts of the first argument alone, none yet.
    pub(super) fn of_one(function: &'static str, finish: Finish) -> Result<Box<dyn Accumulator>> {
        let confusion = Confusion::default();
        Ok(Box::new(Self { function, is_pair: false, confusion, finish }))
    }

    /// The state of every function: two lists of labels, a list of counts.
    pub(super) fn state_type() -> Vec<(&'static str, DataType)> {
        let list = |item| DataType::LargeList(Arc::new(Field::new_list_field(item, true)));
        vec![
            ("gold", list(DataType::Utf8View)),
            ("predicted", list(DataType::Utf8View)),
            ("count", list(DataType::UInt64)),
        ]
    }
}

impl fmt::Debug for Pairs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pairs")
            .field("function", &self.function)
            .field("confusion", &self.confusion)
            .finish_non_exhaustive()
    }
}

impl Accumulator for Pairs {
    fn update_batch(&mut self, columns: &[ArrayRef]) -> Result<()> {
        let predicted = columns[0].as_string_view();
        if !self.is_pair {
            for label in predicted.iter().flatten() {
                self.confusion.add(String::new(), label.to_owned(), 1);
            }
            return Ok(());
        }
        for (predicted, gold) in predicted.iter().zip(columns[1].as_string_view()) {
            if let Some((predicted, gold)) = predicted.zip(gold) {
                self.confusion.add(gold.to_owned(), predicted.to_owned(), 1);
            }
        }
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let [gold, predicted, counts] = states else {
            return Ok(());
        };
        let lists = gold.as_list::<i64>().iter().zip(predicted.as_list::<i64>().iter());
        for ((gold, predicted), counts) in lists.zip(counts.as_list::<i64>().iter()) {
            let (Some(gold), Some(predicted), Some(counts)) = (gold, predicted, counts) else {
                continue;
            };
            let pairs = gold.as_string_view().iter().zip(predicted.as_string_view());
            let counts = counts.as_primitive::<UInt64Type>();
            for ((gold, predicted), count) in pairs.zip(counts.values()) {
                if let Some((gold, predicted)) = gold.zip(predicted) {
                    self.confusion.add(gold.to_owned(), predicted.to_owned(), *count);
                }
            }
        }
        Ok(())
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let counts = || self.confusion.counts();
        let gold = StringViewArray::from_iter_values(counts().map(|(gold, _, _)| gold));
        let predicted =
            StringViewArray::from_iter_values(counts().map(|(_, predicted, _)| predicted));
        let counts = UInt64Array::from_iter_values(counts().map(|(_, _, count)| count));
        [Arc::new(gold) as ArrayRef, Arc::new(predicted), Arc::new(counts)]
            .into_iter()
            .map(|items| {
                let field = Arc::new(Field::new_list_field(items.data_type().clone(), true));
                let offsets = OffsetBuffer::from_lengths([items.len()]);
                let list = LargeListArray::try_new(field, offsets, items, None)?;
                Ok(ScalarValue::LargeList(Arc::new(list)))
            })
            .collect()
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        match (self.finish)(&self.confusion) {
            Ok(result) => result,
            Err(error) => failed(self.function, &error),
        }
    }

    fn size(&self) -> usize {
        let pair = |(gold, predicted, _): (&String, &String, u64)| {
            2 * size_of::<(String, String, u64)>() + gold.capacity() + predicted.capacity()
        };
        size_of_val(self) + self.confusion.counts().map(pair).sum::<usize>()
    }
}
