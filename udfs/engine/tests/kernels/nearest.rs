//! Nearest vectors, against a search of them all.

use proofmill_engine::backend::Precision;
use proofmill_engine::cuda::{Gpu, Vectors};

use crate::emulator::{Emulator, pass};
use crate::mutation::Mutation;

type Checked = Result<(), String>;

/// Whole numbers from -3 to 3, so that scores are exact and many are the same.
fn numbers(seed: u32, count: usize) -> Vec<f32> {
    let mut state = seed | 1;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 16) % 7
    };
    (0..count).map(|_| next() as f32 - 3.0).collect()
}

/// As it should be.
fn searched(vectors: &[f32], query: &[f32], count: usize) -> Vec<(u32, f32)> {
    let score = |row: &[f32]| row.iter().zip(query).fold(0.0_f32, |sum, (x, y)| x.mul_add(*y, sum));
    let scores = vectors.chunks(query.len()).map(score);
    let mut all: Vec<(u32, f32)> = (0..).zip(scores).filter(|(_, score)| !score.is_nan()).collect();
    all.sort_by(|(_, left), (_, right)| right.partial_cmp(left).expect("there is no NaN"));
    all.truncate(count);
    all
}

fn compare(
    emulator: &Emulator,
    vectors: &[f32],
    queries: &[f32],
    width: usize,
    count: usize,
) -> Checked {
    let gpu = &mut Gpu::new(emulator.clone(), Precision::F32);
    let found = Vectors::new(gpu, vectors, width)
        .and_then(|mut all| all.nearest(gpu, queries, count))
        .map_err(|error| error.to_string())?;
    let expected: Vec<_> =
        queries.chunks(width).map(|query| searched(vectors, query, count)).collect();
    if found.len() != expected.len() {
        return Err(format!("{} lists instead of {}", found.len(), expected.len()));
    }
    match found.iter().zip(&expected).position(|(found, expected)| found != expected) {
        None => Ok(()),
        Some(at) => Err(format!(
            "query {at} of width {width}: {:?} instead of {:?}",
            found[at], expected[at]
        )),
    }
}

/// Several tiles and blocks, more queries than a block or a launch has, lists of all lengths.
pub fn sizes(emulator: &Emulator) -> Checked {
    for (n, queries, width, count) in [
        (1, 1, 1, 1),
        (5, 2, 3, 8),
        (300, 3, 33, 10),
        (129, 70, 5, 1),
        (400, 33, 8, 128),
        (9, 1, 4, 0),
    ] {
        let (vectors, queries) = (numbers(7, n * width), numbers(8, queries * width));
        compare(emulator, &vectors, &queries, width, count)?;
    }
    Ok(())
}

/// Scores that are NaN are left out, infinite ones are not, and -0 is 0.
pub fn odd(emulator: &Emulator) -> Checked {
    let mut vectors = vec![0.0; 200];
    for (at, x) in
        [(3, f32::NAN), (5, f32::INFINITY), (7, f32::NEG_INFINITY), (9, -0.0), (150, 1.0)]
    {
        vectors[at] = x;
    }
    compare(emulator, &vectors, &[1.0], 1, 100)?;
    compare(emulator, &vectors, &[-1.0, 0.0], 1, 128)
}

#[test]
fn nearest_vectors_are_found() {
    pass(sizes);
}

#[test]
fn odd_scores_are_ordered() {
    pass(odd);
}

pub const MUTATIONS: &[Mutation] = &[
    Mutation {
        kernel: "nearest_block",
        source: "nearest.cu",
        from: "u32 end = d - start < 32 ? d - start : 32;",
        to: "u32 end = d - start < 32 ? d - start : 31;",
        check: sizes,
    },
    Mutation {
        kernel: "nearest_block",
        source: "nearest.cu",
        from: "(u32)~vector",
        to: "vector",
        check: sizes,
    },
    Mutation {
        kernel: "nearest_block",
        source: "nearest.cu",
        from: "if (!(score == score)) return 0;",
        to: "",
        check: odd,
    },
    Mutation {
        kernel: "nearest_merge",
        source: "nearest.cu",
        from: "u32 other = 1;",
        to: "u32 other = 2;",
        check: sizes,
    },
];
