//! A page as one HTML document.

use crate::draw::html::Html;
use crate::draw::plot::svg;
use crate::draw::plot::text::draw;
use crate::views::section::{Grid, Section, View};

/// Bytes of a document, about: beyond them, folds and pictures give way to a line that says so.
const BYTES_MAX: usize = 900_000;
/// Bytes of a picture; a larger one is shown as text.
const PICTURE_BYTES_MAX: usize = 150_000;
/// Bytes of a text.
const TEXT_BYTES_MAX: usize = 60_000;
/// Rows of a table.
const ROWS_MAX: usize = 1_000;
/// Bytes of a cell.
const CELL_BYTES_MAX: usize = 2_000;

/// The document.
pub fn document(title: &str, view: &impl View) -> String {
    let mut html = Html::default();
    html.heading(1, title);
    for section in view.sections() {
        add(&mut html, &section);
    }
    html.finish(title)
}

fn add(html: &mut Html, section: &Section) {
    let room = BYTES_MAX.saturating_sub(html.bytes());
    match section {
        Section::Heading(text) => html.heading(2, text),
        Section::Text(text) => html.lines(&cut(text, TEXT_BYTES_MAX.min(room)), false),
        Section::Drawn(text) => html.lines(&cut(text, TEXT_BYTES_MAX.min(room)), true),
        Section::Table(grid) => table(html, grid, room),
        Section::Plot(plot) => {
            let title = format!("{} over {}", plot.y, plot.x);
            picture(html, &svg::draw(plot, None), &title, &draw(plot), room);
        }
        Section::Picture { title, text, svg } => picture(html, svg, title, text, room),
        Section::Fold { title, sections } => {
            html.open_fold(&cut(title, CELL_BYTES_MAX));
            sections.iter().for_each(|section| add(html, section));
            html.close_fold();
        }
    }
}

fn picture(html: &mut Html, svg: &str, title: &str, instead: &str, room: usize) {
    // An address is at most three times as long as what it holds.
    if svg.len() <= PICTURE_BYTES_MAX.min(room / 3) {
        html.picture(svg, &cut(title, CELL_BYTES_MAX));
    } else {
        html.lines(&cut(instead, TEXT_BYTES_MAX.min(room)), true);
    }
}

fn table(html: &mut Html, Grid { title, header, rows, right, note }: &Grid, room: usize) {
    let cells = |row: &Vec<String>| -> Vec<String> {
        row.iter().map(|cell| cut(cell, CELL_BYTES_MAX)).collect()
    };
    let mut left = room;
    let fits = |row: &Vec<String>| {
        let bytes = row.iter().map(|cell| cell.len() + "<td class=\"n\"></td>".len()).sum();
        let fits = bytes <= left;
        left = left.saturating_sub(bytes);
        fits
    };
    let shown: Vec<_> = rows.iter().take(ROWS_MAX).map(cells).take_while(fits).collect();
    html.table(title.as_deref(), header, &shown, right);
    if let Some(note) = note {
        html.note(note);
    }
    if shown.len() < rows.len() {
        html.note(&format!("the first {} of {} rows", shown.len(), rows.len()));
    }
}

/// The beginning of a text, with a word about the rest.
fn cut(text: &str, most: usize) -> String {
    if text.len() <= most {
        return text.to_owned();
    }
    let end = text.floor_char_boundary(most);
    format!("{}… ({} more bytes)", &text[..end], text.len() - end)
}
