//! The rules that plans are made by, DataFusion's and ours, in the order in which they run.

use std::sync::Arc;

use datafusion::optimizer::analyzer::AnalyzerRule;
use datafusion::optimizer::{Analyzer, Optimizer, OptimizerRule};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::optimizer::PhysicalOptimizer;

use crate::session::rules::fences::Fences;
use crate::session::rules::{
    bags, computed_keys, exact, frames, guards, in_lists, keys, mirrored, mixed_types,
    repeated_keys, subqueries, views, zeros,
};

/// Version of what SQL means here: raised whenever the same query over the same rows would give another table.
pub const SQL_VERSION: u32 = 7;

/// Rules of DataFusion that are left out: three follow columns of a plan by name alone, and two may have one; the last answers by
/// statistics that call a constant NULL a value.
const LEFT_OUT: [&str; 4] =
    ["FilterPushdown", "FilterPushdown(Post)", "LimitAggregation", "aggregate_statistics"];

/// The rule of DataFusion in which filters meet.
const MEETING: &str = "push_down_filter";

/// A rule of DataFusion that runs once instead of twice: the second time it takes columns of a filter that has been given a projection by the
/// places that they had before.
const ONCE: &str = "ProjectionPushdown";

/// The logical rules of a plain plan: functions that are only defined by what they are simplified to, subqueries as
/// joins, and joins by what they compare.
const PLAIN: [&str; 7] = [
    "simplify_expressions",
    "replace_distinct_aggregate",
    "decorrelate_predicate_subquery",
    "scalar_subquery_to_join",
    "decorrelate_lateral_join",
    "extract_equijoin_predicate",
    "eliminate_cross_join",
];

/// Its physical rules: the kind of each join, and the sorts that operators need.
const PLAIN_PHYSICAL: [&str; 4] =
    ["OutputRequirements", "join_selection", "EnsureRequirements", "SanityCheckPlan"];

/// From the plan that was written to one with all types settled.
pub fn analyzer_rules() -> Vec<Arc<dyn AnalyzerRule + Send + Sync>> {
    // First what is written out, so that it gets its types as if it had been written.
    let mut rules: Vec<Arc<dyn AnalyzerRule + Send + Sync>> = vec![
        Arc::new(bags::Bags),
        Arc::new(subqueries::Subqueries),
        Arc::new(frames::FrameOffsets),
        Arc::new(mixed_types::MixedTypes),
    ];
    rules.extend(Analyzer::new().rules);
    rules.push(Arc::new(views::Views));
    rules.push(Arc::new(exact::Exact));
    rules.push(Arc::new(guards::Guards));
    rules.push(Arc::new(frames::SlidingFrames));
    rules.push(Arc::new(zeros::Zeros));
    rules.push(Arc::new(computed_keys::ComputedKeys));
    rules
}

/// Which of DataFusion's rules a plan is made by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Planning {
    /// All that are right.
    Usual,
    /// Those without which a query does not run, or not in a day.
    Plain,
}

/// From that plan to one that takes less time.
pub fn optimizer_rules(planning: Planning) -> Vec<Arc<dyn OptimizerRule + Send + Sync>> {
    let mut rules: Vec<Arc<dyn OptimizerRule + Send + Sync>> = Vec::new();
    for rule in Optimizer::new().rules {
        if planning == Planning::Plain && !PLAIN.contains(&rule.name()) {
            continue;
        }
        if keys::RELY_ON_KEYS.contains(&rule.name()) {
            rules.push(Arc::new(keys::ForgetKeys));
        }
        if rule.name() == MEETING {
            rules.push(Arc::new(mirrored::MIRRORED));
        }
        rules.push(rule);
    }
    rules.push(Arc::new(in_lists::IN_LISTS));
    rules.push(Arc::new(repeated_keys::REPEATED_KEYS));
    rules
}

/// From operators to those that run.
pub fn physical_rules(planning: Planning) -> Vec<Arc<dyn PhysicalOptimizerRule + Send + Sync>> {
    let mut rules = PhysicalOptimizer::new().rules;
    rules.retain(|rule| match planning {
        Planning::Usual => !LEFT_OUT.contains(&rule.name()),
        Planning::Plain => PLAIN_PHYSICAL.contains(&rule.name()),
    });
    let mut is_first = true;
    rules.retain(|rule| rule.name() != ONCE || std::mem::replace(&mut is_first, false));
    rules.insert(0, Arc::new(Fences::Needed));
    rules
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rules_that_are_named_are_there() {
        let optimizer = Optimizer::new().rules;
        for name in keys::RELY_ON_KEYS.into_iter().chain(PLAIN).chain([MEETING]) {
            assert!(optimizer.iter().any(|rule| rule.name() == name), "{name}");
        }
        let physical = PhysicalOptimizer::new().rules;
        for name in LEFT_OUT.into_iter().chain(PLAIN_PHYSICAL) {
            assert!(physical.iter().any(|rule| rule.name() == name), "{name}");
        }
        let times = |rules: &[Arc<dyn PhysicalOptimizerRule + Send + Sync>]| {
            rules.iter().filter(|rule| rule.name() == ONCE).count()
        };
        assert_eq!((times(&physical), times(&physical_rules(Planning::Usual))), (2, 1));
    }
}
