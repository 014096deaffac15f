//! What the YAML library refuses, in our words and at the character to blame.

/// Why a text is no YAML that is accepted.
#[derive(Debug, PartialEq, Eq)]
pub struct Refusal {
    /// What is wrong.
    pub message: String,
    /// The byte to blame.
    pub start: usize,
    /// What to do.
    pub help: Option<&'static str>,
}

/// Parts of the library's messages, with what we say instead and what helps.
const WORDS: &[(&str, &str, Option<&str>)] = &[
    ("tabs disallowed", "a tab cannot indent", Some("indent with spaces")),
    ("unclosed quote", "the quote is never closed", None),
    (
        "trailing content after single-quoted",
        "a string continues after its closing quote",
        Some("inside single quotes, write `''` for a quote"),
    ),
    (
        "trailing content after double-quoted",
        "a string continues after its closing quote",
        Some("inside double quotes, write `\\\"` for a quote"),
    ),
    ("',' or '}'", "expected `,` or `}`", Some("what `{` opens must be closed by `}`")),
    ("',' or ']'", "expected `,` or `]`", Some("what `[` opens must be closed by `]`")),
    ("unclosed bracket '{'", "the `{` is never closed", None),
    ("unclosed bracket '['", "the `[` is never closed", None),
    (
        "did not find expected key",
        "the indentation of this line matches no line above it",
        Some("keys of one mapping start in the same column"),
    ),
    (
        "simple key expected",
        "expected a key and `:`",
        Some("lines of a text block are indented further than its key"),
    ),
    (
        "mapping values are not allowed",
        "`:` is not allowed here",
        Some("put quotes around a string that contains `: `, or fix the line before"),
    ),
    (
        "illegal placement of ':'",
        "`:` is not allowed here",
        Some("what `[` or `{` opens must be closed before the next key"),
    ),
    (
        "unknown escape",
        "the string has an escape that YAML does not know",
        Some("write `\\\\` for a backslash, or use single quotes"),
    ),
    (
        "unknown anchor",
        "`*` refers to an anchor that `&` does not define above",
        Some("put quotes around a string that starts with `*`"),
    ),
    (
        "merge keys are not allowed",
        "`<<` is not accepted",
        Some("write the keys out, or make a template of them"),
    ),
    ("expected string scalar", "a key must be a string", None),
    ("Depth", "the file is nested too deeply", None),
    ("budget breached", "the file is too large for a pipeline", None),
];

/// The library's `message` about byte `start` of `text` as a refusal of ours.
pub fn refusal(message: &str, text: &str, start: usize) -> Refusal {
    if message.contains("multiple YAML documents") {
        let marker = text[..start].rfind("---").unwrap_or(start);
        return Refusal {
            message: "a second document begins here".to_owned(),
            start: marker,
            help: Some("one file is one pipeline"),
        };
    }
    if let Some((_, rest)) = message.split_once("unexpected character: `")
        && let Some(character) = rest.chars().next()
    {
        return Refusal {
            message: format!("a string cannot start with `{character}`"),
            start,
            help: Some("put quotes around it"),
        };
    }
    let start =
        if message.contains("unknown escape") { unknown_escape(text, start) } else { start };
    if let Some((_, ours, help)) = WORDS.iter().find(|(theirs, ..)| message.contains(theirs)) {
        return Refusal { message: (*ours).to_owned(), start, help: *help };
    }
    // Without its own position, which ours repeats.
    let message = message.split(" at line ").next().unwrap_or(message).trim().to_owned();
    Refusal { message, start, help: None }
}

/// The first escape that YAML does not know in the double-quoted text at byte `start`.
fn unknown_escape(text: &str, start: usize) -> usize {
    const KNOWN: &str = "0abtnvfre \"/\\N_LPxuU\t\n\r";
    let mut letters = text[start..].char_indices();
    while let Some((at, letter)) = letters.next() {
        if letter == '\\' && letters.next().is_some_and(|(_, escape)| !KNOWN.contains(escape)) {
            return start + at;
        }
    }
    start
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_character_to_blame_is_found() {
        let text = "a: \"x\\n\\q\"\n";
        let found = refusal("while parsing a quoted scalar, found unknown escape", text, 3);
        assert_eq!(found.start, 7);
        let text = "a: 1\n---\nb: 2\n";
        assert_eq!(refusal("multiple YAML documents detected", text, 9).start, 5);
    }

    #[test]
    fn other_messages_lose_their_position() {
        let found = refusal("something odd at line 3, column 4", "", 0);
        assert_eq!(found.message, "something odd");
    }
}
