//! `corpus_bleu`: BLEU of a corpus.

use datafusion::arrow::array::{Array, ArrayRef, AsArray};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::common::ScalarValue;
use datafusion::logical_expr::Accumulator;

use super::tally::Tally;
use super::{AggregateDefinition, Constants};
use crate::definition::{Argument, Doc, Example, FunctionKind, Kind};
use crate::text::bleu::{BleuOptions, BleuStats, ORDER, Smoothing};

/// SQL aggregate `corpus_bleu`.
pub static CORPUS_BLEU: AggregateDefinition = AggregateDefinition {
    doc: Doc {
        name: "corpus_bleu",
        version: 1,
        kind: FunctionKind::Aggregate,
        description: "Corpus BLEU-4 as sacrebleu's `corpus_bleu`: 13a tokenizer, case kept, 0 to 100, \
            counts summed over the rows. Store `bleu_signature` with it. Rows with a NULL are \
            left out; NULL without rows.",
        arguments: &[
            Argument::required("hypothesis", Kind::Text, "The text to be scored."),
            Argument::required(
                "references",
                Kind::Texts,
                "The reference text or a list of them; a row without any is left out.",
            ),
            Argument::optional(
                "smoothing",
                Kind::Choice(Smoothing::NAMES),
                "`exp` (default), `floor`, `add-k` or `none`.",
            ),
            Argument::optional(
                "smoothing_value",
                Kind::ConstantNumber,
                "Value of `floor` (default 0.1) or `add-k` (default 1).",
            ),
        ],
        returns: "a double from 0 to 100",
        example: Example {
            sql: "SELECT round(corpus_bleu(h, r), 4) AS bleu FROM (VALUES ('the cat sat on the mat', 'the cat sat on a mat'), ('hello there', 'hello there')) AS t(h, r)",
            result: "
+---------+
| bleu    |
+---------+
| 55.8395 |
+---------+
",
        },
    },
    return_type,
    state: Tally::state_type,
    accumulator,
};

fn return_type() -> DataType {
    DataType::Float64
}

fn accumulator(constants: &Constants) -> Result<Box<dyn Accumulator>> {
    let value = constants.number(3);
    let smoothing = constants.choice(2, |name| Smoothing::new(name, value))?;
    let smoothing = smoothing.unwrap_or(BleuOptions::CORPUS.smoothing);
    let options = BleuOptions { smoothing, ..BleuOptions::CORPUS };
    Tally::boxed(
        1 + 2 + 2 * ORDER,
        Box::new(move |columns, counts| {
            segments(columns, |hypothesis, references| {
                if let Some(stats) =
                    BleuStats::of_segment(hypothesis, references, options.lowercase)
                {
                    let lengths = [1, stats.hypothesis_len, stats.reference_len];
                    let numbers = lengths.into_iter().chain(stats.matched).chain(stats.total);
                    counts.iter_mut().zip(numbers).for_each(|(sum, number)| *sum += number);
                }
            })
        }),
        Box::new(move |counts| {
            let stats = BleuStats {
                hypothesis_len: counts[1],
                reference_len: counts[2],
                matched: std::array::from_fn(|order| counts[3 + order]),
                total: std::array::from_fn(|order| counts[3 + ORDER + order]),
            };
            Ok(ScalarValue::Float64((counts[0] > 0).then(|| stats.score(&options))))
        }),
    )
}

/// Calls `score` with every row that has a hypothesis and at least one reference.
pub(super) fn segments(columns: &[ArrayRef], mut score: impl FnMut(&str, &[&str])) -> Result<()> {
    let hypotheses = columns[0].as_string_view();
    let references = &columns[1];
    let mut texts: Vec<&str> = Vec::new();
    let lists = references.as_list_opt::<i64>();
    let elements = match lists {
        Some(lists) => lists.values().as_string_view(),
        None => references.as_string_view(),
    };
    for (row, hypothesis) in hypotheses.iter().enumerate() {
        let Some(hypothesis) = hypothesis.filter(|_| references.is_valid(row)) else {
            continue;
        };
        let range = match lists {
            Some(lists) => {
                lists.value_offsets()[row] as usize..lists.value_offsets()[row + 1] as usize
            }
            None => row..row + 1,
        };
        texts.clear();
        texts.extend(range.filter(|i| elements.is_valid(*i)).map(|i| elements.value(i)));
        if !texts.is_empty() {
            score(hypothesis, &texts);
        }
    }
    Ok(())
}
