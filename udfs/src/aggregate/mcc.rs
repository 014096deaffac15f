//! `mcc`: Matthews correlation.

use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, LargeListArray, StringViewArray, UInt64Array,
};
use datafusion::arrow::buffer::OffsetBuffer;
use datafusion::arrow::datatypes::DataType;
use datafusion::arrow::datatypes::{Field, UInt64Type};
use datafusion::common::Result;
use datafusion::common::ScalarValue;
use datafusion::logical_expr::Accumulator;

use super::{AggregateDefinition, Constants};
use crate::definition::{Argument, Doc, Example, FunctionKind, Kind};
use crate::stats::Confusion;

/// SQL aggregate `mcc`.
pub static MCC: AggregateDefinition = AggregateDefinition {
    doc: Doc {
        name: "mcc",
        version: 1,
        kind: FunctionKind::Aggregate,
        description: "Matthews correlation of predicted and right labels, for any number of classes, -1 \
            to 1 (scikit-learn's `matthews_corrcoef`). If either column is constant it is 0. \
            Rows with a NULL are left out; NULL without rows.",
        arguments: &[
            Argument::required("predicted", Kind::Label, "The label the system gave."),
            Argument::required("gold", Kind::Label, "The right label."),
        ],
        returns: "a double from -1 to 1",
        example: Example {
            sql: "SELECT round(mcc(p, g), 4) AS mcc FROM (VALUES (1, 1), (0, 1), (1, 1), (0, 0), (1, 0), (1, 1), (0, 0), (1, 1)) AS t(p, g)",
            result: "
+--------+
| mcc    |
+--------+
| 0.4667 |
+--------+
",
        },
    },
    return_type,
    state,
    accumulator,
};

fn return_type() -> DataType {
    DataType::Float64
}

fn accumulator(constants: &Constants) -> Result<Box<dyn Accumulator>> {
    let _ = constants;
    Ok(Box::new(Labels::default()))
}

fn state() -> Vec<(&'static str, DataType)> {
    let list = |item| DataType::LargeList(Arc::new(Field::new_list_field(item, true)));
    vec![
        ("gold", list(DataType::Utf8View)),
        ("predicted", list(DataType::Utf8View)),
        ("count", list(DataType::UInt64)),
    ]
}

/// Counts of label pairs.
#[derive(Debug, Default)]
struct Labels {
    confusion: Confusion<String>,
}

impl Accumulator for Labels {
    fn update_batch(&mut self, columns: &[ArrayRef]) -> Result<()> {
        let (predicted, gold) = (columns[0].as_string_view(), columns[1].as_string_view());
        for (predicted, gold) in predicted.iter().zip(gold) {
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
        Ok(ScalarValue::Float64(self.confusion.mcc()))
    }

    fn size(&self) -> usize {
        let pair = |(gold, predicted, _): (&String, &String, u64)| {
            2 * size_of::<(String, String, u64)>() + gold.capacity() + predicted.capacity()
        };
        size_of_val(self) + self.confusion.counts().map(pair).sum::<usize>()
    }
}
