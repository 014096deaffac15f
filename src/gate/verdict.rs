//! A verdict with its evidence: one object, which anybody derives again.

use proofmill_base::digest::Digest;
use proofmill_base::error::{Error, ErrorKind, Result};
use proofmill_pipeline::gate::Gate;
use proofmill_store::{SourceRef, SourceRole};
use serde::{Deserialize, Serialize};

use crate::gate::evidence::Evidence;
use crate::gate::judge::{GateJudgement, judge};

/// The version of verdicts that this program writes and the newest that it reads.
pub const VERDICT_VERSION: u32 = 1;
/// By how much a number may differ that was derived again, relative to itself: libraries of other machines round otherwise.
const TOLERANCE: f64 = 1e-6;

/// The version of a verdict, whatever else it has.
#[derive(Deserialize)]
struct Version {
    v: u32,
}

/// A verdict with its evidence.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GateVerdict {
    pub v: u32,
    /// The gate as it was then.
    pub gate: Gate,
    pub evidence: Evidence,
    pub judgement: GateJudgement,
}

impl GateVerdict {
    /// Judges.
    ///
    /// # Errors
    ///
    /// If the evidence contradicts itself.
    pub fn of(gate: Gate, evidence: Evidence) -> Result<Self> {
        let refused = |why: String| {
            Error::new(ErrorKind::Usage, format!("the evidence contradicts itself: {why}"))
        };
        if let Some(why) = evidence.contradiction() {
            return Err(refused(why));
        }
        let judgement = judge(&gate, &evidence).map_err(|error| refused(error.to_string()))?;
        Ok(Self { v: VERDICT_VERSION, gate, evidence, judgement })
    }

    /// The bytes that are stored.
    ///
    /// # Errors
    ///
    /// If a number is not finite.
    pub fn bytes(&self) -> Result<Vec<u8>> {
        let mut bytes = serde_json::to_vec_pretty(self).map_err(|error| {
            Error::new(ErrorKind::Internal, format!("a verdict cannot be written: {error}"))
        })?;
        bytes.push(b'\n');
        Ok(bytes)
    }

    /// Reads the bytes of a verdict, and derives it again from its evidence.
    ///
    /// # Errors
    ///
    /// If they are none of this version, or its evidence does not entail it.
    pub fn checked(bytes: &[u8]) -> Result<Self> {
        let refused = |message: String| Error::new(ErrorKind::Usage, message);
        let wrong = |error: serde_json::Error| refused(format!("this is no verdict: {error}"));
        // A newer version may have more in it.
        let Version { v } = serde_json::from_slice(bytes).map_err(wrong)?;
        if v != VERDICT_VERSION {
            let message =
                format!("the verdict has version {v}, and this program reads {VERDICT_VERSION}");
            return Err(refused(message));
        }
        let read: Self = serde_json::from_slice(bytes).map_err(wrong)?;
        if let Some(why) = read.gate.fault() {
            return Err(refused(format!("the gate of the verdict is none: {why}")));
        }
        if read.evidence.metrics.len() != read.gate.metrics.len() {
            let message =
                "the verdict has evidence of other metrics than its gate names".to_owned();
            return Err(refused(message));
        }
        let derived = Self::of(read.gate.clone(), read.evidence.clone())?;
        let json = |judgement: &GateJudgement| {
            serde_json::to_value(judgement)
                .map_err(|error| refused(format!("this is no verdict: {error}")))
        };
        match differing("judgement", &json(&read.judgement)?, &json(&derived.judgement)?) {
            None => Ok(read),
            Some(difference) => {
                let message = format!("its evidence does not entail the verdict: {difference}");
                Err(refused(message).with_hint("one of the two was changed after the gate judged"))
            }
        }
    }
}

/// The first place in which a judgement is not the one that follows.
fn differing(path: &str, said: &serde_json::Value, derived: &serde_json::Value) -> Option<String> {
    use serde_json::Value;
    match (said, derived) {
        (Value::Number(a), Value::Number(b)) => {
            let (a, b) = (a.as_f64()?, b.as_f64()?);
            let is_close = (a - b).abs() <= TOLERANCE * b.abs().max(TOLERANCE);
            (!is_close).then(|| format!("`{path}` is {a}, and {b} follows"))
        }
        (Value::Object(a), Value::Object(b)) => {
            let names = a.keys().chain(b.keys().filter(|name| !a.contains_key(*name)));
            names.into_iter().find_map(|name| {
                let of = |object: &serde_json::Map<String, Value>| {
                    object.get(name).cloned().unwrap_or_default()
                };
                differing(&format!("{path}.{name}"), &of(a), &of(b))
            })
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            let mut pairs = a.iter().zip(b).enumerate();
            pairs.find_map(|(at, (a, b))| differing(&format!("{path}[{at}]"), a, b))
        }
        (a, b) => (a != b).then(|| format!("`{path}` is {a}, and {b} follows")),
    }
}

/// A verdict as the audit log names it.
pub fn named(bytes: &[u8]) -> SourceRef {
    SourceRef {
        role: SourceRole::Verdict,
        sha256: Digest::of(bytes),
        bytes: bytes.len() as u64,
        stored: true,
    }
}
