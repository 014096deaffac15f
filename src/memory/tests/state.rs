//! The fold: what entries amount to.

use proptest::prelude::*;

use super::{add, entries, exclude, force, lesson, negate, sentence, undo};
use crate::memory::state::undone_by;
use crate::memory::{Action, JournalEntry, RowKind, Source, State};

const PENNY: &str = "Can a magnet attract a penny?";

fn state(actions: impl IntoIterator<Item = Action>) -> State {
    State::of(&entries(actions))
}

/// RowKind, source and text of each row.
fn shown(state: &State) -> Vec<(RowKind, Source, String)> {
    state.rows().iter().map(|row| (row.kind, row.source, row.text())).collect()
}

#[test]
fn the_penny_is_taught() {
    let state = state([add("A penny is made of copper."), negate("A magnet can attract copper.")]);
    let expected = [
        (RowKind::Fact, Source::Added, "A penny is made of copper.".to_owned()),
        (RowKind::Fact, Source::Negated, "A magnet cannot attract copper.".to_owned()),
    ];
    assert_eq!(shown(&state), expected);
}

#[test]
fn a_negated_fact_is_retired_and_comes_back_when_that_is_undone() {
    let all = [
        add("A magnet can attract copper"),
        negate("a magnet can attract copper."),
        undo(2),
        undo(3),
    ];
    assert_eq!(state(all[..2].to_vec()).rows().len(), 1);
    assert_eq!(shown(&state(all[..3].to_vec())), shown(&state(all[..1].to_vec())));
    assert_eq!(state(all[..3].to_vec()).sha256(), state(all[..1].to_vec()).sha256());
    assert_eq!(state(all.to_vec()).sha256(), state(all[..2].to_vec()).sha256());
}

#[test]
fn who_undid_what_is_known() {
    let all = entries([add("Iron rusts."), undo(1), undo(2), undo(1), undo(9), undo(6)]);
    assert_eq!(undone_by(&all), [Some(4), Some(3), None, None, None, None]);
}

#[test]
fn one_fact_is_held_once_in_its_first_spelling() {
    let state = state([
        add("Iron rusts."),
        add("iron  RUSTS"),
        add("IRON rusts ."),
        force("iron rusts", PENNY),
    ]);
    let rows = state.rows();
    assert_eq!(rows.len(), 2, "{rows:#?}");
    assert_eq!(rows[0].text(), "Iron rusts.");
    assert_eq!(rows[1].text(), "Iron rusts.", "what is forced is the fact itself");
}

#[test]
fn a_noted_premise_becomes_a_fact_when_it_is_said_and_affirmed() {
    let confirm = Action::Confirm {
        question: sentence(PENNY),
        answer: sentence("no"),
        premises: vec![sentence("Copper is not magnetic."), sentence("A penny is made of copper.")],
    };
    let kinds = |actions: &[Action]| {
        let rows = state(actions.to_vec()).rows();
        rows.iter().map(|row| (row.kind, row.source, row.entry)).collect::<Vec<_>>()
    };
    let mut all = vec![confirm.clone()];
    let noted = (RowKind::Noted, Source::Confirmed, 1);
    let confirmed = (RowKind::Confirmed, Source::Confirmed, 1);
    assert_eq!(kinds(&all), [noted, noted, confirmed]);
    all.push(add("copper is not magnetic"));
    assert_eq!(kinds(&all), [noted, confirmed, (RowKind::Fact, Source::Added, 2)]);
    all.push(Action::Affirm { fact: sentence("copper is not magnetic"), question: None });
    assert_eq!(kinds(&all)[2], (RowKind::Fact, Source::Affirmed, 3));
    all.push(add("copper is not magnetic"));
    assert_eq!(kinds(&all)[2], (RowKind::Fact, Source::Affirmed, 3), "an affirmed fact stays one");
    all.push(confirm);
    assert_eq!(kinds(&all), kinds(&all[..3]), "nothing new is confirmed");
}

#[test]
fn the_last_word_about_a_question_counts() {
    let answer = |answer: &str| Action::Confirm {
        question: sentence(PENNY),
        answer: sentence(answer),
        premises: Vec::new(),
    };
    assert_eq!(shown(&state([answer("yes"), answer("no")]))[0].2, "no");
    let steered =
        state([add("Iron rusts."), exclude("Iron rusts.", PENNY), force("iron rusts", PENNY)]);
    assert_eq!(shown(&steered)[1].0, RowKind::Forced);
    assert_eq!(steered.rows().len(), 2);
    let forced = [add("Iron rusts."), force("Iron rusts.", PENNY), negate("Iron rusts."), undo(3)];
    assert_eq!(shown(&state(forced[..3].to_vec())).len(), 1, "a retired fact is not forced");
    assert_eq!(shown(&state(forced.to_vec())).len(), 2);
}

#[test]
fn blocked_premises_have_no_order() {
    let block = |premises: [&str; 2]| {
        Action::block(sentence("a magnet attracts a penny"), premises.map(sentence).to_vec())
            .unwrap()
    };
    let state =
        state([block(["Iron rusts.", "Tin shines."]), block(["tin shines", "Iron  rusts"])]);
    assert_eq!(state.rows().len(), 1);
}

#[test]
fn actions_that_make_no_sense_are_refused() {
    let all = entries([add("A penny is made of copper."), undo(1)]);
    let state = State::of(&all[..1]);
    let refused = |action: Action, all: &[JournalEntry]| {
        State::of(all).accepts(&action, all).unwrap_err().to_string()
    };
    assert!(refused(undo(2), &all[..1]).contains("no entry 2"));
    assert!(refused(undo(0), &all).contains("no entry 0"));
    assert!(refused(undo(1), &all).contains("already undone, by entry 2"));
    let error = state.accepts(&force("A penny is made of coper", PENNY), &all[..1]).unwrap_err();
    assert!(error.hint().contains("did you mean \"A penny is made of copper.\""), "{error}");
    assert!(state.accepts(&force("a penny is made of copper", PENNY), &all[..1]).is_ok());
}

/// Any action over few sentences, so that they meet.
fn any_action() -> impl Strategy<Value = Action> {
    let facts = ["Iron rusts.", "iron RUSTS", "Iron does not rust", "A penny is made of copper."];
    let fact = proptest::sample::select(facts.to_vec());
    let question = proptest::sample::select(vec![PENNY, "Why?"]);
    (fact, question, 0u8..8, 1u64..12).prop_map(|(fact, question, kind, entry)| match kind {
        0 => add(fact),
        1 => Action::Affirm { fact: sentence(fact), question: Some(sentence(question)) },
        2 => negate(fact),
        3 => Action::block(sentence(question), vec![sentence(fact)]).unwrap(),
        4 => Action::Confirm {
            question: sentence(question),
            answer: sentence("yes"),
            premises: vec![sentence(fact)],
        },
        5 => exclude(fact, question),
        6 => force(fact, question),
        _ => undo(entry),
    })
}

/// Actions that a memory takes: those that it refuses are left out.
fn taken(actions: Vec<Action>) -> Vec<JournalEntry> {
    let mut all: Vec<Action> = Vec::new();
    for action in actions {
        let before = entries(all.clone());
        if State::of(&before).accepts(&action, &before).is_ok() {
            all.push(action);
        }
    }
    entries(all)
}

proptest! {
    #[test]
    fn undoing_everything_leaves_nothing(
        actions in proptest::collection::vec(any_action(), 0..12),
    ) {
        let all = taken(actions);
        let mut actions: Vec<Action> = all.iter().map(|entry| entry.action.clone()).collect();
        // From the last to the first, whatever still counts.
        for seq in (1..=all.len() as u64).rev() {
            let so_far = entries(actions.clone());
            if State::of(&so_far).accepts(&undo(seq), &so_far).is_ok() {
                actions.push(undo(seq));
            }
        }
        prop_assert!(state(actions).is_empty());
    }

    #[test]
    fn undoing_the_last_restores_what_was(
        actions in proptest::collection::vec(any_action(), 1..12),
    ) {
        let all = taken(actions);
        let actions: Vec<Action> = all.iter().map(|entry| entry.action.clone()).collect();
        if let Some((_, before)) = actions.split_last() {
            let last = undo(actions.len() as u64);
            let after = state(actions.iter().cloned().chain([last]));
            prop_assert_eq!(after.sha256(), state(before.to_vec()).sha256());
        }
    }

    #[test]
    fn what_is_said_twice_is_said_once(
        actions in proptest::collection::vec(any_action(), 0..10),
        again in any_action(),
    ) {
        prop_assume!(!matches!(again, Action::Undo { .. }));
        let all = taken(actions);
        let actions = || all.iter().map(|entry| entry.action.clone());
        let once = state(actions().chain([again.clone()]));
        let twice = state(actions().chain([again.clone(), again]));
        prop_assert_eq!(once.sha256(), twice.sha256());
    }

    #[test]
    fn the_fold_can_go_on_from_any_place(
        actions in proptest::collection::vec(any_action(), 0..12),
    ) {
        let all: Vec<JournalEntry> = entries(
            actions.into_iter().filter(|action| !matches!(action, Action::Undo { .. })),
        );
        let mut state = State::default();
        for (at, entry) in all.iter().enumerate() {
            state.apply(entry);
            prop_assert_eq!(&state, &State::of(&all[..=at]));
        }
    }
}

#[test]
fn every_lesson_reads_back() {
    let question = sentence(PENNY);
    let all = [
        add("Iron rusts."),
        Action::Affirm { fact: sentence("Iron rusts."), question: Some(question.clone()) },
        negate("Iron rusts."),
        Action::block(sentence("H"), vec![sentence("P")]).unwrap(),
        Action::Confirm { question, answer: sentence("no"), premises: Vec::new() },
        exclude("Iron rusts.", PENNY),
        force("Iron rusts.", PENNY),
        undo(1),
    ];
    for action in all {
        let text = serde_json::to_string(&action).unwrap();
        assert!(text.contains(&format!("\"{}\"", action.verb())), "{text}");
        assert_eq!(serde_json::from_str::<Action>(&text).unwrap(), lesson(action).action);
    }
}
