//! What users write beside the stages of a pipeline, in one type for the file, for SQL and for what follows it: options of
//! generations, scores, vectors and hidden states. No logic but what values go together.

pub mod endpoint;
pub mod fit;
pub mod options;
pub mod search;
