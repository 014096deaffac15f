//! Rows per second of every function, through SQL on one partition.
//!
//! Run with `cargo bench -p proofmill-udfs`; a name as argument measures only functions that
//! contain it.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "a benchmark reads the clock, and stops where it cannot go on"
)]

use std::sync::Arc;
use std::time::{Duration, Instant};

use datafusion::arrow::array::{ArrayRef, Float64Array, RecordBatch, StringArray};
use datafusion::prelude::{SessionConfig, SessionContext};

#[path = "../tests/support/model.rs"]
mod model;

/// Rows of the table: hypotheses and references of about 25 words.
const ROWS: usize = 20_000;
/// Each query runs at least this often, and until the time below has passed.
const RUNS_MIN: u32 = 3;
const TIME_MIN: Duration = Duration::from_millis(500);

const CALLS: &[&str] = &[
    "normalize_text(h)",
    "exact_match(h, r)",
    "exact_match(h, [r, h])",
    "token_f1(h, r)",
    "kf1(h, [r, h], 'max')",
    "bleu(h, r)",
    "bleu_signature(1)",
    "nltk_bleu(h, r)",
    "parlai_bleu(h, r)",
    "chrf(h, r)",
    "chrf(h, r, 2)",
    "chrf_signature(1)",
    "rouge(h, r)",
    "rouge(h, r, true)",
    "meteor(h, r)",
    "levenshtein(h, r)",
    "levenshtein_similarity(h, r)",
    "cosine_similarity([x, y, 1.0], [y, x, 1.0])",
    "wilson_interval(CAST(10 * x AS INT), 10)",
    "holm([x, y, 0.5])",
    "benjamini_hochberg([x, y, 0.5])",
    "paired_sample_size(x / 10, 0.2)",
    "two_proportion_z(CAST(10 * x AS INT), 10, CAST(10 * y AS INT), 10)",
    "sign_e_value(CAST(10 * x AS INT), CAST(10 * y AS INT))",
    "alpha_spent(1 + CAST(10 * x AS INT))",
    "slot_value(h, 'proof')",
    "render('Q: {{ h }} A:', {h: h})",
    "kf1_sets(h, [r, h], ['the', 'a'])",
    "bert_score([[x, y], [y, x]], [[x, 1.0], [y, 1.0]])",
    "premises(h)",
    "reasoning_steps(h)",
    "entailment_proof('a & b -> int1: ' || h, 'a & c -> int1: ' || r)",
    "negation(h)",
    "claim(h)",
    "contradicts(h, r)",
    "list_product([x, y, 0.5])",
    "json_get(concat('{\"a\": [1, {\"b\": ', x, '}]}'), 'a', 1)",
    "json_as_text(concat('{\"a\": ', x, '}'), 'a')",
    "json_get_str(concat('{\"a\": \"', x, '\"}'), 'a')",
    "json_get_int(concat('{\"a\": ', CAST(x AS INT), '}'), 'a')",
    "json_get_float(concat('{\"a\": ', x, '}'), 'a')",
    "json_get_bool(concat('{\"a\": ', x > 0.5, '}'), 'a')",
    "json_get_array(concat('[1, ', x, ']'))",
    "json_length(concat('[1, ', x, ']'))",
    "json_contains(concat('{\"a\": ', x, '}'), 'a')",
    "json_object_keys(concat('{\"a\": ', x, '}'))",
    "extract_json(concat(h, ' {\"a\": ', x, '} ', r))",
    "accuracy(x > 0.5)",
    "mcc(x > 0.5, y > 0.5)",
    "corpus_bleu(h, r)",
    "corpus_chrf(h, r)",
    "bootstrap_ci(x, 1000, 1)",
    "cluster_bootstrap_ci(x, h, 1000, 1)",
    "clustered_se(x, h)",
    "mcnemar(x > 0.5, y > 0.5)",
    "paired_difference(x, y)",
    "clustered_paired(x, y, h)",
    "paired_bootstrap(x, y, 1000, 1)",
    "approximate_randomization(x, y, 1000, 1)",
    "noise_floor(x)",
    "mode(CAST(10 * x AS INT))",
    "majority(x > 0.5)",
    "weighted_vote(CAST(10 * x AS INT), y)",
    "cohen_kappa(CAST(10 * x AS INT), CAST(10 * y AS INT), 'linear')",
    "fleiss_kappa('all', CAST(10 * x AS INT))",
    "f1_score(CAST(10 * x AS INT), CAST(10 * y AS INT))",
    "class_scores(CAST(10 * x AS INT), CAST(10 * y AS INT))",
    "confusion_matrix(CAST(10 * x AS INT), CAST(10 * y AS INT))",
    "calibration(CASE WHEN x > 1 THEN 1 ELSE x END, y > 0.5)",
    // A model that answers at once: what remains is the way of a row to its answer. The ledger is
    // filled by the first run, so later ones replay.
    "generate('echo', h)",
    "fuse('echo', h, [r, h])",
    "score('echo', h, r)",
    "score_choices('echo', h, [r, h])",
    "classify('echo', h, r)",
    "embed('echo', h)",
    "hidden('echo', h)",
];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let wanted = std::env::args().skip(1).find(|argument| !argument.starts_with('-'));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let context = context()?;
    println!("{:<48} {:>12} {:>14}", "call", "µs / row", "rows / s");
    for call in CALLS {
        if wanted.as_ref().is_some_and(|wanted| !call.contains(wanted.as_str())) {
            continue;
        }
        let name = call.split('(').next().unwrap_or_default();
        let aggregate = proofmill_udfs::aggregate_functions().iter().any(|f| f.name() == name);
        // `count` needs every value and costs next to nothing.
        let model = proofmill_udfs::model::placement::asks_model(name);
        let sql = match (aggregate, model) {
            (true, _) => format!("SELECT {call} FROM t"),
            (false, false) => format!("SELECT count({call}) FROM t"),
            (false, true) => format!("SELECT count(a) FROM (SELECT {call} AS a FROM t)"),
        };
        let (start, mut runs) = (Instant::now(), 0);
        while runs < RUNS_MIN || start.elapsed() < TIME_MIN {
            runtime.block_on(async { context.sql(&sql).await?.collect().await })?;
            runs += 1;
        }
        let per_row = start.elapsed().as_secs_f64() / f64::from(runs) / ROWS as f64;
        println!("{call:<48} {:>12.3} {:>14.0}", per_row * 1e6, 1.0 / per_row);
    }
    Ok(())
}

/// A session with the functions and the table `t(h, r, x, y)`.
fn context() -> Result<SessionContext, datafusion::error::DataFusionError> {
    let config = SessionConfig::new().with_target_partitions(1);
    let context = SessionContext::new_with_config(config);
    for function in proofmill_udfs::scalar_functions() {
        context.register_udf(function.as_ref().clone());
    }
    for function in proofmill_udfs::aggregate_functions() {
        context.register_udaf(function.as_ref().clone());
    }
    model::register(&context);
    let text = |salt: usize| -> ArrayRef {
        Arc::new(StringArray::from_iter_values((0..ROWS).map(|row| sentence(row * 2 + salt))))
    };
    let number = |salt: usize| -> ArrayRef {
        let values = (0..ROWS).map(|row| (scatter(row * 2 + salt) % 1000) as f64 / 1000.0);
        Arc::new(Float64Array::from_iter_values(values))
    };
    let columns = [("h", text(0)), ("r", text(1)), ("x", number(0)), ("y", number(1))];
    context.register_batch("t", RecordBatch::try_from_iter(columns)?)?;
    Ok(context)
}

/// About 25 words, a third of them frequent.
fn sentence(seed: usize) -> String {
    const WORDS: &[&str] = &[
        "the",
        "a",
        "of",
        "to",
        "in",
        "drinks",
        "restaurant",
        "prices",
        "reviews",
        "mention,",
        "overpriced",
        "mediocre.",
        "affordable",
        "however",
        "running",
        "relational",
        "view",
        "conducting",
        "electricity",
        "magnetic",
        "copper",
        "naïve",
        "it's",
        "3.5%",
    ];
    let words: Vec<&str> = (0..20 + seed % 11)
        .map(|at| {
            let drawn = scatter(seed * 64 + at);
            let range = if drawn.is_multiple_of(3) { 5 } else { WORDS.len() };
            WORDS[(drawn / 3) % range]
        })
        .collect();
    words.join(" ")
}

fn scatter(seed: usize) -> usize {
    let mut z = (seed as u64).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 31)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    ((z ^ (z >> 29)) >> 16) as usize
}
