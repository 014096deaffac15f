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

/// Columns of numbers that leave first where there is no room. What people decide by, a difference and its p-value, stays.
const LEAVE_FIRST: [&str; 16] = [
    "excluded",
    "errored",
    "answered",
    "only a",
    "only b",
    "only base",
    "only cand",
    "p mcnemar",
    "p boot",
    "p",
    "n",
    "pairs",
    "attempted",
    "low",
    "high",
    "by",
];
/// Rows of which what leaves is said below.
const BELOW_ROWS_MAX: usize = 20;

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
    let (header, rows) = shown(header, &rows);
    let is_number = |i: usize| right.get(i).copied().unwrap_or(false);
    let widths = widths(&measured(&header, &rows, right), width);
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

/// The same for numbers that people compare: where there is no room, columns that people decide least by leave first, then those on the right, and what they
/// hold follows below, row by row. `elsewhere` says where columns are that too many rows leave no room for.
pub fn prioritized(
    header: &[String],
    rows: Vec<Vec<String>>,
    right: &[bool],
    width: Option<usize>,
    elsewhere: &str,
) -> String {
    let mut kept: Vec<usize> = (0..header.len()).collect();
    let mut left: Vec<usize> = Vec::new();
    if let Some(width) = width {
        let (names, cells) = shown(header, &rows);
        let columns = measured(&names, &cells, right);
        while kept.len() > 1 && needed(kept.iter().map(|i| columns[*i].1)) > width {
            let first = LEAVE_FIRST
                .iter()
                .find_map(|name| kept.iter().position(|i| *i > 0 && header[*i] == *name));
            left.push(kept.remove(first.unwrap_or(kept.len() - 1)));
        }
    }
    left.sort_unstable();
    let cut = |row: &[String]| kept.iter().map(|i| row[*i].clone()).collect::<Vec<_>>();
    let right: Vec<bool> = kept.iter().map(|i| right.get(*i).copied().unwrap_or(false)).collect();
    let narrow = rows.iter().map(|row| cut(row)).collect();
    let (mut text, _) = fitted(&cut(header), narrow, &right, width);
    if rows.len() > BELOW_ROWS_MAX {
        return text + &more_columns(left.len(), elsewhere);
    }
    let pair = |row: &[String], i: usize| {
        let cell = printable(&row[i], true);
        (!cell.is_empty()).then(|| format!("{}: {cell}", printable(&header[i], false)))
    };
    for (n, row) in rows.iter().enumerate() {
        let pairs: Vec<String> = left.iter().filter_map(|i| pair(row, *i)).collect();
        if !pairs.is_empty() {
            let lines = textwrap::fill(
                &format!("row {}  {}", n + 1, pairs.join(", ")),
                width.unwrap_or(usize::MAX),
            );
            text += &format!("{lines}\n");
        }
    }
    text
}

/// Names and cells as a terminal shows them. Before columns are measured: an escape is wider than what it stands for.
fn shown(header: &[String], rows: &[Vec<String>]) -> (Vec<String>, Vec<Vec<String>>) {
    let row = |row: &Vec<String>| -> Vec<String> {
        row.iter().map(|text| printable(text, true)).collect()
    };
    (header.iter().map(|name| printable(name, false)).collect(), rows.iter().map(row).collect())
}

/// The natural and the least width of each column.
fn measured(header: &[String], rows: &[Vec<String>], right: &[bool]) -> Vec<(usize, usize)> {
    let cells = |i: usize| rows.iter().map(move |row| display_width(&row[i])).max().unwrap_or(0);
    let column = |(i, name): (usize, &String)| {
        let cells = cells(i);
        let natural = cells.max(display_width(name));
        let least = match (right.get(i).copied().unwrap_or(false), i) {
            (true, _) => cells.max(TEXT_WIDTH_MIN),
            (false, 0) => FIRST_WIDTH_MIN,
            (false, _) => TEXT_WIDTH_MIN,
        };
        (natural, least.min(natural))
    };
    header.iter().enumerate().map(column).collect()
}

/// The width of a table with columns of such widths.
fn needed(widths: impl Iterator<Item = usize>) -> usize {
    widths.map(|one| one + GAP).sum::<usize>().saturating_sub(GAP)
}

/// How wide each column becomes, of those that have room; each is given as its natural and its least width.
fn widths(columns: &[(usize, usize)], width: Option<usize>) -> Vec<usize> {
    let natural = || columns.iter().map(|(natural, _)| *natural).collect::<Vec<_>>();
    let Some(width) = width else { return natural() };
    // The first column is shown in any case.
    let mut fitting = columns.len();
    while fitting > 1 && needed(columns[..fitting].iter().map(|(_, least)| *least)) > width {
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
        match needed(capped(cap)) <= width {
            true => low = cap,
            false => high = cap - 1,
        }
    }
    let mut widths: Vec<usize> = capped(low).collect();
    // What is left over goes to those that were cut.
    let mut left = width.saturating_sub(needed(widths.iter().copied()));
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
    fn a_p_value_stays_and_what_leaves_is_said_below() {
        let header = [
            "stage", "by", "metric", "a", "b", "diff", "low", "high", "only a", "only b", "pairs",
            "p", "p holm",
        ]
        .map(str::to_owned);
        let rows = texts_of(&[&[
            "accuracy",
            "split=test",
            "accuracy",
            "0.6125",
            "0.6458",
            "0.0333",
            "-0.0126",
            "0.0792",
            "11",
            "19",
            "240 by question_id",
            "0.2005",
            "0.4010",
        ]]);
        let right: Vec<bool> = (0..13).map(|i| i > 2).collect();
        let text = prioritized(&header, rows.clone(), &right, Some(80), "");
        assert!(text.lines().all(|line| display_width(line) <= 80), "{text}");
        insta::assert_snapshot!(text, @r"
        stage     by          metric         a       b    diff      low    high  p holm
        ────────  ──────────  ────────  ──────  ──────  ──────  ───────  ──────  ──────
        accuracy  split=test  accuracy  0.6125  0.6458  0.0333  -0.0126  0.0792  0.4010
        row 1  only a: 11, only b: 19, pairs: 240 by question_id, p: 0.2005
        ");
        assert!(!prioritized(&header, rows, &right, Some(200), "").contains("row 1"));
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
