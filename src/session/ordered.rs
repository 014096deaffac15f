//! One order of rows for queries that run in one partition: the order of their inputs, whatever
//! pieces those are stored in.
//!
//! A union and a table of several parts have several partitions even where one is requested, and
//! DataFusion mixes them as they come. Here they are read one after the other. Rows of tables come
//! in batches of one size, and tables are known by their number of rows alone: what depends on
//! either (the last bits of a sum, the side of a join that is read first) would otherwise depend on
//! how a table was cut and on where it lies.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::compute::concat_batches;
use arrow::datatypes::SchemaRef;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, Statistics, internal_err};
use datafusion::datasource::memory::DataSourceExec;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::execution_plan::{CardinalityEffect, SchedulingType};
use datafusion::physical_plan::statistics::{ChildStats, StatisticsArgs};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, Partitioning,
    PlanProperties,
};
use futures::{Stream, StreamExt, TryStreamExt, stream};

/// Puts [`InOrderExec`] on every table, and on whatever has more than one partition. It is the first
/// rule, so that the others see one partition everywhere and sort or join what they need to.
#[derive(Debug)]
pub struct InOrder;

impl PhysicalOptimizerRule for InOrder {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let ordered = |node: Arc<dyn ExecutionPlan>| {
            let is_table = node.is::<DataSourceExec>();
            if !is_table && node.output_partitioning().partition_count() <= 1 {
                return Ok(Transformed::no(node));
            }
            Ok(Transformed::yes(Arc::new(InOrderExec::new(node, is_table)) as _))
        };
        plan.transform_up(ordered).data()
    }

    fn name(&self) -> &str {
        "in_order"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// The partitions of its input, one after the other.
#[derive(Debug)]
struct InOrderExec {
    input: Arc<dyn ExecutionPlan>,
    /// Whether batches are cut anew.
    is_table: bool,
    properties: Arc<PlanProperties>,
}

impl InOrderExec {
    fn new(input: Arc<dyn ExecutionPlan>, is_table: bool) -> Self {
        let mut equivalences = input.equivalence_properties().clone();
        if input.output_partitioning().partition_count() > 1 {
            equivalences.clear_orderings();
            equivalences.clear_per_partition_constants();
        }
        let properties = PlanProperties::new(
            equivalences,
            Partitioning::UnknownPartitioning(1),
            input.pipeline_behavior(),
            input.boundedness(),
        );
        let properties = properties.with_scheduling_type(SchedulingType::NonCooperative);
        Self { input, is_table, properties: Arc::new(properties) }
    }
}

impl DisplayAs for InOrderExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("InOrderExec")
    }
}

impl ExecutionPlan for InOrderExec {
    fn name(&self) -> &str {
        "InOrderExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![self.input.output_partitioning().partition_count() <= 1]
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
            (Some(input), true) => Ok(Arc::new(Self::new(input, self.is_table))),
            _ => internal_err!("InOrderExec has one input"),
        }
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        if partition != 0 {
            return internal_err!("InOrderExec has one partition, not {partition}");
        }
        let rows = context.session_config().batch_size();
        let input = Arc::clone(&self.input);
        let partitions = input.output_partitioning().partition_count();
        let all = match partitions {
            1 => input.execute(0, context)?,
            // A partition is opened when the one before it has ended.
            _ => {
                let each = move |i| input.execute(i, Arc::clone(&context));
                let all = stream::iter(0..partitions).map(each).try_flatten();
                Box::pin(RecordBatchStreamAdapter::new(self.schema(), all))
            }
        };
        if !self.is_table {
            return Ok(all);
        }
        let cut = in_batches_of(rows, self.schema(), all);
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), cut)))
    }

    fn child_stats_requests(&self, _: Option<usize>) -> Vec<ChildStats> {
        vec![ChildStats::At(None)]
    }

    fn statistics_from_inputs(
        &self,
        inputs: &[Arc<Statistics>],
        _: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        let [input] = inputs else { return internal_err!("InOrderExec has one input") };
        let unknown = Statistics::new_unknown(&self.schema());
        Ok(Arc::new(unknown.with_num_rows(input.num_rows)))
    }

    fn cardinality_effect(&self) -> CardinalityEffect {
        CardinalityEffect::Equal
    }
}

/// The same rows in batches of `rows`, the last one shorter. Only where batches end elsewhere is
/// anything copied.
fn in_batches_of(
    rows: usize,
    schema: SchemaRef,
    batches: SendableRecordBatchStream,
) -> impl Stream<Item = Result<RecordBatch>> + Send {
    let waiting = Waiting { batches: VecDeque::new(), rows: 0 };
    stream::try_unfold((batches, waiting, false), move |(mut batches, mut waiting, mut ended)| {
        let schema = Arc::clone(&schema);
        async move {
            while !ended && waiting.rows < rows {
                match batches.next().await {
                    Some(batch) => waiting.push(batch?),
                    None => ended = true,
                }
            }
            if waiting.rows == 0 {
                return Ok(None);
            }
            let batch = waiting.take(rows, &schema)?;
            Ok(Some((batch, (batches, waiting, ended))))
        }
    })
}

/// Batches that were read and not yet passed on.
struct Waiting {
    batches: VecDeque<RecordBatch>,
    rows: usize,
}

impl Waiting {
    fn push(&mut self, batch: RecordBatch) {
        if batch.num_rows() > 0 {
            self.rows += batch.num_rows();
            self.batches.push_back(batch);
        }
    }

    /// The first `rows` rows, or all that are there.
    fn take(&mut self, rows: usize, schema: &SchemaRef) -> Result<RecordBatch> {
        let (mut taken, mut missing) = (Vec::new(), rows.min(self.rows));
        self.rows -= missing;
        while missing > 0
            && let Some(batch) = self.batches.pop_front()
        {
            if batch.num_rows() > missing {
                self.batches.push_front(batch.slice(missing, batch.num_rows() - missing));
                taken.push(batch.slice(0, missing));
                break;
            }
            missing -= batch.num_rows();
            taken.push(batch);
        }
        match taken.as_slice() {
            [only] => Ok(only.clone()),
            several => Ok(concat_batches(schema, several)?),
        }
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{AsArray, Int64Array};
    use arrow::datatypes::{DataType, Field, Int64Type, Schema};
    use futures::executor::block_on;

    use super::*;

    #[test]
    fn batches_have_one_size_however_the_rows_come() {
        let schema = Arc::new(Schema::new(vec![Field::new("n", DataType::Int64, false)]));
        for sizes in [vec![10], vec![4, 6], vec![1, 0, 2, 7], vec![5, 5], vec![1; 10], vec![0]] {
            let mut next = 0..;
            let pieces: Vec<_> = sizes
                .iter()
                .map(|&size| {
                    let column = Int64Array::from_iter_values(next.by_ref().take(size));
                    Ok(RecordBatch::try_new(Arc::clone(&schema), vec![Arc::new(column)])?)
                })
                .collect();
            let input = RecordBatchStreamAdapter::new(Arc::clone(&schema), stream::iter(pieces));
            let cut = in_batches_of(4, Arc::clone(&schema), Box::pin(input));
            let cut: Vec<RecordBatch> = block_on(cut.try_collect()).unwrap();
            let values = cut.iter().map(|b| b.column(0).as_primitive::<Int64Type>().values());
            let values: Vec<&[i64]> = values.map(|values| &values[..]).collect();
            let all: Vec<i64> = (0..sizes.iter().sum::<usize>() as i64).collect();
            assert_eq!(values, all.chunks(4).collect::<Vec<_>>(), "{sizes:?}");
        }
    }
}
