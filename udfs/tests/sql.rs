//! The functions in SQL: examples, NULL, empty and constant input, types, errors.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, RecordBatch, StringArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Field, Schema};
use datafusion::arrow::util::pretty::pretty_format_batches;
use datafusion::common::ScalarValue;
use datafusion::prelude::SessionContext;
use proofmill_udfs::definition::{Doc, FunctionKind, Kind};

mod support;

use support::{batch, context, scalar};

async fn error(context: &SessionContext, sql: &str) -> String {
    match batch(context, sql).await {
        Ok(batch) => panic!("{sql}: expected an error, got {batch:?}"),
        Err(error) => error.strip_backtrace(),
    }
}

/// A valid constant for an argument.
fn sample(doc: &Doc, index: usize) -> String {
    match doc.arguments[index].kind {
        Kind::Text if doc.arguments[index].name == "json" => match doc.name {
            "json_get_bool" => "'{\"a\": true}'".into(),
            "json_get_int" | "json_get_float" => "'{\"a\": 7}'".into(),
            "json_get_array" => "'{\"a\": [7]}'".into(),
            "json_length" | "json_object_keys" => "'{\"a\": {\"b\": 7}}'".into(),
            _ => "'{\"a\": \"b\"}'".into(),
        },
        Kind::Text if doc.name == "extract_json" => "'so {}'".into(),
        Kind::Text if doc.name == "negation" => "'the cat is here'".into(),
        Kind::Step => "'a'".into(),
        // A slot that the text has.
        Kind::Text if doc.arguments[index].name == "name" => "'prefix'".into(),
        Kind::RawText | Kind::Text | Kind::Label => "'the cat sat'".into(),
        Kind::Texts => "['a cat sat', 'the dog']".into(),
        Kind::Numbers => "[0.01, 0.5]".into(),
        Kind::Number => ["0.1", "0.4"][index % 2].into(),
        Kind::Whole => ["3", "5"][index % 2].into(),
        Kind::Boolean | Kind::Switch => "true".into(),
        Kind::Choice(names) => {
            format!("'{}'", if names.contains(&"floor") { "floor" } else { names[0] })
        }
        Kind::ConstantNumber => "0.25".into(),
        Kind::ConstantWhole => "2".into(),
        Kind::Model => "'echo'".into(),
        Kind::Prompt => "'the cat'".into(),
        Kind::TextList | Kind::Passages => "['the cat', 'the dog']".into(),
        Kind::Options => "'{\"truncate\": 9}'".into(),
        Kind::Record => "{a: 'the cat'}".into(),
        Kind::Vectors => "[[0.1, 0.5], [0.5, 0.5]]".into(),
    }
}

fn of_kind(kind: FunctionKind) -> Vec<&'static Doc> {
    proofmill_udfs::docs().into_iter().filter(|doc| doc.kind == kind).collect()
}

fn samples(doc: &Doc) -> Vec<String> {
    (0..doc.arguments.len()).map(|index| sample(doc, index)).collect()
}

#[tokio::test]
async fn every_example_prints_its_result() {
    let mut wrong = String::new();
    for doc in proofmill_udfs::docs() {
        let batch = batch(&context(), doc.example.sql).await;
        let batch = batch.unwrap_or_else(|error| panic!("{}: {error}", doc.name));
        let printed = pretty_format_batches(&[batch]).expect("a table").to_string();
        if printed != doc.example.result.trim() {
            wrong.push_str(&format!("@@{}\n{printed}\n", doc.name));
        }
    }
    assert!(wrong.is_empty(), "examples print:\n{wrong}");
}

#[test]
fn every_record_is_complete_and_every_function_is_measured() {
    let benches = include_str!("../benches/functions.rs");
    let docs = proofmill_udfs::docs();
    for doc in &docs {
        assert!(doc.description.ends_with('.') && !doc.returns.is_empty(), "{}", doc.name);
        assert!(doc.arguments.iter().all(|a| a.description.ends_with('.')), "{}", doc.name);
        assert!(doc.example.sql.contains(doc.name), "{}", doc.name);
        assert!(doc.version >= 1 && proofmill_udfs::version(doc.name) == Some(doc.version));
        assert!(benches.contains(&format!("\"{}(", doc.name)), "{} has no bench", doc.name);
        let optional = doc.arguments.iter().skip_while(|argument| !argument.optional);
        assert!(optional.clone().all(|argument| argument.optional), "{}", doc.name);
        assert_eq!(docs.iter().filter(|other| other.name == doc.name).count(), 1, "{}", doc.name);
    }
    assert_eq!(proofmill_udfs::version("upper"), None);
    for function in proofmill_udfs::scalar_functions() {
        let documentation = function.documentation().expect("documentation");
        assert!(documentation.syntax_example.starts_with(function.name()));
    }
}

#[tokio::test]
async fn null_in_any_argument_of_a_scalar_function_is_null() {
    let context = context();
    for doc in of_kind(FunctionKind::Scalar) {
        let given = samples(doc);
        let whole = scalar(&context, &format!("SELECT {}({})", doc.name, given.join(", "))).await;
        assert!(!whole.is_null(), "{} of {given:?} is NULL", doc.name);
        for index in 0..given.len() {
            let mut with_null = given.clone();
            with_null[index] = "NULL".into();
            let sql = format!("SELECT {}({})", doc.name, with_null.join(", "));
            assert!(scalar(&context, &sql).await.is_null(), "{sql}");
            // The same in a column whose other row is not NULL, where the argument may vary.
            if !doc.arguments[index].kind.is_constant() {
                let sample = &given[index];
                with_null[index] = "x".into();
                let call = format!("{}({})", doc.name, with_null.join(", "));
                let sql = format!(
                    "SELECT array_agg({call} IS NULL ORDER BY i) FROM \
                     (SELECT 0 AS i, {sample} AS x UNION ALL SELECT 1, NULL)"
                );
                let nulls = scalar(&context, &sql).await.to_string();
                assert_eq!(nulls, "[false, true]", "{sql}");
            }
        }
    }
}

#[tokio::test]
async fn constant_and_column_arguments_give_the_same() {
    let context = context();
    for doc in of_kind(FunctionKind::Scalar) {
        let given = samples(doc);
        let constant =
            scalar(&context, &format!("SELECT {}({})", doc.name, given.join(", "))).await;
        let varying = |index: usize| !doc.arguments[index].kind.is_constant();
        for (index, _) in given.iter().enumerate().filter(|(index, _)| varying(*index)) {
            for all in [false, true] {
                let (mut columns, mut call) = (Vec::new(), given.clone());
                for other in (0..given.len()).filter(|other| varying(*other)) {
                    if all || other == index {
                        columns.push(format!("{} AS x{other}", given[other]));
                        call[other] = format!("x{other}");
                    }
                }
                // `random()` keeps the optimizer from folding the columns.
                let rows = columns.join(", ");
                let sql = format!(
                    "SELECT {}({}) FROM (SELECT {rows} FROM (SELECT unnest([1, 2])) WHERE random() < 2)",
                    doc.name,
                    call.join(", ")
                );
                let batch = batch(&context, &sql).await.unwrap_or_else(|e| panic!("{sql}: {e}"));
                assert_eq!(batch.num_rows(), 2, "{sql}");
                for row in 0..2 {
                    let value = ScalarValue::try_from_array(batch.column(0), row).unwrap();
                    assert_eq!(value, constant, "{sql}");
                }
            }
        }
    }
}

#[tokio::test]
async fn no_rows_in_no_rows_out_and_aggregates_of_nothing_are_null() {
    let context = context();
    for doc in proofmill_udfs::docs() {
        let (mut columns, mut call) = (Vec::new(), samples(doc));
        for (index, argument) in doc.arguments.iter().enumerate() {
            if !argument.kind.is_constant() {
                columns.push(format!("{} AS x{index}", call[index]));
                call[index] = format!("x{index}");
            }
        }
        if columns.is_empty() {
            continue;
        }
        let (call, columns) = (call.join(", "), columns.join(", "));
        let empty =
            format!("SELECT {}({call}) FROM (SELECT {columns} WHERE random() > 2)", doc.name);
        match doc.kind {
            FunctionKind::Scalar | FunctionKind::Model => {
                assert_eq!(batch(&context, &empty).await.unwrap().num_rows(), 0, "{empty}");
            }
            FunctionKind::Aggregate => assert!(scalar(&context, &empty).await.is_null(), "{empty}"),
        }
    }
}

#[tokio::test]
async fn aggregates_leave_out_rows_with_a_null() {
    let context = context();
    for (call, rows, with_nulls) in [
        ("accuracy(a)", "(true), (false)", "(true), (NULL), (false)"),
        ("mcc(a, b)", "(1, 1), (0, 1), (0, 0)", "(1, 1), (0, 1), (NULL, 1), (0, 0), (1, NULL)"),
        (
            "corpus_bleu(a, b)",
            "('x y z w', 'x y z w')",
            "('x y z w', 'x y z w'), (NULL, 'q'), ('q', NULL)",
        ),
        ("corpus_chrf(a, b)", "('abc', 'abd')", "('abc', 'abd'), (NULL, 'q'), ('q', NULL)"),
        ("bootstrap_ci(a, 50, 1)", "(1.0), (2.0)", "(1.0), (NULL), (2.0)"),
        (
            "cluster_bootstrap_ci(a, b, 50, 1)",
            "(1, 'x'), (2, 'y')",
            "(1, 'x'), (NULL, 'x'), (2, 'y'), (5, NULL)",
        ),
        ("clustered_se(a, b)", "(1, 'x'), (2, 'y')", "(1, 'x'), (NULL, 'x'), (2, 'y'), (5, NULL)"),
        ("noise_floor(a)", "(1.0), (2.0)", "(1.0), (NULL), (2.0)"),
        ("mcnemar(a, b)", "(true, false)", "(true, false), (NULL, true), (true, NULL)"),
        ("paired_difference(a, b)", "(1, 0), (3, 1)", "(1, 0), (NULL, 0), (3, 1), (9, NULL)"),
        ("paired_bootstrap(a, b, 50, 1)", "(1, 0), (3, 1)", "(1, 0), (NULL, 0), (3, 1), (9, NULL)"),
        (
            "approximate_randomization(a, b, 50, 1)",
            "(1, 0), (3, 1)",
            "(1, 0), (NULL, 0), (3, 1), (9, NULL)",
        ),
    ] {
        let columns = if rows.contains(", '") || rows.contains("1, ") || rows.contains(", false") {
            "a, b"
        } else {
            "a"
        };
        let sql = |rows: &str| format!("SELECT {call} FROM (VALUES {rows}) AS t({columns})");
        let expected = scalar(&context, &sql(rows)).await;
        assert!(!expected.is_null(), "{call}");
        assert_eq!(scalar(&context, &sql(with_nulls)).await, expected, "{call}");
    }
    let sql = |rows| format!("SELECT clustered_paired(a, b, c) FROM (VALUES {rows}) AS t(a, b, c)");
    let whole = scalar(&context, &sql("(1, 0, 'x'), (0, 0, 'y')")).await;
    let holes = "(1, 0, 'x'), (0, 0, 'y'), (NULL, 0, 'x'), (1, NULL, 'x'), (1, 1, NULL)";
    assert_eq!(scalar(&context, &sql(holes)).await, whole);
}

#[tokio::test]
async fn all_string_and_list_types_read_the_same() {
    let words: ArrayRef =
        Arc::new(StringArray::from(vec![Some("the Cat"), None, Some("naïve 中")]));
    let list = |item: DataType| Arc::new(Field::new_list_field(item, true));
    let mut results = Vec::new();
    for text in [DataType::Utf8, DataType::LargeUtf8, DataType::Utf8View] {
        let texts = cast(&words, &text).unwrap();
        for golds in [
            text.clone(),
            DataType::List(list(text.clone())),
            DataType::LargeList(list(text.clone())),
            DataType::FixedSizeList(list(text.clone()), 1),
        ] {
            let golds =
                if golds == text { Arc::clone(&texts) } else { cast(&texts, &golds).unwrap() };
            let schema = Schema::new(vec![
                Field::new("a", texts.data_type().clone(), true),
                Field::new("b", golds.data_type().clone(), true),
            ]);
            let batch_in =
                RecordBatch::try_new(Arc::new(schema), vec![Arc::clone(&texts), golds]).unwrap();
            let context = context();
            context.register_batch("t", batch_in).unwrap();
            let sql = "SELECT exact_match(a, b), token_f1(a, b)['f1'], bleu(a, b), chrf(a, b), meteor(a, b), \
                       rouge(a, b)['rouge1']['f1'], kf1(a, b)['f1'], normalize_text(a) FROM t";
            let batch = batch(&context, sql).await.unwrap();
            results.push(pretty_format_batches(&[batch]).unwrap().to_string());
            let sql = "SELECT corpus_bleu(a, b), corpus_chrf(a, b) FROM t";
            assert!(!support::batch(&context, sql).await.unwrap().column(0).is_null(0));
        }
    }
    assert!(results[0].contains("true") && results[0].contains("naïve 中"), "{}", results[0]);
    assert!(results.iter().all(|result| *result == results[0]), "{results:#?}");
}

#[tokio::test]
async fn a_list_of_golds_is_not_its_characters() {
    let context = context();
    for (call, expected) in [
        ("exact_match('great', 'great')", "true"),
        ("exact_match('', 'great')", "false"),
        ("exact_match('g', 'great')", "false"),
        ("exact_match('b', ['a cat', NULL, 'B.'])", "true"),
        ("exact_match('b', make_array(NULL))", "NULL"),
        ("exact_match('', ['x', ''])", "true"),
        ("kf1('x', make_array())['f1']", "0"),
        ("premises('$proof$ = [PREMISE] a. [PREMISE] [PREMISE] b. ; $x$ = y')", "[a., b.]"),
        ("premises('a. [PREMISE]b.')", "[a., b.]"),
        ("array_length(premises('$proof$ = [PREMISE] '))", "0"),
        ("slot_value('well $A$ = x ; $b$ = y ; $a$ = z', 'a')", "x ~AND~ z"),
        ("slot_value('well $A$ = x', 'PREFIX')", "well"),
        (
            "render('{{ a }} {{ b.c[1] }} {{ d }}', {a: 1.5, b: {c: ['x', 'y']}, d: true})",
            "1.5 y True",
        ),
        ("render('{% if a %}{{ a }}{% else %}-{% endif %}' || chr(10), {a: NULL})", "-"),
        ("render('{% for x in a %}{{ x.n }}{% endfor %}', {a: [{n: 1}, {n: 2}]})", "12"),
        ("render('{{ a }}', {a: DATE '2026-01-02'})", "2026-01-02"),
        ("render(NULL, {a: 1})", "NULL"),
        (
            "kf1_sets('The drinks are cheap', ['drinks', 'cheap beer'], ['the', 'are'])['recall']",
            "0.6666666666666666",
        ),
        ("kf1_sets('the', ['the'], ['the'])['f1']", "0"),
        ("bert_score([[1.0]], [])['f1']", "0"),
        ("bert_score([[1.0], [NULL]], [[1.0]])", "NULL"),
        ("bert_score(NULL, [[1.0]])", "NULL"),
        ("slot_value('$a$ = x', 'prefix')", "NULL"),
        ("slot_value('$a$ = x', 'b')", "NULL"),
        ("reasoning_steps('1. a b. ' || chr(10) || '2) c.' || chr(10) || 'So d.')", "[a b., c.]"),
        ("reasoning_steps('1. a b. ' || chr(10) || '2) c.', 'A  b')", "[c.]"),
        ("array_length(reasoning_steps('no list'))", "0"),
        ("entailment_proof('', 'a -> hypothesis')['leaves_f1']", "NULL"),
        (
            "entailment_proof('', 'a -> hypothesis')['problem']",
            "predicted: no step; expected steps like `sent1 & sent2 -> hypothesis;`",
        ),
        (
            "entailment_proof('a -> hypothesis', 'a')['problem'] LIKE 'gold: step 1 `a` has%'",
            "true",
        ),
        ("entailment_proof('a -> hypothesis', 'a -> hypothesis')['steps_acc']", "true"),
        ("entailment_proof('a -> hypothesis', 'a -> hypothesis')['overall_acc']", "NULL"),
        (
            "entailment_proof('a -> hypothesis', 'a -> hypothesis', 'first', [0.28])['overall_acc']",
            "true",
        ),
        (
            "entailment_proof('a -> hypothesis', 'a -> hypothesis', 'first', [0.2])['overall_acc']",
            "false",
        ),
        (
            "entailment_proof('a -> hypothesis', 'a -> hypothesis', 'first', [NULL])['overall_acc']",
            "NULL",
        ),
        ("contradicts('Steel isn''t hard', 'STEEL is  hard.')", "true"),
        ("contradicts('steel is hard', 'steel is hard')", "false"),
        ("contradicts(NULL, 'steel is hard')", "NULL"),
        ("negation('steel is hard.')", "steel is not hard."),
        ("negation('all steel is hard')", "NULL"),
        ("claim('The steel isn''t hard.')", "{affirmed:steel is hard,denied:true}"),
        ("claim(NULL)", "NULL"),
        ("list_product(CAST([] AS DOUBLE[]))", "1"),
        ("list_product([0.1, 0.7, 3.0]) = 0.1 * 0.7 * 3.0", "true"),
        ("list_product([2, 3])", "6"),
        ("list_product([2.0, NULL])", "NULL"),
        ("cosine_similarity([0.0], [1.0])", "NULL"),
        ("cosine_similarity([1, 0], [4, 0])", "1"),
        ("cosine_similarity([1, NULL], [2, 4])", "NULL"),
        ("wilson_interval(0, 0)", "NULL"),
        ("two_proportion_z(0, 0, 1, 2)", "NULL"),
        ("two_proportion_z(1, 2, 2, 4)['p']", "1"),
        ("sign_e_value(0, 0)", "1"),
        ("round(sign_e_value(2, 0), 9)", "1.5"),
        ("paired_sample_size(0, 0.1)", "NULL"),
        ("nltk_bleu('a b', 'a b') > 1e-155 AND nltk_bleu('a b', 'a b') < 2e-154", "true"),
        ("bleu('a b c', 'a b d', 'none')", "0"),
        ("bleu('a b c', 'a b d', 'floor', 0.5) > bleu('a b c', 'a b d', 'floor')", "true"),
    ] {
        let value = scalar(&context, &format!("SELECT {call}")).await;
        assert_eq!(
            if value.is_null() { "NULL".into() } else { value.to_string() },
            expected,
            "{call}"
        );
    }
}

#[tokio::test]
async fn levenshtein_is_the_one_of_datafusion() {
    let ours = context();
    let theirs = SessionContext::new();
    for text in ["VARCHAR", "LARGE"] {
        let typed = |word: &str| match text {
            "LARGE" => format!("arrow_cast('{word}', 'LargeUtf8')"),
            _ => format!("'{word}'"),
        };
        for (a, b) in [("kitten", "sitting"), ("", "é"), ("naïve", "naive"), ("same", "same")] {
            let sql = format!("SELECT levenshtein({}, {})", typed(a), typed(b));
            assert_eq!(scalar(&ours, &sql).await, scalar(&theirs, &sql).await, "{sql}");
        }
    }
}

#[tokio::test]
async fn wrong_arguments_are_named() {
    let context = context();
    for (call, expected) in [
        (
            "exact_match('a')",
            "`exact_match` with 1 arguments; expected exact_match(prediction, gold [, normalization])",
        ),
        (
            "exact_match(1, 'a')",
            "`exact_match`: argument `prediction` is of type Int64; expected text",
        ),
        (
            "exact_match('a', [1])",
            "argument `gold` is of type List(Int64); expected text or a list of texts",
        ),
        (
            "exact_match('a', 'b', 'SQuAD')",
            "`exact_match`: argument `normalization`: normalisation `SQuAD`; expected `squad`, `parlai` or `plain`",
        ),
        (
            "exact_match('a', 'b', v)",
            "`exact_match`: argument `normalization` varies from row to row; expected one of the constants 'squad', 'parlai', 'plain'",
        ),
        (
            "kf1('a', 'b', 'mean')",
            "`kf1`: argument `aggregate`: aggregate `mean`; expected `concat` or `max`",
        ),
        (
            "bleu('a', 'b', 'foo')",
            "`bleu`: argument `smoothing`: smoothing `foo`; expected `exp`, `floor`, `add-k` or `none`",
        ),
        (
            "bleu('a', 'b', 'exp', 1)",
            "a smoothing value with `exp`; expected one with `floor` or `add-k` only",
        ),
        ("bleu('a', 'b', 'floor', -1)", "smoothing value `-1`; expected a positive number"),
        (
            "nltk_bleu('a', 'b', 0)",
            "`nltk_bleu`: argument `epsilon`: `0`; expected a positive number",
        ),
        (
            "chrf('a', 'b', 9)",
            "`chrf`: argument `word_order`: `9`; expected a whole number from 0 to 4",
        ),
        (
            "rouge('a', 'b', 'yes')",
            "`rouge`: argument `stem` is of type Utf8; expected a constant boolean",
        ),
        (
            "cosine_similarity([1.0], [1.0, 2.0])",
            "`cosine_similarity`: argument `right`: a list of 2 numbers; expected 1 like the first",
        ),
        (
            "wilson_interval(3, 2)",
            "`wilson_interval`: argument `successes`: 3 successes in 2 trials",
        ),
        (
            "two_proportion_z(1, 2, 5, 4)",
            "`two_proportion_z`: argument `second_successes`: 5 successes in 4 trials",
        ),
        (
            "two_proportion_z(1, 2, 3, -4)",
            "argument `second_n`: `-4`; expected a count of 0 or more",
        ),
        ("alpha_spent(0)", "`alpha_spent`: argument `look`: `0`; looks are counted from 1"),
        ("alpha_spent(1, 2)", "argument `alpha`: `2`; expected a number from 0 to 1"),
        ("sign_e_value(1, -1)", "argument `c`: `-1`; expected a count of 0 or more"),
        ("wilson_interval(-1, 2)", "argument `successes`: `-1`; expected a count of 0 or more"),
        (
            "wilson_interval(1, 2, 95)",
            "argument `level`: confidence level `95`; expected a number between 0 and 1",
        ),
        (
            "entailment_proof('a -> hypothesis', 'a -> hypothesis', 'first', [0.1, 0.2])",
            "argument `similarities`: a list of 2 numbers; expected 1, one for each entry of the alignment",
        ),
        (
            "entailment_proof('a', 'b', 'last')",
            "argument `ties`: ties `last`; expected `first` or `unused`",
        ),
        (
            "holm([0.1, 1.5])",
            "`holm`: argument `p`: `p` is `1.5`; expected a probability between 0 and 1",
        ),
        (
            "paired_sample_size(0.3, 0.1)",
            "`paired_sample_size`: `discordance` is `0.1`; expected a probability",
        ),
        (
            "bootstrap_ci(x, 0, 1)",
            "`bootstrap_ci`: argument `n_resamples`: `0` resamples; expected between 1 and 1000000",
        ),
        ("bootstrap_ci(x, CAST(x AS INT), 1)", "`bootstrap_ci`: argument `n_resamples` is `"),
        (
            "bootstrap_ci(x, NULL, 1)",
            "argument `n_resamples` is NULL; expected a constant whole number",
        ),
        (
            "bootstrap_ci(x, 10, 1, 'bc')",
            "argument `method`: method `bc`; expected `percentile` or `bca`",
        ),
        ("bootstrap_ci(x, 10, 1, 'bca', 1)", "argument `level`: confidence level `1`; expected"),
        ("bootstrap_ci(x / 0, 10, 1)", "`bootstrap_ci`: value `inf`; expected a finite number"),
        ("bootstrap_ci(DISTINCT x, 10, 1)", "`bootstrap_ci(DISTINCT ...)`: expected all rows"),
        (
            "corpus_chrf(v, v, 7)",
            "`corpus_chrf`: argument `word_order`: `7`; expected a whole number from 0 to 4",
        ),
        (
            "corpus_bleu(v, v, 'no')",
            "`corpus_bleu`: argument `smoothing`: smoothing `no`; expected",
        ),
        ("accuracy(x)", "`accuracy`: argument `right` is of type Float64; expected a boolean"),
    ] {
        let sql = format!("SELECT {call} FROM (VALUES ('plain', 1e0), ('squad', 2e0)) AS t(v, x)");
        let message = error(&context, &sql).await;
        assert!(message.contains(expected), "{call}: {message}\nexpected: {expected}");
    }
}
