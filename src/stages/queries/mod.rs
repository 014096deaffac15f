//! Plans that are queries: run into the store, with or without rows that can fail, once or again and again.

pub mod answers;
pub mod lowered;
pub mod query;
pub mod repeated;
