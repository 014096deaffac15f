//! One model function a file; what several of them share lies in `generation` and `vector`.

pub(super) mod embed;
pub(super) mod fuse;
pub(super) mod generate;
mod generation;
pub(super) mod hidden;
pub(super) mod score;
pub(super) mod score_choices;
mod shared;
mod vector;
