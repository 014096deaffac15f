//! A JSON document that holds a list of records.

use std::io::Read;

use crate::error::FilesError;
use crate::json::{JsonError, Parser};
use crate::limits::DOCUMENT_BYTES_MAX;
use crate::stream::Text;
use proofmill_base::suggest;

/// A document whose grammar has been checked, and a place in its list of records.
pub struct Document {
    text: Vec<u8>,
    /// Where the next record starts, while there is one.
    next: Option<usize>,
    /// Lines before `counted`, and the offset up to which they are counted.
    line: u64,
    counted: usize,
}

impl Document {
    /// Reads a document and finds its records below the names of `path`.
    pub fn read(shown: &str, text: Text, path: &[String]) -> Result<Self, FilesError> {
        let mut bytes = Vec::new();
        text.take(DOCUMENT_BYTES_MAX + 1)
            .read_to_end(&mut bytes)
            .map_err(|error| FilesError::io(shown, error))?;
        if bytes.len() as u64 > DOCUMENT_BYTES_MAX {
            return Err(FilesError::DocumentSize { path: shown.to_owned() });
        }
        let mut parser = Parser::new(&bytes);
        let checked = parser.skip().and_then(|_| parser.end());
        checked.map_err(|diagnostic| syntax(shown, &bytes, &diagnostic))?;
        let next = find(shown, &bytes, path)?;
        Ok(Self { text: bytes, next, line: 1, counted: 0 })
    }

    /// Length of the document.
    pub fn bytes(&self) -> u64 {
        self.text.len() as u64
    }

    /// The next record, and the line it starts on.
    pub fn next(&mut self) -> Option<(u64, &[u8])> {
        let start = self.next.take()?;
        let mut parser = Parser::new(&self.text[start..]);
        // The grammar has been checked: nothing below can fail.
        let record = parser.skip().ok()?;
        let end = start + parser.at();
        if parser.more(b']').ok()? {
            parser.peek();
            self.next = Some(start + parser.at());
        }
        let from = end - record.len();
        self.line += line_ends(&self.text[self.counted..from]);
        self.counted = from;
        Some((self.line, &self.text[from..end]))
    }
}

/// Where the first record starts, if there is one.
fn find(shown: &str, text: &[u8], path: &[String]) -> Result<Option<usize>, FilesError> {
    let mut start = 0;
    for (depth, name) in path.iter().enumerate() {
        let above = path[..depth].join(".");
        start = enter(shown, &text[start..], name, &above)? + start;
    }
    let mut parser = Parser::new(&text[start..]);
    match parser.peek() {
        Some(b'[') => {
            let opened = parser.take(b'[').is_ok();
            let first = (opened && !parser.closed(b']')).then(|| {
                parser.peek();
                start + parser.at()
            });
            Ok(first)
        }
        Some(b'{') if path.is_empty() => {
            let names = names(&text[start..]);
            Err(missing(shown, "is an object; `records` says where its list is", "", &names))
        }
        _ => {
            let message = format!("has no list {}", place(&path.join(".")));
            Err(FilesError::Records { path: shown.to_owned(), message, help: None })
        }
    }
}

/// Where the value of the field `name` of the object at the start of `text` starts.
fn enter(shown: &str, text: &[u8], name: &str, above: &str) -> Result<usize, FilesError> {
    let mut found = fields(text).into_iter().filter(|(key, _)| key == name);
    match (found.next(), found.next()) {
        (Some((_, at)), None) => Ok(at),
        (Some(_), Some(_)) => {
            let message = format!("has the field `{name}` twice {}", place(above));
            Err(FilesError::Records { path: shown.to_owned(), message, help: None })
        }
        (None, _) => {
            let message = format!("has no field `{name}` {}", place(above));
            Err(missing(shown, &message, name, &names(text)))
        }
    }
}

fn missing(shown: &str, message: &str, name: &str, names: &[String]) -> FilesError {
    FilesError::Records {
        path: shown.to_owned(),
        message: message.to_owned(),
        help: suggest::help(name, names.iter().map(String::as_str)),
    }
}

fn place(path: &str) -> String {
    if path.is_empty() { "at its top".to_owned() } else { format!("at `{path}`") }
}

fn names(text: &[u8]) -> Vec<String> {
    fields(text).into_iter().map(|(name, _)| name).collect()
}

/// The fields of the object at the start of `text`, and where their values start.
fn fields(text: &[u8]) -> Vec<(String, usize)> {
    let mut fields = Vec::new();
    let mut parser = Parser::new(text);
    let mut read = || -> Result<(), JsonError> {
        parser.take(b'{')?;
        let mut more = !parser.closed(b'}');
        while more {
            let name = parser.key()?.into_owned();
            parser.peek();
            fields.push((name, parser.at()));
            parser.skip()?;
            more = parser.more(b'}')?;
        }
        Ok(())
    };
    // What is no object, or has a name that is no text, ends the fields.
    let _ = read();
    fields
}

fn syntax(shown: &str, text: &[u8], diagnostic: &JsonError) -> FilesError {
    let before = &text[..diagnostic.at.min(text.len())];
    let start = before.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    FilesError::Document {
        path: shown.to_owned(),
        line: line_ends(before) + 1,
        column: String::from_utf8_lossy(&before[start..]).chars().count() as u64 + 1,
        message: diagnostic.message.clone(),
    }
}

fn line_ends(text: &[u8]) -> u64 {
    text.iter().filter(|byte| **byte == b'\n').count() as u64
}
