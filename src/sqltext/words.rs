//! The words of an SQL text: where one stands, and the text without cosmetics.

use std::ops::Range;

use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Tokenizer};

/// The byte offset of a line and column, both counted from 1, columns in characters.
pub fn offset(sql: &str, line: u64, column: u64) -> usize {
    let skipped = line.saturating_sub(1) as usize;
    let start: usize = sql.split_inclusive('\n').take(skipped).map(str::len).sum();
    let rest = sql.get(start..).unwrap_or("");
    let chars = column.saturating_sub(1) as usize;
    start + rest.char_indices().nth(chars).map_or(rest.len(), |(i, _)| i)
}

/// The first place of `word` as a whole word, in any case and outside texts and comments.
pub fn find_word(sql: &str, word: &str) -> Option<Range<usize>> {
    let is_it = |token: &TokenWithSpan| match &token.token {
        Token::Word(found) => found.value.eq_ignore_ascii_case(word),
        _ => false,
    };
    let token = tokens(sql)?.into_iter().find(is_it)?;
    let (start, end) = (token.span.start, token.span.end);
    Some(offset(sql, start.line, start.column)..offset(sql, end.line, end.column))
}

/// The text without comments and with single spaces, unquoted words in lower case: equal for
/// texts that differ only in what SQL does not see. The text itself if it has no tokens.
pub fn normalized(sql: &str) -> String {
    let Some(tokens) = tokens(sql) else { return sql.to_owned() };
    let mut out = String::with_capacity(sql.len());
    for token in tokens {
        let text = match token.token {
            Token::Whitespace(_) | Token::EOF | Token::SemiColon => continue,
            Token::Word(word) if word.quote_style.is_none() => word.value.to_lowercase(),
            other => other.to_string(),
        };
        if !out.is_empty() {
            out.push(' ');
        }
        out.push_str(&text);
    }
    out
}

fn tokens(sql: &str) -> Option<Vec<TokenWithSpan>> {
    Tokenizer::new(&GenericDialect {}, sql).tokenize_with_location().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cosmetics_do_not_count_and_everything_else_does() {
        let plain = normalized("SELECT a, 'B  c' FROM t");
        assert_eq!(plain, normalized("select  A,\n 'B  c' -- why\n from /* x */ T;"));
        assert_ne!(plain, normalized("SELECT a, 'b  c' FROM t"));
        assert_ne!(plain, normalized("SELECT \"A\", 'B  c' FROM t"));
        assert_ne!(plain, normalized("SELECT a, 'B c' FROM t"));
    }

    #[test]
    fn words_are_found_outside_texts() {
        let sql = "SELECT 'foo', -- foo\n  é, FOO(x)";
        let range = find_word(sql, "foo").unwrap();
        assert_eq!(&sql[range], "FOO");
    }
}
