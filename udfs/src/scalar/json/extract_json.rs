//! `extract_json`: the JSON object that a model wrote into its prose.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, StringArray};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::Result;
use serde::de::IgnoredAny;

use crate::definition::{Argument, Doc, Example, FunctionKind, Kind};
use crate::scalar::{Inputs, ScalarDefinition};

/// SQL function `extract_json`.
pub static EXTRACT_JSON: ScalarDefinition = ScalarDefinition {
    doc: Doc {
        name: "extract_json",
        version: 1,
        kind: FunctionKind::Scalar,
        description: "The first whole JSON object of a text, as it stands there: behind words, inside a \
            fence of Markdown, before more words. For the functions that read JSON, which read none of \
            these. NULL if there is none: braces that are no object are passed over, an object that breaks \
            off or is not valid is not given in part, and neither is one inside it.",
        arguments: &[Argument::required("text", Kind::Text, "What a model wrote.")],
        returns: "JSON as text",
        example: Example {
            sql: r#"SELECT extract_json('Here it is: {"score": 7, "why": "It {nearly} fits."} Bye.') AS found"#,
            result: "
EXAMPLE
",
        },
    },
    return_type: |_| DataType::Utf8,
    invoke,
};

fn invoke(inputs: &Inputs) -> Result<ArrayRef> {
    let text = inputs.text(0)?;
    let found: StringArray = (0..inputs.rows).map(|row| first_object(text.get(row)?)).collect();
    Ok(Arc::new(found))
}

/// The first JSON object of a text.
fn first_object(text: &str) -> Option<&str> {
    let mut start = 0;
    loop {
        start += text[start..].find('{')?;
        let rest = &text[start..];
        let mut values = serde_json::Deserializer::from_str(rest).into_iter::<IgnoredAny>();
        match values.next()? {
            Ok(_) => return Some(&rest[..values.byte_offset()]),
            // It breaks off: what is inside is no answer.
            Err(error) if error.is_eof() => return None,
            // The search goes on where it is wrong, so that each character is read once.
            Err(error) => start += wrong_at(rest, &error).max(1),
        }
    }
}

/// The place of an error in the text, in bytes.
fn wrong_at(text: &str, error: &serde_json::Error) -> usize {
    let lines = text.split_inclusive('\n').take(error.line().saturating_sub(1));
    let place = lines.map(str::len).sum::<usize>() + error.column().saturating_sub(1);
    text.floor_char_boundary(place)
}

#[cfg(test)]
mod tests {
    use super::first_object;

    #[test]
    fn the_first_whole_object_is_found() {
        for (text, found) in [
            (r#"{"a": 1}"#, Some(r#"{"a": 1}"#)),
            (
                "Sure!\n```json\n{\n  \"a\": [1, {\"b\": 2}]\n}\n```\nBye {\"c\": 3}",
                Some("{\n  \"a\": [1, {\"b\": 2}]\n}"),
            ),
            (r#"a set {1, 2}, then {"a": "}"}"#, Some(r#"{"a": "}"}"#)),
            (r#"{{"a": 1}}"#, Some(r#"{"a": 1}"#)),
            ("{\n{\n\"é\": 1}", Some("{\n\"é\": 1}")),
            (r#"{é {"a": 1}"#, Some(r#"{"a": 1}"#)),
            ("{}", Some("{}")),
            // Not in part: broken off, or wrong inside.
            (r#"{"score": 7, "why": {"a": 1}, "more": "#, None),
            (r#"{"score": {"a": 1}, 'b': 2}"#, None),
            (r#"{"score": NaN}"#, None),
            ("[1, 2]", None),
            ("no braces", None),
            ("", None),
        ] {
            assert_eq!(first_object(text), found, "{text}");
        }
    }

    #[test]
    fn a_hostile_text_is_read_once() {
        // Each brace begins an object that is wrong at its end, or deeper than any parser goes.
        for text in ["{\"a\":".repeat(200_000), "{".repeat(1_000_000), "{\"a\" ".repeat(200_000)] {
            assert_eq!(first_object(&text), None);
        }
    }
}
