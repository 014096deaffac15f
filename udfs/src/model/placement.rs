//! Where in a query model functions may stand, and which models a query asks.
//!
//! DataFusion evaluates asynchronous functions in one operator below a projection. Elsewhere it
//! fails while rows flow (GROUP BY, ORDER BY, joins, windows, lambdas) or mixes columns up (several
//! aggregates over different calls). So they may stand in the list after SELECT alone, and everything
//! else is refused with the clause it stands in.

use std::collections::BTreeSet;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchemaRef, Result};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::optimizer::simplify_expressions::ExprSimplifier;

use super::arguments;
use super::definition::ModelDefinition;
use super::error::{CallError, OptionsError};
use super::functions::DEFINITIONS;

/// Whether a function asks a model. Such a function is declared volatile, but its results are
/// recorded and replayed: a query that calls it may be cached.
pub fn asks_model(function: &str) -> bool {
    definition(function).is_some()
}

/// The names of the models that a plan calls, if it calls them where they can be called and with
/// options that make sense. The plan is the one that SQL became, before any rewriting.
pub fn models_called(plan: &LogicalPlan) -> Result<BTreeSet<String>> {
    let mut models = BTreeSet::new();
    plan.apply_with_subqueries(|node| {
        node.apply_expressions(|expr| {
            let place = Place { node, lambda: None };
            place.visit(expr, &mut models)?;
            Ok(TreeNodeRecursion::Continue)
        })
    })?;
    Ok(models)
}

/// Whether an expression is a call of a model function.
pub(super) fn is_model_call(expr: &Expr) -> bool {
    matches!(expr, Expr::ScalarFunction(call) if asks_model(call.name()))
}

fn definition(function: &str) -> Option<&'static ModelDefinition> {
    DEFINITIONS.iter().copied().find(|definition| definition.doc.name == function)
}

/// Where an expression stands.
#[derive(Clone, Copy)]
struct Place<'a> {
    node: &'a LogicalPlan,
    /// The function of a list around it, which cannot wait for a model.
    lambda: Option<&'a str>,
}

impl Place<'_> {
    fn visit(self, expr: &Expr, models: &mut BTreeSet<String>) -> Result<()> {
        if let Expr::ScalarFunction(call) = expr
            && let Some(definition) = definition(call.name())
        {
            self.check(call.name())?;
            check_options(definition, call, self.node)?;
            if let Some(Expr::Literal(name, _)) = call.args.first() {
                models.extend(name.try_as_str().flatten().map(str::to_owned));
            }
        }
        let lambda = match expr {
            Expr::HigherOrderFunction(call) => Some(call.func.name()),
            _ => self.lambda,
        };
        let place = Place { node: self.node, lambda };
        expr.apply_children(|child| {
            place.visit(child, models)?;
            Ok(TreeNodeRecursion::Continue)
        })?;
        Ok(())
    }

    fn check(self, function: &str) -> Result<()> {
        const INSTEAD: &str =
            "compute it in the SELECT list of a subquery, and use its column here";
        const UNNEST: &str = "unnest the list in a subquery, and ask for each of its rows";
        let (place, help) = match (clause(self.node), self.lambda) {
            (Some(clause), _) => (format!("in {clause}"), INSTEAD),
            (None, Some(around)) => (format!("inside `{around}`"), UNNEST),
            (None, None) => return Ok(()),
        };
        Err(CallError::Placement { function: function.to_owned(), place, help }.into())
    }
}

/// Checks options that are constant but not yet computed, like `{max_tokens: 5}`.
fn check_options(
    definition: &ModelDefinition,
    call: &ScalarFunction,
    node: &LogicalPlan,
) -> Result<()> {
    let Some(options) = call.args.get(definition.doc.arguments.len() - 1) else {
        return Ok(());
    };
    if matches!(options, Expr::Literal(..)) || !options.column_refs().is_empty() {
        return Ok(());
    }
    let schema: DFSchemaRef = node.schema().clone();
    let simplifier = ExprSimplifier::new(SimplifyContext::builder().with_schema(schema).build());
    // What does not fold is checked row by row.
    let Ok(Expr::Literal(value, _)) = simplifier.simplify(options.clone()) else {
        return Ok(());
    };
    let function = definition.doc.name;
    match arguments::options(definition.options, &value) {
        Err((_, error)) => Err(CallError::options(function, &error).into()),
        // The result was taken for one answer per row before the text was put together.
        Ok(options)
            if options.generate.is_counted()
                && !matches!(value.data_type(), DataType::Struct(_)) =>
        {
            Err(CallError::options(function, &OptionsError::Unforeseen).into())
        }
        Ok(_) => Ok(()),
    }
}

/// The clause that a node comes from; `None` for the list after SELECT.
fn clause(node: &LogicalPlan) -> Option<&'static str> {
    match node {
        LogicalPlan::Projection(_) => None,
        LogicalPlan::Filter(_) => Some("WHERE or HAVING"),
        LogicalPlan::Aggregate(_) => Some("GROUP BY or an aggregate"),
        LogicalPlan::Sort(_) => Some("ORDER BY"),
        LogicalPlan::Join(_) => Some("the condition of a join"),
        LogicalPlan::Window(_) => Some("a window function"),
        LogicalPlan::Distinct(_) => Some("DISTINCT ON"),
        LogicalPlan::Limit(_) => Some("LIMIT"),
        LogicalPlan::Values(_) => Some("VALUES"),
        _ => Some("a place other than the SELECT list"),
    }
}
