//! The one integration test binary: the program as its users meet it.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "a test waits for real processes and fails where it cannot go on"
)]

mod audit;
mod audit_items;
mod augmenter;
mod benches;
mod broken;
mod budget;
mod cache;
mod chats;
mod checks;
mod circles;
mod command;
mod comparing;
mod contradicted;
mod cosmetics;
mod dense;
mod dependencies;
mod devices;
mod endpoint;
mod entailer;
mod estimates;
mod exports;
mod fitting;
mod forced;
mod forgetting;
mod functions;
mod fuzz;
mod goldens;
mod gud_ir;
mod guides;
mod hostile;
mod identity;
mod input;
mod known_sql;
mod limits;
mod lives;
mod local_features;
mod location;
mod logs;
mod memory;
mod model_cache;
mod models;
mod named;
mod neighbours;
mod opened;
mod oracle;
mod order;
mod output;
mod parameters;
mod pgra;
mod pipelines;
mod projects;
mod prompted_prover;
mod prompts;
mod proofs;
mod proofs_cache;
mod reading;
mod reference;
mod repeat;
mod replaced;
mod report;
mod resume;
mod rounded;
mod rows;
mod runs;
mod scripts;
mod searching;
mod secrets;
mod server;
mod settings;
mod statistics;
mod store_faults;
mod studies;
mod support;
mod teach_cli;
mod teaching;
mod tidy;
mod variables;
mod volatile;
mod which_run;
