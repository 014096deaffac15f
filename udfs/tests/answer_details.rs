//! What model functions return beside an answer: classes, log-probabilities of tokens, states of layers.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]

use std::sync::atomic::Ordering::SeqCst;

use datafusion::arrow::util::pretty::pretty_format_batches;

mod support;

use support::batch;
use support::queries::{all, error, fixture, session, texts};

#[tokio::test]
async fn a_text_has_a_class_and_so_has_a_pair() {
    let context = session(&fixture(), &[&[Some("metals conduct"), None]]);
    let labels = |arguments: &str| format!("SELECT classify('echo', {arguments})['label'] FROM t");
    assert_eq!(texts(&context, &labels("'a', p")).await, [Some("long".to_owned()), None]);
    // A constant NULL is no pair; that of a row is one that is not known.
    assert_eq!(texts(&context, &labels("'a', NULL")).await, all(&["short", "short"]));
    assert_eq!(texts(&context, &labels("'a'")).await, all(&["short", "short"]));
    assert_eq!(
        texts(&context, &labels("p, NULL, {truncate: 8}")).await,
        [Some("long".to_owned()), None]
    );
    let printed = batch(
        &context,
        "SELECT c.label AS label, c.probability AS probability, c.logit AS logit, c.tokens AS tokens, \
         c.truncated AS truncated, c.scores[1]['label'] AS other \
         FROM (SELECT classify('echo', 'a b', 'c d e f g') AS c)",
    );
    let expected = "\
+-------+-------------+-------+--------+-----------+-------+
| label | probability | logit | tokens | truncated | other |
+-------+-------------+-------+--------+-----------+-------+
| long  | 0.75        | 12.0  | 7      | false     | short |
+-------+-------------+-------+--------+-----------+-------+";
    assert_eq!(pretty_format_batches(&[printed.await.unwrap()]).unwrap().to_string(), expected);
    let why = error(&context, "SELECT classify('echo', 'a', {truncate: 8})").await;
    assert!(why.contains("`classify`: argument `pair` is of type Struct"), "{why}");
}

#[tokio::test]
async fn classes_are_recorded_and_replayed() {
    let fixture = fixture();
    let context = session(&fixture, &[&[Some("a")]]);
    let sql = "SELECT classify('echo', p, 'b')['logit'] FROM t";
    assert_eq!(texts(&context, sql).await, all(&["10.0"]));
    let again = "SELECT classify('echo', p, 'b', {replay: 'only'})['logit'] FROM t";
    assert_eq!(texts(&context, again).await, all(&["10.0"]));
    assert_eq!(fixture.echo.requests.load(SeqCst), 1);
}

/// The type of a result says what its options name, and nothing else.
#[tokio::test]
async fn options_that_name_a_field_add_it() {
    let context = session(&fixture(), &[&[Some("é b c")]]);
    let of = |call: &str, field: &str| {
        format!(
            "SELECT array_to_string(array_agg(o.{field}), '|') FROM (SELECT unnest(a.logprobs) AS o FROM (SELECT {call} AS a FROM t))"
        )
    };
    let generate = "generate('echo', p, {logprobs: true, prefix: 'so: '})";
    assert_eq!(texts(&context, &of(generate, "text")).await, all(&["é |b |c"]));
    // In characters, behind the prefix.
    assert_eq!(texts(&context, &of(generate, "offset")).await, all(&["4|6|8"]));
    assert_eq!(texts(&context, &of(generate, "id")).await, all(&["0|1|2"]));
    let as_text = "generate('echo', p, '{\"logprobs\": true}')";
    assert_eq!(texts(&context, &of(as_text, "offset")).await, all(&["0|2|4"]));
    let score = "score('echo', p, 'x y', {logprobs: true, prompt_logprobs: true})";
    assert_eq!(texts(&context, &of(score, "text")).await, all(&["x |y"]));
    let prompt = of(score, "logprob").replace("a.logprobs", "a.prompt_logprobs");
    assert_eq!(texts(&context, &prompt).await, all(&["-2|-1"]));
    // Named and not requested: the field is there, and empty.
    let without = "SELECT generate('echo', p, {logprobs: false})['logprobs'] IS NULL FROM t";
    assert_eq!(texts(&context, without).await, all(&["true"]));
    for call in [
        "generate('echo', p)",
        "score('echo', p, 'x')",
        "score('echo', p, 'x', {prompt_logprobs: true})",
    ] {
        let why = error(&context, &format!("SELECT {call}['logprobs'] FROM t")).await;
        assert!(why.contains("logprobs"), "{why}");
    }
    // A list of answers has them too, and a text that varies cannot ask for them.
    let many = "SELECT generate('echo', p, {logprobs: true, samples: 2, temperature: 1})[2]['logprobs'][1]['text'] FROM t";
    assert_eq!(texts(&context, many).await, all(&["é "]));
    let varies = "SELECT generate('echo', 'a', p) FROM (SELECT '{\"logprobs\": true}' || substr(p, 9) AS p FROM t)";
    let why = error(&context, varies).await;
    assert!(
        why.contains("the options of a row name `logprobs`, and the result has no field for it"),
        "{why}"
    );
    let choices = "SELECT score_choices('echo', p, ['x'], {logprobs: true}) FROM t";
    let why = error(&context, choices).await;
    assert!(why.contains("option `logprobs` is unknown"), "{why}");
}

#[tokio::test]
async fn hidden_states_are_of_a_layer_and_of_some_tokens() {
    let context = session(&fixture(), &[&[Some("ab c")]]);
    let vector = |options: &str| format!("SELECT hidden('echo', p{options})['vector'] FROM t");
    assert_eq!(texts(&context, &vector("")).await, all(&["[2.0, 4.0]"]));
    assert_eq!(texts(&context, &vector(", {layer: -2}")).await, all(&["[2.0, 4.0, -2.0]"]));
    assert_eq!(texts(&context, &vector(", {layer: -1, pool: 'last'}")).await, all(&["[2.0, 4.0]"]));
    let all_tokens = "SELECT hidden('echo', p, {all_tokens: true})['vectors'] FROM t";
    assert_eq!(texts(&context, all_tokens).await, all(&["[[2.0], [1.0]]"]));
    let one = "SELECT hidden('echo', p, {all_tokens: false})['vectors'] FROM t";
    assert_eq!(texts(&context, one).await, all(&["[[2.0, 4.0]]"]));
    for (options, expected) in [
        (
            "{layer: 1.5}",
            "option `layer` is 1.5; expected a whole number from -2147483648 to 2147483647",
        ),
        ("{pool: 'max'}", "option `pool` is \"max\"; expected \"first\" or \"last\" or \"mean\""),
        ("{all_tokens: true, pool: 'mean'}", "option `pool` is mean beside `all_tokens`"),
    ] {
        let why = error(&context, &format!("SELECT hidden('echo', p, {options}) FROM t")).await;
        assert!(why.contains(expected), "{why}");
    }
    let why = error(&context, "SELECT embed('echo', p, {layer: 1}) FROM t").await;
    assert!(why.contains("option `layer` is unknown"), "{why}");
}
