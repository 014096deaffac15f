//! Source texts and places in them.

use std::borrow::Cow;

use proofmill_base::secret;

/// A place: bytes `start..end` of one source text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Span {
    /// Which text, as numbered by [`Sources::add`].
    pub source: u32,
    /// First byte.
    pub start: u32,
    /// Byte after the last.
    pub end: u32,
}

/// A text that was read, under the name it is shown by.
#[derive(Debug)]
pub struct Source {
    /// Path as the user wrote it.
    pub name: String,
    /// The whole text.
    pub text: String,
}

/// All texts of one pipeline: the file itself and the templates it uses.
#[derive(Debug, Default)]
pub struct Sources {
    texts: Vec<Source>,
    /// Places that nothing shows: a secret stands there.
    hidden: Vec<Span>,
}

impl Sources {
    /// Keeps a text and numbers it; a text that is there already keeps its number, so that a
    /// diagnostic in a template has one place however often the template is used.
    pub fn add(&mut self, name: impl Into<String>, text: impl Into<String>) -> u32 {
        let (name, text) = (name.into(), text.into());
        let known = self.texts.iter().position(|source| source.name == name && source.text == text);
        let number = known.unwrap_or_else(|| {
            self.texts.push(Source { name, text });
            self.texts.len() - 1
        });
        number as u32
    }

    /// All texts in the order of their numbers.
    pub fn all(&self) -> impl Iterator<Item = &Source> {
        self.texts.iter()
    }

    /// The text with the given number.
    pub fn get(&self, source: u32) -> &Source {
        &self.texts[source as usize]
    }

    /// Nothing is to show what stands there.
    pub fn hide(&mut self, span: Span) {
        self.hidden.push(span);
    }

    /// The text with the given number as it may be shown: secrets are covered, byte for byte.
    pub fn shown(&self, source: u32) -> Cow<'_, str> {
        let shown = secret::covered(&self.get(source).text);
        let hidden = self.hidden.iter().filter(|span| span.source == source);
        hidden.fold(shown, |shown, span| {
            let mut bytes = shown.into_owned().into_bytes();
            let end = bytes.len().min(span.end as usize);
            let start = end.min(span.start as usize);
            bytes[start..end].iter_mut().filter(|byte| **byte != b'\n').for_each(|it| *it = b'*');
            Cow::Owned(String::from_utf8_lossy(&bytes).into_owned())
        })
    }

    /// The bytes of a place.
    pub fn slice(&self, span: Span) -> &str {
        self.get(span.source).text.get(span.start as usize..span.end as usize).unwrap_or("")
    }

    /// Line and column of a place's start; both count from 1, columns in characters.
    pub fn position(&self, span: Span) -> (usize, usize) {
        let text = &self.get(span.source).text;
        let before = text.get(..span.start as usize).unwrap_or(text);
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        let line = before.bytes().filter(|b| *b == b'\n').count() + 1;
        (line, before[line_start..].chars().count() + 1)
    }
}
