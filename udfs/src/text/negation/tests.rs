//! The rules of negation, and what they say of two statements.

use proptest::prelude::*;

use super::{claim, contradicts, negation};

/// Statements and their negations, in both directions.
const PAIRS: [(&str, &str); 29] = [
    ("A magnet can attract copper.", "A magnet cannot attract copper."),
    ("copper conducts electricity", "copper does not conduct electricity"),
    ("a manatee eats grass", "a manatee does not eat grass"),
    ("An electron carries a charge.", "An electron does not carry a charge."),
    ("a wombat digs burrows", "a wombat does not dig burrows"),
    ("Iron rusts.", "Iron does not rust."),
    ("Plants make food.", "Plants do not make food."),
    ("Plant roots absorb water.", "Plant roots do not absorb water."),
    ("Fruit flies eat sugar.", "Fruit flies do not eat sugar."),
    ("Steel is hard.", "Steel is not hard."),
    ("Whales are fish.", "Whales are not fish."),
    ("The sky was blue.", "The sky was not blue."),
    ("Dinosaurs were warm.", "Dinosaurs were not warm."),
    ("a tuna is a kind of mammal.", "a tuna is not a kind of mammal."),
    ("a fish has a backbone", "a fish does not have a backbone"),
    ("Birds have wings.", "Birds do not have wings."),
    ("The moon had an atmosphere.", "The moon did not have an atmosphere."),
    ("The glacier has melted.", "The glacier has not melted."),
    ("Glaciers have been here.", "Glaciers have not been here."),
    ("Ice will melt.", "Ice will not melt."),
    ("Ice should melt.", "Ice should not melt."),
    ("A plant does well.", "A plant does not do well."),
    ("The plant did well.", "The plant did not do well."),
    ("an animal that eats fish is a hunter", "an animal that eats fish is not a hunter"),
    (
        "an animal that eats grass finds little food in winter",
        "an animal that eats grass does not find little food in winter",
    ),
    ("a bird that cannot fly runs fast", "a bird that cannot fly does not run fast"),
    (
        "a device that runs on wind has to be charged",
        "a device that runs on wind does not have to be charged",
    ),
    ("A magnet always attracts iron.", "A magnet does not always attract iron."),
    ("Cats usually sleep.", "Cats do not usually sleep."),
];

#[test]
fn statements_and_their_negations_lead_to_each_other() {
    for (affirmed, denied) in PAIRS {
        assert_eq!(negation(affirmed).as_deref(), Some(denied));
        assert_eq!(negation(denied).as_deref(), Some(affirmed));
        assert_eq!((claim(affirmed).denied, claim(denied).denied), (false, true), "{denied}");
        assert!(contradicts(affirmed, denied), "{denied}");
    }
}

#[test]
fn other_ways_to_deny_are_read_too() {
    for (denied, affirmed) in [
        ("A magnet can't attract copper", "A magnet can attract copper"),
        ("A magnet can not attract copper", "A magnet can attract copper"),
        ("Whales aren't fish.", "Whales are fish."),
        ("Ice won\u{2019}t melt", "Ice will melt"),
        ("Copper doesn't rust.", "Copper rusts."),
        ("Cats don't bark.", "Cats bark."),
        ("The moon didn't have water.", "The moon had water."),
        ("a fish has no scales", "a fish has scales"),
        ("A manatee eats no meat", "A manatee eats meat"),
        ("a clock never has to be charged", "a clock has to be charged"),
        ("a toad is never dry", "a toad is dry"),
        ("A toad hasn't melted", "A toad has melted"),
        ("A whale is no kind of fish.", "A whale is a kind of fish."),
        ("Whales are no kinds of fish.", "Whales are kinds of fish."),
    ] {
        assert_eq!(negation(denied).as_deref(), Some(affirmed));
        assert!(claim(denied).denied, "{denied}");
        assert!(contradicts(denied, affirmed), "{denied}");
    }
}

#[test]
fn what_the_rules_do_not_cover_has_no_negation() {
    for statement in [
        "All metals are magnetic.",
        "No metal is soft.",
        "Nothing attracts copper.",
        "Not all birds fly.",
        "Some birds fly.",
        "Birds sometimes swim.",
        "Only iron rusts.",
        "If it rains, the street is wet.",
        "Can a magnet attract copper?",
        "A penny that is old",
        "copper",
        "An animal that is a bird that flies is warm.",
        "A whale is no fish.",
        "A whale is no longer a fish.",
    ] {
        assert_eq!(negation(statement), None, "{statement}");
        assert!(!claim(statement).denied, "{statement}");
    }
}

#[test]
fn a_kind_of_thing_is_the_thing() {
    for (one, other) in [
        ("a tuna is not a kind of mammal.", "a tuna is a mammal."),
        ("a tuna is not a mammal.", "A tuna is a kind of mammal"),
        ("An ermine isn't one kind of insect", "an ermine is an insect"),
        ("An ermine is not any sort of insect", "an ermine is an insect"),
        ("Whales are kinds of fish", "whales are not fish"),
        ("A whale can be a type of fish", "a whale cannot be a fish"),
        ("A whale is no kind of fish", "a whale is a fish"),
    ] {
        assert!(contradicts(one, other), "{one} / {other}");
    }
    for (one, other) in [
        // An adverb.
        ("copper is kind of soft", "copper is not soft"),
        ("a tuna is a kind of fish", "a tuna is not a kind of mammal"),
        ("a tuna eats a kind of fish", "a tuna does not eat fish"),
        ("a tuna is a kind", "a tuna is not"),
    ] {
        assert!(!contradicts(one, other), "{one} / {other}");
    }
}

#[test]
fn what_both_say_or_neither_denies_is_no_contradiction() {
    for (one, other) in [
        ("A magnet can attract iron.", "A magnet cannot attract copper."),
        ("A penny is not made of iron.", "A penny is made of copper."),
        ("A penny is made of copper.", "A penny is made of iron."),
        ("A penny is not old.", "A penny isn't old."),
        ("Some birds fly.", "Some birds do not fly."),
        ("", "."),
    ] {
        assert!(!contradicts(one, other), "{one} / {other}");
    }
}

/// Words that the rules know, and a few others.
fn words() -> impl Strategy<Value = String> {
    let word = proptest::sample::select(vec![
        "A", "that", "can", "cannot", "not", "is", "has", "no", "never", "does", "don't", "eats",
        "eat", "always", "copper", "did", "have", "melted", "kind", "kinds", "of", "be", "the",
    ]);
    proptest::collection::vec(word, 0..9).prop_map(|words| words.join(" "))
}

fn texts() -> impl Strategy<Value = String> {
    prop_oneof![3 => words(), 1 => "\\PC{0,60}"]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_negation_that_leads_back_contradicts(text in texts()) {
        let Some(negated) = negation(&text) else { return Ok(()) };
        prop_assert_ne!(&negated, &text);
        // Of two denials in one sentence, the rules read the first.
        if negation(&negated).is_some_and(|back| claim(&back) == claim(&text)) {
            prop_assert!(contradicts(&text, &negated), "{}", negated);
        }
    }

    #[test]
    fn contradiction_is_mutual_and_never_with_oneself(one in texts(), other in texts()) {
        prop_assert_eq!(contradicts(&one, &other), contradicts(&other, &one));
        prop_assert!(!contradicts(&one, &one));
        if let Some(negated) = negation(&one) {
            prop_assert_eq!(contradicts(&one, &negated), contradicts(&negated, &one));
        }
    }

    #[test]
    fn case_and_a_full_stop_make_no_difference(
        one in words(), other in words(), negated in any::<bool>(),
    ) {
        let other = if negated { negation(&one).unwrap_or(other) } else { other };
        let expected = contradicts(&one, &other);
        for dressed in [format!("{one}."), one.to_uppercase(), format!(" {}  .", one.to_lowercase())] {
            prop_assert_eq!(contradicts(&dressed, &other), expected, "{}", dressed);
            prop_assert!(!contradicts(&dressed, &one));
        }
    }

    #[test]
    fn simple_statements_come_back(
        subject in proptest::sample::select(vec!["a magnet", "Copper", "the red sock", "An owl"]),
        verb in proptest::sample::select(vec![
            "can attract", "is", "was near", "has", "eats", "conducts", "will hold", "must melt", "carries",
            "is a kind of", "always eats",
        ]),
        object in proptest::sample::select(vec!["iron", "a long rope", "snow in winter."]),
    ) {
        let text = format!("{subject} {verb} {object}");
        let negated = negation(&text).unwrap();
        prop_assert_ne!(&negated, &text);
        prop_assert_eq!(negation(&negated), Some(text.clone()));
        prop_assert!(contradicts(&text, &negated));
    }
}
