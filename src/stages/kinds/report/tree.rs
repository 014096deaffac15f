//! Rows of a table as a tree: those that follow each other and agree in the first levels hang below the same nodes.

use arrow::array::{Array, ArrayRef, RecordBatch};
use arrow::datatypes::SchemaRef;

use crate::draw::WIDTH;
use crate::draw::cells::texts;
use crate::draw::tree::Tree;
use crate::stages::diagnostics::Diagnostics;
use crate::stages::error::StageError;
use crate::stages::kinds::report::block::{Drawing, Needs, RowsBlock};
use crate::stages::kinds::report::plot::scalar;
use crate::stages::kinds::report::table::more;
use proofmill_pipeline::kinds::report::TreeBlock;

impl RowsBlock for TreeBlock {
    fn needs(
        &self,
        schema: &SchemaRef,
        steps: &[&str; 4],
        diagnostics: &mut Diagnostics<'_>,
    ) -> Option<Needs> {
        // The positions of the levels, then of the details.
        let mut found = Vec::new();
        for (key, columns) in [("levels", &self.levels), ("details", &self.details)] {
            for (i, column) in columns.iter().enumerate() {
                let number = i.to_string();
                let steps: Vec<&str> = steps.iter().copied().chain([key, &number]).collect();
                found.push(scalar(&steps, column, schema, diagnostics));
            }
        }
        let columns = found.into_iter().collect::<Option<_>>()?;
        Some(Needs { columns, most: self.limit as usize })
    }

    fn picture<'a>(&'a self, _: &'a str) -> Option<&'a str> {
        None
    }

    fn draw(&self, rows: &RecordBatch, all: u64, _: Option<&str>) -> Result<Drawing, StageError> {
        let text = trees(self, rows) + &more(rows.num_rows(), all, "rows");
        Ok(Drawing::verbatim(text))
    }
}

/// The trees of rows with these columns, each line ended.
fn trees(settings: &TreeBlock, rows: &RecordBatch) -> String {
    let (levels, details) = rows.columns().split_at(settings.levels.len());
    let levels: Vec<Vec<Option<String>>> = levels.iter().map(cells).collect();
    let details: Vec<Vec<Option<String>>> = details.iter().map(cells).collect();
    let mut roots = Vec::new();
    let mut before: Vec<&str> = Vec::new();
    for row in 0..rows.num_rows() {
        let path: Vec<&str> = levels.iter().map_while(|level| level[row].as_deref()).collect();
        let same = path.iter().zip(&before).take_while(|(a, b)| a == b).count();
        let lines = settings.details.iter().zip(&details);
        let lines = lines.filter_map(|(name, detail)| Some((name, detail[row].as_ref()?)));
        let lines: String = lines.map(|(name, text)| format!("\n{name}: {text}")).collect();
        // A row that says nothing new is said again.
        let from = same.min(path.len().saturating_sub(1));
        hang(&mut roots, &path, from, &lines);
        before = path;
    }
    roots.iter().map(|root| root.draw(WIDTH).as_str().to_owned()).collect()
}

/// Puts nodes for all but the first `known` of `path` below those that came last.
fn hang(nodes: &mut Vec<Tree>, path: &[&str], known: usize, lines: &str) {
    let Some((first, rest)) = path.split_first() else { return };
    if known == 0 {
        let lines = if rest.is_empty() { lines } else { "" };
        nodes.push(Tree::leaf(format!("{first}{lines}").as_str()));
    }
    if let Some(node) = nodes.last_mut() {
        hang(&mut node.children, rest, known.saturating_sub(1), lines);
    }
}

/// The values of a column, each on one line.
fn cells(column: &ArrayRef) -> Vec<Option<String>> {
    let texts = texts(column, true).into_iter().enumerate();
    texts.map(|(row, text)| column.is_valid(row).then_some(text)).collect()
}
