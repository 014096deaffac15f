//! Settings of `select_answer`: judged hypotheses and proofs -> one answer a question.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::settings::StageRef;

/// Answers each question with the hypothesis whose best accepted proof scores highest, or, without `proofs`, with
/// the most believed one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SelectAnswer {
    /// Table of a `verify` stage over hypotheses: all of them, with their direct belief.
    pub from: StageRef,
    /// Table of a `verify` stage over proofs of these hypotheses, or of a `proof_search` stage.
    pub proofs: Option<StageRef>,
    /// Table of the answers that users confirmed: columns `question` and `answer`, one row for each question. Such
    /// a question gets this answer, regardless of its proofs.
    pub confirmed: Option<StageRef>,
    /// What happens to a question none of whose hypotheses has an accepted proof.
    #[serde(default)]
    pub without_proof: WithoutProof,
    /// Other columns of `from` that every row keeps; they are the question's, so the same for all of
    /// its hypotheses.
    #[serde(default)]
    pub keep: Vec<String>,
}

/// What happens to a question without an accepted proof; not published, `direct` here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum WithoutProof {
    /// The hypothesis that is believed most (status `fallback_direct`).
    #[default]
    Direct,
    /// No answer (status `no_proof`).
    None,
}
