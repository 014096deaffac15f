//! Names in messages: "did you mean" the nearest of those that would have been right, and some of many.

use std::fmt::Display;

use crate::styled::printable;

/// Longest name for which a near one is looked for, in characters.
const LETTERS_MAX: usize = 1_000;
/// Names that [`some_names`] shows.
const NAMED_MAX: usize = 3;
/// Longest list of names, in bytes.
const LISTED_BYTES_MAX: usize = 2_000;

/// What keys, kinds and values were called before, and what they are called.
const RENAMED: [(&str, &str); 18] = [
    ("among", "choices"),
    ("answers", "num_return_sequences"),
    ("beams", "num_beams"),
    ("blend", "rank_fusion"),
    ("cache_mib", "kv_cache_mib"),
    ("decide", "select_answer"),
    ("end", "left"),
    ("key_env", "api_key_env"),
    ("offers", "capabilities"),
    ("on", "key"),
    ("own", "builtin"),
    ("products", "gemm"),
    ("search", "proof_search"),
    ("sequences", "max_num_seqs"),
    ("start", "right"),
    ("step_tokens", "max_batch_tokens"),
    ("truncate_keep", "truncation_side"),
    ("with_end", "include_eos"),
];

/// The candidate nearest to `text`, if it is near enough to be a slip of the hand. `text` itself, which
/// was not right, is no advice.
pub fn nearest<'a>(text: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    nearest_within((text.chars().count() / 3).max(1), text, candidates)
}

/// The same, at most `limit` edits away.
pub fn nearest_within<'a>(
    limit: usize,
    text: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    let lower = text.to_lowercase();
    let distance = |candidate: &str| strsim::damerau_levenshtein(&lower, &candidate.to_lowercase());
    let len = text.chars().count();
    // Comparing takes the product of both lengths.
    let worth = |candidate: &&str| {
        *candidate != text && len <= LETTERS_MAX && candidate.chars().count().abs_diff(len) <= limit
    };
    candidates
        .into_iter()
        .filter(worth)
        .map(|candidate| (distance(candidate), candidate))
        .filter(|(distance, _)| *distance <= limit)
        .min()
        .map(|(_, candidate)| candidate)
}

/// A help text: what `text` is called now, or the nearest candidate.
pub fn renamed_or_near<'a>(
    text: &str,
    candidates: impl IntoIterator<Item = &'a str> + Clone,
) -> Option<String> {
    let renamed = RENAMED.iter().find(|(old, _)| *old == text).map(|(_, new)| *new);
    if let Some(new) = renamed.filter(|new| candidates.clone().into_iter().any(|it| it == *new)) {
        return Some(format!("it is called `{new}` now"));
    }
    nearest(text, candidates).map(|candidate| format!("did you mean `{candidate}`?"))
}

/// As [`renamed_or_near`], or else all candidates if they are few.
pub fn help<'a>(
    text: &str,
    candidates: impl IntoIterator<Item = &'a str> + Clone,
) -> Option<String> {
    const LISTED_MAX: usize = 32;
    if let Some(help) = renamed_or_near(text, candidates.clone()) {
        return Some(help);
    }
    let others = candidates.into_iter().filter(|candidate| *candidate != text);
    let all: Vec<_> = others.map(|candidate| format!("`{candidate}`")).collect();
    let bytes: usize = all.iter().map(String::len).sum();
    (!all.is_empty() && all.len() <= LISTED_MAX && bytes <= LISTED_BYTES_MAX)
        .then(|| format!("expected one of {}", all.join(", ")))
}

/// The first of the names, each shortened and on one line, and how many others there are: "`a`, `b`, `c` and 4 more".
pub fn some_names<T: Display>(names: impl IntoIterator<Item = T>) -> String {
    let mut names = names.into_iter();
    let one = |name: T| format!("`{}`", printable(&name.to_string(), false));
    let shown: Vec<_> = names.by_ref().take(NAMED_MAX).map(one).collect();
    let more = match names.count() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    shown.join(", ") + &more
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_names_lead_to_new_ones_where_they_are_known() {
        assert_eq!(
            help("blend", ["sql", "rank_fusion"]).unwrap(),
            "it is called `rank_fusion` now"
        );
        assert_eq!(help("blend", ["blank", "sql"]).unwrap(), "expected one of `blank`, `sql`");
    }

    #[test]
    fn slips_are_found_and_other_words_are_not() {
        assert_eq!(nearest("foramt", ["format", "path"]), Some("format"));
        assert_eq!(nearest("Format", ["format", "path"]), Some("format"));
        assert_eq!(nearest("colour", ["format", "path"]), None);
        assert_eq!(nearest("format", ["format"]), None);
        assert_eq!(help("format", ["format", "path"]).as_deref(), Some("expected one of `path`"));
    }
}
