//! The pipelines of the tree, and the numbers of their pages.

mod augmenter;
mod gud_ir;
mod parameters;
mod pgra;
mod pipelines;
mod studies;
