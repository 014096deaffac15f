//! One execution of a pipeline: what must run and why, who runs when, what is recorded.

pub mod attempt;
pub mod bind;
pub mod context;
pub mod dispatcher;
pub mod estimate;
pub mod freshness;
pub mod notice;
pub mod past_tables;
pub mod permanent_failures;
pub mod plan;
pub mod planned;
pub mod provenance;
pub mod publish;
pub mod pulse;
pub mod reason;
pub mod recorded;
pub mod replay;
pub mod reports;
pub mod resume;
pub mod selection;
pub mod sources;
pub mod stored;
pub mod testing;
