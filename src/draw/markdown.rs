//! Markdown: tables, and text that is shown as it is.

use proofmill_base::styled::is_hostile;

/// A table; `right` tells which columns are numbers.
pub fn table(header: &[String], rows: &[Vec<String>], right: &[bool]) -> String {
    let line = |cells: &[String]| {
        let cells: Vec<String> = cells.iter().map(|cell| escaped(cell)).collect();
        format!("| {} |\n", cells.join(" | "))
    };
    let rule = |i: usize| if right.get(i).copied().unwrap_or(false) { "---:" } else { "---" };
    let rules: Vec<&str> = (0..header.len()).map(rule).collect();
    let rows: String = rows.iter().map(|row| line(row)).collect();
    format!("{}| {} |\n{rows}", line(header), rules.join(" | "))
}

/// A block of text that is shown as it is, whatever it holds.
pub fn verbatim(text: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest.max(2) + 1);
    format!("{fence}text\n{}\n{fence}\n", text.trim_end_matches('\n'))
}

/// Text without characters that mean something in a line or a cell.
pub fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' | '\t' => out.push(' '),
            c if is_hostile(c) => out.push_str(&format!("\\{}", c.escape_default())),
            '\\' | '|' | '<' | '*' | '`' | '[' | '_' => out.extend(['\\', c]),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_cannot_end_its_column() {
        let header = ["a|b".to_owned(), "n".to_owned()];
        let rows = [vec!["x\ny".to_owned(), "1".to_owned()]];
        assert_eq!(
            table(&header, &rows, &[false, true]),
            "| a\\|b | n |\n| --- | ---: |\n| x y | 1 |\n"
        );
    }

    #[test]
    fn a_fence_is_longer_than_any_inside() {
        assert_eq!(verbatim("a\n```\n"), "````text\na\n```\n````\n");
        assert_eq!(verbatim("a"), "```text\na\n```\n");
    }
}
