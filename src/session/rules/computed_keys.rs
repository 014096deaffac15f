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

/// What a key is called that is computed below.
const KEY: &str = "__computed_key_";

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

/// A node with `parts` of its expressions as columns of projections below it, until there are none. Each part has the name of its
/// column.
pub fn computed_below(
    mut node: LogicalPlan,
    parts: impl Fn(&LogicalPlan) -> Result<HashMap<Expr, String>>,
) -> Result<Transformed<LogicalPlan>> {
    let mut computed = parts(&node)?;
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
        computed = parts(&node)?;
    }
    // What has all columns of its input has the added ones, too.
    Ok(Transformed::yes(match passes_on {
        true => LogicalPlan::Projection(Projection::try_new(shown, Arc::new(node))?),
        false => node,
    }))
}

/// The computed keys of a node, each with the name of its column.
fn keys_of(node: &LogicalPlan) -> Result<HashMap<Expr, String>> {
    let rows = input_schema(node);
    let schemas = [&rows];
    let (mut keys, mut names) = (HashMap::new(), new_names(&schemas, KEY));
    let mut note = |key: &Expr| -> Result<()> {
        if !key.contains_outer() && key.exists(|part| Ok(is_open(part)))? && !keys.contains_key(key)
        {
            keys.extend(names.next().map(|name| (key.clone(), name)));
        }
        Ok(())
    };
    match node {
        LogicalPlan::Sort(sort) => sorted(&sort.expr).try_for_each(&mut note)?,
        LogicalPlan::Distinct(Distinct::On(DistinctOn { on_expr, sort_expr, .. })) => {
            let order = sort_expr.iter().flat_map(|keys| sorted(keys));
            on_expr.iter().chain(order).try_for_each(&mut note)?;
        }
        other => {
            // Groups by a value that a subquery has for each row: only a projection can compute it.
            if let LogicalPlan::Aggregate(aggregate) = other {
                let groups = aggregate.group_expr.iter();
                groups.filter(|group| is_of_rows(group)).try_for_each(&mut note)?;
            }
            let calls = match other {
                LogicalPlan::Aggregate(aggregate) => &aggregate.aggr_expr,
                LogicalPlan::Window(window) => &window.window_expr,
                _ => return Ok(keys),
            };
            for expr in calls {
                expr.apply(|part| {
                    match part {
                        // What is folded may be such a value as well.
                        Expr::ScalarSubquery(_) if is_of_rows(part) => note(part)?,
                        Expr::WindowFunction(call) => {
                            let params = &call.params;
                            let order = sorted(&params.order_by);
                            params.partition_by.iter().chain(order).try_for_each(&mut note)?;
                        }
                        Expr::AggregateFunction(call) => {
                            sorted(&call.params.order_by).try_for_each(&mut note)?;
                        }
                        _ => {}
                    }
                    Ok(TreeNodeRecursion::Continue)
                })?;
            }
        }
    }
    Ok(keys)
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
