//! Tags (`!!str`, `!x`), which the format does not have. The YAML library takes some for granted and drops
//! the others, so its parser looks for them first.

use granit_parser::{Event, Parser};

/// The first tag of a text: where it stands. Nothing where the text is no YAML, which is another diagnostic.
pub fn first(text: &str) -> Option<std::ops::Range<usize>> {
    if !text.contains('!') {
        return None;
    }
    for event in Parser::new_from_str(text) {
        let (event, span) = event.ok()?;
        let tag = match &event {
            Event::Scalar(.., tag)
            | Event::SequenceStart(.., tag)
            | Event::MappingStart(.., tag) => tag,
            _ => continue,
        };
        if tag.is_some() {
            let start = span.tag_start.unwrap_or(span.start).byte_offset().unwrap_or(0);
            let rest = text.get(start..).unwrap_or_default();
            let ends = |c: char| c.is_whitespace() || matches!(c, ',' | ']' | '}');
            return Some(start..start + rest.find(ends).unwrap_or(rest.len()));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_found_wherever_a_node_is() {
        for (text, tag) in [
            ("a: !!str 1", "!!str"),
            ("a: [1, !x ]", "!x"),
            ("a: {!!int 1: b}", "!!int"),
            ("!!map\na: 1", "!!map"),
            ("a: &n !!python/object:os.system\n  b: 1", "!!python/object:os.system"),
            ("a: !<tag:yaml.org,2002:str> 1", "!<tag:yaml.org"),
            ("é: 1\nb: !", "!"),
            ("a:\n- !include x", "!include"),
            ("b: 'x != y'\na: !!binary aGk=", "!!binary"),
        ] {
            assert_eq!(first(text).and_then(|range| text.get(range)), Some(tag), "{text}");
        }
    }

    #[test]
    fn other_texts_have_none() {
        for text in ["a: x != y", "a: '!x'", "a: b !c", "a: |\n  !x\n", "a: 1 # !x", "a: \"!!str\""]
        {
            assert_eq!(first(text), None, "{text}");
        }
    }
}
