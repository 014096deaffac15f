//! `corpus_chrf`: chrF and chrF++ of a corpus.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::common::ScalarValue;
use datafusion::logical_expr::Accumulator;

use super::corpus_bleu::segments;
use super::tally::Tally;
use super::{AggregateDefinition, Constants};
use crate::definition::{Argument, Doc, Example, FunctionKind, Kind};
use crate::text::chrf::{CHAR_ORDER, ChrfStats, OrderStats, WORD_ORDER_MAX};

/// SQL aggregate `corpus_chrf`.
pub static CORPUS_CHRF: AggregateDefinition = AggregateDefinition {
    doc: Doc {
        name: "corpus_chrf",
        version: 1,
        kind: FunctionKind::Aggregate,
        description: "Corpus chrF as sacrebleu's `corpus_chrf`: character n-grams up to 6, beta 2, 0 to \
            100, counts summed over the rows; chrF++ with word order 2. Store `chrf_signature` \
            with it. Rows with a NULL are left out; NULL without rows.",
        arguments: &[
            Argument::required("hypothesis", Kind::Text, "The text to be scored."),
            Argument::required(
                "references",
                Kind::Texts,
                "The reference text or a list of them; a row without any is left out.",
            ),
            Argument::optional(
                "word_order",
                Kind::ConstantWhole,
                "Longest word n-gram: 0 (default) is chrF, 2 is chrF++.",
            ),
        ],
        returns: "a double from 0 to 100",
        example: Example {
            sql: "SELECT round(corpus_chrf(h, r), 4) AS chrf FROM (VALUES ('the cat sat on the mat', 'the cat sat on a mat'), ('hello there', 'hello there')) AS t(h, r)",
            result: "
+---------+
| chrf    |
+---------+
| 81.9711 |
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
    let word_order = match constants.whole(2).map_or(Ok(0), usize::try_from) {
        Ok(order) if order <= WORD_ORDER_MAX => order,
        _ => {
            let given = constants.whole(2).unwrap_or_default();
            return constants.refuse(
                2,
                format!("`{given}`; expected a whole number from 0 to {WORD_ORDER_MAX}"),
            );
        }
    };
    Tally::boxed(
        1 + 3 * (CHAR_ORDER + word_order),
        Box::new(move |columns, counts| {
            segments(columns, |hypothesis, references| {
                if let Some(stats) = ChrfStats::of_segment(hypothesis, references, word_order) {
                    counts[0] += 1;
                    for (sums, order) in counts[1..].chunks_mut(3).zip(&stats.orders) {
                        sums[0] += order.hypothesis;
                        sums[1] += order.reference;
                        sums[2] += order.matched;
                    }
                }
            })
        }),
        Box::new(move |counts| {
            let orders = counts[1..].chunks(3).map(|sums| OrderStats {
                hypothesis: sums[0],
                reference: sums[1],
                matched: sums[2],
            });
            let stats = ChrfStats { orders: orders.collect() };
            Ok(ScalarValue::Float64((counts[0] > 0).then(|| stats.score())))
        }),
    )
}
