//! Casts that rows are grouped by, and those in calls that differ by nothing else. The planner calls a cast like what it casts, so that
//! `ORDER BY`, `HAVING` and the result may take one for the other: `SELECT upper(s) AS s … GROUP BY upper(s), TRY_CAST(s AS INT) ORDER BY 1` orders by the cast. A function has a name of
//! its own.

use std::collections::HashMap;
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    CastKind, Expr, GroupByExpr, Ident, OrderByExpr, Select, SelectItem, Statement, Value, Visit,
    VisitMut, Visitor, VisitorMut,
};

use crate::sqltext::rewriting::{call, each_select};

/// What functions that are casts are called, in front of the type: a user cannot write such a name
/// without quotes.
const CAST: &str = "cast as ";
const TRY_CAST: &str = "try_cast as ";

/// Writes the casts of queries that group by one, or call with and without one, as such functions.
pub fn written_out(statement: &mut Statement) {
    let _ = each_select(statement, |select, order| {
        of_select(select, order);
        ControlFlow::<()>::Continue(())
    });
}

/// The cast that a function of such a name is, written over NULL; `None` for other functions.
pub fn cast_of(function: &str) -> Option<String> {
    let cast =
        |kind: &str, word: &str| Some(format!("{word}(NULL AS {})", function.strip_prefix(kind)?));
    cast(CAST, "CAST").or_else(|| cast(TRY_CAST, "TRY_CAST"))
}

fn of_select(select: &mut Select, order: &mut [OrderByExpr]) {
    if !groups_by_cast(select) && !folds_alike(select, order) {
        return;
    }
    for item in &mut select.projection {
        if let SelectItem::UnnamedExpr(expr) = item
            && has_cast(expr)
        {
            // It keeps the name of what is cast.
            let alias = Ident::with_quote('"', name_without_casts(expr.clone()));
            *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias };
        }
        let _ = VisitMut::visit(item, &mut Casts);
    }
    if let GroupByExpr::Expressions(groups, _) = &mut select.group_by {
        let _ = VisitMut::visit(groups, &mut Casts);
    }
    let _ = VisitMut::visit(&mut select.distinct, &mut Casts);
    let _ = VisitMut::visit(&mut select.having, &mut Casts);
    let _ = VisitMut::visit(&mut select.qualify, &mut Casts);
    for key in order {
        let _ = VisitMut::visit(key, &mut Casts);
    }
}

/// Whether a key is a cast or holds one, be it a place or a name of the result.
fn groups_by_cast(select: &Select) -> bool {
    let GroupByExpr::Expressions(groups, _) = &select.group_by else { return false };
    let item = |at: usize| match select.projection.get(at) {
        Some(SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }) => {
            has_cast(expr)
        }
        _ => false,
    };
    groups.iter().any(|group| match group {
        Expr::Value(value) => match &value.value {
            Value::Number(place, _) => {
                place.parse::<usize>().is_ok_and(|place| place > 0 && item(place - 1))
            }
            _ => false,
        },
        Expr::Identifier(name) => select.projection.iter().enumerate().any(|(at, one)| {
            matches!(one, SelectItem::ExprWithAlias { alias, .. } if alias.value == name.value)
                && item(at)
        }),
        other => has_cast(other),
    })
}

/// Whether two calls differ by casts alone, such as `max(x)` and `max(CAST(x AS TEXT))`.
fn folds_alike(select: &Select, order: &[OrderByExpr]) -> bool {
    #[derive(Default)]
    struct Calls(HashMap<String, String>);
    impl Visitor for Calls {
        type Break = ();

        fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
            if matches!(expr, Expr::Function(_)) {
                let text = expr.to_string();
                let known = self.0.entry(name_without_casts(expr.clone()));
                if *known.or_insert_with(|| text.clone()) != text {
                    return ControlFlow::Break(());
                }
            }
            ControlFlow::Continue(())
        }
    }
    let mut calls = Calls::default();
    let Select { projection, having, qualify, .. } = select;
    projection.visit(&mut calls).is_break()
        || having.visit(&mut calls).is_break()
        || qualify.visit(&mut calls).is_break()
        || order.iter().any(|key| key.visit(&mut calls).is_break())
}

fn has_cast(expr: &Expr) -> bool {
    struct Finder;
    impl Visitor for Finder {
        type Break = ();

        fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
            match expr {
                Expr::Cast { .. } => ControlFlow::Break(()),
                _ => ControlFlow::Continue(()),
            }
        }
    }
    Visit::visit(expr, &mut Finder).is_break()
}

/// Makes casts functions.
struct Casts;

impl VisitorMut for Casts {
    type Break = ();

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::Cast { kind, expr: inner, data_type, array: false, format: None } = expr {
            let kind = match kind {
                CastKind::Cast | CastKind::DoubleColon => CAST,
                CastKind::TryCast | CastKind::SafeCast => TRY_CAST,
            };
            let name = Ident::with_quote('"', format!("{kind}{data_type}"));
            *expr = call(name, vec![inner.as_ref().clone()]);
        }
        ControlFlow::Continue(())
    }
}

/// An expression as text, without its casts; a column without its table.
fn name_without_casts(mut expr: Expr) -> String {
    struct Stripper;
    impl VisitorMut for Stripper {
        type Break = ();

        fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
            if let Expr::Cast { expr: inner, .. } = expr {
                *expr = inner.as_ref().clone();
            }
            ControlFlow::Continue(())
        }
    }
    let _ = VisitMut::visit(&mut expr, &mut Stripper);
    match expr {
        Expr::Identifier(name) => name.value,
        Expr::CompoundIdentifier(names) => {
            names.last().map(|name| name.value.clone()).unwrap_or_default()
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sqltext::parse;

    #[test]
    fn casts_that_are_grouped_by_have_a_name_of_their_own() {
        for (text, written) in [
            (
                "SELECT a.s::INT, count(*) FROM a GROUP BY 1 ORDER BY CAST(a.s AS INT)",
                "SELECT \"cast as INT\"(a.s) AS \"s\", count(*) FROM a GROUP BY 1 ORDER BY \"cast as INT\"(a.s)",
            ),
            (
                "SELECT upper(TRY_CAST(CAST(s AS INT) AS TEXT)) AS u FROM a GROUP BY u HAVING s::INT > 1",
                "SELECT upper(\"try_cast as TEXT\"(\"cast as INT\"(s))) AS u FROM a GROUP BY u HAVING \"cast as INT\"(s) > 1",
            ),
            (
                "SELECT max(x) AS a, max(CAST(x AS TEXT)) AS b FROM a",
                "SELECT max(x) AS a, max(\"cast as TEXT\"(x)) AS b FROM a",
            ),
            (
                "SELECT s, max(x::INT) FROM (SELECT CAST(x AS INT) AS x, s FROM a) GROUP BY s",
                "SELECT s, max(x::INT) FROM (SELECT CAST(x AS INT) AS x, s FROM a) GROUP BY s",
            ),
        ] {
            assert_eq!(parse(text).unwrap().statement.to_string(), written);
        }
    }

    #[test]
    fn such_a_function_tells_its_cast() {
        assert_eq!(cast_of("cast as DECIMAL(10,2)").unwrap(), "CAST(NULL AS DECIMAL(10,2))");
        assert_eq!(cast_of("try_cast as INT").unwrap(), "TRY_CAST(NULL AS INT)");
        assert_eq!(cast_of("upper"), None);
    }
}
