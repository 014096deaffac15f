//! JSON in SQL: steps, types, what is not JSON, steps that vary from row to row, the operators.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]

mod support;

use support::{batch, context, scalar};

#[tokio::test]
async fn values_are_found_and_everything_else_is_null() {
    let context = context();
    let json = r#"'{"s": "a \"b\" é", "i": 7, "f": 0.1, "g": 2.0, "big": 9007199254740993, "t": true, "n": null,
        "o": {"k": [10, {"x": "y"}]}, "a": [1, "2", [3]], "": "empty", "twice": 1, "twice": 2}'"#;
    for (call, expected) in [
        ("json_get(j, 's')", r#""a \"b\" é""#),
        ("json_get(j, 'o')", r#"{"k": [10, {"x": "y"}]}"#),
        ("json_get(j, 'n')", "null"),
        ("json_get(j, 'none')", "NULL"),
        ("json_get(j, 'o', 'k', 1, 'x')", r#""y""#),
        ("json_get(j, 'o', 'k', 0)", "10"),
        ("json_get(j, 'twice')", "2"),
        ("json_get(j, 'a', -1)", "[3]"),
        ("json_get(j, 'a', 9)", "NULL"),
        ("json_get(j, 'a', '1')", "NULL"),
        ("j -> 'a' -> '1'", "NULL"),
        ("json_get(j, 's', 'deeper')", "NULL"),
        ("json_as_text(j, 's')", r#"a "b" é"#),
        ("json_as_text(j, 'i')", "7"),
        ("json_as_text(j, 'n')", "NULL"),
        ("json_as_text(j, '')", "empty"),
        ("json_get_str(j, 's')", r#"a "b" é"#),
        ("json_get_str(j, 'i')", "NULL"),
        ("json_get_int(j, 'i')", "7"),
        ("json_get_int(j, 'g')", "2"),
        ("json_get_int(j, 'f')", "NULL"),
        ("json_get_int(j, 'big')", "9007199254740993"),
        ("json_get_int(j, 'a', 1)", "NULL"),
        ("json_get_float(j, 'f')", "0.1"),
        ("json_get_float(j, 'i')", "7"),
        ("json_get_float(j, 's')", "NULL"),
        ("json_get_bool(j, 't')", "true"),
        ("json_get_bool(j, 'i')", "NULL"),
        ("json_length(j, 'a')", "3"),
        ("json_length(j, 'o')", "1"),
        ("json_length(j, 'i')", "NULL"),
        ("json_length('[]')", "0"),
        ("json_get_array(j, 'a')", r#"[1, "2", [3]]"#),
        ("json_get_array(j, 'o')", "NULL"),
        ("json_object_keys(j, 'o')", "[k]"),
        ("json_object_keys(j, 'a')", "NULL"),
        (r#"json_object_keys('{"b": 1, "a": 2, "b": 3}')"#, "[b, a]"),
        (r#"json_length('{"b": 1, "a": 2, "b": 3}')"#, "2"),
        ("json_contains(j, 'n')", "true"),
        ("json_contains(j, 'none')", "false"),
        ("json_contains(j, 'o', 'k', 1)", "true"),
        ("j ->> 'i'", "7"),
        ("j -> 'o' -> 'k' -> 1 ->> 'x'", "y"),
        ("(j ->> 'f')::DOUBLE + 1", "1.1"),
        ("j -> 's'", r#""a \"b\" é""#),
        ("j ->> NULL", "NULL"),
    ] {
        let value = scalar(&context, &format!("SELECT {call} FROM (SELECT {json} AS j)")).await;
        let found = if value.is_null() { "NULL".to_owned() } else { value.to_string() };
        assert_eq!(found, expected, "{call}");
    }
}

#[tokio::test]
async fn what_is_not_json_is_null_and_never_an_error() {
    let context = context();
    let all = "json_get(j, 'a') IS NULL AND json_as_text(j, 'a') IS NULL AND json_get_str(j, 'a') IS NULL AND \
        json_get_int(j, 'a') IS NULL AND json_get_float(j, 'a') IS NULL AND json_get_bool(j, 'a') IS NULL AND \
        json_get_array(j, 'a') IS NULL AND json_length(j, 'a') IS NULL AND json_object_keys(j, 'a') IS NULL AND \
        (j -> 'a') IS NULL AND (j ->> 'a') IS NULL";
    let deep = format!("{{\"a\":{}", "[".repeat(100_000));
    for text in [
        "",
        " ",
        "no",
        "{",
        "{\"a\"",
        "{\"a\":",
        "{\"a\": oops}",
        "{'a': 1}",
        "[1",
        "nul",
        "{\"a\": \"b",
        &deep,
    ] {
        let text = text.replace('\'', "''");
        for from in [
            format!("(SELECT '{text}' AS j)"),
            format!("(VALUES ('{text}'), ('{text}')) AS t(j) WHERE random() < 2 LIMIT 1"),
        ] {
            let found = scalar(
                &context,
                &format!("SELECT {all} AND NOT json_contains(j, 'a') FROM {from}"),
            )
            .await;
            assert_eq!(found.to_string(), "true", "{text:.40}");
        }
    }
    for (call, expected) in [
        // What a model was cut off in does not count in part.
        (r#"json_get_int('{"score": 8, "why": "because', 'score')"#, "NULL"),
        (r#"json_get_int('So: {"score": 8}', 'score')"#, "NULL"),
        (r#"json_get_int(extract_json('So: {"score": 8}. Bye.'), 'score')"#, "8"),
        (r#"json_get_int(extract_json('{"score": 8, "why": "because'), 'score')"#, "NULL"),
        ("json_contains(NULL, 'a')", "NULL"),
        ("json_contains('{}', NULL)", "NULL"),
    ] {
        let value = scalar(&context, &format!("SELECT {call}")).await;
        let found = if value.is_null() { "NULL".to_owned() } else { value.to_string() };
        assert_eq!(found, expected, "{call}");
    }
}

#[tokio::test]
async fn steps_may_vary_from_row_to_row() {
    let context = context();
    let sql = r#"SELECT array_agg(json_as_text(j, k, i, 'x') ORDER BY n) AS three,
            array_agg(json_contains(j, k) ORDER BY n) AS one, array_agg(json_get_int('[5, 6]', i) ORDER BY n) AS constant
        FROM (VALUES (0, '{"a": [{"x": 1}, {"x": 2}]}', 'a', 1), (1, '{"b": [{"x": 3}]}', 'b', 0), (2, '{}', 'b', 0),
            (3, NULL, 'b', 1), (4, '{"b": [{"x": 3}]}', NULL, NULL)) AS t(n, j, k, i)"#;
    let found = batch(&context, sql).await.unwrap();
    let column = |at: usize| {
        let value = datafusion::common::ScalarValue::try_from_array(found.column(at), 0).unwrap();
        value.to_string()
    };
    assert_eq!(column(0), "[2, 3, , , ]");
    assert_eq!(column(1), "[true, true, false, , ]");
    assert_eq!(column(2), "[6, 5, 5, 6, ]");
}

#[tokio::test]
async fn wrong_arguments_are_named() {
    let context = context();
    for (call, expected) in [
        ("json_get('{}')", "`json_get` with 1 arguments; expected json_get(json, step, …)"),
        ("json_length()", "`json_length` with 0 arguments; expected json_length(json [, step, …])"),
        ("json_get(1, 'a')", "`json_get`: argument `json` is of type Int64; expected text"),
        (
            "json_get('{}', 1.5)",
            "argument `step` is of type Float64; expected text or a whole number",
        ),
        ("json_get('{}', 'a', true)", "argument `step` is of type Boolean"),
        ("'{}' -> ['a']", "argument `step` is of type List"),
    ] {
        let message =
            batch(&context, &format!("SELECT {call}")).await.unwrap_err().strip_backtrace();
        assert!(message.contains(expected), "{call}: {message}");
    }
}
