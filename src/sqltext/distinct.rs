//! Keys of `SELECT DISTINCT … ORDER BY`: one that is written like a column of the result is that column. The planner
//! knows names of columns only, and refuses `SELECT DISTINCT abs(k) AS a FROM t ORDER BY abs(k)`.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Distinct, Expr, OrderByExpr, Select, SelectItem, Statement, Value, visit_expressions,
};

use crate::sqltext::rewriting::each_select;

/// Writes such keys as places of the result.
pub fn written_out(statement: &mut Statement) {
    let _ = each_select(statement, |select, order| {
        of_select(select, order);
        ControlFlow::<()>::Continue(())
    });
}

fn of_select(select: &Select, order: &mut [OrderByExpr]) {
    let named = |item: &SelectItem| {
        matches!(item, SelectItem::UnnamedExpr(_) | SelectItem::ExprWithAlias { .. })
    };
    // Columns of a `*` move the places.
    if !matches!(select.distinct, Some(Distinct::Distinct)) || !select.projection.iter().all(named)
    {
        return;
    }
    for key in order {
        // A number is a place, and a name a column of the result.
        if matches!(key.expr, Expr::Value(_) | Expr::Identifier(_))
            || names_result(&key.expr, select)
        {
            continue;
        }
        let place = select.projection.iter().position(
            |item| matches!(item, SelectItem::ExprWithAlias { expr, .. } if *expr == key.expr),
        );
        if let Some(place) = place {
            key.expr = Expr::value(Value::Number((place + 1).to_string(), false));
        }
    }
}

/// Whether a name in the key is one that the result gives to something.
fn names_result(key: &Expr, select: &Select) -> bool {
    let is_alias = |name: &str| {
        select.projection.iter().any(
            |item| matches!(item, SelectItem::ExprWithAlias { alias, .. } if alias.value == name),
        )
    };
    visit_expressions(key, |part| match part {
        Expr::Identifier(name) if is_alias(&name.value) => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    })
    .is_break()
}

#[cfg(test)]
mod tests {
    use crate::sqltext::parse;

    #[test]
    fn what_is_written_like_a_column_of_the_result_is_it() {
        for (text, written) in [
            ("SELECT DISTINCT s, abs(k) AS a FROM t ORDER BY abs( k ) DESC", "ORDER BY 2 DESC"),
            ("SELECT DISTINCT t.k AS a FROM t ORDER BY t.k", "ORDER BY 1"),
            // A place, a name of the result, and what may be either.
            ("SELECT DISTINCT 2 AS a, k FROM t ORDER BY 2", "ORDER BY 2"),
            ("SELECT DISTINCT a AS b, b AS a FROM t ORDER BY a", "ORDER BY a"),
            ("SELECT DISTINCT abs(k) AS a, -k AS k FROM t ORDER BY abs(k)", "ORDER BY abs(k)"),
            ("SELECT DISTINCT *, abs(k) AS a FROM t ORDER BY abs(k)", "ORDER BY abs(k)"),
            ("SELECT abs(k) AS a FROM t ORDER BY abs(k)", "ORDER BY abs(k)"),
        ] {
            let statement = parse(text).unwrap().statement.to_string();
            assert!(statement.ends_with(written), "{statement}");
        }
    }
}
