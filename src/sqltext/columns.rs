//! The columns that a query gives, as its text names them.

use std::ops::Range;

use datafusion::sql::sqlparser::ast::{Expr, Ident, SelectItem, SetExpr, Spanned, Statement};

use crate::sqltext::parse::Query;
use crate::sqltext::words::offset;

/// Where `query` names its output column `name` for the second time; a `*` if that does it.
pub fn output_place(query: &Query, name: &str) -> Option<Range<usize>> {
    let Statement::Query(parsed) = &query.statement else { return None };
    let SetExpr::Select(select) = parsed.body.as_ref() else { return None };
    let named = |item: &SelectItem| {
        let ident = output_name(item).filter(|ident| is(ident, name))?;
        Some(ident.span)
    };
    let wildcard = |item: &SelectItem| match item {
        SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..) => Some(item.span()),
        _ => None,
    };
    let items = &select.projection;
    let second = items.iter().filter_map(named).nth(1);
    let span = second.or_else(|| items.iter().filter_map(wildcard).next_back())?;
    let at = |line, column| offset(&query.text, line, column);
    let range = at(span.start.line, span.start.column)..at(span.end.line, span.end.column);
    (span.start.line > 0).then_some(range)
}

fn output_name(item: &SelectItem) -> Option<&Ident> {
    match item {
        SelectItem::ExprWithAlias { alias, .. } => Some(alias),
        SelectItem::UnnamedExpr(Expr::Identifier(ident)) => Some(ident),
        SelectItem::UnnamedExpr(Expr::CompoundIdentifier(parts)) => parts.last(),
        _ => None,
    }
}

fn is(ident: &Ident, name: &str) -> bool {
    match ident.quote_style {
        Some(_) => ident.value == name,
        None => ident.value.eq_ignore_ascii_case(name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sqltext::parse;

    #[test]
    fn the_second_of_two_names_is_found() {
        for (text, expected) in [
            ("SELECT id, answer AS id FROM t", 21..23),
            ("SELECT t.id, t.id FROM t", 15..17),
            ("SELECT id, * FROM t", 11..12),
        ] {
            let query = parse(text).unwrap();
            assert_eq!(output_place(&query, "id"), Some(expected), "{text}");
        }
    }
}
