//! A plot on a page: its columns, and its points from rows.

use arrow::array::{Array, AsArray, Float64Array, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Float64Type, SchemaRef};

use crate::draw::cells::texts;
use crate::draw::plot::series::{Plot, SERIES_MAX};
use crate::draw::plot::{svg, text};
use crate::stages::diagnostics::Diagnostics;
use crate::stages::error::StageError;
use crate::stages::kinds::report::block::{Drawing, Needs, RowsBlock};
use proofmill_pipeline::code::Code;
use proofmill_pipeline::kinds::report::PlotBlock;
use proofmill_pipeline::settings::StageRef;

/// Points of a plot, at most: what a picture can hold.
const POINTS_MAX: usize = 20_000;

impl RowsBlock for PlotBlock {
    fn needs(
        &self,
        schema: &SchemaRef,
        steps: &[&str; 4],
        diagnostics: &mut Diagnostics<'_>,
    ) -> Option<Needs> {
        // The positions of `x`, `y`, then `low` and `high` if there are any, then `by` if there is one.
        let numbers = [
            ("x", Some(&self.x)),
            ("y", Some(&self.y)),
            ("low", self.low.as_ref()),
            ("high", self.high.as_ref()),
        ];
        let mut found = of_numbers(&numbers, schema, steps, diagnostics);
        found.extend(of_series(self.by.as_deref(), schema, steps, diagnostics));
        let columns = found.into_iter().collect::<Option<_>>()?;
        // One more than can be drawn, to distinguish a full plot from one with too many points.
        Some(Needs { columns, most: POINTS_MAX + 1 })
    }

    fn picture<'a>(&'a self, of_table: &'a str) -> Option<&'a str> {
        Some(self.name.as_deref().unwrap_or(of_table))
    }

    fn draw(&self, rows: &RecordBatch, _: u64, title: Option<&str>) -> Result<Drawing, StageError> {
        let plot = of_rows(self, rows)?;
        Ok(Drawing::Picture { text: text::draw(&plot), svg: svg::draw(&plot, title) })
    }
}

/// The positions of columns of numbers, by their keys; with `low` goes `high`.
pub fn of_numbers(
    numbers: &[(&str, Option<&String>)],
    schema: &SchemaRef,
    steps: &[&str; 4],
    diagnostics: &mut Diagnostics<'_>,
) -> Vec<Option<usize>> {
    let at = |key| steps.iter().copied().chain([key]).collect::<Vec<_>>();
    let mut found = Vec::new();
    for (key, column) in numbers {
        found.extend(column.map(|column| number(&at(key), column, schema, diagnostics)));
    }
    let given = |end| numbers.iter().any(|(key, column)| *key == end && column.is_some());
    let one_end = match (given("low"), given("high")) {
        (true, false) => Some(("high", "low")),
        (false, true) => Some(("low", "high")),
        (true, true) | (false, false) => None,
    };
    if let Some((key, beside)) = one_end {
        let message = format!("a range has two ends: `{key}` is missing");
        diagnostics.error(&at(beside), Code::MissingKey, message, None);
        found.push(None);
    }
    found
}

/// The position of the column that separates series, if there is one.
pub fn of_series(
    by: Option<&str>,
    schema: &SchemaRef,
    steps: &[&str; 4],
    diagnostics: &mut Diagnostics<'_>,
) -> Option<Option<usize>> {
    let steps: Vec<&str> = steps.iter().copied().chain(["by"]).collect();
    by.map(|by| scalar(&steps, by, schema, diagnostics))
}

/// The position of a column whose values are names.
pub fn scalar(
    steps: &[&str],
    column: &str,
    schema: &SchemaRef,
    diagnostics: &mut Diagnostics<'_>,
) -> Option<usize> {
    diagnostics.column(steps, column, schema).filter(|position| {
        let kind = schema.field(*position).data_type();
        if kind.is_nested() {
            let message = format!("the column `{column}` is {kind}: expected text or numbers");
            let help = "take a part of it in an upstream stage".to_owned();
            diagnostics.error(steps, Code::ColumnType, message, Some(help));
        }
        !kind.is_nested()
    })
}

fn number(
    steps: &[&str],
    column: &str,
    schema: &SchemaRef,
    diagnostics: &mut Diagnostics<'_>,
) -> Option<usize> {
    let help = format!("write `CAST({column} AS DOUBLE) AS {column}` in an upstream stage");
    diagnostics.typed_column(steps, column, schema, ("a number", DataType::is_numeric, Some(help)))
}

/// The plot of rows with these columns.
fn of_rows(settings: &PlotBlock, rows: &RecordBatch) -> Result<Plot, StageError> {
    few_enough(&settings.from, rows)?;
    let number = |at: usize| numbers(rows, at);
    let (x, y) = (number(0)?, number(1)?);
    let ranges = match settings.low {
        Some(_) => Some((number(2)?, number(3)?)),
        None => None,
    };
    let series = match settings.by {
        Some(_) => rows.columns().last().map(|column| texts(column, true)),
        None => None,
    };
    let mut plot = Plot {
        x: settings.x_label.as_ref().unwrap_or(&settings.x).clone(),
        y: settings.y_label.as_ref().unwrap_or(&settings.y).clone(),
        range: settings
            .low
            .as_ref()
            .zip(settings.high.as_ref())
            .map(|(l, h)| format!("{l} to {h}")),
        lines: settings.lines,
        series: Vec::new(),
        left_out: 0,
    };
    for row in 0..rows.num_rows() {
        let name = series.as_ref().map_or("", |series| series[row].as_str());
        let range =
            ranges.as_ref().map_or([None, None], |(low, high)| [value(low, row), value(high, row)]);
        plot.add(name, value(&x, row), value(&y, row), range);
    }
    few_series(&settings.from, plot.series.len(), SERIES_MAX)?;
    Ok(plot)
}

/// An error if there are more rows than a picture can hold.
fn few_enough(from: &StageRef, rows: &RecordBatch) -> Result<(), StageError> {
    if rows.num_rows() <= POINTS_MAX {
        return Ok(());
    }
    Err(StageError::Data {
        message: format!("`{from}` has more than {POINTS_MAX} rows to plot"),
        help: "group or sample them in an upstream stage".to_owned(),
    })
}

/// An error if there are more series than `most`.
pub fn few_series(from: &StageRef, series: usize, most: usize) -> Result<(), StageError> {
    if series <= most {
        return Ok(());
    }
    Err(StageError::Data {
        message: format!(
            "the plot of `{from}` has {series} series, but only {most} can be told apart"
        ),
        help: "filter them in an upstream stage, or plot them without `by`".to_owned(),
    })
}

/// The numbers of a column.
pub fn numbers(rows: &RecordBatch, column: usize) -> Result<Float64Array, StageError> {
    Ok(cast(rows.column(column), &DataType::Float64)?.as_primitive::<Float64Type>().clone())
}

/// The number in a row, if there is one.
pub fn value(of: &Float64Array, row: usize) -> Option<f64> {
    of.is_valid(row).then(|| of.value(row))
}
