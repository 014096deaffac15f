//! The negation of a plain English statement, by rules. Where the rules do not apply there is none, and
//! the user has to say it: a wrong negation would be taught.
//!
//! The main verb is the first finite verb, or the second where the subject has a relative clause. It
//! takes a `not`, or loses it: `can` and `cannot`, `is` and `is not`, `conducts` and `does not conduct`.
//!
//! Own rules: negating a sentence with a parser of English takes a model, and gives other sentences for other models.

use crate::text::verbs::{base_by_form, base_of_known, known, third};

const MODALS: [&str; 9] =
    ["can", "could", "will", "would", "shall", "should", "must", "may", "might"];
const BE: [&str; 5] = ["is", "are", "am", "was", "were"];
const HAVE: [&str; 3] = ["has", "have", "had"];
const DO: [&str; 3] = ["does", "do", "did"];
/// Participles behind `has` that do not end like one.
const PARTICIPLES: [&str; 16] = [
    "been", "become", "begun", "built", "come", "done", "found", "gone", "grown", "had", "kept",
    "lost", "made", "run", "shown", "stood",
];
/// Statements that begin so say how many things something holds for: to negate the verb is not to
/// negate them.
const QUANTIFIERS: [&str; 17] = [
    "all",
    "any",
    "both",
    "each",
    "either",
    "every",
    "everything",
    "few",
    "many",
    "most",
    "neither",
    "no",
    "nobody",
    "none",
    "nothing",
    "not",
    "some",
];
/// Adverbs of the same effect, wherever they stand.
const DOUBTS: [&str; 6] = ["barely", "hardly", "only", "rarely", "seldom", "sometimes"];
/// Adverbs that stay behind `not`.
const ADVERBS: [&str; 5] = ["always", "generally", "normally", "often", "usually"];
/// What stands between a copula and `of` where `of` adds nothing: `is a kind of fish`.
const KINDS: [&str; 6] = ["kind", "kinds", "sort", "sorts", "type", "types"];
/// What stands before one of [`KINDS`] in the singular; without it, `kind of` is an adverb.
const BEFORE_KIND: [&str; 6] = ["a", "an", "any", "one", "some", "the"];
/// What begins a clause about the subject.
const RELATIVES: [&str; 4] = ["that", "which", "who", "whose"];
/// What begins a clause that is no part of the statement.
const CONDITIONS: [&str; 8] =
    ["although", "because", "if", "unless", "until", "when", "whenever", "while"];

/// What a statement affirms or denies. Two statements contradict each other if their claims differ in `denied` alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The affirmative form in lower case, without articles, without a full stop, and with `is` for `is a kind of`.
    pub affirmed: String,
    /// Whether the statement says that this is not so.
    pub denied: bool,
}

/// A statement with its negation.
struct Flipped {
    words: Vec<String>,
    /// Whether the statement was a denial.
    denied: bool,
}

/// What is true if `statement` is false, in the same clothes; `None` where no rule applies.
pub fn negation(statement: &str) -> Option<String> {
    let (words, stop) = split(statement);
    let flipped = flip(&words)?;
    Some(format!("{}{stop}", flipped.words.join(" ")))
}

/// What a statement claims.
pub fn claim(statement: &str) -> Claim {
    let (words, _) = split(statement);
    let plain = || words.iter().map(|word| (*word).to_owned()).collect();
    let (affirmed, denied): (Vec<String>, bool) = match flip(&words) {
        Some(flipped) if flipped.denied => (flipped.words, true),
        _ => (plain(), false),
    };
    let lower = affirmed.iter().map(|word| lowered(word)).collect();
    let kept: Vec<String> =
        without_kinds(lower).into_iter().filter(|word| !is_article(word)).collect();
    Claim { affirmed: kept.join(" "), denied }
}

/// Whether one of two statements denies what the other affirms.
pub fn contradicts(one: &str, other: &str) -> bool {
    let (one, other) = (claim(one), claim(other));
    one.denied != other.denied && one.affirmed == other.affirmed
}

/// `a`, `an`, `the`.
pub fn is_article(word: &str) -> bool {
    ["a", "an", "the"].contains(&word)
}

/// Words, and the full stop behind them.
fn split(statement: &str) -> (Vec<&str>, &'static str) {
    let trimmed = statement.trim();
    let (text, stop) = trimmed.strip_suffix('.').map_or((trimmed, ""), |text| (text, "."));
    (text.split_whitespace().collect(), stop)
}

fn lowered(word: &str) -> String {
    word.to_lowercase().replace('\u{2019}', "'")
}

/// The words without `a kind of` behind a copula: who is a kind of fish is a fish.
fn without_kinds(mut words: Vec<String>) -> Vec<String> {
    let mut at = 0;
    while at < words.len() {
        if is_be(&words[at]) {
            let behind = length_of_kind(&words[at + 1..]);
            words.drain(at + 1..at + 1 + behind);
        }
        at += 1;
    }
    words
}

/// How many words `a kind of` takes where `words` begin with it; 0 where they do not.
fn length_of_kind(words: &[String]) -> usize {
    let word = |at: usize| words.get(at).map_or("", String::as_str);
    let first = usize::from(BEFORE_KIND.contains(&word(0)));
    let kind = word(first);
    let is_kind = KINDS.contains(&kind) && (first == 1 || kind.ends_with('s'));
    if is_kind && word(first + 1) == "of" { first + 2 } else { 0 }
}

fn is_be(word: &str) -> bool {
    BE.contains(&word) || ["be", "been"].contains(&word)
}

fn flip(words: &[&str]) -> Option<Flipped> {
    let lower: Vec<String> = words.iter().map(|word| lowered(word)).collect();
    let lower: Vec<&str> = lower.iter().map(String::as_str).collect();
    let first = lower.first()?;
    if QUANTIFIERS.contains(first) || lower.iter().any(|word| DOUBTS.contains(word)) {
        return None;
    }
    let at = main_verb(&lower)?;
    let edit = edit(&lower, at)?;
    let mut out: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
    out.splice(edit.at..edit.at + edit.remove, edit.insert);
    Some(Flipped { words: out, denied: edit.denied })
}

/// What a word can be as a finite verb.
#[derive(Clone, Debug, PartialEq)]
enum Finite {
    /// `can`, `is`, and their like: they take `not` behind them. True if `n't` is at the end.
    Auxiliary(String, bool),
    /// `has`, `have`, `had`; true if `n't` is at the end.
    Have(&'static str, bool),
    /// `does`, `do`, `did`; true if `n't` is at the end.
    Do(&'static str, bool),
    /// `never`, which a finite verb follows.
    Never,
    /// A third person, with its base.
    Third(String),
    /// A base behind a subject in the plural.
    Base,
}

fn finite(lower: &[&str], at: usize) -> Option<Finite> {
    let word = lower[at];
    let (stem, denied) = match word {
        "cannot" | "can't" => ("can", true),
        "won't" => ("will", true),
        "shan't" => ("shall", true),
        _ => match word.strip_suffix("n't") {
            Some(stem) => (stem, true),
            None => (word, false),
        },
    };
    let is = |words: &[&'static str]| words.iter().copied().find(|known| *known == stem);
    if let Some(auxiliary) = is(&MODALS).or(is(&BE)) {
        return Some(Finite::Auxiliary(auxiliary.to_owned(), denied));
    }
    if let Some(have) = is(&HAVE) {
        return Some(Finite::Have(have, denied));
    }
    if let Some(dummy) = is(&DO) {
        return Some(Finite::Do(dummy, denied));
    }
    if word == "never" {
        return Some(Finite::Never);
    }
    let follows_finite = |word: &&&str| is_auxiliary(word) || known(word).is_some();
    if let Some(base) = base_of_known(word) {
        // What a finite verb follows is a plural: `fruit flies eat sugar`.
        let plural = lower.get(at + 1).as_ref().is_some_and(follows_finite);
        return (!plural).then(|| Finite::Third(base.to_owned()));
    }
    let singular = ["a", "an"].contains(&lower[0]);
    if !singular && at > 0 && known(word).is_some() {
        return Some(Finite::Base);
    }
    // `A` and a noun: what follows is the verb, if it looks like one.
    if singular && at == 2 && !lower.iter().any(|word| RELATIVES.contains(word)) {
        return base_by_form(word).map(Finite::Third);
    }
    None
}

/// Where the main verb stands.
fn main_verb(lower: &[&str]) -> Option<usize> {
    let mut in_clause = false;
    let mut at = 1;
    if lower.first().is_some_and(|word| CONDITIONS.contains(word) || is_auxiliary(word)) {
        return None;
    }
    while at < lower.len() {
        if CONDITIONS.contains(&lower[at]) {
            return None;
        }
        if RELATIVES.contains(&lower[at]) {
            // A clause in a clause is beyond these rules.
            if in_clause {
                return None;
            }
            in_clause = true;
        } else if let Some(verb) = finite(lower, at) {
            if !in_clause {
                return Some(at);
            }
            in_clause = false;
            at += behind(lower, at, &verb);
        }
        at += 1;
    }
    None
}

/// A statement does not begin so; a question does.
fn is_auxiliary(word: &str) -> bool {
    MODALS.contains(&word) || BE.contains(&word) || HAVE.contains(&word) || DO.contains(&word)
}

/// How many words behind a finite verb belong to it: `not`, and the verb that an auxiliary governs.
fn behind(lower: &[&str], at: usize, verb: &Finite) -> usize {
    let not = usize::from(lower.get(at + 1) == Some(&"not"));
    match verb {
        Finite::Third(_) | Finite::Base => 0,
        Finite::Auxiliary(auxiliary, _) if BE.contains(&auxiliary.as_str()) => not,
        Finite::Have(..) => not,
        Finite::Auxiliary(..) | Finite::Do(..) | Finite::Never => not + 1,
    }
}

/// A change of words.
struct Edit {
    at: usize,
    remove: usize,
    insert: Vec<String>,
    denied: bool,
}

impl Edit {
    fn affirm(at: usize, remove: usize, insert: &[&str]) -> Option<Self> {
        let insert = insert.iter().map(|word| (*word).to_owned()).collect();
        Some(Self { at, remove, insert, denied: true })
    }

    fn deny(at: usize, remove: usize, insert: &[&str]) -> Option<Self> {
        let insert = insert.iter().map(|word| (*word).to_owned()).collect();
        Some(Self { at, remove, insert, denied: false })
    }
}

fn edit(lower: &[&str], at: usize) -> Option<Edit> {
    let next = lower.get(at + 1).copied().unwrap_or_default();
    let denies = ["not", "never"].contains(&next);
    match finite(lower, at)? {
        Finite::Auxiliary(auxiliary, true) => Edit::affirm(at, 1, &[&auxiliary]),
        Finite::Auxiliary(..) if denies => Edit::affirm(at + 1, 1, &[]),
        Finite::Auxiliary(auxiliary, _) if next == "no" && of_kinds(lower, &auxiliary, at + 2) => {
            let article = if lower[at + 2].ends_with('s') { None } else { Some("a") };
            Edit::affirm(at + 1, 1, article.as_slice())
        }
        Finite::Auxiliary(..) if QUANTIFIERS.contains(&next) => None,
        Finite::Auxiliary(auxiliary, false) if auxiliary == "can" => Edit::deny(at, 1, &["cannot"]),
        Finite::Auxiliary(..) => Edit::deny(at + 1, 0, &["not"]),
        Finite::Have(have, true) => Edit::affirm(at, 1, &[have]),
        Finite::Have(..) if denies || next == "no" => Edit::affirm(at + 1, 1, &[]),
        Finite::Have(..) if QUANTIFIERS.contains(&next) => None,
        Finite::Have(have, false) if is_participle(next) => Edit::deny(at, 1, &[have, "not"]),
        Finite::Have(have, false) => Edit::deny(at, 1, &[dummy_of(have), "not", "have"]),
        Finite::Do(dummy, denied) if denied || next == "not" => {
            let base = at + if denied { 1 } else { 2 };
            let verb = lower.get(base)?;
            if let Some(edit) = affirmed_adverb(lower, at, base, dummy) {
                return Some(edit);
            }
            let verb = match (dummy, *verb) {
                ("does", base) => third(base),
                ("did", "have") => "had".to_owned(),
                ("did", "do") => "did".to_owned(),
                ("did", base) => format!("did {base}"),
                (_, base) => base.to_owned(),
            };
            Edit::affirm(at, base + 1 - at, &[&verb])
        }
        Finite::Do(_, _) if known(next).is_some() => Edit::deny(at + 1, 0, &["not"]),
        Finite::Do(dummy, _) => Edit::deny(at, 1, &[dummy, "not", "do"]),
        Finite::Never => Edit::affirm(at, 1, &[]),
        Finite::Third(_) | Finite::Base if next == "no" => Edit::affirm(at + 1, 1, &[]),
        Finite::Third(_) | Finite::Base if QUANTIFIERS.contains(&next) => None,
        Finite::Third(base) => around_adverb(lower, at, "does", &base),
        Finite::Base => around_adverb(lower, at, "do", lower[at]),
    }
}

/// `always attracts` becomes `does not always attract`.
fn around_adverb(lower: &[&str], at: usize, dummy: &str, base: &str) -> Option<Edit> {
    match lower[at - 1] {
        adverb if ADVERBS.contains(&adverb) => Edit::deny(at - 1, 2, &[dummy, "not", adverb, base]),
        _ => Edit::deny(at, 1, &[dummy, "not", base]),
    }
}

/// The way back: `does not always attract` becomes `always attracts`.
fn affirmed_adverb(lower: &[&str], at: usize, base: usize, dummy: &str) -> Option<Edit> {
    let (adverb, verb) = (*lower.get(base)?, *lower.get(base + 1)?);
    let verb = match dummy {
        "does" => third(verb),
        "do" => verb.to_owned(),
        _ => return None,
    };
    let remove = base + 2 - at;
    ADVERBS.contains(&adverb).then(|| Edit::affirm(at, remove, &[adverb, &verb]))?
}

/// Whether a copula and `no` stand before `kind of`.
fn of_kinds(lower: &[&str], auxiliary: &str, at: usize) -> bool {
    let word = |at: usize| lower.get(at).copied().unwrap_or_default();
    is_be(auxiliary) && KINDS.contains(&word(at)) && word(at + 1) == "of"
}

fn is_participle(word: &str) -> bool {
    PARTICIPLES.contains(&word) || word.len() > 4 && (word.ends_with("ed") || word.ends_with("en"))
}

fn dummy_of(have: &str) -> &'static str {
    match have {
        "has" => "does",
        "had" => "did",
        _ => "do",
    }
}

#[cfg(test)]
mod tests;
