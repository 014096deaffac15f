//! Where an answer comes from: every row of a run that has a part in it, put together.

pub mod assemble;
pub mod chain;
pub mod find;
pub mod inquiry;
pub mod item;
pub mod origin;
pub mod read;
pub mod row;
pub mod source;
pub mod trace;
