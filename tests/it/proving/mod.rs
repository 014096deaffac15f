//! Hypotheses, proofs, lessons and searches.

mod contradicted;
mod forced;
mod prompted_prover;
mod proofs;
mod searching;
mod teach_cli;
mod teaching;
