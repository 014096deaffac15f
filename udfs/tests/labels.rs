//! Votes, agreement, precision and recall, calibration: against scikit-learn, SciPy and definitions (written by
//! `tests/parity/labels.py`), and what NULL, ties, one class and no rows give.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]

use datafusion::prelude::SessionContext;
use serde_json::{Value, json};

mod support;

use support::{batch, context};

/// The rows of a query as JSON.
async fn rows(context: &SessionContext, sql: &str) -> Vec<Value> {
    let batch = batch(context, sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
    let mut writer = datafusion::arrow::json::ArrayWriter::new(Vec::new());
    writer.write(&batch).unwrap();
    writer.finish().unwrap();
    serde_json::from_slice(&writer.into_inner()).unwrap_or_default()
}

/// A table `name` with columns of SQL literals.
fn table(columns: &[(&str, Vec<String>)]) -> String {
    let rows = (0..columns[0].1.len()).map(|row| {
        let cells: Vec<&str> = columns.iter().map(|(_, cells)| cells[row].as_str()).collect();
        format!("({})", cells.join(", "))
    });
    let names: Vec<&str> = columns.iter().map(|(name, _)| *name).collect();
    format!("(VALUES {}) AS t({})", rows.collect::<Vec<_>>().join(", "), names.join(", "))
}

fn cells(of: &Value) -> Vec<String> {
    of.as_array().unwrap().iter().map(Value::to_string).collect()
}

fn close(found: &Value, expected: &Value, what: &str) {
    let (found, expected) = (found.as_f64().unwrap(), expected.as_f64().unwrap());
    assert!((found - expected).abs() < 1e-12, "{what}: {found} instead of {expected}");
}

#[tokio::test]
async fn labels_have_the_numbers_of_scikit_learn() {
    let goldens: Value = serde_json::from_str(include_str!("labels_goldens.json")).unwrap();
    let context = context();
    for (number, case) in goldens["labels"].as_array().unwrap().iter().enumerate() {
        let from = table(&[("p", cells(&case["predicted"])), ("g", cells(&case["gold"]))]);
        let unnested = format!("SELECT unnest(class_scores(p, g)) AS s FROM {from}");
        let sql =
            format!("SELECT s.class, s.precision, s.recall, s.f1, s.n_gold FROM ({unnested})");
        let scores = rows(&context, &sql).await;
        let classes = case["classes"].as_array().unwrap();
        assert_eq!(scores.len(), classes.len(), "case {number}");
        for (i, (row, class)) in scores.iter().zip(classes).enumerate() {
            assert_eq!(row["s[class]"], class.to_string(), "case {number}");
            assert_eq!(row["s[n_gold]"], case["support"][i], "case {number}");
            for score in ["precision", "recall", "f1"] {
                close(
                    &row[format!("s[{score}]")],
                    &case[score][i],
                    &format!("{score} {class} of {number}"),
                );
            }
        }
        let cell = format!("SELECT unnest(confusion_matrix(p, g))['n'] AS n FROM {from}");
        let cells: Vec<Value> =
            rows(&context, &cell).await.iter().map(|row| row["n"].clone()).collect();
        assert_eq!(json!(cells), case["confusion"], "case {number}");
        for average in ["macro", "micro", "weighted"] {
            let sql = format!("SELECT f1_score(p, g, '{average}') AS f FROM {from}");
            let found = &rows(&context, &sql).await[0]["f"];
            for (i, score) in ["precision", "recall", "f1"].into_iter().enumerate() {
                let expected = &case["average"][average][i];
                close(&found[score], expected, &format!("{average} {score} of {number}"));
            }
        }
        for weights in ["none", "linear", "quadratic"] {
            let sql = format!("SELECT cohen_kappa(p, g, '{weights}') AS k FROM {from}");
            let found = &rows(&context, &sql).await[0]["k"];
            close(found, &case["kappa"][weights], &format!("{weights} kappa of {number}"));
        }
        let mode = &rows(&context, &format!("SELECT mode(g) AS m FROM {from}")).await[0]["m"];
        assert_eq!(*mode, case["mode"].to_string(), "case {number}");
    }
}

#[tokio::test]
async fn calibration_has_the_numbers_of_scikit_learn() {
    let goldens: Value = serde_json::from_str(include_str!("labels_goldens.json")).unwrap();
    let context = context();
    for (number, case) in goldens["calibration"].as_array().unwrap().iter().enumerate() {
        let from = table(&[("p", cells(&case["confidence"])), ("ok", cells(&case["right"]))]);
        let sql = format!("SELECT calibration(p, ok, {}) AS c FROM {from}", case["bins"]);
        let found = &rows(&context, &sql).await[0]["c"];
        close(&found["ece"], &case["ece"], &format!("ECE of {number}"));
        close(&found["brier"], &case["brier"], &format!("Brier score of {number}"));
        let bins = found["bins"].as_array().unwrap();
        assert_eq!(bins.len(), case["mean"].as_array().unwrap().len(), "case {number}");
        let mut largest = 0.0f64;
        for (i, bin) in bins.iter().enumerate() {
            close(&bin["confidence"], &case["mean"][i], &format!("bin {i} of {number}"));
            close(&bin["accuracy"], &case["accuracy"][i], &format!("bin {i} of {number}"));
            let gap = bin["confidence"].as_f64().unwrap() - bin["accuracy"].as_f64().unwrap();
            largest = largest.max(gap.abs());
        }
        close(&found["mce"], &json!(largest), "the largest gap");
        let answers: u64 = bins.iter().map(|bin| bin["n"].as_u64().unwrap()).sum();
        assert_eq!(json!(answers), found["n"]);
    }
}

#[tokio::test]
async fn fleiss_kappa_is_that_of_the_definition() {
    let goldens: Value = serde_json::from_str(include_str!("labels_goldens.json")).unwrap();
    let context = context();
    for (number, case) in goldens["ratings"].as_array().unwrap().iter().enumerate() {
        let (mut items, mut labels) = (Vec::new(), Vec::new());
        for (item, counts) in case["table"].as_array().unwrap().iter().enumerate() {
            for (label, n) in counts.as_array().unwrap().iter().enumerate() {
                for _ in 0..n.as_u64().unwrap() {
                    items.push(item.to_string());
                    labels.push(format!("'l{label}'"));
                }
            }
        }
        let from = table(&[("i", items), ("l", labels)]);
        let found =
            &rows(&context, &format!("SELECT fleiss_kappa(i, l) AS k FROM {from}")).await[0]["k"];
        close(found, &case["kappa"], &format!("case {number}"));
    }
}

#[tokio::test]
async fn what_is_left_out_and_what_is_undefined() {
    let context = context();
    for (sql, expected) in [
        // Rows with a NULL.
        ("mode(a) FROM (VALUES (NULL), (NULL), ('x')) AS t(a)", json!("x")),
        ("majority(a) FROM (VALUES (NULL), (NULL), ('x')) AS t(a)", json!("x")),
        (
            "weighted_vote(a, b) FROM (VALUES ('x', 9), ('y', NULL), (NULL, 99)) AS t(a, b)",
            json!("x"),
        ),
        (
            "cohen_kappa(a, b) FROM (VALUES (1, 1), (2, 2), (1, NULL), (NULL, 2)) AS t(a, b)",
            json!(1.0),
        ),
        ("f1_score(a, b)['f1'] FROM (VALUES (1, 1), (2, NULL), (NULL, 3)) AS t(a, b)", json!(1.0)),
        (
            "calibration(a, b)['n'] FROM (VALUES (0.5, true), (NULL, true), (0.5, NULL)) AS t(a, b)",
            json!(1),
        ),
        // Ties: numbers by value, then texts.
        ("mode(a) FROM (VALUES (15), (5), (100)) AS t(a)", json!("5")),
        ("mode(a) FROM (VALUES ('b'), ('a10'), ('a9')) AS t(a)", json!("a9")),
        ("mode(a) FROM (VALUES (true), (false)) AS t(a)", json!("false")),
        ("majority(a) FROM (VALUES ('x'), ('y')) AS t(a)", Value::Null),
        ("weighted_vote(a, b) FROM (VALUES (15, 1), (5, 1)) AS t(a, b)", json!("5")),
        ("weighted_vote(a, b) FROM (VALUES ('x', -1), ('y', -2)) AS t(a, b)", json!("x")),
        ("mode(a) FILTER (WHERE a > 5) FROM (VALUES (15), (5), (5)) AS t(a)", json!("15")),
        // One class, or nothing to agree on.
        ("cohen_kappa(a, a) FROM (VALUES (1), (1)) AS t(a)", Value::Null),
        ("cohen_kappa(a, b) FROM (VALUES (1, 2), (1, 2)) AS t(a, b)", json!(0.0)),
        ("fleiss_kappa(1, a) FROM (VALUES (1), (1)) AS t(a)", Value::Null),
        ("fleiss_kappa(a, a) FROM (VALUES (1), (2)) AS t(a)", Value::Null),
        ("f1_score(a, a)['f1'] FROM (VALUES ('x'), ('x')) AS t(a)", json!(1.0)),
        ("f1_score(a, b, 'micro')['f1'] FROM (VALUES ('x', 'y')) AS t(a, b)", json!(0.0)),
        ("class_scores(a, b)[1]['recall'] FROM (VALUES ('x', 'y')) AS t(a, b)", json!(0.0)),
        ("calibration(a, a = 1, 2)['bins'][1]['low'] FROM (VALUES (0), (1)) AS t(a)", json!(0.0)),
    ] {
        let found =
            rows(&context, &format!("SELECT {sql}").replace(" FROM (VALUES", " AS x FROM (VALUES"))
                .await;
        assert_eq!(found[0].get("x").cloned().unwrap_or_default(), expected, "{sql}");
    }
    // No rows at all: NULL, and no row when unnested.
    let none = "FROM (VALUES ('x', 1.0, true)) AS t(a, b, c) WHERE a = 'y'";
    for call in [
        "mode(a)",
        "majority(a)",
        "weighted_vote(a, b)",
        "cohen_kappa(a, a)",
        "fleiss_kappa(a, a)",
        "f1_score(a, a)",
        "class_scores(a, a)",
        "confusion_matrix(a, a)",
        "calibration(b, c)",
    ] {
        let found = rows(&context, &format!("SELECT {call} IS NULL AS none {none}")).await;
        assert_eq!(found, [json!({"none": true})], "{call}");
    }
    assert_eq!(rows(&context, &format!("SELECT unnest(class_scores(a, a)) {none}")).await.len(), 0);
}

#[tokio::test]
async fn wrong_values_are_named() {
    let context = context();
    for (call, expected) in [
        ("weighted_vote(v, x / 0)", "`weighted_vote`: value `inf`; expected a finite number"),
        (
            "calibration(x, true)",
            "`calibration`: `confidence` is `2`; expected a probability between 0 and 1",
        ),
        (
            "calibration(x / 2, true, 0)",
            "`calibration`: argument `bins`: `0` bins; expected between 1 and 1000",
        ),
        ("calibration(x / 2, true, 1001)", "`1001` bins; expected between 1 and 1000"),
        ("calibration(x / 2, 'yes')", "argument `right` is of type Utf8; expected a boolean"),
        (
            "cohen_kappa(v, v, 'cubic')",
            "argument `weights`: weights `cubic`; expected `none`, `linear` or `quadratic`",
        ),
        (
            "f1_score(v, v, 'mean')",
            "argument `average`: average `mean`; expected `macro`, `micro` or `weighted`",
        ),
        (
            "fleiss_kappa(v, x::int)",
            "item `b` has 2 ratings and item `a` has 1; expected equally many for all",
        ),
        (
            "mode(x)",
            "`mode`: argument `label` is of type Float64; expected text, a whole number or a boolean",
        ),
        ("weighted_vote(DISTINCT v, x)", "`weighted_vote(DISTINCT ...)`: expected all rows"),
    ] {
        let sql =
            format!("SELECT {call} FROM (VALUES ('a', 1e0), ('b', 2e0), ('b', 2e0)) AS t(v, x)");
        let message = batch(&context, &sql).await.unwrap_err().strip_backtrace();
        assert!(message.contains(expected), "{call}: {message}");
    }
    let sql = "SELECT confusion_matrix(v, v) FROM (SELECT unnest(range(0, 1001)) AS v)";
    let message = batch(&context, sql).await.unwrap_err().strip_backtrace();
    assert!(
        message.contains("`confusion_matrix`: 1001 classes; expected at most 1000"),
        "{message}"
    );
}
