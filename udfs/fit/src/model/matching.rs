//! Heads that begin by looking for the token they stand on: an entailment or a copy is about the same
//! word in two places, and from chance a small model finds that only after thousands of steps.
//!
//! Ours; no paper has it. In the first `count` heads of the encoder and of the decoder's look at the
//! encoder, queries begin as the keys do, so that equal tokens agree most; and as a token agrees with
//! itself as much, positions close by begin with a penalty in the encoder, which leaves the look at the
//! same token further away.

use crate::model::weights::{Plan, Weights};

/// What a query begins as, in parts of its key: enough that an equal token of a text of fifty stands
/// out from chance by far, and little enough that the softmax can still be moved.
const AGREEMENT: f32 = 0.5;
/// Distances that are close by.
const NEAR: usize = 2;
/// What is added to the agreement of tokens close by.
const PENALTY: f32 = -6.0;

/// Changes first weights of a T5 so that the first `count` heads match.
pub fn match_heads(plan: &Plan, count: usize, weights: &mut Weights) {
    let heads = plan.places.first().heads;
    let (matched, outputs) = (count * heads.width, heads.count * heads.width);
    // Matrices of one attention lie side by side, each this wide.
    for block in &plan.places.first().blocks {
        for row in weights[block.attention.qkv.matrix].chunks_exact_mut(3 * outputs) {
            let (queries, keys) = row.split_at_mut(outputs);
            agree(&mut queries[..matched], keys);
        }
    }
    let decoder = plan.places.second().into_iter().flat_map(|decoder| &decoder.blocks);
    for cross in decoder.filter_map(|block| block.cross.as_ref()) {
        let keys = weights[cross.kv.matrix].clone();
        let queries = weights[cross.q.matrix].chunks_exact_mut(outputs);
        for (queries, keys) in queries.zip(keys.chunks_exact(2 * outputs)) {
            agree(&mut queries[..matched], keys);
        }
    }
    let Some((positions, buckets)) = &plan.places.first().relative else { return };
    for bucket in buckets.span(NEAR + 1) {
        let row = bucket * heads.count;
        weights[*positions][row..row + count].fill(PENALTY);
    }
}

/// Queries become what the keys at the same places are, scaled.
fn agree(queries: &mut [f32], keys: &[f32]) {
    for (query, key) in queries.iter_mut().zip(keys) {
        *query = AGREEMENT * key;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::t5::T5Shape;
    use crate::sizes::BUCKETS;
    use proofmill_settings::fit::Sizes;

    #[test]
    fn the_first_heads_ask_for_what_they_stand_on() {
        let sizes = Sizes { d_kv: 4, heads: 3, matching_heads: Some(2), ..Sizes::tiny() };
        let plan = T5Shape::new(&sizes, 10).plan();
        let mut weights = plan.first(3);
        let chance = weights.clone();
        match_heads(&plan, 2, &mut weights);
        let tensor = |weights: &Weights, place: usize, name: &str| {
            let tensors = plan.parameters[place].tensors(&weights[place]);
            let found =
                tensors.into_iter().find(|(at, ..)| at.ends_with(&format!("{name}.weight")));
            found.map(|(.., values)| values).unwrap_or_default()
        };
        let block = &plan.places.first().blocks[1];
        let (q, k) = (
            tensor(&weights, block.attention.qkv.matrix, "q"),
            tensor(&weights, block.attention.qkv.matrix, "k"),
        );
        // Rows of a checkpoint's matrix are outputs: two heads of four.
        let matched = 8 * sizes.d_model;
        assert!(q[..matched].iter().zip(&k).all(|(q, k)| *q == 0.5 * k));
        assert_eq!(q[matched..], tensor(&chance, block.attention.qkv.matrix, "q")[matched..]);
        assert_eq!(k, tensor(&chance, block.attention.qkv.matrix, "k"));
        let cross = plan.places.second().unwrap().blocks[0].cross.as_ref().unwrap();
        let (q, k) =
            (tensor(&weights, cross.q.matrix, "q"), tensor(&weights, cross.kv.matrix, "k"));
        assert!(q[..matched].iter().zip(&k).all(|(q, k)| *q == 0.5 * k));
        let positions = &weights[plan.places.first().relative.as_ref().unwrap().0];
        let near: Vec<usize> = (0..BUCKETS).filter(|i| positions[i * 3] == PENALTY).collect();
        assert_eq!(near, [0, 1, 2, 17, 18]);
        assert!((0..BUCKETS).all(|i| positions[i * 3 + 2] != PENALTY));
    }
}
