//! The name that was probably meant.

use proofmill_base::suggest;

/// The candidate most like `wanted`: the shortest that ends with it or is its end, or else the nearest
/// by edits.
pub fn nearest<'a>(
    wanted: &str,
    candidates: impl Iterator<Item = &'a str> + Clone,
) -> Option<&'a str> {
    let same_end = |name: &&str| name.ends_with(wanted) || wanted.ends_with(name);
    let shortest = candidates.clone().filter(same_end).min_by_key(|name| (name.len(), *name));
    // Names of tensors are long and alike: a third of one is often another one's whole difference.
    shortest.or_else(|| suggest::nearest_within(wanted.len() / 4, wanted, candidates))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_longer_name_with_the_same_end_comes_first() {
        let names = ["layers.0.q_proj.weigh", "model.layers.0.q_proj.weight", "other"];
        let near = |wanted| nearest(wanted, names.into_iter());
        assert_eq!(near("layers.0.q_proj.weight"), Some("model.layers.0.q_proj.weight"));
        assert_eq!(near("layers.9.q_proj.weigh"), Some("layers.0.q_proj.weigh"));
        assert_eq!(near("embeddings"), None);
    }
}
