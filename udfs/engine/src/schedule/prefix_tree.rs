//! Texts that share prefixes, as a tree: each shared token is computed once.

/// A text to be scored.
#[derive(Clone, Copy, Debug)]
pub struct ScoredText<'a> {
    /// Its tokens; at least two.
    pub tokens: &'a [u32],
    /// The first that is scored; at least 1.
    pub first: usize,
}

/// Tokens that the same texts share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrefixNode {
    /// What stands before; an earlier node.
    pub parent: Option<usize>,
    /// One of its texts, to read the tokens from.
    pub text: usize,
    /// Place of its first token.
    pub start: usize,
    /// Place after its last.
    pub end: usize,
    /// The tokens whose log-probabilities are needed, by place.
    pub targets: Vec<Target>,
}

/// The log-probability of `target` after the token at `place` is needed, by one or several texts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Place of the row.
    pub place: usize,
    /// The token after it.
    pub target: u32,
    pub texts: Vec<usize>,
}

/// The tree of `texts`: parents stand before their children. A text's last token is scored but
/// never read, so it is in no node.
pub fn build(texts: &[ScoredText<'_>]) -> Vec<PrefixNode> {
    let mut order: Vec<usize> = (0..texts.len()).collect();
    order.sort_by_key(|&index| (texts[index].tokens, index));
    let mut nodes: Vec<PrefixNode> = Vec::new();
    let mut open = vec![(None, 0, &order[..])];
    while let Some((parent, start, mut members)) = open.pop() {
        while let Some(&first) = members.first() {
            if read(texts[first]) <= start {
                members = &members[1..];
                continue;
            }
            let token = texts[first].tokens[start];
            let same =
                members.iter().take_while(|&&index| texts[index].tokens[start] == token).count();
            let (group, rest) = members.split_at(same);
            members = rest;
            let end = shared(texts, group, start);
            let node = PrefixNode {
                parent,
                text: first,
                start,
                end,
                targets: targets(texts, group, start, end),
            };
            nodes.push(node);
            open.push((Some(nodes.len() - 1), end, group));
        }
    }
    nodes
}

/// Tokens of a text that are read.
fn read(text: ScoredText<'_>) -> usize {
    text.tokens.len() - 1
}

/// Up to where all of `group`, sorted, read the same tokens.
fn shared(texts: &[ScoredText<'_>], group: &[usize], start: usize) -> usize {
    let shortest = group.iter().map(|&index| read(texts[index])).min().unwrap_or(start);
    let (Some(&first), Some(&last)) = (group.first(), group.last()) else { return start };
    let pairs = texts[first].tokens[start..shortest].iter().zip(&texts[last].tokens[start..]);
    start + pairs.take_while(|(a, b)| a == b).count()
}

fn targets(texts: &[ScoredText<'_>], group: &[usize], start: usize, end: usize) -> Vec<Target> {
    let earliest = group.iter().map(|&index| texts[index].first).min().unwrap_or(end);
    let mut targets: Vec<Target> = Vec::new();
    for place in start.max(earliest.saturating_sub(1))..end {
        for &index in group {
            let text = texts[index];
            if place + 1 < text.first {
                continue;
            }
            let target = text.tokens[place + 1];
            match targets.last_mut().filter(|want| want.place == place && want.target == target) {
                Some(want) => want.texts.push(index),
                None => targets.push(Target { place, target, texts: vec![index] }),
            }
        }
    }
    targets
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn choices_behind_one_question_share_it() {
        let texts: [&[u32]; 4] = [&[1, 2, 3, 7], &[1, 2, 3, 8], &[1, 2, 3, 8, 9], &[1, 2, 3, 6]];
        let texts: Vec<ScoredText<'_>> =
            texts.iter().map(|&tokens| ScoredText { tokens, first: 3 }).collect();
        let nodes = build(&texts);
        assert_eq!(nodes.iter().map(|node| node.end - node.start).collect::<Vec<_>>(), [3, 1]);
        let requested: Vec<(usize, u32, &[usize])> =
            nodes[0].targets.iter().map(|w| (w.place, w.target, &w.texts[..])).collect();
        assert_eq!(requested, [(2, 6, &[3][..]), (2, 7, &[0]), (2, 8, &[1, 2])]);
        assert_eq!(nodes[1].targets, [Target { place: 3, target: 9, texts: vec![2] }]);
    }

    proptest! {
        #[test]
        fn every_judged_token_is_requested_once_behind_its_own_text(
            texts in prop::collection::vec(prop::collection::vec(0_u32..3, 2..9), 1..12),
            firsts in prop::collection::vec(1_usize..9, 12),
        ) {
            let texts: Vec<ScoredText<'_>> = texts
                .iter()
                .zip(firsts)
                .map(|(tokens, first)| ScoredText { tokens, first: first.min(tokens.len() - 1) })
                .collect();
            let nodes = build(&texts);
            let mut requested = vec![Vec::new(); texts.len()];
            for node in &nodes {
                // A node continues its parent, and both say what its texts say.
                if let Some(parent) = node.parent {
                    prop_assert_eq!(nodes[parent].end, node.start);
                }
                for want in &node.targets {
                    prop_assert!((node.start..node.end).contains(&want.place));
                    for &text in &want.texts {
                        let of = texts[text].tokens;
                        prop_assert_eq!(&of[..=want.place], &texts[node.text].tokens[..=want.place]);
                        prop_assert_eq!(of[want.place + 1], want.target);
                        requested[text].push(want.place + 1);
                    }
                }
            }
            for (text, mut requested) in texts.iter().zip(requested) {
                requested.sort_unstable();
                prop_assert_eq!(requested, (text.first..text.tokens.len()).collect::<Vec<_>>());
            }
            // Nothing is read twice: as many rows as there are distinct beginnings.
            let mut beginnings: Vec<&[u32]> =
                texts.iter().flat_map(|t| (1..t.tokens.len()).map(|n| &t.tokens[..n])).collect();
            beginnings.sort_unstable();
            beginnings.dedup();
            let rows: usize = nodes.iter().map(|node| node.end - node.start).sum();
            prop_assert_eq!(rows, beginnings.len());
        }
    }
}
