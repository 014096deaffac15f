//! Which facts conflict.

use proofmill_udfs::text::negation::contradicts;
use proptest::prelude::*;

use crate::memory::Clash;
use crate::memory::conflict::Stance;

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
        ("a tuna is not a kind of mammal.", "A tuna is a mammal"),
        ("An ermine is not an insect", "an ermine is a kind of insect"),
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
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// The SQL function and the memory are of one opinion.
    #[test]
    fn a_conflict_is_a_contradiction(
        one in "[a-c] (is|can|cannot|is not|eats|has no|has) (a kind of )?[a-c]\\.?",
        other in "[a-c] (is|can|cannot|is not|eats|has no|has) (a kind of )?[a-c]\\.?",
    ) {
        prop_assert_eq!(clash(&one, &other) == Some(Clash::Contradiction), contradicts(&one, &other));
    }
}
