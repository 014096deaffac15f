//! Rules of ours in plans, where DataFusion's answer is not SQL's. What each puts right, and what upstream knows of it,
//! stands in [ADR 0033](../../../docs/decisions/0033-sql.md).

mod bags;
mod computed_keys;
mod exact;
mod fences;
mod frames;
mod guards;
mod in_lists;
mod keys;
mod memberships;
mod mirrored;
mod mixed_types;
mod node;
mod planning;
mod repeated_keys;
mod subqueries;
mod views;
mod zeros;

pub use computed_keys::COMPUTED;
pub use exact::RowsInErrors;
pub use fences::Fences;
pub use keys::{Keyless, forget_keys};
pub use node::{has_part, new_names};
pub use planning::{Planning, SQL_VERSION, analyzer_rules, optimizer_rules, physical_rules};
pub use zeros::without_zero;
