//! A plot on a page: its columns, and its points from rows.

use arrow::array::{Array, AsArray, Float64Array, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Float64Type, SchemaRef};

use crate::draw::cells::texts;
use crate::draw::plot::series::{Plot, SERIES_MAX};
use crate::stages::diagnostics::Diagnostics;
use crate::stages::error::StageError;
use proofmill_pipeline::code::Code;
use proofmill_pipeline::kinds::report::PlotBlock;

/// Points of a plot, at most: what a picture can hold.
pub const POINTS_MAX: usize = 20_000;

/// The positions of `x`, `y`, then `low` and `high` if there are any, then `by` if there is one; `None`
/// after mistakes.
pub fn columns(
    settings: &PlotBlock,
    schema: &SchemaRef,
    steps: &[&str; 4],
    diagnostics: &mut Diagnostics<'_>,
) -> Option<Vec<usize>> {
    let at = |key| steps.iter().copied().chain([key]).collect::<Vec<_>>();
    let numbers = [
        ("x", Some(&settings.x)),
        ("y", Some(&settings.y)),
        ("low", settings.low.as_ref()),
        ("high", settings.high.as_ref()),
    ];
    let mut found = Vec::new();
    for (key, column) in numbers {
        found.extend(column.map(|column| number(&at(key), column, schema, diagnostics)));
    }
    let one_end = match (&settings.low, &settings.high) {
        (Some(_), None) => Some(("high", "low")),
        (None, Some(_)) => Some(("low", "high")),
        (Some(_), Some(_)) | (None, None) => None,
    };
    if let Some((key, beside)) = one_end {
        let message = format!("a range has two ends: `{key}` is missing");
        diagnostics.error(&at(beside), Code::MissingKey, message, None);
        found.push(None);
    }
    if let Some(by) = &settings.by {
        let position = diagnostics.column(&at("by"), by, schema).filter(|position| {
            let kind = schema.field(*position).data_type();
            if kind.is_nested() {
                let message = format!("the column `{by}` is {kind}, which cannot separate series");
                diagnostics.error(&at("by"), Code::ColumnType, message, None);
            }
            !kind.is_nested()
        });
        found.push(position);
    }
    found.into_iter().collect()
}

fn number(
    steps: &[&str],
    column: &str,
    schema: &SchemaRef,
    diagnostics: &mut Diagnostics<'_>,
) -> Option<usize> {
    let help = format!("write `CAST({column} AS DOUBLE) AS {column}` in a stage before");
    diagnostics.typed_column(steps, column, schema, ("a number", DataType::is_numeric, Some(help)))
}

/// The plot of rows with these columns.
pub fn of_rows(settings: &PlotBlock, rows: &RecordBatch) -> Result<Plot, StageError> {
    if rows.num_rows() > POINTS_MAX {
        return Err(StageError::Data {
            message: format!("`{}` has more than {POINTS_MAX} rows to plot", settings.from),
            help: "group or sample them in a stage before".to_owned(),
        });
    }
    let number = |at: usize| -> Result<Float64Array, StageError> {
        Ok(cast(rows.column(at), &DataType::Float64)?.as_primitive::<Float64Type>().clone())
    };
    let (x, y) = (number(0)?, number(1)?);
    let ranges = match settings.low {
        Some(_) => Some((number(2)?, number(3)?)),
        None => None,
    };
    let series = match settings.by {
        Some(_) => rows.columns().last().map(|column| texts(column, true)),
        None => None,
    };
    let label =
        |written: &Option<String>, column: &str| written.as_deref().unwrap_or(column).to_owned();
    let mut plot = Plot {
        x: label(&settings.x_label, &settings.x),
        y: label(&settings.y_label, &settings.y),
        range: settings
            .low
            .as_ref()
            .zip(settings.high.as_ref())
            .map(|(l, h)| format!("{l} to {h}")),
        lines: settings.lines,
        series: Vec::new(),
        left_out: 0,
    };
    let value = |of: &Float64Array, row| of.is_valid(row).then(|| of.value(row));
    for row in 0..rows.num_rows() {
        let name = series.as_ref().map_or("", |series| series[row].as_str());
        let range =
            ranges.as_ref().map_or([None, None], |(low, high)| [value(low, row), value(high, row)]);
        plot.add(name, value(&x, row), value(&y, row), range);
    }
    if plot.series.len() > SERIES_MAX {
        return Err(StageError::Data {
            message: format!(
                "the plot of `{}` has {} series, and {SERIES_MAX} can be told apart",
                settings.from,
                plot.series.len()
            ),
            help: "choose some of them in a stage before, or plot them without `by`".to_owned(),
        });
    }
    Ok(plot)
}
