//! A page that a `report` stage drew, as text.

use arrow::array::{Array, AsArray, RecordBatch};

use crate::run::reports::Page;

/// The page as it was drawn, then where the tables lie that it shows.
pub fn text(page: &Page) -> String {
    let mut out: Vec<String> = page.blocks.iter().flat_map(blocks).collect();
    if !page.tables.is_empty() {
        let width = page.tables.keys().map(|stage| stage.as_str().len()).max().unwrap_or(0);
        let mut lines = "tables of this page\n".to_owned();
        for (stage, keys) in &page.tables {
            let none = ["no rows".to_owned()];
            let keys = if keys.is_empty() { none.as_slice() } else { keys.as_slice() };
            for (i, key) in keys.iter().enumerate() {
                let stage = if i == 0 { stage.as_str() } else { "" };
                lines.push_str(&format!("  {stage:<width$}  {key}\n"));
            }
        }
        out.push(lines);
    }
    out.join("\n")
}

/// Each block under its heading.
fn blocks(batch: &RecordBatch) -> Vec<String> {
    let column = |name: &str| {
        let column = batch.column_by_name(name).and_then(|column| column.as_string_opt::<i32>());
        column.cloned()
    };
    let (Some(block), Some(title), Some(content)) =
        (column("block"), column("title"), column("content"))
    else {
        return Vec::new();
    };
    let each = |row: usize| {
        let content = content.value(row);
        match (block.value(row), title.is_valid(row)) {
            ("title", _) => underlined(content.trim_end(), '═'),
            (_, true) => underlined(title.value(row), '─') + content,
            (_, false) => content.to_owned(),
        }
    };
    (0..batch.num_rows()).map(each).collect()
}

fn underlined(heading: &str, rule: char) -> String {
    let widest = heading.lines().map(|line| line.chars().count()).max().unwrap_or(0);
    format!("{heading}\n{}\n", String::from(rule).repeat(widest))
}
