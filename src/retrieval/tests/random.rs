//! Random corpora with many ties: pruned search equals the plain scorer, bit for bit.

use proptest::prelude::*;

use crate::tests::oracle;
use crate::tests::support::index;
use crate::{GrowingIndex, Hit, IndexSpec};
use proofmill_settings::search::{Analyzer, Variant};

fn assert_same(found: &[Hit], expected: &[Hit]) -> Result<(), TestCaseError> {
    let bits = |hits: &[Hit]| -> Vec<(u32, u64)> {
        hits.iter().map(|hit| (hit.ordinal, hit.score.to_bits())).collect()
    };
    prop_assert_eq!(bits(found), bits(expected));
    Ok(())
}

/// A text over a small vocabulary in which early words are common.
fn text(words: usize) -> impl Strategy<Value = String> {
    let word = (0.0f64..1.0).prop_map(|u| format!("w{}", (u * u * u * 25.0) as u32));
    proptest::collection::vec(word, 0..words).prop_map(|words| words.join(" "))
}

fn spec() -> impl Strategy<Value = IndexSpec> {
    let variant = proptest::sample::select(Variant::ALL.to_vec());
    let analyzer = proptest::sample::select(Analyzer::ALL.to_vec());
    // Short decimals: JSON numbers of more than 15 digits may lose the last bit on the way back.
    let k1 = proptest::option::of((0u32..300).prop_map(|k1| f64::from(k1) / 100.0));
    let b = proptest::option::of((0u32..=100).prop_map(|b| f64::from(b) / 100.0));
    (variant, analyzer, k1, b).prop_map(|(variant, analyzer, k1, b)| IndexSpec {
        variant,
        k1,
        b,
        delta: None,
        analyzer,
    })
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 60,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn search_equals_the_plain_scorer(
        spec in spec(),
        texts in proptest::collection::vec(text(8), 1..400),
        queries in proptest::collection::vec(text(10), 1..12),
        excluded in proptest::collection::vec(0u32..400, 0..5),
    ) {
        let (_dir, index) = index(spec, &texts);
        for query in &queries {
            let all = oracle::answer(&spec, &texts, query, &[]);
            for k in [0, 1, 2, 3, 7, 50, 1000] {
                let found = index.search(query, k).unwrap();
                assert_same(&found, &all[..k.min(all.len())])?;
            }
            let all = oracle::answer(&spec, &texts, query, &excluded);
            let found = index.search_excluding(query, 5, &excluded).unwrap();
            assert_same(&found, &all[..5.min(all.len())])?;
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 60,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// At every size that it is searched at, it is the index in a folder over so many entries.
    #[test]
    fn a_growing_index_equals_the_one_in_a_folder(
        spec in spec(),
        texts in proptest::collection::vec(text(8), 1..150),
        queries in proptest::collection::vec(text(10), 1..6),
        sizes in proptest::collection::btree_set(0usize..150, 1..4),
    ) {
        let queries: Vec<&str> = queries.iter().map(String::as_str).collect();
        let mut growing = GrowingIndex::new(spec).unwrap();
        for (size, text) in texts.iter().enumerate() {
            if sizes.contains(&size) {
                let (_dir, folder) = index(spec, &texts[..size]);
                for k in [0, 1, 5, 1000] {
                    let expected = folder.search_batch(&queries, k, 1).unwrap();
                    for (found, expected) in growing.search(&queries, k).iter().zip(&expected) {
                        assert_same(found, expected)?;
                    }
                }
            }
            prop_assert_eq!(growing.add(text).unwrap() as usize, size);
        }
    }
}

/// More entries than a window and a block of postings hold, so that lists are skipped and sought.
#[test]
fn pruning_over_many_windows_changes_nothing() {
    let mut state = 42u64;
    let mut next = move |bound: u64| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) % bound
    };
    let mut text = |words: u64| {
        let words: Vec<String> = (0..words)
            .map(|_| {
                let bound = 1 + next(300);
                format!("w{}", next(bound))
            })
            .collect();
        words.join(" ")
    };
    let mut texts: Vec<String> = (0..20_000u64).map(|i| text(4 + i % 5)).collect();
    // Terms in about 100 entries: too rare for bits, so that their postings are sought. They stop
    // being essential once the repeated term of a query has found good entries.
    for (i, text) in texts.iter_mut().enumerate().step_by(5) {
        let rare = (i as u64 * 0x9e37_79b9) >> 7;
        text.push_str(&format!(" r{} r{}", rare % 80, rare / 80 % 80));
    }
    // Longer than the table of parts has rows, more frequent than it has columns, and empty.
    texts[11_000] = text(1000);
    texts[11_001] = "w1 ".repeat(300);
    texts[11_002] = String::new();
    let mut queries: Vec<String> = (0..14u64).map(|i| text(1 + i)).collect();
    for i in 0..8 {
        let repeated = format!("r{i} ").repeat(5);
        queries.push(format!("{repeated} r{} r{} r{} w0 w7", i + 1, i + 7, i + 40));
    }
    for variant in [Variant::Lucene, Variant::Okapi, Variant::Bm25l] {
        let spec = IndexSpec { variant, ..IndexSpec::default() };
        let (_dir, index) = index(spec, &texts);
        for query in &queries {
            let all = oracle::answer(&spec, &texts, query, &[]);
            for k in [1, 10, 100] {
                assert_same(&index.search(query, k).unwrap(), &all[..k.min(all.len())]).unwrap();
            }
        }
        let queries: Vec<&str> = queries.iter().map(String::as_str).collect();
        let one_by_one = index.search_batch(&queries, 10, 1).unwrap();
        for threads in [0, 2, 3, 16] {
            assert_eq!(index.search_batch(&queries, 10, threads).unwrap(), one_by_one);
        }
        let excluded: Vec<u32> = one_by_one[7].iter().map(|hit| hit.ordinal).collect();
        let others = index.search_excluding(queries[7], 10, &excluded).unwrap();
        let expected = oracle::answer(&spec, &texts, queries[7], &excluded);
        assert_same(&others, &expected[..10.min(expected.len())]).unwrap();
    }
}
