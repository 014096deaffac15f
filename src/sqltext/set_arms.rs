//! Arms of `UNION`, `EXCEPT` and `INTERSECT`. The planner gives what has no name on the right the name that stands in its place on the
//! left, which a column beside it may have already; and it looks for `ORDER BY t.a` behind them in
//! a table that is not visible there.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, Ident, OrderByKind, Query, Select, SelectItem, SetExpr, SetQuantifier, Statement,
    VisitMut, VisitorMut,
};

/// What columns of right arms are called, with their place: these names are never shown.
const COLUMN: &str = "__arm_column_";

/// Names the columns of right arms, and takes the tables from the orders behind set operations.
pub fn written_out(statement: &mut Statement) {
    let _ = VisitMut::visit(statement, &mut Arms);
}

struct Arms;

impl VisitorMut for Arms {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        if !matches!(query.body.as_ref(), SetExpr::SetOperation { .. }) {
            return ControlFlow::Continue(());
        }
        of_operation(&mut query.body);
        if let Some(OrderByKind::Expressions(keys)) =
            query.order_by.as_mut().map(|order| &mut order.kind)
        {
            for key in keys {
                if let Expr::CompoundIdentifier(names) = &mut key.expr
                    && let Some(name) = names.pop()
                {
                    key.expr = Expr::Identifier(name);
                }
            }
        }
        ControlFlow::Continue(())
    }
}

fn of_operation(body: &mut SetExpr) {
    let SetExpr::SetOperation { left, right, set_quantifier, .. } = body else { return };
    of_operation(left);
    of_operation(right);
    let by_name = matches!(
        set_quantifier,
        SetQuantifier::ByName | SetQuantifier::AllByName | SetQuantifier::DistinctByName
    );
    if let (SetExpr::Select(select), false) = (right.as_mut(), by_name) {
        named(select);
    }
}

/// Names bare columns beside an expression that would get a name.
fn named(select: &mut Select) {
    let is_column = |item: &SelectItem| {
        matches!(item, SelectItem::UnnamedExpr(Expr::Identifier(_) | Expr::CompoundIdentifier(_)))
    };
    let is_open =
        |item: &SelectItem| matches!(item, SelectItem::UnnamedExpr(_)) && !is_column(item);
    if !select.projection.iter().any(is_open) {
        return;
    }
    for (place, item) in select.projection.iter_mut().enumerate().filter(|(_, it)| is_column(it)) {
        if let SelectItem::UnnamedExpr(expr) = item {
            let alias = Ident::new(format!("{COLUMN}{place}"));
            *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias };
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::sqltext::parse;

    #[test]
    fn right_arms_have_names_of_their_own() {
        for (written, expected) in [
            (
                "SELECT a, c AS b FROM t UNION ALL SELECT b, 7 FROM u ORDER BY t.a",
                "SELECT a, c AS b FROM t UNION ALL SELECT b AS __arm_column_0, 7 FROM u ORDER BY a",
            ),
            (
                "SELECT a, b FROM t EXCEPT SELECT b, a FROM u",
                "SELECT a, b FROM t EXCEPT SELECT b, a FROM u",
            ),
            ("SELECT t.a FROM t ORDER BY t.a", "SELECT t.a FROM t ORDER BY t.a"),
        ] {
            assert_eq!(parse(written).unwrap().statement.to_string(), expected);
        }
    }
}
