//! A page that a `report` stage drew, as text.

use crate::run::reports::{Page, PageBlock};

/// The page as it was drawn, then where the tables lie that it shows.
pub fn text(page: &Page) -> String {
    let mut out: Vec<String> = page.drawn().map(block).collect();
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

/// A block under its heading.
fn block(PageBlock { is_title, title, content, .. }: PageBlock) -> String {
    match title {
        _ if is_title => underlined(content.trim_end(), '═'),
        Some(title) => underlined(&title, '─') + &content,
        None => content,
    }
}

fn underlined(heading: &str, rule: char) -> String {
    let widest = heading.lines().map(|line| line.chars().count()).max().unwrap_or(0);
    format!("{heading}\n{}\n", String::from(rule).repeat(widest))
}
