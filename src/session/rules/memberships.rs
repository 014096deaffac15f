//! `x IN (…)` of lists. The optimizer joins two of one `x` to a third, and takes an empty one for false where it is unknown
//! for a NULL. Where that makes a difference, and there are two in a plan, no two have the same `x`.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::expr::InList;
use datafusion::logical_expr::utils::{conjunction, split_conjunction_owned};
use datafusion::logical_expr::{BinaryExpr, Expr, LogicalPlan, Operator};
use proofmill_udfs::exact::apart;

/// How often a plan tests membership, by the tested value.
#[derive(Debug, Default)]
pub struct Memberships {
    tests: HashMap<String, usize>,
    /// Numbers that were given out.
    numbers: Cell<usize>,
    /// Expressions that were set apart, for equal ones stay equal: `DISTINCT ON` and its order have to be.
    known: RefCell<HashMap<Expr, Expr>>,
}

impl Memberships {
    /// Counts the lists of a plan, and the `OR`s that the optimizer makes lists of.
    pub fn of(plan: &LogicalPlan) -> Result<Self> {
        let mut found = Self::default();
        plan.apply_with_subqueries(|node| {
            node.apply_expressions(|expr| {
                expr.apply(|part| {
                    for value in tested_values(part) {
                        *found.tests.entry(name(value)).or_default() += 1;
                    }
                    Ok(TreeNodeRecursion::Continue)
                })
            })
        })?;
        Ok(found)
    }

    /// The expression with its memberships apart; in a filter, not those that stand alone, for which unknown is as good as
    /// false and which tables are pruned by.
    pub fn apart(&self, expr: Expr, is_filter: bool) -> Result<Transformed<Expr>> {
        if self.tests.values().all(|tests| *tests < 2) {
            return Ok(Transformed::no(expr));
        }
        if !is_filter {
            return self.all(expr);
        }
        let mut changed = false;
        let mut parts = Vec::new();
        for part in split_conjunction_owned(expr) {
            let stands_alone = matches!(part, Expr::InList(_)) || !tested_values(&part).is_empty();
            let part = if stands_alone { Transformed::no(part) } else { self.all(part)? };
            changed |= part.transformed;
            parts.push(part.data);
        }
        let expr = conjunction(parts).unwrap_or_else(|| datafusion::logical_expr::lit(true));
        Ok(Transformed::new(expr, changed, TreeNodeRecursion::Continue))
    }

    fn all(&self, expr: Expr) -> Result<Transformed<Expr>> {
        if let Some(known) = self.known.borrow().get(&expr) {
            return Ok(Transformed::yes(known.clone()));
        }
        let found = self.numbered(expr.clone())?;
        if found.transformed {
            self.known.borrow_mut().insert(expr, found.data.clone());
        }
        Ok(found)
    }

    fn numbered(&self, expr: Expr) -> Result<Transformed<Expr>> {
        let next = |value: Expr| {
            let several = self.tests.get(&name(&value)).is_some_and(|tests| *tests > 1);
            match several {
                false => value,
                true => {
                    self.numbers.set(self.numbers.get() + 1);
                    apart(value, self.numbers.get())
                }
            }
        };
        expr.transform_up(|part| match part {
            Expr::InList(InList { expr, list, negated }) if !is_apart(&expr) => {
                let expr = Box::new(next(*expr));
                Ok(Transformed::yes(Expr::InList(InList { expr, list, negated })))
            }
            Expr::BinaryExpr(BinaryExpr { left, op: Operator::Or, right }) => {
                let side = |side: Expr| match side {
                    Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right })
                        if compared(&left, &right).is_some() =>
                    {
                        let (left, right) = match left.as_ref() {
                            Expr::Column(_) => (Box::new(next(*left)), right),
                            _ => (left, Box::new(next(*right))),
                        };
                        Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right })
                    }
                    other => other,
                };
                let (left, right) = (Box::new(side(*left)), Box::new(side(*right)));
                Ok(Transformed::yes(Expr::BinaryExpr(BinaryExpr { left, op: Operator::Or, right })))
            }
            other => Ok(Transformed::no(other)),
        })
    }
}

/// The values whose membership a list, or an `OR` of equations, tests.
fn tested_values(expr: &Expr) -> Vec<&Expr> {
    match expr {
        Expr::InList(list) if !is_apart(&list.expr) => vec![list.expr.as_ref()],
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::Or, right }) => {
            [left, right].into_iter().filter_map(|side| equation(side)).collect()
        }
        _ => Vec::new(),
    }
}

fn equation(expr: &Expr) -> Option<&Expr> {
    match expr {
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right }) => compared(left, right),
        _ => None,
    }
}

/// The column that is compared with a value.
fn compared<'a>(left: &'a Expr, right: &'a Expr) -> Option<&'a Expr> {
    match (left, right) {
        (Expr::Column(_), Expr::Literal(..)) => Some(left),
        (Expr::Literal(..), Expr::Column(_)) => Some(right),
        _ => None,
    }
}

fn is_apart(expr: &Expr) -> bool {
    matches!(expr, Expr::ScalarFunction(call) if call.func.name() == "apart")
}

/// A value as it may be called in other nodes, whose tables have other names.
fn name(expr: &Expr) -> String {
    match expr {
        Expr::Column(column) => column.name.clone(),
        other => other.to_string(),
    }
}
