//! Tables as aligned text, as wide as they are or fitted to a terminal.

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use comfy_table::{Cell, CellAlignment, Table, presets};
use textwrap::core::display_width;

use crate::draw::cells::texts;
use proofmill_base::styled::printable;

/// Columns of a table that are shown unless all are wanted.
const COLUMNS_SHOWN_MAX: usize = 64;
/// Spaces between two columns.
const GAP: usize = 2;
/// Columns of text are not made narrower than this, but left out.
const TEXT_WIDTH_MIN: usize = 8;
/// The same for the first one, which says what a row is about: a name of a run is as long.
const FIRST_WIDTH_MIN: usize = 25;

/// An aligned table from a header and rows of texts, each on one line; `right` tells which columns are
/// numbers. Names of columns are cut like texts of cells.
pub fn aligned(header: &[String], rows: Vec<Vec<String>>, right: &[bool]) -> String {
    fitted(header, rows, right, None).0
}

/// The same in `width` columns of a terminal, as far as that can be: texts are shortened, the widest first;
/// numbers never are. Also how many columns, the last ones, are left out.
pub fn fitted(
    header: &[String],
    rows: Vec<Vec<String>>,
    right: &[bool],
    width: Option<usize>,
) -> (String, usize) {
    // Before columns are measured: an escape is wider than what it stands for.
    let header: Vec<String> = header.iter().map(|name| printable(name, false)).collect();
    let shown = |row: &[String]| row.iter().map(|text| printable(text, true)).collect::<Vec<_>>();
    let rows: Vec<Vec<String>> = rows.iter().map(|row| shown(row)).collect();
    let is_number = |i: usize| right.get(i).copied().unwrap_or(false);
    let cells = |i: usize| rows.iter().map(move |row| display_width(&row[i])).max().unwrap_or(0);
    let columns = header.iter().enumerate().map(|(i, name)| {
        let cells = cells(i);
        let natural = cells.max(display_width(name));
        let least = match (is_number(i), i) {
            (true, _) => cells.max(TEXT_WIDTH_MIN),
            (false, 0) => FIRST_WIDTH_MIN,
            (false, _) => TEXT_WIDTH_MIN,
        };
        (natural, least.min(natural))
    });
    let widths = widths(&columns.collect::<Vec<_>>(), width);
    let mut table = Table::new();
    table.load_preset(presets::NOTHING);
    let align = |i| if is_number(i) { CellAlignment::Right } else { CellAlignment::Left };
    let line = |row: &[String]| {
        let cells = row.iter().zip(&widths).enumerate();
        let cell = |(i, (text, width)): (usize, (&String, &usize))| {
            Cell::new(shortened(text, *width)).set_alignment(align(i))
        };
        cells.map(cell).collect::<Vec<_>>()
    };
    table.add_row(line(&header));
    let rule = |i: usize, width: usize| {
        let chars = rows.iter().map(|row| &row[i]).chain([&header[i]]).map(|it| it.chars().count());
        "─".repeat(chars.max().unwrap_or(0).min(width))
    };
    table.add_row(widths.iter().enumerate().map(|(i, width)| Cell::new(rule(i, *width))));
    rows.iter().for_each(|row| {
        table.add_row(line(row));
    });
    for column in table.column_iter_mut() {
        column.set_padding((0, GAP as u16));
    }
    let trimmed: Vec<_> = table.lines().map(|line| line.trim_end().to_owned()).collect();
    (trimmed.join("\n") + "\n", header.len() - widths.len())
}

/// How wide each column becomes, of those that have room; each is given as its natural and its least width.
fn widths(columns: &[(usize, usize)], width: Option<usize>) -> Vec<usize> {
    let natural = || columns.iter().map(|(natural, _)| *natural).collect::<Vec<_>>();
    let Some(width) = width else { return natural() };
    let needed = |widths: &mut dyn Iterator<Item = usize>| {
        widths.map(|one| one + GAP).sum::<usize>().saturating_sub(GAP)
    };
    // The first column is shown in any case.
    let mut fitting = columns.len();
    while fitting > 1 && needed(&mut columns[..fitting].iter().map(|(_, least)| *least)) > width {
        fitting -= 1;
    }
    let columns = &columns[..fitting];
    let capped =
        |cap: usize| columns.iter().map(move |(natural, least)| (*natural).min(cap).max(*least));
    let widest = columns.iter().map(|(natural, _)| *natural).max().unwrap_or(0);
    // The widest cap that fits.
    let (mut low, mut high) = (0, widest);
    while low < high {
        let cap = (low + high).div_ceil(2);
        match needed(&mut capped(cap)) <= width {
            true => low = cap,
            false => high = cap - 1,
        }
    }
    let mut widths: Vec<usize> = capped(low).collect();
    // What is left over goes to those that were cut.
    let mut left = width.saturating_sub(needed(&mut widths.iter().copied()));
    for (one, (natural, _)) in widths.iter_mut().zip(columns) {
        let more = natural.saturating_sub(*one).min(left);
        *one += more;
        left -= more;
    }
    widths
}

/// The text in so many columns of a terminal; `…` stands for what is cut off.
pub fn shortened(text: &str, width: usize) -> String {
    if display_width(text) <= width {
        return text.to_owned();
    }
    let (mut out, mut used) = (String::new(), 0);
    for c in text.chars() {
        let wide = display_width(c.encode_utf8(&mut [0; 4]));
        if used + wide + 1 > width {
            break;
        }
        out.push(c);
        used += wide;
    }
    if width > 0 {
        out.push('…');
    }
    out
}

/// The rows of a table, in `width` columns of a terminal if that is given; `full` keeps long texts and all
/// columns, as wide as they are. `elsewhere` says where columns are that find no room.
pub fn of_batches(
    schema: &SchemaRef,
    batches: &[RecordBatch],
    full: bool,
    width: Option<usize>,
    elsewhere: &str,
) -> String {
    let all = schema.fields().len();
    let shown = if full { all } else { all.min(COLUMNS_SHOWN_MAX) };
    let fields = || schema.fields().iter().take(shown);
    let header: Vec<String> = fields().map(|field| field.name().clone()).collect();
    let right: Vec<bool> = fields().map(|field| field.data_type().is_numeric()).collect();
    let mut rows = Vec::new();
    for batch in batches {
        let columns: Vec<Vec<String>> =
            batch.columns().iter().take(shown).map(|column| texts(column, full)).collect();
        rows.extend(
            (0..batch.num_rows()).map(|row| columns.iter().map(|c| c[row].clone()).collect()),
        );
    }
    let (table, cut) = fitted(&header, rows, &right, width.filter(|_| !full));
    table + &more_columns(all - shown + cut, elsewhere)
}

/// A line that says how many columns are not shown; nothing if all are.
pub fn more_columns(columns: usize, elsewhere: &str) -> String {
    match columns {
        0 => String::new(),
        1 => format!("and 1 more column{elsewhere}\n"),
        more => format!("and {more} more columns{elsewhere}\n"),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, Int64Array};

    use super::*;

    fn table(columns: usize) -> (SchemaRef, Vec<RecordBatch>) {
        let value: ArrayRef = Arc::new(Int64Array::from(vec![7]));
        let columns = (0..columns).map(|i| (format!("c{i:03}"), Arc::clone(&value)));
        let batch = RecordBatch::try_from_iter(columns).unwrap();
        (batch.schema(), vec![batch])
    }

    #[test]
    fn wide_tables_are_cut_and_say_so() {
        let (schema, batches) = table(COLUMNS_SHOWN_MAX + 2);
        let text = of_batches(&schema, &batches, false, None, "");
        assert!(text.contains("c063") && !text.contains("c064"), "{text}");
        assert!(text.ends_with("and 2 more columns\n"), "{text}");
        let text = of_batches(&schema, &batches, true, None, "");
        assert!(text.contains("c065") && !text.contains("more column"), "{text}");
        let (schema, batches) = table(COLUMNS_SHOWN_MAX);
        assert!(!of_batches(&schema, &batches, false, None, "").contains("more column"));
    }

    #[test]
    fn long_names_of_columns_are_cut() {
        let text = aligned(&["x".repeat(70_000)], vec![vec!["1".to_owned()]], &[true]);
        assert!(text.lines().all(|line| line.chars().count() < 100));
    }

    fn texts_of(rows: &[&[&str]]) -> Vec<Vec<String>> {
        rows.iter().map(|row| row.iter().map(|text| (*text).to_owned()).collect()).collect()
    }

    #[test]
    fn the_widest_texts_are_shortened_and_numbers_are_not() {
        let header = ["id", "question", "answer", "n"].map(str::to_owned);
        let question = "a long question about nothing in particular, and more";
        let rows = || texts_of(&[&["1", question, "an answer of some length", "1234567.25"]]);
        let right = [false, false, false, true];
        let (text, cut) = fitted(&header, rows(), &right, Some(60));
        insta::assert_snapshot!(text, @r"
        id  question               answer                          n
        ──  ─────────────────────  ─────────────────────  ──────────
        1   a long question abou…  an answer of some le…  1234567.25
        ");
        assert_eq!(cut, 0);
        for width in 1..120 {
            let (text, cut) = fitted(&header, rows(), &right, Some(width));
            let widest = text.lines().map(display_width).max().unwrap();
            assert!(widest <= width || cut == 3, "{width}: {widest}\n{text}");
            assert!(cut > 0 || text.contains("1234567.25"), "{width}:\n{text}");
        }
        assert_eq!(
            fitted(&header, rows(), &right, Some(100)),
            fitted(&header, rows(), &right, None)
        );
    }

    #[test]
    fn columns_without_room_are_counted() {
        let (schema, batches) = table(40);
        let text = of_batches(&schema, &batches, false, Some(40), "; look elsewhere");
        assert!(text.lines().all(|line| line.chars().count() <= 40), "{text}");
        assert!(text.ends_with("and 33 more columns; look elsewhere\n"), "{text}");
        assert_eq!(
            of_batches(&schema, &batches, true, Some(40), ""),
            of_batches(&schema, &batches, true, None, "")
        );
    }

    #[test]
    fn wide_characters_take_two_columns() {
        assert_eq!(shortened("東京都庁", 8), "東京都庁");
        assert_eq!(shortened("東京都庁舎", 8), "東京都…");
        assert_eq!(shortened("abc", 1), "…");
        assert_eq!(shortened("abc", 0), "");
        let header = ["a", "b"].map(str::to_owned);
        let text = aligned(&header, texts_of(&[&["東京", "x"], &["y", "z"]]), &[]);
        insta::assert_snapshot!(text, @r"
        a     b
        ──    ─
        東京  x
        y     z
        ");
    }
}
