//! The search against a loop that anyone can check, over vectors with many ties.

use proptest::prelude::*;

use crate::topk::Hit;
use crate::vectors::{Block, Nearest};

/// All entries by falling score, then by ordinal, the first `k` of them.
fn oracle(entries: &[Vec<f32>], query: &[f32], k: usize) -> Vec<(u32, f64)> {
    let mut scored: Vec<(u32, f64)> = Vec::new();
    for (ordinal, entry) in (0u32..).zip(entries) {
        let mut score = 0.0f32;
        for (x, y) in query.iter().zip(entry) {
            score += x * y;
        }
        scored.push((ordinal, f64::from(score)));
    }
    scored.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    scored.truncate(k);
    scored
}

fn search(
    entries: &[Vec<f32>],
    queries: &[Vec<f32>],
    dimension: usize,
    k: usize,
    block_bytes: usize,
    threads: usize,
) -> Vec<Vec<(u32, f64)>> {
    let vectors = queries.iter().map(Vec::as_slice);
    let mut nearest = Nearest::new(vectors, dimension, k, threads).unwrap();
    let mut block = Block::new(dimension, block_bytes).unwrap();
    for entry in entries {
        if block.is_full() {
            nearest.add(&block).unwrap();
            block.clear();
        }
        block.push(entry).unwrap();
    }
    nearest.add(&block).unwrap();
    let plain = |hit: Hit| (hit.ordinal, hit.score);
    nearest.finish().into_iter().map(|hits| hits.into_iter().map(plain).collect()).collect()
}

/// Entries, queries and their dimension.
fn case(
    number: impl Strategy<Value = f32> + Clone,
) -> impl Strategy<Value = (usize, Vec<Vec<f32>>, Vec<Vec<f32>>)> {
    (1usize..8).prop_flat_map(move |dimension| {
        let vector = prop::collection::vec(number.clone(), dimension);
        let entries = prop::collection::vec(vector.clone(), 0..80);
        (Just(dimension), entries, prop::collection::vec(vector, 0..12))
    })
}

proptest! {
    #[test]
    fn small_numbers_with_many_ties(
        (dimension, entries, queries) in case((-2i8..=2).prop_map(f32::from)),
        k in 1usize..20,
        panels in 1usize..4,
        threads in 1usize..4,
    ) {
        let found = search(&entries, &queries, dimension, k, panels * dimension * 64, threads);
        let expected: Vec<_> = queries.iter().map(|query| oracle(&entries, query, k)).collect();
        prop_assert_eq!(found, expected);
    }

    #[test]
    fn any_numbers_bit_by_bit(
        (dimension, entries, queries) in case(-1e9f32..1e9),
        k in 1usize..20,
    ) {
        let found = search(&entries, &queries, dimension, k, 1, 2);
        let expected: Vec<_> = queries.iter().map(|query| oracle(&entries, query, k)).collect();
        prop_assert_eq!(found, expected);
    }
}

#[test]
fn scores_of_zero_and_below_count() {
    let entries = [vec![-1.0], vec![0.0], vec![-3.0], vec![-0.0]];
    let found = search(&entries, &[vec![2.0]], 1, 4, 1, 1);
    assert_eq!(found, [[(1, 0.0), (3, 0.0), (0, -2.0), (2, -6.0)]]);
}

#[test]
fn a_block_holds_what_fits_and_one_panel_at_least() {
    for (bytes, expected) in [(0, 16), (2 * 16 * 4, 16), (5 * 2 * 16 * 4 + 7, 80)] {
        let mut block = Block::new(2, bytes).unwrap();
        while !block.is_full() {
            block.push(&[1.0, 2.0]).unwrap();
        }
        assert_eq!(block.len(), expected, "{bytes} bytes");
    }
}

#[test]
fn entries_of_other_dimensions_are_refused() {
    let mut nearest = Nearest::new([[1.0f32, 2.0].as_slice()].into_iter(), 2, 1, 1).unwrap();
    let mut block = Block::new(3, 1).unwrap();
    block.push(&[1.0, 2.0, 3.0]).unwrap();
    let flaw = nearest.add(&block).unwrap_err();
    assert_eq!(flaw.to_string(), "has 2 dimensions; expected 3, as all others have");
    assert!(block.push(&[1.0]).is_err());
}

#[test]
fn a_query_that_is_no_vector_is_named_by_its_position() {
    let queries: [&[f32]; 2] = [&[1.0], &[f32::INFINITY]];
    let (position, _) = Nearest::new(queries.into_iter(), 1, 1, 1).err().unwrap();
    assert_eq!(position, 1);
}
