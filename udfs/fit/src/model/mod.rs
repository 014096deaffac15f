//! Models: shapes and parameters by family, where a fit begins, and the folder that it writes.

pub mod bert;
pub mod fitted;
pub mod folder;
pub mod matching;
pub mod opt;
pub mod origin;
pub mod places;
pub mod scratch;
pub mod sentence;
pub mod start;
pub mod t5;
pub mod weights;
