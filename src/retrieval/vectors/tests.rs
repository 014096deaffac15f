//! The search against a loop that anyone can check, over vectors with many ties.

use proptest::prelude::*;

use proofmill_gemm::{Int8Panels, Isa, Level, Scratch, Store};

use crate::topk::Hit;
use crate::vectors::bound::Extent;
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

/// Numbers in -1..1 (SplitMix64).
fn numbers(seed: u64) -> impl Iterator<Item = f32> {
    let mut state = seed;
    std::iter::repeat_with(move || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 40) as f32 / (1u32 << 23) as f32 - 1.0
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// Entries enough that most are left out by their bytes: near a few centres, at any distance from each other, of
    /// any size.
    #[test]
    fn what_bytes_leave_out_is_not_among_the_best(
        seed: u64,
        dimension in 1usize..50,
        centres in 1usize..4,
        spread in prop::sample::select(vec![0.0f32, 1e-7, 1e-4, 1e-2, 1.0]),
        size in prop::sample::select(vec![1e-38f32, 1e-25, 1e-12, 1.0, 1e15]),
        k in 1usize..12,
        threads in 1usize..3,
    ) {
        let mut next = numbers(seed);
        let mut vector = |centre: &[f32], spread: f32| -> Vec<f32> {
            (0..dimension).map(|i| (centre.get(i).unwrap_or(&0.0) + next.next().unwrap() * spread) * size).collect()
        };
        let middle: Vec<Vec<f32>> = (0..centres).map(|_| vector(&[], 1.0 / size)).collect();
        let entries: Vec<Vec<f32>> = (0..3000).map(|i| vector(&middle[i % centres], spread)).collect();
        let queries: Vec<Vec<f32>> = (0..7).map(|i| vector(&middle[i % centres], spread)).collect();
        let found = search(&entries, &queries, dimension, k, 200_000, threads);
        let expected: Vec<_> = queries.iter().map(|query| oracle(&entries, query, k)).collect();
        prop_assert_eq!(found, expected);
    }

    #[test]
    fn no_product_of_bytes_is_further_from_the_score_than_the_bound(
        seed: u64,
        dimension in 1usize..200,
        sizes in prop::array::uniform2(-44i32..17),
    ) {
        let mut next = numbers(seed);
        let [query, entry] = sizes.map(|size| -> Vec<f32> {
            (0..dimension).map(|_| (f64::from(next.next().unwrap()) * 10f64.powi(size)) as f32).collect()
        });
        let mut bytes = Int8Panels::new(1, dimension).unwrap();
        bytes.set(0, &entry);
        let mut product = [0.0];
        let mut scratch = Scratch::default();
        for level in Isa::ALL.into_iter().filter_map(Level::of) {
            bytes.multiply(level, &query, 0..1, Store, &mut product, &mut scratch).unwrap();
            let score = oracle(std::slice::from_ref(&entry), &query, 1)[0].1;
            let bound = Extent::of(&query).bound(Extent::of(&entry), dimension);
            prop_assert!((f64::from(product[0]) - score).abs() <= bound, "{product:?} {score:e} {bound:e}");
        }
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
    for (bytes, expected) in [(0, 16), (2 * 16 * 5, 16), (5 * 2 * 16 * 5 + 7, 80)] {
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
