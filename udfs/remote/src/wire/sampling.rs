//! The fields that choose tokens; the same for both interfaces.

use serde::Serialize;

/// How tokens are chosen. Fields that are None are not sent.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Sampling {
    /// 0 is greedy.
    pub temperature: f32,
    /// Only with a temperature above 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub top_p: Option<f32>,
    /// Only where offered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub top_k: Option<u32>,
    /// Only with a temperature above 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// Only if there is more than one answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub n: Option<u32>,
}
