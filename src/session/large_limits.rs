//! `ORDER BY … LIMIT n` with a large n is a sort of which the rest is left out: a sort can spill. DataFusion's heap of
//! the first n rows cannot, and counts a batch that shares its buffers with others as if it were alone with them.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::limit::{GlobalLimitExec, LocalLimitExec};
use datafusion::physical_plan::sorts::sort::SortExec;

/// Batches of rows that a heap may hold.
const HEAP_BATCHES_MAX: usize = 8;

/// Takes large limits out of sorts. It is the last rule, as others put them there.
#[derive(Debug)]
pub struct LargeLimits;

impl PhysicalOptimizerRule for LargeLimits {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        options: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let most = HEAP_BATCHES_MAX * options.execution.batch_size.get();
        let apart = |node: Arc<dyn ExecutionPlan>| {
            let found =
                node.downcast_ref::<SortExec>().and_then(|sort| Some((sort, sort.fetch()?)));
            let Some((sort, rows)) = found.filter(|(_, rows)| *rows > most) else {
                return Ok(Transformed::no(node));
            };
            let all = Arc::new(sort.with_fetch(None));
            Ok(Transformed::yes(match sort.preserve_partitioning() {
                true => Arc::new(LocalLimitExec::new(all, rows)) as _,
                false => Arc::new(GlobalLimitExec::new(all, 0, Some(rows))) as _,
            }))
        };
        plan.transform_up(apart).data()
    }

    fn name(&self) -> &str {
        "large_limits"
    }

    fn schema_check(&self) -> bool {
        true
    }
}
