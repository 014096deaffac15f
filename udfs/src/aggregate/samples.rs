//! An accumulator of observations: the result needs every value, with the clusters it belongs to.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, Float64Array, LargeListArray, StringViewArray,
};
use datafusion::arrow::buffer::OffsetBuffer;
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Field, Float64Type};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::Accumulator;

use super::constants::failed;
use crate::stats::StatsError;

/// Most columns of clusters that a function takes.
pub(super) const CLUSTERINGS_MAX: usize = 2;

/// The observations of a group.
#[derive(Debug, Default)]
pub(super) struct Samples {
    /// Values, or differences of two columns.
    pub(super) values: Vec<f64>,
    /// For every clustering, the cluster of each value.
    pub(super) clusters: [Labels; CLUSTERINGS_MAX],
}

/// Labels as numbers, so that a repeated label costs four bytes.
#[derive(Debug, Default)]
pub(super) struct Labels {
    numbers: HashMap<Arc<str>, u32>,
    names: Vec<Arc<str>>,
    /// The label of each value.
    pub(super) column: Vec<u32>,
    bytes: usize,
}

impl Labels {
    fn push(&mut self, label: &str) {
        let number = match self.numbers.get(label) {
            Some(number) => *number,
            None => {
                let (number, name) = (self.names.len() as u32, Arc::<str>::from(label));
                self.names.push(Arc::clone(&name));
                self.numbers.insert(name, number);
                self.bytes += label.len() + 2 * size_of::<(Arc<str>, u32)>();
                number
            }
        };
        self.column.push(number);
    }

    /// The label of each value.
    pub(super) fn iter(&self) -> impl Iterator<Item = &str> {
        self.column.iter().filter_map(|number| self.names.get(*number as usize)).map(|name| &**name)
    }
}

/// Computes the result from the observations.
pub(super) type Finish =
    Box<dyn Fn(&Samples) -> Result<Result<ScalarValue>, StatsError> + Send + Sync>;

/// What the leading arguments of the function are.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shape {
    /// Whether the values are differences of the first two arguments.
    pub(super) paired: bool,
    /// Number of arguments after the values that are clusters.
    pub(super) clusterings: usize,
}

/// Collects the observations of a group.
pub(super) struct Collector {
    function: &'static str,
    shape: Shape,
    samples: Samples,
    null: ScalarValue,
    finish: Finish,
}

impl Collector {
    /// A collector without observations. `null` is the result of no observations.
    pub(super) fn boxed(
        function: &'static str,
        shape: Shape,
        return_type: &DataType,
        finish: Finish,
    ) -> Result<Box<dyn Accumulator>> {
        let null = ScalarValue::try_from(return_type)?;
        Ok(Box::new(Self { function, shape, samples: Samples::default(), null, finish }))
    }

    /// The state of every function: a list of values, two lists of labels.
    pub(super) fn state_type() -> Vec<(&'static str, DataType)> {
        vec![
            ("values", list_type(DataType::Float64)),
            ("clusters", list_type(DataType::Utf8View)),
            ("second_clusters", list_type(DataType::Utf8View)),
        ]
    }
}

fn list_type(item: DataType) -> DataType {
    DataType::LargeList(Arc::new(Field::new_list_field(item, true)))
}

fn list_of(items: ArrayRef) -> Result<ScalarValue> {
    let field = Arc::new(Field::new_list_field(items.data_type().clone(), true));
    let offsets = OffsetBuffer::from_lengths([items.len()]);
    let list = LargeListArray::try_new(field, offsets, items, None)?;
    Ok(ScalarValue::LargeList(Arc::new(list)))
}

impl fmt::Debug for Collector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Collector")
            .field("function", &self.function)
            .field("values", &self.samples.values.len())
            .finish_non_exhaustive()
    }
}

impl Accumulator for Collector {
    fn update_batch(&mut self, columns: &[ArrayRef]) -> Result<()> {
        let used = 1 + usize::from(self.shape.paired) + self.shape.clusterings;
        let columns = &columns[..used.min(columns.len())];
        // Numbers are values and all else labels, whichever comes first.
        let values = columns.iter().filter_map(|column| column.as_primitive_opt::<Float64Type>());
        let values: Vec<&Float64Array> = values.collect();
        let labels = columns.iter().filter(|column| *column.data_type() != DataType::Float64);
        let labels = labels.map(|labels| cast(labels, &DataType::Utf8View));
        let labels: Vec<ArrayRef> = labels.collect::<Result<_, _>>()?;
        let labels: Vec<&StringViewArray> =
            labels.iter().map(|labels| labels.as_string_view()).collect();
        for row in 0..values[0].len() {
            if columns.iter().any(|column| column.is_null(row)) {
                continue;
            }
            let subtrahend = values.get(1).map_or(0.0, |values| values.value(row));
            self.samples.values.push(values[0].value(row) - subtrahend);
            for (clusters, labels) in self.samples.clusters.iter_mut().zip(&labels) {
                clusters.push(labels.value(row));
            }
        }
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let [values, clusters @ ..] = states else {
            return Ok(());
        };
        for values in values.as_list::<i64>().iter().flatten() {
            self.samples.values.extend_from_slice(values.as_primitive::<Float64Type>().values());
        }
        for (mine, theirs) in self.samples.clusters.iter_mut().zip(clusters) {
            for labels in theirs.as_list::<i64>().iter().flatten() {
                labels.as_string_view().iter().flatten().for_each(|label| mine.push(label));
            }
        }
        Ok(())
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let values = std::mem::take(&mut self.samples.values);
        let mut state = vec![list_of(Arc::new(Float64Array::from(values)))?];
        for labels in &self.samples.clusters {
            state.push(list_of(Arc::new(StringViewArray::from_iter_values(labels.iter())))?);
        }
        Ok(state)
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        match (self.finish)(&self.samples) {
            Ok(result) => result,
            Err(StatsError::Empty) => Ok(self.null.clone()),
            Err(error) => failed(self.function, &error),
        }
    }

    fn size(&self) -> usize {
        let clusters = self.samples.clusters.iter();
        let labels: usize =
            clusters.map(|c| c.bytes + c.column.capacity() * size_of::<u32>()).sum();
        size_of_val(self) + self.samples.values.capacity() * size_of::<f64>() + labels
    }
}
