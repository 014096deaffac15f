//! Log-probabilities of single tokens, against transformers.

use proofmill_engine::request::{
    Answer, Body, Generate, Generation, Prompt, Request, RequestError, Score, Strategy,
    TokenLogprob,
};

use crate::golden::{self, Kind, Run};
use crate::model::{ask_all, generate, generations, open};

const TOLERANCE: f64 = 1e-4;
/// Below this gap the choice between two tokens may differ.
const GAP_MIN: f64 = 1e-4;

#[track_caller]
fn are_near(tokens: &[TokenLogprob], ids: &[u32], logprobs: &[f64], what: &str) {
    assert!(tokens.iter().map(|one| one.id).eq(ids.iter().copied()), "{what}");
    assert_eq!(logprobs.len(), ids.len(), "{what}");
    for (ours, theirs) in tokens.iter().zip(logprobs) {
        let error = (f64::from(ours.logprob.unwrap()) - theirs).abs();
        assert!(error < TOLERANCE, "{what}: {ours:?}, not {theirs}");
    }
}

fn joined(tokens: &[TokenLogprob]) -> String {
    tokens.iter().map(|one| one.text.as_str()).collect()
}

/// The same answer requested with its tokens and without; they differ in nothing else.
fn both(folder: &std::path::Path, generate: &Generate, row: u64) -> Vec<Generation> {
    let with = Generate { logprobs: true, ..generate.clone() };
    let requests = [generate, &with].map(|it| (Request::Generate(it.clone()), row));
    let [without, with] = ask_all(&open(folder), &requests).try_into().unwrap();
    let (without, with) = (generations(without), generations(with));
    for (a, b) in without.iter().zip(&with) {
        assert_eq!((a, &None), (&Generation { logprobs: None, ..b.clone() }, &a.logprobs));
        let tokens = b.logprobs.as_ref().unwrap();
        assert_eq!(joined(tokens), b.text, "{folder:?}");
        assert_eq!(tokens.len() as u32, b.output_tokens);
        let sum: f64 = tokens.iter().map(|one| f64::from(one.logprob.unwrap())).sum();
        assert!((sum - b.logprob.unwrap()).abs() < 1e-5, "{folder:?}: {sum}, not {:?}", b.logprob);
    }
    with
}

#[test]
fn new_tokens_are_returned_as_transformers_has_them() {
    for folder in golden::checkpoints() {
        if !matches!(golden::kind(&folder), Kind::Causal | Kind::Seq2seq) {
            continue;
        }
        let (writer, _) = golden::writer(&folder);
        let prompt = |text: usize| Prompt::Text(writer.texts[text].text.clone());
        let compare = |ours: &Generation, theirs: &Run, what: &str| {
            if theirs.gaps.iter().all(|gap| *gap > GAP_MIN) {
                let what = format!("{folder:?} {what}");
                are_near(ours.logprobs.as_ref().unwrap(), &theirs.tokens, &theirs.logprobs, &what);
            }
        };
        for it in &writer.greedy {
            let ours = both(&folder, &generate(prompt(it.text), Strategy::Greedy), 0);
            compare(&ours[0], &it.run, "greedy");
        }
        let setting = &writer.sampled[0];
        for it in &setting.runs {
            let strategy = Strategy::Sample {
                temperature: setting.temperature,
                top_k: setting.top_k,
                top_p: setting.top_p,
                seed: setting.seed,
                samples: it.sample as u32 + 1,
            };
            let ours = both(&folder, &generate(prompt(it.text), strategy), it.row);
            compare(&ours[it.sample as usize], &it.run, "sampled");
        }
        let strategy =
            Strategy::Beam { beams: 4, answers: 2, length_penalty: 1.0, early_stopping: false };
        for run in &writer.beam[0].runs {
            let ours = both(&folder, &generate(prompt(run.text), strategy), 0);
            for (ours, theirs) in ours.iter().zip(&run.answers) {
                let ids = ours.logprobs.as_ref().unwrap().iter().map(|one| one.id);
                assert!(!run.stable || ids.eq(theirs.tokens.iter().copied()), "{folder:?}");
            }
        }
    }
}

/// What is cut by a stop text says nothing, and choices are returned as they were given.
#[test]
fn texts_of_tokens_are_the_answer() {
    let folder = golden::kept().join("gpt2");
    let (writer, _) = golden::writer(&folder);
    let prompt = || Prompt::Text(writer.texts[3].text.clone());
    let whole = both(&folder, &generate(prompt(), Strategy::Greedy), 0).remove(0).text;
    let middle = whole.char_indices().nth(whole.chars().count() / 2).unwrap().0;
    let stop: String = whole[middle..].chars().take(2).collect();
    let stopped = Generate { stop: vec![stop], ..generate(prompt(), Strategy::Greedy) };
    assert!(both(&folder, &stopped, 0)[0].text.len() <= middle);
    let choices = vec![" ba be".to_owned(), "bo".to_owned()];
    both(&folder, &Generate { choices, ..generate(prompt(), Strategy::Greedy) }, 0);
}

fn score(prompt: &str, continuations: Vec<String>, prompt_logprobs: bool) -> Request {
    Request::Score(Score {
        prompt: prompt.to_owned(),
        messages: Vec::new(),
        truncate: None,
        continuations,
        include_eos: false,
        logprobs: true,
        prompt_logprobs,
    })
}

fn scores(answer: Result<Answer, RequestError>) -> Vec<proofmill_engine::request::Scored> {
    let Body::Scores(scores) = answer.unwrap().body else { panic!("no scores") };
    scores
}

#[test]
fn scored_tokens_are_returned_as_transformers_has_them() {
    for folder in golden::checkpoints() {
        let kind = golden::kind(&folder);
        if !matches!(kind, Kind::Causal | Kind::Seq2seq) {
            continue;
        }
        let (writer, _) = golden::writer(&folder);
        for theirs in &writer.scores {
            let text = &writer.texts[theirs.text];
            let given = || theirs.continuations.iter().map(|it| it.text.clone()).collect();
            let request = |prompt| (score(&text.text, given(), prompt), 0);
            let model = open(&folder);
            let [with, without] =
                ask_all(&model, &[request(true), request(false)]).try_into().unwrap();
            if kind == Kind::Seq2seq {
                assert!(matches!(with, Err(RequestError::Invalid(_))));
            }
            let without = scores(without);
            for (ours, theirs) in without.iter().zip(&theirs.continuations) {
                let tokens = ours.logprobs.as_ref().unwrap();
                are_near(tokens, &theirs.tokens, &theirs.logprobs, &format!("{folder:?}"));
                assert_eq!(ours.prompt_logprobs, None);
            }
            if kind == Kind::Seq2seq {
                continue;
            }
            let mut with = scores(with);
            let prompt = with[0].prompt_logprobs.take().unwrap();
            // What is returned of the prompt changes nothing else.
            assert_eq!(with, without, "{folder:?}");
            // Goldens have the tokenizer's special tokens, which an empty beginning has not.
            let (first, rest) = prompt.split_first().unwrap();
            assert_eq!((first.id, first.logprob), (text.ids[0], None));
            are_near(rest, &text.ids[1..], &theirs.prompt_logprobs, &format!("{folder:?} prompt"));
            assert_eq!(joined(&prompt), text.text, "{folder:?}");
        }
    }
}
