//! The constant arguments of an aggregate, read before the first row.

use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::Schema;
use datafusion::common::{Result, ScalarValue, plan_err};
use datafusion::logical_expr::ColumnarValue;
use datafusion::logical_expr::function::AccumulatorArgs;

use crate::definition::Doc;
use crate::stats::{RESAMPLES_MAX, StatsError, normal_multiplier};

/// The constant arguments of one aggregate.
pub struct Constants {
    doc: &'static Doc,
    /// One entry per argument; `None` where the argument is a column.
    values: Vec<Option<ScalarValue>>,
}

impl Constants {
    /// Reads the constants; a plan error names one that is NULL or varies.
    pub fn new(doc: &'static Doc, args: &AccumulatorArgs) -> Result<Self> {
        let no_rows = RecordBatch::new_empty(Arc::new(Schema::empty()));
        let mut values = Vec::with_capacity(args.exprs.len());
        for (argument, expression) in doc.arguments.iter().zip(args.exprs) {
            if !argument.kind.is_constant() {
                values.push(None);
                continue;
            }
            // A column cannot be evaluated without one, a constant can.
            match expression.evaluate(&no_rows) {
                Ok(ColumnarValue::Scalar(value)) if !value.is_null() => values.push(Some(value)),
                other => {
                    let given = match other {
                        Ok(ColumnarValue::Scalar(_)) => "NULL".to_owned(),
                        _ => format!("`{expression}`"),
                    };
                    return plan_err!(
                        "`{}`: argument `{}` is {given}; expected {}",
                        doc.name,
                        argument.name,
                        argument.kind.expected()
                    );
                }
            }
        }
        Ok(Self { doc, values })
    }

    /// Whether an optional argument was given.
    pub fn has(&self, index: usize) -> bool {
        index < self.values.len()
    }

    /// A name, parsed; `None` if it was left out.
    pub fn choice<T, E: std::fmt::Display>(
        &self,
        index: usize,
        parse: impl Fn(&str) -> std::result::Result<T, E>,
    ) -> Result<Option<T>> {
        match self.get(index).and_then(|value| value.try_as_str()).flatten() {
            None => Ok(None),
            Some(name) => parse(name).map(Some).or_else(|error| self.refuse(index, error)),
        }
    }

    /// A number; `None` if it was left out.
    pub fn number(&self, index: usize) -> Option<f64> {
        match self.get(index) {
            Some(ScalarValue::Float64(value)) => *value,
            _ => None,
        }
    }

    /// A whole number; `None` if it was left out.
    pub fn whole(&self, index: usize) -> Option<i64> {
        match self.get(index) {
            Some(ScalarValue::Int64(value)) => *value,
            _ => None,
        }
    }

    /// A number of resamples.
    pub fn resamples(&self, index: usize) -> Result<u32> {
        let value = self.whole(index).unwrap_or_default();
        match u32::try_from(value) {
            Ok(fitting @ 1..=RESAMPLES_MAX) => Ok(fitting),
            _ => self.refuse(
                index,
                format!("`{value}` resamples; expected between 1 and {RESAMPLES_MAX}"),
            ),
        }
    }

    /// A seed: any whole number.
    pub fn seed(&self, index: usize) -> u64 {
        self.whole(index).unwrap_or_default().cast_unsigned()
    }

    /// A confidence level; 0.95 if it was left out.
    pub fn level(&self, index: usize) -> Result<f64> {
        let level = self.number(index).unwrap_or(0.95);
        normal_multiplier(level).or_else(|error| self.refuse(index, error))?;
        Ok(level)
    }

    /// The name of the function, for errors over its rows.
    pub fn function(&self) -> &'static str {
        self.doc.name
    }

    /// The error that an argument has a value it may not have.
    pub fn refuse<T>(&self, index: usize, problem: impl std::fmt::Display) -> Result<T> {
        let argument = self.doc.arguments.get(index).map_or("?", |argument| argument.name);
        plan_err!("`{}`: argument `{argument}`: {problem}", self.doc.name)
    }

    fn get(&self, index: usize) -> Option<&ScalarValue> {
        self.values.get(index).and_then(Option::as_ref)
    }
}

/// The error of a statistic over the rows of `function`.
pub(super) fn failed<T>(function: &str, error: &StatsError) -> Result<T> {
    datafusion::common::exec_err!("`{function}`: {error}")
}
