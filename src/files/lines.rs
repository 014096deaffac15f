//! Lines of a text, one at a time and of bounded length.

use std::io::{self, BufRead, Read};

use crate::limits::RECORD_BYTES_MAX;
use crate::stream::Text;

/// What [`Lines::append`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Line {
    End,
    /// A line, with its line end unless the text ends without one.
    Whole,
    /// A line beyond the limit; the rest of it has been passed over.
    TooLong,
}

/// A reader of lines that counts them.
pub struct Lines {
    text: Text,
    number: u64,
}

impl Lines {
    /// The lines of `text`.
    pub fn new(text: Text) -> Self {
        Self { text, number: 0 }
    }

    /// Number of the line read last, from 1.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Appends the next line to `record`, which may grow to the limit of a record.
    pub fn append(&mut self, record: &mut Vec<u8>) -> io::Result<Line> {
        let room = (RECORD_BYTES_MAX + 1).saturating_sub(record.len());
        let len = (&mut self.text).take(room as u64).read_until(b'\n', record)?;
        if len == 0 && room > 0 {
            return Ok(Line::End);
        }
        self.number += 1;
        if record.len() <= RECORD_BYTES_MAX {
            return Ok(Line::Whole);
        }
        if record.last() != Some(&b'\n') {
            self.text.skip_until(b'\n')?;
        }
        Ok(Line::TooLong)
    }
}

/// A line without its line end: `\n`, `\r\n`, or none.
pub fn without_end(line: &[u8]) -> &[u8] {
    match line.strip_suffix(b"\n") {
        Some(line) => line.strip_suffix(b"\r").unwrap_or(line),
        None => line,
    }
}
