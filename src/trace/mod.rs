//! Where an answer comes from: every row of a run that has a part in it, put together. `inquiry` finds the question,
//! `chain` the tables, `assemble` the answer; `document` is what is shown.

pub mod assemble;
pub mod chain;
pub mod document;
pub mod find;
pub mod inquiry;
pub mod item;
pub mod origin;
pub mod read;
mod roles;
pub mod row;
pub mod source;
