//! Named windows, written out: `OVER (w ORDER BY x)` with the columns of `w` in it. The planner knows `OVER w` alone, and
//! of a window that goes on from another it forgets the other.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, Ident, NamedWindowDefinition, NamedWindowExpr, OrderByExpr, Query, Select, Statement,
    VisitMut, VisitorMut, WindowSpec, WindowType,
};
use datafusion::sql::sqlparser::tokenizer::Span;

use crate::sqltext::rewriting::each_select;

/// A window that cannot go on from the one that it names.
#[derive(Debug, PartialEq)]
pub struct WindowConflict {
    pub message: String,
    pub span: Span,
}

/// Writes out every named window of a statement.
pub fn written_out(statement: &mut Statement) -> Result<(), WindowConflict> {
    match each_select(statement, of_select) {
        ControlFlow::Break(conflict) => Err(conflict),
        ControlFlow::Continue(()) => Ok(()),
    }
}

/// The windows of a `SELECT`, which the order of its rows sees too.
fn of_select(select: &mut Select, order: &mut [OrderByExpr]) -> ControlFlow<WindowConflict> {
    if select.named_window.is_empty() {
        return ControlFlow::Continue(());
    }
    // A window may go on from those before it.
    let mut known: Vec<(Ident, WindowSpec)> = Vec::new();
    for NamedWindowDefinition(name, definition) in std::mem::take(&mut select.named_window) {
        let spec = match definition {
            NamedWindowExpr::NamedWindow(base) => WindowSpec {
                window_name: Some(base),
                partition_by: Vec::new(),
                order_by: Vec::new(),
                window_frame: None,
            },
            NamedWindowExpr::WindowSpec(spec) => spec,
        };
        if find(&known, &name).is_some() {
            return conflict(format!("two windows are called `{name}`"), name.span);
        }
        let spec = match extended(&known, spec) {
            Ok(spec) => spec,
            Err(conflict) => return ControlFlow::Break(conflict),
        };
        known.push((name, spec));
    }
    let mut calls = Calls { known: &known, depth: 0 };
    select.projection.visit(&mut calls)?;
    select.qualify.visit(&mut calls)?;
    for item in order {
        item.visit(&mut calls)?;
    }
    ControlFlow::Continue(())
}

/// Writes windows out in the expressions of one `SELECT`, and not in its subqueries, which have windows of their own.
struct Calls<'a> {
    known: &'a [(Ident, WindowSpec)],
    depth: usize,
}

impl VisitorMut for Calls<'_> {
    type Break = WindowConflict;

    fn pre_visit_query(&mut self, _: &mut Query) -> ControlFlow<WindowConflict> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<WindowConflict> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<WindowConflict> {
        let Expr::Function(call) = expr else { return ControlFlow::Continue(()) };
        if self.depth > 0 {
            return ControlFlow::Continue(());
        }
        let spec = match call.over.take() {
            None => return ControlFlow::Continue(()),
            Some(WindowType::WindowSpec(spec)) => extended(self.known, spec),
            Some(WindowType::NamedWindow(name)) => match find(self.known, &name) {
                Some(spec) => Ok(spec.clone()),
                None => Err(unknown(&name)),
            },
        };
        match spec {
            Ok(spec) => {
                call.over = Some(WindowType::WindowSpec(spec));
                ControlFlow::Continue(())
            }
            Err(conflict) => ControlFlow::Break(conflict),
        }
    }
}

/// The window with what it goes on from; as in PostgreSQL, it may add an order and a frame, and replace nothing.
fn extended(known: &[(Ident, WindowSpec)], spec: WindowSpec) -> Result<WindowSpec, WindowConflict> {
    let Some(name) = spec.window_name else { return Ok(spec) };
    let base = find(known, &name).ok_or_else(|| unknown(&name))?;
    let fail = |what: &str| {
        let message = format!("a window based on `{name}` cannot have {what}");
        Err(WindowConflict { message, span: name.span })
    };
    if !spec.partition_by.is_empty() {
        return fail("a `PARTITION BY` of its own");
    }
    if !spec.order_by.is_empty() && !base.order_by.is_empty() {
        return fail("an `ORDER BY` of its own, as that has one");
    }
    let adds = !spec.order_by.is_empty() || spec.window_frame.is_some();
    if adds && base.window_frame.is_some() {
        return fail("an `ORDER BY` or a frame of its own, as that has a frame");
    }
    Ok(WindowSpec {
        window_name: None,
        partition_by: base.partition_by.clone(),
        order_by: if spec.order_by.is_empty() { base.order_by.clone() } else { spec.order_by },
        window_frame: spec.window_frame.or_else(|| base.window_frame.clone()),
    })
}

/// Names in quotes are found as they are written, others in any case.
fn find<'a>(known: &'a [(Ident, WindowSpec)], name: &Ident) -> Option<&'a WindowSpec> {
    let plain = |ident: &Ident| match ident.quote_style {
        Some(_) => ident.value.clone(),
        None => ident.value.to_lowercase(),
    };
    known.iter().find(|(known, _)| plain(known) == plain(name)).map(|(_, spec)| spec)
}

fn unknown(name: &Ident) -> WindowConflict {
    WindowConflict { message: format!("there is no window `{name}`"), span: name.span }
}

fn conflict(message: String, span: Span) -> ControlFlow<WindowConflict> {
    ControlFlow::Break(WindowConflict { message, span })
}

#[cfg(test)]
mod tests {
    use crate::sqltext::parse;

    #[test]
    fn a_window_that_goes_on_has_all_of_the_other() {
        for (text, written) in [
            (
                "SELECT count(*) OVER (w ORDER BY x) FROM t WINDOW w AS (PARTITION BY y)",
                "SELECT count(*) OVER (PARTITION BY y ORDER BY x) FROM t",
            ),
            (
                "SELECT sum(x) OVER W FROM t WINDOW a AS (PARTITION BY y), w AS (a ORDER BY x)",
                "SELECT sum(x) OVER (PARTITION BY y ORDER BY x) FROM t",
            ),
            (
                "SELECT x FROM t WINDOW w AS (ORDER BY x) QUALIFY row_number() OVER w = 1 ORDER BY rank() OVER w",
                "SELECT x FROM t QUALIFY row_number() OVER (ORDER BY x) = 1 ORDER BY rank() OVER (ORDER BY x)",
            ),
            (
                "SELECT (SELECT max(r) FROM (SELECT rank() OVER w AS r FROM u WINDOW w AS (ORDER BY b)) q), \
                 rank() OVER w FROM t WINDOW w AS (ORDER BY a)",
                "SELECT (SELECT max(r) FROM (SELECT rank() OVER (ORDER BY b) AS r FROM u) q), \
                 rank() OVER (ORDER BY a) FROM t",
            ),
        ] {
            let query = parse(text).unwrap();
            assert_eq!(query.statement.to_string(), written, "{text}");
        }
    }

    #[test]
    fn a_window_replaces_nothing_of_the_other() {
        for (text, message) in [
            (
                "SELECT sum(x) OVER (w PARTITION BY z) FROM t WINDOW w AS (PARTITION BY y)",
                "a window based on `w` cannot have a `PARTITION BY` of its own",
            ),
            ("SELECT sum(x) OVER v FROM t WINDOW w AS (PARTITION BY y)", "there is no window `v`"),
        ] {
            let error = parse(text).unwrap_err();
            assert_eq!(error.message, message);
            assert!(!error.range.is_empty(), "{text}");
        }
    }
}
