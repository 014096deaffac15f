//! Keys of orders that are computed: `OVER (ORDER BY a >= abs(b))`, `ORDER BY sqrt(a)`. DataFusion asks for the range of values
//! of each part of a key, takes an error for an order that it does not know, and refuses a plan that sorts as it should.
//! Here such keys are columns of a projection below what sorts by them.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, Result};
use datafusion::logical_expr::expr::Sort as SortExpr;
use datafusion::logical_expr::{Distinct, DistinctOn, Expr, LogicalPlan, Projection};
use datafusion::optimizer::analyzer::AnalyzerRule;

use crate::session::rules::node::{has_part, input_schema, keeping_names, new_names};

/// What a column is called that is computed below, with a number.
pub const COMPUTED: &str = "__computed_key_";

/// Computes keys first, once all types are settled.
#[derive(Debug)]
pub struct ComputedKeys;

impl AnalyzerRule for ComputedKeys {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        plan.transform_up_with_subqueries(of_node).data()
    }

    fn name(&self) -> &str {
        "computed_keys"
    }
}

fn of_node(node: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let is_sorting = matches!(
        &node,
        LogicalPlan::Sort(_)
            | LogicalPlan::Window(_)
            | LogicalPlan::Aggregate(_)
            | LogicalPlan::Distinct(Distinct::On(_))
    );
    if !is_sorting || !has_part(&node, is_open)? {
        return Ok(Transformed::no(node));
    }
    computed_below(node, keys_of)
}

/// A node with `parts` of its expressions as columns of projections below it, until there are none. Columns outside a subquery
/// stay where they are.
pub fn computed_below(
    mut node: LogicalPlan,
    parts: impl Fn(&LogicalPlan) -> Result<Vec<Expr>>,
) -> Result<Transformed<LogicalPlan>> {
    let mut computed = named(&node, parts(&node)?);
    if computed.is_empty() {
        return Ok(Transformed::no(node));
    }
    let is_sort = matches!(node, LogicalPlan::Sort(_));
    let passes_on = is_sort || matches!(node, LogicalPlan::Window(_) | LogicalPlan::Filter(_));
    let shown: Vec<Expr> = node.schema().columns().into_iter().map(Expr::Column).collect();
    while !computed.is_empty() {
        node =
            node.map_children(|input| with_columns(input, &computed).map(Transformed::yes))?.data;
        let column = |expr: Expr| {
            expr.transform_down(|part| {
                Ok(match computed.get(&part) {
                    Some(name) => Transformed::yes(Expr::Column(Column::from_name(name))),
                    None => Transformed::no(part),
                })
            })
        };
        let rewritten = match is_sort {
            true => node.map_expressions(column)?,
            false => keeping_names(node, column)?,
        };
        node = rewritten.data.recompute_schema()?;
        computed = named(&node, parts(&node)?);
    }
    // What has all columns of its input has the added ones, too.
    Ok(Transformed::yes(match passes_on {
        true => LogicalPlan::Projection(Projection::try_new(shown, Arc::new(node))?),
        false => node,
    }))
}

/// The names of columns for `parts`, one for each.
fn named(node: &LogicalPlan, parts: Vec<Expr>) -> HashMap<Expr, String> {
    let rows = input_schema(node);
    let schemas = [&rows];
    let (mut all, mut names) = (HashMap::new(), new_names(&schemas, COMPUTED));
    for part in parts.into_iter().filter(|part| !part.contains_outer()) {
        if !all.contains_key(&part) {
            all.extend(names.next().map(|name| (part, name)));
        }
    }
    all
}

/// The computed keys of a node, and what it folds that only a projection can compute.
fn keys_of(node: &LogicalPlan) -> Result<Vec<Expr>> {
    let is_computed = |key: &&Expr| key.exists(|part| Ok(is_open(part))).unwrap_or(false);
    let keys_in = |calls: &[Expr]| {
        let mut keys = Vec::new();
        for expr in calls {
            expr.apply(|part| {
                match part {
                    Expr::ScalarSubquery(_) if is_of_rows(part) => keys.push(part.clone()),
                    Expr::WindowFunction(call) => {
                        let params = &call.params;
                        let order = sorted(&params.order_by);
                        keys.extend(
                            params.partition_by.iter().chain(order).filter(is_computed).cloned(),
                        );
                    }
                    Expr::AggregateFunction(call) => {
                        keys.extend(sorted(&call.params.order_by).filter(is_computed).cloned());
                    }
                    _ => {}
                }
                Ok(TreeNodeRecursion::Continue)
            })?;
        }
        Ok(keys)
    };
    match node {
        LogicalPlan::Sort(sort) => Ok(sorted(&sort.expr).filter(is_computed).cloned().collect()),
        LogicalPlan::Distinct(Distinct::On(DistinctOn { on_expr, sort_expr, .. })) => {
            let order = sort_expr.iter().flat_map(|keys| sorted(keys));
            Ok(on_expr.iter().chain(order).filter(is_computed).cloned().collect())
        }
        LogicalPlan::Aggregate(aggregate) => {
            // Groups by a value that a subquery has for each row.
            let groups = aggregate.group_expr.iter().filter(|group| is_of_rows(group));
            let mut keys: Vec<Expr> = groups.cloned().collect();
            keys.extend(keys_in(&aggregate.aggr_expr)?);
            Ok(keys)
        }
        LogicalPlan::Window(window) => keys_in(&window.window_expr),
        _ => Ok(Vec::new()),
    }
}

/// Whether a part of an expression is a subquery that reads columns outside it.
fn is_of_rows(expr: &Expr) -> bool {
    let is_one =
        |part: &Expr| matches!(part, Expr::ScalarSubquery(it) if !it.outer_ref_columns.is_empty());
    !matches!(expr, Expr::GroupingSet(_)) && expr.exists(|part| Ok(is_one(part))).unwrap_or(false)
}

fn sorted(keys: &[SortExpr]) -> impl Iterator<Item = &Expr> {
    keys.iter().map(|key| &key.expr)
}

/// Whether a part of a key may have no range of values: all but columns, values and casts.
fn is_open(part: &Expr) -> bool {
    !matches!(part, Expr::Column(_) | Expr::Literal(..) | Expr::Cast(_) | Expr::Alias(_))
}

/// The rows of `input`, with `computed` as further columns.
fn with_columns(input: LogicalPlan, computed: &HashMap<Expr, String>) -> Result<LogicalPlan> {
    let own = input.schema().columns().into_iter().map(Expr::Column);
    let mut computed: Vec<(&Expr, &String)> = computed.iter().collect();
    computed.sort_by_key(|(_, name)| (name.len(), *name));
    let computed = computed.into_iter().map(|(part, name)| part.clone().alias(name));
    let all = own.chain(computed).collect();
    Ok(LogicalPlan::Projection(Projection::try_new(all, Arc::new(input))?))
}
