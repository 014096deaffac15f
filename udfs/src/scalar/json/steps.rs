//! The arguments of functions that read JSON: a text, and steps into it that may vary from row to row.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::Result;

use crate::definition::{Argument, Kind};
use crate::scalar::Inputs;
use crate::scalar::inputs::{TextColumn, WholeColumn};
use crate::text::json::{JsonStep, find};

/// The first argument of all of them.
pub(super) const JSON: Argument =
    Argument::required("json", Kind::Text, "A text that is JSON as a whole.");

const STEP: &str = "A key of an object (a text), or the position in an array (a whole number) from 0, from its end if \
                    negative; more steps lead further in.";

/// The way to the value.
pub(super) const STEPS: Argument = Argument::repeated("step", Kind::Step, STEP);

/// The way to the value; the whole text without one.
pub(super) const STEPS_OR_NONE: Argument = Argument::any_number("step", Kind::Step, STEP);

/// A step of all rows.
enum StepColumn {
    Keys(TextColumn),
    Positions(WholeColumn),
}

impl StepColumn {
    fn get(&self, row: usize) -> Option<JsonStep<'_>> {
        match self {
            Self::Keys(keys) => keys.get(row).map(JsonStep::Key),
            Self::Positions(positions) => positions.get(row).map(JsonStep::Position),
        }
    }
}

/// What `of` makes of the value that each row asks for, `None` where there is none; NULL where an argument is.
pub(super) fn values<T>(
    inputs: &Inputs,
    of: impl Fn(Option<&str>) -> Option<T>,
) -> Result<Vec<Option<T>>> {
    let text = inputs.text(0)?;
    let step = |(i, kind): (usize, &DataType)| match kind {
        DataType::Int64 => inputs.whole(i).map(StepColumn::Positions),
        _ => inputs.text(i).map(StepColumn::Keys),
    };
    let steps: Vec<StepColumn> =
        inputs.types().iter().enumerate().skip(1).map(step).collect::<Result<_>>()?;
    let value = |row| {
        let way: Option<Vec<JsonStep<'_>>> = steps.iter().map(|step| step.get(row)).collect();
        of(find(text.get(row)?, &way?))
    };
    Ok((0..inputs.rows).map(value).collect())
}

/// The same as a column.
pub(super) fn each<T, A: Array + FromIterator<Option<T>> + 'static>(
    inputs: &Inputs,
    of: impl Fn(Option<&str>) -> Option<T>,
) -> Result<ArrayRef> {
    Ok(Arc::new(values(inputs, of)?.into_iter().collect::<A>()))
}
