//! Model functions in SQL: requests, the ledger, sharing, failures, limits, and where they may stand.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use datafusion::arrow::util::pretty::pretty_format_batches;
use datafusion::common::Result;
use datafusion::prelude::SessionContext;
use proofmill_udfs::model::placement::models_called;
use proofmill_udfs::model::{Counts, Recording};

mod support;

use support::model::{Echo, Fixture};
use support::queries::{all, error, fixture, session, texts};
use support::{batch, context, scalar};

/// Waits for what happens on other tasks.
async fn until(what: &str, condition: impl Fn() -> bool) {
    for _ in 0..5000 {
        if condition() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    panic!("never: {what}");
}

#[tokio::test]
async fn an_answer_keeps_its_evidence() {
    let printed = async |options: &str| {
        let sql = format!("SELECT generate('echo', 'a b c', {options})");
        pretty_format_batches(&[batch(&context(), &sql).await.unwrap()]).unwrap().to_string()
    };
    // The key of a request that users have in their ledgers; docs/specs/functions-model.md tells
    // how to compute it with `sha256sum`.
    let digest = "1fc16d91e5bc8b6e1cbe420445219badaa4938375e9d08239c9879ec94f0de41";
    let expected = format!(
        "{{text: a b c, finish_reason: end, prompt_tokens: 3, prompt_truncated: false, \
         output_tokens: 3, logprob: -0.5, score: , seed: , sample: 0, request_digest: {digest}, \
         error: }}"
    );
    let greedy = printed("'{}'").await;
    assert!(greedy.contains(&expected), "{greedy}\nexpected {expected}");
    let options = "{temperature: 0.5, seed: 9, samples: 2, max_tokens: 2, prefix: '> '}";
    let samples = printed(options).await;
    for part in
        ["text: > a b #0", "text: > a b #1", "finish_reason: length", "seed: 9", "sample: 1"]
    {
        assert!(samples.contains(part), "{part} in {samples}");
    }
}

#[tokio::test]
async fn null_prompts_and_empty_tables_ask_nothing() {
    let fixture = fixture();
    let context = session(&fixture, &[&[None, None], &[]]);
    for call in
        ["generate('echo', p)", "score('echo', p, 'x')", "embed('echo', p)", "hidden('echo', p)"]
    {
        let rows =
            texts(&context, &format!("SELECT CAST(({call}) IS NULL AS VARCHAR) FROM t")).await;
        assert_eq!(rows, all(&["true", "true"]), "{call}");
        let none = batch(&context, &format!("SELECT {call} FROM t WHERE p = 'x'")).await.unwrap();
        assert_eq!(none.num_rows(), 0);
    }
    for call in [
        "score('echo', 'x', NULL)",
        "score_choices('echo', 'x', NULL)",
        "score_choices('echo', NULL, ['x'])",
        "fuse('echo', 'x', NULL)",
        "fuse('echo', NULL, ['x'])",
        "generate('echo', NULL, {samples: 2, temperature: 1})",
    ] {
        assert!(scalar(&context, &format!("SELECT {call}")).await.is_null(), "{call}");
    }
    assert_eq!(fixture.echo.opened.load(SeqCst), 0, "the model was opened for nothing");
    assert_eq!(fixture.counters.now(), Counts { settled: 14, ..Counts::default() });
    let defaults = "SELECT generate('echo', 'x', NULL)['text']";
    assert_eq!(scalar(&context, defaults).await.to_string(), "x");
}

#[tokio::test]
async fn all_text_types_constants_and_columns_ask_the_same() {
    let fixture = fixture();
    let context = session(&fixture, &[&[Some("one two"), None, Some("né")]]);
    let dictionary = "Dictionary(Int32, Utf8)";
    for cast in ["Utf8", "LargeUtf8", "Utf8View", dictionary] {
        let sql = format!("SELECT generate('echo', arrow_cast(p, '{cast}'))['text'] FROM t");
        let expected = [Some("one two".to_owned()), None, Some("né".to_owned())];
        assert_eq!(texts(&context, &sql).await, expected, "{cast}");
    }
    assert_eq!(
        texts(&context, "SELECT generate('echo', 'né')['text'] FROM t").await,
        all(&["né"; 3])
    );
    let options = "SELECT generate('echo', 'one two', o)['text'] FROM (VALUES \
                   ('{\"max_tokens\": 1}'), (NULL), ('{}')) AS o(o)";
    assert_eq!(texts(&context, options).await, all(&["one", "one two", "one two"]));
    assert_eq!(fixture.echo.requests.load(SeqCst), 3, "the rest is replayed");
}

#[tokio::test]
async fn recorded_answers_are_replayed_and_counted() {
    let fixture = fixture();
    let context = session(&fixture, &[&[Some("a b"), Some("c"), Some("a b"), None]]);
    let sql = "SELECT generate('echo', p)['text'] FROM t";
    let first = texts(&context, sql).await;
    let expected = Counts {
        rows: 3,
        settled: 4,
        sent: 2,
        answered: 2,
        prompt_tokens: 3,
        output_tokens: 3,
        ..Counts::default()
    };
    assert_eq!(fixture.counters.now(), expected);
    assert_eq!(texts(&context, sql).await, first);
    assert_eq!(fixture.counters.now(), Counts { rows: 6, settled: 8, replayed: 3, ..expected });
    let recorded = fixture.ledger.answers.lock().unwrap();
    let mut kept: Vec<_> = recorded.values().collect();
    kept.sort_by_key(|new| new.request.len());
    assert_eq!((kept.len(), kept[0].kind, kept[0].model.as_str()), (2, "generate", "echo 1"));
    assert!(kept[0].request.contains("\"prompt\":{\"text\":\"c\"}"), "{}", kept[0].request);
}

#[tokio::test]
async fn the_first_answer_wins() {
    let fixture = fixture();
    let rival = "{\"prompt_tokens\":1,\"prompt_truncated\":false,\"body\":{\"generations\":[{\"text\":\
                 \"first\",\"finish\":\"end\",\"logprob\":null,\"score\":null,\"output_tokens\":1}]}}";
    *fixture.ledger.rival.lock().unwrap() = Some(rival.to_owned());
    let context = session(&fixture, &[&[Some("second")]]);
    let sql = "SELECT generate('echo', p)['text'] FROM t";
    assert_eq!(texts(&context, sql).await, all(&["first"]));
    assert_eq!(texts(&context, sql).await, all(&["first"]));
}

#[tokio::test]
async fn equal_requests_of_all_partitions_are_sent_once() {
    let fixture = Fixture::new(Echo::closed(8), Recording::default());
    let rows: &[Option<&str>] = &[Some("a"), Some("b"), Some("a")];
    let context = session(&fixture, &[rows, rows]);
    let query =
        tokio::spawn(
            async move { texts(&context, "SELECT generate('echo', p)['text'] FROM t").await },
        );
    until("both arrive", || fixture.echo.running.load(SeqCst) == 2).await;
    tokio::time::sleep(Duration::from_millis(20)).await;
    assert_eq!(fixture.echo.running.load(SeqCst), 2, "a second one was sent");
    fixture.echo.gate.add_permits(100);
    let mut answers = query.await.unwrap();
    answers.sort();
    assert_eq!(answers, all(&["a", "a", "a", "a", "b", "b"]));
    assert_eq!(fixture.echo.requests.load(SeqCst), 2);
}

#[tokio::test]
async fn another_query_takes_over_what_a_dropped_one_requested() {
    let fixture = Fixture::new(Echo::closed(1), Recording::default());
    let context = session(&fixture, &[&[Some("a")]]);
    let ask = |context: SessionContext| {
        tokio::spawn(
            async move { texts(&context, "SELECT generate('echo', p)['text'] FROM t").await },
        )
    };
    let first = ask(context.clone());
    until("the first asks", || fixture.echo.running.load(SeqCst) == 1).await;
    let second = ask(context.clone());
    tokio::time::sleep(Duration::from_millis(20)).await;
    assert_eq!(fixture.echo.requests.load(SeqCst), 1);
    first.abort();
    until("the second asks", || fixture.echo.requests.load(SeqCst) == 2).await;
    fixture.echo.gate.add_permits(1);
    assert_eq!(second.await.unwrap(), all(&["a"]));
}

#[tokio::test]
async fn a_dropped_query_leaves_nothing_behind() {
    let fixture = Fixture::new(Echo::closed(2), Recording::default());
    let context = session(&fixture, &[&[Some("a"), Some("b"), Some("c"), Some("d")]]);
    let running = context.clone();
    let query =
        tokio::spawn(
            async move { texts(&running, "SELECT generate('echo', p)['text'] FROM t").await },
        );
    until("the queue is full", || fixture.echo.running.load(SeqCst) == 2).await;
    query.abort();
    until("all is given up", || fixture.echo.running.load(SeqCst) == 0).await;
    fixture.echo.gate.add_permits(100);
    let sql = "SELECT generate('echo', p)['text'] FROM t";
    assert_eq!(texts(&context, sql).await, all(&["a", "b", "c", "d"]));
    assert_eq!(fixture.echo.requests.load(SeqCst), 6, "no permit was lost, no answer was kept");
}

#[tokio::test]
async fn all_partitions_share_one_bounded_queue() {
    let fixture = Fixture::new(Echo::new(3), Recording::default());
    let prompts: Vec<String> = (0..40).map(|n| format!("prompt {n}")).collect();
    let rows: Vec<Option<&str>> = prompts.iter().map(|p| Some(p.as_str())).collect();
    let context = session(&fixture, &[&rows[..20], &rows[20..]]);
    let answers = texts(&context, "SELECT generate('echo', p)['text'] FROM t").await;
    assert_eq!(answers.len(), 40);
    assert_eq!(fixture.echo.running_max.load(SeqCst), 3);
    assert_eq!(fixture.echo.opened.load(SeqCst), 1);
}

#[tokio::test]
async fn answers_are_recorded_in_chunks_as_they_come() {
    let prompts: Vec<String> = (0..6).map(|n| format!("prompt {n}")).collect();
    let rows: Vec<Option<&str>> = prompts.iter().map(|p| Some(p.as_str())).collect();
    let sql = "SELECT generate('echo', p)['text'] FROM t";
    let slow = Duration::from_secs(3600);
    for (answers, bytes, expected) in
        [(4, 1 << 20, vec![4, 2]), (100, 1, vec![1; 6]), (100, 1 << 20, vec![6])]
    {
        let fixture = Fixture::new(Echo::new(8), Recording { answers, bytes, wait: slow });
        assert_eq!(texts(&session(&fixture, &[&rows]), sql).await.len(), 6);
        assert_eq!(*fixture.ledger.chunks.lock().unwrap(), expected);
    }
    // An answer that waits long enough is recorded though the rest has not come.
    let wait = Duration::from_millis(5);
    let fixture = Fixture::new(Echo::closed(8), Recording { answers: 100, bytes: 1 << 20, wait });
    let context = session(&fixture, &[&rows]);
    fixture.echo.gate.add_permits(2);
    let query = tokio::spawn(async move { texts(&context, sql).await.len() });
    let ledger = Arc::clone(&fixture.ledger);
    until("two are recorded", move || ledger.answers.lock().unwrap().len() == 2).await;
    fixture.echo.gate.add_permits(4);
    assert_eq!(query.await.unwrap(), 6);
}

#[tokio::test]
async fn samples_are_a_list_and_never_collapse() {
    let fixture = fixture();
    let context = session(&fixture, &[&[Some("a"), None]]);
    for options in ["{samples: 3, temperature: 0.7}", "'{\"samples\": 3, \"temperature\": 0.7}'"] {
        let sql = format!(
            "SELECT a['text'] || a['sample'] FROM (SELECT unnest(generate('echo', p, {options})) AS a FROM t)"
        );
        assert_eq!(texts(&context, &sql).await, all(&["a #00", "a #11", "a #22"]), "{options}");
    }
    assert_eq!(fixture.echo.requests.load(SeqCst), 1, "one request, one list");
    let beams =
        "SELECT unnest(generate('echo', 'a', {num_beams: 3, num_return_sequences: 2}))['score']";
    assert_eq!(texts(&context, beams).await, all(&["-0.0", "-1.0"]));
    let one = "SELECT array_length(generate('echo', 'a', {samples: 1}))";
    assert_eq!(scalar(&context, one).await.to_string(), "1");
    let failed = "SELECT unnest(generate('echo', '!fail', {samples: 2, temperature: 1, on_error: \
                  'capture'}))['error']['class']";
    assert_eq!(texts(&context, failed).await, all(&["failed"]));
}

#[tokio::test]
async fn a_failed_row_fails_the_query_and_says_what_to_do() {
    let fixture = fixture();
    let context = session(&fixture, &[&[Some("fine"), Some("!long x")]]);
    let message = error(&context, "SELECT generate('echo', p) FROM t").await;
    let (before, after) = message.split_once("request ").expect("the request");
    assert_eq!(before, "External error: `generate`: model `echo`: ");
    let (label, cause) = after.split_once(": ").unwrap();
    assert!(label.starts_with("`!long x` ("), "{label}");
    assert_eq!(label.len(), "`!long x` ()".len() + 12);
    assert_eq!(
        cause,
        "9 tokens, and 4 is the most; shorten the text, or set `truncate`; correct the row, or set \
         `on_error` to 'capture' to get failed rows with their errors"
    );
    assert!(fixture.ledger.answers.lock().unwrap().len() <= 1, "failures are not recorded");
    let panicked = error(&context, "SELECT generate('echo', '!panic')").await;
    assert!(panicked.contains("the model panicked: paper jam; run again, or set"), "{panicked}");
    let none = error(&context, "SELECT generate('echo', '!none')").await;
    assert!(none.contains("the model gave 0 answers where 1 to 1 were asked for"), "{none}");
    let nan = error(&context, "SELECT embed('echo', '!nan')").await;
    assert!(nan.contains("the model gave NaN in a vector"), "{nan}");
}

#[tokio::test]
async fn a_model_that_cannot_be_used_fails_the_query_even_if_rows_are_captured() {
    let fixture = fixture();
    let context = session(&fixture, &[&[Some("a"), Some("!broken"), Some("b")]]);
    let sql =
        "SELECT g['text'] FROM (SELECT generate('echo', p, {on_error: 'capture'}) AS g FROM t)";
    let said = error(&context, sql).await;
    assert!(
        said.contains("`generate`: model `echo` cannot be used: the paper tray is gone"),
        "{said}"
    );
}

#[tokio::test]
async fn captured_failures_are_rows_and_are_sent_again() {
    let fixture = fixture();
    let rows =
        [Some("fine"), Some("!long"), Some("!invalid"), Some("!fail"), Some("!cancel"), None];
    let context = session(&fixture, &[&rows]);
    let sql = "SELECT coalesce(g['error']['class'] || ': ' || g['error']['message'], g['text'], 'NULL') \
               FROM (SELECT generate('echo', p, {on_error: 'capture'}) AS g FROM t)";
    let expected = all(&[
        "fine",
        "too_long: 9 tokens, and 4 is the most; shorten the text, or set `truncate`",
        "invalid: makes no sense",
        "failed: out of paper",
        "cancelled: the request was cancelled",
        "NULL",
    ]);
    assert_eq!(texts(&context, sql).await, expected);
    assert_eq!(fixture.counters.now().rows, 5, "a call whose result is used thrice is made once");
    assert_eq!(fixture.counters.now().failed, 4);
    assert_eq!(fixture.echo.requests.load(SeqCst), 5);
    assert_eq!(texts(&context, sql).await, expected);
    assert_eq!(fixture.echo.requests.load(SeqCst), 9, "failures are sent again");
    let evidence = "SELECT count(*) FROM (SELECT generate('echo', p, {on_error: 'capture'}) AS g FROM t) \
                    WHERE g['error'] IS NOT NULL AND g['text'] IS NULL AND length(g['request_digest']) = 64";
    assert_eq!(scalar(&context, evidence).await.to_string(), "4");
}

#[tokio::test]
async fn blank_answers_are_given_but_not_recorded() {
    let fixture = fixture();
    let context = session(&fixture, &[&[Some(" ")]]);
    assert_eq!(texts(&context, "SELECT generate('echo', p)['text'] FROM t").await, all(&[""]));
    assert!(fixture.ledger.answers.lock().unwrap().is_empty());
}

#[tokio::test]
async fn replay_only_never_asks() {
    let fixture = fixture();
    let context = session(&fixture, &[&[Some("a")]]);
    let only = "SELECT generate('echo', p, {replay: 'only'})['text'] FROM t";
    let message = error(&context, only).await;
    assert!(message.contains("there is no recorded answer, and `replay` is 'only'"), "{message}");
    assert_eq!(fixture.echo.requests.load(SeqCst), 0);
    texts(&context, "SELECT generate('echo', p)['text'] FROM t").await;
    assert_eq!(texts(&context, only).await, all(&["a"]));
}

#[tokio::test]
async fn models_and_ledgers_that_cannot_be_used_fail_the_query() {
    let fixture = fixture();
    let context = session(&fixture, &[&[Some("a")], &[Some("b")]]);
    let message = error(&context, "SELECT generate('broken', p) FROM t").await;
    assert!(
        message.contains(
            "`generate`: model `broken` cannot be used: `weights.bin` is missing; download it"
        ),
        "{message}"
    );
    error(&context, "SELECT generate('broken', p) FROM t").await;
    assert_eq!(fixture.echo.opened.load(SeqCst), 1, "opened twice");
    fixture.ledger.full.store(true, SeqCst);
    let message = error(&context, "SELECT generate('echo', p) FROM t").await;
    assert!(
        message.contains("the ledger of answers cannot be used: the disk is full"),
        "{message}"
    );
    fixture.ledger.full.store(false, SeqCst);
    texts(&context, "SELECT generate('echo', p)['text'] FROM t").await;
    for new in fixture.ledger.answers.lock().unwrap().values_mut() {
        new.answer = "{}".into();
    }
    let message = error(&context, "SELECT generate('echo', p) FROM t").await;
    assert!(message.contains("does not fit it (missing field `prompt_tokens`"), "{message}");
}

#[tokio::test]
async fn choices_are_compared_as_requested() {
    let context = context();
    for (options, best) in [
        // Log-probabilities -5, -5, -9; tokens 1, 1, 2; bytes 5, 5, 9.
        ("{normalize: 'none'}", "0"),
        ("{normalize: 'tokens'}", "2"),
        ("{normalize: 'bytes'}", "0"),
        ("{normalize: 'bytes', include_eos: true}", "0"),
    ] {
        let sql = format!(
            "SELECT score_choices('echo', 'q', ['apple', 'peach', 'two words'], {options})['best']"
        );
        assert_eq!(scalar(&context, &sql).await.to_string(), best, "{options}");
    }
    let sql = "SELECT round(c['probability'], 6) FROM (SELECT unnest(score_choices('echo', 'q', ['a', 'bb'])['choices']) AS c)";
    assert_eq!(texts(&context, sql).await, all(&["0.731059", "0.268941"]));
    for (call, expected) in [
        (
            "score_choices('echo', 'q', make_array())",
            "argument `choices` is empty; expected at least one",
        ),
        ("score_choices('echo', 'q', ['a', NULL])", "choice 2 of `choices` is NULL"),
        (
            "score_choices('echo', 'q', ['a', ''])",
            "continuation `` has no tokens, so it has no score",
        ),
        (
            "score_choices('echo', 'q', [''], {normalize: 'bytes', include_eos: true})",
            "choice 1 of `choices` is empty, and `normalize` divides by its bytes",
        ),
        ("fuse('echo', 'q', make_array())", "argument `passages` is empty; expected at least one"),
        ("fuse('echo', 'q', ['a', NULL])", "passage 2 of `passages` is NULL"),
    ] {
        let message = error(&context, &format!("SELECT {call}")).await;
        assert!(message.contains(expected), "{call}: {message}");
    }
    let titled = "SELECT fuse('echo', 'q', [{title: 'T', text: 'c'}, {title: arrow_cast(NULL, 'Utf8'), text: 'd'}])['text']";
    let expected = "question: q title: T context: c | question: q title: context: d";
    assert_eq!(scalar(&context, titled).await.to_string(), expected);
}

#[tokio::test]
async fn mistakes_are_found_when_the_query_is_planned() {
    let fixture = fixture();
    let context = session(&fixture, &[&[Some("a")]]);
    for (call, expected) in [
        (
            "generate('echo')",
            "`generate` with 1 arguments; expected generate(model, prompt [, options])",
        ),
        ("generate('ecko', p)", "`generate`: there is no model `ecko`; did you mean `echo`?"),
        (
            "generate('gpt', p)",
            "`generate`: there is no model `gpt`; expected one of `broken`, `echo`",
        ),
        (
            "generate(NULL, p)",
            "argument `model` is NULL; expected the name of a model as a constant text",
        ),
        ("generate(p, p)", "argument `model` varies from row to row; expected the name of a model"),
        (
            "generate(1, p)",
            "argument `model` is of type Int64; expected the name of a model as a constant text",
        ),
        ("generate('echo', 1)", "argument `prompt` is of type Int64; expected text"),
        (
            "generate('echo', p, 1)",
            "argument `options` is of type Int64; expected a JSON object as text, or a struct",
        ),
        (
            "generate('echo', p, '{')",
            "`generate`: argument `options` is no JSON object: EOF while parsing",
        ),
        (
            "generate('echo', p, '{\"max_token\": 1}')",
            "option `max_token` is unknown; did you mean `max_tokens`?",
        ),
        (
            "generate('echo', p, {max_token: length(p)})",
            "option `max_token` is unknown; did you mean `max_tokens`?",
        ),
        (
            "embed('echo', p, {max_tokens: 1})",
            "option `max_tokens` is unknown; expected one of `truncate`, `truncation_side`, `on_error`, `replay`",
        ),
        (
            "generate('echo', p, {max_tokens: 0})",
            "option `max_tokens` is 0; expected a whole number from 1",
        ),
        (
            "score('echo', p)",
            "`score` with 2 arguments; expected score(model, prompt, continuation [, options])",
        ),
        (
            "score_choices('echo', p, 'x')",
            "argument `choices` is of type Utf8; expected a list of texts",
        ),
        ("fuse('echo', p, [{title: 'x'}])", "expected a list of texts or of struct(title, text)"),
    ] {
        let sql = format!("SELECT {call} FROM t");
        let planned = async { models_called(&context.state().create_logical_plan(&sql).await?) };
        let message = planned.await.expect_err(call).strip_backtrace();
        assert!(message.contains(expected), "{call}: {message}\nexpected: {expected}");
    }
    assert_eq!(fixture.echo.opened.load(SeqCst), 0);
}

#[tokio::test]
async fn options_of_rows_are_checked_row_by_row() {
    let context = context();
    let rows = "FROM (VALUES ('{}'), ('{\"top_p\": 0.5}')) AS t(o)";
    let message = error(&context, &format!("SELECT generate('echo', 'a', o) {rows}")).await;
    let expected = "`generate`: model `echo`: option `top_p` without a `temperature` above 0; add it, or \
                    leave `top_p` out; correct the row, or set `on_error` to 'capture' to get failed \
                    rows with their errors";
    assert!(message.ends_with(expected), "{message}");
    let rows = "FROM (VALUES ('{\"samples\": 2, \"temperature\": 1, \"on_error\": \"capture\"}'), \
                ('{\"on_error\": \"capture\", \"seed\": \"x\"}')) AS t(o)";
    let sql = format!("SELECT generate('echo', 'a', o)['error']['message'] {rows}");
    let several = "the options of a row ask for 2 answers, and the call returns one per row; write \
                   options with `samples` or `num_return_sequences` as a constant text or as a struct";
    let seed = "option `seed` is \"x\"; expected a whole number from 0 to 18446744073709551615";
    assert_eq!(texts(&context, &sql).await, all(&[several, seed]));
}

#[tokio::test]
async fn models_are_called_in_the_select_list_alone() {
    let fixture = fixture();
    let context = session(&fixture, &[&[Some("a"), Some("b")]]);
    let g = "generate('echo', p)['text']";
    let models = async |sql: &str| -> Result<Vec<String>> {
        let plan = context.state().create_logical_plan(sql).await?;
        Ok(models_called(&plan)?.into_iter().collect())
    };
    for (sql, clause) in [
        (format!("SELECT p FROM t WHERE {g} = 'a'"), "WHERE or HAVING"),
        (format!("SELECT {g}, count(*) FROM t GROUP BY 1"), "GROUP BY or an aggregate"),
        (format!("SELECT max({g}) FROM t"), "GROUP BY or an aggregate"),
        (format!("SELECT p FROM t ORDER BY {g}"), "ORDER BY"),
        (
            format!("SELECT t.p FROM t JOIN t AS u ON {} = u.p", g.replace("p)", "t.p)")),
            "the condition of a join",
        ),
        (format!("SELECT row_number() OVER (ORDER BY {g}) FROM t"), "a window function"),
    ] {
        let message = models(&sql).await.expect_err(&sql).strip_backtrace();
        let expected = format!(
            "`generate` stands in {clause}, where no model can be asked; compute it in the SELECT list \
             of a subquery, and use its column here"
        );
        assert!(message.contains(&expected), "{sql}: {message}");
    }
    let together =
        "SELECT generate('echo', p, '{\"samples\": 2, \"temper' || 'ature\": 1}') FROM t";
    let message = models(together).await.unwrap_err().strip_backtrace();
    assert!(
        message.contains("in a text that is put together; write one constant text"),
        "{message}"
    );
    for (sql, expected) in [
        (format!("SELECT g FROM (SELECT p, {g} AS g FROM t) WHERE g = 'a'"), &["a"] as &[&str]),
        (format!("SELECT g FROM (SELECT {g} AS g FROM t) GROUP BY g ORDER BY g DESC"), &["b", "a"]),
        (
            format!("SELECT CASE WHEN p = 'a' THEN {g} ELSE 'no' END FROM t ORDER BY 1"),
            &["a", "no"],
        ),
        (format!("SELECT {g} FROM t ORDER BY p LIMIT 1"), &["a"]),
        (format!("SELECT DISTINCT upper({g}) AS u FROM t ORDER BY u"), &["A", "B"]),
        // One feeds another: written so, or made so by the optimizer.
        (
            format!("SELECT generate('echo', {g} || '!')['text'] AS x FROM t ORDER BY x"),
            &["a!", "b!"],
        ),
        (
            format!(
                "SELECT generate('echo', x)['text'] AS y FROM (SELECT generate('echo', g || '?')['text'] \
                 AS x FROM (SELECT {g} AS g FROM t)) ORDER BY y"
            ),
            &["a?", "b?"],
        ),
    ] {
        assert_eq!(models(&sql).await.unwrap(), ["echo"], "{sql}");
        assert_eq!(texts(&context, &sql).await, all(expected), "{sql}");
    }
}
