//! Rows of values that are compared, written out: `(a, b) < (c, d)`, `(a, b) IN ((1, 2), …)`. The planner makes records of them, and
//! records have an order in which NULL is the smallest value, and are equal where both have NULL.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, UnaryOperator, VisitMut, VisitorMut, visit_expressions,
};

use crate::sqltext::limits::Excess;

/// Comparisons that one of rows may become, as many as operators may stand in a row.
const COMPARISONS_MAX: usize = 500;
/// Values of a row that is ordered: each is one level deeper than that before it.
const ORDERED_MAX: usize = 20;

/// Functions whose value differs from call to call: rows with such stay as they are, as written out they would be called more often.
const DIFFERING: [&str; 2] = ["random", "uuid"];

/// Writes out the comparisons of a statement or an expression.
///
/// # Errors
///
/// If there are too many.
pub fn written_out(parsed: &mut impl VisitMut) -> Result<(), Excess> {
    match VisitMut::visit(parsed, &mut Rows) {
        ControlFlow::Break(excess) => Err(excess),
        ControlFlow::Continue(()) => Ok(()),
    }
}

struct Rows;

impl VisitorMut for Rows {
    type Break = Excess;

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Excess> {
        within(expr)?;
        let written = match expr {
            Expr::BinaryOp { left, op, right } => compared(left, op, right),
            Expr::IsDistinctFrom(left, right) => each(left, right, BinaryOperator::Or, |a, b| {
                Expr::IsDistinctFrom(Box::new(a), Box::new(b))
            }),
            Expr::IsNotDistinctFrom(left, right) => {
                each(left, right, BinaryOperator::And, |a, b| {
                    Expr::IsNotDistinctFrom(Box::new(a), Box::new(b))
                })
            }
            Expr::InList { expr, list, negated } => {
                let found = list.iter().map(|item| compared(expr, &BinaryOperator::Eq, item));
                let found: Option<Vec<Expr>> = found.collect();
                let found = found.and_then(|all| joined(all, &BinaryOperator::Or));
                found.map(|found| match *negated {
                    true => Expr::UnaryOp { op: UnaryOperator::Not, expr: Box::new(found) },
                    false => found,
                })
            }
            _ => None,
        };
        if let Some(written) = written {
            *expr = written;
        }
        ControlFlow::Continue(())
    }
}

/// Stops at more comparisons than a plan may have.
fn within(expr: &Expr) -> ControlFlow<Excess> {
    let places = |expr: &Expr| values(expr).map_or(0, <[Expr]>::len);
    let (comparisons, most) = match expr {
        Expr::BinaryOp { left, op, .. } => match op {
            BinaryOperator::Eq | BinaryOperator::NotEq => (places(left), COMPARISONS_MAX),
            _ => (places(left), ORDERED_MAX),
        },
        Expr::InList { expr, list, .. } => (places(expr) * list.len(), COMPARISONS_MAX),
        _ => return ControlFlow::Continue(()),
    };
    if comparisons <= most {
        return ControlFlow::Continue(());
    }
    ControlFlow::Break(Excess {
        message: format!(
            "row values are compared {comparisons} times here, expected at most {most}"
        ),
        help: "join the rows: `JOIN (VALUES …) AS v(a, b) ON v.a = t.a AND v.b = t.b`",
        range: 0..0,
    })
}

/// The values of a row.
fn values(expr: &Expr) -> Option<&[Expr]> {
    match expr {
        Expr::Tuple(values) => Some(values),
        Expr::Nested(inner) => values(inner),
        _ => None,
    }
}

/// Both sides of each place of two rows.
fn pairs(left: &Expr, right: &Expr) -> Option<Vec<(Expr, Expr)>> {
    let (left, right) = (values(left)?, values(right)?);
    let pairs = left.iter().cloned().zip(right.iter().cloned()).collect::<Vec<_>>();
    let repeats = !left.iter().chain(right).any(differs);
    (left.len() == right.len() && !pairs.is_empty() && repeats).then_some(pairs)
}

fn differs(expr: &Expr) -> bool {
    let is_such = |part: &Expr| match part {
        Expr::Function(call) => {
            let name = call.name.to_string();
            DIFFERING.iter().any(|it| it.eq_ignore_ascii_case(&name))
        }
        _ => false,
    };
    let found = visit_expressions(expr, |part| match is_such(part) {
        true => ControlFlow::Break(()),
        false => ControlFlow::Continue(()),
    });
    found.is_break()
}

fn each(
    left: &Expr,
    right: &Expr,
    by: BinaryOperator,
    one: impl Fn(Expr, Expr) -> Expr,
) -> Option<Expr> {
    let all = pairs(left, right)?.into_iter().map(|(a, b)| one(a, b)).collect();
    joined(all, &by)
}

fn compared(left: &Expr, op: &BinaryOperator, right: &Expr) -> Option<Expr> {
    let strict = match op {
        BinaryOperator::Eq => {
            return each(left, right, BinaryOperator::And, |a, b| binary(a, op, b));
        }
        BinaryOperator::NotEq => {
            return each(left, right, BinaryOperator::Or, |a, b| binary(a, op, b));
        }
        BinaryOperator::Lt | BinaryOperator::LtEq => BinaryOperator::Lt,
        BinaryOperator::Gt | BinaryOperator::GtEq => BinaryOperator::Gt,
        _ => return None,
    };
    // The first place that differs decides.
    let mut pairs = pairs(left, right)?.into_iter().rev();
    let last = pairs.next().map(|(a, b)| binary(a, op, b))?;
    let whole = pairs.fold(last, |rest, (a, b)| {
        let equal = binary(a.clone(), &BinaryOperator::Eq, b.clone());
        let behind = binary(equal, &BinaryOperator::And, rest);
        binary(binary(a, &strict, b), &BinaryOperator::Or, behind)
    });
    Some(whole)
}

fn binary(left: Expr, op: &BinaryOperator, right: Expr) -> Expr {
    let compared = Expr::BinaryOp { left: Box::new(left), op: op.clone(), right: Box::new(right) };
    Expr::Nested(Box::new(compared))
}

/// All of them, as a tree of few levels.
fn joined(mut all: Vec<Expr>, by: &BinaryOperator) -> Option<Expr> {
    while all.len() > 1 {
        let mut left = all.into_iter();
        all = std::iter::from_fn(|| {
            let first = left.next()?;
            Some(match left.next() {
                Some(second) => binary(first, by, second),
                None => first,
            })
        })
        .collect();
    }
    let whole = all.pop()?;
    Some(match whole {
        nested @ Expr::Nested(_) => nested,
        other => Expr::Nested(Box::new(other)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sqltext::parse_expression;

    #[test]
    fn too_many_comparisons_are_refused() {
        let list = |rows: usize| vec!["(1, 2)"; rows].join(", ");
        assert!(parse_expression(&format!("(a, b) IN ({})", list(COMPARISONS_MAX / 2))).is_ok());
        let more = parse_expression(&format!("(a, b) IN ({})", list(30_000))).unwrap_err();
        assert_eq!(more.message, "row values are compared 60000 times here, expected at most 500");
        let row = |places: usize| vec!["a"; places].join(", ");
        let ordered = |places: usize| format!("({}) < ({})", row(places), row(places));
        assert!(parse_expression(&ordered(ORDERED_MAX)).is_ok());
        assert!(parse_expression(&ordered(ORDERED_MAX + 1)).is_err());
    }

    #[test]
    fn rows_are_compared_place_by_place() {
        for (written, expected) in [
            ("(a, b) = (1, 2)", "((a = 1) AND (b = 2))"),
            ("(a, b) <> (1, 2)", "((a <> 1) OR (b <> 2))"),
            ("(a, b) < (1, 2)", "((a < 1) OR ((a = 1) AND (b < 2)))"),
            ("(a, b) >= (c, d)", "((a > c) OR ((a = c) AND (b >= d)))"),
            (
                "(a, b) NOT IN ((1, 2), (3, 4))",
                "NOT (((a = 1) AND (b = 2)) OR ((a = 3) AND (b = 4)))",
            ),
            ("(a, b) IS DISTINCT FROM (1, 2)", "(a IS DISTINCT FROM 1 OR b IS DISTINCT FROM 2)"),
            ("(a, b) = (1, 2, 3)", "(a, b) = (1, 2, 3)"),
            ("(random(), b) < (1, 2)", "(random(), b) < (1, 2)"),
            ("a IN (1, 2)", "a IN (1, 2)"),
        ] {
            assert_eq!(parse_expression(written).unwrap().to_string(), expected);
        }
    }
}
