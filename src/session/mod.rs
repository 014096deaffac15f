//! The one place that knows how queries are planned and run: functions, limits, tables, policy.

mod bounded;
mod correlated;
pub mod engine;
mod large_limits;
pub mod order;
mod ordered;
pub mod overflow;
pub mod planner;
pub mod policy;
pub mod registry;
mod replanned;
mod rules;
mod runnable;
pub mod spill;
pub mod table;
mod wording;

pub use engine::{Engine, Limits};
pub use planner::{PlanError, Planned, PlannedExpression, expression, planned_expression, query};
pub use rules::{SQL_VERSION, new_names};
pub use table::{Content, StageTable, Stored};
