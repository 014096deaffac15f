//! What an operator knows of the rows below it. DataFusion keeps things that do not hold any
//! longer: a column that is constant on one side of an outer join, which is NULL for rows without a
//! partner; columns that are equal below `ROLLUP`, of which some rows have only one; expressions
//! that a filter found equal. A fence passes rows on and forgets all of it, and with it the order:
//! a sort that is requested above would be moved below, where its keys seem to be constant.

use std::fmt;
use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{JoinType, Result, Statistics, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{BinaryExpr, Column, Literal};
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr::{Distribution, OrderingRequirements};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr, split_conjunction};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::output_requirements::OutputRequirementExec;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::execution_plan::CardinalityEffect;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::{HashJoinExec, NestedLoopJoinExec, SortMergeJoinExec};
use datafusion::physical_plan::limit::{GlobalLimitExec, LocalLimitExec};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::statistics::{ChildStats, StatisticsArgs};
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties,
    replace_children_if_necessary,
};

/// Keeps the sorts below limits, and puts a [`FenceExec`] above every outer join and equation of expressions, and below every `ROLLUP`. It is the first rule, before any looks at orders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fences {
    /// Where what is kept does not hold.
    Needed,
    /// Above every join and filter too, and where values are written out: nothing counts as constant anywhere.
    Everywhere,
}

impl Fences {
    /// What the rule is called.
    pub const NAME: &str = "fences";

    fn stands_above(self, node: &Arc<dyn ExecutionPlan>) -> bool {
        let everywhere = || joined(node).is_some() || node.is::<FilterExec>() || writes_out(node);
        fills_with_null(node)
            || equates_expressions(node)
            || self == Self::Everywhere && everywhere()
    }
}

impl PhysicalOptimizerRule for Fences {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let fenced = |node: Arc<dyn ExecutionPlan>| {
            if self.stands_above(&node) {
                return Ok(Transformed::yes(Arc::new(FenceExec::new(node)) as _));
            }
            if node.is::<GlobalLimitExec>() || node.is::<LocalLimitExec>() {
                let limit = node.map_children(sorted)?;
                // A sort that is requested above must not take the place of that below.
                return match limit.transformed {
                    true => Ok(Transformed::yes(Arc::new(FenceExec::new(limit.data)) as _)),
                    false => Ok(limit),
                };
            }
            let has_sets = node
                .downcast_ref::<AggregateExec>()
                .is_some_and(|aggregate| !aggregate.group_expr().is_single());
            if has_sets {
                let fence = |child: &Arc<dyn ExecutionPlan>| {
                    Arc::new(FenceExec::new(Arc::clone(child))) as Arc<dyn ExecutionPlan>
                };
                let children = node.children().into_iter().map(fence).collect();
                let node = replace_children_if_necessary(node, children)?;
                // Of a key that is a value, some rows have NULL.
                return Ok(Transformed::yes(match groups_by_value(&node) {
                    true => Arc::new(FenceExec::new(node)),
                    false => node,
                }));
            }
            Ok(Transformed::no(node))
        };
        plan.transform_up(fenced).data()
    }

    fn name(&self) -> &str {
        Self::NAME
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// What a limit reads, with its sort: one whose keys do not reach the limit counts as useless, and `OFFSET` would skip any rows.
fn sorted(node: Arc<dyn ExecutionPlan>) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
    if let Some(sort) = node.downcast_ref::<SortExec>() {
        if sort.fetch().is_some() {
            return Ok(Transformed::no(node));
        }
        let order = OrderingRequirements::from(sort.expr().clone());
        let kept = OutputRequirementExec::new(
            Arc::clone(&node),
            Some(order),
            Distribution::SinglePartition,
            None,
        );
        return Ok(Transformed::yes(Arc::new(kept)));
    }
    match node.is::<ProjectionExec>() || node.is::<FenceExec>() {
        true => node.map_children(sorted),
        false => Ok(Transformed::no(node)),
    }
}

/// Whether a key of groups is the same for all rows.
fn groups_by_value(node: &Arc<dyn ExecutionPlan>) -> bool {
    let keys = node.downcast_ref::<AggregateExec>().map(|it| it.group_expr().expr());
    keys.is_some_and(|keys| keys.iter().any(|(key, _)| collect_columns(key).is_empty()))
}

/// The kind of a join, if it is one.
fn joined(node: &Arc<dyn ExecutionPlan>) -> Option<JoinType> {
    node.downcast_ref::<HashJoinExec>()
        .map(|join| *join.join_type())
        .or_else(|| node.downcast_ref::<NestedLoopJoinExec>().map(|join| *join.join_type()))
        .or_else(|| node.downcast_ref::<SortMergeJoinExec>().map(|join| join.join_type()))
}

fn fills_with_null(node: &Arc<dyn ExecutionPlan>) -> bool {
    matches!(joined(node), Some(JoinType::Left | JoinType::Right | JoinType::Full))
}

/// Whether a column is a value that is written out. Above a sort that is the order of the result, which a fence would hide.
fn writes_out(node: &Arc<dyn ExecutionPlan>) -> bool {
    let Some(projection) = node.downcast_ref::<ProjectionExec>() else { return false };
    let mut below = projection.input();
    while let Some(inner) = below.downcast_ref::<ProjectionExec>() {
        below = inner.input();
    }
    !below.is::<SortExec>() && projection.expr().iter().any(|it| it.expr.is::<Literal>())
}

/// Whether a filter or a join finds equal what is no column or value: `s = coalesce(s, 'q')` is taken for two names of one
/// thing, and a window over `s` then finds its rows not sorted.
fn equates_expressions(node: &Arc<dyn ExecutionPlan>) -> bool {
    let plain = |expr: &Arc<dyn PhysicalExpr>| expr.is::<Column>() || expr.is::<Literal>();
    if let Some(filter) = node.downcast_ref::<FilterExec>() {
        return split_conjunction(filter.predicate()).into_iter().any(|condition| {
            condition.downcast_ref::<BinaryExpr>().is_some_and(|binary| {
                *binary.op() == Operator::Eq && !(plain(binary.left()) && plain(binary.right()))
            })
        });
    }
    let on = node.downcast_ref::<HashJoinExec>().map(HashJoinExec::on);
    on.is_some_and(|on| on.iter().any(|(left, right)| !(plain(left) && plain(right))))
}

/// The rows of its input, of which nothing is known.
#[derive(Debug)]
struct FenceExec {
    input: Arc<dyn ExecutionPlan>,
    properties: Arc<PlanProperties>,
}

impl FenceExec {
    fn new(input: Arc<dyn ExecutionPlan>) -> Self {
        let properties = PlanProperties::new(
            EquivalenceProperties::new(input.schema()),
            input.output_partitioning().clone(),
            input.pipeline_behavior(),
            input.boundedness(),
        );
        Self { input, properties: Arc::new(properties) }
    }
}

impl DisplayAs for FenceExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FenceExec")
    }
}

impl ExecutionPlan for FenceExec {
    fn name(&self) -> &str {
        "FenceExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![false]
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        match (children.pop(), children.is_empty()) {
            (Some(input), true) => Ok(Arc::new(Self::new(input))),
            _ => internal_err!("FenceExec has one input"),
        }
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        self.input.execute(partition, context)
    }

    fn child_stats_requests(&self, partition: Option<usize>) -> Vec<ChildStats> {
        vec![ChildStats::At(partition)]
    }

    fn statistics_from_inputs(
        &self,
        inputs: &[Arc<Statistics>],
        _: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        let [input] = inputs else { return internal_err!("FenceExec has one input") };
        let unknown = Statistics::new_unknown(&self.schema());
        Ok(Arc::new(unknown.with_num_rows(input.num_rows)))
    }

    fn cardinality_effect(&self) -> CardinalityEffect {
        CardinalityEffect::Equal
    }
}
