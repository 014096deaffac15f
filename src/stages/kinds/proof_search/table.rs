//! What was found as a table: a row for each proof at each place of a tree where it was looked at.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, BooleanArray, Float64Array, Int64Array, RecordBatch, StringArray, UInt32Array,
};
use arrow::compute::take;
use arrow::datatypes::SchemaRef;

use crate::stages::error::StageError;
use crate::stages::kinds::proof_search::forest::Worth;
use crate::stages::kinds::proof_search::judged::Judgement;
use crate::stages::kinds::proof_search::state::Search;
use crate::stages::tables::columns::texts;

/// A row: what it says of a proof beside what `verify` does.
struct Row<'a> {
    claim: usize,
    proof: &'a Judgement,
    best: bool,
}

/// The table. Rows are in the order of the hypotheses, then from the top of a tree to its bottom.
pub fn of(
    schema: &SchemaRef,
    keep: &[String],
    hypotheses: &RecordBatch,
    search: &Search,
) -> Result<RecordBatch, StageError> {
    let Some(judged) = search.judged.table()? else {
        return Ok(RecordBatch::new_empty(Arc::clone(schema)));
    };
    let worth = search.forest.worth();
    let names = Names::of(hypotheses, search)?;
    let mut rows = rows(search);
    // Stable: within a tree, claims stay in the order of their numbers, which is that of levels.
    rows.sort_by_key(|row| search.root_of[row.claim]);
    let by_text = |of: &dyn Fn(&Row<'_>) -> Option<String>| -> ArrayRef {
        Arc::new(rows.iter().map(of).collect::<StringArray>())
    };
    let of_proof = UInt32Array::from_iter_values(rows.iter().map(|row| row.proof.row as u32));
    let of_root = rows.iter().map(|row| search.root_of[row.claim] as u32);
    let of_root = UInt32Array::from_iter_values(of_root);
    let from_root = |name: &str| match hypotheses.column_by_name(name) {
        Some(column) => Ok(take(column, &of_root, None)?),
        None => Err(StageError::Task(format!("the rows have no column `{name}`"))),
    };
    let mut columns: Vec<ArrayRef> = Vec::with_capacity(schema.fields().len());
    for field in schema.fields() {
        let above = |row: &Row<'_>| search.forest.claim(row.claim).above;
        columns.push(match field.name().as_str() {
            "proof_id" => by_text(&|row| Some(names.proof(row))),
            "hypothesis_id" => by_text(&|row| Some(names.claims[row.claim].clone())),
            "root" => from_root("hypothesis_id")?,
            "parent_proof_id" => by_text(&|row| names.above[row.claim].clone()),
            "drop_reason" => by_text(&|row| dropped(row, &worth[row.claim]).map(str::to_owned)),
            "depth" => Arc::new(Int64Array::from_iter_values(
                rows.iter().map(|row| names.depths[row.claim]),
            )),
            "premise" => Arc::new(Int64Array::from_iter(
                rows.iter()
                    .map(|row| above(row).map(|_| search.forest.claim(row.claim).place as i64)),
            )),
            "searched_score" => Arc::new(Float64Array::from_iter(
                rows.iter().map(|row| worth[row.claim].searched.filter(|_| row.best)),
            )),
            "kept" => Arc::new(BooleanArray::from_iter(
                rows.iter().map(|row| Some(row.best && worth[row.claim].kept)),
            )),
            name @ ("question_id" | "question" | "label" | "answer") => from_root(name)?,
            name if keep.iter().any(|kept| kept == name) => from_root(name)?,
            name => match judged.column_by_name(name) {
                Some(column) => take(column, &of_proof, None)?,
                None => {
                    return Err(StageError::Task(format!("the rows have no column `{name}`")));
                }
            },
        });
    }
    let columns = columns.iter().zip(schema.fields());
    let columns = columns.map(|(column, field)| arrow::compute::cast(column, field.data_type()));
    Ok(RecordBatch::try_new(Arc::clone(schema), columns.collect::<Result<_, _>>()?)?)
}

/// A row for each proof of each claim that was open.
fn rows(search: &Search) -> Vec<Row<'_>> {
    let mut claims: Vec<(&usize, &usize)> = search.request_of.iter().collect();
    claims.sort_unstable();
    let of_claim = |(&claim, &request): (&usize, &usize)| {
        let best = search.judged.best(request).map(|best| best.row);
        let proofs = search.judged.proofs(request).iter();
        proofs.map(move |proof| Row { claim, proof, best: best == Some(proof.row) })
    };
    claims.into_iter().flat_map(of_claim).collect()
}

/// Why an accepted proof is no part of the final tree.
fn dropped(row: &Row<'_>, worth: &Worth) -> Option<&'static str> {
    if !row.proof.accepted || row.best && worth.kept {
        None
    } else if !row.best {
        Some("not_best")
    } else if !worth.stronger {
        Some("not_stronger")
    } else {
        Some("dropped_above")
    }
}

/// What claims and proofs are called: a claim below another after the proof that has it.
struct Names {
    claims: Vec<String>,
    /// The proof above each claim.
    above: Vec<Option<String>>,
    /// From 1 for hypotheses.
    depths: Vec<i64>,
}

impl Names {
    fn of(hypotheses: &RecordBatch, search: &Search) -> Result<Self, StageError> {
        let ids = texts(hypotheses, "hypothesis_id")?;
        let mut names = Self { claims: Vec::new(), above: Vec::new(), depths: Vec::new() };
        for (number, root) in search.root_of.iter().enumerate() {
            let claim = search.forest.claim(number);
            let best = |above: usize| {
                let request = search.request_of.get(&above)?;
                Some(format!("{}{}", names.claims[above], search.judged.best(*request)?.attempt))
            };
            let above = claim.above.and_then(best);
            let name = match &above {
                Some(above) => format!("{above}/p{}", claim.place),
                None => ids.value(*root).to_owned(),
            };
            names.depths.push(claim.above.map_or(1, |above| names.depths[above] + 1));
            names.claims.push(name);
            names.above.push(above);
        }
        Ok(names)
    }

    fn proof(&self, row: &Row<'_>) -> String {
        format!("{}{}", self.claims[row.claim], row.proof.attempt)
    }
}
