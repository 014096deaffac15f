//! A histogram on a page: its columns, and its series from rows.

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;

use crate::draw::cells::texts;
use crate::draw::plot::histogram::{Histogram, SERIES_MAX, svg, text};
use crate::stages::diagnostics::Diagnostics;
use crate::stages::error::StageError;
use crate::stages::kinds::report::block::{Drawing, Needs, RowsBlock};
use crate::stages::kinds::report::plot::{few_series, numbers, of_numbers, of_series, value};
use proofmill_pipeline::kinds::report::HistogramBlock;

/// Rows of a histogram, at most: their values are in memory together.
const ROWS_MAX: usize = 1_000_000;

impl RowsBlock for HistogramBlock {
    fn needs(
        &self,
        schema: &SchemaRef,
        steps: &[&str; 4],
        diagnostics: &mut Diagnostics<'_>,
    ) -> Option<Needs> {
        // The positions of `x`, then of `by` if there is one.
        let mut found = of_numbers(&[("x", Some(&self.x))], schema, steps, diagnostics);
        found.extend(of_series(self.by.as_deref(), schema, steps, diagnostics));
        let columns = found.into_iter().collect::<Option<_>>()?;
        Some(Needs { columns, most: ROWS_MAX + 1 })
    }

    fn picture<'a>(&'a self, of_table: &'a str) -> Option<&'a str> {
        Some(self.name.as_deref().unwrap_or(of_table))
    }

    fn draw(&self, rows: &RecordBatch, _: u64, title: Option<&str>) -> Result<Drawing, StageError> {
        let histogram = of_rows(self, rows)?;
        Ok(Drawing::Picture { text: text(&histogram), svg: svg(&histogram, title) })
    }
}

/// The histogram of rows with these columns.
fn of_rows(settings: &HistogramBlock, rows: &RecordBatch) -> Result<Histogram, StageError> {
    if rows.num_rows() > ROWS_MAX {
        return Err(StageError::Data {
            message: format!("`{}` has more than {ROWS_MAX} rows to count", settings.from),
            help: "sample them in an upstream stage".to_owned(),
        });
    }
    let mut histogram = Histogram {
        x: settings.x_label.as_ref().unwrap_or(&settings.x).clone(),
        bins: settings.bins as usize,
        series: Vec::new(),
        left_out: 0,
    };
    let values = numbers(rows, 0)?;
    let series = settings.by.as_ref().map(|_| texts(rows.column(1), true));
    for row in 0..rows.num_rows() {
        let name = series.as_ref().map_or("", |series| series[row].as_str());
        histogram.add(name, value(&values, row));
        few_series(&settings.from, histogram.series.len(), SERIES_MAX)?;
    }
    Ok(histogram)
}
