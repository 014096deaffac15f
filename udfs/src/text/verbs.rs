//! Verbs of plain English statements, as far as negating them needs: bases and third persons.

/// Verbs whose forms are distinguished from nouns; sorted.
const KNOWN: [&str; 170] = [
    "absorb",
    "act",
    "affect",
    "allow",
    "appear",
    "attract",
    "bake",
    "bark",
    "beat",
    "become",
    "begin",
    "belong",
    "bend",
    "bite",
    "bloom",
    "boil",
    "bounce",
    "break",
    "breathe",
    "bring",
    "build",
    "burn",
    "buy",
    "carry",
    "catch",
    "cause",
    "change",
    "chew",
    "climb",
    "collect",
    "come",
    "conduct",
    "connect",
    "consist",
    "consume",
    "contain",
    "contract",
    "control",
    "convert",
    "cool",
    "cost",
    "cover",
    "create",
    "cut",
    "decrease",
    "depend",
    "describe",
    "destroy",
    "develop",
    "die",
    "differ",
    "digest",
    "dissolve",
    "drink",
    "drive",
    "drop",
    "dry",
    "eat",
    "emit",
    "enter",
    "erupt",
    "evaporate",
    "expand",
    "explode",
    "fall",
    "feed",
    "feel",
    "fight",
    "fill",
    "find",
    "float",
    "flow",
    "fly",
    "follow",
    "freeze",
    "generate",
    "get",
    "give",
    "glow",
    "go",
    "grow",
    "happen",
    "harm",
    "hatch",
    "hear",
    "heat",
    "help",
    "hide",
    "hold",
    "hunt",
    "include",
    "increase",
    "keep",
    "kill",
    "know",
    "lay",
    "lead",
    "learn",
    "leave",
    "let",
    "like",
    "live",
    "look",
    "lose",
    "make",
    "mean",
    "measure",
    "melt",
    "migrate",
    "mix",
    "move",
    "need",
    "obtain",
    "occur",
    "open",
    "orbit",
    "pass",
    "prevent",
    "produce",
    "protect",
    "provide",
    "pull",
    "push",
    "put",
    "react",
    "receive",
    "reduce",
    "reflect",
    "release",
    "remain",
    "repel",
    "reproduce",
    "require",
    "revolve",
    "ride",
    "rise",
    "rotate",
    "run",
    "rust",
    "say",
    "see",
    "serve",
    "shine",
    "sing",
    "sink",
    "sleep",
    "smell",
    "speak",
    "spin",
    "spread",
    "stand",
    "stay",
    "stick",
    "stop",
    "store",
    "support",
    "survive",
    "swim",
    "take",
    "tell",
    "transfer",
    "transport",
    "travel",
    "turn",
    "use",
    "vibrate",
    "want",
    "warm",
    "weigh",
    "work",
];
/// Words that end like a third person and are none.
const NOUNS: [&str; 12] = [
    "always",
    "gas",
    "glasses",
    "lens",
    "news",
    "pants",
    "perhaps",
    "scissors",
    "series",
    "species",
    "sometimes",
    "sports",
];

/// The base of a third person, such as `carry` of `carries`, if the verb is known.
pub fn base_of_known(word: &str) -> Option<&'static str> {
    let candidates = bases(word);
    let known = candidates.iter().filter_map(|base| known(base));
    known.into_iter().find(|base| third(base) == word)
}

/// The verb of this base, if it is known.
pub fn known(base: &str) -> Option<&'static str> {
    KNOWN.iter().copied().find(|verb| *verb == base)
}

/// The base of a word that must be a third person by its place; `None` if its end says that it is not.
pub fn base_by_form(word: &str) -> Option<String> {
    let ends = |ends: &[&str]| ends.iter().any(|end| word.ends_with(end));
    if !word.ends_with('s') || ends(&["ss", "us", "is", "'s"]) || NOUNS.contains(&word) {
        return None;
    }
    bases(word).into_iter().find(|base| third(base) == word)
}

/// What could be the base of a third person, the likeliest first.
fn bases(word: &str) -> Vec<String> {
    let without = |end: &str| word.strip_suffix(end);
    let mut bases = Vec::new();
    bases.extend(without("ies").map(|stem| format!("{stem}y")));
    bases.extend(without("es").map(str::to_owned));
    bases.extend(without("s").map(str::to_owned));
    bases
}

/// The third person of a verb, such as `carries` of `carry`.
pub fn third(base: &str) -> String {
    if base == "have" {
        return "has".to_owned();
    }
    let hisses = ["s", "x", "z", "ch", "sh", "o"].iter().any(|end| base.ends_with(end));
    match base.strip_suffix('y') {
        Some(stem) if !stem.ends_with(['a', 'e', 'i', 'o', 'u']) => format!("{stem}ies"),
        _ if hisses => format!("{base}es"),
        _ => format!("{base}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_verbs_and_their_third_persons_correspond() {
        for verb in KNOWN {
            assert_eq!(base_of_known(&third(verb)), Some(verb));
        }
        assert_eq!(third("carry"), "carries");
        assert_eq!(third("stay"), "stays");
        assert_eq!(third("go"), "goes");
        assert_eq!(third("push"), "pushes");
    }

    #[test]
    fn verbs_by_form_are_found_by_their_ends() {
        assert_eq!(base_by_form("zaps").as_deref(), Some("zap"));
        assert_eq!(base_by_form("buzzes").as_deref(), Some("buzz"));
        for word in ["glass", "bus", "lens", "penny's", "iron"] {
            assert_eq!(base_by_form(word), None, "{word}");
        }
    }
}
