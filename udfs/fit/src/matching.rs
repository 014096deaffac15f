//! Heads that begin by looking for the token they stand on: an entailment or a copy is about the same
//! word in two places, and from chance a small model finds that only after thousands of steps.
//!
//! Ours; no paper has it. In the first `count` heads of the encoder and of the decoder's look at the
//! encoder, queries begin as the keys do, so that equal tokens agree most; and as a token agrees with
//! itself as much, positions close by begin with a penalty in the encoder, which leaves the look at the
//! same token further away.

use crate::position::Buckets;
use crate::weights::{Kind, Plan, Weights};

/// What a query begins as, in parts of its key: enough that an equal token of a text of fifty stands
/// out from chance by far, and little enough that the softmax can still be moved.
const AGREEMENT: f32 = 0.5;
/// Distances that are close by.
const NEAR: usize = 2;
/// What is added to the agreement of tokens close by.
const PENALTY: f32 = -6.0;

/// Changes first weights so that the first `count` heads match.
pub fn match_heads(plan: &Plan, count: usize, weights: &mut Weights) {
    if count == 0 {
        return;
    }
    let inner = count * plan.shape.heads.width;
    for block in &plan.places.encoder.blocks {
        let qkv = block.attention.qkv;
        let keys = part(plan, qkv, &weights[qkv], 1, inner);
        put(plan, qkv, &mut weights[qkv], inner, &keys);
    }
    for cross in plan.places.decoder.blocks.iter().filter_map(|block| block.cross.as_ref()) {
        let keys = part(plan, cross.kv, &weights[cross.kv], 0, inner);
        put(plan, cross.q, &mut weights[cross.q], inner, &keys);
    }
    let shape = plan.shape;
    let buckets =
        Buckets { count: shape.buckets, max_distance: shape.max_distance, both_ways: true };
    let heads = shape.heads.count;
    for bucket in buckets.span(NEAR + 1) {
        let row = &mut weights[plan.places.encoder.positions][bucket * heads..][..count];
        row.fill(PENALTY);
    }
}

/// The first `inner` outputs of one of the matrices that lie side by side, input by input.
fn part(plan: &Plan, place: usize, values: &[f32], number: usize, inner: usize) -> Vec<f32> {
    let (outputs, across) = widths(plan, place);
    let rows = values.chunks_exact(across);
    rows.flat_map(|row| row[number * outputs..][..inner].to_vec()).collect()
}

/// Puts them, scaled, in front of the first matrix.
fn put(plan: &Plan, place: usize, values: &mut [f32], inner: usize, keys: &[f32]) {
    let (_, across) = widths(plan, place);
    for (row, keys) in values.chunks_exact_mut(across).zip(keys.chunks_exact(inner)) {
        for (value, key) in row[..inner].iter_mut().zip(keys) {
            *value = AGREEMENT * key;
        }
    }
}

/// Outputs of one matrix of a parameter, and of all side by side.
fn widths(plan: &Plan, place: usize) -> (usize, usize) {
    let parameter = &plan.parameters[place];
    match parameter.kind {
        Kind::Matrix { outputs, .. } => (outputs, parameter.names.len() * outputs),
        Kind::Norm { .. } | Kind::Positions { .. } | Kind::Embedding { .. } => (0, 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shape::Shape;
    use crate::sizes::Sizes;

    #[test]
    fn the_first_heads_ask_for_what_they_stand_on() {
        let sizes = Sizes { d_kv: 4, heads: 3, matching_heads: 2, ..Sizes::tiny() };
        let plan = Plan::new(Shape::new(&sizes, 10));
        let mut weights = plan.first(3);
        let chance = weights.clone();
        match_heads(&plan, 2, &mut weights);
        let tensor = |weights: &Weights, place: usize, name: &str| {
            let tensors = plan.parameters[place].tensors(&weights[place]);
            let found =
                tensors.into_iter().find(|(at, ..)| at.ends_with(&format!("{name}.weight")));
            found.map(|(.., values)| values).unwrap_or_default()
        };
        let block = &plan.places.encoder.blocks[1];
        let (q, k) = (
            tensor(&weights, block.attention.qkv, "q"),
            tensor(&weights, block.attention.qkv, "k"),
        );
        // Rows of a checkpoint's matrix are outputs: two heads of four.
        let matched = 8 * sizes.d_model;
        assert!(q[..matched].iter().zip(&k).all(|(q, k)| *q == 0.5 * k));
        assert_eq!(q[matched..], tensor(&chance, block.attention.qkv, "q")[matched..]);
        assert_eq!(k, tensor(&chance, block.attention.qkv, "k"));
        let cross = plan.places.decoder.blocks[0].cross.as_ref().unwrap();
        let (q, k) = (tensor(&weights, cross.q, "q"), tensor(&weights, cross.kv, "k"));
        assert!(q[..matched].iter().zip(&k).all(|(q, k)| *q == 0.5 * k));
        let positions = &weights[plan.places.encoder.positions];
        let near: Vec<usize> = (0..sizes.buckets).filter(|i| positions[i * 3] == PENALTY).collect();
        assert_eq!(near, [0, 1, 2, 17, 18]);
        assert!((0..sizes.buckets).all(|i| positions[i * 3 + 2] != PENALTY));
    }
}
