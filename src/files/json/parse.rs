//! The JSON grammar (RFC 8259), strictly.

use std::borrow::Cow;
use std::collections::HashSet;

use crate::error_rows::ErrorClass;
use crate::json::{Json, Object};
use crate::limits::JSON_DEPTH_MAX;

/// Where and why a text is not JSON.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JsonError {
    /// Offset of the byte at fault.
    pub at: usize,
    /// Syntax, encoding or repeated fields.
    pub class: ErrorClass,
    pub message: String,
}

/// The one value that `text` holds.
pub fn parse(text: &[u8]) -> Result<Json<'_>, JsonError> {
    let mut parser = Parser::new(text);
    let value = parser.value()?;
    parser.end()?;
    Ok(value)
}

/// A place in a text, and what can follow there.
pub struct Parser<'a> {
    text: &'a [u8],
    at: usize,
    depth: usize,
}

impl<'a> Parser<'a> {
    /// A parser at the start of `text`.
    pub fn new(text: &'a [u8]) -> Self {
        Self { text, at: 0, depth: 0 }
    }

    /// Offset of the next byte.
    pub fn at(&self) -> usize {
        self.at
    }

    /// The next byte that is no white space.
    pub fn peek(&mut self) -> Option<u8> {
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.text.get(self.at) {
            self.at += 1;
        }
        self.text.get(self.at).copied()
    }

    /// Takes `wanted`.
    pub fn take(&mut self, wanted: u8) -> Result<(), JsonError> {
        if self.peek() == Some(wanted) {
            self.at += 1;
            return Ok(());
        }
        Err(self.expected(&format!("`{}`", wanted as char)))
    }

    /// Whether another item follows a `,`, or the list or object ends with `close`.
    pub fn more(&mut self, close: u8) -> Result<bool, JsonError> {
        match self.peek() {
            Some(b',') => {
                self.at += 1;
                Ok(true)
            }
            Some(found) if found == close => {
                self.at += 1;
                Ok(false)
            }
            _ => Err(self.expected(&format!("`,` or `{}`", close as char))),
        }
    }

    /// Whether the list or object just opened has no items, in which case it is left.
    pub fn closed(&mut self, close: u8) -> bool {
        let closed = self.peek() == Some(close);
        self.at += usize::from(closed);
        closed
    }

    /// Checks that nothing follows.
    pub fn end(&mut self) -> Result<(), JsonError> {
        match self.peek() {
            None => Ok(()),
            Some(_) => Err(self.expected("the end")),
        }
    }

    /// The next value.
    pub fn value(&mut self) -> Result<Json<'a>, JsonError> {
        self.any::<true>()
    }

    /// Passes the next value, checking its grammar only, and returns its text.
    pub fn skip(&mut self) -> Result<&'a [u8], JsonError> {
        self.peek();
        let start = self.at;
        self.any::<false>()?;
        Ok(&self.text[start..self.at])
    }

    /// The next key of an object, and the colon after it.
    pub fn key(&mut self) -> Result<Cow<'a, str>, JsonError> {
        self.named::<true>()
    }

    fn any<const KEEP: bool>(&mut self) -> Result<Json<'a>, JsonError> {
        match self.peek() {
            Some(b'"') => self.string::<KEEP>().map(Json::Text),
            Some(b'{') => self.nested(Self::object::<KEEP>),
            Some(b'[') => self.nested(Self::list::<KEEP>),
            Some(b'-' | b'0'..=b'9') => self.number().map(Json::Number),
            Some(b't') => self.word("true", Json::Bool(true)),
            Some(b'f') => self.word("false", Json::Bool(false)),
            Some(b'n') => self.word("null", Json::Null),
            _ => Err(self.expected("a value")),
        }
    }

    fn nested(
        &mut self,
        inner: fn(&mut Self) -> Result<Json<'a>, JsonError>,
    ) -> Result<Json<'a>, JsonError> {
        self.depth += 1;
        if self.depth > JSON_DEPTH_MAX {
            return Err(self.error(format!("more than {JSON_DEPTH_MAX} levels of nesting")));
        }
        let value = inner(self)?;
        self.depth -= 1;
        Ok(value)
    }

    fn list<const KEEP: bool>(&mut self) -> Result<Json<'a>, JsonError> {
        let start = self.at;
        let mut items = Vec::new();
        self.take(b'[')?;
        let mut more = !self.closed(b']');
        while more {
            let item = self.any::<KEEP>()?;
            if KEEP {
                items.push(item);
            }
            more = self.more(b']')?;
        }
        Ok(Json::List(items, &self.text[start..self.at]))
    }

    fn object<const KEEP: bool>(&mut self) -> Result<Json<'a>, JsonError> {
        let start = self.at;
        let mut fields = Vec::new();
        self.take(b'{')?;
        let mut more = !self.closed(b'}');
        while more {
            let key = self.named::<KEEP>()?;
            let value = self.any::<KEEP>()?;
            if KEEP {
                fields.push((key, value));
            }
            more = self.more(b'}')?;
        }
        if let Some(key) = repeated(&fields) {
            let message = format!("the field `{key}` occurs twice");
            return Err(JsonError { at: start, class: ErrorClass::Fields, message });
        }
        Ok(Json::Object(fields, &self.text[start..self.at]))
    }

    fn named<const KEEP: bool>(&mut self) -> Result<Cow<'a, str>, JsonError> {
        if self.peek() != Some(b'"') {
            return Err(self.expected("the name of a field in quotes"));
        }
        let key = self.string::<KEEP>()?;
        self.take(b':')?;
        Ok(key)
    }

    fn word(&mut self, word: &str, value: Json<'a>) -> Result<Json<'a>, JsonError> {
        if !self.text[self.at..].starts_with(word.as_bytes()) {
            return Err(self.expected("a value"));
        }
        self.at += word.len();
        Ok(value)
    }

    fn number(&mut self) -> Result<&'a str, JsonError> {
        let start = self.at;
        self.at += usize::from(self.text[self.at] == b'-');
        if self.text.get(self.at) == Some(&b'0') {
            self.at += 1;
        } else {
            self.digits()?;
        }
        if self.text.get(self.at) == Some(&b'.') {
            self.at += 1;
            self.digits()?;
        }
        if let Some(b'e' | b'E') = self.text.get(self.at) {
            self.at += 1;
            if let Some(b'+' | b'-') = self.text.get(self.at) {
                self.at += 1;
            }
            self.digits()?;
        }
        self.utf8(start, self.at)
    }

    fn digits(&mut self) -> Result<(), JsonError> {
        let start = self.at;
        while let Some(b'0'..=b'9') = self.text.get(self.at) {
            self.at += 1;
        }
        if self.at == start { Err(self.expected("a digit")) } else { Ok(()) }
    }

    fn string<const KEEP: bool>(&mut self) -> Result<Cow<'a, str>, JsonError> {
        self.at += 1;
        let mut start = self.at;
        let mut unescaped = String::new();
        loop {
            match self.text.get(self.at) {
                Some(b'"') => break,
                Some(b'\\') => {
                    if KEEP {
                        unescaped.push_str(self.utf8(start, self.at)?);
                    }
                    let escaped = self.escape()?;
                    if KEEP {
                        unescaped.push(escaped);
                    }
                    start = self.at;
                }
                Some(..0x20) => {
                    return Err(self.expected("an escape such as `\\n` for a control character"));
                }
                Some(_) => self.at += 1,
                None => return Err(self.expected("the closing quote of a text")),
            }
        }
        let end = self.at;
        self.at += 1;
        if !KEEP {
            return Ok(Cow::Borrowed(""));
        }
        let rest = self.utf8(start, end)?;
        if unescaped.is_empty() {
            return Ok(Cow::Borrowed(rest));
        }
        unescaped.push_str(rest);
        Ok(Cow::Owned(unescaped))
    }

    fn escape(&mut self) -> Result<char, JsonError> {
        self.at += 1;
        let escaped = match self.text.get(self.at) {
            Some(b'"') => '"',
            Some(b'\\') => '\\',
            Some(b'/') => '/',
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => return self.unicode(),
            _ => return Err(self.expected("one of `\"\\/bfnrtu` after a backslash")),
        };
        self.at += 1;
        Ok(escaped)
    }

    fn unicode(&mut self) -> Result<char, JsonError> {
        let start = self.at;
        let mut code = self.hex4()?;
        if (0xd800..0xdc00).contains(&code) && self.text[self.at..].starts_with(b"\\u") {
            self.at += 1;
            let low = self.hex4()?;
            if (0xdc00..0xe000).contains(&low) {
                code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
            }
        }
        char::from_u32(code).ok_or_else(|| JsonError {
            at: start,
            class: ErrorClass::Syntax,
            message: "half of a surrogate pair is not a character".to_owned(),
        })
    }

    /// The number of a `u` and four hex digits.
    fn hex4(&mut self) -> Result<u32, JsonError> {
        let mut code = 0;
        for _ in 0..4 {
            self.at += 1;
            let digit = self.text.get(self.at).and_then(|byte| (*byte as char).to_digit(16));
            code = code << 4 | digit.ok_or_else(|| self.expected("a hex digit"))?;
        }
        self.at += 1;
        Ok(code)
    }

    fn utf8(&self, start: usize, end: usize) -> Result<&'a str, JsonError> {
        let text = self.text;
        std::str::from_utf8(&text[start..end]).map_err(|error| JsonError {
            at: start + error.valid_up_to(),
            class: ErrorClass::Encoding,
            message: "no text in this encoding".to_owned(),
        })
    }

    fn expected(&self, what: &str) -> JsonError {
        let found = match self.text.get(self.at) {
            None => "the end".to_owned(),
            Some(byte @ 0x20..0x7f) => format!("`{}`", *byte as char),
            Some(byte) => format!("the byte {byte:#04x}"),
        };
        self.error(format!("expected {what}, found {found}"))
    }

    fn error(&self, message: String) -> JsonError {
        JsonError { at: self.at, class: ErrorClass::Syntax, message }
    }
}

/// A key that occurs twice.
fn repeated<'o>(fields: &'o Object<'_>) -> Option<&'o str> {
    const COMPARED_MAX: usize = 24;
    if fields.len() <= COMPARED_MAX {
        let mut earlier = fields.iter().enumerate();
        return earlier
            .find(|(i, (key, _))| fields[..*i].iter().any(|(other, _)| other == key))
            .map(|(_, (key, _))| key.as_ref());
    }
    let mut seen = HashSet::with_capacity(fields.len());
    fields.iter().map(|(key, _)| key.as_ref()).find(|key| !seen.insert(*key))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_become_characters() {
        let text = br#""a\n\"\\\/\u00e9\ud834\udd1e\u0000 \b\f\r\t""#;
        let expected = "a\n\"\\/é𝄞\0 \u{8}\u{c}\r\t";
        assert_eq!(parse(text), Ok(Json::Text(expected.into())));
        for half in [r#""\ud834""#, r#""\ud834\u0041""#, r#""\udd1e\ud834""#, r#""\u12g4""#] {
            assert!(parse(half.as_bytes()).is_err(), "{half}");
        }
    }

    #[test]
    fn repeated_keys_are_found_in_large_objects() {
        let object = |last: &str| {
            let keys: String = (0..1_000).map(|i| format!("\"k{i}\":0,")).collect();
            format!("{{{keys}\"{last}\":0}}")
        };
        assert!(parse(object("k1000").as_bytes()).is_ok());
        let diagnostic = parse(object("k7").as_bytes()).unwrap_err();
        assert_eq!(diagnostic.class, ErrorClass::Fields);
        assert_eq!(diagnostic.message, "the field `k7` occurs twice");
    }
}
