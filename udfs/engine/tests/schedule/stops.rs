//! Where an answer ends: stop texts, ends, lengths.

use proofmill_engine::request::{Finish, Generate, Generation, Request, Strategy};

use crate::ask::{ask, beams, open, plain, sampled, settings, write};

/// What `t5` says to "si" without a stop; a token each: "su", "su", "su", " da", " da", ...
const SAID: &str = "sususu da da da da da da da da da";

fn stopped(prompt: &str, max_tokens: u32, stops: &[&str]) -> Generate {
    let stop = stops.iter().map(|&stop| stop.to_owned()).collect();
    Generate { stop, max_tokens, ..plain(prompt, Strategy::Greedy) }
}

fn greedy(name: &str, generate: &Generate) -> Generation {
    let mut all = write(&open(name, &settings()), generate);
    assert_eq!(all.len(), 1);
    all.remove(0)
}

#[test]
fn an_answer_ends_before_its_stop_text_and_counts_all_its_tokens() {
    let whole = greedy("t5", &stopped("si", 12, &[]));
    assert_eq!((&whole.text[..], whole.finish), (SAID, Finish::Length));
    for (stops, text, tokens) in [
        // A whole token; the beginning of the answer.
        (&["su"][..], "", 1),
        // Inside a token.
        (&["a"], "sususu d", 4),
        // Over several tokens, from inside one to inside another.
        (&["u d"], "susus", 4),
        (&["usu da d"], "sus", 5),
        // Whichever is complete first, not whichever was begun first or stands first.
        (&["da da", "u d"], "susus", 4),
        (&["usu da da", "u da"], "susus", 4),
    ] {
        let answer = greedy("t5", &stopped("si", 12, stops));
        assert_eq!((&answer.text[..], answer.finish), (text, Finish::Stop), "{stops:?}");
        assert_eq!(answer.output_tokens, tokens, "{stops:?}");
        // The log-probability is that of all tokens that were made.
        let cut = greedy("t5", &stopped("si", tokens, &[]));
        assert_eq!(cut.logprob, answer.logprob, "{stops:?}");
    }
}

#[test]
fn a_stop_text_may_come_with_the_last_token() {
    let answer = greedy("t5", &stopped("si", 4, &["u d"]));
    assert_eq!((&answer.text[..], answer.finish), ("susus", Finish::Stop));
    let answer = greedy("t5", &stopped("si", 3, &["u d"]));
    assert_eq!((&answer.text[..], answer.finish), ("sususu", Finish::Length));
}

#[test]
fn decoders_stop_behind_their_prompt() {
    // llama says " du du du du" to "si", a token each.
    let answer = greedy("llama", &stopped("si", 12, &["u d"]));
    let expected = (" d", Finish::Stop, 2);
    assert_eq!((&answer.text[..], answer.finish, answer.output_tokens), expected);
    // The stop text ends the prompt, which is not the answer.
    let answer = greedy("llama", &stopped("si", 2, &["si"]));
    assert_eq!((&answer.text[..], answer.finish), (" du du", Finish::Length));
}

#[test]
fn a_forced_beginning_is_no_place_to_stop() {
    for name in ["t5", "gpt2"] {
        let all = Generate { prefix: " da su".to_owned(), ..stopped("si", 12, &["da"]) };
        let answer = greedy(name, &all);
        let said = answer.text.trim_start().strip_prefix("da su");
        assert!(said.is_some_and(|said| !said.contains("da")), "{name}: {answer:?}");
        assert!(answer.output_tokens > 0);
    }
}

#[test]
fn every_sample_stops_by_itself() {
    let model = open("gpt2", &settings());
    let all = Generate { max_tokens: 30, ..plain("lu", sampled(3, 16)) };
    let stop = Generate { stop: vec!["a".to_owned()], ..all.clone() };
    let samples = write(&model, &stop);
    assert!(samples.iter().all(|one| !one.text.contains('a')));
    let count = samples.iter().filter(|one| one.finish == Finish::Stop).count();
    assert!((2..16).contains(&count), "{count} stopped");
}

#[test]
fn nothing_ends_before_its_least_length() {
    // What these say to these prompts ends at once.
    for (name, prompt) in [
        ("gpt2", "ji qo qavo hedi bomu tizi wu juxi ta"),
        ("llama", "la bi vo bemowi"),
        (
            "t5",
            "nu boriho qosa lu we zi kibi sevi go xikifa lixixe nuquwa ko taqo natabu jeza nowa me wuzuwe midepe radozu re",
        ),
    ] {
        let model = open(name, &settings());
        let greedy = write(&model, &plain(prompt, Strategy::Greedy)).remove(0);
        assert_eq!(greedy.finish, Finish::End);
        assert!(greedy.output_tokens < 3);
        for strategy in [Strategy::Greedy, sampled(1, 16), beams(4)] {
            for min_tokens in [3, 6, 12] {
                let answers = write(&model, &Generate { min_tokens, ..plain(prompt, strategy) });
                for answer in answers {
                    // The end is a token more.
                    let least = if answer.finish == Finish::End { min_tokens + 1 } else { 12 };
                    assert!(answer.output_tokens >= least, "{name} {strategy:?}: {answer:?}");
                }
            }
        }
    }
}

#[test]
fn an_end_that_just_fits_is_an_end() {
    let prompt = "la bi vo bemowi";
    let model = open("llama", &settings());
    let of = |max_tokens| {
        write(&model, &Generate { max_tokens, ..plain(prompt, Strategy::Greedy) }).remove(0)
    };
    assert_eq!((of(2).finish, of(2).output_tokens), (Finish::End, 2));
    assert_eq!((of(1).finish, of(1).output_tokens), (Finish::Length, 1));
    assert_eq!(of(1).text, of(2).text);
}

#[test]
fn an_end_that_was_forced_is_a_cut() {
    let answer = greedy("bart-forced", &plain("si", Strategy::Greedy));
    assert_eq!((answer.finish, answer.output_tokens), (Finish::Length, 12));
}

#[test]
fn a_forced_beginning_is_as_it_was_given_or_an_error() {
    for name in ["t5", "gpt2"] {
        let model = open(name, &settings());
        let with = |prefix: &str| Generate {
            prefix: prefix.to_owned(),
            ..plain("bake the bread", Strategy::Greedy)
        };
        for prefix in ["[bake] it.", "two  spaces", "\u{fb01}ne", ""] {
            for one in write(&model, &with(prefix)) {
                assert!(one.text.starts_with(prefix), "{name}: {one:?}");
            }
        }
        let answer = ask(&model, &Request::Generate(with("a \u{6f22} bakes")));
        match name {
            // It has bytes.
            "gpt2" => assert!(answer.is_ok()),
            _ => {
                let why = answer.unwrap_err().to_string();
                let expected = "no tokens for a part of the prefix \"a \u{6f22} bakes\"; the answer cannot begin with it";
                assert!(why.contains(expected), "{why}");
            }
        }
    }
}
