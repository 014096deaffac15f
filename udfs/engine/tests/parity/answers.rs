//! What models write, against transformers.

use std::path::{Path, PathBuf};

use proofmill_engine::request::{
    Body, Finish, Generate, Generation, Prompt, Request, Score, Strategy,
};
use tokenizers::Tokenizer;

use crate::golden::{self, Kind, NEW_TOKENS, Run, Writer};
use crate::model::{ask_all, generate, generations, open};

/// Log-probabilities of up to 16 tokens.
const LOGPROB_TOLERANCE: f64 = 1e-4;
/// Below this gap the choice between two tokens may differ.
const GAP_MIN: f64 = 1e-4;

fn writers() -> Vec<(PathBuf, Writer, Tokenizer)> {
    golden::checkpoints()
        .into_iter()
        .filter(|folder| matches!(golden::kind(folder), Kind::Causal | Kind::Seq2seq))
        .map(|folder| {
            let (writer, _) = golden::writer(&folder);
            let tokenizer = Tokenizer::from_file(folder.join("tokenizer.json")).unwrap();
            (folder, writer, tokenizer)
        })
        .collect()
}

/// What follows the prompt, as text.
fn text(writer: &Writer, tokenizer: &Tokenizer, before: &[u32], tokens: &[u32]) -> String {
    let plain: Vec<u32> =
        tokens.iter().copied().filter(|token| !writer.ends.contains(token)).collect();
    let decode = |ids: &[u32]| tokenizer.decode(ids, true).unwrap();
    let whole = decode(&[before, &plain].concat());
    let start = decode(before);
    whole.strip_prefix(&start).map(str::to_owned).unwrap_or_else(|| decode(&plain))
}

#[track_caller]
fn check(
    what: &str,
    folder: &Path,
    (writer, tokenizer): (&Writer, &Tokenizer),
    (prefix, before): (&str, &[u32]),
    run: &Run,
    ours: &Generation,
) {
    if run.gaps.iter().any(|gap| *gap < GAP_MIN) {
        eprintln!("{folder:?} {what}: a near-tie, not compared");
        return;
    }
    let expected = format!("{prefix}{}", text(writer, tokenizer, before, &run.tokens));
    assert_eq!(ours.text, expected, "{folder:?} {what}");
    assert_eq!(ours.output_tokens as usize, run.tokens.len(), "{folder:?} {what}");
    let logprob = ours.logprob.unwrap();
    let error = (logprob - run.logprob).abs();
    assert!(error < LOGPROB_TOLERANCE, "{folder:?} {what}: {logprob}, not {}", run.logprob);
    let ended = writer.ends.contains(run.tokens.last().unwrap());
    // Where the last token is forced (BART), an answer of the greatest length was cut.
    let forced = writer.prefixed.is_empty() && run.tokens.len() == NEW_TOKENS;
    let finish = if ended && !forced { Finish::End } else { Finish::Length };
    assert_eq!(ours.finish, finish, "{folder:?} {what}");
}

/// The tokens before an answer that decide how it is spelled.
fn before(writer: &Writer, number: usize) -> Vec<u32> {
    match writer.kind {
        Kind::Causal => writer.texts[number].ids.clone(),
        Kind::Seq2seq | Kind::Encoder | Kind::Classifier => Vec::new(),
    }
}

fn prompt(writer: &Writer, number: usize) -> Prompt {
    Prompt::Text(writer.texts[number].text.clone())
}

/// All runs of one kind of a checkpoint, requested at once and compared.
fn compare<'a>(
    what: &str,
    runs: impl Fn(&'a Writer) -> Vec<(Generate, u64, usize, (String, Vec<u32>), &'a Run)>,
    all: &'a [(PathBuf, Writer, Tokenizer)],
) {
    let mut compared = 0;
    for (folder, writer, tokenizer) in all {
        let runs = runs(writer);
        let requests: Vec<(Request, u64)> =
            runs.iter().map(|(it, row, ..)| (Request::Generate(it.clone()), *row)).collect();
        let answers = ask_all(&open(folder), &requests);
        for (answer, (_, _, sample, (prefix, before), run)) in answers.into_iter().zip(&runs) {
            let ours = &generations(answer)[*sample];
            check(what, folder, (writer, tokenizer), (prefix, before), run, ours);
            compared += 1;
        }
    }
    assert!(compared > 0, "{what}");
}

#[test]
fn greedy_answers_are_those_of_transformers() {
    let greedy = |writer: &'static Writer| {
        let run = |it: &'static golden::Greedy| {
            let before = (String::new(), before(writer, it.text));
            (generate(prompt(writer, it.text), Strategy::Greedy), 0, 0, before, &it.run)
        };
        writer.greedy.iter().map(run).collect()
    };
    compare("greedy", greedy, Box::leak(Box::new(writers())));
}

#[test]
fn answers_with_a_given_beginning_are_those_of_transformers() {
    for (folder, writer, tokenizer) in writers() {
        let request = |it: &golden::Prefixed| {
            let generate = generate(prompt(&writer, it.text), Strategy::Greedy);
            (Request::Generate(Generate { prefix: it.prefix.clone(), ..generate }), 0)
        };
        let requests: Vec<_> = writer.prefixed.iter().map(request).collect();
        let answers = ask_all(&open(&folder), &requests);
        for (answer, it) in answers.into_iter().zip(&writer.prefixed) {
            let forced = &it.forced;
            let before = [&before(&writer, it.text)[..], forced].concat();
            let mut ours = generations(answer).remove(0);
            // As it was given, whatever the tokenizer reads back.
            let after = ours.text.strip_prefix(&it.prefix);
            ours.text = after.unwrap_or_else(|| panic!("{folder:?}: {:?}", ours.text)).to_owned();
            check("prefixed", &folder, (&writer, &tokenizer), ("", &before), &it.run, &ours);
        }
    }
}

#[test]
fn samples_are_those_that_the_noise_defines() {
    let sampled = |writer: &'static Writer| {
        let mut runs = Vec::new();
        for setting in &writer.sampled {
            let samples = setting.runs.iter().map(|it| it.sample + 1).max().unwrap();
            for it in &setting.runs {
                let strategy = Strategy::Sample {
                    temperature: setting.temperature,
                    top_k: setting.top_k,
                    top_p: setting.top_p,
                    seed: setting.seed,
                    samples: samples as u32,
                };
                let before = (String::new(), before(writer, it.text));
                let generate = generate(prompt(writer, it.text), strategy);
                runs.push((generate, it.row, it.sample as usize, before, &it.run));
            }
        }
        runs
    };
    compare("sampled", sampled, Box::leak(Box::new(writers())));
}

#[test]
fn beams_are_those_of_transformers() {
    for (folder, writer, tokenizer) in writers() {
        let model = open(&folder);
        for setting in &writer.beam {
            let strategy = Strategy::Beam {
                beams: setting.beams,
                answers: setting.answers,
                length_penalty: setting.length_penalty,
                early_stopping: setting.early_stopping,
            };
            let requests: Vec<_> = setting
                .runs
                .iter()
                .map(|it| (Request::Generate(generate(prompt(&writer, it.text), strategy)), 0))
                .collect();
            for (answer, run) in ask_all(&model, &requests).into_iter().zip(&setting.runs) {
                if !run.stable {
                    continue;
                }
                let ours = generations(answer);
                assert_eq!(ours.len(), run.answers.len(), "{folder:?}");
                for (ours, theirs) in ours.iter().zip(&run.answers) {
                    let before = before(&writer, run.text);
                    let expected = text(&writer, &tokenizer, &before, &theirs.tokens);
                    assert_eq!(ours.text, expected, "{folder:?} beam");
                    let near = |a: Option<f64>, b: f64| (a.unwrap() - b).abs() < LOGPROB_TOLERANCE;
                    assert!(near(ours.score, theirs.score), "{folder:?} {ours:?}");
                    // In a beam search a forced token weighs nothing.
                    let forced = writer.prefixed.is_empty();
                    assert!(forced || near(ours.logprob, theirs.logprob), "{folder:?} {ours:?}");
                }
            }
        }
    }
}

#[test]
fn passages_read_together_give_the_answers_of_transformers() {
    let fused = |writer: &'static Writer| {
        let run = |it: &'static golden::Fusion| {
            let prompt = Prompt::Passages(it.passages.clone());
            (generate(prompt, Strategy::Greedy), 0, 0, (String::new(), Vec::new()), &it.run)
        };
        writer.fusion.iter().map(run).collect()
    };
    compare("fused", fused, Box::leak(Box::new(writers())));
}

#[test]
fn continuations_are_as_likely_as_in_transformers() {
    for (folder, writer, _) in writers() {
        let model = open(&folder);
        for include_eos in [false, true] {
            let request = |it: &golden::Scores| {
                let score = Score {
                    prompt: writer.texts[it.text].text.clone(),
                    truncate: None,
                    continuations: it.continuations.iter().map(|it| it.text.clone()).collect(),
                    include_eos,
                    messages: Vec::new(),
                    logprobs: false,
                    prompt_logprobs: false,
                };
                (Request::Score(score), 0)
            };
            let requests: Vec<_> = writer.scores.iter().map(request).collect();
            for (answer, theirs) in ask_all(&model, &requests).into_iter().zip(&writer.scores) {
                let Body::Scores(scores) = answer.unwrap().body else { panic!("no scores") };
                assert_eq!(scores.len(), theirs.continuations.len());
                for (ours, theirs) in scores.iter().zip(&theirs.continuations) {
                    let end = if include_eos { theirs.end_logprob } else { 0.0 };
                    let expected = theirs.logprob + end;
                    let error = (ours.logprob - expected).abs();
                    assert!(error < LOGPROB_TOLERANCE, "{folder:?} {ours:?}, not {expected}");
                    assert_eq!(
                        ours.tokens as usize,
                        theirs.tokens.len() + usize::from(include_eos)
                    );
                    if !include_eos && theirs.gap > GAP_MIN {
                        assert_eq!(ours.is_greedy, theirs.is_greedy, "{folder:?}");
                    }
                }
            }
        }
    }
}
