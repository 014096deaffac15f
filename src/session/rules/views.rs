//! No column holds views. A slice of views counts the buffers of the whole, so a sort of two million texts, cut into
//! batches, would ask for their memory 244 times. DataFusion makes views of what it takes for a text (`md5`,
//! `upper(5)`); tables have none.

use std::cell::Cell;
use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field, Fields};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::expr::Cast;
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan};
use datafusion::optimizer::analyzer::AnalyzerRule;
use datafusion::optimizer::analyzer::type_coercion::TypeCoercion;

use crate::session::rules::node::{has_part, input_schema, keeping_names};

/// Casts to a text what an expression of a plan makes as a view, once all types are settled.
#[derive(Debug)]
pub struct Views;

impl AnalyzerRule for Views {
    fn analyze(&self, plan: LogicalPlan, options: &ConfigOptions) -> Result<LogicalPlan> {
        if !may_make_views(&plan)? {
            return Ok(plan);
        }
        let has_changed = Cell::new(false);
        let of_node = |node: LogicalPlan| {
            let schema = input_schema(&node);
            let node = keeping_names(node, |expr| {
                expr.transform_up(retyped)?.transform_data(|expr| flat(expr, &schema))
            })?;
            // A node whose inputs have changed has other types, too.
            has_changed.set(has_changed.get() || node.transformed);
            match has_changed.get() {
                true => node.map_data(|node| node.recompute_schema()),
                false => Ok(node),
            }
        };
        let plan = plan.transform_up_with_subqueries(of_node)?;
        match plan.transformed {
            true => TypeCoercion::new().analyze(plan.data, options),
            false => Ok(plan.data),
        }
    }

    fn name(&self) -> &str {
        "views"
    }
}

/// Whether there is anything in a plan that could make a view.
fn may_make_views(plan: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    plan.apply_with_subqueries(|node| {
        let fields = node.schema().fields();
        found |= fields.iter().any(|field| without_views(field.data_type()).is_some())
            || has_part(node, may_be_view)?;
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(found)
}

/// Whether a part of an expression could be a view where no column is.
fn may_be_view(part: &Expr) -> bool {
    !matches!(
        part,
        Expr::Column(_) | Expr::Literal(..) | Expr::Alias(_) | Expr::BinaryExpr(_) | Expr::Not(_)
    )
}

/// A column of an outer query, which has changed there.
fn retyped(expr: Expr) -> Result<Transformed<Expr>> {
    Ok(match expr {
        Expr::OuterReferenceColumn(field, column) => match without_views(field.data_type()) {
            Some(flat) => {
                let field = field.as_ref().clone().with_data_type(flat);
                Transformed::yes(Expr::OuterReferenceColumn(Arc::new(field), column))
            }
            None => Transformed::no(Expr::OuterReferenceColumn(field, column)),
        },
        other => Transformed::no(other),
    })
}

fn flat(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    match expr {
        // They have to stand where they stand; what they keep of each row is what they are given.
        Expr::Alias(_)
        | Expr::AggregateFunction(_)
        | Expr::WindowFunction(_)
        | Expr::GroupingSet(_) => expr.map_children(|expr| flat(expr, schema)),
        other => {
            let flat = other.get_type(schema).ok().and_then(|kind| without_views(&kind));
            Ok(match flat {
                Some(flat) => Transformed::yes(Expr::Cast(Cast::new(Box::new(other), flat))),
                None => Transformed::no(other),
            })
        }
    }
}

/// The same type without views; `None` if it has none.
fn without_views(kind: &DataType) -> Option<DataType> {
    let of_field = |field: &Field| {
        without_views(field.data_type()).map(|kind| Arc::new(field.clone().with_data_type(kind)))
    };
    match kind {
        DataType::Utf8View => Some(DataType::Utf8),
        DataType::BinaryView => Some(DataType::Binary),
        DataType::List(item) => of_field(item).map(DataType::List),
        DataType::LargeList(item) => of_field(item).map(DataType::LargeList),
        DataType::FixedSizeList(item, length) => {
            of_field(item).map(|item| DataType::FixedSizeList(item, *length))
        }
        DataType::Struct(fields) => {
            let flat: Vec<_> = fields.iter().map(|field| of_field(field)).collect();
            let has_views = flat.iter().any(Option::is_some);
            let all = flat.into_iter().zip(fields.iter());
            let all = || all.map(|(flat, field)| flat.unwrap_or_else(|| Arc::clone(field)));
            has_views.then(|| DataType::Struct(all().collect::<Fields>()))
        }
        _ => None,
    }
}
