//! `entailment_proof` against an independent scorer in Python: on proofs that were made for it
//! (`entailment_goldens.json`), and on every proof of EntailmentBank with corruptions, where both the data
//! and Python are there. Both come from `tests/parity/entailment_proof.py`.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]

use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, Float64Builder, ListBuilder, RecordBatch, StringArray,
};
use datafusion::arrow::datatypes::{DataType, Float64Type, Int64Type};
use serde_json::{Map, Value, json};

mod support;

use support::{batch, context_of};

#[tokio::test]
async fn every_golden_proof_has_its_scores() {
    let cases: Value = serde_json::from_str(include_str!("entailment_goldens.json")).unwrap();
    assert_eq!(agree(&cases).await, 159, "cases were added or lost");
}

#[tokio::test]
async fn proofs_of_entailment_bank_and_corruptions_of_them_have_the_scores_of_the_reference() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let data = root.join("../shared/data/entailmentbank");
    let python = std::env::var("PROOFMILL_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    if !data.is_dir() || Command::new(&python).arg("--version").output().is_err() {
        // Past the test runner's capture: a skipped comparison must be seen.
        let _ = writeln!(std::io::stderr(), "SKIPPED: no {} or no `{python}`", data.display());
        return;
    }
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("entailment_bank.json");
    let script = root.join("tests/parity/entailment_proof.py");
    let made = Command::new(&python).arg(script).arg("corrupt").args([&data, &path]).output();
    let made = made.unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let cases: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    assert_eq!(agree(&cases).await, 7905, "527 proofs, 15 times each");
    // What the released way to break ties costs: gold proofs that are not themselves.
    let all = cases.as_array().unwrap().iter();
    let same: Vec<_> = all.filter(|case| case["id"].as_str().unwrap().ends_with("/same")).collect();
    let whole = |case: &&&Value, ties: &str| part(case, ties)["steps_acc"] == true;
    assert_eq!(same.len(), 527);
    assert_eq!(same.iter().filter(|case| whole(case, "first")).count(), 527 - 12);
    assert_eq!(same.iter().filter(|case| whole(case, "unused")).count(), 527);
}

/// The scores of a case with these ties.
fn part<'a>(case: &'a Value, ties: &str) -> &'a Value {
    case.get(ties).unwrap_or(&case["first"])
}

/// Scores all cases and compares; their number.
async fn agree(cases: &Value) -> usize {
    let cases = cases.as_array().unwrap();
    let column = |name: &str| -> ArrayRef {
        let texts = cases.iter().map(|case| case[name].as_str());
        Arc::new(texts.collect::<StringArray>())
    };
    let mut similarities = ListBuilder::new(Float64Builder::new());
    for case in cases {
        let numbers = case["similarities"].as_array().unwrap().iter().map(Value::as_f64);
        similarities.append_value(numbers);
    }
    let columns = [
        ("predicted", column("predicted")),
        ("gold", column("gold")),
        ("similarities", Arc::new(similarities.finish()) as ArrayRef),
    ];
    // One partition keeps the order of the rows.
    let context = context_of(1);
    context.register_batch("t", RecordBatch::try_from_iter(columns).unwrap()).unwrap();
    for ties in ["first", "unused"] {
        let scores = format!("entailment_proof(predicted, gold, '{ties}', similarities, 0.5)");
        let scored = batch(&context, &format!("SELECT {scores} AS s FROM t")).await.unwrap();
        assert_eq!(scored.num_rows(), cases.len());
        for (row, case) in cases.iter().enumerate() {
            let mut found = value(scored.column(0), row);
            // The reference does not say why a text is no proof.
            if let Some(problem) = found.get_mut("problem") {
                assert!(problem.as_str().unwrap().contains(": "), "{problem}");
                *problem = json!(true);
            }
            equal(&found, part(case, ties), &format!("{} {ties}", case["id"]));
        }
    }
    cases.len()
}

/// A value of a column, without the fields that are NULL.
fn value(array: &ArrayRef, row: usize) -> Value {
    match array.data_type() {
        DataType::Struct(fields) => {
            let columns = fields.iter().zip(array.as_struct().columns());
            let valid = columns.filter(|(_, column)| column.is_valid(row));
            let fields: Map<_, _> =
                valid.map(|(field, column)| (field.name().clone(), value(column, row))).collect();
            Value::Object(fields)
        }
        DataType::List(_) => {
            let entries = array.as_list::<i32>().value(row);
            (0..entries.len()).map(|entry| value(&entries, entry)).collect()
        }
        DataType::Float64 => json!(array.as_primitive::<Float64Type>().value(row)),
        DataType::Int64 => json!(array.as_primitive::<Int64Type>().value(row)),
        DataType::Boolean => json!(array.as_boolean().value(row)),
        _ => json!(array.as_string::<i32>().value(row)),
    }
}

#[track_caller]
fn equal(found: &Value, expected: &Value, case: &str) {
    match (found, expected) {
        (Value::Object(left), Value::Object(right)) => {
            let names = |of: &Map<String, Value>| of.keys().cloned().collect::<BTreeSet<_>>();
            assert_eq!(names(left), names(right), "{case}");
            left.iter().for_each(|(name, it)| equal(it, &right[name], &format!("{case} {name}")));
        }
        (Value::Array(left), Value::Array(right)) => {
            assert_eq!(left.len(), right.len(), "{case}");
            left.iter().zip(right).for_each(|(left, right)| equal(left, right, case));
        }
        (Value::Number(left), Value::Number(right)) => {
            let (left, right) = (left.as_f64().unwrap(), right.as_f64().unwrap());
            assert!((left - right).abs() < 1e-12, "{case}: {left} is not {right}");
        }
        _ => assert_eq!(found, expected, "{case}"),
    }
}
