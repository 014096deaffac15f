//! Text for a terminal: whatever it says, it cannot control the terminal. Colours are ours alone.

use std::borrow::Cow;
use std::ops::Add;

/// A text in which every character that could control a terminal is written as its escape, and the
/// only control sequences are those of [`Ink`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Styled(String);

/// What a colour says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ink {
    /// It went well.
    Good,
    /// It failed.
    Bad,
    Doubtful,
    /// The word before an error.
    Error,
    /// The word before a piece of advice.
    Help,
}

impl Ink {
    fn code(self) -> &'static str {
        match self {
            Self::Good => "32",
            Self::Bad => "31",
            Self::Doubtful => "33",
            Self::Error => "1;31",
            Self::Help => "1;36",
        }
    }
}

impl Styled {
    /// A coloured text; one word, since a colour must not run over the end of a line.
    pub fn inked(ink: Ink, text: &str) -> Self {
        let text = escaped(text);
        Self(format!("\u{1b}[{}m{text}\u{1b}[0m", ink.code()))
    }

    /// A drawing with colours of a library, or one made of other styled texts. Callers have
    /// escaped every text that went in; `tests/it/tree/tidy.rs` lists who may call it.
    pub fn drawn(text: String) -> Self {
        Self(text)
    }

    /// The text with its colours.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The text with its colours.
    pub fn into_string(self) -> String {
        self.0
    }
}

impl From<&str> for Styled {
    fn from(text: &str) -> Self {
        Self(escaped(text).into_owned())
    }
}

impl From<String> for Styled {
    fn from(text: String) -> Self {
        match escaped(&text) {
            Cow::Owned(escaped) => Self(escaped),
            Cow::Borrowed(_) => Self(text),
        }
    }
}

impl From<&String> for Styled {
    fn from(text: &String) -> Self {
        Self::from(text.as_str())
    }
}

impl<T: Into<Styled>> Add<T> for Styled {
    type Output = Self;

    fn add(mut self, other: T) -> Self {
        self.0.push_str(other.into().as_str());
        self
    }
}

/// True if a character can move the cursor, change the terminal, reorder or hide what stands beside
/// it, or end a line without showing it. Line feeds and tabs can not.
pub fn is_hostile(c: char) -> bool {
    match c {
        '\n' | '\t' => false,
        // Marks of direction, separators of lines, and what has no width. Joiners (U+200C, U+200D) stay: emoji and the
        // scripts of Persia and India are written with them.
        '\u{61c}'
        | '\u{180e}'
        | '\u{200b}'
        | '\u{200e}'
        | '\u{200f}'
        | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}'
        | '\u{feff}'
        | '\u{fff9}'..='\u{fffb}'
        | '\u{e0000}'..='\u{e007f}' => true,
        // C0, DEL and C1; code points that are no characters, which XML refuses.
        c => c.is_control() || u32::from(c) & 0xfffe == 0xfffe,
    }
}

/// The text with an escape for each character that could control a terminal. Doing it twice changes
/// nothing.
pub fn escaped(text: &str) -> Cow<'_, str> {
    // `\r\n` ends a line like `\n`.
    let harmless = |c: char, rest: &str| !is_hostile(c) || (c == '\r' && rest.starts_with('\n'));
    let mut rest = text.chars();
    let mut clean = true;
    while let Some(c) = rest.next() {
        clean &= harmless(c, rest.as_str());
    }
    if clean {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        if harmless(c, rest.as_str()) {
            out.push(c);
        } else {
            out.extend(c.escape_default());
        }
    }
    Cow::Owned(out)
}

/// A JSON text with an escape of JSON's own for each character that could control a terminal: the
/// same document, as such characters stand only in its texts.
pub fn escaped_json(json: &str) -> Cow<'_, str> {
    if !json.chars().any(is_hostile) {
        return Cow::Borrowed(json);
    }
    let mut out = String::with_capacity(json.len() + 16);
    for c in json.chars() {
        if is_hostile(c) {
            let mut units = [0; 2];
            let units = c.encode_utf16(&mut units);
            units.iter().for_each(|unit| out.push_str(&format!("\\u{unit:04x}")));
        } else {
            out.push(c);
        }
    }
    Cow::Owned(out)
}

/// Longest text of a cell, in characters.
pub const CELL_CHARS_MAX: usize = 60;

/// The text on one line, with control and direction characters made visible, cut unless `full`.
pub fn printable(text: &str, full: bool) -> String {
    let mut out = String::with_capacity(text.len());
    for (n, c) in text.chars().enumerate() {
        if n >= CELL_CHARS_MAX && !full {
            out.push('…');
            break;
        }
        match c {
            '\n' => out.push('⏎'),
            '\t' => out.push(' '),
            c if is_hostile(c) => out.extend(c.escape_default()),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_controls_the_terminal() {
        let text =
            "a\u{1b}]0;x\u{7}\rb\u{9b}31m\u{7f}\u{202e}\u{2066}\u{2028}\u{200b}\u{feff}\u{e0041}c";
        let shown = escaped(text);
        assert_eq!(
            shown,
            "a\\u{1b}]0;x\\u{7}\\rb\\u{9b}31m\\u{7f}\\u{202e}\\u{2066}\\u{2028}\\u{200b}\\u{feff}\\u{e0041}c"
        );
        assert_eq!(escaped(&shown), shown);
        let every = (0..=0x10_ffff).filter_map(char::from_u32).collect::<String>();
        let left = escaped(&every).chars().filter(|c| c.is_control()).collect::<String>();
        assert_eq!(left, "\t\n");
    }

    #[test]
    fn what_people_write_stays() {
        for text in ["", "a\tb\nc\r\nd", "Grüße, 東京, שלום", "👩\u{200d}🔬", "می\u{200c}خواهم"]
        {
            assert!(matches!(escaped(text), Cow::Borrowed(same) if same == text), "{text}");
        }
    }

    #[test]
    fn colours_are_ours() {
        let said = Styled::inked(Ink::Bad, "no") + ": \u{1b}[32myes\u{1b}[0m".to_owned();
        assert_eq!(said.as_str(), "\u{1b}[31mno\u{1b}[0m: \\u{1b}[32myes\\u{1b}[0m");
    }

    #[test]
    fn json_says_the_same_when_it_is_escaped() {
        let text = "\u{1b}\u{85}\u{202e}\u{e0041}\u{7f}\n\t\"\\";
        let json = serde_json::to_string(&serde_json::json!([text])).unwrap();
        let shown = escaped_json(&json);
        assert!(!shown.chars().any(is_hostile) && shown.contains("\\u0085\\u202e"), "{shown}");
        assert_eq!(serde_json::from_str::<[String; 1]>(&shown).unwrap(), [text]);
    }

    #[test]
    fn terminals_cannot_be_controlled() {
        assert_eq!(printable("a\u{1b}[31mb\u{202e}c\nd", true), "a\\u{1b}[31mb\\u{202e}c⏎d");
    }
}
