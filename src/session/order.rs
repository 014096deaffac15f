//! What of a query depends on an order of rows that nothing fixes. In one piece that order is the one
//! of the inputs; on several cores it is whichever comes first.

use std::collections::HashSet;

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, JoinType, Result};
use datafusion::datasource::source_as_provider;
use datafusion::logical_expr::expr::{AggregateFunction, Sort as SortExpr, WindowFunction};
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{
    Distinct, Expr, FetchType, Join, Limit, LogicalPlan, Operator, Projection, WindowFrameUnits,
};

use crate::session::rules::{COMPUTED, without_zero};
use crate::session::table::StageTable;

/// Aggregates whose value depends on the order in which they see rows.
pub(super) const OF_ORDER: [&str; 5] =
    ["array_agg", "first_value", "last_value", "nth_value", "string_agg"];
/// Window functions that tell rows apart which are equal for the order.
const OF_PLACE: [&str; 4] = ["row_number", "lag", "lead", "ntile"];
/// Keys of a table that are followed through a query, at most.
const KEYS_MAX: usize = 16;

/// Columns that no two rows share.
type Key = Vec<Column>;

/// A part of a query whose answer no order fixes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unfixed {
    /// The word that stands for it in the text.
    pub word: String,
    pub message: String,
    pub help: String,
}

/// All such parts of a plan, each function once.
pub fn unfixed(plan: &LogicalPlan) -> Result<Vec<Unfixed>> {
    let mut found: Vec<Unfixed> = Vec::new();
    plan.apply_with_subqueries(|node| {
        let here = match node {
            LogicalPlan::Aggregate(aggregate) => {
                let calls = aggregate.aggr_expr.iter().filter_map(|expr| match bare(expr) {
                    Expr::AggregateFunction(call) => Some(call),
                    _ => None,
                });
                let open = calls.filter(|call| {
                    !aggregate_is_fixed(call, &aggregate.group_expr, &aggregate.input)
                });
                open.map(|call| of_function(call.func.name())).collect()
            }
            LogicalPlan::Window(window) => {
                let calls = window.window_expr.iter().filter_map(|expr| match bare(expr) {
                    Expr::WindowFunction(call) => Some(call),
                    _ => None,
                });
                let open = calls.filter(|call| !window_is_fixed(call, &window.input));
                open.map(|call| of_window(call.fun.name())).collect()
            }
            LogicalPlan::Limit(limit) if !limit_is_fixed(limit) => vec![of_limit(limit)],
            LogicalPlan::Distinct(Distinct::On(on)) => {
                let order = expressions(on.sort_expr.iter().flatten(), &on.input);
                match is_within(&on.select_expr, &order) || has_key(&order, &on.input) {
                    true => Vec::new(),
                    false => vec![of_distinct()],
                }
            }
            _ => Vec::new(),
        };
        for one in here {
            if !found.contains(&one) {
                found.push(one);
            }
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(found)
}

/// Rows that a plan is expected to give; tables of which nothing is known have none.
pub fn rows_expected(plan: &LogicalPlan) -> u64 {
    let inputs = || plan.inputs().into_iter().map(rows_expected);
    match plan {
        LogicalPlan::TableScan(scan) => stage_table(scan)
            .and_then(|provider| provider.downcast_ref::<StageTable>()?.rows_expected())
            .unwrap_or(0),
        LogicalPlan::Values(values) => values.values.len() as u64,
        LogicalPlan::Join(join) if join.on.is_empty() && join.filter.is_none() => {
            inputs().fold(1, u64::saturating_mul)
        }
        LogicalPlan::Join(_) => inputs().max().unwrap_or(0),
        LogicalPlan::Aggregate(aggregate) if aggregate.group_expr.is_empty() => 1,
        _ => inputs().fold(0, u64::saturating_add).min(limit(plan)),
    }
}

/// Whether a plan gives one row at most.
fn is_one_row(plan: &LogicalPlan) -> bool {
    let inputs = || plan.inputs().into_iter().all(is_one_row);
    match plan {
        LogicalPlan::EmptyRelation(_) => true,
        LogicalPlan::Values(values) => values.values.len() <= 1,
        LogicalPlan::Aggregate(aggregate) => aggregate.group_expr.is_empty(),
        LogicalPlan::Join(join) => match join.join_type {
            JoinType::Inner | JoinType::Left | JoinType::Right => inputs(),
            JoinType::LeftSemi | JoinType::LeftAnti | JoinType::LeftMark => is_one_row(&join.left),
            _ => false,
        },
        LogicalPlan::Projection(_)
        | LogicalPlan::Filter(_)
        | LogicalPlan::Window(_)
        | LogicalPlan::SubqueryAlias(_)
        | LogicalPlan::Distinct(_)
        | LogicalPlan::Sort(_)
        | LogicalPlan::Limit(_) => limit(plan) <= 1 || inputs(),
        _ => false,
    }
}

/// Rows that a plan lets through at most.
fn limit(plan: &LogicalPlan) -> u64 {
    let fetch = match plan {
        LogicalPlan::Limit(limit) => limit.get_fetch_type().ok(),
        LogicalPlan::Sort(sort) => Some(FetchType::Literal(sort.fetch)),
        _ => None,
    };
    match fetch {
        Some(FetchType::Literal(Some(rows))) => rows as u64,
        _ => u64::MAX,
    }
}

fn of_function(name: &str) -> Unfixed {
    Unfixed {
        word: name.to_owned(),
        message: format!("the result of `{name}` depends on an unspecified row order"),
        help: format!(
            "write `{name}(… ORDER BY …)` with columns that no two rows share, or `partitions: 1`"
        ),
    }
}

fn of_window(name: &str) -> Unfixed {
    Unfixed {
        word: name.to_owned(),
        message: format!("the result of `{name}` depends on an unspecified row order"),
        help: "write `OVER (… ORDER BY …)` with columns that no two rows share, or `partitions: 1`"
            .to_owned(),
    }
}

fn of_limit(limit: &Limit) -> Unfixed {
    let word = if limit.fetch.is_some() { "LIMIT" } else { "OFFSET" };
    Unfixed {
        word: word.to_owned(),
        message: format!("which rows `{word}` keeps depends on an unspecified order"),
        help: "add an `ORDER BY` with columns that no two rows share, or `partitions: 1`"
            .to_owned(),
    }
}

fn of_distinct() -> Unfixed {
    Unfixed {
        word: "DISTINCT".to_owned(),
        message: "which row `DISTINCT ON` keeps depends on an unspecified order".to_owned(),
        help: "add an `ORDER BY` with columns that no two rows share, or `partitions: 1`"
            .to_owned(),
    }
}

/// What a shown expression follows from: itself without its name and its casts.
fn bare(expr: &Expr) -> &Expr {
    match expr {
        Expr::Alias(alias) => bare(&alias.expr),
        Expr::Cast(cast) => bare(&cast.expr),
        other => other,
    }
}

/// A key of an order or a group without its name. Only a cast to a text keeps apart what was apart.
fn key(expr: &Expr) -> &Expr {
    match expr {
        Expr::Alias(alias) => key(&alias.expr),
        Expr::Cast(cast) if cast.field.data_type().is_string() => key(&cast.expr),
        other => other,
    }
}

/// The keys of an order of the rows of `input`.
fn expressions<'a>(
    order: impl Iterator<Item = &'a SortExpr>,
    input: &'a LogicalPlan,
) -> HashSet<&'a Expr> {
    order.map(|sort| written(&sort.expr, input)).collect()
}

/// Whether a column is a key that rules have computed: it follows from the others.
fn is_computed(column: &Expr) -> bool {
    matches!(column, Expr::Column(column) if column.name.starts_with(COMPUTED))
}

/// A key as it was written, where rules have computed it below and made its zeros one.
fn written<'a>(expr: &'a Expr, input: &'a LogicalPlan) -> &'a Expr {
    let computed = match (key(expr), input) {
        (own @ Expr::Column(column), LogicalPlan::Projection(below)) if is_computed(own) => {
            below.expr.iter().find_map(|expr| match expr {
                Expr::Alias(alias) if alias.name == column.name => Some(alias.expr.as_ref()),
                _ => None,
            })
        }
        _ => None,
    };
    key(without_zero(computed.unwrap_or(key(expr))))
}

fn aggregate_is_fixed(call: &AggregateFunction, groups: &[Expr], input: &LogicalPlan) -> bool {
    if !OF_ORDER.contains(&call.func.name()) {
        return true;
    }
    let mut order = expressions(call.params.order_by.iter(), input);
    // Rows that are equal in all that is shown can come in any order.
    let shown = !order.is_empty() && is_within(&call.params.args, &order);
    order.extend(groups.iter().map(key));
    shown || has_key(&order, input)
}

fn window_is_fixed(call: &WindowFunction, input: &LogicalPlan) -> bool {
    let (name, params) = (call.fun.name(), &call.params);
    let of_value = OF_ORDER.contains(&name);
    let frame = &params.window_frame;
    let by_rows = frame.units == WindowFrameUnits::Rows
        && !(frame.start_bound.is_unbounded() && frame.end_bound.is_unbounded());
    if !of_value && !OF_PLACE.contains(&name) && !by_rows {
        return true;
    }
    let mut order = expressions(params.order_by.iter(), input);
    order.extend(params.partition_by.iter().map(|part| written(part, input)));
    // Rows that are equal in everything can come in any order.
    let mut own = columns(input.schema()).into_iter().filter(|column| !is_computed(column));
    if own.all(|column| order.contains(&column)) {
        return true;
    }
    of_value && !params.order_by.is_empty() && is_within(&params.args, &order)
        || has_key(&order, input)
}

fn limit_is_fixed(limit: &Limit) -> bool {
    let shown = limit.input.schema();
    let mut below = limit.input.as_ref();
    let mut names: Vec<Expr> = columns(shown);
    loop {
        match below {
            LogicalPlan::Projection(projection) => {
                names = names.into_iter().map(|expr| below_of(expr, projection)).collect();
                below = projection.input.as_ref();
            }
            LogicalPlan::Sort(sort) => {
                let order = expressions(sort.expr.iter(), &sort.input);
                return is_within(&names, &order) || has_key(&order, &sort.input);
            }
            other => return is_one_row(other),
        }
    }
}

/// An expression over the columns of a projection, as one over the columns of its input.
fn below_of(expr: Expr, projection: &Projection) -> Expr {
    let replaced = expr.clone().transform_down(|part| {
        Ok(match &part {
            Expr::Column(column) => match projection.schema.maybe_index_of_column(column) {
                Some(place) => Transformed::new(
                    projection.expr[place].clone().unalias_nested().data,
                    true,
                    TreeNodeRecursion::Jump,
                ),
                None => Transformed::no(part),
            },
            _ => Transformed::no(part),
        })
    });
    replaced.map_or(expr, |replaced| replaced.data)
}

fn is_within(shown: &[Expr], order: &HashSet<&Expr>) -> bool {
    let decided = |expr: &Expr| {
        matches!(bare(expr), Expr::Literal(..))
            || [key(expr), bare(expr)].iter().any(|e| order.contains(e))
    };
    shown.iter().all(decided)
}

fn columns(schema: &DFSchema) -> Vec<Expr> {
    schema.columns().into_iter().map(Expr::Column).collect()
}

/// Whether no two rows of `input` are equal in all of `order`.
fn has_key(order: &HashSet<&Expr>, input: &LogicalPlan) -> bool {
    let known: HashSet<&Column> = order
        .iter()
        .filter_map(|expr| match expr {
            Expr::Column(column) => Some(column),
            _ => None,
        })
        .collect();
    is_one_row(input)
        || keys(input).iter().any(|key| key.iter().all(|column| known.contains(column)))
}

fn stage_table(
    scan: &datafusion::logical_expr::TableScan,
) -> Option<std::sync::Arc<dyn datafusion::catalog::TableProvider>> {
    source_as_provider(&scan.source).ok()
}

/// The keys of a plan's rows, as far as they are known.
fn keys(plan: &LogicalPlan) -> Vec<Key> {
    let mut keys = match plan {
        LogicalPlan::TableScan(scan) => {
            let Some(provider) = stage_table(scan) else { return Vec::new() };
            let Some(table) = provider.downcast_ref::<StageTable>() else { return Vec::new() };
            let column = |name: &String| Column::new(Some(scan.table_name.clone()), name);
            table.keys().iter().map(|key| key.iter().map(column).collect()).collect()
        }
        LogicalPlan::SubqueryAlias(alias) => {
            let place = |column: &Column| alias.input.schema().maybe_index_of_column(column);
            renamed(&keys(&alias.input), &alias.schema, place)
        }
        LogicalPlan::Projection(Projection { expr, input, schema, .. }) => {
            let is_it = |expr: &Expr, column: &Column| match expr {
                Expr::Alias(alias) => matches!(alias.expr.as_ref(), Expr::Column(c) if c == column),
                other => matches!(other, Expr::Column(c) if c == column),
            };
            let place = |column: &Column| expr.iter().position(|expr| is_it(expr, column));
            renamed(&keys(input), schema, place)
        }
        LogicalPlan::Filter(filter) => {
            let fixed: Vec<&Column> =
                split_conjunction(&filter.predicate).into_iter().filter_map(fixed).collect();
            let mut all = keys(&filter.input);
            all.iter_mut().for_each(|key| key.retain(|column| !fixed.contains(&column)));
            all
        }
        LogicalPlan::Sort(sort) => keys(&sort.input),
        LogicalPlan::Limit(limit) => keys(&limit.input),
        LogicalPlan::Distinct(Distinct::All(input)) => {
            let mut all = keys(input);
            all.push(plan.schema().columns());
            all
        }
        LogicalPlan::Aggregate(aggregate)
            if !aggregate.group_expr.iter().any(|e| matches!(e, Expr::GroupingSet(_))) =>
        {
            // Fewer columns than groups where the text names one twice.
            let groups = aggregate.schema.fields().len() - aggregate.aggr_expr.len();
            vec![aggregate.schema.columns()[..groups].to_vec()]
        }
        LogicalPlan::Window(window) => {
            let mut all = keys(&window.input);
            let (columns, before) = (window.schema.columns(), window.input.schema().fields().len());
            for (expr, column) in window.window_expr.iter().zip(&columns[before..]) {
                if let Expr::WindowFunction(call) = bare(expr)
                    && call.fun.name() == "row_number"
                    && call.params.partition_by.is_empty()
                {
                    all.push(vec![column.clone()]);
                }
            }
            all
        }
        LogicalPlan::Join(join) => of_join(join),
        _ => Vec::new(),
    };
    keys.truncate(KEYS_MAX);
    keys
}

/// The column to which a condition gives one value.
fn fixed(condition: &Expr) -> Option<&Column> {
    match condition {
        Expr::BinaryExpr(equal) if equal.op == Operator::Eq => {
            match (&*equal.left, &*equal.right) {
                (Expr::Column(column), Expr::Literal(..))
                | (Expr::Literal(..), Expr::Column(column)) => Some(column),
                _ => None,
            }
        }
        _ => None,
    }
}

/// Keys under the names of `schema`, where each of their columns has a place.
fn renamed(keys: &[Key], schema: &DFSchema, place: impl Fn(&Column) -> Option<usize>) -> Vec<Key> {
    let all = schema.columns();
    let one = |key: &Key| -> Option<Key> {
        key.iter().map(|column| all.get(place(column)?).cloned()).collect()
    };
    keys.iter().filter_map(one).collect()
}

fn of_join(join: &Join) -> Vec<Key> {
    let (left, right) = (keys(&join.left), keys(&join.right));
    let mut equal: Vec<(&Expr, &Expr)> = join.on.iter().map(|(l, r)| (l, r)).collect();
    for condition in join.filter.iter().flat_map(split_conjunction) {
        if let Expr::BinaryExpr(binary) = condition
            && binary.op == Operator::Eq
        {
            equal.push((&binary.left, &binary.right));
            equal.push((&binary.right, &binary.left));
        }
    }
    // At most one row of a side for each of the other, if what is compared holds a key.
    let holds = |keys: &[Key], side: fn(&(&Expr, &Expr)) -> Expr| {
        let compared: Vec<Expr> = equal.iter().map(side).collect();
        let is_in = |column: &Column| compared.contains(&Expr::Column(column.clone()));
        keys.iter().any(|key| key.iter().all(is_in))
    };
    let one_left = holds(&left, |pair| pair.0.clone());
    let one_right = holds(&right, |pair| pair.1.clone());
    let mut all = Vec::new();
    match join.join_type {
        JoinType::Inner | JoinType::Left | JoinType::Right | JoinType::Full => {
            if one_right && matches!(join.join_type, JoinType::Inner | JoinType::Left) {
                all.extend(left.iter().cloned());
            }
            if one_left && matches!(join.join_type, JoinType::Inner | JoinType::Right) {
                all.extend(right.iter().cloned());
            }
            for key in &left {
                all.extend(right.iter().map(|other| [key.clone(), other.clone()].concat()));
            }
        }
        JoinType::LeftSemi | JoinType::LeftAnti | JoinType::LeftMark => all = left,
        JoinType::RightSemi | JoinType::RightAnti | JoinType::RightMark => all = right,
    }
    all
}
