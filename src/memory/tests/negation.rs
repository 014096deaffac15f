//! The rules of negation and what they say of conflicts.

use proptest::prelude::*;

use crate::memory::conflict::Stance;
use crate::memory::negation::claim;
use crate::memory::{Clash, negation};

/// Statements and their negations, in both directions.
const PAIRS: [(&str, &str); 26] = [
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
    ("a fish has a backbone", "a fish does not have a backbone"),
    ("Birds have wings.", "Birds do not have wings."),
    ("The moon had an atmosphere.", "The moon did not have an atmosphere."),
    ("The glacier has melted.", "The glacier has not melted."),
    ("Glaciers have been here.", "Glaciers have not been here."),
    ("Ice will melt.", "Ice will not melt."),
    ("Ice should melt.", "Ice should not melt."),
    ("A plant does well.", "A plant does not do well."),
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
];

#[test]
fn statements_and_their_negations_lead_to_each_other() {
    for (affirmed, denied) in PAIRS {
        assert_eq!(negation(affirmed).as_deref(), Some(denied));
        // `does not always attract` affirms more than the rule can tell.
        if !affirmed.contains("always") {
            assert_eq!(negation(denied).as_deref(), Some(affirmed));
        }
        assert_eq!((claim(affirmed).denied, claim(denied).denied), (false, true), "{denied}");
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
    ] {
        assert_eq!(negation(denied).as_deref(), Some(affirmed));
        assert!(claim(denied).denied, "{denied}");
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
    ] {
        assert_eq!(negation(statement), None, "{statement}");
        assert!(!claim(statement).denied, "{statement}");
    }
}

fn clash(one: &str, other: &str) -> Option<Clash> {
    let stance = |text: &str| Stance::of(&text.parse().unwrap());
    let found = stance(one).clash(&stance(other));
    assert_eq!(found, stance(other).clash(&stance(one)), "{one} / {other}");
    found
}

#[test]
fn conflicts_are_found_whatever_the_clothes() {
    let contradicts = [
        ("A magnet can attract copper.", "a magnet CANNOT attract  copper"),
        ("The penny is made of copper", "A penny isn't made of copper."),
        ("Copper doesn't rust.", "copper rusts"),
        ("A fish has no scales", "a fish has scales"),
    ];
    for (one, other) in contradicts {
        assert_eq!(clash(one, other), Some(Clash::Contradiction), "{one} / {other}");
    }
    assert_eq!(
        clash("A penny is made of copper.", "a penny is made of iron"),
        Some(Clash::Possible)
    );
}

#[test]
fn harmless_pairs_are_no_conflicts() {
    for (one, other) in [
        ("A magnet can attract iron.", "A magnet cannot attract copper."),
        ("A penny is made of copper.", "A penny is made of copper and zinc."),
        ("A penny is made of copper.", "A nail is made of iron."),
        ("A penny is round.", "A penny is small."),
        ("A dog can bark.", "A dog can swim."),
        ("A penny is not made of iron.", "A penny is made of copper."),
        ("A penny is made of copper.", "a penny is made of copper"),
    ] {
        assert_eq!(clash(one, other), None, "{one} / {other}");
    }
}

proptest! {
    #[test]
    fn no_text_breaks_the_rules(text in "\\PC{0,60}") {
        let _ = (negation(&text), claim(&text));
    }

    #[test]
    fn words_of_the_rules_in_any_order_do_not_break_them(
        words in proptest::collection::vec(
            proptest::sample::select(vec![
                "A", "that", "can", "cannot", "not", "is", "has", "no", "never", "does", "don't", "eats",
                "eat", "always", "copper", "did", "have", "melted.",
            ]), 0..9),
    ) {
        let text = words.join(" ");
        if let Some(negated) = negation(&text) {
            prop_assert_ne!(negated, text);
        }
    }

    #[test]
    fn simple_statements_come_back(
        subject in proptest::sample::select(vec!["a magnet", "Copper", "the red sock", "An owl"]),
        verb in proptest::sample::select(vec![
            "can attract", "is", "was near", "has", "eats", "conducts", "will hold", "must melt", "carries",
        ]),
        object in proptest::sample::select(vec!["iron", "a long rope", "snow in winter."]),
    ) {
        let text = format!("{subject} {verb} {object}");
        let negated = negation(&text).unwrap();
        prop_assert_ne!(&negated, &text);
        prop_assert_eq!(negation(&negated), Some(text.clone()));
        prop_assert_eq!(clash(&text, &negated), Some(Clash::Contradiction));
    }
}
