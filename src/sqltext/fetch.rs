//! `FETCH FIRST n ROWS ONLY`, which is SQL's own `LIMIT n`, and which the planner does not know.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, LimitClause, Query, Statement, Value, VisitMut, VisitorMut,
};

/// Writes such clauses as `LIMIT`. Those with `TIES` or `PERCENT` stay.
pub fn written_out(statement: &mut Statement) {
    let _ = VisitMut::visit(statement, &mut Clauses);
}

struct Clauses;

impl VisitorMut for Clauses {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        let offset = match &mut query.limit_clause {
            None => None,
            Some(LimitClause::LimitOffset { limit: None, offset, limit_by })
                if limit_by.is_empty() =>
            {
                offset.take()
            }
            Some(_) => return ControlFlow::Continue(()),
        };
        match query.fetch.take_if(|fetch| !fetch.with_ties && !fetch.percent) {
            Some(fetch) => {
                let one = || Expr::value(Value::Number("1".to_owned(), false));
                let limit = Some(fetch.quantity.unwrap_or_else(one));
                let limit_by = Vec::new();
                query.limit_clause = Some(LimitClause::LimitOffset { limit, offset, limit_by });
            }
            None if offset.is_some() => {
                let limit_by = Vec::new();
                query.limit_clause =
                    Some(LimitClause::LimitOffset { limit: None, offset, limit_by });
            }
            None => {}
        }
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests {
    use crate::sqltext::parse;

    #[test]
    fn it_is_a_limit() {
        for (written, expected) in [
            ("SELECT a FROM t FETCH FIRST 3 ROWS ONLY", "SELECT a FROM t LIMIT 3"),
            ("SELECT a FROM t OFFSET 2 FETCH NEXT ROW ONLY", "SELECT a FROM t LIMIT 1 OFFSET 2"),
            (
                "SELECT a FROM t FETCH FIRST 3 ROWS WITH TIES",
                "SELECT a FROM t FETCH FIRST 3 ROWS WITH TIES",
            ),
        ] {
            assert_eq!(parse(written).unwrap().statement.to_string(), expected);
        }
    }
}
