//! Which question is meant: by its id, or by its text as far as it is unique.

use proofmill_base::error::{Error, ErrorKind};
use proofmill_base::sentence::normalized;
use proofmill_base::suggest;

/// Questions that an error message lists.
pub const LISTED_MAX: usize = 10;

/// A question of a run.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Candidate {
    pub id: String,
    /// Its text, where one is known.
    pub text: Option<String>,
}

/// The one that is meant.
///
/// The first that holds decides: it is the id; it is the text; the text begins so; the text holds it.
/// Texts are compared without case and with any white space alike.
///
/// # Errors
///
/// When several are meant, with up to [`LISTED_MAX`] of them, or none is, with the nearest.
pub fn resolve(wanted: &str, candidates: &[Candidate]) -> Result<Candidate, Error> {
    if let Some(found) = candidates.iter().find(|candidate| candidate.id == wanted) {
        return Ok(found.clone());
    }
    let folded = normalized(wanted);
    let texts: Vec<(String, &Candidate)> = candidates
        .iter()
        .filter_map(|candidate| Some((normalized(candidate.text.as_deref()?), candidate)))
        .collect();
    let ways: [fn(&str, &str) -> bool; 3] = [
        |text, part| text == part,
        |text, part| text.starts_with(part),
        |text, part| text.contains(part),
    ];
    for fits in ways {
        let found: Vec<&Candidate> = texts
            .iter()
            .filter(|(text, _)| !folded.is_empty() && fits(text, &folded))
            .map(|(_, candidate)| *candidate)
            .collect();
        match found.as_slice() {
            [] => {}
            [only] => return Ok((*only).clone()),
            several => return Err(ambiguous(wanted, several)),
        }
    }
    Err(unknown(wanted, &texts, candidates))
}

fn ambiguous(wanted: &str, several: &[&Candidate]) -> Error {
    let listed = || several.iter().take(LISTED_MAX);
    let width = listed().map(|candidate| candidate.id.chars().count()).max().unwrap_or(0);
    let lines = listed().map(|candidate| {
        format!("\n  {:<width$}  {}", candidate.id, candidate.text.as_deref().unwrap_or_default())
    });
    let more = several.len().saturating_sub(LISTED_MAX);
    let more = if more > 0 { format!("\n  and {more} more") } else { String::new() };
    let count = several.len();
    let message =
        format!("`{wanted}` matches {count} questions:{}{more}", lines.collect::<String>());
    Error::new(ErrorKind::Usage, message).with_hint("give the id, shown first")
}

fn unknown(wanted: &str, texts: &[(String, &Candidate)], candidates: &[Candidate]) -> Error {
    let by_id = suggest::nearest(wanted, candidates.iter().map(|candidate| candidate.id.as_str()));
    let by_text = || {
        let folded = normalized(wanted);
        let text = suggest::nearest(&folded, texts.iter().map(|(text, _)| text.as_str()))?;
        texts.iter().find(|(its, _)| its == text).map(|(_, candidate)| candidate.id.as_str())
    };
    let hint = match by_id.or_else(by_text) {
        Some(id) => {
            let found = candidates.iter().find(|candidate| candidate.id == id);
            let text = found.and_then(|candidate| candidate.text.clone());
            let text = text.map(|text| format!(" ({text})")).unwrap_or_default();
            format!("did you mean `{id}`{text}?")
        }
        None => {
            let some: Vec<String> =
                candidates.iter().take(3).map(|candidate| format!("`{}`", candidate.id)).collect();
            match some.is_empty() {
                true => "no stage of the run has answered a question".to_owned(),
                false => format!("questions of the run have ids such as {}", some.join(", ")),
            }
        }
    };
    Error::new(ErrorKind::Usage, format!("the run has no question `{wanted}`")).with_hint(hint)
}

/// Whether the row `source` is the question, one of its hypotheses, `question#choice`, or one of their
/// proofs, `question#choice/attempt`.
pub fn belongs(source: &str, question_id: &str) -> bool {
    let Some(rest) = source.strip_prefix(question_id) else { return false };
    let Some(rest) = rest.strip_prefix('#') else { return rest.is_empty() };
    let choice = rest.split('/').next().unwrap_or_default();
    !choice.is_empty() && choice.bytes().all(|b| b.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn questions() -> Vec<Candidate> {
        let all = [
            ("q1", "Can a magnet attract a penny?"),
            ("q2", "Can a magnet attract a nail?"),
            ("q3", "Is a penny made of iron?"),
            ("q4", "is a  penny MADE of iron?"),
        ];
        let candidate =
            |(id, text): (&str, &str)| Candidate { id: id.into(), text: Some(text.into()) };
        let lost = Candidate { id: "lost".into(), text: None };
        all.into_iter().map(candidate).chain([lost]).collect()
    }

    #[track_caller]
    fn found(wanted: &str) -> String {
        resolve(wanted, &questions()).unwrap().id
    }

    #[track_caller]
    fn refused(wanted: &str) -> String {
        let error = resolve(wanted, &questions()).unwrap_err();
        format!("{}\n{}", error.message, error.hint.unwrap_or_default())
    }

    #[test]
    fn questions_are_found_by_id_text_beginning_or_part() {
        assert_eq!(found("q3"), "q3");
        assert_eq!(found("lost"), "lost");
        assert_eq!(found(" can A magnet   attract a penny? "), "q1");
        assert_eq!(found("can a magnet attract a p"), "q1");
        assert_eq!(found("NAIL"), "q2");
    }

    #[test]
    fn several_are_listed_with_their_ids() {
        insta::assert_snapshot!(refused("can a magnet"), @r"
        `can a magnet` matches 2 questions:
          q1  Can a magnet attract a penny?
          q2  Can a magnet attract a nail?
        give the id, shown first
        ");
        assert!(refused("Is a penny made of iron?").contains("matches 2 questions"));
        let many: Vec<_> = (0..12)
            .map(|n| Candidate { id: format!("q{n}"), text: Some("the same".into()) })
            .collect();
        let message = resolve("same", &many).unwrap_err().message;
        assert!(message.contains("matches 12 questions") && message.ends_with("and 2 more"));
        assert_eq!(message.lines().count(), 1 + LISTED_MAX + 1);
    }

    #[test]
    fn slips_are_pointed_out() {
        insta::assert_snapshot!(refused("q5"), @r"
        the run has no question `q5`
        did you mean `q1` (Can a magnet attract a penny?)?
        ");
        assert!(
            refused("Can a magnet atract a nial?")
                .ends_with("did you mean `q2` (Can a magnet attract a nail?)?")
        );
        assert!(refused("photosynthesis").ends_with("ids such as `q1`, `q2`, `q3`"));
        assert!(refused("  ").contains("no question"), "nothing is in every text");
        assert!(resolve("x", &[]).unwrap_err().hint.unwrap().starts_with("no stage"));
    }

    #[test]
    fn rows_of_other_questions_do_not_belong() {
        for source in ["q1", "q1#0", "q1#12/free", "q1#0/fact3"] {
            assert!(belongs(source, "q1"), "{source}");
        }
        for source in ["q10", "q1#", "q1#x", "q1#x#0", "q1/0", "q2#0", ""] {
            assert!(!belongs(source, "q1"), "{source}");
        }
        assert!(belongs("q1#x#0", "q1#x"));
    }

    proptest! {
        #[test]
        fn an_id_is_found_whatever_the_texts_are(texts in prop::collection::vec("[ab ]{0,4}", 1..6)) {
            let all: Vec<_> = texts
                .iter()
                .enumerate()
                .map(|(i, text)| Candidate { id: format!("q{i}"), text: Some(text.clone()) })
                .collect();
            for candidate in &all {
                prop_assert_eq!(&resolve(&candidate.id, &all).unwrap(), candidate);
            }
            // What a text is found by is part of it.
            if let Ok(found) = resolve("ab", &all) {
                prop_assert!(normalized(found.text.as_deref().unwrap_or_default()).contains("ab"));
            }
        }
    }
}
