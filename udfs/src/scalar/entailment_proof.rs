//! `entailment_proof`: EntailmentBank's scores of a proof against the gold proof.

use std::sync::Arc;

use datafusion::arrow::array::{
    ArrayRef, BooleanArray, Float64Array, Int64Array, ListArray, StringArray, StructArray,
};
use datafusion::arrow::buffer::{NullBuffer, OffsetBuffer};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Fields};
use datafusion::common::Result;

use super::{Inputs, ScalarDefinition};
use crate::definition::{Argument, Doc, Example, FunctionKind, Kind};
use crate::text::entailment::{self, Aligned, BLEURT_THRESHOLD, Proof, Ties};
use crate::text::overlap::Prf;

/// SQL function `entailment_proof`.
pub static ENTAILMENT_PROOF: ScalarDefinition = ScalarDefinition {
    doc: Doc {
        name: "entailment_proof",
        version: 1,
        kind: FunctionKind::Scalar,
        description: "Scores of a multi-step proof against the gold proof, after EntailmentBank's released \
            scorer. Leaves are compared as sets. Each predicted conclusion, the hypothesis among \
            them, stands for the gold conclusion whose leaves are most similar (Jaccard), or for \
            none if no leaf is common; steps are compared under these names, whatever the order of \
            their premises, and one written twice lowers the precision. `acc` is whether F1 is 1. \
            Whether conclusions say the right thing is judged by the similarities that are given \
            for the pairs of `alignment`, in its order; without them, or where one of them is \
            NULL, `intermediates_…` and `overall_acc` are NULL. Published numbers take BLEURT \
            (bleurt-large-512) and 0.28; other similarities give other numbers. Of a text that is \
            no proof, `problem` says why and all else is NULL. NULL if an argument is NULL.",
        arguments: &[
            Argument::required(
                "predicted",
                Kind::Text,
                "The proof: `sent2 & sent3 -> int1: text; int1 & sent1 -> hypothesis;`.",
            ),
            Argument::required("gold", Kind::Text, "The gold proof."),
            Argument::optional(
                "ties",
                Kind::Choice(Ties::NAMES),
                "Which of equally similar gold conclusions is taken: the `first` (default, as \
                 released), or the first `unused` one, so that every proof is itself.",
            ),
            Argument::optional(
                "similarities",
                Kind::Numbers,
                "For each entry of `alignment`, how alike its two texts are.",
            ),
            Argument::optional(
                "threshold",
                Kind::ConstantNumber,
                "Least similarity of a right conclusion (default 0.28).",
            ),
        ],
        returns: "struct(leaves_precision, leaves_recall, leaves_f1, leaves_acc, steps_…, intermediates_…, \
            overall_acc, alignment: list of struct(place, predicted, gold, jaccard, predicted_text, \
            gold_text), problem), `…acc` booleans",
        example: Example {
            sql: "SELECT s.leaves_recall, s.steps_f1, s.steps_acc, s.alignment[1]['gold'] AS gold FROM (SELECT entailment_proof('sent1 & sent2 -> int4: b; int4 & sent9 -> hypothesis;', 'sent1 & sent2 -> int1: a; int1 & sent3 -> hypothesis;') AS s)",
            result: "
+--------------------+-------------+--------------+------+
| s[leaves_recall]   | s[steps_f1] | s[steps_acc] | gold |
+--------------------+-------------+--------------+------+
| 0.6666666666666666 | 0.5         | false        | int1 |
+--------------------+-------------+--------------+------+
",
        },
    },
    return_type: |_| DataType::Struct(fields()),
    invoke,
};

/// One row's scores, or why there are none.
type Row<'a> = std::result::Result<Scores<'a>, String>;

struct Scores<'a> {
    predicted: Proof<'a>,
    gold: Proof<'a>,
    aligned: Vec<Aligned>,
    leaves: Prf,
    steps: Prf,
    intermediates: Option<Prf>,
}

fn invoke(inputs: &Inputs) -> Result<ArrayRef> {
    let (predicted, gold) = (inputs.text(0)?, inputs.text(1)?);
    let ties = inputs.choice(2, str::parse)?.unwrap_or_default();
    let similarities = if inputs.has(3) { Some(inputs.numbers(3)?) } else { None };
    let threshold = inputs.constant_number(4)?.unwrap_or(BLEURT_THRESHOLD);
    let mut rows: Vec<Option<Row>> = Vec::with_capacity(inputs.rows);
    for row in 0..inputs.rows {
        let (Some(predicted), Some(gold)) = (predicted.get(row), gold.get(row)) else {
            rows.push(None);
            continue;
        };
        let given = similarities.as_ref().map(|given| given.elements(row));
        if matches!(given, Some(None)) {
            rows.push(None);
            continue;
        }
        let mut scored = score(predicted, gold, ties);
        if let (Ok(scores), Some(Some(given))) = (&mut scored, given) {
            let (entries, given_entries) = (scores.aligned.len(), given.len());
            if entries != given_entries {
                return inputs.refuse(
                    3,
                    format!(
                        "a list of {given_entries} numbers; expected {entries}, one for each \
                         entry of the alignment"
                    ),
                );
            }
            scores.intermediates =
                entailment::intermediates(&scores.gold, &scores.aligned, &given, threshold);
        }
        rows.push(Some(scored));
    }
    column(&rows)
}

fn score<'a>(predicted: &'a str, gold: &'a str, ties: Ties) -> Row<'a> {
    let predicted = Proof::parse(predicted).map_err(|problem| format!("predicted: {problem}"))?;
    let gold = Proof::parse(gold).map_err(|problem| format!("gold: {problem}"))?;
    let aligned = entailment::align(&predicted, &gold, ties);
    Ok(Scores {
        leaves: entailment::leaves(&predicted, &gold),
        steps: entailment::steps(&predicted, &gold, &aligned),
        intermediates: None,
        predicted,
        gold,
        aligned,
    })
}

/// What is scored three times, and how its fields begin.
const PARTS: [&str; 3] = ["leaves", "steps", "intermediates"];

impl Scores<'_> {
    /// The scores in the order of [`PARTS`].
    fn parts(&self) -> [Option<Prf>; 3] {
        [Some(self.leaves), Some(self.steps), self.intermediates]
    }
}

fn is_whole(score: Prf) -> bool {
    score.f1 == 1.0
}

fn fields() -> Fields {
    let mut fields: Vec<Field> = Vec::new();
    for part in PARTS {
        for number in ["precision", "recall", "f1"] {
            fields.push(Field::new(format!("{part}_{number}"), DataType::Float64, true));
        }
        fields.push(Field::new(format!("{part}_acc"), DataType::Boolean, true));
    }
    fields.push(Field::new("overall_acc", DataType::Boolean, true));
    fields.push(Field::new("alignment", DataType::List(entry()), true));
    fields.push(Field::new("problem", DataType::Utf8, true));
    fields.into()
}

/// One entry of the alignment.
fn entry() -> FieldRef {
    Arc::new(Field::new_list_field(DataType::Struct(entry_fields()), true))
}

fn entry_fields() -> Fields {
    Fields::from(vec![
        Field::new("place", DataType::Int64, true),
        Field::new("predicted", DataType::Utf8, true),
        Field::new("gold", DataType::Utf8, true),
        Field::new("jaccard", DataType::Float64, true),
        Field::new("predicted_text", DataType::Utf8, true),
        Field::new("gold_text", DataType::Utf8, true),
    ])
}

fn column(rows: &[Option<Row>]) -> Result<ArrayRef> {
    let scored = || rows.iter().map(|row| row.as_ref().and_then(|row| row.as_ref().ok()));
    let mut columns: Vec<ArrayRef> = Vec::new();
    for part in 0..PARTS.len() {
        let scores: Vec<Option<Prf>> =
            scored().map(|scores| scores.and_then(|scores| scores.parts()[part])).collect();
        let parts: [fn(Prf) -> f64; 3] = [|it| it.precision, |it| it.recall, |it| it.f1];
        for number in parts {
            let numbers: Float64Array = scores.iter().map(|score| score.map(number)).collect();
            columns.push(Arc::new(numbers));
        }
        let whole: BooleanArray = scores.iter().map(|score| score.map(is_whole)).collect();
        columns.push(Arc::new(whole));
    }
    let overall: BooleanArray = scored()
        .map(|scores| {
            let parts = scores?.parts();
            parts.into_iter().map(|part| part.map(is_whole)).collect::<Option<Vec<_>>>()
        })
        .map(|whole| whole.map(|whole| whole.into_iter().all(|whole| whole)))
        .collect();
    columns.push(Arc::new(overall));
    columns.push(alignments(scored())?);
    let problems: StringArray =
        rows.iter().map(|row| row.as_ref().and_then(|row| row.as_ref().err())).collect();
    columns.push(Arc::new(problems));
    let nulls: NullBuffer = rows.iter().map(Option::is_some).collect::<Vec<_>>().into();
    Ok(Arc::new(StructArray::try_new(fields(), columns, Some(nulls))?))
}

fn alignments<'a>(rows: impl Iterator<Item = Option<&'a Scores<'a>>> + Clone) -> Result<ArrayRef> {
    let entries = || {
        rows.clone().flatten().flat_map(|scores| {
            scores.aligned.iter().enumerate().map(move |(at, aligned)| {
                let gold = aligned.gold.and_then(|place| scores.gold.steps.get(place));
                (at, scores.predicted.steps.get(at), gold, aligned.jaccard)
            })
        })
    };
    let places: Int64Array = entries().map(|(at, ..)| Some(at as i64 + 1)).collect();
    let jaccard: Float64Array = entries().map(|(.., jaccard)| Some(jaccard)).collect();
    let predicted: StringArray =
        entries().map(|(_, step, ..)| step.map(|step| step.conclusion)).collect();
    let gold: StringArray =
        entries().map(|(_, _, step, _)| step.map(|step| step.conclusion)).collect();
    let predicted_text: StringArray =
        entries().map(|(_, step, ..)| step.and_then(|step| step.text)).collect();
    let gold_text: StringArray =
        entries().map(|(_, _, step, _)| step.and_then(|step| step.text)).collect();
    let structs = StructArray::try_new(
        entry_fields(),
        vec![
            Arc::new(places),
            Arc::new(predicted),
            Arc::new(gold),
            Arc::new(jaccard),
            Arc::new(predicted_text),
            Arc::new(gold_text),
        ],
        None,
    )?;
    let lengths = rows.clone().map(|scores| scores.map_or(0, |scores| scores.aligned.len()));
    let nulls: NullBuffer = rows.clone().map(|scores| scores.is_some()).collect::<Vec<_>>().into();
    let offsets = OffsetBuffer::from_lengths(lengths);
    Ok(Arc::new(ListArray::try_new(entry(), offsets, Arc::new(structs), Some(nulls))?))
}
