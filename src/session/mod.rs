//! The one place that knows how queries are planned and run: functions, limits, tables, policy.

mod bounded;
mod correlated;
mod documentation;
pub mod engine;
pub mod execute;
mod large_limits;
pub mod order;
mod ordered;
pub mod planner;
pub mod policy;
pub mod registry;
mod replanned;
mod resources;
mod rules;
mod runnable;
pub mod spill;
pub mod table;
mod wording;

pub use documentation::engine_functions;
pub use engine::Engine;
pub use planner::{PlanError, Planned, PlannedExpression, expression, planned_expression, query};
pub use resources::{Limits, Resources};
pub use rules::{SQL_VERSION, new_names};
pub use table::{Content, StageTable, Stored};
