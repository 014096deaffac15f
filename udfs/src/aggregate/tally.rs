//! An accumulator of counts: the result follows from sums over the rows.

use std::fmt;
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, AsArray, LargeListArray, UInt64Array};
use datafusion::arrow::buffer::OffsetBuffer;
use datafusion::arrow::datatypes::{DataType, Field, UInt64Type};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::Accumulator;

/// Adds a batch of rows to the counts.
pub(super) type Update = Box<dyn Fn(&[ArrayRef], &mut [u64]) -> Result<()> + Send + Sync>;
/// Turns the counts into the result.
pub(super) type Finish = Box<dyn Fn(&[u64]) -> Result<ScalarValue> + Send + Sync>;

/// Counts that are added up over rows and partitions.
pub(super) struct Tally {
    counts: Vec<u64>,
    update: Update,
    finish: Finish,
}

impl Tally {
    /// `n` counts, all zero.
    pub(super) fn boxed(n: usize, update: Update, finish: Finish) -> Result<Box<dyn Accumulator>> {
        Ok(Box::new(Self { counts: vec![0; n], update, finish }))
    }

    /// The state: one list of counts.
    pub(super) fn state_type() -> Vec<(&'static str, DataType)> {
        vec![("counts", DataType::LargeList(Arc::new(item())))]
    }
}

fn item() -> Field {
    Field::new_list_field(DataType::UInt64, true)
}

impl fmt::Debug for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tally").field("counts", &self.counts).finish_non_exhaustive()
    }
}

impl Accumulator for Tally {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        (self.update)(values, &mut self.counts)
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let Some(states) = states.first() else {
            return Ok(());
        };
        for counts in states.as_list::<i64>().iter().flatten() {
            let counts = counts.as_primitive::<UInt64Type>();
            for (sum, count) in self.counts.iter_mut().zip(counts.values()) {
                *sum += count;
            }
        }
        Ok(())
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let counts = Arc::new(UInt64Array::from(self.counts.clone()));
        let offsets = OffsetBuffer::from_lengths([counts.len()]);
        let list = LargeListArray::try_new(Arc::new(item()), offsets, counts, None)?;
        Ok(vec![ScalarValue::LargeList(Arc::new(list))])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        (self.finish)(&self.counts)
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.counts.capacity() * size_of::<u64>()
    }
}
