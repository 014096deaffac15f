//! What a stage's query may do: read tables and compute. Nothing of the host, nothing that differs
//! from one run to the next without saying so.

use std::collections::BTreeSet;

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, plan_err};
use datafusion::logical_expr::{Expr, LogicalPlan, Volatility};
use proofmill_udfs::model::placement::{asks_model, models_called};

/// The functions that a plan calls.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Calls {
    pub functions: BTreeSet<String>,
    /// Those whose value differs between runs.
    pub volatile: BTreeSet<String>,
    /// The models that it asks, by name.
    pub models: BTreeSet<String>,
    /// Whether anything was planned at all: what SQL means is part of the result then.
    pub planned: bool,
}

/// Refuses plans that do anything but query; lists the functions of the others.
pub fn inspect(plan: &LogicalPlan) -> Result<Calls> {
    let mut calls = Calls { models: models_called(plan)?, planned: true, ..Calls::default() };
    plan.apply_with_subqueries(|node| {
        allowed(node)?;
        node.apply_expressions(|expr| {
            expr.apply(|expr| {
                calls.note(expr);
                Ok(TreeNodeRecursion::Continue)
            })
        })
    })?;
    Ok(calls)
}

/// The first function in an expression that folds many rows into one value, if there is one.
pub fn folds_rows(expr: &Expr) -> Result<Option<String>> {
    let mut found = None;
    expr.apply(|expr| {
        let name = match expr {
            Expr::AggregateFunction(call) => call.func.name(),
            Expr::WindowFunction(call) => call.fun.name(),
            _ => return Ok(TreeNodeRecursion::Continue),
        };
        found = Some(name.to_owned());
        Ok(TreeNodeRecursion::Stop)
    })?;
    Ok(found)
}

impl Calls {
    /// Adds those of another plan.
    pub fn extend(&mut self, other: &Self) {
        self.functions.extend(other.functions.iter().cloned());
        self.volatile.extend(other.volatile.iter().cloned());
        self.models.extend(other.models.iter().cloned());
        self.planned |= other.planned;
    }

    fn note(&mut self, expr: &Expr) {
        let (name, volatility) = match expr {
            Expr::ScalarFunction(call) => (call.name(), call.func.signature().volatility),
            Expr::AggregateFunction(call) => (call.func.name(), call.func.signature().volatility),
            Expr::WindowFunction(call) => (call.fun.name(), call.fun.signature().volatility),
            _ => return,
        };
        self.functions.insert(name.to_owned());
        // What a model said is recorded and replayed.
        if volatility != Volatility::Immutable && !asks_model(name) {
            self.volatile.insert(name.to_owned());
        }
    }
}

fn allowed(node: &LogicalPlan) -> Result<()> {
    match node {
        LogicalPlan::Projection(_)
        | LogicalPlan::Filter(_)
        | LogicalPlan::Window(_)
        | LogicalPlan::Aggregate(_)
        | LogicalPlan::Sort(_)
        | LogicalPlan::Join(_)
        | LogicalPlan::Repartition(_)
        | LogicalPlan::Union(_)
        | LogicalPlan::TableScan(_)
        | LogicalPlan::EmptyRelation(_)
        | LogicalPlan::Subquery(_)
        | LogicalPlan::SubqueryAlias(_)
        | LogicalPlan::Limit(_)
        | LogicalPlan::Values(_)
        | LogicalPlan::Distinct(_)
        | LogicalPlan::Unnest(_) => Ok(()),
        other => plan_err!("`{}` is not allowed: only queries are", other.display()),
    }
}
