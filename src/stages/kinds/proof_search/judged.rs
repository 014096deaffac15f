//! The proofs that were judged, level after level, by the number of their request.

use std::collections::HashMap;

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::compute::concat_batches;
use arrow::datatypes::Float64Type;

use crate::stages::error::StageError;
use crate::stages::tables::columns::{flags, lists, numbers, texts};

/// All proofs so far.
#[derive(Default)]
pub struct Judged {
    levels: Vec<RecordBatch>,
    rows: usize,
    by_number: HashMap<usize, Vec<Judgement>>,
}

/// A proof and what is believed of it.
#[derive(Clone, Debug)]
pub struct Judgement {
    /// Its row among those of all levels.
    pub row: usize,
    /// What names it beside its claim: `/free0`, `/fact1`.
    pub attempt: String,
    /// Whether no threshold and no user rejected it.
    pub accepted: bool,
    /// The belief in what it proves.
    pub direct: f64,
    /// Whether the premises entail it; 0 if there are none.
    pub entailment: f64,
    /// s_1: the entailment times all beliefs; 0 if there are no premises.
    pub score: f64,
    /// The premises with the beliefs in them.
    pub premises: Vec<(String, f64)>,
}

impl Judged {
    /// Adds the proofs of a level: rows of `verify` whose hypotheses are numbers.
    ///
    /// # Errors
    ///
    /// If the rows have other columns.
    pub fn note(&mut self, level: &RecordBatch) -> Result<(), StageError> {
        let (ids, numbers_of) = (texts(level, "proof_id")?, texts(level, "hypothesis_id")?);
        let (scores, entailments) = (numbers(level, "score")?, numbers(level, "entailment")?);
        let (directs, accepted) = (numbers(level, "direct")?, flags(level, "accepted")?);
        let premises = lists(level, "premises")?;
        let mut touched = Vec::new();
        for row in 0..level.num_rows() {
            let number = numbers_of.value(row);
            let Ok(request) = number.parse() else {
                return Err(StageError::Task(format!("no claim has the number `{number}`")));
            };
            let known = |values: &arrow::array::Float64Array| {
                if values.is_valid(row) { values.value(row) } else { 0.0 }
            };
            touched.push(request);
            self.by_number.entry(request).or_default().push(Judgement {
                row: self.rows + row,
                attempt: ids.value(row).get(number.len()..).unwrap_or_default().to_owned(),
                accepted: accepted.value(row),
                direct: directs.value(row),
                entailment: known(&entailments),
                score: known(&scores),
                premises: if premises.is_valid(row) {
                    of_list(premises.value(row).as_ref())
                } else {
                    Vec::new()
                },
            });
        }
        for number in touched {
            if let Some(proofs) = self.by_number.get_mut(&number) {
                proofs.sort_by(|a, b| a.attempt.cmp(&b.attempt));
            }
        }
        self.rows += level.num_rows();
        self.levels.push(level.clone());
        Ok(())
    }

    /// The proofs of a request, in the order of their names.
    pub fn proofs(&self, request: usize) -> &[Judgement] {
        self.by_number.get(&request).map_or(&[], Vec::as_slice)
    }

    /// The belief in the claim of a request; `None` if no proof was written.
    pub fn direct(&self, request: usize) -> Option<f64> {
        self.proofs(request).first().map(|proof| proof.direct)
    }

    /// The accepted proof with the highest score; of equal ones, the one whose name comes first.
    pub fn best(&self, request: usize) -> Option<&Judgement> {
        let accepted = self.proofs(request).iter().filter(|proof| proof.accepted);
        accepted.reduce(|best, proof| if proof.score > best.score { proof } else { best })
    }

    /// The rows of all levels; `None` if there was no request.
    ///
    /// # Errors
    ///
    /// If levels have different columns.
    pub fn table(&self) -> Result<Option<RecordBatch>, StageError> {
        let Some(first) = self.levels.first() else { return Ok(None) };
        Ok(Some(concat_batches(&first.schema(), &self.levels)?))
    }
}

/// The premises of one proof: texts and beliefs.
fn of_list(premises: &dyn Array) -> Vec<(String, f64)> {
    let part = |name: &str| {
        premises.as_struct_opt().and_then(|premises| premises.column_by_name(name)).cloned()
    };
    let (Some(text), Some(belief)) = (part("text"), part("belief")) else { return Vec::new() };
    let texts = text.as_string_opt::<i32>().into_iter().flatten();
    let beliefs = belief.as_primitive_opt::<Float64Type>().into_iter().flatten();
    let known = |(text, belief): (Option<&str>, Option<f64>)| Some((text?.to_owned(), belief?));
    texts.zip(beliefs).filter_map(known).collect()
}
