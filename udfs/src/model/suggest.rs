//! "Did you mean": the nearest of the names that would have been right.

use proofmill_base::suggest;

/// What to try instead of `name`: the nearest candidate if it is near enough to be a slip of the
/// hand, or else all of them if they are few.
pub(super) fn instead_of<'a>(name: &str, candidates: impl Iterator<Item = &'a str>) -> String {
    let candidates: Vec<&str> = candidates.collect();
    match suggest::help(name, candidates.iter().copied()) {
        Some(help) => help,
        None if candidates.is_empty() => "there are none".to_owned(),
        None => format!("there are {}", candidates.len()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_are_found_and_other_words_get_the_list() {
        let names = || ["max_tokens", "min_tokens", "seed"].into_iter();
        assert_eq!(instead_of("max_token", names()), "did you mean `max_tokens`?");
        assert_eq!(instead_of("Seed", names()), "did you mean `seed`?");
        let all = "expected one of `max_tokens`, `min_tokens`, `seed`";
        assert_eq!(instead_of("colour", names()), all);
        assert_eq!(instead_of("x", std::iter::empty()), "there are none");
    }
}
