//! Porter's stemmer in the form nltk 3.10 uses by default (its "NLTK extensions").
//!
//! Porter, "An algorithm for suffix stripping", Program 14 (1980), with Porter's later changes and
//! nltk's: irregular words, no stemming of words of two letters, `y` to `i` after a consonant only,
//! short words ending in -ies and -ied, and three rules more in step 2.

/// What a suffix rule demands of the stem that remains.
type Condition = fn(&Shape) -> bool;
/// A suffix, what replaces it, and under which condition. The first suffix that fits decides.
type Rule = (&'static str, &'static str, Condition);

const STEP_1A: &[Rule] =
    &[("sses", "ss", always), ("ies", "i", always), ("ss", "ss", always), ("s", "", always)];

const STEP_2: &[Rule] = &[
    ("ational", "ate", m_above_0),
    ("tional", "tion", m_above_0),
    ("enci", "ence", m_above_0),
    ("anci", "ance", m_above_0),
    ("izer", "ize", m_above_0),
    ("bli", "ble", m_above_0),
    ("alli", "al", m_above_0),
    ("entli", "ent", m_above_0),
    ("eli", "e", m_above_0),
    ("ousli", "ous", m_above_0),
    ("ization", "ize", m_above_0),
    ("ation", "ate", m_above_0),
    ("ator", "ate", m_above_0),
    ("alism", "al", m_above_0),
    ("iveness", "ive", m_above_0),
    ("fulness", "ful", m_above_0),
    ("ousness", "ous", m_above_0),
    ("aliti", "al", m_above_0),
    ("iviti", "ive", m_above_0),
    ("biliti", "ble", m_above_0),
    ("fulli", "ful", m_above_0),
];

const STEP_3: &[Rule] = &[
    ("icate", "ic", m_above_0),
    ("ative", "", m_above_0),
    ("alize", "al", m_above_0),
    ("iciti", "ic", m_above_0),
    ("ical", "ic", m_above_0),
    ("ful", "", m_above_0),
    ("ness", "", m_above_0),
];

const STEP_4: &[Rule] = &[
    ("al", "", m_above_1),
    ("ance", "", m_above_1),
    ("ence", "", m_above_1),
    ("er", "", m_above_1),
    ("ic", "", m_above_1),
    ("able", "", m_above_1),
    ("ible", "", m_above_1),
    ("ant", "", m_above_1),
    ("ement", "", m_above_1),
    ("ment", "", m_above_1),
    ("ent", "", m_above_1),
    ("ion", "", |stem| stem.measure > 1 && matches!(stem.last(), Some('s' | 't'))),
    ("ou", "", m_above_1),
    ("ism", "", m_above_1),
    ("ate", "", m_above_1),
    ("iti", "", m_above_1),
    ("ous", "", m_above_1),
    ("ive", "", m_above_1),
    ("ize", "", m_above_1),
];

const IRREGULAR: &[(&str, &str)] = &[
    ("sky", "sky"),
    ("skies", "sky"),
    ("dying", "die"),
    ("lying", "lie"),
    ("tying", "tie"),
    ("news", "news"),
    ("innings", "inning"),
    ("inning", "inning"),
    ("outings", "outing"),
    ("outing", "outing"),
    ("cannings", "canning"),
    ("canning", "canning"),
    ("howe", "howe"),
    ("proceed", "proceed"),
    ("exceed", "exceed"),
    ("succeed", "succeed"),
];

fn always(_: &Shape) -> bool {
    true
}

fn m_above_0(stem: &Shape) -> bool {
    stem.measure > 0
}

fn m_above_1(stem: &Shape) -> bool {
    stem.measure > 1
}

/// Replaces a lower-case word by its stem.
pub fn stem(word: &mut String) {
    if let Some((_, stem)) = IRREGULAR.iter().find(|(irregular, _)| irregular == word) {
        word.clear();
        word.push_str(stem);
        return;
    }
    if word.chars().nth(2).is_none() {
        return;
    }
    step_1a(word);
    step_1b(word);
    step_1c(word);
    step_2(word);
    apply(word, STEP_3);
    apply(word, STEP_4);
    step_5(word);
}

fn step_1a(word: &mut String) {
    if has_four_letters(word) && word.ends_with("ies") {
        word.pop();
    } else {
        apply(word, STEP_1A);
    }
}

fn step_1b(word: &mut String) {
    if word.ends_with("ied") {
        let keep = if has_four_letters(word) { 1 } else { 2 };
        word.truncate(word.len() - keep);
    } else if let Some(stem) = word.strip_suffix("eed") {
        if Shape::of(stem).measure > 0 {
            word.pop();
        }
    } else if let Some(stem) = word.strip_suffix("ed").or_else(|| word.strip_suffix("ing"))
        && Shape::of(stem).has_vowel
    {
        word.truncate(stem.len());
        restore_ending(word);
    }
}

/// Repairs what -ed or -ing had changed: hop(p)ing, fil(e)ing.
fn restore_ending(word: &mut String) {
    let shape = Shape::of(word);
    if word.ends_with("at") || word.ends_with("bl") || word.ends_with("iz") {
        word.push('e');
    } else if shape.ends_in_double_consonant() {
        if !matches!(shape.last(), Some('l' | 's' | 'z')) {
            word.pop();
        }
    } else if shape.measure == 1 && shape.ends_cvc() {
        word.push('e');
    }
}

fn step_1c(word: &mut String) {
    if let Some(stem) = word.strip_suffix('y') {
        let shape = Shape::of(stem);
        if shape.letters > 1 && shape.ends_in_consonant() {
            word.pop();
            word.push('i');
        }
    }
}

fn step_2(word: &mut String) {
    // nltk applies -alli first, and all of step 2 again to what it leaves.
    while let Some(stem) = word.strip_suffix("alli")
        && Shape::of(stem).measure > 0
    {
        word.truncate(word.len() - "li".len());
    }
    if apply(word, STEP_2) {
        return;
    }
    // In -logi the l belongs to the stem, so that `geo` and `theo` are long enough.
    if word.ends_with("logi") && Shape::of(&word[..word.len() - "ogi".len()]).measure > 0 {
        word.pop();
    }
}

fn step_5(word: &mut String) {
    if let Some(stem) = word.strip_suffix('e') {
        let shape = Shape::of(stem);
        if shape.measure > 1 || shape.measure == 1 && !shape.ends_cvc() {
            word.pop();
        }
    }
    if word.ends_with("ll") && Shape::of(&word[..word.len() - 1]).measure > 1 {
        word.pop();
    }
}

/// Applies the first rule whose suffix fits, if its condition holds; whether a suffix fitted.
fn apply(word: &mut String, rules: &[Rule]) -> bool {
    for (suffix, replacement, condition) in rules {
        if let Some(stem) = word.strip_suffix(suffix) {
            if condition(&Shape::of(stem)) {
                word.truncate(stem.len());
                word.push_str(replacement);
            }
            return true;
        }
    }
    false
}

fn has_four_letters(word: &str) -> bool {
    word.chars().count() == 4
}

/// What the rules want to know about a stem; gathered in one pass.
#[derive(Debug, Default)]
struct Shape {
    letters: usize,
    /// Porter's m: how often a vowel is followed by a consonant.
    measure: usize,
    has_vowel: bool,
    /// The last three letters, the last one first, and whether each is a consonant.
    tail: [Option<(char, bool)>; 3],
}

impl Shape {
    fn of(stem: &str) -> Self {
        let mut shape = Self::default();
        for letter in stem.chars() {
            let consonant = match letter {
                'a' | 'e' | 'i' | 'o' | 'u' => false,
                // A y is a consonant at the beginning and after a vowel.
                'y' => shape.tail[0].is_none_or(|(_, consonant)| !consonant),
                _ => true,
            };
            shape.measure += usize::from(consonant && shape.tail[0].is_some_and(|(_, c)| !c));
            shape.has_vowel |= !consonant;
            shape.letters += 1;
            shape.tail = [Some((letter, consonant)), shape.tail[0], shape.tail[1]];
        }
        shape
    }

    fn last(&self) -> Option<char> {
        self.tail[0].map(|(letter, _)| letter)
    }

    fn ends_in_consonant(&self) -> bool {
        self.tail[0].is_some_and(|(_, consonant)| consonant)
    }

    fn ends_in_double_consonant(&self) -> bool {
        self.ends_in_consonant() && self.tail[0].map(|t| t.0) == self.tail[1].map(|t| t.0)
    }

    fn ends_cvc(&self) -> bool {
        match self.tail {
            [Some((last, true)), Some((_, false)), Some((_, true))] => {
                !matches!(last, 'w' | 'x' | 'y')
            }
            [Some((_, true)), Some((_, false)), None] => true,
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stemmed(word: &str) -> String {
        let mut word = word.to_owned();
        stem(&mut word);
        word
    }

    #[test]
    fn agrees_with_nltk_on_words_of_every_step() {
        // Values of nltk.stem.porter.PorterStemmer().stem(word).
        for (word, expected) in [
            ("caresses", "caress"),
            ("ponies", "poni"),
            ("dies", "die"),
            ("flies", "fli"),
            ("feed", "feed"),
            ("agreed", "agre"),
            ("plastered", "plaster"),
            ("hopping", "hop"),
            ("falling", "fall"),
            ("filing", "file"),
            ("sized", "size"),
            ("happy", "happi"),
            ("enjoy", "enjoy"),
            ("relational", "relat"),
            ("rationally", "ration"),
            ("hopefully", "hope"),
            ("theology", "theolog"),
            ("electricity", "electr"),
            ("replacement", "replac"),
            ("adoption", "adopt"),
            ("rate", "rate"),
            ("controlling", "control"),
            ("dying", "die"),
            ("news", "news"),
            ("as", "as"),
            ("yyyys", "yyyi"),
        ] {
            assert_eq!(stemmed(word), expected, "{word}");
        }
    }

    #[test]
    fn other_alphabets_pass() {
        for word in ["мама", "été", "日本語", "", "é", "ss", "naïveness"] {
            stemmed(word);
        }
        assert_eq!(stemmed("éés"), "éé");
    }
}
