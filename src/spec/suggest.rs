//! "Did you mean": the nearest of the names that would have been right.

/// The candidate nearest to `text`, if it is near enough to be a slip of the hand.
pub fn nearest<'a>(text: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let lower = text.to_lowercase();
    let distance = |candidate: &str| strsim::damerau_levenshtein(&lower, &candidate.to_lowercase());
    let limit = (text.chars().count() / 3).max(1);
    candidates
        .into_iter()
        .map(|candidate| (distance(candidate), candidate))
        .filter(|(distance, _)| *distance <= limit)
        .min()
        .map(|(_, candidate)| candidate)
}

/// A help text: the nearest candidate, or else all of them if they are few.
pub fn help<'a>(
    text: &str,
    candidates: impl IntoIterator<Item = &'a str> + Clone,
) -> Option<String> {
    const LISTED_MAX: usize = 32;
    if let Some(candidate) = nearest(text, candidates.clone()) {
        return Some(format!("did you mean `{candidate}`?"));
    }
    let all: Vec<_> = candidates.into_iter().map(|candidate| format!("`{candidate}`")).collect();
    (!all.is_empty() && all.len() <= LISTED_MAX)
        .then(|| format!("expected one of {}", all.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_are_found_and_other_words_are_not() {
        assert_eq!(nearest("foramt", ["format", "path"]), Some("format"));
        assert_eq!(nearest("Format", ["format", "path"]), Some("format"));
        assert_eq!(nearest("colour", ["format", "path"]), None);
    }
}
