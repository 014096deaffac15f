//! Bars on a page: their columns, and a bar for each row.

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;

use crate::draw::cells::texts;
use crate::draw::plot::bars::{BARS_MAX, Bars, svg, text};
use crate::stages::diagnostics::Diagnostics;
use crate::stages::error::StageError;
use crate::stages::kinds::report::block::{Drawing, Needs, RowsBlock};
use crate::stages::kinds::report::plot::{numbers, of_numbers, scalar, value};
use proofmill_pipeline::kinds::report::BarsBlock;

impl RowsBlock for BarsBlock {
    fn needs(
        &self,
        schema: &SchemaRef,
        steps: &[&str; 4],
        diagnostics: &mut Diagnostics<'_>,
    ) -> Option<Needs> {
        // The positions of `label`, `value`, then `low` and `high` if there are any.
        let label: Vec<&str> = steps.iter().copied().chain(["label"]).collect();
        let mut found = vec![scalar(&label, &self.label, schema, diagnostics)];
        let keys = [
            ("value", Some(&self.value)),
            ("low", self.low.as_ref()),
            ("high", self.high.as_ref()),
        ];
        found.extend(of_numbers(&keys, schema, steps, diagnostics));
        let columns = found.into_iter().collect::<Option<_>>()?;
        Some(Needs { columns, most: BARS_MAX + 1 })
    }

    fn picture<'a>(&'a self, of_table: &'a str) -> Option<&'a str> {
        Some(self.name.as_deref().unwrap_or(of_table))
    }

    fn draw(&self, rows: &RecordBatch, _: u64, title: Option<&str>) -> Result<Drawing, StageError> {
        let bars = of_rows(self, rows)?;
        Ok(Drawing::Picture { text: text(&bars), svg: svg(&bars, title) })
    }
}

/// The bars of rows with these columns.
fn of_rows(settings: &BarsBlock, rows: &RecordBatch) -> Result<Bars, StageError> {
    if rows.num_rows() > BARS_MAX {
        return Err(StageError::Data {
            message: format!("`{}` has more than {BARS_MAX} rows to draw as bars", settings.from),
            help: "filter or group them in an upstream stage".to_owned(),
        });
    }
    let ranges = settings.low.as_ref().zip(settings.high.as_ref());
    let mut bars = Bars {
        x: settings.x_label.as_ref().unwrap_or(&settings.value).clone(),
        range: ranges.map(|(low, high)| format!("{low} to {high}")),
        bars: Vec::with_capacity(rows.num_rows()),
        left_out: 0,
    };
    let names = texts(rows.column(0), true);
    let values = numbers(rows, 1)?;
    let ends = if ranges.is_some() { Some((numbers(rows, 2)?, numbers(rows, 3)?)) } else { None };
    for (row, name) in names.iter().enumerate() {
        let range = ends.as_ref().map_or([None; 2], |(l, h)| [value(l, row), value(h, row)]);
        bars.add(name, value(&values, row), range);
    }
    Ok(bars)
}
