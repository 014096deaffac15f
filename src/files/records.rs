//! The records of a text file, one after the other, whatever its format.

use std::io;

use crate::delimited::{Progress, Splitter};
use crate::document::Document;
use crate::error::FilesError;
use crate::error_rows::{ErrorClass, Fault};
use crate::format::Fields;
use crate::json::{Json, JsonError, Object, parse};
use crate::limits::RECORD_BYTES_MAX;
use crate::lines::{Line, Lines, without_end};
use crate::settings::Options;
use crate::stream::Text;
use proofmill_pipeline::kinds::read::Format;

/// A record as it stands in the file, and what it holds.
pub struct Record<'a> {
    pub line: u64,
    pub raw: &'a [u8],
    /// Its fields, or why it has none.
    pub content: Result<RecordContent<'a>, Fault>,
}

/// The fields of a record.
pub enum RecordContent<'a> {
    Object(Object<'a>),
    /// Fields by position; `None` is a missing value.
    Cells(Vec<Option<&'a str>>),
}

/// Reads records.
pub struct Records {
    shown: String,
    source: Source,
    record: Vec<u8>,
    blank: u64,
}

enum Source {
    Jsonl(Lines),
    Json(Document),
    Lines(Lines),
    Delimited { lines: Lines, splitter: Splitter, width: Option<usize> },
}

impl Records {
    /// The records of a file. `width` is the number of cells of a record where it is known.
    pub fn open(
        shown: &str,
        text: Text,
        options: &Options,
        width: Option<usize>,
    ) -> Result<Self, FilesError> {
        let source = match (options.fields(), options.format) {
            (Fields::Cells { quoted, .. }, _) => Source::Delimited {
                lines: Lines::new(text),
                splitter: Splitter::new(options.delimiter, quoted),
                width,
            },
            (Fields::Line, _) => Source::Lines(Lines::new(text)),
            (_, Format::Json) => Source::Json(Document::read(shown, text, &options.records)?),
            (Fields::Named | Fields::Columns, _) => Source::Jsonl(Lines::new(text)),
        };
        Ok(Self { shown: shown.to_owned(), source, record: Vec::new(), blank: 0 })
    }

    /// Reads the names of the columns from the first line of `csv` or `tsv`. A file without any
    /// line has none.
    pub fn header(&mut self) -> Result<Vec<String>, FilesError> {
        let path = self.shown.clone();
        let wrong = |reason: String| FilesError::Header { path: path.clone(), reason };
        let Some(record) = self.next()? else {
            return Ok(Vec::new());
        };
        let cells = match record.content {
            Ok(RecordContent::Cells(cells)) => cells,
            Ok(RecordContent::Object(_)) => Vec::new(),
            Err(fault) => return Err(wrong(format!("cannot be read: {}", fault.message))),
        };
        let mut names = Vec::<String>::with_capacity(cells.len());
        for (i, cell) in cells.into_iter().enumerate() {
            let name = cell.unwrap_or_default();
            if name.is_empty() {
                return Err(wrong(format!("has no name for column {}", i + 1)));
            }
            names.push(name.to_owned());
        }
        let mut seen = std::collections::HashSet::new();
        match names.iter().find(|name| !seen.insert(name.as_str())) {
            Some(name) => Err(wrong(format!("names the column `{name}` twice"))),
            None => Ok(names),
        }
    }

    /// Number of cells of a record, once it is known.
    pub fn width(&self) -> Option<usize> {
        match &self.source {
            Source::Delimited { width, .. } => *width,
            Source::Jsonl(_) | Source::Json(_) | Source::Lines(_) => None,
        }
    }

    /// Lines passed over because they are blank.
    pub fn blank(&self) -> u64 {
        self.blank
    }

    /// Length of the text, where it has been read as a whole.
    pub fn text_bytes(&self) -> Option<u64> {
        match &self.source {
            Source::Json(document) => Some(document.bytes()),
            Source::Jsonl(_) | Source::Lines(_) | Source::Delimited { .. } => None,
        }
    }

    pub fn next(&mut self) -> Result<Option<Record<'_>>, FilesError> {
        let Self { shown, source, record, blank } = self;
        let failed = |error: io::Error| FilesError::io(shown, error);
        match source {
            Source::Json(document) => Ok(document.next().map(|(line, raw)| {
                let content =
                    if raw.len() > RECORD_BYTES_MAX { Err(too_long()) } else { object(raw) };
                Record { line, raw, content }
            })),
            Source::Jsonl(lines) => {
                let Some((line, found)) =
                    one_line(lines, record, blank, is_white).map_err(failed)?
                else {
                    return Ok(None);
                };
                let content = match found {
                    Line::TooLong => Err(too_long()),
                    Line::Whole | Line::End => object(record),
                };
                Ok(Some(Record { line, raw: record, content }))
            }
            Source::Lines(lines) => {
                let Some((line, found)) =
                    one_line(lines, record, blank, |_| false).map_err(failed)?
                else {
                    return Ok(None);
                };
                let content = match found {
                    Line::TooLong => Err(too_long()),
                    Line::Whole | Line::End => match std::str::from_utf8(without_end(record)) {
                        Ok(text) => Ok(RecordContent::Cells(vec![Some(text)])),
                        Err(error) => Err(no_text(record, error.valid_up_to())),
                    },
                };
                Ok(Some(Record { line, raw: record, content }))
            }
            Source::Delimited { lines, splitter, width } => {
                // In a table of one column, a blank line is a row with an empty cell.
                let is_blank = if *width == Some(1) { |_: &[u8]| false } else { is_empty };
                let Some((line, found)) =
                    one_line(lines, record, blank, is_blank).map_err(failed)?
                else {
                    return Ok(None);
                };
                let content = match split(lines, splitter, record, found).map_err(failed)? {
                    Ok(()) => cells(splitter, record, width),
                    Err(fault) => Err(fault),
                };
                Ok(Some(Record { line, raw: record, content }))
            }
        }
    }
}

/// Reads a line that starts a record into `record`; returns its number.
fn one_line(
    lines: &mut Lines,
    record: &mut Vec<u8>,
    blank: &mut u64,
    is_blank: fn(&[u8]) -> bool,
) -> io::Result<Option<(u64, Line)>> {
    loop {
        record.clear();
        match lines.append(record)? {
            Line::End => return Ok(None),
            Line::Whole if is_blank(record) => *blank += 1,
            found => return Ok(Some((lines.number(), found))),
        }
    }
}

fn is_white(line: &[u8]) -> bool {
    line.trim_ascii().is_empty()
}

fn is_empty(line: &[u8]) -> bool {
    without_end(line).is_empty()
}

/// The fields of a record that is a JSON object.
pub fn object(raw: &[u8]) -> Result<RecordContent<'_>, Fault> {
    match parse(raw) {
        Ok(Json::Object(object, _)) => Ok(RecordContent::Object(object)),
        Ok(other) => {
            let message = format!("expected an object, found {}", other.describe());
            Err(Fault::new(ErrorClass::Syntax, message))
        }
        Err(JsonError { class: ErrorClass::Fields, message, .. }) => {
            Err(Fault::new(ErrorClass::Fields, message))
        }
        Err(JsonError { class: ErrorClass::Encoding, at, .. }) => Err(no_text(raw, at)),
        Err(JsonError { class, at, message }) => {
            Err(Fault::new(class, format!("character {}: {message}", characters(raw, at) + 1)))
        }
    }
}

/// Splits a record into cells, reading further lines while a quote is open.
fn split(
    lines: &mut Lines,
    splitter: &mut Splitter,
    record: &mut Vec<u8>,
    mut found: Line,
) -> io::Result<Result<(), Fault>> {
    splitter.clear();
    let opened = lines.number();
    let mut start = 0;
    let unclosed = || {
        let message = format!("a quote in the record of line {opened} is never closed");
        Fault::new(ErrorClass::Syntax, message)
    };
    loop {
        match found {
            Line::Whole => {}
            Line::TooLong => return Ok(Err(too_long())),
            Line::End => return Ok(Err(unclosed())),
        }
        match splitter.line(&record[start..]) {
            Progress::Whole => return Ok(Ok(())),
            Progress::Open => {}
            Progress::Broken(at) => {
                let at = characters(record, start + at) + 1;
                let message = format!(
                    "character {at}: expected a delimiter after a closing quote; a quote inside \
                     quotes is doubled"
                );
                return Ok(Err(Fault::new(ErrorClass::Syntax, message)));
            }
        }
        start = record.len();
        found = lines.append(record)?;
    }
}

fn cells<'a>(
    splitter: &'a Splitter,
    record: &[u8],
    width: &mut Option<usize>,
) -> Result<RecordContent<'a>, Fault> {
    let cells = splitter.cells().map_err(|_| {
        let at = std::str::from_utf8(record).err().map_or(0, |error| error.valid_up_to());
        no_text(record, at)
    })?;
    let expected = *width.get_or_insert(cells.len());
    if cells.len() == expected {
        return Ok(RecordContent::Cells(cells));
    }
    let fields = if expected == 1 { "field" } else { "fields" };
    let message = format!("expected {expected} {fields}, found {}", cells.len());
    Err(Fault::new(ErrorClass::Fields, message))
}

fn no_text(record: &[u8], at: usize) -> Fault {
    let character = characters(record, at) + 1;
    let message = match record.get(at) {
        Some(byte) => format!(
            "character {character}: the byte {byte:#04x} is not valid in this encoding; `encoding` \
             sets another"
        ),
        None => format!("character {character}: no text in this encoding"),
    };
    Fault::new(ErrorClass::Encoding, message)
}

fn too_long() -> Fault {
    let message = format!("the record is longer than {} MiB", RECORD_BYTES_MAX >> 20);
    Fault::new(ErrorClass::Size, message)
}

/// Number of characters before the byte at `at`.
fn characters(record: &[u8], at: usize) -> usize {
    String::from_utf8_lossy(&record[..at.min(record.len())]).chars().count()
}
