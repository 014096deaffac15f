//! Rules of ours in plans, where DataFusion's answer is not SQL's. What each puts right, and what upstream knows of it,
//! stands in [ADR 0033](../../../docs/decisions/0033-sql.md).

mod bags;
mod exact;
mod fences;
mod keys;
mod memberships;
mod refused;
mod subqueries;

use std::sync::Arc;

use datafusion::optimizer::analyzer::AnalyzerRule;
use datafusion::optimizer::{Analyzer, Optimizer, OptimizerRule};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::optimizer::PhysicalOptimizer;

pub use fences::Fences;
pub use keys::{Keyless, forget_keys};
pub use refused::Refused;

/// Version of what SQL means here: raised whenever the same query over the same rows would give another table.
pub const SQL_VERSION: u32 = 2;

/// Rules of DataFusion that are left out: they follow columns of a plan by name alone, and two may have one.
const LEFT_OUT: [&str; 3] = ["FilterPushdown", "FilterPushdown(Post)", "LimitAggregation"];

/// From the plan that was written to one with all types settled.
pub fn analyzer_rules() -> Vec<Arc<dyn AnalyzerRule + Send + Sync>> {
    // First what is written out, so that it gets its types as if it had been written.
    let mut rules: Vec<Arc<dyn AnalyzerRule + Send + Sync>> =
        vec![Arc::new(bags::Bags), Arc::new(subqueries::Subqueries)];
    rules.extend(Analyzer::new().rules);
    rules.push(Arc::new(exact::Exact));
    rules
}

/// From that plan to one that takes less time.
pub fn optimizer_rules() -> Vec<Arc<dyn OptimizerRule + Send + Sync>> {
    let mut rules: Vec<Arc<dyn OptimizerRule + Send + Sync>> = Vec::new();
    for rule in Optimizer::new().rules {
        if keys::RELY_ON_KEYS.contains(&rule.name()) {
            rules.push(Arc::new(keys::ForgetKeys));
        }
        rules.push(rule);
    }
    rules
}

/// From operators to those that run.
pub fn physical_rules() -> Vec<Arc<dyn PhysicalOptimizerRule + Send + Sync>> {
    let mut rules = PhysicalOptimizer::new().rules;
    rules.retain(|rule| !LEFT_OUT.contains(&rule.name()));
    rules.insert(0, Arc::new(Fences));
    rules
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rules_that_are_named_are_there() {
        let optimizer = Optimizer::new().rules;
        for name in keys::RELY_ON_KEYS {
            assert!(optimizer.iter().any(|rule| rule.name() == name), "{name}");
        }
        let physical = PhysicalOptimizer::new().rules;
        for name in LEFT_OUT {
            assert!(physical.iter().any(|rule| rule.name() == name), "{name}");
        }
    }
}
