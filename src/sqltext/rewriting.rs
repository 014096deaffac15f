//! What rewriting a parsed statement takes: each `SELECT` with the order of its rows, and calls of functions.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentList, FunctionArguments, Ident,
    ObjectName, OrderByExpr, OrderByKind, Query, Select, SetExpr, Statement, VisitMut, VisitorMut,
};

/// Rewrites each `SELECT` of a statement, those of subqueries behind those around them. The order is that of the query that a `SELECT`
/// alone is: `ORDER BY` behind a `UNION` sees columns of the result only.
pub fn each_select<B>(
    statement: &mut Statement,
    of_select: impl FnMut(&mut Select, &mut [OrderByExpr]) -> ControlFlow<B>,
) -> ControlFlow<B> {
    struct Queries<F>(F);
    impl<B, F> VisitorMut for Queries<F>
    where
        F: FnMut(&mut Select, &mut [OrderByExpr]) -> ControlFlow<B>,
    {
        type Break = B;

        fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<B> {
            let order = match query.order_by.as_mut().map(|order| &mut order.kind) {
                Some(OrderByKind::Expressions(order)) => order.as_mut_slice(),
                _ => &mut [],
            };
            of_body(&mut query.body, order, &mut self.0)
        }
    }
    VisitMut::visit(statement, &mut Queries(of_select))
}

fn of_body<B>(
    body: &mut SetExpr,
    order: &mut [OrderByExpr],
    of_select: &mut impl FnMut(&mut Select, &mut [OrderByExpr]) -> ControlFlow<B>,
) -> ControlFlow<B> {
    match body {
        SetExpr::Select(select) => of_select(select, order),
        SetExpr::SetOperation { left, right, .. } => {
            of_body(left, &mut [], of_select)?;
            of_body(right, &mut [], of_select)
        }
        // A query in parentheses is visited as one of its own.
        _ => ControlFlow::Continue(()),
    }
}

/// The call of a function.
pub fn call(name: Ident, args: Vec<Expr>) -> Expr {
    let arg = |expr| FunctionArg::Unnamed(FunctionArgExpr::Expr(expr));
    Expr::Function(Function {
        name: ObjectName::from(vec![name]),
        uses_odbc_syntax: false,
        parameters: FunctionArguments::None,
        args: FunctionArguments::List(FunctionArgumentList {
            duplicate_treatment: None,
            args: args.into_iter().map(arg).collect(),
            clauses: Vec::new(),
        }),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: Vec::new(),
    })
}
