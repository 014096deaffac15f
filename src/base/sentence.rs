//! When two sentences are the same: one normalization for ids and lookups, one for memories, each as a
//! function and as SQL.

use crate::digest::Digest;

/// Bytes of a fact's digest that make its id.
const FACT_ID_BYTES: usize = 16;

/// The id of a fact: the same in every memory, whatever its spelling in case and white space.
pub fn fact_id(fact: &str) -> String {
    Digest::of(normalized(fact).as_bytes()).to_string()[..2 * FACT_ID_BYTES].to_owned()
}

/// Lower case, any white space as one space, none at the ends: what ids and lookups compare.
pub fn normalized(sentence: &str) -> String {
    let words: Vec<String> = sentence.split_whitespace().map(str::to_lowercase).collect();
    words.join(" ")
}

/// As [`normalized`], without one full stop at the end: what a memory and its proofs compare.
pub fn without_stop(sentence: &str) -> String {
    let normalized = normalized(sentence);
    let bare = normalized.strip_suffix('.').unwrap_or(&normalized);
    bare.strip_suffix(' ').unwrap_or(bare).to_owned()
}

/// [`normalized`] of a SQL expression.
pub fn normalized_sql(expression: &str) -> String {
    format!("trim(regexp_replace(lower(CAST({expression} AS VARCHAR)), '\\s+', ' ', 'g'))")
}

/// [`without_stop`] of a SQL expression.
pub fn without_stop_sql(expression: &str) -> String {
    format!("regexp_replace({}, ' ?\\.$', '')", normalized_sql(expression))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_one_of_two_drops_the_full_stop() {
        for (sentence, kept, dropped) in [
            ("  A  Penny\tis copper.", "a penny is copper.", "a penny is copper"),
            ("A penny is copper .", "a penny is copper .", "a penny is copper"),
            ("etc..", "etc..", "etc."),
            (".", ".", ""),
            ("\u{a0}", "", ""),
        ] {
            assert_eq!(normalized(sentence), kept);
            assert_eq!(without_stop(sentence), dropped);
        }
    }
}
