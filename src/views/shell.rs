//! Commands as people paste them into a shell.

use std::borrow::Cow;

/// Characters that mean themselves in every shell.
const PLAIN: &str = "_./:=,@%+-";

/// A word of a command, in quotes if it needs them.
pub fn quoted(word: &str) -> Cow<'_, str> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || PLAIN.contains(c);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => Cow::Borrowed(word),
        false => Cow::Owned(format!("'{}'", word.replace('\'', r"'\''"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_where_a_shell_would_split_or_expand_them() {
        for (word, expected) in [
            ("pipelines/a-b.yaml", "pipelines/a-b.yaml"),
            ("s3://bucket/x", "s3://bucket/x"),
            ("kinds=bm25,dense", "kinds=bm25,dense"),
            ("", "''"),
            ("a b", "'a b'"),
            ("$HOME/*", "'$HOME/*'"),
            ("it's", r"'it'\''s'"),
        ] {
            assert_eq!(quoted(word), expected);
        }
    }
}
