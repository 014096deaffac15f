//! A plain scorer that reads texts, not the index: what every search must return, bit for bit.

use std::collections::HashMap;

use crate::analyzer::Terms;
use crate::variant::{Formula, raw_okapi_idf};
use crate::{Hit, IndexSpec};

/// All entries with a score above 0, best first; the first `k` are the answer.
pub fn answer(spec: &IndexSpec, texts: &[String], query: &str, excluded: &[u32]) -> Vec<Hit> {
    let documents: Vec<Vec<String>> = texts.iter().map(|text| spec.analyzer.terms(text)).collect();
    let total = documents.len() as f64;
    let average = documents.iter().map(Vec::len).sum::<usize>() as f64 / total;
    let mut doc_freqs: HashMap<&str, f64> = HashMap::new();
    for document in &documents {
        let mut terms: Vec<&str> = document.iter().map(String::as_str).collect();
        terms.sort_unstable();
        terms.dedup();
        for term in terms {
            *doc_freqs.entry(term).or_default() += 1.0;
        }
    }
    let mut sorted: Vec<_> = doc_freqs.iter().collect();
    sorted.sort_unstable_by_key(|(term, _)| *term);
    let raw = sorted.iter().map(|(_, n)| raw_okapi_idf(total, **n)).sum::<f64>();
    let mean_idf = raw / sorted.len() as f64;

    let mut counts: HashMap<String, u32> = HashMap::new();
    for term in spec.analyzer.terms(query) {
        *counts.entry(term).or_default() += 1;
    }
    let mut terms: Vec<(f64, String)> = counts
        .into_iter()
        .filter_map(|(term, count)| {
            let n = *doc_freqs.get(term.as_str())?;
            let idf = spec.variant.idf(total, n, mean_idf);
            Some((spec.variant.query_count(count) * idf, term))
        })
        .filter(|(weight, _)| *weight != 0.0)
        .collect();
    terms.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(&b.1)));

    let absent = spec.variant.absent_part(spec.k1(), spec.delta());
    let base: f64 = terms.iter().map(|(weight, _)| weight * absent).sum();
    let mut hits = Vec::new();
    for (ordinal, document) in (0..).zip(&documents) {
        let (mut score, mut matched) = (base, false);
        let pivot = 1.0 - spec.b() + spec.b() * document.len() as f64 / average;
        for (weight, term) in &terms {
            let f = document.iter().filter(|other| *other == term).count();
            if f > 0 {
                matched = true;
                let part = spec.variant.part(spec.k1(), spec.delta(), f as f64, pivot);
                score += weight * part - weight * absent;
            }
        }
        if matched && score > 0.0 && !excluded.contains(&ordinal) {
            hits.push(Hit { ordinal, score });
        }
    }
    hits.sort_by(|a, b| b.score.total_cmp(&a.score).then(a.ordinal.cmp(&b.ordinal)));
    hits
}
