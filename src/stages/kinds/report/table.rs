//! A table on a page: its columns, and its first rows as text and as Markdown.

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;

use crate::draw::cells::texts;
use crate::draw::markdown;
use crate::draw::table::aligned;
use crate::stages::diagnostics::Diagnostics;
use crate::stages::error::StageError;
use crate::stages::kinds::report::block::{Drawing, Needs, RowsBlock};
use proofmill_base::styled::printable;
use proofmill_pipeline::kinds::report::TableBlock;

impl RowsBlock for TableBlock {
    fn needs(
        &self,
        schema: &SchemaRef,
        steps: &[&str; 4],
        diagnostics: &mut Diagnostics<'_>,
    ) -> Option<Needs> {
        // The positions of the columns that are shown.
        let Some(columns) = &self.columns else {
            let columns = (0..schema.fields().len()).collect();
            return Some(Needs { columns, most: self.limit as usize });
        };
        let mut found = Vec::new();
        for (i, column) in columns.iter().enumerate() {
            let number = i.to_string();
            let steps: Vec<&str> = steps.iter().copied().chain(["columns", &number]).collect();
            found.push(diagnostics.column(&steps, column, schema));
        }
        let columns = found.into_iter().collect::<Option<_>>()?;
        Some(Needs { columns, most: self.limit as usize })
    }

    fn picture<'a>(&'a self, _: &'a str) -> Option<&'a str> {
        None
    }

    fn draw(&self, rows: &RecordBatch, all: u64, _: Option<&str>) -> Result<Drawing, StageError> {
        let (text, markdown) = table(rows, all);
        Ok(Drawing::Text { text, markdown })
    }
}

/// The first of `all` rows, or how many there are if none is wanted: as text, each line ended, and
/// as Markdown.
fn table(rows: &RecordBatch, all: u64) -> (String, String) {
    if rows.num_rows() == 0 && all > 0 {
        // `limit: 0`: the page says where they lie.
        let rows = if all == 1 { "row" } else { "rows" };
        let count = format!("{all} {rows}\n");
        return (count.clone(), count);
    }
    let schema = rows.schema();
    let header: Vec<String> = schema.fields().iter().map(|f| printable(f.name(), false)).collect();
    let right: Vec<bool> = schema.fields().iter().map(|f| f.data_type().is_numeric()).collect();
    let lines = |full: bool| -> Vec<Vec<String>> {
        let columns: Vec<Vec<String>> = rows.columns().iter().map(|c| texts(c, full)).collect();
        (0..rows.num_rows()).map(|row| columns.iter().map(|c| c[row].clone()).collect()).collect()
    };
    let more = more(rows.num_rows(), all, "rows");
    let text = aligned(&header, lines(false), &right) + &more;
    let markdown = markdown::table(&header, &lines(true), &right);
    let more = if more.is_empty() { more } else { format!("\n{more}") };
    (text, markdown + &more)
}

/// A line that says how many rows are not shown; nothing if all are.
pub fn more(shown: usize, all: u64, rows: &str) -> String {
    match shown as u64 {
        0 => format!("no {rows}\n"),
        shown if shown < all => format!("{shown} of {all} {rows}\n"),
        _ => String::new(),
    }
}
