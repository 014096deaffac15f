//! Records of `csv` (RFC 4180) and `tsv`, split into cells.
//!
//! A splitter of its own, because an empty cell is NULL and an empty quoted cell is a text, and
//! because a quote that is never closed must not swallow the file in silence.

/// What a line did to the record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    Whole,
    /// A quoted cell goes on in the next line.
    Open,
    /// Something follows a closing quote, at this offset of the line.
    Broken(usize),
}

/// Splits records into cells.
#[derive(Clone, Debug)]
pub struct Splitter {
    delimiter: u8,
    quoting: bool,
    text: Vec<u8>,
    cells: Vec<Cell>,
    state: State,
}

#[derive(Clone, Copy, Debug)]
struct Cell {
    end: usize,
    quoted: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Start,
    Quoted,
    /// After a quote inside a quoted cell: its end, or the first half of a doubled quote.
    Quote,
}

impl Splitter {
    /// A splitter for `csv`, or for `tsv` if there is no quoting.
    pub fn new(delimiter: u8, quoting: bool) -> Self {
        Self { delimiter, quoting, text: Vec::new(), cells: Vec::new(), state: State::Start }
    }

    /// Forgets the record.
    pub fn clear(&mut self) {
        self.text.clear();
        self.cells.clear();
        self.state = State::Start;
    }

    /// Takes the next line of the record, with its line end.
    pub fn line(&mut self, line: &[u8]) -> Progress {
        let mut at = 0;
        loop {
            match self.state {
                State::Start => {
                    if self.quoting && line.get(at) == Some(&b'"') {
                        self.state = State::Quoted;
                        at += 1;
                        continue;
                    }
                    let (rest, delimiter) = (&line[at..], self.delimiter);
                    let len = rest.iter().position(|byte| *byte == delimiter || *byte == b'\n');
                    let cell = &rest[..len.unwrap_or(rest.len())];
                    let last = len.is_none_or(|len| rest[len] == b'\n');
                    let ended = last && len.is_some();
                    let cell = if ended { cell.strip_suffix(b"\r").unwrap_or(cell) } else { cell };
                    self.text.extend_from_slice(cell);
                    self.end_cell(false);
                    if last {
                        return Progress::Whole;
                    }
                    at += cell.len() + 1;
                }
                State::Quoted => {
                    let rest = &line[at..];
                    let Some(len) = rest.iter().position(|byte| *byte == b'"') else {
                        self.text.extend_from_slice(rest);
                        return Progress::Open;
                    };
                    self.text.extend_from_slice(&rest[..len]);
                    self.state = State::Quote;
                    at += len + 1;
                }
                State::Quote => match &line[at..] {
                    [b'"', ..] => {
                        self.text.push(b'"');
                        self.state = State::Quoted;
                        at += 1;
                    }
                    [] | b"\n" | b"\r\n" => {
                        self.end_cell(true);
                        return Progress::Whole;
                    }
                    [byte, ..] if *byte == self.delimiter => {
                        self.end_cell(true);
                        at += 1;
                    }
                    _ => return Progress::Broken(at),
                },
            }
        }
    }

    /// The cells; `None` is an empty cell without quotes. Fails if they are not UTF-8.
    pub fn cells(&self) -> Result<Vec<Option<&str>>, std::str::Utf8Error> {
        let mut start = 0;
        let cell = |cell: &Cell| {
            let value = std::str::from_utf8(&self.text[start..cell.end])?;
            start = cell.end;
            Ok((cell.quoted || !value.is_empty()).then_some(value))
        };
        self.cells.iter().map(cell).collect()
    }

    fn end_cell(&mut self, quoted: bool) {
        self.cells.push(Cell { end: self.text.len(), quoted });
        self.state = State::Start;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(lines: &[&str]) -> (Progress, Vec<Option<String>>) {
        let mut splitter = Splitter::new(b',', true);
        let progress = lines.iter().map(|line| splitter.line(line.as_bytes())).last().unwrap();
        let cells = splitter.cells().unwrap();
        (progress, cells.into_iter().map(|cell| cell.map(str::to_owned)).collect())
    }

    fn cells(line: &str) -> Vec<Option<String>> {
        let (progress, cells) = split(&[line]);
        assert_eq!(progress, Progress::Whole, "{line}");
        cells
    }

    fn texts(texts: &[&str]) -> Vec<Option<String>> {
        texts.iter().map(|text| Some((*text).to_owned())).collect()
    }

    #[test]
    fn cells_follow_rfc_4180() {
        assert_eq!(cells("a,b c,d\n"), texts(&["a", "b c", "d"]));
        assert_eq!(cells("a,b\r\n"), texts(&["a", "b"]));
        assert_eq!(cells("a,b"), texts(&["a", "b"]));
        assert_eq!(cells("\"a,b\",\"c \"\"d\"\"\"\n"), texts(&["a,b", "c \"d\""]));
        assert_eq!(cells("5\" disk,it's\n"), texts(&["5\" disk", "it's"]));
        assert_eq!(
            split(&["\"a\r\n", "\n", "b\",c\r\n"]),
            (Progress::Whole, texts(&["a\r\n\nb", "c"]))
        );
    }

    #[test]
    fn quotes_tell_empty_from_missing() {
        assert_eq!(cells(",\"\",\n"), [None, Some(String::new()), None]);
        assert_eq!(cells("\n"), [None]);
    }

    #[test]
    fn broken_quotes_are_seen() {
        assert_eq!(split(&["a,\"b\" c\n"]).0, Progress::Broken(5));
        assert_eq!(split(&["a,\"b\n"]).0, Progress::Open);
    }

    #[test]
    fn tabs_have_no_quotes() {
        let mut splitter = Splitter::new(b'\t', false);
        assert_eq!(splitter.line(b"\"a\t\t\"b\"\n"), Progress::Whole);
        assert_eq!(splitter.cells().unwrap(), [Some("\"a"), None, Some("\"b\"")]);
    }
}
