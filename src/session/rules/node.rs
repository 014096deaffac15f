//! What rules ask of a node of a plan, and a rule that is a function of one.

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::optimizer::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};

/// A rule of the optimizer that rewrites each node alone, inputs first.
#[derive(Debug)]
pub struct EachNode {
    pub name: &'static str,
    pub rewrite: fn(LogicalPlan) -> Result<Transformed<LogicalPlan>>,
}

impl OptimizerRule for EachNode {
    fn name(&self) -> &str {
        self.name
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::BottomUp)
    }

    fn supports_rewrite(&self) -> bool {
        true
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        _: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        (self.rewrite)(plan)
    }
}

/// Rewrites each expression of a node, which keeps its name. Grouping sets have none: each of their parts keeps its own.
pub fn keeping_names(
    node: LogicalPlan,
    rewrite: impl Fn(Expr) -> Result<Transformed<Expr>>,
) -> Result<Transformed<LogicalPlan>> {
    let names = NamePreserver::new(&node);
    let named = |expr: Expr| {
        let name = names.save(&expr);
        Ok(rewrite(expr)?.update_data(|expr| name.restore(expr)))
    };
    node.map_expressions(|expr| match expr {
        sets @ Expr::GroupingSet(_) => sets.map_children(named),
        expr => named(expr),
    })
}

/// Whether `is_it` is true of a part of a node's expressions.
pub fn has_part(node: &LogicalPlan, is_it: impl Fn(&Expr) -> bool) -> Result<bool> {
    let mut found = false;
    node.apply_expressions(|expr| {
        found |= expr.exists(|part| Ok(is_it(part)))?;
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(found)
}

/// What the expressions of a node of a plan are about.
pub fn input_schema(node: &LogicalPlan) -> DFSchema {
    let inputs = node.inputs();
    match (node, inputs.is_empty()) {
        (LogicalPlan::TableScan(scan), _) => scan.projected_schema.as_ref().clone(),
        (_, true) => DFSchema::empty(),
        (_, false) => merge_schema(&inputs),
    }
}

/// Names that begin with `start` and that no column of `schemas` has.
pub fn new_names<'a>(
    schemas: &'a [&DFSchema],
    start: &'a str,
) -> impl Iterator<Item = String> + 'a {
    let fields = move || schemas.iter().flat_map(|schema| schema.fields().iter());
    let is_new = move |name: &String| fields().all(|field| field.name() != name);
    (0..).map(move |number: usize| format!("{start}{number}")).filter(is_new)
}
