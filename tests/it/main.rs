//! The one integration test binary: the program as its users meet it.

mod pipelines;
mod reference;
mod tidy;
