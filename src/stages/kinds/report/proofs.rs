//! Proofs as trees: the question, the hypothesis and its verdict, the premises and whose they are.

use arrow::array::{Array, ArrayRef, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use serde::Deserialize;
use std::sync::Arc;

use crate::draw::WIDTH;
use crate::draw::cells::format_float;
use crate::draw::tree::Tree;
use crate::stages::diagnostics::{Diagnostics, mismatch};
use crate::stages::error::StageError;
use crate::stages::kinds::report::block::{Drawing, Needs, RowsBlock};
use crate::stages::kinds::report::table::more;
use proofmill_base::styled::Styled;
use proofmill_base::styled::printable;
use proofmill_pipeline::code::Code;
use proofmill_pipeline::kinds::report::ProofsBlock;

/// What `proofs` knows of a table; only the first two must be there.
const COLUMNS: [(&str, Kind); 14] = [
    ("hypothesis", Kind::Text),
    ("premises", Kind::Premises),
    ("entailment", Kind::Number),
    ("direct", Kind::Number),
    ("score", Kind::Number),
    ("accepted", Kind::Boolean),
    ("reject_reason", Kind::Text),
    ("proof_id", Kind::Text),
    ("hypothesis_id", Kind::Text),
    ("question", Kind::Text),
    ("label", Kind::Text),
    ("answer", Kind::Text),
    ("gold", Kind::Text),
    ("note", Kind::Text),
];
const REQUIRED: usize = 2;
/// What it knows of a premise; only the first must be there.
const OF_PREMISE: [(&str, Kind); 5] = [
    ("text", Kind::Text),
    ("origin", Kind::Text),
    ("belief", Kind::Number),
    ("believed", Kind::Boolean),
    ("contradicted_by", Kind::Text),
];

/// What a column must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Anything that is one value.
    Text,
    Number,
    Boolean,
    Premises,
}

impl Kind {
    fn admits(self, kind: &DataType) -> bool {
        match self {
            Self::Text => !kind.is_nested(),
            Self::Number => kind.is_numeric(),
            Self::Boolean => matches!(kind, DataType::Boolean),
            Self::Premises => match kind {
                DataType::List(item) | DataType::LargeList(item) => premise(item.data_type()),
                _ => false,
            },
        }
    }

    fn expected(self) -> &'static str {
        match self {
            Self::Text => "a string",
            Self::Number => "a number",
            Self::Boolean => "a boolean",
            Self::Premises => "a list of structs with `text`",
        }
    }
}

/// True if a premise can be read from this type.
fn premise(kind: &DataType) -> bool {
    let DataType::Struct(fields) = kind else { return false };
    let field = |name: &str| fields.iter().find(|field| field.name() == name);
    field(OF_PREMISE[0].0).is_some()
        && OF_PREMISE.iter().all(|(name, kind)| {
            field(name).is_none_or(|field| match kind {
                // Read as it is, unlike the columns of the table.
                Kind::Text => field.data_type().is_string(),
                kind => kind.admits(field.data_type()),
            })
        })
}

impl RowsBlock for ProofsBlock {
    fn needs(
        &self,
        schema: &SchemaRef,
        steps: &[&str; 4],
        diagnostics: &mut Diagnostics<'_>,
    ) -> Option<Needs> {
        Some(Needs { columns: columns(schema, steps, diagnostics)?, most: self.limit as usize })
    }

    fn picture<'a>(&'a self, _: &'a str) -> Option<&'a str> {
        None
    }

    fn draw(&self, rows: &RecordBatch, all: u64, _: Option<&str>) -> Result<Drawing, StageError> {
        let text = draw(rows)? + &more(rows.num_rows(), all, "proofs");
        Ok(Drawing::verbatim(text))
    }
}

/// The positions of the columns that are shown; `None` after an error.
fn columns(
    schema: &SchemaRef,
    steps: &[&str; 4],
    diagnostics: &mut Diagnostics<'_>,
) -> Option<Vec<usize>> {
    let steps: Vec<&str> = steps.iter().copied().chain(["from"]).collect();
    let mut found = Vec::new();
    let mut valid = true;
    for (i, (name, kind)) in COLUMNS.iter().enumerate() {
        let mut diagnostic = |code, message| {
            let help = "name a `verify` stage whose `from` is a `prove` stage".to_owned();
            diagnostics.error(&steps, code, message, Some(help));
            valid = false;
        };
        match schema.index_of(name) {
            Ok(position) => {
                let own = schema.field(position).data_type();
                if !kind.admits(own) {
                    let message = mismatch(&format!("column `{name}`"), kind.expected(), own);
                    diagnostic(Code::ColumnType, message);
                }
                found.push(position);
            }
            Err(_) if i < REQUIRED => {
                let message = format!("the table has no column `{name}`, which `proofs` needs");
                diagnostic(Code::UnknownColumn, message);
            }
            Err(_) => {}
        }
    }
    valid.then_some(found)
}

/// A row.
#[derive(Debug, Deserialize)]
struct Proof {
    hypothesis: Option<String>,
    premises: Option<Vec<Premise>>,
    entailment: Option<f64>,
    direct: Option<f64>,
    score: Option<f64>,
    accepted: Option<bool>,
    reject_reason: Option<String>,
    proof_id: Option<String>,
    hypothesis_id: Option<String>,
    question: Option<String>,
    label: Option<String>,
    answer: Option<String>,
    gold: Option<String>,
    note: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Premise {
    text: Option<String>,
    origin: Option<String>,
    belief: Option<f64>,
    believed: Option<bool>,
    contradicted_by: Option<String>,
}

/// The proofs of a table with some of [`COLUMNS`], one tree for each question.
fn draw(rows: &RecordBatch) -> Result<String, StageError> {
    let mut trees: Vec<Tree> = Vec::new();
    for proof in proofs(rows)? {
        let Some(question) = proof.question().map(Styled::from) else {
            trees.push(proof.hypothesis());
            continue;
        };
        match trees.last_mut().filter(|tree| tree.text == question) {
            Some(tree) => tree.children.push(proof.hypothesis()),
            None => trees.push(Tree::new(question, vec![proof.hypothesis()])),
        }
    }
    let drawn: Vec<String> = trees.iter().map(|tree| tree.draw(WIDTH).into_string()).collect();
    Ok(drawn.join("\n"))
}

fn proofs(rows: &RecordBatch) -> Result<Vec<Proof>, StageError> {
    let plain = |(column, field): (&ArrayRef, &Arc<Field>)| {
        let known = COLUMNS.iter().find(|(name, _)| name == field.name());
        let column = match known {
            Some((_, Kind::Text)) => cast(column, &DataType::Utf8)?,
            Some((_, Kind::Number)) => cast(column, &DataType::Float64)?,
            _ => Arc::clone(column),
        };
        Ok((Field::new(field.name(), column.data_type().clone(), true), column))
    };
    let columns = rows.columns().iter().zip(rows.schema_ref().fields()).map(plain);
    let (fields, columns): (Vec<Field>, Vec<ArrayRef>) =
        columns.collect::<Result<Vec<_>, StageError>>()?.into_iter().unzip();
    let rows = RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)?;
    let mut writer = arrow::json::ArrayWriter::new(Vec::new());
    writer.write(&rows)?;
    writer.finish()?;
    let json = writer.into_inner();
    // Nothing is written for no rows.
    if json.is_empty() {
        return Ok(Vec::new());
    }
    serde_json::from_slice(&json).map_err(|error| StageError::Task(error.to_string()))
}

impl Proof {
    /// The question, the answer, the remark; `None` if there is none of them.
    fn question(&self) -> Option<String> {
        let answer = self.answer.as_deref().map(|answer| {
            let label = self.label.as_deref().filter(|label| *label != answer);
            let label = label.map(|label| format!("{label} ")).unwrap_or_default();
            format!("answer: {label}{answer}{}", self.verdict_on_answer())
        });
        let note = self.note.as_deref().map(|note| format!("note: {note}"));
        let lines = [self.question.clone(), answer, note];
        let lines: Vec<String> = lines.into_iter().flatten().map(|l| printable(&l, true)).collect();
        (!lines.is_empty()).then(|| lines.join("\n"))
    }

    /// Whether the answer is the right one, if that is known.
    fn verdict_on_answer(&self) -> String {
        let Some(gold) = &self.gold else { return String::new() };
        let names = [&self.answer, &self.label, &self.hypothesis_id];
        if names.into_iter().flatten().any(|name| name == gold) {
            " (right)".to_owned()
        } else {
            format!(" (wrong, right is {gold})")
        }
    }

    fn hypothesis(&self) -> Tree {
        let text = printable(self.hypothesis.as_deref().unwrap_or("no hypothesis"), true);
        let verdict = match (self.accepted, self.reject_reason.as_deref()) {
            (Some(true), _) => Some("accepted".to_owned()),
            (Some(false), Some(reason)) => Some(format!("rejected: {}", in_words(reason))),
            (Some(false), None) => Some("rejected".to_owned()),
            (None, _) => None,
        };
        let number = |name: &str, value: Option<f64>| {
            value.map(|value| format!("{name} {}", format_float(value)))
        };
        let numbers = [
            verdict,
            number("score", self.score),
            number("entailment", self.entailment),
            number("believed without proof", self.direct),
        ];
        let numbers: Vec<String> = numbers.into_iter().flatten().collect();
        let name = self.proof_id.as_deref().map(|id| format!("proof {}", printable(id, true)));
        let mut lines = vec![text];
        lines.extend((!numbers.is_empty()).then(|| numbers.join(", ")));
        lines.extend(name);
        let premises = self.premises.iter().flatten().map(Premise::tree).collect();
        Tree::new(lines.join("\n"), premises)
    }
}

/// Why a proof was rejected.
fn in_words(reason: &str) -> String {
    match reason {
        "no_premises" => "it has no premises".to_owned(),
        "premise_contradicted" => "a premise contradicts the memory".to_owned(),
        "premise_is_denial" => "a premise denies what proves the same".to_owned(),
        "premise_not_believed" => "a premise is not believed".to_owned(),
        "not_entailed" => "the premises do not entail it".to_owned(),
        "blocked" => "a user blocked it".to_owned(),
        other => printable(other, true),
    }
}

impl Premise {
    fn tree(&self) -> Tree {
        let text = printable(self.text.as_deref().unwrap_or("no text"), true);
        let origin = self.origin.as_deref().map(|origin| match origin {
            "memory" => "from the memory".to_owned(),
            "model" => "from the model".to_owned(),
            other => format!("from {}", printable(other, true)),
        });
        let belief = self.belief.map(|belief| format!("belief {}", format_float(belief)));
        let doubt = (self.believed == Some(false)).then(|| "not believed".to_owned());
        let said: Vec<String> = [origin, belief, doubt].into_iter().flatten().collect();
        let contradicted = self.contradicted_by.as_deref();
        let contradicted =
            contradicted.map(|fact| format!("contradicts: {}", printable(fact, true)));
        let lines = [Some(text), (!said.is_empty()).then(|| said.join(", ")), contradicted];
        Tree::leaf(lines.into_iter().flatten().collect::<Vec<_>>().join("\n"))
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{BooleanArray, Float64Array, Int64Array, StringArray};

    use super::*;

    fn rows(json: &str) -> RecordBatch {
        let premise = DataType::Struct(
            vec![
                Field::new("text", DataType::Utf8, true),
                Field::new("origin", DataType::Utf8, true),
                Field::new("belief", DataType::Float64, true),
                Field::new("believed", DataType::Boolean, true),
                Field::new("contradicted_by", DataType::Utf8, true),
            ]
            .into(),
        );
        let texts = ["hypothesis", "question", "label", "answer", "gold", "reject_reason", "note"];
        let mut fields: Vec<Field> =
            texts.iter().map(|name| Field::new(*name, DataType::Utf8, true)).collect();
        fields.push(Field::new_list("premises", Field::new_list_field(premise, true), true));
        for name in ["entailment", "direct", "score"] {
            fields.push(Field::new(name, DataType::Float64, true));
        }
        fields.push(Field::new("accepted", DataType::Boolean, true));
        let mut reader = arrow::json::ReaderBuilder::new(Arc::new(Schema::new(fields)))
            .build(json.as_bytes())
            .unwrap();
        reader.next().unwrap().unwrap()
    }

    #[test]
    fn proofs_of_one_question_hang_below_it() {
        let json = r#"
        {"question": "Does a penny stick\nto a magnet?", "label": "B", "answer": "no", "gold": "B",
         "note": "taught by question 12", "hypothesis": "a penny does not stick to a magnet",
         "premises": [
            {"text": "a penny is made of copper", "origin": "memory", "belief": 0.99995, "believed": true},
            {"text": "copper is not magnetic, and what is not magnetic never sticks to any magnet whatever its size is", "origin": "model", "belief": 0.75, "believed": true}],
         "entailment": 1.0, "direct": 0.25, "score": 0.7499625, "accepted": true}
        {"question": "Does a penny stick\nto a magnet?", "label": "B", "answer": "no", "gold": "B",
         "note": "taught by question 12", "hypothesis": "a penny does not stick to a magnet",
         "premises": [
            {"text": "a penny is \u001b[31miron", "origin": "model", "belief": 0.00001, "believed": false}],
         "entailment": 0.5, "score": 0.000005, "accepted": false, "reject_reason": "premise_not_believed"}
        {"hypothesis": "it is denied", "premises": [
            {"text": "a penny is a coin", "origin": "model", "contradicted_by": "a penny is not a kind of coin.\u001b[31m"}],
         "accepted": false, "reject_reason": "premise_contradicted"}
        {"hypothesis": "nobody asked", "accepted": false, "reject_reason": "no_premises"}
        "#;
        insta::assert_snapshot!(draw(&rows(json)).unwrap());
    }

    #[test]
    fn an_answer_is_right_by_any_of_its_names() {
        let of = |gold: &str| {
            let json = format!(r#"{{"label": "A", "answer": "iron", "gold": "{gold}"}}"#);
            draw(&rows(&json)).unwrap().lines().next().unwrap().to_owned()
        };
        assert_eq!(of("A"), "answer: A iron (right)");
        assert_eq!(of("iron"), "answer: A iron (right)");
        assert_eq!(of("B"), "answer: A iron (wrong, right is B)");
    }

    #[test]
    fn a_table_may_have_few_columns_of_other_types() {
        let premises = rows(r#"{"premises": [{"text": "all men are mortal"}]}"#);
        let columns: Vec<(&str, ArrayRef)> = vec![
            ("hypothesis", Arc::new(StringArray::from(vec!["Socrates is mortal"]))),
            ("premises", Arc::clone(premises.column_by_name("premises").unwrap())),
            ("gold", Arc::new(Int64Array::from(vec![1]))),
            ("score", Arc::new(Float64Array::from(vec![f64::NAN]))),
            ("accepted", Arc::new(BooleanArray::from(vec![None]))),
        ];
        let drawn = draw(&RecordBatch::try_from_iter(columns).unwrap()).unwrap();
        assert_eq!(drawn, "Socrates is mortal\n└─ all men are mortal\n");
    }
}
