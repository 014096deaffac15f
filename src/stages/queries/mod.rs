//! Plans that are queries: run into the store, with or without rows that can fail, once or again and again.

pub mod answers;
pub mod kept_order;
pub mod prepared_query;
pub mod query;
pub mod second_plan;
pub mod sql_kind;
