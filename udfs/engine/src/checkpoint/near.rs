//! The name that was probably meant.

/// The candidate most like `wanted`: the shortest that contains it or is its end, or else one that
/// few edits apart from it.
pub fn nearest<'a>(wanted: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let limit = wanted.len() / 4;
    candidates
        .filter_map(|name| {
            if name.ends_with(wanted) || wanted.ends_with(name) {
                return Some((0, name.len(), name));
            }
            // The difference in length is a lower bound of the distance, and far cheaper.
            (name.len().abs_diff(wanted.len()) <= limit)
                .then(|| (distance(wanted.as_bytes(), name.as_bytes()), name.len(), name))
                .filter(|(distance, ..)| *distance <= limit)
        })
        .min()
        .map(|(.., name)| name)
}

/// Insertions, deletions and replacements that turn one text into the other.
fn distance(a: &[u8], b: &[u8]) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edits_are_counted() {
        assert_eq!(distance(b"kitten", b"sitting"), 3);
        assert_eq!(distance(b"", b"abc"), 3);
        assert_eq!(distance(b"same", b"same"), 0);
    }

    #[test]
    fn a_longer_name_with_the_same_end_comes_first() {
        let names = ["layers.0.q_proj.weigh", "model.layers.0.q_proj.weight", "other"];
        let near = |wanted| nearest(wanted, names.into_iter());
        assert_eq!(near("layers.0.q_proj.weight"), Some("model.layers.0.q_proj.weight"));
        assert_eq!(near("layers.9.q_proj.weigh"), Some("layers.0.q_proj.weigh"));
        assert_eq!(near("embeddings"), None);
    }
}
