//! The words of an SQL text: where one stands, and the text without cosmetics.

use std::ops::Range;

use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::keywords::Keyword;
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
    Some(place(sql, &token))
}

/// The place of the sign or word `text`, if it stands there exactly once.
pub fn find_only(sql: &str, text: &str) -> Option<Range<usize>> {
    let all = tokens(sql)?;
    let mut same = all.iter().filter(|token| token.token.to_string().eq_ignore_ascii_case(text));
    let first = same.next()?;
    same.next().is_none().then(|| place(sql, first))
}

/// The first word and its place.
pub fn first_word(sql: &str, all: &[TokenWithSpan]) -> Option<(String, Range<usize>)> {
    let first = all.iter().find(|token| !matches!(token.token, Token::Whitespace(_)))?;
    match &first.token {
        Token::Word(word) => Some((word.value.clone(), place(sql, first))),
        _ => None,
    }
}

/// The place of the first word after a `;`.
pub fn second_statement(sql: &str) -> Option<Range<usize>> {
    let all = tokens(sql)?;
    let mut rest = all.iter().skip_while(|token| token.token != Token::SemiColon);
    let second = rest.find(|token| {
        !matches!(token.token, Token::SemiColon | Token::Whitespace(_) | Token::EOF)
    })?;
    Some(place(sql, second))
}

/// Where a token stands.
pub fn place(sql: &str, token: &TokenWithSpan) -> Range<usize> {
    let (start, end) = (token.span.start, token.span.end);
    offset(sql, start.line, start.column)..offset(sql, end.line, end.column)
}

/// The text without comments and with single spaces, keywords and names of functions in lower
/// case: equal only for texts that differ in what SQL does not see. Other names keep their case,
/// because the fields of a struct do. The text itself if it has no tokens.
pub fn normalized(sql: &str) -> String {
    let Some(tokens) = tokens(sql) else { return sql.to_owned() };
    let seen = |token: &TokenWithSpan| {
        !matches!(token.token, Token::Whitespace(_) | Token::EOF | Token::SemiColon)
    };
    let tokens: Vec<Token> = tokens.into_iter().filter(seen).map(|token| token.token).collect();
    let mut out = String::with_capacity(sql.len());
    for (i, token) in tokens.iter().enumerate() {
        let next = tokens.get(i + 1);
        let named = i > 0 && is_keyword(&tokens[i - 1], Keyword::AS) || next == Some(&Token::Colon);
        let text = match token {
            Token::Word(word) if word.quote_style.is_none() => {
                let free = word.keyword != Keyword::NoKeyword || next == Some(&Token::LParen);
                if free && !named { word.value.to_lowercase() } else { word.value.clone() }
            }
            // Written out, a text with quotes inside would not tell where it ends.
            other if other.to_string().matches(['\'', '"', '`']).count() > 2 => {
                format!("{other:?}")
            }
            other => other.to_string(),
        };
        if !out.is_empty() {
            out.push(' ');
        }
        out.push_str(&text);
    }
    out
}

fn is_keyword(token: &Token, keyword: Keyword) -> bool {
    matches!(token, Token::Word(word) if word.quote_style.is_none() && word.keyword == keyword)
}

/// The words and signs of a text; `None` if it has a text or comment without an end.
pub fn tokens(sql: &str) -> Option<Vec<TokenWithSpan>> {
    Tokenizer::new(&GenericDialect {}, sql).tokenize_with_location().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cosmetics_do_not_count_and_everything_else_does() {
        let plain = normalized("SELECT a, 'B  c' FROM t");
        assert_eq!(plain, normalized("select  a,\n 'B  c' -- why\n from /* x */ t;"));
        assert_eq!(normalized("SELECT SUM(a)"), normalized("select sum (a)"));
        assert_ne!(plain, normalized("SELECT a, 'b  c' FROM t"));
        assert_ne!(plain, normalized("SELECT \"A\", 'B  c' FROM t"));
        assert_ne!(plain, normalized("SELECT a, 'B c' FROM t"));
        // Quotes inside a text, fields of a struct, letters beyond ASCII.
        assert_ne!(normalized("a IN ('b', 'c')"), normalized("a IN ('b'' , ''c')"));
        assert_ne!(normalized("a IN (E'b', E'c')"), normalized("a IN (E'b\\' , E\\'c')"));
        assert_ne!(normalized("\"a\" \"b\""), normalized("\"a\"\" \"\"b\""));
        assert_ne!(normalized("{A: 1, a: 2}"), normalized("{a: 1, A: 2}"));
        assert_ne!(normalized("{Value: 1}"), normalized("{value: 1}"));
        assert_ne!(normalized("struct(1 AS Value)"), normalized("struct(1 AS value)"));
        assert_ne!(normalized("É"), normalized("é"));
    }

    #[test]
    fn words_are_found_outside_texts() {
        let sql = "SELECT 'foo', -- foo\n  é, FOO(x)";
        let range = find_word(sql, "foo").unwrap();
        assert_eq!(&sql[range], "FOO");
    }
}
