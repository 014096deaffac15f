//! Patterns that the engine reads otherwise than SQL: `SIMILAR TO`, which it looks for anywhere in a text, and `ESCAPE` with any other
//! character than the backslash, which it refuses in the run. Where the pattern is written out, it is written as the engine reads it.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, Ident, UnaryOperator, Value, ValueWithSpan, VisitMut, VisitorMut,
};

use crate::sqltext::rewriting::call;

/// The character that both have without `ESCAPE`.
const ESCAPE: char = '\\';

/// Rewrites the patterns of a statement or an expression. Those that are computed stay.
pub fn written_out(parsed: &mut impl VisitMut) {
    let _ = VisitMut::visit(parsed, &mut Patterns);
}

struct Patterns;

impl VisitorMut for Patterns {
    type Break = ();

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        match expr {
            Expr::Like { pattern, escape_char, .. } | Expr::ILike { pattern, escape_char, .. } => {
                let escape = escape_char.as_ref().and_then(|it| only(&it.value));
                if let (Some(escape), Some(text)) = (escape, text_mut(pattern)) {
                    *text = with_backslashes(text, escape);
                    *escape_char = None;
                }
            }
            Expr::SimilarTo { negated, expr: value, pattern, escape_char } => {
                let escape = match escape_char {
                    None => Some(ESCAPE),
                    Some(it) => only(&it.value),
                };
                if let (Some(escape), Some(text)) = (escape, text_mut(pattern)) {
                    *text = regex(text, escape);
                    let args = vec![value.as_ref().clone(), pattern.as_ref().clone()];
                    let found = call(Ident::new("regexp_like"), args);
                    *expr = match *negated {
                        false => found,
                        true => Expr::Nested(Box::new(Expr::UnaryOp {
                            op: UnaryOperator::Not,
                            expr: Box::new(found),
                        })),
                    };
                }
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

/// The only character of a text.
fn only(value: &Value) -> Option<char> {
    let Value::SingleQuotedString(text) = value else { return None };
    let mut chars = text.chars();
    chars.next().filter(|_| chars.next().is_none())
}

fn text_mut(expr: &mut Expr) -> Option<&mut String> {
    match expr {
        Expr::Value(ValueWithSpan { value: Value::SingleQuotedString(text), .. }) => Some(text),
        _ => None,
    }
}

/// A pattern of `LIKE` with backslashes in front of what means itself.
fn with_backslashes(pattern: &str, escape: char) -> String {
    let (mut out, mut chars) = (String::new(), pattern.chars());
    while let Some(c) = chars.next() {
        let literal = match c {
            c if c == escape => chars.next(),
            ESCAPE => Some(ESCAPE),
            c => {
                out.push(c);
                continue;
            }
        };
        out.push(ESCAPE);
        out.extend(literal);
    }
    out
}

/// A pattern of `SIMILAR TO`, which the whole text has to match, as a regular expression.
fn regex(pattern: &str, escape: char) -> String {
    let (mut out, mut chars) = ("(?s)^(?:".to_owned(), pattern.chars());
    let mut in_class = false;
    while let Some(c) = chars.next() {
        match c {
            c if c == escape => {
                out.push(ESCAPE);
                out.extend(chars.next());
            }
            '[' | ']' => {
                in_class = c == '[';
                out.push(c);
            }
            '%' if !in_class => out.push_str(".*"),
            '_' if !in_class => out.push('.'),
            '.' | '$' | ESCAPE => out.extend([ESCAPE, c]),
            '^' if !in_class => out.extend([ESCAPE, c]),
            c => out.push(c),
        }
    }
    out + ")$"
}

#[cfg(test)]
mod tests {
    use crate::sqltext::parse_expression;

    #[test]
    fn patterns_are_those_of_the_engine() {
        for (written, expected) in [
            ("s LIKE 'a!_%' ESCAPE '!'", r"s LIKE 'a\_%'"),
            (r"s NOT ILIKE 'a\$%' ESCAPE '$'", r"s NOT ILIKE 'a\\\%'"),
            (r"s LIKE 'a\_b'", r"s LIKE 'a\_b'"),
            ("s SIMILAR TO '%(b|d)_.'", r"regexp_like(s, '(?s)^(?:.*(b|d).\.)$')"),
            ("s NOT SIMILAR TO '[%_]#%' ESCAPE '#'", r"(NOT regexp_like(s, '(?s)^(?:[%_]\%)$'))"),
            ("s SIMILAR TO p", "s SIMILAR TO p"),
        ] {
            assert_eq!(parse_expression(written).unwrap().to_string(), expected);
        }
    }
}
