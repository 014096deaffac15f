//! Every operation against a plain computation in f64, with the same bits on every instruction set
//! and in every batch.

mod attention;
mod cut;
mod given;
mod math;
mod normal;
mod products;
mod refusals;
mod sampling;
mod teams;
